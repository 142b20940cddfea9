"""MILP (Benussi, Patane, Wicker, Laurenti, Kwiatkowska, IJCAI 2022): punish how much a person's probability changes.

loss = λ·cross entropy + (1 − λ)·|p(x) − p(x*)|, the second half of the time; x* is the similar person whose outcome is
furthest from x's. Similar people are twins, so x* is found by trying every sensitive value: no solver is needed. With
a box (numbers may differ too) x* is a corner of it, the one at which the linear relaxation of the network is largest or
smallest, for each sensitive value. The largest change of anybody's probability is certified by
`verification.milp.probability`.

We follow the description: the sigmoid in the penalty, x* whoever is furthest from x, and only proven bounds reported.
Where the released code differs (ReLU in place of the sigmoid, the largest logit only), penalty='as_coded' follows it.
Ours: the sensitive columns stay inputs, similar people are twins (and, if asked for, people whose numbers differ by up
to epsilon), batches are drawn as they come and not balanced by class.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from bornfair.core.checks import choice, number
from bornfair.core.errors import InputError
from bornfair.models.network.network import Network, Parameters, forward_from_first
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.twins.relation import free_space
from bornfair.verification.milp.encoding import MOST_VALUES
from bornfair.verification.milp.network import Change
from bornfair.verification.milp.probability import largest_probability_change
from bornfair_bench.baselines.base import BaselineData, Certified
from bornfair_bench.baselines.logit_bounds import WIDEN, logit_bounds_of_versions
from bornfair_bench.baselines.penalised import (
    Knobs,
    Pace,
    Penalised,
    People,
    RowLosses,
    certified_between,
    cross_entropy,
    next_interval,
    train_penalised,
)

Penalty = Literal["probability", "as_coded"]


@dataclass(eq=False, repr=False)
class MILP(Penalised):
    """A relu network trained against the change of its probability between twins.

    Parameters
    ----------
    balance : λ; the loss is λ·cross entropy + (1 − λ)·|p(x) − p(x*)| in the second half of the training.
    penalty : 'probability' as described, or 'as_coded' as in the released code (see the module).
    epsilon : how far the numbers of similar people may differ, as a share of the column's range in the domain; 0 for
        twins alone. It widens what is trained against and what `certify` says, not `largest_change`.
    epochs, batch_size : 'auto' takes about 2,000 steps in batches that fit the table.
    sensitive_features, hidden, learning_rate, domain, random_state : as in every baseline.

    >>> from bornfair import datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> MILP(["sex"], hidden=[16], epochs=20).fit(X, y).certify(X).share > 0.9
    True
    """

    balance: float = 0.5
    penalty: Penalty = "probability"
    epsilon: float = 0.0

    advice: ClassVar[str] = "raise balance, or train for longer"

    def _check_options(self) -> None:
        super()._check_options()
        number("balance", self.balance, 0.0, 1.0)
        choice("penalty", self.penalty, get_args(Penalty))
        number("epsilon", self.epsilon, 0.0, 1.0)

    def _learn(self, data: BaselineData, start: Network, pace: Pace) -> Network:
        """The first half of the epochs is plain training; then the optimiser starts anew, with the penalty."""
        if len(data.all_codes) > MOST_VALUES:
            raise InputError(
                f"MILP tries every sensitive value for every person, and there are {len(data.all_codes):,}; at most "
                f"{MOST_VALUES:,} are possible: name fewer sensitive features, or put their values in bands."
            )
        reach = number_reach(data.encoding, self.epsilon)
        people = {"free": data.free, "codes": data.codes, "labels": data.labels.astype(np.float32)}
        losses = row_losses(data.free.shape[1], self.penalty, bool(reach.any()))
        half = (pace.epochs + 1) // 2

        def knobs(epoch: int) -> dict[str, Any]:
            balance = self.balance if epoch >= half else 1.0
            return {"balance": balance, "all_codes": data.all_codes, "reach": reach}

        learnt = train_penalised(start, people, losses, pace, knobs, range(half))
        return train_penalised(learnt, people, losses, pace, knobs, range(half, pace.epochs))

    def certify(self, X: Any) -> Certified:
        """How much the probability of each of these people changes at most, all sensitive values tried."""
        free, _ = self._encoded(X)
        reach = WIDEN * number_reach(self.model_.encoding, self.epsilon)
        low, high = logit_bounds_of_versions(self.model_.network, free, self.model_.encoding.codes, reach)
        similar = "every sensitive value"
        if self.epsilon > 0:
            similar += f" and all numbers within {self.epsilon:g} of their range (by intervals, which may overestimate)"
        return certified_between(
            low.min(axis=0),
            high.max(axis=0),
            np.max,
            f"the decision of this row is the same for {similar}, in real arithmetic and in float32; the numbers "
            "bound how much its probability changes, the number is the largest; largest_change speaks of everybody.",
        )

    def largest_change(self, *, timeout: float = 60.0) -> Change:
        """δ*: how much the probability of anybody in the domain can change with the sensitive value alone."""
        self._require_twins()
        return largest_probability_change(self.model_, timeout=timeout)


def number_reach(encoding: Encoding, epsilon: float) -> np.ndarray:
    """How far each free column may be from a person's own, if numbers may differ by that share of their range."""
    space = free_space(encoding)
    reach = np.zeros(space.width)
    for feature in encoding.domain.free_features:
        if isinstance(feature, NUMERIC):
            place = encoding.free_columns()[feature.name]
            reach[place] = epsilon * (space.high[place] - space.low[place])
    return reach


# --- the loss ---


@functools.lru_cache
def row_losses(free_width: int, penalty: Penalty, boxed: bool) -> RowLosses:
    """The loss λ·cross entropy + (1 − λ)·change, for networks that read so many free columns before the codes."""

    def losses(parameters: Parameters, people: People, knobs: Knobs) -> jax.Array:
        weight, bias = parameters[0]
        shared = people["free"] @ weight[:, :free_width].T + bias
        # Twins differ by their codes' offset alone: [rows, |S|, width].
        versions = shared[:, None, :] + knobs["all_codes"] @ weight[:, free_width:].T
        if boxed:
            versions = _with_corners(parameters, versions, weight[:, :free_width], knobs["reach"])
        similar = _scores(parameters, versions)
        own = _scores(parameters, shared + people["codes"] @ weight[:, free_width:].T)
        change = outcome_change(own, similar, penalty)
        balance = knobs["balance"]
        return balance * cross_entropy(own, people["labels"]) + (1 - balance) * change

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
        centre, radius = next_interval(centre, radius, weight, bias)
    slopes = jnp.ones((len(first), 1))
    for gate, (weight, _) in zip(reversed(gates), reversed(parameters[1:]), strict=True):
        slopes = (slopes @ weight) * gate
    return slopes @ parameters[0][0][:, : len(reach)]
