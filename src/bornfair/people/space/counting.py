"""Which choice has a given number, where each of many features has a few values to choose from?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def places(which: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """For each feature the place of the value chosen, the last feature changing fastest; `np.unravel_index`, which has
    64 dimensions at most, for any number of features.

    >>> [place.tolist() for place in places(np.array([0, 4, 5]), [2, 3])]
    [[0, 1, 1], [0, 1, 2]]
    """
    found = []
    for size in reversed(sizes):
        which, place = np.divmod(which, size)
        found.append(place)
    return found[::-1]
