"""What does fairness cost in accuracy? Ours beside training without the sensitive column, and with it (ERM).

All three see the same rows of the same splits. "unaware" drops the column; by the theorem ours should equal it up to
the random start.
"""

from __future__ import annotations

from collections.abc import Sequence

from bornfair.core.clock import Say
from bornfair.core.errors import InputError, shown
from bornfair.models.metrics import accuracy
from bornfair_bench.experiments.methods import Split, fitted
from bornfair_bench.experiments.printout import (
    Columns,
    Lines,
    Outcome,
    Printout,
    Sample,
    Table,
    groups,
    how_many_proven,
    lines,
)
from bornfair_bench.experiments.runs import silent

METHODS = {"fair": "ours", "unaware": "unaware", "erm": "erm"}
"""As they are called here, and in `methods`."""

COLUMNS: Columns = (
    ("method", lambda own: own[0]["method"]),
    ("mean accuracy", lambda own: f"{Sample.of(own, 'accuracy').mean:.2f} %"),
    ("deviation", lambda own: f"{Sample.of(own, 'accuracy').deviation:.2f}"),
    ("same decision for every sensitive value", lambda own: _same_decision(own)),
    ("proven", how_many_proven),
    ("seconds", lambda own: f"{sum(o['seconds'] for o in own):.1f}"),
)


def run(
    *,
    dataset: str = "census",
    sensitive: Sequence[str] = ("sex",),
    preset: str = "paper",
    seeds: int = 5,
    methods: Sequence[str] = tuple(METHODS),
    say: Say = silent,
) -> list[Outcome]:
    """Train each method on each of `seeds` splits."""
    for name in methods:
        if name not in METHODS:
            raise InputError(f"method {name!r} is not known; use {shown(METHODS)}.")
    outcomes = []
    for seed in range(seeds):
        split = Split.of(dataset, sensitive, seed)
        for method in methods:
            say(f"seed {seed + 1} of {seeds}: {method}")
            classifier, _ = fitted(METHODS[method], sensitive, split, seed, preset=preset)
            outcomes.append({
                "method": method,
                "seed": seed,
                "accuracy": accuracy(split.truth, classifier.predict(split.people)),
                "empirical_fairness": None if method == "unaware" else classifier.empirical_fairness(split.people),
                "verdict": "verified" if method == "fair" and classifier.verify() else "not claimed",
                "epochs": len(classifier.history_),
                "seconds": sum(record.seconds for record in classifier.history_),
            })  # fmt: skip
    return outcomes


def table(outcomes: Sequence[Outcome]) -> Lines:
    """A line for each method."""
    return lines(COLUMNS, groups(outcomes, method=list(dict.fromkeys(o["method"] for o in outcomes))))


def report(
    *,
    dataset: str,
    sensitive: Sequence[str] | None,
    preset: str,
    seeds: int,
    say: Say,
    against: bool = False,
    tables: Sequence[str] | None = None,
    contenders: Sequence[str] | None = None,
) -> Printout:
    if against:
        from bornfair_bench.experiments.against import report as beside_others

        return beside_others(names=tables, contenders=contenders, seeds=seeds, say=say)
    if tables or contenders:
        raise InputError("--table and --contender are for --against; add it, or leave them out.")
    names = list(sensitive or ["sex"])
    outcomes = run(dataset=dataset, sensitive=names, preset=preset, seeds=seeds, say=say)
    document = {"dataset": dataset, "sensitive": names, "preset": preset, "runs": outcomes}
    title = f"{dataset}, sensitive: {', '.join(names)}; preset {preset}, {seeds} splits, 20 % kept aside"
    return Printout(document, [Table(title, table(outcomes))])


def _same_decision(own: Sequence[Outcome]) -> str:
    measured = [o for o in own if o["empirical_fairness"] is not None]
    return f"{Sample.of(measured, 'empirical_fairness').mean:.2f} %" if measured else "–"
