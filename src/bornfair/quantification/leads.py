"""How much of each box is decided, and how? From bounds of outputs to shares that are certified or falsified.

A lead is f_winner − f_loser, bounded below by a sum of functions of one variable; where all leads of a class are above
0 in all views the twins agree on it, where two views have different classes they disagree. Shares of several events
are combined by P(A and B) ≥ P(A) + P(B) − 1; the same lead in all views becomes one sum first, which loses less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bornfair.quantification.forms import Bounder
from bornfair.quantification.nodes import Nodes
from bornfair.quantification.relaxation import Bounds, Sums
from bornfair.quantification.shares import LOSS, likely_above, surely_above
from bornfair.verification.boxes import Boxes

WORTH = 1e-3  # expected shares of a box below this are not computed


class Judged(NamedTuple):
    """What bounds say of boxes: which are decided as a whole, guesses for the others, and where to cut."""

    certified: np.ndarray  # bool [boxes]
    falsified: np.ndarray
    likely_undecided: np.ndarray  # share [boxes]: a guess
    variable: np.ndarray  # to be cut; -1 where none can be


@dataclass(frozen=True, eq=False)
class _Leads:
    """Bounds as leads: for each alternative, sums [views, leads, …]; lead p is that of b over a, the pair p, and lead
    P + p that of a over b.
    """

    alternatives: list[Sums]
    winners: np.ndarray
    classes: int

    @staticmethod
    def of(owner: Bounder, bounds: Bounds) -> _Leads:
        views, (b, a) = owner.bounded_views, np.array(owner.pairs).T
        found = []
        for lower, upper in zip(bounds.lower, bounds.upper, strict=True):
            nodes, boxes = lower.table.shape[1:]
            tables = [lower.table.reshape(views, -1, nodes, boxes), -upper.table.reshape(views, -1, nodes, boxes)]
            constants = [lower.constant.reshape(views, -1, boxes), -upper.constant.reshape(views, -1, boxes)]
            found.append(Sums(np.concatenate(constants, axis=1), np.concatenate(tables, axis=1)))
        return _Leads(found, np.concatenate([b, a]), int(b.max()) + 1)

    def joint(self, nodes: Nodes) -> list[Sums]:
        """For each alternative, sums [leads, …] below those of all views."""
        return [_lowest_of_views(nodes, sums) for sums in self.alternatives]

    def least(self, nodes: Nodes) -> np.ndarray:
        """The smallest value each lead can have [views, leads, boxes]."""
        ends = [s.constant + nodes.lowest(s.table).sum(axis=-2) for s in self.alternatives]
        sizes = [np.abs(s.constant) + np.abs(s.table).sum(axis=-2) for s in self.alternatives]
        return np.fmax.reduce([end - LOSS * size for end, size in zip(ends, sizes, strict=True)])

    def of_class(self, chances: np.ndarray) -> np.ndarray:
        """Chances of leads [..., leads, boxes] → of all leads of each class [..., classes, boxes]."""
        missing = np.zeros((*chances.shape[:-2], self.classes, chances.shape[-1]))
        for lead, winner in enumerate(self.winners):
            missing[..., winner, :] += 1 - chances[..., lead, :]
        return np.maximum(1 - missing, 0.0)


def _lowest_of_views(nodes: Nodes, sums: Sums) -> Sums:
    """One sum below the same lead's sums in all views: the lowest of their values at each node, means taken apart."""
    means = nodes.middle(sums.table)
    size = np.abs(sums.constant) + 2 * np.abs(sums.table).sum(axis=-2)
    constant = sums.constant + means.sum(axis=-2) - LOSS * size
    return Sums(constant.min(axis=0), (sums.table - nodes.at_nodes(means)).min(axis=0))


def judge_boxes(owner: Bounder, boxes: Boxes) -> Judged:
    """Bound boxes, as many as `owner.together`."""
    nodes = owner.nodes
    bounds = owner.bounds(*owner.variables.places.bounds(boxes))
    with np.errstate(all="ignore"):
        leads = _Leads.of(owner, bounds)
        wins = leads.of_class((leads.least(nodes) > 0).astype(np.float64)) > 0.5  # [views, classes, boxes]
        certified = wins.all(axis=0).any(axis=0) | bounds.same
        falsified = (wins.any(axis=0).sum(axis=0) > 1) & ~certified
        together, apart = _guesses(leads, nodes, boxes)
        likely = np.minimum(leads.of_class(np.maximum.reduce(together)).sum(axis=0), 1.0)
        unfair = np.minimum(_falsified(leads, apart)[0], 1 - likely)
        variable = _variable_to_cut(owner.nodes, boxes, bounds)
    return Judged(certified, falsified, 1 - likely - unfair, variable)


def _guesses(leads: _Leads, nodes: Nodes, boxes: Boxes) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Per alternative: chances of leads in all views together [leads, boxes], and apart [views, leads, boxes]."""
    weights = nodes.weights(boxes)
    together = [likely_above(nodes, boxes, sums, weights) for sums in leads.joint(nodes)]
    apart = [likely_above(nodes, boxes, sums, weights) for sums in leads.alternatives]
    return together, apart


def _falsified(leads: _Leads, apart: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The best share where two views have two classes, and which views and classes [4, boxes] give it."""
    chances = leads.of_class(np.maximum.reduce(apart))  # [views, classes, boxes]
    best, view = chances.max(axis=0), chances.argmax(axis=0)
    share, which = np.zeros(best.shape[1]), np.zeros((4, best.shape[1]), np.int64)
    for b in range(leads.classes):
        for a in range(b):
            both = best[b] + best[a] - 1
            better = both > share
            share = np.where(better, both, share)
            which = np.where(
                better, np.stack([view[b], view[a], np.full_like(view[b], b), np.full_like(view[a], a)]), which
            )
    return share, which


def _variable_to_cut(nodes: Nodes, boxes: Boxes, bounds: Bounds) -> np.ndarray:
    """The variable whose cut promises most, where nothing bends the steepest; -1 where none can be cut."""
    variables = nodes.variables
    possible = variables.places.cuttable(boxes)[:, variables.columns].T
    steep = np.nan_to_num(nodes.widths(bounds.lower[0].table).sum(axis=0))
    merit = np.nan_to_num(bounds.merit)
    scale = steep.max(axis=0) + 1e-300
    flat = np.where(possible, merit, 0.0).max(axis=0, initial=0.0) <= 1e-9 * scale
    merit = np.where(possible, np.where(flat, steep / scale, merit), -1.0)
    return np.where(possible.any(axis=0), merit.argmax(axis=0), -1)


def prove(owner: Bounder, boxes: Boxes, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of boxes that are certified and falsified: lower bounds. Boxes that are wholly decided come as 1."""
    nodes = owner.nodes
    bounds = owner.bounds(*owner.variables.places.bounds(boxes))
    with np.errstate(all="ignore"):
        leads = _Leads.of(owner, bounds)
        joint = leads.joint(nodes)
        together, apart = _guesses(leads, nodes, boxes)
        # What all views have in common counts as one view.
        everywhere = _Proof(leads, [Sums(s.constant[None], s.table[None]) for s in joint], [g[None] for g in together])
        likely = leads.of_class(np.maximum.reduce(together))
        certified, falsified = np.zeros((2, len(boxes)))
        for klass in range(leads.classes):
            worth = np.flatnonzero(likely[klass] > WORTH)
            view, decided = np.zeros(len(worth), np.int64), np.full(len(worth), klass)
            certified[worth] += np.maximum(everywhere.share(nodes, boxes, worth, view, decided, bins), 0.0)
        certified = np.clip(certified - 2.0**-40 * (leads.classes > 2), 0.0, 1.0)
        certified = np.where(bounds.same, 1.0, certified)
        share, which = _falsified(leads, apart)
        worth = np.flatnonzero((share > WORTH) & (certified < 1))
        if len(worth):
            i, j, b, a = which[:, worth]
            somewhere = _Proof(leads, leads.alternatives, apart)
            one = somewhere.share(nodes, boxes, worth, i, b, bins)
            other = somewhere.share(nodes, boxes, worth, j, a, bins)
            falsified[worth] = np.maximum(one + other - 1 - 2.0**-40, 0.0)
    return certified, np.minimum(falsified, np.maximum(1 - certified - 2.0**-40, 0.0))


class _Proof(NamedTuple):
    """Sums below leads, for each alternative [views, leads, …], and a guess how often each is above 0."""

    leads: _Leads
    alternatives: list[Sums]
    guesses: list[np.ndarray]

    def share(
        self, nodes: Nodes, boxes: Boxes, rows: np.ndarray, views: np.ndarray, classes: np.ndarray, bins: int
    ) -> np.ndarray:
        """Lower bounds on the share of the boxes `rows` where a view of each is decided a class."""
        missing = np.zeros(len(rows))
        for lead, winner in enumerate(self.leads.winners):
            mine = np.flatnonzero(classes == winner)
            if not len(mine):
                continue
            best = np.argmax([guess[views[mine], lead, rows[mine]] for guess in self.guesses], axis=0)
            for k, sums in enumerate(self.alternatives):
                at = mine[best == k]
                if len(at):
                    some = Sums(sums.constant[views[at], lead, rows[at]], sums.table[views[at], lead, :, rows[at]].T)
                    missing[at] += 1 - surely_above(nodes, boxes[rows[at]], some, bins)
        return 1 - missing
