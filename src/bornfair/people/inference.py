"""Features, labels and combinations of sensitive values as a table shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.checks import whole
from bornfair.core.errors import InputError, plain, shown
from bornfair.people.features import (
    LARGEST_WHOLE,
    NUMERIC,
    BooleanFeature,
    CategoricalFeature,
    Feature,
    IntegerFeature,
    Label,
    Level,
    Population,
    RealFeature,
    Value,
    unknown_column,
)
from bornfair.people.levels import level_positions
from bornfair.people.tables import as_pandas

if TYPE_CHECKING:
    from bornfair.people.domain import Domain

MOST_CATEGORIES = 1_000
FEW, OFTEN = 12, 5  # numbers of so few different values, each of them seen so often on average, may be a list of these


ForcedKind = Literal["categorical", "numeric"]


def inferred(
    table: Any,
    *,
    target: str | None,
    sensitive: Sequence[str],
    kinds: Mapping[str, ForcedKind] | None = None,
    gaps: bool = True,
) -> tuple[dict[str, Any], pd.DataFrame]:
    """The content of a domain file with ranges and categories as observed, and the table it was read off.

    A sensitive number of few values is the list of them. Others are not: a network that is trained on them should take
    a number that nobody had yet for one, between its neighbours.

    kinds: of some columns what they are, whatever they look like. gaps: whether columns with gaps may be missing.
    """
    kinds = kinds or {}
    frame = as_pandas(table)
    names = [str(column) for column in frame.columns]
    roles = {"target": [] if target is None else [target], "sensitive feature": sensitive, "column": kinds}
    for name, role in ((name, role) for role, some in roles.items() for name in some):
        if name not in frame.columns:
            raise InputError(unknown_column(name, names, role))
    if target is not None and target in sensitive:
        raise InputError(f"'{target}' cannot be both the target and a sensitive feature.")
    columns = {str(name): frame[name] for name in frame.columns if name != target}
    features = [_feature(name, column, kinds.get(name)) for name, column in columns.items()]
    features = [listed(f, columns[f.name]) if f.name in sensitive and f.name not in kinds else f for f in features]
    if gaps:
        features = [with_gaps(f) if columns[f.name].isna().any() else f for f in features]
        for name in (f.name for f in features if f.missing and f.name in sensitive and isinstance(f, NUMERIC)):
            raise InputError(
                f"sensitive column '{name}' is a number with gaps in {int(columns[name].isna().sum()):,} rows, which "
                "have no place among its codes; make bands of it (a category), remove these rows, or train with "
                "missing='impute' (--missing impute)."
            )
    if not features:
        raise InputError("the table has no feature columns besides the target.")
    label = None if target is None else infer_label(target, frame[target])
    facts = {
        "features": [feature.model_dump() for feature in features],
        "sensitive": list(sensitive),
        "label": None if label is None else label.model_dump(),
    }
    return facts, frame


def _feature(name: str, column: pd.Series, kind: ForcedKind | None) -> Feature:
    present = column.dropna()
    if kind is None or present.empty:
        return infer_feature(name, column)
    if kind == "categorical":
        if len(present.unique()) > MOST_CATEGORIES:
            raise InputError(
                f"column '{name}' has {len(present.unique()):,} different values, more than the {MOST_CATEGORIES:,} a "
                "category may have; group them, or do not call it categorical."
            )
        if pd.api.types.is_float_dtype(present.dtype) and bool((present == present.round()).all()):
            present = present.astype(np.int64)  # whole numbers that stand beside gaps
        return infer_feature(name, present.astype("category"))
    numbers = pd.to_numeric(present, errors="coerce")
    if numbers.isna().any():
        raise InputError(
            f"column '{name}' is to be numeric, but {int(numbers.isna().sum()):,} of its rows hold no number; turn its "
            "texts into numbers first."
        )
    return _number(name, numbers.to_numpy(dtype=np.float64))


def infer_feature(name: str, column: pd.Series) -> Feature:
    present = column.dropna()
    if present.empty:
        raise InputError(f"column '{name}' has no values at all; drop it (--drop) or fill it.")
    if isinstance(column.dtype, pd.CategoricalDtype):
        return CategoricalFeature(name=name, categories=tuple(_value(name, c) for c in column.cat.categories))
    if pd.api.types.is_bool_dtype(present) or (present.dtype == object and all(map(_is_truth, present))):
        return BooleanFeature(name=name)
    if pd.api.types.is_numeric_dtype(present) and not pd.api.types.is_complex_dtype(present):
        return _number(name, present.to_numpy())
    if pd.api.types.is_datetime64_any_dtype(present):
        raise InputError(f"column '{name}' holds dates; turn them into numbers (a year, an age, days since) first.")
    values = {_value(name, value) for value in (present if present.dtype == object else present.unique())}
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return _number(name, present.to_numpy(dtype=np.float64))
    if len(values) > MOST_CATEGORIES:
        raise InputError(
            f"column '{name}' has {len(values):,} different texts, more than {MOST_CATEGORIES:,}: an identifier? "
            "Drop it (--drop), or group its values."
        )
    return CategoricalFeature(name=name, categories=tuple(sorted(values, key=lambda v: (str(type(v)), v))))


def listed(feature: Feature, column: pd.Series) -> Feature:
    """A number of few values, with gaps between them, as the list of them: nobody has what lies between, as of a
    standardised sex. Any other feature as it is.
    """
    if not isinstance(feature, (RealFeature, IntegerFeature)):
        return feature
    numbers = column.dropna().to_numpy(np.float64)
    values = np.unique(numbers)
    whole = isinstance(feature, IntegerFeature)
    gaps = not whole or feature.high - feature.low + 1 >= 2 * len(values)
    if not gaps or not 1 < len(values) <= FEW or len(numbers) < OFTEN * len(values):
        return feature
    return CategoricalFeature(name=feature.name, categories=tuple((values.astype(int) if whole else values).tolist()))


def with_gaps(feature: Feature) -> Feature:
    """The feature, missing for some people: true/false is then a category of three.

    >>> with_gaps(BooleanFeature(name="owner")).levels()
    (False, True, None)
    """
    if isinstance(feature, BooleanFeature):
        return CategoricalFeature(name=feature.name, categories=feature.levels(), missing=True)
    return feature.model_copy(update={"missing": True})


def infer_label(name: str, column: pd.Series) -> Label:
    if column.isna().any():
        raise InputError(
            f"target '{name}' is missing in {int(column.isna().sum())} of {len(column)} rows; remove those rows."
        )
    classes = sorted({_value(name, value) for value in pd.unique(column)}, key=lambda v: (str(type(v)), v))
    if len(classes) < 2:
        raise InputError(
            f"target '{name}' has one class only, {shown(classes)}, in all {len(column)} rows; "
            "a classifier needs at least two."
        )
    if len(classes) > MOST_CATEGORIES:
        raise InputError(
            f"target '{name}' has {len(classes):,} different values; a class label has few. Is it a number?"
        )
    return Label(name=name, classes=tuple(classes))


def observed_combinations(people: Population, frame: pd.DataFrame) -> list[list[Level]]:
    if people.real_sensitive:
        raise InputError(
            f"sensitive feature {shown(people.real_sensitive)} is a real number, of which every value counts, not the "
            "observed ones only; use all combinations, round it to whole numbers, or use bands."
        )
    if absent := [name for name in people.sensitive if name not in frame.columns]:
        raise InputError(
            f"the table has no column {shown(absent)}, so that it shows no combinations; give a table that has it."
        )
    never = [f.name for f in people.sensitive_features if not f.missing]
    rows = frame[list(people.sensitive)].dropna(subset=never).drop_duplicates()
    levels = [list(f.levels()) for f in people.sensitive_features]
    place = [{level: i for i, level in enumerate(several)} for several in levels]
    told = (
        [None if pd.isna(v) else _value(name, v) for name, v in zip(people.sensitive, row, strict=True)]
        for row in rows.to_numpy(object)
    )
    found = (tuple(place[j].get(v, -1) for j, v in enumerate(row)) for row in told)
    seen = {row for row in found if -1 not in row}
    if len(seen) < 2:
        raise InputError(
            f"the table has {len(seen)} combinations of values of {shown(people.sensitive)} in the domain, so nobody "
            "has a twin; give a table with several, or use all combinations."
        )
    return [[levels[j][i] for j, i in enumerate(row)] for row in sorted(seen)]


def gap_share(feature: Feature) -> float:
    """How likely a number is missing if everybody counts the same: a gap is one value more than the whole numbers of
    the range, or than the levels of a real number's grid.

    >>> gap_share(IntegerFeature(name="age", low=1, high=9, missing=True))
    0.1
    """
    return 1 / (len(feature.levels()) + 1) if feature.missing else 0.0


def _number(name: str, values: np.ndarray) -> Feature:
    numbers = values.astype(np.float64)
    fit = np.abs(numbers) <= np.finfo(np.float32).max  # what a served model can be given
    if not fit.all():
        row = int(np.argmin(fit))
        raise InputError(
            f"column '{name}' holds {numbers[row]} in row {row}; numbers must be finite and at most 3.4e38 in size: "
            "correct it, or leave the row out."
        )
    low, high = float(numbers.min()), float(numbers.max())
    whole = bool((numbers == np.round(numbers)).all()) and max(abs(low), abs(high)) <= LARGEST_WHOLE
    if whole:
        return IntegerFeature(name=name, low=int(low), high=int(high))
    return RealFeature(name=name, low=low, high=high)


def _value(name: str, value: object) -> Value:
    scalar = plain(value)
    if isinstance(scalar, (bool, int, float, str)):
        return scalar
    raise InputError(
        f"column '{name}' holds {scalar!r} of type {type(scalar).__name__}; "
        "values must be numbers, texts or true/false."
    )


def _is_truth(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


# --- without the categories of few rows ---


def without_rare(
    domain: Domain, table: pd.DataFrame | Mapping[str, Mapping[Value, int] | None], least: int, *, unseen: str
) -> Domain:
    """The domain without the categories of fewer rows than `least`: to a model they are unseen, all alike.

    Categories of sensitive features stay, because twins have each of them; so do the classes of the target.

    table: the rows, or how often each value of a column occurs. unseen: the policy, which must be to ignore them.

    >>> from bornfair.people.domain import Domain
    >>> people = pd.DataFrame({"job": ["clerk"] * 5 + ["pope"], "sex": ["f", "m"] * 3})
    >>> domain = Domain.infer(people, sensitive=["sex"])
    >>> without_rare(domain, people, 2, unseen="ignore").feature("job").levels()
    ('clerk',)
    """
    whole("least_count", least, 1)
    if least == 1:
        return domain
    if unseen != "ignore":
        raise InputError(
            f"least_count {least} makes rare categories unseen, and unseen is {unseen!r}; set it to 'ignore', or leave "
            "least_count at 1."
        )
    for feature in domain.free_features:
        if not isinstance(feature, CategoricalFeature) or feature.name not in table:
            continue
        given: Any = table[feature.name]
        if given is None:
            continue
        counts = _counts(feature, given)
        kept = [category for category, count in zip(feature.categories, counts, strict=False) if count >= least]
        if not kept:
            raise InputError(
                f"column '{feature.name}' has no category of {least:,} rows or more; lower the least count, or leave "
                f"the column out (--drop {feature.name})."
            )
        if len(kept) < len(feature.categories):
            domain = domain.edit(feature.name, categories=kept)
    return domain


def _counts(feature: CategoricalFeature, given: pd.Series | Mapping[Value, int]) -> np.ndarray:
    column = given if isinstance(given, pd.Series) else pd.Series(list(given), dtype=object)
    weights = np.ones(len(column)) if isinstance(given, pd.Series) else np.array(list(given.values()), np.float64)
    places = level_positions(feature, column)
    known = places >= 0
    return np.bincount(places[known], weights[known], minlength=len(feature.categories))
