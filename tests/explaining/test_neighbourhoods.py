"""What is said of a part of the domain is what looking at everybody in it says, for networks and forests."""

import numpy as np
import pytest

import neighbourhood_fuzz
from bornfair import Domain, FairModel
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature, RealFeature
from bornfair.questions.explaining import explain
from bornfair.questions.person import limits_around
from bornfair.verification.decide import decide
from twin_cases import random_domain

pytestmark = pytest.mark.slow


def test_parts_of_the_domain_are_judged_as_counting_out_judges_them():
    found = neighbourhood_fuzz.run(40, 7)
    assert not found.wrong, found.wrong
    for kind in ("network", "forest"):
        assert min(found.outcomes[f"{kind} verified"], found.outcomes[f"{kind} falsified"]) >= 5, found


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

    assert asked(30.0).answer == "falsified"
    assert asked(20.0, income=9.5).answer == "verified" and asked(99.0, age=None).answer == "verified"
    found = asked(20.0, income=10.0)
    assert found.answer == "falsified"
    assert {twin["age"] for twin in found.twins} == {40} and all(10 <= twin["income"] <= 30 for twin in found.twins)


def test_somebody_too_close_to_call_is_undecided():
    """tanh cannot be computed exactly, and float32 cannot see what tells the twins apart."""
    domain = Domain(features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",))
    encoding = Encoding(domain, {"x": Scale(centre=0.0, exponent=0)})
    layers = Layer([[1.0, 1e-30]], [0.0]), Layer([[1.0]], [-np.tanh(1.0)])
    model = FairModel(Network(layers, "tanh"), encoding)
    assert decide(model, among={"x": (1, 1)}, timeout=5).answer == "undecided"
    assert decide(model, among={"x": (2, 9)}, timeout=5).answer == "verified"
    found = explain(model, {"x": 1, "s": True}, within={"x": 1})
    assert (found.verdict.answer, found.around.answer, bool(found), found.undo) == ("undecided",) * 2 + (False, None)


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
