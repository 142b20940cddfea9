"""Which datasets there are, and how each becomes a table, a target and its sensitive columns."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

import numpy as np
import pandas as pd

from bornfair.datasets import credit_words
from bornfair.errors import InputError, shown


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its target column, the columns that may be called sensitive, and where it comes from."""

    name: str
    table: pd.DataFrame
    target: str
    sensitive: tuple[str, ...]
    source: str

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.table)} rows, target {self.target!r}, sensitive {list(self.sensitive)})"
        )


def load(name: str) -> Dataset:
    """Load a dataset by name.

    >>> load("credit").table.shape
    (1000, 22)
    """
    if name not in _LOADERS:
        raise InputError(f"dataset {name!r} is not known; the datasets are {shown(NAMES)}.")
    return _LOADERS[name]()


def split(dataset: Dataset, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of a dataset: the same for every method that is given the same seed."""
    return split_rows(dataset.table, seed=seed, test_fraction=test_fraction)


def split_rows(table: pd.DataFrame, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of any table, drawn at random."""
    order = np.random.default_rng([seed, 20]).permutation(len(table))
    count = round(test_fraction * len(table))
    return table.iloc[order[count:]].reset_index(drop=True), table.iloc[order[:count]].reset_index(drop=True)


def _census() -> Dataset:
    names = [
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
        "income",
    ]
    text = _embedded("adult.data.gz", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d")
    table = pd.read_csv(io.StringIO(text), header=None, names=names, skipinitialspace=True, keep_default_na=False)
    # fnlwgt says how many people a row stands for in the survey; it is not a property of the person.
    # A '?' stays a category of its own: "not stated" is something a person's form can say.
    return Dataset(
        "census",
        table.drop(columns="fnlwgt"),
        "income",
        ("sex", "race", "age"),
        "Adult (training part), Becker and Kohavi 1996, UCI Machine Learning Repository, CC BY 4.0",
    )


def _credit() -> Dataset:
    text = _embedded("german.data.gz", "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871")
    raw = pd.read_csv(io.StringIO(text), header=None, names=list(credit_words.COLUMNS), sep=" ")
    return Dataset(
        "credit",
        credit_words.readable(raw),
        "risk",
        ("sex", "age"),
        "Statlog German Credit, Hofmann 1994, UCI Machine Learning Repository, CC BY 4.0",
    )


_LOADERS: dict[str, Callable[[], Dataset]] = {"census": _census, "credit": _credit}
NAMES = tuple(_LOADERS)


def _embedded(name: str, sha256: str) -> str:
    content = gzip.decompress((resources.files("bornfair.datasets") / "data" / name).read_bytes())
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(
            f"the embedded file {name} is damaged: SHA-256 {found}, expected {sha256}; install bornfair again."
        )
    return content.decode("ascii")
