"""The sections of a report about people: twins side by side, the rows of a table, groups, and probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bornfair.quantification.records import Affected
from bornfair.report import charts
from bornfair.report.blocks import (
    Block,
    BlockGroup,
    Cell,
    Chart,
    Meter,
    Row,
    Table,
    Text,
    chart_numbers,
    filled_table,
    stacked,
)
from bornfair.report.facts import Document, Favourable, GroupMetrics, Pair
from bornfair.report.formatting import (
    MISSING,
    clipped,
    count,
    feature_name,
    interval,
    listed,
    percent,
    readable,
    round_percent,
    value_text,
)
from bornfair.report.verdict_text import people_sentence, sensitive_names

MOST_ALIKE = 8  # features twins share that are shown at once
MOST_PEOPLE = 12  # of the most affected, shown one by one
MOST_CHANGES = 4  # features named in one line
LONGEST_CHANGE = 40  # letters of a name or value in it
FOUR_FIFTHS = 0.8
ORDINALS = {0: "first person", 1: "second person"}

# --- twins side by side: what differs first, what they share after it ---


def pairs_of_twins(document: Document) -> Iterator[Block]:
    """Every pair the document holds, those of the verdict first."""
    pairs, found = document.pairs, document.verdict
    for position, pair in enumerate(pairs, start=1):
        if len(pairs) > 1:
            yield Text(f"Pair {position}", "heading")
        text = "They are the same person but for the marked features"
        if len({value_text(decided) for decided in pair.decisions}) > 1:
            text += ", and the model decides differently"
        text += "."
        if position == 1 and found.answer == "falsified" and found.twins:
            text += " Both were run through the model again, from the values below, before this was written."
        yield Text(text)
        yield from side_by_side(pair, document.label)


def side_by_side(pair: Pair, label: str | None) -> Iterator[Block]:
    """One pair; what they share is folded away when it is long. `label` names what is decided."""
    names, unlike = dict.fromkeys(name for person in pair.people for name in person), pair.unlike
    alike = [name for name in names if name not in unlike]
    folded = len(alike) > MOST_ALIKE
    rows = [
        _compared(feature_name(name), [_value(person, name) for person in pair.people], name in unlike)
        for name in [*unlike, *([] if folded else alike)]
    ]
    if pair.scores:
        rows.append(_compared("score", [f"{score:.6g}" for score in pair.scores]))
    if pair.decisions:
        name = "decision" if label is None else f"decision: {readable(label)}"
        rows.append(_compared(name, [readable(value_text(decided)) for decided in pair.decisions], final=True))
    columns = ("feature", *(ORDINALS.get(i, f"person {i + 1}") for i in range(len(pair.people))), "compared")
    yield Table(columns, tuple(rows), "What differs comes first and is marked ≠.", shape="twins")
    if folded:
        table = stacked(("feature", "both"), ((feature_name(name), _value(pair.people[0], name)) for name in alike))
        yield BlockGroup(f"The {count(len(alike), 'feature')} they share", (table,), "fold")
    if pair.note:
        yield Text(readable(pair.note), "soft")


def _value(person: Mapping[str, Any], name: str) -> str:
    return readable(value_text(person[name])) if name in person else MISSING


def _compared(name: str, values: list[str], differs: bool | None = None, *, final: bool = False) -> Row:
    """What each of them has; they differ if the texts do, where nothing else is said."""
    differs = len(set(values)) > 1 if differs is None else differs
    return Row((name, *values, "≠ differs" if differs else "= same"), mark=differs, final=final)


# --- the people of a data set ---


def people_of_the_data(document: Document) -> Iterator[Block]:
    people = document.people
    if people is None:
        return
    names, sentence = sensitive_names(document, "or"), people_sentence(document)
    text = f"{sentence[0].upper()}{sentence[1:]}."
    if people.values is not None:
        text += f" Each row was looked at with {count(people.values, 'value')} of {names}, not with all there are."
    yield Text(text)
    if not people.unfair and document.verdict.answer != "verified":
        yield Text("This speaks of these rows only. It is no proof for anyone else.", "soft")
    if document.gaps is not None:
        yield from (Text(readable(sentence), "soft") for sentence in document.gaps.sentences)
    if people.most_affected:
        yield Text("Most affected", "heading")
        for one in people.most_affected[:MOST_PEOPLE]:
            yield _affected(one, document.label)
    if (more := len(people.most_affected) - MOST_PEOPLE) > 0:
        yield Text(f"And {more:,} more, in the report's JSON form.", "soft")


def _affected(one: Affected, label: str | None) -> BlockGroup:
    pair = Pair((one.person, one.twin), one.decisions)
    clip = partial(clipped, most=LONGEST_CHANGE)
    arrow = lambda values: " → ".join(clip(value_text(value)) for value in values)  # noqa: E731
    changes = [f"{clip(name)} {arrow(person.get(name) for person in pair.people)}" for name in pair.unlike]
    parts = [
        f"Row {readable(one.row)}",
        ", ".join(changes[:MOST_CHANGES]),
        f"decision {arrow(one.decisions)}" if one.decisions else "",
        "" if one.gap is None else f"score gap {one.gap:#.3g}",
    ]
    undo = [Text(f"What would undo it: {readable(one.undo_text)}")] if one.undo_text else []
    return BlockGroup(" · ".join(part for part in parts if part), (*side_by_side(pair, label), *undo), "person")


# --- how often each group gets what people hope for ---


def rates_by_group(document: Document) -> Iterator[Block]:
    if not document.group_metrics:
        return
    yield Text("What is decided for each group of these rows. The rates can differ even where all twins agree.")
    rules = document.favourable
    if rules is not None:
        yield Text(
            f"{favourable_sentence(rules)} Groups of fewer than {rules.least_people:,} people, or less than "
            f"{percent(rules.least_share)} of the rows, are shown, but nothing is concluded from them. In brackets: "
            f"the exact interval with {round_percent(rules.confidence)} confidence."
        )
    for features, groups in by_features(document.group_metrics).items():
        if features:
            yield Text(f"By {listed(features)}", "heading")
        if headline := impact_sentence(groups, rules):
            yield Text(headline)
        yield _rates(features or document.sensitive, groups, rules)


def by_features(groups: Iterable[GroupMetrics]) -> dict[tuple[str, ...], list[GroupMetrics]]:
    """The lines of each table."""
    found: dict[tuple[str, ...], list[GroupMetrics]] = {}
    for group in groups:
        found.setdefault(tuple(group.features), []).append(group)
    return found


def favourable_sentence(rules: Favourable) -> str:
    """
    >>> favourable_sentence(Favourable("good"))
    "'good' is taken as the favourable decision; --favourable names another."
    """
    name = f"'{readable(value_text(rules.decision))}'"
    more = "; --favourable names another." if rules.inferred else ", as was asked."
    return f"{name} is taken as the favourable decision{more}"


def impact_sentence(groups: Sequence[GroupMetrics], rules: Favourable | None) -> str:
    """The group that is chosen least often beside the one that is chosen most, of those large enough."""
    large = [(g.selection_rate, g) for g in groups if not g.small and not g.unknown and g.selection_rate is not None]
    if len(large) < 2:
        return "" if rules is None else "There are not two groups that are large enough to be compared."
    if len({rate for rate, _ in large}) == 1:
        return f"All groups that are large enough get the favourable decision equally often: {percent(large[0][0])}."
    (low, worst), (high, best) = (pick(large, key=lambda found: found[0]) for pick in (min, max))
    rates = (
        f"{percent(low)} of {clipped(worst.value)} and {percent(high)} of {clipped(best.value)} get the favourable "
        f"decision, {100 * (high - low):.1f} points apart"
    )
    if worst.impact_ratio is None:
        return f"{rates}."
    under = "below" if worst.impact_ratio < FOUR_FIFTHS else "not below"
    return f"{rates}: an impact ratio of {worst.impact_ratio:.2f}, {under} the four fifths of the US rule of thumb."


def _rates(features: Sequence[str], groups: Sequence[GroupMetrics], rules: Favourable | None) -> Table:
    """A column stays out where no group has anything in it."""
    reference = max((g.selection_rate or 0.0 for g in groups if not g.small and not g.unknown), default=None)
    name, rows = listed(features) or "group", []
    for group in groups:
        rate, ratio = group.selection_rate, "" if group.impact_ratio is None else f"{group.impact_ratio:.2f}"
        note = ""
        if group.small:
            note = "few people"
        elif rules is not None and not group.unknown and rate is not None and rate == reference:
            note = "compared with"
        elif group.impact_ratio is not None and group.impact_ratio < FOUR_FIFTHS and not group.unknown:
            note = "below four fifths"
        meter: Cell = MISSING
        if rate is not None:
            meter = Meter(percent(rate), rate, between(group.low, group.high), group.low, group.high)
        rows.append({
            name: feature_name(group.value),
            "rows": f"{group.count:,}",
            "favourable decisions": meter,
            "impact ratio": "\n".join(filter(None, (ratio, note))) or MISSING,
            "accuracy": percent(group.accuracy),
            "true positives": percent(group.true_positive_rate),
            "false positives": percent(group.false_positive_rate),
        })  # fmt: skip
    columns = (name, "favourable decisions")
    return filled_table(rows, texts=columns, always=(*columns, "rows"))


def between(low: float | None, high: float | None) -> str:
    """The interval of a rate, rounded outwards to what fits in a table.

    >>> between(0.8601, 0.99903).replace("\\xa0", " ")
    '(86.0 to 100.0 %)'
    """
    if low is None or high is None:
        return ""
    return f"({math.floor(1000 * low) / 10:.1f} to {math.ceil(1000 * high) / 10:.1f}\u00a0%)"


def lowest_ratio(groups: Iterable[GroupMetrics]) -> float | None:
    """The lowest impact ratio of all groups that are large enough, by one feature or by several."""
    ratios = (group.impact_ratio for group in groups if not group.small and not group.unknown)
    return min((ratio for ratio in ratios if ratio is not None), default=None)


# --- probabilities against what happened ---


def reliability(document: Document) -> Iterator[Block]:
    """Nothing where no probabilities, or no truth, is known."""
    found = document.reliability
    if found is None or not found.bins:
        return
    whose = f"the probability of {readable(found.of)}" if found.of else "the probability of the likeliest class"
    rows = count(sum(one.rows for one in found.bins), "row")
    outside = sum(not one.low <= one.predicted <= one.high for one in found.bins)
    words = (
        f"On {rows}, {whose} and how often it came true are {100 * found.error:.1f} points apart on the mean. In "
        f"{outside} of {count(len(found.bins), 'group')} of people with similar probabilities the difference is more "
        f"than chance explains ({round_percent(found.confidence)} intervals)."
    )
    yield Text(words)
    yield Chart(
        partial(charts.reliability, found=found),
        words,
        "What the model says (across) and how often it came true (up), with intervals. On the dashed line "
        "probabilities mean what they say; below it they promise too much.",
        repeats=True,
    )
    lines = [
        (percent(one.predicted), percent(one.happened), interval(one.low, one.high), f"{one.rows:,}")
        for one in found.bins
    ]
    yield chart_numbers(("says", "came true", "interval", "rows"), lines, range(4))
