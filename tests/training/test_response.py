"""The mechanism: P(ŝ = ω_j | s = ω_i) = e^{γ·1[i=j]} / (e^γ + |S| − 1)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair.core.errors import InputError
from bornfair.training.response import Response, kept_and_other, privacy, released_shares, response_probabilities

pytestmark = pytest.mark.slow


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


# --- by hand ---


def test_three_values_at_e_to_the_gamma_two_are_kept_half_of_the_time():
    response = Response("sampled", math.log(2))
    assert kept_and_other(3, math.log(2)) == pytest.approx((0.5, 0.25))
    assert kept_and_other(3, -math.log(2)) == pytest.approx((0.2, 0.4))
    assert response.keep_probability(3) == pytest.approx(0.5)
    assert response.matrix(3) == pytest.approx(np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]))
    assert response.release(np.array([1.0, 0.0, 0.0])) == pytest.approx([0.5, 0.25, 0.25])
    assert response.release(np.array([0.5, 0.5])) == pytest.approx([0.5, 0.5])
    assert response.release(np.array([0.75, 0.25])) == pytest.approx([7 / 12, 5 / 12])


def test_a_single_value_is_always_released():
    response = Response("sampled", -3.0, 2)
    assert response.keep_probability(1) == 1.0 and response.matrix(1).tolist() == [[1.0]]
    assert response.release(np.ones(1)).tolist() == [1.0]
    assert np.asarray(response.draw(jax.random.key(0), jnp.zeros(5, jnp.int32), 1)).tolist() == [[0, 0]] * 5


@pytest.mark.parametrize("gamma", [0.0, -1.0, 2.0])
def test_modes_say_whose_values_they_read_and_how(gamma):
    own, everybody = ("expected", "sampled", "none"), ("population", "population_sampled")
    for mode in (*own, *everybody):
        response = Response(mode, gamma)
        assert response.draws_values == (mode in ("sampled", "population_sampled"))
        assert response.of_population == (mode in everybody)
        exact = mode in ("expected", "population")
        assert response.reads_values == (not exact or gamma != 0)  # at 0 every value counts the same
    assert Response() == Response("expected", 0.0, 1)


@pytest.mark.parametrize("draws", [True, False, 0, -1, 1.0, 2.5, "2", None, math.nan])
def test_draws_are_whole_numbers_of_at_least_one(draws):
    with pytest.raises(InputError, match="draws must be a whole number of at least 1, found"):
        Response("sampled", 0.0, draws)
    with pytest.raises(InputError, match="draws must be a whole number of 1 or more, found"):
        privacy(1.0, draws)


def test_privacy_counts_every_draw_and_one_by_default():
    assert privacy(0.5) == privacy(-0.5) == 0.5
    assert privacy(0.5, 1) == 0.5 and privacy(0.5, np.int64(3)) == 1.5 and privacy(-0.25, 8) == 2.0
    with pytest.raises(InputError, match="γ must be a number, found NaN"):
        privacy(math.nan)


@pytest.mark.parametrize("gamma", [math.nan, math.inf, -math.inf])
def test_gamma_is_a_number(gamma):
    with pytest.raises(InputError, match="gamma must be a finite number, found"):
        Response("expected", gamma)
    if math.isnan(gamma):
        with pytest.raises(InputError, match="γ must be a number, found NaN"):
            kept_and_other(2, gamma)


@pytest.mark.parametrize("size", [1, 0, -1])
def test_a_response_needs_two_values(size):
    for function in (kept_and_other, response_probabilities):
        with pytest.raises(InputError, match=f"needs two or more sensitive values, found {size}"):
            function(size, 0.0)
    assert kept_and_other(2, 0.0) == (0.5, 0.5)


@pytest.mark.parametrize("shares", [[0.5, 0.6], [0.5, 0.4], [-0.5, 1.5], [[0.5, 0.5]], 1.0, [math.nan, 1.0]])
def test_shares_are_those_of_a_whole_population(shares):
    with pytest.raises(InputError, match="shares must be numbers of at least 0 that sum to 1"):
        released_shares(np.array(shares), 0.0)
    assert released_shares(np.array([0.0, 1.0]), 0.0).tolist() == [0.5, 0.5]


def test_a_value_that_is_never_kept_is_not_kept_by_the_smallest_draw(monkeypatch):
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape: jnp.zeros(shape))
    true = jnp.arange(6) % 3
    drawn = np.asarray(Response("sampled", -1e4).draw(jax.random.key(0), true, 3))[:, 0]
    assert (drawn != np.asarray(true)).all()
    assert np.asarray(Response("sampled", 1e4).draw(jax.random.key(0), true, 3))[:, 0].tolist() == true.tolist()
