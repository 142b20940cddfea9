"""Between which shares does the truth lie, almost certainly? Samples of what no proof decides, beside what one does.

People are drawn from the part of the domain that is left open, and each of them is fair, unfair or too close to call.
Look k at so many of them may err with probability α/(k(k+1)), which is α for all looks together, however many there
are: so what all looks agree on holds with confidence 1 − α, whenever somebody stops (docs/theory.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bornfair.quantification.records import CONFIDENCE, SURE, Confident
from bornfair.verification.clock import Clock

FIRST = 2**13  # people before the first look
GROWTH = 1.5  # how many times as many there are at the next
TOGETHER = 2**15  # people drawn between two looks at the clock
NARROW = 3e-4  # share below which an interval is narrow enough
MOST = 2**27  # people drawn, unless somebody wants more
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
        self.confidence, self.taken, self.samples = confidence, 0, 0
        self.low, self.high = 0.0, 1.0

    @property
    def width(self) -> float:
        return self.high - self.low

    def allowed(self, look: int) -> float:
        """With which probability look number 1, 2, … may err: all of them together with 1 − confidence."""
        return (1 - self.confidence) / (look * (look + 1))

    def look(self, unfair: int, unknown: int, count: int, parts: Parts, *, before: int = 0) -> None:
        """Take in a sample of `count` people of whom so many are unfair, and so many too close to call; `before` of
        them were there at the last look.
        """
        low, high = _ends(unfair, unfair + unknown, count, self.allowed(self.taken + 1))
        low, rest = low * (1 - OUTWARD), (1 - high) * (1 - OUTWARD)
        # One assignment each, the end of the interval that is given up for good last: an interrupt does no harm.
        self.samples, self.taken = self.samples + count - before, self.taken + 1
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

    deviations = -2 * float(ndtri(looks.allowed(looks.taken + 20) / 2))
    chance = min(unfair / drawn, 0.5) if drawn > 0 else 0.0
    return (deviations * drawn / narrow) ** 2 * chance * (1 - chance) + drawn / narrow


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
    parts = Parts(proven, others, remainder)
    with contextlib.suppress(KeyboardInterrupt):  # what was looked at stays
        take_looks(looks, draw, parts, clock or Clock(), seed, narrow=narrow, most=most)
    return looks.within(proven, others)


def take_looks(
    looks: Looks,
    draw: Draw,
    parts: Parts,
    clock: Clock,
    seed: int,
    *,
    narrow: float = NARROW,
    most: int = MOST,
    together: int = TOGETHER,
) -> None:
    """Draw people and look at them, until the interval is narrow, or there are enough of them, or time is up.

    Looks come when there are so many people, whatever they are: who chose the moment by what is seen would be wrong
    more often. What was drawn since the last look is lost.
    """
    rng, goal = np.random.default_rng([seed, 314159, looks.taken]), min(FIRST, most)
    unfair = unknown = count = before = 0
    while looks.width > narrow and not clock.is_up:
        size = min(together, goal - count)
        found, close = draw(size, rng)
        unfair, unknown, count = unfair + found, unknown + close, count + size
        if count < goal:
            continue
        looks.look(unfair, unknown, count, parts, before=before)
        if count >= most:
            break
        before, goal = count, min(int(goal * GROWTH), most)
