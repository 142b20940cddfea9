"""Reader of dense stacks in Keras files (.h5 and .keras), by their published layout and without TensorFlow.

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

from bornfair.core import limits
from bornfair.core.errors import InputError, shown
from bornfair.core.limits import Deadline
from bornfair.importers.dense_stack import StackSource, Step
from bornfair.importers.keras_layers import OTHERWISE, READERS, KerasLayer, is_of_keras, layer_of, run

Weights = Callable[[str, str], list[np.ndarray]]  # of the layer of a name and a class


def read_keras(path: Path) -> StackSource:
    """Open a .h5 file (Keras 2 or 3) or a .keras archive (Keras 3)."""
    if importlib.util.find_spec("h5py") is None:
        raise InputError(f"reading '{path}' needs h5py: pip install 'bornfair[keras]'.")
    text, layers = _contents(path)
    try:
        config = json.loads(text)
        found = _layers(path, config, _weights(layers, numbered=path.suffix.lower() == ".keras"))
        steps = [step for layer in found for step in _steps(path, layer)]
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


def _steps(path: Path, layer: KerasLayer) -> list[Step]:
    try:
        return READERS[layer.kind](layer)
    except (InputError, ValueError, IndexError) as error:
        raise InputError(f"'{path}': {error}") from error


def _check_chain(path: Path, inner: dict[str, Any]) -> None:
    """A functional model must be one chain: each layer reads the one before it, and only that; the last one answers."""
    before, names = None, []
    for layer in inner["layers"]:
        name = layer.get("name", layer["config"].get("name"))
        nodes = layer.get("inbound_nodes", [])
        sources = _sources(nodes)
        if sources != ([] if before is None else [before]):
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
        before = name
        names.append(name)
    for key, only in (("input_layers", names[0]), ("output_layers", names[-1])):
        found = inner[key]
        found = [found] if found and isinstance(found[0], str) else found
        if _sources(found) != [only]:
            raise InputError(
                f"'{path}': its {key} are {shown(_sources(found)) or 'missing'}; only a chain of layers with one input "
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
