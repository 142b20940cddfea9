"""What stands in a fitted scikit-learn pipeline, in which order, over which columns? For whatever is at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain, plain_value
from bornfair.models.importers.columns import Wanted
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
        if fitted is None:
            wanted = Wanted(f"the {kind}", None, int(model.n_features_in_), numbers=False)
            return Opened(model, transformers, name, final, point, None, wanted)
        names = tuple(str(column) for column in fitted)
        known: dict[str, tuple[Value, ...]] = {}
        note_categories(transformers, names, known)
        wanted = Wanted(f"the {kind}", used(transformers, names), None, known, numbers=False)
        return Opened(model, transformers, name, final, point, names, wanted)

    def given(self, table: pd.DataFrame, columns: Sequence[str]) -> Any:
        """A table as the estimator takes it; numbers as float64, as in a table with gaps, however whole they are: an
        imputer insists on the kind it was fitted with.
        """
        read = table[list(columns)]
        whole = [name for name, dtype in read.dtypes.items() if pd.api.types.is_integer_dtype(dtype)]
        read = read.astype(dict.fromkeys(whole, np.float64))
        if self.names is None or self.wanted.names is None:
            numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in read.dtypes)
            return read.to_numpy(np.float64 if numeric else object)
        renamed = read.set_axis(list(self.wanted.names), axis=1)
        return renamed.reindex(columns=list(self.names))  # columns that the model drops are empty


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
    return [names.index(item) if isinstance(item, str) else range(len(names))[int(item)] for item in items]


def note_categories(
    steps: Sequence[tuple[str, Any]], names: Sequence[str], known: dict[str, tuple[Value, ...]]
) -> None:
    """Which categories encoders know for raw columns."""
    for name, categories in _encoded(steps, names):
        known.setdefault(name, values_of(categories))


def _encoded(steps: Sequence[tuple[str, Any]], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Raw columns that encoders read, with the categories that these know."""
    for _, step in steps:
        kind = type(step).__name__
        if kind == "ColumnTransformer":
            for _, inner, places in parts_of(step, names):
                yield from _encoded(inner, [names[i] for i in places])
            return
        if kind in ("OneHotEncoder", "OrdinalEncoder"):
            yield from zip(names, step.categories_, strict=False)
            return
        if kind != "SimpleImputer":
            return


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
        own = {name for name, known in _encoded(steps[1:], list(fills)) if pd.isna(np.asarray(known, object)).any()}
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
