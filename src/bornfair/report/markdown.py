"""A story as a model card in GitHub's Markdown. A name with stars, bars or tags in it stays a name."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from bornfair.report.blocks import (
    Aside,
    Block,
    Cell,
    Chart,
    Code,
    Commands,
    Fold,
    Heading,
    Items,
    Key,
    Meter,
    Section,
    Story,
    Table,
    Terms,
    Text,
    Tiles,
)
from bornfair.report.words import BADGES, visible


def markdown_card(story: Story) -> str:
    """The whole card; the same story gives the same bytes."""
    badge = [] if story.verdict is None else [f"**{_text(BADGES[story.verdict])}**"]
    parts = [f"# {_text(story.title)}", *badge, f"**{_text(story.headline)}**"]
    if story.about != story.title:
        parts.append(_text(story.about))
    parts += _blocks(story.lead)
    for section in story.sections:
        parts += _section(section)
    parts += ["---", _text(story.footer)]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    return [f"## {_text(section.title)}", *_blocks(section.blocks)]


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [text for block in blocks for text in _block(block)]


def _block(block: Block) -> list[str]:
    match block:
        case Text(text, kind):
            return [f"> {_text(text)}" if kind in ("quote", "warning") else _text(text)]
        case Heading(text):
            return [f"### {_text(text)}"]
        case Terms(pairs) | Items(pairs):
            return ["\n".join(f"- **{_text(name)}** {_cell(text)}" for name, text in pairs)]
        case Commands(lines):
            return ["\n".join(["```sh", *(visible(line).replace("```", "` ` `") for line in lines), "```"])]
        case Tiles(tiles):
            told_as = [f"{value} ({meaning})" if meaning else value for _, value, meaning in tiles]
            named = zip((label for label, _, _ in tiles), told_as, strict=True)
            return ["\n".join(f"- **{_text(label)}:** {_text(value)}" for label, value in named)]
        case Key(parts):
            return ["\n".join(f"- {_text(name)}: **{_text(value)}**" for _, name, value in parts)]
        case Aside(title, inner):
            return [f"### {_text(title)}", *_blocks(inner)]
        case Fold(summary, _, "person"):  # a card is short: the page and the JSON form have the rest
            return [f"- {_text(summary)}"]
        case Fold(summary, inner):
            # Inside a line of HTML nothing is Markdown: here the text is escaped as HTML wants it.
            return [f"<details><summary>{html.escape(visible(summary))}</summary>", *_blocks(inner), "</details>"]
        case Chart(_, told, caption, numbers, repeats):
            shown = [_text(text) for text in (caption if repeats else told, "" if repeats else caption) if text]
            return shown if numbers is None else shown + _block(Fold("The numbers", (numbers,)))
        case Table():
            return _table(block)


def _table(table: Table) -> list[str]:
    line = lambda cells: f"| {' | '.join(cells)} |"  # noqa: E731
    rule = ["---:" if i in table.numbers else "---" for i in range(len(table.columns))]
    rows = [
        line([f"**{_cell(cell)}**" if row.mark and i == 0 else _cell(cell) for i, cell in enumerate(row.cells)])
        for row in table.rows
    ]
    written = "\n".join([line([_text(name) for name in table.columns]), line(rule), *rows])
    return ([_text(table.caption)] if table.caption else []) + [written]


def _cell(cell: Cell) -> str:
    if isinstance(cell, Meter):
        return _text(f"{cell.text} {cell.more}")
    if isinstance(cell, Code) and re.fullmatch(r"[\w.:-]+", cell):
        return f"`{cell}`"
    return " ".join(_text(line) for line in cell.split("\n"))


_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&#])")
_AT_THE_START = re.compile(r"^([-+=!:]|\d+(?=[.)](?:\s|$)))")


def _text(text: str) -> str:
    """
    >>> print(_text("a|b <i> *c* [d](http://e) f_g"), _text("1. one"), _text("- two"), _text("0.5"))
    a\\|b \\<i\\> \\*c\\* \\[d\\](http\\://e) f\\_g 1\\. one \\- two 0.5
    """
    plain = visible(text).replace("\u00a0", " ").strip()
    escaped = _SPECIAL.sub(r"\\\1", plain).replace("://", r"\://").replace("www.", r"www\.")
    # At the start of a line or an item these would begin a list, a rule or a heading.
    return _AT_THE_START.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", escaped)
