"""Numbers that the encoding holds between two ends: every answer is about everybody, those beyond the ends included."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

from bornfair import quantify, verify
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.subpopulation import marginals_of
from bornfair.proof.bundle import FairModel, bundle_files
from bornfair.proof.checker import check_files
from bornfair.quantification.measure import shares_of

AGE, DEBT = IntegerFeature(name="age", low=0, high=40), IntegerFeature(name="debt", low=-5, high=30)
GRANT = Label(name="y", classes=(0, 1))


def model_of(seed: int, features=(AGE, DEBT), **ends: tuple[float | None, float | None]) -> FairModel:
    random = np.random.default_rng([seed, 5])
    domain = Domain(features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=GRANT)
    held = {name: dict(zip(("low", "high"), pair, strict=True)) for name, pair in ends.items()}
    scales = {f.name: Scale(centre=3.0, exponent=2, **held.get(f.name, {})) for f in features}
    sizes = (len(features) + 1, 4, 1)
    layers = [Layer(random.normal(size=(b, a)), random.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    return FairModel(Network(tuple(layers)), Encoding(domain, scales, {}))


def everybody(model: FairModel) -> pd.DataFrame:
    levels = [feature.levels() for feature in model.domain.free_features]
    return pd.DataFrame(list(itertools.product(*levels)), columns=list(model.domain.free_names))


def unfair(model: FairModel, people: pd.DataFrame) -> np.ndarray:
    first, second = (model.predict(people.assign(s=value)) for value in (False, True))
    return first != second


ENDS = [{"age": (None, 7.0)}, {"age": (4.0, 9.0), "debt": (-2.0, None)}, {"age": (6.0, 6.0), "debt": (0.0, 3.0)}]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("seed", range(3))
def test_shares_count_people_beyond_the_ends_where_they_are_seen(seed, ends):
    model = model_of(seed, **ends)
    people = everybody(model)
    known = unfair(model, people)
    found = quantify(model, timeout=5, seed=seed)
    assert found.falsified == pytest.approx(known.mean(), abs=1e-12)
    assert found.estimate.low <= known.mean() <= found.estimate.high
    rows = people.sample(200, random_state=seed)
    weights = marginals_of(model.domain, rows)
    share = [people[name].map(weights[name]).fillna(0) / sum(weights[name].values()) for name in people]
    weighted = shares_of(model, timeout=5, marginals=weights)
    assert weighted.falsified == pytest.approx((known * share[0] * share[1]).sum(), abs=1e-9)


@pytest.mark.parametrize("over_data", [False, True])
def test_shares_of_real_numbers_count_what_lies_beyond(over_data):
    model = model_of(
        0, (RealFeature(name="x", low=0.0, high=1000.0), IntegerFeature(name="age", low=0, high=9)), x=(1, 6.5)
    )
    rows = pd.DataFrame({"x": np.random.default_rng(1).exponential(4.0, 300), "age": 3})
    weights = {"x": marginals_of(model.domain, rows)["x"]} if over_data else {"x": {(0.0, 1000.0): 1.0}}
    found = shares_of(model, timeout=1, precision=0.005, marginals=weights if over_data else None, samples=20_000)
    grid, total = np.linspace(0, 1, 200, endpoint=False) + 0.0025, sum(weights["x"].values())
    xs = np.concatenate([low + (high - low) * grid for low, high in weights["x"]])
    xs = np.clip(xs, 0.0, 7.0) if over_data else np.concatenate([np.linspace(1.0, 6.5, 199), [1.0, 6.5]])
    mass = np.repeat([w / total / 200 for w in weights["x"].values()], 200)
    mass = mass if over_data else np.array([5.5 / 199] * 199 + [1.0, 993.5]) / 1000
    people = pd.DataFrame(list(itertools.product(xs, range(10))), columns=["x", "age"])
    share = float(unfair(model, people).reshape(-1, 10).mean(axis=1) @ mass)
    assert 0.001 < share < 0.999
    assert found.falsified - 0.005 <= share <= 1 - found.certified + 0.005
    assert found.certified + found.falsified > 0.99 and abs(found.estimate.unfair - share) < 0.02


@pytest.mark.parametrize("engine", ["auto", "bounds", "smt", "milp"])
@pytest.mark.parametrize("ends", ENDS)
def test_engines_agree_with_counting(engine, ends):
    for seed in range(2):
        model = model_of(seed, **ends)
        verdict = verify(model, engine=engine, timeout=20)
        assert (verdict.answer == "falsified") == unfair(model, everybody(model)).any()


@pytest.mark.parametrize("range_", [(20, 30), (0, 2), (5, 40)])
@pytest.mark.parametrize("seed", range(4))
def test_a_sub_population_beyond_the_end_is_answered_with_people_of_it(seed, range_):
    model = model_of(seed, age=(4.0, 9.0))
    people = everybody(model)
    asked = people[people["age"].between(*range_)]
    verdict = verify(model, where={"age": range_}, timeout=20)
    assert verdict.answer == ("falsified" if unfair(model, asked).any() else "verified")
    for twin in verdict.twins or []:
        assert range_[0] <= twin["age"] <= range_[1]


def test_another_domain_may_lie_beyond_the_ends():
    model = model_of(1, age=(4.0, 9.0))
    far = model.domain.edit("age", low=20, high=30)
    people = everybody(model)
    known = unfair(model, people[people["age"].between(20, 30)])
    for engine in ("bounds", "smt", "milp", "auto"):
        verdict = verify(model, far, engine=engine, timeout=20)
        assert verdict.answer == ("falsified" if known.any() else "verified")
        assert all(20 <= twin["age"] <= 30 for twin in verdict.twins or [])
    assert quantify(model, far, timeout=3).falsified == pytest.approx(known.mean(), abs=1e-12)


@pytest.mark.parametrize("kind", [IntegerFeature, RealFeature])
def test_a_tree_is_found_and_checked_though_a_range_is_seen_as_one_value(kind):
    wide = kind(name="x", low=0, high=1000)
    for seed in range(6):
        model = model_of(seed, (wide, AGE), x=(5.0, 5.0)).certified(timeout=5)
        people = everybody(dataclasses.replace(model, encoding=model_of(seed, (AGE,)).encoding)).assign(x=700)
        found = check_files(bundle_files(model))
        assert found["valid"]
        assert (found["verdict"] == "falsified") == unfair(model, people).any()
