"""Everybody's models are audited, also those that can only be run: estimators, graphs, functions, services."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from bornfair import audit, proxy_report, repair, verify
from bornfair.core.errors import InputError
from bornfair.models.opaque.model import OpaqueModel
from bornfair.quantification.people import people_of
from bornfair.questions import Question
from outside_models import served
from report_examples import Page
from samples import make_people

PEOPLE = make_people(240, seed=5)
X, Y = PEOPLE.drop(columns="grant"), PEOPLE["grant"]
ASKED = {"target": "grant", "sensitive_features": ["sex"]}
ESTIMATORS = {
    "SVC": SVC(),
    "k-NN": KNeighborsClassifier(7),
    "stacking": StackingClassifier([("nb", GaussianNB()), ("svc", SVC(C=0.5))], LogisticRegression(), cv=2),
    "calibrated": CalibratedClassifierCV(SVC(), cv=2),
    "fixed": FixedThresholdClassifier(GaussianNB(), threshold=0.3, pos_label="yes"),
    "tuned": TunedThresholdClassifierCV(GaussianNB(), cv=2, scoring="balanced_accuracy"),
}


def pipeline(final):
    texts = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["job", "sex", "race"]), remainder=StandardScaler()
    )
    return make_pipeline(texts, final)


@pytest.fixture(scope="module")
def svc():
    return pipeline(SVC()).fit(X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_that_are_not_read_are_asked(name):
    model = pipeline(ESTIMATORS[name]).fit(X, Y)
    asked = Question.of(model, PEOPLE, **ASKED).model
    assert isinstance(asked, OpaqueModel) and "is not supported" in asked.unread
    verdict = verify(model, PEOPLE, timeout=60, **ASKED)
    assert verdict.answer == "falsified"
    twins = pd.DataFrame(verdict.twins)
    assert model.predict(twins).tolist() == verdict.decisions
    assert twins.drop(columns="sex").nunique().max() == 1


def test_a_forest_goes_on_being_read():
    forest = pipeline(RandomForestClassifier(5, max_depth=3, random_state=0)).fit(X, Y)
    assert not isinstance(Question.of(forest, PEOPLE, **ASKED).model, OpaqueModel)


def test_a_graph_of_any_operators_is_run_and_audited(tmp_path):
    from skl2onnx import to_onnx

    numbers = pd.DataFrame({"age": PEOPLE["age"], "income": PEOPLE["income"], "man": PEOPLE["sex"] == "male"})
    numbers = numbers.astype(np.float32)
    fitted = KNeighborsClassifier(5).fit(numbers.to_numpy(), Y == "yes")
    place = tmp_path / "neighbours.onnx"
    place.write_bytes(to_onnx(fitted, numbers.to_numpy()[:1]).SerializeToString())
    table = numbers.assign(grant=Y == "yes", man=numbers["man"].astype(int))
    asked = {"target": "grant", "sensitive_features": ["man"]}
    (document,) = audit(place, table, timeout=2, **asked).documents
    said = document.making["Asked from outside"]
    assert "neighbours.onnx, run by onnxruntime" in said and "is an operator that is not supported" in said
    assert verify(place, table, timeout=60, **asked).arithmetic == ("executed",)
    model = Question.of(place, table, **asked).model
    versions = [fitted.predict(numbers.assign(man=np.float32(value)).to_numpy()) for value in (0, 1)]
    unlike = int((versions[0] != versions[1]).sum())
    assert abs(people_of(model, table, 0).unfair - unlike) <= 1 <= unlike  # float32 may break a tie


def test_the_report_says_that_a_model_was_asked_and_proves_nothing(svc, tmp_path):
    report = audit({"ours": svc}, PEOPLE, timeout=3, **ASKED)
    (document,) = report.documents
    unlike = svc.predict(X.assign(sex="female")) != svc.predict(X.assign(sex="male"))
    assert people_of(Question.of(svc, PEOPLE, **ASKED).model, X, 0).unfair == unlike.sum() > 0
    assert document.metrics.rows == document.people.rows and document.metrics.accuracy > 0.7
    assert document.metrics.auc is not None and document.group_metrics
    assert document.shares.certified == document.shares.falsified == 0 and document.shares.asked > 0
    assert 0 <= document.shares.confident.low < document.shares.confident.high <= 1
    assert document.examination["Model"].endswith("of which there is no digest")
    page = Page(report.to_html())
    assert "asked from outside, not read" in page.text and "Proven fair" not in page.text
    text = report.to_markdown()
    assert "is not supported" in text and "Nothing is proven of a model that is only asked" in text
    saved = json.loads(report.save(tmp_path / "audit.json").read_text())
    assert saved["shares"]["asked"] == document.shares.asked
    read = audit(
        {"ours": svc, "trees": pipeline(RandomForestClassifier(3, max_depth=2, random_state=0)).fit(X, Y)},
        PEOPLE,
        timeout=2,
        **ASKED,
    )
    assert "Asked from outside" in read.documents[0].making and "Imported" in read.documents[1].making
    assert "asked about, each as all their versions" in read.to_markdown()


def test_a_service_is_audited_and_noise_is_told():
    rng = np.random.default_rng(0)

    def noisy(rows, _):
        people = pd.DataFrame(rows)
        found = (people["income"] + 5 * (people["sex"] == "male") + rng.normal(0, 3, len(people))) > 30
        return {"decisions": np.where(found, "yes", "no").tolist()}

    from bornfair import Endpoint

    with served(noisy) as url:
        (document,) = audit(Endpoint(url, rate=1e6), PEOPLE, timeout=2, **ASKED).documents
    assert document.verdict.answer == "undecided" and "two ways" in document.verdict.reason
    assert document.people is None and document.shares is None
    assert document.metrics.accuracy > 0.5 and document.metrics.empirical_fairness is None


def test_who_tells_the_sensitive_value_is_asked_of_it_too(svc):
    found = proxy_report(PEOPLE, sensitive_features=["sex"], target="grant", model=svc)
    assert found.about[0].score.auc > 0.55


def test_nothing_in_it_can_be_repaired(svc):
    with pytest.raises(InputError, match=r"can be run and not read: .*SVC.* nothing in it can be bounded or changed"):
        repair(svc, PEOPLE, **ASKED)


def test_who_can_neither_be_read_nor_run_hears_both_reasons(tmp_path):
    broken = pipeline(SVC()).fit(X, Y)
    broken[-1].__dict__.pop("_gamma")
    with pytest.raises(InputError, match=r"is not supported.*\. Nor can it be asked from outside: .* could not decide"):
        verify(broken, PEOPLE, timeout=2, **ASKED)
    with pytest.raises(InputError, match="a model must be"):
        verify(object(), PEOPLE, timeout=2, **ASKED)
