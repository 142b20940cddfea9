"""Which mixed-integer program says "two twins meet the same network"?

Both copies share the free vector; a ReLU a = max(z, 0) with z in [l, h] is a ≥ z, a ≥ 0, a ≤ h·δ, a ≤ z − l·(1 − δ),
δ in {0, 1}. Coefficients are the weights times powers of two, without any rounding, so that what is proven about the
program is proven about the network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bornfair.models.network import Network
from bornfair.models.rounding import OWN_FLOOR, OWN_UNIT
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value
from bornfair.twins.relation import Relation, sensitive_values
from bornfair.verification.intervals import layer_bounds

SIZE_EXPONENT = 4  # sums are scaled to about ±2^4: solvers compare with absolute tolerances

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""The sensitive values (positions in `Encoding.listed`) the first and the second copy may take."""


class NoProgram(Exception):
    """The numbers of this network do not fit a program in float64; the message says why."""


# --- bounds of every sum ---


@dataclass(frozen=True, eq=False)
class Reach:
    """Bounds of the sums z of each layer in both copies [2, neurons], and of their difference z_a − z_b [neurons]."""

    low: tuple[np.ndarray, ...]
    high: tuple[np.ndarray, ...]
    gap_low: tuple[np.ndarray, ...]
    gap_high: tuple[np.ndarray, ...]

    def replaced(
        self, layer: int, low: np.ndarray, high: np.ndarray, gap_low: np.ndarray, gap_high: np.ndarray
    ) -> Reach:
        """With tighter bounds of one layer; those of later layers stay as they are (they remain true)."""
        new = (low, high, gap_low, gap_high)
        old = (self.low, self.high, self.gap_low, self.gap_high)
        return Reach(*((*part[:layer], now, *part[layer + 1 :]) for part, now in zip(old, new, strict=True)))


def sums_of_views(network: Network, relation: Relation) -> list[tuple[np.ndarray, np.ndarray]]:
    """Interval bounds [views, neurons] of the sums of each layer over the whole free space."""
    found = layer_bounds(network, relation)
    if not all(np.isfinite(low).all() and np.isfinite(high).all() for low, high in found):
        raise NoProgram("the sums of the network cannot be bounded by finite numbers")
    return found


def reach_of(network: Network, encoding: Encoding, sums: Sequence[tuple[np.ndarray, np.ndarray]], pair: Pair) -> Reach:
    """Bounds for two copies whose sensitive values are among those of the pair."""
    lows: list[np.ndarray] = []
    highs: list[np.ndarray] = []
    gap_lows, gap_highs = [], []
    gap_low, gap_high = _first_gap(network, encoding, pair)
    for i, (view_low, view_high) in enumerate(sums):
        low = np.stack([view_low[list(values)].min(axis=0) for values in pair])
        high = np.stack([view_high[list(values)].max(axis=0) for values in pair])
        if i:
            gap_low, gap_high = later_gap(network, i, lows[-1], highs[-1], gap_low, gap_high)
        gap_low = np.maximum(gap_low, np.nextafter(low[0] - high[1], -np.inf))
        gap_high = np.minimum(gap_high, np.nextafter(high[0] - low[1], np.inf))
        lows.append(low)
        highs.append(high)
        gap_lows.append(gap_low)
        gap_highs.append(gap_high)
    return Reach(tuple(lows), tuple(highs), tuple(gap_lows), tuple(gap_highs))


def _first_gap(network: Network, encoding: Encoding, pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """V(c_i − c_j) over the values of the pair."""
    wide = encoding.listed_codes
    weight = network.sensitive_weights(encoding.free_width).astype(np.float64)
    if len(pair[0]) == len(pair[1]) == 1:
        first, second = wide[pair[0][0]], wide[pair[1][0]]
        least = most = weight @ (first - second)
        size = np.abs(weight) @ (np.abs(first) + np.abs(second))
    else:
        given = [wide[list(values)] @ weight.T for values in pair]
        least, most = given[0].min(axis=0) - given[1].max(axis=0), given[0].max(axis=0) - given[1].min(axis=0)
        size = 2 * np.abs(weight) @ np.abs(wide).max(axis=0)
    apart = np.zeros(len(weight))
    for span in encoding.spans:  # of these the copies have any two values
        apart = apart + np.abs(weight[:, span.column]) * (span.high - span.low)
    slack = 4 * (weight.shape[1] + 8) * OWN_UNIT * (size + apart)  # products of codes and weights do not underflow
    return least - apart - slack, most + apart + slack


def relu_gap(
    low: np.ndarray, high: np.ndarray, gap_low: np.ndarray, gap_high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of max(z_a, 0) − max(z_b, 0): min(d, max(z_a, 0)) where d = z_a − z_b ≥ 0, max(d, −max(z_b, 0)) else."""
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    most = np.where(gap_high >= 0, np.minimum(gap_high, high[0]), np.maximum(gap_high, -low[1]))
    least = np.where(gap_low <= 0, np.maximum(gap_low, -high[1]), np.minimum(gap_low, low[0]))
    return least, most


def later_gap(
    network: Network, layer: int, low: np.ndarray, high: np.ndarray, gap_low: np.ndarray, gap_high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the difference of a layer's sums, from the bounds of the layer before; rounded outward."""
    least, most = relu_gap(low, high, gap_low, gap_high)
    weight = network.layers[layer].weight.astype(np.float64)
    centre = 0.5 * least + 0.5 * most
    radius = np.nextafter(np.maximum(most - centre, centre - least), np.inf)
    radius = np.where((least == 0) & (most == 0), 0.0, radius)
    size = np.abs(weight) @ (np.abs(centre) + radius)
    terms = weight.shape[1] + 8
    total = np.where(size > 0, np.abs(weight) @ radius + 8 * terms * OWN_UNIT * size + OWN_FLOOR * terms, 0.0)
    middle = weight @ centre
    return middle - total, middle + total


# --- the program ---


@dataclass(eq=False)
class _Draft:
    """Columns and rows while a program is written down."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)

    def column(self, lower: float, upper: float, *, integer: bool = False) -> int:
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(self, columns: Sequence[int], values: Sequence[float], lower: float, upper: float) -> None:
        kept = [(column, value) for column, value in zip(columns, values, strict=True) if value]
        self.rows.append(([column for column, _ in kept], [float(value) for _, value in kept], lower, upper))


@dataclass(frozen=True, eq=False)
class Program:
    """Columns lower ≤ x ≤ upper, some of them whole numbers, and rows row_lower ≤ matrix x ≤ row_upper."""

    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    matrix: Any  # csr_array [rows, columns]
    row_lower: np.ndarray
    row_upper: np.ndarray
    features: dict[str, list[int]]
    """The columns of each free feature."""
    selectors: tuple[list[int], list[int]]
    """Per copy one column per sensitive value it may take; none where it may take one only."""
    reals: tuple[list[int], list[int]]
    """Per copy the codes of the sensitive features that take every real value."""
    sums: list[np.ndarray]
    """Per layer the columns of z, [2, neurons]."""
    phases: list[tuple[int, int, int]]
    """(δ, z, a) of each ReLU that may be on or off."""
    exponents: list[np.ndarray]
    """Per layer: z is its column times 2^exponent."""
    margin: int | None
    size: Any
    """|matrix|: every safe bound needs it."""

    def chosen(self, solution: np.ndarray, pair: Pair) -> tuple[int, int]:
        """Which of the listed sensitive values the two copies take in a solution."""
        first, second = (
            values[int(np.argmax(solution[columns]))] if columns else values[0]
            for values, columns in zip(pair, self.selectors, strict=True)
        )
        return first, second

    def values(self, solution: np.ndarray, pair: Pair, encoding: Encoding) -> list[tuple[Value, ...]]:
        """The sensitive values of the two copies in a solution."""
        codes = [solution[columns] for columns in self.reals]
        free = np.concatenate([np.zeros(encoding.free_width), *codes])
        every = sensitive_values(encoding, free)
        copies = 2 if encoding.spans else 1
        first, second = self.chosen(solution, pair)
        return [every[first * copies], every[second * copies + copies - 1]]

    def person(self, solution: np.ndarray, encoding: Encoding) -> dict[str, Value]:
        """The raw values of the free features: the nearest person who exists."""
        found: dict[str, Value] = {}
        for feature in encoding.domain.free_features:
            numbers = solution[self.features[feature.name]]
            if feature.kind == "integer":
                found[feature.name] = feature.low + min(max(round(float(numbers[0])), 0), feature.high - feature.low)
            elif feature.kind == "real":
                scale = encoding.scales[feature.name]
                raw = math.ldexp(float(numbers[0]), scale.exponent + _real_exponent(feature, encoding)) + scale.centre
                found[feature.name] = min(max(raw, feature.low), feature.high)
            elif feature.kind == "boolean":
                found[feature.name] = bool(numbers[0] > 0.5)
            else:
                found[feature.name] = feature.levels()[int(np.argmax(numbers))]
        return found


Terms = list[tuple[int, int, int]]
"""(network input, column, exponent): the input is a sum of columns times powers of two."""


def write_program(
    network: Network, encoding: Encoding, relation: Relation, pair: Pair, reach: Reach, *, layers: int, margin: bool
) -> Program:
    """The program of the first `layers` layers; with `margin`, of twins whose decisions differ by at least a margin."""
    draft = _Draft()
    features, shared = _free_columns(draft, encoding, relation)
    phases: list[tuple[int, int, int]] = []
    selectors, reals, sums, exponents = [], [], [], []
    inputs = []
    for values in pair:
        chosen, real, codes = _code_columns(draft, encoding, values)
        selectors.append(chosen)
        reals.append(real)
        inputs.append(shared + codes)
    for i in range(layers):
        size = np.maximum(np.abs(reach.low[i]), np.abs(reach.high[i])).max(axis=0)
        exponent = np.array([_exponent(float(s)) for s in size])
        if i == len(network.layers) - 1:
            exponent[:] = exponent.max()  # outputs are compared with each other
        columns = np.array([[draft.column(*ends) for ends in _ends(reach, i, copy, exponent)] for copy in (0, 1)])
        for copy in (0, 1):
            _write_sums(draft, network, i, columns[copy], exponent, inputs[copy])
        if i + 1 < layers:
            inputs = [_write_relus(draft, reach, i, copy, columns[copy], exponent, phases) for copy in (0, 1)]
            low, high = relu_gap(reach.low[i], reach.high[i], reach.gap_low[i], reach.gap_high[i])
            _write_gaps(draft, inputs, low, high, exponent)
        sums.append(columns)
        exponents.append(exponent)
    at = _write_margin(draft, sums[-1]) if margin else None
    starts = np.cumsum([0, *(len(columns) for columns, *_ in draft.rows)])
    entries = np.array([value for _, values, *_ in draft.rows for value in values])
    places = np.array([column for columns, *_ in draft.rows for column in columns], dtype=np.int64)
    matrix = csr_array((entries, places, starts), shape=(len(draft.rows), len(draft.lower)))
    return Program(
        np.array(draft.lower), np.array(draft.upper), np.array(draft.integer), matrix,
        np.array([row[2] for row in draft.rows]), np.array([row[3] for row in draft.rows]),
        features, (selectors[0], selectors[1]), (reals[0], reals[1]), sums, phases, exponents, at, abs(matrix),
    )  # fmt: skip


def _free_columns(draft: _Draft, encoding: Encoding, relation: Relation) -> tuple[dict[str, list[int]], Terms]:
    """Whole numbers count from the feature's lowest value, which a fixed column adds; reals are columns themselves."""
    columns: dict[str, list[int]] = {}
    terms: Terms = []
    for feature in encoding.domain.free_features:
        place = encoding.free_columns()[feature.name].start
        if isinstance(feature, NUMERIC):
            low, high = float(relation.free.low[place]), float(relation.free.high[place])
            scale = encoding.scales[feature.name]
            exact = (Fraction(feature.low) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent
            below, above = (
                (low, low)
                if exact == Fraction(low)
                else (math.nextafter(low, -math.inf), math.nextafter(low, math.inf))
            )
            if feature.kind == "integer":
                count = feature.high - feature.low
                at = draft.column(0, math.nextafter(count, math.inf) if count > 2**53 else count, integer=True)
                terms.append((place, at, -scale.exponent))
                if (below, above) != (0, 0):
                    size = _exponent(max(abs(below), abs(above)))
                    terms.append((place, draft.column(_scaled(below, -size), _scaled(above, -size)), size))
            else:
                size = _real_exponent(feature, encoding)
                above = math.nextafter(high, math.inf)
                at = draft.column(_scaled(min(below, low), -size), _scaled(above, -size))
                terms.append((place, at, size))
            columns[feature.name] = [at]
        else:
            count = len(feature.levels()) if feature.kind == "categorical" else 1
            columns[feature.name] = [draft.column(0, 1, integer=True) for _ in range(count)]
            terms += [(place + j, at, 0) for j, at in enumerate(columns[feature.name])]
            if feature.kind == "categorical":
                draft.row(columns[feature.name], [1.0] * count, 1.0, 1.0)
    return columns, terms


def _code_columns(draft: _Draft, encoding: Encoding, values: tuple[int, ...]) -> tuple[list[int], list[int], Terms]:
    """The sensitive codes of one copy: a 0/1 column per value where there is a choice, and columns of any number."""
    codes, spans, reals = encoding.listed_codes[list(values)], {s.column: s for s in encoding.spans}, list[int]()
    chosen = [draft.column(0, 1, integer=True) for _ in values] if len(values) > 1 else []
    if chosen:
        draft.row(chosen, [1.0] * len(chosen), 1.0, 1.0)
    terms: Terms = []
    for j in range(codes.shape[1]):
        if j in spans:
            at = draft.column(spans[j].low, spans[j].high)
            reals.append(at)
            terms.append((encoding.free_width + j, at, 0))
            continue
        at = draft.column(codes[:, j].min(), codes[:, j].max())
        if chosen:
            draft.row([at, *chosen], [1.0, *(-codes[:, j])], 0.0, 0.0)
        terms.append((encoding.free_width + j, at, 0))
    return chosen, reals, terms


def _ends(reach: Reach, layer: int, copy: int, exponent: np.ndarray) -> list[tuple[float, float]]:
    lows, highs = reach.low[layer][copy], reach.high[layer][copy]
    return [
        (_scaled(float(a), -int(e)), _scaled(float(b), -int(e))) for a, b, e in zip(lows, highs, exponent, strict=True)
    ]


def _write_sums(
    draft: _Draft, network: Network, layer: int, columns: np.ndarray, exponent: np.ndarray, inputs: Terms
) -> None:
    """z = W x + b, each row divided by the size of its z."""
    affine = network.layers[layer]
    for neuron, (row, bias) in enumerate(zip(affine.weight.tolist(), affine.bias.tolist(), strict=True)):
        own = int(exponent[neuron])
        entries = [-_scaled(row[place], shift - own) for place, _, shift in inputs]
        constant = _scaled(bias, -own)
        draft.row([int(columns[neuron]), *(at for _, at, _ in inputs)], [1.0, *entries], constant, constant)


def _write_relus(
    draft: _Draft, reach: Reach, layer: int, copy: int, columns: np.ndarray, exponent: np.ndarray,
    phases: list[tuple[int, int, int]],
) -> Terms:  # fmt: skip
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


def _write_gaps(
    draft: _Draft, passed: Sequence[Terms], low: np.ndarray, high: np.ndarray, exponent: np.ndarray
) -> None:
    """How far apart the copies of a neuron can be: true without these rows, but not when δ is relaxed."""
    first, second = ({neuron: column for neuron, column, _ in terms} for terms in passed)
    for neuron in sorted(set(first) | set(second)):
        own = int(exponent[neuron])
        pairs = [(at[neuron], sign) for at, sign in ((first, 1.0), (second, -1.0)) if neuron in at]
        ends = _scaled(float(low[neuron]), -own), _scaled(float(high[neuron]), -own)
        draft.row([column for column, _ in pairs], [sign for _, sign in pairs], *ends)


def _write_margin(draft: _Draft, outputs: np.ndarray) -> int:
    """m such that the first copy wins its class, and the second another class, by m at least."""
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


def _real_exponent(feature: Any, encoding: Encoding) -> int:
    scale = encoding.scales[feature.name]
    ends = [math.ldexp(end - scale.centre, -scale.exponent) for end in (feature.low, feature.high)]
    return _exponent(max(abs(end) for end in ends))


def _exponent(size: float) -> int:
    return math.frexp(size)[1] - SIZE_EXPONENT if size else 0


def _scaled(number: float, exponent: int) -> float:
    """number · 2^exponent, which must be a float64 too."""
    try:
        found = math.ldexp(number, exponent)
    except OverflowError:
        found = math.inf
    if math.isinf(found) or math.ldexp(found, -exponent) != number:
        raise NoProgram("the weights differ so much in size that the program leaves float64")
    return found
