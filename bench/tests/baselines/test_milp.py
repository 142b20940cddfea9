"""MILP: what it punishes, and its certified changes against people counted out one by one."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from bornfair.core.errors import InputError
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores, fractions
from bornfair.models.network.network import Layer, Network
from bornfair.proof.bundle import FairModel
from bornfair.verification.milp import program
from bornfair.verification.milp.probability import change_of_probability, largest_probability_change, pieces
from bornfair.verification.milp.program import Claim
from bornfair.verification.replay import exact_input
from bornfair_bench.baselines.milp import MILP, number_reach, outcome_change, relaxed_slopes
from bornfair_bench.baselines.penalised import Pace
from brute_force import random_model
from samples import make_people

pytestmark = pytest.mark.slow

QUICK = {"hidden": (8, 4), "epochs": 30, "batch_size": 32, "learning_rate": 0.01}
ROUNDING = 1e-12  # of the oracle, whose sigmoid is floating point

SMALL = [seed for seed in range(60) if random_model(seed).network.outputs == 1]


def true_change(model: FairModel) -> float:
    """The largest change of anybody's probability, everybody counted out."""
    features, versions = model.domain.free_features, range(len(model.encoding.codes))
    changes = []
    for levels in itertools.product(*(feature.levels() for feature in features)):
        person = dict(zip((feature.name for feature in features), levels, strict=True))
        inputs = np.stack([exact_input(model.encoding, person, value) for value in versions])
        probabilities = sigmoid(exact_scores(model.network, inputs)[:, 0].astype(np.float64))
        changes.append(probabilities.max() - probabilities.min())
    return max(changes)


def columns(people):
    return people.drop(columns="grant"), people["grant"]


# --- δ*, over everybody ---


@pytest.mark.parametrize("seed", SMALL[:14])
def test_the_largest_change_is_the_one_that_counting_out_finds(seed):
    model = random_model(seed)
    truth = true_change(model)
    found = largest_probability_change(model, timeout=2.0)
    assert found.low <= truth + ROUNDING and truth <= found.high + ROUNDING
    if found.reason == "found and proven meet":
        assert found.high - truth < 0.003
    else:  # numbers too large or too far apart for a floating-point solver: sound, not sharp
        assert "time ran out" in found.reason or found.high < 1e-9
    if found.twins is not None:
        first, second = found.twins
        assert {name for name in first if first[name] != second[name]} <= set(model.domain.sensitive)


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_tame_models_are_solved_to_the_end(seed):
    assert largest_probability_change(random_model(seed), timeout=60.0).reason == "found and proven meet"


@pytest.mark.parametrize("seed", SMALL[14:22])
def test_no_time_and_a_lying_solver_leave_the_bound_sound(seed, monkeypatch):
    def no_change_at_all(program, cost, seconds, seed, judge, cutoff):
        return Claim(0.0, 0.0, ended=True)

    monkeypatch.setattr(program, "ask_highs", no_change_at_all)
    model = random_model(seed)
    for timeout in (0.01, 0.5):
        assert largest_probability_change(model, timeout=timeout).high >= true_change(model) - ROUNDING


def test_a_model_that_ignores_the_sensitive_values_changes_by_nothing():
    model = random_model(0)
    first, *rest = model.network.layers
    weight = first.weight.copy()
    weight[:, model.encoding.free_width :] = 0
    fair = FairModel(Network((Layer(weight, first.bias), *rest)), model.encoding)
    found = largest_probability_change(fair, timeout=5.0)
    assert found.high == 0.0 and found.twins is None and found.to_json()["high"] == 0.0


# --- the parts the proof rests on ---


@given(
    ends=st.tuples(st.floats(-300, 300), st.floats(-300, 300)).map(sorted),
    exponent=st.integers(-6, 6),
    above=st.booleans(),
)
@settings(max_examples=60)
def test_the_pieces_never_cross_the_sigmoid(ends, exponent, above):
    knots, values = pieces(*ends, exponent, above=above)
    assert knots[0] <= ends[0] and ends[1] <= knots[-1] and (np.diff(knots) > 0).all()
    at = np.concatenate([np.linspace(a, b, 60) for a, b in itertools.pairwise(knots)])
    gap = np.interp(at, knots, values) - sigmoid(np.ldexp(at, exponent))
    assert (gap >= 0).all() if above else (gap <= 0).all()
    assert np.abs(gap).max() < 0.003
    for numbers, step in ((knots, knots[1:] - knots[:-1]), (values, values[1:] - values[:-1])):
        exact = fractions(numbers)
        assert (fractions(step) == exact[1:] - exact[:-1]).all()


@given(gap=st.floats(0, 50), ends=st.tuples(st.floats(-20, 20), st.floats(-20, 20)).map(sorted))
@settings(max_examples=60)
def test_a_change_of_the_logit_allows_so_much_change_of_the_probability(gap, ends):
    bound = change_of_probability(gap, *ends)
    logits = np.linspace(*ends, 200)
    changed = np.abs(sigmoid(logits[:, None]) - sigmoid(logits))
    assert changed[np.abs(logits[:, None] - logits) <= gap].max() <= bound
    assert bound <= min(1.0, gap / 4 + 1e-9)


# --- given people ---


def test_certified_people_are_decided_alike_in_exact_arithmetic():
    table = make_people(60, seed=3)
    X, y = columns(table)
    model = MILP(["sex", "race"], **QUICK | {"epochs": 6}).fit(X, y)
    certified = model.certify(X)
    free = model.model_.encoding.encode(X, sensitive=False).free
    versions = [np.concatenate([free, np.tile(code, (len(X), 1))], axis=1) for code in model.model_.encoding.codes]
    network = model.model_.network
    decided = np.stack([exact_decisions(network, fractions(version)) for version in versions])
    same = (decided == decided[0]).all(axis=0)
    assert certified.numbers is not None and 0 < certified.share < 1
    assert not (certified.certified & ~same).any() and certified.share >= same.mean() - 0.02
    exact = sigmoid(np.stack([exact_scores(network, fractions(v))[:, 0] for v in versions]).astype(np.float64))
    change = exact.max(axis=0) - exact.min(axis=0)
    assert (certified.numbers >= change - ROUNDING).all() and (certified.numbers - change).max() < 1e-4
    assert certified.number == certified.numbers.max() and "in real arithmetic and in float32" in certified.meaning


def test_with_epsilon_the_certificate_covers_the_box(people):
    X, y = columns(people)
    model = MILP(["sex"], epsilon=0.02, **QUICK).fit(X, y)
    narrow = clone(model).set_params(epsilon=0.0).fit(X, y)
    certified = model.certify(X)
    assert 0 < certified.share < 1 and "within 0.02 of their range" in certified.meaning
    encoding, network = model.model_.encoding, model.model_.network
    reach = number_reach(encoding, 0.02)
    assert (reach > 0).sum() == 2 and number_reach(encoding, 0.0).sum() == 0  # age and income
    free = encoding.encode(X, sensitive=False).free[certified.certified][:40].astype(np.float64)
    random = np.random.default_rng(0)
    decided = []
    for _ in range(4):
        moved = free + reach * random.choice([-1.0, 0.3, 1.0], free.shape) * (1 - 1e-12)
        for code in encoding.codes:
            decided.append(
                exact_decisions(network, fractions(np.concatenate([moved, np.tile(code, (len(free), 1))], 1)))
            )
    assert (np.stack(decided) == decided[0]).all()
    assert narrow.certify(X).share >= certified.share


# --- training ---


def test_the_penalty_looks_at_the_twin_who_is_furthest_away():
    own, similar = jnp.array([0.0, 2.0, -3.0]), jnp.array([[0.0, -2.0, 1.0], [2.0, 2.5, 0.0], [-3.0, -1.0, -9.0]])
    found = np.asarray(outcome_change(own, similar, "probability"))
    assert np.allclose(found, [0.5 - sigmoid(-2.0), sigmoid(2.0) - 0.5, sigmoid(-1.0) - sigmoid(-3.0)], atol=1e-6)
    # As released: ReLU for the sigmoid, and the largest logit only, so that a fall and what is below 0 are free.
    assert np.allclose(np.asarray(outcome_change(own, similar, "as_coded")), [1.0, 0.5, 0.0])


def test_the_relaxation_points_to_the_corner_that_is_worst():
    random = np.random.default_rng(4)
    reach = np.array([0.3, 0.0, 0.2, 0.1])
    corners = reach * np.array(list(itertools.product((-1.0, 1.0), repeat=4)))
    hits = 0
    for _ in range(50):
        layers = [
            Layer(random.normal(size=(5, 6)), random.normal(size=5)),
            Layer(random.normal(size=(1, 5)), np.zeros(1)),
        ]
        network = Network(tuple(layers))
        person = random.normal(size=6)
        first = jnp.asarray((layers[0].weight @ person + layers[0].bias)[None], jnp.float32)
        slopes = np.asarray(jax.jit(relaxed_slopes)(network.to_jax(), first, jnp.asarray(reach, jnp.float32)))[0]
        moves = np.concatenate([corners, [reach * np.sign(slopes)]])
        scores = network.scores(person + np.pad(moves, ((0, 0), (0, 2))))[:, 0]
        hits += scores[-1] >= scores[:-1].max() - 1e-4
    assert hits >= 40  # it is a relaxation: nearly always, not always


def test_training_makes_twins_more_alike_and_keeps_what_was_learnt(people):
    X, y = columns(people)
    plain = MILP(["sex"], **QUICK | {"balance": 1.0}).fit(X, y)
    fair = MILP(["sex"], **QUICK).fit(X, y)
    boxed = MILP(["sex"], epsilon=0.02, **QUICK).fit(X, y)
    coded = MILP(["sex"], penalty="as_coded", **QUICK).fit(X, y)
    change = {model: model.certify(X).numbers.mean() for model in (plain, fair, boxed, coded)}
    assert change[fair] < 0.3 * change[plain] and change[boxed] < change[plain] and change[coded] < change[plain]
    assert change[fair] < change[coded]
    assert fair.empirical_fairness(X) > plain.empirical_fairness(X)
    assert min(fair.score(X, y), boxed.score(X, y)) > 0.6  # half of the people are granted


def test_the_first_half_is_plain_training(people):
    X, y = columns(people)
    one, other = (MILP(["sex"], **QUICK | {"epochs": 1}, balance=balance).fit(X, y) for balance in (0.1, 0.9))
    assert all(np.array_equal(a.weight, b.weight) for a, b in layers_of(one, other))
    one, other = (MILP(["sex"], **QUICK | {"epochs": 2}, balance=balance).fit(X, y) for balance in (0.1, 0.9))
    assert not all(np.array_equal(a.weight, b.weight) for a, b in layers_of(one, other))


def test_the_same_seed_gives_the_same_bytes(people):
    X, y = columns(people)
    one, again, other = (MILP(["sex"], **QUICK | {"epochs": 4}, random_state=seed).fit(X, y) for seed in (1, 1, 2))
    assert all(np.array_equal(a.weight, b.weight) and np.array_equal(a.bias, b.bias) for a, b in layers_of(one, again))
    assert not np.array_equal(one.model_.network.layers[0].weight, other.model_.network.layers[0].weight)


def layers_of(one, other):
    return list(zip(one.model_.network.layers, other.model_.network.layers, strict=True))


def test_small_tables_get_more_epochs_in_smaller_batches():
    assert Pace.of("auto", "auto", 1e-3, rows=800, seed=0) == Pace(80, 32, 1e-3, 0)
    assert Pace.of(3, 7, 1e-3, rows=800, seed=0).epochs == 3


# --- as a classifier ---


def test_what_cannot_be_used_is_named(people):
    X, y = columns(people)
    for wrong, message in (
        ({"balance": 1.5}, r"balance must be a number of at least 0 and at most 1, found 1\.5"),
        ({"penalty": "relu"}, r"penalty='relu' is not known; use one of 'probability', 'as_coded'"),
        ({"epsilon": -0.1}, r"epsilon must be a number of at least 0 and at most 1, found -0\.1"),
        ({"epochs": "many"}, r"epochs must be a whole number of at least 0, found 'many'"),
        ({"batch_size": 0}, r"batch_size must be a whole number of at least 1, found 0"),
    ):
        with pytest.raises(InputError, match=message):
            MILP(["sex"], **wrong).fit(X, y)
    many = X.assign(age=np.arange(len(X)), income=np.arange(len(X)))
    with pytest.raises(InputError, match=r"MILP tries every sensitive value .*57,600; at most 2,000 are possible"):
        MILP(["age", "income"]).fit(many, y)
    with pytest.raises(InputError, match="no feature is sensitive"):
        MILP(epochs=0).fit(X, y).largest_change()


def test_it_certifies_what_it_has_learnt():
    X, y = columns(make_people(80, seed=1)[["age", "job", "sex", "grant"]])
    model = MILP(["sex"], **QUICK | {"hidden": (4,), "balance": 0.9}).fit(X, y)
    found = model.largest_change(timeout=60.0)  # ends long before
    assert found.low <= found.high <= 1.0 and found.high >= model.certify(X).numbers.max() - 1e-4
    assert found.high == pytest.approx(true_change(model.model_), abs=0.003)


# Without any epoch there is nothing to compile; whether it learns is tested above.
@parametrize_with_checks(
    [MILP([0], hidden=(4,), epochs=0)],
    expected_failed_checks=lambda _: {"check_classifiers_train": "no epoch, nothing learnt"},
)
def test_follows_the_scikit_learn_rules(estimator, check):
    check(estimator)
