"""How does one feature become columns of a network's input, and back? The one place that knows.

A number runs through steps in float64 (it may be held between two ends first, then: subtract, divide, multiply, add),
and what comes out is rounded to float32; one that may be missing has a second column that says so. Values of a list,
sensitive or not, are rows of a table, a gap like any other. Everything else follows: codes of raw values in float64 and
as fractions, the ends of ranges, the distance of neighbours, the operators of a graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from bornfair.people.features import Feature, NumericFeature, Value

Step = tuple[str, float]
"""An operator of ONNX, and the number on its right."""


def _less(value: Any, other: Any) -> Any:
    return min(value, other) if isinstance(value, Fraction) else np.minimum(value, other)


def _more(value: Any, other: Any) -> Any:
    return max(value, other) if isinstance(value, Fraction) else np.maximum(value, other)


def _itself(value: Any, _: Any) -> Any:
    return value


HOLDING = ("Min", "Max")
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Sub": (operator.sub, operator.add),
    "Add": (operator.add, operator.sub),
    "Mul": (operator.mul, operator.truediv),
    "Div": (operator.truediv, operator.mul),
    "Min": (_less, _itself),
    "Max": (_more, _itself),
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
