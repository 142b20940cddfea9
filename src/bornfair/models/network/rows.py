"""Rows of a table as a network judges them: in float32, and by replay where that is too close to call."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import InputError
from bornfair.models.network.lens import Lens
from bornfair.models.network.network import decisions
from bornfair.models.network.shares.forms import Bounder, largest_rounding, sure_people
from bornfair.models.network.structural import encoded_sizes
from bornfair.models.protocol import Decided, Person, RowMethod
from bornfair.people.space.variables import variables
from bornfair.people.twins.relation import Relation, grid_relation
from bornfair.people.twins.versions import person_of_row

if TYPE_CHECKING:
    from bornfair.models.network.model import Model

TRIED = {1: 256, 2: 9}  # values of a number tried, by how many features change: first one, then two
NEAR = 3  # whole numbers next to a person's own that are tried too
REFINED = 40  # halvings of a real number's change
WORK = 2**30  # multiplications at once
TIMED_WORK = 2**28  # between two looks at the clock, the first of which comes after compilation
FEWEST_ROWS, MOST_ROWS = 128, 8192  # judged together
REPLAYED = 16  # candidates for the smallest change


class NetworkRows(RowMethod):
    """Of a real-valued sensitive feature the levels of its grid are looked at."""

    model: Model

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.relation: Relation | None = None

    @cached_property
    def lens(self) -> Lens:
        return Lens(self.model)

    def alike(self, table: pd.DataFrame) -> Decided | None:
        model = self.model
        try:
            self.relation = grid_relation(model.encoding)
        except InputError:  # the twins cannot be listed; a proof from the structure needs no list
            if model.covers_execution and "float32" in model.structure().arithmetic:
                return model.evaluate(table)
            if model.original is None:
                raise
        return None

    def size(self, left: float, each: float) -> int:
        """A power of two, as each size is compiled; of what there is time for, once that is known."""
        work = WORK if left == math.inf else TIMED_WORK
        fit = np.clip(work // (self.model.network.parameters * self.versions.size), FEWEST_ROWS, MOST_ROWS)
        size = 1 << int(fit).bit_length() - 1
        affordable = left / max(each, 1e-9) if each < math.inf else math.inf
        return 1 << int(max(affordable, 1.0)).bit_length() - 1 if affordable < size else size

    def check(self, table: pd.DataFrame) -> None:
        self.model.encoding.encode(table, sensitive=False)

    def settled(self, rows: pd.DataFrame, scores: np.ndarray, fair: np.ndarray) -> np.ndarray:
        if self.relation is None or self.model.original is not None:
            return fair
        fair = fair.copy()
        for row in self._too_close(rows, scores, self.relation):
            person = person_of_row(self.model.domain, rows, int(row))
            if person is not None:
                everyone = range(self.versions.size)
                fair[row] = not self.model.replay(self.pair(person, everyone)).unfair_in
        return fair

    def _too_close(self, rows: pd.DataFrame, scores: np.ndarray, relation: Relation) -> np.ndarray:
        """Rows whose decisions the machine's rounding might change."""
        model, encoding = self.model, self.model.encoding
        free = encoding.encode(rows, sensitive=False).free.astype(np.float64)
        largest = np.concatenate([np.abs(part).max(axis=0, initial=0.0) for part in (free, encoding.codes)])
        if encoding.domain.twins:  # some versions have other values than the row's own
            largest = np.maximum(largest, encoded_sizes(encoding))
        error = largest_rounding(model.network, largest)
        ranked = np.sort(scores.astype(np.float64), axis=2)
        lead = np.abs(ranked[..., 0]) if ranked.shape[2] == 1 else (ranked[..., -1] - ranked[..., -2]) / 2
        close = np.flatnonzero(~(lead.min(axis=1) > 2 * error))
        if not len(close):
            return close
        owner = Bounder(model.network, relation, variables(encoding, relation.free))
        fair, unfair = sure_people(owner, free[close])
        return close[~(fair | unfair)]

    # --- smallest changes ---

    def changes(self, person: Person, clock: Clock) -> Iterator[Person]:
        point = self.lens.point(person)
        for together in TRIED:
            for changed in self._fair_changes(point, together)[:REPLAYED]:
                yield self.lens.person(self._nearer(point, changed))
                yield self.lens.person(changed)

    def _fair_changes(self, point: np.ndarray, together: int) -> np.ndarray:
        """Points that differ in so many features at most and whose versions agree, the nearest first."""
        lens, trials = self.lens, [np.zeros((0, self.lens.width))]
        for features in itertools.combinations(range(lens.width), together):
            grid = np.meshgrid(*(self._values(point, feature, together) for feature in features), indexing="ij")
            some = np.repeat(point[None], grid[0].size, axis=0)
            some[:, features] = np.stack([values.ravel() for values in grid], axis=1)
            trials.append(some)
        people = np.concatenate(trials)
        people = people[(people != point).any(axis=1)]
        fair = people[self._agree(people)]
        span = np.where(lens.high > lens.low, lens.high - lens.low, 1.0)
        cost = np.where(lens.one_hot, fair != point, np.abs(fair - point) / span).sum(axis=1)
        return fair[np.argsort(cost, kind="stable")]

    def _values(self, point: np.ndarray, feature: int, together: int) -> np.ndarray:
        """Values of a feature worth trying: all if they are few, else some, and alone also those next to its own."""
        lens = self.lens
        low, high, most = lens.low[feature], lens.high[feature], TRIED[together]
        if not lens.whole[feature]:
            return np.linspace(low, high, most)
        if high - low < most or feature not in lens.numbers:
            return np.arange(low, high + 1)
        values = np.round(np.linspace(low, high, most))
        near = point[feature] + np.arange(-NEAR, NEAR + 1) if together == 1 else values
        return np.unique(np.clip(np.concatenate([values, near]), low, high))

    def _agree(self, people: np.ndarray) -> np.ndarray:
        decided = decisions(self.lens.scores(people, np.arange(self.lens.size)))
        return (decided == decided[:, :1]).all(axis=1)

    def _nearer(self, point: np.ndarray, changed: np.ndarray) -> np.ndarray:
        """The change taken back as far as the versions still agree, number by number."""
        lens, best = self.lens, changed.copy()
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
                if self._agree(trial[None])[0]:
                    fair = middle
                else:
                    unfair = middle
            best[feature] = fair
        return best
