"""The facts of a report: plain records that JSON can hold, all optional but the verdict.

Nothing here computes fairness: the numbers come from whoever measured them, and what quantification measured stays in
its own records. Records refuse what cannot be a share, an interval or a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, get_args

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.influence import Influence
from bornfair.models.verdict import Answer, Arithmetic, Proof, Verdict
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.policies import Gaps
from bornfair.people.rules import rule_text
from bornfair.quantification.records import Checked, Group, People, Share, Shares, ThresholdCurve
from bornfair.report.formatting import about, count, value_text

COLUMNS = "Columns of one feature"  # among these facts: which 0/1 columns of the table these are
OPERATING_POINT = "Operating point"  # among the facts of how a model was made: where it decides, if not at ½
MOST_CATEGORIES = 40  # shown by name for one feature; the domain's file has them all

# --- who could exist ---


@dataclass(frozen=True)
class FeatureFacts:
    """One feature: `values` says in words which values exist."""

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
    def of(domain: Domain) -> DomainFacts:
        label = domain.label
        return DomainFacts(
            features=tuple(
                FeatureFacts(f.name, f.kind, _values(f, f.name in domain.sensitive), f.name in domain.sensitive)
                for f in domain.features
            ),
            people=_how_many(domain),
            sensitive_values=domain.sensitive_space.size if domain.sensitive and not domain.real_sensitive else None,
            combinations=None if domain.combinations is None else len(domain.combinations),
            twins=tuple(map(rule_text, domain.twins)),
            label=None if label is None else label.name,
            classes=() if label is None else tuple(value_text(item) for item in label.classes),
            sensitive=tuple(domain.sensitive),
        )


def _values(feature: Feature, sensitive: bool) -> str:
    """Which values a feature has; of a sensitive real number it is worth saying that all of them count."""
    if isinstance(feature, NUMERIC):
        ends = f"{value_text(feature.low)} to {value_text(feature.high)}"
        gap = ", or missing" if feature.missing else ""
        if feature.kind == "integer":
            return f"whole numbers from {ends}{gap}"
        return f"{ends}, every value" if sensitive else f"{ends}{gap}"
    levels = feature.levels()
    more = "" if len(levels) <= MOST_CATEGORIES else f" and {len(levels) - MOST_CATEGORIES:,} more"
    return ", ".join(_in_a_list(level) for level in levels[:MOST_CATEGORIES]) + more


def _in_a_list(value: object) -> str:
    """
    >>> _in_a_list("skilled"), _in_a_list("unskilled, non-resident")
    ('skilled', '“unskilled, non-resident”')
    """
    text = value_text(value)
    return f"“{text}”" if "," in text else text


def _how_many(domain: Domain) -> str:
    """How many people could exist; real-valued features make them uncountable."""
    if real := sum(feature.kind == "real" for feature in domain.features):
        return f"more people than can be counted: {count(real, 'feature takes', 'features take')} any real value"
    versions = domain.sensitive_space.size if domain.sensitive else 1
    sizes = (
        int(f.high) - int(f.low) + 1 + f.missing if f.kind == "integer" else len(f.levels())
        for f in domain.free_features
    )
    people = versions * math.prod(sizes)
    return f"{people:,} people" if people < 10**7 else f"about {about(people)} people"


# --- single people, and how scores differ ---


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
    """How good the model is on `rows` rows; `on` says which. `empirical_fairness`: rows whose twins agree. The others
    as in `bornfair.models.metrics.quality`."""

    accuracy: Share | None = None
    balanced_accuracy: Share | None = None
    auc: Share | None = None
    empirical_fairness: Share | None = None
    rows: int | None = None
    on: str = ""
    brier: Share | None = None
    majority_share: Share | None = None
    never_predicted: tuple[Any, ...] = ()
    always_predicted: Any = None


@dataclass(frozen=True)
class ReliabilityBin(Checked):
    """People whose probability is about the same: its mean, how many of them it came true for, and the interval."""

    predicted: Share
    happened: Share
    low: Share
    high: Share
    rows: int


@dataclass(frozen=True)
class Reliability(Checked):
    """Do probabilities mean what they say, on the rows of a table? Bins of about equally many people."""

    of: str
    """Whose probability: the class's; empty: the one of whatever class is the likeliest."""
    bins: tuple[ReliabilityBin, ...]
    error: Share
    """How far the two are apart, on the mean over people (the expected calibration error)."""
    confidence: Share = 0.95


@dataclass(frozen=True)
class GroupMetrics(Checked):
    """One line of the table by sensitive value; rates that cannot be computed are None.

    The selection rate is that of the favourable decision, with its exact interval; the impact ratio compares it with
    the highest among the groups of `features` that are neither `small` nor of `unknown` value.
    """

    value: str
    count: int
    selection_rate: Share | None = None
    accuracy: Share | None = None
    true_positive_rate: Share | None = None
    false_positive_rate: Share | None = None
    features: tuple[str, ...] = ()
    low: Share | None = None
    high: Share | None = None
    impact_ratio: float | None = None
    small: bool = False
    unknown: bool = False


@dataclass(frozen=True)
class Favourable(Checked):
    """Which decision people hope for, whether that was only inferred from its name, and which groups are small."""

    decision: Any
    inferred: bool = True
    least_people: int = 30
    least_share: Share = 0.02
    confidence: Share = 0.95


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
    favourable: Favourable | None = None
    gaps: Gaps | None = None
    uniform: Shares | None = None
    """Where `shares` are of people as in the data: those of every combination of values, counted alike."""
    measured: tuple[Metrics, ...] = ()
    """What its maker measured, on which rows; recorded, not proven."""
    examination: Mapping[str, str] = field(default_factory=dict)
    """How this report came about: when, of which files, by which command and software."""
    influences: tuple[Influence, ...] = ()
    """Of a forest: through which trees and splits the sensitive features act."""
    thresholds: ThresholdCurve | None = None
    score_gaps: Histogram | None = None
    history: tuple[HistoryPoint, ...] = ()
    making: Mapping[str, str] = field(default_factory=dict)
    """How the model came about, as recorded, not proven."""
    certificate: CertificateFacts | None = None
    proxies: tuple[Proxy, ...] = ()
    suggestions: tuple[str, ...] = ()
    repair: Repair | None = None
    reliability: Reliability | None = None
    shows: str = ""
    """Whether the people shown are real ones, in a sentence."""

    def __post_init__(self) -> None:
        found = self.verdict
        known = [("verdict", found.answer, Answer), ("proof", found.proof, Proof)]
        for name, value, kind in [*known, *(("arithmetic", one, Arithmetic) for one in found.arithmetic)]:
            if value not in get_args(kind):
                raise InputError(f"{name}: found {value!r}; it is one of {shown(get_args(kind))}.")

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The twins to show: those of the verdict first."""
        found = self.verdict
        if found.answer != "falsified" or not found.twins:
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
