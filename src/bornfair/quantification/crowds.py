"""Who of very many people is certainly treated as their twins are, and who certainly not?

Everybody is decided in float32, and by how much that may be off is bounded beside it: first in proportion to the sizes
of the values, then layer by layer for those who are close to the boundary, and at last by intervals. Who is further
from the boundary than that is decided the same in real arithmetic, and by every execution in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bornfair.models.rounding import EXECUTIONS
from bornfair.quantification.confident import Draw
from bornfair.quantification.forms import Bounder
from bornfair.quantification.points import PAD, sure_people, treated
from bornfair.verification.boxes import Boxes

NUMBERS = 2**17  # per array: what fits the caches
DRAWN = 2**21  # numbers drawn between two looks at the clock
MOST_TERMS = 2**13  # of a sum whose rounding is bounded in float32
OWN = np.float32(1 + 2.0**-10)  # more than rounding takes from a bound that is a sum of so many
LEAST = np.float32(2.0**-100)  # far more than underflow takes from such a sum
UNIT = np.float32(4 * EXECUTIONS["float32"].unit)  # relative: how far inputs may be off


class _Dense(NamedTuple):
    """One layer as it is multiplied, in float32: weights [inputs, outputs] and their sizes, and what rounding may take
    from a sum, relative to the sizes of its terms.
    """

    weight: np.ndarray
    bias: np.ndarray
    size: np.ndarray
    gamma: np.float32

    @staticmethod
    def of(weight: np.ndarray, bias: np.ndarray, terms: int) -> _Dense:
        gamma = np.float32(EXECUTIONS["float32"].gamma(terms + 8) * (1 + 2.0**-10))
        weight = np.ascontiguousarray(weight.T, np.float32)
        return _Dense(weight, bias.astype(np.float32), np.abs(weight), gamma)


class _First(NamedTuple):
    """The first layer as a function of u, of all views that show it in the same way: one product, and a constant for
    each of them; `sizes` are the terms of the constants.
    """

    layer: _Dense
    constants: np.ndarray  # [views, neurons]
    sizes: np.ndarray


class Crowd:
    """A network and its views, ready to judge people by the thousand.

    >>> from bornfair.models.network import Layer, Network
    >>> from bornfair.people.domain import Domain
    >>> from bornfair.people.encoding import Encoding
    >>> from bornfair.people.scales import Scale
    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> from bornfair.quantification.variables import variables
    >>> from bornfair.twins.relation import twin_relation
    >>> who = Domain(features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",))
    >>> encoding = Encoding(who, {"x": Scale(centre=0.0, exponent=0)})
    >>> views = twin_relation(encoding)
    >>> network = Network((Layer(np.array([[1.0, 0.5]]), np.array([-4.25])),))  # s decides where x = 4
    >>> crowd = Crowd(Bounder(network, views, variables(encoding, views.free)))
    >>> fair, unfair = crowd.judge(np.array([[3.0], [4.0], [5.0]]))
    >>> fair.tolist(), unfair.tolist()
    ([True, False, True], [False, True, False])
    """

    def __init__(self, owner: Bounder) -> None:
        self.owner, self.network, self.variables = owner, owner.network, owner.variables
        self.together = int(np.clip(NUMBERS // max(*self.network.widths, self.variables.free.width), 16, 2**13))
        """How many people to decide in one pass."""

    @cached_property
    def quick(self) -> bool:
        """Whether float32 tells anything."""
        return max(self.network.widths) < MOST_TERMS and not self.owner.has_bands and self._firsts is not None

    @cached_property
    def batch(self) -> int:
        """How many to draw between two looks at the clock."""
        slowly = max(self.network.widths) * len(self.owner.relation.views)
        return int(np.clip(DRAWN // max(self.variables.free.width if self.quick else slowly, 1), 64, 2**16))

    # --- the network, prepared ---

    @cached_property
    def _firsts(self) -> list[_First] | None:
        """The first layer in all views; None where the product of its weights with a view is not exact."""
        weight, bias = self.network.wide[0]
        groups: dict[int, list[int]] = {}
        views = self.owner.relation.views
        for i, view in enumerate(views):
            groups.setdefault(id(view.matrix), []).append(i)
        found = []
        for members in groups.values():
            matrix = views[members[0]].matrix
            alone = (matrix != 0).sum(axis=0) <= 1  # u is shown in one place, up to its sign: the product only moves
            if not (alone.all() and np.isin(matrix, (-1.0, 0.0, 1.0)).all()):
                return None
            offsets = np.stack([views[i].offset for i in members])
            with np.errstate(over="ignore"):  # what is infinite is sure of nothing
                constants = (offsets @ weight.T + bias).astype(np.float32)
                sizes = ((np.abs(offsets) @ np.abs(weight).T + np.abs(bias)) * (1 + 2.0**-10)).astype(np.float32)
            found.append(_First(_Dense.of(weight @ matrix, bias, weight.shape[1]), constants, sizes))
        return found

    @cached_property
    def _layers(self) -> list[_Dense]:
        """All layers but the first."""
        return [_Dense.of(weight, bias, weight.shape[1]) for weight, bias in self.network.wide[1:]]

    @cached_property
    def _propagated(self) -> list[tuple[list[np.ndarray], np.float32]]:
        """For each way in which views show u: vectors to multiply |u| and the values of hidden layers by, and a
        constant. The sum bounds the error of every output: what a layer errs by grows with weights' sizes at most.
        """
        found, free = [], self.owner.relation.free
        for first in self._firsts or ():
            reach, constant = np.eye(self.network.outputs), np.zeros(self.network.outputs)
            vectors: list[np.ndarray] = []
            for layer in (*reversed(self._layers), first.layer):
                size = first.sizes.max(axis=0) if layer is first.layer else np.abs(layer.bias)
                constant = constant + reach @ (layer.gamma * size + LEAST)
                along = reach @ layer.size.T.astype(np.float64)
                vectors.append(along * layer.gamma)
                reach = along * (1 + 2 * layer.gamma)
            constant = constant + reach @ (PAD * np.maximum(np.abs(free.low), np.abs(free.high)))
            vectors[-1] = vectors[-1] + UNIT * reach
            as_float32 = [(vector.max(axis=0) * (1 + 2.0**-10)).astype(np.float32) for vector in vectors]
            found.append((as_float32[::-1], np.float32(constant.max() * (1 + 2.0**-10))))
        return found

    # --- judging ---

    def judge(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of u who certainly get what their twins get, and who certainly do not, in the owner's arithmetic."""
        fair, unfair = np.zeros((2, len(free)), bool)
        for start in range(0, len(free) if self.quick else 0, self.together):
            some = slice(start, start + self.together)
            fair[some], unfair[some] = self._quickly(free[some].astype(np.float32))
        left = np.flatnonzero(~(fair | unfair))
        fair[left], unfair[left] = self._closely(free[left])
        return fair, unfair

    def _quickly(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is told at once, in float32; of those who are close to the boundary neither is said."""
        if not self.network.function.exact:
            return np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        with np.errstate(all="ignore"):  # what overflows is not finite, and sure of nothing
            return treated(self._classes(rows, closely=False))

    def _closely(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same where it was not told at once."""
        fair, unfair = np.zeros((2, len(free)), bool)
        for start in range(0, len(free) if self.quick else 0, self.together):
            some = slice(start, start + self.together)
            with np.errstate(all="ignore"):
                fair[some], unfair[some] = treated(self._classes(free[some].astype(np.float32), closely=True))
        left = np.flatnonzero(~(fair | unfair))
        if len(left):
            fair[left], unfair[left] = sure_people(self.owner, free[left])
        return fair, unfair

    def _classes(self, rows: np.ndarray, *, closely: bool) -> np.ndarray:
        """The class of each person in each view [people, views], −1 where it is not sure."""
        found = []
        for first, propagated in zip(self._firsts or (), self._propagated, strict=True):
            base = rows @ first.layer.weight
            error = self._input_error(rows, first) if closely else np.abs(rows) @ propagated[0][0] + propagated[1]
            for constant, size in zip(first.constants, first.sizes, strict=True):
                values = base + constant
                if closely:
                    bounded = self._bounded(values, (error + first.layer.gamma * size) * OWN)
                else:
                    bounded = self._roughly_bounded(values, error, propagated[0][1:])
                found.append(_sure_classes(*bounded))
        return np.stack(found, axis=1)

    def _roughly_bounded(
        self, values: np.ndarray, error: np.ndarray, vectors: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Outputs of a ReLU network from the first sums on, and one bound of their errors for each person."""
        for layer, vector in zip(self._layers, vectors, strict=True):
            np.maximum(values, 0, out=values)
            error = error + values @ vector
            values = values @ layer.weight
            values += layer.bias
        return values, (error * (OWN * OWN))[:, None]

    def _input_error(self, rows: np.ndarray, first: _First) -> np.ndarray:
        free = self.owner.relation.free
        off = UNIT * np.abs(rows) + (PAD * np.maximum(np.abs(free.low), np.abs(free.high))).astype(np.float32) + LEAST
        gamma = first.layer.gamma
        return np.asarray((((1 + 2 * gamma) * off + gamma * np.abs(rows)) @ first.layer.size) * (OWN * OWN) + LEAST)

    def _bounded(self, values: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Outputs from the first sums on, and how far from the exact ones they may be, these or those of any other
        execution.

        With |x − x̂| ≤ e of the values that a layer is given, the sums are off by at most
        |W|·e + γ·(|W|·(|x̂| + 2e) + |b|), and by what underflow loses.
        """
        function = self.network.function
        for layer in self._layers:
            if function.exact:
                error = error * (values > -2 * error)  # below, no execution gets anything but 0
                values = np.maximum(values, 0)
            else:
                size = np.maximum(np.abs(values) + error, np.float32(1))
                values = np.asarray(function.value(np, values.astype(np.float64)), np.float32)
                error = (np.float32(function.steepest) * error + np.float32(function.machine_error) * size) * OWN
            terms = (1 + 2 * layer.gamma) * error + layer.gamma * np.abs(values)
            error = (terms @ layer.size + layer.gamma * np.abs(layer.bias)) * (OWN * OWN) + LEAST
            values = values @ layer.weight + layer.bias
        return values, error

    # --- drawing ---

    def drawn_from(self, boxes: Boxes) -> Draw:
        """Draws so many people of boxes whose `mass` is known, of each box as many as its mass has it and inside as
        people are distributed: how many are unfair, and how many too close to call.
        """
        return _Drawing(self, np.cumsum(boxes.facts["mass"]), boxes.low.T.copy(), boxes.high.T.copy())

    def treated_of(self, boxes: Boxes, chosen: np.ndarray, rng: np.random.Generator) -> tuple[int, int]:
        """The same of one person for each of the `chosen` boxes, which are given as columns."""
        found, later = 0, [np.zeros((0, self.variables.free.width))]
        for start in range(0, len(chosen), self.together):
            rows = chosen[start : start + self.together]
            some = Boxes(boxes.low.take(rows, axis=1).T, boxes.high.take(rows, axis=1).T)
            free = self.variables.places.values(self.variables.inside(some, rng))
            known = np.zeros(len(rows), bool)
            if self.quick:
                fair, unfair = self._quickly(free.astype(np.float32))
                found, known = found + int(np.count_nonzero(unfair)), fair | unfair
            later.append(free[~known])
        fair, unfair = self._closely(np.concatenate(later))
        return found + int(np.count_nonzero(unfair)), int(np.count_nonzero(~(fair | unfair)))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Draws people of boxes, by their masses."""

    crowd: Crowd
    upto: np.ndarray  # [boxes]: the mass of all up to each
    low: np.ndarray  # [columns, boxes]
    high: np.ndarray

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[int, int]:
        chance = np.sort(rng.random(count)) * self.upto[-1]  # in order: memory is read in order, too
        chosen = np.searchsorted(self.upto, chance, side="right").clip(0, len(self.upto) - 1)
        return self.crowd.treated_of(Boxes(self.low, self.high), chosen, rng)


def _sure_classes(scores: np.ndarray, error: np.ndarray) -> np.ndarray:
    """The class of each row that is sure when outputs are off by at most `error`, and those of any execution by as
    much; −1 where none is.
    """
    if scores.shape[1] == 1:
        lead, by = scores[:, 0], 2 * error[:, 0]
        return (lead > by) * np.int8(2) + (lead < -by) - np.int8(1)
    scores, wide = scores.astype(np.float64), np.broadcast_to(2 * error.astype(np.float64), scores.shape)
    best = scores.argmax(axis=1)[:, None]
    most = np.take_along_axis(scores, best, axis=1) - np.take_along_axis(wide, best, axis=1)
    others = scores + wide
    np.put_along_axis(others, best, -np.inf, axis=1)
    return np.where(most[:, 0] > others.max(axis=1), best[:, 0], -1)
