"""How does the declared group act on a network that is shown raw columns? For training without P in front.

Element h turns the free columns x into signs·x[columns] + offsets. A first layer that gives all versions of a person
the same numbers is *tied*: W = W·P (theory: declared twins), equal weights on values that change places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bornfair.errors import InputError
from bornfair.models.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.twins.relation import element_view

MOST_VERSIONS = 4096  # that are looked at for every row where they are not one computation


@dataclass(frozen=True, eq=False)
class Swaps:
    """All elements of the group, the identity first: arrays [elements, free columns]."""

    encoding: Encoding
    columns: np.ndarray
    signs: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.columns)

    def tied(self, network: Network) -> Network:
        """The network with W·P as its first layer: what it says of the mean of a person's versions, it says of each."""
        first, free = network.layers[0], self.encoding.free_width
        weight, bias = first.weight.astype(np.float64), first.bias.astype(np.float64)
        places, domain = self.encoding.free_columns(), self.encoding.domain
        for name, orbits in domain.twin_group.orbits.items():
            place = places[name]
            if domain.feature(name).kind == "categorical":
                for orbit in orbits:
                    members = place.start + np.array(orbit)
                    weight[:, members] = weight[:, members].mean(axis=1, keepdims=True)
            else:  # x and offset − x: their mean is the same for everybody
                bias += weight[:, place.start] * self.offsets[:, place.start].max() / 2
                weight[:, place] = 0.0
        assert weight[:, :free].shape[1] == self.columns.shape[1]
        return Network((Layer(weight, bias), *network.layers[1:]), network.activation)

    def ties(self, network: Network) -> bool:
        """Whether W = W·P already, bit by bit."""
        return np.array_equal(self.tied(network).layers[0].weight, network.layers[0].weight)


def swaps_of(encoding: Encoding) -> Swaps | None:
    """What the rules do to the free columns; None where the network cannot tell anyway."""
    if encoding.merges_twins:
        return None
    views = [element_view(encoding, h) for h in range(encoding.domain.twin_group.size)]
    columns = np.stack([np.abs(matrix).argmax(axis=1) for matrix, _ in views])
    signs = np.stack([matrix.sum(axis=1) for matrix, _ in views])  # one entry in each row, 1 or −1
    return Swaps(encoding, columns.astype(np.int32), signs.astype(np.float32), np.stack([o for _, o in views]))


def require_few(versions: int) -> None:
    if versions > MOST_VERSIONS:
        raise InputError(
            f"each row has {versions:,} versions, more than the {MOST_VERSIONS:,} that raw columns are trained on; use "
            "twin_inputs='merged', which needs one pass for all of them."
        )
