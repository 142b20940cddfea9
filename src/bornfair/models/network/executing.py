"""How are the outputs of a network computed? onnxruntime runs its layers, in one thread of this process.

A forked process makes its own sessions. Fixed batches of `BLOCK` rows keep a row's score independent of other rows.
"""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from bornfair.models.network.network import Layer, Network

BLOCK = 64  # the number of rows in a call is a multiple of it
TOGETHER = 2**19  # numbers of the widest layer that are computed in one call: they fit into the processor's cache
NEURONS_OF_PIECE = 8  # on average, or so many small products would take longer than one large one
OPSET, IR = 18, 9

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


def outputs_of(network: Network, rows: np.ndarray) -> np.ndarray:
    """The outputs [rows, outputs] for encoded rows, in float32."""
    parts = [np.zeros((0, network.outputs), np.float32)]
    together = max(TOGETHER // max(network.widths) // BLOCK, 1) * BLOCK
    for start in range(0, len(rows), together):
        some = np.ascontiguousarray(rows[start : start + together])
        given = some
        if len(some) % BLOCK:
            given = np.zeros((-(-len(some) // BLOCK) * BLOCK, rows.shape[1]), np.float32)
            given[: len(some)] = some
        # Infinity times a weight of 0 is NaN, which the session that skips these products would not see.
        session = _session(network) if np.isfinite(some).all() else _whole_session(network)
        parts.append(session.run(None, {"rows": given})[0][: len(some)])
    return np.concatenate(parts)


def _made(network: Network, *, whole: bool = False) -> Any:
    """A session for the network. Unless `whole`, a first layer of bins is computed without the weights that are 0.

    Both give the same bits for finite rows: adding 0 changes no sum.
    """
    from onnx import TensorProto, helper, numpy_helper

    from bornfair.models.onnx_child import session_of

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
