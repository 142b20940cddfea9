"""Where few sums tell all: never more is claimed than counting gives, hardly less, and depth costs nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bornfair.models.network.shares.shares as engine
from bornfair.models.network.network import Layer, Network
from bornfair.models.network.shares.few_sums import Bottlenecks, BoxNetwork, FewSums, prove_by_few, serves
from bornfair.models.network.shares.forms import Bounder, prove
from bornfair.models.network.shares.relaxation import ReluPass
from bornfair.models.network.shares.shares import Choices, Grid
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import twin_relation
from bornfair.proof.bundle import FairModel
from bornfair.quantification.measure import shares_of
from share_fuzz import random_marginals, small_model

SEEDS = st.integers(0, 2**32 - 1)


def random_box(rng, places):
    box = places.root
    for _ in range(int(rng.integers(0, 4))):
        noise = rng.normal(size=(2, 1, places.free.width)) + 5
        first, second, _ = places.cut(box, np.abs(noise[0]), noise[1])
        box = (first, second)[int(rng.integers(2))] if len(first) else box
    return box


def owner_of(model, marginals=None):
    relation = twin_relation(model.encoding)
    return Bounder(model.network, relation, variables(model.encoding, relation.free, marginals))


def weighed(owner, box):
    """Everybody in a box, as places, and how much of the box each is."""
    people, _ = owner.variables.places.everybody(box)
    weights = owner.variables.mass(Boxes(people, people))
    return people, weights / weights.sum() if weights.sum() else None


def values_of(network, inputs):
    values = inputs
    for i, (weight, bias) in enumerate(network.wide):
        values = (np.maximum(values, 0) if i else values) @ weight.T + bias
    return values


@settings(max_examples=60)
@given(SEEDS)
def test_a_grid_counts_nobody_whose_sums_lie_elsewhere(seed):
    rng = np.random.default_rng(seed)
    model = small_model(rng, depth=1)
    owner = owner_of(model, random_marginals(rng, model) if rng.random() < 0.5 else None)
    box = random_box(rng, owner.variables.places)
    people, weights = weighed(owner, box)
    if weights is None:
        return
    sums, ends = int(rng.integers(1, 3)), owner.variables.places.bounds(box)
    rows = rng.normal(size=(sums, owner.variables.free.width)) * rng.choice([0.0, 1.0, 30.0], (sums, 1))
    true = rows @ owner.variables.places.values(people).T
    above = np.array([np.quantile(row, rng.random()) for row in true])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "GRID_COMBINED", int(rng.choice([1, 8, engine.GRID_COMBINED])))
        patch.setattr(engine, "GRID_PIECES", int(rng.choice([2, 4, engine.GRID_PIECES])))
        cells = {1: 10, 2: 14}[sums]
        grid = Grid.of(Choices.of(owner.variables, box, *ends), 0, rows, cells, lambda middle, reach: reach + 1e-9)

    def decide(middle, reach):
        low, high = middle - reach[:, None], middle + reach[:, None]
        return np.stack([(low > above[:, None]).all(axis=0), (high < above[:, None]).any(axis=0)])

    found = grid.decided(decide)
    assert found[0] <= weights[(true > above[:, None]).all(axis=0)].sum() + 1e-12
    assert found[1] <= weights[(true < above[:, None]).any(axis=0)].sum() + 1e-12
    near = 2 * (grid.rounded * grid.step + grid.beyond)[:, None]
    assert found[0] >= weights[(true > above[:, None] + near).all(axis=0)].sum() - 1e-6
    assert found[1] >= weights[(true < above[:, None] - near).any(axis=0)].sum() - 1e-6


@settings(max_examples=60)
@given(SEEDS)
def test_leads_lie_where_the_sums_say_in_every_view(seed):
    rng = np.random.default_rng(seed)
    model = small_model(rng, depth=int(rng.integers(1, 5)))
    owner = owner_of(model)
    box = random_box(rng, owner.variables.places)
    done = ReluPass(owner, *owner.variables.places.bounds(box))
    done.run()
    few = FewSums(BoxNetwork(done, 0, np.ones(sum(model.network.widths[1:-1]), bool)))
    free = owner.variables.places.values(weighed(owner, box)[0])
    reach = 10.0 ** rng.uniform(-6, 1, few.count)
    middle = few.rows @ free.T + rng.uniform(-1, 1, (few.count, len(free))) * reach[:, None]
    forms = few.leads(middle, reach)
    low, high = ((forms.values[:, 0] + sign * forms.reach).reshape(len(owner.pairs), -1, len(free)) for sign in (-1, 1))
    for v, view in enumerate(owner.relation.views):
        scores = values_of(model.network, view(free))
        for p, (b, a) in enumerate(owner.pairs):
            lead = scores[:, 0] if scores.shape[1] == 1 else scores[:, b] - scores[:, a]
            assert (low[p, v] <= lead).all() and (lead <= high[p, v]).all()


@settings(max_examples=60)
@given(SEEDS)
def test_what_few_sums_prove_is_never_more_than_counting_gives(seed):
    rng = np.random.default_rng(seed)
    model = small_model(rng, depth=int(rng.integers(1, 4)))
    owner = owner_of(model, random_marginals(rng, model) if rng.random() < 0.5 else None)
    box = random_box(rng, owner.variables.places)
    people, weights = weighed(owner, box)
    if weights is None:
        return
    free = owner.variables.places.values(people)
    scores = np.stack([values_of(model.network, view(free)) for view in owner.relation.views], axis=1)
    decided = scores[..., 0] > 0 if scores.shape[2] == 1 else scores.argmax(axis=2)
    unfair = float(weights[(decided != decided[:, :1]).any(axis=1)].sum())
    alive = np.packbits(np.ones((1, sum(model.network.widths[1:-1])), bool), axis=1)
    certified, falsified, _ = prove_by_few(owner, box.knowing(alive=alive), 1024)
    assert falsified[0] <= unfair + 1e-12
    assert certified[0] <= 1 - unfair + 1e-12


def deep(layers, *, features=None):
    """A network that reads one sum of numbers, and is as deep as one likes; s moves the sum by 4."""
    features = features or tuple(IntegerFeature(name=f"x{k}", low=0, high=29) for k in range(4))
    rng = np.random.default_rng(5)
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    scales = {f.name: Scale(centre=0.0, exponent=0) for f in features if f.kind != "categorical"}
    encoding = Encoding(domain, scales)
    first = np.concatenate([[1.0, 3.0, 2.0, 0.5][: encoding.width - 1], [4.0]])[None]
    found = [
        Layer(first, np.zeros(1)),
        Layer(np.array([[1.0], [-1.0], [0.7], [-0.4]]), np.array([-60.0, 90.0, 3.0, 50.0])),
    ]
    found += [Layer(np.eye(4) + 0.3 * rng.normal(size=(4, 4)), rng.normal(size=4)) for _ in range(layers)]
    last = rng.normal(size=(1, 4))
    network = Network((*found, Layer(last, np.zeros(1))))
    relation = twin_relation(encoding)
    people = variables(encoding, relation.free)
    drawn = people.places.values(people.draw(20_000, rng))
    scores = np.stack([values_of(network, view(drawn))[:, 0] for view in relation.views], axis=1)
    middle = np.unique(scores)[[np.unique(scores).size // 2, np.unique(scores).size // 2 + 1]]
    shift = float(middle.mean())  # nobody is on the boundary
    network = Network((*network.layers[:-1], Layer(last, np.array([-shift], np.float32))))
    return Bounder(network, relation, people), float(((scores > shift)[:, 0] != (scores > shift)[:, 1]).mean())


def whole(owner):
    hidden = sum(owner.network.widths[1:-1])
    return owner.variables.root.knowing(alive=np.packbits(np.ones((1, hidden), bool), axis=1))


@pytest.mark.parametrize("layers", [1, 4, 9])
def test_no_layer_makes_it_wider_where_one_sum_tells_all(layers):
    owner, unfair = deep(layers)
    certified, falsified, _ = prove_by_few(owner, whole(owner), 4096)
    assert 1 - certified[0] - falsified[0] < 0.01
    assert falsified[0] == pytest.approx(unfair, abs=0.02) and unfair > 0.02
    plain = sum(part[0] for part in prove(owner, whole(owner), 4096))
    assert 1 - plain > 5 * (1 - certified[0] - falsified[0])


def test_real_numbers_and_categories_add_to_sums_too():
    features = (
        RealFeature(name="r", low=0.0, high=20.0), CategoricalFeature(name="c", categories=("k", "l", "m")),
    )  # fmt: skip
    owner, unfair = deep(2, features=features)
    certified, falsified, _ = prove_by_few(owner, whole(owner), 4096)
    assert falsified[0] == pytest.approx(unfair, abs=0.03)
    assert 1 - certified[0] - falsified[0] < 0.02


def test_a_number_that_overflows_claims_nothing():
    owner, _ = deep(1)
    huge = Layer(np.full((1, 4), 3e38, np.float32), np.zeros(1))
    owner = Bounder(Network((*owner.network.layers[:-1], huge)), owner.relation, owner.variables)
    assert serves(owner)
    assert [float(part[0]) for part in prove_by_few(owner, whole(owner), 4096)[:2]] == [0.0, 0.0]


# --- one neuron of a later layer ---


def narrow(rng, *, count=5, depth=3, apart=1.0):
    """Some neurons, then one of them alone, then layers again; s moves what they read."""
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=9) for k in range(3))
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {f.name: Scale(centre=4.5, exponent=2) for f in features})
    widths = [encoding.width, count, 1, *[4] * depth, 1]
    layers = []
    for a, b in itertools.pairwise(widths):
        weight = rng.normal(size=(b, a)) + (0.5 if b == 4 else 0.0)
        weight[:, -1] *= 1.0 if layers else apart
        layers.append(Layer(weight, rng.normal(size=b)))
    relation = twin_relation(encoding)
    return Bounder(Network(tuple(layers)), relation, variables(encoding, relation.free))


@settings(max_examples=60)
@given(SEEDS)
def test_what_one_neuron_proves_is_never_more_than_counting_gives(seed):
    rng = np.random.default_rng(seed)
    owner = narrow(rng, count=int(rng.integers(1, 4)), depth=int(rng.integers(1, 4)), apart=float(rng.choice([1, 4])))
    box = random_box(rng, owner.variables.places)
    people, weights = weighed(owner, box)
    free = owner.variables.places.values(people)
    scores = np.stack([values_of(owner.network, view(free))[:, 0] for view in owner.relation.views], axis=1)
    unfair = float(weights[((scores > 0) != (scores > 0)[:, :1]).any(axis=1)].sum())
    done = ReluPass(owner, *owner.variables.places.bounds(box), remember=True)
    done.run()
    found = Bottlenecks(owner, done, 1024)
    found.look(0, BoxNetwork(done, 0, np.ones(sum(owner.network.widths[1:-1]), bool)))
    assert found.certified(box)[0] <= 1 - unfair + 1e-12


def test_behind_one_neuron_no_layer_makes_it_wider():
    shares = {"plain": [], "narrow": []}
    for seed in range(40):
        owner = narrow(np.random.default_rng(seed), count=12, depth=5)
        shares["plain"].append(sum(part[0] for part in prove(owner, whole(owner), 2048)))
        shares["narrow"].append(sum(part[0] for part in prove_by_few(owner, whole(owner), 2048)[:2]))
    left = {name: 1 - np.mean(part) for name, part in shares.items()}
    assert left["narrow"] < left["plain"] / 2


def test_one_neuron_tells_below_and_above_an_end():
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=9) for k in range(3))
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {f.name: Scale(centre=0.0, exponent=0) for f in features})
    one, nothing = np.ones((1, 1)), np.zeros(1)
    first, last = Layer(np.array([[1.0, 1.0, 1.0, 2.0]]), np.array([3.0])), Layer(one, np.array([-16.5]))
    relation = twin_relation(encoding)
    network = Network((first, Layer(one, nothing), Layer(one, nothing), Layer(one, nothing), last))
    owner = Bounder(network, relation, variables(encoding, relation.free))
    total = np.add.outer(np.add.outer(np.arange(10), np.arange(10)), np.arange(10))
    unfair = float(((total > 11.5) & (total < 15.5)).mean())  # s is −1 or 1
    done = ReluPass(owner, *owner.variables.places.bounds(owner.variables.root), remember=True)
    done.run()
    found = Bottlenecks(owner, done, 4096)
    found.look(0, BoxNetwork(done, 0, np.ones(4, bool)))
    assert found.certified(owner.variables.root)[0] == pytest.approx(1 - unfair, abs=1e-6)


def test_nothing_that_is_known_of_a_box_is_lost_when_it_is_cut():
    rng = np.random.default_rng(0)
    features = tuple(IntegerFeature(name=f"x{k}", low=0, high=49) for k in range(20))
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {f.name: Scale(centre=24.5, exponent=5) for f in features})
    widths = [encoding.width, 1, 5, 5, 5, 1]
    layers = [
        Layer(rng.normal(size=(b, a)) * np.sqrt(2 / a), 0.1 * rng.normal(size=b)) for a, b in itertools.pairwise(widths)
    ]
    shift = np.array([0.1], np.float32)  # one class always wins, but bounds of all layers do not tell
    layers[-1] = Layer(layers[-1].weight, layers[-1].bias + shift)
    model = FairModel(Network(tuple(layers)), encoding)
    for boxes in (1, 5, 20, 60):  # one grid tells all
        found = shares_of(model, timeout=1e9, most_boxes=boxes, samples=100, most_samples=0)
        assert found.undecided < 1e-4
