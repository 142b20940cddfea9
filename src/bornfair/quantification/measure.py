"""How much of the domain is provably treated fairly, provably not, and how much is left open?

Boxes of the free space are bounded, the one with most undecided mass first. A box that is not decided as a whole is
cut, and what is still open in the end is credited with the share of its people that its bounds decide. Boxes of a few
people are looked at one by one, in exact arithmetic where floating point cannot tell.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.alive import count_alive
from bornfair.models.network.bounds.backward import not_finite
from bornfair.models.network.model import Model
from bornfair.models.network.shares.few_sums import serves
from bornfair.models.network.shares.forms import Bounder, cheaper
from bornfair.models.network.shares.relaxation import MANY
from bornfair.models.network.structural import confirm_encoded, prove_structurally
from bornfair.models.verdict import Arithmetic
from bornfair.parallel import ALONE, Jobs, Workers
from bornfair.parallel.task import keep_freed_memory
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import Marginal, variables
from bornfair.people.twins.relation import Relation, band_relation, free_space, twin_relation
from bornfair.quantification.bounding import Crediting, Halving, Reducing
from bornfair.quantification.confident import Sample
from bornfair.quantification.crowds import Crowd, draw
from bornfair.quantification.measuring import Allowance, Measurement, Remainder, Tally, added, all_certified
from bornfair.quantification.records import SURE, Moment, Shares
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP, TOO_CLOSE
from bornfair.verification.search import checked_arithmetic

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


def shares_of(
    model: Model,
    *,
    relation: Relation | None = None,
    timeout: Timeout = 60.0,
    precision: float = 0.0,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    samples: int = SAMPLES,
    most_boxes: int | None = None,
    most_samples: int | None = None,
    confidence: float = SURE,
    jobs: Jobs = None,
    seed: int = 0,
    say: Say | None = None,
) -> Shares:
    """Certified, falsified and undecided share of the domain; the interval that holds the unfair share with so much
    `confidence`, from `most_samples` people of undecided boxes at most; and an estimate from `samples` people beside.

    Twins are those the domain declares, or the views of `relation`. Everybody counts the same unless `marginals` weigh
    the values of free features, independently of each other; `where` names a sub-population, if nobody else counts, as
    {"age": (30, 40), "job": ["nurse"]}. It stops when time is up, when at most `precision` is undecided, after
    `most_boxes` boxes, or when all is decided; an interrupt stops it too, and it says what it knows. `jobs`
    workers bound boxes side by side. With `most_boxes`, neither their number nor the time changes anything, unless the
    reason says that time is up. What is proven
    holds in all the arithmetics named; of an imported model that executes other sums, in real arithmetic of the network
    as read.
    """
    wanted = proven_arithmetic(model, arithmetic)
    allowance = Allowance.of(timeout, say, precision, samples, most_boxes, most_samples, confidence, seed, MORE)
    free = free_space(model.encoding) if relation is None else relation.free
    people = variables(model.encoding, free, marginals, where)
    try:
        chosen = band_relation(model.encoding) if relation is None else relation
    except InputError:  # the twins cannot be listed; a proof from the structure needs no list
        proof = confirm_encoded(model.network, model.encoding)
        if not set(wanted) <= set(proof.arithmetic):
            raise
        found = all_certified(people, proof.reason)
    else:
        owner = Bounder(model.network, chosen, people, "float32" if "float32" in wanted else "real")
        from threadpoolctl import threadpool_limits

        # So many cores as there are jobs: products this small gain nothing by more.
        with Workers.lent(jobs) as workers, threadpool_limits(1, "blas"):
            found = _NetworkMeasurement(model, owner, relation is None, wanted, allowance, workers).run()
    return allowance.told(found, model, wanted, where, "network")


def proven_arithmetic(model: Model, named: Sequence[Arithmetic]) -> tuple[Arithmetic, ...]:
    """The arithmetics in which something can be proven of what decides, of those that are named."""
    wanted = checked_arithmetic(named)
    if not model.covers_execution:
        wanted = tuple(kind for kind in wanted if kind == "real")
        if not wanted:
            raise InputError("of an imported model only 'real' is proven: of the network as read; ask for that.")
    return wanted


class _NetworkMeasurement(Measurement):
    def __init__(
        self, model: Model, owner: Bounder, declared: bool, wanted: tuple[Arithmetic, ...], allowance: Allowance,
        workers: Workers,
    ) -> None:  # fmt: skip
        self.model, self.owner, self.variables, self.places = model, owner, owner.variables, owner.variables.places
        self.declared, self.wanted = declared, wanted
        self.most_boxes = int(min(allowance.most_boxes, sys.maxsize))
        self.history: list[Moment] = []
        neurons = sum(owner.network.widths[1:-1])
        facts: dict[str, np.ndarray] = dict.fromkeys(("variable", "looks"), np.zeros(1, np.int64))
        facts |= {"few": np.full(1, MANY), "worth": np.full(1, self.variables.total)}
        facts["alive"] = np.packbits(np.ones((1, neurons), bool), axis=1)
        most_open = MEMORY // (16 * self.variables.free.width + 64 + neurons // 8)
        super().__init__(owner.variables, self.variables.root, facts, most_open, allowance, workers)
        self.pace, self.paced_at = PROOFS_PER_SECOND, owner.together
        self.apart, self.crowd = owner, Crowd(owner)
        self._work: Halving | None = None

    def run(self) -> Shares:
        flaw = not_finite(self.owner.network, self.owner.relation)
        if flaw is not None:
            return Shares(0.0, 0.0, reason=flaw)
        try:
            return self._run()
        except KeyboardInterrupt:  # before anything is known
            return Shares(0.0, 0.0, reason=INTERRUPTED, interrupted=True)

    def _run(self) -> Shares:
        owner, clock, allowance = self.owner, self.clock, self.allowance
        sample = draw(owner, self.crowd, allowance.samples, seed=allowance.seed, clock=allowance.part(SAMPLING))
        relation = twin_relation(self.model.encoding) if self.declared else owner.relation
        structural = prove_structurally(owner.network, relation)
        if len(owner.relation.views) == 1 or set(self.wanted) <= set(structural.arithmetic):
            reason = structural.reason if structural else "nobody has a twin"
            return all_certified(self.variables, reason, sample)
        keep_freed_memory()
        self.remainder = Remainder(self.crowd, self.space, sample, self.looks, allowance, self.workers)
        if sample.interrupted:
            return self._shares(sample, INTERRUPTED)
        if allowance.samples >= SAMPLES:
            self.remainder.measure_pace(self.frontier.open, clock)
        self.order = sample.order  # categories that act alike on the first lead stay together when a group is cut
        try:
            reason = self._decide(sample)
        except KeyboardInterrupt:
            reason, clock.deadline = INTERRUPTED, clock.now() + AFTER_INTERRUPT
            self.workers = self.remainder.workers = ALONE  # nobody else answers that soon
            with contextlib.suppress(KeyboardInterrupt):
                self._credit(self.frontier.open, clock.part(0.7))
                self.remainder.draw(self._tally, self.frontier.open, clock)
        clock.report(lambda: f"{reason}: {self._progress()}", at_once=True)
        return self._shares(sample, reason)

    def _decide(self, sample: Sample) -> str:
        """Bound, cut and credit boxes. Why it ended."""
        alone, halving = not self.variables.count, self._halving

        def first(tally: Tally, root: Boxes) -> tuple[Tally, Boxes]:
            return added(tally, (halving.only_person if alone else halving.bounded)(root, self.clock))

        self.frontier.replace(np.arange(1), 1, first)
        if (self.frontier.open.facts["few"] < MANY).any():
            self._reduce(np.arange(1))
        elif not alone:
            self._dive(sample)
        while True:
            reason, spare = self._search(), SPARE * self.clock.timeout
            by_count = self.counted and reason != TIME_IS_UP
            self._credit(self.frontier.open, self.clock if by_count else self.clock.before(self._time_to_draw()))
            if self._not_credited() > SPARED:  # it was slower than foreseen; all of that would be left open
                self._credit(self.frontier.open, self.clock.before(self._time_to_draw() / 2))
            if reason == TIME_IS_UP and not self.counted and self.clock.left - self._time_to_draw() > spare:
                continue  # it was faster than foreseen
            self.remainder.draw(self._tally, self.frontier.open, self.clock)
            if self.counted:
                return TIME_IS_UP if self.clock.is_up else reason
            if reason != TIME_IS_UP or self.clock.left <= spare:
                return reason

    def _shares(self, sample: Sample, reason: str) -> Shares:
        found = super()._shares(sample, reason)
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

    def _time_to_draw(self) -> float:
        return self.remainder.time_needed(self._tally, self.frontier.open, self.clock)

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
            plain = Model(self.model.network, self.model.encoding)
            self._work = Halving(plain, self.owner, self.declared, self.order, FEW, serves(self.apart))
        return self._work

    def _shelved(self, boxes: Boxes) -> Tally:
        self._credit(boxes, self.clock)
        return super()._shelved(boxes)

    def _dive(self, sample: Sample) -> None:
        """Cut first around some unfair people of the sample, so that some falsified share is found early."""
        targets, frontier = sample.unfair[:TARGETS], self.frontier
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
