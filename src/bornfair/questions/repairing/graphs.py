"""Estimators as graphs, and repair of any model by averaging: its graph inside of ours, over all versions of a person.

An estimator is read if possible, else converted by skl2onnx; each graph is compared with the estimator's own answers.
Nothing is trained, and nothing of the original is interpreted: whatever it computes, the mean is the same for all
twins, which the wires of the new graph show. People whose versions the original decides alike keep their decision; the
mean of others decides at the original's own operating point, or at the threshold that is asked for.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_level, plain_value
from bornfair.importers.onnx_core import onnx_core
from bornfair.importers.onnx_file import read_onnx
from bornfair.importers.scikit_pipeline import THRESHOLDED, Point, thawed
from bornfair.models.columns import Wanted, Who, columns_for, with_classes
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.around import WIRED, Core, LabelOutput, Method, Taken, around
from bornfair.models.graph.model import WiredModel
from bornfair.models.graph_draft import DOUBLE, FLOAT, INT64, STRING, input_type
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.models.operating import Operating
from bornfair.models.protocol import Exportable
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.people.levels import as_listed, class_positions
from bornfair.people.policies import decidable
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Folding
from bornfair.proof.bundle import AnyBundle, FairGraph, bundle_of
from bornfair.proof.certificate import certified
from bornfair.questions import Question
from bornfair.questions.loading import load_model
from bornfair.questions.repairing.changes import RepairedModel, account
from bornfair.training.provenance import operating_facts

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
    kind = input_type(feature)
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


MEASURED_ON = "rows of the table"
COMPARED_ROWS = 2_048  # on which a converted estimator is compared with itself


@dataclass(frozen=True, eq=False, kw_only=True)
class RepairedGraph(RepairedModel):
    """The mean over all versions of a person, certified by its wires; the original is the graph as it came in ours."""

    model: FairGraph
    versions: int
    """Over how many versions of each person the mean goes."""

    def _of_its_kind(self) -> dict[str, Any]:
        return {"versions": self.versions, "thresholds": self.model.thresholds}


def repair_by_average(model: Any, who: Who, asked: Reading, *, test: Any, seed: int) -> RepairedGraph:
    """The mean of a model of any kind over all versions of each person; measured on the rows of a table, which it does
    not learn from.
    """
    core, domain, at = _core(model, who, asked)
    original = WiredModel(around(core, domain, "as it is", at=at), domain)
    done = certified(FairGraph(around(core, domain, "average", at=at), domain), timeout=60.0, seed=seed)
    rows, answers, left_out = _measured(domain, who, test)
    assert done.certificate is not None
    told = dataclasses.replace(done.certificate, training={"repair": {"method": "average"}} | operating_facts(done))
    notes = [f"{left_out:,} rows with gaps were left out." if left_out else ""]
    if original.ignores_sensitive:
        notes.append(f"The original reads none of {', '.join(domain.sensitive)}.")
    return RepairedGraph(
        **account(original, dataclasses.replace(done, certificate=told), rows, answers, MEASURED_ON),
        versions=Folding(domain).size,
        fairness_before=original.empirical_fairness(rows),
        note=" ".join(filter(None, notes)),
    )


def _measured(domain: Domain, who: Who, test: Any) -> tuple[pd.DataFrame, np.ndarray | None, int]:
    table = as_pandas(who.table if test is None else test)
    rows, gaps = decidable(domain, as_listed(domain, table), {}, target=who.target)
    if not len(rows):
        raise InputError("there are 0 rows to measure on; give a table of people the model decides about.")
    answers = None
    if who.target is not None:
        assert domain.label is not None
        answers = class_positions(rows[who.target], list(domain.label.classes), gaps=True)
    return rows, answers, gaps.left_out


# --- whatever it is, as a graph ---


def _core(model: Any, who: Who, asked: Reading) -> tuple[Core, Domain, Operating | None]:
    if isinstance(model, (str, Path)) and Path(model).suffix.lower() == ".onnx":
        file = read_onnx(model)
        if not any(key.startswith("bornfair.") for key in file.metadata):
            return onnx_core(file, who, asked)
    asking: dict[str, Any] = {
        "domain": who.domain, "table": who.table, "target": who.target, "twins": who.twins,
        "sensitive_features": list(who.sensitive or ()) or None, "decision": asked.decision,
        "threshold": asked.threshold, "normalise": asked.normalise, "combinations": who.combinations,
        "decision_output": asked.decision_output,
    }  # fmt: skip
    try:
        read = Question.of(model, **{name: value for name, value in asking.items() if value is not None}).model
    except InputError as unread:
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise
        return _of_estimator(model, who, asked, str(unread))
    if not isinstance(read, Exportable):
        if not hasattr(model, "predict_proba") or not hasattr(model, "classes_"):
            raise InputError(read.unread)
        return _of_estimator(model, who, asked, read.unread)
    if read.kind == "graph":
        raise InputError(f"the model is one of bornfair's own graphs already ({WIRED}); repair what is inside of it.")
    return Core.of_own(read.graph_bytes(), read.domain), read.domain, read.rule_on_shares()


def _of_estimator(model: Any, who: Who, asked: Reading, unread: str) -> tuple[Core, Domain, Operating | None]:
    names = getattr(model, "feature_names_in_", None)
    origin = type(model).__name__
    if asked.decision in ("logit", "label"):
        raise InputError(f"{origin} is averaged by its predict_proba; leave decision (--decision) out.")
    wanted = Wanted(origin, None if names is None else tuple(map(str, names)), int(model.n_features_in_), numbers=False)
    columns = columns_for(wanted, who)
    classes = tuple(plain_value(value) for value in model.classes_)
    domain = with_classes(columns.domain, classes, len(classes), who.target, origin)
    at = None if asked.threshold is None else Operating.of(asked.point(classes), classes)
    fitted = FittedEstimator(model, domain, columns.names, _rows_of(domain, who), named=names is not None)
    core, at = graph_of(fitted, unread, at=at)
    return core, domain, at


def _rows_of(domain: Domain, who: Who) -> pd.DataFrame | None:
    """People of the table whose values are all known and in the domain."""
    table = None if who.table is None else as_pandas(who.table)
    if table is None or not set(domain.names) <= set(map(str, table.columns)):
        return None
    rows = table[list(domain.names)].dropna()
    rows = rows[~domain.outside(rows)]
    return rows.sample(min(COMPARED_ROWS, len(rows)), random_state=0)
