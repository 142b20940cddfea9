"""Whom is an imported model likely to be wrong about? People at corners, where scores are extreme, and on boundaries.

Random people miss the places where rounding, saturation or a misread threshold show; these are looked for. Sensitive
values stay as they were drawn: what is moved are the other features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature

CORNERS = 512  # people whose numbers all are at an end of their range
ROWS = 2_048  # of a table
PAIRS = 192  # of people decided differently, between whom the boundary is looked for
HALVINGS = 24
MOST_FEATURES = 200  # tried one by one on the way to extreme scores
MOST_LEVELS = 20

Score = Callable[[pd.DataFrame], np.ndarray]


def telling_people(
    domain: Domain, score: Score, deciders: Sequence[Score], *, table: pd.DataFrame | None = None, seed: int = 0
) -> pd.DataFrame:
    """People of the domain worth looking at. `score` gives [people, outputs], each of `deciders` a class for each."""
    random = np.random.default_rng([seed, 5])
    corners = domain.sample(CORNERS, seed=seed + 1)
    for feature in domain.free_features:
        if isinstance(feature, NUMERIC):
            ends = np.where(random.random(len(corners)) < 0.5, feature.low, feature.high)
            corners[feature.name] = pd.Series(ends).astype(corners[feature.name].dtype)
    found = [corners, _extremes(domain, score, corners, random)]
    if table is not None and set(domain.names) <= set(map(str, table.columns)):
        rows = table[list(domain.names)].dropna()
        rows = rows[~domain.outside(rows)].astype(corners.dtypes)
        found.append(rows.sample(min(ROWS, len(rows)), random_state=seed))
    pool = pd.concat([domain.sample(CORNERS, seed=seed + 2), *found], ignore_index=True)
    found += [_boundary(domain, decide, pool, random) for decide in deciders]
    return pd.concat(found, ignore_index=True)


def _extremes(domain: Domain, score: Score, people: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """From the most extreme of these people on to more extreme ones, feature by feature: all who were on the way."""
    goals = _goals(score(people))
    climbing = people.iloc[goals.argmax(axis=0)].reset_index(drop=True)  # one person for each goal
    seen = [climbing]
    free = domain.free_features
    features = [free[i] for i in random.permutation(len(free))[:MOST_FEATURES]]
    each = np.arange(len(climbing))
    for feature in features:
        tried = [climbing.assign(**{feature.name: _filled(value, climbing[feature.name])}) for value in _ends(feature)]
        values = np.stack([_goals(score(one))[each, each] for one in tried])
        best = values.argmax(axis=0)
        climbing = pd.concat([tried[best[i]].iloc[[i]] for i in each], ignore_index=True)
        seen.append(climbing)
    return pd.concat(seen, ignore_index=True)


def _goals(scores: np.ndarray) -> np.ndarray:
    """What is made as large as can be: each output, its negative; of several, the second largest and all being low."""
    goals = [scores, -scores]
    if scores.shape[1] > 1:
        ranked = np.sort(scores, axis=1)
        goals += [ranked[:, -2:-1], -ranked[:, -1:]]
    return np.concatenate(goals, axis=1)


def _ends(feature: Feature) -> list[Any]:
    return [feature.low, feature.high] if isinstance(feature, NUMERIC) else list(feature.levels())[:MOST_LEVELS]


def _filled(value: Any, like: pd.Series) -> pd.Series:
    return pd.Series([value] * len(like), index=like.index, dtype=like.dtype)


def _boundary(domain: Domain, decide: Score, pool: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """People on both sides of a decision boundary, as close to it as halving their numbers' difference brings them."""
    numbers = [feature.name for feature in domain.free_features if isinstance(feature, NUMERIC)]
    whole = np.array([domain.feature(name).kind == "integer" for name in numbers], bool)
    first, second = (pool.iloc[random.permutation(len(pool))].reset_index(drop=True) for _ in range(2))
    here, there = (side[numbers].to_numpy(np.float64) for side in (first, second))
    decided = [decide(_with_numbers(first, numbers, values)) for values in (here, there)]
    apart = np.flatnonzero(decided[0] != decided[1])[:PAIRS]
    first, here, there, target = first.iloc[apart], here[apart], there[apart], decided[0][apart]
    for _ in range(HALVINGS if len(apart) and numbers else 0):
        middle = here + (there - here) / 2
        middle = np.where(whole, np.floor(middle), middle)
        if ((middle == here) | (middle == there)).all():
            break
        same = (decide(_with_numbers(first, numbers, middle)) == target)[:, None]
        here, there = np.where(same, middle, here), np.where(same, there, middle)
    return pd.concat([_with_numbers(first, numbers, values) for values in (here, there)], ignore_index=True)


def _with_numbers(people: pd.DataFrame, names: Sequence[str], values: np.ndarray) -> pd.DataFrame:
    columns = {name: pd.Series(values[:, i], index=people.index) for i, name in enumerate(names)}
    return people.assign(**{name: column.astype(people[name].dtype) for name, column in columns.items()})
