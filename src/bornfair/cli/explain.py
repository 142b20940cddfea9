"""bornfair explain: is this one person treated as all their twins?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.options import (
    Data,
    Json,
    MaybeModel,
    ModelOptions,
    OutsideOptions,
    Seed,
    Synthetic,
    Timeout,
    choices,
    number_in,
    rows_of,
    started,
)
from bornfair.cli.output import STATUS, print_json, print_table, print_twins, tell
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading


@choices("data", about=ModelOptions, outside=OutsideOptions, reading=TableReading)
def explain(
    model: MaybeModel = None,
    person: Annotated[
        Path | None, typer.Option(help="A JSON file with the person's values by feature; sensitive ones may be absent.")
    ] = None,
    row: Annotated[
        int | None, typer.Option(min=0, help="The person in this row of --data, counted from 0 as reports do.")
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option(help="Ask about everybody near, too: age=2 for ±2, or a name alone for any value; repeatable."),
    ] = None,
    data: Data = None,
    most: Annotated[int, typer.Option(min=0, help="How many versions that are decided otherwise to list.")] = 20,
    timeout: Timeout = 60.0,
    synthetic: Synthetic = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    about: ModelOptions,
    outside: OutsideOptions,
    reading: TableReading,
) -> None:
    """Is this person treated as all their twins? Which versions of them are decided otherwise, and what would undo it?

    Status 0: proven, for the person and, with --within, for everybody near. Status 1: not, with two people who show it.
    Status 3: undecided.
    """
    clock = started(timeout, quiet=json)
    if (person is None) == (row is None):
        raise InputError("name one person: --person FILE.json, or --row N with --data TABLE.")
    from bornfair.questions.explaining import explain as ask

    if synthetic and data is None:
        raise InputError("--synthetic compares the person with a table; name it with --data.")
    if row is not None and data is None:
        raise InputError(f"--row {row} is a row of a table; name it with --data.")
    source = outside.model(model, timeout)
    asked = about.keywords | {"opaque": outside.opaque}
    who: Any = person if row is None else row
    found = ask(
        source, who, within=_reaches(within or []), most=most, timeout=clock, seed=seed, synthetic=synthetic,
        table=rows_of(data, reading), **asked,
    )  # fmt: skip
    if json:
        print_json(found.to_json())
    else:
        _print(found)
    raise typer.Exit(STATUS[found.overall.answer])


def _reaches(texts: list[str]) -> dict[str, float | None]:
    """By how much each feature may differ, as the user writes it: age=2, or job."""
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not name or (equals and not rest):
            raise InputError(f"--within {text!r} is not understood; write age=2, or a name alone for any value.")
        if name in found:
            raise InputError(f"--within names '{name}' twice; name it once.")
        found[name] = number_in(rest, text) if equals else None
    return found


def _print(found: Any) -> None:
    from bornfair.report.formatting import percent

    verdict = found.verdict
    if found.decision is not None:
        chance = (found.probabilities or {}).get(str(found.decision))
        tell(f"The person gets {found.decision}" + ("." if chance is None else f" ({percent(chance)})."))
    for note in found.notes:
        tell(f"({note})")
    many = "all versions" if found.versions is None else f"all {found.versions:,} versions"
    if verdict.answer == "verified":
        as_read = " (in real arithmetic, of the network as read)" if verdict.as_read else ""
        tell(f"FAIR to this person, proven{as_read}: {many} of them get the same decision.", "")
    elif verdict.answer == "undecided":
        tell("UNDECIDED for this person: neither proven nor disproven that all versions get the same decision.", "")
    else:
        of = f": {found.otherwise:,} of {found.versions:,} versions are decided otherwise" if found.otherwise else ""
        if not verdict.twins:
            tell(f"NOT FAIR to this person{of}.", "")
        else:
            print_twins(f"NOT FAIR to this person{of}", verdict.twins, verdict.decisions)
    if found.differing:
        lines = [
            (
                ", ".join(f"{name} {new} instead of {old}" for name, (old, new) in version.changes.items()),
                str(version.decision), percent((version.probabilities or {}).get(str(version.decision))),
            )
            for version in found.differing
        ]  # fmt: skip
        more = found.otherwise - len(lines)
        left = f"; {more:,} more are not listed" if more else ""
        print_table(f"Decided otherwise{left}", ["version", "decision", "its probability"], lines, numbers_from=2)
    if found.undo_text:
        proven = ", which is proven" if found.undo and found.undo.get("proven") else ""
        tell(f"The smallest change found that undoes it: {found.undo_text}{proven}.", "")
    if found.around is not None:
        _print_around(found)
    for told in (verdict, found.around) if found.around is not None else (verdict,):
        whom = "near" if told is found.around else "the person"
        how = ", ".join(told.arithmetic) or "–"
        tell(f"How it was found out, {whom}: {told.engine}, arithmetic {how}, {told.seconds:.2f} s; {told.reason}")


def _print_around(found: Any) -> None:
    """What holds of everybody near."""
    from bornfair.models.verdict import SHOWN
    from bornfair.people.space.subpopulation import in_words

    limits = found.neighbourhood
    who = f"everybody with {in_words(limits)}, all else as the person" if limits else "everybody near the person"
    verdict = found.around
    if verdict.answer == "verified":
        tell(f"FAIR, proven, to {who}.", "")
    elif verdict.answer == "undecided":
        tell(f"UNDECIDED for {who}.", "")
    elif found.verdict.answer == "falsified":
        tell(f"NOT FAIR to {who}: the person is one of them.", "")
    elif not verdict.twins:
        tell(f"NOT FAIR to {who}. {SHOWN.get(verdict.shown, '')}", "")
    else:
        print_twins(f"NOT FAIR to {who}: these two show it", verdict.twins, verdict.decisions)
