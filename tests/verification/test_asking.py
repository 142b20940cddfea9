"""Models that are only asked: twins are found where there are some, replayed, and nothing is ever verified."""

import numpy as np
import pandas as pd
import pytest

from bornfair import Domain, verify
from bornfair.core.errors import InputError
from bornfair.importers.opaque import opaque_model
from bornfair.models.columns import Who
from bornfair.models.opaque.model import OpaqueModel
from bornfair.models.reading import Reading
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.questions import Question
from bornfair.verification.asking import people_in_order
from outside_models import SMALL, WIDE, by_age, unfair_to


def differ_only_in(twins, names):
    return {name for name in twins[0] if twins[0][name] != twins[1][name]} <= set(names)


def test_a_small_domain_is_counted_out_and_still_not_called_verified():
    verdict = verify(by_age, SMALL, timeout=10)
    assert verdict.answer == "falsified" and verdict.arithmetic == ("executed",) and verdict.proof == "none"
    assert differ_only_in(verdict.twins, ["woman"])
    assert by_age(pd.DataFrame(verdict.twins)).tolist() == verdict.decisions

    fair = verify(lambda people: people["age"] > 30, SMALL.replaced(label=None), timeout=10)
    assert fair.answer == "undecided" and not fair
    assert "everybody of the domain was asked about once" in fair.reason and "90 people" in fair.reason
    assert "no proof" in fair.reason


def test_everybody_is_listed_once():
    model = opaque_model(by_age, Who(SMALL), Reading())
    model.pace.rows = 14  # seven people at a time
    people = pd.concat(list(people_in_order(model)), ignore_index=True)
    assert len(people) == len(people.drop_duplicates()) == 90
    assert set(people["job"]) == {"smith", "nurse", "clerk"} and people["age"].min() == 20


@pytest.mark.parametrize("shown", ["label", "several"])
def test_a_narrow_slit_is_found_between_people_who_are_decided_differently(shown):
    """Of incomes from 0 to 100,000 twins are told apart on an interval of width 0.001: random people miss it."""

    def narrow(people):
        edge = people["income"] + 300.0 * (people["job"] == "nurse") - 60_000.0
        edge = edge + np.where(people["sex"] == "f", 0.001, 0.0)
        if shown == "several":
            return np.stack([-edge.to_numpy(), edge.to_numpy(), np.full(len(edge), -1e9)], axis=1)
        return edge > 0

    verdict = verify(narrow, WIDE, timeout=20)
    assert verdict.answer == "falsified" and "halfway" in verdict.reason
    assert differ_only_in(verdict.twins, ["sex"])


def test_who_shows_scores_is_moved_towards_the_boundary():
    """A ridge: only close to one point are scores near the boundary at all, and everybody else is decided alike."""

    def ridge(people):
        far = (people["income"] - 73_000.0).abs() / 1e5 + (people["age"] - 44).abs() / 80
        return 0.0004 - far - np.where(people["sex"] == "f", 0.0003, 0.0)

    verdict = verify(ridge, WIDE, decision="logit", timeout=20, seed=1)
    assert verdict.answer == "falsified"
    assert "moved towards the boundary" in verdict.reason


def test_rows_of_the_table_come_first():
    table = WIDE.sample(40, seed=0).assign(income=10.0)
    table.loc[7, "income"] = 55.0
    verdict = verify(lambda t: (t["income"] == 55.0) & (t["sex"] == "f"), WIDE, table=table, timeout=5)
    assert verdict.answer == "falsified" and "of the table's rows" in verdict.reason
    assert verdict.twins[0]["income"] == 55.0


def test_several_sensitive_features_and_declared_twins():
    domain = Domain(
        features=(
            CategoricalFeature(name="is", categories=("Husband", "Wife", "Other")),
            IntegerFeature(name="age", low=39, high=42),
            IntegerFeature(name="height", low=168, high=172),
            CategoricalFeature(name="sex", categories=("f", "m")),
        ),
        sensitive=("age", "sex"),
    )

    def reads_the_role(people):
        return (people["is"] == "Wife") & (people["height"] > 170)

    assert verify(reads_the_role, domain, timeout=5).answer == "undecided"
    found = verify(reads_the_role, domain, twins="sex: f<->m, is: Husband<->Wife", timeout=5)
    assert found.answer == "falsified" and {twin["is"] for twin in found.twins} == {"Husband", "Wife"}
    by_both = verify(lambda t: (t["age"] > 40) & (t["sex"] == "f") & (t["height"] == 171), domain, timeout=5)
    assert by_both.answer == "falsified" and differ_only_in(by_both.twins, ["age", "sex"])


def test_noise_is_no_unfairness():
    rng = np.random.default_rng(0)

    def noisy(people):
        return (people["income"] > 5e4) ^ (rng.random(len(people)) < 0.05)

    verdict = verify(noisy, WIDE, timeout=3)
    assert verdict.answer == "undecided" and "decided otherwise the second time" in verdict.reason

    def rarely(people):  # too seldom for a trial of 256, not too seldom for the search
        return (people["income"] > 5e4) ^ (rng.random(len(people)) < 0.0005)

    assert verify(rarely, WIDE, timeout=3, seed=2).answer == "undecided"


def test_whoever_looks_at_the_place_in_a_batch_does_not_pass_for_unfair():
    """The first of each batch is refused: twins differ by where they stand, not by who they are."""

    def first_is_refused(people):
        return (people["income"] > 5e4) & (np.arange(len(people)) > 0)

    assert verify(first_is_refused, WIDE, timeout=2).answer == "undecided"

    def in_company(people):  # steady in every batch, and otherwise alone
        return (people["sex"] == "f") & (len(people) > 1)

    verdict = verify(in_company, WIDE, timeout=5)
    assert verdict.answer == "undecided" and "in two ways when asked again" in verdict.reason


def test_a_readable_model_is_read_unless_it_is_asked_not_to():
    from sklearn.linear_model import LogisticRegression

    people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1]})
    bank = LogisticRegression(C=100).fit(people, people["woman"])
    asked = {"sensitive_features": ["woman"], "table": people}
    assert not isinstance(Question.of(bank, **asked).model, OpaqueModel)
    model = Question.of(bank, opaque=True, **asked).model
    assert isinstance(model, OpaqueModel) and model.unread == ""
    assert verify(bank, opaque=True, timeout=5, **asked).engine == "asking"


def test_what_a_model_that_is_asked_cannot_be_asked():
    for options, message in (
        ({"engine": "bounds"}, "is run and not read, so that engine, where, relax and resume do not fit"),
        ({"where": {"age": (20, 30)}}, "is run and not read"),
        ({"output": "score"}, r"can be run and not read: a function shows nothing .* nothing in it can be bounded"),
        ({"normalise": "yes"}, "leave normalise"),
    ):
        with pytest.raises(InputError, match=message):
            verify(by_age, SMALL, timeout=2, **options)
    with pytest.raises(InputError, match=r"does not say who exists: give a table"):
        verify(by_age, timeout=2)
    with pytest.raises(InputError, match=r"nobody has a twin yet: name the sensitive features"):
        verify(by_age, SMALL.sample(20, seed=0), timeout=2)


def test_a_real_sensitive_feature_is_asked_at_some_values_only():
    domain = Domain(
        features=(RealFeature(name="age", low=18.0, high=99.0), IntegerFeature(name="x", low=0, high=3)),
        sensitive=("age",),
    )
    assert verify(lambda t: (t["age"] > 50) & (t["x"] == 2), domain, timeout=5).answer == "falsified"
    slit = verify(lambda t: (t["age"] == 50.123) & (t["x"] == 2), domain, timeout=1)
    assert slit.answer == "undecided" and "of age some values only" in slit.reason


def test_the_search_agrees_with_counting_out_on_random_rules():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        weight, level = rng.integers(0, 3), rng.integers(22, 47)

        def rule(people, weight=weight, level=level):
            return people["age"] + weight * (people["woman"].astype(int)) * (people["job"] == "nurse") > level

        unfair = unfair_to(rule, SMALL)
        assert (verify(rule, SMALL.replaced(label=None), timeout=10).answer == "falsified") == (unfair > 0)
