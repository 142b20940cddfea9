"""Networks from affine forms: the hidden layers, and the first layer over the encoding of a domain.

A value that is read again further up (a skip connection) passes through the ReLU layers between: relu(a) = a for what
is never negative, relu(v) − relu(−v) = v for the rest. σ(z) = (1 + tanh(z/2))/2 joins sigmoid and tanh in one network.

The first layer reads raw values, which become (v − centre)·2^-exponent and codes. Computed in float64 and rounded once.
A zero stays a zero and a non-zero a non-zero: whether a feature matters is not decided by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.importers.affine import CannotRead, Forms, Tape, ValueBlock, concatenated
from bornfair.importers.head import Head
from bornfair.models.network.network import Activation, Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, NumericFeature, Value
from bornfair.people.sensitive import CodedFeature

SMALLEST = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class AffineLayer:
    """One layer in float64; the first one reads the columns of the input block."""

    weight: np.ndarray
    bias: np.ndarray


def folded(
    head: Head, tape: Tape, domain: Domain, table: pd.DataFrame | None, scales: Mapping[str, Scale] | None = None
) -> tuple[Network, Encoding]:
    """The model's logits as a network over an encoding of the domain; scales: how some of its numbers are shown."""
    layers, activation = _layers(head.logits, tape.input)
    first = layers[0]
    encoding = _encoding(domain, table, first, scales or {})
    if encoding.raw:
        order = [tape.columns[name].start for name in (*domain.free_names, *domain.sensitive)]
        layers[0] = AffineLayer(first.weight[:, order], first.bias)
    else:
        layers[0] = _over_encoding(first, tape, encoding)
    made = [Layer(rounded(layer.weight), rounded(layer.bias)) for layer in layers]
    if head.tie_is_positive:  # z ≥ 0 is z > 0 one step of the bias higher
        last = made[-1]
        higher = np.where(last.bias == 0, np.float32(SMALLEST), np.nextafter(last.bias, np.float32(np.inf)))
        made[-1] = Layer(last.weight, higher)
    return Network(tuple(made), activation), encoding


def is_exact(head: Head, tape: Tape, network: Network) -> bool:
    """Whether no number behind the first layer was changed to fit into float32 (of raw numbers, none there is)."""
    layers = _layers(head.logits, tape.input)[0]
    return not head.tie_is_positive and all(
        np.array_equal(made.weight, read.weight) and np.array_equal(made.bias, read.bias)
        for made, read in zip(network.layers[1:], layers[1:], strict=True)
    )


def rounded(numbers: np.ndarray) -> np.ndarray:
    """As float32; what is too small for it becomes the smallest number with that sign, not 0."""
    if not np.isfinite(numbers).all() or (np.abs(numbers) > LARGEST).any():
        raise CannotRead("has a weight that is NaN, infinite or too large for float32; the model is broken")
    nearest = numbers.astype(np.float32)
    lost = (numbers != 0) & (np.abs(numbers) < SMALLEST)
    return np.where(lost, np.copysign(np.float32(SMALLEST), nearest), nearest).astype(np.float32)


# --- layers ---


def _layers(logits: Forms, inputs: ValueBlock) -> tuple[list[AffineLayer], Activation]:
    """The network that computes these logits from the input's columns."""
    blocks = _behind(logits)
    kind = _activation(blocks)
    rows, made = logits, []
    for level in range(max((block.level for block in rows.parts), default=0), 0, -1):
        direct = [block for block in rows.parts if block.level == level]
        early = {block: matrix for block, matrix in rows.parts.items() if block.level < level}
        weights, befores, bias = [], [], rows.constant
        for block in direct:
            matrix, before = rows.parts[block], cast(Forms, block.before)
            if kind == "tanh" and block.kind == "sigmoid":
                bias, matrix = bias + 0.5 * matrix.sum(axis=1), 0.5 * matrix
                before = before.scaled(0.5)
            weights.append(matrix)
            befores.append(before.flat)
        if early:
            if kind != "relu":
                raise CannotRead(
                    f"has a skip connection past '{direct[0].name}' ({kind}), which only a ReLU layer can carry; use "
                    "ReLU there, or leave the skip connection out"
                )
            for matrix, before in _carried(early, len(rows.constant), inputs):
                weights.append(matrix)
                befores.append(before)
        made.append(AffineLayer(np.concatenate(weights, axis=1), bias))
        rows = concatenated(befores, 0)
    first = rows.parts.get(inputs, np.zeros((rows.size, inputs.width)))
    made.append(AffineLayer(first, rows.constant))
    return made[::-1], kind


def _behind(forms: Forms) -> list[ValueBlock]:
    """Every activation the forms depend on, the last first."""
    seen: dict[ValueBlock, None] = {}
    waiting = [forms]
    while waiting:
        for block in waiting.pop().parts:
            if block.before is not None and block not in seen:
                seen[block] = None
                waiting.append(block.before)
    return sorted(seen, key=lambda block: -block.level)


def _activation(blocks: list[ValueBlock]) -> Activation:
    by_kind = {block.kind: block for block in blocks}
    for kind, block in by_kind.items():
        if kind not in get_args(Activation):
            raise CannotRead(
                f"computes on after '{block.name}' ({kind}), which is read at the end of a model only; leave it out"
            )
    if len(by_kind) > 1 and set(by_kind) != {"tanh", "sigmoid"}:
        (one, first), (other, second) = list(by_kind.items())[:2]
        raise CannotRead(
            f"mixes {one} ('{first.name}') with {other} ('{second.name}') in its hidden layers; a network with one "
            "kind of activation (tanh and sigmoid count as one) can be read"
        )
    if len(by_kind) == 2:
        return "tanh"
    return cast(Activation, next(iter(by_kind), "relu"))


def _carried(early: dict[ValueBlock, np.ndarray], rows: int, inputs: ValueBlock) -> list[tuple[np.ndarray, Forms]]:
    """Neurons that hand earlier values on: (weights that read them, what they are). The cheaper of two ways:
    each earlier value by itself, or what each row needs of them in sum.
    """
    needed = {block: np.flatnonzero(matrix.any(axis=0)) for block, matrix in early.items()}
    sums = np.concatenate(list(early.values()), axis=1)
    asking = np.flatnonzero(sums.any(axis=1))
    one_by_one = sum(len(columns) * (1 if block.kind == "relu" else 2) for block, columns in needed.items())
    if 2 * len(asking) < one_by_one:
        parts = {block: matrix[asking] for block, matrix in early.items()}
        total = Forms((len(asking),), parts, np.zeros(len(asking)))
        back = np.zeros((rows, len(asking)))
        back[asking, np.arange(len(asking))] = 1.0
        return [(back, total), (-back, total.scaled(-1.0))]
    carried = []
    for block, columns in needed.items():
        alone = Forms((len(columns),), {block: np.eye(block.width)[columns]}, np.zeros(len(columns)))
        carried.append((early[block][:, columns], alone))
        if block.kind != "relu":
            carried.append((-early[block][:, columns], alone.scaled(-1.0)))
    return carried


# --- the first layer over our encoding ---


def _encoding(domain: Domain, table: pd.DataFrame | None, first: AffineLayer, known: Mapping[str, Scale]) -> Encoding:
    """Numbers as they stand if the model takes them so, bit by bit; else as known, or standardised."""
    if not known and all(isinstance(feature, NUMERIC) for feature in domain.features):
        exact = all((rounded(part) == part).all() for part in (first.weight, first.bias))
        if exact:
            return Encoding.of_raw_numbers(domain)
    if not known and table is not None and all(feature.name in table.columns for feature in domain.features):
        return Encoding.fit(domain, table)
    mirrored = domain.twin_group.orbits
    numbers = [feature for feature in domain.features if isinstance(feature, NUMERIC)]
    scales = {f.name: known.get(f.name) or _scale(f, f.name in mirrored) for f in numbers}
    fill: dict[str, Value] = {f.name: f.low if isinstance(f, NUMERIC) else f.levels()[0] for f in domain.features}
    return Encoding(domain, scales, fill)


def _scale(feature: NumericFeature, mirrored: bool) -> Scale:
    """As if people were spread evenly over the range; a number that twins mirror is centred in the very middle."""
    middle = feature.low + (feature.high - feature.low) / 2
    spread = (feature.high - feature.low) / np.sqrt(12.0)
    exponent = round(np.log2(spread)) if spread > 0 and np.isfinite(spread) else 0
    centre = float(round(middle)) if feature.kind == "integer" else float(np.float32(middle))
    if mirrored:
        centre = (feature.low + feature.high) / 2
    if not np.isfinite(centre) or not np.isfinite(spread):
        raise InputError(
            f"feature '{feature.name}' ranges from {feature.low:g} to {feature.high:g}, too wide to compute with; "
            "narrow its range in the domain."
        )
    return Scale(centre=centre, exponent=int(np.clip(exponent, -1000, 1000)))


def _over_encoding(first: AffineLayer, tape: Tape, encoding: Encoding) -> AffineLayer:
    weight = np.zeros((len(first.bias), encoding.width))
    bias = first.bias.copy()
    places = encoding.free_columns()
    for feature in encoding.domain.free_features:
        share = first.weight[:, tape.columns[feature.name]]
        place = places[feature.name]
        if isinstance(feature, NUMERIC):
            column = encoding.number(feature.name)
            weight[:, place.start] = share[:, 0] / column.slope
            bias += share[:, 0] * column.zero
        elif feature.kind == "boolean":
            weight[:, place.start] = share[:, 1] - share[:, 0]
            bias += share[:, 0]
        else:
            weight[:, place] = share
    start = encoding.free_width
    for coded in encoding.domain.sensitive_space.features:
        share = first.weight[:, tape.columns[coded.feature.name]]
        made, constant = (
            _number_code(share, coded) if isinstance(coded.feature, NUMERIC) else _level_codes(share, coded)
        )
        weight[:, start : start + made.shape[1]] = made
        bias += constant
        start += made.shape[1]
    return AffineLayer(weight, bias)


def _number_code(share: np.ndarray, coded: CodedFeature) -> tuple[np.ndarray, np.ndarray]:
    """Weights that read a number's code c = (slope·(v − low)/step + c₀)·2^-exponent instead of v."""
    feature = coded.feature
    assert isinstance(feature, NUMERIC)
    step = (feature.high - feature.low) / (len(feature.levels()) - 1)
    slope, first = int(coded.codes[1, 0] - coded.codes[0, 0]), int(coded.codes[0, 0])
    return np.ldexp(share * (step / slope), coded.exponent), share[:, 0] * (feature.low - step * first / slope)


def _level_codes(share: np.ndarray, coded: CodedFeature) -> tuple[np.ndarray, np.ndarray]:
    """Weights that read the centred codes so that each level gives the model's own share, [neurons, levels].

    Column j has one value at level j and another at all others; two levels need one column. Where all levels give the
    same, the weights are exactly 0.
    """
    codes = coded.table.astype(np.float64)
    same = (share == share[:, :1]).all(axis=1)
    if codes.shape[1] == 1:
        weight = (share[:, 1:2] - share[:, 0:1]) / (codes[1, 0] - codes[0, 0])
        return weight, share[:, 0] - weight[:, 0] * codes[0, 0]
    middle = np.where(same, share[:, 0], share.mean(axis=1))
    on = np.diag(codes)
    off = np.array([codes[1 if j == 0 else 0, j] for j in range(len(codes))])
    weight = (share - middle[:, None]) / (on - off)
    weight[same] = 0.0
    return weight, middle - weight @ off
