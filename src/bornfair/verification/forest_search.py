"""Is a forest fair for everyone? Boxes of cells are bounded and cut until all are decided, or two twins are found.

Boxes in which no version can be told from another, or all versions surely get one class, are done. The others are
looked at in their middle, and cut where the trees that spread most split (`bornfair.models.forest.bounds.branching`).
What is left of everybody when time is up is said as a share of the domain, each cell weighing as much as it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bornfair.core.clock import Clock, Timeout
from bornfair.models.forest.bounds.branching import Branching
from bornfair.models.forest.bounds.judge import Bounds, Judge, told_apart
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.space.boxes import Boxes
from bornfair.verification.forest_attack import shown_twins, worth
from bornfair.verification.frontier import INTERRUPTED, TOO_CLOSE, Frontier
from bornfair.verification.replay import Replay, falsified

BATCH = 256
MEMORY = 2**29  # bytes of open boxes


@dataclass(frozen=True)
class Tally:
    """Boxes that were bounded, the share of everybody in those that are fair, and in those too close to call."""

    boxes: int = 0
    fair: float = 0.0
    stuck: float = 0.0
    any_stuck: bool = False  # whose share may be too small for a float
    twins: Replay | None = None


def search_forest(judge: Judge, *, timeout: Timeout = 60.0, most_boxes: float = float("inf")) -> Verdict:
    """Verified, falsified with twins, or undecided with the share that is decided, of the people the judge knows."""
    clock = Clock.of(timeout)
    search = _Search(judge, clock, most_boxes)
    try:
        reason = search.run()
    except KeyboardInterrupt:
        reason = INTERRUPTED
    tally = search.frontier.tally
    facts: dict[str, Any] = {"boxes": tally.boxes, "seconds": clock.spent}
    if tally.twins is not None:
        return falsified(
            judge.model,
            tally.twins,
            engine="bounds",
            reason=f"found by cutting {tally.boxes:,} boxes of cells",
            **facts,
        )
    whom = ("these people", "these people") if judge.cells.where else ("everybody", "the domain")
    if reason is None and not tally.any_stuck:
        text = f"{tally.boxes:,} boxes of cells between thresholds cover {whom[0]}, and in each twins are decided alike"
        return Verdict("verified", "bounds", "bounds", judge.arithmetic, text, **facts)
    why = reason or TOO_CLOSE
    decided = f"{why}; {100 * min(tally.fair, 1.0):.3g} % of {whom[1]} is decided, and all of that is fair"
    return replace(undecided("bounds", decided), **facts)


class _Search:
    def __init__(self, judge: Judge, clock: Clock, most_boxes: float) -> None:
        self.judge, self.branching, self.most_boxes = judge, Branching(judge), most_boxes
        self.upto = [
            np.concatenate([[0.0], np.cumsum(widths)]) / max(widths.sum(), 1e-300)
            for widths in (
                judge.cells.features[i].widths * ok for i, ok in zip(judge.cells.free, judge.cells.inside, strict=True)
            )
        ]
        width = len(judge.sizes)
        root = Boxes(np.zeros((1, width), np.int64), (judge.sizes - 1)[None])
        root = root.knowing(hope=np.zeros(1), feature=np.zeros(1, np.int64), cut=np.zeros(1, np.int64))
        self.frontier: Frontier[Boxes, Tally] = Frontier(
            root, Tally(), clock, MEMORY // (16 * width + 16), lambda: self.frontier.shelve_half("hope")
        )

    def run(self) -> str | None:
        frontier = self.frontier
        frontier.replace(np.arange(1), 1, self._decided)
        return frontier.work(self._step, self._progress)

    def _step(self) -> str | None:
        frontier = self.frontier
        if frontier.tally.twins is not None:
            return "twins were found"
        if frontier.tally.boxes >= self.most_boxes:
            return "enough boxes were bounded"
        frontier.replace(frontier.wave("hope", BATCH // 2), BATCH // 2, self._cut)
        return None

    def _progress(self) -> str:
        tally = self.frontier.tally
        return f"{100 * tally.fair:.2f} % decided, {tally.boxes:,} boxes bounded, {self.frontier.count:,} open"

    def _cut(self, tally: Tally, boxes: Boxes) -> tuple[Tally, Boxes]:
        if tally.twins is not None:
            return tally, boxes
        feature, cut = boxes.facts["feature"], boxes.facts["cut"]
        rows = np.arange(len(boxes))
        below, above = boxes.high.copy(), boxes.low.copy()
        below[rows, feature], above[rows, feature] = cut, cut + 1
        halves = Boxes(np.concatenate([boxes.low, above]), np.concatenate([below, boxes.high]))
        return self._decided(tally, halves)

    def _decided(self, tally: Tally, boxes: Boxes) -> tuple[Tally, Boxes]:
        """What is still open of some boxes; where twins are found, they go to the tally."""
        judge = self.judge
        if judge.cells.where:
            boxes = Boxes(*judge.cells.narrowed(boxes.low, boxes.high)[:2])
        masks = judge.bits.shared(boxes.low, boxes.high)
        found = judge.bounds(boxes.low, boxes.high, masks)
        open_ = np.flatnonzero(~found.fair)
        middles = (boxes.low[open_] + boxes.high[open_]) // 2
        decided, margins = judge.decided(middles)
        single = (boxes.low[open_] == boxes.high[open_]).all(axis=1)
        unfair = np.flatnonzero(told_apart(decided) & judge.cells.within(middles))
        twins = tally.twins
        for i in unfair:
            twins = twins or shown_twins(judge, middles[i], decided[i])
        known = (decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1)
        share = self._share(boxes)
        settled = single & known
        stuck = single & ~known
        tally = Tally(
            tally.boxes + len(boxes),
            tally.fair + float(share[found.fair].sum() + share[open_[settled]].sum()),
            tally.stuck + float(share[open_[stuck]].sum()),
            tally.any_stuck or bool(stuck.any()),
            twins,
        )
        rest = ~single
        left = open_[rest]
        some = Bounds(*(getattr(found, name)[left] for name in Bounds.__annotations__))
        feature, cut = split_of(self.branching, boxes.low[left], boxes.high[left], masks[left], some)
        return tally, boxes[left].knowing(hope=-worth(margins[rest]), feature=feature, cut=cut)

    def _share(self, boxes: Boxes) -> np.ndarray:
        found = np.ones(len(boxes))
        for i, upto in enumerate(self.upto):
            found *= upto[boxes.high[:, i] + 1] - upto[boxes.low[:, i]]
        return found


def split_of(
    branching: Branching, low: np.ndarray, high: np.ndarray, masks: np.ndarray, found: Bounds
) -> tuple[np.ndarray, np.ndarray]:
    """Where to cut open boxes of more than one cell: the free feature, and the last cell of its lower part."""
    bits, boxes = branching.judge.bits, len(low)
    if not boxes:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows = np.arange(boxes)
    lead = found.low[..., 0] if bits.outputs == 1 else found.low.max(axis=2)
    ends = found.high[..., 0] if bits.outputs == 1 else found.high.max(axis=2)
    versions = lead.argmin(axis=1), ends.argmax(axis=1)
    own, spreads = bits.of_versions(masks, low, high), []
    for version in versions:
        least, most = bits.unit_ends(own[rows, version])
        spreads.append(most - least)
    least, most = bits.unit_ends(masks[:, bits.acting_words :], bits.acting_words)
    feature, cut = branching.chosen(low, high, versions, [*spreads, most - least])
    widest = np.argmax(high - low, axis=1)  # where these versions do not part, others may
    none = feature < 0
    middle = (low[rows, widest] + high[rows, widest]) // 2
    return np.where(none, widest, feature), np.where(none, middle, cut)
