"""Is everybody treated as their twins are? Branch and bound over the free space, largest open boxes first.

A box is done when linear bounds prove it fair, or when its few people have been looked at one by one. Open boxes are
searched for twins who are decided differently, then cut in two. It can stop at any time and say what share is decided.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.errors import InputError
from bornfair.models.model import Model
from bornfair.people.features import Value
from bornfair.twins.relation import Relation, twin_relation
from bornfair.twins.versions import Versions
from bornfair.verification.boxes import Boxes, Places
from bornfair.verification.cuts import Cuts, State
from bornfair.verification.exact import agree, executes_exactly, inputs_of_views
from bornfair.verification.linear import LinearBounds
from bornfair.verification.replay import Replay, exact_input, falsified, person_of, replay, versions_at
from bornfair.verification.structural import prove_structurally, undecided
from bornfair.verification.verdict import Arithmetic, Verdict

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
    timeout: float,
    relation: Relation | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    batch: int = 512,
    most_boxes: int = 1_000_000,
    say: Callable[[str], None] | None = None,
    resume: str | Path | None = None,
    seed: int = 0,
) -> Verdict:
    """Verified when every box is proven fair, falsified when replayed twins differ, undecided when time is up.

    Proofs are for float32 in any order of summation, which covers real arithmetic; where that cannot be had the verdict
    is about ("real",) alone, if `arithmetic` names it. Beyond `most_boxes` open boxes (16 bytes each per column) the
    newest are taken first, depth-first: memory stays bounded, but the decided share then grows slowly.
    `resume` names a file: the cuts are kept in it when the search stops (also by an interrupt), and made anew from it
    when it exists; nothing else in it is believed, so every box is decided again. Twins of another relation than the
    domain's cannot be replayed from raw values; if some are found, the answer is undecided and names u.
    """
    wanted = tuple(arithmetic)
    if not wanted or not set(wanted) <= {"real", "float32"}:
        raise InputError(f"arithmetic must name 'real', 'float32' or both, found {list(wanted)}.")
    if batch < 1 or most_boxes < 1 or not timeout >= 0:
        raise InputError(f"batch, most_boxes ≥ 1 and timeout ≥ 0 are needed, found {batch}, {most_boxes}, {timeout}.")
    try:
        declared = twin_relation(model.encoding)
    except InputError as error:  # the views cannot be written down exactly
        return undecided(ENGINE, str(error).rstrip("."))
    chosen = declared if relation is None else relation
    structural = prove_structurally(model.network, chosen)
    if set(wanted) <= set(structural.arithmetic) or structural.arithmetic == ("real", "float32"):
        return structural
    verdict = _Search(
        model, chosen, relation is None or _equal(relation, declared), wanted, batch, most_boxes, say, seed,
        LinearBounds(model.network, chosen, compiled=timeout >= WORTH_COMPILING), Places(chosen.free),
    ).run(timeout, None if resume is None else Path(resume))  # fmt: skip
    if structural and "real" in wanted and verdict.verdict == "undecided":  # proven in real arithmetic at least
        reason = f"{structural.reason}; in float32: {verdict.reason}"
        return dataclasses.replace(structural, reason=reason, boxes=verdict.boxes, seconds=verdict.seconds)
    return verdict


class _Found(Exception):
    """Twins who are decided differently: the search is over."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


@dataclass(frozen=True, eq=False)
class _Search:
    model: Model
    relation: Relation
    declared: bool  # views are versions of people of the domain, so twins can be replayed from raw values
    wanted: tuple[Arithmetic, ...]
    batch: int
    most_boxes: int
    say: Callable[[str], None] | None
    seed: int
    bounds: LinearBounds
    places: Places
    seen: dict[frozenset[Any], tuple[Arithmetic, ...]] = field(default_factory=dict)
    """People who were looked at one by one, with all their twins, and what came of it."""

    def run(self, timeout: float, file: Path | None) -> Verdict:
        if self.bounds.flaw is not None:
            return undecided(ENGINE, self.bounds.flaw)
        began = spoke = saved = time.monotonic()
        digest = self._digest()
        cuts = Cuts.load(file, digest, self.places) if file is not None and file.exists() else Cuts(self.places)
        everybody = cuts.leaves(self.most_boxes)
        state, why = State(everybody, self.places.share(everybody), cuts), "time is up"
        try:
            while len(state.open):
                now = time.monotonic()
                if now - began >= timeout:
                    break
                if self.say is not None and now - spoke >= 1:
                    spoke = now
                    self.say(f"{_progress(state)}, at most {timeout - (now - began):.0f} s left")
                if file is not None and now - saved >= SAVE_EVERY:
                    saved = now
                    cuts.save(file, digest)
                state = self._round(state, began + timeout)
                state = dataclasses.replace(state, seconds=time.monotonic() - began)
        except KeyboardInterrupt:
            why = "interrupted"
        except _Found as found:
            seconds = time.monotonic() - began
            boxes = max(state.boxes, 1)
            return dataclasses.replace(found.verdict, boxes=boxes, partitions=boxes, seconds=seconds)
        if file is not None and len(state.open):
            cuts.save(file, digest)
        elif file is not None:
            file.unlink(missing_ok=True)  # nothing is left to go on with
        if self.say is not None:
            self.say(_progress(state))
        return self._verdict(state, why)

    def _verdict(self, state: State, why: str) -> Verdict:
        facts: dict[str, Any] = {"partitions": state.boxes, "boxes": state.boxes, "seconds": state.seconds}
        if not len(state.open) and not state.stuck:
            if state.real_only or self.wanted == ("real",):
                reason = "every box is proven fair in real arithmetic; not shown in float32 for somebody"
                reason = reason if state.real_only else "every box is proven fair"
                return Verdict("verified", "bounds", ENGINE, ("real",), reason, **facts)
            return Verdict("verified", "bounds", ENGINE, ("real", "float32"), "every box is proven fair", **facts)
        if not len(state.open):
            why = "what is left is too close to the decision boundary to be told in this arithmetic"
        left = float(state.share.sum()) + state.stuck
        reason = (
            f"{why}: {_percent(1 - left)} of the domain is decided, {_percent(left)} is not "
            f"({len(state.open):,} open boxes after {state.boxes:,} in {state.seconds:.1f} s)"
        )
        return Verdict("undecided", "none", ENGINE, (), reason, **facts)

    # --- one round ---

    def _round(self, state: State, deadline: float) -> State:
        """Decide or cut a wave of boxes; the state is replaced as a whole, so an interrupt loses one wave at most."""
        count = len(state.open)
        wave = max(WAVE * self.batch, count // 32)  # moving all open boxes must stay cheap beside bounding some
        if count <= wave:
            taken = np.arange(count)
        elif count > self.most_boxes:
            taken = np.arange(count - wave, count)
        else:
            taken = np.argpartition(state.share, count - wave)[count - wave :]
        rest = np.ones(count, bool)
        rest[taken] = False
        parts, done = [state.open[rest]], state
        for start in range(0, len(taken), self.batch):
            some = taken[start : start + self.batch]
            if start and time.monotonic() >= deadline:
                parts.append(state.open[taken[start:]])
                break
            done, fresh = self._decide_or_cut(done, state.open[some], state.share[some], deadline)
            parts.append(fresh)
        fresh = Boxes.joined(*parts[1:])
        share = np.concatenate([state.share[rest], self.places.share(fresh)])
        return dataclasses.replace(done, open=Boxes.joined(parts[0], fresh), share=share, rounds=state.rounds + 1)

    def _decide_or_cut(self, state: State, boxes: Boxes, share: np.ndarray, deadline: float) -> tuple[State, Boxes]:
        """The counters after these boxes, and what is still open of them."""
        mode: Arithmetic = "real" if state.real_only or self.wanted == ("real",) else "float32"
        found = self.bounds.judge(*self.places.bounds(boxes), mode)
        fair, real_only = found.fair.copy(), np.zeros(len(boxes), bool)
        if mode == "float32" and "real" in self.wanted:
            thin = np.flatnonzero(~fair & (found.rounding > ROUNDING_RULES))
            if len(thin):
                real_only[thin] = self.bounds.judge(*self.places.bounds(boxes[thin]), "real").fair
        hard = np.flatnonzero(~fair & ~real_only)
        small = self.places.count(boxes[hard]) <= FEW
        few, many = hard[small], hard[~small]
        self._attack(boxes[many], found.slope[many], state)
        looked_at, exactly, late = self._look_at(boxes[few], mode, deadline)
        fair[few[looked_at]] = True
        real_only[few[exactly]] = True
        first, second, cuttable = self.places.cut(boxes[many], found.weight[many], found.slope[many])
        first, second = state.cuts.record(boxes[many[cuttable]], first, second)
        stuck = np.concatenate([few[~(looked_at | exactly | late)], many[~cuttable]])
        done = dataclasses.replace(
            state,
            decided=state.decided + float(share[fair | real_only].sum()),
            stuck=state.stuck + float(share[stuck].sum()),
            boxes=state.boxes + len(boxes),
            real_only=state.real_only or bool(real_only.any()),
        )
        return done, Boxes.joined(first, second, boxes[few[late]])

    def _look_at(self, boxes: Boxes, mode: Arithmetic, deadline: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Everybody in small boxes, one by one: which boxes are fair, fair in real arithmetic only, or not yet done."""
        fair, exactly, late = np.ones(len(boxes), bool), np.zeros(len(boxes), bool), np.zeros(len(boxes), bool)
        if not len(boxes):
            return fair, exactly, late
        people, owners = self.places.everybody(boxes)
        proven, classes = self.bounds.points(self.places.values(people), mode)
        self._replay(people[(classes != classes[:, :1]).any(axis=1)])
        stuck = np.zeros(len(boxes), bool)
        for row in np.flatnonzero(~proven):
            box = owners[row]
            if stuck[box] or late[box]:
                continue
            if time.monotonic() > deadline:
                late[box] = True
                continue
            shown = self._decide(people[row])
            if mode == "float32" and "float32" in shown:
                continue
            fair[box] &= mode == "real" and "real" in shown
            exactly[box] = "real" in shown and "real" in self.wanted
            stuck[box] = not ("real" in shown and "real" in self.wanted)
        fair &= ~(stuck | late)
        exactly &= ~(fair | stuck | late)
        return fair, exactly, late

    def _decide(self, places: np.ndarray) -> tuple[Arithmetic, ...]:
        """In which arithmetics a single person's twins are shown to agree. Raises if they do not."""
        network = self.model.network
        if not network.function.exact:
            self._replay(places[None])
            return ()
        if self.declared:
            person, known = self._person(places)
            versions = [i for i in self.relation.versions if known.within(person, i)]
            inputs = np.stack([exact_input(self.model.encoding, person, i, known) for i in versions])
        else:
            inputs = inputs_of_views(self.relation.views, self.places.values(places[None])[0])
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

    def _attack(self, boxes: Boxes, slope: np.ndarray, state: State) -> None:
        """Corners and random people of open boxes, and people on lines between two who are decided differently."""
        if not len(boxes):
            return
        places, rng = self.places, np.random.default_rng([self.seed, state.boxes])
        tried = [places.corner(boxes, slope), places.corner(boxes, -slope), places.draw(boxes, rng)]
        classes = [self._classes(people) for people in tried]
        for people, decided in zip(tried, classes, strict=True):
            self._replay(people[(decided != decided[:, :1]).any(axis=1)])
        if state.rounds >= OFTEN and state.rounds % OFTEN:
            return
        crossed = np.flatnonzero(classes[0][:, 0] != classes[1][:, 0])[:BISECTIONS]
        one, other, target = tried[0][crossed], tried[1][crossed], classes[0][crossed, 0]
        for _ in range(24 if len(crossed) else 0):
            middle = places.between(one, other)
            decided = self._classes(middle)
            self._replay(middle[(decided != decided[:, :1]).any(axis=1)])
            near = (decided[:, 0] == target)[:, None]
            one, other = np.where(near, middle, one), np.where(near, other, middle)

    def _classes(self, people: np.ndarray) -> np.ndarray:
        """Likely decisions [people, views], in plain float64."""
        return self.bounds.guess(self.places.values(people))

    def _replay(self, people: np.ndarray) -> None:
        """Replay suspected people; raise when twins differ in an arithmetic that was asked about."""
        for places in people[:REPLAYS]:
            if not self.declared:
                u = self.places.values(places[None])
                inputs = np.concatenate([view(u) for view in self.relation.views]).astype(np.float32)
                if len(set(self.model.network.decide(inputs).tolist())) > 1:
                    raise _Found(undecided(ENGINE, f"the views of u = {u[0].tolist()} are decided differently"))
                continue
            person, known = self._person(places)
            found = replay(self.model, person, self.relation.versions, known)
            for name in self.wanted:
                decided = found.decisions.get(name, (0,))
                if len(set(decided)) > 1:
                    other = next(i for i, d in enumerate(decided) if d != decided[0])
                    pair = found.versions[0], found.versions[other]
                    raise _Found(self._falsified(replay(self.model, person, pair, known)))

    def _person(self, places: np.ndarray) -> tuple[dict[str, Value], Versions]:
        """Who is in a place, and which versions the views show of them."""
        u = self.places.values(places[None])[0]
        return person_of(self.model, u), versions_at(self.model, u)

    def _falsified(self, twins: Replay) -> Verdict:
        return falsified(self.model, twins, engine=ENGINE, reason="twins were found who are decided differently")

    # --- stopping and going on ---

    def _digest(self) -> str:
        """What the question is."""
        parts = hashlib.sha256(f"bornfair-search/2 {self.wanted} {self.model.network.activation}".encode())
        free = self.relation.free
        arrays = [*self.model.network.tensors().values(), free.low, free.high, free.step, np.array(free.groups, str)]
        arrays += [array for view in self.relation.views for array in (view.matrix, view.offset)]
        for array in arrays:
            parts.update(f"{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        return parts.hexdigest()


def _progress(state: State) -> str:
    pace = state.boxes / state.seconds if state.seconds else 0.0
    return f"{_percent(state.decided)} decided, {len(state.open):,} boxes open, {pace:,.0f} boxes/s"


def _percent(share: float) -> str:
    """A share that never rounds up to all or down to nothing.

    >>> _percent(1 - 1e-9), _percent(0.5), _percent(3e-12)
    ('99.9999 %', '50.0000 %', '3e-10 %')
    """
    if 0 < share < 1e-6:
        return f"{100 * share:.1g} %"
    return f"{np.floor(1e6 * share) / 1e4:.4f} %"


def _equal(one: Relation, other: Relation) -> bool:
    """Whether both speak of the same views in the same order."""
    return len(one.views) == len(other.views) and all(
        np.array_equal(a.offset, b.offset) and np.array_equal(a.matrix, b.matrix)
        for a, b in zip(one.views, other.views, strict=True)
    )
