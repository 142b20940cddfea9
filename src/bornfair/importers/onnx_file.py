"""ONNX files, read as data: inputs, nodes and constants.

Nothing of it is executed, and what is cut, hostile or too large is refused. No other file is opened but one that lies
beside it and holds its weights, as newer exporters of torch write them.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core import limits
from bornfair.core.errors import InputError, shown
from bornfair.core.files import read_regular
from bornfair.importers.affine import MOST_ENTRIES, CannotRead
from bornfair.importers.onnx_node import UNKNOWN_ROWS, listed
from bornfair.models.columns import Wanted
from bornfair.models.deciding import Graph
from bornfair.models.graph.wiring import reads_of
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.people.features import Value

MOST_NODES = 20_000
STANDARD_NAMES = ("", "ai.onnx")
TOGETHER = 8_192  # people in one run of a graph
RUNTIME = f"onnxruntime {metadata.version('onnxruntime')}"


@dataclass(frozen=True)
class GraphInput:
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
    inputs: tuple[GraphInput, ...]
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
    def only_input(self) -> GraphInput | None:
        """The input that takes all columns, if there is one."""
        return self.inputs[0] if len(self.inputs) == 1 and self.inputs[0].width != 1 else None

    @cached_property
    def outputs(self) -> Graph:
        """Its outputs, for the rule by which one decides."""
        return Graph(self.model, [given.name for given in self.inputs], self.origin)

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

    def fed(self, columns: Sequence[tuple[str, Any]]) -> dict[str, np.ndarray]:
        """Raw values of columns, by name and in the order of the inputs, as the graph takes them."""
        only = self.only_input
        given = self.inputs if only is None else [only] * len(columns)
        values = [
            as_input(np.asarray(found, object), one, name, self.origin)
            for one, (name, found) in zip(given, columns, strict=True)
        ]
        if only is not None:
            return {only.name: np.stack(values, axis=1)}
        return {one.name: v if one.rank == 1 else v[:, None] for one, v in zip(given, values, strict=True)}

    def behind(self, outputs: Sequence[str]) -> set[str]:
        """These values and all that they are computed from, by name."""
        needed = set(outputs)
        for node in reversed(self.graph.node):
            if needed.intersection(node.output):
                needed |= reads_of(node)
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


@dataclass(eq=False)
class GraphRun:
    """A graph made of a file, as onnxruntime runs it on raw values."""

    file: OnnxFile
    content: bytes

    @cached_property
    def _graph(self) -> ForeignGraph:
        return ForeignGraph(self.content)

    def outputs(self, columns: Sequence[tuple[str, Any]]) -> dict[str, np.ndarray]:
        """All outputs [people, columns] for raw values of columns, by name and in the order of the inputs."""
        feed, rows = self.file.fed(columns), self.file.rows
        together, people = TOGETHER if rows == UNKNOWN_ROWS else rows, len(columns[0][1])
        parts: list[dict[str, np.ndarray]] = []
        for start in range(0, max(people, 1), together):
            some = {name: values[start : start + together] for name, values in feed.items()}
            count = len(next(iter(some.values())))
            if rows != UNKNOWN_ROWS and count < together:  # a fixed number of people: the last ones are run with copies
                some = {k: np.concatenate([v, np.repeat(v[-1:], together - count, axis=0)]) for k, v in some.items()}
            try:
                found = self._graph.run(some)
            except CannotRun as error:
                raise InputError(f"{self.file.origin} cannot be run by {RUNTIME}: {error}.") from error
            fed = len(next(iter(some.values())))
            lying = {name for name, values in found.items() if values.shape == (1, fed)}  # labels, as one row
            parts.append({
                name: values.reshape(fed if name in lying else len(values), -1)[:count]
                for name, values in found.items()
            })  # fmt: skip
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_onnx(path: str | Path) -> OnnxFile:
    """The graph of a file, with weights that are kept in a file beside it; one that is cut or hostile is refused."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    place = Path(path)
    try:
        content = read_regular(place, limits.MODEL_BYTES)
    except OSError as error:
        raise InputError(f"cannot read '{place}': {error.strerror or error}.") from error
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, RecursionError) as error:
        raise InputError(f"'{place}' is not an ONNX file, or it is cut off ({error}).") from error
    if (name := _no_text(model)) is not None:
        raise InputError(f"'{place}' is damaged: the name {name!r} in it is no text; export the model again.")
    _fill_in(model, place)
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
    settings = {entry.key: entry.value for entry in model.metadata_props}
    for function in model.functions:
        if function.domain in (*STANDARD_NAMES, "ai.onnx.ml"):
            raise InputError(f"'{place}' gives the operator {function.name} a meaning of its own; that is not read.")
    return OnnxFile(place, content, model, inputs, rows.pop() if rows else UNKNOWN_ROWS, versions, settings)


# --- the parts of the file ---


def _no_text(message: Any) -> bytes | None:
    """A name that is not UTF-8, wherever it is in the file: protobuf hands it out as bytes, without a word."""
    waiting = [message]
    while waiting:
        for field, value in waiting.pop().ListFields():
            many = [value] if isinstance(value, (str, bytes)) or hasattr(value, "ListFields") else value
            if field.type == field.TYPE_STRING:
                found = next((one for one in many if isinstance(one, bytes)), None)
                if found is not None:
                    return found
            elif field.type == field.TYPE_MESSAGE:
                waiting += many
    return None


def as_input(values: np.ndarray, given: GraphInput, name: str, origin: str) -> np.ndarray:
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


def _input(value: Any, place: Path) -> tuple[GraphInput, int]:
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
    return GraphInput(value.name, element, np.dtype(object) if text else dtype, len(sizes), width), sizes[0]


def attribute_of(attribute: Any, path: Path) -> Any:
    from onnx import AttributeProto, helper

    if attribute.type == AttributeProto.TENSOR:
        return array_of(attribute.t, path)
    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS, AttributeProto.SPARSE_TENSOR):
        raise CannotRead("holds a graph or a sparse tensor, which is not supported")
    found = helper.get_attribute_value(attribute)
    if isinstance(found, bytes):
        return found.decode(errors="replace")
    if attribute.type == AttributeProto.STRINGS:
        return [item.decode(errors="replace") for item in found]
    return list(found) if attribute.type in (AttributeProto.FLOATS, AttributeProto.INTS) else found


def _fill_in(model: Any, place: Path) -> None:
    """Read weights that are kept in a file beside the model into it."""
    from onnx import TensorProto

    files: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL and not tensor.external_data:
            continue
        told = {entry.key: entry.value for entry in tensor.external_data}
        size = _bytes_of(tensor, place)
        offset, length = (_count(told.get(key, "0"), key, tensor.name, place) for key in ("offset", "length"))
        content = _beside(place, told.get("location", ""), tensor.name, files)
        if length not in (0, size) or offset + size > len(content):
            raise InputError(
                f"'{place}': the weights '{tensor.name}' need {size:,} bytes of '{told['location']}', which has "
                f"{len(content):,}, from {offset:,} on; the two files do not belong together, or one is cut off."
            )
        tensor.raw_data = content[offset : offset + size]
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _beside(place: Path, name: str, weights: str, files: dict[str, bytes]) -> bytes:
    """The content of a file in the same folder as the model: by its name alone, no link, no device."""
    if name in files:
        return files[name]
    if not name or name in (".", "..") or not name.isprintable() or set(name) & set("/\\:"):
        raise InputError(
            f"'{place}': the weights '{weights}' are kept in {name[:80]!r}; only a file beside the model is opened, by "
            "its name alone. Save the model as one file (torch.onnx.export with external_data=False)."
        )
    side = place.parent / name
    try:
        found = side.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"'{place}': '{name}', which holds its weights, is not a regular file.")
        files[name] = read_regular(side, limits.MODEL_BYTES)
    except FileNotFoundError:
        raise InputError(
            f"'{place}' keeps its weights in '{name}', which is not beside it; put the two files into one folder, or "
            "save the model as one file (torch.onnx.export with external_data=False)."
        ) from None
    except OSError as error:
        raise InputError(f"cannot read '{side}': {error.strerror or error}.") from error
    return files[name]


def _bytes_of(tensor: Any, place: Path) -> int:
    """How many bytes the numbers of a tensor take."""
    from onnx import helper

    dims = list(tensor.dims)
    if any(n < 0 for n in dims) or math.prod(dims) > MOST_ENTRIES:
        raise InputError(f"'{place}': the constant '{tensor.name}' says its shape is {dims}; that is not read.")
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, ValueError, TypeError):
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise InputError(f"'{place}': the weights '{tensor.name}' are of a type that is not read from another file.")
    return math.prod(dims) * int(dtype.itemsize)


def _count(text: str, key: str, weights: str, place: Path) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"'{place}': the weights '{weights}' have the {key} {text[:40]!r}; the file is broken.")
    return int(text)


def array_of(tensor: Any, path: Path) -> np.ndarray:
    """A constant of the file, if it holds what it says."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:  # those of the graph are filled in
        raise InputError(
            f"'{path}': the numbers '{tensor.name}' of a node are kept in another file, which is not opened; save the "
            "model as one file (torch.onnx.export with external_data=False, or onnx.save of what onnx.load gives)."
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


def _categories(graph: Any, inputs: Sequence[GraphInput]) -> dict[str, tuple[Value, ...]]:
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
            attributes = {a.name: attribute_of(a, Path()) for a in node.attribute if a.type in (7, 8)}
            found = listed(attributes, "cats_strings", "cats_int64s", "keys_strings", "keys_int64s", "classes_strings")
            if list(found) != [""]:  # a node that recognises gaps lists no category
                known.setdefault(column, tuple(dict.fromkeys(found)))
        elif node.op_type in ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Cast", "ArrayFeatureExtractor"):
            behind |= dict.fromkeys(node.output, column)
    text = {found.name for found in inputs if found.element == "text"}
    return {name: v for name, v in known.items() if v and all(isinstance(c, str) == (name in text) for c in v)}
