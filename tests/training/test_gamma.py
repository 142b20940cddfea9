"""Claims about γ at the first layer: it is 0 for centred codes, and otherwise there is none."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bornfair.core.errors import InputError, NoGamma
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.training.gamma import solve_first_layer
from bornfair.training.response import privacy, response_probabilities


def one_against_rest(size: int) -> np.ndarray:
    return size * np.eye(size, dtype=np.int64) - 1


# --- the mechanism ---


@settings(deadline=None)
@given(size=st.integers(2, 9), gamma=st.floats(-6, 6))
def test_the_largest_ratio_of_answers_is_the_privacy_it_claims(size: int, gamma: float) -> None:
    probability = response_probabilities(size, gamma)
    ratio = max(
        probability[i, answer] / probability[j, answer]
        for answer in range(size)
        for i in range(size)
        for j in range(size)
    )
    assert ratio == pytest.approx(math.exp(privacy(gamma)))
    assert probability.sum(axis=1) == pytest.approx(1)
    assert probability[0, 0] == pytest.approx(math.exp(gamma) / (math.exp(gamma) + size - 1))


def test_extreme_gamma_answers_with_the_truth_or_never_with_it() -> None:
    assert (response_probabilities(3, 1e4) == np.eye(3)).all()
    assert response_probabilities(3, -1e4) == pytest.approx((1 - np.eye(3)) / 2)


def test_privacy_adds_up_over_draws() -> None:
    assert privacy(0.0, draws=1000) == 0.0
    assert privacy(0.25, draws=8) == privacy(-0.25, draws=8) == 2.0


@pytest.mark.parametrize("draws", [0, -1, 1.5, True])
def test_privacy_needs_whole_draws(draws: object) -> None:
    with pytest.raises(InputError, match="draws must be a whole number"):
        privacy(1.0, draws=draws)  # type: ignore[arg-type]


def test_nan_is_no_gamma_and_one_value_is_no_response() -> None:
    with pytest.raises(InputError, match="NaN"):
        privacy(math.nan)
    with pytest.raises(InputError, match="NaN"):
        response_probabilities(2, math.nan)
    with pytest.raises(InputError, match="two or more sensitive values, found 1"):
        response_probabilities(1, 0.0)


# --- the first layer, against hand-solved cases ---


def test_plus_and_minus_one_is_solved_by_zero() -> None:
    solution = solve_first_layer(np.array([[-1], [1]]))
    assert (solution.gamma, solution.p, solution.equations) == (0.0, 0.5, 2)
    with pytest.raises(FrozenInstanceError):
        solution.gamma = 1.0  # type: ignore[misc]


@pytest.mark.parametrize("size", range(3, 9))
def test_one_against_rest_is_solved_by_zero(size: int) -> None:
    solution = solve_first_layer(one_against_rest(size))
    assert (solution.gamma, solution.p, solution.equations) == (0.0, 1 / size, size * size)


def test_zero_one_codes_have_no_gamma_and_the_message_says_what_to_use() -> None:
    with pytest.raises(NoGamma) as caught:
        solve_first_layer(np.array([[0], [1]]))
    assert str(caught.value) == (
        "no γ solves this coding: the codes of column 0 sum to 1, not 0; "
        "use centred codes (for two values −1 and +1, for k values k·e_i − 1)."
    )


@pytest.mark.parametrize("size", range(2, 7))
def test_one_hot_codes_have_no_gamma(size: int) -> None:
    with pytest.raises(NoGamma, match="column 0 sum to 1, not 0"):
        solve_first_layer(np.eye(size))


def test_numeric_codes_need_centring() -> None:
    ages = np.arange(18, 100)
    with pytest.raises(NoGamma, match="sum to 4797, not 0"):
        solve_first_layer(ages[:, None])
    assert solve_first_layer((2 * ages - ages[0] - ages[-1])[:, None]).gamma == 0.0


def test_a_sum_that_only_rounds_to_zero_is_not_zero() -> None:
    almost = np.array([[0.1], [0.2], [-0.3]])
    assert abs(float(almost.sum())) < 1e-16
    with pytest.raises(NoGamma, match="not 0"):
        solve_first_layer(almost)


def test_the_column_that_is_not_centred_is_named() -> None:
    with pytest.raises(NoGamma, match=r"column 1 sum to 2\.5"):
        solve_first_layer(np.array([[-1.0, 0.5], [1.0, 2.0]]))


def test_codes_of_a_composite_domain_are_solved_by_zero() -> None:
    people = Domain(
        features=(
            IntegerFeature(name="age", low=18, high=30),
            CategoricalFeature(name="sex", categories=("F", "M")),
            CategoricalFeature(name="race", categories=("a", "b", "c")),
        ),
        sensitive=("age", "sex", "race"),
    )
    space = people.sensitive_space
    assert solve_first_layer(space.integer_codes).gamma == solve_first_layer(space.codes).gamma == 0.0


def test_codes_without_information_are_solved_by_every_gamma() -> None:
    for codes in (np.zeros((3, 2)), np.full((3, 1), 4.0), np.zeros((2, 0))):
        solution = solve_first_layer(codes)
        assert (solution.gamma, solution.equations) == (0.0, 0)
        assert solution.note == "every γ solves: nothing depends on s"


integer_codes = st.integers(2, 7).flatmap(
    lambda size: arrays(np.int64, st.tuples(st.just(size), st.integers(1, 4)), elements=st.integers(-50, 50))
)


@settings(deadline=None)
@given(codes=integer_codes)
def test_any_integer_codes_are_solved_after_centring(codes: np.ndarray) -> None:
    assert solve_first_layer(len(codes) * codes - codes.sum(axis=0)).gamma == 0.0


@settings(deadline=None)
@given(codes=integer_codes)
def test_codes_that_are_not_centred_have_no_gamma(codes: np.ndarray) -> None:
    informative = (codes != codes[0]).any(axis=0)
    assume((codes.sum(axis=0) != 0)[informative].any())
    with pytest.raises(NoGamma):
        solve_first_layer(codes)


@settings(deadline=None)
@given(derivatives=integer_codes)
def test_least_squares_over_the_equations_always_finds_the_uniform_response(derivatives: np.ndarray) -> None:
    """Why the solver need not search: whatever the derivatives are, the best p is 1/k, solution or not."""
    size = len(derivatives)
    total = derivatives.sum(axis=0)
    slope = (size * derivatives - total).ravel() / (size - 1)
    constant = (total - derivatives).ravel() / (size - 1)
    assume(np.abs(slope).max() > 0)
    best = np.linalg.lstsq(slope[:, None], -constant, rcond=None)[0][0]
    assert best == pytest.approx(1 / size)
