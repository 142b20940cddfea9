"""Cells into which the splits of a forest cut the people: on each cell of a feature every split goes one way.

The values of a feature of the domain fall into finitely many cells: ranges of a number between neighbouring
thresholds, single categories, and the missing value where there may be one. So everybody who could exist is a point of
a finite grid, and nothing that a forest computes about them is lost. How twins are made acts on cells, too: the splits
are asked where they send somebody's twin (`Twins`), so that a declared rule need not map cells onto cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_level, shown
from bornfair.models.forest.forest import Forest
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.rules import Permutation
from bornfair.people.space.subpopulation import Where, named_limits
from bornfair.people.twins.versions import Versions, own_versions

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

Kept = tuple[Any, ...]
MOST_VERSIONS = 100_000
"""Most versions of a person who are told apart."""


@dataclass(frozen=True, eq=False)
class FeatureCells:
    """The cells of one feature, in order.

    Of a number, cell i holds those above `ends[i − 1]` up to `ends[i]`, the first from the lowest of the domain on; of
    anything else, `ends` is None and each value is a cell. Where the feature may be missing, the last cell is the gap.
    """

    feature: Feature
    ends: np.ndarray | None

    @property
    def gap(self) -> bool:
        """Whether there is one cell more than values: of a category a gap is one of them."""
        return self.feature.missing and self.ends is not None

    @property
    def listed(self) -> int:
        """How many cells hold values; of a number, those that are there."""
        return len(self.feature.levels()) if self.ends is None else len(self.ends)

    @property
    def count(self) -> int:
        return self.listed + self.gap

    @cached_property
    def samples(self) -> np.ndarray:
        """A raw value of each cell; of a number, the last."""
        kind = int if self.feature.kind == "integer" else float
        found: list[Any] = list(self.feature.levels()) if self.ends is None else [kind(end) for end in self.ends]
        made = np.empty(self.count, object)
        made[:] = found + [None] * self.gap
        return made

    @cached_property
    def widths(self) -> np.ndarray:
        """How much of the feature's values each cell holds, everyone counted alike: whole numbers, or lengths. A gap is
        one value more; of a real number, one more than the levels of its grid.
        """
        if self.ends is None:
            return np.ones(self.listed)
        assert isinstance(self.feature, NUMERIC)
        whole, low = self.feature.kind == "integer", float(self.feature.low)
        found = np.diff(self.ends, prepend=low - 1 if whole else low)
        if not whole and len(found) == 1 and not found[0]:
            found = np.ones(1)
        return np.append(found, 1.0 if whole else found.sum() / len(self.feature.levels())) if self.gap else found

    def shown(self, cell: int) -> Any:
        """A raw value of the cell that is short to write."""
        if self.ends is None or cell >= self.listed or self.feature.kind == "integer":
            return self.samples[cell]
        assert isinstance(self.feature, NUMERIC)
        low = self.ends[cell - 1] if cell else np.nextafter(self.feature.low, -np.inf)
        for digits in range(1, 17):
            number = float(f"{(low + self.ends[cell]) / 2:.{digits}g}")
            if low < number <= self.ends[cell]:
                return number
        return self.samples[cell]

    def of(self, values: Any) -> np.ndarray:
        """The cell of each raw value; −1 for what is not of the domain."""
        if self.ends is None:
            place: dict[Any, int] = {level: i for i, level in enumerate(self.feature.levels())}
            return np.array([place.get(plain_level(v), -1) for v in np.asarray(values, object).tolist()], np.int64)
        assert isinstance(self.feature, NUMERIC)
        given = np.asarray(values, np.float64)
        cells = np.searchsorted(self.ends, given, side="left")
        inside = (given >= self.feature.low) & (given <= self.feature.high)
        if self.feature.kind == "integer":
            inside &= given == np.round(given)
        return np.where(inside, cells, np.where(np.isnan(given) & self.gap, self.listed, -1))


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of all features of a domain, for one forest."""

    model: ForestModel
    features: tuple[FeatureCells, ...]
    where: Where = field(default_factory=dict)

    @staticmethod
    def of(model: ForestModel, where: Where | None = None) -> Cells:
        """where: a sub-population by its free features, of whose limits no cell lies on both sides."""
        domain, cuts = model.domain, _cuts(model.forest, model.reads)
        if named := [name for name in where or {} if name in domain.sensitive]:
            raise InputError(
                f"where names {shown(named)}, which is sensitive: everybody is looked at with each of its values; name "
                f"other features, such as {shown(domain.free_names, most=5)}."
            )
        limits, made = named_limits(domain, where or {}), []
        for feature in domain.features:
            ends = None
            if isinstance(feature, NUMERIC):
                own = cuts.get(feature.name, np.zeros(0))
                if None not in limits.get(feature.name, (None,)):  # the last numbers before the limits, and up to them
                    low, high = limits[feature.name]
                    own = np.append(own, [np.nextafter(float(low), -np.inf), float(high)])
                ends = _ends(feature, own, mirror=feature.name in domain.twin_group.moved)
            made.append(FeatureCells(feature, ends))
        return Cells(model, tuple(made), limits)

    @property
    def domain(self) -> Domain:
        return self.model.domain

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The positions of the features that twins share."""
        return tuple(i for i, name in enumerate(self.domain.names) if name not in self.domain.sensitive)

    @cached_property
    def sensitive(self) -> tuple[int, ...]:
        return tuple(self.domain.names.index(name) for name in self.domain.sensitive)

    @cached_property
    def inside(self) -> tuple[np.ndarray, ...]:
        """Which cells of each free feature belong to the sub-population."""
        return tuple(_inside(self.features[i], self.where) for i in self.free)

    def within(self, points: np.ndarray) -> np.ndarray:
        """Which people, given by their cells [people, free features], belong to it."""
        found = np.ones(len(points), bool)
        for column, inside in zip(points.T, self.inside, strict=True):
            found &= inside[column]
        return found

    def narrowed(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Boxes of cells without the ends that nobody of it has, and which boxes still hold somebody."""
        low, high, some = low.copy(), high.copy(), np.ones(len(low), bool)
        for i, inside in enumerate(self.inside):
            if inside.all():
                continue
            places = np.flatnonzero(inside)
            first, last = np.searchsorted(places, low[:, i]), np.searchsorted(places, high[:, i], side="right") - 1
            some &= first <= last
            low[:, i] = places[np.minimum(first, len(places) - 1)]
            high[:, i] = places[np.maximum(last, 0)]
        return low[some], high[some], some

    @cached_property
    def routes(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """For each feature that is read: the nodes that do, and whether each cell goes left there [nodes, cells]."""
        forest, found = self.model.forest, dict[int, list[tuple[np.ndarray, np.ndarray]]]()
        for place, column in enumerate(forest.columns):
            nodes = np.flatnonzero(forest.column == place)
            if len(nodes):
                position = self.domain.names.index(self.model.reads[column.source])
                left = forest.goes_left(nodes, column.values(self.features[position].samples))
                found.setdefault(position, []).append((nodes, left))
        joined = {}
        for position, parts in found.items():
            nodes, left = (np.concatenate(part) for part in zip(*parts, strict=True))
            order = np.argsort(nodes, kind="stable")
            joined[position] = (nodes[order], left[order])
        return joined

    @cached_property
    def sides(self) -> dict[int, tuple[int, np.ndarray]]:
        """For each inner node: the feature that it reads, and whether each of its cells goes left."""
        return {
            node: (position, row)
            for position, (nodes, left) in self.routes.items()
            for node, row in zip(nodes.tolist(), left, strict=True)
        }

    @cached_property
    def twins(self) -> Twins:
        return Twins.of(self)

    def own(self, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """As `own_versions`, by the cells of the sensitive values."""
        parts = {self.domain.names[i]: self.features[i] for i in self.sensitive}
        return own_versions(frame, list(parts), self.twins.values.tolist(), lambda name, column: parts[name].of(column))

    def person(self, cells: Sequence[int] | np.ndarray, *, short: bool = False) -> dict[str, Value]:
        """Raw values of somebody in these cells, one for each free feature."""
        found = {}
        for position, cell in zip(self.free, cells, strict=True):
            one = self.features[position]
            found[one.feature.name] = one.shown(int(cell)) if short else one.samples[int(cell)]
        return found

    def place(self, table: Any) -> np.ndarray:
        """The cells of the people of a table [rows, free features], −1 for what is not of the domain."""
        columns = [self.features[i].of(table[self.domain.names[i]].to_numpy()) for i in self.free]
        return np.stack(columns, axis=1) if columns else np.zeros((len(table), 0), np.int64)


@dataclass(frozen=True, eq=False)
class Twins:
    """The versions of a person, in cells.

    Version h·|S| + s is moved by element h of the declared group and has the sensitive cells `values[s]`. `maps[f]`
    [ways, cells] says, for a free feature that some element moves, which cell's splits somebody's moved value meets;
    `ways[h, f]` is the row that an element uses, 0 for the value as it is.
    """

    values: np.ndarray  # int64 [sensitive values, sensitive features]
    maps: Mapping[int, np.ndarray]
    ways: np.ndarray  # int64 [elements, features of the domain]
    versions: Versions

    @staticmethod
    def of(cells: Cells) -> Twins:
        domain = cells.domain
        parts = [cells.features[i] for i in cells.sensitive]
        if domain.combinations is not None:
            columns = [part.of([row[j] for row in domain.combinations]) for j, part in enumerate(parts)]
            values = np.unique(np.stack(columns, axis=1), axis=0)
        else:
            size = float(np.prod([float(part.count) for part in parts]))
            if size > MOST_VERSIONS:
                raise InputError(
                    f"the sensitive features ({shown(domain.sensitive)}) fall into {size:,.0f} combinations that the "
                    f"forest tells apart, more than {MOST_VERSIONS:,}; name fewer of them, or observed combinations."
                )
            values = np.array(list(itertools.product(*(range(part.count) for part in parts))), np.int64)
        group = domain.twin_group
        if group.size * len(values) > MOST_VERSIONS:
            raise InputError(
                f"each person has {group.size * len(values):,} versions that the forest may tell apart, more than "
                f"{MOST_VERSIONS:,}; name fewer sensitive features or rules."
            )
        maps, ways = {}, np.zeros((group.size, len(cells.features)), np.int64)
        for place, name in enumerate(group.moved):
            position = domain.names.index(name)
            distinct: dict[Permutation, int] = {}
            for h, element in enumerate(group.elements):  # the identity comes first
                ways[h, position] = distinct.setdefault(element[place], len(distinct))
            maps[position] = np.stack([_map(cells.features[position], goes) for goes in distinct])
        raw = [tuple(part.shown(c) for part, c in zip(parts, row, strict=True)) for row in values.tolist()]
        return Twins(values, maps, ways, Versions(domain, raw))

    @property
    def size(self) -> int:
        return len(self.ways) * len(self.values)


# --- how it is made ---


def _cuts(forest: Forest, reads: Sequence[str]) -> dict[str, np.ndarray]:
    """For each feature read as a number: the raw numbers after which some split may turn."""
    found: dict[str, list[np.ndarray]] = {}
    for place, column in enumerate(forest.columns):
        if not column.is_monotone:
            continue
        nodes = np.flatnonzero(forest.column == place)
        compared = nodes[forest.members[nodes] < 0]
        turns = [np.array(column.breaks)]
        if len(compared):
            turns.append(column.last_below(np.unique(forest.threshold[compared])))
        sets = np.unique(forest.members[nodes[forest.members[nodes] >= 0]])
        if len(sets):
            values = np.unique(np.concatenate([forest.sets[i] for i in sets]))
            turns.append(column.last_below(np.unique(np.concatenate([values, np.nextafter(values, -np.inf)]))))
        found.setdefault(reads[column.source], []).extend(turns)
    return {name: np.unique(np.concatenate(parts)) for name, parts in found.items()}


def _inside(part: FeatureCells, limits: Where) -> np.ndarray:
    limit = limits.get(part.feature.name)
    if limit is None:
        return np.ones(part.count, bool)
    if part.ends is None:
        return np.array([value in limit for value in part.samples.tolist()], bool)
    if None in limit:
        return np.arange(part.count) == part.listed
    found = (part.ends >= float(limit[0])) & (part.ends <= float(limit[1]))
    return np.concatenate([found, np.zeros(int(part.gap), bool)])  # a missing number is in no range


def _ends(feature: Any, cuts: np.ndarray, *, mirror: bool) -> np.ndarray:
    cuts = cuts[np.isfinite(cuts)]
    if mirror:  # where a mirrored number passes a cut: below total − cut
        total = Fraction(feature.low) + Fraction(feature.high)
        cuts = np.concatenate([cuts, [_below(total - Fraction(float(cut))) for cut in cuts]])
    if feature.kind == "integer":
        cuts = np.floor(cuts)
    return np.unique([*cuts[(cuts >= feature.low) & (cuts < feature.high)], float(feature.high)])


def _below(number: Fraction) -> float:
    """The largest float that is smaller."""
    near = float(number)
    return near if Fraction(near) < number else float(np.nextafter(near, -np.inf))


def _map(cells: FeatureCells, goes: Permutation) -> np.ndarray:
    """Which cell each cell's people are like once they are moved."""
    own = np.arange(cells.count)
    if cells.ends is None:
        return np.array(goes, np.int64)
    if goes == (0, 1):
        return own
    feature = cells.feature
    assert isinstance(feature, NUMERIC)
    total, ends = Fraction(feature.low) + Fraction(feature.high), [Fraction(float(end)) for end in cells.ends]
    for cell in range(cells.listed):
        mirrored = total - ends[cell]
        own[cell] = next(i for i, end in enumerate(ends) if mirrored <= end)
    return own


# --- what the domain leaves of a forest ---


def restricted(model: ForestModel) -> ForestModel:
    """The model with the forest that its domain leaves: without splits that everybody passes one way, and without
    splits whose two sides are equal. Each tree still adds the same number to everybody's score.
    """
    keeper = _Keeper(model.forest, Cells.of(model).sides)
    return replace(model, forest=keeper.forest_of([keeper.tree(int(root)) for root in model.forest.roots]))


class _Keeper:
    """Numbers subtrees; equal ones get the same number (`known`), so that equal sides are recognised at once."""

    def __init__(self, forest: Forest, sides: Mapping[int, tuple[int, np.ndarray]]) -> None:
        self.forest, self.sides = forest, sides
        self.known: dict[Kept, int] = {}
        self.trees: list[Kept] = []  # (row of values,) of a leaf, else (node, left, right) with subtrees by number

    def _number(self, key: Kept, kept: Kept) -> int:
        if key not in self.known:
            self.known[key] = len(self.trees)
            self.trees.append(kept)
        return self.known[key]

    def tree(self, root: int) -> int:
        """The number of what is left of a subtree; without recursion, as trees may be deep."""
        forest, done = self.forest, list[int]()
        waiting: list[tuple[int, dict[int, np.ndarray], bool]] = [(root, {}, False)]
        while waiting:
            node, allowed, is_done = waiting.pop()
            if is_done:
                right, left = done.pop(), done.pop()
                asks = tuple(part[node].item() for part in (forest.column, forest.threshold, forest.members))
                key = (*asks, forest.missing_left[node].item(), left, right)
                done.append(left if left == right else self._number(key, (node, left, right)))
                continue
            if forest.leaf[node] >= 0:
                row = int(forest.leaf[node])
                done.append(self._number(("leaf", forest.values[row].tobytes()), (row,)))
                continue
            position, left_cells = self.sides[node]
            own = allowed.get(position)
            one = left_cells if own is None else own & left_cells
            other = ~left_cells if own is None else own & ~left_cells
            sides = [(one, int(forest.left[node])), (other, int(forest.right[node]))]
            sides = [(some, child) for some, child in sides if some.any()]
            if len(sides) == 2:
                waiting.append((node, allowed, True))
            for some, child in reversed(sides):
                waiting.append((child, {**allowed, position: some}, False))
        return done[0]

    def forest_of(self, roots: list[int]) -> Forest:
        """The trees written out again, each parent before its children."""
        forest = self.forest
        starts, source, left, right, rows = list[int](), list[int](), list[int](), list[int](), list[int]()
        for root in roots:
            starts.append(len(source))
            waiting = [(root, -1, False)]
            while waiting:
                number, parent, is_right = waiting.pop()
                here, kept = len(source), self.trees[number]
                if parent >= 0:
                    (right if is_right else left)[parent] = here
                left.append(-1)
                right.append(-1)
                if len(kept) == 1:
                    source.append(-1)
                    rows.append(kept[0])
                    continue
                source.append(kept[0])
                waiting += [(kept[2], here, True), (kept[1], here, False)]
        at = np.array(source)
        inner = at >= 0

        def of(array: np.ndarray, leaf: Any) -> np.ndarray:
            return np.where(inner, array[at], leaf)

        return replace(
            forest, roots=np.array(starts), column=of(forest.column, -1), threshold=of(forest.threshold, 0.0),
            members=of(forest.members, -1), left=np.array(left), right=np.array(right),
            missing_left=of(forest.missing_left, False), values=forest.values[rows],
        )  # fmt: skip
