"""ONNX graphs, run by onnxruntime in a process of its own within limits of time and memory: to judge what was read of
a graph, or to decide where its operators are not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.importers.onnx_file import OnnxFile, read_onnx
from bornfair.importers.onnx_node import UNKNOWN_ROWS
from bornfair.models.columns import Columns, Wanted
from bornfair.models.deciding import served
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.opaque.said import Outside, Said, finite, labels_of
from bornfair.models.reading import Reading
from bornfair.people.features import Value

TOGETHER = 8_192  # people in one run of a graph
RUNTIME = f"onnxruntime {metadata.version('onnxruntime')}"


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


@dataclass(frozen=True, eq=False)
class OpaqueGraph(Outside):
    """An .onnx file that is run as it is."""

    path: Path
    asked: Reading = field(default_factory=Reading)

    @cached_property
    def file(self) -> OnnxFile:
        return read_onnx(self.path)

    @property
    def name(self) -> str:
        return self.file.origin

    @property
    def how(self) -> str:
        return f"the graph {self.path.name}, run by {RUNTIME} in a process of its own"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.file.content).hexdigest()

    @property
    def most(self) -> int:
        return TOGETHER

    @property
    def wanted(self) -> Wanted:
        return self.file.wanted

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        return self._said(self._run.outputs([(name, table[name]) for name in columns.names]), len(table))

    @cached_property
    def _run(self) -> GraphRun:  # weights that lie beside the file were read into the model
        return GraphRun(self.file, self.file.model.SerializeToString())

    @cached_property
    def _shown(self) -> tuple[str | None, str | None]:
        """The label that decides, and the scores."""
        return served(self.file.outputs, self.asked)

    def _said(self, outputs: dict[str, np.ndarray], rows: int) -> Said:
        label, scores = self._shown
        numbers: np.ndarray | None = None
        classes: tuple[Value, ...] | None = None
        found = None if scores is None else outputs[scores]
        if found is not None and len(found) == rows and found.shape[1]:
            if found.dtype.kind == "O" and found.shape[1] == 1 and isinstance(found[0, 0], dict):
                numbers, classes = _of_maps(found[:, 0], self.name)
            elif found.dtype.kind == "f":
                numbers = found.astype(np.float64)
        labels = None if label is None else self._labels(label, outputs[label], rows)
        if labels is None and numbers is None:
            raise InputError(
                f"{self.name}: output '{scores}' is not a number or a map of numbers for each of {rows:,} people."
            )
        if numbers is not None:
            finite(numbers, self.name)
        return Said(labels, numbers, classes if labels is None or _named(classes, labels) else None)

    def _labels(self, name: str, found: np.ndarray, rows: int) -> np.ndarray:
        if len(found) != rows or found.shape[1] != 1:
            raise InputError(
                f"{self.name}: output '{name}' has the shape {list(found.shape)} for {rows:,} people; a label for each "
                "is needed. Name the output that decides (--decision-output)."
            )
        labels = labels_of(found, self.name)
        whole = found.dtype.kind == "f" and bool((found == np.round(found)).all())
        return np.array([int(value) for value in labels], object) if whole else labels


def _of_maps(found: Any, origin: str) -> tuple[np.ndarray, tuple[Value, ...]]:
    """Maps from classes to numbers; the keys of whole numbers came as texts."""
    names = list(found[0])
    if any(list(one) != names for one in found):
        raise InputError(f"{origin} maps other classes for some people than for others.")
    numbers = np.array([[float(one[name]) for name in names] for one in found])
    return numbers, tuple(int(name) if name.lstrip("-").isdigit() else name for name in names)


def _named(classes: tuple[Value, ...] | None, labels: np.ndarray) -> bool:
    """Whether the keys of maps are written as the labels are."""
    return classes is not None and all(value in classes for value in labels.tolist())
