"""How rows of a table are judged as all their versions, and changed until these agree: what differs between kinds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.protocol import Countable, Decided
from bornfair.people.features import Value
from bornfair.people.twins.versions import Versions, own_versions

Person = dict[str, Value]


class RowMethod:
    """Judges rows of a table; each kind of model has its own."""

    fewest = 0  # rows that are judged whatever the time
    replayed = 16  # rows that are replayed to show that a model is not fair
    tries = 1  # rows replayed at most for each that is described
    engine = "attack"  # to which twins among rows are attributed
    compares_leads = True  # whether a row whose version is not known is shown as the pair with the largest lead

    def __init__(self, model: Countable, versions: Versions | None = None) -> None:
        self.model = model
        self.versions = Versions(model.domain) if versions is None else versions

    def alike(self, table: pd.DataFrame) -> Decided | None:
        """The rows as they are, if no twins can be listed and a proof shows that all are decided alike."""
        return None

    def size(self, left: float, each: float) -> int:
        """How many rows to judge next, with so many seconds left, of which a row takes `each` (infinite where that is
        not known yet).
        """
        raise NotImplementedError

    def own(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """The version that each row is, and whether it is known."""
        return own_versions(rows, self.model.domain.sensitive, self.versions.values)

    def decide(self, rows: pd.DataFrame) -> Decided:
        """The rows as each version, with scores."""
        return self.model.decide(rows, self.versions)

    def settled(self, rows: pd.DataFrame, scores: np.ndarray, fair: np.ndarray) -> np.ndarray:
        """Who is treated fairly, where scores that are too close to call were looked at again."""
        return fair

    def check(self, table: pd.DataFrame) -> None:
        """Raise the error of the rows that cannot be judged with their place in the whole table."""

    def progress(self, clock: Clock, done: int, count: int) -> None:
        """Report how many rows are judged, where that takes long."""

    def tried(self, rows: int) -> str:
        """Among whom twins were found, in words."""
        return f"rows of the table; {rows:,} people tried"

    def pair(self, person: Mapping[str, Value], versions: Sequence[int], row: Any = None) -> list[Person]:
        """A person as these versions, those who are nobody left out; `row`: the row of the table that is the first."""
        settled = self.versions.settled(person)
        return [self.versions.of(settled, v) for v in versions if self.versions.exists(settled, v)]

    def changes(self, person: Person, clock: Clock) -> Iterator[Person]:
        """The person with other free features, all versions of whom seem to be decided alike: the nearest first."""
        raise NotImplementedError
