"""Categories of few rows: their names may identify people, and a model file stores the names of all categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.checks import whole
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import CategoricalFeature, Value
from bornfair.people.levels import level_positions


def without_rare(
    domain: Domain, table: pd.DataFrame | Mapping[str, Mapping[Value, int] | None], least: int, *, unseen: str
) -> Domain:
    """The domain without the categories of fewer rows than `least`: to a model they are unseen, all alike.

    Categories of sensitive features stay, because twins have each of them; so do the classes of the target.

    table: the rows, or how often each value of a column occurs. unseen: the policy, which must be to ignore them.

    >>> people = pd.DataFrame({"job": ["clerk"] * 5 + ["pope"], "sex": ["f", "m"] * 3})
    >>> domain = Domain.infer(people, sensitive=["sex"])
    >>> without_rare(domain, people, 2, unseen="ignore").feature("job").levels()
    ('clerk',)
    """
    whole("least_count", least, 1)
    if least == 1:
        return domain
    if unseen != "ignore":
        raise InputError(
            f"least_count {least} makes rare categories unseen, and unseen is {unseen!r}; set it to 'ignore', or leave "
            "least_count at 1."
        )
    for feature in domain.free_features:
        if not isinstance(feature, CategoricalFeature) or feature.name not in table:
            continue
        given: Any = table[feature.name]
        if given is None:
            continue
        counts = _counts(feature, given)
        kept = [category for category, count in zip(feature.categories, counts, strict=False) if count >= least]
        if not kept:
            raise InputError(
                f"column '{feature.name}' has no category of {least:,} rows or more; lower the least count, or leave "
                f"the column out (--drop {feature.name})."
            )
        if len(kept) < len(feature.categories):
            domain = domain.edit(feature.name, categories=kept)
    return domain


def _counts(feature: CategoricalFeature, given: pd.Series | Mapping[Value, int]) -> np.ndarray:
    column = given if isinstance(given, pd.Series) else pd.Series(list(given), dtype=object)
    weights = np.ones(len(column)) if isinstance(given, pd.Series) else np.array(list(given.values()), np.float64)
    places = level_positions(feature, column)
    known = places >= 0
    return np.bincount(places[known], weights[known], minlength=len(feature.categories))
