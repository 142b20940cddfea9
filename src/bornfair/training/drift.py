"""How large is the noise of the sampled response? Chebyshev: a mean of m draws with variance σ² each leaves its
expectation by more than τ with probability at most σ²/(m·τ²) (paper §3.3, where the number of draws is δ).

What the bound does not give: it is about one step and one parameter. It does not add up over the steps of a training,
where drifts accumulate, nor hold for all parameters at once. And a small drift is not fairness: any drift other than 0
can flip somebody who stands close enough to the decision boundary. Only the exact expectation has no drift.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from bornfair.core.errors import InputError
from bornfair.training.response import kept_and_other


def response_variance(codes: np.ndarray, gamma: float, true_index: int | np.ndarray) -> np.ndarray:
    """The variance of the released code given the true value, per column; an array of true values gives rows.

    >>> response_variance(np.array([[-1.0], [1.0]]), gamma=0.0, true_index=0).tolist()
    [1.0]
    """
    table = np.asarray(codes, np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(f"codes must be finite numbers [values of S, columns], found shape {table.shape}.")
    index = np.asarray(true_index)
    if index.dtype.kind not in "iu" or (index < 0).any() or (index >= len(table)).any():
        raise InputError(
            f"true_index must be a whole number from 0 to {len(table) - 1} (a row of codes), found {true_index!r}."
        )
    kept, other = kept_and_other(len(table), gamma)

    def variance(true: np.ndarray) -> np.ndarray:
        probability = np.full(len(table), other)
        probability[true] = kept
        # Squares of deviations, not a difference of squares: nothing cancels, and a certain answer has variance
        # exactly 0.
        return np.asarray(probability @ (table - probability @ table) ** 2)

    values, places = np.unique(index, return_inverse=True)
    return np.array([variance(true) for true in values])[places.reshape(index.shape)]


def drift_probability(variance: float, draws: int, threshold: float) -> float:
    """A bound on P(|drift| > threshold) for the mean of `draws` independent draws: min(1, σ²/(m·τ²)).

    >>> drift_probability(variance=1.0, draws=100, threshold=0.5)
    0.04
    """
    return float(min(_bound(variance, threshold) / _whole("draws", draws), Fraction(1)))


def draws_needed(variance: float, threshold: float, probability: float) -> int:
    """The smallest number of draws for which the bound on P(|drift| > threshold) is at most `probability`.

    >>> draws_needed(variance=1.0, threshold=0.5, probability=0.04)
    100
    """
    if not 0 < probability < 1:
        raise InputError(f"probability must lie between 0 and 1, found {probability!r}.")
    return max(1, math.ceil(_bound(variance, threshold) / Fraction(probability)))


def update_variance(backward: np.ndarray, variances: np.ndarray, learning_rate: float, draws: int = 1) -> np.ndarray:
    """The variance of each entry of one SGD update of the sensitive weights V, for a network with V = 0.

    The update is ΔV = −η · mean_b δ_b ⊗ c(ŝ_b), where δ_b is the derivative of row b's loss by the first layer's
    sums (`backward`, [rows, neurons]) and c(ŝ_b) the mean code of `draws` independent answers, each with the given
    variance (`variances`, [rows, columns]). While V = 0, δ_b does not depend on the answers, so that
    Var ΔV = η²/(B²·draws) · Σ_b δ_b² Var c(ŝ_b), of shape [neurons, columns].

    To bound the drift of an entry, put it into `drift_probability` with draws=1: it has the draws in it already.

    >>> update_variance(np.array([[2.0], [0.0]]), np.array([[1.0], [1.0]]), learning_rate=0.5).tolist()
    [[0.25]]
    """
    signal, noise = np.asarray(backward, np.float64), np.asarray(variances, np.float64)
    if signal.ndim != 2 or noise.ndim != 2 or len(signal) != len(noise) or not len(signal):
        raise InputError(
            "backward [rows, neurons] and variances [rows, columns] need the same one or more rows, found shapes "
            f"{signal.shape} and {noise.shape}."
        )
    if not np.isfinite(signal).all():
        raise InputError("backward must be finite; the loss or the network has already diverged.")
    if not np.isfinite(noise).all() or (noise < 0).any():
        raise InputError(f"variances must be finite and not negative, found {noise.min()}.")
    step = float(_positive("learning_rate", learning_rate))
    return (step / len(signal)) ** 2 / _whole("draws", draws) * (signal**2).T @ noise


def _bound(variance: float, threshold: float) -> Fraction:
    """σ²/τ² without rounding, so that `draws_needed` and `drift_probability` never disagree."""
    if not (math.isfinite(variance) and variance >= 0):
        raise InputError(f"variance must be a finite number of 0 or more, found {variance!r}.")
    return Fraction(float(variance)) / _positive("threshold", threshold) ** 2


def _positive(name: str, value: float) -> Fraction:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} must be a finite number above 0, found {value!r}.")
    return Fraction(float(value))


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of 1 or more, found {value!r}.")
    return int(value)
