"""How many people of a table have a twin who is decided otherwise, wherever a model of two classes decides?

A person with scores from low to high over all their versions is decided unequally at the thresholds between: at or
above low, below high. So one look at everybody's versions answers for every threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.models.protocol import Countable
from bornfair.quantification.records import Checked, Share

MOST_POINTS = 64  # of the curve, besides those that matter most


@dataclass(frozen=True)
class ThresholdCurve(Checked):
    """Counts over `rows` people, at thresholds of the probability of the class `decided`."""

    decided: str
    rows: int
    thresholds: tuple[float, ...]
    affected: tuple[int, ...]
    """How many have a twin who is decided otherwise, at each threshold."""
    own: Share
    """Where the model decides."""
    own_affected: int
    worst: Share
    """The threshold at which most are affected."""
    worst_affected: int
    largest_change: Share
    """By how much a person's probability changes at most between their versions, among these people."""


def threshold_curve(model: Countable, outputs: np.ndarray) -> ThresholdCurve | None:
    """The curve for people whose versions have these outputs [rows, versions, outputs]; None for more than two
    classes, or where nobody's score changes.
    """
    if outputs.shape[-1] > 1 or not len(outputs):
        return None
    logits, own = model.threshold_axis(outputs[..., 0])
    show = model.share_of_last
    low, high = logits.min(axis=1), logits.max(axis=1)
    if not np.isfinite(logits).all() or not (high > low).any():
        return None
    starts, ends = np.sort(low), np.sort(high)

    def affected(at: np.ndarray) -> np.ndarray:
        """low <= at < high."""
        return np.searchsorted(starts, at, "right") - np.searchsorted(ends, at, "right")

    everywhere = np.unique(low)  # more are affected only where somebody's low is passed
    worst = float(everywhere[np.argmax(affected(everywhere))])
    spread = np.quantile(np.concatenate([low, high]), np.linspace(0, 1, MOST_POINTS // 2))
    even = np.linspace(starts[0], ends[-1], MOST_POINTS // 2)
    at = np.unique(np.concatenate([spread, even, [own, worst]]))
    counts = affected(at)
    return ThresholdCurve(
        decided=str(model.classes[-1]),
        rows=len(low),
        thresholds=tuple(show(at).tolist()),
        affected=tuple(counts.tolist()),
        own=float(show(np.array([own]))[0]),
        own_affected=int(affected(np.array([own]))[0]),
        worst=float(show(np.array([worst]))[0]),
        worst_affected=int(affected(np.array([worst]))[0]),
        largest_change=float((show(high) - show(low)).max()),
    )
