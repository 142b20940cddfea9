"""Treatment of the rows of a table: who is decided unlike a twin, whom it affects most, and what would undo it.

Everybody is decided as every version. Nothing is shown that was not replayed from raw values by what is executed: the
original of an imported model. Kinds differ in how rows are looked at (`bornfair.models.protocol.RowMethod`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, plain
from bornfair.models.network.lens import lead_ranges
from bornfair.models.protocol import Countable, Decided, Replay, RowMethod, Unsteady
from bornfair.models.verdict import Verdict
from bornfair.people.features import Value
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions, person_of_row
from bornfair.quantification.records import Affected, People, ThresholdCurve
from bornfair.verification.replay import falsified, replay


@dataclass(frozen=True, eq=False)
class Treatment:
    """How the rows of a table are treated. Arrays have one entry per row; versions are the values of S in order."""

    fair: np.ndarray  # bool: all versions get one decision
    own: np.ndarray  # the version the row itself is; where the table does not say, the one of the most telling pair
    twin: np.ndarray  # the version that shows the unfairness; the row's own where there is none
    decided: np.ndarray  # class indices [rows, versions], in float32; of an imported model by its original
    scores: np.ndarray  # float32 [rows, versions, outputs]
    gap: np.ndarray  # how far apart the two scores of the class that separates the twins lie; 0 where fair
    known: np.ndarray  # bool: the table says which version the row is
    rows: np.ndarray  # positions in the table: all of them, or as many, drawn at random, as there was time for

    def affected(
        self, model: Countable, frame: pd.DataFrame, row: int, twins: Replay, undo: Mapping[str, Any] | None = None
    ) -> Affected:
        """The record of a row whose own version and twin were replayed, and are decided differently."""
        names, decided = model.class_names, twins.decisions[twins.unfair_in[0]]
        return Affected(
            row=plain(frame.index[row]),
            person=dict(twins.people[0]),
            twin=dict(twins.people[1]),
            decisions=tuple(names[index] for index in decided),
            scores=tuple(self.scores[row, version].tolist() for version in (self.own[row], self.twin[row]))
            if model.shows_scores
            else (),
            gap=float(self.gap[row]) if model.shows_scores else None,
            undo=undo,
        )


def telling_pair(
    versions: Versions, scores: np.ndarray, decided: np.ndarray, own: np.ndarray, known: np.ndarray, fair: np.ndarray
) -> np.ndarray:
    """Two versions [rows, 2] that are decided differently, if there are: the row's own first, few attributes apart."""
    levels = versions.levels
    found = np.stack([own, own], axis=1)
    if len(unknown := np.flatnonzero(~known)):
        leads = lead_ranges(scores[unknown].astype(np.float64))
        klass = leads.klass[:, None]
        ends = [np.take_along_axis(at, klass, axis=1)[:, 0] for at in (leads.high_at, leads.low_at)]
        found[unknown] = np.stack(ends, axis=1)
    for row in np.flatnonzero(known & ~fair):
        others = np.flatnonzero(decided[row] != decided[row, own[row]])
        if not len(others):  # it is others of its versions that differ, or the two differ in exact arithmetic only
            others = np.flatnonzero(np.arange(scores.shape[1]) != own[row])
        apart = (levels[others] != levels[own[row]]).sum(axis=1)
        far = np.abs(scores[row, others] - scores[row, own[row]]).max(axis=1)
        found[row, 1] = others[np.lexsort((-far, apart))[0]]
    return found


def distance(scores: np.ndarray, own: np.ndarray, twin: np.ndarray) -> np.ndarray:
    rows = np.arange(len(scores))
    one, other = scores[rows, own].astype(np.float64), scores[rows, twin].astype(np.float64)
    return np.abs(one - other).max(axis=1)


# --- how rows are treated ---


def treatment(model: Countable, table: Any, *, timeout: Timeout = math.inf, seed: int = 0) -> Treatment:
    """Is each row of a table treated as its twins are? Sensitive columns may be absent.

    Of a real-valued sensitive feature a network and a model that is only run are asked about the levels of its grid:
    whoever is unfair is, others may be. Where `timeout` is too short for all rows, some are judged that are drawn at
    random.
    """
    frame, clock = as_pandas(table), Clock.of(timeout)
    model.domain.require_sensitive()
    method = model.row_method()
    if (alike := method.alike(frame)) is not None:
        return _all_alike(alike, known=model.original is None)
    count = len(frame)
    order = np.arange(count) if clock.timeout == math.inf else np.random.default_rng([seed, 5]).permutation(count)
    parts: list[Treatment] = []
    done, each = 0, math.inf  # rows judged, and the seconds that each took when nothing was compiled
    while not parts or (done < count and (done < method.fewest or not clock.is_up)):
        began = clock.now()
        size = method.size(clock.deadline - began, each if len(parts) > 1 else math.inf)
        rows = order[done : done + size]
        try:
            parts.append(_judged(method, frame.iloc[rows], rows))
        except InputError:
            method.check(frame)
            raise
        done, each = done + max(len(rows), 1), min(each, (clock.now() - began) / max(len(rows), 1))
        method.progress(clock, done, count)
    by_row = np.argsort(np.concatenate([part.rows for part in parts]))
    joined = (np.concatenate([getattr(part, field.name) for part in parts])[by_row] for field in fields(Treatment))
    return Treatment(*joined)


def _judged(method: RowMethod, frame: pd.DataFrame, rows: np.ndarray) -> Treatment:
    """The treatment of some rows."""
    found = method.decide(frame)
    decided, scores = found.classes, found.scores
    assert scores is not None
    own, known = method.own(frame)
    fair = method.settled(frame, scores, (decided == decided[:, :1]).all(axis=1))
    first = known | (not method.compares_leads)
    pair = telling_pair(method.versions, scores, decided, own, first, fair)
    own = np.where(first, own, pair[:, 0])
    twin = np.where(fair, own, pair[:, 1])
    gap = np.where(fair, 0.0, distance(scores, own, twin))
    return Treatment(fair, own, twin, decided, scores, gap, known, rows)


def _all_alike(found: Decided, *, known: bool) -> Treatment:
    """Everybody is decided as their twins are, and shown as one version."""
    assert found.scores is not None
    count = len(found.classes)
    first = np.zeros(count, np.int64)
    return Treatment(
        np.ones(count, bool), first, first, found.classes, found.scores, np.zeros(count), np.full(count, known),
        np.arange(count),
    )  # fmt: skip


def own_decisions(model: Countable, table: pd.DataFrame, treated: Treatment) -> np.ndarray:
    """The class of each row as it stands; −1 where its sensitive value is not known, and the decision hangs on it.

    Rows that were judged as the version they are, are not decided again; a model that is only run is asked about no
    other rows. A model that fills in a missing sensitive value is given the gap it fills.
    """
    found, judged = np.full(len(table), -1), treated.rows
    own = treated.decided[np.arange(len(judged)), treated.own]
    found[judged] = np.where(treated.known, own, np.where(treated.fair, treated.decided[:, 0], -1))
    if not model.is_read:
        return found
    names, original = model.domain.sensitive, model.original
    reads = not model.ignores_sensitive if original is None else bool(set(names) & set(original.reads))
    left = np.ones(len(table), bool)
    left[judged[treated.known]] = False
    for name in (n for n in names if not model.domain.feature(n).missing) if reads else ():
        there = table[name].notna().to_numpy() if name in table.columns else np.zeros(len(table), bool)
        if name in table.columns and name in model.fills:
            table = table.assign(**{name: table[name].astype(object).where(there, model.fills[name]).infer_objects()})
        else:
            left &= there
    if left.any():
        found[left] = model.decide(table[left], scores=False).classes[:, 0]
    return found


# --- whom it affects ---


def most_affected(
    model: Countable,
    table: Any,
    most: int = 10,
    *,
    treated: Treatment | None = None,
    timeout: Timeout = math.inf,
) -> list[Affected]:
    """The unfair rows whose scores depend most on the sensitive values, each with a twin and what would undo it.

    `undo` names the smallest change of other features after which all versions get one decision: as few features as
    possible (one or two), then as little of their ranges as possible; None where none was found. It was replayed.
    treated: the table's `treatment`, where it is known already. When time is up, no more are shown.
    """
    if most < 0:
        raise InputError(f"most must be at least 0, found {most}.")
    found, clock = treatment(model, table) if treated is None else treated, Clock.of(timeout)
    frame, order = as_pandas(table).iloc[found.rows], _unfair(found)
    if not most or not len(order):
        return []
    method, records = model.row_method(), list[Affected]()
    for row, person, twins in replayed(method, frame, found, order[: method.tries * most], clock, as_given=True):
        share = 1 / max(min(most, len(order)) - len(records), 1)
        undo = _undo(method, person, clock if clock.timeout == math.inf else clock.part(share))
        records.append(found.affected(model, frame, row, twins, undo))
        if len(records) == most:
            break
    return records


def people_of(
    model: Countable,
    table: Any,
    most: int = 10,
    *,
    treated: Treatment | None = None,
    timeout: Timeout = math.inf,
) -> People:
    """How many rows of a table have a twin who is decided otherwise, and those whom it affects most."""
    found = treatment(model, table) if treated is None else treated
    values = model.domain.sensitive_space.size if model.some_values_only else None
    affected = most_affected(model, table, most, treated=found, timeout=timeout)
    count = len(as_pandas(table))
    drawn_from = count if count > len(found.rows) else None
    return People(len(found.fair), int((~found.fair).sum()), tuple(affected), values, drawn_from=drawn_from)


def shown_by(model: Countable, table: Any, treated: Treatment) -> Verdict | None:
    """What people of a table who are treated unlike a twin say of the model: that it is not fair, by the first of them,
    the most affected before all others, who is of the domain and was replayed.
    """
    frame, method = as_pandas(table).iloc[treated.rows], model.row_method()
    order = _unfair(treated)
    order = order[~model.domain.outside(frame.iloc[order])][: method.replayed]
    try:
        found = next(replayed(method, frame, treated, order, steady=True), None)
    except Unsteady as error:
        return Verdict("undecided", "none", method.engine, (), str(error).rstrip("."))
    if found is None:
        return None
    return falsified(model, found[2], engine=method.engine, reason=method.tried(len(frame)))


def _unfair(treated: Treatment) -> np.ndarray:
    """The rows that are treated unlike a twin, the most affected first."""
    unfair = np.flatnonzero(~treated.fair)
    return unfair[np.argsort(-treated.gap[unfair], kind="stable")]


def replayed(
    method: RowMethod,
    frame: pd.DataFrame,
    treated: Treatment,
    rows: np.ndarray,
    clock: Clock | None = None,
    *,
    as_given: bool = False,
    steady: bool = False,
) -> Iterator[tuple[int, dict[str, Value], Replay]]:
    """Those of some rows of the judged table who are decided unlike their twin when both are replayed.

    as_given: as the row stands, and not as its version. steady: whether to raise `Unsteady` rather than go on.
    """
    for row in map(int, rows):
        if clock is not None and clock.is_up:
            return
        person = person_of_row(method.model.domain, frame, row)
        if person is None:
            continue
        pair = [int(treated.own[row]), int(treated.twin[row])]
        try:
            twins = method.model.replay(method.pair(person, pair, frame.iloc[row] if as_given else None), pair)
        except Unsteady:
            if steady:
                raise
            continue
        if twins.unfair_in:
            yield row, person, twins


# --- wherever it decides ---

MOST_POINTS = 64  # of the curve, besides those that matter most


def threshold_curve(model: Countable, outputs: np.ndarray) -> ThresholdCurve | None:
    """The curve for people whose versions have these outputs [rows, versions, outputs]; None for more than two
    classes, or where nobody's score changes.

    A person with scores from low to high over all their versions is decided unequally at the thresholds between: at or
    above low, below high. So one look at everybody's versions answers for every threshold.
    """
    if outputs.shape[-1] > 1 or not len(outputs):
        return None
    logits, own = model.threshold_axis(outputs[..., 0])
    show = model.share_of_last
    low, high = logits.min(axis=1), logits.max(axis=1)
    if not np.isfinite(logits).all() or not (high > low).any():
        return None
    starts, ends = np.sort(low), np.sort(high)

    def affected(at: np.ndarray) -> np.ndarray:
        """low <= at < high."""
        return np.searchsorted(starts, at, "right") - np.searchsorted(ends, at, "right")

    everywhere = np.unique(low)  # more are affected only where somebody's low is passed
    worst = float(everywhere[np.argmax(affected(everywhere))])
    spread = np.quantile(np.concatenate([low, high]), np.linspace(0, 1, MOST_POINTS // 2))
    even = np.linspace(starts[0], ends[-1], MOST_POINTS // 2)
    at = np.unique(np.concatenate([spread, even, [own, worst]]))
    counts = affected(at)
    return ThresholdCurve(
        decided=str(model.classes[-1]),
        rows=len(low),
        thresholds=tuple(show(at).tolist()),
        affected=tuple(counts.tolist()),
        own=float(show(np.array([own]))[0]),
        own_affected=int(affected(np.array([own]))[0]),
        worst=float(show(np.array([worst]))[0]),
        worst_affected=int(affected(np.array([worst]))[0]),
        largest_change=float((show(high) - show(low)).max()),
    )


# --- what would undo it ---


def undo_of(model: Countable, person: Mapping[str, Value], timeout: Timeout = math.inf) -> dict[str, Any] | None:
    """The smallest change of a person's free features found after which all versions get one decision, replayed, as in
    `most_affected`: {"changes": {feature: [old, new]}, "decision": …}; None where none was found.
    """
    return _undo(model.row_method(), dict(person), Clock.of(timeout))


def _undo(method: RowMethod, person: dict[str, Value], clock: Clock) -> dict[str, Any] | None:
    model = method.model
    for other in method.changes(person, clock):
        try:
            found = replay(model, other, range(method.versions.size), method.versions)
        except Unsteady:
            continue
        if not found.unfair_in:
            differs = [name for name in model.domain.free_names if person[name] != other[name]]
            decision = model.class_names[next(iter(found.decisions.values()))[0]]
            return {"changes": {name: [person[name], other[name]] for name in differs}, "decision": decision}
    return None
