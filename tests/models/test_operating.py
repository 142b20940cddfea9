"""A model decides where it is told to: in training, in prediction, in its graph, in every question about it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from bornfair import FairClassifier, FairModel, load, quantify, verify
from bornfair.cli import run
from bornfair.core.errors import InputError
from bornfair.models.network.onnx_graph import onnx_bytes
from bornfair.models.network.structural import prove_structurally
from bornfair.models.operating import Asked, Top
from bornfair.people.twins.relation import twin_relation
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair.questions import Question
from counted_time import count_time
from nasty_models import nasty_model


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rare positives, to which sex matters."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"income": rng.normal(size=rows).round(3), "sex": rng.choice(["F", "M"], rows)})
    score = 1.5 * table["income"] + 1.2 * (table["sex"] == "M") - 4 + rng.logistic(size=rows)
    return table.assign(default=np.where(score > 0, "yes", "no"))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return people()


@pytest.fixture(scope="module")
def fair(table: pd.DataFrame) -> FairClassifier:
    return FairClassifier(["sex"], hidden=[8], epochs=5).fit(table.drop(columns="default"), table["default"])


@pytest.fixture(scope="module")
def unfair(table: pd.DataFrame) -> FairClassifier:
    options: dict[str, Any] = {"hidden": [8], "epochs": 30, "learning_rate": 0.02, "response": "none"}
    return FairClassifier(["sex"], **options).fit(table.drop(columns="default"), table["default"])


# --- what may be asked ---


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        (0.05, ((None, 0.05),)),
        ("0.05", ((None, 0.05),)),
        ("top 12%", ((None, Top(12.0)),)),
        ("TOP 2.5 %", ((None, Top(2.5)),)),
        (["a=b=0.3", "c=0.2"], (("a=b", 0.3), ("c", 0.2))),
        ({"yes": "top 3%"}, (("yes", Top(3.0)),)),
        ({1: 0.25}, ((1, 0.25),)),
    ],
)
def test_a_threshold_is_written_in_several_ways(asked: Any, parts: Any) -> None:
    assert Asked.of(asked).parts == parts
    assert Asked.of(Asked.of(asked).text.split(", ")).text == Asked.of(asked).text


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("half", "'half' is not understood; write 0.05, 'top 12%', or CLASS=0.3"),
        (math.nan, "must be a finite number, found nan"),
        (0.0, "between 0 and 1, found 0.0"),
        (1, "between 0 and 1, found 1.0"),
        ("top 0%", "between 0 and 100 %"),
        ("maybe=0.3", "the class 'maybe', which is not one of 'no', 'yes'"),
        (["yes=0.3", "no=0.3"], "one threshold says it all"),
        (["yes=0.3", "yes=0.4"], "the class 'yes' is given two thresholds"),
        ([], "no threshold is given"),
    ],
)
def test_a_threshold_that_means_nothing_is_refused(fair: FairClassifier, asked: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fair.model_.at(asked)


def test_a_share_needs_people(fair: FairClassifier, table: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="give a table, or a number"):
        fair.model_.at("top 12%")
    with pytest.raises(InputError, match=r"'top 12%' of 5 rows is nobody; give a larger table"):
        fair.model_.at("top 12%", table.head(5))


@given(
    st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=60),
    st.floats(0.1, 99.9),
)
def test_at_most_so_many_are_above(scores: list[float], percent: float) -> None:
    try:
        number = Top(percent).above(np.array(scores))
    except InputError:  # nobody, everybody, or all alike at the top
        return
    above = sum(score > number for score in scores)
    assert 0 < above <= percent / 100 * len(scores) + 1e-9
    later = sorted({score for score in scores if score <= number}, reverse=True)
    more = above + scores.count(later[0])
    assert more > math.floor(percent / 100 * len(scores) + 1e-9)  # the next lower threshold would take too many


# --- what it does ---


@pytest.mark.parametrize(("threshold", "last"), [(0.05, 0.05), ("no=0.9", 0.1), ({"yes": 0.3}, 0.3)])
def test_decisions_are_made_where_asked(fair: FairClassifier, table: pd.DataFrame, threshold: Any, last: float) -> None:
    moved = fair.model_.at(threshold)
    shares = fair.model_.predict_proba(table)[:, 1]
    assert moved.thresholds == {"yes": last}
    clear = np.abs(shares - last) > 1e-5
    assert ((moved.predict(table) == "yes") == (shares > last))[clear].all()
    np.testing.assert_allclose(moved.predict_proba(table), fair.model_.predict_proba(table), atol=1e-6)
    back = moved.at(None)
    assert back.offsets == () and (back.predict(table) == fair.model_.predict(table)).all()


@pytest.mark.parametrize(("asked", "which"), [("top 12%", "yes"), ("no=top 20%", "no")])
def test_the_top_of_a_table_is_decided(fair: FairClassifier, table: pd.DataFrame, asked: str, which: str) -> None:
    share = float((fair.model_.at(asked, table).predict(table) == which).mean())
    assert 0 < share <= float(asked.split()[1].rstrip("%")) / 100
    assert share > float(asked.split()[1].rstrip("%")) / 100 - 0.02  # few have one and the same score


def test_of_many_classes_the_largest_multiple_of_its_threshold_is_decided(table: pd.DataFrame) -> None:
    three = pd.cut(table["income"], [-9, -0.7, 0.7, 9], labels=["low", "mid", "high"]).astype(str)
    features = table[["income", "sex"]]
    plain = FairClassifier(["sex"], hidden=[6], epochs=8).fit(features, three)
    moved = FairClassifier(["sex"], hidden=[6], epochs=8, threshold=["mid=0.9", "low=0.2"]).fit(features, three)
    shares = plain.predict_proba(features)
    by = np.array([{"mid": 0.9, "low": 0.2}.get(name, 0.5) for name in plain.classes_])
    np.testing.assert_allclose(moved.predict_proba(features), shares, atol=1e-5)
    assert (moved.predict(features) == plain.classes_[np.argmax(shares / by, axis=1)]).mean() > 0.99
    assert (moved.predict(features) != plain.predict(features)).any()
    with pytest.raises(InputError, match=r"there are 3 classes, so a threshold must name one, as mid=0\.3"):
        plain.model_.at(0.3)


def test_the_bundle_decides_there_and_its_proof_is_about_every_threshold(table: pd.DataFrame, tmp_path: Path) -> None:
    features, target = table.drop(columns="default"), table["default"]
    trained = FairClassifier(["sex"], hidden=[8], epochs=5, threshold=0.05).fit(features, target)
    bundle = trained.save(tmp_path / "bundle")
    found = checker.check(bundle)
    assert found["valid"] and found["covers"] == "score"
    assert "the same score, and so the same decision at every threshold" in found["claim"]
    loaded = load(bundle)
    assert loaded.offsets == trained.model_.offsets and loaded.thresholds == {"yes": 0.05}
    assert (loaded.predict(features) == trained.predict(features)).all()
    assert json.loads((bundle / "certificate.json").read_text())["training"]["thresholds"] == {"yes": 0.05}
    session = onnxruntime.InferenceSession(str(bundle / "model.onnx"))
    feed = {"income": features[["income"]].to_numpy(), "sex": features[["sex"]].to_numpy(object)}
    label, shares = session.run(None, feed)
    assert label.tolist() == trained.predict(features).tolist()
    np.testing.assert_allclose(shares, trained.predict_proba(features), atol=1e-5)
    again = trained.set_params(warm_start=True, epochs=1).fit(features, target)
    assert again.model_.thresholds == {"yes": 0.05}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_twins_of_a_structurally_proven_model_agree_at_every_threshold(fair: FairClassifier, seed: int) -> None:
    """Through onnxruntime: any number may be what the shares are compared with."""
    rng = np.random.default_rng(seed)
    assert fair.certificate_ is not None and fair.certificate_.verdict.covers == "score"
    moved = fair.model_.at(float(rng.uniform(0.001, 0.999)))
    session = onnxruntime.InferenceSession(onnx_bytes(moved))
    incomes = rng.normal(scale=3, size=(64, 1))
    women, men = (session.run(None, {"income": incomes, "sex": np.full((64, 1), sex, object)}) for sex in ("F", "M"))
    assert women[0].tolist() == men[0].tolist()
    for threshold in (*rng.uniform(size=8), *men[1][:8, 1].tolist()):  # those that somebody just reaches among them
        assert ((women[1][:, 1] > threshold) == (men[1][:, 1] > threshold)).all()


def served(model: FairModel, table: pd.DataFrame) -> np.ndarray:
    """Labels and shares of a model's graph [rows, 1 + classes], as onnxruntime gives them."""
    session = onnxruntime.InferenceSession(onnx_bytes(model), providers=["CPUExecutionProvider"])
    kinds = {"tensor(int64)": np.int64, "tensor(bool)": bool, "tensor(double)": np.float64, "tensor(string)": object}
    feed = {}
    for one in session.get_inputs():
        column = table[one.name]
        column = column.astype(object).where(column.notna(), "") if kinds[one.type] is object else column
        feed[one.name] = column.to_numpy().astype(kinds[one.type])[:, None]
    label, shares = session.run(None, feed)
    return np.concatenate([label[:, None], shares], axis=1)


def test_whatever_is_proven_by_structure_has_twins_agree_at_every_threshold_and_others_do_not() -> None:
    """Models made to mislead: dead neurons, cancelling codes, held numbers, several classes and sensitive features."""
    agreed, reached, told_apart = 0, 0, 0
    for seed in [seed for seed in range(1, 420) if seed % 4]:  # every fourth has a real-valued sensitive feature
        model = nasty_model(seed)
        proof = prove_structurally(model.network, twin_relation(model.encoding))
        structural = bool(proof) and "float32" in proof.arithmetic
        if not structural and told_apart == 8:
            continue
        cut = float(np.random.default_rng(seed).uniform(0.05, 0.95))
        moved = model.at(cut if model.network.outputs == 1 else {0: cut})
        people, versions = model.domain.sample(16, seed=seed), Versions(model.domain)
        everybody = pd.concat([versions.table(people, version) for version in range(versions.size)])
        found = served(moved, everybody).reshape(versions.size, len(people), -1)
        # The same bits lie on the same side of every number, those that somebody just reaches included.
        same = bool((found == found[0]).all())
        assert same or not structural, (seed, proof.reason)
        agreed += structural
        reached += structural and bool(model.network.layers[0].weight[:, model.encoding.free_width :].any())
        told_apart += not same
    assert agreed >= 20 and reached >= 2 and told_apart == 8, (agreed, reached, told_apart)


# --- what is asked about it ---


def test_who_is_affected_depends_on_where_it_decides(
    unfair: FairClassifier, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    count_time(monkeypatch, tick=0.02)
    few = quantify(unfair.model_, table=table, target="default", timeout=2, threshold=0.9).people
    many = quantify(unfair.model_, table=table, target="default", timeout=2, threshold=0.05).people
    assert few is not None and many is not None and many.unfair > few.unfair
    verdict = verify(unfair.model_, table=table, threshold=0.05, timeout=5)
    assert verdict.answer == "falsified" and verdict.covers == "decision"
    assert "asked at another threshold than its own (yes above 0.05)" in verdict.reason


def test_a_certificate_about_decisions_is_left_behind(unfair: FairClassifier, fair: FairClassifier) -> None:
    assert unfair.model_.certificate is not None and unfair.model_.at(0.05).certificate is None
    assert fair.model_.at(0.05).certificate is fair.model_.certificate


@pytest.mark.parametrize("threshold", [0.05, "0.05", "no=0.95", "top 12%", "no=top 20%"])
def test_somebody_elses_model_is_asked_at_a_threshold(table: pd.DataFrame, threshold: Any) -> None:
    numbers = table.assign(sex=(table["sex"] == "M").astype(int))[["income", "sex"]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(numbers, table["default"])
    read = Question.of(model, numbers, sensitive_features=["sex"], threshold=threshold).model
    shares = model.predict_proba(numbers)[:, 1]
    last = read.thresholds["yes"]
    clear = np.abs(shares - last) > 1e-5
    assert ((read.predict(numbers) == "yes") == (shares > last))[clear].all()
    assert read.original is not None
    assert (read.classes[read.original.decide(numbers)] == read.predict(numbers))[clear].all()
    if isinstance(threshold, str) and "top" in threshold:
        share = float(threshold.split()[1].rstrip("%")) / 100
        decided = (read.predict(numbers) == ("no" if "no" in threshold else "yes")).mean()
        assert share - 0.02 < decided <= share


@pytest.mark.parametrize("number", [0.2, 0.7])
@pytest.mark.parametrize(
    "options", [{}, {"pos_label": "no"}, {"response_method": "decision_function"}], ids=["last", "first", "score"]
)
def test_thresholds_that_were_fixed_are_read(table: pd.DataFrame, number: float, options: dict[str, Any]) -> None:
    numbers = table.assign(sex=(table["sex"] == "M").astype(int))[["income", "sex"]]
    fixed = FixedThresholdClassifier(LogisticRegression(), threshold=number, **options)
    for model in (fixed, make_pipeline(StandardScaler(), clone(fixed))):
        model.fit(numbers, table["default"])
        read = Question.of(model, numbers, sensitive_features=["sex"]).model
        assert read.thresholds and (read.predict(numbers) == model.predict(numbers)).all()
    overruled = Question.of(fixed, numbers, sensitive_features=["sex"], threshold=0.4).model
    assert overruled.thresholds == {"yes": 0.4}


@pytest.mark.usefixtures("counted_time")
def test_thresholds_that_were_tuned_are_read(table: pd.DataFrame) -> None:
    numbers = table.assign(sex=(table["sex"] == "M").astype(int))[["income", "sex"]]
    for inner in (LogisticRegression(), LinearSVC()):
        tuned = TunedThresholdClassifierCV(inner, cv=3).fit(numbers, table["default"] == "yes")
        read = Question.of(tuned, numbers, sensitive_features=["sex"]).model
        assert (read.predict(numbers) == tuned.predict(numbers)).all()
        assert verify(tuned, numbers, sensitive_features=["sex"], timeout=3).answer == "falsified"


# --- which class a threshold is for ---


def frauds(rows: int = 600) -> pd.DataFrame:
    """A table in which the rare class comes first in the alphabet."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"a": rng.normal(size=rows).round(3), "s": rng.integers(0, 2, rows)})
    return table.assign(kind=np.where(table["a"] + rng.normal(size=rows) > 2.2, "fraud", "ok"))


@pytest.mark.parametrize(
    ("classes", "positive"),
    [([0, 1], 1), ([1, 0], 1), ([0.0, 1.0], 1.0), (["0", "1"], "1"), ([-1, 1], 1), ([False, True], True),
     (["no", "yes"], "yes"), (["Yes", "No"], "Yes"), (["n", "y"], "y"), (["negative", "positive"], "positive")],
)  # fmt: skip
def test_a_threshold_without_a_class_is_for_the_positive_one_of_a_known_pair(classes: list[Any], positive: Any) -> None:
    ((name, amount),) = Asked.of(0.05).for_classes(classes).parts
    assert (name, amount) == (positive, 0.05) and type(name) is type(positive)
    assert Asked.of(0.05).by_class(classes) == {classes.index(positive): 0.05}
    few = [positive] * 95 + [next(one for one in classes if one != positive)] * 5
    assert Asked.of("top 5%").among(few).for_classes(classes).text == f"{positive}=top 5%"  # the pair comes first


@pytest.mark.parametrize("classes", [["fraud", "ok"], ["bad", "good"], ["<=50K", ">50K"], [1, 2], ["a", "b"]])
def test_a_threshold_without_a_class_is_refused_where_it_would_be_guessed(classes: list[Any]) -> None:
    first, last = classes
    with pytest.raises(InputError) as caught:
        Asked.of("top 5%").by_class(classes)
    assert f"write '{first}=top 5%' or '{last}=top 5%'" in str(caught.value)
    for share in (0.2, 0.5, 0.8):  # 20 % of the rows are not rare
        with pytest.raises(InputError, match="names no class"):
            Asked.of(0.3).among([first] * round(100 * share) + [last] * round(100 - 100 * share)).by_class(classes)
    rare_first, rare_last = ([rare] * 19 + [other] * 81 + [None] for rare, other in ((first, last), (last, first)))
    assert Asked.of(0.3).among(rare_first).by_class(classes) == {0: 0.3}
    assert Asked.of(0.3).among(rare_last).by_class(classes) == {1: 0.3}
    assert Asked.of({first: 0.3}).among(rare_last).by_class(classes) == {0: 0.3}


@pytest.mark.parametrize("opaque", [False, True], ids=["read", "asked"])
@pytest.mark.parametrize("trees", [False, True], ids=["linear", "trees"])
@pytest.mark.parametrize("threshold", ["top 5%", 0.05])
def test_the_rare_class_of_the_target_is_chosen_whatever_its_place(opaque: bool, trees: bool, threshold: Any) -> None:
    table = frauds()
    numbers = table[["a", "s"]]
    model = (RandomForestClassifier(8, random_state=0) if trees else LogisticRegression()).fit(numbers, table["kind"])
    asked = Question.of(model, table, target="kind", sensitive_features=["s"], threshold=threshold, opaque=opaque)
    chosen = asked.model.predict(numbers) == "fraud"
    shares = model.predict_proba(numbers)[:, 0]
    if threshold == 0.05:
        clear = np.abs(shares - 0.05) > 1e-6
        assert (chosen == (shares > 0.05))[clear].all() and chosen.sum() > 0
    else:
        assert 0.02 < chosen.mean() <= 0.05 and shares[chosen].min() > shares[~chosen].max()
    assert f"fraud={threshold}" in asked.model.note
    with pytest.raises(InputError, match=r"names no class.*write 'fraud=.*' or 'ok=.*'\."):
        Question.of(model, numbers, sensitive_features=["s"], threshold=threshold, opaque=opaque)


@pytest.mark.parametrize("named", ["good", "bad"])
@pytest.mark.parametrize("trees", [True, False])
def test_a_threshold_for_either_of_two_classes_of_any_names_is_where_the_model_decides(trees: bool, named: str) -> None:
    rows = people(300)
    X, y = rows[["income"]].assign(man=(rows["sex"] == "M") * 1), np.where(rows["income"] > 0, "good", "bad")
    fitted = (RandomForestClassifier(5, max_depth=3, random_state=0) if trees else LogisticRegression()).fit(X, y)
    at = 0.3 if named == "good" else 0.6
    model = Question.of(fitted, X, sensitive_features=["man"], threshold=f"{named}={at}").model
    place = fitted.classes_.tolist().index(named)
    above = fitted.predict_proba(X)[:, place] > at
    assert (model.predict(X) == named).tolist() == above.tolist() and 0 < above.sum() < len(X)


def test_training_verifying_and_predicting_say_which_class_a_threshold_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = frauds()
    people, bundle = tmp_path / "people.csv", tmp_path / "bundle"
    table.to_csv(people, index=False)
    quick = ["--hidden", "4", "--epochs", "3", "--target", "kind", "--sensitive", "s", "--learning-rate", "0.05"]
    assert run(["train", str(people), *quick, "--out", str(bundle), "--threshold", "top 5%"]) == 0
    assert "fraud=top 5%" in capsys.readouterr().out
    assert json.loads((bundle / "certificate.json").read_text())["training"]["threshold"] == "fraud=top 5%"
    assert (load(bundle).predict(table) == "fraud").mean() < 0.08
    assert run(["predict", str(bundle), str(people), "--threshold", "0.01"]) == 2
    assert "write 'fraud=0.01' or 'ok=0.01'" in capsys.readouterr().err
    assert run(["predict", str(bundle), str(people), "--threshold", "fraud=0.01", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["threshold"] == "fraud=0.01" and "the threshold is fraud=0.01" in told.err
    assert run(["verify", str(bundle), "--threshold", "fraud=0.01", "--json"]) == 0
    assert "for fraud=0.01" in json.loads(capsys.readouterr().out)["reason"]
    with pytest.raises(InputError, match="names no class"):
        FairClassifier(["s"], hidden=[4], threshold=0.3).partial_fit(table[["a", "s"]], table["kind"], ["fraud", "ok"])


# --- from the shell ---


def test_every_command_takes_a_threshold(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, bundle = tmp_path / "people.csv", tmp_path / "bundle"
    table.to_csv(people, index=False)

    def told(*words: str | Path) -> tuple[int, dict[str, Any]]:
        status = run([*map(str, words), "--json"])
        return status, json.loads(capsys.readouterr().out)

    quick = ["--hidden", "4", "--epochs", "8", "--target", "default", "--sensitive", "sex"]
    status, trained = told("train", people, *quick, "--out", bundle, "--threshold", "top 12%")
    assert status == 0 and list(trained["thresholds"]) == ["yes"]
    status, predicted = told("predict", bundle, people)
    assert status == 0 and predicted["thresholds"] == trained["thresholds"]
    assert abs(predicted["predictions"].count("yes") / len(table) - 0.12) < 0.05
    status, predicted = told("predict", bundle, people, "--threshold", "0.9")
    assert predicted["thresholds"] == {"yes": 0.9}
    status, verdict = told("verify", bundle, "--threshold", "0.02")
    assert status == 0 and verdict["covers"] == "score"
    unfair = tmp_path / "unfair"
    told("train", people, *quick, "--out", unfair, "--response", "none", "--learning-rate", "0.05")
    some = ["--threshold", "top 12%", "--data", people]
    status, made = told("certify", unfair, "--out", tmp_path / "moved", *some, "--timeout", "5")
    assert status == 1 and list(made["thresholds"]) == ["yes"]
    assert run(["check", str(tmp_path / "moved")]) == 1
    assert "VALID" in capsys.readouterr().out
    repaired = ["repair", unfair, *some, "--target", "default", "--out", tmp_path / "repaired", "--epochs", "2"]
    assert told(*repaired)[0] == 0
    assert load(tmp_path / "repaired").thresholds == made["thresholds"]
    assert run(["verify", str(bundle), "--threshold", "lots"]) == 2
    assert "the threshold 'lots' is not understood" in capsys.readouterr().err
