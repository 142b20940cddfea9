"""Search of a forest for twins who are decided differently: an attack, and a search over boxes of cells.

Whoever's margins run from L to H over their versions is unfair if L ≤ 0 < H (of K classes, margins are the leads of one
class over the best other one). The stages of the attack lower max(L, −H) over the cells that the forest tells apart.
The search cuts boxes of cells until all are decided. Boxes in which no version can be told from another, or all
versions surely get one class, are done; the others are looked at in their middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import plain_level
from bornfair.models.forest.bounds.judge import Branching, Judge, halves, told_apart
from bornfair.models.verdict import Verdict
from bornfair.people.features import NUMERIC, Value
from bornfair.people.space.boxes import Boxes
from bornfair.people.tables import as_pandas
from bornfair.verification.attack import Attack, Tried, attack
from bornfair.verification.frontier import ENGINE, BoxTally, Falsified, Frontier, Space, Waiting, search_boxes
from bornfair.verification.replay import Replay, falsified, replay

FIRST = 2048  # people looked at together
MOST_ROWS = 1 << 16
CLIMBERS = 32
TRIALS = 64  # cells tried for each of them in one step
STEPS = 60
REPLAYED = 8  # of those found together
SUMS = 1 << 21  # words of bits looked at between two looks at the clock
BATCH = 256
MEMORY = 2**29  # bytes of open boxes


def find_forest_twins(judge: Judge, *, table: Any = None, seconds: Timeout = 5.0, seed: int = 0) -> Attack:
    """Search for twins whom the forest decides differently, replayed by its original where there is one."""
    rows = None if table is None else as_pandas(table)

    def replayed(batch: _Batch) -> Replay | None:
        unfair = np.flatnonzero(told_apart(batch.decided))
        order = unfair[np.argsort(worth(batch.margins[unfair]), kind="stable")][:REPLAYED]
        shown = (shown_twins(judge, batch.people[i], batch.decided[i], batch.row(int(i))) for i in order)
        return next((twins for twins in shown if twins is not None), None)

    def looked_at() -> Iterator[_Batch]:
        for how, points, some in _batches(judge, rows, seed):
            decided, margins = judge.decided(points)
            yield _Batch(how, points, decided.size, decided, margins, some)

    return attack(looked_at(), replayed, Clock.of(seconds))


@dataclass(frozen=True, eq=False)
class _Batch(Tried):
    """People given by their cells, how they are decided, and the rows of a table that they are from."""

    decided: np.ndarray
    margins: np.ndarray
    rows: pd.DataFrame | None

    def row(self, i: int) -> Any:
        return None if self.rows is None else self.rows.iloc[i]


def worth(margins: np.ndarray) -> np.ndarray:
    """max(L, −H) of people [people, versions, outputs]: below 0, or L = 0 < H, for the unfair."""
    if margins.shape[2] > 1:
        ranked = np.sort(margins, axis=2)
        others = np.where(margins == ranked[..., -1:], ranked[..., -2:-1], ranked[..., -1:])
        margins = margins - others
    return np.maximum(margins.min(axis=1), -margins.max(axis=1)).min(axis=1)


def _batches(judge: Judge, table: Any, seed: int) -> Iterator[tuple[str, np.ndarray, Any]]:
    cells, random = judge.cells, np.random.default_rng([seed, 17])
    width, together = len(cells.free), int(np.clip(SUMS // judge.words, 16, FIRST))
    if table is not None and all(name in table.columns for name in cells.domain.free_names):
        rows = table if len(table) <= MOST_ROWS else table.sample(MOST_ROWS, random_state=seed)
        for begin in range(0, len(rows), together):
            some = rows.iloc[begin : begin + together]
            places = cells.place(some)
            inside = (places >= 0).all(axis=1) & cells.within(np.maximum(places, 0))
            if inside.any():
                yield "rows of the table", places[inside], some[inside]
    if not width:
        yield "the only person", np.zeros((1, 0), np.int64), None
        return
    best, score = np.zeros((0, width), np.int64), np.zeros(0)
    for i in range(2):
        for by_cells in (False, True):
            if by_cells:
                points = _cells_at_random(judge, together, random)
            else:
                points = cells.place(cells.domain.sample(FIRST, seed=seed + i))[:together]
            points = points[cells.within(points)]
            if not len(points):
                continue
            yield "people at random", points, None
            best = np.concatenate([best, points])
            score = np.concatenate([score, worth(judge.bounds(points, points).low)])
            best, score = _fittest(best, score)
    step = 0
    while True:
        step += 1
        if step % STEPS == 0:  # others may get further
            fresh = _cells_at_random(judge, CLIMBERS, random)
            half = CLIMBERS // 2
            best = np.concatenate([best[:half], fresh])
            score = np.concatenate([score[:half], worth(judge.bounds(fresh, fresh).low)])
        trials = np.repeat(best, max(min(TRIALS, together // max(len(best), 1)), 1), axis=0)
        for _ in range(1 + step % 3):  # one, two or three features at once
            feature = random.integers(width, size=len(trials))
            trials[np.arange(len(trials)), feature] = _random_cells(judge, feature, random)
        yield "a climb over cells", trials, None
        best = np.concatenate([best, trials])
        score = np.concatenate([score, worth(judge.bounds(trials, trials).low)])
        best, score = _fittest(best, score)


def _fittest(points: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points, first = np.unique(points, axis=0, return_index=True)
    score = score[first]
    order = np.argsort(score, kind="stable")[:CLIMBERS]
    return points[order], score[order]


def _cells_at_random(judge: Judge, count: int, random: np.random.Generator) -> np.ndarray:
    features = np.tile(np.arange(len(judge.sizes)), (count, 1))
    return _random_cells(judge, features, random)


def _random_cells(judge: Judge, features: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A cell of each of these free features, of those that people who are asked about have."""
    if not judge.cells.where:
        return random.integers(judge.sizes[features])
    places = [np.flatnonzero(inside) for inside in judge.cells.inside]
    chosen = random.integers(np.array([len(part) for part in places])[features])
    offset = np.cumsum([0, *(len(part) for part in places)])[:-1]
    return np.concatenate(places)[offset[features] + chosen]


# --- twins to show ---


def shown_twins(judge: Judge, point: np.ndarray, decided: np.ndarray, row: Any = None) -> Replay | None:
    """A pair of versions that are decided differently, replayed; few attributes apart, and the person's own if they
    are in a table.
    """
    versions = judge.cells.twins.versions
    person = judge.cells.person(point, short=True) if row is None else _raw(judge, row)
    pair = _pair(judge, decided, row)
    found = replay(judge.model, person, pair, versions)
    if not found.unfair_in and row is None:
        found = replay(judge.model, judge.cells.person(point), pair, versions)
    return found if found.unfair_in else None


def _pair(judge: Judge, decided: np.ndarray, row: Any) -> tuple[int, int]:
    levels = judge.cells.twins.versions.levels
    known = np.flatnonzero(decided >= 0)
    (own,), (given,) = ((0,), (False,)) if row is None else judge.cells.own(pd.DataFrame([row]))
    if given and own in known and (decided[known] != decided[own]).any():
        others = known[decided[known] != decided[own]]
        return int(own), int(others[np.argmin((levels[others] != levels[own]).sum(axis=1))])
    first = known[0]
    others = known[decided[known] != decided[first]]
    apart = (levels[known][:, None] != levels[others][None]).sum(axis=2)
    apart = np.where(decided[known][:, None] == decided[others][None], levels.shape[1] + 1, apart)
    one, other = np.unravel_index(np.argmin(apart), apart.shape)
    return int(known[one]), int(others[other])


def _raw(judge: Judge, row: Any) -> dict[str, Value]:
    found: dict[str, Any] = {}
    for position in judge.cells.free:
        feature = judge.cells.features[position].feature
        value = plain_level(row[feature.name])
        if value is None:
            found[feature.name] = None
        elif isinstance(feature, NUMERIC):
            found[feature.name] = int(value) if feature.kind == "integer" else float(value)
        else:
            found[feature.name] = next(level for level in feature.levels() if level == value)
    return found


# --- boxes of cells ---


def search_forest(judge: Judge, *, timeout: Timeout = 60.0, most_boxes: float = float("inf")) -> Verdict:
    """Verified, falsified with twins, or undecided with the share that is decided, of the people the judge knows."""
    width = len(judge.sizes)
    root = Boxes(np.zeros((1, width), np.int64), (judge.sizes - 1)[None])
    root = root.knowing(hope=np.zeros(1), feature=np.zeros(1, np.int64), cut=np.zeros(1, np.int64))
    most_open = MEMORY // (16 * width + 16)
    waiting: Waiting = Frontier(root, BoxTally(), Clock.of(timeout), most_open, lambda: waiting.shelve_half("hope"))
    return search_boxes(_Cells(judge), waiting, most_boxes)


class _Cells(Space):
    """The boxes of cells of a forest. Open ones know where they are to be cut."""

    batch, look = BATCH // 2, None

    def __init__(self, judge: Judge) -> None:
        self.judge, self.branching = judge, Branching(judge)
        self.upto = [
            np.concatenate([[0.0], np.cumsum(widths)]) / max(widths.sum(), 1e-300)
            for widths in (
                judge.cells.features[i].widths * ok for i, ok in zip(judge.cells.free, judge.cells.inside, strict=True)
            )
        ]
        self.whom = ("these people", "these people") if judge.cells.where else ("everybody", "the domain")

    def begin(self, waiting: Waiting) -> None:
        waiting.replace(np.arange(1), 1, self._judged)

    def choose(self, waiting: Waiting, most: float) -> tuple[np.ndarray, None]:
        return waiting.wave("hope", self.batch), None

    def take(self, tally: BoxTally, found: Boxes) -> tuple[BoxTally, Boxes]:
        return self._judged(tally, halves(found))

    def _judged(self, tally: BoxTally, boxes: Boxes) -> tuple[BoxTally, Boxes]:
        judge = self.judge
        if judge.cells.where:
            boxes = Boxes(*judge.cells.narrowed(boxes.low, boxes.high)[:2])
        masks = judge.bits.shared(boxes.low, boxes.high)
        found = judge.bounds(boxes.low, boxes.high, masks)
        open_ = np.flatnonzero(~found.fair)
        middles = (boxes.low[open_] + boxes.high[open_]) // 2
        decided, margins = judge.decided(middles)
        single = (boxes.low[open_] == boxes.high[open_]).all(axis=1)
        known = (decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1)
        share = self._share(boxes)
        fair = float(share[found.fair].sum() + share[open_[single & known]].sum())
        tally = tally.plus(len(boxes), fair, share[open_[single & ~known]])
        for i in np.flatnonzero(told_apart(decided) & judge.cells.within(middles)):
            if (twins := shown_twins(judge, middles[i], decided[i])) is not None:
                reason = f"found by cutting {tally.boxes:,} boxes of cells"
                raise Falsified(falsified(judge.model, twins, engine=ENGINE, reason=reason), tally.boxes)
        left = open_[~single]
        feature, cut = self.branching.cuts(boxes.low[left], boxes.high[left], masks[left], found[left])
        return tally, boxes[left].knowing(hope=-worth(margins[~single]), feature=feature, cut=cut)

    def _share(self, boxes: Boxes) -> np.ndarray:
        found = np.ones(len(boxes))
        for i, upto in enumerate(self.upto):
            found *= upto[boxes.high[:, i] + 1] - upto[boxes.low[:, i]]
        return found

    def progress(self, waiting: Waiting) -> str:
        tally = waiting.tally
        return f"{100 * tally.decided:.2f} % decided, {tally.boxes:,} boxes bounded, {waiting.count:,} open"

    def verified(self, tally: BoxTally) -> Verdict:
        cover = f"{tally.boxes:,} boxes of cells between thresholds cover {self.whom[0]}"
        text = f"{cover}, and in each twins are decided alike"
        return Verdict("verified", "bounds", ENGINE, self.judge.arithmetic, text)

    def left(self, why: str, waiting: Waiting) -> str:
        share = 100 * min(waiting.tally.decided, 1.0)
        return f"{why}; {share:.3g} % of {self.whom[1]} is decided, and all of that is fair"
