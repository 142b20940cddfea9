"""ONNX files as models: other people's through their graph, our own through what they say about their encoding."""

from __future__ import annotations

from dataclasses import dataclass

from bornfair import checker
from bornfair.bundle import DOMAIN, network_and_encoding
from bornfair.domain import Domain
from bornfair.errors import InputError
from bornfair.interop.columns import Columns, Wanted
from bornfair.interop.onnx_end import plain_layers
from bornfair.interop.onnx_file import OnnxFile, understand
from bornfair.interop.original import OnnxOriginal
from bornfair.interop.reading import Reading
from bornfair.interop.source import Read
from bornfair.model import FairModel


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


def own_model(file: OnnxFile, domain: Domain | None) -> FairModel:
    """A model.onnx that bornfair wrote, with its domain (or the domain.json beside it)."""
    beside = file.path.parent / DOMAIN
    if domain is None:
        if not beside.is_file():
            raise InputError(
                f"{file.origin} was written by bornfair without its {DOMAIN}; give the domain, or the bundle."
            )
        domain = Domain.load(beside)
    try:
        people = checker.People(checker.parse_json(domain.text().encode(), DOMAIN))
        found = checker.read_model(file.content, people)
    except (checker.Rejected, *checker.MALFORMED) as error:
        raise InputError(
            f"cannot read {file.origin} with this domain: {error}; give the domain it was trained with."
        ) from error
    return FairModel(*network_and_encoding(found, domain, str(file.path)))
