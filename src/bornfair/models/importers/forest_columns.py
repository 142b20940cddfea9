"""What do the transformers before a forest make of raw columns? Columns that its splits read, each of one raw input.

Scalers and imputers add steps, encoders look categories up: the arithmetic is that of scikit-learn, step by step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bornfair.errors import InputError, plain, plain_value, shown
from bornfair.models.importers.scikit_pipeline import label_of, parts_of
from bornfair.models.split_columns import SplitColumn
from bornfair.people.features import Value

Given = Sequence[SplitColumn | None]  # None: a column that the model does not take


def transformed(step: Any, label: str, given: Given, origin: str, names: Sequence[str]) -> list[SplitColumn | None]:
    """The columns that a fitted transformer makes of these."""
    kind = type(step).__name__
    if kind == "ColumnTransformer":
        if step.transformer_weights:
            raise InputError(f"{origin}: {label} has transformer_weights, which are not supported.")
        made: list[SplitColumn | None] = []
        for part, inner, places in parts_of(step, names):
            some: Given = [given[i] for i in places]
            for name, one in inner:
                some = transformed(one, label_of(f"{part}: {name}", one), some, origin, [""] * len(some))
            made += some
        return made
    if kind not in TRANSFORMERS and hasattr(step, "get_support"):
        return [column for column, kept in zip(given, step.get_support(), strict=True) if kept]
    if kind not in TRANSFORMERS:
        raise InputError(
            f"{origin}: {label} is not supported before a forest; {shown(TRANSFORMERS, most=20)}, selectors of columns "
            "and ColumnTransformer can be read. Apply others to the table before, and examine the rest of the pipeline."
        )
    there = []
    for column in given:
        if column is None:
            raise InputError(f"{origin}: {label} reads a column that the model was not asked to take.")
        there.append(column)
    try:
        return list(TRANSFORMERS[kind](step, there))
    except _Refused as error:
        raise InputError(f"{origin}: {label} {error}.") from error


def composed(columns: Sequence[SplitColumn], made: Given, origin: str) -> tuple[SplitColumn, ...]:
    """A forest's columns over the columns that reach it, as columns over raw inputs."""
    found = []
    for column in columns:
        if column.source >= len(made):
            raise InputError(f"{origin} reads {column.source + 1} columns or more, but {len(made)} reach it.")
        before = made[column.source]
        if before is None:
            raise InputError(f"{origin} reads a column that the model was not asked to take.")
        if column.table is not None and (before.steps or before.table is not None):
            raise InputError(f"{origin} looks up categories that were transformed before, which is not supported.")
        if column.table is not None:
            found.append(dataclasses.replace(column, source=before.source))
        else:
            found.append(dataclasses.replace(before, steps=before.steps + column.steps))
    return tuple(found)


class _Refused(Exception):
    """Why a transformer is not supported, as the end of a sentence."""


def _affine(*parts: tuple[str, Callable[[Any], Any]]) -> Callable[[Any, list[SplitColumn]], list[SplitColumn]]:
    """A scaler: operations with learned numbers, one for each column; none where nothing was learned."""

    def transform(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
        made = list(given)
        for name, learned in parts:
            numbers = learned(step)
            if numbers is not None:
                numbers = np.broadcast_to(np.asarray(numbers, np.float64), (len(given),))
                made = [_then(column, name, float(number)) for column, number in zip(made, numbers, strict=True)]
        if getattr(step, "clip", False):
            low, high = step.feature_range
            made = [_then(_then(column, "at least", low), "at most", high) for column in made]
        return made

    return transform


def _then(column: SplitColumn, name: str, number: float) -> SplitColumn:
    return dataclasses.replace(column, steps=(*column.steps, (name, float(number))))


def _imputed(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    if step.add_indicator or plain(step.missing_values) == plain(step.missing_values):
        raise _Refused("marks or fills in something else than NaN, which is not supported")
    made = []
    for column, value in zip(given, (plain(value) for value in step.statistics_), strict=True):
        if isinstance(value, float) and math.isnan(value):
            raise _Refused("drops a column that was empty when it was fitted; leave that column out")
        if isinstance(value, str):
            raise _Refused("fills in categories, which is not supported; mark them as a category of their own")
        made.append(_then(column, "missing is", float(value)))
    return made


def _known(step: Any, j: int, column: SplitColumn) -> list[Any]:
    if column.steps or column.table is not None:
        raise _Refused("encodes columns that were transformed before, which is not supported")
    if getattr(step, "_infrequent_enabled", False) and any(c is not None for c in step.infrequent_categories_):
        raise _Refused("joins infrequent categories, which is not supported; join them in the table")
    return [plain(category) for category in step.categories_[j]]


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _one_hot(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    made = []
    for j, column in enumerate(given):
        known = _known(step, j, column)
        dropped = None if step.drop_idx_ is None else step.drop_idx_[j]
        other = None if step.handle_unknown == "error" else 0.0
        for place, category in enumerate(known):
            if dropped is not None and place == dropped:
                continue
            table = tuple((_value(v), 1.0 if i == place else 0.0) for i, v in enumerate(known) if not _is_gap(v))
            gaps = any(map(_is_gap, known))
            missing = float(_is_gap(category)) if gaps else math.nan if other is None else 0.0
            made.append(SplitColumn(column.source, (), table, other, missing))
    return made


def _ordinal(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    made = []
    for j, column in enumerate(given):
        known = _known(step, j, column)
        other = None if step.handle_unknown == "error" else float(step.unknown_value)
        table = tuple((_value(v), float(i)) for i, v in enumerate(known) if not _is_gap(v))
        gaps = any(map(_is_gap, known))
        missing = float(step.encoded_missing_value) if gaps else math.nan if other is None else other
        made.append(SplitColumn(column.source, (), table, other, missing))
    return made


def _value(category: Any) -> Value:
    value = plain_value(category)
    return int(value) if isinstance(value, float) and value == round(value) else value


def _identity(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    func = getattr(step.func, "func", step.func)  # histogram boosting checks its numbers by one
    if func is not None and getattr(func, "__module__", "") != "sklearn.utils.validation":
        raise _Refused("applies a function of yours, which cannot be read; apply it to the table before")
    return given


def _mean(step: Any) -> Any:
    return step.mean_ if step.with_mean else None


TRANSFORMERS: dict[str, Callable[[Any, list[SplitColumn]], list[SplitColumn]]] = {
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "StandardScaler": _affine(("minus", _mean), ("over", lambda s: s.scale_)),
    "MinMaxScaler": _affine(("times", lambda s: s.scale_), ("plus", lambda s: s.min_)),
    "MaxAbsScaler": _affine(("over", lambda s: s.scale_)),
    "RobustScaler": _affine(("minus", lambda s: s.center_), ("over", lambda s: s.scale_)),
    "SimpleImputer": _imputed,
    "FunctionTransformer": _identity,
}
