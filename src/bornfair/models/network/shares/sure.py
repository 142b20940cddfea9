"""People whose decisions are sure whatever is rounded, one by one, in floating point."""

from __future__ import annotations

import math

import numpy as np

from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.network import Network
from bornfair.models.network.shares.forms import Bounder
from bornfair.models.rounding import EXECUTIONS

PAD = 2.0**-50  # relative: our own product of a view's matrix with u is rounded


def largest_rounding(network: Network, largest: np.ndarray) -> float:
    """By how much outputs in float32, in any order of summation, may be off the exact ones when no input is larger
    than `largest`; infinite where that is not known.

    One number for everybody, far above what `sure_people` needs for one person, and quick: whoever's score is
    further from the boundary need not be looked at more closely.
    """
    if not network.function.exact or network.broken_layer is not None:
        return math.inf
    machine = EXECUTIONS["float32"]
    size = np.asarray(largest, np.float64) * (1 + 4 * machine.unit)
    error = 4 * machine.unit * size + machine.floor
    for weight, bias in network.wide:
        terms = weight.shape[1] + 4
        total = np.abs(weight) @ (size + error) + np.abs(bias)
        error = np.abs(weight) @ error + machine.gamma(terms) * total + terms * machine.floor
        size = total
        if not (size + error < machine.largest).all():
            return math.inf
    return float(error.max()) * (1 + 2.0**-20)  # our own sums are rounded, too


def sure_people(owner: Bounder, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of u whose views provably get one class, and those of whose views two provably get different ones."""
    classes = []
    for view in owner.relation.views:
        inputs = view(free)
        size = np.abs(free) @ np.abs(view.matrix).T + np.abs(view.offset)
        reach = PAD * size if view.radius is None else PAD * size + view.radius
        low, high = box_bounds(owner.network, inputs - reach, inputs + reach, owner.arithmetic)
        if owner.network.outputs == 1:
            sure = np.where(low[:, 0] > 0, 1, np.where(high[:, 0] <= 0, 0, -1))
        else:
            best = low.argmax(axis=1)
            others = high.copy()
            np.put_along_axis(others, best[:, None], -np.inf, axis=1)
            leads = np.take_along_axis(low, best[:, None], axis=1)[:, 0] > others.max(axis=1)
            sure = np.where(leads, best, -1)
        classes.append(sure)
    return treated(np.stack(classes, axis=1))


def treated(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Who surely gets one class in all views, and who surely does not: classes [people, views], −1 where unsure."""
    least, most, unsure = classes[:, 0], classes[:, 0], classes[:, 0] < 0
    for column in classes.T[1:]:
        unsure = unsure | (column < 0)
        # What is not sure says nothing: it becomes the other's class.
        least = np.where(column < 0, least, np.where((least < 0) | (column < least), column, least))
        most = np.maximum(most, column)
    return ~unsure & (least == most), least < most
