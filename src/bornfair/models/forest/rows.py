"""Rows of a table as a forest judges them: as every version that it can tell apart (`bounds.cells`), so that of a
real-valued sensitive feature every value counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import plain_level
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.protocol import Person, RowMethod
from bornfair.people.features import NUMERIC, Value

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

TOGETHER = 1 << 22  # scores of versions that are held at once
FEWEST_ROWS, MOST_ROWS = 64, 8192  # judged together
MOST_TRIED = 20_000  # changes of two features
REPLAYED = 16

Trial = tuple[float, list[tuple[int, int]]]
"""A change: how far it is, and the new cells by the positions of free features."""


class ForestRows(RowMethod):
    model: ForestModel

    def __init__(self, model: ForestModel) -> None:
        self.judge = Judge.of(model)
        self.cells = self.judge.cells
        super().__init__(model, self.cells.twins.versions)

    def size(self, left: float, each: float) -> int:
        return int(np.clip(TOGETHER // (self.versions.size * self.model.forest.trees), FEWEST_ROWS, MOST_ROWS))

    def own(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        return self.cells.own(rows)

    def pair(self, person: Mapping[str, Value], versions: Sequence[int], row: Any = None) -> list[Person]:
        if row is None:
            return super().pair(person, versions)
        if not all(self.versions.exists(person, version) for version in versions):
            return []
        return [self._in_the_table(row, versions[0], person), self.versions.of(person, versions[1])]

    def _in_the_table(self, row: Any, version: int, person: Mapping[str, Value]) -> Person:
        """The row as it stands, if it is that version; else the person as that version."""
        cells, found = self.cells, self.versions.of(person, version)
        own: Person = {}
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

    # --- smallest changes ---

    def changes(self, person: Person, clock: Clock) -> Iterator[Person]:
        cells = self.cells
        point = cells.place(pd.DataFrame([person]))[0]
        if (point < 0).any():
            return
        steps = [self._steps(i, person) for i in range(len(cells.free))]
        for together in (1, 2):
            trials = _trials(point, steps, together)
            if not trials:
                continue
            points = np.repeat(point[None], len(trials), axis=0)
            for row, (_, changes) in enumerate(trials):
                for i, cell in changes:
                    points[row, i] = cell
            decided, _ = self.judge.decided(points)
            fair = np.flatnonzero((decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1))
            for row in fair[:REPLAYED]:
                yield person | {cells.domain.free_names[i]: steps[i][cell][1] for i, cell in trials[row][1]}

    def _steps(self, i: int, person: Person) -> dict[int, tuple[float, Value]]:
        """For each other cell of a free feature: how far it is, and its value nearest to the person's own."""
        part = self.cells.features[self.cells.free[i]]
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


def _trials(point: np.ndarray, steps: list[dict[int, tuple[float, Value]]], together: int) -> list[Trial]:
    """Changes of so many features, the nearest first."""
    found: list[Trial] = []
    for features in itertools.combinations(range(len(point)), together):
        options = [sorted((cost, cell) for cell, (cost, _) in steps[i].items()) for i in features]
        if together == 2:
            options = [some[:9] for some in options]
        for choice in itertools.product(*options):
            cells = [(i, cell) for i, (_, cell) in zip(features, choice, strict=True)]
            found.append((sum(cost for cost, _ in choice), cells))
    return sorted(found, key=lambda trial: trial[0])[:MOST_TRIED]
