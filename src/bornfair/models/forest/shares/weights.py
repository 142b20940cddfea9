"""Mass of boxes of cells. Each feature is weighed by itself: all values alike, or as marginals weigh them.

Masses are whole numbers where people can be counted and float64 holds their number; else shares, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.bounds.cells import Cells, FeatureCells
from bornfair.people.features import NUMERIC
from bornfair.people.space.subpopulation import EXACT, exact_weight
from bornfair.people.space.variables import DOWN, Marginal


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The weights of all cells of the free features, in their order."""

    cells: Cells
    weights: tuple[np.ndarray, ...]

    @staticmethod
    def of(cells: Cells, marginals: Mapping[str, Marginal] | None = None) -> CellWeights:
        given, known = dict(marginals or {}), cells.domain.free_names
        for name in given:
            if name not in known:
                raise InputError(
                    f"marginals are given for '{name}', which is not a free feature; there are {shown(known)}."
                )
        parts = [cells.features[i] for i in cells.free]
        weights = tuple(
            _weights(part, given.get(part.feature.name)) * inside
            for part, inside in zip(parts, cells.inside, strict=True)
        )
        for part, own in zip(parts, weights, strict=True):
            if not own.sum() > 0:
                raise InputError(f"where['{part.feature.name}'] leaves nobody: nothing of it has any weight; widen it.")
        return CellWeights(cells, weights)

    @property
    def count(self) -> int:
        """Of how many features people are."""
        return len(self.weights)

    @cached_property
    def exact(self) -> bool:
        """Whether masses are whole numbers that float64 adds and multiplies without rounding."""
        if any(self.cells.features[i].feature.kind == "real" for i in self.cells.free):
            return False  # lengths of ranges are no numbers of people, even where they are whole
        whole = all(bool((part == np.round(part)).all()) for part in self.weights)
        return whole and math.prod(float(part.sum()) for part in self.weights) < EXACT

    @cached_property
    def upto(self) -> list[np.ndarray]:
        """Cumulative weights [cells + 1]: whole numbers if `exact`, else shares."""
        found = [np.concatenate([[0.0], np.cumsum(part)]) for part in self.weights]
        return found if self.exact else [part / part[-1] for part in found]

    @cached_property
    def total(self) -> float:
        return float(np.prod([part[-1] for part in self.upto])) if self.exact else 1.0

    def mass(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """How much of `total` is in each box of cells, ends included; never too much."""
        found = np.ones(len(low))
        for i, upto in enumerate(self.upto):
            part = upto[high[:, i] + 1] - upto[low[:, i]]
            found *= part if self.exact else np.maximum(part - 2.0**-50, 0.0)  # rounded numbers were subtracted
        return found if self.exact else found * DOWN

    # --- drawing ---

    def cells_in(self, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Somebody in each box, as cells, by weight."""
        found = np.empty(low.shape, np.int64)
        for i, upto in enumerate(self.upto):
            begin, end = upto[low[:, i]], upto[high[:, i] + 1]
            at = np.searchsorted(upto, begin + rng.random(len(low)) * (end - begin), side="right") - 1
            found[:, i] = np.clip(at, low[:, i], high[:, i])
        return found

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """People of the whole distribution, as cells."""
        low = np.zeros((count, len(self.upto)), np.int64)
        return self.cells_in(low, low + np.array([len(part) - 1 for part in self.weights]), rng)

    def raw(self, points: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Raw values of people given by their cells, drawn inside."""
        found = {}
        for i, position in enumerate(self.cells.free):
            part = self.cells.features[position]
            values, feature = part.samples[points[:, i]], part.feature
            if part.ends is not None and isinstance(feature, NUMERIC):
                whole = feature.kind == "integer"
                first = np.concatenate([[feature.low - 1 if whole else feature.low], part.ends])[points[:, i]]
                share = 1 - rng.random(len(points))
                numbers = first + share * (np.append(part.ends, part.ends[-1])[points[:, i]] - first)
                numbers = np.ceil(numbers) if whole else numbers
                values = np.clip(numbers, feature.low, feature.high).astype(np.int64 if whole else np.float64)
                if part.gap:
                    values = np.where(points[:, i] >= part.listed, np.nan, values)
            found[feature.name] = values
        return found


def _weights(part: FeatureCells, marginal: Marginal | None) -> np.ndarray:
    if marginal is None:
        return part.widths
    feature = part.feature
    if not isinstance(marginal, Mapping) or not marginal:
        raise InputError(f"the marginal of '{feature.name}' must map values to weights, found {marginal!r}.")
    found = [Fraction(0)] * part.count
    for value, weight in marginal.items():
        share = exact_weight(feature.name, weight)
        if feature.kind == "real" and not (value is None and part.gap):
            _spread(part, value, share, found)
            continue
        at = int(part.of([value])[0])
        if at < 0:
            raise InputError(f"the marginal of '{feature.name}' weighs {value!r}, which is not in the domain.")
        found[at] += share
    if min(found) < 0 or sum(found) <= 0:
        raise InputError(f"the marginal of '{feature.name}' needs weights of at least 0, one of them above 0.")
    return np.array([float(share) for share in found])


def _spread(part: FeatureCells, piece: Any, weight: Fraction, found: list[Fraction]) -> None:
    """A weight evenly over a range."""
    if not isinstance(piece, tuple) or len(piece) != 2 or not piece[0] < piece[1]:
        raise InputError(
            f"'{part.feature.name}' is a real number: its marginal maps ranges (low, high) to weights, found {piece!r}."
        )
    assert part.ends is not None and isinstance(part.feature, NUMERIC)
    ends = [part.feature.low, *part.ends.tolist()]
    low, high = Fraction(piece[0]), Fraction(piece[1])
    for cell, (begin, end) in enumerate(pairwise(ends)):
        inside = min(high, Fraction(end)) - max(low, Fraction(begin))
        if inside > 0:
            found[cell] += weight * inside / (high - low)
