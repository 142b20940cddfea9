"""The contents of a report as text on a terminal: the sections that are asked for, without their pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bornfair.cli.output import print_table, say, tell
from bornfair.report.blocks import Block, BlockGroup, Cell, Chart, Contents, Listing, Meter, Table, Text


def print_contents(contents: Contents, sections: Collection[str], name: str = "") -> None:
    """Print the headline, the lead and these sections. Warnings of the lead go to stderr; sections repeat them."""
    tell(f"{name}: {contents.headline}" if name else contents.headline, "")
    for block in contents.lead:
        match block:
            case Text(text, "warning"):
                say(f"bornfair: warning: {text}")
            case _:
                _print(block)
    for section in contents.sections:
        if section.name in sections:
            tell(f"== {section.title} ==")
            _print_all(section.blocks)


def _print_all(blocks: Iterable[Block]) -> None:
    for block in blocks:
        _print(block)


def _print(block: Block) -> None:
    match block:
        case Text(_, "warning"):
            return
        case Text(text, kind):
            tell(text, *([] if kind == "heading" else [""]))
        case Listing(kind, entries):
            more = [f" ({entry.more})" if kind == "tiles" and entry.more else "" for entry in entries]
            tell(*(f"{one.name}: {_cell(one.text)}{also}" for one, also in zip(entries, more, strict=True)), "")
        case Table(columns, rows, caption, numbers):
            cells = [tuple(map(_cell, row.cells)) for row in rows]
            last = [i for i in range(len(columns)) if i not in numbers]
            print_table(caption, columns, cells, numbers_from=max(last, default=-1) + 1)
        case BlockGroup(title, inner, "aside"):
            tell(title)
            _print_all(inner)
        case BlockGroup(title, _, "person"):
            tell(f"  {title}")
        case Chart(_, words, _, repeats) if not repeats:
            tell(words, "")


def _cell(cell: Cell) -> str:
    return f"{cell.text} {cell.more}".strip() if isinstance(cell, Meter) else cell.replace("\n", ", ")
