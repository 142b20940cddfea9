"""Numbers that trees compare, each made of one raw value: cast, scaled, or looked up, exactly as the original does.

A split of a tree reads one column, and a column is made of one raw input. Either a `table` gives a number for each
category, or the value itself is the number (true is 1, false is 0, missing is NaN); then the `steps` are taken in
order, in the precision that the last cast set (float64 at first), each rounded as IEEE arithmetic rounds. All steps
but those of `BREAKS` are monotone and pass NaN on, so that a column without a table is a monotone function of the raw
number: a split of it is a split of the raw number, found without error by `SplitColumn.last_below`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.people.features import Value

Step = tuple[str, float]
ZERO = float(np.float32(1e-35))  # what LightGBM takes for 0 lies at most so far from it


def _near(values: np.ndarray, number: np.floating, instead: float) -> np.ndarray:
    return np.where(np.abs(values) <= number, values.dtype.type(instead), values)


STEPS: dict[str, Callable[[np.ndarray, np.floating], np.ndarray]] = {
    "minus": lambda x, c: x - c,
    "plus": lambda x, c: x + c,
    "times": lambda x, c: x * c,
    "over": lambda x, c: x / c,
    "at least": lambda x, c: np.maximum(x, c),
    "at most": lambda x, c: np.minimum(x, c),
    "towards zero": lambda x, c: np.trunc(x),  # as a cast to a whole number
    "floor": lambda x, c: np.floor(x),
    "tiny to zero": lambda x, c: _near(x, c, 0.0),
    "zero is missing": lambda x, c: _near(x, c, np.nan),
    "missing is": lambda x, c: np.where(np.isnan(x), c, x),
    "float32": lambda x, c: x.astype(np.float32),
    "float64": lambda x, c: x.astype(np.float64),
}
"""Operations on a number x with a constant c (ignored by casts, `towards zero` and `floor`)."""
BREAKS = ("zero is missing", "missing is")
"""Steps that make a number missing, or give a number to who has none."""


@dataclass(frozen=True)
class SplitColumn:
    """One column that splits read.

    source:  position of the raw input among `Forest.names`.
    steps:   what is done to the number, in order.
    table:   the number of each category, where it is looked up; None where the raw value is the number.
    other:   of a table, the number of all other values (NaN: as if missing); None refuses them.
    missing: of a table, the number of a missing value (NaN: it stays missing).

    >>> import numpy as np
    >>> SplitColumn(0, (("float32", 0.0),)).values(np.array([0.1, np.nan])).tolist()
    [0.10000000149011612, nan]
    >>> SplitColumn(0, (), (("no", 0.0), ("yes", 1.0))).values(np.array(["yes", "no", None], dtype=object)).tolist()
    [1.0, 0.0, nan]
    """

    source: int
    steps: tuple[Step, ...] = (("float32", 0.0),)
    table: tuple[tuple[Value, float], ...] | None = None
    other: float | None = None
    missing: float = math.nan

    def __post_init__(self) -> None:
        unknown = [name for name, _ in self.steps if name not in STEPS]
        if unknown:
            raise InputError(f"a column of a forest has the step {unknown[0]!r}; use one of {shown(STEPS, most=20)}.")

    def values(self, raw: Any) -> np.ndarray:
        """The column for raw values (an array of numbers, or of anything): float64, which holds float32 exactly."""
        given = np.asarray(raw) if not isinstance(raw, pd.Series) else raw.to_numpy()
        numbers = _numbers(given) if self.table is None else self._looked_up(given)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for name, number in self.steps:
                numbers = STEPS[name](numbers, numbers.dtype.type(number))
        return numbers.astype(np.float64)

    @property
    def is_monotone(self) -> bool:
        """Whether it grows, or falls, with the raw number throughout, missing values aside."""
        return self.table is None

    @property
    def falls(self) -> bool:
        """Whether a larger raw number gives a smaller one (a scale below 0)."""
        return sum(number < 0 for name, number in self.steps if name in ("times", "over")) % 2 == 1

    @property
    def breaks(self) -> tuple[float, ...]:
        """Raw numbers after which the column becomes missing or stops being so: it is, from just above the first of
        each two up to the second.
        """
        found: list[float] = []
        for i, (name, number) in enumerate(self.steps):
            if name == "zero is missing":
                ends = np.array([np.nextafter(-number, -np.inf), number])
                found += SplitColumn(self.source, self.steps[:i]).last_below(ends).tolist()
        return tuple(found)

    def last_below(self, thresholds: Any) -> np.ndarray:
        """For each threshold t, the raw number c so that the column is ≤ t for raw x ≤ c and for no other: −∞ if for
        none, ∞ if for all. Of a column that falls: it is ≤ t for x > c and for no other.

        Found by bisection over all float64 numbers, so without error; −∞ and ∞ are no raw numbers.
        """
        assert self.is_monotone
        bounds = np.asarray(thresholds, np.float64)
        plain = SplitColumn(self.source, tuple(step for step in self.steps if step[0] not in BREAKS))
        # Between `low`, which is still on the first side (or before every number), and `high`, which is not.
        low = np.full(bounds.shape, _rank(-np.inf), np.int64)
        high = np.full(bounds.shape, _rank(np.inf), np.int64)
        while (open_ := high != low + 1).any():
            middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their difference need not fit
            found = plain.values(_number(middle))
            first = found > bounds if self.falls else found <= bounds
            low, high = np.where(open_ & first, middle, low), np.where(open_ & ~first, middle, high)
        last = _number(low)
        return np.where(high == _rank(np.inf), np.inf, last)

    def _looked_up(self, raw: np.ndarray) -> np.ndarray:
        assert self.table is not None
        known = dict(self.table)
        series = pd.Series(raw)
        gone, found = series.isna().to_numpy(), np.full(len(raw), np.nan)
        places, distinct = pd.factorize(series.astype(object), use_na_sentinel=True)
        numbers = [known.get(value, self.other) for value in distinct]
        if None in numbers:
            value = distinct[numbers.index(None)]
            raise InputError(f"the model does not know {value!r} among {shown(known, most=20)}.")
        if len(numbers):
            found = np.array(numbers, np.float64)[places]
        return np.where(gone, self.missing, found)


def columns_of(raw: Sequence[Any], columns: Sequence[SplitColumn], rows: int) -> np.ndarray:
    """All columns [columns, rows] of raw inputs, one array for each."""
    made = np.empty((len(columns), rows))
    for row, column in zip(made, columns, strict=True):
        row[:] = column.values(raw[column.source])
    return made


def _numbers(raw: np.ndarray) -> np.ndarray:
    if raw.dtype.kind in "biuf":
        return raw.astype(np.float64)
    try:
        return pd.Series(raw).astype(object).where(pd.notna(raw), np.nan).astype(np.float64).to_numpy()
    except (TypeError, ValueError):
        text = next(value for value in raw.tolist() if isinstance(value, str))
        raise InputError(f"the model compares numbers, but is given {text!r}; give the encoded numbers.") from None


def _rank(number: float) -> int:
    """The position of a float64 in the order of all, 0 for ±0."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _number(ranks: np.ndarray) -> np.ndarray:
    bits = np.where(ranks >= 0, ranks, (-ranks) | np.int64(-0x8000_0000_0000_0000))
    return bits.astype(np.int64).view(np.float64)
