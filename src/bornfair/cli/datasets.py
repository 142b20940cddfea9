"""bornfair datasets: what there is to train on without a file of one's own, and how to get the rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.output import LARGEST_SEED, print_json, print_table, say, tell

if TYPE_CHECKING:
    from bornfair.datasets import Entry

app = typer.Typer(help="Datasets to train on.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_datasets(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Accepted like everywhere; listing is not random.")
    ] = 0,
) -> None:
    """List the datasets, their size, target and sensitive columns, and whether they are here."""
    from bornfair import datasets

    known = [(datasets.entry(name), datasets.where(name)) for name in datasets.ALL_NAMES]
    if json:
        print_json({"datasets": [_described(e) | {"here": place and place.kind} for e, place in known]})
        return
    cells = [
        (e.name, f"{e.rows:,}", str(e.columns), e.target, ", ".join(e.sensitive), place.kind if place else "no",
         e.source) for e, place in known
    ]  # fmt: skip
    headers = ["name", "rows", "columns", "target", "sensitive", "here", "source"]
    print_table("Datasets", headers, cells, numbers_from=99)
    missing = [e for e, place in known if place is None]
    for e in missing:
        say(f"{e.name} is not here: {e.raw.advice}.")


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="The dataset, by the name that list shows.")],
    url: Annotated[str | None, typer.Option(help="Download it from here.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Copy it from this file: plain, .gz or .zip.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Accepted like everywhere; fetching is not random.")
    ] = 0,
) -> None:
    """Get a dataset that is not in the package; its checksum decides whether it is kept."""
    from bornfair import datasets

    place = datasets.fetch(name, url=url, file=source)
    if json:
        print_json(
            {"name": name, "here": place.kind, "path": str(place.path), "sha256": datasets.entry(name).raw.sha256}
        )
        return
    tell(f"{name} is here ({place.kind}), its checksum is right: {place.path}")


def _described(entry: Entry) -> dict[str, Any]:
    shown = (
        "name", "description", "rows", "columns", "target", "sensitive", "paper_sensitive", "source", "licence",
        "embedded",
    )  # fmt: skip
    return {name: getattr(entry, name) for name in shown}
