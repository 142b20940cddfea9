"""Proof that a network treats everybody as their twins: branch and bound over the free space, largest boxes first.

A box is done when linear bounds prove it fair, or when its few people have been looked at one by one. Open boxes are
searched for twins who are decided differently, then cut in two. The search can stop at any time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.space.subpopulation import Limits, box_within
from bornfair.people.twins.relation import Relation, twin_relation
from bornfair.verification.frontier import ENGINE, BoxTally, Falsified, Frontier, Space, Waiting, search_boxes
from bornfair.verification.looking import Looked, Looking, Outcome, Wave, person_at
from bornfair.verification.replay import falsified, replay, versions_at

WAVE = 8  # batches, at least, between two looks at all open boxes
REPLAYS = 8  # suspected twins replayed per round
OFTEN = 8  # rounds in which the decision boundary is looked for on lines; later once in so many
WORTH_COMPILING = 120.0  # seconds allowed from which on the bounds are compiled
MANY_BOXES = 500_000  # the same where a number of boxes ends the search
SAVE_EVERY = 60.0  # seconds between savings of the cuts
NAMES = ("parents", "columns", "kept")
MOST_CUTS = 4_000_000  # kept in memory and in the file; later cuts are made anew


def search(
    model: Model,
    *,
    timeout: Timeout,
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
    grows slowly. `resume` names a file: the cuts are kept in it when the search stops (also by an interrupt), and made
    anew from it when it exists; nothing else in it is believed, so every box is decided again. `among` limits
    the people (`bornfair.people.space.subpopulation`). `jobs` workers look at boxes side by side; where it
    stops after so many boxes (`stop_after`), their number changes nothing.
    """
    wanted, clock = checked_arithmetic(arithmetic), Clock.of(timeout, say)
    if batch < 1 or most_boxes < 1 or not clock.timeout >= 0:
        raise InputError(f"batch, most_boxes ≥ 1 and timeout ≥ 0 are needed, found {batch}, {most_boxes}, {timeout}.")
    try:
        relation = twin_relation(model.encoding)
    except InputError as error:  # the views cannot be written down exactly
        return undecided(ENGINE, str(error).rstrip("."))
    structural = prove_structurally(model.network, relation)
    if set(wanted) <= set(structural.arithmetic) or structural.arithmetic == ("real", "float32"):
        return structural
    long = clock.timeout >= WORTH_COMPILING if stop_after is None else stop_after >= MANY_BOXES
    bounds = LinearBounds(model.network, relation, compiled=long)
    if bounds.flaw is not None:
        return undecided(ENGINE, bounds.flaw)
    places = Places(relation.free)
    if among is not None:
        places = Places(relation.free, box_within(places, model.encoding, among))
    digest = _digest(model.network, relation, wanted, places)
    if stop_after is not None:
        whole("stop_after", stop_after, 1)
    plain = Model(model.network, model.encoding)
    imported = model.original is not None
    look = Looking(plain, relation, wanted, seed, bounds, places, among or {}, imported)
    with checkpoint.owned(resume), Workers.lent(jobs) as workers:
        cuts = Cuts(places, None if resume is None else Path(resume), digest)
        everybody = cuts.leaves(most_boxes)
        everybody = everybody.knowing(share=places.share(everybody))
        waiting: Waiting = Frontier(
            everybody,
            BoxTally(),
            clock,
            most_boxes,
            lambda: waiting.shelve_half("share"),
            counted=stop_after is not None,
        )
        space = _Network(model, look, batch, cuts)
        verdict = search_boxes(space, waiting, np.inf if stop_after is None else stop_after, workers)
    if structural and "real" in wanted and verdict.answer == "undecided":  # proven in real arithmetic at least
        reason = f"{structural.reason}; in float32: {verdict.reason}"
        return dataclasses.replace(structural, reason=reason, boxes=verdict.boxes, seconds=verdict.seconds)
    return verdict


def checked_arithmetic(named: Sequence[Arithmetic]) -> tuple[Arithmetic, ...]:
    """The arithmetics a proof is asked for, if they are known."""
    wanted = tuple(named)
    if not wanted or not set(wanted) <= {"real", "float32"}:
        raise InputError(f"arithmetic must name 'real', 'float32' or both, found {list(wanted)}.")
    return wanted


def proven_arithmetic(model: Model, named: Sequence[Arithmetic]) -> tuple[Arithmetic, ...]:
    """The arithmetics in which something can be proven of what decides, of those that are named."""
    wanted = checked_arithmetic(named)
    if not model.covers_execution:
        wanted = tuple(kind for kind in wanted if kind == "real")
        if not wanted:
            raise InputError("of an imported model only 'real' is proven: of the network as read; ask for that.")
    return wanted


@dataclass(eq=False)
class _Network(Space):
    """The boxes of a network's free space. Cuts are recorded, so that a search can be resumed."""

    model: Model
    look: Looking
    batch: int
    cuts: Cuts
    partitions = True

    def choose(self, waiting: Waiting, most: float) -> tuple[np.ndarray, Wave]:
        self.cuts.save(every=SAVE_EVERY)
        tally = waiting.tally
        mode: Arithmetic = "real" if tally.real_only or self.look.wanted == ("real",) else "float32"
        note = Wave(mode, tally.boxes, tally.rounds < OFTEN or tally.rounds % OFTEN == 0)
        return waiting.wave("share", WAVE * self.batch, max(int(min(most, 2**62)), 1)), note

    def take(self, tally: BoxTally, found: Looked) -> tuple[BoxTally, Boxes]:
        for people in found.suspects:
            self._replay(people)
        boxes, outcome = found.boxes, found.outcome
        first, second = self.cuts.record(boxes[found.cut], found.first, found.second)
        share, late = boxes.facts["share"], outcome == Outcome.OPEN
        late[found.cut] = False
        decided, real_only = outcome <= Outcome.FAIR_IN_REAL, bool((outcome == Outcome.FAIR_IN_REAL).any())
        stuck = share[outcome == Outcome.STUCK]
        tally = tally.plus(len(boxes), float(share[decided].sum()), stuck, real_only=real_only)
        halves = Boxes.joined(first, second)
        return tally, Boxes.joined(halves.knowing(share=self.look.places.share(halves)), boxes[late])

    def _replay(self, people: np.ndarray) -> None:
        """Replay suspected people; raise when twins differ in an arithmetic that was asked about."""
        for places in people[:REPLAYS]:
            u = self.look.places.values(places[None])[0]
            person, known = person_at(self.model, u, self.look.among), versions_at(self.model, u)
            found = replay(self.model, person, self.look.relation.versions, known)
            for name in self.look.wanted:
                decided = found.decisions.get(name, (0,))
                if len(set(decided)) > 1:
                    other = next(i for i, d in enumerate(decided) if d != decided[0])
                    twins = replay(self.model, person, (found.versions[0], found.versions[other]), known)
                    reason = "twins were found who are decided differently"
                    raise Falsified(falsified(self.model, twins, engine=ENGINE, reason=reason))

    def end(self, waiting: Waiting) -> None:
        if waiting.count:
            self.cuts.save()
        else:
            self.cuts.discard()
        if waiting.clock.listener is not None:
            waiting.clock.listener(self.progress(waiting))

    def progress(self, waiting: Waiting) -> str:
        tally, seconds = waiting.tally, waiting.clock.spent
        pace = tally.boxes / seconds if seconds else 0.0
        return f"{_percent(tally.decided)} decided, {waiting.count:,} boxes open, {pace:,.0f} boxes/s"

    def verified(self, tally: BoxTally) -> Verdict:
        reason = "every box is proven fair"
        if tally.real_only:
            reason += " in real arithmetic; not shown in float32 for somebody"
        real = tally.real_only or self.look.wanted == ("real",)
        return Verdict("verified", "bounds", ENGINE, ("real",) if real else ("real", "float32"), reason)

    def left(self, why: str, waiting: Waiting) -> str:
        tally, left = waiting.tally, float(waiting.open.facts["share"].sum()) + waiting.tally.stuck
        left += sum(one.sums["share"] for one in waiting.shelved)
        whom = "these people" if self.look.among else "the domain"
        return (
            f"{why}: {_percent(1 - left)} of {whom} is decided, {_percent(left)} is not "
            f"({waiting.count:,} open boxes after {tally.boxes:,} in {waiting.clock.spent:.1f} s)"
        )


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


# --- going on after an interrupt ---


class Cuts:
    """A record of cuts, by which an interrupted search goes on. The whole is box 0; cut k makes the boxes 2k + 1 and
    2k + 2 of box `parents[k]`.

    With a `file` they are kept there, bound to the question by its digest, and taken from there if it exists. The whole
    is cut anew along them, so the boxes cover everybody whatever the file holds; each box is decided again.
    """

    def __init__(self, places: Places, file: Path | None = None, digest: str = "") -> None:
        self.places, self.file, self.digest, self.count = places, file, digest, 0
        self._saved = time.monotonic()
        width = places.free.width
        # By cut: the box that is cut, the column, and of a one-hot group the categories that the first half keeps.
        self._parts = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, (width + 7) // 8), np.uint8))]
        if file is not None and file.exists():
            self._load(file)

    def record(self, boxes: Boxes, first: Boxes, second: Boxes) -> tuple[Boxes, Boxes]:
        """The halves of boxes with numbers of their own, by which they are known when they are cut in turn."""
        number = boxes.facts["number"]
        known = np.flatnonzero(number >= 0)[: max(0, MOST_CUTS - self.count)]
        if len(known):
            column = (boxes.high[known] != first.high[known]).argmax(axis=1).astype(np.int32)
            self._parts.append((number[known], column, np.packbits(first.high[known] > 0, axis=1)))
        numbers = np.full((2, len(boxes)), -1, np.int64)
        numbers[:, known] = _halves_of(self.count + np.arange(len(known)))
        self.count += len(known)
        return first.knowing(number=numbers[0]), second.knowing(number=numbers[1])

    def leaves(self, most: int) -> Boxes:
        """The whole, cut as recorded; into no more than about `most` boxes. A cut that cannot be made is left out."""
        parents, columns, kept = self._arrays()
        cut_of = np.full(2 * self.count + 1, -1)
        cut_of[parents] = np.arange(self.count)
        boxes = self.places.root.knowing(number=np.zeros(1, np.int64))
        done: list[Boxes] = []
        while len(boxes) and sum(len(part) for part in done) + len(boxes) <= most:
            cut = cut_of[boxes.facts["number"]]
            done.append(boxes[cut < 0])
            boxes, cut = boxes[cut >= 0], cut[cut >= 0]
            chosen = np.unpackbits(kept[cut], axis=1, count=self.places.free.width) > 0
            first, second, possible = self.places.halves(boxes, columns[cut], chosen)
            done.append(boxes[~possible])
            one, other = _halves_of(cut[possible])
            boxes = Boxes.joined(first.knowing(number=one), second.knowing(number=other))
        return Boxes.joined(*done, boxes)

    def save(self, *, every: float = 0.0) -> None:
        """Write the file, if so many seconds have passed since the last time."""
        now = time.monotonic()
        if self.file is not None and now - self._saved >= every:
            self._saved = now
            tensors = dict(zip(NAMES, self._arrays(), strict=True))
            checkpoint.save(self.file, checkpoint.Saved(tensors, {}), expected=self.digest)

    def discard(self) -> None:
        """There is nothing left to go on with."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def _load(self, file: Path) -> None:
        found = checkpoint.load(file, expected=self.digest).tensors
        arrays = tuple(found[name] for name in NAMES if name in found)
        if not _fits(arrays, self._arrays(), self.places.free.width):
            raise InputError(f"'{file}' is not a search that can be resumed; delete it to start from the beginning.")
        parents, columns, kept = arrays
        self.count = len(parents)
        self._parts.append((parents, columns, kept))

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parents, columns, kept = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return parents, columns, kept


def _halves_of(cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * cut + 1, 2 * cut + 2


def _fits(found: tuple[np.ndarray, ...], blank: tuple[np.ndarray, ...], width: int) -> bool:
    """Whether arrays from a file can be cuts; whether they are sensible ones does not matter."""
    if len(found) < len(blank):
        return False
    alike = all(f.dtype == b.dtype and f.shape[1:] == b.shape[1:] for f, b in zip(found, blank, strict=True))
    if not alike or len({len(array) for array in found}) > 1:
        return False
    parents, columns, _ = found
    inside = (parents >= 0) & (parents <= 2 * len(parents)) & (columns >= 0) & (columns < width)
    return bool(inside.all())
