"""The checker's walks through trees and its interval arithmetic, against everybody in a box and exact numbers."""

from __future__ import annotations

import itertools
import math
from array import array
from fractions import Fraction

import numpy as np
import pytest

from bornfair.proof import checker
from bornfair.proof.checker import (
    ForestGraph,
    Grove,
    Individuals,
    InputColumn,
    NetworkGraph,
    Prover,
    Rejected,
    TreeColumn,
)

SEX = {"kind": "categorical", "name": "sex", "categories": ["f", "m", "x"], "missing": False}


def whole(name, low, high, missing=False):
    return {"kind": "integer", "name": name, "low": low, "high": high, "missing": missing}


def real(name, low, high, missing=False):
    return {"kind": "real", "name": name, "low": low, "high": high, "missing": missing, "grid": 17}


def people_of(*features, sensitive=("sex",), **rest):
    label = {"name": "y", "classes": ["no", "yes"]}
    facts = {"format": "bornfair-domain/1", "features": list(features), "sensitive": list(sensitive)}
    return Individuals({**facts, "combinations": None, "label": label, **rest})


# --- trees ---


def random_people(rng):
    features = [SEX]
    for i, kind in enumerate(rng.choice(["whole", "real", "boolean", "levels"], int(rng.integers(1, 4)))):
        name, missing, low = f"{kind}{i}", bool(rng.random() < 0.3), int(rng.integers(-3, 2))
        if kind == "whole":
            features.append(whole(name, low, low + int(rng.integers(0, 5)), missing))
        elif kind == "real":
            features.append(real(name, float(low), low + 2.0, missing))
        elif kind == "boolean":
            features.append({"kind": "boolean", "name": name})
        else:
            features.append({"kind": "categorical", "name": name, "categories": ["a", "b", "c"], "missing": missing})
    return people_of(*features)


def random_forest(rng, people, outputs, trees=3):
    """Splits at whole numbers, at halves and beside the range; tables for levels, and for some whole numbers."""
    places = []
    for name in people.features:
        if people.is_number(name) and not (not people.is_real(name) and not people.gappy(name) and rng.random() < 0.3):
            places.append(TreeColumn(name, None))
        else:
            places.append(
                TreeColumn(name, {level: float(rng.choice([-1.5, 0.0, 1.0, 2.0])) for level in people.levels(name)})
            )
    lists = {name: [] for name in ("reads", "splits", "missing", "yes", "no")}
    targets, weights, roots = [], [], []

    def grow(depth):
        if depth == 0 or (rng.random() < 0.2 and depth < 3):
            targets.append(int(rng.integers(outputs)))
            weights.append(float(rng.choice([-2.0, -0.75, 0.0, 0.5, 1.0])))
            return ~(len(weights) - 1)
        node = len(lists["reads"])
        column = int(rng.integers(len(places)))
        low = people.ends(places[column].feature)[0] if places[column].table is None else -1.0
        split = float(rng.choice([low + rng.integers(-1, 6) / 2, low, math.inf, -math.inf], p=[0.8, 0.1, 0.05, 0.05]))
        for key, value in (("reads", column), ("splits", split), ("missing", int(rng.integers(2)))):
            lists[key].append(value)
        lists["yes"].append(0), lists["no"].append(0)
        lists["yes"][node] = grow(depth - 1)
        lists["no"][node] = grow(depth - 1)
        return node

    while len(roots) < trees:
        roots.append(grow(int(rng.integers(1, 4))))
        if roots[-1] < 0:
            roots.pop()
    return ForestGraph(
        tuple(places),
        roots,
        *lists.values(),
        targets,
        weights,
        outputs,
        at=[0.25] * outputs,
        classes=["no", "yes", "maybe"][: max(outputs, 2)],
    )


def random_box(rng, people):
    box = people.everybody()
    for name, possible in box.items():
        if not people.is_number(name):
            kept = tuple(value for value in possible if rng.random() < 0.7)
            box[name] = kept or possible
            continue
        *ends, gaps = (*possible, None) if None in possible else (*possible, 0)
        if gaps is None and rng.random() < 0.3:
            box[name] = (None,)
            continue
        low, high = sorted(rng.integers(0, 5, 2) / 4 * (ends[1] - ends[0]) + ends[0])
        low, high = (math.floor(low), math.floor(high)) if not people.is_real(name) else (float(low), float(high))
        if low < high or not people.is_real(name) or low == ends[0]:
            ends = low, high
        box[name] = (*ends, *((None,) if gaps is None and rng.random() < 0.5 else ()))
    return box


def members(people, forest, box):
    """Somebody of each kind that splits can tell apart; a part of a real range is without its lower end."""
    choices = []
    for name, possible in box.items():
        if not people.is_number(name):
            choices.append(possible)
            continue
        values = [None] if None in possible else []
        if possible[0] is not None:
            low, high = possible[0], possible[1]
            if people.is_real(name):
                cuts = {low, high}
                for place, split in zip(forest.reads, forest.splits, strict=True):
                    if forest.places[place].feature == name and math.isfinite(split):
                        cuts |= {split, math.nextafter(split, math.inf), math.nextafter(split, -math.inf)}
                cuts |= {math.nextafter(low, math.inf)}
                without = low > people.ends(name)[0]
                values += sorted(v for v in cuts if (low < v if without else low <= v) and v <= high)
            else:
                values += range(low, high + 1)
        choices.append(values)
    return [dict(zip(box, chosen, strict=True)) for chosen in itertools.product(*choices)]


def forest_cases(count, seed, outputs=None):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        people = random_people(rng)
        forest = random_forest(rng, people, outputs or int(rng.choice([1, 2, 3])))
        yield rng, people, forest, random_box(rng, people)


def is_sharp(people, forest):
    """Whether no split is at the lower end of a real range, which is then taken to belong to the part above too."""
    cuts = {(forest.places[place].feature, split) for place, split in zip(forest.reads, forest.splits, strict=True)}
    return not any(people.is_real(name) and split == people.ends(name)[0] for name, split in cuts)


def test_just_those_leaves_are_reached_that_somebody_in_the_box_comes_to():
    sharp = 0
    for _, people, forest, box in forest_cases(200, 1):
        sharp += is_sharp(people, forest)
        for float64 in (False, True):
            grove = Grove(forest, people, float64)
            theirs = [forest.leaves(person) for person in members(people, forest, box)]
            for i, root in enumerate(forest.roots):
                reached, least = grove.reached(root, box), {leaves[i] for leaves in theirs}
                assert least <= set(reached) and len(reached) == len(set(reached))
                assert len(reached) == len(least) or not is_sharp(people, forest)
    assert sharp > 100


def score_of(forest, person):
    sums = [Fraction(0)] * forest.outputs
    for leaf in forest.leaves(person):
        sums[forest.targets[leaf]] += Fraction(forest.weights[leaf])
    return sums


def test_scores_lie_between_the_bounds_of_each_box_and_decide_it():
    """Of one tree the bounds are those of its leaves; of several they hold, and a decision is everybody's."""
    decided = 0
    for _, people, forest, box in forest_cases(150, 2):
        grove = Grove(forest, people, False)
        low, high = grove.bounds(box)
        scores = [score_of(forest, person) for person in members(people, forest, box)]
        assert all(a <= x <= b for score in scores for a, x, b in zip(low, score, high, strict=True))
        by_tree = [[] for _ in range(forest.outputs)]
        for i, _ in enumerate(forest.roots):
            leaves = {forest.leaves(person)[i] for person in members(people, forest, box)}
            for k in range(forest.outputs):
                by_tree[k].append([forest.weights[leaf] if forest.targets[leaf] == k else 0.0 for leaf in leaves])
        for k in range(forest.outputs):
            assert low[k] >= sum(map(min, by_tree[k])) - 1e-9 and high[k] <= sum(map(max, by_tree[k])) + 1e-9
        classes = {checker.decide_trees(forest, person, "real") for person in members(people, forest, box)}
        for best in range(len(forest.classes)):
            if grove.is_decided(box, best):
                assert classes == {best}
                decided += 1
    assert decided > 30


def test_twins_come_to_the_same_leaves_where_no_split_on_the_way_tells_them_apart():
    same = 0
    for _, people, forest, box in forest_cases(200, 3):
        found = Grove(forest, people, False).is_same(box)
        ways = {}
        for person in members(people, forest, box):
            numbers = [place.number(person[place.feature]) for place in forest.places]
            ends = []
            for root in forest.roots:
                at = root
                while at >= 0 and not forest.is_idle(at):
                    at = forest.yes[at] if forest.goes(at, numbers[forest.reads[at]]) else forest.no[at]
                ends.append(at)
            others = tuple(value for name, value in person.items() if name != "sex")
            ways.setdefault(others, set()).add(tuple(ends))
        alike = all(len(several) == 1 for several in ways.values())
        assert found == alike if is_sharp(people, forest) else alike or not found
        same += found
    assert 20 < same < 190


def one_split(feature, split, missing=0, **facts):
    """A tree that adds 1 to those at or below a split, and 0 to others."""
    return ForestGraph(
        (TreeColumn(feature, None),),
        [0],
        [0],
        [split],
        [missing],
        [~0],
        [~1],
        [0, 0],
        [1.0, 0.0],
        1,
        at=[0.5],
        classes=["no", "yes"],
        **facts,
    )


@pytest.mark.parametrize("split", [2.0, 2.5, 3.0, -0.5, 0.0, 5.0, 5.5])
def test_a_split_at_a_half_parts_whole_numbers_as_the_one_below(split):
    people = people_of(SEX, whole("n", 0, 5))
    grove = Grove(one_split("n", split), people, False)
    for low, high in itertools.combinations_with_replacement(range(6), 2):
        box = people.everybody() | {"n": (low, high)}
        below, above = ([n for n in range(low, high + 1) if (n <= split) == side] for side in (True, False))
        assert grove.sides(0, box) == (bool(below), bool(above))
        for side, held in ((True, below), (False, above)):
            if held:
                assert grove._part(0, TreeColumn("n", None), split, box, side)["n"] == (held[0], held[-1])


def test_a_part_of_a_real_range_is_without_its_lower_end():
    people = people_of(SEX, real("r", 0.0, 4.0))
    grove = Grove(one_split("r", 1.5), people, False)
    for low, high, sides in (
        (0.0, 4.0, (True, True)), (0.0, 1.5, (True, False)), (1.5, 4.0, (False, True)), (1.0, 1.5, (True, False)),
        (1.0, 1.75, (True, True)), (2.0, 4.0, (False, True)), (0.0, 0.0, (True, False)),
    ):  # fmt: skip
        assert grove.sides(0, people.everybody() | {"r": (low, high)}) == sides
    at_end = Grove(one_split("r", 0.0), people, False)  # the range itself has its lower end
    assert at_end.sides(0, people.everybody()) == (True, True)
    assert at_end.sides(0, people.everybody() | {"r": (0.5, 1.0)}) == (False, True)
    for side, part in ((True, (0.0, 1.5)), (False, (1.5, 4.0))):
        assert grove._part(0, TreeColumn("r", None), 1.5, people.everybody(), side)["r"] == part


def test_sums_are_exact_in_float64_only_up_to_two_to_the_53():
    for weights, steps, exact in (
        ([1.0, -2.0], (), True),
        ([0.1, 0.2], (), True),
        ([0.1, 0.3], (), True),
        ([0.1, 1.0], (), True),
        ([2.0**52, 0.0], (), True),
        ([2.0**52, 1.5], (), True),
        ([1.0, 0.0], (("Add", [2.0**53 + 2]),), True),
        ([1.0, 0.0], (("Add", [2.0**52]), ("Add", [-(2.0**51)])), True),
        ([2.0**53, 0.0], (), False),
        ([2.0**51, 0.0], (("Add", [0.25]),), True),
        ([2.0**51, 0.0], (("Add", [0.125]),), True),
        ([2.0**50, 0.0], (("Add", [0.0625]),), True),
        ([2.0**51, 0.0], (("Add", [2.0**-3]),), True),
        ([1.0, 0.0], (("Mul", [2.0]),), False),
    ):
        forest = ForestGraph(
            (TreeColumn("n", None),), [0], [0], [2.0], [0], [~0], [~1], [0, 0], weights, 1, steps=steps, at=[0.0]
        )
        bits = max(Fraction(number).denominator for number in (*weights, *(n for _, several in steps for n in several)))
        most = max(map(abs, weights)) + sum(abs(n) for _, several in steps for n in several)
        expected = exact and most * bits < 2**53
        assert forest.adds_exactly == expected
        sizes = [Fraction(max(map(abs, weights)))]
        off = forest.error(sizes)[0]
        if expected:
            assert off == 0
        else:
            [score] = [
                sizes[0] * 2
                if steps and steps[0][0] == "Mul"
                else sizes[0] + sum(abs(Fraction(n)) for _, s in steps for n in s)
            ]
            assert (
                score * Fraction(17, 2**53) + Fraction(1, 2**1000)
                <= off
                <= score * Fraction(18, 2**53) + Fraction(1, 2**900)
            )


# --- covering everybody ---


class Collecting:
    """A prover that proves all leaves but those named 'no', and keeps their boxes."""

    def __init__(self, people):
        self.people, self.boxes = people, []

    def is_fair(self, leaf, box):
        self.boxes.append(dict(box))
        return leaf != "no"


MIXED = people_of(
    SEX, whole("n", 0, 5, missing=True), real("r", -1.0, 1.0),
    {"kind": "categorical", "name": "c", "categories": ["a", "b", "c"], "missing": True},
    {"kind": "boolean", "name": "b"},
)  # fmt: skip


def random_tree(rng, box, depth):
    names = [n for n, possible in box.items() if n != "sex" and len(set(possible)) > 1]
    if depth == 0 or not names:
        return [0]
    name = str(rng.choice(names))
    possible = box[name]
    if MIXED.is_number(name) and None in possible:
        where = None
    elif name == "n":
        where = int(rng.integers(possible[0], possible[1]))
    elif name == "r":
        where = possible[0] + (possible[1] - possible[0]) * float(rng.choice([0.25, 0.5, 0.75]))
    else:
        where = list(possible[: int(rng.integers(1, len(possible)))])
    first, second = checker.cut(possible, name, where, MIXED)
    return [
        [name, where],
        *random_tree(rng, box | {name: first}, depth - 1),
        *random_tree(rng, box | {name: second}, depth - 1),
    ]


def test_the_leaves_of_a_tree_hold_everybody_once():
    rng = np.random.default_rng(4)
    numbers = np.linspace(-1.0, 1.0, 41).tolist()
    everybody = list(itertools.product([*range(6), None], numbers, ["a", "b", "c", None], [False, True]))
    for _ in range(20):
        tree, prover = random_tree(rng, MIXED.everybody(), 4), Collecting(MIXED)
        assert checker.check_tree(tree, prover) == len(prover.boxes) == sum(type(entry) is int for entry in tree)
        for n, r, c, b in everybody:
            holding = [
                box for box in prover.boxes
                if (n in box["n"] if n is None else box["n"][0] is not None and box["n"][0] <= n <= box["n"][1])
                and (box["r"][0] < r <= box["r"][1] or r == box["r"][0] == -1.0) and c in box["c"] and b in box["b"]
            ]  # fmt: skip
            assert len(holding) == 1 and holding[0]["sex"] == ("f", "m", "x")
        with pytest.raises(Rejected, match="goes on after its last leaf"):
            checker.check_tree([*tree, 0], Collecting(MIXED))
        with pytest.raises(Rejected, match=r"leaves 1 part\(s\) of the domain open" if len(tree) > 1 else "open"):
            checker.check_tree(tree[:-1], Collecting(MIXED))
        with pytest.raises(Rejected, match=f"leaf {len(prover.boxes)} .* is not proven"):
            checker.check_tree([*tree[:-1], "no"], Collecting(MIXED))


@pytest.mark.parametrize(
    ("name", "where", "parts"),
    [
        ("m", 0, ((0, 0), (1, 3))),
        ("m", 2, ((0, 2), (3, 3))),
        ("m", 3, None),
        ("m", -1, None),
        ("m", 1.0, None),
        ("m", True, None),
        ("m", None, None),
        ("n", None, ((0, 5), (None,))),
        ("n", 2, None),  # gaps are cut off first
        ("r", -1.0, ((-1.0, -1.0), (-1.0, 1.0))),
        ("r", 0.5, ((-1.0, 0.5), (0.5, 1.0))),
        ("r", 1.0, None),
        ("r", math.nan, None),
        ("c", ["b"], (("b",), ("a", "c", None))),
        ("c", [None], ((None,), ("a", "b", "c"))),
        ("c", [], None),
        ("c", ["a", "b", "c", None], None),
        ("c", ["d"], None),
        ("sex", ["f"], None),
        ("other", 1, None),
    ],
)
def test_a_cut_leaves_nobody_out_and_is_none_where_it_cuts_nothing(name, where, parts):
    people = people_of(*MIXED.features.values(), whole("m", 0, 3))
    possible = people.everybody().get(name, (0, 1))
    if parts is None:
        with pytest.raises(Rejected, match="cut"):
            checker.cut(possible, name, where, people)
    else:
        assert checker.cut(possible, name, where, people) == parts


def test_a_feature_of_gaps_alone_is_not_cut():
    with pytest.raises(Rejected, match="before its gaps are cut off"):
        checker.cut((None,), "n", None, MIXED)


# --- networks ---


def network_of(layers, activation="relu", classes=("no", "yes"), steps=(("Sub", 0.5), ("Div", 4.0)), hot=True):
    """Columns of a whole number, of a real one, and of three values, one-hot or one code."""
    columns = [InputColumn("n", None, steps), InputColumn("r", None, ())]
    if hot:
        columns += [InputColumn("sex", {value: 1.0}) for value in ("f", "m", "x")]
    else:
        columns += [InputColumn("sex", {"f": -1.0, "m": 0.25, "x": 0.75})]
    made = tuple((tuple(array("f", row) for row in weight), array("f", bias)) for weight, bias in layers)
    return NetworkGraph(tuple(columns), made, activation, list(classes), {})


PEOPLE = people_of(SEX, whole("n", 0, 9), real("r", -2.0, 3.0))


def random_network(rng, hidden, outputs, hot, activation="relu"):
    widths = [5 if hot else 3, *hidden, outputs]
    layers = [(rng.normal(size=(b, a)).tolist(), rng.normal(size=b).tolist()) for a, b in itertools.pairwise(widths)]
    return network_of(layers, activation, ("no", "yes", "maybe")[: max(outputs, 2)], hot=hot)


def some_box(rng):
    a, b = sorted(rng.integers(0, 10, 2).tolist())
    c, d = sorted(rng.uniform(-2, 3, 2).tolist())
    kept = [v for v in ("f", "m", "x") if rng.random() < 0.6] or ["m"]
    return {"sex": tuple(kept), "n": (a, b), "r": (c, d)}


def inside(box):
    low, high = box["r"]
    return [
        {"sex": s, "n": n, "r": r}
        for s in box["sex"]
        for n in range(box["n"][0], box["n"][1] + 1)
        for r in (low, (low + high) / 2, high)
    ]


def exact_sums(network, person):
    """The exact sums of all layers of a relu network."""
    values, found = [column.value(person[column.feature], True) for column in network.columns], []
    for depth, (rows, bias) in enumerate(network.layers):
        values = [max(v, Fraction(0)) for v in values] if depth else values
        values = [
            sum(Fraction(w) * v for w, v in zip(row, values, strict=True)) + Fraction(b)
            for row, b in zip(rows, bias, strict=True)
        ]
        found.append(values)
    return found


def test_the_sums_of_everybody_lie_between_the_bounds():
    rng, decided = np.random.default_rng(5), 0
    for _ in range(40):
        outputs, hot = int(rng.choice([1, 3])), bool(rng.random() < 0.5)
        network, box = (
            random_network(rng, rng.integers(1, 4, int(rng.integers(0, 3))).tolist(), outputs, hot),
            some_box(rng),
        )
        everybody = [exact_sums(network, person) for person in inside(box)]
        for float32 in (False, True):
            prover = Prover(network, PEOPLE, float32)
            found = prover.forward(box)
            for depth, sums in enumerate(found):
                for theirs in everybody:
                    assert all(a <= x <= b for a, x, b in zip(sums.low, theirs[depth], sums.high, strict=True))
            first = np.array([theirs[0] for theirs in everybody], float)
            assert np.array(found[0].low) == pytest.approx(first.min(axis=0), abs=1e-4)
            assert np.array(found[0].high) == pytest.approx(first.max(axis=0), abs=1e-4)
            for row in np.eye(outputs).tolist() + (-np.eye(outputs)).tolist():
                bound = prover.backward(box, found, row)[0]
                least = min(sum(Fraction(w) * x for w, x in zip(row, theirs[-1], strict=True)) for theirs in everybody)
                assert bound <= least
                if len(network.layers) == 1:
                    assert bound == pytest.approx(float(least), abs=1e-4)
                    lost = sum(abs(Fraction(w)) * Fraction(e) for w, e in zip(row, found[-1].error, strict=True))
                    assert not float32 or bound <= least - lost
            classes = {checker.decide_exactly(network, person) for person in inside(box)}
            for best in range(len(network.classes)):
                if prover.is_decided(box, best):
                    decided += 1
                    assert classes == {best}
    assert decided > 20


def test_lines_over_a_relu_reach_it_at_both_ends():
    """relu(n) for n from −1 to 3 in one hidden neuron: at least 0 or n, at most the chord."""
    people = people_of(SEX, whole("n", -1, 3), real("r", 0.0, 1.0))
    box = people.everybody()
    for sign, low, high, bound in (
        (1.0, -1, 3, -1.0), (1.0, -3, 1, 0.0), (-1.0, -1, 3, -3.0), (-1.0, -3, 1, -1.0), (1.0, 1, 3, 1.0),
        (-1.0, 1, 3, -3.0), (1.0, -3, -1, 0.0), (-1.0, -3, -1, 0.0), (-1.0, -3, 0, 0.0), (1.0, 0, 2, 0.0),
    ):  # fmt: skip
        network = network_of([([[1.0, 0, 0, 0, 0]], [0.0]), ([[sign]], [0.0])], steps=())
        prover = Prover(network, people, False)
        inner = box | {"n": (low, high)}
        found, _ = prover.backward(inner, prover.forward(inner), [1.0])
        assert found <= bound and found == pytest.approx(bound, abs=1e-9)
    # With x − relu(x) the chord and the input are added up before they are bounded: −3 to 1 gives −3 at least.
    both = network_of([([[1.0, 0, 0, 0, 0], [-1.0, 0, 0, 0, 0]], [0.0, 0.0]), ([[-1.0, 1.0]], [0.0])], steps=())
    prover = Prover(both, people, False)
    inner = box | {"n": (-1, 3)}
    assert prover.backward(inner, prover.forward(inner), [1.0])[0] == pytest.approx(-3.0, abs=1e-9)


def test_the_error_of_a_layer_is_that_of_its_terms():
    """γ of n terms and four more, of Σ|w||x| + |b| as far as anybody in the box goes; what underflows is tiny."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        network = random_network(rng, [3], 2, hot=bool(rng.random() < 0.5))
        if rng.random() < 0.5:
            network = network._replace(
                layers=tuple((rows, array("f", [16 * b for b in bias])) for rows, bias in network.layers)
            )
        box = some_box(rng)
        everybody = inside(box)
        for float32 in (True, False):
            prover = Prover(network, PEOPLE, float32)
            found, below, above = prover.forward(box), None, None
            for depth, (rows, bias) in enumerate(network.layers):
                if depth:
                    most = [max(abs(max(a, 0.0)), max(b, 0.0)) for a, b in zip(below, above, strict=True)]
                else:
                    inputs = np.array(
                        [[float(c.value(p[c.feature], True)) for c in network.columns] for p in everybody]
                    )
                    most = np.abs(inputs).max(axis=0).tolist()
                count = len(most) + 4
                for i, (row, b) in enumerate(zip(rows, bias, strict=True)):
                    size = sum(abs(w) * m for w, m in zip(row, most, strict=True)) + abs(b)
                    if depth == 0 and prover.hot:  # exactly one of three is 1
                        hot = [
                            abs(row[k])
                            for k, c in enumerate(network.columns)
                            if c.feature == "sex" and set(c.table) & set(box["sex"])
                        ]
                        size += max(hot) - sum(hot)
                    gamma = count * 2.0**-24 / (1 - count * 2.0**-24) if float32 else 0.0
                    own = 4 * (len(network.columns) + 5 + 64) * 2.0**-53
                    expected = (gamma + own) * size
                    assert expected * (1 - 1e-9) <= found[depth].error[i] <= expected * (1 + 1e-5) + 1e-30
                below, above = found[depth].low, found[depth].high


def test_what_underflows_is_counted():
    """Weights of 2⁻¹³⁰: each product may lose 2⁻¹²⁴ by flushing, and so may what is multiplied."""
    tiny = network_of([([[2.0**-130] * 5], [2.0**-130])])
    box = {"sex": ("f",), "n": (4, 4), "r": (1.0, 1.0)}
    [sums] = Prover(tiny, PEOPLE, True).forward(box)
    reach = abs((4 - 0.5) / 4) + 1.0 + 1.0
    assert sums.error[0] == pytest.approx(2.0**-124 * (reach + 5 * 7), rel=1e-6)
    [sums] = Prover(tiny, PEOPLE, False).forward(box)
    assert 0 < sums.error[0] < 2.0**-150


@pytest.mark.parametrize("layer", [0, 1])
def test_sums_that_may_overflow_are_refused(layer):
    for size, kept in ((2.0**124, True), (2.0**126, False), (-(2.0**126), False)):
        layers = [([[1.0, 0, 0, 0, 0]], [0.0]), ([[1.0]], [0.0])]
        layers[layer] = (layers[layer][0], [size])
        prover = Prover(network_of(layers), PEOPLE, True)
        if kept:
            assert prover.forward(PEOPLE.everybody())
        else:
            with pytest.raises(Rejected, match="a sum may overflow"):
                prover.forward(PEOPLE.everybody())


def test_inputs_that_may_overflow_are_refused_even_if_nothing_reads_them():
    for high, kept in ((2.0**125, True), (2.0**126, False)):
        people = people_of(SEX, whole("n", 0, 9), real("r", 0.0, high))
        prover = Prover(network_of([([[0.0] * 5], [0.0])]), people, True)
        if kept:
            assert prover.forward(people.everybody())
        else:
            with pytest.raises(Rejected, match="a sum may overflow"):
                prover.forward(people.everybody())


def test_a_middle_reaches_both_ends():
    rng = np.random.default_rng(7)
    for low, high in [
        (0.0, 0.0),
        (-1.0, 1.0),
        (1.0, 1.0 + 2.0**-52),
        *np.sort(rng.normal(size=(200, 2)), axis=1).tolist(),
    ]:
        centre, radius = checker._middle(low, high)
        exact = Fraction(centre)
        assert exact - Fraction(radius) <= Fraction(low) and Fraction(high) <= exact + Fraction(radius)
        assert radius <= (high - low) / 2 * (1 + 1e-12) + 1e-15 and (radius == 0) == (low == high)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_smooth_activations_are_bounded_by_their_values_at_the_ends(activation):
    rise = math.tanh if activation == "tanh" else lambda z: 1 / (1 + math.exp(-z))
    layers = [([[1.0, 0, 0, 0, 0]], [-1.0]), ([[2.0]], [0.5])]
    for float32, pad in ((True, 2.0**-20), (False, 2.0**-48)):
        prover = Prover(network_of(layers, activation, steps=()), PEOPLE, float32)
        first, last = prover.forward(PEOPLE.everybody() | {"n": (0, 2)})
        assert (first.low[0], first.high[0]) == pytest.approx((-1.0, 1.0), abs=1e-5)
        low, high = 2 * (rise(first.low[0]) - pad) + 0.5, 2 * (rise(first.high[0]) + pad) + 0.5
        assert (last.low[0], last.high[0]) == pytest.approx((low - last.error[0], high + last.error[0]), abs=1e-15)
    with pytest.raises(Rejected, match="no bounds are known for gelu"):
        Prover(network_of(layers, "gelu"), PEOPLE, True).forward(PEOPLE.everybody())


def test_inputs_are_rounded_outwards():
    """(n − 0.1)/3 is no float: real arithmetic is between its neighbours, float32 where its steps round."""
    network = network_of([([[1.0, 0, 0, 0, 0]], [0.0])], steps=(("Sub", 0.1), ("Div", 3.0)))
    for low, high in ((2, 2), (1, 5)):
        exact = [(Fraction(n) - Fraction(0.1)) / 3 for n in (low, high)]
        for float32 in (False, True):
            [(least, most)] = Prover(network, PEOPLE, float32).inputs("n", (low, high))
            assert Fraction(least) < exact[0] and exact[1] < Fraction(most)
            assert least == pytest.approx(float(exact[0]), rel=2e-7) and most == pytest.approx(
                float(exact[1]), rel=2e-7
            )
            if float32:
                executed = [float(np.float32((n - 0.1) / 3.0)) for n in (low, high)]
                assert least <= executed[0] and executed[1] <= most


def test_a_decision_needs_a_lead_over_every_other_class():
    box = PEOPLE.everybody()
    for bias, best in (([2.0, 1.0, 0.0], 0), ([0.0, 1.0, 0.5], 1), ([0.0, 1.0, 1.5], 2), ([1.0, 1.0, 0.0], None)):
        prover = Prover(network_of([([[0.0] * 5] * 3, bias)], classes=("a", "b", "c")), PEOPLE, False)
        assert [k for k in range(3) if prover.is_decided(box, k)] == ([] if best is None else [best])
    for bias, best in ((1.0, 1), (-1.0, 0), (2.0**-149, 1), (-(2.0**-149), 0)):
        prover = Prover(network_of([([[0.0] * 5], [bias])]), PEOPLE, False)
        assert [k for k in range(2) if prover.is_decided(box, k)] == [best]
    exactly = Prover(network_of([([[0.0] * 5], [0.0])]), PEOPLE, True)  # 0 is not above 0, but an error may be
    assert not exactly.is_decided(box, 1) and not exactly.is_decided(box, 0)


def test_what_differs_between_twins_dies_out_where_its_neurons_are_off():
    """Neuron 0 reads sex and n, neuron 1 only r."""
    layers = [([[1.0, 0, 0.5, -0.5, 0.25], [0, 1.0, 0, 0, 0]], [-4.0, 0.0]), ([[1.0, 1.0]], [0.0])]
    prover, box = Prover(network_of(layers, steps=()), PEOPLE, True), PEOPLE.everybody()
    assert prover.is_same(box | {"n": (0, 3)}) and not prover.is_same(box | {"n": (0, 4)})
    assert not prover.is_same(box)
    unheard = [layers[0], ([[0.0, 1.0]], [0.0])]
    assert Prover(network_of(unheard, steps=()), PEOPLE, True).is_same(box)
    assert not Prover(network_of(layers, "tanh", steps=()), PEOPLE, True).is_same(box | {"n": (0, 3)})


# --- reasons of leaves ---


def prover_of(weights, bias, people=PEOPLE, *, float32=False, activation="relu", steps=()):
    return Prover(network_of([([weights], [bias])], activation, steps=steps), people, float32)


def test_a_leaf_of_a_network_needs_a_class_or_a_reason_that_holds():
    box = PEOPLE.everybody() | {"n": (5, 9)}
    plain = prover_of([1.0, 0, 0, 0, 0], -4.5)  # n > 4.5
    wrong = [0, 2, -1, True, False, 1.0, "1", None, {}, {"each": 0}, {"each": 2}, {"each": -1}, {"each": True}]
    wrong += [{"each": 1.0}, {"each": 1, "more": 1}, {"one": 1}, "exact", "Same", "", ["same"]]
    for leaf, fair in ((1, True), ({"each": 1}, True), ("same", True), *((leaf, False) for leaf in wrong)):
        assert plain.is_fair(leaf, box) == fair
    assert plain.is_fair(0, box | {"n": (0, 4)}) and not plain.is_fair(1, box | {"n": (4, 9)})
    one = box | {"n": (5, 5), "r": (0.5, 0.5)}
    assert plain.is_fair("exact", one) and not prover_of([1.0, 0, 0, 0, 0], -4.5, float32=True).is_fair("exact", one)
    by_sex = prover_of([1.0, 0, 0, -5.0, 0], -4.5)  # men need n > 9.5
    for leaf in (0, 1, {"each": 0}, {"each": 1}, "same", "exact"):
        assert not by_sex.is_fair(leaf, one)
    low = one | {"n": (4, 4)}
    assert all(by_sex.is_fair(leaf, low) for leaf in (0, {"each": 0}, "exact")) and not by_sex.is_fair("same", low)
    tanh = prover_of([1.0, 0, 0, 0, 0], -4.5, activation="tanh")
    assert not tanh.is_fair("exact", one)  # has no exact values
    many = prover_of([1.0, 0, 0, 0, 0], -4.5)
    many.__dict__["views"] = None  # more than can be looked at one by one
    assert many.is_fair(1, one) and not many.is_fair({"each": 1}, one) and not many.is_fair("exact", one)


def test_a_value_is_one_where_the_network_cannot_tell_it_from_others():
    held = prover_of([1.0, 0, 0, 0, 0], 0.0, steps=(("Max", 5.0), ("Min", 7.0)))
    for name, possible, one in (
        ("n", (4, 4), True), ("n", (2, 4), True), ("n", (2, 5), True), ("n", (2, 6), False), ("n", (7, 9), True),
        ("r", (0.5, 0.5), True), ("r", (0.5, 0.75), False), ("sex", ("f",), True), ("sex", ("f", "m"), False),
    ):  # fmt: skip
        assert held.is_one(name, possible) == one
    whole_box = PEOPLE.everybody() | {"n": (0, 5), "r": (0.5, 0.5)}
    assert held.is_fair("exact", whole_box) and not held.is_fair("exact", whole_box | {"n": (0, 6)})


def test_a_class_that_leads_by_a_little_everywhere_is_decided():
    layers = [([[1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0]], [0.5, 0.0])]  # n + 0.5 and n
    prover = Prover(network_of(layers, steps=()), PEOPLE, True)
    assert prover.is_decided(PEOPLE.everybody(), 0) and not prover.is_decided(PEOPLE.everybody(), 1)


def test_twins_by_rules_must_get_the_class_too():
    mirror = [[{"kind": "mirror", "feature": "n", "total": 9}]]
    people = people_of(SEX, whole("n", 0, 9), real("r", -2.0, 3.0), twins=mirror)
    layers = [([[1.0, 0, 0, 0, 0], [-1.0, 0, 0, 0, 0]], [-6.5, 2.5]), ([[1.0, 1.0]], [-0.25])]
    both, box = Prover(network_of(layers, steps=()), people, False), people.everybody()
    assert both.is_fair(1, box | {"n": (7, 9)}) and both.is_fair({"each": 1}, box | {"n": (0, 2)})
    assert both.is_fair(0, box | {"n": (3, 6)}) and both.is_fair("exact", box | {"n": (7, 7), "r": (0.5, 0.5)})
    above = Prover(network_of([([[1.0, 0, 0, 0, 0]], [-4.5])], steps=()), people, False)
    for n in ((7, 9), (0, 2), (7, 7)):
        inner = box | {"n": n, "r": (0.5, 0.5)}
        assert not any(above.is_fair(leaf, inner) for leaf in (0, 1, {"each": 0}, {"each": 1}, "exact", "same"))


def test_a_leaf_of_trees_needs_a_class_or_a_reason_that_holds():
    people = people_of(SEX, whole("n", 0, 9))
    grove, box = Grove(one_split("n", 4.5), people, False), people.everybody() | {"n": (0, 4)}
    wrong = [0, 2, -1, True, 1.0, "1", None, {}, {"each": 0}, {"each": 2}, {"each": -1}, {"each": True}, "exact"]
    wrong += [{"each": 1, "more": 1}, {"one": 1}, "Same"]
    for leaf, fair in ((1, True), ({"each": 1}, True), ("same", True), *((leaf, False) for leaf in wrong)):
        assert grove.is_fair(leaf, box) == fair
    assert grove.is_fair(0, box | {"n": (5, 9)}) and grove.is_fair({"each": 0}, box | {"n": (5, 9)})
    assert not grove.is_fair(1, box | {"n": (4, 5)}) and not grove.is_fair(0, box | {"n": (4, 5)})
    assert grove.is_fair("same", box | {"n": (4, 5)})
    grove.__dict__["views"] = None
    assert not grove.is_fair({"each": 1}, box) and grove.is_fair(1, box)
    by_sex = one_split("n", 0.5)
    by_sex = ForestGraph((TreeColumn("sex", {"f": 0.0, "m": 1.0, "x": 0.0}),), *list(vars(by_sex).values())[1:12])
    for leaf in (0, 1, {"each": 0}, {"each": 1}, "same"):
        assert not Grove(by_sex, people, False).is_fair(leaf, box)
    women = people_of({**SEX, "categories": ["f", "x"]}, whole("n", 0, 9))
    assert Grove(by_sex, women, False).is_fair("same", women.everybody())


def test_rounded_sums_of_trees_claim_less():
    people = people_of(SEX, whole("n", 0, 9))
    forest = ForestGraph(
        (TreeColumn("n", None),), [0, 1], [0, 0], [4.5, 2.5], [0, 0], [~0, ~2], [~1, ~3], [0] * 4,
        [0.1, 1e9, 0.3, -1e9], 1,
        at=[0.4 + 5e-16], classes=["no", "yes"],
    )  # fmt: skip
    assert not forest.adds_exactly and forest.largest == pytest.approx(2e9, rel=1e-5)
    exact, rounded = Grove(forest, people, False), Grove(forest, people, True)
    box = people.everybody() | {"n": (0, 2)}
    for inner in (box, people.everybody()):
        (low, high), (below, above) = exact.bounds(inner), rounded.bounds(inner)
        sizes = [Fraction(1, 10) + Fraction(3, 10)] if inner is box else [Fraction(2 * 10**9)]
        off = float(forest.error(sizes)[0])
        assert off > 0 and [float(low[0] - below[0]), float(above[0] - high[0])] == pytest.approx([off, off], rel=1e-6)
    assert exact.is_decided(box, 0) and not exact.is_decided(box, 1)
    assert not rounded.is_decided(box, 0) and not rounded.is_decided(box, 1)
    assert exact.is_fair("same", box) and not rounded.is_fair("same", box)
    assert checker.decide_trees(forest, {"n": 1, "sex": "f"}, "real") == 0
    assert checker.decide_trees(forest, {"n": 1, "sex": "f"}, "float64") is None
    assert checker.decide_trees(forest, {"n": 5, "sex": "f"}, "float64") == 0


def test_scores_at_the_threshold_are_not_above_it():
    people, half = people_of(SEX, whole("n", 0, 9)), one_split("n", 4.5)
    forest = ForestGraph(half.places, *list(vars(half).values())[1:10], at=[1.0], classes=["no", "yes"])
    grove = Grove(forest, people, True)
    assert not grove.is_decided(people.everybody(), 0) and not grove.is_decided(people.everybody(), 1)
    assert checker.decide_trees(forest, {"n": 1, "sex": "f"}, "float64") == 0


@pytest.mark.parametrize(
    ("cycles", "table", "same"),
    [
        ([["a", "b"]], (0.0, 0.0, 1.0), True),
        ([["a", "b"]], (0.0, 1.0, 1.0), False),
        ([["b", "c"]], (0.0, 1.0, 1.0), True),
        ([["a", "b", "c"]], (0.0, 0.0, 1.0), False),
        ([["a", "b", "c"]], (1.0, 1.0, 1.0), True),
    ],
)
def test_a_split_tells_twins_apart_if_any_values_of_a_rule_go_apart(cycles, table, same):
    rule = [[{"kind": "cycles", "feature": "c", "cycles": cycles}]]
    c = {"kind": "categorical", "name": "c", "categories": ["a", "b", "c"], "missing": False}
    people = people_of(SEX, c, twins=rule)
    place = TreeColumn("c", dict(zip("abc", table, strict=True)))
    forest = ForestGraph(
        (place,), [0], [0], [0.5], [0], [~0], [~1], [0, 0], [1.0, 0.0], 1, at=[0.5], classes=["no", "yes"]
    )
    grove = Grove(forest, people, False)
    assert grove.is_fair("same", people.everybody()) == same
    others = cycles[0] if "a" in cycles[0] else ["a"]
    assert grove.is_fair(1, people.everybody() | {"c": ("a",)}) == all(place.table[value] == 0.0 for value in others)
    if same:
        assert checker.prove_trees(forest, people) == {"real", "float64"}
    else:
        with pytest.raises(Rejected, match="a split tells c"):
            checker.prove_trees(forest, people)


def test_many_splits_and_values_of_rules_are_refused(monkeypatch):
    c = {"kind": "categorical", "name": "c", "categories": ["a", "b", "c"], "missing": False}
    people = people_of(SEX, c, twins=[[{"kind": "cycles", "feature": "c", "cycles": [["a", "b"]]}]])
    forest = ForestGraph(
        (TreeColumn("c", dict.fromkeys("abc", 0.0)),), [0], [0], [0.5], [0], [~0], [~1], [0, 0], [1.0, 0.0], 1
    )
    for most, kept in ((2, True), (1, False)):  # one split, and two pairs of values
        monkeypatch.setattr(checker, "MOST_PRODUCTS", most)
        if kept:
            assert checker.prove_trees(forest, people) == {"real", "float64"}
        else:
            with pytest.raises(Rejected, match="so many splits keep rules takes too long"):
                checker.prove_trees(forest, people)


def test_a_split_is_idle_only_if_both_sides_are_leaves_that_add_the_same():
    for yes, no, targets, weights, idle in (
        (~0, ~1, [0, 0], [1.0, 1.0], True), (~1, ~0, [0, 0], [1.0, 1.0], True), (~0, ~1, [0, 1], [1.0, 1.0], False),
        (~0, ~1, [0, 0], [1.0, 1.5], False), (1, ~0, [0, 0, 0], [1.0, 1.0, 1.0], False),
        (~0, 1, [0, 0, 0], [1.0, 1.0, 1.0], False), (1, ~2, [0, 0, 0], [1.0, 1.0, 1.0], False),
    ):  # fmt: skip
        forest = ForestGraph((), [0], [0, 0], [0.0, 0.0], [0, 0], [yes, ~1], [no, ~2], targets, weights, 2)
        assert forest.is_idle(0) == idle


@pytest.mark.parametrize(
    ("roots", "yes", "no", "leaves", "fault"),
    [
        ([0], [1, ~0], [~2, ~1], 3, None),
        ([1], [~0, 0], [~1, ~2], 3, None),
        ([1, 0], [~0, ~2], [~1, ~3], 4, None),
        ([0], [2, ~0], [~1, ~2], 3, "leads to what is not there"),
        ([0], [1, ~3], [~2, ~1], 3, "leads to what is not there"),
        ([], [], [], 0, "begins where there is no split"),
        ([2], [1, ~0], [~2, ~1], 3, "begins where there is no split"),
        ([-1], [1, ~0], [~2, ~1], 3, "begins where there is no split"),
        ([0, 0], [1, ~0], [~2, ~1], 3, "a split is reached in two ways"),
        ([0, 1], [1, ~0], [~2, ~1], 3, "a split is reached in two ways"),
        ([0], [1, 0], [~2, ~1], 3, "a split is reached in two ways"),
        ([0], [~1], [~1], 2, "the same number"),
        ([0], [1, ~1], [~2, ~1], 3, "the same number|a leaf is reached in two ways"),
        ([0], [2, ~0, ~3], [1, ~1, ~0], 4, "a leaf is reached in two ways"),
        ([0], [1, ~0], [~2, ~1], 4, "no tree reaches"),
        ([0], [~0, ~2], [~1, ~3], 4, "no tree reaches"),
        ([0], [~0, 1], [~1, ~2], 3, "no tree reaches"),
    ],
)
def test_trees_are_trees(roots, yes, no, leaves, fault):
    if fault is None:
        checker._check_trees(roots, yes, no, leaves)
    else:
        with pytest.raises(Rejected, match=fault):
            checker._check_trees(roots, yes, no, leaves)


def test_lists_of_numbers_are_as_long_as_they_say():
    doubles = array("d", [1.5, -2.0]).tobytes()
    good = {"dims": [2], "type": checker.DOUBLE, "raw": doubles, "strings": []}
    assert list(checker._numbers(good, checker.DOUBLE)) == [1.5, -2.0]
    assert list(checker._numbers(good | {"dims": [3], "type": 2, "raw": b"\x00\x01\x02"}, 2)) == [0, 1, 2]
    for wrong, fault in (
        (good | {"dims": [1]}, "another length"), (good | {"dims": [2, 1]}, "another length"),
        (good | {"raw": doubles[:-1]}, "another length"), (good | {"dims": []}, "another length"),
        (good | {"type": 1}, "another type"), (good | {"strings": [b"a"]}, "another type"),
        (good | {"more": 1}, "odd"), ([1.0], "odd"),
    ):  # fmt: skip
        with pytest.raises(Rejected, match=fault):
            checker._numbers(wrong, checker.DOUBLE)
    assert checker._flags({"nodes_trueleafs": [0, 1, 1]}, "true") == [0, 1, 1]
    with pytest.raises(Rejected, match="is odd"):
        checker._flags({"nodes_falseleafs": [0, 2]}, "false")
