"""Who shows that the model is not fair? Twins side by side: what differs first, what they share after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bornfair.report.blocks import Block, Fold, Heading, Row, Section, Table, Text
from bornfair.report.document import Document, Pair, value_text
from bornfair.report.words import count, named, told

MOST_ALIKE = 8  # features twins share that are shown at once
ORDINALS = ("first person", "second person")


def twins_section(document: Document) -> Section | None:
    pairs = document.pairs
    if not pairs:
        return None
    replayed = (
        " Both were run through the model again, from the values below, before this was written."
        if document.verdict.verdict == "falsified" and document.verdict.twins
        else ""
    )
    blocks: list[Block] = []
    for position, pair in enumerate(pairs):
        words = "They are the same person but for the marked features, and the model decides differently."
        if not pair.decisions or len({value_text(decided) for decided in pair.decisions}) == 1:
            words = "They are the same person but for the marked features."
        if len(pairs) > 1:
            blocks.append(Heading(f"Pair {position + 1}"))
        blocks.append(Text(words + (replayed if position == 0 else "")))
        blocks += pair_blocks(pair, document.domain.label if document.domain else None)
    title = "The two people" if len(pairs) == 1 else "People who show it"
    return Section("twins", title, tuple(blocks))


def pair_blocks(pair: Pair, label: str | None) -> list[Block]:
    """Side by side, what differs first; what they share is folded away when it is long."""
    first = pair.people[0]
    names = list(dict.fromkeys(name for person in pair.people for name in person))
    unlike = [name for name in names if any(_differ(person, first, name) for person in pair.people)]
    alike = [name for name in names if name not in unlike]
    folded = len(alike) > MOST_ALIKE
    rows = [_twin_row(name, pair.people, mark=True) for name in unlike]
    if not folded:
        rows += [_twin_row(name, pair.people, mark=False) for name in alike]
    if pair.scores:
        rows.append(_compared("score", [f"{score:.6g}" for score in pair.scores]))
    if pair.decisions:
        name = "decision" if label is None else f"decision: {told(label)}"
        rows.append(_compared(name, [told(value_text(decided)) for decided in pair.decisions], final=True))
    columns = ("feature", *(_ordinal(i) for i in range(len(pair.people))), "compared")
    table = Table(columns, tuple(rows), "What differs comes first and is marked ≠.", shape="twins")
    blocks: list[Block] = [table]
    if folded:
        shared = tuple(Row((named(name), told(value_text(first.get(name))))) for name in alike)
        blocks.append(
            Fold(f"The {count(len(alike), 'feature')} they share", (Table(("feature", "both"), shared, shape="stack"),))
        )
    if pair.note:
        blocks.append(Text(told(pair.note), "soft"))
    return blocks


def _differ(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return one.get(name) != other.get(name)


def _ordinal(position: int) -> str:
    return ORDINALS[position] if position < len(ORDINALS) else f"person {position + 1}"


def _twin_row(name: str, people: Iterable[Mapping[str, Any]], *, mark: bool) -> Row:
    values = [told(value_text(person[name])) if name in person else "–" for person in people]
    return Row((named(name), *values, "≠ differs" if mark else "= same"), mark=mark)


def _compared(name: str, values: list[str], *, final: bool = False) -> Row:
    differs = len(set(values)) > 1
    return Row((name, *values, "≠ differs" if differs else "= same"), mark=differs, final=final)
