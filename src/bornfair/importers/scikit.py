"""Fitted scikit-learn classifiers and pipelines, read from their learned attributes step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.importers.affine import AffineCells, CannotRead, Cell, Forms, Tape, clipped, concatenated, layer
from bornfair.importers.dense_stack import Kind, Step, formed
from bornfair.importers.head import Head, read_head
from bornfair.importers.scikit_pipeline import (
    TRANSFORMERS,
    Lookup,
    Opened,
    Point,
    Transforming,
    fills_of,
    label_of,
)
from bornfair.importers.source import Original, Read
from bornfair.models.columns import Columns
from bornfair.models.deciding import Meaning
from bornfair.models.reading import Reading

Column = Forms | AffineCells  # [people, 1]
LINEAR = (
    "LogisticRegression", "LogisticRegressionCV", "LinearSVC", "SGDClassifier", "Perceptron", "RidgeClassifier",
    "RidgeClassifierCV", "LinearDiscriminantAnalysis",
)  # fmt: skip
HIDDEN: dict[str, Kind] = {"relu": "relu", "tanh": "tanh", "logistic": "sigmoid"}  # none for "identity"


class ScikitSource:
    """A fitted classifier, alone or at the end of a pipeline."""

    def __init__(self, model: Any) -> None:
        self._opened = Opened.of(model)
        self.wanted = self._opened.wanted

    def read(self, columns: Columns, asked: Reading) -> Read:
        tape, origin = Tape(columns.domain.features), self.wanted.origin
        names = self.wanted.names or columns.names
        read = {name: tape.column(f, _plain_levels) for name, f in zip(names, columns.features, strict=True)}
        opened, order = self._opened, self._opened.names or names
        pipeline: Transforming[Column] = Transforming(_Affine(tape), origin)
        given = pipeline.through(opened.transformers, [read.get(name) for name in order], order)
        name, final = opened.name, opened.final
        try:
            steps = _classifier(final, label_of(name, final))
            row = concatenated([tape.forms(column) for column in pipeline.there(given)], 0)
            scores = formed(steps, row, origin)
            if opened.point is not None and not asked.moves_the_decision:
                head = _at_the_point(opened.point, scores, steps, final)
            else:
                head = read_head(scores, _asked(asked, scores, steps))
        except CannotRead as error:
            raise InputError(f"{origin}: {label_of(name, final)} {error}.") from error
        classes = tuple(plain_value(value) for value in final.classes_)
        return Read(head, tape, classes, self._original(head, columns, asked))

    def _original(self, head: Head, columns: Columns, asked: Reading) -> Original:
        """The estimator itself."""
        import sklearn

        opened, order = self._opened, {plain(value): i for i, value in enumerate(self._opened.final.classes_)}

        def scores(table: pd.DataFrame) -> np.ndarray:
            shows = "predict_proba" if head.probabilities else "decision_function"
            found = np.asarray(getattr(opened.model, shows)(opened.given(table, columns.names)))
            return found[:, None] if found.ndim == 1 else found

        def decide(table: pd.DataFrame) -> np.ndarray:
            if asked.moves_the_decision:
                return head.decided_by_it(scores(table))
            found = opened.model.predict(opened.given(table, columns.names))
            return np.array([order[plain(value)] for value in found], dtype=np.int64)

        known = self.wanted.names or columns.names
        filled = fills_of(opened.transformers, opened.names or known)
        fills = {own: filled[name] for name, own in zip(known, columns.names, strict=True) if name in filled}
        return Original(f"scikit-learn {sklearn.__version__}", scores, decide, fills=fills)


def _plain_levels(levels: np.ndarray) -> np.ndarray:
    """Categories that are all numbers or all true/false, as such an array."""
    return levels if any(isinstance(level, str) for level in levels) else np.array(levels.tolist())


# --- columns ---


@dataclass(frozen=True, eq=False)
class _Affine:
    """Columns as affine forms, or as functions of one feature."""

    tape: Tape
    where = ""
    readable = TRANSFORMERS

    def scaled(self, column: Column, steps: Sequence[tuple[str, float]], name: str) -> Column:
        factor, shift, low, high = 1.0, 0.0, -np.inf, np.inf
        for what, number in steps:
            if what in ("times", "over"):
                by = number if what == "times" else 1.0 / number
                factor, shift = factor * by, shift * by
            elif what in ("minus", "plus"):
                shift += number if what == "plus" else -number
            else:
                low, high = (number, high) if what == "at least" else (low, number)
        bounded = np.isfinite(low) or np.isfinite(high)
        if not bounded and isinstance(column, AffineCells) and column.cells[0].values.dtype.kind in "biuf":
            return column.mapped(lambda v: v.astype(np.float64) * factor + shift)
        return clipped(self.tape.forms(column).scaled(factor).plus(shift), low, high, name)

    def filled(self, column: Column, value: Any) -> Column:
        """People of a domain have all their values, so nothing is filled in."""
        return column

    def encoded(self, column: Column, lookup: Lookup, gaps: bool) -> list[Column]:
        cell = self.tape.cells(column).cells[0]
        rows = []
        for level in cell.values:
            row = lookup.of(plain(level))
            if row is None:
                raise CannotRead(
                    f"does not know the category {plain(level)!r} of '{cell.source.name}', only {shown(lookup.known)}; "
                    "take it out of the domain, or train with it"
                )
            rows.append(row)
        return [AffineCells((1,), (Cell(cell.source, numbers),)) for numbers in np.array(rows).T]

    def rotated(self, columns: Sequence[Column], weight: np.ndarray, shift: np.ndarray) -> list[Column]:
        made = layer(concatenated([self.tape.forms(column) for column in columns], 0), weight, shift)
        return [made.entry(i) for i in range(made.size)]


# --- classifiers ---


def _classifier(model: Any, name: str) -> list[Step]:
    kind = type(model).__name__
    if kind == "MLPClassifier":
        return _perceptron(model, name)
    if kind not in LINEAR:
        raise CannotRead(f"is not supported; MLPClassifier, {', '.join(LINEAR)} can be read")
    weight = np.atleast_2d(np.asarray(model.coef_, np.float64))
    bias = np.broadcast_to(np.asarray(model.intercept_, np.float64), (len(weight),))
    steps, several = [Step("dense", name, (weight.T, bias))], len(weight) > 1
    logistic = kind.startswith("LogisticRegression")
    if several and logistic and (getattr(model, "multi_class", "auto") == "ovr" or model.solver == "liblinear"):
        raise CannotRead("compares each class with the rest (ovr), which is not supported; fit it multinomial")
    if logistic or kind == "LinearDiscriminantAnalysis":
        steps.append(Step("softmax" if several else "sigmoid", name))
    elif kind == "SGDClassifier" and model.loss == "log_loss" and not several:
        steps.append(Step("sigmoid", name))
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


def _asked(asked: Reading, scores: Forms, steps: Sequence[Step]) -> Reading:
    """A classifier of scikit-learn has labels, and its last step says what its score is."""
    if asked.decision == "label" or (scores.size == 1 and asked.decision is None):
        return replace(asked, decision=_meaning(steps) if scores.size == 1 else None)
    return asked


def _meaning(steps: Sequence[Step]) -> Meaning:
    return "probability" if steps[-1].kind == "sigmoid" else "logit"


# --- thresholds that were fixed or tuned ---


def _at_the_point(point: Point, scores: Forms, steps: Sequence[Step], final: Any) -> Head:
    """The decision at this point: at the threshold itself it is for the class that is named."""
    if scores.size > 2:
        raise CannotRead("tells more than two classes apart at one threshold, which is not supported")
    number, probability = point.threshold, point.of_probabilities
    if number is None:
        number = 0.5 if probability else 0.0
    shows = _meaning(steps) == "probability"
    if not probability and shows:  # read as probabilities, a function of the score
        number, probability = 1.0 / (1.0 + math.exp(-number)), True
    if probability and not shows:
        if getattr(final, "loss", "") != "modified_huber":
            raise CannotRead("has a threshold of probabilities that are not read from its scores; use its scores")
        if 0 < number < 1:  # its probability is (score + 1) / 2, clipped
            number, probability = 2.0 * number - 1.0, False
    if probability and not 0 < number < 1:
        raise CannotRead(f"decides from the probability {number:g} on, so that everybody gets the same decision")
    if not point.for_last:
        number = 1.0 - number if probability else -number
    found = read_head(scores, Reading("probability" if probability else "logit", number))
    return replace(found, tie_is_positive=point.for_last)
