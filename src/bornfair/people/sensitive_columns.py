"""As which numbers does a network see the sensitive values, those that can be listed and those of which all count?"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from bornfair.people.columns import Column, NumberColumn
from bornfair.people.features import NUMERIC, Value
from bornfair.people.sensitive import SensitiveSpace, Span


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
        exact = [np.ldexp(coded.codes.astype(np.float64), -coded.exponent) for coded in self.space.features]
        blocks = [codes[self.space.level_indices[:, j]] for j, codes in enumerate(exact)]
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((1, 0))

    def exact(self, values: Sequence[Value | None]) -> list[Fraction]:
        """The code of a value in real arithmetic, before anything is rounded to float32; of a number that is None 0. Of
        a category None is a gap.
        """
        codes = list[Fraction]()
        for column, value in zip(self.columns.values(), values, strict=True):
            open_ = value is None and isinstance(column, NumberColumn)
            codes += [Fraction(0)] if open_ else column.exact(value)
        return codes
