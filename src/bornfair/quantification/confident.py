"""Confidence intervals of the unfair share, from samples of what no proof decides.

People are drawn from the part of the domain that is left open. Each is fair, unfair or too close to call. Draws come in
series. Before the first draw of a series, the numbers of draws at which it may be looked at are fixed, and its share of
α is spent, whether or not these looks are taken. So the intersection of all intervals holds with confidence 1 − α,
whenever and for whatever reason drawing stops (docs/theory.md §9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bornfair.core.clock import Clock
from bornfair.parallel import ALONE, Workers
from bornfair.quantification.records import CONFIDENCE, SURE, Confident, Estimate

SERIES = (1 / 8, 5 / 8, 1 / 8)  # shares of α: of a sample of everybody, of the main series, and of the next,
LATER = 1 / 2  # and of each later series, relative to the one before
MAIN = 4 / 5  # share of its series that the look gets which is planned to suffice
LOOKS = 32  # of a series, beside the last
EARLY = 6  # of them before the one that is planned to suffice
GROWTH = 1.5  # how many times as many people there are at the next look
FEWEST = 256  # people at a look
FIRST_FEWEST = 16  # at one of the first sample, which is asked of slow models too
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
    """All looks at all series of draws so far: the interval on which they agree.

    >>> looks = Looks(0.99)
    >>> looks.begin([1000, 2000])
    >>> looks.look(100, 0, 1500, Parts()), looks.samples  # not one of the numbers that were fixed before
    (None, 0)
    >>> looks.look(200, 0, 2000, Parts()), looks.samples, looks.low < 0.1 < looks.high
    (None, 2000, True)
    """

    def __init__(self, confidence: float = SURE) -> None:
        self.confidence, self.series, self.samples = confidence, 0, 0
        self.low, self.high = 0.0, 1.0
        self._allowed: dict[int, float] = {}
        self._seen = 0

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def share(self) -> float:
        """With which probability the next series may err: all of them add up to 1 − confidence at most."""
        last = len(SERIES) - 1
        return (1 - self.confidence) * SERIES[min(self.series, last)] * LATER ** max(self.series - last, 0)

    def begin(self, goals: Sequence[int], planned: int | None = None) -> None:
        """Fix the numbers of draws at which the next series may be looked at, before the first of these draws.

        Its share of the error is spent now: time and what is seen may decide which looks are taken. The `planned`
        look gets most of it, the others the same.
        """
        share, others = self.share, [goal for goal in goals if goal != planned]
        main = 0.0 if planned is None else MAIN if others else 1.0
        self._allowed = {goal: share * (1 - main) / len(others) for goal in others}
        if planned is not None:
            self._allowed[planned] = share * main
        self.series, self._seen = self.series + 1, 0

    def look(self, unfair: int, unknown: int, count: int, parts: Parts) -> None:
        """Take in the first `count` draws of this series, of whom so many are unfair, and so many too close to call.

        Nothing is taken in at a number that was not fixed before.
        """
        error = self._allowed.pop(count, None)
        if error is None:
            return
        low, high = _ends(unfair, unfair + unknown, count, error)
        low, rest = low * (1 - OUTWARD), (1 - high) * (1 - OUTWARD)
        self.samples, self._seen = self.samples + count - self._seen, count
        self.low = max(self.low, parts.unfair + parts.drawn * low - parts.slack)
        self.high = min(self.high, 1 - parts.fair - parts.drawn * rest + parts.slack)

    def look_first(self, sample: FirstSample) -> None:
        """The first series: a sample of everybody, at the last of its fixed numbers that it reached."""
        self.begin(sample.goals)
        self.look(*sample.reached, Parts())

    def within(self, unfair: float, fair: float) -> Confident:
        """What looks and proofs say together; should they exclude each other, what is proven."""
        low, high = max(self.low, unfair), min(self.high, 1 - fair)
        if not low <= high:
            low, high = unfair, 1 - fair
        return Confident(low, max(low, high), self.confidence, self.samples)


@dataclass(frozen=True)
class FirstSample:
    """A sample that may end early, and how it stood at the last number of people that was fixed before.

    >>> sample = FirstSample.of(1000)
    >>> sample.goals[-3:]
    (444, 666, 1000)
    >>> sample.after(np.arange(700) < 70, np.zeros(700, bool)).reached  # the first 666 of 700
    (70, 0, 666)
    """

    goals: tuple[int, ...]
    unfair: int = 0
    unknown: int = 0
    count: int = 0
    reached: tuple[int, int, int] = (0, 0, 0)
    """How many of the first so many were unfair, how many too close to call, and how many that is."""

    @staticmethod
    def of(count: int) -> FirstSample:
        """A sample of so many people, if there is time."""
        found = [count]
        while found[-1] / GROWTH >= FIRST_FEWEST:
            found.append(int(found[-1] / GROWTH))
        return FirstSample(tuple(reversed(found)))

    def after(self, unfair: np.ndarray, unknown: np.ndarray) -> FirstSample:
        """With more people, in the order in which they were drawn: which are unfair, and which too close to call."""
        reached = self.reached
        for goal in self.goals:
            if self.count < goal <= self.count + len(unfair):
                some = slice(goal - self.count)
                more, unclear = (int(np.count_nonzero(which[some])) for which in (unfair, unknown))
                reached = self.unfair + more, self.unknown + unclear, goal
        return replace(
            self, unfair=self.unfair + int(np.count_nonzero(unfair)),
            unknown=self.unknown + int(np.count_nonzero(unknown)), count=self.count + len(unfair), reached=reached,
        )  # fmt: skip

    @staticmethod
    def drawn(count: int, some: Callable[[int], tuple[np.ndarray, np.ndarray]], clock: Clock) -> FirstSample:
        """So many people, fewer if time runs short; `some` draws a number of them at most."""
        found = FirstSample.of(count)
        while found.count < count and (not found.count or not clock.is_up):
            found = found.after(*some(count - found.count))
        return found


NOBODY = FirstSample(())


@dataclass(frozen=True, eq=False)
class Sample:
    """What a sample showed: how many were unfair of how many. Of a network, some of them (places; the clearest first),
    and a guess how much each column raises the first lead.
    """

    count: int
    found: int
    open: int  # neither found unfair nor known to be fair
    unfair: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    order: np.ndarray = field(default_factory=lambda: np.zeros(0))
    first: FirstSample = NOBODY  # who is unfair in every arithmetic that is asked about
    interrupted: bool = False  # there would have been more

    @staticmethod
    def of(first: FirstSample) -> Sample:
        return Sample(first.count, first.unfair, first.unknown, first=first)

    def estimate(self, certified: float = 0.0, falsified: float = 0.0) -> Estimate:
        """What it says of everybody; what is proven beside it narrows the range where the sample left people open."""
        low, _ = clopper_pearson(self.found, self.count)
        _, high = clopper_pearson(self.found + self.open, self.count)
        if self.open:
            low, high = max(low, falsified), min(high, 1.0 - certified)
        return Estimate(min(max(self.found / self.count, low), high), low, high, self.count)


def needed_samples(unfair: float, drawn: float, looks: Looks, narrow: float = NARROW) -> float:
    """About how many people to draw from a share `drawn` of everybody, of whom `unfair` (of everybody) are treated
    unfairly, for an interval that is no wider.
    """
    from scipy.special import ndtri

    deviations = -2 * float(ndtri(MAIN * looks.share / 2))
    chance = min(unfair / drawn, 0.5) if drawn > 0 else 0.0
    return float((deviations * drawn / narrow) ** 2 * chance * (1 - chance) + deviations**2 * drawn / narrow)


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
    """Draw a series of people and look at them, until the interval is narrow, or there are enough of them, or time is
    up.

    One look is at the number of people that was planned, some come before and some after. All these numbers are fixed
    before the first draw. What was drawn since the last look is lost.
    """
    goals = _goals(planned, most)
    looks.begin(goals, min((goal for goal in goals if goal >= int(min(planned, most))), default=most))
    unfair = unknown = count = 0

    def batches(goal: int) -> Iterator[tuple[int, int]]:
        """How many to draw, and how many were drawn before: each batch has random numbers of its own."""
        for start in range(count, goal, together):
            if clock.is_up:
                return
            yield min(together, goal - start), start

    drawn = _Drawn(draw, (seed, 314159, looks.series - 1))  # no series has the random numbers of another one
    for goal in goals:
        if looks.width <= narrow:
            return
        seen = np.zeros(3, np.int64)
        for found in workers.ordered(drawn, batches(goal), lambda: max(clock.left, 0.0) + GRACE):
            seen += found
        unfair, unknown, count = unfair + int(seen[0]), unknown + int(seen[1]), count + int(seen[2])
        if count < goal:
            return
        looks.look(unfair, unknown, count, parts)


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
