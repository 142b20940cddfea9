"""What does a network make of small cells of some of its sums? Affine forms through its layers, on one box.

A form is a line over the cell with one error for all that is not linear. Cells are so small that few neurons bend in
them: then a form is all but exact, through any number of layers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bornfair.models.network.shares.relaxation import ReluPass
from bornfair.models.rounding import FLOOR


class Forms(NamedTuple):
    """Affine forms on cells: middle + slopes·ξ ± error, |ξ| ≤ 1."""

    values: np.ndarray  # [neurons, 1 + sums, views · cells]: the middle, then the slopes
    error: np.ndarray  # [neurons, views · cells]
    size: np.ndarray  # [neurons]: on no cell |middle| + reach is larger

    @property
    def reach(self) -> np.ndarray:
        return np.abs(self.values[:, 1:]).sum(axis=1) + self.error

    def through(self, matrix: np.ndarray, offset: np.ndarray, error: np.ndarray, slack: float) -> Forms:
        """matrix·values + offset ± error; we round by at most `slack` of the sizes of all terms."""
        flat = matrix @ self.values.reshape(len(self.values), int(np.prod(self.values.shape[1:])))
        values = flat.reshape(len(matrix), *self.values.shape[1:])
        values[:, 0] += offset
        size = np.abs(matrix) @ self.size + np.abs(offset).max(axis=1)
        return Forms(values, np.abs(matrix) @ self.error + (error + slack * size)[:, None], size)

    def relu(self) -> Forms:
        """Both lines have one slope; where it bends, the upper one is lifted."""
        middle, reach = self.values[:, 0], self.reach
        top, bottom = middle + reach, middle - reach
        slope = np.clip(top / np.where(reach > 0, 2 * reach, FLOOR), 0.0, 1.0)
        lift = np.maximum(-slope * bottom, top - slope * top) * (0.5 * (1 + 2.0**-40))
        values = slope[:, None] * self.values
        values[:, 0] += lift
        # |middle| + reach is multiplied by the slope; both lifts together are no larger than it was.
        size = 2 * np.maximum(top.max(axis=1, initial=0.0), -bottom.min(axis=1, initial=0.0))
        return Forms(values, slope * self.error + lift, size)

    def joined(self, other: Forms) -> Forms:
        return Forms(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class BoxNetwork:
    """A network on one box of a pass: what is alive in some view, and what bends."""

    def __init__(self, done: ReluPass, box: int, alive: np.ndarray) -> None:
        """`alive` [hidden neurons]: which may be active, as far as is known."""
        self.items = np.arange(done.views) * done.boxes + box
        self.views, self.slack, self.layers = done.views, done.slack, done.arrays.layers
        self.furthest = np.maximum(np.abs(done.low[box]), np.abs(done.high[box]))
        known = np.split(alive, np.cumsum(done.layers[1:-1])[:-1])
        self.tops = [part[:, self.items].max(axis=1) for part in done.tops]
        self.bottoms = [part[:, self.items].min(axis=1) for part in done.bottoms]
        self.alive = [(top > 0) & mine for top, mine in zip(self.tops, known, strict=True)]
        self.bends = [mine & (bottom < 0) for mine, bottom in zip(self.alive, self.bottoms, strict=True)]
        self.alive.append(np.ones(len(self.layers[-1].bias), bool))
        self.errors = [part[:, self.items].max(axis=1) for part in done.errors]
        self.errors[0] = self.errors[0] + done.pad[:, self.items].max(axis=1)
        self.fine = bool(done.fine[self.items].all())

    def leads(self, sums: Forms, layer: int) -> Forms:
        """The leads, from the sums of a layer's live neurons."""
        for i in range(layer + 1, len(self.layers)):
            full, now = self.layers[i], self.alive[i]
            weight = full.weight[np.ix_(now, self.alive[i - 1])]
            sums = sums.relu().through(weight, full.bias[now, None], self.errors[i][now], self.slack)
        return sums


def sure_wins(leads: Forms, pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Which class surely wins on each cell: bool [classes, cells]."""
    reach = leads.reach
    low, high = leads.values[:, 0] - reach, leads.values[:, 0] + reach
    found = np.ones((max(b for b, _ in pairs) + 1, low.shape[1]), bool)
    for (b, a), least, most in zip(pairs, low, high, strict=True):
        found[b] &= least > 0
        found[a] &= most < 0
    return found
