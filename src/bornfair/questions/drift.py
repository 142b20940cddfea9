"""Rows of a new table that lie outside the domain of a certificate, and what follows for them.

A certificate is about ranges, categories and combinations. What it says about a row outside depends on how the model
was proven, and on what the model does with such values (`bornfair.people.policies.Policies`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_level, shown
from bornfair.models.protocol import Exportable
from bornfair.models.verdict import Verdict
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.levels import as_listed
from bornfair.people.tables import as_pandas, read_table
from bornfair.proof.bundle import load_bundle
from bornfair.report.formatting import percent
from bornfair.report.verdict_text import BEYOND_DOMAIN

Problem = Literal[
    "no such column", "gap", "not a number", "not finite", "not whole", "below", "above", "new value", "new combination"
]
EXAMPLES = 5  # values shown of each problem
TEXTS = 60  # letters of each


@dataclass(frozen=True)
class OutsideRows:
    """Rows that are outside for one reason.

    examples: values, the most frequent first. first_row: counted from 0. same: how many of these rows the model cannot
    tell from somebody of the domain, because it holds the number at an end.
    """

    column: str
    problem: Problem
    rows: int
    allowed: str
    examples: tuple[Any, ...] = ()
    first_row: int = 0
    same: int = 0

    @property
    def text(self) -> str:
        """
        >>> OutsideRows("age", "above", 3, "17 … 90", (95, 101), 7).text
        "'age' is above 17 … 90 in 3 rows: 95, 101 (first in row 7)"
        """
        where = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        if self.problem == "no such column":
            return f"there is no column '{self.column}'"
        told = {
            "gap": "has gaps",
            "below": f"is below {self.allowed}",
            "above": f"is above {self.allowed}",
            "new value": f"has values that are none of {self.allowed}",
            "new combination": f"has combinations that are none of the {self.allowed}",
        }.get(self.problem, f"is {self.problem}")
        named = f": {shown(self.examples)}" if self.examples else ""
        same = f"; held at an end by the model in {self.same:,}" if self.same else ""
        return f"'{self.column}' {told} in {where}{named} (first in row {self.first_row}{same})"


@dataclass(frozen=True)
class Drift:
    """How a table lies to the domain of a certificate; true if all its rows are inside.

    outside: how many rows are not. problems: why, by column. filled: gaps that the model fills in with a value of the
    domain, by column: these rows count as inside, as do gaps of features that may be missing. absent: sensitive columns
    that the table lacks. extra: columns that the model does not read. holds: whether what is proven holds for the
    rows outside, too. follows: what all that means, in sentences.
    """

    rows: int
    outside: int
    problems: tuple[OutsideRows, ...]
    filled: dict[str, int]
    absent: tuple[str, ...]
    extra: tuple[str, ...]
    verdict: Verdict | None
    holds: bool
    follows: tuple[str, ...]

    def __bool__(self) -> bool:
        return not self.outside

    @property
    def share(self) -> float:
        return self.outside / self.rows

    def to_json(self) -> dict[str, Any]:
        verdict = self.verdict
        certificate = None if verdict is None else {"verdict": verdict.answer, "proof": verdict.proof}
        problems = [{**asdict(one), "examples": list(one.examples), "text": one.text} for one in self.problems]
        return {
            "rows": self.rows, "outside": self.outside, "share": self.share, "problems": problems,
            "filled": self.filled, "absent": list(self.absent), "extra": list(self.extra),
            "certificate": certificate, "holds": self.holds, "follows": list(self.follows),
        }  # fmt: skip


def drift(bundle: Any, table: Any) -> Drift:
    """Which rows of a table are not of the domain that a bundle's certificate is about, and what follows.

    Args:
        bundle: the folder or .zip of a bundle, or the model that was loaded from it.
        table: a data frame, or a CSV or Parquet file.

    Returns:
        A record that is true if all rows are inside.

    Raises:
        InputError: if either cannot be read, or the table has no rows.

    >>> import pandas as pd
    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table[["age", "amount", "sex", "risk"]]
    >>> clf = FairClassifier(["sex"], hidden=[4], epochs=1).fit(people.drop(columns="risk"), people["risk"])
    >>> found = drift(clf.model_, pd.DataFrame({"age": [30, 99], "amount": [1000, 1000]}))
    >>> found.outside, found.problems[0].text, found.holds
    (1, "'age' is above 19 … 75 in 1 row: 99 (first in row 1)", True)
    """
    model = load_bundle(bundle) if isinstance(bundle, (str, Path)) else bundle
    model = getattr(model, "model_", model)
    if getattr(model, "kind", "opaque") == "opaque":
        raise InputError(f"drift is measured against a bundle, found {type(model).__name__}; give its folder or .zip.")
    frame = read_table(table) if isinstance(table, (str, Path)) else as_pandas(table)
    if not len(frame):
        raise InputError("the table has no rows, so none is outside; give one with people.")
    domain = model.domain
    frame = as_listed(domain, frame)
    outside, problems, filled = np.zeros(len(frame), bool), list[OutsideRows](), dict[str, int]()
    for feature in domain.features:
        if feature.name not in frame.columns:
            if feature.name not in domain.sensitive:
                problems.append(OutsideRows(feature.name, "no such column", len(frame), _allowed(feature)))
                outside[:] = True
            continue
        column = frame[feature.name]
        gap = column.isna().to_numpy() & ~np.array(feature.missing)
        if gap.any() and _fills(model, feature):
            filled[feature.name] = int(gap.sum())
            gap = np.zeros(len(frame), bool)
        for problem, rows in _problems(feature, column, gap):
            shown_values = [] if problem == "gap" else column[rows].astype(object)
            held = 0
            if problem in ("below", "above") and isinstance(feature, NUMERIC):
                held = int(model.held(feature, pd.to_numeric(column[rows]).to_numpy(np.float64)).sum())
            problems.append(_outside(feature.name, problem, rows, _allowed(feature), shown_values, held))
            outside |= rows
    if combined := _new_combinations(model, frame, outside):
        problems.append(combined[0])
        outside |= combined[1]
    label = () if domain.label is None else (domain.label.name,)
    known = (*domain.names, *label)
    verdict = None if model.certificate is None else model.certificate.verdict
    holds = verdict is not None and verdict.answer == "verified" and verdict.proof == "structural"
    return Drift(
        len(frame), int(outside.sum()), tuple(problems), filled,
        tuple(name for name in domain.sensitive if name not in frame.columns),
        tuple(str(name) for name in frame.columns if name not in known), verdict, holds,
        tuple(_follows(model, verdict, holds, int(outside.sum()), len(frame), problems)),
    )  # fmt: skip


# --- one column ---


def _problems(feature: Feature, column: pd.Series, gap: np.ndarray) -> Iterator[tuple[Problem, np.ndarray]]:
    """Why rows are outside because of this column; each row once."""
    there = column.notna().to_numpy()
    found: dict[Problem, np.ndarray] = {"gap": gap}
    if isinstance(feature, NUMERIC):
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
        finite = np.isfinite(numbers)
        below, above = finite & (numbers < feature.low), finite & (numbers > feature.high)
        found["not a number"] = there & np.isnan(numbers)
        found["not finite"] = ~np.isnan(numbers) & ~finite
        found |= {"below": below, "above": above}
        if feature.kind == "integer":
            found["not whole"] = finite & ~below & ~above & (numbers != np.round(numbers))
    else:
        found["new value"] = there & ~column.isin(list(feature.levels())).to_numpy()
    yield from ((problem, rows) for problem, rows in found.items() if rows.any())


def _outside(name: str, problem: Problem, rows: np.ndarray, allowed: str, values: Any, held: int = 0) -> OutsideRows:
    """These rows with their most frequent values."""
    common = pd.Series(values, dtype=object).value_counts().index[:EXAMPLES]
    examples = tuple(value if problem == "new combination" else _short(value) for value in common.tolist())
    return OutsideRows(name, problem, int(rows.sum()), allowed, examples, int(np.argmax(rows)), held)


def _allowed(feature: Feature) -> str:
    if isinstance(feature, NUMERIC):
        return f"{feature.low:g} … {feature.high:g}"
    return shown(feature.levels(), most=EXAMPLES)


def _short(value: Any) -> Any:
    scalar = plain(value)
    if isinstance(scalar, float) and not np.isfinite(scalar):
        return str(scalar)
    if isinstance(scalar, float) and scalar.is_integer():
        return int(scalar)  # one odd cell makes fractions of a column of whole numbers
    if isinstance(scalar, (bool, int, float)):
        return scalar
    text = str(scalar)
    return text if len(text) <= TEXTS else f"{text[: TEXTS - 1]}…"


def _fills(model: Exportable, feature: Feature) -> bool:
    """Whether a gap is filled in with a value of the domain, or is a sensitive value, of which all are tried anyway."""
    if feature.name in model.domain.sensitive:
        return True
    value = model.fills.get(feature.name)
    if value is None:
        return False
    return not model.domain.outside(pd.DataFrame({feature.name: [value]}))[0]


def _new_combinations(
    model: Exportable, frame: pd.DataFrame, outside: np.ndarray
) -> tuple[OutsideRows, np.ndarray] | None:
    """Combinations of sensitive values that do not exist in the domain, of rows whose values do."""
    domain = model.domain
    names = list(domain.sensitive)
    if domain.combinations is None or any(name not in frame.columns for name in names):
        return None
    known = set(domain.combinations)
    values = [tuple(plain_level(v) for v in row) for row in frame[names].to_numpy(object)]
    never = [f.name for f in domain.sensitive_features if not f.missing]
    complete = frame[never].notna().all(axis=1).to_numpy()
    rows = np.array([row not in known for row in values], bool) & complete & ~outside
    if not rows.any():
        return None
    found = [", ".join(map(str, values[i])) for i in np.flatnonzero(rows)]
    allowed = f"{len(known):,} of the domain"
    return _outside(" × ".join(names), "new combination", rows, allowed, found), rows


# --- what follows ---


def _follows(
    model: Exportable, verdict: Verdict | None, holds: bool, outside: int, rows: int, problems: list[OutsideRows]
) -> Iterator[str]:
    if not outside:
        yield f"All {rows:,} rows are people of the domain: what the certificate says, it says of them."
        return
    yield f"{outside:,} of {rows:,} rows ({percent(outside / rows)}) are outside the domain."
    kinds = {one.problem for one in problems}
    if verdict is None or verdict.answer != "verified":
        word = "no certificate" if verdict is None else f"the certificate says {verdict.answer}"
        yield f"Nothing is proven of the others either: {word}."
    elif holds:
        yield f"{BEYOND_DOMAIN} How well the model decides about these rows is another question."
        if model.domain.twins and kinds & {"new value", "below", "above"}:
            yield (
                "Declared twins are told by values of the domain: by these rules, who has another value of "
                f"{shown(model.domain.twin_group.moved)} has no twin."
            )
    else:
        yield (
            "The proof was made for the domain alone: of these rows it says nothing. Widen the domain (domain.json, "
            "--domain) and certify again, or do not rely on the certificate for them."
        )
        if same := sum(one.same for one in problems):
            yield (
                f"In {same:,} cells the model holds the number at an end of its range, as it does somebody's of the "
                "domain: where that is all, the proof covers the row."
            )
    if "new value" in kinds and model.policies is not None and model.policies.unseen == "ignore":
        yield "The model takes a new category of a feature that is not sensitive for none of those it knows."
    if kinds & {"no such column", "gap", "not a number", "not finite"}:
        yield "Where a value is missing or is no number, the model may refuse to decide."
