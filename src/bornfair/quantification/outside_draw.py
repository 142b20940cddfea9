"""Whom does a model that can only be asked decide about? People drawn from the domain, in raw values.

Each free feature has its own distribution: uniform unless marginals are given, within a sub-population if one is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import InputError, shown
from bornfair.models.protocol import Countable
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.space.partition import Limit, Where
from bornfair.people.space.subpopulation import limits_of
from bornfair.people.space.variables import Marginal
from bornfair.people.twins.versions import Versions

Column = Callable[[int, np.random.Generator], np.ndarray]
"""So many values of one feature, drawn at random."""


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
) -> Callable[[int, list[int], Clock], tuple[pd.DataFrame, np.ndarray]]:
    """A function that draws people: raw free values, and whose twins are decided differently."""
    drawn, versions = Drawn(model.domain, marginals, where), Versions(model.domain)

    def draw(count: int, seed: list[int], clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        rng, people, marks, seen = np.random.default_rng(seed), list[pd.DataFrame](), list[np.ndarray](), 0
        while seen < count and (not seen or not clock.is_up):
            some = drawn(min(model.together(versions.size, clock.left), count - seen), rng)
            people.append(some)
            marks.append(unfair_among(model, some, versions))
            seen += len(some)
        return pd.concat(people, ignore_index=True), np.concatenate(marks)

    return draw
