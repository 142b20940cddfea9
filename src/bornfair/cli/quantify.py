"""bornfair quantify: how much of the domain is treated fairly, provably."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.options import Decision, Normalise, Threshold
from bornfair.cli.output import LARGEST_SEED, print_json, print_table, say, tell
from bornfair.errors import InputError

Option = typer.Option


def quantify(
    model: Annotated[Path, typer.Argument(help="A bundle, .onnx, .nnet or .h5.")],
    domain: Annotated[
        Path | None, Option(help="Who could exist (domain.json); as the model or the table says by default.")
    ] = None,
    sensitive: Annotated[
        list[str] | None, Option(help="A sensitive feature: name or position from 0; repeat for several.")
    ] = None,
    twins: Annotated[
        list[str] | None, Option(help='Who else counts as twins: "sex: Male<->Female, relationship: Husband<->Wife".')
    ] = None,
    data: Annotated[Path | None, Option(help="A table of real people: which of them have an unequal twin?")] = None,
    target: Annotated[str | None, Option(help="A column of the table that is no feature.")] = None,
    over: Annotated[
        str,
        Option(help="How people are weighted: uniform, or data (each feature as often as in the table, independent)."),
    ] = "uniform",
    precision: Annotated[float, Option(help="Stop when at most this share is undecided.")] = 0.0,
    timeout: Annotated[float, Option(help="Seconds.")] = 60.0,
    most: Annotated[int, Option(help="How many people and groups to show.")] = 5,
    decision: Decision = None,
    threshold: Threshold = None,
    normalise: Normalise = None,
    seed: Annotated[int, Option(min=0, max=LARGEST_SEED, help="The same seed draws the same people.")] = 0,
    json: Annotated[bool, Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Which share of everybody who could exist is proven fair, proven unfair, or neither? Interrupt it at any time.

    The shares are proven; beside them stands an estimate from a random sample.
    """
    from bornfair.people.tables import read_table
    from bornfair.quantification.groups import affected_groups
    from bornfair.quantification.marginals import marginals_of
    from bornfair.quantification.measure import shares_of
    from bornfair.quantification.people import most_affected, treatment
    from bornfair.quantification.telling import undo_text
    from bornfair.question import load_model

    if over not in ("uniform", "data"):
        raise InputError(f"--over must be uniform or data, found {over!r}.")
    people = None if data is None else read_table(data)
    if over == "data" and people is None:
        raise InputError("--over data needs the table: name it with --data.")
    if people is not None and target is not None:
        if target not in people.columns:
            raise InputError(f"--target {target}: there is no such column in the table.")
        people = people.drop(columns=target)
    read_as: Any = {"decision": decision, "threshold": threshold, "normalise": normalise}
    asked = load_model(model, domain=domain, sensitive=sensitive, twins=twins, table=people, **read_as)
    treated = None if people is None else treatment(asked, people)
    marginals = None if over == "uniform" or people is None else marginals_of(asked.domain, people)
    found = shares_of(
        asked, timeout=timeout, precision=precision, marginals=marginals, seed=seed, say=None if json else say
    )
    groups = affected_groups(asked, most=most, seed=seed, marginals=marginals) if found.certified < 1 else []
    result: dict[str, Any] = {**found.to_json(), "over": over, "groups": [group.to_json() for group in groups]}
    if people is not None and treated is not None:
        affected = most_affected(asked, people, most=most, treated=treated)
        result["people"] = {
            "rows": len(people),
            "unfair": int((~treated.fair).sum()),
            "most_affected": [{**one, "undo_text": undo_text(one)} for one in affected],
        }
    if json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    from bornfair.report.formatting import percent

    guess = result["estimate"]
    rows = [
        ("proven fair", percent(result["certified"], "down")),
        ("proven unfair", percent(result["falsified"], "down")),
        ("neither", percent(result["undecided"], "up")),
        (
            f"unfair, estimated from {guess['samples']:,} random people",
            f"{percent(guess['unfair'])} ({percent(guess['low'])} to {percent(guess['high'])})",
        ),
        ("boxes", f"{result['boxes']:,}"),
        ("seconds", f"{result['seconds']:.1f}"),
    ]
    weighted = "uniform over the domain" if result["over"] == "uniform" else "features as often as in the table"
    print_table(f"Of everybody who could exist ({weighted})", ["", ""], rows)
    tell(f"In {' and '.join(result['arithmetic'])} arithmetic; {result['reason']}.", "")
    if result["groups"]:
        lines = [
            (g["text"], percent(g["share"]), percent(g["unfair"]), percent(g["contains"])) for g in result["groups"]
        ]
        print_table(
            "Where it sits (estimates)", ["people with", "of the domain", "unfair inside", "of all unfair"], lines
        )
    if "people" in result:
        facts = result["people"]
        tell(f"{facts['unfair']:,} of the {facts['rows']:,} people of the table have a twin who is decided otherwise.")
        for one in facts["most_affected"]:
            undo = f"; {one['undo_text']}" if one["undo_text"] else ""
            tell(f"  row {one['row']}: {' / '.join(map(str, one['decisions']))}, score gap {one['gap']:.3g}{undo}")
