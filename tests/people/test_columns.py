"""Columns of a network's input: what numbers become, and back."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bornfair.people.columns import GapColumns, NumberColumn, one_hot
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature

WHOLE = IntegerFeature(name="age", low=10, high=90)
REAL = RealFeature(name="height", low=0.5, high=2.25)
SCALED = (("Sub", 10.0), ("Div", 20.0), ("Mul", 3.0), ("Add", 0.5))
HELD = (("Max", 20.0), ("Min", 60.0))


@pytest.mark.parametrize(("value", "code"), [(10, 0.5), (30, 3.5), (90, 12.5)])
def test_a_number_runs_through_its_steps_and_back(value: int, code: float) -> None:
    column = NumberColumn(WHOLE, SCALED)
    assert column.encode([value]).tolist() == [code] and column.exact(value) == [Fraction(code)]
    assert column.decode(np.array([code + 0.01])).tolist() == [value]
    assert column.ends == (0.5, 12.5) and column.spacing == column.slope == 0.15
    assert column.line == (Fraction(3, 20), Fraction(-1)) and column.zero == pytest.approx(20 / 3)


def test_real_numbers_have_no_neighbours_and_are_not_rounded() -> None:
    column = NumberColumn(REAL, (("Mul", 2.0), ("Add", -0.25)))
    assert column.spacing == 0.0 and column.slope == 2.0 and column.zero == 0.125
    assert column.decode(column.encode([0.75, 1.3])).tolist() == [0.75, 1.3]
    assert column.seen == (0.5, 2.25) and all(isinstance(end, float) for end in column.seen)
    assert isinstance(column.held(1), float)


def test_a_number_that_is_held_has_the_code_of_the_end() -> None:
    column = NumberColumn(WHOLE, (*HELD, *SCALED))
    assert column.encode([10, 20, 40, 60, 90]).tolist() == [2.0, 2.0, 5.0, 8.0, 8.0]
    assert [column.exact(value) for value in (10, 40, 90)] == [[Fraction(2)], [Fraction(5)], [Fraction(8)]]
    assert column.decode(np.array([2.0, 5.0, 8.0])).tolist() == [20, 40, 60]
    assert [column.held(value) for value in (10, 20, 40, 60, 90)] == [20, 20, 40, 60, 60]
    assert column.line == NumberColumn(WHOLE, SCALED).line and column.ends == (2.0, 8.0)


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        ((), (10, 90)), (HELD, (20, 60)), ((("Max", 20.0),), (20, 90)), ((("Min", 60.0),), (10, 60)),
        # everybody lies where the number is held, or beyond: one value of the feature tells all codes
        ((("Max", 95.0),), (90, 90)), ((("Max", 90.0),), (90, 90)), ((("Min", 5.0),), (10, 10)),
        ((("Min", 10.0),), (10, 10)), ((("Max", 40.0), ("Min", 40.0)), (40, 40)),
    ],
)  # fmt: skip
def test_the_values_that_tell_all_codes_are_in_the_domain(steps: tuple[tuple[str, float], ...], seen: object) -> None:
    column = NumberColumn(WHOLE, steps)
    assert column.seen == seen and all(isinstance(end, int) for end in column.seen)
    codes = column.encode(np.arange(10, 91))
    assert (codes.min(), codes.max()) == tuple(column.encode(list(column.seen)))


def test_a_gap_has_a_column_of_its_own() -> None:
    column = GapColumns(NumberColumn(WHOLE, SCALED), 30.0)
    assert column.feature is WHOLE and column.width == 2 and column.shown == 3.5
    assert column.encode(np.array([10.0, np.nan])).tolist() == [[0.5, 0.0], [3.5, 1.0]]
    assert column.encode(np.array(np.nan)).tolist() == [3.5, 1.0]
    assert column.exact(None) == [Fraction(7, 2), Fraction(1)] and column.exact(10) == [Fraction(1, 2), Fraction(0)]
    back = column.decode(np.array([[0.5, 0.0], [3.5, 1.0], [12.5, 0.5]]))
    assert back[[0, 2]].tolist() == [10.0, 90.0] and np.isnan(back[1])


def test_levels_are_rows_of_a_table() -> None:
    colour = CategoricalFeature(name="colour", categories=["blue", "red"], missing=True)
    column = one_hot(colour)
    assert column.width == 3 and column.table.dtype == np.float32
    assert [column.exact(level) for level in colour.levels()] == np.eye(3).tolist()
    flag = one_hot(CategoricalFeature(name="flag", categories=["a", "b"]))
    assert flag.width == 2 and flag.exact("b") == [0, 1]
