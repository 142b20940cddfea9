"""What became of boxes, and how much of everybody is that? Masses of those that are done, facts of those that wait."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import DOWN


@dataclass(frozen=True)
class Tally:
    """Masses of boxes that are done: whole numbers where people can be counted."""

    certified: float = 0.0
    falsified: float = 0.0
    stuck: float = 0.0
    credited: float = 0.0  # of certified and falsified, what came from parts of boxes
    boxes: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.certified + other.certified,
            self.falsified + other.falsified,
            self.stuck + other.stuck,
            self.credited + other.credited,
            self.boxes + other.boxes,
        )

    def with_credit(self, boxes: Boxes) -> Tally:
        """With the masses that are proven of parts of open boxes, as far as anybody has looked."""
        certified, falsified = (
            float(np.nansum(boxes.facts[name] * boxes.facts["mass"]) * DOWN) for name in ("certified", "falsified")
        )
        return self + Tally(certified, falsified, credited=certified + falsified)

    def shares(self, total: float, exact: bool) -> tuple[float, float, dict[str, int] | None]:
        """Certified and falsified share of everybody, and how many people that are where these can be counted."""
        # Whole numbers were added without error; of others, each addition may have rounded up.
        whole = exact and not self.credited
        down = 1.0 if whole else 1 - 2.0**-51 * (self.boxes + 1000)
        certified, falsified = (rounded_down(part * down, total) for part in (self.certified, self.falsified))
        fair, unfair = int(self.certified), int(self.falsified)
        counts = {"certified": fair, "falsified": unfair, "undecided": int(total) - fair - unfair} if whole else None
        return certified, min(falsified, 1.0 - certified), counts


def waiting(boxes: Boxes, mass: np.ndarray, undecided: np.ndarray, **facts: np.ndarray) -> Boxes:
    """Open boxes: mass, what is likely undecided of it, where to cut, and what shares of them are proven to be
    certified and falsified (NaN: nobody has looked).
    """
    certified, falsified = np.full((2, len(boxes)), np.nan)
    return boxes.knowing(mass=mass, undecided=undecided, certified=certified, falsified=falsified, **facts)


def added(tally: Tally, found: tuple[Tally, Boxes]) -> tuple[Tally, Boxes]:
    """The tally after some boxes, and what is open of them."""
    return tally + found[0], found[1]


def rounded_down(part: float, total: float) -> float:
    """part / total, never above it, and a multiple of 2^-53, so that shares of 1 add up exactly.

    A share too small for that stays what it is: beside it, the others are 0 or make up for it by rounding.
    """
    exact = Fraction(part) / Fraction(total)
    units = exact.numerator * 2**53 // exact.denominator
    if units:
        return units / 2**53
    found = float(exact)
    return found if Fraction(found) <= exact else float(np.nextafter(found, 0.0))
