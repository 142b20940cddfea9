"""How many a model that is only asked treats unfairly: against counting everybody, over rows, weights and places."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from bornfair import Domain, quantify
from bornfair.core.errors import InputError
from bornfair.importers.opaque import opaque_model
from bornfair.models.columns import Who
from bornfair.models.reading import Reading
from bornfair.people.features import CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.quantification.asking import Drawn, shares_by_asking
from bornfair.quantification.groups import affected_groups
from bornfair.quantification.people import own_decisions, people_of, treatment
from bornfair.questions import Question
from outside_models import SMALL, WIDE, by_age, unfair_to


@pytest.fixture(scope="module")
def small():
    return opaque_model(by_age, Who(SMALL), Reading())


def rich_women(people):
    """Of the incomes from 40,000 to 50,000 women are refused: a tenth of the uniform domain."""
    return people["income"] > np.where(people["sex"] == "f", 50_000.0, 40_000.0)


def test_a_small_domain_is_counted_out(small):
    found = shares_by_asking(small, timeout=20)
    truth = unfair_to(by_age, SMALL)
    assert truth == 6 / 90
    assert found.confident.low == found.confident.high == truth
    assert (found.certified, found.falsified, found.asked) == (0.0, 0.0, 90)
    assert "nothing is proven" in found.reason


def test_the_interval_holds_the_truth_under_weights_and_in_places(small, monkeypatch):
    monkeypatch.setattr("bornfair.verification.asking.MOST_COUNTED", 0)
    ages = {age: 1.0 if age < 35 else 3.0 for age in range(20, 50)}
    jobs = {"smith": 1.0, "nurse": 1.0, "clerk": 6.0}
    cases = [
        ({}, 6 / 90),
        ({"marginals": {"age": ages, "job": jobs}}, (9 / 60) * (2 / 8)),
        ({"where": {"age": (30, 39), "job": ["smith"]}}, 3 / 10),
        ({"marginals": {"age": ages}, "where": {"age": (33, 36)}}, (6 / 8) * (2 / 3)),
    ]
    for options, truth in cases:
        found = shares_by_asking(small, timeout=60, precision=0.05, seed=4, **options)
        assert found.confident.low < truth < found.confident.high
        assert found.confident.high - found.confident.low <= 0.05 and "narrow enough" in found.reason
        assert found.estimate.low <= found.estimate.unfair <= found.estimate.high


def test_people_are_drawn_as_they_are_weighted():
    rng = np.random.default_rng(0)
    weights = {"income": {(0.0, 10.0): 3.0, (10.0, 30.0): 1.0, (30.0, 100_000.0): 0.0}, "job": {"nurse": 1.0}}
    people = Drawn(WIDE, weights)(4_000, rng)
    assert set(people["job"]) == {"nurse"} and people["income"].max() <= 30.0
    assert abs((people["income"] < 10.0).mean() - 0.75) < 0.05
    cut = Drawn(WIDE, weights, {"income": (5.0, 30.0)})(4_000, rng)["income"]
    assert cut.min() >= 5.0 and cut.max() <= 30.0
    assert abs((cut < 10.0).mean() - 0.6) < 0.05  # half of 3 and all of 1 are left
    with pytest.raises(InputError, match="no value of 'job' that belongs here has any weight"):
        Drawn(WIDE, weights, {"job": ["smith"]})
    with pytest.raises(InputError, match="marginals name 'shoe'"):
        Drawn(WIDE, {"shoe": {1: 1.0}})


def test_gaps_are_drawn_by_their_weight():
    height = RealFeature(name="height", low=1.0, high=2.0, missing=True)
    domain = GAPPY.replaced(features=[*GAPPY.features, height])
    weights = {"age": {30: 1.0, 40: 1.0, None: 2.0}, "height": {(1.0, 1.5): 3.0, None: 1.0}}
    people = Drawn(domain, weights)(4_000, np.random.default_rng(0))
    assert set(people["age"].dropna()) == {30, 40} and people["height"].max() <= 1.5
    assert people[["age", "height"]].isna().mean().tolist() == pytest.approx([0.5, 0.25], abs=0.05)
    older = Drawn(domain, weights, {"age": (35, 49)})(100, np.random.default_rng(0))
    assert set(older["age"]) == {40}
    found = quantify(with_gaps, GAPPY, table=GAPPY.sample(139, seed=1), over="data", timeout=5)
    assert found.confident.low > 0 and found.over == "data"


def test_gaps_of_the_domain_are_drawn_where_everybody_counts_the_same():
    shoe = IntegerFeature(name="shoe", low=1, high=3, missing=True)
    same = IntegerFeature(name="same", low=2, high=2, missing=True)
    domain = GAPPY.replaced(features=[*GAPPY.features, shoe, same])
    people = Drawn(domain)(4_000, np.random.default_rng(0))
    assert people[["shoe", "same"]].isna().mean().tolist() == pytest.approx([0.25, 0.5], abs=0.05)
    weighed = Drawn(domain, {"same": {2: 3.0, None: 1.0}})(4_000, np.random.default_rng(0))
    assert weighed["same"].isna().mean() == pytest.approx(0.25, abs=0.05)
    assert Drawn(domain, where={"shoe": (1, 2)})(500, np.random.default_rng(0))["shoe"].max() <= 2


def test_rows_of_a_table_are_counted_one_by_one():
    table = SMALL.sample(500, seed=2)
    truth = [len(set(by_age(pd.concat([row, row.assign(woman=True), row.assign(woman=False)])))) > 1
             for row in (table.iloc[[i]] for i in range(len(table)))]  # fmt: skip
    found = quantify(by_age, SMALL, table=table, over=table, timeout=20)
    assert found.people.unfair == sum(truth) > 0
    assert found.confident.low == found.confident.high == sum(truth) / 500
    assert found.asked == 500
    one = found.people.most_affected[0]
    assert one.decisions[0] != one.decisions[1] and one.gap is None and "all versions get" in one.undo_text
    only = quantify(by_age, SMALL, table=table, over=table, where={"job": ["clerk"]}, timeout=10)
    assert only.confident.high == 0.0 and only.people.unfair == 0


def test_groups_and_people_are_found():
    table, model = WIDE.sample(300, seed=5), opaque_model(rich_women, Who(WIDE), Reading())
    groups = affected_groups(model, samples=2_000, timeout=60)
    assert "income" in groups[0].text and groups[0].inside.unfair > 0.5
    people = people_of(model, table, 2)
    assert people.unfair == ((table["income"] > 40_000) & (table["income"] <= 50_000)).sum()
    assert all(set(one.undo["changes"]) == {"income"} for one in people.most_affected)


def test_gaps_and_unknown_sensitive_values_are_judged_as_every_value():
    table = WIDE.sample(60, seed=6)
    table["income"] = table["income"].where(np.arange(60) % 4 > 0)
    table["sex"] = table["sex"].where(np.arange(60) % 5 > 0)
    asked = Question.of(lambda t: rich_women(t.fillna({"income": 45_000.0})), WIDE, table=table)
    assert (asked.gaps.left_out, dict(asked.gaps.asked)) == (0, {"income": 15})
    assert "the model is asked with the gap as it is" in asked.gaps.sentences[0]
    found = people_of(asked.model, asked.people, 0)
    between = ((table["income"] > 40_000) & (table["income"] <= 50_000)).sum()
    assert (found.rows, found.unfair) == (60, between + table["income"].isna().sum())


def test_scores_that_decide_are_shown_with_the_treatment():
    model = opaque_model(lambda t: t["income"] / 1.2e5 - 0.1 * (t["sex"] == "f") + 0.1, Who(WIDE), Reading())
    table = WIDE.sample(200, seed=7)
    treated = treatment(model, table)
    assert treated.scores.shape == (200, 2, 1)
    assert np.allclose(treated.gap[~treated.fair], 0.1)
    assert people_of(model, table, 3, treated=treated).most_affected[0].gap == pytest.approx(0.1)


def test_noise_is_refused():
    rng = np.random.default_rng(1)

    def noisy(people):
        return (people["income"] > 5e4) ^ (rng.random(len(people)) < 0.1)

    with pytest.raises(InputError, match="does not answer the same row alike"):
        quantify(noisy, WIDE, timeout=2)

    def rarely(people):
        return (people["income"] > 5e4) ^ (rng.random(len(people)) < 0.0005)

    with pytest.raises(InputError, match=r"decided the same person in two ways|does not answer the same row alike"):
        quantify(rarely, WIDE, timeout=60)


def test_of_two_scores_the_larger_decides_who_is_treated_unfairly():
    """Two scores above 0 that favour the first class for everybody, and two of which the larger depends on sex."""
    ages = SMALL.replaced(label=None)

    def fair(people):
        last = np.where(people["woman"], 1.0, -1.0)
        return np.stack([last + people["age"] / 10 - 4, last], axis=1)

    def unfair(people):
        first = people["age"] / 10 + people["woman"] * 0.6
        return np.stack([first, np.full(len(people), 4.05)], axis=1)

    found = quantify(fair, ages, sensitive_features=["woman"], timeout=5)
    assert (found.confident.low, found.confident.high) == (0.0, 0.0)
    found = quantify(unfair, ages, sensitive_features=["woman"], timeout=5)
    assert found.confident.low == found.confident.high == 6 / 30


GAPPY = Domain(
    features=(
        IntegerFeature(name="age", low=20, high=49, missing=True),
        CategoricalFeature(name="sex", categories=("f", "m"), missing=True),
    ),
    sensitive=("sex",),
    label=Label(name="loan", classes=("no", "yes")),
)


def with_gaps(people):
    bonus = people["sex"].map({"f": 0.0, "m": 5.0}).fillna(2.0).to_numpy(float)
    return np.where(people["age"].fillna(33.0).to_numpy(float) + bonus > 36, "yes", "no")


@pytest.mark.parametrize("kind", ["asked", "forest"])
def test_who_has_no_sensitive_value_is_decided_as_they_stand(kind):
    table, domain, source = GAPPY.sample(139, seed=1), GAPPY, with_gaps
    if kind == "forest":
        sex = CategoricalFeature(name="sex", categories=(0, 1), missing=True)
        domain = Domain(features=(GAPPY.features[0], sex), sensitive=("sex",), label=GAPPY.label)
        decided, table = with_gaps(table), table.assign(sex=table["sex"].map({"f": 0.0, "m": 1.0}))
        source = HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=2).fit(table, decided)
    asked = Question.of(source, domain=domain, table=table)
    own = own_decisions(asked.model, asked.people, treatment(asked.model, asked.people))
    assert table["sex"].isna().sum() > 30 and (own >= 0).all()
    assert asked.model.classes[own].tolist() == list(source(table) if kind == "asked" else source.predict(table))


def test_what_would_undo_it_is_found_for_people_with_gaps():
    model = opaque_model(with_gaps, Who(GAPPY), Reading())
    found = people_of(model, GAPPY.sample(139, seed=1), 20).most_affected
    people = pd.DataFrame([one.person for one in found]).astype({"age": float})
    assert people.isna().any(axis=0).all()
    for one in found:
        other = one.person | {name: value for name, (_, value) in one.undo["changes"].items()}
        everyone = pd.DataFrame([other | {"sex": sex} for sex in ("f", "m", None)]).astype({"age": float})
        assert set(with_gaps(everyone)) == {one.undo["decision"]} and set(one.undo["changes"]) == {"age"}
    assert not {"f", "m"} >= {one.person["sex"] for one in found}
    decisions_ = {(one.person["age"], one.person["sex"]): one.decisions[0] for one in found}
    assert decisions_ == dict(
        zip(decisions_, with_gaps(pd.DataFrame(list(decisions_), columns=["age", "sex"])), strict=True)
    )
