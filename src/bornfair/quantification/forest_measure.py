"""How much of the domain does a forest provably treat fairly, provably not, and how much is left open?

The cells of the free features are cut into boxes, the one with most undecided people first. A box is decided as a whole
where bounds on its trees decide it, and one by one where it holds few cells. Of the others, means and variances of the
scores prove what they can (`bornfair.models.forest.shares.panel`): quick guesses of that say which boxes are cut and
where, and what is open in the end is credited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError
from bornfair.models.forest.bounds.branching import Branching
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.models.forest.shares.panel import Panel
from bornfair.models.forest.shares.weights import CellWeights
from bornfair.parallel import ALONE, Jobs, Workers
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.partition import Where
from bornfair.people.space.variables import Marginal
from bornfair.quantification.confident import NARROW, Looks, Parts, clopper_pearson, needed_samples, take_looks
from bornfair.quantification.forest_bounding import ForestCrediting, ForestHalving, write_credit
from bornfair.quantification.forest_sample import ForestSample, drawn_from, sampled, together
from bornfair.quantification.records import SURE, Estimate, Shares
from bornfair.quantification.tally import Tally, added, rounded_down, waiting
from bornfair.verification.frontier import GRACE, INTERRUPTED, TIME_IS_UP, TOO_CLOSE, Frontier, Portion

SAMPLES = 100_000
SAMPLING = 0.05  # share of the time it may take
MORE = 64  # times as many people are drawn from what is open, at most
COUNTED = 10  # the same where a number of boxes ends the measurement, and not the time
CONFIDING = 0.15  # share of the time for drawing from what is open
PLANNED = 0.9  # of the time that is left for it: the look that is planned must not come too late
MAKING = 0.4  # share of the time that may go into tables for crediting boxes; without these, boxes are only cut
BATCH = 64
TASK = 8  # boxes that are cut by one worker
FEW = 4096  # sums of one version in a box that are looked at one by one rather than cut apart
MEMORY = 2**29  # bytes of open boxes
SECONDS_EACH = 0.05  # for crediting a box, until it has been measured
PACED = 24  # open boxes when that is first done, with a few of them:
TRIED = 6
MARGIN = 1.1  # it may turn out slower


def shares_of_forest(
    model: ForestModel,
    *,
    timeout: Timeout = 60.0,
    precision: float = 0.0,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    samples: int = SAMPLES,
    most_boxes: int | None = None,
    most_samples: int | None = None,
    confidence: float = SURE,
    moments: bool = True,
    jobs: Jobs = None,
    seed: int = 0,
    say: Say | None = None,
) -> Shares:
    """Certified, falsified and undecided share of the domain; the interval that holds the unfair share with so much
    `confidence`, from `most_samples` people of undecided boxes at most; and an estimate from `samples` people beside.

    Everybody (of a sub-population, if `where` names one) counts the same unless `marginals` weigh the values of free
    features, independently of each other. What is proven holds in real arithmetic and as the forest adds up.
    moments=False leaves it at bounds on trees, which is what plain splitting of boxes does. `jobs` workers bound and
    credit boxes side by side. With `most_boxes`, neither their number nor the time changes anything, unless the reason
    says that time is up.
    """
    clock = Clock.of(timeout, say)
    if not clock.timeout >= 0 or not 0 <= precision <= 1 or samples < 1 or (most_boxes is not None and most_boxes < 1):
        raise InputError(
            "timeout ≥ 0, precision between 0 and 1, samples ≥ 1 and most_boxes ≥ 1 are needed, "
            f"found {clock.timeout}, {precision}, {samples} and {most_boxes}."
        )
    if most_samples is None:
        most_samples = (MORE if most_boxes is None else COUNTED) * samples
    if not 0 < confidence < 1 or most_samples < 0:
        raise InputError(
            f"confidence between 0 and 1 and most_samples ≥ 0 are needed, found {confidence} and {most_samples}."
        )
    model.domain.require_sensitive()
    judge = Judge.of(model, where)
    weights = CellWeights.of(judge.cells, marginals)
    part = clock.part(SAMPLING) if most_boxes is None else clock
    sample = sampled(judge, weights, samples, seed=[seed, 271828], clock=part)
    proof = judge.structure()
    if proof:
        counts = {"certified": int(weights.total), "falsified": 0, "undecided": 0} if weights.exact else None
        found = Shares(1.0, 0.0, _estimate(sample), reason=proof.reason, counts=counts)
    else:
        from threadpoolctl import threadpool_limits

        with Workers.lent(jobs) as workers, threadpool_limits(1, "blas"):
            if workers.jobs > 1:
                judge = judge.sendable
                weights = CellWeights.of(judge.cells, marginals)
            measurement = Measurement(
                judge, weights, clock, precision, most_boxes, moments=moments, seed=seed, workers=workers
            )
            found = measurement.run(sample, Looks(confidence), most_samples)
    sure = found.confident or replace(found.proven_interval, confidence=confidence)
    note = f"; {model.note}" if model.note else ""
    as_read = "" if judge.model.covers_execution else "of the forest as read, in real arithmetic: "
    reason = f"{as_read}{found.reason}{note}"
    return replace(
        found, reason=reason, arithmetic=judge.arithmetic, confident=sure, seconds=clock.spent, where=where or None
    )


class Measurement:
    """Boxes that are open, and the masses of those that are done."""

    def __init__(
        self, judge: Judge, weights: CellWeights, clock: Clock, precision: float = 0.0, most_boxes: int | None = None,
        *, moments: bool = True, seed: int = 0, workers: Workers = ALONE,
    ) -> None:  # fmt: skip
        self.judge, self.weights, self.clock, self.seed = judge, weights, clock, seed
        self.sample, self.looks, self.most_samples = ForestSample(), Looks(), 0
        self.precision, self.most_boxes = precision, float("inf") if most_boxes is None else most_boxes
        self.counted = most_boxes is not None
        time = clock.timeout if self.counted else clock.left
        moments = moments and judge.bits.outputs == 1 and Panel.seconds(judge) <= MAKING * time
        self.panel = Panel.of(judge, weights, seed) if moments else None
        self.halving, self.workers = ForestHalving(judge, weights, Branching(judge), self.panel, FEW), workers
        self.seconds_each, self.paced_at = SECONDS_EACH, PACED
        width, everybody = len(judge.sizes), np.full(1, weights.total)
        whole = np.zeros((1, width), np.int64), (judge.sizes - 1)[None]
        root = Boxes(*judge.cells.narrowed(*whole)[:2])
        root = waiting(root, everybody, everybody, feature=np.zeros(1, np.int64), cut=np.zeros(1, np.int64))
        self.frontier: Frontier[Boxes, Tally] = Frontier(
            root, Tally(), clock, MEMORY // (16 * width + 48), lambda: self.frontier.shelve_half("undecided"),
            counted=self.counted,
        )  # fmt: skip

    def run(self, sample: ForestSample, looks: Looks, most_samples: int) -> Shares:
        frontier, self.sample, self.looks, self.most_samples = self.frontier, sample, looks, most_samples
        looks.look_first(sample.first)
        try:
            reason = self._decide()
        except KeyboardInterrupt:
            reason = INTERRUPTED
        self.clock.report(lambda: f"{reason}: {self._progress()}", at_once=True)
        tally, total = frontier.tally.with_credit(frontier.open), self.weights.total
        certified, falsified, counts = tally.shares(total, self.weights.exact)
        return Shares(
            certified, falsified, _estimate(sample, certified, falsified), tally.boxes, reason=reason,
            interrupted=reason == INTERRUPTED, counts=counts, confident=looks.within(falsified, certified),
        )  # fmt: skip

    def _decide(self) -> str:
        frontier = self.frontier
        frontier.replace(np.arange(1), 1, lambda tally, root: added(tally, self.halving.bounded(root)))
        reason = frontier.work(self._step, self._progress, lambda: self._time_to_credit() + self._time_to_confide())
        if self.panel is not None and reason is not None:
            self._credit()
            if reason == TIME_IS_UP:
                refined = frontier.work(self._refine, self._progress, self._time_to_confide)
                reason = TIME_IS_UP if self.counted and refined is not None else refined
        if reason is not None:
            self._confide()
            if self.counted and self.clock.is_up:
                reason = TIME_IS_UP
        return reason or (TOO_CLOSE if frontier.tally.stuck else "everybody is decided")

    def _step(self) -> str | None:
        frontier = self.frontier
        if frontier.tally.boxes >= self.most_boxes:
            return "enough boxes were bounded"
        if self.precision > 0 and self._undecided() <= self.precision:
            return "precise enough"
        most = BATCH if self.panel is None else max(min(BATCH, len(frontier.open) // 4), 1)
        wave = frontier.wave("undecided", most, BATCH)
        frontier.replace(wave, TASK, added, look=self.halving, workers=self.workers)
        if self.panel is not None and len(frontier.open) >= self.paced_at:
            self._measure_pace()
        return None

    def _refine(self) -> str | None:
        """Cut the most undecided box, and credit what comes of it at once: else what is proven of it would be lost."""
        if self.precision > 0 and self._undecided() <= self.precision:
            return "precise enough"
        if self.frontier.tally.boxes >= self.most_boxes:
            return "enough boxes were bounded"
        worst = np.array([np.argmax(self.frontier.open.facts["undecided"])])

        def refined(tally: Tally, boxes: Boxes) -> tuple[Tally, Boxes]:
            tally, parts = added(tally, self.halving.look(Portion(boxes)))
            if len(parts):
                write_credit(parts, np.arange(len(parts)), self.crediting.look(Portion(parts)))
            return tally, parts

        self.frontier.replace(worst, 1, refined)
        return None

    def _measure_pace(self) -> None:
        """How long does it take to credit what is open? A few boxes tell: what is not credited in time is lost."""
        order = np.argsort(self.frontier.open.facts["undecided"], kind="stable")
        self._credit(order[np.unique(np.linspace(0, len(order) - 1, TRIED).astype(np.int64))])
        self.paced_at = 3 * len(self.frontier.open)

    def _undecided(self) -> float:
        """Which share is not proven."""
        proven = self.frontier.tally.with_credit(self.frontier.open)
        return 1 - (proven.certified + proven.falsified) / self.weights.total

    def _progress(self) -> str:
        left = float(self.frontier.open.facts["undecided"].sum() + self.frontier.tally.stuck) / self.weights.total
        return (
            f"about {100 * left:.2f} % undecided, {self.frontier.tally.boxes:,} boxes bounded, "
            f"{self.frontier.count:,} open"
        )

    # --- drawing from what is open ---

    def _needed(self) -> float:
        """How many people of open boxes to draw for a narrow interval, if the sample is right."""
        total = self.weights.total
        open_ = float(self.frontier.open.facts["mass"].sum()) / total
        unfair = (self.sample.unfair + 1) / max(self.sample.count, 1) - self.frontier.tally.falsified / total
        return min(needed_samples(max(unfair, 0.0), open_, self.looks), self.most_samples)

    def _time_to_confide(self) -> float:
        """Seconds to draw them in."""
        if self.looks.width <= NARROW or not self.sample.count:
            return 0.0
        return min(self._needed() * self.sample.seconds / self.sample.count, CONFIDING * self.clock.timeout)

    def _confide(self) -> None:
        """Draw people of the open boxes, and look how many of them are unfair."""
        open_, clock, tally, total = self.frontier.open, self.clock, self.frontier.tally, self.weights.total
        if not len(open_) or self.looks.width <= NARROW or clock.is_up or not self.sample.count:
            return
        rounded = 2.0**-51 * (tally.boxes + len(open_) + 1000)
        shares = (tally.falsified, tally.certified, float(open_.facts["mass"].sum()))
        unfair, fair, drawn = (rounded_down(part * (1 - rounded), total) for part in shares)
        parts = Parts(unfair, fair, drawn, 8 * rounded * (len(self.judge.sizes) + 1))
        affordable = PLANNED * clock.left * self.sample.count / max(self.sample.seconds, 1e-9)
        affordable = np.inf if self.counted else affordable
        take_looks(
            self.looks, drawn_from(self.judge, self.weights, open_), parts, min(self._needed(), affordable), clock,
            self.seed, most=max(self.most_samples, 1), together=together(self.judge),
        )  # fmt: skip

    # --- crediting ---

    @cached_property
    def crediting(self) -> ForestCrediting:
        assert self.panel is not None
        return ForestCrediting(self.panel)

    def _time_to_credit(self) -> float:
        if self.panel is None:
            return 0.0
        return MARGIN * self.seconds_each * int(np.isnan(self.frontier.open.facts["certified"]).sum())

    def _credit(self, which: np.ndarray | None = None) -> None:
        """Write down what moments prove of open boxes, those first of which most may be proven, until time is up."""
        facts = self.frontier.open.facts
        unknown = np.flatnonzero(np.isnan(facts["certified"])) if which is None else which
        order = unknown[np.argsort((facts["undecided"] - facts["mass"])[unknown], kind="stable")]
        began, under_way = self.clock.now(), deque[int]()

        def boxes() -> Iterator[Portion]:
            for i in order:
                if self.clock.is_up:
                    return
                under_way.append(int(i))
                yield Portion(self.frontier.open[np.array([i])])

        for done, seen in enumerate(
            self.workers.ordered(self.crediting, boxes(), lambda: max(self.clock.left, 0.0) + GRACE), 1
        ):
            write_credit(self.frontier.open, np.array([under_way.popleft()]), seen.found)
            self.seconds_each = (self.clock.now() - began) / done
            self.clock.report(self._progress)


def _estimate(sample: ForestSample, certified: float = 0.0, falsified: float = 0.0) -> Estimate:
    low, _ = clopper_pearson(sample.unfair, sample.count)
    _, high = clopper_pearson(sample.unfair + sample.unknown, sample.count)
    if sample.unknown:
        low, high = max(low, falsified), min(high, 1.0 - certified)
    return Estimate(min(max(sample.unfair / sample.count, low), high), low, high, sample.count)
