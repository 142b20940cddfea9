"""Where does a measurement stand? Boxes that are open, and the masses of those that are done."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.verification.boxes import Boxes

COLUMNS = ("mass", "undecided", "variable", "certified", "falsified")


@dataclass(frozen=True, eq=False)
class Open:
    """Boxes that are not decided: mass, what is likely undecided of it, the variable to cut, and what shares of them
    are proven to be certified and falsified (NaN: nobody has looked).
    """

    boxes: Boxes
    mass: np.ndarray
    undecided: np.ndarray
    variable: np.ndarray
    certified: np.ndarray
    falsified: np.ndarray

    def __len__(self) -> int:
        return len(self.mass)

    def __getitem__(self, which: np.ndarray) -> Open:
        return Open(self.boxes[which], *(getattr(self, name)[which] for name in COLUMNS))

    @staticmethod
    def of(boxes: Boxes, mass: np.ndarray, undecided: np.ndarray, variable: np.ndarray) -> Open:
        unknown = np.full(len(mass), np.nan)
        return Open(boxes, mass, undecided, variable, unknown, unknown)

    @staticmethod
    def joined(*parts: Open) -> Open:
        arrays = [np.concatenate([getattr(p, name) for p in parts]) for name in COLUMNS]
        return Open(Boxes.joined(*(p.boxes for p in parts)), *arrays)

    def credit(self) -> tuple[float, float]:
        """The masses that are proven, certified and falsified."""
        found = (np.nansum(share * self.mass) * (1 - 2.0**-40) for share in (self.certified, self.falsified))
        certified, falsified = (float(mass) for mass in found)
        return certified, falsified


@dataclass(frozen=True)
class Tally:
    """Masses of boxes that are done: whole numbers where people can be counted."""

    certified: float = 0.0
    falsified: float = 0.0
    stuck: float = 0.0
    credited: float = 0.0  # of certified and falsified, what came from parts of boxes
    boxes: int = 0


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
