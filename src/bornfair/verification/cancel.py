"""Whole numbers that bring a sum closest to zero, found by meeting in the middle.

Where no neuron switches, a score is affine in a person's numbers, so one half of them must cancel the other half.
Sorting one half finds the best of some 10^10 people at the price of some 10^5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.network.lens import Lens
from bornfair.people.space.subpopulation import places

SUMS = 2**18  # changes of either half
GROWTH = 1.5  # by which the reach grows until a half is full


@dataclass(frozen=True, eq=False)
class _Half:
    """Some features, the changes each of them may make, and what every choice of changes adds to the score."""

    features: list[int]
    steps: list[np.ndarray]
    sums: np.ndarray

    def chosen(self, which: np.ndarray, width: int) -> np.ndarray:
        """Changes [choices, features] by their positions in `sums`."""
        changes = np.zeros((len(which), width))
        chosen = places(which, [len(step) for step in self.steps])
        for feature, steps, place in zip(self.features, self.steps, chosen, strict=True):
            changes[:, feature] = steps[place]
        return changes


def cancelling(lens: Lens, base: np.ndarray, slopes: np.ndarray, score: float, count: int) -> np.ndarray:
    """Up to `count` people around `base` whose score, were it affine with these slopes, would be closest to 0."""
    one, other = _halves(lens, base, slopes)
    order = np.argsort(other.sums)
    ordered, wanted = other.sums[order], -score - one.sums
    after = np.searchsorted(ordered, wanted)
    below, above = (np.clip(place, 0, len(ordered) - 1) for place in (after - 1, after))
    place = np.where(np.abs(ordered[below] - wanted) < np.abs(ordered[above] - wanted), below, above)
    off = np.abs(ordered[place] - wanted)
    best = np.argsort(off, kind="stable")[:count]
    return lens.inside(base + one.chosen(best, lens.width) + other.chosen(order[place[best]], lens.width))


def _halves(lens: Lens, base: np.ndarray, slopes: np.ndarray) -> tuple[_Half, _Half]:
    """The whole numbers that matter, in two halves. Each number may move the score about as far as any other: small
    moves keep neurons from switching.
    """
    features = np.array([f for f in lens.numbers if lens.whole[f] and np.isfinite(slopes[f]) and slopes[f]], np.int64)
    sizes = np.abs(slopes[features])
    down, up = lens.low[features] - base[features], lens.high[features] - base[features]
    reach = sizes.min(initial=np.inf)
    low, high = np.zeros(len(features)), np.zeros(len(features))
    while (low != down).any() or (high != up).any():
        most = np.minimum(np.floor(reach / sizes), SUMS)
        wider = np.maximum(down, -most), np.minimum(up, most)
        if max(_sizes(*wider)) > SUMS:
            break
        (low, high), reach = wider, reach * GROWTH
    second = _second_half(low, high)
    one, other = (_half(features[part], low[part], high[part], slopes) for part in (~second, second))
    return one, other


def _second_half(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Which features go into the second half, so that both have about as many changes."""
    counts, products = high - low + 1, [1.0, 1.0]
    second = np.zeros(len(low), bool)
    for i in np.argsort(-counts, kind="stable"):
        second[i] = products[1] < products[0]
        products[int(second[i])] *= counts[i]
    return second


def _sizes(low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
    second, counts = _second_half(low, high), high - low + 1
    return float(counts[~second].prod()), float(counts[second].prod())


def _half(features: np.ndarray, low: np.ndarray, high: np.ndarray, slopes: np.ndarray) -> _Half:
    steps = [np.arange(first, last + 1) for first, last in zip(low, high, strict=True)]
    sums = np.zeros(1)
    for feature, step in zip(features, steps, strict=True):
        sums = (sums[:, None] + slopes[feature] * step).ravel()
    return _Half(features.tolist(), steps, sums)
