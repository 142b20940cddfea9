"""Shares of the domain that a forest provably treats fairly, provably does not, and that are left open.

Boxes of cells are cut, those with most undecided people first. Bounds on trees decide boxes as a whole; boxes of few
cells are decided one by one. In the others, means and variances of the scores (`bornfair.models.forest.shares.panel`)
choose the cut, and prove parts of what is open in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Unpack

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.forest.bounds.judge import Branching, Judge, halves, told_apart
from bornfair.models.forest.model import ForestModel
from bornfair.models.forest.shares.panel import Panel
from bornfair.models.forest.shares.weights import CellWeights
from bornfair.parallel import Jobs, Workers
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import Marginal
from bornfair.quantification.confident import Draw, FirstSample, Sample
from bornfair.quantification.measuring import (
    Allowance,
    Measurement,
    MeasureOptions,
    Tally,
    added,
    all_certified,
    waiting,
)
from bornfair.quantification.records import Shares
from bornfair.verification.frontier import TIME_IS_UP, TOO_CLOSE, Look, Portion

SAMPLES = 100_000
SAMPLING = 0.05  # share of the time it may take
MORE = 64  # times as many people are drawn from what is open, at most
CONFIDING = 0.15  # share of the time for drawing from what is open
MAKING = 0.4  # share of the time that may go into tables for crediting boxes; without these, boxes are only cut
BATCH = 64
TASK = 8  # boxes that are cut by one worker
FEW = 4096  # sums of one version in a box that are looked at one by one rather than cut apart
WORDS = 1 << 22  # of bits that are looked at between two looks at the clock
MEMORY = 2**29  # bytes of open boxes
CREDITED_PER_SECOND = 20.0  # boxes, until it has been measured
PACED = 24  # open boxes when that is first done, with a few of them:
TRIED = 6
MARGIN = 1.1  # it may turn out slower


def shares_of_forest(
    model: ForestModel,
    *,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    moments: bool = True,
    jobs: Jobs = None,
    **options: Unpack[MeasureOptions],
) -> Shares:
    """The same as `bornfair.quantification.measure.shares_of` for a forest.

    What is proven holds in real arithmetic and as the forest adds up. moments=False leaves it at bounds on trees, which
    is what plain splitting of boxes does.
    """
    allowance = Allowance.of(SAMPLES, MORE, **options)
    model.domain.require_sensitive()
    judge = Judge.of(model, where)
    crowd = ForestCrowd(judge, CellWeights.of(judge.cells, marginals))
    began, clock = allowance.clock.now(), allowance.part(SAMPLING)
    sample = Sample.of(FirstSample.drawn(allowance.samples, crowd.sampling(allowance.rng), clock))
    pace = (allowance.clock.now() - began) / sample.count
    if proof := judge.structure():
        found = all_certified(crowd.weights, proof.reason, sample)
    else:
        from threadpoolctl import threadpool_limits

        with Workers.lent(jobs) as workers, threadpool_limits(1, "blas"):
            if workers.jobs > 1:
                crowd = ForestCrowd(judge.sendable, CellWeights.of(judge.sendable.cells, marginals))
            found = _ForestMeasurement(crowd, sample, allowance, workers, pace, moments=moments).run()
    return allowance.told(found, judge.model, judge.arithmetic, where or None, "forest")


class _ForestMeasurement(Measurement):
    def __init__(
        self, crowd: ForestCrowd, sample: Sample, allowance: Allowance, workers: Workers, pace: float, *, moments: bool
    ) -> None:
        """`pace`: seconds that it took to draw one of the sample."""
        judge, weights, width = crowd.judge, crowd.weights, len(crowd.judge.sizes)
        root = Boxes(*judge.cells.narrowed(np.zeros((1, width), np.int64), (judge.sizes - 1)[None])[:2])
        facts, most_open = dict.fromkeys(("feature", "cut"), np.zeros(1, np.int64)), MEMORY // (16 * width + 48)
        super().__init__(weights, root, facts, most_open, crowd, sample, allowance, workers, CONFIDING, pace)
        time = self.clock.timeout if self.counted else self.clock.left
        moments = moments and judge.bits.outputs == 1 and Panel.seconds(judge) <= MAKING * time
        self.panel = Panel.of(judge, weights, allowance.seed) if moments else None
        self.halving = ForestHalving(judge, weights, Branching(judge), self.panel, FEW)
        self.pace, self.paced_at = CREDITED_PER_SECOND, PACED

    def _decide(self) -> str:
        frontier = self.frontier
        frontier.replace(np.arange(1), 1, lambda tally, root: added(tally, self.halving.bounded(root)))
        reason = frontier.work(self._step, self._progress, lambda: self._time_to_credit() + self._time_to_draw())
        if self.panel is not None and reason is not None:
            self._credit()
            if reason == TIME_IS_UP:
                refined = frontier.work(self._refine, self._progress, self._time_to_draw)
                reason = TIME_IS_UP if self.counted and refined is not None else refined
        if reason is not None:
            self._draw()
            if self.counted and self.clock.is_up:
                reason = TIME_IS_UP
        return reason or (TOO_CLOSE if frontier.tally.stuck else "everybody is decided")

    def _enough(self) -> str | None:
        if self.frontier.tally.boxes >= self.allowance.most_boxes:
            return "enough boxes were bounded"
        if self.allowance.precision > 0 and self._not_proven() <= self.allowance.precision:
            return "precise enough"
        return None

    def _step(self) -> str | None:
        frontier = self.frontier
        if reason := self._enough():
            return reason
        most = BATCH if self.panel is None else max(min(BATCH, len(frontier.open) // 4), 1)
        wave = frontier.wave("undecided", most, BATCH)
        frontier.replace(wave, TASK, added, look=self.halving, workers=self.workers)
        if self.panel is not None and len(frontier.open) >= self.paced_at:
            self._measure_pace()
        return None

    def _refine(self) -> str | None:
        """Cut the most undecided box, and credit what comes of it at once: else what is proven of it would be lost."""
        if reason := self._enough():
            return reason
        worst = np.array([np.argmax(self.frontier.open.facts["undecided"])])

        def refined(tally: Tally, boxes: Boxes) -> tuple[Tally, Boxes]:
            tally, parts = added(tally, self.halving.look(Portion(boxes)))
            if len(parts):
                self._written(parts, np.arange(len(parts)), self.crediting.look(Portion(parts)))
            return tally, parts

        self.frontier.replace(worst, 1, refined)
        return None

    def _measure_pace(self) -> None:
        """How long does it take to credit what is open? A few boxes tell: what is not credited in time is lost."""
        order = np.argsort(self.frontier.open.facts["undecided"], kind="stable")
        self._credit(order[np.unique(np.linspace(0, len(order) - 1, TRIED).astype(np.int64))])
        self.paced_at = 3 * len(self.frontier.open)

    # --- crediting ---

    @cached_property
    def crediting(self) -> ForestCrediting:
        assert self.panel is not None
        return ForestCrediting(self.panel)

    def _time_to_credit(self) -> float:
        if self.panel is None:
            return 0.0
        return MARGIN * int(np.isnan(self.frontier.open.facts["certified"]).sum()) / self.pace

    def _credit(self, which: np.ndarray | None = None) -> None:
        """Write down what moments prove of open boxes, those first of which most may be proven, until time is up."""
        boxes = self.frontier.open
        self._credited(self.crediting, boxes, list(self._promising(boxes, which)[:, None]), self.clock)

    def _written(self, boxes: Boxes, rows: np.ndarray, found: np.ndarray) -> None:
        certified, falsified = found.T
        super()._written(boxes, rows, (certified, falsified))
        boxes.facts["undecided"][rows] = np.maximum(boxes.facts["mass"][rows] * (1 - certified - falsified), 0.0)


# --- the work on boxes that is done side by side ---


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
        return self.bounded(halves(portion.boxes))

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
        open_ = left[blind]
        feature[blind], cut[blind] = self.branching.cuts(rest.low[blind], rest.high[blind], masks[open_], found[open_])
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


def _points(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    grid = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)), indexing="ij")
    return np.stack([part.ravel() for part in grid], axis=1) if grid else np.zeros((1, 0), np.int64)


# --- drawing people ---


def together(judge: Judge) -> int:
    """How many people to judge between two looks at the clock."""
    return int(np.clip(WORDS // judge.words, 16, 1 << 14))


@dataclass(frozen=True, eq=False)
class ForestCrowd:
    """People of a distribution, who are judged by the thousand."""

    judge: Judge
    weights: CellWeights

    @cached_property
    def batch(self) -> int:
        return together(self.judge)

    def sampling(self, rng: np.random.Generator) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
        """Draws people of everybody, so many at most: who is unfair, and who too close to call."""
        return lambda most: self.judge.treated(self.weights.draw(min(self.batch, most), rng))

    def drawn_from(self, boxes: Boxes) -> Draw:
        return _FromBoxes(self, boxes, np.cumsum(boxes.facts["mass"]))

    def shown(self, most: int, rng: np.random.Generator, clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        """People of everybody, so many at most: raw free values, and whose twins are decided differently."""
        points = self.weights.draw(min(self.batch, most), rng)
        return pd.DataFrame(self.weights.raw(points, rng), index=range(len(points))), self.judge.treated(points)[0]


@dataclass(frozen=True, eq=False)
class _FromBoxes:
    """Draws people of boxes, each box by its mass: how many are unfair, how many too close to call."""

    crowd: ForestCrowd
    boxes: Boxes
    upto: np.ndarray

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[int, int]:
        last = len(self.upto) - 1
        box = np.minimum(np.searchsorted(self.upto, rng.random(count) * self.upto[-1], side="right"), last)
        cells = self.crowd.weights.cells_in(self.boxes.low[box], self.boxes.high[box], rng)
        unfair, unknown = self.crowd.judge.treated(cells)
        return int(unfair.sum()), int(unknown.sum())


def forest_draw(
    model: ForestModel, marginals: Mapping[str, Marginal] | None, where: Where | None
) -> Callable[[int, np.random.Generator, Clock], tuple[pd.DataFrame, np.ndarray]]:
    """Draws people in raw values, and tells whose twins are decided unlike."""
    judge = Judge.of(model, where)
    return ForestCrowd(judge, CellWeights.of(judge.cells, marginals)).shown
