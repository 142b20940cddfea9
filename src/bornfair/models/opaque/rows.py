"""Rows of a table judged by decisions alone, of models that are run and others: each as each of its versions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.protocol import Decided
from bornfair.models.rows import Person, RowMethod
from bornfair.people.features import NUMERIC, Feature, Value

TRIED = {1: 32, 2: 5}  # values of a feature that are tried, by how many features change
MOST_TRIED = 2_000


class OpaqueRows(RowMethod):
    """People whom it affects most are asked about again before anybody sees them: noise is no unfairness."""

    fewest, replayed, tries, engine, compares_leads = 8, 4, 4, "asking", False

    def size(self, left: float, each: float) -> int:
        return self.model.together(self.versions.size, left)

    def decide(self, rows: pd.DataFrame) -> Decided:
        found = super().decide(rows)
        return Decided(found.classes, found.ranked(len(self.model.class_names)))

    def progress(self, clock: Clock, done: int, count: int) -> None:
        clock.report(partial("{:,} of {:,} rows were asked about".format, done, count))

    def tried(self, rows: int) -> str:
        return f"rows of the table; asked about {rows:,} of them, and about these two again"

    def changes(self, person: Person, clock: Clock) -> Iterator[Person]:
        features = self.model.domain.free_features
        for together, most in TRIED.items():
            trials: list[tuple[float, Person]] = []
            for chosen in itertools.combinations(features, together):
                options = [_other_values(feature, person[feature.name], most) for feature in chosen]
                for values in itertools.product(*options):
                    changes = {feature.name: value for feature, (_, value) in zip(chosen, values, strict=True)}
                    trials.append((sum(cost for cost, _ in values), changes))
            affordable = clock.left / max(self.model.seconds_each * self.versions.size, 1e-9)
            trials = sorted(trials, key=lambda trial: trial[0])[: int(max(min(affordable, MOST_TRIED), 0))]
            if not trials:
                continue
            people = pd.DataFrame([person | changes for _, changes in trials])
            decided = self.model.decide(people, self.versions, scores=False).classes
            for row in np.flatnonzero((decided == decided[:, :1]).all(axis=1))[: self.replayed]:
                yield person | trials[row][1]


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
