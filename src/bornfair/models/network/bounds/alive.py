"""The neurons of a ReLU network that may be active in a box; the others are left out of it, box by box.

A ReLU neuron whose sum is proven to be at most 0 on a box gives exactly 0 there, in every part of the box and in every
arithmetic. In boxes that are small enough to matter most neurons of a wide network are such: a network of 100 and 100
neurons is one of some 20 and 10.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bornfair.models.network.bounds.backward import Affine, Arrays

WORTH = 0.5  # share of a layer: where more are alive in some box of a batch, picking them costs more than it saves
NARROW = 12  # neurons: a layer of so few is not worth picking from


class AliveLayer(NamedTuple):
    """One layer for a batch: with all its neurons, or for each item (a view of a box) with those that are alive."""

    weight: np.ndarray  # [outputs, inputs] or [outputs, inputs, items]
    weight_size: np.ndarray
    bias: np.ndarray  # [outputs, 1 or items]
    bias_size: np.ndarray
    reach: np.ndarray

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Rows [..., outputs, items] on the outputs, as rows [..., inputs, items] on the inputs."""
        if self.weight.ndim == 3:
            return np.einsum("...ji,jki->...ki", rows, self.weight)
        if rows.ndim == 2:
            return self.weight.T @ rows
        return np.stack([self.weight.T @ row for row in rows])


def product(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A matrix [outputs, inputs], or one for each item [outputs, inputs, items], times values [inputs, …, items]."""
    if matrix.ndim == 2:
        flat = values.reshape(len(values), math.prod(values.shape[1:]))  # also where there are no inputs
        return (matrix @ flat).reshape(len(matrix), *values.shape[1:])
    if values.ndim == 2:
        return np.einsum("jki,ki->ji", matrix, values)
    # Item by item, so that BLAS multiplies: it gains more than turning the arrays costs.
    one, other = (np.ascontiguousarray(np.moveaxis(part, 2, 0)) for part in (matrix, values))
    return np.ascontiguousarray(np.moveaxis(one @ other, 0, 2))


class Picked:
    """The part of a network that is alive in each box of a batch."""

    def __init__(self, arrays: Arrays, widths: tuple[int, ...], views: int, alive: np.ndarray | None) -> None:
        """`alive` [boxes, hidden neurons of all layers] tells which may be active; None: all."""
        self.arrays, self.hidden, self.views = arrays, widths[1:-1], views
        self.rows: list[np.ndarray | None] = [None] * len(self.hidden)  # which neurons [most alive, boxes]; None: all
        self.read: list[np.ndarray | None] = [None] * len(self.hidden)  # and whether they are alive
        if alive is None:
            return
        for i, part in enumerate(np.split(alive, np.cumsum(self.hidden)[:-1], axis=1)):
            most = max(int(part.sum(axis=1).max(initial=0)), 1)
            if self.hidden[i] > NARROW and most <= WORTH * self.hidden[i]:
                # Those alive come first; beside fewer than the most there stand dead ones, which nothing reads.
                rows = np.argsort(~part, axis=1, kind="stable")[:, :most].T
                self.rows[i], self.read[i] = rows, np.take_along_axis(part.T, rows, axis=0)

    def of_neurons(self, values: np.ndarray, i: int = 0) -> np.ndarray:
        """Values of neurons of layer i [neurons] as [neurons, 1], or of those picked [most alive, boxes]."""
        rows = self._rows(i)
        return values[:, None] if rows is None else values[rows]

    def of_items(self, values: np.ndarray, i: int = 0) -> np.ndarray:
        """The same for each view of a box: [neurons, 1] or [most alive, items]."""
        found = self.of_neurons(values, i)
        return found if self._rows(i) is None else self._repeated(found)

    def _rows(self, i: int) -> np.ndarray | None:
        return self.rows[i] if i < len(self.hidden) else None

    def first(self, at: int) -> list[np.ndarray]:
        """The weights of the first layer as one view sees it, and their sizes: [neurons, columns], or [neurons,
        columns, boxes] of those that are alive.
        """
        layer, rows = self.arrays.layers[0], self._rows(0)
        both = layer.weight[at], layer.weight_size[at]
        return [part if rows is None else part[rows].transpose(0, 2, 1) for part in both]

    def layer(self, i: int) -> AliveLayer:
        """Layer i, after the first."""
        full: Affine = self.arrays.layers[i]
        inputs, read, outputs = self.rows[i - 1], self.read[i - 1], self._rows(i)
        weights = [full.weight, full.weight_size]
        if inputs is not None or outputs is not None:
            from_ = np.arange(full.weight.shape[1])[:, None] if inputs is None else inputs
            to = np.arange(full.weight.shape[0])[:, None] if outputs is None else outputs
            picked = [part[to[:, None], from_[None]] for part in weights]
            weights = [self._repeated(part if read is None else part * read) for part in picked]
        ends = (self.of_items(part, i) for part in (full.bias, full.bias_size, full.reach))
        return AliveLayer(*weights, *ends)

    def _repeated(self, values: np.ndarray) -> np.ndarray:
        """What is known of boxes, for each of their views."""
        return values if self.views == 1 else np.concatenate([values] * self.views, axis=-1)

    def may_be_active(self, i: int, tops: np.ndarray) -> np.ndarray:
        """Which of all neurons of hidden layer i may be active in some view [neurons, boxes], by the largest values
        [neurons or most alive, items] of their sums.
        """
        active = ~(tops <= 0).reshape(len(tops), self.views, -1).all(axis=1)
        rows, read = self.rows[i], self.read[i]
        if rows is None or read is None:
            return np.asarray(active)
        found = np.zeros((self.hidden[i], active.shape[1]), bool)
        np.put_along_axis(found, rows, active & read, axis=0)
        return found


def count_alive(packed: np.ndarray) -> np.ndarray:
    """How many neurons may be active in boxes, of which eight are told by a byte: [boxes, bytes] → [boxes]."""
    return np.unpackbits(packed, axis=1).sum(axis=1, dtype=np.int64)
