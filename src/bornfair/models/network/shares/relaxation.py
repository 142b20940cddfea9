"""Bounds of outputs by sums of functions of few variables: Σ_i L_i(u_i) ≤ f(view of u) ≤ Σ_i U_i(u_i).

Sums of independent variables have a distribution that can be computed, so such bounds tell not only whether a box is
decided but what share of its people is. u_i is a block of one or two variables; L_i, U_i are given by their values at
nodes (see `nodes`). The upper bound of a ReLU is Jensen's: with p ≥ 0, Σp_i = 1,

    relu(c + Σ_i t_i) = relu(Σ_i p_i·(c + t_i/p_i)) ≤ Σ_i relu(p_i·c + t_i).

With t_i centred and p_i in proportion to their widths this is nowhere above the one line that other relaxations use,
and on average over the box it has a third of that line's error, or less.
Deeper layers are bounded a second way too, by lines substituted backwards to the first layer (CROWN), and hidden sums
by affine forms with one slope for both lines (zonotopes). Rounding, ours and the machine's, is added to constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bornfair.models.network.bounds.alive import Picked, product
from bornfair.models.rounding import FLOOR

if TYPE_CHECKING:
    from bornfair.models.network.shares.forms import Bounder

AFFINE_COST = 4e6  # multiplications per box beyond which hidden layers are bounded without affine forms
SUBSTITUTION_COST = 8_000  # and without lines substituted backwards
MANY = 255  # sums: more than can be looked at together


class Sums(NamedTuple):
    """constant + Σ_i table_i, per form and box: arrays [forms, boxes] and [forms, nodes, boxes]."""

    constant: np.ndarray
    table: np.ndarray

    def boxes(self, which: np.ndarray | slice) -> Sums:
        return Sums(self.constant[..., which], self.table[..., which])


class LeadBounds(NamedTuple):
    """What is known of d = f_b − f_a for each view and each pair of classes a < b (one output: d is the logit).

    `lower` and `upper` hold alternatives, each a bound on every box; [views, pairs] are flattened, views first.
    """

    lower: list[Sums]
    upper: list[Sums]
    same: np.ndarray  # bool [boxes]: all views are one function there
    merit: np.ndarray  # [variables, boxes]: how much of the bounds' width a cut of this variable may remove
    alive: np.ndarray  # bool [boxes, hidden neurons]: which may be active there
    few: np.ndarray  # int [boxes]: how many sums tell all there


def line_over(top: np.ndarray, bottom: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where relu bends between these ends, and the slope and the height at 0 of the line above it (0 or 1, and 0,
    where it does not bend). The line below it is the same without the height.
    """
    bends = (bottom < 0) & (top > 0)
    slope = np.where(bends, top / np.where(bends, top - bottom, 1.0), np.where(top > 0, 1.0, 0.0))
    lift = np.where(bends, np.maximum(-slope * bottom, top - slope * top) * (1 + 2.0**-40) + FLOOR, 0.0)
    return bends, slope, lift


def fewest(alive: list[np.ndarray], bends: list[np.ndarray], outputs: int) -> tuple[np.ndarray, np.ndarray]:
    """How many sums tell all, from how many neurons of each hidden layer are alive and bend [boxes]: the least, and the
    layer down to which only what bends is looked at.
    """
    before = np.cumsum([np.zeros_like(bends[0]), *bends], axis=0)
    counts = before + np.stack([*alive, np.full_like(bends[0], outputs)])
    return counts.min(axis=0), counts.argmin(axis=0)


def bottleneck(alive: list[np.ndarray]) -> np.ndarray:
    """The first hidden layer in which a single neuron is alive, from how many are [boxes] in each; 0: there is none.

    A layer that reads the inputs, or is read by the outputs, is none: other bounds serve as well.
    """
    single = np.stack([np.zeros_like(alive[0]), *alive[1:-1]]) == 1
    return np.asarray(single.argmax(axis=0))


class ReluPass:
    """One batch through a ReLU network. Items are views × boxes, views first; arrays are [neurons, …, items]."""

    def __init__(
        self, owner: Bounder, low: np.ndarray, high: np.ndarray, alive: np.ndarray | None = None, *,
        remember: bool = False,
    ) -> None:  # fmt: skip
        """`alive` [boxes, hidden neurons]: which may be active, as far as is known. `remember` the bounds of sums."""
        self.remembered: list[tuple[Sums, Sums]] | None = [] if remember else None  # of each hidden layer: U, L
        self.variables, self.nodes, self.arrays = owner.variables, owner.nodes, owner.arrays
        self.low, self.high, self.boxes = low, high, len(low)
        self.views, self.hull = owner.bounded_views, owner.bounded_views < len(owner.relation.views)
        self.slack, self.layers = owner.slack, owner.network.widths
        self.picked = Picked(self.arrays, self.layers, self.views, alive)
        self.weights = [self.picked.layer(i) for i in range(1, len(self.arrays.layers))]  # of all layers but the first
        depth = len(owner.network.layers) - 1
        w = self.layers
        costs = [w[i + 1] * w[i] * sum(w[1:i]) for i in range(2, depth)]
        self.affine = depth > 1 and max(costs, default=0) <= AFFINE_COST
        self.tops: list[np.ndarray] = []  # bounds of each hidden layer's sums [neurons, items]
        self.bottoms: list[np.ndarray] = []
        self.widths: list[np.ndarray] = []  # half of how far each variable moves a sum [neurons, variables, items]
        self.sizes: list[np.ndarray] = []  # bounds on the sizes of all numbers that make up a sum
        self.errors: list[np.ndarray] = []
        self.fine = np.ones(self.views * self.boxes, bool)

    def run(self) -> LeadBounds:
        upper, lower = self._first()
        last = len(self.arrays.layers) - 1
        for i in range(1, last + 1):
            raised, lowered = self._relu(upper, lower)
            if i == 1:
                first = raised, lowered
            if self.affine and i < last:
                self._affine_forms(i)
            upper, lower = self._layer(i, raised, lowered)
            cost = self.layers[i + 1] * self.layers[1] * self.nodes.count
            if 1 < i < last and cost <= SUBSTITUTION_COST:
                upper, lower = self._better(upper, lower, *self._substituted(i, *first))
        tops, bottoms = [upper], [lower]
        if last > 1:
            above, below = self._substituted(last, *first)
            tops.append(above)
            bottoms.append(below)
        merit = self._merit()
        down = [self._unless_flawed(sums, -np.inf) for sums in bottoms]
        up = [self._unless_flawed(sums, np.inf) for sums in tops]
        alive = [self.picked.may_be_active(i, tops) for i, tops in enumerate(self.tops)]
        fine = np.asarray(self.fine.reshape(self.views, self.boxes).all(axis=0))
        few = self._fewest(alive)
        return LeadBounds(down, up, self._same(alive, fine), merit, np.concatenate(alive).T | ~fine[:, None], few)

    def _unless_flawed(self, sums: Sums, nothing: float) -> Sums:
        """[pairs, items] → [views · pairs, boxes]; where a number overflowed, nothing is claimed."""
        fine = self.fine & np.isfinite(sums.constant).all(axis=0) & np.isfinite(sums.table).all(axis=(0, 1))
        constant = np.where(fine, sums.constant, nothing)
        table = np.where(fine, sums.table, 0.0)
        pairs, nodes = table.shape[:2]
        constant = constant.reshape(pairs, self.views, self.boxes).swapaxes(0, 1).reshape(-1, self.boxes)
        table = table.reshape(pairs, nodes, self.views, self.boxes).transpose(2, 0, 1, 3)
        return Sums(constant, table.reshape(-1, nodes, self.boxes))

    # --- forwards ---

    def _first(self) -> tuple[Sums, Sums]:
        layer, variables, picked = self.arrays.layers[0], self.variables, self.picked
        numbers = variables.numbers
        low, high = self.low.T[numbers], self.high.T[numbers]
        centre = low / 2 + high / 2
        radius = np.maximum(high - centre, centre - low)
        furthest = np.maximum(np.abs(low), np.abs(high))
        bias, bias_size, inputs = layer.bias, layer.bias_size, self.arrays.inputs
        around = self.arrays.spread  # [views, neurons]: how far a view reaches, or all, taken together
        if self.hull:
            above = (bias + around).max(axis=0, keepdims=True)
            below = (bias - around).min(axis=0, keepdims=True)
            bias, bias_size, inputs = (
                above / 2 + below / 2,
                bias_size.max(axis=0, keepdims=True),
                inputs.max(keepdims=True),
            )
            around = np.maximum(above - bias, bias - below) * (1 + 2.0**-50)
        constants, tables, terms, sizes, pads = [], [], [], [], []
        for view in range(self.views):
            at = view if layer.weight.shape[0] > 1 else 0
            if at == view:
                weight, weight_size = picked.first(at)
                term = self.nodes.terms(weight, radius, self.high)
                table = self.nodes.of_terms(term)
                middle = product(weight[:, numbers], centre)
                size = product(weight_size[:, numbers], furthest)
                for group in variables.groups:
                    size = size + weight_size[:, group].max(axis=1).reshape(len(weight), -1)
                pad = product(np.abs(weight[:, numbers]), self.arrays.pad[numbers, None])
            tables.append(table)
            terms.append(term)
            pads.append(np.broadcast_to(2 * pad + picked.of_neurons(around[view]), middle.shape))
            constants.append(middle + picked.of_neurons(bias[view]))
            sizes.append(size + picked.of_neurons(bias_size[view]))
        size, beside = np.concatenate(sizes, axis=1), np.repeat(inputs, self.boxes)
        self.pad = np.concatenate(pads, axis=1)
        error = self._error(0, size, size, beside) + self.pad
        constant, table = np.concatenate(constants, axis=1), np.concatenate(tables, axis=2)
        self._middle, self._terms = constant, np.concatenate(terms, axis=2)
        return Sums(constant + error, table), Sums(constant - error, table)

    def _error(self, i: int, size: np.ndarray, own: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """As in `backward`: what execution does to sums of this size, and what we do to ours."""
        arrays, full = self.arrays, self.arrays.layers[i]
        reach = self.weights[i - 1].reach if i else self.picked.of_items(full.reach)
        executed = full.gamma * size + 2 * arrays.floor * (reach + beside + 5 * (self.layers[i] + 2))
        error = executed * (1 + self.slack) + self.slack * own + FLOOR
        self.fine = self.fine & (size < arrays.largest).all(axis=0) & (beside < arrays.largest) & bool(arrays.sound)
        self.fine = self.fine & np.isfinite(error).all(axis=0)
        self.errors.append(error)
        return error

    def _relu(self, upper: Sums, lower: Sums) -> tuple[Sums, Sums]:
        """Bounds of relu(z) from bounds of z; remembers what was learnt of z."""
        if self.remembered is not None:
            self.remembered.append((upper, lower))
        nodes = self.nodes
        high, low = nodes.highest(upper.table), nodes.lowest(upper.table)
        middle, half = high / 2 + low / 2, high / 2 - low / 2
        width = half.sum(axis=1)
        centre = upper.constant + middle.sum(axis=1)
        top = centre + width
        if lower.table is upper.table:
            bottom = lower.constant - upper.constant + centre - width
            own = np.abs(upper.constant) + (np.abs(middle) + half).sum(axis=1)
        else:
            below, above = nodes.lowest(lower.table), nodes.highest(lower.table)
            bottom = lower.constant + below.sum(axis=1)
            own = np.maximum(
                np.abs(upper.constant) + (np.abs(middle) + half).sum(axis=1),
                np.abs(lower.constant) + np.maximum(np.abs(below), np.abs(above)).sum(axis=1),
            )
        # These ends were summed in float64, too.
        room = self.slack * own
        top, bottom = top + room, bottom - room
        known = len(self.tops) > len(self.widths)
        if known:
            top, bottom = np.fmin(top, self.tops[-1]), np.fmax(bottom, self.bottoms[-1])
            self.tops[-1], self.bottoms[-1] = top, bottom
        else:
            self.tops.append(top)
            self.bottoms.append(bottom)
        self.widths.append(nodes.widths(upper.table))
        share = half / np.where(width > 0, width, 1.0)[:, None]
        share = np.where((width > 0)[:, None], share, 1.0 / max(nodes.blocks, 1))
        shift = share * centre[:, None] - middle
        table = np.maximum(upper.table + nodes.at_nodes(shift), 0.0)
        constant = np.zeros_like(centre)
        if nodes.blocks == 0:
            constant = np.maximum(centre, 0.0)
        mean = lower.constant + nodes.mean(lower.table)
        keep = np.where(top <= 0, 0.0, np.where((bottom >= 0) | (mean > 0), 1.0, 0.0))
        if known:
            # The ends known from affine forms may be tighter than the tables: then a line is better than Jensen's.
            bends, slope, lift = line_over(top, bottom)
            slope = np.where(bends, slope, keep)
            line = slope * upper.constant + lift
            at_mean = line + slope * nodes.mean(upper.table)
            straight = (at_mean < nodes.mean(table)) | ~bends
            table = np.where(straight[:, None], slope[:, None] * upper.table, table)
            constant = np.where(straight, line, constant)
            own = np.where(straight, own + np.abs(line), own)
        self.sizes.append(own)
        return Sums(constant, table), Sums(keep * lower.constant, keep[:, None] * lower.table)

    def _layer(self, i: int, raised: Sums, lowered: Sums) -> tuple[Sums, Sums]:
        """Bounds of W h + b: the sum and the difference of both bounds need one product each."""
        layer = self.weights[i - 1]
        weight, size = layer.weight, np.abs(layer.weight)
        both = product(weight, raised.table + lowered.table)
        apart = product(size, raised.table - lowered.table)
        both_c = product(weight, raised.constant + lowered.constant)
        apart_c = product(size, raised.constant - lowered.constant)
        reach = np.maximum(self.tops[-1], 0.0)
        weight_size = np.abs(layer.weight_size)
        executed = product(weight_size, reach) + layer.bias_size
        sizes = self.sizes[-1] + self._affine_size if self.affine else self.sizes[-1]
        own = product(weight_size, 4 * sizes + reach) + layer.bias_size
        error = self._error(i, executed, own, reach.sum(axis=0))
        bias = layer.bias
        if len(self.tops) < i + 1 and self.affine and i < len(self.arrays.layers) - 1:
            self._affine_ends(i, error)
        upper = Sums((both_c + apart_c) / 2 + bias + error, (both + apart) / 2)
        lower = Sums((both_c - apart_c) / 2 + bias - error, (both - apart) / 2)
        return upper, lower

    # --- affine forms: z = terms·u + middle ± Σ_j |spread_j|·radius_j, lines above and below a relu being parallel ---

    def _affine_forms(self, i: int) -> None:
        """Take relu of the affine forms of layer i − 1 and send them through layer i."""
        layer = self.weights[i - 1]
        top, bottom = self.tops[-1], self.bottoms[-1]
        _, slope, lift = line_over(top, bottom)
        if i == 1:
            self._spreads: list[tuple[np.ndarray, np.ndarray]] = []
            self._affine_error, self._affine_size = self.errors[0] + self.pad, self.sizes[0]
        self._terms = product(layer.weight, slope[:, None] * self._terms)
        self._middle = product(layer.weight, slope * self._middle + lift / 2) + layer.bias
        spreads = []
        for matrix, radius in self._spreads:
            moved = slope[:, None] * (matrix if matrix.ndim == 3 else matrix[:, :, None])
            spreads.append((product(layer.weight, moved), radius))
        # Each layer's own rounding is one more free term of its sums.
        spreads.append((layer.weight, slope * self._affine_error + lift / 2))
        self._spreads = spreads

    def _affine_ends(self, i: int, error: np.ndarray) -> None:
        """What the affine forms say about layer i."""
        highs, lows = self.nodes.ends_of_terms(self._terms)
        high, low = highs.sum(axis=1), lows.sum(axis=1)
        spread = np.zeros_like(high)
        for matrix, radius in self._spreads:
            if matrix.ndim == 2:
                spread = spread + np.abs(matrix) @ radius
            else:
                spread = spread + np.einsum("jki,ki->ji", np.abs(matrix), radius)
        self._affine_size = np.maximum(np.abs(highs), np.abs(lows)).sum(axis=1) + np.abs(self._middle) + spread
        error = error + self.slack * self._affine_size
        self.tops.append(self._middle + high + spread + error)
        self.bottoms.append(self._middle + low - spread - error)
        self._affine_error = error

    # --- backwards ---

    def _better(self, upper: Sums, lower: Sums, above: Sums, below: Sums) -> tuple[Sums, Sums]:
        """Of two bounds, the one that is tighter on average, neuron by neuron."""
        nodes = self.nodes
        falls = above.constant + nodes.mean(above.table) < upper.constant + nodes.mean(upper.table)
        rises = below.constant + nodes.mean(below.table) > lower.constant + nodes.mean(lower.table)
        for sums, ends, extreme, tighter in (
            (above, self.tops, nodes.highest, np.fmin),
            (below, self.bottoms, nodes.lowest, np.fmax),
        ):
            reach = sums.constant + extreme(sums.table).sum(axis=1)
            room = self.slack * (np.abs(sums.constant) + np.abs(sums.table).sum(axis=1))
            reach = reach + room if ends is self.tops else reach - room
            if len(ends) > len(self.widths):
                ends[-1] = tighter(ends[-1], reach)
            else:
                ends.append(reach)
        upper = Sums(
            np.where(falls, above.constant, upper.constant), np.where(falls[:, None], above.table, upper.table)
        )
        lower = Sums(
            np.where(rises, below.constant, lower.constant), np.where(rises[:, None], below.table, lower.table)
        )
        return upper, lower

    def _substituted(self, i: int, raised: Sums, lowered: Sums) -> tuple[Sums, Sums]:
        """Upper and lower bounds of layer i's sums: lines down to the first layer, there Jensen's bound from above."""
        above = self._backward(i, -1.0, raised, lowered)
        return Sums(-above.constant, -above.table), self._backward(i, 1.0, raised, lowered)

    def _backward(self, i: int, sign: float, raised: Sums, lowered: Sums) -> Sums:
        """A lower bound of sign·z for the sums z of layer i."""
        layer, items = self.weights[i - 1], self.views * self.boxes
        weight = layer.weight if layer.weight.ndim == 3 else layer.weight[:, :, None]
        rows = sign * np.broadcast_to(weight, (*weight.shape[:2], items))  # [sums, neurons, items]
        constant = sign * layer.bias - self.errors[i]
        for j in reversed(range(1, i)):
            top, bottom, own = self.tops[j], self.bottoms[j], self.sizes[j]
            bends, slope, lift = line_over(top, bottom)
            flat = np.where(bends, top > -bottom, slope)
            up, down = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
            constant = constant + (down * lift).sum(axis=1) - self.slack * ((up - down) * (own + lift)).sum(axis=1)
            rows = up * flat + down * slope
            constant = constant - (np.abs(rows) * (self.errors[j] * (1 + self.slack))).sum(axis=1)
            constant = constant + (rows * self.weights[j - 1].bias).sum(axis=1)
            rows = self.weights[j - 1].back(rows)
        up, down = np.maximum(rows, 0.0), np.minimum(rows, 0.0)
        constant = constant + (up * lowered.constant + down * raised.constant).sum(axis=1)
        constant = constant - self.slack * (((up - down) * self.sizes[0]).sum(axis=1) + np.abs(constant)) - FLOOR
        table = np.einsum("pki,kqi->pqi", up, lowered.table) + np.einsum("pki,kqi->pqi", down, raised.table)
        return Sums(constant, table)

    # --- what else ---

    def _merit(self) -> np.ndarray:
        """For each variable: the widths it gives to sums that bend, weighed by what they do to the outputs."""
        last = self.weights[-1].weight
        rows = last[0] if len(last) == 1 else np.abs(last).sum(axis=0)
        rows = rows if rows.ndim == 2 else rows[:, None]
        total = np.zeros((self.variables.count, self.views * self.boxes))
        for i in reversed(range(len(self.widths))):
            bends, slope, _ = line_over(self.tops[i], self.bottoms[i])
            total += np.einsum("ki,kvi->vi", np.abs(rows) * bends, self.widths[i])
            if i:
                rows = self.weights[i - 1].back(rows * slope)
        return np.nan_to_num(total).reshape(self.variables.count, self.views, self.boxes).sum(axis=1)

    def _fewest(self, alive: list[np.ndarray]) -> np.ndarray:
        """How many sums tell the outputs, in each box: of a single neuron of a layer, if no other is alive in it."""
        low = [self.picked.may_be_active(i, -bottoms) for i, bottoms in enumerate(self.bottoms)]
        bends = [(one & other).sum(axis=0) for one, other in zip(alive, low, strict=True)]
        counts = [part.sum(axis=0) for part in alive]
        few = fewest(counts, bends, len(self.arrays.layers[-1].bias))[0]
        return np.where(bottleneck(counts) > 0, np.minimum(few, 1), few)

    def _same(self, alive: list[np.ndarray], fine: np.ndarray) -> np.ndarray:
        """Whether what tells the views apart reaches dead neurons only. The argument is that of `backward`."""
        differs = np.repeat(self.arrays.reads[0][:, None], self.boxes, axis=1)
        for active, reads in zip(alive, self.arrays.reads[1:], strict=True):
            differs = (reads.astype(np.float32) @ (differs & active).astype(np.float32)) > 0
        return np.asarray(~differs.any(axis=0) & fine)
