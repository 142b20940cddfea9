"""Synthetic twins agree with no row of the table, and are replayed; where there are none, nobody is shown."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from bornfair import Domain, audit, explain, quantify, verify
from bornfair.core.errors import InputError
from bornfair.people.features import BooleanFeature, IntegerFeature, RealFeature
from bornfair.quantification.synthetic import ComparedRows
from documents import people as some_people

PEOPLE = some_people(200)
ASKED = {"target": "hired", "sensitive_features": "sex", "timeout": 1.5}
FREE = ["age", "job", "children"]
KNOWN = set(map(tuple, PEOPLE[FREE].to_numpy(object)))


def fitted(classifier):
    columns = make_column_transformer((OneHotEncoder(), ["sex", "job"]), remainder="passthrough")
    return make_pipeline(columns, classifier).fit(PEOPLE.drop(columns="hired"), PEOPLE["hired"])


@pytest.fixture(scope="module")
def network():
    return fitted(LogisticRegression())


@pytest.fixture(scope="module")
def forest():
    return fitted(RandomForestClassifier(8, max_depth=4, random_state=0))


def is_row(person):
    return tuple(person[name] for name in FREE) in KNOWN


@pytest.mark.parametrize("kind", ["network", "forest"])
@pytest.mark.parametrize("opaque", [False, True])
def test_synthetic_twins_are_no_rows_and_are_decided_differently(kind, opaque, request):
    model = request.getfixturevalue(kind)
    usual = verify(model, PEOPLE, opaque=opaque, **ASKED)
    assert usual.shown == "real" and is_row(usual.twins[0])
    found = verify(model, PEOPLE, opaque=opaque, synthetic=True, **ASKED)
    assert found.answer == "falsified" and found.shown == "synthetic"
    assert not any(map(is_row, found.twins))
    assert model.predict(pd.DataFrame(found.twins)).tolist() == found.decisions and len(set(found.decisions)) == 2


def test_nobody_is_shown_where_everybody_is_a_row():
    people = pd.DataFrame({"hours": np.arange(40) % 20, "woman": np.arange(40) % 2})
    model = LogisticRegression(C=100).fit(people, people["woman"])
    found = verify(model, people, sensitive_features=["woman"], synthetic=True, timeout=5)
    assert found.answer == "falsified" and found.twins is None and found.decisions is None
    assert found.shown == "hidden" and "are not shown" in found.reason


@pytest.mark.parametrize("kind", ["network", "forest"])
def test_rows_falsify_a_model_that_a_search_without_them_leaves_open(kind, request, monkeypatch):
    from bornfair.models.verdict import undecided

    model = request.getfixturevalue(kind)
    monkeypatch.setattr("bornfair.questions.decide", lambda *_, **__: undecided("bounds", "the time is up"))
    found = verify(model, PEOPLE, synthetic=True, **ASKED)
    assert found.answer == "falsified"
    assert found.twins is None or not any(map(is_row, found.twins))


def test_a_report_says_whether_it_shows_real_people(network):
    usual, synthetic = (audit(network, PEOPLE, synthetic=made_up, **ASKED) for made_up in (False, True))
    assert usual.document.people.most_affected and not synthetic.document.people.most_affected
    assert synthetic.document.people.unfair == usual.document.people.unfair
    for form in (usual.to_html(), usual.to_markdown(), str(usual.to_json())):
        assert "This report shows real people" in form
    for form in (synthetic.to_html(), synthetic.to_markdown(), str(synthetic.to_json())):
        assert "The two people shown are synthetic" in form and "real people:" not in form


def test_quantify_describes_no_rows_if_synthetic(network):
    usual, synthetic = (quantify(network, PEOPLE, synthetic=made_up, **ASKED) for made_up in (False, True))
    assert usual.people.most_affected and any("real people" in note for note in usual.notes)
    assert not synthetic.people.most_affected and not synthetic.notes
    assert synthetic.people.unfair == usual.people.unfair


def test_an_explanation_keeps_the_values_of_a_row_back(network):
    treated = quantify(network, PEOPLE, **ASKED).people.most_affected[0].row
    usual = explain(network, treated, PEOPLE, **ASKED)
    found = explain(network, treated, PEOPLE, synthetic=True, within={"age": 2}, **ASKED)
    assert any("The person is real" in note for note in usual.notes)
    assert found.verdict.answer == usual.verdict.answer == "falsified" and found.otherwise == usual.otherwise
    told = found.to_json()
    assert told["person"] == {} and told["twins"] is None and told["neighbourhood"]["twins"] is None
    assert not told["differing"] and told["undo"] is None and told["undo_text"] == ""
    with pytest.raises(InputError, match="compares the person with a table"):
        explain(network, dict(PEOPLE.iloc[0].drop("hired")), Domain.infer(PEOPLE, target="hired"), synthetic=True,
                sensitive_features="sex")  # fmt: skip


def test_people_count_as_rows_whatever_their_sensitive_values_are():
    features = (IntegerFeature(name="age", low=18, high=99), RealFeature(name="pay", low=0.0, high=1000.0))
    who = Domain(features=(*features, BooleanFeature(name="s")), sensitive=("s",))
    rows = ComparedRows(
        who, pd.DataFrame({"age": [20.0, None, 30], "pay": [10.0, 20.0, 1e300], "s": [True, True, False]})
    )
    assert rows.hold([{"age": 20, "pay": 10.0, "s": False}])
    assert rows.hold([{"age": 20, "pay": 10.0001, "s": True}])  # closer than a thousandth of the range
    assert not rows.hold([{"age": 20, "pay": 20.0, "s": True}, {"age": 21, "pay": 10.0, "s": True}])
