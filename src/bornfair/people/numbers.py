"""Numbers in columns of tables: texts that are numbers (1,234.50, 1.234,50, 12 %, € 5, (300)), constants, and codes
such as 99999 for "unknown".
"""

from __future__ import annotations

import re
from typing import Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain

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


def holds_numbers(column: pd.Series) -> bool:
    """Whether the type of a column is one of numbers; true and false are none."""
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


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
    if holds_numbers(column):
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


# --- numbers that are probably not meant as numbers ---

NEARLY_CONSTANT = 2.0**-40  # of their size: values that are no further apart are one value, and rounding
SEVERAL = 3  # times that a value occurs before it is suspected
RARE = 0.1  # of the rows, at most, hold what looks like no code: what many have is meant; so is 0
MOST_CODES = 3  # side by side at one end, as 97, 98, 99 in surveys


def is_constant(column: pd.Series) -> bool:
    """Whether a column has one value, gaps aside; numbers that differ by rounding are one.

    >>> is_constant(pd.Series([0.1 + 0.2, 0.3, None])), is_constant(pd.Series(["a", "b"]))
    (True, False)
    """
    present = column.dropna()
    if not holds_numbers(present):
        return present.map(str).nunique() == 1
    return one_value(present.to_numpy(np.float64))


def one_value(numbers: np.ndarray) -> bool:
    """Whether numbers are one, and rounding. Whole numbers are not rounded."""
    if not len(numbers):
        return False
    low, high = float(numbers.min()), float(numbers.max())
    if (numbers == np.round(numbers)).all():
        return low == high
    return high - low <= NEARLY_CONSTANT * max(abs(low), abs(high))


def sentinels(column: pd.Series) -> list[float]:
    """Numbers that probably stand for something else ("unknown", "refused"), in ascending order.

    They are repeated, at one end of the column and far from all the rest; less far if they look like a code: 99, 999,
    99999, or -1, -99 where nothing else is negative.

    >>> sentinels(pd.Series([20, 35, 41, 60, 99999, 99999, 99999])), sentinels(pd.Series([1, 2, 2, 2, 3]))
    ([99999.0], [])
    """
    present = column.dropna()
    if not holds_numbers(present):
        return []
    numbers = present.to_numpy(np.float64)
    values, counts = np.unique(numbers[np.isfinite(numbers)], return_counts=True)
    found: list[float] = []
    while True:
        more = _codes(values, counts) or [-value for value in _codes(-values[::-1], counts[::-1])]
        if not more:
            return sorted(found)
        found += more
        kept = ~np.isin(values, more)
        values, counts = values[kept], counts[kept]


def constant_sentence(column: pd.Series) -> str | None:
    """That a column has one value only, if it has: numbers are left out, a category says the same of everybody."""
    if not is_constant(column):
        return None
    what = "and is left out" if holds_numbers(column) else "only: it tells nobody apart"
    return f"column '{column.name}' has the one value {plain(column.dropna().iloc[0])!r} {what}."


def sentinel_sentence(column: pd.Series) -> str | None:
    """What is odd about a column that holds sentinels, if it does, and what to do."""
    found = sentinels(column)
    if not found:
        return None
    numbers = column.dropna().to_numpy(np.float64)
    rest = numbers[~np.isin(numbers, found)]
    times = " and ".join(f"{value:.15g} {int((numbers == value).sum()):,} times" for value in found)
    return (
        f"column '{column.name}' holds {times}, far from the others ({rest.min():.15g} to {rest.max():.15g}): if that "
        "means 'unknown', leave those fields empty, or make it a column of its own."
    )


def _codes(values: np.ndarray, counts: np.ndarray) -> list[float]:
    """The values at the upper end that are far from those below them; values in ascending order, each once."""
    for size in range(1, min(MOST_CODES, len(values) - 2) + 1):
        codes, rest, times = values[-size:], values[:-size], counts[:-size]
        if counts[-size:].min() < SEVERAL:
            return []
        quarter, three = np.interp([0.25, 0.75], (np.cumsum(times) - times / 2) / times.sum(), rest)
        gap, reach = codes[0] - rest[-1], rest[-1] - rest[0]
        far = gap >= 2 * reach and len(rest) >= 5 and counts[-size:].sum() <= RARE * counts.sum() and all(codes)
        if all(map(_is_nines, codes)):
            far |= gap >= max(three - quarter, reach / 4)
        negative = all(code in (1, 9) or (code > 0 and _is_nines(code)) for code in codes)  # -1, -99 in the mirror
        if negative and rest[-1] <= 0:  # nothing else is negative
            far |= gap >= max(reach / 10, 1) and len(rest) >= 5
        if far:
            return [float(code) for code in codes]
    return []


def _is_nines(value: float) -> bool:
    """99, 999, … with 7, 8 or 9 in the last place, whatever the sign."""
    text = f"{abs(value):.15g}"
    return len(text) > 1 and set(text[:-1]) == {"9"} and text[-1] in "789"
