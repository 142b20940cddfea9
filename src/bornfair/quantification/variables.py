"""Of which independent variables does the free space consist, and how much of everybody is in a box?

A variable is a number (one column of u) or a one-hot group (one of its categories). Each has its own distribution:
uniform unless marginals are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm
from numbers import Real
from typing import Any

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.twins.relation import FreeSpace
from bornfair.verification.boxes import Boxes, Places

EXACT = 2.0**53  # whole numbers up to here are counted without rounding
DOWN = 1 - 2.0**-40  # shares that cannot be exact are shrunk by this, far more than all roundings of their making

Marginal = Mapping[Any, float]
"""Weights of a feature's values; of a real feature, of ranges (low, high) of its values."""


@dataclass(frozen=True, eq=False)
class Weights:
    """The distribution of one variable, when it is not uniform.

    `upto` [values + 1] holds cumulative weights, whole numbers if possible, of the values that have any, which lie `at`
    these places (of a group all its categories, in order). Of a real variable, `edges` [pieces + 1] holds the
    ends, in places, of pieces on which the density is constant.
    """

    upto: np.ndarray
    edges: np.ndarray | None = None
    at: np.ndarray | None = None

    @cached_property
    def moments(self) -> np.ndarray:
        """Cumulative weights, weighted places and their squares [3, values + 1]; pieces count as their middles."""
        weights = np.diff(self.upto)
        at = self.at if self.edges is None else (self.edges[1:] + self.edges[:-1]) / 2
        assert at is not None  # of numbers only
        return np.concatenate([np.zeros((3, 1)), np.cumsum([weights, weights * at, weights * at**2], axis=1)], axis=1)


@dataclass(frozen=True, eq=False)
class Variables:
    """The variables of a free space: numbers (in the order of `numbers`), then groups."""

    free: FreeSpace
    weights: Mapping[int, Weights]  # by position among the variables

    @cached_property
    def places(self) -> Places:
        return Places(self.free)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The columns that are variables of their own."""
        return np.flatnonzero(~self.places.grouped)

    @property
    def groups(self) -> tuple[slice, ...]:
        return self.free.groups

    @property
    def count(self) -> int:
        return len(self.numbers) + len(self.groups)

    @cached_property
    def columns(self) -> np.ndarray:
        """Where each variable begins."""
        return np.array([*self.numbers, *(group.start for group in self.groups)], np.int64)

    # --- how much is in a box ---

    @cached_property
    def totals(self) -> list[float]:
        """The mass of each variable's whole range: how many values, or their weights."""
        return [float(mass[0]) for mass in self._masses(self.places.root)]

    @cached_property
    def exact(self) -> bool:
        """Whether masses are whole numbers that float64 adds and multiplies without rounding."""
        whole = all(_whole(w.upto) for w in self.weights.values())
        root = self.places.root
        fixed = not bool(((root.high - root.low)[:, self.places.real] > 0).any())
        total = 1.0
        for part in self.totals:
            total *= part
        return whole and fixed and total < EXACT

    @cached_property
    def total(self) -> float:
        """The mass of everybody: a whole number if `exact`, else 1."""
        return float(np.prod(self.totals)) if self.exact else 1.0

    def mass(self, boxes: Boxes) -> np.ndarray:
        """How much of `total` is in each box; never too much."""
        found = np.ones(len(boxes))
        for part, whole in zip(self._masses(boxes), self.totals, strict=True):
            found *= part if self.exact else part / whole
        return found if self.exact else found * DOWN

    def _masses(self, boxes: Boxes) -> list[np.ndarray]:
        found = []
        for i, column in enumerate(self.numbers):
            low, high = boxes.low[:, column], boxes.high[:, column]
            held = self.weights.get(i)
            if held is not None:
                part = self.cumulative(i, high, after=True) - self.cumulative(i, low, after=False)
                if held.edges is not None or not _whole(held.upto):
                    part = np.maximum(part - 2.0**-50 * held.upto[-1], 0.0)  # two rounded numbers were subtracted
                found.append(part)
            elif self.places.lattice[column]:
                found.append(high - low + 1)
            else:
                whole = float(self.places.root.high[0, column] - self.places.root.low[0, column])
                found.append((high - low) / whole if whole > 0 else np.ones(len(boxes)))
        for i, group in enumerate(self.groups):
            allowed = boxes.high[:, group] > 0
            found.append(allowed.astype(np.float64) @ self.category_weights(len(self.numbers) + i))
        return found

    def cumulative(self, variable: int, places: np.ndarray, *, after: bool) -> np.ndarray:
        """The weight of all values of a weighted number below these places (or up to and with them)."""
        held = self.weights[variable]
        if held.edges is not None:
            return np.interp(places, held.edges, held.upto)
        assert held.at is not None
        return held.upto[np.searchsorted(held.at, places, side="right" if after else "left")]

    def spread(self, variable: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """About the mean and the mean square of a weighted number, from −1 at `low` to 1 at `high`; no proof."""
        held = self.weights[variable]
        if held.edges is not None:
            first = np.searchsorted(held.edges, low, side="right").clip(1) - 1
            last = np.searchsorted(held.edges, high, side="left").clip(1)
        else:
            assert held.at is not None
            first = np.searchsorted(held.at, low, side="left").clip(0, len(held.at) - 1)
            last = np.searchsorted(held.at, high, side="right")
        mass, mean, square = held.moments[:, np.maximum(last, first + 1)] - held.moments[:, first]
        mass, middle, half = np.maximum(mass, 1e-300), (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
        away = (mean / mass - middle) / half
        squared = (square / mass - 2 * middle * mean / mass + middle**2) / half**2
        return np.clip(away, -1.0, 1.0), np.clip(squared, away**2, 1.0)

    def halves(self, boxes: Boxes, variable: np.ndarray, liking: np.ndarray) -> Boxes:
        """Both halves of boxes, of about equal mass: cut at their variable; a group into the categories that are liked
        less and those that are liked more.
        """
        column, rows = self.columns[variable], np.arange(len(boxes))
        low, high = boxes.low[rows, column], boxes.high[rows, column]
        at = self.places.middle(column, low, high)
        for i in (i for i in self.weights if i < len(self.numbers)):
            mine = variable == i
            at[mine] = self._weighted_middle(i, low[mine], high[mine])
        kept = self.places.lower_half(boxes, column, np.broadcast_to(liking, boxes.high.shape))
        return Boxes.joined(*self.places.halves(boxes, column, kept, at)[:2])

    def _weighted_middle(self, variable: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        held = self.weights[variable]
        half = (self.cumulative(variable, low, after=False) + self.cumulative(variable, high, after=True)) / 2
        if held.edges is None:
            assert held.at is not None
            place = held.at[np.clip(np.searchsorted(held.upto, half, side="left") - 1, 0, len(held.at) - 1)]
            return np.clip(place, low, high - 1)
        place = np.interp(half, held.upto, held.edges)
        return np.where((place > low) & (place < high), place, low / 2 + high / 2)

    def category_weights(self, variable: int) -> np.ndarray:
        held = self.weights.get(variable)
        if held is not None:
            return np.diff(held.upto)
        group = self.groups[variable - len(self.numbers)]
        return np.ones(group.stop - group.start)

    # --- drawing ---

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Places of people drawn from the distribution."""
        root = self.places.root
        found = self.places.draw(Boxes(np.repeat(root.low, count, axis=0), np.repeat(root.high, count, axis=0)), rng)
        for i, held in self.weights.items():
            chance = rng.random(count) * held.upto[-1]
            if held.edges is not None:
                # Where a piece has no weight, `interp` would not know where to go: strictly rising parts only.
                rising = np.concatenate([[True], np.diff(held.upto) > 0])
                first = np.flatnonzero(np.diff(held.upto) > 0)
                piece = np.searchsorted(held.upto[rising][1:], chance, side="right").clip(0, len(first) - 1)
                at = first[piece]
                part = (chance - held.upto[at]) / (held.upto[at + 1] - held.upto[at])
                found[:, self.numbers[i]] = held.edges[at] + part.clip(0, 1) * (held.edges[at + 1] - held.edges[at])
                continue
            value = np.searchsorted(held.upto[1:], chance, side="right").clip(0, len(held.upto) - 2)
            if i < len(self.numbers):
                assert held.at is not None
                found[:, self.numbers[i]] = held.at[value]
            else:
                group = self.groups[i - len(self.numbers)]
                found[:, group] = np.eye(group.stop - group.start)[value]
        return found


def variables(encoding: Encoding | None, free: FreeSpace, marginals: Mapping[str, Marginal] | None = None) -> Variables:
    """The variables of a free space; marginals are given by the names of free features and raw values."""
    plain = Variables(free, {})
    if not marginals:
        return plain
    if encoding is None or encoding.free_width != free.width:
        raise InputError("marginals need a relation over the free features of the model; leave them out.")
    by_start = {int(column): i for i, column in enumerate(plain.numbers)}
    by_start |= {group.start: len(plain.numbers) + i for i, group in enumerate(free.groups)}
    known = {feature.name: feature for feature in encoding.domain.free_features}
    columns, held = encoding.free_columns(), {}
    for name, marginal in marginals.items():
        feature = known.get(name)
        if feature is None:
            raise InputError(
                f"marginals are given for '{name}', which is not a free feature; there are {shown(known)}."
            )
        if not isinstance(marginal, Mapping) or not marginal:
            raise InputError(f"the marginal of '{name}' must map values to weights, found {marginal!r}.")
        variable = by_start[columns[name].start]
        if feature.kind == "real":
            place = plain.numbers[variable]
            held[variable] = _histogram(name, marginal, free, int(place), encoding, (feature.low, feature.high))
            continue
        unknown = [value for value in marginal if not _exists(feature, value)]
        if unknown:
            raise InputError(f"the marginal of '{name}' weighs {shown(unknown)}, which is not in the domain.")
        if isinstance(feature, NUMERIC):
            given = sorted(marginal.items())
            at = np.array([float(int(value) - int(feature.low)) for value, _ in given])
            held[variable] = Weights(_cumulated(name, [weight for _, weight in given]), at=at)
        else:
            weights = [marginal.get(level, 0) for level in feature.levels()]
            held[variable] = Weights(_cumulated(name, weights), at=np.arange(float(len(weights))))
    return Variables(free, held)


def _exists(feature: Feature, value: Any) -> bool:
    if not isinstance(feature, NUMERIC):
        return value in feature.levels()
    whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    return whole and feature.low <= value <= feature.high


def _cumulated(name: str, weights: Sequence[Any]) -> np.ndarray:
    """Cumulative weights; whole numbers in the same proportions where these are small enough."""
    try:
        shares = [Fraction(repr(float(w))) if not isinstance(w, (int, Fraction)) else Fraction(w) for w in weights]
    except (TypeError, ValueError) as error:
        raise InputError(f"the marginal of '{name}' has a weight that is not a finite number ({error}).") from None
    if min(shares) < 0 or sum(shares) <= 0:
        raise InputError(f"the marginal of '{name}' needs weights of at least 0, one of them above 0.")
    scale = 1
    for share in shares:
        scale = lcm(scale, share.denominator)
        if scale > EXACT:
            break
    total = sum(shares) * scale
    if total < EXACT:
        return np.concatenate([[0.0], np.cumsum([float(share * scale) for share in shares])])
    # Scaled to about 1, and cumulated exactly before each is rounded.
    upto, whole, found = Fraction(0), sum(shares), [0.0]
    for share in shares:
        upto += share
        found.append(float(upto / whole))
    return np.array(found)


def _histogram(
    name: str, marginal: Marginal, free: FreeSpace, column: int, encoding: Encoding, range_: tuple[Value, Value]
) -> Weights:
    low, high = range_
    pieces = sorted(marginal.items())
    ends = [piece for piece, _ in pieces]
    if not all(isinstance(e, tuple) and len(e) == 2 and e[0] < e[1] for e in ends):
        raise InputError(f"'{name}' is a real number: its marginal maps ranges (low, high) to weights, found {ends!r}.")
    joined = [e[0] for e in ends] + [ends[-1][1]]
    if joined[0] != low or joined[-1] != high or any(a[1] != b[0] for a, b in pairwise(ends)):
        raise InputError(f"the ranges of the marginal of '{name}' must cover [{low}, {high}] without gaps or overlaps.")
    edges = encoding.number(name).encode(joined)
    edges[0], edges[-1] = free.low[column], free.high[column]
    upto = _cumulated(name, [weight for _, weight in pieces])
    apart = np.concatenate([[True], edges[1:-1] > np.maximum.accumulate(edges[:-2]), [True]])
    apart[1:-1] &= edges[1:-1] < edges[-1]
    return Weights(upto[apart], edges[apart])  # ranges too small to be told apart in places are one


def _whole(numbers: np.ndarray) -> bool:
    return bool((numbers == np.round(numbers)).all() and numbers[-1] < EXACT and numbers[-1] >= 1)
