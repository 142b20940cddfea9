"""Bounds of a network's outputs on boxes, as sums of functions of few variables: for any activation, any views.

`relaxation` bounds ReLU networks; of others, and of networks without hidden layers, `LinearBounds` knows lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bornfair.models.network.bounds.backward import Arrays
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.bounds.linear import LinearBounds
from bornfair.models.network.bounds.views import distinct_matrices
from bornfair.models.network.network import Network
from bornfair.models.network.shares.nodes import Nodes
from bornfair.models.network.shares.relaxation import LeadBounds, ReluPass, Sums
from bornfair.models.rounding import EXECUTIONS, FLOOR, OWN_UNIT
from bornfair.models.verdict import Arithmetic
from bornfair.people.space.variables import Variables
from bornfair.people.twins.relation import Relation

MOST_VIEWS = 12
PAD = 2.0**-50  # relative: our own product of a view's matrix with u is rounded
NUMBERS = 2**18  # per array: NumPy passes over it many times, so it should not be far from the caches


@dataclass(frozen=True, eq=False)
class Bounder:
    """A network and the views of a relation, ready to be bounded on boxes."""

    network: Network
    relation: Relation
    variables: Variables
    arithmetic: Arithmetic = "float32"
    hull: bool = False
    """Whether all views are bounded as one, if they differ by what is added alone: half the work for two of them, but
    nobody is then seen to be unfair.
    """

    @cached_property
    def plain(self) -> LinearBounds:
        return LinearBounds(self.network, self.relation)

    @cached_property
    def arrays(self) -> Arrays:
        return self.plain.arrays(self.arithmetic)

    @cached_property
    def nodes(self) -> Nodes:
        root, numbers = self.variables.places.root, self.variables.numbers
        reach = (root.high - root.low)[0, numbers] * np.where(
            self.variables.places.lattice, self.relation.free.step, 1.0
        )[numbers]
        first = self.arrays.layers[0]
        return Nodes.of(self.variables, np.abs(first.weight[0][:, numbers]).sum(axis=0) * reach)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return self.plain.pairs

    @cached_property
    def slack(self) -> float:
        """Sixteen times the relative error of all sums we take."""
        return 16 * (2 * sum(self.network.widths) + 2 * self.nodes.count + 64) * OWN_UNIT

    @cached_property
    def has_bands(self) -> bool:
        """Whether a view stands for every value of a band, and not for one."""
        return any(view.radius is not None for view in self.relation.views)

    @cached_property
    def bounded_views(self) -> int:
        """How many views are bounded apart: all, or one for all of them, where they are many or that is asked for."""
        views = self.relation.views
        return 1 if (self.hull or len(views) > MOST_VIEWS) and len(distinct_matrices(views)) == 1 else len(views)

    @cached_property
    def work(self) -> int:
        """How many numbers the widest layer's tables hold for one box."""
        return max(self.network.widths[1:]) * max(self.nodes.count, 1) * self.bounded_views

    @cached_property
    def together(self) -> int:
        """How many boxes to bound in one call: a power of two."""
        return 1 << int(np.clip(NUMBERS // self.work, 1, 512)).bit_length() - 1

    def bounds(self, low: np.ndarray, high: np.ndarray, alive: np.ndarray | None = None) -> LeadBounds:
        """Bounds on boxes, given as rows of u (in groups, `high` is 1 for categories that are allowed). `alive` [boxes,
        hidden neurons] tells which neurons may be active, as far as is known.
        """
        if not self.network.function.exact or len(self.network.layers) == 1:
            with np.errstate(all="ignore"):
                return _from_lines(self, low, high)
        with np.errstate(all="ignore"):  # what overflows is not finite, and claims nothing
            return ReluPass(self, low, high, alive).run()


def _from_lines(owner: Bounder, low: np.ndarray, high: np.ndarray) -> LeadBounds:
    """Lines from `LinearBounds`, as values at nodes."""
    found, variables = owner.plain.lines(low, high, owner.arithmetic), owner.variables
    numbers = variables.numbers
    centre, radius = (low.T + high.T)[numbers] / 2, (high.T - low.T)[numbers] / 2
    size = np.abs(low).max(axis=1, initial=0) + np.abs(high).max(axis=1, initial=0)

    def sums(lines: np.ndarray, constant: np.ndarray, sign: int) -> Sums:
        rows = np.moveaxis(lines, 0, -1).reshape(-1, lines.shape[-1], len(low))
        held = np.moveaxis(constant, 0, -1).reshape(-1, len(low))
        held = held + (rows[:, numbers] * centre).sum(axis=1)
        error = owner.slack * (np.abs(rows).sum(axis=1) * size + np.abs(held)) + FLOOR
        pad = (np.abs(rows[:, numbers]) * owner.arrays.pad[numbers, None]).sum(axis=1)
        return Sums(held - sign * (error + pad), owner.nodes.linear(rows, radius, high))

    lower = sums(found.lower, found.lower_constant, 1)
    upper = sums(found.upper, found.upper_constant, -1)
    # The ends may be tighter than the lines: constants are bounds too.
    flat = np.zeros_like(lower.table)
    least, most = (np.moveaxis(end, 0, -1).reshape(-1, len(low)) for end in (found.least, found.most))
    below, above = [lower, Sums(least, flat)], [upper, Sums(most, flat)]
    if owner.bounded_views < len(owner.relation.views):
        below, above = (
            [_of_all(s, len(owner.pairs), f) for s in part] for part, f in ((below, np.min), (above, np.max))
        )
    width = owner.nodes.widths(below[0].table).sum(axis=0)
    alive = np.ones((len(low), sum(owner.network.widths[1:-1])), bool)
    return LeadBounds(below, above, found.same, width, alive, np.full(len(low), sum(owner.network.widths)))


def _of_all(sums: Sums, pairs: int, extreme: Callable[..., np.ndarray]) -> Sums:
    """One sum for all views: the lowest, or the highest, of each of its numbers."""
    return Sums(*(extreme(part.reshape(-1, pairs, *part.shape[1:]), axis=0) for part in sums))


# --- people whose decisions are sure whatever is rounded, one by one ---


def largest_rounding(network: Network, largest: np.ndarray) -> float:
    """By how much outputs in float32, in any order of summation, may be off the exact ones when no input is larger
    than `largest`; infinite where that is not known.

    One number for everybody, far above what `sure_people` needs for one person, and quick: whoever's score is
    further from the boundary need not be looked at more closely.
    """
    if not network.function.exact or network.broken_layer is not None:
        return math.inf
    machine = EXECUTIONS["float32"]
    size = np.asarray(largest, np.float64) * (1 + 4 * machine.unit)
    error = 4 * machine.unit * size + machine.floor
    for weight, bias in network.wide:
        terms = weight.shape[1] + 4
        total = np.abs(weight) @ (size + error) + np.abs(bias)
        error = np.abs(weight) @ error + machine.gamma(terms) * total + terms * machine.floor
        size = total
        if not (size + error < machine.largest).all():
            return math.inf
    return float(error.max()) * (1 + 2.0**-20)  # our own sums are rounded, too


def sure_people(owner: Bounder, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of u whose views provably get one class, and those of whose views two provably get different ones."""
    classes = []
    for view in owner.relation.views:
        inputs = view(free)
        size = np.abs(free) @ np.abs(view.matrix).T + np.abs(view.offset)
        reach = PAD * size if view.radius is None else PAD * size + view.radius
        low, high = box_bounds(owner.network, inputs - reach, inputs + reach, owner.arithmetic)
        if owner.network.outputs == 1:
            sure = np.where(low[:, 0] > 0, 1, np.where(high[:, 0] <= 0, 0, -1))
        else:
            best = low.argmax(axis=1)
            others = high.copy()
            np.put_along_axis(others, best[:, None], -np.inf, axis=1)
            leads = np.take_along_axis(low, best[:, None], axis=1)[:, 0] > others.max(axis=1)
            sure = np.where(leads, best, -1)
        classes.append(sure)
    return treated(np.stack(classes, axis=1))


def treated(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Who surely gets one class in all views, and who surely does not: classes [people, views], −1 where unsure."""
    least, most, unsure = classes[:, 0], classes[:, 0], classes[:, 0] < 0
    for column in classes.T[1:]:
        unsure = unsure | (column < 0)
        # What is not sure says nothing: it becomes the other's class.
        least = np.where(column < 0, least, np.where((least < 0) | (column < least), column, least))
        most = np.maximum(most, column)
    return ~unsure & (least == most), least < most
