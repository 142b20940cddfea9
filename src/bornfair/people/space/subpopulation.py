"""Parts of a domain, sub-populations that the user names, and how often each value occurs.

A person is compared with every version of themselves: twins of a sub-population may be anybody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Feature, NumericFeature, Value, known_levels
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.tables import as_pandas

EXACT = 2.0**53  # whole numbers up to here are counted without rounding

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
    if where is None or feature.name not in where:
        return full
    wanted = where[feature.name]
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


# --- sub-populations of a table and of marginals ---


def limits_of(domain: Domain, where: Where) -> Limits:
    """The limits that a sub-population sets; a sensitive feature has none, since a person is all of its values.

    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99), BooleanFeature(name="s")), sensitive=("s",))
    >>> limits_of(who, {"age": (30, 40)})
    {'age': (30, 40)}
    """
    if named := [name for name in where if name in domain.sensitive]:
        raise InputError(
            f"where names {shown(named)}, which is sensitive: everybody is looked at with each of its values; name "
            f"other features, such as {shown(domain.free_names, most=5)}."
        )
    found = named_limits(domain, where)
    for name in where:
        if isinstance(domain.feature(name), NUMERIC) and None in found[name]:
            raise InputError(f"where['{name}'] must be (lowest, highest), found {list(where[name])}.")
        if domain.feature(name).kind == "real" and found[name][0] == found[name][1]:
            raise InputError(
                f"where['{name}'] is a single value of a real number, which is nobody's share; give a range."
            )
    return found


def in_words(where: Where | None) -> str:
    """
    >>> in_words({"age": (30, 40), "job": ["nurse"]}), in_words(None)
    ('age from 30 to 40 and job nurse', '')
    """
    told = []
    for name, limit in (where or {}).items():
        numbers = len(limit) == 2 and all(isinstance(end, (int, float)) for end in limit)
        values = f"from {limit[0]:g} to {limit[1]:g}" if numbers else " or ".join(map(str, limit))
        told.append(f"{name} {values}")
    return " and ".join(told)


def rows_within(domain: Domain, table: pd.DataFrame, limits: Limits) -> np.ndarray:
    """Which rows of a table belong to the sub-population."""
    found = np.ones(len(table), bool)
    for name, limit in limits.items():
        if name not in table.columns:
            raise InputError(f"the table has no column '{name}', by which it is to be restricted.")
        column = table[name]
        if isinstance(domain.feature(name), NUMERIC):
            found &= column.between(limit[0], limit[1]).to_numpy(bool)
        else:
            found &= column.isin([value for value in limit if value is not None]).to_numpy(bool) | (
                column.isna().to_numpy() & (None in limit)
            )
    return found


def weights_within(
    encoding: Encoding, marginals: Mapping[str, Mapping[Any, Any]], limits: Limits
) -> dict[str, Mapping[Any, Any]]:
    """Marginals that weigh only the sub-population."""
    found: dict[str, Mapping[Any, Any]] = dict(marginals)
    for name in limits.keys() & marginals.keys():
        feature, limit, marginal = encoding.domain.feature(name), limits[name], marginals[name]
        if feature.kind == "real":
            found[name] = _pieces_within(marginal, float(limit[0]), float(limit[1]))
        elif isinstance(feature, NUMERIC):
            there = {value: weight for value, weight in marginal.items() if value is not None}
            found[name] = {value: weight for value, weight in there.items() if limit[0] <= value <= limit[1]}
        else:
            found[name] = {value: weight for value, weight in marginal.items() if value in limit}
        if not any(weight > 0 for weight in found[name].values()):
            raise InputError(f"where['{name}'] leaves nobody: none of its values has any weight; widen it.")
    return found


def _pieces_within(marginal: Mapping[Any, Any], low: float, high: float) -> dict[Any, Any]:
    """Pieces cut at the ends of a range; those beyond it have no weight."""
    found: dict[Any, Any] = {}
    for (first, last), weight in ((piece, weight) for piece, weight in marginal.items() if piece is not None):
        cuts = [first, *(end for end in (low, high) if first < end < last), last]
        share = Fraction(weight if isinstance(weight, int) else repr(float(weight))) / (
            Fraction(last) - Fraction(first)
        )
        for a, b in pairwise(cuts):
            inside = low <= a and b <= high
            found[a, b] = share * (Fraction(b) - Fraction(a)) if inside else 0
    return found


# --- sub-populations of the free space ---

Limits = Mapping[str, Limit]
"""What free features may be; those that are not named, anything."""


def box_within(places: Places, encoding: Encoding, limits: Limits) -> Boxes:
    """These people as one box. Who lies beyond the ends between which a number is held sits on them."""
    low, high = places.root.low.copy(), places.root.high.copy()
    for name, where in encoding.free_columns().items():
        if name not in limits:
            continue
        feature, limit = encoding.domain.feature(name), limits[name]
        if not isinstance(feature, NUMERIC):
            allowed = np.array([level in limit for level in feature.levels()], np.float64)
            if feature.kind == "boolean":
                low[0, where], high[0, where] = float(not allowed[0]), float(allowed[1])
            else:
                high[0, where] = allowed
            continue
        at = where.start
        if None in limit:
            low[0, at + 1 : where.stop] = 1.0
            continue
        column = encoding.number(name)
        if feature.kind == "integer":
            ends = [float(column.held(end) - column.held(feature.low)) for end in limit]
        else:
            ends = [float(column.encode(end)) for end in limit]
        low[0, at], high[0, at] = np.clip(ends, low[0, at], high[0, at])
        high[0, at + 1 : where.stop] = 0.0  # of whom it is missing, nobody is in a range
    return Boxes(low, high)


def brought_inside(domain: Domain, limits: Limits, person: Mapping[str, Value]) -> dict[str, Value]:
    """Somebody whom the model cannot tell from one of these people, as that one: numbers that stand for
    all beyond an end, or that a rounding moved, are brought into their ranges.

    >>> from bornfair.people.features import IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=18, high=99),))
    >>> brought_inside(who, {"age": (30, 40)}, {"age": 45})
    {'age': 40}
    """
    found = dict(person)
    for name, limit in limits.items():
        if isinstance(domain.feature(name), NUMERIC) and found[name] is not None:
            found[name] = min(max(found[name], limit[0]), limit[1])
    return found


# --- how often values occur in a table ---

PIECES = 50  # of a real feature's range: of equal content, and uniform inside


def marginals_of(domain: Domain, table: Any) -> dict[str, dict[Any, float]]:
    """The weights of every free feature's values, from the rows of a table that belong to the domain; None is a gap.

    >>> from bornfair.people.features import BooleanFeature, CategoricalFeature
    >>> people = Domain(features=(CategoricalFeature(name="job", categories=("smith", "nurse")),
    ...                           BooleanFeature(name="sex")), sensitive=("sex",))
    >>> marginals_of(people, pd.DataFrame({"job": ["nurse", "smith", "nurse"]}))
    {'job': {'smith': 1.0, 'nurse': 2.0}}
    """
    frame = as_pandas(table)
    found: dict[str, dict[Any, float]] = {}
    for feature in domain.free_features:
        if feature.name not in frame.columns:
            raise InputError(
                f"the table has no column '{feature.name}', so nothing is known of how often its values are."
            )
        column = frame[feature.name].dropna()
        gone = len(frame) - len(column)
        if isinstance(feature, NUMERIC) and feature.low == feature.high and not feature.missing:
            continue  # there is nothing to weigh
        weights: dict[Any, float]
        if not isinstance(feature, NUMERIC):
            weights = {level: float((column == level).sum()) for level in known_levels(feature)}
        else:
            weights = _weights_of_numbers(feature, column)
        if feature.missing and (sum(weights.values()) > 0 or not isinstance(feature, NUMERIC)):
            weights[None] = float(gone)
        if not sum(weights.values()) > 0:
            raise InputError(f"no row of the table has a value of '{feature.name}' that belongs to the domain.")
        found[feature.name] = weights
    return found


def _weights_of_numbers(feature: NumericFeature, column: pd.Series) -> dict[Any, float]:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    if np.isnan(numbers).any():
        raise InputError(
            f"column '{feature.name}' holds {column.iloc[int(np.argmax(np.isnan(numbers)))]!r}; numbers are needed."
        )
    numbers = numbers[(numbers >= feature.low) & (numbers <= feature.high)]
    if not len(numbers):
        return {}
    if feature.kind == "integer":
        values, counts = np.unique(np.round(numbers), return_counts=True)
        return {int(value): float(count) for value, count in zip(values, counts, strict=True)}
    if feature.low == feature.high:
        return {(feature.low, feature.high): float(len(numbers))}
    # Pieces of about equal content that cover the whole range; people are spread evenly inside each.
    inner = np.quantile(numbers, np.linspace(0, 1, PIECES + 1))
    edges = np.unique(np.concatenate([[feature.low], inner, [feature.high]]))
    counts, _ = np.histogram(numbers, edges)
    return {(float(a), float(b)): float(count) for a, b, count in zip(edges[:-1], edges[1:], counts, strict=True)}


def cumulated(name: str, weights: Sequence[Any]) -> np.ndarray:
    """Cumulative weights; whole numbers in the same proportions where these are small enough."""
    shares = [exact_weight(name, weight) for weight in weights]
    if min(shares) < 0 or sum(shares) <= 0:
        raise InputError(f"the marginal of '{name}' needs weights of at least 0, one of them above 0.")
    scale = 1
    for share in shares:
        if scale <= EXACT:
            scale = lcm(scale, share.denominator)
    total = sum(shares) * scale
    if total < EXACT:
        return np.concatenate([[0.0], np.cumsum([float(share * scale) for share in shares])])
    # Scaled to about 1, and cumulated exactly before each is rounded.
    whole = sum(shares)
    return np.array([0.0, *(float(upto / whole) for upto in accumulate(shares))])


def exact_weight(name: str, weight: Any) -> Fraction:
    """A weight as it is written: 0.1 is a tenth."""
    try:
        return Fraction(weight) if isinstance(weight, (int, Fraction)) else Fraction(repr(float(weight)))
    except (TypeError, ValueError) as error:
        raise InputError(f"the marginal of '{name}' has a weight that is not a finite number ({error}).") from None
