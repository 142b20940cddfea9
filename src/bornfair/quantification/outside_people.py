"""Who in a table does a model that can only be asked treat unlike a twin, and what would undo it?

Every row is asked about as each of its versions; whom it affects most is asked about again before anybody sees it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.models.opaque.model import OpaqueModel, Unsteady, scores_of
from bornfair.models.verdict import Verdict
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions, own_versions
from bornfair.quantification.records import Affected
from bornfair.quantification.treated import Treatment, class_names, distance, person_of_row, telling_pair
from bornfair.verification.outside_replay import replay_outside
from bornfair.verification.replay import falsified

FEWEST = 8  # rows that are judged whatever the time
TRIED = {1: 32, 2: 5}  # values of a feature that are tried, by how many features change
MOST_TRIED = 2_000
REPLAYED = 4


def outside_treatment(model: OpaqueModel, table: Any, *, timeout: Timeout = math.inf, seed: int = 0) -> Treatment:
    """As `bornfair.quantification.people.treatment`, for a model that is asked."""
    frame, clock = as_pandas(table), Clock.of(timeout)
    model.domain.require_sensitive()
    versions, count = Versions(model.domain), len(frame)
    order = np.arange(count) if clock.timeout == math.inf else np.random.default_rng([seed, 5]).permutation(count)
    parts: list[Treatment] = []
    done = 0
    while not parts or (done < count and (done < FEWEST or not clock.is_up)):
        rows = order[done : done + model.together(versions.size, clock.left)]
        parts.append(_judged(model, versions, frame.iloc[rows], rows))
        done += max(len(rows), 1)
        clock.report(partial("{:,} of {:,} rows were asked about".format, done, count))
    by_row = np.argsort(np.concatenate([part.rows for part in parts]))
    return Treatment(*(np.concatenate([getattr(part, name) for part in parts])[by_row] for name in _FIELDS))


_FIELDS = tuple(Treatment.__dataclass_fields__)


def _judged(model: OpaqueModel, versions: Versions, frame: pd.DataFrame, rows: np.ndarray) -> Treatment:
    given = model.ask_versions(frame, versions)
    decided, scores = given.decided, scores_of(model, given)
    own, _ = own_versions(frame, model.domain.sensitive, versions.values)
    fair = (decided == decided[:, :1]).all(axis=1)
    pair = telling_pair(versions, scores, decided, own, np.ones(len(frame), bool), fair)
    twin = np.where(fair, own, pair[:, 1])
    return Treatment(fair, own, twin, decided, scores, np.where(fair, 0.0, distance(scores, own, twin)), rows)


def outside_decisions(model: OpaqueModel, table: pd.DataFrame, treated: Treatment) -> np.ndarray:
    """The class of each row as it stands, of those that were asked about; −1 where its sensitive value is not known and
    the decision hangs on it. Nobody is asked about again.
    """
    found = np.full(len(table), -1)
    _, known = own_versions(table.iloc[treated.rows], model.domain.sensitive, model.domain.sensitive_space.values)
    own = treated.decided[np.arange(len(treated.rows)), treated.own]
    found[treated.rows] = np.where(known, own, np.where(treated.fair, treated.decided[:, 0], -1))
    return found


def outside_affected(
    model: OpaqueModel, table: Any, most: int, *, treated: Treatment, timeout: Timeout = math.inf
) -> list[Affected]:
    """As `bornfair.quantification.people.most_affected`, for a model that is asked."""
    frame, clock = as_pandas(table).iloc[treated.rows], Clock.of(timeout)
    unfair = np.flatnonzero(~treated.fair)
    order = unfair[np.argsort(-treated.gap[unfair], kind="stable")][: 4 * most]
    versions, records, people = Versions(model.domain), list[Affected](), list[dict[str, Value]]()
    for row in order:
        if clock.is_up or len(records) >= most:
            break
        person = person_of_row(model.domain, frame, int(row))
        if person is None:
            continue
        pair = [int(treated.own[row]), int(treated.twin[row])]
        try:
            twins = replay_outside(model, person, pair, versions)
        except Unsteady:
            continue
        if not twins.unfair_in:
            continue
        people.append(person)
        records.append(treated.affected(model, frame, row, twins))
    undone = (_undo(model, versions, person, clock.part(1 / (len(people) - i))) for i, person in enumerate(people))
    return [dataclasses.replace(one, undo=undo) for one, undo in zip(records, undone, strict=True)]


def shown_outside(model: OpaqueModel, table: Any, treated: Treatment) -> Verdict | None:
    """What rows of a table who are treated unlike a twin say of the model, by the first who was asked about again."""
    frame = as_pandas(table).iloc[treated.rows]
    unfair = np.flatnonzero(~treated.fair & ~model.domain.outside(frame))
    for row in unfair[np.argsort(-treated.gap[unfair], kind="stable")][:REPLAYED]:
        person = person_of_row(model.domain, frame, int(row))
        if person is None:
            continue
        try:
            twins = replay_outside(model, person, [int(treated.own[row]), int(treated.twin[row])])
        except Unsteady as error:
            return Verdict("undecided", "none", "asking", (), str(error).rstrip("."))
        if twins.unfair_in:
            reason = f"rows of the table; asked about {len(frame):,} of them, and about these two again"
            return falsified(model, twins, engine="asking", reason=reason)
    return None


# --- what would undo it ---


def outside_undo(model: OpaqueModel, person: dict[str, Value], clock: Clock) -> dict[str, Any] | None:
    """As `bornfair.quantification.people.undo_of`, for a model that is asked."""
    return _undo(model, Versions(model.domain), person, clock)


def _undo(model: OpaqueModel, versions: Versions, person: dict[str, Value], clock: Clock) -> dict[str, Any] | None:
    """The smallest change of one other feature, or of two, after which all versions get one decision: asked again."""
    features = model.domain.free_features
    for together, most in TRIED.items():
        trials: list[tuple[float, dict[str, Value]]] = []
        for chosen in itertools.combinations(features, together):
            options = [_other_values(feature, person[feature.name], most) for feature in chosen]
            for values in itertools.product(*options):
                changes = {feature.name: value for feature, (_, value) in zip(chosen, values, strict=True)}
                trials.append((sum(cost for cost, _ in values), changes))
        affordable = clock.left / max(model.pace.each * versions.size, 1e-9)
        trials = sorted(trials, key=lambda trial: trial[0])[: int(max(min(affordable, MOST_TRIED), 0))]
        if not trials:
            continue
        people = pd.DataFrame([person | changes for _, changes in trials])
        decided = model.ask_versions(people, versions, scores=False).decided
        for row in np.flatnonzero((decided == decided[:, :1]).all(axis=1))[:REPLAYED]:
            other = person | trials[row][1]
            try:
                result = replay_outside(model, other, range(versions.size), versions)
            except Unsteady:
                continue
            if not result.unfair_in:
                told = {name: [person[name], value] for name, value in trials[row][1].items()}
                return {"changes": told, "decision": class_names(model)[result.decisions["executed"][0]]}
    return None


def _other_values(feature: Feature, own: Value, most: int) -> list[tuple[float, Value]]:
    """Other values of a feature with how far they are, the nearest first."""
    if not isinstance(feature, NUMERIC):
        return [(1.0, level) for level in feature.levels() if level != own][:most]
    span = float(feature.high - feature.low) or 1.0
    at = float(feature.low if own is None else own)
    steps = span * 0.5 ** np.arange(2, 10)
    held = np.concatenate([np.linspace(feature.low, feature.high, most), at + steps, at - steps])
    if feature.kind == "integer":
        near = at + np.array([-3, -2, -1, 1, 2, 3])
        numbers: list[int | float] = [int(value) for value in np.round(np.concatenate([held, near]))]
    else:
        numbers = [float(f"{value:.6g}") for value in held]
    there = {value for value in numbers if feature.low <= value <= feature.high and value != own}
    ranked: list[tuple[float, Value]]
    ranked = sorted((1.0 if own is None else abs(value - at) / span, value) for value in there)
    return ranked if most > TRIED[2] else ranked[:: max(len(ranked) // most, 1)][:most]
