"""COMPAS two-year recidivism (ProPublica, 2016), without anything that names a person.

The embedded file is not the original. It was derived from compas-scores-two-years.csv (7,214 rows, SHA-256
c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d) by `without_identity`, and anyone can redo it:

    gzip.compress(without_identity(original), 9, mtime=0)

- Rows: ProPublica's own filter, which leaves 6,172.
- Columns: those of `COLUMNS`. Names, birth dates, case numbers and all other dates are left out because they identify;
  `decile_score`, `score_text` and their kin because they are another model's output; `is_recid`, `violent_recid`, `r_*`
  and `vr_*` because they hold the answer; `age_cat` because it repeats age; the charge's text because it has hundreds
  of values.
- Order: sorted by value, so that a row's place does not lead back to the person in the original.
"""

from __future__ import annotations

import csv
import io

import pandas as pd

COLUMNS = (
    "sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count", "c_charge_degree",
    "two_year_recid",
)  # fmt: skip


def without_identity(original: bytes) -> bytes:
    """The rows and columns that are embedded, of the file as ProPublica published it."""
    rows = [row for row in csv.DictReader(io.StringIO(original.decode("utf-8"))) if _in_propublicas_study(row)]
    kept = sorted(tuple(row[name] for name in COLUMNS) for row in rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(kept)
    return text.getvalue().encode()


def readable(raw: pd.DataFrame) -> pd.DataFrame:
    degree = raw["c_charge_degree"].map({"F": "felony", "M": "misdemeanor"})
    return raw.assign(c_charge_degree=degree, two_year_recid=raw["two_year_recid"] == 1)


def _in_propublicas_study(row: dict[str, str]) -> bool:
    """Charged within 30 days of the screening, for more than a traffic offence, with a known outcome and score."""
    days = row["days_b_screening_arrest"]
    return (
        days != ""
        and -30 <= float(days) <= 30
        and row["is_recid"] != "-1"
        and row["c_charge_degree"] != "O"
        and row["score_text"] != "N/A"
    )
