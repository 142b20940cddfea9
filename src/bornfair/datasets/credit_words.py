"""German Credit in words: the file's codes (A11, A93, …) as short texts a person can read."""

from __future__ import annotations

import pandas as pd

COLUMNS: dict[str, dict[str, str] | None] = {
    "checking_account": {
        "A11": "overdrawn", "A12": "below 200", "A13": "200 or more", "A14": "none",
    },
    "duration_months": None,
    "credit_history": {
        "A30": "no credits taken", "A31": "all paid here", "A32": "paid so far", "A33": "past delays",
        "A34": "critical",
    },
    "purpose": {
        "A40": "new car", "A41": "used car", "A42": "furniture", "A43": "radio or tv", "A44": "appliances",
        "A45": "repairs", "A46": "education", "A47": "holiday", "A48": "retraining", "A49": "business", "A410": "other",
    },
    "amount": None,
    "savings": {
        "A61": "below 100", "A62": "100 to 500", "A63": "500 to 1000", "A64": "1000 or more", "A65": "unknown or none",
    },
    "employed_since": {
        "A71": "unemployed", "A72": "under 1 year", "A73": "1 to 4 years", "A74": "4 to 7 years",
        "A75": "7 years or more",
    },
    "instalment_rate": None,
    "personal_status": None,
    "other_parties": {"A101": "none", "A102": "co-applicant", "A103": "guarantor"},
    "residence_since": None,
    "property": {
        "A121": "real estate", "A122": "savings contract", "A123": "car or other", "A124": "unknown or none",
    },
    "age": None,
    "other_plans": {"A141": "bank", "A142": "stores", "A143": "none"},
    "housing": {"A151": "rent", "A152": "own", "A153": "free"},
    "existing_credits": None,
    "job": {
        "A171": "unskilled, non-resident", "A172": "unskilled", "A173": "skilled",
        "A174": "management or self-employed",
    },
    "dependants": None,
    "telephone": {"A191": "no", "A192": "yes"},
    "foreign_worker": {"A201": "yes", "A202": "no"},
    "risk": None,
}  # fmt: skip
"""Columns of the file in order, with the words for their codes (None: a number, or handled below)."""


def readable(raw: pd.DataFrame) -> pd.DataFrame:
    """The table in words, with "personal status and sex" split in two so that twins can differ in sex alone.

    The file knows women only as "divorced, separated or married", a status no man has. Kept apart from the men's,
    that text would give sex away; so status says only whether a person is single.
    """
    table = raw.copy()
    for name, words in COLUMNS.items():
        if words is not None:
            table[name] = raw[name].map(words)
    status = raw["personal_status"]
    table["sex"] = status.map({"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"})
    table["single"] = status.isin(["A93", "A95"])
    table["risk"] = raw["risk"].map({1: "good", 2: "bad"})
    # "good" is the outcome people hope for: named last, it becomes the positive class.
    table["risk"] = pd.Categorical(table["risk"], categories=["bad", "good"])
    return table.drop(columns="personal_status")
