"""How does the model decide as it came, in its own software? And does what was read of it decide the same?

Every model that is read is compared with its original on people of the domain before anybody relies on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import metadata

import numpy as np
import pandas as pd

from bornfair.errors import InputError
from bornfair.models.importers.affine import NUMERIC_FUNCTIONS
from bornfair.models.importers.columns import Columns
from bornfair.models.importers.head import Head
from bornfair.models.importers.onnx_end import Understood
from bornfair.models.importers.onnx_file import OnnxFile, as_input
from bornfair.models.importers.onnx_node import UNKNOWN_ROWS
from bornfair.models.importers.onnx_worker import CannotRun, ForeignGraph
from bornfair.models.importers.probing import telling_people
from bornfair.models.network import Network, decisions
from bornfair.people.encoding import Encoding

PEOPLE = 2_048
TOGETHER = 8_192  # people in one run of a graph
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
    reads: tuple[str, ...] = ()  # the features it is given
    likely_wrong: pd.DataFrame | None = None  # people of the domain about whom it and the network are likely to differ
    plain_sums: bool = False
    """Whether it executes just the network that was read: float32 sums and ReLUs, compared as they are. Bounds on every
    order of summation then speak of it, too.
    """

    @abstractmethod
    def scores(self, table: pd.DataFrame) -> np.ndarray | None:
        """What it shows for raw rows: probabilities or scores [rows, columns]; None if it gives decisions only."""

    @abstractmethod
    def decide(self, table: pd.DataFrame) -> np.ndarray:
        """Its class index for each raw row."""


def check(
    original: Original,
    head: Head,
    network: Network,
    encoding: Encoding,
    *,
    table: pd.DataFrame | None = None,
    seed: int = 0,
) -> None:
    """Compare on random people, and on those an import is likely to be wrong about; refuse to go on if decisions differ
    by more than rounding can explain.
    """

    def score(people: pd.DataFrame) -> np.ndarray:
        return forward(network, _encoded(encoding, people))

    def decide(people: pd.DataFrame) -> np.ndarray:
        return decisions(score(people))

    likely = telling_people(encoding.domain, score, (decide, original.decide), table=table, seed=seed)
    original.likely_wrong = likely
    differences = []
    for people in (encoding.domain.sample(PEOPLE, seed=seed), likely):
        differences.append(_compared(original, head, network, encoding, people))
        original.people_compared += len(people)
    shown = [difference for difference in differences if difference is not None]
    original.largest_difference = max(shown, default=None)


def _compared(
    original: Original, head: Head, network: Network, encoding: Encoding, people: pd.DataFrame
) -> float | None:
    """By how much scores differ at most; None if only decisions can be compared."""
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
        raise InputError(
            f"what was read of this model is not the model: it {what} for {int(max(wrong.sum(), far.sum()))} of "
            f"{len(people)} people, such as {person} ({original.runtime} is the judge). "
            f"{_advice(network, head, None if outputs is None else outputs[row])}"
        )
    return None if comparable is None else float(difference.max())


def _advice(network: Network, head: Head, shown: np.ndarray | None) -> str:
    largest = max(float(np.abs(layer.weight).max(initial=0.0)) for layer in network.layers)
    tie = head.probabilities if shown is None else len(shown) > 1 and np.sort(shown)[-1] == np.sort(shown)[-2]
    if tie:
        return "Its scores are rounded until they are equal there; export it without its last sigmoid or softmax."
    if largest > HUGE:
        return (
            f"Its weights, up to {largest:.1g}, are so large that rounding decides; scale the inputs and train again."
        )
    return "Please report this; until then, this model cannot be examined."


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
    """The part of an ONNX file that was read, run by onnxruntime in a process of its own."""

    def __init__(self, file: OnnxFile, understood: Understood, columns: Columns) -> None:
        self._file, self._understood, self._columns = file, understood, columns
        self.runtime = f"onnxruntime {metadata.version('onnxruntime')}"
        self._graph = ForeignGraph(
            file.pruned([name for name in (understood.label_output, understood.score_output) if name is not None])
        )

    def scores(self, table: pd.DataFrame) -> np.ndarray | None:
        name = self._understood.score_output
        return None if name is None else self._run(table)[name]

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        label, shown = self._understood.label_output, self._understood.score_output
        if label is None:
            assert shown is not None
            return self._understood.head.decided_by_it(self._run(table)[shown])
        found = self._run(table)[label].ravel()
        order = {value: i for i, value in enumerate(self._understood.classes or ())}
        return np.array([order.get(value, -1) for value in found.tolist()], dtype=np.int64)

    def _run(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """All outputs as [people, columns]."""
        feed, rows = self._feed(table), self._file.rows
        together = TOGETHER if rows == UNKNOWN_ROWS else rows
        parts: list[dict[str, np.ndarray]] = []
        for start in range(0, max(len(table), 1), together):
            some = {name: values[start : start + together] for name, values in feed.items()}
            count = len(next(iter(some.values())))
            if rows != UNKNOWN_ROWS and count < together:  # a fixed number of people: the last ones are run with copies
                some = {k: np.concatenate([v, np.repeat(v[-1:], together - count, axis=0)]) for k, v in some.items()}
            try:
                found = self._graph.run(some)
            except CannotRun as error:
                raise InputError(f"{self._file.origin} cannot be run by {self.runtime}: {error}.") from error
            parts.append({name: values.reshape(len(values), -1)[:count] for name, values in found.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

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
