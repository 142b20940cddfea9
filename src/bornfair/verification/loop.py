"""One branch-and-bound search over boxes of the domain, for all kinds of model.

A kind says how boxes are judged and cut (`Space`). The tally, the reasons to stop and the verdict are here.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bornfair.models.verdict import Verdict, undecided
from bornfair.parallel import ALONE, Workers
from bornfair.people.space.boxes import Boxes
from bornfair.verification.frontier import INTERRUPTED, TOO_CLOSE, Frontier, Look

ENGINE = "bounds"
ENOUGH = "enough boxes were bounded"


@dataclass(frozen=True)
class BoxTally:
    """The boxes that were judged, and what shares of the domain are decided and too close to call."""

    boxes: int = 0
    decided: float = 0.0
    stuck: float = 0.0
    any_stuck: bool = False  # whose share may be too small for a float
    real_only: bool = False  # float32 could not be shown somewhere
    rounds: int = 0

    def plus(self, boxes: int, decided: float, stuck: np.ndarray, *, real_only: bool = False) -> BoxTally:
        """With more boxes; `stuck` are the shares of those that are too close to call."""
        return BoxTally(
            self.boxes + boxes, self.decided + decided, self.stuck + float(stuck.sum()),
            self.any_stuck or bool(len(stuck)), self.real_only or real_only, self.rounds,
        )  # fmt: skip


Waiting = Frontier[Boxes, BoxTally]


class Falsified(Exception):
    """Twins who are decided differently end the search. `boxes`: how many led to them, if not those of all rounds."""

    def __init__(self, verdict: Verdict, boxes: int | None = None) -> None:
        self.verdict, self.boxes = verdict, boxes


class Space(Protocol):
    """What a kind of model provides to be searched."""

    batch: int
    """Boxes that are judged together."""
    partitions: bool
    """Whether the verdict counts boxes as partitions, too."""

    @property
    def look(self) -> Look | None:
        """What workers do with a batch. Without it, `take` is given the boxes themselves."""

    def begin(self, waiting: Waiting) -> None:
        """Judge the whole, where that is done before the first round."""

    def choose(self, waiting: Waiting, most: float) -> tuple[np.ndarray, Any]:
        """The next boxes, about `most` of them at most, and what a look at them should know."""

    def take(self, tally: BoxTally, found: Any) -> tuple[BoxTally, Boxes]:
        """The tally after a batch, and the boxes that are still open. Raises Falsified."""

    def end(self, waiting: Waiting) -> None:
        """Keep what a later search needs."""

    def progress(self, waiting: Waiting) -> str: ...

    def verified(self, tally: BoxTally) -> Verdict: ...

    def left(self, why: str, waiting: Waiting) -> str:
        """Why the search is undecided, and how far it got."""


def search_boxes(space: Space, waiting: Waiting, stop_after: float, workers: Workers = ALONE) -> Verdict:
    """Verified when every box is decided, falsified with twins, undecided when time or boxes (`stop_after`) run out."""

    def step() -> str | None:
        if waiting.tally.boxes >= stop_after:
            return ENOUGH
        rows, note = space.choose(waiting, stop_after - waiting.tally.boxes)
        waiting.replace(rows, space.batch, space.take, look=space.look, workers=workers, note=note)
        waiting.become(waiting.open, dataclasses.replace(waiting.tally, rounds=waiting.tally.rounds + 1))
        return None

    def counted(verdict: Verdict, boxes: int) -> Verdict:
        parts = boxes if space.partitions else 1
        return dataclasses.replace(verdict, boxes=boxes, partitions=parts, seconds=waiting.clock.spent)

    try:
        space.begin(waiting)
        stopped = waiting.work(step, lambda: space.progress(waiting))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    except Falsified as found:
        return counted(found.verdict, found.boxes or max(waiting.tally.boxes, 1))
    space.end(waiting)
    tally = waiting.tally
    if not waiting.count and not tally.any_stuck:
        return counted(space.verified(tally), tally.boxes)
    why = stopped if waiting.count and stopped else TOO_CLOSE
    return counted(undecided(ENGINE, space.left(why, waiting)), tally.boxes)
