"""MILP (Benussi et al., IJCAI 2022): punish how much a person's probability changes, and certify the largest change.

We follow the description: the sigmoid in the penalty, x* whoever is furthest from x, and only proven bounds reported.
Where the released code differs (ReLU in place of the sigmoid, the largest logit only), penalty='as_coded' follows it.
Ours: the sensitive columns stay inputs, similar people are twins (and, if asked for, people whose numbers differ by up
to epsilon), batches are drawn as they come and not balanced by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from bornfair.baselines.base import Baseline, BaselineData, Certified
from bornfair.baselines.milp_change import ProbabilityChange, largest_probability_change
from bornfair.baselines.milp_training import Penalty, train_milp
from bornfair.baselines.penalised import Pace, check_pace, plain_start, warn_if_constant
from bornfair.baselines.probability_bounds import WIDEN, logit_bounds_of_versions, one_decision, probability_ends
from bornfair.checks import choice, number
from bornfair.errors import InputError
from bornfair.models.network import Network, hidden_widths
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.twins.relation import free_space
from bornfair.verification.milp import MOST_VALUES

WEIGHT_DECAY = 1e-4


class MILP(Baseline):
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

    def __init__(
        self,
        sensitive_features: Sequence[str | int] = (),
        *,
        hidden: str | Sequence[int] = "paper",
        balance: float = 0.5,
        penalty: Penalty = "probability",
        epsilon: float = 0.0,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 1e-3,
        domain: Domain | None = None,
        random_state: Any = 0,
    ) -> None:
        self.sensitive_features = sensitive_features
        self.hidden = hidden
        self.balance = balance
        self.penalty = penalty
        self.epsilon = epsilon
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.domain = domain
        self.random_state = random_state

    def _check_options(self) -> None:
        hidden_widths(self.hidden)
        check_pace(self.epochs, self.batch_size, self.learning_rate)
        number("balance", self.balance, 0.0, 1.0)
        choice("penalty", self.penalty, get_args(Penalty))
        number("epsilon", self.epsilon, 0.0, 1.0)

    def _train(self, data: BaselineData) -> Network:
        if len(data.all_codes) > MOST_VALUES:
            raise InputError(
                f"MILP tries every sensitive value for every person, and there are {len(data.all_codes):,}; at most "
                f"{MOST_VALUES:,} are possible: name fewer sensitive features, or put their values in bands."
            )
        pace = Pace.of(
            self.epochs, self.batch_size, self.learning_rate, WEIGHT_DECAY, rows=len(data.free), seed=data.seed
        )
        network = train_milp(
            plain_start(data.free.shape[1], data.codes.shape[1], self.hidden, data.seed),
            data.free,
            data.codes,
            data.all_codes,
            data.labels,
            number_reach(data.encoding, self.epsilon),
            balance=self.balance,
            penalty=self.penalty,
            pace=pace,
        )
        if pace.epochs:
            warn_if_constant("MILP", network, data.inputs, "raise balance, or train for longer")
        return network

    def certify(self, X: Any) -> Certified:
        """How much the probability of each of these people changes at most, all sensitive values tried."""
        free, _ = self._encoded(X)
        reach = WIDEN * number_reach(self.model_.encoding, self.epsilon)
        low, high = logit_bounds_of_versions(self.model_.network, free, self.model_.encoding.codes, reach)
        low, high = low.min(axis=0), high.max(axis=0)
        least, most = probability_ends(low, high)
        changes = np.minimum(np.nextafter(most - least, np.inf), 1.0)
        similar = "every sensitive value"
        if self.epsilon > 0:
            similar += f" and all numbers within {self.epsilon:g} of their range (by intervals, which may overestimate)"
        return Certified(
            one_decision(low, high),
            float(changes.max(initial=0.0)),
            f"the decision of this row is the same for {similar}, in real arithmetic and in float32; the numbers "
            "bound how much its probability changes, the number is the largest; largest_change speaks of everybody.",
            changes,
        )

    def largest_change(self, *, timeout: float = 60.0) -> ProbabilityChange:
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
