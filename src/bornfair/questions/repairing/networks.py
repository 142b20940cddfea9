"""Repair of networks: a fair first layer close to the original's, and fine-tuning while the network stays fair.

Projections of the first layer are fair by construction; the validation rows choose among them, and training goes on
from the chosen one. The compiled loops of `training` are used as they are: with sensitive weights of 0 and the expected
response they stay bitwise 0. Without labels the original teaches: each row counts for each class with the original's
probability.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.clock import Say
from bornfair.core.errors import Diverged, InputError, shown
from bornfair.models.columns import nothing_sensitive
from bornfair.models.network.model import Model, log_probabilities
from bornfair.models.network.network import Network, decisions
from bornfair.models.network.structural import confirm_encoded
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import unknown_column
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.questions import Asking, Question
from bornfair.questions.repairing.changes import RepairedModel, RepairRows, account, domain_asked
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Epoch, EpochRecord, Plan, batch_size_for
from bornfair.training.projection import (
    BLENDS,
    FairLayer,
    fair_encoding,
    first_layer_error,
    least_squares_projection,
    plain_projection,
    told_in,
    with_first_layer,
)
from bornfair.training.provenance import KEPT_ASIDE, operating_facts
from bornfair.training.response import Response

METHODS = {"auto": BLENDS, "plain": (0.0,), "least_squares": (1.0,)}
"""The blends of the two projections that each method tries."""
RATES = (3e-4, 3e-3)
"""Learning rates that are tried; rows kept for validation decide."""
PATIENCE = 10
BY_PROXY = (
    "The least-squares projection moves what the model knew of {names} onto features that predict it: twins are "
    "treated alike, but groups may be treated as before. With method='plain', the default, that knowledge is dropped."
)


@dataclass(frozen=True)
class Candidate:
    """One projection as the validation rows see it."""

    blend: float
    """0: plain, 1: least squares, between them: that share of the latter."""
    first_layer_error: float
    distance: float
    accuracy: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Repaired(RepairedModel):
    """A fair network, certified, and what it cost."""

    model: FairModel
    original: Model
    accuracy_projected: float | None
    """Of the projection, before fine-tuning: what fairness alone costs."""
    candidates: tuple[Candidate, ...]
    blend: float
    taught_by: Literal["labels", "original", "nobody"]
    validation_loss: tuple[float, float]
    """Of the projection, and of the repaired network."""
    epochs_run: int

    def _of_its_kind(self) -> dict[str, Any]:
        return {
            "accuracy_projected": self.accuracy_projected,
            "blend": self.blend,
            "candidates": [asdict(candidate) for candidate in self.candidates],
            "taught_by": self.taught_by,
            "validation_loss": dict(zip(("projected", "repaired"), self.validation_loss, strict=True)),
            "epochs": self.epochs_run,
        }


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


def repair_network(
    asked: Repairable, rows: RepairRows, *, method: str, epochs: int, seed: int, say: Say | None
) -> Repaired:
    """The projection that the validation rows choose, trained on for some epochs."""
    original, before = asked.original, asked.model()
    encoding = asked.encoding(rows.people.iloc[rows.training])
    candidates, layers = _candidates(original, encoding, rows, method)
    chosen = _chosen(candidates, len(rows.validation))
    blend, projected = candidates[chosen].blend, layers[chosen].network(original.network, encoding)
    fair = FairModel(projected, encoding, offsets=original.offsets)
    # Lessons are about probabilities: they are given where the model would decide at ½.
    logits = fair.shifted(()).network
    lessons = (_lesson(original, encoding, rows, part) for part in (rows.training, rows.validation))
    tuned = fine_tune(logits, *lessons, epochs=epochs, seed=seed, say=say)
    if tuned.network is not logits:
        fair = FairModel(tuned.network, encoding).shifted(original.offsets)
    found = account(original, _certified(fair, projected, tuned, blend), rows.measured, rows.answers, KEPT_ASIDE)
    only_fair = None
    if rows.answers is not None:
        scores = FairModel(projected, encoding).scores(rows.measured)
        only_fair = float(np.mean(decisions(scores) == rows.answers))
    few = Versions(before.domain).size <= ENUMERATION_LIMIT
    return Repaired(
        **found | {"original": before},
        accuracy_projected=only_fair,
        fairness_before=before.empirical_fairness(rows.measured) if few else None,
        candidates=candidates,
        blend=blend,
        taught_by="nobody" if tuned.plan is None else "original" if rows.labels is None else "labels",
        validation_loss=(tuned.start_loss, tuned.loss),
        epochs_run=len(tuned.history),
        note=BY_PROXY.format(names=shown(encoding.domain.sensitive)) if blend else "",
    )


def _candidates(
    original: Model, encoding: Encoding, rows: RepairRows, method: str
) -> tuple[tuple[Candidate, ...], list[FairLayer]]:
    """The fair first layers to choose among, and what the validation rows say of each."""
    people = rows.people.iloc[rows.validation]
    plain = best = plain_projection(original, encoding)
    if method != "plain":
        best = least_squares_projection(original, encoding, plain, rows.people.iloc[rows.training])
    layers = [plain.toward(best, blend) for blend in METHODS[method]]
    wanted, free = original.scores(people).astype(np.float64), encoding.encode(people, sensitive=False).free
    found = []
    for blend, layer in zip(METHODS[method], layers, strict=True):
        scores = scores_of(layer.network(original.network, encoding), free)
        right = None if rows.labels is None else float(np.mean(decisions(scores) == rows.labels[rows.validation]))
        distance = float(np.sqrt(np.mean((scores - wanted) ** 2)))
        found.append(Candidate(blend, first_layer_error(original, encoding, layer, people), distance, right))
    return tuple(found), layers


def _lesson(original: Model, encoding: Encoding, rows: RepairRows, part: np.ndarray) -> Lesson:
    """What is right for some rows: their labels, or what the original says."""
    people = rows.people.iloc[part]
    free = encoding.encode(people, sensitive=False).free
    if rows.labels is None:
        return Lesson(free, original.predict_proba(people))
    return Lesson(free, np.eye(len(original.classes))[rows.labels[part]])


def _chosen(candidates: Sequence[Candidate], rows: int) -> int:
    """The projection whose outputs are closest to the original's, unless another is clearly more accurate.

    Clearly: by more than the standard error of an accuracy measured on so many rows.
    """
    known = [candidate.accuracy or 0.0 for candidate in candidates]  # all of them, or none
    best = max(known)
    slack = float(np.sqrt(best * (1 - best) / max(rows, 1)))
    clear = (i for i, accuracy in enumerate(known) if accuracy >= best - slack)
    return min(clear, key=lambda i: candidates[i].distance)


def _certified(model: FairModel, projected: Network, tuned: Tuned, blend: float) -> FairModel:
    """The model with its certificate, which also records how it came about."""
    begun = confirm_encoded(projected, model.encoding)
    done = model.certified()
    assert done.certificate is not None
    start = {"number": 0, "verdict": begun.answer, "proof": begun.proof, "reason": begun.reason}
    training: dict[str, Any] = {"repair": {"projection": "plain" if blend == 0 else "least squares", "share": blend}}
    training |= operating_facts(done)
    response: dict[str, Any] = {}
    if tuned.plan is not None:
        response = asdict(Response())
        history = [{k: v for k, v in asdict(record).items() if k != "seconds"} for record in tuned.history]
        training |= {
            "plan": asdict(tuned.plan), "epochs_run": len(history), "best_epoch": tuned.best_epoch,
            "sensitive_weights_untouched": True, "history": history,
        }  # fmt: skip
    certificate = dataclasses.replace(
        done.certificate, start={"attempts": [start]}, response=response, training=json.loads(json.dumps(training))
    )
    return dataclasses.replace(done, certificate=certificate)


# --- fine-tuning ---


@dataclass(frozen=True, eq=False)
class Lesson:
    """Encoded rows, and for each the share with which each class is right: labels, or the original's opinion."""

    free: np.ndarray  # float32 [rows, free]
    shares: np.ndarray  # float64 [rows, classes]; each row sums to 1

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
