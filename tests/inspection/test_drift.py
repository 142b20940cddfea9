"""Rows outside the domain of a certificate are found, counted and told, and what follows for them."""

import json

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairClassifier, FairModel, drift
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.policies import Policies
from random_forests import random_forest_model
from samples import bornfair

FEATURES = (
    IntegerFeature(name="age", low=18, high=90),
    RealFeature(name="income", low=0.0, high=100.0),
    CategoricalFeature(name="job", categories=("clerk", "nurse", "1")),
    BooleanFeature(name="owner"),
    CategoricalFeature(name="sex", categories=("f", "m")),
    CategoricalFeature(name="race", categories=("a", "b")),
)
PEOPLE = pd.DataFrame(
    {
        "age": [30, 17, 95, 40, 41, 30.5, None, 50, 30],
        "income": [5.0, 1.0, 2.0, "many", -1.0, 4.0, 3.0, float("inf"), 120.0],
        "job": ["clerk", "smith", "smith", 1, "nurse", "clerk", None, "cook", "clerk"],
        "owner": [True, False, True, False, "maybe", True, True, True, True],
        "sex": ["f", "m", "f", "m", "f", None, "m", "x", "f"],
        "race": ["a"] * 9,
        "id": range(9),
    }
)


def model(*, sensitive_weight=0.0, combinations=None, twins=None, **policies) -> FairModel:
    domain = Domain(
        features=FEATURES, sensitive=("sex", "race"), combinations=combinations,
        label=Label(name="loan", classes=("no", "yes")),
    )  # fmt: skip
    domain = domain if twins is None else domain.with_twins(twins)
    scales = {"age": Scale(centre=0.0, exponent=0), "income": Scale(centre=0.0, exponent=0, high=50.0)}
    fill = {"age": 37.5, "income": 3.0, "job": "clerk", "owner": False, "sex": "f", "race": "a"}
    encoding = Encoding(domain, scales, fill, Policies(**policies))
    weight = np.zeros((1, encoding.width))
    weight[0, 0], weight[0, -1] = 1.0, sensitive_weight
    return FairModel(Network((Layer(weight, [-17.0]),)), encoding)


@pytest.fixture(scope="module")
def structural() -> FairModel:
    return model(unseen="ignore").certified(timeout=10)


@pytest.fixture(scope="module")
def bounded() -> FairModel:
    found = model(sensitive_weight=0.25).certified(timeout=10)
    assert found.certificate.verdict.proof == "bounds"
    return found


def test_every_way_out_of_the_domain_is_found_and_counted(structural):
    found = drift(structural, PEOPLE)
    told = {(one.column, one.problem): one for one in found.problems}
    assert {key: one.rows for key, one in told.items()} == {
        ("age", "gap"): 1, ("age", "below"): 1, ("age", "above"): 1, ("age", "not whole"): 1,
        ("income", "not a number"): 1, ("income", "not finite"): 1, ("income", "below"): 1, ("income", "above"): 1,
        ("job", "gap"): 1, ("job", "new value"): 3, ("owner", "new value"): 1, ("sex", "new value"): 1,
    }  # fmt: skip
    assert told["job", "new value"].examples == ("smith", "cook") and told["job", "new value"].first_row == 1
    assert told["age", "above"].text == "'age' is above 18 … 90 in 1 row: 95 (first in row 2)"
    assert found.outside == 8 and found.share == 8 / 9 and not found
    assert found.extra == ("id",) and found.filled == {"sex": 1} and found.absent == ()
    inside = drift(structural, PEOPLE.iloc[[0]])
    assert inside and inside.outside == 0 and "All 1 rows are people of the domain" in inside.follows[0]


def test_rows_are_outside_just_where_the_domain_says_so(structural):
    people = structural.domain.sample(200, seed=1)
    people.loc[::7, "age"] = 200
    people.loc[::5, "job"] = "smith"
    people.loc[::11, "income"] = None
    assert drift(structural, people).outside == structural.domain.outside(people).sum()


def test_a_structural_proof_holds_outside_and_bounds_do_not(structural, bounded):
    rows = PEOPLE.iloc[[0, 1, 8]]
    first, second = drift(structural, rows), drift(bounded, rows)
    assert first.holds and any("The proof is structural" in text for text in first.follows)
    assert any("none of those it knows" in text for text in first.follows)
    assert not second.holds and any("says nothing" in text for text in second.follows)
    (income,) = (one for one in second.problems if one.column == "income")
    assert income.same == 1 and any("holds the number at an end" in text for text in second.follows)
    assert not any(one.same for one in second.problems if one.column == "age")
    unexamined = drift(model(), rows)
    assert not unexamined.holds and "no certificate" in " ".join(unexamined.follows)
    ruled = drift(model(twins="job: clerk<->nurse", unseen="ignore").certified(timeout=10), rows)
    assert ruled.holds and any("has no twin" in text for text in ruled.follows)


def test_columns_may_be_absent_and_combinations_new(structural):
    found = drift(structural, PEOPLE[["age", "income"]].iloc[[0]])
    assert [(one.column, one.problem, one.rows) for one in found.problems] == [
        ("job", "no such column", 1),
        ("owner", "no such column", 1),
    ]
    assert found.absent == ("sex", "race") and found.share == 1
    some = model(combinations=(("f", "a"), ("m", "b")))
    found = drift(some, PEOPLE.iloc[[0, 3]].assign(income=1.0))
    assert [(one.problem, one.examples, one.first_row) for one in found.problems] == [("new combination", ("m, a",), 1)]


def test_gaps_that_the_model_fills_with_a_value_of_the_domain_are_inside():
    rows = PEOPLE.iloc[[6]].assign(income=None)
    found = drift(model(missing="impute"), rows)
    assert found.filled == {"income": 1, "job": 1}  # 37.5 is no age of the domain
    assert [(one.column, one.problem) for one in found.problems] == [("age", "gap")]
    assert model(outside="clip").encoding.policies.outside == "clip"
    assert drift(model(outside="clip"), PEOPLE.iloc[[2]].assign(job="clerk")).problems[0].same == 1


def test_gaps_of_a_feature_that_may_be_missing_are_inside(tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame({"age": random.integers(18, 90, 200).astype(float), "job": random.choice(["a", "b"], 200)})
    table["sex"], table["y"] = random.choice(["f", "m"], 200), random.integers(0, 2, 200)
    table.loc[::9, "age"], table.loc[::7, "job"] = None, None
    clf = FairClassifier(["sex"], hidden=[4], epochs=1).fit(table.drop(columns="y"), table["y"])
    assert clf.domain_.gappy == ("age", "job")
    found = drift(clf.model_, table)
    assert found and found.problems == () and found.outside == 0 == clf.domain_.outside(table).sum()
    clf.save(tmp_path / "bundle")
    table.to_csv(tmp_path / "training.csv", index=False)
    assert bornfair("drift", "bundle", "training.csv", cwd=tmp_path).returncode == 0


def test_a_gap_in_a_combination_that_does_not_exist_is_outside():
    features = (
        IntegerFeature(name="age", low=0, high=9),
        CategoricalFeature(name="sex", categories=("f", "m"), missing=True), BooleanFeature(name="old"),
    )  # fmt: skip
    domain = Domain(
        features=features, sensitive=("sex", "old"), combinations=(("f", True), ("m", False), (None, False)),
        label=Label(name="y", classes=("no", "yes")),
    )  # fmt: skip
    encoding = Encoding(domain, {"age": Scale(centre=0.0, exponent=0)})
    some = FairModel(Network((Layer(np.zeros((1, encoding.width)), [1.0]),)), encoding)
    rows = pd.DataFrame({"age": [1, 2, 3, 4], "sex": ["f", None, None, "f"], "old": [True, False, True, False]})
    found = drift(some, rows)
    assert found.outside == 2 == domain.outside(rows).sum()
    assert [(one.problem, one.rows, one.first_row) for one in found.problems] == [("new combination", 2, 2)]


def test_a_forest_has_a_domain_too():
    forest = random_forest_model(np.random.default_rng(3), twins=False)
    people = forest.domain.sample(20, seed=0)
    assert drift(forest, people)
    name = forest.domain.names[0]
    assert drift(forest, people.assign(**{name: "?"})).outside == 20


def test_the_command_tells_and_ends_with_a_status(structural, tmp_path):
    structural.save(tmp_path / "bundle")
    PEOPLE.to_csv(tmp_path / "new.csv", index=False)
    PEOPLE.iloc[[0]].to_csv(tmp_path / "old.csv", index=False)
    run = bornfair("drift", "bundle", "new.csv", "--json", cwd=tmp_path)
    document = json.loads(run.stdout)
    assert run.returncode == 1 and document["outside"] == 8 and document["holds"] is True
    assert "Infinity" not in run.stdout
    assert document["certificate"] == {"verdict": "verified", "proof": "structural"}
    assert {"column", "problem", "rows", "allowed", "examples", "first_row", "same", "text"} == set(
        document["problems"][0]
    )
    told = bornfair("drift", "bundle", "new.csv", cwd=tmp_path)
    assert told.returncode == 1 and "8 of 9 rows are outside" in told.stdout and "smith, cook" in told.stdout
    assert bornfair("drift", "bundle", "old.csv", cwd=tmp_path).returncode == 0
    assert bornfair("drift", "bundle", "none.csv", cwd=tmp_path).returncode == 2
    for wrong, message in ((PEOPLE.iloc[:0], "has no rows"),):
        with pytest.raises(InputError, match=message):
            drift(structural, wrong)
    with pytest.raises(InputError, match="found int"):
        drift(3, PEOPLE)
