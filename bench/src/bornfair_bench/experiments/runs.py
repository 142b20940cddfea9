"""Many trainings, one file each: an interrupted experiment goes on where it stopped, and no finished run is redone.

A run is named by everything that determines it. Its result is written to `FOLDER/runs/NAME.json`, whole or not at all;
the results of all of them to `FOLDER/EXPERIMENT.csv`, `.json`, `.svg` and `.png`.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from bornfair import __version__, datasets
from bornfair.core.clock import Say
from bornfair.core.errors import InputError, shown
from bornfair.core.files import write_atomically
from bornfair.parallel import Jobs, Workers
from bornfair_bench.experiments import plots
from bornfair_bench.experiments.printout import Lines, Outcome, Printout, Table


def silent(_: str) -> None:
    """Nowhere."""


@dataclass(frozen=True)
class Run:
    """One method on one split of one dataset."""

    dataset: str
    sensitive: str
    method: str
    seed: int
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps([__version__, self.options], default=str).encode()).hexdigest()[:8]
        return f"{self.dataset}-{self.sensitive}-{self.method}-{self.seed}-{digest}"


@dataclass(frozen=True)
class Folder:
    """Where an experiment keeps its runs and its results."""

    path: Path

    def finished(self, run: Run) -> Outcome | None:
        file = self._file(run)
        if not file.is_file():
            return None
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"'{file}' is not a finished run ({error}); delete it to run it again.") from error

    def keep(self, run: Run, outcome: Outcome) -> Outcome:
        whole = asdict(run) | {"options": dict(run.options)} | outcome
        write_atomically(self._file(run), json.dumps(whole, ensure_ascii=False, indent=1) + "\n")
        return whole

    def _file(self, run: Run) -> Path:
        return self.path / "runs" / f"{run.name}.json"


@dataclass(frozen=True)
class Experiment:
    """Trainings that are compared: which runs there are, how one is measured, and what is shown of all of them."""

    name: str
    rows: Sequence[tuple[str, str]]
    """Datasets, each with a sensitive column."""
    methods: Sequence[str]
    measure: Callable[[Run], Outcome]
    draw: Callable[[Sequence[Outcome]], Any]
    tables: Mapping[str, Callable[[Sequence[Outcome]], Lines]]
    """What is printed: titles, with what was chosen in braces, and their tables."""
    numbers_from: int = 1
    more_rows: Sequence[tuple[str, str]] = ()
    """Rows that are left out unless their dataset is asked for by name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of every run; the number of epochs can be chosen."""
    networks: Mapping[str, int] = field(default_factory=dict)
    """Epochs by network, where networks are compared too; the large one is trained once, unless epochs are given."""
    alternating: bool = False
    """Whether the methods take turns, so that a busy moment of the machine meets all of them alike."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What stands in the JSON beside the runs: the paper's numbers, for instance."""
    listed: Callable[[Sequence[Outcome]], Sequence[Outcome]] = list
    """What CSV and JSON list, if not the outcomes themselves."""
    findings: Callable[[Sequence[Outcome]], list[str]] | None = None

    def run(
        self, folder: str | Path, *, rows: Sequence[tuple[str, str]] | None = None, names: Sequence[str] | None = None,
        methods: Sequence[str] | None = None, widths: Sequence[str] | None = None, seeds: int = 3,
        epochs: int | None = None, jobs: Jobs = None, cluster: str | None = None,
        say: Say = silent,
    ) -> list[Outcome]:  # fmt: skip
        """Run all that is not in the folder yet, and write CSV, JSON and figure. Datasets not here are left out."""
        usual = rows or self.rows
        offered = rows or [*self.rows, *self.more_rows]
        wanted = known(
            names or [name for name, _ in usual], list(dict.fromkeys(name for name, _ in offered)), "dataset"
        )
        chosen, networks = known(methods, self.methods, "method"), known(widths, list(self.networks), "network")
        fixed = dict(self.options) | ({} if epochs is None else {"epochs": epochs})
        variants = [{"epochs": self.networks[name], "hidden": name} | fixed for name in networks] or [fixed]
        runs = [
            Run(name, sensitive, method, seed, tuple(sorted(options.items())))
            for name, sensitive in offered
            if name in wanted
            for options in variants
            for method in chosen
            for seed in range(1 if options.get("hidden") == "large" and epochs is None else seeds)
        ]
        if self.alternating:
            runs.sort(key=lambda run: run.seed)
        place = Folder(Path(folder))
        outcomes = run_all(_here(runs, say), self.measure, place, jobs=jobs, cluster=cluster, say=say)
        write_results(place, self.name, self.listed(outcomes), **self.facts, seeds=seeds, methods=chosen)
        plots.save(self.draw(outcomes), place.path / self.name)
        return outcomes

    def report(self, *, folder: Path, say: Say, **choices: Any) -> Printout:
        """The same, to be printed."""
        began = time.monotonic()
        outcomes = self.run(folder, say=say, **choices)
        found = {} if self.findings is None else {"findings": self.findings(outcomes)}
        took = f"{len(outcomes)} runs; this command took {(time.monotonic() - began) / 60:.1f} min."
        sentences = [*found.get("findings", []), took, f"Runs, CSV, JSON and plots: {folder}"]
        tables = [
            Table(title.format(**choices), table(outcomes), self.numbers_from) for title, table in self.tables.items()
        ]
        return Printout({"out": str(folder)} | found | {"runs": outcomes}, tables, sentences)


@dataclass
class Progress:
    """How far an experiment is, and how long it may still take."""

    total: int
    say: Say
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    def step(self, outcome: Outcome) -> None:
        self.done += 1
        left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
        what = f"{outcome['dataset']} ({outcome['sensitive']}), {outcome['method']}, seed {outcome['seed']}"
        self.say(f"[{self.done} of {self.total}, about {left / 60:.1f} min left] {what}: {outcome['seconds']:.1f} s")


def _here(runs: Sequence[Run], say: Say) -> list[Run]:
    absent = [name for name in dict.fromkeys(run.dataset for run in runs) if datasets.where(name) is None]
    for name in absent:
        say(f"{name} is not here and is left out; see: bornfair datasets list")
    return [run for run in runs if run.dataset not in absent]


def run_all(
    runs: Sequence[Run],
    work: Callable[[Run], Outcome],
    folder: Folder,
    *,
    jobs: Jobs = None,
    cluster: str | None = None,
    say: Say = silent,
) -> list[Outcome]:
    """The outcomes of all runs, in their order; those that are finished already are read. Whoever does them, they are
    kept here.
    """
    open_runs = [run for run in runs if folder.finished(run) is None]
    if len(open_runs) < len(runs):
        say(f"{len(runs) - len(open_runs)} of {len(runs)} runs were finished before, in {folder.path}")
    progress = Progress(len(open_runs), say)
    with Workers.of(jobs, cluster) as workers:
        for i, outcome in workers.finished(work, open_runs):
            progress.step(folder.keep(open_runs[i], outcome))
    outcomes = [folder.finished(run) for run in runs]
    return [outcome for outcome in outcomes if outcome is not None]


def write_results(folder: Folder, name: str, outcomes: Sequence[Outcome], **facts: Any) -> list[Path]:
    """All runs as CSV, and as JSON with everything needed to redo them."""
    ours = {"bornfair": __version__} | versions("jax", "optax", "numpy", "scikit-learn")
    document = {"experiment": name, **facts, "versions": ours, "runs": list(outcomes)}
    plain = [{k: v for k, v in o.items() if not isinstance(v, (dict, list))} for o in outcomes]
    columns = list(dict.fromkeys(key for row in plain for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(plain)
    return [
        write_atomically(folder.path / f"{name}.csv", text.getvalue()),
        write_atomically(folder.path / f"{name}.json", json.dumps(document, ensure_ascii=False, indent=1) + "\n"),
    ]


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def known(chosen: Iterable[str] | None, all_names: Sequence[str], what: str) -> list[str]:
    """The names asked for, in the order of all of them; all if none is."""
    wanted = list(chosen or all_names)
    for name in wanted:
        if name not in all_names:
            raise InputError(f"{what} {name!r} is not known here; use {shown(all_names)}.")
    return [name for name in all_names if name in wanted]
