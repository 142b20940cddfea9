"""Twins are replayed from raw values: who they are, what each arithmetic says, and which of them are shown."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.twins.relation import twin_relation
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.verification.replay import (
    Replay,
    exact_input,
    falsified,
    person_of,
    replay,
    versions_at,
)

NUMBERS = (
    IntegerFeature(name="n", low=-2, high=9),
    RealFeature(name="r", low=0.1, high=0.7),
    IntegerFeature(name="g", low=0, high=5, missing=True),
    BooleanFeature(name="b"),
    CategoricalFeature(name="c", categories=("x", "y", "z")),
)
SEX = CategoricalFeature(name="sex", categories=("f", "m"))


def model_of(*features, sensitive=("sex",), label=("no", "yes"), weight=None, bias=0.0, **policies):
    """One layer that reads the sensitive values with weight 1, or the weights that are given."""
    domain = Domain(features=features, sensitive=sensitive, label=label and Label(name="y", classes=label), **policies)
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in features if f.kind in ("integer", "real")}
    encoding = Encoding(domain, scales, fill={f.name: f.low for f in features if f.kind == "integer" and f.missing})
    weight = np.ones((1, encoding.width)) if weight is None else np.array([weight], np.float32)
    return FairModel(Network((Layer(weight, np.array([bias])),)), encoding)


class Original:
    """Software that always answers the same, and keeps what it was asked."""

    def __init__(self, *answer):
        self.answer, self.asked = answer, []

    def decide(self, table):
        self.asked.append(table)
        return np.array(self.answer[: len(table)])


# --- who is it? ---


def test_a_person_is_held_between_the_ends_of_each_number():
    model = model_of(*NUMBERS, SEX)
    assert model.encoding.free_width == 8

    def person(n, r):
        return person_of(model, np.array([n, r, 3.0, 0.0, 1.0, 0.0, 1.0, 0.0]))

    for n, held in ((-2.0, -2), (-2.6, -2), (-7.0, -2), (4.4, 4), (9.0, 9), (9.6, 9), (70.0, 9)):
        found = person(n, 0.5)
        assert found["n"] == held and type(found["n"]) is int
    for r, held in ((0.1, 0.1), (0.1 - 2.0**-50, 0.1), (-3.0, 0.1), (0.5, 0.5), (0.7 + 2.0**-50, 0.7), (8.0, 0.7)):
        found = person(2.0, r)
        assert found["r"] == held and type(found["r"]) is float
    assert person(4.4, 0.5) == {"n": 4, "r": 0.5, "g": 3, "b": True, "c": "y"}


def test_a_gap_stays_a_gap_and_a_number_beside_it_is_whole():
    model = model_of(*NUMBERS, SEX)
    for number, gap, held in ((3.0, 1.0, None), (8.0, 1.0, None), (3.0, 0.0, 3), (8.0, 0.0, 5), (-1.0, 0.0, 0)):
        found = person_of(model, np.array([0.0, 0.5, number, gap, 0.0, 1.0, 0.0, 0.0]))["g"]
        assert found == held and type(found) is type(held)


def test_a_person_of_sensitive_values_alone_shares_nothing():
    assert person_of(model_of(SEX), np.zeros(0)) == {}
    real = model_of(RealFeature(name="s", low=0.0, high=1.0), sensitive=("s",))
    assert person_of(real, np.array([0.25, 0.75])) == {}  # u holds the codes of both twins only


def test_versions_have_the_sensitive_values_that_u_holds():
    listed = model_of(*NUMBERS, SEX)
    assert list(versions_at(listed, np.zeros(8)).values) == [("f",), ("m",)]
    real = model_of(NUMBERS[0], RealFeature(name="s", low=0.0, high=4.0), sensitive=("s",))
    spans = real.encoding.sensitive.spans
    free = twin_relation(real.encoding).free
    u = np.array([3.0, free.low[1], free.high[2]])
    assert list(versions_at(real, u).values) == [(spans[0].raw(u[1]),), (spans[0].raw(u[2]),)] == [(0.0,), (4.0,)]


def test_exact_inputs_are_those_of_the_raw_values():
    model = model_of(RealFeature(name="r", low=0.0, high=1.0), SEX)
    assert exact_input(model.encoding, {"r": 0.1}, 0)[0] == Fraction(0.1)
    one, other = (exact_input(model.encoding, {"r": 0.1}, version) for version in (0, 1))
    assert list(one) != list(other)
    swapped = Versions(model.domain).at([("m",), ("f",)])
    assert list(exact_input(model.encoding, {"r": 0.1}, 0, swapped)) == list(other)


# --- what do they get? ---


def test_twins_are_replayed_in_both_arithmetics():
    model = model_of(IntegerFeature(name="n", low=0, high=5), SEX, bias=-2.0)  # n ± 1 > 2
    found = replay(model, {"n": 2}, [0, 1])
    assert found.people == ({"n": 2, "sex": "f"}, {"n": 2, "sex": "m"}) and found.versions == (0, 1)
    assert found.decisions == {"float32": (0, 1), "real": (0, 1)} and found.unfair_in == ("float32", "real")
    assert replay(model, {"n": 5}, [0, 1]).decisions == {"float32": (1, 1), "real": (1, 1)}
    assert replay(model, {"n": 5}, [0, 1]).unfair_in == ()
    assert replay(model, {"n": 2}, [1, 0]).decisions["real"] == (1, 0)
    swapped = Versions(model.domain).at([("m",), ("f",)])
    assert replay(model, {"n": 2}, [0, 1], swapped).decisions == {"float32": (1, 0), "real": (1, 0)}
    assert model.replay([]) == Replay((), {})


def test_each_arithmetic_has_a_word_of_its_own():
    """relu(n ± 2⁻³⁰) − 2²⁰ where n = 2²⁰: float32 rounds the twins to one number, real arithmetic does not."""
    model = model_of(IntegerFeature(name="n", low=0, high=2**20), SEX)
    layers = (Layer(np.array([[1.0, 2.0**-30]]), np.zeros(1)), Layer(np.ones((1, 1)), np.array([-(2.0**20)])))
    model = replace(model, network=Network(layers))
    found = replay(model, {"n": 2**20}, [0, 1])
    assert found.decisions == {"float32": (0, 0), "real": (0, 1)} and found.unfair_in == ("real",)
    tanh = replace(model, network=Network(layers, "tanh"))
    assert set(replay(tanh, {"n": 2}, [0, 1]).decisions) == {"float32"}  # has no exact values


def mirrored(feature, rule):
    """A model whose twins also have the mirrored number."""
    model = model_of(feature, SEX)
    return replace(model, encoding=Encoding(model.domain.with_twins(rule), model.encoding.scales))


def test_people_are_shifted_to_where_their_twins_are_floats():
    model = mirrored(RealFeature(name="r", low=0.0, high=1.0), "r: -x+1")
    found = replay(model, {"r": 0.25}, range(4))
    assert [person["r"] for person in found.people] == [0.25, 0.25, 0.75, 0.75] and found.versions == (0, 1, 2, 3)
    between = replay(model, {"r": 2.0**-60}, range(4))  # 1 − 2⁻⁶⁰ lies between two floats
    assert [person["r"] for person in between.people] == [0.0, 0.0, 1.0, 1.0] and between.versions == (0, 1, 2, 3)


def test_versions_outside_the_domain_are_left_out():
    model = replace(mirrored(IntegerFeature(name="n", low=0, high=5), "n: -x+5"), original=Original(0, 1, 1, 0))
    assert [person["n"] for person in replay(model, {"n": 4}, range(4)).people] == [4, 4, 1, 1]
    found = replay(model, {"n": 7}, range(4))  # 5 − 7 is below the range
    assert [person["n"] for person in found.people] == [7, 7] and found.versions == (0, 1)
    assert replay(model, {"n": 7}, [2, 3]) == Replay((), {})


def test_the_original_is_asked_and_real_arithmetic_counts_where_it_agrees():
    model = model_of(IntegerFeature(name="n", low=0, high=5), SEX, bias=-2.0)
    for answer, arithmetics in (((0, 1), {"float32", "real"}), ((1, 0), {"float32"}), ((1, 1), {"float32"})):
        original = Original(*answer)
        found = replay(replace(model, original=original), {"n": 2}, [0, 1])
        assert found.decisions["float32"] == answer and set(found.decisions) == arithmetics
        assert all(type(decision) is int for decided in found.decisions.values() for decision in decided)
        [table] = original.asked
        assert table.to_dict("list") == {"n": [2, 2], "sex": ["f", "m"]} and list(table) == list(model.domain.names)


# --- what is shown? ---


def test_only_twins_who_differ_are_reported():
    model = model_of(IntegerFeature(name="n", low=0, high=5), SEX, bias=-2.0)
    alike = replay(model, {"n": 5}, [0, 1])
    for found in (alike, Replay((), {}), Replay(alike.people, {"float32": (1, 1), "real": (0, 0)})):
        with pytest.raises(AssertionError, match="get the same decision were reported as a counterexample"):
            falsified(model, found, engine="search", reason="")


@pytest.mark.parametrize(("label", "shown"), [(("no", "yes"), ["no", "yes"]), (None, [0, 1])])
def test_a_falsified_verdict_shows_the_decisions_of_the_arithmetic_that_differs(label, shown):
    model = model_of(IntegerFeature(name="n", low=0, high=5), SEX, bias=-2.0, label=label)
    people = replay(model, {"n": 2}, [0, 1]).people
    for decisions, arithmetic in (
        ({"float32": (0, 1), "real": (0, 1)}, ("float32", "real")),
        ({"float32": (1, 1), "real": (0, 1)}, ("real",)),
        ({"float32": (0, 1), "real": (1, 1)}, ("float32",)),
    ):
        verdict = falsified(model, Replay(people, decisions), engine="search", reason="found", boxes=3)
        assert (verdict.answer, verdict.proof, verdict.engine) == ("falsified", "none", "search")
        assert verdict.arithmetic == arithmetic and verdict.decisions == shown
        assert (verdict.reason, verdict.boxes, verdict.twins) == ("found", 3, [dict(person) for person in people])
