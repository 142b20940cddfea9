"""What do the transformers before a forest make of raw columns? Columns that its splits read, each of one raw input.

Scalers and imputers add steps, encoders look categories up: the arithmetic is that of scikit-learn, step by step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import CannotRead
from bornfair.importers.scikit_encoders import ENCODERS, knows_gap, lookups
from bornfair.importers.scikit_pipeline import label_of, names_behind, parts_of, statistics_of
from bornfair.models.forest.columns import SplitColumn

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
            read = tuple(names[i] for i in places)
            for name, one in inner:
                some = transformed(one, label_of(f"{part}: {name}", one), some, origin, read)
                read = names_behind(one, len(some))
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
    except CannotRead as error:
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
        if column.table is not None and not _is_raw(before):
            raise InputError(f"{origin} looks up categories that were transformed before, which is not supported.")
        if column.table is not None:
            found.append(dataclasses.replace(column, source=before.source))
        else:
            found.append(
                SplitColumn(before.source, before.steps + column.steps, before.table, before.other, before.missing)
            )
    return tuple(found)


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


@dataclass(frozen=True)
class _Filled(SplitColumn):
    """A raw column whose gaps an imputer fills: an encoder behind it looks the filled value up."""

    fill: Any = None


def _imputed(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    made: list[SplitColumn] = []
    for column, value in zip(given, statistics_of(step), strict=True):
        is_number = isinstance(value, (bool, int, float))
        if not _is_raw(column):
            if not is_number:
                raise CannotRead("fills in categories that were transformed before, which is not supported")
            made.append(_then(column, "missing is", float(value)))
            continue
        steps = (("missing is", float(value)),) if is_number else ()
        made.append(_Filled(column.source, steps, fill=value))
    return made


def _is_raw(column: SplitColumn) -> bool:
    return not column.steps and column.table is None and not isinstance(column, _Filled)


def _looked_up(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    """An encoder: for each column, one column for each number that it makes."""
    made = []
    for column, lookup, categories in zip(given, lookups(step), step.categories_, strict=True):
        filled = isinstance(column, _Filled) and len(column.steps) <= 1 and column.table is None
        if not filled and not _is_raw(column):
            raise CannotRead("encodes columns that were transformed before, which is not supported")
        missing = lookup.missing
        if isinstance(column, _Filled) and not knows_gap(categories):  # None goes through an imputer of NaN
            missing = lookup.of(column.fill)
        for i in range(lookup.made.shape[1]):
            table = tuple(zip(lookup.known, lookup.made[:, i].tolist(), strict=True))
            other = None if lookup.other is None else float(lookup.other[i])
            made.append(
                SplitColumn(column.source, (), table, other, math.nan if missing is None else float(missing[i]))
            )
    return made


def _identity(step: Any, given: list[SplitColumn]) -> list[SplitColumn]:
    func = getattr(step.func, "func", step.func)  # histogram boosting checks its numbers by one
    if func is not None and getattr(func, "__module__", "") != "sklearn.utils.validation":
        raise CannotRead("applies a function of yours, which cannot be read; apply it to the table before")
    return given


def _mean(step: Any) -> Any:
    return step.mean_ if step.with_mean else None


TRANSFORMERS: dict[str, Callable[[Any, list[SplitColumn]], list[SplitColumn]]] = {
    **dict.fromkeys(ENCODERS, _looked_up),
    "StandardScaler": _affine(("minus", _mean), ("over", lambda s: s.scale_)),
    "MinMaxScaler": _affine(("times", lambda s: s.scale_), ("plus", lambda s: s.min_)),
    "MaxAbsScaler": _affine(("over", lambda s: s.scale_)),
    "RobustScaler": _affine(("minus", lambda s: s.center_), ("over", lambda s: s.scale_)),
    "SimpleImputer": _imputed,
    "FunctionTransformer": _identity,
}
