"""Somebody's ONNX file as a model: read through its graph, run by onnxruntime in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

import numpy as np
import pandas as pd

from bornfair.errors import InputError
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.onnx_end import Understood, plain_layers
from bornfair.models.importers.onnx_file import OnnxFile, as_input, understand
from bornfair.models.importers.onnx_node import UNKNOWN_ROWS
from bornfair.models.importers.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.importers.original import Original, Read
from bornfair.models.importers.reading import Reading

TOGETHER = 8_192  # people in one run of a graph


@dataclass(frozen=True, eq=False)
class OnnxSource:
    """An ONNX file that somebody's exporter wrote."""

    file: OnnxFile

    @property
    def wanted(self) -> Wanted:
        return self.file.wanted

    def read(self, columns: Columns, asked: Reading) -> Read:
        understood, tape = understand(self.file, columns, asked)
        run = _Run(self.file, understood, columns)
        original = Original(run.runtime, run.scores, run.decide)
        return Read(understood.head, tape, understood.classes, original, plain_layers(self.file, understood))


@dataclass(eq=False)
class _Run:
    """The part of a file that was read, as onnxruntime runs it."""

    file: OnnxFile
    understood: Understood
    columns: Columns
    runtime: str = f"onnxruntime {metadata.version('onnxruntime')}"

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

    @cached_property
    def _graph(self) -> ForeignGraph:
        outputs = self.understood.label_output, self.understood.score_output
        return ForeignGraph(self.file.pruned([name for name in outputs if name is not None]))

    def _outputs(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """All outputs as [people, columns]."""
        feed, rows = self._feed(table), self.file.rows
        together = TOGETHER if rows == UNKNOWN_ROWS else rows
        parts: list[dict[str, np.ndarray]] = []
        for start in range(0, max(len(table), 1), together):
            some = {name: values[start : start + together] for name, values in feed.items()}
            count = len(next(iter(some.values())))
            if rows != UNKNOWN_ROWS and count < together:  # a fixed number of people: the last ones are run with copies
                some = {k: np.concatenate([v, np.repeat(v[-1:], together - count, axis=0)]) for k, v in some.items()}
            try:
                found = self._graph.run(some)
            except CannotRun as error:
                raise InputError(f"{self.file.origin} cannot be run by {self.runtime}: {error}.") from error
            parts.append({name: values.reshape(len(values), -1)[:count] for name, values in found.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _feed(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        only, names = self.file.only_input, self.columns.names
        given = self.file.inputs if only is None else [only] * len(names)
        columns = [
            as_input(table[name].to_numpy(object), one, name, self.file.origin)
            for one, name in zip(given, names, strict=True)
        ]
        if only is not None:
            return {only.name: np.stack(columns, axis=1)}
        return {one.name: c if one.rank == 1 else c[:, None] for one, c in zip(given, columns, strict=True)}
