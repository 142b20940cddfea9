"""How is a number scaled, and where are its tails held?

Numbers become (v − centre)·2^-exponent with a power of two near the standard deviation: standardised, and without
rounding for whole numbers, so that claims about encoded people are claims about people. Where a tail lies far out, v is
held between two ends first; a column of one value is held there, which leaves it out.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from bornfair.core.errors import InputError, shown
from bornfair.people.columns import NumberColumn, Step
from bornfair.people.features import NumericFeature
from bornfair.people.oddities import NEARLY_CONSTANT, one_value, sentinels

MOST_STEPS = 2**50  # of a whole number from its centre
TAIL = 0.01  # of the rows, at most, are held at an end, sentinels aside;
FAR_OUT = 3.0  # and only those that are further than so many interquartile ranges from the quartile (Tukey: far out)


class Scale(BaseModel):
    """x = (v − centre) · 2^-exponent, of v held between low and high where these are given."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    centre: float
    exponent: int
    low: float | None = None
    high: float | None = None

    @property
    def holding(self) -> tuple[Step, ...]:
        """The steps that hold a number between the ends."""
        ends = (("Min", self.high), ("Max", self.low))
        return tuple((name, end) for name, end in ends if end is not None)

    def check(self, feature: NumericFeature, *, apart: bool) -> None:
        """Refuse what shows nobody as they are; `apart` says whether twins differ in this number."""
        name, ends = feature.name, [end for _, end in reversed(self.holding)]
        if ends and apart:
            raise InputError(
                f"'{name}' is held between ends by this encoding, which a number in which twins differ cannot be; "
                "train a model that knows of these twins."
            )
        odd = not all(map(math.isfinite, ends)) or ends != sorted(ends)
        if odd or (feature.kind == "integer" and any(end != round(end) for end in ends)):
            raise InputError(f"'{name}' is held between {shown(ends)}; ends are values that it may have, in order.")
        if feature.kind == "integer":
            column = NumberColumn(feature, self.holding)
            self._check_lattice(name, (column.held(feature.low), column.held(feature.high)))

    def _check_lattice(self, name: str, ends: tuple[int, int]) -> None:
        """Refuse a scale in which whole numbers v are too close together: the rounding of (v − centre)·2^-exponent,
        which bounds allow for, must stay far below the distance of two of them.
        """
        apart = math.isfinite(self.centre) and -900 <= self.exponent <= 900
        if not apart or any(abs(end - Fraction(self.centre)) > MOST_STEPS for end in ends):
            raise InputError(
                f"'{name}' is a whole number from {ends[0]} to {ends[1]}, and with the centre {self.centre!r} and the "
                f"exponent {self.exponent} float64 cannot keep its values apart; use a centre within the range."
            )


def scale_of(feature: NumericFeature, numbers: np.ndarray, *, mirrored: bool, hold_tails: bool) -> Scale:
    """The scale of a table's numbers; `mirrored`: a twin's is on the other side of the range's middle."""
    if mirrored:  # around its centre: x becomes −x, and their mean is 0
        return Scale(centre=(feature.low + feature.high) / 2, exponent=_standard(feature, numbers).exponent)
    return _held(feature, numbers) if hold_tails else _standard(feature, numbers)


def _standard(feature: NumericFeature, numbers: np.ndarray) -> Scale:
    if not len(numbers):
        return Scale(centre=0.0, exponent=0)
    mean, spread = float(np.mean(numbers)), float(np.std(numbers))
    centre = float(round(mean)) if feature.kind == "integer" else float(np.float32(mean))
    if feature.kind == "real" and abs(centre - mean) > spread / 4:
        centre = mean  # a short number would lie outside the values
    if not np.isfinite(centre):
        centre = 0.0
    # In floating point the spread of a constant need not be 0; divided by it, rounding would be shown as a number.
    apart = numbers.max() - numbers.min() > NEARLY_CONSTANT * np.abs(numbers).max()
    exponent = round(np.log2(spread)) if apart and spread > 0 and np.isfinite(spread) else 0
    return Scale(centre=centre, exponent=int(np.clip(exponent, -1000, 1000)))


def _held(feature: NumericFeature, numbers: np.ndarray) -> Scale:
    """The scale of what is left when tails are held where they do not lie far out; one value is held at itself."""
    inside = numbers[(numbers >= feature.low) & (numbers <= feature.high)]
    if not len(inside):
        return _standard(feature, numbers)
    if one_value(numbers):
        value = float(inside[0])
        return Scale(centre=value, exponent=0, low=value, high=value)
    low, high = tails(inside)
    if feature.kind == "integer":
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, feature.low), min(high, feature.high)
    scale = _standard(feature, np.clip(numbers, low, high))
    held = {"low": float(low)} if low > inside.min() else {}
    held |= {"high": float(high)} if high < inside.max() else {}
    return scale.model_copy(update=held)


def tails(numbers: np.ndarray) -> tuple[float, float]:
    """Between which ends numbers do not lie far out.

    At most one in a hundred lies beyond an end, or one if they are fewer, and nobody who is nearer than three
    interquartile ranges to the quartile. Sentinels do not count, and are held a little further out than all others.

    >>> tails(np.array([*range(1, 100), 10_000.0]))
    (-122.75, 223.75)
    """
    odd = sentinels(pd.Series(numbers))
    rest = np.sort(numbers[~np.isin(numbers, odd)] if odd else numbers)
    middle, varied = float(np.median(rest)), rest
    while True:  # of a column that is mostly 0, the spread is that of the others
        first, third = np.quantile(varied, (0.25, 0.75))
        if third > first:
            break
        varied = varied[varied != first]
        if not len(varied):
            return float(numbers.min()), float(numbers.max())
    reach = FAR_OUT * float(third - first)
    low = min(float(np.quantile(rest, TAIL, method="higher")), float(first) - reach)
    high = max(float(np.quantile(rest, 1 - TAIL, method="lower")), float(third) + reach)
    if odd and min(odd) < rest[0]:
        low -= (middle - low) / 2
    if odd and max(odd) > rest[-1]:
        high += (high - middle) / 2
    return low, high
