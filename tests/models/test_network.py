"""The network as plain arrays."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.models.network import network as running
from bornfair.models.network.network import WIDTHS, Layer, Network, decisions, hidden_widths

pytestmark = pytest.mark.slow


def random_network(widths, seed=0, activation="relu"):
    random = np.random.default_rng(seed)
    layers = [
        Layer(random.normal(size=(o, i)) / np.sqrt(i), random.normal(size=o)) for i, o in itertools.pairwise(widths)
    ]
    return Network(tuple(layers), activation)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
@pytest.mark.parametrize("widths", [(3, 1), (5, 8, 1), (5, 8, 4, 3)])
def test_scores_are_the_textbook_formula(widths, activation):
    from scipy.special import erf

    functions = {
        "relu": lambda z: np.maximum(z, 0),
        "tanh": np.tanh,
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
        "gelu": lambda z: z * 0.5 * (1 + erf(z / np.sqrt(2))),
    }
    act = functions[activation]
    network = random_network(widths, activation=activation)
    x = np.random.default_rng(1).normal(size=(70, widths[0])).astype(np.float32)
    values = x.astype(np.float64)
    for i, layer in enumerate(network.layers):
        values = (act(values) if i else values) @ layer.weight.T.astype(np.float64) + layer.bias
    np.testing.assert_allclose(network.scores(x), values, rtol=2e-4, atol=2e-5)


@given(st.lists(st.integers(0, 499), min_size=1, max_size=200))
def test_a_persons_score_does_not_depend_on_who_else_is_in_the_table(rows):
    network = random_network((11, 64, 32, 4, 1))
    everyone = np.random.default_rng(2).normal(size=(500, 11)).astype(np.float32)
    assert network.scores(everyone[rows]).tobytes() == network.scores(everyone)[rows].tobytes()


def test_one_output_decides_by_sign_and_many_by_the_first_largest():
    assert decisions(np.array([[-1.0], [0.0], [1e-30]])).tolist() == [0, 0, 1]
    assert decisions(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).tolist() == [0, 1]


def test_layers_are_frozen():
    network = random_network((3, 2, 1))
    with pytest.raises(ValueError, match="read-only"):
        network.layers[0].weight[0, 0] = 1.0


def test_presets_are_those_of_the_paper():
    assert WIDTHS == {
        "paper": (64, 32, 16, 8, 4), "shallow": (16,), "deep": (256, 256, 64, 64, 32, 32, 16, 8, 4), "large": (2048,
        2048, 2048, 4),
    }  # fmt: skip
    assert hidden_widths("paper") == (64, 32, 16, 8, 4)
    assert hidden_widths([np.int64(7), 3]) == (7, 3)


def mismatched():
    return Network((Layer(np.ones((2, 3)), np.ones(2)), Layer(np.ones((1, 3)), np.ones(1))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: hidden_widths("huge"),
            "hidden='huge' is not a preset; use one of 'paper', 'shallow', 'deep', 'large'",
        ),
        (lambda: hidden_widths([8, 0]), "hidden widths must be whole numbers above 0, found"),
        (lambda: hidden_widths([8, 2.5]), "hidden widths must be whole numbers above 0, found"),
        (
            lambda: random_network((3, 1), activation="swish"),
            "activation 'swish' is not known; use one of 'relu', 'tanh'",
        ),
        (mismatched, "layer 0 gives 2 values but layer 1 takes 3"),
        (lambda: Layer(np.ones((2, 3)), np.ones(3)), "a layer needs weight"),
        (lambda: random_network((3, 1)).scores(np.ones((2, 4))), "the network takes rows of 3 numbers, found an array"),
    ],
)
def test_bad_networks_are_explained(make, message):
    with pytest.raises(InputError, match=message):
        make()


def network_of_bins(seed, bins=40):
    """Its first layer has bins of two numbers, and hands on the categories between and behind them."""
    random = np.random.default_rng(seed)
    read = [0] * bins + [1, 2, 3] + [4] * bins + [5]
    weight = np.zeros((len(read), 8))
    weight[np.arange(len(read)), read] = 1
    numbers = np.isin(read, [0, 4])
    weight[numbers] *= random.choice([1.0, 0.3, -2.7], (int(numbers.sum()), 1))
    bias = np.where(numbers, random.normal(size=len(read)), 0)
    return Network((Layer(weight, bias), *random_network((len(read), 16, 2), seed).layers))


@pytest.mark.parametrize("seed", range(5))
def test_bins_without_the_products_with_0_give_the_same_bits(seed):
    net = network_of_bins(seed)
    inputs = np.random.default_rng(seed).normal(size=(1000, 8)).astype(np.float32) * 10.0 ** np.arange(-4, 4)
    kinds = [(piece.columns.start, piece.neurons.start, piece.copies) for piece in running._pieces(net.layers[0])]
    assert kinds == [(0, 0, False), (1, 40, True), (4, 43, False), (5, 83, True), (6, 84, False)]
    padded = np.zeros((1024, 8), np.float32)
    padded[:1000] = inputs
    (whole,) = running._whole_session(net).run(None, {"rows": padded})
    assert np.array_equal(net.scores(inputs), whole[:1000])


def test_an_infinite_number_is_multiplied_with_every_weight():
    scores = network_of_bins(0).scores(np.array([[0, 0, 0, 0, 0, 0, np.inf, 0], np.zeros(8)], np.float32))
    assert np.isnan(scores[0]).all(), "infinity times a weight of 0"


@pytest.mark.parametrize("change", ["two columns", "order", "few neurons"])
def test_other_first_layers_are_computed_as_a_whole(change):
    layer = network_of_bins(0, bins=2 if change == "few neurons" else 40).layers[0]
    weight = layer.weight.copy()
    if change == "two columns":
        weight[0, 7] = 1
    if change == "order":
        weight[[0, 50]] = weight[[50, 0]]
    assert running._pieces(Layer(weight, layer.bias)) == []
