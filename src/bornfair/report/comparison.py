"""Several models side by side: one table, one chart of fairness against accuracy, and each model's verdict."""

from __future__ import annotations

from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import Block, Chart, Items, Meter, Row, Section, Story, Table, Text
from bornfair.report.document import Comparison, Document
from bornfair.report.measured import fairness_of, shares_chart, shares_key
from bornfair.report.pairs import pair_blocks
from bornfair.report.words import BADGES, clipped, count, disagreements, limits, listed, percent, told, verdict_sentence


def story_of_comparison(comparison: Comparison) -> Story:
    """The report on several models."""
    models = comparison.models
    title = told(comparison.title or "Fairness of several models")
    sections = [
        Section("side-by-side", "Side by side", (_table(models),)),
        _chart(models),
        *(_one(position, document) for position, document in enumerate(models, start=1)),
        Section("limits", "What this report does not say", (Items(tuple(_limits(models))),)),
    ]
    return Story(
        title=title,
        about=" · ".join(part for part in (title, told(comparison.made)) if part),
        headline=_headline(models),
        verdict=None,
        lead=(Text("Verdicts are about everyone who could exist; accuracy is measured on rows."),),
        sections=tuple(section for section in sections if section is not None),
        footer="Made with bornfair.",
    )


def _headline(models: tuple[Document, ...]) -> str:
    words = {"verified": "proven fair", "falsified": "not fair", "undecided": "undecided"}
    counted = []
    for verdict, told_as in words.items():
        amount = sum(document.verdict.verdict == verdict for document in models)
        if amount:
            counted.append(f"{amount} {'is' if amount == 1 else 'are'} {told_as}")
    return f"Of {count(len(models), 'model')}, {listed(counted)}."


def _table(models: tuple[Document, ...]) -> Table:
    rows = []
    for position, document in enumerate(models, start=1):
        shares, people, metrics = document.shares, document.people, document.metrics
        certified = "–" if shares is None else Meter(percent(shares.certified, "down"), shares.certified)
        unfair = "–" if people is None else f"{people.unfair:,} of {people.rows:,}"
        agree = None if metrics is None else metrics.empirical_fairness
        badge = BADGES[document.verdict.verdict].replace(" ", "\u00a0")
        rows.append(
            Row(
                (
                    f"{position}. {told(document.model)}", badge, certified, unfair,
                    percent(agree) if people is None else "–",  # else the rows are counted in the column before
                    percent(None if metrics is None else metrics.accuracy),
                    percent(None if metrics is None else metrics.balanced_accuracy),
                    "–" if metrics is None or metrics.auc is None else f"{metrics.auc:.3f}",
                )
            )
        )  # fmt: skip
    columns = (
        "model", "verdict", "proven fair", "affected rows", "twins agree", "accuracy", "balanced accuracy", "AUC",
    )  # fmt: skip
    used = [i for i in range(len(columns)) if i < 2 or any(row.cells[i] != "–" for row in rows)]
    return Table(
        tuple(columns[i] for i in used),
        tuple(Row(tuple(row.cells[i] for i in used)) for row in rows),
        numbers=frozenset(place for place, i in enumerate(used) if i > 2),
        shape="stack",
    )


def _chart(models: tuple[Document, ...]) -> Section | None:
    """Only models measured in the same way share a chart."""
    found = [
        (position, document, fairness_of(document), document.metrics.accuracy)
        for position, document in enumerate(models, start=1)
        if document.metrics is not None and document.metrics.accuracy is not None
    ]
    kinds = [fairness[0] for _, _, fairness, _ in found if fairness is not None]
    if not kinds:
        return None
    kind = max(sorted(set(kinds)), key=kinds.count)
    points = [
        (position, document.model, fairness[1], accuracy)
        for position, document, fairness, accuracy in found
        if fairness is not None and fairness[0] == kind
    ]
    if len(points) < 2:
        return None
    words = "; ".join(f"{clipped(name)}: {percent(fair)}, accuracy {percent(right)}" for _, name, fair, right in points)
    chart = Chart(
        partial(
            charts.scatter,
            points=[(name, fair, right) for _, name, fair, right in points],
            numbers=[position for position, _, _, _ in points],
            x_label=kind,
            y_label="accuracy",
        ),
        f"Chart of {kind} against accuracy. {words}.",
        caption="Up and to the right is better. The scales are cut to where the models are; where names do not fit, "
        "the numbers are those of the table.",
    )
    return Section("chart", "Fairness against accuracy", (chart,))


def _one(position: int, document: Document) -> Section:
    blocks: list[Block] = [Text(f"{BADGES[document.verdict.verdict]}. {verdict_sentence(document)}")]
    blocks += [Text(note, "warning") for note in disagreements(document)]
    if document.shares is not None:
        blocks += [shares_chart(document.shares), shares_key(document.shares)]
    if document.pairs:
        blocks += pair_blocks(document.pairs[0], document.domain.label if document.domain else None)
    if document.verdict.verdict == "undecided" and document.verdict.reason:
        blocks.append(Text(f"Why it is open: {told(document.verdict.reason)}"))
    return Section(f"model-{position}", f"{position}. {told(document.model)}", tuple(blocks))


def _limits(models: tuple[Document, ...]) -> list[tuple[str, str]]:
    """What holds for any of them, said once."""
    said: dict[str, str] = {}
    for document in models:
        for name, text in limits(document):
            said.setdefault(name, text)
    said["Arithmetic."] = "Each verdict is about the arithmetic of its own report, and no other number format."
    first = ("Unfair.", "How many.")
    return sorted(said.items(), key=lambda item: item[0] not in first)
