"""Models that can only be run: raw rows in, decisions out.

Nothing is proven of such a model. Results rest on its answers, and on the model giving the same answer to the same row,
which is tested first.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.columns import Columns
from bornfair.models.network.network import decisions
from bornfair.models.opaque.said import Meant, Outside
from bornfair.models.protocol import (
    ASKED,
    Countable,
    Decided,
    Person,
    Replay,
    RowMethod,
    Unsteady,
    as_versions,
    nearest_changes,
)
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.tables import as_pandas

if TYPE_CHECKING:
    from bornfair.models.graph.model import WiredModel
    from bornfair.people.domain import Domain
    from bornfair.people.twins.versions import Versions

BATCH_SECONDS = 0.5  # that a batch of rows should take
FEWEST, BEGIN = 16, 512  # rows of a batch
SMALL_PART = 4.0  # times as long as it takes to begin a batch it should go on
REMEMBERED = 12  # batches
TRIED = {1: 32, 2: 5}  # values of a feature that are tried, by how many features change
MOST_TRIED = 2_000


@dataclass(frozen=True)
class Steadiness:
    """How often a model answered otherwise when it was asked again, in another order and in other batches."""

    asked: int = 0
    changed: int = 0
    moved: float = 0.0
    """By how much a score changed at most."""

    @property
    def text(self) -> str:
        """
        >>> Steadiness(256, 3).text
        'of 256 people who were asked about twice, 3 were decided otherwise the second time'
        """
        twice = f"of {self.asked:,} people who were asked about twice"
        if self.changed:
            were = "was" if self.changed == 1 else "were"
            return f"{twice}, {self.changed:,} {were} decided otherwise the second time"
        moved = f" (scores moved by {self.moved:.1g} at most)" if self.moved else ""
        return f"{twice}, none was decided otherwise the second time{moved}"


class Pace:
    """How long the model takes, as `fixed` seconds for a batch and some for each row; so many rows are asked about
    together that the first hardly matters.

    >>> pace = Pace(10_000)
    >>> pace.measured(16, 1.016)  # a program that takes a second to start
    >>> pace.measured(64, 1.064)
    >>> pace.measured(256, 1.256)
    >>> pace.rows, round(pace.fixed, 3)
    (1024, 1.0)
    """

    def __init__(self, most: int) -> None:
        self.most, self.rows = most, min(BEGIN, most)
        self.fixed, self.slope = 0.0, 0.0
        self._seen: collections.deque[tuple[int, float]] = collections.deque(maxlen=REMEMBERED)

    @property
    def each(self) -> float:
        """Seconds for a row, in batches of the present size."""
        return self.fixed / self.rows + self.slope

    def measured(self, rows: int, seconds: float) -> None:
        """A batch of so many rows took so long."""
        if rows < min(FEWEST, self.most):  # too few to tell anything
            return
        self._seen.append((rows, seconds))
        sizes, took = (np.array(part, np.float64) for part in zip(*self._seen, strict=True))
        if sizes.max() < 2 * sizes.min():  # what is fixed does not show yet
            self.fixed, self.slope = 0.0, float(took.sum() / sizes.sum())
            wanted = 4.0 * rows if seconds < 4 * BATCH_SECONDS else float(rows)
        else:
            slope, fixed = np.polyfit(sizes, took, 1)
            self.slope = max(float(slope), 0.1 * float((took / sizes).min()), 1e-9)
            self.fixed = max(float(fixed), 0.0)
            wanted = max(BATCH_SECONDS, SMALL_PART * self.fixed) / self.slope
        self.rows = int(np.clip(min(wanted, 4 * max(self.rows, rows)), min(FEWEST, self.most), self.most))


@dataclass(frozen=True, eq=False)
class OpaqueModel(Countable):
    """A model that is run and not read, over the domain it is asked about.

    >>> import pandas as pd
    >>> from bornfair.importers.opaque import opaque_model
    >>> from bornfair.models.columns import Who
    >>> from bornfair.models.reading import Reading
    >>> def by_age(people: pd.DataFrame):
    ...     return people["age"] + 5 * people["woman"] > 30
    >>> people = pd.DataFrame({"age": [20, 28, 40, 50], "woman": [0, 0, 1, 1]})
    >>> model = opaque_model(by_age, Who(None, ["woman"], people), Reading())
    >>> model.predict(people).tolist(), model.empirical_fairness(people)
    ([False, False, True, True], 0.75)
    """

    kind: ClassVar[str] = "opaque"
    is_read: ClassVar[bool] = False
    source: Outside
    columns: Columns
    meant: Meant
    unread: str = ""
    """Why it is not read; "" where that was asked for."""
    steadiness: Steadiness = Steadiness()
    takes_gaps: bool = False
    note: str = ""
    wires: WiredModel | None = None
    """The graph that is asked, if its wires were read."""
    pace: Pace = field(default_factory=lambda: Pace(BEGIN))
    certificate: None = None
    original: None = None

    @property
    def domain(self) -> Domain:
        return self.columns.domain

    @property
    def reads(self) -> tuple[str, ...]:
        """The features it is given."""
        return self.columns.names

    @property
    def classes(self) -> np.ndarray:
        return np.array(self.meant.classes)

    @property
    def class_names(self) -> list[Value]:
        label = self.domain.label
        return list(self.meant.classes if label is None else label.classes)

    @property
    def thresholds(self) -> dict[str, float]:
        """Above which number a class is decided, where that was asked for, or a graph of ours says so."""
        return dict(self.meant.operating) if self.wires is None else self.wires.thresholds

    @property
    def fills(self) -> Mapping[str, Value]:
        """It is given gaps as they are, or not at all."""
        return {}

    @property
    def ignores_sensitive(self) -> bool:
        """Whether it is given no sensitive values. It is run all the same: it may tell rows apart by their order."""
        return not set(self.domain.sensitive) & set(self.reads)

    @property
    def shows_scores(self) -> bool:
        return self.meant.numbers is not None

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def seconds_each(self) -> float:
        return self.pace.each

    @property
    def is_steady(self) -> bool:
        return not self.steadiness.changed

    def digest(self) -> str:
        return self.source.digest

    def decides_by_probability(self, found: Decided) -> bool:
        assert found.scores is not None
        return self.meant.numbers == "probability" and np.array_equal(decisions(found.scores), found.classes)

    def provenance(self) -> dict[str, str]:
        """How it was asked, in sentences."""
        why = f" It is not read because of this: {self.unread.rstrip('.')}." if self.unread else ""
        if self.wires is not None:
            told = (
                "Of its graph the wires were read: which inputs reach the decision. What it decides about people was "
                f"seen by running it: {self.source.how}; {self.steadiness.text}."
            )
            return {"Its graph": told}
        told = (
            f"It was asked from outside, not read: {self.source.how}.{why} Nothing is proven of it; what is said was "
            f"seen in its answers. It was asked whether it answers the same again: {self.steadiness.text}."
        )
        return {ASKED: told}

    def ask(self, table: pd.DataFrame, *, scores: bool = True) -> Decided:
        """Its answers for raw rows, batch by batch."""
        parts, start = list[Decided](), 0
        while start < len(table) or not parts:
            some = table.iloc[start : start + self.pace.rows]
            began = time.monotonic()
            given = self.source.ask(some, self.columns, numbers=scores or not self.meant.by_label)
            parts.append(self.meant.answers(given))
            self.pace.measured(len(some), time.monotonic() - began)
            start += max(len(some), 1)
        return joined(parts)

    def together(self, versions: int, left: float = math.inf) -> int:
        """About how many people to ask about at once, each as so many versions; not for longer than half of the seconds
        that are left, if that can be helped.
        """
        rows, pace = float(self.pace.rows), self.pace
        if left < math.inf and pace.slope > 0:
            affordable = max(left / 2 - pace.fixed, pace.fixed) / pace.slope  # starting costs the same for any number
            rows = min(rows, max(affordable, min(FEWEST, pace.most)))
        return max(int(rows) // max(versions, 1), 1)

    def evaluate(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """Its answers; about all versions together, and once if the wires of its graph show them the same."""
        frame = as_pandas(table)
        count = 1 if versions is None else versions.size if which is None else len(which)
        if not len(frame) and versions is not None:
            return Decided(np.zeros((0, count), np.int64), None)
        if versions is not None and count > 1 and self.wires is not None and self.wires.unclear() is None:
            one = self.evaluate(frame, versions, [0 if which is None else which[0]], scores=scores)
            shown = None if one.scores is None else np.repeat(one.scores, count, axis=1)
            return Decided(np.repeat(one.classes, count, axis=1), shown)
        tables = as_versions(frame, versions, which)
        found = self.ask(frame if versions is None else pd.concat(tables, ignore_index=True), scores=scores)
        shape = count, len(frame)
        shown = None if found.scores is None else found.scores.reshape(*shape, -1).swapaxes(0, 1)
        return Decided(found.classes.reshape(shape).T, shown)

    def replay(self, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()) -> Replay:
        """Ask about people again: together, the other way round, and each alone.

        Raises Unsteady if somebody is decided in two ways.
        """
        if not people:
            return Replay((), {})
        table = pd.DataFrame(list(people), columns=list(self.domain.names))
        together = self.ask(table, scores=False).classes.tolist()
        turned = self.ask(table.iloc[::-1], scores=False).classes.tolist()[::-1]
        alone = [int(self.ask(table.iloc[[i]], scores=False).classes[0]) for i in range(len(table))]
        if not turned == alone == together:
            raise Unsteady(self.unsteady_text)
        return Replay(tuple(map(dict, people)), {"executed": tuple(map(int, together))}, tuple(versions))

    def row_method(self) -> OpaqueRows:
        return OpaqueRows(self)

    def structure(self) -> Verdict:
        """By the wires of its graph, if these were read; else nothing is proven of it."""
        return undecided("asking", "it is run, not read") if self.wires is None else self.wires.structure()

    def share_of_last(self, values: np.ndarray) -> np.ndarray:
        found = self.meant.probabilities(values[:, None])
        assert found is not None
        return found[:, -1]

    def probabilities(self, scores: np.ndarray) -> np.ndarray | None:
        return self.meant.probabilities(scores)

    def require_steady(self) -> None:
        if self.steadiness.changed:
            raise Unsteady(
                f"{self.source.name} does not answer the same row alike: {self.steadiness.text}. What sensitive values "
                "change cannot be told from that; fix its seed, or ask a model that decides the same each time."
            )


def joined(parts: Sequence[Decided]) -> Decided:
    shown = [part.scores for part in parts]
    scores = None if any(one is None for one in shown) else np.concatenate([one for one in shown if one is not None])
    return Decided(np.concatenate([part.classes for part in parts]), scores)


# --- rows of a table ---


class OpaqueRows(RowMethod):
    """Rows judged by decisions alone, as all their versions. People whom it affects most are asked about again before
    they are shown: noise is no unfairness.
    """

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
            options = [_other_values(feature, person[feature.name], most) for feature in features]
            affordable = clock.left / max(self.model.seconds_each * self.versions.size, 1e-9)
            trials = nearest_changes(options, together)[: int(max(min(affordable, MOST_TRIED), 0))]
            if not trials:
                continue
            changed = [person | {features[i].name: value for i, value in changes.items()} for _, changes in trials]
            people = pd.DataFrame(changed)
            decided = self.model.decide(people, self.versions, scores=False).classes
            for row in np.flatnonzero((decided == decided[:, :1]).all(axis=1))[: self.replayed]:
                yield changed[row]


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
