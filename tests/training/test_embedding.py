"""Numbers as shares of bins, and several members: what is folded is what was trained, and as fair."""

import itertools
import warnings

import numpy as np
import pytest

from bornfair import FairClassifier
from bornfair.core.errors import InputError
from bornfair.models.network.network import Layer, Network
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.proof import checker
from bornfair.training import embedding as module
from bornfair.training.embedding import Embedding, mean_of, piecewise
from bornfair.training.loops import _hashed
from bornfair.training.start import Exact, draw, draw_members
from graph_oracle import served, session_of
from samples import make_people

KNOTS = (np.float32([-1.5, -0.25, 0.125, 0.1875, 4.0]), None, np.float32([0.5]), np.float32([0.0, 8.0]))
BOTH = {"embedding": "piecewise", "members": 2, "hidden": (6, 4), "epochs": 2, "bins": 8, "dropout": 0.1}


def trunk(width, *, sensitive=0, hidden=(5, 3), outputs=1, seed=0):
    """A random network whose sensitive weights are not 0."""
    random = np.random.default_rng(seed)
    widths = (width + sensitive, *hidden, outputs)
    layers = (Layer(random.normal(size=(b, a)), random.normal(size=b)) for a, b in itertools.pairwise(widths))
    return Network(tuple(layers), "relu")


def people_on_both_sides_of_all_knots(rows=300, seed=1):
    random = np.random.default_rng(seed)
    numbers = random.normal(scale=4, size=(rows, 4)).astype(np.float32)
    numbers[:, 1] = random.integers(2, size=rows)
    numbers[: len(KNOTS[0]), 0] = KNOTS[0]  # at the knots themselves
    return numbers


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("hidden", [(5, 3), ()])
def test_the_folded_network_is_what_was_trained(hidden, outputs):
    embedding, free = Embedding(KNOTS), people_on_both_sides_of_all_knots()
    codes = np.random.default_rng(2).normal(size=(len(free), 2)).astype(np.float32)
    members = [trunk(embedding.width, sensitive=2, hidden=hidden, outputs=outputs, seed=seed) for seed in range(3)]
    read = np.concatenate([embedding.columns(free), codes], axis=1)
    wanted = np.mean([member.estimated(read) for member in members], axis=0)
    folded = embedding.folded(mean_of(members))
    rows = np.concatenate([free, codes], axis=1)
    np.testing.assert_allclose(folded.estimated(rows), wanted, atol=2e-4)
    np.testing.assert_allclose(folded.scores(rows), wanted, atol=1e-3)
    assert folded.widths[0] == 6 and len(folded.layers) == len(hidden) + 2


def test_sensitive_codes_that_nothing_reads_are_read_by_no_hinge():
    embedding, member = Embedding(KNOTS), trunk(6, sensitive=3)
    unread = member.layers[0].weight.copy()
    unread[:, 6:] = 0
    fair = embedding.folded(Network((Layer(unread, member.layers[0].bias), *member.layers[1:])))
    assert fair.ignores_sensitive(4) and fair.widths[1] == 5 + 1 + 2
    unread[0, 7] = 1e-30  # one weight, however small, is handed on: nothing is lost, and nothing is called fair
    unfair = embedding.folded(Network((Layer(unread, member.layers[0].bias), *member.layers[1:])))
    assert not unfair.ignores_sensitive(4) and unfair.widths[1] == fair.widths[1] + 2


def test_one_member_is_the_network_itself():
    own = trunk(6)
    assert mean_of([own]) is own
    shape = {"free_width": 4, "sensitive_width": 2, "hidden": (5,), "outputs": 1, "seed": 3}
    first, second = draw_members(Exact(), 2, **shape)
    assert first.layers[0].weight.tobytes() == draw(Exact(), **shape).layers[0].weight.tobytes()
    assert first.layers[0].weight.tobytes() != second.layers[0].weight.tobytes()


def test_knots_lie_where_the_labels_change_and_where_people_are(people, monkeypatch):
    X = people.drop(columns="grant").assign(flat=7, few=[1, 2, 3, 9] * 60)
    domain = Domain.infer(X, sensitive=["sex"])
    encoding = Encoding.fit(domain, X, merge_twins=True, hold_tails=True)
    free, places = encoding.encode(X, sensitive=False).free, encoding.free_columns()
    income = free[:, places["income"].start]
    classes = (income > 0.3).astype(int)
    tree = piecewise(encoding, free, classes, bins=8)
    low, cut, high = tree.knots[places["income"].start]
    assert (low, high) == (income.min(), income.max()) and income[income <= cut].max() <= 0.3 <= income[
        income > cut
    ].min()
    few = free[:, places["few"].start]
    assert tree.knots[places["few"].start].tolist() == sorted(set(few.tolist()))
    assert tree.columns(free).min() == 0 and tree.columns(free).max() == 1
    assert len(tree.knots[places["flat"].start]) == 1, "a column of one value is left out"
    assert tree.knots[places["job"].start] is None, "categories are handed on"
    quantiles = piecewise(encoding, free, classes, bins=4, kind="quantiles").knots[places["income"].start]
    shares = np.histogram(income, quantiles)[0] / len(income)
    np.testing.assert_allclose(shares, 0.25, atol=0.05)
    # rows of weight 0 are not there
    counted = income < 0.5
    for kind in ("tree", "quantiles"):
        light = piecewise(encoding, free, classes, counted.astype(float), bins=8, kind=kind)
        alone = piecewise(encoding, free[counted], classes[counted], bins=8, kind=kind)
        assert light.knots[places["income"].start].max() == income[counted].max()
        if kind == "tree":
            assert [k.tolist() for k in light.tensors()] == [k.tolist() for k in alone.tensors()]
    monkeypatch.setattr(module, "ROWS_FOR_KNOTS", 50)
    assert piecewise(encoding, free, classes).width > 0
    with pytest.raises(InputError, match="bins must be"):
        piecewise(encoding, free, classes, bins=1)


def test_bins_too_narrow_for_float32_are_joined():
    own = np.concatenate([np.linspace(0, 1e-6, 50), [1.0]]).astype(np.float32)
    assert module._knots(own, None, bins=60).tolist() == [0.0, 1.0]


@pytest.fixture(scope="module")
def table():
    return make_people(240, seed=7)


@pytest.fixture(scope="module")
def fitted(table):
    return FairClassifier(["sex", "race"], **BOTH).fit(table.drop(columns="grant"), table["grant"])


def bytes_of(classifier):
    return b"".join(array.tobytes() for array in classifier.model_.network.tensors().values())


def test_it_is_proven_served_and_accepted_as_any_other(table, fitted, tmp_path):
    X = table.drop(columns="grant")
    model = fitted.model_
    assert model.network.ignores_sensitive(model.encoding.free_width)
    assert fitted.certificate_.verdict.proof == "structural" and fitted.empirical_fairness(X) == 1
    told = fitted.certificate_.training
    assert told["plan"]["members"] == 2 and told["embedding"]["columns"] > model.encoding.free_width
    path = fitted.save(tmp_path / "bundle")
    found = checker.check(path)
    assert found["valid"] and found["verdict"] == "verified"
    decided = served(session_of((path / "model.onnx").read_bytes()), X.to_dict("records"))
    assert list(decided) == list(fitted.predict(X))


def test_same_seed_same_bytes_also_when_killed_and_resumed(table, fitted, tmp_path):
    X, y = table.drop(columns="grant"), table["grant"]

    def stop(epoch):
        raise KeyboardInterrupt

    path = tmp_path / "fit.safetensors"
    with pytest.raises(KeyboardInterrupt):
        FairClassifier(["sex", "race"], checkpoint=path, callbacks=(stop,), **BOTH).fit(X, y)
    resumed = FairClassifier(["sex", "race"], checkpoint=path, **BOTH).fit(X, y)
    assert bytes_of(resumed) == bytes_of(fitted) and len(resumed.history_) == 2
    with pytest.raises(InputError, match="checkpoint"):
        FairClassifier(["sex", "race"], checkpoint=path, **BOTH | {"bins": 4}).fit(X, y)


def test_training_goes_on_from_the_members(table, fitted):
    X, y = table.drop(columns="grant"), table["grant"]
    widths = fitted.model_.network.widths
    more = FairClassifier(["sex", "race"], warm_start=True, **BOTH).fit(X, y)
    before = bytes_of(more)
    assert before == bytes_of(fitted)
    for go_on in (more.fit, more.partial_fit):
        go_on(X, y)
        assert bytes_of(more) != before and more.model_.network.widths == widths
        assert more.certificate_.verdict.proof == "structural"
        before = bytes_of(more)


def test_plain_training_reads_the_codes_and_is_called_unfair_or_undecided(table):
    X, y = table.drop(columns="grant"), table["sex"]  # what is to be predicted is the sensitive value itself
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = FairClassifier(["sex"], response="none", **BOTH | {"epochs": 30, "learning_rate": 0.01}).fit(X, y)
    assert plain.score(X, y) > 0.9, "the codes get through the hinges"
    assert plain.certificate_.verdict.answer != "verified" and plain.empirical_fairness(X) < 0.5


def test_gaps_classes_and_weights(table):
    gaps = table.assign(income=table["income"].where(table["age"] < 70))
    X, y = gaps.drop(columns="job"), table["job"]
    weights = np.where(y == y.iloc[0], 1.0, 0.0)
    clf = FairClassifier(["sex"], missing="impute", **BOTH | {"epochs": 40, "learning_rate": 0.02})
    clf.fit(X, y, sample_weight=weights)
    assert clf.model_.network.outputs == y.nunique() > 2
    assert clf.certificate_.verdict.answer == "verified"
    assert (clf.predict(X) == y.iloc[0]).mean() > 0.95, "rows of weight 0 teach nothing"


def test_a_preset_embeds_with_its_own_layers_only(table):
    X, y = table.drop(columns="grant"), table["grant"]
    chosen = FairClassifier(["sex"], hidden=(4,), epochs=0).fit(X, y)
    assert chosen.model_.network.widths[1:] == (4, 1)
    assert "dropout" not in chosen.certificate_.training["plan"]
    own = FairClassifier(["sex"], epochs=0).fit(X, y)
    assert own.model_.network.widths[2:] == (128, 64, 1) and own.certificate_.training["plan"]["dropout"] > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding": "piecewise", "activation": "tanh"}, "needs activation 'relu'"),
        ({"embedding": "piecewise", "init": "near_zero"}, "the start 'exact'"),
        ({"embedding": "fourier"}, "embedding"),
        ({"members": 0}, "members"),
        ({"dropout": 1.0}, "dropout"),
        ({"label_smoothing": -0.1}, "label_smoothing"),
    ],
)
def test_what_cannot_be_is_said(table, options, message):
    with pytest.raises(InputError, match=message):
        FairClassifier(["sex"], **{"hidden": (4,), "epochs": 1} | options).fit(
            table.drop(columns="grant"), table["grant"]
        )


def test_dropout_leaves_out_the_share_it_says():
    bits = np.asarray(_hashed(np.uint32(12345), (256, 128)))
    for share in (0.1, 0.5):
        left_out = bits < np.uint32(share * 2**32)
        assert abs(left_out.mean() - share) < 0.01
        assert left_out.mean(axis=0).std() < 0.05 and left_out.mean(axis=1).std() < 0.06  # no unit or row stands out
