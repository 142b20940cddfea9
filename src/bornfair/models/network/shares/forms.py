"""Bounds of a network's outputs on boxes, as sums of functions of few variables, and what they decide.

`relaxation` bounds ReLU networks; of others, and of networks without hidden layers, `LinearBounds` knows lines.

A lead is f_winner − f_loser, bounded below by a sum of functions of one variable; where all leads of a class are above
0 in all views the twins agree on it, where two views have different classes they disagree. Shares of several events
are combined by P(A and B) ≥ P(A) + P(B) − 1; the same lead in all views becomes one sum first, which loses less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bornfair.models.network.bounds.backward import Arrays, distinct_matrices
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.bounds.linear import LinearBounds
from bornfair.models.network.network import Network
from bornfair.models.network.shares.nodes import Nodes
from bornfair.models.network.shares.relaxation import LeadBounds, ReluPass, Sums
from bornfair.models.network.shares.shares import LOSS, likely_above, lowest_of_views, surely_above
from bornfair.models.rounding import EXECUTIONS, FLOOR, OWN_UNIT
from bornfair.models.verdict import Arithmetic
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables
from bornfair.people.twins.relation import Relation

MOST_VIEWS = 12
PAD = 2.0**-50  # relative: our own product of a view's matrix with u is rounded
NUMBERS = 2**18  # per array: NumPy passes over it many times, so it should not be far from the caches
WORTH = 1e-3  # expected shares of a box below this are not computed
WIDER = 1.08  # so much more may be left open by half the work: twice the boxes gain more


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
        return Sums(held - sign * (error + pad), owner.nodes.of_terms(owner.nodes.terms(rows, radius, high)))

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


# --- how much of each box is decided, and how ---


class Judged(NamedTuple):
    """What bounds say of boxes: which are decided as a whole, guesses for the others, and where to cut."""

    certified: np.ndarray  # bool [boxes]
    falsified: np.ndarray
    likely_undecided: np.ndarray  # share [boxes]: a guess
    variable: np.ndarray  # to be cut; -1 where none can be
    alive: np.ndarray  # bool [boxes, hidden neurons]: which may be active
    few: np.ndarray  # int [boxes]: how many sums tell all


@dataclass(frozen=True, eq=False)
class _Leads:
    """Bounds as leads: for each alternative, sums [views, leads, …]; lead p is that of b over a, the pair p, and lead
    P + p that of a over b.
    """

    nodes: Nodes
    boxes: Boxes
    alternatives: list[Sums]
    winners: np.ndarray
    classes: int
    weights: np.ndarray  # of nodes, for guesses

    @staticmethod
    def of(owner: Bounder, boxes: Boxes, bounds: LeadBounds) -> _Leads:
        shape, (b, a) = (owner.bounded_views, len(owner.pairs)), np.array(owner.pairs).T

        def leads(low: np.ndarray, high: np.ndarray) -> np.ndarray:
            parts = low.reshape(*shape, *low.shape[1:]), -high.reshape(*shape, *high.shape[1:])
            return np.concatenate(parts, axis=1)

        found = [Sums(*map(leads, lower, upper)) for lower, upper in zip(bounds.lower, bounds.upper, strict=True)]
        winners, classes = np.concatenate([b, a]), int(b.max()) + 1
        return _Leads(owner.nodes, boxes, found, winners, classes, owner.nodes.weights(boxes))

    @property
    def joint(self) -> _Leads:
        """All views as one: sums below the same lead's sums in all of them."""
        return replace(self, alternatives=[lowest_of_views(self.nodes, sums) for sums in self.alternatives])

    def least(self) -> np.ndarray:
        """The smallest value each lead can have [views, leads, boxes]."""
        ends = [s.constant + self.nodes.lowest(s.table).sum(axis=-2) for s in self.alternatives]
        sizes = [np.abs(s.constant) + np.abs(s.table).sum(axis=-2) for s in self.alternatives]
        return np.fmax.reduce([end - LOSS * size for end, size in zip(ends, sizes, strict=True)])

    @cached_property
    def likely(self) -> list[np.ndarray]:
        """Guesses how often leads are above 0, for each alternative [views, leads, boxes]."""
        return [likely_above(self.nodes, sums, self.weights) for sums in self.alternatives]

    @cached_property
    def likely_classes(self) -> np.ndarray:
        """Guesses how often views are decided a class [views, classes, boxes]."""
        return self.of_class(np.maximum.reduce(self.likely))

    def of_class(self, chances: np.ndarray) -> np.ndarray:
        """Chances of leads [..., leads, boxes] → of all leads of each class [..., classes, boxes]."""
        missing = np.zeros((*chances.shape[:-2], self.classes, chances.shape[-1]))
        for lead, winner in enumerate(self.winners):
            missing[..., winner, :] += 1 - chances[..., lead, :]
        return np.maximum(1 - missing, 0.0)

    def likely_falsified(self) -> tuple[np.ndarray, np.ndarray]:
        """The best guess where two views have two classes, and which views and classes [4, boxes] give it."""
        chances = self.likely_classes
        best, view = chances.max(axis=0), chances.argmax(axis=0)
        share, which = np.zeros(best.shape[1]), np.zeros((4, best.shape[1]), np.int64)
        for b in range(self.classes):
            for a in range(b):
                both = best[b] + best[a] - 1
                better = both > share
                share = np.where(better, both, share)
                chosen = np.stack([view[b], view[a], np.full_like(view[b], b), np.full_like(view[a], a)])
                which = np.where(better, chosen, which)
        return share, which

    def surely(self, rows: np.ndarray, views: np.ndarray, classes: np.ndarray, bins: int) -> np.ndarray:
        """Lower bounds on the share of the boxes `rows` where a view of each is decided a class."""
        missing = np.zeros(len(rows))
        for lead, winner in enumerate(self.winners):
            mine = np.flatnonzero(classes == winner)
            if not len(mine):
                continue
            best = np.argmax([guess[views[mine], lead, rows[mine]] for guess in self.likely], axis=0)
            for k, sums in enumerate(self.alternatives):
                at = mine[best == k]
                if len(at):
                    some = Sums(sums.constant[views[at], lead, rows[at]], sums.table[views[at], lead, :, rows[at]].T)
                    missing[at] += 1 - surely_above(self.nodes, self.boxes[rows[at]], some, bins)
        return 1 - missing


def judge_boxes(owner: Bounder, boxes: Boxes) -> Judged:
    """Bound boxes, about as many as `owner.together`."""
    bounds = _bounds(owner, boxes)
    with np.errstate(all="ignore"):
        leads = _Leads.of(owner, boxes, bounds)
        wins = leads.of_class((leads.least() > 0).astype(np.float64)) > 0.5  # [views, classes, boxes]
        certified = wins.all(axis=0).any(axis=0) | bounds.same
        falsified = (wins.any(axis=0).sum(axis=0) > 1) & ~certified
        likely = np.minimum(leads.joint.likely_classes[0].sum(axis=0), 1.0)
        unfair = np.minimum(leads.likely_falsified()[0], 1 - likely)
        variable = _variable_to_cut(owner.nodes, boxes, bounds)
    return Judged(certified, falsified, 1 - likely - unfair, variable, bounds.alive, bounds.few)


def _bounds(owner: Bounder, boxes: Boxes) -> LeadBounds:
    alive = boxes.facts.get("alive")
    if alive is not None:
        alive = np.unpackbits(alive, axis=1, count=sum(owner.network.widths[1:-1])).astype(bool)
    return owner.bounds(*owner.variables.places.bounds(boxes), alive)


def cheaper(owner: Bounder, boxes: Boxes) -> Bounder:
    """The same with all views bounded as one, if that leaves hardly more open of these boxes: it is less work."""
    hull = replace(owner, hull=True)
    if hull.bounded_views == owner.bounded_views:
        return owner
    apart, together = (judge_boxes(one, boxes) for one in (owner, hull))
    left = [np.where(one.certified | one.falsified, 0.0, one.likely_undecided).sum() for one in (apart, together)]
    return hull if left[1] <= WIDER * left[0] else owner


def _variable_to_cut(nodes: Nodes, boxes: Boxes, bounds: LeadBounds) -> np.ndarray:
    """The variable whose cut promises most, where nothing bends the steepest; -1 where none can be cut."""
    variables = nodes.variables
    possible = variables.places.cuttable(boxes)[:, variables.columns].T
    steep = np.nan_to_num(nodes.widths(bounds.lower[0].table).sum(axis=0))
    merit = np.nan_to_num(bounds.merit)
    for table in (steep, merit):  # a number is cut after its gap, which is worth as much for it
        for number, missing in variables.gap_variables:
            table[missing] = np.maximum(table[missing], table[number])
    scale = steep.max(axis=0) + 1e-300
    flat = np.where(possible, merit, 0.0).max(axis=0, initial=0.0) <= 1e-9 * scale
    merit = np.where(possible, np.where(flat, steep / scale, merit), -1.0)
    return np.where(possible.any(axis=0), merit.argmax(axis=0), -1)


def prove(owner: Bounder, boxes: Boxes, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of boxes that are certified and falsified: lower bounds. Boxes that are wholly decided come as 1."""
    bounds = _bounds(owner, boxes)
    certified, falsified = np.zeros((2, len(boxes)))
    with np.errstate(all="ignore"):
        leads = _Leads.of(owner, boxes, bounds)
        joint = leads.joint
        for klass, likely in enumerate(joint.likely_classes[0]):
            rows = np.flatnonzero(likely > WORTH)
            alike = joint.surely(rows, np.zeros_like(rows), np.full_like(rows, klass), bins)
            certified[rows] += np.maximum(alike, 0.0)
        certified = np.clip(certified - 2.0**-40 * (leads.classes > 2), 0.0, 1.0)
        certified = np.where(bounds.same, 1.0, certified)
        share, which = leads.likely_falsified()
        rows = np.flatnonzero((share > WORTH) & (certified < 1))
        i, j, b, a = which[:, rows]
        both = leads.surely(rows, i, b, bins) + leads.surely(rows, j, a, bins)
        falsified[rows] = np.maximum(both - 1 - 2.0**-40, 0.0)
    mixed = owner.variables.places.unsettled(boxes)  # a number and its gap are not independent of each other
    certified, falsified = np.where(mixed, bounds.same * 1.0, certified), np.where(mixed, 0.0, falsified)
    return certified, np.minimum(falsified, np.maximum(1 - certified - 2.0**-40, 0.0))
