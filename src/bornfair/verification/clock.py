"""How much time is left, and who is told what? One clock for every engine that has a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Say = Callable[[str], None]
"""Where progress is told."""

SPEAK_EVERY = 1.0  # seconds
Task = TypeVar("Task")


class Clock:
    """Counts from now; `listener` is told how far it is."""

    def __init__(self, timeout: float = math.inf, listener: Say | None = None) -> None:
        self.began, self.timeout, self.listener = time.monotonic(), timeout, listener
        self.deadline, self.spoken = self.began + timeout, 0.0

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

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
        now = time.monotonic()
        if self.listener is not None and (at_once or now - self.began - self.spoken >= SPEAK_EVERY):
            self.spoken = now - self.began
            self.listener(f"{progress()}, at most {max(self.deadline - now, 0.0):.0f} s left")
