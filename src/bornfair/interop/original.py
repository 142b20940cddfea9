"""How does the model decide as it came, in its own software? And does what was read of it decide the same?

Every model that is read is compared with its original on random people of the domain before anybody relies on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.encoding import Encoding
from bornfair.errors import InputError
from bornfair.interop.affine import NUMERIC_FUNCTIONS
from bornfair.interop.columns import Columns
from bornfair.interop.head import Head
from bornfair.interop.onnx_file import OnnxFile, Understood, as_input
from bornfair.interop.onnx_node import UNKNOWN_ROWS
from bornfair.network import Network, decisions

PEOPLE = 2_048
HUGE = 1e8  # weights above are nobody's intention
ROUNDING = 50.0  # how many times the rounding we see in our own arithmetic the other's may be


class Original(ABC):
    """A model as it came, run by its own software."""

    runtime: str  # which software that is
    largest_difference: float | None = None
    """Between its scores and ours on the people compared, in the terms it shows them (mostly probabilities); None if
    it shows decisions only.
    """
    people_compared: int = 0

    @abstractmethod
    def scores(self, table: pd.DataFrame) -> np.ndarray | None:
        """What it shows for raw rows: probabilities or scores [rows, columns]; None if it gives decisions only."""

    @abstractmethod
    def decide(self, table: pd.DataFrame) -> np.ndarray:
        """Its class index for each raw row."""


def check(original: Original, head: Head, network: Network, encoding: Encoding, *, seed: int = 0) -> None:
    """Compare on random people; refuse to go on if decisions differ by more than rounding can explain."""
    people = encoding.domain.sample(PEOPLE, seed=seed)
    ours, allowed = _ours(network, encoding, people)
    clear = np.abs(ours[:, 0]) > allowed + head.slack
    if ours.shape[1] > 1:
        ranked = np.sort(ours, axis=1)
        clear = ranked[:, -1] - ranked[:, -2] > 2 * allowed
    decided, theirs = decisions(ours), original.decide(people)
    outputs = original.scores(people)
    comparable = None if outputs is None else head.shown_by_it(np.asarray(outputs, np.float64))
    difference = np.zeros(len(people))
    if comparable is not None:
        mine = head.shown_by_us(ours)
        difference = np.abs(mine - comparable).max(axis=1)
    wrong = clear & (decided != theirs)
    far = ~(difference <= allowed)
    if wrong.any() or far.any():
        row = int(np.argmax(wrong if wrong.any() else np.where(far, difference, -1.0)))
        what = "decides otherwise" if wrong.any() else f"differs by {float(difference[row]):.3g}"
        person = ", ".join(f"{name}={value!r}" for name, value in people.iloc[row].to_dict().items())
        largest = max(float(np.abs(layer.weight).max(initial=0.0)) for layer in network.layers)
        advice = (
            f"Its weights, up to {largest:.1g}, are so large that rounding decides; scale the inputs and train again."
            if largest > HUGE
            else "Please report this; until then, this model cannot be examined."
        )
        raise InputError(
            f"what was read of this model is not the model: it {what} for {int(max(wrong.sum(), far.sum()))} of "
            f"{len(people)} random people, such as {person} ({original.runtime} is the judge). {advice}"
        )
    original.largest_difference = None if comparable is None else float(difference.max())
    original.people_compared = len(people)


def _ours(network: Network, encoding: Encoding, people: pd.DataFrame) -> tuple[np.ndarray, float]:
    """Our scores in float64, and how far from them rounding may lead: estimated from our own float32 arithmetic, and
    from what it does to give the original its numbers as float32.
    """
    inputs = _encoded(encoding, people)
    exact = forward(network, inputs)
    rough = forward(network, inputs, np.float32).astype(np.float64)
    numbers = people.select_dtypes("number").columns
    nearby = people.assign(**{name: people[name].astype(np.float32).astype(np.float64) for name in numbers})
    moved = forward(network, _encoded(encoding, nearby))
    seen = float(np.abs(exact - rough).max()), float(np.abs(exact - moved).max())
    largest = float(np.abs(exact).max(initial=0.0))
    if not np.isfinite(largest):
        raise InputError("the model's scores are infinite for people of the domain; narrow its ranges.")
    return exact, ROUNDING * sum(seen) + 1e-5 * (1.0 + largest)


def forward(network: Network, inputs: np.ndarray, precision: type[np.floating] = np.float64) -> np.ndarray:
    """The network in this precision, by NumPy."""
    function = NUMERIC_FUNCTIONS[network.activation]
    values = np.asarray(inputs, precision)
    for i, layer in enumerate(network.layers):
        reached = function(values).astype(precision) if i else values
        values = reached @ layer.weight.astype(precision).T + layer.bias.astype(precision)
    return values


def _encoded(encoding: Encoding, people: pd.DataFrame) -> np.ndarray:
    encoded = encoding.encode(people)
    assert encoded.sensitive is not None
    return np.concatenate([encoded.free, encoded.sensitive], axis=1)


class OnnxOriginal(Original):
    """An ONNX file run by onnxruntime, or (without it) by the reference implementation of ONNX."""

    def __init__(self, file: OnnxFile, understood: Understood, columns: Columns) -> None:
        self._file, self._understood, self._columns = file, understood, columns
        self._session, self.runtime = _session(file)

    def scores(self, table: pd.DataFrame) -> np.ndarray | None:
        name = self._understood.score_output
        return None if name is None else self._run(table, [name])[0]

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        label, shown = self._understood.label_output, self._understood.score_output
        if label is None:
            assert shown is not None
            return self._understood.head.decided_by_it(self._run(table, [shown])[0])
        found = self._run(table, [label])[0].ravel()
        order = {value: i for i, value in enumerate(self._understood.classes or ())}
        return np.array([order.get(value, -1) for value in found.tolist()], dtype=np.int64)

    def _run(self, table: pd.DataFrame, outputs: list[str]) -> list[np.ndarray]:
        feed = self._feed(table)
        rows = self._file.rows
        together = len(table) if rows == UNKNOWN_ROWS else rows
        parts: list[list[np.ndarray]] = []
        for start in range(0, len(table), max(together, 1)):
            some = {name: values[start : start + together] for name, values in feed.items()}
            count = len(next(iter(some.values())))
            if count < together:  # a fixed number of people: the last ones are run with copies
                some = {k: np.concatenate([v, np.repeat(v[-1:], together - count, axis=0)]) for k, v in some.items()}
            try:
                found = self._session.run(outputs, some)
            except Exception as error:
                reason = str(error).splitlines()[0][:300]
                raise InputError(f"{self._file.origin} cannot be run by {self.runtime}: {reason}.") from error
            parts.append([_table(values, self._understood.score_keys)[:count] for values in found])
        return [np.concatenate(values) for values in zip(*parts, strict=True)]

    def _feed(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        inputs, names, origin = self._file.inputs, self._columns.names, self._file.origin
        if len(inputs) == 1 and inputs[0].width != 1:
            only = inputs[0]
            columns = [as_input(table[name].to_numpy(object), only, name, origin) for name in names]
            return {only.name: np.stack(columns, axis=1)}
        feed = {}
        for given, name in zip(inputs, names, strict=True):
            column = as_input(table[name].to_numpy(object), given, name, origin)
            feed[given.name] = column if given.rank == 1 else column[:, None]
        return feed


def _session(file: OnnxFile) -> tuple[Any, str]:
    """Something that runs the file, and what it is called."""
    instead = ""
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        session = onnxruntime.InferenceSession(
            file.content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        return session, f"onnxruntime {onnxruntime.__version__}"
    except ImportError:
        instead = "reference"
    except Exception as error:  # noqa: BLE001  (of many kinds: too new, too old; the reference may know the file)
        instead = f"reference; onnxruntime says: {str(error).splitlines()[0][:120]}"
    import onnx
    from onnx.reference import ReferenceEvaluator

    try:
        model = onnx.load_model_from_string(file.content)
        for node in model.graph.node:
            if (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap"):  # shows the same scores in another form
                node.CopyFrom(onnx.helper.make_node("Identity", node.input, node.output))
        return ReferenceEvaluator(model), f"onnx {onnx.__version__} ({instead})"
    except Exception as error:
        reason = str(error).splitlines()[0][:300]
        raise InputError(f"{file.origin} cannot be run by any ONNX software here: {reason}.") from error


def _table(values: Any, keys: Sequence[Any] | None) -> np.ndarray:
    """One output as [people, columns]; a map from class to score becomes a row, in the order of the classes."""
    if isinstance(values, list) and values and isinstance(values[0], dict):
        return np.array([[row[key] for key in keys or row] for row in values])
    array = np.asarray(values)
    return array[:, None] if array.ndim == 1 else array.reshape(len(array), -1)
