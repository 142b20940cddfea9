"""Between which shares does the truth lie, almost certainly? Samples of what no proof decides, beside what one does.

People are drawn from the part of the domain that is left open, and each of them is fair, unfair or too close to call.
There are at most so many looks at how many of each were drawn, when there are numbers of them that were fixed before,
and each look may err with its part of α, one of them with half of it: so what all looks agree on holds with confidence
1 − α, whenever somebody stops (docs/theory.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bornfair.parallel import ALONE, Workers
from bornfair.quantification.records import CONFIDENCE, SURE, Confident
from bornfair.verification.clock import Clock

LOOKS = 32  # at most, however often somebody begins anew
EARLY = 6  # looks before the one that is planned to suffice
GROWTH = 1.5  # how many times as many people there are at the next look
FEWEST = 256  # people at a look
TOGETHER = 2**15  # people drawn between two looks at the clock
NARROW = 3e-4  # share below which an interval is narrow enough
MOST = 2**27  # people drawn, unless somebody wants more
GRACE = 2.0  # seconds beyond the time that a worker may be late by
OUTWARD = 2.0**-30  # relative: the ends of an interval are computed in floating point

Draw = Callable[[int, np.random.Generator], tuple[int, int]]
"""So many people drawn at random: how many of them are certainly unfair, and how many too close to call."""


def clopper_pearson(found: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact confidence interval of a binomial proportion.

    >>> [round(end, 4) for end in clopper_pearson(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    return _ends(found, found, count, 1 - confidence)


def _ends(least: int, most: int, count: int, error: float) -> tuple[float, float]:
    """Clopper and Pearson's lower end for `least` of `count`, and their upper end for `most`: each is beyond the truth
    with probability error/2 at most.
    """
    from scipy.special import betainccinv, betaincinv

    low = 0.0 if least == 0 else float(betaincinv(least, count - least + 1, error / 2))
    high = 1.0 if most == count else float(betainccinv(most + 1, count - most, error / 2))
    return low, high


@dataclass(frozen=True)
class Parts:
    """What is known before somebody is drawn: lower bounds of the shares of everybody who are proven to be treated
    unfairly, are proven to be treated fairly, and are drawn from. What is in none of them counts against both ends.

    slack: by how much rounding may have changed how often some of them are drawn.
    """

    unfair: float = 0.0
    fair: float = 0.0
    drawn: float = 1.0
    slack: float = 2.0**-40


class Looks:
    """All looks at samples so far: the interval on which they agree."""

    def __init__(self, confidence: float = SURE) -> None:
        self.confidence, self.taken, self.samples, self.planned_taken = confidence, 0, 0, False
        self.low, self.high = 0.0, 1.0

    @property
    def width(self) -> float:
        return self.high - self.low

    def allowed(self, *, planned: bool) -> float:
        """With which probability a look may err: the one that is planned with half of 1 − confidence, all others
        together with the other half.
        """
        return (1 - self.confidence) / 2 / (1 if planned else LOOKS)

    @property
    def over(self) -> bool:
        return self.taken >= LOOKS

    def look(
        self, unfair: int, unknown: int, count: int, parts: Parts, *, before: int = 0, planned: bool = False
    ) -> None:
        """Take in a sample of `count` people of whom so many are unfair, and so many too close to call; `before` of
        them were there at the last look. One look may be `planned`.
        """
        planned = planned and not self.planned_taken
        if self.over and not planned:
            return
        low, high = _ends(unfair, unfair + unknown, count, self.allowed(planned=planned))
        low, rest = low * (1 - OUTWARD), (1 - high) * (1 - OUTWARD)
        # First what is spent: whoever interrupts it loses a look, and no more.
        self.taken, self.planned_taken = self.taken + (not planned), self.planned_taken or planned
        self.samples += count - before
        self.low = max(self.low, parts.unfair + parts.drawn * low - parts.slack)
        self.high = min(self.high, 1 - parts.fair - parts.drawn * rest + parts.slack)

    def within(self, unfair: float, fair: float) -> Confident:
        """What looks and proofs say together; should they exclude each other, what is proven."""
        low, high = max(self.low, unfair), min(self.high, 1 - fair)
        if not low <= high:
            low, high = unfair, 1 - fair
        return Confident(low, max(low, high), self.confidence, self.samples)


def needed_samples(unfair: float, drawn: float, looks: Looks, narrow: float = NARROW) -> float:
    """About how many people to draw from a share `drawn` of everybody, of whom `unfair` (of everybody) are treated
    unfairly, for an interval that is no wider.
    """
    from scipy.special import ndtri

    deviations = -2 * float(ndtri(looks.allowed(planned=not looks.planned_taken) / 2))
    chance = min(unfair / drawn, 0.5) if drawn > 0 else 0.0
    return float((deviations * drawn / narrow) ** 2 * chance * (1 - chance) + deviations**2 * drawn / narrow)


def confident(
    draw: Draw,
    *,
    proven: float,
    remainder: float,
    fair: float | None = None,
    confidence: float = SURE,
    clock: Clock | None = None,
    seed: int = 0,
    narrow: float = NARROW,
    most: int = MOST,
) -> Confident:
    """Between which shares those who are treated unfairly lie.

    Args:
        draw: draws so many people at random from the part that is left open.
        proven: the share of everybody outside that part who are proven to be treated unfairly, or less.
        remainder: the share of everybody who are in that part, or less.
        fair: the share outside it who are proven to be treated fairly, or less; by default all others.
        confidence: how sure the interval is, whenever it is stopped.
        clock: until when to draw.
        seed: the same seed draws the same people.
        narrow, most: stop when the interval is no wider, or when so many were drawn.

    >>> def draw(count, rng):
    ...     return int(rng.binomial(count, 0.25)), 0
    >>> found = confident(draw, proven=0.1, remainder=0.2, narrow=0.004)
    >>> found.low <= 0.15 <= found.high, found.high - found.low <= 0.004
    (True, True)
    """
    looks, others = Looks(confidence), 1 - proven - remainder if fair is None else fair
    parts, planned = Parts(proven, others, remainder), needed_samples(remainder / 2, remainder, looks, narrow)
    with contextlib.suppress(KeyboardInterrupt):  # what was looked at stays
        take_looks(looks, draw, parts, min(planned, most), clock or Clock(), seed, narrow=narrow, most=most)
    return looks.within(proven, others)


def take_looks(
    looks: Looks,
    draw: Draw,
    parts: Parts,
    planned: float,
    clock: Clock,
    seed: int,
    *,
    narrow: float = NARROW,
    most: int = MOST,
    together: int = TOGETHER,
    workers: Workers = ALONE,
) -> None:
    """Draw people and look at them, until the interval is narrow, or there are enough of them, or time is up.

    One look is at the number of people that was planned, some come before and some after. These numbers hang on nothing
    that is seen of them: who chose the moment by what is seen would be wrong more often. What was drawn since the last
    look is lost.
    """
    goals = _goals(planned, most)
    the_planned = min((goal for goal in goals if goal >= int(min(planned, most))), default=most)
    unfair = unknown = count = 0
    begun = looks.taken

    def batches(goal: int) -> Iterator[tuple[int, int]]:
        """How many to draw, and how many were drawn before: each batch has random numbers of its own."""
        for start in range(count, goal, together):
            if clock.is_up:
                return
            yield min(together, goal - start), start

    drawn = _Drawn(draw, (seed, 314159, begun))
    for goal in goals:
        if looks.over or looks.width <= narrow:
            return
        before, seen = count, np.zeros(3, np.int64)
        for found in workers.ordered(drawn, batches(goal), lambda: max(clock.left, 0.0) + GRACE):
            seen += found
        unfair, unknown, count = unfair + int(seen[0]), unknown + int(seen[1]), count + int(seen[2])
        if count < goal:
            return
        looks.look(unfair, unknown, count, parts, before=before, planned=goal == the_planned)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What workers do: draw a batch of people, with random numbers of its own."""

    draw: Draw
    seed: tuple[int, ...]

    def __call__(self, batch: tuple[int, int]) -> tuple[int, int, int]:
        size, start = batch
        return (*self.draw(size, np.random.default_rng([*self.seed, start])), size)


def _goals(planned: float, most: int) -> list[int]:
    """How many people there are at each look.

    >>> _goals(90_000, 400_000)
    [7901, 11851, 17777, 26666, 40000, 60000, 90000, 135000, 202500, 303750, 400000]
    """
    planned = min(max(planned, 1.0), float(most))
    found = [int(planned * GROWTH**power) for power in range(-EARLY, LOOKS - EARLY)]
    return [goal for goal in found if FEWEST <= goal < most] + [most]
