"""Which fair network is closest to a given one? Only its first layer z = W x + V c(s) + b has to change.

Plain: V ← 0 and w ← wP, so that everybody gets the mean of their versions. Least squares: the fair (W′, b′) closest to
z on the rows of a table, which puts what V knew on features that go with s: fair between twins, by way of proxies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.models.network.model import Model
from bornfair.models.network.network import Network
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC
from bornfair.people.scales import Scale
from bornfair.people.tables import as_pandas
from bornfair.proof.bundle import FairModel
from bornfair.training.first_layer import FirstLayer, with_first_layer

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
