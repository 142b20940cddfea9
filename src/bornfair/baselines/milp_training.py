"""MILP training (Benussi, Patane, Wicker, Laurenti, Kwiatkowska, IJCAI 2022): punish the change at the worst twin.

loss = λ·cross entropy + (1 − λ)·|p(x) − p(x*)|, the second half of the time; x* is the similar person whose outcome is
furthest from x's. Similar people are twins, so x* is found by trying every sensitive value: no solver is needed. With
a box (numbers may differ too) x* is a corner of it, the one at which the linear relaxation of the network is largest or
smallest, for each sensitive value.
"""

from __future__ import annotations

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from bornfair.baselines.penalised import Knobs, Pace, RowLosses, Table, cross_entropy, train_penalised
from bornfair.models.network import Network, Parameters, forward_from_first

Penalty = Literal["probability", "as_coded"]


def train_milp(
    start: Network,
    free: np.ndarray,
    codes: np.ndarray,
    all_codes: np.ndarray,
    labels: np.ndarray,
    reach: np.ndarray,
    *,
    balance: float,
    penalty: Penalty,
    pace: Pace,
) -> Network:
    """Train from `start` on encoded people; `reach` says how far each free column of similar people may be apart.

    The first half of the epochs is plain training; then the optimiser starts anew, with the penalty. `balance` is λ.
    """
    half = (pace.epochs + 1) // 2
    table = {
        "free": free,
        "codes": codes,
        "all_codes": all_codes,
        "labels": labels.astype(np.float32),
        "reach": reach.astype(np.float32),
    }
    losses = row_losses(free.shape[1], penalty, bool(reach.any()))
    learnt = train_penalised(start, table, len(free), losses, pace, lambda _: {"balance": 1.0}, range(half))
    fair = range(half, pace.epochs)
    return train_penalised(learnt, table, len(free), losses, pace, lambda _: {"balance": balance}, fair)


@functools.lru_cache
def row_losses(free_width: int, penalty: Penalty, boxed: bool) -> RowLosses:
    """The loss λ·cross entropy + (1 − λ)·change, for networks that read so many free columns before the codes."""

    def losses(parameters: Parameters, table: Table, rows: jax.Array, knobs: Knobs) -> jax.Array:
        weight, bias = parameters[0]
        shared = table["free"][rows] @ weight[:, :free_width].T + bias
        # Twins differ by their codes' offset alone: [rows, |S|, width].
        versions = shared[:, None, :] + table["all_codes"] @ weight[:, free_width:].T
        if boxed:
            versions = _with_corners(parameters, versions, weight[:, :free_width], table["reach"])
        similar = _scores(parameters, versions)
        own = _scores(parameters, shared + table["codes"][rows] @ weight[:, free_width:].T)
        change = outcome_change(own, similar, penalty)
        balance = knobs["balance"]
        return balance * cross_entropy(own, table["labels"][rows]) + (1 - balance) * change

    return losses


def outcome_change(own: jax.Array, similar: jax.Array, penalty: Penalty) -> jax.Array:
    """|p(x) − p(x*)| for logits of people [rows] and of those similar to each [rows, …].

    'probability' is the method as described: p is the sigmoid and x* whoever is furthest away. 'as_coded' is the
    released code: p is ReLU of the logit, so that a change below 0 costs nothing, and x* has the largest logit.
    """
    others = similar.reshape(len(own), -1)
    if penalty == "as_coded":
        return jnp.abs(jax.nn.relu(own) - jax.nn.relu(jnp.max(others, axis=1)))
    return jnp.max(jnp.abs(jax.nn.sigmoid(own)[:, None] - jax.nn.sigmoid(others)), axis=1)


def _scores(parameters: Parameters, first: jax.Array) -> jax.Array:
    """Logits from the sums of the first layer [..., width]."""
    return forward_from_first(parameters, first.reshape(-1, first.shape[-1]), "relu").reshape(first.shape[:-1])


def _with_corners(parameters: Parameters, first: jax.Array, weight: jax.Array, reach: jax.Array) -> jax.Array:
    """First sums [rows, versions, width] at each box's centre and at two of its corners: [rows, 3·versions, width].

    The corners are where the linear relaxation of the network ends. They are constants of the loss: the network learns
    at x*, not by moving it.
    """
    width = first.shape[-1]
    slopes = jax.lax.stop_gradient(relaxed_slopes(parameters, first.reshape(-1, width), reach))
    towards = (reach * jnp.sign(slopes)).reshape(*first.shape[:-1], -1) @ weight.T
    return jnp.concatenate([first, first + towards, first - towards], axis=1)


def relaxed_slopes(parameters: Parameters, first: jax.Array, reach: jax.Array) -> jax.Array:
    """Slopes [rows, free columns] of the logit's linear relaxation over boxes centre ± reach, given first sums.

    A ReLU whose sum lies in [l, h] is enclosed by two lines of slope h/(h − l): both bounds of the logit then have the
    same slopes, and each is attained at a corner that their signs tell.
    """
    weight = parameters[0][0][:, : len(reach)]
    centre, radius = first, jnp.broadcast_to(reach @ jnp.abs(weight).T, first.shape)
    gates = []
    for weight, bias in parameters[1:]:
        low, high = centre - radius, centre + radius
        undecided = (low < 0) & (high > 0)
        gates.append(jnp.where(undecided, high / jnp.where(undecided, high - low, 1.0), high > 0))
        low, high = jax.nn.relu(low), jax.nn.relu(high)
        centre, radius = 0.5 * (low + high) @ weight.T + bias, 0.5 * (high - low) @ jnp.abs(weight).T
    slopes = jnp.ones((len(first), 1))
    for gate, (weight, _) in zip(reversed(gates), reversed(parameters[1:]), strict=True):
        slopes = (slopes @ weight) * gate
    return slopes @ parameters[0][0][:, : len(reach)]
