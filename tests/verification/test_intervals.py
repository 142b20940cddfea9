"""Interval bounds: sound in both arithmetics, tight for one-hot groups, honest at the edge."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.models.network.activations import ACTIVATIONS, GELU_LEAST, GELU_TURN
from bornfair.models.network.bounds import intervals
from bornfair.models.network.bounds.intervals import prove_by_intervals
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.structural import prove_structurally
from bornfair.models.rounding import EXECUTIONS
from bornfair.people.twins.relation import FreeSpace, Relation, View
from oracle import (
    STYLES,
    disagreeing_twins,
    everybody,
    exact_inputs,
    exact_scores,
    float32_inputs,
    machines,
    output_bounds,
    refutes,
    small_network,
    small_relation,
)

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)


def box(low: list[float], high: list[float], codes: list[list[float]], groups: tuple[slice, ...] = ()) -> Relation:
    """Views of [u, code] with u between low and high."""
    free, sensitive = len(low), len(codes[0])
    offsets = np.zeros((len(codes), free + sensitive))
    offsets[:, free:] = codes
    step = np.zeros(free)
    for group in groups:
        step[group] = 1
    space = FreeSpace(np.array(low, float), np.array(high, float), step, groups)
    return Relation(tuple(View(np.eye(free + sensitive, free), offset) for offset in offsets), space)


def linear(weight: list[float], bias: float) -> Network:
    return Network((Layer(np.array([weight]), np.array([bias])),))


def next_float32(value: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(np.inf)))


# --- never wrong ---


@settings(deadline=None, max_examples=250)
@given(SEEDS, st.sampled_from(STYLES), st.integers(1, 3))
def test_no_unfair_network_is_verified_in_either_arithmetic(seed, style, outputs):
    rng = np.random.default_rng(seed)
    relation = small_relation(rng)
    network = small_network(rng, relation, style, outputs)
    verdict = prove_by_intervals(network, relation)
    if verdict:
        assert refutes(network, relation, verdict.arithmetic, seed % 1000) is None


def test_brute_force_has_both_proofs_and_refutations_to_judge():
    """Guards the property tests against being empty: all three outcomes are common among their cases."""
    proven = refuted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        relation = small_relation(rng)
        network = small_network(rng, relation, STYLES[seed % len(STYLES)], 1 + seed % 3)
        if prove_by_intervals(network, relation):
            proven += 1
        elif disagreeing_twins(network, relation):
            refuted += 1
    assert proven >= 8
    assert refuted >= 8


@settings(deadline=None, max_examples=100)
@given(SEEDS, st.sampled_from(STYLES), st.integers(1, 3))
def test_bounds_contain_every_output(seed, style, outputs):
    """Exact outputs within the real bounds; float32 outputs, in any order on any machine, within the float32 bounds."""
    rng = np.random.default_rng(seed)
    relation = small_relation(rng)
    network = small_network(rng, relation, style, outputs)
    real, executed = output_bounds(network, relation), output_bounds(network, relation, "float32")
    for person in list(everybody(relation.free))[::3]:
        for i, view in enumerate(relation.views):
            for k, score in enumerate(exact_scores(network, exact_inputs(view, person))):
                assert real[0][i, k] == -math.inf or Fraction(real[0][i, k]) <= score <= Fraction(real[1][i, k])
            for machine in machines(seed % 1000):
                scores = machine.scores(network, float32_inputs(view, person)).astype(np.float64)
                if np.isfinite(executed[0]).all():
                    assert (executed[0][i] <= scores).all()
                    assert (scores <= executed[1][i]).all()


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]), st.integers(1, 3))
def test_bounds_contain_what_jax_computes(seed, activation, outputs):
    rng = np.random.default_rng(seed)
    relation = box([-3, -1, 0, 0], [2, 4, 1, 1], [[-1.0], [1.0]], (slice(2, 4),))
    scale = 10.0 ** rng.uniform(-1, 1)
    layers = [Layer(scale * rng.normal(size=(b, a)), rng.normal(size=b)) for a, b in [(5, 7), (7, 6), (6, outputs)]]
    network = Network(tuple(layers), activation)
    free = rng.uniform(relation.free.low, relation.free.high, (200, 4))
    free[:, 2:] = np.eye(2)[rng.integers(0, 2, 200)]
    low, high = output_bounds(network, relation, "float32")
    for i, view in enumerate(relation.views):
        scores = network.scores(view(free)).astype(np.float64)
        assert (low[i] <= scores).all()
        assert (scores <= high[i]).all()


def test_bounds_of_general_matrices_contain_exact_outputs():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        space = FreeSpace(np.array([-1.0, 0, 0]), np.array([2.0, 1, 1]), np.array([0.0, 1, 1]), (slice(1, 3),))
        views = tuple(View(rng.normal(size=(4, 3)), rng.normal(size=4)) for _ in range(3))
        relation = Relation(views, space)
        network = Network((Layer(rng.normal(size=(3, 4)), rng.normal(size=3)), Layer(rng.normal(size=(1, 3)), [0.1])))
        low, high = output_bounds(network, relation)
        for person in everybody(space, reals=5):
            for i, view in enumerate(views):
                (score,) = exact_scores(network, exact_inputs(view, person))
                assert Fraction(low[i, 0]) <= score <= Fraction(high[i, 0])


# --- adversarial floats ---


def test_one_unit_in_the_last_place_above_zero_is_not_below_it():
    """The largest logit, at u = 1 and code 1, is 0.1 + 0.2 + bias exactly."""
    relation = box([0], [1], [[-1], [1]])
    tenth, fifth = float(np.float32(0.1)), float(np.float32(0.2))
    bias = float(np.float32(-(tenth + fifth)))
    for _ in range(4):
        network = linear([tenth, fifth], bias)
        truly_constant = Fraction(tenth) + Fraction(fifth) + Fraction(bias) <= 0
        if not truly_constant:
            assert disagreeing_twins(network, relation)
            assert not prove_by_intervals(network, relation)
        bias = next_float32(bias)
    far = linear([tenth, fifth], -0.31)
    assert prove_by_intervals(far, relation).arithmetic == ("real", "float32")


def test_constant_far_above_the_signal_hides_nothing_in_real_arithmetic():
    """relu(1e8 + s) − relu(1e8) is s, although float32 computes 0 and float64 with an unlucky order could too."""
    first = Layer(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([1e8, 1e8]))
    network = Network((first, Layer(np.array([[1.0, -1.0]]), np.zeros(1))))
    relation = box([0], [1], [[-1], [1]])
    assert disagreeing_twins(network, relation)
    assert not prove_by_intervals(network, relation)


def test_real_proof_is_not_sold_as_float32_proof():
    """Fair in real arithmetic (the logit is at least 0.6), unfair in float32, where 1e8 + 4.4 is 1e8 + 8."""
    first = Layer(np.array([[0.0, 2.2], [0.0, 0.0]]), np.array([1e8, 1e8]))
    network = Network((first, Layer(np.array([[-1.0, 1.0]]), np.array([5.0]))))
    relation = box([0], [1], [[0], [2]])
    assert disagreeing_twins(network, relation, machines(0)[0])
    verdict = prove_by_intervals(network, relation)
    assert verdict
    assert verdict.arithmetic == ("real",)
    assert "float32" in verdict.reason


def test_subnormal_logits_are_flushed_on_some_machines():
    tiny = 2.0**-149
    relation = box([0], [1], [[-1], [1]])
    assert not prove_by_intervals(linear([0, tiny], 0), relation)
    assert prove_by_intervals(linear([0, 0], tiny), relation).arithmetic == ("real",)
    assert prove_by_intervals(linear([0, tiny], 2.0**-100), relation).arithmetic == ("real", "float32")


def test_overflow_leaves_float32_undecided():
    """1e38·10 overflows to infinity in float32, and infinity − infinity is NaN; real arithmetic minds neither."""
    layers = (Layer(np.array([[1e38, 0], [1e38, 0]]), np.zeros(2)), Layer(np.array([[1.0, -1.0]]), np.array([1.0])))
    relation = box([10], [10], [[-1], [1]])
    low, high = output_bounds(Network(layers), relation, "float32")
    assert (low == -np.inf).all()
    assert (high == np.inf).all()
    assert prove_by_intervals(linear([1e38, 0], 1.0), relation).arithmetic == ("real",)
    assert "overflow" in prove_by_intervals(linear([1e38, 0], 1.0), relation).reason
    deep = Network((*(Layer(np.array([[3e38, 3e38], [3e38, 3e38]]), np.zeros(2)),) * 9, layers[1]))
    assert "overflow" in prove_by_intervals(deep, relation).reason
    assert "input may overflow" in prove_by_intervals(linear([1e-30, 0], 1.0), box([0], [1e300], [[0], [1]])).reason


def test_input_is_rounded_on_its_way_to_float32():
    """u = 1/3 becomes a float32 slightly above 1/3; the exact logit is below 0, the executed one above."""
    third = 1 / 3
    bias = -float(np.nextafter(np.float32(third), np.float32(0)))
    relation = box([third], [third], [[0], [0]])
    network = linear([1, 0], bias)
    low, high = output_bounds(network, relation, "float32")
    executed = float(machines(0)[0].scores(network, np.float32([third, 0]))[0])
    assert low[0, 0] <= executed <= high[0, 0]
    assert not prove_by_intervals(network, relation) or executed > 0


# --- tightness ---


def test_one_hot_groups_are_bounded_by_their_members_not_their_sum():
    """Three categories worth 1 each, bias −2: the box [0,1]³ reaches +1, but exactly one category is on."""
    network = linear([1, 1, 1, 0.5], -2)
    codes = [[-1.0], [1.0]]
    grouped, loose = box([0, 0, 0], [1, 1, 1], codes, (slice(0, 3),)), box([0, 0, 0], [1, 1, 1], codes)
    assert prove_by_intervals(network, grouped).arithmetic == ("real", "float32")
    assert not prove_by_intervals(network, loose)
    low, high = output_bounds(network, grouped)
    np.testing.assert_allclose(np.concatenate([low, high], axis=1), [[-1.5, -1.5], [-0.5, -0.5]], rtol=1e-12)


def test_categories_a_part_of_the_space_excludes_do_not_count():
    network = linear([5, 1, -3, 0], 0)
    without_first = box([0, 0, 0], [0, 1, 1], [[0.0]], (slice(0, 3),))
    low, high = output_bounds(network, without_first)
    np.testing.assert_allclose([low[0, 0], high[0, 0]], [-3, 1], rtol=1e-12)
    only_first = box([1, 0, 0], [1, 1, 1], [[0.0]], (slice(0, 3),))
    low, high = output_bounds(network, only_first)
    np.testing.assert_allclose([low[0, 0], high[0, 0]], [5, 5], rtol=1e-12)
    with pytest.raises(InputError, match=r"one-hot group 0…2 can be 1"):
        output_bounds(network, box([0, 0, 0], [0, 0, 0], [[0.0]], (slice(0, 3),)))


def test_outputs_that_share_a_signal_are_compared_by_their_difference():
    """Both outputs follow 10u; their own bounds overlap, their difference is always 0.25."""
    last = Layer(np.array([[10.0], [10.0]]), np.array([0.25, 0.0]))
    network = Network((Layer(np.array([[1.0, 0.5]]), np.zeros(1)), last))
    relation = box([0], [1], [[-1], [1]])
    low, high = output_bounds(network, relation)
    assert low[0, 0] < high[0, 1]
    assert prove_by_intervals(network, relation).arithmetic == ("real", "float32")


def test_shared_signal_is_rounded_separately_in_each_float32_output():
    """Output 1 leads by 0.25, which float32 loses beside 1e8: then both are equal and class 0 is decided."""
    last = Layer(np.array([[1e8], [1e8]]), np.array([0.0, 0.25]))
    network = Network((Layer(np.array([[0.0, 1.0]]), np.zeros(1)), last))
    relation = box([0], [1], [[0], [1]])
    assert disagreeing_twins(network, relation) is None
    assert disagreeing_twins(network, relation, machines(0)[0])
    assert prove_by_intervals(network, relation).arithmetic == ("real",)


def test_a_tie_is_not_a_lead():
    """Output 1 leads at code −1 and ties at code 1, where class 0 is decided."""
    relation = box([0], [1], [[-1], [1]])
    network = Network((Layer(np.array([[0.0, 0.0], [0.0, -1.0]]), np.array([0.0, 1.0])),))
    assert disagreeing_twins(network, relation)
    verdict = prove_by_intervals(network, relation)
    assert not verdict
    assert "the lead of output 1 over output 0 may be as low as" in verdict.reason
    assert prove_by_intervals(Network((Layer(network.layers[0].weight, np.array([0.0, 1.01])),)), relation)


def test_views_that_are_each_constant_but_differ_are_not_fair():
    verdict = prove_by_intervals(linear([0.1, 1], 0), box([0], [1], [[-1], [1]]))
    assert verdict.answer == "undecided"
    assert "allow both decisions" in verdict.reason


def test_views_bounded_apart_prove_what_their_hull_cannot():
    """The hull of both views lets the two code columns vary apart; each view by itself gives the logit 0.5."""
    first = Layer(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros(2))
    network = Network((first, Layer(np.array([[1.0, -1.0]]), np.array([0.5]))))
    relation = box([0], [1], [[0, 0], [1, 1]])
    assert intervals._why_sign_varies(network, relation, "real", hull=True)
    assert prove_by_intervals(network, relation).arithmetic == ("real", "float32")
    assert not prove_structurally(network, relation)


def test_many_views_are_bounded_in_parts(monkeypatch):
    rng = np.random.default_rng(3)
    network = Network((Layer(rng.normal(size=(5, 2)), rng.normal(size=5)), Layer(rng.normal(size=(3, 5)), [0, 0, 9.0])))
    relation = box([0], [1], [[c] for c in np.linspace(-1, 1, 40)])
    whole, verdict = output_bounds(network, relation), prove_by_intervals(network, relation)
    monkeypatch.setattr(intervals, "CHUNK", 20)
    np.testing.assert_allclose(np.array(output_bounds(network, relation)), np.array(whole), rtol=1e-12)
    assert prove_by_intervals(network, relation).answer == verdict.answer
    # Views that disagree only across parts are still seen.
    assert not prove_by_intervals(linear([0, 1], -0.9), relation)


# --- activations ---


@settings(deadline=None)
@given(
    st.floats(-9, 9),
    st.floats(0, 4),
    st.sampled_from(["tanh", "sigmoid", "gelu"]),
    st.sampled_from(["real", "float32"]),
)
def test_activations_are_enclosed_and_tight(low, width, activation, arithmetic):
    def exact(x: float) -> float:
        if activation == "sigmoid":
            return 1 / (1 + math.exp(-x))
        return math.tanh(x) if activation == "tanh" else 0.5 * x * math.erfc(-x / math.sqrt(2))

    ends = np.array([[low]]), np.array([[low + width]])
    record, execution = ACTIVATIONS[activation], EXECUTIONS[arithmetic]
    below, above = record.image(np, *ends, record.error(execution), execution.floor)
    values = [exact(x) for x in np.linspace(low, low + width, 41)]
    assert below[0, 0] <= min(values)
    assert max(values) <= above[0, 0]
    assert below[0, 0] >= min(values) - 0.01 * width - 1e-4
    assert above[0, 0] <= max(values) + 1e-4


def test_gelu_turns_where_we_say_and_nowhere_below_what_we_say():
    def slope(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2)) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    before, after = GELU_TURN
    assert slope(before) < -1e-6
    assert slope(after) > 1e-6
    # At the turn the value is at least g(before) minus what a slope of slope(before) loses on the way.
    at_before = 0.5 * before * math.erfc(-before / math.sqrt(2))
    assert at_before + slope(before) * (after - before) > GELU_LEAST + 1e-6


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu"])
def test_float32_activations_err_by_less_than_a_third_of_what_we_allow(activation):
    """The pads are assumptions about libraries; this watches the one we ship with."""
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.geomspace(1e-30, 1e4, 50_000)]).astype(np.float32)
    x = x[x != 0]
    record, wide = ACTIVATIONS[activation], x.astype(np.float64)
    executed = np.asarray(record.jax(x)).astype(np.float64)
    exact = record.value(np, wide)
    size = {"tanh": np.abs(exact), "sigmoid": 1.0, "gelu": np.abs(wide)}[activation]
    assert (np.abs(executed - exact) / size).max() < record.machine_error / 3


def test_numbers_that_are_not_finite_have_no_bounds():
    low, high = output_bounds(linear([np.nan, 0], 1), box([0], [1], [[0], [1]]))
    assert (low == -np.inf).all()
    assert (high == np.inf).all()
    assert "NaN" in prove_by_intervals(linear([np.nan, 0], 1), box([0], [1], [[0], [1]])).reason
