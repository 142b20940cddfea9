"""Is what was claimed of a bundle true? Judged by an interpreter of ONNX graphs, and by onnxruntime.

Nothing of bornfair or of its checker is used: the file is parsed by `onnx`, nodes are evaluated here, in exact
fractions, in float64, or in float32 with sums in an order of one's choice; people, twins and rules are read anew.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Files = dict[str, bytes]
Person = dict[str, Any]
FLOAT, INT64, STRING, BOOL, DOUBLE = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING, TensorProto.BOOL, TensorProto.DOUBLE
)  # fmt: skip
fractions = np.vectorize(Fraction, otypes=[object])
ORDERS: dict[str, Callable[[int], Any]] = {"first to last": range, "last to first": lambda n: range(n - 1, -1, -1)}


class Unknown(Exception):
    """A graph that this interpreter does not run."""


class Machine:
    """How numbers are computed: "exact", "float64", or "float32" with sums of products in the order given."""

    def __init__(self, kind: str, order: Callable[[int], Any] = range) -> None:
        self.kind, self.order = kind, order

    def cast(self, values: np.ndarray, to: int) -> np.ndarray:
        if to in (INT64, BOOL):
            return values.astype(np.int64 if to == INT64 else bool)
        if self.kind == "exact":
            return values if values.dtype == object else fractions(values.astype(np.float64).astype(object))
        return values.astype(np.float32 if to == FLOAT and self.kind == "float32" else np.float64)

    def product(self, x: np.ndarray, weights: np.ndarray, bias: Any = None) -> np.ndarray:
        """x·weights + bias, one product after the other."""
        total = np.zeros((len(x), weights.shape[1]), dtype=x.dtype) + (0 if x.dtype != object else Fraction(0))
        total = total.astype(x.dtype)
        terms = [(x[:, k : k + 1], weights[k]) for k in self.order(weights.shape[0])]
        for values, row in terms:
            total = total + values * row
        return total if bias is None else total + bias


class Graph:
    """One model file, ready to be evaluated for many people at once."""

    def __init__(self, content: bytes) -> None:
        self.model = onnx.load_from_string(content)
        graph = self.model.graph
        self.types = {item.name: item.type.tensor_type.elem_type for item in graph.input}
        self.constants = {t.name: (t.data_type, numpy_helper.to_array(t)) for t in graph.initializer}
        self.makers = {name: node for node in graph.node for name in node.output}
        self.label = graph.output[0].name

    def operators(self, name: str) -> set[str]:
        """What a value is computed by."""
        found, waiting = dict[str, str](), [name]
        while waiting:
            name = waiting.pop()
            if name in self.makers and name not in found:
                found[name] = self.makers[name].op_type
                waiting += self.makers[name].input
        return set(found.values())

    def run(self, people: list[Person], machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What everybody gets: names of classes, the scores they come from, and who is refused an answer."""
        run = _Run(self, people, machine)
        labels = np.array([_shown(value) for value in run.value(self.label)], dtype=object)
        deciding = next(n for n in self.model.graph.node if n.op_type in ("Greater", "ArgMax"))
        scores = run.known[deciding.input[0]]
        if deciding.op_type == "Greater":  # where it decides need not be 0
            scores = scores - run.value(deciding.input[1])
        return labels, scores, run.refused


def _shown(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class _Run:
    def __init__(self, graph: Graph, people: list[Person], machine: Machine) -> None:
        self.graph, self.people, self.machine = graph, people, machine
        self.refused, self.known = np.zeros(len(people), bool), dict[str, np.ndarray]()

    def value(self, name: str) -> np.ndarray:
        if name not in self.known:
            self.known[name] = self._find(name)
        return self.known[name]

    def _find(self, name: str) -> np.ndarray:
        if name in self.graph.types:
            return self._fed(name, self.graph.types[name])
        if name in self.graph.constants:
            kind, values = self.graph.constants[name]
            return self.machine.cast(values, kind) if kind in (FLOAT, DOUBLE) else values
        node = self.graph.makers[name]
        options = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if not hasattr(self, f"do_{node.op_type.lower()}"):
            raise Unknown(node.op_type)
        return getattr(self, f"do_{node.op_type.lower()}")(*map(self.value, node.input), **options)

    def _fed(self, name: str, kind: int) -> np.ndarray:
        column = [person[name] for person in self.people]
        if kind == STRING:
            return np.array(["" if v is None else str(v) for v in column], object)[:, None]
        if kind in (INT64, BOOL):
            return np.array(column, np.int64 if kind == INT64 else bool)[:, None]
        if self.machine.kind == "exact":
            return np.array([math.nan if v is None else Fraction(v) for v in column] + [None], object)[:-1, None]
        return np.array([math.nan if v is None else float(v) for v in column])[:, None]

    # --- operators, with the attributes that they may have ---

    def do_cast(self, x: Any, to: int) -> Any:
        return self.machine.cast(x, to)

    def do_concat(self, *parts: Any, axis: int) -> Any:
        return np.concatenate(parts, axis=axis)

    def do_isnan(self, x: Any) -> Any:
        return (x != x).astype(bool)

    def do_where(self, condition: Any, yes: Any, no: Any) -> Any:
        return np.where(condition, yes, no)

    def do_greaterorequal(self, a: Any, b: Any) -> Any:
        return (a >= b).astype(bool)

    def do_lessorequal(self, a: Any, b: Any) -> Any:
        return (a <= b).astype(bool)

    def do_greater(self, a: Any, b: Any) -> Any:
        return (a > b).astype(bool)

    def do_and(self, a: Any, b: Any) -> Any:
        return a & b

    def do_max(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    def do_min(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def do_sub(self, a: Any, b: Any) -> Any:
        return a - b

    def do_add(self, a: Any, b: Any) -> Any:
        return a + b

    def do_mul(self, a: Any, b: Any) -> Any:
        return a * b

    def do_div(self, a: Any, b: Any) -> Any:
        return a / b

    def do_reducemin(self, x: Any, axes: Any, keepdims: int = 1) -> Any:
        return x.min(axis=tuple(axes), keepdims=bool(keepdims))

    def do_squeeze(self, x: Any, axes: Any) -> Any:
        return np.squeeze(x, axis=tuple(axes))

    def do_onehotencoder(self, x: Any, zeros: int = 1, cats_strings: Any = None, cats_int64s: Any = None) -> Any:
        listed = [c.decode() for c in cats_strings] if cats_strings is not None else list(cats_int64s)
        hot = np.stack([x == level for level in listed], axis=-1).astype(np.float64)
        if not zeros:
            self.refused |= ~hot.reshape(len(self.people), -1).any(axis=1)
        return self.machine.cast(hot, FLOAT)

    def do_labelencoder(
        self, x: Any, values_int64s: Any, keys_strings: Any = None, keys_int64s: Any = None, default_int64: int = -1
    ) -> Any:
        keys = [key.decode() for key in keys_strings] if keys_strings is not None else list(keys_int64s)
        table = dict(zip(keys, values_int64s, strict=True))
        return np.vectorize(lambda value: table.get(value, default_int64), otypes=[np.int64])(x)

    def do_treeensemble(self, x: Any, **given: Any) -> Any:
        """Trees from the roots, person by person; leaves in the order of the machine."""
        if given["aggregate_function"] != 1 or given["post_transform"] != 0 or given["n_targets"] > 1000:
            raise Unknown("trees that are not added up")
        arrays = {k: numpy_helper.to_array(v) for k, v in given.items() if isinstance(v, TensorProto)}
        modes, splits, weights = (arrays[name].tolist() for name in ("nodes_modes", "nodes_splits", "leaf_weights"))
        sets, listed = list[set[float]](), [set[float]()]
        for number in arrays.get("membership_values", np.zeros(0)).tolist():
            if number != number:
                sets.append(listed.pop())
                listed.append(set())
            else:
                listed[-1].add(number)
        which = {node: sets[k] for k, node in enumerate(i for i, mode in enumerate(modes) if mode == 6)}
        sides = [(given[f"nodes_{s}nodeids"], given[f"nodes_{s}leafs"]) for s in ("true", "false")]
        exact = x.dtype == object
        total = np.full((len(x), given["n_targets"]), Fraction(0) if exact else 0.0, object if exact else float)
        roots = given["tree_roots"]
        for row in range(len(x)):
            for k in self.machine.order(len(roots)):
                at, leaf, steps = roots[k], False, 0
                while not leaf:
                    number = x[row, given["nodes_featureids"][at]]
                    yes = bool(number in which[at]) if modes[at] == 6 else bool(number <= splits[at])
                    if modes[at] not in (0, 6) or (steps := steps + 1) > len(modes):
                        raise Unknown("trees of another kind")
                    if number != number:
                        yes = bool(given["nodes_missing_value_tracks_true"][at])
                    ids, leaves = sides[0 if yes else 1]
                    at, leaf = ids[at], bool(leaves[at])
                value = Fraction(weights[at]) if exact else weights[at]
                total[row, given["leaf_targetids"][at]] += value
        return total

    def do_matmul(self, x: Any, weights: Any) -> Any:
        return self.machine.product(x, weights)

    def do_gemm(self, x: Any, weights: Any, bias: Any, transB: int = 0) -> Any:
        return self.machine.product(x, weights.T if transB else weights, bias)

    def do_relu(self, x: Any) -> Any:
        return np.maximum(x, 0 if x.dtype != object else Fraction(0))

    def do_tanh(self, x: Any) -> Any:
        return np.tanh(self._rounded(x))

    def do_sigmoid(self, x: Any) -> Any:
        return 1 / (1 + np.exp(-self._rounded(x)))

    def _rounded(self, x: Any) -> Any:
        if x.dtype == object:
            raise Unknown("an activation that fractions cannot follow")
        return x

    def do_argmax(self, x: Any, axis: int = 0, keepdims: int = 1) -> Any:
        best = np.argmax(x, axis=axis)
        return np.expand_dims(best, axis) if keepdims else best

    def do_gather(self, x: Any, index: Any, axis: int = 0) -> Any:
        return np.take(x, index, axis=axis)


# --- onnxruntime ---


def session_of(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def served(session: Any, people: list[Person]) -> np.ndarray:
    """Names of the classes that onnxruntime gives to people."""
    kinds = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}
    feed = {}
    for item in session.get_inputs():
        values = [person[item.name] for person in people]
        text = item.type == "tensor(string)"
        feed[item.name] = np.array(
            ["" if v is None else str(v) for v in values] if text else values, kinds.get(item.type, object)
        )[:, None]
    labels = session.run(None, feed)[0]
    if np.shape(labels) != (len(people),):
        raise ValueError(f"{len(people)} people get {np.shape(labels)} decisions")
    return np.array([_shown(label) for label in labels], object)


# --- who exists, and who is whose twin ---


def values_of(feature: dict[str, Any], chance: random.Random, most: int) -> list[Any]:
    """All values of a feature, None for a gap; of many, the ends and some others."""
    if feature.get("missing"):
        return [*values_of({**feature, "missing": False}, chance, most), None]
    if feature["kind"] == "categorical":
        return list(feature["categories"])
    if feature["kind"] == "boolean":
        return [False, True]
    low, high = feature["low"], feature["high"]
    if feature["kind"] == "integer":
        if high - low < most:
            return list(range(low, high + 1))
        return sorted({low, high, *(chance.randint(int(low), int(high)) for _ in range(most - 2))})
    between = [min(max(low + (high - low) * chance.random(), low), high) for _ in range(most - 3)]
    return sorted({low, high, min(max(low + (high - low) / 2, low), high), *between})


def some(lists: list[list[Any]], chance: random.Random, most: int) -> list[tuple[Any, ...]]:
    """The product of lists, or as many of it as asked."""
    if np.prod([float(len(values)) for values in lists]) <= most:
        return list(itertools.product(*lists))
    return [tuple(chance.choice(values) for values in lists) for _ in range(most)]


def fed_instead(feature: dict[str, Any]) -> list[Any]:
    """What the domain does not list, and somebody may feed all the same."""
    if feature["kind"] == "boolean":
        return []
    if feature["kind"] == "categorical":
        return [987_654] if all(type(c) is int for c in feature["categories"]) else ["never seen", ""]
    step = 1 if feature["kind"] == "integer" else 1.0
    more = [10**6, -(10**12)] if feature["kind"] == "integer" else [1e6, -1e30, 1e300]
    return [feature["low"] - step, feature["high"] + step, *more]


def moved(person: Person, rule: list[dict[str, Any]], sensitive: list[str]) -> Person | None:
    """A person as a rule has it, but for sensitive values; None if that cannot be written down."""
    other = dict(person)
    for move in (move for move in rule if move["feature"] not in sensitive):
        value = person[move["feature"]]
        if value is None:
            continue
        if move["kind"] == "mirror":
            exact = Fraction(move["total"]) - Fraction(value)
            other[move["feature"]] = type(value)(exact)
            if other[move["feature"]] != exact:
                return None
        else:
            for cycle in move["cycles"]:
                if value in cycle:
                    other[move["feature"]] = cycle[(cycle.index(value) + 1) % len(cycle)]
    return other


# --- the judge ---


def contradiction(files: Files, found: dict[str, Any], seed: int = 0, count: int = 60) -> str | None:
    """What is untrue about an accepted claim; None if nothing was found among `count` people and their twins."""
    if not found["valid"] or found["verdict"] == "undecided":
        return None
    try:
        with np.errstate(all="ignore"):
            return _contradiction(files, found, seed, count)
    except Exception as error:  # noqa: BLE001 - whatever a graph makes onnxruntime or numpy throw
        return f"the model does not run: {type(error).__name__}: {str(error)[:200]}"


def _contradiction(files: Files, found: dict[str, Any], seed: int, count: int) -> str | None:
    judge = Judge(files, found["arithmetic"], random.Random(seed))
    if found["verdict"] == "falsified":
        return judge.about_twins(json.loads(files["certificate.json"]))
    structural = found["proof"] == "structural"
    same = judge.about_scores(count // 5, anything=True) if structural else None
    return same or judge.about_everybody(count, anything=structural)


class Judge:
    def __init__(self, files: Files, arithmetic: list[str], chance: random.Random) -> None:
        self.domain, self.arithmetic, self.chance = json.loads(files["domain.json"]), arithmetic, chance
        self.graph, self.session = Graph(files["model.onnx"]), session_of(files["model.onnx"])
        self.features = {feature["name"]: feature for feature in self.domain["features"]}
        self.exact = not self.graph.operators(self.graph.label) & {"Tanh", "Gelu", "Sigmoid"}
        sizes = [float(abs(v).max(initial=0)) for kind, v in self.graph.constants.values() if kind in (FLOAT, DOUBLE)]
        self.turns = _turns(self.graph.model)
        self.tame = max((size for size in sizes if size < 1e300), default=0.0) < 1e5

    def answers(self, people: list[Person]) -> list[tuple[str, np.ndarray]]:
        """What people provably get, once for each way of computing: None where that way does not tell."""
        found = []
        if "real" in self.arithmetic:
            found.append(("real numbers", self._real(people)))
        if "float32" in self.arithmetic:
            for name, order in ORDERS.items():
                labels, _, refused = self.graph.run(people, Machine("float32", order))
                found.append((f"float32, {name}", _without(labels, refused)))
            labels = np.full(len(people), None, object)
            kept = np.flatnonzero(~refused)
            labels[kept] = served(self.session, [people[i] for i in kept]) if len(kept) else []
            found.append(("onnxruntime", labels))
        if "float64" in self.arithmetic:
            for name, order in ORDERS.items():
                labels, _, refused = self.graph.run(people, Machine("float64", order))
                found.append((f"float64, {name}", _without(labels, refused)))
            found.append(("onnxruntime", served(self.session, people)))
        return found

    def _real(self, people: list[Person]) -> np.ndarray:
        """By float64 where it is far from a tie, and in fractions where it is not, and for some people always."""
        labels, scores, refused = self.graph.run(people, Machine("float64"))
        ordered = np.sort(np.concatenate([scores, 0 * scores], axis=1) if scores.shape[1] == 1 else scores, axis=1)
        near = ~(ordered[:, -1] - ordered[:, -2] > 1e-6 * (1 + np.abs(ordered).max(axis=1)))
        if not self.exact:
            return _without(labels, refused | near)
        again = near | (not self.tame)
        again[self.chance.sample(range(len(people)), min(len(people), 12))] = True
        rows = np.flatnonzero(again & ~refused)
        if len(rows):
            labels[rows] = self.graph.run([people[i] for i in rows], Machine("exact"))[0]
        return _without(labels, refused)

    def about_everybody(self, count: int, *, anything: bool) -> str | None:
        rows = self.twins(count, anything=anything)
        for how, labels in self.answers([person for _, person in rows]):
            first: dict[int, int] = {}
            for k, (i, person) in enumerate(rows):
                if labels[k] is None:
                    continue
                one = first.setdefault(i, k)
                if labels[one] != labels[k]:
                    return f"in {how} {rows[one][1]} gets {labels[one]}, and is decided differently as {person}"
        return None

    def about_scores(self, count: int, *, anything: bool) -> str | None:
        """How the scores behind decisions differ between twins: a structural proof says that they do not."""
        rows = self.twins(count, anything=anything)
        machines = [Machine("exact" if self.exact else "float64")]
        if "real" not in self.arithmetic or not (self.exact or self.tame):
            machines = []
        if "float32" in self.arithmetic:
            machines += [Machine("float32"), Machine("float32", lambda n: range(n - 1, -1, -1))]
        if "float64" in self.arithmetic:
            machines += [Machine("float64", order) for order in ORDERS.values()]
        for machine in machines:
            _, scores, refused = self.graph.run([person for _, person in rows], machine)
            first: dict[int, int] = {}
            for k, (i, person) in enumerate(rows):
                kind = "float32" if "float64" in self.arithmetic and machine.kind != "exact" else machine.kind
                if not refused[k] and not _equal(scores[first.setdefault(i, k)], scores[k], kind):
                    return f"in {machine.kind} {rows[first[i]][1]} has other scores than {person}"
        return None

    def twins(self, count: int, *, anything: bool) -> list[tuple[int, Person]]:
        """Up to so many people, with their twins; who belong together have one number."""
        sensitive, chance = self.domain["sensitive"], self.chance
        free = [name for name in self.features if name not in sensitive]
        lists = [self._values(name, 8) for name in free]
        people = [dict(zip(free, values, strict=True)) for values in some(lists, chance, count)]
        versions = self._versions(anything)
        rules = [[], *self.domain.get("twins", [])]
        groups = [[q for rule in rules if (q := moved(p, rule, sensitive)) is not None] for p in people]
        return [(i, q | v) for i, group in enumerate(groups) for q in group for v in versions]

    def _values(self, name: str, most: int) -> list[Any]:
        """Values of a feature, among them some where trees turn, and the next beyond."""
        feature = self.features[name]
        found, turns = values_of(feature, self.chance, most), self.turns.get(name, [])
        for turn in self.chance.sample(turns, min(len(turns), 3)):
            if feature["kind"] == "integer":
                found += [math.floor(turn), math.floor(turn) + 1]
            elif feature["kind"] == "real":
                found += [turn, math.nextafter(turn, math.inf)]
        number = feature["kind"] in ("integer", "real")
        kept = (v for v in found if not number or v is None or feature["low"] <= v <= feature["high"])
        return list(dict.fromkeys(kept))

    def _versions(self, anything: bool) -> list[Person]:
        """Sensitive values that exist, some of many; or anything that may be fed."""
        sensitive, rows = self.domain["sensitive"], self.domain["combinations"]
        if rows is None or anything:
            lists = [self._values(name, 9) for name in sensitive]
            rows = some(lists, self.chance, 12)
            if anything:
                wide = [[*values, *fed_instead(self.features[n])] for n, values in zip(sensitive, lists, strict=True)]
                rows = [*rows, *some(wide, self.chance, 24)]
        elif len(rows) > 12:
            rows = self.chance.sample(rows, 12)
        return [dict(zip(sensitive, row, strict=True)) for row in rows]

    def about_twins(self, facts: dict[str, Any]) -> str | None:
        one, other = facts["twins"]
        sensitive = self.domain["sensitive"]
        if not self._are_twins(one, other):
            return f"{one} and {other} are not twins"
        for row in (self.domain["combinations"] is not None and [one, other]) or []:
            if [row[name] for name in sensitive] not in self.domain["combinations"]:
                return f"{row} does not exist"
        for how, labels in self.answers([one, other]):
            said = [str(decision) for decision in facts["decisions"]]
            if None not in list(labels) and (list(labels) != said or labels[0] == labels[1]):
                return f"in {how} the twins get {list(labels)}"
        return None

    def _are_twins(self, one: Person, other: Person) -> bool:
        """Whether rules lead from one to the other, sensitive values aside."""
        sensitive = self.domain["sensitive"]
        free = [name for name in self.features if name not in sensitive]
        reached, fresh = [one], [one]
        while fresh and len(reached) < 5000:
            made = [moved(person, rule, sensitive) for person in fresh for rule in self.domain.get("twins", [])]
            fresh = []
            for person in made:
                if person is not None and person not in reached:
                    reached.append(person)
                    fresh.append(person)
        return any(all(person[name] == other[name] for name in free) for person in reached)


def _turns(model: onnx.ModelProto) -> dict[str, list[float]]:
    """For raw columns that trees read as they are: the thresholds of their splits."""
    found: dict[str, list[float]] = {}
    makers = {name: node for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type != "TreeEnsemble" or node.input[0] not in makers or "nodes_splits" not in given:
            continue
        names = list(makers[node.input[0]].input)
        for column, split in zip(given["nodes_featureids"], numpy_helper.to_array(given["nodes_splits"]), strict=False):
            if 0 <= column < len(names) and math.isfinite(split):
                found.setdefault(names[column], []).append(float(split))
    return found


def _without(labels: np.ndarray, gone: np.ndarray) -> np.ndarray:
    return np.where(gone, None, labels)


def _equal(one: np.ndarray, other: np.ndarray, kind: str) -> bool:
    if kind == "exact":
        return bool((one == other).all())
    room = 1e-10 if kind == "float64" else 0.0  # our own rounding, where fractions cannot follow
    return np.allclose(one.astype(float), other.astype(float), rtol=room, atol=room, equal_nan=True)
