"""bornfair predict: decisions for the rows of a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bornfair.cli.output import print_json


def predict(
    bundle: Annotated[Path, typer.Argument(help="A bundle written by train.")],
    table: Annotated[Path, typer.Argument(help="A CSV or Parquet table; a fair model needs no sensitive columns.")],
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    seed: Annotated[int, typer.Option(help="Accepted like everywhere; predicting is not random.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict the class of each row, with the probability of every class."""
    import pandas as pd

    from bornfair.bundle import load_bundle
    from bornfair.files import write_atomically
    from bornfair.model import probabilities
    from bornfair.network import decisions
    from bornfair.tables import read_table

    model = load_bundle(bundle)
    scores = model.scores(read_table(table))
    decided = model.classes[decisions(scores)].tolist()
    shares = probabilities(scores)
    columns = {"prediction": decided} | {f"probability_{c}": shares[:, i] for i, c in enumerate(model.classes)}
    if out is not None:
        write_atomically(out, pd.DataFrame(columns).to_csv(index=False))
    if json:
        print_json({
            "bundle": str(bundle), "rows": len(decided), "classes": model.classes.tolist(),
            "predictions": decided, "probabilities": shares.tolist(), "out": None if out is None else str(out),
        })  # fmt: skip
    elif out is None:
        pd.DataFrame(columns).to_csv(sys.stdout, index=False)
    else:
        print(f"{len(decided):,} rows written to {out}")
