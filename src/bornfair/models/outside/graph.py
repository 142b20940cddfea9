"""What does an ONNX graph decide whose operators are not read? onnxruntime runs it, in a process of its own, within
limits of time and memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, shown
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.onnx_file import OnnxFile, read_onnx
from bornfair.models.importers.onnx_source import TOGETHER, GraphRun
from bornfair.models.outside.said import Said, finite, labels_of
from bornfair.people.features import Value


@dataclass(frozen=True, eq=False)
class Graph:
    """An .onnx file that is run as it is."""

    path: Path
    _runs: dict[tuple[str, ...], GraphRun] = field(default_factory=dict)

    classes, point = None, None

    @cached_property
    def file(self) -> OnnxFile:
        return read_onnx(self.path)

    @property
    def name(self) -> str:
        return self.file.origin

    @property
    def how(self) -> str:
        return (
            f"the graph {self.path.name}, run by onnxruntime {metadata.version('onnxruntime')} in a process of its own"
        )

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
        run = self._runs.get(columns.names)
        if run is None:  # weights that lie beside the file were read into the model
            run = self._runs[columns.names] = GraphRun(self.file, columns, self.file.model.SerializeToString())
        return self._said(run.outputs(table), len(table))

    def _said(self, outputs: dict[str, np.ndarray], rows: int) -> Said:
        """The first output of labels, and the first of numbers; a map from classes to numbers is one of these."""
        labels: np.ndarray | None = None
        numbers: np.ndarray | None = None
        classes: tuple[Value, ...] | None = None
        for name in (output.name for output in self.file.graph.output):
            found = outputs[name]
            if len(found) != rows:
                continue
            if found.dtype.kind == "O" and found.shape[1] == 1 and isinstance(found[0, 0], dict):
                if numbers is None:
                    numbers, classes = _of_maps(found[:, 0], self.name)
            elif found.dtype.kind in "iubOU" and found.shape[1] == 1:
                labels = labels_of(found, self.name) if labels is None else labels
            elif found.dtype.kind == "f" and numbers is None and found.shape[1]:
                numbers = found.astype(np.float64)
        if labels is None and numbers is None:
            raise InputError(
                f"{self.name} gives {shown(outputs)} for {rows:,} people, none of which is a label or a number for "
                "each of them."
            )
        if numbers is not None:
            finite(numbers, self.name)
        return Said(labels, numbers, classes if labels is None or _named(classes, labels) else None)


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
