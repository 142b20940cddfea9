"""Which γ preserves the fairness of a whole network? The equations of `gamma` in every layer (Theorem 3.4).

The set L of fair neurons with unfair inputs is found by the weights where they prove a neuron fair, and by trying
people with every sensitive value where they do not; each parameter whose derivative depends on s must have a mean
derivative of 0 over s.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from bornfair.core.errors import InputError, NoGamma
from bornfair.models.network.activations import ACTIVATIONS, Activation
from bornfair.models.network.network import Network
from bornfair.parallel.task import require_jax
from bornfair.training.gamma import CENTRED, checked_codes

LARGEST_BLOCK = 2**21
"""Numbers held at once in one array while networks are examined (16 MB in float64)."""

EPSILON = float(np.finfo(np.float64).eps)


class FairNeuron(NamedTuple):
    """A fair neuron with an unfair input: a member of the set L of Theorem 3.4.

    Layers count as in the paper: 0 is the input, `network.layers[0]` computes layer 1.
    """

    layer: int
    neuron: int
    proven: bool  # fair for everybody, by its weights; otherwise only for the people who were tried


@dataclass(frozen=True)
class NetworkGamma:
    """γ for a network, and what it rests on."""

    gamma: float
    p: float  # P(ŝ = s | s)
    equations: int
    residual: float  # largest violated share of an equation, 0 when solved exactly
    neurons: tuple[FairNeuron, ...]
    note: str


def solve_network(
    network: Network,
    codes: np.ndarray,
    free: np.ndarray,
    *,
    tolerance: float = 1e-6,
    most_people: int = 256,
) -> NetworkGamma:
    """γ for a network on inputs [u, c(s)]: codes [|S|, columns], and sample people u as rows of `free`.

    Finds the set L by its weights where they prove a neuron fair and by trying the people with every sensitive value
    where they do not, differentiates every neuron up to the deepest layer of L by its own parameters, and checks the
    equations of those parameters whose derivative depends on s. The residual is the largest |Σ_ω ∂z/∂θ·P(ω)| over
    people, relative to the largest |∂z/∂θ| of the same parameter.

    At most `most_people` rows are used, spread evenly over `free`, in blocks; the least that must fit into memory is
    one person with all values of S in the widest layer.

    >>> from bornfair.models.network.network import Layer
    >>> net = Network((Layer(np.array([[0.5, 0.0]]), np.zeros(1)), Layer(np.ones((1, 1)), np.zeros(1))), "tanh")
    >>> solution = solve_network(net, np.array([[-1.0], [1.0]]), np.array([[0.3], [2.0]]))
    >>> solution.gamma, solution.neurons
    (0.0, (FairNeuron(layer=1, neuron=0, proven=True),))
    """
    if not 0 <= tolerance < 1:
        raise InputError(f"tolerance must be at least 0 and below 1, found {tolerance!r}; 1e-6 is usual.")
    table = checked_codes(codes).astype(np.float64)
    people = _checked_people(network, table, free, most_people)
    neurons, outputs_fair = _fair_with_unfair_inputs(network, table, people)
    # Without L there is nothing to solve: no layer is examined.
    demands = _demands(network, table, people, deepest=max((neuron.layer for neuron in neurons), default=0))
    equations = sum(demand.parameters for demand in demands) * len(people) * len(table)
    unfair_start = "the outputs depend on s: the network is not fair to begin with, and Theorem 3.4 promises nothing"
    p = 1 / len(table)
    if not equations:
        return NetworkGamma(0.0, p, 0, 0.0, neurons, "nothing depends on s" if outputs_fair else unfair_start)
    worst = max(demands, key=lambda demand: demand.residual)
    if worst.residual > tolerance:
        raise NoGamma(
            f"no γ solves this network: in layer {worst.layer}, neuron {worst.neuron}, the derivative by "
            f"{_named(worst, network, people.shape[1])} depends on s, and its mean over s is {worst.residual:.3g} "
            f"of its largest value (allowed: {tolerance:g}); start from sensitive weights that are exactly 0 "
            f"and use {CENTRED}."
        )
    proven = sum(neuron.proven for neuron in neurons)
    note = f"{proven} of {len(neurons)} neurons of L are proven fair, equations checked on {len(people)} people"
    if not outputs_fair:
        note += f"; {unfair_start}"
    return NetworkGamma(0.0, p, equations, worst.residual, neurons, note)


def fair_neurons(
    network: Network, codes: np.ndarray, free: np.ndarray, *, most_people: int = 256
) -> tuple[FairNeuron, ...]:
    """The set L of Theorem 3.4 by itself: what `solve_network` solves for, also where no γ solves."""
    table = checked_codes(codes).astype(np.float64)
    return _fair_with_unfair_inputs(network, table, _checked_people(network, table, free, most_people))[0]


class _Demand(NamedTuple):
    """What the parameters of some neurons of one layer ask of γ."""

    parameters: int  # whose derivative depends on s
    residual: float
    layer: int
    neuron: int  # where the residual is
    parameter: int  # index of the input, or the number of inputs for the bias


class _Traced(NamedTuple):
    """One layer for a block of people and every sensitive value."""

    inputs: np.ndarray  # [people, |S|, inputs]
    sums: np.ndarray  # W x + b, [people, |S|, outputs]
    bound: np.ndarray  # on the rounding error of sums
    values: np.ndarray  # what the neurons put out


def _fair_with_unfair_inputs(
    network: Network, codes: np.ndarray, people: np.ndarray
) -> tuple[tuple[FairNeuron, ...], bool]:
    """The set L, and whether all outputs are fair."""
    differs, alive = _differences(network, codes, people)
    varies = (codes != codes[0]).any(axis=0)
    fair = proven = np.concatenate([np.ones(people.shape[1], bool), ~varies])
    members: list[FairNeuron] = []
    for number, layer in enumerate(network.layers, start=1):
        below_fair, below_proven = fair, proven
        if number == 1:
            proven = _first_layer_proven(network.sensitive_weights(people.shape[1]), codes)
            # Unequal sums V·c(ω) are known exactly here, so no rounding can hide them: tanh and the linear output pass
            # them on, GELU does except at single points, ReLU does where the neuron is alive.
            unfair = ~proven & alive
        else:
            proven = ~(layer.weight[:, ~below_proven] != 0).any(axis=1)
            unfair = ~proven & differs[number - 1]
        fair = ~unfair
        if not below_fair.all():
            members += [FairNeuron(number, int(j), bool(proven[j])) for j in np.flatnonzero(fair)]
    return tuple(members), bool(fair.all())


def _first_layer_proven(sensitive_weights: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """For which rows V_j the sum V_j·c(ω) is the same for every ω, in rational arithmetic."""
    exact = [[Fraction(entry) for entry in row] for row in codes.tolist()]

    def same(row: np.ndarray) -> bool:
        weights = [(column, Fraction(weight)) for column, weight in enumerate(row.tolist()) if weight != 0]
        first = sum((weight * exact[0][column] for column, weight in weights), Fraction(0))
        return not weights or all(
            sum((weight * code[column] for column, weight in weights), Fraction(0)) == first for code in exact[1:]
        )

    return np.array([same(row) for row in sensitive_weights], dtype=bool)


def _differences(network: Network, codes: np.ndarray, people: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Per layer which neurons differ between twins of the sample; and which first-layer neurons pass anything on."""
    differs = [np.zeros(width, bool) for width in network.widths[1:]]
    alive = np.full(network.widths[1], not network.function.exact or len(network.layers) == 1)
    for block in _blocks(network, codes, people):
        for number, traced in enumerate(_trace(network, codes, block)):
            differs[number] |= (traced.values != traced.values[:, :1]).any(axis=(0, 1))
            if number == 0:
                alive |= (traced.sums > traced.bound).any(axis=(0, 1))
    return differs, alive


def _demands(network: Network, codes: np.ndarray, people: np.ndarray, *, deepest: int) -> list[_Demand]:
    """The demands on γ of every neuron in the layers up to the deepest one of L."""
    shapes = [layer.weight.shape for layer in network.layers[:deepest]]
    depends = [np.zeros((outputs, inputs + 1), bool) for outputs, inputs in shapes]
    total = [np.zeros((outputs, inputs + 1)) for outputs, inputs in shapes]
    largest = [np.zeros((outputs, inputs + 1)) for outputs, inputs in shapes]
    for block in _blocks(network, codes, people):
        for number, traced in enumerate(_trace(network, codes, block)):
            if number == deepest:
                break
            last = number + 1 == len(network.layers)
            examine = _derivatives(None if last else network.activation)
            at_once = max(1, LARGEST_BLOCK // (traced.inputs.size + traced.inputs.shape[0] * len(codes)))
            for start in range(0, shapes[number][0], at_once):
                part = slice(start, start + at_once)
                with _double_precision():
                    found = [np.asarray(a) for a in examine(traced.sums[:, :, part], traced.inputs)]
                depends[number][part] |= found[0]
                total[number][part] = np.maximum(total[number][part], found[1])
                largest[number][part] = np.maximum(largest[number][part], found[2])
    demands = []
    for number, counts in enumerate(depends):
        share = np.divide(total[number], largest[number], out=np.zeros(counts.shape), where=counts)
        neuron, parameter = np.unravel_index(np.argmax(share), share.shape)
        residual = float(share[neuron, parameter])
        demands.append(_Demand(int(counts.sum()), residual, number + 1, int(neuron), int(parameter)))
    return demands


@functools.cache
def _derivatives(activation: Activation | None) -> Any:
    """The neurons of a layer differentiated by their own parameters, compiled.

    Maps sums [people, |S|, neurons] and inputs [people, |S|, inputs] to three arrays [neurons, inputs + 1]: does ∂z/∂θ
    depend on s, the largest |mean over s|, and the largest |∂z/∂θ|. The last column is the bias.
    """
    import jax
    import jax.numpy as jnp

    act = ACTIVATIONS[activation].jax if activation is not None else lambda value: value

    # Parameters enter as changes around the present ones, so that differentiation starts from the sum already at hand:
    # computing it again could round twins differently and show a dependence on s that is not there.
    def neuron(change: jax.Array, summed: jax.Array, inputs: jax.Array) -> jax.Array:
        return act(summed + change[:-1] @ inputs + change[-1])

    def by_parameters(summed: jax.Array, inputs: jax.Array) -> jax.Array:
        return jax.grad(neuron)(jnp.zeros(inputs.shape[0] + 1, inputs.dtype), summed, inputs)

    everywhere = jax.vmap(jax.vmap(jax.vmap(by_parameters, in_axes=(0, None))))

    def examine(sums: jax.Array, inputs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        derivative = everywhere(sums, inputs)  # [people, |S|, neurons, inputs + 1]
        largest = jnp.abs(derivative).max(axis=1)
        # Twins with equal sums and inputs have equal derivatives up to the last bits of the activation's slope.
        depends = derivative.max(axis=1) - derivative.min(axis=1) > 64 * EPSILON * largest
        return depends.any(axis=0), jnp.abs(derivative.mean(axis=1)).max(axis=0), largest.max(axis=0)

    return jax.jit(examine)


def _trace(network: Network, codes: np.ndarray, people: np.ndarray) -> Iterator[_Traced]:
    """All layers, one after the other, for people with every sensitive value; in float64 with a running error bound.

    Twins whose numbers differ by no more than their bounds are shown with one number. What still differs, differs in
    the arithmetic of real numbers too: an unfair neuron is never a rounding error. A difference below the bound (about
    1e-15 of the terms summed) cannot be told from rounding; such a neuron counts as fair, but never as proven.
    """
    import jax.numpy as jnp

    shape = (len(people), len(codes))
    values = np.concatenate(
        [
            np.broadcast_to(people[:, None], (*shape, people.shape[1])),
            np.broadcast_to(codes[None], (*shape, codes.shape[1])),
        ],
        axis=2,
    )
    bound = np.zeros_like(values)  # inputs are exact: they are the numbers the network is about
    for number, layer in enumerate(network.layers, start=1):
        weight, bias = layer.weight.astype(np.float64), layer.bias.astype(np.float64)
        inputs = _one_number_per_person(values, bound)
        # n products summed in any order, and the bias: at most n + 1 roundings of half an epsilon each. Doubled, for
        # the rounding of the bound itself. The numbers passed on are the computed ones, for which the bound holds.
        roundings = (weight.shape[1] + 1) * EPSILON
        sums = values @ weight.T + bias
        sums_bound = (roundings * np.abs(values) + bound) @ np.abs(weight).T + roundings * np.abs(bias)
        values, bound = sums, sums_bound
        if number < len(network.layers):
            with _double_precision():
                values = np.asarray(network.function.jax(jnp.asarray(sums)))
            bound = network.function.steepest * sums_bound + 8 * EPSILON * np.abs(values)
        yield _Traced(
            inputs,
            _one_number_per_person(sums, sums_bound),
            sums_bound,
            _one_number_per_person(values, bound),
        )


def _one_number_per_person(numbers: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Give twins the number of the first of them where all of them agree up to rounding."""
    same = np.ptp(numbers, axis=1, keepdims=True) <= 2 * bound.max(axis=1, keepdims=True)
    return np.where(same, numbers[:, :1], numbers)


def _blocks(network: Network, codes: np.ndarray, people: np.ndarray) -> Iterator[np.ndarray]:
    at_once = max(1, LARGEST_BLOCK // (len(codes) * max(network.widths)))
    for start in range(0, len(people), at_once):
        yield people[start : start + at_once]


def _double_precision() -> AbstractContextManager[Any]:
    require_jax()
    import jax

    return jax.enable_x64(True)


def _named(demand: _Demand, network: Network, free_width: int) -> str:
    """The parameter in words."""
    if demand.parameter == network.widths[demand.layer - 1]:
        return "its bias"
    if demand.layer > 1:
        return f"its weight on neuron {demand.parameter} of layer {demand.layer - 1}"
    if demand.parameter < free_width:
        return f"its weight on free column {demand.parameter}"
    return f"its weight on sensitive column {demand.parameter - free_width}"


# --- checking what comes in ---


def _checked_people(network: Network, codes: np.ndarray, free: np.ndarray, most_people: int) -> np.ndarray:
    people = np.asarray(free)
    if people.ndim != 2 or people.dtype.kind not in "biuf" or not len(people):
        raise InputError(
            f"people must be numbers [rows, free columns] with one row or more, found shape {people.shape} of "
            f"{people.dtype}."
        )
    if people.shape[1] + codes.shape[1] != network.widths[0]:
        raise InputError(
            f"the network takes {network.widths[0]} inputs, but people have {people.shape[1]} free columns and codes "
            f"have {codes.shape[1]}; the two must add up."
        )
    if most_people < 1:
        raise InputError(f"most_people must be 1 or more, found {most_people}.")
    for number, layer in enumerate(network.layers, start=1):
        if not (np.isfinite(layer.weight).all() and np.isfinite(layer.bias).all()):
            raise InputError(f"layer {number} has a weight or bias that is not finite; train again or load it again.")
    if not np.isfinite(people).all():
        row, column = np.argwhere(~np.isfinite(people))[0]
        raise InputError(f"person {row}, column {column} is {people[row, column]}; numbers must be finite.")
    chosen = np.linspace(0, len(people) - 1, min(len(people), most_people)).round().astype(int)
    return people[chosen].astype(np.float64)
