"""The population reading of Algorithm 1: a row meets everybody's randomised value, and γ > 0 preserves fairness."""

from __future__ import annotations

import functools
import itertools
import json
import warnings
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair import FairClassifier, FairnessWarning
from bornfair.core.errors import InputError
from bornfair.models.network.network import Network, forward
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan, split
from bornfair.training.response import Released, Response, released_shares, response_probabilities
from bornfair.training.start import Exact, NearZero, Plain, draw
from samples import bornfair as run
from samples import make_people
from twin_cases import served

FREE = 4
gammas = st.floats(-30, 30)


def codes_of(kind: str, size: int) -> np.ndarray:
    """The centred codes of |S| = size values (composite: of two features)."""
    features = {
        "categorical": (CategoricalFeature(name="a", categories=tuple("abcdefgh"[:size])),),
        "numeric": (IntegerFeature(name="a", low=20, high=19 + size),),
        "composite": (
            CategoricalFeature(name="a", categories=("x", "y")),
            IntegerFeature(name="b", low=0, high=max(size // 2, 2) - 1),
        ),
    }[kind]
    return Domain(features=features, sensitive=tuple(f.name for f in features)).sensitive_space.codes


def skewed_population(codes: np.ndarray, seed: int, rows: int = 60) -> TrainingData:
    """People whose sensitive values have random shares, and labels that follow the sensitive value."""
    random = np.random.default_rng(seed)
    true = random.choice(len(codes), size=rows, p=random.dirichlet(np.full(len(codes), 0.5)))
    free = random.normal(size=(rows, FREE)).astype(np.float32)
    classes = (free[:, 0] + 2 * true + random.normal(size=rows) > len(codes) / 2).astype(int)
    return TrainingData(free, classes, sensitive=codes[true], true_index=true, codes=codes)


EXACT = Exact()


def start_of(data: TrainingData, kind=EXACT, *, activation="relu", seed=0) -> Network:
    return draw(
        kind, free_width=FREE, sensitive_width=data.codes.shape[1], hidden=(6, 3), outputs=1, activation=activation,
        seed=seed,
    )  # fmt: skip


def bytes_of(network: Network) -> bytes:
    return b"".join(array.tobytes() for array in network.tensors().values())


# --- the theorem by itself ---


@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(any),
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    st.data(),
)
def test_codes_centred_at_their_release_have_mean_zero_for_every_gamma(counts, odds, data):
    """In rational arithmetic, with odds = e^γ any number above 0: no rounding, so 0 means 0."""
    size = len(counts)
    codes = data.draw(st.lists(st.integers(-50, 50), min_size=size, max_size=size))
    kept, other = odds / (odds + size - 1), 1 / (odds + size - 1)
    release = [(kept - other) * Fraction(count, sum(counts)) + other for count in counts]
    assert sum(release) == 1
    mean = sum(r * c for r, c in zip(release, codes, strict=True))
    assert mean == (kept - other) * Fraction(sum(n * c for n, c in zip(counts, codes, strict=True)), sum(counts)) + (
        other * sum(codes)
    )
    assert sum(r * (c - mean) for r, c in zip(release, codes, strict=True)) == 0


def printed_gradient(network: Network, data: TrainingData, gamma: float, codes: np.ndarray) -> np.ndarray:
    """The expected gradient of the first layer as Algorithm 1 prints it: for each row i and each person j of the table
    every ŝ that s_j may be released as. It shares nothing with the training code.
    """
    probability = response_probabilities(len(codes), gamma)[data.true_index].mean(axis=0)
    inputs = [np.concatenate([data.free, np.tile(code, (len(data.free), 1))], axis=1) for code in codes]
    copies = [gradient_of_copies(network.to_jax(), x, data.classes, network.activation) for x in inputs]
    return np.asarray(sum(p * np.asarray(copy, np.float64) for copy, p in zip(copies, probability, strict=True)))


@functools.partial(jax.jit, static_argnames="activation")  # compiled once for each width
def gradient_of_copies(parameters, inputs: np.ndarray, classes: np.ndarray, activation: str) -> jax.Array:
    """The gradient of the first layer where every row is released as the same value."""

    def loss(parameters):
        scores = forward(parameters, inputs, activation)[:, 0]
        return jnp.mean(jax.nn.softplus(scores) - scores * classes)

    return jax.grad(loss)(parameters)[0][0]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(["categorical", "numeric", "composite"]), st.integers(2, 7), gammas, st.integers(0, 10**6))
def test_the_printed_gradient_of_sensitive_weights_vanishes_for_every_gamma(kind, size, gamma, seed):
    codes = codes_of(kind, size)
    data = skewed_population(codes, seed)
    network = start_of(data, activation="tanh", seed=seed)
    shares = np.bincount(data.true_index, minlength=len(codes)) / len(data.free)
    mean = released_shares(shares, gamma) @ codes.astype(np.float64)
    gradient = printed_gradient(network, data, gamma, (codes - mean).astype(np.float32))
    assert np.abs(gradient[:, FREE:]).max() <= 1e-6 * max(1.0, float(np.abs(gradient).max()))


def test_plain_centred_codes_vanish_only_at_gamma_zero_or_in_a_balanced_population():
    codes = codes_of("categorical", 2)
    skewed = skewed_population(codes, seed=3)
    assert np.mean(skewed.true_index) != 0.5
    balanced = TrainingData(**(vars(skewed) | {"true_index": np.arange(60) % 2}))
    network = start_of(skewed, activation="tanh")

    def of_sensitive(data, gamma):
        return np.abs(printed_gradient(network, data, gamma, codes)[:, FREE:]).max()

    assert of_sensitive(skewed, 0.0) < 1e-7 and of_sensitive(balanced, 2.0) < 1e-7
    assert of_sensitive(skewed, 2.0) > 1e-4


# --- training ---


@settings(max_examples=6, deadline=None)
@given(
    kind=st.sampled_from(["categorical", "numeric", "composite"]),
    size=st.integers(2, 8),
    gamma=gammas,
    optimiser=st.sampled_from(["sgd", "momentum", "adam", "adamw"]),
    activation=st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_sensitive_weights_stay_bitwise_zero_and_twins_bitwise_equal_for_every_gamma(
    kind, size, gamma, optimiser, activation, weight_decay, seed
):
    data = skewed_population(codes_of(kind, size), seed)
    start = start_of(data, activation=activation, seed=seed)
    plan = Plan(epochs=3, optimiser=optimiser, learning_rate=0.05, weight_decay=weight_decay, batch_size=16, seed=seed)
    trained = train(start, data, Response("population", gamma), plan)
    V = trained.network.sensitive_weights(FREE)
    assert trained.collapsed and V.tobytes() == np.zeros_like(V).tobytes()
    assert bytes_of(trained.network) != bytes_of(start)
    versions = [
        trained.network.scores(np.concatenate([data.free, np.tile(code, (len(data.free), 1))], axis=1))
        for code in data.codes
    ]
    assert all(scores.tobytes() == versions[0].tobytes() for scores in versions)


@settings(max_examples=3, deadline=None)
@given(gammas, st.integers(0, 10**6))
def test_twins_get_the_same_decision_from_onnxruntime_for_every_gamma(gamma, seed):
    people = make_people(120, seed=seed)
    people = people[(people["sex"] == "male") | (people["age"] > 50)]  # more men than women
    X, y = people.drop(columns="grant"), people["grant"]
    clf = FairClassifier(["sex", "race"], response="population", gamma=gamma, epochs=3, hidden=(8,)).fit(X, y)
    assert clf.certificate_.verdict.proof == "structural" and clf.gamma_ == gamma
    anybody = clf.domain_.sample(40, seed=seed)
    values = list(itertools.product(["female", "male"], ["a", "b", "c"]))
    decided = [served(clf.model_, anybody.assign(sex=sex, race=race))[0] for sex, race in values]
    assert all(list(labels) == list(decided[0]) for labels in decided)


@pytest.mark.parametrize("gamma", [-2.0, 0.0, 0.7, 40.0])
def test_from_exact_zeros_gamma_changes_nothing_that_is_learnt(gamma):
    """Said openly: nothing is released, so no budget is spent, and the network is that of the expected response."""
    data, plan = skewed_population(codes_of("categorical", 3), seed=1), Plan(epochs=3, optimiser="adam")
    bare = TrainingData(data.free, data.classes)
    networks = [
        train(start_of(data), rows, response, plan).network
        for rows, response in (
            (data, Response()),
            (data, Response("population", gamma)),
            (bare, Response("population", gamma)),
        )
    ]
    assert len({bytes_of(network) for network in networks}) == 1


@pytest.mark.parametrize("gamma", [-1.0, 0.0, 1.5])
def test_a_step_from_any_start_is_that_of_the_printed_double_loop(gamma):
    codes = codes_of("categorical", 3)
    data = skewed_population(codes, seed=5)
    start = start_of(data, Plain(), activation="tanh")
    shares = np.bincount(data.true_index, minlength=3) / len(data.free)
    centre = (released_shares(shares, gamma) @ codes).astype(np.float32)
    moved = start.layers[0].bias + start.sensitive_weights(FREE) @ centre
    same = Network((type(start.layers[0])(start.layers[0].weight, moved), *start.layers[1:]), "tanh")
    gradient = printed_gradient(same, data, gamma, codes - centre)
    rate = 0.1
    trained = train(start, data, Response("population", gamma), Plan(epochs=1, batch_size=60, learning_rate=rate))
    assert not trained.collapsed
    np.testing.assert_allclose(trained.network.layers[0].weight, start.layers[0].weight - rate * gradient, atol=2e-6)


def test_the_shipped_network_reads_the_plain_codes():
    """Training sees codes around their release; without a step the network is the start again, up to rounding."""
    data = skewed_population(codes_of("numeric", 5), seed=2)
    start = start_of(data, Plain())
    untouched = train(start, data, Response("population", 2.0), Plan(epochs=0)).network
    for before, after in zip(start.layers, untouched.layers, strict=True):
        np.testing.assert_array_equal(before.weight, after.weight)
        np.testing.assert_allclose(before.bias, after.bias, atol=1e-7)


def test_many_draws_approach_the_expectation_and_few_do_not_preserve():
    data = skewed_population(codes_of("categorical", 2), seed=4)
    start, plan = start_of(data, Plain(), activation="tanh"), Plan(epochs=1, batch_size=60, learning_rate=0.5)
    exact = train(start, data, Response("population", 1.0), plan).network.layers[0].weight
    distance = [
        np.abs(train(start, data, Response("population_sampled", 1.0, draws), plan).network.layers[0].weight - exact)
        for draws in (1, 4096)
    ]
    assert 20 * distance[1].max() < distance[0].max() and distance[1].max() < 3e-4
    drifted = train(start_of(data), data, Response("population_sampled"), Plan(epochs=5, learning_rate=0.1))
    assert not drifted.collapsed and drifted.network.sensitive_weights(FREE).any()


def test_a_row_of_weight_two_counts_as_two_people():
    data = skewed_population(codes_of("categorical", 2), seed=6)
    true, response = data.true_index, Response("population", 1.0)
    repeated = Released.of(response, data.codes, np.concatenate([true, true[:20]]), None)
    weighted = Released.of(response, data.codes, true, np.r_[np.full(20, 2.0), np.ones(40)])
    np.testing.assert_allclose(repeated.shares, weighted.shares)
    np.testing.assert_allclose(repeated.codes, weighted.codes)


def test_people_held_out_for_validation_are_not_of_the_population():
    data = skewed_population(codes_of("categorical", 2), seed=6)
    start, plan = start_of(data, NearZero(1e-2)), Plan(epochs=2, validation_fraction=0.5)
    trained, held_out = split(data.classes, plan)

    def after_changing(rows):
        changed = data.true_index.copy()
        changed[rows] = 0
        other = TrainingData(**(vars(data) | {"true_index": changed}))
        return bytes_of(train(start, other, Response("population", 3.0), plan).network)

    assert after_changing([]) == after_changing(held_out) != after_changing(trained)


def test_a_population_must_be_known_where_its_shares_matter():
    data = skewed_population(codes_of("categorical", 2), seed=0)
    unknown = TrainingData(data.free, data.classes, codes=data.codes)
    start = start_of(data, NearZero())
    assert train(start, unknown, Response("population"), Plan(epochs=1)).history
    with pytest.raises(InputError, match="needs each row's true sensitive value, but the table has none"):
        train(start, unknown, Response("population", 1.0), Plan(epochs=1))
    with pytest.raises(InputError, match="shares must be numbers of at least 0 that sum to 1"):
        released_shares(np.array([0.5, 0.6]), 0.0)


# --- as people use it ---


@pytest.fixture(scope="module")
def people() -> tuple[pd.DataFrame, pd.Series]:
    table = make_people(120, seed=3)
    return table.drop(columns="grant"), table["grant"]


QUICK = {"epochs": 4, "hidden": (8,), "validation_fraction": 0.0}


def fit(people, **options) -> FairClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        return FairClassifier(["sex"], **(QUICK | options)).fit(*people)


def test_a_privacy_budget_is_compatible_with_a_certificate(people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = FairClassifier(["sex"], response="population", gamma=1.0, **QUICK).fit(*people)
    assert clf.certificate_.verdict.answer == "verified" and clf.gamma_ == 1.0
    assert clf.certificate_.response["local_privacy"] == "complete: training never read the sensitive values"


SHARES_KNOWN = (
    "no differential privacy: training knew the exact share of each sensitive value among all rows; "
    "whose value is whose it did not read"
)


def test_what_each_response_means_for_privacy_is_said_without_a_word_too_much(people):
    said = {
        (init, response, gamma): fit(people, init=init, response=response, gamma=gamma, draws=2)
        .certificate_.response["local_privacy"]
        for init, response, gamma in [
            ("near_zero", "population", 0.0), ("near_zero", "population", 1.0), ("exact", "population_sampled", 0.5),
            ("exact", "population_sampled", 0.0), ("exact", "sampled", 0.5),
        ]
    }  # fmt: skip
    assert list(said.values()) == [
        "complete: every value of S counts the same, whatever the true one",
        SHARES_KNOWN,
        SHARES_KNOWN,
        "complete: every value of S was drawn equally often, whatever the true ones",
        "local differential privacy of the training steps with ε = 0.5 for each draw, ε = 4 for all 8 draws of a row; "
        "figures measured on rows use the true values",
    ]


def test_held_out_rows_are_judged_with_their_true_values_and_that_is_said(people):
    for response in ("sampled", "population_sampled"):
        told = fit(people, response=response, validation_fraction=0.2).certificate_.response["local_privacy"]
        assert told.endswith("rows held out for validation were judged with their true values")
        assert "complete" not in told


def test_without_a_sensitive_feature_nothing_is_said_of_its_privacy(people):
    X, y = people
    clf = FairClassifier(**QUICK).fit(X, y)
    assert clf.certificate_.response["local_privacy"] == "not applicable: no feature was named as sensitive"


def test_sampled_population_promises_nothing(people):
    with pytest.warns(FairnessWarning, match="sampled response keeps fairness in expectation only"):
        clf = FairClassifier(["sex"], response="population_sampled", gamma=1.0, **QUICK).fit(*people)
    assert clf.certificate_.verdict.answer == "undecided"


def test_partial_fit_begins_with_no_step_and_says_so(people):
    X, y = people
    with pytest.warns(FairnessWarning):
        clf = FairClassifier(["sex"], response="population_sampled", **QUICK).partial_fit(X, y, classes=["no", "yes"])
    assert clf.certificate_.response["local_privacy"].startswith("complete: every value of S was drawn equally often")


def test_one_person_changes_the_release_that_population_sampled_draws_from(people):
    """The reason why no privacy is claimed: the centre of the codes and the distribution are exact shares."""
    codes, response = np.array([[-1.0], [1.0]]), Response("population_sampled", 1.0)
    one = Released.of(response, codes, np.array([0, 0, 0, 0, 1, 1, 1, 1]), None)
    other = Released.of(response, codes, np.array([0, 0, 0, 1, 1, 1, 1, 1]), None)
    assert one.centre[0] == 0.0 and other.centre[0] != 0.0 and not np.array_equal(one.shares, other.shares)


def test_no_output_of_a_drawn_population_with_a_budget_claims_privacy(tmp_path):
    make_people(80, seed=3).to_csv(tmp_path / "people.csv", index=False)
    asked = ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--epochs", "2", "--hidden", "4"]
    asked += ["--response", "population_sampled", "--gamma", "1"]
    shown = run(*asked, "--out", "bundle", cwd=tmp_path)
    machine = run(*asked, "--out", "again", "--json", cwd=tmp_path)
    assert shown.returncode in (1, 3) and machine.returncode == shown.returncode
    report = run("audit", "bundle", "--timeout", "1", "--json", cwd=tmp_path)
    assert report.returncode in (0, 1, 3)
    texts = [shown.stdout, machine.stdout, report.stdout]
    texts += [path.read_text() for path in tmp_path.rglob("*") if path.suffix in (".json", ".html", ".md")]
    said = "no differential privacy: training knew the exact share of each sensitive value"
    assert len(texts) >= 5 and sum(said in " ".join(text.split()) for text in texts) >= 4
    for text in texts:
        assert "local differential" not in text and "ε =" not in text and "drawn 2 times" not in text


def test_the_command_trains_with_a_budget_and_its_page_says_how(tmp_path):
    make_people(80, seed=3).to_csv(tmp_path / "people.csv", index=False)
    asked = ["train", "people.csv", "--target", "grant", "--sensitive", "sex", "--epochs", "2", "--hidden", "4"]
    done = run(*asked, "--response", "population", "--gamma", "1", "--out", "bundle", "--json", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert (found["verdict"], found["proof"], found["gamma"]) == ("verified", "structural", 1.0)
    assert "how often the population releases it (population response, γ = 1)" in page(tmp_path / "bundle")
    drawn = run(*asked, "--response", "population_sampled", "--draws", "3", "--out", "drawn", cwd=tmp_path)
    assert drawn.returncode in (1, 3)
    assert "people drawn at random (sampled population response, γ = 0, 3 draws" in page(tmp_path / "drawn")
    refused = run(*asked, "--response", "populace", cwd=tmp_path)
    assert refused.returncode == 2 and "response='populace' is not known" in refused.stderr


def page(bundle) -> str:
    (written,) = bundle.glob("*.html")
    return written.read_text()
