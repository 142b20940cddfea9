"""The contents of a report as a model card in GitHub's Markdown. A name with stars, bars or tags in it stays a name."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from bornfair.report.blocks import Block, BlockGroup, Cell, Chart, Code, Contents, Listing, Meter, Table, Text
from bornfair.report.formatting import visible

TEXTS = {"heading": "### {}", "quote": "> {}", "warning": "> {}"}
ENTRIES = {
    "terms": "- **{name}** {text}",
    "points": "- **{name}** {text}",
    "tiles": "- **{name}:** {text}{more}",
    "key": "- {name}: **{text}**",
}


def markdown_card(contents: Contents) -> str:
    """The whole card; the same contents give the same bytes."""
    badge = [f"**{_text(contents.badge)}**"] if contents.badge else []
    parts = [f"# {_text(contents.title)}", *badge, f"**{_text(contents.headline)}**"]
    if contents.about != contents.title:
        parts.append(_text(contents.about))
    parts += _blocks(contents.lead)
    for section in contents.sections:
        parts += [f"## {_text(section.title)}", *_blocks(section.blocks)]
    parts += ["---", _text(contents.footer)]
    return "\n\n".join(parts) + "\n"


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [text for block in blocks for text in _block(block)]


def _block(block: Block) -> list[str]:
    match block:
        case Text(text, "command"):
            return [f"```sh\n{visible(text).replace('```', '` ` `')}\n```"]
        case Text(text, kind):
            return [TEXTS.get(kind, "{}").format(_text(text))]
        case Listing(kind, entries):
            lines = (
                ENTRIES[kind].format(name=_text(name), text=_cell(text), more=f" ({_text(more)})" if more else "")
                for name, text, more in entries
            )
            return ["\n".join(lines)]
        case BlockGroup(title, inner, "aside"):
            return [f"### {_text(title)}", *_blocks(inner)]
        case BlockGroup(title, _, "person"):  # a card is short: the page and the JSON form have the rest
            return [f"- {_text(title)}"]
        case BlockGroup(title, inner, _):
            # Inside a line of HTML nothing is Markdown: here the text is escaped as HTML wants it.
            return [f"<details><summary>{html.escape(visible(title))}</summary>", *_blocks(inner), "</details>"]
        case Chart(_, words, caption, repeats):
            return [_text(text) for text in ("" if repeats else words, caption) if text]
        case Table():
            return _table(block)


def _table(table: Table) -> list[str]:
    rule = ["---:" if i in table.numbers else "---" for i in range(len(table.columns))]
    rows = [
        [f"**{_cell(cell)}**" if row.mark and i == 0 else _cell(cell) for i, cell in enumerate(row.cells)]
        for row in table.rows
    ]
    lines = [[_text(name) for name in table.columns], rule, *rows]
    written = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
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
