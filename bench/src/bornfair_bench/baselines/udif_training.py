"""U-DIF training (Wicker, Piratla, Weller, NeurIPS 2023): punish the width of the bounds around each person.

Similar people form a box x ± ε·v; intervals propagated through the network bound the probability on it, and
loss = (1 − α)·cross entropy + α·256·R, R = 2·(p_max − p_min). In the distributional mode R is taken at the point within
x ± γ where it is largest, as gradient ascent finds it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from bornfair.models.network.network import Parameters, forward
from bornfair_bench.baselines.penalised import Knobs, People, RowLosses, cross_entropy, next_interval

Mode = Literal["distributional", "local"]

RELEASED_BATCH = 256
"""The released code adds R up over a batch of so many, next to a mean: its α weighs 256 times the mean of R. We take
that mean, so that α means the same for every batch size."""

ASCENT_STEPS = 10
ASCENT_STEP = 1 / 3  # of γ: the end of the ball is reached after three steps


@dataclass(frozen=True, eq=False)
class Similarity:
    """The box of people similar to x at radius 1: free ± unit, and every sensitive code between low and high."""

    unit: np.ndarray  # float64 [free columns]: v, times the column's range
    ranges: np.ndarray  # float64 [free columns]: what "1" means where people move, in the units of the encoding
    code_centre: np.ndarray  # float64 [sensitive columns]
    code_radius: np.ndarray

    @staticmethod
    def learnt(free: np.ndarray, codes: np.ndarray, all_codes: np.ndarray, ranges: np.ndarray) -> Similarity:
        """From the encoded training rows; columns are measured by their range, as if scaled to [0, 1]."""
        low, high = (pick(all_codes.astype(np.float64), axis=0) for pick in (np.min, np.max))
        unit = similarity_weights(free, codes) * ranges
        return Similarity(unit, ranges, 0.5 * (low + high), 0.5 * (high - low))


def similarity_weights(free: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """v: |correlation| of each free column with the sensitive one (the largest, if it has several codes), divided by
    its sum and then by its median. A column that does not vary gets 0; so does every one if the median is 0.

    >>> people = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0], [0.0, 1.0, 5.0], [1.0, 1.0, 5.0]])
    >>> similarity_weights(people, np.array([[-1.0], [1.0], [-1.0], [1.0]])).round(3).tolist()
    [1.732, 1.0, 0.0]
    """
    columns, coded = (part.astype(np.float64) - part.mean(axis=0, dtype=np.float64) for part in (free, codes))
    spread = np.sqrt(np.outer((columns**2).sum(axis=0), (coded**2).sum(axis=0)))
    varies = spread > 1e-9 * len(free)
    correlation = np.where(varies, np.abs(columns.T @ coded) / np.where(varies, spread, 1.0), 0.0)
    strongest = correlation.max(axis=1, initial=0.0)
    total = strongest.sum()
    weights = strongest / total if total > 0 else strongest
    median = np.median(weights) if len(weights) else 0.0
    return weights / median if median > 0 else np.zeros_like(weights)


def grown(epoch: int, epochs: int) -> float:
    """The share of their full size that boxes and moves have in an epoch: fifths of it in the first five of ten.

    >>> [grown(epoch, 10) for epoch in (0, 1, 4, 5)]
    [0.2, 0.4, 1.0, 1.0]
    """
    return min(1.0, (epoch + 1) / ((epochs + 1) // 2))


@functools.lru_cache
def row_losses(mode: Mode) -> RowLosses:
    def losses(parameters: Parameters, people: People, knobs: Knobs) -> jax.Array:
        free = people["free"]
        radius = knobs["epsilon"] * knobs["unit"], knobs["codes"] * knobs["code_radius"]

        def width(moved: jax.Array) -> jax.Array:
            return probability_width(parameters, moved, knobs["code_centre"], *radius)

        at = free
        if mode == "distributional":
            reach = knobs["gamma"] * knobs["ranges"]
            at = jax.lax.stop_gradient(_ascent(width, free, reach))
        scores = forward(parameters, jnp.concatenate([free, people["codes"]], axis=1), "relu")[:, 0]
        weight = knobs["alpha"]
        # R adds up the two classes' widths, which are the same.
        return (1 - weight) * cross_entropy(scores, people["labels"]) + weight * RELEASED_BATCH * 2 * width(at)

    return losses


def _ascent(width: Callable[[jax.Array], jax.Array], free: jax.Array, reach: jax.Array) -> jax.Array:
    """The free parts moved by sign-gradient steps to where the bounds are wider, within ± reach."""
    slope = jax.grad(lambda moved: jnp.sum(width(moved)))

    def step(_: int, moved: jax.Array) -> jax.Array:
        return jnp.clip(moved + ASCENT_STEP * reach * jnp.sign(slope(moved)), free - reach, free + reach)

    return jax.lax.fori_loop(0, ASCENT_STEPS, step, free)


def probability_width(
    parameters: Parameters, free: jax.Array, code_centre: jax.Array, radius: jax.Array, code_radius: jax.Array
) -> jax.Array:
    """p_max − p_min [rows] by intervals over free ± radius and the codes; radius is [columns] or [rows, columns].

    In float32, for training and for gradients; `probability_bounds` has the bounds that count as proof.
    """
    split = free.shape[1]
    weight, bias = parameters[0]
    centre = free @ weight[:, :split].T + code_centre @ weight[:, split:].T + bias
    reach = radius @ jnp.abs(weight[:, :split]).T + code_radius @ jnp.abs(weight[:, split:]).T
    for weight, bias in parameters[1:]:
        centre, reach = next_interval(centre, reach, weight, bias)
    return jax.nn.sigmoid(centre + reach)[:, 0] - jax.nn.sigmoid(centre - reach)[:, 0]
