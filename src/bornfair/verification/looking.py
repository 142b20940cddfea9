"""Work of a search on boxes of a network: bounds, single people of small boxes, suspects and cuts.

Suspected twins are only named here; the search replays them on the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.network.bounds.exact import agree, executes_exactly
from bornfair.models.network.bounds.linear import LinearBounds
from bornfair.models.network.model import Model
from bornfair.models.verdict import Arithmetic
from bornfair.people.features import Value
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.space.subpopulation import Limits, brought_inside
from bornfair.people.twins.relation import Relation
from bornfair.people.twins.versions import Versions
from bornfair.verification.frontier import Look, Portion
from bornfair.verification.replay import exact_input, person_of, versions_at

FEW = 32  # people in a box who are looked at one by one rather than cut apart
BISECTIONS = 64  # lines per batch on which the decision boundary is looked for
ROUNDING_RULES = 0.8  # share of the bounds' width from which on cutting cannot help: only real arithmetic may
MOST_SEEN = 20_000  # people remembered


class Outcome(IntEnum):
    """What became of a box; of the people in it, the last of these counts."""

    FAIR = 0
    FAIR_IN_REAL = 1  # but not shown in float32
    STUCK = 2  # it can neither be decided nor cut
    OPEN = 3


class Wave(NamedTuple):
    """What a look should know beside its boxes: the arithmetic, how many boxes came before the wave, and whether the
    boundary is looked for on lines.
    """

    mode: Arithmetic
    boxes: int
    bisecting: bool


class Looked(NamedTuple):
    """What became of each box; suspects (places) in the order in which they are to be replayed, some of a group; boxes
    that were cut, and their halves.
    """

    boxes: Boxes
    outcome: np.ndarray
    suspects: list[np.ndarray]
    cut: np.ndarray
    first: Boxes
    second: Boxes


@dataclass(frozen=True, eq=False)
class Looking(Look):
    """A network and the views of a relation, ready to look at boxes."""

    model: Model
    relation: Relation
    wanted: tuple[Arithmetic, ...]
    seed: int
    bounds: LinearBounds
    places: Places
    among: Limits
    imported: bool  # there is an original that may decide otherwise
    seen: dict[frozenset[Any], tuple[Arithmetic, ...]] = field(default_factory=dict)
    """People who were looked at one by one, with all their twins, and what came of it."""

    def look(self, portion: Portion) -> Looked:
        boxes, wave, clock = portion.boxes, portion.note, Clock(portion.seconds)
        found = self.bounds.judge(*self.places.bounds(boxes), wave.mode)
        outcome = np.where(found.fair, Outcome.FAIR, Outcome.OPEN)
        if wave.mode == "float32" and "real" in self.wanted:
            thin = np.flatnonzero(~found.fair & (found.rounding > ROUNDING_RULES))
            if len(thin):
                real = self.bounds.judge(*self.places.bounds(boxes[thin]), "real").fair
                outcome[thin[real]] = Outcome.FAIR_IN_REAL
        hard = np.flatnonzero(outcome == Outcome.OPEN)
        small = self.places.count(boxes[hard]) <= FEW
        few, many = hard[small], hard[~small]
        rng = np.random.default_rng([self.seed, wave.boxes + portion.before])
        suspects = self._suspects(boxes[many], found.slope[many], rng, bisecting=wave.bisecting)
        outcome[few], close = self._look_at(boxes[few], wave.mode, clock)
        first, second, cuttable = self.places.cut(boxes[many], found.weight[many], found.slope[many])
        outcome[many[~cuttable]] = Outcome.STUCK
        return Looked(boxes, outcome, suspects + close, many[cuttable], first, second)

    def _look_at(self, boxes: Boxes, mode: Arithmetic, clock: Clock) -> tuple[np.ndarray, list[np.ndarray]]:
        """Everybody in small boxes, one by one: what becomes of each box, and suspects. Open are those for whom time
        runs out.
        """
        outcome = np.full(len(boxes), Outcome.FAIR)
        if not len(boxes):
            return outcome, []
        people, owners = self.places.everybody(boxes)
        proven, classes = self.bounds.points(self.places.values(people), mode)
        suspects = [people[_differ(classes)]]
        for row in np.flatnonzero(~proven):
            box = owners[row]
            if outcome[box] >= Outcome.STUCK:
                continue
            if clock.left < 0:
                outcome[box] = Outcome.OPEN
                continue
            agreed = self._agreed(people[row])
            if self.imported or "float32" not in agreed:
                suspects.append(people[row][None])
            if mode not in agreed:
                real = "real" in agreed and "real" in self.wanted
                outcome[box] = Outcome.FAIR_IN_REAL if real else Outcome.STUCK
        return outcome, suspects

    def _agreed(self, places: np.ndarray) -> tuple[Arithmetic, ...]:
        """In which arithmetics a single person's twins are shown to agree."""
        network = self.model.network
        if not network.function.exact:
            return ()
        u = self.places.values(places[None])[0]
        inputs = exact_views(self.model, self.relation, u, self.among)
        everyone = frozenset(map(tuple, inputs))  # the same for all twins, so that they are looked at once
        if everyone not in self.seen:
            once = np.array(list(everyone), dtype=object).reshape(-1, inputs.shape[1])
            alike = agree(network, once)
            exactly = alike and executes_exactly(network, once)
            if len(self.seen) >= MOST_SEEN:
                self.seen.clear()
            self.seen[everyone] = ("real", "float32") if exactly else ("real",) if alike else ()
        return self.seen[everyone]

    def _suspects(
        self, boxes: Boxes, slope: np.ndarray, rng: np.random.Generator, *, bisecting: bool
    ) -> list[np.ndarray]:
        """Corners and random people of open boxes, and people on lines between two who are decided differently: those
        whose twins are likely to differ.
        """
        if not len(boxes):
            return []
        places, suspects = self.places, list[np.ndarray]()

        def decided(people: np.ndarray) -> np.ndarray:
            """Likely decisions of the first view, in plain float64. Whose twins differ is suspected."""
            found = self.bounds.guess(places.values(people))
            suspects.append(people[_differ(found)])
            return found[:, 0]

        one, other = places.corner(boxes, slope), places.corner(boxes, -slope)
        target, opposite, _ = (decided(people) for people in (one, other, places.draw(boxes, rng)))
        if bisecting:
            crossed = np.flatnonzero(target != opposite)[:BISECTIONS]
            one, other, target = one[crossed], other[crossed], target[crossed]
            for _ in range(24 if len(crossed) else 0):
                middle = places.between(one, other)
                near = (decided(middle) == target)[:, None]
                one, other = np.where(near, middle, one), np.where(near, other, middle)
        return suspects


def exact_views(model: Model, relation: Relation, u: np.ndarray, among: Limits | None = None) -> np.ndarray:
    """The network inputs of one person's twins as Fractions, from raw values; at the levels of their grids where views
    are bands.
    """
    bands = any(view.radius is not None for view in relation.views)
    person, known = person_at(model, u, among), Versions(model.domain) if bands else versions_at(model, u)
    versions = [i for i in (range(known.size) if bands else relation.versions) if known.within(person, i)]
    return np.stack([exact_input(model.encoding, person, i, known) for i in versions])


def person_at(model: Model, u: np.ndarray, among: Mapping[str, Any] | None) -> dict[str, Value]:
    """What all versions share of the person behind u, who is one of those asked about."""
    found = person_of(model, u)
    return brought_inside(model.domain, among, found) if among else found


def _differ(decided: np.ndarray) -> np.ndarray:
    return (decided != decided[:, :1]).any(axis=1)
