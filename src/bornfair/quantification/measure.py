"""How much of the domain is provably treated fairly, provably not, and how much is left open?

Boxes of the free space are bounded, the one with most undecided mass first. A box that is not decided as a whole is
cut, and what is still open in the end is credited with the share of its people that its bounds decide. Boxes of a few
people are looked at one by one, in exact arithmetic where floating point cannot tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bornfair.errors import InputError
from bornfair.models.model import Model
from bornfair.quantification.estimate import Estimate, Sample, draw, estimated
from bornfair.quantification.forms import Bounder
from bornfair.quantification.leads import look, prove
from bornfair.quantification.points import judge_people
from bornfair.quantification.state import Open, Tally, rounded_down
from bornfair.quantification.variables import Marginal, variables
from bornfair.twins.relation import Relation, band_relation, twin_relation
from bornfair.verification.boxes import Boxes
from bornfair.verification.structural import not_finite, prove_structurally
from bornfair.verification.verdict import Arithmetic

FEW = 64  # people in a box who are looked at one by one rather than cut apart
SAMPLES = 200_000
TARGETS = 8  # unfair people of the sample around whom proof is looked for first
DIVES = 80  # cuts on the way to each of them
DIVING = 0.3  # share of the time it may take
BINS = 2048  # twice as many where bounding a box costs more than crediting it:
COSTLY = 10_000  # numbers per box
PROVING = 0.7  # share of the time in which open boxes are credited
PROOFS_PER_SECOND = 2_000.0  # until it has been measured
MARGIN = 1.05  # it may turn out slower; the least promising come last
AFTER_INTERRUPT = 2.0  # seconds
SPARE = 0.03  # share of the time that is worth going on for
TIME_IS_UP = "time is up"
MEMORY = 2**30  # bytes of open boxes


@dataclass(frozen=True)
class Shares:
    """Shares of the domain. `certified` and `falsified` are proven lower bounds; `undecided` is what is left of 1.

    People are free vectors: everything but the sensitive values. `counts`, when everybody can be counted and every box
    was decided as a whole, are the numbers behind the shares.
    """

    certified: float
    falsified: float
    estimate: dict[str, Any]
    boxes: int
    seconds: float
    reason: str
    arithmetic: tuple[Arithmetic, ...]
    interrupted: bool = False
    counts: dict[str, int] | None = None

    @property
    def undecided(self) -> float:
        return 1.0 - self.certified - self.falsified

    def to_json(self) -> dict[str, Any]:
        shares = {"certified": self.certified, "falsified": self.falsified, "undecided": self.undecided}
        return shares | {k: v for k, v in asdict(self).items() if k not in shares} | {"arithmetic": [*self.arithmetic]}


def shares_of(
    model: Model,
    *,
    relation: Relation | None = None,
    timeout: float = 60.0,
    precision: float = 0.0,
    marginals: Mapping[str, Marginal] | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    samples: int = SAMPLES,
    most_boxes: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> Shares:
    """Certified, falsified and undecided share of the domain, with an estimate from a sample beside.

    Twins are those the domain declares, or the views of `relation`. Everybody counts the same unless `marginals` weigh
    the values of free features, independently of each other. It stops when time is up, when at most `precision` is
    undecided, after `most_boxes` boxes, or when all is decided; an interrupt stops it too, and it says what it knows.
    What is proven holds in all the arithmetics named.
    """
    wanted = tuple(arithmetic)
    if not wanted or not set(wanted) <= {"real", "float32"}:
        raise InputError(f"arithmetic must name 'real', 'float32' or both, found {list(wanted)}.")
    if not timeout >= 0 or not 0 <= precision <= 1 or samples < 1 or (most_boxes is not None and most_boxes < 1):
        raise InputError(
            "timeout ≥ 0, precision between 0 and 1, samples ≥ 1 and most_boxes ≥ 1 are needed, "
            f"found {timeout}, {precision}, {samples} and {most_boxes}."
        )
    if model.original is not None or model.note:
        claimed = wanted if model.covers_execution else tuple(kind for kind in wanted if kind == "real")
        if not claimed:
            raise InputError("of an imported model only 'real' is proven: of the network as read; ask for that.")
        found = shares_of(
            replace(model, original=None, note=""), relation=relation, timeout=timeout, precision=precision,
            marginals=marginals, arithmetic=claimed, samples=samples, most_boxes=most_boxes, seed=seed, say=say,
        )  # fmt: skip
        as_read = "" if model.covers_execution else "of the network as read, in real arithmetic: "
        note = f"; {model.note}" if model.note else ""
        return replace(found, reason=f"{as_read}{found.reason}{note}")
    began = time.monotonic()
    chosen = band_relation(model.encoding) if relation is None else relation
    people = variables(model.encoding, chosen.free, marginals)
    mode: Arithmetic = "float32" if "float32" in wanted else "real"
    owner = Bounder(model.network, chosen, people, mode)
    flaw = not_finite(model.network, chosen)
    if flaw is not None:
        nobody = Estimate(0.0, 0.0, 1.0, 0)
        return Shares(0.0, 0.0, nobody.to_json(), 0, 0.0, flaw, wanted)
    try:
        sample = draw(owner, samples, seed=seed, until=began + timeout / 4)
    except KeyboardInterrupt:
        nobody = Estimate(0.0, 0.0, 1.0, 0)
        return Shares(0.0, 0.0, nobody.to_json(), 0, time.monotonic() - began, "interrupted", wanted, True)
    structural = prove_structurally(model.network, twin_relation(model.encoding) if relation is None else relation)
    if len(chosen.views) == 1 or set(wanted) <= set(structural.arithmetic):
        reason = structural.reason if structural else "nobody has a twin"
        counts = {"certified": int(people.total), "falsified": 0, "undecided": 0} if people.exact else None
        seconds = time.monotonic() - began
        return Shares(1.0, 0.0, estimated(sample).to_json(), 0, seconds, reason, wanted, counts=counts)
    _keep_freed_memory()
    run = _Run(model, owner, wanted, relation is None, precision, most_boxes, say, began, began + timeout)
    return run.run(sample)


def _keep_freed_memory() -> None:
    """Have the C library keep what NumPy's temporary arrays free, instead of asking the system for pages each time.

    glibc raises that threshold to the size of the largest block freed, up to 32 MB. Elsewhere this does nothing.
    """
    block = np.empty(31 << 20, np.uint8)
    del block


class _Run:
    def __init__(
        self, model: Model, owner: Bounder, wanted: tuple[Arithmetic, ...], flips: bool, precision: float,
        most_boxes: int | None, say: Callable[[str], None] | None, began: float, deadline: float,
    ) -> None:  # fmt: skip
        self.model, self.owner, self.variables = model, owner, owner.variables
        self.wanted, self.flips, self.precision, self.most_boxes, self.say = wanted, flips, precision, most_boxes, say
        self.began, self.deadline, self.spoke = began, deadline, began
        self.pace, self.paced_at = PROOFS_PER_SECOND, 10 * self.owner.together
        self.tally, self.interrupted = Tally(), False
        nobody = Boxes(*(np.zeros((0, self.variables.free.width)),) * 2)
        self.open = Open.of(nobody, np.zeros(0), np.zeros(0), np.zeros(0, np.int64))

    def run(self, sample: Sample) -> Shares:
        self._order = sample.order  # categories that act alike on the first lead stay together when a group is cut
        reason = "interrupted"
        try:
            if not self.variables.count:
                self._judge_the_only_person()
            else:
                self._take_in(self._bounded(self.variables.places.root))
                self._dive(sample)
            reason = self._search()
            self._credit_open()
            while reason == TIME_IS_UP and not self.interrupted and self._time_left():  # it was faster than foreseen
                reason = self._search()
                self._credit_open()
        except KeyboardInterrupt:
            self.interrupted = True
        if self.interrupted:
            reason, self.deadline = "interrupted", time.monotonic() + AFTER_INTERRUPT
            self._credit_open()
        self._speak(f"{reason}: ", force=True)
        return self._shares(self._proven(), sample, reason)

    def _judge_the_only_person(self) -> None:
        """Where every feature is sensitive, all people are versions of one: there is nothing to cut."""
        root = self.variables.places.root
        fair, unfair, unknown = judge_people(self.model, self.owner, root, self.flips, self.deadline)
        self.tally = replace(self.tally, certified=fair, falsified=unfair, stuck=unknown, boxes=1)

    def _time_left(self) -> bool:
        return time.monotonic() + SPARE * (self.deadline - self.began) < self.deadline

    def _shares(self, tally: Tally, sample: Sample, reason: str) -> Shares:
        # Whole numbers were added without error; of others, each addition may have rounded up.
        whole = self.variables.exact and not tally.credited
        down = 1.0 if whole else 1 - 2.0**-51 * (tally.boxes + 1000)
        certified, falsified = (
            rounded_down(part * down, self.variables.total) for part in (tally.certified, tally.falsified)
        )
        falsified = min(falsified, 1.0 - certified)
        counts = None
        if whole:
            fair, unfair = int(tally.certified), int(tally.falsified)
            left = int(self.variables.total) - fair - unfair
            counts = {"certified": fair, "falsified": unfair, "undecided": left}
        estimate = estimated(sample, certified, falsified).to_json()
        return Shares(
            certified, falsified, estimate, tally.boxes, time.monotonic() - self.began, reason,
            self.wanted, self.interrupted, counts,
        )  # fmt: skip

    # --- searching ---

    def _search(self) -> str:
        """Cut and bound until there is a reason to stop."""
        target = self.precision
        while len(self.open):
            if self.interrupted:
                return "interrupted"
            if self.most_boxes is not None and self.tally.boxes >= self.most_boxes:
                return "enough boxes were bounded"
            if time.monotonic() + self._time_to_prove() >= self.deadline:
                return TIME_IS_UP
            likely = float(self.open.undecided.sum() + self.tally.stuck) / self.variables.total
            if self.precision > 0 and likely <= target:
                self._credit_open()
                proven = self._proven()
                if 1 - (proven.certified + proven.falsified) / self.variables.total <= self.precision:
                    return "precise enough"
                target = 0.8 * likely
            self._speak("")
            self._round()
            if self.tally.boxes > 2 * self.paced_at:
                self._measure_pace()
        if self.tally.stuck:
            return "what is left is too close to the decision boundary to be told in this arithmetic"
        return "everybody is decided"

    def _time_to_prove(self) -> float:
        most = PROVING * (self.deadline - self.began)
        return min(MARGIN * int(np.isnan(self.open.certified).sum()) / self.pace, most)

    def _measure_pace(self) -> None:
        """How long does it take to credit what is open? A few boxes tell: what is not credited in time is lost."""
        order = np.argsort(self.open.undecided, kind="stable")
        some = order[np.unique(np.linspace(0, len(order) - 1, self.owner.together).astype(np.int64))]
        self._credited(self.open[some])
        self.paced_at = max(self.tally.boxes, 10 * self.owner.together)

    def _round(self) -> None:
        """Cut the open boxes with most undecided mass. The state is replaced as a whole: an interrupt loses no box."""
        count = len(self.open)
        wave = max(self.owner.together // 2, count // 32, 1)  # moving all open boxes must stay cheap
        if self.most_boxes is not None:
            wave = min(wave, max((self.most_boxes - self.tally.boxes) // 2, 1))
        taken = np.arange(count)
        if count > wave:
            taken = np.argpartition(self.open.undecided, count - wave)[count - wave :]
        self._replace(taken)
        if len(self.open) * (16 * self.variables.free.width + 24) > MEMORY:
            self._make_room()

    def _replace(self, taken: np.ndarray) -> None:
        """Put the halves of these open boxes in their place, as far as time allows."""
        state = self.open, self.tally
        rest = np.ones(len(self.open), bool)
        try:
            fresh = []
            step = max(self.owner.together // 2, 1)
            for start in range(0, len(taken), step):
                some = taken[start : start + step]
                if start and time.monotonic() + self._time_to_prove() >= self.deadline:
                    break
                fresh.append(self._bounded(self._halves(self.open[some])))
                rest[some] = False
            self.open = Open.joined(self.open[rest], *fresh)
        except KeyboardInterrupt:
            self.open, self.tally = state
            raise

    def _take_in(self, fresh: Open) -> None:
        self.open = Open.joined(self.open, fresh)

    def _bounded(self, boxes: Boxes) -> Open:
        """What is still open of some boxes; the rest goes to the tally."""
        parts = []
        tally = self.tally
        for start in range(0, len(boxes), self.owner.together):
            some = boxes[np.arange(start, min(start + self.owner.together, len(boxes)))]
            mass = self.variables.mass(some)
            seen = look(self.owner, some)
            certified, falsified = float(mass[seen.certified].sum()), float(mass[seen.falsified].sum())
            left = ~(seen.certified | seen.falsified) & (mass > 0)
            few = np.flatnonzero(left & (self.variables.places.count(some) <= FEW))
            fair, unfair, unknown = judge_people(self.model, self.owner, some[few], self.flips, self.deadline)
            left[few] = False
            stuck = ~self._can_be_cut(some) & left
            left &= ~stuck
            tally = replace(
                tally,
                certified=tally.certified + certified + fair,
                falsified=tally.falsified + falsified + unfair,
                stuck=tally.stuck + unknown + float(mass[stuck].sum()),
                boxes=tally.boxes + len(some),
            )
            open_share = np.clip(1 - seen.likely_certified - seen.likely_falsified, 1e-9, 1.0)
            parts.append(Open.of(some, mass, open_share * mass, seen.variable)[left])
        self.tally = tally
        return Open.joined(*parts)

    def _can_be_cut(self, boxes: Boxes) -> np.ndarray:
        places = self.variables.places
        middle = boxes.low / 2 + boxes.high / 2
        possible = np.where(places.lattice, boxes.high > boxes.low, (middle > boxes.low) & (middle < boxes.high))
        found = (possible & ~places.grouped).any(axis=1)
        for group in self.variables.groups:
            found |= boxes.high[:, group].sum(axis=1) > 1
        return found

    def _halves(self, taken: Open) -> Boxes:
        """Both halves of boxes, cut at their variable."""
        boxes, numbers = taken.boxes, self.variables.numbers
        low, high = Boxes(boxes.low.copy(), boxes.high.copy()), Boxes(boxes.low.copy(), boxes.high.copy())
        for variable in np.unique(taken.variable[taken.variable < len(numbers)]):
            rows, at = np.flatnonzero(taken.variable == variable), numbers[variable]
            place = self.variables.cut(int(variable), boxes.low[rows, at], boxes.high[rows, at])
            low.high[rows, at] = place
            high.low[rows, at] = place + self.variables.places.lattice[at]
        for row in np.flatnonzero(taken.variable >= len(numbers)):
            group = self.variables.groups[int(taken.variable[row]) - len(numbers)]
            members = group.start + np.flatnonzero(boxes.high[row, group])
            members = members[np.argsort(self._order[members], kind="stable")]
            half = len(members) // 2
            low.high[row, members[half:]] = 0
            high.high[row, members[:half]] = 0
        return Boxes.joined(low, high)

    def _make_room(self) -> None:
        """Credit the half with least undecided mass, and forget it."""
        order = np.argsort(self.open.undecided, kind="stable")
        light = order[: len(order) // 2]
        certified, falsified = self._credited(self.open[light]).credit()
        # In this order: an interrupt in between may forget what was credited, but must not count it twice.
        self.open = self.open[order[len(order) // 2 :]]
        self.tally = _with(self.tally, certified, falsified)

    # --- towards people who are known to be treated unfairly ---

    def _dive(self, sample: Sample) -> None:
        """Cut first around some unfair people of the sample, so that some falsified share is found early."""
        targets = sample.unfair[:TARGETS]
        for _ in range(DIVES if len(targets) else 0):
            if not len(self.open) or time.monotonic() >= self.began + DIVING * (self.deadline - self.began):
                break
            if self.most_boxes is not None and self.tally.boxes + 2 * TARGETS > self.most_boxes // 4:
                break
            inside = self._holding(targets)
            if not len(inside):
                break
            self._replace(inside)

    def _holding(self, targets: np.ndarray) -> np.ndarray:
        """Open boxes that hold one of the targets."""
        boxes, grouped = self.open.boxes, self.variables.places.grouped
        found = np.zeros(len(boxes), bool)
        for target in targets:
            within = np.where(grouped, boxes.high >= target, (boxes.low <= target) & (target <= boxes.high))
            found |= within.all(axis=1)
        return np.flatnonzero(found)

    # --- crediting ---

    def _proven(self) -> Tally:
        """The tally with what is proven of open boxes."""
        return _with(self.tally, *self.open.credit())

    def _credit_open(self) -> None:
        self.open = self._credited(self.open)

    def _credited(self, some: Open) -> Open:
        """Open boxes with what bounds prove about parts of them, the most promising first, until time is up."""
        unknown = np.flatnonzero(np.isnan(some.certified))
        order = unknown[np.argsort((some.undecided - some.mass)[unknown], kind="stable")]
        began = time.monotonic()
        certified, falsified = some.certified.copy(), some.falsified.copy()
        for start in range(0, len(order), self.owner.together):
            if start and time.monotonic() >= self.deadline:
                break
            rows = order[start : start + self.owner.together]
            try:
                sure, unfair = prove(self.owner, some.boxes[rows], BINS if self.owner.work < COSTLY else 2 * BINS)
            except KeyboardInterrupt:
                self.interrupted = True
                break
            certified[rows], falsified[rows] = sure, unfair
            spent = time.monotonic() - began
            if spent > 0:
                self.pace = (start + len(rows)) / spent
        return replace(some, certified=certified, falsified=falsified)

    # --- telling ---

    def _speak(self, before: str, force: bool = False) -> None:
        now = time.monotonic()
        if self.say is None or (now - self.spoke < 1 and not force):
            return
        self.spoke = now
        likely = float(self.open.undecided.sum() + self.tally.stuck) / self.variables.total
        left = max(self.deadline - now, 0.0)
        self.say(
            f"{before}about {100 * likely:.2f} % undecided, {self.tally.boxes:,} boxes bounded, "
            f"{len(self.open):,} open, at most {left:.0f} s left"
        )


def _with(tally: Tally, certified: float, falsified: float) -> Tally:
    """A tally with what was proven of parts of boxes."""
    return replace(
        tally,
        certified=tally.certified + certified,
        falsified=tally.falsified + falsified,
        credited=tally.credited + certified + falsified,
    )
