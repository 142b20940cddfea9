"""What does each feature contribute to the first layer? The form in which a network can be told in another encoding.

z = bias + Σ_f contribution_f(value): a number v adds slope·(v − centre), held between two ends where the encoding does
that (and then in the other encoding too); a category adds its row of a table. Which features are free and which
sensitive, and how either is coded, is left behind, so that a network can be asked about features nobody thought of when
it was trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.sensitive import CodedFeature


@dataclass(frozen=True, eq=False)
class Slope:
    """A number's contribution: slope·(v − centre)."""

    slope: np.ndarray  # float64 [neurons]
    centre: float


@dataclass(frozen=True, eq=False)
class FirstLayer:
    """The first layer as a sum over features, in float64."""

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
