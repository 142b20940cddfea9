"""Constants and sentinels in columns."""

import numpy as np
import pandas as pd
import pytest

from bornfair.people.numbers import constant_sentence, is_constant, sentinel_sentence, sentinels

RANDOM = np.random.default_rng(3)
AGES = RANDOM.integers(18, 90, 500).tolist()
INCOMES = RANDOM.lognormal(3, 1, 500).tolist()


@pytest.mark.parametrize(
    ("rest", "codes"),
    [
        (AGES, [999] * 5),
        (AGES, [-1] * 20),
        (AGES, [-999] * 4 + [99998] * 4 + [99999] * 3),
        (INCOMES, [99999] * 10),
        (INCOMES, [123456] * 10),  # looks like no code, and lies far out all the same
        ([0, 1] * 50, [999] * 5),
        (RANDOM.integers(0, 28, 40).tolist(), [999] * 900),  # most people were never asked
    ],
)
def test_repeated_values_far_from_the_rest_are_suspected(rest, codes):
    assert sentinels(pd.Series([*codes, *rest])) == sorted(set(codes))


@pytest.mark.parametrize(
    "values",
    [
        AGES,
        [*AGES, 90, 90, 90, 90],  # the oldest are all 90
        [*INCOMES, 99999],  # once: a rich person
        [*AGES, 99, 99, 99],
        [0] * 100 + [99] * 100,
        [1, 2, 3] * 30 + [9] * 9,
        [-1, 0, 1] * 30,
        [0] * 90 + [1] * 5,
        [0] * 90 + list(range(5000, 5010)),
        [7] * 90 + list(range(5000, 5010)),
        [1.5] * 10,
        [None] * 5,
        ["999"] * 5,
        [True, False] * 5,
        [],
    ],
)
def test_ordinary_values_are_not(values):
    assert sentinels(pd.Series(values)) == []


def test_what_is_said_names_the_value_how_often_and_the_others():
    said = sentinel_sentence(pd.Series([20, 30, 45, 60, 80] * 20 + [99999] * 10, name="income"))
    assert said is not None and said.startswith("column 'income' holds 99999 10 times, far from the others (20 to 80):")
    assert sentinel_sentence(pd.Series(AGES, name="age")) is None


@pytest.mark.parametrize("values", [[0.19] * 9, [0.1 + 0.2, 0.3], ["a", None, "a"], [True] * 3, [7, 7], [1e300] * 2])
def test_one_value_is_a_constant_and_so_is_its_rounding(values):
    assert is_constant(pd.Series(values))


@pytest.mark.parametrize("values", [[2**45, 2**45 + 1], [0.0, 1e-30], ["a", "b"], [None], [], [True, False]])
def test_two_values_are_not(values):
    assert not is_constant(pd.Series(values))


def test_a_constant_is_named_with_its_value():
    assert constant_sentence(pd.Series([0.19] * 3, name="x")) == "column 'x' has the one value 0.19 and is left out."
