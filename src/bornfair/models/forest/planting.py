"""One forest from the trees of a file, whose nodes may be numbered in any order; broken trees are refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import MOST_DEPTH, MOST_NODES, MOST_TREES, MOST_VALUES, Cut, Forest, Summation

PARTS = ("column", "threshold", "members", "left", "right", "missing_left")


@dataclass(eq=False)
class Planting:
    """Trees, added one after the other. A node is a leaf where `left` is −1; node 0 is the root."""

    origin: str  # what messages call the model
    outputs: int
    sets: list[np.ndarray] = field(default_factory=list)
    _nodes: int = 0
    _parts: dict[str, list[np.ndarray]] = field(default_factory=lambda: {name: [] for name in PARTS})
    _values: list[np.ndarray] = field(default_factory=list)  # [nodes, outputs], of inner nodes ignored
    _sizes: list[int] = field(default_factory=list)

    def add(
        self, column: Any, threshold: Any, left: Any, right: Any, missing_left: Any, values: Any, members: Any = None
    ) -> None:
        """One tree; `values` [nodes, outputs]."""
        count = len(left)
        chosen = np.full(count, -1) if members is None else members
        given = dict(zip(PARTS, (column, threshold, chosen, left, right, missing_left), strict=True))
        lengths = {len(part) for part in given.values()} | {len(values)}
        if count == 0 or len(lengths) != 1:
            raise self.wrong(f"its arrays have the lengths {sorted(lengths)}, but each must have one entry for a node")
        self._nodes += count
        if self._nodes > MOST_NODES or self._nodes * self.outputs > 4 * MOST_VALUES or len(self._sizes) >= MOST_TREES:
            raise InputError(f"{self.origin} has more than {MOST_TREES:,} trees or {MOST_NODES:,} nodes.")
        inner = np.asarray(left) >= 0
        for name in ("left", "right"):
            children = np.asarray(given[name])[inner]
            if ((children <= 0) | (children >= count)).any():
                bad = children[(children <= 0) | (children >= count)][0]
                raise self.wrong(f"a node has the child {int(bad)}, but its {count} nodes go from 0 to {count - 1}")
        if np.isnan(np.asarray(threshold, np.float64)[inner]).any():
            raise self.wrong("a threshold is not a number")
        if not np.isfinite(np.asarray(values, np.float64)[~inner]).all():
            raise self.wrong("a leaf has a value that is not finite")
        for name, part in given.items():
            self._parts[name].append(np.asarray(part))
        self._values.append(np.asarray(values, np.float64))
        self._sizes.append(count)

    def forest(self, names: Sequence[str], columns: Sequence[SplitColumn], summation: Summation, cut: Cut) -> Forest:
        """All trees that were added."""
        if not self._sizes:
            raise InputError(f"{self.origin} has no trees; train it, then read it.")
        starts = np.concatenate([[0], np.cumsum(self._sizes)])[:-1]
        part = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        shift = np.repeat(starts, self._sizes)
        left, right = (np.where(part["left"] >= 0, part[name] + shift, -1) for name in ("left", "right"))
        order, depths = self._levels(starts, left, right)
        tree = np.searchsorted(starts, order, side="right") - 1
        order = order[np.lexsort((depths, tree))]  # stable: tree by tree, level by level
        new = np.full(len(left), -1)
        new[order] = np.arange(len(order))
        inner = left[order] >= 0
        try:
            return Forest(
                tuple(names), tuple(columns),
                roots=new[starts],
                column=np.where(inner, part["column"][order], -1),
                threshold=np.where(inner, part["threshold"][order], 0.0),
                members=np.where(inner, part["members"][order], -1),
                left=np.where(inner, new[left[order]], -1),
                right=np.where(inner, new[right[order]], -1),
                missing_left=part["missing_left"][order].astype(bool) & inner,
                values=np.concatenate(self._values)[order[~inner]],
                summation=summation, cut=cut, sets=tuple(self.sets),
            )  # fmt: skip
        except InputError as error:
            raise InputError(f"{self.origin}: {error}") from error

    def wrong(self, what: str, tree: int | None = None) -> InputError:
        number = len(self._sizes) if tree is None else tree
        return InputError(f"{self.origin}: tree {number}: {what}; is the file broken?")

    def _levels(self, starts: np.ndarray, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes that can be reached, level by level, and their levels."""
        seen = np.zeros(len(left), bool)
        at, found, levels = starts, list[np.ndarray](), list[np.ndarray]()
        while len(at):
            if len(levels) > MOST_DEPTH:
                raise InputError(f"{self.origin} has a tree deeper than {MOST_DEPTH:,}; at most that can be read.")
            again = seen[at]
            seen[at] = True
            found.append(at)
            levels.append(np.full(len(at), len(levels)))
            inner = at[left[at] >= 0]
            if again.any() or len(np.unique(at)) < len(at):
                bad = at[again][0] if again.any() else at[np.argmax(np.bincount(at)[at] > 1)]
                tree = int(np.searchsorted(starts, bad, side="right") - 1)
                raise self.wrong(f"node {int(bad - starts[tree])} is reached in two ways, so that it is no tree", tree)
            at = np.concatenate([left[inner], right[inner]])
        return np.concatenate(found), np.concatenate(levels)
