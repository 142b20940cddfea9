"""The share of a box where a sum of functions of its blocks of variables is above 0: proven bounds, and quick guesses.

Blocks are independent, so the sum's distribution is a convolution. Values are rounded down to multiples of one
width, which can only make the sum smaller; what the fast Fourier transform errs is bounded and subtracted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtr

from bornfair.models.network.shares.nodes import Nodes
from bornfair.models.network.shares.relaxation import Sums
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables

PIECES = 256  # parts of a number's range, each taken at its smallest value
COMBINED = 1024  # values of several blocks that are added up without rounding
TOGETHER = 64  # boxes transformed in one call
LOSS = 2.0**-44  # relative to the sizes of all terms: far more than the roundings of evaluating a table
GRID_PIECES = 512  # parts of a number's range, at most, which are taken for one value each
GRID_COMBINED = 2**13  # combinations of values that are added up exactly
LEAST = 5  # of a sum's range there are 2^5 steps, at least
ROUNDINGS = 4  # parts: where there are more, so many times as many cells
MOST_CELLS = {1: 16, 2: 20}  # as powers of two, for one sum and for two
COARSE = {1: 8, 2: 4}  # a sum's range is first looked at in 2^8 parts, where there is one of them
FINER = {1: 32, 2: 4}  # and then in so many times as many
NOBODY = 1e-13  # shares of a box that are not looked at
OWN_LOSS = 2.0**-38  # relative to the sizes of sums: far more than all roundings of theirs


def lowest_of_views(nodes: Nodes, sums: Sums) -> Sums:
    """One sum below those of all views [views, …]: the lowest of their values at each node, means taken apart."""
    means = nodes.middle(sums.table)
    size = np.abs(sums.constant) + 2 * np.abs(sums.table).sum(axis=-2)
    constant = sums.constant + means.sum(axis=-2) - LOSS * size
    table = sums.table - nodes.at_nodes(means)
    return Sums(constant.min(axis=0, keepdims=True), table.min(axis=0, keepdims=True))


def surely_above(nodes: Nodes, boxes: Boxes, sums: Sums, bins: int = 1024) -> np.ndarray:
    """Lower bounds on the share of each box where constant [boxes] + Σ_i table_i [nodes, boxes] > 0."""
    parts = [np.zeros(0)]
    for start in range(0, len(boxes), TOGETHER):
        rows = np.arange(start, min(start + TOGETHER, len(boxes)))
        with np.errstate(all="ignore"):
            parts.append(_above(nodes, boxes[rows], sums.boxes(rows), bins))
    return np.concatenate(parts)


def _above(nodes: Nodes, boxes: Boxes, sums: Sums, bins: int) -> np.ndarray:
    low, high = nodes.lowest(sums.table), nodes.highest(sums.table)
    size = np.maximum(np.abs(low), np.abs(high)).sum(axis=0) + np.abs(sums.constant)
    base = sums.constant + low.sum(axis=0) - LOSS * size - 1e-300
    span = high - low
    reach = span.sum(axis=0)
    width = np.where(reach > 0, reach, 1.0) * ((1 + 2.0**-30) / (bins - 1))
    sound = np.isfinite(base) & np.isfinite(reach)
    table, low = np.where(sound, sums.table, 0.0), np.where(sound, low, 0.0)
    # What a block adds beyond its lowest value, in bins; a block that adds less than a bin is left at its lowest.
    parts = [
        Addend(((values - low[block][:, None]) * ((1 - 2.0**-40) / width)[:, None]).clip(0.0), chances)
        for block in np.flatnonzero(((span >= width) & sound).any(axis=1))
        for values, chances in [_pieces(nodes, int(block), boxes, table)]
    ]
    # Those with most values are looked up one by one, and are never rounded.
    whole = sorted(combined(parts, COMBINED), key=lambda one: one.size)
    *others, last = whole or [Addend(np.zeros((len(boxes), 1)), np.ones((len(boxes), 1)))]
    tail = _at_least(others, len(boxes), bins)
    needed = np.where(sound, -base / width, np.inf)[:, None] - last.added
    needed = np.floor(needed + 2.0**-40 * (np.abs(needed) + 1)) + 1
    index = np.where(sound[:, None], needed.clip(0, bins), bins).astype(np.int64)
    found = (np.take_along_axis(tail, index, axis=1) * last.chances).sum(axis=1)
    # A transform of length n errs by at most log2(n)·6u relative to its norm (Higham, Accuracy and Stability, §24.1);
    # a product of these, transformed back and summed over up to n bins, by the following, with room to spare.
    error = 2.0**-46 * (len(parts) + 2) * np.log2(bins) * np.sqrt(bins)
    return np.where(needed.max(axis=1) <= 0, 1.0, np.clip(found - error, 0.0, 1.0)) * sound


class Addend(NamedTuple):
    """What some variables add together to a sum, or to each of some sums, and with what chances."""

    added: np.ndarray  # [boxes, values], or [boxes, values, sums]
    chances: np.ndarray  # [boxes, values]

    @property
    def size(self) -> int:
        return self.chances.shape[1]

    def joined(self, other: Addend) -> Addend:
        added = self.added[:, :, None] + other.added[:, None]
        chances = self.chances[:, :, None] * other.chances[:, None]
        return Addend(added.reshape(len(added), -1, *added.shape[3:]), chances.reshape(len(added), -1))


def combined(parts: list[Addend], most: int) -> list[Addend]:
    """The same in fewer parts of up to so many values: the largest first, each put to the first where there is room."""
    found: list[Addend] = []
    for part in sorted(parts, key=lambda one: -one.size):
        for i, one in enumerate(found):
            if one.size * part.size <= most:
                found[i] = one.joined(part)
                break
        else:
            found.append(part)
    return found


def _at_least(parts: list[Addend], count: int, bins: int) -> np.ndarray:
    """The chance that the parts, each rounded down, add up to so many bins or more: [boxes, bins + 1]."""
    masses: list[np.ndarray] = []
    for part in parts:
        flat = np.minimum(part.added.astype(np.int64), bins - 1) + bins * np.arange(count)[:, None]
        masses.append(np.bincount(flat.ravel(), part.chances.ravel(), minlength=bins * count).reshape(count, bins))
    chance = masses[0] if masses else np.eye(1, bins).repeat(count, axis=0)
    if len(masses) > 1:
        product = fft.rfft(masses[0], axis=1)
        for mass in masses[1:]:
            product *= fft.rfft(mass, axis=1)
        chance = fft.irfft(product, n=bins, axis=1)
    tail = np.zeros((count, bins + 1))
    np.cumsum(chance[:, ::-1], axis=1, out=tail[:, 1:])
    return tail[:, ::-1]


def _pieces(nodes: Nodes, block: int, boxes: Boxes, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and their chances [boxes, pieces], each value the smallest of its piece of the block."""
    pairs, singles, variables = len(nodes.pairs), len(nodes.singles), nodes.variables
    if block >= pairs + singles:
        at = block - pairs - singles
        weights = (boxes.high[:, variables.groups[at]] > 0) * variables.category_weights(len(variables.numbers) + at)
        total = weights.sum(axis=1, keepdims=True)
        return table[nodes.parts[block - pairs - singles - len(variables.groups)][0]].T, weights / total
    if block >= pairs:
        axis = Axis.of(variables, int(nodes.singles[block - pairs]), boxes, PIECES)
        values = table[[part.start + block - pairs for part in nodes.parts[1 if pairs else 0]]].T
        return np.minimum(interpolated(values, axis.first), interpolated(values, axis.last)), axis.chances
    numbers = [int(number) for number in nodes.pairs[block]]
    columns = variables.numbers[numbers]
    width = (boxes.high - boxes.low)[:, columns].max(axis=0) + 2
    most = [int(n) for n in np.where(variables.places.lattice[columns], width, PIECES).clip(2, PIECES)]
    while most[0] * most[1] > COMBINED and max(most) > 2:
        more = most.index(max(most))
        most[more] = max(most[more] // 2, 2)
    first, second = (Axis.of(variables, number, boxes, n) for number, n in zip(numbers, most, strict=True))
    values = table[[part.start + block for part in nodes.parts[0]]].T.reshape(-1, 3, 3)
    ends = []
    for one in first.ends():
        along = interpolated(values, one)  # [boxes, pieces of the first, nodes of the second]
        for other in second.ends():
            ends.append(interpolated(along.swapaxes(1, 2), other).swapaxes(1, 2))
    chances = first.chances[:, :, None] * second.chances[:, None, :]
    return np.minimum.reduce(ends).reshape(len(boxes), -1), chances.reshape(len(boxes), -1)


class Axis(NamedTuple):
    """One number cut into pieces, none of which reaches across its middle: where each begins and ends, from −1 to 1."""

    first: np.ndarray  # [boxes, pieces]
    last: np.ndarray
    chances: np.ndarray

    @staticmethod
    def of(variables: Variables, number: int, boxes: Boxes, most: int) -> Axis:
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
        return Axis(first, last, chances / np.where(total > 0, total, 1.0))

    def ends(self) -> list[np.ndarray]:
        """Both ends of all pieces; once, where every piece is a single person."""
        return [self.first] if np.array_equal(self.first, self.last) else [self.first, self.last]


def interpolated(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Values [boxes, 3, …] at the nodes of a number, at places [boxes, pieces] from −1 to 1: [boxes, pieces, …]."""
    where = where.reshape(*where.shape, *(1,) * (values.ndim - 2))
    left, right = values[:, 1:2] - values[:, 0:1], values[:, 2:3] - values[:, 1:2]
    return values[:, 1:2] + np.where(where < 0, left, right) * where


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


# --- few sums together ---
#
# Each variable has a few values, each sum a part for each of them. Parts of variables are added up exactly as long as
# there are not too many combinations; then they are rounded down to a grid, and the grids are convolved. So the mass of
# a cell is that of people whose sums lie in it or above it by less than one step for each rounding.


class Grid(NamedTuple):
    """The masses of cells: who is counted in cell i has sums between first + step·i and as much as `reach` above."""

    mass: np.ndarray  # [cells of the first sum, …]
    first: np.ndarray  # [sums]
    step: np.ndarray
    rounded: int
    beyond: np.ndarray  # [sums]: how far sums may lie beyond both ends, for what is not a single value and for rounding
    error: float  # of the masses of any cells together

    @staticmethod
    def of(
        choices: Choices, box: int, rows: np.ndarray, cells: int,
        steepness: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> Grid:  # fmt: skip
        """The sums rows·u [sums, columns] in one of some boxes, in 2^cells cells.

        `steepness` tells how much what is asked changes along each sum, about, from the middle and half the length of
        the sums' ranges: so fine they are looked at.
        """
        parts, beyond = combined(choices.parts(box, rows), GRID_COMBINED), np.abs(rows) @ choices.beyond[box]
        low, high = (np.array([f(part.added[0], axis=0) for part in parts]) for f in (np.min, np.max))
        first, length = low.sum(axis=0), (high - low).sum(axis=0)
        size = np.maximum(np.abs(low), np.abs(high)).sum(axis=0) + length
        shape = 1 << _bits(steepness(first + length / 2, length / 2), cells, len(parts))
        step = np.where(length > 0, length, 1.0) * (1 + 2.0**-30) / (shape - len(parts))
        product: np.ndarray | None = None
        for part, least in zip(parts, low, strict=True):
            index = ((part.added[0] - least) * ((1 - 2.0**-40) / step)).astype(np.int64)
            flat = np.ravel_multi_index(tuple(index.T), tuple(shape))
            mass = np.bincount(flat, part.chances[0], minlength=int(shape.prod())).reshape(shape)
            if len(parts) > 1:
                mass = fft.rfftn(mass)
            product = mass if product is None else product * mass
        assert product is not None
        if len(parts) > 1:
            product = fft.irfftn(product, s=tuple(shape))
        count = float(shape.prod())
        error = 2.0**-46 * (len(parts) + 2) * np.log2(count) * np.sqrt(count)  # as in `_above`
        return Grid(product, first, step, len(parts), beyond + OWN_LOSS * size, float(error))

    def decided(self, decide: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """The mass that `decide` tells something of, by what it tells: lower bounds.

        `decide` is given the middles [sums, cells] and the reach [sums] of cells, and tells of each what holds of all
        of it: bool [answers, cells], at most one of them. First coarse cells are asked about; where it knows nothing,
        finer ones.
        """
        shape, total = np.array(self.mass.shape), 0.0
        coarse, times = np.minimum(shape, 1 << COARSE[len(shape)]), FINER[len(shape)]
        cells = np.indices(tuple(coarse)).reshape(len(shape), -1)
        while True:
            each = shape // coarse
            blocks = self.mass.reshape(np.stack([coarse, each], axis=1).ravel())
            mass = blocks.sum(axis=tuple(range(1, blocks.ndim, 2)))[tuple(cells)]
            cells, mass = cells[:, mass > NOBODY], mass[mass > NOBODY]
            if not len(mass):
                break
            reach = (each - 1 + self.rounded) * self.step / 2
            middle = self.first[:, None] + self.step[:, None] * (cells * each[:, None]) + reach[:, None]
            found = decide(middle, reach + self.beyond)
            total = total + (found * mass).sum(axis=1)
            if (coarse == shape).all():
                break
            finer = np.minimum(shape, times * coarse) // coarse
            inside = np.indices(tuple(finer)).reshape(len(shape), -1)
            left = cells[:, ~found.any(axis=0)]
            cells = (left[:, :, None] * finer[:, None, None] + inside[:, None, :]).reshape(len(shape), -1)
            coarse = coarse * finer
        return np.maximum(total - self.error, 0.0)


class Choices(NamedTuple):
    """What values the variables have in some boxes, and their chances."""

    columns: list[Any]  # of each variable
    values: list[list[np.ndarray]]  # of each variable and box [values]; of a group, which categories
    chances: list[list[np.ndarray]]
    beyond: np.ndarray  # [boxes, columns]: how far from these values others lie which they stand for

    @staticmethod
    def of(variables: Variables, boxes: Boxes, low: np.ndarray, high: np.ndarray) -> Choices:
        """low, high [boxes, columns]: the boxes as rows of u."""
        values, chances, beyond = [], [], np.zeros_like(low)
        for i, column in enumerate(variables.numbers):
            ends = low[:, column], high[:, column]
            middle, radius = ends[0] / 2 + ends[1] / 2, np.maximum(ends[1] - ends[0], 0.0) / 2
            axis = Axis.of(variables, i, boxes, GRID_PIECES)
            at = middle[:, None] + radius[:, None] * (axis.first / 2 + axis.last / 2)
            there, several = (axis.chances > 0) & (radius > 0)[:, None], radius > 0
            beyond[:, column] = radius * np.where(there, np.abs(axis.last - axis.first) / 2, 0.0).max(axis=1)
            one = np.ones(1)
            values.append([a[t] if s else m[None] for a, t, s, m in zip(at, there, several, middle, strict=True)])
            chances.append([c[t] if s else one for c, t, s in zip(axis.chances, there, several, strict=True)])
        for i, group in enumerate(variables.groups):
            weights = (boxes.high[:, group] > 0) * variables.category_weights(len(variables.numbers) + i)
            allowed = [np.flatnonzero(row) for row in weights]
            values.append(allowed)
            chances.append([row[which] / row.sum() for row, which in zip(weights, allowed, strict=True)])
        return Choices([*variables.numbers, *variables.groups], values, chances, beyond)

    def parts(self, box: int, rows: np.ndarray) -> list[Addend]:
        """What each variable adds to the sums rows·u in a box."""
        found = []
        for column, values, chances in zip(self.columns, self.values, self.chances, strict=True):
            mine = rows[:, column]
            added = mine[:, values[box]].T if isinstance(column, slice) else values[box][:, None] * mine
            found.append(Addend(added[None], chances[box][None]))
        return found


def _bits(steepness: np.ndarray, cells: int, parts: int) -> np.ndarray:
    """In how many steps, as powers of two, to look at each sum: more where it is steeper, and at least some for each
    part that is rounded.
    """
    count, least = len(steepness), max(LEAST, int(4 * parts).bit_length())
    cells += max(int(np.ceil(np.log2(parts / ROUNDINGS))), 0)
    cells = max(min(cells, MOST_CELLS[count]), least * count)
    wanted = np.log2(np.maximum(steepness, 1e-12 * steepness.max(initial=0.0)) + 1e-300)
    wanted = wanted - wanted.mean() + cells / count
    found = np.clip(np.round(wanted).astype(np.int64), least, cells - least * (count - 1))
    while found.sum() > cells:
        found[np.argmax(np.where(found > least, found - wanted, -np.inf))] -= 1
    while found.sum() < cells:
        found[np.argmin(found - wanted)] += 1
    return found
