"""A mixed-integer program: columns, rows, and scaling by powers of two without rounding."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

SIZE_EXPONENT = 4  # sums are scaled to about ±2^4: solvers compare with absolute tolerances


class NoProgram(Exception):
    """The numbers of the model do not fit a program in float64; the message says why."""


@dataclass(frozen=True, eq=False)
class Program:
    """Columns lower ≤ x ≤ upper, some of them whole numbers, and rows row_lower ≤ matrix x ≤ row_upper."""

    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    matrix: csr_array  # [rows, columns]
    row_lower: np.ndarray
    row_upper: np.ndarray
    size: csr_array
    """|matrix|: every safe bound needs it."""

    def cost(self, entries: Iterable[tuple[int, float]]) -> np.ndarray:
        """A cost of these columns; 0 of all others."""
        found = np.zeros(len(self.lower))
        for column, value in entries:
            found[column] = value
        return found


@dataclass(eq=False)
class Draft:
    """Columns and rows while a program is written down."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)

    def column(self, lower: float, upper: float, *, integer: bool = False) -> int:
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, columns: Sequence[int], values: Sequence[float], lower: float, upper: float) -> None:
        kept = [(column, value) for column, value in zip(columns, values, strict=True) if value]
        self.rows.append(([column for column, _ in kept], [float(value) for _, value in kept], lower, upper))

    def choice(self, count: int) -> list[int]:
        """Columns of which one is 1 and the others are 0; none if there is nothing to choose."""
        columns = [self.column(0, 1, integer=True) for _ in range(count)] if count > 1 else []
        if columns:
            self.row(columns, [1.0] * count, 1.0, 1.0)
        return columns

    def program(self) -> Program:
        starts = np.cumsum([0, *(len(columns) for columns, *_ in self.rows)])
        entries = np.array([value for _, values, *_ in self.rows for value in values])
        places = np.array([column for columns, *_ in self.rows for column in columns], dtype=np.int64)
        matrix = csr_array((entries, places, starts), shape=(len(self.rows), len(self.lower)))
        row_lower, row_upper = (np.array([row[end] for row in self.rows]) for end in (2, 3))
        columns = np.array(self.lower), np.array(self.upper), np.array(self.integer, bool)
        return Program(*columns, matrix, row_lower, row_upper, abs(matrix))


def exponent_of(size: float) -> int:
    return math.frexp(size)[1] - SIZE_EXPONENT if size else 0


def scaled(number: float, exponent: int) -> float:
    """number · 2^exponent, which must be a float64 too."""
    try:
        found = math.ldexp(number, exponent)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or math.ldexp(found, -exponent) != number:
        raise NoProgram("the weights differ so much in size that the program leaves float64")
    return found
