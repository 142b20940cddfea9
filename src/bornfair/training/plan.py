"""How is a network trained: which settings, which rows, how fast?"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from bornfair.core.checks import choice, number, whole
from bornfair.core.errors import InputError
from bornfair.training.loops import OptimiserName

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
