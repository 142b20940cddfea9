"""Data flow in ONNX graphs: the inputs that can reach the outputs, whatever the operators compute.

The results of a node depend on its inputs only; a body (of If, Loop, Scan) also reads names from around it, a function
only its arguments. So an output to which no path leads from an input is the same whatever that input is, bit
for bit, as executed. Operators that draw at random are refused, and so is whatever could hide a path: names that are
defined twice, hide others or are not made yet. `bornfair.proof.checker` follows the wires again, in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

LATEST = {"": 28, "ai.onnx.ml": 5, "com.microsoft": 1}  # versions of operators that were looked through for chance
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
CONTRIBUTED = {  # operators of onnxruntime's own that compute from their inputs and nothing else
    "BiasGelu", "BiasSoftmax", "CDist", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu", "Inverse",
    "MurmurHash3", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QuickGelu", "SkipLayerNormalization", "Trilu",
    "Unique",
}  # fmt: skip
HARMLESS = {  # whether these run depends on types and shapes, never on values: their results may stay unused
    "Abs", "Add", "And", "Concat", "Equal", "Exp", "Gemm", "Greater", "Identity", "IsNaN", "Less", "MatMul", "Mul",
    "Neg", "Not", "Or", "Relu", "Shape", "Sigmoid", "Sign", "Size", "Softmax", "Sub", "Tanh",
}  # fmt: skip
Merge = Callable[[Any], bool]


class Unclear(Exception):
    """Whether there is a path cannot be told, or there is one; the text says why."""


def follow(model: Any, sources: Mapping[str, str], merges: Merge = lambda node: False) -> None:
    """Show that no output of a graph (`onnx.ModelProto`) depends on these inputs.

    Args:
        model: the graph, with its functions.
        sources: input → what messages call it.
        merges: whether a node that reads sources makes the same of all values that twins may have.

    Raises:
        Unclear: if a path leads to an output, or the graph could hide one.

    >>> from onnx import parser
    >>> text = '''<ir_version: 8, opset_import: ["" : 18]>
    ... g (float[N, 1] age, float[N, 1] sex) => (float[N, 1] y) { y = Relu(age) }'''
    >>> follow(parser.parse_model(text), {"sex": "sex"})
    >>> follow(parser.parse_model(text.replace("Relu(age)", "Add(age, sex)")), {"sex": "sex"})
    Traceback (most recent call last):
    bornfair.models.graph.wiring.Unclear: output 'y' depends on 'sex'
    """
    reader = _Reader(model)
    reached = dict(sources)
    for node, reads in reader.top():
        found = sorted(reads & reached.keys())
        if not found or merges(node):
            continue
        why = reached[found[0]]
        plain = not any(True for _ in _bodies(node)) and node.domain in ("", "ai.onnx") and node.op_type in HARMLESS
        reached |= dict.fromkeys(filter(None, node.output), why)
        if not plain and not any(output.name in reached for output in model.graph.output):
            reader.stops.append((node, why))
    for output in model.graph.output:
        if output.name in reached:
            raise Unclear(f"output '{output.name[:40]}' depends on '{reached[output.name]}'")
    for node, why in reader.stops:
        raise Unclear(f"{node.op_type} '{node.output[0][:40]}' reads '{why}' for nothing, but may stop the run")


def _bodies(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def reads_of(node: Any) -> set[str]:
    """All names that a node and its bodies read; names that a body makes itself may be among them."""
    found = set(filter(None, node.input))
    for body in _bodies(node):
        found.update(output.name for output in body.output)
        for inner in body.node:
            found |= reads_of(inner)
    return found


class _Reader:
    """Walks a graph in order, and refuses what could hide a path."""

    def __init__(self, model: Any) -> None:
        self.graph, self.stops = model.graph, list[tuple[Any, str]]()
        self.versions = _versions(model.opset_import)
        self.functions = {(f.domain, f.name, f.overload) for f in model.functions}
        if len(self.functions) < len(model.functions):
            raise Unclear("a function is defined twice")
        for function in model.functions:
            self._function(function)

    def top(self) -> Iterator[tuple[Any, set[str]]]:
        """The nodes of the graph, each with the names that it and its bodies read."""
        made = {name for node in self.graph.node for name in node.output if name}
        outputs = [output.name for output in self.graph.output]
        if not outputs or len(set(outputs)) < len(outputs) or not set(outputs) <= made:
            raise Unclear("an output is listed twice, or is made by no node")
        yield from self._nodes(self.graph, (), frozenset(), False)

    def _nodes(
        self, graph: Any, scopes: tuple[set[str], ...], taken: frozenset[str], inside: bool
    ) -> Iterator[tuple[Any, set[str]]]:
        given = [item.name for item in graph.input] + [tensor.name for tensor in graph.initializer]
        given += [tensor.values.name for tensor in graph.sparse_initializer]
        names = [*given, *(name for node in graph.node for name in node.output if name)]
        if len(set(names)) < len(names) or "" in given:
            raise Unclear("the graph defines a name twice, or an input that a caller may replace is also a constant")
        if taken.intersection(names):
            raise Unclear("a name in a body hides one around it")
        own, hidden = set(given), taken.union(names)
        for node in graph.node:
            yield node, self._reads(node, (*scopes, own), hidden, inside)
            own.update(filter(None, node.output))

    def _reads(self, node: Any, scopes: tuple[set[str], ...], taken: frozenset[str], inside: bool) -> set[str]:
        self._operator(node)
        reads = set(filter(None, node.input))
        for attribute in node.attribute:
            if attribute.ref_attr_name and (not inside or attribute.type in (0, 5, 10)):
                raise Unclear("a node refers to attributes of a function that it is not in, or is handed a body")
        for body in _bodies(node):
            made = {name for inner in body.node for name in inner.output if name}
            made |= {item.name for item in body.input} | {tensor.name for tensor in body.initializer}
            made |= {tensor.values.name for tensor in body.sparse_initializer}
            for _, found in self._nodes(body, scopes, taken, inside):
                reads |= found - made
            reads |= {output.name for output in body.output} - made
        for name in reads:
            if not any(name in scope for scope in scopes):
                raise Unclear(f"a node reads '{name[:40]}', which nothing makes before it")
        return reads

    def _operator(self, node: Any) -> None:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type, node.overload) in self.functions:
            if any(True for _ in _bodies(node)):
                raise Unclear(f"function '{node.op_type}' is handed a body")
            return
        known = domain in LATEST and domain in self.versions
        if not known or (domain == "com.microsoft" and node.op_type not in CONTRIBUTED):
            raise Unclear(f"whether operator '{node.op_type}' of '{domain}' is random, or keeps a state, is not known")
        drops = node.op_type == "Dropout" and (self.versions[""] < 7 or (len(node.input) > 2 and node.input[2]))
        if not domain and (node.op_type in RANDOM or drops):
            raise Unclear(f"operator '{node.op_type}' may draw at random")

    def _function(self, function: Any) -> None:
        """A function sees what it is handed and nothing else."""
        if function.domain in ("", "ai.onnx", *LATEST):
            raise Unclear(f"function '{function.name}' takes the place of an operator")
        made = [name for node in function.node for name in node.output if name]
        names = [*function.input, *made]
        if len(set(names)) < len(names) or any(a.HasField("g") or a.graphs for a in function.attribute_proto):
            raise Unclear(f"function '{function.name}' defines a name twice, or has bodies among its attributes")
        around, self.versions = self.versions, _versions(function.opset_import)
        own = set(function.input)
        for node in function.node:
            self._reads(node, (own,), frozenset(names), True)
            own.update(filter(None, node.output))
        if not set(function.output) <= own:
            raise Unclear(f"function '{function.name}' returns what it does not make")
        self.versions = around


def _versions(opsets: Any) -> dict[str, int]:
    found = {"" if item.domain == "ai.onnx" else item.domain: int(item.version) for item in opsets}
    if len(found) < len(opsets):
        raise Unclear("versions of the same operators are named twice")
    for domain, latest in LATEST.items():
        if not 1 <= found.get(domain, 1) <= latest:
            raise Unclear(f"the operators of '{domain or 'ai.onnx'}' are of version {found[domain]}, not known here")
    return found
