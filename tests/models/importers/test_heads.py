"""What a model's output means: a probability decides at ½, a logit at 0, a label itself; else it is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

from bornfair import quantify, verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.proof.bundle import FairModel
from bornfair.questions.loading import load_model
from interop_models import GraphMaker, random_layer

pytestmark = pytest.mark.slow

Build = Callable[[GraphMaker, str], str]
INPUTS = [("x", TensorProto.FLOAT, ["n", 3])]


def small() -> Domain:
    features = (
        IntegerFeature(name="a", low=-3, high=3),
        IntegerFeature(name="b", low=-3, high=3),
        IntegerFeature(name="s", low=0, high=1),
    )
    return Domain(features=features, sensitive=("s",))


def network(g: GraphMaker, outputs: int = 1, seed: int = 4, kind: str = "Relu") -> str:
    random = np.random.default_rng(seed)
    weight, bias = random_layer(random, 3, 5)
    hidden = g.node(kind, g.gemm("x", weight, bias))
    last, _ = random_layer(random, 5, outputs)
    return g.gemm(hidden, 2 * last, np.full(outputs, -0.4, np.float32))


def shifted(g: GraphMaker, value: str, factor: float, plus: float) -> str:
    return g.node("Add", g.node("Mul", value, np.float32(factor)), np.float32(plus))


def everybody() -> pd.DataFrame:
    return small().sample(4_000, seed=1).drop_duplicates().reset_index(drop=True)


def shown_by(path: Path, table: pd.DataFrame) -> np.ndarray:
    session = onnxruntime.InferenceSession(path.read_bytes())
    return np.asarray(session.run(None, {"x": table.to_numpy(np.float32)})[-1])


def saved(path: Path, build: Build, outputs: int = 1, kind: str = "Relu") -> Path:
    g = GraphMaker()
    return g.save(path, [build(g, network(g, outputs, kind=kind))], inputs=INPUTS)


PROBABILITIES: dict[str, Build] = {
    "sigmoid": lambda g, z: g.node("Sigmoid", z),
    "hard sigmoid": lambda g, z: g.node("HardSigmoid", z),
    "clip": lambda g, z: g.node("Clip", g.node("Add", z, np.float32(0.3)), np.float32(0.001), np.float32(0.999)),
    "clipped sigmoid": lambda g, z: g.node("Clip", g.node("Sigmoid", z), np.float32(0.001), np.float32(0.999)),
    "half and half tanh": lambda g, z: shifted(g, g.node("Tanh", z), 0.5, 0.5),
    "smoothed": lambda g, z: shifted(g, g.node("Sigmoid", z), 0.98, 0.01),
    "falling": lambda g, z: g.node("Sub", np.float32(1), g.node("Sigmoid", z)),
    "mixed with a constant": lambda g, z: shifted(g, g.node("HardSigmoid", z), 0.6, 0.3),
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_a_probability_decides_at_one_half_whatever_makes_it_one(name: str, tmp_path: Path) -> None:
    path, table = saved(tmp_path / "m.onnx", PROBABILITIES[name]), everybody()
    model = load_model(path, domain=small())
    probability = shown_by(path, table)[:, 0]
    clear = np.abs(probability - 0.5) > 1e-5
    decided = probability > 0.5
    assert len(set(decided)) == 2
    assert (model.predict(table) == decided)[clear].all()
    assert model.original is not None
    assert model.original.largest_difference is not None and model.original.largest_difference < 1e-5
    unfair = pd.Series(decided).groupby([table["a"], table["b"]]).nunique().max() > 1
    assert unfair
    verdict = verify(path, small(), timeout=20)
    assert verdict.answer == "falsified"
    assert verdict.twins is not None
    twins = shown_by(path, pd.DataFrame(verdict.twins))[:, 0] > 0.5
    assert twins[0] != twins[1]


def test_probabilities_are_recognised_through_sums_of_them(tmp_path: Path) -> None:
    def mean(g: GraphMaker, z: str) -> str:
        return g.node("ReduceMean", g.node("Sigmoid", z), axes=[1], keepdims=1)

    path, table = saved(tmp_path / "m.onnx", mean, outputs=3, kind="Sigmoid"), everybody()
    probability = shown_by(path, table)[:, 0]
    assert (load_model(path, domain=small()).predict(table) == (probability > 0.5)).all()
    softmax = saved(
        tmp_path / "s.onnx", lambda g, z: g.node("Gather", g.node("Softmax", z), np.array([1]), axis=1), outputs=2
    )
    probability = shown_by(softmax, table)[:, 0]
    assert (load_model(softmax, domain=small()).predict(table) == (probability > 0.5)).all()


LOGITS: dict[str, Build] = {
    "as it is": lambda g, z: z,
    "clipped": lambda g, z: g.node("Clip", z, np.float32(-4), np.float32(4)),
    "tanh": lambda g, z: g.node("Tanh", z),
    "one-sided": lambda g, z: shifted(g, g.node("Relu", z), 1.0, -0.7),
}


@pytest.mark.parametrize("name", LOGITS)
def test_a_logit_decides_at_zero(name: str, tmp_path: Path) -> None:
    path, table = saved(tmp_path / "m.onnx", LOGITS[name]), everybody()
    score = shown_by(path, table)[:, 0]
    assert (load_model(path, domain=small()).predict(table) == (score > 0)).all()


UNCLEAR: dict[str, Build] = {
    "relu": lambda g, z: g.node("Relu", z),
    "shifted sigmoid": lambda g, z: shifted(g, g.node("Sigmoid", z), 2.0, -0.5),
    "lopsided clip": lambda g, z: g.node("Clip", z, np.float32(-1), np.float32(2)),
    "at most 0": lambda g, z: g.node("Min", z, np.float32(0)),
    "a loss": lambda g, z: g.node("Abs", z),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_what_cannot_be_told_is_refused_and_asked(name: str, tmp_path: Path) -> None:
    path, table = saved(tmp_path / "m.onnx", UNCLEAR[name]), everybody()
    with pytest.raises(InputError, match=r"cannot be told where that decides; say .*\(--decision\), or threshold"):
        load_model(path, domain=small())
    score = shown_by(path, table)[:, 0].astype(np.float64)
    threshold = float(np.median(score)) + 1e-3
    model = load_model(path, domain=small(), threshold=threshold)
    assert (model.predict(table) == (score > threshold)).all()
    assert f"threshold {threshold}" in verify(path, small(), threshold=threshold, timeout=20).reason


@pytest.mark.parametrize("threshold", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("build", ["sigmoid", "smoothed", "half and half tanh", "clip"])
def test_a_threshold_moves_the_decision(build: str, threshold: float, tmp_path: Path) -> None:
    path, table = saved(tmp_path / "m.onnx", PROBABILITIES[build]), everybody()
    probability = shown_by(path, table)[:, 0].astype(np.float64)
    for asked in ({"threshold": threshold}, {"threshold": threshold, "decision": "probability"}):
        model = load_model(path, domain=small(), **asked)
        assert (model.predict(table) == (probability > threshold)).all()
        assert model.original is not None
        assert (model.original.decide(table) == (probability > threshold)).all()


def two_columns(tmp_path: Path, *ends: str) -> Path:
    g = GraphMaker()
    z = network(g, 2)
    made = {"probabilities": g.node("Softmax", z), "label": g.node("ArgMax", z, axis=1, keepdims=0), "logits": z}
    kinds = [TensorProto.INT64 if end == "label" else TensorProto.FLOAT for end in ends]
    return g.save(tmp_path / "m.onnx", [made[end] for end in ends], inputs=INPUTS, kinds=kinds)


def test_a_threshold_is_for_the_last_of_two_columns(tmp_path: Path) -> None:
    table = everybody()
    path = two_columns(tmp_path, "label", "probabilities")
    probability = shown_by(path, table)[:, 1]
    assert (load_model(path, domain=small()).predict(table) == (probability > 0.5)).all()
    assert (load_model(path, domain=small(), threshold=0.2).predict(table) == (probability > 0.2)).all()
    path = two_columns(tmp_path, "logits")
    first, last = shown_by(path, table).T
    assert (load_model(path, domain=small(), threshold=0.7).predict(table) == (last - first > 0.7)).all()


def test_thresholds_where_they_mean_nothing_are_refused(tmp_path: Path) -> None:
    label = two_columns(tmp_path, "label")
    with pytest.raises(InputError, match="decides itself; leave decision and threshold"):
        load_model(label, domain=small(), threshold=0.3)
    assert load_model(label, domain=small(), decision="label").classes.tolist() == [0, 1]
    three = saved(tmp_path / "m.onnx", lambda g, z: g.node("Softmax", z), outputs=3)
    with pytest.raises(InputError, match="tells 3 classes apart; a threshold"):
        load_model(three, domain=small(), threshold=0.3)
    one = saved(tmp_path / "m.onnx", PROBABILITIES["sigmoid"])
    for asked, message in (
        ({"decision": "label"}, "gives numbers, not labels"),
        ({"decision": "odds"}, "decision='odds' is not known; use one of 'probability', 'logit', 'label'"),
        ({"decision": "probability", "threshold": 1.5}, "must lie between 0 and 1, found 1.5"),
        ({"threshold": float("nan")}, "threshold must be a finite number"),
        ({"threshold": 2.0}, "everybody gets the same decision; check the threshold"),
        ({"normalise": "yes"}, r"leave normalise \(--normalise\) out"),
    ):
        with pytest.raises(InputError, match=message):
            load_model(one, domain=small(), **asked)  # type: ignore[arg-type]
    own = load_model(one, domain=small())
    bundle = FairModel(own.network, own.encoding).certified(timeout=5).save(tmp_path / "bundle")
    with pytest.raises(InputError, match=r"a bundle says itself how it is read; leave decision"):
        load_model(bundle, decision="logit")


def test_scikit_learn_says_itself_what_its_score_is_and_takes_a_threshold() -> None:
    table = everybody()
    truth = (table["a"] + 2 * table["b"] + table["s"] > 0).astype(int)
    for estimator in (LogisticRegression(), LinearSVC()):
        fitted = estimator.fit(table, truth)
        assert (load_model(fitted, domain=small()).predict(table) == fitted.predict(table)).all()
    probability = LogisticRegression().fit(table, truth)
    model = load_model(probability, domain=small(), threshold=0.8)
    assert (model.predict(table) == (probability.predict_proba(table)[:, 1] > 0.8)).all()


def test_the_command_line_takes_the_same_options(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.onnx", UNCLEAR["shifted sigmoid"])
    domain = tmp_path / "domain.json"
    domain.write_text(small().text())
    command = ["verify", str(path), "--domain", str(domain), "--json", "--timeout", "20"]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InputError)
    told = CliRunner().invoke(app, [*command, "--decision", "probability", "--threshold", "0.4"])
    verdict: dict[str, Any] = json.loads(told.stdout)
    assert told.exit_code == {"verified": 0, "falsified": 1}[verdict["verdict"]]
    assert verdict["reason"].endswith("read as asked: decision probability, threshold 0.4 (for 1)")
    shares = quantify(path, small(), decision="probability", threshold=0.4, timeout=5)
    assert (shares.falsified > 0) == (verdict["verdict"] == "falsified")
