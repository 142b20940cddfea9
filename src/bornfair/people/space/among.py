"""Is it some people only who are asked about? What of the free space they are, and how somebody found is one of them.

Their twins may be anybody: a person is compared with every version of themselves, wherever a declared rule leads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value
from bornfair.people.space.boxes import Boxes, Places
from bornfair.people.space.partition import Limit

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
