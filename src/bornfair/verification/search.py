"""Is everybody treated as their twins are? Branch and bound over the free space, largest open boxes first.

A box is done when linear bounds prove it fair, or when its few people have been looked at one by one. Open boxes are
searched for twins who are decided differently, then cut in two. It can stop at any time and say what share is decided.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.errors import InputError
from bornfair.models.model import Model
from bornfair.models.network import Network
from bornfair.people.features import Value
from bornfair.twins.relation import Relation, twin_relation
from bornfair.twins.versions import Versions
from bornfair.verification.among import Limits, box_within, brought_inside
from bornfair.verification.boxes import Boxes, Places
from bornfair.verification.clock import Clock, Say, Timeout
from bornfair.verification.cuts import Cuts
from bornfair.verification.exact import agree, executes_exactly, inputs_of_views
from bornfair.verification.frontier import INTERRUPTED, TOO_CLOSE, Frontier
from bornfair.verification.linear import LinearBounds
from bornfair.verification.replay import exact_input, falsified, person_of, replay, versions_at
from bornfair.verification.structural import prove_structurally
from bornfair.verification.verdict import Arithmetic, Verdict, undecided

ENGINE = "bounds"
FEW = 32  # people in a box who are looked at one by one rather than cut apart
WAVE = 8  # batches, at least, between two looks at all open boxes
REPLAYS = 8  # suspected twins replayed per round
BISECTIONS = 64  # lines per batch on which the decision boundary is looked for: in the first rounds, later less often
OFTEN = 8
ROUNDING_RULES = 0.8  # share of the bounds' width from which on cutting cannot help: only real arithmetic may
WORTH_COMPILING = 120.0  # seconds allowed from which on the bounds are compiled
MOST_SEEN = 20_000  # people remembered
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
) -> Verdict:
    """Verified when every box is proven fair, falsified when replayed twins differ, undecided when time is up.

    Proofs are for float32 in any order of summation, which covers real arithmetic; where that cannot be had the verdict
    is about ("real",) alone, if `arithmetic` names it. Beyond `most_boxes` open boxes (16 bytes each per column) the
    newest are taken first, depth-first: memory stays bounded, but the decided share then grows slowly.
    `resume` names a file: the cuts are kept in it when the search stops (also by an interrupt), and made anew from it
    when it exists; nothing else in it is believed, so every box is decided again. Twins of another relation than the
    domain's cannot be replayed from raw values; if some are found, the answer is undecided and names u. `among` says
    who is asked about, if not everybody (`bornfair.verification.among`).
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
    bounds = LinearBounds(model.network, chosen, compiled=clock.timeout >= WORTH_COMPILING)
    if bounds.flaw is not None:
        return undecided(ENGINE, bounds.flaw)
    places = Places(chosen.free)
    if among is not None:
        places = Places(chosen.free, box_within(places, model.encoding, among))
    digest = _digest(model.network, chosen, wanted, places)
    cuts = Cuts(places, None if resume is None else Path(resume), digest)
    everybody = cuts.leaves(most_boxes)
    everybody = everybody.knowing(share=places.share(everybody))
    verdict = _Search(
        model, chosen, relation is None or _equal(relation, declared), wanted, batch, seed, bounds, places, cuts,
        Frontier(everybody, _Tally(), clock, most_boxes), among or {},
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


class _Outcome(IntEnum):
    """What became of a box; of the people in it, the last of these counts."""

    FAIR = 0
    FAIR_IN_REAL = 1  # but not shown in float32
    STUCK = 2  # it can neither be decided nor cut
    OPEN = 3


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
    seen: dict[frozenset[Any], tuple[Arithmetic, ...]] = field(default_factory=dict)
    """People who were looked at one by one, with all their twins, and what came of it."""

    def run(self) -> Verdict:
        frontier, clock = self.frontier, self.frontier.clock
        try:
            reason = frontier.work(self._round, self._progress)
        except KeyboardInterrupt:
            reason = INTERRUPTED
        except _Found as found:
            boxes = max(frontier.tally.boxes, 1)
            return dataclasses.replace(found.verdict, boxes=boxes, partitions=boxes, seconds=clock.spent)
        if len(frontier.open):
            self.cuts.save()
        else:
            self.cuts.discard()
        if clock.say is not None:
            clock.say(self._progress())
        return self._verdict(reason)

    def _verdict(self, stopped: str | None) -> Verdict:
        tally, open_, seconds = self.frontier.tally, self.frontier.open, self.frontier.clock.spent
        facts: dict[str, Any] = {"partitions": tally.boxes, "boxes": tally.boxes, "seconds": seconds}
        if not len(open_) and not tally.any_stuck:
            kinds: tuple[Arithmetic, ...] = ("real", "float32")
            reason = "every box is proven fair"
            if tally.real_only:
                reason += " in real arithmetic; not shown in float32 for somebody"
            if tally.real_only or self.wanted == ("real",):
                kinds = ("real",)
            return Verdict("verified", "bounds", ENGINE, kinds, reason, **facts)
        why = stopped if len(open_) else TOO_CLOSE
        left = float(open_.facts["share"].sum()) + tally.stuck
        whom = "these people" if self.among else "the domain"
        reason = (
            f"{why}: {_percent(1 - left)} of {whom} is decided, {_percent(left)} is not "
            f"({len(open_):,} open boxes after {tally.boxes:,} in {seconds:.1f} s)"
        )
        return Verdict("undecided", "none", ENGINE, (), reason, **facts)

    def _progress(self) -> str:
        tally, seconds = self.frontier.tally, self.frontier.clock.spent
        pace = tally.boxes / seconds if seconds else 0.0
        return f"{_percent(tally.decided)} decided, {len(self.frontier.open):,} boxes open, {pace:,.0f} boxes/s"

    # --- one round ---

    def _round(self) -> None:
        """Decide or cut a wave of boxes."""
        self.cuts.save(every=SAVE_EVERY)
        frontier = self.frontier
        frontier.replace(frontier.wave("share", WAVE * self.batch), self.batch, self._decide_or_cut)
        frontier.become(frontier.open, dataclasses.replace(frontier.tally, rounds=frontier.tally.rounds + 1))

    def _decide_or_cut(self, tally: _Tally, boxes: Boxes) -> tuple[_Tally, Boxes]:
        """The tally after these boxes, and what is still open of them."""
        mode: Arithmetic = "real" if tally.real_only or self.wanted == ("real",) else "float32"
        found = self.bounds.judge(*self.places.bounds(boxes), mode)
        outcome = np.where(found.fair, _Outcome.FAIR, _Outcome.OPEN)
        if mode == "float32" and "real" in self.wanted:
            thin = np.flatnonzero(~found.fair & (found.rounding > ROUNDING_RULES))
            if len(thin):
                real = self.bounds.judge(*self.places.bounds(boxes[thin]), "real").fair
                outcome[thin[real]] = _Outcome.FAIR_IN_REAL
        hard = np.flatnonzero(outcome == _Outcome.OPEN)
        small = self.places.count(boxes[hard]) <= FEW
        few, many = hard[small], hard[~small]
        self._attack(boxes[many], found.slope[many], tally)
        outcome[few] = self._look_at(boxes[few], mode)
        late = few[outcome[few] == _Outcome.OPEN]
        first, second, cuttable = self.places.cut(boxes[many], found.weight[many], found.slope[many])
        outcome[many[~cuttable]] = _Outcome.STUCK
        first, second = self.cuts.record(boxes[many[cuttable]], first, second)
        share, real_only = boxes.facts["share"], outcome == _Outcome.FAIR_IN_REAL
        tally = dataclasses.replace(
            tally,
            decided=tally.decided + float(share[outcome <= _Outcome.FAIR_IN_REAL].sum()),
            stuck=tally.stuck + float(share[outcome == _Outcome.STUCK].sum()),
            any_stuck=tally.any_stuck or bool((outcome == _Outcome.STUCK).any()),
            boxes=tally.boxes + len(boxes),
            real_only=tally.real_only or bool(real_only.any()),
        )
        halves = Boxes.joined(first, second)
        return tally, Boxes.joined(halves.knowing(share=self.places.share(halves)), boxes[late])

    def _look_at(self, boxes: Boxes, mode: Arithmetic) -> np.ndarray:
        """Everybody in small boxes, one by one: what becomes of each box. Open are those for whom time runs out."""
        outcome = np.full(len(boxes), _Outcome.FAIR)
        if not len(boxes):
            return outcome
        people, owners = self.places.everybody(boxes)
        proven, classes = self.bounds.points(self.places.values(people), mode)
        self._replay(people[_differ(classes)])
        for row in np.flatnonzero(~proven):
            box = owners[row]
            if outcome[box] >= _Outcome.STUCK:
                continue
            if self.frontier.clock.left < 0:
                outcome[box] = _Outcome.OPEN
                continue
            agreed = self._decide(people[row])
            if mode not in agreed:
                real = "real" in agreed and "real" in self.wanted
                outcome[box] = _Outcome.FAIR_IN_REAL if real else _Outcome.STUCK
        return outcome

    def _decide(self, places: np.ndarray) -> tuple[Arithmetic, ...]:
        """In which arithmetics a single person's twins are shown to agree. Raises if they do not."""
        network = self.model.network
        if not network.function.exact:
            self._replay(places[None])
            return ()
        u = self.places.values(places[None])[0]
        inputs = exact_views(self.model, self.relation, u, self.declared, self.among)
        everyone = frozenset(map(tuple, inputs))  # the same for all twins, so that they are looked at once
        if everyone not in self.seen:
            self._replay(places[None])
            once = np.array(list(everyone), dtype=object).reshape(-1, inputs.shape[1])
            alike = agree(network, once)
            exactly = alike and executes_exactly(network, once)
            if len(self.seen) >= MOST_SEEN:
                self.seen.clear()
            self.seen[everyone] = ("real", "float32") if exactly else ("real",) if alike else ()
        return self.seen[everyone]

    # --- looking for unequal twins ---

    def _attack(self, boxes: Boxes, slope: np.ndarray, tally: _Tally) -> None:
        """Corners and random people of open boxes, and people on lines between two who are decided differently."""
        if not len(boxes):
            return
        places, rng = self.places, np.random.default_rng([self.seed, tally.boxes])
        one, other = places.corner(boxes, slope), places.corner(boxes, -slope)
        target, opposite, _ = (self._suspect(people)[:, 0] for people in (one, other, places.draw(boxes, rng)))
        if tally.rounds >= OFTEN and tally.rounds % OFTEN:
            return
        crossed = np.flatnonzero(target != opposite)[:BISECTIONS]
        one, other, target = one[crossed], other[crossed], target[crossed]
        for _ in range(24 if len(crossed) else 0):
            middle = places.between(one, other)
            near = (self._suspect(middle)[:, 0] == target)[:, None]
            one, other = np.where(near, middle, one), np.where(near, other, middle)

    def _suspect(self, people: np.ndarray) -> np.ndarray:
        """Likely decisions [people, views], in plain float64. Whose twins differ is replayed."""
        decided = self.bounds.guess(self.places.values(people))
        self._replay(people[_differ(decided)])
        return decided

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
            person, known = _person(self.model, u, self.among), versions_at(self.model, u)
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


def exact_views(
    model: Model, relation: Relation, u: np.ndarray, declared: bool, among: Limits | None = None
) -> np.ndarray:
    """The network inputs of one person's twins as Fractions: from raw values where the views are versions of people
    of the domain (`declared`), and at the levels of their grids where views are bands.
    """
    if not declared:
        return inputs_of_views(relation.views, u)
    bands = any(view.radius is not None for view in relation.views)
    person, known = _person(model, u, among), Versions(model.domain) if bands else versions_at(model, u)
    versions = [i for i in (range(known.size) if bands else relation.versions) if known.within(person, i)]
    return np.stack([exact_input(model.encoding, person, i, known) for i in versions])


def _person(model: Model, u: np.ndarray, among: Limits | None) -> dict[str, Value]:
    """What all versions share of the person behind u, who is one of those asked about."""
    found = person_of(model, u)
    return brought_inside(model.domain, among, found) if among else found


def _differ(decided: np.ndarray) -> np.ndarray:
    return (decided != decided[:, :1]).any(axis=1)


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
