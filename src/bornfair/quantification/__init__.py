"""How much of the domain, and of a table, is treated unfairly, whom it affects most and where they are."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bornfair.quantification.records import Affected, Condition, Confident, Estimate, Group, People, Shares

if TYPE_CHECKING:
    from bornfair.quantification.groups import affected_groups
    from bornfair.quantification.measure import shares_of
    from bornfair.quantification.people import Treatment, most_affected, treated_people, treatment

# Loaded on first use: whoever holds the records, such as a report, need not wait for SciPy and pandas.
_HOMES = {
    "Treatment": "quantification.people", "affected_groups": "quantification.groups",
    "marginals_of": "people.space.marginals", "most_affected": "quantification.people",
    "shares_of": "quantification.measure", "treated_people": "quantification.people",
    "treatment": "quantification.people",
}  # fmt: skip

__all__ = [
    "Affected",
    "Condition",
    "Confident",
    "Estimate",
    "Group",
    "People",
    "Shares",
    "Treatment",
    "affected_groups",
    "most_affected",
    "shares_of",
    "treated_people",
    "treatment",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"bornfair.{_HOMES[name]}"), name)
