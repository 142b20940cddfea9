"""What share of a box has a sum of functions of its blocks of variables above 0? Bounds that hold, and quick guesses.

Blocks are independent, so the sum's distribution is a convolution. Values are rounded down to multiples of one
width, which can only make the sum smaller; what the fast Fourier transform errs is bounded and subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtr

from bornfair.quantification.nodes import Nodes
from bornfair.quantification.relaxation import Sums
from bornfair.quantification.variables import Variables
from bornfair.verification.boxes import Boxes

PIECES = 256  # parts of a number's range, each taken at its smallest value; of one of two numbers of a block:
PAIR_PIECES = 32
TOGETHER = 64  # boxes transformed in one call
LOSS = 2.0**-44  # relative to the sizes of all terms: far more than the roundings of evaluating a table


def surely_above(nodes: Nodes, boxes: Boxes, sums: Sums, bins: int = 1024) -> np.ndarray:
    """Lower bounds on the share of each box where constant [boxes] + Σ_i table_i [nodes, boxes] > 0."""
    parts = [np.zeros(0)]
    for start in range(0, len(boxes), TOGETHER):
        rows = np.arange(start, min(start + TOGETHER, len(boxes)))
        with np.errstate(all="ignore"):
            parts.append(_above(nodes, boxes[rows], sums.boxes(rows), bins))
    return np.concatenate(parts)


def _above(nodes: Nodes, boxes: Boxes, sums: Sums, bins: int) -> np.ndarray:
    count = len(boxes)
    low, high = nodes.lowest(sums.table), nodes.highest(sums.table)
    size = np.maximum(np.abs(low), np.abs(high)).sum(axis=0) + np.abs(sums.constant)
    base = sums.constant + low.sum(axis=0) - LOSS * size - 1e-300
    span = high - low
    reach = span.sum(axis=0)
    width = np.where(reach > 0, reach, 1.0) * ((1 + 2.0**-30) / (bins - 1))
    sound = np.isfinite(base) & np.isfinite(reach)
    product = np.ones((count, bins // 2 + 1), np.complex128)
    used = 0
    for block in range(nodes.blocks):
        rows = np.flatnonzero((span[block] >= width) & sound)
        if not len(rows):
            continue
        used += 1
        values, chances = _pieces(nodes, block, boxes[rows], sums.table[:, rows])
        index = (values - low[block, rows][:, None]) * ((1 - 2.0**-40) / width[rows])[:, None]
        flat = np.minimum(index.astype(np.int64), bins - 1)  # cuts off, and a value rounded below the lowest is 0
        flat += bins * np.arange(len(rows))[:, None]
        mass = np.bincount(flat.ravel(), chances.ravel(), minlength=bins * len(rows)).reshape(len(rows), bins)
        product[rows] *= fft.rfft(mass, axis=1)
    chance = fft.irfft(product, n=bins, axis=1)
    needed = -base / width
    needed = np.floor(needed + 2.0**-40 * (np.abs(needed) + 1)) + 1
    tail = np.where(np.arange(bins) >= needed[:, None], chance, 0.0).sum(axis=1)
    # A transform of length n errs by at most log2(n)·6u relative to its norm (Higham, Accuracy and Stability, §24.1);
    # a product of these, transformed back and summed over up to n bins, by the following, with room to spare.
    error = 2.0**-46 * (used + 2) * np.log2(bins) * np.sqrt(bins)
    found = np.where(needed <= 0, 1.0, np.clip(tail - error, 0.0, 1.0))
    return np.where(sound, found, 0.0)


def _pieces(nodes: Nodes, block: int, boxes: Boxes, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and their chances [boxes, pieces], each value the smallest of its piece of the block."""
    pairs, singles, variables = len(nodes.pairs), len(nodes.singles), nodes.variables
    if block >= pairs + singles:
        at = block - pairs - singles
        weights = (boxes.high[:, variables.groups[at]] > 0) * variables.category_weights(len(variables.numbers) + at)
        total = weights.sum(axis=1, keepdims=True)
        return table[nodes.parts[block - pairs - singles - len(variables.groups)][0]].T, weights / total
    if block >= pairs:
        axis = _Axis.of(variables, int(nodes.singles[block - pairs]), boxes, PIECES)
        values = table[[part.start + block - pairs for part in nodes.parts[1 if pairs else 0]]].T
        return np.minimum(axis.at(values, axis.first), axis.at(values, axis.last)), axis.chances
    first, second = (_Axis.of(variables, int(number), boxes, PAIR_PIECES) for number in nodes.pairs[block])
    values = table[[part.start + block for part in nodes.parts[0]]].T.reshape(-1, 3, 3)
    ends = []
    for one in first.ends():
        along = first.at(values, one)  # [boxes, pieces of the first, nodes of the second]
        for other in second.ends():
            ends.append(_mixed(along, other))
    chances = first.chances[:, :, None] * second.chances[:, None, :]
    return np.minimum.reduce(ends).reshape(len(boxes), -1), chances.reshape(len(boxes), -1)


class _Axis(NamedTuple):
    """One number cut into pieces, none of which reaches across its middle: where each begins and ends, from −1 to 1."""

    first: np.ndarray  # [boxes, pieces]
    last: np.ndarray
    chances: np.ndarray

    @staticmethod
    def of(variables: Variables, number: int, boxes: Boxes, most: int) -> _Axis:
        column = variables.numbers[number]
        low, high = boxes.low[:, column][:, None], boxes.high[:, column][:, None]
        width = np.where(high > low, high - low, 1.0)
        weighted = number in variables.weights
        if variables.places.lattice[column]:
            left = np.floor((high - low) / 2) + 1  # people up to the middle
            right = high - low + 1 - left
            half = int(min(most // 2, left.max()))
            steps = np.arange(half + 1) / half
            edges = np.concatenate([np.round(left * steps), left + np.round(right * steps[1:])], axis=1)
            begin, end = edges[:, :-1], np.maximum(edges[:, 1:] - 1, edges[:, :-1])
            mass = variables.cumulative(number, low + edges - 1, after=True) if weighted else edges
            end = np.minimum(end, high - low)
            begin = np.minimum(begin, end)
        else:
            edges = (high - low) * (np.arange(most + 1) / most)
            begin, end = edges[:, :-1], edges[:, 1:]
            mass = variables.cumulative(number, low + edges, after=True) if weighted else edges
        chances = np.maximum(np.diff(mass, axis=1), 0.0)
        if number in variables.beyond:
            if not weighted and not variables.places.lattice[column]:  # as masses are measured: in widths of the whole
                chances = chances / float(variables.places.root.high[0, column] - variables.places.root.low[0, column])
            below, above = variables.on_ends(number, low[:, 0], high[:, 0])
            chances = np.concatenate([chances, below[:, None], above[:, None]], axis=1)
            ends = np.zeros_like(low), high - low
            begin, end = (np.concatenate([places, *ends], axis=1) for places in (begin, end))
        total = chances.sum(axis=1, keepdims=True)
        first, last = (np.clip(2 * place / width - 1, -1.0, 1.0) for place in (begin, end))
        return _Axis(first, last, chances / np.where(total > 0, total, 1.0))

    def ends(self) -> list[np.ndarray]:
        """Both ends of all pieces; once, where every piece is a single person."""
        return [self.first] if np.array_equal(self.first, self.last) else [self.first, self.last]

    def at(self, values: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Values [boxes, 3, …] at the nodes of this axis, interpolated: [boxes, pieces, …]."""
        shape = (*where.shape, *(1,) * (values.ndim - 2))
        where = where.reshape(shape)
        left, right = values[:, 1:2] - values[:, 0:1], values[:, 2:3] - values[:, 1:2]
        return values[:, 1:2] + np.where(where < 0, left, right) * where


def _mixed(along: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Values [boxes, pieces, 3] interpolated along a second axis: [boxes, pieces, pieces]."""
    place = where[:, None, :]
    left, right = along[..., 1:2] - along[..., 0:1], along[..., 2:3] - along[..., 1:2]
    return along[..., 1:2] + np.where(place < 0, left, right) * place


def likely_above(nodes: Nodes, sums: Sums, weights: np.ndarray) -> np.ndarray:
    """About the share of each box where the sums are above 0, as if they were normal: [..., boxes]. Proves nothing.

    `weights` are those of the nodes.
    """
    mean, variance = nodes.moments(sums.table, weights)
    mean = sums.constant + mean
    least = sums.constant + nodes.lowest(sums.table).sum(axis=-2)
    most = sums.constant + nodes.highest(sums.table).sum(axis=-2)
    guess = ndtr(mean / np.sqrt(np.maximum(variance, 1e-300)))
    return np.where(least > 0, 1.0, np.where(most <= 0, 0.0, np.nan_to_num(guess)))
