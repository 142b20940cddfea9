"""The structural proof: exact, fast, and never about more than it shows."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.models.network import structural
from bornfair.models.network.bounds.exact import whole_numbers
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.structural import confirm, confirm_encoded, prove_structurally, prove_zero_weights
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature, Label
from bornfair.people.twins.relation import FreeSpace, Relation, View
from bornfair.proof import checker
from bornfair.proof.bundle import FairModel, bundle_files
from oracle import STYLES, exact_inputs, refutes, small_network, small_relation

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)


def flips(codes: np.ndarray, free: int = 2) -> Relation:
    """Views of [u, code] with u in [0, 1]."""
    codes = np.asarray(codes, np.float64)
    width = free + codes.shape[1]
    offsets = np.zeros((len(codes), width))
    offsets[:, free:] = codes
    embed = np.eye(width, free)
    space = FreeSpace(np.zeros(free), np.ones(free), np.zeros(free), ())
    return Relation(tuple(View(embed, offset) for offset in offsets), space)


def network(first: list[list[float]], bias: float = 0.0, last: float = 1.0) -> Network:
    weight = np.array(first)
    return Network((Layer(weight, np.full(len(weight), bias)), Layer(np.full((1, len(weight)), last), np.zeros(1))))


SEX = flips([[-1], [1]])


# --- what it proves ---


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zero_sensitive_weights_are_fair_in_both_arithmetics(zero):
    verdict = prove_structurally(network([[1, 2, zero], [3, -4, zero]]), SEX)
    assert verdict
    assert (verdict.proof, verdict.arithmetic) == ("structural", ("real", "float32"))


@pytest.mark.parametrize("tiny", [1e-9, 1e-44])
def test_one_tiny_sensitive_weight_is_not_zero(tiny):
    verdict = prove_structurally(network([[1, 2, 0], [3, -4, tiny]]), SEX)
    assert verdict.answer == "undecided"
    assert "neuron 1" in verdict.reason
    assert "views 0 and 1" in verdict.reason


def test_reason_names_the_first_view_that_differs():
    relation = flips([[0.5], [0.5], [0.5], [0.25]])
    assert "neuron 0 responds differently to views 0 and 3" in prove_structurally(network([[1, 1, 1]]), relation).reason


def test_weights_that_cancel_are_fair_in_real_arithmetic_only():
    twice = flips([[-1, -1], [1, 1]])
    verdict = prove_structurally(network([[1, 2, 0.1, -0.1]]), twice)
    assert verdict
    assert verdict.arithmetic == ("real",)
    # 0.1 and the next float32 differ by 7e-9: no longer an exact cancellation.
    nearly = network([[1, 2, 0.1, -np.nextafter(np.float32(0.1), np.float32(1))]])
    assert prove_structurally(nearly, twice).answer == "undecided"


def test_cancellation_is_exact_where_float64_would_lose_it():
    """1e30·1 + 1·1 − 1e30·1 is 1, which float64 computes as 0."""
    big = float(np.float32(1e30))
    relation = flips([[0, 0, 0], [1, 1, 1]])
    assert prove_structurally(network([[1, 1, big, 1, -big]]), relation).answer == "undecided"
    assert prove_structurally(network([[1, 1, big, 0, -big]]), relation).arithmetic == ("real",)


def test_permuted_columns_are_fair_when_weights_are_symmetric():
    """The geometry of a declared swap: view 1 exchanges columns 0 and 1, and negates the code."""
    swap = np.zeros((4, 3))
    swap[[0, 1, 2], [1, 0, 2]] = 1
    space = FreeSpace(np.zeros(3), np.ones(3), np.ones(3), (slice(0, 2),))
    views = (View(np.eye(4, 3), np.array([0.0, 0, 0, 1])), View(swap, np.array([0.0, 0, 0, -1])))
    relation = Relation(views, space)
    symmetric = prove_structurally(network([[0.3, 0.3, 5, 0], [1, 1, -2, 0]]), relation)
    assert symmetric
    assert symmetric.arithmetic == ("real",)
    blind = prove_structurally(network([[0, 0, 5, 0], [0, 0, -2, 0]]), relation)
    assert blind.arithmetic == ("real", "float32")
    asymmetric = prove_structurally(network([[0.3, 0.3, 5, 0], [1, 2, -2, 0]]), relation)
    assert "neuron 1 responds differently to views 0 and 1" in asymmetric.reason


def test_one_view_alone_is_fair():
    assert prove_structurally(network([[1, 2, 3]]), flips([[1]]))


@settings(deadline=None, max_examples=200)
@given(SEEDS)
def test_structural_proof_is_equality_of_functions(seed):
    """Against fractions, with general matrices and numbers that cancel often: verified exactly when all views agree."""
    rng = np.random.default_rng(seed)
    free, inputs = int(rng.integers(1, 4)), int(rng.integers(1, 5))
    scale = 2.0 ** rng.integers(-160, 20)
    views = tuple(
        View(rng.integers(-1, 2, (inputs, free)) * scale, rng.integers(-1, 2, inputs) * scale)
        for _ in range(int(rng.integers(1, 4)))
    )
    weight = rng.integers(-1, 2, (int(rng.integers(1, 3)), inputs)) * rng.choice([1e-3, 7.0])
    relation = Relation(views, FreeSpace(np.zeros(free), np.ones(free), np.zeros(free), ()))
    candidate = network(weight.tolist())
    corners = [tuple(map(Fraction, corner)) for corner in itertools.product((0, 1), repeat=free)]
    first = Network(candidate.layers[:1])

    def response(view: View) -> list[list[Fraction]]:
        rows = first.layers[0].weight.tolist()
        return [
            [sum(Fraction(w) * x for w, x in zip(row, exact_inputs(view, u), strict=True)) for row in rows]
            for u in corners
        ]

    same = all(response(view) == response(views[0]) for view in views)
    assert bool(prove_structurally(candidate, relation)) == same


# --- behind the first layer ---


def layered(*layers: tuple[list[list[float]], list[float]], activation: str = "relu") -> Network:
    """A network from rows of weights and biases; two free inputs and the code, as `SEX` shows them."""
    return Network(tuple(Layer(np.array(w, float), np.array(b, float)) for w, b in layers), activation)


def both_ways(candidate: Network, free_width: int = 2) -> tuple[tuple[str, ...], str]:
    """What is proven with a list of the views and without one, which must be the same; and the reason."""
    listed = prove_structurally(candidate, SEX)
    unlisted = prove_zero_weights(candidate, free_width, np.ones(3))
    assert listed.arithmetic == unlisted.arithmetic
    return listed.arithmetic, listed.reason


READS = [[1.0, 2, 0], [3, -1, 5], [-1, 1, 0]]  # the second neuron reads the code


def test_a_neuron_that_nobody_reads_is_a_dead_end():
    candidate = layered((READS, [0, 1, 0]), ([[1, 0, 2], [2, -0.0, 1]], [0, 0]), ([[1, -1]], [0]))
    assert both_ways(candidate) == (
        ("real", "float32"),
        "from layer 2 of 3 on no neuron depends on what differs between twins",
    )
    assert refutes(candidate, SEX, ("real", "float32"), 0) is None
    read = layered((READS, [0, 1, 0]), ([[1, 1e-30, 2], [2, 0, 1]], [0, 0]), ([[1, -1]], [0]))
    assert both_ways(read)[0] == ()
    assert "neuron 1 responds differently to views 0 and 1" in both_ways(read)[1]


def test_the_neuron_named_is_one_that_reaches_the_outputs():
    candidate = layered(([[1, 2, 7], [3, -1, 5]], [0, 0]), ([[0, 1]], [0]))
    assert "neuron 1 responds" in prove_structurally(candidate, SEX).reason
    assert "neuron 1 reads the sensitive codes" in prove_zero_weights(candidate, 2).reason


def test_a_dead_end_may_be_several_layers_long():
    candidate = layered(
        (READS, [0, 1, 0]), ([[1, 0, 2], [0, 1, 1]], [0, 0]), ([[1, 0], [1, 0]], [0, 1]), ([[1, -1]], [0])
    )
    arithmetic, reason = both_ways(candidate)
    assert arithmetic == ("real", "float32") and reason.startswith("from layer 3 of 4 on")


def test_a_relu_that_is_off_for_everybody_passes_nothing_on():
    shut = layered((READS, [0, 1, 0]), ([[-1, -2, 0], [1, 0, 1]], [0, 0]), ([[3, -1]], [0.5]))
    assert both_ways(shut)[0] == ("real", "float32")
    assert refutes(shut, SEX, ("real", "float32"), 0) is None
    for above, bias in ((1e-9, 0), (0, 1e-9)):
        ajar = layered((READS, [0, 1, 0]), ([[-1, -2, above], [1, 0, 1]], [bias, 0]), ([[3, -1]], [0.5]))
        assert both_ways(ajar)[0] == ()
    smooth = layered((READS, [0, 1, 0]), ([[-1, -2, 0], [1, 0, 1]], [0, 0]), ([[3, -1]], [0.5]), activation="tanh")
    assert both_ways(smooth)[0] == ()
    outputs = layered((READS, [0, 1, 0]), ([[-1, -2, 0]], [0]))  # an output has no relu
    assert both_ways(outputs)[0] == ()


TWO_ALIKE = [[3.0, -1, 5], [1, 2, 0], [3, -1, 5]]


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
def test_neurons_that_are_one_function_cancel_in_real_arithmetic_only(activation):
    candidate = layered((TWO_ALIKE, [1, 0, 1]), ([[0.1, 1, -0.1]], [-0.5]), activation=activation)
    arithmetic, reason = both_ways(candidate)
    assert arithmetic == ("real",)
    assert reason == (
        "from layer 2 of 2 on no neuron depends on what differs between twins: weights on it cancel exactly"
    )
    near = np.nextafter(np.float32(0.1), np.float32(1))
    for rows, biases, out in (
        (TWO_ALIKE, [1, 0, 1], [0.1, 1, -near]),
        (TWO_ALIKE, [1, 0, np.nextafter(np.float32(1), np.float32(2))], [0.1, 1, -0.1]),
        ([[3, -1, 5], [1, 2, 0], [3, -1, np.nextafter(np.float32(5), np.float32(9))]], [1, 0, 1], [0.1, 1, -0.1]),
    ):
        assert both_ways(layered((rows, biases), ([out], [-0.5]), activation=activation))[0] == ()


def test_a_multiple_of_a_relu_is_a_relu_and_of_another_activation_nothing():
    rows, tenth = [[0.75, -0.25, 1.25], [1, 2, 0], [3, -1, 5]], float(np.float32(0.1))  # the third is 4 times the first
    layers = (rows, [0.25, 0, 1]), ([[-4 * tenth, 1, tenth]], [-0.5])
    assert both_ways(layered(*layers))[0] == ("real",)
    assert refutes(layered(*layers), SEX, ("real",), 0) is None
    assert both_ways(layered(*layers, activation="tanh"))[0] == ()
    turned = layered(([*rows[:2], [-3, 1, -5]], [0.25, 0, -1]), layers[1])  # −4 times: the other side of the kink
    assert both_ways(turned)[0] == ()
    sides = [[3, -1, 5], [3, -1, 5], [-3, 1, -5], [-3, 1, -5]], [1, 1, -1, -1]
    assert both_ways(layered(sides, ([[1, 0, 1, 0]], [-1])))[0] == ()  # |z| is not 0
    assert both_ways(layered(sides, ([[1, -1, 3, -3]], [-1])))[0] == ("real",)


def test_weights_cancel_over_any_number_of_neurons_and_factors():
    """Three neurons are 1, 3 and 5 times one function; 7·1 + 1·3 − 2·5 = 0."""
    one = np.array([3.0, -1, 5])
    rows = [one.tolist(), (3 * one).tolist(), (5 * one).tolist()]
    for out, arithmetic in (([7, 1, -2], ("real",)), ([7, 1, -2.000001], ()), ([7, 1, 0], ())):
        assert both_ways(layered((rows, [2, 6, 10]), ([out, [0, 0, 0]], [0, 1])))[0] == arithmetic


def test_a_neuron_that_overflows_float32_is_not_multiplied_away():
    """The second neuron gives ∞ for one twin and 0 for the other in float32: 0·∞ is NaN, and NaN is not above 0."""
    for big, arithmetic in ((1e38, ("real",)), (1e30, ("real", "float32"))):
        first = ([[1, 1, 0], [big, big, 3 * big]], [1, -2 * big])
        candidate = layered(first, ([[1, 0]], [0]))
        assert both_ways(candidate)[0] == arithmetic
        apart = refutes(candidate, SEX, ("float32",), 0)
        assert (apart is None) == ("float32" in arithmetic)
    verdict = prove_structurally(candidate := layered(([[1, 1, 0], [1e38, 1e38, 3e38]], [1, 0]), ([[1, 0]], [0])), SEX)
    assert verdict.reason.endswith("; in float32 a sum before may overflow")
    assert prove_zero_weights(candidate, 2).arithmetic == ("real",)  # how large inputs are was not said


def test_overflow_in_a_layer_behind_the_first_is_seen():
    first = ([[1, 1, 0], [1e20, 0, 1e20]], [1, 0])
    deep = layered(first, ([[1, 0], [0, 1e20]], [0, 0]), ([[1, 0]], [0]))
    assert both_ways(deep)[0] == ("real",)
    assert refutes(deep, SEX, ("float32",), 0) is not None


def test_a_sub_network_that_is_fair_makes_all_behind_it_fair():
    """Lemma 3.2: whatever stands behind layer 2, which twins share."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        rest = [(rng.normal(size=(3, 2)), rng.normal(size=3)), (rng.normal(size=(1, 3)), rng.normal(size=1))]
        candidate = layered((READS, [0, 1, 0]), ([[1, 0, 2], [2, 0, 1]], [0, 1]), *rest)
        assert both_ways(candidate)[0] == ("real", "float32")
        assert refutes(candidate, SEX, ("real", "float32"), 1) is None


def test_bands_are_never_thought_to_cancel_in_the_first_layer():
    views = (View(np.eye(3, 2), np.array([0, 0, 1.0]), np.array([0, 0, 0.5])),) * 2
    relation = Relation(views, SEX.free)
    assert prove_structurally(layered((READS, [0, 1, 0]), ([[1, 0, 2]], [0])), relation)
    assert prove_structurally(layered((TWO_ALIKE, [1, 0, 1]), ([[1, 1, -1]], [0])), relation).arithmetic == ("real",)
    told = prove_structurally(layered((READS, [0, 1, 0]), ([[1, 1, 2]], [0])), relation)
    assert "neuron 1 reads what takes every value of a band" in told.reason


# --- what it must not prove ---


@settings(deadline=None, max_examples=150)
@given(SEEDS, st.sampled_from(STYLES), st.integers(1, 3))
def test_confirm_never_calls_an_unfair_network_verified(seed, style, outputs):
    rng = np.random.default_rng(seed)
    relation = small_relation(rng)
    candidate = small_network(rng, relation, style, outputs)
    for verdict in (prove_structurally(candidate, relation), confirm(candidate, relation)):
        if verdict:
            # A structural proof is about twins on one machine that adds in one order, which is what `refutes` runs.
            assert refutes(candidate, relation, verdict.arithmetic, seed % 1000) is None


def test_input_that_overflows_float32_is_not_multiplied_away():
    """0·∞ is NaN: with a code of 1e300 only real arithmetic is safe."""
    relation = flips([[-1], [1e300]])
    assert prove_structurally(network([[1, 2, 0]]), relation).arithmetic == ("real",)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_proof_about_weights_that_are_not_numbers(bad):
    broken = Network((Layer(np.array([[1.0, 2, 0]]), np.zeros(1)), Layer(np.array([[bad]]), np.zeros(1))))
    for verdict in (prove_structurally(broken, SEX), prove_zero_weights(broken, 2), confirm(broken, SEX)):
        assert verdict.answer == "undecided"
        assert "layer 1 of the network holds NaN or infinity" in verdict.reason


def test_no_proof_about_views_that_are_not_numbers():
    assert not prove_structurally(network([[1, 2, 0]]), flips([[-1], [np.inf]]))
    broken = Relation((View(np.full((3, 2), np.nan), np.zeros(3)),), SEX.free)
    assert not prove_structurally(network([[1, 2, 0]]), broken)


def test_relation_of_another_width_is_refused():
    with pytest.raises(InputError, match="network has 4 inputs and the free space 2 columns"):
        prove_structurally(network([[1, 2, 3, 4]]), SEX)
    with pytest.raises(InputError, match="no views"):
        prove_structurally(network([[1, 2, 3]]), Relation((), SEX.free))


# --- without a list ---


@given(st.integers(0, 3), st.sampled_from([0.0, -0.0, 1e-45, 1.0]))
@example(0, 0.0)
def test_zero_weights_need_no_list_of_values(free_width, value):
    weight = np.ones((2, 3))
    weight[:, free_width:] = 0
    if free_width < 3:
        weight[1, 2] = value
    verdict = prove_zero_weights(network(weight.tolist()), free_width)
    assert bool(verdict) == (free_width == 3 or value == 0)
    assert verdict or "neuron 1 reads the sensitive codes" in verdict.reason


def test_zero_weights_refuse_an_impossible_width():
    with pytest.raises(InputError, match="free_width is 5"):
        prove_zero_weights(network([[1, 2, 3]]), 5)


@pytest.mark.parametrize(
    ("out", "arithmetic"), [([1, 0, 0], ("real", "float32")), ([1, 1, -1], ("real",)), ([1, 1, 0], ())]
)
def test_sensitive_values_that_cannot_be_listed_end_behind_the_first_layer_too(out, arithmetic):
    """A million combinations: a dead end, neurons that cancel, and one that is read."""
    sensitive = [IntegerFeature(name=name, low=0, high=1000) for name in ("s", "t")]
    features = (IntegerFeature(name="n", low=0, high=3), *sensitive)
    domain = Domain(features=features, sensitive=("s", "t"), label=Label(name="y", classes=("no", "yes")))
    encoding = Encoding(domain, {f.name: Scale(centre=0.0, exponent=0) for f in features}, {})
    first = Layer(np.array([[1.0, 0, 0], [2, 1, 3], [2, 1, 3]]), np.array([-1.5, 0, 0]))
    model = FairModel(Network((first, Layer(np.array([out], float), -np.ones(1)))), encoding)
    verdict = confirm_encoded(model.network, encoding)
    assert verdict.arithmetic == arithmetic
    assert verdict or "1,002,001 sensitive values are too many to list" in verdict.reason
    if verdict:
        assert verdict.reason.startswith("from layer 2 of 2 on no neuron depends on the sensitive codes")
        found = checker.check_files(bundle_files(model.certified(timeout=5)))
        # What is fed beside the range may overflow in float32, and the checker asks about anything.
        assert found["verdict"] == "verified" and found["proof"] == "structural" and "real" in found["arithmetic"]


# --- speed and manners ---


def test_wide_layers_and_many_views_take_hardly_any_exact_arithmetic(monkeypatch):
    """Whole numbers of any length are slow: rows that float64 tells apart safely are not looked at again."""
    asked = []
    monkeypatch.setattr(structural, "whole_numbers", lambda floats: asked.append(floats.size) or whole_numbers(floats))
    rng = np.random.default_rng(0)
    relation = flips(np.linspace(-1, 1, 4000)[:, None], free=106)
    weight = rng.normal(size=(2048, 107))
    weight[:, -1] = 0
    fair, unfair = network(weight.tolist()), network(rng.normal(size=(2048, 107)).tolist())
    assert prove_structurally(fair, relation)
    assert asked == []
    assert not prove_structurally(unfair, relation)
    assert asked == [2 * 4000], "the 4,000 views beside the first one, and none of the 2,048 rows"


def test_confirm_prefers_the_proof_that_covers_more():
    """Weights that cancel: structure proves real arithmetic; bounds, if the decision is constant, prove both."""
    twice = flips([[-1, -1], [1, 1]])
    constant = network([[1, 2, 0.1, -0.1]], bias=1, last=1)
    verdict = confirm(constant, twice)
    assert (verdict.proof, verdict.arithmetic) == ("bounds", ("real", "float32"))
    assert verdict.seconds > 0
    varying = network([[1, -2, 0.1, -0.1]], bias=0, last=1)
    assert (confirm(varying, twice).proof, confirm(varying, twice).arithmetic) == ("structural", ("real",))


def test_confirm_gives_both_reasons_when_undecided():
    verdict = confirm(network([[1, -2, 1]]), SEX)
    assert verdict.answer == "undecided"
    assert "neuron 0" in verdict.reason
    assert "allow both decisions" in verdict.reason


def test_importing_does_not_load_jax():
    code = "import sys, bornfair.verification, bornfair.training.start; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
