"""Several models side by side: one table, one chart of fairness against accuracy, and each model's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import Block, Chart, Contents, Entry, Listing, Meter, Row, Table, Text, filled_sections
from bornfair.report.facts import Comparison, Document, Metrics
from bornfair.report.formatting import MISSING, clipped, count, listed, measure_text, percent, readable
from bornfair.report.measured import shares_chart
from bornfair.report.pairs import side_by_side
from bornfair.report.sections import FOOTER, LIMITS_TITLE, why_open
from bornfair.report.verdict_text import BADGES, disagreements, limits, verdict_sentence

Models = tuple[Document, ...]


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
    ]
    return Contents(
        title=title,
        about=" · ".join(part for part in (title, readable(comparison.made)) if part),
        headline=_headline(models),
        lead=(Text("Verdicts are about everyone who could exist; accuracy is measured on rows."),),
        sections=filled_sections(sections),
        footer=FOOTER,
    )


def _headline(models: Models) -> str:
    words = {"verified": "proven fair", "falsified": "not fair", "undecided": "undecided"}
    amounts = {verdict: sum(document.verdict.verdict == verdict for document in models) for verdict in words}
    counted = [f"{n} {'is' if n == 1 else 'are'} {words[verdict]}" for verdict, n in amounts.items() if n]
    return f"Of {count(len(models), 'model')}, {listed(counted)}."


def _table(names: list[str], models: Models) -> Table:
    """One row for each model; a column stays out where no model has anything in it."""
    rows = []
    for name, document in zip(names, models, strict=True):
        shares, people, metrics = document.shares, document.people, document.metrics or Metrics()
        rows.append({
            "model": name,
            "verdict": BADGES[document.verdict.verdict].replace(" ", "\u00a0"),
            "proven fair": MISSING if shares is None else Meter(percent(shares.certified, "down"), shares.certified),
            "affected rows": MISSING if people is None else f"{people.unfair:,} of {people.rows:,}",
            # Where the rows are counted in the column before, this one has nothing to add.
            "twins agree": percent(metrics.empirical_fairness) if people is None else MISSING,
            "accuracy": percent(metrics.accuracy),
            "balanced accuracy": percent(metrics.balanced_accuracy),
            "AUC": measure_text("AUC", metrics.auc),
        })  # fmt: skip
    columns = [name for name in rows[0] if any(row[name] != MISSING for row in rows)]
    texts = ("model", "verdict", "proven fair")
    return Table(
        tuple(columns),
        tuple(Row(tuple(row[name] for name in columns)) for row in rows),
        numbers=frozenset(i for i, name in enumerate(columns) if name not in texts),
        shape="stack",
    )


def _fairness(document: Document) -> tuple[str, float] | None:
    """The one number for a chart, and what it is: proven where there is a proof, else counted on people."""
    if document.shares is not None:
        return "proven fair share of the domain", document.shares.certified
    agree = document.metrics.empirical_fairness if document.metrics else None
    if document.people is not None and document.people.rows:
        agree = 1 - document.people.share
    return None if agree is None else ("share of rows whose twins agree", agree)


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
    yield Text(f"{BADGES[document.verdict.verdict]}. {verdict_sentence(document)}")
    for note in disagreements(document):
        yield Text(note, "warning")
    if document.shares is not None:
        yield from shares_chart(document.shares)
    if document.pairs:
        yield from side_by_side(document.pairs[0], document.label)
    yield from why_open(document)


def _limits(models: Models) -> tuple[Entry, ...]:
    """What holds for any of them, said once."""
    said: dict[str, Entry] = {}
    for document in models:
        for entry in limits(document):
            said.setdefault(entry.name, entry)
    own = "Each verdict is about the arithmetic of its own report, and no other number format."
    said["Arithmetic."] = Entry("Arithmetic.", own)
    return tuple(sorted(said.values(), key=lambda entry: entry.name not in ("Unfair.", "How many.")))
