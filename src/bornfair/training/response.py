"""How the sensitive value is randomised while training (paper §3.3).

P(ŝ = ω_j | s = ω_i) = e^{γ·1[i=j]} / (e^γ + |S| − 1). Three readings of Algorithm 1 (docs/theory.md §2): a row gets
its own value randomised, drawn (*sampled*) or in exact expectation (*expected*), or, as printed, the randomised value
of everybody in the table (*population*, and drawn: *population_sampled*). Which γ preserves fairness is answered in
`gamma`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bornfair.core.checks import choice, whole
from bornfair.core.errors import InputError

if TYPE_CHECKING:
    import jax


Mode = Literal["expected", "sampled", "population", "population_sampled", "none"]


@dataclass(frozen=True)
class Response:
    """The mechanism of one training run.

    mode 'expected': every row once per value of S, weighted by the probability that its own value is released as it.
    mode 'sampled': `draws` random releases of its own value per row and step.
    mode 'population': every row once per value of S, weighted by the probability that a random person of the table
        is released as it: the expectation of Algorithm 1 as printed. Codes are centred at the mean released code.
    mode 'population_sampled': `draws` random people per row and step, each released once; Algorithm 1 as printed takes
        all people of the table instead.
    mode 'none': the true value (plain empirical risk minimisation, no fairness).
    """

    mode: Mode = "expected"
    gamma: float = 0.0
    draws: int = 1

    def __post_init__(self) -> None:
        choice("response", self.mode, get_args(Mode))
        if not math.isfinite(self.gamma):
            raise InputError(f"gamma must be a finite number, found {self.gamma}; 0 preserves fairness.")
        whole("draws", self.draws, 1)

    @property
    def preserves_fairness(self) -> bool:
        """Whether exact preservation applies to updates made with this response (docs/theory.md §3 and §4).

        The mean code must be exactly 0: of centred codes at γ = 0, of codes centred at their release at every γ.
        """
        return self.mode == "population" or (self.mode == "expected" and self.gamma == 0)

    @property
    def draws_values(self) -> bool:
        return self.mode in ("sampled", "population_sampled")

    @property
    def of_population(self) -> bool:
        """Whether a row meets the values of everybody, not its own."""
        return self.mode in ("population", "population_sampled")

    @property
    def reads_values(self) -> bool:
        """Whether training needs people's sensitive values: not where every value of S counts the same."""
        return self.draws_values or self.mode == "none" or self.gamma != 0

    def keep_probability(self, size: int) -> float:
        """p = P(ŝ = s)."""
        return 1.0 if size == 1 else kept_and_other(size, self.gamma)[0]

    def matrix(self, size: int) -> np.ndarray:
        """All of P(ŝ | s), float64 [|S|, |S|], a row for each true value."""
        return np.ones((1, 1)) if size == 1 else response_probabilities(size, self.gamma)

    def release(self, shares: np.ndarray) -> np.ndarray:
        """r(ω), the distribution of the released value of a random person: float64 [|S|]."""
        return released_shares(shares, self.gamma) if len(shares) > 1 else np.ones(1)

    def draw(self, key: jax.Array, true: jax.Array, size: int) -> jax.Array:
        """Random responses for rows with true positions `true`: int32 [rows, draws]."""
        import jax
        import jax.numpy as jnp

        shape = (true.shape[0], self.draws)
        change, other = jax.random.split(key)
        keep = jax.random.uniform(change, shape) < self.keep_probability(size)
        # s + 1 + U{0, …, |S|−2} modulo |S| is uniform over the values that are not s.
        moved = (true[:, None] + 1 + jax.random.randint(other, shape, 0, max(size - 1, 1))) % size
        return jnp.where(keep, true[:, None], moved)


def kept_and_other(size: int, gamma: float) -> tuple[float, float]:
    """p = P(ŝ = s | s), and the probability q of each other value: p = e^γ·q and p + (|S| − 1)·q = 1.

    >>> kept_and_other(4, 0.0)
    (0.25, 0.25)
    """
    if size < 2:
        raise InputError(f"randomised response needs two or more sensitive values, found {size}.")
    if math.isnan(gamma):
        raise InputError("γ must be a number, found NaN; 0 answers uniformly at random.")
    # Dividing by the larger of e^γ and 1 keeps both terms finite for every γ.
    same, other = (1.0, math.exp(-gamma)) if gamma >= 0 else (math.exp(gamma), 1.0)
    total = same + (size - 1) * other
    return same / total, other / total


def response_probabilities(size: int, gamma: float) -> np.ndarray:
    """P(ŝ=ω_j | s=ω_i) as a matrix [|S|, |S|]; row i is the true value.

    >>> response_probabilities(3, 0.0)[0].round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    same, other = kept_and_other(size, gamma)
    matrix = np.full((size, size), other)
    np.fill_diagonal(matrix, same)
    return matrix


def released_shares(shares: np.ndarray, gamma: float) -> np.ndarray:
    """r(ω) = Σ_s share(s)·P(ω | s) = (p − q)·share(ω) + q: how often each value is released, over a whole population.

    >>> released_shares(np.array([0.75, 0.25]), 0.0).tolist()
    [0.5, 0.5]
    """
    whole_population = np.asarray(shares, np.float64)
    if whole_population.ndim != 1 or (whole_population < 0).any() or not np.isclose(whole_population.sum(), 1.0):
        raise InputError(f"shares must be numbers of at least 0 that sum to 1, found {np.asarray(shares).tolist()}.")
    kept, other = kept_and_other(len(whole_population), gamma)
    return (kept - other) * whole_population + other


def privacy(gamma: float, draws: int = 1) -> float:
    """ε of local differential privacy for a person whose value is randomised `draws` times: ε = |γ|·draws.

    Only mode 'sampled' gives it. At γ ≠ 0 the exact expectation uses the true value of every row without noise, and
    both population modes use the exact share of each value without noise; they give none. Draws count over the whole
    training: epochs times draws per row.

    >>> privacy(0.5, draws=4)
    2.0
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise InputError(f"draws must be a whole number of 1 or more, found {draws!r}.")
    if math.isnan(gamma):
        raise InputError("γ must be a number, found NaN.")
    return abs(gamma) * int(draws)


# --- what a whole table releases ---


@dataclass(frozen=True, eq=False)
class Released:
    """How often each value of S is released, and the codes around their mean c̄ = Σ r(ω)·c(ω) (docs/theory.md §4).

    A random person of the table is released as ω with probability r(ω) = (p − q)·share(ω) + q.
    """

    shares: np.ndarray  # r(ω), float64 [|S|]
    centre: np.ndarray  # c̄, float64 [sensitive]
    codes: np.ndarray  # c(ω) − c̄, float64 [|S|, sensitive]

    @staticmethod
    def of(response: Response, codes: np.ndarray, true: np.ndarray | None, weights: np.ndarray | None) -> Released:
        """From the true values of the rows trained on (positions in S) and how much each row counts."""
        table = np.asarray(codes, np.float64)
        counted = np.ones(len(table))
        if response.gamma != 0:  # at γ = 0 every value is released equally often, and nobody's needs to be known
            if true is None:
                raise InputError("this response needs each row's true sensitive value, but the table has none.")
            counted = np.bincount(true, weights, minlength=len(table)).astype(np.float64)
        released = response.release(counted / counted.sum())
        centre = released @ table
        return Released(released, centre, table - centre)

    def tables(self) -> dict[str, np.ndarray]:
        """What the compiled loops read."""
        return {"release": self.shares.astype(np.float32), "codes": self.codes.astype(np.float32)}

    def bias_of_centred(self, weight: Any, bias: Any) -> np.ndarray:
        """The bias b + V·c̄, with which V·(c − c̄) is what V·c + b was; `weight` is the whole first layer."""
        return self._moved(weight, bias, +1)

    def bias_of_shipped(self, weight: Any, bias: Any) -> np.ndarray:
        """Back again: the network that is shipped reads the plain codes."""
        return self._moved(weight, bias, -1)

    def _moved(self, weight: Any, bias: Any, sign: int) -> np.ndarray:
        sensitive = np.asarray(weight, np.float64)[:, -len(self.centre) :]
        return (np.asarray(bias, np.float64) + sign * (sensitive @ self.centre)).astype(np.float32)


# --- the noise of drawn responses ---
#
# Chebyshev: a mean of m draws with variance σ² each leaves its expectation by more than τ with probability at most
# σ²/(m·τ²) (paper §3.3, where the number of draws is δ). The bound is about one step and one parameter: it does not
# add up over the steps of a training, where drifts accumulate, nor hold for all parameters at once. And a small drift
# is not fairness: any drift other than 0 can flip somebody close to the decision boundary. Only the exact expectation
# has no drift.


def response_variance(codes: np.ndarray, gamma: float, true: int) -> np.ndarray:
    """The variance of the released code given the position of the true value, per column of codes [|S|, columns].

    >>> response_variance(np.array([[-1.0], [1.0]]), gamma=0.0, true=0).tolist()
    [1.0]
    """
    kept, other = kept_and_other(len(codes), gamma)
    probability = np.full(len(codes), other)
    probability[true] = kept
    # Squares of deviations, not a difference of squares: nothing cancels, and a certain answer has variance exactly 0.
    return np.asarray(probability @ (codes - probability @ codes) ** 2)


def drift_probability(variance: float, draws: int, threshold: float) -> float:
    """A bound on P(|drift| > threshold) for the mean of `draws` independent draws: min(1, σ²/(m·τ²)).

    >>> drift_probability(variance=1.0, draws=100, threshold=0.5)
    0.04
    """
    return float(min(_bound(variance, threshold) / draws, Fraction(1)))


def draws_needed(variance: float, threshold: float, probability: float) -> int:
    """The smallest number of draws for which the bound on P(|drift| > threshold) is at most `probability`.

    >>> draws_needed(variance=1.0, threshold=0.5, probability=0.04)
    100
    """
    return max(1, math.ceil(_bound(variance, threshold) / Fraction(probability)))


def _bound(variance: float, threshold: float) -> Fraction:
    """σ²/τ² without rounding, so that `draws_needed` and `drift_probability` never disagree."""
    return Fraction(variance) / Fraction(float(threshold)) ** 2
