"""bornfair inspect: what is in a table, what to watch out for, and how to train on it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from bornfair.cli.options import (
    Categorical,
    Dataset,
    Drop,
    Json,
    Keep,
    Seed,
    Sensitive,
    TableFile,
    Target,
    choices,
    table_of,
    without,
)
from bornfair.cli.output import print_json, print_table, tell
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.people.column_kinds import Column
    from bornfair.questions.inspection import Inspection

WIDTH = 96  # of the sentences on a terminal
MOST_TEXT = 44  # of the categories of a column


@choices("categorical", reading=TableReading)
def inspect(
    table: TableFile = None,
    target: Target = None,
    sensitive: Sensitive = None,
    dataset: Dataset = None,
    drop: Drop = None,
    keep: Keep = None,
    categorical: Categorical = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: TableReading,
) -> None:
    """What is in a table? Kinds of columns, identifiers, texts, sentinels, leaks, proxies, and how to train on it.

    Status 0, whatever is found. Values of names, free text and identifiers are not shown.
    """
    from bornfair.questions.inspection import inspect as look

    people, target = table_of(table, dataset, target, reading, seed)
    found = look(
        without(people, drop), target=target, sensitive_features=sensitive or [], keep=keep or [],
        categorical=categorical or [], seed=seed,
    )  # fmt: skip
    said = _said(vars(reading) | {"drop": drop, "keep": keep, "categorical": categorical})
    command = found.command(str(table) if table is not None else f"--dataset={dataset}", said)
    if json:
        print_json({"table": None if table is None else str(table), **found.to_json(), "command": command})
    else:
        _print(found, command)


def _said(options: dict[str, Any]) -> list[str]:
    """Options as they were typed, for the command that trains."""
    return [
        word for name, value in options.items() if value
        for one in ([value] if isinstance(value, str) else value) for word in (f"--{name}", one)
    ]  # fmt: skip


def _print(found: Inspection, command: str | None) -> None:
    rows = [_line(column, found) for column in found.columns]
    print_table(f"{found.rows:,} rows", ["column", "kind", "from … to, or most frequent", "values", "gaps"], rows,
                numbers_from=3)  # fmt: skip
    if not found.findings:
        tell("Nothing to watch out for was found.")
    signs = {"refused": "✗", "important": "!", "note": "·"}
    for finding in found.findings:
        first, *more = textwrap.wrap(finding.text, WIDTH - 2, break_on_hyphens=False, break_long_words=False)
        tell(f"{signs[finding.weight]} {first}", *(f"  {line}" for line in more))
    tell("")
    if any(finding.weight == "refused" for finding in found.findings):
        tell("✗ is refused by train unless you say otherwise.", "")
    if found.beyond_options:
        tell("No option helps with all of it: change the table, or name other columns, and look again.")
    elif command is None:
        tell("Name --target and --sensitive to see leaks and proxies too, and the command to train with.")
    else:
        tell("To train:", command)


def _line(column: Column, found: Inspection) -> tuple[str, ...]:
    role = "target" if column.name == found.target else "sensitive" if column.name in found.sensitive else ""
    kind = f"{column.kind} ({column.what})" if column.what and column.kind != "text" else column.kind
    name = f"{column.name} ({role})" if role else column.name
    return name, kind, _range(column), f"{column.values:,}", f"{column.gaps:,}" if column.gaps else ""


def _range(column: Column) -> str:
    if column.low is not None:
        ends = (f"{end:.6g}" if isinstance(end, float) else str(end) for end in (column.low, column.high))
        return " … ".join(ends) if column.low != column.high else next(ends)
    text = ", ".join(map(str, column.common))
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT - 1]}…"
    return text + (", …" if column.values > len(column.common) and text and not text.endswith("…") else "")
