"""Claims about γ for whole networks: it is 0 for a fair structure, and otherwise there is none."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core.errors import InputError, NoGamma
from bornfair.models.network.network import Layer, Network, forward
from bornfair.training.gamma import solve_first_layer
from bornfair_bench import gamma_network as module
from bornfair_bench.gamma_network import FairNeuron, solve_network

pytestmark = pytest.mark.slow

SIGNS = np.array([[-1.0], [1.0]])
PEOPLE = np.random.default_rng(7).normal(size=(9, 2)).astype(np.float32)


def one_against_rest(size: int) -> np.ndarray:
    return size * np.eye(size, dtype=np.int64) - 1


def network(*layers: tuple[list, list], activation: str = "tanh") -> Network:
    return Network(tuple(Layer(np.array(w, np.float32), np.array(b, np.float32)) for w, b in layers), activation)


def blind_network(seed: int, widths: tuple[int, ...], columns: int, activation: str) -> Network:
    """Random weights, with sensitive weights of exactly 0."""
    random = np.random.default_rng(seed)
    layers = [
        (random.normal(size=(after, before)), random.normal(size=after)) for before, after in itertools.pairwise(widths)
    ]
    layers[0][0][:, widths[0] - columns :] = 0.0
    return Network(tuple(Layer(w, b) for w, b in layers), activation)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
def test_sensitive_weights_of_zero_put_the_whole_first_layer_and_nothing_else_into_the_set(activation: str) -> None:
    net = blind_network(0, (3, 4, 3, 1), 1, activation)
    solution = solve_network(net, SIGNS, PEOPLE)
    assert (solution.gamma, solution.p, solution.residual) == (0.0, 0.5, 0.0)
    assert solution.neurons == tuple(FairNeuron(1, j, True) for j in range(4))
    assert "4 of 4 neurons of L are proven fair" in solution.note


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), centred=st.booleans(), activation=st.sampled_from(["relu", "tanh"]))
def test_networks_agree_with_the_closed_form(seed: int, centred: bool, activation: str) -> None:
    codes = np.random.default_rng(seed).integers(-5, 6, size=(3, 2))
    if centred:
        codes = 3 * codes - codes.sum(axis=0)
    net = blind_network(seed, (4, 3, 1), 2, activation)
    # A column can only be seen through a neuron that is alive; an always positive bias keeps one for certain.
    alive = net.layers[0].bias.copy()
    alive[0] = 100.0
    if activation == "relu":
        net = Network((Layer(net.layers[0].weight, alive), net.layers[1]), activation)
    try:
        expected: float | None = solve_first_layer(codes).gamma
    except NoGamma:
        expected = None
    if expected is None:
        with pytest.raises(NoGamma, match=r"layer 1, neuron \d, the derivative by its weight on sensitive column"):
            solve_network(net, codes, PEOPLE)
    else:
        assert solve_network(net, codes, PEOPLE).gamma == expected


def test_taken_literally_the_equation_of_a_bias_has_no_solution_not_even_with_zero_sensitive_weights() -> None:
    """The derivative by the bias of an active neuron is 1 whatever s is, so its expectation is 1 under every response.
    We ask the equation only of parameters whose derivative depends on s, which is charitable."""
    sums, inputs = np.full((1, 2, 1), 3.0), np.array([[[0.5, -1.0], [0.5, 1.0]]])  # one person, both values, V = 0
    with module._double_precision():
        depends, mean, _ = (np.asarray(a)[0] for a in module._derivatives("relu")(sums, inputs))
    assert (depends.tolist(), mean.tolist()) == (
        [False, True, False],
        [0.5, 0.0, 1.0],
    )  # of x, of the code, of the bias
    net = network(([[1, -2, 0]], [9.0]), ([[1]], [0]), activation="relu")
    assert solve_network(net, SIGNS, PEOPLE).gamma == 0.0


def test_a_linear_model_is_a_network_with_one_layer() -> None:
    assert solve_network(network(([[1, -2, 0]], [0.5])), SIGNS, PEOPLE).neurons == (FairNeuron(1, 0, True),)
    with pytest.raises(NoGamma, match=r"weight on sensitive column 0 depends on s, and its mean over s is 0\.5"):
        solve_network(network(([[1, -2, 0]], [0.5])), np.array([[0.0], [1.0]]), PEOPLE)


def ignored_mirror(activation: str) -> Network:
    """Hidden neuron 0 is act(0.75 c), odd in c for tanh; the output gives it weight 0 and reads neuron 1 only."""
    return network(([[0, 0, 0.75], [1, -1, 0]], [0, 0.5]), ([[0, 2]], [0.25]), activation=activation)


def cancelled_mirror(activation: str) -> Network:
    """Hidden neurons act(0.75 c) and act(−0.75 c) with equal weights: the output is fair by what it adds up."""
    return network(([[0, 0, 0.75], [0, 0, -0.75], [1, -1, 0]], [0, 0, 0.5]), ([[1, 1, 2]], [0]), activation=activation)


def test_an_ignored_odd_mirror_is_solved_by_automatic_differentiation() -> None:
    solution = solve_network(ignored_mirror("tanh"), SIGNS, PEOPLE)
    assert solution.gamma == 0.0
    assert solution.residual < 1e-12
    assert solution.neurons == (FairNeuron(1, 1, True), FairNeuron(2, 0, True))
    # ∂z/∂V for both hidden neurons, and the output's weight on the odd one: three parameters, 9 people, 2 values.
    assert solution.equations == 3 * 9 * 2


def test_a_cancelled_odd_mirror_is_solved_but_its_fairness_only_seen() -> None:
    solution = solve_network(cancelled_mirror("tanh"), SIGNS, PEOPLE)
    assert solution.gamma == 0.0
    assert solution.neurons == (FairNeuron(1, 2, True), FairNeuron(2, 0, False))
    assert "1 of 2 neurons of L are proven fair" in solution.note


@pytest.mark.parametrize("build", [ignored_mirror, cancelled_mirror])
def test_the_relu_analogue_has_no_gamma_and_says_where_and_how_far(build) -> None:
    with pytest.raises(NoGamma) as caught:
        solve_network(build("relu"), SIGNS, PEOPLE)
    assert "its mean over s is 0.5 of its largest value (allowed: 1e-06)" in str(caught.value)
    assert "layer 1, neuron 0, the derivative by its" in str(caught.value)
    assert "start from sensitive weights that are exactly 0" in str(caught.value)


def test_a_violation_in_a_deeper_layer_is_named_there() -> None:
    # Hidden neuron 0 is 3 + 0.75 c, always alive: its slope never depends on s, but the output's weight on it does.
    net = network(([[0, 0, 0.75], [1, -1, 0]], [3, 0.5]), ([[0, 2]], [0.25]), activation="relu")
    with pytest.raises(NoGamma, match="layer 2, neuron 0, the derivative by its weight on neuron 0 of layer 1"):
        solve_network(net, SIGNS, PEOPLE)


def test_a_loose_tolerance_accepts_and_reports_the_residual() -> None:
    net = network(([[1, -2, 0]], [0.5]))
    solution = solve_network(net, np.array([[-1.0], [1.02]]), PEOPLE, tolerance=0.02)
    assert solution.residual == pytest.approx(0.01 / 1.02)


def test_nothing_depends_on_s_when_codes_do_not() -> None:
    net = network(([[1, 1, 5]], [0]), ([[1]], [0]))
    solution = solve_network(net, np.zeros((2, 1)), PEOPLE)
    assert (solution.gamma, solution.neurons, solution.note) == (0.0, (), "nothing depends on s")
    blind = network(([[1, 1]], [0]), ([[1]], [0]))
    assert solve_network(blind, np.zeros((3, 0)), PEOPLE).note == "nothing depends on s"


def test_dead_neurons_are_fair_as_far_as_the_sample_shows() -> None:
    net = network(([[0, 0, 1]], [-2]), ([[1]], [0]), activation="relu")
    solution = solve_network(net, SIGNS, PEOPLE)
    assert solution.neurons == (FairNeuron(1, 0, False),)
    assert (solution.equations, solution.note) == (0, "nothing depends on s")


def test_equal_weights_on_one_hot_codes_are_proven_fair() -> None:
    # 0.1 as float32 three times: equality holds exactly, whatever rounding does to the sums.
    net = network(([[1, 1, 0.1, 0.1, 0.1], [1, 1, 0.1, 0.1, 0.2]], [0, 0]), ([[1, 0]], [0]))
    with pytest.raises(NoGamma):
        solve_network(net, np.eye(3), PEOPLE)
    proven = module._first_layer_proven(net.sensitive_weights(2), np.eye(3))
    assert proven.tolist() == [True, False]


def near_zero_start(size: float) -> Network:
    return network(([[1, -1, size], [1, 1, -size]], [0, 0]), ([[1, 0.5]], [0]))


@pytest.mark.parametrize("size", [math.exp(-10), 1e-10])
def test_a_near_zero_start_is_not_called_fair(size: float) -> None:
    """Its decision may be constant, its value is not: nothing is there for the theorem to preserve."""
    solution = solve_network(near_zero_start(size), SIGNS, PEOPLE)
    assert solution.neurons == ()
    assert "not fair to begin with" in solution.note


def test_what_float64_cannot_see_is_never_called_proven() -> None:
    """A weight of 1e-30 is seen in the first layer, where arithmetic is exact, and lost to rounding behind it."""
    members, _ = module._fair_with_unfair_inputs(near_zero_start(1e-30), SIGNS, PEOPLE.astype(np.float64))
    assert members == (FairNeuron(2, 0, False),)


def test_a_solution_preserves_fairness_to_first_order_only() -> None:
    """Three equal odd neurons with weights 2, −1, −1 cancel, and γ = 0 solves. One exact expected step of size η
    then makes twins differ by about η², so the step is fair to first order and still not fair."""
    net = network(([[0, 0, 0.75]] * 3 + [[1, -1, 0]], [0, 0, 0, 0.5]), ([[2, -1, -1, 1]], [0]))
    assert solve_network(net, SIGNS, PEOPLE).gamma == 0.0

    def gap_after_step(size: float) -> float:
        with module._double_precision():
            parameters = [(jnp.asarray(w, jnp.float64), jnp.asarray(b, jnp.float64)) for w, b in net.to_jax()]
            twins = [jnp.concatenate([PEOPLE, jnp.full((9, 1), c)], axis=1).astype(jnp.float64) for c in (-1.0, 1.0)]

            def loss(p):
                return sum(jnp.mean(jax.nn.softplus(forward(p, x, "tanh"))) for x in twins) / 2

            moved = jax.tree.map(lambda p, g: p - size * g, parameters, jax.grad(loss)(parameters))
            return float(jnp.abs(forward(moved, twins[0], "tanh") - forward(moved, twins[1], "tanh")).max())

    assert gap_after_step(0.0) < 1e-14
    small, large = gap_after_step(1e-3), gap_after_step(2e-3)
    assert large > 1e-8
    assert large / small == pytest.approx(4, rel=0.05)


def test_blocks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = solve_network(cancelled_mirror("tanh"), SIGNS, PEOPLE)
    monkeypatch.setattr(module, "LARGEST_BLOCK", 1)
    assert solve_network(cancelled_mirror("tanh"), SIGNS, PEOPLE) == whole


def test_people_are_capped_and_spread_over_the_rows() -> None:
    # Only the last person brings the ReLU to life; an even spread over the rows includes them.
    people = np.zeros((1000, 2), np.float32)
    people[-1, 0] = 10
    net = network(([[1, 0, 1]], [-5]), ([[1]], [0]), activation="relu")
    assert "not fair to begin with" in solve_network(net, SIGNS, people, most_people=5).note
    capped = solve_network(blind_network(0, (3, 2, 1), 1, "tanh"), SIGNS, people, most_people=5)
    assert capped.note.endswith("5 people")


def test_the_paper_network_is_solved() -> None:
    net = blind_network(1, (20, 64, 32, 16, 8, 4, 1), 3, "relu")
    people = np.random.default_rng(0).normal(size=(300, 17)).astype(np.float32)
    solution = solve_network(net, one_against_rest(3), people)
    assert (solution.gamma, len(solution.neurons)) == (0.0, 64)


@pytest.mark.parametrize(
    ("codes", "people", "options", "message"),
    [
        (np.array([1.0, -1.0]), PEOPLE, {}, "one row per sensitive value"),
        (np.array([["a"], ["b"]]), PEOPLE, {}, "codes must be numbers"),
        (np.array([[1.0]]), PEOPLE, {}, "two or more sensitive values, found 1"),
        (np.array([[1.0], [np.nan]]), PEOPLE, {}, "code of value 1, column 0 is nan"),
        (SIGNS, PEOPLE[:0], {}, "one row or more"),
        (SIGNS, PEOPLE[:, :1], {}, "takes 3 inputs, but people have 1 free columns and codes have 1"),
        (SIGNS, np.full((2, 2), np.inf), {}, "person 0, column 0 is inf"),
        (SIGNS, PEOPLE, {"most_people": 0}, "most_people must be 1 or more"),
        (SIGNS, PEOPLE, {"tolerance": math.nan}, "tolerance must be at least 0"),
    ],
)
def test_unusable_input_is_named(codes, people, options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve_network(network(([[1, 1, 0]], [0])), codes, people, **options)


def test_a_network_that_diverged_is_named() -> None:
    with pytest.raises(InputError, match="layer 1 has a weight or bias that is not finite"):
        solve_network(network(([[1, math.inf, 0]], [0])), SIGNS, PEOPLE)


def test_one_hot_codes_stay_fair_under_the_uniform_expectation_although_no_gamma_solves_them() -> None:
    """The theorem's condition is sufficient, not necessary: all columns of V move alike."""
    net = blind_network(3, (5, 4, 1), 3, "tanh")
    parameters = net.to_jax()
    copies = jnp.concatenate([jnp.repeat(PEOPLE, 3, axis=0), jnp.tile(jnp.eye(3), (len(PEOPLE), 1))], axis=1)
    gradient = jax.grad(lambda p: jnp.mean(jax.nn.softplus(forward(p, copies, "tanh"))))(parameters)[0][0][:, 2:]
    assert np.abs(gradient).max() > 1e-3
    assert np.asarray(gradient) == pytest.approx(np.asarray(gradient[:, :1]).repeat(3, axis=1), abs=1e-6)
    with pytest.raises(NoGamma):
        solve_first_layer(np.eye(3))
