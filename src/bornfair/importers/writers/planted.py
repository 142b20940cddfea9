"""One tree of a forest, as the writers of files take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.forest.forest import Forest


@dataclass(frozen=True, eq=False)
class PlantedTree:
    """The nodes of one tree, numbered from 0 at its root."""

    forest: Forest
    nodes: np.ndarray  # their numbers in the forest

    @staticmethod
    def of(forest: Forest, tree: int) -> PlantedTree:
        end = forest.roots[tree + 1] if tree + 1 < forest.trees else forest.nodes
        return PlantedTree(forest, np.arange(forest.roots[tree], end))

    @property
    def inner(self) -> np.ndarray:
        return self.forest.column[self.nodes] >= 0

    @property
    def left(self) -> np.ndarray:
        return np.where(self.inner, self.forest.left[self.nodes] - self.nodes[0], -1)

    @property
    def right(self) -> np.ndarray:
        return np.where(self.inner, self.forest.right[self.nodes] - self.nodes[0], -1)

    @property
    def sources(self) -> np.ndarray:
        """The input that each split reads, 0 at leaves."""
        source = np.array([column.source for column in self.forest.columns])
        return np.where(self.inner, source[np.maximum(self.forest.column[self.nodes], 0)], 0)

    def values(self) -> np.ndarray:
        """[nodes, outputs], 0 at splits."""
        found = np.zeros((len(self.nodes), self.forest.outputs))
        leaves = self.nodes[~self.inner]
        found[~self.inner] = self.forest.values[self.forest.leaf[leaves]]
        return found

    @property
    def output(self) -> int:
        """The output that the leaves add to; 0 if they add to none."""
        used = np.flatnonzero((self.values() != 0).any(axis=0))
        return int(used[0]) if len(used) else 0

    def covers(self) -> np.ndarray:
        """How many leaves stand below each node, itself included: for who must divide by how many came by."""
        found = np.ones(len(self.nodes), np.int64)
        for node in range(len(self.nodes) - 1, -1, -1):  # children stand behind their parents
            if self.inner[node]:
                found[node] = found[self.left[node]] + found[self.right[node]]
        return found
