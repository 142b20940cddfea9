"""Law school students and the bar examination (LSAC National Longitudinal Bar Passage Study, Wightman 1998).

Two editions, whose `pass_bar` differs. In `law`, the cleaned table of the survey by Le Quy et al. (2022), it means
passed at the first attempt (89.0 %): of its rows, 20,423 are found by their ten numbers in the full table, and in each
of them it equals that table's `bar1`. In `law-full` it means passed in the end (94.8 %).
"""

from __future__ import annotations

import io

import pandas as pd

NUMBERS = ("decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fam_inc", "tier")
WHOLE_NUMBERS = ("decile1b", "decile3", "fam_inc", "tier")
FULL_TIME = {1.0: "yes", 2.0: "no"}
NOT_STATED = "not stated"
MIDDLE = {"decile1b": 5, "decile3": 5, "zfygpa": 0.0, "zgpa": 0.0, "fam_inc": 3, "tier": 3}
"""The middle of each number's scale: grades are in standard deviations from the school's mean."""


def read_clean(content: bytes) -> pd.DataFrame:
    """20,798 students without gaps; race is White or Non-White."""
    raw = pd.read_csv(io.BytesIO(content))
    sex = raw["male"].map({0.0: "female", 1.0: "male"})
    return _table(raw, raw["fulltime"].map(FULL_TIME), sex, raw["race"])


def read_full(content: bytes) -> pd.DataFrame:
    """All 22,407 students, with the columns of `law` and one more.

    1,895 of them have gaps. Texts say "not stated" (fulltime 34, sex 5, race 16), as a form can. Numbers get the middle
    of their scale (decile1b and decile3 1,604, zfygpa 984, zgpa 1,289, fam_inc 289, tier 96), and `complete` is false
    for students with any gap, so that a model can tell.

    Left out: `bar`, `bar1`, `bar2` and their years hold the answer, `dnn_bar_pass_prediction` is some model's output,
    `ID` is no property of a person, `grad` and `Dropout` say who may sit the examination, `DOB_yr` and `age` are not
    believable (students born in 1910, negative ages); the others repeat a column that is kept.
    """
    raw = pd.read_csv(io.BytesIO(content))
    race = raw["race1"].replace({"hisp": "hispanic"})
    stated = [raw["fulltime"].map(FULL_TIME), raw["gender"], race]
    complete = pd.concat([raw[list(NUMBERS)], *stated], axis=1).notna().all(axis=1)
    table = _table(raw.fillna(MIDDLE), *(column.fillna(NOT_STATED) for column in stated))
    table.insert(len(table.columns) - 1, "complete", complete)
    return table


def _table(raw: pd.DataFrame, fulltime: pd.Series, sex: pd.Series, race: pd.Series) -> pd.DataFrame:
    table = raw[list(NUMBERS)].astype(dict.fromkeys(WHOLE_NUMBERS, int))
    return table.assign(fulltime=fulltime, sex=sex, race=race, pass_bar=raw["pass_bar"] == 1)
