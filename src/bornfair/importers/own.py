"""Models of bornfair, read for other people, twins and thresholds than they were made for.

The encoding of a network keeps sensitive features apart. Other sensitive features need another encoding: the first
layer is read over raw values, as in foreign models, and folded over the new encoding. The original is the model as it
ships.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import (
    AffineCells,
    Cell,
    Forms,
    NeedsLevels,
    Tape,
    activation,
    clipped,
    concatenated,
    layer,
)
from bornfair.importers.head import read_head
from bornfair.importers.onnx_file import RUNTIME
from bornfair.importers.registry import made_here
from bornfair.importers.source import Original, Read, imported
from bornfair.models.columns import Columns, Wanted, Who, nothing_sensitive, sensitive_name
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.model import Model
from bornfair.models.network.onnx_graph import reads_sensitive, shipped
from bornfair.models.reading import Reading
from bornfair.people.columns import Column, GapColumns, NumberColumn, Scale
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.inference import listed


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
        original = Original(RUNTIME, model.scores, served.decided, fills=model.fills)
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
    return tape.forms(AffineCells((column.width,), cells))


# --- models of bornfair, about the people who are asked about ---


def _people_asked(own: Domain, who: Who) -> Domain:
    """The people of a domain with the sensitive features, combinations and twins that are asked about."""
    about = own
    others = who.sensitive and {sensitive_name(item, own) for item in who.sensitive} != set(own.sensitive)
    if others or who.combinations is not None:
        about = who.about(own.replaced(sensitive=(), combinations=None, twins=()) if others else own)
    return about if who.twins is None else about.with_twins(who.twins)


def _check_names(domain: Domain, own: Domain) -> None:
    if domain.names != own.names:
        raise InputError(
            f"the domain has the features {shown(domain.names)}, the model {shown(own.names)}; name the same."
        )


def wired_model(source: Any, who: Who, asked: Reading) -> WiredModel:
    """The graph; its domain may have other ranges."""
    model = made_here(source, "graph")
    asked.only_for("a wrapped model")
    about = model.domain if who.domain is None else who.domain.replaced(label=model.domain.label)
    _check_names(about, model.domain)
    about = _people_asked(about, who)
    if not about.sensitive:
        raise nothing_sensitive(about)
    return model if about is model.domain else dataclasses.replace(model, domain=about, certificate=None)


def forest_model(model: ForestModel, who: Who, asked: Reading) -> ForestModel:
    asked.only_for("a forest that was read", "threshold")
    if asked.threshold is not None:
        classes = model.classes.tolist()
        asked = asked.for_classes(classes)
        note = "; ".join(part for part in (model.note, asked.note) if part)
        model = dataclasses.replace(model.at(asked.point(classes), who.table), note=note)
    about = _people_asked(model.domain if who.domain is None else who.domain, who)
    return model if about is model.domain else model.about(about)


def network_model(source: Any, who: Who, asked: Reading) -> Model:
    model = made_here(source, "network")
    asked.only_for("a FairModel" if model is source else "a FairClassifier", "threshold")
    if asked.threshold is not None:
        model = _moved(model, asked, who)
    if who.as_trained and who.domain is None:
        return model
    own = model.domain
    about = model if who.domain is None else _with_ranges(model, who.domain)
    names = tuple(sensitive_name(item, own) for item in who.sensitive or ())
    if names and set(names) != set(own.sensitive):
        return _about_others(about, names, who)
    if not own.sensitive:
        raise InputError(
            "this model has no sensitive features, so nobody has a twin; name those to ask about, among "
            f"{shown(own.names, most=30)}."
        )
    if who.combinations is not None:
        found = dataclasses.replace(who, sensitive=None).about(own)
        if (found.sensitive, found.combinations) != (own.sensitive, own.combinations):
            return _about_others(about, own.sensitive, who)
    return about if who.twins is None else _over(about, about.domain.with_twins(who.twins))


def _moved(model: Model, asked: Reading, who: Who) -> Model:
    """The model at the threshold that is asked about."""
    if model.original is not None:
        raise InputError(
            "this model was read from another that decides by itself; name the threshold when reading that one."
        )
    point = asked.point(model.classes.tolist())
    moved = model.at(point, who.table)
    said = ", ".join(f"{name} above {share:g}" for name, share in moved.thresholds.items()) or "the usual one"
    return dataclasses.replace(moved, note=f"asked at another threshold than its own ({said}), for {point.text}")


def _about_others(model: Model, names: tuple[str, ...], who: Who) -> Model:
    """The model asked about other features than those it was made fair to: read anew, with its own graph as judge.

    Numbers among them of which the table shows few values are lists of these: nobody has what lies between.
    """
    if model.original is not None:
        raise InputError(
            f"this model was read with {shown(model.domain.sensitive)} as sensitive, and was asked about "
            f"{shown(names)}; load it with the others named sensitive."
        )
    own = model.domain.sensitive
    bare = model.domain if set(names) == set(own) else model.domain.replaced(twins=())
    rows = who.frame if who.domain is None else None
    features = [
        listed(f, rows[f.name]) if rows is not None and f.name in names and f.name in rows.columns else f
        for f in bare.features
    ]
    if tuple(features) != bare.features:
        bare = bare.replaced(features=[f.model_dump() for f in features], sensitive=(), combinations=None)
    asked = dataclasses.replace(who, sensitive=names).about(bare)
    found = imported(OwnSource(model), Who(asked, twins=who.twins), Reading())
    notes = [model.note] if model.note else []
    if model.certificate is not None and own:
        notes.append(
            f"asked about {shown(names)}; the model's own certificate is about {shown(own)} and says nothing of this"
        )
    return dataclasses.replace(found, note="; ".join(notes), offsets=model.offsets)


def _with_ranges(model: Model, domain: Domain) -> Model:
    """The model over another domain of the same features, where numbers may have other ranges."""
    own = model.domain
    _check_names(domain, own)
    for mine, theirs in zip(own.features, domain.features, strict=True):
        fixed = mine.kind in ("categorical", "boolean") or mine.name in own.sensitive
        if mine.kind != theirs.kind or (fixed and mine != theirs):
            raise InputError(
                f"feature '{mine.name}' is encoded into the network as {mine.kind} with "
                f"{shown(mine.levels())}; another domain may change only the ranges of numbers that are not sensitive."
            )
    return _over(model, domain.replaced(sensitive=own.sensitive, combinations=own.combinations, label=own.label))


def _over(model: Model, domain: Domain) -> Model:
    """The model over another domain, without what was proven over its own."""
    return dataclasses.replace(model, encoding=dataclasses.replace(model.encoding, domain=domain), certificate=None)
