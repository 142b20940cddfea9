"""`torch.nn.Sequential` objects in memory, read layer by layer; nothing else needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.dense_stack import Kind, StackSource, Step, normalisation


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


def _gelu(module: Any, label: str) -> Step:
    if module.approximate != "none":
        raise InputError(f"{label} approximates GELU by tanh; use the exact one.")
    return Step("gelu", label)


def _flatten(module: Any, label: str) -> None:
    if (module.start_dim, module.end_dim) != (1, -1):
        raise InputError(f"{label} flattens from axis {module.start_dim}; people must stay in the first axis.")


def _passed_on(module: Any, label: str) -> None:
    """Nothing happens at inference."""


def _plain(kind: Kind) -> Callable[[Any, str], Step]:
    return lambda module, label: Step(kind, label)


def _rowwise(kind: Kind) -> Callable[[Any, str], Step]:
    def read(module: Any, label: str) -> Step:
        if module.dim not in (1, -1):
            raise InputError(f"{label} works along dim={module.dim}; over the classes it is dim=1.")
        return Step(kind, label)

    return read


READERS: dict[str, Callable[[Any, str], Step | None]] = {
    "Linear": _linear,
    "BatchNorm1d": _batch_norm,
    "ReLU": _plain("relu"),
    "LeakyReLU": lambda module, label: Step("leaky", label, (float(module.negative_slope),)),
    "PReLU": lambda module, label: Step("leaky", label, (_array(module.weight),)),
    "ReLU6": lambda module, label: Step("clip", label, (0.0, 6.0)),
    "Hardtanh": lambda module, label: Step("clip", label, (float(module.min_val), float(module.max_val))),
    "Tanh": _plain("tanh"),
    "Sigmoid": _plain("sigmoid"),
    "GELU": _gelu,
    "Softmax": _rowwise("softmax"),
    "LogSoftmax": _rowwise("log_softmax"),
    "Dropout": _passed_on,
    "AlphaDropout": _passed_on,
    "Identity": _passed_on,
    "Flatten": _flatten,
}
