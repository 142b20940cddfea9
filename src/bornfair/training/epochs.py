"""How is an epoch repeated until it is enough, and taken up again after an interrupt?

What an epoch does is said by a kind of run: of a table in memory (`algorithm`) or in windows (`streaming`).
"""

from __future__ import annotations

import functools
import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from bornfair.core import checkpoint
from bornfair.core.checks import choice, number, whole
from bornfair.core.errors import Diverged, InputError
from bornfair.models.network.network import Network, Parameters
from bornfair.training.embedding import Embedding, mean_of
from bornfair.training.hosts import ALONE, Hosts
from bornfair.training.loops import Carried, OptimiserKey, OptimiserName, transformation_of
from bornfair.training.response import Released, Response

# --- how to train: settings, rows, pace ---

Schedule = Literal["constant", "cosine"]


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

    @property
    def parts(self) -> int:
        """Of how many parts of the rows members keep one aside each."""
        return max(2, round(1 / self.validation_fraction))

    def record(self) -> dict[str, Any]:
        """All that was chosen; of what is off by default, only what was switched on."""
        usual = {"dropout": 0.0, "label_smoothing": 0.0, "members": 1, "rotate": False, "averaging": 0.0}
        return {name: value for name, value in asdict(self).items() if usual.get(name) != value}


def split(classes: np.ndarray, plan: Plan, member: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions for training and validation, the latter drawn within each class; of one member where these rotate."""
    everyone = np.arange(len(classes), dtype=np.int32)
    if plan.validation_fraction == 0:
        return everyone, everyone[:0]
    generator = np.random.default_rng([plan.seed, 1])
    held_out = np.zeros(len(classes), dtype=bool)  # of too few rows nobody: then there is no early stopping
    if plan.rotates:
        parts = plan.parts
        order = np.concatenate([generator.permutation(np.flatnonzero(classes == v)) for v in np.unique(classes)])
        held_out[order[member % parts :: parts]] = len(classes) >= 2 * parts
    else:
        for value in np.unique(classes):
            members = np.flatnonzero(classes == value)
            held_out[generator.permutation(members)[: round(plan.validation_fraction * len(members))]] = True
    return everyone[~held_out], everyone[held_out]


def shared_split(classes: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Positions that some member learns from, and those that none does."""
    return split(classes, replace(plan, validation_fraction=0.0, patience=None) if plan.rotates else plan)


def rates(plan: Plan, epoch: int, steps: int) -> np.ndarray:
    if plan.schedule == "constant":
        return np.full(steps, plan.learning_rate, np.float32)
    progress = (epoch + np.arange(steps) / steps) / plan.epochs
    return (plan.learning_rate * 0.5 * (1 + np.cos(np.pi * progress))).astype(np.float32)


def with_numbers(chosen: dict[str, Any], rows: int) -> dict[str, Any]:
    """Settings with every 'auto' turned into a number for a table of so many rows."""
    batch = batch_size_for(rows) if chosen["batch_size"] == "auto" else chosen["batch_size"]
    epochs, patience = epochs_for(rows, batch if isinstance(batch, int) and batch > 0 else 1)
    automatic = {"batch_size": batch, "epochs": epochs, "patience": patience}
    return chosen | {name: value for name, value in automatic.items() if chosen[name] == "auto"}


def epochs_for(rows: int, batch_size: int) -> tuple[int, int]:
    """Epochs, and epochs without improvement before stopping: 60 and 10, or more where an epoch has few steps.

    >>> epochs_for(26_000, 256), epochs_for(60, 32)
    ((60, 10), (750, 125))
    """
    steps = -(-rows // batch_size)
    return max(60, 1500 // steps), max(10, 250 // steps)


def batch_size_for(rows: int) -> int:
    """About a hundred steps an epoch, in batches of 32 to 512.

    >>> batch_size_for(800), batch_size_for(26_000), batch_size_for(10**7)
    (32, 256, 512)
    """
    size = 32
    while size < 512 and size * 150 < rows:
        size *= 2
    return size


# --- the records of a run ---

TREES = ("parameters", "optimiser", "best", "averaged")


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


Callback = Callable[[Epoch], "bool | None"]
"""Called after each epoch; returning True stops the training."""


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


@dataclass(frozen=True)
class State:
    """Everything that changes from epoch to epoch; this is what a checkpoint holds."""

    parameters: Parameters
    optimiser: Any
    best: Parameters
    averaged: Parameters | None = None
    best_loss: float = math.inf
    best_epoch: int = 0
    stopped: bool = False
    history: tuple[EpochRecord, ...] = ()
    steps: int = 0
    """Of the epoch that is under way, where it is left in the middle, and its loss so far."""
    loss: float = 0.0

    @property
    def epoch(self) -> int:
        return len(self.history)

    @property
    def judged(self) -> Parameters:
        return self.parameters if self.averaged is None else self.averaged

    @property
    def carried(self) -> Carried:
        return self.parameters, self.optimiser, self.averaged

    def after(self, carried: Carried, **within: Any) -> State:
        """The state after more steps."""
        parameters, optimiser, averaged = carried
        return replace(self, parameters=parameters, optimiser=optimiser, averaged=averaged, **within)

    def saved(self) -> checkpoint.Saved:
        leaves = {name: jax.tree.leaves(getattr(self, name)) for name in TREES}  # without averaging, the last has none
        facts = {
            "best_loss": self.best_loss if math.isfinite(self.best_loss) else None,
            "best_epoch": self.best_epoch,
            "epoch": self.epoch,
            "stopped": self.stopped,
            "history": [asdict(record) for record in self.history],
            **({"steps": self.steps, "loss": self.loss} if self.steps else {}),
        }
        return checkpoint.Saved(
            {f"{name}.{i}": np.asarray(leaf) for name in TREES for i, leaf in enumerate(leaves[name])}, facts
        )

    def restored(self, saved: checkpoint.Saved) -> State:
        """What was saved, of a run that begins like this one."""

        def tree(name: str) -> Any:
            blank = [np.asarray(leaf) for leaf in jax.tree.leaves(getattr(self, name))]
            leaves = [saved.tensors[f"{name}.{i}"] for i in range(len(blank))]
            if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in blank]:
                raise ValueError(f"other {name}")
            return _unflattened(getattr(self, name), leaves)

        try:
            facts = saved.facts
            history = tuple(EpochRecord(**record) for record in facts["history"])
            numbers = [value for record in facts["history"] for value in record.values() if value is not None]
            counted = [record.epoch for record in history] == list(range(1, len(history) + 1))
            if not counted or not all(type(value) in (int, float) and float(value) < math.inf for value in numbers):
                raise ValueError("other epochs")
            return State(
                **{name: tree(name) for name in TREES},
                best_loss=math.inf if facts["best_loss"] is None else float(facts["best_loss"]),
                best_epoch=int(facts["best_epoch"]), stopped=bool(facts["stopped"]), history=history,
                steps=int(facts.get("steps", 0)), loss=float(facts.get("loss", 0.0)),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"the checkpoint does not fit this run ({error}); delete it to start from the beginning."
            ) from error


class Run(ABC):
    """What stays the same during a run, wherever its rows are."""

    released: Released | None = None

    def __init__(
        self,
        starts: Sequence[Network],
        free_width: int,
        response: Response,
        plan: Plan,
        transformation: optax.GradientTransformation | None,
        embedding: Embedding | None,
        hosts: Hosts = ALONE,
    ) -> None:
        start = starts[0]
        self.starts, self.response, self.plan, self.embedding, self.hosts = starts, response, plan, embedding, hosts
        self.activation, self.free_width = start.activation, free_width
        zero_start = all(own.ignores_sensitive(free_width) for own in starts)
        self.collapsed = start.widths[0] == free_width or (response.preserves_fairness and zero_start)
        self.optimiser_key = transformation or OptimiserKey(plan.optimiser, plan.momentum, plan.weight_decay)
        keys = [jax.random.key(plan.seed)]
        keys += [jax.random.fold_in(keys[0], 2**31 + member) for member in range(1, plan.members)]
        self.key = self._together([jax.random.key_data(key) for key in keys])

    # --- what a kind of run says ---

    @abstractmethod
    def one_epoch(self, state: State, keep: Callable[[State], None]) -> State:
        """The state after one more epoch, by way of `ended`; a state within the epoch may be kept meanwhile."""

    @abstractmethod
    def described(self) -> tuple[str, Sequence[np.ndarray | None]]:
        """The settings and rows that a checkpoint is bound to, beside the starts."""

    def placed(self, state: State) -> State:
        """The state on the devices that compute with it."""
        return state

    # --- epoch after epoch ---

    def trained(
        self,
        callbacks: Sequence[Callback],
        checkpoint_path: str | Path | None,
        resume: bool,
        optimiser_state: list[np.ndarray] | None = None,
    ) -> Training:
        """Killed at any moment and resumed from its checkpoint, a run ends with the same bytes."""
        path = None if checkpoint_path is None else Path(checkpoint_path)
        with checkpoint.owned(path if self.hosts.is_first else None):
            return self._trained(callbacks, path, resume, optimiser_state)

    def _trained(
        self,
        callbacks: Sequence[Callback],
        path: Path | None,
        resume: bool,
        optimiser_state: list[np.ndarray] | None,
    ) -> Training:
        mark = "" if path is None else self._fingerprint()
        state = self.placed(self.initial_state(optimiser_state))
        if resume and path is not None and self.hosts.from_first(b"there" if path.exists() else b""):
            content = self.hosts.from_first(checkpoint.content(path) if self.hosts.is_first else b"")
            state = self.placed(state.restored(checkpoint.read(content, path, expected=mark)))

        def keep(state: State) -> None:
            if path is not None and self.hosts.is_first:
                checkpoint.save(path, state.saved(), expected=mark)

        while state.epoch < self.plan.epochs and not state.stopped:
            state = self.one_epoch(state, keep)
            seen = Epoch(state.history[-1], self.plan.epochs, functools.partial(self.network, state.judged))
            answers = [callback(seen) for callback in callbacks]  # all see every epoch, whoever asks to stop
            if True in answers:
                state = replace(state, stopped=True)
            keep(state)
        return self.result(state)

    def ended(
        self, state: State, mean_loss: float, judge: Callable[[Parameters], tuple[float, float]] | None, began: float
    ) -> State:
        """What follows from an epoch that has left this state: what is best so far, and whether to stop."""
        epoch = state.epoch + 1
        if not math.isfinite(mean_loss):
            raise Diverged(
                f"training diverged in epoch {epoch}: the loss is {mean_loss}; lower the learning rate "
                f"({self.plan.learning_rate}) or scale extreme values in the table."
            )
        validation_loss = accuracy = None
        best, best_loss, best_epoch = state.judged, state.best_loss, epoch
        stopped = False
        if judge is not None:
            validation_loss, accuracy = judge(state.judged)
            if self.plan.patience is not None:
                if validation_loss < state.best_loss:
                    best_loss = validation_loss
                else:
                    best, best_epoch = state.best, state.best_epoch
                stopped = epoch - best_epoch >= self.plan.patience
        record = EpochRecord(epoch, mean_loss, validation_loss, accuracy, time.perf_counter() - began)
        return replace(
            state, best=best, best_loss=best_loss, best_epoch=best_epoch, stopped=stopped,
            history=(*state.history, record), steps=0, loss=0.0,
        )  # fmt: skip

    def _fingerprint(self) -> str:
        """Binds a checkpoint to its run: resuming with other data or settings is refused."""
        settings, rows = self.described()
        digest = hashlib.sha256(settings.encode())
        tensors = (tensor for own in self.starts for tensor in own.tensors().values())
        for array in (*rows, *tensors, *(() if self.embedding is None else self.embedding.tensors())):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    # --- from the starts to the network ---

    def initial_state(self, optimiser_state: list[np.ndarray] | None) -> State:
        parameters = self._together([self._first_parameters(start) for start in self.starts])
        init = transformation_of(self.optimiser_key).init
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


def _unflattened(template: Any, leaves: list[np.ndarray]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(template), [jnp.asarray(leaf) for leaf in leaves])
