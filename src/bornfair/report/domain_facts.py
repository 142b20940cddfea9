"""Who could exist, for a reader: the values of each feature in words, and how many people the domain holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.rules import rule_text
from bornfair.report.formatting import about, count, value_text

MOST_CATEGORIES = 40  # shown by name for one feature; the domain's file has them all


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
