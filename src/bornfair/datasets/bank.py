"""Bank Marketing: will a customer who is called take a term deposit?

Two editions of one campaign: `bank` with the economic context (bank-additional-full.csv), `bank-full` without it.
"""

from __future__ import annotations

import io

import pandas as pd


def read_additional(content: bytes) -> pd.DataFrame:
    """The edition of 2014, in which 999 days mean: not contacted before."""
    return _readable(content, never=999)


def read_full(content: bytes) -> pd.DataFrame:
    """The edition of 2011, in which -1 days mean: not contacted before."""
    return _readable(content, never=-1)


def _readable(content: bytes, *, never: int) -> pd.DataFrame:
    table = pd.read_csv(io.BytesIO(content), sep=";", keep_default_na=False)
    # How long the call lasted is known when its outcome is, so it cannot help to decide whom to call.
    table = table.drop(columns="duration")
    # As a number of days, 999 would be far from 27 and -1 next to 0; so whether it is known is a column of its own.
    # It is not called "contacted before": in the edition of 2014, 4,110 customers with 999 days had earlier contacts.
    known = table["pdays"] != never
    table["pdays"] = table["pdays"].where(known, 0)
    table.insert(list(table.columns).index("pdays"), "pdays_known", known)
    return table
