"""Networks as ONNX graphs: raw columns in, label and probabilities out.

onnxruntime alone can serve it. Inputs carry the names of the table's columns, [rows, 1] each: whole numbers as int64,
other numbers as double, true/false as bool, categories as string (int64 if all of them are whole numbers). The graph
computes what `Encoding` and `Network` compute, operation by operation; `bornfair.proof.checker` reads it back. Where a
feature may be missing, NaN in a column of doubles says so, and the empty text in a column of strings: such numbers and
categories come as these.

Where declared twins look alike to the network, one-hot blocks are multiplied by their part of P, so that twins go on
with the same bits.

A model that ignores the sensitive features declares them as inputs but reads none of them; `sensitive=False` leaves
the declarations out too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import InputError, plain_level, shown
from bornfair.models.graph_draft import DOUBLE, FLOAT, INT64, STRING, GraphDraft, as_text, input_type, served_classes
from bornfair.models.network.network import PerProcess
from bornfair.models.onnx_child import session_of
from bornfair.people.columns import GapColumns, LevelColumns, NumberColumn, Step
from bornfair.people.features import NUMERIC, CategoricalFeature, Feature, Value

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.models.network.model import Model
    from bornfair.people.encoding import Encoding
    from bornfair.people.sensitive import CodedFeature

OPSET = 18  # the lowest that has every operator needed; an activation may need a later one
METADATA = "bornfair.encoding"
LARGEST = float(np.finfo(np.float64).max)
DTYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}
TOGETHER = 8_192  # people in one run


def onnx_bytes(model: Model, *, sensitive: bool = True) -> bytes:
    """The model as an ONNX file. Without `sensitive` columns only if it ignores them."""
    if not sensitive and not model.ignores_sensitive:
        raise InputError(
            f"this model reads {shown(model.domain.sensitive)}, so it cannot be exported without; train it with the "
            "expected response, or export it with its sensitive columns."
        )
    if not sensitive and not model.domain.free_features:
        raise InputError("every feature of this model is sensitive; without them there is nothing to decide from.")
    return _Graph(model, sensitive).build()


def reads_sensitive(model: Model) -> bool:
    """Whether the graph reads the sensitive columns (a model of nothing else must, to know how many rows there are)."""
    return not model.ignores_sensitive or not model.domain.free_features


def graph_columns(encoding: Encoding, reads: bool) -> list[int]:
    """Which input of the network each encoded column of the graph is: numbers come first there, then which of them are
    missing, codes last, if any.
    """
    place, free = encoding.free_columns(), encoding.domain.free_features
    columns = [place[f.name].start for f in free if isinstance(f, NUMERIC)]
    columns += [place[f.name].start + 1 for f in free if isinstance(f, NUMERIC) and f.missing]
    columns += [i for f in free if not isinstance(f, NUMERIC) for i in range(place[f.name].start, place[f.name].stop)]
    return columns + (list(range(len(columns), encoding.width)) if reads else [])


class _Graph(GraphDraft):
    def __init__(self, model: Model, sensitive: bool) -> None:
        super().__init__(model.domain, sensitive)
        self.model, self.encoding, self.missing = model, model.encoding, model.encoding.policies.missing
        self.gaps: dict[str, str] = {}  # of numbers that may be missing: where it says that they are

    def build(self) -> bytes:
        logits, outputs = self._network(self._encoded()), self.model.network.outputs
        limit = self.constant(np.zeros(1, np.float32), "zero") if outputs == 1 else ""
        label = self.label(self.index(logits, outputs, limit))
        graph = self.graph(label, self._probabilities(logits), max(self.domain.outputs, 2), self._type)
        opset = max(OPSET, self.model.network.function.opset)
        versions, told = {"": opset, "ai.onnx.ml": 3}, {METADATA: self.encoding.to_json()}
        return self.finished(graph, versions, 9, told)

    def _type(self, feature: Feature) -> int:  # only a float can say "missing"
        whole = feature.kind == "integer" and self.missing == "error" and not feature.missing
        return input_type(feature, whole=whole)

    # --- raw columns to network input ---

    def _steps(self, name: str) -> tuple[Step, ...]:
        column = self.encoding.columns[name]
        column = column.number if isinstance(column, GapColumns) else column
        assert isinstance(column, NumberColumn)
        return column.steps

    def _encoded(self) -> str:
        guards: list[str] = []
        numbers = [f for f in self.domain.free_features if isinstance(f, NUMERIC)]
        blocks = [self._numbers(numbers, guards)] if numbers else []
        blocks += [self._cast(self.gaps[f.name], FLOAT, f"{f.name} is missing") for f in numbers if f.missing]
        blocks += [self._free_category(f, guards) for f in self.domain.free_features if not isinstance(f, NUMERIC)]
        if reads_sensitive(self.model):
            blocks += [self._code(coded, guards) for coded in self.domain.sensitive_space.features]
        joined = self.node("Concat", blocks, "encoded", axis=1)
        for guard in guards:  # a factor of 1, or the run has stopped
            joined = self.node("Mul", [joined, guard], "guarded")
        return joined

    def _numbers(self, features: list[Any], guards: list[str]) -> str:
        raw = self._raw_numbers(features, guards)
        steps = [dict(self._steps(f.name)) for f in features]
        if any("Min" in step or "Max" in step for step in steps):  # policies hold by Max and then Min
            most, least = ([s.get(end, none) for s in steps] for end, none in (("Min", LARGEST), ("Max", -LARGEST)))
            raw = self.node("Min", [raw, self.row(most, "highest seen")], "held above")
            raw = self.node("Max", [raw, self.row(least, "lowest seen")], "held")
        shifted = self.node("Sub", [raw, self.row([s["Sub"] for s in steps], "centre")], "shifted")
        scaled = self.node("Mul", [shifted, self.row([s["Mul"] for s in steps], "scale")], "scaled")
        return self._cast(scaled, FLOAT, "numbers")

    def _raw_numbers(self, features: list[Any], guards: list[str]) -> str:
        """Raw numbers as double, imputed and clipped as the policies say; a guard stops the run at what they refuse."""
        policies = self.encoding.policies
        raw = self.node("Concat", [self._double(f) for f in features], "raw numbers", axis=1)
        if policies.missing == "impute":
            fill = self.row([float(self.encoding.fill[f.name]) for f in features], "fill")
            raw = self.node("Where", [self.node("IsNaN", [raw], "missing"), fill, raw], "imputed")
        low, high = [float(f.low) for f in features], [float(f.high) for f in features]
        allowed = low, high
        if policies.outside != "error":  # then only NaN and infinity are refused
            allowed = [-LARGEST] * len(features), [LARGEST] * len(features)
        above = self.node("GreaterOrEqual", [raw, self.row(allowed[0], "least")], "not too low")
        below = self.node("LessOrEqual", [raw, self.row(allowed[1], "most")], "not too high")
        whole = self._cast(self.node("And", [above, below], "allowed"), INT64, "allowed 0/1")
        every = self.node("ReduceMin", [whole, self.axis()], "all allowed", keepdims=0)
        guards.append(self._refusal(every, "a number is missing, infinite or outside its range"))
        if policies.outside == "clip":
            raw = self.node("Max", [raw, self.row(low, "low")], "clipped below")
            raw = self.node("Min", [raw, self.row(high, "high")], "clipped")
        return raw

    def _double(self, feature: Feature) -> str:
        """A raw number as double; one that may be missing with what a gap is shown as in its place."""
        name = feature.name
        if not feature.missing:
            kind = self._type(feature)
            return name if kind == DOUBLE else self._cast(name, DOUBLE, f"double {name}")
        self.gaps[name] = self.node("IsNaN", [name], f"gap {name}")
        fill = self.row([float(self.encoding.fill[name])], f"shown for a gap of {name}")
        return self.node("Where", [self.gaps[name], fill, name], f"without gaps {name}")

    def _refusal(self, allowed: str, why: str) -> str:
        """1 where `allowed` is 1; else the run stops, and onnxruntime shows the node's name: why.

        A one-hot encoder that knows the one value 1 is the only standard operator that refuses anything.
        """
        return self.node("OneHotEncoder", [allowed], f"refused: {why}", domain="ai.onnx.ml", cats_int64s=[1], zeros=0)

    def _free_category(self, feature: Feature, guards: list[str]) -> str:
        """A category as the network sees it: where twins look alike, by a table with the same row for each of them."""
        if feature.name not in self.encoding.merged:
            return self._category(feature, guards)
        column, merged = self.encoding.columns[feature.name], f"merged {feature.name}"
        assert isinstance(column, LevelColumns)
        return self._looked_up(feature, np.ascontiguousarray(column.table), guards, merged, merged)

    def _looked_up(self, feature: Feature, table: np.ndarray, guards: list[str], rows: str, name: str) -> str:
        """A category, or true/false, as the row that a table has for it."""
        if feature.kind == "boolean":
            no, yes = (self.constant(row[None], f"code of {feature.name}") for row in table)
            return self.node("Where", [feature.name, yes, no], f"encoded {feature.name}")
        known = self.constant(table, rows)
        return self.node("MatMul", [self._category(feature, guards), known], name)

    def _category(self, feature: Feature, guards: list[str]) -> str:
        """One-hot, [rows, categories]; true/false as one column 0/1."""
        if feature.kind == "boolean":
            return self._cast(feature.name, FLOAT, f"encoded {feature.name}")
        ignore = self.encoding.policies.unseen == "ignore" and feature.name not in self.domain.sensitive
        levels, column = list(feature.levels()), feature.name
        text = self._type(feature) == STRING
        names: list[Any] = as_text(levels, feature.name) if text else levels
        if feature.missing:
            names[-1] = ""
            if "" in names[:-1]:
                raise InputError(
                    f"'{feature.name}' has the empty text for a category and may be missing, which a served model is "
                    "told by an empty text; rename that category."
                )
        if text and "" not in names:  # an empty text is how a string says "missing"
            if self.missing == "impute":
                fill = levels.index(self.encoding.fill[feature.name])
                positions = {**{name: i for i, name in enumerate(names)}, "": fill}
                column = self._positions(column, f"position of {feature.name}", positions, -1)
                names, text = list(range(len(names))), False
            elif ignore:  # unseen ones are ignored, missing ones are not
                present = self._positions(column, f"{feature.name} is there", {"": 0}, 1)
                guard = self._refusal(present, f"{feature.name} is missing")
                guards.append(self.node("Squeeze", [guard, self.axis()], f"guard {feature.name}"))
        known = {"cats_strings" if text else "cats_int64s": names}
        hot = self.node(
            "OneHotEncoder", [column], f"one-hot {feature.name}", domain="ai.onnx.ml", zeros=int(ignore), **known
        )
        return self.node("Squeeze", [hot, self.axis()], f"encoded {feature.name}")

    def _positions(self, column: str, name: str, known: dict[str, int], other: int) -> str:
        """Texts as whole numbers."""
        keys, numbers = list(known), list(known.values())
        return self.node(
            "LabelEncoder", [column], name, domain="ai.onnx.ml",
            keys_strings=keys, values_int64s=numbers, default_int64=other,
        )  # fmt: skip

    def _code(self, coded: CodedFeature, guards: list[str]) -> str:
        """The centred code of a sensitive feature."""
        feature = coded.feature
        code = f"code {feature.name}"
        if not isinstance(feature, NUMERIC):
            return self._looked_up(feature, coded.table, guards, f"codes of {feature.name}", code)
        value = self._raw_numbers([feature], guards)
        for operator, number in self._steps(feature.name):
            value = self.node(operator, [value, self.row([number], code)], code)
        return self._cast(value, FLOAT, f"encoded {feature.name}")

    # --- the network ---

    def _network(self, inputs: str) -> str:
        network, value = self.model.network, inputs
        columns = graph_columns(self.encoding, reads_sensitive(self.model))
        for i, layer in enumerate(network.layers):
            if i:
                value = self.node(network.function.operator, [value], f"activation {i}")
            weight = layer.weight if i else layer.weight[:, columns]
            parameters = [self.constant(weight, f"weight {i}"), self.constant(layer.bias, f"bias {i}")]
            value = self.node("Gemm", [value, *parameters], f"layer {i}", transB=1)
        return value

    def _probabilities(self, scores: str) -> str:
        logits = scores
        if self.model.offsets:  # it does not decide at ½
            offsets = self.constant(np.array(self.model.offsets, np.float32), "where it decides")
            logits = self.node("Add", [scores, offsets], "logits")
        return self.probabilities(logits, self.model.network.outputs)

    def _cast(self, value: str, element: int, name: str) -> str:
        return self.node("Cast", [value], name, to=element)


# --- the graph as it is served ---


class Shipped:
    """The graph of one model in a session of onnxruntime, which decides what is reported as decided "in float32"."""

    def __init__(self, model: Model) -> None:
        self._session = session_of(model.graph_bytes())
        self._order = {label: i for i, label in enumerate(served_classes(model.domain).tolist())}
        self._label = self._session.get_outputs()[0].name
        self._texts = {
            feature.name: dict(zip(feature.categories, map(str, feature.categories), strict=True))
            for feature in model.domain.features
            if isinstance(feature, CategoricalFeature) and feature.missing
        }
        """How categories are written that may be missing: beside gaps a table holds whole numbers as others."""

    def decide(self, people: Sequence[Mapping[str, Value]]) -> tuple[int, ...]:
        """The class index of each person, all in one run: raw values of the domain's features."""
        columns = {given.name: [person[given.name] for person in people] for given in self._session.get_inputs()}
        return tuple(self._decided(columns).tolist())

    def decided(self, table: pd.DataFrame) -> np.ndarray:
        """The class index of each row of a table."""
        columns = {given.name: table[given.name].tolist() for given in self._session.get_inputs()}
        parts = [
            self._decided({name: column[i : i + TOGETHER] for name, column in columns.items()})
            for i in range(0, len(table), TOGETHER)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def _decided(self, columns: Mapping[str, Sequence[Value]]) -> np.ndarray:
        feed = {}
        for given in self._session.get_inputs():
            column, dtype = columns[given.name], DTYPES.get(given.type, object)
            if dtype is object:  # a gap is the empty text
                known = self._texts.get(given.name, {})
                written = (known.get(value, value) for value in column)
                column = ["" if plain_level(value) is None else str(value) for value in written]
            feed[given.name] = np.array(column, dtype)[:, None]
        (labels,) = self._session.run([self._label], feed)
        return np.array([self._order[label] for label in labels.tolist()], np.int64)


shipped: PerProcess[Model, Shipped] = PerProcess(Shipped)
"""The model as it ships; its session is made once in each process."""
