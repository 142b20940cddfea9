"""Several models side by side: one table, one chart of fairness against accuracy, and each model's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import (
    Block,
    Chart,
    Contents,
    Listing,
    ListingEntry,
    Table,
    Text,
    filled_sections,
    filled_table,
)
from bornfair.report.facts import Comparison, Document, Metrics
from bornfair.report.formatting import MISSING, clipped, count, listed, measure_text, narrow, percent, readable
from bornfair.report.measured import asked_about, shares_chart
from bornfair.report.people import lowest_ratio, side_by_side
from bornfair.report.sections import FOOTER, LIMITS_TITLE, examination, made_on, why_open
from bornfair.report.verdict_text import BADGES, disagreements, limits, sensitive_names, verdict_sentence

Models = tuple[Document, ...]
LEAD = (
    "Verdicts are about everyone who could exist; accuracy, and who is decided otherwise with another sensitive value, "
    "about the rows of a table."
)


def contents_of_comparison(comparison: Comparison) -> Contents:
    """The report on several models."""
    models = comparison.models
    title = readable(comparison.title or "Fairness of several models")
    names = [f"{position}. {readable(document.model)}" for position, document in enumerate(models, start=1)]
    sections = [
        ("side-by-side", "Side by side", [_table(names, models)]),
        ("chart", "Fairness against accuracy", _chart(models)),
        *((f"model-{i + 1}", name, _one(model)) for i, (name, model) in enumerate(zip(names, models, strict=True))),
        ("limits", LIMITS_TITLE, [Listing("points", _limits(models))]),
        ("examination", "How this report came about", examination(_examination(names, models))),
    ]
    return Contents(
        title=title,
        about=" · ".join(part for part in (title, readable(comparison.made or made_on(models[0]))) if part),
        headline=_headline(models),
        lead=tuple(Text(text) for text in (_affected(models), LEAD) if text),
        sections=filled_sections(sections),
        footer=FOOTER,
    )


def _headline(models: Models) -> str:
    words = {"verified": "proven fair", "falsified": "not fair", "undecided": "undecided"}
    amounts = {verdict: sum(document.verdict.answer == verdict for document in models) for verdict in words}
    counted = [f"{n} {'is' if n == 1 else 'are'} {words[verdict]}" for verdict, n in amounts.items() if n]
    return f"Of {count(len(models), 'model')}, {listed(counted)}."


def _affected(models: Models) -> str:
    """How many people of the table are affected, from the best of the models to the worst."""
    shares = [document.people.share for document in models if document.people is not None]
    if len(shares) < len(models):
        return ""
    ends = [percent(share) for share in (min(shares), max(shares))]
    which = ends[0] if ends[0] == ends[1] else f"Between {ends[0]} and {ends[1]}"
    people = "the people in the table" + ("" if ends[0] == ends[1] else ", depending on the model,")
    return f"{which} of {people} would be decided otherwise with another value of {sensitive_names(models[0], 'or')}."


def _table(names: list[str], models: Models) -> Table:
    rows = []
    for name, document in zip(names, models, strict=True):
        people, metrics = document.people, document.metrics or Metrics()
        ratio = lowest_ratio(document.group_metrics)
        agree = metrics.empirical_fairness
        affected = MISSING if people is None else f"{percent(people.share)}\n{people.unfair:,} of {people.rows:,}"
        rows.append({
            "model": name,
            "verdict": BADGES[document.verdict.answer].replace(" ", "\u00a0"),
            "decided otherwise": affected if people is not None or agree is None else percent(1 - agree),
            "unfair": _unfair(document),
            "proven fair": _proven(document),
            "impact ratio": MISSING if ratio is None else f"{ratio:.2f}",
            "accuracy": percent(metrics.accuracy),
            "balanced accuracy": percent(metrics.balanced_accuracy),
            "largest class": percent(metrics.majority_share),
            "AUC": measure_text("AUC", metrics.auc),
        })  # fmt: skip
    return filled_table(rows, texts=("model", "verdict"))


def _proven(document: Document) -> str:
    shares = document.shares
    return MISSING if shares is None or shares.asked is not None else percent(shares.certified, "down")


def _unfair(document: Document) -> str:
    """The share of everybody who is treated unfairly: the confident interval on two lines, else the estimate."""
    sure, estimate = (document.shares.confident, document.shares.estimate) if document.shares else (None, None)
    if sure is not None:
        return narrow(sure.low, sure.high).removeprefix("between ").replace(" and ", "\nto ")
    return MISSING if estimate is None else percent(estimate.unfair)


def _fairness(document: Document) -> tuple[str, float] | None:
    """The one number for a chart, and what it is: of people first; a proven share would make a good model look bad that
    was given little time.
    """
    agree = document.metrics.empirical_fairness if document.metrics else None
    if document.people is not None and document.people.rows:
        agree = 1 - document.people.share
    if agree is not None:
        return "people in the table decided as their twins", agree
    estimate = document.shares.estimate if document.shares else None
    return None if estimate is None else ("people decided as their twins, estimate", 1 - estimate.unfair)


def _chart(models: Models) -> Iterator[Block]:
    """Only models measured in the same way share a chart."""
    found = [
        (position, document.model, *fairness, document.metrics.accuracy)
        for position, document in enumerate(models, start=1)
        if document.metrics is not None and document.metrics.accuracy is not None and (fairness := _fairness(document))
    ]
    kinds = [kind for _, _, kind, _, _ in found]
    most = max(sorted(set(kinds)), key=kinds.count, default="")
    points = [(name, fair, right) for _, name, kind, fair, right in found if kind == most]
    numbers = [position for position, _, kind, _, _ in found if kind == most]
    if len(points) < 2:
        return
    words = "; ".join(f"{clipped(name)}: {percent(fair)}, accuracy {percent(right)}" for name, fair, right in points)
    yield Chart(
        partial(charts.scatter, points=points, numbers=numbers, x_label=most, y_label="accuracy"),
        f"Chart of {most} against accuracy. {words}.",
        "Up and to the right is better. The scales are cut to where the models are; where names do not fit, the "
        "numbers are those of the table.",
    )


def _one(document: Document) -> Iterator[Block]:
    yield Text(f"{BADGES[document.verdict.answer]}. {verdict_sentence(document)}")
    for note in disagreements(document):
        yield Text(note, "warning")
    if document.shares is not None:
        whose = {"data": "Of people as in the data:", "uniform": "Of every combination of values, counted alike:"}
        yield Text(whose.get(document.shares.over, ""), "soft")
        asked = document.shares.asked
        yield from shares_chart(document.shares) if asked is None else [asked_about(asked)]
    if document.pairs:
        yield from side_by_side(document.pairs[0], document.label)
    yield from why_open(document)


def _limits(models: Models) -> tuple[ListingEntry, ...]:
    """What holds for any of them, said once."""
    said: dict[str, ListingEntry] = {}
    for document in models:
        for entry in limits(document):
            said.setdefault(entry.name, entry)
    own = "Each verdict is about the arithmetic of its own report, and no other number format."
    said["Arithmetic."] = ListingEntry("Arithmetic.", own)
    return tuple(sorted(said.values(), key=lambda entry: entry.name not in ("Unfair.", "How many.")))


def _examination(names: list[str], models: Models) -> dict[str, str]:
    """What is the same of all of them once, and what is not for each."""
    facts: dict[str, str] = {}
    for fact in dict.fromkeys(fact for document in models for fact in document.examination):
        found = [document.examination.get(fact, MISSING) for document in models]
        if len(set(found)) == 1:
            facts[fact] = found[0]
        else:
            facts |= {f"{fact} {name}": text for name, text in zip(names, found, strict=True)}
    return facts
