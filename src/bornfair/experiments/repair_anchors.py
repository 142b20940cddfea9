"""Can published unfair networks be repaired, and at what cost? The adult and german networks of Fairify, one by one.

The networks take whole numbers: categories as the positions of their sorted names, capital gains and losses in 20 equal
bins, german columns in coarser groups. `adult_inputs` and `german_inputs` rebuild these numbers from the raw tables;
the networks' own accuracy on them shows that they are the right ones.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair import datasets
from bornfair.errors import InputError
from bornfair.experiments.printout import Columns, Outcome, Printout, lines, of_rows
from bornfair.experiments.runs import Say, silent
from bornfair.models.importers.nnet import load_nnet, read_nnet
from bornfair.people.domain import Domain

ADULT = tuple(f"AC-{i}" for i in range(1, 13))
GERMAN = tuple(f"GC-{i}" for i in range(1, 6))
QUESTIONS = (
    *((name, "sex") for name in ADULT),
    *((name, "age") for name in GERMAN),
    *((name, "sex") for name in GERMAN),
)
"""The 22 questions: which network, which sensitive feature."""

BINS = {"capital-gain": 99_999 / 20, "capital-loss": 4_356 / 20}  # 20 bins of equal width from 0 to the largest value
GROUPS: dict[str, dict[str, int]] = {
    "status": {"A13": 0, "A11": 1, "A12": 1, "A14": 2},
    "credit_history": {"A33": 0, "A30": 1, "A31": 1, "A32": 1, "A34": 2},
    "savings": {"A63": 0, "A64": 0, "A61": 1, "A62": 1, "A65": 2},
    "employment": {"A72": 0, "A73": 0, "A74": 1, "A75": 1, "A71": 2},
}
"""Codes of the german table in groups, numbered in the order of the groups' names."""
SPELT = {
    "checking_account": "status", "duration_months": "month", "amount": "credit_amount", "employed_since": "employment",
    "instalment_rate": "investment_as_income_percentage", "other_parties": "other_debtors",
    "other_plans": "installment_plans", "existing_credits": "number_of_credits", "job": "skill_level",
    "dependants": "people_liable_for", "risk": "credit",
}  # fmt: skip
YOUNG = 26  # the age from which the networks call a person 1


COLUMNS: Columns = (
    ("network", lambda o: o["model"]),
    ("sensitive", lambda o: o["sensitive"]),
    ("before", lambda o: _percent(o["accuracy_before"])),
    ("projected", lambda o: _percent(o["accuracy_projected"])),
    ("repaired", lambda o: _percent(o["accuracy_after"])),
    ("changed", lambda o: _percent(o["changed"])),
    ("same for twins before", lambda o: _percent(o["fairness_before"])),
    ("verdict", lambda o: f"{o['verdict_before']} → {o['verdict_after']}"),
    ("s", lambda o: f"{o['seconds']:.1f}"),
)


def adult_inputs(test: str | Path | None = None) -> tuple[pd.DataFrame, str]:
    """The adult table as the networks read it, with its target.

    The embedded table has the training part. `test` is the path of the other part (adult.test); with both the rows
    stand in the order in which the networks' authors split them.
    """
    table = datasets.load("census").table
    if test is not None:
        other = pd.read_csv(test, skiprows=1, **datasets.entry("census").layout)
        other["income"] = other["income"].str.rstrip(".")
        table = pd.concat([other[table.columns], table], ignore_index=True)
    table = table[~(table == "?").any(axis=1)].reset_index(drop=True)
    binned = {name: np.minimum(table[name] // width, 19).astype(np.int64) for name, width in BINS.items()}
    return _as_numbers(table.assign(**binned)), "income"


def german_inputs() -> tuple[pd.DataFrame, str]:
    """The german table as the networks read it, with its target."""
    raw = datasets.entry("credit").as_written().rename(columns=SPELT)
    table = raw.drop(columns=["personal_status", "credit"])
    table["age"] = (raw["age"] >= YOUNG).astype(np.int64)
    table["sex"] = raw["personal_status"].isin(["A91", "A93", "A94"]).astype(np.int64)
    grouped = {name: raw[name].map(numbers) for name, numbers in GROUPS.items()}
    return _as_numbers(table.assign(**grouped, credit=(raw["credit"] == 1).astype(np.int64))), "credit"


def _as_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Each text as its position among the sorted ones of its column."""
    texts = [name for name in table.columns if not pd.api.types.is_integer_dtype(table[name])]
    return table.assign(**{name: table[name].astype(str).rank(method="dense").astype(np.int64) - 1 for name in texts})


def held_out(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions for the repair and to measure on: the split by which the networks were trained and tested."""
    from sklearn.model_selection import train_test_split

    fitted, kept = train_test_split(np.arange(rows), test_size=0.15, random_state=42)
    return fitted, kept


def run(
    models: str | Path,
    *,
    adult_test: str | Path | None = None,
    questions: Sequence[tuple[str, str]] = QUESTIONS,
    timeout: float = 20.0,
    epochs: int = 60,
    seed: int = 0,
    say: Say = silent,
) -> list[Outcome]:
    """Repair each network of a folder of .nnet files for its sensitive feature. `timeout` is for verdicts before."""
    from bornfair.question import verify
    from bornfair.repairing import repair

    inputs = functools.cache(lambda adult: adult_inputs(adult_test) if adult else german_inputs())
    outcomes = []
    for name, sensitive in questions:
        path = Path(models) / f"{name}.nnet"
        if not path.is_file():
            raise InputError(f"there is no network '{path}'; give the folder with {name}.nnet.")
        table, target = inputs(name in ADULT)
        named = named_domain(path, table, target)
        original = load_nnet(path, sensitive=[sensitive], domain=named, normalise="no")  # they take raw numbers
        before = verify(original, timeout=timeout, seed=seed)
        fitted, kept = held_out(len(table))
        began = time.perf_counter()
        found = repair(original, table.iloc[fitted], target=target, test=table.iloc[kept], epochs=epochs, seed=seed)
        after = verify(found.model, timeout=timeout, seed=seed)
        outcomes.append({
            "model": name,
            "sensitive": sensitive,
            "rows": len(kept),  # held out: used neither to fit nor to choose the repair
            "majority": float(table[target].iloc[kept].value_counts(normalize=True).max()),
            "accuracy_before": found.accuracy_before,
            "accuracy_projected": found.accuracy_projected,
            "accuracy_after": found.accuracy_after,
            "changed": found.changed,
            "fairness_before": found.fairness_before,
            "verdict_before": before.verdict,
            "verdict_after": after.verdict,
            "blend": found.blend,
            "epochs": found.epochs_run,
            # For the repair and its proof; the verdict about the original comes on top.
            "seconds": time.perf_counter() - began,
        })  # fmt: skip
        say(" | ".join(lines(COLUMNS, outcomes[-1:])[1]))
    return outcomes


def report(*, models: Path, say: Say, **choices: Any) -> Printout:
    return of_rows("Repaired", COLUMNS, run(models, say=say, **choices), numbers_from=2)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


def named_domain(path: Path, table: pd.DataFrame, target: str) -> Domain:
    """The file's ranges with the table's names."""
    own = read_nnet(path).domain
    names = [name for name in table.columns if name != target]
    features = [feature.model_dump() | {"name": name} for feature, name in zip(own.features, names, strict=True)]
    return Domain.model_validate({"features": features, "label": {"name": target, "classes": [0, 1]}})
