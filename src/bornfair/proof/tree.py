"""Proof trees for certificates: cuts of the domain with a reason at each leaf, found by branch and bound.

The bounds are the checker's own. The engines of this package prove more per box, but a sceptic would have to trust
them. A tree found here is accepted by `bornfair.proof.checker`, which does not import this module.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from bornfair.core.clock import Clock, Say
from bornfair.models.network.activations import ACTIVATIONS
from bornfair.proof import checker
from bornfair.proof.checker import Box, ForestGraph, Grove, Individuals, LayerSums, Prover
from bornfair.verification.frontier import Frontier

FEW_VIEWS = checker.PIECES  # sensitive values that are looked at one by one in every box, not only for single people
MARGIN = 2.0  # times the checker's own allowance for rounding: what is found here, it will surely accept

Decided = tuple[Any, tuple[str, Any] | None]
"""The reason why a box is fair; else where it is to be cut, None where it cannot be."""


def find_tree(
    network: checker.NetworkGraph | ForestGraph,
    people: Individuals,
    *,
    executed: bool,
    timeout: float,
    most_leaves: int = 100_000,
    say: Say | None = None,
) -> list[Any] | None:
    """A tree of cuts with a reason at each leaf, in the certificate's form; None if none is found in time.

    executed: whether the reasons must hold as executed (float32, forests float64) and not only in real arithmetic.
    """
    decided: Callable[[Box], Decided]
    if isinstance(network, ForestGraph):
        decided = functools.partial(_decided_by_trees, Grove(network, people, executed))
    else:
        decided = functools.partial(_decided_by_layers, Prover(network, people, executed, margin=MARGIN))
    tree, leaves = list[Any](), 0
    frontier = Frontier([people.everybody()], tree, Clock(timeout, say))  # depth-first, as the tree is written down

    def step() -> str | None:
        nonlocal leaves
        if leaves >= most_leaves:
            return "too many leaves"
        box = frontier.open.pop()
        leaf, where = decided(box)
        if leaf is not None:
            tree.append(leaf)
            leaves += 1
            return None
        if where is None:
            return "nothing left to cut"
        tree.append(list(where))
        name, at = where
        frontier.open.extend(box | {name: part} for part in reversed(checker.cut(box[name], name, at, people)))
        return None

    def progress() -> str:
        return f"proof tree: {leaves:,} leaves, {len(frontier.open):,} boxes wait"

    return tree if frontier.work(step, progress) is None else None


def _few_views(prover: Prover | Grove) -> bool:
    return len(prover.views or ()) * len(prover.people.elements) <= FEW_VIEWS


# --- networks ---


def _decided_by_layers(prover: Prover, box: Box) -> Decided:
    sums = prover.forward(box)
    middle = [a / 2 + b / 2 for a, b in zip(sums[-1].low, sums[-1].high, strict=True)]
    likely = int(middle[0] > 0) if len(middle) == 1 else middle.index(max(middle))
    if prover.is_decided_all(box, likely, sums):
        return likely, None
    if prover.is_same(box):
        return "same", None
    alone = all(prover.is_one(name, box[name]) for name in box if name not in prover.people.sensitive)
    if alone or _few_views(prover):
        for best in [likely] if not alone else range(len(prover.network.classes)):
            if prover.is_decided_each(box, best):
                return {"each": best}, None
    if alone and prover.is_fair("exact", box):
        return "exact", None
    return None, _widest(prover, box, sums)


def _widest(prover: Prover, box: Box, sums: list[LayerSums]) -> tuple[str, Any] | None:
    """The feature along which the bounds are widest, and where to cut it; None for a single person."""
    slope = _slopes(prover, box, sums)
    best: tuple[float, float, str, Any] | None = None
    for name, possible in box.items():
        if name in prover.people.sensitive or name not in prover.places or prover.is_one(name, possible):
            continue
        places = prover.places[name]
        where: Any
        if prover.people.is_number(name) and None in possible:
            where, width = None, 0.0  # who has the number, and who has not: before it is cut itself
            for place, (low, high) in zip(places, prover.inputs(name, possible), strict=True):
                width += abs(slope[place]) * (high - low)
        elif prover.people.is_number(name):
            where = possible[0] + (possible[1] - possible[0]) / 2
            if prover.people.features[name]["kind"] == "integer":
                where = (possible[0] + possible[1]) // 2
            elif not possible[0] < where < possible[1]:
                continue
            low, high = prover.inputs(name, possible)[0]
            width = abs(slope[places[0]]) * (high - low)
        else:
            columns = [prover.network.columns[j].table or {} for j in places]
            value = {v: sum(slope[j] * t.get(v, 0.0) for j, t in zip(places, columns, strict=True)) for v in possible}
            ordered = sorted(possible, key=lambda v, value=value: value[v])  # type: ignore[misc]
            where, width = ordered[: len(ordered) // 2], max(value.values()) - min(value.values())
        spread = sum(prover.share(name, possible)[1])  # for boxes of which the bounds know nothing
        if best is None or (width, spread) > best[:2]:
            best = width, spread, name, where
    return None if best is None else best[2:]


def _slopes(prover: Prover, box: Box, sums: list[LayerSums]) -> list[float]:
    """How the outputs' bounds depend on each input."""
    outputs = len(prover.layers[-1][1])
    if not ACTIVATIONS[prover.network.activation].exact:
        return [0.0] * len(prover.network.columns)
    total = [0.0] * len(prover.network.columns)
    for k in range(outputs):
        up = prover.backward(box, sums, [float(i == k) for i in range(outputs)])[1]
        down = prover.backward(box, sums, [-float(i == k) for i in range(outputs)])[1]
        total = [t + a - b for t, a, b in zip(total, up, down, strict=True)]
    return total


# --- forests ---


def _decided_by_trees(grove: Grove, box: Box) -> Decided:
    forest = grove.network
    low, high = grove.bounds(box)
    middle = [(a + b) / 2 - checker.Fraction(c) for a, b, c in zip(low, high, forest.at, strict=True)]
    likely = int(middle[0] > 0) if len(middle) == 1 else middle.index(max(middle))
    if grove.is_decided_all(box, likely):
        return likely, None
    if grove.is_fair("same", box):
        return "same", None
    if _few_views(grove):
        for best in dict.fromkeys([likely, *range(len(forest.classes))]):
            if grove.is_decided_each(box, best):
                return {"each": best}, None
    return None, _widest_split(grove, box)


def _widest_split(grove: Grove, box: Box) -> tuple[str, Any] | None:
    """The split, of a feature that is not sensitive, that divides most of what is open; None if none divides any."""
    forest, people, weight = grove.network, grove.people, dict[tuple[str, Any], float]()
    for root in forest.roots:
        leaves = [forest.weights[leaf] for leaf in grove.reached(root, box)]
        open_by = max(leaves) - min(leaves)
        if not open_by:
            continue
        waiting, depth = [(root, 1.0)], 0
        while waiting and depth < 64:
            depth += 1
            at, share = waiting.pop(0)
            if at < 0:
                continue
            place = forest.places[forest.reads[at]]
            sides = grove.sides(at, box)
            if all(sides) and place.feature not in people.sensitive_set:
                where = _cut_of(grove, at, box)
                if where is not None:
                    weight[where] = weight.get(where, 0.0) + open_by * share
            children = [child for child, goes in zip((forest.yes[at], forest.no[at]), sides, strict=True) if goes]
            waiting += [(child, share / len(children)) for child in children]
    if not weight:
        return None
    name, where = max(weight, key=lambda key: weight[key])
    return name, list(where) if isinstance(where, tuple) else where


def _cut_of(grove: Grove, node: int, box: Box) -> tuple[str, Any] | None:
    """The split as a cut of the box."""
    forest, people = grove.network, grove.people
    place = forest.places[forest.reads[node]]
    table, possible, number = place.table, box[place.feature], people.is_number(place.feature)
    if table is not None and not number:
        return place.feature, tuple(v for v in possible if forest.goes(node, table[v]))
    if number and None in possible:  # who has the number and who has not, before it is cut itself
        return (place.feature, None) if len(possible) > 1 else None
    low, high = possible
    where: Any = forest.splits[node]
    if table is not None:  # whole numbers that are listed: where the way changes first
        ways = [forest.goes(node, table[level]) for level in range(low, high + 1)]
        where = low + ways.index(not ways[0]) - 1 if len(set(ways)) > 1 else high
    elif not people.is_real(place.feature):
        where = math.floor(where)
    return (place.feature, where) if low <= where < high and people.has(place.feature, where) else None
