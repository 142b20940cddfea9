"""Which fair network is closest to a given one? Only its first layer z = W x + V c(s) + b has to change.

Plain: V ← 0 and w ← wP, so that everybody gets the mean of their versions. Least squares: the fair (W′, b′) closest to
z on the rows of a table, which puts what V knew on features that go with s: fair between twins, by way of proxies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.people.columns import Scale
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.sensitive import CodedFeature
from bornfair.people.tables import as_pandas
from bornfair.proof.bundle import FairModel

ROWS_AT_ONCE = 8192
NEGLIGIBLE = 1e-9  # of the largest spread: directions in which the rows hardly differ are left as they are
BLENDS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, eq=False)
class FairLayer:
    """The free weights and biases of a first layer whose sensitive weights are 0."""

    weight: np.ndarray  # float64 [neurons, free]
    bias: np.ndarray  # float64 [neurons]

    def toward(self, other: FairLayer, share: float) -> FairLayer:
        return FairLayer((1 - share) * self.weight + share * other.weight, (1 - share) * self.bias + share * other.bias)

    def network(self, original: Network, encoding: Encoding) -> Network:
        """The original from its second layer on, behind this first layer. Sensitive weights are exactly 0."""
        weight = np.zeros((len(self.bias), encoding.width))
        weight[:, : encoding.free_width] = self.weight
        return with_first_layer(original, weight, self.bias)


def project(model: Any, table: Any = None) -> FairModel:
    """The fair model closest to a given one (a `FairModel` or a fitted classifier), in the encoding it has.

    Without a table: the sensitive weights become 0 and, where codes are not centred, the bias moves to the mean over S;
    declared twins are shown to it as what they have in common. With a table: the fair first layer that is closest on
    its rows. The result carries its certificate.

    >>> from bornfair import FairClassifier, datasets
    >>> people = datasets.load("credit").table
    >>> X, y = people.drop(columns="risk"), people["risk"]
    >>> unfair = FairClassifier(["sex"], response="none", hidden=[8], epochs=1).fit(X, y)
    >>> project(unfair).certificate.verdict.answer
    'verified'
    """
    return projection(as_model(model), None if table is None else as_pandas(table)).certified()


def projection(given: Model, table: pd.DataFrame | None = None) -> FairModel:
    """`project`, before anything is certified."""
    if not given.domain.sensitive:
        raise InputError("this model has no sensitive features, so nobody has a twin; name some with repair(...).")
    encoding = fair_encoding(given.encoding)
    layer = plain_projection(given, encoding)
    if table is not None:
        layer = least_squares_projection(given, encoding, layer, table)
    return FairModel(layer.network(given.network, encoding), encoding, offsets=given.offsets)


def as_model(source: Any) -> Model:
    """The `FairModel` that is given, or that a fitted classifier holds."""
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise InputError(f"a FairModel or a fitted classifier is needed, found {type(source).__name__}.")
    return model


def fair_encoding(encoding: Encoding) -> Encoding:
    """The encoding, so that declared twins are the same to the network: it is shown P·x. Itself if they are already."""
    if encoding.merges_twins:
        return encoding
    orbits, scales = encoding.domain.twin_group.orbits, dict(encoding.scales)
    for name in orbits:
        feature = encoding.domain.feature(name)
        if isinstance(feature, NUMERIC):  # mirrored around its middle, which is shown as 0
            scales[name] = Scale(centre=(feature.low + feature.high) / 2, exponent=scales[name].exponent)
    return dataclasses.replace(encoding, scales=scales, merged=encoding.merged | orbits)


def plain_projection(original: Model, encoding: Encoding) -> FairLayer:
    """W as it is, V ← 0, and in b the mean over S of what V contributed: nothing, where codes are centred."""
    own, free = original.encoding, encoding.free_width
    if encoding is own:  # no detour through other codes: what need not change does not, to the last bit
        weight, bias = original.network.wide[0]
        if own.raw:
            bias = bias + weight[:, free:] @ own.codes.mean(axis=0, dtype=np.float64)
    else:
        weight, bias = FirstLayer.of(original.network, own).told_in(encoding)
    return FairLayer(weight[:, :free], bias)


def least_squares_projection(original: Model, encoding: Encoding, plain: FairLayer, table: pd.DataFrame) -> FairLayer:
    """The fair first layer with the smallest mean ‖z − (W′u + b′)‖² over the rows of a table.

    What the plain one gets wrong is regressed on u. Where the rows leave a choice (a category nobody has, one-hot
    columns that sum to 1) the smallest change of W is taken.
    """
    width, neurons = encoding.free_width, len(plain.bias)
    count, sums, errors = 0, np.zeros(width), np.zeros(neurons)
    squares, products = np.zeros((width, width)), np.zeros((width, neurons))
    for free, error in _errors(original, encoding, plain, table):
        count += len(free)
        sums += free.sum(axis=0)
        errors += error.sum(axis=0)
        squares += free.T @ free
        products += free.T @ error
    mean, mean_error = sums / count, errors / count
    spread = squares / count - np.outer(mean, mean)
    shared = products / count - np.outer(mean, mean_error)
    values, directions = np.linalg.eigh(spread)
    used = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(np.float64).tiny)
    change = directions[:, used] @ ((directions[:, used].T @ shared) / values[used, None])
    return FairLayer(plain.weight + change.T, plain.bias + mean_error - change.T @ mean)


def first_layer_error(original: Model, encoding: Encoding, layer: FairLayer, table: pd.DataFrame) -> float:
    """Mean ‖z − (W′u + b′)‖² over the rows of a table."""
    errors = _errors(original, encoding, layer, table)
    return sum(float(np.sum(error**2)) for _, error in errors) / max(len(table), 1)


def _errors(
    original: Model, encoding: Encoding, layer: FairLayer, table: pd.DataFrame
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Encoded rows u of a table, some at a time, and z − (W′u + b′) for them."""
    for i in range(0, len(table), ROWS_AT_ONCE):
        rows = table.iloc[i : i + ROWS_AT_ONCE]
        free = encoding.encode(rows, sensitive=False).free.astype(np.float64)
        yield free, _first_values(original, rows) - (free @ layer.weight.T + layer.bias)


def _first_values(model: Model, table: pd.DataFrame) -> np.ndarray:
    """z of the rows of a table, before the activation, in float64."""
    sensitive = model.domain.sensitive
    if not model.ignores_sensitive and set(sensitive).isdisjoint(table.columns):
        raise InputError(f"the table has no column {shown(sensitive)}, which the model reads; add it.")
    weight, bias = model.network.wide[0]
    return model.inputs(table).astype(np.float64) @ weight.T + bias


# --- the first layer as a sum over features ---


@dataclass(frozen=True, eq=False)
class Slope:
    """A number's contribution: slope·(v − centre)."""

    slope: np.ndarray  # float64 [neurons]
    centre: float


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer as a sum over features, z = bias + Σ_f contribution_f(value), in float64.

    A number v adds slope·(v − centre), held between two ends where the encoding does that; a category adds its row of
    a table. Which features are free or sensitive, and how either is coded, is left behind.
    """

    bias: np.ndarray  # [neurons]
    numbers: dict[str, Slope]
    levels: dict[str, np.ndarray]  # [levels, neurons]: categories and true/false
    gaps: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # [neurons]: what a number contributes where it is missing

    @staticmethod
    def of(network: Network, encoding: Encoding) -> FirstLayer:
        weight = network.layers[0].weight.astype(np.float64)
        numbers: dict[str, Slope] = {}
        gaps: dict[str, np.ndarray] = {}
        levels: dict[str, np.ndarray] = {}
        for feature in encoding.domain.free_features:
            block, groups = weight[:, encoding.free_columns()[feature.name]], encoding.merged.get(feature.name)
            if isinstance(feature, NUMERIC):
                column = encoding.number(feature.name)
                slope = np.zeros(len(block)) if groups else block[:, 0] * column.slope
                numbers[feature.name] = Slope(slope, column.zero)
                if (gap := encoding.gap(feature.name)) is not None:
                    gaps[feature.name] = block[:, 1] + (0.0 if groups else block[:, 0] * gap.shown)
            elif feature.kind == "boolean":
                no_and_yes = np.stack([np.zeros(len(block)), block[:, 0]])
                levels[feature.name] = _alike(no_and_yes, groups)
            else:
                levels[feature.name] = _alike(block.T, groups)
        for coded, place in sensitive_columns(encoding):
            block = weight[:, place]
            if isinstance(coded.feature, NUMERIC):
                per_unit, centre = code_of_number(coded, encoding)
                numbers[coded.feature.name] = Slope(block[:, 0] * per_unit, centre)
            else:
                levels[coded.feature.name] = coded.table.astype(np.float64) @ block.T
        return FirstLayer(network.layers[0].bias.astype(np.float64), numbers, levels, gaps)

    def told_in(self, encoding: Encoding) -> tuple[np.ndarray, np.ndarray]:
        """Weights [neurons, inputs] and biases of the same function in another encoding of the same features.

        Its sensitive codes sum to zero over S, so the bias holds the mean over S of what the sensitive values
        contribute: setting the sensitive weights to 0 leaves everybody the average of their versions. Where it merges
        declared twins, their values contribute the mean of what they did (w ← wP).
        """
        bias = self.bias.copy()
        weight = np.zeros((len(bias), encoding.width))
        for feature in encoding.domain.free_features:
            place, groups = encoding.free_columns()[feature.name], encoding.merged.get(feature.name)
            if isinstance(feature, NUMERIC):
                column, own = encoding.number(feature.name), self.numbers[feature.name]
                if not groups:  # a mirrored number is shown as 0, its middle
                    weight[:, place.start] = own.slope / column.slope
                bias += own.slope * (column.zero - own.centre)
                gap = encoding.gap(feature.name)
                if gap is not None and feature.name in self.gaps:
                    there = weight[:, place.start] * gap.shown + own.slope * (column.zero - own.centre)
                    weight[:, place.start + 1] = self.gaps[feature.name] - there
            elif feature.kind == "boolean":
                no, yes = _alike(self.levels[feature.name], groups)
                weight[:, place] = (yes - no)[:, None]
                bias += no
            else:
                weight[:, place] = _alike(self.levels[feature.name], groups).T
        for coded, place in sensitive_columns(encoding):
            if isinstance(coded.feature, NUMERIC):
                per_unit, centre = code_of_number(coded, encoding)
                own = self.numbers[coded.feature.name]
                weight[:, place] = (own.slope / per_unit)[:, None]
                bias += own.slope * (centre - own.centre)
            else:
                table = self.levels[coded.feature.name]
                known = np.concatenate([coded.table.astype(np.float64), np.ones((len(table), 1))], axis=1)
                found = np.linalg.lstsq(known, table, rcond=None)[0]  # exact: codes are affine in the one-hot code
                weight[:, place] = found[:-1].T
                bias += found[-1]
        return weight, bias


def told_in(model: Model, encoding: Encoding) -> Model:
    """The same function of a person, up to rounding, in another encoding of the same features."""
    weight, bias = FirstLayer.of(model.network, model.encoding).told_in(encoding)
    return Model(with_first_layer(model.network, weight, bias), encoding, offsets=model.offsets)


def with_first_layer(network: Network, weight: np.ndarray, bias: np.ndarray) -> Network:
    return Network((Layer(weight, bias), *network.layers[1:]), network.activation)


def _alike(table: np.ndarray, groups: Sequence[Sequence[int]] | None) -> np.ndarray:
    """Rows of one group replaced by their mean."""
    mean = np.array(table)
    for group in groups or ():
        mean[list(group)] = table[list(group)].mean(axis=0)
    return mean


def sensitive_columns(encoding: Encoding) -> list[tuple[CodedFeature, slice]]:
    """Each sensitive feature with its columns of the network's input."""
    found, start = [], encoding.free_width
    for coded in encoding.domain.sensitive_space.features:
        width = 1 if encoding.raw else coded.codes.shape[1]
        found.append((coded, slice(start, start + width)))
        start += width
    return found


def code_of_number(coded: CodedFeature, encoding: Encoding) -> tuple[float, float]:
    """How much the code of a sensitive number grows with each unit, and at which value it is 0."""
    feature = coded.feature
    assert isinstance(feature, NUMERIC)
    if encoding.raw:
        return 1.0, 0.0
    step = (feature.high - feature.low) / (len(feature.levels()) - 1)
    first, growth = float(coded.codes[0, 0]), float(coded.codes[1, 0] - coded.codes[0, 0])
    return float(np.ldexp(growth / step, -coded.exponent)), feature.low - first / growth * step
