"""Which boxes are still open, which come next, and how long may it take? For everybody who cuts the domain into boxes.

The search for a proof, the measurement of shares and the search for a proof tree decide boxes in different ways. What
they have in common is here: an order, a deadline, a bound on memory, progress, and a state that an interrupt cannot
leave half-way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from bornfair.verification.boxes import Boxes
from bornfair.verification.clock import Clock
from bornfair.verification.workers import ALONE, Workers

TIME_IS_UP = "time is up"
INTERRUPTED = "interrupted"
TOO_CLOSE = "what is left is too close to the decision boundary to be told in this arithmetic"
MOVED = 32  # all open boxes are moved when some are replaced, so at least one in so many of them is

Waiting = TypeVar("Waiting", bound=Sized)
Tally = TypeVar("Tally")


class Frontier(Generic[Waiting, Tally]):
    """Boxes that wait to be decided, and a tally of those that were."""

    def __init__(self, open_: Waiting, tally: Tally, clock: Clock, most_open: float = float("inf")) -> None:
        """`most_open`: beyond so many boxes memory runs short."""
        self.clock, self.most_open = clock, most_open
        self.seconds_each = 0.0  # for one box, in the last batch
        self._state = open_, tally  # replaced by one assignment, so that an interrupt finds both or neither

    @property
    def open(self) -> Waiting:
        return self._state[0]

    @property
    def tally(self) -> Tally:
        return self._state[1]

    def become(self, open_: Waiting, tally: Tally) -> None:
        self._state = open_, tally

    @property
    def is_full(self) -> bool:
        return len(self.open) > self.most_open

    def work(
        self,
        step: Callable[[], str | None],
        progress: Callable[[], str],
        reserve: Callable[[], float] = lambda: 0.0,
    ) -> str | None:
        """Take steps until one says why to stop, or time is up but for a reserve; None when no box is open."""
        while len(self.open):
            if self.clock.left <= reserve():
                return TIME_IS_UP
            self.clock.report(progress)
            reason = step()
            if reason is not None:
                return reason
        return None

    def wave(self: Frontier[Boxes, Tally], by: str, least: int, most: int = sys.maxsize) -> np.ndarray:
        """Which boxes come next: those with most of the fact `by`; the newest, depth-first, where memory is short."""
        count = len(self.open)
        size = min(max(least, count // MOVED), most, count)
        if size == count or self.is_full:
            return np.arange(count - size, count)
        return np.argpartition(self.open.facts[by], count - size)[count - size :]

    def replace(
        self: Frontier[Boxes, Tally],
        rows: np.ndarray,
        batch: int,
        decide: Callable[[Tally, Any], tuple[Tally, Boxes]],
        reserve: Callable[[], float] = lambda: 0.0,
        look: Callable[[Boxes], Any] = lambda boxes: boxes,
        workers: Workers = ALONE,
    ) -> None:
        """Put in the place of these boxes what is open of them after `decide`, batch by batch as far as time allows.

        `decide` is given the batches in order, or what a `look` at each of them found, which workers may take side by
        side. Batches are smaller where a whole one would take longer than there is time.
        """

        def batches() -> Iterator[np.ndarray]:
            start = 0
            while start < len(rows):
                time_left = self.clock.deadline - self.clock.now() - reserve()
                if start and time_left <= 0:
                    return
                count = batch
                if self.seconds_each > 0 and batch * self.seconds_each > time_left:
                    count = max(int(time_left / self.seconds_each), 1)
                yield rows[start : start + count]
                start += count

        def looked(some: np.ndarray) -> tuple[np.ndarray, Any, float]:
            began = self.clock.now()
            return some, look(self.open[some]), began

        rest, tally, fresh = np.ones(len(self.open), bool), self.tally, []
        for some, found, began in workers.ordered(looked, batches()):
            tally, left = decide(tally, found)
            self.seconds_each = (self.clock.now() - began) / len(some)
            rest[some] = False
            fresh.append(left)
        self.become(Boxes.joined(self.open[rest], *fresh), tally)
