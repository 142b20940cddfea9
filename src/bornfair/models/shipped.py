"""How does a model decide as it ships? onnxruntime runs the graph we write, from raw values.

Decisions "in float32" of people who are shown to anybody are decided here: our own arithmetic may round otherwise.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.models.importers.onnx_child import session_of
from bornfair.models.onnx_graph import onnx_bytes, served_classes

if TYPE_CHECKING:
    from bornfair.models.model import Model
    from bornfair.people.features import Value

DTYPES: dict[str, Any] = {"tensor(int64)": np.int64, "tensor(double)": np.float64, "tensor(bool)": np.bool_}


class Shipped:
    """The model.onnx of one model, in a session of onnxruntime."""

    def __init__(self, model: Model) -> None:
        self._session = session_of(onnx_bytes(model))
        self._order = {label: i for i, label in enumerate(served_classes(model.domain).tolist())}
        self._label = self._session.get_outputs()[0].name

    def decide(self, people: Sequence[Mapping[str, Value]]) -> tuple[int, ...]:
        """The class index of each person, all in one run: raw values of the domain's features."""
        feed = {}
        for given in self._session.get_inputs():
            column = [person[given.name] for person in people]
            texts = given.type == "tensor(string)"
            values = np.array(list(map(str, column)), object) if texts else np.array(column, DTYPES[given.type])
            feed[given.name] = values[:, None]
        (labels,) = self._session.run([self._label], feed)
        return tuple(self._order[label] for label in labels.tolist())


def shipped(model: Model) -> Shipped:
    """The model as it ships; its session is made once."""
    if model not in _known:
        _known[model] = Shipped(model)
    return _known[model]


_known: weakref.WeakKeyDictionary[Model, Shipped] = weakref.WeakKeyDictionary()
