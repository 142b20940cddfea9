"""What does a fitted scikit-learn classifier or pipeline compute? Read from its learned attributes, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain, plain_value, shown
from bornfair.models.importers.affine import (
    CannotRead,
    Cell,
    Cells,
    Forms,
    Tape,
    activation,
    clipped,
    concatenated,
    layer,
)
from bornfair.models.importers.columns import Columns, Wanted
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
HIDDEN = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid"}


class ScikitSource:
    """A fitted classifier, alone or at the end of a pipeline."""

    def __init__(self, model: Any) -> None:
        from sklearn.exceptions import NotFittedError
        from sklearn.utils.validation import check_is_fitted

        self._model = getattr(model, "best_estimator_", model)
        name = type(self._model).__name__
        try:
            check_is_fitted(self._model)
        except (NotFittedError, TypeError) as error:
            raise InputError(f"the {name} is not fitted; call fit first.") from error
        self._final = _steps(self._model)[-1][1]
        if not hasattr(self._final, "classes_"):
            raise InputError(f"the {name} ends with {type(self._final).__name__}, which is not a classifier.")
        self._all_names = _fitted_names(self._model)
        names = None if self._all_names is None else _used(self._model, self._all_names)
        count = None if names is not None else int(self._model.n_features_in_)
        known: dict[str, tuple[Value, ...]] = {}
        if names is not None and self._all_names is not None:
            _note_categories(_steps(self._model)[:-1], list(self._all_names), known)
        self.wanted = Wanted(f"the {name}", names, count, known, numbers=False)

    def read(self, columns: Columns, asked: Reading) -> Read:
        tape = Tape(columns.domain.features)
        read = {
            name: tape.column(f, np.array(f.levels(), object) if not isinstance(f, NUMERIC) else np.zeros(0))
            for name, f in zip(self.wanted.names or columns.names, columns.features, strict=True)
        }
        order = self._all_names or tuple(read)
        given: list[Column | None] = [_plain_levels(read.get(name)) for name in order]
        for name, step in _steps(self._model)[:-1]:
            given = list(_transformed(step, name, given, tape, self.wanted.origin, order))
            order = tuple(f"column {i}" for i in range(len(given)))
        name = _steps(self._model)[-1][0]
        try:
            scores = _scores(self._final, concatenated([tape.forms(_there(c)) for c in given], 0), name)
            head = read_head(scores, _asked(asked, scores, self._final))
        except CannotRead as error:
            raise _wrong(self.wanted.origin, name, self._final, error) from error
        classes = tuple(plain_value(value) for value in self._final.classes_)
        return Read(head, tape, classes, lambda: _ScikitOriginal(self._model, head, columns, self, asked))

    @property
    def fitted_names(self) -> tuple[str, ...] | None:
        return self._all_names


def _wrong(origin: str, name: str, step: Any, error: CannotRead) -> InputError:
    return InputError(f"{origin}: step '{name}' ({type(step).__name__}) {error}.")


def _there(column: Column | None) -> Column:
    if column is None:
        raise CannotRead("reads a column that the model was not asked to take")
    return column


def _plain_levels(column: Column | None) -> Column | None:
    """Categories that are all numbers or all true/false, as such an array."""
    if not isinstance(column, Cells):
        return column
    return column.mapped(lambda v: v if any(isinstance(x, str) for x in v) else np.array(v.tolist()))


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


def _fitted_names(model: Any) -> tuple[str, ...] | None:
    try:
        return tuple(str(name) for name in model.feature_names_in_)
    except AttributeError:
        return None


def _used(model: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that matter: a column transformer may drop some."""
    first = _steps(model)[0][1]
    if type(first).__name__ != "ColumnTransformer":
        return names
    kept = {i for _, step, chosen in _parts(first) if not _drops(step) for i in _positions(chosen, names)}
    return tuple(name for i, name in enumerate(names) if i in kept)


def _parts(transformer: Any) -> list[tuple[str, Any, Any]]:
    return list(transformer.transformers_)


def _drops(step: Any) -> bool:
    return isinstance(step, str) and step == "drop"


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


def _note_categories(steps: Sequence[tuple[str, Any]], names: list[str], known: dict[str, tuple[Value, ...]]) -> None:
    """Which categories encoders know for raw columns."""
    for _, step in steps:
        kind = type(step).__name__
        if kind == "ColumnTransformer":
            for _, part, chosen in _parts(step):
                if not isinstance(part, str):
                    _note_categories(_steps(part), [names[i] for i in _positions(chosen, names)], known)
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
            raise _wrong(origin, name, step, CannotRead("has transformer_weights, which are not supported"))
        for part, inner, chosen in _parts(step):
            if _drops(inner):
                continue
            some: Sequence[Column | None] = [given[i] for i in _positions(chosen, names)]
            if not isinstance(inner, str):
                for _, transformer in _steps(inner):
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
        raise _wrong(origin, name, step, error) from error


def _one_hot(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    if getattr(step, "_infrequent_enabled", False) and any(c is not None for c in step.infrequent_categories_):
        raise CannotRead("joins infrequent categories, which is not supported; join them in the table")
    made: list[Column] = []
    for j, (column, known) in enumerate(zip(given, step.categories_, strict=True)):
        cell = tape.cells(column).cells[0]
        position = _places(cell, known, step.handle_unknown == "error")
        dropped = None if step.drop_idx_ is None else step.drop_idx_[j]
        kept = [i for i in range(len(known)) if dropped is None or i != dropped]
        made += [Cells((1,), (Cell(cell.source, (position == i).astype(np.float64)),)) for i in kept]
    return made


def _ordinal(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    if getattr(step, "_infrequent_enabled", False) and any(c is not None for c in step.infrequent_categories_):
        raise CannotRead("joins infrequent categories, which is not supported; join them in the table")
    made: list[Column] = []
    for column, known in zip(given, step.categories_, strict=True):
        cell = tape.cells(column).cells[0]
        position = _places(cell, known, step.handle_unknown == "error").astype(np.float64)
        if (position < 0).any():
            position[position < 0] = float(step.unknown_value)
        made.append(Cells((1,), (Cell(cell.source, position),)))
    return made


def _places(cell: Cell, known: Any, strict: bool) -> np.ndarray:
    """The position of each level among the known categories, −1 for none."""
    order = {plain(category): i for i, category in enumerate(known)}
    position = np.array([order.get(plain(level), -1) for level in cell.values], dtype=np.int64)
    if strict and (position < 0).any():
        raise CannotRead(
            f"does not know the category {plain(cell.values[int(np.argmin(position))])!r} of '{cell.source.name}', "
            f"only {shown(known)}; take it out of the domain, or train with it"
        )
    return position


def _affine(factor: Callable[[Any], Any], shift: Callable[[Any], Any]) -> Callable[..., list[Column]]:
    """A scaler: x · factor + shift, each a learned array or nothing."""

    def transform(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
        count = len(given)
        factors = np.broadcast_to(np.asarray(factor(step), np.float64), (count,))
        shifts = np.broadcast_to(np.asarray(shift(step), np.float64), (count,))
        made: list[Column] = []
        for column, f, s in zip(given, factors, shifts, strict=True):
            if getattr(step, "clip", False):
                low, high = step.feature_range
                made.append(clipped(tape.forms(column).scaled(np.array([f])).plus(np.array([s])), low, high, name))
            elif isinstance(column, Cells) and column.cells[0].values.dtype.kind in "biuf":
                made.append(column.mapped(lambda v, f=f, s=s: v.astype(np.float64) * f + s))  # type: ignore[misc]
            else:
                made.append(tape.forms(column).scaled(np.array([f])).plus(np.array([s])))
        return made

    return transform


def _imputed(step: Any, given: list[Column], tape: Tape, name: str) -> list[Column]:
    """People of a domain have all their values, so nothing is filled in."""
    if step.add_indicator or plain(step.missing_values) == plain(step.missing_values):
        raise CannotRead("marks or fills in something else than NaN, which is not supported")
    return given


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
    return [made.picked(np.array([i])) for i in range(made.size)]


def _inverse(values: Any) -> Any:
    return 1.0 if values is None else 1.0 / np.asarray(values, np.float64)


def _standard_shift(step: Any) -> Any:
    return 0.0 if step.mean_ is None or not step.with_mean else -step.mean_ * _inverse(step.scale_)


def _robust_shift(step: Any) -> Any:
    return 0.0 if step.center_ is None else -step.center_ * _inverse(step.scale_)


TRANSFORMERS: dict[str, Callable[..., Sequence[Column]]] = {
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "StandardScaler": _affine(lambda s: _inverse(s.scale_), _standard_shift),
    "MinMaxScaler": _affine(lambda s: s.scale_, lambda s: s.min_),
    "MaxAbsScaler": _affine(lambda s: _inverse(s.scale_), lambda s: 0.0),
    "RobustScaler": _affine(lambda s: _inverse(s.scale_), _robust_shift),
    "PCA": _rotated,
    "SimpleImputer": _imputed,
    "FunctionTransformer": _identity,
}


# --- classifiers ---


def _scores(model: Any, value: Forms, name: str) -> Forms:
    kind = type(model).__name__
    if kind == "MLPClassifier":
        return _perceptron(model, value)
    if kind in LINEAR:
        weight = np.atleast_2d(np.asarray(model.coef_, np.float64))
        scores = layer(value, weight.T, np.broadcast_to(np.asarray(model.intercept_, np.float64), (len(weight),)))
        if not kind.startswith("LogisticRegression"):
            return scores
        if scores.size == 1:
            return activation("sigmoid", scores, name)
        if getattr(model, "multi_class", "auto") == "ovr" or model.solver == "liblinear":
            raise CannotRead("compares each class with the rest (ovr), which is not supported; fit it multinomial")
        return activation("softmax", scores, name)
    raise CannotRead(f"is not supported; MLPClassifier, {', '.join(LINEAR)} can be read")


def _perceptron(model: Any, value: Forms) -> Forms:
    depth = len(model.coefs_)
    for i, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        value = layer(value, weight, bias)
        if i < depth - 1 and model.activation != "identity":
            value = activation(HIDDEN[model.activation], value, f"hidden layer {i}")
    if model.out_activation_ == "logistic" and value.size > 1:
        raise CannotRead("decides several labels at once, which is not supported; fit one for each")
    return activation("sigmoid" if model.out_activation_ == "logistic" else "softmax", value, "output")


def _asked(asked: Reading, scores: Forms, final: Any) -> Reading:
    """A classifier of scikit-learn has labels, and says itself what its score is."""
    if asked.decision == "label" or (scores.size == 1 and asked.decision is None):
        own: Meaning = "probability" if hasattr(final, "predict_proba") else "logit"
        return replace(asked, decision=own if scores.size == 1 else None)
    return asked


class _ScikitOriginal(Original):
    """The estimator itself."""

    def __init__(self, model: Any, head: Head, columns: Columns, source: ScikitSource, asked: Reading) -> None:
        import sklearn

        self._model, self._head, self._columns, self._source, self._asked = model, head, columns, source, asked
        self.runtime = f"scikit-learn {sklearn.__version__}"

    def scores(self, table: pd.DataFrame) -> np.ndarray:
        shows = "predict_proba" if self._head.probabilities else "decision_function"
        found = np.asarray(getattr(self._model, shows)(self._given(table)))
        return found[:, None] if found.ndim == 1 else found

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        if self._asked.moves_the_decision:
            return self._head.decided_by_it(self.scores(table))
        order = {plain(value): i for i, value in enumerate(self._model.classes_)}
        return np.array([order[plain(value)] for value in self._model.predict(self._given(table))], dtype=np.int64)

    def _given(self, table: pd.DataFrame) -> Any:
        names, wanted = self._source.fitted_names, self._source.wanted.names
        if names is None or wanted is None:
            columns = table[list(self._columns.names)]
            numeric = all(pd.api.types.is_numeric_dtype(dtype) for dtype in columns.dtypes)
            return columns.to_numpy(np.float64 if numeric else object)
        renamed = table[list(self._columns.names)].set_axis(list(wanted), axis=1)
        return renamed.reindex(columns=list(names))  # columns that the model drops are empty
