"""Decisions of a ReLU network about very many people, in float32 and by its live neurons alone.

A neuron that is proven to be silent wherever people are drawn is left out. relu(z + c) = max(z, −c) + c, so constants
are carried to the outputs and a layer is one product and one maximum. One more column of every product adds up a bound
on the distance of the outputs from the exact ones, for our own and any other execution in float32; docs/theory.md
derives it. Only people who are further from the boundary than twice that bound are decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bornfair.models.network.bounds.backward import distinct_matrices
from bornfair.models.network.shares.forms import PAD, Bounder, treated
from bornfair.models.rounding import EXECUTIONS
from bornfair.people.twins.relation import View

MACHINE = EXECUTIONS["float32"]
UNIT = 4 * MACHINE.unit  # relative: how far inputs may be off
LEAST = 2.0**-100  # far more than underflow takes from a sum
MOST_TERMS = 2**13  # of a sum
MOST_NEURONS = 2**17  # of all layers, whose errors are added up in float32
LARGEST = 2.0**120  # no sum of sizes is larger, so that nothing overflows


class _Shown(NamedTuple):
    """All views that show u in the same way: the first product, and for each view what is added later."""

    first: np.ndarray  # [columns, neurons + 1]
    seen: np.ndarray  # [columns]: the error's part that grows with the sizes of what is multiplied
    floors: list[list[np.ndarray]]  # for each view and hidden layer, the least that is kept: −c
    constants: np.ndarray  # [views, outputs]
    errors: list[np.float32]  # [views]


class Lean:
    """A network that is read by views of u = shift + scale·rows, with `alive` neurons [hidden neurons] or all."""

    def __init__(
        self, owner: Bounder, scale: np.ndarray, shift: np.ndarray, alive: np.ndarray | None = None, *,
        signed: bool = True,
    ) -> None:  # fmt: skip
        """`signed`: rows may be negative."""
        self.signed, widths = signed, owner.network.widths
        hidden = widths[1:-1]
        every = np.ones(sum(hidden), bool) if alive is None else alive
        kept = [np.flatnonzero(part) for part in np.split(every, np.cumsum(hidden)[:-1])] if hidden else []
        kept.append(np.arange(widths[-1]))
        self._wide = [
            (weight[rows] if i == 0 else weight[np.ix_(rows, kept[i - 1])], bias[rows])
            for i, ((weight, bias), rows) in enumerate(zip(owner.network.wide, kept, strict=True))
        ]
        self.widest = max((len(rows) for rows in kept), default=1)
        self._gammas = [MACHINE.gamma(weight.shape[1] + 8) * (1 + 2.0**-10) for weight, _ in owner.network.wide]
        # What rounding takes from a bound that is added up in float32, through all layers.
        self._room = np.float32(2 * (1 + 4 * MACHINE.gamma(sum(widths) + 16 * len(widths))))
        reaches, vectors = self._reaches()
        # The error of before is handed on as it is.
        self._layers = [
            np.concatenate([_with_error(weight.T, vector), np.eye(len(weight) + 1, dtype=np.float32)[-1:]])
            for (weight, _), vector in zip(self._wide[1:], vectors, strict=True)
        ]
        self._shown = [
            self._of_views(owner, members, scale, shift, reaches) for members in views_alike(owner.relation.views)
        ]

    @staticmethod
    def serves(owner: Bounder) -> bool:
        """Whether a network can be evaluated so."""
        return owner.network.function.exact and sum(owner.network.widths) < MOST_NEURONS and bounded_in_float32(owner)

    # --- preparing ---

    def _reaches(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """By how much the outputs move, at most, when all sums of a layer do, for each layer and for u last; and by how
        much the error of a later layer's sums grows with each of its inputs.
        """
        reach = np.eye(self._wide[-1][0].shape[0])
        reaches, vectors = [reach], []
        for (weight, _), gamma in zip(reversed(self._wide), reversed(self._gammas), strict=True):
            along = reach @ np.abs(weight)
            vectors.append((gamma * along).max(axis=0, initial=0.0))
            reach = along * (1 + 2 * gamma)
            reaches.append(reach)
        return reaches[::-1], vectors[-2::-1]

    def _of_views(
        self, owner: Bounder, members: Sequence[int], scale: np.ndarray, shift: np.ndarray, reaches: list[np.ndarray]
    ) -> _Shown:
        views, free = owner.relation.views, owner.relation.free
        matrix, (weight, bias) = views[members[0]].matrix, self._wide[0]
        moved = weight @ matrix  # exactly: each u_i is shown in one place
        along = reaches[1] @ np.abs(moved)
        seen = (self._gammas[0] + 2 * UNIT) * (along * np.abs(scale)).max(axis=0, initial=0.0)
        first = _with_error((moved * scale).T, seen)
        seen = first[:, -1].copy()
        if self.signed:
            first[:, -1] = 0.0
        largest = np.maximum(np.abs(free.low), np.abs(free.high))
        off = UNIT * np.abs(shift) + PAD * largest
        least = LEAST * (1 + (2 * largest / np.abs(scale)).sum())  # a product of weights may be rounded to a subnormal
        floors, constants, errors = [], [], []
        for i in members:
            offset = matrix @ shift + views[i].offset
            size = np.abs(weight) @ (np.abs(matrix) @ np.abs(shift) + np.abs(views[i].offset)) + np.abs(bias)
            error = 2 * along @ off + reaches[1] @ (self._gammas[0] * size + least)
            carried, mine = (weight @ offset + bias).astype(np.float32), []
            for j, ((next_weight, next_bias), gamma) in enumerate(zip(self._wide[1:], self._gammas[1:], strict=True)):
                mine.append(np.append(-carried, np.float32(-np.inf)))
                held = carried.astype(np.float64)
                size = np.abs(next_weight) @ (3 * np.abs(held)) + np.abs(next_bias)
                error = error + reaches[j + 2] @ (gamma * size + LEAST) + 4 * LEAST * np.abs(held).sum()
                carried = (next_weight @ held + next_bias).astype(np.float32)
            # Of the last constant and its rounding, and of ours in float64:
            error = error * (1 + 2.0**-10) + 2 * MACHINE.unit * np.abs(carried)
            floors.append(mine)
            constants.append(carried)
            errors.append(np.float32(error.max() * (1 + 2.0**-10)))
        return _Shown(first, seen, floors, np.stack(constants), errors)

    # --- evaluating ---

    def judge(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Who certainly gets what their twins get, and who certainly does not: float32 rows [people, columns]."""
        found = self._outputs(rows)
        if self._wide[-1][0].shape[0] > 1:
            return treated(np.stack([sure_classes(scores, by[:, None]) for scores, by in found], axis=1))
        above = [scores[:, 0] > by for scores, by in found]
        below = [scores[:, 0] < -by for scores, by in found]
        fair = np.logical_and.reduce(above) | np.logical_and.reduce(below)
        return fair, np.logical_or.reduce(above) & np.logical_or.reduce(below)

    def _outputs(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The outputs in each view, in the order of what shows u alike, and twice the bound of their errors."""
        found = []
        for shown in self._shown:
            sums = rows @ shown.first
            if self.signed:
                sums[:, -1] = np.abs(rows) @ shown.seen
            for floors, constant, error in zip(shown.floors, shown.constants, shown.errors, strict=True):
                values = sums
                for floor, layer in zip(floors, self._layers, strict=True):
                    values = np.maximum(values, floor) @ layer
                found.append((values[:, :-1] + constant, (values[:, -1] + error) * self._room))
        return found


def bounded_in_float32(owner: Bounder) -> bool:
    """Whether the rounding of a network can be bounded in float32: its views show u up to signs, sums are not too long,
    and nothing can overflow, in whatever order it is added up.
    """
    network, views, free = owner.network, owner.relation.views, owner.relation.free
    if owner.has_bands or max(network.widths) >= MOST_TERMS:
        return False
    if not all(_moves_only(matrix) for matrix in distinct_matrices(views)):
        return False
    largest, size = np.maximum(np.abs(free.low), np.abs(free.high)), np.ones(network.widths[0])
    for view in views:
        size = np.maximum(size, 4 * (np.abs(view.matrix) @ largest + np.abs(view.offset)))
    with np.errstate(all="ignore"):
        for weight, bias in network.wide:
            size = np.maximum(4 * (np.abs(weight) @ size + np.abs(bias)), 1.0)
            if not (size < LARGEST).all():
                return False
    return True


def views_alike(views: Sequence[View]) -> list[list[int]]:
    """Which views show u in the same way."""
    groups: dict[int, list[int]] = {}
    for i, view in enumerate(views):
        groups.setdefault(id(view.matrix), []).append(i)
    return list(groups.values())


def _with_error(weight: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Weights [inputs, outputs] in float32, beside them what each input adds to the error, rounded up."""
    vector = np.where((vector > 0) & (vector < LEAST), LEAST, vector * (1 + 2.0**-20))
    return np.concatenate([weight, vector[:, None]], axis=1).astype(np.float32)


def _moves_only(matrix: np.ndarray) -> bool:
    """Whether each u_i is shown in one place at most, up to its sign."""
    return bool(((matrix != 0).sum(axis=0) <= 1).all() and np.isin(matrix, (-1.0, 0.0, 1.0)).all())


def sure_classes(scores: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The class of each row that is sure when no output is off by more than `by`; −1 where none is."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > by[:, 0]) * np.int8(2) + (scores[:, 0] < -by[:, 0]) - np.int8(1)
    scores, wide = scores.astype(np.float64), np.broadcast_to(by.astype(np.float64), scores.shape)
    best = scores.argmax(axis=1)[:, None]
    most = np.take_along_axis(scores, best, axis=1) - np.take_along_axis(wide, best, axis=1)
    others = scores + wide
    np.put_along_axis(others, best, -np.inf, axis=1)
    return np.where(most[:, 0] > others.max(axis=1), best[:, 0], -1)
