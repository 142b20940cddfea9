"""What is a report made of? Sections of a few kinds of blocks, in plain text.

HTML and Markdown are two ways to write them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


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
    text: str
    kind: Literal["", "warning", "soft", "quote"] = ""


@dataclass(frozen=True)
class Heading:
    """A heading inside a section."""

    text: str


@dataclass(frozen=True)
class Terms:
    """Names and what they stand for."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Items:
    """A list: what each is about, and a sentence."""

    pairs: tuple[tuple[str, str], ...]


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
    """`draw` makes the picture for a width in pixels; `told` says the same in words, `numbers` in a table.

    `repeats` tells that the words stand beside the picture anyway.
    """

    draw: Callable[[int], str]
    told: str
    caption: str = ""
    numbers: Table | None = None
    repeats: bool = False


@dataclass(frozen=True)
class Commands:
    """What to type."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Tiles:
    """The few numbers to take away: label, value, what it means."""

    tiles: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Key:
    """What the parts of a chart are: how each is drawn, its name, its number."""

    parts: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Aside:
    """Something to be kept apart from what stands around it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Fold:
    """Details for whoever wants them. On paper they are open, but for the twins of single persons and the numbers of
    charts."""

    summary: str
    blocks: tuple[Block, ...]
    kind: Literal["", "person", "numbers"] = ""


Block = Text | Heading | Terms | Items | Table | Chart | Commands | Tiles | Key | Aside | Fold


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Story:
    """A whole report before it is written: `verdict` picks the badge, None where several models have their own."""

    title: str
    about: str
    headline: str
    verdict: str | None
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
    footer: str = ""
