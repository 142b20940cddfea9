"""From somebody's model to ours: read, folded over an encoding of the domain, compared with the original."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from bornfair.errors import InputError
from bornfair.models.importers.affine import CannotRead, NeedsLevels, Tape
from bornfair.models.importers.columns import Columns, Wanted, Who, columns_for, with_classes, with_levels
from bornfair.models.importers.fold import folded, is_exact
from bornfair.models.importers.head import Head
from bornfair.models.importers.original import Original, check
from bornfair.models.importers.reading import Reading
from bornfair.models.model import Model
from bornfair.people.features import Value
from bornfair.people.tables import as_pandas


@dataclass(frozen=True, eq=False)
class Read:
    """What a reader hands over: the scores that decide, over the columns of a tape; the classes' names if the model
    knows them; the model as it came.
    """

    head: Head
    tape: Tape
    classes: tuple[Value, ...] | None
    original: Original
    plain_layers: int = 0  # so many layers of sums, if the original executes nothing else


class Source(Protocol):
    """A model that was opened: what it takes, and what it computes for people of a domain."""

    @property
    def wanted(self) -> Wanted: ...

    def read(self, columns: Columns, asked: Reading) -> Read: ...


def imported(source: Source, who: Who, asked: Reading) -> Model:
    """The model for the people who are asked about."""
    wanted = source.wanted
    asked.only_for(wanted.origin, "decision", "threshold")
    if who.table is not None:
        who = replace(who, table=as_pandas(who.table))
    columns = columns_for(wanted, who)
    while True:
        try:
            read = source.read(columns, asked)
            break
        except NeedsLevels as need:
            columns = with_levels(columns, need.feature, wanted.origin)
    domain = with_classes(columns.domain, read.classes, read.head.classes, who.target, wanted.origin)
    try:
        network, encoding = folded(read.head, read.tape, domain, who.table)
    except CannotRead as error:
        raise InputError(f"{wanted.origin} {error}.") from error
    original = read.original
    original.reads = columns.names
    plain = encoding.raw and read.plain_layers == len(network.layers)
    original.plain_sums = plain and is_exact(read.head, read.tape, network)
    check(original, read.head, network, encoding, table=who.table)
    return Model(network, encoding, original=original, note=asked.note)
