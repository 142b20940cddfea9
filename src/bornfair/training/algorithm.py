"""Algorithm 1: learn with the sensitive value randomised, one compiled loop per epoch.

While the sensitive weights V are exactly 0 and the response is an exact expectation that makes the mean code 0 (own
values at γ = 0, the population's at every γ), all |S| copies of a row are the same computation and V's gradient is
exactly 0 (docs/theory.md). Then one pass over the free columns serves all copies and V is never touched: fair training
runs the very loop that plain training (ERM) runs, on fewer columns.
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bornfair import checkpoint
from bornfair.checks import choice, number, whole
from bornfair.errors import Diverged, InputError
from bornfair.models.network import CHUNK, Network, Parameters
from bornfair.people.encoding import aligned_zeros
from bornfair.training.embedding import Embedding, mean_of
from bornfair.training.loops import OptimiserKey, OptimiserName, Regularised, compiled_loops, transformation_of
from bornfair.training.population import Released
from bornfair.training.response import Response

Schedule = Literal["constant", "cosine"]
EVALUATION_ROWS = 8192  # rows per step when evaluating: bounds memory for wide networks and long tables


@dataclass(frozen=True)
class Plan:
    """How to train; with a seed it fixes every byte of the result."""

    epochs: int = 100
    batch_size: int = 64
    optimiser: OptimiserName = "sgd"
    learning_rate: float = 0.01
    schedule: Schedule = "constant"
    momentum: float = 0.9
    weight_decay: float = 0.0
    validation_fraction: float = 0.0
    patience: int | None = None
    """Stop when the validation loss has not improved for so many epochs, and keep the best network."""
    seed: int = 0
    dropout: float = 0.0
    """Share of hidden values left out at each step; the sensitive codes are inputs and never left out."""
    label_smoothing: float = 0.0
    members: int = 1
    """So many networks are trained side by side, from starts and in orders of their own; what is kept is their mean."""
    rotate: bool = False
    """Each member keeps other rows aside for early stopping, so that together they learn from all of them."""
    averaging: float = 0.0
    """What is judged and kept is a running mean of the weights: how much of it each step keeps; 0: the last weights."""

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, 0)
        whole("batch_size", self.batch_size, 1)
        number("learning_rate", self.learning_rate, 0.0, math.inf, open_low=True)
        number("momentum", self.momentum, 0.0, 1.0)
        number("weight_decay", self.weight_decay, 0.0, math.inf)
        number("validation_fraction", self.validation_fraction, 0.0, 0.9)
        whole("seed", self.seed, 0)
        number("dropout", self.dropout, 0.0, 0.9)
        number("label_smoothing", self.label_smoothing, 0.0, 0.9)
        whole("members", self.members, 1)
        number("averaging", self.averaging, 0.0, 0.99999)
        choice("optimiser", self.optimiser, get_args(OptimiserName))
        choice("schedule", self.schedule, get_args(Schedule))
        if self.patience is not None:
            whole("patience", self.patience, 1)
            if self.validation_fraction == 0:
                raise InputError("patience (early stopping) needs validation_fraction above 0, for instance 0.1.")

    @property
    def rotates(self) -> bool:
        """Whether members do keep other rows aside."""
        return self.rotate and self.members > 1 and self.validation_fraction > 0

    def record(self) -> dict[str, Any]:
        """All that was chosen; of what is off by default, only what was switched on."""
        usual = {"dropout": 0.0, "label_smoothing": 0.0, "members": 1, "rotate": False, "averaging": 0.0}
        return {name: value for name, value in asdict(self).items() if usual.get(name) != value}


@dataclass(frozen=True, eq=False)
class TrainingData:
    """An encoded table with class indices. `sensitive` and `true_index` are read only by responses that need them."""

    free: np.ndarray  # float32 [rows, free]
    classes: np.ndarray  # int [rows], 0 … K−1
    sensitive: np.ndarray | None = None  # float32 [rows, sensitive]: the true codes (response 'none')
    true_index: np.ndarray | None = None  # int [rows]: the true position in S (sampled, or γ ≠ 0)
    codes: np.ndarray | None = None  # float32 [|S|, sensitive]
    weights: np.ndarray | None = None  # float [rows]

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


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did. `seconds` counts the compiled loop and evaluation of this epoch alone."""

    epoch: int
    loss: float
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Epoch:
    """What a callback sees. `network()` copies the parameters out only when asked."""

    record: EpochRecord
    epochs: int
    network: Callable[[], Network]


@dataclass(frozen=True)
class Training:
    """The result of a run."""

    network: Network
    history: tuple[EpochRecord, ...]
    best_epoch: int
    collapsed: bool
    """Whether one pass served all copies, so that the sensitive weights were never touched."""
    optimiser_state: list[np.ndarray] = field(default_factory=list, repr=False)
    members: tuple[Network, ...] = field(default=(), repr=False)
    """What was trained: the network itself, or those whose mean it is, behind its embedding."""


Callback = Callable[[Epoch], "bool | None"]
"""Called after each epoch; returning True stops the training."""


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
    starts = (start,) if isinstance(start, Network) else tuple(start)
    run = Run(starts, data, response, plan, transformation, embedding)
    state = run.initial_state(optimiser_state)
    mark = None if checkpoint_path is None else _fingerprint(starts, data, response, plan, embedding)
    if resume and checkpoint_path is not None and Path(checkpoint_path).exists():
        state = run.restored(state, checkpoint.load(checkpoint_path, expected=mark or ""))
    while state.epoch < plan.epochs and not state.stopped:
        state = run.one_epoch(state)
        seen = Epoch(state.history[-1], plan.epochs, functools.partial(run.network, state.judged))
        answers = [callback(seen) for callback in callbacks]  # every callback sees every epoch, whoever asks to stop
        if True in answers:
            state = replace(state, stopped=True)
        if checkpoint_path is not None:
            checkpoint.save(checkpoint_path, run.saved(state), expected=mark or "")
    return run.result(state)


@dataclass(frozen=True)
class State:
    """Everything that changes from epoch to epoch; this is what a checkpoint holds."""

    parameters: Parameters
    optimiser: Any
    best: Parameters
    best_loss: float = math.inf
    best_epoch: int = 0
    epoch: int = 0
    stopped: bool = False
    history: tuple[EpochRecord, ...] = ()
    steps: int = 0
    """Of the epoch that is under way, where it is left in the middle, and its loss so far."""
    loss: float = 0.0
    averaged: Parameters | None = None

    @property
    def judged(self) -> Parameters:
        return self.parameters if self.averaged is None else self.averaged


class Run:
    """What stays the same during a run: data on the device, the split, the compiled loops."""

    released: Released | None

    def __init__(
        self,
        starts: Sequence[Network],
        data: TrainingData,
        response: Response,
        plan: Plan,
        transformation: optax.GradientTransformation | None,
        embedding: Embedding | None = None,
    ) -> None:
        if embedding is not None:
            data = replace(data, free=embedding.columns(data.free))
        _check_shapes(starts, data, response, plan)
        self._begin(starts, data.free.shape[1], response, plan, transformation, embedding)
        self.parts = [split(data.classes, plan, member) for member in range(plan.members if plan.rotates else 1)]
        self.training_rows = self.parts[0][0]  # of the first member, or of all
        self.table = _on_device(data, response, self.collapsed)
        if response.of_population and not self.collapsed:
            self.released = _released(data, response, self.training_rows)
            self.table |= {name: jax.device_put(array) for name, array in self.released.tables().items()}
        responded = None if self.collapsed or response.mode == "none" else response
        regularised = Regularised(plan.dropout, plan.label_smoothing)
        loops = compiled_loops(
            self.activation,
            responded,
            self.free_width,
            self.optimiser_key,
            regularised,
            plan.members,
            plan.averaging,
            plan.rotates,
        )
        self.epoch_loop, self.evaluation_loop = loops

    def _begin(
        self,
        starts: Sequence[Network],
        free_width: int,
        response: Response,
        plan: Plan,
        transformation: optax.GradientTransformation | None,
        embedding: Embedding | None,
    ) -> None:
        """What does not depend on where the rows are."""
        start = starts[0]
        self.starts, self.plan, self.activation, self.embedding = starts, plan, start.activation, embedding
        self.free_width, self.released = free_width, None
        zero_start = all(own.ignores_sensitive(free_width) for own in starts)
        self.collapsed = start.widths[0] == free_width or (response.preserves_fairness and zero_start)
        self.optimiser_key = transformation or OptimiserKey(plan.optimiser, plan.momentum, plan.weight_decay)
        self.transformation = transformation_of(self.optimiser_key)
        keys = [jax.random.key(plan.seed)]
        keys += [jax.random.fold_in(keys[0], 2**31 + member) for member in range(1, plan.members)]
        self.key = self._together([jax.random.key_data(key) for key in keys])

    # --- state ---

    def initial_state(self, optimiser_state: list[np.ndarray] | None) -> State:
        parameters = self._together([self._first_parameters(start) for start in self.starts])
        init = self.transformation.init
        optimiser = init(parameters) if self.plan.members == 1 else jax.vmap(init)(parameters)
        if optimiser_state:
            optimiser = _unflattened(optimiser, optimiser_state)
        return State(parameters, optimiser, best=parameters, averaged=parameters if self.plan.averaging else None)

    def _first_parameters(self, start: Network) -> Parameters:
        parameters = start.to_jax()
        weight, bias = parameters[0]
        if self.collapsed:
            parameters[0] = (weight[:, : self.free_width], bias)
        elif self.released is not None:
            parameters[0] = (weight, jnp.asarray(self.released.bias_of_centred(weight, bias)))
        return parameters

    def _together(self, members: Sequence[Any]) -> Any:
        """One for each member, as the compiled loops take them."""
        return members[0] if self.plan.members == 1 else jax.tree.map(lambda *own: jnp.stack(own), *members)

    def saved(self, state: State) -> checkpoint.Saved:
        tensors = {}
        for name in ("parameters", "optimiser", "best", "averaged"):  # without averaging, the last has no leaves
            for i, leaf in enumerate(jax.tree.leaves(getattr(state, name))):
                tensors[f"{name}.{i}"] = np.asarray(leaf)
        facts = {
            "best_loss": state.best_loss if math.isfinite(state.best_loss) else None,
            "best_epoch": state.best_epoch,
            "epoch": state.epoch,
            "stopped": state.stopped,
            "history": [asdict(record) for record in state.history],
            **({"steps": state.steps, "loss": state.loss} if state.steps else {}),
        }
        return checkpoint.Saved(tensors, facts)

    def restored(self, template: State, saved: checkpoint.Saved) -> State:
        def tree(name: str) -> Any:
            blank = [np.asarray(leaf) for leaf in jax.tree.leaves(getattr(template, name))]
            leaves = [saved.tensors[f"{name}.{i}"] for i in range(len(blank))]
            if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in blank]:
                raise ValueError(f"other {name}")
            return _unflattened(getattr(template, name), leaves)

        try:
            facts = saved.facts
            history = tuple(EpochRecord(**record) for record in facts["history"])
            numbers = [value for record in facts["history"] for value in record.values() if value is not None]
            counted = [record.epoch for record in history] == list(range(1, len(history) + 1))
            if not counted or not all(type(value) in (int, float) and float(value) < math.inf for value in numbers):
                raise ValueError("other epochs")
            return State(
                tree("parameters"), tree("optimiser"), tree("best"),
                best_loss=math.inf if facts["best_loss"] is None else float(facts["best_loss"]),
                best_epoch=int(facts["best_epoch"]), epoch=len(history), stopped=bool(facts["stopped"]),
                history=history, steps=int(facts.get("steps", 0)), loss=float(facts.get("loss", 0.0)),
                averaged=tree("averaged"),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"the checkpoint does not fit this run ({error}); delete it to start from the beginning."
            ) from error

    # --- one epoch ---

    def one_epoch(self, state: State) -> State:
        began = time.perf_counter()
        most = max(len(rows) for rows, _ in self.parts)
        members = [
            _batches(self.parts[m % len(self.parts)][0], self.plan, state.epoch, m, most)
            for m in range(self.plan.members)
        ]
        pace = rates(self.plan, state.epoch, len(members[0]))
        rows = members[0] if len(members) == 1 else np.stack(members)
        parameters, optimiser, averaged, loss = self.epoch_loop(
            state.parameters, state.optimiser, state.averaged, self.table, rows, pace, self.key, state.epoch
        )
        judge = self.evaluate if len(self.parts[0][1]) else None
        return self.ended(state, parameters, optimiser, averaged, float(np.mean(loss)), judge, began)

    def ended(
        self,
        state: State,
        parameters: Parameters,
        optimiser: Any,
        averaged: Parameters | None,
        mean_loss: float,
        judge: Callable[[Parameters], tuple[float, float]] | None,
        began: float,
    ) -> State:
        """What follows from an epoch: what is best so far, and whether to stop."""
        epoch = state.epoch + 1
        if not math.isfinite(mean_loss):
            raise Diverged(
                f"training diverged in epoch {epoch}: the loss is {mean_loss}; lower the learning rate "
                f"({self.plan.learning_rate}) or scale extreme values in the table."
            )
        validation_loss = accuracy = None
        judged = parameters if averaged is None else averaged
        best, best_loss, best_epoch = judged, state.best_loss, epoch
        stopped = False
        if judge is not None:
            validation_loss, accuracy = judge(judged)
            if self.plan.patience is not None:
                if validation_loss < state.best_loss:
                    best_loss = validation_loss
                else:
                    best, best_epoch = state.best, state.best_epoch
                stopped = epoch - best_epoch >= self.plan.patience
        record = EpochRecord(epoch, mean_loss, validation_loss, accuracy, time.perf_counter() - began)
        history = (*state.history, record)
        return State(
            parameters, optimiser, best, best_loss, best_epoch, epoch, stopped, history, averaged=averaged
        )  # fmt: skip

    def evaluate(self, parameters: Parameters) -> tuple[float, float]:
        aside = [rows for _, rows in self.parts]
        most = max(map(len, aside))
        chunks = [_padded(rows, min(EVALUATION_ROWS, most), most) for rows in aside]
        loss, right = self.evaluation_loop(parameters, self.table, chunks[0] if len(chunks) == 1 else np.stack(chunks))
        return float(np.mean(loss)), float(np.mean(right))

    # --- result ---

    def network(self, parameters: Parameters) -> Network:
        """The mean of all members, over the free columns."""
        network = mean_of(self.members(parameters))
        return network if self.embedding is None else self.embedding.folded(network)

    def members(self, parameters: Parameters) -> tuple[Network, ...]:
        if self.plan.members == 1:
            return (self._member(parameters, self.starts[0]),)
        own = ([(weight[m], bias[m]) for weight, bias in parameters] for m in range(self.plan.members))
        return tuple(self._member(*pair) for pair in zip(own, self.starts, strict=True))

    def _member(self, parameters: Parameters, start: Network) -> Network:
        layers = [(np.asarray(weight), np.asarray(bias)) for weight, bias in parameters]
        if self.collapsed:
            weight = np.concatenate([layers[0][0], start.sensitive_weights(self.free_width)], axis=1)
            layers[0] = (weight, layers[0][1])
        elif self.released is not None:
            layers[0] = (layers[0][0], self.released.bias_of_shipped(*layers[0]))
        return Network.from_jax(layers, self.activation)

    def result(self, state: State) -> Training:
        network = self.network(state.best)
        if (i := network.broken_layer) is not None:
            raise Diverged(f"training diverged: layer {i} holds NaN or infinity; lower the learning rate.")
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state.optimiser)]
        return Training(
            network, state.history, state.best_epoch, self.collapsed, leaves, members=self.members(state.best)
        )


# --- rows, rates, checks ---


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


def split(classes: np.ndarray, plan: Plan, member: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions for training and validation, the latter drawn within each class; of one member where these rotate."""
    everyone = np.arange(len(classes), dtype=np.int32)
    if plan.validation_fraction == 0:
        return everyone, everyone[:0]
    generator = np.random.default_rng([plan.seed, 1])
    if plan.rotates:
        parts = max(2, round(1 / plan.validation_fraction))
        order = np.concatenate([generator.permutation(np.flatnonzero(classes == v)) for v in np.unique(classes)])
        held_out = np.zeros(len(classes), dtype=bool)
        held_out[order[member % parts :: parts]] = len(classes) >= 2 * parts
        return everyone[~held_out], everyone[held_out]
    held_out = np.zeros(len(classes), dtype=bool)
    for value in np.unique(classes):
        members = np.flatnonzero(classes == value)
        held_out[generator.permutation(members)[: round(plan.validation_fraction * len(members))]] = True
    if not held_out.any():
        return everyone, everyone[:0]  # too few rows to spare any: train on all, without early stopping
    return everyone[~held_out], everyone[held_out]


def shared_split(classes: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Positions that some member learns from, and those that none does."""
    return split(classes, replace(plan, validation_fraction=0.0, patience=None) if plan.rotates else plan)


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


def rates(plan: Plan, epoch: int, steps: int) -> np.ndarray:
    if plan.schedule == "constant":
        return np.full(steps, plan.learning_rate, np.float32)
    progress = (epoch + np.arange(steps) / steps) / plan.epochs
    return (plan.learning_rate * 0.5 * (1 + np.cos(np.pi * progress))).astype(np.float32)


def _fingerprint(
    starts: Sequence[Network], data: TrainingData, response: Response, plan: Plan, embedding: Embedding | None
) -> str:
    """Binds a checkpoint to its run: resuming with other data or settings is refused."""
    start = starts[0]
    digest = hashlib.sha256(repr((plan.record(), asdict(response), start.widths, start.activation)).encode())
    arrays = data.free, data.classes, data.sensitive, data.true_index, data.weights
    tensors = (tensor for own in starts for tensor in own.tensors().values())
    for array in (*arrays, *tensors, *(() if embedding is None else embedding.tensors())):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _unflattened(template: Any, leaves: list[np.ndarray]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(leaf) for leaf in leaves])


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
        if (
            weights.shape != data.classes.shape
            or not np.isfinite(weights).all()
            or (weights < 0).any()
            or not weights.any()
        ):
            raise InputError("sample weights must be one finite number of at least 0 for each row, and not all 0.")
    if response.mode == "none" and extra and data.sensitive is None:
        raise InputError("response='none' trains on the sensitive columns, but the table has none.")


def _needed(array: np.ndarray | None, what: str) -> np.ndarray:
    if array is None:
        raise InputError(f"this response needs {what}, but the training data has none.")
    return array
