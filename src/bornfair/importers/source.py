"""Import of foreign networks: read, folded over an encoding of the domain, compared with the original."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import CannotRead, NeedsLevels, Tape
from bornfair.importers.fold import folded, is_exact
from bornfair.importers.head import Head
from bornfair.importers.original import Original, check
from bornfair.models.columns import Columns, Wanted, Who, columns_for, with_classes, with_levels
from bornfair.models.network.model import Model
from bornfair.models.operating import USUAL, Asked, Top
from bornfair.models.reading import Reading
from bornfair.people.columns import Scale
from bornfair.people.features import Value
from bornfair.people.policies import complete
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
    scales: Mapping[str, Scale] = field(default_factory=dict)  # how it shows numbers, where that is ours to know


class NetworkSource(Protocol):
    """A model that was opened: what it takes, and what it computes for people of a domain."""

    @property
    def wanted(self) -> Wanted: ...

    def read(self, columns: Columns, asked: Reading) -> Read: ...


def imported(source: NetworkSource, who: Who, asked: Reading) -> Model:
    """The model for the people who are asked about."""
    wanted = source.wanted
    asked.only_for(wanted.origin, "decision", "threshold", "decision_output")
    if who.table is not None:
        who = replace(who, table=as_pandas(who.table))
    columns = columns_for(wanted, who)
    gappy = [name for name in columns.names if columns.domain.feature(name).missing]
    if gappy and not wanted.gaps:
        raise InputError(
            f"{shown(gappy)} may be missing in the domain, but what {wanted.origin} decides then is not read; remove "
            '"missing" from the domain: gaps of a table are filled in as the model fills them in, or left out.'
        )
    if isinstance(asked.threshold, Asked):
        columns, read = _read(source, columns, replace(asked, threshold=None, by_scores=True))
        asked = _at_the_point(read, asked, asked.threshold, columns, who.table, wanted.origin)
    columns, read = _read(source, columns, asked)
    domain = with_classes(columns.domain, read.classes, read.head.classes, who.target, wanted.origin)
    if isinstance(asked.threshold, float) and not asked.resolved:
        asked = asked.for_classes(domain.label.classes)  # type: ignore[union-attr]
        if isinstance(asked.threshold, Asked):  # it is for the first class
            asked = _at_the_point(read, asked, asked.threshold, columns, who.table, wanted.origin)
            columns, read = _read(source, columns, asked)
    try:
        network, encoding = folded(read.head, read.tape, domain, who.table, read.scales)
    except CannotRead as error:
        raise InputError(f"{wanted.origin} {error}.") from error
    original = read.original
    original.reads = columns.names
    plain = encoding.raw and read.plain_layers == len(network.layers)
    original.plain_sums = plain and is_exact(read.head, read.tape, network)
    check(original, read.head, network, encoding, table=who.table)
    return Model(network, encoding, original=original, note=asked.note, offsets=read.head.offsets)


def _read(source: NetworkSource, columns: Columns, asked: Reading) -> tuple[Columns, Read]:
    while True:
        try:
            return columns, source.read(columns, asked)
        except NeedsLevels as need:
            columns = with_levels(columns, need.feature, source.wanted.origin)


def _at_the_point(
    read: Read, asked: Reading, point: Asked, columns: Columns, table: pd.DataFrame | None, origin: str
) -> Reading:
    """What is asked with a number in place of the names of classes and shares of people."""
    classes = with_classes(columns.domain, read.classes, read.head.classes, None, origin).label.classes  # type: ignore[union-attr]
    point = point.for_classes(classes)
    by_class = point.by_class(classes)
    if len(classes) > 2:
        several = tuple(by_class.get(place, USUAL) for place in range(len(classes)))
        return replace(asked, threshold=several, resolved=point.text)  # type: ignore[arg-type]
    ((place, amount),) = by_class.items()
    meaning = asked.decision or ("probability" if read.head.probabilities else "logit")
    if isinstance(amount, Top):
        shown = None
        if table is not None:  # whom it cannot decide about has no score
            shown = read.original.scores(complete(table, columns.names, read.original.fills))
        if shown is None:
            what = "there is no table" if table is None else f"{origin} shows labels only"
            raise InputError(f"'{point.text}' is a share of a table's people by their scores, but {what}.")
        scores = shown[:, -1] - shown[:, 0] if meaning == "logit" and shown.shape[1] == 2 else shown[:, -1]
        scores = np.exp(scores) if read.head.logarithms else scores
        number = amount.above(scores) if place else math.nextafter(-amount.above(-scores), -math.inf)
        count = int(np.sum(scores > number) if place else np.sum(scores <= number))
        how = f"{point.text}: {count:,} of {len(scores):,} rows"
        return replace(asked, decision=meaning, threshold=number, resolved=how)
    number = amount if place else 1 - amount if meaning == "probability" else -amount
    return replace(asked, decision=meaning, threshold=number, resolved=point.text)
