"""U-DIF: the box of similar people, and its certificates against all that a search of small networks can find."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from bornfair.core.errors import InputError
from bornfair.models.network.activations import sigmoid
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores, fractions
from bornfair.models.network.network import Layer, Network
from bornfair_bench.baselines import udif_certificates
from bornfair_bench.baselines.udif import UDIF
from bornfair_bench.baselines.udif_certificates import (
    ascent_value,
    attained_changes,
    attained_value,
    box_logits,
    box_widths,
    certify_distribution,
    dual_bound,
    proven_bound,
)
from bornfair_bench.baselines.udif_training import Similarity, grown, probability_width, row_losses, similarity_weights
from samples import make_people

pytestmark = pytest.mark.slow

QUICK = {"hidden": (8, 4), "epochs": 30, "batch_size": 32, "learning_rate": 0.01}
CODES = np.array([[-1.0, 0.5], [0.0, -1.0], [1.0, 0.5]], np.float32)


def small_case(seed: int, people: int = 6, columns: int = 3) -> tuple[Network, np.ndarray, Similarity]:
    """A network of 3 + 2 neurons, a few people, and a box that is 0 wide in one column."""
    random = np.random.default_rng([seed, 5])
    widths = (columns + CODES.shape[1], 3, 2, 1)
    layers = [Layer(random.normal(size=(b, a)), random.normal(size=b)) for a, b in itertools.pairwise(widths)]
    free = random.normal(size=(people, columns)).astype(np.float32)
    unit = random.uniform(0.2, 2.0, columns)
    unit[-1] *= columns == 1
    low, high = CODES.min(axis=0).astype(np.float64), CODES.max(axis=0).astype(np.float64)
    return Network(tuple(layers)), free, Similarity(unit, np.ones(columns), 0.5 * (low + high), 0.5 * (high - low))


def inside(random: np.random.Generator, free: np.ndarray, unit: np.ndarray, radius: float) -> np.ndarray:
    """A point of each person's box, often a corner."""
    part = np.where(
        random.random(free.shape) < 0.5, random.choice([-1.0, 1.0], free.shape), random.uniform(-1, 1, free.shape)
    )
    return free + (1 - 1e-9) * radius * unit * part


def scores(network: Network, free: np.ndarray, code: np.ndarray) -> np.ndarray:
    values = np.concatenate([free, np.tile(code, (len(free), 1))], axis=1).astype(np.float64)
    for i, layer in enumerate(network.layers):
        values = (np.maximum(values, 0) if i else values) @ layer.weight.T.astype(np.float64) + layer.bias
    return values[:, 0]


def columns(people):
    return people.drop(columns="grant"), people["grant"]


# --- who is similar ---


def test_columns_weigh_what_they_tell_about_the_sensitive_one():
    random = np.random.default_rng(0)
    coded = random.choice([-1.0, 1.0], (200, 1)).astype(np.float32)
    free = np.concatenate([random.normal(size=(200, 4)) + coded * [0.0, 0.3, 1.0, 3.0], np.full((200, 1), 7.0)], axis=1)
    weights = similarity_weights(free.astype(np.float32), coded)
    expected = np.append(np.abs([np.corrcoef(free[:, j], coded[:, 0])[0, 1] for j in range(4)]), 0.0)
    assert np.allclose(weights, expected / np.median(expected), rtol=1e-4) and np.median(weights) == 1.0
    assert weights[4] == 0 and weights[3] == weights.max()
    assert not similarity_weights(free.astype(np.float32), np.zeros((200, 0), np.float32)).any()


def test_the_box_is_measured_by_ranges_and_holds_every_code():
    free, coded = np.array([[0, 1], [1, 0], [0, 1], [1, 1]], np.float32), CODES[[0, 2, 0, 2]]
    box = Similarity.learnt(free, coded, CODES, np.array([1.0, 10.0]))
    assert np.allclose(box.unit, similarity_weights(free, coded) * [1.0, 10.0])
    assert (np.abs(CODES - box.code_centre) <= box.code_radius).all()


# --- given people ---


@pytest.mark.parametrize("seed", range(12))
def test_certified_people_are_decided_alike_everywhere_in_their_box(seed):
    network, free, box = small_case(seed)
    random = np.random.default_rng(seed)
    for radius in (0.0, 0.1, 0.5):
        low, high = box_logits(network, free, box, radius)
        certified = (low > 0) | (high <= 0)
        widths = box_widths(network, free, box, radius)
        for _ in range(12):
            points = inside(random, free.astype(np.float64), box.unit, radius)
            versions = [fractions(np.concatenate([points, np.tile(code, (len(free), 1))], axis=1)) for code in CODES]
            exact = np.stack([exact_scores(network, version)[:, 0] for version in versions])
            assert (exact >= low).all() and (exact <= high).all()
            decided = np.stack([exact_decisions(network, version) for version in versions])
            assert (decided == (low > 0))[:, certified].all()
            probabilities = sigmoid(exact.astype(np.float64))
            assert (probabilities.max(axis=0) - probabilities.min(axis=0) <= widths + 1e-12).all()


def test_the_bounds_of_training_are_those_of_the_certificate():
    network, free, box = small_case(3)
    for radius in (0.0, 0.2):
        parts = (jnp.asarray(part, jnp.float32) for part in (box.code_centre, radius * box.unit, box.code_radius))
        trained = np.asarray(jax.jit(probability_width)(network.to_jax(), jnp.asarray(free), *parts))
        proven = box_widths(network, free, box, radius)
        assert np.allclose(trained, proven, atol=1e-4) and (proven >= trained - 1e-5).all()


# --- a shifted distribution ---


@given(
    widths=st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4).map(sorted), min_size=3, max_size=3),
    gamma=st.floats(0.05, 2.0),
)
@settings(max_examples=60)
def test_no_way_to_share_out_the_shift_beats_the_dual_bound(widths, gamma):
    """Between two grid points a width may be anything up to that of the upper one: the worst steps are tried out."""
    grid, held = np.array([0.0, 0.5, 1.0, 2.0]), np.array(widths).T
    bound = dual_bound(grid, held, gamma)
    begins = np.array([0.0, 0.0, 0.5, 1.0, 2.0])  # just above these, each width (and 1 beyond the grid) may begin
    steps = np.concatenate([held, np.ones((1, 3))])
    for chosen in itertools.product(range(5), repeat=3):
        if np.mean(begins[list(chosen)]) <= gamma:
            assert np.mean(steps[list(chosen), range(3)]) <= bound


def test_the_dual_bound_is_sharp_where_widths_grow_ever_more_slowly():
    gamma, rates = 0.5, np.array([1.0, 2.0, 5.0])
    grid = np.linspace(0, 20, 4001)
    bound = dual_bound(grid, 1 - np.exp(-grid[:, None] * rates), gamma)
    shares = np.array(list(itertools.product(np.linspace(0, 1.5, 151), repeat=2)))
    shares = np.column_stack([shares, 3 * gamma - shares.sum(axis=1)])
    best = np.mean(1 - np.exp(-shares[(shares >= 0).all(axis=1)] * rates), axis=1).max()
    assert best <= bound < best + 0.005


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_found_lies_below_what_is_proven(seed):
    network, free, box = small_case(seed)
    random = np.random.default_rng(seed)
    epsilon, gamma = 0.05, 0.1
    proven = proven_bound(network, free, box, epsilon=epsilon, gamma=gamma)
    assert ascent_value(network, free, box, epsilon=epsilon, gamma=gamma) <= proven + 1e-5
    attained = attained_value(network, free, CODES, box, epsilon=epsilon, gamma=gamma)
    assert 0 <= attained <= proven
    for _ in range(300):
        shift = random.dirichlet(np.full(len(free), 0.4)) * gamma * len(free)
        middle = inside(random, free.astype(np.float64), shift[:, None] * box.unit, 1.0)
        ends = [inside(random, middle, box.unit, epsilon) for _ in range(2)]
        versions = [sigmoid(np.stack([scores(network, end, code) for code in CODES])) for end in ends]
        assert np.mean(np.abs(versions[0].max(axis=0) - versions[1].min(axis=0))) <= proven
    bound = [proven_bound(network, free, box, epsilon=e, gamma=g) for e, g in ((0.0, 0.0), (0.05, 0.0), (0.05, 0.1))]
    assert bound[0] <= bound[1] <= bound[2] == proven
    assert bound[1] == pytest.approx(np.mean(box_widths(network, free, box, 0.05)), abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_one_column_searched_from_end_to_end(seed):
    network, free, box = small_case(seed, people=4, columns=1)
    epsilon, phi = 0.2, 0.3
    moves = np.linspace(-1, 1, 81)
    true = []
    for person in free.astype(np.float64):
        middles = person + phi * box.unit * moves[:, None]
        similar = (middles + epsilon * box.unit * moves).reshape(-1, 1)
        values = sigmoid(np.stack([scores(network, similar, code) for code in CODES])).reshape(3, 81, 81)
        true.append((values.max(axis=(0, 2)) - values.min(axis=(0, 2))).max())
    found = attained_changes(network, free, CODES, box, epsilon=epsilon, phi=phi)
    assert (found <= np.array(true) + 0.01).all()  # the grid of this search may miss a little
    assert found.mean() > 0.5 * np.mean(true)
    assert np.mean(true) <= proven_bound(network, free, box, epsilon=epsilon, gamma=phi)


def test_the_ascent_of_the_paper_may_stop_short_of_the_maximum():
    """Why it is not called a bound: one person whose width is flat at first, and steep far away."""
    layers = (Layer(np.array([[1.0, 0.0, 0.0]]), np.array([-0.9])), Layer(np.array([[40.0]]), np.array([0.0])))
    network, free = Network(layers), np.zeros((10, 1), np.float32)
    box = Similarity(np.ones(1), np.ones(1), np.zeros(2), np.zeros(2))
    ascended = ascent_value(network, free, box, epsilon=0.0, gamma=0.2)
    moved = box_widths(network, free, box, 1.0)  # two of ten people moved by 1 is 0.2 on average
    assert ascended < 0.01 < 0.09 < 0.2 * moved[0] <= proven_bound(network, free, box, epsilon=0.0, gamma=0.2)


def test_all_three_numbers_come_together(people, monkeypatch):
    monkeypatch.setattr(udif_certificates, "ASCENT_RATES", (1.0,))
    X, y = columns(people)
    model = UDIF(["sex"], mode="local", **QUICK).fit(X, y)
    found = model.certify_distribution(X, most=40, gamma=0.05)
    assert found.people == 40 and found.gamma == 0.05 and found.epsilon == model.epsilon
    assert 0 < found.attained <= found.proven <= 1 and found.by_ascent <= found.proven + 1e-5
    assert found.to_json()["proven"] == found.proven
    still = certify_distribution(
        model.model_.network, model._encoded(X)[0][:40], model.model_.encoding.codes, model.similarity_,
        epsilon=0.02, gamma=0.0,
    )  # fmt: skip
    assert still.proven == pytest.approx(model.certify(X).numbers[:40].mean(), abs=1e-8)
    with pytest.raises(InputError, match=r"gamma must be a number of at least 0, found -1"):
        model.certify_distribution(X, gamma=-1)


# --- training ---


def test_training_narrows_the_bounds_and_keeps_what_was_learnt(people):
    X, y = columns(people)
    plain, local, shifted = (
        UDIF(["sex"], **QUICK | {"alpha": alpha, "mode": mode}).fit(X, y)
        for alpha, mode in ((0.0, "local"), (0.001, "local"), (0.001, "distributional"))
    )
    width = [model.certify(X, epsilon=0.01).number for model in (plain, local, shifted)]
    assert max(width[1:]) < 0.7 * width[0]
    assert min(model.empirical_fairness(X) for model in (local, shifted)) > plain.empirical_fairness(X)
    assert min(model.score(X, y) for model in (local, shifted)) > 0.6  # half of the people are granted
    assert not np.array_equal(*(model.model_.network.layers[0].weight for model in (local, shifted)))
    certified = local.certify(X)
    assert certified.number == pytest.approx(certified.numbers.mean()) and "whatever the sensitive" in certified.meaning
    assert local.certify(X, epsilon=0.0).share >= certified.share
    assert not (local.certify(X, epsilon=0.0).certified & ~local._same_decision(X)).any()


def test_the_weight_of_the_penalty_does_not_depend_on_the_batch():
    network, free, box = small_case(1, people=8)
    names = ("unit", "ranges", "code_centre", "code_radius")
    knobs = {name: jnp.asarray(getattr(box, name), jnp.float32) for name in names}
    table = {"free": jnp.asarray(free), "codes": jnp.asarray(np.resize(CODES, (8, 2))), "labels": jnp.arange(8.0) % 2}
    knobs |= {"alpha": 0.3, "epsilon": 0.1, "gamma": 0.05, "codes": 1.0}
    losses = jax.jit(row_losses("distributional"))
    together = losses(network.to_jax(), table, knobs)
    parts = [{name: array[i : i + 4] for name, array in table.items()} for i in (0, 4)]
    halves = [losses(network.to_jax(), part, knobs) for part in parts]
    assert np.allclose(np.asarray(together), np.concatenate(halves), rtol=1e-5)
    entropy = np.asarray(losses(network.to_jax(), table, knobs | {"alpha": 0.0}))
    # The bounds are nowhere narrower than without the move of up to γ.
    widths = box_widths(network, free, box, 0.1)
    assert (np.asarray(together) >= 0.7 * entropy + 0.3 * 512 * widths - 0.02).all()


def test_boxes_grow_over_the_first_half():
    assert [grown(epoch, 10) for epoch in range(10)] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert grown(0, 1) == 1.0


def test_a_penalty_that_wins_is_told():
    X, y = columns(make_people(240, seed=7))
    with pytest.warns(ConvergenceWarning, match=r"UDIF learnt to decide the same for all 240 .*; lower alpha"):
        UDIF(["sex"], **QUICK | {"alpha": 1.0, "mode": "local"}).fit(X, y)


def test_the_same_seed_gives_the_same_bytes(people):
    X, y = columns(people)
    one, again, other = (UDIF(["sex"], **QUICK | {"epochs": 6}, random_state=seed).fit(X, y) for seed in (1, 1, 2))
    pairs = zip(one.model_.network.layers, again.model_.network.layers, strict=True)
    assert all(np.array_equal(a.weight, b.weight) and np.array_equal(a.bias, b.bias) for a, b in pairs)
    assert not np.array_equal(one.model_.network.layers[0].weight, other.model_.network.layers[0].weight)


# --- as a classifier ---


def test_what_cannot_be_used_is_named(people):
    X, y = columns(people)
    for wrong, message in (
        ({"mode": "global"}, r"mode='global' is not known; use one of 'distributional', 'local'"),
        ({"alpha": 2.0}, r"alpha must be a number of at least 0 and at most 1, found 2\.0"),
        ({"epsilon": -1.0}, r"epsilon must be a number of at least 0, found -1\.0"),
        ({"gamma": float("nan")}, r"gamma must be a number of at least 0, found nan"),
    ):
        with pytest.raises(InputError, match=message):
            UDIF(["sex"], **wrong).fit(X, y)
    fitted = UDIF(["sex"], epochs=0).fit(X, y)
    with pytest.raises(InputError, match=r"epsilon must be a number of at least 0, found -0\.5"):
        fitted.certify(X, epsilon=-0.5)


# Without any epoch there is nothing to compile; whether it learns is tested above.
@parametrize_with_checks(
    [UDIF([0], hidden=(4,), epochs=0)],
    expected_failed_checks=lambda _: {"check_classifiers_train": "no epoch, nothing learnt"},
)
def test_follows_the_scikit_learn_rules(estimator, check):
    check(estimator)
