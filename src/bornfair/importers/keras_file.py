"""Dense stacks in Keras files (.h5 and .keras), read by their published layout and without TensorFlow.

The configuration is JSON and the weights are arrays; nothing else of the file is looked at, and nothing is executed. A
setting that is not listed is refused by layer and key. `run` computes layers from the raw configuration by the formulas
of Keras's documentation and uses none of the steps, so that it can judge them.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core import limits
from bornfair.core.errors import InputError, shown
from bornfair.core.limits import Deadline
from bornfair.importers.dense_stack import StackSource, Step, normalisation


@dataclass(frozen=True, eq=False)
class KerasLayer:
    """A layer as the file describes it."""

    kind: str
    label: str  # as messages call it
    settings: dict[str, Any]
    weights: list[np.ndarray]

    def get(self, key: str, default: Any = None) -> Any:
        return self.settings.get(key, default)

    def number(self, key: str, default: float) -> float:
        value = self.array(key, default)
        if value.ndim:
            raise self.refused(key)
        return float(value)

    def array(self, key: str, default: Any) -> np.ndarray:
        """Numbers: plain, or wrapped as an array of NumPy or a tensor."""
        value = default if self.get(key) is None else self.get(key)
        if isinstance(value, dict):
            value = value.get("config", value)["value"]
        try:
            found = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise self.refused(key) from None
        if not np.isfinite(found).all():
            raise self.refused(key)
        return found

    def refused(self, key: str) -> InputError:
        return InputError(f"{self.label} has {key} = {self.get(key)!r:.80}, which is not supported; {OTHERWISE}.")

    def check(self) -> None:
        """Refuse every setting that is not read and may matter."""
        for key, value in self.settings.items():
            if key not in COMMON and key not in SETTINGS[self.kind] and value is not None:
                raise self.refused(key)
        for key, allowed in (COMMON | SETTINGS[self.kind]).items():
            if key in self.settings and allowed is not None and not allowed(self.settings[key]):
                raise self.refused(key)


def layer_of(given: Any, name: str, weights: list[np.ndarray], where: str = "") -> KerasLayer:
    kind = given["class_name"]
    label = f"layer '{name}' ({kind})"
    if kind not in READERS or not is_of_keras(given):
        own = "" if kind not in READERS else f" of {given.get('registered_name') or given.get('module')}"
        raise InputError(
            f"{where}{label}{own} is not supported; a stack of {shown(READERS, most=30)} can be read. Export other "
            "models to ONNX (tf2onnx)."
        )
    try:
        found = KerasLayer(kind, label, given["config"], weights)
        found.check()
    except InputError as error:
        raise InputError(f"{where}{error}") from error
    return found


def is_of_keras(given: Any) -> bool:
    """Whether a class or function is Keras's own: a registered one may have the same name."""
    module = given.get("module")
    ours = module in (None, "builtins") or str(module).split(".")[0] in ("keras", "tf_keras", "tensorflow")
    return ours and given.get("registered_name") in (None, "", "function")


# --- what is read of each ---


def _dense(layer: KerasLayer) -> list[Step]:
    needed, weights = 2 if layer.get("use_bias", True) else 1, layer.weights
    if len(weights) != needed or weights[0].ndim != 2 or (needed == 2 and weights[1].shape != weights[0].shape[1:]):
        raise InputError(f"{layer.label} has weights of the shapes {[w.shape for w in weights]}; is the file complete?")
    bias = weights[1] if needed == 2 else np.zeros(weights[0].shape[1])
    return [Step("dense", layer.label, (weights[0], bias)), *_activation(layer)]


def _activation(layer: KerasLayer) -> list[Step]:
    """A function by its name, or a layer of activations in its place."""
    inner = _inner(layer)
    if inner is not None:
        return READERS[inner.kind](inner)
    name = _function(layer)
    if name is None:
        return []
    kind, *numbers = ACTIVATIONS[name][0]
    return [Step(kind, layer.label, tuple(numbers))]


def _inner(layer: KerasLayer) -> KerasLayer | None:
    """The layer of activations that stands in the place of a function."""
    chosen = layer.get("activation")
    if isinstance(chosen, dict) and chosen.get("class_name") in FUNCTIONS_AS_LAYERS:
        return layer_of(chosen, str(chosen["config"].get("name", "activation")), [], f"{layer.label}, activation: ")
    return None


def _function(layer: KerasLayer) -> str | None:
    chosen = layer.get("activation")
    if isinstance(chosen, dict) and chosen.get("class_name") == "function" and is_of_keras(chosen):
        chosen = chosen.get("config")
    if chosen in (None, "linear"):
        return None
    if not isinstance(chosen, str) or chosen not in ACTIVATIONS:
        raise InputError(
            f"{layer.label} has the activation {chosen!r:.200}, which is not supported; use relu, tanh or sigmoid."
        )
    return chosen


def _relu(layer: KerasLayer) -> list[Step]:
    slope, highest = layer.number("negative_slope", 0.0), layer.get("max_value")
    if layer.number("threshold", 0.0) or (slope and highest is not None):
        raise InputError(
            f"{layer.label} has a threshold, or a slope and a maximum, which is not supported; use plain ReLU."
        )
    if highest is not None:
        return [Step("clip", layer.label, (0.0, layer.number("max_value", 0.0)))]
    return [Step("leaky", layer.label, (slope,)) if slope else Step("relu", layer.label)]


def _leak(layer: KerasLayer) -> float:
    """Keras 2 calls it alpha."""
    return layer.number("negative_slope" if "negative_slope" in layer.settings else "alpha", 0.3)


def _moments(layer: KerasLayer) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of batch normalisation: mean, variance, gamma and beta."""
    scale, centre, weights = layer.get("scale", True), layer.get("center", True), layer.weights
    if len(weights) != 2 + bool(scale) + bool(centre) or any(w.shape != weights[0].shape for w in weights):
        raise InputError(f"{layer.label} has {len(weights)} arrays of weights; is the file complete?")
    rest = list(weights)
    gamma = rest.pop(0) if scale else np.ones(weights[0].shape)
    beta = rest.pop(0) if centre else np.zeros(weights[0].shape)
    mean, variance = rest
    return mean, variance, gamma, beta


def _normalisation(layer: KerasLayer) -> list[Step]:
    mean, spread = _standard(layer)
    return [Step("scale", layer.label, (1.0 / spread, -mean / spread))]


def _standard(layer: KerasLayer) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread: of the settings, or as they were adapted to data."""
    if (layer.get("mean") is None) != (layer.get("variance") is None):
        raise layer.refused("mean")
    if layer.get("mean") is not None:
        mean, variance = layer.array("mean", 0.0), layer.array("variance", 1.0)
    elif len(layer.weights) >= 2:
        mean, variance = layer.weights[:2]
    else:
        raise InputError(f"{layer.label} has no mean and variance in the file; adapt it before saving.")
    if (variance < 0).any():
        raise InputError(f"{layer.label} has a variance below 0; the model is broken.")
    return mean.ravel(), np.maximum(np.sqrt(variance.ravel()), 1e-7)


# Each function: the step that is read, and its formula over rows.
ACTIVATIONS: dict[str, tuple[Any, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (("relu",), lambda z: np.maximum(z, 0.0)),
    "relu6": (("clip", 0.0, 6.0), lambda z: np.minimum(np.maximum(z, 0.0), 6.0)),
    "leaky_relu": (("leaky", 0.2), lambda z: np.maximum(z, 0.2 * z)),
    "tanh": (("tanh",), np.tanh),
    "sigmoid": (("sigmoid",), lambda z: 0.5 + 0.5 * np.tanh(z / 2)),
    "gelu": (("gelu",), lambda z: z * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(z / math.sqrt(2.0)))),
    "softmax": (("softmax",), lambda z: _softmax(z)),
    "log_softmax": (("log_softmax",), lambda z: z - np.logaddexp.reduce(z, axis=1, keepdims=True)),
}
FUNCTIONS_AS_LAYERS = ("ReLU", "LeakyReLU", "Softmax", "Activation")
READERS: dict[str, Callable[[KerasLayer], list[Step]]] = {  # no step: nothing happens at inference
    "InputLayer": lambda layer: [],
    "Dense": _dense,
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": lambda layer: [Step("leaky", layer.label, (_leak(layer),))],
    "Softmax": lambda layer: [Step("softmax", layer.label)],
    "BatchNormalization": lambda layer: [normalisation(layer.label, *_moments(layer), layer.number("epsilon", 1e-3))],
    "Normalization": _normalisation,
    "Rescaling": lambda layer: [Step("scale", layer.label, (layer.array("scale", 1.0), layer.array("offset", 0.0)))],
    "Dropout": lambda layer: [],
    "GaussianNoise": lambda layer: [],
    "Flatten": lambda layer: [],
}

# --- which settings a layer may have ---


def _precision(value: Any) -> bool:
    name = value.get("config", {}).get("name") if isinstance(value, dict) else value
    return name in (None, "float32", "float64")


def _columns(value: Any) -> bool:
    """One row of columns for each person; the first dimension is the batch."""
    return value is None or (isinstance(value, list) and len(value) == 2)


def _one_of(*allowed: Any) -> Callable[[Any], bool]:
    return lambda value: value in allowed


_OFF, _LAST = _one_of(None, False), _one_of(-1, 1, [-1], [1])
Allowed = Callable[[Any], bool] | None  # None: it is read, or it matters in training only
OTHERWISE = "save the model without it, or export it to ONNX (tf2onnx)"
COMMON: dict[str, Allowed] = {
    "name": None, "trainable": None, "dtype": _precision, "batch_input_shape": _columns, "batch_shape": _columns,
    "activity_regularizer": None,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Allowed]] = {
    "InputLayer": {"sparse": _OFF, "ragged": _OFF, "optional": _OFF},
    "Dense": dict.fromkeys((
        "units", "activation", "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer",
        "bias_regularizer", "kernel_constraint", "bias_constraint",
    )),
    "Activation": {"activation": None},
    "ReLU": {"max_value": None, "negative_slope": None, "threshold": None},
    "LeakyReLU": {"negative_slope": None, "alpha": None},
    "Softmax": {"axis": _LAST, "robust_masking": None},
    "BatchNormalization": dict.fromkeys((
        "momentum", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer", "moving_mean_initializer",
        "moving_variance_initializer", "beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint",
        "synchronized", "fused", "renorm_clipping", "renorm_momentum",
    )) | {"axis": _LAST, "renorm": _OFF},
    "Normalization": {"axis": _one_of(None, -1, 1, [-1], [1]), "invert": _OFF, "mean": None, "variance": None},
    "Rescaling": {"scale": None, "offset": None},
    "Dropout": {"rate": None, "seed": None, "noise_shape": None, "rng_type": None},
    "GaussianNoise": {"stddev": None, "seed": None},
    "Flatten": {"data_format": None},
}  # fmt: skip


# --- the same once more, from the raw configuration ---


def run(layers: Sequence[KerasLayer], rows: np.ndarray) -> np.ndarray:
    """What the layers compute in float64, as the documentation of Keras defines each of them: the judge of the steps
    that were read, of which nothing is used here.
    """
    for layer in layers:
        rows = _FORMULAS[layer.kind](layer, rows) if layer.kind in _FORMULAS else rows
    return rows


def _run_dense(layer: KerasLayer, x: np.ndarray) -> np.ndarray:
    kernel, *bias = layer.weights
    return _run_activation(layer, x @ kernel + (bias[0] if bias else 0.0))


def _run_activation(layer: KerasLayer, x: np.ndarray) -> np.ndarray:
    inner = _inner(layer)
    if inner is not None:
        return run([inner], x)
    name = _function(layer)
    return x if name is None else ACTIVATIONS[name][1](x)


def _run_relu(layer: KerasLayer, x: np.ndarray) -> np.ndarray:
    highest, slope, threshold = (layer.number(key, 0.0) for key in ("max_value", "negative_slope", "threshold"))
    found = np.where(x >= threshold, x, slope * (x - threshold))
    return found if layer.get("max_value") is None else np.minimum(found, highest)


def _run_batch_normalisation(layer: KerasLayer, x: np.ndarray) -> np.ndarray:
    mean, variance, gamma, beta = _moments(layer)
    return gamma * (x - mean) / np.sqrt(variance + layer.number("epsilon", 1e-3)) + beta


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


_FORMULAS: dict[str, Callable[[KerasLayer, np.ndarray], np.ndarray]] = {
    "Dense": _run_dense,
    "Activation": _run_activation,
    "ReLU": _run_relu,
    "LeakyReLU": lambda layer, x: np.where(x < 0, _leak(layer) * x, x),
    "Softmax": lambda layer, x: _softmax(x),
    "BatchNormalization": _run_batch_normalisation,
    "Normalization": lambda layer, x: (x - _standard(layer)[0]) / _standard(layer)[1],
    "Rescaling": lambda layer, x: x * layer.array("scale", 1.0) + layer.array("offset", 0.0),
}


Weights = Callable[[str, str], list[np.ndarray]]  # of the layer of a name and a class


def read_keras(source: str | Path) -> StackSource:
    """Open a .h5 file (Keras 2 or 3) or a .keras archive (Keras 3)."""
    path = Path(source)
    if importlib.util.find_spec("h5py") is None:
        raise InputError(f"reading '{path}' needs h5py: pip install 'bornfair[keras]'.")
    text, layers = _contents(path)
    try:
        config = json.loads(text)
        found = _layers(path, config, _weights(layers, numbered=path.suffix.lower() == ".keras"))
        steps = []
        for one in found:
            try:
                steps += READERS[one.kind](one)
            except (InputError, ValueError, IndexError) as error:
                raise InputError(f"'{path}': {error}") from error
        return StackSource(f"'{path}'", steps, outputs=lambda rows: run(found, rows))
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"'{path}' is not a Keras model that can be read ({reason}); is it complete?") from error


def _contents(path: Path) -> tuple[str, dict[str, list[np.ndarray]]]:
    """The configuration and each layer's arrays, read by a process of its own: see `keras_h5`."""
    script = Path(__file__).with_name("keras_h5.py")
    command = [sys.executable, "-I", str(script), limits.__file__, str(path.absolute())]
    deadline = Deadline.within(limits.READER_SECONDS, least=limits.LEAST_SECONDS)
    try:
        done = subprocess.run(command, capture_output=True, timeout=deadline.seconds, check=False)
    except OSError as error:
        raise InputError(f"'{path}' could not be read: {error}.") from error
    except subprocess.TimeoutExpired:
        raise InputError(
            f"'{path}' takes more than {deadline.seconds:.3g} s to read; networks for tables take less."
        ) from None
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


def _layers(path: Path, config: Any, weights: Weights) -> list[KerasLayer]:
    kind, inner = config["class_name"], config["config"]
    layers = inner if isinstance(inner, list) else inner["layers"]
    if kind not in ("Sequential", "Functional", "Model") or not is_of_keras(config):
        raise InputError(f"'{path}' holds a {kind}; a stack of layers (Sequential) can be read.")
    if kind != "Sequential":
        _check_chain(path, inner)
    found: list[KerasLayer] = []
    for position, layer in enumerate(layers):
        name = layer["config"].get("name", f"layer {position}")
        found.append(layer_of(layer, name, weights(name, layer["class_name"]), f"'{path}': "))
    names = [layer.get("name") for layer in found if layer.weights]
    if len(set(names)) < len(names):
        raise InputError(f"'{path}': two layers have one name; is the file broken?")
    return found


def _check_chain(path: Path, inner: dict[str, Any]) -> None:
    """A functional model must be one chain: each layer reads the one before it, and only that; the last one answers."""
    names: list[str] = []
    for layer in inner["layers"]:
        name = layer.get("name", layer["config"].get("name"))
        nodes = layer.get("inbound_nodes", [])
        sources = _sources(nodes)
        if sources != names[-1:]:
            raise InputError(
                f"'{path}': layer '{name}' reads {shown(sources) or 'nothing'}; only a chain of layers can be read. "
                "Export other models to ONNX (tf2onnx)."
            )
        called = {key: value for key, value in _arguments(nodes).items() if value not in (None, False)}
        if called:
            key, value = next(iter(called.items()))
            raise InputError(
                f"'{path}': layer '{name}' is called with {key} = {value!r:.80}, which is not supported; {OTHERWISE}."
            )
        names.append(name)
    for key, only in (("input_layers", names[0]), ("output_layers", names[-1])):
        found = inner[key]
        sources = _sources([found] if found and isinstance(found[0], str) else found)
        if sources != [only]:
            raise InputError(
                f"'{path}': its {key} are {shown(sources) or 'missing'}; only a chain of layers with one input "
                f"('{names[0]}') and one output ('{names[-1]}') can be read. Export other models to ONNX (tf2onnx)."
            )


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


def _arguments(nodes: Any) -> dict[str, Any]:
    """The keywords that a layer is called with."""
    if isinstance(nodes, dict):
        return dict(nodes.get("kwargs") or {})
    if not isinstance(nodes, list):
        return {}
    if len(nodes) == 4 and isinstance(nodes[0], str):
        return dict(nodes[3] or {})
    return {key: value for node in nodes for key, value in _arguments(node).items()}
