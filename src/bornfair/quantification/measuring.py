"""The measuring loop of all kinds of model: it tallies boxes that are done and draws people from those left open.

A kind says how its boxes are bounded, cut and credited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypedDict

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError
from bornfair.models.protocol import Bounded
from bornfair.models.verdict import Arithmetic
from bornfair.parallel import Workers
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import DOWN
from bornfair.quantification.confident import NARROW, Draw, Looks, Parts, Sample, needed_samples, take_looks
from bornfair.quantification.records import SURE, Shares
from bornfair.verification.frontier import GRACE, INTERRUPTED, Frontier, Look, Portion

CONFIDING = 1 / 3  # share of the time in which people of open boxes are drawn
PACED = 1 / 3  # of the time, after which it is measured again how long that takes: by then boxes are many
SLOWER = 1.3  # times as long it may take where boxes are more than when it was measured,
MORE = 3.0  # and to get ready for them, which takes as long as they are many
BATCHES = 2  # more than needed: one tells how long it takes, and the last one is not over when time is
PLANNED = 0.9  # of the time that is left for it: the look that is planned must not come too late
COUNTED = 10  # times as many people as in the first sample are drawn at most, where a number of boxes ends it


class Masses(Protocol):
    """Everybody: how much they weigh together, whether masses are whole numbers, and of how many variables they are."""

    @property
    def total(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    @property
    def count(self) -> int: ...


class Pool(Protocol):
    """People who can be drawn from boxes whose `mass` is known, so many between two looks at the clock."""

    @property
    def batch(self) -> int: ...
    def drawn_from(self, boxes: Boxes) -> Draw: ...


class MeasureOptions(TypedDict, total=False):
    """How long shares are measured, and how closely; see `bornfair.quantification.measure.shares_of`."""

    timeout: Timeout
    precision: float
    samples: int
    most_boxes: int | None
    most_samples: int | None
    confidence: float
    seed: int
    say: Say | None


@dataclass(frozen=True, eq=False)
class Allowance:
    """When a measurement ends, and how many people it draws: in a first sample, and of open boxes at most."""

    clock: Clock
    precision: float
    samples: int
    most_boxes: float
    most_samples: int
    confidence: float
    seed: int

    @staticmethod
    def of(
        usual: int,
        more: int,
        *,
        timeout: Timeout = 60.0,
        precision: float = 0.0,
        samples: int | None = None,
        most_boxes: int | None = None,
        most_samples: int | None = None,
        confidence: float = SURE,
        seed: int = 0,
        say: Say | None = None,
    ) -> Allowance:
        """So many people are drawn first, and `more` times as many of open boxes, where nothing else is said."""
        samples = usual if samples is None else samples
        clock, boxes = Clock.of(timeout, say), float("inf") if most_boxes is None else most_boxes
        if not (clock.timeout >= 0 and 0 <= precision <= 1 and samples >= 1 and boxes >= 1):
            raise InputError(
                "timeout ≥ 0, precision between 0 and 1, samples ≥ 1 and most_boxes ≥ 1 are needed, "
                f"found {clock.timeout}, {precision}, {samples} and {most_boxes}."
            )
        if most_samples is None:
            most_samples = (more if most_boxes is None else COUNTED) * samples
        if not 0 < confidence < 1 or most_samples < 0:
            raise InputError(
                f"confidence between 0 and 1 and most_samples ≥ 0 are needed, found {confidence} and {most_samples}."
            )
        return Allowance(clock, precision, samples, boxes, most_samples, confidence, seed)

    @property
    def counted(self) -> bool:
        """Whether a number of boxes ends it: then the clock decides nothing, unless all time is up."""
        return self.most_boxes < float("inf")

    def part(self, share: float) -> Clock:
        """A part of the time; all of it where a number of boxes ends the measurement."""
        return self.clock if self.counted else self.clock.part(share)

    @property
    def rng(self) -> np.random.Generator:
        """Draws the first sample."""
        return np.random.default_rng([self.seed, 271828])

    def told(
        self, found: Shares, model: Bounded, arithmetic: tuple[Arithmetic, ...], where: Where | None, name: str
    ) -> Shares:
        """The shares with all that is known of how they were measured. `name`: of the kind of model."""
        as_read = "" if model.covers_execution else f"of the {name} as read, in real arithmetic: "
        note = f"; {model.note}" if model.note else ""
        return replace(
            found,
            reason=f"{as_read}{found.reason}{note}",
            arithmetic=arithmetic,
            where=where,
            seconds=self.clock.spent,
            confident=found.confident or replace(found.proven_interval, confidence=self.confidence),
        )


def all_certified(space: Masses, reason: str, sample: Sample | None = None) -> Shares:
    """Nobody is treated unlike a twin: a proof says so."""
    counts = {"certified": int(space.total), "falsified": 0, "undecided": 0} if space.exact else None
    return Shares(1.0, 0.0, None if sample is None else sample.estimate(), reason=reason, counts=counts)


@dataclass(frozen=True)
class Tally:
    """Masses of boxes that are done: whole numbers where people can be counted."""

    certified: float = 0.0
    falsified: float = 0.0
    stuck: float = 0.0
    credited: float = 0.0  # of certified and falsified, what came from parts of boxes
    boxes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(one + more for one, more in zip(vars(self).values(), vars(other).values(), strict=True)))

    def with_credit(self, boxes: Boxes) -> Tally:
        """With the masses that are proven of parts of open boxes, as far as anybody has looked."""
        certified, falsified = (
            float(np.nansum(boxes.facts[name] * boxes.facts["mass"]) * DOWN) for name in ("certified", "falsified")
        )
        return self + Tally(certified, falsified, credited=certified + falsified)

    def shares(self, total: float, exact: bool) -> tuple[float, float, dict[str, int] | None]:
        """Certified and falsified share of everybody, and how many people that are where these can be counted."""
        # Whole numbers were added without error; of others, each addition may have rounded up.
        whole = exact and not self.credited
        down = 1.0 if whole else 1 - 2.0**-51 * (self.boxes + 1000)
        certified, falsified = (rounded_down(part * down, total) for part in (self.certified, self.falsified))
        fair, unfair = int(self.certified), int(self.falsified)
        counts = {"certified": fair, "falsified": unfair, "undecided": int(total) - fair - unfair} if whole else None
        return certified, min(falsified, 1.0 - certified), counts


def waiting(boxes: Boxes, mass: np.ndarray, undecided: np.ndarray, **facts: np.ndarray) -> Boxes:
    """Open boxes: mass, what is likely undecided of it, where to cut, and what shares of them are proven to be
    certified and falsified (NaN: nobody has looked).
    """
    certified, falsified = np.full((2, len(boxes)), np.nan)
    return boxes.knowing(mass=mass, undecided=undecided, certified=certified, falsified=falsified, **facts)


def added(tally: Tally, found: tuple[Tally, Boxes]) -> tuple[Tally, Boxes]:
    """The tally after some boxes, and what is open of them."""
    return tally + found[0], found[1]


def rounded_down(part: float, total: float) -> float:
    """part / total, never above it, and a multiple of 2^-53, so that shares of 1 add up exactly.

    A share too small for that stays what it is: beside it, the others are 0 or make up for it by rounding.
    """
    exact = Fraction(part) / Fraction(total)
    units = exact.numerator * 2**53 // exact.denominator
    if units:
        return units / 2**53
    found = float(exact)
    return found if Fraction(found) <= exact else float(np.nextafter(found, 0.0))


class Measurement:
    """Boxes that are open, and the masses of those that are done."""

    def __init__(
        self,
        space: Masses,
        root: Boxes,
        facts: dict[str, np.ndarray],
        most_open: int,
        crowd: Pool,
        sample: Sample,
        allowance: Allowance,
        workers: Workers,
        confiding: float = CONFIDING,
        each: float = 0.0,
    ) -> None:
        """`confiding`, `each`: as of `Remainder`."""
        self.space, self.allowance, self.clock, self.counted = space, allowance, allowance.clock, allowance.counted
        self.workers = workers
        self.remainder = Remainder(crowd, space, sample, allowance, workers, confiding, each)
        self.pace = 0.0
        """Boxes that are credited in a second."""
        everybody = np.full(1, space.total)
        self.frontier: Frontier[Boxes, Tally] = Frontier(
            waiting(root, everybody, everybody, **facts), Tally(), self.clock, most_open,
            lambda: self.frontier.shelve_half("undecided", self._shelved), counted=self.counted,
        )  # fmt: skip

    def run(self) -> Shares:
        """Measure until there is a reason to stop."""
        try:
            reason = self._decide()
        except KeyboardInterrupt:
            reason = INTERRUPTED
            self._wind_up()
        self.clock.report(lambda: f"{reason}: {self._progress()}", at_once=True)
        return self.shares(reason)

    def _decide(self) -> str:
        """Bound, cut and credit boxes. Why it ended."""
        raise NotImplementedError

    def _wind_up(self) -> None:
        """What is done after an interrupt, so that there is a better answer."""

    def _written(self, boxes: Boxes, rows: np.ndarray, found: Any) -> None:
        """Write down beside boxes the shares that are proven of them."""
        boxes.facts["certified"][rows], boxes.facts["falsified"][rows] = found

    def _shelved(self, boxes: Boxes) -> Tally:
        """What is proven of parts of boxes that are put aside."""
        return Tally().with_credit(boxes)

    @property
    def _tally(self) -> Tally:
        """What is proven, of parts of boxes that were put aside too."""
        return sum((one.note for one in self.frontier.shelved), self.frontier.tally)

    def shares(self, reason: str) -> Shares:
        """What is known by now."""
        tally = self._tally.with_credit(self.frontier.open)
        certified, falsified, counts = tally.shares(self.space.total, self.space.exact)
        estimate = self.remainder.sample.estimate(certified, falsified)
        confident = self.remainder.looks.within(falsified, certified)
        return Shares(
            certified, falsified, estimate, tally.boxes, reason=reason, interrupted=reason == INTERRUPTED,
            counts=counts, confident=confident,
        )  # fmt: skip

    def _not_proven(self) -> float:
        """Which share is not proven."""
        proven = self._tally.with_credit(self.frontier.open)
        return 1 - (proven.certified + proven.falsified) / self.space.total

    def _likely_undecided(self) -> float:
        left = self.frontier.open.facts["undecided"].sum() + self.frontier.tally.stuck
        left += sum(one.sums["undecided"] for one in self.frontier.shelved)
        return float(left) / self.space.total

    def _progress(self) -> str:
        return (
            f"about {100 * self._likely_undecided():.2f} % undecided, {self.frontier.tally.boxes:,} boxes bounded, "
            f"{self.frontier.count:,} open"
        )

    def _time_to_draw(self) -> float:
        return self.remainder.time_needed(self._tally, self.frontier.open, self.clock)

    def _draw(self) -> None:
        self.remainder.draw(self._tally, self.frontier.open, self.clock)

    # --- crediting ---

    @staticmethod
    def _promising(boxes: Boxes, which: np.ndarray | None = None) -> np.ndarray:
        """The boxes nobody has credited, or these: those first of which most may be proven."""
        facts = boxes.facts
        which = np.flatnonzero(np.isnan(facts["certified"])) if which is None else which
        return which[np.argsort((facts["undecided"] - facts["mass"])[which], kind="stable")]

    def _credited(self, look: Look, boxes: Boxes, batches: Sequence[np.ndarray], clock: Clock) -> None:
        """Write down what a look proves of parts of boxes, batch by batch until time is up."""
        began, done, under_way = clock.now(), 0, deque[np.ndarray]()

        def portions() -> Iterator[Portion]:
            for i, rows in enumerate(batches):
                if i and clock.is_up:
                    return
                under_way.append(rows)
                yield Portion(boxes[rows])

        for seen in self.workers.ordered(look, portions(), lambda: max(clock.left, 0.0) + GRACE):
            rows = under_way.popleft()
            self._written(boxes, rows, seen.found)
            done, spent = done + len(rows), clock.now() - began
            if spent > 0:
                self.pace = done / spent
            clock.report(self._progress)


class Remainder:
    """What is left open by a measurement, with the looks that were taken at people drawn from it.

    How many are needed for a narrow interval is foreseen from a first sample, so that neither boxes nor samples get
    time that the other would use better.
    """

    def __init__(
        self, crowd: Pool, space: Masses, sample: Sample, allowance: Allowance, workers: Workers,
        confiding: float = CONFIDING, each: float = 0.0,
    ) -> None:  # fmt: skip
        """`confiding`: the share of the time that drawing may take. `each`: seconds for a person, if known."""
        self.crowd, self.space, self.sample, self.allowance = crowd, space, sample, allowance
        self.workers, self.confiding, self.is_drawn = workers, confiding, False
        self.each, self.ready, self.paced_at = each, 0.0, np.inf if each else -np.inf
        """Seconds for a person and to get ready, as far as is known, and since when."""
        self.looks = Looks(allowance.confidence)
        self.looks.look_first(sample.first)

    def measure_pace(self, boxes: Boxes, clock: Clock) -> Draw:
        """Find out how long it takes to draw and judge people of boxes; nobody looks at those who are drawn for it."""
        count, began = max(min(self.crowd.batch, self.allowance.most_samples), 1), clock.now()
        draw, ready = self.crowd.drawn_from(boxes), clock.now()
        draw(count, np.random.default_rng(self.allowance.seed))
        self.each = max(clock.now() - ready, 0.0) / count / self.workers.jobs
        self.ready, self.paced_at = max(ready - began, 0.0), clock.spent
        return draw

    def time_needed(self, tally: Tally, boxes: Boxes, clock: Clock) -> float:
        """Seconds that the clock should leave for drawing from these open boxes."""
        if self.is_drawn or self.looks.width <= NARROW:
            return 0.0
        if self.paced_at < PACED * clock.timeout <= clock.spent and len(boxes):
            self.measure_pace(boxes, clock)
        people = self._needed(tally, boxes) + BATCHES * self.crowd.batch
        return min(SLOWER * people * self.each + MORE * self.ready, self.confiding * clock.timeout)

    def draw(self, tally: Tally, boxes: Boxes, clock: Clock) -> None:
        """Draw people of the open boxes, and look how many of them are unfair."""
        self.is_drawn = True
        if not len(boxes) or self.looks.width <= NARROW or clock.is_up:
            return
        draw = self.crowd.drawn_from(boxes) if self.paced_at == np.inf else self.measure_pace(boxes, clock)
        affordable = PLANNED * clock.left / self.each if self.each > 0 and not self.allowance.counted else np.inf
        take_looks(
            self.looks, draw, self._parts(tally, boxes),
            min(self._needed(tally, boxes), affordable), clock, self.allowance.seed,
            most=self.allowance.most_samples, together=self.crowd.batch, workers=self.workers,
        )  # fmt: skip

    def _needed(self, tally: Tally, boxes: Boxes) -> float:
        """How many people of open boxes to draw for a narrow interval, if the sample is right."""
        total = self.space.total
        open_ = float(boxes.facts["mass"].sum()) / total
        unfair = (self.sample.found + 1) / self.sample.count - tally.falsified / total
        return min(needed_samples(max(unfair, 0.0), open_, self.looks), self.allowance.most_samples)

    def _parts(self, tally: Tally, boxes: Boxes) -> Parts:
        """What is known of everybody but for the open boxes, which are drawn from; what is proven of parts of these is
        left aside.
        """
        open_, total = float(boxes.facts["mass"].sum()), self.space.total
        rounded = 2.0**-51 * (tally.boxes + len(boxes) + 1000)
        unfair, fair, drawn = (
            rounded_down(part * (1 - rounded), total) for part in (tally.falsified, tally.certified, open_)
        )
        return Parts(unfair, fair, drawn, 8 * rounded * (self.space.count + 1))
