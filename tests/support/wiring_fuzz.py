"""Random graphs with bodies and functions, in which no path leads from the sensitive input; then one edge is added.

Whoever follows the wires, the product or the checker, must accept the first graph, and tell of the second just what its
plan tells: a path to an output, or a node that may stop the run, or neither. What is accepted is run by onnxruntime
with other sensitive values now and then, and must give the same bits.

make nightly ONLY=wires COUNT=20000        prints what is wrong, with the number that makes it again
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bornfair.models.graph.model import WiredModel
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, Label, RealFeature
from bornfair.proof import checker
from fuzzing import Summary

DOMAIN = Domain(
    features=(
        RealFeature(name="a", low=-2.0, high=2.0),
        RealFeature(name="b", low=-2.0, high=2.0),
        RealFeature(name="m", low=-1.0, high=3.0),
        CategoricalFeature(name="c", categories=("x", "y", "z")),
        RealFeature(name="s", low=0.0, high=1.0),
    ),
    sensitive=("s",),
    label=Label(name="y", classes=(0, 1)),
).with_twins("c: x<->y, m: -x+2")
UNARY, BINARY = ("Identity", "Neg", "Abs", "Relu", "Tanh", "Floor", "Sigmoid"), ("Add", "Sub", "Mul", "Div", "Max")
HARMLESS = {"Identity", "Neg", "Abs", "Relu", "Tanh", "Sigmoid", "Add", "Sub", "Mul"}
RUN = 25  # of how many graphs one is run


@dataclass
class Plan:
    """One node to be: what it is called in ONNX, what it reads and makes, its bodies by attribute."""

    operator: str
    inputs: list[str]
    output: str
    bodies: dict[str, list[Plan]] = field(default_factory=dict)
    domain: str = ""

    @property
    def own(self) -> set[str]:
        """Names that are made inside of it."""
        inner = {"round", "on", "held"} if self.operator == "Loop" else set()
        names = {f"{name} of {self.output}" for name in inner}
        return names | {node.output for body in self.bodies.values() for node in body}

    @property
    def reads(self) -> set[str]:
        inner = {name for body in self.bodies.values() for node in body for name in node.reads}
        return {*self.inputs} | (inner - self.own)


# --- graphs without a path ---


class Planner:
    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.count = rng, 0

    def graph(self) -> tuple[list[Plan], list[str]]:
        """Nodes, and the names of two outputs."""
        nodes = [
            Plan("orbit", ["c"], "orbit of c"),
            Plan("Cast", ["orbit of c"], "number of c"),
            Plan("mirror", ["m"], "mirrored m"),
            Plan("mirror", ["mirrored m"], "m again"),
            Plan("Min", ["m again", "mirrored m"], "folded m"),
        ]
        known = ["a", "b", "one", "number of c", "folded m"]
        nodes += self.nodes(known, int(self.rng.integers(2, 9)), depth=0)
        if self.rng.random() < 0.5:  # read for nothing
            nodes.append(Plan("Tanh", ["s"], "dead"))
            nodes.append(Plan("Add", ["dead", known[-1]], "dead too"))
        made = [node.output for node in nodes[5:] if not node.output.startswith("dead")]
        first = made[-1]
        return nodes, [first, made[int(self.rng.integers(len(made)))] if len(made) > 1 else first]

    def nodes(self, known: list[str], count: int, depth: int) -> list[Plan]:
        """Nodes that read names that are known, to which theirs are added."""
        found: list[Plan] = []
        for _ in range(count):
            node = self.node(known, depth)
            known.append(node.output)
            found.append(node)
        return found

    def node(self, known: list[str], depth: int) -> Plan:
        self.count += 1
        name, kind = f"v{self.count}", self.rng.random()
        one, other = (known[int(self.rng.integers(len(known)))] for _ in range(2))
        if kind < 0.25 and depth < 3:
            bodies = {
                branch: self.body(known, depth) for branch in ("then_branch", "else_branch")
            }  # fmt: skip
            return Plan("If", [self.flag(one)], name, bodies)
        if kind < 0.35 and depth < 3:
            inside = [*known, f"held of {name}"]
            return Plan("Loop", ["three", "yes", one], name, {"body": self.body(inside, depth)})
        if kind < 0.45:
            return Plan("Blend", [one, other], name, domain="own")
        if kind < 0.7:
            return Plan(str(self.rng.choice(UNARY)), [one], name)
        return Plan(str(self.rng.choice(BINARY)), [one, other], name)

    def body(self, known: list[str], depth: int) -> list[Plan]:
        return self.nodes(list(known), int(self.rng.integers(1, 4)), depth + 1)

    def flag(self, name: str) -> str:
        """What an If asks: a constant, here; that it is made from a value is an edge like another."""
        return "yes" if self.rng.random() < 0.5 else "no"


# --- one edge more ---


def with_edge(nodes: list[Plan], outputs: list[str], rng: np.random.Generator) -> tuple[list[Plan], list[str], str]:
    """The graph with one edge from what is sensitive, or moved by rules, and where it leads."""
    changed, ends = copy.deepcopy(nodes), list(outputs)
    source = str(rng.choice(["s", "s", "s", "m", "apart c"]))
    before = [Plan("table", ["c"], "apart c as text"), Plan("Cast", ["apart c as text"], "apart c")]
    places = [(body, i) for body, i in _places(changed) if body[i].operator not in ("orbit", "mirror", "Cast", "If")]
    places = [(body, i) for body, i in places if body[i].output != "folded m"]
    kind = rng.random()
    if kind < 0.15:
        changed.append(Plan("Add", [ends[0], source], "end"))
        ends[0] = "end"
    elif kind < 0.3 and any(node.operator == "If" for node in changed):
        at = next(i for i, node in enumerate(changed) if node.operator == "If")
        changed[at].inputs = ["asked"]
        changed[at:at] = [Plan("largest", [source], "largest"), Plan("Greater", ["largest", "zero"], "asked")]
    else:
        body, i = places[int(rng.integers(len(places)))]
        node = body[i]
        place = len(node.inputs) - 1  # of a Loop, what it carries
        if kind < 0.6:
            node.inputs[place] = source
        else:
            body.insert(i, Plan("Mul", [node.inputs[place], source], f"edge to {node.output}"))
            node.inputs[place] = f"edge to {node.output}"
    return (before + changed if source == "apart c" else changed), ends, source


def _places(nodes: list[Plan]) -> Iterator[tuple[list[Plan], int]]:
    for i, node in enumerate(nodes):
        yield nodes, i
        for body in node.bodies.values():
            yield from _places(body)


def told(nodes: list[Plan], outputs: list[str]) -> bool:
    """Whether nothing reaches an output, nor a node that may stop the run: by the plan."""
    reached = {"s", "m", "c"}
    for node in nodes:
        if not node.reads & reached or node.operator == "orbit" or node.output == "folded m":
            continue
        if node.operator != "mirror" and (node.bodies or node.domain or node.operator not in HARMLESS):
            return False
        reached.add(node.output)
    return not reached & set(outputs)


# --- as ONNX ---


def written(nodes: list[Plan], outputs: list[str]) -> bytes:
    constants = [
        numpy_helper.from_array(array, name)
        for name, array in {
            "one": np.array([[1.5]]), "yes": np.array(True), "no": np.array(False), "three": np.array(3),
            "zero": np.array(0.0), "total": np.array([[2.0]]),
        }.items()
    ]  # fmt: skip
    kinds = {"c": TensorProto.STRING}
    inputs = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.DOUBLE), ["rows", 1]) for n in DOMAIN.names]
    ends = [helper.make_tensor_value_info(f"out {i}", TensorProto.DOUBLE, None) for i in range(len(outputs))]
    made = [_made(node) for node in nodes]
    made += [helper.make_node("Identity", [name], [f"out {i}"]) for i, name in enumerate(outputs)]
    graph = helper.make_graph(made, "fuzz", inputs, ends, constants)
    blend = helper.make_function(
        "own", "Blend", ["x", "y"], ["z"],
        [helper.make_node("Add", ["x", "y"], ["w"]), helper.make_node("Tanh", ["w"], ["z"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    opsets = [helper.make_opsetid(*pair) for pair in (("", 18), ("ai.onnx.ml", 3), ("own", 1))]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=[blend])
    helper.set_model_props(model, {checker.WIRED: "{}"})
    return model.SerializeToString()


def _made(node: Plan) -> onnx.NodeProto:
    name = node.output
    if node.operator in ("orbit", "table"):
        values = [0, 0, 2] if node.operator == "orbit" else [0, 1, 2]
        return helper.make_node(
            "LabelEncoder", node.inputs, [name], domain="ai.onnx.ml", keys_strings=["x", "y", "z"],
            values_int64s=values, default_int64=3,
        )  # fmt: skip
    if node.operator == "mirror":
        return helper.make_node("Sub", ["total", *node.inputs], [name])
    if node.operator == "Cast":
        return helper.make_node("Cast", node.inputs, [name], to=TensorProto.DOUBLE)
    if node.operator == "largest":
        return helper.make_node("ReduceMax", node.inputs, [name], keepdims=0)
    bodies: dict[str, Any] = {key: _body(node, key, body) for key, body in node.bodies.items()}
    return helper.make_node(node.operator, node.inputs, [name], domain=node.domain or None, **bodies)


def _body(node: Plan, key: str, plans: list[Plan]) -> onnx.GraphProto:
    made, inputs = [_made(plan) for plan in plans], []
    value, name = plans[-1].output, node.output
    outputs = [helper.make_tensor_value_info(value, TensorProto.DOUBLE, None)]
    if node.operator == "Loop":
        inputs = [
            helper.make_tensor_value_info(f"round of {name}", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"on of {name}", TensorProto.BOOL, []),
            helper.make_tensor_value_info(f"held of {name}", TensorProto.DOUBLE, None),
        ]
        made.append(helper.make_node("Identity", [f"on of {name}"], [f"still on of {name}"]))
        outputs.insert(0, helper.make_tensor_value_info(f"still on of {name}", TensorProto.BOOL, []))
    return helper.make_graph(made, f"{key} of {name}", inputs, outputs)


# --- who says what ---


def judged(content: bytes) -> tuple[bool, bool]:
    """Whether the product, and the checker, say that nothing reaches an output."""
    people = checker.Individuals(checker.parse_json(DOMAIN.text().encode(), "domain.json"))
    try:
        proven = checker.prove_wiring(checker.read_wiring(content, people), people) == {"executed"}
    except checker.Rejected:
        proven = False
    return WiredModel(content, DOMAIN).unclear() is None, proven


def same_bits(content: bytes, rng: np.random.Generator) -> bool | None:
    """Whether twins get the same bits from onnxruntime; None if it does not run the graph (of some, it dies)."""
    graph, rows = ForeignGraph(content), 7
    shared = {name: rng.uniform(-2, 2, (rows, 1)) for name in ("a", "b")}
    number = np.round(rng.uniform(-1, 3, (rows, 1)) * 4) / 4
    ways = np.array([["x"], ["y"], ["z"]] * 3, object)[:rows]
    twins = np.array([[{"x": "y", "y": "x"}.get(w, w)] for (w,) in ways.tolist()], object)
    try:
        one = graph.run(shared | {"m": number, "c": ways, "s": rng.uniform(0, 1, (rows, 1))})
        other = graph.run(shared | {"m": 2.0 - number, "c": twins, "s": rng.uniform(0, 1, (rows, 1))})
    except CannotRun:
        return None
    return all(one[name].tobytes() == other[name].tobytes() for name in one)


def run(count: int, seed: int) -> Summary:
    found = Summary()
    for case in range(count):
        rng = np.random.default_rng([seed, case, 18])
        nodes, outputs = Planner(rng).graph()
        edged, ends, source = with_edge(nodes, outputs, rng)
        for what, plan, wanted in (("without a path", nodes, outputs), (f"with an edge from {source}", edged, ends)):
            content, truth = written(plan, wanted), told(plan, wanted)
            for who, said in zip(("the product", "the checker"), judged(content), strict=True):
                if said != truth:
                    found.wrong.append(f"case {case}, {what}: {who} says {said}")
            if truth and case % RUN == 0:
                same = same_bits(content, rng)
                found.outcomes["run" if same is not None else "not run"] += 1
                if same is False:
                    found.wrong.append(f"case {case}, {what}: onnxruntime tells twins apart")
            bodies = "with bodies" if any(node.bodies for node in plan) else "without bodies"
            found.outcomes[f"{'accepted' if truth else 'rejected'} {bodies}"] += 1
        found.cases += 1
    return found
