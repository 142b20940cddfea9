"""What a proof about an imported model is about: the network as read, unless its original executes just that."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from onnx import TensorProto
from typer.testing import CliRunner

from bornfair import audit, quantify, verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import IntegerFeature
from bornfair.questions.loading import load_model
from interop_models import GraphMaker

INPUTS = [("x", TensorProto.FLOAT, ["n", 2])]
MOST = 100_000


def people(high: int = MOST) -> Domain:
    features = (IntegerFeature(name="a", low=0, high=high), IntegerFeature(name="s", low=0, high=1))
    return Domain(features=features, sensitive=("s",))


def saturating(path: Path, centre: int, *, label: bool = False) -> Path:
    """Class 1 has the largest logit, always. Around one age, class 0's logit is 30 for s = 0 and 5 for s = 1: its
    sigmoid is 1 or not, and class 1's is 1.
    """
    g = GraphMaker()
    first = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]], np.float32)
    hat = g.node("Relu", g.gemm("x", first, np.array([10 - centre, -centre, -10 - centre, 0], np.float32)))
    last = np.array([[3.0, -6.0, 3.0, -25.0], [0, 0, 0, 0], [0, 0, 0, 0]], np.float32).T
    scores = g.gemm(hat, last, np.array([0, 40, -40], np.float32))
    shown = g.node("Sigmoid", scores)
    if label:
        chosen = g.node("ArgMax", shown, axis=1, keepdims=0)
        return g.save(path, [chosen], inputs=INPUTS, kinds=[TensorProto.INT64])
    return g.save(path, [shown], inputs=INPUTS)


def decided(path: Path, *rows: tuple[int, int]) -> list[int]:
    session = onnxruntime.InferenceSession(path.read_bytes())
    return np.argmax(session.run(None, {"x": np.array(rows, np.float32)})[0], axis=1).tolist()


def test_saturation_that_nobody_looked_at_is_not_claimed_to_be_covered(tmp_path: Path) -> None:
    path = saturating(tmp_path / "m.onnx", 51_234)
    assert decided(path, (51_234, 0), (51_234, 1)) == [0, 1]
    verdict = verify(path, people(), timeout=20)
    assert verdict.answer == "verified" and verdict.as_read
    assert verdict.arithmetic == ("real",)
    assert verdict.reason.startswith("proven of the network as read, in real arithmetic: ")
    shares = quantify(path, people(), timeout=20)
    assert shares.arithmetic == ("real",) and shares.certified == 1.0
    assert shares.reason.startswith("of the network as read, in real arithmetic: ")
    domain = tmp_path / "domain.json"
    domain.write_text(people().text())
    told = CliRunner().invoke(app, ["verify", str(path), "--domain", str(domain)])
    assert told.exit_code == 0
    assert told.stdout.startswith("VERIFIED in real arithmetic, of the model as read: twins always get")
    found = json.loads(CliRunner().invoke(app, ["verify", str(path), "--domain", str(domain), "--json"]).stdout)
    assert found["arithmetic"] == ["real"] and found["as_read"] is True
    report = audit(path, domain=people(), timeout=10).to_markdown()
    assert "Fair, in real arithmetic, of the model as read: " in report


@pytest.mark.parametrize("where", ["a corner", "a row of the table"])
def test_saturation_at_corners_and_rows_of_the_table_is_found_on_import(where: str, tmp_path: Path) -> None:
    centre = MOST if where == "a corner" else 51_234
    path = saturating(tmp_path / "m.onnx", centre)
    table = pd.DataFrame({"a": [1, 51_234, 7], "s": [0, 0, 1]}) if where == "a row of the table" else None
    with pytest.raises(InputError, match=r"it decides otherwise for .*export it without its last sigmoid"):
        load_model(path, domain=people(), table=table)


def test_a_tie_that_the_original_makes_by_rounding_falsifies(tmp_path: Path) -> None:
    """The logit is 1e-9 or 1e-3, above 0 for both; but in float32 σ(1e-9) is ½."""
    g = GraphMaker()
    logit = g.gemm("x", np.array([[0.0], [1e-3]], np.float32), np.array([1e-9], np.float32))
    path = g.save(tmp_path / "m.onnx", [g.node("Sigmoid", logit)], inputs=INPUTS)
    verdict = verify(path, people(50), timeout=20)
    assert (verdict.answer, verdict.engine, verdict.arithmetic) == ("falsified", "original", ("float32",))
    assert verdict.decisions == [0, 1]
    assert "onnxruntime" in verdict.reason


def network(g: GraphMaker, outputs: int = 1) -> str:
    """Fair: s moves a score that is far from 0."""
    first = np.array([[1.0, -2.0, 0.5], [0.125, 0.25, 0.0]], np.float32)
    hidden = g.node("Relu", g.gemm("x", first, np.array([3, 90, -1], np.float32)))
    last = np.array([[1.0, 0.5, -0.25], [0.1, 0.3, 0.0], [-1, -1, -1]], np.float32)[:outputs]
    return g.dense(hidden, last.T.copy(), np.array([0.5, -3.0, 0.0], np.float32)[:outputs])


def ends(g: GraphMaker, end: str) -> tuple[str, int]:
    if end == "label":
        zero = g.node("Constant", value=onnxruntime_tensor(0.0))
        return g.node("Cast", g.node("Greater", network(g), zero), to=TensorProto.INT64), TensorProto.INT64
    if end == "largest of three":
        return g.node("ArgMax", network(g, 3), axis=1, keepdims=0), TensorProto.INT64
    if end == "three scores":
        return network(g, 3), TensorProto.FLOAT
    if end == "two scores":
        return network(g, 2), TensorProto.FLOAT
    if end == "sigmoid":
        return g.node("Sigmoid", network(g)), TensorProto.FLOAT
    if end == "at least 0":
        yes = g.node("GreaterOrEqual", network(g), np.float32(0))
        return g.node("Cast", yes, to=TensorProto.INT64), TensorProto.INT64
    if end == "scaled after":
        return g.node("Mul", network(g), np.float32(0.3)), TensorProto.FLOAT
    return network(g), TensorProto.FLOAT


def onnxruntime_tensor(number: float) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(np.array(number, np.float32))


@pytest.mark.parametrize(
    ("end", "covered"),
    [
        ("score", True), ("label", True), ("largest of three", True), ("three scores", True),
        ("two scores", False), ("sigmoid", False), ("at least 0", False), ("scaled after", False),
    ],
)  # fmt: skip
def test_float32_is_claimed_where_the_graph_executes_just_the_sums_that_were_read(
    end: str, covered: bool, tmp_path: Path
) -> None:
    g = GraphMaker()
    output, kind = ends(g, end)
    path = g.save(tmp_path / "m.onnx", [output], inputs=INPUTS, kinds=[kind])
    verdict = verify(path, people(40), timeout=20)
    assert verdict.answer == "verified"
    assert verdict.as_read != covered
    assert verdict.arithmetic == (("real", "float32") if covered else ("real",))


def test_a_scaler_before_the_sums_is_something_else(tmp_path: Path) -> None:
    g = GraphMaker()
    scaled = g.node("Mul", "x", np.array([0.3, 1.0], np.float32))
    score = g.gemm(scaled, np.array([[1.0], [0.1]], np.float32), np.ones(1, np.float32))
    path = g.save(tmp_path / "m.onnx", [score], inputs=INPUTS)
    assert verify(path, people(40), timeout=20).arithmetic == ("real",)


def test_a_model_that_is_not_given_the_sensitive_value_is_fair_however_it_rounds(tmp_path: Path) -> None:
    g = GraphMaker()
    score = g.gemm("a", np.array([[0.1]], np.float32), np.array([-2], np.float32))
    path = g.save(tmp_path / "m.onnx", [g.node("Sigmoid", score)], inputs=[("a", TensorProto.FLOAT, ["n", 1])])
    verdict = verify(path, people(40), timeout=20)
    assert verdict.answer == "verified" and not verdict.as_read
    assert verdict.arithmetic == ("real", "float32")


def test_a_certificate_is_about_the_bundle_that_is_written(tmp_path: Path) -> None:
    g = GraphMaker()
    path = g.save(tmp_path / "m.onnx", [ends(g, "sigmoid")[0]], inputs=INPUTS)
    certificate = load_model(path, domain=people(40)).certified(timeout=20).certificate
    assert certificate is not None
    assert certificate.verdict.arithmetic == ("real", "float32")


def test_a_label_that_hides_the_saturation_gets_the_same_advice(tmp_path: Path) -> None:
    path = saturating(tmp_path / "m.onnx", MOST, label=True)
    with pytest.raises(InputError, match=r"it decides otherwise for .*export it without its last sigmoid"):
        load_model(path, domain=people())
