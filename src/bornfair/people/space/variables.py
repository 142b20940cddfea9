"""The independent variables of the free space, and the mass of a box.

A variable is a number (one column of u) or a one-hot group (one of its categories). Each has its own distribution:
uniform unless marginals are given. A number that may be missing is two columns but one variable: its gap weighs as much
as one of its values, or as its marginal says, and a box that holds both is a mixture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.people.columns import NumberColumn
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.space.subpopulation import (
    EXACT,
    Limit,
    Limits,
    Where,
    box_within,
    cumulated,
    exact_weight,
    limits_of,
    weights_within,
)
from bornfair.people.twins.relation import FreeSpace

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
    beyond: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Of numbers that are held between two ends, by position: the masses that lie beyond, which sit on these ends."""
    within: Boxes | None = None
    """The part of the space that is spoken of; None: all of it."""
    gaps: Mapping[int, float] = field(default_factory=dict)
    """What the gaps of numbers weigh, by the number's position."""

    @cached_property
    def places(self) -> Places:
        return Places(self.free)

    @property
    def root(self) -> Boxes:
        """All who are spoken of, as one box."""
        return self.places.root if self.within is None else self.within

    @cached_property
    def numbers(self) -> np.ndarray:
        """The columns that are variables of their own."""
        return np.flatnonzero(~self.places.grouped)

    @property
    def groups(self) -> tuple[slice, ...]:
        return self.free.groups

    @cached_property
    def gap_variables(self) -> list[tuple[int, int]]:
        """The positions of numbers that may be missing, and of what says so."""
        at = {int(column): i for i, column in enumerate(self.numbers)}
        return [(at[gap.number], at[gap.missing]) for gap in self.free.gaps]

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
        return [float(mass[0]) for mass in self._masses(self.root)]

    @cached_property
    def exact(self) -> bool:
        """Whether masses are whole numbers that float64 adds and multiplies without rounding."""
        whole = all(_whole(w.upto) for w in self.weights.values())
        whole = whole and all(mass == round(mass) for pair in self.beyond.values() for mass in pair)
        whole = whole and all(mass == round(mass) for mass in self.gaps.values())
        root = self.root
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
            below, above = self.on_ends(i, low, high)
            found.append(self._masses_of_number(i, low, high) + below + above)
        for number, gap in self.gap_variables:
            missing = self.numbers[gap]
            there, gone = boxes.low[:, missing] == 0, boxes.high[:, missing] > 0
            found[number] = there * found[number] + gone * self.gaps.get(number, 0.0)
            found[gap] = np.ones(len(boxes))
        for i, group in enumerate(self.groups):
            allowed = boxes.high[:, group] > 0
            found.append(allowed.astype(np.float64) @ self.category_weights(len(self.numbers) + i))
        return found

    def _masses_of_number(self, variable: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The masses of ranges of a number, without what lies beyond the ends of the whole range."""
        column, held = self.numbers[variable], self.weights.get(variable)
        if held is not None:
            part = self.cumulative(variable, high, after=True) - self.cumulative(variable, low, after=False)
            if held.edges is not None or not _whole(held.upto):
                part = np.maximum(part - 2.0**-50 * held.upto[-1], 0.0)  # two rounded numbers were subtracted
            return part
        if self.places.lattice[column]:
            return high - low + 1
        whole = float(self.places.root.high[0, column] - self.places.root.low[0, column])
        return (high - low) / whole if whole > 0 else np.ones(len(low))

    def on_ends(self, variable: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The masses that sit on the lower and on the upper end of ranges of a number: of all that lies beyond."""
        root, column = self.places.root, self.numbers[variable]
        below, above = self.beyond.get(variable, (0.0, 0.0))
        return below * (low == root.low[0, column]), above * (high == root.high[0, column])

    def cumulative(self, variable: int, places: np.ndarray, *, after: bool) -> np.ndarray:
        """The weight of all values of a weighted number below these places (or up to and with them)."""
        held = self.weights[variable]
        if held.edges is not None:
            return np.interp(places, held.edges, held.upto)
        assert held.at is not None
        return held.upto[np.searchsorted(held.at, places, side="right" if after else "left")]

    def spread(self, variable: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """About the mean and the mean square of an uneven number, from −1 at `low` to 1 at `high`; no proof."""
        if variable in self.weights:
            mass, away, squared = self._spread(variable, low, high)
        else:
            steps = np.where(self.places.lattice[self.numbers[variable]], np.maximum(high - low, 1.0), np.inf)
            away, squared = np.zeros(len(low)), (1 + 2 / steps) / 3
            mass = self._masses_of_number(variable, low, high)
        below, above = self.on_ends(variable, low, high)
        total = np.maximum(mass + below + above, 1e-300)
        away = (mass * away + above - below) / total
        return away, np.clip((mass * squared + above + below) / total, away**2, 1.0)

    def _spread(self, variable: int, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        return mass, np.clip(away, -1.0, 1.0), np.clip(squared, away**2, 1.0)

    def halves(self, boxes: Boxes, variable: np.ndarray, liking: np.ndarray, kept: Sequence[str] = ()) -> Boxes:
        """Both halves of boxes, of about equal mass: cut at their variable; a group into the categories that are liked
        less and those that are liked more. Facts that are `kept` hold of every part of a box.
        """
        column, rows = self.columns[variable], np.arange(len(boxes))
        low, high = boxes.low[rows, column], boxes.high[rows, column]
        at = self.places.middle(column, low, high)
        for i in (i for i in self.weights if i < len(self.numbers)):
            mine = variable == i
            at[mine] = self._weighted_middle(i, low[mine], high[mine])
        for i in self.beyond:
            mine = variable == i
            at[mine] = self._near_ends(i, at[mine], low[mine], high[mine])
        lower = self.places.lower_half(boxes, column, np.broadcast_to(liking, boxes.high.shape))
        *parts, possible = self.places.halves(boxes, column, lower, at)
        facts = {name: boxes.facts[name][possible] for name in kept}
        return Boxes.joined(*(part.knowing(**facts) for part in parts))

    def _near_ends(self, variable: int, at: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Where to cut: next to an end on which most of the mass sits."""
        inside, (below, above) = self._masses_of_number(variable, low, high), self.on_ends(variable, low, high)
        lattice = self.places.lattice[self.numbers[variable]]
        step = np.ones(len(low)) if lattice else (high - low) / 16
        at = np.where(above > inside + below, high - step, at)
        return np.where(below > inside + above, low if lattice else low + step, at)

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
        root = self.root
        return self.inside(Boxes(np.repeat(root.low, count, axis=0), np.repeat(root.high, count, axis=0)), rng)

    def inside(self, boxes: Boxes, rng: np.random.Generator) -> np.ndarray:
        """Places of one person of each box, drawn as people are distributed inside it.

        Where boxes are given column by column in memory (in Fortran's order), so are the people: that is quicker.
        """
        count, by_column = len(boxes), np.isfortran(boxes.low)
        chances = rng.random(boxes.low.shape[::-1]).T if by_column else rng.random(boxes.low.shape)
        found = self.places.at(boxes, chances)
        for i, held in self.weights.items():
            chance = rng.random(count)
            if i >= len(self.numbers):
                group = self.groups[i - len(self.numbers)]
                upto = np.cumsum((boxes.high[:, group] > 0) * np.diff(held.upto), axis=1)
                category = (upto <= _part(0.0, upto[:, -1], chance)[:, None]).sum(axis=1)
                found[:, group] = np.eye(group.stop - group.start)[category.clip(0, upto.shape[1] - 1)]
                continue
            column = self.numbers[i]
            found[:, column] = self._inside(i, boxes.low[:, column], boxes.high[:, column], chance, found[:, column])
        for i in self.beyond:
            column = self.numbers[i]
            low, high = boxes.low[:, column], boxes.high[:, column]
            below, above = self.on_ends(i, low, high)
            total = self._masses_of_number(i, low, high) + below + above
            chance = rng.random(count) * total
            found[:, column] = np.where(chance < below, low, np.where(chance >= total - above, high, found[:, column]))
        return found

    def _inside(
        self, variable: int, low: np.ndarray, high: np.ndarray, chance: np.ndarray, otherwise: np.ndarray
    ) -> np.ndarray:
        """Where in ranges of a weighted number somebody is who was drawn by chance; `otherwise` where none is seen."""
        held = self.weights[variable]
        first, last = (self.cumulative(variable, end, after=after) for end, after in ((low, False), (high, True)))
        chance = _part(first, last, chance)
        # A value or piece without weight is passed over: the first whose cumulative weight is above the chance.
        at = np.searchsorted(held.upto[1:], chance, side="right").clip(0, len(held.upto) - 2)
        if held.edges is None:
            assert held.at is not None
            return np.where(last > first, held.at[at], otherwise)
        weight = held.upto[at + 1] - held.upto[at]
        part = (chance - held.upto[at]) / np.where(weight > 0, weight, 1.0)
        place = held.edges[at] + part.clip(0, 1) * (held.edges[at + 1] - held.edges[at])
        return np.where(last > first, place.clip(low, high), otherwise)


def _part(first: Any, last: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """From the first to just below the last."""
    return np.minimum(first + chance * (last - first), np.nextafter(last, -np.inf))


def variables(
    encoding: Encoding,
    free: FreeSpace,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
) -> Variables:
    """The variables of a free space; marginals are given by the names of free features and raw values, as is `where`,
    which names a sub-population.
    """
    found, limits = Variables(free, {}), dict[str, Limit]()
    if encoding.free_width != free.width:
        if marginals or where:
            raise InputError("marginals and where need a relation over the free features of the model; leave them out.")
        return found
    if where:
        limits = dict(limits_of(encoding.domain, where))
        found = replace(found, within=box_within(found.places, encoding, limits))
        marginals = weights_within(encoding, marginals or {}, limits)
    beyond, held, gaps = _beyond(found, encoding, limits), dict[int, Weights](), dict[int, float]()
    known = {feature.name: feature for feature in encoding.domain.free_features}
    variable_of = {int(column): i for i, column in enumerate(found.columns)}
    for name, marginal in (marginals or {}).items():
        if name not in known:
            raise InputError(
                f"marginals are given for '{name}', which is not a free feature; there are {shown(known)}."
            )
        if not isinstance(marginal, Mapping) or not marginal:
            raise InputError(f"the marginal of '{name}' must map values to weights, found {marginal!r}.")
        feature, variable = known[name], variable_of[encoding.free_columns()[name].start]
        gone = marginal.get(None, 0) if feature.missing and isinstance(feature, NUMERIC) else None
        if gone is not None:
            marginal = {value: weight for value, weight in marginal.items() if value is not None}
            if not marginal:
                raise InputError(f"the marginal of '{name}' weighs nothing but its gap; give weights of values too.")
        if feature.kind == "real" and feature.low == feature.high:  # there is nothing to weigh but the gap
            if gone:
                gaps[variable] = float(
                    exact_weight(name, gone) / sum(exact_weight(name, weight) for weight in marginal.values())
                )
            continue
        if feature.kind == "real":
            beyond.pop(variable, None)
            pieces = _histogram(encoding.number(name), marginal, gone or 0)
            if pieces is not None:
                inside, beyond[variable], gaps[variable] = pieces
                held |= {} if inside is None else {variable: inside}
            continue
        unknown = [value for value in marginal if not _exists(feature, value)]
        if unknown:
            raise InputError(f"the marginal of '{name}' weighs {shown(unknown)}, which is not in the domain.")
        if isinstance(feature, NUMERIC):
            column, given = encoding.number(name), dict[int, Any]()
            first = column.held(feature.low)
            for value, weight in sorted(marginal.items()):  # who lies beyond an end counts there
                place = column.held(int(value)) - first
                given[place] = (
                    exact_weight(name, given[place]) + exact_weight(name, weight) if place in given else weight
                )
            upto = cumulated(name, [*given.values(), gone or 0])
            held[variable] = Weights(upto[:-1], at=np.array(list(given), np.float64))
            gaps[variable] = float(upto[-1] - upto[-2])
            beyond.pop(variable, None)
        else:
            weights = [marginal.get(level, 0) for level in feature.levels()]
            held[variable] = Weights(cumulated(name, weights), at=np.arange(float(len(weights))))
    if marginals:
        beyond = {variable: pair for variable, pair in beyond.items() if any(pair)}
    return _with_gaps(replace(found, weights=held, beyond=beyond), gaps)


def _with_gaps(found: Variables, given: Mapping[int, float]) -> Variables:
    """The variables with the weights of gaps: those given, else as of one value of the number; and, for whoever draws,
    how likely each number is missing.
    """
    if not found.free.gaps:
        return found
    weights, gaps = dict(found.weights), dict[int, float]()
    bare = [float(mass[0]) for mass in replace(found, gaps={})._masses(found.places.root)]
    for gap, (number, missing) in zip(found.free.gaps, found.gap_variables, strict=True):
        one = 1.0 if found.places.lattice[gap.number] else bare[number]
        gaps[number] = given.get(number, gap.weight * one)
        weights[missing] = Weights(np.array([0.0, bare[number], bare[number] + gaps[number]]), at=np.arange(2.0))
    return replace(found, weights=weights, gaps=gaps)


def _beyond(plain: Variables, encoding: Encoding, limits: Limits) -> dict[int, tuple[float, float]]:
    """What lies beyond the ends between which numbers are held, if everybody counts the same: in numbers of values, of
    a real number in widths of what is seen.
    """
    columns, root, found = encoding.free_columns(), plain.places.root, dict[int, tuple[float, float]]()
    name_of = {where.start: name for name, where in columns.items()}
    for i, place in enumerate(plain.numbers):
        name = name_of.get(place)  # none of columns that say that a number is missing
        feature = None if name is None else encoding.domain.feature(name)
        if name is None or not isinstance(feature, NUMERIC):
            continue
        if root.low[0, place] == root.high[0, place]:  # all look alike: how many they are matters beside a gap only
            if feature.missing and feature.kind == "integer":
                found[i] = float(feature.high - feature.low), 0.0
            continue
        low, high = encoding.number(name).seen
        first, last = limits.get(name, (feature.low, feature.high))
        unit = 1 if feature.kind == "integer" else high - low
        below, above = (min(last, low) - first) / unit, (last - max(first, high)) / unit
        if below > 0 or above > 0:
            found[i] = max(below, 0.0), max(above, 0.0)
    return found


def _exists(feature: Feature, value: Any) -> bool:
    if not isinstance(feature, NUMERIC):
        return value in feature.levels()
    whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    return whole and feature.low <= value <= feature.high


def _histogram(
    column: NumberColumn, marginal: Marginal, gone: Any
) -> tuple[Weights | None, tuple[float, float], float] | None:
    """The weights of what is seen of a real number, of what lies beyond, and of its gap; None where it is all one."""
    name, low, high = column.feature.name, column.feature.low, column.feature.high
    pieces = sorted(marginal.items())
    ends = [piece for piece, _ in pieces]
    if not all(isinstance(e, tuple) and len(e) == 2 and e[0] < e[1] for e in ends):
        raise InputError(f"'{name}' is a real number: its marginal maps ranges (low, high) to weights, found {ends!r}.")
    joined = [e[0] for e in ends] + [ends[-1][1]]
    if joined[0] != low or joined[-1] != high or any(a[1] != b[0] for a, b in pairwise(ends)):
        raise InputError(f"the ranges of the marginal of '{name}' must cover [{low}, {high}] without gaps or overlaps.")
    first, last = column.seen
    if first == last:
        whole = cumulated(name, [*(weight for _, weight in pieces), gone])
        return None if not gone else (None, (0.0, 0.0), float((whole[-1] - whole[-2]) / whole[-2]))
    weights: list[Any] = [weight for _, weight in pieces]
    below = above = 0
    if (first, last) != (low, high):
        weights = [exact_weight(name, weight) for weight in weights]
        shares = [_parts(a, b, first, last) for a, b in ends]
        below, above = (sum(w * share[i] for w, share in zip(weights, shares, strict=True)) for i in (0, 2))
        weights = [w * share[1] for w, share in zip(weights, shares, strict=True) if share[1]]
        joined = [first, *(edge for edge in joined if first < edge < last), last]
    edges = column.encode(joined)
    *upto_all, missing = cumulated(name, [below, *weights, above, gone])
    upto = np.array(upto_all)
    apart = np.concatenate([[True], edges[1:-1] > np.maximum.accumulate(edges[:-2]), [True]])
    apart[1:-1] &= edges[1:-1] < edges[-1]  # ranges too small to be told apart in places are one
    inside = Weights((upto[1:-1] - upto[1])[apart], edges[apart])
    return inside, (float(upto[1]), float(upto[-1] - upto[-2])), float(missing - upto[-1])


def _parts(low: float, high: float, first: float, last: float) -> tuple[Fraction, Fraction, Fraction]:
    """Which shares of a range lie below the first, up to the last, and above it."""
    whole = Fraction(high) - Fraction(low)
    cuts = [min(max(Fraction(cut), Fraction(low)), Fraction(high)) for cut in (low, first, last, high)]
    below, inside, above = ((b - a) / whole for a, b in pairwise(cuts))
    return below, inside, above


def _whole(numbers: np.ndarray) -> bool:
    return bool((numbers == np.round(numbers)).all() and numbers[-1] < EXACT and numbers[-1] >= 1)
