"""U-DIF (Wicker et al., NeurIPS 2023): punish wide bounds around each person, and certify them under shifts.

We follow the description of FAIR-DRO (mode='distributional') and FAIR-IBP ('local'). Ours: the sensitive columns stay
inputs, and their codes range over all values in every box; one logit in place of two, whose bounds are never wider; the
penalty's weight does not depend on the batch size, and is lower than released (0.001, not 0.02): with the sensitive
codes in the box and six layers, 0.02 leaves a network that decides the same for everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np

from bornfair.core.checks import choice, number, whole
from bornfair.models.network.network import Network
from bornfair.people.twins.relation import free_space
from bornfair_bench.baselines.base import BaselineData, Certified
from bornfair_bench.baselines.penalised import Pace, Penalised, certified_between, train_penalised
from bornfair_bench.baselines.udif_certificates import Distributional, box_logits, certify_distribution
from bornfair_bench.baselines.udif_training import Mode, Similarity, grown, row_losses

MOST_PEOPLE = 1_000  # a distribution of so many is moved about; the paper takes 200


@dataclass(eq=False, repr=False)
class UDIF(Penalised):
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

    mode: Mode = "distributional"
    alpha: float = 0.001
    epsilon: float = 0.02
    gamma: float = 0.03

    advice: ClassVar[str] = "lower alpha or epsilon, or train for longer"

    def _check_options(self) -> None:
        super()._check_options()
        choice("mode", self.mode, get_args(Mode))
        number("alpha", self.alpha, 0.0, 1.0)
        number("epsilon", self.epsilon, 0.0, float("inf"))
        number("gamma", self.gamma, 0.0, float("inf"))

    def _learn(self, data: BaselineData, start: Network, pace: Pace) -> Network:
        """Boxes and moves grow to their full size over the first half."""
        space = free_space(data.encoding)
        similar = Similarity.learnt(data.free, data.codes, data.all_codes, space.high - space.low)
        self.similarity_ = similar
        people = {"free": data.free, "codes": data.codes, "labels": data.labels.astype(np.float32)}

        def knobs(epoch: int) -> dict[str, Any]:
            size = grown(epoch, pace.epochs)
            strengths = {"alpha": self.alpha, "epsilon": size * self.epsilon, "gamma": size * self.gamma, "codes": size}
            return strengths | vars(similar)

        return train_penalised(start, people, row_losses(self.mode), pace, knobs, range(pace.epochs))

    def certify(self, X: Any, *, epsilon: float | None = None) -> Certified:
        """The bounds on each person's box; epsilon=0 asks about the sensitive values alone."""
        free, _ = self._encoded(X)
        radius = self.epsilon if epsilon is None else epsilon
        number("epsilon", radius, 0.0, float("inf"))
        low, high = box_logits(self.model_.network, free, self.similarity_, radius)
        return certified_between(
            low,
            high,
            np.mean,
            f"the decision is the same for everybody in the box of radius {radius:g} around this row, whatever the "
            "sensitive value, in real arithmetic and in float32; the numbers bound how much the probability varies "
            "there, the number is their mean.",
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
