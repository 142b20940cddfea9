"""Who in a table is treated unlike a twin, whom does it affect most, and what would undo it?

Everybody is decided as every value of S: in float32, and by replay (what ships, and exactly) where that is too close to
call. The original of an imported model decides about everybody itself. Nothing is shown that was not replayed from raw
values.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain
from bornfair.models.model import Model
from bornfair.models.network import decisions
from bornfair.people.features import NUMERIC, Value
from bornfair.people.tables import as_pandas
from bornfair.quantification.forms import Bounder
from bornfair.quantification.points import sure_people
from bornfair.quantification.variables import variables
from bornfair.twins.relation import grid_relation
from bornfair.twins.versions import Versions
from bornfair.verification.lens import Lens, summary
from bornfair.verification.replay import replay

TRIED = 256  # values of a number tried when looking for the smallest change
TRIED_OF_TWO = 9  # of each of two features changed together
REFINED = 40  # halvings of a real number's change
REPLAYED = 16  # candidates for the smallest change


@dataclass(frozen=True, eq=False)
class Treatment:
    """How the rows of a table are treated. Arrays have one entry per row; versions are the values of S in order."""

    fair: np.ndarray  # bool: all versions get one decision
    own: np.ndarray  # the version the row itself is; where the table does not say, the one of the most telling pair
    twin: np.ndarray  # the version that shows the unfairness; the row's own where there is none
    decided: np.ndarray  # class indices [rows, versions], in float32; of an imported model by its original
    scores: np.ndarray  # float32 [rows, versions, outputs]
    gap: np.ndarray  # how far apart the two scores of the class that separates the twins lie; 0 where fair

    @property
    def share_unfair(self) -> float:
        return float(np.mean(~self.fair)) if len(self.fair) else 0.0


def treatment(model: Model, table: Any) -> Treatment:
    """Is each row of a table treated as its twins are? Sensitive columns may be absent.

    Of a real-valued sensitive feature the levels of its grid are looked at: whoever is unfair is, others may be.
    """
    frame = as_pandas(table)
    if not model.domain.sensitive:
        raise InputError("no feature is sensitive, so nobody has a twin; name sensitive features.")
    scores = model.scores_of_versions(frame).swapaxes(0, 1)  # [rows, versions, outputs]
    own, known = _own(model, frame)
    decided = decisions(scores)
    versions = Versions(model.domain)
    if model.original is not None:
        tables = (versions.table(frame, version) for version in range(versions.size))
        decided = np.stack([model.original.decide(table) for table in tables], axis=1)
    fair = (decided == decided[:, :1]).all(axis=1)
    for row in _too_close(model, frame) if model.original is None else ():
        person = _person(model, frame, int(row))
        if person is not None:
            fair[row] = not replay(model, person, range(versions.size)).unfair_in
    pair = _pair(model, scores, decided, own, known)
    own = np.where(known, own, pair[:, 0])
    twin = np.where(fair, own, pair[:, 1])
    return Treatment(fair, own, twin, decided, scores, np.where(fair, 0.0, _distance(scores, own, twin)))


def _too_close(model: Model, frame: pd.DataFrame) -> np.ndarray:
    """Rows whose decisions the machine's rounding might change."""
    relation = grid_relation(model.encoding)
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free))
    free = model.encoding.encode(frame, sensitive=False).free.astype(np.float64)
    fair, unfair = sure_people(owner, free)
    return np.flatnonzero(~(fair | unfair))


def treated_people(model: Model, table: Any) -> pd.DataFrame:
    """`treatment` as a table with the index of the rows: fair, decision, twin_decision, gap, and the twin's values."""
    frame = as_pandas(table)
    found, rows = treatment(model, frame), np.arange(len(frame))
    names = np.array(_classes(model), dtype=object)
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
    model: Model, table: Any, most: int = 10, *, treated: Treatment | None = None
) -> list[dict[str, Any]]:
    """The unfair rows whose scores depend most on the sensitive values, each with a twin and what would undo it.

    `undo` names the smallest change of other features after which all versions get one decision: as few features as
    possible (one or two), then as little of their ranges as possible; None where none was found. It was replayed.
    treated: the table's `treatment`, where it is known already.
    """
    if most < 0:
        raise InputError(f"most must be at least 0, found {most}.")
    frame = as_pandas(table)
    found = treatment(model, frame) if treated is None else treated
    unfair = np.flatnonzero(~found.fair)
    order = unfair[np.argsort(-found.gap[unfair], kind="stable")][:most]
    lens, records = Lens(model), []
    for row in order:
        person = _person(model, frame, int(row))
        if person is None:
            continue
        pair = [int(found.own[row]), int(found.twin[row])]
        twins = replay(model, person, pair)
        if not twins.unfair_in:
            continue  # these two are decided alike when replayed
        names = _classes(model)
        records.append(
            {
                "row": plain(frame.index[row]),
                "person": dict(twins.people[0]),
                "twin": dict(twins.people[1]),
                "decisions": [names[index] for index in twins.decisions[twins.unfair_in[0]]],
                "scores": [found.scores[row, version].tolist() for version in pair],
                "gap": float(found.gap[row]),
                "undo": _undo(model, lens, person),
            }
        )
    return records


# --- pairs of versions ---


def _own(model: Model, frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Each row's version, where its sensitive values are given and belong to S."""
    names = model.domain.sensitive
    if any(name not in frame.columns for name in names):
        return np.zeros(len(frame), np.int64), np.zeros(len(frame), bool)
    position = {values: i for i, values in enumerate(model.domain.sensitive_space.values)}
    rows = zip(*(frame[name].tolist() for name in names), strict=True)
    found = np.array([position.get(tuple(plain(v) for v in row), -1) for row in rows], np.int64)
    return np.maximum(found, 0), found >= 0


def _pair(model: Model, scores: np.ndarray, decided: np.ndarray, own: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Two versions [rows, 2] that are decided differently, if there are: the row's own first, few attributes apart."""
    levels = Versions(model.domain).levels
    found = np.stack([own, own], axis=1)
    look = summary(scores.astype(np.float64))
    for row in range(len(scores)):
        if not known[row]:
            klass = look.klass[row]
            found[row] = look.high_at[row, klass], look.low_at[row, klass]
            continue
        others = np.flatnonzero(decided[row] != decided[row, own[row]])
        if not len(others):  # it is others of its versions that differ, or the two differ in exact arithmetic only
            others = np.flatnonzero(np.arange(scores.shape[1]) != own[row])
        apart = (levels[others] != levels[own[row]]).sum(axis=1)
        far = np.abs(scores[row, others] - scores[row, own[row]]).max(axis=1)
        found[row, 1] = others[np.lexsort((-far, apart))[0]]
    return found


def _distance(scores: np.ndarray, own: np.ndarray, twin: np.ndarray) -> np.ndarray:
    rows = np.arange(len(scores))
    one, other = scores[rows, own].astype(np.float64), scores[rows, twin].astype(np.float64)
    return np.abs(one - other).max(axis=1)


def _person(model: Model, frame: pd.DataFrame, row: int) -> dict[str, Value] | None:
    """Raw free values of a row; None if one is missing or not of the domain's kind, so that nothing can be replayed."""
    person: dict[str, Value] = {}
    for feature in model.domain.free_features:
        value = plain(frame[feature.name].iloc[row])
        if isinstance(feature, NUMERIC):
            if isinstance(value, str) or not np.isfinite(float(value)):
                return None
            person[feature.name] = int(value) if float(value).is_integer() else float(value)
        elif value in feature.levels():
            person[feature.name] = value
        else:
            return None
    return person


def _classes(model: Model) -> list[Value]:
    label = model.domain.label
    return list(range(max(model.network.outputs, 2))) if label is None else list(label.classes)


# --- what would undo it ---


def _undo(model: Model, lens: Lens, person: dict[str, Value]) -> dict[str, Any] | None:
    point = np.array(
        [
            float(person[f.name]) if isinstance(f, NUMERIC) else float(list(f.levels()).index(person[f.name]))
            for f in lens.features
        ]
    )
    for changes in (_one_feature(lens, point), _two_features(lens, point)):
        for changed in changes[:REPLAYED]:
            nearer = _nearer(lens, point, changed)
            for candidate in (nearer, changed):
                other = lens.person(candidate)
                result = replay(model, other, range(lens.size))
                if not result.unfair_in:
                    differs = [f.name for f, a, b in zip(lens.features, point, candidate, strict=True) if a != b]
                    decision = _classes(model)[result.decisions["float32"][0]]
                    return {"changes": {n: [person[n], other[n]] for n in differs}, "decision": decision}
    return None


def _values(lens: Lens, feature: int, most: int) -> np.ndarray:
    """Values of a feature worth trying."""
    low, high = lens.low[feature], lens.high[feature]
    if lens.whole[feature] and (high - low < most or feature not in lens.numbers):
        return np.arange(low, high + 1)
    spread = np.linspace(low, high, most)
    return np.unique(np.round(spread)) if lens.whole[feature] else spread


def _cost(lens: Lens, people: np.ndarray, point: np.ndarray) -> np.ndarray:
    span = np.where(lens.high > lens.low, lens.high - lens.low, 1.0)
    return np.where(lens.one_hot, people != point, np.abs(people - point) / span).sum(axis=1)


def _agree(lens: Lens, people: np.ndarray) -> np.ndarray:
    decided = decisions(lens.scores(people, np.arange(lens.size)))
    return (decided == decided[:, :1]).all(axis=1)


def _one_feature(lens: Lens, point: np.ndarray) -> np.ndarray:
    """Points that differ in one feature and are fair, the nearest first."""
    trials = [np.zeros((0, lens.width))]
    for feature in range(lens.width):
        near = point[feature] + np.array([-3, -2, -1, 1, 2, 3]) if lens.whole[feature] else np.zeros(0)
        values = np.concatenate([_values(lens, feature, TRIED), near if not lens.one_hot[feature] else np.zeros(0)])
        values = np.unique(values[(values >= lens.low[feature]) & (values <= lens.high[feature])])
        some = np.repeat(point[None], len(values), axis=0)
        some[:, feature] = values
        trials.append(some[values != point[feature]])
    return _nearest_fair(lens, np.concatenate(trials), point)


def _two_features(lens: Lens, point: np.ndarray) -> np.ndarray:
    trials = [np.zeros((0, lens.width))]
    for one, other in itertools.combinations(range(lens.width), 2):
        first, second = _values(lens, one, TRIED_OF_TWO), _values(lens, other, TRIED_OF_TWO)
        some = np.repeat(point[None], len(first) * len(second), axis=0)
        some[:, one], some[:, other] = np.repeat(first, len(second)), np.tile(second, len(first))
        trials.append(some)
    return _nearest_fair(lens, np.concatenate(trials), point)


def _nearest_fair(lens: Lens, people: np.ndarray, point: np.ndarray) -> np.ndarray:
    fair = people[_agree(lens, people)]
    return fair[np.argsort(_cost(lens, fair, point), kind="stable")]


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
