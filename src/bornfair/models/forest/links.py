"""Scores of a forest at which the probability that it shows exceeds a threshold.

The original rounds what it makes of a score before it compares, so that the point is looked for in its own arithmetic:
the largest score whose probability does not exceed the threshold, and around it a slack within which another
exponential function than ours, right to a few units in the last place, may decide otherwise.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.forest import Forest, Precision

Show = Callable[[np.ndarray], np.ndarray]
UNITS = 4  # in the last place of a probability, by which exponential functions differ at most
SOFTMAX_SLACK = {"float32": 2.0**-21, "float64": 2.0**-50}  # scores as near to each other may show equal probabilities


def sigmoid_in_float32(scores: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)), each operation in float32; exp rounded from float64."""
    with np.errstate(over="ignore", under="ignore"):
        grown = np.exp(-np.asarray(scores, np.float32).astype(np.float64)).astype(np.float32)
        return (np.float32(1) / (np.float32(1) + grown)).astype(np.float64)


def sigmoid_in_float64(slope: float = 1.0) -> Show:
    """1 / (1 + exp(−slope·x)) in float64."""

    def show(scores: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            return 1.0 / (1.0 + np.exp(-slope * np.asarray(scores, np.float64)))

    return show


def cut_of(show: Show, threshold: float, precision: Precision, ties: bool = False) -> tuple[float, float]:
    """The largest score of this precision that shows no more than the threshold (with `ties`: less than it), and the
    slack around it. `show` must not fall.

    >>> at, slack = cut_of(sigmoid_in_float32, 0.5, "float32")
    >>> 0 < at < 1e-6 and 0 < slack < 1e-5
    True
    """
    if not 0 < threshold < 1:
        raise InputError(f"the threshold of a probability must lie between 0 and 1, found {threshold!r}.")
    unit = float(np.spacing(np.dtype(precision).type(threshold)))
    at = _last(show, threshold, precision, ties)
    ends = (_last(show, min(max(threshold + k * unit, 0.0), 1.0), precision, ties) for k in (-UNITS, UNITS))
    slack = max(abs(end - at) for end in ends) if math.isfinite(at) else math.inf
    if not math.isfinite(slack):
        raise InputError(f"at the threshold {threshold!r} everybody gets the same decision; give one further from it.")
    return at, slack


def just_below(number: float, precision: Precision) -> float:
    """The number before this one: score ≥ t is score > the number before t."""
    kind = np.dtype(precision).type
    return float(np.nextafter(kind(number), kind(-np.inf)))


def _last(show: Show, threshold: float, precision: Precision, ties: bool) -> float:
    """By halving: on [low, high] scores are sorted as their numbers are."""
    kind = np.dtype(precision).type
    low, high = kind(-1e4), kind(1e4)

    def below(score: np.floating) -> bool:
        shown = float(show(np.array([score]))[0])
        return shown < threshold if ties else shown <= threshold

    if not below(low):
        return -math.inf
    if below(high):
        return math.inf
    while np.nextafter(low, high) < high:
        middle = kind((float(low) + float(high)) / 2)
        if not low < middle < high:
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return float(low)


def last_of_two(forest: Forest) -> Forest:
    """The forest with the output of the last of two classes only."""
    if forest.outputs != 2:
        return forest
    summation = dataclasses.replace(forest.summation, base=forest.summation.base[1:])
    return dataclasses.replace(forest, values=forest.values[:, 1:], summation=summation)


def moved_to(forest: Forest, threshold: float | Sequence[float], *, ties: bool = False) -> Forest:
    """The same forest, deciding the last of two classes above another probability; of more classes, the one whose
    probability is the largest multiple of its threshold. With `ties`, the last class is decided at the threshold, too.
    """
    cut, precision = forest.cut, forest.summation.precision
    if isinstance(threshold, (int, float)):
        forest = last_of_two(forest)
        if cut.link == "probability":
            at, slack = just_below(threshold, "float64") if ties else float(threshold), 0.0
        elif cut.link == "sigmoid":
            show = sigmoid_in_float32 if precision == "float32" else sigmoid_in_float64(cut.slope)
            at, slack = cut_of(show, float(threshold), precision, ties)
        else:
            raise InputError("this forest shows no probabilities, so that it has no threshold; leave it out.")
        return dataclasses.replace(forest, cut=dataclasses.replace(cut, at=at, slack=slack, offsets=()))
    if cut.link != "softmax":
        raise InputError(
            "this forest does not end in a softmax over more than two classes, so that thresholds of several classes "
            "(--threshold) are no shift of its scores; leave them out."
        )
    for share in threshold:
        if not 0 < share < 1:
            raise InputError(f"the threshold of a probability must lie between 0 and 1, found {share!r}.")
    offsets = tuple(math.log(share / 0.5) for share in threshold)
    slack = max(SOFTMAX_SLACK[precision], cut.slack)
    return dataclasses.replace(forest, cut=dataclasses.replace(cut, offsets=offsets, slack=slack))
