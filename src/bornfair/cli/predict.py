"""bornfair predict: decisions for the rows of a table."""

from __future__ import annotations

import csv
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.options import Bundle, Json, Seed, Threshold, choices, rows_of
from bornfair.cli.output import print_json, print_text, printable, say, tell
from bornfair.errors import InputError
from bornfair.people.reading import Reading

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.people.domain import Domain

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@choices(Reading, after="table")
def predict(
    bundle: Bundle,
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet table; a fair model needs no sensitive columns.")],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write classes as they are, also those a spreadsheet would take for formulas.")
    ] = False,
    threshold: Threshold = None,
    identifiers: Annotated[
        list[str] | None,
        typer.Option("--id", help="A column of the table to write first, to know the rows by; repeat for several."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    **reading: Any,
) -> None:
    """Predict the class of each row, with the probability of every class.

    A cell that a spreadsheet would take for a formula is written behind an apostrophe, and this is said.
    """
    from bornfair.files import write_atomically
    from bornfair.models.model import Model
    from bornfair.models.network import decisions
    from bornfair.proof.bundle import load_bundle

    model = load_bundle(bundle)
    people = rows_of(table, reading)
    assert people is not None
    known = _known_by(people, identifiers or [])
    if threshold:
        model = model.at(threshold, people)
    scores = model.scores(people)
    if note := _unseen(model.domain, people):
        say(f"bornfair: note: {note}")
    classes = model.classes.tolist()
    decided = model.classes[decisions(scores)].tolist()
    shares = model.probabilities(scores) if isinstance(model, Model) else model.predict_proba(people)
    written = (lambda text: text) if raw else no_formula
    if out is not None:
        write_atomically(out, _csv(known, decided, shares, classes, written))
    if json:
        print_json({
            "bundle": str(bundle), "rows": len(decided), "classes": classes, **({"ids": known} if known else {}),
            "thresholds": model.thresholds,
            "predictions": decided, "probabilities": shares.tolist(), "out": None if out is None else str(out),
        })  # fmt: skip
    elif out is not None:
        tell(f"{len(decided):,} rows written to {out}")
    elif raw and not sys.stdout.isatty():
        print_text(_csv(known, decided, shares, classes, written))
    else:
        print_text(_csv(known, decided, shares, classes, lambda text: printable(written(text))))
    changed = [name for name in classes if isinstance(name, str) and written(name) != name]
    if changed and (out is not None or not json):
        count = sum(decided.count(name) for name in changed)
        say(
            f"bornfair: in {count:,} rows the class looks like a formula of a spreadsheet ({', '.join(changed)}) and "
            "is written behind an apostrophe; --raw writes it as it is."
        )
    cells = [cell for column in known.values() for cell in column if isinstance(cell, str) and written(cell) != cell]
    if cells and (out is not None or not json):
        say(
            f"bornfair: {len(cells):,} identifiers look like formulas of a spreadsheet (such as {cells[0]}) and are "
            "written behind an apostrophe; --raw writes them as they are."
        )


def _unseen(domain: Domain, people: pd.DataFrame) -> str:
    """In which columns, and how often, there are categories that the model does not know."""
    from bornfair.people.features import NUMERIC
    from bornfair.people.levels import level_positions

    counts = {
        feature.name: int(((level_positions(feature, column) < 0) & column.notna()).sum())
        for feature in domain.free_features
        if not isinstance(feature, NUMERIC) and (column := people[feature.name]) is not None
    }
    found = [f"'{name}' in {count:,} of {len(people):,} rows" for name, count in counts.items() if count]
    return f"categories that training has not seen count as none of those it has: {', '.join(found)}." if found else ""


def _known_by(people: pd.DataFrame, names: list[str]) -> dict[str, list[Any]]:
    """The columns that rows are known by."""
    from bornfair.errors import plain
    from bornfair.people.features import unknown_column

    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
        column = people[name]
        missing = column.isna().to_numpy()
        found[name] = [None if gone else _cell(plain(value)) for value, gone in zip(column, missing, strict=True)]
    return found


def _cell(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def no_formula(text: str) -> str:
    """A text that no spreadsheet runs.

    >>> no_formula("=1+1"), no_formula("@sum"), no_formula("-1.5"), no_formula("a=b")
    ("'=1+1", "'@sum", '-1.5', 'a=b')
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def _csv(
    known: dict[str, list[Any]], decided: list[Any], shares: Any, classes: list[Any], written: Callable[[str], str]
) -> str:
    import pandas as pd

    def cells(column: list[Any]) -> list[Any]:
        return [written(cell) if isinstance(cell, str) else cell for cell in column]

    columns = [pd.Series(cells(column), dtype=object) for column in (*known.values(), decided)]
    table = pd.concat([*columns, pd.DataFrame(shares)], axis=1)
    names = [*known, "prediction", *(f"probability_{name}" for name in classes)]
    table.columns = pd.Index([written(name) for name in names])
    texts = itertools.chain(classes, known, *known.values())
    broken = any("\r" in str(text) for text in texts)  # the csv module would leave it bare, and begin a new row
    return table.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL)
