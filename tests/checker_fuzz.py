"""An attacker's kit: small bundles, ways to forge them, and a judge who only believes what onnxruntime answers.

A forger can do everything but break SHA-256, so a `Forgery` seals itself anew: the digests always fit.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from bornfair import FairClassifier, checker
from bornfair.bundle import bundle_files
from bornfair.domain import (
    NUMERIC,
    BooleanFeature,
    CategoricalFeature,
    Domain,
    IntegerFeature,
    Label,
    RealFeature,
)
from bornfair.encoding import Encoding, Policies, Scale
from bornfair.model import FairModel
from bornfair.network import Layer, Network
from conftest import make_people

Files = dict[str, bytes]


NAMES = ("model.onnx", "domain.json", "certificate.json")


# --- bundles ---

AGE = IntegerFeature(name="age", low=18, high=60)
HOURS = IntegerFeature(name="hours", low=1, high=12)
INCOME = RealFeature(name="income", low=1.0, high=63.5)
JOB = CategoricalFeature(name="job", categories=("clerk", "nurse", "smith"))
OWNER = BooleanFeature(name="owner")
RACE = CategoricalFeature(name="race", categories=("a", "b", "c"))
GRADE = IntegerFeature(name="grade", low=1, high=5)
GRANT = Label(name="grant", classes=("no", "yes"))


def hand_made(
    features: tuple[Any, ...],
    sensitive: tuple[str, ...],
    layers: list[tuple[Any, Any]],
    *,
    label: Label = GRANT,
    activation: str = "relu",
    policies: Policies | None = None,
    scales: dict[str, tuple[float, int]] | None = None,
) -> FairModel:
    """A model from plain numbers; inputs are (v - 1)·2^-0 unless `scales` says otherwise."""
    domain = Domain(features=features, sensitive=sensitive, label=label)
    known = {f.name: (1.0, 0) for f in features if isinstance(f, NUMERIC)} | (scales or {})
    fill = {f.name: f.low if isinstance(f, NUMERIC) else f.levels()[0] for f in features}
    encoding = Encoding(
        domain, {n: Scale(centre=c, exponent=e) for n, (c, e) in known.items()}, fill, policies or Policies()
    )
    made = tuple(Layer(np.array(weight, np.float32), np.array(bias, np.float32)) for weight, bias in layers)
    return FairModel(Network(made, activation), encoding)  # type: ignore[arg-type]


def reading(shift: float, policies: Policies | None = None) -> FairModel:
    """A model that grants above 7.5 points, where a point is a year or an hour; an owner gets up to `shift` more."""
    # columns in the order of the domain: age - 30, hours - 1, income, three jobs; then the code of owner, ±1
    first = [
        [1, 0, 0, 0, 0, 0, 0],
        [-1, 0, 0, 0, 0, 0, 0],
        [0, 1, 0, 2, 0, 0, 0],
        [0, 0, 2**-9, 0, 0, 0, shift],
    ]
    layers = [(first, [0, -4, 0, 0]), ([[0.5, -1, 1, 1], [0, 0, 1, 0]], [-2, 0.25]), ([[1, 0.5]], [-4.375])]
    return hand_made((AGE, HOURS, INCOME, JOB, OWNER), ("owner",), layers, policies=policies, scales={"age": (30.0, 0)})


@cache
def bundle(kind: str) -> Files:
    """A valid bundle of each kind of claim."""
    return {name: content for name, content in bundle_files(_MODELS[kind]()).items() if name in NAMES}


def _structural() -> FairModel:
    table = make_people(120, seed=2)
    classifier = FairClassifier(["sex"], epochs=2, hidden=(4,), missing="impute", outside="clip")
    return classifier.fit(table.drop(columns="grant"), table["grant"]).model_


def _ignoring() -> FairModel:
    return dataclasses.replace(reading(0.0), certificate=None).certified(timeout=10)


def _bounds() -> FairModel:
    return reading(0.0625, Policies(missing="impute", outside="clip")).certified(timeout=10)


def _falsified() -> FairModel:
    return reading(3.0).certified(timeout=10)


def _undecided() -> FairModel:
    return reading(3.0)


def _cancelling() -> FairModel:
    """The weights of the three races are alike, and the codes of a race add up to 0: fair in exact numbers only."""
    first = [[1, 0.1, 0.1, 0.1], [-1, 3.0, 3.0, 3.0]]
    return hand_made((HOURS, RACE), ("race",), [(first, [-3, 5]), ([[1, -1]], [0.25])]).certified(timeout=10)


def _classes() -> FairModel:
    """Three classes; twins differ in race and grade, which count a little."""
    first = [[1, 0, 0.01, 0.02, 0.03, 0.02], [0, 1, 0.02, 0.01, 0.03, 0.01], [-1, -1, 0, 0, 0, 0]]
    last = [[1, 0, 0], [0, 1, 0.03125], [0, 0, 1]]
    label = Label(name="lane", classes=("left", "middle", "right"))
    layers = [(first, [0, 0.5, 6.25]), (last, [0, 0.25, 0])]
    seven = IntegerFeature(name="days", low=1, high=8)
    return hand_made((HOURS, seven, RACE, GRADE), ("race", "grade"), layers, label=label).certified(timeout=10)


def _exact() -> FairModel:
    """Decided at exactly 0 for many people: only exact numbers can tell."""
    first = [[1, 1, 0], [0, 0, 0.125]]
    few = IntegerFeature(name="days", low=1, high=5), IntegerFeature(name="rooms", low=1, high=4)
    layers = [(first, [-4, 0]), ([[1, -1]], [0])]
    return hand_made((*few, OWNER), ("owner",), layers).certified(timeout=10)


def _tanh() -> FairModel:
    first = [[1, 0, 0.01, 0.02, 0.01], [-1, 0.5, 0, 0, 0.01]]
    layers = [(first, [-4.5, 0]), ([[2, 0.25]], [0.5])]
    return hand_made((HOURS, OWNER, RACE), ("race",), layers, activation="tanh").certified(timeout=10)


_MODELS: dict[str, Callable[[], FairModel]] = {
    "structural": _structural,
    "ignoring": _ignoring,
    "bounds": _bounds,
    "falsified": _falsified,
    "undecided": _undecided,
    "cancelling": _cancelling,
    "classes": _classes,
    "exact": _exact,
    "tanh": _tanh,
}
KINDS = tuple(_MODELS)


# --- forging ---


@dataclasses.dataclass
class Forgery:
    """A bundle taken apart: change what you like, then seal it."""

    model: onnx.ModelProto
    domain: dict[str, Any]
    certificate: dict[str, Any]

    @staticmethod
    def of(files: Files) -> Forgery:
        return Forgery(
            onnx.load_from_string(files["model.onnx"]),
            json.loads(files["domain.json"]),
            json.loads(files["certificate.json"]),
        )

    def constant(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(next(t for t in self.model.graph.initializer if t.name == name)).copy()

    def put(self, name: str, values: Any) -> None:
        tensor = next(t for t in self.model.graph.initializer if t.name == name)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(values), name))

    def claim(
        self, verdict: str, proof: str = "none", arithmetic: Any = (), tree: Any = None, **others: Any
    ) -> Forgery:
        self.certificate.update(
            {"verdict": verdict, "proof": proof, "arithmetic": list(arithmetic), "tree": tree}
            | {"twins": None, "decisions": None}
            | others
        )
        return self

    def restated(self) -> Forgery:
        """Property and claim as they should read, so that only what was shown can be wrong."""
        facts = self.certificate
        try:
            facts["property"] = checker.property_of(checker.People(copy.deepcopy(self.domain)))
            facts["claim"] = checker.claim_of(
                facts["verdict"], facts["proof"], facts["arithmetic"], self.domain["sensitive"], facts["reason"]
            )
        except (checker.Rejected, *checker.MALFORMED, ArithmeticError):
            pass
        return self

    def sealed(self) -> Files:
        """The three files, with every digest as it should be."""
        return sealed(self.model.SerializeToString(deterministic=True), self.domain, self.certificate)


def sealed(model: bytes, domain: Any, certificate: dict[str, Any]) -> Files:
    people = domain if isinstance(domain, bytes) else json.dumps(domain).encode()
    facts = copy.deepcopy(certificate)
    facts["files"] = {
        "model.onnx": hashlib.sha256(model).hexdigest(),
        "domain.json": hashlib.sha256(people).hexdigest(),
    }
    facts["sha256"] = checker.digest_of(facts)
    return {"model.onnx": model, "domain.json": people, "certificate.json": json.dumps(facts).encode()}


def answer(files: Files) -> dict[str, Any]:
    """What the checker says of files. Any other exception than its own is a crash, and is let through."""
    try:
        return checker.check_files(files)
    except (checker.Rejected, *checker.MALFORMED) as error:
        return {"valid": False, "reason": f"{type(error).__name__}: {error}"}


# --- the judge: brute force on what onnxruntime answers ---

NEAR = 1e-4  # a probability this close to a tie says nothing about exact arithmetic


def contradiction(files: Files, found: dict[str, Any], seed: int = 0, count: int = 2000) -> str | None:
    """What is untrue about an accepted claim; None if nothing was found."""
    if not found["valid"] or found["verdict"] == "undecided":
        return None
    domain, exact = json.loads(files["domain.json"]), "float32" not in found["arithmetic"]
    try:
        session = _session(files["model.onnx"])
        if found["verdict"] == "falsified":
            facts = json.loads(files["certificate.json"])
            twins, decisions = facts["twins"], facts["decisions"]
            labels, shares = _decide(session, domain, {n: [t[n] for t in twins] for n in twins[0]})
            if exact and _is_near(shares).any():
                return None
            same = labels[0] == labels[1] or [str(x) for x in labels] != [str(x) for x in decisions]
            return f"the twins get {list(labels)}" if same else None
        return _unfair(session, domain, exact, seed, count)
    except Exception as error:  # noqa: BLE001 - whatever onnxruntime throws
        return f"the model does not run: {str(error)[:200]}"


def _unfair(session: Any, domain: dict[str, Any], exact: bool, seed: int, count: int) -> str | None:
    chance = random.Random(seed)
    sensitive = domain["sensitive"]
    free = [feature for feature in domain["features"] if feature["name"] not in sensitive]
    people, versions = _some_people(free, chance, count), _some_versions(domain, chance)
    columns: dict[str, list[Any]] = {f["name"]: [] for f in domain["features"]}
    for version in versions:
        for j, feature in enumerate(free):
            columns[feature["name"]] += [person[j] for person in people]
        for name, value in zip(sensitive, version, strict=True):
            columns[name] += [value] * len(people)
    labels, shares = _decide(session, domain, columns)
    table = np.asarray(labels).astype(str).reshape(len(versions), len(people))
    sure = np.ones_like(table, bool) if not exact else ~_is_near(shares).reshape(table.shape)
    for i in range(len(people)):
        told = {label: k for k, label in enumerate(table[:, i]) if sure[k, i]}
        if len(told) > 1:
            return f"{people[i]} is decided differently as {[versions[k] for k in told.values()]}: {list(told)}"
    return None


def _is_near(shares: np.ndarray) -> np.ndarray:
    ordered = np.sort(shares, axis=1)
    return ~(ordered[:, -1] - ordered[:, -2] > NEAR)


def _some_people(free: list[dict[str, Any]], chance: random.Random, count: int) -> list[list[Any]]:
    """Everybody of a small domain; else people at the corners, and anybody."""
    if all(f["kind"] != "real" for f in free) and _size(free) <= count:
        return [list(p) for p in itertools.product(*map(_levels, free))]
    ends = [[f["low"], f["high"]] if "low" in f else list(_levels(f)) for f in free]
    some = [[chance.choice(values) for values in ends] for _ in range(count // 4)]
    return some + [[_anyone(f, chance) for f in free] for _ in range(count - len(some))]


def _some_versions(domain: dict[str, Any], chance: random.Random, most: int = 24) -> list[list[Any]]:
    if domain["combinations"]:
        rows = [list(row) for row in domain["combinations"]]
    else:
        features = {f["name"]: f for f in domain["features"]}
        choices = []
        for name in domain["sensitive"]:
            f = features[name]
            few = f["kind"] != "real" and len(_levels(f)) <= 12
            ends = [f["low"], f["high"]] if not few and "low" in f else []
            choices.append(list(_levels(f)) if few else ends + [_anyone(f, chance) for _ in range(4)])
        rows = [list(row) for row in itertools.product(*choices)]
    return rows if len(rows) <= most else [rows[0], rows[-1], *chance.sample(rows, most - 2)]


def _levels(feature: dict[str, Any]) -> Any:
    if feature["kind"] == "integer":
        return range(feature["low"], feature["high"] + 1)
    return [False, True] if feature["kind"] == "boolean" else feature["categories"]


def _size(features: list[dict[str, Any]]) -> int:
    return int(np.prod([float(len(_levels(f))) for f in features]))


def _anyone(feature: dict[str, Any], chance: random.Random) -> Any:
    if feature["kind"] == "integer":
        return chance.randint(feature["low"], feature["high"])
    return chance.uniform(feature["low"], feature["high"]) if "low" in feature else chance.choice(_levels(feature))


def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _decide(session: Any, domain: dict[str, Any], columns: dict[str, list[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities of people given as columns of raw values."""
    kinds = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}
    rows = len(next(iter(columns.values())))
    feed = {}
    for item in session.get_inputs():
        values = columns[item.name]
        if item.type == "tensor(string)":
            feed[item.name] = np.array([str(v) for v in values], object)[:, None]
        else:
            feed[item.name] = np.array(values, kinds[item.type])[:, None]
    labels, shares = session.run(None, feed)
    if np.shape(labels) != (rows,) or len(shares) != rows:
        raise ValueError(f"{rows} people get {np.shape(labels)} decisions")
    return labels, shares


# --- mutations: each changes one thing of a forgery, at random; None if there is nothing to change ---

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 8.0, -30.0, 1e-3, 1e-42, 1e6, 1e20, 3e38)
WORDS = ("", "a", "job", "owner", "yes", "float32", "real", "exact", "same", "verified", "relu")
OPERATORS = ("Relu", "Tanh", "Sigmoid", "Gelu", "Identity", "Neg", "Abs", "Softmax", "Add", "Sub", "Mul", "Div", "Max")
Mutation = Callable[[Forgery, random.Random], str | None]


def _weights(forgery: Forgery) -> list[str]:
    return [t.name for t in forgery.model.graph.initializer if t.name.startswith(("weight", "bias"))]


def weight_changed(forgery: Forgery, chance: random.Random) -> str | None:
    return _entry_changed(forgery, chance, chance.choice(_weights(forgery)))


def sensitive_weight_changed(forgery: Forgery, chance: random.Random) -> str | None:
    weights = forgery.constant("weight 0")
    if not any(set(forgery.domain["sensitive"]) & set(node.input) for node in forgery.model.graph.node):
        return None
    weights[chance.randrange(len(weights)), -1 - chance.randrange(2)] = _number(chance)
    forgery.put("weight 0", weights)
    return "a weight that reads a sensitive value"


def constant_changed(forgery: Forgery, chance: random.Random) -> str | None:
    others = [t.name for t in forgery.model.graph.initializer if t.name not in _weights(forgery)]
    return _entry_changed(forgery, chance, chance.choice(others))


def _entry_changed(forgery: Forgery, chance: random.Random, name: str) -> str | None:
    values = forgery.constant(name)
    flat = values.reshape(-1)
    at = chance.randrange(len(flat))
    if values.dtype == object:
        flat[at] = chance.choice([*WORDS, flat[chance.randrange(len(flat))]])
    elif values.dtype.kind == "f":
        near = float(flat[at]) * chance.choice([-1, 0.5, 1 + 2**-20, 2]) + chance.choice([0, 0, 1, -1])
        flat[at] = chance.choice([near, _number(chance)])
    else:
        flat[at] = chance.choice([0, 1, 2, -1])
    forgery.put(name, values)
    return f"constant {name}"


def _number(chance: random.Random) -> float:
    return chance.choice([*NUMBERS, chance.gauss(0, 1), chance.gauss(0, 50)])


def constant_reshaped(forgery: Forgery, chance: random.Random) -> str | None:
    tensor = chance.choice(forgery.model.graph.initializer)
    values = numpy_helper.to_array(tensor)
    shapes = [(1, values.size), (values.size, 1), (values.size,), (1,), (), (0,), values.shape[::-1]]
    kinds = [np.float32, np.float64, np.int64, np.bool_, np.float16, np.int32]
    if chance.random() < 0.7:
        forgery.put(tensor.name, np.resize(values, chance.choice(shapes)))
    elif values.dtype != object:
        with np.errstate(all="ignore"):
            forgery.put(tensor.name, values.astype(chance.choice(kinds)))
    return f"shape or type of {tensor.name}"


def constant_doubled_or_gone(forgery: Forgery, chance: random.Random) -> str | None:
    constants = forgery.model.graph.initializer
    tensor = copy.deepcopy(chance.choice(constants))
    if chance.random() < 0.5:
        constants.remove(tensor)
        return f"without {tensor.name}"
    tensor.name = chance.choice([tensor.name, "another", *(i.name for i in forgery.model.graph.input)])
    constants.append(tensor)
    return f"another constant {tensor.name}"


def operator_swapped(forgery: Forgery, chance: random.Random) -> str | None:
    node = chance.choice(forgery.model.graph.node)
    active = [n for n in forgery.model.graph.node if n.op_type in ("Relu", "Tanh", "Greater", "Sub", "Mul", "Gemm")]
    node = chance.choice([node, chance.choice(active)])
    node.op_type = chance.choice([*OPERATORS, chance.choice(forgery.model.graph.node).op_type])
    return f"{node.name} is now a {node.op_type}"


def activations_swapped(forgery: Forgery, chance: random.Random) -> str | None:
    new = chance.choice(["Relu", "Tanh", "Sigmoid", "Gelu", "LeakyRelu", "Elu"])
    for node in forgery.model.graph.node:
        if node.op_type in ("Relu", "Tanh"):
            node.op_type = new
    return f"all activations are {new}"


def attribute_changed(forgery: Forgery, chance: random.Random) -> str | None:
    nodes = [n for n in forgery.model.graph.node if n.attribute]
    node = chance.choice(nodes)
    attribute = chance.choice(node.attribute)
    what = chance.randrange(5)
    if what == 0:
        attribute.i += chance.choice([-1, 1, 2])
    elif what == 1 and attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] += chance.choice([-1, 1])
    elif what == 1 and attribute.strings:
        attribute.strings[chance.randrange(len(attribute.strings))] = chance.choice([b"", b"\xff", b"nurse"])
    elif what == 2:
        node.attribute.remove(attribute)
    elif what == 3:
        extra = chance.choice([("alpha", 0.5), ("beta", 0.0), ("transA", 1), ("select_last_index", 1), ("axis", 0)])
        node.attribute.append(onnx.helper.make_attribute(*extra))
    else:
        attribute.name = chance.choice(["transA", "axis", "keepdims", "zeros", "to", ""])
    return f"an attribute of {node.name}"


def input_rewired(forgery: Forgery, chance: random.Random) -> str | None:
    graph = forgery.model.graph
    node = chance.choice(graph.node)
    values = [i.name for i in graph.input] + [n.output[0] for n in graph.node] + [t.name for t in graph.initializer]
    node.input[chance.randrange(len(node.input))] = chance.choice(values)
    return f"an input of {node.name}"


def inputs_swapped(forgery: Forgery, chance: random.Random) -> str | None:
    node = chance.choice([n for n in forgery.model.graph.node if len(n.input) > 1])
    names = list(node.input)
    chance.shuffle(names)
    del node.input[:]
    node.input.extend(names)
    return f"the order of inputs of {node.name}"


def node_added(forgery: Forgery, chance: random.Random) -> str | None:
    """A node between two others, which now computes something else."""
    graph = forgery.model.graph
    at = chance.randrange(len(graph.node))
    old = graph.node[at].output[0]
    extra = onnx.helper.make_node(chance.choice(["Relu", "Neg", "Identity", "Abs", "Tanh"]), [old], ["added"])
    for node in graph.node:
        for k, name in enumerate(node.input):
            if name == old:
                node.input[k] = "added"
    nodes = [*graph.node[: at + 1], extra, *graph.node[at + 1 :]]
    del graph.node[:]
    graph.node.extend(nodes)
    return f"a node after {old}"


def nodes_reordered(forgery: Forgery, chance: random.Random) -> str | None:
    nodes, what = list(forgery.model.graph.node), chance.randrange(3)
    i, j = chance.randrange(len(nodes)), chance.randrange(len(nodes))
    if what == 0:
        nodes[i], nodes[j] = nodes[j], nodes[i]
    elif what == 1:
        del nodes[i]
    else:
        nodes.insert(i, copy.deepcopy(nodes[j]))
    del forgery.model.graph.node[:]
    forgery.model.graph.node.extend(nodes)
    return "the list of nodes"


def layer_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """A neuron more or less, consistently."""
    first, bias, second = (forgery.constant(name) for name in ("weight 0", "bias 0", "weight 1"))
    k = chance.randrange(len(first))
    if chance.random() < 0.5:
        parts = np.delete(first, k, 0), np.delete(bias, k), np.delete(second, k, 1)
    else:
        new = np.array([_number(chance) for _ in range(first.shape[1])], np.float32)
        out = np.array([[_number(chance)] for _ in second], np.float32)
        parts = np.vstack([first, new]), np.append(bias, np.float32(0)), np.hstack([second, out])
    for name, values in zip(("weight 0", "bias 0", "weight 1"), parts, strict=True):
        forgery.put(name, values.astype(np.float32))
    return "a neuron"


def classes_swapped(forgery: Forgery, chance: random.Random) -> str | None:
    both = chance.random() < 0.5
    forgery.put("classes", forgery.constant("classes")[::-1].copy())
    if both:
        forgery.domain["label"]["classes"].reverse()
    return "the order of the classes"


def frame_changed(forgery: Forgery, chance: random.Random) -> str | None:
    model, what = forgery.model, chance.randrange(8)
    graph = model.graph
    if what == 0:
        model.opset_import[chance.randrange(2)].version = chance.choice([1, 2, 3, 11, 13, 18, 20, 21])
    elif what == 1:
        model.ir_version = chance.choice([0, 3, 8, 10])
    elif what == 2:
        outputs = list(graph.output)[::-1]
        del graph.output[:]
        graph.output.extend(outputs)
    elif what == 3:
        graph.output[0].name = chance.choice(graph.node).output[0]
    elif what == 4:
        graph.input.remove(chance.choice(graph.input))
    elif what == 5:
        graph.input[chance.randrange(len(graph.input))].name = chance.choice(["other", "owner", "age", "job"])
    elif what == 6:
        item = chance.choice(graph.input)
        item.type.tensor_type.elem_type = chance.choice([1, 7, 8, 9, 11])
    else:
        item = chance.choice(graph.input)
        item.type.tensor_type.shape.dim[chance.randrange(2)].dim_value = chance.choice([1, 2])
    return "the frame of the graph"


# --- of the domain ---


def range_changed(forgery: Forgery, chance: random.Random) -> str | None:
    feature = chance.choice([f for f in forgery.domain["features"] if "low" in f])
    end = chance.choice(["low", "high"])
    step = chance.choice([-40, -7, -1, 1, 5, 60]) if feature["kind"] == "integer" else chance.gauss(0, 20)
    feature[end] = chance.choice([feature[end] + step, feature[end] + step, feature[end] * 1.5, None])
    return f"the range of {feature['name']}"


def kind_changed(forgery: Forgery, chance: random.Random) -> str | None:
    feature = chance.choice(forgery.domain["features"])
    feature["kind"] = chance.choice(["real", "integer", "categorical", "boolean", "none"])
    if chance.random() < 0.5:
        feature |= {"low": 0, "high": 3, "grid": chance.choice([2, 3, 17]), "categories": ["clerk", "nurse"]}
    return f"the kind of {feature['name']}"


def categories_changed(forgery: Forgery, chance: random.Random) -> str | None:
    feature = chance.choice([f for f in forgery.domain["features"] if f["kind"] == "categorical"] or [None])
    if feature is None:
        return None
    listed, what = feature["categories"], chance.randrange(5)
    if what == 0:
        listed.insert(chance.randrange(len(listed) + 1), chance.choice(["new", 1, True, None, 0.5, ""]))
    elif what == 1:
        listed.remove(chance.choice(listed))
    elif what == 2:
        chance.shuffle(listed)
    elif what == 3:
        listed[chance.randrange(len(listed))] = chance.choice(["new", listed[0], 3])
    else:
        feature["categories"] = chance.choice(["abc", {}, [], [[]], 3])
    return f"the categories of {feature['name']}"


def sensitive_changed(forgery: Forgery, chance: random.Random) -> str | None:
    listed, names = forgery.domain["sensitive"], [f["name"] for f in forgery.domain["features"]]
    what = chance.randrange(4)
    if what == 0:
        listed.append(chance.choice(names))
    elif what == 1:
        listed[0] = chance.choice([*names, "nobody"])
    elif what == 2:
        chance.shuffle(listed)
    else:
        listed.remove(chance.choice(listed))
    return "which features are sensitive"


def combinations_changed(forgery: Forgery, chance: random.Random) -> str | None:
    domain = forgery.domain
    features = {f["name"]: f for f in domain["features"]}
    rows = [[_anyone(features[name], chance) for name in domain["sensitive"]] for _ in range(chance.randrange(6))]
    domain["combinations"] = chance.choice([rows, rows, None, [["nobody"]], "", [[]]])
    return "which combinations exist"


def features_changed(forgery: Forgery, chance: random.Random) -> str | None:
    listed, what = forgery.domain["features"], chance.randrange(5)
    if what == 0:
        chance.shuffle(listed)
    elif what == 1:
        listed.remove(chance.choice(listed))
    elif what == 2:
        listed.append(chance.choice([{"name": "new", "kind": "boolean"}, copy.deepcopy(chance.choice(listed))]))
    elif what == 3:
        chance.choice(listed)["name"] = chance.choice(["age", "race", "new", "", 5])
    else:
        chance.choice(listed)["grid"] = chance.choice([-1, 0, 1, 2, 3, 1.5, 10**6, True, None])
    return "the list of features"


def label_changed(forgery: Forgery, chance: random.Random) -> str | None:
    label, what = forgery.domain["label"], chance.randrange(4)
    if what == 0:
        label["classes"][0] = chance.choice(["yes", "right", 0, True])
    elif what == 1:
        chance.shuffle(label["classes"])
    elif what == 2:
        label["classes"] = chance.choice([["no"], ["no", "yes", "maybe"], [0, 1], [False, True], "no", []])
    else:
        forgery.domain["label"] = None
    return "the classes in the domain"


# --- of the certificate ---


def leaf_changed(forgery: Forgery, chance: random.Random) -> str | None:
    tree = forgery.certificate["tree"]
    leaves = [i for i, entry in enumerate(tree or []) if not isinstance(entry, list)]
    if not leaves:
        return None
    at, what = chance.choice(leaves), chance.randrange(4)
    if what == 0:
        del tree[at]
    elif what == 1:
        tree.insert(at, copy.deepcopy(tree[at]))
    elif what == 2:
        other = chance.choice(leaves)
        tree[at], tree[other] = tree[other], tree[at]
    else:
        tree[at] = chance.choice([0, 1, 2, -1, True, "same", "exact", {"each": 0}, {"each": 1}, {"each": 5}, None, 0.0])
    return "a leaf"


def cut_changed(forgery: Forgery, chance: random.Random) -> str | None:
    tree = forgery.certificate["tree"]
    cuts = [i for i, entry in enumerate(tree or []) if isinstance(entry, list)]
    if not cuts:
        return None
    at, what = chance.choice(cuts), chance.randrange(5)
    entry = tree[at]
    if what == 0:
        del tree[at]
    elif what == 1:
        tree[at] = chance.choice([0, 1, "same", "exact", {"each": 0}, {"each": 1}])  # a leaf instead of a branch
    elif what == 2:
        entry[0] = chance.choice([f["name"] for f in forgery.domain["features"]])
    elif what == 3:
        entry[1] = chance.choice([True, 0, 2.5, [], ["clerk"], "clerk", ["clerk", "nurse", "smith"], None, {}])
    elif isinstance(entry[1], (int, float)):
        entry[1] += chance.choice([-3, -1, 1, 4, 0.5])
    else:
        entry[1] = [chance.choice(["clerk", "nurse", "smith"])]
    return "a cut"


def branch_pruned(forgery: Forgery, chance: random.Random) -> str | None:
    """A whole branch replaced by a leaf: the tree still covers everybody."""
    tree = forgery.certificate["tree"]
    cuts = [i for i, entry in enumerate(tree or []) if isinstance(entry, list)]
    if not cuts:
        return None
    begin = end = chance.choice(cuts)
    open_parts = 1
    while open_parts:
        open_parts += 1 if isinstance(tree[end], list) else -1
        end += 1
    tree[begin:end] = [chance.choice([0, 1, "same", "exact", {"each": 0}, {"each": 1}])]
    return "a branch"


def verdict_changed(forgery: Forgery, chance: random.Random) -> str | None:
    facts, what = forgery.certificate, chance.randrange(5)
    if what == 0:
        facts["arithmetic"] = chance.choice([[], ["real"], ["float32"], ["real", "float32"], ["float32", "real"]])
    elif what == 1:
        facts["proof"] = chance.choice(["structural", "bounds", "none", "trust me"])
    elif what == 2:
        facts["verdict"] = chance.choice(["verified", "falsified", "undecided", "fair"])
    elif what == 3:
        facts["claim"] = chance.choice([facts["claim"] + " ", facts["claim"].replace("only ", ""), "It is fair."])
    else:
        facts["reason"] = chance.choice(["", "because", 5, None])
    return "the verdict"


def twins_changed(forgery: Forgery, chance: random.Random) -> str | None:
    facts = forgery.certificate
    if not facts["twins"]:
        return None
    what = chance.randrange(5)
    if what == 0:
        facts["decisions"].reverse()
    elif what == 1:
        facts["twins"].reverse()
    elif what == 2:
        facts["twins"] = chance.choice([[], None, facts["twins"][:1], facts["twins"] * 2, [facts["twins"][0]] * 2])
    else:
        features = {f["name"]: f for f in forgery.domain["features"]}
        name = chance.choice(list(features))
        value = chance.choice([_anyone(features[name], chance), _anyone(features[name], chance), "no", 1e9, None])
        for twin in facts["twins"] if what == 3 else facts["twins"][:1]:
            twin[name] = value
    return "the twins"


def field_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """Any value, anywhere in one of the two JSON files."""
    return json_changed(chance.choice([forgery.domain, forgery.certificate]), chance)


def json_changed(data: Any, chance: random.Random) -> str:
    places = list(json_places(data))
    holder, key = chance.choice(places)
    if chance.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
        return f"without {key}"
    holder[key] = copy.deepcopy(chance.choice([None, True, 0, -1, 2**70, 0.5, 1e300, "", "x", [], {}, [0], {"a": 1}]))
    return f"the field {key}"


def json_places(data: Any) -> Any:
    """Every value inside a JSON value, as (holder, key)."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], (dict, list)):
            yield from json_places(data[key])


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Some bytes overwritten, put in, left out, or all from somewhere on cut off."""
    at, count = chance.randrange(len(content)), chance.choice([1, 1, 1, 2, 4, 40])
    new = bytes(chance.choice([0, 1, 127, 128, 255, chance.randrange(256)]) for _ in range(count))
    return {
        0: content[:at] + new + content[at + count :],
        1: content[:at] + new + content[at:],
        2: content[:at] + content[at + count :],
        3: content[:at],
    }[chance.choice([0, 0, 0, 1, 2, 3])]


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "weights": (weight_changed, sensitive_weight_changed, constant_changed, layer_changed),
    "graph": (
        constant_reshaped, constant_doubled_or_gone, operator_swapped, activations_swapped, attribute_changed,
        input_rewired, inputs_swapped, node_added, nodes_reordered, classes_swapped, frame_changed,
    ),
    "domain": (
        range_changed, kind_changed, categories_changed, sensitive_changed, combinations_changed, features_changed,
        label_changed,
    ),
    "certificate": (leaf_changed, cut_changed, branch_pruned, verdict_changed, twins_changed, field_changed),
}  # fmt: skip


def forge(kind: str, family: str, chance: random.Random) -> tuple[str, Files]:
    """A bundle with one thing changed, sealed by somebody who knows what is checked first."""
    while True:
        forgery = Forgery.of(bundle(kind))
        what = chance.choice(MUTATIONS[family])(forgery, chance)
        if what is not None:
            break
    if family != "certificate" and chance.random() < 0.4:  # and claims what he would like to hear
        forgery.claim("verified", *chance.choice(WISHES))
    if family != "certificate" or chance.random() < 0.5:
        forgery.restated()
    return f"{kind}: {what}", forgery.sealed()


WISHES: tuple[tuple[str, list[str], Any], ...] = (
    ("structural", ["real", "float32"], None),
    ("structural", ["real"], None),
    ("bounds", ["real", "float32"], [0]),
    ("bounds", ["real"], [1]),
    ("bounds", ["float32"], ["same"]),
    ("bounds", ["real", "float32"], [{"each": 1}]),
)
