"""How many people of a table have a twin who is decided otherwise, wherever a model of two classes decides?

A person with scores from low to high over all their versions is decided unequally at the thresholds between: at or
above low, below high. So one look at everybody's versions answers for every threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from bornfair.models.forest.model import ForestModel
from bornfair.models.network.activations import sigmoid
from bornfair.models.opaque.model import AnyModel, OpaqueModel
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


def threshold_curve(model: AnyModel, outputs: np.ndarray) -> ThresholdCurve | None:
    """The curve for people whose versions have these outputs [rows, versions, outputs]; None for more than two
    classes, or where nobody's score changes.
    """
    if outputs.shape[-1] > 1 or not len(outputs):
        return None
    show: Callable[[np.ndarray], np.ndarray] = sigmoid
    if isinstance(model, ForestModel):
        own, logits, show = 0.0, outputs[..., 0].astype(np.float64), partial(_shown, model)  # margins
    elif isinstance(model, OpaqueModel):
        own, logits, show = 0.0, outputs[..., 0].astype(np.float64), partial(_answered, model)
    else:
        own = float(model.offsets[0]) if model.offsets else 0.0
        logits = model.logits(outputs)[..., 0].astype(np.float64)
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


def _answered(model: OpaqueModel, scores: np.ndarray) -> np.ndarray:
    found = model.meant.probabilities(scores[:, None])
    assert found is not None
    return found[:, -1]


def _shown(model: ForestModel, margins: np.ndarray) -> np.ndarray:
    """The probability that a forest shows of the last of two classes; of two outputs, from their difference."""
    forest = model.forest
    if forest.outputs == 1:
        return np.clip(forest.probabilities((margins + forest.cut.at)[:, None])[:, 1], 0.0, 1.0)
    if forest.cut.link == "probability":
        return np.clip((1 + margins) / 2, 0.0, 1.0)
    return sigmoid(margins)
