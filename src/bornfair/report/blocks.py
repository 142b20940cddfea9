"""What is a report made of? Sections of a few kinds of blocks, in plain text.

HTML and Markdown are two ways to write them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple


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
