"""What does a `torch.nn.Sequential` compute? Read layer by layer from an object in memory; torch is not needed else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, shown
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.importers.dense_stack import Step, first_width, head_of, normalisation
from bornfair.models.importers.head import Head
from bornfair.models.importers.original import Original
from bornfair.models.importers.reading import Reading
from bornfair.models.importers.source import Read


class TorchSource:
    """A stack of layers as PyTorch holds it."""

    def __init__(self, module: Any) -> None:
        if module.training:
            raise InputError(f"the {type(module).__name__} is in training mode; call .eval() on it first.")
        self._module = module
        self._steps = _steps(module, "model")
        width = first_width(self._steps)
        if width is None:
            raise InputError(f"the {type(module).__name__} has no Linear layer.")
        self.wanted = Wanted(f"the {type(module).__name__}", None, width)

    def read(self, columns: Columns, asked: Reading) -> Read:
        head, tape = head_of(self._steps, columns, asked, self.wanted.origin)
        return Read(head, tape, None, lambda: _TorchOriginal(self._module, head, columns))


def _steps(module: Any, name: str) -> list[Step]:
    kind = type(module).__name__
    if kind == "Sequential":
        return [step for child, part in module.named_children() for step in _steps(part, child)]
    label = f"layer '{name}' ({kind})"
    if kind not in READERS or not type(module).__module__.startswith("torch.nn."):
        raise InputError(
            f"{label} is not supported; a Sequential of {shown(READERS, most=30)} can be read. Export other models "
            "with torch.onnx.export."
        )
    step = READERS[kind](module, label)
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


def _bounded(low: str | float, high: str | float) -> Callable[[Any, str], Step]:
    def read(module: Any, label: str) -> Step:
        bounds = (getattr(module, bound) if isinstance(bound, str) else bound for bound in (low, high))
        return Step("clip", label, tuple(np.array(float(bound)) for bound in bounds))

    return read


def _rowwise(kind: Any) -> Callable[[Any, str], Step]:
    def read(module: Any, label: str) -> Step:
        if module.dim not in (1, -1):
            raise InputError(f"{label} works along dim={module.dim}; over the classes it is dim=1.")
        return Step(kind, label)

    return read


def _gelu(module: Any, label: str) -> Step:
    if module.approximate != "none":
        raise InputError(f"{label} approximates GELU by tanh; use the exact one.")
    return Step("gelu", label)


def _flatten(module: Any, label: str) -> None:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise InputError(f"{label} flattens from axis {module.start_dim}; people must stay in the first axis.")


READERS: dict[str, Callable[[Any, str], Step | None]] = {
    "Linear": _linear,
    "BatchNorm1d": _batch_norm,
    "ReLU": lambda module, label: Step("relu", label),
    "LeakyReLU": lambda module, label: Step("leaky", label, (np.array(float(module.negative_slope)),)),
    "PReLU": lambda module, label: Step("leaky", label, (_array(module.weight),)),
    "ReLU6": _bounded(0.0, 6.0),
    "Hardtanh": _bounded("min_val", "max_val"),
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


class _TorchOriginal(Original):
    """The module itself, run by PyTorch."""

    def __init__(self, module: Any, head: Head, columns: Columns) -> None:
        import torch

        self._module, self._head, self._names = module, head, columns.names
        self.runtime = f"torch {torch.__version__}"

    def scores(self, table: pd.DataFrame) -> np.ndarray:
        import torch

        parameter = next(self._module.parameters())
        rows = np.stack([table[name].to_numpy(np.float64) for name in self._names], axis=1)
        with torch.no_grad():
            given = torch.as_tensor(rows).to(dtype=parameter.dtype, device=parameter.device)
            return _array(self._module(given)).reshape(len(table), -1)

    def decide(self, table: pd.DataFrame) -> np.ndarray:
        return self._head.decided_by_it(self.scores(table))
