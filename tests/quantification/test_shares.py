"""Shares of boxes where sums of functions are above 0, against counting everybody: lattices, real numbers, groups,
weights, and masses that sit on the ends of a range.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

import bornfair.models.network.shares.shares as engine
from bornfair.models.network.shares.nodes import Nodes
from bornfair.models.network.shares.relaxation import Sums
from bornfair.models.network.shares.shares import (
    Axis,
    combined,
    interpolated,
    likely_above,
    lowest_of_views,
    surely_above,
)
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables, Weights
from bornfair.people.twins.relation import FreeSpace

LATTICE, REAL = "lattice", "real"


def of_numbers(*numbers, groups=(), weights=None, beyond=None):
    """Variables of (kind, low, high) in places, and of groups of so many categories."""
    low, high, step, slices = [], [], [], []
    for kind, first, last in numbers:
        low, high, step = [*low, first], [*high, last], [*step, 1.0 if kind == LATTICE else 0.0]
    for size in groups:
        slices.append(slice(len(low), len(low) + size))
        low, high, step = [*low, *[0.0] * size], [*high, *[1.0] * size], [*step, *[1.0] * size]
    free = FreeSpace(np.array(low, float), np.array(high, float), np.array(step), tuple(slices))
    return Variables(free, weights or {}, beyond or {})


def boxes_of(*ends):
    """Boxes from rows of (low, high) for each column."""
    low, high = np.moveaxis(np.array(ends, float), -1, 0)
    return Boxes(low, high)


def weights_of(rng, kind, low, high):
    """Some weights of a number's values, some of which are 0, or a density over its range."""
    count = int(rng.integers(2, 6))
    mass = rng.integers(0, 5, count).astype(float)
    mass[rng.integers(count)] += 1
    upto = np.concatenate([[0.0], np.cumsum(mass)])
    if kind == REAL:
        inner = np.sort(rng.choice(np.arange(1, 32), count - 1, replace=False)) / 32
        return Weights(upto, edges=low + (high - low) * np.concatenate([[0.0], inner, [1.0]]))
    at = np.sort(rng.choice(int(high - low) + 1, min(count, int(high - low) + 1), replace=False))
    return Weights(upto[: len(at) + 1], at=at.astype(float))


def mass_between(variables, number, low, high):
    """What lies in a range, counted out: the values of a lattice from low to high, or the density between them."""
    held, column = variables.weights.get(number), variables.numbers[number]
    if variables.places.lattice[column]:
        if held is None:
            return high - low + 1
        return sum(w for at, w in zip(held.at, np.diff(held.upto), strict=True) if low <= at <= high)
    if held is None:
        return (high - low) / (1.0 if number not in variables.beyond else float(np.ptp(_ends(variables, column))))
    pieces = zip(held.edges[:-1], held.edges[1:], np.diff(held.upto), strict=True)
    return sum(w * max(min(high, b) - max(low, a), 0.0) / (b - a) for a, b, w in pieces)


def _ends(variables, column):
    root = variables.places.root
    return root.low[0, column], root.high[0, column]


def on_ends(variables, number, low, high):
    """The masses beyond, where a range reaches the ends."""
    first, last = _ends(variables, variables.numbers[number])
    below, above = variables.beyond.get(number, (0.0, 0.0))
    return below * (low == first), above * (high == last)


# --- pieces of a number ---


def number_cases():
    """(variables, boxes, most) of one number: plain or weighted, with mass beyond or without."""
    rng = np.random.default_rng(4)
    for kind, weighted, beyond, _ in itertools.product((LATTICE, REAL), (False, True), (None, (3.0, 0.5)), range(6)):
        low, high = (0.0, float(rng.integers(1, 30))) if kind == LATTICE else (-3.0, float(rng.choice([-1.0, 5.0])))
        weights = {0: weights_of(rng, kind, low, high)} if weighted else {}
        variables = of_numbers((kind, low, high), weights=weights, beyond=beyond and {0: beyond})
        ends = [(low, high)]
        while len(ends) < 5:  # boxes of several widths are cut in one call
            first, last = np.sort(rng.integers(0, 17, 2)) / 16 * (high - low) + low
            first, last = (np.floor(first), np.floor(last)) if kind == LATTICE else (first, last)
            first, last = (low, last) if rng.random() < 0.3 else (first, high) if rng.random() < 0.3 else (first, last)
            if first < last or kind == LATTICE:
                ends.append((first, last))
        most = int(rng.choice([2, 3, 4, 7, 8, 64] if kind == LATTICE else [2, 4, 8, 64]))
        yield kind, variables, boxes_of(*[[pair] for pair in ends]), most


def test_pieces_hold_everybody_of_a_range_once_and_never_reach_across_its_middle():
    for kind, variables, boxes, most in number_cases():
        axis = Axis.of(variables, 0, boxes, most)
        tails = 2 if variables.beyond else 0
        assert axis.first.shape == axis.last.shape == axis.chances.shape
        assert axis.chances.shape[1] <= most + tails
        for (low,), (high,), first, last, chances in zip(boxes.low, boxes.high, *axis, strict=True):
            scale = (high - low) / 2 if high > low else 0.5
            begin, end = low + (first + 1) * scale, low + (last + 1) * scale
            below, above = on_ends(variables, 0, low, high)
            masses = [
                mass_between(variables, 0, round(a), round(b)) if kind == LATTICE else mass_between(variables, 0, a, b)
                for a, b in zip(begin, end, strict=True)
            ]
            total = mass_between(variables, 0, low, high) + below + above
            pieces = len(chances) - tails
            held = [i for i in range(pieces) if chances[i] > 0]
            expected = np.array([*masses[:pieces], *((below, above) if tails else ())])
            expected = expected / total if total else expected
            assert chances[held] == pytest.approx(expected[held], abs=1e-12)
            assert chances[pieces:] == pytest.approx(expected[pieces:], abs=1e-12)
            assert chances.sum() == pytest.approx(1.0 if total else 0.0)
            if tails:
                assert (begin[-2], end[-2], begin[-1], end[-1]) == pytest.approx((low, low, high, high))
            assert not ((first < -1e-12) & (last > 1e-12)).any()  # functions bend in the middle
            assert (first <= last).all() and (first >= -1).all() and (last <= 1).all()


def test_a_short_range_is_cut_into_single_people_and_a_long_one_into_equal_parts():
    lattice = of_numbers((LATTICE, 0.0, 99.0))
    for last, most, pieces in (
        (0, 256, 1),
        (1, 256, 2),
        (6, 256, 7),
        (7, 256, 8),
        (99, 256, 100),
        (99, 2, 2),
        (99, 8, 8),
    ):
        axis = Axis.of(lattice, 0, boxes_of([(0.0, last)]), most)
        assert (axis.chances > 0).sum() == pieces
        assert len(axis.ends()) == (1 if pieces == last + 1 else 2)
        assert axis.chances[axis.chances > 0] == pytest.approx(1 / pieces, abs=0.75 / (last + 1))
    real = Axis.of(of_numbers((REAL, -1.0, 3.0)), 0, boxes_of([(-1.0, 3.0)]), 8)
    assert real.first == pytest.approx(np.arange(-1, 1, 0.25)[None]) and real.last == pytest.approx(real.first + 0.25)
    assert real.chances == pytest.approx(1 / 8) and len(real.ends()) == 2


def test_functions_are_interpolated_on_either_side_of_the_middle():
    rng = np.random.default_rng(1)
    values, other = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 3))
    where = rng.uniform(-1, 1, (2, 6))
    for box in range(2):
        assert interpolated(values, where)[box] == pytest.approx(np.interp(where[box], (-1, 0, 1), values[box]))
        along = interpolated(other, where)
        for j in range(3):
            assert along[box, :, j] == pytest.approx(np.interp(where[box], (-1, 0, 1), other[box, :, j]))
        for i in range(6):
            mixed = interpolated(along.swapaxes(1, 2), where)[box, :, i]
            assert mixed == pytest.approx(np.interp(where[box], (-1, 0, 1), along[box, i]))


# --- shares ---


def positive_part(values, low, high):
    """Parts (a, b) of a range where the line through three values is above 0: its ends, its middle."""
    places = np.array([low, (low + high) / 2, high])
    for (a, b), (u, v) in zip(itertools.pairwise(places), itertools.pairwise(values), strict=True):
        if u > 0 and v > 0:
            yield a, b
        elif u > 0 or v > 0:
            root = a + (b - a) * u / (u - v)
            yield (a, root) if u > 0 else (root, b)


def true_share(variables, nodes, box, constant, table):
    """The share where the sum is above 0, if anybody is in the box. All but one real number are enumerated; along that
    one the sum is a line on either side of the middle.
    """
    kinds = [variables.places.lattice[column] for column in variables.numbers]
    choices = []
    for i, column in enumerate(variables.numbers):
        low, high = box.low[0, column], box.high[0, column]
        below, above = on_ends(variables, i, low, high)
        ends = [(low, below), (high, above)]
        inner = [(place, mass_between(variables, i, place, place)) for place in np.arange(low, high + 1)]
        choices.append([*ends, *(inner if kinds[i] else [(None, 1.0)])])
    for i, group in enumerate(variables.groups):
        chances = variables.category_weights(len(variables.numbers) + i) * (box.high[0, group] > 0)
        choices.append(list(enumerate(chances)))

    def axis(i, place):
        """Weights of a number's three nodes at a place, which is given from −1 to 1."""
        column = variables.numbers[i]
        low, high = box.low[0, column], box.high[0, column]
        t = 2 * (place - low) / (high - low) - 1 if high > low else -1.0
        return np.array([max(-t, 0.0), 1 - abs(t), max(t, 0.0)])

    def value(places):
        total = constant
        count = len(nodes.pairs)
        for k, (a, b) in enumerate(nodes.pairs):
            mine = table[[part.start + k for part in nodes.parts[0]]].reshape(3, 3)
            total += axis(a, places[a]) @ mine @ axis(b, places[b])
        for k, a in enumerate(nodes.singles):
            total += axis(a, places[a]) @ table[[part.start + k for part in nodes.parts[1 if count else 0]]]
        for k in range(len(variables.groups)):
            total += table[nodes.parts[k - len(variables.groups)][0]][places[len(variables.numbers) + k]]
        return total

    found = everything = 0.0
    for chosen in itertools.product(*choices):
        mass = float(np.prod([weight for _, weight in chosen]))
        if mass == 0:
            continue
        places = [place for place, _ in chosen]
        if None not in places:
            everything, found = everything + mass, found + mass * (value(places) > 0)
            continue
        along = places.index(None)
        column = variables.numbers[along]
        low, high = box.low[0, column], box.high[0, column]
        everything += mass * mass_between(variables, along, low, high)
        three = [value([*places[:along], at, *places[along + 1 :]]) for at in (low, (low + high) / 2, high)]
        found += mass * sum(mass_between(variables, along, a, b) for a, b in positive_part(three, low, high))
    return found / everything if everything else None


def share_case(rng):
    """Random variables, at most one of them real, a box of them, and a random sum."""
    numbers = [(LATTICE, 0.0, float(rng.integers(0, 9))) for _ in range(int(rng.integers(0, 4)))]
    if rng.random() < 0.6:
        numbers.insert(int(rng.integers(len(numbers) + 1)), (REAL, -1.0, 3.0))
    groups = [3] if rng.random() < 0.5 or not numbers else []
    weights, beyond = {}, {}
    for i, (kind, low, high) in enumerate(numbers):
        if rng.random() < 0.4 and high > low:
            weights[i] = weights_of(rng, kind, low, high)
        if rng.random() < 0.4:
            beyond[i] = tuple(rng.choice([0.0, 0.5, 2.0], 2))
    if groups and rng.random() < 0.5:
        weights[len(numbers)] = Weights(np.array([0.0, 1.0, 3.0, 6.0]), at=np.arange(3.0))
    variables = of_numbers(*numbers, groups=groups, weights=weights, beyond=beyond)
    nodes = Nodes.of(variables, rng.random(len(numbers)))
    ends = []
    for kind, low, high in numbers:
        first, last = np.sort(rng.integers(0, 9, 2) / 8 * (high - low) + low)
        first, last = (np.floor(first), np.floor(last)) if kind == LATTICE else (first, last)
        ends.append((low, high) if rng.random() < 0.5 or (first == last and kind == REAL) else (first, last))
    box = boxes_of([*ends, *[(0.0, 1.0)] * (3 * len(groups))])
    if groups and rng.random() < 0.5:
        box.high[0, len(numbers) + rng.integers(3)] = 0.0
    size = rng.choice([0.0, 1.0, 5.0], (nodes.count, 1))
    table = (rng.normal(size=(nodes.count, 1)) if rng.random() < 0.7 else rng.integers(-2, 3, (nodes.count, 1))) * size
    for k, group in enumerate(variables.groups):
        mine, allowed = nodes.parts[k - len(variables.groups)][0], box.high[0, group] > 0
        table[mine][~allowed] = table[mine][allowed][0]
    return variables, nodes, box, table


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_bounded_closely_by_counting_everybody(seed, monkeypatch):
    rng, close = np.random.default_rng(seed), 0
    for _ in range(40):
        variables, nodes, box, table = share_case(rng)
        monkeypatch.setattr(engine, "COMBINED", int(rng.choice([1, 8, 1024])))
        monkeypatch.setattr(engine, "PIECES", int(rng.choice([16, 256])))
        bins = int(rng.choice([64, 4096]))
        low, high = nodes.lowest(table).sum(), nodes.highest(table).sum()
        constant = -float(rng.choice([rng.uniform(low, high), np.round(rng.uniform(low, high)), low, high]))
        found = surely_above(nodes, box, Sums(np.array([constant]), table), bins)
        assert found.shape == (1,)
        truth = true_share(variables, nodes, box, constant, table[:, 0])
        if truth is None:  # nobody is in the box
            continue
        assert 0 <= found[0] <= truth + 1e-12
        pieces = engine.PIECES if not len(nodes.pairs) else max(min(engine.PIECES, engine.COMBINED / 22), 2)
        near = (high - low) * ((nodes.blocks + 1) / bins + 4 / pieces)
        least = true_share(variables, nodes, box, constant - near, table[:, 0])
        assert found[0] >= least - 1e-6
        close += least > 0
    assert close >= 5


def test_small_domains_are_counted_without_any_loss():
    """Few values are looked up one by one: no bin and no piece makes the bound smaller."""
    rng, less = np.random.default_rng(3), 0
    for _ in range(40):
        numbers = [(LATTICE, 0.0, float(n)) for n in rng.integers(1, 5, 3)]
        variables = of_numbers(*numbers, groups=[3], beyond={1: (2.0, 1.0)})
        nodes = Nodes.of(variables, rng.random(3))
        box, table = (
            boxes_of([*[(low, high) for _, low, high in numbers], *[(0.0, 1.0)] * 3]),
            rng.normal(size=(nodes.count, 1)),
        )
        constant = float(rng.normal())
        truth = true_share(variables, nodes, box, constant, table[:, 0])
        found = surely_above(nodes, box, Sums(np.array([constant]), table))[0]
        assert truth - 1e-9 <= found <= truth + 1e-12
        less += 0.01 < truth < 0.99
    assert less > 20


def test_what_is_exactly_zero_is_not_above_zero():
    variables = of_numbers((LATTICE, 0.0, 3.0))
    nodes, box = Nodes.of(variables, np.ones(1)), boxes_of([(0.0, 3.0)])
    for table, constant, share in (
        ((2.0, 2.0, 2.0), -2.0, 0.0),
        ((-3.0, 0.0, 3.0), 0.0, 0.5),
        ((-3.0, 0.0, 3.0), -3.0, 0.0),
        ((-3.0, 0.0, 3.0), 3.0, 0.75),
        ((-3.0, 0.0, 3.0), 3.0 + 1e-9, 1.0),
        ((-3.0, 0.0, 3.0), np.inf, 0.0),  # what overflowed claims nothing
        ((-3.0, np.nan, 3.0), 9.0, 0.0),
        ((-3.0, 0.0, np.inf), 9.0, 0.0),
    ):
        [found] = surely_above(nodes, box, Sums(np.array([constant]), np.array(table)[:, None]))
        assert share - 1e-9 <= found <= share and (found == 1.0) == (share == 1.0)


def test_transforms_add_no_share_where_nobody_is_above_zero(monkeypatch):
    """Values are added up by Fourier transforms, whose noise must not be taken for people."""
    monkeypatch.setattr(engine, "COMBINED", 1)
    variables, rng = of_numbers(*[(LATTICE, 0.0, 6.0)] * 3, groups=[3, 4, 2]), np.random.default_rng(1)
    nodes = Nodes.of(variables, np.arange(3.0))
    box = boxes_of(*[[*[(0.0, 6.0)] * 3, *[(0.0, 1.0)] * 9]])
    for bins in (64, 1024):
        for _ in range(20):
            table = rng.normal(size=(nodes.count, 1))
            most = nodes.highest(table).sum()
            assert surely_above(nodes, box, Sums(np.array([-most]), table), bins)[0] == 0.0


def test_what_a_transform_may_err_is_subtracted():
    """At least log2(n)·6u relative to the norm of n bins, once for each part and for what is done with them."""
    variables = of_numbers(groups=[2])
    nodes, box = Nodes.of(variables, np.zeros(0)), boxes_of([(0.0, 1.0)] * 2)
    for bins in (64, 1024, 2**14):
        [found] = surely_above(nodes, box, Sums(np.zeros(1), np.array([[1.0], [-1.0]])), bins)
        assert (1 + 2) * 6 * 2.0**-53 * np.log2(bins) * bins**0.5 <= 0.5 - found < 1e-9


def test_few_values_of_many_boxes_are_looked_up_at_once():
    variables = of_numbers(groups=[4])
    nodes, boxes = Nodes.of(variables, np.zeros(0)), boxes_of(*[[(0.0, 1.0)] * 4] * 3)
    table = np.array([[1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, 4.0]]).T
    assert surely_above(nodes, boxes, Sums(np.zeros(3), table)) == pytest.approx([1.0, 0.5, 0.25], abs=1e-9)


def test_boxes_do_not_change_each_others_shares(monkeypatch):
    rng = np.random.default_rng(7)
    variables = of_numbers((LATTICE, 0.0, 40.0), (REAL, 0.0, 1.0), groups=[2], beyond={1: (0.25, 0.0)})
    nodes = Nodes.of(variables, np.array([1.0, 2.0]))
    ends = [[(0.0, 10.0 * k), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)] for k in range(5)]
    boxes, table = boxes_of(*ends), rng.normal(size=(nodes.count, 5))
    table[:, 3] *= 1e6
    table[:, 4] = np.nan
    sums = Sums(rng.normal(size=5), table)
    alone = [float(surely_above(nodes, boxes[np.array([i])], sums.boxes([i]))[0]) for i in range(5)]
    for together in (1, 2, 64):
        monkeypatch.setattr(engine, "TOGETHER", together)
        found = surely_above(nodes, boxes, sums)
        assert found == pytest.approx(alone, abs=0.02) and found[4] == 0.0
    assert surely_above(nodes, boxes[np.zeros(0, int)], sums.boxes(np.zeros(0, int))).shape == (0,)


# --- parts, views and guesses ---


def test_parts_are_joined_where_there_is_room_and_all_their_sums_stay():
    part = engine.Addend
    sizes = (3, 2, 5, 4, 1)
    parts = [part(np.arange(float(n))[None] * 10**k, np.full((1, n), 1 / n)) for k, n in enumerate(sizes)]
    for most, left in ((1000, [120]), (10, [10, 4, 3]), (20, [20, 6]), (1, [5, 4, 3, 2, 1]), (5, [5, 4, 3, 2])):
        found = combined(parts, most)
        assert sorted(one.size for one in found) == sorted(left)
        assert all(one.added.shape == one.chances.shape == (1, one.size) for one in found)
        total = sorted(sum(one) for one in itertools.product(*(p.added[0] for p in found)))
        assert total == sorted(sum(one) for one in itertools.product(*(p.added[0] for p in parts)))
        assert all(one.chances.sum() == pytest.approx(1) for one in found)


def test_one_sum_lies_below_those_of_all_views_at_all_nodes():
    rng, exact = np.random.default_rng(2), np.vectorize(Fraction, otypes=[object])
    variables = of_numbers((LATTICE, 0.0, 5.0), (REAL, 0.0, 1.0), (LATTICE, 0.0, 1.0), groups=[2])
    nodes = Nodes.of(variables, np.array([3.0, 2.0, 1.0]))
    for views in (1, 2, 3):
        table, constants = rng.normal(size=(views, nodes.count, 4)), rng.normal(size=(views, 4))
        shifts = rng.normal(size=(views, nodes.blocks, 4))  # means are taken apart: what one adds, the other may take
        alike = np.repeat(table[:1], views, axis=0) + nodes.at_nodes(shifts)
        for some, constant in ((table, constants), (alike, constants), (alike * 1e6, np.zeros((views, 4)))):
            low = lowest_of_views(nodes, Sums(constant, some))
            assert low.constant.shape == (1, 4) and low.table.shape == (1, nodes.count, 4)
            blocks = [[part[j].start for j in range(len(part))] for part in nodes.parts[:-1]]
            blocks.append(list(range(*nodes.parts[-1][0].indices(nodes.count))))
            for chosen in itertools.product(*blocks):
                mine = exact(low.constant) + exact(low.table[:, list(chosen)]).sum(axis=1)
                theirs = exact(constant) + exact(some[:, list(chosen)]).sum(axis=1)
                assert (mine[0] <= theirs.min(axis=0)).all()
                if views == 1 or some is not table:
                    assert (mine[0] >= theirs.min(axis=0) - Fraction(float(np.abs(some).max())) / 10**11).all()


def test_a_guess_is_that_of_a_normal_sum_between_its_ends():
    """Of linear functions mean and variance are known: of 0 to n in even steps, and of two categories."""
    variables = of_numbers((LATTICE, 0.0, 4.0), (REAL, 0.0, 1.0), groups=[2])
    nodes, box = Nodes.of(variables, np.array([1.0, 2.0])), boxes_of([(0.0, 4.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)])
    weights = nodes.weights(box)
    slopes = {0: 2.0, 1: -0.5}
    table = np.zeros((nodes.count, 1))
    for (a, b), part in zip(itertools.product((-1, 0, 1), repeat=2), nodes.parts[0], strict=True):
        first, second = nodes.pairs[0]
        table[part] = slopes[first] * a + slopes[second] * b
    table[nodes.parts[-1][0], 0] = 1.5, -0.5
    variance = 4.0 * 0.5 + 0.25 / 3 + 1.0  # five even steps from −1 to 1, a range of −1 to 1, two categories
    for constant in (-2.0, -0.5, 0.0, 1.5):
        [found] = likely_above(nodes, Sums(np.array([constant]), table), weights)
        assert found == pytest.approx(ndtr((constant + 0.5) / variance**0.5), abs=1e-12)
    for constant, share in ((3.0, None), (3.0 + 1e-9, 1.0), (-4.0, 0.0), (-4.0 + 1e-9, None)):
        [found] = likely_above(nodes, Sums(np.array([constant]), table), weights)
        assert found == share if share is not None else 0.0 < found < 1.0
    flat = np.zeros_like(table)
    assert [likely_above(nodes, Sums(np.array([c]), flat), weights)[0] for c in (1.0, 0.0, -1.0)] == [1.0, 0.0, 0.0]
