"""What an experiment shows: tables and sentences for a person, one JSON document for a program.

A table is a list of columns, each a header and how a row's cell is written; rows that stand for several seeds are
groups of outcomes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Lines = list[tuple[str, ...]]
"""A table as text, headers first."""

Columns = Sequence[tuple[str, Callable[[Any], str]]]
Outcome = dict[str, Any]
"""What one run measured, by name; it can be written as JSON."""


class Table(NamedTuple):
    """Text in lines; columns from `numbers_from` on are numbers."""

    title: str
    lines: Lines
    numbers_from: int = 1


@dataclass(frozen=True)
class Printout:
    """What a command prints: the document, or the tables and then the sentences."""

    document: Mapping[str, Any]
    tables: Sequence[Table]
    sentences: Sequence[str] = ()


def of_rows(
    title: str, columns: Columns, rows: Sequence[Any], *, numbers_from: int, sentences: Sequence[str] = (),
    key: str = "rows",
) -> Printout:  # fmt: skip
    """A table that has a line for each outcome or dataclass; the document lists the same under `key`."""
    listed = [row if isinstance(row, dict) else row.to_json() for row in rows]
    return Printout({key: listed}, [Table(title, lines(columns, rows), numbers_from)], sentences)


def lines(columns: Columns, rows: Iterable[Any]) -> Lines:
    """The cells of every row below the headers."""
    return [tuple(header for header, _ in columns), *(tuple(cell(row) for _, cell in columns) for row in rows)]


def groups(outcomes: Sequence[Outcome], **keys: Iterable[Any]) -> list[list[Outcome]]:
    """The outcomes that agree in all keys (options of their runs too), in the order of the keys' values."""
    found = [list(outcomes)]
    for key, values in keys.items():
        order = list(values)
        found = [[o for o in group if (o.get("options", {}) | o)[key] == value] for group in found for value in order]
    return [group for group in found if group]


class Sample(NamedTuple):
    """A share over several seeds, in percent."""

    mean: float
    deviation: float

    @staticmethod
    def of(group: Sequence[Outcome], what: str) -> Sample:
        values = [100 * o[what] for o in group]
        return Sample(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


def percent(group: Sequence[Outcome], what: str) -> str:
    return f"{Sample.of(group, what).mean:.2f}"


def proven(group: Sequence[Outcome]) -> int:
    """How many were verified, and their bundles accepted where the checker was asked."""
    return sum(o["verdict"] == "verified" and o.get("bundle_accepted", True) for o in group)


def how_many_proven(group: Sequence[Outcome]) -> str:
    return f"{proven(group)} of {len(group)}"
