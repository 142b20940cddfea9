"""What do versions of a person get from a forest, as functions of what they share?

For one version, each tree is a tree over the free features alone: its splits on sensitive features are settled, and a
declared move says where the splits of a moved feature send people. For several versions together, the smallest (or the
largest) value that any of them gets from each tree is again a tree over the free features, hardly larger than the tree
itself; the sum of these bounds the scores of all of them from below (from above).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.bounds.judge import Judge


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of trees over free features: what each adds, its tree, and which cells of each feature it allows."""

    value: np.ndarray  # [leaves]
    tree: np.ndarray  # [leaves]
    allowed: list[np.ndarray]  # for each free feature, bool [leaves, cells]

    @property
    def count(self) -> int:
        return len(self.value)


Items = list[tuple[int, dict[int, np.ndarray], int]]
"""Alternatives: a node, the sensitive cells that reach it, and the element of the declared group."""


class Functions:
    """Makes leaves of a forest's trees for sets of versions."""

    def __init__(self, judge: Judge) -> None:
        if judge.bits.outputs != 1:
            raise InputError("functions of versions are made of forests with one margin.")
        cells, forest = judge.cells, judge.model.forest
        self.judge, self.cells, self.forest = judge, cells, forest
        self.values = judge.bits.margins.leaves[:, 0]
        self.place = {position: i for i, position in enumerate(cells.free)}
        self.goes: dict[int, tuple[int, np.ndarray]] = {}
        for position, (nodes, left) in cells.routes.items():
            self.goes.update(zip(nodes.tolist(), ((position, row) for row in left), strict=True))
        self.moved = {position: [np.asarray(way) for way in maps] for position, maps in cells.twins.maps.items()}
        self.low, self.high = self._ranges()
        acting = np.zeros(forest.trees, bool)
        acting[judge.bits.tree[: judge.bits.acting]] = True
        self.acting = np.flatnonzero(acting)
        self.shared = np.setdiff1d(judge.bits.tree, self.acting)
        self.known: dict[tuple[tuple[int, ...], bool], Leaves] = {}

    @staticmethod
    def about(judge: Judge) -> Functions:
        """Those of a judge, made once: leaves do not depend on whom a measurement weighs how much."""
        if judge not in KNOWN:
            KNOWN[judge] = Functions(judge)
        return KNOWN[judge]

    def _ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest value below each node."""
        forest = self.forest
        low, high = np.zeros(forest.nodes), np.zeros(forest.nodes)
        for node in range(forest.nodes - 1, -1, -1):
            if forest.leaf[node] >= 0:
                low[node] = high[node] = self.values[forest.leaf[node]]
            else:
                one, other = forest.left[node], forest.right[node]
                low[node], high[node] = min(low[one], low[other]), max(high[one], high[other])
        return low, high

    @cached_property
    def common(self) -> Leaves:
        """Of the trees that tell no versions apart."""
        return self._leaves(self.shared, [0], lower=True)

    def of(self, versions: Sequence[int], *, lower: bool = True) -> Leaves:
        """Of the other trees: what these versions get at least, or at most."""
        key = (tuple(versions), lower)
        if key not in self.known:
            self.known[key] = self._leaves(self.acting, versions, lower=lower)
        return self.known[key]

    def _leaves(self, trees: np.ndarray, versions: Sequence[int], *, lower: bool) -> Leaves:
        value, tree, rows = list[float](), list[int](), list[dict[int, np.ndarray]]()
        starts = self._starts(versions)
        for t in trees.tolist():
            root = int(self.forest.roots[t])
            for number, path in self._grown([(root, allowed, h) for allowed, h in starts], lower):
                value.append(number)
                tree.append(t)
                rows.append(path)
        allowed = []
        for position in self.cells.free:
            part = np.ones((len(rows), self.cells.features[position].count), bool)
            for i, path in enumerate(rows):
                if position in path:
                    part[i] = path[position]
            allowed.append(part)
        return Leaves(np.array(value), np.array(tree, np.int64), allowed)

    def _starts(self, versions: Sequence[int]) -> list[tuple[dict[int, np.ndarray], int]]:
        """The sensitive cells of versions: one entry for each that differs, joined where they make up a range."""
        twins, cells = self.cells.twins, self.cells
        found = []
        by_move: dict[int, list[int]] = {}
        for version in versions:
            h, s = divmod(int(version), len(twins.values))
            by_move.setdefault(h, []).append(s)
        for h, rows in by_move.items():
            if len(cells.sensitive) == 1:  # any set of its values is a set of cells
                (position,) = cells.sensitive
                mask = np.zeros(cells.features[position].count, bool)
                mask[twins.values[rows, 0]] = True
                found.append(({position: mask}, h))
                continue
            for s in rows:
                entry = {}
                for j, position in enumerate(cells.sensitive):
                    mask = np.zeros(cells.features[position].count, bool)
                    mask[twins.values[s, j]] = True
                    entry[position] = mask
                found.append((entry, h))
        return found

    def _grown(self, items: Items, lower: bool) -> Iterator[tuple[float, dict[int, np.ndarray]]]:
        """The leaves, each with the cells that its path leaves of the features it reads."""
        waiting: list[tuple[Items, dict[int, np.ndarray]]] = [(items, {})]
        while waiting:
            some, path = waiting.pop()
            kept = self._settled(some, path, lower)
            inner = next((item for item in kept if self.forest.leaf[item[0]] < 0), None)
            if inner is None:
                numbers = [self.low[node] for node, _, _ in kept]
                yield (min(numbers) if lower else max(numbers)), path
                continue
            position, row = self._row(inner[0], inner[2])
            own = path.get(position)
            one, other = (row, ~row) if own is None else (own & row, own & ~row)
            waiting += [(kept, {**path, position: other}), (kept, {**path, position: one})]

    def _row(self, node: int, h: int) -> tuple[int, np.ndarray]:
        """Which cells go left at a split of a free feature, for people moved by an element."""
        position, row = self.goes[node]
        way = self.cells.twins.ways[h, position]
        return position, row[self.moved[position][way]] if position in self.moved else row

    def _settled(self, items: Items, path: dict[int, np.ndarray], lower: bool) -> Items:
        """The alternatives, each followed as far as nobody on this path parts; those that never count are left out."""
        forest, found, waiting = self.forest, dict[Any, Any](), list(items)
        while waiting:
            node, sensitive, h = waiting.pop()
            if forest.leaf[node] >= 0:
                found[node] = (node, {}, 0)
                continue
            position = self.goes[node][0]
            if position not in self.place:
                row, there = self.goes[node][1], sensitive[position]
                for mask, child in ((there & row, forest.left[node]), (there & ~row, forest.right[node])):
                    if mask.any():
                        waiting.append((int(child), {**sensitive, position: mask}, h))
                continue
            row = self._row(node, h)[1]
            own = path.get(position)
            left = row.any() if own is None else (own & row).any()
            right = not row.all() if own is None else (own & ~row).any()
            if left and right:
                key = (node, h, *((p, mask.tobytes()) for p, mask in sorted(sensitive.items())))
                found[key] = (node, sensitive, h)
            else:
                waiting.append((int(forest.left[node] if left else forest.right[node]), sensitive, h))
        kept = list(found.values())
        if len(kept) == 1:
            return kept
        if lower:
            best = min(self.high[node] for node, _, _ in kept)
            first = next(item for item in kept if self.high[item[0]] == best)
            return [item for item in kept if self.low[item[0]] < best or item is first]
        best = max(self.low[node] for node, _, _ in kept)
        first = next(item for item in kept if self.low[item[0]] == best)
        return [item for item in kept if self.high[item[0]] > best or item is first]


KNOWN: WeakKeyDictionary[Judge, Functions] = WeakKeyDictionary()
