"""The attack finds twins wherever brute force finds many, never where there are none, and shows them simply."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from bornfair import verify
from bornfair.core.errors import InputError
from bornfair.estimator import FairClassifier
from bornfair.models.network.lens import Lens
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, Feature, IntegerFeature, Label, RealFeature
from bornfair.people.twins.relation import flip_relation
from bornfair.proof.bundle import FairModel
from bornfair.verification.attack import Attack, find_twins
from bornfair.verification.cancel import cancelling
from samples import make_people

pytestmark = pytest.mark.slow

SEX = CategoricalFeature(name="sex", categories=("female", "male"))


def model_of(
    features: tuple[Feature, ...], sensitive: tuple[str, ...], *layers: tuple[Any, Any], **more: Any
) -> FairModel:
    """A model whose numbers are read as they stand."""
    outputs = len(layers[-1][1])
    label = Label(name="decision", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=features, sensitive=sensitive, label=label, combinations=more.pop("combinations", None))
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in domain.features if f.kind in ("integer", "real")}
    made = tuple(Layer(np.array(weight, float), np.array(bias, float)) for weight, bias in layers)
    return FairModel(Network(made, **more), Encoding(domain, scales))


def exact_decision(model: FairModel, person: dict[str, Any]) -> int:
    """Decided by the oracle from raw values, by arithmetic written down once more."""
    inputs: list[Fraction] = []
    for feature in model.domain.free_features:
        value = person[feature.name]
        if feature.kind in ("integer", "real"):
            scale = model.encoding.scales[feature.name]
            inputs.append((Fraction(value) - Fraction(scale.centre)) * Fraction(2) ** -scale.exponent)
        elif feature.kind == "boolean":
            inputs.append(Fraction(int(value)))
        else:
            inputs += [Fraction(int(level == value)) for level in feature.levels()]
    space = model.domain.sensitive_space
    at = space.values.index(tuple(person[name] for name in model.domain.sensitive))
    inputs += [Fraction(float(code)) for code in space.codes[at]]
    return oracle.exact_decision(oracle.exact_scores(model.network, inputs))


def assert_are_unfair_twins(model: FairModel, attack: Attack, wanted: tuple[str, ...] = ("float32", "real")) -> None:
    found = attack.found
    assert found is not None and set(found.unfair_in) & set(wanted)
    table = pd.DataFrame(list(found.people))
    assert len(table) == 2 and not model.domain.outside(table).any()
    differing = {name for name in model.domain.names if table[name].iloc[0] != table[name].iloc[1]}
    assert differing and differing <= set(model.domain.sensitive)
    for feature in model.domain.features:
        kind = {"integer": int, "real": float, "boolean": bool}.get(feature.kind)
        assert kind is None or type(found.people[0][feature.name]) is kind
    if "real" in found.unfair_in:
        first, second = (exact_decision(model, person) for person in found.people)
        assert first != second
    if "float32" in found.unfair_in:
        encoded = model.encoding.encode(table)
        assert len(set(model.network.decide(np.concatenate([encoded.free, encoded.sensitive], axis=1)).tolist())) == 2


# --- brute force as the judge ---


def small_model(rng: np.random.Generator, style: str, outputs: int) -> FairModel:
    pool: list[Feature] = [
        RealFeature(name="r", low=float(rng.uniform(-3, 0)), high=float(rng.uniform(0, 3))),
        IntegerFeature(name="n", low=-1, high=int(rng.integers(0, 4))),
        BooleanFeature(name="b"),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
    ]
    kept = [feature for feature in pool if rng.random() < 0.7]
    sensitive: list[Feature] = [CategoricalFeature(name="s", categories=("p", "q", "o")[: int(rng.integers(2, 4))])]
    if rng.random() < 0.4:
        sensitive.append(IntegerFeature(name="t", low=0, high=2))
    domain = Domain(
        features=(*sensitive, *kept),
        sensitive=tuple(f.name for f in sensitive),
        label=Label(name="y", classes=tuple(range(max(outputs, 2)))),
    )
    numbers = [f.name for f in domain.features if f.kind in ("real", "integer")]
    scales = {name: Scale(centre=float(rng.integers(-1, 2)), exponent=int(rng.integers(-2, 3))) for name in numbers}
    encoding = Encoding(domain, scales)
    return FairModel(oracle.small_network(rng, flip_relation(encoding), style, outputs), encoding)


def unfair_share(model: FairModel) -> float:
    """Of all people (a few levels of real features), in exact arithmetic."""
    relation = flip_relation(model.encoding)
    people = list(oracle.everybody(relation.free))
    unfair = 0
    for person in people:
        decided = {
            oracle.exact_decision(oracle.exact_scores(model.network, oracle.exact_inputs(view, person)))
            for view in relation.views
        }
        unfair += len(decided) > 1
    return unfair / len(people)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(oracle.STYLES), st.sampled_from([1, 1, 3]))
def test_twins_are_unfair_by_brute_force_and_found_where_there_are_many(seed, style, outputs):
    model = small_model(np.random.default_rng(seed), style, outputs)
    attack = find_twins(model, seconds=0.15, seed=seed)
    share = unfair_share(model)
    if attack.found is not None:
        assert_are_unfair_twins(model, attack)
        assert style != "fair"
    elif style != "wild":  # whose numbers exceed what float64 can follow
        assert share < 0.02


@pytest.mark.parametrize("arithmetic", [("float32",), ("real",)])
def test_twins_count_only_in_the_arithmetic_asked_for(arithmetic):
    for seed in range(8):
        model = small_model(np.random.default_rng([seed, 1]), "tame", 1)
        attack = find_twins(model, seconds=0.1, seed=seed, arithmetic=arithmetic)
        if attack.found is not None:
            assert_are_unfair_twins(model, attack, arithmetic)


# --- fair networks ---


def fair_but_reading(rng: np.random.Generator) -> FairModel:
    """One neuron reads the sex, and nobody reads this neuron."""
    features = (IntegerFeature(name="age", low=18, high=80), RealFeature(name="income", low=0.0, high=9.0), SEX)
    first = rng.normal(size=(6, 3))
    first[:, 2] = 0.0
    first[0] = rng.normal(size=3)
    first[:, 0] /= 30
    second = rng.normal(size=(1, 6))
    second[0, 0] = 0.0
    return model_of(features, ("sex",), (first, rng.normal(size=6)), (second, [0.0]))


def test_nothing_is_found_in_fair_networks():
    for seed in range(3):
        attack = find_twins(fair_but_reading(np.random.default_rng(seed)), seconds=0.6, seed=seed)
        assert attack.found is None and not attack
        assert attack.tried > 5000 and 0.6 <= attack.seconds < 10


def test_a_network_that_reads_no_sensitive_value_needs_no_search():
    model = model_of((IntegerFeature(name="n", low=0, high=9), SEX), ("sex",), ([[1.0, 0.0]], [-5.0]))
    attack = find_twins(model, seconds=5)
    assert attack.found is None and attack.tried == 0 and attack.seconds < 4 and "no weight" in attack.how


def test_people_without_free_features_are_searched_and_that_is_all():
    for bias, unfair in ((0.0, True), (5.0, False)):
        model = model_of((SEX,), ("sex",), ([[1.0]], [bias]))
        attack = find_twins(model, seconds=5)
        assert bool(attack) == unfair and attack.seconds < 4


# --- the boundary ---


@pytest.fixture(scope="module")
def nearly_fair() -> tuple[FairModel, pd.DataFrame]:
    """Trained fair, then 1e-9 added to one weight that reads the sex."""
    people = make_people(400, seed=3)
    fit = FairClassifier(sensitive_features=["sex"], hidden=[16, 8], epochs=30, learning_rate=0.01, random_state=1)
    model = fit.fit(people.drop(columns=["grant"]), people["grant"]).model_
    assert model.ignores_sensitive
    first = model.network.layers[0]
    weight = first.weight.copy()
    responds = np.abs(weight[:, : model.encoding.free_width]).sum(axis=1).argmax()
    weight[responds, model.encoding.free_width] += 1e-9
    network = Network((Layer(weight, first.bias), *model.network.layers[1:]), model.network.activation)
    return dataclasses.replace(model, network=network, certificate=None), people


@pytest.mark.parametrize("with_table", [False, True])
def test_a_billionth_on_a_sensitive_weight_is_falsified_with_concrete_people(nearly_fair, with_table):
    model, people = nearly_fair
    attack = find_twins(model, table=people if with_table else None, seconds=8, arithmetic=("real",))
    assert_are_unfair_twins(model, attack, ("real",))
    assert "boundary" in attack.how
    assert attack.found.people[0]["income"] == round(attack.found.people[0]["income"], 14)


def test_integers_find_the_needle_by_guidance():
    """Σ w·x = T exactly, or nobody is unfair: about one person in a million."""
    weights = [101.0, 211.0, 307.0, 401.0, 503.0, 601.0]
    features = tuple(IntegerFeature(name=f"n{i}", low=0, high=60) for i in range(6))
    layers = ([[*(w / 1024 for w in weights), 2.0**-12]], [-60 * sum(weights) / 1024 * 0.9])
    model = model_of((*features, SEX), ("sex",), layers)
    sample = Lens(model).sample(300_000, np.random.default_rng(0))
    assert (Lens(model).look(sample, np.arange(2)).gap >= 0).mean() < 1e-5
    attack = find_twins(model, seconds=10)
    assert_are_unfair_twins(model, attack)
    assert attack.tried < 200_000


def test_cancelling_finds_the_sum_closest_to_zero_of_a_box():
    rng = np.random.default_rng(3)
    features = tuple(IntegerFeature(name=f"n{i}", low=-4, high=3 + i) for i in range(4))
    weights = np.append(rng.normal(size=4), 1e-3)
    lens = Lens(model_of((*features, SEX), ("sex",), ([weights], [0.3])))
    slopes, base = lens.first_weight[0], np.array([-4.0, 0.0, 2.0, 6.0])
    near = cancelling(lens, base, slopes, float(base @ slopes + lens.weights[0][1][0]), 5)
    everyone = np.stack(np.meshgrid(*(np.arange(-4, 4 + i) for i in range(4)), indexing="ij"), -1).reshape(-1, 4)
    best = np.abs(everyone @ slopes + lens.weights[0][1][0]).min()
    found = np.abs(near @ slopes + lens.weights[0][1][0])
    assert (near >= lens.low).all() and (near <= lens.high).all() and (near == np.round(near)).all()
    assert found[0] == pytest.approx(best, abs=1e-12) and (np.diff(found) >= -1e-12).all()


def test_a_hundred_millionth_falls_between_whole_numbers_too():
    """No real number to halve: sums of whole numbers must cancel to eight digits."""
    rng = np.random.default_rng(7)  # with a region where the score is 0 and nobody's sex matters
    highs = (99, 4000, 99999, 16, 99)
    features = tuple(IntegerFeature(name=f"n{i}", low=0, high=high) for i, high in enumerate(highs))
    first = np.concatenate([rng.normal(size=(8, 5)) / np.array(highs) * 3, np.full((8, 1), 1e-8)], axis=1)
    layers = ((first, rng.normal(size=8)), (rng.normal(size=(1, 8)), [0.0]))
    model = model_of((*features, SEX), ("sex",), *layers)
    attack = find_twins(model, seconds=10, arithmetic=("real",))
    assert_are_unfair_twins(model, attack, ("real",))


def test_categories_alone_can_be_searched():
    rng = np.random.default_rng(5)
    letters = tuple("abcdefgh")
    features = tuple(CategoricalFeature(name=f"c{i}", categories=letters) for i in range(6))
    weight = np.append(rng.integers(-200, 200, 48) / 16, 1 / 64)
    model = model_of((*features, SEX), ("sex",), ([weight], [1 / 256]))
    attack = find_twins(model, seconds=10)
    assert_are_unfair_twins(model, attack)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "gelu"])
def test_smooth_networks_are_attacked_in_float32(activation):
    features = (RealFeature(name="r", low=-2.0, high=2.0), IntegerFeature(name="n", low=0, high=50), SEX)
    rng = np.random.default_rng(2)
    first = rng.normal(size=(5, 3)) * [1.0, 0.1, 1e-4]
    last = rng.normal(size=(1, 5))
    model = model_of(features, ("sex",), (first, rng.normal(size=5)), (last, [0.0]), activation=activation)
    attack = find_twins(model, seconds=8)
    assert_are_unfair_twins(model, attack, ("float32",))
    assert attack.found.unfair_in == ("float32",)
    with pytest.raises(InputError, match="relu"):
        find_twins(model, arithmetic=("real",))


def test_the_lens_sees_what_the_network_computes():
    for activation in ("relu", "tanh", "sigmoid", "gelu"):
        model = small_model(np.random.default_rng(4), "on the edge", 3)
        model = dataclasses.replace(model, network=Network(model.network.layers, activation))
        lens, values = Lens(model), np.arange(len(model.encoding.codes))
        people = lens.sample(40, np.random.default_rng(1))
        np.testing.assert_allclose(lens.scores(people, values), lens.shipped(people, values), rtol=1e-4, atol=1e-5)
        table = pd.DataFrame([lens.person(point) for point in people])
        assert np.array_equal(
            lens.encode(people).astype(np.float32), model.encoding.encode(table, sensitive=False).free
        )
        assert {tuple(row) for row in lens.from_table(table)} == {tuple(row) for row in people}


def test_the_gradient_is_the_slope_of_the_middle():
    features = (RealFeature(name="a", low=-2.0, high=2.0), RealFeature(name="b", low=-2.0, high=2.0), SEX)
    rng = np.random.default_rng(8)
    layers = ((rng.normal(size=(7, 3)), rng.normal(size=7)), (rng.normal(size=(3, 7)), rng.normal(size=3)))
    model = model_of(features, ("sex",), *layers, activation="gelu")
    lens, values, step = Lens(model), np.arange(2), 1e-6
    people = lens.sample(30, rng)
    look = lens.look(people, values)
    gradient, middle = lens.gradient(people, values, look)
    moved = lens.look(people + np.array([step, 0.0]), values).middle[np.arange(30), look.klass]
    close = np.isclose((moved - middle) / step, gradient[:, 0], atol=1e-4)
    assert close.mean() > 0.9  # not where the best other class changes within the step


# --- many classes, many values, several attributes ---


def test_many_classes_and_many_sensitive_values():
    rng = np.random.default_rng(0)
    country = CategoricalFeature(name="country", categories=tuple(f"k{i}" for i in range(114)))
    features = (IntegerFeature(name="n", low=0, high=1000), RealFeature(name="r", low=0.0, high=1.0), country)
    first = np.concatenate([rng.normal(size=(8, 2)) / [500, 1], rng.normal(size=(8, 114)) * 1e-5], axis=1)
    layers = ((first, rng.normal(size=8)), (rng.normal(size=(4, 8)), rng.normal(size=4)))
    attack = find_twins(model_of(features, ("country",), *layers), seconds=10)
    assert_are_unfair_twins(model_of(features, ("country",), *layers), attack)


def test_one_attribute_changes_where_one_suffices():
    race = CategoricalFeature(name="race", categories=("a", "b", "c"))
    features = (IntegerFeature(name="n", low=0, high=100), SEX, race)
    sex_decides = ([[0.01, 1.0, 0.25, 0.0, -0.25]], [-0.5])
    attack = find_twins(model_of(features, ("sex", "race"), sex_decides), seconds=5)
    first, second = attack.found.people
    assert first["race"] == second["race"] and first["sex"] != second["sex"]


def test_two_attributes_change_where_one_does_not_suffice():
    race = CategoricalFeature(name="race", categories=("a", "b"))
    pairs = (("female", "a"), ("male", "b"))
    model = model_of((SEX, race), ("sex", "race"), ([[1.0, 1.0]], [0.0]), combinations=pairs)
    first, second = find_twins(model, seconds=5).found.people
    assert first["race"] != second["race"] and first["sex"] != second["sex"]


# --- shown simply ---


def census_like(weight: float) -> tuple[FairModel, pd.DataFrame]:
    rng = np.random.default_rng(1)
    jobs = CategoricalFeature(name="job", categories=tuple("abcdef"))
    features = (
        IntegerFeature(name="age", low=18, high=80), RealFeature(name="income", low=0.0, high=100.0), jobs,
        IntegerFeature(name="gain", low=0, high=9999), BooleanFeature(name="owner"), SEX,
    )  # fmt: skip
    first = rng.normal(size=(6, 11)) / np.array([40, 50, *[1] * 6, 5000, 1, 1])
    first[:, -1] *= weight
    last = rng.normal(size=(1, 6))
    model = model_of(features, ("sex",), (first, rng.normal(size=6)), (last, [0.0]))
    table = model.domain.sample(500, seed=3)
    table["income"] = table["income"].round(1)
    scores = Lens(model).look(Lens(model).from_table(table), np.arange(2)).middle
    shifted = Layer(last, np.array([-float(np.median(scores))]))
    return dataclasses.replace(model, network=Network((model.network.layers[0], shifted))), table


@pytest.mark.parametrize("weight", [1e-3, 1e-6])
def test_twins_equal_a_row_of_the_table_in_most_features(weight):
    model, table = census_like(weight)
    attack = find_twins(model, table=table, seconds=8)
    assert_are_unfair_twins(model, attack)
    free = list(model.domain.free_names)
    person = pd.Series(attack.found.people[0])[free]
    assert (table[free] == person).sum(axis=1).max() >= len(free) - 1


def test_rows_of_the_table_are_found_first_and_shown_unchanged():
    model, table = census_like(1.0)
    attack = find_twins(model, table=table, seconds=5)
    assert_are_unfair_twins(model, attack)
    free = list(model.domain.free_names)
    assert attack.how == "rows of the table" and attack.tried <= len(table)
    assert (table[free] == pd.Series(attack.found.people[0])[free]).all(axis=1).any()


def test_real_numbers_are_shown_with_few_digits():
    model, _ = census_like(1e-2)
    income = find_twins(model, seconds=5).found.people[0]["income"]
    assert income == round(income, 4)


def test_rows_outside_the_domain_are_left_out():
    model, table = census_like(1e-2)
    table.loc[:, "age"] = 300
    table.loc[0, "job"] = None
    assert_are_unfair_twins(model, find_twins(model, table=table, seconds=5))


# --- how it is called ---


def test_same_seed_same_twins():
    model, table = census_like(1e-5)
    first, second = (find_twins(model, table=table, seconds=60, seed=4) for _ in range(2))
    assert first.found == second.found and (first.tried, first.how) == (second.tried, second.how)


def test_progress_is_said():
    lines: list[str] = []
    find_twins(fair_but_reading(np.random.default_rng(1)), seconds=0.3, say=lines.append)
    assert lines and "samples of the domain" in lines[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arithmetic": ()}, "one or more of"),
        ({"arithmetic": "real"}, "as a tuple"),
        ({"arithmetic": ("float64",)}, "float64"),
        ({"seconds": 0.0}, "needs some time"),
        ({"table": pd.DataFrame({"ages": [3]})}, "did you mean 'ages'"),
    ],
)
def test_wrong_requests_are_refused(changes, message):
    model, _ = census_like(1.0)
    with pytest.raises(InputError, match=message):
        find_twins(model, **changes)
    bare = model_of((IntegerFeature(name="n", low=0, high=9),), (), ([[1.0]], [0.0]))
    with pytest.raises(InputError, match="nobody has a twin"):
        find_twins(bare)


def test_whole_numbers_of_many_columns_are_made_to_cancel():
    """150 columns: NumPy counts in 64 dimensions at most, and the attack ended in an error."""
    random, count = np.random.default_rng(0), 150
    features = [IntegerFeature(name=f"n{i}", low=0, high=3) for i in range(count)]
    domain = Domain(features=(*features, BooleanFeature(name="s")), sensitive=("s",))
    encoding = Encoding(domain, {feature.name: Scale(centre=0.0, exponent=0) for feature in features})
    weight = random.normal(size=(8, count + 1))
    weight[:, -1] *= 1e-7
    network = Network((Layer(weight, random.normal(size=8)), Layer(random.normal(size=(1, 8)), np.zeros(1))))
    verdict = verify(FairModel(network, encoding), timeout=30)
    assert verdict.answer == "falsified" and "whole numbers that cancel" in verdict.reason


def test_ranges_too_wide_for_whole_numbers_are_searched():
    """Somebody's debt may be 1e308: what cannot be counted is no error."""
    features = (RealFeature(name="debt", low=-5.0, high=1e308), SEX)
    lens = Lens(model_of(features, ("sex",), (np.zeros((1, 2)), np.ones(1))))
    people = lens.changed(np.zeros((200, 1)), np.random.default_rng(0))
    assert ((people >= -5.0) & (people <= 1e308)).all()
