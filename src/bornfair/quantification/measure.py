"""Shares of the domain that a network provably treats fairly, provably does not, and that are left open.

Boxes of the free space are bounded, those with most undecided mass first. Boxes that are not decided as a whole are
cut; those still open in the end are credited with the share of their people that bounds decide. Boxes of a few people
are looked at one by one, in exact arithmetic where floating point cannot tell.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np

from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.alive import count_alive
from bornfair.models.network.bounds.backward import not_finite
from bornfair.models.network.model import Model
from bornfair.models.network.shares.few_sums import LOOKS, MOST_SUMS, prove_by_few, serves
from bornfair.models.network.shares.forms import Bounder, cheaper, judge_boxes, prove
from bornfair.models.network.shares.relaxation import MANY
from bornfair.models.network.structural import prove_structurally
from bornfair.models.verdict import Arithmetic
from bornfair.parallel import ALONE, Jobs, Workers
from bornfair.parallel.task import keep_freed_memory
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import Marginal, Variables, variables
from bornfair.people.twins.relation import band_relation, free_space, twin_relation
from bornfair.quantification.confident import Sample
from bornfair.quantification.crowds import Crowd, draw, judge_people
from bornfair.quantification.measuring import (
    Allowance,
    Measurement,
    MeasureOptions,
    Tally,
    added,
    all_certified,
    waiting,
)
from bornfair.quantification.records import Moment, Shares
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP, TOO_CLOSE, Look, Portion
from bornfair.verification.search import proven_arithmetic

FEW = 64  # people in a box who are looked at one by one rather than cut apart
SAMPLES = 200_000
MORE = 500  # times as many are drawn from open boxes, at most
SAMPLING = 0.25  # share of the time it may take
TARGETS = 8  # unfair people of the sample around whom proof is looked for first
DIVES = 80  # cuts on the way to each of them
DIVING = 0.3  # share of the time it may take
DIVED = 16  # at most one box in so many is spent on it: it proves almost nothing about how many are treated fairly
BINS = 2048  # twice as many where bounding a box costs more than crediting it:
COSTLY = 10_000  # numbers per box
SORTED = 8  # batches
TURNS = 4  # at most, in which a task cuts boxes and what comes of them before it is given others
PATIENT = 50_000  # boxes after which there is one turn more: sooner, the order of boxes counts for more
SIDE_BY_SIDE = 4  # batches of a wave, at least, whether or not several are bounded at once
PROVING = 0.85  # share of the time in which open boxes are credited, at most
PROOFS_PER_SECOND = 2_000.0  # until it has been measured
MARGIN = 1.1  # it may turn out slower; the least promising come last
AFTER_INTERRUPT = 1.2  # seconds, so that there is an answer within two
SPARE = 0.03  # share of the time that is worth going on for
SPARED = 0.01  # share of everybody that may stay without a look at parts of boxes
MOMENTS = 200  # at most, of a history
MEMORY = 2**30  # bytes of open boxes
MOST_TOGETHER = 512  # boxes bounded in one call
ALIKE = 32  # boxes where few sums tell all, in one call
EFFORT = 1.0  # for each of few sums, of looking at them, where cutting is 1: it takes longer and tells more
ROUNDED = 0.01  # share of a box that is left open when a sum's distribution is bounded in bins
LESS = 1.1  # times as much may be left open of halves; else a box is put aside as if it were
LATER = 8.0  # times less worth to look at
CROWD = 2**12  # people in a box for whom a grid is worth its while


def shares_of(
    model: Model,
    *,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    jobs: Jobs = None,
    **options: Unpack[MeasureOptions],
) -> Shares:
    """Certified, falsified and undecided share of the domain; the interval that holds the unfair share with so much
    `confidence`, from `most_samples` people of undecided boxes at most; and an estimate from `samples` people beside.

    Everybody counts the same unless `marginals` weigh the values of free features, independently of each other; `where`
    names a sub-population, if nobody else counts, as {"age": (30, 40), "job": ["nurse"]}. It stops when time is up
    (`timeout`), when at most `precision` is undecided, after `most_boxes` boxes, or when all is decided; an interrupt
    stops it too, and it says what it knows. `jobs` workers bound boxes side by side. With `most_boxes`, neither their
    number nor the time changes anything, unless the reason says that time is up. What is proven holds in all the
    arithmetics named; of an imported model that executes other sums, in real arithmetic of the network as read.
    """
    wanted = proven_arithmetic(model, arithmetic)
    allowance = Allowance.of(SAMPLES, MORE, **options)
    people = variables(model.encoding, free_space(model.encoding), marginals, where)
    owner, proof, flaw = examined(model, wanted, people)
    if flaw:
        found = Shares(0.0, 0.0, reason=flaw)
    elif owner is None:
        found = all_certified(people, proof)
    else:
        from threadpoolctl import threadpool_limits

        # So many cores as there are jobs: products this small gain nothing by more.
        with Workers.lent(jobs) as workers, threadpool_limits(1, "blas"):
            try:
                found = _measured(model, owner, proof, allowance, workers)
            except KeyboardInterrupt:  # before anything is known
                found = Shares(0.0, 0.0, reason=INTERRUPTED, interrupted=True)
    return allowance.told(found, model, wanted, where, "network")


def examined(model: Model, wanted: tuple[Arithmetic, ...], people: Variables) -> tuple[Bounder | None, str, str]:
    """What bounds the network, unless its twins cannot be listed; the proof that everybody is treated fairly, and the
    flaw for which nothing can be bounded, if there are.
    """
    try:
        relation = band_relation(model.encoding)
    except InputError:  # a proof from the structure needs no list of twins
        structural = model.structure()
        if not set(wanted) <= set(structural.arithmetic):
            raise
        return None, structural.reason, ""
    owner = Bounder(model.network, relation, people, "float32" if "float32" in wanted else "real")
    if flaw := not_finite(model.network, relation):
        return owner, "", flaw
    structural = prove_structurally(model.network, twin_relation(model.encoding))
    proven = len(relation.views) == 1 or set(wanted) <= set(structural.arithmetic)
    return owner, (structural.reason if structural else "nobody has a twin") if proven else "", ""


def _measured(model: Model, owner: Bounder, proof: str, allowance: Allowance, workers: Workers) -> Shares:
    crowd = Crowd(owner)
    sample = draw(owner, crowd, allowance.samples, allowance.rng, allowance.part(SAMPLING))
    if proof:
        return all_certified(owner.variables, proof, sample)
    keep_freed_memory()
    measurement = _NetworkMeasurement(Model(model.network, model.encoding), owner, crowd, sample, allowance, workers)
    return measurement.shares(INTERRUPTED) if sample.interrupted else measurement.run()


class _NetworkMeasurement(Measurement):
    def __init__(
        self, model: Model, owner: Bounder, crowd: Crowd, sample: Sample, allowance: Allowance, workers: Workers
    ) -> None:
        self.model, self.owner, self.variables, self.places = model, owner, owner.variables, owner.variables.places
        self.most_boxes = int(min(allowance.most_boxes, sys.maxsize))
        self.history: list[Moment] = []
        neurons = sum(owner.network.widths[1:-1])
        facts: dict[str, np.ndarray] = dict.fromkeys(("variable", "looks"), np.zeros(1, np.int64))
        facts |= {"few": np.full(1, MANY), "worth": np.full(1, self.variables.total)}
        facts["alive"] = np.packbits(np.ones((1, neurons), bool), axis=1)
        most_open = MEMORY // (16 * self.variables.free.width + 64 + neurons // 8)
        super().__init__(owner.variables, self.variables.root, facts, most_open, crowd, sample, allowance, workers)
        self.pace, self.paced_at = PROOFS_PER_SECOND, owner.together
        self.apart = owner
        self._work: Halving | None = None

    def _decide(self) -> str:
        if self.allowance.samples >= SAMPLES:
            self.remainder.measure_pace(self.frontier.open, self.clock)
        alone, halving = not self.variables.count, self._halving

        def first(tally: Tally, root: Boxes) -> tuple[Tally, Boxes]:
            return added(tally, (halving.only_person if alone else halving.bounded)(root, self.clock))

        self.frontier.replace(np.arange(1), 1, first)
        if (self.frontier.open.facts["few"] < MANY).any():
            self._reduce(np.arange(1))
        elif not alone:
            self._dive()
        while True:
            reason, spare = self._search(), SPARE * self.clock.timeout
            by_count = self.counted and reason != TIME_IS_UP
            self._credit(self.frontier.open, self.clock if by_count else self.clock.before(self._time_to_draw()))
            if self._not_credited() > SPARED:  # it was slower than foreseen; all of that would be left open
                self._credit(self.frontier.open, self.clock.before(self._time_to_draw() / 2))
            if reason == TIME_IS_UP and not self.counted and self.clock.left - self._time_to_draw() > spare:
                continue  # it was faster than foreseen
            self._draw()
            if self.counted:
                return TIME_IS_UP if self.clock.is_up else reason
            if reason != TIME_IS_UP or self.clock.left <= spare:
                return reason

    def _wind_up(self) -> None:
        self.clock.deadline = self.clock.now() + AFTER_INTERRUPT
        self.workers = self.remainder.workers = ALONE  # nobody else answers that soon
        with contextlib.suppress(KeyboardInterrupt):
            self._credit(self.frontier.open, self.clock.part(0.7))
            self._draw()

    def shares(self, reason: str) -> Shares:
        found = super().shares(reason)
        end = Moment(self.clock.spent, self.frontier.tally.boxes, found.undecided)
        return replace(found, history=(*self.history, end))

    # --- searching ---

    def _search(self) -> str:
        """Cut and bound until there is a reason to stop."""
        self.target = self.allowance.precision
        reason = self.frontier.work(self._step, self._progress, self._reserve)
        if reason is not None:
            return reason
        return TOO_CLOSE if self.frontier.tally.stuck else "everybody is decided"

    def _step(self) -> str | None:
        """Look at the open boxes with most undecided mass for what it takes, unless enough is known."""
        frontier, together = self.frontier, self.owner.together
        self._remember()
        if frontier.tally.boxes >= self.most_boxes:
            return "enough boxes were bounded"
        if self.allowance.precision > 0 and self._likely_undecided() <= self.target:
            self._credit(frontier.open, self.clock)
            if self._not_proven() <= self.allowance.precision:
                return "precise enough"
            self.target = 0.8 * self._likely_undecided()
        left = self.most_boxes - frontier.tally.boxes
        turns = min(1 + frontier.tally.boxes // PATIENT, TURNS)
        batches = max(together // 2, 1) * SIDE_BY_SIDE
        if left < 2 * turns * batches:
            turns = 1
        rows = frontier.wave("worth", batches, max(left // (2 * turns), 1))
        few, worth = (frontier.open.facts[name][rows] for name in ("few", "worth"))
        soon = (few < MANY) & ((worth >= worth.max() / 2) | (few < MANY).all())
        if soon.any():
            self._reduce(rows[soon])
        else:
            self._cut(rows[few == MANY], turns)
        if frontier.tally.boxes > 2 * self.paced_at and len(frontier.open):
            self._measure_pace()
        return None

    def _remember(self) -> None:
        """Write down how far it is, some hundred times in all."""
        seconds = self.clock.spent
        if not self.history or seconds - self.history[-1].seconds >= self.clock.timeout / MOMENTS:
            self.history.append(Moment(seconds, self.frontier.tally.boxes, self._likely_undecided()))

    def _reserve(self) -> float:
        unknown = int(np.isnan(self.frontier.open.facts["certified"]).sum())
        return min(MARGIN * unknown / self.pace, PROVING * self.clock.timeout) + self._time_to_draw()

    def _not_credited(self) -> float:
        """The share of everybody in open boxes at whose parts nobody has looked."""
        facts = self.frontier.open.facts
        return float(facts["mass"][np.isnan(facts["certified"])].sum()) / self.variables.total

    def _measure_pace(self) -> None:
        """How are open boxes best bounded, and how long does it take to credit them? A few of them tell: what is not
        credited in time is lost.
        """
        order = np.argsort(self.frontier.open.facts["undecided"], kind="stable")
        rows = order[np.unique(np.linspace(0, len(order) - 1, self.owner.together).astype(np.int64))]
        some = self.frontier.open[rows]
        self.owner = cheaper(replace(self.owner, hull=False), some)
        self._credit(some, self.clock)
        self.paced_at = max(self.frontier.tally.boxes, self.owner.together)

    def _cut(self, rows: np.ndarray, turns: int = 1) -> None:
        """Put the halves of these open boxes in their place, as far as time allows; of halves too in more turns."""
        counts = count_alive(self.frontier.open.facts["alive"][rows])
        # Boxes of a batch are bounded as if all had the most; what takes longest comes first, so that all end together.
        rows = rows[np.argsort(-counts, kind="stable")]
        batch = max(self._together(counts) // 2, 1)
        self.frontier.replace(rows, batch, added, self._reserve, self._halving, self.workers, turns)

    def _reduce(self, rows: np.ndarray) -> None:
        """Prove what can be proven of parts of these open boxes, where few sums tell all."""
        self.frontier.replace(
            rows, ALIKE, added, self._reserve, Reducing(self.apart, self._halving, BINS), self.workers
        )

    def _together(self, counts: np.ndarray) -> int:
        """How many boxes to bound in one call, where on average so many neurons are alive."""
        whole = sum(self.owner.network.widths[1:-1])
        more = whole / max(float(counts.mean()) if len(counts) else whole, 1.0) if whole else 1.0
        return min(self.owner.together << max(int(np.log2(more)), 0), MOST_TOGETHER)

    @property
    def _halving(self) -> Halving:
        """The work on boxes; another one when they are bounded in another way."""
        if self._work is None or self._work.owner is not self.owner:
            # Categories that act alike on the first lead stay together when a group is cut.
            order = self.remainder.sample.order
            self._work = Halving(self.model, self.owner, order, FEW, serves(self.apart))
        return self._work

    def _shelved(self, boxes: Boxes) -> Tally:
        self._credit(boxes, self.clock)
        return super()._shelved(boxes)

    def _dive(self) -> None:
        """Cut first around some unfair people of the sample, so that some falsified share is found early."""
        targets, frontier = self.remainder.sample.unfair[:TARGETS], self.frontier
        if self.most_boxes // DIVED < 2 * TARGETS * DIVES:
            return
        for _ in range(DIVES if len(targets) else 0):
            if self.clock.is_up or (not self.counted and self.clock.spent >= DIVING * self.clock.timeout):
                break
            inside = np.flatnonzero(self.places.holding(frontier.open, targets))
            if not len(inside):
                break
            self._cut(inside)

    # --- crediting ---

    def _credit(self, boxes: Boxes, clock: Clock) -> None:
        """Write down what bounds prove about parts of boxes, the most promising first, until time is up."""
        if not self.variables.count:
            return  # a single person has no parts
        order = self._promising(boxes)
        counts = count_alive(boxes.facts["alive"])
        together = self._together(counts[order])
        alike = SORTED * together  # among about as promising ones, those with as many neurons come together
        order = order[np.lexsort([counts[order], np.arange(len(order)) // alike])]
        batches = [order[start : start + together] for start in range(0, len(order), together)]
        look = Crediting(self.owner, BINS if self.owner.work < COSTLY else 2 * BINS)
        self._credited(look, boxes, batches, clock)


# --- the work on boxes that workers do side by side: these records say all that they need ---


@dataclass(frozen=True, eq=False)
class Halving(Look):
    """Cuts boxes in two, and bounds the halves."""

    model: Model
    owner: Bounder
    order: np.ndarray
    """What each column is likely to add to the first lead: like categories stay together when a group is cut."""
    few: int
    """People in a box who are looked at one by one rather than cut apart."""
    reducible: bool
    """Whether boxes where few sums tell all can be looked at for these."""

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        """Cut all of these boxes, and of what comes of them those with most undecided mass, as often as it is said."""
        clock, batch = Clock(portion.seconds), len(portion.boxes)
        tally, open_ = self.cut(portion.boxes, clock)
        for _ in range((portion.note or 1) - 1):
            if not len(open_) or clock.is_up:
                break
            order = np.argsort(-open_.facts["undecided"], kind="stable")
            more, parts = self.cut(open_[order[:batch]], clock)
            tally, open_ = tally + more, Boxes.joined(open_[order[batch:]], parts)
        return tally, open_

    def cut(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        halves = self.owner.variables.halves(boxes, boxes.facts["variable"], self.order, ("alive",))
        return self.bounded(halves, clock)

    def bounded(self, boxes: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """What is decided of some boxes, and what is still open."""
        variables = self.owner.variables
        mass, found = variables.mass(boxes), judge_boxes(self.owner, boxes)
        left = ~(found.certified | found.falsified) & (mass > 0)
        people = variables.places.count(boxes)
        alone = np.flatnonzero(left & (people <= self.few))
        fair, unfair, unknown = judge_people(self.model, self.owner, boxes[alone], clock)
        left[alone] = False
        stuck = left & (found.variable < 0)
        tally = Tally(
            certified=float(mass[found.certified].sum()) + fair,
            falsified=float(mass[found.falsified].sum()) + unfair,
            stuck=unknown + float(mass[stuck].sum()),
            boxes=len(boxes),
        )
        undecided = np.clip(found.likely_undecided, 1e-9, 1.0) * mass
        alive = np.packbits(found.alive, axis=1)  # which hidden neurons may be active, eight in a byte
        reducible = (found.few > 0) & (found.few <= MOST_SUMS) & (people > CROWD) & self.reducible
        few = np.where(reducible, found.few, MANY)
        worth, looks = (undecided + ROUNDED * mass) / _effort(few), np.zeros(len(boxes), np.int64)
        facts = {"variable": found.variable, "alive": alive, "few": few, "worth": worth, "looks": looks}
        return tally, waiting(boxes, mass, undecided, **facts)[left & ~stuck]

    def only_person(self, root: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """Where every feature is sensitive, all people are versions of one: there is nothing to cut."""
        fair, unfair, unknown = judge_people(self.model, self.owner, root, clock)
        return Tally(fair, unfair, unknown, boxes=1), root[np.arange(0)]


@dataclass(frozen=True, eq=False)
class Reducing(Look):
    """Proves what it can of parts of boxes where few sums tell all; what is left open of them is known then. Boxes that
    come again are looked at on finer grids, and then as halves.
    """

    owner: Bounder
    halving: Halving
    bins: int

    def look(self, portion: Portion) -> tuple[Tally, Boxes]:
        boxes, clock = portion.boxes, Clock(portion.seconds)
        finest = boxes.facts["looks"] >= LOOKS
        tally, found = Tally(boxes=len(boxes)), [self._reduced(boxes[~finest], clock)]
        for i in np.flatnonzero(finest):
            more, parts = self._halves(boxes[np.array([i])], clock)
            tally, found = tally + more, [*found, parts]
        return tally, Boxes.joined(*found)

    def _reduced(self, boxes: Boxes, clock: Clock) -> Boxes:
        if not len(boxes):
            return boxes
        facts, mass = boxes.facts, boxes.facts["mass"]
        certified, falsified, by_sums = prove_by_few(self.owner, boxes, self.bins, clock)
        undecided = np.maximum(1 - certified - falsified, 1e-9) * mass
        before = facts["undecided"] + ROUNDED * mass * np.isnan(facts["certified"])
        better = undecided < before  # what else is known, or promised by other bounds
        few = np.where(by_sums & (better | (facts["looks"] > 0)), facts["few"], MANY)
        looks = facts["looks"] + 1
        new = {"certified": certified, "falsified": falsified, "undecided": undecided}
        new = {name: np.where(better, part, facts[name]) for name, part in new.items()}
        worth = np.where(better, undecided, before) / _effort(few, looks)
        return boxes.knowing(**new, few=few, looks=looks, worth=worth)

    def _halves(self, box: Boxes, clock: Clock) -> tuple[Tally, Boxes]:
        """The halves of a box; if much more is known of the whole, it comes once again later."""
        tally, parts = self.halving.cut(box, clock)
        few = parts.facts["few"] < MANY
        parts = parts.knowing(looks=np.where(few, LOOKS - 1, 0))
        parts = Boxes.joined(parts[~few], self._reduced(parts[few], clock))
        left = parts.facts["undecided"].sum() + ROUNDED * parts.facts["mass"][np.isnan(parts.facts["certified"])].sum()
        if left + tally.stuck <= LESS * box.facts["undecided"][0] or box.facts["looks"][0] > LOOKS:
            return tally, parts
        return Tally(), box.knowing(worth=box.facts["worth"] / LATER, looks=box.facts["looks"] + 1)


def _effort(few: np.ndarray, looks: np.ndarray | int = 0) -> np.ndarray:
    """How long it takes to look at boxes, of which some were looked at for few sums before."""
    return np.where(few < MANY, EFFORT * few * 4.0**looks, 1.0)


@dataclass(frozen=True, eq=False)
class Crediting(Look):
    """Proves what it can of parts of boxes: lower bounds of the shares that are certified and falsified."""

    owner: Bounder
    bins: int

    def look(self, portion: Portion) -> tuple[np.ndarray, np.ndarray]:
        return prove(self.owner, portion.boxes, self.bins)
