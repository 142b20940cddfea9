"""The sections of a report that tell what was measured: of the domain, of a data set, of training and repair.

Each takes the document and gives its section, or None when there is nothing to tell.
"""

from __future__ import annotations

import math
from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import Aside, Block, Chart, Fold, Heading, Key, Meter, Row, Section, Table, Text
from bornfair.report.document import Affected, Document, Group, Pair, Proxy, Shares, value_text
from bornfair.report.pairs import pair_blocks
from bornfair.report.words import (
    clipped,
    confidence,
    count,
    interval,
    listed,
    named,
    number,
    percent,
    points,
    seconds,
    told,
)

MOST_PEOPLE = 12  # of the most affected, shown one by one
MOST_EPOCHS = 200  # drawn and listed; of longer histories a part
OVER = {
    "uniform domain": "Everyone who could exist counts the same, whether or not such people are common.",
    "marginals": "People count as often as their values are in the data, each feature taken by itself.",
}


def fairness_of(document: Document) -> tuple[str, float] | None:
    """The one number for a chart, and what it is: proven where there is a proof, else counted on people."""
    if document.shares is not None:
        return "proven fair share of the domain", document.shares.certified
    if document.people is not None and document.people.rows:
        return "share of rows whose twins agree", 1 - document.people.share
    if document.metrics is not None and document.metrics.empirical_fairness is not None:
        return "share of rows whose twins agree", document.metrics.empirical_fairness
    return None


# --- everyone who could exist ---


def domain_shares(document: Document) -> Section | None:
    shares = document.shares
    if shares is None:
        return None
    took = []
    if shares.boxes is not None:
        took.append(count(shares.boxes, "part") + " of the domain examined")
    if shares.seconds is not None:
        took.append(seconds(shares.seconds))
    blocks: list[Block] = [
        Text(OVER.get(shares.over, f"Counted over: {told(shares.over)}.")),
        shares_chart(shares),
        shares_key(shares),
    ]
    if took:
        blocks.append(Text(f"{', '.join(took)}. More time makes the open part smaller.", "soft"))
    if document.verdict.verdict == "verified" and shares.certified < 1:
        blocks.append(
            Text("The proof of the verdict covers everyone; this measurement, made apart from it, got so far.")
        )
    if shares.estimate is not None:
        blocks.append(_estimate(shares))
    return Section("shares", "How many of all who could exist", tuple(blocks))


def shares_chart(shares: Shares) -> Chart:
    words = (
        f"Bar of the whole domain: {percent(shares.certified, 'down')} proven fair, "
        f"{percent(shares.falsified, 'down')} proven unfair, {percent(shares.undecided, 'up')} undecided."
    )
    return Chart(partial(charts.shares_bar, shares=shares), words, repeats=True)


def shares_key(shares: Shares) -> Key:
    return Key(
        (
            ("fair", "Proven fair", percent(shares.certified, "down")),
            ("unfair", "Proven unfair", percent(shares.falsified, "down")),
            ("open", "Undecided", percent(shares.undecided, "up")),
        )
    )


def _estimate(shares: Shares) -> Aside:
    estimate = shares.estimate
    assert estimate is not None
    drawn = "" if estimate.samples is None else f" {count(estimate.samples, 'person', 'people')} were drawn at random."
    words = f"Unfair: about {interval(estimate)}."
    chart = Chart(partial(charts.estimate_line, estimate=estimate), f"Estimate. {words}", repeats=True)
    return Aside("Estimate, not a proof", (Text(f"{words}{drawn}"), chart))


# --- the people of a data set ---


def data_people(document: Document) -> Section | None:
    people = document.people
    if people is None:
        return None
    where = f" of {told(people.source)}" if people.source else ""
    names = listed(document.sensitive, word="or") or "the sensitive value"
    if people.unfair:
        told_now = (
            f"For {people.unfair:,} of {count(people.rows, 'row')}{where} ({percent(people.share)}), another value of "
            f"{names} alone would change the decision."
        )
    else:
        told_now = (
            f"For none of the {count(people.rows, 'row')}{where} would another value of {names} change the decision."
        )
    if people.values is not None:
        told_now += f" Each row was looked at with {count(people.values, 'value')} of {names}, not with all there are."
    blocks: list[Block] = [Text(told_now)]
    if not people.unfair and document.verdict.verdict != "verified":
        blocks.append(Text("This speaks of these rows only. It is no proof for anyone else.", "soft"))
    if people.most_affected:
        blocks.append(Heading("Most affected"))
        blocks += [_affected(one, document) for one in people.most_affected[:MOST_PEOPLE]]
        if len(people.most_affected) > MOST_PEOPLE:
            more = len(people.most_affected) - MOST_PEOPLE
            blocks.append(Text(f"And {more:,} more, in the report's JSON form.", "soft"))
    return Section("people", "People in the data", tuple(blocks))


def _affected(one: Affected, document: Document) -> Fold:
    unlike = [name for name in one.person if one.person.get(name) != one.twin.get(name)]
    changes = [
        f"{clipped(name, 40)} {clipped(value_text(one.person.get(name)), 40)} → "
        f"{clipped(value_text(one.twin.get(name)), 40)}"
        for name in unlike[:4]
    ]
    decided = " → ".join(clipped(value_text(decision), 40) for decision in one.decisions)
    parts = [f"Row {told(one.row)}", ", ".join(changes)]
    if decided:
        parts.append(f"decision {decided}")
    if one.gap is not None:
        parts.append(f"score gap {one.gap:#.3g}")
    blocks = pair_blocks(
        Pair((one.person, one.twin), one.decisions), document.domain.label if document.domain else None
    )
    if one.undo:
        blocks.append(Text(f"What would undo it: {told(one.undo)}"))
    return Fold(" · ".join(part for part in parts if part), tuple(blocks), kind="person")


def affected_groups(document: Document) -> Section | None:
    if not document.groups:
        return None
    columns = ("group", "covers, of everyone", "unfair inside, estimate", "holds, of all affected")
    rows = tuple(
        Row((told(group.text), percent(group.covers), _inside(group), percent(group.holds)))
        for group in document.groups
    )
    first = next((group.unfair_inside for group in document.groups if group.unfair_inside), None)
    note = "Found and measured on samples: these are estimates, not proofs."
    if first is not None:
        note += f" In brackets: the interval with {confidence(first)} confidence."
    table = Table(columns, rows, numbers=frozenset({1, 3}), shape="stack")
    return Section("groups", "Whom it affects most", (Text(note), table))


def _inside(group: Group) -> str | Meter:
    inside = group.unfair_inside
    if inside is None:
        return "–"
    more = f"({percent(inside.low, 'down')} to {percent(inside.high, 'up')})"
    return Meter(percent(inside.unfair), inside.unfair, more, inside.low, inside.high)


def score_gaps(document: Document) -> Section | None:
    found = document.score_gaps
    if found is None:
        return None
    total = sum(found.counts)
    edges = list(zip(found.edges, found.edges[1:], strict=False))
    rows = tuple(
        Row((f"{number(low)} to {number(high)}", f"{amount:,}"))
        for (low, high), amount in zip(edges, found.counts, strict=True)
    )
    most = max(range(len(edges)), key=lambda i: found.counts[i])
    words = (
        f"Histogram of {count(total, 'row')}: differences run from {number(found.edges[0])} to "
        f"{number(found.edges[-1])}; most rows, {found.counts[most]:,}, lie between {number(edges[most][0])} and "
        f"{number(edges[most][1])}."
    )
    chart = Chart(
        partial(charts.histogram, found=found, label="difference between twins' scores"),
        words,
        caption="How many rows (up) have twins whose scores differ by how much (across). A difference need not change "
        "the decision; it can, close to the border.",
        numbers=Table(("difference", "rows"), rows, numbers=frozenset({1})),
    )
    return Section("gaps", "How far twins' scores lie apart", (chart,))


# --- how good it is ---

MEASURES = {
    "accuracy": ("Accuracy", "decisions that are right"),
    "balanced_accuracy": ("Balanced accuracy", "the mean over the classes, however rare they are"),
    "auc": ("AUC", "how well the score ranks; 0.5 is chance"),
    "empirical_fairness": ("Twins agree", "rows whose decision no sensitive value changes; not a proof"),
}


def quality(document: Document) -> Section | None:
    metrics = document.metrics
    if metrics is None:
        return None
    rows = []
    for name, (label, meaning) in MEASURES.items():
        value = getattr(metrics, name)
        if value is not None:
            rows.append(Row((label, f"{value:.3f}" if name == "auc" else percent(value), meaning)))
    if not rows:
        return None
    measured = "" if metrics.rows is None else f"Measured on {count(metrics.rows, 'row')}."
    table = Table(("measure", "value", "meaning"), tuple(rows), measured, numbers=frozenset({1}), shape="stack")
    return Section("quality", "How good it is", (table,))


def by_group(document: Document) -> Section | None:
    if not document.group_metrics:
        return None
    columns = (
        listed(document.sensitive) or "group",
        "rows", "positive decisions", "accuracy", "true positives", "false positives",
    )  # fmt: skip
    rows, rates = [], []
    for group in document.group_metrics:
        chosen = group.selection_rate
        shown: str | Meter = "–"
        if chosen is not None:
            shown = Meter(percent(chosen), chosen)
            rates.append(chosen)
        others = (group.accuracy, group.true_positive_rate, group.false_positive_rate)
        rows.append(Row((named(group.value), f"{group.count:,}", shown, *(percent(rate) for rate in others))))
    text = "How the decisions fall out for each group of these rows. Twins who agree do not make these rates equal."
    if len(rates) > 1:
        text += f" The rates of positive decisions differ by up to {100 * (max(rates) - min(rates)):.1f} points."
    table = Table(columns, tuple(rows), numbers=frozenset({1, 3, 4, 5}), shape="stack")
    return Section("by-group", "By group", (Text(text), table))


# --- what else carries it, what repair cost, how it learnt ---


def proxies(document: Document) -> Section | None:
    if not document.proxies and not document.suggestions:
        return None
    blocks: list[Block] = []
    if document.proxies:
        names = listed(document.sensitive) or "the sensitive value"
        blocks.append(
            Text(
                f"How well other features tell {names}. The bar starts at what guessing gives and is full when the "
                "value can be read off. A feature that tells it can stand in for it."
            )
        )
        rows = []
        for proxy in document.proxies:
            rows.append(Row((named(proxy.feature), _tells(proxy), told(proxy.measure), told(proxy.note))))
        blocks.append(Table(("feature", "tells it", "measure", "note"), tuple(rows), shape="stack"))
    if document.suggestions:
        blocks.append(Heading("What could be done"))
        blocks += [Text(told(text)) for text in document.suggestions]
    return Section("proxies", "What else carries the sensitive value", tuple(blocks))


def _tells(proxy: Proxy) -> str | Meter:
    found = proxy.predicts_sensitive
    if found is None:
        return "–"
    above = (found - proxy.chance) / max(1 - proxy.chance, 1e-9)
    return Meter(f"{found:.3f}" if proxy.measure == "AUC" else percent(found), min(max(above, 0.0), 1.0))


def repaired(document: Document) -> Section | None:
    repair = document.repair
    if repair is None:
        return None
    rows = []
    before, after = repair.accuracy_before, repair.accuracy_after
    if before is not None or after is not None:
        change = points(before, after) if before is not None and after is not None else "–"
        rows.append(Row(("Accuracy", percent(before), percent(after), change)))
    blocks: list[Block] = []
    if rows:
        measured = "" if repair.rows is None else f"Measured on {count(repair.rows, 'row')}."
        table = Table(("measure", "before", "after", "change"), tuple(rows), measured, frozenset({1, 2, 3}), "stack")
        blocks.append(table)
    if repair.decisions_changed is not None:
        blocks.insert(0, Text(f"Repair changed {percent(repair.decisions_changed)} of the decisions."))
    if repair.note:
        blocks.append(Text(told(repair.note)))
    return Section("repair", "What repair changed", tuple(blocks)) if blocks else None


def learning(document: Document) -> Section | None:
    history = sorted(document.history, key=lambda point: point.epoch)
    measured = [name for name in ("accuracy", "fairness") if any(getattr(p, name) is not None for p in history)]
    if not measured:
        return None
    last, every = history[-1], math.ceil(len(history) / MOST_EPOCHS)
    shown = [point for i, point in enumerate(history) if i % every == 0 or point is last]
    rows = tuple(Row((f"{p.epoch:,}", percent(p.accuracy), percent(p.fairness), number(p.loss))) for p in shown)
    values = [f"{name} {percent(getattr(last, name))}" for name in measured if getattr(last, name) is not None]
    words = f"Lines over {count(len(history), 'epoch')}: at the end {' and '.join(values) or 'nothing was measured'}."
    caption = "Solid: accuracy. Dashed: share of rows whose decision no sensitive value changes."
    if len(measured) == 1:
        caption = {"accuracy": "Accuracy", "fairness": "Share of rows whose twins agree"}[
            measured[0]
        ] + ", as recorded."
    if every > 1:
        caption += f" One epoch in {every:,} is shown."
    numbers = Table(("epoch", "accuracy", "fairness", "loss"), rows, numbers=frozenset({0, 1, 2, 3}))
    chart = Chart(partial(charts.history_lines, history=shown), words, caption, numbers)
    return Section("history", "While it learnt", (chart,))
