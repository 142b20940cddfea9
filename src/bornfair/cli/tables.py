"""bornfair inspect, proxies, gamma: what a table holds before anything is trained on it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from bornfair.cli import options
from bornfair.cli.output import print_json, print_table, tell
from bornfair.core.errors import InputError
from bornfair.core.limits import REQUEST_SECONDS
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.people.column_kinds import Column
    from bornfair.questions.inspection import Inspection
    from bornfair.questions.proxies import SensitiveTells, Tell
    from bornfair.training.gamma import GammaReport, PopulationGamma


WIDTH = 96  # of the sentences on a terminal
MOST_TEXT = 44  # of the categories of a column
MOST_TELLS, MOST_INPUTS = 20, 40


@options.choices("categorical", reading=TableReading)
def inspect(
    table: options.TableFile = None,
    target: options.Target = None,
    sensitive: options.Sensitive = None,
    dataset: options.Dataset = None,
    drop: options.Drop = None,
    keep: options.Keep = None,
    categorical: options.Categorical = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """What is in a table? Kinds of columns, identifiers, texts, sentinels, leaks, proxies, and how to train on it.

    Status 0, whatever is found. Values of names, free text and identifiers are not shown.
    """
    from bornfair.questions.inspection import inspect as look

    people, target = options.table_of(table, dataset, target, reading, seed)
    found = look(
        options.without(people, drop), target=target, sensitive_features=sensitive or [], keep=keep or [],
        categorical=categorical or [], seed=seed,
    )  # fmt: skip
    said = _said(vars(reading) | {"drop": drop, "keep": keep, "categorical": categorical})
    command = found.command(str(table) if table is not None else f"--dataset={dataset}", said)
    if json:
        print_json({"table": None if table is None else str(table), **found.to_json(), "command": command})
    else:
        _print_inspection(found, command)


def _said(typed: dict[str, Any]) -> list[str]:
    """Options as they were typed, for the command that trains."""
    return [
        word for name, value in typed.items() if value
        for one in ([value] if isinstance(value, str) else value) for word in (f"--{name}", one)
    ]  # fmt: skip


def _print_inspection(found: Inspection, command: str | None) -> None:
    rows = [_column_line(column, found) for column in found.columns]
    print_table(f"{found.rows:,} rows", ["column", "kind", "from … to, or most frequent", "values", "gaps"], rows,
                numbers_from=3)  # fmt: skip
    if not found.findings:
        tell("Nothing to watch out for was found.")
    signs = {"refused": "✗", "important": "!", "note": "·"}
    for finding in found.findings:
        first, *more = textwrap.wrap(finding.text, WIDTH - 2, break_on_hyphens=False, break_long_words=False)
        tell(f"{signs[finding.weight]} {first}", *(f"  {line}" for line in more))
    tell("")
    if any(finding.weight == "refused" for finding in found.findings):
        tell("✗ is refused by train unless you say otherwise.", "")
    if found.beyond_options:
        tell("No option helps with all of it: change the table, or name other columns, and look again.")
    elif command is None:
        tell("Name --target and --sensitive to see leaks and proxies too, and the command to train with.")
    else:
        tell("To train:", command)


def _column_line(column: Column, found: Inspection) -> tuple[str, ...]:
    role = "target" if column.name == found.target else "sensitive" if column.name in found.sensitive else ""
    kind = f"{column.kind} ({column.what})" if column.what and column.kind != "text" else column.kind
    name = f"{column.name} ({role})" if role else column.name
    return name, kind, _range(column), f"{column.values:,}", f"{column.gaps:,}" if column.gaps else ""


def _range(column: Column) -> str:
    if column.low is not None:
        ends = (f"{end:.6g}" if isinstance(end, float) else str(end) for end in (column.low, column.high))
        return " … ".join(ends) if column.low != column.high else next(ends)
    text = ", ".join(map(str, column.common))
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT - 1]}…"
    return text + (", …" if column.values > len(column.common) and text and not text.endswith("…") else "")


@options.choices("table", service=options.ServiceOptions, reading=TableReading)
def proxies(
    table: options.TableFile = None,
    sensitive: options.Sensitive = None,
    target: options.Target = None,
    dataset: options.Dataset = None,
    drop: options.Drop = None,
    model: Annotated[Path | None, typer.Option(help="A model whose score is asked too.")] = None,
    after: Annotated[Path | None, typer.Option(help="Another model to compare, say the repaired one.")] = None,
    stream: options.Stream = None,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    service: options.ServiceOptions,
    reading: TableReading,
) -> None:
    """Which features tell the sensitive value, alone and together, and which swaps would make twins of more people?"""
    from bornfair.questions.proxies import proxy_report

    if not sensitive:
        raise InputError("name the sensitive columns with --sensitive.")
    looked = None if dataset is not None else options.sample_of(table, reading, stream, drop, seed)
    if looked is None:
        people, target = options.table_of(table, dataset, target, reading)
        people = options.without(people, drop)
    else:
        people = looked.sample
    source = service.model(model, REQUEST_SECONDS) if service.named or model is not None else None
    found = proxy_report(people, sensitive_features=sensitive, target=target, model=source, after=after, seed=seed)
    if json:
        print_json(found.to_json())
        return
    for part in found.about:
        _print_tells(part)


def _print_tells(part: SensitiveTells) -> None:
    values = ", ".join(part.values)
    extra = [(tell, name) for tell, name in ((part.score, "▶ the model's score"), (part.score_after, "▶ the other's"))]
    rows = [_tell_line(part.together, "▶ all together"), *(_tell_line(tell, name) for tell, name in extra if tell)]
    rows += [_tell_line(tell, tell.name) for tell in part.features[:MOST_TELLS]]
    title = f"Who tells {part.sensitive} ({values}) on rows not fitted on, of {part.rows:,}"
    chance = f"chance {100 * part.together.chance:.0f} %"
    print_table(title, ["", f"recognised ({chance})", "AUC (chance 0.5)", "above chance"], rows)
    if part.left_out:
        tell(f"{part.sensitive}: {part.left_out_text}.", "")
    for fact in part.facts[:MOST_TELLS]:
        tell(f"• {fact.text}")
    if part.facts:
        tell("")
    for suggestion in part.suggestions:
        tell(f"? {suggestion.question}", f"  {suggestion.why} (strength {suggestion.strength:.2f} of 1).")
        tell(f'  If so: --twins "{suggestion.rule_text}"', "")


def _tell_line(tell: Tell, name: str) -> tuple[str, ...]:
    certain = "yes" if tell.tells else "may be luck"
    return name, f"{100 * tell.balanced_accuracy:.1f} %", f"{tell.auc:.3f}", certain


@options.choices("people", reading=TableReading)
def gamma(
    people: Annotated[
        Path | None, typer.Argument(help="A CSV or Parquet table, or a domain.json.", show_default=False)
    ] = None,
    sensitive: options.Sensitive = None,
    target: options.Target = None,
    dataset: options.Dataset = None,
    codes: Annotated[
        str | None, Option(help='Ask about codes: "-1,1", or with columns "2,-1,-1; -1,2,-1; -1,-1,2".')
    ] = None,
    shares: Annotated[
        str | None, Option(help='With --codes: which share of the people has each value, as "0.67,0.33".')
    ] = None,
    combinations: options.Combinations = None,
    draws: Annotated[int, Option(help="Random responses whose mean is looked at.")] = 1,
    tolerance: Annotated[float, Option(help="How far their mean code may be off; codes lie between -1 and 1.")] = 0.1,
    confidence: Annotated[float, Option(help="How likely it shall stay within the tolerance.")] = 0.95,
    seed: options.Seed = 0,
    json: options.Json = False,
    *,
    reading: TableReading,
) -> None:
    """Which γ preserves fairness for these codes, why, and how many draws does a sampled response need?

    Status 0: there is one. Status 1: there is none, because the codes do not sum to 0. Both are about a row's own value
    randomised; for a table the population reading of Algorithm 1 is answered beside it.
    """
    from bornfair.training.gamma import gamma_report

    if sum(given is not None for given in (people, dataset, codes)) != 1:
        raise InputError("give either a table or a domain.json, or --dataset NAME, or --codes NUMBERS.")
    asked: Any = people
    if people is not None and people.suffix.lower() != ".json":
        asked = options.rows_of(people, reading)
    if codes is not None:
        asked = _numbers(codes)
    if dataset is not None:
        from bornfair import datasets

        loaded = datasets.load(dataset)
        asked, target = loaded.table, target or loaded.target
    report = gamma_report(
        asked, sensitive_features=sensitive, target=target, combinations=combinations,  # type: ignore[arg-type]
        shares=None if shares is None else [share for row in _numbers(shares, "--shares") for share in row],
        draws=draws, tolerance=tolerance, confidence=confidence,
    )  # fmt: skip
    if json:
        print_json(report.to_json())
    else:
        _print_gamma(report)
    if report.gamma is None:
        raise typer.Exit(1)


def _numbers(text: str, option: str = "--codes") -> list[list[float]]:
    """Codes from the command line: values apart by semicolons, or by commas where each has one code.

    >>> _numbers("-1,1"), _numbers("1,0; 0,1")
    ([[-1.0], [1.0]], [[1.0, 0.0], [0.0, 1.0]])
    """
    rows = [row.split(",") for row in text.split(";")] if ";" in text else [[code] for code in text.split(",")]
    try:
        return [[float(code) for code in row] for row in rows]
    except ValueError as error:
        raise InputError(f'{option} {text!r}: {error}; write numbers as in "-1,1" or "1,-1; -1,1".') from None


def _print_gamma(report: GammaReport) -> None:
    from bornfair.training.gamma import EQUATION

    if report.gamma is None:
        tell(f"{report.reason}.", "")
    else:
        tell(
            f"γ = {report.gamma:g} preserves fairness ({report.reason}): each of the {report.values:,} sensitive "
            f"values is answered with probability 1/{report.values:,}.",
            "",
        )
    tell(f"The equation of a row's own value, with k = {report.values:,}: {EQUATION}.", "")
    rows = [(column.name, column.sum_text) for column in report.columns[:MOST_INPUTS]]
    print_table("Σ c, the codes of all sensitive values", ["input", "sum"], rows, numbers_from=99)
    if report.population is not None:
        _print_population(report.population)
    if report.noise:
        off = f"off by {report.tolerance:g}, {report.draws:,} draw{'s' if report.draws > 1 else ''}"
        lines = [
            (one.column, f"{one.variance:.4g}", f"{one.chance:.4g}", f"{one.draws_needed:,}")
            for one in report.noise[:MOST_INPUTS]
        ]
        print_table(
            "What a sampled response adds (Chebyshev)",
            ["input", "variance of a draw", (f"chance to be {off}", "at most"), f"draws for {report.confidence:.4g}"],
            lines,
        )
    if len(report.columns) > MOST_INPUTS:
        tell(f"{len(report.columns) - MOST_INPUTS:,} more inputs are in --json.")
    for note in report.notes:
        tell(f"Note: {note}.")


def _print_population(population: PopulationGamma) -> None:
    found = "no γ" if population.gamma is None else f"γ = {population.gamma:.6g}"
    tell(
        f"The population reading of Algorithm 1 (a row meets everybody's randomised value): {population.equation}.",
        f"{found}: {population.reason}; {population.note}.",
        "",
    )
    rows = [(one.column, f"{one.mean:.6g}") for one in population.means[:MOST_INPUTS]]
    print_table("c̄, the mean code of the people", ["input", "mean"], rows)
