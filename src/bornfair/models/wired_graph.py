"""How is somebody's graph shipped with ours around it? Raw columns in, label and probabilities out, theirs inside.

Theirs is not interpreted: its nodes stand there as they came, under other names. What ours does around it decides
fairness, and can be told from the wires alone (`bornfair.models.wiring`): no node reads a sensitive column. Merged,
theirs is shown what twins have in common; averaged, all versions of a person, which are made of what twins have in
common and of constants, go through it in one batch, and the mean of their shares decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bornfair.errors import InputError
from bornfair.models.graph_draft import GraphDraft
from bornfair.models.onnx_graph import BOOL, DOUBLE, FLOAT, INT64, STRING, as_text, input_type, served_classes
from bornfair.models.wiring import reads_of
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.twins.folding import Folding

if TYPE_CHECKING:
    pass

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


@dataclass(frozen=True)
class Decides:
    """A label of somebody's graph, and its values in the order of the classes."""

    output: str
    keys: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Core:
    """Somebody's graph, and what ours has to know of it: what it takes, and which output shows what."""

    model: Any
    takes: tuple[Taken, ...]
    gives: str
    form: Form
    decides: Decides | None = None
    """The label that decides as long as nothing is changed; None: the scores decide."""

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

    def build(self, at: float | None) -> bytes:
        model = self.core.model
        read = {output.name for output in model.graph.output}.union(*map(reads_of, model.graph.node))
        for taken in self.core.takes:
            if taken.name in read:
                self._fed(taken)
        self.nodes += list(_renamed(model.graph.node, self.prefix))
        shares = self._mean(self._shares(self.prefix + self.core.gives))
        classes = served_classes(self.domain)
        compared = shares
        if at is not None:
            compared = self.node("Sub", [shares, self.constant(np.array([[1 - at, at]]), "where it decides")], "apart")
        own = self.core.decides if self.method == "as it is" and at is None else None
        index = self.node("ArgMax", [compared], "class", axis=1, keepdims=0) if own is None else self._place(own)
        label = self.node("Gather", [self.constant(classes, "classes"), index], "label", axis=0)
        shown = self.node("Cast", [shares], "probabilities", to=FLOAT)
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
        told: dict[str, Any] = {"method": self.method, "versions": self.folding.size if self.method == "average" else 1}
        if at is not None:
            told["above"] = at
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
        if name not in self.folding.turns:
            return name
        if (name, turn) not in self.made:
            self.made[name, turn] = self._unfolded(feature, turn)
        return self.made[name, turn]

    def _unfolded(self, feature: Feature, turn: int) -> str:
        name = feature.name
        if isinstance(feature, NUMERIC):
            total = self.constant(np.array([[self.folding.total(name) + 0.0]]), f"total {name}")
            other = self.node("Sub", [total, name], f"mirrored {name}")
            again = self.node("Sub", [total, other], f"again {name}")  # never −0.0, which a twin would have as 0.0
            return self.node("Max" if turn else "Min", [again, other], f"folded {name}")
        goes = self.folding.places(name, turn)
        if feature.kind == "boolean":
            return self._same(feature, bool(goes[0]))
        levels, first = list(feature.levels()), self.folding.places(name, 0)
        text = input_type(feature, "impute") == STRING
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
        kind = input_type(feature, "impute")
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
            self.made[value, taken.element] = self.node("Cast", [value], f"cast {feature.name}", to=taken.element)
        return self.made[value, taken.element]

    # --- theirs to the decision ---

    def _place(self, label: Decides) -> str:
        """The position of their label among the classes; another value stops the run."""
        value = self.node("Reshape", [self.prefix + label.output, self.constant(np.array([-1]), "flat")], "their label")
        text = isinstance(label.keys[0], str)
        if not text:
            value = self.node("Cast", [value], "their label", to=FLOAT)
        named: dict[str, Any] = (
            {"keys_strings": label.keys} if text else {"keys_floats": [float(k) for k in label.keys]}
        )
        return self.node(
            "LabelEncoder", [value], "class", domain="ai.onnx.ml", values_int64s=list(range(len(label.keys))),
            default_int64=len(label.keys), **named,
        )  # fmt: skip

    def _shares(self, value: str) -> str:
        """What theirs shows as shares of the classes in double."""
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

    def _mean(self, shares: str) -> str:
        if self.method != "average" or self.folding.size == 1:
            return shares
        sizes = self.constant(np.array([self.folding.size, -1, len(served_classes(self.domain))]), "versions apart")
        apart = self.node("Reshape", [shares, sizes], "shares of versions")
        if self.versions[""] >= 13:
            total = self.node("ReduceSum", [apart, self.constant(np.array([0]), "first axis")], "sum", keepdims=0)
        else:
            total = self.node("ReduceSum", [apart], "sum", axes=[0], keepdims=0)
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
