"""Who could exist, in words: the values of a feature, and how many people a domain holds."""

from __future__ import annotations

import math

from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.report.document import value_text
from bornfair.report.words import superscript

MOST_CATEGORIES = 40  # shown by name for one feature; the domain's file has them all


def values_in_words(feature: Feature, sensitive: bool) -> str:
    """Which values a feature has; of a sensitive real number it is worth saying that all of them count."""
    if isinstance(feature, NUMERIC):
        ends = f"{value_text(feature.low)} to {value_text(feature.high)}"
        if feature.kind == "integer":
            return f"whole numbers from {ends}"
        return f"{ends}, every value" if sensitive else ends
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


def how_many(domain: Domain) -> str:
    """How many people could exist, as a text; real-valued features make them uncountable."""
    kinds = [feature.kind for feature in domain.features]
    if "real" in kinds:
        count = kinds.count("real")
        return f"more people than can be counted: {count} feature{'s take' if count > 1 else ' takes'} any real value"
    versions = domain.sensitive_space.size if domain.sensitive else 1
    total = versions * math.prod(_size(feature) for feature in domain.free_features)
    return f"{total:,} people" if total < 10**7 else f"about {_rounded(total)} people"


def _size(feature: Feature) -> int:
    return int(feature.high) - int(feature.low) + 1 if feature.kind == "integer" else len(feature.levels())


def _rounded(number: int) -> str:
    """
    >>> _rounded(25_300_000), _rounded(7_200_000_000), _rounded(10**40)
    ('25 million', '7.2 billion', '10⁴⁰')
    """
    for size, name in ((10**6, "million"), (10**9, "billion"), (10**12, "trillion")):
        if number < 1000 * size:
            return f"{number / size:.2g} {name}" if number < 100 * size else f"{number // size} {name}"
    return "10" + superscript(round(math.log10(number)))
