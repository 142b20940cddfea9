"""Whom do we decide wrongly whom the others decide rightly? The paper found 98 such people on census, all positive.

Positive is the rarer class: on census, who earns more than 50,000 dollars.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from bornfair import datasets
from bornfair.core.clock import Say
from bornfair_bench.experiments.methods import NAMES, Split, chosen_settings, fitted
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, of_rows
from bornfair_bench.experiments.runs import Run, known, silent

OTHERS = ("erm", "lcifr")
PAPER = {"cases": 98, "test_people": 6_512, "positive": 98}
COLUMNS: Columns = (
    ("dataset (attribute)", lambda row: f"{row['dataset']} ({row['sensitive']})"),
    ("seed", lambda row: str(row["seed"])),
    ("test people", lambda row: f"{row['test_people']:,}"),
    ("wrong by ours", lambda row: f"{row['wrong']:,}"),
    ("rightly by " + " and ".join(NAMES[method] for method in OTHERS), lambda row: f"{row['cases']:,}"),
    ("of these positive", lambda row: f"{row['positive']:,}"),
    ("the other way round", lambda row: f"{row['reverse']:,}"),
    ("of these positive", lambda row: f"{row['reverse_positive']:,}"),
)


def run(
    *, names: Sequence[str] | None = None, seeds: int = 3, epochs: int | None = None, say: Say = silent
) -> list[Outcome]:
    """For each split: who is decided wrongly by ours and rightly by all others, and the other way round."""
    found = []
    for name in known(names or ["census"], datasets.ALL_NAMES, "dataset"):
        sensitive = datasets.entry(name).paper_sensitive[0]
        for seed in range(seeds):
            say(f"{name}, seed {seed}")
            found.append(
                {"dataset": name, "sensitive": sensitive, "seed": seed} | _compared(name, sensitive, seed, epochs)
            )
    return found


def _compared(name: str, sensitive: str, seed: int, epochs: int | None) -> Outcome:
    split = Split.of(name, [sensitive], seed)
    truth = split.truth.astype(str).to_numpy()
    classes, sizes = np.unique(split.y.astype(str), return_counts=True)
    positive = truth == classes[np.argmin(sizes)]
    right, chosen = {}, {}
    for method in ("ours", *OTHERS):
        run = Run(name, sensitive, method, seed, () if epochs is None else (("epochs", epochs),))
        chosen[method], _ = chosen_settings(run, split)
        classifier, _ = fitted(method, [sensitive], split, seed, **chosen[method])
        right[method] = classifier.predict(split.people).astype(str) == truth
    others = np.logical_and.reduce([right[method] for method in OTHERS])
    none = np.logical_and.reduce([~right[method] for method in OTHERS])
    cases, reverse = ~right["ours"] & others, right["ours"] & none
    counted = {
        "wrong": ~right["ours"], "cases": cases, "positive": cases & positive,
        "reverse": reverse, "reverse_positive": reverse & positive,
    }  # fmt: skip
    return {"settings": chosen, "test_people": len(truth)} | {what: int(who.sum()) for what, who in counted.items()}


def report(*, say: Say, **choices: Any) -> Printout:
    rows = run(say=say, **choices)
    share = statistics.mean(row["positive"] / max(row["cases"], 1) for row in rows)
    sentences = [
        f"{100 * share:.1f} % of the people whom only ours decides wrongly are positive; in the paper "
        f"{PAPER['positive']} of {PAPER['cases']} ({PAPER['test_people']:,} test people of census)."
    ]
    return of_rows("Decided wrongly by ours alone", COLUMNS, rows, numbers_from=1, sentences=sentences)
