"""Is a forest fair for everyone? Boxes of cells are bounded and cut until all are decided, or two twins are found.

Boxes in which no version can be told from another, or all versions surely get one class, are done. The others are
looked at in their middle, and cut where the trees that spread most split (`bornfair.models.forest.bounds.branching`).
What is left of everybody when time is up is said as a share of the domain, each cell weighing as much as it holds.
"""

from __future__ import annotations

import numpy as np

from bornfair.core.clock import Clock, Timeout
from bornfair.models.forest.bounds.branching import Branching
from bornfair.models.forest.bounds.judge import Bounds, Judge, told_apart
from bornfair.models.verdict import Verdict
from bornfair.people.space.boxes import Boxes
from bornfair.verification.forest_attack import shown_twins, worth
from bornfair.verification.frontier import Frontier
from bornfair.verification.loop import ENGINE, BoxTally, Falsified, Waiting, search_boxes
from bornfair.verification.replay import falsified

BATCH = 256
MEMORY = 2**29  # bytes of open boxes


def search_forest(judge: Judge, *, timeout: Timeout = 60.0, most_boxes: float = float("inf")) -> Verdict:
    """Verified, falsified with twins, or undecided with the share that is decided, of the people the judge knows."""
    width = len(judge.sizes)
    root = Boxes(np.zeros((1, width), np.int64), (judge.sizes - 1)[None])
    root = root.knowing(hope=np.zeros(1), feature=np.zeros(1, np.int64), cut=np.zeros(1, np.int64))
    most_open = MEMORY // (16 * width + 16)
    waiting: Waiting = Frontier(root, BoxTally(), Clock.of(timeout), most_open, lambda: waiting.shelve_half("hope"))
    return search_boxes(_Cells(judge), waiting, most_boxes)


class _Cells:
    """The boxes of cells of a forest. Open ones know where they are to be cut."""

    batch, look, partitions = BATCH // 2, None, False

    def __init__(self, judge: Judge) -> None:
        self.judge, self.branching = judge, Branching(judge)
        self.upto = [
            np.concatenate([[0.0], np.cumsum(widths)]) / max(widths.sum(), 1e-300)
            for widths in (
                judge.cells.features[i].widths * ok for i, ok in zip(judge.cells.free, judge.cells.inside, strict=True)
            )
        ]
        self.whom = ("these people", "these people") if judge.cells.where else ("everybody", "the domain")

    def begin(self, waiting: Waiting) -> None:
        waiting.replace(np.arange(1), 1, self._judged)

    def choose(self, waiting: Waiting, most: float) -> tuple[np.ndarray, None]:
        return waiting.wave("hope", self.batch), None

    def take(self, tally: BoxTally, found: Boxes) -> tuple[BoxTally, Boxes]:
        return self._judged(tally, cut_boxes(found))

    def _judged(self, tally: BoxTally, boxes: Boxes) -> tuple[BoxTally, Boxes]:
        judge = self.judge
        if judge.cells.where:
            boxes = Boxes(*judge.cells.narrowed(boxes.low, boxes.high)[:2])
        masks = judge.bits.shared(boxes.low, boxes.high)
        found = judge.bounds(boxes.low, boxes.high, masks)
        open_ = np.flatnonzero(~found.fair)
        middles = (boxes.low[open_] + boxes.high[open_]) // 2
        decided, margins = judge.decided(middles)
        single = (boxes.low[open_] == boxes.high[open_]).all(axis=1)
        known = (decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1)
        share = self._share(boxes)
        fair = float(share[found.fair].sum() + share[open_[single & known]].sum())
        tally = tally.plus(len(boxes), fair, share[open_[single & ~known]])
        for i in np.flatnonzero(told_apart(decided) & judge.cells.within(middles)):
            if (twins := shown_twins(judge, middles[i], decided[i])) is not None:
                reason = f"found by cutting {tally.boxes:,} boxes of cells"
                raise Falsified(falsified(judge.model, twins, engine=ENGINE, reason=reason), tally.boxes)
        left = open_[~single]
        some = Bounds(*(getattr(found, name)[left] for name in Bounds.__annotations__))
        feature, cut = split_of(self.branching, boxes.low[left], boxes.high[left], masks[left], some)
        return tally, boxes[left].knowing(hope=-worth(margins[~single]), feature=feature, cut=cut)

    def _share(self, boxes: Boxes) -> np.ndarray:
        found = np.ones(len(boxes))
        for i, upto in enumerate(self.upto):
            found *= upto[boxes.high[:, i] + 1] - upto[boxes.low[:, i]]
        return found

    def end(self, waiting: Waiting) -> None:
        pass

    def progress(self, waiting: Waiting) -> str:
        tally = waiting.tally
        return f"{100 * tally.decided:.2f} % decided, {tally.boxes:,} boxes bounded, {waiting.count:,} open"

    def verified(self, tally: BoxTally) -> Verdict:
        cover = f"{tally.boxes:,} boxes of cells between thresholds cover {self.whom[0]}"
        text = f"{cover}, and in each twins are decided alike"
        return Verdict("verified", "bounds", ENGINE, self.judge.arithmetic, text)

    def left(self, why: str, waiting: Waiting) -> str:
        share = 100 * min(waiting.tally.decided, 1.0)
        return f"{why}; {share:.3g} % of {self.whom[1]} is decided, and all of that is fair"


def cut_boxes(boxes: Boxes) -> Boxes:
    """The halves of boxes that know where to be cut."""
    feature, cut = boxes.facts["feature"], boxes.facts["cut"]
    rows = np.arange(len(boxes))
    below, above = boxes.high.copy(), boxes.low.copy()
    below[rows, feature], above[rows, feature] = cut, cut + 1
    return Boxes(np.concatenate([boxes.low, above]), np.concatenate([below, boxes.high]))


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
