"""Is everybody treated as their twins are? Branch and bound over the free space, largest open boxes first.

A box is done when linear bounds prove it fair, or when its few people have been looked at one by one. Open boxes are
searched for twins who are decided differently, then cut in two. It can stop at any time and say what share is decided.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core import checkpoint
from bornfair.core.checks import whole
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.linear import LinearBounds
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.models.network.structural import prove_structurally
from bornfair.models.verdict import Arithmetic, Verdict, undecided
from bornfair.parallel import Jobs, Workers
from bornfair.people.space.among import Limits, box_within
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.twins.relation import Relation, twin_relation
from bornfair.verification.cuts import Cuts
from bornfair.verification.frontier import INTERRUPTED, TOO_CLOSE, Frontier
from bornfair.verification.looking import Looked, Looking, Outcome, Wave, person_at
from bornfair.verification.replay import falsified, replay, versions_at

ENGINE = "bounds"
ENOUGH = "enough boxes were bounded"
WAVE = 8  # batches, at least, between two looks at all open boxes
REPLAYS = 8  # suspected twins replayed per round
OFTEN = 8  # rounds in which the decision boundary is looked for on lines; later once in so many
WORTH_COMPILING = 120.0  # seconds allowed from which on the bounds are compiled
MANY_BOXES = 500_000  # the same where a number of boxes ends the search
SAVE_EVERY = 60.0  # seconds between savings of the cuts


def search(
    model: Model,
    *,
    timeout: Timeout,
    relation: Relation | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    batch: int = 512,
    most_boxes: int = 1_000_000,
    say: Say | None = None,
    resume: str | Path | None = None,
    seed: int = 0,
    among: Limits | None = None,
    stop_after: int | None = None,
    jobs: Jobs = None,
) -> Verdict:
    """Verified when every box is proven fair, falsified when replayed twins differ, undecided when time is up.

    Proofs are for float32 in any order of summation, which covers real arithmetic; where that cannot be had the verdict
    is about ("real",) alone, if `arithmetic` names it. Of more than `most_boxes` open boxes (16 bytes each per column)
    the smallest wait in files; if the disk is full too, the newest are taken first, depth-first, and the decided share
    grows slowly.
    `resume` names a file: the cuts are kept in it when the search stops (also by an interrupt), and made anew from it
    when it exists; nothing else in it is believed, so every box is decided again. Twins of another relation than the
    domain's cannot be replayed from raw values; if some are found, the answer is undecided and names u. `among` says
    who is asked about, if not everybody (`bornfair.people.space.among`). `jobs` workers look at boxes side by side;
    where it stops after so many boxes (`stop_after`), their number changes nothing.
    """
    wanted, clock = checked_arithmetic(arithmetic), Clock.of(timeout, say)
    if batch < 1 or most_boxes < 1 or not clock.timeout >= 0:
        raise InputError(f"batch, most_boxes ≥ 1 and timeout ≥ 0 are needed, found {batch}, {most_boxes}, {timeout}.")
    try:
        declared = twin_relation(model.encoding)
    except InputError as error:  # the views cannot be written down exactly
        return undecided(ENGINE, str(error).rstrip("."))
    chosen = declared if relation is None else relation
    structural = prove_structurally(model.network, chosen)
    if set(wanted) <= set(structural.arithmetic) or structural.arithmetic == ("real", "float32"):
        return structural
    long = clock.timeout >= WORTH_COMPILING if stop_after is None else stop_after >= MANY_BOXES
    bounds = LinearBounds(model.network, chosen, compiled=long)
    if bounds.flaw is not None:
        return undecided(ENGINE, bounds.flaw)
    places = Places(chosen.free)
    if among is not None:
        places = Places(chosen.free, box_within(places, model.encoding, among))
    digest = _digest(model.network, chosen, wanted, places)
    if stop_after is not None:
        whole("stop_after", stop_after, 1)
    with checkpoint.owned(resume):
        cuts = Cuts(places, None if resume is None else Path(resume), digest)
        everybody = cuts.leaves(most_boxes)
        everybody = everybody.knowing(share=places.share(everybody))
        with Workers.lent(jobs) as workers:
            frontier: Frontier[Boxes, _Tally] = Frontier(
                everybody,
                _Tally(),
                clock,
                most_boxes,
                lambda: frontier.shelve_half("share"),
                counted=stop_after is not None,
            )
            verdict = _Search(
                model, chosen, relation is None or _equal(relation, declared), wanted, batch, seed, bounds, places,
                cuts, frontier, among or {}, workers, np.inf if stop_after is None else stop_after,
            ).run()  # fmt: skip
    if structural and "real" in wanted and verdict.verdict == "undecided":  # proven in real arithmetic at least
        reason = f"{structural.reason}; in float32: {verdict.reason}"
        return dataclasses.replace(structural, reason=reason, boxes=verdict.boxes, seconds=verdict.seconds)
    return verdict


def checked_arithmetic(named: Sequence[Arithmetic]) -> tuple[Arithmetic, ...]:
    """The arithmetics a proof is asked for, if they are known."""
    wanted = tuple(named)
    if not wanted or not set(wanted) <= {"real", "float32"}:
        raise InputError(f"arithmetic must name 'real', 'float32' or both, found {list(wanted)}.")
    return wanted


class _Found(Exception):
    """Twins who are decided differently: the search is over."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


@dataclass(frozen=True)
class _Tally:
    """What became of the boxes. Shares are of the whole domain."""

    decided: float = 0.0
    stuck: float = 0.0
    any_stuck: bool = False  # whose share may be too small for a float
    boxes: int = 0
    rounds: int = 0
    real_only: bool = False  # float32 could not be shown somewhere


@dataclass(frozen=True, eq=False)
class _Search:
    model: Model
    relation: Relation
    declared: bool  # views are versions of people of the domain, so twins can be replayed from raw values
    wanted: tuple[Arithmetic, ...]
    batch: int
    seed: int
    bounds: LinearBounds
    places: Places
    cuts: Cuts
    frontier: Frontier[Boxes, _Tally]
    among: Limits
    workers: Workers
    stop_after: float

    @cached_property
    def _looking(self) -> Looking:
        """The work on boxes, which is done side by side."""
        plain = Model(self.model.network, self.model.encoding)
        return Looking(
            plain, self.relation, self.declared, self.wanted, self.seed, self.bounds, self.places, self.among,
            self.model.original is not None,
        )  # fmt: skip

    def run(self) -> Verdict:
        frontier, clock = self.frontier, self.frontier.clock
        try:
            reason = frontier.work(self._round, self._progress)
        except KeyboardInterrupt:
            reason = INTERRUPTED
        except _Found as found:
            boxes = max(frontier.tally.boxes, 1)
            return dataclasses.replace(found.verdict, boxes=boxes, partitions=boxes, seconds=clock.spent)
        if frontier.count:
            self.cuts.save()
        else:
            self.cuts.discard()
        if clock.say is not None:
            clock.say(self._progress())
        return self._verdict(reason)

    def _verdict(self, stopped: str | None) -> Verdict:
        tally, open_, seconds = self.frontier.tally, self.frontier.count, self.frontier.clock.spent
        facts: dict[str, Any] = {"partitions": tally.boxes, "boxes": tally.boxes, "seconds": seconds}
        if not open_ and not tally.any_stuck:
            kinds: tuple[Arithmetic, ...] = ("real", "float32")
            reason = "every box is proven fair"
            if tally.real_only:
                reason += " in real arithmetic; not shown in float32 for somebody"
            if tally.real_only or self.wanted == ("real",):
                kinds = ("real",)
            return Verdict("verified", "bounds", ENGINE, kinds, reason, **facts)
        why = stopped if open_ else TOO_CLOSE
        left = float(self.frontier.open.facts["share"].sum()) + tally.stuck
        left += sum(one.sums["share"] for one in self.frontier.shelved)
        whom = "these people" if self.among else "the domain"
        reason = (
            f"{why}: {_percent(1 - left)} of {whom} is decided, {_percent(left)} is not "
            f"({open_:,} open boxes after {tally.boxes:,} in {seconds:.1f} s)"
        )
        return Verdict("undecided", "none", ENGINE, (), reason, **facts)

    def _progress(self) -> str:
        tally, seconds = self.frontier.tally, self.frontier.clock.spent
        pace = tally.boxes / seconds if seconds else 0.0
        return f"{_percent(tally.decided)} decided, {self.frontier.count:,} boxes open, {pace:,.0f} boxes/s"

    # --- one round ---

    def _round(self) -> str | None:
        """Decide or cut a wave of boxes."""
        frontier = self.frontier
        tally = frontier.tally
        if tally.boxes >= self.stop_after:
            return ENOUGH
        self.cuts.save(every=SAVE_EVERY)
        mode: Arithmetic = "real" if tally.real_only or self.wanted == ("real",) else "float32"
        wave = Wave(mode, tally.boxes, tally.rounds < OFTEN or tally.rounds % OFTEN == 0)
        rows = frontier.wave("share", WAVE * self.batch, max(int(min(self.stop_after - tally.boxes, 2**62)), 1))
        frontier.replace(rows, self.batch, self._taken_in, look=self._looking, workers=self.workers, note=wave)
        frontier.become(frontier.open, dataclasses.replace(frontier.tally, rounds=frontier.tally.rounds + 1))
        return None

    def _taken_in(self, tally: _Tally, found: Looked) -> tuple[_Tally, Boxes]:
        """The tally after some boxes, and what is still open of them. Raises when twins differ."""
        for people in found.suspects:
            self._replay(people)
        boxes, outcome = found.boxes, found.outcome
        first, second = self.cuts.record(boxes[found.cut], found.first, found.second)
        share, real_only, late = boxes.facts["share"], outcome == Outcome.FAIR_IN_REAL, outcome == Outcome.OPEN
        late[found.cut] = False
        tally = dataclasses.replace(
            tally,
            decided=tally.decided + float(share[outcome <= Outcome.FAIR_IN_REAL].sum()),
            stuck=tally.stuck + float(share[outcome == Outcome.STUCK].sum()),
            any_stuck=tally.any_stuck or bool((outcome == Outcome.STUCK).any()),
            boxes=tally.boxes + len(boxes),
            real_only=tally.real_only or bool(real_only.any()),
        )
        halves = Boxes.joined(first, second)
        return tally, Boxes.joined(halves.knowing(share=self.places.share(halves)), boxes[late])

    def _replay(self, people: np.ndarray) -> None:
        """Replay suspected people; raise when twins differ in an arithmetic that was asked about."""
        for places in people[:REPLAYS]:
            if not self.declared:
                u = self.places.values(places[None])
                inputs = np.concatenate([view(u) for view in self.relation.views]).astype(np.float32)
                if len(set(self.model.network.decide(inputs).tolist())) > 1:
                    raise _Found(undecided(ENGINE, f"the views of u = {u[0].tolist()} are decided differently"))
                continue
            u = self.places.values(places[None])[0]
            person, known = person_at(self.model, u, self.among), versions_at(self.model, u)
            found = replay(self.model, person, self.relation.versions, known)
            for name in self.wanted:
                decided = found.decisions.get(name, (0,))
                if len(set(decided)) > 1:
                    other = next(i for i, d in enumerate(decided) if d != decided[0])
                    pair = found.versions[0], found.versions[other]
                    twins, reason = (
                        replay(self.model, person, pair, known),
                        "twins were found who are decided differently",
                    )
                    raise _Found(falsified(self.model, twins, engine=ENGINE, reason=reason))


def _digest(network: Network, relation: Relation, wanted: tuple[Arithmetic, ...], places: Places) -> str:
    """What the question is: cuts of one search are of no use to another."""
    parts = hashlib.sha256(f"bornfair-search/2 {wanted} {network.activation}".encode())
    free = relation.free
    arrays = [*network.tensors().values(), free.low, free.high, free.step, np.array(free.groups, str)]
    arrays += [] if places.part is None else [places.part.low, places.part.high]
    arrays += [np.array([(gap.number, gap.missing, gap.shown) for gap in free.gaps], np.float64)] if free.gaps else []
    arrays += [array for view in relation.views for array in (view.matrix, view.offset)]
    for array in arrays:
        parts.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
    return parts.hexdigest()


def _percent(share: float) -> str:
    """A share that never rounds up to all or down to nothing.

    >>> _percent(1 - 1e-9), _percent(0.5), _percent(3e-12)
    ('99.9999 %', '50.0000 %', '3e-10 %')
    >>> _percent(-2e-16), _percent(1 + 2e-16)
    ('0.0000 %', '100.0000 %')
    """
    share = min(max(share, 0.0), 1.0)  # a sum of many rounded shares may be a little beside
    if 0 < share < 1e-6:
        return f"{100 * share:.1g} %"
    return f"{np.floor(1e6 * share) / 1e4:.4f} %"


def _equal(one: Relation, other: Relation) -> bool:
    """Whether both speak of the same views in the same order."""
    return len(one.views) == len(other.views) and all(
        np.array_equal(a.offset, b.offset) and np.array_equal(a.matrix, b.matrix)
        for a, b in zip(one.views, other.views, strict=True)
    )
