"""Who shows that the model is not fair? Twins side by side: what differs first, what they share after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bornfair.report.blocks import Block, BlockGroup, Row, Table, Text
from bornfair.report.facts import Document, Pair
from bornfair.report.formatting import MISSING, count, feature_name, readable, value_text

MOST_ALIKE = 8  # features twins share that are shown at once
ORDINALS = ("first person", "second person")


def pairs_of_twins(document: Document) -> Iterator[Block]:
    """Every pair the document holds, those of the verdict first."""
    pairs, found = document.pairs, document.verdict
    for position, pair in enumerate(pairs, start=1):
        if len(pairs) > 1:
            yield Text(f"Pair {position}", "heading")
        text = "They are the same person but for the marked features"
        if len({value_text(decided) for decided in pair.decisions}) > 1:
            text += ", and the model decides differently"
        text += "."
        if position == 1 and found.answer == "falsified" and found.twins:
            text += " Both were run through the model again, from the values below, before this was written."
        yield Text(text)
        yield from side_by_side(pair, document.label)


def side_by_side(pair: Pair, label: str | None) -> Iterator[Block]:
    """One pair; what they share is folded away when it is long. `label` names what is decided."""
    names, unlike = dict.fromkeys(name for person in pair.people for name in person), pair.unlike
    alike = [name for name in names if name not in unlike]
    folded = len(alike) > MOST_ALIKE
    rows = [
        _compared(feature_name(name), [_value(person, name) for person in pair.people], name in unlike)
        for name in [*unlike, *([] if folded else alike)]
    ]
    if pair.scores:
        rows.append(_compared("score", [f"{score:.6g}" for score in pair.scores]))
    if pair.decisions:
        name = "decision" if label is None else f"decision: {readable(label)}"
        rows.append(_compared(name, [readable(value_text(decided)) for decided in pair.decisions], final=True))
    columns = ("feature", *(_ordinal(i) for i in range(len(pair.people))), "compared")
    yield Table(columns, tuple(rows), "What differs comes first and is marked ≠.", shape="twins")
    if folded:
        shared = tuple(Row((feature_name(name), _value(pair.people[0], name))) for name in alike)
        table = Table(("feature", "both"), shared, shape="stack")
        yield BlockGroup(f"The {count(len(alike), 'feature')} they share", (table,), "fold")
    if pair.note:
        yield Text(readable(pair.note), "soft")


def _value(person: Mapping[str, Any], name: str) -> str:
    return readable(value_text(person[name])) if name in person else MISSING


def _ordinal(position: int) -> str:
    return ORDINALS[position] if position < len(ORDINALS) else f"person {position + 1}"


def _compared(name: str, values: list[str], differs: bool | None = None, *, final: bool = False) -> Row:
    """What each of them has; they differ if the texts do, where nothing else is said."""
    differs = len(set(values)) > 1 if differs is None else differs
    return Row((name, *values, "≠ differs" if differs else "= same"), mark=differs, final=final)
