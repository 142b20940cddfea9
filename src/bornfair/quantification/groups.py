"""Short rules that cover many of the people who are treated unfairly, with estimates of how many.

Rules come from a shallow decision tree on one sample and are measured on a fresh one. Nothing of it is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.checks import later
from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError
from bornfair.models.protocol import Countable
from bornfair.people.features import NUMERIC, Feature, Level
from bornfair.people.levels import level_positions
from bornfair.people.space.subpopulation import Where
from bornfair.people.space.variables import Marginal
from bornfair.quantification.confident import clopper_pearson
from bornfair.quantification.records import Condition, Estimate, Group, fulfilled

SAMPLES = 100_000
DEPTH = 3
LEAST_UNFAIR = 20  # in a sample, for rules to be looked for
DIGITS = 3  # of a real number in a rule
FINDING, RULING, MEASURING = 0.4, 0.5, 0.8  # shares of the time left: to draw people, to find rules, to draw others
LEAST_SECONDS = 0.5  # below which there is no use in beginning
Some = Callable[[int, np.random.Generator, Clock], tuple[pd.DataFrame, np.ndarray]]
"""Some people of the distribution, so many at most: raw free values, and whose twins are decided unlike."""
_DRAWS: Mapping[str, Callable[..., Some]] = {
    "network": later("quantification.crowds.network_draw"),
    "forest": later("quantification.cells.forest_draw"),
}
_ANY_DRAW: Callable[..., Some] = later("quantification.asking.asking_draw")
TRIAL = 2048  # people whose tree tells how long one of all of them takes


def affected_groups(
    model: Countable,
    *,
    most: int = 5,
    samples: int = SAMPLES,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    seed: int = 0,
    timeout: Timeout = 30.0,
) -> list[Group]:
    """The groups with most unfair people beyond what their size would explain, the largest excess first.

    Of a sub-population only, if `where` names one. Empty when the sample shows too few unfair people to tell. `samples`
    people are drawn to find rules, as many again to measure them (fewer if the time is short).
    """
    if most < 1 or samples < 1:
        raise InputError(f"most and samples must be at least 1, found {most} and {samples}.")
    clock = Clock.of(timeout)
    if clock.left < LEAST_SECONDS:
        return []
    some: Some = _DRAWS.get(model.kind, _ANY_DRAW)(model, marginals, where)
    people, unfair = _drawn(some, samples, [seed, 1], clock.part(FINDING))
    if unfair.sum() < LEAST_UNFAIR or not model.domain.free_features:
        return []
    rules = _rules(model, people, unfair, clock.part(RULING))
    fresh, truly = _drawn(some, samples, [seed, 2], clock.part(MEASURING))
    measured = filter(None, (_measured(rule, fresh, truly) for rule in rules))
    return [group for _, group in sorted(measured, key=lambda found: -found[0])[:most]]


def _drawn(some: Some, count: int, seed: list[int], clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
    """So many people, fewer if time runs short."""
    rng, people, unfair, seen = np.random.default_rng(seed), list[pd.DataFrame](), list[np.ndarray](), 0
    while seen < count and (not seen or not clock.is_up):
        found = some(count - seen, rng, clock)
        people.append(found[0])
        unfair.append(found[1])
        seen += len(found[1])
    return pd.concat(people, ignore_index=True), np.concatenate(unfair)


def _rules(model: Countable, people: pd.DataFrame, unfair: np.ndarray, clock: Clock) -> list[tuple[Condition, ...]]:
    """The leaves of a shallow tree. Categories are ranked by how unfairly they are treated, so that sets of them are
    ranges.
    """

    features, ranked, columns = model.domain.free_features, {}, []
    for feature in features:
        column = people[feature.name]
        if isinstance(feature, NUMERIC):
            columns.append(column.fillna(_gap_place(feature)).to_numpy(np.float64))
            continue
        levels, position = feature.levels(), level_positions(feature, column)
        rates = pd.Series(unfair).groupby(position).mean()
        order = sorted(range(len(levels)), key=lambda i: float(rates.get(i, 0.0)))
        ranked[feature.name] = [levels[i] for i in order]
        columns.append(np.argsort(order)[position].astype(np.float64))
    tree = _tree(np.stack(columns, axis=1), unfair, clock)
    found: list[tuple[Condition, ...]] = []

    def descend(node: int, ranges: dict[int, tuple[float, float]]) -> None:
        inner = tree.tree_
        leaf = inner.children_left[node] < 0
        if ranges and leaf:  # leaves do not overlap: what they hold adds up
            conditions = [_condition(features[i], ranked.get(features[i].name), *r) for i, r in ranges.items()]
            found.append(tuple(c for c in conditions if c is not None))
        if leaf:
            return
        at, threshold = int(inner.feature[node]), float(inner.threshold[node])
        low, high = ranges.get(at, (-np.inf, np.inf))
        descend(inner.children_left[node], ranges | {at: (low, min(high, threshold))})
        descend(inner.children_right[node], ranges | {at: (max(low, threshold), high)})

    descend(0, {})
    return [rule for rule in dict.fromkeys(found) if rule]


def _tree(inputs: np.ndarray, unfair: np.ndarray, clock: Clock) -> Any:
    """A shallow tree that tells who is unfair: of everybody, or of as many as there is time for."""
    from sklearn.tree import DecisionTreeClassifier

    def grown(count: int) -> Any:
        return DecisionTreeClassifier(
            max_depth=DEPTH,
            min_samples_leaf=max(LEAST_UNFAIR, count // 2000),
            class_weight="balanced",
            random_state=0,
        ).fit(inputs[:count], unfair[:count])

    count = len(unfair)
    if count > TRIAL:
        began = clock.now()
        trial = grown(TRIAL)
        pace = TRIAL / max(clock.now() - began, 1e-9)
        affordable = int(clock.left * pace / 1.5)  # sorting takes a little longer than in proportion
        if affordable < 2 * TRIAL:
            return trial
        count = min(count, affordable)
    return grown(count)


def _condition(feature: Feature, ranked: list[Level] | None, low: float, high: float) -> Condition | None:
    """low < x ≤ high, in the feature's own words."""
    if ranked is not None:
        kept = [value for i, value in enumerate(ranked) if low < i <= high]
        levels = list(feature.levels())
        return Condition(feature.name, values=tuple(sorted(kept, key=levels.index)))
    if feature.missing and high < feature.low:  # type: ignore[union-attr]
        return Condition(feature.name, values=(None,))
    low = -np.inf if feature.missing and low < feature.low else low  # type: ignore[union-attr]
    if feature.kind == "integer":
        bottom = None if low == -np.inf else float(np.floor(low) + 1)
        top = None if high == np.inf else float(np.floor(high))
        bottom = None if bottom is not None and bottom <= feature.low else bottom
        top = None if top is not None and top >= feature.high else top
    else:
        # What is measured is what is said: the rounded numbers.
        bottom = None if low == -np.inf else float(f"{low:.{DIGITS}g}")
        top = None if high == np.inf else float(f"{high:.{DIGITS}g}")
    return None if bottom is None and top is None else Condition(feature.name, bottom, top)


def _gap_place(feature: Feature) -> float:
    """Where a number that is missing stands among the others: below all of them."""
    assert isinstance(feature, NUMERIC)
    return float(feature.low) - max(float(feature.high) - float(feature.low), abs(float(feature.low)), 1.0)


def _measured(rule: tuple[Condition, ...], people: pd.DataFrame, unfair: np.ndarray) -> tuple[float, Group] | None:
    """The excess of unfair people, as a share of everybody, and the group; None where there may be no excess."""
    overall, inside = float(unfair.mean()), fulfilled(rule, people)
    size, found = int(inside.sum()), int((inside & unfair).sum())
    low, high = clopper_pearson(found, size) if size else (0.0, 1.0)
    if low <= overall:
        return None
    share, guess = size / len(people), Estimate(found / max(size, 1), low, high, len(people))
    text = " and ".join(condition.text for condition in rule)
    return share * (guess.unfair - overall), Group(text, share, guess, found / max(int(unfair.sum()), 1), rule)
