"""Bounds of networks by arrays of NumPy or JAX: intervals forwards, lines backwards (CROWN), all rounding included.

Forwards, a layer maps the box c ± r into W c + b ± (|W| r + E). Backwards, each activation is enclosed by two lines; a
row D of coefficients on z = W h + b + e, |e| ≤ E, is pushed back to D·W on h, and costs |D|·E. E holds what the
machine's rounding does to z and what our own float64 does to W c, D·W and D·b, so the coefficients may be whatever
float64 gives: the constants are what is made safe.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.activations import ACTIVATIONS, ActivationFunction, Enclosure
from bornfair.models.network.network import Network
from bornfair.models.rounding import EXECUTIONS, FLOOR, LARGEST, OWN_UNIT
from bornfair.models.verdict import Arithmetic

if TYPE_CHECKING:
    from bornfair.people.twins.relation import Relation, View

HIDDEN_COST = 2e8  # multiplications per box and view beyond which hidden layers get interval bounds only
JOINT_VIEWS = 8  # pairs of views are compared up to this many; beyond, all views must get one class
MIXES = (0.2, 0.35, 0.5, 0.65, 0.8)  # t in t·U_i − (1 − t)·L_j


# --- what is asked of the views of a relation ---


def require_fit(network: Network, relation: Relation) -> None:
    """Refuse a relation about people this network cannot read."""
    if not relation.views:
        raise InputError("the relation has no views; it needs one per version of a person.")
    inputs = network.widths[0]
    for i, view in enumerate(relation.views):
        if view.offset.shape != (inputs,) or view.matrix.shape != (inputs, relation.free.width):
            raise InputError(
                f"the network has {inputs} inputs and the free space {relation.free.width} columns, but view {i} has a "
                f"matrix {view.matrix.shape} and an offset {view.offset.shape}; was it made for another encoding?"
            )


def not_finite(network: Network, relation: Relation) -> str | None:
    """Which number is NaN or infinite, if any: no proof is offered about such networks."""
    if not all(np.isfinite(matrix).all() for matrix in distinct_matrices(relation.views)):
        return "a view of the relation holds NaN or infinity"
    if not np.isfinite(offsets(relation.views)).all():
        return "an offset of the relation holds NaN or infinity"
    return network_not_finite(network)


def network_not_finite(network: Network) -> str | None:
    layer = network.broken_layer
    return None if layer is None else f"layer {layer} of the network holds NaN or infinity"


def distinct_matrices(views: Sequence[View]) -> list[np.ndarray]:
    """The matrices of the views, each object once. Views made together share one; equal copies merely cost time."""
    return list({id(view.matrix): view.matrix for view in views}.values())


def offsets(views: Sequence[View]) -> np.ndarray:
    return np.stack([view.offset for view in views])


def radii(views: Sequence[View]) -> np.ndarray:
    """How far each input of each view may be off [views, inputs]; 0 for views of points."""
    return np.stack([np.zeros(len(view.offset)) if view.radius is None else view.radius for view in views])


def differing_inputs(views: Sequence[View]) -> np.ndarray:
    """Which network inputs are not the same function of u in all views (a boolean per input)."""
    shifts = offsets(views)
    differs = (shifts != shifts[0]).any(axis=0) | (radii(views) > 0).any(axis=0)
    for matrix in distinct_matrices(views)[1:]:
        differs |= (matrix != views[0].matrix).any(axis=1)
    return differs


def input_sizes(relation: Relation) -> np.ndarray:
    """How large each network input may become, in any view of anybody: never more, whatever was rounded."""
    reach = np.maximum(np.abs(relation.free.low), np.abs(relation.free.high))
    largest = (np.abs(offsets(relation.views)) + radii(relation.views)).max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.stack([np.abs(matrix) @ reach for matrix in distinct_matrices(relation.views)])
        return np.asarray((moved.max(axis=0) + largest) * (1 + 2.0**-20))


# --- what a pass reads ---


class Shape(NamedTuple):
    """What a compiled program depends on; weights are its arguments."""

    xp: Any  # numpy or jax.numpy
    widths: tuple[int, ...]
    activation: str
    groups: tuple[tuple[int, int], ...]
    pairs: tuple[tuple[int, int], ...]  # classes (b, a), a < b

    @property
    def function(self) -> ActivationFunction:
        return ACTIVATIONS[self.activation]

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
    inputs: Any  # [views] or [boxes, views]: bound on Σ|x|
    pad: Any  # [columns]: the free space's bounds were themselves rounded
    spread: Any  # [views, outputs of the first layer]: how far a view's own radius moves its sums
    floor: Any
    largest: Any
    error: Any  # of the activation
    sound: Any  # False when the network holds NaN or infinity


def arrays_of(
    network: Network,
    relation: Relation,
    arithmetic: Arithmetic,
    pairs: Sequence[tuple[int, int]] = (),
    *,
    sound: bool = True,
) -> Arrays:
    """What a pass reads, for the outputs themselves or, with `pairs` (b, a), for the differences f_b − f_a."""
    execution, views, free = EXECUTIONS[arithmetic], relation.views, relation.free
    matrices = [view.matrix for view in (views if len(distinct_matrices(views)) > 1 else views[:1])]
    offsets, radius = np.stack([view.offset for view in views]), radii(views)
    layers = []
    with np.errstate(all="ignore"):  # what overflows is found out by the pass
        for i, (weight, bias) in enumerate(network.wide):
            terms, weight_size, bias_size = weight.shape[1], np.abs(weight), np.abs(bias)
            if pairs and i == len(network.layers) - 1 and network.outputs > 1:
                # Both outputs are executed, so their sizes, and with them the rounding errors, add up.
                b, a = np.array(pairs).T
                weight, bias = weight[b] - weight[a], bias[b] - bias[a]
                weight_size, bias_size = weight_size[b] + weight_size[a], bias_size[b] + bias_size[a]
            reach = weight_size.sum(axis=1)
            if i == 0:
                spread = radius @ weight_size.T * (1 + 2.0**-40)
                weight, bias = np.stack([weight @ m for m in matrices]), offsets @ weight.T + bias
                bias_size = (np.abs(offsets) + radius) @ weight_size.T + bias_size
                weight_size = np.stack([weight_size @ np.abs(m) for m in matrices])
            layers.append(Affine(weight, bias, weight_size, bias_size, reach, execution.gamma(terms + 4)))
        furthest = np.maximum(np.abs(free.low), np.abs(free.high))
        inputs = np.array([(np.abs(view.matrix) @ furthest).sum() for view in views])
        inputs = inputs + (np.abs(offsets) + radius).sum(axis=1)
    single = np.ones(free.width, bool)
    for group in free.groups:
        single[group] = False
    reads = [(network.layers[0].weight[:, differing_inputs(views)] != 0).any(axis=1)]
    reads += [layer.weight != 0 for layer in network.layers[1:]]
    return Arrays(
        layers, reads, inputs, np.where(single, 4 * OWN_UNIT * furthest, 0.0), spread, execution.floor,
        min(execution.largest, LARGEST), network.function.error(execution), sound,
    )  # fmt: skip


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


class Box(NamedTuple):
    """Boxes as arrays that broadcast against [boxes, views, rows, columns]."""

    shape: Shape
    centre: Any
    radius: Any
    allowed: Any

    @staticmethod
    def of(shape: Shape, arrays: Arrays, low: Any, high: Any) -> Box:
        xp = shape.xp
        low, high = low - arrays.pad, high + arrays.pad
        centre = low / 2 + high / 2
        single = np.ones(low.shape[-1], bool)  # groups are read from `allowed`; as intervals they count for nothing
        for start, stop in shape.groups:
            single[start:stop] = False
        radius = xp.maximum(high - centre, centre - low) * (1 + 4 * OWN_UNIT)
        parts = xp.where(single, centre, 0.0), xp.where(single, radius, 0.0), high > 0.5
        return Box(shape, *(part[:, None, None] for part in parts))

    def through(self, layer: Affine) -> tuple[Any, Any, Any]:
        """Least and largest sums of the first layer, and Σ|w||x| + |b|: [boxes, views, neurons], up to rounding.

        Weights are the same for all boxes, so the columns that are numbers take three products.
        """
        xp, weight, weight_size = self.shape.xp, layer.weight, layer.weight_size
        centre, radius = self.centre[:, 0, 0], self.radius[:, 0, 0]

        def product(numbers: Any, rows: Any) -> Any:
            flat = rows.reshape(rows.shape[0] * rows.shape[1], rows.shape[2])
            return (numbers @ flat.T).reshape(len(numbers), *rows.shape[:2])

        middle, half = product(centre, weight), product(radius, xp.abs(weight))
        low, high = middle - half + layer.bias, middle + half + layer.bias
        size = product(xp.abs(centre) + radius, weight_size) + layer.bias_size
        for start, stop in self.shape.groups:
            allowed, members = self.allowed[..., start:stop], weight[..., start:stop]
            low = low + xp.where(allowed, members, xp.inf).min(-1)
            high = high + xp.where(allowed, members, -xp.inf).max(-1)
            size = size + xp.where(allowed, weight_size[..., start:stop], 0.0).max(-1)
        return low, high, size

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


class Traced(NamedTuple):
    """Bounds of all layers: sums z as executed, and the errors that each layer adds."""

    low: list[Any]  # [boxes, views, neurons]
    high: list[Any]
    errors: list[Any]  # [boxes, views, neurons, 2]: E, and the machine's part of it; needed for lines only
    relaxed: list[Enclosure]  # arrays [boxes, views, 1, neurons]
    doubts: list[tuple[str, Any]]  # what may go wrong, and where it does not: [boxes, views]

    @property
    def sound(self) -> Any:
        """Where nothing goes wrong, so that the bounds hold: [boxes, views]."""
        return functools.reduce(lambda one, other: one & other, (fine for _, fine in self.doubts))

    def ends(self, xp: Any, layer: int = -1) -> tuple[Any, Any]:
        """Bounds of a layer's sums; infinite where nothing is known."""
        sound = self.sound[..., None]
        return xp.where(sound, self.low[layer], -xp.inf), xp.where(sound, self.high[layer], xp.inf)


def trace(shape: Shape, arrays: Arrays, box: Box, *, linear: bool = False, hull: bool = False) -> Traced:
    """The pass forwards. linear: with lines for all activations; hull: all views as one, from the first layer on."""
    xp = shape.xp
    traced = Traced([], [], [], [], [("the network holds NaN or infinity", arrays.sound)])
    for i, layer in enumerate(arrays.layers):
        if i == 0:
            low, high, size = box.through(layer)
            beside = arrays.inputs[..., None]
            traced.doubts.append(("an encoded input may overflow", beside[..., 0] < arrays.largest))
        else:
            ends = traced.low[-1], traced.high[-1]
            below, above = shape.function.image(xp, *ends, arrays.error, arrays.floor + FLOOR)
            low, high, size, beside = _through(xp, layer, below, above)
            if linear:
                around = shape.function.lines(xp, *ends, (below, above), arrays.error)
                traced.relaxed.append(Enclosure(*(None if part is None else part[:, :, None] for part in around)))
        # A term passes one product, the sums and, in the first layer, the cast of x. A flushed operand w or x loses
        # floor·|x| or floor·|w|, each product and each sum a few floors more; all of it twice for two outputs.
        executed = layer.gamma * size + 2 * arrays.floor * (layer.reach + beside + 5 * (shape.widths[i] + 2))
        executed = executed * (1 + shape.slack)
        error = executed + shape.slack * size + FLOOR
        if i == 0:
            error = error + arrays.spread
        fine = (size < arrays.largest).all(-1) & (beside[..., 0] < arrays.largest)
        traced.doubts.append((f"a sum in layer {i} may overflow", fine))
        traced.doubts.append((f"rounding errors in layer {i} cannot be bounded", xp.isfinite(error).all(-1)))
        low, high = low - error, high + error
        if linear:
            traced.errors.append(xp.stack(xp.broadcast_arrays(error, executed), axis=-1))
        count, widths = shape.widths[i + 1], shape.widths
        cost = 2 * count * sum(widths[k] * widths[k + 1] for k in range(i + 1))
        if linear and 0 < i < len(arrays.layers) - 1 and cost < HIDDEN_COST:
            rows = xp.concatenate([xp.eye(count), -xp.eye(count)])
            ends = _backward(shape, arrays, box, traced, rows)[-1]
            low, high = xp.fmax(low, ends[..., :count]), xp.fmin(high, -ends[..., count:])
        if i == 0 and hull:
            low, high = low.min(1, keepdims=True), high.max(1, keepdims=True)
        traced.low.append(low)
        traced.high.append(high)
    return traced


def _through(xp: Any, layer: Affine, below: Any, above: Any) -> tuple[Any, Any, Any, Any]:
    """Least and largest sums W h + b for below ≤ h ≤ above, up to rounding; Σ|w||h| + |b|, and Σ|h|."""
    reach = xp.maximum(xp.abs(below), xp.abs(above))
    centre = (below / 2 + above / 2) @ layer.weight.T + layer.bias
    radius = (above / 2 - below / 2) @ xp.abs(layer.weight).T
    size = reach @ layer.weight_size.T + layer.bias_size
    return centre - radius, centre + radius, size, reach.sum(-1, keepdims=True)


def _backward(shape: Shape, arrays: Arrays, box: Box, traced: Traced, rows: Any) -> tuple[Any, Any, Any, Any]:
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
        if lines.lower_shift is None:
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
    sound = traced.sound
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
    box = Box.of(shape, arrays, low, high)
    traced = trace(shape, arrays, box, linear=True)
    count = len(shape.pairs)
    both = xp.concatenate([xp.eye(count), -xp.eye(count)])
    rows, constant, blame, least = _backward(shape, arrays, box, traced, both)
    below, above = traced.ends(xp)
    return Lines(
        rows[:, :, :count], constant[:, :, :count], -rows[:, :, count:], -constant[:, :, count:],
        xp.fmax(least[:, :, :count], below), xp.fmin(-least[:, :, count:], above),
        blame[:, :, :count] + blame[:, :, count:], _same(shape, arrays, traced),
    )  # fmt: skip


def _same(shape: Shape, arrays: Arrays, traced: Traced) -> Any:
    """Whether what differs between views dies out on the box. The argument is that of `prove_structurally`."""
    sound = traced.sound
    differs = shape.xp.broadcast_to(arrays.reads[0], (sound.shape[0], shape.widths[1]))
    for i, reads in enumerate(arrays.reads[1:]):
        if shape.function.exact:
            differs = differs & ~(traced.high[i] <= 0).all(axis=1)
        differs = (differs[:, None, :] & reads).any(-1)
    return ~differs.any(-1) & sound.all(-1)


def judge(shape: Shape, arrays: Arrays, low: Any, high: Any) -> Findings:
    """Which boxes are fair: one class for all views, one function for all views, or no place for unequal twins."""
    xp = shape.xp
    found = lines(shape, arrays, low, high)
    box = Box.of(shape, arrays, low, high)
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
    box = Box.of(shape, arrays, low, high)
    traced = trace(shape, arrays, box)
    possible = _possible(shape, *traced.ends(shape.xp))
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
