"""The tables of theory §4 to §6: only exact zeros with an exact expectation survive attacks at the boundary."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import exact_scores
from bornfair.models.network.lens import Lens
from bornfair.models.network.model import Model, scores_under_every_code
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.training.epochs import Plan
from bornfair_bench.experiments import boundary_attacks, preservation
from bornfair_bench.experiments.boundary_attacks import Found, Twins, attack_integers, attack_reals
from bornfair_bench.experiments.printout import lines

pytestmark = pytest.mark.slow

SMALL = {"hidden": (8,), "plan": Plan(epochs=20, learning_rate=0.1, seed=3)}


@pytest.fixture(scope="module")
def census() -> preservation.Census:
    return preservation.Census.prepare(3, training_rows=6000)


def measured(name: str, census: preservation.Census) -> preservation.Attacked:
    return preservation.measure(name, census, people=20, crossings=40, **SMALL)


@pytest.fixture(scope="module")
def outcomes(census) -> dict[str, preservation.Attacked]:
    return {name: measured(name, census) for name in preservation.TABLES["starts"]}


# --- the table, small ---


def test_exact_start_with_expected_response_withstands_both_attacks(census, outcomes):
    fair = outcomes["exact/expected"]
    assert fair.accuracy > 0.82 and fair.real_tried == 40 and fair.integer_tried == 20
    assert (fair.real_suspected, fair.real_unfair, fair.integer_unfair, fair.twins) == (0, 0, 0, ())
    assert fair.flip_stable == 1.0 and fair.max_logit_change == 0.0
    network = preservation.train_row("exact/expected", census, SMALL["plan"], hidden=SMALL["hidden"])
    assert not network.sensitive_weights(census.encoding.free_width).view(np.uint32).any()


@pytest.mark.parametrize("name", ["near_zero/expected", "bernoulli/expected"])
def test_near_zero_starts_pass_the_test_set_and_fail_at_every_crossing(outcomes, name):
    row = outcomes[name]
    assert row.accuracy > 0.82 and row.flip_stable > 0.999
    assert row.real_tried == 40 and row.real_unfair >= 39 and row.real_suspected >= row.real_unfair


@pytest.mark.parametrize("name", ["plain/none", "plain/expected", "near_zero/sampled", "exact/sampled"])
def test_other_rows_fail_both_attacks(outcomes, name):
    row = outcomes[name]
    assert row.max_logit_change > 0 and row.max_sensitive_weight > 0
    assert row.real_unfair >= 39 and row.integer_unfair > 0


def test_sampling_unbalances_even_exact_zeros(outcomes):
    assert outcomes["exact/sampled"].max_logit_change > 10 * outcomes["near_zero/expected"].max_logit_change
    assert outcomes["exact/sampled"].flip_stable < 1


@pytest.mark.parametrize("name", [name for name in preservation.TABLES["starts"] if name != "exact/expected"])
def test_shown_twins_differ_in_sex_alone_and_really_get_different_decisions(census, outcomes, name):
    network = preservation.train_row(name, census, SMALL["plan"], hidden=SMALL["hidden"])
    assert outcomes[name].real_twins is not None
    for twins in outcomes[name].twins:
        check_twins(twins, network, census.encoding)


def test_every_confirmed_pair_can_be_replayed(census):
    network = preservation.train_row("bernoulli/expected", census, SMALL["plan"], hidden=SMALL["hidden"])
    found = attack_reals(network, census.encoding, census.test, most=15, seed=8)
    assert found.tried == found.unfair == 15
    for twins in found.twins:
        check_twins(twins, network, census.encoding)


def check_twins(twins: Twins, network: Network, encoding: Encoding) -> None:
    domain = encoding.domain
    assert [set(values) for values in twins.sensitive] == [{"sex"}, {"sex"}]
    assert twins.sensitive[0] != twins.sensitive[1] and twins.decisions[0] != twins.decisions[1]
    for feature in domain.free_features:
        value = twins.person[feature.name]
        assert value in feature.categories if feature.kind == "categorical" else feature.low <= value <= feature.high
    rows = twins.table(domain)
    assert rows.drop(columns="sex").nunique().eq(1).all()
    if twins.arithmetic == "exact":
        decided = [replayed(network, encoding, row) for row in rows.to_dict("records")]
    else:
        encoded = encoding.encode(rows)
        decided = network.decide(np.concatenate([encoded.free, encoded.sensitive], axis=1)).tolist()
    classes = domain.label.classes if domain.label else (0, 1)
    assert tuple(classes[d] for d in decided) == twins.decisions


def replayed(network: Network, encoding: Encoding, row: dict) -> int:
    """The decision in exact fractions, by code that shares nothing with the attack."""
    inputs: list[Fraction] = []
    for feature in encoding.domain.free_features:
        if feature.kind == "categorical":
            inputs += [Fraction(row[feature.name] == category) for category in feature.categories]
        else:
            scale = encoding.scales[feature.name]
            inputs.append((Fraction(row[feature.name]) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent)
    space = encoding.domain.sensitive_space
    inputs += [Fraction(float(code)) for code in space.codes[space.values.index((row["sex"],))]]
    return oracle.exact_decision(oracle.exact_scores(network, inputs))


def test_same_seed_gives_the_same_outcome(census, outcomes):
    assert measured("near_zero/sampled", census) == outcomes["near_zero/sampled"]


def test_run_measures_the_rows_asked_for():
    said: list[str] = []
    names = ["exact/expected", "plain/none"]
    found = preservation.run(epochs=1, people=3, crossings=5, rows=names, say=said.append)
    assert [outcome.name for outcome in found] == names and len(said) == 2
    assert found[0].epochs == 1 and found[0].integer_tried == 3 and found[0].max_sensitive_weight == 0.0
    with pytest.raises(InputError, match="row='exact' is not known"):
        preservation.run(rows=["exact"])


def test_every_row_stands_in_a_table_and_every_table_can_be_asked_for():
    assert set(preservation.ROWS) == {name for names in preservation.TABLES.values() for name in names}
    with pytest.raises(InputError, match="table='all' is not known; use one of 'starts', 'authors', 'draws'"):
        preservation.run(table="all")


def test_the_authors_start_passes_the_test_set_and_fails_at_every_crossing(census):
    for name in preservation.TABLES["authors"]:
        row = measured(name, census)
        assert row.flip_stable > 0.999 and row.max_sensitive_weight > 0
        assert row.real_tried == 40 and row.real_unfair >= 39


def test_many_draws_move_the_sensitive_weights_less_than_one_and_are_as_unfair_at_every_crossing(census, outcomes):
    one, *many = outcomes["exact/sampled"], *(measured(f"exact/sampled_{draws}", census) for draws in (16, 64))
    assert all(0 < row.max_sensitive_weight < one.max_sensitive_weight / 2 for row in many)
    assert all(row.real_unfair >= 39 for row in many)


def test_a_privacy_budget_leaves_exact_zeros_to_the_population_response_alone(census):
    own, population, drawn = (measured(name, census) for name in preservation.TABLES["population"])
    assert (population.max_logit_change, population.real_unfair, population.integer_unfair) == (0.0, 0, 0)
    assert own.real_unfair >= 39 and drawn.real_unfair >= 39


def test_several_seeds_and_the_verifier_have_columns_of_their_own():
    choices = {"epochs": 1, "people": 3, "crossings": 5, "rows": ["exact/expected"], "seeds": 2, "verify": 20.0}
    (header, *rows) = preservation.report(say=lambda _: None, **choices).tables[0].lines
    assert header[0] == "seed" and header[-2:] == ("verifier", "s")
    assert [(row[0], row[1], row[-2]) for row in rows] == [
        ("0", "exactly 0", "verified"),
        ("1", "exactly 0", "verified"),
    ]


def test_outcomes_become_text_and_json(outcomes):
    header, *rows = lines(preservation.COLUMNS, outcomes.values())
    assert header == ("first-layer start", "response", "accuracy %", "stable %", "max change", "real", "integer", "s")
    assert len(rows) == 7 and {len(row) for row in rows} == {len(header)}
    assert rows[-1][:2] == ("exactly 0", "expected") and rows[-1][4:7] == ("0", "0/40", "0/20")
    stored = json.loads(json.dumps([outcome.to_json() for outcome in outcomes.values()]))
    assert stored[0]["real_twins"]["person"]["relationship"] and stored[-1]["real_twins"] is None


# --- networks whose answer is known ---


def tiny_encoding(high: int = 100) -> Encoding:
    domain = Domain(
        features=(
            IntegerFeature(name="points", low=0, high=high),
            CategoricalFeature(name="job", categories=("a", "b")),
            CategoricalFeature(name="sex", categories=("f", "m")),
        ),
        sensitive=("sex",),
    )
    return Encoding(domain, {"points": Scale(centre=50.0, exponent=2)})


def threshold(sensitive: float, sure: float = 0.0) -> Network:
    """logit = points − 50.5 + sensitive·(±1) + sure·[job b], as relu(z) − relu(−z)."""
    row = np.array([4.0, 0.0, sure, sensitive])
    return Network((Layer(np.stack([row, -row]), np.array([-0.5, 0.5])), Layer(np.array([[1.0, -1.0]]), np.zeros(1))))


def tiny_people() -> pd.DataFrame:
    return pd.DataFrame({"points": [0, 30, 50, 51, 100] * 4, "job": ["a", "b"] * 10, "sex": ["f"] * 7 + ["m"] * 13})


def both(network: Network) -> tuple[Found, Found]:
    encoding, people = tiny_encoding(), tiny_people()
    return (
        attack_reals(network, encoding, people, most=100, seed=0),
        attack_integers(network, encoding, people, column="points"),
    )


def test_a_network_that_reads_the_sensitive_value_loudly_is_unfair_everywhere():
    reals, integers = both(threshold(1.0))
    assert 15 <= reals.tried == reals.unfair and (integers.tried, integers.unfair) == (20, 20)
    assert all(49.5 < twins.person["points"] <= 51.5 for twins in reals.twins)
    assert {twins.person["points"] for twins in integers.twins} <= {50, 51}
    assert all(twins.sensitive[0] == {"sex": "f"} and twins.decisions == (0, 1) for twins in integers.twins)


def test_a_whisper_between_whole_numbers_is_found_among_reals_only():
    reals, integers = both(threshold(2.0**-40))
    assert 15 <= reals.tried == reals.unfair and integers.unfair == 0


def test_a_whisper_that_float32_rounds_away_is_not_counted_against_the_shipped_network():
    row = np.array([[4.0, 0.0, 0.0, 2.0**-40]])  # logit = relu(points − 49 ± 2^-40) − 1: in float32 the same for both
    reals, integers = both(Network((Layer(row, np.ones(1)), Layer(np.ones((1, 1)), -np.ones(1)))))
    assert 15 <= reals.tried == reals.unfair and integers.unfair == 0


def test_a_network_that_ignores_the_sensitive_value_withstands():
    reals, integers = both(threshold(0.0))
    assert reals.tried >= 15 and (reals.suspected, reals.unfair, integers.unfair) == (0, 0, 0)


def test_people_far_from_any_boundary_are_neither_crossings_nor_unfair():
    reals, integers = both(threshold(1.0, sure=1000.0))
    assert reals.tried == reals.unfair <= 10 and {twins.person["job"] for twins in reals.twins} == {"a"}
    assert integers.unfair == 10 and {twins.person["job"] for twins in integers.twins} == {"a"}


def test_a_constant_network_offers_no_crossing():
    flat = Network((Layer(np.zeros((2, 4)), np.ones(2)), Layer(np.zeros((1, 2)), np.ones(1))))
    assert both(flat) == (Found(0, 0, ()), Found(20, 0, ()))


def test_suspects_are_dropped_when_exact_arithmetic_disagrees():
    lens, people = Lens(Model(threshold(0.25), tiny_encoding())), tiny_people()
    suspects = boundary_attacks._Suspects(lens, people)
    suspects.look(np.full((20, 2), [50.5, 0.0]))
    assert len(boundary_attacks._confirmed(suspects)) == 20
    suspects.points[:12, 0] = 60.0  # float64 is made to claim what is not so
    assert suspects.differ.all() and len(boundary_attacks._confirmed(suspects)) == 8


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_integer_attack_finds_whom_trying_every_number_finds(seed):
    rng = np.random.default_rng(seed)
    encoding, people = tiny_encoding(high=300), tiny_people().iloc[5:9].reset_index(drop=True)
    widths = [(6, 4), (5, 6), (1, 5)]
    arrays = [(rng.normal(size=shape), rng.normal(size=shape[0])) for shape in widths]
    arrays[0][0][:, 3] *= 10.0 ** rng.uniform(-9, 0)
    network = Network(tuple(Layer(weight, bias) for weight, bias in arrays))
    everyone = people.loc[people.index.repeat(301)].assign(points=list(range(301)) * 4)
    free = encoding.encode(everyone, sensitive=False).free
    scores = scores_under_every_code(network, free, encoding.codes)[..., 0]
    unfair = ((scores[0] > 0) != (scores[1] > 0)).reshape(4, 301)
    found = attack_integers(network, encoding, people, column="points")
    assert found.unfair == unfair.any(axis=1).sum()
    for twins, numbers in zip(found.twins, unfair[unfair.any(axis=1)], strict=True):
        assert numbers[twins.person["points"]]


def test_integer_attack_agrees_with_every_capital_gain_on_census(census):
    network = preservation.train_row("bernoulli/expected", census, SMALL["plan"], hidden=SMALL["hidden"])
    people = census.test.iloc[:6].reset_index(drop=True)
    sweep = boundary_attacks._Sweep(Lens(Model(network, census.encoding)), people, "capital-gain")
    pairs = np.array([[person, gain] for person in range(6) for gain in range(100_000)])
    brute = {person for person, _ in sweep.decided_differently(pairs)}
    assert attack_integers(network, census.encoding, people, column="capital-gain").unfair == len(brute)


def test_integer_attack_needs_a_whole_number_column():
    for column in ("job", "sex", "absent"):
        with pytest.raises(InputError, match=f"'{column}' is not a whole-number feature"):
            attack_integers(threshold(1.0), tiny_encoding(), tiny_people(), column=column)


# --- exact arithmetic ---


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(oracle.STYLES[:4]))
def test_whole_number_arithmetic_equals_fractions(seed, style):
    rng = np.random.default_rng(seed)
    relation = oracle.small_relation(rng)
    network = oracle.small_network(rng, relation, style)
    rows = [[Fraction(float(v)) for v in rng.normal(size=network.widths[0])] for _ in range(3)]
    expected = [oracle.exact_scores(network, row)[0] for row in rows]
    assert exact_scores(network, np.array(rows, dtype=object))[:, 0].tolist() == expected


def test_attacks_refuse_networks_they_cannot_judge():
    layers = threshold(1.0).layers
    for network in (Network(layers, "tanh"), Network(layers[:1])):
        with pytest.raises(InputError, match="relu network with one output"):
            both(network)
