"""Tables by group say what can be counted by hand; few people are shown, and nothing is concluded from them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from bornfair.people.domain import Domain
from bornfair.questions.audit_metrics import by_group
from bornfair.report.facts import Favourable, GroupMetrics
from bornfair.report.people import impact_sentence, lowest_ratio


@pytest.fixture(scope="module")
def people():
    random = np.random.default_rng(3)
    count = 1_000
    table = pd.DataFrame(
        {
            "sex": random.choice(["f", "m"], count),
            "race": random.choice(["a", "b", "c"], count, p=[0.6, 0.385, 0.015]),
            "age": random.integers(18, 80, count),
            "x": random.random(count),
        }
    )
    table.loc[:49, "sex"] = None
    decided = (random.random(count) < np.where(table["sex"] == "m", 0.6, 0.3)).astype(int)
    decided[table["race"] == "c"] = 1  # one small group gets everything
    truth = random.integers(0, 2, count)
    truth[:20] = -1
    return table, decided, truth


def lines(people, sensitive, truth=True, gaps=False, **rules):
    table, decided, known = people
    domain = Domain.infer(table, sensitive=sensitive, gaps=gaps)
    found = by_group(domain, table, decided, known if truth else None, 1, Favourable("yes", **rules))
    return {(line.features, line.value): line for line in found}


def test_rates_intervals_and_ratios_are_those_of_the_groups(people):
    table, decided, truth = people
    found = lines(people, ["sex", "race"])
    chosen, known = decided == 1, truth >= 0
    for value in ("f", "m"):
        who = (table["sex"] == value).to_numpy()
        line = found[("sex",), value]
        exact = binomtest(int(chosen[who].sum()), int(who.sum())).proportion_ci(0.95, "exact")
        assert (line.count, line.selection_rate) == (who.sum(), pytest.approx(chosen[who].mean()))
        assert (line.low, line.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
        assert line.accuracy == pytest.approx((decided == truth)[who & known].mean())
        assert line.true_positive_rate == pytest.approx(chosen[who & (truth == 1)].mean())
        assert line.false_positive_rate == pytest.approx(chosen[who & (truth == 0)].mean())
    highest = max(found[("sex",), value].selection_rate for value in ("f", "m"))
    assert found[("sex",), "f"].impact_ratio == pytest.approx(found[("sex",), "f"].selection_rate / highest)
    assert {features for features, _ in found} == {("sex",), ("race",), ("sex", "race")}


def test_a_few_people_are_neither_headlined_nor_compared_with(people):
    found = lines(people, ["race"])
    few = found[("race",), "c"]
    assert few.small and few.selection_rate == 1.0 and few.impact_ratio > 1
    sentence = impact_sentence(list(found.values()), Favourable("yes"))
    assert " c " not in sentence and max(found[("race",), v].impact_ratio for v in "ab") == 1.0
    assert lowest_ratio(found.values()) > few.impact_ratio / 3
    assert not lines(people, ["race"], least_people=5, least_share=0.0)[("race",), "c"].small


def test_groups_with_the_same_rate_are_told_once():
    groups = [GroupMetrics(value, 100, 0.0, features=("race",)) for value in ("afam", "asian")]
    told = impact_sentence(groups, Favourable("yes")).replace("\N{NO-BREAK SPACE}", " ")
    assert told == "All groups that are large enough get the favourable decision equally often: 0 %."


def test_people_of_unknown_group_are_counted_and_compared_with_nobody(people):
    line = lines(people, ["sex"])[("sex",), "not known"]
    assert line.count == 50 and line.unknown and line.impact_ratio is None
    learnt = lines(people, ["sex"], gaps=True)[("sex",), "missing"]  # where a gap is a value, it is a group too
    assert learnt.count == 50 and not learnt.unknown


def test_selection_needs_no_truth(people):
    found = lines(people, ["sex"], truth=False)
    assert found[("sex",), "f"].selection_rate is not None and found[("sex",), "f"].accuracy is None


def test_a_number_with_many_values_is_put_into_bands(people):
    names = [value for _, value in lines(people, ["age"])]
    assert names == [f"{low} to {low + 9}" for low in range(10, 80, 10)]
    assert len(lines(people, ["x"])) == 4


def test_groups_without_number_are_gathered(people):
    table, decided, truth = people
    many = table.assign(race=[f"r{i % 40}" for i in range(len(table))])
    found = list(lines((many, decided, truth), ["race", "age"]).values())
    joined = [line for line in found if line.features == ("race", "age")]
    assert len(joined) == 24 and joined[-1].value.endswith("smaller groups together") and joined[-1].small
    assert sum(line.count for line in joined) == len(table)
