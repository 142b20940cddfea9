"""How often does each value of a feature occur in a table? Weights for measuring the domain as people are distributed.

Each feature by itself: that some values go together is not known to the measure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, known_levels
from bornfair.people.tables import as_pandas

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
        if not isinstance(feature, NUMERIC):
            weights = {level: float((column == level).sum()) for level in known_levels(feature)}
        else:
            numbers = _numbers(feature.name, column)
            numbers = numbers[(numbers >= feature.low) & (numbers <= feature.high)]
            weights = {}
            if len(numbers):
                weights = _ranges(feature.low, feature.high, numbers) if feature.kind == "real" else _whole(numbers)
        if feature.missing and (sum(weights.values()) > 0 or not isinstance(feature, NUMERIC)):
            weights[None] = float(gone)
        if not sum(weights.values()) > 0:
            raise InputError(f"no row of the table has a value of '{feature.name}' that belongs to the domain.")
        found[feature.name] = weights
    return found


def _numbers(name: str, column: pd.Series) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
    if np.isnan(numbers).any():
        raise InputError(
            f"column '{name}' holds {column.iloc[int(np.argmax(np.isnan(numbers)))]!r}; numbers are needed."
        )
    return numbers


def _whole(numbers: np.ndarray) -> dict[Any, float]:
    values, counts = np.unique(np.round(numbers), return_counts=True)
    return {int(value): float(count) for value, count in zip(values, counts, strict=True)}


def _ranges(low: float, high: float, numbers: np.ndarray) -> dict[Any, float]:
    """Pieces of about equal content that cover the whole range; people are spread evenly inside each."""
    if low == high:
        return {(low, high): float(len(numbers))}
    edges = np.unique(np.concatenate([[low], np.quantile(numbers, np.linspace(0, 1, PIECES + 1)), [high]]))
    counts, _ = np.histogram(numbers, edges)
    return {(float(a), float(b)): float(count) for a, b, count in zip(edges[:-1], edges[1:], counts, strict=True)}
