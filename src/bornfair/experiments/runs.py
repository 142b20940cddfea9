"""Many trainings, one file each: an interrupted experiment goes on where it stopped, and no finished run is redone.

A run is named by everything that determines it. Its result is written to `FOLDER/runs/NAME.json`, whole or not at all.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from bornfair import __version__
from bornfair.errors import InputError, shown
from bornfair.files import write_atomically

Outcome = dict[str, Any]


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


@dataclass
class Progress:
    """How far an experiment is, and how long it may still take."""

    total: int
    jobs: int
    say: Callable[[str], None] | None
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    def step(self, outcome: Outcome) -> None:
        self.done += 1
        if self.say is None:
            return
        left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
        what = f"{outcome['dataset']} ({outcome['sensitive']}), {outcome['method']}, seed {outcome['seed']}"
        self.say(f"[{self.done} of {self.total}, about {left / 60:.1f} min left] {what}: {outcome['seconds']:.1f} s")


def run_all(
    runs: Sequence[Run],
    work: Callable[[Run], Outcome],
    folder: Folder,
    *,
    jobs: int = 1,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """The outcomes of all runs, in their order; those that are finished already are read."""
    if jobs < 1:
        raise InputError(f"jobs must be at least 1, found {jobs}.")
    open_runs = [run for run in runs if folder.finished(run) is None]
    if say and len(open_runs) < len(runs):
        say(f"{len(runs) - len(open_runs)} of {len(runs)} runs were finished before, in {folder.path}")
    progress = Progress(len(open_runs), jobs, say)
    if jobs == 1:
        for run in open_runs:
            progress.step(folder.keep(run, work(run)))
    elif open_runs:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        for outcome in parallel(delayed(_work_and_keep)(work, run, folder) for run in open_runs):
            progress.step(outcome)
    outcomes = [folder.finished(run) for run in runs]
    return [outcome for outcome in outcomes if outcome is not None]


def _work_and_keep(work: Callable[[Run], Outcome], run: Run, folder: Folder) -> Outcome:
    return folder.keep(run, work(run))


def write_results(folder: Folder, name: str, outcomes: Sequence[Outcome], **facts: Any) -> list[Path]:
    """All runs as CSV, and as JSON with everything needed to redo them."""
    document = {"experiment": name, **facts, "versions": versions(), "runs": list(outcomes)}
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


def versions() -> dict[str, str]:
    packages = ("jax", "optax", "numpy", "scikit-learn")
    return {"bornfair": __version__, "python": platform.python_version()} | {p: metadata.version(p) for p in packages}


def known(chosen: Iterable[str] | None, all_names: Sequence[str], what: str) -> list[str]:
    """The names asked for, in the order of all of them; all if none is."""
    wanted = list(chosen or all_names)
    for name in wanted:
        if name not in all_names:
            raise InputError(f"{what} {name!r} is not known here; use {shown(all_names)}.")
    return [name for name in all_names if name in wanted]
