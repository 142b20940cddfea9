"""The writing of ONNX graphs: nodes and constants with unique names, and the finished file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair import __version__
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain

if TYPE_CHECKING:
    import onnx


class GraphDraft:
    """Nodes and constants in the making; names that begin with `prefix` belong to somebody else."""

    prefix = ""

    def __init__(self, domain: Domain, sensitive: bool) -> None:
        from onnx import helper, numpy_helper

        self.domain, self.helper, self.numpy_helper = domain, helper, numpy_helper
        self.declared = [f for f in domain.features if sensitive or f.name not in domain.sensitive]
        if any(not feature.name for feature in self.declared):
            raise InputError("a column has no name (''), which ONNX cannot express; give it one.")
        self.taken = {feature.name for feature in self.declared}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, operator: str, inputs: list[str], name: str, *, domain: str = "", **attributes: Any) -> str:
        output = self.fresh(name)
        self.nodes.append(
            self.helper.make_node(operator, inputs, [output], name=output, domain=domain or None, **attributes)
        )
        return output

    def constant(self, array: np.ndarray, name: str) -> str:
        fresh = self.fresh(name)
        self.constants.append(self.numpy_helper.from_array(array, fresh))
        return fresh

    def row(self, numbers: list[float], name: str) -> str:
        return self.constant(np.array([numbers], np.float64), name)

    def axis(self) -> str:
        """Along the columns."""
        return self.constant(np.array([1], np.int64), "axis")

    def probabilities(self, logits: str, outputs: int) -> str:
        if outputs > 1:
            return self.node("Softmax", [logits], "probabilities", axis=1)
        both = self.node("Concat", [self.node("Neg", [logits], "against"), logits], "odds", axis=1)
        return self.node("Sigmoid", [both], "probabilities")

    def fresh(self, name: str) -> str:
        """A name that no column and no other value has."""
        found, count = name, 1
        while found in self.taken or (self.prefix and found.startswith(self.prefix)):
            count += 1
            found = f"{name} {count}"
        self.taken.add(found)
        return found

    def finished(
        self,
        graph: onnx.GraphProto,
        versions: Mapping[str, int],
        ir_version: int,
        told: Mapping[str, Any],
        functions: Sequence[onnx.FunctionProto] = (),
    ) -> bytes:
        """The file of a graph, with what is told beside it: a name, and what stands there as JSON."""
        from onnx import checker

        made = self.helper.make_model(
            graph,
            ir_version=ir_version,
            producer_name="bornfair",
            producer_version=__version__,
            opset_imports=[self.helper.make_opsetid(domain, version) for domain, version in versions.items()],
            functions=list(functions),
        )
        self.helper.set_model_props(made, {name: json.dumps(facts, ensure_ascii=False) for name, facts in told.items()})
        checker.check_model(made)
        return made.SerializeToString(deterministic=True)
