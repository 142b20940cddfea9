"""Claims about `bornfair gamma` and `bornfair.gamma_report`: known cases by hand, and what cannot be asked."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import bornfair
from bornfair.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.training.gamma import code_columns, gamma_report, solve_domain, solve_first_layer
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
        ("nowhere.csv", {"sensitive_features": ["sex"]}, "there is no file"),
        ("nowhere.json", {}, "cannot read"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked, options, said) -> None:
    with pytest.raises(InputError, match=said):
        gamma_report(asked, **options)


# --- the command ---


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
