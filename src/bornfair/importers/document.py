"""JSON and UBJSON documents that other programs wrote: read within limits, and asked for fields that may be missing."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core import limits
from bornfair.core.errors import InputError
from bornfair.core.files import read_regular


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


# --- Universal Binary JSON ---

MOST_LEVELS = 64  # of objects and lists in each other
NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
WORDS: dict[str, Any] = {"Z": None, "N": None, "T": True, "F": False}


def read_ubjson(content: bytes, path: str | Path) -> Any:
    """The document: lists of numbers of one type are arrays.

    >>> read_ubjson(b"{i\\x01a[$d#i\\x02\\x3f\\x80\\x00\\x00\\x40\\x00\\x00\\x00i\\x01bTi\\x01cSi\\x02hi}", "a.ubj")
    {'a': array([1., 2.], dtype=float32), 'b': True, 'c': 'hi'}
    """
    reader = _Reader(content, path)
    try:
        found = reader.value(reader.marker(), 0)
    except (UnicodeDecodeError, struct.error) as error:
        raise reader.wrong(str(error)) from error
    if reader.at != len(content):
        raise reader.wrong(f"{len(content) - reader.at} bytes are left over")
    return found


class _Reader:
    def __init__(self, content: bytes, path: str | Path) -> None:
        self.content, self.path, self.at = content, path, 0

    def wrong(self, what: str) -> InputError:
        return InputError(f"'{self.path}' is not a UBJSON file we can read: byte {self.at}: {what}.")

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.content) - self.at:
            raise self.wrong(
                f"{count} bytes are announced, but {len(self.content) - self.at} are left; is it truncated?"
            )
        self.at += count
        return self.content[self.at - count : self.at]

    def marker(self) -> str:
        return chr(self.take(1)[0])

    def number(self, kind: str) -> Any:
        size = np.dtype(NUMBERS[kind])
        return np.frombuffer(self.take(size.itemsize), size)[0].item()

    def length(self) -> int:
        kind = self.marker()
        if kind not in NUMBERS or kind in "dD":
            raise self.wrong(f"a length of the type {kind!r}")
        found = int(self.number(kind))
        if found < 0:
            raise self.wrong(f"a length of {found}")
        return found

    def value(self, kind: str, level: int) -> Any:
        if level > MOST_LEVELS:
            raise self.wrong(f"lists and objects more than {MOST_LEVELS} levels deep")
        if kind in NUMBERS:
            return self.number(kind)
        if kind in WORDS:
            return WORDS[kind]
        if kind == "S":
            return self.take(self.length()).decode()
        if kind == "C":
            return chr(self.take(1)[0])
        if kind == "[":
            return self.listed(level)
        if kind == "{":
            return self.named(level)
        raise self.wrong(f"the unknown type {kind!r}")

    def listed(self, level: int) -> Any:
        kind, count = self.header()
        if kind is not None:
            assert count is not None
            if kind not in NUMBERS:
                raise self.wrong(f"a list of the type {kind!r}")
            size = np.dtype(NUMBERS[kind])
            return np.frombuffer(self.take(count * size.itemsize), size).astype(size.newbyteorder("="))
        found: list[Any] = []
        if count is not None:
            return [self.value(self.marker(), level + 1) for _ in range(count)]
        while (marker := self.marker()) != "]":
            found.append(self.value(marker, level + 1))
        return found

    def named(self, level: int) -> dict[str, Any]:
        kind, count = self.header()
        if kind is not None:
            raise self.wrong(f"an object of values of the type {kind!r} alone")
        found: dict[str, Any] = {}
        left = count
        while left != 0 if left is not None else self.content[self.at : self.at + 1] != b"}":
            name = self.take(self.length()).decode()
            found[name] = self.value(self.marker(), level + 1)
            left = None if left is None else left - 1
        self.take(0 if count is not None else 1)
        return found

    def header(self) -> tuple[str | None, int | None]:
        """The type and the number of values, where they stand in front of a list."""
        kind = None
        if self.content[self.at : self.at + 1] == b"$":
            self.take(1)
            kind = self.marker()
        if self.content[self.at : self.at + 1] == b"#":
            self.take(1)
            count = self.length()
            if kind is None and count > len(self.content) - self.at:  # every value takes a byte at least
                raise self.wrong(f"{count} values are announced, but {len(self.content) - self.at} bytes are left")
            return kind, count
        if kind is not None:
            raise self.wrong("a type of values without their number")
        return None, None
