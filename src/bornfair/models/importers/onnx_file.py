"""What does an ONNX file compute? Its graph is read as data and walked once, from the columns to the decision.

Nothing of it is executed here, no other file is opened, and what is not understood is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.models.importers.affine import MOST_ENTRIES, MOST_WORK, CannotRead, Cells, Forms, NeedsLevels, Tape
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.onnx_end import Understood, end_of
from bornfair.models.importers.onnx_ml_operators import MACHINE_LEARNING, listed
from bornfair.models.importers.onnx_node import UNKNOWN_ROWS, Node, Zipped, moved
from bornfair.models.importers.onnx_operators import STANDARD
from bornfair.models.importers.reading import Reading
from bornfair.people.features import NUMERIC, Feature, Value

MOST_BYTES = 1_000_000_000
MOST_NODES = 20_000
STANDARD_NAMES = ("", "ai.onnx")


@dataclass(frozen=True)
class Input:
    """One input of a graph."""

    name: str
    element: str  # "text", "truth", "whole" or "real"
    dtype: np.dtype
    rank: int
    width: int | None  # of the second axis; None if the file does not say


@dataclass(frozen=True, eq=False)
class OnnxFile:
    """A file that was read, not yet understood."""

    path: Path
    content: bytes
    model: Any
    inputs: tuple[Input, ...]
    rows: int  # a fixed number of people for each run, or UNKNOWN_ROWS
    versions: dict[str, int]
    metadata: dict[str, str]

    @property
    def graph(self) -> Any:
        return self.model.graph

    @property
    def origin(self) -> str:
        return f"'{self.path}'"

    @property
    def only_input(self) -> Input | None:
        """The input that takes all columns, if there is one."""
        return self.inputs[0] if len(self.inputs) == 1 and self.inputs[0].width != 1 else None

    @property
    def wanted(self) -> Wanted:
        only = self.only_input
        if only is not None:
            return Wanted(self.origin, None, only.width, numbers=only.element != "text")
        wide = [found for found in self.inputs if found.width not in (1, None)]
        if wide:
            raise InputError(
                f"{self.origin} has {len(self.inputs)} inputs, of which '{wide[0].name}' takes {wide[0].width} numbers"
                "; a model with one input for all columns, or one for each, can be read."
            )
        return Wanted(self.origin, tuple(i.name for i in self.inputs), None, _categories(self.graph, self.inputs))

    def behind(self, outputs: Sequence[str]) -> set[str]:
        """These values and all that they are computed from, by name."""
        needed = set(outputs)
        for node in reversed(self.graph.node):
            if needed.intersection(node.output):
                needed.update(node.input)
        return needed

    def pruned(self, outputs: Sequence[str]) -> bytes:
        """The graph that was read for these outputs and nothing else: no other output, branch, function or constant."""
        from onnx import ModelProto, OperatorSetIdProto, ValueInfoProto

        needed = self.behind(outputs)
        nodes = [node for node in self.graph.node if needed.intersection(node.output)]
        made = ModelProto(ir_version=self.model.ir_version)
        made.graph.name = self.graph.name or "read"
        made.graph.node.extend(nodes)
        made.graph.input.extend(self.graph.input)
        made.graph.initializer.extend(tensor for tensor in self.graph.initializer if tensor.name in needed)
        made.graph.output.extend(ValueInfoProto(name=name) for name in outputs)
        used = {"" if node.domain in STANDARD_NAMES else node.domain for node in nodes}
        for domain, version in self.versions.items():
            if ("" if domain in STANDARD_NAMES else domain) in used:
                made.opset_import.append(OperatorSetIdProto(domain=domain, version=version))
        return made.SerializeToString()


def read_onnx(path: str | Path) -> OnnxFile:
    """The graph of a file; one that is cut, hostile or refers to other files is refused."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    place = Path(path)
    try:
        if place.stat().st_size > MOST_BYTES:
            raise InputError(f"'{place}' has more than {MOST_BYTES:,} bytes; networks for tables are smaller.")
        content = place.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read '{place}': {error.strerror or error}.") from error
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"'{place}' is not an ONNX file, or it is cut off ({error}).") from error
    graph = model.graph
    if not graph.node or not graph.output:
        raise InputError(f"'{place}' is not an ONNX file with a model in it: it has no nodes or no outputs.")
    if len(graph.node) > MOST_NODES:
        raise InputError(f"'{place}' has {len(graph.node):,} nodes, more than the {MOST_NODES:,} that are read.")
    constants = {tensor.name for tensor in graph.initializer}
    found = [_input(value, place) for value in graph.input if value.name not in constants]
    inputs, rows = tuple(one for one, _ in found), {count for _, count in found if count}
    if not inputs:
        raise InputError(f"'{place}' has no inputs: it decides the same for everybody.")
    if len(rows) > 1:
        raise InputError(f"'{place}' has inputs for {shown(sorted(rows))} people at once; they must agree.")
    versions = {item.domain: int(item.version) for item in model.opset_import}
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    for function in model.functions:
        if function.domain in (*STANDARD_NAMES, "ai.onnx.ml"):
            raise InputError(f"'{place}' gives the operator {function.name} a meaning of its own; that is not read.")
    return OnnxFile(place, content, model, inputs, rows.pop() if rows else UNKNOWN_ROWS, versions, metadata)


def understand(file: OnnxFile, columns: Columns, asked: Reading) -> tuple[Understood, Tape]:
    """Walk the graph for people of this domain."""
    tape = Tape(columns.domain.features)
    values: dict[str, Any] = dict(_inputs(file, columns, tape))
    spent = 0
    for tensor in file.graph.initializer:
        values[tensor.name] = _array(tensor, file.path)
    for number, proto in enumerate(file.graph.node):
        name = proto.name or f"node {number}"
        results = _results(file, proto, name, values, tape)
        for output, result in zip(proto.output, results, strict=False):
            if output:
                values[output] = result
            spent += result.numbers if isinstance(result, Forms) else getattr(result, "size", 0)
        if spent > MOST_WORK:
            raise InputError(f"'{file.path}' computes too much to be read: more than {MOST_WORK:,} numbers.")
    return end_of(file, values, asked), tape


def _results(file: OnnxFile, proto: Any, name: str, values: dict[str, Any], tape: Tape) -> Sequence[Any]:
    """What one node gives: values, or (for each output) the reason why it is not understood."""
    given = []
    for source in proto.input:
        if source and source not in values:
            raise InputError(
                f"'{file.path}': node '{name}' ({proto.op_type}) reads '{source}', which nothing before it gives; the "
                "graph has a cycle or the file is cut."
            )
        given.append(values[source] if source else None)
    failed = next((value for value in given if isinstance(value, InputError)), None)
    if failed is not None:
        return [failed] * len(proto.output)
    try:
        handler = _handler(proto)
        if any(isinstance(value, Zipped) for value in given):
            raise CannotRead("computes on with a map from classes to scores, which is not supported")
        version = file.versions.get(proto.domain, file.versions.get("", 1))
        attributes = {attribute.name: _attribute(attribute, file.path) for attribute in proto.attribute}
        node = Node(proto.op_type, name, tuple(given), attributes, len(proto.output), version, tape, file.rows)
        made = handler(node)
    except CannotRead as error:
        return [_unsupported(file, name, proto.op_type, error)] * len(proto.output)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        reason = CannotRead(f"does not fit what it is given ({error or type(error).__name__}); is the file broken?")
        return [_unsupported(file, name, proto.op_type, reason)] * len(proto.output)
    several = made if isinstance(made, tuple) else (made,)
    return [_unsupported(file, name, proto.op_type, v) if isinstance(v, CannotRead) else v for v in several]


def _handler(proto: Any) -> Any:
    table = STANDARD if proto.domain in STANDARD_NAMES else MACHINE_LEARNING if proto.domain == "ai.onnx.ml" else {}
    if proto.op_type not in table:
        where = "" if proto.domain in STANDARD_NAMES else f" of '{proto.domain}'"
        raise CannotRead(
            f"is an operator{where} that is not supported; dense layers with ReLU, tanh or sigmoid, linear models and "
            "their encoders can be read"
        )
    return table[proto.op_type]


def _unsupported(file: OnnxFile, name: str, operator: str, error: CannotRead) -> InputError:
    return InputError(f"'{file.path}': node '{name}' ({operator}) {error}.")


# --- the parts of the file ---


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


def _column(feature: Feature, given: Input, file: OnnxFile, tape: Tape) -> Forms | Cells:
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


def as_input(values: np.ndarray, given: Input, name: str, origin: str) -> np.ndarray:
    """Raw values as an input of the graph takes them."""
    if given.element == "text":
        return np.array([str(value) for value in values.tolist()], dtype=object)
    try:
        return values.astype(np.float64).astype(given.dtype)
    except (TypeError, ValueError):
        bad = next(value for value in values.tolist() if isinstance(value, str))
        raise InputError(
            f"{origin} takes numbers for '{name}', which holds {bad!r}; make the encoding part of the model (a "
            "pipeline), or give the table of encoded numbers."
        ) from None


def _input(value: Any, place: Path) -> tuple[Input, int]:
    from onnx import TensorProto, helper

    if not isinstance(value.name, str) or not value.name:
        raise InputError(f"'{place}' has an input whose name is no text; the file is broken.")
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or kind.elem_type == TensorProto.UNDEFINED:
        raise InputError(f"'{place}': input '{value.name}' is not a tensor; a model of plain columns can be read.")
    try:
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
    except (KeyError, ValueError, TypeError):
        dtype = np.dtype("V1")
    text = kind.elem_type == TensorProto.STRING
    if not text and dtype.kind not in "biuf":
        raise InputError(f"'{place}': input '{value.name}' is of a type that is not supported; use float32.")
    element = "text" if text else {"b": "truth", "f": "real"}.get(dtype.kind, "whole")
    sizes = [int(d.dim_value) if d.HasField("dim_value") else 0 for d in kind.shape.dim]
    if not kind.HasField("shape"):
        sizes = [0, 0]
    if len(sizes) not in (1, 2) or min(sizes) < 0:
        raise InputError(f"'{place}': input '{value.name}' has the shape {sizes}; [people, columns] can be read.")
    width = 1 if len(sizes) == 1 else sizes[1] or None
    return Input(value.name, element, np.dtype(object) if text else dtype, len(sizes), width), sizes[0]


def _attribute(attribute: Any, path: Path) -> Any:
    from onnx import AttributeProto, helper

    if attribute.type == AttributeProto.TENSOR:
        return _array(attribute.t, path)
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.SPARSE_TENSOR):
        raise CannotRead("holds a graph or a sparse tensor, which is not supported")
    found = helper.get_attribute_value(attribute)
    if isinstance(found, bytes):
        return found.decode(errors="replace")
    if attribute.type == AttributeProto.STRINGS:
        return [item.decode(errors="replace") for item in found]
    return list(found) if attribute.type in (AttributeProto.FLOATS, AttributeProto.INTS) else found


def _array(tensor: Any, path: Path) -> np.ndarray:
    """A constant of the file, if it holds what it says."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise InputError(
            f"'{path}': the weights '{tensor.name}' are kept in another file, which is not opened; save the model as "
            "one file (torch.onnx.export with external_data=False, or onnx.save of what onnx.load gives)."
        )
    dims = list(tensor.dims)
    if any(n < 0 for n in dims) or math.prod(dims) > MOST_ENTRIES:
        raise InputError(f"'{path}': the constant '{tensor.name}' says its shape is {dims}; that is not read.")
    try:
        found = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise InputError(f"'{path}': the constant '{tensor.name}' does not hold what it says ({error}).") from error
    if found.dtype.kind in "OSU":
        texts = [item.decode(errors="replace") if isinstance(item, bytes) else str(item) for item in found.ravel()]
        return np.array(texts, dtype=object).reshape(found.shape)
    return found


def _categories(graph: Any, inputs: Sequence[Input]) -> dict[str, tuple[Value, ...]]:
    """The categories a file lists for its inputs: what the encoders know that read one input and nothing else."""
    behind = {found.name: found.name for found in inputs}
    known: dict[str, tuple[Value, ...]] = {}
    constants = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        sources = [name for name in node.input if name and name not in constants]
        if len(sources) != 1 or sources[0] not in behind:
            continue
        column = behind[sources[0]]
        if node.op_type in ("OneHotEncoder", "LabelEncoder"):
            attributes = {a.name: _attribute(a, Path()) for a in node.attribute if a.type in (7, 8)}
            found = listed(attributes, "cats_strings", "cats_int64s", "keys_strings", "keys_int64s", "classes_strings")
            known.setdefault(column, tuple(dict.fromkeys(found)))
        elif node.op_type in ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Cast", "ArrayFeatureExtractor"):
            behind |= dict.fromkeys(node.output, column)
    text = {found.name for found in inputs if found.element == "text"}
    return {name: v for name, v in known.items() if v and all(isinstance(c, str) == (name in text) for c in v)}
