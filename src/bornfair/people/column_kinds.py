"""Kinds of columns: numbers, categories, true/false, dates, free texts, and identifiers of single people.

Kinds are judged by what the values look like and how many rows share one, never by one sign alone: a category of thirty
values in forty rows is a category, and a measurement that differs in all rows is a measurement. Values of texts and
identifiers belong to single people; no result here contains them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import plain
from bornfair.people.numbers import Decimal, holds_numbers, is_no_value, number_of, style_of

Kind = Literal["whole number", "decimal", "category", "true/false", "date", "text", "identifier", "empty"]

FEW = 35  # below so many different values nothing is taken for an identifier or a text by their number alone
LOOKED_AT = 2_000  # different values whose form is looked at
LONGEST = 200  # signs of a text that are looked at
SHOWN_FROM = 5  # rows that share a category before it is shown: rarer ones may be about one person


@dataclass(frozen=True)
class Column:
    """One column, as far as a look at it tells."""

    name: str
    kind: Kind
    values: int
    """How many different values there are."""
    gaps: int
    """How many rows have none."""
    low: Any = None
    high: Any = None
    common: tuple[Any, ...] = ()
    """The most frequent categories."""
    most: int = 0
    """How many rows share the most frequent value."""
    what: str = ""
    """Of dates, texts and identifiers: what they are, in a word or two."""
    written: str = ""
    """Of numbers that are texts: how they are written."""
    decimal: Decimal = "."
    refused: bool = False
    """Whether training makes no sense with it as it is."""

    @property
    def is_number(self) -> bool:
        return self.kind in ("whole number", "decimal")

    @property
    def teaches_nothing(self) -> bool:
        """Whether nothing general can be learnt from it as it is."""
        return self.refused and self.kind in ("text", "identifier", "date", "decimal", "whole number")


def look(column: pd.Series) -> Column:
    """What a column is."""
    name, present = str(column.name), column.dropna()
    gaps = len(column) - len(present)
    if present.empty:
        return Column(name, "empty", 0, gaps, refused=True)
    declared = isinstance(column.dtype, pd.CategoricalDtype)
    if holds_numbers(present) and not pd.api.types.is_complex_dtype(present.dtype):
        return _number(name, present.to_numpy(dtype=np.float64), gaps)
    counts = present.value_counts()
    counts = counts[counts > 0]
    facts: dict[str, Any] = {"values": len(counts), "gaps": gaps, "most": int(counts.iloc[0])}
    if pd.api.types.is_bool_dtype(present.dtype) or all(isinstance(value, (bool, np.bool_)) for value in counts.index):
        return Column(name, "true/false", common=_common(counts), **facts)
    if pd.api.types.is_datetime64_any_dtype(present.dtype):
        ends: dict[str, Any] = {"low": str(present.min()), "high": str(present.max())}
        return Column(name, "date", what="dates", refused=True, **facts, **ends)
    if declared:
        return Column(name, "category", common=_common(counts), **facts)
    if all(isinstance(plain(value), (int, float)) and not isinstance(value, bool) for value in counts.index):
        return _number(name, present.to_numpy(dtype=np.float64), gaps)
    return _text(name, counts, len(present), facts)


def refused(table: pd.DataFrame, *, told: Collection[str] = (), numbers: bool = True) -> list[Column]:
    """The columns that nothing sensible can be learnt from as they are, but those somebody has `told` to take.

    numbers: whether whole numbers that count or name the rows are among them.
    """
    found = []
    for name in table.columns:
        texts = not (pd.api.types.is_numeric_dtype(table[name].dtype) or table[name].dtype == bool)
        if name in told or not (texts or numbers) or isinstance(table[name].dtype, pd.CategoricalDtype):
            continue
        column = look(table[name])
        if column.teaches_nothing:
            found.append(column)
    return found


def refusal(columns: Sequence[Column], *, in_python: bool = False) -> str:
    """The sentence with which they are refused: all of them by name, and what can be done."""
    parts = [f"'{column.name}' ({column.written or column.what})" for column in columns]
    parts = parts if len(parts) <= 8 else [*parts[:8], f"{len(parts) - 8} more"]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    numbers = [column for column in columns if column.written]
    others = [column for column in columns if not column.written]
    it = "it" if len(columns) == 1 else "them"
    ways = []
    if numbers and in_python:
        ways.append("turn texts into numbers")
    elif numbers:
        commas = "--decimal , or " if numbers[0].decimal == "," else ""
        ways.append(f"read numbers with {commas}{_typed('numeric', numbers)}")
    if others:
        ways.append(f"leave {it} out" + ("" if in_python else f" with {_typed('drop', others)}"))
    as_it_is = "as it is" if len(columns) == 1 else "as they are"
    keep = "with astype('category')" if in_python else f"with {_typed('keep', columns[:1])}"
    return f"nothing general can be learnt from {listed} {as_it_is}; {', '.join(ways)}, or keep {it} {keep}."


def _typed(option: str, columns: Sequence[Column]) -> str:
    return shlex.join(word for column in columns for word in (f"--{option}", column.name))


# --- numbers ---


def _number(name: str, numbers: np.ndarray, gaps: int, **more: Any) -> Column:
    ordered = np.sort(numbers)
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    facts: dict[str, Any] = {
        "values": len(starts), "gaps": gaps, "most": int(np.diff(np.append(starts, len(ordered))).max()),
    }  # fmt: skip
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return Column(name, "decimal", **facts, **more)
    low, high, rows = float(finite.min()), float(finite.max()), len(numbers)
    whole = len(finite) == rows and bool((numbers == np.round(numbers)).all()) and max(abs(low), abs(high)) < 2**63
    if not whole:
        return Column(name, "decimal", low=low, high=high, **facts, **more)
    ends: dict[str, Any] = {"low": int(low), "high": int(high)}
    if not more and (what := _whole_identifier(name, int(low), int(high), rows, facts["values"])):
        return Column(name, "identifier", what=what, refused=True, **facts)
    if not more and _counts_days(numbers, int(low), int(high), facts["values"]):
        return Column(name, "date", what="dates such as 20240131", refused=True, **facts, **ends)
    return Column(name, "whole number", **facts, **ends, **more)


def _whole_identifier(name: str, low: int, high: int, rows: int, values: int) -> str:
    """What whole numbers name, if they name the rows: nothing else makes (nearly) all of them differ so."""
    if rows < FEW or values < 0.98 * rows:
        return ""
    if values == rows and high - low + 1 <= 1.2 * rows:
        return "running numbers"
    if _names_people(name):
        return "numbers of people or accounts"
    long = low >= 10**8 and len(str(low)) == len(str(high))
    return "long numbers such as of accounts or telephones" if long and values >= 0.99 * rows else ""


def _counts_days(numbers: np.ndarray, low: int, high: int, values: int) -> bool:
    if not (low >= 19000101 and high <= 21001231 and values >= 20):
        return False
    month, day = numbers // 100 % 100, numbers % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


# --- texts ---

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez)[a-zä]*\.?"
_TIME = r"(?:[ T]+\d{1,2}:\d{2}.*)?"
_DATE = re.compile(
    rf"(?:\d{{4}}[-/.]\d{{1,2}}(?:[-/.]\d{{1,2}})?|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}\.?[ -]{_MONTH}[ -,]*(?:\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}},? \d{{4}}){_TIME}",
    re.IGNORECASE,
)
_FORMS = {
    what: re.compile(form, re.IGNORECASE).fullmatch
    for what, form in {
        "e-mail addresses": r"[^@\s]+@[^@\s]+\.[^@\s]+",
        "UUIDs": r"\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?",
        "hashes": r"(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}",
        "social security numbers": r"\d{3}-\d{2}-\d{4}",
        "telephone numbers": r"(?:\+|00|\(?0)[\d ()/.-]{6,20}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}",
        "web addresses": r"(?:https?://|www\.)\S+",
        "network addresses": r"(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}",
        "account numbers": r"[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?|(?:\d{4}[ -]){3}\d{4}",
    }.items()
}
_WORDS = {
    "people": "surname lastname firstname forename fullname nachname vorname nom prenom",
    "whose": "first last given family middle maiden full sur nick applicant customer client person patient employee "
    "borrower owner contact user birth legal",
    "texts": "address addr street strasse straße adresse comment comments note notes remark remarks description text "
    "message email mail phone telephone mobile",
    "identifiers": "id ids uid uuid guid key account acct ssn phone telephone tel mobile fax passport serial index idx "
    "rowid ref reference unnamed iban nr",
    "numbered": "account applicant application card case client contract customer employee file invoice loan member "
    "order passport patient person policy record reference row serial social",
}
"""Words in the names of columns, which decide where the values leave it open."""
_NAMED = {role: frozenset(words.split()) for role, words in _WORDS.items()}


def _text(name: str, counts: pd.Series, rows: int, facts: dict[str, Any]) -> Column:
    values = len(counts)
    step = max(1, -(-values // LOOKED_AT))
    looked = [str(value).strip()[:LONGEST] for value in counts.index[::step]]
    share = lambda test: sum(map(bool, map(test, looked))) / len(looked)  # noqa: E731
    if share(_DATE.fullmatch) >= 0.95:
        return Column(name, "date", what="dates written as text", refused=values >= _many(rows, 0.3, 200), **facts)
    for what, form in _FORMS.items():
        if share(form) >= 0.9 and values >= min(10, max(3, 0.2 * rows)):
            return Column(name, "identifier", what=what, refused=True, **facts)
    if (written := _written(name, counts, looked, rows, facts["gaps"])) is not None:
        return written
    tokens = _tokens(name)
    words = float(np.mean([len(text.split()) for text in looked]))
    several = share(lambda text: " " in text or "," in text)
    length = float(np.mean([len(text) for text in looked]))
    person = tokens & _NAMED["people"] or tokens == {"name"} or ("name" in tokens and tokens & _NAMED["whose"])
    if (person or tokens & _NAMED["texts"]) and values >= min(max(20, 0.1 * rows), 200):
        return Column(name, "text", what="names, addresses or free text", refused=True, **facts)
    if (words >= 6 or length >= 40) and values >= _many(rows, 0.3, 200):
        return Column(name, "text", what="free text", refused=True, **facts)
    if several >= 0.6 and values >= _many(rows, 0.6, 500):
        return Column(name, "text", what="names, addresses or free text", refused=True, **facts)
    digits = share(lambda text: sum(c.isdigit() for c in text) >= 4 and " " not in text)
    coded = digits >= 0.9 and values >= _many(rows, 0.3, 500)
    if values >= max(FEW, 0.9 * rows) or coded or (_names_people(name) and values >= _many(rows, 0.3, 500)):
        return Column(name, "identifier", what="texts that hardly two rows share", refused=True, **facts)
    return Column(name, "category", common=_common(counts), **facts)


def _many(rows: int, share: float, most: int) -> float:
    """From how many different texts on they are no categories: a share of the rows, or so many in any case."""
    return min(max(FEW, share * rows), most)


def _written(name: str, counts: pd.Series, looked: list[str], rows: int, gaps: int) -> Column | None:
    """Texts that are numbers all the same, but for what is written for no value."""
    if style_of([text for text in looked if not is_no_value(text)]) is None:
        return None
    texts = [str(value).strip() for value in counts.index]
    told = [text for text in texts if not is_no_value(text)]
    if not told or any(re.fullmatch(r"0\d+", text) for text in told):  # codes: a number begins with no zero
        return None
    decimal = style_of(told)
    if decimal is None:
        return None
    values = np.array([number_of(text, decimal) for text in told], dtype=np.float64)
    plain_ones = sum(bool(re.fullmatch(r"[+-]?\d*\.?\d+(?:[eE][+-]?\d+)?", text)) for text in told)
    if plain_ones == len(told) == len(texts):
        return None  # a file's would have been read as numbers: somebody has made texts of them
    if plain_ones == len(told):
        marks = [str(value) for value in counts.index if is_no_value(str(value))]
        written = f"numbers beside {' and '.join(repr(mark) for mark in marks[:3])}"
    elif decimal == ",":
        grouped = any(re.search(r"\d[.'’ ]\d{3}(?:\D|$)", text) for text in told)
        written = "numbers with decimal commas" + (" and thousands separators" if grouped else "")
    elif any(c in text for text in told for c in "%‰"):
        written = "numbers with percent signs"
    elif any(re.search(r"[^\d.,'’\s()+-]", text) for text in told):
        written = "numbers with a currency or unit"
    else:
        written = "numbers with thousands separators"
    told_rows = np.array([count for value, count in counts.items() if not is_no_value(str(value))])
    refused = len(told) >= min(max(10, 0.1 * rows), 100)
    gaps += rows - int(told_rows.sum())
    return _number(name, np.repeat(values, told_rows), gaps, written=written, decimal=decimal, refused=refused)


def _tokens(name: str) -> set[str]:
    """
    >>> sorted(_tokens("customerID")), sorted(_tokens("SK_ID_CURR"))
    (['customer', 'id'], ['curr', 'id', 'sk'])
    """
    return {part.lower() for part in re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-zäöüß])(?=[A-ZÄÖÜ])", " ", name))}


def _names_people(name: str) -> bool:
    tokens = _tokens(name)
    return bool(tokens & _NAMED["identifiers"] or (tokens & {"number", "no", "num"} and tokens & _NAMED["numbered"]))


def _common(counts: pd.Series) -> tuple[Any, ...]:
    found = [plain(value) for value in counts[counts >= SHOWN_FROM].index[:5]]
    return tuple(value if isinstance(value, (bool, int, float, str)) else str(value) for value in found)  # JSON values
