"""What does a fitted scikit-learn classifier or pipeline compute? Read from its learned attributes, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain, plain_value, shown
from bornfair.models.importers.affine import CannotRead, Cell, Cells, Forms, Tape, clipped, concatenated, layer
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.dense_stack import Kind, Step, formed
from bornfair.models.importers.head import Head, read_head
from bornfair.models.importers.original import Original
from bornfair.models.importers.reading import Meaning, Reading
from bornfair.models.importers.source import Read
from bornfair.people.features import NUMERIC, Value

Column = Forms | Cells  # [people, 1]
LINEAR = (
    "LogisticRegression", "LogisticRegressionCV", "LinearSVC", "SGDClassifier", "Perceptron", "RidgeClassifier",
    "RidgeClassifierCV", "LinearDiscriminantAnalysis",
)  # fmt: skip
THRESHOLDED = ("FixedThresholdClassifier", "TunedThresholdClassifierCV")
HIDDEN: dict[str, Kind] = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid"}  # none for "identity"


class ScikitSource:
    """A fitted classifier, alone or at the end of a pipeline."""

    def __init__(self, model: Any) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        self._model = _thawed(getattr(model, "best_estimator_", model))
        name = type(self._model).__name__
        try:
            check_is_fitted(self._model)
        except (NotFittedError, TypeError) as error:
            raise InputError(f"the {name} is not fitted; call fit first.") from error
        *self._transformers, (self._name, self._final) = _steps(self._model)
        self._point = _Point.of(self._final) if type(self._final).__name__ in THRESHOLDED else None
        if self._point is not None:
            *inner, (self._name, self._final) = _steps(self._point.estimator)
            self._transformers += inner
        if not hasattr(self._final, "classes_"):
            raise InputError(f"the {name} ends with {type(self._final).__name__}, which is not a classifier.")
        fitted = getattr(self._model, "feature_names_in_", None)
        self._all_names = None if fitted is None else tuple(str(name) for name in fitted)
        if self._all_names is None:
            self.wanted = Wanted(f"the {name}", None, int(self._model.n_features_in_), numbers=False)
            return
        known: dict[str, tuple[Value, ...]] = {}
        _note_categories(self._transformers, self._all_names, known)
        used = _used(self._transformers, self._all_names)
        self.wanted = Wanted(f"the {name}", used, None, known, numbers=False)

    def read(self, columns: Columns, asked: Reading) -> Read:
        tape, origin = Tape(columns.domain.features), self.wanted.origin
        names = self.wanted.names or columns.names
        read = {name: tape.column(f, _plain_levels) for name, f in zip(names, columns.features, strict=True)}
        order = self._all_names or names
        given: list[Column | None] = [read.get(name) for name in order]
        for name, step in self._transformers:
            given = list(_transformed(step, name, given, tape, origin, order))
            order = tuple(f"column {i}" for i in range(len(given)))
        name, final = self._name, self._final
        try:
            steps = _classifier(final, _label(name, final))
            row = concatenated([tape.forms(_there(column)) for column in given], 0)
            scores = formed(steps, row, origin)
            if self._point is not None and not asked.moves_the_decision:
                head = self._point.head(scores, final)
            else:
                head = read_head(scores, _asked(asked, scores, final))
        except CannotRead as error:
            raise InputError(f"{origin}: {_label(name, final)} {error}.") from error
        classes = tuple(plain_value(value) for value in final.classes_)
        return Read(head, tape, classes, self._original(head, columns, asked))

    def _original(self, head: Head, columns: Columns, asked: Reading) -> Original:
        """The estimator itself."""
        import sklearn

        model, order = self._model, {plain(value): i for i, value in enumerate(self._final.classes_)}

        def scores(table: pd.DataFrame) -> np.ndarray:
            shows = "predict_proba" if head.probabilities else "decision_function"
            found = np.asarray(getattr(model, shows)(self._given(table, columns)))
            return found[:, None] if found.ndim == 1 else found

        def decide(table: pd.DataFrame) -> np.ndarray:
            if asked.moves_the_decision:
                return head.decided_by_it(scores(table))
            found = model.predict(self._given(table, columns))
            return np.array([order[plain(value)] for value in found], dtype=np.int64)

        known = self.wanted.names or columns.names
        filled = _fills(self._transformers, self._all_names or known)
        fills = {own: filled[name] for name, own in zip(known, columns.names, strict=True) if name in filled}
        return Original(f"scikit-learn {sklearn.__version__}", scores, decide, fills=fills)

    def _given(self, table: pd.DataFrame, columns: Columns) -> Any:
        """A table as the estimator takes it; numbers as float64, as in a table with gaps, however whole they are: an
        imputer insists on the kind it was fitted with.
        """
        read = table[list(columns.names)]
        numbers = {f.name: np.float64 for f in columns.features if isinstance(f, NUMERIC)}
        read = read.astype(numbers)
        if self._all_names is None or self.wanted.names is None:
            numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in read.dtypes)
            return read.to_numpy(np.float64 if numeric else object)
        renamed = read.set_axis(list(self.wanted.names), axis=1)
        return renamed.reindex(columns=list(self._all_names))  # columns that the model drops are empty


def _label(name: str, step: Any) -> str:
    """What messages call a step."""
    return f"step '{name}' ({type(step).__name__})"


def _there(column: Column | None) -> Column:
    if column is None:
        raise CannotRead("reads a column that the model was not asked to take")
    return column


def _plain_levels(levels: np.ndarray) -> np.ndarray:
    """Categories that are all numbers or all true/false, as such an array."""
    return levels if any(isinstance(level, str) for level in levels) else np.array(levels.tolist())


def _steps(model: Any) -> list[tuple[str, Any]]:
    """A pipeline's steps without those that pass everything on; nested pipelines are laid out."""
    if type(model).__name__ != "Pipeline":
        return [(type(model).__name__, model)]
    found: list[tuple[str, Any]] = []
    for name, step in model.steps:
        if step is not None and not isinstance(step, str):
            found += (
                [(name, inner) for _, inner in _steps(step)] if type(step).__name__ == "Pipeline" else [(name, step)]
            )
    return found


def _used(steps: Sequence[tuple[str, Any]], names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that matter: a column transformer at the beginning may drop some."""
    if not steps or type(steps[0][1]).__name__ != "ColumnTransformer":
        return names
    kept = {i for _, _, places in _parts(steps[0][1], names) for i in places}
    return tuple(name for i, name in enumerate(names) if i in kept)


def _parts(transformer: Any, names: Sequence[str]) -> list[tuple[str, list[tuple[str, Any]], list[int]]]:
    """What a column transformer does with columns that it keeps: name, steps, positions of the columns."""
    return [
        (name, [] if isinstance(step, str) else _steps(step), _positions(chosen, names))
        for name, step, chosen in transformer.transformers_
        if not (isinstance(step, str) and step == "drop")
    ]


def _positions(chosen: Any, names: Sequence[str]) -> list[int]:
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


def _note_categories(
    steps: Sequence[tuple[str, Any]], names: Sequence[str], known: dict[str, tuple[Value, ...]]
) -> None:
    """Which categories encoders know for raw columns."""
    for _, step in steps:
        kind = type(step).__name__
        if kind == "ColumnTransformer":
            for _, inner, places in _parts(step, names):
                _note_categories(inner, [names[i] for i in places], known)
            return
        if kind in ("OneHotEncoder", "OrdinalEncoder"):
            for name, categories in zip(names, step.categories_, strict=False):
                known.setdefault(name, _values(categories))
            return
        if kind != "SimpleImputer":
            return


def _values(categories: Any) -> tuple[Value, ...]:
    listed = [plain(category) for category in categories]
    whole = [int(v) if isinstance(v, float) and v == round(v) else v for v in listed if v is not None and v == v]
    return tuple(v for v in whole if isinstance(v, (bool, int, float, str)))


# --- transformers ---


def _transformed(
    step: Any, name: str, given: Sequence[Column | None], tape: Tape, origin: str, names: Sequence[str]
) -> Sequence[Column | None]:
    kind = type(step).__name__
    if kind == "ColumnTransformer":
        made: list[Column | None] = []
        if step.transformer_weights:
            raise InputError(f"{origin}: {_label(name, step)} has transformer_weights, which are not supported.")
        for part, inner, places in _parts(step, names):
            some: Sequence[Column | None] = [given[i] for i in places]
            for _, transformer in inner:
                some = _transformed(transformer, part, some, tape, origin, [""] * len(some))
            made += some
        return made
    try:
        if kind not in TRANSFORMERS and hasattr(step, "get_support"):
            return [column for column, kept in zip(given, step.get_support(), strict=True) if kept]
        if kind not in TRANSFORMERS:
            raise CannotRead(
                f"is not supported; {shown(TRANSFORMERS, most=20)}, selectors of columns and ColumnTransformer can be "
                "read. Apply others to the table before, and examine the rest of the pipeline"
            )
        return TRANSFORMERS[kind](step, [_there(column) for column in given], tape, name)
    except CannotRead as error:
        raise InputError(f"{origin}: {_label(name, step)} {error}.") from error


def _looked_up(
    made_of: Callable[[Any, int, Cell, np.ndarray], list[Cell]],
) -> Callable[..., list[Column]]:
    """An encoder: for each column, what is made of the position of its categories among those the encoder knows."""

    def transform(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
        if getattr(step, "_infrequent_enabled", False) and any(c is not None for c in step.infrequent_categories_):
            raise CannotRead("joins infrequent categories, which is not supported; join them in the table")
        made: list[Cell] = []
        for j, (column, known) in enumerate(zip(given, step.categories_, strict=True)):
            cell = tape.cells(column).cells[0]
            made += made_of(step, j, cell, cell.places(known, strict=step.handle_unknown == "error"))
        return [Cells((1,), (cell,)) for cell in made]

    return transform


def _one_hot(step: Any, column: int, cell: Cell, places: np.ndarray) -> list[Cell]:
    hot = cell.one_hot(places, len(step.categories_[column]), np.array([0.0, 1.0]))
    dropped = None if step.drop_idx_ is None else step.drop_idx_[column]
    return [entry for i, entry in enumerate(hot) if dropped is None or i != dropped]


def _ordinal(step: Any, column: int, cell: Cell, places: np.ndarray) -> list[Cell]:
    numbers = places.astype(np.float64)
    if (places < 0).any():
        numbers[places < 0] = float(step.unknown_value)
    return [Cell(cell.source, numbers)]


def _affine(factor: Callable[[Any], Any], shift: Callable[[Any], Any]) -> Callable[..., list[Column]]:
    """A scaler: x · factor + shift, each a learned array or nothing."""

    def transform(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
        numbers = (np.broadcast_to(np.asarray(learned(step), np.float64), (len(given),)) for learned in (factor, shift))
        made: list[Column] = []
        for column, f, s in zip(given, *numbers, strict=True):
            clips = getattr(step, "clip", False)
            if not clips and isinstance(column, Cells) and column.cells[0].values.dtype.kind in "biuf":
                made.append(column.mapped(lambda v, f=f, s=s: v.astype(np.float64) * f + s))  # type: ignore[misc]
                continue
            scaled = tape.forms(column).scaled(f).plus(s)
            low, high = step.feature_range if clips else (-np.inf, np.inf)
            made.append(clipped(scaled, low, high, name))
        return made

    return transform


def _imputed(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    """People of a domain have all their values, so nothing is filled in."""
    if step.add_indicator or plain(step.missing_values) == plain(step.missing_values):
        raise CannotRead(
            "marks or fills in something else than NaN, which is not supported; apply it to the table before, and "
            "examine the rest of the pipeline"
        )
    return given


def _fills(steps: Sequence[tuple[str, Any]], names: Sequence[str]) -> dict[str, Value]:
    """What an imputer that comes first puts in the place of missing values, by column."""
    kind = type(steps[0][1]).__name__ if steps else ""
    if kind == "SimpleImputer":
        found = zip(names, steps[0][1].statistics_, strict=True)
        return {name: plain_value(value) for name, value in found if not pd.isna(value)}
    if kind != "ColumnTransformer":
        return {}
    filled: dict[str, Value] = {}
    several: set[str] = set()
    for _, inner, positions in _parts(steps[0][1], names):
        read = [names[i] for i in positions]
        several |= {
            name for name in read if name in filled
        }  # read twice: what one way fills in need not be the other's
        filled |= _fills(inner, read)
    return {name: value for name, value in filled.items() if name not in several}


def _identity(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    if step.func is not None:
        raise CannotRead(
            "applies a function of yours, which cannot be read; apply it to the table before, and examine the rest"
        )
    return given


def _rotated(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    """Principal components: affine in the columns."""
    if step.whiten:
        raise CannotRead("whitens the components, which is not supported; scale them by a StandardScaler")
    weight = np.asarray(step.components_, np.float64).T
    made = layer(concatenated([tape.forms(column) for column in given], 0), weight, -step.mean_ @ weight)
    return [made.entry(i) for i in range(made.size)]


def _inverse(values: Any) -> Any:
    return 1.0 if values is None else 1.0 / np.asarray(values, np.float64)


def _standard_shift(step: Any) -> Any:
    return 0.0 if step.mean_ is None or not step.with_mean else -step.mean_ * _inverse(step.scale_)


def _robust_shift(step: Any) -> Any:
    return 0.0 if step.center_ is None else -step.center_ * _inverse(step.scale_)


TRANSFORMERS: dict[str, Callable[..., Sequence[Column]]] = {
    "OneHotEncoder": _looked_up(_one_hot),
    "OrdinalEncoder": _looked_up(_ordinal),
    "StandardScaler": _affine(lambda s: _inverse(s.scale_), _standard_shift),
    "MinMaxScaler": _affine(lambda s: s.scale_, lambda s: s.min_),
    "MaxAbsScaler": _affine(lambda s: _inverse(s.scale_), lambda s: 0.0),
    "RobustScaler": _affine(lambda s: _inverse(s.scale_), _robust_shift),
    "PCA": _rotated,
    "SimpleImputer": _imputed,
    "FunctionTransformer": _identity,
}


# --- classifiers ---


def _classifier(model: Any, name: str) -> list[Step]:
    kind = type(model).__name__
    if kind == "MLPClassifier":
        return _perceptron(model, name)
    if kind not in LINEAR:
        raise CannotRead(f"is not supported; MLPClassifier, {', '.join(LINEAR)} can be read")
    weight = np.atleast_2d(np.asarray(model.coef_, np.float64))
    bias = np.broadcast_to(np.asarray(model.intercept_, np.float64), (len(weight),))
    steps = [Step("dense", name, (weight.T, bias))]
    if kind.startswith("LogisticRegression"):
        several = len(weight) > 1
        if several and (getattr(model, "multi_class", "auto") == "ovr" or model.solver == "liblinear"):
            raise CannotRead("compares each class with the rest (ovr), which is not supported; fit it multinomial")
        steps.append(Step("softmax" if several else "sigmoid", name))
    return steps


def _perceptron(model: Any, name: str) -> list[Step]:
    steps: list[Step] = []
    hidden = HIDDEN.get(model.activation)
    for i, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        steps += [Step(hidden, f"hidden layer {i - 1}")] if i and hidden is not None else []
        steps.append(Step("dense", name, (weight, bias)))
    logistic = model.out_activation_ == "logistic"
    if logistic and model.coefs_[-1].shape[1] > 1:
        raise CannotRead("decides several labels at once, which is not supported; fit one for each")
    return [*steps, Step("sigmoid" if logistic else "softmax", "output")]


def _asked(asked: Reading, scores: Forms, final: Any) -> Reading:
    """A classifier of scikit-learn has labels, and says itself what its score is."""
    if asked.decision == "label" or (scores.size == 1 and asked.decision is None):
        own: Meaning = "probability" if hasattr(final, "predict_proba") else "logit"
        return replace(asked, decision=own if scores.size == 1 else None)
    return asked


# --- thresholds that were fixed or tuned ---


def _thawed(model: Any) -> Any:
    return _thawed(model.estimator) if type(model).__name__ == "FrozenEstimator" else model


@dataclass(frozen=True, eq=False)
class _Point:
    """Where a classifier with a fixed or tuned threshold lets another one decide: for one class, from a number of its
    probability or score on.
    """

    estimator: Any
    threshold: float | None  # None: ½ of a probability, 0 of a score
    of_probabilities: bool
    for_last: bool

    @staticmethod
    def of(model: Any) -> _Point:
        estimator = _thawed(getattr(model, "estimator_", model.estimator))
        tuned = hasattr(model, "best_threshold_")
        threshold = model.best_threshold_ if tuned else None if model.threshold == "auto" else model.threshold
        favoured = model._curve_scorer._get_pos_label() if tuned else model.pos_label
        probabilities = model.response_method == "predict_proba"
        if model.response_method == "auto":
            probabilities = hasattr(estimator, "predict_proba")
        last = favoured is None or plain(favoured) == plain(model.classes_[-1])
        return _Point(estimator, None if threshold is None else float(threshold), probabilities, last)

    def head(self, scores: Forms, final: Any) -> Head:
        """The decision at this point: at the threshold itself it is for the class that is named."""
        if scores.size > 2:
            raise CannotRead("tells more than two classes apart at one threshold, which is not supported")
        number, probability = self.threshold, self.of_probabilities
        if number is None:
            number = 0.5 if probability else 0.0
        if not probability and hasattr(final, "predict_proba"):  # read as probabilities, a function of the score
            number, probability = 1.0 / (1.0 + math.exp(-number)), True
        if probability and not 0 < number < 1:
            raise CannotRead(f"decides from the probability {number:g} on, so that everybody gets the same decision")
        if not self.for_last:
            number = 1.0 - number if probability else -number
        found = read_head(scores, Reading("probability" if probability else "logit", number))
        return replace(found, tie_is_positive=self.for_last)
