"""Do probabilities mean what they say? A rising line through the scores, fitted on rows that training kept aside.

logit = slope·score + shift with slope > 0; of more than two classes one slope for all and a shift for each. Both are
multiplied into the last layer, so the network is as plain as before: twins whose scores are equal stay equal, and the
proof, the graph and the checker see nothing new. Thresholds are meant of the probabilities that come out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.model import log_probabilities
from bornfair.models.network.network import Layer, Network

DOUBT = 1.0  # in rows: how much speaks for leaving the scores alone, so that a handful of rows cannot say "certain"
STEEPEST = 5.0  # the largest logarithm of a slope, either way


@dataclass(frozen=True)
class Calibration:
    """The line: what scores are multiplied by, and what is then added to each output."""

    slope: float
    shifts: tuple[float, ...]
    rows: int
    """On how many rows it was fitted."""

    def of(self, network: Network) -> Network:
        """The network with the line in its last layer.

        >>> one = Network((Layer([[1.0]], [0.5]),), "relu")
        >>> Calibration(2.0, (0.25,), 100).of(one).scores(np.float32([[1]])).tolist()
        [[3.25]]
        """
        last = network.layers[-1]
        weight = self.slope * last.weight.astype(np.float64)
        bias = self.slope * last.bias.astype(np.float64) + np.array(self.shifts)
        return replace(network, layers=(*network.layers[:-1], Layer(weight, bias)))


def calibration(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray | None = None) -> Calibration:
    """The likeliest line for these outputs [rows, outputs] and classes, a little pulled towards leaving them alone.

    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(size=20_000)
    >>> classes = (rng.random(20_000) < 1 / (1 + np.exp(-true))).astype(int)
    >>> round(calibration(3 * true[:, None], classes).slope, 1)  # three times too sure
    0.3
    """
    from scipy.optimize import minimize

    if not len(scores):
        raise InputError(
            "calibrate=True needs rows that training keeps aside, and none were; set validation_fraction to 0.1, for "
            "instance, and give it a whole table."
        )
    wide = np.asarray(scores, np.float64)
    counted = np.ones(len(wide)) if weights is None else np.asarray(weights, np.float64)
    if not counted.sum() > 0:
        counted = np.ones(len(wide))
    counted = counted * (len(wide) / counted.sum())
    outputs = wide.shape[1]
    truth = np.eye(max(outputs, 2))[classes][:, -outputs:]  # of one output, whether it is the last class

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        slope, shifts = np.exp(line[0]), line[1:]
        logs = log_probabilities(slope * wide + shifts)
        own = np.take_along_axis(logs, np.asarray(classes)[:, None], axis=1)[:, 0]
        wrong = (np.exp(logs[:, -outputs:]) - truth) * counted[:, None]
        slopes = DOUBT * line + np.concatenate([[slope * np.sum(wrong * wide)], wrong.sum(axis=0)])
        return (DOUBT * line @ line / 2 - counted @ own) / len(wide), slopes / len(wide)

    bounds = [(-STEEPEST, STEEPEST)] + [(None, None)] * outputs
    found = minimize(loss, np.zeros(1 + outputs), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(np.exp(found[0])), tuple(found[1:].tolist()), len(wide))
