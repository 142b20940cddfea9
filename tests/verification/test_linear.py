"""Linear bounds hold for exact numbers and for float32 on any machine, and are never wider than intervals."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bornfair.models.network.bounds.linear import LinearBounds
from bornfair.models.network.network import Layer, Network
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.twins.relation import FreeSpace, Relation, View
from oracle import everybody, exact_inputs, exact_scores, float32_inputs, machines, output_bounds, small_relation

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32 - 1)


def random_network(rng, relation, style="normal", outputs=1, activation="relu", hidden=None):
    widths = hidden if hidden is not None else [int(n) for n in rng.integers(1, 6, int(rng.integers(0, 4)))]
    sizes = [len(relation.views[0].offset), *widths, outputs]
    layers = []
    for a, b in itertools.pairwise(sizes):
        if style == "wild":
            exponents = rng.choice([-149, -126, -60, -24, 0, 1, 24, 40], (b, a + 1))
            both = np.ldexp(rng.choice([-1.0, 1.0, 1.5, 0.0], (b, a + 1)), exponents)
        elif style == "tame":
            both = rng.integers(-8, 9, (b, a + 1)) / 4
        else:
            both = rng.normal(size=(b, a + 1))
        layers.append(Layer(both[:, :a], both[:, a]))
    return Network(tuple(layers), activation)


def random_boxes(rng, relation, cuts):
    """A chain of boxes, each half of the one before, and the places they are in."""
    places = Places(relation.free)
    boxes = [places.root]
    for _ in range(cuts):
        noise = rng.normal(size=(2, 1, relation.free.width))
        halves = places.cut(boxes[-1], np.abs(noise[0]), noise[1])
        if not halves[2][0]:
            break
        boxes.append(halves[int(rng.integers(0, 2))])
    return places, Boxes.joined(*boxes)


def inside(person, low, high, groups):
    in_group = {c for group in groups for c in range(group.start, group.stop)}
    return all(
        u <= h if c in in_group else lo <= u <= h
        for c, (u, lo, h) in enumerate(zip(person, map(Fraction, low), map(Fraction, high), strict=True))
    )


def check_lines(lines, box, person, view, scores, pairs):
    """Each difference of scores (Fractions) lies between the lines at this person, and between their extremes."""
    for p, (b, a) in enumerate(pairs):
        value = scores[b] - scores[a] if len(scores) > 1 else scores[0]
        least, most = lines.least[box, view, p], lines.most[box, view, p]
        assert least == -np.inf or Fraction(float(least)) <= value
        assert most == np.inf or value <= Fraction(float(most))
        for rows, constants, sign in ((lines.lower, lines.lower_constant, 1), (lines.upper, lines.upper_constant, -1)):
            constant = constants[box, view, p]
            if np.isfinite(constant):
                line = sum(
                    (Fraction(float(c)) * u for c, u in zip(rows[box, view, p], person, strict=True)), Fraction(0)
                )
                assert sign * (line + Fraction(float(constant))) <= sign * value


@settings(max_examples=60)
@given(SEEDS, st.sampled_from(["normal", "tame", "wild"]), st.integers(1, 3))
def test_lines_contain_exact_and_executed_outputs(seed, style, outputs):
    rng = np.random.default_rng(seed)
    relation = small_relation(rng)
    network = random_network(rng, relation, style, outputs)
    places, boxes = random_boxes(rng, relation, 3)
    low, high = places.bounds(boxes)
    bounds = LinearBounds(network, relation)
    real, executed = bounds.lines(low, high, "real"), bounds.lines(low, high, "float32")
    people = list(everybody(relation.free))
    for index in rng.permutation(len(people))[:6]:
        person = people[index]
        for i, view in enumerate(relation.views):
            exact = exact_scores(network, exact_inputs(view, person))
            runs = [m.scores(network, float32_inputs(view, person)) for m in machines(seed % 1000)]
            for box in range(len(boxes)):
                if not inside(person, low[box], high[box], relation.free.groups):
                    continue
                check_lines(real, box, person, i, exact, bounds.pairs)
                check_lines(executed, box, person, i, exact, bounds.pairs)
                for scores in runs:
                    if np.isfinite(scores).all():
                        check_lines(executed, box, person, i, [Fraction(float(s)) for s in scores], bounds.pairs)
                    else:
                        assert not np.isfinite(executed.least[box, i]).all()


@settings(max_examples=25)
@given(SEEDS, st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]), st.integers(1, 3))
def test_lines_contain_what_jax_computes(seed, activation, outputs):
    rng = np.random.default_rng(seed)
    space = FreeSpace(np.array([-3.0, -1, 0, 0]), np.array([2.0, 4, 1, 1]), np.array([0.0, 0, 1, 1]), (slice(2, 4),))
    embed = np.eye(5, 4)
    relation = Relation(tuple(View(embed, np.array([0, 0, 0, 0, s])) for s in (-1.0, 1.0)), space)
    network = random_network(rng, relation, "normal", outputs, activation, hidden=[7, 6])
    places, boxes = random_boxes(rng, relation, 6)
    low, high = places.bounds(boxes)
    lines = LinearBounds(network, relation).lines(low, high, "float32")
    for box in range(len(boxes)):
        people = places.values(np.concatenate([places.draw(boxes[[box]], rng) for _ in range(40)]))
        for i, view in enumerate(relation.views):
            scores = network.scores(view(people)).astype(np.float64)
            for p, (b, a) in enumerate(LinearBounds(network, relation).pairs):
                value = scores[:, b] - scores[:, a] if outputs > 1 else scores[:, 0]
                below = people @ lines.lower[box, i, p] + lines.lower_constant[box, i, p]
                above = people @ lines.upper[box, i, p] + lines.upper_constant[box, i, p]
                assert (below <= value + 1e-12).all()
                assert (value <= above + 1e-12).all()
                assert (lines.least[box, i, p] <= value).all()
                assert (value <= lines.most[box, i, p]).all()


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(["relu", "tanh", "sigmoid", "gelu"]))
def test_bounds_are_never_wider_than_intervals(seed, activation):
    rng = np.random.default_rng(seed)
    relation = small_relation(rng)
    network = random_network(rng, relation, "normal", 1, activation)
    root = Places(relation.free).root
    for arithmetic in ("real", "float32"):
        lines = LinearBounds(network, relation).lines(*Places(relation.free).bounds(root), arithmetic)
        least, most = output_bounds(network, relation, arithmetic)
        slack = 1e-6 * (1 + np.abs(least) + np.abs(most))
        assert (lines.least[0] >= least - slack).all()
        assert (lines.most[0] <= most + slack).all()


def test_groups_count_one_member_and_only_allowed_ones():
    space = FreeSpace(np.zeros(3), np.ones(3), np.ones(3), (slice(0, 3),))
    relation = Relation((View(np.eye(4, 3), np.zeros(4)), View(np.eye(4, 3), np.array([0, 0, 0, 1.0]))), space)
    network = Network((Layer(np.array([[1.0, 2.0, -4.0, 0.5]]), np.zeros(1)),))
    masks = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 0]], np.float64)
    lines = LinearBounds(network, relation).lines(np.zeros((3, 3)), masks, "real")
    assert lines.least[:, 0, 0] == pytest.approx([-4, 1, 2])
    assert lines.most[:, 1, 0] == pytest.approx([2.5, 2.5, 2.5])


def test_a_stable_network_is_bounded_exactly_by_one_line():
    """All neurons active: L and U are the network itself, up to rounding."""
    space = FreeSpace(np.array([0.0]), np.array([1.0]), np.array([0.0]), ())
    relation = Relation((View(np.eye(1), np.zeros(1)),), space)
    network = Network((Layer(np.array([[1.0], [-1.0]]), np.array([2.0, 2.0])), Layer(np.array([[1.0, 1.0]]), [0.0])))
    lines = LinearBounds(network, relation).lines(np.zeros((1, 1)), np.ones((1, 1)), "real")
    assert lines.most[0, 0, 0] - lines.least[0, 0, 0] < 1e-11  # intervals would say [2, 6]


def test_compiled_and_plain_programs_agree():
    rng = np.random.default_rng(3)
    relation = small_relation(np.random.default_rng(5))
    network = random_network(rng, relation, "normal", 1, hidden=[4, 3])
    places, boxes = random_boxes(rng, relation, 4)
    low, high = places.bounds(boxes[np.arange(70) % len(boxes)])
    plain, compiled = (LinearBounds(network, relation, c).lines(low, high) for c in (False, True))
    for one, other in zip(plain, compiled, strict=True):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12)


def test_views_with_different_matrices_are_bounded():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        space = FreeSpace(np.array([-1.0, 0, 0]), np.array([2.0, 1, 1]), np.array([0.0, 1, 1]), (slice(1, 3),))
        relation = Relation(tuple(View(rng.normal(size=(4, 3)), rng.normal(size=4)) for _ in range(3)), space)
        network = random_network(rng, relation, hidden=[3, 3])
        bounds = LinearBounds(network, relation)
        lines = bounds.lines(*Places(space).bounds(Places(space).root), "real")
        for person in everybody(space, reals=5):
            for i, view in enumerate(relation.views):
                check_lines(lines, 0, person, i, exact_scores(network, exact_inputs(view, person)), bounds.pairs)


def test_overflow_claims_nothing():
    space = FreeSpace(np.array([0.0]), np.array([1.0]), np.array([0.0]), ())
    relation = Relation((View(np.eye(1), np.zeros(1)), View(np.eye(1), np.ones(1))), space)
    huge = np.array([[3e38]])
    network = Network((Layer(huge, [3e38]), Layer(huge, [0.0]), Layer(huge, [0.0]), Layer(huge, [1.0])))
    bounds = LinearBounds(network, relation)
    for arithmetic in ("real", "float32"):
        lines = bounds.lines(np.zeros((1, 1)), np.ones((1, 1)), arithmetic)
        assert (lines.least == -np.inf).all()
        assert (lines.most == np.inf).all()
        assert not bounds.judge(np.zeros((1, 1)), np.ones((1, 1)), arithmetic).fair.any()


def test_nan_claims_nothing():
    space = FreeSpace(np.array([0.0]), np.array([1.0]), np.array([0.0]), ())
    relation = Relation((View(np.eye(1), np.zeros(1)), View(np.eye(1), np.ones(1))), space)
    for bad in (np.nan, np.inf):
        network = Network((Layer(np.array([[bad]]), [1.0]), Layer(np.ones((1, 1)), [1.0])))
        assert not LinearBounds(network, relation).judge(np.zeros((1, 1)), np.ones((1, 1))).fair.any()


def test_a_constant_far_above_the_signal_hides_nothing():
    """relu(1e8 + s) − relu(1e8) is s: decided by s, although float32 computes 0."""
    space = FreeSpace(np.array([0.0]), np.array([1.0]), np.array([1.0]), ())
    embed = np.eye(2, 1)
    relation = Relation(tuple(View(embed, np.array([0.0, s])) for s in (-1.0, 1.0)), space)
    first = Layer(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([1e8, 1e8]))
    network = Network((first, Layer(np.array([[1.0, -1.0]]), np.zeros(1))))
    bounds = LinearBounds(network, relation)
    for arithmetic in ("real", "float32"):
        assert not bounds.judge(np.zeros((1, 1)), np.ones((1, 1)), arithmetic).fair.any()
        assert not bounds.points(np.ones((1, 1)), arithmetic)[0].any()


@pytest.mark.parametrize("steps", range(-3, 4))
def test_one_unit_in_the_last_place_decides(steps):
    """The largest logit is 0.1 + 0.2 + bias exactly; a box is called fair only if that is at most 0."""
    space = FreeSpace(np.array([0.0]), np.array([1.0]), np.array([1.0]), ())
    relation = Relation(tuple(View(np.eye(2, 1), np.array([0.0, s])) for s in (-1.0, 1.0)), space)
    tenth, fifth = float(np.float32(0.1)), float(np.float32(0.2))
    bias = np.float32(-(tenth + fifth))
    for _ in range(abs(steps)):
        bias = np.nextafter(bias, np.float32(np.inf * steps))
    network = Network((Layer(np.array([[tenth, fifth]]), [bias]),))
    truly = Fraction(tenth) + Fraction(fifth) + Fraction(float(bias)) <= 0
    bounds = LinearBounds(network, relation)
    assert truly or not bounds.judge(np.zeros((1, 1)), np.ones((1, 1)), "real").fair.any()
    assert truly or not bounds.points(np.ones((1, 1)), "real")[0].any()


def test_effects_that_die_in_dead_neurons_are_seen():
    """The only neuron that reads s is off on this box, so the boundary inside the box does not matter."""
    space = FreeSpace(np.array([-1.0]), np.array([1.0]), np.array([0.0]), ())
    relation = Relation(tuple(View(np.eye(2, 1), np.array([0.0, s])) for s in (-1.0, 1.0)), space)
    first = Layer(np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([1.0, -2.0]))
    network = Network((first, Layer(np.array([[1.0, 5.0]]), np.array([-1.0]))))
    assert LinearBounds(network, relation).judge(-np.ones((1, 1)), np.ones((1, 1))).fair.all()
