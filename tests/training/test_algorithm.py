"""Algorithm 1: exact preservation, the two readings of the response, resuming, early stopping."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.core import checkpoint
from bornfair.core.errors import Diverged, InputError
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, IntegerFeature
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan
from bornfair.training.response import Response
from bornfair.training.start import Exact, NearZero, Plain, draw

pytestmark = pytest.mark.slow


def sensitive_codes(kind, size):
    """Centred codes of |S| = size values: one categorical, one numeric, or a composite of two features."""
    if kind == "composite":
        features = (
            CategoricalFeature(name="a", categories=("x", "y")),
            IntegerFeature(name="b", low=0, high=max(size // 2, 2) - 1),
        )
    elif kind == "numeric":
        features = (IntegerFeature(name="a", low=20, high=19 + size),)
    else:
        features = (CategoricalFeature(name="a", categories=tuple("abcdefgh"[:size])),)
    return Domain(features=features, sensitive=tuple(f.name for f in features)).sensitive_space.codes


def problem(*, rows=97, free=5, classes=2, codes=None, seed=0):
    """A table in which the label depends strongly on the sensitive value."""
    random = np.random.default_rng(seed)
    codes = sensitive_codes("categorical", 2) if codes is None else codes
    u = random.normal(size=(rows, free)).astype(np.float32)
    true = random.integers(len(codes), size=rows)
    y = ((u[:, 0] * 2 + 3 * true + random.normal(size=rows)) // 2).astype(int) % classes
    return TrainingData(u, y, sensitive=codes[true], true_index=true, codes=codes)


EXACT = Exact()


def start_for(data, kind=EXACT, *, hidden=(7, 4), classes=2, activation="relu", seed=0):
    return draw(
        kind, free_width=data.free.shape[1], sensitive_width=data.codes.shape[1], hidden=hidden,
        outputs=1 if classes == 2 else classes, activation=activation, seed=seed,
    )  # fmt: skip


def every_version(network, data):
    """Outputs for every person as every value of S: [|S|, rows, outputs]."""
    return np.stack(
        [network.scores(np.concatenate([data.free, np.tile(code, (len(data.free), 1))], axis=1)) for code in data.codes]
    )


@settings(max_examples=8)
@given(
    kind=st.sampled_from(["categorical", "numeric", "composite"]),
    size=st.integers(2, 8),
    classes=st.integers(2, 4),
    optimiser=st.sampled_from(["sgd", "momentum", "adam", "adamw"]),
    activation=st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]),
    learning_rate=st.sampled_from([1e-3, 0.05, 0.5]),
    weight_decay=st.sampled_from([0.0, 0.1]),
    batch_size=st.sampled_from([8, 64, 500]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_training_keeps_sensitive_weights_bitwise_zero_and_twins_bitwise_equal(
    kind, size, classes, optimiser, activation, learning_rate, weight_decay, batch_size, weighted, seed
):
    codes = sensitive_codes(kind, size)
    data = problem(classes=classes, codes=codes, seed=seed)
    if weighted:
        data = TrainingData(**(vars(data) | {"weights": np.random.default_rng(seed).uniform(0, 3, len(data.free))}))
    start = start_for(data, classes=classes, activation=activation, seed=seed)
    plan = Plan(
        epochs=3,
        optimiser=optimiser,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        batch_size=batch_size,
        seed=seed,
    )
    network = train(start, data, Response("expected"), plan).network
    V = network.sensitive_weights(5)
    assert V.tobytes() == np.zeros_like(V).tobytes()
    scores = every_version(network, data)
    assert all(scores[i].tobytes() == scores[0].tobytes() for i in range(len(codes)))
    assert any((a.weight != b.weight).any() for a, b in zip(network.layers, start.layers, strict=True)), (
        "nothing was learnt"
    )


LOSSES = {
    "logistic": lambda z, y: jax.nn.softplus(z) - z * y,
    "squared": lambda z, y: (z - y) ** 2,
    "hinge": lambda z, y: jax.nn.relu(1 - z * (2 * y - 1)),
    "exponential": lambda z, y: jnp.exp(-z * (2 * y - 1)),
    "absolute": lambda z, y: jnp.abs(z - y),
}


@settings(max_examples=10)
@given(
    st.sampled_from(sorted(LOSSES)),
    st.sampled_from(["categorical", "numeric", "composite"]),
    st.integers(2, 8),
    st.integers(0, 10**6),
)
def test_the_expected_gradient_of_sensitive_weights_vanishes_for_any_loss(loss, kind, size, seed):
    """Theorem (docs/theory.md) on its own, without our training code: the literal mean over all |S| copies of each
    row.
    """
    data = problem(codes=sensitive_codes(kind, size), seed=seed, rows=20)
    parameters = start_for(data, activation="tanh", seed=seed).to_jax()
    inputs = np.stack([np.concatenate([data.free, np.tile(c, (20, 1))], axis=1) for c in data.codes])

    def mean_loss(parameters):
        from bornfair.models.network.network import forward

        scores = jax.vmap(lambda x: forward(parameters, x, "tanh")[:, 0])(inputs)
        return jnp.mean(LOSSES[loss](scores, jnp.asarray(data.classes, jnp.float32)))

    gradient = jax.jit(jax.grad(mean_loss))(parameters)[0][0]
    assert np.abs(gradient[:, 5:]).max() <= 1e-6 * max(1.0, float(np.abs(gradient).max()))


@pytest.mark.parametrize(
    "transformation",
    [optax.scale_by_rms(), optax.scale_by_lion(), optax.scale_by_yogi(), optax.trace(0.9, nesterov=True)],
)
def test_any_optimiser_without_memory_of_a_gradient_keeps_fairness(transformation):
    data = problem()
    trained = train(
        start_for(data), data, Response(), Plan(epochs=2, learning_rate=0.01), transformation=transformation
    )
    assert not trained.network.sensitive_weights(5).any()
    assert trained.history[-1].loss < 1.0


@pytest.mark.parametrize(("kind", "size"), [("categorical", 2), ("categorical", 5), ("numeric", 4), ("composite", 6)])
@pytest.mark.parametrize("optimiser", ["sgd", "momentum"])
def test_collapsed_and_unrolled_expectations_agree(kind, size, optimiser):
    data = problem(codes=sensitive_codes(kind, size))
    start = start_for(data)
    plan = Plan(epochs=4, learning_rate=0.02, optimiser=optimiser, batch_size=16)
    collapsed = train(start, data, Response("expected"), plan)
    # A γ too small to change any probability in float64, but not 0: every copy of every row is computed.
    unrolled = train(start, data, Response("expected", 1e-30), plan)
    assert collapsed.collapsed and not unrolled.collapsed
    for a, b in zip(collapsed.network.layers, unrolled.network.layers, strict=True):
        free = slice(None) if a.weight.shape[1] != 5 + data.codes.shape[1] else slice(0, 5)
        np.testing.assert_allclose(a.weight[:, free], b.weight[:, free], atol=2e-4)
    # Without collapsing the codes cancel only up to rounding. (Adam is not compared: it scales even a gradient of
    # 1e-9 up to a full step, which is why training takes the mean code first and never lets rounding in.)
    assert np.abs(unrolled.network.sensitive_weights(5)).max() < 1e-5
    np.testing.assert_allclose([r.loss for r in collapsed.history], [r.loss for r in unrolled.history], rtol=1e-3)


@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
def test_fair_training_is_training_without_the_column(optimiser):
    """Said openly: what is learnt is what one learns without the sensitive column, bit for bit."""
    data = problem()
    start = start_for(data)
    first = start.layers[0]
    without = Network((Layer(first.weight[:, :5], first.bias), *start.layers[1:]), start.activation)
    plan = Plan(epochs=4, optimiser=optimiser, batch_size=16, learning_rate=0.01)
    fair = train(start, data, Response(), plan).network
    unaware = train(without, TrainingData(data.free, data.classes), Response("none"), plan).network
    assert fair.layers[0].weight[:, :5].tobytes() == unaware.layers[0].weight.tobytes()
    assert all(
        a.weight.tobytes() == b.weight.tobytes() for a, b in zip(fair.layers[1:], unaware.layers[1:], strict=True)
    )


def test_sampled_response_drifts_away_from_zero_and_twins_differ():
    data = problem(rows=400)
    trained = train(start_for(data), data, Response("sampled"), Plan(epochs=20, learning_rate=0.05, batch_size=32))
    assert np.abs(trained.network.sensitive_weights(5)).max() > 1e-3
    scores = every_version(trained.network, data)
    assert (scores[0] != scores[1]).any()


def test_more_draws_drift_less():
    data = problem(rows=400)
    plan = Plan(epochs=20, learning_rate=0.05, batch_size=32)
    few, many = (train(start_for(data), data, Response("sampled", 0.0, draws), plan).network for draws in (1, 64))
    assert np.abs(many.sensitive_weights(5)).max() < 0.5 * np.abs(few.sensitive_weights(5)).max()


def test_true_values_get_through_as_gamma_grows():
    """At large γ the response is the truth, so the result approaches plain training."""
    data = problem(rows=400)
    plan = Plan(epochs=20, learning_rate=0.05, batch_size=32)
    start = start_for(data)

    def gap(gamma):
        scores = every_version(train(start, data, Response("expected", gamma), plan).network, data)
        return float(np.mean(np.abs(scores[0] - scores[1])))

    assert gap(1e-30) < 1e-4 < gap(1.0) < gap(30.0)
    erm = every_version(train(start, data, Response("none"), plan).network, data)
    assert gap(30.0) == pytest.approx(float(np.mean(np.abs(erm[0] - erm[1]))), rel=0.05)


def test_a_near_zero_start_stays_unfair_however_small_it_is():
    data = problem(rows=400)
    trained = train(start_for(data, NearZero(scale=1e-6)), data, Response(), Plan(epochs=30, learning_rate=0.1))
    scores = every_version(trained.network, data)
    assert not trained.collapsed and (scores[0] != scores[1]).any()


def test_every_row_counts_the_same_in_a_last_batch_of_one():
    """65 rows in batches of 64 leave one over; it must not get the weight of a whole batch."""
    data = problem(rows=65)
    start = start_for(data)
    step = train(start, data, Response(), Plan(epochs=1, batch_size=65, learning_rate=1e-3)).network
    split = train(start, data, Response(), Plan(epochs=1, batch_size=64, learning_rate=1e-3 * 64 / 65)).network
    for a, b, c in zip(start.layers, step.layers, split.layers, strict=True):
        np.testing.assert_allclose(b.weight - a.weight, c.weight - a.weight, atol=2e-6)


def test_weight_zero_is_absence_and_weight_two_is_presence_twice():
    data = problem(rows=64)
    twice = TrainingData(np.repeat(data.free[:32], 2, axis=0), np.repeat(data.classes[:32], 2))
    weighted = TrainingData(data.free, data.classes, weights=np.r_[np.full(32, 2.0), np.zeros(32)])
    start = start_for(data)
    plan = Plan(epochs=5, batch_size=64, learning_rate=0.05)
    a, b = (train(start, d, Response(), plan).network for d in (twice, weighted))
    for first, second in zip(a.layers, b.layers, strict=True):
        np.testing.assert_allclose(first.weight, second.weight, atol=1e-5)


def bytes_of(network: Network) -> bytes:
    return b"".join(array.tobytes() for array in network.tensors().values())


@pytest.mark.parametrize("response", [Response(), Response("sampled", 0.5, 2), Response("none")])
def test_same_seed_same_bytes_other_seed_other_bytes(response):
    data = problem()
    start = start_for(data)
    runs = [train(start, data, response, Plan(epochs=3, seed=seed)) for seed in (5, 5, 6)]
    assert bytes_of(runs[0].network) == bytes_of(runs[1].network) != bytes_of(runs[2].network)


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_after", [1, 4, 7])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw"])
@pytest.mark.parametrize("response", [Response(), Response("sampled", 0.0, 2)])
def test_killed_and_resumed_training_ends_with_the_same_bytes(tmp_path, killed_after, optimiser, response):
    data = problem()
    start = start_for(data)
    plan = Plan(epochs=9, optimiser=optimiser, schedule="cosine", validation_fraction=0.2, patience=6, seed=3)
    whole = train(start, data, response, plan)

    def kill(epoch):
        if epoch.record.epoch == killed_after:
            raise Killed

    path = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        train(start, data, response, plan, callbacks=(kill,), checkpoint_path=path, resume=True)
    seen = []
    resumed = train(
        start,
        data,
        response,
        plan,
        callbacks=(lambda e: seen.append(e.record.epoch),),
        checkpoint_path=path,
        resume=True,
    )
    assert bytes_of(resumed.network) == bytes_of(whole.network)
    assert seen[0] == killed_after  # its checkpoint was not written yet, so that epoch is done again
    assert [r.loss for r in resumed.history] == [r.loss for r in whole.history]


def test_resuming_with_other_data_or_settings_is_refused(tmp_path):
    data = problem()
    start = start_for(data)
    path = tmp_path / "run.safetensors"
    train(start, data, Response(), Plan(epochs=2), checkpoint_path=path)
    for other, plan in ((problem(seed=1), Plan(epochs=2)), (data, Plan(epochs=3))):
        with pytest.raises(InputError, match="belongs to a run with another model, other data or other settings"):
            train(start, other, Response(), plan, checkpoint_path=path, resume=True)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="is not a bornfair checkpoint"):
        train(start, data, Response(), Plan(epochs=2), checkpoint_path=path, resume=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, facts: tensors.pop("parameters.0"),
        lambda tensors, facts: tensors.update({"best.0": tensors["best.0"][:1]}),
        lambda tensors, facts: tensors.update({"parameters.0": tensors["parameters.0"].astype(np.float64)}),
        lambda tensors, facts: facts.pop("history"),
        lambda tensors, facts: facts.update(history=[{"epoch": -5}]),
        lambda tensors, facts: facts["history"][0].update(epoch=-(10**9)),
        lambda tensors, facts: facts.update(history=3),
        lambda tensors, facts: facts["history"][1].update(loss=[1.0]),
        lambda tensors, facts: facts["history"][1].update(loss=10**400),
        lambda tensors, facts: facts.update(best_loss="x"),
        lambda tensors, facts: facts.update(best_epoch=None),
        lambda tensors, facts: facts.clear(),
    ],
)
def test_a_checkpoint_that_was_tampered_with_is_refused_in_one_sentence(tmp_path, monkeypatch, change):
    data = problem()
    start, path = start_for(data), tmp_path / "run.safetensors"
    train(start, data, Response(), Plan(epochs=2), checkpoint_path=path)
    read = checkpoint.read

    def tampered(content, place, *, expected):
        saved = read(content, place, expected=expected)
        change(saved.tensors, saved.facts)
        return saved

    monkeypatch.setattr(checkpoint, "read", tampered)
    with pytest.raises(InputError, match=r"the checkpoint does not fit this run .*; delete it to start"):
        train(start, data, Response(), Plan(epochs=2), checkpoint_path=path, resume=True)


def test_early_stopping_keeps_the_best_network():
    data = problem(rows=60)
    plan = Plan(epochs=400, optimiser="adam", learning_rate=0.03, validation_fraction=0.4, patience=15, batch_size=16)
    trained = train(start_for(data, hidden=(16, 16)), data, Response(), plan)
    losses = [record.validation_loss for record in trained.history]
    assert len(losses) < 400 and trained.best_epoch == int(np.argmin(losses)) + 1 == len(losses) - 15
    again = train(
        start_for(data, hidden=(16, 16)),
        data,
        Response(),
        Plan(**(vars(plan) | {"epochs": trained.best_epoch, "patience": None})),
    )
    assert bytes_of(again.network) == bytes_of(trained.network)


def test_a_callback_sees_every_epoch_and_can_stop():
    data = problem()
    networks = []

    def watch(epoch):
        networks.append(epoch.network())
        return epoch.record.epoch == 3

    trained = train(start_for(data), data, Response(), Plan(epochs=10), callbacks=(watch,))
    assert len(trained.history) == len(networks) == 3
    assert bytes_of(networks[-1]) == bytes_of(trained.network) != bytes_of(networks[0])
    assert not networks[1].sensitive_weights(5).any()


def test_it_learns_what_can_be_learnt():
    random = np.random.default_rng(0)
    u = random.normal(size=(600, 4)).astype(np.float32)
    data = TrainingData(u, (u[:, 0] * u[:, 1] > 0).astype(int), codes=sensitive_codes("categorical", 2))
    plan = Plan(epochs=150, optimiser="adam", learning_rate=0.01, batch_size=32)
    network = train(start_for(data, hidden=(16, 16)), data, Response(), plan).network
    decided = decisions(network.scores(np.concatenate([u, np.zeros((600, 1), np.float32)], axis=1)))
    assert np.mean(decided == data.classes) > 0.95


def test_divergence_is_an_error_not_a_model():
    data = problem()
    with pytest.raises(Diverged, match=r"training diverged .*lower the learning rate"):
        train(start_for(data, activation="gelu"), data, Response(), Plan(epochs=50, learning_rate=1e12, momentum=0.9))


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"epochs": -1}, "epochs must be a whole number of at least 0, found -1"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, found 0"),
        ({"learning_rate": 0.0}, "learning_rate must be a number above 0, found 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, found nan"),
        ({"optimiser": "magic"}, "optimiser='magic' is not known; use one of 'sgd', 'momentum', 'adam', 'adamw'"),
        ({"validation_fraction": 1.5}, "validation_fraction must be a number of at least 0 and at most 0.9, found 1.5"),
        ({"patience": 3}, r"patience \(early stopping\) needs validation_fraction above 0"),
        ({"seed": -3}, "seed must be a whole number of at least 0, found -3"),
    ],
)
def test_bad_plans_are_explained(settings_, message):
    with pytest.raises(InputError, match=message):
        Plan(**settings_)


def test_plain_training_needs_the_sensitive_columns():
    data = problem()
    bare = TrainingData(data.free, data.classes, codes=data.codes)
    with pytest.raises(InputError, match="response='none' trains on the sensitive columns, but the table has none"):
        train(start_for(data, Plain()), bare, Response("none"), Plan(epochs=1))


def test_negative_weights_are_refused():
    data = problem()
    with pytest.raises(InputError, match="sample weights must be one finite number of at least 0 for each row"):
        train(start_for(data), TrainingData(data.free, data.classes, weights=-np.ones(97)), Response(), Plan(epochs=1))
