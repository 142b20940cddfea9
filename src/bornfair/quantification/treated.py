"""How are the rows of a table treated? The record, and what networks and forests have in common in filling it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import plain, plain_level
from bornfair.models.forest.model import ForestModel
from bornfair.models.network.lens import lead_ranges
from bornfair.models.opaque.model import AnyModel, OpaqueModel
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Value
from bornfair.people.twins.versions import Versions
from bornfair.quantification.records import Affected
from bornfair.verification.replay import Replay


@dataclass(frozen=True, eq=False)
class Treatment:
    """How the rows of a table are treated. Arrays have one entry per row; versions are the values of S in order."""

    fair: np.ndarray  # bool: all versions get one decision
    own: np.ndarray  # the version the row itself is; where the table does not say, the one of the most telling pair
    twin: np.ndarray  # the version that shows the unfairness; the row's own where there is none
    decided: np.ndarray  # class indices [rows, versions], in float32; of an imported model by its original
    scores: np.ndarray  # float32 [rows, versions, outputs]
    gap: np.ndarray  # how far apart the two scores of the class that separates the twins lie; 0 where fair
    rows: np.ndarray  # positions in the table: all of them, or as many, drawn at random, as there was time for

    @property
    def share_unfair(self) -> float:
        return float(np.mean(~self.fair)) if len(self.fair) else 0.0

    def affected(
        self, model: AnyModel, frame: pd.DataFrame, row: int, twins: Replay, undo: Mapping[str, Any] | None = None
    ) -> Affected:
        """The record of a row whose own version and twin were replayed, and are decided differently."""
        names, decided = class_names(model), twins.decisions[twins.unfair_in[0]]
        shows_scores = not isinstance(model, OpaqueModel) or model.shows_scores
        return Affected(
            row=plain(frame.index[row]),
            person=dict(twins.people[0]),
            twin=dict(twins.people[1]),
            decisions=tuple(names[index] for index in decided),
            scores=tuple(self.scores[row, version].tolist() for version in (self.own[row], self.twin[row]))
            if shows_scores
            else (),
            gap=float(self.gap[row]) if shows_scores else None,
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


def person_of_row(domain: Domain, frame: pd.DataFrame, row: int) -> dict[str, Value] | None:
    """Raw free values of a row; None if one is missing or not of the domain's kind, so that nothing can be replayed."""
    person: dict[str, Any] = {}
    for feature in domain.free_features:
        value = plain_level(frame[feature.name].iloc[row])
        if value is None:
            if not feature.missing:
                return None
            person[feature.name] = None
        elif isinstance(feature, NUMERIC):
            if isinstance(value, str) or not np.isfinite(float(value)):
                return None
            person[feature.name] = int(value) if float(value).is_integer() else float(value)
        elif value in feature.levels():
            person[feature.name] = value
        else:
            return None
    return person


def class_names(model: AnyModel) -> list[Value]:
    label = model.domain.label
    if label is not None:
        return list(label.classes)
    if isinstance(model, OpaqueModel):
        return list(model.meant.classes)
    return list(range(model.forest.classes if isinstance(model, ForestModel) else max(model.network.outputs, 2)))
