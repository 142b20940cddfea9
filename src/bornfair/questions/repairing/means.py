"""The mean of a forest over its sensitive values: of all forests that do not read them, the closest in mean square.

A tree that does not read them stays as it is. Any other is restricted to each sensitive value (the splits that read it
are gone, one way remains), equal restrictions are counted together, and the mean of those that are left is one tree
again: where one has a leaf the other's splits stay, with the mean of the leaves behind them. If that one tree would be
larger than the restrictions together, these are added up instead, each leaf times its weight.
Leaves are rounded to the precision in which the forest adds.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn, columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import ForestModel
from bornfair.models.forest.planting import Planting
from bornfair.questions.repairing.restriction import Averaged, Merge, merges_of, ways

MOST_DEPTH = 400  # of a mean: it is made by recursion
MOST_RESTRICTIONS = 4_096  # different ones, of one tree
MOST_NODES = 200_000  # of the mean of one tree, where it has to be one

Split = tuple[int, float, int, bool]  # column, threshold, position among the sets (−1: none), missing goes left
Item = tuple[float, int]  # a weight, and a tree by its root


@dataclass(frozen=True, eq=False)
class Mean:
    """The mean forest, and what became of each tree."""

    forest: Forest
    origin: tuple[int, ...]
    """For each tree, the one of the original it comes from: trees keep their places, further ones stand behind; −1 is a
    tree of nothing, which fills up a round.
    """
    replaced: tuple[int, ...]
    """The trees of the original that read what must not be read."""
    merges: bool
    """Whether splits read columns that the original does not have."""


def mean_forest(
    model: ForestModel, over: Averaged, *, outputs: Sequence[int] | None = None, copies: bool = True
) -> Mean:
    """The forest averaged over sensitive values (and over what declared rules take for the same).

    outputs: where each tree is added to one output alone, and trees come in rounds of one for each: that output by
        tree. Trees that come in addition then fill up whole rounds.
    copies: whether one tree may become several.
    """
    forest, merges = model.forest, merges_of(model)
    secret = [i for i, name in enumerate(model.reads) if name in model.domain.sensitive]
    source = np.array([column.source for column in forest.columns])
    sources = np.where(forest.column >= 0, source[np.maximum(forest.column, 0)], -1)
    telling = np.isin(sources, secret) | _tells(forest, sources, merges)
    touched = np.unique(forest.tree_of_node[telling])
    raw = [
        over.people[model.reads[i]].to_numpy() if i in secret else np.full(len(over.people), np.nan)
        for i in range(len(forest.names))
    ]
    columns = {
        int(place): columns_of(raw, [forest.columns[place]], len(over.people))[0]
        for place in np.unique(forest.column[np.isin(sources, secret)])
    }
    grove = _Grove(forest, merges)
    planting = Planting("the repaired forest", forest.outputs)
    behind: list[tuple[int, dict[str, Any]]] = []
    ends = np.append(forest.roots[1:], forest.nodes)
    for tree in range(forest.trees):
        nodes = np.arange(forest.roots[tree], ends[tree])
        if tree not in touched:
            planting.add(**_as_it_is(forest, nodes))
            continue
        asked = nodes[np.isin(sources[nodes], secret)]
        items = grove.restrictions(nodes, sources, asked, ways(forest, asked, columns), over.weights)
        first, *others = grove.mean(items, copies)
        planting.add(**grove.arrays(first))
        behind += [(tree, grove.arrays(other)) for other in others]
    if outputs is not None and forest.outputs > 1:  # trees of nothing fill up the rounds
        nothing = (-1, grove.arrays(grove.leaf((0.0,) * forest.outputs)))
        by_output = [[item for item in behind if outputs[item[0]] == k] for k in range(forest.outputs)]
        behind = [item for one_round in itertools.zip_longest(*by_output, fillvalue=nothing) for item in one_round]
    for _, arrays in behind:
        planting.add(**arrays)
    origin = [*range(forest.trees), *(tree for tree, _ in behind)]
    planting.sets = [np.array(numbers) for numbers in grove.sets]
    summation = dataclasses.replace(forest.summation, in_order=forest.summation.in_order and not behind)
    made = planting.forest(forest.names, (*forest.columns, *grove.columns), summation, forest.cut)
    return Mean(made, tuple(origin), tuple(touched.tolist()), bool(grove.columns))


def _tells(forest: Forest, sources: np.ndarray, merges: dict[int, Merge]) -> np.ndarray:
    """Which splits send values that rules take for one another different ways."""
    found = np.zeros(forest.nodes, bool)
    for node in np.flatnonzero(np.isin(sources, sorted(merges))):
        merge = merges[int(sources[node])]
        left = merge_ways(forest, int(node), merge)
        found[node] = any(len({bool(left[i]) for i in orbit}) > 1 for orbit in merge.orbits)
    return found


def merge_ways(forest: Forest, node: int, merge: Merge) -> np.ndarray:
    """Which levels of a merged feature a split sends left."""
    column = int(forest.column[node])
    levels = np.array(merge.levels, dtype=object)
    return ways(forest, np.array([node]), {column: forest.columns[column].values(levels)})[0]


def _as_it_is(forest: Forest, nodes: np.ndarray) -> dict[str, Any]:
    inner = forest.column[nodes] >= 0
    values = np.zeros((len(nodes), forest.outputs))
    values[~inner] = forest.values[forest.leaf[nodes[~inner]]]
    return {
        "column": forest.column[nodes], "threshold": forest.threshold[nodes], "members": forest.members[nodes],
        "left": np.where(inner, forest.left[nodes] - nodes[0], -1),
        "right": np.where(inner, forest.right[nodes] - nodes[0], -1),
        "missing_left": forest.missing_left[nodes], "values": values,
    }  # fmt: skip


class _TooLarge(Exception):
    pass


@dataclass
class _Grove:
    """Trees as nodes that are each made once, so that equal trees are one: a leaf is the tuple of its values, a split
    is (split, left, right).
    """

    forest: Forest
    merges: dict[int, Merge]
    nodes: list[Any] = field(default_factory=list)
    places: dict[Any, int] = field(default_factory=dict)
    sets: list[tuple[float, ...]] = field(default_factory=list)
    set_places: dict[tuple[float, ...], int] = field(default_factory=dict)
    columns: list[SplitColumn] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    """Leaves and depth of each node's tree, in which equal parts are not shared."""
    merged: dict[int, int] = field(default_factory=dict)  # by input, the column that splits then read
    budget: int = 0

    def __post_init__(self) -> None:
        self.sets = [tuple(numbers.tolist()) for numbers in self.forest.sets]  # the original's keep their places
        for place, numbers in enumerate(self.sets):
            self.set_places.setdefault(numbers, place)

    # --- restricting ---

    def restrictions(
        self, nodes: np.ndarray, sources: np.ndarray, asked: np.ndarray, left: np.ndarray, weights: np.ndarray
    ) -> list[Item]:
        """One tree restricted to everybody: different restrictions, and how much each counts."""
        ways_left, who = left[:, :1], np.zeros(len(weights), np.int64)
        if len(asked):
            ways_left, who = np.unique(left, axis=1, return_inverse=True)
        mass = np.bincount(who.ravel(), weights=weights, minlength=ways_left.shape[1])
        moved = sorted(set(sources[nodes].tolist()) & set(self.merges))
        choices = list(itertools.product(*(range(self.merges[source].choices) for source in moved)))
        if ways_left.shape[1] * len(choices) > MOST_RESTRICTIONS:
            raise InputError(
                f"a tree tells more than {MOST_RESTRICTIONS:,} combinations of sensitive values apart, which are too "
                "many to be averaged; name fewer sensitive features."
            )
        found: dict[int, float] = {}
        for way, choice in itertools.product(range(ways_left.shape[1]), choices):
            goes = dict(zip(asked.tolist(), ways_left[:, way].tolist(), strict=True))
            root = self._restricted(nodes, sources, goes, dict(zip(moved, choice, strict=True)))
            found[root] = found.get(root, 0.0) + float(mass[way]) / len(choices)
        return [(weight, root) for root, weight in found.items() if weight > 0]

    def _restricted(self, nodes: np.ndarray, sources: np.ndarray, goes: dict[int, bool], choice: dict[int, int]) -> int:
        forest, made = self.forest, dict[int, int]()
        for node in reversed(nodes.tolist()):  # children stand behind their parents
            if forest.column[node] < 0:
                made[node] = self.leaf(tuple(forest.values[forest.leaf[node]].tolist()))
                continue
            left, right = made[int(forest.left[node])], made[int(forest.right[node])]
            if node in goes:
                made[node] = left if goes[node] else right
                continue
            members = int(forest.members[node])
            split: Split = (
                int(forest.column[node]), float(forest.threshold[node]),
                members if members < 0 else self.set_places[self.sets[members]], bool(forest.missing_left[node]),
            )  # fmt: skip
            source = int(sources[node])
            if source in choice:
                split = self._as_merged(node, source, choice[source], split)
            made[node] = self.split(split, left, right)
        return made[int(nodes[0])]

    def _as_merged(self, node: int, source: int, choice: int, split: Split) -> Split:
        """The split as it goes for the merged feature, with this choice of what stands for each orbit."""
        merge = self.merges[source]
        left = merge_ways(self.forest, node, merge)
        standing = zip(merge.chosen(0), merge.chosen(choice), strict=True)
        numbers = tuple(sorted({float(first) for first, chosen in standing if left[chosen]}))
        if source not in self.merged:
            self.merged[source] = len(self.forest.columns) + len(self.columns)
            self.columns.append(merge.column(self.forest.columns[split[0]]))
        if numbers not in self.set_places:
            self.set_places[numbers] = len(self.sets)
            self.sets.append(numbers)
        return self.merged[source], 0.0, self.set_places[numbers], split[3]

    # --- averaging ---

    def mean(self, items: list[Item], copies: bool) -> list[int]:
        """The mean of trees: one tree, or several to be added up, if that is smaller."""
        if len(items) == 1:
            return [items[0][1]]
        leaves, depth = zip(*(self.sizes[root] for _, root in items), strict=True)
        try:
            if sum(depth) > MOST_DEPTH:
                raise _TooLarge
            self.budget = 2 * sum(leaves) if copies else MOST_NODES
            return [self._mean(items, {}, {})]
        except _TooLarge:
            if not copies:
                raise InputError(
                    f"the mean of a tree over the sensitive values has more than {MOST_NODES:,} nodes, or is deeper "
                    f"than {MOST_DEPTH}; train shallower trees."
                ) from None
        return [self._times(weight, root) for weight, root in items]

    def _mean(
        self, items: Sequence[Item], ranges: dict[int, tuple[float, float, bool]], sides: dict[Split, bool]
    ) -> int:
        """What is known here: between which ends (the lower excluded) a column lies and whether it may be missing, and
        which way other splits went.
        """
        together: dict[int, float] = {}
        for weight, root in items:
            place = self._below(root, ranges, sides)
            together[place] = together.get(place, 0.0) + weight
        if len(together) == 1:
            return next(iter(together))
        self.budget -= 1
        if self.budget < 0:
            raise _TooLarge
        inner = [self.nodes[place][0] for place in together if len(self.nodes[place]) == 3]
        if not inner:
            columns = zip(*(self.nodes[place][0] for place in together), strict=True)
            return self.leaf(tuple(_average(values, together.values()) for values in columns))
        split = max(dict.fromkeys(inner), key=inner.count)  # the first of those that most of them have
        column, threshold, members, missing_left = split
        halves = []
        for side in (True, False):
            if members < 0:
                low, high, missing = ranges.get(column, (-math.inf, math.inf, True))
                low, high = (low, min(high, threshold)) if side else (max(low, threshold), high)
                known, went = ranges | {column: (low, high, missing and missing_left == side)}, sides
            else:
                known, went = ranges, sides | {split: side}
            halves.append(self._mean([(weight, place) for place, weight in together.items()], known, went))
        return self.split(split, *halves)

    def _below(self, root: int, ranges: dict[int, tuple[float, float, bool]], sides: dict[Split, bool]) -> int:
        """Where one is after all splits whose way is known."""
        while len(self.nodes[root]) == 3:
            split, left, right = self.nodes[root]
            column, threshold, members, missing_left = split
            if split in sides:
                root = left if sides[split] else right
                continue
            if members >= 0 or column not in ranges:
                break
            low, high, missing = ranges[column]
            if high <= threshold and (missing_left or not missing):
                root = left
            elif low >= threshold and not (missing_left and missing):
                root = right
            else:
                break
        return root

    def _times(self, weight: float, root: int) -> int:
        """The tree with each leaf times its weight."""
        below, stack = set[int](), [root]
        while stack:
            place = stack.pop()
            if place not in below:
                below.add(place)
                stack += self.nodes[place][1:]
        made: dict[int, int] = {}
        for place in sorted(below):  # a node is made after its children
            first, *children = self.nodes[place]
            if children:
                made[place] = self.split(first, *(made[child] for child in children))
            else:
                made[place] = self.leaf(tuple(weight * value for value in first))
        return made[root]

    # --- nodes ---

    def leaf(self, values: tuple[float, ...]) -> int:
        kind = np.dtype(self.forest.summation.precision).type
        return self._node((tuple(float(kind(value)) for value in values),))

    def split(self, split: Split, left: int, right: int) -> int:
        return left if left == right else self._node((split, left, right))

    def _node(self, node: Any) -> int:
        if node not in self.places:
            self.places[node] = len(self.nodes)
            self.nodes.append(node)
            below = [self.sizes[child] for child in node[1:]]
            self.sizes.append((sum(leaves for leaves, _ in below), max(d for _, d in below) + 1) if below else (1, 0))
        return self.places[node]

    def arrays(self, root: int) -> dict[str, Any]:
        """The tree as `Planting` takes it."""
        rows: list[list[Any]] = []
        values: list[tuple[float, ...]] = []
        stack = [(root, -1, 0)]
        nothing = (0.0,) * self.forest.outputs
        while stack:
            place, parent, side = stack.pop()
            node, here = self.nodes[place], len(rows)
            if parent >= 0:
                rows[parent][3 + side] = here
            if len(node) == 1:
                rows.append([-1, 0.0, -1, -1, -1, False])
                values.append(node[0])
                continue
            (column, threshold, members, missing_left), left, right = node
            rows.append([column, threshold, members, -1, -1, missing_left])
            values.append(nothing)
            stack += [(right, here, 1), (left, here, 0)]
        column, threshold, members, left, right, missing_left = map(list, zip(*rows, strict=True))
        return {
            "column": column, "threshold": threshold, "members": members, "left": left, "right": right,
            "missing_left": missing_left, "values": np.array(values),
        }  # fmt: skip


def _average(values: Iterable[float], weights: Iterable[float]) -> float:
    """The weighted mean; of equal numbers just that number."""
    given = list(values)
    if len(set(given)) == 1:
        return given[0]
    shares = list(weights)
    return math.fsum(v * w for v, w in zip(given, shares, strict=True)) / math.fsum(shares)
