"""A real-valued sensitive feature takes every value: no claim rests on a list of some of them."""

import itertools
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from bornfair import quantify, verify
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature, Label, RealFeature
from bornfair.proof.bundle import FairModel
from piecewise import classes_of, people, random_model

pytestmark = pytest.mark.slow

AGE = RealFeature(name="age", low=18.0, high=98.0)


def bump(at: float, width: float) -> FairModel:
    """Yes for everybody but those whose age is within half a width of one place."""
    domain = Domain(
        features=(IntegerFeature(name="income", low=0, high=9), AGE),
        sensitive=("age",),
        label=Label(name="y", classes=(0, 1)),
    )
    encoding = Encoding(domain, {"income": Scale(centre=4.0, exponent=2)}, {})
    centre, slope = (at - 58) / 40, 80 / width  # age 18…98 is seen as −1…1
    first = np.array([[0.0, slope], [0.0, slope], [0.0, slope]])
    bias = -slope * centre + np.array([1.0, 0.0, -1.0])
    return FairModel(Network((Layer(first, bias), Layer(np.array([[-2.0, 4.0, -2.0]]), np.array([1.0])))), encoding)


@pytest.mark.parametrize("engine", ["auto", "bounds", "smt", "milp"])
def test_ages_between_the_levels_of_a_grid_are_looked_at(engine):
    model = bump(at=40.4, width=3.0)  # the levels of the grid are 18, 23, 28, …: none of them notices
    verdict = verify(model, engine=engine, timeout=30)
    assert verdict.answer == "falsified", verdict.reason
    ages = [twin["age"] for twin in verdict.twins]
    assert any(abs(age - 40.4) < 3 for age in ages) and any(abs(age - 40.4) > 1 for age in ages)
    assert model.predict(pd.DataFrame(verdict.twins)).tolist() == verdict.decisions


def test_nothing_is_certified_of_people_whom_an_age_between_the_levels_decides():
    shares = quantify(bump(at=40.4, width=3.0), timeout=2)
    assert shares.certified == 0
    assert shares.estimate.high == 1


@pytest.mark.parametrize("block", range(4))
def test_engines_never_contradict_the_exact_classes_along_the_range(block):
    decided = 0
    for seed in range(block * 8, (block + 1) * 8):
        model = random_model(seed)
        unfair = [len(classes_of(model, person)) > 1 for person in people(model)]
        for engine in ("auto", "bounds", *(("smt",) if seed % 3 == 0 else ("milp",) if seed % 3 == 1 else ())):
            verdict = verify(model, engine=engine, timeout=2, seed=seed)
            if verdict.answer == "verified":
                assert not any(unfair), f"case {seed}: {engine} says verified"
            elif verdict.answer == "falsified":
                assert any(unfair) or "real" not in verdict.arithmetic, f"case {seed}: {engine} says falsified"
                decided_as = model.predict(pd.DataFrame(verdict.twins)).tolist()
                assert len(set(decided_as)) == 2 or "float32" not in verdict.arithmetic, f"case {seed}: {engine}"
            decided += verdict.answer != "undecided"
    assert decided >= 16


@pytest.mark.parametrize("block", range(4))
def test_shares_are_within_the_exact_ones(block):
    for seed in range(block * 5, (block + 1) * 5):
        model = random_model(seed)
        unfair = np.mean([len(classes_of(model, person)) > 1 for person in people(model)])
        shares = quantify(model, timeout=0.25, seed=seed)
        assert shares.certified <= 1 - unfair + 1e-12, f"case {seed}: {shares}, {unfair}"
        assert shares.falsified <= unfair + 1e-12, f"case {seed}: {shares}, {unfair}"
        assert shares.estimate.low <= unfair + 0.05, f"case {seed}"
        assert shares.estimate.high >= unfair - 0.05, f"case {seed}"


def test_a_weight_of_zero_on_age_is_proof_for_every_age():
    model = bump(at=40.4, width=3.0)
    fair = Network((Layer(np.zeros((3, 2)), model.network.layers[0].bias), model.network.layers[1]))
    verdict = verify(FairModel(fair, model.encoding))
    assert verdict.proof == "structural" and verdict.arithmetic == ("real", "float32")
    assert quantify(FairModel(fair, model.encoding), timeout=1).certified == 1


@pytest.mark.usefixtures("counted_time")
def test_a_dependence_on_age_that_changes_nobodys_decision_is_verified_by_bounds():
    model = bump(at=40.4, width=3.0)
    first, last = model.network.layers
    fair = FairModel(Network((first, Layer(last.weight, np.array([5.0])))), model.encoding)
    for engine in ("bounds", "smt", "milp"):
        verdict = verify(fair, engine=engine, timeout=30)
        assert verdict.answer == "verified", (engine, verdict.reason)


def test_codes_in_real_arithmetic_are_those_of_the_raw_value():
    """1/3 of the way has no float32 code: between the exact code and the rounded one lies a boundary."""
    age, label = RealFeature(name="age", low=0.0, high=3.0), Label(name="y", classes=(0, 1))
    domain = Domain(features=(age,), sensitive=("age",), label=label)
    encoding = Encoding(domain, {}, {})
    verdicts = []
    for steps in range(-2, 3):
        bias = np.float32(2.0**-24) * np.float32(steps)
        network = Network((Layer(np.array([[1.0]]), np.array([bias])),))
        verdicts.append(verify(FairModel(network, encoding), timeout=5))
    assert all(v.answer == "falsified" for v in verdicts)
    for verdict, steps in zip(verdicts, range(-2, 3), strict=True):
        if "real" in verdict.arithmetic:
            exact = [Fraction(t["age"]) * Fraction(2, 3) - 1 + Fraction(steps, 2**24) > 0 for t in verdict.twins]
            assert exact[0] != exact[1]


def test_every_age_counts_beside_another_sensitive_feature():
    """Twins may differ in age alone, in sex alone, or in both; each is found where it is the only difference."""
    from bornfair.people.features import BooleanFeature

    domain = Domain(
        features=(BooleanFeature(name="sex"), AGE), sensitive=("sex", "age"), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {}, {})
    for weights in itertools.product((0.0, 1.0), repeat=2):
        network = Network((Layer(np.array([weights]), np.array([0.25])),))
        for engine in ("auto", "bounds", "smt", "milp"):
            verdict = verify(FairModel(network, encoding), engine=engine, timeout=20)
            assert verdict.answer == ("falsified" if any(weights) else "verified"), (weights, engine, verdict.reason)


def test_an_audit_says_with_how_many_values_rows_were_looked_at():
    from bornfair import audit

    model = bump(at=40.4, width=3.0)
    report = audit(model, model.domain.sample(40, seed=1), timeout=2)
    assert "Each row was looked at with 17 values of age, not with all there are." in report.to_markdown()


def test_combinations_of_a_real_valued_feature_cannot_be_listed():
    features = (AGE, IntegerFeature(name="income", low=0, high=9))
    with pytest.raises(Exception, match="'age' is a real number, of which every value counts"):
        Domain(features=features, sensitive=("age",), combinations=((18.0,), (23.0,)))


@pytest.mark.parametrize("ends", [(2**56, 2**56 + 8), (-(2**60), 0)])
def test_whole_numbers_that_floats_skip_are_refused(ends):
    with pytest.raises(ValueError, match="is beyond ±2\\^53, where floating point skips whole numbers"):
        IntegerFeature(name="n", low=ends[0], high=ends[1])


def test_a_centre_around_which_whole_numbers_collapse_is_refused():
    domain = Domain(features=(IntegerFeature(name="n", low=0, high=9), AGE), sensitive=("age",))
    with pytest.raises(InputError, match="'n' is a whole number from 0 to 9, and with the centre"):
        Encoding(domain, {"n": Scale(centre=2.0**56, exponent=0)})
