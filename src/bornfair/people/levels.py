"""Positions of a table's cells among the values of a feature or the classes of a target.

How a file was read does not decide which value a cell is: one odd cell makes texts of a column of numbers or of true
and false, and codes that were texts beside an "A" are whole numbers in a file without one. A value that is no level is
taken for the one level that is written as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, shown
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
    return int(((level_positions(feature, column) < 0) & column.notna()).sum())


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
        position = np.where(strange, level_positions(feature, column), -1)
        if (position >= 0).any():
            changed[feature.name] = with_levels(column, levels, position)
    return table.assign(**changed) if changed else table


def with_levels(column: pd.Series, levels: np.ndarray, positions: np.ndarray) -> pd.Series:
    """The column with levels by position; values whose position is −1 stay as they are."""
    values, known = column.astype(object).to_numpy(copy=True), positions >= 0
    values[known] = levels[positions[known]]
    return pd.Series(values, index=column.index, dtype=object).infer_objects()


def _positions(levels: pd.Index, values: pd.Index) -> np.ndarray:
    position = levels.get_indexer_for(values)
    unseen = np.flatnonzero(position < 0)
    if not len(unseen):
        return position
    written: dict[str, int] = {}
    for place, text in enumerate(map(_writing, levels)):
        written[text] = -1 if text in written else place  # what two levels are written as is neither
    codes, distinct = pd.factorize(values[unseen])
    found = np.array([written.get(_writing(value), -1) for value in distinct] + [-1])  # a gap has the code -1
    position[unseen] = found[codes]
    return position


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


# --- groups of people by one feature ---

MOST_VALUES = 8  # of a number that are groups of their own
MOST_LEVELS = 20  # categories that are; the rest, the rarest, are one group
DECADES = (25, 120)  # whole numbers that reach so far are put into tens, as ages are


def grouped(feature: Feature, column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Each row's group, as a position in the names of the groups; −1 where the value is not known.

    >>> from bornfair.people.features import IntegerFeature
    >>> age = IntegerFeature(name="age", low=18, high=90)
    >>> grouped(age, pd.Series([18, 25, 31, 39, 42, 57, 63, 70, 88, None]))[1]
    ['10 to 19', '20 to 29', '30 to 39', '40 to 49', '50 to 59', '60 to 69', '70 to 79', '80 to 89']
    """
    if isinstance(feature, NUMERIC):
        return _numbers(feature, pd.to_numeric(column, errors="coerce"))
    levels = ["missing" if level is None else level for level in feature.levels()]
    positions = pd.Index(list(known_levels(feature)), dtype=object).get_indexer_for(
        pd.Index(column.astype(object), dtype=object)
    )
    if feature.missing:
        positions = np.where(column.isna().to_numpy(), len(levels) - 1, positions)
    counts = np.bincount(positions[positions >= 0], minlength=len(levels))
    kept = np.flatnonzero(counts)
    names = [str(plain(levels[i])) for i in kept]
    if len(kept) > MOST_LEVELS:
        often = np.sort(kept[np.argsort(-counts[kept], kind="stable")[: MOST_LEVELS - 1]])
        rest = len(kept) - len(often)
        kept, names = often, [*(str(plain(levels[i])) for i in often), f"{rest:,} other values"]
    place = np.full(len(levels) + 1, len(kept), np.int64)
    place[kept], place[-1] = np.arange(len(kept)), -1
    return place[positions], names


def _numbers(feature: Feature, column: pd.Series) -> tuple[np.ndarray, list[str]]:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    known = np.isfinite(numbers)
    values = np.unique(numbers[known])
    if len(values) <= MOST_VALUES:
        names = [f"{value:g}" for value in values]
        return np.where(known, np.searchsorted(values, np.where(known, numbers, 0.0)), -1), names
    whole = feature.kind == "integer"
    if whole and DECADES[0] <= values[-1] - values[0] <= DECADES[1]:
        cuts = np.arange(np.floor(values[0] / 10) * 10, values[-1] + 10, 10)
        bands = np.searchsorted(cuts, np.where(known, numbers, values[0]), side="right") - 1
        names = [f"{cut:g} to {cut + 9:g}" for cut in cuts]
    else:  # quarters of the people; where many have one value, a band of its own ends there
        cuts = np.unique(np.quantile(numbers[known], (0.25, 0.5, 0.75)))
        bands = np.searchsorted(cuts, np.where(known, numbers, values[0]), side="left")
        held = [values[np.searchsorted(cuts, values, side="left") == i] for i in range(len(cuts) + 1)]
        ends = [(some[0], some[-1]) if len(some) else (0.0, 0.0) for some in held]
        names = [f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ends]
    used = np.unique(bands[known])
    return np.where(known, np.searchsorted(used, bands), -1), [names[i] for i in used]


# --- classes of the target ---

FAVOURABLE = (
    ">50k", ">50k.", "accept", "accepted", "admit", "admitted", "approve", "approved", "creditworthy", "eligible",
    "fully paid", "good", "grant", "granted", "hire", "hired", "invite", "invited", "low risk", "no default", "paid",
    "paid off", "pass", "passed", "positive", "promoted", "selected", "success", "true", "y", "yes",
)  # fmt: skip
UNFAVOURABLE = (
    "<=50k", "<=50k.", "bad", "bankrupt", "charged off", "decline", "declined", "default", "defaulted", "denied",
    "deny", "fail", "failed", "false", "fraud", "high risk", "n", "negative", "no", "refused", "reject", "rejected",
)  # fmt: skip
HARMS = ("arrest", "bad", "bankrupt", "charge", "default", "delinq", "denied", "fraud", "recid", "reject", "violation")
"""Parts of a target's name by which saying yes is bad for whom it is said of."""


def favourable_class(name: str, classes: Sequence[object], asked: object = None) -> tuple[int, bool]:
    """The position of the class that people hope for, and whether it was inferred from names.

    Without a telling name it is the last class.

    >>> favourable_class("risk", ["bad", "good"]), favourable_class("grade", ["a", "b", "c"], "a")
    ((1, True), (0, False))
    >>> favourable_class("default_next_month", [0, 1])
    (0, True)
    """
    known = [plain(label) for label in classes]
    texts = [str(label) for label in known]
    if asked is not None:
        if plain(asked) in known:
            return known.index(plain(asked)), False
        if str(plain(asked)) in texts:
            return texts.index(str(plain(asked))), False
        raise InputError(
            f"the favourable decision {str(plain(asked))!r} is not one of the model's classes {shown(known)}; "
            "name one of them."
        )
    words = [text.strip().lower() for text in texts]
    if len(words) == 2 and any(harm in name.lower() for harm in HARMS):
        said = [i for i, word in enumerate(words) if word in ("1", "1.0", "yes", "y", "true")]
        if len(said) == 1:
            return 1 - said[0], True
    good = [i for i, word in enumerate(words) if word in FAVOURABLE]
    bad = [i for i, word in enumerate(words) if word in UNFAVOURABLE]
    if len(good) == 1:
        return good[0], True
    if len(words) == 2 and len(bad) == 1:
        return 1 - bad[0], True
    return len(words) - 1, True


def answered(column: pd.Series) -> pd.Series:
    """The labels that are there. Whole numbers beside gaps came as decimals, and are whole numbers again.

    >>> answered(pd.Series([1.0, None, 0.0])).tolist()
    [1, 0]
    """
    there = column.dropna()
    whole = len(there) < len(column) and there.dtype.kind == "f" and bool((there % 1 == 0).all())
    return there.astype(np.int64) if whole else there


def class_positions(column: pd.Series, classes: Sequence[object], *, gaps: bool = False) -> np.ndarray:
    """The labels of a table as positions in a model's classes; where there may be gaps, these are −1.

    A label that is no class is read as text: a table that came by CSV may say 1 where the model says "1", and 1.0 where
    it says 1 because another row of the column is empty.

    >>> class_positions(pd.Series(["yes", "no"], name="grant"), ["no", "yes"]).tolist()
    [1, 0]
    """
    if column.isna().any():
        if gaps:
            found = np.full(len(column), -1, np.int64)
            there = column.notna().to_numpy()
            found[there] = class_positions(column[there], classes)
            return found
        raise InputError(
            f"target '{column.name}' is missing in {int(column.isna().sum())} of {len(column)} rows; remove those rows."
        )
    known = [plain(label) for label in classes]
    positions = places_among(column.astype(object).to_numpy(), known)
    if (positions < 0).any():
        found = plain(column.iloc[int(np.argmax(positions < 0))])
        raise InputError(
            f"target '{column.name}' holds {found!r}, which is not one of the model's classes {shown(known)}; "
            "write the labels as the model's classes (of two, the last is the positive one)."
        )
    return positions


def places_among(values: np.ndarray, known: Sequence[object]) -> np.ndarray:
    """The position of each label among the known ones, −1 where it is none of them; as a text, if not as it is.

    >>> places_among(np.array(["1", 0, 1.0, "x"], dtype=object), [0, 1]).tolist()
    [1, 0, 1, -1]
    """
    found = pd.Index(list(known), dtype=object).get_indexer_for(pd.Index(values, dtype=object))
    if (found < 0).any():
        texts = {str(label): i for i, label in enumerate(known)}
        read = (texts.get(str(plain(value)), texts.get(_text(value), -1)) for value in values)
        found = np.fromiter(read, np.int64, len(values))
    return np.asarray(found, np.int64)


def _text(value: object) -> str:
    """A label as a text; a whole number without its decimals."""
    found = plain(value)
    return str(int(found)) if isinstance(found, float) and found.is_integer() else str(found)
