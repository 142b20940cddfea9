"""The writing of ONNX graphs: nodes and constants with unique names, and the finished file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair import __version__
from bornfair.core.errors import InputError, shown
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value

if TYPE_CHECKING:
    import onnx

FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # element types of ONNX


def input_type(feature: Feature, *, whole: bool = False) -> int:
    """The ONNX element type of a raw column; numbers may come as whole ones."""
    if feature.kind == "boolean":
        return BOOL
    if isinstance(feature, NUMERIC):
        return INT64 if whole else DOUBLE
    return INT64 if all(type(c) is int for c in feature.categories) and not feature.missing else STRING


def served_classes(domain: Domain) -> np.ndarray:
    """What the graph calls the classes, in order: texts, unless all of them are of one other kind."""
    label = domain.label
    values = list(label.classes) if label is not None else list(range(max(domain.outputs, 2)))
    if any(all(type(value) is kind for value in values) for kind in (bool, int, float)):
        return np.array(values)
    return np.array(as_text(values, "label"), dtype=object)


def as_text(values: Sequence[Value], name: str) -> list[str]:
    """Categories or classes of mixed kinds as the texts the graph compares."""
    texts = [str(value) for value in values]
    if len(set(texts)) < len(texts):
        twice = sorted({text for text in texts if texts.count(text) > 1})
        raise InputError(f"'{name}' has two values that read the same as text, {shown(twice)}; ONNX needs them apart.")
    return texts


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

    def index(self, scores: str, outputs: int, limit: str) -> str:
        """Which class is decided: of one output the last if it is above the limit, else the first largest."""
        if outputs > 1:
            return self.node("ArgMax", [scores], "class", axis=1, keepdims=0)
        yes = self.node("Cast", [self.node("Greater", [scores, limit], "yes")], "yes 0/1", to=INT64)
        return self.node("Squeeze", [yes, self.axis()], "class")

    def label(self, index: str) -> str:
        return self.node("Gather", [self.constant(served_classes(self.domain), "classes"), index], "label", axis=0)

    def fresh(self, name: str) -> str:
        """A name that no column and no other value has."""
        found, count = name, 1
        while found in self.taken or (self.prefix and found.startswith(self.prefix)):
            count += 1
            found = f"{name} {count}"
        self.taken.add(found)
        return found

    def graph(self, label: str, shares: str, classes: int, kind: Callable[[Feature], int]) -> onnx.GraphProto:
        """The nodes as a graph with the declared features for inputs, and label and probabilities for outputs."""
        declare = self.helper.make_tensor_value_info
        written = self.helper.np_dtype_to_tensor_dtype(served_classes(self.domain).dtype)
        outputs = [declare(label, written, ["rows"]), declare(shares, FLOAT, ["rows", classes])]
        inputs = [declare(f.name, kind(f), ["rows", 1]) for f in self.declared]
        return self.helper.make_graph(self.nodes, "bornfair", inputs, outputs, self.constants)

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
