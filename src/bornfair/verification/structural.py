"""Is the network fair because its first layer cannot tell twins apart?

Views i and j of u give the first layer W(A_i u + a_i) + b and W(A_j u + a_j) + b. If W(A_i − A_j) = 0 and
W(a_i − a_j) = 0, both are the same function of u, and so is all that follows. Zero means exactly zero, in integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bornfair.errors import InputError
from bornfair.models.rounding import EXECUTIONS
from bornfair.verification.exact import whole_numbers
from bornfair.verification.verdict import Arithmetic, Verdict

if TYPE_CHECKING:
    from bornfair.models.network import Network
    from bornfair.twins.relation import Relation, View


def prove_structurally(network: Network, relation: Relation) -> Verdict:
    """Verified when all views of u give the same first layer, for every u whatsoever, also outside the free space.

    In float32 this holds when every weight w on an input x that differs between views is exactly 0. The product w·x
    is ±0 for finite x, and adding ±0 (fused or not, at any place in the sum) leaves every partial sum the number it
    was. At most the sign of a zero changes, which no later sum, product, activation or comparison turns into another
    number. So a program that adds in the same order for both twins gives both the same outputs.
    Weights that are not 0 but cancel do so in real arithmetic only: in float32 (z + w·x) − w·x need not be z.
    """
    require_fit(network, relation)
    flaw = not_finite(network, relation)
    if flaw is not None:
        return undecided("structural", flaw)
    differing = np.flatnonzero(differing_inputs(relation.views))
    weights = network.layers[0].weight[:, differing]
    if not weights.any():
        if _finite_in_float32(relation, differing):
            return _verified(("real", "float32"), "all first-layer weights on what differs between twins are 0")
        return _verified(("real",), "the weights on what differs between twins are 0; in float32 it may overflow")
    bands = radii(relation.views)[:, differing].any(axis=0)
    if weights[:, bands].any():
        neuron = int(np.argmax(weights[:, bands].any(axis=1)))
        return undecided("structural", f"first-layer neuron {neuron} reads what takes every value of a band")
    found = _first_difference(weights, differing, relation.views)
    if found is None:
        return _verified(("real",), "the first-layer weights on what differs between twins cancel exactly")
    neuron, view = found
    return undecided("structural", f"first-layer neuron {neuron} responds differently to views 0 and {view}")


def prove_zero_weights(network: Network, free_width: int) -> Verdict:
    """Verified when V, the weights on the sensitive codes, is exactly 0. Needs no list of the sensitive values.

    The argument is that of `prove_structurally`; codes are finite float32 numbers (`bornfair.people.sensitive`).
    """
    if not 0 <= free_width <= network.widths[0]:
        raise InputError(f"free_width is {free_width}, but the network has {network.widths[0]} inputs in all.")
    flaw = _network_not_finite(network)
    if flaw is not None:
        return undecided("structural", flaw)
    sensitive = network.sensitive_weights(free_width)
    if not sensitive.any():
        return _verified(("real", "float32"), "all first-layer weights on the sensitive codes are 0")
    neuron = int(np.argmax(sensitive.any(axis=1)))
    return undecided(
        "structural",
        f"first-layer neuron {neuron} reads the sensitive codes (largest weight {np.abs(sensitive[neuron]).max():.3g})",
    )


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
    if not np.isfinite(_offsets(relation.views)).all():
        return "an offset of the relation holds NaN or infinity"
    return _network_not_finite(network)


def distinct_matrices(views: Sequence[View]) -> list[np.ndarray]:
    """The matrices of the views, each object once. Views made together share one; equal copies merely cost time."""
    return list({id(view.matrix): view.matrix for view in views}.values())


def undecided(engine: str, reason: str) -> Verdict:
    return Verdict("undecided", "none", engine, (), reason)


def _verified(arithmetic: tuple[Arithmetic, ...], reason: str) -> Verdict:
    return Verdict("verified", "structural", "structural", arithmetic, reason)


def _network_not_finite(network: Network) -> str | None:
    layer = network.broken_layer
    return None if layer is None else f"layer {layer} of the network holds NaN or infinity"


def radii(views: Sequence[View]) -> np.ndarray:
    """How far each input of each view may be off [views, inputs]; 0 for views of points."""
    return np.stack([np.zeros(len(view.offset)) if view.radius is None else view.radius for view in views])


def _offsets(views: Sequence[View]) -> np.ndarray:
    return np.stack([view.offset for view in views])


def differing_inputs(views: Sequence[View]) -> np.ndarray:
    """Which network inputs are not the same function of u in all views (a boolean per input)."""
    offsets = _offsets(views)
    differs = (offsets != offsets[0]).any(axis=0) | (radii(views) > 0).any(axis=0)
    for matrix in distinct_matrices(views)[1:]:
        differs |= (matrix != views[0].matrix).any(axis=1)
    return differs


def _finite_in_float32(relation: Relation, inputs: np.ndarray) -> bool:
    """Whether these inputs stay finite when cast: 0·∞ would be NaN, not 0."""
    reach = np.maximum(np.abs(relation.free.low), np.abs(relation.free.high))
    offset = (np.abs(_offsets(relation.views)) + radii(relation.views))[:, inputs].max(axis=0, initial=0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        return all(
            bool((np.abs(matrix[inputs]) @ reach + offset < EXECUTIONS["float32"].largest / 2).all())
            for matrix in distinct_matrices(relation.views)
        )


def _first_difference(weights: np.ndarray, inputs: np.ndarray, views: Sequence[View]) -> tuple[int, int] | None:
    """The first neuron, and the first view it does not answer as it answers view 0; None if there is none."""
    steps, owners = _exact_differences(inputs, views)
    for neuron in np.flatnonzero(weights.any(axis=1)):
        changed = (steps @ whole_numbers(weights[neuron])[0]) != 0
        if changed.any():
            return int(neuron), int(owners[changed.astype(bool)].min())
    return None


def _exact_differences(inputs: np.ndarray, views: Sequence[View]) -> tuple[np.ndarray, np.ndarray]:
    """Columns of [A_i − A_0 | a_i − a_0] on the given inputs, as integers of one common scale, and the i of each."""
    offsets, owners = np.unique(_offsets(views)[:, inputs], axis=0, return_index=True)
    later, first, whose = [offsets], [np.broadcast_to(views[0].offset[inputs], offsets.shape)], [owners]
    origin = views[0].matrix[inputs].T
    owner_of = {id(view.matrix): i for i, view in reversed(list(enumerate(views)))}
    for matrix in distinct_matrices(views)[1:]:
        columns = matrix[inputs].T
        moved = (columns != origin).any(axis=1)
        later.append(columns[moved])
        first.append(origin[moved])
        whose.append(np.full(int(moved.sum()), owner_of[id(matrix)]))
    exact, _ = whole_numbers(np.stack([np.concatenate(later), np.concatenate(first)]))
    return exact[0] - exact[1], np.concatenate(whose)
