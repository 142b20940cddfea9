"""bornfair predict: decisions for the rows of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bornfair.cli import options
from bornfair.cli.output import print_json, print_text, printable, say, tell
from bornfair.cli.predictions import (
    csv_text,
    known_by,
    no_formula,
    quality_of,
    say_quality,
    say_unseen,
    unseen_counts,
)
from bornfair.people.reading import TableReading


@options.choices("table", reading=TableReading)
def predict(
    bundle: options.Bundle,
    table: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet table, a folder, a glob or an address; sensitive columns are not needed."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write classes as they are, also those a spreadsheet would take for formulas.")
    ] = False,
    threshold: options.Threshold = None,
    identifiers: Annotated[
        list[str] | None,
        typer.Option("--id", help="A column of the table to write first, to know the rows by; repeat for several."),
    ] = None,
    stream: options.Stream = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """Predict the class of each row, with the probability of every class.

    A cell that a spreadsheet would take for a formula is written behind an apostrophe, and this is said. A long table
    is read in batches and written as it goes; interrupted, the same command goes on where it was.
    """
    from bornfair.people.sources import is_streamed

    if is_streamed(table, stream, reading):
        from bornfair.cli.predict_stream import predict_streamed

        predict_streamed(bundle, table, out, raw, threshold, identifiers or [], reading, json=json)
        return
    from bornfair.core.files import check_file, write_atomically
    from bornfair.models.network.network import decisions
    from bornfair.models.operating import Asked
    from bornfair.proof.bundle import load_bundle

    if out is not None:
        check_file(out)
    model = load_bundle(bundle)
    people = options.rows_of(table, reading)
    assert people is not None
    known = known_by(people, identifiers or [])
    point = Asked.of(threshold).for_classes(model.classes.tolist()) if threshold else None
    if point is not None:
        model = model.at(point, people)
        say(f"bornfair: the threshold is {point.text}.")
    scores = model.scores(people)
    say_unseen(unseen_counts(model.domain, people), len(people))
    classes = model.classes.tolist()
    positions = decisions(scores)
    decided = model.classes[positions].tolist()
    shares = model.probabilities(scores)
    shares = model.predict_proba(people) if shares is None else shares
    figures = quality_of(model, people, decided)
    written = (lambda text: text) if raw else no_formula
    if out is not None:
        write_atomically(out, csv_text(known, positions, shares, classes, written))
    if json:
        print_json({
            "bundle": str(bundle), "rows": len(decided), "classes": classes, **({"ids": known} if known else {}),
            "threshold": None if point is None else point.text, "thresholds": model.thresholds,
            **({} if figures is None else {"quality": figures}),
            "predictions": decided, "probabilities": shares.tolist(), "out": None if out is None else str(out),
        })  # fmt: skip
    elif out is not None:
        tell(f"{len(decided):,} rows written to {out}")
    elif raw and not sys.stdout.isatty():
        print_text(csv_text(known, positions, shares, classes, written))
    else:
        print_text(csv_text(known, positions, shares, classes, lambda text: printable(written(text))))
    say_quality(figures)
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
