"""What does an ONNX file compute? Its graph is walked once, from the columns to the decision; what is not understood
is named. As it came it is run by onnxruntime in a process of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.importers.affine import MOST_WORK, CannotRead, Cells, Forms, NeedsLevels, Tape
from bornfair.importers.onnx_end import Understood, end_of, plain_layers
from bornfair.importers.onnx_file import STANDARD_NAMES, Input, OnnxFile, array_of, as_input, attribute_of
from bornfair.importers.onnx_ml_operators import MACHINE_LEARNING
from bornfair.importers.onnx_node import Node, Zipped, moved
from bornfair.importers.onnx_operators import STANDARD
from bornfair.importers.onnx_run import RUNTIME, GraphRun
from bornfair.importers.original import Original
from bornfair.importers.source import Read
from bornfair.models.columns import Columns, Wanted
from bornfair.models.reading import Reading
from bornfair.people.features import NUMERIC, Feature


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
        handler = _handler(proto)
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


def _handler(proto: Any) -> Any:
    table = STANDARD if proto.domain in STANDARD_NAMES else MACHINE_LEARNING if proto.domain == "ai.onnx.ml" else {}
    if proto.op_type not in table:
        where = "" if proto.domain in STANDARD_NAMES else f" of '{proto.domain}'"
        raise CannotRead(
            f"is an operator{where} that is not supported; dense layers with ReLU, tanh or sigmoid, linear models and "
            "their encoders can be read"
        )
    return table[proto.op_type]


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
