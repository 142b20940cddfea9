"""How a row becomes numbers, and back."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair import Domain
from bornfair.errors import InputError
from bornfair.people.encoding import Encoding, Policies, Scale
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.twins.relation import flip_relation, free_space
from samples import make_people


def encoding_of(table, sensitive=("sex",), **policies):
    domain = Domain.infer(table.drop(columns="grant"), sensitive=sensitive)
    return Encoding.fit(domain, table, Policies(**policies))


@pytest.mark.parametrize("sensitive", [("sex",), ("age",), ("sex", "race"), ("race", "age", "owner"), ()])
def test_decoding_gives_back_the_people(people, sensitive):
    encoding = encoding_of(people, sensitive)
    encoded = encoding.encode(people)
    back = encoding.decode(encoded.free, encoding.sensitive_index(encoded) if sensitive else None)
    exact = [name for name in back.columns if name != "income"]
    pd.testing.assert_frame_equal(back[exact], people[exact], check_dtype=False)
    np.testing.assert_allclose(back["income"], people["income"], rtol=1e-6)


@given(st.integers(-(2**23), 2**23), st.integers(-(2**20), 2**20), st.integers(1, 2**20))
def test_whole_numbers_are_encoded_without_rounding(value, low, spread):
    domain = Domain.infer(pd.DataFrame({"x": [low, low + spread]}))
    encoding = Encoding.fit(domain, pd.DataFrame({"x": [low, low + spread]}))
    scale = encoding.scales["x"]
    encoded = encoding.encode(pd.DataFrame({"x": [value]})).free[0, 0]
    assert float(encoded) * 2.0**scale.exponent + scale.centre == value


def test_numbers_are_standardised_up_to_a_power_of_two(people):
    encoded = encoding_of(people).encode(people).free
    spread = encoded[:, :2].std(axis=0)  # age, income
    assert ((spread > 0.7) & (spread < 1.45)).all()
    assert (np.abs(encoded[:, :2].mean(axis=0)) < 0.1).all()


def test_exactly_one_category_is_on(people):
    encoding = encoding_of(people)
    block = encoding.encode(people).free[:, encoding.free_columns()["job"]]
    assert (block.sum(axis=1) == 1).all() and set(np.unique(block)) == {0.0, 1.0}


def test_without_sensitive_columns_the_free_part_is_the_same(people):
    encoding = encoding_of(people, ("sex", "age"))
    bare = encoding.encode(people.drop(columns=["sex", "age"]))
    assert bare.sensitive is None
    assert (bare.free == encoding.encode(people).free).all()


def test_twins_share_the_free_part_and_differ_in_the_codes(people):
    encoding = encoding_of(people)
    women, men = (encoding.encode(people.assign(sex=sex)) for sex in ("female", "male"))
    assert (women.free == men.free).all()
    assert (women.sensitive == -1).all() and (men.sensitive == 1).all()


def test_views_of_the_relation_are_the_encoded_twins(people):
    encoding = encoding_of(people, ("sex", "race"))
    relation = flip_relation(encoding)
    free = encoding.encode(people).free
    for view, value in zip(relation.views, encoding.domain.sensitive_space.values, strict=True):
        twin = encoding.encode(people.assign(sex=value[0], race=value[1]))
        assert (view(free) == np.concatenate([twin.free, twin.sensitive], axis=1)).all()


def test_the_free_space_holds_every_encoded_person(people):
    encoding = encoding_of(people)
    space = free_space(encoding)
    free = encoding.encode(encoding.domain.sample(2000, seed=1)).free.astype(np.float64)
    slack = 1e-6  # real numbers are rounded to float32
    assert (free >= space.low - slack).all() and (free <= space.high + slack).all()
    steps = (free - space.low) / np.where(space.step > 0, space.step, 1)
    assert (steps == np.round(steps))[:, space.step > 0].all()
    assert all((free[:, group].sum(axis=1) == 1).all() for group in space.groups)


def test_json_round_trip_encodes_the_same(people):
    encoding = encoding_of(people)
    again = Encoding.from_json(encoding.domain, encoding.to_json())
    assert (again.encode(people).free == encoding.encode(people).free).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"job": "pilot"}, r"column 'job' holds 'pilot' in row 0, which is not one of 'clerk', 'nurse', 'smith'"),
        ({"sex": "x"}, r"column 'sex' holds 'x' in row 0, which is not one of 'female', 'male'"),
        ({"job": None}, r"column 'job' has a missing value \(NaN\) in row 0 and 239 other rows; fill or drop them"),
        ({"age": np.nan}, r"column 'age' has a missing value \(NaN\) in row 0"),
        ({"age": "old"}, r"column 'age' holds 'old' in row 0; a number is needed"),
        ({"income": np.inf}, r"column 'income' holds inf in row 0; numbers must be finite"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_default(people, change, message):
    with pytest.raises(InputError, match=message):
        encoding_of(people).encode(people.assign(**change))


def test_an_absent_column_is_named(people):
    with pytest.raises(InputError, match=r"column 'job' is not in the table"):
        encoding_of(people).encode(people.drop(columns="job"))


def test_half_of_the_sensitive_columns_is_refused(people):
    with pytest.raises(
        InputError, match=r"sensitive column 'sex' is missing but 'race' is there; give all sensitive columns or none"
    ):
        encoding_of(people, ("sex", "race")).encode(people.drop(columns="sex"))


def test_imputing_uses_the_training_median_and_mode(people):
    encoding = encoding_of(people, missing="impute")
    filled = encoding.encode(people.assign(age=np.nan, job=None))
    expected = encoding.encode(people.assign(age=people["age"].median(), job=people["job"].mode()[0]))
    assert (filled.free == expected.free).all()


def test_ignoring_unseen_categories_turns_none_on_but_never_for_sensitive_ones(people):
    encoding = encoding_of(people, unseen="ignore")
    block = encoding.encode(people.assign(job="pilot")).free[:, encoding.free_columns()["job"]]
    assert (block == 0).all()
    with pytest.raises(InputError, match="column 'sex' holds 'x'"):
        encoding.encode(people.assign(sex="x"))


def test_numbers_outside_are_allowed_clipped_or_refused(people):
    far = people.assign(age=500)
    assert encoding_of(people).encode(far).free[:, 0].max() > 10
    clipped = encoding_of(people, outside="clip").encode(far).free
    assert (clipped == encoding_of(people).encode(people.assign(age=people["age"].max())).free).all()
    with pytest.raises(InputError, match=r"column 'age' holds 500, outside the domain's range \[18, 79\]"):
        encoding_of(people, outside="error").encode(far)


def test_a_combination_that_does_not_exist_is_named():
    table = make_people(30, seed=1)
    table.loc[table["sex"] == "male", "race"] = "a"
    domain = Domain.infer(table.drop(columns="grant"), sensitive=["sex", "race"], combinations="observed")
    encoding = Encoding.fit(domain, table)
    with pytest.raises(
        InputError, match=r"sensitive combination 'male', 'b' of \(sex, race\) is in the table but not among the 4"
    ):
        encoding.sensitive_index(encoding.encode(table.assign(sex="male", race="b")))


def test_listed_codes_are_exact_though_float32_cannot_hold_them():
    """Of 8,009 combinations the centred codes have more than the 24 bits of a float32."""
    features = (IntegerFeature(name="age", low=0, high=6006), CategoricalFeature(name="sex", categories=("f", "m")))
    rows = [(age, "f") for age in range(6007)] + [(age, "m") for age in range(2002)]
    domain = Domain(features=features, sensitive=("age", "sex"), combinations=tuple(rows))
    encoding = Encoding(domain, {"age": Scale(centre=0.0, exponent=0)})
    assert np.abs(domain.sensitive_space.features[0].codes).max() > 2**24
    numbers = encoding.listed_codes[:, 0].tolist()
    assert [Fraction(number) for number in numbers] == [encoding.exact_code(row)[0] for row in rows]


@pytest.mark.parametrize("value", [0.19, -3.7e9, 1e-7])
@pytest.mark.parametrize("noise", [0.0, 1e-15])
def test_a_constant_column_stays_small(value, noise):
    """Its spread is not 0 in floating point, and the network was shown rounding errors divided by it."""
    table = pd.DataFrame({"rate": np.full(999, value), "s": [True, False, True] * 333})
    table.loc[::2, "rate"] *= 1 + noise
    encoding = Encoding.fit(Domain.infer(table, sensitive=["s"]), table)
    shown = encoding.encode(table).free
    assert np.abs(shown).max() <= 1e-5 and len(np.unique(shown)) <= 2


def test_numbers_far_from_0_and_close_together_are_told_apart():
    table = pd.DataFrame({"time": 1.7e9 + np.linspace(-50.5, 50.5, 998) + 40, "s": [True, False] * 499})
    encoding = Encoding.fit(Domain.infer(table, sensitive=["s"]), table)
    shown = encoding.encode(table).free
    assert abs(shown.mean()) < 0.5 and 0.5 < shown.std() < 2
