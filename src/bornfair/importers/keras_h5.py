"""Reads the arrays of a Keras file in a process of its own: the HDF5 library can crash on a broken file.

Run as a script with the path of `bornfair/core/limits.py` and of a .h5 file or .keras archive. On standard output: an
.npz of all weights, with a JSON index of them, or the JSON text of an error. It imports nothing else of the package.
"""

from __future__ import annotations

import io
import json
import runpy
import sys
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np

MALFORMED = (
    OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class Refused(Exception):
    """A file that is not read, and why."""


def read(path: Path, limits: Any) -> memoryview:
    if path.stat().st_size > limits.KERAS_BYTES:
        raise Refused(f"it has more than {limits.KERAS_BYTES:,} bytes; networks for tables are smaller")
    arrays = _Arrays(limits.KERAS_ARRAYS, limits.KERAS_BYTES)
    if path.suffix.lower() != ".keras":
        with h5py.File(path, "r") as file:
            config = file.attrs.get("model_config")
            if config is None:
                raise Refused("it holds weights without their layers (no model_config); save the whole model")
            return _packed(_text(config, limits.KERAS_TEXT), _named(file, arrays))
    with zipfile.ZipFile(path) as archive:
        config = _member(archive, "config.json", limits.KERAS_TEXT)
        weights = io.BytesIO(_member(archive, "model.weights.h5", limits.KERAS_BYTES))
    with h5py.File(weights, "r") as file:
        return _packed(config.decode(), _numbered(file, arrays))


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    if archive.getinfo(name).file_size > most:
        raise Refused(f"{name} in it is larger than {most:,} bytes")
    with archive.open(name) as stream:
        return stream.read(most)


class _Arrays:
    """Finds arrays, and refuses a file of too many or too large ones before one of them is read."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.left, self.bytes_left, self.most_bytes = most, most_bytes, most_bytes

    def find(self, group: Any, name: str) -> Any:
        found = group
        for part in name.split("/"):
            found = _child(found, part)
        if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual:
            raise Refused(f"the weights '{name}' are not a plain array")
        if found.dtype.kind not in "fiu":
            raise Refused(f"the weights '{name}' are not numbers; train it again")
        self.left -= 1
        self.bytes_left -= found.size * max(found.dtype.itemsize, np.dtype(np.float64).itemsize)
        if self.left < 0 or self.bytes_left < 0:
            raise Refused(
                f"its weights are too many or take more than {self.most_bytes:,} bytes; networks for tables are smaller"
            )
        return found


def _named(file: Any, arrays: _Arrays) -> dict[str, list[Any]]:
    """.h5: a group for each layer, whose attribute lists its weights in order."""
    root = _child(file, "model_weights") if _has(file, "model_weights") else file
    layers = {}
    for name in root:
        group = _child(root, name)
        if isinstance(group, h5py.Group):
            layers[name] = [arrays.find(group, _text(weight)) for weight in group.attrs.get("weight_names", [])]
    return layers


def _numbered(file: Any, arrays: _Arrays) -> dict[str, list[Any]]:
    """.keras: layers by class and count, whose variables are numbered."""
    root = _child(file, "layers")
    layers = {}
    for name in root:
        group = _child(root, name)
        if isinstance(group, h5py.Group) and _has(group, "vars"):
            variables = _child(group, "vars")
            layers[name] = [arrays.find(variables, str(i)) for i in range(len(variables))]
    return layers


def _has(group: Any, name: str) -> bool:
    """Whether there is something of this name, without following it if it is a link."""
    return group.get(name, default=None, getlink=True) is not None


def _child(group: Any, name: str) -> Any:
    if not isinstance(group.get(name, default=None, getlink=True), h5py.HardLink):
        raise Refused(f"'{name}' in it is missing or a link to elsewhere, which is not followed")
    return group[name]


def _text(value: Any, most: int = 1 << 16) -> str:
    if isinstance(value, (bytes, str)) and len(value) > most:
        raise Refused(f"it holds a text of more than {most:,} bytes where a name or the layers should be")
    return value.decode() if isinstance(value, bytes) else str(value)


def _read(found: Any) -> np.ndarray:
    array = np.asarray(found[()])
    if not np.isfinite(array).all():
        raise Refused(f"the weights '{found.name}' hold something else than finite numbers; train it again")
    return array.astype(np.float64, copy=False)


def _packed(config: str, layers: dict[str, list[Any]]) -> memoryview:
    arrays: dict[str, Any] = {
        f"{i}.{j}": _read(found) for i, weights in enumerate(layers.values()) for j, found in enumerate(weights)
    }
    index = {"config": config, "layers": {name: len(weights) for name, weights in layers.items()}}
    packed = io.BytesIO()
    np.savez(packed, index=np.frombuffer(json.dumps(index).encode(), np.uint8), **arrays)
    return packed.getbuffer()


if __name__ == "__main__":
    try:
        limits = SimpleNamespace(**runpy.run_path(sys.argv[1]))
        limits.limit_this_process(limits.READER_BYTES, limits.READER_SECONDS)
        sys.stdout.buffer.write(read(Path(sys.argv[2]), limits))
    except Refused as refused:
        sys.stdout.write(json.dumps({"error": str(refused)}))
    except MALFORMED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        sys.stdout.write(json.dumps({"error": f"it is not a Keras model that can be read ({reason}); is it complete?"}))
