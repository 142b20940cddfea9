"""Repair: from anybody's unfair model and a table to the fair model closest to it, tuned, certified and compared.

Projections of the first layer are fair by construction; rows kept aside choose among them, training goes on from the
chosen one, and other rows, never used for a choice, tell what the repair costs.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pandas as pd

from bornfair.core.checks import choice, keywords, whole
from bornfair.core.clock import Say
from bornfair.core.errors import InputError, shown
from bornfair.models.columns import Who
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network, decisions
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.dummies import sentences
from bornfair.people.encoding import Encoding
from bornfair.people.features import listed_names, unknown_column
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.tables import as_pandas, read_table
from bornfair.people.twins.versions import Versions
from bornfair.proof.bundle import FairModel
from bornfair.questions import Asking, Question
from bornfair.questions.repairing.changes import RepairedModel, compare, quality_of, recorded
from bornfair.questions.repairing.fine_tune import Lesson, Tuned, asked_about, scores_of, taught
from bornfair.questions.repairing.fine_tune import fine_tune as tune
from bornfair.questions.repairing.forests import (
    METHODS,
    RepairedForest,
    RepairRows,
    asked_of,
    refused,
    repair_forest,
)
from bornfair.questions.repairing.graphs import RepairedGraph, repair_by_average
from bornfair.training.projection import (
    BLENDS,
    FairLayer,
    first_layer_error,
    least_squares_projection,
    plain_projection,
)
from bornfair.training.provenance import KEPT_ASIDE, operating_facts
from bornfair.training.response import Response

Method = Literal["auto", "plain", "least_squares", "drop", "average"]
EPOCHS = 60
FEWEST_ROWS = 20
MEASURED, VALIDATED = 0.2, 0.15  # shares of the rows kept aside to measure on, and to choose by

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


def repair(
    model: Any,
    people: Any = None,
    *,
    method: Method = "plain",
    fine_tune: bool = True,
    epochs: int = EPOCHS,
    test: Any = None,
    seed: int = 0,
    say: Say | None = None,
    **asking: Unpack[Asking],
) -> Repaired | RepairedForest | RepairedGraph:
    """The fair model closest to a given one, by the rows of a table.

    Of a network, a projection of its first layer, trained on; of a forest, its mean over the sensitive values, which no
    split reads any more.

    Args:
        model, people, sensitive_features, twins, table, …: as in `Question.of`; a table is needed, and the features
            that are asked about need not be those that the model calls sensitive.
        target: the column of labels to fine-tune on; without it the original's own opinions are taught.
        method: 'plain' drops what the model knew of the sensitive features; 'least_squares' moves it onto features that
            predict them, which keeps decisions closer and may treat groups as before; 'auto' lets the validation rows
            choose between the two. Of a forest, 'plain' lets each sensitive value count the same, and 'drop' as often
            as it occurs in the table. 'average' takes a model of any kind, an .onnx with any operators included, puts a
            graph around it and decides by the mean over all versions of a person; nothing is trained.
        fine_tune, epochs: whether to train on from the projected model, and how long at most; of a forest, whether to
            move its base score so that its probabilities are on average the original's.
        test: rows to measure on; by default a fifth of the table is kept aside.
        seed: the same seed gives the same bytes.
        say: is told how far it is.

    Returns:
        The fair model with its certificate, what it cost, and whose decision changed.

    Raises:
        InputError: if the model cannot be read, or the table does not fit it.

    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> unfair = FairClassifier(["sex"], response="none", hidden=[8], epochs=1).fit(X, y)
    >>> repair(unfair, people, target="risk", fine_tune=False).verdict
    'verified'
    """
    keywords(repair, asking, Asking)
    found, table = _repaired(model, people, method, fine_tune, epochs, test, seed, say, asking)
    notes = [found.note, *sentences(found.model.domain, table)]
    return dataclasses.replace(found, note=" ".join(filter(None, notes)))


def _repaired(
    model: Any, people: Any, method: Method, fine_tune: bool, epochs: int, test: Any, seed: int, say: Say | None,
    asking: Asking,
) -> tuple[Repaired | RepairedForest | RepairedGraph, pd.DataFrame]:  # fmt: skip
    """The fair model, and the rows that it was made from."""
    began = time.perf_counter()
    whole("epochs", epochs, 0)
    whole("seed", seed, 0)
    choice("method", method, get_args(Method))
    if method == "average":
        return _averaged(model, people, test, seed, asking)
    question = Question.of(model, people, as_it_is=True, **asking)
    if question.table is None:
        raise InputError("repair needs a table of people the model decides about; give one.")
    question = _complete(question, say)
    people, target = question.table, question.target
    assert people is not None
    if question.model.kind == "forest":
        return _forest(question, method, fine_tune, test, seed, say, asking), people
    if method == "drop":
        raise InputError("method 'drop' is for forests; a network is repaired by 'plain', 'least_squares' or 'auto'.")
    asked = asked_about(question, asking)
    labels = None if target is None else taught(question, people[target])
    training, validation, measured = _parts(len(people), labels, seed, keep=test is None)
    if test is None:
        test_rows, test_labels = people.iloc[measured], None if labels is None else labels[measured]
    else:
        test_rows = as_pandas(test)
        test_labels = None if target is None else taught(question, test_rows[target])
    encoding = asked.encoding(people.iloc[training])
    work = _Work(asked.original, encoding, people, labels, training, validation)
    candidates, layers = work.candidates(method)
    chosen = _chosen(candidates, len(validation))
    projected = layers[chosen].network(asked.original.network, encoding)
    lessons = (work.lesson(part) for part in (training, validation))
    fair = FairModel(projected, encoding, offsets=asked.original.offsets)
    # Lessons are about probabilities: they are given where the model would decide at ½.
    logits = fair.shifted(()).network
    tuned = tune(logits, *lessons, epochs=epochs if fine_tune else 0, seed=seed, say=say)
    if tuned.network is not logits:
        fair = FairModel(tuned.network, encoding).shifted(asked.original.offsets)
    repaired = _certified(fair, projected, tuned, candidates[chosen].blend)
    quality = _quality(repaired, test_rows, test_labels)
    if repaired.certificate is not None:
        told = recorded(repaired.certificate, quality, KEPT_ASIDE, len(test_rows))
        repaired = dataclasses.replace(repaired, certificate=told)
    original = asked.model()
    found = Repaired(
        model=repaired,
        original=original,
        quality_before=_quality(asked.original, test_rows, test_labels),
        accuracy_projected=_accuracy(FairModel(projected, encoding), test_rows, test_labels),
        quality_after=quality,
        fairness_before=_fairness(original, test_rows),
        changes=compare(asked.original, repaired, test_rows),
        candidates=candidates,
        blend=candidates[chosen].blend,
        taught_by="nobody" if tuned.plan is None else "original" if target is None else "labels",
        validation_loss=(tuned.start_loss, tuned.loss),
        epochs_run=len(tuned.history),
        note=BY_PROXY.format(names=shown(encoding.domain.sensitive)) if candidates[chosen].blend else "",
        seconds=time.perf_counter() - began,
        seed=seed,
    )
    return found, people


def _averaged(model: Any, people: Any, test: Any, seed: int, asking: Any) -> tuple[RepairedGraph, pd.DataFrame]:
    """Read by hand what `Question.of` reads: the model itself need not be readable."""
    given = dict(asking)
    domain, table = given.pop("domain", None), given.pop("table", None)
    if isinstance(people, Domain) or (isinstance(people, (str, Path)) and Path(people).suffix.lower() == ".json"):
        domain = people if domain is None else domain
    elif people is not None:
        table = people if table is None else table
    if table is None:
        raise InputError("repair needs a table of people the model decides about; give one.")
    rows = read_table(table) if isinstance(table, (str, Path)) else as_pandas(table)
    target = given.pop("target", None)
    if target is not None and target not in rows.columns:
        raise InputError(unknown_column(target, [str(name) for name in rows.columns], "target"))
    if not len(rows):
        raise InputError("the table has no rows; give one with people.")
    who = Who(
        Domain.load(domain) if isinstance(domain, (str, Path)) else domain,
        listed_names(given.pop("sensitive_features", None)), rows, target, given.pop("twins", None),
        given.pop("combinations", None),
    )  # fmt: skip
    return repair_by_average(model, who, Reading.of(given), test=test, seed=seed), rows  # type: ignore[arg-type]


def _forest(
    question: Question, method: Method, fine_tune: bool, test: Any, seed: int, say: Say | None, asking: Any
) -> RepairedForest:
    if method not in METHODS:
        raise refused(method)
    model = asked_of(question, asking)
    people, target = question.table, question.target
    assert people is not None
    labels = None if target is None else taught(question, people[target])
    training, validation, kept = _parts(len(people), labels, seed, keep=test is None)
    known = people.iloc[np.sort(np.concatenate([training, validation]))]
    measured, answers = people.iloc[kept], None if labels is None else labels[kept]
    if test is not None:
        measured = as_pandas(test)
        answers = None if target is None else taught(question, measured[target])
    rows = RepairRows(known, measured, answers)
    return repair_forest(model, rows, method=method, fine_tune=fine_tune, seed=seed, say=say)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class _Work:
    """The original, the encoding of its repair, and which rows serve what."""

    original: Model
    encoding: Encoding
    people: pd.DataFrame
    labels: np.ndarray | None
    training: np.ndarray
    validation: np.ndarray

    def candidates(self, method: Method) -> tuple[tuple[Candidate, ...], list[FairLayer]]:
        """The fair first layers to choose among, and what the validation rows say of each."""
        rows = self.people.iloc[self.validation]
        plain = plain_projection(self.original, self.encoding)
        best = plain
        if method != "plain":
            best = least_squares_projection(self.original, self.encoding, plain, self.people.iloc[self.training])
        blends = {"auto": BLENDS, "plain": (0.0,), "least_squares": (1.0,)}[method]
        layers = [plain.toward(best, blend) for blend in blends]
        wanted, free = self.original.scores(rows).astype(np.float64), self._free(self.validation)
        found = []
        for blend, layer in zip(blends, layers, strict=True):
            scores = scores_of(layer.network(self.original.network, self.encoding), free)
            right = None if self.labels is None else decisions(scores) == self.labels[self.validation]
            found.append(
                Candidate(
                    blend,
                    first_layer_error(self.original, self.encoding, layer, rows),
                    float(np.sqrt(np.mean((scores - wanted) ** 2))),
                    None if right is None else float(np.mean(right)),
                )
            )
        return tuple(found), layers

    def lesson(self, part: np.ndarray) -> Lesson:
        """What is right for some rows: their labels, or what the original says."""
        if self.labels is None:
            return Lesson(self._free(part), self.original.predict_proba(self.people.iloc[part]))
        return Lesson.of_labels(self._free(part), self.labels[part], len(self.original.classes))

    def _free(self, part: np.ndarray) -> np.ndarray:
        return self.encoding.encode(self.people.iloc[part], sensitive=False).free


def _complete(question: Question, say: Say | None) -> Question:
    """The question about those rows that can teach: their answer is known, and what the original reads of them."""
    table, model = question.table, question.model
    assert table is not None
    never = [f.name for f in model.domain.sensitive_features if not f.missing]
    needed = [name for name in never if not model.ignores_sensitive and name in table.columns]
    needed += [question.target] if question.target is not None else []
    whole = table[needed].notna().all(axis=1)
    if not whole.any():
        gappy = [name for name in needed if table[name].isna().any()]
        raise InputError(f"every row of the table has a gap in {shown(gappy)}; fill the gaps, or give rows without.")
    left_out = question.gaps.left_out + int((~whole).sum())
    if say and left_out:
        say(f"{left_out:,} of {question.gaps.rows:,} people are left out: they have gaps that a repair cannot do with.")
    return dataclasses.replace(question, table=table[whole])


def _parts(
    count: int, labels: np.ndarray | None, seed: int, *, keep: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions to train on, to choose by, and to measure on; within each class if there are labels."""
    if count < FEWEST_ROWS:
        raise InputError(
            f"the table has {count} rows; a repair needs at least {FEWEST_ROWS}, for some are kept aside to choose and "
            "to measure on. With no table at all, project(model) makes a model fair."
        )
    generator = np.random.default_rng([seed, 2])
    kind = np.zeros(count, np.int64) if labels is None else labels
    part = np.zeros(count, np.int64)
    for value in np.unique(kind):
        members = generator.permutation(np.flatnonzero(kind == value))
        measured = round(MEASURED * len(members)) if keep else 0
        part[members[:measured]] = 2
        part[members[measured : measured + max(round(VALIDATED * len(members)), 1)]] = 1
    return np.flatnonzero(part == 0), np.flatnonzero(part == 1), np.flatnonzero(part == 2)


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


def _accuracy(model: Model, rows: pd.DataFrame, labels: np.ndarray | None) -> float | None:
    return None if labels is None else float(np.mean(decisions(model.scores(rows)) == labels))


def _quality(model: Model, rows: pd.DataFrame, labels: np.ndarray | None) -> dict[str, Any] | None:
    return quality_of(model, decisions(model.scores(rows)), labels)


def _fairness(model: Model, rows: pd.DataFrame) -> float | None:
    return model.empirical_fairness(rows) if Versions(model.domain).size <= ENUMERATION_LIMIT else None
