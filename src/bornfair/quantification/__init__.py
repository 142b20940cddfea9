"""How much of the domain, and of a table, is treated unfairly, whom it affects most and where they are."""

from bornfair.quantification.groups import Group, affected_groups
from bornfair.quantification.marginals import marginals_of
from bornfair.quantification.measure import Shares, shares_of
from bornfair.quantification.people import Treatment, most_affected, treated_people, treatment
from bornfair.quantification.telling import undo_text

__all__ = [
    "Group",
    "Shares",
    "Treatment",
    "affected_groups",
    "marginals_of",
    "most_affected",
    "shares_of",
    "treated_people",
    "treatment",
    "undo_text",
]
