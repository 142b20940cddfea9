"""Between which linear functions of u do the outputs lie? L(u) ≤ f(A_i u + a_i) ≤ U(u) on many boxes and views at once.

`backward` holds the mathematics and why it is safe in floating point; this module prepares the arrays and runs it, with
NumPy at once or, when there is enough to do, compiled by JAX in float64.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.models.network import Network, decisions
from bornfair.twins.relation import Relation
from bornfair.verification import backward
from bornfair.verification.backward import Affine, Arrays, Findings, Lines, Shape
from bornfair.verification.intervals import EXECUTIONS, OWN_UNIT, sigmoid
from bornfair.verification.structural import distinct_matrices, not_finite, radii, require_fit
from bornfair.verification.verdict import Arithmetic

NUMBERS = {True: 2**22, False: 2**17}  # per array, compiled or not: what fits the caches, where NumPy passes many times

LEAST_COMPILED = 64  # boxes


@dataclass(frozen=True, eq=False)
class LinearBounds:
    """A network and the views of a relation, ready to be bounded on sub-boxes of the free space.

    A box is a pair of rows low, high of the free vector; in one-hot groups `high` is 1 for the categories that are
    still allowed. Bounds for "float32" hold in real arithmetic too: it is the execution that makes no error.
    Compiling takes seconds; `compiled` is for searches of minutes.
    """

    network: Network
    relation: Relation
    compiled: bool = False

    def __post_init__(self) -> None:
        require_fit(self.network, self.relation)

    @functools.cached_property
    def flaw(self) -> str | None:
        """Why nothing can be said about this network, if so."""
        return not_finite(self.network, self.relation)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Classes (b, a), a < b, in the order in which differences f_b − f_a are bounded."""
        outputs = self.network.outputs
        return tuple((b, a) for b in range(outputs) for a in range(b)) if outputs > 1 else ((1, 0),)

    def lines(self, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "float32") -> Lines:
        """Lower and upper lines of every view on every box, and their extremes."""
        return Lines(*self._run("lines", low, high, arithmetic))

    def judge(self, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic = "float32") -> Findings:
        """Which boxes are fair, and where to cut the others."""
        return Findings(*self._run("judge", low, high, arithmetic))

    def points(self, free: np.ndarray, arithmetic: Arithmetic = "float32") -> tuple[np.ndarray, np.ndarray]:
        """For single vectors u: arrays `fair` [rows] (proven) and `classes` [rows, views], the likely decisions."""
        fair, classes = self._run("points", free, free, arithmetic)
        return fair, classes

    def scores(self, free: np.ndarray) -> np.ndarray:
        """Outputs [rows, views, outputs] in plain float64: to find suspects and to estimate, never to prove."""
        found = []
        with np.errstate(all="ignore"):
            for view in self.relation.views:
                values = view(free)
                for i, layer in enumerate(self.network.layers):
                    values = _activation(self.network.activation, values) if i else values
                    values = values @ layer.weight.T.astype(np.float64) + layer.bias
                found.append(values)
        return np.stack(found, axis=1)

    def guess(self, free: np.ndarray) -> np.ndarray:
        """The likely decisions [rows, views]."""
        return decisions(self.scores(free))

    def _run(self, kind: str, low: np.ndarray, high: np.ndarray, arithmetic: Arithmetic) -> list[np.ndarray]:
        import jax
        import jax.numpy as jnp

        groups = tuple((group.start, group.stop) for group in self.relation.free.groups)
        # Few boxes, and points, come in all numbers: compiling for each would take longer than it saves.
        compiled = self.compiled and kind != "points" and len(low) >= LEAST_COMPILED
        xp = jnp if compiled else np
        shape = Shape(xp, self.network.widths, self.network.activation, groups, self.pairs)
        arrays = self._float32 if arithmetic == "float32" else self._real
        found = []
        for start, stop in self._parts(kind, len(low), compiled):
            part = [np.asarray(end[start:stop], np.float64) for end in (low, high)]
            if compiled:
                # Padded to a power of two, so that few shapes are compiled.
                padded = max(1 << (stop - start - 1).bit_length(), 4 * LEAST_COMPILED)
                rows = np.minimum(np.arange(padded), stop - start - 1)
                with jax.enable_x64(True):
                    result = _compiled(shape, kind)(arrays, *(end[rows] for end in part))
                    found.append([np.asarray(array)[: stop - start] for array in result])
            else:
                with np.errstate(all="ignore"):
                    found.append(list(getattr(backward, kind)(shape, arrays, *part)))
        return [np.concatenate(group) for group in zip(*found, strict=True)]

    def _parts(self, kind: str, count: int, compiled: bool) -> list[tuple[int, int]]:
        """Groups of boxes that keep memory small."""
        widths = self.network.widths
        per_row = max(widths) if kind == "points" else 2 * max(widths[1:]) * max(self.relation.free.width, *widths) // 2
        most = max(NUMBERS[compiled] // (per_row * len(self.relation.views)), 1)
        most = 1 << most.bit_length() - 1
        return [(start, min(start + most, count)) for start in range(0, max(count, 1), most)]

    @functools.cached_property
    def _float32(self) -> Arrays:
        return arrays_of(self, "float32")

    @functools.cached_property
    def _real(self) -> Arrays:
        return arrays_of(self, "real")


def _activation(name: str, values: np.ndarray) -> np.ndarray:
    if name == "relu":
        return np.maximum(values, 0)
    if name == "sigmoid":
        return sigmoid(values)
    return np.tanh(values) if name == "tanh" else backward.gelu(np, values)


@functools.lru_cache(maxsize=64)
def _compiled(shape: Shape, kind: str) -> Any:
    import jax

    return jax.jit(functools.partial(getattr(backward, kind), shape))


def arrays_of(owner: LinearBounds, arithmetic: Arithmetic) -> Arrays:
    execution, free = EXECUTIONS[arithmetic], owner.relation.free
    network, views = owner.network, owner.relation.views
    matrices = [view.matrix for view in (views if len(distinct_matrices(views)) > 1 else views[:1])]
    offsets, radius = np.stack([view.offset for view in views]), radii(views)
    layers = []
    with np.errstate(all="ignore"):  # what overflows is found out by `backward`
        for i, layer in enumerate(network.layers):
            weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
            weight_size, bias_size = np.abs(weight), np.abs(bias)
            if i == len(network.layers) - 1 and network.outputs > 1:
                # Both outputs are executed, so their sizes, and with them the rounding errors, add up.
                b, a = np.array(owner.pairs).T
                weight, bias = weight[b] - weight[a], bias[b] - bias[a]
                weight_size, bias_size = weight_size[b] + weight_size[a], bias_size[b] + bias_size[a]
            reach = weight_size.sum(axis=1)
            if i == 0:
                weight, bias = np.stack([weight @ m for m in matrices]), offsets @ weight.T + bias
                bias_size = (np.abs(offsets) + radius) @ weight_size.T + bias_size
                spread = radius @ weight_size.T * (1 + 2.0**-40)
                weight_size = np.stack([weight_size @ np.abs(m) for m in matrices])
            gamma = execution.gamma(layer.weight.shape[1] + 4)
            layers.append(Affine(weight, bias, weight_size, bias_size, reach, gamma))
        furthest = np.maximum(np.abs(free.low), np.abs(free.high))
        inputs = np.array([(np.abs(view.matrix) @ furthest + np.abs(view.offset)).sum() for view in views])
        inputs = inputs + radius.sum(axis=1)
    single = np.ones(free.width, bool)
    for group in free.groups:
        single[group] = False
    reads = [(network.layers[0].weight[:, _differing(owner.relation)] != 0).any(axis=1)]
    reads += [layer.weight != 0 for layer in network.layers[1:]]
    return Arrays(
        layers, reads, inputs, np.where(single, 4 * OWN_UNIT * furthest, 0.0), spread, execution.floor,
        min(execution.largest, backward.LARGEST), execution.tanh, execution.gelu, owner.flaw is None,
    )  # fmt: skip


def _differing(relation: Relation) -> np.ndarray:
    """Which inputs are not the same function of u in all views."""
    first = relation.views[0]
    differs = np.asarray((radii(relation.views) > 0).any(axis=0))
    for view in relation.views[1:]:
        differs |= view.offset != first.offset
        if view.matrix is not first.matrix:
            differs |= (view.matrix != first.matrix).any(axis=1)
    return differs
