"""Audits: one call asks everything about a model and puts the answers in a report.

These are the verdict, shares of the domain, people of the data, metrics, and what gives the sensitive value away.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, get_args

import numpy as np
import pandas as pd

from bornfair.core.checks import choice, keywords, number, whole
from bornfair.core.clock import Clock, Say, TimeIsUp, Timeout
from bornfair.core.errors import InputError, plain_value
from bornfair.core.limits import ends_in_time
from bornfair.models import metrics
from bornfair.models.protocol import Countable, Decided, Unsteady
from bornfair.models.verdict import Verdict
from bornfair.parallel import ALONE, Jobs, Workers
from bornfair.people.levels import favourable_class
from bornfair.people.space.subpopulation import marginals_of
from bornfair.quantification.people import Treatment, own_decisions, people_of, shown_by, threshold_curve, treatment
from bornfair.quantification.population import domain_shares
from bornfair.quantification.records import Over
from bornfair.quantification.synthetic import shown_by_rows, with_people_of
from bornfair.questions import Asking, Question
from bornfair.questions.audit_metrics import by_group, reliability_of
from bornfair.questions.audit_runs import Kept, all_of, examined, located, name_of, today
from bornfair.report import DomainFacts, Report, certificate_document
from bornfair.report import facts as parts
from bornfair.report.measured import TABLE
from bornfair.report.verdict_text import people_shown
from bornfair.verification.decide import check_question, decide
from bornfair.verification.frontier import INTERRUPTED

if TYPE_CHECKING:
    from bornfair.questions.proxies import Proxies


LEAST_ROWS_FOR_PROXIES = 50
TRIAL = 1_000  # rows whose proxies tell how long those of all rows take
MOST_AFFECTED = 5
MOST_GROUPS = 5
MOST_PROXIES = 6  # features named for each sensitive one
BINS = 24
UNIFORM = 0.25  # of the time for measuring, for combinations counted alike where people as in the data come first
OF_PEOPLE = 0.25  # share of the time for what is said of the people of a table,
JUDGING = 0.2  # and so much, before all else, to judge them
OF_GROUPS = 0.15  # of the time for everybody, for groups


def audit(
    model: Any,
    people: Any = None,
    *,
    over: Over | None = None,
    favourable: Any = None,
    least_people: int = 30,
    least_share: float = 0.02,
    timeout: Timeout = 60.0,
    seed: int = 0,
    jobs: Jobs = None,
    send_table: bool = False,
    folder: str | Path | None = None,
    synthetic: bool = False,
    say: Say | None = None,
    examination: Mapping[str, str] | None = None,
    **asking: Unpack[Asking],
) -> Report:
    """A report on one model, or on several side by side.

    Args:
        model: anything `Question.of` takes, or a mapping of names to such models.
        people, sensitive_features, twins, table, target, …: as there; `target` is the column of the table that holds
            the true answers.
        over: whom shares of the domain are of: "data" (each feature's values as often as in the table) or "uniform"
            (every combination counted alike); left out, of both if there is a table.
        favourable: the decision that people hope for; otherwise inferred from names, and said.
        least_people, least_share: a group of fewer people, or of a smaller share of the rows, is shown, but neither
            headlined nor compared with.
        examination: more facts about how the report came about, by name, beside its date and digests.
        timeout: seconds for all of it, reading included; of several models, for each.
        seed: the same seed asks in the same order.
        jobs: how many processes of this machine share the work, or `Workers` of a cluster (`bornfair.parallel`).
            Several models are audited side by side; on a cluster, whose workers read the models' files where we do,
            only if there is no table or it may leave this machine (`send_table`): else one after the other, and what
            is shared are boxes.
        folder: keeps what was found of each model, so that an audit of many goes on where it stopped.
        synthetic: show only people who are not in the table: other twins, and no rows that are affected most.
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
    >>> report.documents[0].verdict.answer, report.documents[0].people.unfair
    ('falsified', 4)
    """
    keywords(audit, asking, Asking)
    check_question("auto", timeout)
    clock = Clock.of(timeout, say)
    number("least_share", least_share, 0.0, 1.0)
    whole("least_people", least_people, 0)
    if over is not None:
        choice("over", over, get_args(Over))
    sources = dict(model) if isinstance(model, Mapping) else {name_of(model): model}
    if not sources:
        raise InputError("no model was given; name at least one.")
    limits = over, favourable, least_people, least_share
    with Workers.lent(jobs) as workers:
        has_table = people is not None or asking.get("table") is not None
        apart = len(sources) > 1 and workers.jobs > 1 and (send_table or not (workers.is_elsewhere and has_table))
        one = functools.partial(
            _of_one, people=located(people), asking={name: located(value) for name, value in asking.items()},
            limits=limits, seed=seed, synthetic=synthetic,
            # the first of them may use what is left of the time, if they are not asked side by side
            timeout=clock.timeout if apart else clock, jobs=1 if apart else workers,
        )  # fmt: skip
        question = {"limits": limits, "seconds": clock.timeout, "seed": seed, "synthetic": synthetic, **asking}
        kept = Kept.of(folder, people if people is not None else asking.get("table"), question)
        found = all_of(sources, one, workers if apart else ALONE, kept, clock)
    began = {"Date": today()}
    told = [
        dataclasses.replace(document, examination={**began, **document.examination, **(examination or {})})
        for document in found
    ]
    return Report(told[0] if len(told) == 1 else parts.Comparison(tuple(told)))


def _of_one(
    model: tuple[str, Any], *, people: Any, asking: dict[str, Any], limits: tuple[Over | None, Any, int, float],
    timeout: Timeout, seed: int, synthetic: bool, jobs: Jobs,
) -> parts.Document | InputError:  # fmt: skip
    """What can be said about one model; an error is a value, so that others are not lost by it."""
    name, source = model
    over, *groups = limits
    clock = Clock.of(timeout)
    try:
        asked = Question.within(clock, source, people, **asking)
        rules = _rules(asked.countable_model, *groups)
        document = examine(
            asked, name=name, over=over, rules=rules, timeout=clock, seed=seed, jobs=jobs, synthetic=synthetic
        )
    except InputError as error:
        return error
    given = people if asking.get("table") is None else asking["table"]
    return dataclasses.replace(document, examination=examined(source, asked, given))


@ends_in_time
def examine(
    asked: Question,
    *,
    name: str,
    over: Over | None,
    rules: parts.Favourable,
    timeout: Timeout,
    seed: int,
    jobs: Jobs,
    synthetic: bool,
) -> parts.Document:
    """All that can be said about one model in the given time."""
    clock = Clock.of(timeout)
    progress = clock.listener or (lambda text: None)
    model, rows, answers = asked.countable_model, asked.people, asked.answers
    if over == "data" and rows is None:
        raise InputError("over='data' takes the weights from a table: give a table, or measure over 'uniform'.")
    steady = model.is_steady
    treated = None if rows is None else treatment(model, rows, timeout=clock.part(JUDGING), seed=seed)
    table = 0.0 if rows is None else OF_PEOPLE
    progress("looking for a proof, or for twins who are decided differently")
    verdict = None
    if not model.is_read and treated is not None and steady and not synthetic:
        verdict = shown_by(model, rows, treated)
    if verdict is None:
        known = None if synthetic else rows  # among whom twins are looked for
        verdict = decide(model, timeout=clock.part((1 - table) / 2), table=known, jobs=jobs, seed=seed)
    _end_if_interrupted(verdict.answer == "undecided" and INTERRUPTED in verdict.reason)
    if verdict.answer == "undecided" and synthetic and steady:
        shown = shown_by_rows(model, rows, treated=treated, timeout=clock.part(JUDGING), seed=seed)
        verdict = verdict if shown is None else shown
    elif verdict.answer == "undecided" and treated is not None and model.is_read:
        shown = shown_by(model, rows, treated)  # who was judged already may show it
        verdict = verdict if shown is None else shown
    verdict = with_people_of(model, verdict, rows, synthetic=synthetic, timeout=clock.part(1 - table), seed=seed)
    found: dict[str, Any] = {}
    if steady:
        try:
            found = _of_everybody(model, rows, over, clock.part(1 - table), seed, jobs)
        except Unsteady as error:
            steady, verdict = False, Verdict("undecided", "none", "asking", (), str(error).rstrip("."))
    if rows is not None and treated is not None:
        progress(f"looking at the {len(rows):,} people of the table")
        most = 0 if synthetic else MOST_AFFECTED
        found |= _of_people(model, rows, treated, answers, rules, most, seed, clock)
        found["gaps"] = asked.gaps
        found["people"] = dataclasses.replace(found["people"], left_out=asked.gaps.left_out)
        if not steady:  # what seems unfair may be noise
            found = {name: value for name, value in found.items() if name not in ("people", "thresholds", "score_gaps")}
            found["metrics"] = dataclasses.replace(found["metrics"], empirical_fairness=None)
    found["influences"] = model.influences()
    document, certificate = parts.Document(verdict), getattr(model, "certificate", None)
    if certificate is not None and certificate.files:  # beside the verdict of now, what was written down
        document = dataclasses.replace(certificate_document(certificate.to_json(), model.domain), verdict=verdict)
    making = {**document.making, **model.provenance()}
    making.pop(parts.OPERATING_POINT, None)  # it may be another one now
    if model.thresholds:
        decides = ", ".join(f"{name} above {share:g}" for name, share in model.thresholds.items())
        making[parts.OPERATING_POINT] = f"It decides {decides}, not at ½."
    making |= {"Reading": model.note} if model.note else {}
    making |= {parts.COLUMNS: " ".join(asked.notes)} if asked.notes else {}
    found["shows"] = people_shown(verdict, found.get("people"))
    return dataclasses.replace(document, model=name, domain=DomainFacts.of(model.domain), making=making, **found)


def _rules(model: Countable, asked: Any, people: int, share: float) -> parts.Favourable:
    label, classes = model.domain.label, model.class_names
    position, inferred = favourable_class("" if label is None else label.name, classes, asked)
    return parts.Favourable(plain_value(classes[position]), inferred, people, share)


# --- about everybody who could exist ---


def _of_everybody(
    model: Countable, rows: pd.DataFrame | None, over: Over | None, clock: Clock, seed: int, jobs: Jobs
) -> dict[str, Any]:
    """Shares of people as in the data where there is a table, and of every combination of values counted alike."""
    from bornfair.quantification.groups import affected_groups

    found: dict[str, Any] = {}
    progress = clock.listener or (lambda text: None)
    weights = None
    if rows is not None and over != "uniform":
        try:
            weights = marginals_of(model.domain, rows)
        except InputError as error:  # nobody of the table is in the domain that was given
            if over == "data":
                raise
            progress(f"people cannot be weighted as in the table: {error}")
    measuring = clock.part(1 - OF_GROUPS)
    if weights is not None:
        progress("measuring how many are treated fairly, people weighted as in the table")
        share = 1.0 if over == "data" else 1 - UNIFORM
        shares = domain_shares(model, timeout=measuring.part(share), marginals=weights, jobs=jobs, seed=seed)
        _end_if_interrupted(shares.interrupted)
        found["shares"] = dataclasses.replace(shares, over="data")
    if weights is None or over is None:
        progress("measuring how much of the domain is treated fairly, every combination of values counted alike")
        shares = domain_shares(model, timeout=measuring.part(), jobs=jobs, seed=seed)
        _end_if_interrupted(shares.interrupted)
        found["shares" if weights is None else "uniform"] = shares
    if found["shares"].certified < 1:
        groups = affected_groups(model, most=MOST_GROUPS, seed=seed, marginals=weights, timeout=clock)
        found["groups"] = tuple(groups)
    return found


def _end_if_interrupted(interrupted: bool) -> None:
    """A single question answers with what it knows when it is interrupted; an audit does not go on to the next."""
    if interrupted:
        raise KeyboardInterrupt


# --- about the people of a table ---


def _of_people(
    model: Countable,
    rows: pd.DataFrame,
    treated: Treatment,
    answers: np.ndarray | None,
    rules: parts.Favourable,
    most: int,
    seed: int,
    clock: Clock,
) -> dict[str, Any]:
    decided = own_decisions(model, rows, treated)
    right: dict[str, Any] = {} if answers is None else _against_truth(model, rows, treated, decided, answers)
    reliability = right.pop("reliability", None)
    good = model.class_names.index(rules.decision)
    judged = np.arange(len(rows)) if model.is_read else treated.rows  # others were not asked about
    truth = None if answers is None else answers[judged]
    found: dict[str, Any] = {"people": people_of(model, rows, most, treated=treated, timeout=clock.part(0.5))}
    if model.shows_scores:  # else a model is only asked
        if model.decides_by_probability(Decided(treated.decided, treated.scores)):
            found["thresholds"] = threshold_curve(model, treated.scores)
        found["score_gaps"] = _gaps(treated.scores)
    found |= {
        "metrics": parts.Metrics(
            **right or {"rows": len(rows)}, on=TABLE, empirical_fairness=float(np.mean(treated.fair))
        ),
        "group_metrics": by_group(model.domain, rows.iloc[judged], decided[judged], truth, good, rules),
        "favourable": rules,
        "reliability": reliability,
    }  # fmt: skip
    if len(rows) >= LEAST_ROWS_FOR_PROXIES:
        found |= _proxies(model, rows, seed, clock)
    return found


def _gaps(outputs: np.ndarray) -> parts.Histogram | None:
    """How far each person's score moves at most between their versions: outputs [rows, versions, outputs]."""
    gap = (outputs.max(axis=1) - outputs.min(axis=1)).max(axis=1).astype(np.float64)
    if not len(gap) or not np.isfinite(gap).all() or not gap.max() > 0:
        return None
    counts, edges = np.histogram(gap, bins=BINS, range=(0.0, float(gap.max())))
    return parts.Histogram(tuple(edges.tolist()), tuple(counts.tolist()))


def _against_truth(
    model: Countable, rows: pd.DataFrame, treated: Treatment, decided: np.ndarray, answers: np.ndarray
) -> dict[str, Any]:
    """How good the decisions are, on the rows of which both the decision and the truth are known."""
    asked, classes = (decided >= 0) & (answers >= 0), model.classes
    if not asked.any():
        return {}
    truth, ours = classes[answers[asked]], classes[decided[asked]]
    scored = asked
    if model.is_read and not model.ignores_sensitive:
        names = [name for name in model.domain.sensitive if name in rows.columns]
        scored = asked & rows[names].notna().all(axis=1).to_numpy()
    shown = _shown_probabilities(model, rows, treated, scored)
    found: dict[str, Any] = {**metrics.quality(truth, ours), "rows": int(asked.sum())}
    if shown is not None:
        found["auc"] = metrics.auc(classes[answers[scored]], shown, classes)
        found |= reliability_of(shown, answers[scored], classes)
    return found


def _shown_probabilities(
    model: Countable, rows: pd.DataFrame, treated: Treatment, asked: np.ndarray
) -> np.ndarray | None:
    """Of rows as they stand, by the scores of the versions that they are; others are evaluated if the model is read."""
    own = np.full((len(asked), treated.scores.shape[2]), np.nan)
    own[treated.rows] = treated.scores[np.arange(len(treated.rows)), treated.own]
    if not model.is_read:
        return model.probabilities(own[asked])
    own[treated.rows[~treated.known]] = np.nan
    found = None if np.isnan(own[asked]).any() else model.probabilities(own[asked])
    return model.predict_proba(rows[asked]) if found is None else found


def _proxies(model: Countable, rows: pd.DataFrame, seed: int, clock: Clock) -> dict[str, Any]:
    found = _what_tells(model, rows, seed, clock)
    if found is None:
        return {}
    several = len(found.about) > 1
    proxies = []
    for about in found.about:
        lines = [about.together, *(tell for tell in about.features[:MOST_PROXIES] if tell.tells)]
        lines += [about.score] if about.score is not None else []
        proxies += [
            parts.Proxy(
                f"{line.name} → {about.sensitive}" if several else line.name, line.auc,
                note=about.left_out_text if line is about.together else "",
            )
            for line in lines
        ]  # fmt: skip
    declared = model.domain.twin_group.moved
    questions = [one.question for one in found.suggestions if one.feature not in declared]
    return {"proxies": tuple(proxies), "suggestions": tuple(questions)}


def _what_tells(model: Countable, rows: pd.DataFrame, seed: int, clock: Clock) -> Proxies | None:
    """What gives the sensitive values away: on all rows, on as many as there is time for, or None."""
    from bornfair.questions.proxies import proxy_report

    found, count = None, len(rows)
    order = np.random.default_rng([seed, 6]).permutation(count)
    try:
        clock.check()
        if count > TRIAL:
            began = clock.now()
            found = proxy_report(rows.iloc[np.sort(order[:TRIAL])], model.domain, model=model, seed=seed, timeout=clock)
            affordable = int(TRIAL * clock.left / max(clock.now() - began, 1e-9))  # part of it takes the same for all
            if affordable < 2 * TRIAL:
                return found
            count = min(count, affordable)
        some = rows if count == len(rows) else rows.iloc[np.sort(order[:count])]
        return proxy_report(some, model.domain, model=model, seed=seed, timeout=clock)
    except TimeIsUp:
        if clock.listener is not None and found is None:
            clock.listener("there was no time left to look at what gives the sensitive values away")
        return found
    except InputError:  # too few people of one value to tell anything: the report then has no such section
        return found
