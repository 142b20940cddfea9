"""Where docs/theory.md says that a premise is needed, or that one is not: small runs that show it."""

from __future__ import annotations

import numpy as np
import pytest

from bornfair.models.network.network import Layer, Network
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan
from bornfair.training.response import Response
from bornfair.training.start import Bernoulli, Exact, NearZero, draw

SIGNS = np.array([[-1.0], [1.0]], np.float32)


def people(*, balanced: bool) -> TrainingData:
    """Forty people with a label of their own; if balanced, everybody is there once with each sensitive value."""
    random = np.random.default_rng(4)
    free = np.repeat(random.normal(size=(20, 3)).astype(np.float32), 2, axis=0)
    classes = np.repeat((random.random(20) < 0.5).astype(int), 2)
    true = np.tile([0, 1], 20) if balanced else classes
    return TrainingData(free, classes, sensitive=SIGNS[true], true_index=true, codes=SIGNS)


def sensitive_weight_after(data: TrainingData, gamma: float) -> float:
    start = draw(Exact(), free_width=3, sensitive_width=1, hidden=(6, 3), outputs=1, activation="tanh", seed=2)
    plan = Plan(epochs=20, learning_rate=0.1, batch_size=40, seed=1)
    trained = train(start, data, Response("expected", gamma), plan)
    return float(np.abs(trained.network.sensitive_weights(3)).max())


def test_an_own_value_with_gamma_above_zero_preserves_fairness_for_some_data_and_not_for_all():
    """§4: if everybody occurs with each sensitive value, the signals cancel, up to rounding."""
    assert sensitive_weight_after(people(balanced=True), 1.0) < 1e-6
    assert sensitive_weight_after(people(balanced=False), 1.0) > 1e-3


def difference_between_twins(codes: np.ndarray, optimiser: str, steps: int = 30) -> float:
    """How far V c(ω) of two sensitive values differ after training on both copies of each row, in float64."""
    random = np.random.default_rng(0)
    free = random.normal(size=(32, 3))
    classes = (free[:, 0] > 0.3).astype(float)
    W, V, w = random.normal(size=(4, 3)), np.zeros((4, codes.shape[1])), random.normal(size=4)
    first = second = np.zeros_like(V)
    for step in range(1, steps + 1):
        gradient = np.zeros_like(V)
        for code in codes:
            sums = free @ W.T + V @ code
            score = np.maximum(sums, 0) @ w
            signal = ((1 / (1 + np.exp(-score)) - classes) / len(free))[:, None] * w * (sums > 0)
            gradient += np.outer(signal.sum(axis=0), code) / len(codes)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        adam = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        V = V - (0.1 * gradient if optimiser == "sgd" else 0.01 * adam)
    return float(np.abs(V @ (codes[0] - codes[1])).max())


def test_sgd_keeps_twins_alike_for_codes_that_lie_alike_to_their_mean_and_adam_does_not():
    """§4: (5, 0) and (3, 4) have the mean (4, 2), and 20 is the product of either with it."""
    codes = np.array([[5.0, 0.0], [3.0, 4.0]])
    assert (codes @ codes.mean(axis=0)).tolist() == [20.0, 20.0]
    assert difference_between_twins(codes, "sgd") < 1e-12
    assert difference_between_twins(codes, "adam") > 1e-2
    # One-hot codes have one history in all columns, and 0/1 codes do not lie alike to their mean.
    assert difference_between_twins(np.eye(2), "adam") < 1e-12
    assert difference_between_twins(np.array([[0.0], [1.0]]), "sgd") > 1e-2


@pytest.mark.parametrize("shared", [True, False])
def test_copies_of_a_row_have_to_share_their_dropout_mask(shared):
    """§3: the gradient of V is the mean of δ c(ω), and δ hangs on the mask."""
    random = np.random.default_rng(3)
    network = Network((Layer(random.normal(size=(6, 3)), np.zeros(6)), Layer(random.normal(size=(1, 6)), np.zeros(1))))
    free = random.normal(size=(50, 3))
    sums = free @ network.layers[0].weight.T
    masks = [random.random(sums.shape) < 0.5 for _ in SIGNS]
    gradient = np.zeros(6)
    for code, own in zip(SIGNS[:, 0], masks, strict=True):
        mask = masks[0] if shared else own
        score = (np.maximum(sums, 0) * mask * 2) @ network.layers[1].weight[0]
        signal = (1 / (1 + np.exp(-score)))[:, None] * network.layers[1].weight[0] * mask * 2 * (sums > 0)
        gradient += code * signal.mean(axis=0)
    assert (np.abs(gradient).max() < 1e-12) == shared


@pytest.mark.parametrize("kind", [NearZero(), Bernoulli()])
def test_the_decision_at_a_near_zero_start_is_constant_and_the_output_is_not(kind):
    """§5: equal decisions, which a verifier shows, are not equal scores, which Lemma 3.3 assumes. (float32 may round
    the difference away; these scores are computed in float64.)
    """
    start = draw(kind, free_width=3, sensitive_width=1, hidden=(6, 3), outputs=1, activation="relu", seed=2)
    free = np.random.default_rng(1).normal(size=(500, 3))
    scores = [start.estimated(np.concatenate([free, np.full((500, 1), sign)], axis=1))[:, 0] for sign in (-1.0, 1.0)]
    assert len(set(np.concatenate(scores) > 0)) == 1
    assert (scores[0] != scores[1]).any()
