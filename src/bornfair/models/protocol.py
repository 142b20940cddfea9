"""The interface of models, `Decider`, with its records, and `RowMethod`, by which rows of a table are judged.

Questions use nothing else of a model.

Kinds: `Model` (network), `ForestModel`, `WiredModel` (graph whose wires are read) and `OpaqueModel` (run, not read). A
kind implements what is abstract here: how rows are evaluated, people replayed, and fairness proven by structure.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.metrics import same_for_all
from bornfair.people.features import Value
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions, own_versions

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.core.clock import Clock
    from bornfair.importers.source import Original
    from bornfair.models.forest.influence import Influence
    from bornfair.models.operating import Asked, Operating, Threshold
    from bornfair.models.verdict import Arithmetic, Verdict
    from bornfair.people.domain import Domain
    from bornfair.people.features import NumericFeature
    from bornfair.people.policies import Policies
    from bornfair.proof.certificate import Certificate

ASKED = "Asked from outside"  # heading under which a report says how a model is run that is not read
MOST_LISTED = 20_000  # versions of a person
TOGETHER = 2**22  # decisions of versions that are held at once

Person = dict[str, Value]


class Unsteady(InputError):
    """The model answered the same question in two ways, so that what is seen of it may be noise."""


@dataclass(frozen=True, eq=False)
class Decided:
    """Decisions about rows.

    classes: class indices [rows, versions], or [rows]. scores [..., outputs]: of two classes one, above 0 for the last
    (graphs: one for each); of more, one for each class. None where the model shows none, or nobody asked for them.
    """

    classes: np.ndarray
    scores: np.ndarray | None = None
    probabilities: np.ndarray | None = None
    """Of the classes [rows, K], to show; only where rows as they are were described."""

    def ranked(self, classes: int) -> np.ndarray:
        """Scores; where there are none, ½ for the class that is decided and against all others."""
        if self.scores is not None:
            return self.scores
        if classes == 2:
            return self.classes[..., None] - 0.5
        return (self.classes[..., None] == np.arange(classes)) - 0.5


@dataclass(frozen=True)
class Replay:
    """Twins and what became of them."""

    people: tuple[dict[str, Value], ...]
    decisions: dict[Arithmetic, tuple[int, ...]]
    """Class indices of each twin, in each arithmetic that could be replayed."""
    versions: tuple[int, ...] = ()
    """Which version of the person each of them is."""

    @property
    def unfair_in(self) -> tuple[Arithmetic, ...]:
        """The arithmetics in which the twins are decided differently."""
        return tuple(name for name, decided in self.decisions.items() if len(set(decided)) > 1)


class Decider(ABC):
    """A model of any kind over the domain it is asked about."""

    kind: ClassVar[str]
    """Key of the tables of what differs between kinds above this package; of a new kind, any other word."""
    is_read: ClassVar[bool] = True
    """Whether its inside is read, so that something can be proven; else it is only run."""
    if TYPE_CHECKING:  # fields of some kinds, properties of others

        @property
        def domain(self) -> Domain: ...
        @property
        def certificate(self) -> Certificate | None: ...
        @property
        def original(self) -> Original | None: ...  # the model it was read from, in its own software
        @property
        def note(self) -> str: ...  # how it was read, where its file does not say so; part of every answer about it
        @property
        def thresholds(self) -> dict[str, float]: ...  # of probabilities, by class, where not the usual one decides
        @property
        def fills(self) -> Mapping[str, Value]: ...  # for missing values, by feature, where there is a rule
        @property
        def ignores_sensitive(self) -> bool: ...  # whether no sensitive value can reach the decision, or is given
        @property
        def unread(self) -> str: ...  # why it is not read, if that was not asked for
        @property
        def takes_gaps(self) -> bool: ...  # whether rows with missing values are given to it as they are

    else:
        unread, takes_gaps = "", False

    @property
    def name(self) -> str:
        """What messages call it."""
        return "the model"

    @property
    def seconds_each(self) -> float:
        """How long a row takes, where other software is run for it."""
        return 0.0

    @property
    def classes(self) -> np.ndarray:
        """The names of the classes, in order."""
        return self.domain.classes

    @property
    def class_names(self) -> list[Value]:
        """The same; numbers where the domain names no classes."""
        label = self.domain.label
        return list(self.classes.tolist() if label is None else label.classes)

    @property
    def shows_scores(self) -> bool:
        return True

    @property
    def covers_execution(self) -> bool:
        """Whether a proof about the model as read also holds for its original as executed."""
        return True

    @property
    def some_values_only(self) -> bool:
        """Whether of a real-valued sensitive feature only some values are looked at one by one."""
        return bool(self.domain.real_sensitive)

    # --- deciding ---

    def scores(self, table: Any) -> np.ndarray:
        """Scores [rows, outputs] of raw rows; where it shows none, which class it decides."""
        return self.evaluate(table).ranked(len(self.class_names))[:, 0]

    def predict_proba(self, table: Any) -> np.ndarray:
        found = self.probabilities(self.scores(table))
        if found is None:
            raise InputError(f"{self.name} shows no probabilities.")
        return found

    @abstractmethod
    def evaluate(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """Raw rows as each of their versions (all, or these), by our own evaluation; without `versions` as they are."""

    def described(self, table: Any) -> Decided:
        """Raw rows as they are [rows]: what is executed decides, with scores and probabilities if the model has any."""
        found = self.evaluate(table)
        scores = found.ranked(len(self.class_names))[:, 0]
        return Decided(found.classes[:, 0], scores, self.probabilities(scores))

    @abstractmethod
    def structure(self) -> Verdict:
        """Verified without any search, or undecided with the reason."""

    def decide(
        self, table: Any, versions: Versions | None = None, which: Sequence[int] | None = None, *, scores: bool = True
    ) -> Decided:
        """As `evaluate`, with the classes that the original decides where there is one."""
        frame = as_pandas(table)
        if self.original is None:
            return self.evaluate(frame, versions, which, scores=scores)
        shown = self.evaluate(frame, versions, which).scores if scores else None
        return Decided(self.original.decide_versions(as_versions(frame, versions, which)), shown)

    def executed(self, table: Any) -> np.ndarray:
        """The class index of each raw row, by what is deployed: the original, or else the file that is shipped."""
        return self.decide(table, scores=False).classes[:, 0]

    def predict(self, table: Any) -> np.ndarray:
        return self.classes[self.evaluate(table, scores=False).classes[:, 0]]

    def decision_function(self, table: Any) -> np.ndarray:
        scores = self.scores(table)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def probabilities(self, scores: np.ndarray) -> np.ndarray | None:
        """Of the classes [rows, K], from scores of rows; None where these do not tell."""
        return None

    def listed_versions(self) -> Versions | None:
        """The versions of a person that are decided one by one; None where they are too many."""
        space, group = self.domain.sensitive_space.size, self.domain.twin_group.size
        return None if space > ENUMERATION_LIMIT or space * group > MOST_LISTED else Versions(self.domain)

    def scores_of_versions(self, table: Any) -> np.ndarray:
        """Each person's scores as every version of themselves: [versions, rows, outputs], numbered as in
        `bornfair.people.twins.versions`.

        Sensitive values are given to the model even if it ignores them: that is how fairness is put to the test.
        """
        found = self.evaluate(table, Versions(self.domain))
        return found.ranked(len(self.class_names)).swapaxes(0, 1)

    def empirical_fairness(self, table: Any, *, declared: bool = True) -> float:
        """Share of rows whose decision is the same for every version of the person. It speaks of these rows only.

        declared=False: for every sensitive value, the declared rules left aside.
        """
        self.domain.require_sensitive()
        frame, versions = as_pandas(table), Versions(self.domain)
        which, same = range(versions.size if declared else versions.sensitive_size), [np.zeros(0, bool)]
        step = max(TOGETHER // len(which), 1)
        for start in range(0, len(frame), step):
            some = frame if step >= len(frame) else frame.iloc[start : start + step]
            decided = self.evaluate(some, versions, which, scores=False).classes
            same.append(same_for_all(decided.T))
        return float(np.mean(np.concatenate(same)))


class Countable(Decider):
    """Networks, forests and models that are run: people are judged and shown, and not only wires."""

    @abstractmethod
    def replay(self, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()) -> Replay:
        """Decide people, given by all their raw values, for a counterexample."""

    @abstractmethod
    def row_method(self) -> RowMethod:
        """How rows of a table are judged."""

    def digest(self) -> str:
        """What identifies it, in words; "" where nothing does."""
        return ""

    @abstractmethod
    def share_of_last(self, values: np.ndarray) -> np.ndarray:
        """The probabilities of the last of two classes [people], from numbers as `threshold_axis` gives them."""

    def threshold_axis(self, scores: np.ndarray) -> tuple[np.ndarray, float]:
        """Scores of the last of two classes as numbers that a threshold is compared with, and the model's threshold."""
        return scores.astype(np.float64), 0.0

    def together(self, versions: int, left: float = math.inf) -> int:
        """About how many people to judge at once, each as so many versions, with so many seconds left."""
        return max(TOGETHER // versions, 1)

    @property
    def is_steady(self) -> bool:
        """Whether it gives the same answer each time."""
        return True

    @property
    def unsteady_text(self) -> str:
        """Why nothing can be told of a model that changes its mind."""
        return (
            f"{self.name} decided the same person in two ways when asked again (in another order, or alone), so "
            "that what sensitive values change cannot be told from noise; fix its seed, or ask a model that decides "
            "the same each time."
        )

    def require_steady(self) -> None:
        """Raise `Unsteady` if it is known to answer the same question in two ways."""

    def decides_by_probability(self, found: Decided) -> bool:
        """Whether thresholds of a probability explain these decisions."""
        return True

    def influences(self) -> tuple[Influence, ...]:
        """Through which trees and features sensitive values act, of a forest."""
        return ()

    def provenance(self) -> dict[str, str]:
        """How it was read or is run, for a report, by heading."""
        original = self.original
        if original is None:
            return {}
        compared = f"{original.people_compared:,} people, random ones and ones at corners and boundaries"
        text = f"Read from the original, and compared with it on {compared}"
        if original.largest_difference is not None:
            text += f": scores differ by {original.largest_difference:.2g} at most"
        proven = "" if self.covers_execution else " What is proven is proven in real arithmetic, of the model as read."
        return {"Imported": f"{text} ({original.runtime}).{proven}"}


class Exportable(Decider):
    """Networks, forests and graphs: they can be written as one graph."""

    @property
    def policies(self) -> Policies | None:
        """How a network treats values outside its domain."""
        return None

    @abstractmethod
    def at(self, threshold: Threshold | Asked | None, table: Any = None) -> Self:
        """The same model at another operating point: 0.05, "top 12%" of the people of a table, "approve=0.3"; None for
        the usual one. What was proven of decisions is left behind; what was proven of scores holds everywhere.
        """

    @abstractmethod
    def rule_on_shares(self) -> Operating | None:
        """Where the shares decide that the graph of the model shows, if not by the largest."""

    @abstractmethod
    def without_original(self) -> Self:
        """The model as it is written to files."""

    @abstractmethod
    def with_certificate(self, certificate: Certificate) -> Self: ...

    @abstractmethod
    def graph_bytes(self, *, sensitive: bool = True) -> bytes:
        """The model as an ONNX file; without `sensitive` columns only if it ignores them."""

    def held(self, feature: NumericFeature, numbers: np.ndarray) -> np.ndarray:
        """Which numbers outside the range the model takes as one inside: clipped, or held at an end."""
        return np.zeros(len(numbers), bool)


class Bounded(Countable, Exportable):
    """Networks and forests: their decisions in boxes of the domain can be bounded."""


def as_versions(frame: pd.DataFrame, versions: Versions | None, which: Sequence[int] | None) -> list[pd.DataFrame]:
    """The rows once for each version; once as they are, if there are no versions."""
    if versions is None:
        return [frame]
    return [versions.table(frame, version) for version in (range(versions.size) if which is None else which)]


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


def nearest_changes(
    options: Sequence[Sequence[tuple[float, Any]]], together: int
) -> list[tuple[float, dict[int, Any]]]:
    """Changes of so many features, the nearest first: the distance, and the new value by the feature's position.

    options: for each feature its other values, each with its distance.
    """
    found = []
    for places in itertools.combinations(range(len(options)), together):
        for choice in itertools.product(*(options[i] for i in places)):
            changed = {i: value for i, (_, value) in zip(places, choice, strict=True)}
            found.append((sum(cost for cost, _ in choice), changed))
    return sorted(found, key=lambda change: change[0])
