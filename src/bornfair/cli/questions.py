"""bornfair verify, quantify, explain: questions about anybody's model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer import Option

from bornfair.cli import options
from bornfair.cli.output import STATUS, print_json, print_table, print_twins, tell, write_for_code_hosts
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.core.clock import Clock
    from bornfair.quantification.records import Shares


@options.choices("data", about=options.QuestionOptions, reading=TableReading)
def verify(
    model: options.MaybeModel = None,
    engine: Annotated[str, typer.Option(help="auto, bounds, milp, or smt (package bornfair-bench).")] = "auto",
    timeout: options.Timeout = 60.0,
    data: options.Data = None,
    partitions: Annotated[int | None, typer.Option(help="smt: how many parts to cut the domain into.")] = None,
    soft_timeout: Annotated[float, typer.Option(help="smt: seconds for each part.")] = 100.0,
    where: Annotated[
        list[str] | None, typer.Option(help="smt: only these people, both twins, as age=30..40 or job=nurse,smith.")
    ] = None,
    relax: Annotated[list[str] | None, typer.Option(help="smt: twins may differ in this number too, as age=2.")] = None,
    most_boxes: options.MostBoxes = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    resume: Annotated[Path | None, typer.Option(help="bounds: a file to go on from if interrupted.")] = None,
    sarif: options.Sarif = None,
    junit: options.Junit = None,
    synthetic: options.SyntheticFiles = None,
    output: Annotated[
        str, typer.Option(help="What twins must have in common: decision, score (the logit) or probability.")
    ] = "decision",
    tolerance: Annotated[
        float, typer.Option(help="--output score or probability: by how much twins may differ.")
    ] = 0.0,
    change: Annotated[
        bool, typer.Option("--change", help="Ask instead by how much the score of twins can differ (ε-δ fairness).")
    ] = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    about: options.QuestionOptions,
    reading: TableReading,
) -> None:
    """Do two people who differ only in the sensitive features always get the same decision?

    Status 0: verified. Status 1: falsified, with two people who show it. Status 3: undecided, with the reason.
    """
    clock = options.started(timeout, quiet=json)
    if change and (sarif or junit):
        raise InputError("--change asks for a number, not for a verdict; leave out --sarif and --junit.")
    if change and synthetic:
        raise InputError("--change shows the row of the table that differs most from a twin; leave out --synthetic.")
    from bornfair.parallel import Workers
    from bornfair.people.space.subpopulation import question_scope
    from bornfair.questions import verify as ask
    from bornfair.report.code_hosts import Examined

    source = about.model(model, timeout)
    asked = about.keywords
    if change:
        _change(source, asked, data, clock, seed, json=json)
        return
    people, allowed = options.population(where or []), _allowances(relax or [])
    rows, asked = options.people_of(data, reading, model, asked, seed, clock)
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
        _print_verdict(verdict, question_scope(people, allowed), output, tolerance)
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


def _print_verdict(verdict: Any, scope: str, output: str, tolerance: float) -> None:
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
    from bornfair.verification.milp.network import largest_change

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
        allowed[name] = options.number_in(rest, text)
    return allowed or None


@options.choices("data", about=options.QuestionOptions, reading=TableReading)
def quantify(
    model: options.MaybeModel = None,
    data: options.Data = None,
    over: Annotated[
        str,
        Option(
            help="Who counts: uniform (everybody alike), data (each feature as often as in the table, independent), or "
            "a FILE: the rows of that table, each judged by itself."
        ),
    ] = "uniform",
    where: Annotated[
        list[str] | None, Option(help="Only these people, as age=30..40 or job=nurse,smith; repeat for several.")
    ] = None,
    precision: Annotated[float, Option(help="Stop when at most this share is undecided.")] = 0.0,
    timeout: options.Timeout = 60.0,
    most: Annotated[int, Option(help="How many people and groups to show.")] = 5,
    most_boxes: options.MostBoxes = None,
    jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    synthetic: options.Synthetic = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    about: options.QuestionOptions,
    reading: TableReading,
) -> None:
    """Which share of everybody who could exist is proven fair, proven unfair, or neither? Interrupt it at any time.

    The shares are proven. What they leave open is sampled, for an interval of the unfair share that is true with
    99.9999 % confidence; beside them stands an estimate from a random sample.
    """
    clock = options.started(timeout, quiet=json)
    from bornfair.parallel import Workers
    from bornfair.questions import quantify as measure

    source = about.model(model, timeout)
    asked = about.keywords
    rows, asked = options.people_of(data, reading, model, asked, seed, clock)
    with Workers.of(jobs, cluster) as workers:
        found = measure(
            source, table=rows, over=over, where=options.population(where or []), timeout=clock,
            precision=precision, most=most, most_boxes=most_boxes, jobs=workers, seed=seed,
            synthetic=synthetic, **asked,
        )  # fmt: skip
    if json:
        print_json(found.to_json())
    else:
        _print_shares(found)


def _print_shares(found: Shares) -> None:
    from bornfair.people.space.subpopulation import in_words
    from bornfair.quantification.records import NOTHING_SEEN, Over
    from bornfair.report.formatting import percent
    from bornfair.report.measured import confident_sentence

    guess, counted = found.estimate or NOTHING_SEEN, found.over not in get_args(Over)
    drawn = (
        f"unfair, estimated from {guess.samples:,} random people",
        f"{percent(guess.unfair)} ({percent(guess.low)} to {percent(guess.high)})",
    )
    proven = [
        ("proven fair", percent(found.certified, "down")),
        ("proven unfair", percent(found.falsified, "down")),
        ("neither", percent(found.undecided, "up")),
    ]
    boxes = ("rows" if counted else "boxes", f"{found.boxes:,}")
    if found.asked is not None:
        proven, boxes = [], ("people asked about", f"{found.asked:,}")
    rows = [
        *proven,
        *([] if counted or found.estimate is None else [drawn]),
        boxes,
        ("seconds", f"{found.seconds:.1f}"),
    ]
    if (people := found.people) is not None:
        share = f"{percent(people.share)} ({people.unfair:,} of {people.rows:,})"
        said = [f"({people.note})"] if people.note else []
        tell(f"{share} of the people in the table have a twin who is decided otherwise.", *said, "")
    tell(f"Decided otherwise than a twin: {confident_sentence(found)}.", "")
    words = {"uniform": "every combination of values counted alike", "data": "features as often as in the table"}
    whose = f"everybody who could exist ({words[found.over]})" if found.over in words else f"the rows of {found.over}"
    only = f", with {in_words(found.where)}" if found.where else ""
    print_table(f"Of {whose}{only}", ["", ""], rows)
    in_which = f"In {' and '.join(found.arithmetic)} arithmetic; " if found.arithmetic else "Nothing is proven: "
    tell(f"{in_which}{found.reason}.", "")
    for note in found.notes:
        tell(note, "")
    if found.groups:
        lines = [
            (group.text, percent(group.share), percent((group.inside or NOTHING_SEEN).unfair), percent(group.contains))
            for group in found.groups
        ]
        print_table(
            "Where it sits (estimates)", ["people with", "of the domain", "unfair inside", "of all unfair"], lines
        )
    if people is not None and people.most_affected:
        tell("Most affected:")
        for one in people.most_affected:
            decided = " / ".join(map(str, one.decisions))
            gap = "" if one.gap is None else f", score gap {one.gap:.3g}"
            tell(f"  row {one.row}: {decided}{gap}; {one.undo_text}")


@options.choices("data", about=options.QuestionOptions, reading=TableReading)
def explain(
    model: options.MaybeModel = None,
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
    data: options.Data = None,
    most: Annotated[int, typer.Option(min=0, help="How many versions that are decided otherwise to list.")] = 20,
    timeout: options.Timeout = 60.0,
    synthetic: options.Synthetic = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    about: options.QuestionOptions,
    reading: TableReading,
) -> None:
    """Is this person treated as all their twins? Which versions of them are decided otherwise, and what would undo it?

    Status 0: proven, for the person and, with --within, for everybody near. Status 1: not, with two people who show it.
    Status 3: undecided.
    """
    clock = options.started(timeout, quiet=json)
    if (person is None) == (row is None):
        raise InputError("name one person: --person FILE.json, or --row N with --data TABLE.")
    from bornfair.questions.explaining import explain as ask

    if synthetic and data is None:
        raise InputError("--synthetic compares the person with a table; name it with --data.")
    if row is not None and data is None:
        raise InputError(f"--row {row} is a row of a table; name it with --data.")
    source = about.model(model, timeout)
    asked = about.keywords
    who: Any = person if row is None else row
    found = ask(
        source, who, within=_reaches(within or []), most=most, timeout=clock, seed=seed, synthetic=synthetic,
        table=options.rows_of(data, reading), **asked,
    )  # fmt: skip
    if json:
        print_json(found.to_json())
    else:
        _print_explanation(found)
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
        found[name] = options.number_in(rest, text) if equals else None
    return found


def _print_explanation(found: Any) -> None:
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
