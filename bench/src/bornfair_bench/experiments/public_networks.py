"""How do the public networks of Fairify and FairQuant read people? What their inputs are, and the tables they learnt.

The networks take whole numbers: categories as the positions of their sorted names, capital gains and losses in 20 equal
bins, german columns in coarser groups, age and race in two. The functions that end in `_inputs` rebuild these numbers
from the raw tables; the networks' own accuracy on them shows that they are the right ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair import datasets
from bornfair.core.errors import InputError
from bornfair.importers.nnet import load_nnet, read_nnet
from bornfair.models.network.model import Model
from bornfair.people.domain import Domain


@dataclass(frozen=True)
class Layout:
    """The inputs of the networks whose files begin alike, in their order; which are sensitive; how rows were split."""

    names: tuple[str, ...]
    sensitive: tuple[str, ...]
    target: str
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Where the file's own are not to be taken."""
    kept_aside: tuple[float, ...] = (0.15,)
    """Shares kept aside one after the other, each of what was kept before; the last is measured on."""


LAYOUTS = {
    "AC": Layout(
        ("age", "workclass", "education", "education-num", "marital-status", "occupation", "relationship", "race",
         "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"),
        ("sex",), "income",
    ),
    "GC": Layout(
        ("status", "month", "credit_history", "purpose", "credit_amount", "savings", "employment",
         "investment_as_income_percentage", "other_debtors", "residence_since", "property", "age", "installment_plans",
         "housing", "number_of_credits", "skill_level", "people_liable_for", "telephone", "foreign_worker", "sex"),
        ("age", "sex"), "credit",
    ),
    # These networks read age first; their files list the ranges in another order, age last.
    "BM": Layout(
        ("age", "job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week",
         "duration", "emp.var.rate", "campaign", "pdays", "previous", "poutcome"),
        ("age",), "y",
        {"age": (0, 1), "job": (0, 10), "marital": (0, 2), "education": (0, 6), "default": (0, 1), "housing": (0, 1),
         "loan": (0, 1), "contact": (0, 1), "month": (0, 11), "day_of_week": (0, 6), "duration": (0, 5000),
         "emp.var.rate": (-3, 1), "campaign": (1, 50), "pdays": (0, 999), "previous": (0, 7), "poutcome": (0, 2)},
    ),
    "compas": Layout(
        ("two_year_recid", "priors", "age", "race", "sex", "misdemeanor"), ("age", "race", "sex"), "score_factor",
        kept_aside=(0.2, 0.5),
    ),
}  # fmt: skip
"""By the beginning of a file's name."""

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
YOUNG = {"GC": 26, "BM": 25, "compas": 25}  # the age from which these networks call a person 1


def layout_of(path: Path) -> Layout:
    """What is known of a network by its file's name."""
    for prefix, layout in LAYOUTS.items():
        if path.stem.startswith(prefix):
            return layout
    raise InputError(f"which inputs of '{path.name}' are sensitive? Say so with --sensitive.")


def networks(folder: str | Path) -> list[Path]:
    """The .nnet files of a folder, in the order of their numbers."""
    files = sorted(Path(folder).glob("*.nnet"), key=_by_number)
    if not files:
        raise InputError(f"there are no .nnet files in '{folder}'.")
    return files


def public_network(path: Path, sensitive: str) -> Model:
    """A network of the public ones, with the names of its inputs; it takes raw numbers."""
    return load_nnet(path, sensitive=[sensitive], domain=named_domain(path), normalise="no")


def named_domain(path: Path) -> Domain:
    """The file's ranges with the names of its layout, and its layout's ranges where there are any."""
    layout, own = layout_of(path), read_nnet(path).domain
    if len(own.features) != len(layout.names):
        raise InputError(
            f"'{path}' has {len(own.features)} inputs, but networks of its name have {len(layout.names)}; rename it, "
            "or say with --sensitive which inputs are sensitive."
        )
    features = []
    for feature, name in zip(own.features, layout.names, strict=True):
        limits = dict(zip(("low", "high"), layout.ranges[name], strict=True)) if name in layout.ranges else {}
        features.append(feature.model_dump() | {"name": name} | limits)
    return Domain.model_validate({"features": features, "label": {"name": layout.target, "classes": [0, 1]}})


# --- the tables ---


def adult_inputs(test: str | Path | None = None) -> pd.DataFrame:
    """The adult table as the networks read it.

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
    return _as_numbers(table.assign(**binned))


def german_inputs() -> pd.DataFrame:
    """The german table as the networks read it."""
    raw = datasets.entry("credit").as_written().rename(columns=SPELT)
    table = raw.drop(columns=["personal_status", "credit"])
    table["age"] = (raw["age"] >= YOUNG["GC"]).astype(np.int64)
    table["sex"] = raw["personal_status"].isin(["A91", "A93", "A94"]).astype(np.int64)
    grouped = {name: raw[name].map(numbers) for name, numbers in GROUPS.items()}
    return _as_numbers(table.assign(**grouped, credit=(raw["credit"] == 1).astype(np.int64)))


def bank_inputs() -> pd.DataFrame:
    """The bank table as the networks read it: the rows without gaps."""
    layout = LAYOUTS["BM"]
    raw = datasets.entry("bank").as_written()
    table = raw[~(raw == "unknown").any(axis=1)].reset_index(drop=True)[[*layout.names, layout.target]]
    rate = table["emp.var.rate"].round().astype(np.int64)
    young = (table["age"] >= YOUNG["BM"]).astype(np.int64)
    return _as_numbers(table.assign(**{"emp.var.rate": rate, "age": young}))


def compas_inputs(scores: str | Path) -> pd.DataFrame:
    """ProPublica's table (compas-scores-two-years.csv) as the networks read it. They learn the score, not the crime."""
    needed = (
        "sex",
        "age",
        "race",
        "priors_count",
        "days_b_screening_arrest",
        "c_charge_degree",
        "is_recid",
        "score_text",
        "two_year_recid",
    )  # the file names people: nothing of that is read
    raw = pd.read_csv(scores, keep_default_na=False, usecols=lambda name: name in needed)
    days = pd.to_numeric(raw["days_b_screening_arrest"])
    usual = days.between(-30, 30) & (raw["is_recid"] != -1) & (raw["c_charge_degree"] != "O")
    kept = raw[usual & (raw["score_text"] != "N/A")].reset_index(drop=True)
    table = pd.DataFrame({
        "two_year_recid": kept["two_year_recid"],
        "priors": kept["priors_count"],
        "age": kept["age"] >= YOUNG["compas"],
        "race": kept["race"] != "Caucasian",
        "sex": kept["sex"] == "Female",
        "misdemeanor": kept["c_charge_degree"] == "M",
        "score_factor": kept["score_text"] != "Low",
    })  # fmt: skip
    return table.astype(np.int64)


def _as_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Each text as its position among the sorted ones of its column."""
    texts = [name for name in table.columns if not pd.api.types.is_integer_dtype(table[name])]
    return table.assign(**{name: table[name].astype(str).rank(method="dense").astype(np.int64) - 1 for name in texts})


def held_out(rows: int, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Positions for the repair and to measure on: the split by which the networks were trained and tested."""
    from sklearn.model_selection import train_test_split

    kept = np.arange(rows)
    fitted: list[np.ndarray] = []
    for share in layout.kept_aside:
        rest, kept = train_test_split(kept, test_size=share, random_state=42)
        fitted.append(rest)
    return np.concatenate(fitted), kept


def _by_number(path: Path) -> tuple[str, int]:
    found = re.match(r"(.*?)(\d*)$", path.stem)
    name, digits = found.groups() if found else (path.stem, "")
    return name, int(digits or 0)
