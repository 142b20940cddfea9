"""Twins who are not in a table, for reports that may show no real person.

A person counts as a row of the table if they agree with it in every feature that twins share; numbers agree if they are
within about a thousandth of their range. Each person shown was replayed on the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.models.protocol import Countable, Decider, Replay
from bornfair.models.verdict import Verdict
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.levels import level_positions
from bornfair.people.tables import as_pandas
from bornfair.quantification.people import Treatment, replayed, treatment
from bornfair.verification.replay import falsified

ROUNDS, TOGETHER = 8, 256  # people tried
REPLAYED = 16  # of each round
STEPS = 1_000  # of a number's range: closer numbers are taken for the same
DRAWN = (0.5, 0.75, 1.0)  # shares of the features that are drawn anew, the others are those of the person found


class ComparedRows:
    """The rows of a table, to be compared with people.

    >>> from bornfair.people.features import IntegerFeature, BooleanFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99), BooleanFeature(name="s")), sensitive=("s",))
    >>> rows = ComparedRows(who, pd.DataFrame({"age": [20, 30], "s": [True, True]}))
    >>> rows.hold([{"age": 30, "s": False}]), rows.hold([{"age": 31, "s": True}])
    (True, False)
    """

    def __init__(self, domain: Domain, table: Any) -> None:
        frame = as_pandas(table)
        moved = {*domain.sensitive, *domain.twin_group.moved}
        self._features = [f for f in domain.features if f.name not in moved and f.name in frame.columns]
        self._codes = self._coded(frame)

    def among(self, people: pd.DataFrame) -> np.ndarray:
        """Which of these people agree with a row."""
        if not self._features:  # nothing tells people of the table from others
            return np.full(len(people), bool(len(self._codes)))
        both = np.concatenate([self._codes, self._coded(people)])
        _, same = np.unique(both, axis=0, return_inverse=True)
        same = same.ravel()
        return np.isin(same[len(self._codes) :], same[: len(self._codes)])

    def hold(self, people: Any) -> bool:
        """Whether one of these people agrees with a row."""
        return bool(self.among(pd.DataFrame(list(people))).any())

    def _coded(self, frame: pd.DataFrame) -> np.ndarray:
        columns = [_codes(feature, frame[feature.name]) for feature in self._features]
        return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0), np.int64)


def with_people_of(
    model: Decider,
    verdict: Verdict,
    table: Any,
    *,
    synthetic: bool = False,
    within: Mapping[str, tuple[Any, ...]] | None = None,
    timeout: Timeout = 60.0,
    seed: int = 0,
) -> Verdict:
    """The verdict, which says whether its twins are in the table. If `synthetic` and they are, other twins are searched
    for; if none are found, the verdict shows nobody.

    within: the twins must be people with these values, as {"age": (30, 40), "job": ("nurse",)}.
    """
    if not verdict.twins or table is None:
        return verdict
    rows = ComparedRows(model.domain, table)
    if not rows.hold(verdict.twins):
        return dataclasses.replace(verdict, shown="synthetic")
    if not synthetic:
        return dataclasses.replace(verdict, shown="real")
    if not isinstance(model, Countable):
        return without_people(verdict, "they are real")
    found, tried = _other_twins(model, verdict.twins[0], rows, within or {}, Clock.of(timeout), seed)
    if found is None:
        return without_people(verdict, f"{tried:,} other people were tried")
    reason = f"{verdict.reason}; the twins shown are others, found among {tried:,} people drawn from the domain"
    told = falsified(model, found, engine=verdict.engine, reason=reason)
    kept = {name: getattr(verdict, name) for name in ("partitions", "boxes", "seconds", "notes")}
    return dataclasses.replace(told, **kept, shown="synthetic")


def shown_by_rows(
    model: Decider, table: Any, *, treated: Treatment | None = None, timeout: Timeout, seed: int = 0
) -> Verdict | None:
    """What the rows of a table say of a model if a search without the table came to no end: that it is not fair, if one
    of them is decided otherwise than a twin. `treated`: the treatment of the table, where it is known already.
    """
    if table is None or not isinstance(model, Countable):
        return None
    frame = as_pandas(table)
    treated = treatment(model, frame, timeout=timeout, seed=seed) if treated is None else treated
    judged, method = frame.iloc[treated.rows], model.row_method()
    rows = np.flatnonzero(~treated.fair & ~model.domain.outside(judged))[:REPLAYED]
    found = next(replayed(method, judged, treated, rows), None)
    if found is None:
        return None
    return falsified(
        model, found[2], engine=method.engine, reason=f"rows of the table; {len(judged):,} people tried"
    )  # fmt: skip


def without_people(verdict: Verdict, why: str) -> Verdict:
    """The verdict without its twins, as somebody real could be recognised."""
    if not verdict.twins:
        return verdict
    return dataclasses.replace(
        verdict, twins=None, decisions=None, shown="hidden", reason=f"{verdict.reason}; its twins are not shown: {why}"
    )


def _other_twins(
    model: Countable,
    known: Mapping[str, Any],
    rows: ComparedRows,
    within: Mapping[str, tuple[Any, ...]],
    clock: Clock,
    seed: int,
) -> tuple[Replay | None, int]:
    """Twins who are decided differently and agree with no row, and how many people were tried."""
    tried = 0
    for people in _candidates(model.domain, known, within, seed):
        people = people[~rows.among(people)].reset_index(drop=True)
        tried += len(people)
        if not len(people):
            continue
        treated = treatment(model, people, timeout=clock.part())
        unfair = np.flatnonzero(~treated.fair)[:REPLAYED]
        for _, _, found in replayed(model.row_method(), people.iloc[treated.rows], treated, unfair):
            if not rows.hold(found.people):
                return found, tried
        if clock.is_up:
            break
    return None, tried


def _candidates(
    domain: Domain, known: Mapping[str, Any], within: Mapping[str, tuple[Any, ...]], seed: int
) -> Iterator[pd.DataFrame]:
    """People of the domain by chance; some are like the known one in up to half of the features."""
    rng = np.random.default_rng([seed, 23])
    for turn in range(ROUNDS):
        drawn = domain.sample(TOGETHER, seed=int(rng.integers(2**31)))
        people = {}
        share = rng.choice(DRAWN, size=TOGETHER) if turn else np.ones(TOGETHER)
        for feature in domain.free_features:
            if feature.name in within:
                drawn[feature.name] = _limited(feature, within[feature.name], rng)
            other = rng.random(TOGETHER) < share
            own = pd.Series([known[feature.name]] * TOGETHER, dtype=object)
            people[feature.name] = own.where(~other, drawn[feature.name].astype(object))
        yield drawn.assign(**{name: column.infer_objects() for name, column in people.items()})[list(domain.names)]


def _limited(feature: Feature, limits: tuple[Any, ...], rng: np.random.Generator) -> Any:
    if not isinstance(feature, NUMERIC):
        return np.array(limits, dtype=object)[rng.integers(len(limits), size=TOGETHER)]
    if limits[0] is None:
        return np.full(TOGETHER, np.nan)
    low, high = limits[0], limits[-1]
    if feature.kind == "integer":
        return rng.integers(int(low), int(high), size=TOGETHER, endpoint=True)
    return rng.uniform(low, high, TOGETHER)


def _codes(feature: Feature, column: pd.Series) -> np.ndarray:
    """Whole numbers that are equal if two people have the same value; −1 for a gap."""
    if not isinstance(feature, NUMERIC):
        return level_positions(feature, column).astype(np.int64)
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    step = 1.0 if feature.kind == "integer" else (feature.high - feature.low) / STEPS or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        places = np.clip(np.round((numbers - feature.low) / step), -(2.0**40), 2.0**40)
    return np.where(np.isnan(places), -1 - 2.0**41, places).astype(np.int64)
