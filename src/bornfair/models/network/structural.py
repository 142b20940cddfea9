"""Cheap proofs that a network is fair: because what differs between twins cannot reach the decision, or by intervals.

A layer whose neurons are all the same function of u in every view makes everything behind it so (Lemma 3.2 of the
paper, theory: composition). So it is followed, layer by layer, which neurons may differ between twins. In the first
layer, views i and j of u give neuron w the sums w(A_i u + a_i) and w(A_j u + a_j): the same if w(A_i − A_j) = 0 and
w(a_i − a_j) = 0. Zero means exactly zero, in integers.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.bounds.backward import (
    differing_inputs,
    distinct_matrices,
    input_sizes,
    network_not_finite,
    not_finite,
    offsets,
    radii,
    require_fit,
)
from bornfair.models.network.bounds.exact import whole_numbers
from bornfair.models.network.bounds.intervals import box_bounds, prove_by_intervals
from bornfair.models.network.network import Network
from bornfair.models.rounding import EXECUTIONS
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.columns import GapColumns, NumberColumn
from bornfair.people.encoding import Encoding
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.twins.relation import Relation, View, twin_relation

ENGINE = "structural"
TWINS, CODES = "what differs between twins", "the sensitive codes"


def confirm_encoded(network: Network, encoding: Encoding) -> Verdict:
    """Whether twins of this domain always get the same decision. Codes that cannot reach it need no list of the twins,
    where the network is shown only what declared twins have in common.
    """
    began = time.perf_counter()
    verdict = prove_zero_weights(network, encoding.free_width, encoded_sizes(encoding))
    group = encoding.domain.twin_group
    listed = encoding.domain.sensitive_space.size * (1 if encoding.merges_twins else group.size)
    if encoding.merges_twins and verdict and ("float32" in verdict.arithmetic or listed > ENUMERATION_LIMIT):
        if named := " and ".join(group.moved):
            reason = f"{verdict.reason}, and {named} of declared twins look the same to the network"
            verdict = dataclasses.replace(verdict, reason=reason)
    elif listed <= ENUMERATION_LIMIT:
        try:
            return confirm(network, twin_relation(encoding))
        except InputError as error:  # the views cannot be written down exactly
            verdict = undecided(ENGINE, str(error).rstrip("."))
    else:
        what = "sensitive values" if encoding.merges_twins else "versions of a person"
        verdict = undecided(ENGINE, f"{verdict.reason} and the {listed:,} {what} are too many to list")
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)


def confirm(network: Network, relation: Relation) -> Verdict:
    """Try the cheap proofs: structure first, then interval bounds. Never falsifies; timed in `seconds`."""
    began = time.perf_counter()
    verdict = prove_structurally(network, relation)
    if "float32" not in verdict.arithmetic:  # nothing yet, or only about real numbers
        bounded = prove_by_intervals(network, relation)
        if len(bounded.arithmetic) > len(verdict.arithmetic):
            verdict = bounded
        elif not verdict:
            reason = f"{verdict.reason}; {bounded.reason}"
            verdict = dataclasses.replace(verdict, engine="structural, intervals", reason=reason)
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)


def encoded_sizes(encoding: Encoding) -> np.ndarray:
    """How large each input may become for people of the domain, whatever was rounded."""
    parts = [np.zeros(0)]
    for column in encoding.columns.values():
        if isinstance(column, GapColumns):
            parts.append(np.array([np.abs([*column.number.ends, column.shown]).max(), 1.0]))
        elif isinstance(column, NumberColumn):
            parts.append(np.abs(column.ends).max(keepdims=True))
        else:
            parts.append(np.abs(column.table).max(axis=0))
    return np.concatenate(parts) * (1 + 2.0**-20)


# --- structure ---


def prove_structurally(network: Network, relation: Relation) -> Verdict:
    """Verified when some layer is the same for all views of u, for every u whatsoever, also outside the free space.

    In float32 this holds when every weight w on a number x that differs between views is exactly 0, up to that layer.
    The product w·x is ±0 for finite x, and adding ±0 (fused or not, at any place in the sum) leaves every partial sum
    the number it was. At most the sign of a zero changes, which no later sum, product, activation or comparison turns
    into another number. So a program that adds in the same order for both twins gives both the same outputs. That x is
    finite, an input or what a neuron gives, is shown for everybody of the free space: 0·∞ is not 0.
    Weights that are not 0 but cancel do so in real arithmetic only: in float32 (z + w·x) − w·x need not be z.
    """
    require_fit(network, relation)
    flaw = not_finite(network, relation)
    if flaw is not None:
        return undecided(ENGINE, flaw)
    differing = differing_inputs(relation.views)
    weights = network.layers[0].weight[:, differing]
    reading = _read(weights)
    layer = _first_alike(network, reading)
    if layer is not None:
        finite = _finite_in_float32(network, layer, input_sizes(relation), differing)
        return _verified(network, layer, TWINS, finite=finite)
    bands = radii(relation.views)[:, differing].any(axis=0)
    banded = _read(weights[:, bands])
    told = _told_apart(np.where(banded[:, None], 0, weights), np.flatnonzero(differing), relation.views)
    telling = banded.copy()
    telling[list(told)] = True
    layer = _first_alike(network, telling, cancelling=True)
    if layer is not None:
        return _verified(network, layer, TWINS, cancelling=True)
    neuron = int(np.argmax(telling & _heard(network)))
    if banded[neuron]:
        return undecided(ENGINE, f"first-layer neuron {neuron} reads what takes every value of a band")
    return undecided(ENGINE, f"first-layer neuron {neuron} responds differently to views 0 and {told[neuron]}")


def prove_zero_weights(network: Network, free_width: int, sizes: np.ndarray | None = None) -> Verdict:
    """Verified when the sensitive codes, whatever they are, cannot reach the decision. Needs no list of their values.

    The argument is that of `prove_structurally`; codes are finite float32 numbers (`bornfair.people.sensitive`).
    sizes: how large each input may become; where they are unknown and neurons behind the first layer are concerned,
    nothing is said about float32.
    """
    if not 0 <= free_width <= network.widths[0]:
        raise InputError(f"free_width is {free_width}, but the network has {network.widths[0]} inputs in all.")
    flaw = network_not_finite(network)
    if flaw is not None:
        return undecided(ENGINE, flaw)
    sensitive = network.sensitive_weights(free_width)
    reading = _read(sensitive)
    layer = _first_alike(network, reading)
    if layer is not None:
        known = np.full(network.widths[0], np.inf) if sizes is None else sizes
        finite = layer == 0 or _finite_in_float32(network, layer, known, np.arange(network.widths[0]) >= free_width)
        return _verified(network, layer, CODES, finite=finite)
    layer = _first_alike(network, reading, cancelling=True)
    if layer is not None:
        return _verified(network, layer, CODES, cancelling=True)
    neuron = int(np.argmax(reading & _heard(network)))
    return undecided(
        ENGINE,
        f"first-layer neuron {neuron} reads the sensitive codes (largest weight {np.abs(sensitive[neuron]).max():.3g})",
    )


def _verified(network: Network, layer: int, what: str, *, cancelling: bool = False, finite: bool = True) -> Verdict:
    """In real arithmetic; where weights are 0 and all is `finite`, in float32 too."""
    if layer:  # counted from 1, as people do
        reason = f"from layer {layer + 1} of {len(network.layers)} on no neuron depends on {what}"
        reason += ": weights on it cancel exactly" if cancelling else ""
    else:
        reason = f"the first-layer weights on {what} cancel exactly"
        reason = reason if cancelling else f"all first-layer weights on {what} are 0"
    if finite and not cancelling:
        return Verdict("verified", "structural", ENGINE, ("real", "float32"), reason)
    if not finite:
        reason += f"; in float32 {'a sum before' if layer else 'it'} may overflow"
    return Verdict("verified", "structural", ENGINE, ("real",), reason)


# --- from layer to layer ---


def _read(weights: np.ndarray) -> np.ndarray:
    """Which rows hold a weight other than 0."""
    return np.asarray((weights != 0).any(axis=1))


def _first_alike(network: Network, differs: np.ndarray, *, cancelling: bool = False) -> int | None:
    """The first layer none of whose neurons may differ between twins, given which of the first layer do; None if an
    output may.

    A neuron differs if it reads one that does with a weight other than 0. Not so if these weights cancel: those on
    neurons that are one function (`_alike`) add up to 0, which is asked only if `cancelling`. Nor does a hidden relu
    that is off for everybody: its weights and bias are not above 0, and what it reads is never below. A neuron that no
    path of weights other than 0 connects with the outputs may differ as it likes.
    """
    for depth, layer in enumerate(network.layers):
        if depth:
            before = network.layers[depth - 1]
            columns = np.flatnonzero(differs)
            groups = _alike(before.weight, before.bias, columns, network.function.exact) if cancelling else []
            alone = np.setdiff1d(columns, [i for members, _ in groups for i in members])
            differs = _read(layer.weight[:, alone])
            for members, factors in groups:
                differs = differs | (whole_numbers(layer.weight[:, members])[0] @ factors != 0).astype(bool)
            if network.function.exact and depth < len(network.layers) - 1:
                differs = differs & ~((layer.weight <= 0).all(axis=1) & (layer.bias <= 0))
        if not differs.any():
            return depth
    return None


def _alike(
    weight: np.ndarray, bias: np.ndarray, neurons: np.ndarray, scaled: bool
) -> list[tuple[list[int], np.ndarray]]:
    """Groups of two or more neurons that are one function of what they read, up to a factor: the members, and their
    factors as whole numbers. Equal rows and biases are equal functions; of a relu (`scaled`) also those that are a
    positive multiple, since max(c·z, 0) = c·max(z, 0).
    """
    rows = np.concatenate([weight[neurons], bias[neurons, None]], axis=1) + 0.0  # −0 is 0
    likely: dict[bytes, list[int]] = {}  # multiples have the same signs
    for place, row in enumerate(np.sign(rows) if scaled else rows):
        likely.setdefault(row.tobytes(), []).append(place)
    several = [places for places in likely.values() if len(places) > 1]
    if not scaled:
        return [(neurons[places].tolist(), np.ones(len(places), dtype=object)) for places in several]
    groups: dict[tuple[int, ...], dict[int, Fraction]] = {}
    for place in (place for places in several for place in places):
        whole, unit = whole_numbers(rows[place])
        common = math.gcd(*whole)  # not 0: a neuron that reads nothing does not differ
        groups.setdefault(tuple(whole // common), {})[int(neurons[place])] = Fraction(common, unit)
    found = []
    for factors in (group for group in groups.values() if len(group) > 1):
        shared = math.lcm(*(factor.denominator for factor in factors.values()))
        found.append((list(factors), np.array([int(factor * shared) for factor in factors.values()], dtype=object)))
    return found


def _heard(network: Network) -> np.ndarray:
    """Which neurons of the first layer a path of weights other than 0 connects with an output."""
    heard = np.ones(network.outputs, bool)
    for layer in reversed(network.layers[1:]):
        heard = _read(layer.weight[heard].T)
    return heard


def _finite_in_float32(network: Network, layer: int, sizes: np.ndarray, differing: np.ndarray) -> bool:
    """Whether what is multiplied by 0 is finite: the inputs that differ, and all sums before this layer."""
    if layer == 0:
        return bool((sizes[differing] < EXECUTIONS["float32"].largest / 2).all())
    before = Network(network.layers[:layer], network.activation)
    low, high = box_bounds(before, -sizes[None], sizes[None], "float32")
    return bool(np.isfinite(low).all() and np.isfinite(high).all())


# --- the first layer ---


def _told_apart(weights: np.ndarray, inputs: np.ndarray, views: Sequence[View]) -> dict[int, int]:
    """The neurons that do not answer all views as they answer view 0, and one such view; of the first of these
    neurons, the first such view.
    """
    steps, rough, owners = _differences(inputs, views)
    found: dict[int, int] = {}
    for neuron in np.flatnonzero(_read(weights)):
        wide = weights[neuron].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            changed = np.abs(rough @ wide) > 2.0**-20 * (np.abs(rough) @ np.abs(wide))  # no rounding is so large
        if not changed.any():
            changed = ((steps @ whole_numbers(weights[neuron])[0]) != 0).astype(bool)
        if changed.any():
            found[int(neuron)] = int(owners[changed].min())
    return found


def _differences(inputs: np.ndarray, views: Sequence[View]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of [A_i − A_0 | a_i − a_0] on the given inputs, as integers of one common scale and in float64, and the i
    of each.
    """
    shifts, owners = np.unique(offsets(views)[:, inputs], axis=0, return_index=True)
    later, first, whose = [shifts], [np.broadcast_to(views[0].offset[inputs], shifts.shape)], [owners]
    origin = views[0].matrix[inputs].T
    owner_of = {id(view.matrix): i for i, view in reversed(list(enumerate(views)))}
    for matrix in distinct_matrices(views)[1:]:
        columns = matrix[inputs].T
        moved = (columns != origin).any(axis=1)
        later.append(columns[moved])
        first.append(origin[moved])
        whose.append(np.full(int(moved.sum()), owner_of[id(matrix)]))
    both = np.stack([np.concatenate(later), np.concatenate(first)])
    exact, _ = whole_numbers(both)
    with np.errstate(over="ignore"):
        return exact[0] - exact[1], both[0] - both[1], np.concatenate(whose)
