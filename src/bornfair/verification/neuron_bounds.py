"""Bounds of what the neurons of a network receive over a part of the domain.

Bounds are about real arithmetic, and every rounding of ours goes outward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.models.network.bounds.intervals import box_layers
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT
from bornfair.people.space.subpopulation import Limit, Part, ends_of, inputs_of

LARGEST = math.nextafter(math.inf, 0.0)


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


def float_below(exact: Fraction) -> float:
    """A float that is no larger.

    >>> float_below(Fraction(1, 2)), Fraction(float_below(Fraction(1, 3))) < Fraction(1, 3)
    (0.5, True)
    """
    return -float_above(-exact)


def float_above(exact: Fraction) -> float:
    try:
        near = float(exact)
    except OverflowError:
        near = LARGEST if exact > 0 else -LARGEST
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)
