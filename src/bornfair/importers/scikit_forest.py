"""Forests of scikit-learn, alone or at the end of a pipeline, read from their learned attributes.

Decision trees compare float32 numbers with float64 thresholds, x ≤ t; histogram boosting compares float64. Random
forests decide by the mean of their trees' shares, boosting by a sum. What a pipeline does to columns becomes part of
the columns that splits read; a forest of another library at its end is read from what that library writes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value
from bornfair.importers.affine import CannotRead
from bornfair.importers.boosting import FAMILIES, family_of
from bornfair.importers.scikit_pipeline import (
    THRESHOLDED,
    TRANSFORMERS,
    Lookup,
    Opened,
    Point,
    Transforming,
    fills_of,
    steps_of,
    thawed,
)
from bornfair.importers.tree_source import ForestJudge, ForestSource, Ran, composed, is_raw, then
from bornfair.models.forest.columns import SplitColumn, Step
from bornfair.models.forest.forest import Cut, Forest, Summation
from bornfair.models.forest.links import just_below, moved_to
from bornfair.models.forest.planting import Planting

BAGGED = ("RandomForestClassifier", "ExtraTreesClassifier")
TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
ABSENT: Step = ("zero is missing", 0.0)
"""A sparse matrix holds no zeros, and XGBoost takes what it does not hold for missing."""


@dataclass(frozen=True, eq=False)
class End:
    """A forest over the columns that reach it, and its own scores for them [rows, columns]."""

    forest: Forest
    scores: Callable[[np.ndarray], np.ndarray]
    shows: str  # the method that shows what a fixed threshold is compared with


@dataclass(frozen=True)
class _Filled(SplitColumn):
    """A raw column whose gaps an imputer fills: an encoder behind it looks the filled value up."""

    fill: Any = None


class _Splits:
    """Columns that splits read, each of one raw input: the arithmetic is that of scikit-learn, step by step."""

    where = " before a forest"
    readable = tuple(name for name in TRANSFORMERS if name != "PCA")

    def scaled(self, column: SplitColumn, steps: Sequence[Step], name: str) -> SplitColumn:
        return then(column, *steps)

    def filled(self, column: SplitColumn, value: Any) -> SplitColumn:
        is_number = isinstance(value, (bool, int, float))
        steps: tuple[Step, ...] = (("missing is", float(value)),) if is_number else ()
        if is_raw(column):
            return _Filled(column.source, steps, fill=value)
        if not is_number:
            raise CannotRead("fills in categories that were transformed before, which is not supported")
        return then(column, *steps)

    def encoded(self, column: SplitColumn, lookup: Lookup, gaps: bool) -> list[SplitColumn]:
        filled = isinstance(column, _Filled) and len(column.steps) <= 1 and column.table is None
        if not filled and not is_raw(column):
            raise CannotRead("encodes columns that were transformed before, which is not supported")
        missing = lookup.missing
        if isinstance(column, _Filled) and not gaps:  # None goes through an imputer of NaN
            missing = lookup.of(column.fill)
        made = []
        for i, numbers in enumerate(lookup.made.T):
            table = tuple(zip(lookup.known, numbers.tolist(), strict=True))
            other = None if lookup.other is None else float(lookup.other[i])
            made.append(
                SplitColumn(column.source, (), table, other, math.nan if missing is None else float(missing[i]))
            )
        return made

    def rotated(self, columns: Sequence[SplitColumn], weight: np.ndarray, shift: np.ndarray) -> list[SplitColumn]:
        raise CannotRead("adds columns up, which is not supported before a forest")


def ends_in_forest(model: Any) -> bool:
    """Whether a scikit-learn model, or what its pipeline ends with, is a forest."""
    inner = thawed(getattr(model, "best_estimator_", model))
    if type(inner).__name__ in THRESHOLDED:
        return ends_in_forest(getattr(inner, "estimator_", inner.estimator))
    *_, (_, final) = steps_of(inner) or [("", None)]
    return type(final).__name__ in READERS or family_of(final) is not None


def scikit_forest(model: Any) -> ForestSource:
    """A fitted forest, alone or at the end of a pipeline."""
    import sklearn
    from threadpoolctl import threadpool_limits

    opened = Opened.of(model)
    final, wanted = opened.final, opened.wanted
    origin = wanted.origin
    if np.ndim(opened.final.classes_[0]) > 0:
        raise InputError(f"{origin} decides several labels at once, which is not supported; fit one for each.")
    read = list(wanted.names or [f"x{i}" for i in range(wanted.count or 0)])
    order = list(opened.names or read)
    places = {name: i for i, name in enumerate(read)}
    given = [SplitColumn(places[name], ()) if name in places else None for name in order]
    steps = list(opened.transformers)
    inner = getattr(final, "_preprocessor", None) if type(final).__name__.startswith("HistGradient") else None
    if inner is not None:
        steps.append((opened.name, inner))
    pipeline: Transforming[SplitColumn] = Transforming(_Splits(), origin)
    columns = pipeline.through(steps, given, order)
    family = family_of(final)
    end = READERS[type(final).__name__](final, origin) if family is None else _foreign(final, family)
    if family == "xgboost" and _leaves_zeros_out(opened.transformers):
        columns = [column and then(column, ABSENT) for column in columns]
    forest = dataclasses.replace(
        end.forest, names=tuple(read), columns=composed(end.forest.columns, columns, f"{origin}: {opened.name}")
    )
    if opened.point is not None:
        forest = _at(forest, opened.point, origin)
    classes = tuple(plain_value(value) for value in final.classes_)
    filled = fills_of(opened.transformers, read)

    def run(raw: list[Any]) -> Ran:
        with threadpool_limits(1, user_api="openmp"):  # on a busy machine several threads wait for each other
            return _said(opened, end, read, raw)

    judge = ForestJudge(f"scikit-learn {sklearn.__version__}", run)
    return ForestSource(
        origin, forest, opened.names is not None, judge, classes, categories=dict(wanted.categories),
        fills={name: value for name, value in filled.items() if name in places},
    )  # fmt: skip


def _said(opened: Opened, end: End, names: list[str], raw: list[Any]) -> Ran:
    rows = opened.given(pd.DataFrame(dict(zip(names, raw, strict=True))), names)
    order = {plain(value): i for i, value in enumerate(opened.final.classes_)}
    decided = np.array([order[plain(value)] for value in opened.model.predict(rows)], np.int64)
    inner = opened.model if opened.point is None else opened.point.estimator
    shown = np.asarray(inner.predict_proba(rows)) if hasattr(inner, "predict_proba") else None
    reached = rows
    for _, step in opened.transformers:
        reached = step.transform(reached)
    scores = np.asarray(end.scores(reached), np.float64).reshape(len(decided), -1)
    return Ran(scores, shown, decided)


def _at(forest: Forest, point: Point, origin: str) -> Forest:
    """Where a fixed or tuned threshold lets it decide: at the number itself, for the class that is named."""
    if forest.classes > 2:
        raise InputError(f"{origin} tells more than two classes apart at one threshold, which is not supported.")
    number = point.threshold if point.threshold is not None else 0.5 if point.of_probabilities else 0.0
    if point.of_probabilities:
        return moved_to(forest, number if point.for_last else 1.0 - number, ties=point.for_last)
    at = number if point.for_last else -number
    at = just_below(at, forest.summation.precision) if point.for_last else at
    return dataclasses.replace(forest, cut=dataclasses.replace(forest.cut, at=at, slack=0.0))


# --- forests of other libraries ---


def _leaves_zeros_out(steps: Sequence[tuple[str, Any]]) -> bool:
    """Whether what the steps hand on is a sparse matrix, which holds no zeros."""
    for _, step in reversed(steps):
        for said in ("sparse_output_", "sparse_output"):  # of a ColumnTransformer; of an encoder
            if hasattr(step, said):
                return bool(getattr(step, said))
        if type(step).__name__ not in ("MaxAbsScaler", "StandardScaler", "RobustScaler", "FunctionTransformer"):
            return False  # those hand on what they are given
    return False


def _foreign(final: Any, family: str) -> End:
    source = FAMILIES[family](final)
    if source.over is not None:
        raise InputError(f"{source.origin} at the end of a pipeline takes categories as texts, which is not supported.")
    judge = source.judge
    assert judge is not None

    def scores(rows: Any) -> np.ndarray:
        table = _dense(rows)
        if family == "xgboost" and table is not rows:
            table = np.where(table == 0, np.nan, table)
        return judge.run([np.asarray(table)[:, i] for i in range(table.shape[1])]).scores

    return End(source.forest, scores, "predict_proba")


# --- scikit-learn's own ---


def _dense(rows: Any) -> Any:
    return np.asarray(rows.todense()) if hasattr(rows, "todense") else rows


def _planted(planting: Planting, tree: Any, values: np.ndarray) -> None:
    """A tree of sklearn.tree; its nodes may mark where missing values go."""
    nodes = tree.__getstate__()["nodes"]
    left = nodes["left_child"].astype(np.int64)
    inner = left >= 0
    go_left = nodes["missing_go_to_left"] if "missing_go_to_left" in (nodes.dtype.names or ()) else np.zeros(len(nodes))
    planting.add(
        np.where(inner, nodes["feature"], -1), np.where(inner, nodes["threshold"], 0.0), left,
        np.where(inner, nodes["right_child"], -1), go_left.astype(bool), values,
    )  # fmt: skip


def _bagged(estimators: Sequence[Any], model: Any, origin: str) -> End:
    """The mean of trees' shares, in float64."""
    planting = Planting(origin, len(model.classes_))
    for estimator in estimators:
        _planted(planting, estimator.tree_, estimator.tree_.value[:, 0, : len(model.classes_)])
    alone = getattr(model, "n_jobs", None) in (None, 1)
    several = float(len(estimators))
    how = Summation("float64", (0.0,) * len(model.classes_), divisor=several, in_order=alone)
    cut = Cut(link="probability")
    forest = planting.forest(*_inputs(model), how, cut)
    return End(forest, model.predict_proba, "predict_proba")


def _boosted(model: Any, origin: str) -> End:
    """A sum of scaled leaves on the prior; of two classes the last is decided from 0 on."""
    if model.loss != "log_loss":
        raise InputError(f"{origin} was trained with the loss '{model.loss}', which is not supported; use 'log_loss'.")
    if not isinstance(model.init_, str) and type(model.init_).__name__ != "DummyClassifier":
        raise InputError(f"{origin} begins with a {type(model.init_).__name__} (init), which is not supported.")
    outputs = model.estimators_.shape[1]
    planting = Planting(origin, outputs)
    for stage in model.estimators_:
        for k, estimator in enumerate(stage):
            values = np.zeros((estimator.tree_.node_count, outputs))
            values[:, k] = model.learning_rate * estimator.tree_.value[:, 0, 0]
            _planted(planting, estimator.tree_, values)
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]
    at = just_below(0.0, "float64") if outputs == 1 else 0.0
    cut = Cut(at, link="sigmoid" if outputs == 1 else "softmax")
    how = Summation("float64", tuple(np.asarray(base, np.float64).tolist()))
    return End(planting.forest(*_inputs(model), how, cut), model.decision_function, "predict_proba")


def _histogram(model: Any, origin: str) -> End:
    """Histogram boosting: float64 throughout; categories are in sets of up to 256."""
    if model.loss != "log_loss":
        raise InputError(f"{origin} was trained with the loss '{model.loss}', which is not supported; use 'log_loss'.")
    outputs = model.n_trees_per_iteration_
    planting = Planting(origin, outputs)
    for iteration in model._predictors:
        for k, predictor in enumerate(iteration):
            _plant_predictor(planting, predictor, k)
    base = np.asarray(model._baseline_prediction, np.float64).ravel()
    how = Summation("float64", tuple(base.tolist()))
    cut = Cut(link="sigmoid" if outputs == 1 else "softmax")
    names, columns = _inputs(model, ())
    return End(planting.forest(names, columns, how, cut), lambda rows: model.decision_function(_dense(rows)), "")


def _plant_predictor(planting: Planting, predictor: Any, output: int) -> None:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"].astype(bool)
    values = np.zeros((len(nodes), planting.outputs))
    values[:, output] = nodes["value"]
    chosen = nodes["is_categorical"].astype(bool) & ~leaf
    members = np.full(len(nodes), -1)
    for i in np.flatnonzero(chosen):
        words = predictor.raw_left_cat_bitsets[nodes["bitset_idx"][i]]
        members[i] = len(planting.sets)
        planting.sets.append(np.flatnonzero(((words[:, None] >> np.arange(32)) & 1).ravel()).astype(np.float64))
    planting.add(
        np.where(leaf, -1, nodes["feature_idx"]), np.where(leaf | chosen, 0.0, nodes["num_threshold"]),
        np.where(leaf, -1, nodes["left"].astype(np.int64)), np.where(leaf, -1, nodes["right"].astype(np.int64)),
        nodes["missing_go_to_left"].astype(bool), values, members,
    )  # fmt: skip


def _inputs(model: Any, steps: tuple[Step, ...] = (("float32", 0.0),)) -> tuple[list[str], list[SplitColumn]]:
    count = int(model.n_features_in_)
    return [f"column {i}" for i in range(count)], [SplitColumn(i, steps) for i in range(count)]


READERS: dict[str, Callable[[Any, str], End]] = {
    **dict.fromkeys(TREES, lambda model, origin: _bagged([model], model, origin)),
    **dict.fromkeys(BAGGED, lambda model, origin: _bagged(model.estimators_, model, origin)),
    "GradientBoostingClassifier": _boosted,
    "HistGradientBoostingClassifier": _histogram,
}
