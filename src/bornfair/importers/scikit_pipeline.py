"""What stands in a fitted scikit-learn pipeline, in which order, over which columns? For whatever is at its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.importers.affine import CannotRead
from bornfair.importers.scikit_encoders import ENCODERS, gap_of, is_gap, knows_gap
from bornfair.models.columns import Wanted
from bornfair.people.features import Value

THRESHOLDED = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")


@dataclass(frozen=True, eq=False)
class Opened:
    """A fitted classifier: what transforms its columns, what decides at its end, and at which fixed threshold."""

    model: Any
    transformers: list[tuple[str, Any]]
    name: str
    final: Any
    point: Point | None
    names: tuple[str, ...] | None  # of all columns it was fitted on; None if they had none
    wanted: Wanted
    gaps: dict[str, Any]
    """Columns that encoders take as objects, by name or "0", "1", …; and what stands for a gap there: NaN or None."""

    @staticmethod
    def of(given: Any) -> Opened:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        model = thawed(getattr(given, "best_estimator_", given))
        kind = type(model).__name__
        try:
            check_is_fitted(model)
        except (NotFittedError, TypeError) as error:
            raise InputError(f"the {kind} is not fitted; call fit first.") from error
        *transformers, (name, final) = steps_of(model)
        point = Point.of(final) if type(final).__name__ in THRESHOLDED else None
        if point is not None:
            *inner, (name, final) = steps_of(point.estimator)
            transformers += inner
        if not hasattr(final, "classes_"):
            raise InputError(f"the {kind} ends with {type(final).__name__}, which is not a classifier.")
        fitted = getattr(model, "feature_names_in_", None)
        names = None if fitted is None else tuple(str(column) for column in fitted)
        order = names or tuple(str(place) for place in range(int(model.n_features_in_)))
        try:
            gaps = _gaps(transformers, order)
        except CannotRead as error:
            raise InputError(f"the {kind}: an encoder {error}.") from error
        known: dict[Any, tuple[Value, ...]] = {}
        for column, categories, _ in _encoded(transformers, order):
            known.setdefault(column if names else int(column), values_of(categories))
        read = None if names is None else used(transformers, names)
        wanted = Wanted(f"the {kind}", read, None if names else len(order), known, numbers=False)
        return Opened(model, transformers, name, final, point, names, wanted, gaps)

    def given(self, table: pd.DataFrame, columns: Sequence[str]) -> Any:
        """A table as the estimator takes it: whole numbers as float64, because an imputer insists on the kind it was
        fitted with; objects where an encoder was fitted on objects.
        """
        keys = [str(place) for place in range(len(columns))] if self.wanted.names is None else self.wanted.names
        read = pd.concat([self._column(key, table[name]) for key, name in zip(keys, columns, strict=True)], axis=1)
        if self.names is None or self.wanted.names is None:
            numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in read.dtypes)
            return read.to_numpy(np.float64 if numeric else object)
        renamed = read.set_axis(list(self.wanted.names), axis=1)
        return renamed.reindex(columns=list(self.names))  # columns that the model drops are empty

    def _column(self, key: str, column: pd.Series) -> pd.Series:
        if key in self.gaps or column.dtype == object:
            values = np.array(column, dtype=object)
            values[column.isna().to_numpy()] = self.gaps.get(key, math.nan)
            return pd.Series(values, column.index, dtype=object, name=column.name)
        return column.astype(np.float64) if pd.api.types.is_integer_dtype(column.dtype) else column


def _gaps(transformers: Sequence[tuple[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, categories, imputed in _encoded(transformers, names):
        gap = gap_of(categories)
        if imputed and knows_gap(categories) and gap is not None:
            raise CannotRead(
                "knows NaN behind an imputer of NaN: a data frame between them turns None into NaN, depending on the "
                "other rows of a batch; write gaps as NaN and fit it again"
            )
        if np.asarray(categories).dtype.kind == "O" and found.get(name, math.nan) is not None:
            found[name] = gap
    return found


def label_of(name: str, step: Any) -> str:
    """What messages call a step."""
    return f"step '{name}' ({type(step).__name__})"


def thawed(model: Any) -> Any:
    return thawed(model.estimator) if type(model).__name__ == "FrozenEstimator" else model


def steps_of(model: Any) -> list[tuple[str, Any]]:
    """A pipeline's steps without those that pass everything on; nested pipelines are laid out."""
    if type(model).__name__ != "Pipeline":
        return [(type(model).__name__, model)]
    found: list[tuple[str, Any]] = []
    for name, step in model.steps:
        if step is not None and not isinstance(step, str):
            found += (
                [(name, inner) for _, inner in steps_of(step)] if type(step).__name__ == "Pipeline" else [(name, step)]
            )
    return found


def leaves_zeros_out(steps: Sequence[tuple[str, Any]]) -> bool:
    """Whether what the steps hand on is a sparse matrix, which holds no zeros."""
    for _, step in reversed(steps):
        for said in ("sparse_output_", "sparse_output"):  # of a ColumnTransformer; of an encoder
            if hasattr(step, said):
                return bool(getattr(step, said))
        if type(step).__name__ not in ("MaxAbsScaler", "StandardScaler", "RobustScaler", "FunctionTransformer"):
            return False  # those hand on what they are given
    return False


def used(steps: Sequence[tuple[str, Any]], names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that matter: a column transformer at the beginning may drop some."""
    if not steps or type(steps[0][1]).__name__ != "ColumnTransformer":
        return names
    kept = {i for _, _, places in parts_of(steps[0][1], names) for i in places}
    return tuple(name for i, name in enumerate(names) if i in kept)


def parts_of(transformer: Any, names: Sequence[str]) -> list[tuple[str, list[tuple[str, Any]], list[int]]]:
    """What a column transformer does with columns that it keeps: name, steps, positions of the columns.

    A part of no columns is left out: scikit-learn never fits it.
    """
    return [
        (name, [] if isinstance(step, str) else steps_of(step), places)
        for name, step, chosen in transformer.transformers_
        if not (isinstance(step, str) and step == "drop") and (places := positions(chosen, names))
    ]


def positions(chosen: Any, names: Sequence[str]) -> list[int]:
    """Positions of the columns that a part of a column transformer takes: names, positions, a mask or a slice."""
    if isinstance(chosen, slice):
        if isinstance(chosen.start, str) or isinstance(chosen.stop, str):
            begin = names.index(chosen.start) if chosen.start is not None else 0
            return list(range(begin, names.index(chosen.stop) + 1 if chosen.stop is not None else len(names)))
        return list(range(len(names)))[chosen]
    items = [plain(item) for item in ([chosen] if isinstance(chosen, (str, int)) else list(chosen))]
    if items and all(isinstance(item, bool) for item in items):
        return [i for i, item in enumerate(items) if item]
    unknown = [item for item in items if isinstance(item, str) and item not in names]
    if unknown:
        raise InputError(
            f"a ColumnTransformer takes {shown(unknown)}, which the step before does not name; let it take "
            "columns by position, or put it first."
        )
    return [names.index(item) if isinstance(item, str) else range(len(names))[int(item)] for item in items]


def names_behind(step: Any, count: int) -> tuple[str, ...]:
    """The names of the columns that a transformer makes, where it names them."""
    try:
        names = tuple(map(str, step.get_feature_names_out()))
    except (AttributeError, ValueError, TypeError):  # NotFittedError is a ValueError
        names = ()
    return names if len(names) == count else tuple(f"column {i}" for i in range(count))


def statistics_of(imputer: Any) -> list[Any]:
    """What a SimpleImputer fills in for NaN, by column."""
    missing = imputer.missing_values
    if imputer.add_indicator:
        raise CannotRead("marks what was missing (add_indicator), which is not supported; mark it in the table")
    if not (isinstance(missing, float) and math.isnan(missing)):
        raise CannotRead(
            f"fills in {missing!r} instead of NaN, which is not supported; replace that by NaN in the table"
        )
    found = [plain(value) for value in imputer.statistics_]
    if any(is_gap(value) for value in found):
        raise CannotRead("drops a column that was empty when it was fitted, which is not supported; leave it out")
    return found


def _encoded(steps: Sequence[tuple[str, Any]], names: Sequence[str]) -> Iterator[tuple[str, Any, bool]]:
    """Raw columns that encoders read, with the categories that these know, and whether an imputer stands before."""
    imputed = False
    for _, step in steps:
        kind = type(step).__name__
        if kind == "ColumnTransformer":
            for _, inner, places in parts_of(step, names):
                for name, categories, behind in _encoded(inner, [names[i] for i in places]):
                    yield name, categories, behind or imputed
            return
        if kind in ENCODERS:
            yield from ((name, known, imputed) for name, known in zip(names, step.categories_, strict=False))
            return
        if kind != "SimpleImputer" and not (kind == "FunctionTransformer" and step.func is None):
            return
        imputed |= kind == "SimpleImputer"


def values_of(categories: Any) -> tuple[Value, ...]:
    listed = [plain(category) for category in categories]
    whole = [int(v) if isinstance(v, float) and v == round(v) else v for v in listed if v is not None and v == v]
    return tuple(v for v in whole if isinstance(v, (bool, int, float, str)))


def fills_of(steps: Sequence[tuple[str, Any]], names: Sequence[str]) -> dict[str, Value]:
    """What an imputer that comes first puts in the place of missing values, by column."""
    kind = type(steps[0][1]).__name__ if steps else ""
    if kind == "SimpleImputer":
        found = zip(names, steps[0][1].statistics_, strict=True)
        fills = {name: plain_value(value) for name, value in found if not pd.isna(value)}
        # None is not NaN to an imputer: it went through, and is a category of its own to the encoder behind.
        own = {name for name, known, _ in _encoded(steps[1:], list(fills)) if knows_gap(known)}
        return {name: value for name, value in fills.items() if name not in own}
    if kind != "ColumnTransformer":
        return {}
    filled: dict[str, Value] = {}
    several: set[str] = set()
    for _, inner, positions in parts_of(steps[0][1], names):
        read = [names[i] for i in positions]
        several |= {
            name for name in read if name in filled
        }  # read twice: what one way fills in need not be the other's
        filled |= fills_of(inner, read)
    return {name: value for name, value in filled.items() if name not in several}


@dataclass(frozen=True, eq=False)
class Point:
    """Where a classifier with a fixed or tuned threshold lets another one decide: for one class, from a number of its
    probability or score on.
    """

    estimator: Any
    threshold: float | None  # None: ½ of a probability, 0 of a score
    of_probabilities: bool
    for_last: bool

    @staticmethod
    def of(model: Any) -> Point:
        estimator = thawed(getattr(model, "estimator_", model.estimator))
        tuned = hasattr(model, "best_threshold_")
        threshold = model.best_threshold_ if tuned else None if model.threshold == "auto" else model.threshold
        favoured = model._curve_scorer._get_pos_label() if tuned else model.pos_label
        probabilities = model.response_method == "predict_proba"
        if model.response_method == "auto":
            probabilities = hasattr(estimator, "predict_proba")
        last = favoured is None or plain(favoured) == plain(model.classes_[-1])
        return Point(estimator, None if threshold is None else float(threshold), probabilities, last)
