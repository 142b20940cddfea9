"""People judged by the live neurons of a network alone: never otherwise than exactly, nor than any execution."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import bornfair.quantification.drawing as drawing
import bornfair.quantification.lean as lean
from bornfair.models.network import Layer, Network, decisions
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label, RealFeature
from bornfair.people.scales import Scale
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.drawing import Drawing
from bornfair.quantification.forms import Bounder
from bornfair.quantification.leads import judge_boxes
from bornfair.quantification.lean import bounded_in_float32
from bornfair.quantification.variables import variables
from bornfair.twins.relation import twin_relation
from bornfair.verification.boxes import Boxes
from bornfair.verification.exact import exact_decisions, exact_scores, inputs_of_views


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
    monkeypatch.setattr(lean, "MOST_TERMS", 10)
    assert bounded_in_float32(owner)
    monkeypatch.setattr(lean, "MOST_TERMS", 9)
    assert not bounded_in_float32(owner) and Crowd(owner).lean(None) is None
