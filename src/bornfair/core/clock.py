"""Time limits and progress: one clock for a whole question; its parts get parts of its time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Say = Callable[[str], None]
"""Where progress is told."""

SPEAK_EVERY = 1.0  # seconds
Task = TypeVar("Task")


class TimeIsUp(Exception):
    """Raised by `Clock.check`: what is under way cannot be used half-done."""


class Clock:
    """Counts from now; `listener` is told how far it is.

    A function with a time limit makes one first, before anything is read, and passes it down; each phase gets a `part`.
    `now` tells the time.

    >>> seconds = iter([0.0, 1.0, 3.0, 3.0, 9.0])
    >>> whole = Clock(10.0, now=lambda: next(seconds))
    >>> part = whole.part(0.5)  # begun after 1 s: half of the 9 that are left
    >>> part.timeout, part.left
    (4.5, 2.5)
    """

    def __init__(
        self, timeout: float = math.inf, listener: Say | None = None, *, now: Callable[[], float] | None = None
    ) -> None:
        self.now, self.timeout, self.listener = now or time.monotonic, timeout, listener
        self.began = self.now()
        self.deadline, self.spoken = self.began + timeout, 0.0

    @staticmethod
    def of(timeout: Timeout, listener: Say | None = None) -> Clock:
        """The clock that is running already, or one of so many seconds from now on."""
        if isinstance(timeout, Clock):
            return timeout
        return Clock(timeout, listener)

    @staticmethod
    def of_processor(seconds: float) -> Clock:
        """A clock of the seconds this process computes: for measurements that others' work should not change."""
        return Clock(seconds, now=time.process_time)

    @property
    def spent(self) -> float:
        return self.now() - self.began

    @property
    def left(self) -> float:
        return self.deadline - self.now()

    @property
    def is_up(self) -> bool:
        return self.left <= 0

    def restart(self) -> None:
        """Count from now on, for as long as it was given."""
        self.began = self.now()
        self.deadline, self.spoken = self.began + self.timeout, 0.0

    def check(self) -> None:
        """Give up if time is up."""
        if self.is_up:
            raise TimeIsUp

    def part(self, share: float = 1.0, *, most: float = math.inf) -> Clock:
        """A clock for a part of the work: that share of the time that is left, and no more than so many seconds."""
        now = self.now()
        seconds = max(min(share * (self.deadline - now), most), 0.0)
        found = Clock(seconds, self.listener, now=self.now)
        found.began, found.deadline = now, now + seconds
        return found

    def before(self, reserve: float) -> Clock:
        """A clock for what comes first, where so many seconds are to be left."""
        return self.part(most=max(self.left - reserve, 0.0))

    def shared(self, tasks: Sequence[Task], part: float = 1.0) -> Iterator[tuple[Task, float]]:
        """Each task with the seconds it may take: what is left of that part of the time, shared by those to come."""
        until = self.spent + part * self.left
        for done, task in enumerate(tasks):
            yield task, (until - self.spent) / (len(tasks) - done)

    def say(self, text: str, *, every: float = 0.0, digits: int = 1) -> None:
        """Tell it, with the seconds before it, unless something was told less than `every` seconds ago."""
        if self.listener is not None and self.spent - self.spoken >= every:
            self.spoken = self.spent
            self.listener(f"{self.spent:.{digits}f} s: {text}")

    def report(self, progress: Callable[[], str], *, at_once: bool = False) -> None:
        """Tell how far it is and how long it may still take, once a second at most."""
        now = self.now()
        if self.listener is not None and (at_once or now - self.began - self.spoken >= SPEAK_EVERY):
            self.spoken = now - self.began
            self.listener(f"{progress()}, at most {max(self.deadline - now, 0.0):.0f} s left")


Timeout = float | Clock
"""Seconds from now on, or a clock that is running already."""
