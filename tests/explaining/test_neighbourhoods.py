"""What is said of a part of the domain is what looking at everybody in it says, for networks and forests."""

import itertools

import numpy as np
import pandas as pd
import pytest

import random_forests
from bornfair import Domain, FairModel
from bornfair.errors import InputError
from bornfair.explaining.explanation import explain
from bornfair.explaining.person import limits_around
from bornfair.models.network import Layer, Network
from bornfair.people.encoding import Encoding, Scale
from bornfair.people.features import NUMERIC, BooleanFeature, IntegerFeature, RealFeature
from bornfair.twins.versions import Versions
from bornfair.verification.decide import decide
from bornfair.verification.exact import exact_decisions
from bornfair.verification.replay import exact_input
from brute_force import random_model
from twin_cases import everybody, random_domain, served


def with_rules(seed: int) -> FairModel:
    """A random network over a random domain with declared twins, which it is shown as they are."""
    domain, random = random_domain(seed), np.random.default_rng([seed, 3])
    encoding = Encoding.fit(domain, everybody(domain))
    first = random.normal(size=(3, encoding.width))
    first[:, encoding.free_width :] *= 0.3
    return FairModel(Network((Layer(first, random.normal(size=3)), Layer(random.normal(size=(1, 3)), [0.1]))), encoding)


def near_somebody(domain: Domain, random: np.random.Generator) -> dict:
    """Limits around a person by chance: some numbers may differ a little, some features are anything."""
    person = {f.name: f.levels()[random.integers(len(f.levels()))] for f in domain.free_features}
    within: dict[str, float | None] = {}
    for feature in domain.free_features:
        kind = random.integers(3)
        if kind == 1:
            within[feature.name] = None
        elif kind == 2 and isinstance(feature, NUMERIC):
            within[feature.name] = float(random.integers(0, 3))
    return limits_around(domain, person, within)


def people_in(domain: Domain, limits: dict) -> list[dict]:
    values = [
        [
            v
            for v in f.levels()
            if (limits[f.name][0] <= v <= limits[f.name][1] if isinstance(f, NUMERIC) else v in limits[f.name])
        ]
        for f in domain.free_features
    ]
    return [dict(zip(domain.free_names, row, strict=True)) for row in itertools.product(*values)]


def shared(domain: Domain, twins: list[dict], limits: dict) -> bool:
    """Whether these two are versions of one person within the limits."""
    versions = Versions(domain)
    return any(
        all(any(versions.of(person, v) == twin for v in range(versions.size)) for twin in twins)
        for person in people_in(domain, limits)
    )


@pytest.mark.parametrize("seed", range(40))
def test_networks_are_judged_as_counting_out_judges_them(seed):
    random = np.random.default_rng([seed, 1])
    model = random_model(seed) if seed % 2 else with_rules(seed)
    domain, versions = model.domain, Versions(model.domain)
    limits = near_somebody(domain, random)
    verdict = decide(model, among=limits, timeout=20)
    people = people_in(domain, limits)
    numbers = range(versions.size)
    inputs = np.stack([exact_input(model.encoding, person, v, versions) for person in people for v in numbers])
    exact = exact_decisions(model.network, inputs).reshape(len(people), -1)
    answers = served(model, pd.DataFrame([versions.of(p, v) for p in people for v in numbers]))[0]
    unfair = {
        "real": bool((exact != exact[:, :1]).any()),
        "float32": bool((answers.reshape(len(people), -1) != answers.reshape(len(people), -1)[:, :1]).any()),
    }
    if verdict.verdict == "verified":
        assert not any(unfair[name] for name in verdict.arithmetic), (limits, unfair)
    else:
        assert verdict.verdict == "falsified" and all(unfair[name] for name in verdict.arithmetic), (limits, unfair)
        assert shared(domain, verdict.twins, limits)


def test_forests_are_judged_as_counting_out_judges_them():
    outcomes = {"verified": 0, "falsified": 0}
    for seed in range(60):
        random = np.random.default_rng([seed, 8])
        model = random_forests.random_forest_model(random)
        truth, domain = random_forests.everybody(model), model.domain
        at = int(random.integers(len(truth.people)))
        person = {name: truth.people[name].tolist()[at] for name in domain.free_names}
        within = {}
        for feature in domain.free_features:
            chosen = random.integers(3)
            if chosen == 1:
                within[feature.name] = None
            elif chosen == 2 and isinstance(feature, NUMERIC):
                within[feature.name] = 1.0
        limits = limits_around(domain, person, within)
        inside = np.ones(len(truth.people), bool)
        for feature in domain.free_features:
            column, limit = truth.people[feature.name], limits[feature.name]
            inside &= (column.between(*limit) if isinstance(feature, NUMERIC) else column.isin(list(limit))).to_numpy(
                bool
            )
        verdict = decide(model, among=limits, timeout=20)
        outcomes[verdict.verdict] += 1
        if verdict.verdict == "verified":
            assert not truth.unfair[inside].any(), (seed, limits)
            continue
        real = [f.name for f in domain.free_features if f.kind == "real" and within.get(f.name) == 1.0]
        assert truth.unfair[inside].any() or real, (seed, limits)  # of these, the list has not every value
        own = verdict.twins[0] if not domain.twins else None
        for feature in domain.free_features if own is not None else ():
            limit = limits[feature.name]
            held = own[feature.name]
            assert limit[0] <= held <= limit[1] if isinstance(feature, NUMERIC) else held in limit
    assert min(outcomes.values()) > 5


def real_numbers(sensitive_real: bool) -> FairModel:
    """Decided by income + ¼·s ≥ 30, income held below 40."""
    s = RealFeature(name="s", low=0.0, high=1.0) if sensitive_real else BooleanFeature(name="s")
    domain = Domain(
        features=(RealFeature(name="income", low=0.0, high=100.0), IntegerFeature(name="age", low=18, high=90), s),
        sensitive=("s",),
    )
    scales = {"income": Scale(centre=0.0, exponent=0, high=40.0), "age": Scale(centre=0.0, exponent=0)}
    if sensitive_real:
        scales["s"] = Scale(centre=0.0, exponent=0)
    encoding = Encoding(domain, scales)
    weight = np.zeros((1, encoding.width))
    weight[0, 0], weight[0, -1] = 1.0, 0.25
    return FairModel(Network((Layer(weight, [-30.0]),)), encoding)


@pytest.mark.parametrize("sensitive_real", [False, True])
def test_real_numbers_are_asked_about_as_they_are(sensitive_real):
    model = real_numbers(sensitive_real)

    def asked(person, **within):
        limits = limits_around(model.domain, {"income": person, "age": 40}, within)
        return decide(model, among=limits, timeout=20)

    assert asked(30.0).verdict == "falsified"
    assert asked(20.0, income=9.5).verdict == "verified" and asked(99.0, age=None).verdict == "verified"
    found = asked(20.0, income=10.0)
    assert found.verdict == "falsified"
    assert {twin["age"] for twin in found.twins} == {40} and all(10 <= twin["income"] <= 30 for twin in found.twins)


def test_somebody_too_close_to_call_is_undecided():
    """tanh cannot be computed exactly, and float32 cannot see what tells the twins apart."""
    domain = Domain(features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",))
    encoding = Encoding(domain, {"x": Scale(centre=0.0, exponent=0)})
    layers = Layer([[1.0, 1e-30]], [0.0]), Layer([[1.0]], [-np.tanh(1.0)])
    model = FairModel(Network(layers, "tanh"), encoding)
    assert decide(model, among={"x": (1, 1)}, timeout=5).verdict == "undecided"
    assert decide(model, among={"x": (2, 9)}, timeout=5).verdict == "verified"
    found = explain(model, {"x": 1, "s": True}, within={"x": 1})
    assert (found.verdict.verdict, found.around.verdict, bool(found), found.undo) == ("undecided",) * 2 + (False, None)


def test_what_cannot_be_near_is_refused_in_a_sentence():
    domain = random_domain(0)
    person = {f.name: f.levels()[0] for f in domain.free_features}
    words = next(f.name for f in domain.free_features if f.kind == "categorical")
    for within, message in (
        ({"ours": 2}, "did you mean 'hours'"),
        ({domain.sensitive[0]: 1}, "is sensitive"),
        ({"hours": -1}, "a number from 0 on"),
        ({"hours": float("nan")}, "a number from 0 on"),
        ({words: 2}, "name it alone"),
    ):
        with pytest.raises(InputError, match=message):
            limits_around(domain, person, within)
