"""Proven shares of boxes where the decision is a function of few sums.

In a box most neurons are silent, or pass their sums on unchanged. What the network decides hangs on few sums then: on
all sums of a layer in which few neurons are alive; or on those of the neurons that bend up to some layer, and on what
is passed on to it beside them. How few sums are distributed together is known (`shares`), and what follows from them is
bounded cell by cell, by affine forms: a line over the cell with one error for all that is not linear. Other than with
bounds that are sums of functions of one block, no layer makes it wider: what is left open is what the grid cannot tell,
at any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.network.shares.relaxation import ReluPass, Sums, bottleneck, fewest
from bornfair.models.network.shares.shares import Choices, Grid, lowest_of_views, surely_above
from bornfair.models.rounding import FLOOR
from bornfair.people.space.boxes import Boxes

if TYPE_CHECKING:
    from bornfair.models.network.shares.forms import Bounder

CELLS = {1: 13, 2: 16}  # for so many sums there are grids, of 2^13 cells for one of them
MOST_SUMS = max(CELLS)
HEAVY = 64  # such a part of everybody is worth
FINER = 2  # a grid of 2^2 times as many cells; and so does every further look at a box
LOOKS = 2  # before it is cut
NEURON_CELLS = 1024  # of the range of the one neuron's sum


def serves(owner: Bounder) -> bool:
    """Whether a network can be looked at so: of ReLU, read in one way by not too many views."""
    return (
        owner.network.function.exact
        and len(owner.network.layers) > 1
        and owner.arrays.layers[0].weight.shape[0] == 1
        and not owner.hull
        and owner.bounded_views == len(owner.relation.views)
    )


# --- affine forms on cells ---


class CellForms(NamedTuple):
    """Affine forms on cells: middle + slopes·ξ ± error, |ξ| ≤ 1."""

    values: np.ndarray  # [neurons, 1 + sums, views · cells]: the middle, then the slopes
    error: np.ndarray  # [neurons, views · cells]
    size: np.ndarray  # [neurons]: on no cell |middle| + reach is larger

    @property
    def reach(self) -> np.ndarray:
        return np.abs(self.values[:, 1:]).sum(axis=1) + self.error

    def through(self, matrix: np.ndarray, offset: np.ndarray, error: np.ndarray, slack: float) -> CellForms:
        """matrix·values + offset ± error; we round by at most `slack` of the sizes of all terms."""
        flat = matrix @ self.values.reshape(len(self.values), int(np.prod(self.values.shape[1:])))
        values = flat.reshape(len(matrix), *self.values.shape[1:])
        values[:, 0] += offset
        size = np.abs(matrix) @ self.size + np.abs(offset).max(axis=1)
        return CellForms(values, np.abs(matrix) @ self.error + (error + slack * size)[:, None], size)

    def relu(self) -> CellForms:
        """Both lines have one slope; where it bends, the upper one is lifted."""
        middle, reach = self.values[:, 0], self.reach
        top, bottom = middle + reach, middle - reach
        slope = np.clip(top / np.where(reach > 0, 2 * reach, FLOOR), 0.0, 1.0)
        lift = np.maximum(-slope * bottom, top - slope * top) * (0.5 * (1 + 2.0**-40))
        values = slope[:, None] * self.values
        values[:, 0] += lift
        # |middle| + reach is multiplied by the slope; both lifts together are no larger than it was.
        size = 2 * np.maximum(top.max(axis=1, initial=0.0), -bottom.min(axis=1, initial=0.0))
        return CellForms(values, slope * self.error + lift, size)

    def joined(self, other: CellForms) -> CellForms:
        return CellForms(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


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

    def leads(self, sums: CellForms, layer: int) -> CellForms:
        """The leads, from the sums of a layer's live neurons."""
        for i in range(layer + 1, len(self.layers)):
            full, now = self.layers[i], self.alive[i]
            weight = full.weight[np.ix_(now, self.alive[i - 1])]
            sums = sums.relu().through(weight, full.bias[now, None], self.errors[i][now], self.slack)
        return sums


def sure_wins(leads: CellForms, pairs: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Which class surely wins on each cell: bool [classes, cells]."""
    reach = leads.reach
    low, high = leads.values[:, 0] - reach, leads.values[:, 0] + reach
    found = np.ones((max(b for b, _ in pairs) + 1, low.shape[1]), bool)
    for (b, a), least, most in zip(pairs, low, high, strict=True):
        found[b] &= least > 0
        found[a] &= most < 0
    return found


# --- few sums ---


class _Stage(NamedTuple):
    """Sums that are looked at: sum + offset + matrix · (what the neurons of earlier stages give) ± error."""

    matrix: np.ndarray
    offset: np.ndarray  # [views, sums]
    error: np.ndarray


class FewSums:
    """A network on a box, as a function of few sums rows·u."""

    def __init__(self, network: BoxNetwork) -> None:
        self.network, hidden = network, len(network.bends)
        alive, bends = ([part.sum(keepdims=True) for part in parts] for parts in (network.alive, network.bends))
        counts, layers = fewest(alive[:hidden], bends, len(network.alive[-1]))
        self.count, self.layer = int(counts[0]), int(layers[0])
        self.rows, self.stages = self._collapsed()

    def _collapsed(self) -> tuple[np.ndarray, list[_Stage]]:
        """Which sums are looked at, and how they follow from each other: what neurons pass on is multiplied out."""
        network, slack, errors = self.network, self.network.slack, self.network.errors
        first = network.layers[0]
        rows, offset = first.weight[0], first.bias
        size = first.weight_size[0] @ network.furthest + first.bias_size.max(axis=0)
        matrix, error = np.zeros((len(rows), 0)), errors[0] + slack * size
        picked, stages = [], []
        for i in range(self.layer + 1):
            looked = network.bends[i] if i < self.layer else network.alive[i]
            picked.append(rows[looked])
            stages.append(_Stage(matrix[looked], offset[:, looked], error[looked]))
            if i < self.layer:
                layer, on = network.layers[i + 1], network.alive[i] & ~looked
                passed, bent = layer.weight[:, on], layer.weight[:, looked]
                size = np.abs(passed) @ size[on] + np.abs(bent) @ size[looked] + np.abs(layer.bias)
                rows, offset = passed @ rows[on], offset[:, on] @ passed.T + layer.bias
                matrix = np.concatenate([passed @ matrix[on], bent], axis=1)
                error = np.abs(passed) @ error[on] + errors[i + 1] + slack * size
        return np.concatenate(picked), stages

    def leads(self, middle: np.ndarray, reach: np.ndarray) -> CellForms:
        """All leads on cells of the sums: middle [sums, cells] ± reach [sums]; in all views, one after the other."""
        count, cells = middle.shape
        views, slack = self.network.views, self.network.slack
        wide = views * cells
        given, start = CellForms(np.zeros((0, 1 + count, wide)), np.zeros((0, wide)), np.zeros(0)), 0
        for i, stage in enumerate(self.stages):
            mine = np.arange(len(stage.matrix)) + start
            offset = np.tile(middle[mine], (1, views)) + np.repeat(stage.offset.T, cells, axis=1)
            error = stage.error + slack * np.abs(middle[mine]).max(axis=1)
            forms = given.through(stage.matrix, offset, error, slack)
            forms.values[mine - start, 1 + mine] += reach[mine, None]
            start += len(mine)
            if i < self.layer:
                given = given.joined(forms.relu())
        return self.network.leads(forms, self.layer)

    def steepness(self, middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """About how much the leads change over the range of each sum."""
        return np.nan_to_num(np.abs(self.leads(middle[:, None], reach).values[:, 1:]).max(axis=(0, 2)))


def prove_by_few(
    owner: Bounder, boxes: Boxes, bins: int, clock: Clock | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of boxes that are certified and falsified, where few sums tell all, or one neuron: lower bounds; and of
    which boxes it was by sums. Boxes that had `looks` before get finer grids; nothing is said of boxes for which there
    is no time.
    """
    ends = owner.variables.places.bounds(boxes)
    alive = np.unpackbits(boxes.facts["alive"], axis=1, count=sum(owner.network.widths[1:-1])).astype(bool)
    certified, falsified = np.zeros((2, len(boxes)))
    by_sums = np.zeros(len(boxes), bool)
    finer = boxes.facts.get("looks", np.zeros(len(boxes), np.int64))
    finer = finer + (HEAVY * owner.variables.mass(boxes) >= owner.variables.total)
    with np.errstate(all="ignore"):  # what overflows is not finite, and claims nothing
        done = ReluPass(owner, *ends, remember=True)
        done.run()
        mixed = owner.variables.places.unsettled(boxes)  # a number and its gap are not independent of each other
        choices = Choices.of(owner.variables, boxes, *ends)
        narrow = Bottlenecks(owner, done, bins)
        for i in range(len(boxes)):
            if i and clock is not None and clock.is_up:
                break
            network = BoxNetwork(done, i, alive[i])
            few = FewSums(network)
            if few.count in CELLS and network.fine and not mixed[i]:
                by_sums[i] = True
                cells = CELLS[few.count] + FINER * int(finer[i])
                certified[i], falsified[i] = _proven(owner, choices, i, few, cells)
            elif network.fine:
                narrow.look(i, network)
        by_one = narrow.certified(boxes)
        certified = np.maximum(certified, np.where(mixed & (by_one < 1), 0.0, by_one))
    return certified, np.minimum(falsified, np.maximum(1 - certified - 2.0**-40, 0.0)), by_sums


def _proven(owner: Bounder, choices: Choices, box: int, few: FewSums, cells: int) -> np.ndarray:
    grid = Grid.of(choices, box, few.rows, cells, few.steepness)

    def decide(middle: np.ndarray, reach: np.ndarray) -> np.ndarray:
        wins = sure_wins(few.leads(middle, reach), owner.pairs)
        wins = wins.reshape(len(wins), few.network.views, -1)
        fair = wins.all(axis=1).any(axis=0)
        return np.stack([fair, (wins.any(axis=1).sum(axis=0) > 1) & ~fair])

    return grid.decided(decide)


# --- one neuron ---


class Bottlenecks:
    """Boxes of a pass, and what can be said of them by one neuron, the only one of a later layer that is alive.

    All that follows is a function of its sum z, which is looked at cell by cell. It lies between two sums of functions
    of a block, L ≤ z ≤ U. If one class wins below some z and one above another, so it does for people with U below the
    one, and for people with L above the other.
    """

    def __init__(self, owner: Bounder, done: ReluPass, bins: int) -> None:
        self.owner, self.done, self.bins = owner, done, bins
        self._whole: list[int] = []
        self._parts: list[tuple[int, Sums]] = []  # boxes, and what is above 0 where one class wins in all views

    def look(self, box: int, network: BoxNetwork) -> None:
        """At a box, if there is such a neuron in it."""
        found = bottleneck([part.sum(keepdims=True) for part in network.alive[:-1]])[0]
        if not found:
            return
        layer, neuron = int(found), int(np.flatnonzero(network.alive[found])[0])
        low, high = max(network.bottoms[layer][neuron], 0.0), network.tops[layer][neuron]
        edges, near = np.linspace(low, high, NEURON_CELLS + 1), 2.0**-40 * (abs(high) + abs(low))
        values = np.stack([edges[1:] + edges[:-1], edges[1:] - edges[:-1] + 2 * near])[None] / 2
        forms = CellForms(values, np.zeros((1, NEURON_CELLS)), np.array([2 * abs(high) + near]))
        wins = sure_wins(network.leads(forms, layer), self.owner.pairs)
        below, above = _run(wins), _run(wins[:, ::-1])
        if below == NEURON_CELLS:
            self._whole.append(box)
            return
        assert self.done.remembered is not None
        upper, lower = self.done.remembered[layer]
        for sums, sign, edge, run in ((upper, -1.0, edges[below], below), (lower, 1.0, -edges[-1 - above], above)):
            if run:
                least = lowest_of_views(self.owner.nodes, _of_neuron(sums, sign, neuron, network.items))
                self._parts.append((box, Sums(least.constant[0] + edge - near, least.table[0])))

    def certified(self, boxes: Boxes) -> np.ndarray:
        """The shares of boxes that are certified so: lower bounds."""
        found = np.zeros(len(boxes))
        if self._parts:
            rows = np.array([box for box, _ in self._parts])
            sums = Sums(*(np.concatenate(part, axis=-1) for part in zip(*(s for _, s in self._parts), strict=True)))
            np.add.at(found, rows, surely_above(self.owner.nodes, boxes[rows], sums, self.bins))
        found = np.clip(found - 2.0**-40, 0.0, 1.0)
        found[self._whole] = 1.0
        return found


def _run(wins: np.ndarray) -> int:
    """How many cells from the first on are won by the same class: wins [classes, cells]."""
    return int(np.logical_and.accumulate(wins[wins[:, 0].argmax()]).sum())


def _of_neuron(sums: Sums, sign: float, neuron: int, items: np.ndarray) -> Sums:
    """One neuron's bound in all views of a box: [views, 1] and [views, nodes, 1]."""
    return Sums(sign * sums.constant[neuron, items][:, None], sign * sums.table[neuron][:, items].T[..., None])
