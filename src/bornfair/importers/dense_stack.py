"""A stack of dense layers, step by step: as affine forms, and (independently of them) in plain float64.

Keras, PyTorch and .nnet files are read into such steps, and so is what ends a pipeline of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import (
    FUNCTIONS,
    CannotRead,
    Forms,
    Tape,
    activation,
    clipped,
    concatenated,
    layer,
    leaky_relu,
)
from bornfair.importers.head import read_head
from bornfair.importers.source import Original, Read
from bornfair.models.columns import Columns, Wanted
from bornfair.models.reading import Reading

Kind = Literal["dense", "scale", "relu", "leaky", "clip", "tanh", "sigmoid", "gelu", "softmax", "log_softmax"]


@dataclass(frozen=True, eq=False)
class Step:
    """One step and its numbers: weight [in, out] and bias, factor and shift, slope, or bounds."""

    kind: Kind
    name: str  # as messages call it: "layer 'dense_1' (Dense)"
    numbers: tuple[Any, ...] = ()

    def formed(self, value: Forms) -> Forms:
        if self.kind not in RULES:
            return activation(self.kind, value, self.name)
        return RULES[self.kind][0](value, self.name, *self._arrays)

    def computed(self, values: np.ndarray) -> np.ndarray:
        return FUNCTIONS[self.kind](values) if self.kind not in RULES else RULES[self.kind][1](values, *self._arrays)

    @property
    def _arrays(self) -> list[np.ndarray]:
        return [np.asarray(numbers, np.float64) for numbers in self.numbers]


# What each step with numbers of its own does: to forms, and to values [rows, columns].
RULES: dict[str, tuple[Callable[..., Forms], Callable[..., np.ndarray]]] = {
    "dense": (lambda v, name, weight, bias: layer(v, weight, bias), lambda z, weight, bias: z @ weight + bias),
    "scale": (lambda v, name, factor, shift: v.scaled(factor).plus(shift), lambda z, factor, shift: z * factor + shift),
    "leaky": (lambda v, name, slope: leaky_relu(v, slope, name), lambda z, slope: np.where(z > 0, z, z * slope)),
    "clip": (
        lambda v, name, low, high: clipped(v, low, high, name),
        lambda z, low, high: np.minimum(np.maximum(z, low), high),
    ),
}


class StackSource:
    """A stack of layers that takes a row of numbers; `outputs` runs it as it came, if something else does than we."""

    def __init__(
        self,
        origin: str,
        steps: Sequence[Step],
        *,
        runtime: str = "the layers of the file in float64",
        outputs: Callable[[np.ndarray], np.ndarray] | None = None,
        layer: str = "dense",
    ) -> None:
        takes = (step for step in steps if step.kind in ("dense", "scale"))
        widths = (len(step.numbers[0]) for step in takes if step.kind == "dense" or np.size(step.numbers[0]) > 1)
        width = next(widths, None)
        if width is None:
            raise InputError(f"{origin} has no {layer} layer.")
        self._steps, self._runtime = steps, runtime
        self._outputs = outputs or self._computed
        self.wanted = Wanted(origin, None, width)

    def read(self, columns: Columns, asked: Reading) -> Read:
        tape, origin = Tape(columns.domain.features), self.wanted.origin
        given = [tape.forms(tape.column(f, lambda levels: levels.astype(np.float64))) for f in columns.features]
        value = formed(self._steps, concatenated(given, 0), origin)
        try:
            head = read_head(value, asked)
        except CannotRead as error:
            raise InputError(f"{origin}: the end of the model {error}.") from error

        def scores(table: pd.DataFrame) -> np.ndarray:
            return self._outputs(np.stack([table[name].to_numpy(np.float64) for name in columns.names], axis=1))

        original = Original(self._runtime, scores, lambda table: head.decided_by_it(scores(table)))
        return Read(head, tape, None, original)

    def _computed(self, rows: np.ndarray) -> np.ndarray:
        """The stack's outputs in float64, operation by operation as the layers say."""
        for step in self._steps:
            rows = step.computed(rows)
        return rows


def formed(steps: Sequence[Step], value: Forms, origin: str) -> Forms:
    """What the steps make of a row of values."""
    for step in steps:
        try:
            value = step.formed(value)
        except CannotRead as error:
            raise InputError(f"{origin}: {step.name} {error}.") from error
        except ValueError as error:
            raise InputError(f"{origin}: {step.name} does not fit what comes before it ({error}).") from error
    return value


def normalisation(
    name: str, mean: np.ndarray, variance: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float
) -> Step:
    """Batch normalisation as it is at inference."""
    spread = np.asarray(variance, np.float64) + epsilon
    if not (spread > 0).all():
        raise InputError(f"{name} normalises by a variance that is not positive; the model is broken.")
    factor = gamma / np.sqrt(spread)
    return Step("scale", name, (factor, beta - mean * factor))


# --- PyTorch ---


def read_torch(module: Any) -> StackSource:
    """A stack of layers as PyTorch holds it, and runs it."""
    import torch

    origin = f"the {type(module).__name__}"
    if module.training:
        raise InputError(f"{origin} is in training mode; call .eval() on it first.")

    def outputs(rows: np.ndarray) -> np.ndarray:
        parameter = next(module.parameters())
        with torch.no_grad():
            given = torch.as_tensor(rows).to(dtype=parameter.dtype, device=parameter.device)
            return _array(module(given)).reshape(len(rows), -1)

    runtime = f"torch {torch.__version__}"
    return StackSource(origin, _steps(module, "model"), runtime=runtime, outputs=outputs, layer="Linear")


def _steps(module: Any, name: str) -> list[Step]:
    kind = type(module).__name__
    if kind == "Sequential":
        return [step for child, part in module.named_children() for step in _steps(part, child)]
    label = f"layer '{name}' ({kind})"
    if kind not in TORCH_LAYERS or not type(module).__module__.startswith("torch.nn."):
        raise InputError(
            f"{label} is not supported; a Sequential of {shown(TORCH_LAYERS, most=30)} can be read. Export other "
            "models with torch.onnx.export."
        )
    step = TORCH_LAYERS[kind](module, label)
    return [] if step is None else [step]


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().double().numpy()


def _linear(module: Any, label: str) -> Step:
    weight = _array(module.weight).T
    bias = np.zeros(weight.shape[1]) if module.bias is None else _array(module.bias)
    return Step("dense", label, (weight, bias))


def _batch_norm(module: Any, label: str) -> Step:
    if module.running_mean is None:
        raise InputError(f"{label} normalises by the batch (track_running_stats=False); each must be decided alone.")
    mean, variance = _array(module.running_mean), _array(module.running_var)
    gamma = np.ones(len(mean)) if module.weight is None else _array(module.weight)
    beta = np.zeros(len(mean)) if module.bias is None else _array(module.bias)
    return normalisation(label, mean, variance, gamma, beta, float(module.eps))


def _gelu(module: Any, label: str) -> Step:
    if module.approximate != "none":
        raise InputError(f"{label} approximates GELU by tanh; use the exact one.")
    return Step("gelu", label)


def _flatten(module: Any, label: str) -> None:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise InputError(f"{label} flattens from axis {module.start_dim}; people must stay in the first axis.")


def _rowwise(kind: Kind) -> Callable[[Any, str], Step]:
    def read(module: Any, label: str) -> Step:
        if module.dim not in (1, -1):
            raise InputError(f"{label} works along dim={module.dim}; over the classes it is dim=1.")
        return Step(kind, label)

    return read


TORCH_LAYERS: dict[str, Callable[[Any, str], Step | None]] = {  # no step: nothing happens at inference
    "Linear": _linear,
    "BatchNorm1d": _batch_norm,
    "ReLU": lambda module, label: Step("relu", label),
    "LeakyReLU": lambda module, label: Step("leaky", label, (float(module.negative_slope),)),
    "PReLU": lambda module, label: Step("leaky", label, (_array(module.weight),)),
    "ReLU6": lambda module, label: Step("clip", label, (0.0, 6.0)),
    "Hardtanh": lambda module, label: Step("clip", label, (float(module.min_val), float(module.max_val))),
    "Tanh": lambda module, label: Step("tanh", label),
    "Sigmoid": lambda module, label: Step("sigmoid", label),
    "GELU": _gelu,
    "Softmax": _rowwise("softmax"),
    "LogSoftmax": _rowwise("log_softmax"),
    "Dropout": lambda module, label: None,
    "AlphaDropout": lambda module, label: None,
    "Identity": lambda module, label: None,
    "Flatten": _flatten,
}
