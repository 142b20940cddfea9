"""Two copies of a network that meet twins, as columns and rows of a mixed-integer program.

Both copies share the free vector; a ReLU a = max(z, 0) with z in [l, h] is a ≥ z, a ≥ 0, a ≤ h·δ, a ≤ z − l·(1 − δ),
δ in {0, 1}. Coefficients are the weights times powers of two, without any rounding, so that what is proven about the
program is proven about the network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bornfair.core.clock import Clock
from bornfair.models.network.bounds.intervals import box_bounds
from bornfair.models.network.network import Layer, Network
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT, float_above, float_below
from bornfair.people.space.subpopulation import Input, ends_of
from bornfair.verification.milp.program import Draft, NoProgram, Relaxation, exponent_of, scaled
from bornfair.verification.twin_question import NeuronBounds, Person, Sensitive, SumBounds, TwinQuestion

PAIRS = 6  # ordered pairs of S that get a program each; above, 0/1 columns choose the values
MOST_VALUES = 2_000  # of S that one program can choose from
TIGHTENED = 80  # neurons up to which linear programs tighten the bounds of each

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""The sensitive values (positions in `Encoding.listed`) the first and the second copy may take."""


# --- bounds of every sum ---


class CopySums(NamedTuple):
    """Bounds of the sums z of a layer in both copies [2, neurons], and of their difference z_a − z_b [neurons]."""

    low: np.ndarray
    high: np.ndarray
    gap_low: np.ndarray
    gap_high: np.ndarray


Reach = list[CopySums]  # of all layers


def sums_of(question: TwinQuestion) -> SumBounds:
    """Bounds [views, neurons] of the sums of each layer over everybody."""
    (found,) = NeuronBounds(question.model, question.views).of([question.everybody])
    if not all(np.isfinite(ends).all() for ends in (*found.low, *found.high)):
        raise NoProgram("the sums of the network cannot be bounded by finite numbers")
    return found


def reach_of(question: TwinQuestion, sums: SumBounds, pair: Pair) -> Reach:
    """Bounds for two copies whose sensitive values are among those of the pair."""
    network, found = question.model.network, Reach()
    for i, (view_low, view_high) in enumerate(zip(sums.low, sums.high, strict=True)):
        low = np.stack([view_low[list(values)].min(axis=0) for values in pair])
        high = np.stack([view_high[list(values)].max(axis=0) for values in pair])
        gap_low, gap_high = later_gap(network, i, found[-1]) if i else _first_gap(question, pair)
        gap_low = np.maximum(gap_low, np.nextafter(low[0] - high[1], -np.inf))
        gap_high = np.minimum(gap_high, np.nextafter(high[0] - low[1], np.inf))
        found.append(CopySums(low, high, gap_low, gap_high))
    return found


def _first_gap(question: TwinQuestion, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """V(c_i − c_j) over the values of the pair, and what the copies' own numbers add."""
    encoding = question.model.encoding
    wide, every = encoding.sensitive.listed_codes, question.model.network.layers[0].weight.astype(np.float64)
    weight = every[:, encoding.free_width :]
    if len(pair[0]) == len(pair[1]) == 1:
        first, second = wide[pair[0][0]], wide[pair[1][0]]
        least = most = weight @ (first - second)
        size = np.abs(weight) @ (np.abs(first) + np.abs(second))
    else:
        given = [wide[list(values)] @ weight.T for values in pair]
        least, most = given[0].min(axis=0) - given[1].max(axis=0), given[0].max(axis=0) - given[1].min(axis=0)
        size = 2 * np.abs(weight) @ np.abs(wide).max(axis=0)
    apart = np.zeros(len(weight))
    for name, distance in question.own.items():
        ((one,), place) = question.inputs[name], encoding.free_columns()[name].start
        apart = apart + np.abs(every[:, place]) * float_above(one.shown(distance) - one.shown(0))
    slack = 4 * (every.shape[1] + 8) * OWN_UNIT * (size + apart)  # products of codes and weights do not underflow
    return least - apart - slack, most + apart + slack


def relu_gap(
    low: np.ndarray, high: np.ndarray, gap_low: np.ndarray, gap_high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of max(z_a, 0) − max(z_b, 0): min(d, max(z_a, 0)) where d = z_a − z_b ≥ 0, max(d, −max(z_b, 0)) else."""
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    most = np.where(gap_high >= 0, np.minimum(gap_high, high[0]), np.maximum(gap_high, -low[1]))
    least = np.where(gap_low <= 0, np.maximum(gap_low, -high[1]), np.minimum(gap_low, low[0]))
    return least, most


def later_gap(network: Network, layer: int, before: CopySums) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the difference of a layer's sums, from the bounds of the layer before; rounded outward."""
    least, most = relu_gap(*before)
    weight = network.layers[layer].weight
    below, above = box_bounds(Network((Layer(weight, np.zeros(len(weight))),)), least[None], most[None])
    apart = np.abs(weight.astype(np.float64)) @ (np.abs(least) + np.abs(most)) > 0  # else the copies are alike here
    return np.where(apart, below[0], 0.0), np.where(apart, above[0], 0.0)


# --- the program ---


class Placed(NamedTuple):
    """Where a program has a number that describes a person: base + column·2^shift."""

    column: int
    base: float = 0.0
    shift: int = 0

    def number(self, solution: np.ndarray) -> float:
        return self.base + math.ldexp(float(solution[self.column]), self.shift)


@dataclass(frozen=True, eq=False)
class Copies:
    """Two copies of a network that meet twins, as columns and rows of a draft."""

    question: TwinQuestion
    pair: Pair
    draft: Draft
    inputs: tuple[list[Placed], list[Placed]]
    """Per copy the free inputs."""
    selectors: tuple[list[int], list[int]]
    """Per copy one column per sensitive value it may take; none where it may take one only."""
    sums: list[np.ndarray]
    """Per layer the columns of z, [2, neurons]."""
    phases: list[tuple[int, int, int]]
    """(δ, z, a) of each ReLU that may be on or off."""
    exponents: list[np.ndarray]
    """Per layer: z is its column times 2^exponent."""

    @property
    def exponent(self) -> int:
        """That of the outputs, which is the same for all."""
        return int(self.exponents[-1][0])

    def twins(self, solution: np.ndarray) -> tuple[Person, list[Sensitive]]:
        """The nearest person who exists, and two sensitive values."""
        numbers = [[placed.number(solution) for placed in copy] for copy in self.inputs]
        chosen = [
            values[int(np.argmax(solution[columns]))] if columns else values[0]
            for values, columns in zip(self.pair, self.selectors, strict=True)
        ]
        people, values = self.question.twins(numbers, chosen, self.question.everybody)
        return people[0], values


Terms = list[tuple[int, int, int]]
"""(network input, column, exponent): the input is a sum of columns times powers of two."""


def write_copies(question: TwinQuestion, pair: Pair, reach: Reach, layers: int | None = None) -> Copies:
    """The first `layers` layers of the network, or all of them, for twins with sensitive values of the pair."""
    draft, network = Draft(), question.model.network
    placed, inputs = _write_people(draft, question)
    phases: list[tuple[int, int, int]] = []
    selectors, sums, exponents = [], [], []
    count = len(network.layers) if layers is None else layers
    for copy, values in enumerate(pair):
        chosen, codes = _write_codes(draft, question, values)
        selectors.append(chosen)
        inputs[copy] += codes
    for i in range(count):
        size = np.maximum(np.abs(reach[i].low), np.abs(reach[i].high)).max(axis=0)
        exponent = np.array([exponent_of(float(s)) for s in size])
        if i == len(network.layers) - 1:
            exponent[:] = exponent.max()  # outputs are compared with each other
        columns = np.array([_write_columns(draft, *ends, exponent) for ends in zip(*reach[i][:2], strict=True)])
        for copy in (0, 1):
            _write_sums(draft, network, i, columns[copy], exponent, inputs[copy])
        if i + 1 < count:
            inputs = [_write_relus(draft, columns[copy], exponent, phases) for copy in (0, 1)]
            _write_gaps(draft, inputs, *relu_gap(*reach[i]), exponent)
        sums.append(columns)
        exponents.append(exponent)
    return Copies(question, pair, draft, (placed[0], placed[1]), (selectors[0], selectors[1]), sums, phases, exponents)


def _write_people(draft: Draft, question: TwinQuestion) -> tuple[list[list[Placed]], list[Terms]]:
    """The free inputs of both copies: the same columns, but for numbers of which each has its own."""
    placed: list[list[Placed]] = [[], []]
    terms: list[Terms] = [[], []]
    columns = question.model.encoding.free_columns()
    for feature in question.model.domain.free_features:
        name, start = feature.name, columns[feature.name].start
        ends = ends_of(feature, question.everybody.limits[name])
        for copy in (0, 1):
            if copy == 0 or name in question.own:
                pairs = zip(question.inputs[name], ends, strict=True)
                written = [_write_input(draft, one, *limits) for one, limits in pairs]
                if feature.kind == "categorical":
                    # One of them is 1. Columns count from the lowest value: 1, not 0, of a category without others.
                    missing = 1.0 - sum(low for low, _ in ends)
                    draft.row([at.column for at, _ in written], [1.0] * len(written), missing, missing)
            placed[copy] += [at for at, _ in written]
            terms[copy] += [(start + j, *entry) for j, (_, entries) in enumerate(written) for entry in entries]
    return placed, terms


def _write_input(draft: Draft, one: Input, low: Any, high: Any) -> tuple[Placed, list[tuple[int, int]]]:
    """A number, and the (column, exponent) that make up what the network is shown of it. Whole numbers count from the
    lowest value, which a fixed column adds; reals are columns themselves.
    """
    least, most = one.shown(low), one.shown(high)
    if not one.whole:
        size = exponent_of(max(abs(float(least)), abs(float(most))))
        ends = float_below(least), math.nextafter(float(most), math.inf)
        at = draft.column(*(scaled(end, -size) for end in ends))
        return Placed(at, one.centre, one.exponent + size), [(at, size)]
    count = high - low
    at = draft.column(0, math.nextafter(count, math.inf) if count > 2**53 else count, integer=True)
    entries = [(at, -one.exponent)]
    if least != 0:
        start = float_below(least), float_above(least)
        size = exponent_of(max(map(abs, start)))
        entries.append((draft.column(*(scaled(end, -size) for end in start)), size))
    return Placed(at, float(low)), entries


def _write_codes(draft: Draft, question: TwinQuestion, values: tuple[int, ...]) -> tuple[list[int], Terms]:
    """The sensitive codes of one copy: a 0/1 column per value where there is a choice."""
    encoding, terms = question.model.encoding, Terms()
    codes = encoding.sensitive.listed_codes[list(values)]
    chosen = draft.choice(len(values))
    for j in range(codes.shape[1]):
        at = draft.column(codes[:, j].min(), codes[:, j].max())
        if chosen:
            draft.row([at, *chosen], [1.0, *(-codes[:, j])], 0.0, 0.0)
        terms.append((encoding.free_width + j, at, 0))
    return chosen, terms


def _write_columns(draft: Draft, low: np.ndarray, high: np.ndarray, exponent: np.ndarray) -> list[int]:
    ends = zip(low.tolist(), high.tolist(), exponent.tolist(), strict=True)
    return [draft.column(scaled(least, -own), scaled(most, -own)) for least, most, own in ends]


def _write_sums(
    draft: Draft, network: Network, layer: int, columns: np.ndarray, exponent: np.ndarray, inputs: Terms
) -> None:
    """z = W x + b, each row divided by the size of its z."""
    affine = network.layers[layer]
    for neuron, (row, bias) in enumerate(zip(affine.weight.tolist(), affine.bias.tolist(), strict=True)):
        own = int(exponent[neuron])
        entries = [-scaled(row[place], shift - own) for place, _, shift in inputs]
        constant = scaled(bias, -own)
        draft.row([int(columns[neuron]), *(at for _, at, _ in inputs)], [1.0, *entries], constant, constant)


def _write_relus(draft: Draft, columns: np.ndarray, exponent: np.ndarray, phases: list[tuple[int, int, int]]) -> Terms:
    """What the layer passes on. A neuron that is always on passes z itself, one that is always off nothing."""
    passed: Terms = []
    for neuron, (z, shift) in enumerate(zip(columns.tolist(), exponent.tolist(), strict=True)):
        low, high = draft.lower[z], draft.upper[z]
        if low >= 0:
            passed.append((neuron, z, shift))
        elif high > 0:
            on, a = draft.column(0, 1, integer=True), draft.column(0, high)
            draft.row([a, z], [1.0, -1.0], 0.0, np.inf)
            draft.row([a, on], [1.0, -high], -np.inf, 0.0)
            draft.row([a, z, on], [1.0, -1.0, -low], -np.inf, -low)
            phases.append((on, z, a))
            passed.append((neuron, a, shift))
    return passed


def _write_gaps(draft: Draft, passed: Sequence[Terms], low: np.ndarray, high: np.ndarray, exponent: np.ndarray) -> None:
    """How far apart the copies of a neuron can be: true without these rows, but not when δ is relaxed."""
    first, second = ({neuron: column for neuron, column, _ in terms} for terms in passed)
    for neuron in sorted(set(first) | set(second)):
        own = int(exponent[neuron])
        pairs = [(at[neuron], sign) for at, sign in ((first, 1.0), (second, -1.0)) if neuron in at]
        ends = scaled(float(low[neuron]), -own), scaled(float(high[neuron]), -own)
        draft.row([column for column, _ in pairs], [sign for _, sign in pairs], *ends)


def write_margin(draft: Draft, outputs: np.ndarray) -> int:
    """A column m such that the first copy wins its class, and the second another class, by m at least."""
    ends = [(draft.lower[z], draft.upper[z]) for z in outputs.ravel()]
    most = 4 * max(max(abs(a), abs(b)) for a, b in ends) + 1.0  # above any difference of two outputs, twice
    m = draft.column(-most, most)
    if outputs.shape[1] == 1:
        draft.row([int(outputs[0, 0]), m], [1.0, -1.0], 0.0, np.inf)
        draft.row([int(outputs[1, 0]), m], [1.0, 1.0], -np.inf, 0.0)
        return m
    classes = range(outputs.shape[1])
    wins = [[draft.column(0, 1, integer=True) for _ in classes] for _ in (0, 1)]
    for copy in (0, 1):
        draft.row(wins[copy], [1.0] * len(wins[copy]), 1.0, 1.0)
        for k in classes:
            for j in classes:
                if j != k:  # f_k − f_j ≥ m, unless k does not win: then 2·most is enough to allow anything
                    row = [int(outputs[copy, k]), int(outputs[copy, j]), m, wins[copy][k]]
                    draft.row(row, [1.0, -1.0, -1.0, -2 * most], -2 * most, np.inf)
    for k in classes:
        draft.row([wins[0][k], wins[1][k]], [1.0, 1.0], -np.inf, 1.0)
    return m


# --- all programs ---


def pairs_of_values(question: TwinQuestion) -> list[Pair]:
    """All ordered pairs of the sensitive values of twins: one by one if they are few."""
    values = range(len(question.views))
    if len(values) * (len(values) - 1) > PAIRS:
        return [(tuple(values), tuple(values))]
    return [((i,), (j,)) for i, j in question.pairs()]


def reaches(question: TwinQuestion, clock: Clock) -> list[tuple[Pair, Reach]]:
    """Pairs that together cover all ordered pairs of sensitive values, with tight bounds of every sum."""
    pairs, sums, network = pairs_of_values(question), sums_of(question), question.model.network
    found = []
    for pair in pairs:
        reach = reach_of(question, sums, pair)
        if sum(network.widths[1:]) <= TIGHTENED:
            reach = tightened(question, pair, reach, min(0.15 * clock.timeout / len(pairs), clock.left))
        found.append((pair, reach))
    return found


def tightened(question: TwinQuestion, pair: Pair, reach: Reach, seconds: float) -> Reach:
    """The bounds of each sum made tighter by linear programs over all layers before it, as far as time allows."""
    clock, network = Clock(seconds), question.model.network
    for layer in range(1, len(network.layers)):
        gap_low, gap_high = later_gap(network, layer, reach[layer - 1])
        low, high, known_low, known_high = (ends.copy() for ends in reach[layer])
        gap_low, gap_high = np.maximum(gap_low, known_low), np.minimum(gap_high, known_high)
        copies = write_copies(question, pair, reach, layer + 1)
        relaxation = Relaxation(copies.draft.program())

        def least(entries: list[tuple[int, float]], exponent: int, relaxation: Relaxation = relaxation) -> float:
            if clock.left <= 0:
                return -math.inf
            program = relaxation.program
            bound, _ = relaxation.minimum(program.cost(entries), program.lower, program.upper, clock.left)
            value = math.ldexp(bound, exponent) if math.isfinite(bound) else -math.inf
            return value if abs(value) > OWN_FLOOR else -math.inf  # so small that scaling may have rounded it

        for neuron, exponent in enumerate(copies.exponents[layer].tolist()):
            first, second = (int(column) for column in copies.sums[layer][:, neuron])
            for copy, z in enumerate((first, second)):
                low[copy, neuron] = max(low[copy, neuron], least([(z, 1.0)], exponent))
                high[copy, neuron] = min(high[copy, neuron], -least([(z, -1.0)], exponent))
            gap_low[neuron] = max(gap_low[neuron], least([(first, 1.0), (second, -1.0)], exponent))
            gap_high[neuron] = min(gap_high[neuron], -least([(first, -1.0), (second, 1.0)], exponent))
        # The bounds of later layers stay as they are: they remain true.
        reach = [*reach[:layer], CopySums(low, high, gap_low, gap_high), *reach[layer + 1 :]]
        if clock.left <= 0:
            break
    return reach
