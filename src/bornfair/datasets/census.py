"""Census income (Adult, UCI): does a person earn more than 50,000 dollars a year?"""

from __future__ import annotations

import io

import pandas as pd

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def read(content: bytes) -> pd.DataFrame:
    table = pd.read_csv(
        io.BytesIO(content), header=None, names=list(COLUMNS), skipinitialspace=True, keep_default_na=False
    )
    # fnlwgt says how many people a row stands for in the survey; it is not a property of the person.
    # A '?' stays a category of its own: "not stated" is something a person's form can say.
    return table.drop(columns="fnlwgt")
