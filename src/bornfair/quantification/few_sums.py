"""What is decided of people of whom a network tells few sums apart?

In a box most neurons are silent, or pass their sums on unchanged. What the network decides hangs on few sums then: on
all sums of a layer in which few neurons are alive; or on those of the neurons that bend up to some layer, and on what
is passed on to it beside them. How a few sums are distributed together is known (`grids`), and what follows from them is
bounded cell by cell, by affine forms. Other than with bounds that are sums of functions of one block, no layer makes it
wider: what is left open is what the grid cannot tell, at any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bornfair.models.rounding import FLOOR
from bornfair.quantification.grids import Choices, Grid
from bornfair.quantification.relaxation import ReluPass, fewest
from bornfair.verification.boxes import Boxes

if TYPE_CHECKING:
    from bornfair.quantification.forms import Bounder

CELLS = {1: 13, 2: 16}  # for so many sums there are grids, of 2^13 cells for one of them
MOST_SUMS = max(CELLS)


def serves(owner: Bounder) -> bool:
    """Whether a network can be looked at so: of ReLU, read in one way by not too many views."""
    return (
        owner.network.function.exact
        and len(owner.network.layers) > 1
        and owner.arrays.layers[0].weight.shape[0] == 1
        and not owner.hull
        and owner.bounded_views == len(owner.relation.views)
    )


class _Stage(NamedTuple):
    """Sums that are looked at: sum + offset + matrix · (what the neurons of earlier stages give) ± error."""

    matrix: np.ndarray
    offset: np.ndarray  # [views, sums]
    error: np.ndarray


class _Forms(NamedTuple):
    """Affine forms on cells: middle + slopes·ξ ± error, |ξ| ≤ 1."""

    values: np.ndarray  # [neurons, 1 + sums, views · cells]: the middle, then the slopes
    error: np.ndarray  # [neurons, views · cells]
    size: np.ndarray  # [neurons]: on no cell |middle| + reach is larger

    @property
    def reach(self) -> np.ndarray:
        return np.abs(self.values[:, 1:]).sum(axis=1) + self.error

    def through(self, matrix: np.ndarray, offset: np.ndarray, error: np.ndarray, slack: float) -> _Forms:
        """matrix·values + offset ± error; we round by at most `slack` of the sizes of all terms."""
        flat = matrix @ self.values.reshape(len(self.values), int(np.prod(self.values.shape[1:])))
        values = flat.reshape(len(matrix), *self.values.shape[1:])
        values[:, 0] += offset
        size = np.abs(matrix) @ self.size + np.abs(offset).max(axis=1)
        return _Forms(values, np.abs(matrix) @ self.error + (error + slack * size)[:, None], size)

    def relu(self) -> _Forms:
        """Both lines have one slope; where it bends, the upper one is lifted."""
        middle, reach = self.values[:, 0], self.reach
        top, bottom = middle + reach, middle - reach
        slope = np.clip(top / np.where(reach > 0, 2 * reach, FLOOR), 0.0, 1.0)
        lift = np.maximum(-slope * bottom, top - slope * top) * (0.5 * (1 + 2.0**-40))
        values = slope[:, None] * self.values
        values[:, 0] += lift
        # |middle| + reach is multiplied by the slope; both lifts together are no larger than it was.
        size = 2 * np.maximum(top.max(axis=1, initial=0.0), -bottom.min(axis=1, initial=0.0))
        return _Forms(values, slope * self.error + lift, size)

    def joined(self, other: _Forms) -> _Forms:
        return _Forms(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class FewSums:
    """A network on one box of a pass, as a function of few sums rows·u."""

    def __init__(self, done: ReluPass, box: int, alive: np.ndarray) -> None:
        """`alive` [hidden neurons]: which may be active, as far as is known."""
        items = np.arange(done.views) * done.boxes + box
        self.views, self.slack, self.layers = done.views, done.slack, done.arrays.layers
        known = np.split(alive, np.cumsum(done.layers[1:-1])[:-1])
        self.alive = [(tops[:, items] > 0).any(axis=1) & k for tops, k in zip(done.tops, known, strict=True)]
        bends = [a & (low[:, items] < 0).any(axis=1) for a, low in zip(self.alive, done.bottoms, strict=True)]
        alive_counts, bend_counts = ([part.sum(keepdims=True) for part in parts] for parts in (self.alive, bends))
        self.alive.append(np.ones(len(self.layers[-1].bias), bool))
        fewest_, layer = fewest(alive_counts, bend_counts, len(self.layers[-1].bias))
        self.count, self.layer = int(fewest_[0]), int(layer[0])
        self.errors = [error[:, items].max(axis=1) for error in done.errors]
        self.errors[0] = self.errors[0] + done.pad[:, items].max(axis=1)
        self.fine = bool(done.fine[items].all())
        self.rows, self.stages = self._collapsed(np.maximum(np.abs(done.low[box]), np.abs(done.high[box])), bends)

    def _collapsed(self, furthest: np.ndarray, bends: list[np.ndarray]) -> tuple[np.ndarray, list[_Stage]]:
        """Which sums are looked at, and how they follow from each other: what neurons pass on is multiplied out."""
        first = self.layers[0]
        rows, offset = first.weight[0], first.bias
        size = first.weight_size[0] @ furthest + first.bias_size.max(axis=0)
        matrix, error = np.zeros((len(rows), 0)), self.errors[0] + self.slack * size
        picked, stages = [], []
        for i in range(self.layer + 1):
            looked = bends[i] if i < self.layer else self.alive[i]
            picked.append(rows[looked])
            stages.append(_Stage(matrix[looked], offset[:, looked], error[looked]))
            if i < self.layer:
                layer, on = self.layers[i + 1], self.alive[i] & ~looked
                passed, bent = layer.weight[:, on], layer.weight[:, looked]
                size = np.abs(passed) @ size[on] + np.abs(bent) @ size[looked] + np.abs(layer.bias)
                rows, offset = passed @ rows[on], offset[:, on] @ passed.T + layer.bias
                matrix = np.concatenate([passed @ matrix[on], bent], axis=1)
                error = np.abs(passed) @ error[on] + self.errors[i + 1] + self.slack * size
        return np.concatenate(picked), stages

    def outputs(self, middle: np.ndarray, reach: np.ndarray) -> _Forms:
        """All leads on cells of the sums: middle [sums, cells] ± reach [sums]; [leads, …, views · cells]."""
        count, cells = middle.shape
        wide = self.views * cells
        given, start = _Forms(np.zeros((0, 1 + count, wide)), np.zeros((0, wide)), np.zeros(0)), 0
        for i, stage in enumerate(self.stages):
            mine = np.arange(len(stage.matrix)) + start
            offset = np.tile(middle[mine], (1, self.views)) + np.repeat(stage.offset.T, cells, axis=1)
            error = stage.error + self.slack * np.abs(middle[mine]).max(axis=1)
            forms = given.through(stage.matrix, offset, error, self.slack)
            forms.values[mine - start, 1 + mine] += reach[mine, None]
            start += len(mine)
            if i < self.layer:
                given = given.joined(forms.relu())
        for i in range(self.layer + 1, len(self.layers)):
            layer, now = self.layers[i], self.alive[i]
            weight = layer.weight[np.ix_(now, self.alive[i - 1])]
            forms = forms.relu().through(weight, layer.bias[now, None], self.errors[i][now], self.slack)
        return forms

    def steepness(self, middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """About how much the leads change over the range of each sum."""
        return np.nan_to_num(np.abs(self.outputs(middle[:, None], reach).values[:, 1:]).max(axis=(0, 2)))

    def classes(self, pairs: tuple[tuple[int, int], ...], middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Which class every view surely gets on cells: bool [classes, views, cells]."""
        forms = self.outputs(middle, reach)
        reach = forms.reach
        low, high = forms.values[:, 0] - reach, forms.values[:, 0] + reach
        found = np.ones((max(b for b, _ in pairs) + 1, low.shape[1]), bool)
        for (b, a), least, most in zip(pairs, low, high, strict=True):
            found[b] &= least > 0
            found[a] &= most < 0
        return found.reshape(len(found), self.views, middle.shape[1])


def prove_by_few(owner: Bounder, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
    """Shares of boxes that are certified and falsified, where few sums tell all: lower bounds."""
    ends = owner.variables.places.bounds(boxes)
    alive = np.unpackbits(boxes.facts["alive"], axis=1, count=sum(owner.network.widths[1:-1])).astype(bool)
    certified, falsified = np.zeros((2, len(boxes)))
    with np.errstate(all="ignore"):  # what overflows is not finite, and claims nothing
        done = ReluPass(owner, *ends)
        done.run()
        mixed = owner.variables.places.unsettled(boxes)
        choices = Choices.of(owner.variables, boxes, *ends)
        for i in range(len(boxes)):
            few = FewSums(done, i, alive[i])
            if few.count in CELLS and few.fine and not mixed[i]:
                certified[i], falsified[i] = _proven(owner, choices, i, few)
    return certified, np.minimum(falsified, np.maximum(1 - certified - 2.0**-40, 0.0))


def _proven(owner: Bounder, choices: Choices, box: int, few: FewSums) -> np.ndarray:
    grid = Grid.of(choices, box, few.rows, CELLS[few.count], few.steepness)

    def decide(middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        wins = few.classes(owner.pairs, middle, reach)
        fair = wins.all(axis=1).any(axis=0)
        return np.stack([fair, (wins.any(axis=1).sum(axis=0) > 1) & ~fair])

    return grid.decided(decide)
