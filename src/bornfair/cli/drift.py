"""bornfair drift: does the certificate speak of these people?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bornfair.cli.options import Bundle, Json, Seed, choices, rows_of
from bornfair.cli.output import print_json, print_table, tell
from bornfair.people.reading import TableReading


@choices("table", reading=TableReading)
def drift(
    bundle: Bundle,
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet table of new people.")],
    seed: Seed = 0,
    json: Json = False,
    *,
    reading: TableReading,
) -> None:
    """Which rows of a new table are outside the domain that the certificate is about, why, and what follows?

    Status 0: all rows are inside. Status 1: some are outside.
    """
    from bornfair.questions.drift import drift as ask

    found = ask(bundle, rows_of(table, reading))
    if json:
        print_json({"bundle": str(bundle), "table": str(table), **found.to_json()})
    else:
        if found.problems:
            lines = [
                (one.column, one.problem, one.allowed, ", ".join(map(str, one.examples)), str(one.first_row),
                 f"{one.rows:,}") for one in found.problems
            ]  # fmt: skip
            headers = ["column", "what is outside", "the domain", "such as", "first row", "rows"]
            print_table(f"{found.outside:,} of {found.rows:,} rows are outside", headers, lines, numbers_from=4)
        for name, count in found.filled.items():
            tell(f"Gaps of '{name}' in {count:,} rows do not matter: the model fills them in, or tries every value.")
        if found.absent:
            tell(f"Sensitive columns that the table lacks: {', '.join(found.absent)}.")
        if found.extra:
            tell(f"Columns that the model does not read: {', '.join(found.extra)}.")
        tell(*found.follows)
    raise typer.Exit(0 if found else 1)
