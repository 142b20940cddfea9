"""May I believe this bundle? An independent check of what its certificate claims, with Python alone.

Nothing of bornfair is imported, only the standard library: copy this one file anywhere, run `python checker.py BUNDLE`.
It reads the ONNX bytes itself, understands two kinds of graph (raw columns, network or trees, decision), and derives
the claim anew: in exact fractions, or in float64 with bounds that cover every rounding, its own and the machine's. Of
a third kind, with anything inside, it reads the wiring only: what no sensitive value can reach does not depend on it.
What it does not understand it rejects.

Parts, in order: files, protocol buffers, people (domain.json), the graph, structural proofs, bounds, forests, wiring,
twins, verdict.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import os
import stat
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from operator import add, le, mul, sub, truediv
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = "bornfair-certificate/2"
STATEMENT = "decision(x, s) = decision(x, t) for all individuals (x, s), (x, t) of the domain"
DECLARED = "decision(p) = decision(q) for all individuals p, q of the domain that are versions of one person"
CONDITIONS = (  # of float32: what twins share is the same number for both only if it is summed up the same way
    "In float32 that holds where both are added up in the same order: by one program on one machine, such as "
    "onnxruntime with its default options; with prepacking disabled, one asked alone and one asked in a batch may "
    "differ."
)
SUMS = (  # of trees in float64, where sums may round
    "In float64 that holds where the trees of both are added up in the same order: by one program that is asked about "
    "both in the same way; onnxruntime adds up a person asked alone in another order than one asked in a batch."
)
ASKED_ALIKE = (  # of a graph with anything inside, whose operators may treat rows otherwise by their places
    "That holds where both are asked in the same way: by one program on one machine, in the same place of a table "
    "whose other rows are the same."
)
LIMITS = {"certificate.json": 2**24, "domain.json": 2**22, "model.onnx": 2**28}  # bytes
NATIVE = {"model.json": 2**29, "model.txt": 2**29}  # a forest as its own library reads it, where it is in the bundle
MOST_FIELDS = 200_000  # of a model file; one block of weights is one field
MOST_NUMBERS = 2**23  # whole numbers in lists, of which each is a field
MOST_VALUES = 100_000  # sensitive values, or versions of a person, that are looked at one by one
MOST_RULES, MOST_ELEMENTS = 100, 10_000  # for twins, and of the group that they generate
MOST_STEPS = 10**7  # to multiply rules out
MOST_PRODUCTS = 2**26  # of whole numbers, to show that weights cancel
MOST_WEIGHTS = 2**22  # of neurons that are compared with one another, to show that they cancel
PIECES = 16  # into which a real-valued sensitive feature is cut where each value is looked at by itself
FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # element types of ONNX
ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Gelu": "gelu"}
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "Sub": sub, "Add": add, "Mul": mul, "Div": truediv, "Min": min, "Max": max,
}  # fmt: skip
LARGEST = sys.float_info.max
UNLISTED = object()  # a category that is in no list
MALFORMED = (ArithmeticError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


class Rejected(Exception):
    """The bundle does not prove what it claims, or cannot be understood."""


def need(condition: object, reason: str) -> None:
    if not condition:
        raise Rejected(reason)


# --- files: bounded, read into memory, nothing is ever written or executed ---


def read_bundle(path: str | Path) -> dict[str, bytes]:
    """The three files of a bundle, a folder or a .zip, by name; and a fourth, if a forest's own file is there."""
    place = Path(path)
    try:
        if place.is_dir():
            there = LIMITS | {name: limit for name, limit in NATIVE.items() if (place / name).exists()}
            return {name: _read_file(place / name, limit) for name, limit in there.items()}
        return _read_zip(place, _read_file(place, sum((LIMITS | NATIVE).values())))
    except OSError as error:
        raise Rejected(f"the bundle cannot be read ({error.strerror})") from None


def _read_zip(place: Path, content: bytes) -> dict[str, bytes]:
    """The files of a .zip: one after the other, then a directory that says the same of each, and nothing else. All of
    them may lie in one folder, as when a folder is zipped.

    Some programs go by the directory, others by the headers: where these differ, one would serve what the other
    did not check.
    """
    need(content[-22:-18] == b"PK\5\6", f"'{place.name}' is neither a folder nor a complete .zip")
    found, directory, folders, at = dict[str, bytes](), list[tuple[bytes, bytes, str]](), set[str](), 0
    while content[at : at + 4] == b"PK\3\4" and at + 30 < len(content):
        _, flags, method, _, crc, packed, size, length, extra = struct.unpack_from("<3H4I2H", content, at + 4)
        start = at + 30 + length
        path, begin = content[at + 30 : start].decode(errors="replace"), start + extra
        folder, slash, name = path.rpartition("/")
        known = name in (*LIMITS, *NATIVE, "report.html", *([""] if slash else []))
        need(known and name not in found and _is_plain(folder, slash), f"unexpected file {path!r} in the .zip")
        folders.add(folder + slash)
        need(len(folders) == 1, f"{path!r} is not in the folder of the other files in the .zip")
        need(method in (0, 8) and not flags and _is_when(content[start:begin]), f"{path!r} is not plainly zipped")
        need(size <= ((LIMITS | NATIVE).get(name, 2**26) if name else 0), f"{path!r} is too large")
        found[name] = _unpacked(content[begin : begin + packed], method, size)
        need(len(found[name]) == size and zlib.crc32(found[name]) == crc, f"{path!r} is damaged in the .zip")
        directory.append((content[at + 4 : at + 28], struct.pack("<I", at) + path.encode(), name))
        at = begin + packed
    begin = at
    for facts, where, name in directory:  # between the two stands who may do what with the file, and whether it is one
        extra, comment, disk, text = struct.unpack_from("<4H", content[at + 30 : at + 38].ljust(8, b"\xff"))
        kind = stat.S_IFMT(int.from_bytes(content[at + 40 : at + 42], "little"))
        plain = kind in (0, stat.S_IFREG if name else stat.S_IFDIR) and not comment and not disk
        plain = plain and text <= (name not in ("", "model.onnx"))  # of a text, ends of lines may be changed
        marks = (b"\0\0",) if name else (b"\0\0", b"\x10\0")
        mark = content[at : at + 4] == b"PK\1\2" and content[at + 38 : at + 40] in marks
        same = content[at + 6 : at + 30] == facts and content[at + 42 : at + 42 + len(where)] == where
        at += 42 + len(where)
        need(
            same and plain and mark and _is_when(content[at : at + extra]),
            f"the directory of '{place.name}' says something else than its files",
        )
        at += extra
    end_of = struct.pack("<4H2IH", 0, 0, len(found), len(found), at - begin, begin, 0)
    need(content[at:] == b"PK\5\6" + end_of, f"'{place.name}' holds more than its files, or less")
    missing = set(LIMITS) - set(found)
    need(not missing, f"the .zip lacks {', '.join(sorted(missing))}")
    return {name: found[name] for name in (*LIMITS, *NATIVE) if name in found}


def _is_plain(folder: str, slash: str) -> bool:
    """Whether that is no folder at all, or one folder by its name alone."""
    named = folder not in (".", "..") and folder.isprintable() and not set(folder) & set("/\\:")
    return named and bool(folder) == bool(slash)


def _is_when(extra: bytes) -> bool:
    """Whether further fields of a file in a .zip say only when it was written and by whom, as `zip` writes them."""
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        if kind not in (0x5455, 0x7875) or len(extra) < 4 + length:
            return False
        extra = extra[4 + length :]
    return not extra


def _unpacked(packed: bytes, method: int, size: int) -> bytes:
    """What a file in a .zip holds: no more than it says, and nothing behind it."""
    if method == 0:
        return packed
    machine = zlib.decompressobj(-15)
    try:
        content = machine.decompress(packed, size + 1)
        content += machine.decompress(machine.unconsumed_tail, 1) if len(content) <= size else b""
    except zlib.error as error:
        raise Rejected(f"the .zip is damaged ({error})") from None
    need(machine.eof and not machine.unused_data, "the .zip is damaged, or holds more than its files")
    return content


def _read_file(path: Path, limit: int) -> bytes:
    try:
        need(stat.S_ISREG(path.stat().st_mode), f"'{path.name}' is not a regular file")
        return _bounded(path.open("rb"), limit, path.name)
    except FileNotFoundError:
        raise Rejected(f"there is no '{path.name}'") from None
    except OSError as error:
        raise Rejected(f"'{path.name[:80]}' cannot be read ({error.strerror})") from None


def _bounded(stream: Any, limit: int, name: str) -> bytes:
    with stream:
        content = stream.read(limit + 1)
    need(len(content) <= limit, f"'{name}' is larger than {limit:,} bytes")
    return content


def parse_json(content: bytes, name: str) -> dict[str, Any]:
    """A JSON object without repeated names, NaN or infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        need(len(found) == len(pairs), f"{name} names a field twice")
        return found

    def finite(text: str) -> float:
        number = float(text)
        need(math.isfinite(number), f"{name} holds the number {text[:40]}")
        return number

    try:
        data = json.loads(content.decode(), object_pairs_hook=once, parse_float=finite, parse_constant=finite)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{name} is not JSON ({str(error)[:80]})") from None
    need(isinstance(data, dict), f"{name} must hold one JSON object")
    return data


# --- protocol buffers: the messages of ONNX we know; any other field is rejected ---

ENTRY = {1: ("key", "text"), 2: ("value", "text")}
OPSET = {1: ("domain", "text"), 2: ("version", "int")}
TENSOR = {1: ("dims", "int*"), 2: ("type", "int"), 6: ("strings", "bytes*"), 8: ("name", "text"), 9: ("raw", "bytes")}
ATTRIBUTE = {
    1: ("name", "text"), 3: ("i", "int"), 5: ("t", "", TENSOR), 8: ("ints", "int*"), 9: ("strings", "bytes*"),
    20: ("type", "int"),
}  # fmt: skip
INTS = 8 << 3  # the key of a whole number in the list of an attribute
NODE = {
    1: ("inputs", "text*"), 2: ("outputs", "text*"), 3: ("name", "text"), 4: ("op", "text"),
    5: ("attributes", "*", ATTRIBUTE), 7: ("domain", "text"),
}  # fmt: skip
DIM = {1: ("value", "int"), 2: ("param", "text")}
TENSOR_TYPE = {1: ("type", "int"), 2: ("shape", "", {1: ("dims", "*", DIM)})}
VALUE = {1: ("name", "text"), 2: ("type", "", {1: ("tensor", "", TENSOR_TYPE)})}
GRAPH = {
    1: ("nodes", "*", NODE), 2: ("name", "text"), 5: ("constants", "*", TENSOR), 11: ("inputs", "*", VALUE),
    12: ("outputs", "*", VALUE),
}  # fmt: skip
MODEL = {
    1: ("ir_version", "int"), 2: ("producer", "text"), 3: ("producer_version", "text"), 7: ("graph", "", GRAPH),
    8: ("opsets", "*", OPSET), 14: ("metadata", "*", ENTRY),
}  # fmt: skip


class Budget:
    """How many fields, and how many whole numbers in lists, a model file may still have."""

    def __init__(self, fields: int = MOST_FIELDS) -> None:
        self.most, self.fields, self.numbers = fields, fields, MOST_NUMBERS

    def spend(self) -> None:
        self.fields -= 1
        need(self.fields >= 0, f"the model file has more than {self.most:,} fields")


def parse_message(data: memoryview, known: dict[int, Any], budget: Budget) -> dict[str, Any]:
    """A message as a dictionary. Repeated fields are lists, absent ones are missing."""
    found: dict[str, Any] = {name: [] for name, kind, *_ in known.values() if kind.endswith("*")}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        need(key >> 3 in known, f"the model file holds a field that is not understood ({key >> 3})")
        name, kind, *inner = known[key >> 3]
        budget.spend()
        value: Any
        if kind == "skip":
            at = _skipped(data, at, key, budget)
            continue
        if key == INTS and kind == "int*":
            at = _whole_numbers(data, at, found[name], budget)
            continue
        if key & 7 == 0:
            need(kind.startswith("int"), f"field {name} of the model file has the wrong kind")
            value, at = _varint(data, at)
            value -= (value >> 63) << 64  # two's complement
        else:
            need(key & 7 == 2 and not kind.startswith("int"), f"field {name} of the model file has the wrong kind")
            length, at = _varint(data, at)
            need(at + length <= len(data), "the model file is cut off")
            value, at = data[at : at + length], at + length
            if inner:
                value = parse_message(value, inner[0], budget)
            elif kind.startswith("text"):
                value = _text(bytes(value))
        if kind.endswith("*"):
            found[name].append(value)
        else:
            need(name not in found, f"field {name} occurs twice in the model file")
            found[name] = value
    return found


def _skipped(data: memoryview, at: int, key: int, budget: Budget) -> int:
    """Behind a field whose content does not matter, and behind those that follow it with the same key."""
    while True:
        if key & 7 == 0:
            _, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            at += length
        else:
            need(key & 7 in (1, 5), "the model file holds a field of a kind that is not understood")
            at += 8 if key & 7 == 1 else 4
        need(at <= len(data), "the model file is cut off")
        budget.numbers -= 1
        need(budget.numbers >= 0, f"the model file has more than {MOST_NUMBERS:,} numbers in lists")
        if key > 127 or at >= len(data) or data[at] != key:
            return at
        at += 1


def _whole_numbers(data: memoryview, at: int, found: list[int], budget: Budget) -> int:
    """The numbers of a list that follow one another, each behind the same key; they may be millions."""
    start = len(found)
    while True:
        byte = data[at] if at < len(data) else 128
        if byte < 128:
            at += 1
        else:
            byte, at = _varint(data, at)
            byte -= (byte >> 63) << 64  # two's complement
        found.append(byte)
        need(len(found) - start <= budget.numbers, f"the model file has more than {MOST_NUMBERS:,} numbers in lists")
        if at >= len(data) or data[at] != INTS:
            break
        at += 1
    budget.numbers -= len(found) - start
    return at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        need(at < len(data), "the model file is cut off")
        byte, at = data[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            need(value < 2**64, "the model file holds a number above 64 bits")
            return value, at
    raise Rejected("the model file holds a number above 64 bits")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Rejected("the model file holds a text that is not UTF-8") from None


def _attribute(item: dict[str, Any]) -> tuple[str, Any]:
    kind = {2: "i", 4: "t", 7: "ints", 8: "strings"}.get(item.get("type", 0), "")
    others = (k for k in ("i", "t", "ints", "strings") if k != kind)
    need(kind and not any(map(item.get, others)), "an attribute is odd")
    value = item.get(kind, 0)
    return item.get("name", ""), [_text(bytes(text)) for text in value] if kind == "strings" else value


class ConstantInput(NamedTuple):
    type: int
    dims: tuple[int, ...]
    values: Sequence[Any]


ONE_AXIS = ConstantInput(INT64, (1,), array("q", [1]))


def _constant(tensor: dict[str, Any]) -> tuple[str, ConstantInput]:
    name, kind, dims = tensor.get("name", ""), tensor.get("type"), tuple(tensor["dims"])
    need(all(0 <= d < 2**32 for d in dims) and len(dims) <= 2, f"constant '{name}' has an odd shape")
    if kind == STRING:
        need("raw" not in tensor, f"constant '{name}' holds both texts and bytes")
        values: Sequence[Any] = [_text(bytes(value)) for value in tensor["strings"]]
    else:
        code = {FLOAT: "f", INT64: "q", BOOL: "B", DOUBLE: "d"}.get(kind or 0)
        need(code is not None and not tensor["strings"], f"constant '{name}' has a type that is not understood")
        need(kind != BOOL or math.prod(dims) <= 1000, f"constant '{name}' is larger than any list of classes")
        numbers = array(code or "")
        raw = tensor.get("raw", b"")
        held = len(raw) / numbers.itemsize
        need(held == math.prod(dims), f"constant '{name}' has {held:g} values for the shape {list(dims)}")
        numbers.frombytes(raw)
        if sys.byteorder == "big":
            numbers.byteswap()
        need(all(map(math.isfinite, numbers)), f"constant '{name}' holds NaN or infinity")
        need(kind != BOOL or max(numbers, default=0) < 2, f"constant '{name}' is neither true nor false")
        values = [value == 1 for value in numbers] if kind == BOOL else numbers
    need(len(values) == math.prod(dims), f"constant '{name}' has {len(values)} values for the shape {list(dims)}")
    return name, ConstantInput(kind or 0, dims, values)


# --- people: who exists, as domain.json says ---

Box = dict[str, tuple[Any, ...]]  # (low, high) of a number, the possible levels of anything else


KINDS: dict[str, set[str]] = {  # what is said of a feature, besides its name and kind
    "real": {"low", "high", "grid"},
    "integer": {"low", "high"},
    "categorical": {"categories"},
    "boolean": set(),
}


def a_list(data: Any, what: str) -> list[Any]:
    need(type(data) is list, f"{what} must be a list")
    return data


def is_value(data: Any) -> bool:
    """Whether this can be a category or class."""
    return type(data) in (bool, int, float) or is_text(data)


def is_text(data: Any) -> bool:
    return type(data) is str and not any("\ud800" <= c <= "\udfff" for c in data)  # no halves of characters


class Individuals:
    """All individuals of the domain."""

    def __init__(self, data: dict[str, Any]) -> None:
        need(data["format"] == "bornfair-domain/1", "domain.json has another format")
        known = {"format", "features", "sensitive", "combinations", "label"}
        need(set(data) - {"twins"} == known, "domain.json has other fields")
        features = a_list(data["features"], "features")
        self.features: dict[str, dict[str, Any]] = {feature["name"]: feature for feature in features}
        need(len(self.features) == len(features), "domain.json names a feature twice")
        self.places: dict[str, dict[Any, int]] = {}  # of categories: where each is in the list
        for feature in features:
            self._check_feature(**feature)
        self.sensitive: list[str] = a_list(data["sensitive"], "sensitive")
        self.sensitive_set = set(self.sensitive)
        need(len(self.sensitive_set) == len(self.sensitive), "a sensitive feature is named twice")
        need(self.sensitive_set <= self.features.keys(), "a sensitive feature is not in the domain")
        for name in self.sensitive:
            self._check_sensitive(name)
        self.combinations: list[list[Any]] | None = data["combinations"]
        self.rows: set[tuple[Any, ...]] = set()
        if self.combinations is not None:
            self._check_combinations(a_list(self.combinations, "combinations"))
        self.classes: list[Any] | None = None
        if data["label"] is not None:
            self._check_label(**data["label"])
        self.rules: list[Any] = a_list(data.get("twins", []), "twins")
        need(not self.rules or self.sensitive, "rules for twins are declared, but no feature is sensitive")
        need(len(self.rules) <= MOST_RULES, f"there are more than {MOST_RULES} rules")
        size = sum(map(len, self.places.values())) + len(self.rows) * len(self.sensitive)
        need(len(self.rules) * size <= MOST_STEPS, "there are too many rules for so many values")
        made = [dict(self._move(**move) for move in a_list(rule, "a rule")) for rule in self.rules]
        twice = any(len(moves) != len(rule) or not rule for moves, rule in zip(made, self.rules, strict=True))
        need(not twice, "a rule moves a column twice, or none")
        need(all(map(self._keeps_combinations, self.rules)), "a rule makes a combination that does not exist")
        moved = {name for rule in made for name in rule if name not in self.sensitive_set}
        self.moved = {name: i for i, name in enumerate(name for name in self.features if name in moved)}
        still = {name: tuple(range(2 if self.is_number(name) else len(self.levels(name)))) for name in self.moved}
        self.generators = [tuple(rule.get(name, still[name]) for name in self.moved) for rule in made]
        self.elements = self._products()

    def _check_feature(self, name: Any, kind: Any, **rest: Any) -> None:
        missing = rest.pop("missing", False) if kind != "boolean" else False
        need(type(missing) is bool, f"'{name}' is missing in an odd way")
        need(is_text(name) and kind in KINDS and set(rest) == KINDS[kind], f"feature {name!r} is odd")
        if kind == "categorical":
            levels = a_list(rest["categories"], f"the categories of '{name}'")
            need(levels and all(map(is_value, levels)), f"the categories of '{name}' are odd")
            self.places[name] = {level: i for i, level in enumerate(self.levels(name))}
            need(len(self.places[name]) == len(self.levels(name)), f"'{name}' lists a category twice")
        elif kind == "boolean":
            self.places[name] = {False: 0, True: 1}
        else:
            low, high = rest["low"], rest["high"]
            whole = type(low) is type(high) is int and low >= -(2**53) and high <= 2**53
            need(whole or kind == "real", f"the ends of '{name}' are not whole numbers within 2^53")
            need(
                kind == "integer" or type(low) is type(high) is float, f"the ends of '{name}' are not written as floats"
            )
            need(-(2**1000) < low <= high < 2**1000, f"'{name}' has no range")
            levels = rest.get("grid", 2)
            need(type(levels) is int and 2 <= levels <= MOST_VALUES, f"the grid of '{name}' is odd")

    def _check_sensitive(self, name: str) -> None:
        need(not (self.is_number(name) and self.gappy(name)), f"the sensitive number '{name}' may be missing")
        if self.is_real(name):
            low, high = self.ends(name)
            several = low < high
            wide = (high - low) / (self.features[name]["grid"] - 1) > 0
            need(wide or not several, f"the range of sensitive feature '{name}' is too narrow")
        else:
            several = len(self.levels(name)) > 1
            need(len(self.levels(name)) <= 2**23, f"sensitive feature '{name}' has more values than any of ours")
        need(several, f"sensitive feature '{name}' has a single value: nobody has a twin, any claim is empty")

    def _check_combinations(self, rows: list[Any]) -> None:
        need(self.sensitive, "combinations are given, but no feature is sensitive")
        need(
            not any(map(self.is_real, self.sensitive)), "combinations of a real-valued feature, which may be any number"
        )
        need(len(rows) <= MOST_VALUES, f"there are more than {MOST_VALUES:,} combinations")
        for row in rows:
            fits = len(a_list(row, "a combination")) == len(self.sensitive)
            need(fits and all(map(self.has, self.sensitive, row)), f"combination {row!r} is odd")
        self.rows = set(map(tuple, rows))
        need(len(self.rows) > 1, "there is one combination only: nobody has a twin, any claim is empty")
        need(len(self.rows) == len(rows), "a combination is listed twice")

    def _check_label(self, name: Any, classes: Any) -> None:
        need(is_text(name) and name not in self.features, "the label is a feature, or has no name")
        need(all(map(is_value, a_list(classes, "the classes"))), "the classes are odd")
        different = len({str(c) for c in classes}) == len(set(classes)) == len(classes)
        need(different and len(classes) > 1, "the classes must be two or more, with different names")
        self.classes = classes

    def _move(self, kind: Any, feature: Any, **how: Any) -> tuple[str, tuple[int, ...]]:
        """What a part of a rule does to a feature: where each level goes; (1, 0) where a number x becomes total − x.

        What it does to a sensitive feature is only looked at for sense: any sensitive value may become any other.
        """
        need(feature in self.features, f"a rule moves {feature!r}, which is not in the domain")
        need(kind != "carried", f"a rule carries the number '{feature}' along, which is not supported")
        odd = f"a rule of '{feature}' is odd"
        if kind == "mirror":
            need(set(how) == {"total"} and type(how["total"]) in (int, float), odd)
            fits = self.is_number(feature) and how["total"] == sum(self.ends(feature))
            need(fits, f"'{feature}' is mirrored elsewhere")
            return feature, (1, 0)
        need(kind == "cycles" and set(how) == {"cycles"}, odd)
        cycles = [a_list(cycle, "a cycle") for cycle in a_list(how["cycles"], "the cycles")]
        values = [value for cycle in cycles for value in cycle]
        known = all(self.has(feature, value) and value is not None for value in values)  # a gap stays a gap
        need(known, f"a rule moves a value that '{feature}' does not have")
        need(len(set(values)) == len(values) > 0, f"a rule maps a value of '{feature}' twice")
        need(all(len(cycle) > 1 for cycle in cycles), f"a rule of '{feature}' moves nothing")
        goes = dict(pair for cycle in cycles for pair in _steps(cycle))
        if self.is_number(feature):
            whole = feature in self.sensitive_set and self.features[feature]["kind"] == "integer"
            need(whole, f"single values of the number '{feature}' are moved")
            return feature, ()
        place = self.places[feature]
        return feature, tuple(place[goes.get(level, level)] for level in place)

    def _keeps_combinations(self, rule: list[dict[str, Any]]) -> bool:
        """Whether a rule turns sensitive values that exist together into such that do."""
        rows, moves = self.combinations or [], {move["feature"]: move for move in rule}
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for j, name in enumerate(self.sensitive if rows else ()):
            move = moves.get(name, {"cycles": []})
            goes = dict(pair for cycle in move.get("cycles", ()) for pair in _steps(cycle))
            columns[j] = [move["total"] - v if "total" in move else goes.get(v, v) for v in columns[j]]
        return set(zip(*columns, strict=True)) <= self.rows

    def _products(self) -> list[tuple[tuple[int, ...], ...]]:
        """The group that the rules generate on features that are not sensitive: all products, the identity first."""
        identity = tuple(tuple(range(2 if self.is_number(n) else len(self.levels(n)))) for n in self.moved)
        found, fresh = {identity: None}, [identity]
        while fresh:
            few = len(found) <= MOST_ELEMENTS
            few = few and len(found) * len(self.generators) * (sum(map(len, identity)) + 1) <= MOST_STEPS
            need(few, f"the rules relate more than {MOST_ELEMENTS:,} versions of a person")
            pairs = [(generator, element) for element in fresh for generator in self.generators]
            made = [tuple(tuple(g[i] for i in e) for g, e in zip(*pair, strict=True)) for pair in pairs]
            fresh = [element for element in dict.fromkeys(made) if element not in found]
            found |= dict.fromkeys(fresh)
        return list(found)

    def moved_value(self, name: str, goes: tuple[int, ...], value: Any) -> Any:
        """A value as a twin has it; a mirrored number without any rounding."""
        if self.is_number(name):
            mirrored = goes == (1, 0) and value is not None
            return Fraction(sum(self.ends(name))) - Fraction(value) if mirrored else value
        return self.levels(name)[goes[self.places[name][value]]]

    def images(self, box: Box) -> list[Box]:
        """The box, and where its people's twins are: one box for each element of the group, equal ones once."""
        found = {}
        for element in self.elements:
            moved = dict(box)
            for name, goes in zip(self.moved, element, strict=True):
                values = [self.moved_value(name, goes, value) for value in box[name]]
                if self.is_number(name):  # a gap comes last
                    there = sorted(value for value in values if value is not None)
                    moved[name] = (*there, *[None] * (len(values) - len(there)))
                else:
                    moved[name] = tuple(sorted(values, key=self.places[name].__getitem__))
            found[tuple(moved[name] for name in self.moved)] = moved
        return list(found.values())

    def is_number(self, name: str) -> bool:
        return self.features[name]["kind"] in ("real", "integer")

    def is_real(self, name: str) -> bool:
        return self.features[name]["kind"] == "real"

    def gappy(self, name: str) -> bool:
        """Whether some people have no value of a feature: that is one more value, None."""
        return bool(self.features[name].get("missing", False))

    def ends(self, name: str) -> tuple[Any, Any]:
        return self.features[name]["low"], self.features[name]["high"]

    def levels(self, name: str) -> Sequence[Any]:
        """All values of a feature that is not real-valued; of a number, those that are not missing."""
        if self.is_number(name):
            low, high = self.ends(name)
            return range(low, high + 1)
        levels: Sequence[Any] = self.features[name].get("categories", (False, True))
        return [*levels, None] if self.gappy(name) else levels

    def has(self, name: str, value: Any) -> bool:
        """Whether a raw value exists."""
        if not self.is_number(name):
            place = self.places[name].get(value)
            return place is not None and type(self.levels(name)[place]) is type(value)
        if value is None:
            return self.gappy(name)
        low, high = self.ends(name)
        kinds = (int,) if self.features[name]["kind"] == "integer" else (int, float)
        return type(value) in kinds and low <= value <= high and float(value) == value

    @property
    def sensitive_count(self) -> int | None:
        """How many sensitive values a person may have; None: more than can be counted, as a number may be any real."""
        if self.combinations is not None:
            return len(self.combinations)
        if any(map(self.is_real, self.sensitive)):
            return None
        return math.prod(len(self.levels(name)) for name in self.sensitive)

    @property
    def version_count(self) -> int | None:
        return None if self.sensitive_count is None else self.sensitive_count * len(self.elements)

    def views(self) -> list[Box] | None:
        """Boxes of sensitive values, which hold all: one for each value, a piece of the range of a real-valued feature.

        None if they are too many to be looked at one by one, for every version of a person that rules relate.
        """
        rows = self.combinations
        sizes = [PIECES if self.is_real(name) else len(self.levels(name)) for name in self.sensitive]
        if (math.prod(sizes) if rows is None else len(rows)) * len(self.elements) > MOST_VALUES:
            return None
        if rows is None:
            boxes = itertools.product(*map(self._pieces, self.sensitive))
            return [dict(zip(self.sensitive, box, strict=True)) for box in boxes]
        return [{name: self.single(name, v) for name, v in zip(self.sensitive, row, strict=True)} for row in rows]

    def _pieces(self, name: str) -> list[tuple[Any, ...]]:
        """Parts of what a feature may be that cover all of it."""
        if not self.is_real(name):
            return [self.single(name, value) for value in self.levels(name)]
        low, high = self.ends(name)
        cuts = [min(low + (high - low) * i / PIECES, high) for i in range(PIECES)]
        return list(itertools.pairwise([*cuts, high]))

    def single(self, name: str, value: Any) -> tuple[Any, ...]:
        """A part of a box that holds one value."""
        return (value, value) if self.is_number(name) and value is not None else (value,)

    def everybody(self) -> Box:
        """What each feature may be: a list; of a number (low, high), (low, high, None) or, all missing, (None,)."""
        gaps = {name: (None,) if self.gappy(name) else () for name in self.features}
        return {n: (*self.ends(n), *gaps[n]) if self.is_number(n) else tuple(self.levels(n)) for n in self.features}


def _steps(cycle: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Which value of a cycle becomes which."""
    return zip(cycle, cycle[1:] + cycle[:1], strict=True)


# --- the graph: node by node, in the order in which bornfair writes them; anything else is rejected ---


class InputColumn(NamedTuple):
    """One input of the network: a function of one feature."""

    feature: str
    table: dict[Any, float] | None  # its value for each level, 0 if not listed; or, for a number,
    steps: tuple[tuple[str, float], ...] = ()  # what is done to it in float64 before it is rounded to float32; each
    # of them grows with the number, or stays
    limits: tuple[float, float] | None = None  # between which the graph lets a number through, if not its range
    unlisted: bool = False  # whether the graph lets a value through that is not listed
    gap: float | None = None  # the number that stands for a missing one

    def value(self, raw: Any, exact: bool) -> Any:
        """As executed, step by step; `exact`: as a fraction, without any rounding."""
        number: Any = Fraction if exact else float
        if self.table is not None:
            return number(self.table.get(raw, 0.0))
        value = number(self.gap if raw is None else raw)
        for operator, constant in self.steps:
            value = STEPS[operator](value, number(constant))
        return value if exact else round32(value)


class NetworkGraph(NamedTuple):
    """The decision: one output means class 1 where it is above 0, several mean the first of the largest."""

    columns: tuple[InputColumn, ...]
    layers: tuple[tuple[list[array[float]], array[float]], ...]  # rows of weights, biases
    activation: str
    classes: list[Any]
    metadata: dict[str, str]
    offsets: Sequence[float] = ()  # what is added to the outputs before they are shown as probabilities


def round32(value: float) -> float:
    try:
        need(math.isfinite(value), "an encoded number overflows")
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise Rejected("an encoded number overflows float32") from None


def _type_and_dims(item: dict[str, Any]) -> tuple[int | None, list[Any]]:
    tensor = item.get("type", {}).get("tensor", {})
    return tensor.get("type"), tensor.get("shape", {}).get("dims", [])


def declared_input(item: dict[str, Any], people: Individuals) -> tuple[str, int]:
    """A raw column that the model takes, and its element type."""
    name, (kind, dims) = item.get("name", ""), _type_and_dims(item)
    feature = people.features.get(name)
    need(feature is not None, f"the model has an input '{name}' that is not in the domain")
    need(dims == [{"param": "rows"}, {"value": 1}], f"input '{name}' is not [rows, 1]")
    gappy = name in people.features and people.gappy(name)  # only NaN and the empty text can say so
    whole = feature and all(type(level) is int for level in feature.get("categories", ())) and not gappy
    allowed = {"real": {DOUBLE}, "integer": {DOUBLE} if gappy else {INT64, DOUBLE}, "boolean": {BOOL}}
    types = allowed.get(feature["kind"], {INT64 if whole else STRING}) if feature else set()
    need(kind in types, f"input '{name}' has the wrong element type")
    return name, kind or 0


class NodeReader:
    """The nodes of a model file, taken one after the other."""

    def __init__(self, model: dict[str, Any], people: Individuals) -> None:
        graph = model.get("graph") or {"nodes": [], "constants": [], "inputs": [], "outputs": []}
        self.people, self.all_nodes, self.outputs = people, graph["nodes"], graph["outputs"]
        self.nodes = iter(self.all_nodes)
        self.types = dict(declared_input(item, people) for item in graph["inputs"])
        self.constants = dict(_constant(tensor) for tensor in graph["constants"])
        made = [name for node in graph["nodes"] for name in node["outputs"]]
        names = [item.get("name", "") for item in (*graph["inputs"], *graph["constants"])] + made
        need(len(set(names)) == len(names) and "" not in names, "the graph defines a name twice")
        need(
            self.types.keys() >= people.features.keys() - people.sensitive_set, "the model lacks an input of the domain"
        )
        self.unread = set(self.constants)
        self.gaps: dict[str, tuple[str, float]] = {}  # of numbers: where it says that they are missing, and as what
        self._advance()

    def _advance(self) -> None:
        self.node: dict[str, Any] = next(self.nodes, {"inputs": [], "outputs": [], "attributes": []})

    def next_is(self, operator: str) -> bool:
        return self.node.get("op") == operator

    def take(self, operator: str, *inputs: str | None, domain: str = "", **attributes: Any) -> tuple[str, list[Any]]:
        """The next node's output and the constants it reads where `inputs` says None; it must be just this node."""
        node = self.node
        fits = node.get("op") == operator and node.get("domain", "") == domain and len(node["outputs"]) == 1
        fits = fits and dict(map(_attribute, node["attributes"])) == attributes
        fits = fits and len(node["attributes"]) == len(attributes) and len(node["inputs"]) == len(inputs)
        fits = fits and all(mine in (None, theirs) for mine, theirs in zip(inputs, node["inputs"], strict=True))
        need(fits, f"node '{node.get('name', '')}' is not the {operator} expected there: not a graph of bornfair")
        free = [theirs for mine, theirs in zip(inputs, node["inputs"], strict=True) if mine is None]
        need(all(name in self.constants for name in free), f"node '{node.get('name', '')}' reads no constant")
        self._advance()
        self.unread.difference_update(free)
        return node["outputs"][0], [self.constants[name] for name in free]

    def row(self, operator: str, value: str, width: int) -> tuple[str, Sequence[float]]:
        """A step that combines columns with one constant each."""
        output, (constant,) = self.take(operator, value, None)
        need(constant.type == DOUBLE and constant.dims == (1, width), f"the constant of a {operator} has another shape")
        return output, constant.values

    # --- raw columns to network input ---

    def numbers(self, names: list[str], guards: list[str]) -> tuple[str, list[tuple[float, float]]]:
        """Raw numbers as float64, and between which they then lie, whatever is fed.

        Imputing, clipping and refusing leave people of the domain as they are.
        """
        features, width = [self.people.features[name] for name in names], len(names)
        columns = [self._double(name) for name in names]
        value, _ = self.take("Concat", *columns, axis=1)
        if self.next_is("IsNaN"):
            value, (fill,) = self.take("Where", self.take("IsNaN", value)[0], None, value)
            need((fill.type, fill.dims) == (DOUBLE, (1, width)), "missing numbers are filled in an odd way")
        above, least = self.row("GreaterOrEqual", value, width)
        below, most = self.row("LessOrEqual", value, width)
        self._contains(features, least, most)
        allowed, _ = self.take("Cast", self.take("And", above, below)[0], to=INT64)
        every, axes = self.take("ReduceMin", allowed, None, keepdims=0)
        need(axes[0] == ONE_AXIS, "a ReduceMin goes along another axis")
        guards.append(self.take("OneHotEncoder", every, domain="ai.onnx.ml", cats_int64s=[1], zeros=0)[0])
        if self.next_is("Max"):
            value, least = self.row("Max", value, width)
            value, most = self.row("Min", value, width)
            self._contains(features, least, most)
        wide = [(-(2.0**63), 2.0**63) if self.types[name] == INT64 else (-math.inf, math.inf) for name in names]
        limits = [(max(low, a), min(high, b)) for low, high, (a, b) in zip(least, most, wide, strict=True)]
        return value, limits

    def _double(self, name: str) -> str:
        """A raw number as float64; in place of a gap, where the domain has them, a number of its range."""
        if not self.people.gappy(name):
            return name if self.types[name] == DOUBLE else self.take("Cast", name, to=DOUBLE)[0]
        gap, _ = self.take("IsNaN", name)
        value, (fill,) = self.take("Where", gap, None, name)
        need((fill.type, fill.dims) == (DOUBLE, (1, 1)), f"a gap of '{name}' is shown in an odd way")
        low, high = self.people.ends(name)
        need(low <= fill.values[0] <= high, f"a gap of '{name}' is shown as {fill.values[0]!r}")
        self.gaps[name] = gap, fill.values[0]
        return value

    def held(self, value: str, width: int) -> tuple[str, list[tuple[tuple[str, float], ...]]]:
        """Numbers held between two ends each, where the model does that: who lies beyond one is decided as who has it.

        The largest float stands for no end.
        """
        if not self.next_is("Min"):
            return value, [()] * width
        value, most = self.row("Min", value, width)
        value, least = self.row("Max", value, width)
        need(all(map(le, least, most)), "a number is held between ends of which the lower is above the upper")
        ends = [[("Min", high), ("Max", low)] for low, high in zip(least, most, strict=True)]
        return value, [tuple(step for step in steps if abs(step[1]) < LARGEST) for steps in ends]

    def _contains(self, features: list[dict[str, Any]], least: Sequence[float], most: Sequence[float]) -> None:
        for feature, low, high in zip(features, least, most, strict=True):
            need(low <= feature["low"] and feature["high"] <= high, f"the model cuts off values of '{feature['name']}'")

    def category(self, name: str, guards: list[str]) -> tuple[str, list[InputColumn]]:
        """One column for each category, 1 or 0; true/false is one column."""
        levels, value, kind = list(self.people.levels(name)), name, self.types[name]
        if kind == BOOL:
            return self.take("Cast", name, to=FLOAT)[0], [InputColumn(name, {True: 1.0})]
        shown = ["" if level is None else str(level) for level in levels] if kind == STRING else levels
        need(len(set(shown)) == len(shown), f"two categories of '{name}' read the same")
        known = {item.get("name"): item["ints"] for item in self.node["attributes"]}
        if self.next_is("LabelEncoder"):
            need("" not in shown and kind == STRING, f"'{name}' is looked up in an odd way")
            ml: dict[str, Any] = {"domain": "ai.onnx.ml"}
            if known.get("values_int64s") == [0]:  # 0 for the empty text, which is refused, 1 for all others
                there: dict[str, Any] = {"keys_strings": [""], "values_int64s": [0], "default_int64": 1}
                present, _ = self.take("LabelEncoder", name, **ml, **there)
                guard, _ = self.take("OneHotEncoder", present, **ml, cats_int64s=[1], zeros=0)
                guards.append(self.squeezed(guard))
            else:  # each category's position; a missing one, the empty text, is given another's
                fill, positions = known["values_int64s"][-1], list(range(len(shown)))
                need(fill in positions, f"'{name}' is imputed by something else")
                given: dict[str, Any] = {
                    "keys_strings": [*shown, ""],
                    "values_int64s": [*positions, fill],
                    "default_int64": -1,
                }
                value, _ = self.take("LabelEncoder", name, **ml, **given)
                shown = positions
        unseen = next((a.get("i", 0) for a in self.node["attributes"] if a.get("name") == "zeros"), 0)
        need(unseen in (0, 1), f"the encoder of '{name}' is odd")
        cats = {"cats_strings" if isinstance(shown[0], str) else "cats_int64s": shown}
        value, _ = self.take("OneHotEncoder", value, domain="ai.onnx.ml", zeros=unseen, **cats)
        return self.squeezed(value), [InputColumn(name, {level: 1.0}, unlisted=bool(unseen)) for level in levels]

    def code(self, name: str, guards: list[str]) -> tuple[str, list[InputColumn]]:
        """How a model that reads it sees a sensitive feature."""
        if self.people.is_number(name):
            (value, limits), steps = self.numbers([name], guards), []
            while not self.next_is("Cast"):
                operator = str(self.node.get("op"))
                need(operator in ("Sub", "Add", "Mul", "Div"), f"'{name}' is encoded by {operator}")
                value, (constant,) = self.row(operator, value, 1)
                need(constant > 0 or operator in ("Sub", "Add"), f"the code of '{name}' does not grow with it")
                steps.append((operator, constant))
                need(len(steps) <= 8, f"the code of '{name}' takes more steps than any of ours")
            return self.take("Cast", value, to=FLOAT)[0], [InputColumn(name, None, tuple(steps), limits[0])]
        if self.types[name] == BOOL:
            value, (yes, no) = self.take("Where", name, None, None)
            need(yes.type == no.type == FLOAT and yes.dims == no.dims == (1, 1), f"the codes of '{name}' are odd")
            return value, [InputColumn(name, {False: no.values[0], True: yes.values[0]})]
        return self.looked_up(name, *self.category(name, guards))

    def looked_up(self, name: str, hot: str, seen: list[InputColumn]) -> tuple[str, list[InputColumn]]:
        """Each level as a row of numbers: one product is the row times 1, all others are 0, so the row comes out."""
        value, (table,) = self.take("MatMul", hot, None)
        levels = self.people.levels(name)
        need(table.type == FLOAT and table.dims[:1] == (len(levels),) and len(table.dims) == 2, f"codes of '{name}'")
        rows = [dict(zip(levels, table.values[j :: table.dims[1]], strict=True)) for j in range(table.dims[1])]
        return value, [InputColumn(name, row, unlisted=seen[0].unlisted) for row in rows]

    def free(self, name: str, guards: list[str]) -> tuple[str, list[InputColumn]]:
        """How the model sees a category, or true/false: as it is, or by a table in which twins may look alike."""
        if self.types[name] == BOOL and self.next_is("Where"):
            return self.code(name, guards)
        value, columns = self.category(name, guards)
        return self.looked_up(name, value, columns) if self.next_is("MatMul") else (value, columns)

    def label(self, index: str, classes: list[Any]) -> tuple[str, int]:
        """The names of classes, by their positions, and of which type they are."""
        label, (names,) = self.take("Gather", None, index, axis=0)
        shown = [str(c) for c in classes] if names.type == STRING else classes
        need(list(names.values) == shown and names.type != FLOAT, "the classes are not those of the domain")
        need(names.dims == (len(classes),), "the classes have an odd shape")
        return label, names.type

    def finished(self) -> None:
        need(not self.unread, "the model holds a constant that no node reads")

    def squeezed(self, value: str) -> str:
        output, (axes,) = self.take("Squeeze", value, None)
        need(axes == ONE_AXIS, "a Squeeze goes along another axis")
        return output

    # --- all of it ---

    def network(self, metadata: dict[str, str]) -> NetworkGraph:
        people, guards = self.people, list[str]()
        free = [name for name in people.features if name not in people.sensitive_set]
        numeric, others = [n for n in free if people.is_number(n)], [n for n in free if not people.is_number(n)]
        blocks, columns = [], []
        if numeric:
            value, held = self.held(self.numbers(numeric, guards)[0], len(numeric))
            value, centres = self.row("Sub", value, len(numeric))
            value, factors = self.row("Mul", value, len(numeric))
            need(min(factors) >= 0, "a number is scaled by a factor below 0")
            blocks.append(self.take("Cast", value, to=FLOAT)[0])
            steps = [(*h, ("Sub", c), ("Mul", f)) for h, c, f in zip(held, centres, factors, strict=True)]
            for name, step in zip(numeric, steps, strict=True):
                columns.append(InputColumn(name, None, step, gap=self.gaps[name][1] if name in self.gaps else None))
        for name, (gap, _) in self.gaps.items():  # 1 where a number is missing, else 0
            blocks.append(self.take("Cast", gap, to=FLOAT)[0])
            columns.append(InputColumn(name, {None: 1.0}))
        for name in [*others, *people.sensitive]:
            if people.sensitive[:1] == [name] and self.next_is("Concat") and self.node["inputs"] == blocks:
                break  # all are there, and no sensitive feature is read
            block, more = (self.code if name in people.sensitive_set else self.free)(name, guards)
            blocks.append(block)
            columns += more
        need(columns, "the network has no inputs")
        value, _ = self.take("Concat", *blocks, axis=1)
        for guard in guards:  # 1 for everybody of the domain
            value, _ = self.take("Mul", value, guard)
        layers, activation, width = [], "relu", len(columns)
        while True:
            value, (weight, bias) = self.take("Gemm", value, None, None, transB=1)
            need(weight.type == bias.type == FLOAT and len(weight.dims) == 2, "a layer is not in float32")
            need(weight.dims[1] == width and bias.dims == weight.dims[:1], "two layers do not fit together")
            need(weight.dims[0] <= 2**16, "a layer has more neurons than any of ours")
            width, wide = weight.dims[0], weight.dims[1]
            layers.append(([weight.values[i * wide : (i + 1) * wide] for i in range(width)], bias.values))
            operator = str(self.node.get("op"))
            if operator not in ACTIVATIONS:
                break
            need(len(layers) == 1 or activation == ACTIVATIONS[operator], "the model has two kinds of activation")
            activation = ACTIVATIONS[operator]
            value, _ = self.take(operator, value)
        classes = people.classes if people.classes is not None else list(range(max(width, 2)))
        need(width == (1 if len(classes) == 2 else len(classes)), f"{width} outputs do not fit the classes")
        offsets = self._decision(value, width, classes)
        self.finished()
        return NetworkGraph(tuple(columns), tuple(layers), activation, classes, metadata, offsets)

    # --- trees ---

    def forest(self, metadata: dict[str, str]) -> ForestGraph:
        """Raw columns side by side, trees, what is done to their sums, and the decision."""
        blocks, places = list[str](), list[TreeColumn]()
        wanted: Sequence[str] = next((node["inputs"] for node in self.all_nodes if node.get("op") == "Concat"), ())
        need(len(wanted) <= len(self.people.features), "the trees read more columns than there are")
        for name in wanted:
            block, more = self.places(name)
            need(more[0].feature not in {place.feature for place in places}, "the trees read a column twice")
            blocks.append(block)
            places += more
        need(places, "the trees read nothing")
        value, _ = self.take("Concat", *blocks, axis=1)
        trees, value = self.trees(value, places)
        steps, value = self.sums(value, trees.outputs)
        classes = self.people.classes if self.people.classes is not None else list(range(max(trees.outputs, 2)))
        need(len(classes) == max(trees.outputs, 2), f"{trees.outputs} outputs do not fit the classes")
        label, at = self.cut(value, trees.outputs, classes)
        link, slope = self.shown(value, trees.outputs, label, classes)
        self.finished()
        return replace(trees, steps=steps, at=at, classes=classes, metadata=metadata, link=link, slope=slope)

    def places(self, wanted: str) -> tuple[str, list[TreeColumn]]:
        """One raw column as numbers: as it is, true/false as 1 or 0, a category as its row of a table."""
        name = wanted if wanted in self.types else next(iter(self.node["inputs"]), "")
        need(name in self.types, f"'{wanted[:40]}' is no column of the domain")
        kind, levels = self.types[name], self.people.levels(name) if not self.people.is_real(name) else ()
        if kind == DOUBLE:
            return name, [TreeColumn(name, None)]
        if kind == BOOL:
            return self.take("Cast", name, to=DOUBLE)[0], [TreeColumn(name, {False: 0.0, True: 1.0})]
        need(len(levels) <= MOST_VALUES, f"'{name}' has more values than any table of ours")
        levels = [level for level in levels if level is not None]
        count, shown = len(levels), [str(level) for level in levels] if kind == STRING else list(levels)
        need(not self.people.gappy(name) or "" not in shown, f"the empty text is a category of '{name}', and a gap")
        need(len(set(shown)) == count, f"two categories of '{name}' read the same")
        known: dict[str, Any] = {"keys_int64s": shown, "values_int64s": list(range(count))}
        if kind == STRING:  # an empty text is a missing one
            empty = "" not in shown
            known = {"keys_strings": shown + [""] * empty, "values_int64s": list(range(count + empty))}
        index, _ = self.take("LabelEncoder", name, domain="ai.onnx.ml", default_int64=count + 1, **known)
        value, (table,) = self.take("Gather", None, index, axis=0)
        fits = table.type == DOUBLE and table.dims[:1] == (count + 2,) and len(table.dims) == 2 and table.dims[1] > 0
        need(fits and len(table.values) <= MOST_WEIGHTS // 2, f"the table of '{name}' is odd, or too large")
        columns = [table.values[j :: table.dims[1]] for j in range(table.dims[1])]
        rows: list[dict[Any, float]] = [dict(zip(levels, column, strict=False)) for column in columns]
        if self.people.gappy(name):
            rows = [row | {None: column[-2]} for row, column in zip(rows, columns, strict=True)]
        places = [TreeColumn(name, row, (column[-2], column[-1])) for row, column in zip(rows, columns, strict=True)]
        return self.squeezed(value), places

    def trees(self, raw: str, places: list[TreeColumn]) -> tuple[ForestGraph, str]:
        node = self.node
        found = dict(map(_attribute, node["attributes"]))
        fits = node.get("op") == "TreeEnsemble" and node.get("domain") == "ai.onnx.ml" and node["inputs"] == [raw]
        fits = fits and len(node["outputs"]) == 1 and len(found) == len(node["attributes"])
        need(fits, f"node '{node.get('name', '')}' is not the TreeEnsemble expected there: not a graph of bornfair")
        need(set(found) == TREES, "the trees have other attributes than any of ours")
        need(found["aggregate_function"] == 1, "the leaves are not added up")
        need(found["post_transform"] == 0, "something is done to the sums inside of the trees")
        outputs, count = found["n_targets"], len(found["nodes_featureids"])
        need(1 <= outputs <= 10_000, f"the trees have {outputs} outputs")
        need(all(len(found[name]) == count for name in LISTS), "there are other splits than sides or columns of splits")
        modes, splits = (_numbers(found[name], kind) for name, kind in (("nodes_modes", 2), ("nodes_splits", DOUBLE)))
        weights = _numbers(found["leaf_weights"], DOUBLE)
        need(len(modes) == len(splits) == count > 0, "there are other splits than modes or thresholds")
        need(len(found["leaf_targetids"]) == len(weights), "there are other leaves than outputs of leaves")
        need(all(0 <= k < outputs for k in found["leaf_targetids"]), "a leaf adds to an output that is not there")
        need(all(0 <= j < len(places) for j in found["nodes_featureids"]), "a split reads a column that is not there")
        need(not any(map(math.isnan, splits)), "a threshold is not a number")
        need(all(map(math.isfinite, weights)), "a leaf is not a finite number")
        need(not any(modes), "a split is of a kind that is not understood")
        need(set(found["nodes_missing_value_tracks_true"]) <= {0, 1}, "where a missing value goes is odd")
        sides = found["nodes_truenodeids"] + found["nodes_falsenodeids"]
        need(all(side >= 0 for side in sides), "a split leads to what is not there")
        yes, no = (
            [~i if leaf else i for i, leaf in zip(found[f"nodes_{side}nodeids"], _flags(found, side), strict=True)]
            for side in ("true", "false")
        )
        _check_trees(found["tree_roots"], yes, no, len(weights))
        self._advance()
        missing = found["nodes_missing_value_tracks_true"]
        forest = ForestGraph(
            tuple(places), found["tree_roots"], found["nodes_featureids"], splits, missing, yes, no,
            found["leaf_targetids"], weights, outputs,
        )  # fmt: skip
        need(forest.largest < 2.0**1000, "a sum may overflow")
        return forest, node["outputs"][0]

    def sums(self, value: str, outputs: int) -> tuple[list[tuple[str, Sequence[float]]], str]:
        """What is done to the sums of leaves, each output by itself: a base, a divisor, a factor, a base."""
        steps = list[tuple[str, Sequence[float]]]()
        for operator in ("Add", "Div", "Mul", "Add"):
            if not self.next_is(operator) or self.node["inputs"][:1] != [value]:
                continue
            value, (constant,) = self.take(operator, value, None)
            width = outputs if operator == "Add" else 1
            need((constant.type, constant.dims) == (DOUBLE, (1, width)), f"the constant of a {operator} has odd shape")
            need(operator == "Add" or min(constant.values) > 0, "sums are divided or multiplied by nothing above 0")
            need(max(map(abs, constant.values)) < 2.0**500, "a score may overflow")
            need(operator == "Add" or min(constant.values) > 2.0**-500, "a score may overflow")
            steps.append((operator, list(constant.values) * (outputs if width < outputs else 1)))
        return steps, value

    def cut(self, value: str, outputs: int, classes: list[Any]) -> tuple[str, Sequence[float]]:
        """The label, and where it is decided: above a number, or what is taken from each output before."""
        at: Sequence[float] = [0.0] * outputs
        if outputs == 1:
            above, (cut,) = self.take("Greater", value, None)
            need((cut.type, cut.dims) == (DOUBLE, (1, 1)), "the decision is made at something odd")
            at = cut.values
            index = self.squeezed(self.take("Cast", above, to=INT64)[0])
        else:
            if self.next_is("Sub"):
                value, (apart,) = self.take("Sub", value, None)
                need((apart.type, apart.dims) == (DOUBLE, (1, outputs)), "what is taken from the scores is odd")
                at = apart.values
            index, _ = self.take("ArgMax", value, axis=1, keepdims=0)
        need(max(map(abs, at)) < 2.0**500, "the decision is made at a number that is too large")
        label, kind = self.label(index, classes)
        given = (self.outputs[0].get("name"), *_type_and_dims(self.outputs[0])) if self.outputs else ()
        need(given == (label, kind, [{"param": "rows"}]), "the outputs are not the decision")
        return label, at

    def shown(self, scores: str, outputs: int, label: str, classes: list[Any]) -> tuple[str, float]:
        """Probabilities, which decide nothing, and how they are made."""
        link, steepness = "probability", 1.0
        if outputs == 1 and self.next_is("Sub"):
            rest, (one,) = self.take("Sub", None, scores)
            need((one.type, one.dims, one.values[0]) == (DOUBLE, (1, 1), 1.0), "the shares do not sum to 1")
            both, _ = self.take("Concat", rest, scores, axis=1)
            shares, _ = self.take("Cast", both, to=FLOAT)
        else:
            value = scores
            if outputs == 1 and self.next_is("Mul"):
                value, (slope,) = self.take("Mul", value, None)
                need((slope.type, slope.dims) == (DOUBLE, (1, 1)) and slope.values[0] > 0, "the slope of scores is odd")
                steepness = slope.values[0]
            shares, _ = self.take("Cast", value, to=FLOAT)
            if outputs == 1:
                both, _ = self.take("Concat", self.take("Neg", shares)[0], shares, axis=1)
                shares, _ = self.take("Sigmoid", both)
                link = "sigmoid"
            elif self.next_is("Softmax"):
                shares, _ = self.take("Softmax", shares, axis=1)
                link = "softmax"
        need(not self.node["outputs"] and next(self.nodes, None) is None, "the graph goes on after the decision")
        given = [(item.get("name"), *_type_and_dims(item)) for item in self.outputs[1:]]
        wanted = [(shares, FLOAT, [{"param": "rows"}, {"value": len(classes)}])]
        need(given == wanted and shares != label, "the outputs are not the decision")
        return link, steepness

    # --- the decision of a network ---

    def _decision(self, outputs: str, width: int, classes: list[Any]) -> Sequence[float]:
        if width == 1:
            above, (zero,) = self.take("Greater", outputs, None)
            need((zero.type, zero.dims, zero.values[0]) == (FLOAT, (1,), 0), "the decision is not made at 0")
            index = self.squeezed(self.take("Cast", above, to=INT64)[0])
        else:
            index, _ = self.take("ArgMax", outputs, axis=1, keepdims=0)
        label, kind = self.label(index, classes)
        offsets: Sequence[float] = ()
        if self.next_is("Add"):
            outputs, (apart,) = self.take("Add", outputs, None)
            need((apart.type, apart.dims) == (FLOAT, (width,)), "what is added to the scores has an odd shape")
            offsets = apart.values
            need(all(map(math.isfinite, offsets)), "what is added to the scores is not finite")
        if width == 1:
            both, _ = self.take("Concat", self.take("Neg", outputs)[0], outputs, axis=1)
            shares, _ = self.take("Sigmoid", both)
        else:
            shares, _ = self.take("Softmax", outputs, axis=1)
        need(not self.node["outputs"] and next(self.nodes, None) is None, "the graph goes on after the decision")
        given = [(item.get("name"), *_type_and_dims(item)) for item in self.outputs]
        wanted: list[Any] = [(label, kind, [{"param": "rows"}])]
        wanted += [(shares, FLOAT, [{"param": "rows"}, {"value": len(classes)}])]
        need(given == wanted, "the outputs are not the decision")
        return offsets


def read_model(content: bytes, people: Individuals) -> NetworkGraph | ForestGraph | Wiring:
    """The network, or the trees, inside a model file, with what their inputs mean; or the wiring of anything else."""
    if is_wired(content):
        return read_wiring(content, people)
    model = parse_message(memoryview(content), MODEL, Budget())
    opsets = sorted((item.get("domain", ""), item.get("version")) for item in model["opsets"])
    entries = {item.get("key", ""): item.get("value", "") for item in model["metadata"]}
    need(len(entries) == len(model["metadata"]), "the model file names its metadata twice")
    if opsets == [("", 21), ("ai.onnx.ml", 5)]:
        need(model.get("ir_version") == 10, "the model file is of another version")
        return NodeReader(model, people).forest(entries)
    need(opsets in ([("", v), ("ai.onnx.ml", 3)] for v in (18, 20)), "the model uses other versions of operators")
    need(model.get("ir_version") == 9, "the model file is of another version")
    network = NodeReader(model, people).network(entries)
    need(network.activation != "gelu" or ("", 20) in opsets, "gelu is not an operator of this version")
    return network


# --- structural proofs: what differs between twins cannot reach the decision ---


def prove_structurally(network: NetworkGraph, people: Individuals) -> set[str]:
    """The arithmetics in which what differs between twins cannot reach the decision.

    Of sensitive features that is shown for whatever is fed to the model, in the domain or not; of a feature that rules
    move, for the values that a rule turns into one another. From layer to layer it is followed which neurons may be
    another number for a twin (`first_alike`). In the first layer none may be whose inputs are the same numbers, bit by
    bit, or multiplied by 0 (in float32 and in real numbers), or add up to the same (in real ones). Feature by feature
    is no loss: sensitive values may change one at a time, and a rule is undone by repeating it, so what one feature
    adds cannot make up for another.
    """
    rows, pairs, apart = network.layers[0][0], dict[str, list[tuple[Any, Any]]](), dict[str, list[int]]()
    for name, places in places_of(network).items():
        pairs[name] = twin_values(people, name)
        if name in people.sensitive_set and any(network.columns[j].unlisted for j in places):
            pairs[name].append((pairs[name][0][0], UNLISTED))
        others = partners(pairs[name])
        apart[name] = [j for j in places if any(row[j] for row in rows) and differs(network.columns[j], others)]
    layer = first_alike(network, [any(row[j] for several in apart.values() for j in several) for row in rows])
    if layer is not None:  # by weights of 0; but 0·∞ is not 0
        sizes = input_sizes(network, people)
        moved = (sizes[j] for j, column in enumerate(network.columns) if pairs[column.feature])
        finite = all(size < math.inf for size in moved) and (layer == 0 or stay_finite(network, layer, sizes))
        return {"real", "float32"} if finite else {"real"}
    told = told_apart(network, pairs, apart)
    if first_alike(network, [i in told for i in range(len(rows))], cancelling=True) is None:
        raise Rejected(next(told[i] for i in heard(network) if i in told))
    return {"real"}  # weights that cancel do so in exact numbers only


def told_apart(network: NetworkGraph, pairs: dict[str, Any], apart: dict[str, list[int]]) -> dict[int, str]:
    """The neurons of the first layer that twins may tell apart, in exact numbers, and by what."""
    rows, found = network.layers[0][0], dict[int, str]()
    work = sum(len(pairs[name]) * len(several) * len(rows) for name, several in apart.items())
    need(work <= MOST_PRODUCTS, "to show that the weights of so many values cancel takes too long")
    for name, several in apart.items():
        weights = [whole([row[j] for j in several]) for row in rows]
        columns = [network.columns[j] for j in several]
        for here, there in pairs[name] if several else ():
            change = whole([column.value(there, True) - column.value(here, True) for column in columns])
            for neuron in (i for i, row in enumerate(weights) if i not in found and sum(map(mul, row, change))):
                other = "a value not listed" if there is UNLISTED else repr(there)
                found[neuron] = f"first-layer neuron {neuron} tells {name} {here!r} from {other}, which twins may have"
    return found


def first_alike(network: NetworkGraph, apart: list[bool], *, cancelling: bool = False) -> int | None:
    """The first layer of which no neuron may be another number for a twin, given which of the first layer may; None if
    an output may.

    A neuron may be if it reads one that may with a weight other than 0. Not so if (`cancelling`, in exact numbers) its
    weights on neurons that are one function add up to 0; nor if it is a hidden relu that is off whatever is fed: all
    its weights and its bias are at most 0, and what a relu gives is not below. A neuron that weights of 0 keep from the
    outputs may be what it likes.
    """
    last, work = len(network.layers) - 1, 0
    for depth, (rows, bias) in enumerate(network.layers):
        if depth:
            before = [i for i, other in enumerate(apart) if other]
            likely = same_signs(network, depth - 1, before) if cancelling else []
            work += len(likely) * len(network.layers[depth - 1][0][0])
            need(work <= MOST_WEIGHTS, "to show that so many neurons cancel takes too long")
            groups = alike(network, depth - 1, likely)
            alone = set(before) - {i for group in groups for i in group}
            apart = [any(row[i] for i in alone) or not all(cancels(row, group) for group in groups) for row in rows]
            if network.activation == "relu" and depth < last:
                apart = [other and (b > 0 or max(row) > 0) for other, row, b in zip(apart, rows, bias, strict=True)]
        if not any(apart):
            return depth
    return None


def same_signs(network: NetworkGraph, depth: int, neurons: list[int]) -> list[int]:
    """Those neurons whose weights and bias have the same signs as another's: no others can be one function."""
    (rows, bias), found = network.layers[depth], dict[Any, list[int]]()
    for i in neurons:
        found.setdefault(tuple((w > 0) - (w < 0) for w in (*rows[i], bias[i])), []).append(i)
    return [i for several in found.values() if len(several) > 1 for i in several]


def alike(network: NetworkGraph, depth: int, neurons: list[int]) -> list[dict[int, Fraction]]:
    """Groups of neurons that are one function of what they read, up to a factor: each neuron with its own.

    Equal weights and bias make equal functions; of a relu also those that are a positive multiple: max(c·z, 0) is
    c·max(z, 0). A neuron that reads nothing is not asked about.
    """
    (rows, bias), found = network.layers[depth], dict[Any, dict[int, Fraction]]()
    for i in neurons:
        numbers = [Fraction(w) for w in (*rows[i], bias[i])]
        size = next(abs(w) for w in numbers if w) if network.activation == "relu" else Fraction(1)
        found.setdefault(tuple(w / size for w in numbers), {})[i] = size
    return [group for group in found.values() if len(group) > 1]


def cancels(row: Sequence[float], group: dict[int, Fraction]) -> bool:
    return sum(Fraction(row[i]) * factor for i, factor in group.items()) == 0


def heard(network: NetworkGraph) -> list[int]:
    """Which neurons of the first layer a path of weights other than 0 connects with an output."""
    found = set(range(len(network.layers[-1][1])))
    for rows, _ in reversed(network.layers[1:]):
        found = {j for i in found for j, weight in enumerate(rows[i]) if weight}
    return sorted(found)


def input_sizes(network: NetworkGraph, people: Individuals) -> list[float]:
    """How large each input may be as executed: sensitive ones for whatever the graph lets through, others for everybody
    of the domain; infinite where it overflows.
    """
    everybody, found = people.everybody(), []
    for column in network.columns:
        if column.table is not None:
            found.append(max(map(abs, column.table.values()), default=0.0))
            continue
        sensitive = column.feature in people.sensitive_set
        ends = column.limits if sensitive and column.limits else everybody[column.feature]
        try:  # every step grows with the number, or stays
            found.append(max(abs(column.value(end, False)) for end in ends))
        except Rejected:
            found.append(math.inf)
    return found


def stay_finite(network: NetworkGraph, layer: int, sizes: list[float]) -> bool:
    """Whether no sum before this layer overflows in float32, in any order, for inputs that are no larger than this.

    A sum of n products is at most Σ|w||x| + |b| in size, and one part in 2^23 for each of them more by rounding; what
    an activation gives, at most as much as its sum, or 1, and the 2^-10 is for its own rounding and for ours.
    """
    for rows, bias in network.layers[:layer]:
        more = 1 + 2.0**-10 + (len(sizes) + 8) * 2.0**-23
        sums = [sum(map(mul, map(abs, row), sizes)) + abs(b) for row, b in zip(rows, bias, strict=True)]
        if more > 1.25 or not all(size < 2.0**126 for size in sums):  # nor is a sum NaN, as 0·∞ would make it
            return False
        sizes = [max(size, 1.0) * more for size in sums]
    return True


def places_of(network: NetworkGraph) -> dict[str, list[int]]:
    """Which inputs of the network belong to each feature."""
    found: dict[str, list[int]] = {}
    for j, column in enumerate(network.columns):
        found.setdefault(column.feature, []).append(j)
    return found


def twin_values(people: Individuals, name: str) -> list[tuple[Any, Any]]:
    """Values of a feature that twins may have, one the first and the other the second; none if they share it.

    What is the same number for all of these is so for all twins. An input that grows with a number, or stays, is the
    same all over its range if it is so at both ends; and so is a sum of such inputs that is affine.
    """
    if people.is_number(name):
        moved = name in people.sensitive_set or name in people.moved
        return [people.ends(name)] if moved and len(set(people.ends(name))) > 1 else []
    levels = people.levels(name)
    if name in people.sensitive_set:
        return [(levels[0], level) for level in levels[1:]]
    if name not in people.moved:
        return []
    place = people.moved[name]
    goes = {(i, to) for rule in people.generators for i, to in enumerate(rule[place]) if i != to}
    return [(levels[i], levels[to]) for i, to in sorted(goes)]


Partners = dict[Any, list[Any]]


def partners(pairs: list[tuple[Any, Any]]) -> Partners:
    """What a twin may have instead of each value."""
    found: Partners = {}
    for here, there in pairs:
        found.setdefault(here, []).append(there)
        found.setdefault(there, []).append(here)
    return found


def differs(column: InputColumn, others: Partners) -> bool:
    """Whether an input is not the same number for twins, as executed or without rounding."""
    if column.table is not None:
        table = column.table
        return any(value != table.get(other, 0.0) for raw, value in table.items() for other in others.get(raw, ()))
    sides = [{column.value(raw, exact) for raw in others} for exact in (False, True)]
    return any(len(side) > 1 for side in sides)


def whole(numbers: Sequence[Any]) -> list[int]:
    """Numbers, all of them times the same, so that they are whole."""
    exact = [Fraction(number) for number in numbers]
    common = math.lcm(*(number.denominator for number in exact))
    return [number.numerator * (common // number.denominator) for number in exact]


# --- bounds: between which numbers do the outputs lie, for everybody in a box? ---


class LayerSums(NamedTuple):
    """The sums of one layer as executed: between low and high, and off the exact ones by at most `error`."""

    low: list[float]
    high: list[float]
    error: list[float]


class Prover:
    """Proofs about boxes of people, in real arithmetic or (`float32`) as executed: sums in any order, fused or not.

    Intervals go forward through the layers; then the outputs are bounded by a linear function of the inputs, backward,
    with relu between two lines. Where rules declare twins, what is shown of a box is shown of its images too.
    A sum of n products errs by at most γ_n·Σ|w||x| in float32, and by 2^-124 where something underflows;
    our own float64 by `unit`·Σ|w||x|, four times what all its operations together can do.
    """

    def __init__(self, network: NetworkGraph, people: Individuals, float32: bool, *, margin: float = 1.0) -> None:
        self.network, self.people, self.float32 = network, people, float32
        self.layers = [(list(map(list, rows)), list(bias)) for rows, bias in network.layers]
        self.sizes = [[list(map(abs, row)) for row in rows] for rows, _ in self.layers]
        self.turned = [list(map(list, zip(*rows, strict=True))) for rows, _ in self.layers]
        self.places = places_of(network)
        self.hot = {name: on for name in self.places if (on := self._one_hot(name)) is not None}
        terms = len(network.columns) + sum(len(bias) for _, bias in self.layers)
        self.unit = 4 * (terms + 64) * 2.0**-53 * margin
        self.known: dict[Any, Any] = {}  # of the last boxes
        twins = {name: partners(twin_values(people, name)) for name in self.places}
        self.differs = {j for j, column in enumerate(network.columns) if differs(column, twins[column.feature])}

    @cached_property
    def views(self) -> list[Box] | None:
        return self.people.views()

    def _one_hot(self, name: str) -> dict[Any, int] | None:
        """Which of the feature's inputs is 1 for each level, if exactly one is and all others are 0."""
        if self.people.is_number(name):
            return None
        tables = [self.network.columns[j].table or {} for j in self.places[name]]
        on = {level: k for k, table in enumerate(tables) for level in table}
        single = all(list(table.values()) == [1.0] for table in tables)
        return on if single and len(on) == len(tables) == len(self.people.levels(name)) > 1 else None

    def is_one(self, name: str, possible: tuple[Any, ...]) -> bool:
        """Whether raw values in a range or in a list are one to the network, without rounding: one value, or all beyond
        the end at which the number is held.
        """
        if len(set(possible)) == 1 or not self.people.is_number(name):
            return len(set(possible)) == 1
        columns = [self.network.columns[j] for j in self.places.get(name, ())]
        return all(len({column.value(raw, True) for raw in possible}) == 1 for column in columns)

    def inputs(self, name: str, possible: tuple[Any, ...]) -> list[tuple[float, float]]:
        """Between which numbers the inputs of a feature lie, for raw values in a range or in a list."""
        found = []
        for column in (self.network.columns[j] for j in self.places[name]):
            exact = [column.value(raw, True) for raw in possible]
            ends = [float(x) for x in exact]
            if any(Fraction(end) != x for end, x in zip(ends, exact, strict=True)):
                ends = [math.nextafter(min(ends), -math.inf), math.nextafter(max(ends), math.inf)]
            if self.float32:  # every step, rounding included, grows with the raw number
                ends += [column.value(raw, False) for raw in possible]
            found.append((min(ends), max(ends)))
        return found

    def share(self, name: str, possible: tuple[Any, ...]) -> tuple[list[float], list[float], list[float], float]:
        """What a feature adds to the sums of the first layer: middle, radius, Σ|w||x|; and Σ|x|."""
        if (name, possible) in self.known:
            return self.known[name, possible]
        rows = [[row[j] for j in self.places[name]] for row in self.layers[0][0]]
        if name in self.hot:  # exactly one of the inputs is 1, the others are 0
            on = [self.hot[name][level] for level in possible]
            ends = [(min(row[k] for k in on), max(row[k] for k in on)) for row in rows]
            middle, radius = zip(*(_middle(low, high) for low, high in ends), strict=True)
            size, reach = [max(abs(low), abs(high)) for low, high in ends], 1.0
        else:
            centre, spread = zip(*(_middle(*ends) for ends in self.inputs(name, possible)), strict=True)
            most = [abs(c) + s for c, s in zip(centre, spread, strict=True)]
            middle = tuple(sum(map(mul, row, centre)) for row in rows)
            radius = tuple(sum(map(mul, map(abs, row), spread)) for row in rows)
            size, reach = [sum(map(mul, map(abs, row), most)) for row in rows], sum(most)
        return self._keep((name, possible), (list(middle), list(radius), size, reach))

    def forward(self, box: Box) -> list[LayerSums]:
        """Intervals of all sums."""
        shares = [self.share(name, box[name]) for name in self.places]
        parts: list[Any] = [list(map(sum, zip(*(share[i] for share in shares), strict=True))) for i in range(3)]
        middle, radius, size = parts
        reach, count, found = sum(share[3] for share in shares), len(self.network.columns), list[LayerSums]()
        for depth, (rows, bias) in enumerate(self.layers):
            if depth:
                below, above = self._activated(found[-1])
                centre, spread = zip(*map(_middle, below, above), strict=True)
                most = [max(abs(a), abs(b)) for a, b in zip(below, above, strict=True)]
                middle = [sum(map(mul, row, centre)) for row in rows]
                radius = [sum(map(mul, row, spread)) for row in self.sizes[depth]]
                size = [sum(map(mul, row, most)) for row in self.sizes[depth]]
                reach, count = sum(most), len(most)
            size = [s + abs(b) for s, b in zip(size, bias, strict=True)]
            need(max(size) < 2.0**126 and reach < 2.0**126, "a sum may overflow")
            gamma = (count + 4) * 2.0**-24 / (1 - (count + 4) * 2.0**-24) if self.float32 else 0.0
            floor = 2.0**-124 if self.float32 else 2.0**-1000
            apart = [sum(row) + reach + 5 * (count + 2) for row in self.sizes[depth]]
            error = [(self.unit + gamma * (1 + 2.0**-20)) * s + floor * a for s, a in zip(size, apart, strict=True)]
            ends = list(zip(middle, radius, bias, error, strict=True))
            found.append(
                LayerSums([m + b - r - e for m, r, b, e in ends], [m + b + r + e for m, r, b, e in ends], error)
            )
        return found

    def _activated(self, sums: LayerSums) -> tuple[list[float], list[float]]:
        if self.network.activation == "relu":
            return [max(z, 0.0) for z in sums.low], [max(z, 0.0) for z in sums.high]
        need(self.network.activation in ("tanh", "sigmoid"), f"no bounds are known for {self.network.activation}")
        tanh = self.network.activation == "tanh"
        rise = math.tanh if tanh else lambda z: 0.5 + 0.5 * math.tanh(0.5 * z)
        pad = 2.0**-20 if self.float32 else 2.0**-48  # what math.tanh, or a machine's own, may be off by
        return [rise(z) - pad for z in sums.low], [rise(z) + pad for z in sums.high]

    def backward(self, box: Box, sums: list[LayerSums], row: list[float]) -> tuple[float, list[float]]:
        """A lower bound of row·outputs, and the coefficients of the inputs in it. Relu only."""
        total = lost = 0.0
        for depth in reversed(range(len(self.layers))):
            lost += sum(map(mul, map(abs, row), sums[depth].error))  # ours and theirs: Σ|row|·size bounds all we add
            total += sum(map(mul, row, self.layers[depth][1]))
            row = [sum(map(mul, row, column)) for column in self.turned[depth]]
            if not depth:
                break
            for k, (x, low, high) in enumerate(zip(row, sums[depth - 1].low, sums[depth - 1].high, strict=True)):
                if high <= 0:
                    row[k] = 0.0
                elif low < 0 and x > 0:  # relu(z) ≥ z, and ≥ 0
                    row[k] = x if high > -low else 0.0
                elif low < 0:  # relu(z) ≤ slope·z + shift, which must reach it at both ends: relu is convex
                    slope = high / (high - low)
                    total += x * max(-slope * low, high - slope * high) * (1 + 2.0**-40)
                    row[k] = x * slope
        for name, places in self.places.items():
            if name in self.hot:
                total += min(row[places[self.hot[name][level]]] for level in box[name])
                continue
            for j, ends in zip(places, self._ends(name, box[name]), strict=True):
                centre, spread = _middle(*ends)
                total += row[j] * centre - abs(row[j]) * spread
        return total - lost * (1 + 2.0**-20) - 2.0**-900, row

    def _ends(self, name: str, possible: tuple[Any, ...]) -> list[tuple[float, float]]:
        key = name, possible, "ends"
        return self.known[key] if key in self.known else self._keep(key, self.inputs(name, possible))

    def _keep(self, key: Any, found: Any) -> Any:
        if len(self.known) * len(self.layers[0][1]) > 2**20:  # a tree may have millions of boxes
            self.known.clear()
        self.known[key] = found
        return found

    # --- what may be concluded ---

    def is_decided(self, box: Box, best: int, sums: list[LayerSums] | None = None) -> bool:
        """Whether everybody in the box provably gets the class `best`."""
        sums = sums or self.forward(box)
        low, high = sums[-1].low, sums[-1].high
        relu, count = self.network.activation == "relu", len(self.network.classes)
        if len(low) == 1:
            if low[0] > 0 if best else high[0] <= 0:
                return True
            return relu and (
                self.backward(box, sums, [1.0])[0] > 0 if best else -self.backward(box, sums, [-1.0])[0] <= 0
            )
        for other in (k for k in range(count) if k != best):
            lead = [float(k == best) - float(k == other) for k in range(count)]
            if not (low[best] > high[other] or (relu and self.backward(box, sums, lead)[0] > 0)):
                return False
        return True

    def is_decided_all(self, box: Box, best: int, sums: list[LayerSums] | None = None) -> bool:
        """Whether everybody in the box and all their twins, wherever they are, provably get the class `best`."""
        images = self.people.images(box)
        return self.is_decided(images[0], best, sums) and all(self.is_decided(image, best) for image in images[1:])

    def is_decided_each(self, box: Box, best: int) -> bool:
        """The same, with each sensitive value, or piece of a range, looked at by itself."""
        if self.views is None or not 0 <= best < len(self.network.classes):
            return False
        return all(self.is_decided(image | view, best) for image in self.people.images(box) for view in self.views)

    def is_same(self, box: Box) -> bool:
        """Whether what differs between twins dies out: every neuron it reaches is off, all over the box and for all
        its people's twins.
        """
        differs = [any(row[j] for j in self.differs) for row in self.layers[0][0]]
        layers = zip(*map(self.forward, self.people.images(box)), strict=True)
        for several, (rows, _) in zip(layers, self.layers[1:], strict=False):
            if self.network.activation == "relu":
                high = map(max, zip(*(sums.high for sums in several), strict=True))
                differs = [d and z > 0 for d, z in zip(differs, high, strict=True)]
            differs = [any(w and d for w, d in zip(row, differs, strict=True)) for row in rows]
        return not any(differs)

    def is_fair(self, leaf: Any, box: Box) -> bool:
        """Whether a leaf's reason holds: one class for all, one for each version alike, or no way to differ."""
        if type(leaf) is int:
            return 0 <= leaf < len(self.network.classes) and self.is_decided_all(box, leaf)
        if isinstance(leaf, dict):
            return set(leaf) == {"each"} and type(leaf["each"]) is int and self.is_decided_each(box, leaf["each"])
        if leaf == "exact" and not self.float32 and self.views is not None:
            points = [image | view for image in self.people.images(box) for view in self.views]
            if not all(self.is_one(name, possible) for point in points for name, possible in point.items()):
                return False
            classes = {decide_exactly(self.network, {name: point[name][0] for name in point}) for point in points}
            return len(classes) == 1 and None not in classes
        return leaf == "same" and self.is_same(box)


def _middle(low: float, high: float) -> tuple[float, float]:
    """A point, and a distance that reaches both ends from there."""
    centre = low / 2 + high / 2
    return centre, math.nextafter(max(high - centre, centre - low), math.inf) if low < high else 0.0


def cut(
    possible: tuple[Any, ...], name: str, where: Any, people: Individuals
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Both parts of what a feature may be: numbers up to the cut and from it on; the named categories, the others."""
    need(name in people.features and name not in people.sensitive_set, f"a cut along {name!r}")
    if people.is_number(name) and None in possible:  # who has the number, and who has not
        need(where is None and len(possible) > 1, f"'{name}' is cut at {where!r} before its gaps are cut off")
        return possible[:-1], (None,)
    if people.is_number(name):
        need(
            where is not None and people.has(name, where) and possible[0] <= where < possible[1],
            f"'{name}' is cut at {where!r}",
        )
        after = where + 1 if people.features[name]["kind"] == "integer" else where
        return (possible[0], where), (after, possible[1])
    named = set(where)
    parts = tuple(v for v in possible if v in named), tuple(v for v in possible if v not in named)
    need(all(parts), f"a cut of '{name}' cuts nothing")
    return parts


def check_tree(tree: list[Any], prover: Prover | Grove, say: Callable[[str], None] | None = None) -> int:
    """Whether the tree covers everybody and each of its leaves is fair; the number of leaves.

    The tree is listed from the root, each cut before its two parts: [feature, where] is a cut, all else a leaf.
    """
    box, leaves, spoke, done = prover.people.everybody(), 0, time.monotonic(), False
    trail = list[list[Any]]()  # the cuts we are in: feature, what it could be before, and the part still to come
    for entry in tree:
        need(not done, "the tree goes on after its last leaf")
        if isinstance(entry, list):
            name, where = entry
            need(name in box, f"a cut along {name!r}")
            first, second = cut(box[name], name, where, prover.people)
            trail.append([name, box[name], second])
            box[name] = first
            continue
        leaves += 1
        if say is not None and time.monotonic() - spoke > 2:
            spoke = time.monotonic()
            say(f"{leaves:,} leaves checked")
        if not prover.is_fair(entry, box):
            raise Rejected(f"leaf {leaves} ({str(entry)[:40]}) is not proven: {str(box)[:300]}")
        while trail and trail[-1][2] is None:  # both parts are done
            name, before, _ = trail.pop()
            box[name] = before
        done = not trail
        if trail:
            box[trail[-1][0]], trail[-1][2] = trail[-1][2], None
    still = sum(second is not None for *_, second in trail) + (not done)
    need(done, f"the tree leaves {still} part(s) of the domain open")
    return leaves


# --- forests: trees over raw columns, whose leaves are added up ---

TREES = {
    "aggregate_function", "leaf_targetids", "leaf_weights", "n_targets", "nodes_falseleafs", "nodes_falsenodeids",
    "nodes_featureids", "nodes_missing_value_tracks_true", "nodes_modes", "nodes_splits", "nodes_trueleafs",
    "nodes_truenodeids", "post_transform", "tree_roots",
}  # fmt: skip
LISTS = sorted(name for name in TREES if name.startswith("nodes_") and name not in ("nodes_modes", "nodes_splits"))


class TreeColumn(NamedTuple):
    """One column that trees read: a feature as a number, or what a table has for each of its levels."""

    feature: str
    table: dict[Any, float] | None
    others: tuple[float, ...] = ()  # what a table has for a missing value, and for any other

    def number(self, raw: Any) -> Any:
        return raw if self.table is None else self.table[raw]


@dataclass(frozen=True, eq=False)
class ForestGraph:
    """Trees; the numbers of a node's sides are other nodes, or ~leaf.

    A person goes to the first side where the number is missing and `missing` says so, or is at most `splits`.
    Comparing rounds nothing; in float64, adding may.
    """

    places: tuple[TreeColumn, ...]
    roots: Sequence[int]
    reads: Sequence[int]
    splits: Sequence[float]
    missing: Sequence[int]
    yes: Sequence[int]
    no: Sequence[int]
    targets: Sequence[int]
    weights: Sequence[float]
    outputs: int
    steps: Sequence[tuple[str, Sequence[float]]] = ()
    at: Sequence[float] = ()
    classes: Sequence[Any] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    link: str = "sigmoid"  # how scores are shown
    slope: float = 1.0

    def goes(self, node: int, number: Any) -> bool:
        """Whether a number goes to the first side; None is a missing one."""
        return bool(self.missing[node]) if number is None else number <= self.splits[node]

    def is_idle(self, node: int) -> bool:
        """Whether both sides of a split are leaves that add the same: a tree of nothing else."""
        one, other = ~self.yes[node], ~self.no[node]
        same = one >= 0 and other >= 0 and self.weights[one] == self.weights[other]
        return same and self.targets[one] == self.targets[other]

    def leaves(self, person: dict[str, Any]) -> list[int]:
        """The leaf that each tree gives a person."""
        numbers = [place.number(person[place.feature]) for place in self.places]
        found = []
        for at in self.roots:
            while at >= 0:
                at = self.yes[at] if self.goes(at, numbers[self.reads[at]]) else self.no[at]
            found.append(~at)
        return found

    @cached_property
    def largest(self) -> float:
        """At least what the leaves of anybody sum up to, in size."""
        return sum(max(abs(self.weights[leaf]) for leaf in several) for several in self.by_tree()) * (1 + 2.0**-20)

    def by_tree(self) -> Iterator[list[int]]:
        """The leaves of each tree."""
        for root in self.roots:
            found, waiting = list[int](), [root]
            while waiting:
                at = waiting.pop()
                if at < 0:
                    found.append(~at)
                else:
                    waiting += (self.yes[at], self.no[at])
            yield found

    @cached_property
    def adds_exactly(self) -> bool:
        """Whether no sum of leaves and bases rounds in float64, in whatever order: all are whole multiples of one power
        of two, and no sum is above 2^53 times it.
        """
        bases = [list(numbers) for operator, numbers in self.steps if operator == "Add"]
        if any(operator != "Add" for operator, _ in self.steps):
            return False
        unit = max(float(number).as_integer_ratio()[1] for number in (0.0, *self.weights, *itertools.chain(*bases)))
        most = self.largest + sum(max(map(abs, numbers)) for numbers in bases)
        return most * unit * (1 + 2.0**-20) < 2.0**53

    def score(self, sums: Sequence[Fraction]) -> list[Fraction]:
        """The scores behind sums of leaves, without any rounding."""
        for operator, numbers in self.steps:
            sums = [STEPS[operator](x, Fraction(c)) for x, c in zip(sums, numbers, strict=True)]
        return list(sums)

    def error(self, sizes: Sequence[Fraction]) -> list[Fraction]:
        """How far scores may be off in float64, in any order of summation, where the leaves' sizes add up to this.

        Each of n operations, the comparison's own subtraction included, adds one part in 2^53 of all that it sums.
        """
        if self.adds_exactly and (self.outputs == 1 or not any(self.at)):
            return [Fraction(0)] * self.outputs
        count = len(self.roots) + 16
        gamma = Fraction(count, 2**53 - count)
        for operator, numbers in self.steps:
            sizes = [STEPS[operator](x, abs(Fraction(c))) for x, c in zip(sizes, numbers, strict=True)]
        return [(x + abs(Fraction(c))) * gamma + Fraction(1, 2**1000) for x, c in zip(sizes, self.at, strict=True)]


def _flags(found: dict[str, Any], side: str) -> list[int]:
    flags: list[int] = found[f"nodes_{side}leafs"]
    need(set(flags) <= {0, 1}, "whether a side is a leaf is odd")
    return flags


def _numbers(tensor: Any, kind: int) -> Sequence[float]:
    """The numbers of a tensor that is an attribute: one list, of this type."""
    need(isinstance(tensor, dict) and set(tensor) <= {"dims", "type", "raw", "strings"}, "an attribute is odd")
    need(tensor.get("type") == kind and not tensor["strings"], "a list of numbers has another type")
    numbers = array({2: "B", DOUBLE: "d"}[kind])
    raw = tensor.get("raw", b"")
    need(tensor["dims"] == [len(raw) / numbers.itemsize], "a list of numbers has another length than it says")
    numbers.frombytes(raw)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _check_trees(roots: Sequence[int], yes: Sequence[int], no: Sequence[int], leaves: int) -> None:
    """Whether they are trees: from the roots each split is reached once, and each leaf by one split."""
    count = len(yes)
    need(all(-leaves <= side < count for side in (*yes, *no)), "a split leads to what is not there")
    need(roots and all(0 <= root < count for root in roots), "a tree begins where there is no split")
    split_seen, leaf_seen, waiting = bytearray(count), bytearray(leaves), list(roots)
    while waiting:
        at = waiting.pop()
        need(not split_seen[at], "a split is reached in two ways: that is no tree")
        split_seen[at] = 1
        apart = yes[at] not in (no[at], ~no[at])  # some versions of onnxruntime take these for one
        need(apart, "the sides of a split have the same number")
        for side in (yes[at], no[at]):
            if side >= 0:
                waiting.append(side)
            else:
                need(not leaf_seen[~side], "a leaf is reached in two ways: that is no tree")
                leaf_seen[~side] = 1
    need(all(split_seen) and all(leaf_seen), "there are splits or leaves that no tree reaches")


def prove_trees(forest: ForestGraph, people: Individuals) -> set[str]:
    """Whether no split tells twins apart: then they come to the same leaves, and so to the same sums.

    Of a sensitive feature no split may read anything, whatever is fed; of a feature that rules move, each must send
    values that a rule turns into one another the same way.
    """
    pairs = {name: twin_values(people, name) for name in people.moved}
    work = len(forest.reads) * sum(map(len, pairs.values()))
    need(work <= MOST_PRODUCTS, "to show that so many splits keep rules takes too long")
    for node, column in enumerate(forest.reads):
        place = forest.places[column]
        name = place.feature
        if forest.is_idle(node):
            continue
        need(name not in people.sensitive_set, f"a split reads {name!r}")
        need(name not in pairs or not people.is_number(name), f"a split reads {name!r}, which a rule mirrors")
        for here, there in pairs.get(name, ()):
            same = forest.goes(node, place.number(here)) == forest.goes(node, place.number(there))
            need(same, f"a split tells {name} {here!r} from {there!r}, which twins may have")
    return {"real", "float64"}


# The same forest in the format of its own library. What is shown of it is that no split reads a sensitive feature.

BOOSTER = {"gbtree_model_param", "iteration_indptr", "tree_info", "trees", "cats", "weight_drop"}
LEARNER = {
    "attributes", "feature_names", "feature_types", "gradient_booster", "learner_model_param", "objective",
}  # fmt: skip


def prove_native(name: str, content: bytes, people: Individuals) -> None:
    """Whether no split of XGBoost's JSON, or of LightGBM's text, reads a sensitive feature."""
    need(not people.rules, f"{name} is not shown to keep the declared rules")
    names, read = (_xgboost_splits if name == "model.json" else _lightgbm_splits)(name, content)
    known = len(set(names)) == len(names) and set(names) <= people.features.keys()
    need(known, f"the features that {name} names are not those of the domain")
    for column in read:
        need(type(column) is int and 0 <= column < len(names), f"a split of {name} reads a feature that is not there")
        need(names[column] not in people.sensitive_set, f"a split of {name} reads {names[column]!r}")


def _xgboost_splits(name: str, content: bytes) -> tuple[list[str], list[Any]]:
    """The names of the features, and which of them the splits read."""
    document = parse_json(content, name)
    learner = document["learner"]
    booster = learner["gradient_booster"]
    fits = set(document) == {"learner", "version"} and set(learner) <= LEARNER and set(booster) == {"model", "name"}
    fits = fits and booster["name"] == "gbtree" and {"trees"} <= set(booster["model"]) <= BOOSTER
    need(fits, f"{name} is not one of the models of XGBoost that are understood")
    read = []
    for tree in a_list(booster["model"]["trees"], "the trees"):
        sides, columns = a_list(tree["left_children"], "the sides"), a_list(tree["split_indices"], "the columns")
        need(len(sides) == len(columns), f"a tree of {name} has other splits than columns of splits")
        need(all(type(side) is int for side in sides), f"a tree of {name} leads to what is no number")
        read += [column for column, side in zip(columns, sides, strict=True) if side != -1]
    return a_list(learner["feature_names"], "the names"), read


def _lightgbm_splits(name: str, content: bytes) -> tuple[list[str], list[Any]]:
    """The same of a text: wherever a line speaks of splits it must be understood, in a tree or not."""
    text = _text(content)
    odd = "\r" in text or "leaf_features" in text or "leaf_coeff" in text or not text.startswith("tree\n")
    need(not odd, f"{name} is not one of the models of LightGBM that are understood")
    lines = text.split("\n")
    linear = [line for line in lines if "is_linear" in line]
    need(all(line == "is_linear=0" for line in linear), f"{name} has linear models in its leaves")
    named = [line for line in lines if "feature_names" in line]
    need(len(named) == 1 and named[0].startswith("feature_names="), f"{name} does not name its features once")
    read, trees = list[Any](), 0
    for line in lines:
        trees += line.startswith("Tree=")
        if "split_feature" in line:
            need(line.startswith("split_feature="), f"{name} has an odd line about splits")
            read += [int(word) for word in line[14:].split()]
            trees -= 1
    need(trees == 0, f"{name} has trees of which nothing is said")
    return named[0][14:].split(), read


class Grove:
    """Proofs about boxes of people: which leaves of each tree somebody in a box can reach, and what these sum up to.

    A part of a real number's range is without its lower end, unless that is the end of the whole range: where a range
    is cut, who has just that number is in the lower part. Of a number that a rule mirrors both ends belong to it.
    """

    def __init__(self, forest: ForestGraph, people: Individuals, float64: bool) -> None:
        self.network, self.people, self.float64 = forest, people, float64
        self.pairs = {name: twin_values(people, name) for name in people.moved}
        reals = [place.feature for place in forest.places if people.is_real(place.feature)]
        self.lowest = {name: people.ends(name)[0] for name in reals if name not in people.moved}

    @cached_property
    def views(self) -> list[Box] | None:
        return self.people.views()

    def sides(self, node: int, box: Box) -> tuple[bool, bool]:
        """Whether anybody in the box may go to the first side of a split, and to the second."""
        forest = self.network
        place = forest.places[forest.reads[node]]
        if place.table is not None:
            ways = {forest.goes(node, place.table[level]) for level in self._levels(place, box)}
            return True in ways, False in ways
        *ends, gone = self._ends(place, box)
        sides = self._sides(node, place, *ends) if ends else (False, False)
        first = forest.goes(node, None)
        return sides[0] or (gone and first), sides[1] or (gone and not first)

    def _ends(self, place: TreeColumn, box: Box) -> tuple[Any, ...]:
        """Between which ends a number lies, if anybody in the box has it, and whether it is missing for somebody."""
        possible = box[place.feature]
        return (*(end for end in possible if end is not None), None in possible)

    def _sides(self, node: int, place: TreeColumn, low: Any, high: Any) -> tuple[bool, bool]:
        """The same of those who have the number."""
        split, lowest = self.network.splits[node], self.lowest.get(place.feature)
        without = lowest is not None and low > lowest
        return low < split or (low == split and not without), high > split

    def _levels(self, place: TreeColumn, box: Box) -> Sequence[Any]:
        """What a feature with a table may be in a box: of a whole number, all between two ends."""
        possible = box[place.feature]
        return range(possible[0], possible[1] + 1) if self.people.is_number(place.feature) else possible

    def reached(self, root: int, box: Box) -> list[int]:
        """The leaves of a tree that somebody in the box may reach."""
        found, waiting = list[int](), [(root, box)]
        while waiting:
            at, here = waiting.pop()
            if at < 0:
                found.append(~at)
                continue
            first, second = self.sides(at, here)
            place, split = self.network.places[self.network.reads[at]], self.network.splits[at]
            for goes, side, is_first in ((first, self.network.yes[at], True), (second, self.network.no[at], False)):
                if goes:
                    waiting.append((side, self._part(at, place, split, here, is_first)))
        return found

    def _part(self, node: int, place: TreeColumn, split: float, box: Box, first: bool) -> Box:
        """The part of a box on one side of a split; of a number, with the end that is cut off."""
        if place.table is not None:
            table, levels = place.table, self._levels(place, box)
            kept = tuple(level for level in levels if self.network.goes(node, table[level]) == first)
            return box | {place.feature: (kept[0], kept[-1]) if self.people.is_number(place.feature) else kept}
        *ends, gone = self._ends(place, box)
        kept = (None,) if gone and self.network.goes(node, None) == first else ()
        if ends and self._sides(node, place, *ends)[not first]:
            low, high = ends
            last = split if self.people.is_real(place.feature) or math.isinf(split) else math.floor(split)
            begin = last if last is split else last + 1
            kept = ((low, min(high, last)) if first else (max(low, begin), high)) + kept
        return box | {place.feature: kept}

    def bounds(self, box: Box) -> tuple[list[Fraction], list[Fraction]]:
        """Between which numbers the scores of everybody in the box lie, as executed if `float64`."""
        forest = self.network
        low, high, sizes = ([list[float]() for _ in range(forest.outputs)] for _ in range(3))
        for root in forest.roots:
            leaves = self.reached(root, box)
            for k in {forest.targets[leaf] for leaf in leaves}:
                numbers = [forest.weights[leaf] if forest.targets[leaf] == k else 0.0 for leaf in leaves]
                low[k].append(min(numbers))
                high[k].append(max(numbers))
                sizes[k].append(max(map(abs, numbers)))
        ends = [
            forest.score([Fraction(math.nextafter(math.fsum(several), way)) for several in numbers])
            for numbers, way in ((low, -math.inf), (high, math.inf))  # math.fsum is the float next to the sum
        ]
        error = [Fraction(0)] * forest.outputs
        if self.float64:
            error = forest.error([Fraction(math.nextafter(math.fsum(several), math.inf)) for several in sizes])
        below = [x - e for x, e in zip(ends[0], error, strict=True)]
        return below, [x + e for x, e in zip(ends[1], error, strict=True)]

    def is_decided(self, box: Box, best: int) -> bool:
        """Whether everybody in the box provably gets the class `best`."""
        low, high = self.bounds(box)
        at = [Fraction(number) for number in self.network.at]
        if len(low) == 1:
            return low[0] > at[0] if best else high[0] <= at[0]
        lead = low[best] - at[best]
        return all(lead > high[k] - at[k] for k in range(len(low)) if k != best)

    def is_decided_all(self, box: Box, best: int) -> bool:
        return all(self.is_decided(image, best) for image in self.people.images(box))

    def is_decided_each(self, box: Box, best: int) -> bool:
        """The same, with each sensitive value, or piece of a range, looked at by itself."""
        if self.views is None:
            return False
        return all(self.is_decided(part | view, best) for part in self.people.images(box) for view in self.views)

    def is_same(self, box: Box) -> bool:
        """Whether no split that somebody in the box, or a twin, comes by tells twins apart."""
        return all(self._is_same(root, image) for image in self.people.images(box) for root in self.network.roots)

    def _is_same(self, root: int, box: Box) -> bool:
        forest, waiting = self.network, [(root, box)]
        while waiting:
            at, here = waiting.pop()
            if at < 0 or forest.is_idle(at):
                continue
            place, split = forest.places[forest.reads[at]], forest.splits[at]
            sides = self.sides(at, here)
            if place.feature in self.people.sensitive_set and all(sides):
                return False
            if place.feature in self.people.moved and self._tells(at, place):
                return False
            for goes, side, is_first in zip(sides, (forest.yes[at], forest.no[at]), (True, False), strict=True):
                if goes:
                    waiting.append((side, self._part(at, place, split, here, is_first)))
        return True

    def _tells(self, node: int, place: TreeColumn) -> bool:
        if place.table is None or self.people.is_number(place.feature):
            return True
        goes, table = self.network.goes, place.table
        return any(goes(node, table[a]) != goes(node, table[b]) for a, b in self.pairs[place.feature])

    def is_fair(self, leaf: Any, box: Box) -> bool:
        """Whether a leaf's reason holds: one class for all, one for each version alike, or no way to differ."""
        count = len(self.network.classes)
        if type(leaf) is int:
            return 0 <= leaf < count and self.is_decided_all(box, leaf)
        if isinstance(leaf, dict):
            fits = set(leaf) == {"each"} and type(leaf["each"]) is int and 0 <= leaf["each"] < count
            return fits and self.is_decided_each(box, leaf["each"])
        return leaf == "same" and (not self.float64 or self.network.adds_exactly) and self.is_same(box)


def decide_trees(forest: ForestGraph, person: dict[str, Any], arithmetic: str) -> int | None:
    """The class that trees provably give a person, in exact numbers or in float64 in any order of summation."""
    sums, sizes = ([Fraction(0)] * forest.outputs for _ in range(2))
    for leaf in forest.leaves(person):
        number, k = Fraction(forest.weights[leaf]), forest.targets[leaf]
        sums[k] += number
        sizes[k] += abs(number)
    apart = [x - Fraction(c) for x, c in zip(forest.score(sums), forest.at, strict=True)]
    error = [Fraction(0)] * forest.outputs if arithmetic == "real" else forest.error(sizes)
    if len(apart) == 1:
        sure = not error[0] or abs(apart[0]) > error[0]
        return int(apart[0] > 0) if sure else None
    best = apart.index(max(apart))
    exact = not any(error)
    clear = all(apart[best] - error[best] > apart[k] + error[k] for k in range(len(apart)) if k != best)
    return best if exact or clear else None


# --- wiring: a graph with anything inside, of which only the paths are looked at ---

WIRED = "bornfair.wired"  # the key in the metadata of such a graph
LATEST = {"": 28, "ai.onnx.ml": 5, "com.microsoft": 1}  # versions of operators that were looked through for chance
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
CONTRIBUTED = {  # operators of onnxruntime's own that compute from their inputs and nothing else
    "BiasGelu", "BiasSoftmax", "CDist", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu", "Inverse",
    "MurmurHash3", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QuickGelu", "SkipLayerNormalization",
    "Trilu", "Unique",
}  # fmt: skip
HARMLESS = {  # what may read a sensitive value for nothing: whether it runs hangs on types and shapes, never on values
    "Abs", "Add", "And", "Concat", "Equal", "Exp", "Gemm", "Greater", "Identity", "IsNaN", "Less", "MatMul", "Mul",
    "Neg", "Not", "Or", "Relu", "Shape", "Sigmoid", "Sign", "Size", "Softmax", "Sub", "Tanh",
}  # fmt: skip
MOST_WIRES = 2**21  # fields of such a file
DEEPEST = 32  # bodies in bodies

LOOSE_TENSOR = {n: (f"field {n}", "skip") for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 16)} | {8: ("name", "text")}
LOOSE_SPARSE = {1: ("values", "", LOOSE_TENSOR), 2: ("places", "skip"), 3: ("dims", "skip")}
LOOSE_VALUE = {1: ("name", "text"), 2: ("type", "bytes"), 3: ("doc", "skip"), 4: ("metadata", "skip")}
LOOSE_ATTRIBUTE: dict[int, Any] = {n: (f"field {n}", "skip") for n in (2, 3, 4, 5, 7, 8, 9, 10, 13, 14, 15, 22, 23)}
LOOSE_ATTRIBUTE |= {1: ("name", "text"), 20: ("type", "int"), 21: ("refers", "text")}
LOOSE_NODE = {
    1: ("inputs", "text*"), 2: ("outputs", "text*"), 3: ("name", "text"), 4: ("op", "text"),
    5: ("attributes", "*", LOOSE_ATTRIBUTE), 6: ("doc", "skip"), 7: ("domain", "text"), 8: ("overload", "text"),
    9: ("metadata", "skip"),
}  # fmt: skip
LOOSE_GRAPH = {
    1: ("nodes", "bytes*"), 2: ("name", "text"), 5: ("constants", "bytes*"), 10: ("doc", "skip"),
    11: ("inputs", "*", LOOSE_VALUE), 12: ("outputs", "*", LOOSE_VALUE), 13: ("values", "skip"),
    14: ("quantised", "skip"), 15: ("sparse", "*", LOOSE_SPARSE), 16: ("metadata", "skip"),
}  # fmt: skip
LOOSE_ATTRIBUTE |= {6: ("body", "", LOOSE_GRAPH), 11: ("bodies", "*", LOOSE_GRAPH)}
FUNCTION = {
    1: ("name", "text"), 4: ("inputs", "text*"), 5: ("outputs", "text*"), 6: ("given", "text*"),
    7: ("nodes", "bytes*"), 8: ("doc", "skip"), 9: ("opsets", "*", OPSET), 10: ("domain", "text"),
    11: ("defaults", "*", LOOSE_ATTRIBUTE), 12: ("values", "skip"), 13: ("overload", "text"), 14: ("metadata", "skip"),
}  # fmt: skip
LOOSE_MODEL = {
    1: ("ir_version", "int"), 2: ("producer", "text"), 3: ("producer_version", "text"), 4: ("domain", "skip"),
    5: ("version", "skip"), 6: ("doc", "skip"), 7: ("graph", "", LOOSE_GRAPH), 8: ("opsets", "*", OPSET),
    14: ("metadata", "*", ENTRY), 25: ("functions", "*", FUNCTION),
}  # fmt: skip
ONLY_METADATA = {n: (f"field {n}", "skip") for n in (1, 2, 3, 4, 5, 6, 7, 8, 25)} | {14: ("metadata", "*", ENTRY)}


class Wire(NamedTuple):
    """One node: which names it reads, those that its bodies take from around them included, and which it makes."""

    operator: str
    domain: str
    inputs: list[str]
    reads: set[str]
    makes: list[str]
    content: memoryview
    plain: bool  # no body in it

    @property
    def told(self) -> str:
        return f"{self.operator} '{(self.makes or [''])[0][:40]}'"


class Wiring(NamedTuple):
    """A graph of raw columns, whatever its operators compute: what reads what."""

    types: dict[str, int]
    wires: list[Wire]
    outputs: list[str]
    constants: dict[str, memoryview]
    versions: dict[str, int]
    classes: list[Any]
    metadata: dict[str, str]


def is_wired(content: bytes) -> bool:
    """Whether the file says that only its wiring is to be read."""
    try:
        found = parse_message(memoryview(content), ONLY_METADATA, Budget())
    except Rejected:
        return False  # whoever reads it as something else says what is wrong
    return any(item.get("key") == WIRED for item in found["metadata"])


def read_wiring(content: bytes, people: Individuals) -> Wiring:
    """The wiring of a graph whose inputs are raw columns of the domain."""
    model = parse_message(memoryview(content), LOOSE_MODEL, Budget(MOST_WIRES))
    need("graph" in model, "the model file holds no graph")
    graph = model["graph"]
    need(4 <= model.get("ir_version", 0) <= 14, "the model file is of another version")
    entries = {item.get("key", ""): item.get("value", "") for item in model["metadata"]}
    need(len(entries) == len(model["metadata"]), "the model file names its metadata twice")
    reader = WireReader(model)
    for function in model["functions"]:
        reader.check_function(function)
    tensor_type = {1: ("tensor", "", TENSOR_TYPE)}
    inputs = [
        {"name": i.get("name", ""), "type": parse_message(i.get("type", memoryview(b"")), tensor_type, Budget())}
        for i in graph["inputs"]
    ]
    types = dict(declared_input(item, people) for item in inputs)
    need(len(types) == len(inputs), "the graph defines a name twice")
    need(types.keys() >= people.features.keys() - people.sensitive_set, "the model lacks an input of the domain")
    constants, wires, outputs = reader.graph(graph)
    classes = people.classes if people.classes is not None else [0, 1]
    return Wiring(types, wires, outputs, constants, reader.versions, classes, entries)


class WireReader:
    """Reads nodes with their bodies; whatever could hide a path is refused: names that are defined twice, or not yet,
    or hide others; operators that draw at random, or of which nothing is known.
    """

    def __init__(self, model: dict[str, Any]) -> None:
        self.versions = self._versions(model["opsets"])
        self.functions = set[tuple[str, str, str]]()
        for item in model["functions"]:
            called = item.get("domain", ""), item.get("name", ""), item.get("overload", "")
            need(called[0] not in ("", "ai.onnx", *LATEST), f"function '{called[1]}' takes the place of an operator")
            need(called not in self.functions, f"function '{called[1]}' is defined twice")
            self.functions.add(called)
        self.budget = Budget(MOST_WIRES)

    def _versions(self, opsets: list[dict[str, Any]]) -> dict[str, int]:
        found = [(item.get("domain", ""), item.get("version", 0)) for item in opsets]
        named = {"" if domain == "ai.onnx" else domain: version for domain, version in found}
        need(len(named) == len(found), "the model names versions of the same operators twice")
        for domain, latest in LATEST.items():
            known = 1 <= named.get(domain, 1) <= latest
            need(known, f"the operators of '{domain or 'ai.onnx'}' are of version {named.get(domain)}, not known here")
        return named

    def check_function(self, item: dict[str, Any]) -> None:
        """A function sees what it is given and nothing else; whoever calls it is taken to hand everything on."""
        own = dict.fromkeys(item["inputs"])
        need(len(own) == len(item["inputs"]) and "" not in own, "a function names an input twice")
        need(not any(map(_has_body, item["defaults"])), "a function has bodies among its attributes")
        around, self.versions = self.versions, self._versions(item["opsets"])
        made = [name for node in item["nodes"] for name in self._parsed(node)["outputs"] if name]
        taken = self._body_names([*own, *made])
        for node in item["nodes"]:
            self._wire(node, [set(own)], taken, in_function=True)
            own |= dict.fromkeys(filter(None, self._parsed(node)["outputs"]))
        need(set(item["outputs"]) <= own.keys(), "a function returns what it does not make")
        self.versions = around

    def graph(self, graph: dict[str, Any]) -> tuple[dict[str, memoryview], list[Wire], list[str]]:
        """All of a graph at the top: constants by name, nodes in order, names of the outputs."""
        wires = list[Wire]()
        self._graph(graph, [], set(), wires, False)
        outputs = [item.get("name", "") for item in graph["outputs"]]
        made = {name for wire in wires for name in wire.makes}
        need(outputs and len(set(outputs)) == len(outputs), "the graph has no outputs, or one twice")
        need(set(outputs) <= made, "an output of the graph is made by no node")
        return {self._named(tensor): tensor for tensor in graph["constants"]}, wires, outputs

    def _graph(
        self, graph: dict[str, Any], scopes: list[set[str]], taken: set[str], wires: list[Wire], in_function: bool
    ) -> set[str]:
        """The names that a graph takes from around it; its nodes go to `wires`."""
        need(len(scopes) < DEEPEST, f"bodies lie in bodies, more than {DEEPEST} deep")
        given = [item.get("name", "") for item in graph["inputs"]]
        given += [self._named(tensor) for tensor in graph["constants"]]
        given += [item.get("values", {}).get("name", "") for item in graph["sparse"]]
        made = [name for node in graph["nodes"] for name in self._parsed(node)["outputs"] if name]
        need("" not in given, "an input or constant has no name")
        names = self._body_names([*given, *made])
        need(not names & taken, "a name in a body hides one around it")
        own, outside, hidden = set(given), set[str](), taken | names
        for node in graph["nodes"]:
            wire = self._wire(node, [*scopes, own], hidden, in_function)
            outside |= wire.reads - names
            own.update(wire.makes)
            wires.append(wire)
        for item in graph["outputs"]:
            name = item.get("name", "")
            need(any(name in scope for scope in (*scopes, own)), f"'{name[:40]}' is an output, but nothing makes it")
            outside |= {name} - names
        return outside

    def _body_names(self, names: list[str]) -> set[str]:
        need(len(set(names)) == len(names), "the graph defines a name twice")
        return set(names)

    def _named(self, tensor: memoryview) -> str:
        return str(parse_message(tensor, LOOSE_TENSOR, self.budget).get("name", ""))

    def _parsed(self, content: memoryview) -> dict[str, Any]:
        return parse_message(content, LOOSE_NODE, self.budget)

    def _wire(self, content: memoryview, scopes: list[set[str]], taken: set[str], in_function: bool) -> Wire:
        node = self._parsed(content)
        reads = set(filter(None, node["inputs"]))
        names = [item.get("name", "") for item in node["attributes"]]
        need(len(set(names)) == len(names), "a node has an attribute twice")
        for item in node["attributes"]:
            refers = item.get("refers", "")
            need(in_function or not refers, "a node refers to attributes of a function that it is not in")
            need(not refers or (item.get("type", 0) not in (0, 5, 10) and not _has_body(item)), "a body is handed on")
            for body in [*([item["body"]] if "body" in item else []), *item["bodies"]]:
                reads |= self._graph(body, scopes, taken, [], in_function)
        bodies = any(map(_has_body, node["attributes"]))
        domain = self._check_operator(node, bodies)
        for name in reads:
            there = any(name in scope for scope in scopes)
            need(there, f"a node reads '{name[:40]}', which nothing makes before it")
        makes = [name for name in node["outputs"] if name]
        return Wire(node.get("op", ""), domain, node["inputs"], reads, makes, content, not bodies)

    def _check_operator(self, node: dict[str, Any], bodies: bool) -> str:
        """The operator's domain, if what it makes depends on nothing but what it reads."""
        operator, domain = node.get("op", ""), node.get("domain", "")
        if (domain, operator, node.get("overload", "")) in self.functions:
            need(not bodies, f"function '{operator}' is handed a body")
            return str(domain)
        domain = "" if domain == "ai.onnx" else domain
        known = domain in LATEST and domain in self.versions and (domain != "com.microsoft" or operator in CONTRIBUTED)
        need(known, f"operator '{operator}' of '{domain}': whether it is random, or keeps a state, is not known")
        need(domain or operator not in RANDOM, f"operator '{operator}' draws at random")
        if not domain and operator == "Dropout":
            idle = len(node["inputs"]) < 3 or not node["inputs"][2]
            need(idle and self.versions[""] >= 7, "a Dropout may draw at random")
        return str(domain)


def _has_body(attribute: dict[str, Any]) -> bool:
    return "body" in attribute or bool(attribute["bodies"])


def prove_wiring(wiring: Wiring, people: Individuals) -> set[str]:
    """The arithmetics in which nothing reaches an output that differs between twins: as executed, whatever that is.

    It relies on this: what a node makes depends on nothing but what it reads. Values that rules exchange may pass where
    they become the same for all of an orbit: a table of categories, the smaller or larger one of x and total − x, where
    x is made anew as total − (total − x): the same number, but never −0.0, which a twin would have as 0.0.
    """
    reached = {name: name for name in wiring.types if name in people.sensitive_set or name in people.moved}
    mirrored = dict[str, str]()  # by its name, what a value is taken from: total − x from x, and x again from that
    for wire in wiring.wires:
        found = sorted(wire.reads & reached.keys())
        if not found or _merges(wire, wiring, people) or _folds(wire, mirrored):
            continue
        x = _mirrors(wire, wiring, people, mirrored)
        if x is not None:
            mirrored |= dict.fromkeys(wire.makes, x)
        else:
            harmless = wire.plain and not wire.domain and wire.operator in HARMLESS
            need(harmless, f"{wire.told} reads '{reached[found[0]]}': it may stop the run, or lead to the decision")
        reached |= dict.fromkeys(wire.makes, reached[found[0]])
    for name in wiring.outputs:
        need(name not in reached, f"output '{name[:40]}' depends on '{reached.get(name, '')}'")
    return {"executed"}


def _strict(wire: Wire) -> tuple[dict[str, Any], dict[str, Any]]:
    """A node of ours with its attributes."""
    node = parse_message(wire.content, NODE, Budget())
    return node, dict(map(_attribute, node["attributes"]))


def _merges(wire: Wire, wiring: Wiring, people: Individuals) -> bool:
    """Whether that is a table in which all categories of an orbit have the same entry."""
    if (wire.operator, wire.domain, len(wire.inputs)) != ("LabelEncoder", "ai.onnx.ml", 1):
        return False
    name = wire.inputs[0]
    if name not in people.moved or people.is_number(name) or not 2 <= wiring.versions["ai.onnx.ml"] <= 5:
        return False
    _, told = _strict(wire)
    keys = "keys_strings" if wiring.types[name] == STRING else "keys_int64s"
    if set(told) != {keys, "values_int64s", "default_int64"} or len(set(told[keys])) != len(told[keys]):
        return False
    if len(told[keys]) != len(told["values_int64s"]):
        return False
    entries = dict(zip(told[keys], told["values_int64s"], strict=True))
    shown = [str(level) if keys == "keys_strings" else level for level in people.levels(name)]
    entry = [entries.get(level, told["default_int64"]) for level in shown]
    orbit = [element[people.moved[name]] for element in people.elements]
    return len(set(shown)) == len(shown) and all(
        entry[i] == entry[goes[i]] for goes in orbit for i in range(len(shown))
    )


def _mirrors(wire: Wire, wiring: Wiring, people: Individuals, mirrored: dict[str, str]) -> str | None:
    """The value that a node takes from total, if it does: a number x, or total − x."""
    if (wire.operator, wire.domain, len(wire.inputs)) != ("Sub", "", 2) or not wire.plain:
        return None
    constant, value = wire.inputs
    name = mirrored.get(value, value)
    if name not in people.moved or not people.is_number(name) or constant not in wiring.constants:
        return None
    held = _constant(parse_message(wiring.constants[constant], TENSOR, Budget()))[1]
    fits = held.type == wiring.types[name] and list(held.values) == [sum(people.ends(name))]
    return value if fits and str(held.values[0]) != "-0.0" else None


def _folds(wire: Wire, mirrored: dict[str, str]) -> bool:
    """Whether that is the smaller or the larger one of x, made anew, and total − x: the same number for both."""
    if wire.domain or wire.operator not in ("Min", "Max") or len(wire.inputs) != 2 or not wire.plain:
        return False
    one, other = wire.inputs
    return any(mirrored.get(a) == b and b in mirrored for a, b in ((one, other), (other, one)))


# --- twins: two people who disprove fairness ---


def decide_exactly(network: NetworkGraph, person: dict[str, Any]) -> int | None:
    """The class a person gets when nothing is rounded; None where exact numbers cannot say."""
    if network.activation != "relu":
        return None
    values = [column.value(person[column.feature], True) for column in network.columns]
    for depth, (rows, bias) in enumerate(network.layers):
        values = [max(v, Fraction(0)) for v in values] if depth else values
        used = [(j, v) for j, v in enumerate(values) if v]
        values = [sum((Fraction(row[j]) * v for j, v in used), Fraction(b)) for row, b in zip(rows, bias, strict=True)]
    return int(values[0] > 0) if len(values) == 1 else values.index(max(values))


def decide(
    network: NetworkGraph | ForestGraph | Wiring, people: Individuals, person: dict[str, Any], arithmetic: str
) -> int | None:
    """The class a person provably gets."""
    if isinstance(network, Wiring):
        return None  # its operators are not interpreted
    if isinstance(network, ForestGraph):
        return decide_trees(network, person, arithmetic)
    if arithmetic == "real" and network.activation == "relu":
        return decide_exactly(network, person)
    prover = Prover(network, people, arithmetic == "float32")
    box = {name: people.single(name, value) for name, value in person.items()}
    return next((k for k in range(len(network.classes)) if prover.is_decided(box, k)), None)


def are_versions(people: Individuals, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether some element of the group turns one into the other, whatever their sensitive values."""
    fixed = people.features.keys() - people.sensitive_set - set(people.moved)
    if any(one[name] != other[name] for name in fixed):
        return False
    return any(
        all(people.moved_value(n, goes, one[n]) == other[n] for n, goes in zip(people.moved, element, strict=True))
        for element in people.elements
    )


def check_twins(
    network: NetworkGraph | ForestGraph | Wiring, people: Individuals, twins: Any, decisions: Any, arithmetic: list[str]
) -> None:
    one, other = twins
    for twin in twins:
        need(set(twin) == set(people.features), "a twin has other features than the domain")
        for name, value in twin.items():
            need(people.has(name, value), f"a twin's {name} is {value!r}, which is not in the domain")
    need(any(one[name] != other[name] for name in people.features), "the twins are one person")
    need(are_versions(people, one, other), "the twins differ in more than the sensitive features and the rules say")
    if people.combinations is not None:
        need({tuple(t[n] for n in people.sensitive) for t in twins} <= people.rows, "such twins do not exist")
    for kind in arithmetic:
        found = [decide(network, people, twin, kind) for twin in twins]
        need(None not in found and found[0] != found[1], f"the twins are not shown to differ in {kind} arithmetic")
        need(decisions == [network.classes[k] for k in found if k is not None], f"other decisions in {kind} arithmetic")


# --- the verdict ---

FIELDS = {
    "format", "claim", "verdict", "proof", "arithmetic", "reason", "property", "files", "tree", "twins", "decisions",
    "search", "start", "response", "training", "versions", "sha256",
}  # fmt: skip


def claim_of(
    verdict: str,
    proof: str,
    arithmetic: Sequence[str],
    sensitive: Sequence[str],
    reason: str,
    rules: Sequence[Any] = (),
    *,
    score: bool = True,
    rounds: bool = False,
) -> str:
    """The one sentence a validator may quote. `score`: with what a structural proof says of the score; certificates
    that were written without it say less, and are true. `rounds`: whether sums of trees may round.
    """
    names = " and ".join(filter(None, [", ".join(sensitive[:-1]), *sensitive[-1:]]))
    who = f"individuals who differ only in {names}"
    if rules:
        who += f", or by the declared rules ({'; '.join(map(told_rule, rules))}),"
    if verdict == "verified":
        how = " and ".join({"real": "exact"}.get(kind, kind) for kind in arithmetic) + " arithmetic"
        how = "floating-point arithmetic as executed" if "executed" in arithmetic else how
        everywhere = score and proof == "structural"
        what = "score, and so the same decision at every threshold" if everywhere else "decision"
        return (
            f"Two {who} always get the same {what}, for every individual of the "
            f"domain, in {how} ({proof} proof)."
            + (f" {CONDITIONS}" if "float32" in arithmetic else "")
            + (f" {SUMS}" if "float64" in arithmetic and everywhere and rounds else "")
            + (f" {ASKED_ALIKE}" if "executed" in arithmetic else "")
        )
    if verdict == "falsified":
        return f"The model is not fair: two {who} get different decisions."
    return f"Nothing about fairness is certified: {reason}"


def told_rule(rule: Sequence[dict[str, Any]]) -> str:
    """A rule in words, as `relationship: Husband<->Wife`."""
    parts = []
    for move in rule:
        if move["kind"] == "mirror":
            parts.append(f"{move['feature']}: -x{move['total']:+}")
            continue
        named = [[str(value) for value in cycle] for cycle in move["cycles"]]
        swaps = ["<->".join(cycle) if len(cycle) == 2 else "->".join([*cycle, cycle[0]]) for cycle in named]
        parts.append(f"{move['feature']}: {', '.join(swaps)}")
    return ", ".join(parts)


def digest_of(certificate: dict[str, Any]) -> str:
    """SHA-256 of a certificate, its own digest left out: notices accidents, not forgers."""
    rest = {name: value for name, value in certificate.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check(path: str | Path, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Examine a bundle: `valid`, and the verdict that holds, or the reason why it is rejected."""
    try:
        return check_files(read_bundle(path), say)
    except Rejected as error:
        reason = str(error)
    except MemoryError:
        reason = "it needs more memory than there is"
    except MALFORMED as error:
        reason = f"a file is malformed ({type(error).__name__}: {str(error)[:80]})"
    return {"valid": False, "verdict": "undecided", "proof": "none", "reason": reason}


def property_of(people: Individuals) -> dict[str, Any]:
    """What is claimed or disproven, as the certificate must state it."""
    stated = {"relation": "flip", "sensitive": people.sensitive, "sensitive_values": people.sensitive_count}
    if people.rules:
        return stated | {"relation": "declared", "versions": people.version_count, "statement": DECLARED}
    return stated | {"statement": STATEMENT}


def proven_structurally(network: NetworkGraph | ForestGraph | Wiring, people: Individuals) -> set[str]:
    """The arithmetics in which what differs between twins cannot reach the decision."""
    if isinstance(network, Wiring):
        return prove_wiring(network, people)
    return prove_trees(network, people) if isinstance(network, ForestGraph) else prove_structurally(network, people)


def prover_of(network: NetworkGraph | ForestGraph | Wiring, people: Individuals, executed: bool) -> Prover | Grove:
    """For proofs by bounds, in real arithmetic or as executed."""
    if isinstance(network, Wiring):
        raise Rejected("nothing is shown by bounds of a graph of which only the wiring is read")
    if isinstance(network, ForestGraph):
        return Grove(network, people, executed)
    return Prover(network, people, executed)


def check_files(files: dict[str, bytes], say: Callable[[str], None] | None = None) -> dict[str, Any]:
    data = parse_json(files["certificate.json"], "certificate.json")
    need(data.get("format") == FORMAT and set(data) == FIELDS, f"certificate.json is not a {FORMAT}")
    need(data["sha256"] == digest_of(data), "the certificate was changed after it was written")
    named = ("model.onnx", "domain.json", *(name for name in NATIVE if name in files))
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in named}
    for name, digest in digests.items():
        need(data["files"].get(name) == digest, f"the certificate is about another {name}")
    need(set(data["files"]) == set(digests), "the certificate names other files")
    people = Individuals(parse_json(files["domain.json"], "domain.json"))
    network = read_model(files["model.onnx"], people)
    verdict, proof, arithmetic = data["verdict"], data["proof"], data["arithmetic"]
    beside = [name for name in NATIVE if name in files]
    need(
        len(beside) <= isinstance(network, ForestGraph),
        "a file for another library lies beside a model of another kind",
    )
    need(not beside or verdict != "verified" or proof == "structural", f"nothing of this kind is shown of {beside[:1]}")
    need(data["property"] == property_of(people), "the certificate is about another property")
    executed = "float64" if isinstance(network, ForestGraph) else "float32"
    executed = "executed" if isinstance(network, Wiring) else executed
    need("real" not in arithmetic or executed != "executed", "a graph is claimed to be exact that is not interpreted")
    need(arithmetic in ([], ["real"], [executed], ["real", executed]), "the arithmetic is not understood")
    need(isinstance(data["reason"], str), "the reason must be a text")
    need((verdict == "undecided") == (not arithmetic), "verdict and arithmetic do not go together")
    need(proof == "bounds" or data["tree"] is None, "there is a tree, but no proof by bounds")
    need(verdict == "falsified" or data["twins"] is data["decisions"] is None, "there are twins, but no falsification")
    if verdict == "verified":
        need(people.sensitive, "no feature is sensitive, so there is nothing to verify")
        if proof == "structural":
            held = proven_structurally(network, people)
            need(held >= set(arithmetic), "this proof holds in real arithmetic only")
            how = f"the sensitive values {'and what rules move ' if people.rules else ''}cannot reach the decision"
            for name in (name for name in NATIVE if name in files):
                prove_native(name, files[name], people)
                how += f"; no split of {name} reads them either"
        else:
            need(proof == "bounds", f"a proof of the kind {proof!r} is not understood")
            leaves = check_tree(data["tree"], prover_of(network, people, executed in arithmetic), say)
            how = f"the leaves of the tree ({leaves:,}) cover everybody, and each is fair"
    else:
        need(verdict in ("falsified", "undecided") and proof == "none", f"the verdict {verdict!r} is not understood")
        how = data["reason"]
        if verdict == "falsified":
            check_twins(network, people, data["twins"], data["decisions"], arithmetic)
            rules = " or by the declared rules" if people.rules else ""
            how = f"two people who differ in sensitive features only{rules} get different decisions"
    facts = verdict, proof, arithmetic, people.sensitive, data["reason"], people.rules
    claims = {claim_of(*facts, rounds=isinstance(network, ForestGraph) and not network.adds_exactly)}
    if isinstance(network, NetworkGraph):
        claims.add(claim_of(*facts, score=False))
    need(data["claim"] in claims, "the claim says something else than what was shown")
    covers = "score" if (verdict, proof) == ("verified", "structural") else "decision"
    found = {"valid": True, "verdict": verdict, "proof": proof, "reason": how}
    return found | {"arithmetic": arithmetic, "claim": data["claim"], "covers": covers}


def printable(text: str) -> str:
    """A text from a file, on one line and without anything that could pass for more."""
    return "".join(c if c.isprintable() else "?" for c in text)


def told(result: dict[str, Any]) -> str:
    """An answer in two lines for a person."""
    if not result["valid"]:
        return f"REJECTED: {printable(result['reason'])}\nDo not rely on this bundle."
    return f"VALID: {printable(result['claim'])}\n{printable(result['reason'])}"


def show(text: str, stream: Any) -> None:
    """Print. Who closed the other end (`checker.py bundle | head -1`) has heard enough; the status still answers."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> int:
    """Status 0: valid and verified. 1: rejected, or valid and falsified. 2: no bundle there. 3: valid, undecided."""
    parser = argparse.ArgumentParser(prog="checker.py", description="Check a bornfair bundle, with Python alone.")
    parser.add_argument("bundle", help="a folder or .zip with model.onnx, domain.json and certificate.json")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if not Path(options.bundle).exists():
        show(f"checker: there is no bundle '{options.bundle}'.", sys.stderr)
        return 2
    result = check(options.bundle, lambda text: show(text, sys.stderr))
    show(json.dumps(result) if options.json else told(result), sys.stdout)
    return {"verified": 0, "falsified": 1}.get(result["verdict"], 3) if result["valid"] else 1


if __name__ == "__main__":
    sys.exit(main())
