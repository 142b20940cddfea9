"""What decides, when it can only be run? A model that is asked from outside: raw rows in, decisions out.

Nothing is known of what happens between two questions. So nothing is ever proven of it; what is said rests on answers,
and on the model giving the same one to the same row, which is put to the test first.
"""

from __future__ import annotations

import collections
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.models.columns import Columns
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.metrics import same_for_all
from bornfair.models.network.model import Model
from bornfair.models.opaque.said import Answers, Meant, Outside
from bornfair.people.features import Value
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions

if TYPE_CHECKING:
    from bornfair.people.domain import Domain

BATCH_SECONDS = 0.5  # that a batch of rows should take
FEWEST, BEGIN = 16, 512  # rows of a batch
SMALL_PART = 4.0  # times as long as it takes to begin a batch it should go on
REMEMBERED = 12  # batches


class Unsteady(InputError):
    """The model answered the same question in two ways, so that what is seen of it may be noise."""


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
        fewest = min(FEWEST, self.most)
        self.rows = int(np.clip(min(wanted, 4 * max(self.rows, rows)), fewest, self.most))


@dataclass(frozen=True, eq=False)
class OpaqueModel:
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

    source: Outside
    columns: Columns
    meant: Meant
    unread: str = ""
    """Why it is not read; "" where that was asked for."""
    steadiness: Steadiness = Steadiness()
    takes_gaps: bool = False
    note: str = ""
    pace: Pace = field(default_factory=lambda: Pace(BEGIN))
    certificate: None = None
    original: None = None

    # --- what others know of a model ---

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
    def thresholds(self) -> dict[str, float]:
        """Above which number a class is decided, where that was asked for, or a graph of ours says so."""
        wires = wires_of(self)
        return dict(self.meant.operating) if wires is None else wires.thresholds

    @property
    def fills(self) -> Mapping[str, Value]:
        """It is given gaps as they are, or not at all."""
        return {}

    @property
    def ignores_sensitive(self) -> bool:
        """Whether it is not even given what is sensitive. Even then it is asked: what it is given, it may tell apart by
        its place in a batch."""
        return not set(self.domain.sensitive) & set(self.reads)

    @property
    def shows_scores(self) -> bool:
        return self.meant.numbers is not None

    @property
    def told(self) -> str:
        """How it was asked, in sentences."""
        why = f" It is not read because of this: {self.unread.rstrip('.')}." if self.unread else ""
        if wires_of(self) is not None:
            return (
                "Of its graph the wires were read: which inputs reach the decision. What it decides about people was "
                f"seen by running it: {self.source.how}; {self.steadiness.text}."
            )
        return (
            f"It was asked from outside, not read: {self.source.how}.{why} Nothing is proven of it; what is said was "
            f"seen in its answers. It was asked whether it answers the same again: {self.steadiness.text}."
        )

    # --- asking ---

    def ask(self, table: pd.DataFrame, *, scores: bool = True) -> Answers:
        """Its answers for raw rows, batch by batch."""
        parts: list[Answers] = []
        start = 0
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
            affordable = (
                max(left / 2 - pace.fixed, pace.fixed) / pace.slope
            )  # to begin costs as much for one as for many
            rows = min(rows, max(affordable, min(FEWEST, pace.most)))
        return max(int(rows) // max(versions, 1), 1)

    def ask_versions(
        self, table: pd.DataFrame, versions: Versions, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Answers:
        """The answers for everybody as each version: decided [rows, versions], scores [rows, versions, outputs]."""
        chosen = range(versions.size) if which is None else which
        if not len(table):
            return Answers(np.zeros((0, len(chosen)), np.int64), None)
        wires = wires_of(self)
        if len(chosen) > 1 and wires is not None and wires.unclear() is None:  # all versions get the same
            one = self.ask_versions(table, versions, chosen[:1], scores=scores)
            shown = None if one.scores is None else np.repeat(one.scores, len(chosen), axis=1)
            return Answers(np.repeat(one.decided, len(chosen), axis=1), shown)
        everyone = pd.concat([versions.table(table, version) for version in chosen], ignore_index=True)
        found = self.ask(everyone, scores=scores)
        shape = len(chosen), len(table)
        shown = None if found.scores is None else found.scores.reshape(*shape, -1).swapaxes(0, 1)
        return Answers(found.decided.reshape(shape).T, shown)

    def predict(self, table: Any) -> np.ndarray:
        return self.classes[self.ask(as_pandas(table), scores=False).decided]

    def scores(self, table: Any) -> np.ndarray:
        """Its scores for raw rows; where it shows none, which class it decides."""
        return scores_of(self, self.ask(as_pandas(table)))

    def predict_proba(self, table: Any) -> np.ndarray:
        found = self.meant.probabilities(self.scores(table))
        if found is None:
            raise InputError(f"{self.source.name} shows no probabilities.")
        return found

    def scores_of_versions(self, table: Any) -> np.ndarray:
        """Each person's scores as every version of themselves: [versions, rows, outputs]."""
        frame, versions = as_pandas(table), Versions(self.domain)
        return np.stack([self.scores(versions.table(frame, version)) for version in range(versions.size)])

    def empirical_fairness(self, table: Any, *, declared: bool = True) -> float:
        """Share of rows whose decision is the same for every version of the person. It speaks of these rows only."""
        self.domain.require_sensitive()
        versions = Versions(self.domain)
        count = versions.size if declared else versions.sensitive_size
        decided = self.ask_versions(as_pandas(table), versions, range(count), scores=False).decided
        return float(np.mean(same_for_all(decided.T)))

    def require_steady(self) -> None:
        if self.steadiness.changed:
            raise Unsteady(
                f"{self.source.name} does not answer the same row alike: {self.steadiness.text}. What sensitive values "
                "change cannot be told from that; fix its seed, or ask a model that decides the same each time."
            )


AnyModel = Model | ForestModel | OpaqueModel


def wires_of(model: OpaqueModel) -> WiredModel | None:
    """The graph that is asked, if its wires were read."""
    inner = getattr(model.source, "model", None)
    return inner if isinstance(inner, WiredModel) else None


def joined(parts: Sequence[Answers]) -> Answers:
    shown = [part.scores for part in parts]
    scores = None if any(one is None for one in shown) else np.concatenate([one for one in shown if one is not None])
    return Answers(np.concatenate([part.decided for part in parts]), scores)


def scores_of(model: OpaqueModel, found: Answers) -> np.ndarray:
    """Scores [..., outputs]; where there are none, ½ for the class that is decided and against all others."""
    if found.scores is not None:
        return found.scores
    if len(model.meant.classes) == 2:
        return found.decided[..., None] - 0.5
    return (found.decided[..., None] == np.arange(len(model.meant.classes))) - 0.5
