"""Nodes: places at which functions of few variables are evaluated, so that their values bound them everywhere.

Variables are taken in blocks: two numbers, one number, or one group. A block has nodes: the ends and the middle of the
box for each number (nine for two numbers), every category for a group. Between nodes a function is interpolated
linearly in each number: a weighted mean of its values at the nodes around, with the same weights for all functions. So
an inequality between a convex function of some values and a sum holds between nodes if it holds at them (Jensen).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables

HAT = np.array([0.25, 0.5, 0.25])  # what the nodes of a number weigh in the mean of a function interpolated between


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of all blocks: those of pairs first (node by node, one pair after the other), of single numbers, of
    groups. Functions are arrays [..., nodes, boxes]; what is said of blocks is [..., blocks, boxes].
    """

    variables: Variables
    pairs: np.ndarray  # [pairs, 2]: positions among the variables' numbers
    singles: np.ndarray

    @staticmethod
    def of(variables: Variables, importance: np.ndarray) -> Nodes:
        """Numbers in pairs, the most important two first: what dominates a sum should be looked at together."""
        order = np.argsort(-importance, kind="stable")
        even = len(order) // 2 * 2
        return Nodes(variables, order[:even].reshape(-1, 2), order[even:])

    @cached_property
    def parts(self) -> list[list[slice]]:
        """For pairs and single numbers, where each of their nodes is; for each group, where all are."""
        p, s = len(self.pairs), len(self.singles)
        found = [[slice(p * j, p * (j + 1)) for j in range(9)]] if p else []
        found += [[slice(9 * p + s * j, 9 * p + s * (j + 1)) for j in range(3)]] if s else []
        start = 9 * p + 3 * s
        for group in self.variables.groups:
            found.append([slice(start, start + group.stop - group.start)])
            start += group.stop - group.start
        return found

    @cached_property
    def count(self) -> int:
        return self.parts[-1][-1].stop if self.parts else 0

    @property
    def blocks(self) -> int:
        return len(self.pairs) + len(self.singles) + len(self.variables.groups)

    # --- over the nodes of each block ---

    def highest(self, tables: np.ndarray) -> np.ndarray:
        return self._over_nodes(tables, np.maximum)

    def lowest(self, tables: np.ndarray) -> np.ndarray:
        return self._over_nodes(tables, np.minimum)

    def sums(self, tables: np.ndarray) -> np.ndarray:
        return self._over_nodes(tables, np.add)

    def _over_nodes(self, tables: np.ndarray, join: np.ufunc) -> np.ndarray:
        found = []
        for part in self.parts:
            if len(part) == 1:
                found.append(join.reduce(tables[..., part[0], :], axis=-2, keepdims=True))
                continue
            total = join(tables[..., part[0], :], tables[..., part[1], :])
            for node in part[2:]:
                join(total, tables[..., node, :], out=total)
            found.append(total)
        if not found:
            return np.zeros((*tables.shape[:-2], 0, tables.shape[-1]))
        return found[0] if len(found) == 1 else np.concatenate(found, axis=-2)

    def at_nodes(self, values: np.ndarray) -> np.ndarray:
        """One value per block, for each of its nodes."""
        found, start = [], 0
        for part in self.parts:
            blocks = 1 if len(part) == 1 else part[0].stop - part[0].start
            mine = values[..., start : start + blocks, :]
            if len(part) == 1:
                found.append(np.repeat(mine, part[0].stop - part[0].start, axis=-2))
            else:
                found += [mine] * len(part)
            start += blocks
        return np.concatenate(found, axis=-2) if found else values

    def middle(self, tables: np.ndarray) -> np.ndarray:
        """One typical value of each block."""
        found = [
            tables[..., part[len(part) // 2], :] if len(part) > 1 else tables[..., part[0], :].mean(-2, keepdims=True)
            for part in self.parts
        ]
        return np.concatenate(found, axis=-2) if found else tables

    def mean(self, tables: np.ndarray) -> np.ndarray:
        """Roughly the mean of the sum of all blocks: it guides choices and proves nothing."""
        return np.einsum("...qi,q->...i", tables, self._typical)

    @cached_property
    def _typical(self) -> np.ndarray:
        found = [np.zeros(0)]
        for part in self.parts:
            size = part[0].stop - part[0].start
            weights = np.outer(HAT, HAT).ravel() if len(part) == 9 else HAT
            found.append(np.full(size, 1 / size) if len(part) == 1 else np.repeat(weights, size))
        return np.concatenate(found)

    def weights(self, boxes: Boxes) -> np.ndarray:
        """Weights of nodes [2, nodes, boxes] for `moments`: with the first, interpolated functions have their mean, and
        with the second linear functions of one number have their mean square.
        """
        variables = self.variables
        width = (boxes.high - boxes.low).T[variables.numbers]
        lattice = variables.places.lattice[variables.numbers][:, None]
        steps = np.where(lattice, np.maximum(width, 1.0), np.inf)
        square = (1 + 2 / steps) / 3
        with np.errstate(invalid="ignore"):  # of a lattice, how far a place is from the middle on average, of the half
            size = np.where(lattice, np.where(steps % 2 == 0, (steps + 2) / (steps + 1), 1 + 1 / steps), 1.0) / 2
        axis = np.stack([[end / 2, 1 - end, end / 2] for end in (size, square)])  # [2, 3, numbers, boxes]
        for i in (i for i in {**variables.weights, **variables.beyond} if i < len(variables.numbers)):
            column = variables.numbers[i]
            away, far = variables.spread(i, boxes.low[:, column], boxes.high[:, column])
            axis[:, :, i] = (far - away) / 2, 1 - far, (far + away) / 2
        found = [np.zeros((2, 0, len(boxes)))]
        if len(self.pairs):
            first, second = axis[:, :, self.pairs[:, 0]], axis[:, :, self.pairs[:, 1]]
            found.append((first[:, :, None] * second[:, None]).reshape(2, -1, len(boxes)))
        if len(self.singles):
            found.append(axis[:, :, self.singles].reshape(2, -1, len(boxes)))
        for i, group in enumerate(variables.groups):
            chances = (boxes.high[:, group] > 0) * variables.category_weights(len(variables.numbers) + i)
            chances = (chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-300)).T
            found.append(np.stack([chances, chances]))
        return np.concatenate(found, axis=1)

    def moments(self, tables: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """About the mean and the variance of the sum of all blocks, from the `weights` of boxes: [..., boxes]."""
        weighted = tables * weights[1]
        variance = np.einsum("...qi,...qi->...i", weighted, tables) - (self.sums(weighted) ** 2).sum(axis=-2)
        return np.einsum("...qi,qi->...i", tables, weights[0]), variance

    def widths(self, tables: np.ndarray) -> np.ndarray:
        """About half of how far each variable moves its block: [..., variables, boxes]."""
        variables, part = self.variables, iter(self.parts)
        found = np.empty((*tables.shape[:-2], variables.count, tables.shape[-1]))

        def half(one: slice, other: slice) -> np.ndarray:
            return np.abs(tables[..., one, :] - tables[..., other, :]) / 2

        if len(self.pairs):
            nodes = next(part)
            found[..., self.pairs[:, 0], :] = half(nodes[7], nodes[1])
            found[..., self.pairs[:, 1], :] = half(nodes[5], nodes[3])
        if len(self.singles):
            nodes = next(part)
            found[..., self.singles, :] = half(nodes[2], nodes[0])
        for i, nodes in enumerate(part):
            values = tables[..., nodes[0], :]
            found[..., len(variables.numbers) + i, :] = (values.max(axis=-2) - values.min(axis=-2)) / 2
        return found

    # --- linear functions ---

    def terms(self, rows: np.ndarray, radius: np.ndarray, high: np.ndarray) -> np.ndarray:
        """What each number adds to rows·u [rows, columns(, boxes)] at its end, and each category: [rows, terms, boxes].

        radius [numbers, boxes]; high [boxes, columns] tells which categories are allowed.
        """
        rows = rows if rows.ndim == 3 else rows[..., None]
        found = [rows[:, self.variables.numbers] * radius]
        for group in self.variables.groups:
            allowed = high[:, group].T > 0.5
            # A category that is not allowed takes the place of one that is, so that it changes no extreme.
            member = np.where(allowed, np.arange(allowed.shape[0])[:, None], allowed.argmax(axis=0))
            columns = np.broadcast_to(rows[:, group], (rows.shape[0], *allowed.shape))
            found.append(np.take_along_axis(columns, np.broadcast_to(member[None], columns.shape), axis=1))
        return found[0] if len(found) == 1 else np.concatenate(found, axis=1)

    def of_terms(self, terms: np.ndarray) -> np.ndarray:
        """Sums of terms at nodes: [rows, nodes, boxes]."""
        found = [np.zeros((len(terms), 0, terms.shape[-1]))]
        if len(self.pairs):
            first, second = terms[:, self.pairs[:, 0]], terms[:, self.pairs[:, 1]]
            found += [a * first + b * second for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)]
        if len(self.singles):
            found += [a * terms[:, self.singles] for a in (-1.0, 0.0, 1.0)]
        found.append(terms[:, len(self.variables.numbers) :])
        return np.concatenate(found, axis=1)

    def ends_of_terms(self, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The largest and the smallest value each variable gives to a sum of terms: [rows, variables, boxes]."""
        count = len(self.variables.numbers)
        high, low, start = [np.abs(terms[:, :count])], [-np.abs(terms[:, :count])], count
        for group in self.variables.groups:
            mine = terms[:, start : start + group.stop - group.start]
            high.append(mine.max(axis=1, keepdims=True))
            low.append(mine.min(axis=1, keepdims=True))
            start += group.stop - group.start
        return (high[0], low[0]) if len(high) == 1 else (np.concatenate(high, axis=1), np.concatenate(low, axis=1))
