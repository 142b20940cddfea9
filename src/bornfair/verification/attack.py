"""Search of a network for twins who are decided differently. It finds unfairness; it never excludes it.

Twins straddle the boundary: gap(u) = max over i, j of min(f(u, s_i), −f(u, s_j)) is positive just for unfair people u
(of K outputs, f is the lead of one class over the best other one). All stages climb this number; replay decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.network.lens import LeadRange, Lens
from bornfair.models.network.model import Model
from bornfair.models.protocol import Decider
from bornfair.models.rounding import EXECUTIONS
from bornfair.models.verdict import Arithmetic, Verdict
from bornfair.people.domain import Domain
from bornfair.people.features import RealFeature, Value
from bornfair.people.tables import as_pandas
from bornfair.verification.cancel import cancelling
from bornfair.verification.minimise import likeliest, replay_best, simplest
from bornfair.verification.replay import Replay, falsified

FIRST = 4096  # people of the first looks: rows, their mutations, samples; further rows follow in turn
CLIMBERS = 192  # people who climb together
TRIALS = 48  # changes tried for each of them in one step
STEPS = 12  # steps before the lower half is replaced
CROSSINGS = 256  # ways over the boundary that are halved together
GRID = 9  # places of a numeric feature where a way over the boundary is looked for
MOST_VALUES = 16  # versions looked at after the first looks; all of them if there are no more
BASES = 10  # people around whom sums of whole numbers are searched
CANCELLING = 2048  # people looked at around each of them
LEVELS = 17  # of a real-valued sensitive feature on a grid, and as many by chance
MOST_TRIED = 1024  # sensitive values, where there are more than can be listed
SIMPLER = 0.2  # share of the time by which it may be overrun to make twins simple
HALVINGS = 80  # enough to come down to neighbouring float64 numbers


@dataclass(frozen=True)
class Attack:
    """What came of it: `found` twins (replayed) or None; `tried` people, by which stage, in how long."""

    found: Replay | None
    tried: int
    how: str
    seconds: float

    def __bool__(self) -> bool:
        return self.found is not None

    def verdict(self, model: Decider) -> Verdict | None:
        """Falsified with the twins, if some were found."""
        if self.found is None:
            return None
        reason = f"{self.how}; {self.tried:,} people tried"
        return falsified(model, self.found, engine="attack", reason=reason, seconds=self.seconds)


@dataclass(frozen=True, eq=False)
class Tried:
    """People who were looked at by the stage `how` of an attack, and how many looks that took."""

    how: str
    people: np.ndarray
    looks: int


Some = TypeVar("Some", bound=Tried)


def attack(
    batches: Iterable[Some], replayed: Callable[[Some], Replay | None], clock: Clock, most: float = math.inf
) -> Attack:
    """Take batches until twins of one of them are `replayed`, time is up, or after `most` looks."""
    tried, looks, stage = 0, 0, ""
    for batch in batches:
        tried, looks = tried + len(batch.people), looks + batch.looks
        if clock.listener is not None and batch.how != stage:
            clock.listener(f"{batch.how}: {tried:,} people looked at in {clock.spent:.1f} s")
        stage = batch.how
        found = replayed(batch)
        if found is not None:
            return Attack(found, tried, stage, clock.spent)
        if clock.is_up or looks >= most:
            break
    return Attack(None, tried, "nothing found", clock.spent)


@dataclass(frozen=True, eq=False)
class _Batch(Tried):
    """`values`: the versions of themselves that people were looked at as."""

    values: np.ndarray
    look: LeadRange

    @staticmethod
    def of(how: str, people: np.ndarray, values: np.ndarray, look: LeadRange) -> _Batch:
        return _Batch(how, people, len(people) * len(values), values, look)


_Batches = Generator[_Batch, None, Any]


def find_twins(
    model: Model,
    *,
    table: Any = None,
    seconds: Timeout = 5.0,
    seed: int = 0,
    arithmetic: Sequence[Arithmetic] = ("float32", "real"),
    most: float = math.inf,
    say: Say | None = None,
) -> Attack:
    """Search for twins who are decided differently in one of the given arithmetics, and show the simplest found.
    `most`: after so many looks (people times values of S) it gives up.

    `table` (raw rows; those outside the domain are left out) tells where real people are: the twins are then brought
    as close to one of them as they stay unfair. The result depends on the seed, and on `seconds` only where it cuts.
    """
    wanted, clock = _checked(model, arithmetic, seconds), Clock.of(seconds, say)
    if model.ignores_sensitive and model.encoding.merges_twins:
        return Attack(None, 0, "no weight reads what differs between twins", clock.spent)
    lens = Lens(model, values_to_try(model.domain, seed))
    rows = None if table is None else lens.from_table(as_pandas(table))

    def replayed(batch: _Batch) -> Replay | None:
        found = replay_best(lens, batch.people, batch.values, batch.look, wanted)
        if found is None:
            return None
        # Twins that are simple are worth a little more than was foreseen.
        more = Clock(max(clock.left, SIMPLER * clock.timeout), now=clock.now)
        clear = simplest(lens, found, rows, more)
        return clear if table is None else likeliest(lens, clear, as_pandas(table))

    return attack(_search(lens, rows, seed), replayed, clock, most)


def values_to_try(domain: Domain, seed: int) -> list[tuple[Value, ...]] | None:
    """Sensitive values to look at where there are more than can be listed: the grid's levels and others by chance."""
    if not domain.real_sensitive:
        return None
    random = np.random.default_rng([seed, 13])
    levels: list[Sequence[Value]] = []
    for feature in domain.sensitive_features:
        levels.append(feature.levels())
        if isinstance(feature, RealFeature):
            low, high = feature.low, feature.high
            digits = 3 - math.floor(math.log10(high - low))  # of numbers by chance: a person is to read them
            chance = np.clip(np.round(random.uniform(low, high, LEVELS), digits), low, high)
            levels[-1] = [*np.linspace(low, high, LEVELS).tolist(), *chance.tolist()]
    if math.prod(map(len, levels)) <= MOST_TRIED:
        return list(itertools.product(*levels))
    return [tuple(column[int(random.integers(len(column)))] for column in levels) for _ in range(MOST_TRIED)]


def _checked(model: Model, arithmetic: Sequence[Arithmetic], seconds: Timeout) -> tuple[Arithmetic, ...]:
    allowed = tuple(EXECUTIONS)  # of networks; forests have one more
    if isinstance(arithmetic, str) or not arithmetic or not set(arithmetic) <= set(allowed):
        raise InputError(f"arithmetic is {arithmetic!r}; give one or more of {shown(allowed)}, as a tuple.")
    if not isinstance(seconds, Clock) and not seconds > 0:
        raise InputError(f"seconds is {seconds!r}; a search needs some time, such as 5.0.")
    model.domain.require_sensitive()
    if not model.network.function.exact:
        if "float32" not in arithmetic:
            raise InputError(
                f"decisions of a {model.network.activation} network cannot be replayed in real arithmetic, which needs "
                "relu; ask for 'float32'."
            )
        return ("float32",)
    return tuple(arithmetic)


# --- the stages, cheapest first ---


def _search(lens: Lens, rows: np.ndarray | None, seed: int) -> Iterator[_Batch]:
    """Look at rows, their mutations and samples; then, for ever, at boundaries and where the climbers are."""
    rng = np.random.default_rng([seed, 7])
    everything = np.arange(lens.size)
    extreme = np.zeros(lens.size, np.int64)
    if rows is not None and len(rows):
        rows = rows[rng.permutation(len(rows))]
        some = rows[:FIRST]
        yield from _first_looks(lens, "rows of the table", some, everything, extreme)
        mutated = lens.changed(some[rng.integers(len(some), size=FIRST)], rng)
        yield from _first_looks(lens, "mutated rows", mutated, everything, extreme)
    yield from _first_looks(lens, "samples of the domain", lens.sample(FIRST, rng), everything, extreme)
    if not lens.width:
        return  # one person, and everything is known about them
    climbers = np.zeros((0, lens.width))
    for turn in itertools.count(1):
        rng = np.random.default_rng([seed, 11, turn])
        if rows is not None and len(more := rows[turn * FIRST : (turn + 1) * FIRST]):
            yield from _first_looks(lens, "rows of the table", more, everything, extreme)
        values = _some_values(extreme, rng)
        starts = _starts(lens, rows, rng)
        crossed = yield from _cross_single(lens, starts, values, rng)
        mixed = yield from _cross_mixed(lens, starts, values, rng)
        room = lens.room(CLIMBERS, TRIALS * len(values))
        near = np.concatenate([crossed, mixed])
        near = near[rng.permutation(len(near))]
        climbers = np.concatenate([climbers[: room // 3], near[: room // 3], starts])[:room]
        climbers = yield from _climb(lens, climbers, values, rng)
        # By chance among the better half: the best ones stay the same from turn to turn.
        yield from _cancel(lens, climbers[rng.permutation((len(climbers) + 1) // 2)[:BASES]], values)


def _first_looks(lens: Lens, how: str, people: np.ndarray, values: np.ndarray, extreme: np.ndarray) -> _Batches:
    """Everybody under all values of S. Notes in `extreme` how often a value gave the largest or smallest score."""
    size = max(1, lens.most_rows // len(values))
    for part in (people[i : i + size] for i in range(0, len(people), size)):
        look = lens.look(part, values)
        np.add.at(extreme, look.high_at.ravel(), 1)
        np.add.at(extreme, look.low_at.ravel(), 1)
        yield _Batch.of(how, part, values, look)


def _some_values(extreme: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All of S if it is small; else the values that were extreme most often, and others by chance."""
    if len(extreme) <= MOST_VALUES:
        return np.arange(len(extreme))
    often = np.argsort(-extreme, kind="stable")
    rest = rng.permutation(often[MOST_VALUES // 2 :])
    return np.concatenate([often[: MOST_VALUES // 2], rest[: MOST_VALUES // 2]])


def _starts(lens: Lens, rows: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """New people: half of them rows of the table, where there is one."""
    count = 2 * CROSSINGS
    if rows is None or not len(rows):
        return lens.sample(count, rng)
    real = rows[rng.integers(len(rows), size=count // 2)]
    return np.concatenate([real, lens.sample(count - len(real), rng)])[np.arange(count).reshape(2, -1).T.ravel()]


# --- over the boundary ---


def _cross_single(lens: Lens, people: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> _Batches:
    """Move one numeric feature of each person through its range; halve where the decision changes."""
    how = "boundary, one feature moved"
    if not len(lens.numbers):
        return people[:0]
    chosen = rng.permutation(lens.numbers)[:8]
    people = people[: lens.room(CROSSINGS // 4, len(chosen) * GRID * len(values))]
    grid = np.linspace(lens.low[chosen], lens.high[chosen], GRID)  # [grid, features]
    grid = np.where(lens.whole[chosen], np.round(grid), grid)
    line = np.broadcast_to(people[:, None, None, :], (len(people), len(chosen), GRID, lens.width)).copy()
    for i, feature in enumerate(chosen):
        line[:, i, :, feature] = grid[:, i]
    flat = line.reshape(-1, lens.width)
    look = lens.look(flat, values)
    yield _Batch.of(how, flat, values, look)
    positive = look.middle.reshape(*line.shape[:3], -1) > 0
    changes = positive[:, :, :-1] != positive[:, :, 1:]
    who, place, at, klass = np.nonzero(changes)
    pick = rng.permutation(len(who))[: lens.room(CROSSINGS, len(values))]
    who, place, at, klass = who[pick], place[pick], at[pick], klass[pick]
    return (yield from _halve(lens, how, line[who, place, at], line[who, place, at + 1], chosen[place], klass, values))


def _cross_mixed(lens: Lens, people: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> _Batches:
    """Turn one person into another, feature by feature; halve the feature at which the decision changes."""
    how = "boundary between two people"
    people = people[: lens.room(len(people), (lens.width + 1) * len(values))]
    look = lens.look(people, values)
    yield _Batch.of(how, people, values, look)
    klass = look.middle.argmax(axis=1)
    other = rng.permutation(len(people))
    everyone = np.arange(len(people))
    apart = (look.middle[everyone, klass] > 0) & (look.middle[other, klass] <= 0)
    here, there, klass = people[apart], people[other[apart]], klass[apart]
    if not len(here):
        return people[:0]
    rank = rng.permuted(np.tile(np.arange(lens.width), (len(here), 1)), axis=1)
    mixed = np.where(rank[:, None, :] < np.arange(lens.width + 1)[:, None], there[:, None, :], here[:, None, :])
    flat = mixed.reshape(-1, lens.width)
    look = lens.look(flat, values)
    yield _Batch.of(how, flat, values, look)
    lead = look.middle.reshape(len(here), lens.width + 1, -1)[np.arange(len(here)), :, klass]
    at = np.argmax((lead[:, :-1] > 0) & (lead[:, 1:] <= 0), axis=1)
    who = np.arange(len(here))
    feature = np.argmax(rank == at[:, None], axis=1)
    return (yield from _halve(lens, how, mixed[who, at], mixed[who, at + 1], feature, klass, values))


def _halve(
    lens: Lens, how: str, here: np.ndarray, there: np.ndarray, feature: Any, klass: Any, values: np.ndarray
) -> _Batches:
    """Halve the way of one feature per person until nothing lies between; gives the people of both ends, mixed.

    What is halved is the sign of the middle between the highest and the lowest score over S: where it vanishes, twins
    disagree most clearly, however small their difference is.
    """
    here, there = here.copy(), there.copy()
    if not len(here):
        return here
    who = np.arange(len(here))
    positive = lens.look(here, values).middle[who, klass] > 0
    open_ = np.isin(feature, lens.numbers)
    for _ in range(HALVINGS):
        first, second = here[who, feature], there[who, feature]
        middle = first + (second - first) / 2
        middle = np.where(lens.whole[feature], np.floor(middle), middle)
        open_ &= (middle != first) & (middle != second)
        at = np.flatnonzero(open_)
        if not len(at):
            break
        people = here[at]
        people[np.arange(len(at)), feature[at]] = middle[at]
        look = lens.look(people, values)
        yield _Batch.of(how, people, values, look)
        same = (look.middle[np.arange(len(at)), klass[at]] > 0) == positive[at]
        here[at[same]], there[at[~same]] = people[same], people[~same]
    return np.stack([here, there], axis=1).reshape(-1, lens.width)


# --- climbing the gap ---


def _climb(lens: Lens, people: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> _Batches:
    """Improve everybody's gap by changes that gradients suggest and by chance; the best come first in the result."""
    how = "climbing towards the boundary"
    look = lens.look(people, values)
    for _ in range(STEPS):
        trials = _trials(lens, people, values, look, rng)
        flat = trials.reshape(-1, lens.width)
        seen = lens.look(flat, values)
        yield _Batch.of(how, flat, values, seen)
        worth = lens.worth(seen)
        best = worth.reshape(len(people), -1).argmax(axis=1) + np.arange(len(people)) * trials.shape[1]
        better = worth[best] > lens.worth(look)
        people = np.where(better[:, None], flat[best], people)
        look = look.replaced(better, seen.rows(best))
    return people[np.argsort(-lens.worth(look), kind="stable")]


def _trials(
    lens: Lens, people: np.ndarray, values: np.ndarray, look: LeadRange, rng: np.random.Generator
) -> np.ndarray:
    """Changed people [people, TRIALS, features]: one feature changes by chance, another makes up for it to first order.

    The first trials leave the former out, or move several numbers at once along the gradient.
    """
    count = len(people)
    gradient, middle = lens.gradient(people, values, look)
    trials = np.repeat(people[:, None, :], TRIALS, axis=1)
    free = TRIALS // 4
    flat = trials[:, free:].reshape(-1, lens.width)
    source = np.repeat(np.arange(count), TRIALS - free)
    flat, moved = lens.changed(flat, rng), flat
    trials[:, free:] = flat.reshape(count, -1, lens.width)
    if not len(lens.numbers):
        return trials
    expected = np.repeat(middle[:, None], TRIALS, axis=1)
    expected[:, free:] += lens.foreseen(moved, flat, gradient[source]).reshape(count, -1)
    slopes = lens.slopes(gradient)
    along = free // 3
    reach = np.where(rng.random((count, along, lens.width)) < 0.5, lens.high - lens.low, 0.0)
    weight = reach**2 * slopes[:, None, :]
    size = (weight * slopes[:, None, :]).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        step = -weight * (middle[:, None] / size)[:, :, None]
        trials[:, :along] = lens.inside(np.where(np.isfinite(step), trials[:, :along] + step, trials[:, :along]))
        which = rng.choice(lens.numbers, (count, TRIALS))
        slope = np.take_along_axis(slopes, which, axis=1)
        step = -expected / slope
    step = np.where(np.isfinite(step) & (rng.random(step.shape) < 0.8), step, 0.0)
    step[:, :along] = 0.0
    old = np.take_along_axis(trials, which[:, :, None], axis=2)[:, :, 0]
    new = np.where(lens.whole[which], np.floor(old + step + (rng.random(step.shape) < 0.5)), old + step)
    new = np.clip(np.where(step == 0, old, new), lens.low[which], lens.high[which])
    np.put_along_axis(trials, which[:, :, None], new[:, :, None], axis=2)
    return trials


# --- whole numbers that cancel ---


def _cancel(lens: Lens, people: np.ndarray, values: np.ndarray) -> _Batches:
    """Around each person, whole numbers that bring the middle as close to 0 as sums of two halves can."""
    gradient, middle = lens.gradient(people, values, lens.look(people, values))
    for base, slopes, score in zip(people, lens.slopes(gradient), middle.tolist(), strict=True):
        near = cancelling(lens, base, slopes, score, lens.room(CANCELLING, len(values)))
        yield _Batch.of("whole numbers that cancel", near, values, lens.look(near, values))
