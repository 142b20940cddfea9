"""Is the decision the same for everybody? Interval bounds of the outputs over the whole free space, for each view.

A layer maps the box c ± r into W c + b ± |W| r. To that we add what rounding can do: sums of n terms with unit
roundoff u, in any order, fused or not, are off by at most γ_n·Σ|w||x|, γ_n = n·u/(1 − n·u), plus what underflow loses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bornfair.errors import InputError
from bornfair.verification.structural import distinct_matrices, not_finite, radii, require_fit, undecided
from bornfair.verification.verdict import Arithmetic, Verdict

if TYPE_CHECKING:
    from bornfair.models.network import Activation, Layer, Network
    from bornfair.twins.relation import FreeSpace, Relation, View

CHUNK = 2**22  # numbers per array: views are taken in groups so that memory stays small
OWN_UNIT = 2.0**-53  # we compute in float64
OWN_FLOOR = 2.0**-1000  # per operation, far above what float64 loses to underflow (2^-1022 even when flushed to zero)

GELU_TURN = (-0.7518, -0.7517)  # x·Φ(x) falls before, rises after; it turns once, at −0.75179…
GELU_LEAST = -0.16998  # its minimum is −0.169971…


@dataclass(frozen=True)
class Execution:
    """What a machine may do to every operation of the network.

    unit:    relative error of one operation.
    floor:   absolute error of one operation. Flushing subnormals of float32 to zero loses up to 2^-126, of an operand
             or of the result; doubled to be safe.
    largest: sums of absolute values below this do not overflow.
    tanh:    relative error of tanh. float64: 32·2^-53 (libraries stay within 4). float32: 16·2^-24 (measured: XLA 4.8,
             NumPy 1.8).
             sigmoid errs by no more than this either (absolutely: its values lie between 0 and 1).
    gelu:    error of gelu relative to |x|. Where x is very negative the form x/2·(1 + erf(x/√2)) cancels; what remains
             is the error of erf near −1, times |x|. float32: 16·2^-24 (measured: 3.6 in that form, 2.1 with erfc).
    """

    unit: float
    floor: float
    largest: float
    tanh: float
    gelu: float

    def gamma(self, count: int) -> float:
        return count * self.unit / (1 - count * self.unit) if count * self.unit < 0.25 else np.inf


EXECUTIONS: dict[Arithmetic, Execution] = {
    # Exact numbers. Only our own float64 evaluation errs; bounds above 2^1000 are given up.
    "real": Execution(0.0, 0.0, 2.0**1000, tanh=2.0**-48, gelu=2.0**-40),
    # IEEE float32 to nearest: any order of summation, multiply-add fused or not, subnormals kept or flushed to zero.
    "float32": Execution(2.0**-24, 2.0**-125, 2.0**127, tanh=2.0**-20, gelu=2.0**-20),
}


def prove_by_intervals(network: Network, relation: Relation) -> Verdict:
    """Verified when one class is provably decided for every u of the free space in every view."""
    require_fit(network, relation)
    flaw = not_finite(network, relation)
    if flaw is not None:
        return undecided("intervals", flaw)
    # Real arithmetic is the float32 execution that happens to make no error, so a proof for float32 serves both.
    reason = _why_not_constant(network, relation, EXECUTIONS["float32"])
    if reason is None:
        return _verified(("real", "float32"), "one class is decided for everybody")
    if _why_not_constant(network, relation, EXECUTIONS["real"]) is None:
        return _verified(("real",), f"one class is decided for everybody; not shown in float32: {reason}")
    return undecided("intervals", reason)


def output_bounds(
    network: Network, relation: Relation, arithmetic: Arithmetic = "real"
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays low, high [views, outputs] that every output lies between; infinite where overflow cannot be excluded."""
    require_fit(network, relation)
    shape = (len(relation.views), network.outputs)
    nothing_known = np.full(shape, -np.inf), np.full(shape, np.inf)
    if not_finite(network, relation) is not None:
        return nothing_known
    try:
        parts = list(_bounds(network, _Affine.of(network.layers[-1]), relation, EXECUTIONS[arithmetic], hull=False))
    except _OverflowError:
        return nothing_known
    return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])


def box_bounds(
    network: Network, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "real"
) -> tuple[np.ndarray, np.ndarray]:
    """Float64 arrays [rows, outputs] that the outputs lie between when the inputs of a row lie between low and high.

    Interval propagation with all rounding accounted for, ours and that of the arithmetic; bounds for 'float32' hold in
    real arithmetic too. Infinite where overflow cannot be excluded.

    >>> from bornfair.models.network import Layer, Network
    >>> net = Network((Layer(np.array([[1.0, -2.0]]), np.zeros(1)),))
    >>> low, high = box_bounds(net, np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]))
    >>> low.round(6).tolist(), high.round(6).tolist(), bool(low < -2), bool(high > 1)
    ([[-2.0]], [[1.0]], True, True)
    """
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    execution = EXECUTIONS[arithmetic]
    nothing_known = np.full((len(low), network.outputs), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):  # seen by the result
        try:
            for i, layer in enumerate(network.layers):
                if i:
                    low, high = _activate(network.activation, low, high, execution)
                low, high = _layer(i, _Affine.of(layer), low, high, execution)
        except _OverflowError:
            return -nothing_known, nothing_known
    return low, high


def _verified(arithmetic: tuple[Arithmetic, ...], reason: str) -> Verdict:
    return Verdict("verified", "bounds", "intervals", arithmetic, reason)


class _OverflowError(Exception):
    """A value may leave the finite numbers; nothing is claimed then."""


@dataclass(frozen=True)
class _Affine:
    """A layer in float64, and the sizes |weight|, |bias| on which rounding errors of its execution depend."""

    weight: np.ndarray
    bias: np.ndarray
    weight_size: np.ndarray
    bias_size: np.ndarray

    @staticmethod
    def of(layer: Layer) -> _Affine:
        weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
        return _Affine(weight, bias, np.abs(weight), np.abs(bias))

    @staticmethod
    def lead_of(winner: int, layer: Layer) -> _Affine:
        """By how much one output leads each of the others, in order.

        Bounding w_k − w_j keeps what both outputs share from being counted twice. The two outputs are executed
        separately, so the sizes, and with them the rounding errors, add up.
        """
        raw = _Affine.of(layer)
        rest = [j for j in range(len(raw.bias)) if j != winner]
        return _Affine(
            raw.weight[winner] - raw.weight[rest],
            raw.bias[winner] - raw.bias[rest],
            raw.weight_size[winner] + raw.weight_size[rest],
            raw.bias_size[winner] + raw.bias_size[rest],
        )


def _why_not_constant(network: Network, relation: Relation, execution: Execution) -> str | None:
    """None when one class is proven for everybody, else the reason."""
    reason: str | None = None
    # All views must get one class anyway, so bounds over all views together come first: they cost as much as one view.
    for hull in (True, False) if len(relation.views) > 1 else (True,):
        try:
            if network.outputs == 1:
                reason = _why_sign_varies(network, relation, execution, hull)
            else:
                reason = _why_winner_varies(network, relation, execution, hull)
        except _OverflowError as error:
            return str(error)
        if reason is None:
            return None
    return reason


def _why_sign_varies(network: Network, relation: Relation, execution: Execution, hull: bool) -> str | None:
    least, most = np.inf, -np.inf
    for low, high in _bounds(network, _Affine.of(network.layers[-1]), relation, execution, hull):
        least, most = min(least, float(low.min())), max(most, float(high.max()))
        if not (least > 0 or most <= 0):
            return f"the bounds of the logit, [{least:.3g}, {most:.3g}], allow both decisions"
    return None


def _why_winner_varies(network: Network, relation: Relation, execution: Execution, hull: bool) -> str | None:
    last = network.layers[-1]
    low, high = next(_bounds(network, _Affine.of(last), relation, execution, hull))
    # Whoever leads on a whole box of last hidden values leads at its centre, so there is one candidate to try.
    winner = int(np.argmax(low[0] + high[0]))
    for lead, _ in _bounds(network, _Affine.lead_of(winner, last), relation, execution, hull):
        beaten = lead > 0  # strictly, so that who wins a tie never matters; bounds rounded outward cannot show one
        if not beaten.all():
            j = int(np.argmin(beaten.all(axis=0)))
            return (
                f"the lead of output {winner} over output {j + (j >= winner)} may be as low as {lead[:, j].min():.3g}, "
                "which allows both decisions"
            )
    return None


def _bounds(
    network: Network, last: _Affine, relation: Relation, execution: Execution, hull: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Bounds of the outputs, some views at a time; with `hull` one row that holds for all views of the part."""
    rows = max(1, CHUNK // max(network.widths))
    hidden = network.layers[:-1]
    first = _Affine.of(hidden[0]) if hidden else last
    for start in range(0, len(relation.views), rows):
        # Overflow is detected by its result (see _Sums.bounds), so NumPy need not warn about it too.
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = _first_layer(first, relation.views[start : start + rows], relation.free, execution)
            if hull:
                low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
            for i in range(1, len(network.layers)):
                low, high = _activate(network.activation, low, high, execution)
                layer = _Affine.of(network.layers[i]) if i < len(hidden) else last
                low, high = _layer(i, layer, low, high, execution)
        yield low, high


# --- one layer ---


def _layer(
    index: int, layer: _Affine, low: np.ndarray, high: np.ndarray, execution: Execution
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [rows, outputs] of W x + b for low ≤ x ≤ high [rows, inputs]."""
    centre, radius = _centre_and_radius(low, high)
    reach = np.abs(centre) + radius
    terms = layer.weight.shape[1]
    return _Sums(
        centre=centre @ layer.weight.T + layer.bias,
        radius=radius @ np.abs(layer.weight).T,
        size=reach @ layer.weight_size.T + layer.bias_size,
        sizes_apart=layer.weight_size.sum(axis=1) + reach.sum(axis=1, keepdims=True),
        terms=terms,
        own_terms=terms,
    ).bounds(index, execution)


def _first_layer(
    layer: _Affine, views: Sequence[View], free: FreeSpace, execution: Execution
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds [views, neurons] of W(A_i u + a_i) + b over the free space."""
    offsets, around = np.stack([view.offset for view in views]), radii(views)
    ranges = {id(matrix): _range(layer, matrix, free) for matrix in distinct_matrices(views)}
    centre, radius, size, reach = (
        np.stack(part) for part in zip(*(ranges[id(view.matrix)] for view in views), strict=True)
    )
    inputs = reach + np.abs(offsets) + around
    if not (inputs < execution.largest).all():
        raise _OverflowError("an encoded input may overflow")
    terms = layer.weight.shape[1]
    return _Sums(
        centre=centre + offsets @ layer.weight.T + layer.bias,
        radius=radius + around @ np.abs(layer.weight).T,
        size=size + (np.abs(offsets) + around) @ layer.weight_size.T + layer.bias_size,
        sizes_apart=layer.weight_size.sum(axis=1) + inputs.sum(axis=1, keepdims=True),
        terms=terms,
        own_terms=terms
        + 2 * free.width,  # W A, then its product with the ends of u, column by column and group by group
    ).bounds(0, execution)


def _range(
    layer: _Affine, matrix: np.ndarray, free: FreeSpace
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """W A u over the free space: centre, radius and Σ|w||x| per neuron, and |x| per input."""
    slope, size = layer.weight @ matrix, layer.weight_size @ np.abs(matrix)
    single = np.ones(free.width, dtype=bool)
    for group in free.groups:
        single[group] = False
    # One unit in the last place more than the free space says: its bounds were themselves computed in float64.
    middle, half = _centre_and_radius(np.nextafter(free.low[single], -np.inf), np.nextafter(free.high[single], np.inf))
    centre, radius = slope[:, single] @ middle, np.abs(slope[:, single]) @ half
    total = size[:, single] @ (np.abs(middle) + half)
    reach = np.abs(matrix[:, single]) @ (np.abs(middle) + half)
    for group in free.groups:
        # Exactly one column of the group is 1, so the group adds one of its slopes, not any sum of them.
        possible = _possible_members(free, group)
        members = slope[:, possible]
        c, r = _centre_and_radius(members.min(axis=1), members.max(axis=1))
        centre, radius = centre + c, radius + r
        total = total + size[:, possible].max(axis=1)
        reach = reach + np.abs(matrix[:, possible]).max(axis=1)
    return centre, radius, total, reach


def _possible_members(free: FreeSpace, group: slice) -> np.ndarray:
    """The columns of a one-hot group that can be the 1; a part of the free space may have excluded some."""
    columns = np.arange(free.width)[group]
    certain = columns[free.low[columns] > 0]
    possible = certain if len(certain) else columns[free.high[columns] >= 1]
    if not len(possible):
        raise InputError(f"no column of the one-hot group {group.start}…{group.stop - 1} can be 1: nobody exists.")
    return possible


@dataclass(frozen=True)
class _Sums:
    """Σ w·x + b for each neuron of a layer, as computed by us: arrays [rows, neurons].

    size is Σ|w||x| + |b|, sizes_apart is Σ|w| + Σ|x|; `terms` products are executed in each sum, `own_terms` by us.
    """

    centre: np.ndarray
    radius: np.ndarray
    size: np.ndarray
    sizes_apart: np.ndarray
    terms: int
    own_terms: int

    def bounds(self, index: int, execution: Execution) -> tuple[np.ndarray, np.ndarray]:
        """What the executed sums lie between."""
        if not (self.size < execution.largest).all():
            raise _OverflowError(f"a sum in layer {index} may overflow")
        slack = 4 * (self.own_terms + 8) * OWN_UNIT  # four times γ of all we computed
        # A flushed operand w or x loses floor·|x| or floor·|w|; each product and each sum loses its own few floors.
        floors = self.sizes_apart + 5 * (self.own_terms + 2)
        ours = self.radius + slack * self.size + OWN_FLOOR * floors
        # A term passes one product, at most `terms` sums and, in the first layer, the cast of x; two more are spare.
        theirs = execution.gamma(self.terms + 4) * self.size + execution.floor * floors
        total = (ours + theirs) * (1 + slack)
        if not np.isfinite(total).all():
            raise _OverflowError(f"rounding errors in layer {index} cannot be bounded")
        return np.nextafter(self.centre - total, -np.inf), np.nextafter(self.centre + total, np.inf)


def _centre_and_radius(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point and a distance that reaches both ends; wherever rounding puts the point, it is measured from there."""
    centre = 0.5 * low + 0.5 * high
    return centre, np.nextafter(np.maximum(high - centre, centre - low), np.inf)


# --- activations ---


def _activate(
    activation: Activation, low: np.ndarray, high: np.ndarray, execution: Execution
) -> tuple[np.ndarray, np.ndarray]:
    if activation == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0)  # exact in every arithmetic
    if activation == "tanh":
        at_low, at_high = np.tanh(low), np.tanh(high)
        return _padded(at_low, at_high, execution.tanh * np.abs(at_low), execution.tanh * np.abs(at_high), execution)
    if activation == "sigmoid":
        # As 1/2 + tanh(x/2)/2, which errs by its own rounding near 0 and not in proportion: the pad is absolute.
        pad = np.full_like(low, execution.tanh)
        return _padded(sigmoid(low), sigmoid(high), pad, pad, execution)
    at_low, at_high = _gelu(low), _gelu(high)
    turns = (low <= GELU_TURN[1]) & (high >= GELU_TURN[0])
    # Falling then rising: the largest value is at an end, and so is the smallest unless the turn lies between.
    least = np.where(turns, GELU_LEAST, np.minimum(at_low, at_high))
    pad = execution.gelu * np.maximum(np.abs(low), np.abs(high))
    return _padded(least, np.maximum(at_low, at_high), pad, pad, execution)


def _padded(
    low: np.ndarray, high: np.ndarray, below: np.ndarray, above: np.ndarray, execution: Execution
) -> tuple[np.ndarray, np.ndarray]:
    floor = execution.floor + OWN_FLOOR
    return low - below - floor, high + above + floor


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def _gelu(x: np.ndarray) -> np.ndarray:
    from scipy.special import erfc

    return 0.5 * x * erfc(x * -np.sqrt(0.5))
