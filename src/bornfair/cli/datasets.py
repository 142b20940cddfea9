"""bornfair datasets: what there is to train on without a file of one's own."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bornfair.cli.output import print_json, print_table

app = typer.Typer(help="Built-in datasets.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Built-in datasets."""


@app.command("list")
def list_datasets(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[int, typer.Option(help="Accepted like everywhere; listing is not random.")] = 0,
) -> None:
    """List the datasets, their size, target and sensitive columns."""
    from bornfair import datasets

    found = [datasets.load(name) for name in datasets.NAMES]
    rows: list[dict[str, Any]] = [
        {"name": d.name, "rows": len(d.table), "columns": d.table.shape[1], "target": d.target,
         "sensitive": list(d.sensitive), "source": d.source} for d in found
    ]  # fmt: skip
    if json:
        print_json({"datasets": rows})
        return
    cells = [
        (r["name"], f"{r['rows']:,}", str(r["columns"]), r["target"], ", ".join(r["sensitive"]), r["source"])
        for r in rows
    ]
    print_table("Datasets", ["name", "rows", "columns", "target", "sensitive", "source"], cells, numbers_from=99)
