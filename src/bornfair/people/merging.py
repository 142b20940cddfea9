"""What is a network shown of values that declared twins may exchange? What a person's versions have in common: P·x.

P is the mean of the declared group's actions (theory: declared twins) and works feature by feature: a category becomes
the mean of its orbit, true/false that change places ½, and a mirrored number, which is encoded around its middle, 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bornfair.people.domain import Domain

Groups = tuple[tuple[int, ...], ...]
"""Positions of a feature's values that look alike to the network; of a number, whether it is mirrored."""


def share(group: tuple[int, ...]) -> np.float32:
    """What each member of a group that looks alike is shown as: 1/k, rounded once."""
    return np.float32(1.0 / len(group))


def average(block: np.ndarray, kind: str, groups: Groups) -> None:
    """P on the columns of one feature, in place.

    Exact: at most one of a group's columns is 1, so the sum is 0 or 1 and the product 0 or the share itself. Members of
    a group are copies of one number, not results of one computation each: the same bits.
    """
    if kind == "categorical":
        for group in groups:
            block[:, group] = block[:, group].sum(axis=1, keepdims=True) * share(group)
    else:
        block[:, 0] = 0.5 if kind == "boolean" else 0.0  # that a number is missing, a mirrored one shares


def covers(merged: Mapping[str, Groups], orbits: Mapping[str, Groups]) -> bool:
    """Whether all that change places look alike."""
    for name, several in orbits.items():
        groups = [set(group) for group in merged.get(name, ())]
        if not all(any(group.issuperset(orbit) for group in groups) for orbit in several):
            return False
    return True


def read_groups(domain: Domain, name: str, groups: Any) -> Groups:
    """Groups as a file has them: disjoint, and of a free feature."""
    feature = domain.feature(name)
    count = len(feature.levels()) if feature.kind in ("categorical", "boolean") else 2
    found = tuple(tuple(group) for group in groups)
    listed = [place for group in found for place in group]
    fits = all(type(place) is int and 0 <= place < count for place in listed)
    if not fits or len(set(listed)) < len(listed) or name in domain.sensitive:
        raise ValueError(f"'{name}' has odd groups")
    return found
