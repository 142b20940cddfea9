"""The certified tolerance: never above what counting out finds, and of use."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, RealFeature
from bornfair.proof.bundle import FairModel
from bornfair_bench import tolerance
from bornfair_bench.tolerance import Tolerance, certified_tolerance
from brute_force import random_model, truth
from oracle import exact_scores

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)


def scaled(model: FairModel, factor: float) -> FairModel:
    """The model with V times a factor."""
    first = model.network.layers[0]
    weight = first.weight.astype(np.float64)
    weight[:, model.encoding.free_width :] *= factor
    layers = (Layer(weight, first.bias), *model.network.layers[1:])
    return dataclasses.replace(model, network=Network(layers, model.network.activation))


def everybody(model: FairModel) -> list[list[Fraction]]:
    """The inputs of all people with the mean code, which is 0."""
    features, sensitive = model.domain.free_features, model.domain.sensitive_features
    someone = {feature.name: feature.levels()[0] for feature in sensitive}
    rows = itertools.product(*(feature.levels() for feature in features))
    people = [dict(zip((f.name for f in features), row, strict=True)) | someone for row in rows]
    free = model.encoding.free_width
    return [[*model.encoding.exact(p)[:free], *[Fraction(0)] * model.encoding.sensitive_width] for p in people]


def least_margin(model: FairModel) -> Fraction:
    found = []
    for inputs in everybody(model):
        scores = exact_scores(model.network, inputs)
        best = sorted(scores, reverse=True)
        found.append(abs(scores[0]) if len(scores) == 1 else best[0] - best[1])
    return min(found)


def largest_move(model: FairModel) -> Fraction:
    weights = model.network.sensitive_weights(model.encoding.free_width).tolist()
    sums = [
        sum((Fraction(w) * Fraction(c) for w, c in zip(row, code, strict=True)), Fraction(0))
        for row in weights
        for code in model.encoding.codes.tolist()
    ]
    return max(map(abs, sums))


# --- it is never wrong ---


@settings(max_examples=60)
@given(SEEDS, st.sampled_from([1.0, 0.1, 1e-3, 1e-6]))
def test_whoever_is_within_the_tolerance_is_fair(seed, factor):
    model = scaled(random_model(seed), factor)
    found = certified_tolerance(model)
    assert 0 <= found.margin <= least_margin(model)
    assert found.margin >= float(least_margin(model)) * 0.999 - 1e-6 * found.gain
    assert found.actual >= largest_move(model) >= found.actual * 0.999
    if found.holds:
        assert not truth(model).real


@settings(max_examples=60)
@given(SEEDS)
def test_just_below_what_is_allowed_everybody_is_fair(seed):
    model = random_model(seed)
    found = certified_tolerance(model)
    if not 0 < found.allowed < math.inf or found.actual == 0:
        return
    below = scaled(model, 0.999 * found.allowed / found.actual)
    assert certified_tolerance(below).holds and not truth(below).real


# --- what it says ---

TWO = Domain(features=(IntegerFeature(name="n", low=0, high=3), BooleanFeature(name="s")), sensitive=("s",))


def counting(v: float, bias: float = -3.0, domain: Domain = TWO) -> FairModel:
    """2·max(n + v·s, 0) + bias, with s = ±1."""
    layers = Layer(np.array([[1.0, v]]), np.zeros(1)), Layer(np.array([[2.0]]), np.array([bias]))
    return FairModel(Network(layers), Encoding(domain, {"n": Scale(centre=0.0, exponent=0)}))


def test_far_above_the_tolerance_counting_out_finds_unfair_people():
    assert certified_tolerance(counting(0.49)).holds and not truth(counting(0.49)).real
    found = certified_tolerance(counting(0.6))
    assert not found.holds and truth(counting(0.6)).real
    assert found.allowed == pytest.approx(0.5) and found.actual == pytest.approx(0.6) and found.gain == 2.0


def test_somebody_on_the_edge_leaves_no_room():
    edge = certified_tolerance(counting(1e-20, bias=-2.0))  # n = 1 scores 0
    assert (edge.margin, edge.allowed, edge.holds) == (0.0, 0.0, False)
    assert truth(counting(1e-20, bias=-2.0)).real
    assert certified_tolerance(counting(0.0, bias=-2.0)).holds  # V = 0 needs none


def test_a_decision_that_no_sum_reaches_tolerates_everything():
    layers = Layer(np.array([[1.0, 5.0]]), np.zeros(1)), Layer(np.array([[0.0]]), np.array([1.0]))
    found = certified_tolerance(FairModel(Network(layers), counting(0.0).encoding))
    assert (found.gain, found.allowed, found.holds) == (0.0, math.inf, True)


def test_codes_that_are_not_centred_are_measured_from_their_mean():
    """Raw numbers, as other people's networks read them: 7 and 8 move the sum by half their distance each way."""
    domain = Domain(
        features=(IntegerFeature(name="n", low=0, high=3), IntegerFeature(name="s", low=7, high=8)), sensitive=("s",)
    )
    layers = Layer(np.array([[1.0, 0.25]]), np.array([-1.875])), Layer(np.array([[2.0]]), np.array([-3.0]))
    found = certified_tolerance(Model(Network(layers), Encoding.of_raw_numbers(domain)))
    assert found.actual == 0.125 and found.margin == pytest.approx(1.0) and found.holds


def test_all_people_of_large_domains_are_looked_at(monkeypatch):
    """In batches, with every kind of feature; the one who is close is the last."""
    monkeypatch.setattr(tolerance, "BATCH", 7)
    features = (IntegerFeature(name="n", low=0, high=9), CategoricalFeature(name="c", categories=("x", "y", "z")))
    domain = Domain(features=(*features, BooleanFeature(name="b"), BooleanFeature(name="s")), sensitive=("s",))
    first = Layer(np.array([[10.0, 0, 1, 2, 3, 0.125]]), np.zeros(1))
    network = Network((first, Layer(np.array([[1.0]]), np.array([-94.75]))))
    found = certified_tolerance(FairModel(network, Encoding(domain, {"n": Scale(centre=0.0, exponent=0)})))
    assert found.margin == pytest.approx(0.25)  # 90 + 2 + 3 against 94.75


@pytest.mark.parametrize(
    ("feature", "sensitive", "words"),
    [
        (RealFeature(name="n", low=0.0, high=3.0), BooleanFeature(name="s"), "'n' may be any real number"),
        (IntegerFeature(name="n", low=0, high=3), RealFeature(name="s", low=0.0, high=1.0), "'s' may be any real"),
        (IntegerFeature(name="n", low=0, high=2_000_000), BooleanFeature(name="s"), "2,000,001 people are more"),
    ],
)
def test_domains_that_cannot_be_counted_out_are_refused(feature, sensitive, words):
    domain = Domain(features=(feature, sensitive), sensitive=("s",))
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in (feature, sensitive) if f.kind != "boolean"}
    with pytest.raises(InputError, match=words):
        certified_tolerance(FairModel(counting(0.1).network, Encoding(domain, scales)))


def test_other_questions_are_refused():
    ruled = TWO.with_twins(["n: -x+3"])
    with pytest.raises(InputError, match="declared twins as different people"):
        certified_tolerance(counting(0.1, domain=ruled))
    broken = Network((Layer(np.array([[1.0, np.nan]]), np.zeros(1)), counting(0.1).network.layers[1]))
    with pytest.raises(InputError, match="layer 0 of the network holds NaN"):
        certified_tolerance(FairModel(broken, counting(0.1).encoding))
    nobody = Domain(features=TWO.features)
    with pytest.raises(InputError):
        certified_tolerance(counting(0.1, domain=nobody))


def test_a_sum_that_overflows_is_no_margin():
    layers = Layer(np.full((2, 2), 3e38), np.zeros(2)), *(Layer(np.full((2, 2), 3e38), np.zeros(2)),) * 40
    network = Network((*layers, Layer(np.ones((1, 2)), np.zeros(1))))
    assert certified_tolerance(FairModel(network, counting(0.0).encoding)).margin == 0.0


def test_a_tolerance_holds_where_v_is_zero_or_below_what_is_allowed():
    assert Tolerance(0.0, 1.0, 0.0, 0.0).holds and Tolerance(1.0, 1.0, 1.0, 0.5).holds
    assert not Tolerance(1.0, 1.0, 1.0, 1.0).holds and not Tolerance(0.0, 1.0, 0.0, 1e-300).holds
