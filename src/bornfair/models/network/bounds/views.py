"""Do these views fit the network, and what differs between them? What every engine asks before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bornfair.core.errors import InputError

if TYPE_CHECKING:
    from bornfair.models.network.network import Network
    from bornfair.people.twins.relation import Relation, View


def require_fit(network: Network, relation: Relation) -> None:
    """Refuse a relation about people this network cannot read."""
    if not relation.views:
        raise InputError("the relation has no views; it needs one per version of a person.")
    inputs = network.widths[0]
    for i, view in enumerate(relation.views):
        if view.offset.shape != (inputs,) or view.matrix.shape != (inputs, relation.free.width):
            raise InputError(
                f"the network has {inputs} inputs and the free space {relation.free.width} columns, but view {i} has a "
                f"matrix {view.matrix.shape} and an offset {view.offset.shape}; was it made for another encoding?"
            )


def not_finite(network: Network, relation: Relation) -> str | None:
    """Which number is NaN or infinite, if any: no proof is offered about such networks."""
    if not all(np.isfinite(matrix).all() for matrix in distinct_matrices(relation.views)):
        return "a view of the relation holds NaN or infinity"
    if not np.isfinite(offsets(relation.views)).all():
        return "an offset of the relation holds NaN or infinity"
    return network_not_finite(network)


def network_not_finite(network: Network) -> str | None:
    layer = network.broken_layer
    return None if layer is None else f"layer {layer} of the network holds NaN or infinity"


def distinct_matrices(views: Sequence[View]) -> list[np.ndarray]:
    """The matrices of the views, each object once. Views made together share one; equal copies merely cost time."""
    return list({id(view.matrix): view.matrix for view in views}.values())


def offsets(views: Sequence[View]) -> np.ndarray:
    return np.stack([view.offset for view in views])


def radii(views: Sequence[View]) -> np.ndarray:
    """How far each input of each view may be off [views, inputs]; 0 for views of points."""
    return np.stack([np.zeros(len(view.offset)) if view.radius is None else view.radius for view in views])


def differing_inputs(views: Sequence[View]) -> np.ndarray:
    """Which network inputs are not the same function of u in all views (a boolean per input)."""
    shifts = offsets(views)
    differs = (shifts != shifts[0]).any(axis=0) | (radii(views) > 0).any(axis=0)
    for matrix in distinct_matrices(views)[1:]:
        differs |= (matrix != views[0].matrix).any(axis=1)
    return differs


def input_sizes(relation: Relation) -> np.ndarray:
    """How large each network input may become, in any view of anybody: never more, whatever was rounded."""
    reach = np.maximum(np.abs(relation.free.low), np.abs(relation.free.high))
    largest = (np.abs(offsets(relation.views)) + radii(relation.views)).max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        moved = np.stack([np.abs(matrix) @ reach for matrix in distinct_matrices(relation.views)])
        return np.asarray((moved.max(axis=0) + largest) * (1 + 2.0**-20))
