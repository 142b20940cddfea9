"""bornfair bench: the measurements behind the claims, each with one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bornfair.cli.output import LARGEST_SEED, print_json, print_table, say, tell

app = typer.Typer(help="Measurements behind the claims.", no_args_is_help=True, rich_markup_mode=None)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Datasets = Annotated[list[str] | None, typer.Option(help="Only this dataset; repeat for several.")]
Methods = Annotated[list[str] | None, typer.Option(help="Only this method; repeat for several.")]
Seeds = Annotated[int, typer.Option(help="How many splits, each with its own seed.")]
Jobs = Annotated[int, typer.Option(help="Trainings at the same time.")]
Seed = Annotated[
    int, typer.Option(min=0, max=LARGEST_SEED, help="The same seed gives the same numbers (but not the same seconds).")
]


@app.callback()
def _group() -> None:
    """Measurements behind the claims."""


@app.command()
def preservation(
    epochs: Annotated[int, typer.Option(help="Epochs of training.")] = 100,
    people: Annotated[int, typer.Option(help="People for the attack over whole numbers.")] = 300,
    crossings: Annotated[int, typer.Option(help="Decision boundaries to cross in the attack over real numbers.")] = 250,
    row: Annotated[list[str] | None, typer.Option(help="Only this row (start/response); repeat for several.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Does fairness survive training? Starts and responses on census, attacked over people who could exist."""
    from bornfair.experiments import preservation as experiment

    outcomes = experiment.run(seed=seed, epochs=epochs, people=people, crossings=crossings, rows=row, say=say)
    if json:
        print_json({"rows": [outcome.to_json() for outcome in outcomes]})
        return
    headers, *cells = experiment.table(outcomes)
    print_table("Census, sensitive: sex. Twins with different decisions found", headers, cells, numbers_from=2)
    for outcome in outcomes:
        if outcome.integer_twins is not None:
            tell("", f"{outcome.start}, {outcome.response}: {_told(outcome.integer_twins)}")


@app.command()
def accuracy(
    dataset: Annotated[str, typer.Option(help="A built-in dataset.")] = "census",
    sensitive: Annotated[list[str] | None, typer.Option(help="A sensitive column; repeat for several.")] = None,
    preset: Annotated[str, typer.Option(help="default or paper.")] = "paper",
    seeds: Annotated[int, typer.Option(help="How many splits.")] = 5,
    json: Json = False,
) -> None:
    """What does fairness cost? Ours beside training without the sensitive column, and with it."""
    from bornfair.experiments import accuracy as experiment

    names = sensitive or ["sex"]
    outcomes = experiment.run(dataset=dataset, sensitive=names, preset=preset, seeds=seeds, say=say)
    if json:
        print_json({"dataset": dataset, "sensitive": names, "preset": preset, "runs": [o.to_json() for o in outcomes]})
        return
    title = f"{dataset}, sensitive: {', '.join(names)}; preset {preset}, {seeds} splits, 20 % kept aside"
    print_table(title, experiment.HEADERS, experiment.table(outcomes))


@app.command()
def speed(
    repeats: Annotated[int, typer.Option(help="Rounds in which every contender runs once.")] = 7,
    json: Json = False,
) -> None:
    """Seconds per epoch on one core, side by side: ours plain and fair, PyTorch, scikit-learn."""
    from bornfair.experiments.speed import run_epochs

    report = run_epochs(repeats=repeats, say=say)
    if json:
        print_json(report.to_json())
        return
    _print_report(report.title(), report.table())
    _print_report("Ratios of medians", report.ratio_table())


@app.command()
def scaling(json: Json = False) -> None:
    """Rows per second and memory for 1e5, 1e6 and 1e7 rows, and the network of 8.6 million parameters."""
    from bornfair.experiments.scaling import run_large, run_scaling

    report, large = run_scaling(say=say), run_large(say=say)
    if json:
        print_json({"scaling": report.to_json(), "large": large.to_json()})
        return
    _print_report(report.title(), report.table())
    _print_report("Claims", report.claim_table())
    _print_report(large.title(), large.table())


@app.command()
def table1(
    dataset: Annotated[list[str] | None, typer.Option(help="Only this dataset; repeat for several.")] = None,
    engine: Annotated[list[str] | None, typer.Option(help="Only this engine (auto, bounds, smt, milp).")] = None,
    start: Annotated[list[str] | None, typer.Option(help="Only this start; repeat for several.")] = None,
    partitions: Annotated[int | None, typer.Option(help="Parts for smt; by default as in the paper.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each question.")] = 1800.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """The paper's Table 1 beside ours: are the starts provably fair, and how long does it take to know?"""
    from bornfair.experiments import table1 as experiment

    rows = experiment.run(
        names=dataset, starts=start or experiment.STARTS, engines=engine or experiment.ENGINES,  # type: ignore[arg-type]
        partitions=partitions, timeout=timeout, seed=seed, say=say,
    )  # fmt: skip
    if json:
        print_json({"rows": [row.to_json() for row in rows]})
        return
    print_table("Starts of the paper's network", experiment.HEADERS, [row.cells() for row in rows], numbers_from=4)
    for line in experiment.ratios(rows):
        tell(line)


@app.command()
def table2(
    dataset: Datasets = None,
    method: Methods = None,
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    epochs: Annotated[int | None, typer.Option(help="Epochs, for a quick look; by default as documented.")] = None,
    out: Annotated[Path, typer.Option(help="Where runs and results are kept.")] = Path("bench-output/table2"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """The paper's Table 2 beside ours: fairness of test people and accuracy, all datasets, all methods."""
    from bornfair.experiments import table2 as experiment

    options = {} if epochs is None else {"epochs": epochs}
    outcomes = experiment.run(out, names=dataset, methods=method, seeds=seeds, jobs=jobs, options=options, say=say)
    if json:
        print_json({"out": str(out), "findings": experiment.findings(outcomes), "runs": outcomes})
        return
    note = f"mean ± deviation of {seeds} splits / paper, %"
    _print_report(f"Decision survives the flip, {note}", experiment.table(outcomes, "empirical_fairness"))
    _print_report(f"Accuracy, {note}", experiment.table(outcomes, "accuracy"))
    tell(*experiment.findings(outcomes))
    tell(f"Runs, CSV, JSON and plots: {out}")


@app.command()
def iterations(
    method: Methods = None,
    seeds: Seeds = 3,
    epochs: Annotated[int, typer.Option(help="Epochs (LCIFR: of each of its two phases).")] = 100,
    out: Annotated[Path, typer.Option(help="Where runs and results are kept.")] = Path("bench-output/iterations"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """The paper's Figure 4: fairness, accuracy and time after each epoch on census. One process, so times compare."""
    from bornfair.experiments import iterations as experiment

    outcomes = experiment.run(out, methods=method, seeds=seeds, epochs=epochs, say=say)
    if json:
        print_json({"out": str(out), "runs": outcomes})
        return
    _print_report(f"Census, sensitive: sex; {epochs} epochs, {seeds} seeds", experiment.table(outcomes))
    tell(f"Runs, CSV, JSON and plots: {out}")


@app.command()
def configurations(
    network: Annotated[list[str] | None, typer.Option(help="Only this network (shallow, paper, deep, large).")] = None,
    method: Methods = None,
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    epochs: Annotated[int | None, typer.Option(help="Epochs, for a quick look; by default 100, large 5.")] = None,
    out: Annotated[Path, typer.Option(help="Where runs and results are kept.")] = Path("bench-output/configurations"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """The paper's Figure 5: networks from [16] to [2048, 2048, 2048, 4] on census."""
    from bornfair.experiments import configurations as experiment

    outcomes = experiment.run(out, widths=network, methods=method, seeds=seeds, epochs=epochs, jobs=jobs, say=say)
    if json:
        print_json({"out": str(out), "runs": outcomes})
        return
    _print_report(f"Census, sensitive: sex; {seeds} seeds", experiment.table(outcomes))
    tell(f"Runs, CSV, JSON and plots: {out}")


@app.command()
def audit(
    models: Annotated[Path, typer.Option(help="A folder of .nnet files.")],
    sensitive: Annotated[
        list[str] | None, typer.Option(help="Sensitive inputs; by default those of the public files.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each question.")] = 60.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """A verdict for every network of a folder, such as the public ones of Fairify and FairQuant. One core."""
    from bornfair.experiments import audit as experiment
    from bornfair.experiments.speed import pin_to_one_core

    pin_to_one_core()
    audited = experiment.run(models, sensitive=sensitive, timeout=timeout, seed=seed, say=say)
    if json:
        print_json({"audited": [row.to_json() for row in audited]})
        return
    print_table(str(models.name), experiment.HEADERS, [row.cells() for row in audited], numbers_from=7)
    tell(experiment.summary(audited))


@app.command()
def twins(
    dataset: Datasets = None,
    method: Methods = None,
    seeds: Seeds = 3,
    jobs: Jobs = 1,
    epochs: Annotated[int | None, typer.Option(help="Epochs, for a quick look.")] = None,
    out: Annotated[Path, typer.Option(help="Where runs and results are kept.")] = Path("bench-output/twins"),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What do declared twins cost and change? ERM, unaware, flip-fair, swap-fair and repaired, on census and credit."""
    from bornfair.experiments import twins_comparison as experiment

    outcomes = experiment.run(out, names=dataset, methods=method, seeds=seeds, epochs=epochs, jobs=jobs, say=say)
    if json:
        print_json({"out": str(out), "runs": outcomes})
        return
    print_table(f"Mean of {seeds} splits", experiment.HEADERS, experiment.table(outcomes), numbers_from=2)
    tell(f"Runs, CSV, JSON and plots: {out}")


@app.command()
def quantify(
    models: Annotated[Path, typer.Option(help="The folder of the public .nnet files.")],
    anchors: Annotated[Path, typer.Option(help="What FairQuant reached on them (CSV).")],
    only: Annotated[list[str] | None, typer.Option(help="Only this network; repeat for several.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for each question.")] = 60.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Which share of the domain is left undecided, beside FairQuant's. One core."""
    from bornfair.experiments import quantify_anchors as experiment
    from bornfair.experiments.speed import pin_to_one_core

    pin_to_one_core()
    rows = experiment.compare(models, anchors, timeout, only, seed=seed, say=say)
    if json:
        print_json({"rows": [row.to_json() for row in rows]})
        return
    print_table("Shares of the domain, %", experiment.HEADERS, [row.cells() for row in rows], numbers_from=2)
    tell(experiment.summary(rows))


@app.command()
def repair(
    models: Annotated[Path, typer.Option(help="The folder of the public .nnet files.")],
    adult_test: Annotated[
        Path | None, typer.Option(help="The adult.test file, to measure on the rows the networks' authors kept aside.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Repair the public networks of Fairify: verdict and accuracy before and after."""
    from bornfair.experiments import repair_anchors as experiment

    outcomes = experiment.run(models, adult_test=adult_test, seed=seed, say=say)
    if json:
        print_json({"rows": [outcome.to_json() for outcome in outcomes]})
        return
    print_table("Repaired", experiment.HEADERS, [experiment.row(outcome) for outcome in outcomes], numbers_from=2)


def _print_report(title: str, lines: list[tuple[str, ...]]) -> None:
    headers, *cells = lines
    print_table(title, headers, cells)


def _told(twins: Any) -> str:
    """Two people in one sentence."""
    shared = ", ".join(f"{name} {value}" for name, value in twins.person.items())
    pairs = zip(twins.sensitive, twins.decisions, strict=True)
    versions = ", ".join(f"{' '.join(map(str, who.values()))}: {decision}" for who, decision in pairs)
    return f"{versions} — both {shared}."
