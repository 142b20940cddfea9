"""Do a model's probabilities mean what they say? Beside each other: what was predicted, and how often it came true."""

from __future__ import annotations

from typing import Any

import numpy as np

from bornfair.models import metrics
from bornfair.quantification.confident import clopper_pearson
from bornfair.report.facts import Reliability, ReliabilityBin

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
