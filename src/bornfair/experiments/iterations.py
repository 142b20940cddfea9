"""Fairness, accuracy and time, epoch by epoch, on census: the paper's Figure 4.

Times are those of the compiled training loop alone, one method after the other in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bornfair import datasets
from bornfair.experiments import plots
from bornfair.experiments.methods import domain_of, make
from bornfair.experiments.runs import Folder, Outcome, Run, known, run_all, write_results
from bornfair.models.model import scores_under_every_code
from bornfair.models.network import Network, decisions
from bornfair.people.encoding import Encoding

METHODS = ("erm", "ours", "lcifr", "lcifr_attack")
NAMES = {"erm": "ERM", "ours": "ours", "lcifr": "LCIFR", "lcifr_attack": "LCIFR with its attack"}
LCIFR = {"hidden": "paper", "batch_size": 64}  # the same network and portions as the others
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    # `ERM` has no callbacks; FairClassifier without a response is the same training, bit for bit.
    "erm": ("ours", {"response": "none"}),
    "ours": ("ours", {}),
    "lcifr": ("lcifr", LCIFR),
    # As released: 25 attack steps on the twin, which for this constraint never move it and only cost time.
    "lcifr_attack": ("lcifr", LCIFR | {"attack_steps": 25}),
}
PAPER_SECONDS = {"erm": 122 / 1.0204, "ours": 122.0, "lcifr_attack": 497.0}
"""For 100 epochs on the paper's machine: ours 2.04 % above ERM, LCIFR more than 4.15 times ERM."""


def run(
    folder: str | Path,
    *,
    dataset: str = "census",
    sensitive: str = "sex",
    methods: Sequence[str] | None = None,
    seeds: int = 3,
    epochs: int = 100,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train each method, looking at the rows kept aside after every epoch."""
    chosen = known(methods, METHODS, "method")
    options = (("epochs", epochs),)
    runs = [Run(dataset, sensitive, method, seed, options) for seed in range(seeds) for method in chosen]
    place = Folder(Path(folder))
    outcomes = run_all(runs, trace, place, say=say)
    write_results(place, "iterations", _long(outcomes), paper_seconds=PAPER_SECONDS, seeds=seeds, methods=chosen)
    draw(outcomes, place.path / "iterations")
    return outcomes


def trace(run: Run) -> Outcome:
    """One training, measured after each epoch; what measuring takes is not counted."""
    data = datasets.load(run.dataset)
    training, test = datasets.split(data, seed=run.seed)
    domain = domain_of(data, run.sensitive)
    X, y = training.drop(columns=data.target), training[data.target]
    people = test.drop(columns=data.target)
    encoding = Encoding.fit(domain, X)
    encoded = encoding.encode(people)
    own, rows = encoding.sensitive_index(encoded), np.arange(len(people))
    classes = np.unique(y.astype(str))
    truth = np.searchsorted(classes, test[data.target].astype(str))
    epochs: list[dict[str, float]] = []

    def look(network: Network, epoch: int, loss: float, seconds: float) -> None:
        decided = decisions(scores_under_every_code(network, encoded.free, encoding.codes))
        epochs.append({
            "epoch": epoch, "loss": loss, "seconds": seconds,
            "accuracy": float(np.mean(decided[own, rows] == truth)),
            "empirical_fairness": float(np.mean((decided == decided[0]).all(axis=0))),
        })  # fmt: skip

    def after(epoch: Any) -> None:
        look(epoch.network(), epoch.record.epoch, epoch.record.loss, epoch.record.seconds)

    began = time.perf_counter()
    method, extra = SETTINGS[run.method]
    classifier = make(method, run.sensitive, domain, len(training), run.seed, **dict(run.options), **extra)
    classifier.set_params(callbacks=(after,))
    classifier.fit(X, y)
    return {"epochs": epochs, "seconds": time.perf_counter() - began}


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """The last epoch of each method, seconds for all epochs, and the ratio to ERM beside the paper's."""
    lines: list[tuple[str, ...]] = [
        ("method", "accuracy %", "fairness %", "least fairness %", "s for all epochs", "ratio to ERM", "paper")
    ]
    loops = {m: _loop_seconds(outcomes, m) for m in METHODS}
    for method in METHODS:
        own = [o["epochs"] for o in outcomes if o["method"] == method]
        if not own:
            continue
        ratio = f"{loops[method] / loops['erm']:.2f}" if loops["erm"] else "–"
        lines.append(
            (
                NAMES[method],
                f"{100 * statistics.mean(e[-1]['accuracy'] for e in own):.2f}",
                f"{100 * statistics.mean(e[-1]['empirical_fairness'] for e in own):.2f}",
                f"{100 * min(step['empirical_fairness'] for e in own for step in e):.2f}",
                f"{loops[method]:.2f}",
                ratio,
                f"{PAPER_SECONDS[method] / PAPER_SECONDS['erm']:.2f}" if method in PAPER_SECONDS else "–",
            )
        )
    return lines


def _loop_seconds(outcomes: Sequence[Outcome], method: str) -> float:
    """The sum over epochs, of each the median of the seeds: a first run compiles, others may be disturbed."""
    own = [o["epochs"] for o in outcomes if o["method"] == method]
    return sum(statistics.median(step["seconds"] for step in steps) for steps in zip(*own, strict=True))


def draw(outcomes: Sequence[Outcome], place: Path) -> list[Path]:
    """Three panels as in the paper: fairness, accuracy, and time."""
    drawn, axes = plots.figure(1, 3, size=(11, 3.4))
    for method in METHODS:
        own = [o["epochs"] for o in outcomes if o["method"] == method]
        if not own:
            continue
        x = [step["epoch"] for step in own[0]]
        for panel, what in zip(axes[0], ("empirical_fairness", "accuracy", "seconds"), strict=True):
            values = np.array([[step[what] for step in e] for e in own])
            y = np.cumsum(np.median(values, axis=0)) if what == "seconds" else 100 * values.mean(axis=0)
            plots.series(panel, method, NAMES[method], x, y.tolist())
    seeds = len({o["seed"] for o in outcomes})
    note = f"mean of {seeds} seed{'s' if seeds > 1 else ''}"
    plots.plain_axes(axes[0, 0], x="epoch", y="test people (%)", title=f"Decision survives the flip, {note}")
    plots.plain_axes(axes[0, 1], x="epoch", y="test people (%)", title=f"Accuracy, {note}")
    plots.plain_axes(axes[0, 2], x="epoch", y="seconds since the start", title="Training time, compiled loop")
    axes[0, 0].legend(frameon=False)
    return plots.save(drawn, place)


def _long(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """A line for each epoch."""
    named = ("dataset", "sensitive", "method", "seed")
    return [{name: o[name] for name in named} | step for o in outcomes for step in o["epochs"]]
