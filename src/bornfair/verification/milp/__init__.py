"""Mixed-integer programs: a second opinion by HiGHS, whose floating-point answers are never trusted as proof."""

from bornfair.verification.milp.change import Change, RowChange, largest_change
from bornfair.verification.milp.encoding import MOST_VALUES
from bornfair.verification.milp.network import decide_by_milp
from bornfair.verification.milp.probability import (
    ProbabilityChange,
    change_of_probability,
    largest_probability_change,
)

__all__ = [
    "MOST_VALUES",
    "Change",
    "ProbabilityChange",
    "RowChange",
    "change_of_probability",
    "decide_by_milp",
    "largest_change",
    "largest_probability_change",
]
