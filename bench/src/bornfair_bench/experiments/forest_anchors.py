"""Public ensembles of trees: how soon each is decided, and how much of its domain is left open beside plain splitting
of boxes, which bounds every tree by itself and credits no parts of boxes.

Seconds are the processor's, so that they mean the same whatever else a machine does; those of the process in which the
original replays twins are not among them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bornfair.core.clock import Clock, Say
from bornfair.core.errors import InputError, shown
from bornfair.models.forest.model import ForestModel
from bornfair.people.domain import Domain
from bornfair.people.features import RealFeature
from bornfair.quantification.cells import shares_of_forest
from bornfair.quantification.records import Confident
from bornfair.questions import Question, verify
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair_bench.experiments.runs import silent
from bornfair_bench.experiments.timing import pin_to_one_core

ASKED = {"adult": ("sex", "race", "age"), "german_credit": ("Age",)}
"""Which features are asked about, by what the name of a file begins with."""
DECIDING = 30.0  # seconds at most

COLUMNS: Columns = (
    ("ensemble", lambda row: row["model"]),
    ("sensitive", lambda row: row["sensitive"]),
    ("verdict", lambda row: row["verdict"]),
    ("s", lambda row: f"{row['deciding']:.1f}"),
    ("undecided: plain", lambda row: f"{100 * row['plain']['undecided']:.1f}"),
    ("ours", lambda row: f"{100 * row['undecided']:.1f}"),
    ("ratio", lambda row: f"{row['ratio']:.2f}"),
    ("proven fair", lambda row: f"{100 * row['certified']:.1f}"),
    ("proven unfair", lambda row: f"{100 * row['falsified']:.1f}"),
    ("unfair, confident", lambda row: f"{100 * row['low']:.2f} to {100 * row['high']:.2f}"),
)


def compare(
    folder: str | Path, *, timeout: float = 60.0, only: Sequence[str] | None = None, seed: int = 0, say: Say = silent
) -> list[Outcome]:
    """Every ensemble of the folder (or those named), each sensitive feature in turn: NAME_….json with the range of each
    input in NAME.details.csv (columns name, lb, ub).
    """
    place, rows = Path(folder), list[Outcome]()
    for path, family in ensembles(place, only):
        for sensitive in ASKED[family]:
            domain = _domain(place / f"{family}.details.csv", sensitive)
            rows.append(_row(path, domain, timeout, seed))
            say("  ".join(lines(COLUMNS, rows[-1:])[1]))
    return rows


def report(*, models: Path, say: Say, **choices: Any) -> Printout:
    pin_to_one_core()
    rows = compare(models, say=say, **choices)
    return of_rows("Shares of the domain, %", COLUMNS, rows, numbers_from=3, sentences=[summary(rows)])


def summary(rows: Sequence[Outcome]) -> str:
    half = sum(row["ratio"] <= 0.5 for row in rows)
    slowest = max(row["deciding"] for row in rows)
    undecided = sum(row["verdict"] == "undecided" for row in rows)
    return (
        f"Of {len(rows)} questions, all but {undecided} are decided, the slowest "
        f"after {slowest:.1f} s; {half} leave at most half of what plain splitting leaves undecided."
    )


def ensembles(folder: Path, only: Sequence[str] | None = None) -> list[tuple[Path, str]]:
    """The files of a folder (or those named), each with what its name begins with."""
    paths = [path for path in sorted(folder.glob("*.json")) if _family(path) and (not only or path.stem in only)]
    if not paths:
        raise InputError(f"'{folder}' holds no ensemble of {shown(ASKED)} (NAME_….json); name another folder.")
    return [(path, _family(path)) for path in paths]


def _family(path: Path) -> str:
    return next((name for name in ASKED if path.name.startswith(f"{name}_t")), "")


def _domain(path: Path, sensitive: str) -> Domain:
    try:
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
        features = [RealFeature(name=row["name"], low=float(row["lb"]), high=float(row["ub"])) for row in rows]
    except (OSError, KeyError, ValueError) as error:
        raise InputError(
            f"cannot read the ranges of inputs from '{path}' ({error}); it lists name, lb and ub."
        ) from error
    return Domain(features=tuple(features), sensitive=(sensitive,))


def _row(path: Path, domain: Domain, timeout: float, seed: int) -> Outcome:
    clock = Clock.of_processor(DECIDING)
    verdict = verify(path, domain, timeout=clock, seed=seed)
    deciding, model = clock.spent, Question.of(path, domain).model
    assert isinstance(model, ForestModel)
    plain = shares_of_forest(model, timeout=Clock.of_processor(timeout), moments=False, most_samples=0, seed=seed)
    found = shares_of_forest(model, timeout=Clock.of_processor(timeout), seed=seed)
    sure = found.confident or Confident(0.0, 1.0)
    return {
        "model": path.stem,
        "sensitive": domain.sensitive[0],
        "verdict": verdict.answer,
        "deciding": deciding,
        "replayed_by": "" if model.original is None else model.original.runtime,
        "plain": {"undecided": plain.undecided, "certified": plain.certified, "boxes": plain.boxes},
        "certified": found.certified,
        "falsified": found.falsified,
        "undecided": found.undecided,
        "ratio": found.undecided / plain.undecided if plain.undecided else float("inf"),
        "low": sure.low,
        "high": sure.high,
        "samples": sure.samples,
        "boxes": found.boxes,
        "seconds": found.seconds,
    }
