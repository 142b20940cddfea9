"""Claims about the noise of the sampled response: exact variances, a bound that holds, the fewest draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bornfair.core.errors import InputError
from bornfair.training.drift import draws_needed, drift_probability, response_variance, update_variance
from bornfair.training.response import response_probabilities

SIGNS = np.array([[-1.0], [1.0]])


@settings(deadline=None)
@given(
    codes=arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 3)), elements=st.integers(-9, 9)),
    gamma=st.floats(-4, 4),
    data=st.data(),
)
def test_variance_equals_enumeration(codes: np.ndarray, gamma: float, data: st.DataObject) -> None:
    true = data.draw(st.integers(0, len(codes) - 1))
    weight = [math.exp(gamma) if i == true else 1.0 for i in range(len(codes))]
    chance = [w / sum(weight) for w in weight]
    mean = sum(c * code for c, code in zip(chance, codes, strict=True))
    square = sum(c * code**2 for c, code in zip(chance, codes, strict=True))
    assert response_variance(codes, gamma, true) == pytest.approx(square - mean**2, abs=1e-9)


def test_a_uniform_answer_of_signs_has_variance_one_and_a_certain_answer_has_none() -> None:
    assert response_variance(SIGNS, 0.0, 0).tolist() == [1.0]
    assert response_variance(SIGNS, 1e4, 1).tolist() == [0.0]


def test_many_true_values_give_one_row_each() -> None:
    codes = 3 * np.eye(3) - 1
    rows = response_variance(codes, 0.7, np.array([2, 0, 2]))
    assert rows.shape == (3, 3)
    assert (rows[0] == response_variance(codes, 0.7, 2)).all()


@pytest.mark.parametrize("draws", [1, 4, 25])
@pytest.mark.parametrize("threshold", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_simulated_drift_stays_within_the_bound(draws: int, threshold: float, gamma: float) -> None:
    trials = 20_000
    random = np.random.default_rng(11)
    codes = (3 * np.eye(3) - 1)[:, 0]
    chance = response_probabilities(3, gamma)[1]
    means = codes[random.choice(3, size=(trials, draws), p=chance)].mean(axis=1)
    frequency = np.mean(np.abs(means - chance @ codes) > threshold)
    bound = drift_probability(response_variance(codes[:, None], gamma, 1)[0], draws, threshold)
    assert frequency <= bound + 4 * math.sqrt(0.25 / trials)


def test_the_bound_is_a_probability() -> None:
    assert drift_probability(1.0, draws=1, threshold=1e-200) == 1.0
    assert drift_probability(0.0, draws=1, threshold=1e-200) == 0.0


amounts = st.floats(1e-6, 1e6)


@settings(deadline=None)
@given(variance=amounts, threshold=amounts, probability=st.floats(1e-6, 1, exclude_max=True))
def test_draws_needed_is_the_smallest_number_that_meets_the_probability(
    variance: float, threshold: float, probability: float
) -> None:
    draws = draws_needed(variance, threshold, probability)
    assert drift_probability(variance, draws, threshold) <= probability
    if draws > 1:
        assert Fraction(variance) / ((draws - 1) * Fraction(threshold) ** 2) > Fraction(probability)


def test_no_variance_needs_one_draw() -> None:
    assert draws_needed(0.0, threshold=1.0, probability=0.5) == 1


# --- one update of the sensitive weights ---


def test_update_variance_equals_enumeration_of_all_answers() -> None:
    backward = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])
    codes = np.array([[2.0, -1.0], [-1.0, 2.0], [-1.0, -1.0]])
    true = np.array([0, 2, 1])
    gamma, rate = 0.4, 0.1
    chance = response_probabilities(3, gamma)
    mean, square = np.zeros((2, 2)), np.zeros((2, 2))
    for answers in itertools.product(range(3), repeat=3):
        probability = math.prod(chance[true[row], answer] for row, answer in enumerate(answers))
        update = -rate * np.einsum("bn,bc->nc", backward, codes[list(answers)]) / 3
        mean += probability * update
        square += probability * update**2
    found = update_variance(backward, response_variance(codes, gamma, true), rate)
    assert found == pytest.approx(square - mean**2)


@settings(deadline=None)
@given(draws=st.integers(1, 50), rate=st.floats(1e-4, 1))
def test_more_draws_divide_the_update_variance(draws: int, rate: float) -> None:
    backward, variances = np.array([[1.0, -2.0], [0.5, 0.0]]), np.array([[1.0], [3.0]])
    once = update_variance(backward, variances, rate)
    assert update_variance(backward, variances, rate, draws) == pytest.approx(once / draws)


def test_simulated_updates_have_the_predicted_variance_and_stay_within_the_bound() -> None:
    random = np.random.default_rng(5)
    rows, draws, rate, trials = 64, 3, 0.01, 4000
    backward = random.normal(size=(rows, 2))
    answers = random.choice([-1.0, 1.0], size=(trials, rows, draws)).mean(axis=2)
    updates = -rate * answers @ backward / rows
    variance = update_variance(backward, np.ones((rows, 1)), rate, draws)[:, 0]
    assert updates.var(axis=0) == pytest.approx(variance, rel=0.1)
    threshold = 2 * math.sqrt(variance[0])
    assert np.mean(np.abs(updates[:, 0]) > threshold) <= drift_probability(variance[0], 1, threshold)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: response_variance(np.array([1.0, -1.0]), 0.0, 0), "codes must be finite numbers"),
        (lambda: response_variance(SIGNS, 0.0, 2), "from 0 to 1 .a row of codes., found 2"),
        (lambda: response_variance(SIGNS, 0.0, -1), "found -1"),
        (lambda: response_variance(SIGNS, 0.0, 0.5), "found 0.5"),  # type: ignore[arg-type]
        (lambda: drift_probability(-1.0, 1, 1.0), "variance must be a finite number of 0 or more, found -1.0"),
        (lambda: drift_probability(math.nan, 1, 1.0), "variance .* found nan"),
        (lambda: drift_probability(1.0, 0, 1.0), "draws must be a whole number of 1 or more, found 0"),
        (lambda: drift_probability(1.0, 1, 0.0), "threshold must be a finite number above 0, found 0.0"),
        (lambda: draws_needed(1.0, math.inf, 0.5), "threshold .* found inf"),
        (lambda: draws_needed(1.0, 1.0, 0.0), "probability must lie between 0 and 1, found 0.0"),
        (lambda: draws_needed(1.0, 1.0, 1.0), "probability must lie between 0 and 1, found 1.0"),
        (lambda: update_variance(np.ones((2, 1)), np.ones((3, 1)), 0.1), "same one or more rows"),
        (lambda: update_variance(np.ones((2, 1)), -np.ones((2, 1)), 0.1), "not negative, found -1.0"),
        (lambda: update_variance(np.full((2, 1), np.nan), np.ones((2, 1)), 0.1), "backward must be finite"),
        (lambda: update_variance(np.ones((2, 1)), np.ones((2, 1)), 0.0), "learning_rate must be"),
        (lambda: update_variance(np.ones((2, 1)), np.ones((2, 1)), 0.1, 0), "draws must be"),
    ],
)
def test_unusable_input_is_named(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
