"""bornfair verify: is it fair, for everyone who could exist?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.code_hosts import Junit, Sarif, write_for_code_hosts
from bornfair.cli.options import (
    Cluster,
    Data,
    Jobs,
    Json,
    MaybeModel,
    ModelOptions,
    MostBoxes,
    OutsideOptions,
    Seed,
    SyntheticFiles,
    Timeout,
    choices,
    number_in,
    people_of,
    population,
    started,
)
from bornfair.cli.output import STATUS, print_json, print_table, print_twins, tell
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.core.clock import Clock


@choices("data", about=ModelOptions, outside=OutsideOptions, reading=TableReading)
def verify(
    model: MaybeModel = None,
    engine: Annotated[str, typer.Option(help="auto, bounds, milp, or smt (package bornfair-bench).")] = "auto",
    timeout: Timeout = 60.0,
    data: Data = None,
    partitions: Annotated[int | None, typer.Option(help="smt: how many parts to cut the domain into.")] = None,
    soft_timeout: Annotated[float, typer.Option(help="smt: seconds for each part.")] = 100.0,
    where: Annotated[
        list[str] | None, typer.Option(help="smt: only these people, both twins, as age=30..40 or job=nurse,smith.")
    ] = None,
    relax: Annotated[list[str] | None, typer.Option(help="smt: twins may differ in this number too, as age=2.")] = None,
    most_boxes: MostBoxes = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    resume: Annotated[Path | None, typer.Option(help="bounds: a file to go on from if interrupted.")] = None,
    sarif: Sarif = None,
    junit: Junit = None,
    synthetic: SyntheticFiles = None,
    output: Annotated[
        str, typer.Option(help="What twins must have in common: decision, score (the logit) or probability.")
    ] = "decision",
    tolerance: Annotated[
        float, typer.Option(help="--output score or probability: by how much twins may differ.")
    ] = 0.0,
    change: Annotated[
        bool, typer.Option("--change", help="Ask instead by how much the score of twins can differ (ε-δ fairness).")
    ] = False,
    seed: Seed = 0,
    json: Json = False,
    *,
    about: ModelOptions,
    outside: OutsideOptions,
    reading: TableReading,
) -> None:
    """Do two people who differ only in the sensitive features always get the same decision?

    Status 0: verified. Status 1: falsified, with two people who show it. Status 3: undecided, with the reason.
    """
    clock = started(timeout, quiet=json)
    if change and (sarif or junit):
        raise InputError("--change asks for a number, not for a verdict; leave out --sarif and --junit.")
    if change and synthetic:
        raise InputError("--change shows the row of the table that differs most from a twin; leave out --synthetic.")
    from bornfair.parallel import Workers
    from bornfair.people.space.subpopulation import question_scope
    from bornfair.questions import verify as ask
    from bornfair.report.code_hosts import Examined

    source = outside.model(model, timeout)
    asked = about.keywords | {"opaque": outside.opaque}
    if change:
        _change(source, asked, data, clock, seed, json=json)
        return
    people, allowed = population(where or []), _allowances(relax or [])
    rows, asked = people_of(data, reading, model, asked, seed, clock)
    with Workers.of(jobs, cluster) as workers:
        verdict = ask(
            source, table=rows, engine=engine, timeout=clock, partitions=partitions,  # type: ignore[arg-type]
            soft_timeout=soft_timeout, where=people, relax=allowed, output=output, tolerance=tolerance, seed=seed,  # type: ignore[arg-type]
            resume=resume, most_boxes=most_boxes, jobs=workers,
            synthetic=bool(sarif or junit) if synthetic is None else synthetic, **asked,
        )  # fmt: skip
    if sarif or junit:
        scope = question_scope(people, allowed)
        in_short = Examined.at(
            model, verdict, f"{_in_words(verdict, scope, output, tolerance)}.",
            decided="decision" if output == "decision" else output,
        )  # fmt: skip
        write_for_code_hosts("verify", [in_short], sarif, junit)
    if json:
        asked_of = {} if output == "decision" else {"output": output, "tolerance": tolerance}
        print_json(verdict.to_json() | asked_of)
    else:
        _print(verdict, question_scope(people, allowed), output, tolerance)
    raise typer.Exit(STATUS[verdict.answer])


def _in_words(verdict: Any, scope: str, output: str, tolerance: float) -> str:
    """The verdict in a sentence."""
    as_read = " in real arithmetic, of the model as read" if verdict.as_read else ""
    same, unlike = "twins always get the same decision", "these twins get different decisions"
    if verdict.covers == "score":
        same = "twins always get the same score, and so the same decision at every threshold"
    elif output != "decision":
        same, unlike = (f"{who} {output} differs by more than {tolerance:g}" for who in ("no twins'", "these twins'"))
    return {
        "verified": f"VERIFIED{as_read}: {same}",
        "falsified": f"FALSIFIED: {unlike}",
        "undecided": "UNDECIDED: neither proven nor disproven",
    }[verdict.answer] + (f" ({scope})" if scope else "")


def _print(verdict: Any, scope: str, output: str, tolerance: float) -> None:
    from bornfair.models.verdict import SHOWN

    in_words = _in_words(verdict, scope, output, tolerance)
    if not verdict.twins:
        tell(in_words, "")
    else:
        print_twins(in_words, verdict.twins, verdict.decisions, decided="decision" if output == "decision" else output)
    for note in filter(None, (SHOWN.get(verdict.shown), *verdict.notes)):
        tell(note, "")
    facts = [
        ("proof", verdict.proof),
        ("engine", verdict.engine),
        ("arithmetic", ", ".join(verdict.arithmetic) or "–"),
        ("partitions", f"{verdict.partitions:,}"),
        ("boxes", f"{verdict.boxes:,}"),
        ("seconds", f"{verdict.seconds:.2f}"),
        ("reason", verdict.reason),
    ]
    print_table("How it was found out", ["", ""], facts, numbers_from=2)


def _change(model: Any, asked: Any, data: str | None, clock: Clock, seed: int, *, json: bool) -> None:
    """The largest possible change of the score between twins: attained, and proven not to be exceeded."""
    from bornfair.questions import Question
    from bornfair.verification.milp import largest_change

    about = Question.within(clock, model, table=data, **asked)
    found = largest_change(about.network_model, timeout=clock, seed=seed, table=about.people)
    if json:
        print_json(found.to_json())
        return
    if found.twins:
        print_twins(f"These twins' scores differ by {found.low:.6g}", found.twins)
    if (real := found.among_rows) is not None:
        of = f"{real.rows:,} rows of the table" + ("" if real.rows == real.drawn_from else f" (of {real.drawn_from:,})")
        print_twins(f"Among {of}, row {real.row} differs most from a twin: by {real.low:.6g}", real.twins)
    facts = [
        ("largest change attained", f"{found.low:.9g}"),
        ("proven not to be exceeded", f"{found.high:.9g}"),
        ("HiGHS' own bound (not a proof)", f"{found.solver_high:.9g}"),
        ("seconds", f"{found.seconds:.2f}"),
        ("reason", found.reason),
    ]
    print_table("By how much twins' scores can differ", ["", ""], facts, numbers_from=2)


def _allowances(texts: list[str]) -> dict[str, float] | None:
    allowed = {}
    for text in texts:
        name, _, rest = text.partition("=")
        allowed[name] = number_in(rest, text)
    return allowed or None
