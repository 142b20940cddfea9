"""The simplest twins that show an unfairness that was found.

They differ in one attribute where that suffices, are as close to a real row as they stay unfair, and have few decimal
digits. All twins that are shown were replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.models.network.lens import LeadRange, Lens, lead_ranges
from bornfair.models.network.network import BLOCK, decisions
from bornfair.verification.replay import Replay, replay

if TYPE_CHECKING:
    from bornfair.core.clock import Clock
    from bornfair.models.verdict import Arithmetic

NEAREST = 32  # rows of a table that twins are brought close to; the best result is kept
CLOSER = 8  # of these, how many are approached feature by feature
GRID = 33  # places of a numeric feature where the boundary is looked for
HALVINGS = 64
MOST_PAIRED = 5_000  # versions among which the pair that differs in one attribute is looked for
MOST_VERSIONS = 256  # among which likelier ones are looked for
TRIED = 12  # of these, the likeliest
DIGITS = 17  # decimals beyond which a float64 near 1 has no more


# --- from suspects to twins ---


@dataclass(frozen=True, eq=False)
class FoundTwins:
    """A point of the lens, two versions of that person, and what became of the two."""

    point: np.ndarray
    pair: tuple[int, int]
    replayed: Replay


def replay_best(
    lens: Lens, people: np.ndarray, values: np.ndarray, look: LeadRange, wanted: tuple[Arithmetic, ...]
) -> FoundTwins | None:
    """The clearest of these people who really have a twin decided differently in one of the wanted arithmetics."""
    gap = look.gap
    order = np.argsort(-lens.worth(look), kind="stable")[: max(BLOCK // len(values), 1)]
    if "real" in wanted:
        for at in order[:2][gap[order[:2]] >= 0]:
            klass = look.klass[at]
            if look.top[at, klass] == look.bottom[at, klass]:
                continue
            twins = _replayed(lens, people[at], values[[look.high_at[at, klass], look.low_at[at, klass]]])
            if set(twins.replayed.unfair_in) & set(wanted):
                return twins
    order = order[gap[order] >= -lens.near]
    if "float32" in wanted and len(order):
        decided = decisions(lens.shipped(people[order], values))
        for at in np.flatnonzero((decided != decided[:, :1]).any(axis=1)):
            other = int(np.argmax(decided[at] != decided[at, 0]))
            twins = _replayed(lens, people[order[at]], values[[0, other]])
            if "float32" in twins.replayed.unfair_in:
                return twins
    return None


def _replayed(lens: Lens, point: np.ndarray, pair: Any) -> FoundTwins:
    values = (int(pair[0]), int(pair[1]))
    return FoundTwins(point, values, replay(lens.model, lens.person(point), values, lens.versions))


def simplest(lens: Lens, found: FoundTwins, rows: np.ndarray | None, clock: Clock) -> Replay:
    """The twins a person understands at once, unfair in the same arithmetics as those found."""
    need = set(found.replayed.unfair_in)
    steps = [found]
    pair = _clearest_pair(lens, found.point, need)
    point = found.point
    if pair is not None:
        steps.append(replace(found, pair=pair))
    pair = steps[-1].pair
    check = _Check(lens, pair, need, clock)
    row = None
    if rows is not None and len(rows):
        point, row = _towards_rows(check, point, rows)
        steps.append(FoundTwins(point, pair, found.replayed))
    rounded = _rounded(check, point, row)
    steps.append(FoundTwins(rounded, pair, found.replayed))
    for step in reversed(steps[1:]):
        if step.pair == found.pair and np.array_equal(step.point, found.point):
            break
        twins = _replayed(lens, step.point, step.pair)
        if need <= set(twins.replayed.unfair_in):
            return twins.replayed
    return found.replayed


def likeliest(lens: Lens, found: Replay, table: pd.DataFrame) -> Replay:
    """The same unfairness between two versions such as are in the table: a rule as it was written, a husband who is
    male and a wife who is female, where the swap alone would have made one of them the other's sex.
    """
    model, versions = lens.model, lens.versions
    if len({versions.parts(v)[0] for v in found.versions}) < 2 or versions.size > MOST_VERSIONS:
        return found
    if not set(model.domain.sensitive) <= set(table.columns):
        return found
    person = versions.settled(found.people[0])
    everyone = [versions.of(person, version) for version in range(versions.size)]
    told = [*versions.group.moved, *model.domain.sensitive]
    known = table.groupby(told, observed=True).size().to_dict()
    seen = [known.get(tuple(one[name] for name in told), 0) for one in everyone]
    pairs = [(i, everyone.index(one)) for i, all_ in enumerate(everyone) for one in versions.by_rules(all_)]
    better = [(min(seen[i], seen[j]), i, j) for i, j in pairs if i != j]
    least = min(seen[version] for version in found.versions)
    for count, i, j in sorted(better, key=lambda item: -item[0])[:TRIED]:
        if count > least:
            other = replay(model, person, (i, j), versions)
            if set(found.unfair_in) <= set(other.unfair_in):
                return other
    return found


def _clearest_pair(lens: Lens, point: np.ndarray, need: set[Arithmetic]) -> tuple[int, int] | None:
    """The two versions that are decided differently most clearly; those that differ in one attribute go first."""
    values = np.arange(lens.size)
    scores = (lens.scores if "real" in need else lens.shipped)(point[None], values)
    levels = lens.versions.levels
    best: tuple[float, tuple[int, int]] | None = None
    for attribute in range(levels.shape[1] if len(values) <= MOST_PAIRED else 0):
        others = np.delete(levels, attribute, axis=1)
        _, group = np.unique(others, axis=0, return_inverse=True)
        group = group.ravel()
        order = np.argsort(group, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1):
            gap, pair = _pair(scores, members)
            if gap >= 0 and (best is None or gap > best[0]):
                best = gap, pair
    if best is None:
        best = _pair(scores, values)
    decided = decisions(scores[0])
    return best[1] if decided[best[1][0]] != decided[best[1][1]] else None


def _pair(scores: np.ndarray, members: np.ndarray) -> tuple[float, tuple[int, int]]:
    look = lead_ranges(scores[:, members])
    klass = look.klass[0]
    return float(look.gap[0]), (int(members[look.low_at[0, klass]]), int(members[look.high_at[0, klass]]))


class _Check:
    """Does the unfairness between two versions persist? A quick answer, to be replayed."""

    def __init__(self, lens: Lens, pair: tuple[int, int], need: set[Arithmetic], clock: Clock) -> None:
        self.lens, self.pair, self.need, self.clock = lens, np.array(pair), need, clock

    def clarity(self, people: np.ndarray) -> np.ndarray:
        """The gap of each person, −∞ where the twins are decided alike."""
        if not len(people) or self.clock.is_up:
            return np.full(len(people), -np.inf)
        gap = self.lens.look(people, self.pair).gap
        holds = gap > 0 if "real" in self.need else np.ones(len(people), bool)
        if "float32" in self.need:
            decided = decisions(self.lens.shipped(people, self.pair))
            holds &= decided[:, 0] != decided[:, 1]
        return np.where(holds, gap, -np.inf)


def _towards_rows(check: _Check, point: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The point brought to one of the nearest rows, and that row."""
    lens = check.lens
    span = np.where(lens.high > lens.low, lens.high - lens.low, 1.0)

    def away(people: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = np.where(lens.one_hot, people != row, np.abs(people - row) / span)
        return (people != row).sum(axis=-1), parts.sum(axis=-1)

    count, far = away(rows, point)
    nearest = rows[np.lexsort((far, count))[:NEAREST]]
    moved = np.stack([_closer(check, point.copy(), row) for row in nearest[:CLOSER]])
    reached = nearest[:CLOSER]
    if (moved != reached).sum(
        axis=1
    ).min() > 1 and not check.clock.is_up:  # a row with one number moved to the boundary may be nearer
        people, source = _at_boundary(check, nearest, np.tile(lens.numbers, (len(nearest), 1)), point)
        moved, reached = np.concatenate([moved, people]), np.concatenate([reached, nearest[source]])
    count, far = away(moved, reached)
    best = int(np.lexsort((far, count))[0])
    return moved[best], reached[best]


def _closer(check: _Check, point: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Take over the row's values one at a time, the one that leaves the twins clearest first; then go part of the way
    with numbers that cannot be taken over.
    """
    while len(differing := np.flatnonzero(point != row)):
        trials = np.repeat(point[None], len(differing), axis=0)
        trials[np.arange(len(differing)), differing] = row[differing]
        clarity = check.clarity(trials)
        if not np.isfinite(clarity).any():
            break
        point = trials[int(np.argmax(clarity))]
    for feature in np.intersect1d(np.flatnonzero(point != row), check.lens.numbers):
        here, there = point[feature], row[feature]
        for _ in range(40):
            middle = here + (there - here) / 2
            middle = np.rint(middle) if check.lens.whole[feature] else middle
            if middle in (here, there):
                break
            trial = point.copy()
            trial[feature] = middle
            if np.isfinite(check.clarity(trial[None])[0]):
                point, here = trial, middle
            else:
                there = middle
    return point


def _rounded(check: _Check, point: np.ndarray, row: np.ndarray | None) -> np.ndarray:
    """Few decimals in the real numbers that are not those of the row; one of them makes up for the others' rounding."""
    lens = check.lens
    reals = np.array([f for f in lens.reals if row is None or point[f] != row[f]], dtype=np.int64)
    if len(reals) > 1 and not check.clock.is_up:
        variants = np.repeat(point[None], 4, axis=0)
        variants[:, reals] = [np.round(point[reals], digits) for digits in range(4)]
        people, source = _at_boundary(check, lens.inside(variants), np.tile(reals, (4, 1)), point)
        if len(people):
            point = people[int(np.argmin(source))]
    for feature in reals:
        trials = np.repeat(point[None], DIGITS, axis=0)
        trials[:, feature] = [round(float(point[feature]), digits) for digits in range(DIGITS)]
        trials = lens.inside(trials)
        holds = np.isfinite(check.clarity(trials))
        if holds.any():
            point = trials[int(np.argmax(holds))]
    return point


def _at_boundary(
    check: _Check, people: np.ndarray, features: np.ndarray, found: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """People moved in one feature to where the twins disagree, and the position of whom they were.

    `features` [people, choices] says which may move; `found` are the twins whose class to separate is looked for.
    """
    lens, count = check.lens, features.shape[1]
    klass = int(lens.look(found[None], check.pair).klass[0])
    line = np.repeat(np.repeat(people, count, axis=0)[:, None, :], GRID, axis=1)  # [people · choices, grid, features]
    moving = features.ravel()
    grid = np.linspace(lens.low[moving], lens.high[moving], GRID, axis=1)
    np.put_along_axis(
        line, moving[:, None, None], np.where(lens.whole[moving, None], np.round(grid), grid)[..., None], 2
    )
    leads = lens.look(line.reshape(-1, lens.width), check.pair).middle[:, klass].reshape(-1, GRID) > 0
    which, at = np.nonzero(leads[:, 1:] != leads[:, :-1])
    here, there, feature, positive = line[which, at], line[which, at + 1], moving[which], leads[which, at]
    who = np.arange(len(which))
    for _ in range(HALVINGS if len(who) else 0):
        first, second = here[who, feature], there[who, feature]
        middle = first + (second - first) / 2
        middle = np.where(lens.whole[feature], np.floor(middle), middle)
        if ((middle == first) | (middle == second)).all() or check.clock.is_up:
            break
        between = here.copy()
        between[who, feature] = middle
        same = (lens.look(between, check.pair).middle[:, klass] > 0) == positive
        here, there = np.where(same[:, None], between, here), np.where(same[:, None], there, between)
    ends, source = np.concatenate([here, there]), np.tile(which // max(count, 1), 2)
    holds = np.isfinite(check.clarity(ends))
    return ends[holds], source[holds]
