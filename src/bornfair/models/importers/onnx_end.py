"""Where in a graph is the decision made, and by which scores? Among its outputs: a label, or scores to be compared."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bornfair.errors import InputError, plain_value, shown
from bornfair.models.importers.affine import CannotRead, Cells, Decision, Forms
from bornfair.models.importers.head import Head, Show, read_head, same_parts
from bornfair.models.importers.onnx_file import OnnxFile
from bornfair.models.importers.onnx_node import Zipped
from bornfair.models.importers.reading import Reading
from bornfair.people.features import Value


@dataclass(frozen=True, eq=False)
class Understood:
    """What a graph decides: the scores, the names of the classes, and which output shows what."""

    head: Head
    classes: tuple[Value, ...] | None
    label_output: str | None
    score_output: str | None


def end_of(file: OnnxFile, values: dict[str, Any], asked: Reading) -> Understood:
    """The decision among the outputs: a label if there is one, else (or if a threshold is asked for) the scores."""
    outputs: dict[str, Any] = {}
    for output in file.graph.output:
        if output.name not in values:
            raise InputError(f"{file.origin}: nothing gives the output '{output.name}'; the file is cut or broken.")
        outputs[output.name] = values[output.name]
    labels = {name: v for name, v in outputs.items() if isinstance(v, Cells) and _decision(v) is not None}
    scores = {name: v for name, v in outputs.items() if isinstance(v, Forms) and v.parts}
    zipped = None
    for name, value in outputs.items():
        if isinstance(value, Zipped) and isinstance(value.scores, Forms):  # a map of what comes before it
            makers = (node for node in reversed(file.graph.node) if name in node.output)
            scores[next(makers).input[0]] = value.scores
            zipped = tuple(plain_value(label) for label in value.labels) or None
    if len(labels) > 1:
        raise InputError(f"{file.origin} makes several decisions, {shown(labels)}; a model with one can be read.")
    if not labels and not asked.moves_the_decision:
        for name, value in outputs.items():  # it may be the one that decides
            if isinstance(value, InputError) and file.behind([name]) & {given.name for given in file.inputs}:
                raise value
    try:
        if labels and not (asked.moves_the_decision and len(scores) == 1):
            return _labelled(*next(iter(labels.items())), scores, asked)
        if len(scores) == 1:
            ((name, forms),) = scores.items()
            classes = next((_classes(label) for label in labels.values()), zipped)
            return Understood(read_head(forms, asked), classes, None, name)
    except CannotRead as error:
        raise InputError(f"{file.origin}: the end of the model {error}.") from error
    for value in outputs.values():
        if isinstance(value, InputError):
            raise value
    if not scores:
        raise InputError(f"{file.origin}: no output ({shown(outputs)}) depends on the person as a score or decision.")
    raise InputError(f"{file.origin} gives several scores, {shown(scores)}; a model with one output can be read.")


def _decision(value: Cells) -> Decision | None:
    sources = [cell.source for cell in value.cells]
    return sources[0] if len(sources) == 1 and isinstance(sources[0], Decision) else None


def _classes(label: Cells) -> tuple[Value, ...]:
    classes = tuple(plain_value(value) for value in label.cells[0].values.ravel())
    if len(set(classes)) != len(classes):
        raise CannotRead(f"calls two of its classes the same, {shown(classes)}")
    return classes


def _labelled(name: str, label: Cells, scores: dict[str, Forms], asked: Reading) -> Understood:
    """The model's own decision; a score beside it, if it is of the same logits, is there to be compared."""
    decision, classes = _decision(label), _classes(label)
    assert decision is not None
    head = read_head(decision, asked)
    for output, forms in scores.items():
        try:
            beside = read_head(forms)
        except CannotRead:
            continue
        if beside.logits.size != head.logits.size or not same_parts(beside.logits, head.logits):
            continue
        apart, show = beside.logits.constant - head.logits.constant, beside.shown
        if show is not None and (head.logits.size == 1 or not apart.any()):
            made = replace(head, shown=_moved(show, apart), part=beside.part, logarithms=beside.logarithms)
            return Understood(made, classes, name, output)
    return Understood(head, classes, name, None)


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
