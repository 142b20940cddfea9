"""Other people's data, as tables with readable values. Those in NAMES are in the package; EXTERNAL need a file."""

from __future__ import annotations

from bornfair.datasets.catalogue import (
    ALL_NAMES,
    EXTERNAL,
    NAMES,
    Dataset,
    Entry,
    entry,
    load,
    split,
    split_rows,
    where,
)
from bornfair.datasets.external import Place
from bornfair.datasets.fetching import fetch

__all__ = [
    "ALL_NAMES",
    "EXTERNAL",
    "NAMES",
    "Dataset",
    "Entry",
    "Place",
    "entry",
    "fetch",
    "load",
    "split",
    "split_rows",
    "where",
]
