"""How does somebody's first layer look over our encoding? Raw values in, (v − centre)·2^-exponent and codes instead.

Computed in float64 and rounded once. A zero stays a zero and a non-zero a non-zero: whether a feature matters is not
decided by rounding.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from bornfair.errors import InputError
from bornfair.models.importers.affine import CannotRead, Tape
from bornfair.models.importers.head import Head
from bornfair.models.importers.layers import Affine, layers_of
from bornfair.models.network import Layer, Network
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding, Scale
from bornfair.people.features import NUMERIC, NumericFeature, Value
from bornfair.people.sensitive import CodedFeature

SMALLEST = float(np.finfo(np.float32).tiny)
LARGEST = float(np.finfo(np.float32).max)


def folded(head: Head, tape: Tape, domain: Domain, table: pd.DataFrame | None) -> tuple[Network, Encoding]:
    """The model's logits as a network over an encoding of the domain."""
    layers, activation = layers_of(head.logits, tape.input)
    first = layers[0]
    encoding = _encoding(domain, table, first)
    layers[0] = _over_raw_numbers(first, tape, domain) if encoding.raw else _over_encoding(first, tape, encoding)
    made = [Layer(rounded(layer.weight), rounded(layer.bias)) for layer in layers]
    if head.tie_is_positive:  # z ≥ 0 is z > 0 one step of the bias higher
        last = made[-1]
        higher = np.where(last.bias == 0, np.float32(SMALLEST), np.nextafter(last.bias, np.float32(np.inf)))
        made[-1] = Layer(last.weight, higher)
    return Network(tuple(made), activation), encoding


def is_exact(head: Head, tape: Tape, network: Network) -> bool:
    """Whether no number behind the first layer was changed to fit into float32 (of raw numbers, none there is)."""
    layers = layers_of(head.logits, tape.input)[0]
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


def _encoding(domain: Domain, table: pd.DataFrame | None, first: Affine) -> Encoding:
    """Numbers as they stand if the model takes them so, bit by bit; else standardised."""
    if all(isinstance(feature, NUMERIC) for feature in domain.features):
        exact = all((rounded(part) == part).all() for part in (first.weight, first.bias))
        if exact:
            return Encoding.of_raw_numbers(domain)
    if table is not None and all(feature.name in table.columns for feature in domain.features):
        return Encoding.fit(domain, table)
    mirrored = domain.twin_group.orbits
    scales = {f.name: _scale(f, f.name in mirrored) for f in domain.features if isinstance(f, NUMERIC)}
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


def _over_raw_numbers(first: Affine, tape: Tape, domain: Domain) -> Affine:
    order = [tape.columns[name].start for name in (*domain.free_names, *domain.sensitive)]
    return Affine(first.weight[:, order], first.bias)


def _over_encoding(first: Affine, tape: Tape, encoding: Encoding) -> Affine:
    weight = np.zeros((len(first.bias), encoding.width))
    bias = first.bias.copy()
    places = encoding.free_columns()
    for feature in encoding.domain.free_features:
        share = first.weight[:, tape.columns[feature.name]]
        place = places[feature.name]
        if isinstance(feature, NUMERIC):
            scale = encoding.scales[feature.name]
            weight[:, place.start] = np.ldexp(share[:, 0], scale.exponent)
            bias += share[:, 0] * scale.centre
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
    return Affine(weight, bias)


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
