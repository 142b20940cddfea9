"""The blocks of a report, in plain text, which HTML, Markdown and the terminal write in their own ways."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bornfair.report.formatting import MISSING


class Code(str):
    """A text to be read letter by letter: a digest, a formula, a command."""

    __slots__ = ()


class Quiet(str):
    """A value that goes without saying where there is little room."""

    __slots__ = ()


@dataclass(frozen=True)
class Meter:
    """A number in a table with a small bar beside it: `value` between 0 and 1, a whisker where there is an interval."""

    text: str
    value: float
    more: str = ""
    low: float | None = None
    high: float | None = None


Cell = str | Meter


@dataclass(frozen=True)
class Text:
    """A line or a paragraph; a command is something to type."""

    text: str
    kind: Literal["", "heading", "soft", "quote", "warning", "command"] = ""


class ListingEntry(NamedTuple):
    name: str
    text: str
    more: str = ""


@dataclass(frozen=True)
class Listing:
    """Names and what belongs to each.

    terms: what is meant by them. points: a sentence about each. tiles: the few numbers to take away, `more` says of
    what. key: what the parts of a chart are, `more` says how each is drawn.
    """

    kind: Literal["terms", "points", "tiles", "key"]
    entries: tuple[ListingEntry, ...]


@dataclass(frozen=True)
class Row:
    """The first cell names the row. `mark` says it differs (or is sensitive), `final` that it is the result."""

    cells: tuple[Cell, ...]
    mark: bool = False
    final: bool = False


@dataclass(frozen=True)
class Table:
    """`shape` says how it behaves on a phone: plain tables scroll inside themselves, others stack their cells."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    numbers: frozenset[int] = frozenset()
    shape: Literal["plain", "twins", "stack"] = "plain"


@dataclass(frozen=True)
class Chart:
    """`draw` makes the picture for a width in pixels; `words` say the same.

    `repeats` means that the words stand beside the picture anyway.
    """

    draw: Callable[[int], str]
    words: str
    caption: str = ""
    repeats: bool = False


@dataclass(frozen=True)
class BlockGroup:
    """Blocks that belong together: an aside is kept apart from what stands around it, the others are folded away for
    whoever wants them. On paper a fold is open, but not the twins of a person or the numbers of a chart."""

    title: str
    blocks: tuple[Block, ...]
    kind: Literal["aside", "fold", "person", "numbers"]


Block = Text | Listing | Table | Chart | BlockGroup


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Contents:
    """A whole report before it is written. `verdict` picks the colour of the badge; a comparison has none."""

    title: str
    about: str
    headline: str
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
    footer: str
    verdict: str = ""
    badge: str = ""


def filled_sections(parts: Iterable[tuple[str, str, Iterable[Block]]]) -> tuple[Section, ...]:
    """Names, titles and blocks of sections; one without blocks leaves no gap."""
    return tuple(Section(name, title, blocks) for name, title, made in parts if (blocks := tuple(made)))


def stacked(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], numbers: Iterable[int] = (), caption: str = ""
) -> Table:
    """A table of plain rows whose cells stack on a phone."""
    return Table(tuple(columns), tuple(Row(tuple(cells)) for cells in rows), caption, frozenset(numbers), "stack")


def filled_table(rows: Sequence[Mapping[str, Cell]], texts: Collection[str], always: Collection[str] = ()) -> Table:
    """A table of cells by column, without columns in which no row has anything. texts: the columns without numbers."""
    columns = [name for name in rows[0] if name in always or any(row[name] != MISSING for row in rows)]
    numbers = (i for i, name in enumerate(columns) if name not in texts)
    return stacked(columns, ([row[name] for name in columns] for row in rows), numbers)


def chart_numbers(columns: tuple[str, ...], rows: Iterable[Sequence[Cell]], numbers: Iterable[int]) -> BlockGroup:
    """What a chart shows, for whoever wants to read it off."""
    table = Table(columns, tuple(Row(tuple(cells)) for cells in rows), numbers=frozenset(numbers))
    return BlockGroup("The numbers", (table,), "numbers")
