"""Every value of a sensitive feature belongs to one group with a name of its own, however many there are."""

import numpy as np
import pandas as pd
import pytest

from bornfair.core.errors import InputError
from bornfair.people.features import CategoricalFeature, IntegerFeature, RealFeature
from bornfair.people.levels import MOST_LEVELS, class_positions, favourable_class, grouped


def counted(feature, values):
    positions, names = grouped(feature, pd.Series(values))
    assert len(set(names)) == len(names) and positions.max() < len(names)
    return {name: int((positions == i).sum()) for i, name in enumerate(names)}, int((positions < 0).sum())


def test_a_gap_belongs_to_no_group():
    sex = CategoricalFeature(name="sex", categories=("f", "m"))
    assert counted(sex, ["f", None, "m", "m", "x"]) == ({"f": 1, "m": 2}, 2)


def test_many_numbers_are_bands_of_about_equal_size():
    found, lost = counted(RealFeature(name="x", low=0.0, high=1.0), np.linspace(0, 1, 101))
    assert lost == 0 and len(found) == 4 and max(found.values()) - min(found.values()) <= 1


def test_a_number_that_most_people_share_is_a_band_of_its_own():
    values = [0.0] * 70 + list(np.linspace(1, 9, 30))
    found, _ = counted(RealFeature(name="x", low=0.0, high=9.0), values)
    assert found["0"] == 70 and sum(found.values()) == 100


def test_the_rarest_of_many_categories_are_one_group():
    country = CategoricalFeature(name="country", categories=tuple(f"c{i:02d}" for i in range(41)))
    found, _ = counted(country, [f"c{i:02d}" for i in range(41) for _ in range(i + 1)])
    assert len(found) == MOST_LEVELS and found["22 other values"] == sum(range(1, 23))


def test_few_numbers_are_groups_by_themselves():
    assert counted(IntegerFeature(name="x", low=0, high=1), [0, 1, 1])[0] == {"0": 1, "1": 2}


@pytest.mark.parametrize(
    ("name", "classes", "favourable"),
    [
        ("risk", ["bad", "good"], "good"),
        ("risk", ["good", "bad"], "good"),
        ("income", ["<=50K", ">50K"], ">50K"),
        ("hired", [0, 1], 1),
        ("default", [0, 1], 0),
        ("two_year_recid", ["no", "yes"], "no"),
        ("status", ["denied", "other"], "other"),
        ("grade", ["a", "b", "c"], "c"),
    ],
)
def test_the_favourable_decision_is_inferred_from_names(name, classes, favourable):
    position, inferred = favourable_class(name, classes)
    assert classes[position] == favourable and inferred


def test_the_favourable_decision_may_be_typed():
    assert favourable_class("y", [0, 1], "0") == (0, False)
    with pytest.raises(InputError, match="favourable decision 'maybe' is not one of the model's classes 0, 1"):
        favourable_class("y", [0, 1], "maybe")


def test_answers_of_a_column_with_gaps_are_read():
    column = pd.Series([1.0, None, 0.0], name="y")
    assert class_positions(column, ["0", "1"], gaps=True).tolist() == [1, -1, 0]
    with pytest.raises(InputError, match="missing in 1 of 3 rows"):
        class_positions(column, ["0", "1"])
