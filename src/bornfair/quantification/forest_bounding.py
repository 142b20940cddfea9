"""What is decided of boxes of cells, and what is open? The work on a forest's boxes that is done side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.forest.bounds.branching import Branching
from bornfair.models.forest.bounds.judge import Bounds, Judge, told_apart
from bornfair.models.forest.shares.panel import Panel
from bornfair.models.forest.shares.weights import CellWeights
from bornfair.people.space.boxes import Boxes
from bornfair.quantification.tally import Tally, waiting
from bornfair.verification.forest_search import cut_boxes, split_of
from bornfair.verification.frontier import Look, Portion


@dataclass(frozen=True, eq=False)
class ForestHalving(Look):
    """Cuts boxes in two, and bounds the halves."""

    judge: Judge
    weights: CellWeights
    branching: Branching
    panel: Panel | None
    few: int
    """Sums of one version in a box that are looked at one by one rather than cut apart."""

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        return self.bounded(cut_boxes(portion.boxes))

    def bounded(self, boxes: Boxes) -> tuple[Tally, Boxes]:
        """What is decided of some boxes, and what is still open."""
        judge, mass = self.judge, self.weights.mass(boxes.low, boxes.high)
        boxes, mass = boxes[mass > 0], mass[mass > 0]
        masks = judge.bits.shared(boxes.low, boxes.high)
        found = judge.bounds(boxes.low, boxes.high, masks)
        fair, unfair = found.fair, found.unfair & ~found.fair
        left = ~(fair | unfair)
        count = np.prod((boxes.high - boxes.low + 1).astype(np.float64), axis=1)
        few = left & ((count * judge.versions <= self.few) | (count == 1))
        one_by_one = self._one_by_one(boxes[few])
        left = np.flatnonzero(left & ~few)
        tally = Tally(
            certified=float(mass[fair].sum()) + one_by_one[0],
            falsified=float(mass[unfair].sum()) + one_by_one[1],
            stuck=one_by_one[2],
            boxes=len(boxes),
        )
        rest, undecided = boxes[left], mass[left].copy()
        feature, cut = np.full(len(left), -1), np.zeros(len(left), np.int64)
        for i in range(len(rest)):
            if self.panel is None:
                break
            outlook = self.panel.outlook(rest.low[i], rest.high[i])
            undecided[i] *= outlook.undecided
            feature[i], cut[i] = outlook.feature, outlook.cut
        blind = np.flatnonzero(feature < 0)  # no feature matters by itself
        some = Bounds(*(getattr(found, name)[left[blind]] for name in Bounds.__annotations__))
        feature[blind], cut[blind] = split_of(
            self.branching, rest.low[blind], rest.high[blind], masks[left[blind]], some
        )
        return tally, waiting(rest, mass[left], undecided, feature=feature, cut=cut)

    def _one_by_one(self, boxes: Boxes) -> tuple[float, float, float]:
        """The masses of fair, unfair and unclear people of small boxes."""
        if not len(boxes):
            return 0.0, 0.0, 0.0
        points = np.concatenate([_points(low, high) for low, high in zip(boxes.low, boxes.high, strict=True)])
        decided, _ = self.judge.decided(points)
        mass, unfair = self.weights.mass(points, points), told_apart(decided)
        fair = ~unfair & (decided >= 0).all(axis=1)
        return float(mass[fair].sum()), float(mass[unfair].sum()), float(mass[~(fair | unfair)].sum())


@dataclass(frozen=True, eq=False)
class ForestCrediting(Look):
    """Proves by moments what it can of parts of boxes: lower bounds of the shares that are certified and falsified."""

    panel: Panel

    def look(self, portion: Portion) -> np.ndarray:
        boxes = portion.boxes
        found = [self.panel.credit(low, high) for low, high in zip(boxes.low, boxes.high, strict=True)]
        return np.array([(one.certified, one.falsified) for one in found]).reshape(-1, 2)


def write_credit(boxes: Boxes, which: np.ndarray, found: np.ndarray) -> None:
    """Write down beside boxes the shares that are proven of them."""
    facts = boxes.facts
    mass, (certified, falsified) = facts["mass"][which], found.T
    facts["certified"][which], facts["falsified"][which] = certified, falsified
    facts["undecided"][which] = np.maximum(mass * (1 - certified - falsified), 0.0)


def _points(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    grid = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)), indexing="ij")
    return np.stack([part.ravel() for part in grid], axis=1) if grid else np.zeros((1, 0), np.int64)
