"""Repair: from anybody's unfair model and a table to the fair model closest to it, tuned, certified and compared.

Rows that are kept aside, and never used for a choice, tell what the repair costs.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pandas as pd

from bornfair.core.checks import choice, keywords, whole
from bornfair.core.clock import Say
from bornfair.core.errors import InputError, plain, shown
from bornfair.models.columns import Who
from bornfair.models.reading import Reading
from bornfair.people.domain import Domain
from bornfair.people.dummies import sentences
from bornfair.people.features import listed_names, unknown_column
from bornfair.people.levels import class_positions
from bornfair.people.tables import as_pandas, read_table
from bornfair.questions import Asking, Question
from bornfair.questions.repairing.changes import ChangedGroup, Changes, Example, RepairRows, compare
from bornfair.questions.repairing.forests import METHODS as FOREST_METHODS
from bornfair.questions.repairing.forests import RepairedForest, asked_of, repair_forest
from bornfair.questions.repairing.graphs import RepairedGraph, repair_by_average
from bornfair.questions.repairing.networks import Candidate, Repaired, asked_about, repair_network
from bornfair.training.projection import project

__all__ = [
    "Candidate", "ChangedGroup", "Changes", "Example", "Repaired", "RepairedForest", "RepairedGraph", "compare",
    "project", "repair",
]  # fmt: skip

Method = Literal["auto", "plain", "least_squares", "drop", "average"]
EPOCHS = 60
FEWEST_ROWS = 20
MEASURED, VALIDATED = 0.2, 0.15  # shares of the rows kept aside to measure on, and to choose by


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
    began = time.perf_counter()
    whole("epochs", epochs, 0)
    whole("seed", seed, 0)
    choice("method", method, get_args(Method))
    found: Repaired | RepairedForest | RepairedGraph
    if method == "average":
        found, table = _averaged(model, people, test, seed, asking)
    else:
        question = _complete(Question.of(model, people, as_it_is=True, **asking), say)
        assert question.table is not None
        table = question.table
        if question.model.kind == "forest":
            if method not in FOREST_METHODS:
                raise InputError(
                    "a forest is repaired by method 'plain' (the mean over the sensitive values) or 'drop' (each value "
                    f"as often as it occurs in the table), found {method!r}."
                )
            forest = asked_of(question, asking)
            found = repair_forest(forest, _rows(question, test, seed), method=method, fine_tune=fine_tune, say=say)
        else:
            if method == "drop":
                raise InputError(
                    "method 'drop' is for forests; a network is repaired by 'plain', 'least_squares' or 'auto'."
                )
            network = asked_about(question, asking)
            rows, most = _rows(question, test, seed), epochs if fine_tune else 0
            found = repair_network(network, rows, method=method, epochs=most, seed=seed, say=say)
    notes = filter(None, [found.note, *sentences(found.model.domain, table)])
    return dataclasses.replace(found, note=" ".join(notes), seconds=time.perf_counter() - began, seed=seed)


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


def _rows(question: Question, test: Any, seed: int) -> RepairRows:
    people, target = question.table, question.target
    assert people is not None
    labels = None if target is None else _taught(question, people[target])
    training, validation, kept = _parts(len(people), labels, seed, keep=test is None)
    measured, answers = people.iloc[kept], None if labels is None else labels[kept]
    if test is not None:
        measured = as_pandas(test)
        answers = None if target is None else _taught(question, measured[target])
    return RepairRows(people, labels, training, validation, measured, answers)


def _taught(question: Question, column: pd.Series) -> np.ndarray:
    """The labels to fine-tune on, as positions in the model's classes."""
    positions = class_positions(column, question.model.classes.tolist())
    if len(np.unique(positions)) < 2:
        raise InputError(
            f"target '{column.name}' has one class only, {plain(column.iloc[0])!r}, in all {len(column)} rows; "
            "fine-tuning needs at least two. Without a target the original's own outputs are taught."
        )
    return positions


def _complete(question: Question, say: Say | None) -> Question:
    """The question about those rows that can teach: their answer is known, and what the original reads of them."""
    table, model = question.table, question.model
    if table is None:
        raise InputError("repair needs a table of people the model decides about; give one.")
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
