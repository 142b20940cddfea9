"""Twin relations as geometry: a finite set of affine views A·u + a of one free vector u.

A view is one version of a person as network input; all views of the same u are each other's twins. "Change the
sensitive value" is the case where every A embeds u unchanged and a carries the code of one value of S; a declared swap
permutes columns of A. A sensitive feature of which every real value counts has its code in u, twice: one copy for each
of two twins, so that the views of one u are twins who may differ in it by anything. Verifiers know nothing else about
fairness.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.people.columns import GapColumns, NumberColumn, share
from bornfair.people.encoding import Encoding
from bornfair.people.features import Value

MOST_NUMBERS = 2**27  # of all matrices of a relation together: 1 GB
MOST_BAND_VIEWS = 12  # of a relation of bands, where it can be so few: the quantifier bounds so many apart


Elements = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""Matrix and offset on u (`element_view`), by the number of the element."""


@dataclass(frozen=True, eq=False)
class View:
    """x = matrix @ u + offset, or anything that is off from it by at most `radius`."""

    matrix: np.ndarray  # float64 [inputs, free]
    offset: np.ndarray  # float64 [inputs]
    radius: np.ndarray | None = None  # float64 [inputs]

    def __call__(self, free: np.ndarray) -> np.ndarray:
        """Network inputs for rows of free vectors."""
        return np.asarray(free, np.float64) @ self.matrix.T + self.offset


@dataclass(frozen=True)
class Gap:
    """Two columns of u: where `missing` is 1, `number` holds what a gap is shown as, and nothing else."""

    number: int
    missing: int
    shown: float
    weight: float  # of a gap, where each value of the number's range weighs 1 and of a real range all of it


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """Which vectors u exist: a box, on a lattice where `step` is above 0, with exactly one 1 in each group of
    columns, and numbers that are shown as one number where they are missing.
    """

    low: np.ndarray
    high: np.ndarray
    step: np.ndarray
    groups: tuple[slice, ...]
    gaps: tuple[Gap, ...] = ()

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
    groups, gaps = [], []
    for name, place in encoding.free_columns().items():
        column = encoding.free_vector[name]
        if isinstance(column, GapColumns):
            at, feature = place.start, column.feature
            (low[at], high[at]), step[at] = column.number.ends, column.number.spacing
            high[at + 1], step[at + 1] = 1.0, 1.0
            gaps.append(Gap(at, at + 1, column.shown, 1.0 if feature.kind == "integer" else 1 / len(feature.levels())))
            continue
        if isinstance(column, NumberColumn):
            (low[place], high[place]), step[place] = column.ends, column.spacing
            continue
        high[place], step[place] = 1.0, 1.0
        if column.feature.kind == "categorical":
            groups.append(place)
    return FreeSpace(low, high, step, tuple(groups), tuple(gaps))


def flip_relation(encoding: Encoding) -> Relation:
    """Twins that differ in sensitive values alone: one view per value that can be listed, and two of what cannot."""
    return _relation(encoding, {0: element_view(encoding, 0)})


def twin_relation(encoding: Encoding) -> Relation:
    """Twins as the domain declares them: one view per version, those left out that are the same view as another.

    With no rules it is `flip_relation`. Where the encoding merges the values that change places, all elements of the
    group are one view, and what is left is the flip too (of what the network is shown).
    """
    return _relation(encoding, _elements(encoding))


def _relation(encoding: Encoding, elements: Elements) -> Relation:
    """Everybody moved by each element, as each sensitive value. Views that read the same columns share the matrix."""
    spans, free = encoding.sensitive.spans, free_space(encoding)
    copies = 2 if spans else 1
    views = list[View]()
    for moved, offset in elements.values():
        matrices = [_embedded(encoding, moved, copies * len(spans)) for _ in range(copies)]
        for (copy, matrix), (j, span) in itertools.product(enumerate(matrices), enumerate(spans)):
            matrix[free.width + span.column, free.width + copy * len(spans) + j] = 1.0
        codes = encoding.sensitive.listed_codes
        views += [View(matrix, np.concatenate([offset, code])) for code in codes for matrix in matrices]
    several = len(views) // len(elements)
    versions = (version for h in elements for version in range(h * several, (h + 1) * several))
    low, high = (
        np.concatenate([getattr(free, end), [getattr(span, end) for span in spans * copies]]) for end in ("low", "high")
    )
    step = np.concatenate([free.step, np.zeros(len(spans) * copies)])
    return Relation(tuple(views), FreeSpace(low, high, step, free.groups, free.gaps), tuple(versions))


def _embedded(encoding: Encoding, moved: np.ndarray, more: int = 0) -> np.ndarray:
    """The matrix of a view whose codes do not depend on u, which has so many more columns."""
    matrix = np.zeros((encoding.width, encoding.free_width + more))
    matrix[: encoding.free_width, : encoding.free_width] = moved
    return matrix


def band_relation(encoding: Encoding) -> Relation:
    """All of `twin_relation` over the free space alone: real-valued sensitive features are cut into bands, and a view
    stands for every value of its band. Two more stand for the very ends of each range, where people differ most.

    Where all views get one decision, so do all twins; where two get different ones for sure, some twins do.
    """
    if not encoding.sensitive.spans:
        return twin_relation(encoding)
    elements = _elements(encoding)
    apart = len(encoding.sensitive.listed) * len(elements)
    bands = max(MOST_BAND_VIEWS // apart - 2, 1) if len(encoding.sensitive.spans) == 1 else 1
    choices = []
    for span in encoding.sensitive.spans:
        edges = np.linspace(span.low, span.high, bands + 1)
        edges[0], edges[-1] = span.low, span.high
        middles = edges[:-1] / 2 + edges[1:] / 2
        reach = np.maximum(edges[1:] - middles, middles - edges[:-1]) * (1 + 2.0**-50)
        choices.append([*zip(middles.tolist(), reach.tolist(), strict=True), *span.ends])
    views = []
    for moved, offset in elements.values():
        matrix = _embedded(encoding, moved)
        for code, places in itertools.product(encoding.sensitive.listed_codes, itertools.product(*choices)):
            at = np.concatenate([offset, code])
            radius = np.zeros(len(at))
            for span, (middle, reach) in zip(encoding.sensitive.spans, places, strict=True):
                at[encoding.free_width + span.column], radius[encoding.free_width + span.column] = middle, reach
            views.append(View(matrix, at, radius))
    return Relation(tuple(views), free_space(encoding))


def grid_relation(encoding: Encoding) -> Relation:
    """As `twin_relation`, with real-valued sensitive features at the levels of their grids only: for whoever looks for
    unfairness, or measures it on rows. That these views agree proves nothing about the values between.
    """
    if not encoding.sensitive.spans:
        return twin_relation(encoding)
    values = encoding.domain.sensitive_space.values
    codes = [np.array([float(code) for code in encoding.sensitive.exact(value)]) for value in values]
    views, versions = list[View](), list[int]()
    for h, (moved, offset) in _elements(encoding).items():
        matrix = _embedded(encoding, moved)
        views += [View(matrix, np.concatenate([offset, code])) for code in codes]
        versions += range(h * len(values), (h + 1) * len(values))
    return Relation(tuple(views), free_space(encoding), tuple(versions))


def sensitive_values(encoding: Encoding, free: np.ndarray) -> list[tuple[Value, ...]]:
    """The sensitive values behind one vector u of `twin_relation`, in the order of its views."""
    spans, names = encoding.sensitive.spans, encoding.domain.sensitive
    found: list[tuple[Any, ...]] = []
    for values in encoding.sensitive.listed:
        for copy in range(2 if spans else 1):
            codes = free[encoding.free_width + copy * len(spans) :]
            real = {span.name: span.raw(float(code)) for span, code in zip(spans, codes, strict=False)}
            found.append(tuple(real.get(name, value) for name, value in zip(names, values, strict=True)))
    return found


def _elements(encoding: Encoding) -> Elements:
    """The elements of the declared group that the network is shown differently, with their views."""
    group = encoding.domain.twin_group
    shown = 1 if encoding.merges_twins else group.size
    if shown > 1 and shown * encoding.width * encoding.free_width > MOST_NUMBERS:
        raise InputError(
            f"{group.size:,} ways in which twins may differ are too many to look at one by one in "
            f"{encoding.width:,} columns; declare fewer rules, or train with them, which needs no such list."
        )
    found: dict[bytes, tuple[int, tuple[np.ndarray, np.ndarray]]] = {}
    for h in range(shown):
        view = element_view(encoding, h)
        found.setdefault(view[0].tobytes() + view[1].tobytes(), (h, view))
    return dict(found.values())


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
            matrix[place.start, place.start] = -1.0
            offset[place.start] = 1.0 if feature.kind == "boolean" else _mirror_offset(encoding, name, exact)
            if (gap := encoding.gap(name)) is not None:  # what a gap is shown as is not mirrored
                matrix[place.start, place.start + 1] = _gap_offset(encoding, gap, exact)
    for name, groups in encoding.merged.items():
        place, kind = columns[name], encoding.domain.feature(name).kind
        if kind != "categorical":
            matrix[place.start], offset[place.start] = 0.0, 0.5 if kind == "boolean" else 0.0
            continue
        for alike in groups:
            rows = place.start + np.array(alike)
            matrix[rows] = matrix[rows].sum(axis=0) * np.float64(share(alike))
    return matrix, offset


def _gap_offset(encoding: Encoding, gap: GapColumns, exact: bool) -> float:
    """By how much the mirror image of what a gap is shown as is off from itself: s = −s + offset + this."""
    (shown,) = gap.number.exact(gap.fill)
    slope, constant = gap.number.line
    shift = slope * Fraction(gap.feature.total) + 2 * constant
    back = 2 * shown - shift
    if exact and (Fraction(float(back)) != back or Fraction(gap.shown) != shown):
        raise InputError(
            f"'{gap.feature.name}' is mirrored and may be missing, and no float64 number says exactly what a gap looks "
            "like then; round the ends of its range in the domain to fewer digits."
        )
    return float(back)


def _mirror_offset(encoding: Encoding, name: str, exact: bool) -> float:
    """(total − 2·centre)·2^-exponent: what a mirrored number is off from −x."""
    column = encoding.number(name)
    slope, constant = column.line
    shift = slope * Fraction(column.feature.total) + 2 * constant
    if exact and Fraction(float(shift)) != shift:
        raise InputError(
            f"'{name}' is mirrored, and with its scale of {encoding.scales[name].centre!r} no float64 number says "
            "where exactly; round the ends of its range in the domain to fewer digits."
        )
    return float(shift)
