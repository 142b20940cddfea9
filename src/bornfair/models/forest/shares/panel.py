"""What can be proven of a part of the domain, and where should it be cut? Functions of versions over boxes of cells.

Few versions are functions of their own. Of many, bands of them are taken together from below and from above (for the
proof that all are decided alike), and some of the versions that differ most (for the proof that they are not).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.shares.credit import all_above, all_below, told_apart
from bornfair.models.forest.shares.functions import Functions
from bornfair.models.forest.shares.moments import Effect, LeafTable, Moments, Terms
from bornfair.models.forest.shares.weights import CellWeights

FEW_VERSIONS, SOME_VERSIONS = 2, 8  # each by itself; all together; in so many bands:
BANDS = 2
CLOSE = 1.0  # deviations from 0 within which both sides are looked at
TELLING = 6  # versions that differ most, looked at by themselves
LOOKED_AT = 512  # people, to find these
REST = 0.25  # deviation of what is no sum of features by themselves, about, as a part of the whole
PER_LEAF, PER_CELL = 3e-5, 1e-8  # seconds, about, for the leaves of tables and the cells they allow
MOST_CELLS = 2e8  # numbers of eight bytes
PRODUCTS = 2e8  # multiplications for the cells of axes
FEWEST_PARTS, MOST_PARTS = 64, 4096


class Credit(NamedTuple):
    """Shares of a box that are proven."""

    certified: float
    falsified: float


class Outlook(NamedTuple):
    """About how much of a box credit would leave open, and where to cut it: the free feature (−1 for none), and the
    last cell of its lower part.
    """

    undecided: float
    feature: int
    cut: int


@dataclass(frozen=True, eq=False)
class Panel:
    """Tables of functions; `above` and `below` show that all versions are, `apart` that two are decided unlike."""

    above: LeafTable
    below: LeafTable
    apart: LeafTable
    away: float

    @staticmethod
    def seconds(judge: Judge) -> float:
        """About how long it takes to make one; infinite where it would not fit into memory."""
        leaves = len(judge.model.forest.values) * (1 if judge.versions <= FEW_VERSIONS else 2 * BANDS + TELLING)
        cells = sum(judge.cells.features[position].count for position in judge.cells.free)
        return PER_LEAF * leaves + PER_CELL * leaves * cells if leaves * cells <= MOST_CELLS else math.inf

    @staticmethod
    def of(judge: Judge, weights: CellWeights, seed: int) -> Panel:
        functions, constant = Functions.about(judge), float(judge.bits.constant[0])
        common = functions.common
        away = float(judge.bits.margins.doubt[0]) + judge.bits.margins.slack
        if judge.versions <= FEW_VERSIONS:
            each = [functions.of([version]) for version in range(judge.versions)]
            table = LeafTable(common, each, constant, weights)
            return Panel(table, table, table, away)
        bands = [
            band.tolist()
            for band in np.array_split(np.arange(judge.versions), 1 if judge.versions <= SOME_VERSIONS else BANDS)
        ]
        lower, upper = ([functions.of(band, lower=side) for band in bands] for side in (True, False))
        telling = [functions.of([version]) for version in _telling(judge, weights, seed)]
        above, below, apart = (LeafTable(common, some, constant, weights) for some in (lower, upper, telling))
        return Panel(above, below, apart, away)

    @property
    def one(self) -> bool:
        return self.above is self.below

    def outlook(self, low: np.ndarray, high: np.ndarray) -> Outlook:
        """Quickly, from what each feature does by itself: no proof."""
        terms = self.apart.terms(low, high, joined=False)
        effects = self.apart.effects(terms)
        means = self.apart.means(terms)
        spread = _spread(effects)
        fair = max(_rough(means.min() - self.away, spread), _rough(-means.max() - self.away, spread))
        unfair = _rough(means.max() - self.away, spread) + _rough(-means.min() - self.away, spread) - 1
        return Outlook(float(np.clip(1 - max(fair, unfair), 1e-6, 1.0)), *_cut(effects, low))

    def credit(self, low: np.ndarray, high: np.ndarray) -> Credit:
        """What moments prove of a box that has some mass."""
        terms = self.apart.terms(low, high, joined=False)
        means, spread = self.apart.means(terms), _spread(self.apart.effects(terms))
        if means.min() < 0 < means.max() and means.max() - means.min() > spread:
            found = _over_axes(self.apart, low, high, (int(means.argmin()), int(means.argmax())))
            return Credit(0.0, float(found.share @ told_apart(found, self.away)))
        if self.one:
            found = _over_axes(self.apart, low, high)
            return Credit(float(found.share @ (all_above(found, self.away) + all_below(found, self.away))), 0.0)
        fair = 0.0
        if means.min() > -CLOSE * spread:
            found = _over_axes(self.above, low, high)
            fair += float(found.share @ all_above(found, self.away))
        if means.max() < CLOSE * spread:
            found = _over_axes(self.below, low, high)
            fair += float(found.share @ all_below(found, self.away))
        return Credit(min(fair, 1.0), 0.0)


def _spread(effects: Sequence[Effect]) -> float:
    """The deviation of what features do by themselves."""
    return float(np.sqrt(sum(float(effect.variance[0]) for effect in effects) + 1e-12))


def _rough(mean: float, spread: float) -> float:
    """About which share credit gives of a normal distribution with a rest of a quarter of its deviation."""
    rest = REST * spread
    found = [float(ndtr((mean - tau * rest) / spread)) - 1 / (1 + tau**2) for tau in (1.5, 3.0, 6.0, 12.0)]
    return max(*found, 0.0)


def _telling(judge: Judge, weights: CellWeights, seed: int) -> list[int]:
    """The versions who most often get the lowest, and the highest, score."""
    points = weights.draw(LOOKED_AT, np.random.default_rng([seed, 31]))
    margins = judge.bounds(points, points).low[..., 0]
    lowest, highest = (np.bincount(at, minlength=judge.versions) for at in (margins.argmin(1), margins.argmax(1)))
    found = [*np.argsort(-lowest, kind="stable")[: TELLING // 2], *np.argsort(-highest, kind="stable")[: TELLING // 2]]
    return sorted({int(version) for version in found})


def _over_axes(table: LeafTable, low: np.ndarray, high: np.ndarray, functions: Sequence[int] | None = None) -> Moments:
    terms = table.terms(low, high, functions)
    return table.moments(terms, _axes(table, terms))


def _axes(table: LeafTable, terms: Terms) -> list[int]:
    """Features that act together with others, as many as their cells together allow: the rest is then smaller."""
    sizes = np.bincount(terms.group, minlength=len(terms.constant)).astype(np.float64)
    work = sizes.sum() ** 2 if table.joint else sizes[0] ** 2 + ((sizes[0] + sizes[1:]) ** 2 - sizes[0] ** 2).sum()
    most = float(np.clip(PRODUCTS / max(work, 1.0), FEWEST_PARTS, MOST_PARTS))
    energy = terms.value**2 * terms.reach * (1 - terms.reach)
    reads = terms.parts < 1
    found, parts = list[int](), 1
    while True:
        others = reads.copy()
        others[found] = False
        joint = energy * (others.sum(axis=0) > 1)
        best, gain = -1, 0.0
        for f in table.read:
            width = int(terms.high[f] - terms.low[f] + 1)
            worth = float(joint[reads[f]].sum()) / np.log(width + 1.0)
            if f not in found and width > 1 and parts * width <= most and worth > gain:
                best, gain = f, worth
        if best < 0:
            return found
        found.append(best)
        parts *= int(terms.high[best] - terms.low[best] + 1)


def _cut(effects: Sequence[Effect], low: np.ndarray) -> tuple[int, int]:
    """The cut that takes most of the variance away."""
    best = (0.0, -1, 0)
    for feature, mass, (mean,) in effects:
        below = np.cumsum(mass)[:-1]
        sums = np.cumsum(mass * mean)[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where((below > 0) & (below < 1), sums**2 / (below * (1 - below)), 0.0)
        at = int(np.argmax(gain))
        if gain[at] > best[0]:
            best = (float(gain[at]), feature, int(low[feature]) + at)
    return best[1], best[2]
