"""Networks as plain arrays, run by onnxruntime.

Hidden layers compute activation(W x + b); the last layer is linear. One output is the logit of the positive class
(decision: logit > 0); K outputs are compared by argmax (the first of equal ones wins).
"""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.network.activations import ACTIVATIONS, ActivationFunction
from bornfair.models.network.activations import Activation as Activation
from bornfair.models.onnx_child import session_of

if TYPE_CHECKING:
    import jax

Parameters = Any  # a list of (weight [out, in], bias [out]) pairs of JAX arrays: a pytree

WIDTHS: dict[str, tuple[int, ...]] = {
    "paper": (64, 32, 16, 8, 4),
    "shallow": (16,),
    "deep": (256, 256, 64, 64, 32, 32, 16, 8, 4),
    "large": (2048, 2048, 2048, 4),
}
"""Hidden widths by name: the paper's network, and those of its Figure 5."""

CHUNK = 65_536  # encoded rows held at once where every row has several versions
BLOCK = 64  # the number of rows in a call is a multiple of it, so that a row's score is independent of other rows
TOGETHER = 2**19  # numbers of the widest layer that are computed in one call: they fit into the processor's cache
NEURONS_OF_PIECE = 8  # on average; with fewer, many small products take longer than one large one
OPSET, IR = 18, 9


@dataclass(frozen=True, eq=False)
class Layer:
    """One affine map; arrays are float32 and read-only."""

    weight: np.ndarray  # [outputs, inputs]
    bias: np.ndarray  # [outputs]

    def __post_init__(self) -> None:
        weight = _frozen(self.weight)
        bias = _frozen(self.bias)
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise InputError(
                f"a layer needs weight [outputs, inputs] and bias [outputs], found {weight.shape} and {bias.shape}."
            )
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", bias)


@dataclass(frozen=True, eq=False)
class Network:
    """A frozen record of layers.

    >>> import numpy as np
    >>> net = Network((Layer(np.eye(2), np.zeros(2)), Layer(np.ones((1, 2)), np.zeros(1))), "relu")
    >>> net.widths, net.decide(np.array([[1.0, -3.0], [-1.0, -1.0]])).tolist()
    ((2, 2, 1), [1, 0])
    """

    layers: tuple[Layer, ...]
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("a network needs at least one layer.")
        if self.activation not in ACTIVATIONS:
            raise InputError(f"activation {self.activation!r} is not known; use one of {shown(ACTIVATIONS)}.")
        for i, (first, second) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            if first.weight.shape[0] != second.weight.shape[1]:
                raise InputError(
                    f"layer {i} gives {first.weight.shape[0]} values but layer {i + 1} takes {second.weight.shape[1]}."
                )

    @property
    def function(self) -> ActivationFunction:
        """What is known of the activation."""
        return ACTIVATIONS[self.activation]

    @property
    def widths(self) -> tuple[int, ...]:
        """Input width, hidden widths, output width."""
        return (self.layers[0].weight.shape[1], *(layer.weight.shape[0] for layer in self.layers))

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    @property
    def parameters(self) -> int:
        return sum(layer.weight.size + layer.bias.size for layer in self.layers)

    @property
    def broken_layer(self) -> int | None:
        """The first layer that holds NaN or infinity."""
        for i, layer in enumerate(self.layers):
            if not (np.isfinite(layer.weight).all() and np.isfinite(layer.bias).all()):
                return i
        return None

    def sensitive_weights(self, free_width: int) -> np.ndarray:
        """V: the part of the first layer that reads the sensitive codes (the columns behind the free ones)."""
        return self.layers[0].weight[:, free_width:]

    def ignores_sensitive(self, free_width: int) -> bool:
        """Whether every weight that reads a sensitive code is exactly 0."""
        return not self.sensitive_weights(free_width).any()

    def scores(self, inputs: np.ndarray) -> np.ndarray:
        """The outputs [rows, outputs] for encoded inputs, in float32.

        A row's score does not depend on the other rows, in any bit. JAX is not needed, so a forked process can call it.
        """
        rows = np.asarray(inputs, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.widths[0]:
            raise InputError(
                f"the network takes rows of {self.widths[0]} numbers, found an array of shape {rows.shape}."
            )
        parts = [np.zeros((0, self.outputs), np.float32)]
        together = max(TOGETHER // max(self.widths) // BLOCK, 1) * BLOCK
        for start in range(0, len(rows), together):
            some = np.ascontiguousarray(rows[start : start + together])
            padded = np.pad(some, ((0, -len(some) % BLOCK), (0, 0))) if len(some) % BLOCK else some
            # Infinity times a weight of 0 is NaN, which the session that skips these products would not see.
            session = _session(self) if np.isfinite(some).all() else _whole_session(self)
            parts.append(session.run(None, {"rows": padded})[0][: len(some)])
        return np.concatenate(parts)

    def decide(self, inputs: np.ndarray) -> np.ndarray:
        """The class index of each row."""
        return decisions(self.scores(inputs))

    @functools.cached_property
    def wide(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and biases in float64."""
        return [(layer.weight.astype(np.float64), layer.bias.astype(np.float64)) for layer in self.layers]

    def estimated(self, inputs: np.ndarray) -> np.ndarray:
        """The outputs in plain float64, by NumPy: to find suspects and to guide, never to prove or to decide."""
        weight, bias = self.wide[0]
        return self.estimated_from_first(inputs @ weight.T + bias)

    def estimated_from_first(self, sums: np.ndarray, slopes: list[np.ndarray] | None = None) -> np.ndarray:
        """The same from the first layer's sums on; the slopes of all activations are added to `slopes`, if given."""
        for weight, bias in self.wide[1:]:
            values = self.function.value(np, sums)
            if slopes is not None:
                slopes.append(self.function.slope(sums, values))
            sums = values @ weight.T + bias
        return sums

    def to_jax(self) -> Parameters:
        import jax.numpy as jnp

        return [(jnp.asarray(layer.weight), jnp.asarray(layer.bias)) for layer in self.layers]

    @staticmethod
    def from_jax(parameters: Parameters, activation: Activation) -> Network:
        return Network(tuple(Layer(np.asarray(w), np.asarray(b)) for w, b in parameters), activation)

    def tensors(self) -> dict[str, np.ndarray]:
        """All arrays by name."""
        named = {}
        for i, layer in enumerate(self.layers):
            named[f"layer{i}.weight"] = layer.weight
            named[f"layer{i}.bias"] = layer.bias
        return named


def decisions(scores: np.ndarray) -> np.ndarray:
    """Class indices from outputs."""
    if scores.shape[-1] == 1:
        return (scores[..., 0] > 0).astype(np.int64)
    return np.argmax(scores, axis=-1)


def hidden_widths(hidden: str | Sequence[int]) -> tuple[int, ...]:
    """Widths from a preset name or a list of numbers."""
    if isinstance(hidden, str):
        if hidden not in WIDTHS:
            raise InputError(
                f"hidden={hidden!r} is not a preset; use one of {shown(WIDTHS)}, or a list of widths such as [64, 32]."
            )
        return WIDTHS[hidden]
    widths = tuple(hidden)
    if not all(isinstance(w, (int, np.integer)) and not isinstance(w, bool) and w > 0 for w in widths):
        raise InputError(f"hidden widths must be whole numbers above 0, found {list(widths)}.")
    return tuple(int(w) for w in widths)


def forward(parameters: Parameters, inputs: jax.Array, activation: Activation) -> jax.Array:
    """The network as a JAX function: [rows, inputs] → [rows, outputs]."""
    weight, bias = parameters[0]
    return forward_from_first(parameters, inputs @ weight.T + bias, activation)


def forward_from_first(parameters: Parameters, first: jax.Array, activation: Activation) -> jax.Array:
    """The rest of the network, from the first layer's pre-activation on."""
    act = ACTIVATIONS[activation].jax
    values = first
    for weight, bias in parameters[1:]:
        values = act(values) @ weight.T + bias
    return values


def _frozen(array: np.ndarray) -> np.ndarray:
    fixed = np.array(array, dtype=np.float32)
    fixed.flags.writeable = False
    return fixed


# --- execution, in one thread of this process ---


Key = TypeVar("Key")
Made = TypeVar("Made")


class PerProcess(Generic[Key, Made]):
    """Objects made once for each key and process. A session of onnxruntime may hang in a process forked later."""

    def __init__(self, make: Callable[[Key], Made]) -> None:
        self._make, self._owner = make, os.getpid()
        self._made: weakref.WeakKeyDictionary[Key, Made] = weakref.WeakKeyDictionary()
        self._inherited: list[object] = []

    def __call__(self, key: Key) -> Made:
        if self._owner != os.getpid():
            self._inherited.append(self._made)  # ending a session of the parent process could hang too
            self._made, self._owner = weakref.WeakKeyDictionary(), os.getpid()
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(key)
        return found


def _made(network: Network, *, whole: bool = False) -> Any:
    """A session for the network. Unless `whole`, a first layer of bins is computed without the weights that are 0.

    Both give the same bits for finite rows: adding 0 changes no sum.
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []
    value = "rows"

    def gemm(given: str, weight: np.ndarray, bias: np.ndarray, found: str) -> None:
        names = [f"weight of {found}", f"bias of {found}"]
        constants.extend(map(numpy_helper.from_array, (weight, bias), names))
        nodes.append(helper.make_node("Gemm", [given, *names], [found], transB=1))

    for i, layer in enumerate(network.layers):
        if i:
            nodes.append(helper.make_node(network.function.operator, [value], [f"activation {i}"]))
            value = f"activation {i}"
        found, pieces = f"layer {i}", [] if i or whole else _pieces(layer)
        if pieces:
            widths = [piece.columns.stop - piece.columns.start for piece in pieces]
            constants.append(numpy_helper.from_array(np.array(widths, np.int64), "widths"))
            names = [f"piece {j}" for j in range(len(pieces))]
            nodes.append(helper.make_node("Split", [value, "widths"], names, axis=1))
            for j, piece in enumerate(pieces):
                if piece.is_read and not piece.copies:
                    gemm(names[j], layer.weight[piece.neurons, piece.columns], layer.bias[piece.neurons], f"sums {j}")
                    names[j] = f"sums {j}"
            joined = [name for name, piece in zip(names, pieces, strict=True) if piece.is_read]
            nodes.append(helper.make_node("Concat", joined, [found], axis=1))
        else:
            gemm(value, layer.weight, layer.bias, found)
        value = found
    given, found = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["count", width])
        for name, width in (("rows", network.widths[0]), (value, network.outputs))
    )
    graph = helper.make_graph(nodes, "network", [given], [found], constants)
    versions = [helper.make_opsetid("", max(OPSET, network.function.opset))]
    return session_of(helper.make_model(graph, opset_imports=versions, ir_version=IR).SerializeToString())


@dataclass(frozen=True)
class _Piece:
    """Columns of the rows, and the neurons of the first layer that read them."""

    columns: slice
    neurons: slice
    copies: bool
    """Whether each neuron is one of these columns: weight 1, bias 0."""

    @property
    def is_read(self) -> bool:
        return self.neurons.stop > self.neurons.start


def _pieces(layer: Layer) -> list[_Piece]:
    """The parts of a first layer in which each neuron reads one column, in the order of the columns, as
    `training.embedding` makes it; none of any other layer.
    """
    read = layer.weight != 0
    column = np.argmax(read, axis=1)
    if (read.sum(axis=1) != 1).any() or (np.diff(column) < 0).any():
        return []
    width = layer.weight.shape[1]
    ends = np.searchsorted(column, np.arange(width + 1))
    one = np.diff(ends) == 1
    copied = np.zeros(width, bool)
    first = ends[:-1][one]
    copied[one] = (layer.weight[first, np.flatnonzero(one)] == 1) & (layer.bias[first] == 0)
    kinds = np.where(copied, -1, np.where(np.diff(ends) == 0, -2, np.arange(width)))
    borders = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), width]
    if NEURONS_OF_PIECE * (len(borders) - 1) > len(column):
        return []
    return [
        _Piece(slice(a, b), slice(int(ends[a]), int(ends[b])), bool(copied[a])) for a, b in itertools.pairwise(borders)
    ]


_session: PerProcess[Network, Any] = PerProcess(_made)
_whole_session: PerProcess[Network, Any] = PerProcess(functools.partial(_made, whole=True))
