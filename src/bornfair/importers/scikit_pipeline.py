"""Fitted scikit-learn pipelines: their steps and columns, and what each transformer makes of the columns.

The transformers are read once for all classifiers; how a column is held depends on the classifier (`ColumnKind`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.importers.affine import CannotRead
from bornfair.models.columns import Wanted
from bornfair.people.features import Value

ENCODERS = ("OneHotEncoder", "OrdinalEncoder")
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
        read = names
        if names and transformers and type(transformers[0][1]).__name__ == "ColumnTransformer":  # it may drop columns
            kept = {i for _, _, places in parts_of(transformers[0][1], names) for i in places}
            read = tuple(column for i, column in enumerate(names) if i in kept)
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
    several: set[str] = set()  # read twice: what one way fills in need not be the other's
    for _, inner, places in parts_of(steps[0][1], names):
        read = [names[i] for i in places]
        several |= filled.keys() & set(read)
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


# --- the numbers that encoders give to categories ---


@dataclass(frozen=True, eq=False)
class Lookup:
    """What a fitted encoder makes of one column: rows of numbers, one number for each column that it makes.

    The encoder itself is asked, so that dropped, infrequent and unknown categories are treated as it treats them.
    """

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
    texts = [value for value in known if isinstance(value, str)]
    another = max(texts, key=len) + "?" if texts else float(max(known)) + 1.0  # a value that is not known
    missing, other = (_asked(step, j, [value]) for value in (gap, another))
    rows = [None if one is None else one[0, place] for one in (missing, other)]
    plain_values = [plain_value(value) for value in known]
    whole = (int(v) if isinstance(v, float) and v == round(v) else v for v in plain_values)
    return Lookup(tuple(whole), made[:, place], *rows)


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


# --- what transformers make of columns ---

C = TypeVar("C")


class ColumnKind(Protocol[C]):
    """How columns between transformers are held."""

    where: str  # of the transformers, as the end of "is not supported"
    readable: tuple[str, ...]

    def scaled(self, column: C, steps: Sequence[tuple[str, float]], name: str) -> C:
        """After "minus", "plus", "times" or "over" a number, or held "at least" or "at most" at it, in this order."""

    def filled(self, column: C, value: Any) -> C:
        """With a value in the place of a missing one."""

    def encoded(self, column: C, lookup: Lookup, gaps: bool) -> Sequence[C]:
        """The columns that an encoder makes of it; `gaps`: whether the encoder knows a missing value."""

    def rotated(self, columns: Sequence[C], weight: np.ndarray, shift: np.ndarray) -> Sequence[C]:
        """Sums of columns, [columns, made] and [made]."""


@dataclass(frozen=True)
class Transforming(Generic[C]):
    """Columns on their way through transformers. None stands for a column that the model does not take."""

    kind: ColumnKind[C]
    origin: str

    def through(
        self, steps: Sequence[tuple[str, Any]], given: Sequence[C | None], names: Sequence[str]
    ) -> Sequence[C | None]:
        """The columns behind named steps."""
        for name, step in steps:
            try:
                given = self._behind(step, name, given, names)
            except CannotRead as error:
                raise InputError(f"{self.origin}: {label_of(name, step)} {error}.") from error
            names = names_behind(step, len(given))
        return given

    def _behind(self, step: Any, name: str, given: Sequence[C | None], names: Sequence[str]) -> Sequence[C | None]:
        kind = type(step).__name__
        if kind == "ColumnTransformer":
            if step.transformer_weights:
                raise CannotRead("has transformer_weights, which are not supported")
            made: list[C | None] = []
            for part, inner, places in parts_of(step, names):
                steps = [(part, transformer) for _, transformer in inner]
                made += self.through(steps, [given[i] for i in places], [names[i] for i in places])
            return made
        if kind not in self.kind.readable and hasattr(step, "get_support"):
            return [column for column, kept in zip(given, step.get_support(), strict=True) if kept]
        if kind not in self.kind.readable:
            raise CannotRead(
                f"is not supported{self.kind.where}; {shown(self.kind.readable, most=20)}, selectors of columns and "
                "ColumnTransformer can be read. Apply others to the table before, and examine the rest of the pipeline"
            )
        columns = self.there(given)
        if kind in ENCODERS:
            each = zip(columns, lookups(step), map(knows_gap, step.categories_), strict=True)
            return [made for column, lookup, gaps in each for made in self.kind.encoded(column, lookup, gaps)]
        if kind in SCALERS:
            return self._scaled(step, columns, name)
        if kind == "SimpleImputer":
            return [self.kind.filled(column, value) for column, value in zip(columns, statistics_of(step), strict=True)]
        if kind == "PCA":
            if step.whiten:
                raise CannotRead("whitens the components, which is not supported; scale them by a StandardScaler")
            weight = np.asarray(step.components_, np.float64).T
            return self.kind.rotated(columns, weight, -step.mean_ @ weight)
        func = getattr(step.func, "func", step.func)  # histogram boosting checks its numbers by one
        if func is not None and getattr(func, "__module__", "") != "sklearn.utils.validation":
            raise CannotRead(
                "applies a function of yours, which cannot be read; apply it to the table before, and examine the rest"
            )
        return columns

    def _scaled(self, step: Any, columns: Sequence[C], name: str) -> list[C]:
        """By operations with learned numbers, one for each column; none where nothing was learned."""
        learned = [(what, number(step)) for what, number in SCALERS[type(step).__name__]]
        count = (len(columns),)
        numbers = [(what, np.broadcast_to(np.asarray(n, np.float64), count)) for what, n in learned if n is not None]
        ends = step.feature_range if getattr(step, "clip", False) else ()
        held = list(zip(("at least", "at most"), map(float, ends), strict=False))
        return [
            self.kind.scaled(column, [*((what, float(each[i])) for what, each in numbers), *held], name)
            for i, column in enumerate(columns)
        ]

    @staticmethod
    def there(columns: Sequence[C | None]) -> list[C]:
        """The columns, if the model takes all of them."""
        found = [column for column in columns if column is not None]
        if len(found) < len(columns):
            raise CannotRead("reads a column that the model was not asked to take")
        return found


SCALERS: dict[str, tuple[tuple[str, Callable[[Any], Any]], ...]] = {
    "StandardScaler": (("minus", lambda s: s.mean_ if s.with_mean else None), ("over", lambda s: s.scale_)),
    "MinMaxScaler": (("times", lambda s: s.scale_), ("plus", lambda s: s.min_)),
    "MaxAbsScaler": (("over", lambda s: s.scale_),),
    "RobustScaler": (("minus", lambda s: s.center_), ("over", lambda s: s.scale_)),
}
TRANSFORMERS = (*ENCODERS, *SCALERS, "PCA", "SimpleImputer", "FunctionTransformer")
