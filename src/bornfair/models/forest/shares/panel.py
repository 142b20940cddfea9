"""Shares of a box that are proven by functions of versions, and where to cut it.

Few versions are functions of their own. Of many, bands of them are taken together from below and from above (for the
proof that all are decided alike), and some of the versions that differ most (for the proof that they are not).

The score of version k is a mean and fluctuations around it, of which two descriptions are used: all that is known of
them is their covariance; or they are a sum of functions of single features, whose distribution is a convolution, and a
rest of which the covariance is known. In both cases, with a constant or an additive function A below all versions'
and rests R_k of mean 0,

    P(some S_k ≤ 0) ≤ P(A ≤ τ) + P(some R_k ≤ −τ)    for every τ ≥ 0,

and the second is at most Σ_k r_k² / (r_k² + τ²) (Cantelli), or, with Z the average of the rests and η_k = R_k − Z, at
most E[(c − Z + max_k |η_k|)²] / (τ + c)² ≤ (√(σ_Z² + c²) + √(Σ_k σ²(η_k)))² / (τ + c)² for every c ≥ 0.

Additive: μ + Σ_f min_k (m_kf(x_f) + α_kf), where μ is the least mean, m_kf the effect of feature f on version k, and
α_kf ≥ 0 share out what μ_k has more. Values are rounded down to multiples of one width, which can only make the sum
smaller; what the fast Fourier transform errs is bounded and subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtr

from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.shares.moments import Effect, Functions, LeafTable, Moments, Terms
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
BINS = 512
STEPS = (1.0, 1.5, 2.2, 3.2, 4.5, 6.5, 10.0, 16.0)  # of τ, in units of the rest's deviation
FACTORS = (0.5, 1.0, 2.0)  # of the c that is best where versions do not differ
HOPE = 1.5  # deviations
LOSS = 2.0**-44


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
        """Shares of a box, which has some mass, that moments prove."""
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


# --- which share of a box is surely decided alike, or surely not ---


Additive = tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]
"""A constant [parts] and functions of single features: masses [cells] and values [parts, cells]."""


def all_above(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has all functions above `away`."""
    least = found.mean.min(axis=0) - found.mean_error - away
    spread = np.sqrt(np.maximum(np.einsum("kka->ka", found.covariance), 0.0).max(axis=0))
    hopeful = least > -HOPE * spread
    if not hopeful.all():  # where next to nobody is above, nothing is lost
        shares = np.zeros(len(least))
        if hopeful.any():
            shares[hopeful] = all_above(_parts(found, hopeful), away)
        return shares
    plain = np.where(
        least > 0, 1 - _some_below(found.covariance, found.error, np.maximum(least, 0.0)[:, None])[:, 0], 0.0
    )
    rest = found.residual
    deviation = np.sqrt(np.maximum(np.einsum("kka->ka", rest), 0.0).max(axis=0) + found.error)
    at = deviation[:, None] * np.array(STEPS)  # [parts, steps]
    split = _above(_lower(found, away), at) - _some_below(rest, found.error, at)
    return np.clip(np.maximum(plain, split.max(axis=1)), 0.0, 1.0)


def all_below(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has all functions below −`away`."""
    turned = tuple(tuple(effect._replace(mean=-effect.mean) for effect in own) for own in found.effects)
    return all_above(found._replace(mean=-found.mean, effects=turned), away)


def told_apart(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has some function above `away`, and another below −`away`: of the two that
    differ most in their means.
    """
    means = found.mean.mean(axis=1)
    highest, lowest = int(means.argmax()), int(means.argmin())
    if highest == lowest:
        return np.zeros(found.mean.shape[1])
    return np.maximum(all_above(_only(found, highest), away) + all_below(_only(found, lowest), away) - 1, 0.0)


def _parts(found: Moments, which: np.ndarray) -> Moments:
    effects = tuple(tuple(e._replace(mean=e.mean[which]) for e in own) for own in found.effects)
    return found._replace(
        share=found.share[which], mean=found.mean[:, which], covariance=found.covariance[..., which], effects=effects
    )


def _only(found: Moments, k: int) -> Moments:
    one = slice(k, k + 1)
    return found._replace(mean=found.mean[one], covariance=found.covariance[one, one], effects=found.effects[one])


def _some_below(covariance: np.ndarray, error: float, at: np.ndarray) -> np.ndarray:
    """At most which share [parts, numbers] has some fluctuation ≤ −number, of those with these covariances."""
    size = len(covariance)
    variance = np.maximum(np.einsum("kka->ka", covariance), 0.0) + error  # [functions, parts]
    squared = np.maximum(at, 1e-150) ** 2
    best = (variance[:, :, None] / (variance[:, :, None] + squared)).sum(axis=0)
    if size > 1:
        average = np.maximum(covariance.mean(axis=(0, 1)), 0.0)
        apart = np.sqrt(np.maximum(variance.sum(axis=0) - size * average, 0.0) + 2 * size * error)
        middle = (average + error)[:, None]
        for factor in FACTORS:
            c = factor * middle / np.maximum(at, 1e-150)
            best = np.minimum(best, (np.sqrt(middle + c**2) + apart[:, None]) ** 2 / (at + c) ** 2)
    return np.minimum(best, 1.0)


def _lower(found: Moments, away: float) -> Additive:
    """A sum of functions of single features that is below the sums of all, less `away`."""
    means = found.mean - found.mean_error
    least, base = means.min(axis=0), int(means.mean(axis=1).argmin())
    by_feature = [{effect.feature: effect for effect in own} for own in found.effects]
    features = {f: effect.mass for own in by_feature for f, effect in own.items()}
    values: dict[int, list[np.ndarray]] = {}
    spreads = np.zeros((len(features), *means.shape))  # by how much each falls below the one with the least mean
    for i, (f, mass) in enumerate(features.items()):
        nothing = np.zeros((means.shape[1], len(mass)))
        values[f] = [own[f].mean if f in own else nothing for own in by_feature]
        spreads[i] = [np.maximum((values[f][base] - mean).max(axis=1), 0.0) for mean in values[f]]
    total = spreads.sum(axis=0)
    functions = []
    for i, (f, mass) in enumerate(features.items()):
        share = np.where(total > 0, spreads[i] / np.where(total > 0, total, 1.0), 1.0 / len(features))
        more = (means - least) * share * (1 - 2.0**-40)
        functions.append((mass, np.min([m + more[k][:, None] for k, m in enumerate(values[f])], axis=0)))
    return least - away, functions


def _above(sums: Additive, at: np.ndarray) -> np.ndarray:
    """Lower bounds on the share of each part in which the sum lies above each of the numbers [parts, numbers]."""
    constant, functions = sums
    count = len(constant)
    lows = [values.min(axis=1) for _, values in functions]
    spans = [values.max(axis=1) - low for (_, values), low in zip(functions, lows, strict=True)]
    reach = np.sum(spans, axis=0) if spans else np.zeros(count)
    size = np.abs(constant) + sum((np.abs(v).max(axis=1) for _, v in functions), np.zeros(count))
    base = constant + sum(lows, np.zeros(count)) - LOSS * size
    width = np.where(reach > 0, reach, 1.0) * ((1 + 2.0**-30) / (BINS - 1))
    product = np.ones((count, BINS // 2 + 1), np.complex128)
    rows = np.arange(count)[:, None] * BINS
    for (mass, values), low in zip(functions, lows, strict=True):
        index = ((values - low[:, None]) * ((1 - 2.0**-40) / width)[:, None]).astype(np.int64)
        weights = np.broadcast_to(mass, values.shape).ravel()
        spread = np.bincount((np.minimum(index, BINS - 1) + rows).ravel(), weights, minlength=count * BINS)
        product *= fft.rfft(spread.reshape(count, BINS), axis=1)
    chance = np.maximum(fft.irfft(product, n=BINS, axis=1), 0.0)
    tail = np.concatenate([np.cumsum(chance[:, ::-1], axis=1)[:, ::-1], np.zeros((count, 1))], axis=1)
    needed = (at - base[:, None]) / width[:, None]
    needed = np.floor(needed + 2.0**-40 * (np.abs(needed) + 1)) + 1
    place = np.clip(needed, 0, BINS).astype(np.int64)
    # A transform of length n errs by at most log2(n)·6u relative to its norm (Higham, Accuracy and Stability, §24.1);
    # a product of these, transformed back, without what is negative, and summed over up to n bins, by the following.
    error = 2.0**-45 * (len(functions) + 2) * np.log2(BINS) * np.sqrt(BINS)
    found = np.take_along_axis(tail, place, axis=1) - error
    return np.where(needed <= 0, 1.0, found)
