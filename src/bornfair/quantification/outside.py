"""How many people does a model that can only be asked treat unfairly? Between which shares, almost certainly.

Nothing is proven, so that the whole domain is what is drawn from; the rows of a table, and a domain of few people, are
asked about one by one. Those who are found unfair are asked about again: noise is no unfairness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.protocol import Countable, Unsteady
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.space.subpopulation import Limit, Where, limits_of
from bornfair.people.space.variables import Marginal
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions
from bornfair.quantification.confident import (
    NARROW,
    FirstSample,
    Looks,
    Parts,
    Sample,
    needed_samples,
    take_looks,
)
from bornfair.quantification.records import SURE, Confident, Estimate, Shares
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP
from bornfair.verification.outside_search import everybody, people_in_order

SAMPLES = 100_000  # for the estimate, at most
SAMPLING = 0.2  # share of the time for these
PLANNED = 0.9  # of the time that is left: the look that is planned must not come too late
MOST = 4_000_000
ASKED_AGAIN = 64  # of those who are found unfair
Column = Callable[[int, np.random.Generator], np.ndarray]
"""So many values of one feature, drawn at random."""


class _Asked:
    """People who are asked about, and those of them who are found unfair, as long as the model stays by it."""

    def __init__(self, model: Countable, clock: Clock) -> None:
        self.model, self.clock, self.versions, self.again = model, clock, Versions(model.domain), 0
        self.count = self.unfair = 0

    def __call__(self, people: pd.DataFrame) -> np.ndarray:
        found = unfair_among(self.model, people, self.versions)
        doubtful = np.flatnonzero(found)[: max(ASKED_AGAIN - self.again, 0)]
        if len(doubtful):
            self.again += len(doubtful)
            if not unfair_among(self.model, people.iloc[doubtful[::-1]], self.versions).all():
                raise Unsteady(self.model.unsteady_text)
        self.count, self.unfair = self.count + len(people), self.unfair + int(found.sum())
        self.clock.report(lambda: f"{self.unfair:,} of {self.count:,} people have a twin who is decided otherwise")
        return found


def shares_outside(
    model: Countable,
    *,
    timeout: Timeout = 60.0,
    precision: float = 0.0,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    confidence: float = SURE,
    seed: int = 0,
) -> Shares:
    """The interval that holds the unfair share with so much `confidence`, and an estimate beside; nothing is proven.

    precision: stop when the interval is no wider.
    """
    clock = Clock.of(timeout)
    model.domain.require_sensitive()
    model.require_steady()
    if verdict := model.structure():
        return Shares(
            1.0, 0.0, None, 0, clock.spent, verdict.reason, verdict.arithmetic,
            confident=Confident(0.0, 0.0), where=where,
        )  # fmt: skip
    drawn, asked = Drawn(model.domain, marginals, where), _Asked(model, clock)
    total = everybody(model, clock) if drawn.is_uniform else None
    if total is not None:
        told = f"all {total:,} people of the domain were asked about"
        return _one_by_one(asked, people_in_order(model), total, told, None)
    looks, reason = Looks(confidence), TIME_IS_UP
    guess = Estimate(0.0, 0.0, 1.0, 0)
    some_only = bool(model.domain.real_sensitive)  # who is fair for some values may be unfair for others

    def draw(count: int, rng: np.random.Generator) -> tuple[int, int]:
        unfair = int(asked(drawn(count, rng)).sum())
        return unfair, count - unfair if some_only else 0

    try:
        guess = _estimated(asked, drawn, looks, clock.part(SAMPLING), seed, some_only=some_only)
        narrow = max(precision, NARROW)
        needed = needed_samples(guess.unfair, 1.0, looks, narrow)
        affordable = PLANNED * clock.left / max(model.seconds_each * asked.versions.size, 1e-9)
        take_looks(
            looks, draw, Parts(), max(min(needed, affordable), 1.0), clock, seed, narrow=narrow, most=MOST,
            together=model.together(asked.versions.size, clock.left / 2),
        )  # fmt: skip
        if looks.width <= narrow:
            reason = "the interval is narrow enough"
        elif not clock.is_up:
            reason = "enough people were asked about"
    except KeyboardInterrupt:
        reason = INTERRUPTED
    seen = looks.within(0.0, 0.0)
    return Shares(
        0.0, 0.0, guess, 0, clock.spent, _reason(model, reason, asked), (), reason == INTERRUPTED, confident=seen,
        where=where, asked=asked.count,
    )  # fmt: skip


def _estimated(asked: _Asked, drawn: Drawn, looks: Looks, clock: Clock, seed: int, *, some_only: bool) -> Estimate:
    """A first sample, as large as the time allows."""
    rng = np.random.default_rng([seed, 271828])

    def some(most: int) -> tuple[np.ndarray, np.ndarray]:
        found = asked(drawn(min(max(asked.model.together(asked.versions.size, clock.left), 16), most), rng))
        return found, ~found & some_only

    first = FirstSample.drawn(SAMPLES, some, clock)
    looks.look_first(first)
    return Sample.of(first).estimate()


def _one_by_one(
    asked: _Asked, people: Iterator[pd.DataFrame], total: int, all_asked: str, where: Where | None
) -> Shares:
    """Everybody of few, asked about once; those for whom there is no time count as either."""
    reason, interrupted = all_asked, False
    try:
        for some in people:
            asked(some)
            if asked.clock.is_up and asked.count < total:
                reason = TIME_IS_UP
                break
    except KeyboardInterrupt:
        reason, interrupted = INTERRUPTED, True
    low = asked.unfair / total
    some_only = bool(asked.model.domain.real_sensitive)  # who is fair for some values may be unfair for others
    high = 1.0 if some_only else min(low + (total - asked.count) / total, 1.0)
    return Shares(
        0.0, 0.0, Estimate(low, low, high, asked.count), 0, asked.clock.spent, _reason(asked.model, reason, asked), (),
        interrupted, confident=Confident(low, high, SURE, asked.count), where=where, asked=asked.count,
    )  # fmt: skip


def _reason(model: Countable, reason: str, asked: _Asked) -> str:
    note, what = f"; {model.note}" if model.note else "", "others" if model.is_read else "a model that is not read"
    return f"{reason}; {asked.count:,} people were asked about, nothing is proven of {what}{note}"


def rows_outside_measured(
    model: Countable, table: Any, *, where: Where | None = None, timeout: Timeout = 60.0, seed: int = 0
) -> Shares:
    """How many rows of a table have a twin who is decided otherwise, each asked about as all their versions.

    Rows for which there is no time count as either.
    """
    clock, frame = Clock.of(timeout), as_pandas(table)
    model.domain.require_sensitive()
    model.require_steady()
    asked, order = _Asked(model, clock), np.random.default_rng([seed, 5]).permutation(len(frame))

    def batches() -> Iterator[pd.DataFrame]:
        start = 0
        while start < len(frame):
            some = order[start : start + model.together(asked.versions.size, clock.left)]
            start += len(some)
            yield frame.iloc[some]

    found = _one_by_one(asked, batches(), len(frame), "every row was asked about", where)
    return dataclasses.replace(found, boxes=len(frame))


# --- people drawn from the domain, in raw values ---


class Drawn:
    """Draws people: raw free values.

    >>> from bornfair.people.features import CategoricalFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99),
    ...     CategoricalFeature(name="sex", categories=("f", "m"))), sensitive=("sex",))
    >>> people = Drawn(who, where={"age": (30, 40)})(1000, np.random.default_rng(0))
    >>> int(people["age"].min()), int(people["age"].max())
    (30, 40)
    """

    def __init__(
        self, domain: Domain, marginals: Mapping[str, Marginal] | None = None, where: Where | None = None
    ) -> None:
        unknown = [name for name in marginals or () if name not in domain.free_names]
        if unknown:
            raise InputError(
                f"marginals name {shown(unknown)}, which is no free feature; name {shown(domain.free_names)}."
            )
        limits = limits_of(domain, where) if where else {}
        self.domain, self.is_uniform = domain, not marginals and not where
        self._columns: dict[str, Column] = {
            f.name: _column(f, (marginals or {}).get(f.name), limits.get(f.name)) for f in domain.free_features
        }
        moved = domain.twin_group.moved
        self._mirrored = [f for f in domain.free_features if f.name in moved and f.kind == "real"]

    def __call__(self, count: int, rng: np.random.Generator) -> pd.DataFrame:
        found = {name: draw(count, rng) for name, draw in self._columns.items()}
        for feature in self._mirrored:  # where both somebody's number and their twin's are floats
            assert isinstance(feature, NUMERIC)
            total = feature.low + feature.high
            found[feature.name] = np.clip(total - (total - found[feature.name]), feature.low, feature.high)
        return pd.DataFrame(found, index=range(count)).infer_objects()


def _column(feature: Feature, marginal: Marginal | None, limit: Limit | None) -> Column:
    if marginal is not None and not (isinstance(feature, NUMERIC) and feature.low == feature.high):
        return _weighted(feature, marginal, limit)
    if isinstance(feature, NUMERIC):
        low, high = (feature.low, feature.high) if limit is None else limit
        if feature.kind == "integer":
            return lambda count, rng: rng.integers(int(low), int(high), count, endpoint=True)
        return lambda count, rng: rng.uniform(float(low), float(high), count)
    levels = np.array(feature.levels() if limit is None else limit, dtype=object)
    return lambda count, rng: levels[rng.integers(len(levels), size=count)]


def _weighted(feature: Feature, marginal: Mapping[Any, float], limit: Limit | None) -> Column:
    """By weights of values; of a real number, of ranges that are cut at the ends of a sub-population."""
    if feature.kind == "real":
        assert isinstance(feature, NUMERIC)
        low, high = (feature.low, feature.high) if limit is None else limit
        pieces = []
        for (first, last), weight in marginal.items():
            a, b = max(first, float(low)), min(last, float(high))
            whole = last - first
            if b > a or (whole == 0 and float(low) <= first <= float(high)):
                pieces.append((a, b, float(weight) * ((b - a) / whole if whole else 1.0)))
        starts, ends, weights = (np.array(part) for part in zip(*pieces, strict=True)) if pieces else ((), (), ())
        chances = _chances(feature, np.array(weights))

        def ranges(count: int, rng: np.random.Generator) -> np.ndarray:
            at = rng.choice(len(chances), size=count, p=chances)
            return np.array(starts)[at] + rng.random(count) * (np.array(ends) - np.array(starts))[at]

        return ranges
    kept = {value: float(weight) for value, weight in marginal.items() if _within(feature, value, limit)}
    values = np.array(list(kept), dtype=np.int64 if isinstance(feature, NUMERIC) else object)
    chances = _chances(feature, np.array(list(kept.values())))
    return lambda count, rng: values[rng.choice(len(values), size=count, p=chances)]


def _within(feature: Feature, value: Any, limit: Limit | None) -> bool:
    if isinstance(feature, NUMERIC):
        low, high = (feature.low, feature.high) if limit is None else limit
        return bool(low <= value <= high)
    return value in (feature.levels() if limit is None else limit)


def _chances(feature: Feature, weights: np.ndarray) -> np.ndarray:
    if not len(weights) or not np.isfinite(weights).all() or weights.min() < 0 or not weights.sum() > 0:
        raise InputError(f"nobody is left: no value of '{feature.name}' that belongs here has any weight; widen it.")
    return weights / weights.sum()


def unfair_among(model: Countable, people: pd.DataFrame, versions: Versions) -> np.ndarray:
    """Whose versions are decided differently, some people at a time."""
    parts, start = [np.zeros(0, bool)], 0
    while start < len(people):
        some = people.iloc[start : start + model.together(versions.size)]
        start += len(some)
        decided = model.decide(some, versions, scores=False).classes
        parts.append((decided != decided[:, :1]).any(axis=1))
    return np.concatenate(parts)


def outside_draw(
    model: Countable, marginals: Mapping[str, Marginal] | None, where: Where | None
) -> Callable[[int, np.random.Generator, Clock], tuple[pd.DataFrame, np.ndarray]]:
    """Draws people in raw values, and tells whose twins are decided unlike."""
    drawn, versions = Drawn(model.domain, marginals, where), Versions(model.domain)

    def some(most: int, rng: np.random.Generator, clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        people = drawn(min(model.together(versions.size, clock.left), most), rng)
        return people, unfair_among(model, people, versions)

    return some
