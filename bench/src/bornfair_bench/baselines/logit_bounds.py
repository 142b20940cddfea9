"""Safe bounds of the logit for everybody in a box around a person.

By intervals whose rounding is accounted for: what they say holds in real arithmetic and in float32 as shipped.
"""

from __future__ import annotations

import numpy as np

from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.network import Network

WIDEN = 1 + 2.0**-50  # a radius computed with a few roundings, times this, is at least what it should be


def logit_bounds(network: Network, centres: np.ndarray, radius: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Arrays low, high [rows] between which the logit lies on each box centre ± radius.

    centres: [rows, inputs]; radius: [inputs], the same for every row. With radius 0 they differ by rounding alone.
    """
    middle = np.asarray(centres, np.float64)
    ends = np.nextafter(middle - radius, -np.inf), np.nextafter(middle + radius, np.inf)
    low, high = box_bounds(network, *ends, "float32")
    return low[:, 0], high[:, 0]


def logit_bounds_of_versions(
    network: Network, free: np.ndarray, all_codes: np.ndarray, radius: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Arrays low, high [|S|, rows]: the same for each person under every sensitive code; radius: [free columns]."""
    ends = [
        logit_bounds(
            network,
            np.concatenate([free, np.broadcast_to(code, (len(free), len(code)))], axis=1),
            np.concatenate([radius, np.zeros(len(code))]),
        )
        for code in all_codes
    ]
    return np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])


def one_decision(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether logits between these bounds all lead to the same decision (positive: logit > 0)."""
    return (low > 0) | (high <= 0)
