"""Repair of anything: the mean over all versions, with somebody's graph inside of ours, whatever its operators."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import parser
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from typer.testing import CliRunner

from bornfair import Domain, repair, verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.models.columns import Who
from bornfair.models.onnx_child import session_of
from bornfair.proof import checker
from bornfair.questions.repairing.graphs import COMPARED_ROWS, _rows_of

PEOPLE = pd.DataFrame({
    "age": np.arange(90) % 40 + 20.0,
    "woman": np.arange(90) % 2 * 1.0,
    "hours": np.concatenate([[0.0, 8.0], np.arange(88) * 3 % 9]),
})  # fmt: skip
PEOPLE["hired"] = ((PEOPLE["age"] + 11 * PEOPLE["woman"]) % 37 > 18).astype(int)
# Twins differ by 6 in the logit; Mod, If and a function are beyond every reader.
MODEL = """<ir_version: 8, opset_import: ["" : 17, "own" : 1]>
g (float[N, 1] age, float[N, 1] woman, float[N, 1] hours) => (float[N, 1] p) <float forty = {40.0}, float six = {6.0},
 float seven = {7.0}, bool yes = {1}> {
   turn = Mod<fmod = 1>(hours, seven)
   low = Sub(age, forty)
   pull = If(yes)<then_branch = t () => (float[N, 1] q) { q = Mul(woman, six) },
                  else_branch = e () => (float[N, 1] q) { q = Neg(turn) }>
   sum = own.Plus(low, pull)
   near = Add(sum, turn)
   p = Sigmoid(near)
}
<domain: "own", opset_import: ["" : 17]> Plus (x, y) => (z) { z = Add(x, y) }
"""
BLIND = MODEL.replace("Mul(woman, six)", "Mul(hours, six)")


def written(text: str, path: Path) -> Path:
    onnx.save(parser.parse_model(text), path)
    return path


def by_hand(people: pd.DataFrame, woman: float) -> np.ndarray:
    return 1 / (1 + np.exp(-(people["age"] - 40 + 6 * woman + people["hours"] % 7)))


def test_a_graph_that_no_reader_knows_is_averaged(tmp_path: Path) -> None:
    path = written(MODEL, tmp_path / "model.onnx")
    found = repair(path, PEOPLE, target="hired", sensitive_features=["woman"], method="average")
    mean = (by_hand(PEOPLE, 0) + by_hand(PEOPLE, 1)) / 2
    assert np.allclose(found.model.predict_proba(PEOPLE)[:, 1], mean, atol=1e-6)
    was = by_hand(PEOPLE, PEOPLE["woman"]) > 0.5
    assert found.changed == np.mean(was != (mean > 0.5)) > 0
    both = [by_hand(PEOPLE, sex) > 0.5 for sex in (0, 1)]
    assert found.fairness_before == np.mean(both[0] == both[1])
    assert found.accuracy_before == np.mean(was == PEOPLE["hired"])
    assert found.verdict == "verified" and found.to_json()["arithmetic"] == ["executed"]
    bundle = found.model.save(tmp_path / "bundle")
    assert checker.check(bundle)["verdict"] == "verified"
    bare = session_of((found.model.export_onnx(tmp_path / "bare.onnx", sensitive=False)).read_bytes())
    assert [given.name for given in bare.get_inputs()] == ["age", "hours"]


def test_an_estimator_is_compared_with_people_of_the_table_whose_values_are_known() -> None:
    table = PEOPLE.drop(columns="hired")
    domain = Domain.infer(table, sensitive=["woman"])

    def compared(rows: pd.DataFrame | None) -> pd.DataFrame | None:
        return _rows_of(domain, Who(domain, None, rows))

    for given in (table, PEOPLE):  # with the columns of the domain, or with more
        found = compared(given)
        assert found is not None and found.sort_index().equals(table)
    assert compared(None) is None and compared(table.drop(columns="age")) is None
    strange = table.copy()
    strange.loc[3, "age"], strange.loc[5, "hours"] = 500.0, np.nan
    found = compared(strange)
    assert found is not None and sorted(found.index) == [row for row in range(90) if row not in (3, 5)]
    found = compared(pd.concat([table] * 30, ignore_index=True))
    assert found is not None and len(found) == COMPARED_ROWS == len(set(found.index))


def test_the_time_of_a_repair_is_within_that_of_its_caller(tmp_path: Path) -> None:
    began = time.perf_counter()
    path = written(MODEL, tmp_path / "MODEL.ONNX")
    found = repair(path, PEOPLE, sensitive_features=["woman"], method="average", seed=7)
    assert 0 < found.seconds <= time.perf_counter() - began
    told = found.to_json()
    assert told["seed"] == found.seed == 7 and told["versions"] == 2 and told["thresholds"] == {}
    assert told["accuracy_before"] is told["accuracy_after"] is None and told["changed"] == found.changed
    assert found.note == "" and found.sensitive == ("woman",)


def test_declared_twins_belong_to_the_mean(tmp_path: Path) -> None:
    path = written(MODEL, tmp_path / "model.onnx")
    found = repair(path, PEOPLE, target="hired", sensitive_features=["woman"], twins="hours: -x+8", method="average")
    versions = [(h, w) for h in (PEOPLE["hours"], 8 - PEOPLE["hours"]) for w in (0, 1)]
    mean = sum(by_hand(PEOPLE.assign(hours=hours), woman) for hours, woman in versions) / 4
    assert np.allclose(found.model.predict_proba(PEOPLE)[:, 1], mean, atol=1e-6) and found.versions == 4
    twins = PEOPLE.assign(hours=8 - PEOPLE["hours"], woman=1 - PEOPLE["woman"])
    assert found.model.predict_proba(PEOPLE).tobytes() == found.model.predict_proba(twins).tobytes()


def test_verify_answers_by_the_wires_where_no_reader_can(tmp_path: Path) -> None:
    path = written(BLIND, tmp_path / "blind.onnx")
    verdict = verify(path, PEOPLE, target="hired", sensitive_features=["woman"])
    assert verdict and verdict.engine == "data flow" and verdict.arithmetic == ("executed",)
    asked = verify(written(MODEL, tmp_path / "model.onnx"), PEOPLE, target="hired", sensitive_features=["woman"])
    assert asked.answer == "falsified" and asked.engine == "asking"  # a path leads on: it is run, and shows twins


def test_a_matrix_and_several_classes_are_taken_too(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 11]>
    g (float[N, 3] rows) => (float[N, 3] scores) <float[3, 3] w = {0.1, 0, 0, 0, 4, 0, 0, 0, 0.5}> {
       weighed = MatMul(rows, w)
       scores = Selu(weighed)
    }"""
    people = PEOPLE.drop(columns="hired")
    path = written(text, tmp_path / "model.onnx")
    found = repair(path, people, sensitive_features=["woman"], method="average")
    assert found.verdict == "verified" and found.accuracy_before is None
    assert found.model.predict_proba(people).shape == (90, 3) and found.model.empirical_fairness(people) == 1.0


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    def said(text: str, **asking: object) -> str:
        with pytest.raises(InputError) as found:
            path = written(text, tmp_path / "model.onnx")
            repair(path, PEOPLE, target="hired", sensitive_features=["woman"], method="average", **asking)
        return str(found.value)

    assert "probability or logit" in said(MODEL.replace("Sigmoid", "Identity"))
    assert "takes 4 people at a time" in said(MODEL.replace("float[N, 1]", "float[4, 1]"))
    labels = MODEL.replace("p = Sigmoid(near)", "p = Greater(near, forty)").replace("(float[N, 1] p)", "(bool[N, 1] p)")
    assert "shows no scores or probabilities" in said(labels)
    assert "input 'man'" in said(MODEL.replace("woman", "man"))
    with pytest.raises(InputError, match="repair needs a table"):
        repair(tmp_path / "model.onnx", sensitive_features=["woman"], method="average")


def test_notes_say_what_was_left_out_and_what_is_not_read(tmp_path: Path) -> None:
    asked = {"target": "hired", "sensitive_features": ["woman"], "method": "average"}
    reads = repair(written(MODEL, tmp_path / "model.onnx"), PEOPLE, **asked)
    assert reads.note == ""
    blind = repair(written(BLIND, tmp_path / "blind.onnx"), PEOPLE, **asked)
    assert blind.note == "The original reads none of woman." and blind.fairness_before == 1.0
    gappy = PEOPLE.astype(float)
    gappy.loc[:3, "hours"] = np.nan
    left = repair(tmp_path / "model.onnx", gappy, **asked)
    assert left.note == "4 rows with gaps were left out." and left.changes.rows == 86
    assert left.accuracy_after == np.mean(left.model.predict(PEOPLE.iloc[4:]) == PEOPLE["hired"].iloc[4:])
    (on,) = left.model.certificate.training["measured"]
    assert (on["on"], on["rows"], on["accuracy"]) == ("rows of the table", 86, left.accuracy_after)
    assert left.model.certificate.training["repair"] == {"method": "average"}
    with pytest.raises(InputError, match="every row of the table has a gap"):
        repair(tmp_path / "model.onnx", PEOPLE, test=gappy.iloc[:4], **asked)
    with pytest.raises(InputError, match="there are 0 rows to measure on"):
        repair(tmp_path / "model.onnx", PEOPLE, test=PEOPLE.iloc[:0], **asked)
    elsewhere = repair(tmp_path / "model.onnx", PEOPLE, test=PEOPLE.iloc[:20], **asked)
    assert elsewhere.changes.rows == 20 and elsewhere.versions == 2
    unknown = repair(
        tmp_path / "model.onnx", PEOPLE.drop(columns="hired"), sensitive_features=["woman"], method="average"
    )
    assert unknown.accuracy_before is unknown.accuracy_after is None
    assert "measured" not in unknown.model.certificate.training and unknown.seconds > 0 and unknown.seed == 0


class Shares(ClassifierMixin, BaseEstimator):
    """Of which no reader and no converter knows anything."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), np.shape(X)[1]
        return self

    def predict_proba(self, X):
        last = 1 / (1 + np.exp(-np.asarray(X, float).mean(axis=1) + 30))
        return np.stack([1 - last, last], axis=1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Labels(Shares):
    predict_proba = property()

    def predict(self, X):
        return self.classes_[(np.asarray(X, float).mean(axis=1) > 30).astype(int)]


def test_what_cannot_be_averaged_is_refused_with_the_reason(tmp_path: Path) -> None:
    table, answers = PEOPLE.drop(columns="hired"), PEOPLE["hired"]

    def said(model: object, **asking: object) -> str:
        with pytest.raises(InputError) as found:
            repair(model, PEOPLE, target="hired", sensitive_features=["woman"], method="average", **asking)
        return str(found.value)

    assert "step 'Shares' (Shares) is not supported" in said(Shares().fit(table, answers))
    assert "step 'Labels' (Labels) is not supported" in said(Labels().fit(table, answers))
    labels = said(Labels().fit(table, answers), threshold=0.3)
    assert labels.endswith("answers labels only, which decide themselves; leave --threshold and --decision out.")
    assert "a function shows nothing of what it computes" in said(lambda rows: rows["age"] > 30)
    assert "there is no model" in said(tmp_path / "nowhere")
    fitted = GaussianNB().fit(table, answers)
    for decision in ("logit", "label"):
        assert "leave decision (--decision) out" in said(Shares().fit(table, answers), decision=decision)
    assert "leave decision (--decision) out" in said(fitted, decision="logit")
    done = repair(fitted, PEOPLE, target="hired", sensitive_features=["woman"], method="average").model
    for again in (done, done.save(tmp_path / "bundle"), tmp_path / "bundle" / "model.onnx"):
        assert "one of bornfair's own graphs already (bornfair.wired); repair what is inside" in said(again)


def test_columns_go_to_an_estimator_by_name_or_by_place() -> None:
    table, answers = PEOPLE.drop(columns="hired"), PEOPLE["hired"]
    mixed = PEOPLE[["hours", "hired", "woman", "age"]]
    asked = {"target": "hired", "sensitive_features": ["woman"], "method": "average"}
    named = repair(GaussianNB().fit(table, answers), mixed, **asked)
    plain = repair(GaussianNB().fit(table.to_numpy(), answers), PEOPLE, **asked)
    inner = GaussianNB().fit(table, answers)
    mean = sum(inner.predict_proba(table.assign(woman=sex))[:, 1] for sex in (0.0, 1.0)) / 2
    for found in (named, plain):
        assert np.allclose(found.model.predict_proba(PEOPLE)[:, 1], mean, atol=1e-4)


def test_a_threshold_of_several_classes_belongs_to_the_mean() -> None:
    """For these classes a black box takes no threshold."""
    table = PEOPLE.drop(columns="hired")
    answers = np.where(PEOPLE["age"] + 5 * PEOPLE["woman"] > 45, "high", np.where(PEOPLE["age"] > 30, "middle", "low"))
    fitted = GaussianNB().fit(table, answers)
    asked = {"target": "y", "sensitive_features": ["woman"], "method": "average"}
    found = repair(fitted, table.assign(y=answers), threshold="high=0.1", **asked)
    mean = sum(fitted.predict_proba(table.assign(woman=sex)) for sex in (0.0, 1.0)) / 2
    decided = fitted.classes_[np.argmax(mean / [0.1, 0.5, 0.5], axis=1)]
    assert found.model.predict(table).tolist() == decided.tolist() and found.model.thresholds == {"high": 0.1}
    assert decided.tolist() != fitted.classes_[mean.argmax(axis=1)].tolist()


def test_texts_go_to_an_estimator_by_place() -> None:
    table = pd.DataFrame({"job": ["cook", "nurse", "smith"] * 30, "sex": ["f", "m"] * 45})
    answers = (table["job"] == "cook") & (table["sex"] == "m") | (table["job"] == "nurse")
    fitted = make_pipeline(OneHotEncoder(sparse_output=False), GaussianNB()).fit(table.to_numpy(object), answers)
    found = repair(fitted, table.assign(y=answers), target="y", sensitive_features=["sex"], method="average")
    mean = sum(fitted.predict_proba(table.assign(sex=sex).to_numpy(object))[:, 1] for sex in "fm") / 2
    assert np.allclose(found.model.predict_proba(table)[:, 1], mean, atol=1e-4)


def test_a_model_that_is_read_is_asked_as_it_was_asked_for(tmp_path: Path) -> None:
    table, answers = PEOPLE.drop(columns="hired"), PEOPLE["hired"]
    line = LogisticRegression(max_iter=500).fit(table, answers)
    asked = {"target": "hired", "sensitive_features": ["woman"], "method": "average"}
    found = repair(line, PEOPLE, twins="hours: -x+8", **asked)
    assert found.versions == 4 and found.verdict == "verified"
    own = repair(line, PEOPLE, threshold=0.2, **asked)
    mean = sum(line.predict_proba(table.assign(woman=sex))[:, 1] for sex in (0.0, 1.0)) / 2
    assert (own.model.predict(PEOPLE) == (mean > 0.2)).all()
    assert own.accuracy_before == np.mean((line.predict_proba(table)[:, 1] > 0.2) == answers)
    everybody = Domain.infer(table, sensitive=["woman"])
    by_domain = repair(line, PEOPLE, domain=everybody, target="hired", method="average")
    assert by_domain.sensitive == ("woman",) and by_domain.model.domain.label.name == "hired"


def test_the_command_repairs_and_the_bundle_is_used_like_others(tmp_path: Path) -> None:
    path, table = written(MODEL, tmp_path / "model.onnx"), tmp_path / "people.csv"
    PEOPLE.to_csv(table, index=False)
    run = lambda *words: CliRunner().invoke(app, list(map(str, words)))  # noqa: E731
    bundle = tmp_path / "bundle"
    asked = ("--data", table, "--target", "hired", "--sensitive", "woman", "--method", "average", "--out", bundle)
    found = run("repair", path, *asked)
    assert found.exit_code == 0 and "mean over versions of each person" in found.output
    for words in (("check", bundle), ("verify", bundle), ("certify", bundle)):
        assert run(*words).exit_code == 0
    assert run("predict", bundle, table).stdout.count("\n") == 91
    moved = run("predict", bundle, table, "--threshold", "0.3").exception
    assert isinstance(moved, InputError) and "name the threshold when it is wrapped" in str(moved)
    counted = run("quantify", bundle, "--timeout", "2", "--json")
    assert counted.exit_code == 0 and json.loads(counted.stdout)["certified"] == 1.0


def test_a_certificate_that_claims_more_is_rejected(tmp_path: Path) -> None:
    path = written(MODEL, tmp_path / "model.onnx")
    found = repair(path, PEOPLE, target="hired", sensitive_features=["woman"], method="average")
    bundle = found.model.save(tmp_path / "bundle")
    certificate = json.loads((bundle / "certificate.json").read_text())

    def rejected(**changes: object) -> str:
        forged = certificate | changes
        forged["sha256"] = checker.digest_of(forged)
        (bundle / "certificate.json").write_text(json.dumps(forged))
        told = checker.check(bundle)
        assert not told["valid"]
        return told["reason"]

    assert "not interpreted" in rejected(arithmetic=["real", "executed"])
    assert "not understood" in rejected(arithmetic=["float32"])
    assert "bounds" in rejected(proof="bounds", tree=[])
    twins = [PEOPLE.drop(columns="hired").iloc[0].to_dict() | {"woman": sex} for sex in (0.0, 1.0)]
    assert rejected(verdict="falsified", proof="none", twins=twins, decisions=[0, 1])
    unfair = found.original.content
    (bundle / "model.onnx").write_bytes(unfair)
    files = certificate["files"] | {"model.onnx": hashlib.sha256(unfair).hexdigest()}
    assert "woman" in rejected(files=files)


def test_quality_is_measured_on_rows_with_an_answer(tmp_path: Path) -> None:
    model = written(MODEL, tmp_path / "model.onnx")
    gaps = PEOPLE.assign(hired=PEOPLE["hired"].where(PEOPLE.index % 3 > 0))
    asked: dict[str, Any] = {"sensitive_features": ["woman"], "target": "hired", "method": "average"}
    some = repair(model, PEOPLE, test=gaps, **asked)
    known = repair(model, PEOPLE, test=gaps.dropna().reset_index(drop=True), **asked)
    assert some.quality_before == known.quality_before and some.quality_after == known.quality_after
    assert some.model.certificate.training["measured"][-1]["rows"] == 60
