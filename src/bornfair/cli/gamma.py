"""bornfair gamma: which γ preserves fairness, why, and how noisy a sampled response is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bornfair.cli.options import Combinations, Dataset, Json, Option, Seed, Sensitive, Target, choices, rows_of
from bornfair.cli.output import print_json, print_table, tell
from bornfair.core.errors import InputError
from bornfair.people.reading import TableReading

if TYPE_CHECKING:
    from bornfair.training.gamma import GammaReport
    from bornfair.training.gamma_population import PopulationGamma

MOST_LINES = 40


@choices("people", reading=TableReading)
def gamma(
    people: Annotated[
        Path | None, typer.Argument(help="A CSV or Parquet table, or a domain.json.", show_default=False)
    ] = None,
    sensitive: Sensitive = None,
    target: Target = None,
    dataset: Dataset = None,
    codes: Annotated[
        str | None, Option(help='Ask about codes: "-1,1", or with columns "2,-1,-1; -1,2,-1; -1,-1,2".')
    ] = None,
    shares: Annotated[
        str | None, Option(help='With --codes: which share of the people has each value, as "0.67,0.33".')
    ] = None,
    combinations: Combinations = None,
    draws: Annotated[int, Option(help="Random responses whose mean is looked at.")] = 1,
    tolerance: Annotated[float, Option(help="How far their mean code may be off; codes lie between -1 and 1.")] = 0.1,
    confidence: Annotated[float, Option(help="How likely it shall stay within the tolerance.")] = 0.95,
    seed: Seed = 0,
    json: Json = False,
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
        asked = rows_of(people, reading)
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
        _print(report)
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


def _print(report: GammaReport) -> None:
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
    rows = [(column.name, column.sum_text) for column in report.columns[:MOST_LINES]]
    print_table("Σ c, the codes of all sensitive values", ["input", "sum"], rows, numbers_from=99)
    if report.population is not None:
        _print_population(report.population)
    if report.noise:
        off = f"off by {report.tolerance:g}, {report.draws:,} draw{'s' if report.draws > 1 else ''}"
        lines = [
            (one.column, f"{one.variance:.4g}", f"{one.chance:.4g}", f"{one.draws_needed:,}")
            for one in report.noise[:MOST_LINES]
        ]
        print_table(
            "What a sampled response adds (Chebyshev)",
            ["input", "variance of a draw", (f"chance to be {off}", "at most"), f"draws for {report.confidence:.4g}"],
            lines,
        )
    if len(report.columns) > MOST_LINES:
        tell(f"{len(report.columns) - MOST_LINES:,} more inputs are in --json.")
    for note in report.notes:
        tell(f"Note: {note}.")


def _print_population(population: PopulationGamma) -> None:
    found = "no γ" if population.gamma is None else f"γ = {population.gamma:.6g}"
    tell(
        f"The population reading of Algorithm 1 (a row meets everybody's randomised value): {population.equation}.",
        f"{found}: {population.reason}; {population.note}.",
        "",
    )
    rows = [(one.column, f"{one.mean:.6g}") for one in population.means[:MOST_LINES]]
    print_table("c̄, the mean code of the people", ["input", "mean"], rows)
