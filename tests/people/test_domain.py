"""Who exists: inferring, editing, saving and refusing domains."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bornfair import Domain
from bornfair.core.errors import InputError
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, RealFeature


def test_infers_every_kind_of_feature(people):
    domain = Domain.infer(people, target="grant", sensitive=["sex"])
    kinds = {feature.name: feature.kind for feature in domain.features}
    assert kinds == {
        "age": "integer", "income": "real", "job": "categorical", "owner": "boolean", "sex": "categorical", "race":
        "categorical",
    }  # fmt: skip
    assert domain.feature("age").levels() == range(people["age"].min(), people["age"].max() + 1)
    assert domain.feature("job").levels() == ("clerk", "nurse", "smith")
    assert domain.label.classes == ("no", "yes")


def test_polars_and_pandas_give_the_same_domain(people):
    with_gap = people.assign(job=people["job"].where(people["age"] > 20))
    for table in (people, with_gap):
        assert Domain.infer(pl.from_pandas(table), target="grant") == Domain.infer(table, target="grant")


def test_numeric_sensitive_features_have_every_whole_number_between(people):
    domain = Domain.infer(people, target="grant", sensitive=["age"])
    assert domain.sensitive_space.size == people["age"].max() - people["age"].min() + 1


def test_real_sensitive_features_have_a_grid_of_levels(people):
    space = (
        Domain.infer(people, target="grant", sensitive=["income"])
        .edit("income", low=-5.0, high=5.0, grid=3)
        .sensitive_space
    )
    assert space.values == ((-5.0,), (0.0,), (5.0,))
    assert space.integer_codes.tolist() == [[-1], [0], [1]]


def test_sensitive_numbers_of_few_values_are_lists_of_them():
    table = pd.DataFrame({"sex": [-1.1065, 0.9037] * 20, "code": [0, 99] * 20, "size": [1, 2, 3, 4] * 10})
    table["edu"], table["x"] = [-0.5, 0.25, 1.0, 1.75] * 10, np.linspace(0, 1, 40)
    domain = Domain.infer(table, sensitive=["sex", "code", "size", "x"])
    assert domain.feature("sex").levels() == (-1.1065, 0.9037)
    assert domain.feature("code").levels() == (0, 99)
    assert [domain.feature(name).kind for name in ("size", "x", "edu")] == ["integer", "real", "real"]
    assert domain.sensitive_space.values[0][:2] == (-1.1065, 0)
    few = Domain.infer(table[:4], sensitive=["sex"])  # too few rows to say so
    assert few.feature("sex").kind == "real"


def test_composite_is_the_product_or_the_observed_combinations():
    table = pd.DataFrame({"x": [1, 2, 3], "sex": ["f", "m", "m"], "race": ["a", "b", "c"]})
    assert Domain.infer(table, sensitive=["sex", "race"]).sensitive_space.size == 6
    observed = Domain.infer(table, sensitive=["sex", "race"], combinations="observed")
    assert observed.sensitive_space.values == (("f", "a"), ("m", "b"), ("m", "c"))


@st.composite
def sensitive_domains(draw):
    """Domains with one to three sensitive features of any kind, over all or some combinations."""
    features = []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["categorical", "integer", "boolean", "real"]))
        name = f"s{i}"
        if kind == "categorical":
            features.append(CategoricalFeature(name=name, categories=tuple("abcdefgh"[: draw(st.integers(2, 8))])))
        elif kind == "integer":
            low = draw(st.integers(-50, 50))
            features.append(IntegerFeature(name=name, low=low, high=low + draw(st.integers(1, 12))))
        elif kind == "real":
            features.append(RealFeature(name=name, low=-1.5, high=2.25, grid=draw(st.integers(2, 7))))
        else:
            features.append(BooleanFeature(name=name))
    domain = Domain(features=tuple(features), sensitive=tuple(f.name for f in features))
    if not domain.real_sensitive and draw(st.booleans()):
        values = domain.sensitive_space.values
        kept = draw(st.lists(st.sampled_from(values), min_size=2, max_size=min(9, len(values)), unique=True))
        domain = domain.with_sensitive(domain.sensitive, kept)
    return domain


@given(sensitive_domains(), st.randoms(use_true_random=False))
def test_codes_cancel_exactly_in_floating_point_in_any_order(domain, random):
    space = domain.sensitive_space
    assert (space.integer_codes.sum(axis=0) == 0).all()
    order = list(range(space.size))
    random.shuffle(order)
    total = np.zeros(space.width, np.float32)
    for i in order:
        total = total + space.codes[i]
    assert (total == 0).all()
    assert np.abs(space.codes).max() <= 1


@given(sensitive_domains())
def test_different_sensitive_values_have_different_codes(domain):
    codes = domain.sensitive_space.integer_codes
    assert len(np.unique(codes, axis=0)) == len(codes)


@given(sensitive_domains())
def test_json_round_trip_is_the_same_domain(domain):
    again = Domain.from_json(domain.model_dump_json())
    assert again == domain
    assert again.sensitive_space.values == domain.sensitive_space.values


def test_two_values_are_plus_and_minus_one_and_k_values_are_k_on_and_minus_one_off():
    domain = Domain(
        features=(
            CategoricalFeature(name="a", categories=("x", "y")),
            CategoricalFeature(name="b", categories=tuple("uvw")),
        )
    )
    assert domain.with_sensitive(["a"]).sensitive_space.integer_codes.tolist() == [[-1], [1]]
    assert domain.with_sensitive(["b"]).sensitive_space.integer_codes.tolist() == [
        [2, -1, -1],
        [-1, 2, -1],
        [-1, -1, 2],
    ]


def test_saved_file_reads_back_and_validates_against_its_schema(people, tmp_path):
    domain = Domain.infer(people, target="grant", sensitive=["sex", "age"])
    path = domain.save(tmp_path / "domain.json")
    assert Domain.load(path) == domain
    schema = Domain.json_schema()
    assert set(json.loads(path.read_text())) <= set(schema["properties"])
    assert list(tmp_path.iterdir()) == [path]


def test_samples_are_people_of_the_domain(people):
    domain = Domain.infer(people, target="grant", sensitive=["sex", "race"], combinations="observed")
    assert not domain.outside(domain.sample(500, seed=3)).any()
    assert domain.sample(50, seed=3).equals(domain.sample(50, seed=3))
    stranger = people.assign(age=people["age"].max() + 1)
    assert domain.outside(stranger).all()


def test_editing_changes_one_feature_and_checks_it(people):
    domain = Domain.infer(people, target="grant")
    assert domain.edit("age", low=0, high=120).feature("age").levels() == range(121)
    with pytest.raises(InputError, match="low 9 is above high 3; swap them"):
        domain.edit("age", low=9, high=3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {"target": "grnt"}, "target 'grnt' is not in the table; did you mean 'grant'?"),
        (
            lambda t: {"target": "grant", "sensitive": ["sexx"]},
            "sensitive feature 'sexx' is not in the table; did you mean 'sex'?",
        ),
        (lambda t: {"target": "sex", "sensitive": ["sex"]}, "'sex' cannot be both the target and a sensitive feature"),
    ],
)
def test_unknown_names_are_explained(people, change, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        Domain.infer(people, **change(people))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["yes"] * 4, r"target 'y' has one class only, 'yes', in all 4 rows; a classifier needs at least two"),
        ([1, None, 0, 1], r"target 'y' is missing in 1 of 4 rows; remove those rows"),
    ],
)
def test_bad_targets_are_explained(column, message):
    with pytest.raises(InputError, match=message):
        Domain.infer(pd.DataFrame({"x": [1, 2, 3, 4], "y": column}), target="y")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([float("inf"), 1.0, 2.5], r"column 'x' holds inf in row 0; numbers must be finite"),
        ([None, None, None], r"column 'x' has no values at all; drop it \(--drop\) or fill it"),
        ([{}, 1, 2], r"column 'x' holds a dict in row 0; cells must be numbers, texts or true/false"),
        (pd.to_datetime(["2020-01-01"] * 3), r"column 'x' holds dates; turn them into numbers"),
    ],
)
def test_bad_columns_are_explained(column, message):
    with pytest.raises((InputError, TypeError), match=message):
        Domain.infer(pd.DataFrame({"x": column}))


def test_a_single_sensitive_value_has_no_twin():
    table = pd.DataFrame({"x": [1, 2], "sex": ["f", "f"]})
    with pytest.raises(InputError, match="sensitive feature 'sex' has the single value 'f': twins need at least two"):
        Domain.infer(table, sensitive=["sex"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"features": [', "is it truncated"),
        ("[1, 2]", "must hold one JSON object"),
        ('{"features": [{"kind": "real", "name": "x", "low": NaN, "high": 1}]}', "low and high must be finite"),
        ('{"features": [{"kind": "image", "name": "x"}]}', "kind"),
        ('{"features": [], "sensitive": ["x"]}', "sensitive feature 'x' is not in the table"),
        ('{"features": [], "extra": 1}', "extra"),
        (
            '{"features": [{"kind": "boolean", "name": "x"}, {"kind": "boolean", "name": "x"}]}',
            "feature named twice: 'x'",
        ),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_bad_files_are_explained(text, message):
    with pytest.raises(InputError, match=message):
        Domain.from_json(text)
