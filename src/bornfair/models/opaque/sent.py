"""How does a row look to a program that is asked? The same person is the same bytes, whichever table they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import plain
from bornfair.models.columns import Columns
from bornfair.people.features import IntegerFeature


def as_sent(table: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The columns that are read, in order; whole numbers as such, also beside gaps."""
    found = table[list(columns.names)]
    changed: dict[str, Any] = {}
    for name in columns.names:
        column = found[name]
        if isinstance(columns.domain.feature(name), IntegerFeature) and column.dtype.kind == "f":
            there = column.dropna().to_numpy()
            if bool((there == np.round(there)).all()):
                changed[name] = column.astype("Int64")
    return found.assign(**changed) if changed else found


def as_csv(table: pd.DataFrame, columns: Columns) -> bytes:
    """A header and a line for each row; gaps are empty.

    >>> from bornfair.people.domain import Domain
    >>> people = pd.DataFrame({"age": [30.0, None], "sex": ["f", "m"]})
    >>> as_csv(people, Columns(Domain.infer(people), ("age", "sex")))
    b'age,sex\\n30,f\\n,m\\n'
    """
    return as_sent(table, columns).to_csv(index=False, lineterminator="\n").encode()


def as_records(table: pd.DataFrame, columns: Columns) -> list[dict[str, Any]]:
    """An object for each row; gaps are null."""
    sent = as_sent(table, columns).astype(object)
    sent = sent.where(sent.notna(), None)
    names = list(sent.columns)
    return [
        {name: plain(value) for name, value in zip(names, row, strict=True)}
        for row in sent.itertuples(index=False, name=None)
    ]
