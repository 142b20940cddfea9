"""What does fairness cost in accuracy? Ours beside training without the sensitive column, and with it (ERM).

All three see the same rows of the same splits. "unaware" drops the column; by the theorem ours should equal it up to
the random start.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bornfair import datasets
from bornfair.auditing.metrics import accuracy
from bornfair.errors import InputError, shown
from bornfair.estimator import FairClassifier
from bornfair.people.domain import Domain

METHODS = ("fair", "unaware", "erm")
HEADERS = ("method", "mean accuracy", "deviation", "same decision for every sensitive value", "proven", "seconds")


@dataclass(frozen=True)
class Outcome:
    """One method on one split."""

    method: str
    seed: int
    accuracy: float
    empirical_fairness: float | None
    verdict: str
    epochs: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run(
    *,
    dataset: str = "census",
    sensitive: Sequence[str] = ("sex",),
    preset: str = "paper",
    seeds: int = 5,
    methods: Sequence[str] = METHODS,
    say: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train each method on each of `seeds` splits."""
    for name in methods:
        if name not in METHODS:
            raise InputError(f"method {name!r} is not known; use {shown(METHODS)}.")
    data = datasets.load(dataset)
    outcomes = []
    for seed in range(seeds):
        training, test = datasets.split(data, seed=seed)
        for method in methods:
            if say:
                say(f"seed {seed + 1} of {seeds}: {method}")
            hidden_from = list(sensitive) if method == "unaware" else []
            names = () if method == "unaware" else tuple(sensitive)
            classifier = FairClassifier(
                names,
                domain=Domain.infer(data.table.drop(columns=[data.target, *hidden_from]), sensitive=names),
                preset=preset,
                response="none" if method == "erm" else "expected",
                random_state=seed,
            )
            classifier.fit(training.drop(columns=[data.target, *hidden_from]), training[data.target])
            X = test.drop(columns=[data.target, *hidden_from])
            outcomes.append(
                Outcome(
                    method,
                    seed,
                    accuracy(test[data.target], classifier.predict(X)),
                    None if method == "unaware" else classifier.empirical_fairness(X),
                    "verified" if method == "fair" and classifier.verify() else "not claimed",
                    len(classifier.history_),
                    sum(record.seconds for record in classifier.history_),
                )
            )
    return outcomes


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, ...]]:
    """A row of text for each method."""
    rows: list[tuple[str, ...]] = []
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.method == method]
        scores = [100 * outcome.accuracy for outcome in own]
        shares = [100 * o.empirical_fairness for o in own if o.empirical_fairness is not None]
        rows.append(
            (
                method,
                f"{statistics.mean(scores):.2f} %",
                f"{statistics.stdev(scores) if len(scores) > 1 else 0.0:.2f}",
                f"{statistics.mean(shares):.2f} %" if shares else "–",
                f"{sum(o.verdict == 'verified' for o in own)} of {len(own)}",
                f"{sum(o.seconds for o in own):.1f}",
            )
        )
    return rows
