"""Claims about the noise of the sampled response: exact variances, a bound that holds, the fewest draws."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bornfair.training.response import (
    draws_needed,
    drift_probability,
    response_probabilities,
    response_variance,
)

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
