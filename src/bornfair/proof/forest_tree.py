"""Which cuts of the domain make the proof about a forest one that anybody can check? Along its own thresholds.

Branch and bound with the checker's own bounds: a box is cut where a split of the trees that are widest open turns.
"""

from __future__ import annotations

import math
from typing import Any

from bornfair.core.clock import Say
from bornfair.proof import checker
from bornfair.proof.checker import Box, ForestGraph, Grove, Individuals
from bornfair.proof.tree import Decided, grown

FEW_VIEWS = checker.PIECES  # sensitive values that are looked at one by one in every box


def find_forest_tree(
    forest: ForestGraph,
    people: Individuals,
    *,
    float64: bool,
    timeout: float,
    most_leaves: int = 100_000,
    say: Say | None = None,
) -> list[Any] | None:
    """A tree of cuts with a reason at each leaf, in the certificate's form; None if none is found in time."""
    grove = Grove(forest, people, float64)

    def decided(box: Box) -> Decided:
        leaf = _reason(grove, box)
        return (leaf, None) if leaf is not None else (None, _widest(grove, box))

    return grown(people, decided, timeout=timeout, most_leaves=most_leaves, say=say)


def _reason(grove: Grove, box: Box) -> Any:
    """Why the box is fair, as the checker will be told; None if it cannot be shown."""
    forest = grove.network
    low, high = grove.bounds(box)
    middle = [(a + b) / 2 - checker.Fraction(c) for a, b, c in zip(low, high, forest.at, strict=True)]
    likely = int(middle[0] > 0) if len(middle) == 1 else middle.index(max(middle))
    if grove.is_decided_all(box, likely):
        return likely
    if grove.is_fair("same", box):
        return "same"
    if len(grove.views or ()) * len(grove.people.elements) <= FEW_VIEWS:
        for best in dict.fromkeys([likely, *range(len(forest.classes))]):
            if grove.is_decided_each(box, best):
                return {"each": best}
    return None


def _widest(grove: Grove, box: Box) -> tuple[str, Any] | None:
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
