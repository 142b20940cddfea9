"""Claims about `bornfair gamma` and `bornfair.gamma_report`: known cases by hand, and what cannot be asked."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import bornfair
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.training.gamma import code_columns, gamma_report, solve_domain, solve_first_layer
from bornfair.training.response import released_shares
from samples import bornfair as run

SEX = CategoricalFeature(name="sex", categories=("f", "m"))
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
AGE = IntegerFeature(name="age", low=18, high=21)
PAY = RealFeature(name="pay", low=0.0, high=10.0)


def people(*features, sensitive, combinations=None) -> Domain:
    return Domain(features=features, sensitive=sensitive, combinations=combinations)


def test_two_values_are_coded_as_minus_one_and_one_and_need_two_thousand_draws() -> None:
    report = gamma_report(people(AGE, SEX, sensitive=("sex",)), tolerance=0.1, confidence=0.95, draws=400)
    assert (report.gamma, report.probability, report.values) == (0.0, 0.5, 2)
    (column,), (noise,) = report.columns, report.noise
    assert (column.name, column.values, column.codes, column.sum_text) == ("sex", ("f", "m"), (-1, 1), "−1 + 1 = 0")
    assert noise.variance == 1.0  # of −1 and +1
    assert noise.chance == pytest.approx(1 / (400 * 0.01))
    assert noise.draws_needed == 2000  # 1 / (0.05 · 0.1²)


def test_three_categories_have_three_columns_that_each_sum_to_zero() -> None:
    report = gamma_report(people(AGE, RACE, sensitive=("race",)), tolerance=0.5, confidence=0.9)
    assert (report.gamma, report.probability) == (0.0, pytest.approx(1 / 3))
    assert [column.name for column in report.columns] == ["race=a", "race=b", "race=c"]
    assert report.columns[1].sum_text == "−0.5 + 1 − 0.5 = 0"
    assert all(noise.variance == pytest.approx(0.5) for noise in report.noise)  # (1 + ¼ + ¼)/3
    assert {noise.draws_needed for noise in report.noise} == {20}  # 0.5 / (0.1 · 0.5²)


def test_all_combinations_ask_each_feature_by_itself() -> None:
    domain = people(AGE, SEX, RACE, sensitive=("sex", "race"))
    report = gamma_report(domain)
    assert (report.values, report.probability) == (6, pytest.approx(1 / 6))
    assert len(report.columns) == 4 and set(report.columns[0].times) == {1}
    assert solve_domain(domain).gamma == solve_first_layer(domain.sensitive_space.integer_codes).gamma == 0.0


def test_observed_combinations_are_counted() -> None:
    seen = (("f", "a"), ("f", "b"), ("m", "a"))
    domain = people(AGE, SEX, RACE, sensitive=("sex", "race"), combinations=seen)
    report = gamma_report(domain)
    assert (report.gamma, report.values, report.probability) == (0.0, 3, pytest.approx(1 / 3))
    sex = report.columns[0]
    assert sex.times == (2, 1)  # c is −x for each of two women, 2x for one man
    assert sex.codes[1] == -2 * sex.codes[0] and sex.total == 0
    assert "2·" in sex.sum_text
    for column, codes in zip(code_columns(domain), domain.sensitive_space.codes.T, strict=True):
        assert sorted(np.repeat(column.codes, column.times).tolist()) == sorted(codes.tolist())
    assert report.noise[0].variance == pytest.approx(float(np.var(domain.sensitive_space.codes[:, 0])))


def test_a_real_number_is_answered_from_its_grid_and_says_so() -> None:
    report = gamma_report(people(AGE, PAY, sensitive=("pay",)))
    assert report.gamma == 0.0 and report.values == PAY.grid == len(report.columns[0].codes)
    assert report.columns[0].total == 0 and "…" in report.columns[0].sum_text
    assert any("every real value of pay from 0 to 10" in note and "grid of 17" in note for note in report.notes)


def test_codes_that_are_not_centred_have_no_gamma_and_name_the_column() -> None:
    report = gamma_report([[1, 0], [-1, 1]])
    assert report.gamma is None and report.probability is None and report.noise == ()
    assert "the codes of column 1 sum to 1, not 0" in report.reason
    assert report.columns[1].total == Fraction(1)
    assert gamma_report(np.array([[2, -1], [-2, 1]])).gamma == 0.0
    assert "every γ" in gamma_report([3, 3]).reason


def test_a_table_says_who_its_people_are(tmp_path) -> None:
    table = pd.DataFrame({"age": [20, 30, 40], "sex": ["f", "m", "f"], "y": [0, 1, 1]})
    table.to_csv(tmp_path / "people.csv", index=False)
    domain = Domain.infer(table, target="y", sensitive=("sex",))
    domain.save(tmp_path / "domain.json")
    expected = gamma_report(table, sensitive_features=["sex"], target="y")
    assert expected.columns == gamma_report(tmp_path / "domain.json").columns == gamma_report(domain).columns
    assert expected == bornfair.gamma_report(tmp_path / "people.csv", sensitive_features=["sex"], target="y")
    assert gamma_report(domain, sensitive_features=["age"]).values == 21


@pytest.mark.parametrize(
    ("asked", "options", "said"),
    [
        ([-1, 1], {"tolerance": 0.0}, "tolerance"),
        ([-1, 1], {"confidence": 1.0}, "confidence"),
        ([-1, 1], {"draws": 0}, "draws"),
        ([1], {}, "two or more"),
        ([-1, 1], {"sensitive_features": ["sex"]}, "no named columns"),
        ([[1, 2], [3]], {}, "as many numbers"),
        ([float("nan"), 1], {}, "finite"),
        (people(AGE, sensitive=()), {}, "no feature is sensitive"),
        ([-1, 1], {"shares": [1.0]}, "one number of at least 0 for each of the 2 sensitive values"),
        ([-1, 1], {"shares": [1.0, -1.0]}, "one number of at least 0"),
        (people(AGE, SEX, sensitive=("sex",)), {"shares": [1.0, 1.0]}, "shares belong to codes"),
        ("nowhere.csv", {"sensitive_features": ["sex"]}, "there is no file"),
        ("nowhere.json", {}, "cannot read"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked, options, said) -> None:
    with pytest.raises(InputError, match=said):
        gamma_report(asked, **options)


# --- the population reading ---


def test_a_skewed_population_leaves_only_gamma_zero_to_centred_codes() -> None:
    table = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["f", "m", "m", "m"]})
    found = gamma_report(table, sensitive_features=["sex"]).population
    assert (found.gamma, [(one.column, one.mean) for one in found.means]) == (0.0, [("sex", 0.5)])  # (3 − 1)/4
    assert "only γ = 0 solves" in found.reason and "for every γ" in found.note


def test_a_balanced_population_is_solved_by_every_gamma() -> None:
    table = pd.DataFrame({"age": [20, 30, 40, 50], "sex": ["f", "m", "f", "m"]})
    found = gamma_report(table, sensitive_features=["sex"]).population
    assert found.means[0].mean == 0.0 and "every γ solves" in found.reason


def test_each_column_of_a_composite_population_has_its_mean() -> None:
    table = pd.DataFrame({
        "age": [18, 19, 20, 21], "sex": ["f", "m", "m", "m"], "race": ["a", "a", "b", "c"],
        "pay": [0.0, 2.0, 9.9, 10.0],
    })  # fmt: skip
    domain = people(AGE, PAY, SEX, RACE, sensitive=("sex", "race", "pay"))
    space = domain.sensitive_space
    grid = np.clip(np.round(table["pay"] / 10 * 16), 0, 16).astype(int)  # PAY has 17 levels
    levels = np.stack([(table["sex"] == "m").astype(int), [0, 0, 1, 2], grid], axis=1)
    inferred = gamma_report(table, sensitive_features=["sex", "race", "pay"])
    expected = space.codes[space.index_of(levels)].astype(np.float64).mean(axis=0)
    np.testing.assert_allclose([one.mean for one in inferred.population.means], expected, atol=1e-7)


def test_observed_combinations_are_coded_apart_and_people_counted_once_each() -> None:
    table = pd.DataFrame({"sex": ["f", "f", "m", "m", "m"], "race": ["a", "b", "a", "a", "a"], "age": [20] * 4 + [21]})
    report = gamma_report(table, sensitive_features=["sex", "race"], combinations="observed")
    space = Domain.infer(table, sensitive=("sex", "race"), combinations="observed").sensitive_space
    codes = np.array(
        [space.codes[space.values.index(value)] for value in zip(table["sex"], table["race"], strict=True)]
    )
    np.testing.assert_allclose([one.mean for one in report.population.means], codes.mean(axis=0), atol=1e-7)


@pytest.mark.parametrize(
    ("codes", "shares", "gamma"),
    [
        ([-1, 1], [0.5, 0.5], 0.0),
        ([-1, 1], [2, 1], 0.0),
        ([0, 1], [0.5, 0.5], None),  # (e^γ − 1)/2 + 1 = 0
        ([-1, 2], [3, 1], np.log(5)),  # c̄ = −1/4: (e^γ − 1)/4 = 1
        ([[-1, 0], [2, 0]], [3, 1], np.log(5)),  # a column that says nothing makes no demand
        ([[-1, -1], [2, 1]], [3, 1], None),  # the second column demands another γ
        ([3, 3], [1, 4], 0.0),
    ],
)
def test_codes_with_shares_are_solved_as_by_hand(codes, shares, gamma) -> None:
    found = gamma_report(codes, shares=shares).population
    assert found.gamma == (None if gamma is None else pytest.approx(gamma))
    if found.gamma is not None:
        share = np.array(shares) / np.sum(shares)
        table = np.array(codes, float).reshape(len(codes), -1)
        mean = released_shares(share, found.gamma) @ table
        assert mean[np.ptp(table, axis=0) > 0] == pytest.approx(0.0, abs=1e-12)


def test_without_people_the_population_reading_is_not_answered() -> None:
    nobody = pd.DataFrame({"s": ["x", "y", None, None], "t": [None, None, "p", "q"], "a": [1, 2, 3, 4]})
    assert gamma_report(nobody, sensitive_features=["s", "t"]).population is None
    assert gamma_report([-1, 1]).population is None
    assert gamma_report(people(AGE, SEX, sensitive=("sex",))).to_json()["population"] is None


# --- the command ---


def test_the_command_answers_the_population_reading_beside_the_other(tmp_path) -> None:
    pd.DataFrame({"age": [20, 30, 40], "sex": ["f", "m", "m"]}).to_csv(tmp_path / "people.csv", index=False)
    asked = ["gamma", "people.csv", "--sensitive", "sex"]
    shown = run(*asked, cwd=tmp_path).stdout
    assert "The population reading of Algorithm 1" in shown and "0.333333" in shown
    found = json.loads(run(*asked, "--json", cwd=tmp_path).stdout)
    assert found["gamma"] == found["population"]["gamma"] == 0.0
    assert found["population"]["means"] == [{"column": "sex", "mean": pytest.approx(1 / 3)}]
    none = run("gamma", "--codes", "-1,2", "--shares", "3,1", "--json", cwd=tmp_path)
    assert none.returncode == 1 and json.loads(none.stdout)["population"]["gamma"] == pytest.approx(np.log(5))


def test_the_command_prints_the_report_and_the_same_as_json(tmp_path) -> None:
    pd.DataFrame({"age": [20, 30], "sex": ["f", "m"], "y": [0, 1]}).to_csv(tmp_path / "people.csv", index=False)
    asked = ["gamma", "people.csv", "--sensitive", "sex", "--target", "y", "--tolerance", "0.2"]
    done = run(*asked, cwd=tmp_path)
    assert done.returncode == 0 and "γ = 0 preserves fairness" in done.stdout and "−1 + 1 = 0" in done.stdout
    assert "500" in done.stdout  # 1 / (0.05 · 0.2²)
    found = json.loads(run(*asked, "--json", cwd=tmp_path).stdout)
    assert (found["gamma"], found["values"], found["columns"][0]["sum"]) == (0.0, 2, 0.0)
    assert found["noise"][0]["draws_needed"] == 500 and "Σ c = 0" in found["equation"]


def test_the_command_says_with_its_status_whether_there_is_a_gamma(tmp_path) -> None:
    assert run("gamma", "--codes=-1,1", cwd=tmp_path).returncode == 0
    none = run("gamma", "--codes", "1,0; 0,1", "--json", cwd=tmp_path)
    assert none.returncode == 1 and json.loads(none.stdout)["gamma"] is None
    for wrong in ([], ["--codes", "a,b"], ["people.csv", "--codes", "1,2"], ["nowhere.json"]):
        done = run("gamma", *wrong, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("bornfair: ") and done.stderr.count("\n") == 1
