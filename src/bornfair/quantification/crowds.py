"""Very many people at once: who is certainly treated as their twins by a network, and who certainly is not.

Everybody is decided in float32, with a bound on the rounding: first in proportion to the sizes of the values, by the
neurons that are alive; then layer by layer for people close to the boundary; at last by intervals. Who is further from
the boundary than the bound is decided the same in real arithmetic, and by every execution in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.network.bounds.exact import agree, executes_exactly
from bornfair.models.network.lens import lead_ranges
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.models.network.shares.forms import PAD, Bounder, sure_people, treated
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import Marginal, variables
from bornfair.people.twins.relation import grid_relation
from bornfair.quantification.confident import Draw, FirstSample, Sample
from bornfair.quantification.lean import LEAST, MACHINE, UNIT, Lean, bounded_in_float32, sure_classes, views_alike
from bornfair.verification.looking import exact_views

NUMBERS = 2**17  # per array: what fits the caches
DRAWN = 2**21  # numbers drawn between two looks at the clock, where everybody is judged by intervals
WORK = 2**32  # multiplications between two looks at the clock, at most
FEWEST = 512  # people of a part, on average, of those who are drawn together
WORTH = 1.25  # times as many neurons as live in its boxes on average: a part of more is worth dividing
PART_NUMBERS = 2**16  # per array, where people of parts are drawn
LATER = 2**20  # numbers of people who are looked at more closely together
CHUNK = 2**22  # numbers per array of outputs
KEPT = 64  # unfair people who are remembered
OWN = np.float32(1 + 2.0**-10)  # more than rounding takes from a bound that is a sum of so many


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
        gamma = np.float32(MACHINE.gamma(terms + 8) * (1 + 2.0**-10))
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

    >>> from bornfair.models.network.network import Layer, Network
    >>> from bornfair.people.domain import Domain
    >>> from bornfair.people.encoding import Encoding
    >>> from bornfair.people.columns import Scale
    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> from bornfair.people.space.variables import variables
    >>> from bornfair.people.twins.relation import twin_relation
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
        return bounded_in_float32(self.owner)

    @cached_property
    def batch(self) -> int:
        """How many to draw between two looks at the clock."""
        views = len(self.owner.relation.views)
        if not self.quick:
            return int(np.clip(DRAWN // (max(self.network.widths) * views), 64, 2**16))
        return int(np.clip(WORK // (self.network.parameters * views), 64, 2**17))

    # --- the network, prepared ---

    @cached_property
    def _plain(self) -> Lean | None:
        """What decides at once about rows of u, if anything does."""
        width = self.variables.free.width
        return Lean(self.owner, np.ones(width), np.zeros(width)) if Lean.serves(self.owner) else None

    def lean(self, alive: np.ndarray | None) -> Lean | None:
        """The same for places where no other neurons [hidden neurons] can be active; for rows of u where gaps are."""
        places, free = self.variables.places, self.variables.free
        if self._plain is None or free.gaps:
            return self._plain
        scale = np.where(places.lattice, free.step, 1.0)
        shift = np.where(places.lattice, free.low, 0.0)
        signed = bool((free.low[places.real] < 0).any())
        return Lean(self.owner, scale, shift, alive, signed=signed)

    @cached_property
    def _firsts(self) -> list[_First]:
        """The first layer in all views."""
        (weight, bias), views, found = self.network.wide[0], self.owner.relation.views, []
        for members in views_alike(views):
            offsets = np.stack([views[i].offset for i in members])
            constants = (offsets @ weight.T + bias).astype(np.float32)
            sizes = ((np.abs(offsets) @ np.abs(weight).T + np.abs(bias)) * (1 + 2.0**-10)).astype(np.float32)
            matrix = views[members[0]].matrix
            found.append(_First(_Dense.of(weight @ matrix, bias, weight.shape[1]), constants, sizes))
        return found

    @cached_property
    def _layers(self) -> list[_Dense]:
        """All layers but the first."""
        return [_Dense.of(weight, bias, weight.shape[1]) for weight, bias in self.network.wide[1:]]

    # --- judging ---

    def judge(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of u who certainly get what their twins get, and who certainly do not, in the owner's arithmetic."""
        fair, unfair = np.zeros((2, len(free)), bool)
        for start in range(0, len(free) if self._plain is not None else 0, self.together):
            some = slice(start, start + self.together)
            assert self._plain is not None
            fair[some], unfair[some] = self._plain.judge(free[some].astype(np.float32))
        left = np.flatnonzero(~(fair | unfair))
        fair[left], unfair[left] = self.closely(free[left])
        return fair, unfair

    def closely(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same where it was not told at once."""
        fair, unfair = np.zeros((2, len(free)), bool)
        for start in range(0, len(free) if self.quick else 0, self.together):
            some = slice(start, start + self.together)
            with np.errstate(all="ignore"):
                fair[some], unfair[some] = treated(self._classes(free[some].astype(np.float32)))
        left = np.flatnonzero(~(fair | unfair))
        if len(left):
            fair[left], unfair[left] = sure_people(self.owner, free[left])
        return fair, unfair

    def _classes(self, rows: np.ndarray) -> np.ndarray:
        """The class of each person in each view [people, views], −1 where it is not sure."""
        found = []
        for first in self._firsts:
            base, error = rows @ first.layer.weight, self._input_error(rows, first)
            for constant, size in zip(first.constants, first.sizes, strict=True):
                values, off = self._bounded(base + constant, (error + first.layer.gamma * size) * OWN)
                found.append(sure_classes(values, 2 * off))
        return np.stack(found, axis=1)

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
        return Drawing.of(self, boxes)

    def treated_of(self, boxes: Boxes, lean: Lean | None, rng: np.random.Generator) -> tuple[int, np.ndarray]:
        """How many of one person of each box are certainly unfair, by what decides at once; and those about whom it
        cannot tell, as rows of u.
        """
        variables = self.variables
        places = variables.inside(boxes, rng)
        if lean is None:
            return 0, variables.places.values(places)
        rows = variables.places.values(places) if variables.free.gaps else places
        fair, unfair = lean.judge(rows.astype(np.float32))
        return int(np.count_nonzero(unfair)), variables.places.values(places[~(fair | unfair)])


# --- people of open boxes: boxes where the same neurons live, together, so that few decide ---


@dataclass(frozen=True, eq=False)
class DrawnPart:
    """Some boxes, and what decides first about the people in them."""

    crowd: Crowd
    boxes: Boxes  # by column: [columns, boxes]
    upto: np.ndarray  # [boxes]: the mass of all up to each
    lean: Lean | None

    @property
    def together(self) -> int:
        """How many people to decide in one pass."""
        widest = max(self.crowd.network.widths) if self.lean is None else self.lean.widest
        return int(np.clip(PART_NUMBERS // max(widest, self.crowd.variables.free.width, 1), 16, 2**13))

    def _chosen(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Which boxes so many people are drawn from, in order: so memory is read in order, too."""
        if len(self.upto) <= count:
            chances = np.diff(self.upto, prepend=0.0)
            return np.repeat(np.arange(len(chances)), rng.multinomial(count, chances / chances.sum()))
        chances = np.sort(rng.random(count)) * self.upto[-1]
        return np.searchsorted(self.upto, chances, side="right").clip(0, len(self.upto) - 1)

    def drawn(self, count: int, rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
        """So many people: how many are unfair, and about whom it is too early to say."""
        chosen = self._chosen(count, rng)
        for start in range(0, count, self.together):
            rows = chosen[start : start + self.together]
            some = Boxes(self.boxes.low.take(rows, axis=1).T, self.boxes.high.take(rows, axis=1).T)
            yield self.crowd.treated_of(some, self.lean, rng)


@dataclass(frozen=True, eq=False)
class Drawing:
    """Draws people of boxes, by their masses."""

    crowd: Crowd
    parts: list[DrawnPart]
    chances: np.ndarray  # [parts]

    @staticmethod
    def of(crowd: Crowd, boxes: Boxes) -> Drawing:
        mass, packed = boxes.facts["mass"], boxes.facts.get("alive")
        rows, alive = [np.arange(len(boxes))], None
        if packed is not None and crowd.quick:
            alive = np.unpackbits(packed, axis=1, count=sum(crowd.network.widths[1:-1])).astype(bool)
            rows = list(_divided(alive, mass / mass.sum(), rows[0], FEWEST / crowd.batch))
        parts = [
            DrawnPart(
                crowd, Boxes(boxes.low[some].T.copy(), boxes.high[some].T.copy()), np.cumsum(mass[some]),
                crowd.lean(None if alive is None else np.asarray(alive[some].any(axis=0))),
            )
            for some in rows
        ]  # fmt: skip
        chances = np.array([part.upto[-1] for part in parts])
        return Drawing(crowd, parts, chances / chances.sum())

    def __call__(self, count: int, rng: np.random.Generator) -> tuple[int, int]:
        found, later, waiting = np.zeros(2, np.int64), [], 0
        for part, size in zip(self.parts, rng.multinomial(count, self.chances), strict=True):
            for unfair, left in part.drawn(int(size), rng):
                found[0] += unfair
                later.append(left)
                waiting += left.size
                if waiting > LATER:
                    found += self._closely(later)
                    later, waiting = [], 0
        found += self._closely(later)
        return int(found[0]), int(found[1])

    def _closely(self, people: list[np.ndarray]) -> tuple[int, int]:
        if not people:
            return 0, 0
        fair, unfair = self.crowd.closely(np.concatenate(people))
        return int(np.count_nonzero(unfair)), int(np.count_nonzero(~(fair | unfair)))


def _divided(alive: np.ndarray, mass: np.ndarray, rows: np.ndarray, least: float) -> Iterator[np.ndarray]:
    """Boxes [boxes, neurons] divided by whether a neuron lives that does in about half of them, again and again, as
    long as much fewer neurons live in each box than in any of a part, and a part has not too little mass.
    """
    total = mass[rows].sum()
    if total >= 2 * least and len(rows) > 1:
        share = mass[rows] @ alive[rows] / total
        if alive[rows].any(axis=0).sum() > WORTH * share.sum():
            lives = alive[rows, np.abs(share - 0.5).argmin()]
            if 0 < lives.sum() < len(rows):
                yield from _divided(alive, mass, rows[lives], least)
                yield from _divided(alive, mass, rows[~lives], least)
                return
    yield rows


# --- people of small boxes, one by one ---


def judge_people(model: Model, owner: Bounder, boxes: Boxes, clock: Clock) -> tuple[float, float, float]:
    """Masses of people who are certainly treated as their twins are, certainly not, and of whom neither is known."""
    variables = owner.variables
    if not len(boxes):
        return 0.0, 0.0, 0.0
    people, _ = variables.places.everybody(boxes)
    mass = variables.mass(Boxes(people, people))
    people, mass = people[mass > 0], mass[mass > 0]
    fair, unfair = sure_people(owner, variables.places.values(people))
    for row in np.flatnonzero(~(fair | unfair)) if owner.network.function.exact else ():
        if clock.is_up:
            break
        inputs = exact_views(model, owner.relation, variables.places.values(people[row][None])[0])
        fair[row], unfair[row] = treated_exactly(owner, inputs)
    return float(mass[fair].sum()), float(mass[unfair].sum()), float(mass[~(fair | unfair)].sum())


def treated_exactly(owner: Bounder, inputs: np.ndarray) -> tuple[bool, bool]:
    """Fair, unfair or neither, by the exact inputs of a person's twins: in real arithmetic, and in float32 too if it
    makes no error here or is not asked for.
    """
    if owner.arithmetic == "float32" and not executes_exactly(owner.network, inputs):
        return False, False
    same = agree(owner.network, inputs)
    # That the levels of a grid agree proves nothing about the values between.
    return same and not owner.has_bands, not same


# --- a first sample of everybody ---


def people_at_random(owner: Bounder, most: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some people drawn from the distribution, so many at most: their places, their free vectors, and the outputs of
    all their views in float64.
    """
    step = max(CHUNK // (max(owner.network.widths) * len(owner.relation.views)), 64)
    step = step // 16 + 1 if owner.has_bands else step  # bounds take longer than scores
    people = owner.variables.draw(min(step, most), rng)
    free = owner.variables.places.values(people)
    return people, free, owner.plain.scores(free)


def draw(owner: Bounder, crowd: Crowd, count: int, rng: np.random.Generator, clock: Clock) -> Sample:
    """Draw people, and decide them and their twins. An interrupt ends it with those who were drawn until then."""
    width, interrupted = owner.variables.free.width, False
    # Replaced by one assignment, so that an interrupt finds all of it or nothing.
    counts, first = np.zeros(3, np.int64), FirstSample.of(count)
    _, _, kept, gaps, moments = state = counts, first, np.zeros((0, width)), np.zeros(0), np.zeros((2, width))
    try:
        while not state[0][0] or (state[0][0] < count and not clock.is_up):
            counts, first, kept, gaps, moments = state
            people, free, values = people_at_random(owner, count - int(counts[0]), rng)
            unfair, known = disagree(values), crowd.judge(free)
            open_ = ~unfair & ~known[0] if owner.has_bands else np.zeros(0, bool)
            new = [len(people), unfair.sum(), open_.sum()]
            first = first.after(known[1], ~(known[0] | known[1]))
            gap = lead_ranges(values[unfair]).gap if unfair.any() else np.zeros(0)
            kept, gaps = np.concatenate([kept, people[unfair]]), np.concatenate([gaps, gap])
            best = np.argsort(-gaps, kind="stable")[:KEPT]
            lead = values[:, 0, 0] if owner.network.outputs == 1 else values[:, 0, 1] - values[:, 0, 0]
            more = np.stack([np.nan_to_num(lead) @ people, people.sum(axis=0)])
            state = counts + np.array(new, np.int64), first, kept[best], gaps[best], moments + more
    except KeyboardInterrupt:
        interrupted = True
        if not state[0][0]:
            raise
    counts, first, kept, _, moments = state
    seen, found, open_count = (int(part) for part in counts)
    # The mean lead of those who are 1 in a column, for one-hot columns.
    order = moments[0] / np.maximum(moments[1], 1e-9)
    return Sample(seen, found, open_count, kept, order, first, interrupted)


def disagree(values: np.ndarray) -> np.ndarray:
    """Whose views get different decisions [people], from outputs [people, views, outputs]."""
    decided = decisions(values)
    return (decided != decided[:, :1]).any(axis=1)


def network_draw(
    model: Model, marginals: Mapping[str, Marginal] | None, where: Where | None
) -> Callable[[int, np.random.Generator, Clock], tuple[pd.DataFrame, np.ndarray]]:
    """Draws people in raw values, and tells whose twins are decided unlike."""
    relation = grid_relation(model.encoding)
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free, marginals, where))

    def some(most: int, rng: np.random.Generator, _: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        free, values = people_at_random(owner, most, rng)[1:]
        return model.encoding.decode(free), disagree(values)

    return some
