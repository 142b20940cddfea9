"""The arithmetic of linear relaxation bounds, for arrays of NumPy or of JAX: what a program of `linear` computes.

Each activation is enclosed by two lines; a row D of coefficients on z = W h + b + e, |e| ≤ E, is pushed back to D·W on
h, and costs |D|·E. E holds what the machine's rounding does to z and what our own float64 does to D·W and D·b, so the
coefficients may be whatever float64 gives: the constants are what is made safe. (CROWN/DeepPoly.)
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from bornfair.verification.intervals import GELU_LEAST, GELU_TURN, OWN_UNIT

LARGEST = 2.0**400  # values beyond are given up on, so that a product flushed to zero (2^-1022) loses less than FLOOR
FLOOR = 2.0**-560
TILT = 2.0**-48  # relative safety of the few operations that make one relaxation line
HIDDEN_COST = 2e8  # multiplications per box and view beyond which hidden layers get interval bounds only
JOINT_VIEWS = 8  # pairs of views are compared up to this many; beyond, all views must get one class
MIXES = (0.2, 0.35, 0.5, 0.65, 0.8)  # t in t·U_i − (1 − t)·L_j


class Shape(NamedTuple):
    """What a compiled program depends on; weights are its arguments."""

    xp: Any  # numpy or jax.numpy
    widths: tuple[int, ...]
    activation: str
    groups: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int], ...]  # classes (b, a), a < b

    @property
    def slack(self) -> float:
        """Four times the relative error of all sums we take, each of at most this many terms."""
        return 4 * (2 * sum(self.widths) + 2 * max(self.widths) + 64) * OWN_UNIT


class Affine(NamedTuple):
    weight: Any  # [outputs, inputs]; of the first layer W A_i [views or 1, outputs, columns of u]
    bias: Any  # [outputs]; of the first layer W a_i + b [views, outputs]
    weight_size: Any  # bounds on |weight| and |bias| as executed, on which rounding depends
    bias_size: Any
    reach: Any  # [outputs]: Σ|w| of the executed layer
    gamma: Any


class Arrays(NamedTuple):
    layers: list[Affine]
    reads: list[Any]  # bool: of the first layer [outputs] reads what differs, else [outputs, inputs] weight is not 0
    inputs: Any  # [views]: bound on Σ|x|
    pad: Any  # [columns]: the free space's bounds were themselves rounded
    spread: Any  # [views, outputs of the first layer]: how far a view's own radius moves its sums
    floor: Any
    largest: Any
    tanh: Any
    gelu: Any
    sound: Any  # False when the network holds NaN or infinity


class Lines(NamedTuple):
    """Bounds of d = f_b − f_a for each pair of classes a < b (one output: d is the logit) per box, view and pair.

    d > 0 is needed to decide b, d ≤ 0 to decide a. `lower`·u + `lower_constant` ≤ d, and so for `upper`, hold on the
    box; least ≤ d ≤ most. `rounding` is the part of most − least that the machine's rounding is to blame for. `same`:
    all views are one function on the box, because what tells them apart reaches dead neurons only.
    """

    lower: Any  # [boxes, views, pairs, columns]
    lower_constant: Any  # [boxes, views, pairs]
    upper: Any
    upper_constant: Any
    least: Any
    most: Any
    rounding: Any
    same: Any  # [boxes]


class Findings(NamedTuple):
    """What the bounds say about each box."""

    fair: Any  # bool [boxes]: twins are proven to get one decision
    weight: Any  # [boxes, columns]: how much the outputs may change per unit of the column
    slope: Any  # [boxes, columns]: the same with sign, to sort categories
    rounding: Any  # [boxes]: share of the width of the bounds that is machine rounding


class _Box(NamedTuple):
    """Boxes as arrays that broadcast against [boxes, views, rows, columns]."""

    shape: Shape
    centre: Any
    radius: Any
    allowed: Any

    @staticmethod
    def of(shape: Shape, arrays: Arrays, low: Any, high: Any) -> _Box:
        xp = shape.xp
        low, high = low - arrays.pad, high + arrays.pad
        centre = low / 2 + high / 2
        single = np.ones(low.shape[-1], bool)  # groups are read from `allowed`; as intervals they count for nothing
        for start, stop in shape.groups:
            single[start:stop] = False
        radius = xp.maximum(high - centre, centre - low) * (1 + 4 * OWN_UNIT)
        parts = xp.where(single, centre, 0.0), xp.where(single, radius, 0.0), high > 0.5
        return _Box(shape, *(part[:, None, None] for part in parts))

    def least(self, rows: Any) -> Any:
        """The minimum of rows·u, up to rounding: in each group exactly one allowed category is on."""
        xp = self.shape.xp
        total = (rows * self.centre - xp.abs(rows) * self.radius).sum(-1)
        for start, stop in self.shape.groups:
            total = total + xp.where(self.allowed[..., start:stop], rows[..., start:stop], xp.inf).min(-1)
        return total

    def size(self, rows: Any) -> Any:
        """The maximum of Σ|row||u|, for rows ≥ 0."""
        xp = self.shape.xp
        total = (rows * (xp.abs(self.centre) + self.radius)).sum(-1)
        for start, stop in self.shape.groups:
            total = total + xp.where(self.allowed[..., start:stop], rows[..., start:stop], 0.0).max(-1)
        return total


class _Relaxed(NamedTuple):
    """Lines that enclose an activation on [low, high]: arrays [boxes, views, 1, neurons]."""

    lower_slope: Any
    lower_shift: Any
    upper_slope: Any
    upper_shift: Any


class _Traced(NamedTuple):
    """Bounds of all layers: sums z as executed, and the errors that each layer adds."""

    low: list[Any]  # [boxes, views, neurons]
    high: list[Any]
    errors: list[Any]  # [boxes, views, neurons, 2]: E, and the machine's part of it
    relaxed: list[_Relaxed]
    sound: list[Any]  # [boxes, views]; all of them must hold


def _trace(shape: Shape, arrays: Arrays, box: _Box, linear: bool) -> _Traced:
    xp, first = shape.xp, arrays.layers[0]
    boxes, views = box.centre.shape[0], first.bias.shape[0]
    traced = _Traced([], [], [], [], [xp.broadcast_to(xp.asarray(arrays.sound), (boxes, views))])
    for i, layer in enumerate(arrays.layers):
        if i == 0:
            size = box.size(first.weight_size) + first.bias_size
            low, high = box.least(first.weight) + first.bias, first.bias - box.least(-first.weight)
            beside = arrays.inputs[:, None]
        else:
            below, above = _activated(shape, arrays, traced.low[-1], traced.high[-1])
            reach = xp.maximum(xp.abs(below), xp.abs(above))
            size = reach @ layer.weight_size.T + layer.bias_size
            positive, negative = xp.maximum(layer.weight, 0).T, xp.minimum(layer.weight, 0).T
            low = below @ positive + above @ negative + layer.bias
            high = above @ positive + below @ negative + layer.bias
            beside = reach.sum(-1, keepdims=True)
            if linear:
                traced.relaxed.append(_relax(shape, arrays, traced.low[-1], traced.high[-1], (below, above)))
        # As in `intervals`: γ_n·Σ|w||x|, and what underflow takes from operands, products and sums (of two outputs).
        executed = layer.gamma * size + 2 * arrays.floor * (layer.reach + beside + 5 * (shape.widths[i] + 2))
        executed = executed * (1 + shape.slack)
        error = executed + shape.slack * size + FLOOR
        if i == 0:
            error = error + arrays.spread
        traced.sound.append((size < arrays.largest).all(-1) & (beside[..., 0] < arrays.largest))
        traced.sound.append(xp.isfinite(error).all(-1))
        traced.errors.append(xp.stack(xp.broadcast_arrays(error, executed), axis=-1))
        low, high = low - error, high + error
        if linear and 0 < i < len(arrays.layers) - 1 and _affordable(shape, i):
            count = shape.widths[i + 1]
            rows = xp.concatenate([xp.eye(count), -xp.eye(count)])
            ends = _backward(shape, arrays, box, traced, rows)[-1]
            low, high = xp.fmax(low, ends[..., :count]), xp.fmin(high, -ends[..., count:])
        traced.low.append(low)
        traced.high.append(high)
    return traced


def _affordable(shape: Shape, layer: int) -> bool:
    widths = shape.widths
    return 2 * widths[layer + 1] * sum(widths[k] * widths[k + 1] for k in range(layer + 1)) < HIDDEN_COST


def _backward(shape: Shape, arrays: Arrays, box: _Box, traced: _Traced, rows: Any) -> tuple[Any, Any, Any, Any]:
    """Lower bounds of rows·z for the last layer traced: coefficients of u, constant, machine's part, minimum."""
    xp, slack = shape.xp, shape.slack
    constant: Any = 0.0
    lost: Any = 0.0  # [..., 2], as the errors are
    for i in reversed(range(len(traced.errors))):
        layer = arrays.layers[i]
        lost = lost + xp.abs(rows) @ traced.errors[i]
        if i == 0:
            break
        constant = constant + rows @ layer.bias
        rows = rows @ layer.weight
        lines = traced.relaxed[i - 1]
        up, down = xp.maximum(rows, 0), xp.minimum(rows, 0)
        rows = up * lines.lower_slope + down * lines.upper_slope
        if shape.activation == "relu":  # its lower line passes through 0
            raised = (down @ xp.swapaxes(lines.upper_shift, -1, -2))[..., 0]
            sizes = -raised
        else:
            raised = (up * lines.lower_shift + down * lines.upper_shift).sum(-1)
            sizes = (up * xp.abs(lines.lower_shift) - down * xp.abs(lines.upper_shift)).sum(-1)
        constant = constant + raised
        lost = lost + xp.stack([slack * sizes, 0 * sizes], axis=-1)
    first = arrays.layers[0]
    constant = constant + (rows @ first.bias[:, :, None])[..., 0]
    rows = rows @ (first.weight if first.weight.shape[0] > 1 else first.weight[0])
    sound = functools.reduce(lambda one, other: one & other, traced.sound)
    rows = xp.broadcast_to(rows, (*sound.shape, *rows.shape[-2:]))
    constant = (constant - lost[..., 0] * (1 + slack)) - (slack * xp.abs(constant) + FLOOR)
    least = box.least(rows) + constant
    least = least - (slack * (box.size(xp.abs(rows)) + xp.abs(constant) + xp.abs(least)) + FLOOR)
    # Where a number overflowed nothing is claimed. `lost` sums the sizes of everything, so it shows.
    fine = xp.isfinite(lost[..., 0]) & xp.isfinite(least) & xp.isfinite(rows).all(-1) & sound[..., None]
    return (
        xp.where(fine[..., None], rows, 0.0), xp.where(fine, constant, -xp.inf), lost[..., 1],
        xp.where(fine, least, -xp.inf),
    )  # fmt: skip


def lines(shape: Shape, arrays: Arrays, low: Any, high: Any) -> Lines:
    """Linear bounds of the outputs over boxes low, high [boxes, columns]."""
    xp = shape.xp
    box = _Box.of(shape, arrays, low, high)
    traced = _trace(shape, arrays, box, linear=True)
    count = len(shape.pairs)
    both = xp.concatenate([xp.eye(count), -xp.eye(count)])
    rows, constant, blame, least = _backward(shape, arrays, box, traced, both)
    below, above = _ends(shape, traced)
    return Lines(
        rows[:, :, :count], constant[:, :, :count], -rows[:, :, count:], -constant[:, :, count:],
        xp.fmax(least[:, :, :count], below), xp.fmin(-least[:, :, count:], above),
        blame[:, :, :count] + blame[:, :, count:], _same(shape, arrays, traced),
    )  # fmt: skip


def _ends(shape: Shape, traced: _Traced) -> tuple[Any, Any]:
    xp = shape.xp
    sound = functools.reduce(lambda one, other: one & other, traced.sound)[..., None]
    return xp.where(sound, traced.low[-1], -xp.inf), xp.where(sound, traced.high[-1], xp.inf)


def _same(shape: Shape, arrays: Arrays, traced: _Traced) -> Any:
    """Whether what differs between views dies out on the box. The argument is that of `prove_structurally`."""
    sound = functools.reduce(lambda one, other: one & other, traced.sound)
    differs = shape.xp.broadcast_to(arrays.reads[0], (sound.shape[0], shape.widths[1]))
    for i, reads in enumerate(arrays.reads[1:]):
        if shape.activation == "relu":
            differs = differs & ~(traced.high[i] <= 0).all(axis=1)
        differs = (differs[:, None, :] & reads).any(-1)
    return ~differs.any(-1) & sound.all(-1)


def judge(shape: Shape, arrays: Arrays, low: Any, high: Any) -> Findings:
    """Which boxes are fair: one class for all views, one function for all views, or no place for unequal twins."""
    xp = shape.xp
    found = lines(shape, arrays, low, high)
    box = _Box.of(shape, arrays, low, high)
    possible = _possible(shape, found.least, found.most)
    views = possible.shape[1]
    fair = found.same | (possible.any(1).sum(-1) <= 1) | (views == 1)
    if 1 < views <= JOINT_VIEWS:
        # Twins i, j are decided b, a only where U_i > 0 ≥ L_j, hence where t·U_i − (1 − t)·L_j > 0 for all t in (0, 1).
        i, j = np.nonzero(~np.eye(views, dtype=bool))
        b, a = np.array(shape.pairs).T
        upper, lower = found.upper[:, i], found.lower[:, j]
        above, below = found.upper_constant[:, i], found.lower_constant[:, j]
        sizes = box.size(xp.abs(upper) + xp.abs(lower)) + xp.abs(above) + xp.abs(below)
        doubt = possible[:, i][:, :, b] & possible[:, j][:, :, a]
        for t in MIXES:
            most = t * above - (1 - t) * below - box.least((1 - t) * lower - t * upper)
            doubt = doubt & ~(most + shape.slack * sizes + FLOOR < 0)
        fair = fair | ~doubt.any((1, 2))
    gap = found.most - found.least
    share = xp.where((gap > 0) & (gap < xp.inf), found.rounding / gap, 0.0)
    doubtful = (~(found.least > 0) & ~(found.most <= 0))[..., None]
    weight = xp.where(doubtful, xp.abs(found.lower) + xp.abs(found.upper), 0.0).sum((1, 2))
    slope = xp.where(doubtful, found.lower + found.upper, 0.0).sum((1, 2))
    return Findings(fair, weight, slope, xp.where(doubtful[..., 0], share, 0.0).max((1, 2)))


def points(shape: Shape, arrays: Arrays, low: Any, high: Any) -> tuple[Any, Any]:
    """For boxes of one point: whether all views provably get one decision, and the likely decisions [boxes, views]."""
    box = _Box.of(shape, arrays, low, high)
    traced = _trace(shape, arrays, box, linear=False)
    possible = _possible(shape, *_ends(shape, traced))
    middle = traced.low[-1] / 2 + traced.high[-1] / 2
    likely = shape.xp.argmax(_possible(shape, middle, middle), axis=-1)
    return (possible.any(1).sum(-1) <= 1) | _same(shape, arrays, traced), likely


def _possible(shape: Shape, least: Any, most: Any) -> Any:
    """Which classes each view may still be given: bool [boxes, views, classes]."""
    can_win, can_lose = ~(most <= 0), ~(least > 0)
    classes = max(b for b, _ in shape.pairs) + 1
    possible = []
    for c in range(classes):
        needed = [can_win[..., p] for p, (b, _) in enumerate(shape.pairs) if b == c]
        needed += [can_lose[..., p] for p, (_, a) in enumerate(shape.pairs) if a == c]
        possible.append(functools.reduce(lambda one, other: one & other, needed))
    return shape.xp.stack(possible, axis=-1)


# --- activations ---


def _activated(shape: Shape, arrays: Arrays, low: Any, high: Any) -> tuple[Any, Any]:
    """Bounds of the activation of anything in [low, high]."""
    xp = shape.xp
    if shape.activation == "relu":
        return xp.maximum(low, 0), xp.maximum(high, 0)
    if shape.activation == "tanh":
        pad = arrays.tanh + TILT
        return xp.tanh(low) - pad, xp.tanh(high) + pad
    if shape.activation == "sigmoid":
        pad = arrays.tanh + TILT
        return 0.5 + 0.5 * xp.tanh(0.5 * low) - pad, 0.5 + 0.5 * xp.tanh(0.5 * high) + pad
    at_low, at_high = gelu(xp, low), gelu(xp, high)
    turns = (low <= GELU_TURN[1]) & (high >= GELU_TURN[0])
    least = xp.where(turns, GELU_LEAST, xp.minimum(at_low, at_high))
    pad = (arrays.gelu + 2.0**-40) * xp.maximum(xp.abs(low), xp.abs(high)) + arrays.floor + FLOOR
    return least - pad, xp.maximum(at_low, at_high) + pad


def gelu(xp: Any, z: Any) -> Any:
    if xp is np:
        from scipy.special import erfc
    else:
        from jax.scipy.special import erfc
    return 0.5 * z * erfc(z * -np.sqrt(0.5))


def _relax(shape: Shape, arrays: Arrays, low: Any, high: Any, values: tuple[Any, Any]) -> _Relaxed:
    xp = shape.xp
    if shape.activation == "relu":
        bends = (low < 0) & (high > 0)
        stable = xp.where(high > 0, 1.0, 0.0)
        slope = xp.where(bends, high / xp.where(bends, high - low, 1.0), stable)
        # The line must reach relu at both ends, whatever the slope was rounded to: relu is convex.
        needed = xp.maximum(-slope * low, high - slope * high) + TILT * (high - slope * low) + FLOOR
        lower = xp.where(bends, xp.where(high > -low, 1.0, 0.0), stable)
        found = _Relaxed(lower, xp.zeros_like(low), slope, xp.where(bends, needed, 0.0))
    elif shape.activation == "tanh":
        found = _relax_tanh(xp, arrays, low, high)
    elif shape.activation == "sigmoid":
        # 1/2 + tanh(z/2)/2: lines for tanh at half the place, at half the height. Slopes and halves are exact; the
        # sum with 1/2 rounds once, and an execution may err as much as tanh itself, not half of it.
        half = _relax_tanh(xp, arrays, 0.5 * low, 0.5 * high)
        pad = arrays.tanh + 4 * TILT
        found = _Relaxed(
            0.25 * half.lower_slope,
            0.5 + 0.5 * half.lower_shift - pad,
            0.25 * half.upper_slope,
            0.5 + 0.5 * half.upper_shift + pad,
        )
    else:
        flat = xp.zeros_like(low)
        found = _Relaxed(flat, values[0], flat, values[1])
    return _Relaxed(*(part[:, :, None] for part in found))


def _relax_tanh(xp: Any, arrays: Arrays, low: Any, high: Any) -> _Relaxed:
    """Chord and tangent where tanh bends one way only; else both lines with the smaller slope of the two ends."""
    middle, width = low / 2 + high / 2, high - low
    at_low, at_high, at_middle = xp.tanh(low), xp.tanh(high), xp.tanh(middle)
    chord = xp.clip((at_high - at_low) / xp.where(width > 0, width, 1.0), 0.0, 1.0)
    tangent = 1 - at_middle**2
    flattest = xp.minimum(1 - at_low**2, 1 - at_high**2)
    convex, concave = high <= 0, low >= 0
    below = xp.where(convex, tangent, xp.where(concave, chord, flattest))
    above = xp.where(concave, tangent, xp.where(convex, chord, flattest))
    # tanh is off by its own error, slopes by a few units in the last place: over the interval that is at most this.
    pad = arrays.tanh + TILT * (8 + 8 * xp.maximum(xp.abs(low), xp.abs(high)))
    at_ends_below = xp.minimum(at_low - below * low, at_high - below * high)
    at_ends_above = xp.maximum(at_low - above * low, at_high - above * high)
    lower = xp.where(convex, at_middle - below * middle, at_ends_below) - pad
    upper = xp.where(concave, at_middle - above * middle, at_ends_above) + pad
    return _Relaxed(below, lower, above, upper)
