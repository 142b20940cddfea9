"""Decisions of a network as shipped: onnxruntime runs the graph we write, from raw values.

Decisions "in float32" of people who are shown to anybody are decided here: our own arithmetic may round otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import plain_level
from bornfair.models.network.executing import PerProcess
from bornfair.models.network.onnx_graph import served_classes
from bornfair.models.onnx_child import session_of
from bornfair.people.features import CategoricalFeature

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.models.network.model import Model
    from bornfair.people.features import Value

DTYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}
TOGETHER = 8_192  # people in one run


class Shipped:
    """The model.onnx of one model, in a session of onnxruntime."""

    def __init__(self, model: Model) -> None:
        self._session = session_of(model.graph_bytes())
        self._order = {label: i for i, label in enumerate(served_classes(model.domain).tolist())}
        self._label = self._session.get_outputs()[0].name
        self._texts = {
            feature.name: dict(zip(feature.categories, map(str, feature.categories), strict=True))
            for feature in model.domain.features
            if isinstance(feature, CategoricalFeature) and feature.missing
        }
        """How categories are written that may be missing: beside gaps a table holds whole numbers as others."""

    def decide(self, people: Sequence[Mapping[str, Value]]) -> tuple[int, ...]:
        """The class index of each person, all in one run: raw values of the domain's features."""
        columns = {given.name: [person[given.name] for person in people] for given in self._session.get_inputs()}
        return tuple(self._decided(columns).tolist())

    def decided(self, table: pd.DataFrame) -> np.ndarray:
        """The class index of each row of a table."""
        columns = {given.name: table[given.name].tolist() for given in self._session.get_inputs()}
        parts = [
            self._decided({name: column[i : i + TOGETHER] for name, column in columns.items()})
            for i in range(0, len(table), TOGETHER)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def _decided(self, columns: Mapping[str, Sequence[Value]]) -> np.ndarray:
        feed = {}
        for given in self._session.get_inputs():
            column = columns[given.name]
            texts = given.type == "tensor(string)"
            written = self._texts.get(given.name, {})
            if texts:
                values = np.array([_text(written.get(value, value)) for value in column], object)
            else:
                values = np.array(column, DTYPES[given.type])
            feed[given.name] = values[:, None]
        (labels,) = self._session.run([self._label], feed)
        return np.array([self._order[label] for label in labels.tolist()], np.int64)


def _text(value: object) -> str:
    """A category as the graph reads it: a gap is the empty text."""
    return "" if plain_level(value) is None else str(value)


shipped: PerProcess[Model, Shipped] = PerProcess(Shipped)
"""The model as it ships; its session is made once in each process."""
