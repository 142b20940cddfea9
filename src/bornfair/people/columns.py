"""Columns of a network's input: how one feature becomes numbers, and back.

A number runs through steps in float64 and is rounded to float32: it may be clipped between two ends first, then it
becomes (v − centre)·2^-exponent with a power of two near the standard deviation. Whole numbers are so scaled without
rounding, and claims about encoded people are claims about people. A number that may be missing has a second column that
says so. Values of a list are rows of a table, a gap like any other. Exact codes, the ends of ranges, the distance of
neighbours and the operators of a graph all follow from these steps and tables.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from bornfair.core.errors import InputError, shown
from bornfair.people.features import Feature, NumericFeature, Value
from bornfair.people.numbers import NEARLY_CONSTANT, one_value, sentinels

if TYPE_CHECKING:
    from bornfair.people.domain import Domain

Step = tuple[str, float]
"""An operator of ONNX, and the number on its right."""


def _itself(value: Any, _: Any) -> Any:
    return value


HOLDING = ("Min", "Max")
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Sub": (operator.sub, operator.add),
    "Add": (operator.add, operator.sub),
    "Mul": (operator.mul, operator.truediv),
    "Div": (operator.truediv, operator.mul),
    "Min": (np.minimum, _itself),
    "Max": (np.maximum, _itself),
}
"""What each does, and what undoes it; of what is held between two ends, the end stands for all beyond it."""


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A number as one column. Steps that hold it between two ends come first; all others are affine."""

    feature: NumericFeature
    steps: tuple[Step, ...]
    width = 1

    def encode(self, numbers: Any) -> Any:
        """In float64: what the network sees before it is rounded to float32."""
        return self._through(np.asarray(numbers, np.float64), lambda number: number)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The number behind a code, in float64; a whole number is the nearest one."""
        numbers = np.asarray(codes, np.float64)
        for name, number in reversed(self.steps):
            numbers = OPERATORS[name][1](numbers, number)
        return np.round(numbers).astype(np.int64) if self.feature.kind == "integer" else numbers

    def exact(self, value: Any) -> list[Fraction]:
        """In real arithmetic, before anything is rounded."""
        return [self._through(Fraction(value), Fraction)]

    @cached_property
    def line(self) -> tuple[Fraction, Fraction]:
        """(slope, constant) of the code in real arithmetic, between the ends: what the steps say before anything
        rounds.
        """
        affine = NumberColumn(self.feature, tuple(step for step in self.steps if step[0] not in HOLDING))
        constant = affine._through(Fraction(0), Fraction)
        return affine._through(Fraction(1), Fraction) - constant, constant

    @cached_property
    def seen(self) -> tuple[Any, Any]:
        """The smallest and the largest value of the feature that tell all others' codes: who lies beyond has the code
        of that value.
        """
        low, high = self.feature.low, self.feature.high
        first, last = self.held(low), self.held(high)
        if first == last:  # all lie where it is held, or beyond
            return (low, low) if low >= first else (high, high) if high <= first else (first, first)
        return first, last

    def held(self, value: Any) -> Any:
        """A raw value where it is held."""
        for name, end in self.steps:
            if name in HOLDING:
                value = min(value, end) if name == "Min" else max(value, end)
        return int(value) if self.feature.kind == "integer" else float(value)

    @property
    def slope(self) -> float:
        """By how much the code grows with each unit."""
        return float(self.line[0])

    @property
    def zero(self) -> float:
        """The number whose code is 0."""
        slope, constant = self.line
        return float(-constant / slope)

    @property
    def ends(self) -> tuple[float, float]:
        """The codes of the smallest and the largest value, each with the roundings of the steps."""
        return float(self.encode(self.feature.low)), float(self.encode(self.feature.high))

    @property
    def spacing(self) -> float:
        """How far apart the codes of two neighbours are; 0 for real numbers, which have none."""
        return self.slope if self.feature.kind == "integer" else 0.0

    def _through(self, value: Any, made: Callable[[float], Any]) -> Any:
        for name, number in self.steps:
            value = OPERATORS[name][0](value, made(number))
        return value


@dataclass(frozen=True, eq=False)
class GapColumns:
    """A number that may be missing, as two columns: the number, and 1 where it is missing, else 0. A gap is shown as
    the number `fill`.
    """

    number: NumberColumn
    fill: float
    width = 2

    @property
    def feature(self) -> NumericFeature:
        return self.number.feature

    @property
    def shown(self) -> float:
        """What the first column holds where the number is missing: in float64, with the roundings of the steps."""
        return float(self.number.encode(self.fill))

    def encode(self, numbers: Any) -> np.ndarray:
        """Both columns [rows, 2] in float64; NaN is a gap."""
        gap = np.isnan(numbers)
        return np.stack([self.number.encode(np.where(gap, self.fill, numbers)), gap.astype(np.float64)], axis=-1)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The numbers behind both columns, NaN where they are missing."""
        block = np.asarray(codes, np.float64)
        return np.where(block[:, 1] > 0.5, np.nan, self.number.decode(block[:, 0]))

    def exact(self, value: Any) -> list[Fraction]:
        """In real arithmetic; None is a gap."""
        return [*self.number.exact(self.fill if value is None else value), Fraction(value is None)]


@dataclass(frozen=True, eq=False)
class LevelColumns:
    """Values of a list, each as a row of a table."""

    feature: Feature
    table: np.ndarray  # float32 [levels, columns]

    @property
    def width(self) -> int:
        return self.table.shape[1]

    def exact(self, value: Value | None) -> list[Fraction]:
        """In real arithmetic: float32 numbers are exact."""
        return [Fraction(code) for code in self.table[list(self.feature.levels()).index(value)].tolist()]


Column = NumberColumn | GapColumns | LevelColumns


def one_hot(feature: Feature) -> LevelColumns:
    """A category as one column for each, a gap included; true/false as 0 or 1."""
    levels = len(feature.levels())
    table = np.eye(levels) if feature.kind == "categorical" else np.arange(levels)[:, None]
    return LevelColumns(feature, table.astype(np.float32))


# --- scales of numbers ---

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
        if feature.kind != "integer":
            return
        # The rounding of (v − centre)·2^-exponent, which bounds allow for, must stay far below the distance of two v.
        column = NumberColumn(feature, self.holding)
        low, high = column.held(feature.low), column.held(feature.high)
        apart = math.isfinite(self.centre) and -900 <= self.exponent <= 900
        if not apart or any(abs(end - Fraction(self.centre)) > MOST_STEPS for end in (low, high)):
            raise InputError(
                f"'{name}' is a whole number from {low} to {high}, and with the centre {self.centre!r} and the "
                f"exponent {self.exponent} float64 cannot keep its values apart; use a centre within the range."
            )


def scale_of(feature: NumericFeature, numbers: np.ndarray, *, mirrored: bool, hold_tails: bool) -> Scale:
    """The scale of a table's numbers; `mirrored`: a twin's is on the other side of the range's middle."""
    if mirrored:  # around its centre: x becomes −x, and their mean is 0
        return Scale(centre=feature.total / 2, exponent=_standard(feature, numbers).exponent)
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


# --- what declared twins have in common ---

Groups = tuple[tuple[int, ...], ...]
"""Positions of a feature's values that look alike to the network; of a number, whether it is mirrored."""


def share(group: tuple[int, ...]) -> np.float32:
    """What each member of a group that looks alike is shown as: 1/k, rounded once."""
    return np.float32(1.0 / len(group))


def average(block: np.ndarray, kind: str, groups: Groups) -> None:
    """P on the columns of one feature, in place.

    Exact: at most one of a group's columns is 1, so the sum is 0 or 1 and the product 0 or the share itself. Members of
    a group are copies of one number, not results of one computation each: the same bits.
    """
    if kind == "categorical":
        for group in groups:
            block[:, group] = block[:, group].sum(axis=1, keepdims=True) * share(group)
    else:
        block[:, 0] = 0.5 if kind == "boolean" else 0.0  # that a number is missing, a mirrored one shares


def covers(merged: Mapping[str, Groups], orbits: Mapping[str, Groups]) -> bool:
    """Whether all that change places look alike."""
    for name, several in orbits.items():
        groups = [set(group) for group in merged.get(name, ())]
        if not all(any(group.issuperset(orbit) for group in groups) for orbit in several):
            return False
    return True


def read_groups(domain: Domain, name: str, groups: Any) -> Groups:
    """Groups as a file has them: disjoint, and of a free feature."""
    feature = domain.feature(name)
    count = len(feature.levels()) if feature.kind in ("categorical", "boolean") else 2
    found = tuple(tuple(group) for group in groups)
    listed = [place for group in found for place in group]
    fits = all(type(place) is int and 0 <= place < count for place in listed)
    if not fits or len(set(listed)) < len(listed) or name in domain.sensitive:
        raise ValueError(f"'{name}' has odd groups")
    return found
