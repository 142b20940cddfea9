"""How small must the sensitive weights be, so that no decision hangs on them? A proven bound, for finite domains.

Let c̄ be the mean code, m the least distance of anybody's score from another decision at c̄, and L such that no score
(no lead of one class over another) changes by more than L·max|d| when d is added to the first layer's sums. If
L·max|V(c(ω) − c̄)| < m for every sensitive value ω, then everybody gets one decision as all of them: that at c̄.
All of it is about real arithmetic. (theory: certified tolerance)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.network.bounds.backward import network_not_finite
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.models.rounding import float_above, float_below
from bornfair.people.encoding import Encoding
from bornfair.people.space.subpopulation import places
from bornfair.people.twins.relation import FreeSpace, element_view, free_space
from bornfair.verification.score import largest_gain, largest_move

MOST_PEOPLE = 1_000_000  # looked at one by one
BATCH = 2**14


@dataclass(frozen=True)
class Tolerance:
    """How far the sensitive values may move the first layer, and how far they do, in real arithmetic."""

    margin: float
    """At least so far is everybody's score at the mean code from another decision; 0 if somebody's is on the edge."""
    gain: float
    """At most so much does a score change for each unit by which the first layer's sums do."""
    allowed: float
    """margin / gain, never more: below this no decision changes."""
    actual: float
    """The most by which a sensitive value moves a first-layer sum from where the mean code has it, never less."""

    @property
    def holds(self) -> bool:
        """Whether this proves that twins always get the same decision. If not, they may all the same."""
        return self.actual == 0 or self.actual < self.allowed


def certified_tolerance(model: Model) -> Tolerance:
    """The tolerance of a network over a finite domain, of at most a million people (their sensitive values aside).

    Args:
        model: a network over features that are whole numbers, categories, or true and false.

    Returns:
        What is allowed and what is there. `holds` is a proof of fairness in real arithmetic.

    Raises:
        InputError: somebody's feature may be any real number of a range, so that scores come as close to the edge as
            you like; rules declare twins whom the network is shown differently; or there are too many people.

    >>> from bornfair.models.network.network import Layer
    >>> from bornfair.people.domain import Domain
    >>> from bornfair.people.columns import Scale
    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> people = Domain(features=(IntegerFeature(name="n", low=0, high=3), BooleanFeature(name="s")), sensitive=("s",))
    >>> encoding = Encoding(people, {"n": Scale(centre=0.0, exponent=0)})
    >>> def network(v: float) -> Network:  # 2·max(n + v·s, 0) − 3: granted from 2 on
    ...     return Network((Layer(np.array([[1.0, v]]), np.zeros(1)), Layer(np.array([[2.0]]), np.array([-3.0]))))
    >>> found = certified_tolerance(Model(network(0.25), encoding))
    >>> round(found.margin, 9), found.gain, round(found.allowed, 9), found.actual, found.holds
    (1.0, 2.0, 0.5, 0.25, True)
    >>> certified_tolerance(Model(network(0.5), encoding)).holds
    False
    """
    network, encoding = model.network, model.encoding
    _require_finite(encoding)
    flaw = network_not_finite(network)
    if flaw is not None:
        raise InputError(f"{flaw}; there is nothing to tolerate.")
    codes = encoding.sensitive.listed_codes
    mean = codes.mean(axis=0)
    margin, gain = _least_margin(network, encoding, mean), largest_gain(network)
    allowed = float_below(Fraction(margin) / gain) if gain else math.inf
    moved = largest_move(network.sensitive_weights(encoding.free_width), codes, mean)
    return Tolerance(margin, float_above(gain), allowed, float_above(moved))


def _require_finite(encoding: Encoding) -> None:
    domain = encoding.domain
    domain.require_sensitive()
    real = [feature.name for feature in domain.features if feature.kind == "real"]
    if real:
        raise InputError(
            f"{shown(real)} may be any real number of a range, so that scores may come as close to the edge of a "
            "decision as you like; a tolerance is certified where all features are whole numbers, categories or "
            "true/false."
        )
    if not encoding.merges_twins:
        raise InputError(
            "the network is shown declared twins as different people; a tolerance is certified for twins who differ "
            "in sensitive features only, or whom the network is shown alike."
        )
    if domain.gappy_numbers:
        raise InputError(f"{shown(domain.gappy_numbers)} may be missing; a tolerance is certified where no number is.")
    people = math.prod(len(feature.levels()) for feature in domain.free_features)
    if people > MOST_PEOPLE:
        raise InputError(f"{people:,} people are more than the {MOST_PEOPLE:,} that are looked at one by one.")


def _least_margin(network: Network, encoding: Encoding, mean: np.ndarray) -> float:
    """A bound from below of everybody's distance from another decision when their code is the mean."""
    matrix, offset = element_view(encoding, 0)
    least = math.inf
    for free in _everybody(free_space(encoding)):
        shared = free @ matrix.T + offset
        pad = 2.0**-50 * np.abs(shared)  # shown without rounding, most of them; this is for the others
        codes = np.broadcast_to(mean, (len(free), len(mean)))
        low, high = (np.concatenate([part, codes], axis=1) for part in (shared - pad, shared + pad))
        least = min(least, float(_margins(*box_bounds(network, low, high)).min()))
    return least


def _margins(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """How far bounds of the outputs [people, outputs] are from another decision, at least; 0 if they allow several."""
    if low.shape[1] == 1:
        leads = np.stack([low[:, 0], -high[:, 0]])
    else:
        others = [np.delete(high, k, axis=1).max(axis=1) for k in range(low.shape[1])]
        leads = np.stack([np.nextafter(low[:, k] - other, -np.inf) for k, other in enumerate(others)])
    return np.maximum(np.nan_to_num(leads.max(axis=0), nan=0.0), 0.0)


def _everybody(free: FreeSpace) -> Iterator[np.ndarray]:
    """All vectors u of a free space that is a lattice, some rows at a time."""
    axes, column, groups = list[np.ndarray](), 0, {group.start: group.stop for group in free.groups}
    while column < free.width:
        end = groups.get(column, column + 1)
        steps = round(float((free.high - free.low)[column] / free.step[column]))
        axes.append(np.eye(end - column) if column in groups else _levels(free, column, steps))
        column = end
    shape = tuple(len(axis) for axis in axes)
    for start in range(0, math.prod(shape), BATCH):
        count = min(BATCH, math.prod(shape) - start)
        chosen = zip(axes, places(np.arange(start, start + count), shape), strict=True)
        yield np.concatenate([np.zeros((count, 0)), *(axis[place] for axis, place in chosen)], axis=1)


def _levels(free: FreeSpace, column: int, steps: int) -> np.ndarray:
    return (free.low[column] + free.step[column] * np.arange(steps + 1))[:, None]
