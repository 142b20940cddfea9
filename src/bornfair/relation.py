"""Who is whose twin, as geometry: a finite set of affine views A·u + a of one free vector u.

A view is one version of a person as network input; all views of the same u are each other's twins. "Change the
sensitive value" is the case where every A embeds u unchanged and a carries the code of one value of S; a declared swap
permutes columns of A. Verifiers know nothing else about fairness.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.domain import NUMERIC
from bornfair.encoding import Encoding
from bornfair.errors import InputError
from bornfair.merging import share

MOST_NUMBERS = 2**27  # of all matrices of a relation together: 1 GB


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
    """Twins: all views of one u of the free space. `versions` says which version of a person each view is."""

    views: tuple[View, ...]
    free: FreeSpace
    versions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.versions:
            object.__setattr__(self, "versions", tuple(range(len(self.views))))


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
            scale, ends = encoding.scales[feature.name], (feature.low, feature.high)
            low[place], high[place] = (np.ldexp(end - scale.centre, -scale.exponent) for end in ends)
            step[place] = np.ldexp(1.0, -scale.exponent) if feature.kind == "integer" else 0.0
        else:
            high[place] = 1.0
            step[place] = 1.0
            if feature.kind == "categorical":
                groups.append(place)
    return FreeSpace(low, high, step, tuple(groups))


def flip_relation(encoding: Encoding) -> Relation:
    """Twins that differ in the sensitive values alone: one view per value of S."""
    return Relation(tuple(_views(encoding, *element_view(encoding, 0))), free_space(encoding))


def _views(encoding: Encoding, moved: np.ndarray, offset: np.ndarray) -> list[View]:
    """Everybody moved by one element, as each value of S. They share the matrix."""
    matrix = np.concatenate([moved, np.zeros((encoding.sensitive_width, encoding.free_width))])
    return [View(matrix, np.concatenate([offset, code.astype(np.float64)])) for code in encoding.codes]


def twin_relation(encoding: Encoding) -> Relation:
    """Twins as the domain declares them: one view per version, those left out that are the same view as another.

    With no rules it is `flip_relation`. Where the encoding merges the values that change places, all elements of the
    group are one view, and what is left is the flip too (of what the network is shown).
    """
    group, size = encoding.domain.twin_group, encoding.domain.sensitive_space.size
    shown = 1 if encoding.merges_twins else group.size
    if shown > 1 and shown * encoding.width * encoding.free_width > MOST_NUMBERS:
        raise InputError(
            f"{group.size:,} ways in which twins may differ are too many to look at one by one in "
            f"{encoding.width:,} columns; declare fewer rules, or train with them, which needs no such list."
        )
    views: dict[bytes, tuple[int, list[View]]] = {}
    for h in range(shown):
        moved, offset = element_view(encoding, h)
        views.setdefault(moved.tobytes() + offset.tobytes(), (h, _views(encoding, moved, offset)))
    versions = (h * size + s for h, _ in views.values() for s in range(size))
    every = (view for _, several in views.values() for view in several)
    return Relation(tuple(every), free_space(encoding), tuple(versions))


def element_view(encoding: Encoding, h: int, *, exact: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """The free part of the network's input for people moved by element h, as matrix and offset on u.

    All entries are exact: a permutation moves columns, ½ and the shares of merged values are floats; a mirrored number
    is affine in u, and refused if no float says how (`exact`).
    """
    group, columns = encoding.domain.twin_group, encoding.free_columns()
    matrix, offset = np.eye(encoding.free_width), np.zeros(encoding.free_width)
    for name, goes in zip(group.moved, group.elements[h], strict=True) if h else ():
        place, feature = columns[name], encoding.domain.feature(name)
        if feature.kind == "categorical":
            block = np.zeros((len(goes), len(goes)))
            block[list(goes), range(len(goes))] = 1.0  # the value at i is shown where it goes
            matrix[place, place] = block
        elif goes == (1, 0):
            matrix[place, place] = -1.0
            offset[place] = 1.0 if feature.kind == "boolean" else _mirror_offset(encoding, name, exact)
    for name, groups in encoding.merged.items():
        place, kind = columns[name], encoding.domain.feature(name).kind
        if kind != "categorical":
            matrix[place], offset[place] = 0.0, 0.5 if kind == "boolean" else 0.0
            continue
        for alike in groups:
            rows = place.start + np.array(alike)
            matrix[rows] = matrix[rows].sum(axis=0) * np.float64(share(alike))
    return matrix, offset


def _mirror_offset(encoding: Encoding, name: str, exact: bool) -> float:
    """(total − 2·centre)·2^-exponent: what a mirrored number is off from −x."""
    feature, scale = encoding.domain.feature(name), encoding.scales[name]
    assert isinstance(feature, NUMERIC)
    shift = (Fraction(feature.low + feature.high) - 2 * Fraction(scale.centre)) / Fraction(2) ** scale.exponent
    if exact and Fraction(float(shift)) != shift:
        raise InputError(
            f"'{name}' is mirrored, and with its scale of {scale.centre!r} no float64 number says where exactly; "
            "round the ends of its range in the domain to fewer digits."
        )
    return float(shift)
