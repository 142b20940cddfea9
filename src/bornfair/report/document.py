"""What is there to say about an audited model? Plain records, all optional but the verdict, that JSON can hold.

Nothing here computes fairness: the numbers come from whoever measured them. Records refuse what cannot be a share,
an interval or a histogram, so that no report shows nonsense in a serious type.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, get_args

from bornfair.errors import InputError, shown
from bornfair.verification.verdict import Answer, Arithmetic, Proof, Verdict

if TYPE_CHECKING:
    from bornfair.people.domain import Domain


@dataclass(frozen=True)
class FeatureFacts:
    """One feature: `values` tells in words which values exist."""

    name: str
    kind: str
    values: str
    sensitive: bool = False


@dataclass(frozen=True)
class DomainFacts:
    """Who could exist, and who is whose twin: `twins` lists the rules declared beyond the sensitive features.

    `sensitive` names them in the order of whoever named them; without it, the features say which are.
    """

    features: tuple[FeatureFacts, ...] = ()
    people: str = ""
    sensitive_values: int | None = None
    combinations: int | None = None
    twins: tuple[str, ...] = ()
    label: str | None = None
    classes: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sensitive:
            names = tuple(feature.name for feature in self.features if feature.sensitive)
            object.__setattr__(self, "sensitive", names)

    @staticmethod
    def of(domain: Domain, *, twins: Sequence[str] | None = None) -> DomainFacts:
        """The facts of a domain; `twins` are rules beyond the change of the sensitive features, if not its own."""
        from bornfair.people.rule_syntax import rule_text
        from bornfair.report.domain_words import how_many, values_in_words

        label = domain.label
        return DomainFacts(
            features=tuple(
                FeatureFacts(f.name, f.kind, values_in_words(f, f.name in domain.sensitive), f.name in domain.sensitive)
                for f in domain.features
            ),
            people=how_many(domain),
            sensitive_values=domain.sensitive_space.size if domain.sensitive and not domain.real_sensitive else None,
            combinations=None if domain.combinations is None else len(domain.combinations),
            twins=tuple(map(rule_text, domain.twins) if twins is None else twins),
            label=None if label is None else label.name,
            classes=() if label is None else tuple(value_text(item) for item in label.classes),
            sensitive=tuple(domain.sensitive),
        )


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


@dataclass(frozen=True)
class Estimate:
    """A share seen in a sample of `samples` people, with its confidence interval. Never a proof."""

    unfair: float
    low: float
    high: float
    confidence: float = 0.95
    samples: int | None = None

    def __post_init__(self) -> None:
        _shares(self, "unfair", "low", "high", "confidence")
        if not self.low <= self.unfair <= self.high:
            raise InputError(
                f"an estimate lies in its interval, found {self.unfair} outside {self.low} to {self.high}; "
                "give low ≤ unfair ≤ high."
            )


@dataclass(frozen=True)
class Shares:
    """How much of the domain is proven fair, proven unfair, open. `over`: "uniform domain" or "marginals"."""

    certified: float
    falsified: float
    undecided: float
    estimate: Estimate | None = None
    boxes: int | None = None
    seconds: float | None = None
    over: str = "uniform domain"

    def __post_init__(self) -> None:
        _shares(self, "certified", "falsified", "undecided")
        total = self.certified + self.falsified + self.undecided
        if abs(total - 1) > 1e-9:
            raise InputError(f"certified, falsified and undecided shares sum to 1, found {total!r}; give all three.")


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
class Group:
    """A group of people in words, the share of the domain it covers, how many inside are affected (an estimate),
    and the share of all affected people it holds."""

    text: str
    covers: float
    unfair_inside: Estimate | None = None
    holds: float | None = None

    def __post_init__(self) -> None:
        _shares(self, "covers", "holds")


@dataclass(frozen=True)
class Metrics:
    """How good the model is on `rows` rows it did not learn from. `empirical_fairness`: rows whose twins agree."""

    accuracy: float | None = None
    balanced_accuracy: float | None = None
    auc: float | None = None
    empirical_fairness: float | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        _shares(self, "accuracy", "balanced_accuracy", "auc", "empirical_fairness")


@dataclass(frozen=True)
class GroupMetrics:
    """One line of the table by sensitive value; rates that cannot be computed are None."""

    value: str
    count: int
    selection_rate: float | None = None
    accuracy: float | None = None
    true_positive_rate: float | None = None
    false_positive_rate: float | None = None

    def __post_init__(self) -> None:
        _shares(self, "selection_rate", "accuracy", "true_positive_rate", "false_positive_rate")


@dataclass(frozen=True)
class Histogram:
    """Counts between neighbouring edges, here of the differences between twins' scores."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        finite = all(math.isfinite(edge) for edge in self.edges)
        if not self.counts or len(self.edges) != len(self.counts) + 1 or not rising or not finite:
            raise InputError(
                f"a histogram has one rising edge more than counts, found {len(self.edges)} edges "
                f"({shown(self.edges, most=4)}) and {len(self.counts)} counts."
            )
        if min(self.counts) < 0:
            raise InputError(f"counts of a histogram are 0 or more, found {min(self.counts)}.")


@dataclass(frozen=True)
class HistoryPoint:
    """What was measured after one epoch."""

    epoch: int
    accuracy: float | None = None
    fairness: float | None = None
    loss: float | None = None

    def __post_init__(self) -> None:
        _shares(self, "accuracy", "fairness")


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


@dataclass(frozen=True)
class Proxy:
    """How well one feature (or all together) predicts the sensitive value. `chance` is what guessing gives."""

    feature: str
    predicts_sensitive: float | None
    measure: str = "AUC"
    chance: float = 0.5
    note: str = ""

    def __post_init__(self) -> None:
        _shares(self, "predicts_sensitive", "chance")


@dataclass(frozen=True)
class Repair:
    """What it cost to make the model fair: accuracy before and after, and the share of decisions that changed."""

    accuracy_before: float | None = None
    accuracy_after: float | None = None
    decisions_changed: float | None = None
    rows: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        _shares(self, "accuracy_before", "accuracy_after", "decisions_changed")


@dataclass(frozen=True)
class Document:
    """All that a report tells about one model. `made` is shown as given: without it, the same facts give the same
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
        _one_of("verdict", found.verdict, get_args(Answer))
        _one_of("proof", found.proof, get_args(Proof))
        for kind in found.arithmetic:
            _one_of("arithmetic", kind, get_args(Arithmetic))

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The twins to show: those of the verdict first."""
        found = self.verdict
        if found.verdict != "falsified" or not found.twins:
            return self.twins
        own = Pair(tuple(found.twins), tuple(found.decisions or ()))
        alike = {_key(own)}
        return (next((pair for pair in self.twins if _key(pair) in alike), own),
                *(pair for pair in self.twins if _key(pair) not in alike))  # fmt: skip

    @property
    def sensitive(self) -> tuple[str, ...]:
        return self.domain.sensitive if self.domain else ()


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


def value_text(value: object) -> str:
    """A raw value as it stands in a table.

    >>> value_text(True), value_text(2.0), value_text("")
    ('true', '2.0', '(empty text)')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or "(empty text)"


def _key(pair: Pair) -> str:
    return repr([sorted((name, str(value)) for name, value in person.items()) for person in pair.people])


def _shares(record: object, *names: str) -> None:
    """Shares are numbers from 0 to 1. Where one may be missing, NaN (the rate of nobody) is the same as missing."""
    optional = {field.name for field in dataclasses.fields(record) if "None" in str(field.type)}  # type: ignore[arg-type]
    for name in names:
        value = getattr(record, name)
        if name in optional and (value is None or value != value):
            object.__setattr__(record, name, None)
        elif not (isinstance(value, Real) and 0 <= float(value) <= 1):
            kind = type(record).__name__.lower()
            raise InputError(f"{name} of {kind}: found {value!r}; give a share from 0 to 1.")


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"{name}: found {value!r}; it is one of {shown(allowed)}.")
