"""To which group does a person belong, by one feature? Its values, the most frequent of many, or bands of a number."""

from __future__ import annotations

import numpy as np
import pandas as pd

from bornfair.core.errors import plain
from bornfair.people.features import NUMERIC, Feature, known_levels

MOST_VALUES = 8  # of a number that are groups of their own
MOST_LEVELS = 20  # categories that are; the rest, the rarest, are one group
DECADES = (25, 120)  # whole numbers that reach so far are put into tens, as ages are


def grouped(feature: Feature, column: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Each row's group, as a position in the names of the groups; −1 where the value is not known.

    >>> from bornfair.people.features import IntegerFeature
    >>> age = IntegerFeature(name="age", low=18, high=90)
    >>> grouped(age, pd.Series([18, 25, 31, 39, 42, 57, 63, 70, 88, None]))[1]
    ['10 to 19', '20 to 29', '30 to 39', '40 to 49', '50 to 59', '60 to 69', '70 to 79', '80 to 89']
    """
    if isinstance(feature, NUMERIC):
        return _numbers(feature, pd.to_numeric(column, errors="coerce"))
    levels = ["missing" if level is None else level for level in feature.levels()]
    positions = pd.Index(list(known_levels(feature)), dtype=object).get_indexer_for(
        pd.Index(column.astype(object), dtype=object)
    )
    if feature.missing:
        positions = np.where(column.isna().to_numpy(), len(levels) - 1, positions)
    counts = np.bincount(positions[positions >= 0], minlength=len(levels))
    kept = np.flatnonzero(counts)
    names = [str(plain(levels[i])) for i in kept]
    if len(kept) > MOST_LEVELS:
        often = np.sort(kept[np.argsort(-counts[kept], kind="stable")[: MOST_LEVELS - 1]])
        rest = len(kept) - len(often)
        kept, names = often, [*(str(plain(levels[i])) for i in often), f"{rest:,} other values"]
    place = np.full(len(levels) + 1, len(kept), np.int64)
    place[kept], place[-1] = np.arange(len(kept)), -1
    return place[positions], names


def _numbers(feature: Feature, column: pd.Series) -> tuple[np.ndarray, list[str]]:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    known = np.isfinite(numbers)
    values = np.unique(numbers[known])
    if len(values) <= MOST_VALUES:
        names = [f"{value:g}" for value in values]
        return np.where(known, np.searchsorted(values, np.where(known, numbers, 0.0)), -1), names
    whole = feature.kind == "integer"
    if whole and DECADES[0] <= values[-1] - values[0] <= DECADES[1]:
        cuts = np.arange(np.floor(values[0] / 10) * 10, values[-1] + 10, 10)
        bands = np.searchsorted(cuts, np.where(known, numbers, values[0]), side="right") - 1
        names = [f"{cut:g} to {cut + 9:g}" for cut in cuts]
    else:  # quarters of the people; where many have one value, a band of its own ends there
        cuts = np.unique(np.quantile(numbers[known], (0.25, 0.5, 0.75)))
        bands = np.searchsorted(cuts, np.where(known, numbers, values[0]), side="left")
        held = [values[np.searchsorted(cuts, values, side="left") == i] for i in range(len(cuts) + 1)]
        names = ["" if not len(some) else _band(some[0], some[-1]) for some in held]
    used = np.unique(bands[known])
    return np.where(known, np.searchsorted(used, bands), -1), [names[i] for i in used]


def _band(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
