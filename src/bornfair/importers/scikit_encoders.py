"""The numbers that a fitted encoder of scikit-learn gives to each category, to a gap and to any other value.

The encoder itself is asked, so that dropped, infrequent and unknown categories are treated as it treats them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import plain, plain_value
from bornfair.importers.affine import CannotRead
from bornfair.people.features import Value

ENCODERS = ("OneHotEncoder", "OrdinalEncoder")


@dataclass(frozen=True, eq=False)
class Lookup:
    """What an encoder makes of one column: rows of numbers, one number for each column that it makes."""

    known: tuple[Value, ...]  # its categories, without a gap
    made: np.ndarray  # [known, columns made]
    missing: np.ndarray | None  # of a gap; None where the encoder refuses it
    other: np.ndarray | None  # of any other value

    def of(self, value: Any) -> np.ndarray | None:
        """The numbers of a value; None where the encoder refuses it."""
        if is_gap(value):
            return self.missing
        places = {category: i for i, category in enumerate(self.known)}
        return self.made[places[value]] if value in places else self.other


def is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def knows_gap(categories: Any) -> bool:
    return any(is_gap(plain(category)) for category in categories)


def gap_of(categories: Any) -> Any:
    """What stands for a gap in a column with these categories: NaN, unless None is one of them."""
    gaps = [value for value in map(plain, categories) if is_gap(value)]
    if len(gaps) > 1:
        raise CannotRead("knows both None and NaN as categories, which is not supported; use one of them in the table")
    return gaps[0] if gaps else math.nan


def lookups(step: Any) -> list[Lookup]:
    """What a fitted encoder makes of each of its columns."""
    counts = getattr(step, "_n_features_outs", None) if type(step).__name__ == "OneHotEncoder" else None
    ends = np.cumsum([0, *(counts if counts is not None else [1] * len(step.categories_))])
    return [_lookup(step, j, slice(ends[j], ends[j + 1])) for j in range(len(step.categories_))]


def _lookup(step: Any, j: int, place: slice) -> Lookup:
    given = [plain(category) for category in step.categories_[j]]
    known = [value for value in given if not is_gap(value)]
    gap = gap_of(given)
    if not known:
        raise CannotRead("knows a column that was empty when it was fitted; leave that column out")
    made = _asked(step, j, known)
    assert made is not None
    missing, other = (_asked(step, j, [value]) for value in (gap, _another(known)))
    rows = [None if one is None else one[0, place] for one in (missing, other)]
    return Lookup(tuple(_whole(value) for value in known), made[:, place], *rows)


def _asked(step: Any, j: int, values: Sequence[Any]) -> np.ndarray | None:
    """The encoder's answer where one column has these values and the others have their first category."""
    columns = []
    for i, categories in enumerate(step.categories_):
        column = np.empty(len(values), object)
        column[:] = values if i == j else [plain(categories[0])] * len(values)
        if categories.dtype.kind in "iuf" or (categories.dtype.kind == "b" and i != j):
            column = column.astype(np.float64 if categories.dtype.kind != "b" else bool)
        columns.append(column)
    names = getattr(step, "feature_names_in_", range(len(columns)))
    table = pd.DataFrame({i: pd.Series(column, dtype=column.dtype) for i, column in enumerate(columns)})
    table = table.set_axis(list(names), axis=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = step.transform(table)
    except (ValueError, TypeError) as error:
        known = {plain(category) for category in step.categories_[j]}
        if all(value in known for value in values if not is_gap(value)) and not any(map(is_gap, values)):
            raise CannotRead(f"fails on its own categories ({str(error)[:200]})") from error
        return None
    return np.asarray(found.todense() if hasattr(found, "todense") else found, np.float64)


def _another(known: Sequence[Any]) -> Any:
    """A value that is not among those known."""
    if any(isinstance(value, str) for value in known):
        return max((value for value in known if isinstance(value, str)), key=len) + "?"
    return float(max(known)) + 1.0


def _whole(value: Any) -> Value:
    found = plain_value(value)
    return int(found) if isinstance(found, float) and found == round(found) else found
