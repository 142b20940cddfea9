"""Search for twins whom a model that is only run decides differently. It finds unfairness; it proves nothing.

Rows of the table and people of the domain are asked about as all their versions. Two people who are decided differently
are halved towards the boundary between them. Where there are scores, people are moved to where versions are closest to
it. A domain of few people is counted out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import plain_level, plain_value
from bornfair.models.opaque.model import OpaqueModel
from bornfair.models.protocol import Countable, Unsteady
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.space.subpopulation import Limit, Limits, places, whole_domain
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions
from bornfair.verification.frontier import INTERRUPTED
from bornfair.verification.replay import Replay, falsified, replay

MOST_COUNTED = 2_000_000  # rows of a domain that is counted out
COUNTING = 0.5  # share of the time that it may take
ROWS = 0.5  # share of the time for the rows of a table
POOL = 256  # people between whom, and from whom on, is searched
PAIRS = 32  # halved together
HALVINGS = 40
MOVED = 8  # people who are moved together
STEPS = 12  # moves of each
VALUES = 4  # of a feature, tried in one move
MOST_ASKED = 4_000_000  # rows, after which nothing new is expected
REPLAYED = 8
MOST_DRAWN = 20_000  # of some people only, drawn at random
LISTED = 5_000  # of some people only, asked about one after the other


class _Found(Exception):
    """Twins who are decided differently end the search."""

    def __init__(self, twins: Replay, how: str) -> None:
        self.twins, self.how = twins, how


@dataclass(eq=False)
class _Search:
    """What was asked so far."""

    model: OpaqueModel
    clock: Clock
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.versions = Versions(self.model.domain)
        self.tried: dict[str, int] = {}

    @property
    def asked(self) -> int:
        return sum(self.tried.values()) * self.versions.size

    @property
    def told(self) -> str:
        parts = ", ".join(f"{count:,} {what}" for what, count in self.tried.items() if count)
        return f"asked, each as {self.versions.size:,} versions: {parts or 'nobody'}"

    def look(self, people: pd.DataFrame, what: str, *, scores: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """Ask about everybody as all versions. Raises when twins are decided differently."""
        given = self.model.decide(people, self.versions, scores=scores)
        self.tried[what] = self.tried.get(what, 0) + len(people)
        self.clock.report(lambda: self.told)
        unfair = np.flatnonzero((given.classes != given.classes[:, :1]).any(axis=1))
        for row in unfair[:REPLAYED]:
            self._confirm(people, int(row), given.classes[row], what)
        return given.classes, given.scores

    def _confirm(self, people: pd.DataFrame, row: int, decided: np.ndarray, what: str) -> None:
        person = {name: plain_value(people[name].iloc[row]) for name in self.model.domain.free_names}
        levels = self.versions.levels
        order = np.argsort((levels != levels[0]).sum(axis=1), kind="stable")
        one = int(order[0])
        others = [int(other) for other in order if decided[other] != decided[one]]
        twins = replay(self.model, person, [one, others[0]], self.versions)
        if twins.unfair_in:
            raise _Found(twins, what)


def decide_by_asking(
    model: OpaqueModel, *, timeout: Clock, table: Any = None, among: Limits | None = None, seed: int = 0
) -> Verdict:
    """Falsified with replayed twins, or undecided with what was tried; the arguments are those of `decide`."""
    model.domain.require_sensitive()
    if model.steadiness.changed:
        return undecided("asking", f"{model.unsteady_text} ({model.steadiness.text})")
    if among is not None:
        try:
            return _among(model, among, timeout, seed)
        except Unsteady as error:
            return undecided("asking", str(error).rstrip("."))
    search = _Search(model, timeout, np.random.default_rng([seed, 17]))
    ended = "the time is up"
    try:
        ended = _searched(search, None if table is None else as_pandas(table)) or ended
    except _Found as found:
        reason = f"{found.how}; {search.told}; asked again, together and alone, they are decided the same"
        reason = f"{reason}; {model.note}" if model.note else reason
        return falsified(model, found.twins, engine="asking", reason=reason, seconds=timeout.spent)
    except Unsteady as error:
        return undecided("asking", str(error).rstrip("."))
    except KeyboardInterrupt:
        ended = INTERRUPTED
    note = f"; {model.note}" if model.note else ""
    names = " and ".join(model.domain.real_sensitive)
    only = f" (of {names} some values only)" if names else ""
    reason = f"{ended}; {search.told}{only}, and found no twins decided differently: that is no proof{note}"
    return Verdict("undecided", "none", "asking", (), reason, seconds=timeout.spent)


def _searched(search: _Search, table: pd.DataFrame | None) -> str:
    """Look until twins are found or the time is up; why it ended, if for another reason."""
    domain, clock = search.model.domain, search.clock
    pool: list[tuple[pd.DataFrame, np.ndarray]] = []
    if table is not None and set(domain.free_names) <= set(map(str, table.columns)):
        rows = table[list(domain.free_names)].dropna()
        rows = rows[~domain.outside(rows)]
        rows = rows.iloc[search.rng.permutation(len(rows))].reset_index(drop=True)
        for some in _chunks(search, rows, clock.part(ROWS)):
            pool.append((some, search.look(some, "of the table's rows")[0][:, 0]))
    if everybody(search.model, clock) is not None:
        for some in people_in_order(search.model):
            if clock.is_up:
                return ""
            search.look(some, "people of the domain, one after the other")
        return "everybody of the domain was asked about once"
    while not clock.is_up and search.asked < MOST_ASKED:
        size = max(search.model.together(search.versions.size, clock.left / 2), 8)
        drawn = domain.sample(size, seed=int(search.rng.integers(2**31)))
        drawn = drawn[list(domain.free_names)]
        pool.append((drawn, search.look(drawn, "random people")[0][:, 0]))
        people, decided = _pool(pool, search.rng)
        for _ in range(2):
            _halve(search, people, decided)
            if clock.is_up:
                return ""
        if search.model.shows_scores:
            _move(search, people)
    return "" if clock.is_up else f"{search.asked:,} rows were asked about"


def _chunks(search: _Search, rows: pd.DataFrame, clock: Clock) -> Iterator[pd.DataFrame]:
    start = 0
    while start < len(rows) and (not start or not clock.is_up):
        size = search.model.together(search.versions.size, clock.left)
        some = rows.iloc[start : start + size].reset_index(drop=True)
        start += len(some)
        yield some


def _pool(pool: list[tuple[pd.DataFrame, np.ndarray]], rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Some of those who were asked about, of each decision as many as possible; the lists are cut to these."""
    people = pd.concat([one for one, _ in pool], ignore_index=True)
    decided = np.concatenate([one for _, one in pool])
    kept: list[int] = []
    for place in np.unique(decided):
        of_it = rng.permutation(np.flatnonzero(decided == place))
        kept += of_it[: POOL // 2].tolist()
    pool[:] = [(people.iloc[kept].reset_index(drop=True), decided[kept])]
    return pool[0]


# --- halving ---


def _halve(search: _Search, people: pd.DataFrame, decided: np.ndarray) -> None:
    """Between people who are decided differently: whoever is in the middle replaces the one who is decided as they are.

    All versions of the two ends agree, so that where versions cross the boundary at different places, some middle lies
    between these.
    """
    if len(np.unique(decided)) < 2:
        return
    first = search.rng.integers(len(people), size=PAIRS)
    second = np.array([search.rng.choice(np.flatnonzero(decided != decided[i])) for i in first])
    ends = [people.iloc[first].reset_index(drop=True), people.iloc[second].reset_index(drop=True)]
    own = decided[first]
    for _ in range(HALVINGS):
        far = _far(search.model.domain, *ends)
        if not far.any() or search.clock.is_up:
            return
        ends, own = [end[far].reset_index(drop=True) for end in ends], own[far]
        middle = _middle(search.model.domain, ends[0], ends[1], search.rng)
        seen = search.look(middle, "people halfway between two who are decided differently")[0][:, 0]
        nearer = pd.Series(seen == own)
        ends = [ends[0].where(~nearer, middle).infer_objects(), ends[1].where(nearer, middle).infer_objects()]


def _far(domain: Domain, one: pd.DataFrame, other: pd.DataFrame) -> np.ndarray:
    """Between whom somebody else may stand: they differ in two features, or by more than a step in one."""
    unlike, steps = np.zeros(len(one), np.int64), np.zeros(len(one), bool)
    for feature in domain.free_features:
        a, b = one[feature.name].to_numpy(), other[feature.name].to_numpy()
        unlike += a != b
        if isinstance(feature, NUMERIC):
            apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
            steps |= apart > (1.0 if feature.kind == "integer" else 0.0)
    return (unlike > 1) | steps


def _middle(domain: Domain, one: pd.DataFrame, other: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Numbers halfway, categories of the one or of the other."""
    found = {}
    for feature in domain.free_features:
        a, b = one[feature.name], other[feature.name]
        if isinstance(feature, NUMERIC):
            half = (a.to_numpy(np.float64) + b.to_numpy(np.float64)) / 2
            if feature.kind == "integer":  # a half goes either way
                half += (rng.random(len(half)) - 0.5) / 2
            found[feature.name] = pd.Series(_on_grid(feature, half))
        else:
            found[feature.name] = a.where(pd.Series(rng.random(len(a)) < 0.5), b)
    return pd.DataFrame(found).infer_objects()


def _on_grid(feature: Feature, values: np.ndarray) -> np.ndarray:
    assert isinstance(feature, NUMERIC)
    held = np.clip(values, feature.low, feature.high)
    return np.round(held).astype(np.int64) if feature.kind == "integer" else held


# --- moving ---


def _move(search: _Search, people: pd.DataFrame) -> None:
    """Change one feature after the other so that the scores of a person's versions come closest to the boundary."""
    domain, rng = search.model.domain, search.rng
    if not domain.free_features:
        return
    decided, scores = search.look(people, "people who were moved towards the boundary", scores=True)
    if scores is None:
        return
    distance = _distance(decided, scores)
    order = np.argsort(distance, kind="stable")[:MOVED]
    here, distance = people.iloc[order].reset_index(drop=True), distance[order]
    for step in range(STEPS):
        feature = domain.free_features[int(rng.integers(len(domain.free_features)))]
        tried = pd.concat([here] * VALUES, ignore_index=True)
        tried[feature.name] = _tries(feature, tried[feature.name].to_numpy(), step, rng)
        if search.clock.is_up:
            return
        decided, scores = search.look(tried, "people who were moved towards the boundary", scores=True)
        if scores is None:
            return
        each = _distance(decided, scores).reshape(VALUES, len(here))
        best = np.argmin(each, axis=0)
        rows = np.arange(len(here))
        better = each[best, rows] < distance
        chosen = tried.iloc[best * len(here) + rows].reset_index(drop=True)
        here = here.where(pd.Series(~better), chosen, axis=0).infer_objects()
        distance = np.where(better, each[best, rows], distance)


def _tries(feature: Feature, values: np.ndarray, step: int, rng: np.random.Generator) -> np.ndarray:
    """Other values of a feature: anywhere at first, then nearer and nearer."""
    if not isinstance(feature, NUMERIC):
        levels = np.array(feature.levels(), dtype=object)
        return levels[rng.integers(len(levels), size=len(values))]
    reach = (feature.high - feature.low) * 0.5 ** (step * rng.random(len(values)))
    return _on_grid(feature, values.astype(np.float64) + reach * (2 * rng.random(len(values)) - 1))


def _distance(decided: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """How far the closest version of each person is from another decision than that of the first."""
    if scores.shape[2] == 1:
        sign = np.where(decided[:, :1] > 0, 1.0, -1.0)
        return (scores[:, :, 0] * sign).min(axis=1)
    own = np.take_along_axis(scores, decided[:, :1, None], axis=2)[:, :, 0]
    others = scores.copy()
    np.put_along_axis(others, np.broadcast_to(decided[:, :1, None], (*scores.shape[:2], 1)), -np.inf, axis=2)
    return (own - others.max(axis=2)).min(axis=1)


# --- counting out ---


def everybody(model: Countable, clock: Clock) -> int | None:
    """How many people there are, if all of them can be asked about in the time."""
    domain = model.domain
    if domain.real_sensitive or any(f.kind == "real" and f.low < f.high for f in domain.free_features):
        return None
    count = math.prod(len(_levels(feature)) for feature in domain.free_features)
    rows = count * Versions(domain).size
    return None if rows > MOST_COUNTED or rows * model.seconds_each > COUNTING * clock.left else count


def _levels(feature: Feature, limit: Limit | None = None) -> Sequence[Value]:
    """The values of a feature, if they are not infinitely many."""
    if feature.kind == "real" and limit is None:
        return (feature.low,)
    if limit is None or None in limit or not isinstance(feature, NUMERIC):
        return feature.levels() if limit is None else limit
    return limit[:1] if feature.kind == "real" else range(int(limit[0]), int(limit[1]) + 1)


def people_in_order(model: Countable, among: Limits | None = None) -> Iterator[pd.DataFrame]:
    """Everybody of a domain, or of these people, one after the other, some at a time."""
    features = model.domain.free_features
    levels = [_levels(feature, among[feature.name] if among else None) for feature in features]
    sizes, versions, start = [len(values) for values in levels], Versions(model.domain).size, 0
    while start < math.prod(sizes):
        numbers = np.arange(start, min(start + model.together(versions), math.prod(sizes)))
        start += len(numbers)
        chosen = places(numbers, sizes) if among is None else places(numbers, sizes[::-1])[::-1]
        yield pd.DataFrame(
            {f.name: np.array(some, dtype=object)[at] for f, some, at in zip(features, levels, chosen, strict=True)},
            index=range(len(numbers)),
        ).infer_objects()


# --- some people only ---


def _among(model: OpaqueModel, among: Limits, timeout: Clock, seed: int) -> Verdict:
    """Falsified with two who were asked about again, or undecided with how many were asked about."""
    versions, asked = Versions(model.domain), 0
    for people in _some_people(model, {**whole_domain(model.domain).limits, **among}, versions.size, seed):
        decided = model.decide(people, versions, scores=False).classes
        asked += len(people)
        for row in np.flatnonzero((decided != decided[:, :1]).any(axis=1))[:REPLAYED]:
            person = {name: plain_level(people[name].iloc[row]) for name in model.domain.free_names}
            other = int(np.argmax(decided[row] != decided[row, 0]))
            twins = replay(model, person, [0, other], versions)
            if twins.unfair_in:
                reason = f"asked about {asked:,} of these people, and about these two again"
                return falsified(model, twins, engine="asking", reason=reason, seconds=timeout.spent)
        if timeout.is_up:
            break
    reason = (
        f"asked about {asked:,} of these people, each as {versions.size:,} versions, and found no twins decided "
        "differently: that is no proof"
    )
    return Verdict("undecided", "none", "asking", (), reason, seconds=timeout.spent)


def _some_people(model: OpaqueModel, among: Limits, versions: int, seed: int) -> Iterator[pd.DataFrame]:
    """These people, all if they are few, else drawn at random; some at a time."""
    features, random = model.domain.free_features, np.random.default_rng([seed, 23])
    endless = any(f.kind == "real" and len(set(among[f.name])) > 1 for f in features)
    if not endless and math.prod(len(_levels(f, among[f.name])) for f in features) <= LISTED:
        yield from people_in_order(model, among)
        return
    start, together = 0, model.together(versions)
    while start < MOST_DRAWN:
        size = min(together, MOST_DRAWN - start)
        start += size
        columns = {f.name: _drawn(f, among[f.name], random.random(size)) for f in features}
        yield pd.DataFrame(columns, index=range(size)).infer_objects()


def _drawn(feature: Feature, limit: Limit, share: np.ndarray) -> np.ndarray:
    """Values so far between the ends."""
    if None in limit or not isinstance(feature, NUMERIC):
        return np.array(limit, dtype=object)[np.round(share * (len(limit) - 1)).astype(np.int64)]
    numbers = float(limit[0]) + share * (float(limit[1]) - float(limit[0]))
    return np.round(numbers).astype(np.int64) if feature.kind == "integer" else numbers
