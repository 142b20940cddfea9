"""Who is asked about? Parts of a domain, and sub-populations that the user names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, Value
from bornfair.people.scales import Scale

Limit = tuple[Any, ...]
"""(low, high) of a number, ends included, or (None,) where it is missing; the possible values of anything else."""

Where = Mapping[str, Sequence[Value]]
"""A sub-population: (low, high) of numbers, a list of values of anything else."""
Relax = Mapping[str, float]
"""Numbers that may differ between twins, and by how much at most."""


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


def places(which: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """For each feature the place of the value chosen, the last feature changing fastest; `np.unravel_index`, which has
    64 dimensions at most, for any number of features.

    >>> [place.tolist() for place in places(np.array([0, 4, 5]), [2, 3])]
    [[0, 1, 1], [0, 1, 2]]
    """
    found = []
    for size in reversed(sizes):
        which, place = np.divmod(which, size)
        found.append(place)
    return found[::-1]
