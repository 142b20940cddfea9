"""A stack of dense layers, step by step: as affine forms, and (independently of them) in plain float64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from bornfair.errors import InputError
from bornfair.models.importers.affine import (
    CannotRead,
    Forms,
    Tape,
    activation,
    clipped,
    concatenated,
    layer,
    leaky_relu,
)
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.head import Head, read_head
from bornfair.models.importers.original import Original
from bornfair.models.importers.reading import Reading
from bornfair.models.importers.source import Read
from bornfair.people.features import NUMERIC

Kind = Literal["dense", "scale", "relu", "leaky", "clip", "tanh", "sigmoid", "gelu", "softmax", "log_softmax"]


@dataclass(frozen=True, eq=False)
class Step:
    """One step and its numbers: weight [in, out] and bias, factor and shift, slope, or bounds."""

    kind: Kind
    name: str  # as messages call it: "layer 'dense_1' (Dense)"
    numbers: tuple[np.ndarray, ...] = ()


class StackSource:
    """A stack of layers that takes a row of numbers."""

    def __init__(self, origin: str, steps: Sequence[Step], runtime: str) -> None:
        width = first_width(steps)
        if width is None:
            raise InputError(f"{origin} has no dense layer.")
        self._steps, self._runtime = steps, runtime
        self.wanted = Wanted(origin, None, width)

    def read(self, columns: Columns, asked: Reading) -> Read:
        head, tape = head_of(self._steps, columns, asked, self.wanted.origin)
        return Read(head, tape, None, lambda: _StackOriginal(self._steps, head, columns, self._runtime))


class _StackOriginal(Original):
    """A file's own layers in float64, apart from how they were folded."""

    def __init__(self, steps: Sequence[Step], head: Head, columns: Columns, runtime: str) -> None:
        self._steps, self._head, self._names, self.runtime = steps, head, columns.names, runtime

    def scores(self, table: pd.DataFrame) -> np.ndarray:
        rows = np.stack([table[name].to_numpy(np.float64) for name in self._names], axis=1)
        return computed(self._steps, rows)

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        return self._head.decided_by_it(self.scores(table))


def head_of(steps: Sequence[Step], columns: Columns, asked: Reading, origin: str) -> tuple[Head, Tape]:
    """What the stack decides for people of a domain whose features it takes as numbers, in order."""
    tape = Tape(columns.domain.features)
    parts = [
        tape.forms(tape.column(f, np.zeros(0) if isinstance(f, NUMERIC) else np.array(f.levels(), np.float64)))
        for f in columns.features
    ]
    value = concatenated(parts, 0)
    for step in steps:
        try:
            value = _formed(step, value)
        except CannotRead as error:
            raise InputError(f"{origin}: {step.name} {error}.") from error
        except ValueError as error:
            raise InputError(f"{origin}: {step.name} does not fit what comes before it ({error}).") from error
    try:
        return read_head(value, asked), tape
    except CannotRead as error:
        raise InputError(f"{origin}: the end of the model {error}.") from error


def _formed(step: Step, value: Forms) -> Forms:
    if step.kind == "dense":
        return layer(value, *step.numbers)
    if step.kind == "scale":
        factor, shift = (np.broadcast_to(numbers.astype(np.float64), (value.size,)) for numbers in step.numbers)
        return value.scaled(factor).plus(shift)
    if step.kind == "leaky":
        return leaky_relu(value, step.numbers[0], step.name)
    if step.kind == "clip":
        return clipped(value, step.numbers[0], step.numbers[1], step.name)
    return activation(step.kind, value, step.name)


def computed(steps: Sequence[Step], rows: np.ndarray) -> np.ndarray:
    """The stack's outputs in float64, operation by operation as the layers say."""
    values = np.asarray(rows, np.float64)
    for step in steps:
        values = _computed(step, values)
    return values


def _computed(step: Step, z: np.ndarray) -> np.ndarray:
    numbers = [n.astype(np.float64) for n in step.numbers]
    if step.kind == "dense":
        return z @ numbers[0] + numbers[1]
    if step.kind == "scale":
        return z * numbers[0] + numbers[1]
    if step.kind == "relu":
        return np.where(z > 0, z, 0.0)
    if step.kind == "leaky":
        return np.where(z > 0, z, z * numbers[0])
    if step.kind == "clip":
        return np.minimum(np.maximum(z, numbers[0]), numbers[1])
    if step.kind == "tanh":
        return np.tanh(z)
    if step.kind == "sigmoid":
        return 0.5 * (1.0 + np.tanh(0.5 * z))
    if step.kind == "gelu":
        return np.array([0.5 * v * (1.0 + math.erf(v / math.sqrt(2.0))) for v in z.ravel()]).reshape(z.shape)
    shifted = z - z.max(axis=1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs if step.kind == "log_softmax" else np.exp(logs)


def normalisation(
    name: str, mean: np.ndarray, variance: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float
) -> Step:
    """Batch normalisation as it is at inference."""
    spread = np.asarray(variance, np.float64) + epsilon
    if not (spread > 0).all():
        raise InputError(f"{name} normalises by a variance that is not positive; the model is broken.")
    factor = gamma / np.sqrt(spread)
    return Step("scale", name, (factor, beta - mean * factor))


def first_width(steps: Sequence[Step]) -> int | None:
    """How many numbers the stack takes."""
    for step in steps:
        if step.kind == "dense":
            return int(step.numbers[0].shape[0])
        if step.kind == "scale" and step.numbers[0].ndim == 1 and step.numbers[0].size > 1:
            return step.numbers[0].size
    return None
