"""What a reader of somebody's models hands over, whatever the kind of model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bornfair.models.importers.affine import Tape
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.head import Head
from bornfair.models.importers.original import Original
from bornfair.models.importers.reading import Reading
from bornfair.people.features import Value


@dataclass(frozen=True, eq=False)
class Read:
    """The scores that decide, over the columns of a tape; the classes' names if the model knows them."""

    head: Head
    tape: Tape
    classes: tuple[Value, ...] | None
    original: Callable[[], Original]
    plain_layers: int = 0  # so many layers of sums, if the original executes nothing else


class Source(Protocol):
    """A model that was opened: what it takes, and what it computes for people of a domain."""

    @property
    def wanted(self) -> Wanted: ...

    def read(self, columns: Columns, asked: Reading) -> Read: ...
