"""How good can the repaired network become while it stays fair? Training goes on from the fair start.

The compiled loops of `training` are used as they are: with sensitive weights of 0 and the expected response they stay
bitwise 0. Without labels the original teaches: each row counts for each class with the original's probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bornfair.core.clock import Say
from bornfair.core.errors import Diverged
from bornfair.models.network.model import log_probabilities
from bornfair.models.network.network import Network
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Epoch, EpochRecord
from bornfair.training.plan import Plan
from bornfair.training.presets import batch_size_for
from bornfair.training.response import Response

RATES = (3e-4, 3e-3)
"""Learning rates that are tried; rows kept for validation decide."""
PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Lesson:
    """Encoded rows, and for each the share with which each class is right: labels, or the original's opinion."""

    free: np.ndarray  # float32 [rows, free]
    shares: np.ndarray  # float64 [rows, classes]; each row sums to 1

    @staticmethod
    def of_labels(free: np.ndarray, classes: np.ndarray, count: int) -> Lesson:
        return Lesson(free, np.eye(count)[classes])

    def data(self) -> TrainingData:
        """For the training loop: a row for each class that has a share, weighted by it."""
        rows, classes = np.nonzero(self.shares)
        weights = self.shares[rows, classes]
        whole = len(rows) == len(self.shares)
        return TrainingData(self.free[rows], classes, weights=None if whole else weights)

    def loss(self, network: Network) -> float:
        """Mean cross entropy of the network on these rows."""
        return float(-np.mean(np.sum(self.shares * log_probabilities(scores_of(network, self.free)), axis=1)))


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best network found, the start included, and how it was found."""

    network: Network
    loss: float
    start_loss: float
    plan: Plan | None = None
    """The plan that led to it; None if no training improved on the start."""
    best_epoch: int = 0
    history: tuple[EpochRecord, ...] = field(default=(), repr=False)


def fine_tune(
    start: Network,
    training: Lesson,
    validation: Lesson,
    *,
    epochs: int,
    seed: int,
    rates: Sequence[float] = RATES,
    say: Say | None = None,
) -> Tuned:
    """Train on from a fair start; the network with the smallest validation loss is kept, the start if none is better.

    Sensitive weights that are 0 at the start stay bitwise 0.
    """
    start_loss = validation.loss(start)
    best = Tuned(start, start_loss, start_loss)
    if not epochs:
        return best
    data = training.data()
    for rate in rates:
        plan = Plan(
            epochs=epochs, batch_size=batch_size_for(len(data.classes)), optimiser="adam", learning_rate=rate,
            schedule="cosine", seed=seed,
        )  # fmt: skip
        watch = _Watch(validation, start, start_loss)
        try:
            run = train(start, data, Response(), plan, callbacks=(watch,))
        except Diverged:
            continue  # a rate that is too large for this network is no use; the others may be
        if say:
            say(f"fine-tuning at rate {rate:g}: validation loss {start_loss:.4f} → {watch.loss:.4f}")
        if watch.loss < best.loss:
            best = Tuned(watch.network, watch.loss, start_loss, plan, watch.epoch, run.history)
    return best


class _Watch:
    """Keeps the best network of a run, and stops it when nothing better came for a while."""

    def __init__(self, validation: Lesson, start: Network, loss: float) -> None:
        self.validation, self.network, self.loss, self.epoch = validation, start, loss, 0

    def __call__(self, seen: Epoch) -> bool:
        network = seen.network()
        loss = self.validation.loss(network)
        if loss < self.loss:
            self.network, self.loss, self.epoch = network, loss, seen.record.epoch
        return seen.record.epoch - self.epoch >= PATIENCE


def scores_of(network: Network, free: np.ndarray) -> np.ndarray:
    """Outputs of a network that ignores the sensitive codes."""
    codes = np.zeros((len(free), network.widths[0] - free.shape[1]), np.float32)
    return network.scores(np.concatenate([free, codes], axis=1))
