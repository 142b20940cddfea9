"""Any estimator, born fair: twins get the same bits from the wrapper and from its bundle, and the checker agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from bornfair import FairForest, FairGraph, FairModel, FairWrapper, audit, load, quantify, repair, verify
from bornfair.core.errors import InputError
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker

RULES = ("job: clerk->nurse->smith->clerk", "hours: -x+14")
ALL = pd.DataFrame({
    "age": np.arange(120) % 43 + 18,
    "job": np.array(["clerk", "nurse", "smith", "cook"], object)[np.arange(120) * 7 % 4],
    "hours": np.concatenate([[0, 14], np.arange(118) * 5 % 15]).astype(float),
    "owner": np.arange(120) % 3 == 0,
    "woman": np.arange(120) % 2 == 0,
    "race": np.array(["a", "b", "c"], object)[np.arange(120) // 7 % 3],
})  # fmt: skip
ANSWERS = np.where((ALL["age"] + 9 * ALL["woman"] + 5 * (ALL["job"] == "nurse") + ALL["hours"]) % 31 > 14, "yes", "no")


def same_for_all(wrapper: FairWrapper, model: FairModel | FairForest | FairGraph) -> None:
    """Versions of random people get the same bits, from the object and from onnxruntime."""
    domain = wrapper.domain_
    people, versions = domain.sample(40, seed=3), Versions(domain)
    people["hours"] = np.round(people["hours"] * 4) / 4  # so that 14 − x is a float too
    people["age"] = people["age"].astype(float)
    tables = [versions.table(people, i)[list(domain.names)] for i in {*range(0, versions.size, 9), versions.size - 1}]
    for ask in (wrapper.predict_proba, model.predict_proba):
        assert len({ask(table).tobytes() for table in tables}) == 1
    for decide in (wrapper.predict, model.predict):
        assert len({tuple(decide(table)) for table in tables}) == 1
    bare = tables[0].drop(columns=list(domain.sensitive))
    assert np.array_equal(wrapper.predict_proba(bare), wrapper.predict_proba(tables[0]))


@pytest.mark.parametrize("method", ["merge", "average"])
@pytest.mark.parametrize("twins", [None, RULES])
@pytest.mark.parametrize("inner", [DecisionTreeClassifier(max_depth=5, random_state=0), GaussianNB()])
def test_twins_get_the_same_bits_and_the_checker_agrees(inner, twins, method, tmp_path: Path) -> None:
    wrapper = FairWrapper(inner, ["woman", "race"], twins=twins, method=method).fit(ALL, ANSWERS)
    saved = load(wrapper.save(tmp_path / "bundle"))
    same_for_all(wrapper, saved)
    found = checker.check(tmp_path / "bundle")
    assert found["valid"] and found["verdict"] == "verified" and found["covers"] == "score", found["reason"]
    close = np.abs(saved.predict_proba(ALL) - wrapper.predict_proba(ALL)).max()
    assert close < 1e-4 and (saved.predict(ALL) == wrapper.predict(ALL)).all()
    assert wrapper.verify().answer == verify(str(tmp_path / "bundle")).answer == "verified"
    if isinstance(saved, FairGraph):
        rejects_one_more_edge(saved)
    else:
        assert isinstance(saved, FairForest) and (method, twins) == ("merge", None)


def rejects_one_more_edge(saved: FairGraph) -> None:
    people = checker.Individuals(checker.parse_json(saved.domain.text().encode(), "domain.json"))
    count = len(saved.graph.graph.node)
    for place in range(0, count, max(count // 5, 1)):
        model = onnx.ModelProto()
        model.CopyFrom(saved.graph)
        node = model.graph.node[place]
        node.input.append("woman")  # whatever the operator makes of it: the wire is there
        content = model.SerializeToString()
        assert FairGraph(content, saved.domain).unclear() is not None
        with pytest.raises(checker.Rejected, match=r"reads|depends"):
            checker.prove_wiring(checker.read_wiring(content, people), people)


def test_an_edge_that_runs_is_rejected_too(tmp_path: Path) -> None:
    wrapper = FairWrapper(DecisionTreeClassifier(max_depth=3), ["woman"], method="average").fit(ALL, ANSWERS)
    path = wrapper.save(tmp_path / "bundle")
    model = onnx.load(path / "model.onnx")
    (label,) = (node for node in model.graph.node if "label" in node.output)
    extra = [
        helper.make_node("Cast", ["woman"], ["her"], to=TensorProto.INT64),
        helper.make_node("Squeeze", ["her"], ["she"]),
        helper.make_node("Mul", [label.input[1], "she"], ["apart"]),
    ]
    at = list(model.graph.node).index(label)
    label.input[1] = "apart"
    nodes = [*model.graph.node[:at], *extra, *model.graph.node[at:]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    forged = FairGraph(model.SerializeToString(), wrapper.domain_)
    assert forged.empirical_fairness(ALL) < 1
    verdict = forged.verify()
    assert verdict.answer == "undecided" and "woman" in verdict.reason
    done = forged.certified()
    assert done.certificate is not None and done.certificate.verdict.answer == "undecided"


def test_a_network_is_read_as_one(tmp_path: Path) -> None:
    wrapper = FairWrapper(LogisticRegression(max_iter=300), "woman").fit(ALL, ANSWERS)
    assert isinstance(wrapper.model_, FairModel) and wrapper.certificate_.verdict.arithmetic == ("real", "float32")
    assert checker.check(wrapper.save(tmp_path / "bundle.zip"))["verdict"] == "verified"


def test_a_fitted_estimator_is_averaged_as_it_is() -> None:
    table = ALL[["age", "hours", "woman"]].astype(float)
    inner = GaussianNB().fit(table, ANSWERS)
    wrapper = FairWrapper(FrozenEstimator(inner), ["woman"], method="average").fit(table, ANSWERS)
    by_hand = sum(inner.predict_proba(table.assign(woman=value)) for value in (0.0, 1.0)) / 2
    assert np.allclose(wrapper.predict_proba(table), by_hand, atol=1e-12)
    repaired = repair(inner, table.assign(y=ANSWERS), target="y", sensitive_features=["woman"], method="average")
    assert np.allclose(repaired.model.predict_proba(table), by_hand, atol=1e-4)
    assert repaired.verdict == "verified" and repaired.versions == 2


class Odd(ClassifierMixin, BaseEstimator):
    """Of which no reader and no converter knows anything."""

    def __init__(self, noise: float = 0.0) -> None:
        self.noise = noise

    def fit(self, X, y):
        self.classes_, self.middle_ = np.unique(y), np.asarray(X, float).mean()
        return self

    def predict_proba(self, X):
        above = 1 / (1 + np.exp(self.middle_ - np.asarray(X, float).mean(axis=1)))
        above = above + self.noise * np.random.default_rng().uniform(size=len(above))
        return np.stack([1 - above, above], axis=1)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def test_without_a_file_the_certificate_binds_the_object_and_says_so(tmp_path: Path) -> None:
    wrapper = FairWrapper(Odd(), ["woman"], method="average").fit(ALL, ANSWERS)
    claim = wrapper.certificate_.claim
    assert wrapper.model_ is None and wrapper.verify() and "binds the Python object only" in claim
    assert wrapper.fingerprint() in claim
    again = FairWrapper(Odd(), ["woman"], method="average").fit(ALL, ANSWERS)
    other = FairWrapper(Odd(), ["woman"], method="average").fit(ALL[:60], ANSWERS[:60])
    assert again.fingerprint() == wrapper.fingerprint() != other.fingerprint()
    with pytest.raises(InputError, match=r"no file to write: .*the Python object|binds this Python object only"):
        wrapper.save(tmp_path / "bundle")
    noisy = FairWrapper(Odd(0.1), ["woman"]).fit(ALL, ANSWERS)
    assert not noisy.verify() and "answers differently" in noisy.certificate_.claim


def test_a_newcomers_mistakes_read_well() -> None:
    def said(wrapper: FairWrapper, table: pd.DataFrame = ALL) -> str:
        with pytest.raises(InputError) as found:
            wrapper.fit(table, ANSWERS)
        return str(found.value)

    assert "Perceptron has no predict_proba" in said(FairWrapper(Perceptron(), ["woman"], method="average"))
    assert "SVC has no predict_proba" in said(FairWrapper(SVC(), ["woman"], method="average"))
    assert "such as LogisticRegression(), found" in said(FairWrapper(DecisionTreeClassifier, ["woman"]))
    assert "sensitive feature 'sex'" in said(FairWrapper(GaussianNB(), ["sex"]))
    assert "method" in said(FairWrapper(GaussianNB(), ["woman"], method="mean"))
    texts = said(FairWrapper(GaussianNB(), ["woman"], encoding="none"))
    assert "encoding='one-hot'" in texts and "job" in texts
    pipe = make_pipeline(make_column_transformer((OneHotEncoder(), ["race", "job"])), BernoulliNB())
    assert "use method 'average'" in said(FairWrapper(pipe, ["race"]))
    wide = ALL.assign(code=np.arange(120), place=np.arange(120) % 60)
    assert "7,200 versions" in said(FairWrapper(GaussianNB(), ["code", "place"], method="average"), wide)
    fitted = FairWrapper(GaussianNB(), ["woman"]).fit(ALL, ANSWERS)
    with pytest.raises(InputError, match=r"column 'job' holds 'baker', which is not among .*unseen='ignore'"):
        fitted.predict(ALL.assign(job="baker"))
    with pytest.raises(InputError, match="column 'job'"):
        fitted.predict(ALL.drop(columns=["job", "woman"]))
    relaxed = FairWrapper(GaussianNB(), ["woman"], unseen="ignore").fit(ALL, ANSWERS)
    assert set(relaxed.predict(ALL.assign(job="baker"))) <= {"yes", "no"}


def test_weights_reach_the_inner_estimator() -> None:
    heavy = np.where(ANSWERS == "yes", 50.0, 0.01)
    wrapper = FairWrapper(GaussianNB(), ["woman"]).fit(ALL, ANSWERS, sample_weight=heavy)
    assert (wrapper.predict(ALL) == "yes").mean() > 0.9
    with pytest.raises(InputError, match="takes no sample_weight"):
        FairWrapper(Odd(), ["woman"]).fit(ALL, ANSWERS, sample_weight=heavy)


def test_names_that_a_converter_writes_otherwise_are_found_again(tmp_path: Path) -> None:
    people = ALL.rename(columns={"age": "age-in years", "job": "job.title"})
    wrapper = FairWrapper(GaussianNB(), ["woman", "race"]).fit(people, ANSWERS)
    saved = load(wrapper.save(tmp_path / "bundle"))
    assert checker.check(tmp_path / "bundle")["verdict"] == "verified"
    assert (saved.predict(people) == wrapper.predict(people)).all()


def test_an_estimator_that_takes_no_gaps_is_told_what_does() -> None:
    people = ALL.assign(hours=ALL["hours"].where(ALL["hours"] > 3))
    with pytest.raises(InputError, match=r"LogisticRegression takes no missing values \(NaN\), and 'hours' has some"):
        FairWrapper(LogisticRegression(), ["woman"]).fit(people, ANSWERS)


def test_a_graph_of_which_only_wires_are_read_is_counted_and_audited(tmp_path: Path) -> None:
    wrapper = FairWrapper(GaussianNB(), ["woman"], method="average").fit(ALL, ANSWERS)
    bundle = wrapper.save(tmp_path / "bundle")
    shares = quantify(bundle, timeout=2)
    assert (shares.certified, shares.falsified, shares.confident.high) == (1.0, 0.0, 0.0)
    (document,) = audit(bundle, ALL.assign(grant=ANSWERS), target="grant", timeout=5).documents
    assert document.verdict.answer == "verified" and document.verdict.engine == "data flow"
    assert document.people.unfair == 0 and document.people.rows == len(ALL)
    assert any("the wires were read" in text for text in document.making.values())
