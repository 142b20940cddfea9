"""Which share of the people of a box is surely decided alike as all versions, or surely not?

The score of version k is a mean and fluctuations around it, of which two descriptions are used: all that is known of
them is their covariance; or they are a sum of functions of single features, whose distribution is a convolution, and a
rest of which the covariance is known. In both cases, with a constant or an additive function A below all versions'
and rests R_k of mean 0,

    P(some S_k ≤ 0) ≤ P(A ≤ τ) + P(some R_k ≤ −τ)    for every τ ≥ 0,

and the second is at most Σ_k r_k² / (r_k² + τ²) (Cantelli), or, with Z the average of the rests and η_k = R_k − Z, at
most E[(c − Z + max_k |η_k|)²] / (τ + c)² ≤ (√(σ_Z² + c²) + √(Σ_k σ²(η_k)))² / (τ + c)² for every c ≥ 0.

Additive: μ + Σ_f min_k (m_kf(x_f) + α_kf), where μ is the least mean, m_kf the effect of feature f on version k, and
α_kf ≥ 0 share out what μ_k has more. Values are rounded down to multiples of one width, which can only make the sum
smaller; what the fast Fourier transform errs is bounded and subtracted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import fft

from bornfair.models.forest.shares.moments import Moments

BINS = 512
STEPS = (1.0, 1.5, 2.2, 3.2, 4.5, 6.5, 10.0, 16.0)  # of τ, in units of the rest's deviation
FACTORS = (0.5, 1.0, 2.0)  # of the c that is best where versions do not differ
HOPE = 1.5  # deviations
LOSS = 2.0**-44


class Additive(NamedTuple):
    """A constant [parts] and functions of single features: masses [cells] and values [parts, cells]."""

    constant: np.ndarray
    functions: tuple[tuple[np.ndarray, np.ndarray], ...]


def all_above(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has all functions above `away`."""
    least = found.mean.min(axis=0) - found.mean_error - away
    spread = np.sqrt(np.maximum(np.einsum("kka->ka", found.covariance), 0.0).max(axis=0))
    hopeful = least > -HOPE * spread
    if not hopeful.all():  # where next to nobody is above, nothing is lost
        shares = np.zeros(len(least))
        if hopeful.any():
            shares[hopeful] = all_above(_parts(found, hopeful), away)
        return shares
    plain = np.where(
        least > 0, 1 - _some_below(found.covariance, found.error, np.maximum(least, 0.0)[:, None])[:, 0], 0.0
    )
    rest = found.residual
    deviation = np.sqrt(np.maximum(np.einsum("kka->ka", rest), 0.0).max(axis=0) + found.error)
    at = deviation[:, None] * np.array(STEPS)  # [parts, steps]
    split = _above(_lower(found, away), at) - _some_below(rest, found.error, at)
    return np.clip(np.maximum(plain, split.max(axis=1)), 0.0, 1.0)


def all_below(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has all functions below −`away`."""
    turned = tuple(tuple(effect._replace(mean=-effect.mean) for effect in own) for own in found.effects)
    return all_above(found._replace(mean=-found.mean, effects=turned), away)


def told_apart(found: Moments, away: float) -> np.ndarray:
    """At least which share of each part has some function above `away`, and another below −`away`: of the two that
    differ most in their means.
    """
    means = found.mean.mean(axis=1)
    highest, lowest = int(means.argmax()), int(means.argmin())
    if highest == lowest:
        return np.zeros(found.mean.shape[1])
    return np.maximum(all_above(_only(found, highest), away) + all_below(_only(found, lowest), away) - 1, 0.0)


def _parts(found: Moments, which: np.ndarray) -> Moments:
    effects = tuple(tuple(e._replace(mean=e.mean[which]) for e in own) for own in found.effects)
    return found._replace(
        share=found.share[which], mean=found.mean[:, which], covariance=found.covariance[..., which], effects=effects
    )


def _only(found: Moments, k: int) -> Moments:
    one = slice(k, k + 1)
    return found._replace(mean=found.mean[one], covariance=found.covariance[one, one], effects=found.effects[one])


def _some_below(covariance: np.ndarray, error: float, at: np.ndarray) -> np.ndarray:
    """At most which share [parts, numbers] has some fluctuation ≤ −number, of those with these covariances."""
    size = len(covariance)
    variance = np.maximum(np.einsum("kka->ka", covariance), 0.0) + error  # [functions, parts]
    squared = np.maximum(at, 1e-150) ** 2
    best = (variance[:, :, None] / (variance[:, :, None] + squared)).sum(axis=0)
    if size > 1:
        average = np.maximum(covariance.mean(axis=(0, 1)), 0.0)
        apart = np.sqrt(np.maximum(variance.sum(axis=0) - size * average, 0.0) + 2 * size * error)
        middle = (average + error)[:, None]
        for factor in FACTORS:
            c = factor * middle / np.maximum(at, 1e-150)
            best = np.minimum(best, (np.sqrt(middle + c**2) + apart[:, None]) ** 2 / (at + c) ** 2)
    return np.minimum(best, 1.0)


def _lower(found: Moments, away: float) -> Additive:
    """A sum of functions of single features that is below the sums of all, less `away`."""
    means = found.mean - found.mean_error
    least, base = means.min(axis=0), int(means.mean(axis=1).argmin())
    by_feature = [{effect.feature: effect for effect in own} for own in found.effects]
    features = {f: effect.mass for own in by_feature for f, effect in own.items()}
    values: dict[int, list[np.ndarray]] = {}
    spreads = np.zeros((len(features), *means.shape))  # by how much each falls below the one with the least mean
    for i, (f, mass) in enumerate(features.items()):
        nothing = np.zeros((means.shape[1], len(mass)))
        values[f] = [own[f].mean if f in own else nothing for own in by_feature]
        spreads[i] = [np.maximum((values[f][base] - mean).max(axis=1), 0.0) for mean in values[f]]
    total = spreads.sum(axis=0)
    functions = []
    for i, (f, mass) in enumerate(features.items()):
        share = np.where(total > 0, spreads[i] / np.where(total > 0, total, 1.0), 1.0 / len(features))
        more = (means - least) * share * (1 - 2.0**-40)
        functions.append((mass, np.min([m + more[k][:, None] for k, m in enumerate(values[f])], axis=0)))
    return Additive(least - away, tuple(functions))


def _above(sums: Additive, at: np.ndarray) -> np.ndarray:
    """Lower bounds on the share of each part in which the sum lies above each of the numbers [parts, numbers]."""
    count = len(sums.constant)
    lows = [values.min(axis=1) for _, values in sums.functions]
    spans = [values.max(axis=1) - low for (_, values), low in zip(sums.functions, lows, strict=True)]
    reach = np.sum(spans, axis=0) if spans else np.zeros(count)
    size = np.abs(sums.constant) + sum((np.abs(v).max(axis=1) for _, v in sums.functions), np.zeros(count))
    base = sums.constant + sum(lows, np.zeros(count)) - LOSS * size
    width = np.where(reach > 0, reach, 1.0) * ((1 + 2.0**-30) / (BINS - 1))
    product = np.ones((count, BINS // 2 + 1), np.complex128)
    rows = np.arange(count)[:, None] * BINS
    for (mass, values), low in zip(sums.functions, lows, strict=True):
        index = ((values - low[:, None]) * ((1 - 2.0**-40) / width)[:, None]).astype(np.int64)
        weights = np.broadcast_to(mass, values.shape).ravel()
        spread = np.bincount((np.minimum(index, BINS - 1) + rows).ravel(), weights, minlength=count * BINS)
        product *= fft.rfft(spread.reshape(count, BINS), axis=1)
    chance = np.maximum(fft.irfft(product, n=BINS, axis=1), 0.0)
    tail = np.concatenate([np.cumsum(chance[:, ::-1], axis=1)[:, ::-1], np.zeros((count, 1))], axis=1)
    needed = (at - base[:, None]) / width[:, None]
    needed = np.floor(needed + 2.0**-40 * (np.abs(needed) + 1)) + 1
    place = np.clip(needed, 0, BINS).astype(np.int64)
    # A transform of length n errs by at most log2(n)·6u relative to its norm (Higham, Accuracy and Stability, §24.1);
    # a product of these, transformed back, without what is negative, and summed over up to n bins, by the following.
    error = 2.0**-45 * (len(sums.functions) + 2) * np.log2(BINS) * np.sqrt(BINS)
    found = np.take_along_axis(tail, place, axis=1) - error
    return np.where(needed <= 0, 1.0, found)
