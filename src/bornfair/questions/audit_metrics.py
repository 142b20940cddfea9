"""What an audit measures on the rows of a table: rates by group, and whether probabilities mean what they say.

Tables by group are as regulators read them: selection rates with exact intervals, impact ratios and error rates, by
each sensitive feature and by several together.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from bornfair.models import metrics
from bornfair.people.domain import Domain
from bornfair.people.levels import grouped
from bornfair.quantification.confident import clopper_pearson
from bornfair.report.facts import Favourable, GroupMetrics, Reliability, ReliabilityBin

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


MOST_BINS = 10
LEAST_PEOPLE = 20  # in a bin


def reliability_of(shown: np.ndarray, answers: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    """The Brier score and the reliability of probabilities [rows, classes] whose true class indices are known; nothing
    where they are no probabilities.

    >>> shown = np.repeat([[0.9, 0.1], [0.2, 0.8]], 50, axis=0)
    >>> found = reliability_of(shown, np.array([0] * 40 + [1] * 60), np.array(["no", "yes"]))
    >>> round(found["brier"], 3), [round(one.happened, 2) for one in found["reliability"].bins]
    (0.105, [0.2, 1.0])
    """
    known = answers >= 0
    shown, answers = np.asarray(shown, np.float64)[known], answers[known]
    if not len(shown) or shown.min() < 0 or shown.max() > 1 or not np.allclose(shown.sum(axis=1), 1, atol=1e-3):
        return {}
    two = shown.shape[1] == 2
    predicted = shown[:, 1] if two else shown.max(axis=1)
    happened = answers == (1 if two else shown.argmax(axis=1))
    bins = _bins(predicted, happened)
    error = sum(one.rows * abs(one.predicted - one.happened) for one in bins) / len(shown)
    return {
        "brier": metrics.brier(classes[answers], shown, classes),
        "reliability": Reliability(str(classes[1]) if two else "", bins, min(error, 1.0)),
    }


def _bins(predicted: np.ndarray, happened: np.ndarray) -> tuple[ReliabilityBin, ...]:
    """Of about equally many people each; who has the same probability is in the same one."""
    count = max(1, min(MOST_BINS, len(predicted) // LEAST_PEOPLE))
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, count + 1)[1:-1], method="higher"))
    place = np.searchsorted(edges, predicted, side="right")
    found = []
    for i in np.unique(place):
        own = place == i
        true, rows = int(happened[own].sum()), int(own.sum())
        low, high = clopper_pearson(true, rows, 0.95)
        mean = min(max(float(predicted[own].mean()), 0.0), 1.0)
        found.append(ReliabilityBin(mean, true / rows, low, high, rows))
    return tuple(found)
