"""Twins as plain text, side by side: for logs, test reports and messages of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bornfair.report.formatting import MISSING, clipped, value_text


def twins_text(
    twins: Sequence[Mapping[str, Any]], decisions: Sequence[Any] | None = None, *, decided: str = "decision"
) -> str:
    """People side by side, what differs first and marked.

    >>> print(twins_text([{"age": 30, "sex": "female"}, {"age": 30, "sex": "male"}], ["no", "yes"]))
    > sex       female  male
      age       30      30
    > decision  no      yes
    """
    names = list(dict.fromkeys(name for person in twins for name in person))
    rows = [(name, *(value_text(person[name]) if name in person else MISSING for person in twins)) for name in names]
    unlike = [row for row in rows if len(set(row[1:])) > 1]
    marked = [(">", row) for row in unlike] + [(" ", row) for row in rows if row not in unlike]
    if decisions:
        marked.append((">", (decided, *map(value_text, decisions))))
    cells = [[f"{mark} {clipped(row[0])}", *map(clipped, row[1:])] for mark, row in marked]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )
