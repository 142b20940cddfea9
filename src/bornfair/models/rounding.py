"""Units of rounding: of float64, in which we compute, and of the machines that execute a network.

A sum of n terms with unit roundoff u, in any order, fused or not, is off by at most γ_n·Σ|terms|, γ_n = n·u/(1 − n·u),
and by what underflow loses.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

OWN_UNIT = 2.0**-53  # relative error of one of our operations
OWN_FLOOR = 2.0**-1000  # per operation, far above what float64 loses to underflow (2^-1022 even when flushed to zero)
LARGEST = 2.0**400  # linear bounds give up beyond, so that a product flushed to zero (2^-1022) loses less than FLOOR
FLOOR = 2.0**-560
TILT = 2.0**-48  # relative safety of the few operations that make one line


@dataclass(frozen=True)
class Execution:
    """What a machine may do to every operation of the network; an activation's own error stands in its record.

    unit:    relative error of one operation.
    floor:   absolute error of one operation. Flushing subnormals of float32 to zero loses up to 2^-126, of an operand
             or of the result; doubled to be safe.
    largest: sums of absolute values below this do not overflow.
    """

    unit: float
    floor: float
    largest: float

    def gamma(self, count: int) -> float:
        return count * self.unit / (1 - count * self.unit) if count * self.unit < 0.25 else math.inf


EXECUTIONS = {
    # Exact numbers. Only our own float64 evaluation errs; bounds above 2^1000 are given up.
    "real": Execution(0.0, 0.0, 2.0**1000),
    # IEEE float32 to nearest: any order of summation, multiply-add fused or not, subnormals kept or flushed to zero.
    "float32": Execution(2.0**-24, 2.0**-125, 2.0**127),
}
"""By arithmetic. Real arithmetic is the float32 execution that happens to make no error: a bound for the latter serves
both."""


def float_below(exact: Fraction) -> float:
    """A float that is no larger.

    >>> float_below(Fraction(1, 2)), Fraction(float_below(Fraction(1, 3))) < Fraction(1, 3)
    (0.5, True)
    """
    return -float_above(-exact)


def float_above(exact: Fraction) -> float:
    try:
        near = float(exact)
    except OverflowError:
        near = sys.float_info.max if exact > 0 else -sys.float_info.max
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
