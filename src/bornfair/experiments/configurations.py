"""Do other networks learn as well, and stay as fair? From [16] to [2048, 2048, 2048, 4]: the paper's Figure 5."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from bornfair.experiments import plots
from bornfair.experiments.methods import NAMES, measure
from bornfair.experiments.runs import Folder, Outcome, Run, known, run_all, write_results
from bornfair.models.network import WIDTHS

METHODS = ("erm", "ours")
EPOCHS = {"shallow": 100, "paper": 100, "deep": 100, "large": 5}
"""The large network costs two hundred times the paper's an epoch; a few epochs must do."""
PAPER_ACCURACY = {"shallow": 83.23 - 0.09, "paper": 83.23, "deep": 83.23 + 1.2, "large": 84.93}
"""As its text says; for the deep network "up to" 1.2 points more."""


def run(
    folder: str | Path,
    *,
    dataset: str = "census",
    sensitive: str = "sex",
    widths: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    epochs: int | None = None,
    jobs: int = 1,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train ERM and ours with each network."""
    chosen, names = known(methods, METHODS, "method"), known(widths, list(EPOCHS), "network")
    runs = [
        Run(dataset, sensitive, method, seed, (("epochs", epochs or EPOCHS[name]), ("hidden", name)))
        for name in names
        for method in chosen
        for seed in range(seeds if name != "large" else 1)
    ]
    place = Folder(Path(folder))
    outcomes = run_all(runs, measure, place, jobs=jobs, say=say)
    write_results(place, "configurations", outcomes, paper_accuracy=PAPER_ACCURACY, widths=WIDTHS)
    draw(outcomes, place.path / "configurations")
    return outcomes


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [
        ("network", "method", "epochs", "accuracy %", "deviation", "fairness %", "proven", "seconds", "paper %")
    ]
    for name in EPOCHS:
        for method in METHODS:
            own = _of(outcomes, name, method)
            if not own:
                continue
            scores = [100 * o["accuracy"] for o in own]
            lines.append(
                (
                    str(list(WIDTHS[name])),
                    NAMES[method],
                    str(own[0]["options"]["epochs"]),
                    f"{statistics.mean(scores):.2f}",
                    f"{statistics.stdev(scores):.2f}" if len(scores) > 1 else "–",
                    f"{100 * statistics.mean(o['empirical_fairness'] for o in own):.2f}",
                    f"{sum(o['verdict'] == 'verified' and o['bundle_accepted'] for o in own)} of {len(own)}",
                    f"{statistics.mean(o['seconds'] for o in own):.1f}",
                    f"{PAPER_ACCURACY[name]:.2f}" if method == "ours" else "–",
                )
            )
    return lines


def draw(outcomes: Sequence[Outcome], place: Path) -> list[Path]:
    """Accuracy and fairness by network, the paper's accuracy beside."""
    drawn, axes = plots.figure(1, 2, size=(10, 3.8))
    names = [name for name in EPOCHS if any(_of(outcomes, name, method) for method in METHODS)]
    for shift, method in ((-0.12, "erm"), (0.12, "ours")):
        for panel, what in zip(axes[0], ("accuracy", "empirical_fairness"), strict=True):
            x, y, spread = [], [], []
            for i, name in enumerate(names):
                values = [100 * o[what] for o in _of(outcomes, name, method)]
                if values:
                    x.append(i + shift)
                    y.append(statistics.mean(values))
                    spread.append(statistics.stdev(values) if len(values) > 1 else 0.0)
            panel.errorbar(
                x, y, yerr=spread, fmt=plots.MARKS[method], color=plots.SHADES[method], capsize=3, label=NAMES[method],
                markersize=9 if method == "ours" else 6,
            )  # fmt: skip
    paper = [PAPER_ACCURACY[name] for name in names]
    axes[0, 0].plot(range(len(names)), paper, "_", color="black", markersize=22, label="paper, its own")
    ticks = [f"{name}\n{_short(WIDTHS[name])}" for name in names]
    for panel in axes[0]:
        panel.set_xticks(range(len(names)), ticks, fontsize=8)
        panel.set_xlim(-0.5, len(names) - 0.5)
    plots.plain_axes(axes[0, 0], x="hidden widths", y="test people (%)", title="Accuracy")
    plots.plain_axes(axes[0, 1], x="hidden widths", y="test people (%)", title="Decision survives the flip")
    axes[0, 0].legend(frameon=False)
    return plots.save(drawn, place)


def _of(outcomes: Sequence[Outcome], name: str, method: str) -> list[Outcome]:
    return [o for o in outcomes if o["method"] == method and o["options"].get("hidden") == name]


def _short(widths: Sequence[int]) -> str:
    """Widths in a line that fits under a tick.

    >>> _short((16,)), _short((256, 256, 64, 64, 32, 32, 16, 8, 4))
    ('16', '256, 256, …, 4')
    """
    shown = [str(width) for width in widths]
    return ", ".join(shown if len(shown) <= 3 else [*shown[:2], "…", shown[-1]])
