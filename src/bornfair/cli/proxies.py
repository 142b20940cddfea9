"""bornfair proxies: which other features give the sensitive value away, and does the model?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bornfair.cli.options import (
    Dataset,
    Drop,
    Json,
    Seed,
    Sensitive,
    ServiceOptions,
    Stream,
    TableFile,
    Target,
    choices,
    sample_of,
    table_of,
    without,
)
from bornfair.cli.output import print_json, print_table, tell
from bornfair.core.errors import InputError
from bornfair.core.limits import REQUEST_SECONDS
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.questions.proxies import SensitiveTells, Tell

MOST_LINES = 20


@choices("table", service=ServiceOptions, reading=TableReading)
def proxies(
    table: TableFile = None,
    sensitive: Sensitive = None,
    target: Target = None,
    dataset: Dataset = None,
    drop: Drop = None,
    model: Annotated[Path | None, typer.Option(help="A model whose score is asked too.")] = None,
    after: Annotated[Path | None, typer.Option(help="Another model to compare, say the repaired one.")] = None,
    stream: Stream = None,
    seed: Seed = 0,
    json: Json = False,
    *,
    service: ServiceOptions,
    reading: TableReading,
) -> None:
    """Which features tell the sensitive value, alone and together, and which swaps would make twins of more people?"""
    from bornfair.questions.proxies import proxy_report

    if not sensitive:
        raise InputError("name the sensitive columns with --sensitive.")
    looked = None if dataset is not None else sample_of(table, reading, stream, drop, seed)
    if looked is None:
        people, target = table_of(table, dataset, target, reading)
        people = without(people, drop)
    else:
        people = looked.sample
    source = service.model(model, REQUEST_SECONDS) if service.named or model is not None else None
    found = proxy_report(people, sensitive_features=sensitive, target=target, model=source, after=after, seed=seed)
    if json:
        print_json(found.to_json())
        return
    for part in found.about:
        _print(part)


def _print(part: SensitiveTells) -> None:
    values = ", ".join(part.values)
    extra = [(tell, name) for tell, name in ((part.score, "▶ the model's score"), (part.score_after, "▶ the other's"))]
    rows = [_line(part.together, "▶ all together"), *(_line(tell, name) for tell, name in extra if tell)]
    rows += [_line(tell, tell.name) for tell in part.features[:MOST_LINES]]
    title = f"Who tells {part.sensitive} ({values}) on rows not fitted on, of {part.rows:,}"
    chance = f"chance {100 * part.together.chance:.0f} %"
    print_table(title, ["", f"recognised ({chance})", "AUC (chance 0.5)", "above chance"], rows)
    if part.left_out:
        tell(f"{part.sensitive}: {part.left_out_text}.", "")
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
