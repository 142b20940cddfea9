"""The paper's Table 2: fairness of test people and accuracy, six datasets, nine attributes, five methods and one more.

The paper leaves out the trivial baseline, training without the sensitive column ("unaware"); it is here.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bornfair import datasets
from bornfair.experiments import plots
from bornfair.experiments.methods import METHODS, NAMES, measure
from bornfair.experiments.runs import Folder, Outcome, Run, known, run_all, write_results

ROWS = (
    ("census", "age"), ("census", "race"), ("census", "sex"), ("bank", "age"), ("credit", "age"), ("credit", "sex"),
    ("compas", "race"), ("health", "sex"), ("law", "sex"),
)  # fmt: skip


class Published(NamedTuple):
    """The paper's numbers for ERM, LCIFR, MILP, U-DIF and its own method, in percent."""

    fairness: tuple[float, ...]
    accuracy: tuple[float, ...]


PAPER_METHODS = ("erm", "lcifr", "milp", "udif", "ours")
PAPER = {
    ("census", "age"): Published((96.80, 100.00, 92.83, 100.00, 100.00), (83.30, 83.10, 76.20, 82.12, 83.23)),
    ("census", "race"): Published((96.64, 100.00, 99.22, 100.00, 100.00), (83.30, 83.22, 78.18, 83.15, 83.24)),
    ("census", "sex"): Published((96.36, 100.00, 94.68, 99.72, 100.00), (83.30, 83.10, 83.10, 83.17, 83.23)),
    ("bank", "age"): Published((84.19, 99.94, 96.93, 100.00, 100.00), (89.00, 88.50, 88.04, 87.93, 88.51)),
    ("credit", "age"): Published((88.50, 100.00, 83.50, 100.00, 100.00), (75.50, 74.50, 75.00, 70.50, 75.50)),
    ("credit", "sex"): Published((87.00, 100.00, 90.00, 100.00, 100.00), (75.50, 75.00, 75.00, 70.49, 75.00)),
    ("compas", "race"): Published((90.11, 100.00, 95.71, 100.00, 100.00), (72.53, 66.37, 55.95, 55.37, 67.75)),
    ("health", "sex"): Published((64.10, 99.10, 96.61, 100.00, 100.00), (80.70, 80.90, 70.07, 68.93, 80.70)),
    ("law", "sex"): Published((25.60, 51.10, 98.62, 90.36, 100.00), (84.41, 84.40, 75.74, 83.96, 84.40)),
}


class Cell(NamedTuple):
    """Mean and deviation over seeds, in percent, and the paper's number."""

    mean: float
    deviation: float
    paper: float | None


def run(
    folder: str | Path,
    *,
    names: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    jobs: int = 1,
    options: dict[str, Any] | None = None,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train and measure everything asked for; datasets that are not here are left out, and said."""
    wanted = known(names, list(dict.fromkeys(name for name, _ in ROWS)), "dataset")
    chosen = known(methods, METHODS, "method")
    absent = [name for name in wanted if datasets.where(name) is None]
    for name in absent:
        if say:
            say(f"{name} is not here and is left out; see: bornfair datasets list")
    extra = tuple(sorted((options or {}).items()))
    runs = [
        Run(name, sensitive, method, seed, extra)
        for name, sensitive in ROWS
        if name in wanted and name not in absent
        for method in chosen
        for seed in range(seeds)
    ]
    place = Folder(Path(folder))
    outcomes = run_all(runs, measure, place, jobs=jobs, say=say)
    paper = {f"{name} ({attribute})": numbers._asdict() for (name, attribute), numbers in PAPER.items()}
    write_results(place, "table2", outcomes, paper=paper, seeds=seeds, methods=chosen)
    draw(outcomes, place.path / "table2")
    return outcomes


def cell(outcomes: Sequence[Outcome], row: tuple[str, str], method: str, what: str) -> Cell | None:
    """`what` is 'empirical_fairness' or 'accuracy'."""
    values = [100 * o[what] for o in outcomes if (o["dataset"], o["sensitive"], o["method"]) == (*row, method)]
    if not values:
        return None
    numbers = PAPER[row].accuracy if what == "accuracy" else PAPER[row].fairness
    paper = dict(zip(PAPER_METHODS, numbers, strict=True)).get(method)
    return Cell(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0, paper)


def table(outcomes: Sequence[Outcome], what: str) -> list[tuple[str, ...]]:
    """Headers and a line for each dataset: ours ± deviation, and the paper's number behind a slash."""
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    lines: list[tuple[str, ...]] = [("dataset (attribute)", *(NAMES[m] for m in methods))]
    for row in ROWS:
        cells = [cell(outcomes, row, method, what) for method in methods]
        if any(cells):
            lines.append((f"{row[0]} ({row[1]})", *(_shown(found) for found in cells)))
    return lines


def _shown(found: Cell | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean:.2f} ±{found.deviation:.2f} / {'–' if found.paper is None else f'{found.paper:.2f}'}"


def draw(outcomes: Sequence[Outcome], place: Path) -> list[Path]:
    """A line for each dataset: where each method stands in fairness and in accuracy; open marks are the paper's."""
    rows = [row for row in ROWS if any((o["dataset"], o["sensitive"]) == row for o in outcomes)]
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    drawn, axes = plots.figure(1, 2, size=(11, 1.4 + 0.55 * len(rows)), sharey=True)
    for panel, what in zip(axes[0], ("empirical_fairness", "accuracy"), strict=True):
        for k, method in enumerate(methods):
            cells = [(i, cell(outcomes, row, method, what)) for i, row in enumerate(rows)]
            known_cells = [(i + 0.12 * (k - len(methods) / 2 + 0.5), found) for i, found in cells if found]
            look = {"color": plots.SHADES[method], "markersize": 9 if method == "ours" else 6, "linestyle": "none"}
            panel.errorbar(
                [found.mean for _, found in known_cells], [y for y, _ in known_cells],
                xerr=[found.deviation for _, found in known_cells], marker=plots.MARKS[method], capsize=2,
                label=NAMES[method], **look,
            )  # fmt: skip
            published = [(found.paper, y) for y, found in known_cells if found.paper is not None]
            if published:
                x, y = zip(*published, strict=True)
                panel.plot(x, y, marker=plots.MARKS[method], markerfacecolor="none", alpha=0.6, **look)
        panel.set_yticks(range(len(rows)), [f"{name} ({attribute})" for name, attribute in rows])
    axes[0, 0].invert_yaxis()
    plots.plain_axes(axes[0, 0], x="test people (%)", y="", title="Decision survives the flip")
    plots.plain_axes(axes[0, 1], x="test people (%)", y="", title="Accuracy")
    axes[0, 0].legend(frameon=True, fontsize=8, title="filled: measured, open: paper", title_fontsize=8, loc="best")
    return plots.save(drawn, place)


def findings(outcomes: Sequence[Outcome]) -> list[str]:
    """What the table must show, and whether it does."""
    told = []
    ours = [o for o in outcomes if o["method"] == "ours"]
    if ours:
        fair = sum(o["unfair_people"] == 0 for o in ours)
        proven = sum(o["verdict"] == "verified" and o["bundle_accepted"] for o in ours)
        told.append(f"ours: {fair} of {len(ours)} runs without an unfair test person; {proven} verified and accepted.")
    pairs = [(cell(outcomes, row, "ours", "accuracy"), cell(outcomes, row, "unaware", "accuracy")) for row in ROWS]
    gaps = [mine.mean - other.mean for mine, other in pairs if mine and other]
    if gaps:
        told.append(f"ours against unaware: {min(gaps):+.2f} points in the worst of {len(gaps)} rows.")
    mine = [found for found, _ in pairs if found]
    above = sum(found.mean >= (found.paper or 0) for found in mine)
    told.append(f"ours at least as accurate as the paper's own in {above} of {len(mine)} rows.")
    return told
