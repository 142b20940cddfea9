"""LCIFR: fairer than plain training, and nobody is certified whom a change of the sensitive value could hurt."""

import itertools
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from bornfair.core.errors import Diverged, InputError
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores, fractions
from bornfair.models.network.network import Layer, Network, forward
from bornfair.training.loops import classification_loss
from bornfair.training.start import default_layers
from bornfair_bench.baselines import ERM, LCIFR
from bornfair_bench.baselines.lcifr import _batches, _ConsumerLoss, _ProducerLoss, joined

pytestmark = pytest.mark.slow

QUICK = {"hidden": (6, 4), "epochs": 3, "batch_size": 64, "validation_fraction": 0.0, "random_state": 5}


def columns(people):
    return people.drop(columns="grant"), people["grant"]


def tensors(classifier):
    return b"".join(array.tobytes() for array in classifier.model_.network.tensors().values())


def biased_people(count, seed):
    """Who is granted depends on income and skill, and a little on sex and race."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "income": random.normal(30, 12, count).round(2),
            "skill": random.integers(0, 10, count),
            "sex": random.choice(["female", "male"], count),
            "race": random.choice(["a", "b", "c"], count),
        }
    )
    merit = table["income"] / 12 + table["skill"] / 3 + 0.5 * (table["sex"] == "male") + 0.3 * (table["race"] == "a")
    table["grant"] = np.where(merit + random.normal(0, 0.4, count) > 4.3, "yes", "no")
    return table


def versions_of(classifier, X):
    """Every row as every value of S, as network input: [rows, |S|, width]."""
    encoding = classifier.model_.encoding
    free = encoding.encode(X).free
    return np.stack([np.concatenate([free, np.tile(c, (len(X), 1))], axis=1) for c in encoding.codes], axis=1)


# --- what it is for ---


def test_it_is_fairer_than_plain_training_at_a_small_loss_of_accuracy():
    X, y = columns(biased_people(3000, seed=0))
    Xt, yt = columns(biased_people(2000, seed=1))
    sensitive = ["sex", "race"]
    settings = {"hidden": (20, 20), "epochs": 25, "batch_size": 64, "validation_fraction": 0.0}
    erm, lcifr = (method(sensitive, **settings).fit(X, y) for method in (ERM, LCIFR))
    assert erm.empirical_fairness(Xt) < 0.9, "the label depends on who one is"
    assert lcifr.empirical_fairness(Xt) > 0.995
    assert lcifr.score(Xt, yt) > erm.score(Xt, yt) - 0.04
    certified = lcifr.certify(Xt)
    assert 0.98 < certified.share <= lcifr.empirical_fairness(Xt)
    assert certified.number == certified.numbers.max() and np.median(certified.numbers) < lcifr.robust_radius
    assert lcifr.producer_history_[-1].loss < lcifr.producer_history_[0].loss
    assert len(lcifr.producer_history_) == len(lcifr.consumer_history_) == 25


# --- the certificate ---


@pytest.mark.parametrize(
    "options", [{"hidden": (5, 3)}, {"hidden": (4,)}, {"hidden": (6, 5, 3), "classifier_hidden": (4, 3)}]
)
def test_whoever_is_certified_keeps_the_decision_under_every_value_in_exact_arithmetic(people, options):
    X, y = columns(people.head(60))
    certified_ever = refused_ever = 0
    for seed in range(12):  # without training: every seed is another network, some with much at stake
        lcifr = LCIFR(["sex", "race"], epochs=0, random_state=seed, **options).fit(X, y)
        versions = versions_of(lcifr, X)
        rows, size, width = versions.shape
        exact = exact_decisions(lcifr.model_.network, fractions(versions.reshape(-1, width))).reshape(rows, size)
        shipped = lcifr.model_.network.decide(versions.reshape(-1, width)).reshape(rows, size)
        certified = lcifr.certify(X)
        for decided in (exact, shipped):
            assert (decided[certified.certified] == decided[certified.certified, :1]).all()
        assert certified.share <= lcifr.empirical_fairness(X)
        certified_ever += certified.certified.sum()
        refused_ever += (~certified.certified).sum()
    assert certified_ever > 20 and refused_ever > 20, "both answers were put to the test"


def test_radius_and_margin_are_those_of_exact_arithmetic(people):
    X, y = columns(people.head(40))
    for seed in range(6):
        lcifr = LCIFR(["sex"], hidden=(5, 3), epochs=0, random_state=seed).fit(X, y)
        versions = versions_of(lcifr, X)
        codes = exact_scores(lcifr.encoder_, fractions(versions.reshape(-1, versions.shape[-1]))).reshape(40, 2, 3)
        own = codes[np.arange(40), lcifr.model_.encoding.sensitive_index(lcifr.model_.encoding.encode(X))]
        radius = np.abs(codes - own[:, None, :]).max(axis=(1, 2))
        weight, bias = (
            fractions(lcifr.classifier_.layers[0].weight[0]),
            Fraction(float(lcifr.classifier_.layers[0].bias[0])),
        )
        margin = np.abs(own @ weight + bias) - radius * np.abs(weight).sum()
        certified = lcifr.certify(X)
        assert (fractions(certified.numbers) >= radius).all(), "never too small"
        assert (fractions(certified.numbers) <= radius + Fraction(1, 10**12)).all(), "and not too large"
        assert not certified.certified[margin <= 0].any()
        assert certified.certified[margin > Fraction(1, 10**4)].all(), "what rounding takes off is small"


def test_the_joined_network_is_the_two_up_to_one_rounding():
    random = np.random.default_rng(2)
    encoder, classifier = (Network(default_layers(widths, random)) for widths in ((4, 5, 3), (3, 2, 1)))
    together = joined(encoder, classifier)
    assert together.widths == (4, 5, 2, 1)
    people = random.normal(size=(20, 4)).astype(np.float32)
    apart = exact_scores(classifier, exact_scores(encoder, fractions(people)))
    assert np.abs(exact_scores(together, fractions(people)) - apart).max() < Fraction(1, 2**20)


def test_what_joining_changed_is_taken_off(people):
    X, y = columns(people)
    lcifr = LCIFR(["sex"], **QUICK).fit(X, y)
    assert lcifr.certify(X).share > 0.5
    last = lcifr.model_.network.layers[-1]
    other = Network((*lcifr.model_.network.layers[:-1], Layer(last.weight, last.bias + 1e6)))
    object.__setattr__(lcifr.model_, "network", other)
    assert lcifr.certify(X).share == 0.0, "the two parts say nothing about a network that is not theirs"


def test_nobody_is_certified_where_numbers_may_overflow(people):
    X, y = columns(people)
    lcifr = LCIFR(["sex"], epochs=0, hidden=[4] * 12).fit(X, y)
    assert lcifr.certify(X).share > 0
    for scale in (1e5, 1e25):  # one after the other: beyond float32 alone, and beyond all bounds
        lcifr.encoder_ = Network(tuple(Layer(layer.weight * scale, layer.bias) for layer in lcifr.encoder_.layers))
        object.__setattr__(lcifr.model_, "network", joined(lcifr.encoder_, lcifr.classifier_))
        certified = lcifr.certify(X)
        assert certified.share == 0.0
    assert certified.number == np.inf


def test_people_are_certified_alike_whoever_else_is_in_the_table(people, monkeypatch):
    X, y = columns(people)
    lcifr = LCIFR(["race"], **QUICK).fit(X, y)
    together = lcifr.certify(X)
    monkeypatch.setattr("bornfair_bench.baselines.lcifr.TOGETHER", 28)
    apart = lcifr.certify(X)
    assert np.array_equal(together.certified, apart.certified) and np.allclose(together.numbers, apart.numbers)


# --- the two losses ---


def test_the_consumer_of_a_linear_classifier_meets_the_worst_corner():
    random = np.random.default_rng(4)
    rows = {"code": jnp.asarray(random.normal(size=(9, 3)), jnp.float32), "labels": jnp.asarray(np.arange(9) % 2)}
    head = Network(default_layers((3, 1), random)).to_jax()
    corners = [jnp.asarray(corner) * 0.1 for corner in itertools.product((-1.0, 1.0), repeat=3)]
    losses = [classification_loss(forward(head, rows["code"] + corner, "relu"), rows["labels"]) for corner in corners]
    worst = jnp.mean(_ConsumerLoss("relu", 0.1)(head, rows, {}))
    assert worst == pytest.approx(float(jnp.mean(jnp.max(jnp.stack(losses), axis=0))), rel=1e-6)


def test_the_consumer_of_a_deeper_classifier_is_attacked():
    random = np.random.default_rng(4)
    rows = {"code": jnp.asarray(random.normal(size=(50, 3)), jnp.float32), "labels": jnp.asarray(np.arange(50) % 2)}
    head = Network(default_layers((3, 8, 1), random)).to_jax()
    calm, attacked = (jnp.mean(_ConsumerLoss("relu", radius)(head, rows, {})) for radius in (0.0, 0.3))
    assert attacked > calm + 0.01


def test_the_producer_adds_the_weighted_distance_to_a_twin():
    random = np.random.default_rng(6)
    free = jnp.asarray(random.normal(size=(400, 2)), jnp.float32)
    codes = jnp.asarray([[-1.0], [1.0]])
    rows = {"free": free, "codes": codes[np.arange(400) % 2], "labels": jnp.asarray(np.arange(400) % 2)}
    rows["twin"] = jnp.asarray(random.integers(0, 2, 400))
    encoder, helper = (Network(default_layers(widths, random)).to_jax() for widths in ((3, 4, 2), (2, 1)))

    def loss(**options):
        kind = _ProducerLoss("relu", **{"weight": 1.0, "delta": 0.0, "attack_steps": 0} | options)
        return float(jnp.mean(kind((encoder, helper), rows, {"all_codes": codes})))

    twins = [forward(encoder, jnp.concatenate([free, jnp.tile(code, (400, 1))], axis=1), "relu") for code in codes]
    distance = jnp.max(jnp.abs(twins[0] - twins[1]), axis=1)
    fairness = loss() - loss(weight=0.0)
    moved = jnp.where(rows["twin"] == np.arange(400) % 2, 0.0, distance)
    assert fairness == pytest.approx(float(jnp.mean(moved)), rel=1e-4), "who was drawn as themselves pays nothing"
    assert loss(weight=3.0) - loss(weight=0.0) == pytest.approx(3 * fairness, rel=1e-4)
    assert loss(delta=float(distance.max())) == pytest.approx(loss(weight=0.0))
    near = 0.5 * float(distance.min())
    assert loss(delta=near, attack_steps=25) > loss(delta=near), "who was drawn as no twin is moved away"
    assert loss(attack_steps=25) == loss(), "with delta 0 the attack stands still"


def test_training_with_the_attack_that_stands_still_learns_the_same(people):
    X, y = columns(people)
    still = LCIFR(["race"], **QUICK).fit(X, y)
    attacked = LCIFR(["race"], attack_steps=5, **QUICK).fit(X, y)
    for one, other in zip(still.model_.network.layers, attacked.model_.network.layers, strict=True):
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-4, atol=1e-6)


# --- as a classifier ---


def test_the_same_seed_gives_the_same_bytes(people):
    X, y = columns(people)
    first, again, other = (LCIFR(["sex"], **QUICK | {"random_state": seed}).fit(X, y) for seed in (5, 5, 6))
    assert tensors(first) == tensors(again) != tensors(other)


def test_it_is_a_scikit_learn_classifier(people):
    X, y = columns(people)
    classifier = LCIFR(["sex"], **QUICK)
    assert clone(classifier).get_params() == classifier.get_params()
    assert len(cross_val_score(classifier, X, y, cv=2)) == 2
    fitted = clone(classifier).fit(X, y)
    assert set(fitted.predict(X)) <= {"yes", "no"} and fitted.model_.network.widths[1:] == (6, 1)
    assert fitted.verify(timeout=5).answer in ("falsified", "undecided", "verified")


def test_the_rate_falls_only_where_rows_are_held_out(people):
    X, y = columns(people)
    options = QUICK | {"epochs": 8, "learning_rate": 0.3}
    nobody = [LCIFR(["sex"], patience=patience, **options).fit(X, y) for patience in (1, 100)]
    some = [LCIFR(["sex"], patience=p, **options | {"validation_fraction": 0.2}).fit(X, y) for p in (1, 100)]
    assert tensors(nobody[0]) == tensors(nobody[1]) and tensors(some[0]) != tensors(some[1])
    assert nobody[0].producer_history_[0].validation_loss is None is not some[0].producer_history_[0].validation_loss


def test_rows_that_fill_no_batch_sit_out():
    assert _batches(np.arange(10), 4).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert _batches(np.arange(3), 4).tolist() == [[0, 1, 2]]


def test_what_cannot_be_used_is_named(people):
    X, y = columns(people)
    for options, message in (
        ({"hidden": ()}, "hidden is empty, but the encoder's last width is that of the code"),
        ({"classifier_hidden": (0,)}, "hidden widths must be whole numbers above 0, found"),
        ({"weight": -1}, "weight must be a number of at least 0, found -1"),
        ({"delta": np.nan}, "delta must be a number of at least 0, found nan"),
        ({"attack_steps": 2.5}, "attack_steps must be a whole number of at least 0, found 2.5"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a number of at least 0 and at most 0.9, found 1.0"),
        ({"patience": 0}, "patience must be a whole number of at least 1, found 0"),
        ({"random_state": -1}, "random_state must be a whole number of at least 0, found -1"),
    ):
        with pytest.raises(InputError, match=message):
            LCIFR(["sex"], **QUICK | options).fit(X, y)
    with pytest.raises(InputError, match="LCIFR: Only binary classification is supported"):
        LCIFR(["sex"], **QUICK).fit(X, people["race"])
    with pytest.raises(Diverged, match=r"LCIFR's producer diverged in epoch 1: the loss is .*lower the learning rate"):
        LCIFR(["sex"], **QUICK | {"learning_rate": 1e30}).fit(X, y)
