"""The question that solvers are asked about a network, whether twins are decided differently; bounds of neurons.

Solvers know numbers only: a person is one number per free column of the network, between two ends. What twins share is
the same number for both. Of a real-valued sensitive feature each twin has a number of its own, its code; so is a
relaxed number, within the difference that is allowed. The people that a solver finds are replayed before anybody
believes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.network.bounds.intervals import box_layers
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT, float_above, float_below
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, RealFeature, Value
from bornfair.people.sensitive import Span
from bornfair.people.space.subpopulation import Input, Limit, Part, Where, ends_of, inputs_of, whole_domain, within
from bornfair.people.twins.versions import Versions
from bornfair.verification.replay import Replay

Person = dict[str, Value]
Sensitive = tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class TwinQuestion:
    """Whom it is about, and how the network reads them."""

    original: Model
    model: Model
    """The same network over a domain in which real-valued sensitive features are free numbers, given by their codes."""
    views: tuple[int, ...]
    """The sensitive values (positions in the model's `Encoding.listed`) that twins may have."""
    asked: Part
    """Who is asked about."""
    everybody: Part
    """They, as far as the network tells them apart: numbers lie where the encoding holds them."""
    relaxed: Mapping[str, Fraction]
    """Numbers that may differ between twins by so much."""
    spans: Mapping[str, Fraction]
    """Codes of real-valued sensitive features: they may differ by all of their range."""

    @staticmethod
    def of(model: Model, where: Where | None = None, relaxed: Mapping[str, Fraction] | None = None) -> TwinQuestion:
        free, where = _with_reals_free(model, where)
        asked = whole_domain(free.domain, where)
        everybody = Part({name: _held(free.encoding, name, limit) for name, limit in asked.limits.items()})
        spans = {span.name: Fraction(span.high) - Fraction(span.low) for span in model.encoding.sensitive.spans}
        return TwinQuestion(
            model, free, tuple(_twin_values(free, where, bool(spans))), asked, everybody, relaxed or {}, spans
        )

    def pairs(self) -> list[tuple[int, int]]:
        """All ordered pairs of sensitive values (positions in `views`) that twins can have. Twins of one listed value
        differ in what takes every real value.
        """
        positions = range(len(self.views))
        return [(i, j) for i, j in itertools.product(positions, positions) if i != j or self.spans]

    @cached_property
    def own(self) -> dict[str, Fraction]:
        """The features of which each twin has its own number, and how far apart the two may be."""
        return {**self.relaxed, **self.spans}

    @cached_property
    def inputs(self) -> dict[str, list[Input]]:
        return inputs_of(self.model.encoding)

    def settled(self, part: Part) -> list[int | None]:
        """Of each input the 0 or 1 that the part settles; None of what is to be found, as all numbers are."""
        found: list[int | None] = []
        for feature in self.model.domain.free_features:
            ends = ends_of(feature, part.limits[feature.name])
            number = isinstance(feature, NUMERIC)
            found += [None if number or low < high else int(low) for low, high in ends]
        return found

    # --- what was found ---

    def twins(
        self, numbers: Sequence[Sequence[Any]], views: Sequence[int], part: Part
    ) -> tuple[list[Person], list[Sensitive]]:
        """The nearest people who exist to the numbers of all inputs, and their sensitive values, of both twins."""
        people, sensitive = [self._person(row, part) for row in numbers], list[Sensitive]()
        for person, view in zip(people, views, strict=True):
            values: Sequence[Any] = self.model.encoding.sensitive.listed[view]
            known = dict(zip(self.model.domain.sensitive, values, strict=True))
            spans = self.original.encoding.sensitive.spans
            known |= {span.name: span.raw(float(person.pop(span.name))) for span in spans}
            sensitive.append(tuple(known[name] for name in self.original.domain.sensitive))
        return people, sensitive

    def _person(self, numbers: Sequence[Any], part: Part) -> Person:
        person: Person = {}
        known = [x if fixed is None else fixed for x, fixed in zip(numbers, self.settled(part), strict=True)]
        columns = self.model.encoding.free_columns()
        for feature in self.model.domain.free_features:
            found = known[columns[feature.name]]
            if isinstance(feature, NUMERIC):
                low, high = self.everybody.limits[feature.name]
                number = round(found[0]) if feature.kind == "integer" else float(found[0])
                # A float near the end of the range could lie beyond it. At the end at which numbers are held, it may
                # stand for people beyond, if only they are asked about.
                number = min(max(number, low), high)
                low, high = self.asked.limits[feature.name]
                person[feature.name] = min(max(number, low), high)
            elif feature.kind == "boolean":
                person[feature.name] = bool(found[0] > 0.5)
            else:
                person[feature.name] = feature.levels()[max(range(len(found)), key=found.__getitem__)]
        return person

    def replayed(self, people: Sequence[Person], sensitive: Sequence[Sensitive]) -> Replay | None:
        """What becomes of two people; None unless they are twins who get different decisions in some arithmetic."""
        first, second = people
        if any(abs(Fraction(first[name]) - Fraction(second[name])) > most for name, most in self.relaxed.items()):
            return None  # rounded apart
        versions = Versions(self.original.domain).at(sensitive)
        both = self.original.replay([versions.of(who, i) for i, who in enumerate(people)], (0, 1))
        return both if both.unfair_in else None


def unknown_to_solvers(model: Model) -> str | None:
    """What no solver is told yet, as a reason not to decide: numbers that may be missing."""
    if not (named := model.domain.gappy_numbers):
        return None
    return f"the program knows no numbers that may be missing ({shown(named)}); use engine='bounds'"


def _with_reals_free(model: Model, where: Where | None) -> tuple[Model, Where | None]:
    encoding, spans = model.encoding, model.encoding.sensitive.spans
    if not spans:
        return model, where
    named = {span.name for span in spans}
    reals = [RealFeature(name=span.name, low=span.low, high=span.high) for span in spans]
    listed = [f for f in encoding.domain.sensitive_features if f.name not in named]
    domain = Domain(
        features=(*encoding.domain.free_features, *reals, *listed),
        sensitive=tuple(f.name for f in listed),
        label=encoding.domain.label,
    )
    scales = encoding.scales | {span.name: Scale(centre=0.0, exponent=0) for span in spans}
    columns = [encoding.free_width + span.column for span in spans]
    rest = [j for j in range(encoding.free_width, encoding.width) if j not in columns]
    first, *later = model.network.layers
    moved = Layer(first.weight[:, [*range(encoding.free_width), *columns, *rest]], first.bias)
    network = Network((moved, *later), model.network.activation)
    for span in (span for span in spans if where is not None and span.name in where):
        raw = encoding.domain.feature(span.name)
        assert isinstance(raw, RealFeature) and where is not None
        limit = dict(zip(("low", "high"), within(raw, where), strict=True))
        asked = Span.of(raw.model_copy(update=limit), span.column, span.line)
        where = {**where, span.name: (asked.low, asked.high)}
    return Model(network, Encoding(domain, scales, raw=encoding.raw)), where


def _held(encoding: Encoding, name: str, limit: Limit) -> Limit:
    """Where the numbers of a part are held: twins by no more apart than they are themselves."""
    if not isinstance(encoding.domain.feature(name), NUMERIC):
        return limit
    return tuple(encoding.number(name).held(end) for end in limit)


def _twin_values(model: Model, where: Where | None, spans: bool) -> list[int]:
    """The positions in S that the sub-population has."""
    if not model.domain.sensitive:
        if spans:
            return [0]
        raise InputError("no feature is sensitive, so nobody has a twin; name sensitive features.")
    space, positions = model.domain.sensitive_space, list(range(model.domain.sensitive_space.size))
    for j, feature in enumerate(model.domain.sensitive_features):
        if where is not None and feature.name in where:
            people = Part({feature.name: within(feature, where)})
            kept = [v for v in feature.levels() if people.holds({feature.name: v}, model.domain)]
            positions = [i for i in positions if space.values[i][j] in kept]
    return positions


# --- bounds of neurons ---


@dataclass(frozen=True, eq=False)
class SumBounds:
    """Bounds [views, neurons] of what the neurons of each layer receive over a part."""

    low: tuple[np.ndarray, ...]
    high: tuple[np.ndarray, ...]


class NeuronBounds:
    """Bounds of every neuron over parts of the domain, many parts at a time.

    A feature adds to a first-layer sum something between its least and its largest weight times value, which is found
    for each chunk once. Every float64 operation is rounded outward, or its loss is added; `box_bounds` does so for the
    layers that follow.
    """

    def __init__(self, model: Model, views: Sequence[int]) -> None:
        self.domain, self.network = model.domain, model.network
        self.columns, self.inputs = model.encoding.free_columns(), inputs_of(model.encoding)
        first, free = model.network.layers[0], model.encoding.free_width
        self.weight, bias = first.weight.astype(np.float64), first.bias.astype(np.float64)
        codes, read = model.encoding.sensitive.listed_codes[list(views)], self.weight[:, free:].T
        size = np.abs(codes) @ np.abs(read) + np.abs(bias)
        terms = first.weight.shape[1] + 8
        off = 4 * terms * OWN_UNIT * size + terms * OWN_FLOOR  # the floor is that of the whole sum
        later = model.network.layers[1:]
        self.rest = Network(later, model.network.activation) if later else None
        self.base = codes @ read + bias - off, codes @ read + bias + off
        self.chunks: dict[tuple[str, Limit], tuple[np.ndarray, np.ndarray]] = {}

    def of(self, parts: Sequence[Part]) -> list[SumBounds]:
        with np.errstate(all="ignore"):  # an overflow is seen by its result
            sums = [self._first_layer(parts)]
        if self.rest is not None:
            several = sums[0][0].shape[:2]
            low, high = (np.maximum(end, 0.0).reshape(-1, end.shape[2]) for end in sums[0])
            later = box_layers(self.rest, low, high)
            sums += [(low.reshape(*several, -1), high.reshape(*several, -1)) for low, high in later]
        return [SumBounds(*zip(*((low[i], high[i]) for low, high in sums), strict=True)) for i in range(len(parts))]

    def _first_layer(self, parts: Sequence[Part]) -> tuple[np.ndarray, np.ndarray]:
        low, high = (np.broadcast_to(base, (len(parts), *base.shape)) for base in self.base)
        for name in self.columns:
            added = [self._chunk(name, part.limits[name]) for part in parts]
            low = np.nextafter(low + np.stack([least for least, _ in added])[:, None], -np.inf)
            high = np.nextafter(high + np.stack([most for _, most in added])[:, None], np.inf)
        known = np.isfinite(low) & np.isfinite(high)
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)

    def _chunk(self, name: str, limit: Limit) -> tuple[np.ndarray, np.ndarray]:
        """What a feature within a limit adds to each neuron's sum: at least, at most."""
        if (name, limit) not in self.chunks:
            feature, weight = self.domain.feature(name), self.weight[:, self.columns[name]]
            ends = ends_of(feature, limit)
            if feature.kind == "categorical":  # one of these is 1
                added = weight[:, [high > 0 for _, high in ends]]
            else:
                exact = [self.inputs[name][0].shown(end) for end in ends[0]]
                added = weight * np.array([toward(end) for end in exact for toward in (float_below, float_above)])
            least, most = np.nextafter(added.min(axis=1), -np.inf), np.nextafter(added.max(axis=1), np.inf)
            self.chunks[name, limit] = least, most
        return self.chunks[name, limit]
