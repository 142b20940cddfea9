"""The section of a report that sets probabilities against what happened: a picture, its words and its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bornfair.report import charts
from bornfair.report.blocks import Block, Chart, Part, Row, Table, Text
from bornfair.report.facts import Document, Reliability
from bornfair.report.formatting import count, interval, percent, readable, round_percent


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
    yield Part("The numbers", (_numbers(found),), "numbers")


def _numbers(found: Reliability) -> Table:
    lines = tuple(
        Row((percent(one.predicted), percent(one.happened), interval(one.low, one.high), f"{one.rows:,}"))
        for one in found.bins
    )
    return Table(("says", "came true", "interval", "rows"), lines, numbers=frozenset({0, 1, 2, 3}))
