"""What does one of our own models say of other twins than it was made for?

Its encoding keeps what is sensitive apart, so that another question needs another encoding: the first layer is read
over raw values, as that of other people's models is, and folded over the encoding of the people who are asked about.
The original is the model as it ships.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

import numpy as np

from bornfair.core.errors import InputError
from bornfair.importers.affine import (
    Cell,
    Cells,
    Forms,
    NeedsLevels,
    Tape,
    activation,
    clipped,
    concatenated,
    layer,
)
from bornfair.importers.head import read_head
from bornfair.importers.original import Original
from bornfair.importers.source import Read
from bornfair.models.columns import Columns, Wanted
from bornfair.models.network.model import Model
from bornfair.models.network.onnx_graph import reads_sensitive
from bornfair.models.reading import Reading
from bornfair.models.shipped import shipped
from bornfair.people.columns import Column, GapColumns, NumberColumn
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.scales import Scale


@dataclass(frozen=True, eq=False)
class OwnSource:
    """A model that bornfair made, of whose features any may be asked about."""

    model: Model

    @property
    def wanted(self) -> Wanted:
        domain = self.model.domain
        read = domain.names if reads_sensitive(self.model) else domain.free_names
        return Wanted("this model", tuple(read), gaps=True)

    def read(self, columns: Columns, asked: Reading) -> Read:
        model, tape, names = self.model, Tape(columns.domain.features), self.wanted.names or ()
        scales = _kept_scales(model, columns.domain)
        value, taken, start = list[Forms](), list[int](), 0
        for name, column in model.encoding.columns.items():
            if name in names:  # what the graph does not read has weights of 0
                value.append(_shown(columns.domain.feature(name), column, tape, as_held=name in scales))
                taken += range(start, start + column.width)
            start += column.width
        rows = concatenated(value, 0)
        for i, (weight, bias) in enumerate(model.network.wide):
            if i:
                rows = activation(model.network.activation, rows, f"activation {i}")
            rows = layer(rows, (weight if i else weight[:, np.array(taken, np.int64)]).T, bias)
        head = read_head(rows, Reading(decision="logit") if model.network.outputs == 1 else None)
        served = shipped(model)
        runtime = f"onnxruntime {metadata.version('onnxruntime')}"
        original = Original(runtime, model.scores, served.decided, fills=model.fills)
        classes = None if model.domain.label is None else tuple(model.domain.label.classes)
        return Read(head, tape, classes, original, scales=scales)


def _kept_scales(model: Model, asked: Domain) -> dict[str, Scale]:
    """How numbers in which the asked twins do not differ are shown, ends included: as the model shows them. Over the
    whole range that a sentinel spans, float32 could not tell people apart.
    """
    if model.encoding.raw:
        return {}
    differ = {*asked.sensitive, *asked.twin_group.orbits}
    return {
        name: scale
        for name, scale in model.encoding.scales.items()
        if name not in differ and isinstance(asked.feature(name), NUMERIC)
    }


def _shown(feature: Feature, column: Column, tape: Tape, *, as_held: bool) -> Forms:
    """A feature of the asked domain as the network sees it; as_held: what is read is held between its ends already."""
    if isinstance(column, GapColumns):
        raise InputError(
            f"this model reads '{feature.name}' in two columns, because it may be missing; it can be asked about the "
            "twins it was trained for only: leave out other sensitive features, twins and domains."
        )
    if isinstance(column, NumberColumn):
        slope, constant = column.line
        raw = tape.forms(tape.column(feature, lambda levels: np.array(levels.tolist())))  # numbers, listed or not
        if as_held:
            return raw.scaled(float(slope)).plus(float(constant))
        ends = dict(column.steps)
        held = clipped(raw, ends.get("Max", -np.inf), ends.get("Min", np.inf), f"the ends of '{feature.name}'")
        return held.scaled(float(slope)).plus(float(constant))
    if isinstance(feature, NUMERIC):
        raise NeedsLevels(feature.name)
    table = column.table.astype(np.float64)
    cells = tuple(Cell(feature, table[:, j]) for j in range(column.width))
    return tape.forms(Cells((column.width,), cells))
