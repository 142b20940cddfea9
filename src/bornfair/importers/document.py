"""JSON and UBJSON documents that other programs wrote: read within limits, and asked for fields that may be missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import read_regular
from bornfair.importers.ubjson import read_ubjson


def read_document(path: Path) -> dict[str, Any]:
    """A .json or .ubj file as a document."""
    content = read_bytes(path)
    found = read_ubjson(content, path) if path.suffix.lower() == ".ubj" else parsed(content, path)
    if not isinstance(found, dict):
        raise InputError(f"'{path}' holds no model: a {type(found).__name__} stands where an object should.")
    return found


def read_bytes(path: Path) -> bytes:
    try:
        return read_regular(path, limits.DOCUMENT_BYTES)
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({error.strerror or error}).") from error


def parsed(content: bytes, path: str | Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"'{path}' is not a JSON file we can read: {reason}; is it truncated?") from error


class Page:
    """An object of the document, whose fields are what they should be or a sentence says so."""

    def __init__(self, fields: Any, origin: str) -> None:
        self.origin = origin
        if not isinstance(fields, dict):
            raise InputError(f"{origin}: an object is missing where the format has one; is the file broken?")
        self.fields: dict[str, Any] = fields

    def wrong(self, name: str) -> InputError:
        return InputError(f"{self.origin}: '{name}' is not what the format says; is the file broken?")

    def inside(self, name: str) -> Page:
        if not isinstance(self.fields.get(name), dict):
            raise InputError(f"{self.origin}: '{name}' is missing; is the file broken?")
        return Page(self.fields[name], self.origin)

    def text(self, name: str) -> str:
        if not isinstance(self.fields.get(name), str):
            raise self.wrong(name)
        return str(self.fields[name])

    def whole(self, name: str, default: int | None = None) -> int:
        given = self.fields.get(name, default)
        try:
            if isinstance(given, (str, int)) and not isinstance(given, bool) and len(str(given)) < 20:
                return int(given)
        except ValueError:
            pass
        raise self.wrong(name)

    def listed(self, name: str) -> list[Any]:
        found = self.fields.get(name, [])
        if isinstance(found, np.ndarray):
            return found.tolist()
        if not isinstance(found, list):
            raise self.wrong(name)
        return found

    def numbers(self, name: str, kind: Any, count: int | None = None) -> np.ndarray:
        try:
            wide = np.asarray(self.fields.get(name))
            if wide.ndim != 1 or (wide.size and wide.dtype.kind not in "biuf"):
                raise self.wrong(name)
            with np.errstate(over="ignore", invalid="ignore"):
                found = wide.astype(kind)
            if np.dtype(kind).kind == "i" and wide.dtype.kind == "f" and (found != wide).any():
                raise self.wrong(name)
        except (ValueError, OverflowError, TypeError):
            raise self.wrong(name) from None
        if count is not None and len(found) != count:
            raise InputError(f"{self.origin}: '{name}' has {len(found)} entries, not {count}; is the file broken?")
        return found
