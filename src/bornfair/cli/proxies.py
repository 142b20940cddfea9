"""bornfair proxies: which other features give the sensitive value away, and does the model?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bornfair.cli.output import LARGEST_SEED, print_json, print_table, tell
from bornfair.errors import InputError

if TYPE_CHECKING:
    from bornfair.proxies.tells import About, Tell

MOST_LINES = 20


def proxies(
    table: Annotated[Path | None, typer.Argument(help="A CSV or Parquet table.", show_default=False)] = None,
    sensitive: Annotated[list[str] | None, typer.Option(help="A sensitive column; repeat for several.")] = None,
    target: Annotated[str | None, typer.Option(help="The column that is predicted; it does not count.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Ask about a built-in dataset instead of a table.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; repeat for several.")] = None,
    model: Annotated[Path | None, typer.Option(help="A model whose score is asked too.")] = None,
    after: Annotated[Path | None, typer.Option(help="Another model to compare, say the repaired one.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed splits the rows in the same way.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Which features tell the sensitive value, alone and together, and which swaps would make twins of more people?"""
    from bornfair.people.domain import Domain
    from bornfair.proxies.tells import proxy_report

    if (table is None) == (dataset is None):
        raise InputError("give either a TABLE, or --dataset NAME.")
    if not sensitive:
        raise InputError("name the sensitive columns with --sensitive.")
    if dataset is not None:
        from bornfair import datasets

        loaded = datasets.load(dataset)
        people, target = loaded.table, target or loaded.target
    else:
        from bornfair.people.tables import read_table

        people = read_table(table or "")
    from bornfair.people.features import unknown_column

    for name in drop or []:
        if name not in people.columns:
            raise InputError(unknown_column(name, list(people.columns)))
    people = people.drop(columns=drop or [])
    found = proxy_report(people, Domain.infer(people, target=target, sensitive=sensitive), model, after, seed)
    if json:
        print_json(found.to_json())
        return
    for part in found.about:
        _print(part)


def _print(part: About) -> None:
    values = ", ".join(part.values)
    extra = [(tell, name) for tell, name in ((part.score, "▶ the model's score"), (part.score_after, "▶ the other's"))]
    rows = [_line(part.together, "▶ all together"), *(_line(tell, name) for tell, name in extra if tell)]
    rows += [_line(tell, tell.name) for tell in part.features[:MOST_LINES]]
    title = f"Who tells {part.sensitive} ({values}) on rows not fitted on, of {part.rows:,}"
    chance = f"chance {100 * part.together.chance:.0f} %"
    print_table(title, ["", f"recognised ({chance})", "AUC (chance 0.5)", "above chance"], rows)
    for fact in part.facts[:MOST_LINES]:
        tell(f"• {fact.text}")
    if part.facts:
        tell("")
    for suggestion in part.suggestions:
        tell(f"? {suggestion.question}", f"  {suggestion.why} (strength {suggestion.strength:.2f} of 1).")
        tell(f'  If so: --twins "{suggestion.rule_text}"', "")


def _line(tell: Tell, name: str) -> tuple[str, ...]:
    certain = "yes" if tell.tells else "may be luck"
    return name, f"{100 * tell.balanced_accuracy:.1f} %", f"{tell.auc:.3f}", certain
