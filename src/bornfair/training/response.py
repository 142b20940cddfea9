"""How the sensitive value is randomised while training (paper §3.3).

P(ŝ = ω_j | s = ω_i) = e^{γ·1[i=j]} / (e^γ + |S| − 1). Two readings of Algorithm 1: *sampled* draws ŝ, *expected* takes
the exact expectation over ŝ. Which γ preserves fairness is answered in `gamma`, how noisy draws are in `drift`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from bornfair.checks import choice, whole
from bornfair.errors import InputError

if TYPE_CHECKING:
    import jax

Mode = Literal["expected", "sampled", "none"]


@dataclass(frozen=True)
class Response:
    """The mechanism of one training run.

    mode 'expected': every row once per value of S, weighted by its probability; exact.
    mode 'sampled': `draws` random values per row and step, as Algorithm 1 prints it.
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
        """Whether exact preservation (docs/theory.md) applies to updates made with this response."""
        return self.mode == "expected" and self.gamma == 0

    def keep_probability(self, size: int) -> float:
        """p = P(ŝ = s)."""
        return 1.0 if size == 1 else kept_and_other(size, self.gamma)[0]

    def matrix(self, size: int) -> np.ndarray:
        """All of P(ŝ | s), float64 [|S|, |S|], a row for each true value."""
        return np.ones((1, 1)) if size == 1 else response_probabilities(size, self.gamma)

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


def privacy(gamma: float, draws: int = 1) -> float:
    """ε of local differential privacy for a person whose value is randomised `draws` times: ε = |γ|·draws.

    Only the sampled response gives it. The exact expectation over ŝ uses the true value of every row whenever γ ≠ 0,
    without any noise, and gives none. Draws count over the whole training: epochs times draws per row.

    >>> privacy(0.5, draws=4)
    2.0
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise InputError(f"draws must be a whole number of 1 or more, found {draws!r}.")
    if math.isnan(gamma):
        raise InputError("γ must be a number, found NaN.")
    return abs(gamma) * int(draws)
