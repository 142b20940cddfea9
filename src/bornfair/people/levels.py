"""Which of a feature's values is a cell of a table? How its file was read does not decide that.

One odd cell makes texts of a column of numbers or of true and false, and codes that were texts beside an "A" are whole
numbers in a file without one. A value that is no level is taken for the one level that is written as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from bornfair.people.features import NUMERIC, Feature, Population, known_levels


def level_positions(feature: Feature, column: pd.Series) -> np.ndarray:
    """The position of each value among the levels of a feature, −1 where it is none of them. A gap is the last level of
    a feature that may be missing.

    >>> from bornfair.people.features import BooleanFeature, CategoricalFeature
    >>> sector = CategoricalFeature(name="sector", categories=("1", "2", "A"))
    >>> level_positions(sector, pd.Series([2, 1, 3])).tolist(), level_positions(sector, pd.Series([2.0, None])).tolist()
    ([1, 0, -1], [1, -1])
    >>> level_positions(BooleanFeature(name="owner"), pd.Series(["True", "false", "maybe"])).tolist()
    [1, 0, -1]
    """
    levels = pd.Index(list(known_levels(feature)))
    if isinstance(column.dtype, pd.CategoricalDtype):
        found = _positions(levels, pd.Index(column.cat.categories))
        found = np.append(found, -1)[column.cat.codes]  # the code of a gap is -1
    else:
        found = _positions(levels, pd.Index(column))
    gaps = column.isna().to_numpy()
    return np.where(gaps, len(levels) if feature.missing else -1, found) if gaps.any() else found


def unseen_count(feature: Feature, column: pd.Series) -> int:
    """The number of values that are none of a feature's levels, gaps left aside.

    >>> from bornfair.people.features import CategoricalFeature
    >>> sector = CategoricalFeature(name="sector", categories=("1", "A"))
    >>> unseen_count(sector, pd.Series(["A", "B", "B", None])), unseen_count(sector, pd.Series([1, 1]))
    (2, 0)
    """
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return int(((level_positions(feature, column) < 0) & column.notna()).sum())
    unseen = _positions(pd.Index(list(known_levels(feature))), pd.Index(column.cat.categories)) < 0
    return int(np.append(unseen, False)[column.cat.codes].sum()) if unseen.any() else 0


def with_categories(table: pd.DataFrame) -> pd.DataFrame:
    """The table with texts as positions in a list of them, which are looked up faster."""
    texts = {
        str(name): pd.Categorical.from_codes(*pd.factorize(column))
        for name, column in table.items()
        if isinstance(column.dtype, pd.StringDtype)
    }
    return table.assign(**texts) if texts else table


def as_listed(people: Population, table: pd.DataFrame) -> pd.DataFrame:
    """The table with values as the levels of the domain, where they are written as one; all others as they are."""
    changed = {}
    for feature in people.features:
        if isinstance(feature, NUMERIC) or feature.name not in table.columns:
            continue
        column, levels = table[feature.name], np.array([*known_levels(feature), None], object)
        strange = column.notna().to_numpy() & ~column.isin(list(known_levels(feature))).to_numpy()
        if not strange.any():
            continue
        position = level_positions(feature, column)
        known = strange & (position >= 0)
        if known.any():
            values = column.astype(object).to_numpy(copy=True)
            values[known] = levels[position[known]]
            changed[feature.name] = pd.Series(values, index=column.index, name=column.name).infer_objects()
    return table.assign(**changed) if changed else table


def _positions(levels: pd.Index, values: pd.Index) -> np.ndarray:
    position = levels.get_indexer_for(values)
    unseen = np.flatnonzero(position < 0)
    if not len(unseen):
        return position
    written = _by_writing(levels)
    codes, distinct = pd.factorize(values[unseen])
    found = np.array([written.get(_writing(value), -1) for value in distinct] + [-1])  # a gap has the code -1
    position[unseen] = found[codes]
    return position


def _by_writing(levels: Iterable[object]) -> dict[str, int]:
    """Positions by how levels are written; what two are written as is neither."""
    found: dict[str, int] = {}
    for position, level in enumerate(levels):
        text = _writing(level)
        found[text] = -1 if text in found else position
    return found


def _writing(value: object) -> str:
    """As a file would hold it: whole numbers without a point or leading zeros.

    >>> [_writing(value) for value in (1, 1.0, "01", "1.0", True, "true", "A1", "0.50")]
    ['1', '1', '1', '1', 'true', 'true', 'A1', '0.5']
    """
    if isinstance(value, (bool, np.bool_)) or (isinstance(value, str) and value.strip().lower() in ("true", "false")):
        return str(value).strip().lower()
    text = str(value).strip()
    if not any(character.isdigit() for character in text):
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
