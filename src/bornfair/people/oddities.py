"""What in a column of numbers is probably not meant as a number? Constants, and codes such as 99999 for "unknown"."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bornfair.core.errors import plain

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
    if pd.api.types.is_bool_dtype(present) or not pd.api.types.is_numeric_dtype(present):
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
    if pd.api.types.is_bool_dtype(present) or not pd.api.types.is_numeric_dtype(present):
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
    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    what = "and is left out" if number else "only: it tells nobody apart"
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
        if all(map(_is_negative_code, codes)) and rest[-1] <= 0:  # mirrored: nothing else is negative
            far |= gap >= max(reach / 10, 1) and len(rest) >= 5
        if far:
            return [float(code) for code in codes]
    return []


def _is_nines(value: float) -> bool:
    """99, 999, … with 7, 8 or 9 in the last place, whatever the sign."""
    text = f"{abs(value):.15g}"
    return len(text) > 1 and set(text[:-1]) == {"9"} and text[-1] in "789"


def _is_negative_code(value: float) -> bool:
    """-1, -9, -99 …, seen in the mirror."""
    return value in (1, 9) or (value > 0 and _is_nines(value))
