"""U-DIF (Wicker et al., NeurIPS 2023): punish wide bounds around each person, and certify them under shifts.

We follow the description of FAIR-DRO (mode='distributional') and FAIR-IBP ('local'). Ours: the sensitive columns stay
inputs, and their codes range over all values in every box; one logit in place of two, whose bounds are never wider; the
penalty's weight does not depend on the batch size, and is lower than released (0.001, not 0.02): with the sensitive
codes in the box and six layers, 0.02 leaves a network that decides the same for everybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from bornfair.baselines.base import Baseline, BaselineData, Certified
from bornfair.baselines.penalised import Pace, check_pace, plain_start, warn_if_constant
from bornfair.baselines.probability_bounds import one_decision, probability_ends
from bornfair.baselines.udif_certificates import Distributional, box_logits, certify_distribution
from bornfair.baselines.udif_training import Mode, Similarity, train_udif
from bornfair.checks import choice, number, whole
from bornfair.models.network import Network, hidden_widths
from bornfair.people.domain import Domain
from bornfair.twins.relation import free_space

WEIGHT_DECAY = 1e-4
MOST_PEOPLE = 1_000  # a distribution of so many is moved about; the paper takes 200


class UDIF(Baseline):
    """A relu network trained to have narrow bounds on the box of people similar to each person.

    Parameters
    ----------
    mode : 'distributional' (the bounds are taken where they are widest within gamma of a person) or 'local'.
    alpha : weight of the penalty; the loss is (1 − α)·cross entropy + α·256·2·(p_max − p_min).
    epsilon : radius of the box of similar people, times v: each column's correlation with the sensitive one, 1 for the
        median column. Numbers are measured by their range in the domain, as if scaled to [0, 1].
    gamma : how far people move in the distributional mode, as a share of each column's range.
    epochs, batch_size : 'auto' takes about 2,000 steps in batches that fit the table.
    sensitive_features, hidden, learning_rate, domain, random_state : as in every baseline.

    Attributes
    ----------
    similarity_ : the box of similar people, learnt from the training table.

    >>> from bornfair import datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> UDIF(["sex"], hidden=[16], mode="local", epochs=20).fit(X, y).empirical_fairness(X) > 0.9
    True
    """

    def __init__(
        self,
        sensitive_features: Sequence[str | int] = (),
        *,
        hidden: str | Sequence[int] = "paper",
        mode: Mode = "distributional",
        alpha: float = 0.001,
        epsilon: float = 0.02,
        gamma: float = 0.03,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        learning_rate: float = 1e-3,
        domain: Domain | None = None,
        random_state: Any = 0,
    ) -> None:
        self.sensitive_features = sensitive_features
        self.hidden = hidden
        self.mode = mode
        self.alpha = alpha
        self.epsilon = epsilon
        self.gamma = gamma
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.domain = domain
        self.random_state = random_state

    def _check_options(self) -> None:
        hidden_widths(self.hidden)
        check_pace(self.epochs, self.batch_size, self.learning_rate)
        choice("mode", self.mode, get_args(Mode))
        number("alpha", self.alpha, 0.0, 1.0)
        number("epsilon", self.epsilon, 0.0, float("inf"))
        number("gamma", self.gamma, 0.0, float("inf"))

    def _train(self, data: BaselineData) -> Network:
        space = free_space(data.encoding)
        self.similarity_ = Similarity.learnt(data.free, data.codes, data.all_codes, space.high - space.low)
        pace = Pace.of(
            self.epochs, self.batch_size, self.learning_rate, WEIGHT_DECAY, rows=len(data.free), seed=data.seed
        )
        network = train_udif(
            plain_start(data.free.shape[1], data.codes.shape[1], self.hidden, data.seed),
            data.free,
            data.codes,
            data.labels,
            self.similarity_,
            mode=self.mode,
            alpha=self.alpha,
            epsilon=self.epsilon,
            gamma=self.gamma,
            pace=pace,
        )
        if pace.epochs:
            warn_if_constant("UDIF", network, data.inputs, "lower alpha or epsilon, or train for longer")
        return network

    def certify(self, X: Any, *, epsilon: float | None = None) -> Certified:
        """The bounds on each person's box; epsilon=0 asks about the sensitive values alone."""
        free, _ = self._encoded(X)
        radius = self.epsilon if epsilon is None else epsilon
        number("epsilon", radius, 0.0, float("inf"))
        low, high = box_logits(self.model_.network, free, self.similarity_, radius)
        least, most = probability_ends(low, high)
        widths = np.minimum(np.nextafter(most - least, np.inf), 1.0)
        return Certified(
            one_decision(low, high),
            float(np.mean(widths)),
            f"the decision is the same for everybody in the box of radius {radius:g} around this row, whatever the "
            "sensitive value, in real arithmetic and in float32; the numbers bound how much the probability varies "
            "there, the number is their mean.",
            widths,
        )

    def certify_distribution(
        self, X: Any, *, epsilon: float | None = None, gamma: float | None = None, most: int = MOST_PEOPLE
    ) -> Distributional:
        """How unfair the model is on average under any distribution within gamma of these rows (of the first `most`).

        The distance of two people is the largest of their columns' differences, each divided by its part of the box of
        radius 1 (as in the paper; in training gamma is a share of the range, for every column the same).
        """
        free, _ = self._encoded(X)
        radius = self.epsilon if epsilon is None else epsilon
        shift = self.gamma if gamma is None else gamma
        number("epsilon", radius, 0.0, float("inf"))
        number("gamma", shift, 0.0, float("inf"))
        whole("most", most, 1)
        return certify_distribution(
            self.model_.network, free[:most], self.model_.encoding.codes, self.similarity_,
            epsilon=radius, gamma=shift,
        )  # fmt: skip
