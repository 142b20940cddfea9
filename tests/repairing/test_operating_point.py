"""The operating point survives averaging, wrapping and export: the original, the object, the bundle and onnxruntime
decide alike, row by row.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import parser
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner
from xgboost import XGBClassifier

from bornfair import FairWrapper, audit, drift, load, repair, verify
from bornfair.cli import app
from bornfair.core.errors import InputError
from bornfair.models.onnx_child import session_of
from bornfair.models.operating import Asked, Operating, agreeing, point_of_means
from bornfair.proof import checker

random = np.random.default_rng(0)
ROWS = 160
TABLE = pd.DataFrame({
    "age": random.integers(18, 80, ROWS).astype(float),
    "hours": random.uniform(0, 40, ROWS),
    "job": random.choice(["cook", "nurse", "smith"], ROWS),
    "sex": random.choice(["f", "m", "x"], ROWS),
})  # fmt: skip
SCORE = 0.05 * (TABLE["age"] - 45) + 0.04 * (TABLE["hours"] - 20) + 1.2 * (TABLE["sex"] == "m")
SCORE += random.normal(size=ROWS)
ANSWERS = np.where(SCORE > 0.4, "yes", "no")
Fixed, Tuned = FixedThresholdClassifier, TunedThresholdClassifierCV


def served(bundle: Path, table: pd.DataFrame) -> list[str]:
    """Decisions of onnxruntime, from the file alone."""
    session = session_of((bundle / "model.onnx").read_bytes())
    kinds = {"tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(string)": object}
    feed = {one.name: table[one.name].to_numpy(kinds[one.type])[:, None] for one in session.get_inputs()}
    return session.run([session.get_outputs()[0].name], feed)[0].ravel().tolist()


def each_version(wrapper: FairWrapper, table: pd.DataFrame) -> np.ndarray:
    return np.stack([wrapper.estimator_.predict(table.assign(sex=sex)) for sex in ("f", "m", "x")])


def encoded(final: object) -> object:
    columns = make_column_transformer((OneHotEncoder(), ["job", "sex"]), remainder="passthrough")
    return make_pipeline(columns, final)


LINE = LogisticRegression(max_iter=500)
INNER = {
    "fixed line": Fixed(LINE, threshold=0.8),
    "first class": Fixed(LINE, threshold=0.7, pos_label="no"),
    "by score": Fixed(LINE, threshold=0.7, response_method="decision_function", pos_label="yes"),
    "first class by score": Fixed(LINE, threshold=0.4, response_method="decision_function", pos_label="no"),
    "fixed bayes": Fixed(GaussianNB(), threshold=0.2),
    "tuned bayes": Tuned(GaussianNB(), scoring="balanced_accuracy"),
    "fixed calibrated": Fixed(CalibratedClassifierCV(SVC()), threshold=0.3),
    "neighbours at a share they show": Fixed(KNeighborsClassifier(5), threshold=0.6),
    "forest at a share it shows": Fixed(RandomForestClassifier(10, random_state=0), threshold=0.3),
    "tree": Fixed(DecisionTreeClassifier(max_depth=3), threshold=0.25, pos_label="no"),
    "boosted": Fixed(XGBClassifier(n_estimators=5, n_jobs=1), threshold=0.35, pos_label="yes"),
    "in a pipeline": make_pipeline(StandardScaler(), Fixed(GaussianNB(), threshold=0.25)),
    "machine": SVC(probability=True, random_state=0),
    "priors": GaussianNB(priors=[0.3, 0.7]),
}


@pytest.mark.filterwarnings("ignore:.*probability.*deprecated:FutureWarning")
@pytest.mark.parametrize("method", ["merge", "average"])
@pytest.mark.parametrize("name", INNER)
def test_object_bundle_and_onnxruntime_decide_alike(name: str, method: str, tmp_path: Path) -> None:
    encoding = "one-hot" if name == "in a pipeline" else "auto"
    wrapper = FairWrapper(INNER[name], ["sex"], method=method, encoding=encoding).fit(TABLE, ANSWERS)
    decided = wrapper.predict(TABLE)
    if method == "merge":
        own = wrapper.estimator_.predict(TABLE.drop(columns="sex"))
        assert decided.tolist() == (np.array(["no", "yes"])[own] if own.dtype.kind == "i" else own).tolist()
    else:
        versions = each_version(wrapper, TABLE)
        versions = np.array(["no", "yes"])[versions] if versions.dtype.kind == "i" else versions
        same = (versions == versions[0]).all(axis=0)
        assert (decided[same] == versions[0][same]).all() and same.any()
    assert ((wrapper.decision_function(TABLE) > 0) == (decided == "yes")).all()
    bundle = wrapper.save(tmp_path / "bundle")
    saved = load(bundle)
    assert saved.predict(TABLE).tolist() == decided.tolist() == served(bundle, TABLE)
    assert checker.check(bundle)["verdict"] == "verified"
    assert np.abs(saved.predict_proba(TABLE) - wrapper.predict_proba(TABLE)).max() < 1e-4


@pytest.mark.parametrize("threshold", [0.1, 0.37, 0.5, 0.8])
def test_means_decide_at_the_threshold_where_versions_differ(threshold: float, tmp_path: Path) -> None:
    inner = Fixed(LINE, threshold=threshold, pos_label="yes")
    wrapper = FairWrapper(inner, ["sex"], method="average").fit(TABLE, ANSWERS)
    mean = sum(wrapper.estimator_.predict_proba(TABLE.assign(sex=sex))[:, 1] for sex in ("f", "m", "x")) / 3
    assert np.abs(mean - threshold).min() > 1e-5
    assert ((wrapper.predict(TABLE) == "yes") == (mean > threshold)).all()
    saved = load(wrapper.save(tmp_path / "bundle"))
    assert saved.thresholds == ({"yes": threshold} if threshold != 0.5 else {})
    versions = each_version(wrapper, TABLE)
    assert (versions != versions[0]).any() or threshold == 0.1


@pytest.mark.filterwarnings("ignore:.*probability.*deprecated:FutureWarning")
def test_a_score_that_probabilities_do_not_follow_is_refused_for_a_mean() -> None:
    inner = Fixed(SVC(probability=True, random_state=0), threshold=0.3, response_method="decision_function")
    with pytest.raises(InputError, match="use response_method='predict_proba'"):
        FairWrapper(inner, ["sex"], method="average").fit(TABLE, ANSWERS)


def test_a_graph_whose_decisions_differ_is_not_saved(tmp_path: Path) -> None:
    inner = GaussianNB()
    wrapper = FairWrapper(inner, ["sex"]).fit(TABLE, ANSWERS)
    final = wrapper.estimator_.steps[-1][1]
    final.predict = lambda rows: np.where(final.predict_proba(rows)[:, 1] > 0.9, "yes", "no")
    with pytest.raises(InputError, match="their decisions differ"):
        wrapper.save(tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_several_classes_keep_their_own_decision(tmp_path: Path) -> None:
    answers = np.where(SCORE > 1, "high", np.where(SCORE > 0, "middle", "low"))
    for method in ("merge", "average"):
        wrapper = FairWrapper(GaussianNB(), ["sex"], method=method).fit(TABLE, answers)
        bundle = wrapper.save(tmp_path / method)
        assert load(bundle).predict(TABLE).tolist() == wrapper.predict(TABLE).tolist() == served(bundle, TABLE)
    versions = each_version(wrapper, TABLE)
    same = (versions == versions[0]).all(axis=0)
    assert (wrapper.predict(TABLE)[same] == versions[0][same]).all() and not same.all()


# --- pipelines ---


@pytest.mark.parametrize("final", [LINE, GaussianNB(), Fixed(LINE, threshold=0.3, pos_label="yes")])
def test_the_usual_pipeline_is_saved_with_gaps_and_without(final: object, tmp_path: Path) -> None:
    gappy = TABLE.copy()
    gappy.loc[::7, "hours"], gappy.loc[::11, "job"] = np.nan, np.nan
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(sparse_output=False))
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    columns = ColumnTransformer([("numbers", numbers, ["age", "hours"]), ("texts", texts, ["job", "sex"])])
    for name, table in (("whole", TABLE), ("gaps", gappy)):
        wrapper = FairWrapper(make_pipeline(columns, final), ["sex"], method="average").fit(table, ANSWERS)
        bundle = wrapper.save(tmp_path / name)
        assert load(bundle).predict(table).tolist() == wrapper.predict(table).tolist()
        assert checker.check(bundle)["verdict"] == "verified"


def test_a_threshold_around_a_pipeline_is_handed_the_table(tmp_path: Path) -> None:
    for inner in (Fixed(encoded(LINE), threshold=0.3), Tuned(Fixed(encoded(LINE), threshold=0.3), cv=2)):
        wrapper = FairWrapper(inner, ["sex"], method="average").fit(TABLE, ANSWERS)
        assert not hasattr(wrapper.estimator_, "steps")
        assert load(wrapper.save(tmp_path / "bundle")).predict(TABLE).tolist() == wrapper.predict(TABLE).tolist()


class Strange(BaseEstimator, ClassifierMixin):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.tile([0.4, 0.6], (len(X), 1))

    def predict(self, X):
        return np.full(len(X), self.classes_[1])


def test_what_cannot_be_saved_is_named_by_its_step(tmp_path: Path) -> None:
    wrapper = FairWrapper(encoded(Strange()), ["sex"], method="average").fit(TABLE, ANSWERS)
    with pytest.raises(InputError, match=r"step 'strange' \(Strange\) is not supported.*nor can skl2onnx convert it"):
        wrapper.save(tmp_path / "bundle")


# --- how often the inner estimator is asked ---


class Counting(GaussianNB):
    asked = 0

    def predict_proba(self, X):
        Counting.asked += len(X)
        return super().predict_proba(X)


def test_fairness_of_a_mean_is_counted_once_for_each_person() -> None:
    table = TABLE.assign(zone=np.arange(ROWS) % 40).drop(columns="job")
    wrapper = FairWrapper(Counting(), ["zone"], method="average", encoding="one-hot")
    wrapper.fit(table.drop(columns="sex"), ANSWERS)
    Counting.asked = 0
    assert wrapper.empirical_fairness(table.drop(columns="sex")) == 1.0
    assert 0 < Counting.asked <= 40 * ROWS


def test_a_mean_in_a_bundle_is_run_once_for_all_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = load(FairWrapper(LINE, ["sex"], method="average").fit(TABLE, ANSWERS).save(tmp_path / "bundle"))
    rows: list[int] = []
    ran = type(saved)._ran
    monkeypatch.setattr(type(saved), "_ran", lambda self, frame: rows.append(len(frame)) or ran(self, frame))
    assert saved.empirical_fairness(TABLE) == 1.0 and rows == [ROWS]
    assert saved.scores_of_versions(TABLE).shape == (3, ROWS, 2) and rows == [ROWS, ROWS]


# --- graphs of other people ---

GRAPH = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 1] age, float[N, 1] woman) => (float[N, 1] p, OUTPUT label)
<float forty = {40.0}, float six = {6.0}, float fifth = {0.2}, float ten = {10.0}, int64[1] flat = {-1}> {
   pull = Mul(woman, six)
   low = Sub(age, forty)
   sum = Add(low, pull)
   z = Div(sum, ten)
   p = Sigmoid(z)
   LABEL
}"""
OWN = GRAPH.replace("OUTPUT", "int64[N]").replace(
    "LABEL", "over = Greater(p, fifth)  whole = Cast<to = 7>(over)  label = Reshape(whole, flat)"
)
PEOPLE = pd.DataFrame({"age": np.arange(90) % 40 + 20.0, "woman": np.arange(90) % 2 * 1.0})
PEOPLE["hired"] = ((PEOPLE["age"] + 11 * PEOPLE["woman"]) % 37 > 18).astype(int)
ASKED = {"target": "hired", "sensitive_features": ["woman"], "method": "average"}


def graph(text: str, path: Path) -> Path:
    onnx.save(parser.parse_model(text), path / "model.onnx")
    return path / "model.onnx"


def share(woman: object) -> np.ndarray:
    return 1 / (1 + np.exp(-(PEOPLE["age"].to_numpy() - 40 + 6 * np.asarray(woman)) / 10))


@pytest.mark.parametrize("threshold", [0.15, 0.7])
def test_a_threshold_that_is_asked_for_decides_before_and_after(threshold: float, tmp_path: Path) -> None:
    text = GRAPH.replace(", OUTPUT label", "").replace("LABEL", "")
    mean, was = (share(0) + share(1)) / 2 > threshold, share(PEOPLE["woman"]) > threshold
    for path in (graph(text, tmp_path), graph(OWN, tmp_path)):
        found = repair(path, PEOPLE, threshold=threshold, **ASKED)
        assert (found.model.predict(PEOPLE) == mean).all()
        assert found.accuracy_before == np.mean(was == PEOPLE["hired"])
        assert found.accuracy_after == np.mean(mean == PEOPLE["hired"])
        assert found.changed == np.mean(was != mean) > 0
        assert found.fairness_before == np.mean((share(0) > threshold) == (share(1) > threshold))
        bundle = found.model.save(tmp_path / f"bundle {threshold}")
        assert served(bundle, PEOPLE) == mean.astype(int).tolist() == load(bundle).predict(PEOPLE).tolist()
        assert load(bundle).thresholds == {"1": threshold}


def test_a_class_that_is_named_has_the_threshold(tmp_path: Path) -> None:
    found = repair(graph(OWN, tmp_path), PEOPLE, threshold="0=0.3", **ASKED)
    assert (found.model.predict(PEOPLE) == ((share(0) + share(1)) / 2 > 0.7)).all()
    assert found.model.thresholds == {"0": 0.3}
    with pytest.raises(InputError, match="give a number as the threshold"):
        repair(graph(OWN, tmp_path), PEOPLE, threshold="top 10%", **ASKED)


def test_the_label_of_a_graph_says_where_it_decides(tmp_path: Path) -> None:
    found = repair(graph(OWN, tmp_path), PEOPLE, **ASKED)
    own = share(PEOPLE["woman"]) > 0.2
    assert (found.original.predict(PEOPLE) == own).all()
    assert (found.model.predict(PEOPLE) == ((share(0) + share(1)) / 2 > 0.2)).all()
    assert found.accuracy_before == np.mean(own == PEOPLE["hired"])
    assert found.model.thresholds == {"1": 0.2}
    assert found.original.scores(PEOPLE).argmax(axis=1).tolist() == own.astype(int).tolist()


@pytest.mark.parametrize(
    ("kind", "label"),
    [
        ("string[N]", 'over = Greater(p, fifth)  whole = Cast<to = 7>(over)  where = Reshape(whole, flat) '
         "label = Gather(names, where)"),
        ("bool[N, 1]", "label = Greater(p, fifth)"),
    ],
)  # fmt: skip
def test_labels_are_read_however_they_are_written(kind: str, label: str, tmp_path: Path) -> None:
    text = GRAPH.replace("OUTPUT", kind).replace("LABEL", label)
    text = text.replace("int64[1] flat = {-1}>", 'int64[1] flat = {-1}, string[2] names = {"0", "1"}>')
    found = repair(graph(text, tmp_path), PEOPLE, **ASKED)
    assert (found.model.predict(PEOPLE) == ((share(0) + share(1)) / 2 > 0.2)).all()


def test_a_label_that_shares_do_not_explain_needs_a_threshold(tmp_path: Path) -> None:
    other = OWN.replace("Greater(p, fifth)", "Greater(z, fifth)")  # not of p: only people can be looked at
    with pytest.raises(InputError, match=r"the last class begins between 0\.5\d* and 0\.5\d*; name the share"):
        repair(graph(other, tmp_path), PEOPLE, **ASKED)
    found = repair(graph(other, tmp_path), PEOPLE, threshold=0.55, **ASKED)
    assert (found.model.predict(PEOPLE) == ((share(0) + share(1)) / 2 > 0.55)).all()
    by_sex = OWN.replace("Greater(p, fifth)", "Greater(woman, fifth)")
    with pytest.raises(InputError, match="the outputs 'label' and 'p' may decide differently"):
        repair(graph(by_sex, tmp_path), PEOPLE, **ASKED)
    band = OWN.replace("over = Greater(p, fifth)", "off = Sub(p, half)  far = Abs(off)  over = Greater(far, fifth)")
    band = band.replace("float fifth", "float half = {0.5}, float fifth")
    with pytest.raises(InputError, match="no threshold explains it"):
        repair(graph(band, tmp_path), PEOPLE, **ASKED)
    two = OWN.replace("int64[N] label)", "int64[N] label, int64[N] whole)")
    assert repair(graph(two, tmp_path), PEOPLE, **ASKED).model.thresholds == {"1": 0.2}  # one decision, shown twice
    many = OWN.replace("Greater(p, fifth)", "Div(p, fifth)")
    with pytest.raises(InputError, match="but the classes are 0, 1"):
        repair(graph(many, tmp_path), PEOPLE, **ASKED)


def test_an_estimator_is_repaired_at_its_own_threshold_or_another() -> None:
    table = TABLE[["age", "hours"]].assign(sex=(TABLE["sex"] == "m") * 1.0)
    people, asked = table.assign(y=ANSWERS), {"target": "y", "sensitive_features": ["sex"], "method": "average"}
    for inner in (GaussianNB(), DecisionTreeClassifier(max_depth=4), LINE):
        model = Fixed(inner, threshold=0.3, pos_label="yes").fit(table, ANSWERS)
        mean = sum(model.predict_proba(table.assign(sex=sex))[:, 1] for sex in (0.0, 1.0)) / 2
        own = repair(model, people, **asked)
        assert (own.original.predict(table) == model.predict(table)).all()
        assert ((own.model.predict(table) == "yes") == (mean >= 0.3)).all() and own.model.thresholds == {"yes": 0.3}
        moved = repair(model.estimator_, people, threshold=0.6, **asked)
        assert ((moved.model.predict(table) == "yes") == (mean > 0.6)).all()
        assert moved.accuracy_before == np.mean((model.predict_proba(table)[:, 1] > 0.6) == (ANSWERS == "yes"))


def test_reports_say_the_threshold_and_use_it(tmp_path: Path) -> None:
    path, table, bundle = graph(OWN, tmp_path), tmp_path / "people.csv", tmp_path / "bundle"
    PEOPLE.to_csv(table, index=False)
    run = lambda *words: CliRunner().invoke(app, list(map(str, words)))  # noqa: E731
    asked = ("--data", table, "--target", "hired", "--sensitive", "woman", "--method", "average", "--out", bundle)
    assert run("repair", path, *asked).exit_code == 0
    mean = (share(0) + share(1)) / 2 > 0.2
    assert "It decides 1 above 0.2, not at ½." in (bundle / "report.html").read_text()
    assert load(bundle).certificate.training["thresholds"] == {"1": 0.2}
    (document,) = audit(bundle, PEOPLE, target="hired", timeout=5).documents
    assert "1 above 0.2, not at ½" in str(document.making)
    assert document.metrics.accuracy == np.mean(mean == PEOPLE["hired"]) and document.people.unfair == 0
    assert json.loads(run("predict", bundle, table, "--json", "--out", tmp_path / "out.csv").stdout)["thresholds"] == {
        "1": 0.2
    }
    assert (pd.read_csv(tmp_path / "out.csv")["prediction"] == mean).all()
    shown = json.loads(run("explain", bundle, "--data", table, "--row", "0", "--json").stdout)
    assert str(int(mean[0])) in json.dumps(shown)
    assert drift(bundle, PEOPLE).outside == 0 and drift(bundle, PEOPLE.assign(age=99)).holds
    assert verify(bundle).answer == "verified"


# --- logistic regression and gaps, at the shell ---


@pytest.mark.parametrize("method", ["merge", "average"])
def test_logistic_regression_takes_tables_with_gaps(method: str, tmp_path: Path) -> None:
    gappy = TABLE.assign(y=ANSWERS)
    gappy.loc[::7, "hours"], gappy.loc[::11, "job"] = np.nan, np.nan
    table, bundle = tmp_path / "people.csv", tmp_path / "bundle"
    gappy.to_csv(table, index=False)
    words = ["train", table, "--target", "y", "--sensitive", "sex", "--estimator", "logistic", "--method", method]
    made = CliRunner().invoke(app, [*map(str, words), "--out", str(bundle), "--json"])
    assert made.exit_code == 0 and json.loads(made.stdout)["verdict"] == "verified", made.output
    assert set(load(bundle).predict(gappy)) == {"no", "yes"}


# --- the rule itself ---


def test_a_rule_decides_as_it_is_written() -> None:
    shares = np.array([[0.7, 0.3], [0.69, 0.31], [0.2, 0.8]])
    assert Operating((0.3,)).decide(shares).tolist() == [0, 1, 1]
    assert Operating((0.3,), ties=True).decide(shares).tolist() == [1, 1, 1]
    assert Operating((0.7,), place=0, ties=True).decide(shares).tolist() == [0, 1, 1]
    assert Operating((0.7,), place=0).decide(shares).tolist() == [1, 1, 1]
    several = Operating((0.5, 0.1, 0.5))
    assert several.decide(np.array([[0.6, 0.2, 0.2], [0.9, 0.05, 0.05]])).tolist() == [1, 0]
    assert several.thresholds(["a", "b", "c"]) == {"b": 0.1}
    for rule in (Operating((0.3,), 0, True), Operating((0.3,)), several):
        assert Operating.from_json(json.loads(json.dumps(rule.to_json()))) == rule
        for row in np.random.default_rng(0).dirichlet(np.ones(len(rule.above) if rule is several else 2), 50):
            assert rule.leads(row[None]).argmax() == rule.decide(row[None])[0]
    assert Operating.from_json({"above": 0.3}) == Operating((0.3,))
    assert all(
        Operating.from_json(told) is None for told in ({}, {"above": "x"}, {"above": []}, {"above": [0.5, None]})
    )
    assert Operating.of(Asked.of("b=0.3"), ["a", "b"]) == Operating((0.3,))
    assert Operating.of(Asked.of("a=0.3"), ["a", "b"]) == Operating((0.3,), 0, ties=True)
    assert Operating.of(Asked.of("b=0.0"), ["a", "b"], logits=True) == Operating((0.5,))
    assert Operating.of(Asked.of("b=0.2"), ["a", "b", "c"]) == Operating((0.5, 0.2, 0.5))


def test_scores_agree_with_decisions_however_these_came_about() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 40)
    decided = np.arange(40) % 3
    assert agreeing(shares, decided, None).argmax(axis=1).tolist() == decided.tolist()
    tie = np.full((2, 2), 0.5)
    assert agreeing(tie, np.array([0, 1]), None).argmax(axis=1).tolist() == [0, 1]


def test_rounding_of_a_mean_does_not_decide() -> None:
    for at in (Operating((0.3,)), Operating((0.3,), ties=True)):
        point = point_of_means(at, 2)
        assert point is not None
        near = 0.3 + np.array([-3e-8, 0, 3e-8])
        decided = point.decide(np.stack([1 - near, near], axis=1))
        assert decided.tolist() == [int(at.ties)] * 3
    assert point_of_means(None, 3) is None and point_of_means(Operating((0.1, 0.2, 0.3)), 3) == Operating(
        (0.1, 0.2, 0.3)
    )
