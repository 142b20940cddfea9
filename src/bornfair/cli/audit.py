"""bornfair audit: everything about anybody's model, in a report people read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.options import (
    Data,
    Decision,
    DomainFile,
    Drop,
    Json,
    Normalise,
    Option,
    Seed,
    Sensitive,
    Target,
    Threshold,
    Twins,
    asking,
    choices,
    rows_of,
    without,
)
from bornfair.cli.output import STATUS, print_json, print_table, print_twins, say, tell
from bornfair.errors import InputError
from bornfair.people.reading import Reading


@choices(Reading, after="data")
def audit(
    models: Annotated[
        list[Path], typer.Argument(help="Models: bundles, .onnx, .nnet, .h5. Several are compared side by side.")
    ],
    data: Data = None,
    target: Target = None,
    sensitive: Sensitive = None,
    twins: Twins = None,
    domain: DomainFile = None,
    drop: Drop = None,
    report: Annotated[Path, Option(help="Where to write the report: .html, .md or .json.")] = Path("audit.html"),
    card: Annotated[Path | None, Option(help="Also write a model card (.md).")] = None,
    timeout: Annotated[float, Option(help="Seconds for proof and measuring, for each model.")] = 60.0,
    decision: Decision = None,
    threshold: Threshold = None,
    normalise: Normalise = None,
    seed: Seed = 0,
    json: Json = False,
    **reading: Any,
) -> None:
    """Is it fair, to how many, to whom not, and how good is it? For one model or several side by side.

    Status 0: all verified. Status 1: one is falsified. Status 3: one is undecided, and none falsified.
    """
    from bornfair.auditing.audit import audit as ask

    for path, endings in ((report, (".html", ".htm", ".md", ".json")), (card, (".md",))):
        if path is not None and path.suffix.lower() not in endings:
            raise InputError(f"'{path}' ends in '{path.suffix}'; the name must end in one of {', '.join(endings)}.")
    rows = rows_of(data, reading)
    people = None if rows is None else without(rows, drop)
    if people is None and drop:
        raise InputError(f"--drop {drop[0]}: there is no table to leave it out of; name one with --data.")
    asked = asking(domain, sensitive, twins, target, decision, threshold, normalise)
    found = ask(_named(models), people, timeout=timeout, seed=seed, say=None if json else say, **asked)
    written = [str(found.save(path)) for path in (report, card) if path is not None]
    documents = found.documents
    if json:
        print_json({"reports": written, **found.to_json()})
    else:
        for document in documents:
            _print(document)
        tell(f"To look at: {' and '.join(written)}")
    statuses = {STATUS[document.verdict.verdict] for document in documents}
    raise typer.Exit(next(status for status in (1, 3, 0) if status in statuses))


def _named(paths: list[Path]) -> dict[str, Path]:
    """Models by the shortest names that tell them apart."""
    short = [path.name or str(path) for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    if len(set(names)) != len(names):
        raise InputError(f"the model '{next(n for n in names if names.count(n) > 1)}' is named twice; name it once.")
    return dict(zip(names, paths, strict=True))


def _print(document: Any) -> None:
    from bornfair.report.formatting import percent
    from bornfair.report.verdict_text import verdict_sentence

    verdict = document.verdict
    title = f"{document.model}: {verdict_sentence(document)}" if document.model else verdict_sentence(document)
    if verdict.twins:
        print_twins(title, verdict.twins, verdict.decisions)
    else:
        tell(title, "")
    rows = []
    if (shares := document.shares) is not None:
        rows += [
            ("proven fair", percent(shares.certified, "down")),
            ("proven unfair", percent(shares.falsified, "down")),
            ("neither", percent(shares.undecided, "up")),
        ]
        if (guess := shares.estimate) is not None:
            rows.append(
                ("unfair, estimated", f"{percent(guess.unfair)} ({percent(guess.low)} to {percent(guess.high)})")
            )
    if document.people is not None:
        rows.append(("people of the table with an unequal twin", f"{document.people.unfair} of {document.people.rows}"))
    if document.metrics is not None and document.metrics.accuracy is not None:
        rows.append(("accuracy", percent(document.metrics.accuracy)))
    print_table("How much", ["", ""], rows, numbers_from=1)
    if document.groups:
        lines = [
            (group.text, percent(group.share), percent(group.inside.unfair), percent(group.contains))
            for group in document.groups
        ]
        headers = ["who is affected (estimates)", "of the domain", "unfair inside", "of all unfair"]
        print_table("Where", headers, lines)
    for question in document.suggestions:
        tell(question)
