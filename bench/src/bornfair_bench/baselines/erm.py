"""Plain training: ERM, which reads the sensitive columns, and Unaware, which is trained without them.

Both run the very loop that `FairClassifier` runs, with its presets and starts: what differs is what the loop is given.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from bornfair.models.network.network import Activation, Layer, Network
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.fitting import Recipe
from bornfair.training.response import Response
from bornfair.training.start import Plain, draw_members
from bornfair_bench.baselines.base import Baseline, BaselineData, Certified


@dataclass(eq=False, repr=False)
class _PlainTraining(Baseline):
    """Options as in `FairClassifier`; those left None follow the preset. Adds `history_`, one record an epoch."""

    multiclass: ClassVar[bool] = True

    preset: str = "default"
    hidden: Any = None
    activation: Activation = "relu"
    optimiser: str | None = None
    learning_rate: Any = None
    schedule: str | None = None
    weight_decay: float | None = None
    batch_size: Any = None
    epochs: Any = None
    validation_fraction: float | None = None
    patience: int | Literal["auto"] | None = None
    embedding: str | None = None
    bins: int | None = None
    taught: float | None = None
    members: int | None = None
    rotate: bool | None = None
    averaging: float | None = None
    dropout: float | None = None
    label_smoothing: float | None = None

    def _check_options(self) -> None:
        """Left to the plan and the network, which know what None and 'auto' stand for."""

    @abstractmethod
    def _sensitive_inputs(self, data: BaselineData) -> np.ndarray:
        """The sensitive columns that training sees."""

    def _train(self, data: BaselineData) -> Network:
        named = {name: getattr(self, name) for name in Recipe.__dataclass_fields__ if hasattr(self, name)}
        recipe = Recipe(**named, response="none", seed=data.seed)
        sensitive = self._sensitive_inputs(data)
        plan, embedding = recipe.plan(len(data.free)), recipe.embedding_of(data.encoding, data.free, data.labels, None)
        starts = draw_members(
            Plain(), plan.members, free_width=data.free.shape[1] if embedding is None else embedding.width,
            sensitive_width=sensitive.shape[1], hidden=recipe.hidden,
            outputs=data.outputs, activation=self.activation, seed=data.seed,
        )  # fmt: skip
        table = recipe.taught_by(data.encoding, TrainingData(data.free, data.labels, sensitive=sensitive), plan)
        training = train(starts, table, Response("none"), plan, embedding=embedding)
        self.history_ = training.history
        return training.network


class ERM(_PlainTraining):
    """Empirical risk minimisation on all columns; bit for bit `FairClassifier(response='none')`.

    >>> from bornfair import datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> ERM(["sex"], epochs=20).fit(X, y).empirical_fairness(X) < 1
    True
    """

    def _sensitive_inputs(self, data: BaselineData) -> np.ndarray:
        return data.codes

    def certify(self, X: Any) -> Certified:
        """ERM proves nothing; for the rows at hand every sensitive value can be tried out."""
        same = self._same_decision(X)
        return Certified(
            same,
            float(np.mean(same)),
            "the decision of this row, in float32 as shipped, is the same for every sensitive value, all of which were "
            "tried; nothing is claimed about other people. The number is the share of such rows.",
        )


class Unaware(_PlainTraining):
    """Training without the sensitive columns. Tables to predict may have them: they are not read.

    Fair by construction, for the same reason as `FairClassifier`, and from the same seed the same classifier bit for
    bit: the network is given weights for the sensitive inputs afterwards, all exactly 0.

    >>> from bornfair import datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> Unaware(["sex"], epochs=2).fit(X, y).certify(X).share
    1.0
    """

    def _sensitive_inputs(self, data: BaselineData) -> np.ndarray:
        return data.codes[:, :0]

    def _train(self, data: BaselineData) -> Network:
        learnt = super()._train(data)
        first, *rest = learnt.layers
        unread = np.zeros((len(first.bias), data.codes.shape[1]), np.float32)
        return Network((Layer(np.concatenate([first.weight, unread], axis=1), first.bias), *rest), learnt.activation)

    def certify(self, X: Any) -> Certified:
        """Everybody, for the weights that would read a sensitive value are exactly 0."""
        self._require_twins()
        return Certified(
            np.ones(len(self._frame(X, reset=False)), dtype=bool),
            float(np.abs(self.model_.network.sensitive_weights(self.model_.encoding.free_width)).max()),
            "the decision is the same for every sensitive value, for this and every other person: every weight that "
            "reads a sensitive value is exactly 0. The number is the largest of these weights.",
        )
