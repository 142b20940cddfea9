"""Who in a table does a forest treat unlike a twin, and what would undo it?

Rows are decided as every version whom the forest can tell apart (`bornfair.models.forest.bounds.cells`), so that of a
real-valued sensitive feature every value counts; the original decides about everybody itself where it is there.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import plain_level
from bornfair.models.forest.bounds.cells import Cells
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.models.network.network import decisions
from bornfair.people.features import NUMERIC, Value
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions
from bornfair.quantification.records import Affected
from bornfair.quantification.treated import Treatment, class_names, distance, person_of_row, telling_pair
from bornfair.verification.forest_replay import replay_forest, replay_forest_people

TOGETHER = 1 << 22  # scores of versions that are held at once
FEWEST_ROWS = 64
MOST_TRIED = 20_000  # changes of two features
REPLAYED = 16


def forest_treatment(model: ForestModel, table: Any, *, timeout: Timeout = math.inf, seed: int = 0) -> Treatment:
    """As `bornfair.quantification.people.treatment`, for a forest."""
    frame, clock = as_pandas(table), Clock.of(timeout)
    model.domain.require_sensitive()
    cells = Judge.of(model).cells
    versions, count = cells.twins.versions, len(frame)
    together = int(np.clip(TOGETHER // (versions.size * model.forest.trees), FEWEST_ROWS, 8192))
    order = np.arange(count) if clock.timeout == math.inf else np.random.default_rng([seed, 5]).permutation(count)
    parts: list[Treatment] = []
    done = 0
    while not parts or (done < count and not clock.is_up):
        rows = order[done : done + together]
        parts.append(_judged(model, cells, versions, frame.iloc[rows], rows))
        done += len(rows)
    by_row = np.argsort(np.concatenate([part.rows for part in parts]))
    return Treatment(*(np.concatenate([getattr(part, name) for part in parts])[by_row] for name in _FIELDS))


_FIELDS = tuple(Treatment.__dataclass_fields__)


def _judged(model: ForestModel, cells: Cells, versions: Versions, frame: pd.DataFrame, rows: np.ndarray) -> Treatment:
    tables = [versions.table(frame, version) for version in range(versions.size)]
    scores = np.stack([model.scores(one) for one in tables], axis=1)  # [rows, versions, outputs]
    own, known = cells.own(frame)
    if model.original is None:
        decided = decisions(scores)
    else:
        decided = np.stack([model.original.decide(one) for one in tables], axis=1)
    fair = (decided == decided[:, :1]).all(axis=1)
    pair = telling_pair(versions, scores, decided, own, known, fair)
    own = np.where(known, own, pair[:, 0])
    twin = np.where(fair, own, pair[:, 1])
    return Treatment(fair, own, twin, decided, scores, np.where(fair, 0.0, distance(scores, own, twin)), rows)


def forest_affected(
    model: ForestModel, table: Any, most: int, *, treated: Treatment, timeout: Timeout = math.inf
) -> list[Affected]:
    """As `bornfair.quantification.people.most_affected`, for a forest."""
    frame, clock = as_pandas(table).iloc[treated.rows], Clock.of(timeout)
    unfair = np.flatnonzero(~treated.fair)
    order = unfair[np.argsort(-treated.gap[unfair], kind="stable")][:most]
    if not len(order):
        return []
    judge, records = Judge.of(model), []
    for row in order:
        person = None if clock.is_up else person_of_row(model.domain, frame, int(row))
        if person is None:
            continue
        pair, versions = [int(treated.own[row]), int(treated.twin[row])], judge.cells.twins.versions
        if not all(versions.exists(person, version) for version in pair):
            continue
        own = _in_the_table(judge.cells, frame.iloc[int(row)], pair[0], person)
        twins = replay_forest_people(model, [own, versions.of(person, pair[1])], pair)
        if not twins.unfair_in:
            continue
        records.append(treated.affected(model, frame, row, twins, _undo(judge, model, person)))
    return records


def _in_the_table(cells: Cells, row: Any, version: int, person: dict[str, Value]) -> dict[str, Value]:
    """The row as it stands, if it is that version; else the person as that version."""
    found = cells.twins.versions.of(person, version)
    own: dict[str, Value] = {}
    for i, cell in zip(cells.sensitive, cells.twins.values[version % len(cells.twins.values)], strict=True):
        part, name = cells.features[i], cells.domain.names[i]
        value: Any = plain_level(row[name]) if name in row.index else None
        unknown = value is None and not part.feature.missing
        if version >= len(cells.twins.values) or unknown or int(part.of([value])[0]) != cell:
            return found
        if isinstance(part.feature, NUMERIC):
            own[name] = int(value) if part.feature.kind == "integer" else float(value)
        else:
            own[name] = next(level for level in part.feature.levels() if level == value)
    return found | own


# --- what would undo it ---


def forest_undo(model: ForestModel, person: dict[str, Value]) -> dict[str, Any] | None:
    """As `bornfair.quantification.people.undo_of`, for a forest."""
    return _undo(Judge.of(model), model, person)


def _undo(judge: Judge, model: ForestModel, person: dict[str, Value]) -> dict[str, Any] | None:
    """The smallest change of one other feature, or of two, after which all versions get one decision: replayed."""
    cells = judge.cells
    table = pd.DataFrame([person])
    point = cells.place(table)[0]
    if (point < 0).any():
        return None
    steps = [_steps(cells, i, person) for i in range(len(cells.free))]
    versions = cells.twins.versions
    for together in (1, 2):
        trials = _trials(point, steps, together)
        if not trials:
            continue
        trials.sort(key=lambda trial: trial[0])
        points = np.repeat(point[None], len(trials), axis=0)
        for row, (_, changes) in enumerate(trials):
            for i, cell in changes:
                points[row, i] = cell
        decided, _ = judge.decided(points)
        fair = np.flatnonzero((decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1))
        for row in fair[:REPLAYED]:
            other = dict(person)
            for i, cell in trials[row][1]:
                other[cells.domain.free_names[i]] = steps[i][cell][1]
            result = replay_forest(model, other, range(versions.size), versions)
            if not result.unfair_in:
                names = [cells.domain.free_names[i] for i, _ in trials[row][1]]
                decision = class_names(model)[next(iter(result.decisions.values()))[0]]
                return {"changes": {name: [person[name], other[name]] for name in names}, "decision": decision}
    return None


def _steps(cells: Cells, i: int, person: dict[str, Value]) -> dict[int, tuple[float, Value]]:
    """For each other cell of a free feature: how far it is, and its value nearest to the person's own."""
    part = cells.features[cells.free[i]]
    own, feature = person[part.feature.name], part.feature
    here = int(part.of([own])[0])
    if part.ends is None or not isinstance(feature, NUMERIC):
        return {c: (1.0, part.samples[c]) for c in range(part.listed) if c != here}
    if own is None:
        return {cell: (1.0, part.shown(cell)) for cell in range(part.listed)}
    span = float(feature.high - feature.low) or 1.0
    found: dict[int, tuple[float, Value]] = {}
    for cell in range(part.listed):
        if cell < here:
            value = part.samples[cell]
        elif cell > here:
            last = float(part.ends[cell - 1])
            value = int(last) + 1 if feature.kind == "integer" else float(np.nextafter(last, np.inf))
        else:
            continue
        if feature.kind == "real":  # a number that is short to read, if one is as near to a thousandth of the range
            short = float(f"{value:.6g}")
            value = short if int(part.of([short])[0]) == cell else value
        found[cell] = (abs(float(value) - float(own)) / span, value)
    return found


def _trials(point: np.ndarray, steps: list[dict[int, tuple[float, Value]]], together: int) -> list[Any]:
    found = []
    for features in itertools.combinations(range(len(point)), together):
        options = [sorted((cost, cell) for cell, (cost, _) in steps[i].items()) for i in features]
        if together == 2:
            options = [some[:9] for some in options]
        for choice in itertools.product(*options):
            found.append(
                (sum(cost for cost, _ in choice), [(i, c) for i, (_, c) in zip(features, choice, strict=True)])
            )
    return sorted(found, key=lambda trial: trial[0])[:MOST_TRIED]
