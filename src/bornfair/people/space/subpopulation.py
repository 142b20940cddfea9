"""Of whom shall be spoken, if not of everybody? Ranges and values of free features, as boxes and as weights."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.space.among import Limits
from bornfair.people.space.partition import Where, named_limits

if TYPE_CHECKING:
    import pandas as pd


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
