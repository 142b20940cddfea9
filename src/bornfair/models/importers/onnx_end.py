"""Where in a graph is the decision made, and by which scores? Among its outputs: a label, or scores to be compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.errors import InputError, plain_value, shown
from bornfair.models.importers.affine import CannotRead, Cells, Decision, Forms
from bornfair.models.importers.head import Head, Show, read_head, same_parts
from bornfair.models.importers.onnx_node import Zipped
from bornfair.models.importers.reading import Reading
from bornfair.people.features import Value

if TYPE_CHECKING:
    from bornfair.models.importers.onnx_file import OnnxFile


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
            scores[_maker(file.graph, name).input[0]] = value.scores
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


def _maker(graph: Any, name: str) -> Any:
    """The node that gives a value; None if it is an input or a constant."""
    return next((node for node in reversed(graph.node) if name in node.output), None)


# --- what is executed ---


def plain_layers(file: OnnxFile, understood: Understood) -> int:
    """How many layers of sums the graph has, if it executes nothing but them, ReLUs between them and a comparison of
    the last sums, all in float32; else 0. Scalers, sigmoids or two scores compared are something else.
    """
    scores = _compared_scores(file, understood)
    if scores is None or len(file.inputs) != 1 or file.inputs[0].dtype != np.float32 or file.inputs[0].rank != 2:
        return 0
    layers = 0
    while True:
        before = _before_sums(file, scores)
        if before is None:
            return 0
        layers, before = layers + 1, _unwrapped(file, before)
        if before == file.inputs[0].name:
            return layers
        node = _maker(file.graph, before)
        if node is None or node.op_type != "Relu":
            return 0
        scores = node.input[0]


def _compared_scores(file: OnnxFile, understood: Understood) -> str | None:
    """The value whose entries are compared just as they are: one with 0, or three and more with one another."""
    head, name = understood.head, understood.label_output
    several = head.logits.size > 2
    if name is None:
        compares = head.threshold is None if several else head.threshold == 0.0 and head.part == "last"
        return understood.score_output if compares else None
    node = _maker(file.graph, name)
    while node is not None and node.op_type not in ("Greater", "ArgMax"):
        computed = [given for given in node.input if _constant(file, given) is None]
        node = _maker(file.graph, computed[0]) if len(computed) == 1 else None
    if node is None or (node.op_type == "ArgMax") != several:
        return None
    with_zero = several or _is_constant(file, node.input[1], lambda number: number == 0)
    return node.input[0] if with_zero else None


def _before_sums(file: OnnxFile, name: str) -> str | None:
    """What a layer of sums reads, if this value is one."""
    node = _maker(file.graph, _unwrapped(file, name))
    if node is None:
        return None
    if node.op_type == "Gemm":
        settings = {attribute.name: attribute.f or attribute.i for attribute in node.attribute}
        plain = all(settings.get(name, 1) == 1 for name in ("alpha", "beta")) and not settings.get("transA", 0)
        return node.input[0] if plain and all(_is_constant(file, given) for given in node.input[1:]) else None
    if node.op_type == "Add":
        product = [given for given in node.input if _constant(file, given) is None]
        if len(product) != 1 or not all(_is_constant(file, given) for given in node.input if given not in product):
            return None
        node = _maker(file.graph, product[0])
    if node is None or node.op_type != "MatMul" or not _is_constant(file, node.input[1]):
        return None
    return node.input[0]


def _unwrapped(file: OnnxFile, name: str) -> str:
    node = _maker(file.graph, name)
    return _unwrapped(file, node.input[0]) if node is not None and node.op_type in ("Identity", "Dropout") else name


def _constant(file: OnnxFile, name: str) -> Any:
    """The tensor of a constant, wherever the file keeps it."""
    found = next((tensor for tensor in file.graph.initializer if tensor.name == name), None)
    node = None if found is not None else _maker(file.graph, name)
    if node is None or node.op_type != "Constant":
        return found
    return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)


def _is_constant(file: OnnxFile, name: str, holds: Callable[[np.ndarray], Any] = lambda numbers: True) -> bool:
    from onnx import TensorProto, numpy_helper

    tensor = _constant(file, name)
    return (
        tensor is not None
        and tensor.data_type == TensorProto.FLOAT
        and bool(np.all(holds(numpy_helper.to_array(tensor))))
    )
