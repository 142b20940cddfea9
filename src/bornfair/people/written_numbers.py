"""Which texts are numbers as people write them: 1,234.50, 1.234,50, 12 %, € 5, (300)?"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError

Decimal = Literal[".", ","]
NO_VALUE = frozenset(
    ("", "na", "n/a", "n.a.", "nan", "null", "none", "nil", "?", "-", "--", "–", "—", ".", "#n/a", "missing", "unknown")
)
"""What people write for a number they do not have, in small letters."""

_UNITS = "€$£¥₹₽₩₺%‰|eur|usd|gbp|chf|jpy|cny|inr|cad|aud|sek|nok|dkk|pln|czk|huf|kr|zł|kč"
_SIGNS, *_WORDS = _UNITS.split("|")
_UNIT = re.compile(rf"[{re.escape(_SIGNS)}]|\b(?:{'|'.join(_WORDS)})\b\.?", re.IGNORECASE)
_SPACES = re.compile(r"[\s\u00a0\u202f\u2009]+")


def _pattern(decimal: Decimal) -> re.Pattern[str]:
    between = r"[,'’_ ]" if decimal == "." else r"[.'’_ ]"
    whole = rf"(?:\d{{1,3}}(?:{between}\d{{2,3}})*{between}\d{{3}}|\d+)"
    return re.compile(rf"[+-]?(?:{whole}(?:{re.escape(decimal)}\d*)?|{re.escape(decimal)}\d+)(?:[eE][+-]?\d+)?")


_PATTERNS: dict[Decimal, re.Pattern[str]] = {".": _pattern("."), ",": _pattern(",")}


def number_of(text: str, decimal: Decimal) -> float | None:
    """The number that a text is, None if it is none.

    >>> number_of("1,234.50", "."), number_of("1.234,5 €", ","), number_of("(12 %)", "."), number_of("1,5", ".")
    (1234.5, 1234.5, -12.0, None)
    """
    bare = _SPACES.sub(" ", _UNIT.sub(" ", text)).strip().replace("−", "-")
    negative = bare.startswith("(") and bare.endswith(")")
    bare = bare[1:-1].strip() if negative else bare
    if bare.endswith("-"):  # as bookkeepers write it
        negative, bare = True, bare[:-1].strip()
    bare = re.sub(r"^([+-]) ", r"\1", bare)
    if not _PATTERNS[decimal].fullmatch(bare):
        return None
    for separator in ",.'’_ ":
        if separator != decimal:
            bare = bare.replace(separator, "")
    value = float(bare.replace(decimal, "."))
    return -value if negative else value


def is_no_value(text: str) -> bool:
    return text.strip().lower() in NO_VALUE


def style_of(texts: list[str]) -> Decimal | None:
    """The decimal sign with which all of the texts are numbers; of two that fit the point; None if neither does."""
    for decimal in _PATTERNS:
        if all(number_of(text, decimal) is not None for text in texts):
            return decimal
    return None


def as_numbers(name: str, column: pd.Series, decimal: Decimal | None) -> pd.Series:
    """A column of texts as the numbers they are; what is written for no value is missing.

    decimal: as the file says it; otherwise the sign with which all texts of the column are numbers.
    """
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype):
        return column
    texts = {value: str(value) for value in column.dropna().unique()}
    told = [text for text in texts.values() if not is_no_value(text)]
    sign = decimal or style_of(told) or "."
    values = {value: number_of(text, sign) for value, text in texts.items()}
    stray = [value for value, text in texts.items() if values[value] is None and not is_no_value(text)]
    if stray:
        rows = column.isin(stray).to_numpy()
        often = column[rows].value_counts()
        # A text that stands in one row only may be somebody's name: its row says enough.
        shown = f", as {str(often.index[0])!r} in {often.iloc[0]:,} of them" if often.iloc[0] > 1 else ""
        other: Decimal = "," if sign == "." else "."
        hint = f"; perhaps --decimal '{other}'" if all(number_of(str(s), other) is not None for s in stray) else ""
        raise InputError(
            f"column '{name}' is to be numeric, but {int(rows.sum()):,} of its {len(column):,} rows hold no number, "
            f"the first of them row {int(np.argmax(rows))}{shown}{hint}; correct them, or do not call it numeric."
        )
    numbers = column.map(values).astype(np.float64)
    present = numbers.dropna()
    whole = len(present) == len(numbers) and bool((present == np.round(present)).all()) and present.abs().max() < 2**53
    return numbers.astype(np.int64) if whole else numbers
