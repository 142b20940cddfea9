"""Interval bounds of the sums of a network, and the proof that one class is decided for everybody.

`backward` has the pass itself, and why it is safe in floating point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.bounds.backward import (
    Box,
    Shape,
    Traced,
    arrays_of,
    distinct_matrices,
    not_finite,
    require_fit,
    trace,
)
from bornfair.models.network.network import Network
from bornfair.models.verdict import Arithmetic, Verdict, undecided
from bornfair.people.twins.relation import FreeSpace, Relation, View

CHUNK = 2**22  # numbers per array: views are taken in groups so that memory stays small

Ends = tuple[np.ndarray, np.ndarray]


def prove_by_intervals(network: Network, relation: Relation) -> Verdict:
    """Verified when one class is provably decided for every u of the free space in every view."""
    require_fit(network, relation)
    flaw = not_finite(network, relation)
    if flaw is not None:
        return undecided("intervals", flaw)
    # Real arithmetic is the float32 execution that happens to make no error, so a proof for float32 serves both.
    reason = _why_not_constant(network, relation, "float32")
    if reason is None:
        return Verdict("verified", "bounds", "intervals", ("real", "float32"), "one class is decided for everybody")
    if _why_not_constant(network, relation, "real") is None:
        reason = f"one class is decided for everybody; not shown in float32: {reason}"
        return Verdict("verified", "bounds", "intervals", ("real",), reason)
    return undecided("intervals", reason)


def box_bounds(network: Network, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "real") -> Ends:
    """Float64 arrays [rows, outputs] that the outputs lie between when the inputs of a row lie between low and high.

    Interval propagation with all rounding accounted for, ours and that of the arithmetic; bounds for 'float32' hold in
    real arithmetic too. Infinite where overflow cannot be excluded.

    >>> from bornfair.models.network.network import Layer, Network
    >>> net = Network((Layer(np.array([[1.0, -2.0]]), np.zeros(1)),))
    >>> low, high = box_bounds(net, np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]))
    >>> low.round(6).tolist(), high.round(6).tolist(), bool(low < -2), bool(high > 1)
    ([[-2.0]], [[1.0]], True, True)
    """
    return box_layers(network, low, high, arithmetic)[-1]


def box_layers(network: Network, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "real") -> list[Ends]:
    """The same for the sums of every layer."""
    low, high, inputs = np.asarray(low, np.float64), np.asarray(high, np.float64), network.widths[0]
    # One view that shows u itself. The ends are given, not computed, so they need no pad.
    zero = np.zeros(inputs)
    itself = Relation((View(np.eye(inputs), zero),), FreeSpace(zero, zero, zero, ()))
    shape, arrays = Shape(np, network.widths, network.activation, (), ()), arrays_of(network, itself, arithmetic)
    parts, rows = [], max(1, CHUNK // max(network.widths))
    with np.errstate(all="ignore"):  # seen by the result
        for start in range(0, max(len(low), 1), rows):
            ends = low[start : start + rows], high[start : start + rows]
            reach = np.maximum(np.abs(ends[0]), np.abs(ends[1])).sum(axis=1)
            own = arrays._replace(inputs=reach[:, None])
            parts.append(trace(shape, own, Box.of(shape, own, *ends)))
    found = []
    for i in range(len(network.layers)):
        below, above = (np.concatenate(ends)[:, 0] for ends in zip(*(part.ends(np, i) for part in parts), strict=True))
        found.append((below, above))
    return found


def _why_not_constant(network: Network, relation: Relation, arithmetic: Arithmetic) -> str | None:
    """None when one class is proven for everybody, else the reason."""
    reason: str | None = None
    # All views must get one class anyway, so bounds over all views together come first: they cost as much as one view.
    for hull in (True, False) if len(relation.views) > 1 else (True,):
        varies = _why_sign_varies if network.outputs == 1 else _why_winner_varies
        reason = varies(network, relation, arithmetic, hull)
        if reason is None:
            return None
    return reason


def _why_sign_varies(network: Network, relation: Relation, arithmetic: Arithmetic, hull: bool) -> str | None:
    least, most = np.inf, -np.inf
    for traced in _passes(network, relation, arithmetic, hull=hull):
        if (doubt := _doubt(traced)) is not None:
            return doubt
        least, most = min(least, float(traced.low[-1].min())), max(most, float(traced.high[-1].max()))
        if not (least > 0 or most <= 0):
            return f"the bounds of the logit, [{least:.3g}, {most:.3g}], allow both decisions"
    return None


def _why_winner_varies(network: Network, relation: Relation, arithmetic: Arithmetic, hull: bool) -> str | None:
    first = next(_passes(network, relation, arithmetic, hull=hull))
    # Whoever leads on a whole box of last hidden values leads at its centre, so there is one candidate to try.
    winner = int(np.argmax((first.low[-1] + first.high[-1])[0, 0]))
    rest = [j for j in range(network.outputs) if j != winner]
    # Bounding w_k − w_j keeps what both outputs share from being counted twice.
    for traced in _passes(network, relation, arithmetic, [(winner, j) for j in rest], hull=hull):
        if (doubt := _doubt(traced)) is not None:
            return doubt
        lead = traced.low[-1].min(axis=(0, 1))
        if not (lead > 0).all():  # strictly, so that who wins a tie never matters; bounds rounded outward show none
            j = int(np.argmin(lead > 0))
            return (
                f"the lead of output {winner} over output {rest[j]} may be as low as {lead[j]:.3g}, "
                "which allows both decisions"
            )
    return None


def _doubt(traced: Traced) -> str | None:
    """What may go wrong, if anything."""
    return next((words for words, fine in traced.doubts if not np.all(fine)), None)


def _passes(
    network: Network,
    relation: Relation,
    arithmetic: Arithmetic,
    pairs: Sequence[tuple[int, int]] = (),
    *,
    hull: bool = False,
) -> Iterator[Traced]:
    """The interval pass over the free space, some views at a time."""
    free, views = relation.free, relation.views
    low, high = free.low[None], _possible(free)[None]
    groups = tuple((group.start, group.stop) for group in free.groups)
    shape = Shape(np, network.widths, network.activation, groups, ())
    rows = max(1, CHUNK // max(network.widths))
    for same in _by_matrix(relation):
        for start in range(0, len(same), rows):
            some = dataclasses.replace(relation, views=tuple(views[i] for i in same[start : start + rows]))
            arrays = arrays_of(network, some, arithmetic, pairs)
            with np.errstate(all="ignore"):  # seen by the result
                yield trace(shape, arrays, Box.of(shape, arrays, low, high), hull=hull)


def _by_matrix(relation: Relation) -> list[list[int]]:
    """The places of views with the same matrix, which is then taken through the first layer once."""
    matrices = {id(matrix): sha256(matrix.tobytes()).digest() for matrix in distinct_matrices(relation.views)}
    places: dict[bytes, list[int]] = {}
    for i, view in enumerate(relation.views):
        places.setdefault(matrices[id(view.matrix)], []).append(i)
    return list(places.values())


def _possible(free: FreeSpace) -> np.ndarray:
    """The upper ends, 0 for columns of a one-hot group that cannot be the 1: a part of the space may exclude some."""
    high = free.high.copy()
    for group in free.groups:
        certain = free.low[group] > 0
        possible = certain if certain.any() else free.high[group] >= 1
        if not possible.any():
            raise InputError(f"no column of the one-hot group {group.start}…{group.stop - 1} can be 1: nobody exists.")
        high[group] = possible
    return high
