"""Who is whose twin, as geometry: a finite set of affine views A·u + a of one free vector u.

A view is one version of a person as network input; all views of the same u are each other's twins. "Change the
sensitive value" is the case where every A embeds u unchanged and a carries the code of one value of S. Verifiers know
nothing else about fairness.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.domain import NUMERIC
from bornfair.encoding import Encoding


@dataclass(frozen=True, eq=False)
class View:
    """x = matrix @ u + offset."""

    matrix: np.ndarray  # float64 [inputs, free]
    offset: np.ndarray  # float64 [inputs]

    def __call__(self, free: np.ndarray) -> np.ndarray:
        """Network inputs for rows of free vectors."""
        return np.asarray(free, np.float64) @ self.matrix.T + self.offset


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """Which vectors u exist: a box, on a lattice where `step` is above 0, with exactly one 1 in each group of
    columns.
    """

    low: np.ndarray
    high: np.ndarray
    step: np.ndarray
    groups: tuple[slice, ...]

    @property
    def width(self) -> int:
        return len(self.low)


@dataclass(frozen=True, eq=False)
class Relation:
    """Twins: all views of one u of the free space."""

    views: tuple[View, ...]
    free: FreeSpace


def free_space(encoding: Encoding) -> FreeSpace:
    """The free vectors of a domain: what `encode` gives before it rounds to float32.

    Exact for whole numbers and categories; the bounds of a real feature carry one float64 rounding, which verifiers
    allow for.
    """
    width = encoding.free_width
    low, high, step = np.zeros(width), np.zeros(width), np.zeros(width)
    groups = []
    columns = encoding.free_columns()
    for feature in encoding.domain.free_features:
        place = columns[feature.name]
        if isinstance(feature, NUMERIC):
            scale = encoding.scales[feature.name]
            low[place] = np.ldexp(feature.low - scale.centre, -scale.exponent)
            high[place] = np.ldexp(feature.high - scale.centre, -scale.exponent)
            step[place] = np.ldexp(1.0, -scale.exponent) if feature.kind == "integer" else 0.0
        else:
            high[place] = 1.0
            step[place] = 1.0
            if feature.kind == "categorical":
                groups.append(place)
    return FreeSpace(low, high, step, tuple(groups))


def flip_relation(encoding: Encoding) -> Relation:
    """Twins that differ in the sensitive values alone: one view per value of S."""
    free, total = encoding.free_width, encoding.width
    embed = np.eye(total, free)
    offsets = np.zeros((encoding.domain.sensitive_space.size, total))
    offsets[:, free:] = encoding.codes
    return Relation(tuple(View(embed, offset) for offset in offsets), free_space(encoding))
