"""What is there to say about an audited model? Plain records, all optional but the verdict, that JSON can hold.

Nothing here computes fairness: the numbers come from whoever measured them. Records refuse what cannot be a share,
an interval or a histogram, so that no report shows nonsense in a serious type.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from typing import Any, get_args

from bornfair.errors import InputError, shown
from bornfair.report.domain_facts import DomainFacts
from bornfair.verification.verdict import Answer, Arithmetic, Proof, Verdict

Share = float  # from 0 to 1


class Checked:
    """A record that refuses a field declared as `Share` with any other number in it."""

    def __post_init__(self) -> None:
        for declared in dataclasses.fields(self):  # type: ignore[arg-type]
            if declared.type not in ("Share", "Share | None"):
                continue
            value = getattr(self, declared.name)
            if declared.type == "Share | None" and (value is None or value != value):
                object.__setattr__(self, declared.name, None)  # NaN, the rate of nobody, is the same as missing
            elif not (isinstance(value, Real) and 0 <= float(value) <= 1):
                kind = type(self).__name__.lower()
                raise InputError(f"{declared.name} of {kind}: found {value!r}; give a share from 0 to 1.")


# --- everyone who could exist: what quantification measures, field by field ---


@dataclass(frozen=True)
class Estimate(Checked):
    """A share seen in a sample of `samples` people, with its confidence interval. Never a proof."""

    unfair: Share
    low: Share
    high: Share
    confidence: Share = 0.95
    samples: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.unfair <= self.high:
            raise InputError(
                f"an estimate lies in its interval, found {self.unfair} outside {self.low} to {self.high}; "
                "give low ≤ unfair ≤ high."
            )


@dataclass(frozen=True)
class Shares(Checked):
    """How much of the domain is proven fair, proven unfair, open. `over`: "uniform domain" or "marginals"."""

    certified: Share
    falsified: Share
    undecided: Share
    estimate: Estimate | None = None
    boxes: int | None = None
    seconds: float | None = None
    over: str = "uniform domain"

    def __post_init__(self) -> None:
        super().__post_init__()
        total = self.certified + self.falsified + self.undecided
        if abs(total - 1) > 1e-9:
            raise InputError(f"certified, falsified and undecided shares sum to 1, found {total!r}; give all three.")


@dataclass(frozen=True)
class Group(Checked):
    """A group of people in words, the share of the domain it covers, how many inside are affected (an estimate),
    and the share of all affected people it holds."""

    text: str
    covers: Share
    unfair_inside: Estimate | None = None
    holds: Share | None = None


# --- single people, and the rows of a table ---


@dataclass(frozen=True)
class Pair:
    """Two (or more) people who differ only in what must not matter, what each gets and, if known, their scores."""

    people: tuple[Mapping[str, Any], ...]
    decisions: tuple[Any, ...] = ()
    scores: tuple[float, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.people) < 2:
            raise InputError(f"a pair of twins has two people, found {len(self.people)}; give both.")
        for name in ("decisions", "scores"):
            given = getattr(self, name)
            if given and len(given) != len(self.people):
                raise InputError(
                    f"{name} of twins: {len(given)} given for {len(self.people)} people; give one for each."
                )

    @property
    def unlike(self) -> list[str]:
        """The features in which they differ."""
        names = dict.fromkeys(name for person in self.people for name in person)
        return [name for name in names if any(p.get(name) != self.people[0].get(name) for p in self.people)]

    def shows(self, other: Pair) -> bool:
        """Whether it is about the same people."""
        return self._key == other._key

    @property
    def _key(self) -> list[list[tuple[str, str]]]:
        return [sorted((name, str(value)) for name, value in person.items()) for person in self.people]


@dataclass(frozen=True)
class Affected:
    """One person of the data set whose decision hangs on the sensitive value, and the twin who is decided otherwise."""

    row: int | str
    person: Mapping[str, Any]
    twin: Mapping[str, Any]
    decisions: tuple[Any, ...] = ()
    gap: float | None = None
    undo: str = ""


@dataclass(frozen=True)
class People:
    """The rows of a data set: how many of them have a twin who is decided otherwise, and whom it hits hardest."""

    rows: int
    unfair: int
    most_affected: tuple[Affected, ...] = ()
    source: str = ""
    values: int | None = None
    """How many sensitive values each row was looked at with, where they are not all there are."""

    def __post_init__(self) -> None:
        if not 0 <= self.unfair <= self.rows:
            raise InputError(f"unfair rows: {self.unfair} of {self.rows}; give a count from 0 to the number of rows.")

    @property
    def share(self) -> float:
        return self.unfair / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class Histogram:
    """Counts between neighbouring edges, here of the differences between twins' scores."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in pairwise(self.edges))
        finite = all(math.isfinite(edge) for edge in self.edges)
        if not self.counts or len(self.edges) != len(self.counts) + 1 or not rising or not finite:
            raise InputError(
                f"a histogram has one rising edge more than counts, found {len(self.edges)} edges "
                f"({shown(self.edges, most=4)}) and {len(self.counts)} counts."
            )
        if min(self.counts) < 0:
            raise InputError(f"counts of a histogram are 0 or more, found {min(self.counts)}.")


# --- how good the model is, how it came about ---


@dataclass(frozen=True)
class Metrics(Checked):
    """How good the model is on `rows` rows it did not learn from. `empirical_fairness`: rows whose twins agree."""

    accuracy: Share | None = None
    balanced_accuracy: Share | None = None
    auc: Share | None = None
    empirical_fairness: Share | None = None
    rows: int | None = None


@dataclass(frozen=True)
class GroupMetrics(Checked):
    """One line of the table by sensitive value; rates that cannot be computed are None."""

    value: str
    count: int
    selection_rate: Share | None = None
    accuracy: Share | None = None
    true_positive_rate: Share | None = None
    false_positive_rate: Share | None = None


@dataclass(frozen=True)
class HistoryPoint(Checked):
    """What was measured after one epoch."""

    epoch: int
    accuracy: Share | None = None
    fairness: Share | None = None
    loss: float | None = None


@dataclass(frozen=True)
class Proxy(Checked):
    """How well one feature (or all together) predicts the sensitive value. `chance` is what guessing gives."""

    feature: str
    predicts_sensitive: Share | None
    measure: str = "AUC"
    chance: Share = 0.5
    note: str = ""


@dataclass(frozen=True)
class Repair(Checked):
    """What it cost to make the model fair: accuracy before and after, and the share of decisions that changed."""

    accuracy_before: Share | None = None
    accuracy_after: Share | None = None
    decisions_changed: Share | None = None
    rows: int | None = None
    note: str = ""


@dataclass(frozen=True)
class CertificateFacts:
    """What the certificate says: the sentence that may be quoted, the files it is about, and other facts by name."""

    claim: str = ""
    format: str = ""
    statement: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    sha256: str = ""
    leaves: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    bundle: str = "BUNDLE"
    verdict: str = ""


# --- all of it ---


@dataclass(frozen=True)
class Document:
    """All that a report says about one model. `made` is shown as given: without it, the same facts give the same
    bytes."""

    verdict: Verdict
    model: str = ""
    title: str = ""
    made: str = ""
    domain: DomainFacts | None = None
    twins: tuple[Pair, ...] = ()
    shares: Shares | None = None
    people: People | None = None
    groups: tuple[Group, ...] = ()
    metrics: Metrics | None = None
    group_metrics: tuple[GroupMetrics, ...] = ()
    score_gaps: Histogram | None = None
    history: tuple[HistoryPoint, ...] = ()
    making: Mapping[str, str] = field(default_factory=dict)
    """How the model came about, as recorded, not proven."""
    certificate: CertificateFacts | None = None
    proxies: tuple[Proxy, ...] = ()
    suggestions: tuple[str, ...] = ()
    repair: Repair | None = None

    def __post_init__(self) -> None:
        found = self.verdict
        known = [("verdict", found.verdict, Answer), ("proof", found.proof, Proof)]
        for name, value, kind in [*known, *(("arithmetic", one, Arithmetic) for one in found.arithmetic)]:
            if value not in get_args(kind):
                raise InputError(f"{name}: found {value!r}; it is one of {shown(get_args(kind))}.")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The twins to show: those of the verdict first."""
        found = self.verdict
        if found.verdict != "falsified" or not found.twins:
            return self.twins
        own = Pair(tuple(found.twins), tuple(found.decisions or ()))
        given = next((pair for pair in self.twins if pair.shows(own)), own)
        return (given, *(pair for pair in self.twins if not pair.shows(own)))

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.domain.sensitive if self.domain else ()

    @property
    def label(self) -> str | None:
        """The name of what is decided."""
        return self.domain.label if self.domain else None


@dataclass(frozen=True)
class Comparison:
    """Several models side by side, told apart by their names."""

    models: tuple[Document, ...]
    title: str = ""
    made: str = ""

    def __post_init__(self) -> None:
        if len(self.models) < 2:
            raise InputError(f"a comparison needs two models or more, found {len(self.models)}; add one.")
        names = [document.model for document in self.models]
        if len(set(names)) != len(names) or "" in names:
            raise InputError(f"models are compared by name, found {shown(names)}; give each a name of its own.")
