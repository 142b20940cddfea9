"""Other people's ONNX files as models, through their graph."""

from __future__ import annotations

from dataclasses import dataclass

from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.onnx_end import plain_layers
from bornfair.models.importers.onnx_file import OnnxFile, understand
from bornfair.models.importers.original import OnnxOriginal
from bornfair.models.importers.reading import Reading
from bornfair.models.importers.source import Read


@dataclass(frozen=True, eq=False)
class OnnxSource:
    """An ONNX file that somebody's exporter wrote."""

    file: OnnxFile

    @property
    def wanted(self) -> Wanted:
        return self.file.wanted

    def read(self, columns: Columns, asked: Reading) -> Read:
        understood, tape = understand(self.file, columns, asked)
        layers = plain_layers(self.file, understood)
        return Read(
            understood.head, tape, understood.classes, lambda: OnnxOriginal(self.file, understood, columns), layers
        )
