"""Which sensitive values exist, and as which numbers the network sees them.

The codes of all |S| values sum to exactly zero (theory: centred codes). They are integers times a power of two, so the
cancellation is exact in floating point too. Any integer code c₀ becomes such a code by c(ω) = |S|·c₀(ω) − Σ c₀.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.people.columns import Column, LevelColumns, NumberColumn
from bornfair.people.features import NUMERIC, Feature, NumericFeature, Population, Value

ENUMERATION_LIMIT = 100_000
"""Most sensitive combinations that are ever listed one by one."""
SPAN_SLACK = 2.0**-48  # of the largest code: its steps make at most eight errors of 2^-53 of it


@dataclass(frozen=True)
class CodedFeature:
    """One sensitive feature: its levels and their centred integer codes, one row per level."""

    feature: Feature
    codes: np.ndarray  # int64 [levels, columns]
    exponent: int  # the network sees codes · 2^-exponent, which lies in [-1, 1]

    @cached_property
    def column(self) -> Column:
        """How the network sees it: exact in float32 for codes below 2^24."""
        feature = self.feature
        if not isinstance(feature, NUMERIC):
            return LevelColumns(feature, self.table)
        steps = (
            ("Sub", float(feature.low)),
            ("Div", (feature.high - feature.low) / (len(feature.levels()) - 1)),
            ("Mul", float(self.codes[1, 0] - self.codes[0, 0])),
            ("Add", float(self.codes[0, 0])),
            ("Mul", float(np.ldexp(1.0, -self.exponent))),
        )
        return NumberColumn(feature, steps)

    @property
    def exact(self) -> np.ndarray:
        """The code of each level in real arithmetic: float64 [levels, columns]."""
        return np.ldexp(self.codes.astype(np.float64), -self.exponent)

    @property
    def table(self) -> np.ndarray:
        """What the network sees for each level: float32 [levels, columns]."""
        return self.exact.astype(np.float32)


@dataclass(frozen=True)
class Span:
    """A sensitive feature of which every real value counts: the codes of its values are those from low to high.

    The ends are rounded outwards, beyond what the float64 steps that make a code can err: every code lies between, in
    real arithmetic and as executed before it is rounded to float32.
    """

    name: str
    column: int  # among the sensitive columns of the network's input
    low: float
    high: float
    line: tuple[Fraction, Fraction]
    range: tuple[float, float]  # of the raw values

    @staticmethod
    def of(feature: NumericFeature, column: int, line: tuple[Fraction, Fraction]) -> Span:
        slope, constant = line
        ends = [float(slope * Fraction(end) + constant) for end in (feature.low, feature.high)]
        wide = SPAN_SLACK * max(map(abs, ends))
        return Span(feature.name, column, ends[0] - wide, ends[1] + wide, line, (feature.low, feature.high))

    @property
    def ends(self) -> list[tuple[float, float]]:
        """Two codes, and a radius around each within which somebody's code lies, as executed and in real arithmetic."""
        unit = SPAN_SLACK * max(abs(self.low), abs(self.high))
        return [(self.low + 4 * unit, 2 * unit), (self.high - 4 * unit, 2 * unit)]

    def raw(self, code: float) -> float:
        """The value whose code is nearest, as a float of the range."""
        slope, constant = self.line
        return min(max(float((Fraction(code) - constant) / slope), self.range[0]), self.range[1])


@dataclass(frozen=True)
class SensitiveSpace:
    """The finite set S. With several sensitive features, a value is one combination.

    A real-valued feature is in it with the levels of its grid, which is what training needs; whoever claims something
    about every value asks for `SensitiveColumns.spans`.
    """

    features: tuple[CodedFeature, ...]
    combinations: tuple[tuple[Any, ...], ...] | None

    @staticmethod
    def of(people: Population) -> SensitiveSpace:
        features, rows = people.sensitive_features, people.combinations
        coded = []
        for position, feature in enumerate(features):
            # Any integer code that is affine in the raw value (numbers) or one-hot (categories, two in one column).
            count = len(feature.levels())
            affine = isinstance(feature, NUMERIC) or count == 2
            base = np.arange(count, dtype=np.int64)[:, None] if affine else np.eye(count, dtype=np.int64)
            if rows is None:
                # Over a full product every level occurs equally often, so centring one feature at a time is exact.
                total = base.sum(axis=0)
            else:
                index = {level: i for i, level in enumerate(feature.levels())}
                count = len(rows)
                total = base[[index[row[position]] for row in rows]].sum(axis=0)
            codes = count * base - total
            divisor = np.maximum(np.gcd.reduce(codes, axis=0), 1)
            codes = codes // divisor
            largest = max(int(np.abs(codes).max()), 1)
            coded.append(CodedFeature(feature, codes, math.ceil(math.log2(largest))))
        return SensitiveSpace(tuple(coded), rows)

    @property
    def size(self) -> int:
        """|S|."""
        if self.combinations is not None:
            return len(self.combinations)
        return math.prod(len(coded.codes) for coded in self.features)

    @property
    def width(self) -> int:
        """Number of network inputs that carry the sensitive values."""
        return sum(coded.codes.shape[1] for coded in self.features)

    @cached_property
    def values(self) -> tuple[tuple[Value, ...], ...]:
        """Every sensitive value, as a tuple in the order of the domain's `sensitive`."""
        self.check_enumerable()
        if self.combinations is not None:
            return self.combinations
        return tuple(itertools.product(*(coded.feature.levels() for coded in self.features)))

    @cached_property
    def level_indices(self) -> np.ndarray:
        """For each value of S the level of each feature: int64 [|S|, features]."""
        self.check_enumerable()
        if self.combinations is None:
            grids = np.meshgrid(*(np.arange(len(c.codes)) for c in self.features), indexing="ij")
            return np.stack([grid.ravel() for grid in grids], axis=1) if grids else np.zeros((1, 0), np.int64)
        lookup = [{level: i for i, level in enumerate(c.feature.levels())} for c in self.features]
        return np.array([[lookup[j][v] for j, v in enumerate(row)] for row in self.combinations], dtype=np.int64)

    def by_level(self, tables: Sequence[np.ndarray], dtype: type[np.generic]) -> np.ndarray:
        """A row for each value of S, from a table [levels, columns] for each feature."""
        indices = self.level_indices
        parts = [table[indices[:, j]] for j, table in enumerate(tables)]
        return np.concatenate([np.zeros((len(indices), 0), dtype), *parts], axis=1)

    @cached_property
    def integer_codes(self) -> np.ndarray:
        """The centred integer codes of all values, int64 [|S|, width]; each column sums to 0."""
        return self.by_level([coded.codes for coded in self.features], np.int64)

    @cached_property
    def codes(self) -> np.ndarray:
        """What the network sees for each value of S: float32 [|S|, width]."""
        return self.by_level([coded.table for coded in self.features], np.float32)

    def index_of(self, levels: np.ndarray) -> np.ndarray:
        """The position in `values` of rows given as feature levels (int [rows, features])."""
        if self.combinations is None:
            shape = tuple(len(coded.codes) for coded in self.features)
            return np.ravel_multi_index(tuple(levels.T), shape) if shape else np.zeros(len(levels), np.int64)
        lookup = {tuple(row): i for i, row in enumerate(self.level_indices.tolist())}
        found = np.array([lookup.get(tuple(row), -1) for row in levels.tolist()], dtype=np.int64)
        if (found < 0).any():
            bad = levels[int(np.argmax(found < 0))]
            value = tuple(c.feature.levels()[i] for c, i in zip(self.features, bad, strict=True))
            names = ", ".join(c.feature.name for c in self.features)
            raise InputError(
                f"the sensitive combination {shown(value)} of ({names}) is in the table but not among the "
                f"{len(self.combinations)} combinations of the domain; add it or use all combinations."
            )
        return found

    def check_enumerable(self) -> None:
        """Refuse to list more values than can be gone through."""
        if self.size > ENUMERATION_LIMIT:
            names = ", ".join(coded.feature.name for coded in self.features)
            raise InputError(
                f"the sensitive features ({names}) have {self.size:,} combinations, more than the "
                f"{ENUMERATION_LIMIT:,} that can be listed one by one; use the observed combinations only, or bands."
            )


# --- as columns of a network's input ---


@dataclass(frozen=True, eq=False)
class SensitiveColumns:
    """The last columns of a network's input."""

    space: SensitiveSpace
    raw: bool
    """Whether numbers are seen as they stand."""

    @cached_property
    def columns(self) -> dict[str, Column]:
        found = {coded.feature.name: coded.column for coded in self.space.features}
        numbers = (coded.feature for coded in self.space.features if isinstance(coded.feature, NUMERIC))
        return found | ({number.name: NumberColumn(number, ()) for number in numbers} if self.raw else {})

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns.values())

    @cached_property
    def codes(self) -> np.ndarray:
        """What the network sees for each value of S, in the order of S: float32 [|S|, width]."""
        return np.array(self.space.values, dtype=np.float32) if self.raw else self.space.codes

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """The features of which every real value counts."""
        found, start = [], 0
        for column in self.columns.values():
            if isinstance(column, NumberColumn) and column.feature.kind == "real":
                found.append(Span.of(column.feature, start, column.line))
            start += column.width
        return tuple(found)

    @cached_property
    def listed(self) -> tuple[tuple[Value | None, ...], ...]:
        """The values that can be listed: of `spans` None, of everything else all combinations."""
        if not self.spans:
            return self.space.values
        self.space.check_enumerable()
        real = {span.name for span in self.spans}
        features = [column.feature for column in self.columns.values()]
        return tuple(itertools.product(*((None,) if one.name in real else one.levels() for one in features)))

    @cached_property
    def listed_codes(self) -> np.ndarray:
        """The codes of `listed` in real arithmetic, exactly (0 for None): float64 [values, width]."""
        if self.spans:
            return np.array([[float(code) for code in self.exact(values)] for values in self.listed])
        if self.raw:
            return np.array(self.listed, dtype=np.float64)
        # Not the codes in float32: of many listed combinations they may have more digits than it holds.
        return self.space.by_level([coded.exact for coded in self.space.features], np.float64)

    def exact(self, values: Sequence[Value | None]) -> list[Fraction]:
        """The code of a value in real arithmetic, before anything is rounded to float32; of a number that is None 0. Of
        a category None is a gap.
        """
        codes = list[Fraction]()
        for column, value in zip(self.columns.values(), values, strict=True):
            open_ = value is None and isinstance(column, NumberColumn)
            codes += [Fraction(0)] if open_ else column.exact(value)
        return codes
