"""How are a few sums of independent variables distributed together, inside one box?

Each variable has a few values, each sum a part for each of them. Parts of variables are added up exactly as long as
there are not too many combinations; then they are rounded down to a grid, and the grids are convolved. So the mass of a
cell is that of people whose sums lie in it or above it by less than one step for each rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import fft

from bornfair.models.network.shares.shares import Axis, combined
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables

PIECES = 512  # parts of a number's range, at most, which are taken for one value each
COMBINED = 2**13  # combinations of values that are added up exactly
LEAST = 5  # of a sum's range there are 2^5 steps, at least
ROUNDINGS = 4  # parts: where there are more, so many times as many cells
MOST_CELLS = {1: 16, 2: 20}  # as powers of two, for one sum and for two
COARSE = {1: 8, 2: 4}  # a sum's range is first looked at in 2^8 parts, where there is one of them
FINER = {1: 32, 2: 4}  # and then in so many times as many
NOBODY = 1e-13  # shares of a box that are not looked at
OWN_LOSS = 2.0**-38  # relative to the sizes of sums: far more than all roundings of theirs


class _Part(NamedTuple):
    """The values of some variables together: what they add to each sum [values, sums], and their chances."""

    values: np.ndarray
    chances: np.ndarray

    @property
    def size(self) -> int:
        return len(self.chances)

    def joined(self, other: _Part) -> _Part:
        values = self.values[:, None] + other.values[None]
        return _Part(values.reshape(-1, values.shape[2]), (self.chances[:, None] * other.chances[None]).ravel())


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
        parts, beyond = combined(choices.parts(box, rows), COMBINED), np.abs(rows) @ choices.beyond[box]
        low, high = (np.array([f(part.values, axis=0) for part in parts]) for f in (np.min, np.max))
        first, length = low.sum(axis=0), (high - low).sum(axis=0)
        size = np.maximum(np.abs(low), np.abs(high)).sum(axis=0) + length
        shape = 1 << _bits(steepness(first + length / 2, length / 2), cells, len(parts))
        step = np.where(length > 0, length, 1.0) * (1 + 2.0**-30) / (shape - len(parts))
        product: np.ndarray | None = None
        for part, least in zip(parts, low, strict=True):
            index = ((part.values - least) * ((1 - 2.0**-40) / step)).astype(np.int64)
            flat = np.ravel_multi_index(tuple(index.T), tuple(shape))
            mass = np.bincount(flat, part.chances, minlength=int(shape.prod())).reshape(shape)
            if len(parts) > 1:
                mass = fft.rfftn(mass)
            product = mass if product is None else product * mass
        assert product is not None
        if len(parts) > 1:
            product = fft.irfftn(product, s=tuple(shape))
        count = float(shape.prod())
        error = 2.0**-46 * (len(parts) + 2) * np.log2(count) * np.sqrt(count)  # as in `shares`
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
            mass = self._blocks(coarse)[tuple(cells)]
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

    def _blocks(self, count: np.ndarray) -> np.ndarray:
        """The masses of so many blocks of cells."""
        split = np.stack([count, np.array(self.mass.shape) // count], axis=1).ravel()
        return self.mass.reshape(split).sum(axis=tuple(range(1, len(split), 2)))


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
            axis = Axis.of(variables, i, boxes, PIECES)
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

    def parts(self, box: int, rows: np.ndarray) -> list[_Part]:
        """What each variable adds to the sums rows·u in a box."""
        found = []
        for column, values, chances in zip(self.columns, self.values, self.chances, strict=True):
            mine = rows[:, column]
            added = mine[:, values[box]].T if isinstance(column, slice) else values[box][:, None] * mine
            found.append(_Part(added, chances[box]))
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
