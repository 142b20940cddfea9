"""How is somebody's graph shipped with ours around it? Raw columns in, label and probabilities out, theirs inside.

Theirs is not interpreted: its nodes stand there as they came, under other names. What ours does around it decides
fairness, and can be told from the wires alone (`bornfair.models.wiring`): no node reads a sensitive column. Merged,
theirs is shown what twins have in common; averaged, all versions of a person, which are made of what twins have in
common and of constants, go through it in one batch, and the mean of their shares decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bornfair import __version__
from bornfair.errors import InputError
from bornfair.models.onnx_graph import BOOL, DOUBLE, FLOAT, INT64, STRING, as_text, input_type, served_classes
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.twins.folding import Folding

if TYPE_CHECKING:
    import onnx

WIRED = "bornfair.wired"
UNSEEN = "(not in the domain)"
OLDEST = 9  # version of ONNX's operators in which all of ours can be written
Form = Literal["shares", "share", "logits", "logit"]
Method = Literal["as it is", "merge", "average"]


@dataclass(frozen=True)
class Taken:
    """One input of somebody's graph: its element type, rank, and the features that are its columns."""

    name: str
    element: int
    rank: int
    features: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """Somebody's graph, and what ours has to know of it: what it takes, and which output shows what."""

    model: Any
    takes: tuple[Taken, ...]
    gives: str
    form: Form

    @staticmethod
    def of_own(content: bytes, domain: Domain) -> Core:
        """A graph of bornfair: one input for each column, shares as its second output."""
        from onnx import load_from_string

        model = load_from_string(content)
        takes = tuple(Taken(i.name, i.type.tensor_type.elem_type, 2, (i.name,)) for i in model.graph.input)
        assert {one.name for one in takes} <= set(domain.names)
        return Core(model, takes, model.graph.output[1].name, "shares")

    @property
    def features(self) -> frozenset[str]:
        return frozenset(name for taken in self.takes for name in taken.features)


def around(core: Core, domain: Domain, method: Method, *, at: float | None = None, sensitive: bool = True) -> bytes:
    """Somebody's graph with ours around it.

    Args:
        core: theirs.
        domain: who exists; its label names the classes in the order of theirs.
        method: "merge" shows it what twins have in common, "average" decides by the mean over all versions; "as it is"
            changes nothing.
        at: the share above which the last of two classes is decided, if not ½.
        sensitive: whether the sensitive columns are declared as inputs, which none but "as it is" reads.
    """
    return _Around(core, domain, method, sensitive).build(at)


class _Around:
    """Nodes and constants in the making."""

    def __init__(self, core: Core, domain: Domain, method: Method, sensitive: bool) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.core, self.domain, self.method, self.folding = core, domain, method, Folding(domain)
        if method == "average":
            self.folding.check()
        if method != "as it is" and not domain.free_features:
            raise InputError("every feature is sensitive; what twins have in common is nothing to decide from.")
        if method == "merge" and (read := core.features & set(domain.sensitive)):
            raise InputError(f"the model reads {sorted(read)}, which is sensitive; average it, or train it without.")
        self.declared = [f for f in domain.features if sensitive or f.name not in domain.sensitive]
        if any(not feature.name for feature in self.declared):
            raise InputError("a column has no name (''), which ONNX cannot express; give it one.")
        self.prefix = "model/"
        while any(feature.name.startswith(self.prefix) for feature in domain.features):
            self.prefix = f"the {self.prefix}"
        self.taken = {feature.name for feature in domain.features}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.made: dict[tuple[str, int], str] = {}
        self.versions = _versions(core.model)

    def build(self, at: float | None) -> bytes:
        from onnx import checker

        model = self.core.model
        read = _read_in(model.graph)
        for taken in self.core.takes:
            if taken.name in read:
                self._fed(taken)
        self.nodes += list(_renamed(model.graph.node, self.prefix))
        shares = self._mean(self._shares(self.prefix + self.core.gives))
        classes = served_classes(self.domain)
        compared = shares
        if at is not None:
            compared = self._node(
                "Sub", [shares, self._constant(np.array([[1 - at, at]]), "where it decides")], "apart"
            )
        index = self._node("ArgMax", [compared], "class", axis=1, keepdims=0)
        label = self._node("Gather", [self._constant(classes, "classes"), index], "label", axis=0)
        shown = self._node("Cast", [shares], "probabilities", to=FLOAT)
        declare = self.helper.make_tensor_value_info
        kind = self.helper.np_dtype_to_tensor_dtype(classes.dtype)
        outputs = [declare(label, kind, ["rows"]), declare(shown, FLOAT, ["rows", len(classes)])]
        inputs = [declare(f.name, input_type(f, "impute"), ["rows", 1]) for f in self.declared]
        constants = [*self.constants, *_renamed_tensors(model.graph.initializer, self.prefix)]
        graph = self.helper.make_graph(self.nodes, "bornfair", inputs, outputs, constants)
        for sparse in model.graph.sparse_initializer:
            added = graph.sparse_initializer.add()
            added.CopyFrom(sparse)
            added.values.name = self.prefix + sparse.values.name
        made = self.helper.make_model(
            graph,
            ir_version=min(max(model.ir_version, 8), 14),
            producer_name="bornfair",
            producer_version=__version__,
            opset_imports=[self.helper.make_opsetid(domain, version) for domain, version in self.versions.items()],
            functions=list(model.functions),
        )
        told: dict[str, Any] = {"method": self.method, "versions": self.folding.size if self.method == "average" else 1}
        if at is not None:
            told["above"] = at
        self.helper.set_model_props(made, {WIRED: json.dumps(told)})
        checker.check_model(made)
        return made.SerializeToString(deterministic=True)

    # --- raw columns to theirs ---

    def _fed(self, taken: Taken) -> None:
        columns = [self._versions_of(self.domain.feature(name), taken) for name in taken.features]
        value = self._node("Concat", columns, f"columns of {taken.name}", axis=1) if len(columns) > 1 else columns[0]
        if taken.rank == 1:
            value = self._node("Reshape", [value, self._constant(np.array([-1]), "flat")], f"flat {taken.name}")
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
        return self._node("Concat", parts, f"versions of {name}", axis=0) if len(parts) > 1 else parts[0]

    def _folded(self, feature: Feature, turn: int) -> str:
        """A column of which twins have the same, as a version has it."""
        name = feature.name
        if name not in self.folding.turns:
            return name
        if (name, turn) not in self.made:
            self.made[name, turn] = self._unfolded(feature, turn)
        return self.made[name, turn]

    def _unfolded(self, feature: Feature, turn: int) -> str:
        name = feature.name
        if isinstance(feature, NUMERIC):
            total = self._constant(np.array([[self.folding.total(name) + 0.0]]), f"total {name}")
            other = self._node("Sub", [total, name], f"mirrored {name}")
            again = self._node("Sub", [total, other], f"again {name}")  # never −0.0, which a twin would have as 0.0
            return self._node("Max" if turn else "Min", [again, other], f"folded {name}")
        goes = self.folding.places(name, turn)
        if feature.kind == "boolean":
            return self._same(feature, bool(goes[0]))
        levels, first = list(feature.levels()), self.folding.places(name, 0)
        text = input_type(feature, "impute") == STRING
        keys = as_text(levels, name) if text else levels
        place = self._node(
            "LabelEncoder", [name], f"orbit {name}", domain="ai.onnx.ml", default_int64=len(levels),
            values_int64s=first, **{"keys_strings" if text else "keys_int64s": keys},
        )  # fmt: skip
        shown: list[Any] = [keys[i] for i in goes]
        shown.append(UNSEEN if text else max(map(int, levels)) + 1)
        table = self._constant(np.array(shown, object if text else np.int64), f"levels {name}")
        return self._node("Gather", [table, place], f"version {name}", axis=0)

    def _same(self, feature: Feature, value: Value) -> str:
        """A column that holds one value for everybody."""
        kind = input_type(feature, "impute")
        if kind == STRING:
            held = np.array([[str(value)]], object)
        else:
            held = np.array([[value]], {BOOL: np.bool_, INT64: np.int64, DOUBLE: np.float64}[kind])
        constant = self._constant(held, f"value of {feature.name}")
        return self._node("Expand", [constant, self._shape()], f"all {feature.name}")

    def _shape(self) -> str:
        """[rows, 1], from a column that twins share."""
        if ("", 0) not in self.made:
            still = [f for f in self.domain.free_features if f.name not in self.folding.turns]
            seen = still or [f for f in self.domain.free_features if f.kind != "boolean"]
            if not seen:
                raise InputError("rules exchange every value of every feature; there is nothing to decide from.")
            source = seen[0].name if still else self._folded(seen[0], 0)
            self.made["", 0] = self._node("Shape", [source], "rows and 1")
        return self.made["", 0]

    def _as_taken(self, feature: Feature, value: str, taken: Taken) -> str:
        own = input_type(feature, "impute")
        if own == taken.element:
            return value
        if STRING in (own, taken.element):
            raise InputError(
                f"the model takes {'texts' if taken.element == STRING else 'numbers'} for '{feature.name}', which is "
                f"{feature.kind} in the domain; make the encoding part of the model (a pipeline), or give the table as "
                "the model reads it."
            )
        if (value, taken.element) not in self.made:
            self.made[value, taken.element] = self._node("Cast", [value], f"cast {feature.name}", to=taken.element)
        return self.made[value, taken.element]

    # --- theirs to the decision ---

    def _shares(self, value: str) -> str:
        """What theirs shows as shares of the classes in double."""
        count = len(served_classes(self.domain))
        single = self.core.form in ("share", "logit")
        value = self._node("Reshape", [value, self._constant(np.array([-1, 1 if single else count]), "flat")], "scores")
        value = self._node("Cast", [value], "scores", to=DOUBLE)
        if self.core.form == "logits":
            return self._node("Softmax", [value], "shares", axis=1)
        if not single:
            return value
        if self.core.form == "logit":
            value = self._node("Sigmoid", [value], "share")
        rest = self._node("Sub", [self._constant(np.array([[1.0]]), "one"), value], "against")
        return self._node("Concat", [rest, value], "shares", axis=1)

    def _mean(self, shares: str) -> str:
        if self.method != "average" or self.folding.size == 1:
            return shares
        sizes = self._constant(np.array([self.folding.size, -1, len(served_classes(self.domain))]), "versions apart")
        apart = self._node("Reshape", [shares, sizes], "shares of versions")
        if self.versions[""] >= 13:
            total = self._node("ReduceSum", [apart, self._constant(np.array([0]), "first axis")], "sum", keepdims=0)
        else:
            total = self._node("ReduceSum", [apart], "sum", axes=[0], keepdims=0)
        return self._node("Div", [total, self._constant(np.array([[float(self.folding.size)]]), "versions")], "mean")

    # --- small things ---

    def _node(self, operator: str, inputs: list[str], name: str, *, domain: str = "", **attributes: Any) -> str:
        output = self._fresh(name)
        self.nodes.append(
            self.helper.make_node(operator, inputs, [output], name=output, domain=domain or None, **attributes)
        )
        return output

    def _constant(self, array: np.ndarray, name: str) -> str:
        fresh = self._fresh(name)
        self.constants.append(self.numpy_helper.from_array(array, fresh))
        return fresh

    def _fresh(self, name: str) -> str:
        """A name that no column and no other value has."""
        found, count = name, 1
        while found in self.taken or found.startswith(self.prefix):
            count += 1
            found = f"{name} {count}"
        self.taken.add(found)
        return found


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


def _read_in(graph: Any) -> set[str]:
    """All names that nodes read, those in bodies included."""
    found = {output.name for output in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                found |= _read_in(body)
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
    for listed in (body.input, body.output, body.value_info, body.initializer):
        for item in listed:
            item.name = prefix + item.name
    for sparse in body.sparse_initializer:
        sparse.values.name = prefix + sparse.values.name


def _renamed_tensors(tensors: Any, prefix: str) -> Iterator[Any]:
    from onnx import TensorProto

    for tensor in tensors:
        made = TensorProto()
        made.CopyFrom(tensor)
        made.name = prefix + tensor.name
        yield made
