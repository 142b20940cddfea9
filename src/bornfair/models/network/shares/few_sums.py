"""What is decided of people of whom a network tells few sums apart?

In a box most neurons are silent, or pass their sums on unchanged. What the network decides hangs on few sums then: on
all sums of a layer in which few neurons are alive; or on those of the neurons that bend up to some layer, and on what
is passed on to it beside them. How few sums are distributed together is known (`grids`), and what follows from them is
bounded cell by cell, by affine forms. Other than with bounds that are sums of functions of one block, no layer makes it
wider: what is left open is what the grid cannot tell, at any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.network.shares.affine_forms import BoxNetwork, Forms, sure_wins
from bornfair.models.network.shares.bottlenecks import Bottlenecks
from bornfair.models.network.shares.grids import Choices, Grid
from bornfair.models.network.shares.relaxation import ReluPass, fewest
from bornfair.people.space.boxes import Boxes

if TYPE_CHECKING:
    from bornfair.models.network.shares.forms import Bounder

CELLS = {1: 13, 2: 16}  # for so many sums there are grids, of 2^13 cells for one of them
MOST_SUMS = max(CELLS)
HEAVY = 64  # such a part of everybody is worth
FINER = 2  # a grid of 2^2 times as many cells; and so does every further look at a box
LOOKS = 2  # before it is cut


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

    def leads(self, middle: np.ndarray, reach: np.ndarray) -> Forms:
        """All leads on cells of the sums: middle [sums, cells] ± reach [sums]; in all views, one after the other."""
        count, cells = middle.shape
        views, slack = self.network.views, self.network.slack
        wide = views * cells
        given, start = Forms(np.zeros((0, 1 + count, wide)), np.zeros((0, wide)), np.zeros(0)), 0
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
