"""Census: dropping sex leaves `relationship` in the table. Declared twins close the gap, at hardly any cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, FairClassifier, datasets, verify
from bornfair.datasets import split_rows
from bornfair.models import metrics
from bornfair.people.twins.versions import Versions
from bornfair.proof import checker
from bornfair_bench.baselines.erm import Unaware

RULES = "sex: Male<->Female, relationship: Husband<->Wife"
QUICK = {"epochs": 3, "batch_size": 64, "hidden": (32, 8), "random_state": 0}


@pytest.fixture(scope="module")
def census():
    loaded = datasets.load("census")
    domain = Domain.infer(loaded.table, target=loaded.target, sensitive=["sex"]).with_twins(RULES)
    training, test = split_rows(loaded.table, seed=0, test_fraction=0.2)
    split = [(part.drop(columns=loaded.target), part[loaded.target]) for part in (training, test)]
    return domain, *split


@pytest.fixture(scope="module")
def unaware(census):
    domain, (X, y), _ = census
    return Unaware(["sex"], domain=domain, **QUICK).fit(X, y)


def test_each_person_has_four_versions(census):
    domain, *_ = census
    assert Versions(domain).size == 4
    assert Versions(domain).told() == (
        "each person has 4 versions: 2 values of sex × 2 ways that the declared rules give relationship"
    )


def test_training_without_sex_treats_husbands_and_wives_differently(census, unaware):
    domain, _, (people, _) = census
    same = metrics.survives_every_change(unaware.predict, people, domain)
    spouses = people["relationship"].isin(["Husband", "Wife"]).to_numpy()
    assert metrics.survives_every_change(unaware.predict, people, domain, declared=False).mean() == 1.0
    assert same[~spouses].all() and 0.5 < same[spouses].mean() < 0.97
    assert unaware.empirical_fairness(people) == pytest.approx(same.mean())


def test_the_verifier_shows_a_husband_and_a_wife(census, unaware):
    _, _, (people, _) = census
    verdict = verify(unaware, timeout=10, table=people)
    assert verdict.answer == "falsified"
    husband, wife = sorted(verdict.twins, key=lambda twin: twin["relationship"])
    assert (husband["relationship"], husband["sex"]) == ("Husband", "Male")
    assert (wife["relationship"], wife["sex"]) == ("Wife", "Female")
    assert {name for name in husband if husband[name] != wife[name]} == {"relationship", "sex"}
    decided = unaware.predict(pd.DataFrame([husband, wife])[list(people.columns)])
    assert decided[0] != decided[1]


def test_declared_twins_are_certified_and_cost_little(census, unaware, tmp_path):
    domain, (X, y), (people, truth) = census
    ours = FairClassifier(["sex"], twins=RULES, **QUICK).fit(X, y)
    assert ours.domain_.twins == domain.twins and ours.certificate_.verdict.arithmetic == ("real", "float32")
    assert ours.empirical_fairness(people) == 1.0
    ours.save(tmp_path / "bundle")
    found = checker.check(tmp_path / "bundle")
    assert found["valid"] and found["verdict"] == "verified" and "relationship: Husband<->Wife" in found["claim"]
    assert ours.score(people, truth) > unaware.score(people, truth) - 0.01  # after three epochs; see docs/theory.md
    spouses = people[people["relationship"].isin(["Husband", "Wife"])]
    swapped = Versions(domain).table(spouses, Versions(domain).size - 1)
    assert np.array_equal(ours.decision_function(spouses), ours.decision_function(swapped))
