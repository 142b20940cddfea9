"""How much of the domain, and of a table, is treated unfairly, whom it affects most and where they are."""

from bornfair.quantification.groups import Group, affected_groups
from bornfair.quantification.measure import Shares, quantify
from bornfair.quantification.people import Treatment, most_affected, treated_people, treatment

__all__ = [
    "Group",
    "Shares",
    "Treatment",
    "affected_groups",
    "most_affected",
    "quantify",
    "treated_people",
    "treatment",
]
