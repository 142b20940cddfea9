"""How are the outputs of a network computed? onnxruntime runs its layers, in one thread of this process.

A forked process makes its own sessions. Fixed batches of `BLOCK` rows keep a row's score independent of other rows.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

if TYPE_CHECKING:
    from bornfair.models.network import Network

BLOCK = 64  # the number of rows in a call is a multiple of it
TOGETHER = 2**21  # numbers of the widest layer that are computed in one call
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
    if len(rows):
        session = _session(network)
        together = max(TOGETHER // max(network.widths) // BLOCK, 1) * BLOCK
        for start in range(0, len(rows), together):
            some = rows[start : start + together]
            padded = np.zeros((-(-len(some) // BLOCK) * BLOCK, rows.shape[1]), np.float32)
            padded[: len(some)] = some
            parts.append(session.run(None, {"rows": padded})[0][: len(some)])
    return np.concatenate(parts)


def _made(network: Network) -> Any:
    from onnx import TensorProto, helper, numpy_helper

    from bornfair.models.importers.onnx_child import session_of

    nodes, constants, value = [], [], "rows"
    for i, layer in enumerate(network.layers):
        if i:
            nodes.append(helper.make_node(network.function.operator, [value], [f"activation {i}"]))
            value = f"activation {i}"
        names = [f"weight {i}", f"bias {i}"]
        arrays = zip((layer.weight, layer.bias), names, strict=True)
        constants += [numpy_helper.from_array(array, name) for array, name in arrays]
        nodes.append(helper.make_node("Gemm", [value, *names], [f"layer {i}"], transB=1))
        value = f"layer {i}"
    given, found = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["count", width])
        for name, width in (("rows", network.widths[0]), (value, network.outputs))
    )
    graph = helper.make_graph(nodes, "network", [given], [found], constants)
    versions = [helper.make_opsetid("", max(OPSET, network.function.opset))]
    return session_of(helper.make_model(graph, opset_imports=versions, ir_version=IR).SerializeToString())


_session: PerProcess[Network, Any] = PerProcess(_made)
