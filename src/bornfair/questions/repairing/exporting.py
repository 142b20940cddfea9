"""How does a Python estimator become a graph that ours can stand around? Read, if it can be; else by skl2onnx.

Whatever graph comes of it is compared with the estimator's own answers before anybody relies on it.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_level, plain_value
from bornfair.importers.scikit_pipeline import THRESHOLDED, Point, thawed
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.around import Core, LabelOutput, Method, Taken, around
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.models.network.onnx_graph import DOUBLE, FLOAT, INT64, STRING, input_type
from bornfair.models.operating import Operating
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.people.twins.versions import Folding
from bornfair.proof.bundle import AnyBundle, FairGraph, bundle_of
from bornfair.questions.loading import load_model

COMPARED = 256  # people
CLOSE = 1e-3  # by how much shares may differ: graphs of other software compute in float32
TIE = 2e-3  # who is so close to a tie may be decided otherwise
SAME = 1e-9  # shares that differ by less are the same function of a score
OPSET = {"": 18, "ai.onnx.ml": 3}


@dataclasses.dataclass(frozen=True, eq=False)
class FittedEstimator:
    """A fitted estimator over the columns of a domain; its classes are those of the domain's label, in order."""

    estimator: Any
    domain: Domain
    columns: tuple[str, ...]
    rows: pd.DataFrame | None = None
    """People of a table, to compare with beside those of the domain."""
    named: bool = True
    """Whether it was fitted on a table with names, or on an array."""

    @property
    def name(self) -> str:
        steps = getattr(self.estimator, "steps", None)
        return type(steps[-1][1] if steps else self.estimator).__name__

    def shares(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.estimator.predict_proba(self._given(table)), np.float64)

    def decided(self, table: pd.DataFrame) -> np.ndarray:
        """Class indices, as the estimator itself decides."""
        found = np.asarray(self.estimator.predict(self._given(table))).ravel()
        order = {plain(value): i for i, value in enumerate(self.estimator.classes_)}
        return np.array([order[plain(value)] for value in found], np.int64)

    def _given(self, table: pd.DataFrame) -> Any:
        rows = table[list(self.columns)]
        return rows if self.named else rows.to_numpy()

    @cached_property
    def inside(self) -> tuple[Any, Point | None]:
        """The estimator without a threshold that was fixed or tuned around it, and that threshold."""
        return without_point(self.estimator)

    def operating(self, table: pd.DataFrame) -> Operating | None:
        """Where its shares decide, if not by the largest.

        Raises:
            InputError: if it decides by something of which its shares are no known function.
        """
        inner, point = self.inside
        if point is None:
            return None
        number, place = point.threshold, 1 if point.for_last else 0
        if number is None:
            number = 0.5 if point.of_probabilities else 0.0
        if not point.of_probabilities:
            scores = np.asarray(inner.decision_function(self._given(table)), np.float64)
            if not np.allclose(1 / (1 + np.exp(-scores)), self.shares(table)[:, 1], atol=SAME):
                raise InputError(
                    f"{self.name} decides at {number:g} of the decision_function of {type(inner).__name__}, of which "
                    "its probabilities are no known function; use response_method='predict_proba'."
                )
            number = 1 / (1 + math.exp(-number))
        return Operating((number,), place, ties=True)


def without_point(model: Any) -> tuple[Any, Point | None]:
    """A classifier without a threshold that was fixed or tuned around it, and that threshold."""
    model = thawed(getattr(model, "best_estimator_", model))
    if type(model).__name__ in THRESHOLDED:
        own = Point.of(model)
        return own.estimator, own
    if not getattr(model, "steps", None):
        return model, None
    from sklearn.pipeline import Pipeline

    *transformers, (name, final) = model.steps
    inner, point = without_point(final)
    return (model, None) if point is None else (Pipeline([*transformers, (name, inner)]), point)


def exported(fitted: FittedEstimator, method: Method) -> AnyBundle:
    """The estimator as a bundle's model: as what it was read as if twins are the same to that, else with our graph
    around it.

    Raises:
        InputError: if it can neither be read nor converted; the text says why.
    """
    domain, merged = fitted.domain, method == "merge"
    try:
        read = _read(fitted)
    except InputError as unread:
        core, at = graph_of(fitted, str(unread), merged=merged)
    else:
        if merged and not domain.twins and read.ignores_sensitive:
            return bundle_of(read)
        core, at = _own_graph(read, domain, merged), read.rule_on_shares()
    return FairGraph(around(core, domain, method, at=at), domain)


def _own_graph(read: Model | ForestModel, domain: Domain, merged: bool) -> Core:
    bare = merged and read.ignores_sensitive and bool(domain.free_features)
    return Core.of_own(read.graph_bytes(sensitive=not bare), domain)


def _read(fitted: FittedEstimator) -> Model | ForestModel:
    """What a reader makes of it, with the names that the domain has for its classes."""
    domain = fitted.domain.replaced(twins=()) if fitted.domain.twins else fitted.domain
    if not domain.sensitive:
        raise InputError("no feature was named sensitive.")
    found = load_model(fitted.estimator, domain=domain.replaced(label=None))
    assert isinstance(found, (ForestModel, Model))
    if isinstance(found, ForestModel):
        at = found.rule_on_shares()
        told = {} if at is None else at.thresholds(domain.classes.tolist())
        return dataclasses.replace(found, domain=domain, original=None, operating=told)
    if fitted.rows is not None and fitted.rows[list(fitted.columns)].isna().any(axis=None):
        raise InputError(f"{fitted.name} was trained on missing values, which a network that is read does not take.")
    who = found.domain.replaced(label=domain.label)
    if who != domain:
        raise InputError("its reader lists values that the domain has as a range.")
    return dataclasses.replace(found, encoding=dataclasses.replace(found.encoding, domain=who), original=None)


def graph_of(
    fitted: FittedEstimator, unread: str, *, merged: bool = False, at: Operating | None = None
) -> tuple[Core, Operating | None]:
    """The graph of an estimator that cannot be read as it is, and where its shares decide: at the threshold around it,
    or at one that is asked for. Compared with the estimator.
    """
    inner, point = fitted.inside
    people = _compared_people(fitted, merged)
    own = fitted.operating(people) if point is not None else None
    bare = dataclasses.replace(fitted, estimator=inner)
    if point is None:
        core = converted(bare, unread)
    else:  # a reader may know what it knows not behind a threshold
        try:
            core = _own_graph(_read(bare), fitted.domain, merged)
        except InputError as unread_inside:
            core = converted(bare, str(unread_inside))
        core = dataclasses.replace(core, label=None)
    own = None if own is None else own.in_float32()  # graphs show shares in float32
    _compare(fitted, core, own, people, merged)
    return (core, own) if at is None else (dataclasses.replace(core, label=None), at)


def converted(fitted: FittedEstimator, unread: str) -> Core:
    """By skl2onnx."""
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
    except ImportError:
        raise InputError(
            f"{unread.rstrip('.')}; skl2onnx, which may convert it, is not installed: pip install skl2onnx"
        ) from None
    kinds = {STRING: StringTensorType, INT64: Int64TensorType}
    features = [fitted.domain.feature(name) for name in fitted.columns]
    if hasattr(fitted.estimator, "steps"):
        given = [(f.name, kinds.get(_element(f), FloatTensorType)([None, 1])) for f in features]
    else:
        given = [("rows", FloatTensorType([None, len(features)]))]
    try:
        made = convert_sklearn(
            _with_empty_texts(fitted.estimator),
            initial_types=given,
            options={"zipmap": False},
            target_opset=OPSET,
            model_optim=False,
        )
        label, shown = (output.name for output in made.graph.output)
    except Exception as error:  # whatever skl2onnx throws is why there is no graph
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{unread.rstrip('.')}; nor can skl2onnx convert it ({said.rstrip('.')}).") from error
    inputs = [value.name for value in made.graph.input]
    if len(inputs) != len(given):
        raise InputError(f"{unread.rstrip('.')}; nor can skl2onnx convert it (it leaves out columns).")
    takes: tuple[Taken, ...] = (Taken("rows", FLOAT, 2, fitted.columns),)
    if hasattr(fitted.estimator, "steps"):  # skl2onnx calls 'education-num' education_num
        takes = tuple(Taken(name, _element(f), 2, (f.name,)) for name, f in zip(inputs, features, strict=True))
    classes = [plain_value(value) for value in fitted.estimator.classes_]
    whole = made.graph.output[0].type.tensor_type.elem_type == INT64
    return Core(made, takes, shown, "shares", LabelOutput(label, tuple(int(c) if whole else str(c) for c in classes)))


def _with_empty_texts(estimator: Any) -> Any:
    """The estimator with imputers of texts that fill in the empty text: graphs are told so that a text is missing."""
    made = copy.deepcopy(estimator)
    for step in _steps_within(made):
        texts = np.asarray(getattr(step, "statistics_", ()), object)
        filled = len(texts) and all(isinstance(value, str) for value in texts)
        if type(step).__name__ == "SimpleImputer" and filled and plain_level(step.missing_values) is None:
            step.missing_values = ""
    return made


def _steps_within(estimator: Any) -> Iterator[Any]:
    """The fitted transformers of a pipeline, those in column transformers included."""
    if hasattr(estimator, "steps"):
        for _, step in estimator.steps:
            yield from _steps_within(step)
    elif hasattr(estimator, "transformers_"):
        for _, step, _ in estimator.transformers_:
            yield from _steps_within(step)
    else:
        yield estimator


def _element(feature: Any) -> int:
    kind = input_type(feature, "impute")
    return kind if kind in (STRING, INT64) else FLOAT if kind == DOUBLE or feature.kind == "boolean" else kind


def _compared_people(fitted: FittedEstimator, merged: bool) -> pd.DataFrame:
    """People of the domain and of the table, as the estimator is shown them."""
    people = _whole(fitted)
    return Folding(fitted.domain).merged(people) if merged else people


def _whole(fitted: FittedEstimator) -> pd.DataFrame:
    domain = fitted.domain
    parts = [domain.sample(COMPARED, seed=0)]
    if fitted.rows is not None:
        parts.append(fitted.rows[list(domain.names)])
    numbers = [f.name for f in domain.features if isinstance(f, NUMERIC)]
    return pd.concat([part.astype(dict.fromkeys(numbers, np.float64)) for part in parts], ignore_index=True)


def _compare(fitted: FittedEstimator, core: Core, at: Operating | None, people: pd.DataFrame, merged: bool) -> None:
    """Refuse a graph that does not decide as the estimator does, of people as it is shown them."""
    domain, whole = fitted.domain, _whole(fitted)
    model = WiredModel(around(core, domain, "merge" if merged else "as it is", at=at), domain)
    ours, theirs = model.predict_proba(whole), fitted.shares(people)
    if ours.shape != theirs.shape:
        raise InputError(f"the graph of {fitted.name} shows {ours.shape[1]} classes, itself {theirs.shape[1]}.")
    decided = decisions(model.scores(whole)), fitted.decided(people)
    ranked = np.sort(theirs if at is None else at.leads(theirs), axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > TIE
    far, wrong = np.abs(ours - theirs).max(axis=1) > CLOSE, clear & (decided[0] != decided[1])
    if far.any() or wrong.any():
        row = int(np.argmax(far if far.any() else wrong))
        person = ", ".join(f"{name}={value!r}" for name, value in whole.iloc[row].to_dict().items())
        what, shown = "shares", (ours[row].round(4).tolist(), theirs[row].round(4).tolist())
        if not far.any():
            what, shown = "decisions", tuple(plain(domain.classes[one[row]]) for one in decided)
        raise InputError(
            f"the graph of {fitted.name} is not the estimator: for {int((far | wrong).sum())} of {len(whole)} people "
            f"their {what} differ, such as {person} ({shown[0]}, {shown[1]})."
        )
