"""The paper's Table 2: fairness of test people and accuracy, six datasets, nine attributes, five methods and one more.

The paper leaves out the trivial baseline, training without the sensitive column ("unaware"); it is here.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from bornfair_bench.experiments import plots
from bornfair_bench.experiments.methods import METHODS, NAMES, measure
from bornfair_bench.experiments.printout import Lines, Outcome, Sample, groups, percent, proven
from bornfair_bench.experiments.runs import Experiment


class Published(NamedTuple):
    """The paper's numbers for ERM, LCIFR, MILP, U-DIF and its own method, in percent."""

    fairness: tuple[float, ...]
    accuracy: tuple[float, ...]


PAPER_METHODS = ("erm", "lcifr", "milp", "udif", "ours")
PAPER: dict[tuple[str, str], Published] = {
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

ROWS = tuple(PAPER)
PAPER_EDITIONS = {("bank-full", "age"): ("bank", "age"), ("law-full", "sex"): ("law", "sex")}
"""The rows of the paper's own editions of bank and law (45,211 and 22,407 people), which the package does not hold."""
PAPER |= {row: PAPER[usual] for row, usual in PAPER_EDITIONS.items()}


class Cell(NamedTuple):
    """What was measured over the seeds, and the paper's number, in percent."""

    ours: Sample
    paper: float | None

    def __str__(self) -> str:
        paper = "–" if self.paper is None else f"{self.paper:.2f}"
        return f"{self.ours.mean:.2f} ±{self.ours.deviation:.2f} / {paper}"


def cell(outcomes: Sequence[Outcome], row: tuple[str, str], method: str, what: str) -> Cell | None:
    """`what` is 'empirical_fairness' or 'accuracy'."""
    own = groups(outcomes, dataset=row[:1], sensitive=row[1:], method=[method])
    if not own:
        return None
    numbers = PAPER[row].accuracy if what == "accuracy" else PAPER[row].fairness
    return Cell(Sample.of(own[0], what), dict(zip(PAPER_METHODS, numbers, strict=True)).get(method))


def table(outcomes: Sequence[Outcome], what: str) -> Lines:
    """Headers and a line for each dataset: ours ± deviation, and the paper's number behind a slash; then the means."""
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    lines: Lines = [("dataset (attribute)", *(NAMES[m] for m in methods))]
    found = {row: [cell(outcomes, row, method, what) for method in methods] for row in PAPER}
    rows = [row for row, cells in found.items() if any(cells)]
    for row in rows:
        lines.append((_named(row), *("–" if one is None else str(one) for one in found[row])))
    if len(rows) > 1:
        lines.append(
            (f"mean of {len(rows)} rows", *(_mean(column) for column in zip(*map(found.get, rows), strict=True)))
        )
    return lines


def _named(row: tuple[str, str]) -> str:
    return f"{row[0]} ({row[1]})"


def _mean(cells: Sequence[Cell | None]) -> str:
    measured = [one.ours.mean for one in cells if one]
    paper = [one.paper for one in cells if one and one.paper is not None]
    if len(measured) < len(cells):
        return "–"
    return f"{statistics.mean(measured):.2f} / {f'{statistics.mean(paper):.2f}' if paper else '–'}"


def counts(outcomes: Sequence[Outcome]) -> Lines:
    """How many test people are decided differently when the sensitive value changes, by row and method."""
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    lines: Lines = [("dataset (attribute)", "test people", *(NAMES[m] for m in methods))]
    for row in PAPER:
        by_method = [groups(outcomes, dataset=row[:1], sensitive=row[1:], method=[m]) for m in methods]
        if any(by_method):
            people = next(group[0][0]["test_people"] for group in by_method if group)
            numbers = [_count(group[0]) if group else "–" for group in by_method]
            lines.append((_named(row), f"{people:,}", *numbers))
    return lines


def _count(own: Sequence[Outcome]) -> str:
    return f"{statistics.mean(o['unfair_people'] for o in own):,.1f}"


def negated(outcomes: Sequence[Outcome]) -> Lines:
    """Two measures for age: one decision at every age (ours), or the same when its code is negated."""
    lines: Lines = [("dataset (attribute)", "method", "same at every age", "code negated", "paper")]
    for row in PAPER:
        for method in METHODS:
            own = groups(outcomes, dataset=row[:1], sensitive=row[1:], method=[method])
            if own and own[0][0]["negation_fairness"] is not None:
                every = cell(outcomes, row, method, "empirical_fairness")
                paper = "–" if every is None or every.paper is None else f"{every.paper:.2f}"
                shares = (percent(own[0], what) for what in ("empirical_fairness", "negation_fairness"))
                lines.append((_named(row), NAMES[method], *shares, paper))
    return lines


def draw(outcomes: Sequence[Outcome]) -> Any:
    """A line for each dataset: where each method stands in fairness and in accuracy; open marks are the paper's."""
    rows = [row for row in PAPER if any((o["dataset"], o["sensitive"]) == row for o in outcomes)]
    methods = [m for m in METHODS if any(o["method"] == m for o in outcomes)]
    drawn, axes = plots.figure(1, 2, size=(11, 1.4 + 0.55 * len(rows)), sharey=True)
    for panel, what in zip(axes[0], ("empirical_fairness", "accuracy"), strict=True):
        for k, method in enumerate(methods):
            cells = [(i, cell(outcomes, row, method, what)) for i, row in enumerate(rows)]
            found = [(i + 0.12 * (k - len(methods) / 2 + 0.5), known_cell) for i, known_cell in cells if known_cell]
            plots.points(
                panel, method, x=[c.ours.mean for _, c in found], y=[y for y, _ in found],
                xerr=[c.ours.deviation for _, c in found], capsize=2, label=NAMES[method],
            )  # fmt: skip
            published = [(c.paper, y) for y, c in found if c.paper is not None]
            if published:
                x, y = zip(*published, strict=True)
                panel.plot(x, y, markerfacecolor="none", alpha=0.6, **plots.point_style(method))
        panel.set_yticks(range(len(rows)), [f"{name} ({attribute})" for name, attribute in rows])
    axes[0, 0].invert_yaxis()
    plots.plain_axes(axes[0, 0], x="test people (%)", y="", title="Decision survives the flip")
    plots.plain_axes(axes[0, 1], x="test people (%)", y="", title="Accuracy")
    axes[0, 0].legend(frameon=True, fontsize=8, title="filled: measured, open: paper", title_fontsize=8, loc="best")
    return drawn


def findings(outcomes: Sequence[Outcome]) -> list[str]:
    """What the table must show, and whether it does."""
    told = []
    ours = [o for o in outcomes if o["method"] == "ours"]
    if ours:
        fair = sum(o["unfair_people"] == 0 for o in ours)
        told.append(
            f"ours: {fair} of {len(ours)} runs without an unfair test person; {proven(ours)} verified and accepted."
        )
    pairs = [(cell(outcomes, row, "ours", "accuracy"), cell(outcomes, row, "unaware", "accuracy")) for row in PAPER]
    gaps = [mine.ours.mean - other.ours.mean for mine, other in pairs if mine and other]
    if gaps:
        told.append(f"ours against unaware: {min(gaps):+.2f} points in the worst of {len(gaps)} rows.")
    mine = [found for found, _ in pairs if found]
    above = sum(found.ours.mean >= (found.paper or 0) for found in mine)
    told.append(f"ours at least as accurate as the paper's own in {above} of {len(mine)} rows.")
    return told


TABLE_2 = Experiment(
    "table2", ROWS, METHODS, measure, draw,
    {
        f"{title}, mean ± deviation of {{seeds}} splits / paper, %": functools.partial(table, what=what)
        for title, what in (("Decision survives the flip", "empirical_fairness"), ("Accuracy", "accuracy"))
    } | {"Test people who are treated unequally, mean of {seeds} splits": counts,
         "Age, two measures of fairness, mean of {seeds} splits, %": negated},
    more_rows=tuple(PAPER_EDITIONS),
    findings=findings,
    facts={"paper": {f"{name} ({attribute})": numbers._asdict() for (name, attribute), numbers in PAPER.items()}},
)  # fmt: skip
run, report = TABLE_2.run, TABLE_2.report
