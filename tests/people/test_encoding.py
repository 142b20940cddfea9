"""How a row becomes numbers, and back."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair import Domain
from bornfair.core.errors import InputError
from bornfair.people.columns import NumberColumn, Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.people.policies import Policies
from bornfair.people.twins.relation import flip_relation, free_space
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
    numbers = encoding.sensitive.listed_codes[:, 0].tolist()
    assert [Fraction(number) for number in numbers] == [encoding.sensitive.exact(row)[0] for row in rows]


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


# --- numbers that are held between two ends ---


def held_scale(values, **range_):
    table = pd.DataFrame({"x": values, "s": np.arange(len(values)) % 2 == 0})
    domain = Domain.infer(table, sensitive=["s"])
    domain = domain.edit("x", **range_) if range_ else domain
    return Encoding.fit(domain, table, hold_tails=True), table


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1000) % 60,
        np.random.default_rng(0).normal(40, 9, 1000),
        np.random.default_rng(0).uniform(-3, 3, 50),
        np.where(np.arange(1000) % 50, 0, 5000 + np.arange(1000)),  # mostly 0, and the others matter
        np.where(np.arange(1000) < 800, np.arange(1000) % 7 / 8, 900 + np.arange(1000) % 5),  # two groups of people
        [0, 1] * 20,
        [3.5, 4.5],
    ],
)
def test_ordinary_numbers_are_not_held(values):
    encoding, table = held_scale(values)
    assert encoding.scales["x"].holding == ()
    assert encoding.to_json() == Encoding.fit(encoding.domain, table).to_json()


@pytest.mark.parametrize("odd", [[99999] * 10, [1e9], [99999] * 300, [-99999] * 10])
@pytest.mark.parametrize("whole", [False, True])
def test_a_far_tail_is_held_and_the_others_are_spread_as_if_it_were_not_there(odd, whole):
    ordinary = np.random.default_rng(1).normal(50, 10, 1000)
    values = np.concatenate([np.round(ordinary) if whole else ordinary, odd])
    encoding, table = held_scale(values)
    scale, shown = encoding.scales["x"], encoding.encode(table).free[:, 0]
    assert np.isfinite(shown).all() and np.abs(shown).max() < 20
    assert shown[:1000].std() > 0.15 and len(np.unique(shown[:1000])) == len(np.unique(values[:1000]))
    (end,) = {scale.low, scale.high} - {None}
    assert not whole or end == round(end)
    column = encoding.number("x")
    assert column.seen in ((values.min(), end), (end, values.max()))
    beyond, at = (encoding.encode(pd.DataFrame({"x": [x], "s": [True]})).free for x in (odd[0], end))
    assert beyond.tobytes() == at.tobytes()
    assert column.exact(odd[0]) == column.exact(end)


@pytest.mark.parametrize("value", [0.19, -3.7e9, 7])
def test_a_constant_column_is_left_out_whatever_is_fed_later(value):
    encoding, table = held_scale([value] * 30)
    assert not encoding.encode(table).free.any()
    assert not encoding.encode(table.assign(x=[1e30, -5.0] * 15)).free.any()
    assert Encoding.from_json(encoding.domain, encoding.to_json()) == encoding


def test_a_tail_is_held_within_the_domain_and_sensitive_or_mirrored_numbers_never():
    values = [*range(100), 10**6]
    encoding, _ = held_scale(values, low=0, high=150)
    assert encoding.scales["x"].holding == ()
    table = pd.DataFrame({"x": values, "s": np.arange(101) % 2 == 0})
    sensitive = Domain.infer(table, sensitive=["x"])
    assert Encoding.fit(sensitive, table, hold_tails=True).scales["x"].holding == ()
    mirrored = Domain.infer(table, sensitive=["s"]).with_twins("x: -x+1000000")
    assert Encoding.fit(mirrored, table, hold_tails=True).scales["x"].holding == ()
    held, _ = held_scale(values)
    with pytest.raises(InputError, match="'x' is held between ends by this encoding, which a number in which twins"):
        held.over(held.domain.with_twins("x: -x+1000000"))


def test_what_was_held_and_is_sensitive_now_has_the_values_that_are_seen():
    encoding, _ = held_scale([*range(100), 10**6])
    end = encoding.scales["x"].high
    other = encoding.over(encoding.domain.with_sensitive(["x"]))
    assert (other.domain.feature("x").low, other.domain.feature("x").high) == (0, end)
    assert other.scales["x"].holding == ()


@pytest.mark.parametrize("ends", [{"low": 5.0, "high": 3.0}, {"low": 0.5}, {"high": float("inf")}])
def test_odd_ends_are_refused(ends):
    domain = Domain(features=(IntegerFeature(name="n", low=0, high=9),))
    with pytest.raises(InputError, match="'n' is held between"):
        Encoding(domain, {"n": Scale(centre=0.0, exponent=0, **ends)})


def test_what_is_neither_true_nor_false_is_refused_also_where_unseen_categories_are_ignored(people):
    with pytest.raises(InputError, match="column 'owner' holds 'maybe' in row 0"):
        encoding_of(people, unseen="ignore").encode(people.assign(owner="maybe"))


def test_rows_are_named_as_people_write_them(people):
    encoding = encoding_of(people, ("sex",))
    people.loc[5, "job"] = None
    with pytest.raises(InputError, match=r"column 'job' has a missing value \(NaN\) in row 5 and 0 other rows"):
        encoding.encode(people)


@pytest.mark.parametrize(
    ("low", "high", "seen"),
    [
        (50, 90, (50, 50)),  # everybody lies beyond the end where it is held
        (-9, 0, (0, 0)),
        (30, 90, (30, 40)),
        (0, 20, (10, 20)),
    ],
)
def test_the_values_that_stand_for_all_others_are_of_the_domain(low, high, seen):
    column = NumberColumn(IntegerFeature(name="age", low=low, high=high), (("Min", 40.0), ("Max", 10.0)))
    assert column.seen == seen
    assert all(low <= value <= high for value in column.seen)
    assert column.encode(low) == column.encode(seen[0]) and column.encode(high) == column.encode(seen[1])
