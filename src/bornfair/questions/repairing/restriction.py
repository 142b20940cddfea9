"""The sensitive values that a forest is averaged over, and which way each of its splits sends them.

A repaired forest is the mean of the forest restricted to each sensitive value. Numbers are taken in cells: between two
neighbouring cuts of all splits that read them every number goes the same ways, so that one stands for all, with the
weight of the cell. Categories that declared rules turn into one another are merged into one, and the mean goes over
them, too.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import ForestModel
from bornfair.people.features import NUMERIC, Feature, NumericFeature, Value
from bornfair.people.sensitive import ENUMERATION_LIMIT

FEW_LEVELS = 1_000  # whole numbers that are taken one by one


@dataclass(frozen=True, eq=False)
class Averaged:
    """The sensitive values that the mean goes over, and how much each counts."""

    people: pd.DataFrame  # one column for each sensitive feature
    weights: np.ndarray  # float64, sums to 1
    told: str  # what is averaged over, as a sentence says it


def all_values(model: ForestModel) -> Averaged:
    """Every sensitive value alike; of a real number, every stretch of its range by its length."""
    domain = model.domain
    if domain.combinations is not None:
        rows = pd.DataFrame(list(domain.combinations), columns=list(domain.sensitive), dtype=object)
        weights = np.full(len(rows), 1 / len(rows))
        return Averaged(rows.infer_objects(), weights, f"the {len(rows)} combinations of {shown(domain.sensitive)}")
    cells = [_cells(model, feature) for feature in domain.sensitive_features]
    size = math.prod(len(values) for values, _ in cells)
    if size > ENUMERATION_LIMIT:
        raise InputError(
            f"the sensitive features {shown(domain.sensitive)} have {size:,} combinations that the splits tell apart, "
            f"more than the {ENUMERATION_LIMIT:,} that can be averaged; name fewer of them."
        )
    people = list(itertools.product(*(values for values, _ in cells)))
    rows = pd.DataFrame(people, columns=list(domain.sensitive), dtype=object)
    weights = np.array([math.prod(share) for share in itertools.product(*(shares for _, shares in cells))])
    told = " and ".join(f"{_told(feature)} of {feature.name}" for feature in domain.sensitive_features)
    return Averaged(rows.infer_objects(), weights / weights.sum(), f"{told}, each counting the same")


def values_of(model: ForestModel, table: pd.DataFrame) -> Averaged:
    """The sensitive values of the people of a table, each as often as it occurs."""
    names = list(model.domain.sensitive)
    known = table[names].dropna(subset=[f.name for f in model.domain.sensitive_features if not f.missing])
    if not len(known):
        raise InputError(f"nobody in the table has a known value of {shown(names)}; use method='plain'.")
    counted = known.value_counts(sort=False, dropna=False).reset_index(name="count")
    weights = counted.pop("count").to_numpy(np.float64)
    told = f"the values of {' and '.join(names)}, each as often as in {len(known):,} rows of the table"
    return Averaged(counted, weights / weights.sum(), told)


def _told(feature: Feature) -> str:
    if isinstance(feature, NUMERIC) and feature.kind == "real":
        return f"all numbers from {feature.low:g} to {feature.high:g}"
    return f"the {len(feature.levels()):,} values"


def _cells(model: ForestModel, feature: Feature) -> tuple[list[Value], list[float]]:
    """Values of a feature, one for each cell, and the cells' weights."""
    if not isinstance(feature, NUMERIC) or (feature.kind == "integer" and len(feature.levels()) <= FEW_LEVELS):
        levels = list(feature.levels())
        return levels, [1 / len(levels)] * len(levels)
    ends = [turn for turn in turns_of(model, feature) if feature.low <= turn < feature.high]
    if feature.kind == "integer":
        last = sorted({math.floor(end) for end in ends} | {int(feature.high)})
        sizes = np.diff([feature.low - 1, *last]).astype(float)
        return list(last), (sizes / sizes.sum()).tolist()
    highest = [*ends, float(feature.high)]
    return list(highest), (np.diff([feature.low, *highest]) / (feature.high - feature.low)).tolist()


def turns_of(model: ForestModel, feature: NumericFeature) -> list[float]:
    """The numbers after which some split, or the next step of a column, takes another turn, in order."""
    forest, found = model.forest, set[float]()
    for place, column in enumerate(forest.columns):
        if model.reads[column.source] != feature.name or not column.is_monotone:
            continue
        read = forest.column == place
        cuts = forest.threshold[read & (forest.members < 0)]
        sets = [forest.sets[i] for i in np.unique(forest.members[read & (forest.members >= 0)])]
        whole = np.concatenate([np.zeros(0), *sets])
        cuts = np.concatenate([cuts, np.nextafter(whole, -np.inf), whole])
        if len(cuts):
            found |= set(column.last_below(np.unique(cuts)).tolist())
        found |= set(column.breaks)
    return sorted(found)


# --- declared twins ---


@dataclass(frozen=True, eq=False)
class Merge:
    """A feature of which some values are taken for one another: each orbit stands for all of its members."""

    source: int  # input of the forest
    levels: tuple[Value, ...]
    orbits: tuple[tuple[int, ...], ...]

    @cached_property
    def choices(self) -> int:
        """Ways to choose a member of every orbit, so that each is chosen as often as the others of its orbit."""
        return math.lcm(*(len(orbit) for orbit in self.orbits))

    def chosen(self, choice: int) -> tuple[int, ...]:
        """For each level, the one that stands there in this choice; the same for all levels of an orbit."""
        found = list(range(len(self.levels)))
        for orbit in self.orbits:
            for place in orbit:
                found[place] = orbit[choice % len(orbit)]
        return tuple(found)

    def column(self, like: SplitColumn) -> SplitColumn:
        """What splits read of the merged feature: the position of the first of the orbit."""
        first = self.chosen(0)
        table = tuple((level, float(first[i])) for i, level in enumerate(self.levels) if level is not None)
        missing = float(first[-1]) if self.levels[-1] is None else math.nan
        return SplitColumn(self.source, (), table, like.other, missing)


def merges_of(model: ForestModel) -> dict[int, Merge]:
    """By input of the forest, the features that the declared rules move."""
    found = {}
    for name, orbits in model.domain.twin_group.orbits.items():
        feature = model.domain.feature(name)
        if name not in model.features_read:
            continue
        if isinstance(feature, NUMERIC):
            raise InputError(
                f"a rule mirrors the number '{name}', which the repair of a forest cannot merge; leave the rule out, "
                f"or repair with '{name}' sensitive."
            )
        for source, own in enumerate(model.reads):
            if own == name:
                found[source] = Merge(source, tuple(feature.levels()), orbits)
    return found


def ways(forest: Forest, nodes: np.ndarray, columns: dict[int, np.ndarray]) -> np.ndarray:
    """Which of these splits send left whom: [nodes, people], from what columns are for them."""
    found = np.empty((len(nodes), max(map(len, columns.values()), default=1)), bool)
    for row, node in zip(found, nodes, strict=True):
        numbers = columns[int(forest.column[node])]
        chosen = int(forest.members[node])
        left = np.isin(numbers, forest.sets[chosen]) if chosen >= 0 else numbers <= forest.threshold[node]
        row[:] = np.where(np.isnan(numbers), forest.missing_left[node], left)
    return found
