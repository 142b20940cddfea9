"""The layers of Keras that can be read: which settings each may have, the steps it is read as, and its own formula.

A setting that is not listed is refused by layer and key. `run` computes layers from the raw configuration by the
formulas of Keras's documentation and uses none of the steps, so that it can judge them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.dense_stack import Step, normalisation


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


def _leaky(layer: KerasLayer) -> list[Step]:
    return [Step("leaky", layer.label, (_leak(layer),))]


def _leak(layer: KerasLayer) -> float:
    """Keras 2 calls it alpha."""
    return layer.number("negative_slope" if "negative_slope" in layer.settings else "alpha", 0.3)


def _batch_normalisation(layer: KerasLayer) -> list[Step]:
    gamma, beta, mean, variance = _moments(layer)
    return [normalisation(layer.label, mean, variance, gamma, beta, layer.number("epsilon", 1e-3))]


def _moments(layer: KerasLayer) -> list[np.ndarray]:
    """gamma, beta, mean and variance."""
    scale, centre, weights = layer.get("scale", True), layer.get("center", True), layer.weights
    if len(weights) != 2 + bool(scale) + bool(centre) or any(w.shape != weights[0].shape for w in weights):
        raise InputError(f"{layer.label} has {len(weights)} arrays of weights; is the file complete?")
    rest = list(weights)
    gamma = rest.pop(0) if scale else np.ones(weights[0].shape)
    return [gamma, rest.pop(0) if centre else np.zeros(weights[0].shape), *rest]


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


def _rescaling(layer: KerasLayer) -> list[Step]:
    return [Step("scale", layer.label, (layer.array("scale", 1.0), layer.array("offset", 0.0)))]


def _passed_on(layer: KerasLayer) -> list[Step]:
    """Nothing happens at inference."""
    return []


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
READERS: dict[str, Callable[[KerasLayer], list[Step]]] = {
    "InputLayer": _passed_on,
    "Dense": _dense,
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _leaky,
    "Softmax": lambda layer: [Step("softmax", layer.label)],
    "BatchNormalization": _batch_normalisation,
    "Normalization": _normalisation,
    "Rescaling": _rescaling,
    "Dropout": _passed_on,
    "GaussianNoise": _passed_on,
    "Flatten": _passed_on,
}

# --- which settings a layer may have ---


def _precision(value: Any) -> bool:
    name = value.get("config", {}).get("name") if isinstance(value, dict) else value
    return name in (None, "float32", "float64")


def _columns(value: Any) -> bool:
    """One row of columns for each person; the first dimension is the batch."""
    return value is None or (isinstance(value, list) and len(value) == 2)


def _last(value: Any) -> bool:
    return value in (-1, 1, [-1], [1])


def _off(value: Any) -> bool:
    return value in (None, False)


Allowed = Callable[[Any], bool] | None  # None: it is read, or it matters in training only
OTHERWISE = "save the model without it, or export it to ONNX (tf2onnx)"
COMMON: dict[str, Allowed] = {
    "name": None, "trainable": None, "dtype": _precision, "batch_input_shape": _columns, "batch_shape": _columns,
    "activity_regularizer": None,
}  # fmt: skip
SETTINGS: dict[str, dict[str, Allowed]] = {
    "InputLayer": {"sparse": _off, "ragged": _off, "optional": _off},
    "Dense": dict.fromkeys((
        "units", "activation", "use_bias", "kernel_initializer", "bias_initializer", "kernel_regularizer",
        "bias_regularizer", "kernel_constraint", "bias_constraint",
    )),
    "Activation": {"activation": None},
    "ReLU": {"max_value": None, "negative_slope": None, "threshold": None},
    "LeakyReLU": {"negative_slope": None, "alpha": None},
    "Softmax": {"axis": _last, "robust_masking": None},
    "BatchNormalization": dict.fromkeys((
        "momentum", "epsilon", "center", "scale", "beta_initializer", "gamma_initializer", "moving_mean_initializer",
        "moving_variance_initializer", "beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint",
        "synchronized", "fused", "renorm_clipping", "renorm_momentum",
    )) | {"axis": _last, "renorm": _off},
    "Normalization": {"axis": lambda value: value is None or _last(value), "invert": _off, "mean": None,
                      "variance": None},
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
    gamma, beta, mean, variance = _moments(layer)
    return gamma * (x - mean) / np.sqrt(variance + layer.number("epsilon", 1e-3)) + beta


def _run_normalisation(layer: KerasLayer, x: np.ndarray) -> np.ndarray:
    mean, spread = _standard(layer)
    return (x - mean) / spread


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
    "Normalization": _run_normalisation,
    "Rescaling": lambda layer, x: x * layer.array("scale", 1.0) + layer.array("offset", 0.0),
}
