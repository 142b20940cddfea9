"""Our shares beside those of FairQuant: every row of a table of its results, on the same networks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bornfair.core.clock import Clock, Say
from bornfair.core.errors import InputError
from bornfair.quantification.measure import shares_of
from bornfair.quantification.records import NOTHING_SEEN, Shares
from bornfair.questions import Question
from bornfair_bench.experiments import plots
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair_bench.experiments.runs import silent
from bornfair_bench.experiments.timing import pin_to_one_core

NEEDED = ("model", "pa_index", "protected", "cer_rate_pct", "fal_rate_pct", "und_rate_pct", "unfair_reference_pct")


COLUMNS: Columns = (
    ("network", lambda row: row["model"]),
    ("sensitive", lambda row: row["sensitive"]),
    ("undecided: FairQuant", lambda row: f"{row['theirs_undecided']:.2f}"),
    ("ours", lambda row: f"{row['undecided']:.3f}"),
    ("ratio", lambda row: f"{row['ratio']:.2f}"),
    ("certified", lambda row: f"{row['certified']:.3f}"),
    ("falsified", lambda row: f"{row['falsified']:.3g}"),
    ("unfair, confident", lambda row: f"{row['low']:.4f} to {row['high']:.4f}"),
    ("wide", lambda row: f"{row['high'] - row['low']:.4f}"),
    ("sampled", lambda row: f"{row['samples']:,}"),
    ("boxes: FairQuant", lambda row: "" if row["theirs_boxes"] is None else f"{row['theirs_boxes']:,}"),
    ("ours", lambda row: f"{row['boxes']:,}"),
    ("a second: FairQuant", lambda row: "" if row["theirs_pace"] is None else f"{row['theirs_pace']:,.0f}"),
    ("ours", lambda row: f"{row['pace']:,.0f}"),
    ("s", lambda row: f"{row['seconds']:.1f}"),
)
"""Shares are in percent. Boxes a second are counted while boxes are bounded, without what is sampled or credited."""


def compare(
    models_dir: str | Path,
    anchors_csv: str | Path,
    *,
    timeout: float = 60.0,
    only: Sequence[str] | None = None,
    folder: Path | None = None,
    jobs: int | None = None,
    seed: int = 0,
    say: Say = silent,
) -> list[Outcome]:
    """Measure every row of the table (or the models named), to be read beside what FairQuant reached; draw into the
    folder how the undecided share falls. Of one job, the timeout is in seconds of the processor.
    """
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
        model = Question.of(path, sensitive_features=sensitive, normalise="no").network_model  # they take raw numbers
        clock = Clock.of_processor(timeout) if jobs == 1 else Clock(timeout)
        rows.append(_row(line, shares_of(model, timeout=clock, jobs=jobs, seed=seed)))
        if folder is not None:
            draw(rows[-1], folder / f"{line['model']}-{line['protected']}")
        say("  ".join(lines(COLUMNS, rows[-1:])[1]))
    return rows


def report(*, models: Path, anchors: Path, folder: Path, jobs: int | None = None, say: Say, **choices: Any) -> Printout:
    if jobs in (None, 1):
        pin_to_one_core()
    rows = compare(models, anchors, folder=folder, jobs=jobs, say=say, **choices)
    told = [summary(rows), f"How the undecided share falls is drawn in {folder}."]
    return of_rows("Shares of the domain, %", COLUMNS, rows, numbers_from=2, sentences=told)


def draw(row: Outcome, place: Path) -> None:
    """The undecided share against time, beside what FairQuant leaves in the end."""
    drawn, axes = plots.figure(1, 1, size=(5.5, 3.4))
    title = f"{row['model']}, {row['sensitive']}"
    plots.plain_axes(axes[0][0], x="seconds", y="undecided, % of the domain", title=title)
    *searching, end = row["history"]
    seconds, undecided = ([moment[name] for moment in searching] for name in ("seconds", "undecided"))
    axes[0][0].plot(seconds, undecided, color="#0057b8", linewidth=1.4, label="ours, as bounds let expect")
    axes[0][0].plot([end["seconds"]], [end["undecided"]], "*", color="#0057b8", markersize=10, label="ours, proven")
    axes[0][0].axhline(row["theirs_undecided"], color="#777777", linestyle="--", label="FairQuant, at its end")
    axes[0][0].set(ylim=(0, None))
    axes[0][0].legend(frameon=False)
    place.parent.mkdir(parents=True, exist_ok=True)
    plots.save(drawn, place)


def summary(rows: Sequence[Outcome]) -> str:
    below, third = sum(row["ratio"] < 1 for row in rows), sum(row["ratio"] <= 1 / 3 for row in rows)
    widest = max((row["high"] - row["low"] for row in rows), default=0.0)
    return (
        f"Of {len(rows)} questions, {below} leave less undecided than FairQuant, {third} at most a third of it; no "
        f"interval of the unfair share is wider than {widest:.4f} points."
    )


def _row(line: dict[str, str], found: Shares) -> Outcome:
    """One network and sensitive input; shares are in percent. The ratio is our undecided share by theirs."""
    theirs, ours = float(line["und_rate_pct"]), 100 * found.undecided
    sure = found.confident or found.proven_interval
    boxes, seconds = (
        float(line.get(name) or "nan") for name in ("solved_subproblems", "completed_time_s_instrumented")
    )
    return {
        "model": line["model"],
        "sensitive": line["protected"],
        "theirs_undecided": theirs,
        "undecided": ours,
        "certified": 100 * found.certified,
        "falsified": 100 * found.falsified,
        "estimate": 100 * (found.estimate or NOTHING_SEEN).unfair,
        "reference": float(line["unfair_reference_pct"]),
        "low": 100 * sure.low,
        "high": 100 * sure.high,
        "confidence": sure.confidence,
        "samples": sure.samples,
        "theirs_boxes": int(boxes) if boxes == boxes else None,
        "boxes": found.boxes,
        "theirs_pace": boxes / seconds if seconds > 0 else None,
        "pace": _pace(found),
        "seconds": found.seconds,
        "history": [
            {"seconds": moment.seconds, "boxes": moment.boxes, "undecided": 100 * moment.undecided}
            for moment in found.history
        ],
        "reason": found.reason,
        "ratio": ours / theirs if theirs else float("inf"),
    }


def _pace(found: Shares) -> float:
    """Boxes a second from the first moment of the search to its last."""
    searched = found.history[:-1]
    spent = searched[-1].seconds - searched[0].seconds if searched else 0.0
    return (searched[-1].boxes - searched[0].boxes) / spent if spent > 0 else 0.0
