"""Into which parts is a domain cut, so that each can be asked about by itself? (After Fairify, ICSE 2023.)

Each free feature is cut into chunks: ranges of numbers, lists of categories. A part takes one chunk of each feature;
all parts together hold every person once (who stands on the border of two chunks of a real number is held by both).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.models.model import Model
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, RealFeature, Value
from bornfair.people.scales import Scale
from bornfair.verification.counting import places

Limit = tuple[Any, ...]
"""(low, high) of a number, ends included, or (None,) where it is missing; the possible values of anything else."""

Where = Mapping[str, Sequence[Value]]
"""A sub-population: (low, high) of numbers, a list of values of anything else."""
Relax = Mapping[str, float]
"""Numbers that may differ between twins, and by how much at most."""

MOST_PARTS = 10_000_000
MOST_CHUNKS_OF_REAL = 1_000_000


@dataclass(frozen=True)
class Part:
    """Some of the people of a domain: for every free feature what it may be."""

    limits: Mapping[str, Limit]

    def holds(self, person: Mapping[str, Any], domain: Domain) -> bool:
        """Whether a person (raw values) is one of them.

        >>> from bornfair.people.features import IntegerFeature
        >>> people = Domain(features=(IntegerFeature(name="age", low=18, high=99),))
        >>> whole_domain(people, {"age": (30, 40)}).holds({"age": 35}, people)
        True
        """
        return all(
            person[name] in limit
            if person[name] is None or None in limit or not isinstance(domain.feature(name), NUMERIC)
            else limit[0] <= person[name] <= limit[1]
            for name, limit in self.limits.items()
        )


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
    count: int | None = None,
    size: int | None = None,
    seed: int = 0,
    everybody: Part | None = None,
    importance: Mapping[str, float] | None = None,
) -> Partition:
    """Cut the free features into chunks of `size` values, or into about `count` parts in all.

    everybody: whom to cut, if not the whole domain.

    With `count`, the chunk that matters most is cut next, and what matters is the `importance` of its feature (all
    the same unless given) divided by its number of chunks. Small changes then bring the product close to the wish.

    >>> from bornfair.people.features import IntegerFeature
    >>> ranges = {"age": (18, 99), "hours": (1, 9)}
    >>> people = Domain(features=tuple(IntegerFeature(name=n, low=a, high=b) for n, (a, b) in ranges.items()))
    >>> len(partition_domain(people, size=10)), len(partition_domain(people, count=12))
    (9, 12)
    """
    if (count is None) == (size is None):
        raise InputError(f"give either count or size, found count={count} and size={size}.")
    for name, wish in (("count", count), ("size", size)):
        if wish is not None and wish < 1:
            raise InputError(f"{name}={wish} is below 1; use a whole number from 1 on.")
    limits = (everybody or whole_domain(domain)).limits
    features = {name: domain.feature(name) for name in limits}
    levels = {name: _levels(features[name], limit) for name, limit in limits.items()}
    if size is not None:
        numbers = {name: max(1, math.ceil(_extent(features[name], limits[name]) / size)) for name in limits}
        numbers = {name: min(number, levels[name]) for name, number in numbers.items()}
    else:
        assert count is not None
        numbers = _numbers_for(count, levels, importance or {})
    parts = math.prod(numbers.values())
    if parts > MOST_PARTS:
        raise InputError(
            f"this makes {parts:,} parts, more than the {MOST_PARTS:,} that can be gone through; wish for fewer, "
            "or for larger ones."
        )
    return Partition({name: _cut(features[name], limit, numbers[name]) for name, limit in limits.items()}, seed)


def whole_domain(domain: Domain, where: Where | None = None) -> Part:
    """Everybody, or the sub-population that `where` names: (low, high) for numbers, a list of values for the rest."""
    for name in where or {}:
        domain.feature(name)  # refuses a name that is not there
    return Part({feature.name: within(feature, where) for feature in domain.free_features})


def named_limits(domain: Domain, where: Where) -> dict[str, Limit]:
    """The limits that a sub-population sets, of the features that it names; whatever else they are, they may be."""
    found = whole_domain(domain, where).limits
    return {name: found[name] for name in where}


def within(feature: Feature, where: Where | None = None) -> Limit:
    """What a feature may be, in the sub-population if it says so."""
    full: Limit = (feature.low, feature.high) if isinstance(feature, NUMERIC) else tuple(feature.levels())
    return _narrowed(feature, full, where[feature.name]) if where is not None and feature.name in where else full


def _narrowed(feature: Feature, full: Limit, wanted: Sequence[Value]) -> Limit:
    """What of a feature is left when only the wanted range or the wanted values count."""
    if isinstance(wanted, str):
        raise InputError(f"where['{feature.name}'] is the text {wanted!r}; give a list of values.")
    asked = tuple(wanted)
    if not isinstance(feature, NUMERIC):
        written = {str(value).lower() if isinstance(value, bool) else str(value): value for value in full}
        asked = tuple(value if value in full else written.get(str(value), value) for value in asked)
        unknown = [value for value in asked if value not in full]
        if unknown or not asked:
            raise InputError(
                f"where['{feature.name}'] asks for {shown(unknown or asked)}; it may name any of {shown(full)}, "
                "and must name at least one."
            )
        return tuple(value for value in full if value in asked)
    if asked == (None,) and feature.missing:
        return (None,)
    if len(asked) != 2 or not all(isinstance(end, (int, float)) and math.isfinite(end) for end in asked):
        raise InputError(f"where['{feature.name}'] must be (lowest, highest), found {list(asked)}.")
    low, high = max(feature.low, asked[0]), min(feature.high, asked[1])
    if feature.kind == "integer":
        low, high = math.ceil(low), math.floor(high)  # type: ignore[arg-type]
    if low > high:  # type: ignore[operator]
        raise InputError(
            f"where['{feature.name}'] = {list(asked)} leaves nobody: the domain goes from {feature.low:g} to "
            f"{feature.high:g}; give a range that overlaps it."
        )
    return (low, high)


# --- as numbers ---


@dataclass(frozen=True)
class Input:
    """One free column of the network as a number x to be found: the network is shown (x − centre)·2^-exponent."""

    whole: bool
    centre: float = 0.0
    exponent: int = 0

    def shown(self, x: float | Fraction) -> Fraction:
        return (Fraction(x) - Fraction(self.centre)) / Fraction(2) ** self.exponent


def inputs_of(encoding: Encoding) -> dict[str, list[Input]]:
    """The columns of each free feature: one of a number or of true/false, one for each category."""
    found: dict[str, list[Input]] = {}
    for feature in encoding.domain.free_features:
        scale = encoding.scales.get(feature.name, Scale(centre=0.0, exponent=0))
        columns = len(ends_of(feature, within(feature)))
        found[feature.name] = [Input(feature.kind != "real", scale.centre, scale.exponent)] * columns
    return found


def ends_of(feature: Feature, limit: Limit) -> list[tuple[Any, Any]]:
    """Between which numbers the inputs of a feature lie."""
    if isinstance(feature, NUMERIC):
        return [(limit[0], limit[1])]
    if feature.kind == "boolean":
        return [(int(False not in limit), int(True in limit))]
    return [(int(limit == (level,)), int(level in limit)) for level in feature.levels()]


# --- whom a question is about ---


def question_scope(where: Where | None, relax: Relax | None) -> str:
    """Whom a question is about, if not all twins of the whole domain.

    >>> question_scope({"age": (30, 40)}, {"age": 2})
    'only people with age in [30, 40], both twins among them; twins may differ by up to 2 in age; a twin outside these people is not looked at'
    """  # noqa: E501
    said = []
    if where:
        people = " and ".join(f"{name} in {list(limit)}" for name, limit in where.items())
        said.append(f"only people with {people}, both twins among them")
    if relax:
        said.append("twins may differ by up to " + " and ".join(f"{most:g} in {name}" for name, most in relax.items()))
        said.append(f"a twin outside {'these people' if where else 'the domain'} is not looked at")
    return "; ".join(said)


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
