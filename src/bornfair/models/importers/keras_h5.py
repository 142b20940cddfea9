"""Reads the arrays of a Keras file in a process of its own: the HDF5 library can crash on a broken file.

Run as a script with the path of a .h5 file or .keras archive. On standard output: an .npz of all weights, with a JSON
index of them, or the JSON text of an error. It imports nothing of the rest of the package.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np

MOST_BYTES = 1_000_000_000
MOST_NUMBERS = 40_000_000
MALFORMED = (
    OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, EOFError, MemoryError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class Refused(Exception):
    """A file that is not read, and why."""


def read(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise Refused(f"it has more than {MOST_BYTES:,} bytes; networks for tables are smaller")
    if path.suffix.lower() != ".keras":
        with h5py.File(path, "r") as file:
            config = file.attrs.get("model_config")
            if config is None:
                raise Refused("it holds weights without their layers (no model_config); save the whole model")
            return _packed(_text(config), _named(file))
    with zipfile.ZipFile(path) as archive:
        content = [_member(archive, name) for name in ("config.json", "model.weights.h5")]
    with h5py.File(io.BytesIO(content[1]), "r") as file:
        return _packed(content[0].decode(), _numbered(file))


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise Refused(f"{name} in it is larger than {MOST_BYTES:,} bytes")
    with archive.open(name) as stream:
        return stream.read(MOST_BYTES)


def _named(file: Any) -> dict[str, list[np.ndarray]]:
    """.h5: a group for each layer, whose attribute lists its weights in order."""
    root = _child(file, "model_weights") if _has(file, "model_weights") else file
    layers = {}
    for name in root:
        group = _child(root, name)
        if isinstance(group, h5py.Group):
            layers[name] = [_array(group, _text(weight)) for weight in group.attrs.get("weight_names", [])]
    return layers


def _numbered(file: Any) -> dict[str, list[np.ndarray]]:
    """.keras: layers by class and count, whose variables are numbered."""
    root = _child(file, "layers")
    layers = {}
    for name in root:
        group = _child(root, name)
        if isinstance(group, h5py.Group) and _has(group, "vars"):
            variables = _child(group, "vars")
            layers[name] = [_array(variables, str(i)) for i in range(len(variables))]
    return layers


def _has(group: Any, name: str) -> bool:
    """Whether there is something of this name, without following it if it is a link."""
    return group.get(name, default=None, getlink=True) is not None


def _child(group: Any, name: str) -> Any:
    if not isinstance(group.get(name, default=None, getlink=True), h5py.HardLink):
        raise Refused(f"'{name}' in it is missing or a link to elsewhere, which is not followed")
    return group[name]


def _array(group: Any, name: str) -> np.ndarray:
    found = group
    for part in name.split("/"):
        found = _child(found, part)
    if not isinstance(found, h5py.Dataset) or found.external or found.is_virtual or found.size > MOST_NUMBERS:
        raise Refused(f"the weights '{name}' are not a plain array of a size that is read")
    array = np.asarray(found[()])
    if array.dtype.kind not in "fiu" or not np.isfinite(array).all():
        raise Refused(f"the weights '{name}' hold something else than finite numbers; train it again")
    return array.astype(np.float64)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _packed(config: str, layers: dict[str, list[np.ndarray]]) -> bytes:
    arrays: dict[str, Any] = {
        f"{i}.{j}": array for i, weights in enumerate(layers.values()) for j, array in enumerate(weights)
    }
    index = {"config": config, "layers": {name: len(weights) for name, weights in layers.items()}}
    packed = io.BytesIO()
    np.savez(packed, index=np.frombuffer(json.dumps(index).encode(), np.uint8), **arrays)
    return packed.getvalue()


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(read(Path(sys.argv[1])))
    except Refused as refused:
        sys.stdout.write(json.dumps({"error": str(refused)}))
    except MALFORMED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        sys.stdout.write(json.dumps({"error": f"it is not a Keras model that can be read ({reason}); is it complete?"}))
