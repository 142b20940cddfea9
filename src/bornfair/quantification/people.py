"""Who in a table is treated unlike a twin, whom does it affect most, and what would undo it?

Everybody is decided as every value of S: in float32, and by replay (what ships, and exactly) where that is too close to
call. The original of an imported model decides about everybody itself. Nothing is shown that was not replayed from raw
values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError
from bornfair.models.forest.model import ForestModel
from bornfair.models.network.confirm import confirm_encoded, input_sizes
from bornfair.models.network.lens import Lens
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.models.network.shares.forms import Bounder
from bornfair.models.opaque.model import AnyModel, OpaqueModel
from bornfair.models.verdict import Verdict
from bornfair.people.features import Value
from bornfair.people.space.variables import variables
from bornfair.people.tables import as_pandas
from bornfair.people.twins.relation import Relation, grid_relation
from bornfair.people.twins.versions import Versions, own_versions
from bornfair.quantification.estimate import disagree
from bornfair.quantification.points import largest_rounding, sure_people
from bornfair.quantification.records import Affected, People
from bornfair.quantification.treated import Treatment, class_names, distance, person_of_row, telling_pair
from bornfair.verification.replay import falsified, replay

TRIED = {1: 256, 2: 9}  # values of a number tried, by how many features change: first one, then two
NEAR = 3  # whole numbers next to a person's own that are tried too
REFINED = 40  # halvings of a real number's change
WORK = 2**30  # multiplications at once
TIMED_WORK = 2**28  # between two looks at the clock, the first of which comes after compilation
FEWEST_ROWS, MOST_ROWS = 128, 8192  # judged together
REPLAYED = 16  # candidates for the smallest change, or for twins who show that a model is not fair


def treatment(model: AnyModel, table: Any, *, timeout: Timeout = math.inf, seed: int = 0) -> Treatment:
    """Is each row of a table treated as its twins are? Sensitive columns may be absent.

    Of a real-valued sensitive feature the levels of its grid are looked at: whoever is unfair is, others may be.
    Where `timeout` is too short for all rows, some are judged that are drawn at random.
    """
    if isinstance(model, ForestModel):
        from bornfair.quantification.forest_people import forest_treatment

        return forest_treatment(model, table, timeout=timeout, seed=seed)
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_people import outside_treatment

        return outside_treatment(model, table, timeout=timeout, seed=seed)
    frame, clock = as_pandas(table), Clock.of(timeout)
    model.domain.require_sensitive()
    relation = None
    try:
        relation = grid_relation(model.encoding)
    except InputError:  # the twins cannot be listed; a proof from the structure needs no list
        if model.covers_execution and "float32" in confirm_encoded(model.network, model.encoding).arithmetic:
            return _all_alike(model.scores(frame))
        if model.original is None:
            raise
    count = len(frame)
    work = model.network.parameters * Versions(model.domain).size
    together = _rows_for(WORK if clock.timeout == math.inf else TIMED_WORK, work)
    order = np.arange(count) if clock.timeout == math.inf else np.random.default_rng([seed, 5]).permutation(count)
    parts: list[Treatment] = []
    done, each = 0, math.inf  # rows judged, and the seconds that each took when nothing was compiled
    while not parts or (done < count and not clock.is_up):
        began, size = clock.now(), together
        affordable = (clock.deadline - began) / max(each, 1e-9)
        if len(parts) > 1 and affordable < size:  # before that, only how long compiling takes is known
            size = 1 << int(max(affordable, 1.0)).bit_length() - 1  # few sizes: each is compiled
        rows = order[done : done + size]
        try:
            parts.append(_judged(model, relation, frame.iloc[rows], rows))
        except InputError:
            model.encoding.encode(frame, sensitive=False)  # says which row of the whole table it is
            raise
        done, each = done + len(rows), min(each, (clock.now() - began) / max(len(rows), 1))
    by_row = np.argsort(np.concatenate([part.rows for part in parts]))
    joined = (np.concatenate([getattr(part, field.name) for part in parts])[by_row] for field in fields(Treatment))
    return Treatment(*joined)


def _rows_for(multiplications: int, each: int) -> int:
    """How many rows are judged together for so many multiplications: a power of two, as each size is compiled."""
    return 1 << int(np.clip(multiplications // each, FEWEST_ROWS, MOST_ROWS)).bit_length() - 1


def _judged(model: Model, relation: Relation | None, frame: pd.DataFrame, rows: np.ndarray) -> Treatment:
    """The treatment of some rows."""
    scores = model.scores_of_versions(frame).swapaxes(0, 1)  # [rows, versions, outputs]
    versions = Versions(model.domain)
    own, known = own_versions(frame, model.domain.sensitive, versions.values)
    decided = decisions(scores)
    if model.original is not None:
        tables = (versions.table(frame, version) for version in range(versions.size))
        decided = model.original.decide_versions(tables)
    fair = (decided == decided[:, :1]).all(axis=1)
    for row in _too_close(model, relation, frame, scores) if relation is not None and model.original is None else ():
        person = person_of_row(model.domain, frame, int(row))
        if person is not None:
            fair[row] = not replay(model, person, range(versions.size)).unfair_in
    pair = telling_pair(versions, scores, decided, own, known, fair)
    own = np.where(known, own, pair[:, 0])
    twin = np.where(fair, own, pair[:, 1])
    return Treatment(fair, own, twin, decided, scores, np.where(fair, 0.0, distance(scores, own, twin)), rows)


def _all_alike(scores: np.ndarray) -> Treatment:
    """Everybody is decided as their twins are, and shown as one version."""
    rows, apart = np.arange(len(scores)), scores[:, None]
    first = np.zeros(len(scores), np.int64)
    return Treatment(np.ones(len(scores), bool), first, first, decisions(apart), apart, np.zeros(len(scores)), rows)


def _too_close(model: Model, relation: Relation, frame: pd.DataFrame, scores: np.ndarray) -> np.ndarray:
    """Rows whose decisions the machine's rounding might change."""
    encoding = model.encoding
    free = encoding.encode(frame, sensitive=False).free.astype(np.float64)
    largest = np.concatenate([np.abs(part).max(axis=0, initial=0.0) for part in (free, encoding.codes)])
    if encoding.domain.twins:  # some versions have other values than the row's own
        largest = np.maximum(largest, input_sizes(encoding))
    error = largest_rounding(model.network, largest)
    ranked = np.sort(scores.astype(np.float64), axis=2)
    lead = np.abs(ranked[..., 0]) if ranked.shape[2] == 1 else (ranked[..., -1] - ranked[..., -2]) / 2
    close = np.flatnonzero(~(lead.min(axis=1) > 2 * error))
    if not len(close):
        return close
    owner = Bounder(model.network, relation, variables(encoding, relation.free))
    fair, unfair = sure_people(owner, free[close])
    return close[~(fair | unfair)]


def own_decisions(model: AnyModel, table: pd.DataFrame, treated: Treatment) -> np.ndarray:
    """The class of each row as it stands; −1 where its sensitive value is not known, and the decision hangs on it.

    A model that fills in a missing sensitive value is given the gap it fills.
    """
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_people import outside_decisions

        return outside_decisions(model, table, treated)
    names, original = model.domain.sensitive, model.original
    reads = not model.ignores_sensitive if original is None else bool(set(names) & set(original.reads))
    known = np.ones(len(table), bool)
    for name in (n for n in names if not model.domain.feature(n).missing) if reads else ():
        there = table[name].notna().to_numpy() if name in table.columns else np.zeros(len(table), bool)
        if name in table.columns and name in model.fills:
            table = table.assign(**{name: table[name].astype(object).where(there, model.fills[name]).infer_objects()})
        else:
            known &= there
    found = np.full(len(table), -1)
    found[treated.rows] = np.where(treated.fair, treated.decided[:, 0], -1)
    if known.any():
        rows = table[known]
        found[known] = decisions(model.scores(rows)) if original is None else original.decide(rows)
    return found


def treated_people(model: Model, table: Any) -> pd.DataFrame:
    """`treatment` as a table with the index of the rows: fair, decision, twin_decision, gap, and the twin's values."""
    frame = as_pandas(table)
    found, rows = treatment(model, frame), np.arange(len(frame))
    names = np.array(class_names(model), dtype=object)
    columns: dict[str, Any] = {
        "fair": found.fair,
        "decision": names[found.decided[rows, found.own]],
        "twin_decision": names[found.decided[rows, found.twin]],
        "gap": found.gap,
    }
    values, versions = model.domain.sensitive_space.values, Versions(model.domain)
    for j, name in enumerate(model.domain.sensitive):
        columns[f"twin_{name}"] = [values[versions.parts(int(version))[1]][j] for version in found.twin]
    return pd.DataFrame(columns, index=frame.index)


def most_affected(
    model: AnyModel,
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
    found = treatment(model, table) if treated is None else treated
    if isinstance(model, ForestModel):
        from bornfair.quantification.forest_people import forest_affected

        return forest_affected(model, table, most, treated=found, timeout=timeout)
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_people import outside_affected

        return outside_affected(model, table, most, treated=found, timeout=timeout)
    frame, clock = as_pandas(table).iloc[found.rows], Clock.of(timeout)
    unfair = np.flatnonzero(~found.fair)
    order = unfair[np.argsort(-found.gap[unfair], kind="stable")][:most]
    if not len(order):
        return []
    lens, records = Lens(model), []
    for row in order:
        if clock.is_up:
            break
        person = person_of_row(model.domain, frame, int(row))
        if person is None:
            continue
        pair = [int(found.own[row]), int(found.twin[row])]
        twins = replay(model, person, pair)
        if not twins.unfair_in:
            continue  # these two are decided alike when replayed
        records.append(found.affected(model, frame, row, twins, _undo(model, lens, person)))
    return records


def people_of(
    model: AnyModel,
    table: Any,
    most: int = 10,
    *,
    treated: Treatment | None = None,
    timeout: Timeout = math.inf,
) -> People:
    """How many rows of a table have a twin who is decided otherwise, and those whom it affects most."""
    found = treatment(model, table) if treated is None else treated
    looked_at_some = model.domain.real_sensitive and not isinstance(model, ForestModel)
    values = model.domain.sensitive_space.size if looked_at_some else None
    affected = most_affected(model, table, most, treated=found, timeout=timeout)
    count = len(as_pandas(table))
    drawn_from = count if count > len(found.rows) else None
    return People(len(found.fair), int((~found.fair).sum()), tuple(affected), values, drawn_from=drawn_from)


def shown_by(model: AnyModel, table: Any, treated: Treatment) -> Verdict | None:
    """What people of a table who are treated unlike a twin say of the model: that it is not fair, by the first of them,
    the most affected before all others, who is of the domain and was replayed.
    """
    if isinstance(model, ForestModel):  # its attack looks at the rows itself
        return None
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_people import shown_outside

        return shown_outside(model, table, treated)
    frame = as_pandas(table).iloc[treated.rows]
    unfair = np.flatnonzero(~treated.fair & ~model.domain.outside(frame))
    for row in unfair[np.argsort(-treated.gap[unfair], kind="stable")][:REPLAYED]:
        person = person_of_row(model.domain, frame, int(row))
        twins = None if person is None else replay(model, person, [int(treated.own[row]), int(treated.twin[row])])
        if twins is not None and twins.unfair_in:
            reason = f"rows of the table; {len(frame):,} people tried"
            return falsified(model, twins, engine="attack", reason=reason)
    return None


# --- what would undo it ---


def undo_of(model: AnyModel, person: Mapping[str, Value], timeout: Timeout = math.inf) -> dict[str, Any] | None:
    """The smallest change of a person's free features found after which all versions get one decision, replayed, as in
    `most_affected`: {"changes": {feature: [old, new]}, "decision": …}; None where none was found.
    """
    if isinstance(model, ForestModel):
        from bornfair.quantification.forest_people import forest_undo

        return forest_undo(model, dict(person))
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_people import outside_undo

        return outside_undo(model, dict(person), Clock.of(timeout))
    return _undo(model, Lens(model), dict(person))


def _undo(model: Model, lens: Lens, person: dict[str, Value]) -> dict[str, Any] | None:
    point = lens.point(person)
    for together in TRIED:
        for changed in _fair_changes(lens, point, together)[:REPLAYED]:
            for candidate in (_nearer(lens, point, changed), changed):
                other = lens.person(candidate)
                result = replay(model, other, range(lens.size))
                if not result.unfair_in:
                    differs = [f.name for f in lens.features if person[f.name] != other[f.name]]
                    decision = class_names(model)[result.decisions["float32"][0]]
                    return {"changes": {n: [person[n], other[n]] for n in differs}, "decision": decision}
    return None


def _fair_changes(lens: Lens, point: np.ndarray, together: int) -> np.ndarray:
    """Points that differ in so many features at most and whose versions agree, the nearest first."""
    trials = [np.zeros((0, lens.width))]
    for features in itertools.combinations(range(lens.width), together):
        grid = np.meshgrid(*(_values(lens, point, feature, together) for feature in features), indexing="ij")
        some = np.repeat(point[None], grid[0].size, axis=0)
        some[:, features] = np.stack([values.ravel() for values in grid], axis=1)
        trials.append(some)
    people = np.concatenate(trials)
    people = people[(people != point).any(axis=1)]
    fair = people[_agree(lens, people)]
    span = np.where(lens.high > lens.low, lens.high - lens.low, 1.0)
    cost = np.where(lens.one_hot, fair != point, np.abs(fair - point) / span).sum(axis=1)
    return fair[np.argsort(cost, kind="stable")]


def _values(lens: Lens, point: np.ndarray, feature: int, together: int) -> np.ndarray:
    """Values of a feature worth trying: all if they are few, else some, and by itself also those next to its own."""
    low, high, most = lens.low[feature], lens.high[feature], TRIED[together]
    if not lens.whole[feature]:
        return np.linspace(low, high, most)
    if high - low < most or feature not in lens.numbers:
        return np.arange(low, high + 1)
    values = np.round(np.linspace(low, high, most))
    near = point[feature] + np.arange(-NEAR, NEAR + 1) if together == 1 else values
    return np.unique(np.clip(np.concatenate([values, near]), low, high))


def _agree(lens: Lens, people: np.ndarray) -> np.ndarray:
    return ~disagree(lens.scores(people, np.arange(lens.size)))


def _nearer(lens: Lens, point: np.ndarray, changed: np.ndarray) -> np.ndarray:
    """The change taken back as far as the versions still agree, number by number."""
    best = changed.copy()
    for feature in np.intersect1d(np.flatnonzero(changed != point), lens.numbers):
        unfair, fair = point[feature], best[feature]
        for _ in range(REFINED):
            middle = unfair + (fair - unfair) / 2
            if lens.whole[feature]:
                middle = np.floor(middle) if fair > unfair else np.ceil(middle)
            if middle in (unfair, fair):
                break
            trial = best.copy()
            trial[feature] = middle
            if _agree(lens, trial[None])[0]:
                fair = middle
            else:
                unfair = middle
        best[feature] = fair
    return best
