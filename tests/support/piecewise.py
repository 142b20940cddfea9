"""Which decisions does somebody get as a real-valued sensitive feature takes every value? Found exactly, in fractions.

With everything else fixed, a ReLU network is piecewise linear in one number. The pieces are cut where a neuron
switches, in exact arithmetic, so that the set of classes along the whole range is known, not sampled. Shares no code
with the engines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np

from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, CategoricalFeature, Feature, IntegerFeature, Label, RealFeature
from bornfair.proof.bundle import FairModel

Line = tuple[Fraction, Fraction]  # c + m·x
Piece = tuple[Fraction, Fraction, list[Line]]


def classes_along(network: Network, inputs: list[Line], low: Fraction, high: Fraction) -> set[int]:
    """All classes decided for x from low to high, when the inputs are these functions of x."""
    pieces: list[Piece] = [(low, high, inputs)]
    for i, layer in enumerate(network.layers):
        if i:
            pieces = [piece for before in pieces for piece in _relu(before)]
        pieces = [(a, b, _affine(layer, lines)) for a, b, lines in pieces]
    found: set[int] = set()
    for a, b, lines in pieces:
        leads = [(c - d, m - k) for (c, m), (d, k) in itertools.combinations(lines, 2)] if len(lines) > 1 else lines
        ends = sorted({a, b, *(x for line in leads if (x := _zero(line)) is not None and a < x < b)})
        # Between two ends no lead changes its sign; at an end several may be 0.
        for x in (*ends, *((p + q) / 2 for p, q in itertools.pairwise(ends))):
            scores = [c + m * x for c, m in lines]
            found.add(int(scores[0] > 0) if len(scores) == 1 else scores.index(max(scores)))
    return found


def _relu(piece: Piece) -> Iterator[Piece]:
    low, high, lines = piece
    ends = sorted({low, high, *(x for line in lines if (x := _zero(line)) is not None and low < x < high)})
    for a, b in itertools.pairwise(ends) if len(ends) > 1 else [(low, high)]:
        middle = (a + b) / 2
        yield a, b, [(c, m) if c + m * middle > 0 else (Fraction(0), Fraction(0)) for c, m in lines]


def _affine(layer: Layer, lines: list[Line]) -> list[Line]:
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [
        (
            sum((Fraction(w) * c for w, (c, _) in zip(row, lines, strict=True)), Fraction(bias)),
            sum((Fraction(w) * m for w, (_, m) in zip(row, lines, strict=True)), Fraction(0)),
        )
        for row, bias in rows
    ]


def _zero(line: Line) -> Fraction | None:
    constant, slope = line
    return -constant / slope if slope else None


# --- models with one real-valued sensitive feature, on a lattice of other people ---

SHAPES: tuple[tuple[tuple[Feature, ...], tuple[Feature, ...], tuple[int, ...], int], ...] = (
    ((IntegerFeature(name="a", low=-2, high=4),), (RealFeature(name="s", low=18.0, high=99.0),), (3,), 1),
    (
        (IntegerFeature(name="a", low=0, high=3), CategoricalFeature(name="c", categories=("u", "v", "w"))),
        (BooleanFeature(name="t"), RealFeature(name="s", low=-0.3, high=1.1)),
        (4, 3),
        1,
    ),
    (
        (BooleanFeature(name="b"),),
        (RealFeature(name="s", low=0.0, high=1.0), CategoricalFeature(name="t", categories=("p", "q", "r"))),
        (4,),
        3,
    ),
)


def random_model(seed: int) -> FairModel:
    """Some are fair by luck, some have an extreme or a tiny weight on what is sensitive, some a narrow bump in it."""
    random = np.random.default_rng([seed, 78])
    free, sensitive, hidden, outputs = SHAPES[seed % len(SHAPES)]
    label = Label(name="y", classes=tuple(range(max(outputs, 2))))
    domain = Domain(features=(*free, *sensitive), sensitive=tuple(f.name for f in sensitive), label=label)
    numbers = {f.name: Scale(centre=1.0, exponent=1) for f in domain.features if f.kind in ("integer", "real")}
    encoding = Encoding(domain, numbers, {}, raw=False)
    style, layers = random.integers(5), []
    for i, (inputs, after) in enumerate(itertools.pairwise((encoding.width, *hidden, outputs))):
        weight = random.normal(size=(after, inputs))
        bias = random.normal(size=after) * (3.0 if style == 2 else 1.0)
        if style in (1, 4):
            weight, bias = np.round(weight * 2) / 2, np.round(bias * 2) / 2
        if i == 0 and style == 3:
            weight[:, encoding.free_width :] *= float(2.0 ** random.integers(-40, 8))
        layers.append(Layer(weight, bias))
    if style == 4:
        _add_bump(encoding, layers, random)
    return FairModel(Network(tuple(layers)), encoding)


def _add_bump(encoding: Encoding, layers: list[Layer], random: np.random.Generator) -> None:
    """Two neurons make the score depend on s near one place only, between the levels of any grid."""
    place = next(j for j, name in enumerate(encoding.column_names()) if name == "s")
    centre, width = random.uniform(-0.9, 0.9), 2.0 ** -random.integers(4, 9)
    weight, bias = layers[0].weight.copy(), layers[0].bias.copy()
    weight[:, encoding.free_width :] = 0
    for neuron, at in ((0, centre), (1, centre + width)):
        weight[neuron], bias[neuron] = 0, -at / width
        weight[neuron, place] = 1 / width
    layers[0] = Layer(weight, bias)


def people(model: FairModel) -> list[dict]:
    """Everybody, but for what is sensitive."""
    features = model.domain.free_features
    return [
        dict(zip((f.name for f in features), row, strict=True)) for row in itertools.product(*map(all_values, features))
    ]


def all_values(feature) -> list:
    """Every value, a gap included."""
    levels = list(feature.levels())
    return [*levels, None] if feature.missing and None not in levels else levels


def classes_of(model: FairModel, person: Mapping) -> set[int]:
    """All classes that a person gets under all sensitive values there are, every real number among them."""
    domain, found = model.domain, set[int]()
    (real,) = (f for f in domain.sensitive_features if f.kind == "real")
    listed = [f.levels() if f is not real else (None,) for f in domain.sensitive_features]
    for values in itertools.product(*listed):
        inputs: list[Line] = []
        for feature in domain.free_features:
            raw = person[feature.name]
            if feature.kind == "integer":
                scale = model.encoding.scales[feature.name]
                exact = (Fraction(raw) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent
                inputs.append((exact, Fraction(0)))
            elif feature.kind == "boolean":
                inputs.append((Fraction(int(raw)), Fraction(0)))
            else:
                inputs += [(Fraction(int(level == raw)), Fraction(0)) for level in feature.levels()]
        for coded, value in zip(domain.sensitive_space.features, values, strict=True):
            if coded.feature is real:
                constant, slope = Fraction(0), Fraction(1)
                for operator, number in coded.column.steps:
                    exact = Fraction(number)
                    if operator in ("Mul", "Div"):
                        factor = exact if operator == "Mul" else 1 / exact
                        constant, slope = constant * factor, slope * factor
                    else:
                        constant += exact if operator == "Add" else -exact
                inputs.append((constant, slope))
            else:
                row = coded.table[list(coded.feature.levels()).index(value)]
                inputs += [(Fraction(float(code)), Fraction(0)) for code in row]
        found |= classes_along(model.network, inputs, Fraction(real.low), Fraction(real.high))
    return found
