"""Algorithm 1: learn with the sensitive value randomised, one compiled loop per epoch.

While the sensitive weights V are exactly 0 and the response is an exact expectation that makes the mean code 0 (own
values at γ = 0, the population's at every γ), all |S| copies of a row are the same computation and V's gradient is
exactly 0 (docs/theory.md). Then one pass over the free columns serves all copies and V is never touched: fair training
runs the very loop that plain training (ERM) runs, on fewer columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import numpy as np
import optax

from bornfair.core.errors import InputError
from bornfair.models.network.network import CHUNK, Network, Parameters
from bornfair.parallel.task import require_jax
from bornfair.people.encoding import aligned_zeros
from bornfair.training.embedding import Embedding
from bornfair.training.epochs import Callback, Plan, Run, State, Training, rates, split
from bornfair.training.loops import Regularised, compiled_loops
from bornfair.training.response import Released, Response

EVALUATION_ROWS = 8192  # rows per step when evaluating: bounds memory for wide networks and long tables


@dataclass(frozen=True, eq=False)
class TrainingData:
    """An encoded table with class indices. `sensitive` and `true_index` are read only by responses that need them."""

    free: np.ndarray  # float32 [rows, free]
    classes: np.ndarray  # int [rows], 0 … K−1
    sensitive: np.ndarray | None = None  # float32 [rows, sensitive]: the true codes (response 'none')
    true_index: np.ndarray | None = None  # int [rows]: the true position in S (sampled, or γ ≠ 0)
    codes: np.ndarray | None = None  # float32 [|S|, sensitive]
    weights: np.ndarray | None = None  # float [rows]
    targets: np.ndarray | None = None
    """What is learnt in place of the classes, float32 [rows, outputs], or one such for each member."""

    def scores(self, network: Network, rows: np.ndarray | None = None) -> np.ndarray:
        """What a network over the free columns and the codes gives these people. The encoded table is not made whole
        once more, which a long one would not leave room for.
        """
        rows = np.arange(len(self.free)) if rows is None else rows
        found, width = [np.zeros((0, network.outputs), np.float32)], network.widths[0] - self.free.shape[1]
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            codes = np.zeros((len(some), width), np.float32)
            if self.sensitive is not None:
                codes = self.sensitive[some]
            elif self.codes is not None and self.true_index is not None:
                codes = self.codes[self.true_index[some]]
            found.append(network.scores(np.concatenate([self.free[some], codes], axis=1)))
        return np.concatenate(found)


def train(
    start: Network | Sequence[Network],
    data: TrainingData,
    response: Response,
    plan: Plan,
    *,
    callbacks: tuple[Callback, ...] = (),
    checkpoint_path: str | Path | None = None,
    resume: bool = False,
    optimiser_state: list[np.ndarray] | None = None,
    transformation: optax.GradientTransformation | None = None,
    embedding: Embedding | None = None,
) -> Training:
    """Train from `start`. Killed at any moment and resumed from its checkpoint, a run ends with the same bytes.

    Several members need a start for each. With an embedding the starts read its columns in place of the free ones; the
    network that comes out reads the free columns themselves.
    """
    require_jax()
    starts = (start,) if isinstance(start, Network) else tuple(start)
    run = TableRun(starts, data, response, plan, transformation, embedding)
    return run.trained(callbacks, checkpoint_path, resume, optimiser_state)


class TableRun(Run):
    """A run over a table in memory: data on the device, the split, the compiled loops."""

    def __init__(
        self,
        starts: Sequence[Network],
        data: TrainingData,
        response: Response,
        plan: Plan,
        transformation: optax.GradientTransformation | None,
        embedding: Embedding | None,
    ) -> None:
        self.data = data
        if embedding is not None:
            data = replace(data, free=embedding.columns(data.free))
        _check_shapes(starts, data, response, plan)
        super().__init__(starts, data.free.shape[1], response, plan, transformation, embedding)
        self.parts = [split(data.classes, plan, member) for member in range(plan.members if plan.rotates else 1)]
        self.table = _on_device(data, response, self.collapsed)
        if response.of_population and not self.collapsed:
            self.released = _released(data, response, self.parts[0][0])  # by the rows of the first member, or of all
            self.table |= {name: jax.device_put(array) for name, array in self.released.tables().items()}
        responded = None if self.collapsed or response.mode == "none" else response
        regularised = Regularised(plan.dropout, plan.label_smoothing)
        self.epoch_loop, self.evaluation_loop = compiled_loops(
            self.activation, responded, self.free_width, self.optimiser_key, regularised, plan.members, plan.averaging,
            plan.rotates,
        )  # fmt: skip

    def described(self) -> tuple[str, Sequence[np.ndarray | None]]:
        start, data = self.starts[0], self.data
        settings = repr((self.plan.record(), asdict(self.response), start.widths, start.activation))
        return settings, (data.free, data.classes, data.sensitive, data.true_index, data.weights, data.targets)

    def one_epoch(self, state: State, keep: Callable[[State], None]) -> State:
        began = time.perf_counter()
        most = max(len(rows) for rows, _ in self.parts)
        members = [
            _batches(self.parts[m % len(self.parts)][0], self.plan, state.epoch, m, most)
            for m in range(self.plan.members)
        ]
        pace = rates(self.plan, state.epoch, len(members[0]))
        rows = members[0] if len(members) == 1 else np.stack(members)
        carried, loss = self.epoch_loop(state.carried, self.table, rows, pace, self.key, state.epoch)
        judge = self.evaluate if len(self.parts[0][1]) else None
        return self.ended(state.after(carried), float(np.mean(loss)), judge, began)

    def evaluate(self, parameters: Parameters) -> tuple[float, float]:
        aside = [rows for _, rows in self.parts]
        most = max(map(len, aside))
        chunks = [_padded(rows, min(EVALUATION_ROWS, most), most) for rows in aside]
        loss, right = self.evaluation_loop(parameters, self.table, chunks[0] if len(chunks) == 1 else np.stack(chunks))
        return float(np.mean(loss)), float(np.mean(right))


# --- rows, checks ---


def _on_device(data: TrainingData, response: Response, collapsed: bool) -> dict[str, jax.Array]:
    """What the compiled loops read. An aligned table is read where it is (Encoding.encode makes one), so a long table
    is in memory once.
    """
    inputs, true = data.free, data.true_index
    if not collapsed and response.mode == "none":
        sensitive = _needed(data.sensitive, "the sensitive codes")
        inputs = aligned_zeros((len(inputs), inputs.shape[1] + sensitive.shape[1]), np.float32)
        np.concatenate([data.free, sensitive], axis=1, out=inputs)
    table = {"inputs": jax.device_put(inputs), "classes": _as_int32(data.classes)}
    if data.weights is not None:
        scaled = np.asarray(data.weights, np.float64) / np.mean(data.weights)
        table["weights"] = jax.device_put(scaled.astype(np.float32))
    if data.targets is not None:
        table["targets"] = jax.device_put(data.targets)
    if not collapsed and response.mode != "none":
        table["codes"] = jax.device_put(_needed(data.codes, "the codes of all sensitive values"))
        if true is None and response.reads_values:
            raise InputError("this response needs each row's true sensitive value, but the table has none.")
        table["true"] = _as_int32(np.zeros(len(data.free), np.int32) if true is None else true)
    return table


def _released(data: TrainingData, response: Response, rows: np.ndarray) -> Released:
    codes = _needed(data.codes, "the codes of all sensitive values")
    true = None if data.true_index is None else data.true_index[rows]
    weights = None if data.weights is None else np.asarray(data.weights, np.float64)[rows]
    return Released.of(response, codes, true, weights)


def _batches(rows: np.ndarray, plan: Plan, epoch: int, member: int, most: int) -> np.ndarray:
    """This epoch's batches, as many as `most` rows need, from seed, epoch and member alone: a resumed run sees the same
    ones.
    """
    generator = np.random.Generator(np.random.Philox(key=[plan.seed, epoch + (member << 32)]))
    batches = _padded(rows, min(plan.batch_size, most), most)
    generator.shuffle(batches.reshape(-1)[: len(rows)])  # in place: for long tables every copy of the order counts
    return batches


def _padded(rows: np.ndarray, size: int, most: int) -> np.ndarray:
    """The rows in lines of `size`, as many as `most` rows fill, the rest filled up with -1."""
    lines = aligned_zeros((-(-most // size), size), np.int32)
    flat = lines.reshape(-1)
    flat[: len(rows)], flat[len(rows) :] = rows, -1
    return lines


def _as_int32(numbers: np.ndarray) -> jax.Array:
    aligned = aligned_zeros(numbers.shape, np.int32)
    np.copyto(aligned, numbers, casting="unsafe")  # straight from any type, where JAX can read it
    return jax.device_put(aligned)


def _check_shapes(starts: Sequence[Network], data: TrainingData, response: Response, plan: Plan) -> None:
    if not len(data.free):
        raise InputError("there are no rows to train on.")
    if len(starts) != plan.members or len({own.widths for own in starts}) > 1:
        raise InputError(f"{plan.members} members need as many starts of one shape, found {len(starts)}.")
    start = starts[0]
    extra = start.widths[0] - data.free.shape[1]
    coded = data.codes if data.codes is not None else data.sensitive
    if extra < 0 or (coded is not None and extra not in (0, coded.shape[1])):
        raise InputError(
            f"the start takes {start.widths[0]} inputs, but the table encodes to {data.free.shape[1]} free and "
            f"{0 if coded is None else coded.shape[1]} sensitive columns."
        )
    if data.weights is not None:
        weights = np.asarray(data.weights)
        usable = np.isfinite(weights) & (weights >= 0)
        if weights.shape != data.classes.shape or not usable.all() or not weights.any():
            raise InputError("sample weights must be one finite number of at least 0 for each row, and not all 0.")
    if response.mode == "none" and extra and data.sensitive is None:
        raise InputError("response='none' trains on the sensitive columns, but the table has none.")


def _needed(array: np.ndarray | None, what: str) -> np.ndarray:
    if array is None:
        raise InputError(f"this response needs {what}, but the training data has none.")
    return array
