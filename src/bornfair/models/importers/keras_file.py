"""What does a Keras file compute? Dense stacks from .h5 and .keras, by their published layout and without TensorFlow.

The configuration is JSON and the weights are arrays; nothing else of the file is looked at, and nothing is executed.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.models.importers.dense_stack import StackSource, Step, normalisation

SECONDS = 120  # for reading a file
Weights = Callable[[str, str], list[np.ndarray]]  # of the layer of a name and a class


def read_keras(path: Path) -> StackSource:
    """Open a .h5 file (Keras 2 or 3) or a .keras archive (Keras 3)."""
    if importlib.util.find_spec("h5py") is None:
        raise InputError(f"reading '{path}' needs h5py: pip install 'bornfair[keras]'.")
    text, layers = _contents(path)
    try:
        config = json.loads(text)
        weights = _weights(layers, numbered=path.suffix.lower() == ".keras")
        return StackSource(f"'{path}'", _steps(path, config, weights))
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"'{path}' is not a Keras model that can be read ({reason}); is it complete?") from error


def _contents(path: Path) -> tuple[str, dict[str, list[np.ndarray]]]:
    """The configuration and each layer's arrays, read by a process of its own: see `keras_h5`."""
    command = [sys.executable, "-I", str(Path(__file__).with_name("keras_h5.py")), str(path.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"'{path}' could not be read: {error}.") from error
    if done.returncode:
        raise InputError(f"'{path}' breaks the HDF5 library that should read it; it is damaged or hostile.")
    if done.stdout.startswith(b"{"):
        raise InputError(f"'{path}': {json.loads(done.stdout)['error']}.")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as packed:
        index = json.loads(packed["index"].tobytes())
        counts = enumerate(index["layers"].items())
        return index["config"], {name: [packed[f"{i}.{j}"] for j in range(count)] for i, (name, count) in counts}


def _weights(layers: dict[str, list[np.ndarray]], *, numbered: bool) -> Weights:
    """Weights by the layer's name (.h5), or by class and count: dense, dense_1, … (.keras)."""
    counts: dict[str, int] = {}

    def weights(name: str, kind: str) -> list[np.ndarray]:
        if not numbered:
            return layers.get(name, [])
        snake = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", kind)).lower()
        count = counts[snake] = counts.get(snake, -1) + 1
        return layers.get(f"{snake}_{count}" if count else snake, [])

    return weights


# --- layers ---


def _steps(path: Path, config: Any, weights: Weights) -> list[Step]:
    kind, inner = config["class_name"], config["config"]
    layers = inner if isinstance(inner, list) else inner["layers"]
    if kind not in ("Sequential", "Functional", "Model"):
        raise InputError(f"'{path}' holds a {kind}; a stack of layers (Sequential) can be read.")
    if kind != "Sequential":
        _check_chain(path, layers)
    steps: list[Step] = []
    for position, layer in enumerate(layers):
        kind, settings = layer["class_name"], layer["config"]
        name = settings.get("name", f"layer {position}")
        label = f"layer '{name}' ({kind})"
        found = weights(name, kind)
        if kind not in READERS:
            raise InputError(
                f"'{path}': {label} is not supported; a stack of {shown(READERS, most=30)} can be read. Export other "
                "models to ONNX (tf2onnx)."
            )
        try:
            steps += READERS[kind](label, settings, found)
        except (InputError, ValueError, IndexError) as error:
            raise InputError(f"'{path}': {error}") from error
    return steps


def _check_chain(path: Path, layers: list[Any]) -> None:
    """A functional model must be one chain: each layer reads the one before it, and only that."""
    before = None
    for layer in layers:
        name = layer.get("name", layer["config"].get("name"))
        sources = _sources(layer.get("inbound_nodes", []))
        if sources != ([] if before is None else [before]):
            raise InputError(
                f"'{path}': layer '{name}' reads {shown(sources) or 'nothing'}; only a chain of layers can be read. "
                "Export other models to ONNX (tf2onnx)."
            )
        before = name


def _sources(nodes: Any) -> list[str]:
    """The layers that a layer reads, as Keras 2 (nested lists) or Keras 3 (records with a history) write them."""
    if isinstance(nodes, dict):
        if "keras_history" in nodes:
            return [str(nodes["keras_history"][0])]
        return [name for value in nodes.values() for name in _sources(value)]
    if isinstance(nodes, list):
        if len(nodes) >= 3 and isinstance(nodes[0], str) and all(isinstance(n, int) for n in nodes[1:3]):
            return [nodes[0]]
        return [name for item in nodes for name in _sources(item)]
    return []


def _dense(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    needed = 2 if settings.get("use_bias", True) else 1
    if len(weights) != needed or weights[0].ndim != 2 or (needed == 2 and weights[1].shape != weights[0].shape[1:]):
        raise InputError(f"{label} has weights of the shapes {[w.shape for w in weights]}; is the file complete?")
    bias = weights[1] if needed == 2 else np.zeros(weights[0].shape[1])
    return [Step("dense", label, (weights[0], bias)), *_activation(label, settings.get("activation", "linear"))]


def _activation(label: str, chosen: Any) -> list[Step]:
    name = chosen.get("config", chosen.get("class_name")) if isinstance(chosen, dict) else chosen
    name = name.get("name", "") if isinstance(name, dict) else name
    if name in ("linear", None):
        return []
    found = ACTIVATIONS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"{label} has the activation {name!r}, which is not supported; use relu, tanh or sigmoid.")
    kind, *numbers = found
    return [Step(kind, label, tuple(numbers))]


def _relu(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    slope, threshold = float(settings.get("negative_slope") or 0.0), float(settings.get("threshold") or 0.0)
    highest = settings.get("max_value")
    if threshold or (slope and highest is not None):
        raise InputError(f"{label} has a threshold, or a slope and a maximum, which is not supported; use plain ReLU.")
    if highest is not None:
        return [Step("clip", label, (0.0, float(highest)))]
    return [Step("leaky", label, (slope,)) if slope else Step("relu", label)]


def _leaky(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    slope = settings.get("negative_slope", settings.get("alpha", 0.3))
    slope = slope.get("value", 0.3) if isinstance(slope, dict) else slope
    return [Step("leaky", label, (float(slope),))]


def _batch_normalisation(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    scale, centre = settings.get("scale", True), settings.get("center", True)
    if len(weights) != 2 + bool(scale) + bool(centre) or any(w.shape != weights[0].shape for w in weights):
        raise InputError(f"{label} has {len(weights)} arrays of weights; is the file complete?")
    rest = list(weights)
    gamma = rest.pop(0) if scale else np.ones(weights[0].shape)
    beta = rest.pop(0) if centre else np.zeros(weights[0].shape)
    return [normalisation(label, rest[0], rest[1], gamma, beta, float(settings.get("epsilon", 1e-3)))]


def _normalisation(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    if settings.get("invert") or len(weights) < 2:
        raise InputError(f"{label} has no mean and variance in the file, or inverts them; adapt it before saving.")
    spread = np.maximum(np.sqrt(weights[1].ravel()), 1e-7)
    return [Step("scale", label, (1.0 / spread, -weights[0].ravel() / spread))]


def _rescaling(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    factor, shift = (np.asarray(settings.get(key, d), np.float64) for key, d in (("scale", 1.0), ("offset", 0.0)))
    return [Step("scale", label, (factor, shift))]


def _passed_on(label: str, settings: dict[str, Any], weights: list[np.ndarray]) -> list[Step]:
    """Nothing happens at inference."""
    return []


ACTIVATIONS: dict[str, Any] = {
    "relu": ("relu",), "tanh": ("tanh",), "sigmoid": ("sigmoid",), "softmax": ("softmax",), "gelu": ("gelu",),
    "log_softmax": ("log_softmax",), "relu6": ("clip", 0.0, 6.0), "leaky_relu": ("leaky", 0.2),
}  # fmt: skip
READERS: dict[str, Callable[[str, dict[str, Any], list[np.ndarray]], list[Step]]] = {
    "InputLayer": _passed_on,
    "Dense": _dense,
    "Activation": lambda label, settings, weights: _activation(label, settings.get("activation")),
    "ReLU": _relu,
    "LeakyReLU": _leaky,
    "Softmax": lambda label, settings, weights: [Step("softmax", label)],
    "BatchNormalization": _batch_normalisation,
    "Normalization": _normalisation,
    "Rescaling": _rescaling,
    "Dropout": _passed_on,
    "GaussianNoise": _passed_on,
    "Flatten": _passed_on,
}
