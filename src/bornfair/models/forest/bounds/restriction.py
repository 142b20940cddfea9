"""What is left of a forest for the people of a domain? Splits that all of them pass one way, and splits whose two sides
give everybody the same, are taken out; every tree still adds the same number to everybody's score.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.models.forest.bounds.cells import Cells
from bornfair.models.forest.forest import Forest

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

Kept = tuple[Any, ...]
"""A subtree: (row of values,) for a leaf, else (node, left, right) with subtrees by number."""


def restricted(model: ForestModel) -> ForestModel:
    """The model with the forest that its domain leaves."""
    cells = Cells.of(model)
    return dataclasses.replace(model, forest=_restricted(model.forest, cells))


def _restricted(forest: Forest, cells: Cells) -> Forest:
    goes: dict[int, tuple[int, np.ndarray]] = {}
    for position, (nodes, left) in cells.routes.items():
        goes.update(zip(nodes.tolist(), ((position, row) for row in left), strict=True))
    keeper = _Keeper(forest)
    roots = [keeper.tree(int(root), goes) for root in forest.roots]
    return keeper.forest_of(roots)


class _Keeper:
    """Subtrees that are equal are one and the same (`known`), so that equal sides are seen at once."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.known: dict[Kept, int] = {}
        self.trees: list[Kept] = []

    def _number(self, key: Kept, kept: Kept) -> int:
        if key not in self.known:
            self.known[key] = len(self.trees)
            self.trees.append(kept)
        return self.known[key]

    def tree(self, root: int, goes: dict[int, tuple[int, np.ndarray]]) -> int:
        """The number of what is left of a subtree; without recursion, as trees may be deep."""
        forest, done = self.forest, list[int]()
        waiting: list[tuple[int, dict[int, np.ndarray], bool]] = [(root, {}, False)]
        while waiting:
            node, allowed, is_done = waiting.pop()
            if is_done:
                right, left = done.pop(), done.pop()
                done.append(left if left == right else self._split(node, left, right))
                continue
            if forest.leaf[node] >= 0:
                row = int(forest.leaf[node])
                done.append(self._number(("leaf", forest.values[row].tobytes()), (row,)))
                continue
            position, left_cells = goes[node]
            own = allowed.get(position)
            one = left_cells if own is None else own & left_cells
            other = ~left_cells if own is None else own & ~left_cells
            sides = [(one, int(forest.left[node])), (other, int(forest.right[node]))]
            sides = [(some, child) for some, child in sides if some.any()]
            if len(sides) == 2:
                waiting.append((node, allowed, True))
            for some, child in reversed(sides):
                waiting.append((child, {**allowed, position: some}, False))
        return done[0]

    def _split(self, node: int, left: int, right: int) -> int:
        forest = self.forest
        asks = (
            int(forest.column[node]), float(forest.threshold[node]), int(forest.members[node]),
            bool(forest.missing_left[node]),
        )  # fmt: skip
        return self._number((*asks, left, right), (node, left, right))

    def forest_of(self, roots: list[int]) -> Forest:
        """The trees written out again, each parent before its children."""
        forest = self.forest
        starts, source, left, right, rows = list[int](), list[int](), list[int](), list[int](), list[int]()
        for root in roots:
            starts.append(len(source))
            waiting = [(root, -1, False)]
            while waiting:
                number, parent, is_right = waiting.pop()
                here, kept = len(source), self.trees[number]
                if parent >= 0:
                    (right if is_right else left)[parent] = here
                left.append(-1)
                right.append(-1)
                if len(kept) == 1:
                    source.append(-1)
                    rows.append(kept[0])
                    continue
                source.append(kept[0])
                waiting += [(kept[2], here, True), (kept[1], here, False)]
        at = np.array(source)
        inner = at >= 0

        def of(array: np.ndarray, leaf: Any) -> np.ndarray:
            return np.where(inner, array[at], leaf)

        return dataclasses.replace(
            forest, roots=np.array(starts), column=of(forest.column, -1), threshold=of(forest.threshold, 0.0),
            members=of(forest.members, -1), left=np.array(left), right=np.array(right),
            missing_left=of(forest.missing_left, False), values=forest.values[rows],
        )  # fmt: skip
