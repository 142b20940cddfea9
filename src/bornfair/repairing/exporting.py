"""How does a Python estimator become a graph that ours can stand around? Read, if it can be; else by skl2onnx.

Whatever graph comes of it is compared with the estimator's own answers before anybody relies on it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError
from bornfair.models.forest_model import ForestModel
from bornfair.models.model import Model
from bornfair.models.onnx_graph import DOUBLE, FLOAT, INT64, STRING, input_type
from bornfair.models.shipped import graph_bytes
from bornfair.models.wired import WiredModel
from bornfair.models.wired_graph import Core, Method, Taken, around
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.proof.bundle import FairForest, FairGraph, FairModel
from bornfair.question.loading import load_model
from bornfair.twins.folding import Folding

COMPARED = 256  # people
CLOSE = 1e-3  # by how much shares may differ: graphs of other software compute in float32
TIE = 2e-3  # who is so close to a tie may be decided otherwise
OPSET = {"": 18, "ai.onnx.ml": 3}


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted estimator over the columns of a domain; its classes are those of the domain's label, in order."""

    estimator: Any
    domain: Domain
    columns: tuple[str, ...]

    @property
    def name(self) -> str:
        steps = getattr(self.estimator, "steps", None)
        return type(steps[-1][1] if steps else self.estimator).__name__

    def shares(self, table: pd.DataFrame) -> np.ndarray:
        return np.asarray(self.estimator.predict_proba(table[list(self.columns)]), np.float64)


def exported(fitted: Fitted, method: Method) -> FairModel | FairForest | FairGraph:
    """The estimator as a bundle's model: as what it was read as if twins are the same to that, else with our graph
    around it.

    Raises:
        InputError: if it can neither be read nor converted; the text says why.
    """
    domain = fitted.domain
    bare = domain.replaced(twins=()) if domain.twins else domain
    try:
        read = _read(fitted, bare)
    except InputError as unread:
        core = converted(fitted, str(unread), merged=method == "merge")
    else:
        if method == "merge" and not domain.twins and read.ignores_sensitive:
            return FairModel.of(read) if isinstance(read, Model) else FairForest.of(read)
        whole = method == "merge" and read.ignores_sensitive and bool(domain.free_features)
        core = Core.of_own(graph_bytes(read, sensitive=not whole), domain)
    return FairGraph(around(core, domain, method), domain)


def _read(fitted: Fitted, domain: Domain) -> Model | ForestModel:
    """What a reader makes of it, with the names that the domain has for its classes."""
    if not domain.sensitive:
        raise InputError("no feature was named sensitive.")
    found = load_model(fitted.estimator, domain=domain.replaced(label=None))
    assert not isinstance(found, WiredModel)
    if isinstance(found, ForestModel):
        return dataclasses.replace(found, domain=domain, original=None)
    who = found.domain.replaced(label=domain.label)
    if who != domain:
        raise InputError("its reader lists values that the domain has as a range.")
    return dataclasses.replace(found, encoding=dataclasses.replace(found.encoding, domain=who), original=None)


def converted(fitted: Fitted, unread: str, *, merged: bool = False) -> Core:
    """By skl2onnx, and compared."""
    try:
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
    except ImportError:
        raise InputError(
            f"{fitted.name} cannot be read ({unread.rstrip('.')}), and skl2onnx, which may convert it, is not "
            "installed: pip install skl2onnx"
        ) from None
    kinds = {STRING: StringTensorType, INT64: Int64TensorType}
    features = [fitted.domain.feature(name) for name in fitted.columns]
    if hasattr(fitted.estimator, "steps"):
        given = [(f.name, kinds.get(_element(f), FloatTensorType)([None, 1])) for f in features]
    else:
        given = [("rows", FloatTensorType([None, len(features)]))]
    try:
        made = convert_sklearn(
            fitted.estimator, initial_types=given, options={"zipmap": False}, target_opset=OPSET, model_optim=False
        )
        shown = made.graph.output[1].name
    except Exception as error:  # whatever skl2onnx throws is why there is no graph
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{fitted.name} cannot be read, and skl2onnx cannot convert it: {said}") from error
    inputs = [value.name for value in made.graph.input]
    if len(inputs) != len(given):
        raise InputError(f"{fitted.name} cannot be read, and skl2onnx left out some of its columns.")
    takes: tuple[Taken, ...] = (Taken("rows", FLOAT, 2, fitted.columns),)
    if hasattr(fitted.estimator, "steps"):  # skl2onnx calls 'education-num' education_num
        takes = tuple(Taken(name, _element(f), 2, (f.name,)) for name, f in zip(inputs, features, strict=True))
    core = Core(made, takes, shown, "shares")
    _compare(fitted, core, merged)
    return core


def _element(feature: Any) -> int:
    kind = input_type(feature, "impute")
    return kind if kind in (STRING, INT64) else FLOAT if kind == DOUBLE or feature.kind == "boolean" else kind


def _compare(fitted: Fitted, core: Core, merged: bool) -> None:
    """Refuse a graph that does not decide as the estimator does, of people as it is shown them."""
    domain = fitted.domain
    whole = domain.sample(COMPARED, seed=0)
    whole = whole.assign(**{f.name: whole[f.name].astype(float) for f in domain.features if isinstance(f, NUMERIC)})
    ours = WiredModel(around(core, domain, "merge" if merged else "as it is"), domain).predict_proba(whole)
    theirs = fitted.shares(Folding(domain).merged(whole) if merged else whole)
    if ours.shape != theirs.shape:
        raise InputError(f"the graph of {fitted.name} shows {ours.shape[1]} classes, itself {theirs.shape[1]}.")
    ranked = np.sort(theirs, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > TIE
    wrong = (np.abs(ours - theirs).max(axis=1) > CLOSE) | (clear & (ours.argmax(axis=1) != theirs.argmax(axis=1)))
    if wrong.any():
        row = int(np.argmax(wrong))
        person = ", ".join(f"{name}={value!r}" for name, value in whole.iloc[row].to_dict().items())
        raise InputError(
            f"the graph of {fitted.name} is not the estimator: for {int(wrong.sum())} of {len(whole)} people their "
            f"shares differ, such as {person} ({ours[row].round(4).tolist()}, {theirs[row].round(4).tolist()})."
        )
