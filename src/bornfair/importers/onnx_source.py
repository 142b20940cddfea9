"""Networks in ONNX files: the graph is walked once, from the columns to the output that decides.

A node that is not understood is named in the refusal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value, shown
from bornfair.importers.affine import MOST_WORK, AffineCells, CannotRead, Decision, Forms, NeedsLevels, Tape
from bornfair.importers.head import SAME, Head, Show, read_head, same_parts, scale_between, without_functions
from bornfair.importers.onnx_file import (
    RUNTIME,
    STANDARD_NAMES,
    GraphInput,
    GraphRun,
    OnnxFile,
    array_of,
    as_input,
    attribute_of,
)
from bornfair.importers.onnx_ml_operators import MACHINE_LEARNING
from bornfair.importers.onnx_node import Node, Zipped, moved
from bornfair.importers.onnx_operators import STANDARD
from bornfair.importers.source import Original, Read
from bornfair.models.columns import Columns, Wanted
from bornfair.models.deciding import Graph, Output, deciding
from bornfair.models.reading import Reading
from bornfair.people.features import NUMERIC, Feature, Value


@dataclass(frozen=True, eq=False)
class OnnxSource:
    """An ONNX file that somebody's exporter wrote."""

    file: OnnxFile

    @property
    def wanted(self) -> Wanted:
        return self.file.wanted

    def read(self, columns: Columns, asked: Reading) -> Read:
        understood, tape = _understood(self.file, columns, asked)
        run = _Run(self.file, understood, columns.names)
        original = Original(RUNTIME, run.scores, run.decide)
        return Read(understood.head, tape, understood.classes, original, plain_layers(self.file, understood))


# --- the walk ---


def _understood(file: OnnxFile, columns: Columns, asked: Reading) -> tuple[Understood, Tape]:
    """Walk the graph for people of this domain."""
    tape = Tape(columns.domain.features)
    values: dict[str, Any] = dict(_inputs(file, columns, tape))
    spent = 0
    for tensor in file.graph.initializer:
        values[tensor.name] = array_of(tensor, file.path)
    for number, proto in enumerate(file.graph.node):
        name = proto.name or f"node {number}"
        results = _results(file, proto, name, values, tape)
        for output, result in zip(proto.output, results, strict=False):
            if output:
                values[output] = result
            spent += getattr(result, "size", 0) * (result.width if isinstance(result, Forms) else 1)
        if spent > MOST_WORK:
            raise InputError(f"{file.origin} computes too much to be read: more than {MOST_WORK:,} numbers.")
    return end_of(file, values, asked), tape


def _results(file: OnnxFile, proto: Any, name: str, values: dict[str, Any], tape: Tape) -> Sequence[Any]:
    """What one node gives: values, or (for each output) the reason why it is not understood."""
    label = f"{file.origin}: node '{name}' ({proto.op_type})"
    for source in proto.input:
        if source and source not in values:
            raise InputError(
                f"{label} reads '{source}', which nothing before it gives; the graph has a cycle or the file is cut."
            )
    given = [values[source] if source else None for source in proto.input]
    failed = next((value for value in given if isinstance(value, InputError)), None)
    if failed is not None:
        return [failed] * len(proto.output)
    try:
        tables = {"ai.onnx.ml": MACHINE_LEARNING} | dict.fromkeys(STANDARD_NAMES, STANDARD)
        handler = tables.get(proto.domain, {}).get(proto.op_type)
        if handler is None:
            where = "" if proto.domain in STANDARD_NAMES else f" of '{proto.domain}'"
            raise CannotRead(
                f"is an operator{where} that is not supported; dense layers with ReLU, tanh or sigmoid, linear models "
                "and their encoders can be read"
            )
        if any(isinstance(value, Zipped) for value in given):
            raise CannotRead("computes on with a map from classes to scores, which is not supported")
        version = file.versions.get(proto.domain, file.versions.get("", 1))
        attributes = {attribute.name: attribute_of(attribute, file.path) for attribute in proto.attribute}
        node = Node(proto.op_type, name, tuple(given), attributes, len(proto.output), version, tape, file.rows)
        made = handler(node)
    except CannotRead as error:
        made = (error,) * len(proto.output)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        reason = f"does not fit what it is given ({error or type(error).__name__}); is the file broken?"
        made = (CannotRead(reason),) * len(proto.output)
    several = made if isinstance(made, tuple) else (made,)
    return [InputError(f"{label} {value}.") if isinstance(value, CannotRead) else value for value in several]


def _inputs(file: OnnxFile, columns: Columns, tape: Tape) -> Any:
    only = file.only_input
    if only is not None:
        if only.rank != 2:
            raise InputError(f"{file.origin}: input '{only.name}' has {only.rank} axes; [people, columns] can be read.")
        parts = tuple(_column(feature, only, file, tape) for feature in columns.features)
        yield only.name, STANDARD["Concat"](Node("Concat", only.name, parts, {"axis": 1}, 1, 13, tape, file.rows))
        return
    for found, feature in zip(file.inputs, columns.features, strict=True):
        value = _column(feature, found, file, tape)
        yield found.name, moved(value, lambda index: index[:, 0]) if found.rank == 1 else value


def _column(feature: Feature, given: GraphInput, file: OnnxFile, tape: Tape) -> Forms | AffineCells:
    """A feature as the graph is given it."""
    if isinstance(feature, NUMERIC):
        if given.element in ("text", "truth"):
            raise NeedsLevels(feature.name)
        if given.element == "whole" and feature.kind != "integer":
            raise InputError(
                f"{file.origin} takes whole numbers for '{feature.name}', which is real in the domain; make it an "
                "integer there."
            )
    return tape.column(feature, lambda levels: as_input(levels, given, feature.name, file.origin))


# --- the original ---


@dataclass(eq=False)
class _Run:
    """The part of a file that was read, as onnxruntime runs it."""

    file: OnnxFile
    understood: Understood
    names: tuple[str, ...]

    def scores(self, table: pd.DataFrame) -> np.ndarray | None:
        name = self.understood.score_output
        return None if name is None else self._outputs(table)[name]

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        label, shown = self.understood.label_output, self.understood.score_output
        if label is None:
            assert shown is not None
            return self.understood.head.decided_by_it(self._outputs(table)[shown])
        found = self._outputs(table)[label].ravel()
        order = {value: i for i, value in enumerate(self.understood.classes or ())}
        return np.array([order.get(value, -1) for value in found.tolist()], dtype=np.int64)

    def _outputs(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        return self._run.outputs([(name, table[name]) for name in self.names])

    @cached_property
    def _run(self) -> GraphRun:
        outputs = self.understood.label_output, self.understood.score_output
        return GraphRun(self.file, self.file.pruned([name for name in outputs if name is not None]))


# --- the end of the graph ---


@dataclass(frozen=True, eq=False)
class Understood:
    """What a graph decides: the scores, the names of the classes, and which output shows what."""

    head: Head
    classes: tuple[Value, ...] | None
    label_output: str | None
    score_output: str | None


def end_of(file: OnnxFile, values: dict[str, Any], asked: Reading) -> Understood:
    """The output that decides, by the rule of `deciding`, and the scores to compare it with."""
    found: list[Output] = []
    for output in file.graph.output:
        if output.name not in values:
            raise InputError(f"{file.origin}: nothing gives the output '{output.name}'; the file is cut or broken.")
        if (one := _output(file.outputs, output.name, values[output.name])) is not None:
            found.append(one)
    if not found:
        listed = shown(file.outputs.outputs)
        raise InputError(f"{file.origin}: no output ({listed}) depends on the person as a score or decision.")

    def same(one: Output, other: Output) -> bool:
        head, again = _head(one, asked), _head(other, asked)
        if head is None or again is None or not _alike(head, again):
            return False
        return one.kind == "scores" or _consistent(one.value, other.value)

    try:
        decides = deciding(found, file.outputs, asked, same=same, beside=_belongs)
        if decides.kind == "label":
            understood = (output for output in found if output.kind == "scores" and output.why is None)
            return _labelled(decides, dict(_scores_of(file, output)[:2] for output in understood), asked)
        source, forms, names = _scores_of(file, decides)
        head = read_head(forms, asked)
        labels = (output for output in found if output.kind == "label" and output.why is None)
        named = (_names_for(head, label.value) for label in labels)
        return Understood(head, next((classes for classes in named if classes), names), None, source)
    except CannotRead as error:
        raise InputError(f"{file.origin}: the end of the model {error}.") from error


def _output(graph: Graph, name: str, value: Any) -> Output | None:
    """What is understood of an output; None if it is the same for everybody."""
    if isinstance(value, AffineCells):
        if _decision(value) is not None:
            return Output(name, "label", value)
        if all((cell.values == cell.values[0]).all() for cell in value.cells):
            return None
        reason = "is computed from single features or has several columns, which is not read as a decision"
        return Output(name, graph.kind(name), None, InputError(f"{graph.origin}: output '{name}' {reason}."))
    if isinstance(value, Forms | Zipped) and _forms(value).parts:
        kind = graph.kind(name)
        if kind == "scores":
            return Output(name, kind, value)
        return Output(name, kind, None, InputError(f"{graph.origin}: output '{name}' rounds numbers; it is not read."))
    if isinstance(value, InputError) and name in graph.dependent:
        return Output(name, graph.kind(name), None, value)
    return None


def _forms(value: Forms | Zipped) -> Forms:
    return value.scores if isinstance(value, Zipped) else value


def _decision(value: AffineCells) -> Decision | None:
    sources = [cell.source for cell in value.cells]
    return sources[0] if len(sources) == 1 and isinstance(sources[0], Decision) else None


def _classes(label: AffineCells) -> tuple[Value, ...]:
    classes = tuple(plain_value(value) for value in label.cells[0].values.ravel())
    if len(set(classes)) != len(classes):
        raise CannotRead(f"calls two of its classes the same, {shown(classes)}")
    return classes


def _names_for(head: Head, label: AffineCells) -> tuple[Value, ...] | None:
    """The names that a label gives to the classes of scores; None if it decides by other scores."""
    factor = scale_between(read_head(_decision(label)).logits, head.logits)  # type: ignore[arg-type]
    if factor is None or (factor < 0 and head.logits.size > 1):
        return None
    return _classes(label) if factor > 0 else _classes(label)[::-1]


def _scores_of(file: OnnxFile, output: Output) -> tuple[str, Forms, tuple[Value, ...] | None]:
    """The scores that an output shows: their name, what they are, and the classes that a map names."""
    if not isinstance(output.value, Zipped):
        return output.name, output.value, None
    source = file.outputs.makers[output.name].input[0]
    return source, output.value.scores, tuple(plain_value(label) for label in output.value.labels) or None


# --- two outputs, one decision ---


def _head(output: Output, asked: Reading) -> Head | None:
    try:
        if output.why is not None:
            return None
        if output.kind == "label":
            return read_head(_decision(output.value))  # type: ignore[arg-type]
        return read_head(_forms(output.value), asked)
    except CannotRead:
        return None


def _alike(one: Head, other: Head) -> bool:
    """Whether two heads decide by the same scores at the same point."""
    factor = scale_between(one.logits, other.logits)
    if factor is None or factor <= 0 or one.tie_is_positive != other.tie_is_positive:
        return False
    return np.allclose(one.logits.constant * factor, other.logits.constant, rtol=SAME, atol=0.0)


def _consistent(one: AffineCells, other: AffineCells) -> bool:
    """Whether two labels of one decision mean the same by it: no name stands for two different classes."""
    names, others = (label.cells[0].values.ravel().tolist() for label in (one, other))
    return all(i == j for i, name in enumerate(names) for j, again in enumerate(others) if name == again)


def _belongs(label: Output, scores: Output) -> bool:
    """Whether the scores beside a label are made of the scores by which it decides."""
    decides = _head(label, Reading())
    if decides is None or scores.why is not None:
        return False
    shows = _head(scores, Reading())
    if shows is not None:
        return scale_between(shows.logits, decides.logits) is not None
    forms = _forms(scores.value)
    return forms.size == 1 and scale_between(without_functions(forms.flat), decides.logits) is not None


def _labelled(label: Output, scores: dict[str, Forms], asked: Reading) -> Understood:
    """The model's own decision; a score beside it, if it is of the same logits, is there to be compared."""
    decision, classes = _decision(label.value), _classes(label.value)
    assert decision is not None
    head = read_head(decision, asked)
    for name, forms in scores.items():
        try:
            beside = read_head(forms)
        except CannotRead:
            continue
        if beside.logits.size != head.logits.size or not same_parts(beside.logits, head.logits):
            continue
        apart, show = beside.logits.constant - head.logits.constant, beside.shown
        if show is not None and (head.logits.size == 1 or not apart.any()):
            made = replace(head, shown=_moved(show, apart), part=beside.part, logarithms=beside.logarithms)
            return Understood(made, classes, label.name, name)
    return Understood(head, classes, label.name, None)


def _moved(show: Show, apart: np.ndarray) -> Show:
    return lambda z: show(z + apart)


# --- what is executed ---


SUMS = "(?:Gemm|(?:Add )?MatMul)"  # one layer of sums, the last operator first


def plain_layers(file: OnnxFile, understood: Understood) -> int:
    """How many layers of sums the graph has, if it executes nothing but them, ReLUs between them and a comparison of
    the last sums, all in float32; else 0. Scalers, sigmoids or two scores compared are something else.
    """
    head, given, label = understood.head, file.inputs[0], understood.label_output
    several = head.logits.size > 2
    if len(file.inputs) != 1 or given.dtype != np.float32 or given.rank != 2:
        return 0
    if label is None and not (head.threshold is None if several else head.threshold == 0.0 and head.part == "last"):
        return 0
    tensors = {tensor.name: tensor for tensor in file.graph.initializer}
    for node in file.graph.node:
        values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
        if node.op_type == "Constant" and values:
            tensors |= dict.fromkeys(node.output, values[0])
    name, decides = label or understood.score_output, label is not None
    operators: list[str] = []
    for node in reversed(file.graph.node):
        if name not in node.output:
            continue
        computed = [source for source in node.input if source not in tensors]
        if decides and node.op_type in ("Greater", "ArgMax"):  # one score with 0, or three and more with one another
            decides, name = False, node.input[0]
            if (node.op_type == "ArgMax") != several or not (several or _float(tensors, node.input[1], zero=True)):
                return 0
        elif node.op_type in ("Identity", "Dropout"):
            name = node.input[0]
        elif len(computed) == 1 and (decides or _plain(node, computed[0], tensors)):
            operators += [] if decides else [node.op_type]
            name = computed[0]
        else:
            return 0
    plain = not decides and name == given.name and re.fullmatch(f"{SUMS}(?: Relu {SUMS})*", " ".join(operators))
    return operators.count("Relu") + 1 if plain else 0


def _plain(node: Any, computed: str, tensors: dict[str, Any]) -> bool:
    """Whether an operator reads one computed value and, beside it, constants in float32, as a layer of sums does."""
    if not all(source == computed or _float(tensors, source) for source in node.input):
        return False
    settings = {attribute.name: attribute.f or attribute.i for attribute in node.attribute}
    if any(settings.get(name, 1) != 1 for name in ("alpha", "beta")) or settings.get("transA", 0):
        return False
    return node.op_type == "Add" or node.input[0] == computed


def _float(tensors: dict[str, Any], name: str, *, zero: bool = False) -> bool:
    from onnx import TensorProto, numpy_helper

    tensor = tensors.get(name)
    if tensor is None or tensor.data_type != TensorProto.FLOAT:
        return False
    return not zero or not numpy_helper.to_array(tensor).any()
