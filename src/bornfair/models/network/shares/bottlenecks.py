"""What is decided of people of whom a layer tells one number only?

Where a single neuron of a later layer is alive, all that follows is a function of its sum, whatever comes before: one
that can be looked at cell by cell, through any number of layers. Its sum lies between two sums of functions of a block,
L ≤ z ≤ U. If one class wins below some z and one above another, so it does for people with U below the one, and for
people with L above the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bornfair.models.network.shares.affine_forms import BoxNetwork, Forms, sure_wins
from bornfair.models.network.shares.relaxation import ReluPass, Sums, bottleneck
from bornfair.models.network.shares.shares import lowest_of_views, surely_above
from bornfair.people.space.boxes import Boxes

if TYPE_CHECKING:
    from bornfair.models.network.shares.forms import Bounder

CELLS = 1024  # of the range of the one neuron's sum


class Bottlenecks:
    """Boxes of a pass, and what can be said of them by one neuron."""

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
        edges, near = np.linspace(low, high, CELLS + 1), 2.0**-40 * (abs(high) + abs(low))
        values = np.stack([edges[1:] + edges[:-1], edges[1:] - edges[:-1] + 2 * near])[None] / 2
        forms = Forms(values, np.zeros((1, CELLS)), np.array([2 * abs(high) + near]))
        wins = sure_wins(network.leads(forms, layer), self.owner.pairs)
        below, above = _run(wins), _run(wins[:, ::-1])
        if below == CELLS:
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
