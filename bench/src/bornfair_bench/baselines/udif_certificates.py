"""What U-DIF certifies: bounds around given people, and on average under any shift of their distribution up to γ.

Everybody may be moved, person i by φ_i (in units of v), the φ_i being γ on average; g_i(φ) is the width of the bounds
of the probability on the box of radius ε + φ around person i. Moving a person by φ and taking the box of radius ε there
stays within that box, so the largest mean of the g_i(φ_i) bounds the mean unfairness of every distribution within
Wasserstein distance γ of the given people.
"""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bornfair.models.network.network import Network, Parameters, forward_from_first
from bornfair.verification.milp.probability import probability_ends
from bornfair_bench.baselines.logit_bounds import WIDEN, logit_bounds, logit_bounds_of_versions
from bornfair_bench.baselines.penalised import probability_widths
from bornfair_bench.baselines.udif_training import Similarity, probability_width

ASCENT = 500  # steps on φ, with momentum, as released
MOMENTUM = 0.8
ASCENT_RATES = (0.1, 1.0, 10.0, 100.0, 1000.0)  # those tried in the released code; the largest value met counts
SEARCH_STEPS = 40  # sign-gradient steps of the search for an unfair shift
MOST_CODES = 64  # sensitive values that search tries: what is found is a lower bound anyway
SHARES = (1, 2, 4, 8)  # who is moved: everybody by γ, or one in so many by so many times γ
GRID = 64  # radii at which the bounds are computed, on each of two scales
FAR = 64.0  # times γ: where the grid ends; beyond, the width is taken to be 1
ROUNDING = 1e-9  # added to means and products of numbers between 0 and 1, far above what float64 does to them


@dataclass(frozen=True)
class Distributional:
    """The mean of p_max − p_min under the worst distribution within γ of the given people, from both sides.

    proven:    no such distribution has a larger mean (Lagrangian bound; rounding accounted for).
    by_ascent: the number of the paper, found by gradient ascent on the φ_i: a bound only if it is the true maximum.
    attained:  a distribution that near was found whose mean is at least this: its people and their similar people are
               points of the boxes with real sensitive values, and their probabilities were computed safely.
    """

    proven: float
    by_ascent: float
    attained: float
    epsilon: float
    gamma: float
    people: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def certify_distribution(
    network: Network, free: np.ndarray, all_codes: np.ndarray, similarity: Similarity, *, epsilon: float, gamma: float
) -> Distributional:
    """All three numbers for encoded people [rows, free columns]."""
    return Distributional(
        proven=proven_bound(network, free, similarity, epsilon=epsilon, gamma=gamma),
        by_ascent=ascent_value(network, free, similarity, epsilon=epsilon, gamma=gamma),
        attained=attained_value(network, free, all_codes, similarity, epsilon=epsilon, gamma=gamma),
        epsilon=epsilon,
        gamma=gamma,
        people=len(free),
    )


# --- one box ---


def box_logits(
    network: Network, free: np.ndarray, similarity: Similarity, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Safe bounds [rows] of the logit over each person's box of the given radius, all sensitive codes included."""
    codes = np.tile(similarity.code_centre, (len(free), 1))
    centres = np.concatenate([free, codes], axis=1)
    return logit_bounds(network, centres, WIDEN * np.append(radius * similarity.unit, similarity.code_radius))


def box_widths(network: Network, free: np.ndarray, similarity: Similarity, radius: float) -> np.ndarray:
    """g_i: p_max − p_min on each person's box, rounded up."""
    return probability_widths(*box_logits(network, free, similarity, radius))


# --- the proven bound ---


def proven_bound(network: Network, free: np.ndarray, similarity: Similarity, *, epsilon: float, gamma: float) -> float:
    """An upper bound of max mean g_i(φ_i) over mean φ_i ≤ γ, φ_i ≥ 0.

    For every λ ≥ 0 that maximum is at most λγ + mean_i max_φ (g_i(φ) − λφ). As g_i grows with φ, it is at most g_i(φ_k)
    between two grid points φ_{k−1} and φ_k, where λφ is at least λφ_{k−1}; beyond the last one g_i is at most 1.
    """
    if gamma == 0 or not similarity.unit.any():
        return _rounded_up(float(np.mean(box_widths(network, free, similarity, epsilon))))
    grid = _grid(gamma)
    widths = np.stack([box_widths(network, free, similarity, epsilon + phi) for phi in grid])
    return dual_bound(grid, widths, gamma)


def dual_bound(grid: np.ndarray, widths: np.ndarray, gamma: float) -> float:
    """The smallest bound over many λ, for growing widths, known [grid, rows] at the grid (its first point is 0)."""
    upper = np.concatenate([widths, np.ones((1, widths.shape[1]))])  # beyond the grid
    least = np.concatenate([[0.0], grid])  # from where on each of these holds
    prices = np.concatenate([[0.0], np.geomspace(1e-4 / gamma, 1 / gamma, 200)])

    def bound(price: float) -> float:
        return price * gamma + float(np.mean(np.max(upper - price * least[:, None], axis=0)))

    values = [bound(price) for price in prices]
    best = int(np.argmin(values))
    near = np.linspace(prices[max(best - 1, 0)], prices[min(best + 1, len(prices) - 1)], 60)
    return _rounded_up(min(*values, *(bound(price) for price in near)))


def _grid(gamma: float) -> np.ndarray:
    """0, then evenly up to 4γ, then ever wider apart."""
    return np.concatenate([np.linspace(0.0, 4 * gamma, GRID), np.geomspace(4 * gamma, FAR * gamma, GRID)[1:]])


def _rounded_up(number: float) -> float:
    return min(1.0, float(number) + ROUNDING)


# --- the paper's number ---


def ascent_value(network: Network, free: np.ndarray, similarity: Similarity, *, epsilon: float, gamma: float) -> float:
    """The largest mean of g_i(φ_i) met by gradient ascent from φ = γ, in float32."""
    unit, centre, codes = (
        jnp.asarray(part, jnp.float32) for part in (similarity.unit, similarity.code_centre, similarity.code_radius)
    )
    run = _compiled_ascent()
    people = jnp.asarray(free, jnp.float32)
    values = [
        float(run(network.to_jax(), people, unit, centre, codes, epsilon, gamma, rate))
        for rate in (ASCENT_RATES if gamma > 0 else (0.0,))
    ]
    return max(values)


@functools.lru_cache
def _compiled_ascent() -> Any:
    def run(
        parameters: Parameters, free: jax.Array, unit: jax.Array, centre: jax.Array, codes: jax.Array,
        epsilon: jax.Array, gamma: jax.Array, rate: jax.Array,
    ) -> jax.Array:  # fmt: skip
        def value(phi: jax.Array) -> jax.Array:
            radius = (epsilon + phi)[:, None] * unit
            return jnp.mean(probability_width(parameters, free, centre, radius, codes))

        def step(carry: tuple[jax.Array, jax.Array, jax.Array], _: Any) -> Any:
            raw, speed, best = carry
            phi = jax.nn.softplus(raw)
            phi = phi * jnp.minimum(1.0, gamma / jnp.maximum(jnp.mean(phi), 1e-30))  # back to a mean of γ at most
            found, slope = jax.value_and_grad(value)(phi)
            raw = _softplus_inverse(phi)
            speed = MOMENTUM * speed + slope * jax.nn.sigmoid(raw)
            return (raw + rate * speed, speed, jnp.maximum(best, found)), None

        start = jnp.full(len(free), gamma)
        begin = _softplus_inverse(start), jnp.zeros(len(free)), value(start)
        (_, _, best), _ = jax.lax.scan(step, begin, None, length=ASCENT)
        return best

    return jax.jit(run)


def _softplus_inverse(value: jax.Array) -> jax.Array:
    kept = jnp.maximum(value, 1e-12)
    return kept + jnp.log(-jnp.expm1(-kept))


# --- an unfair distribution that exists ---


def attained_value(
    network: Network, free: np.ndarray, all_codes: np.ndarray, similarity: Similarity, *, epsilon: float, gamma: float
) -> float:
    """The mean change of probability of a distribution within γ of the people: found by search, measured safely."""
    still = attained_changes(network, free, all_codes, similarity, epsilon=epsilon, phi=0.0)
    best = float(np.mean(still))
    for share in SHARES if gamma > 0 else ():
        moved = attained_changes(network, free, all_codes, similarity, epsilon=epsilon, phi=share * gamma)
        gain = np.sort(np.maximum(moved - still, 0.0))[::-1]
        best = max(best, float(np.mean(still)) + float(np.sum(gain[: len(free) // share])) / len(free))
    return max(0.0, best - ROUNDING)


def attained_changes(
    network: Network, free: np.ndarray, all_codes: np.ndarray, similarity: Similarity, *, epsilon: float, phi: float
) -> np.ndarray:
    """For each person moved by up to φ: how far apart the probabilities of two of those similar to them are, at least.

    Both are points of the box of radius ε around one moved point, with sensitive values of S (some, if S is large).
    """
    some = np.linspace(0, len(all_codes) - 1, min(len(all_codes), MOST_CODES)).round().astype(int)
    all_codes = all_codes[some]
    arrays = [jnp.asarray(part, jnp.float32) for part in (free, all_codes, similarity.unit)]
    found = _compiled_search()(network.to_jax(), *arrays, jnp.float32(epsilon), jnp.float32(phi))
    middle, *sides = np.asarray(found, np.float64)
    inward = 1 - 1e-9  # so that no rounding takes a point out of its box
    moved = free.astype(np.float64) + inward * phi * similarity.unit * middle
    first, second = (moved + inward * epsilon * similarity.unit * side for side in sides)
    still = np.zeros(free.shape[1])
    low, _ = probability_ends(*logit_bounds_of_versions(network, first, all_codes, still))
    _, high = probability_ends(*logit_bounds_of_versions(network, second, all_codes, still))
    return np.maximum(low.max(axis=0) - high.min(axis=0), 0.0)


@functools.lru_cache
def _compiled_search() -> Any:
    """Sign-gradient ascent on the middle and the two sides, all in units of their radius: [3, rows, columns]."""

    def run(
        parameters: Parameters, free: jax.Array, codes: jax.Array, unit: jax.Array, epsilon: jax.Array, phi: jax.Array
    ) -> jax.Array:
        split = free.shape[1]
        weight, bias = parameters[0]
        offsets = codes @ weight[:, split:].T + bias  # [|S|, width]

        def probabilities(people: jax.Array) -> jax.Array:
            first = (people @ weight[:, :split].T)[:, None, :] + offsets
            scores = forward_from_first(parameters, first.reshape(-1, first.shape[-1]), "relu")
            return jax.nn.sigmoid(scores.reshape(len(people), -1))

        def change(places: jax.Array) -> jax.Array:
            moved = free + phi * unit * places[0]
            first, second = (moved + epsilon * unit * places[i] for i in (1, 2))
            return jnp.sum(jnp.max(probabilities(first), axis=1) - jnp.min(probabilities(second), axis=1))

        def step(_: int, places: jax.Array) -> jax.Array:
            return jnp.clip(places + 4 / SEARCH_STEPS * jnp.sign(jax.grad(change)(places)), -1.0, 1.0)

        return jax.lax.fori_loop(0, SEARCH_STEPS, step, jnp.zeros((3, *free.shape)))

    return jax.jit(run)
