"""A domain cut into parts, so that each can be asked about by itself (after Fairify, ICSE 2023).

Each free feature is cut into chunks: ranges of numbers, lists of categories. A part takes one chunk of each feature.
All parts together hold every person once; a person on the border of two chunks of a real number is in both.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.model import Model
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, RealFeature
from bornfair.people.space.subpopulation import Limit, Part, places, whole_domain

MOST_PARTS = 10_000_000
MOST_CHUNKS_OF_REAL = 1_000_000


@dataclass(frozen=True)
class Partition:
    """The Cartesian product of the chunks of all free features, in an order shuffled by `seed`."""

    chunks: Mapping[str, tuple[Limit, ...]]
    seed: int = 0

    def __len__(self) -> int:
        return math.prod(len(chunks) for chunks in self.chunks.values())

    def __iter__(self) -> Iterator[Part]:
        order = np.random.default_rng([self.seed, 31]).permutation(len(self))
        chosen = places(order, [len(chunks) for chunks in self.chunks.values()])
        for i in range(len(self)):
            pairs = zip(self.chunks.items(), chosen, strict=True)
            yield Part({name: chunks[int(place[i])] for (name, chunks), place in pairs})


def partition_domain(
    domain: Domain,
    *,
    count: int,
    seed: int = 0,
    everybody: Part | None = None,
    importance: Mapping[str, float] | None = None,
) -> Partition:
    """Cut the free features into about `count` parts in all.

    everybody: whom to cut, if not the whole domain.

    The chunk that matters most is cut next, and what matters is the `importance` of its feature (all the same unless
    given) divided by its number of chunks. Small changes then bring the product close to the wish.

    >>> from bornfair.people.features import IntegerFeature
    >>> ranges = {"age": (18, 99), "hours": (1, 9)}
    >>> people = Domain(features=tuple(IntegerFeature(name=n, low=a, high=b) for n, (a, b) in ranges.items()))
    >>> len(partition_domain(people, count=12))
    12
    """
    if count < 1:
        raise InputError(f"count={count} is below 1; use a whole number from 1 on.")
    limits = (everybody or whole_domain(domain)).limits
    features = {name: domain.feature(name) for name in limits}
    levels = {name: _levels(features[name], limit) for name, limit in limits.items()}
    numbers = _numbers_for(count, levels, importance or {})
    parts = math.prod(numbers.values())
    if parts > MOST_PARTS:
        raise InputError(
            f"this makes {parts:,} parts, more than the {MOST_PARTS:,} that can be gone through; wish for fewer."
        )
    return Partition({name: _cut(features[name], limit, numbers[name]) for name, limit in limits.items()}, seed)


def importance_of_features(model: Model) -> dict[str, float]:
    """How much each free feature can move the outputs, roughly: Σ |weights along all paths| · range."""
    network, encoding = model.network, model.encoding
    paths = np.ones(network.outputs)
    for layer in reversed(network.layers[1:]):
        paths = np.minimum(paths @ np.abs(layer.weight.astype(np.float64)), 1e200)
    weight, columns, found = network.layers[0].weight.astype(np.float64), encoding.free_columns(), {}
    for feature in model.domain.free_features:
        block = weight[:, columns[feature.name]]
        if isinstance(feature, NUMERIC):
            column = encoding.number(feature.name)
            moved = np.abs(block[:, 0]) * (column.seen[1] - column.seen[0]) * column.slope
        elif feature.kind == "boolean":
            moved = np.abs(block[:, 0])
        else:
            moved = block.max(axis=1) - block.min(axis=1)
        found[feature.name] = float(np.minimum(moved, 1e100) @ paths)
    return found


# --- how many chunks ---


def _numbers_for(wish: int, levels: Mapping[str, int], importance: Mapping[str, float]) -> dict[str, int]:
    numbers = dict.fromkeys(levels, 1)

    def matters(name: str) -> tuple[float, float]:
        return importance.get(name, 1.0) / numbers[name], levels[name] / numbers[name]

    growing = [name for name in levels if levels[name] > 1]
    total = 1
    while growing:
        name = max(growing, key=matters)
        larger = total // numbers[name] * (numbers[name] + 1)
        if larger > wish or numbers[name] == levels[name]:
            growing.remove(name)
            continue
        numbers[name], total = numbers[name] + 1, larger
    return _closer(wish, numbers, levels)


def _closer(wish: int, numbers: dict[str, int], levels: Mapping[str, int]) -> dict[str, int]:
    """Change one or two features by one chunk each, as long as that brings the product closer to the wish."""
    steps = [(name, step) for name in numbers if levels[name] > 1 for step in (1, -1)]
    pairs = {one: [[one, other] for other in steps if other[0] != one[0]] for one in steps}
    moves = [move for one in steps for move in ([one], *pairs[one])]

    def distance(numbers: dict[str, int]) -> float:
        return abs(math.log(math.prod(numbers.values()) / wish))

    while True:
        best, moved = distance(numbers), None
        for move in moves:
            changed = numbers | {name: numbers[name] + step for name, step in move}
            possible = all(1 <= changed[name] <= levels[name] for name, _ in move)
            if possible and distance(changed) < best - 1e-12:
                best, moved = distance(changed), changed
        if moved is None:
            return numbers
        numbers = moved


def _levels(feature: Feature, limit: Limit) -> int:
    """Most chunks a feature can be cut into."""
    if isinstance(feature, RealFeature):
        return MOST_CHUNKS_OF_REAL if limit[0] < limit[1] else 1
    return int(_extent(feature, limit))


def _extent(feature: Feature, limit: Limit) -> float:
    """How many values there are; of a real number, how long its range is."""
    if isinstance(feature, NUMERIC):
        return float(limit[1]) - float(limit[0]) + (feature.kind == "integer")
    return len(limit)


def _cut(feature: Feature, limit: Limit, number: int) -> tuple[Limit, ...]:
    """Chunks that differ by at most one in how many values they hold."""
    if isinstance(feature, RealFeature):
        low, high = float(limit[0]), float(limit[1])
        inner = (low * (1 - i / number) + high * (i / number) for i in range(1, number))
        return tuple(itertools.pairwise([low, *sorted({border for border in inner if low < border < high}), high]))
    whole = feature.kind == "integer"
    values: Sequence[Any] = range(int(limit[0]), int(limit[1]) + 1) if whole else limit
    borders = [len(values) * i // number for i in range(number + 1)]
    return tuple((values[a], values[b - 1]) if whole else tuple(values[a:b]) for a, b in itertools.pairwise(borders))
