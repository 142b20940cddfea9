"""Ways to forge a bundle: each changes one thing of it, at random."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from bornfair.proof import checker
from bornfair.proof.tree import find_tree
from bundle_cases import Files, Forgery
from graph_oracle import values_of


def _anyone(feature: dict[str, Any], chance: random.Random) -> Any:
    return chance.choice(values_of(feature, chance, 8))


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


def twins_made_alike(forgery: Forgery, chance: random.Random) -> str | None:
    """Weights or codes of a block of inputs become equal, or 0: a model that is nearly fair, or is."""
    blocks = [t.name for t in forgery.model.graph.initializer if t.name.startswith(("codes of", "code of", "merged"))]
    if blocks and chance.random() < 0.4:
        values = forgery.constant(name := chance.choice(blocks))
        values[:] = values[0] if chance.random() < 0.5 else chance.choice([0.0, 1.0])
        forgery.put(name, values)
        return f"{name} are alike"
    weights = forgery.constant("weight 0")
    first = chance.randrange(weights.shape[1])
    last = chance.choice([weights.shape[1], first + 1, min(first + 3, weights.shape[1])])
    weights[:, first:last] = chance.choice([0.0, 0.0, weights[:, first : first + 1], 0.5])
    forgery.put("weight 0", weights)
    return f"the weights of inputs {first} to {last} are alike"


# --- of what reaches the decision: a forger lets it end behind the first layer, or nearly ---


def dependence_cut_off(forgery: Forgery, chance: random.Random) -> str | None:
    """Some neurons are kept from the next layer by weights of 0; one may be forgotten, or be huge."""
    depth = chance.randrange(1, len(_weights(forgery)) // 2)
    before, after = forgery.constant(f"weight {depth - 1}"), forgery.constant(f"weight {depth}")
    reads = [i for i, row in enumerate(before) if row[-1] != 0] if depth == 1 else list(range(len(before)))
    chosen = [i for i in reads if chance.random() < 0.9]
    after[:, chosen] = 0.0
    if chance.random() < 0.2:
        after[chance.randrange(len(after)), chance.choice(chosen)] = chance.choice([1e-30, 1.0])
    if chance.random() < 0.2:
        before[chosen] = np.clip(before[chosen], -30, 30) * np.float32(1e37)
        forgery.put(f"weight {depth - 1}", before)
    forgery.put(f"weight {depth}", after)
    return f"what {len(chosen)} neurons before layer {depth} pass on"


def neurons_cancelled(forgery: Forgery, chance: random.Random) -> str | None:
    """Two neurons become one function, up to a factor, and cancel in the next layer; or nearly."""
    depth = chance.randrange(1, len(_weights(forgery)) // 2)
    names = f"weight {depth - 1}", f"bias {depth - 1}", f"weight {depth}"
    rows, bias, after = (forgery.constant(name) for name in names)
    one, other = chance.sample(range(len(rows)), 2)
    factor = np.float32(chance.choice([1, 1, 2, 0.5, -1]))
    rows[other], bias[other] = factor * rows[one], factor * bias[one]
    after[:, one] = -factor * after[:, other]
    if chance.random() < 0.4:
        spoiled = chance.choice([rows, after])
        at = chance.randrange(len(spoiled)), chance.choice([one, other, 0]) if spoiled is after else -1
        spoiled[at] = np.nextafter(spoiled[at], np.float32(9))
    for name, values in zip(names, (rows, bias, after), strict=True):
        forgery.put(name, values)
    return f"neurons {one} and {other} before layer {depth}"


def neurons_shut(forgery: Forgery, chance: random.Random) -> str | None:
    """Neurons behind the first layer whose weights and bias are not above 0: never on, if they are relus."""
    depth = chance.randrange(1, len(_weights(forgery)) // 2)
    weights, bias = forgery.constant(f"weight {depth}"), forgery.constant(f"bias {depth}")
    chosen = [i for i in range(len(weights)) if chance.random() < 0.7]
    weights[chosen], bias[chosen] = -np.abs(weights[chosen]), -np.abs(bias[chosen])
    if chance.random() < 0.3:
        bias[chance.choice(chosen)] = 1e-3
    forgery.put(f"weight {depth}", weights)
    forgery.put(f"bias {depth}", bias)
    return f"{len(chosen)} neurons of layer {depth} are off"


def unseen_let_through(forgery: Forgery, chance: random.Random) -> str | None:
    """A category that is not listed gets zeros instead of a refusal, or the other way round."""
    attributes = [
        a for n in forgery.model.graph.node for a in n.attribute if a.name == "zeros" and "one-hot" in n.output[0]
    ]
    if not attributes:
        return None
    attribute = chance.choice(attributes)
    attribute.i = 1 - attribute.i
    return "what is done with values not listed"


def let_through(forgery: Forgery, chance: random.Random) -> str | None:
    """Numbers far outside the domain are let through, or cut off."""
    names = [
        t.name for t in forgery.model.graph.initializer if t.name.split()[0] in ("least", "most", "low", "high", "fill")
    ]
    if not names:
        return None
    name = chance.choice(names)
    values = forgery.constant(name)
    values.reshape(-1)[chance.randrange(values.size)] = chance.choice([-1e308, 1e308, -1e30, 1e30, 0.0, 5.0])
    forgery.put(name, values)
    return f"the constant {name}"


def metadata_changed(forgery: Forgery, chance: random.Random) -> str | None:
    entries = forgery.model.metadata_props
    if chance.random() < 0.3 or not entries:
        entries.add(key=chance.choice(["x", "bornfair.encoding", ""]), value="{}")
    else:
        entries[0].value = chance.choice(["", "{}", entries[0].value[:-1], entries[0].value.replace("1", "2", 1)])
    return "the metadata"


def tensor_made_odd(forgery: Forgery, chance: random.Random) -> str | None:
    """Two ways to read one constant."""
    tensor = chance.choice(forgery.model.graph.initializer)
    what = chance.randrange(4)
    if what == 0:
        tensor.raw_data = tensor.raw_data + chance.choice([b"", bytes(4), bytes(8)]) or bytes(8)
    elif what == 1:
        tensor.float_data.extend([1.0] * max(1, len(tensor.raw_data) // 4))
    elif what == 2:
        tensor.string_data.extend([b"yes"])
    else:
        tensor.doc_string = "hello"
    return f"the form of {tensor.name}"


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


def gaps_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """Who was never missing may be, or the other way round: the graph, the tree or the twins then speak of others."""
    feature = chance.choice(forgery.domain["features"])
    feature["missing"] = chance.choice([not feature.get("missing", False)] * 6 + [None, 1, "true"])
    if feature["missing"] is False and chance.random() < 0.5:
        del feature["missing"]
    return f"gaps of {feature['name']}"


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
    domain["combinations"] = chance.choice([rows, rows, rows[:1] * 2, rows[:2] * 2, None, [["nobody"]], "", [[]]])
    return "which combinations exist"


def single_value(forgery: Forgery, chance: random.Random) -> str | None:
    """A sensitive feature, perhaps one more than before, that has one value only."""
    domain = forgery.domain
    feature = chance.choice(domain["features"])
    if feature["name"] not in domain["sensitive"]:
        domain["sensitive"].append(feature["name"])
    if "low" in feature:
        feature["high"] = feature["low"]
    elif "categories" in feature:
        feature["categories"] = feature["categories"][:1]
    return f"{feature['name']} has one value"


def rules_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """Rules for twins: one more, one less, another."""
    rules = forgery.domain.setdefault("twins", [])
    if rules and chance.random() < 0.4:
        rules.remove(chance.choice(rules))
    else:
        picked = chance.sample(
            forgery.domain["features"], min(chance.choice([1, 1, 2]), len(forgery.domain["features"]))
        )
        rules.append([_move(feature, chance) for feature in picked])
    if not rules:
        del forgery.domain["twins"]
    return "the rules for twins"


def _move(feature: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    if "low" in feature and chance.random() < 0.9:
        total = feature["low"] + feature["high"]
        return {"kind": "mirror", "feature": feature["name"], "total": chance.choice([total, total, total, total + 1])}
    levels = feature.get("categories", [False, True] if feature["kind"] == "boolean" else [1, 2])
    cycle = chance.sample(list(levels), chance.randrange(1, len(levels) + 1)) if levels else []
    return {"kind": chance.choice(["cycles"] * 9 + ["carried"]), "feature": feature["name"], "cycles": [cycle]}


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
        features = {str(f["name"]): f for f in forgery.domain["features"]}
        name = chance.choice(list(features))
        value = chance.choice([_anyone(features[name], chance), _anyone(features[name], chance), "no", 1e9, None])
        for twin in facts["twins"] if what == 3 else facts["twins"][:1]:
            twin[name] = value
    return "the twins"


def twins_invented(forgery: Forgery, chance: random.Random) -> str | None:
    """Any two people who might be twins, said to be decided differently."""
    features = {str(f["name"]): f for f in forgery.domain["features"]}
    one = {name: _anyone(feature, chance) for name, feature in features.items()}
    other = one | {name: _anyone(features[name], chance) for name in forgery.domain["sensitive"] if name in features}
    classes = (forgery.domain["label"] or {"classes": [0, 1]})["classes"]
    kinds = chance.choice([["real"], [forgery.executed], ["real", forgery.executed]])
    forgery.claim("falsified", "none", kinds, twins=[one, other], decisions=chance.sample(list(classes), 2))
    return "two people who may be twins"


def tree_found(forgery: Forgery, chance: random.Random) -> str | None:
    """A proof by the checker's own bounds, of the model as it now is."""
    kinds = chance.choice([["real"], ["real", forgery.executed]])
    try:
        people = checker.Individuals(copy.deepcopy(forgery.domain))
        network = checker.read_model(forgery.model.SerializeToString(), people)
        tree = find_tree(network, people, executed=forgery.executed in kinds, timeout=1.0, most_leaves=60)
    except (checker.Rejected, *checker.MALFORMED):
        tree = None
    if tree is None:
        return None
    forgery.claim("verified", "bounds", kinds, tree)
    return "a proof by bounds"


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
    "weights": (
        weight_changed, sensitive_weight_changed, constant_changed, layer_changed, twins_made_alike, let_through,
    ),
    "graph": (
        constant_reshaped, constant_doubled_or_gone, operator_swapped, activations_swapped, attribute_changed,
        input_rewired, inputs_swapped, node_added, nodes_reordered, classes_swapped, frame_changed, unseen_let_through,
        metadata_changed, tensor_made_odd,
    ),
    "domain": (
        range_changed, kind_changed, categories_changed, sensitive_changed, combinations_changed, features_changed,
        label_changed, single_value, rules_changed, gaps_changed,
    ),
    "certificate": (
        leaf_changed, cut_changed, branch_pruned, verdict_changed, twins_changed, twins_invented, field_changed,
    ),
}  # fmt: skip


# --- trees ---

LISTS = (
    "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs",
    "nodes_missing_value_tracks_true", "leaf_targetids", "tree_roots",
)  # fmt: skip


def _trees(forgery: Forgery) -> dict[str, Any]:
    (node,) = (node for node in forgery.model.graph.node if node.op_type == "TreeEnsemble")
    return {attribute.name: attribute for attribute in node.attribute}


def tree_number_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """A threshold, a leaf, a set, a kind of split."""
    name = chance.choice(["nodes_splits", "leaf_weights", "nodes_modes"])
    tensor = _trees(forgery)[name].t
    values = numpy_helper.to_array(tensor).copy()
    at = chance.randrange(len(values))
    if name == "nodes_modes":
        values[at] = chance.choice([0, 1, 2, 3, 4, 5, 6, 7])
    else:
        near = float(values[at]) * chance.choice([-1, 0.5, 2]) + chance.choice([0, 1, -1, 2**-30])
        values[at] = chance.choice(
            [near, _number(chance), np.nan, np.inf, 1e308, values[chance.randrange(len(values))]]
        )
    tensor.CopyFrom(numpy_helper.from_array(values))
    return f"a number of {name}"


def tree_list_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """Where a split leads, what it reads, to what a leaf adds: another number, one more, one less, two exchanged."""
    name = chance.choice(LISTS)
    numbers, what = _trees(forgery)[name].ints, chance.randrange(5)
    i, j = chance.randrange(len(numbers)), chance.randrange(len(numbers))
    if what == 0:
        numbers[i] = chance.choice([-1, 0, 1, 2, 3, len(numbers), 2**31, 2**62, numbers[j]])
    elif what == 1:
        numbers[i], numbers[j] = numbers[j], numbers[i]
    elif what == 2:
        del numbers[i]
    elif what == 3:
        numbers.append(numbers[i])
    else:
        numbers[i] += chance.choice([-1, 1])
    return f"the list {name}"


def tree_setting_changed(forgery: Forgery, chance: random.Random) -> str | None:
    """How leaves are put together, or something of which the checker has never heard."""
    known = _trees(forgery)
    (node,) = (node for node in forgery.model.graph.node if node.op_type == "TreeEnsemble")
    what = chance.randrange(5)
    if what == 0:
        known["aggregate_function"].i = chance.choice([0, 2, 3, -1])
    elif what == 1:
        known["post_transform"].i = chance.choice([1, 2, 3, 4])
    elif what == 2:
        known["n_targets"].i = chance.choice([0, 1, 2, 3, 10**6, 2**40, -1])
    elif what == 3:
        name, value = chance.choice([
            ("base_values", [0.5]), ("nodes_hitrates", [1.0]), ("base_values_as_tensor", [1]), ("n_supports", 1),
        ])  # fmt: skip
        node.attribute.append(onnx.helper.make_attribute(name, value))
    else:
        node.attribute.remove(chance.choice(list(known.values())))
    return "how leaves are put together"


def split_hidden(forgery: Forgery, chance: random.Random) -> str | None:
    """A split on a sensitive column: in place of another, in a tree of its own, or where nobody comes."""
    graph, known = forgery.model.graph, _trees(forgery)
    concat = next(node for node in graph.node if node.op_type == "Concat")
    numbers = [i.name for i in graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE]
    chosen = [name for name in forgery.domain["sensitive"] if name in numbers]
    if chosen and chosen[0] not in concat.input:
        concat.input.append(chosen[0])
    elif not chosen:
        cast = onnx.helper.make_node("Cast", [forgery.domain["sensitive"][0]], ["hidden"], to=onnx.TensorProto.DOUBLE)
        graph.node.insert(list(graph.node).index(concat), cast)
        concat.input.append("hidden")
    makers = {node.output[0]: node for node in graph.node}
    gathers = [makers[makers[name].input[0]] for name in concat.input if name in makers and len(makers[name].input) > 1]
    column = len(concat.input) - 1 + sum(forgery.constant(node.input[0]).shape[1] - 1 for node in gathers)
    if chance.random() < 0.4:
        known["nodes_featureids"].ints[chance.randrange(len(known["nodes_featureids"].ints))] = column
        return "a split reads a sensitive column"
    count, leaves = len(known["nodes_featureids"].ints), len(known["leaf_targetids"].ints)
    for name, value in (
        ("nodes_featureids", [column]), ("nodes_truenodeids", [leaves]), ("nodes_falsenodeids", [leaves + 1]),
        ("nodes_trueleafs", [1]), ("nodes_falseleafs", [1]), ("nodes_missing_value_tracks_true", [0]),
        ("leaf_targetids", [0, 0]),
    ):  # fmt: skip
        known[name].ints.extend(value)
    for name, added, kind in (
        ("nodes_splits", [0.5], np.float64), ("nodes_modes", [0], np.uint8), ("leaf_weights", [0.0, 9.0], np.float64)
    ):  # fmt: skip
        values = np.append(numpy_helper.to_array(known[name].t), np.array(added, kind)).astype(kind)
        known[name].t.CopyFrom(numpy_helper.from_array(values))
    if chance.random() < 0.6:
        known["tree_roots"].ints.append(count)
        return "a tree that reads a sensitive column"
    return "a split on a sensitive column where nobody comes"


def ensemble_added(forgery: Forgery, chance: random.Random) -> str | None:
    """The same trees once more, added to what they give, or to nothing."""
    graph = forgery.model.graph
    at = next(i for i, node in enumerate(graph.node) if node.op_type == "TreeEnsemble")
    again = copy.deepcopy(graph.node[at])
    again.output[0], again.name = "again", "again"
    old = graph.node[at].output[0]
    graph.node.insert(at + 1, again)
    if chance.random() < 0.7:
        graph.node.insert(at + 2, onnx.helper.make_node("Add", [old, "again"], ["both"]))
        for node in graph.node[at + 3 :]:
            for k, name in enumerate(node.input):
                node.input[k] = "both" if name == old else name
    return "trees twice"


def leaf_numbers_rounded(forgery: Forgery, chance: random.Random) -> str | None:
    """Leaves that add up to just where it decides, or hardly beside."""
    tensor = _trees(forgery)["leaf_weights"].t
    values = numpy_helper.to_array(tensor).copy()
    unit = chance.choice([0.1, 1 / 3, 2.0**-40, 1e-17, 0.25])
    at = chance.sample(range(len(values)), min(3, len(values)))
    values[at] = np.round(values[at] / unit) * unit + chance.choice([0, 2.0**-53, 1e-17])
    tensor.CopyFrom(numpy_helper.from_array(values))
    return "leaves that round"


MUTATIONS["structure"] = (dependence_cut_off, neurons_cancelled, neurons_shut)

# What unfair models were called fair by, when they were.
MUTATIONS["likely"] = (
    combinations_changed, single_value, twins_made_alike, unseen_let_through, let_through, rules_changed, range_changed,
    sensitive_weight_changed, sensitive_changed, kind_changed, gaps_changed,
)  # fmt: skip


def forge(
    files: Files,
    families: Sequence[str],
    chance: random.Random,
    *,
    changes: int = 1,
    known: dict[str, tuple[Mutation, ...]] = MUTATIONS,
) -> tuple[str, Forgery]:
    """A bundle with some things changed, and what is claimed of it, stated as the checker would state it."""
    forgery, done = Forgery.of(files), list[str]()
    for _ in range(20 * changes):
        what = _changed(forgery, chance.choice(known[chance.choice(families)]), chance)
        done += [what] if what is not None else []
        if len(done) == changes:
            break
    about_model = set(families) != {"certificate"}
    if about_model and chance.random() < 0.5:  # and claims what he would like to hear
        proof, kinds, tree = chance.choice(WISHES)
        forgery.claim("verified", proof, [kind.replace("float32", forgery.executed) for kind in kinds], tree)
    elif about_model and chance.random() < 0.3:
        done += [what for what in [_changed(forgery, chance.choice([tree_found, twins_invented]), chance)] if what]
    if about_model or chance.random() < 0.5:
        forgery.restated()
    return ", ".join(done), forgery


def _changed(forgery: Forgery, mutation: Mutation, chance: random.Random) -> str | None:
    """What was changed; a forger whose earlier change left nothing to change has changed nothing."""
    try:
        with np.errstate(all="ignore"):
            return mutation(forgery, chance)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None


WISHES: tuple[tuple[str, list[str], Any], ...] = (
    ("structural", ["real", "float32"], None),
    ("structural", ["real", "float32"], None),
    ("structural", ["real"], None),
    ("structural", ["real"], None),
    ("bounds", ["real", "float32"], [0]),
    ("bounds", ["real"], [1]),
    ("bounds", ["float32"], ["same"]),
    ("bounds", ["real", "float32"], [{"each": 1}]),
    ("bounds", ["real"], ["exact"]),
)

# What is done to bundles of forests.
TREE_MUTATIONS = {
    "trees": (
        tree_number_changed, tree_list_changed, tree_setting_changed, split_hidden, ensemble_added,
        leaf_numbers_rounded, constant_changed,
    ),
    "graph": (
        constant_reshaped, constant_doubled_or_gone, operator_swapped, attribute_changed, input_rewired, inputs_swapped,
        node_added, nodes_reordered, classes_swapped, frame_changed, metadata_changed, tensor_made_odd,
    ),
    "domain": MUTATIONS["domain"],
    "certificate": MUTATIONS["certificate"],
    "likely": (
        combinations_changed, single_value, rules_changed, range_changed, sensitive_changed, kind_changed,
        tree_number_changed, leaf_numbers_rounded,
    ),
}  # fmt: skip
