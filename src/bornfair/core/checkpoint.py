"""Checkpoints of training and search: one file with the whole state, replaced atomically."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import check_file, read_regular, write_atomically
from bornfair.core.growing import Busy, Lock

FORMAT = "bornfair-checkpoint/1"
_owned: ContextVar[frozenset[Path]] = ContextVar("_owned", default=frozenset())


@dataclass(frozen=True)
class Saved:
    tensors: dict[str, np.ndarray]
    facts: dict[str, Any]


@contextlib.contextmanager
def owned(path: str | Path | None) -> Iterator[None]:
    """Inside, no other run uses this checkpoint. The lock is FILE.lock; a nested call for the same file does nothing.

    Folders that are made for it are removed if they are empty in the end.

    Raises:
        InputError: if another run owns the checkpoint, or its place cannot be written.
    """
    target = None if path is None else Path(os.path.realpath(path))
    if path is None or target is None or target in _owned.get():
        yield
        return
    check_file(path)
    made = [folder for folder in target.parents if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = Lock(target.with_name(f"{target.name}.lock"))
    except Busy:
        raise InputError(
            f"another run is using the checkpoint '{path}'; wait until it ends, or name another file."
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot lock the checkpoint '{path}': {error.strerror or error}; name a place that can be written."
        ) from error
    outer = _owned.set(_owned.get() | {target})
    try:
        yield
    finally:
        _owned.reset(outer)
        lock.path.unlink(missing_ok=True)
        lock.close()
        with contextlib.suppress(OSError):  # not empty
            for folder in made:
                folder.rmdir()


def save(path: str | Path, saved: Saved, *, expected: str) -> None:
    """`expected` is the fingerprint of the run: its settings, start and data."""
    facts = json.dumps({"format": FORMAT, "run": expected, "facts": saved.facts})
    tensors = {name: np.asarray(array, order="C") for name, array in saved.tensors.items()}
    tensors["facts"] = np.frombuffer(facts.encode(), dtype=np.uint8)
    write_atomically(path, tensor_bytes(tensors), private=True)


def load(path: str | Path, *, expected: str) -> Saved:
    return read(content(path), path, expected=expected)


def content(path: str | Path) -> bytes:
    try:
        return read_regular(path, limits.MODEL_BYTES)
    except OSError as error:
        raise _no_checkpoint(path, error) from error


def read(content: bytes, path: str | Path, *, expected: str) -> Saved:
    """The checkpoint in the bytes of a file that `save` wrote."""
    try:
        tensors = read_tensors(content)
        header = json.loads(tensors.pop("facts").tobytes())
        stored, facts = header["run"], header["facts"]
        known = header["format"] == FORMAT
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _no_checkpoint(path, error) from error
    if not known:
        raise InputError(
            f"'{path}' is a checkpoint of another version ({header['format']!r}); delete it to start again."
        )
    if stored != expected:
        raise InputError(
            f"the checkpoint '{path}' belongs to a run with another model, other data or other settings; resume with "
            "the same ones, or delete it to start from the beginning."
        )
    return Saved(tensors, facts)


def _no_checkpoint(path: str | Path, error: Exception) -> InputError:
    return InputError(f"'{path}' is not a bornfair checkpoint ({error}); delete it to start from the beginning.")
