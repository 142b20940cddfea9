"""People judged by the live neurons of a network alone: never otherwise than exactly, nor than any execution."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import bornfair.quantification.crowds as drawing
import bornfair.quantification.lean as lean_module
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores, inputs_of_views
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.models.network.shares.forms import Bounder, judge_boxes
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables, variables
from bornfair.people.twins.relation import FreeSpace, Relation, View, twin_relation
from bornfair.quantification.crowds import Crowd, Drawing
from bornfair.quantification.lean import Lean, bounded_in_float32, sure_classes, views_alike


def owner_of(rng, *, size=1.0, carried=0.0, missing=False):
    """A random network of up to three hidden layers; `carried` is added by biases and taken away by later ones."""
    features = (
        IntegerFeature(name="n", low=-3, high=40, missing=missing),
        RealFeature(name="r", low=-1.0, high=1.0),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
        BooleanFeature(name="s"),
    )
    outputs = int(rng.choice([1, 1, 3]))
    domain = Domain(features=features, sensitive=("s",), label=Label(name="y", classes=tuple(range(max(outputs, 2)))))
    scales = {"n": Scale(centre=0.5, exponent=2), "r": Scale(centre=0.0, exponent=0)}
    encoding = Encoding(domain, scales, fill={"n": 1} if missing else {})
    widths, layers = [encoding.width, *rng.integers(1, 9, int(rng.integers(0, 4))).tolist(), outputs], []
    brought = np.zeros(encoding.width)
    for a, b in itertools.pairwise(widths):
        weight = (size * rng.normal(size=(b, a))).astype(np.float32)
        bias = (rng.normal(size=b) - weight @ brought).astype(np.float32)
        brought = np.zeros(b) if len(layers) == len(widths) - 2 else carried * rng.normal(size=b)
        layers.append(Layer(weight, (bias + brought).astype(np.float32)))
    relation = twin_relation(encoding)
    return Bounder(Network(tuple(layers)), relation, variables(encoding, relation.free), "float32")


def halves_of(owner, rng, cuts=6):
    """Boxes of the domain, cut at random, with the neurons that may be active in them, as they are bounded."""
    people = owner.variables
    boxes = people.root
    for _ in range(cuts):
        possible = people.places.cuttable(boxes)[:, people.columns]
        variable = (rng.random(possible.shape) * possible).argmax(axis=1)
        can = possible.any(axis=1)
        parts = people.halves(boxes[can], variable[can], rng.normal(size=people.free.width))
        boxes = Boxes.joined(boxes[~can], parts)
    found = judge_boxes(owner, boxes)
    return boxes.knowing(mass=people.mass(boxes), alive=np.packbits(found.alive, axis=1)), found.alive


def executed(network, inputs, order):
    """Decisions in float32, where every sum is added up in an order of its own."""
    values = inputs.astype(np.float32)
    for i, layer in enumerate(network.layers):
        weight, places = layer.weight, order.permutation(layer.weight.shape[1])
        total = np.broadcast_to(layer.bias, (len(values), len(layer.bias))) if order.random() < 0.5 else np.float32(0)
        late = not isinstance(total, np.ndarray)
        for place in places:
            total = total + values[:, place, None] * weight[None, :, place]
        total = total + layer.bias if late else total
        values = np.maximum(total, 0) if i < len(network.layers) - 1 else total
    return decisions(values)


def test_whoever_is_judged_by_live_neurons_is_judged_rightly():
    """Exactly, and by executions in float32 that add up in any order, also where they lose digits."""
    rng, judged, fewer = np.random.default_rng(5), 0, 0
    for carried in 12 * (0.0, 1e3, 1e6):
        owner = owner_of(rng, size=10.0 ** rng.uniform(-2, 2), carried=carried, missing=bool(rng.random() < 0.2))
        crowd, views, (boxes, alive) = Crowd(owner), owner.relation.views, halves_of(owner, rng)
        row = int(rng.integers(len(boxes)))
        people = owner.variables.inside(boxes[np.full(12, row)], rng)
        free = owner.variables.places.values(people)
        fewer += not alive[row].all()
        fair, unfair = crowd.lean(alive[row]).judge((free if owner.variables.free.gaps else people).astype(np.float32))
        assert not (fair & unfair).any()
        judged += int((fair | unfair).sum())
        found = [np.stack([executed(owner.network, view(free), rng) for view in views], axis=1) for _ in range(3)]
        found.append(np.stack([exact_decisions(owner.network, inputs_of_views(views, one)) for one in free]))
        for decided in found:
            alike = (decided == decided[:, :1]).all(axis=1)
            assert alike[fair].all() and not alike[unfair].any()
    assert fewer > 8 and judged > 150


def test_nobody_is_judged_whom_an_execution_may_decide_otherwise():
    """The last bias is chosen so that a person's score is all but 0, and some execution is on the other side."""
    rng, differ = np.random.default_rng(6), 0
    for carried in 20 * (0.0, 1e2, 1e4):
        owner = owner_of(rng, carried=carried)
        while owner.network.outputs > 1:
            owner = owner_of(rng, carried=carried)
        people = owner.variables.draw(1, rng)
        free, view = owner.variables.places.values(people), owner.relation.views[0]
        *layers, last = owner.network.layers
        score = float(exact_scores(owner.network, inputs_of_views([view], free[0]))[0, 0])
        network = Network((*layers, Layer(last.weight, (last.bias - score).astype(np.float32))))
        owner = replace(owner, network=network)
        fair, unfair = Crowd(owner).lean(None).judge(people.astype(np.float32))
        views = owner.relation.views
        found = [tuple(int(executed(network, one(free), rng)[0]) for one in views) for _ in range(12)]
        found.append(tuple(exact_decisions(network, inputs_of_views(views, free[0])).tolist()))
        if len({len(set(decided)) for decided in found}) > 1:
            differ += 1
            assert not fair.any() and not unfair.any()
    assert differ > 10


def test_no_term_of_the_error_is_left_out():
    """Each layer errs by γ times the sizes of its terms, and hands on what came before: computed layer by layer."""
    rng = np.random.default_rng(9)
    for _ in range(120):
        owner = owner_of(rng)
        scales = 10.0 ** rng.uniform(-3, 3, (len(owner.network.layers), 2))
        widths, outputs = [owner.network.widths[0], *[25] * (len(scales) - 1)], owner.network.outputs
        # Where nothing is taken away again, what a later layer is given is as large as it can be.
        sign, scales[:, 1] = (np.abs, 0.0) if rng.random() < 0.3 else (np.asarray, scales[:, 1])
        network = Network(tuple(
            Layer(sign(w * rng.normal(size=(k, n))), b * rng.normal(size=k))
            for (w, b), n, k in zip(scales, widths, [*widths[1:], outputs], strict=True)
        ))  # fmt: skip
        owner = replace(owner, network=network)
        people = owner.variables.draw(4, rng)
        free = owner.variables.places.values(people)
        for view, (_, by) in zip(
            owner.relation.views, Crowd(owner).lean(None)._outputs(people.astype(np.float32)), strict=True
        ):
            values = view(free)
            error = 2.0**-24 * np.abs(values)
            for i, (weight, bias) in enumerate(network.wide):
                values = np.maximum(values, 0) if i else values
                unit = 2.0**-24 * (weight.shape[1] + 1)
                error = error @ np.abs(weight).T + unit * (np.abs(values) @ np.abs(weight).T + np.abs(bias))
                values = values @ weight.T + bias
            assert (by >= 2 * error.max(axis=1)).all()
            assert (by < 400 * error.max(axis=1)).all()  # nor is it so wide that it tells nothing


def test_nobody_is_judged_where_a_sum_may_overflow():
    """2·10³⁸·(a + b − c − d) − 1 is −1 where all are 1, but adding up the first two overflows."""
    features = tuple(IntegerFeature(name=name, low=0, high=1) for name in "abcd")
    domain = Domain(
        features=(*features, BooleanFeature(name="s")), sensitive=("s",), label=Label(name="y", classes=(0, 1))
    )
    encoding = Encoding(domain, {f.name: Scale(centre=0.0, exponent=0) for f in features})
    weight = np.array([[2e38, 2e38, -2e38, -2e38, 0.5]])
    relation = twin_relation(encoding)
    for layers in (
        (Layer(weight, np.array([-0.75])),),
        (Layer(weight, np.array([-0.75])), Layer(np.array([[1.0]]), np.array([-0.1]))),
    ):
        owner = Bounder(Network(layers), relation, variables(encoding, relation.free), "float32")
        assert not bounded_in_float32(owner) and Crowd(owner).lean(None) is None
        fair, unfair = Crowd(owner).judge(np.ones((1, 4)))
        assert not fair.any() and not unfair.any()


# --- the error bound of docs/theory.md §9, term by term ---


def by_hand(layers, views, low, high):
    """A bounder of weights and biases, and of views that are given as (matrix, offset)."""
    free = FreeSpace(np.array(low, float), np.array(high, float), np.zeros(len(low)), ())
    shown = {}  # views with one matrix share it, as those of an encoding do
    relation = Relation(tuple(
        View(shown.setdefault(np.array(matrix).tobytes(), np.array(matrix, float)), np.array(offset, float))
        for matrix, offset in views
    ), free)  # fmt: skip
    network = Network(tuple(Layer(np.array(weight), np.array(bias)) for weight, bias in layers))
    return Bounder(network, relation, Variables(free, {}), "float32")


UNIT, TINY = 2.0**-24, 2.0**-100


def lemma(owner, view, places, scale, shift, alive):
    """The lemma's bound of the error of one output, for one view and rows of places; and what is added to it at most
    where a factor is so small that it is taken to be TINY.
    """
    kept = [np.flatnonzero(part) for part in np.split(alive, np.cumsum(owner.network.widths[1:-1])[:-1])]
    rows = [*kept[: len(owner.network.layers) - 1], np.arange(1)]
    largest = np.maximum(np.abs(owner.variables.free.low), np.abs(owner.variables.free.high))
    raised, underflow, held = TINY * np.abs(places).sum(axis=1), 0.0, np.zeros(0)
    for i, (weight, bias) in enumerate(owner.network.wide):
        gamma = (weight.shape[1] + 8) * UNIT / (1 - (weight.shape[1] + 8) * UNIT)
        weight, bias = weight[rows[i]] if i == 0 else weight[np.ix_(rows[i], rows[i - 1])], bias[rows[i]]
        size = np.abs(weight).T
        if i == 0:
            given, moved = np.abs(scale * places), np.abs(weight @ view.matrix).T
            # An input is off by 4 units of its size, and by what rounding takes from the ends of the free space.
            off = 4 * UNIT * (np.abs(shift) + given) + 2.0**-50 * largest
            known = np.abs(view.matrix) @ np.abs(shift) + np.abs(view.offset)
            error = 2 * off @ moved + gamma * (given @ moved + known @ size + np.abs(bias))
            error = error + TINY * (1 + (2 * largest / np.abs(scale)).sum())
            sums, constant = (scale * places) @ (weight @ view.matrix).T, weight @ (view.matrix @ shift + view.offset)
        else:
            values = np.maximum(sums, -held)
            error = error @ size + gamma * ((values + 3 * np.abs(held) + 2 * error) @ size + np.abs(bias)) + TINY
            underflow += 4 * TINY * np.abs(held).sum()
            raised = raised + TINY * np.abs(values).sum(axis=1)
            sums, constant = values @ weight.T, weight @ held
        held = (constant + bias).astype(np.float32).astype(np.float64)
    return error[:, 0] + underflow + 2 * UNIT * np.abs(held[0]), raised


def regime(rng):
    """Weights, biases, views and places of very different sizes, many of them 0: each term is the largest somewhere."""

    def some(*shape, spread, none):
        size = 2.0 ** int(rng.integers(-spread, spread // 3 + 1)) * (rng.random() >= none)
        return size * rng.choice([-3.0, -1.0, 1.0, 1.5], shape)

    free, hidden = int(rng.integers(1, 4)), rng.integers(1, 4, int(rng.integers(0, 3))).tolist()
    widths = [free + 1, *hidden, 1]
    layers = [
        (some(b, a, spread=int(rng.choice([3, 60])), none=0), some(b, spread=60, none=0.6))
        for a, b in itertools.pairwise(widths)
    ]
    matrix = np.eye(free + 1, free)[rng.permutation(free + 1)] * rng.choice([-1.0, 1.0], free)
    views = [(matrix, some(free + 1, spread=30, none=0.5)) for _ in range(2)]
    low, high = -np.abs(some(free, spread=20, none=0.5)), np.abs(some(free, spread=20, none=0.5))
    owner = by_hand(layers, views, low, high)
    scale = np.abs(some(free, spread=int(rng.choice([3, 90])), none=0))
    shift, alive = some(free, spread=30, none=0.5), rng.random(sum(hidden)) < 0.8
    signed, places = bool(rng.random() < 0.5), some(6, free, spread=20, none=0.4)
    return owner, scale, shift, alive, signed, (places if signed else np.abs(places)).astype(np.float32)


def test_the_error_is_the_one_of_the_lemma_whichever_term_is_the_largest():
    rng, served = np.random.default_rng(12), 0
    for _ in range(600):
        owner, scale, shift, alive, signed, places = regime(rng)
        if not Lean.serves(owner):
            continue
        served += 1
        found = Lean(owner, scale, shift, alive, signed=signed)._outputs(places)
        for view, (_, by) in zip(owner.relation.views, found, strict=True):
            error, raised = lemma(owner, view, places.astype(np.float64), scale, shift, alive)
            assert (by >= 2 * error).all()
            assert (by <= 2.02 * (error + raised)).all()
    assert served > 400


def test_the_error_is_the_largest_of_all_outputs():
    """Three outputs, of which another one has the largest weights or the largest bias each time."""

    def bound(weights, biases):
        owner = by_hand([([[1.0, 2.0]], [1.0]), (weights, biases)], [([[1.0], [0.0]], [0.0, 1.0])], [0.0], [1.0])
        [(_, by)] = Lean(owner, np.ones(1), np.zeros(1))._outputs(np.ones((1, 1), np.float32))
        return float(by[0])

    most = bound([[64.0]], [4096.0])
    for weights in itertools.permutations((1.0, -64.0, 0.5)):
        for biases in itertools.permutations((0.0, 3.0, -4096.0)):
            by = bound(np.transpose([weights]), biases)
            assert max(bound([[w]], [b]) for w, b in zip(weights, biases, strict=True)) <= by * (1 + 1e-6)
            assert by <= most * (1 + 1e-6)
            if weights.index(-64.0) == biases.index(-4096.0):
                assert by == pytest.approx(most, rel=1e-6)


def test_long_sums_leave_room_for_the_rounding_of_their_bound():
    """8,000 equal terms in float32, in any order, may lose γ(8,000) of the bound that they add up."""
    owner = by_hand(
        [(np.ones((8000, 1)), np.ones(8000)), (np.ones((1, 8000)), [1.0])], [([[1.0]], [0.0])], [0.0], [1.0]
    )
    lean, place = Lean(owner, np.ones(1), np.zeros(1)), np.ones((1, 1), np.float32)
    error, _ = lemma(owner, owner.relation.views[0], place, np.ones(1), np.zeros(1), np.ones(8000, bool))
    [(_, by)] = lean._outputs(place)
    assert 1 + 8000 * UNIT < by[0] / (2 * error[0]) < 1.01
    assert lean.widest == 8000
    assert Lean(owner, np.ones(1), np.zeros(1), np.arange(8000) < 30).widest == 30


def test_factors_of_the_bound_are_rounded_up():
    """Those of the layers in between, and those beside the weights, where the smallest become TINY."""
    owner = by_hand([([[2.0]], [0.0]), ([[-3.0]], [0.0]), ([[0.5]], [0.0])], [([[1.0]], [0.0])], [0.0], [1.0])
    reaches, vectors = Lean(owner, np.ones(1), np.zeros(1))._reaches()
    each = 1 + 2 * 9 * UNIT * (1 + 2.0**-10)  # an error of before counts twice in what is multiplied
    assert [reach[0, 0] for reach in reaches] == pytest.approx([3 * each**3, 1.5 * each**2, 0.5 * each, 1.0], rel=1e-9)
    assert [vector[0] for vector in vectors] == pytest.approx([13.5 * UNIT, 4.5 * UNIT], rel=2e-3)
    given = np.array([0.0, 2.0**-130, 2.0**-101, 2.0**-99, 1 / 3, 1 - 2.0**-30])
    found = lean_module._with_error(np.zeros((6, 2)), given)
    assert found.shape == (6, 3) and found.dtype == np.float32 and not found[:, :2].any()
    assert found[:3, 2].tolist() == [0.0, TINY, TINY]
    assert (found[3:, 2] >= given[3:]).all() and found[3:, 2] == pytest.approx(given[3:], rel=2e-6)


# --- which networks are served ---


def bounded(weight=1.0, bias=0.0, then=0.0, low=0.0, high=1.0, offset=0.0, matrix=((1.0,),)):
    """Whether float32 sums of a network of two layers can be bounded."""
    layers = [([[weight] * len(matrix)], [bias]), ([[then]], [0.0])]
    owner = by_hand(layers, [(matrix, [offset] * len(matrix))], [low] * len(matrix[0]), [high] * len(matrix[0]))
    assert Lean.serves(owner) == bounded_in_float32(owner)
    return bounded_in_float32(owner)


def test_sums_are_bounded_below_two_to_the_120():
    """Four times the sizes of a sum's terms must be below 2^120, and so must those of each later layer."""
    under = 1 - 2.0**-20
    assert bounded() and bounded(high=1e30) and not bounded(high=1e37)
    for known, most in (
        ({"high": 0.25}, {"weight": 2.0**118}),  # inputs count as 1 at least
        ({"high": 1.0}, {"weight": 2.0**116}),  # and four times where they are larger
        ({"low": -1.0, "high": 0.5}, {"weight": 2.0**116}),
        ({"high": 0.0, "offset": -1.0}, {"weight": 2.0**116}),
        ({"weight": 0.0}, {"bias": 2.0**118}),
        ({"weight": 0.0, "bias": -1.0}, {"then": 2.0**116}),
        ({"weight": 0.0}, {"then": 2.0**118}),  # values of a layer count as 1 at least
        ({"weight": 0.0}, {"then": -(2.0**118)}),
    ):
        [(name, value)] = most.items()
        assert not bounded(**known, **most)
        assert bounded(**known, **{name: value * under})


def test_views_must_show_each_number_once_as_it_is():
    assert bounded(matrix=((-1.0,),)) and bounded(matrix=((1.0,), (0.0,))) and bounded(matrix=((0.0, 1.0), (-1.0, 0.0)))
    for matrix in (((0.5,),), ((2.0,),), ((1.0,), (1.0,)), ((1.0,), (-1.0,))):
        assert not bounded(matrix=matrix)


def test_bands_and_long_sums_are_left_to_intervals():
    views = [([[1.0]], [0.0])]
    owner = by_hand([([[1.0]], [0.5])], views, [0.0], [1.0])
    band = replace(owner.relation, views=(replace(owner.relation.views[0], radius=np.ones(1)),))
    assert bounded_in_float32(owner) and not bounded_in_float32(replace(owner, relation=band))
    for terms, kept in ((2**13 - 1, True), (2**13, False)):
        matrix = np.eye(terms, 1)
        assert (
            bounded_in_float32(by_hand([(np.ones((1, terms)), [0.0])], [(matrix, np.zeros(terms))], [0.0], [1.0]))
            == kept
        )


def test_networks_of_many_neurons_and_other_activations_are_left_to_others(monkeypatch):
    monkeypatch.setattr(lean_module, "bounded_in_float32", lambda _: True)
    relu, tanh = (SimpleNamespace(exact=exact) for exact in (True, False))
    for function, widths, kept in (
        (relu, (2**16, 2**16 - 1), True), (relu, (2**16, 2**16), False), (tanh, (2, 1), False),
    ):  # fmt: skip
        assert Lean.serves(SimpleNamespace(network=SimpleNamespace(function=function, widths=widths))) == kept


def test_views_that_share_a_matrix_are_evaluated_together():
    one, other = np.eye(1), np.eye(1)
    assert views_alike([View(one, np.zeros(1)), View(other, np.zeros(1)), View(one, np.ones(1))]) == [[0, 2], [1]]


# --- which class is sure ---


def test_a_class_is_sure_only_beyond_the_error():
    scores, by = np.array([[3.0], [1.0], [0.5], [-1.0], [-1.5]]), np.array([[1.0]] * 5)
    assert sure_classes(scores, by).tolist() == [1, -1, -1, -1, 0]
    table = [
        ([5.0, 1.0, 2.9], [1.0], 0),
        ([1.0, 5.0, 3.0], [1.0], -1),  # at the distance of both errors nothing is sure
        ([1.0, 2.5, 5.0], [1.0], 2),
        ([1.0, 3.5, 5.0], [1.0], -1),
        ([-9.0, -5.0, -9.0], [1.9], 1),
        ([-9.0, -5.0, -9.0], [2.0], -1),
        ([2.0, 2.0, 0.0], [0.0], -1),  # a tie
        ([5.0, 2.0, 1.0], [1.0, 0.5, 3.5], -1),  # an output may have an error of its own
        ([5.0, 2.0, 1.0], [2.0, 0.9, 1.9], 0),
    ]  # fmt: skip
    for row, error, sure in table:
        assert sure_classes(np.array([row], np.float32), np.array([error], np.float32)).tolist() == [sure]


def test_twins_are_judged_by_all_of_their_outputs(monkeypatch):
    views = [([[1.0]], [0.0]), ([[1.0]], [1.0])]
    one = Lean(by_hand([([[1.0]], [0.5])], views, [0.0], [1.0]), np.ones(1), np.zeros(1))
    cases = [((2.0, 3.0), "fair"), ((-2.0, -3.0), "fair"), ((2.0, -3.0), "unfair"), ((-2.0, 3.0), "unfair")]
    cases += [((2.0, 1.0), "neither"), ((-1.0, -2.0), "neither"), ((1.0, -3.0), "neither"), ((2.0, 0.0), "neither")]
    scores = np.array([pair for pair, _ in cases])
    monkeypatch.setattr(one, "_outputs", lambda _: [(scores[:, [v]], np.ones(len(cases))) for v in (0, 1)])
    fair, unfair = one.judge(np.zeros((len(cases), 1), np.float32))
    assert ["fair" if f else "unfair" if u else "neither" for f, u in zip(fair, unfair, strict=True)] == [
        said for _, said in cases
    ]
    more = Lean(by_hand([([[1.0], [0.0], [2.0]], [0.5, 0.0, 0.0])], views, [0.0], [1.0]), np.ones(1), np.zeros(1))
    outputs = np.array([[[9, 0, 0], [9, 0, 0]], [[0, 0, 9], [0, 9, 0]], [[0, 9, 9], [0, 9, 0]]], float)
    monkeypatch.setattr(more, "_outputs", lambda _: [(outputs[:, v], np.ones(3)) for v in (0, 1)])
    fair, unfair = more.judge(np.zeros((3, 1), np.float32))
    assert (fair.tolist(), unfair.tolist()) == ([True, False, False], [False, True, False])


# --- parts ---


def test_boxes_are_divided_by_the_neurons_that_live_in_them():
    rng = np.random.default_rng(7)
    alive = rng.random((400, 30)) < np.repeat(rng.random((4, 30)) < 0.3, 100, axis=0) * 0.9
    mass = rng.random(400)
    mass /= mass.sum()
    parts = list(drawing._divided(alive, mass, np.arange(400), 0.01))
    assert len(parts) > 4
    assert sorted(np.concatenate(parts).tolist()) == list(range(400))
    assert min(mass[rows].sum() for rows in parts) > 0
    kept = sum(mass[rows].sum() * alive[rows].any(axis=0).sum() for rows in parts)
    assert kept < 0.6 * alive.any(axis=0).sum()
    alike = np.repeat(alive[:1], 400, axis=0)
    assert len(list(drawing._divided(alike, mass, np.arange(400), 0.01))) == 1


def test_as_many_are_drawn_from_a_box_as_its_mass_has_it(monkeypatch):
    """Of few boxes or many, in parts or not: how many are found unfair, and in which boxes."""
    rng, owner = np.random.default_rng(8), None
    while owner is None or owner.network.outputs > 1 or len(owner.network.layers) < 2:
        owner = owner_of(rng)
    boxes, _ = halves_of(owner, rng, cuts=7)
    mass = boxes.facts["mass"] / boxes.facts["mass"].sum()
    crowd, seen = Crowd(owner), np.zeros(len(boxes))
    fair, unfair = crowd.judge(owner.variables.places.values(owner.variables.draw(60_000, rng)))
    real = crowd.treated_of

    def counting(some, lean, own):
        where = (some.low[:, None] == boxes.low).all(axis=2) & (some.high[:, None] == boxes.high).all(axis=2)
        np.add.at(seen, where.argmax(axis=1), 1)
        return real(some, lean, own)

    monkeypatch.setattr(crowd, "treated_of", counting)
    monkeypatch.setattr(drawing, "WORTH", 1.0)
    for least, each in ((drawing.FEWEST, 20_000), (2**17, 40)):  # divided; in one part, fewer drawn than boxes
        monkeypatch.setattr(drawing, "FEWEST", least)
        draw, found, count = Drawing.of(crowd, boxes), np.zeros(2), 0
        assert len(draw.parts) > 1 if least == 512 else len(draw.parts) == 1
        seen[:] = 0
        while count < 20_000:
            found += draw(each, rng)
            count += each
        assert seen.sum() == count
        assert (np.abs(seen / count - mass) < 6 * np.sqrt(mass / count) + 1e-3).all()
        assert found.sum() / count == pytest.approx(1 - fair.mean(), abs=0.02)
        assert found[0] / count == pytest.approx(unfair.mean(), abs=0.02)


def test_rounding_is_bounded_in_float32_only_where_every_sum_is_short(monkeypatch):
    """The longest sum counts, not the shortest: the widest layer may be a hidden one."""
    owner = owner_of(np.random.default_rng(4))
    widths = [owner.network.widths[0], 9, 3, 1]
    layers = [Layer(np.ones((b, a)), np.zeros(b)) for a, b in itertools.pairwise(widths)]
    owner = replace(owner, network=Network(tuple(layers)))
    monkeypatch.setattr(lean_module, "MOST_TERMS", 10)
    assert bounded_in_float32(owner)
    monkeypatch.setattr(lean_module, "MOST_TERMS", 9)
    assert not bounded_in_float32(owner) and Crowd(owner).lean(None) is None
