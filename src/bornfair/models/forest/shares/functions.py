"""Scores of versions of a person as functions of the free features.

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
        values = judge.bits.margins.leaves[:, 0]
        low, high = np.zeros(forest.nodes), np.zeros(forest.nodes)  # the least and the largest value below each node
        for node in range(forest.nodes - 1, -1, -1):
            if forest.leaf[node] >= 0:
                low[node] = high[node] = values[forest.leaf[node]]
            else:
                one, other = forest.left[node], forest.right[node]
                low[node], high[node] = min(low[one], low[other]), max(high[one], high[other])
        self.ends = {True: (low, high), False: (-high, -low)}  # what is largest is least of the negative values
        self.acting = np.unique(judge.bits.tree[: judge.bits.acting])
        self.known: dict[tuple[tuple[int, ...], bool], Leaves] = {}

    @staticmethod
    def about(judge: Judge) -> Functions:
        """Those of a judge, made once: leaves do not depend on whom a measurement weighs how much."""
        if judge not in KNOWN:
            KNOWN[judge] = Functions(judge)
        return KNOWN[judge]

    @cached_property
    def common(self) -> Leaves:
        """Of the trees that tell no versions apart."""
        return self._leaves(np.setdiff1d(self.judge.bits.tree, self.acting), [0], lower=True)

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
        twins, cells, found = self.cells.twins, self.cells, []
        by_move: dict[int, list[int]] = {}
        for version in versions:
            h, s = divmod(int(version), len(twins.values))
            by_move.setdefault(h, []).append(s)
        for h, rows in by_move.items():
            # Any set of values of a single sensitive feature is a set of cells.
            for some in [rows] if len(cells.sensitive) == 1 else [[s] for s in rows]:
                entry = {position: np.zeros(cells.features[position].count, bool) for position in cells.sensitive}
                for position, mask in zip(cells.sensitive, twins.values[some].T, strict=True):
                    entry[position][mask] = True
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
                least = min(self.ends[lower][0][node] for node, _, _ in kept)
                yield (least if lower else -least), path
                continue
            position, row = self._row(inner[0], inner[2])
            own = path.get(position, np.True_)
            waiting += [(kept, {**path, position: own & ~row}), (kept, {**path, position: own & row})]

    def _row(self, node: int, h: int) -> tuple[int, np.ndarray]:
        """Which cells go left at a split of a free feature, for people moved by an element."""
        position, row = self.cells.sides[node]
        twins = self.cells.twins
        return position, row[twins.maps[position][twins.ways[h, position]]] if position in twins.maps else row

    def _settled(self, items: Items, path: dict[int, np.ndarray], lower: bool) -> Items:
        """The alternatives, each followed as far as nobody on this path parts; those that never count are left out."""
        forest, found, waiting = self.forest, dict[Any, Any](), list(items)
        while waiting:
            node, sensitive, h = waiting.pop()
            if forest.leaf[node] >= 0:
                found[node] = (node, {}, 0)
                continue
            position, row = self.cells.sides[node]
            if position in sensitive:
                there = sensitive[position]
                for mask, child in ((there & row, forest.left[node]), (there & ~row, forest.right[node])):
                    if mask.any():
                        waiting.append((int(child), {**sensitive, position: mask}, h))
                continue
            row, own = self._row(node, h)[1], path.get(position, np.True_)
            left, right = (own & row).any(), (own & ~row).any()
            if left and right:
                key = (node, h, *((p, mask.tobytes()) for p, mask in sorted(sensitive.items())))
                found[key] = (node, sensitive, h)
            else:
                waiting.append((int(forest.left[node] if left else forest.right[node]), sensitive, h))
        kept = list(found.values())
        if len(kept) == 1:
            return kept
        least, most = self.ends[lower]
        best = min(most[node] for node, _, _ in kept)
        first = next(item for item in kept if most[item[0]] == best)
        return [item for item in kept if least[item[0]] < best or item is first]


KNOWN: WeakKeyDictionary[Judge, Functions] = WeakKeyDictionary()
