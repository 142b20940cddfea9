"""Is this model, whoever made it, fair? One call asks everything: verdict, shares of the domain, people of the data,
metrics, what gives the sensitive value away, and puts the answers in a report people read.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from bornfair.checks import number
from bornfair.errors import InputError
from bornfair.models import metrics
from bornfair.models.model import Model
from bornfair.question import Asking, Question
from bornfair.report import DomainFacts, Report, certificate_document
from bornfair.report import facts as parts
from bornfair.verification.clock import Say
from bornfair.verification.decide import decide

if TYPE_CHECKING:
    from bornfair.verification.verdict import Verdict


LEAST_ROWS_FOR_PROXIES = 50
MOST_AFFECTED = 5
MOST_GROUPS = 5
MOST_PROXIES = 6  # features named for each sensitive one
BINS = 24
MOST_GROUP_VALUES = 12  # sensitive combinations listed one by one in the table of group metrics


def audit(
    model: Any,
    people: Any = None,
    *,
    timeout: float = 60.0,
    seed: int = 0,
    say: Say | None = None,
    **asking: Unpack[Asking],
) -> Report:
    """A report on one model, or on several side by side.

    Args:
        model: anything `Question.of` takes, or a mapping of names to such models.
        people, sensitive_features, twins, table, target, …: as there; `target` is the column of the table that holds
            the true answers.
        timeout: seconds for the proof and the measuring of the domain together, for each model.
        seed: the same seed asks in the same order.
        say: is told how far it is.

    Returns:
        A report to look at, to save and to read as JSON.

    Raises:
        InputError: if a model cannot be read, or the table does not fit it.

    >>> import pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1], "paid": [0, 1, 0, 1]})
    >>> bank = LogisticRegression(C=100).fit(people[["age", "woman"]], people["paid"])
    >>> report = audit(bank, people, target="paid", sensitive_features=["woman"], timeout=2)
    >>> report.documents[0].verdict.verdict, report.documents[0].people.unfair
    ('falsified', 4)
    """
    number("timeout", timeout, 0.0, float("inf"), open_low=True)
    sources = dict(model) if isinstance(model, Mapping) else {_name_of(model): model}
    if not sources:
        raise InputError("no model was given; name at least one.")
    found = []
    for name, source in sources.items():
        if say and len(sources) > 1:
            say(f"--- {name}")
        asked = Question.of(source, people, **asking)
        found.append(examine(asked, name=str(name), timeout=timeout, seed=seed, say=say))
    return Report(found[0] if len(found) == 1 else parts.Comparison(tuple(found)))


def examine(
    asked: Question,
    *,
    name: str = "",
    timeout: float = 60.0,
    seed: int = 0,
    say: Say | None = None,
) -> parts.Document:
    """All that can be said about one model in about the given time."""
    from bornfair.quantification import affected_groups, shares_of

    progress = say or (lambda text: None)
    model, rows = asked.model, asked.people
    answers = asked.answers
    began = time.monotonic()
    progress("looking for a proof, or for twins who are decided differently")
    verdict = decide(model, timeout=timeout / 2, table=rows, seed=seed, say=say)
    left = max(timeout - (time.monotonic() - began), min(timeout, 1.0))
    progress("measuring how much of the domain is treated fairly")
    shares = shares_of(model, timeout=left, seed=seed, say=say)
    groups = affected_groups(model, most=MOST_GROUPS, seed=seed) if shares.certified < 1 else ()
    found: dict[str, Any] = {}
    if rows is not None:
        progress(f"looking at the {len(rows):,} people of the table")
        found = _of_people(model, rows, answers, seed)
    document = _certified(model, verdict)
    imported = {} if model.original is None else {"Imported": _imported(model)}
    reading = {"Reading": model.note} if model.note else {}
    return dataclasses.replace(
        document, model=name, domain=DomainFacts.of(model.domain), shares=shares, groups=tuple(groups),
        making={**document.making, **imported, **reading}, **found,
    )  # fmt: skip


# --- about everybody who could exist ---


def _certified(model: Model, verdict: Verdict) -> parts.Document:
    """The verdict of now, beside what the certificate says, if the model has one that was written down."""
    if model.certificate is None or not model.certificate.files:
        return parts.Document(verdict)
    return dataclasses.replace(certificate_document(model.certificate.to_json(), model.domain), verdict=verdict)


# --- about the people of a table ---


def _of_people(model: Model, rows: pd.DataFrame, answers: np.ndarray | None, seed: int) -> dict[str, Any]:
    from bornfair.quantification.people import people_of, treatment

    treated = treatment(model, rows)
    right, by_group = ({}, ()) if answers is None else _against_truth(model, rows, model.classes[answers])
    found: dict[str, Any] = {
        "people": people_of(model, rows, MOST_AFFECTED, treated=treated),
        "score_gaps": _gaps(treated.scores),
        "metrics": parts.Metrics(**right, empirical_fairness=float(np.mean(treated.fair)), rows=len(rows)),
        "group_metrics": by_group,
    }  # fmt: skip
    if len(rows) >= LEAST_ROWS_FOR_PROXIES:
        found |= _proxies(model, rows, seed)
    return found


def _gaps(outputs: np.ndarray) -> parts.Histogram | None:
    """How far each person's score moves at most between their versions: outputs [rows, versions, outputs]."""
    gap = (outputs.max(axis=1) - outputs.min(axis=1)).max(axis=1).astype(np.float64)
    if not len(gap) or not np.isfinite(gap).all() or not gap.max() > 0:
        return None
    counts, edges = np.histogram(gap, bins=BINS, range=(0.0, float(gap.max())))
    return parts.Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def _against_truth(
    model: Model, rows: pd.DataFrame, truth: np.ndarray
) -> tuple[dict[str, float | None], tuple[parts.GroupMetrics, ...]]:
    """How good the decisions are, and what is decided for each group of these rows."""
    classes, names, decided = model.classes, list(model.domain.sensitive), model.predict(rows)
    right = {
        "accuracy": metrics.accuracy(truth, decided),
        "balanced_accuracy": metrics.balanced_accuracy(truth, decided),
        "auc": metrics.auc(truth, model.predict_proba(rows), classes),
    }
    if len(classes) != 2 or not set(names) <= set(rows.columns):  # a fair model needs no sensitive column
        return right, ()
    groups = rows[names].astype(str).agg(", ".join, axis=1)
    if groups.nunique() > MOST_GROUP_VALUES:
        return right, ()
    table = metrics.group_metrics(truth, decided, groups, classes[-1])
    rates = ("selection_rate", "accuracy", "true_positive_rate", "false_positive_rate")
    return right, tuple(
        parts.GroupMetrics(str(value), int(line["count"]), **{rate: float(line[rate]) for rate in rates})
        for value, line in table.iterrows()
    )


def _proxies(model: Model, rows: pd.DataFrame, seed: int) -> dict[str, Any]:
    from bornfair.proxies.tells import proxy_report

    try:
        found = proxy_report(rows, model.domain, model=model, seed=seed)
    except InputError:  # too few people of one value to tell anything: the report then has no such section
        return {}
    several = len(found.about) > 1
    proxies = []
    for about in found.about:
        lines = [about.together, *(tell for tell in about.features[:MOST_PROXIES] if tell.tells)]
        lines += [about.score] if about.score is not None else []
        proxies += [
            parts.Proxy(f"{line.name} → {about.sensitive}" if several else line.name, line.auc) for line in lines
        ]
    declared = model.domain.twin_group.moved
    questions = [one.question for one in found.suggestions if one.feature not in declared]
    return {"proxies": tuple(proxies), "suggestions": tuple(questions)}


def _imported(model: Model) -> str:
    original = model.original
    assert original is not None
    compared = f"{original.people_compared:,} people, random ones and ones at corners and boundaries"
    text = f"Read from the original, and compared with it on {compared}"
    if original.largest_difference is not None:
        text += f": scores differ by {original.largest_difference:.2g} at most"
    proven = "" if model.covers_execution else " What is proven is proven in real arithmetic, of the network as read."
    return f"{text} ({original.runtime}).{proven}"


def _name_of(source: Any) -> str:
    if isinstance(source, (str, Path)):
        return Path(source).name or str(source)
    return type(source).__name__
