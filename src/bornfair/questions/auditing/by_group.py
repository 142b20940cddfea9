"""How often does each group get what people hope for? Tables as regulators read them: selection rates with exact
intervals, impact ratios, error rates, by each sensitive feature and by several together.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from bornfair.people.domain import Domain
from bornfair.people.levels import grouped
from bornfair.quantification.confident import clopper_pearson
from bornfair.report.facts import Favourable, GroupMetrics

MOST_LINES = 24  # of one table; the smallest groups beyond are one line
MOST_TABLES = 12


def by_group(
    domain: Domain, rows: pd.DataFrame, decided: np.ndarray, truth: np.ndarray | None, good: int, rules: Favourable
) -> tuple[GroupMetrics, ...]:
    """The lines of all tables, one table after the other.

    decided, truth: class indices, −1 where not known; good: the index of the favourable class.
    """
    parts = {f.name: grouped(f, rows[f.name]) for f in domain.sensitive_features if f.name in rows.columns}
    names = tuple(parts)
    tables = [some for size in range(1, len(names) + 1) for some in combinations(names, size)]
    if len(tables) > MOST_TABLES:  # each alone, and all together
        tables = [*((name,) for name in names), names]
    lines: list[GroupMetrics] = []
    for features in tables:
        lines += _table(features, parts, decided, truth, good, rules)
    return tuple(lines)


def _table(
    features: tuple[str, ...],
    parts: dict[str, tuple[np.ndarray, list[str]]],
    decided: np.ndarray,
    truth: np.ndarray | None,
    good: int,
    rules: Favourable,
) -> list[GroupMetrics]:
    positions = np.stack([parts[name][0] for name in features], axis=1)
    known = (positions >= 0).all(axis=1)
    keys, member = np.unique(positions[known], axis=0, return_inverse=True)
    group = np.full(len(positions), -1)
    group[known] = member.ravel()
    names = [", ".join(parts[name][1][i] for name, i in zip(features, key, strict=True)) for key in keys.tolist()]
    sizes = np.bincount(group[known], minlength=len(names))
    gathered = len(names) > MOST_LINES
    if gathered:
        kept = np.sort(np.argsort(-sizes, kind="stable")[: MOST_LINES - 1])
        place = np.full(len(names), len(kept))
        place[kept] = np.arange(len(kept))
        group[known] = place[group[known]]
        names = [*(names[i] for i in kept), f"{len(names) - len(kept):,} smaller groups together"]
    found = [_line(name, features, group == i, decided, truth, good, rules) for i, name in enumerate(names)]
    if gathered:  # they have nothing in common
        found[-1] = replace(found[-1], small=True)
    highest = max((line.selection_rate or 0.0 for line in found if not line.small), default=0.0)
    if highest:
        found = [replace(one, impact_ratio=_over(one.selection_rate, highest)) for one in found]
    if not known.all():
        nobody = _line("not known", features, np.logical_not(known), decided, truth, good, rules)
        found.append(replace(nobody, unknown=True))
    return found


def _line(
    name: str,
    features: tuple[str, ...],
    who: np.ndarray,
    decided: np.ndarray,
    truth: np.ndarray | None,
    good: int,
    rules: Favourable,
) -> GroupMetrics:
    asked, count = who & (decided >= 0), int(who.sum())
    chosen, people = int((decided[asked] == good).sum()), int(asked.sum())
    low, high = clopper_pearson(chosen, people, rules.confidence) if people else (None, None)
    judged = asked & (truth >= 0) if truth is not None else np.zeros(len(who), bool)
    right = truth[judged] == good if truth is not None else np.zeros(0, bool)
    got = decided[judged] == good
    return GroupMetrics(
        name, count, chosen / people if people else None,
        float(np.mean(decided[judged] == truth[judged])) if truth is not None and judged.any() else None,
        float(np.mean(got[right])) if right.any() else None,
        float(np.mean(got[~right])) if (~right).any() else None,
        features, low, high,
        small=count < max(rules.least_people, rules.least_share * len(who)),
    )  # fmt: skip


def _over(rate: float | None, highest: float) -> float | None:
    return None if rate is None else rate / highest
