"""Our shares beside those of FairQuant: every row of a table of its results, on the same networks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bornfair.errors import InputError
from bornfair.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair.experiments.runs import silent
from bornfair.experiments.timing import pin_to_one_core
from bornfair.quantification.measure import shares_of
from bornfair.quantification.records import NOTHING_SEEN, Shares
from bornfair.question import load_model
from bornfair.verification.clock import Say

NEEDED = ("model", "pa_index", "protected", "cer_rate_pct", "fal_rate_pct", "und_rate_pct", "unfair_reference_pct")


COLUMNS: Columns = (
    ("network", lambda row: row["model"]),
    ("sensitive", lambda row: row["sensitive"]),
    ("undecided: FairQuant", lambda row: f"{row['theirs_undecided']:.2f}"),
    ("ours", lambda row: f"{row['undecided']:.3f}"),
    ("ratio", lambda row: f"{row['ratio']:.2f}"),
    ("certified", lambda row: f"{row['certified']:.3f}"),
    ("falsified", lambda row: f"{row['falsified']:.3g}"),
    ("unfair, estimated", lambda row: f"{row['estimate']:.3f}"),
    ("boxes", lambda row: f"{row['boxes']:,}"),
    ("s", lambda row: f"{row['seconds']:.1f}"),
)


def compare(
    models_dir: str | Path,
    anchors_csv: str | Path,
    *,
    timeout: float = 60.0,
    only: Sequence[str] | None = None,
    seed: int = 0,
    say: Say = silent,
) -> list[Outcome]:
    """Measure every row of the table (or the models named), to be read beside what FairQuant reached."""
    try:
        text = Path(anchors_csv).read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read the table '{anchors_csv}': {error}") from error
    theirs = list(csv.DictReader(text.splitlines()))
    missing = [name for name in NEEDED if not theirs or name not in theirs[0]]
    if missing:
        raise InputError(f"'{anchors_csv}' lacks the columns {missing}; it needs {list(NEEDED)}.")
    rows = []
    for line in theirs:
        if only and line["model"] not in only:
            continue
        path, sensitive = Path(models_dir) / f"{line['model']}.nnet", [int(line["pa_index"])]
        model = load_model(path, sensitive=sensitive, normalise="no")  # they take raw numbers
        rows.append(_row(line, shares_of(model, timeout=timeout, seed=seed)))
        say("  ".join(lines(COLUMNS, rows[-1:])[1]))
    return rows


def report(*, models: Path, anchors: Path, say: Say, **choices: Any) -> Printout:
    pin_to_one_core()
    rows = compare(models, anchors, say=say, **choices)
    return of_rows("Shares of the domain, %", COLUMNS, rows, numbers_from=2, sentences=[summary(rows)])


def summary(rows: Sequence[Outcome]) -> str:
    below, third = sum(row["ratio"] < 1 for row in rows), sum(row["ratio"] <= 1 / 3 for row in rows)
    return f"Of {len(rows)} questions, {below} leave less undecided than FairQuant, {third} at most a third of it."


def _row(line: dict[str, str], found: Shares) -> Outcome:
    """One network and sensitive input; shares are in percent. The ratio is our undecided share by theirs."""
    theirs, ours = float(line["und_rate_pct"]), 100 * found.undecided
    return {
        "model": line["model"],
        "sensitive": line["protected"],
        "theirs_undecided": theirs,
        "undecided": ours,
        "certified": 100 * found.certified,
        "falsified": 100 * found.falsified,
        "estimate": 100 * (found.estimate or NOTHING_SEEN).unfair,
        "reference": float(line["unfair_reference_pct"]),
        "boxes": found.boxes,
        "seconds": found.seconds,
        "reason": found.reason,
        "ratio": ours / theirs if theirs else float("inf"),
    }
