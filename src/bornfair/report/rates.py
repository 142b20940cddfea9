"""How often does each group get what people hope for? The tables by group, and what they say in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import Block, BlockGroup, Cell, Chart, Meter, Row, Table, Text
from bornfair.report.facts import Document, Favourable, GroupMetrics, Reliability
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

FOUR_FIFTHS = 0.8


def rates_by_group(document: Document) -> Iterator[Block]:
    if not document.group_metrics:
        return
    yield Text("What is decided for each group of these rows. The rates can differ even where all twins agree.")
    rules = document.favourable
    if rules is not None:
        yield Text(f"{favourable_sentence(rules)} {_small_groups(rules)}")
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


def _small_groups(rules: Favourable) -> str:
    return (
        f"Groups of fewer than {rules.least_people:,} people, or less than {percent(rules.least_share)} of the rows, "
        "are shown, but nothing is concluded from them. In brackets: the exact interval with "
        f"{round_percent(rules.confidence)} confidence."
    )


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
    always = (name, "rows", "favourable decisions")
    columns = [column for column in rows[0] if column in always or any(row[column] != MISSING for row in rows)]
    cells = tuple(Row(tuple(row[column] for column in columns)) for row in rows)
    numbers = frozenset(i for i, column in enumerate(columns) if column not in (name, "favourable decisions"))
    return Table(tuple(columns), cells, numbers=numbers, shape="stack")


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
    yield BlockGroup("The numbers", (_numbers(found),), "numbers")


def _numbers(found: Reliability) -> Table:
    lines = tuple(
        Row((percent(one.predicted), percent(one.happened), interval(one.low, one.high), f"{one.rows:,}"))
        for one in found.bins
    )
    return Table(("says", "came true", "interval", "rows"), lines, numbers=frozenset({0, 1, 2, 3}))
