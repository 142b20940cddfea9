"""Calibrated probabilities mean what they say, decide at the thresholds asked for, and leave the proof as it was."""

import dataclasses
import json

import numpy as np
import onnxruntime
import pytest

from bornfair import FairClassifier, audit
from bornfair.core.errors import InputError
from bornfair.models.network.model import probabilities
from bornfair.models.network.network import Layer, Network
from bornfair.proof.checker import check
from bornfair.report.report import from_json
from bornfair.training.epochs import Plan, shared_split
from bornfair.training.provenance import calibration
from counted_time import count_time
from samples import make_people


def drawn(logits, seed=0):
    """Classes that come true as often as these logits say."""
    shares = probabilities(logits)
    picked = np.random.default_rng(seed).random((len(shares), 1))
    return (picked > shares.cumsum(axis=1)[:, :-1]).sum(axis=1)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_line_undoes_what_was_too_sure_and_shifted(outputs):
    random = np.random.default_rng(1)
    logits = random.normal(size=(40_000, outputs))
    shift = np.arange(1, outputs + 1) / 2
    found = calibration(4 * (logits - shift), drawn(logits))
    assert found.slope == pytest.approx(0.25, rel=0.05)
    shifts = np.array(found.shifts)
    apart = shift - shift.mean() if outputs > 1 else shift  # what all classes are shifted by alike shows nowhere
    np.testing.assert_allclose(shifts - shifts.mean() if outputs > 1 else shifts, apart, atol=0.06)
    network = Network((Layer(random.normal(size=(outputs, 2)), random.normal(size=outputs)),), "relu")
    rows = random.normal(size=(5, 2)).astype(np.float32)
    np.testing.assert_allclose(found.of(network).scores(rows), found.slope * network.scores(rows) + shifts, atol=1e-5)


def test_weights_count_and_a_handful_of_rows_is_not_believed_blindly():
    scores, classes = np.array([[2.0], [2.0], [-1.0], [-1.0]]), np.array([1, 0, 0, 1])
    light = calibration(scores, classes, np.array([1.0, 0.0, 1.0, 0.0]))
    assert light.slope > 1 > calibration(scores, classes).slope  # what has weight 0 spoke against the scores
    sure = calibration(np.array([[1.0], [-1.0]]), np.array([1, 0]))
    assert 1 < sure.slope < 10
    assert calibration(scores, classes, np.zeros(4)) == calibration(scores, classes)
    with pytest.raises(InputError, match="calibrate=True needs rows that training keeps aside"):
        calibration(np.zeros((0, 1)), np.zeros(0, int))


@pytest.mark.parametrize("outputs", [1, 3])
def test_no_line_nearby_is_likelier_with_one_row_of_doubt(outputs):
    random = np.random.default_rng(2)
    scores, weights = 3 * random.normal(size=(25, outputs)), random.random(25)
    classes = random.integers(0, max(outputs, 2), 25)
    found = calibration(scores, classes, weights)
    assert found == calibration(scores, classes, 4 * weights)  # they count against each other only

    def doubted_loss(line):
        shares = probabilities(np.exp(line[0]) * scores + line[1:])
        return line @ line / 2 - 25 * weights @ np.log(shares[np.arange(25), classes]) / weights.sum()

    line = np.array([np.log(found.slope), *found.shifts])
    steps = 0.01 * np.concatenate([np.eye(1 + outputs), -np.eye(1 + outputs)])
    assert all(doubted_loss(line + step) > doubted_loss(line) for step in steps)
    certain = calibration(np.array([[-0.02], [0.02]] * 200), np.array([0, 1] * 200))
    assert certain.slope == pytest.approx(np.exp(5.0))  # as far as it goes, however sure they are


def test_the_weights_of_the_rows_kept_aside_count(fitted):
    people, X, *_ = fitted
    answers, weights = (people["grant"] == "yes").to_numpy().astype(int), np.random.default_rng(3).random(400) ** 4
    options = {"hidden": [3], "epochs": 2, "validation_fraction": 0.3, "random_state": 7}
    clf = FairClassifier(["sex"], calibrate=True, **options).fit(X, people["grant"], sample_weight=weights)
    line = clf.certificate_.training["calibrated"]
    shares = clf.predict_proba(X)
    scores = (np.log(shares[:, 1:]) - np.log(shares[:, :1]) - line["shifts"]) / line["slope"]  # before the line
    _, aside = shared_split(answers, Plan(validation_fraction=0.3, seed=7))
    expected = calibration(scores[aside], answers[aside], weights[aside])
    assert (line["slope"], *line["shifts"]) == pytest.approx((expected.slope, *expected.shifts), rel=1e-3, abs=1e-4)
    assert line["slope"] != pytest.approx(calibration(scores[aside], answers[aside]).slope, rel=0.02)


@pytest.fixture(scope="module")
def fitted():
    people = make_people(400, seed=5)
    X, y = people.drop(columns="grant"), people["grant"]
    shared = {"hidden": [8], "epochs": 15, "validation_fraction": 0.3, "threshold": 0.3}
    plain = FairClassifier(["sex"], **shared).fit(X, y)
    return people, X, plain, FairClassifier(["sex"], calibrate=True, **shared).fit(X, y)


def test_a_calibrated_model_is_the_other_with_a_line_and_as_proven(fitted, tmp_path):
    people, X, plain, clf = fitted
    line = clf.certificate_.training["calibrated"]
    assert line["rows"] == 120 and line["slope"] > 0 and "calibrated" not in plain.certificate_.training
    before, after = (np.log(p[:, 1]) - np.log(p[:, 0]) for p in (own.predict_proba(X) for own in (plain, clf)))
    np.testing.assert_allclose(after, line["slope"] * before + line["shifts"][0], atol=1e-4)
    assert not np.allclose(after, before, atol=1e-3)
    assert ((clf.predict_proba(X)[:, 1] > 0.3) == (clf.predict(X) == clf.classes_[1])).all()
    assert clf.certificate_.verdict.answer == "verified" and clf.empirical_fairness(X) == 1
    bundle = clf.save(tmp_path / "bundle")
    assert check(bundle)["valid"]
    session = onnxruntime.InferenceSession(str(bundle / "model.onnx"))
    kinds = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": bool, "tensor(string)": object}
    fed = {i.name: X[[i.name]].to_numpy().astype(kinds[i.type]) for i in session.get_inputs()}
    np.testing.assert_allclose(session.run(["probabilities"], fed)[0], clf.predict_proba(X), atol=1e-5)
    assert "Calibrated by a rising line" in (bundle / "report.html").read_text()
    figures = clf.record(X, people["grant"])
    happened = (people["grant"] == clf.classes_[1]).to_numpy()
    assert figures["brier"] == pytest.approx(np.mean((clf.predict_proba(X)[:, 1] - happened) ** 2))


def test_what_keeps_no_rows_aside_is_not_calibrated(fitted):
    people, X, *_ = fitted
    clf = FairClassifier(["sex"], calibrate=True, hidden=[4], epochs=0, validation_fraction=0.0)
    with pytest.raises(InputError, match="none were; set validation_fraction"):
        clf.fit(X, people["grant"])


def test_the_audit_sets_probabilities_against_what_happened(fitted, monkeypatch):
    count_time(monkeypatch, tick=0.02)
    people, X, _, clf = fitted
    report = audit(clf, people, target="grant", timeout=1)
    found, document = report.documents[0].reliability, json.loads(json.dumps(report.to_json()))
    assert sum(one.rows for one in found.bins) == 400 and len(found.bins) == 10
    shown, happened = clf.predict_proba(X)[:, 1], (people["grant"] == clf.classes_[1]).to_numpy()
    ranked = np.sort(shown)
    first = shown < ranked[found.bins[0].rows]
    assert found.bins[0].predicted == pytest.approx(shown[first].mean())
    assert found.bins[0].happened == pytest.approx(happened[first].mean())
    assert all(one.low <= one.happened <= one.high for one in found.bins)
    apart = sum(one.rows * abs(one.predicted - one.happened) for one in found.bins) / 400
    assert found.error == pytest.approx(apart) and found.of == str(clf.classes_[1])
    assert document["metrics"]["brier"] == pytest.approx(np.mean((shown - happened) ** 2))
    assert from_json(document).reliability == found
    page, card = report.to_html(), report.to_markdown()
    for written in (page, card):
        assert "Whether probabilities mean what they say" in written and "Brier score" in written
    assert page.count('class="whisker"') >= 10
    with pytest.raises(InputError, match="error of reliability"):
        dataclasses.replace(found, error=1.5)
