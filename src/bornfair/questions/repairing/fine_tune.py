"""Repair of networks: which model and people are meant, and fine-tuning while the model stays fair.

The compiled loops of `training` are used as they are: with sensitive weights of 0 and the expected response they stay
bitwise 0. Without labels the original teaches: each row counts for each class with the original's probability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from bornfair.core.clock import Say
from bornfair.core.errors import Diverged, InputError, plain
from bornfair.models.columns import nothing_sensitive, sensitive_name
from bornfair.models.network.model import Model, log_probabilities
from bornfair.models.network.network import Network
from bornfair.people.domain import Domain
from bornfair.people.dummies import with_sensitive
from bornfair.people.encoding import Encoding
from bornfair.people.features import listed_names, unknown_column
from bornfair.people.levels import class_positions
from bornfair.questions import Asking, Question
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Epoch, EpochRecord, Plan, batch_size_for
from bornfair.training.projection import fair_encoding, told_in, with_first_layer
from bornfair.training.response import Response

RATES = (3e-4, 3e-3)
"""Learning rates that are tried; rows kept for validation decide."""
PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Repairable:
    """The model as it came, and the domain it is to be fair on."""

    original: Model
    domain: Domain

    def encoding(self, table: pd.DataFrame) -> Encoding:
        """How the repaired network reads people.

        As the original does, if only its sensitive weights are in question. Raw numbers are standardised by the
        table, as training needs them, other sensitive features are given centred codes, and declared twins are shown
        as what they have in common.
        """
        own = self.original.encoding
        if own.raw:
            absent = {f.name: f.levels()[0] for f in self.domain.sensitive_features if f.name not in table.columns}
            return Encoding.fit(self.domain, table.assign(**absent), own.policies, merge_twins=True)
        if self.domain == own.domain:
            return fair_encoding(own)
        return fair_encoding(own.over(self.domain))

    def model(self) -> Model:
        """The original, asked about the domain's sensitive features and twins."""
        own = self.original.encoding
        if self.domain == own.domain:
            return self.original
        if own.raw:
            order = (*own.domain.free_names, *own.domain.sensitive)
            columns = [order.index(name) for name in (*self.domain.free_names, *self.domain.sensitive)]
            first = self.original.network.layers[0]
            network = with_first_layer(self.original.network, first.weight[:, columns], first.bias)
            return Model(network, dataclasses.replace(own, domain=self.domain), offsets=self.original.offsets)
        return told_in(self.original, own.over(self.domain))


def domain_asked(question: Question, domain: Domain, asking: Asking) -> Domain:
    """The domain with the sensitive features and the combinations that are asked about."""
    combinations = asking.get("combinations")
    names = tuple(sensitive_name(item, domain) for item in listed_names(asking.get("sensitive_features")))
    if question.target in names:
        raise InputError(f"'{question.target}' cannot be both the target and a sensitive feature.")
    if not names and combinations is None:
        return domain
    found = with_sensitive(domain, names or domain.sensitive, question.table, combinations, detect=question.inferred)
    same = set(found.sensitive) == set(domain.sensitive)
    return domain if same and (combinations is None or found.combinations == domain.combinations) else found


def asked_about(question: Question, asking: Asking) -> Repairable:
    """Name the features in which twins differ."""
    original, table, twins = question.network_model, question.table, asking.get("twins")
    assert table is not None
    who = original.domain
    for name in who.free_names if original.ignores_sensitive else who.names:
        if name not in table.columns:
            columns = [str(column) for column in table.columns]
            raise InputError(unknown_column(name, columns, "a feature that the model reads,"))
    asked = domain_asked(question, who, asking)
    who = who if asked is who else original.encoding.over(asked).domain
    if not who.sensitive:
        raise nothing_sensitive(who)
    return Repairable(original, who.with_twins(twins) if twins else who)


def taught(question: Question, column: pd.Series) -> np.ndarray:
    """The labels to fine-tune on, as positions in the model's classes."""
    positions = class_positions(column, question.model.classes.tolist())
    if len(np.unique(positions)) < 2:
        raise InputError(
            f"target '{column.name}' has one class only, {plain(column.iloc[0])!r}, in all {len(column)} rows; "
            "fine-tuning needs at least two. Without a target the original's own outputs are taught."
        )
    return positions


# --- fine-tuning ---


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
