"""Who is drawn from open boxes, and by which neurons are they decided? Boxes where the same neurons live, together.

Most neurons of a wide network are silent in a box that is small enough to matter. Boxes are divided by the neurons that
live in them, so that whoever is drawn from a part is decided by few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bornfair.people.space.boxes import Boxes
from bornfair.quantification.lean import Lean

if TYPE_CHECKING:
    from bornfair.quantification.crowds import Crowd

FEWEST = 512  # people of a part, on average, of those who are drawn together
WORTH = 1.25  # times as many neurons as live in its boxes on average: a part of more is worth dividing
NUMBERS = 2**16  # per array: what fits the caches
LATER = 2**20  # numbers of people who are looked at more closely together


@dataclass(frozen=True, eq=False)
class Part:
    """Some boxes, and what decides first about the people in them."""

    crowd: Crowd
    boxes: Boxes  # by column: [columns, boxes]
    upto: np.ndarray  # [boxes]: the mass of all up to each
    lean: Lean | None

    @property
    def together(self) -> int:
        """How many people to decide in one pass."""
        widest = max(self.crowd.network.widths) if self.lean is None else self.lean.widest
        return int(np.clip(NUMBERS // max(widest, self.crowd.variables.free.width, 1), 16, 2**13))

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
    parts: list[Part]
    chances: np.ndarray  # [parts]

    @staticmethod
    def of(crowd: Crowd, boxes: Boxes) -> Drawing:
        mass, packed = boxes.facts["mass"], boxes.facts.get("alive")
        rows, alive = [np.arange(len(boxes))], None
        if packed is not None and crowd.quick:
            alive = np.unpackbits(packed, axis=1, count=sum(crowd.network.widths[1:-1])).astype(bool)
            rows = list(_divided(alive, mass / mass.sum(), rows[0], FEWEST / crowd.batch))
        parts = [
            Part(
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
