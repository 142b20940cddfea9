"""A foreign graph inside one of ours: raw columns in, label and probabilities out.

The foreign nodes are kept as they are, under other names, and are not interpreted. The nodes around them decide
fairness, which follows from the wires alone (`bornfair.models.graph.wiring`): no node reads a sensitive column. When
merged, the foreign graph reads what twins have in common. When averaged, all versions of a person, made of what twins
have in common and of constants, are decided in one batch. A class that all versions get is the decision; otherwise the
mean of their shares decides, at the operating point of the foreign graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.graph.wiring import reads_of
from bornfair.models.graph_draft import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT64,
    STRING,
    GraphDraft,
    as_text,
    input_type,
    served_classes,
)
from bornfair.models.operating import Operating, point_of_means
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.twins.versions import Folding

WIRED = "bornfair.wired"
UNSEEN = "(not in the domain)"
OLDEST = 9  # version of ONNX's operators in which all of ours can be written
Form = Literal["shares", "share", "logits", "logit"]
Method = Literal["as it is", "merge", "average"]


@dataclass(frozen=True)
class Taken:
    """One input of a foreign graph: its element type, rank, and the features that are its columns."""

    name: str
    element: int
    rank: int
    features: tuple[str, ...]


@dataclass(frozen=True)
class LabelOutput:
    """The output of a foreign graph that holds its decision, and its names of the classes, in order."""

    name: str
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """A foreign graph with its inputs and outputs."""

    model: Any
    takes: tuple[Taken, ...]
    gives: str
    form: Form
    label: LabelOutput | None = None
    """None: it shows scores only, or another threshold than its own is asked for."""

    @staticmethod
    def of_own(content: bytes, domain: Domain) -> Core:
        """A graph of bornfair: one input for each column, its decision and shares as outputs."""
        from onnx import load_from_string

        model = load_from_string(content)
        takes = tuple(Taken(i.name, i.type.tensor_type.elem_type, 2, (i.name,)) for i in model.graph.input)
        assert {one.name for one in takes} <= set(domain.names)
        label, shown = (output.name for output in model.graph.output)
        return Core(model, takes, shown, "shares", LabelOutput(label, tuple(served_classes(domain).tolist())))

    @property
    def features(self) -> frozenset[str]:
        return frozenset(name for taken in self.takes for name in taken.features)


def around(core: Core, domain: Domain, method: Method, *, at: Operating | None = None, sensitive: bool = True) -> bytes:
    """A foreign graph with ours around it.

    Args:
        core: theirs.
        domain: who exists; its label names the classes in the order of theirs.
        method: "merge" shows it what twins have in common, "average" decides by the mean over all versions; "as it is"
            changes nothing.
        at: where shares decide, if not by the largest: those of a graph without a decision of its own, and means.
        sensitive: whether the sensitive columns are declared as inputs, which none but "as it is" reads.
    """
    return _Around(core, domain, method, sensitive).build(at)


class _Around(GraphDraft):
    def __init__(self, core: Core, domain: Domain, method: Method, sensitive: bool) -> None:
        self.core, self.method, self.folding = core, method, Folding(domain)
        if method == "average":
            self.folding.check()
        if method != "as it is" and not domain.free_features:
            raise InputError("every feature is sensitive; what twins have in common is nothing to decide from.")
        if method == "merge" and (read := core.features & set(domain.sensitive)):
            raise InputError(f"the model reads {sorted(read)}, which is sensitive; average it, or train it without.")
        super().__init__(domain, sensitive)
        self.prefix = "model/"
        while any(feature.name.startswith(self.prefix) for feature in domain.features):
            self.prefix = f"the {self.prefix}"
        self.taken |= {feature.name for feature in domain.features}
        self.made: dict[tuple[str, int], str] = {}
        self.versions = _versions(core.model)

    def build(self, at: Operating | None) -> bytes:
        model = self.core.model
        read = {output.name for output in model.graph.output}.union(*map(reads_of, model.graph.node))
        for taken in self.core.takes:
            if taken.name in read:
                self._fed(taken)
        self.nodes += list(_renamed(model.graph.node, self.prefix))
        each = self._shares(self.prefix + self.core.gives)
        shares = self._mean(each)
        classes = served_classes(self.domain)
        index = self._own_class(each, at)
        if shares != each:
            index = self._unanimous(index, self._by_shares(shares, point_of_means(at, len(classes))))
        label = self.label(index)
        shown = self.node("Cast", [shares], "probabilities", to=FLOAT)
        graph = self.graph(label, shown, len(classes), input_type)
        for tensor in model.graph.initializer:
            added = graph.initializer.add()
            added.CopyFrom(tensor)
            added.name = self.prefix + tensor.name
        for sparse in model.graph.sparse_initializer:
            added = graph.sparse_initializer.add()
            added.CopyFrom(sparse)
            added.values.name = self.prefix + sparse.values.name
        told: dict[str, Any] = {"method": self.method, "versions": self.folding.size if self.method == "average" else 1}
        if at is not None:
            told |= at.to_json()
        ir_version = min(max(model.ir_version, 8), 14)
        return self.finished(graph, self.versions, ir_version, {WIRED: told}, model.functions)

    # --- raw columns to theirs ---

    def _fed(self, taken: Taken) -> None:
        columns = [self._versions_of(self.domain.feature(name), taken) for name in taken.features]
        value = self.node("Concat", columns, f"columns of {taken.name}", axis=1) if len(columns) > 1 else columns[0]
        if taken.rank == 1:
            value = self.node("Reshape", [value, self.constant(np.array([-1]), "flat")], f"flat {taken.name}")
        self.nodes.append(self.helper.make_node("Identity", [value], [self.prefix + taken.name]))

    def _versions_of(self, feature: Feature, taken: Taken) -> str:
        """A column in all versions of everybody, one below the other, as theirs takes it."""
        name = feature.name
        if self.method != "average":
            return self._as_taken(feature, self._folded(feature, 0) if self.method == "merge" else name, taken)
        place = self.domain.sensitive.index(name) if name in self.domain.sensitive else None
        parts = []
        for values, turns in self.folding.versions():
            value = self._folded(feature, turns.get(name, 0)) if place is None else self._same(feature, values[place])
            parts.append(self._as_taken(feature, value, taken))
        return self.node("Concat", parts, f"versions of {name}", axis=0) if len(parts) > 1 else parts[0]

    def _folded(self, feature: Feature, turn: int) -> str:
        """A column of which twins have the same, as a version has it."""
        name = feature.name
        if name not in self.folding.turns or (name, turn) in self.made:
            return self.made.get((name, turn), name)
        self.made[name, turn] = made = self._version(feature, turn)
        return made

    def _version(self, feature: Feature, turn: int) -> str:
        name = feature.name
        if isinstance(feature, NUMERIC):
            total = self.constant(np.array([[self.folding.domain.number(name).total + 0.0]]), f"total {name}")
            other = self.node("Sub", [total, name], f"mirrored {name}")
            again = self.node("Sub", [total, other], f"again {name}")  # never −0.0, which a twin would have as 0.0
            return self.node("Max" if turn else "Min", [again, other], f"folded {name}")
        goes = self.folding.places(name, turn)
        if feature.kind == "boolean":
            return self._same(feature, bool(goes[0]))
        levels, first = list(feature.levels()), self.folding.places(name, 0)
        text = input_type(feature) == STRING
        keys = as_text(levels, name) if text else levels
        place = self.node(
            "LabelEncoder", [name], f"orbit {name}", domain="ai.onnx.ml", default_int64=len(levels),
            values_int64s=first, **{"keys_strings" if text else "keys_int64s": keys},
        )  # fmt: skip
        shown: list[Any] = [keys[i] for i in goes]
        shown.append(UNSEEN if text else max(map(int, levels)) + 1)
        table = self.constant(np.array(shown, object if text else np.int64), f"levels {name}")
        return self.node("Gather", [table, place], f"version {name}", axis=0)

    def _same(self, feature: Feature, value: Value) -> str:
        """A column that holds one value for everybody."""
        kind = input_type(feature)
        if kind == STRING:
            held = np.array([[str(value)]], object)
        else:
            held = np.array([[value]], {BOOL: np.bool_, INT64: np.int64, DOUBLE: np.float64}[kind])
        constant = self.constant(held, f"value of {feature.name}")
        return self.node("Expand", [constant, self._shape()], f"all {feature.name}")

    def _shape(self) -> str:
        """[rows, 1], from a column that twins share."""
        if ("", 0) not in self.made:
            still = [f for f in self.domain.free_features if f.name not in self.folding.turns]
            seen = still or [f for f in self.domain.free_features if f.kind != "boolean"]
            if not seen:
                raise InputError("rules exchange every value of every feature; there is nothing to decide from.")
            source = seen[0].name if still else self._folded(seen[0], 0)
            self.made["", 0] = self.node("Shape", [source], "rows and 1")
        return self.made["", 0]

    def _as_taken(self, feature: Feature, value: str, taken: Taken) -> str:
        own = input_type(feature)
        if own == taken.element:
            return value
        if STRING in (own, taken.element):
            raise InputError(
                f"the model takes {'texts' if taken.element == STRING else 'numbers'} for '{feature.name}', which is "
                f"{feature.kind} in the domain; make the encoding part of the model (a pipeline), or give the table as "
                "the model reads it."
            )
        if (value, taken.element) not in self.made:
            self.made[value, taken.element] = self.node("Cast", [value], f"cast {feature.name}", to=taken.element)
        return self.made[value, taken.element]

    # --- theirs to the decision ---

    def _shares(self, value: str) -> str:
        """The shares of the classes that the foreign graph shows, in double."""
        count = len(served_classes(self.domain))
        single = self.core.form in ("share", "logit")
        value = self.node("Reshape", [value, self.constant(np.array([-1, 1 if single else count]), "flat")], "scores")
        value = self.node("Cast", [value], "scores", to=DOUBLE)
        if self.core.form == "logits":
            return self.node("Softmax", [value], "shares", axis=1)
        if not single:
            return value
        if self.core.form == "logit":
            value = self.node("Sigmoid", [value], "share")
        rest = self.node("Sub", [self.constant(np.array([[1.0]]), "one"), value], "against")
        return self.node("Concat", [rest, value], "shares", axis=1)

    def _own_class(self, shares: str, at: Operating | None) -> str:
        """The index of the class that theirs decides."""
        label = self.core.label
        if label is None:
            return self._by_shares(shares, at)
        text = any(isinstance(value, str) for value in label.values)
        value = self.prefix + label.name
        if not text:  # true/false, whole numbers, or these as floats
            value = self.node("Cast", [value], "decision", to=INT64)
        known: dict[str, Any] = {"keys_strings": list(label.values)} if text else {
            "keys_int64s": [int(one) for one in label.values]
        }  # fmt: skip
        count = len(label.values)
        place = self.node(
            "LabelEncoder", [value], "decided class", domain="ai.onnx.ml", default_int64=count,  # of no class: it stops
            values_int64s=list(range(count)), **known,
        )  # fmt: skip
        return self.node("Reshape", [place, self.constant(np.array([-1]), "flat")], "own class")

    def _by_shares(self, shares: str, at: Operating | None) -> str:
        if at is None:
            return self.node("ArgMax", [shares], "class", axis=1, keepdims=0)
        if len(at.above) > 1:
            multiples = self.node("Div", [shares, self.row(list(at.above), "where it decides")], "multiples")
            return self.node("ArgMax", [multiples], "class", axis=1, keepdims=0)
        share = self.node("Gather", [shares, self.constant(np.array(at.place), "its class")], "its share", axis=1)
        number = self.constant(np.array(at.above[0]), "where it decides")
        one, other = (self.constant(np.array(place), "class") for place in (at.place, 1 - at.place))
        if at.ties:
            return self.node("Where", [self.node("Less", [share, number], "below"), other, one], "class")
        return self.node("Where", [self.node("Greater", [share, number], "above"), one, other], "class")

    def _unanimous(self, each: str, otherwise: str) -> str:
        """The class that all versions get, where they get one; else another."""
        sizes = self.constant(np.array([self.folding.size, -1]), "versions apart")
        apart = self.node("Reshape", [each, sizes], "classes of versions")
        least, most = (self._over_versions(operator, apart) for operator in ("ReduceMin", "ReduceMax"))
        return self.node("Where", [self.node("Equal", [least, most], "one class"), least, otherwise], "decided")

    def _over_versions(self, operator: str, values: str) -> str:
        if self.versions[""] >= (13 if operator == "ReduceSum" else 18):
            first = self.constant(np.array([0]), "first axis")
            return self.node(operator, [values, first], "over versions", keepdims=0)
        return self.node(operator, [values], "over versions", axes=[0], keepdims=0)

    def _mean(self, shares: str) -> str:
        if self.method != "average" or self.folding.size == 1:
            return shares
        sizes = self.constant(np.array([self.folding.size, -1, len(served_classes(self.domain))]), "versions apart")
        apart = self.node("Reshape", [shares, sizes], "shares of versions")
        total = self._over_versions("ReduceSum", apart)
        return self.node("Div", [total, self.constant(np.array([[float(self.folding.size)]]), "versions")], "mean")


def _versions(model: Any) -> dict[str, int]:
    """The versions of operators: theirs, of which ours makes use too."""
    found = {"" if item.domain == "ai.onnx" else item.domain: int(item.version) for item in model.opset_import}
    if found.setdefault("", 18) < OLDEST:
        raise InputError(f"the model is written for version {found['']} of ONNX's operators; export it for {OLDEST}.")
    if found.setdefault("ai.onnx.ml", 3) < 2:
        if any(node.op_type == "LabelEncoder" for node in model.graph.node):
            raise InputError("the model uses the first LabelEncoder of ai.onnx.ml; export it for version 2 or later.")
        found["ai.onnx.ml"] = 3
    return found


def _renamed(nodes: Any, prefix: str) -> Iterator[Any]:
    """Nodes as they came, with every name in them and in their bodies behind a prefix."""
    from onnx import NodeProto

    for node in nodes:
        made = NodeProto()
        made.CopyFrom(node)
        for names in (made.input, made.output):
            names[:] = [prefix + name if name else name for name in names]
        made.name = prefix + made.name if made.name else ""
        for attribute in made.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                _rename_body(body, prefix)
        yield made


def _rename_body(body: Any, prefix: str) -> None:
    nodes = list(_renamed(body.node, prefix))
    del body.node[:]
    body.node.extend(nodes)
    sparse = [tensor.values for tensor in body.sparse_initializer]
    for item in (*body.input, *body.output, *body.value_info, *body.initializer, *sparse):
        item.name = prefix + item.name
