"""Is a network with small sensitive weights fair? On a finite domain it may be, and a tolerance proves it.

Sixty people (as each of two sexes), a table in which sex counts, and one hidden layer of four. Starts near
zero, trained by expected updates, end with V other than 0, use both decisions, and are fair all the same; a plain
start is not.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from bornfair.estimator import FairClassifier
from bornfair.models.metrics import accuracy
from bornfair.people.domain import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.questions import verify
from bornfair_bench.experiments.printout import Columns, Outcome, Printout, of_rows
from bornfair_bench.experiments.runs import Say
from bornfair_bench.tolerance import certified_tolerance

DOMAIN = Domain(
    features=(
        IntegerFeature(name="grade", low=0, high=9),
        CategoricalFeature(name="job", categories=("clerk", "nurse", "smith")),
        BooleanFeature(name="owner"),
        CategoricalFeature(name="sex", categories=("female", "male")),
    ),
    sensitive=("sex",),
    label=Label(name="grant", classes=("no", "yes")),
)
ROWS = 400
SETTINGS: dict[str, Any] = {
    "hidden": (4,), "epochs": 60, "optimiser": "sgd", "learning_rate": 0.1, "batch_size": 32, "domain": DOMAIN,
}  # fmt: skip
TRAININGS: dict[str, dict[str, Any]] = {
    "near zero, ±1e-10": {"init": "near_zero:scale=1e-10", "response": "expected", "gamma": 0.0},
    "near zero, ±e^-10": {"init": "bernoulli:phi=-10", "response": "expected", "gamma": 0.0},
    "exactly 0": {"init": "exact", "response": "expected", "gamma": 0.0},
    "plain, no response": {"response": "none"},
}

COLUMNS: Columns = (
    ("start", lambda row: row["start"]),
    ("accuracy %", lambda row: f"{100 * row['accuracy']:.1f}"),
    ("granted %", lambda row: f"{100 * row['granted']:.1f}"),
    ("largest |V|", lambda row: f"{row['largest']:.1e}"),
    ("margin", lambda row: f"{row['margin']:.1e}"),
    ("gain", lambda row: f"{row['gain']:.2f}"),
    ("allowed", lambda row: f"{row['allowed']:.1e}"),
    ("actual", lambda row: f"{row['actual']:.1e}"),
    ("proves it", lambda row: "yes" if row["holds"] else "no"),
    ("bornfair verify", lambda row: f"{row['verdict']} ({row['engine']})"),
)


def people(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of the domain, and who was granted."""
    random = np.random.default_rng(seed)
    features = {feature.name: random.choice(list(feature.levels()), ROWS) for feature in DOMAIN.features}
    table = pd.DataFrame(features)
    score = table["grade"] / 3 + (table["job"] == "nurse") + table["owner"] + 0.5 * (table["sex"] == "male") - 2.3
    return table, np.where(score > 0, "yes", "no")


def measured(start: str, seed: int) -> Outcome:
    table, truth = people(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is certified by construction: that is what is looked at
        classifier = FairClassifier(["sex"], **SETTINGS, **TRAININGS[start], random_state=seed).fit(table, truth)
    model, decided = classifier.model_, classifier.predict(table)
    found, verdict = certified_tolerance(model), verify(model)
    return {
        "start": start,
        "accuracy": accuracy(truth, decided),
        "granted": float(np.mean(decided == "yes")),
        "largest": float(np.abs(model.network.sensitive_weights(model.encoding.free_width)).max()),
        "margin": found.margin,
        "gain": found.gain,
        "allowed": found.allowed,
        "actual": found.actual,
        "holds": found.holds,
        "verdict": verdict.answer,
        "engine": verdict.engine,
    }


def report(*, seed: int, say: Say) -> Printout:
    rows = []
    for start in TRAININGS:
        say(f"training: {start}")
        rows.append(measured(start, seed))
    title = f"{ROWS} rows of a domain of 60 people, as each of two sexes; real arithmetic"
    return of_rows(title, COLUMNS, rows, numbers_from=1)
