"""Every kind of model decides rows, and rows as versions, the same way through one interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from bornfair import FairWrapper
from bornfair.models.protocol import Bounded, Countable, Decider, Exportable
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import Bundle, bundle_of
from bornfair.quantification.people import own_decisions, treatment
from bornfair.questions.loading import any_model

RANDOM = np.random.default_rng(4)
PEOPLE = pd.DataFrame({"age": RANDOM.integers(18, 70, 80), "woman": np.arange(80) % 2})
PAID = (PEOPLE["age"] + 15 * PEOPLE["woman"] > 45).astype(int)
KINDS = {
    "network": (LogisticRegression(C=100), Bounded, False),
    "forest": (GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0), Bounded, False),
    "graph": (GaussianNB(), Exportable, False),
    "opaque": (GaussianNB(), Countable, True),
}


@pytest.fixture(scope="module", params=list(KINDS))
def model(request) -> Decider:
    estimator, _, opaque = KINDS[request.param]
    if request.param == "graph":
        return FairWrapper(estimator, ["woman"], method="average").fit(PEOPLE, PAID).model_
    return any_model(estimator.fit(PEOPLE, PAID), table=PEOPLE, sensitive=["woman"], opaque=opaque)


def test_kinds_implement_what_they_can_do(model):
    roles = {role for role in (Countable, Exportable, Bounded) if isinstance(model, role)}
    assert KINDS[model.kind][1] in roles and (Bounded in roles) == ({Countable, Exportable} <= roles)


def test_versions_are_decided_as_their_rows_are(model):
    versions = Versions(model.domain)
    found = model.evaluate(PEOPLE, versions)
    assert found.classes.shape == (len(PEOPLE), versions.size)
    for version in range(versions.size):
        rows = versions.table(PEOPLE, version)
        assert (model.classes[found.classes[:, version]] == model.predict(rows)).all()
        alone = model.evaluate(PEOPLE, versions, [version], scores=False)
        assert np.array_equal(alone.classes[:, 0], found.classes[:, version])
    assert np.array_equal(model.scores_of_versions(PEOPLE), found.ranked(2).swapaxes(0, 1))
    same = (found.classes == found.classes[:, :1]).all(axis=1)
    assert model.empirical_fairness(PEOPLE) == same.mean()


def test_described_rows_are_decided_as_executed(model):
    found = model.described(PEOPLE)
    assert np.array_equal(found.classes, model.executed(PEOPLE))
    assert np.array_equal(found.scores, model.scores(PEOPLE))
    assert np.array_equal(found.probabilities, model.predict_proba(PEOPLE))


@pytest.mark.parametrize("model", ["network", "forest", "graph"], indirect=True)
def test_a_bundle_is_the_same_model(model):
    kept = bundle_of(model)
    assert isinstance(kept, Bundle) and bundle_of(kept) is kept and kept.kind == model.kind
    assert kept.graph_bytes() == model.graph_bytes() and (kept.predict(PEOPLE) == model.predict(PEOPLE)).all()


@pytest.mark.parametrize("kind", ["network", "forest"])
def test_rows_that_were_judged_are_not_put_to_the_original_again(kind, monkeypatch):
    estimator = KINDS[kind][0].fit(PEOPLE, PAID)
    model = any_model(estimator, table=PEOPLE, sensitive=["woman"])
    asked, decide = list[int](), model.original.decide
    monkeypatch.setattr(model.original, "decide", lambda rows: asked.append(len(rows)) or decide(rows))
    treated = treatment(model, PEOPLE)
    assert sum(asked) == 2 * len(PEOPLE) and treated.known.all()
    assert np.array_equal(own_decisions(model, PEOPLE, treated), estimator.predict(PEOPLE))
    assert sum(asked) == 2 * len(PEOPLE)
    unknown = PEOPLE.assign(woman=PEOPLE["woman"].where(PEOPLE.index > 5))
    partly = own_decisions(model, unknown, treatment(model, unknown))
    assert np.array_equal(partly[6:], estimator.predict(PEOPLE)[6:])
    assert (partly[:6] >= 0).tolist() == treated.fair[:6].tolist()
