"""Splits of a forest in raw values of the features, as an ONNX graph can compare them.

A column of a forest is a number made of a raw value; a split of it is a split of the raw value: x ≤ c for a number,
with c found without error (`SplitColumn.last_below`), and a set of levels for a category, each level looked up.
What differs in nothing but how it was written is then the same: no encoding is left, and nothing rounds but the sum.

Whole numbers of which a split picks some out of their order are categories here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Forest
from bornfair.people.features import NUMERIC, Feature, known_levels

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

MOST_LISTED = 1_000  # whole numbers that are looked up one by one
MOST_ENTRIES = 2**20  # levels times sets of one category

Ways = tuple[bool, ...]  # whether a split sends each level left, then who has none, then any other value


@dataclass(frozen=True, eq=False)
class ServedColumns:
    """The columns that a feature has in the graph: itself, or one for each set of levels that splits ask about."""

    feature: Feature
    sets: tuple[Ways, ...] | None

    @property
    def width(self) -> int:
        return 1 if self.sets is None else len(self.sets)

    @property
    def table(self) -> np.ndarray:
        """For each level, a missing value and any other: 0 where a set holds it, else 1, so that x ≤ ½ is "in it"."""
        assert self.sets is not None
        return 1.0 - np.array(self.sets, np.float64).T


@dataclass(frozen=True, eq=False)
class ServedForest:
    """Splits over raw columns: left goes who is at most the threshold. Nodes are those of the forest."""

    columns: tuple[ServedColumns, ...]
    column: np.ndarray  # int64 [nodes], counted over all columns; −1 for a leaf
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    forest: Forest

    @staticmethod
    def of(model: ForestModel) -> ServedForest:
        return _Serving(model).served()


class _Serving:
    def __init__(self, model: ForestModel) -> None:
        self.model, self.forest = model, model.forest
        read = model.features_read
        # Somebody must say how many rows there are, also where nothing is read.
        spare = [f.name for f in (*model.domain.free_features, *model.domain.sensitive_features)][:1]
        self.names = [name for name in model.domain.names if name in read] or spare
        self.column, self.threshold = np.full(model.forest.nodes, -1), np.zeros(model.forest.nodes)
        self.left, self.right = model.forest.left.copy(), model.forest.right.copy()
        self.missing = model.forest.missing_left.copy()

    def served(self) -> ServedForest:
        made, start = [], 0
        for name in self.names:
            feature = self.model.domain.feature(name)
            nodes = [
                (column, np.flatnonzero(self.forest.column == place))
                for place, column in enumerate(self.forest.columns)
                if self.model.reads[column.source] == name
            ]
            nodes = [(column, several) for column, several in nodes if len(several)]
            sets = None
            if feature.kind == "boolean":
                self._true_or_false(nodes, start)
            elif not isinstance(feature, NUMERIC) or any(self._is_listed(*each) for each in nodes):
                sets = self._sets(feature, nodes, start)
            else:
                self._number(nodes, start)
            made.append(ServedColumns(feature, sets))
            start += made[-1].width
        return ServedForest(
            tuple(made), self.column, self.threshold, self.left, self.right, self.missing, self.forest
        )  # fmt: skip

    def _is_listed(self, column: SplitColumn, nodes: np.ndarray) -> bool:
        """Whether splits pick numbers out of their order."""
        return column.table is not None or bool(column.breaks) or bool((self.forest.members[nodes] >= 0).any())

    def _number(self, nodes: Sequence[tuple[SplitColumn, np.ndarray]], place: int) -> None:
        for column, several in nodes:
            self.column[several] = place
            self.threshold[several] = column.last_below(self.forest.threshold[several])
            nothing = float(column.values(np.array([np.nan]))[0])
            if not np.isnan(nothing):
                self.missing[several] = self._ways(several, np.array([nothing]))[:, 0]
            if column.falls:
                self._turn(several)
                self.missing[several] = ~self.missing[several]

    def _true_or_false(self, nodes: Sequence[tuple[SplitColumn, np.ndarray]], place: int) -> None:
        """0 or 1: one way for both is beyond both."""
        for column, several in nodes:
            goes = self._ways(several, column.values(np.array([False, True], dtype=object)))
            self.column[several] = place
            self.threshold[several] = np.where(goes[:, 0] == goes[:, 1], 2.0, 0.5)
            self.missing[several] = False
            self._turn(several[~goes[:, 0]])

    def _sets(self, feature: Feature, nodes: Sequence[tuple[SplitColumn, np.ndarray]], start: int) -> tuple[Ways, ...]:
        many = isinstance(feature, NUMERIC) and (feature.kind != "integer" or len(feature.levels()) > MOST_LISTED)
        if many or (isinstance(feature, NUMERIC) and feature.missing):
            raise InputError(
                f"a split of '{feature.name}' picks single numbers out, or takes zero for missing, which a bundle can "
                f"only hold of at most {MOST_LISTED:,} whole numbers that are never missing; list its values in the "
                "domain as categories."
            )
        levels, found = np.array(list(known_levels(feature)), dtype=object), dict[Ways, int]()
        for column, several in nodes:
            absent = column.values(np.array([None], dtype=object))
            other = absent
            if column.table is not None and column.other is not None:
                other = SplitColumn(0, column.steps).values(np.array([column.other]))
            for node, ways in zip(
                several.tolist(),
                self._ways(several, np.concatenate([column.values(levels), absent, other])),
                strict=True,
            ):
                place = found.setdefault(tuple(ways.tolist()), len(found))
                self.column[node], self.threshold[node], self.missing[node] = start + place, 0.5, False
        if len(found) * len(levels) > MOST_ENTRIES:
            raise InputError(
                f"splits of '{feature.name}' ask about {len(found):,} sets of {len(levels):,} levels, more than a "
                "bundle can hold; merge rare categories."
            )
        return tuple(found) or ((False,) * (len(levels) + 2),)  # nothing is read, but it says how many rows there are

    def _turn(self, nodes: np.ndarray) -> None:
        self.left[nodes], self.right[nodes] = self.forest.right[nodes], self.forest.left[nodes]

    def _ways(self, nodes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Which nodes send left whom, [nodes, numbers]."""
        forest = self.forest
        found = numbers[None, :] <= forest.threshold[nodes][:, None]
        for row, node in zip(found, nodes, strict=True):
            if forest.members[node] >= 0:
                row[:] = np.isin(numbers, forest.sets[forest.members[node]])
        return np.where(np.isnan(numbers)[None, :], forest.missing_left[nodes][:, None], found)
