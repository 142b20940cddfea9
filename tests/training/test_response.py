"""The mechanism: P(ŝ = ω_j | s = ω_i) = e^{γ·1[i=j]} / (e^γ + |S| − 1)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair.errors import InputError
from bornfair.training.response import Response, kept_and_other, privacy


@given(st.integers(2, 9), st.floats(-5, 5))
def test_probabilities_follow_the_formula(size, gamma):
    matrix = Response("sampled", gamma).matrix(size)
    for i in range(size):
        for j in range(size):
            assert matrix[i, j] == pytest.approx(math.exp(gamma * (i == j)) / (math.exp(gamma) + size - 1), rel=1e-12)


@given(st.integers(2, 9), st.floats(-800, 800))
def test_every_row_is_a_distribution_however_large_gamma_is(size, gamma):
    matrix = Response("sampled", gamma).matrix(size)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize(("size", "gamma", "draws"), [(2, 0.0, 1), (2, 1.5, 3), (5, 0.0, 2), (5, 2.0, 1), (8, -1.0, 4)])
def test_frequencies_of_draws_match_the_formula(size, gamma, draws):
    response = Response("sampled", gamma, draws)
    rows = 40_000
    true = np.arange(rows) % size
    drawn = np.asarray(response.draw(jax.random.key(3), jnp.asarray(true), size))
    assert drawn.shape == (rows, draws)
    expected = response.matrix(size)
    for value in range(size):
        found = np.bincount(drawn[true == value].ravel(), minlength=size)
        spread = np.sqrt(found.sum() * expected[value] * (1 - expected[value]))
        assert (np.abs(found - found.sum() * expected[value]) < 5 * spread + 1).all()


@given(st.floats(-800, 800))
def test_exact_expectations_preserve_fairness_of_own_values_at_gamma_zero_of_the_population_at_every_gamma(gamma):
    assert Response("expected", 0.0).preserves_fairness
    assert Response("population", gamma).preserves_fairness
    assert Response("expected", gamma).preserves_fairness == (gamma == 0)
    assert not any(Response(mode, gamma).preserves_fairness for mode in ("sampled", "population_sampled", "none"))


@given(st.integers(2, 9), st.floats(-800, 800), st.integers(0, 10**6))
def test_a_random_person_is_released_as_the_mean_row_of_the_matrix(size, gamma, seed):
    response, shares = Response("population", gamma), np.random.default_rng(seed).dirichlet(np.ones(size))
    np.testing.assert_allclose(response.release(shares), shares @ response.matrix(size), rtol=1e-9)
    assert response.release(shares).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("guessed",), r"response='guessed' is not known; use one of 'expected', 'sampled', 'population', "),
        (("sampled", math.nan), "gamma must be a finite number, found nan"),
        (("sampled", 0.0, 0), "draws must be a whole number of at least 1, found 0"),
    ],
)
def test_bad_responses_are_explained(arguments, message):
    with pytest.raises(InputError, match=message):
        Response(*arguments)


def test_a_response_needs_two_values_a_number_and_a_draw():
    assert kept_and_other(2, 0.0) == (0.5, 0.5)
    for size in (1, 0):
        with pytest.raises(InputError, match=f"needs two or more sensitive values, found {size}"):
            kept_and_other(size, 0.0)
    with pytest.raises(InputError, match="γ must be a number, found NaN; 0 answers"):
        kept_and_other(2, float("nan"))
    assert privacy(-0.5) == 0.5 and privacy(0.5, np.int64(3)) == 1.5
    for draws in (0, True, 1.0):
        with pytest.raises(InputError, match="draws must be a whole number of 1 or more"):
            privacy(0.5, draws)
    with pytest.raises(InputError, match=r"γ must be a number, found NaN\."):
        privacy(float("nan"), 2)
