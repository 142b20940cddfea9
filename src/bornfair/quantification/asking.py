"""Share of people whom a model that is only run treats unfairly, with a confidence interval; nothing is proven.

People are drawn from the whole domain; the rows of a table, and a domain of few people, are asked about one by one.
Those who are found unfair are asked about again, so that noise does not count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.protocol import Countable, Unsteady
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.inference import gap_share
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
from bornfair.quantification.records import NOTHING_SEEN, SURE, Confident, Estimate, Shares
from bornfair.verification.asking import everybody, people_in_order
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP

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
        self.some_only = bool(model.domain.real_sensitive)
        """Whether who is fair for the values asked about may be unfair for others."""

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

    def together(self, left: float) -> int:
        return self.model.together(self.versions.size, left)

    def shares(self, guess: Estimate, confident: Confident, reason: str, where: Where | None) -> Shares:
        note = f"; {self.model.note}" if self.model.note else ""
        what = "others" if self.model.is_read else "a model that is not read"
        told = f"{reason}; {self.count:,} people were asked about, nothing is proven of {what}{note}"
        return Shares(
            0.0, 0.0, guess, 0, self.clock.spent, told, (), reason == INTERRUPTED, confident=confident, where=where,
            asked=self.count,
        )  # fmt: skip

    def one_by_one(self, people: Iterator[pd.DataFrame], total: int, reason: str, where: Where | None) -> Shares:
        """Everybody of few, asked about once; those for whom there is no time count as either. `reason`: that all
        were asked about.
        """
        try:
            for some in people:
                self(some)
                if self.clock.is_up and self.count < total:
                    reason = TIME_IS_UP
                    break
        except KeyboardInterrupt:
            reason = INTERRUPTED
        low = self.unfair / total
        high = 1.0 if self.some_only else min(low + (total - self.count) / total, 1.0)
        guess = Estimate(low, low, high, self.count)
        return self.shares(guess, Confident(low, high, SURE, self.count), reason, where)


def shares_by_asking(
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
        return asked.one_by_one(
            people_in_order(model), total, f"all {total:,} people of the domain were asked about", None
        )
    looks, reason, guess = Looks(confidence), TIME_IS_UP, NOTHING_SEEN

    def draw(count: int, rng: np.random.Generator) -> tuple[int, int]:
        unfair = int(asked(drawn(count, rng)).sum())
        return unfair, count - unfair if asked.some_only else 0

    try:
        guess = _estimated(asked, drawn, looks, clock.part(SAMPLING), np.random.default_rng([seed, 271828]))
        narrow = max(precision, NARROW)
        needed = needed_samples(guess.unfair, 1.0, looks, narrow)
        affordable = PLANNED * clock.left / max(model.seconds_each * asked.versions.size, 1e-9)
        take_looks(
            looks, draw, Parts(), max(min(needed, affordable), 1.0), clock, seed, narrow=narrow, most=MOST,
            together=asked.together(clock.left / 2),
        )  # fmt: skip
        if looks.width <= narrow:
            reason = "the interval is narrow enough"
        elif not clock.is_up:
            reason = "enough people were asked about"
    except KeyboardInterrupt:
        reason = INTERRUPTED
    return asked.shares(guess, looks.within(0.0, 0.0), reason, where)


def _estimated(asked: _Asked, drawn: Drawn, looks: Looks, clock: Clock, rng: np.random.Generator) -> Estimate:
    """A first sample, as large as the time allows."""

    def some(most: int) -> tuple[np.ndarray, np.ndarray]:
        found = asked(drawn(min(max(asked.together(clock.left), 16), most), rng))
        return found, ~found & asked.some_only

    first = FirstSample.drawn(SAMPLES, some, clock)
    looks.look_first(first)
    return Sample.of(first).estimate()


def shares_of_rows_by_asking(
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
            some = order[start : start + asked.together(clock.left)]
            start += len(some)
            yield frame.iloc[some]

    found = asked.one_by_one(batches(), len(frame), "every row was asked about", where)
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
    if not isinstance(feature, NUMERIC):
        levels = feature.levels() if limit is None else limit
        if marginal is not None:
            return _weighted(feature, [value for value in marginal if value in levels], marginal, object)
        every = np.array(levels, dtype=object)
        return lambda count, rng: every[rng.integers(len(every), size=count)]
    low, high = (feature.low, feature.high) if limit is None else limit
    if marginal is None or feature.low == feature.high:
        gaps = gap_share(feature) if marginal is None else marginal.get(None, 0.0) / sum(marginal.values())
        share = gaps if limit is None else 0.0

        def uniform(count: int, rng: np.random.Generator) -> np.ndarray:
            if feature.kind == "integer":
                found: np.ndarray = rng.integers(int(low), int(high), count, endpoint=True)
            else:
                found = rng.uniform(float(low), float(high), count)
            return np.where(rng.random(count) < share, np.nan, found) if share else found

        return uniform
    known = [value for value in marginal if value is not None]
    missing = [None] if None in marginal and limit is None else []
    if feature.kind == "integer":
        values = [*(value for value in known if low <= value <= high), *missing]
        return _weighted(feature, values, marginal, np.float64 if missing else np.int64)
    pieces = [(np.nan, np.nan, float(marginal[gap])) for gap in missing]
    for first, last in known:  # ranges that are cut at the ends of a sub-population
        weight = marginal[first, last]
        a, b = max(first, float(low)), min(last, float(high))
        whole = last - first
        if b > a or (whole == 0 and float(low) <= first <= float(high)):
            pieces.append((a, b, float(weight) * ((b - a) / whole if whole else 1.0)))
    chances = _chances(feature, [weight for _, _, weight in pieces])
    starts, ends, _ = np.array(pieces).T

    def ranges(count: int, rng: np.random.Generator) -> np.ndarray:
        at = rng.choice(len(chances), size=count, p=chances)
        return starts[at] + rng.random(count) * (ends - starts)[at]

    return ranges


def _weighted(feature: Feature, values: Sequence[Any], weights: Mapping[Any, float], kind: type) -> Column:
    found: np.ndarray = np.array(values, dtype=kind)
    chances = _chances(feature, [weights[value] for value in values])
    return lambda count, rng: found[rng.choice(len(found), size=count, p=chances)]


def _chances(feature: Feature, weights: Sequence[float]) -> np.ndarray:
    found = np.array(weights, np.float64)
    if not len(found) or not np.isfinite(found).all() or found.min() < 0 or not found.sum() > 0:
        raise InputError(f"nobody is left: no value of '{feature.name}' that belongs here has any weight; widen it.")
    return found / found.sum()


def unfair_among(model: Countable, people: pd.DataFrame, versions: Versions) -> np.ndarray:
    """Whose versions are decided differently, some people at a time."""
    parts, start = [np.zeros(0, bool)], 0
    while start < len(people):
        some = people.iloc[start : start + model.together(versions.size)]
        start += len(some)
        decided = model.decide(some, versions, scores=False).classes
        parts.append((decided != decided[:, :1]).any(axis=1))
    return np.concatenate(parts)


def asking_draw(
    model: Countable, marginals: Mapping[str, Marginal] | None, where: Where | None
) -> Callable[[int, np.random.Generator, Clock], tuple[pd.DataFrame, np.ndarray]]:
    """Draws people in raw values, and tells whose twins are decided unlike."""
    drawn, versions = Drawn(model.domain, marginals, where), Versions(model.domain)

    def some(most: int, rng: np.random.Generator, clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        people = drawn(min(model.together(versions.size, clock.left), most), rng)
        return people, unfair_among(model, people, versions)

    return some
