"""May I believe this bundle? An independent check of what its certificate claims, with Python alone.

Nothing of bornfair is imported, only the standard library: copy this one file anywhere, run `python checker.py BUNDLE`.
It reads the ONNX bytes itself, understands one kind of graph only (raw columns, network, decision), and derives the
claim anew: in exact fractions, or in float64 with bounds that cover every rounding, its own and the machine's.
What it does not understand it rejects.

Parts, in order: files, protocol buffers, people (domain.json), the graph, structural proofs, bounds, twins, verdict.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import stat
import struct
import sys
import time
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from operator import add, mul, sub, truediv
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = "bornfair-certificate/2"
STATEMENT = "decision(x, s) = decision(x, t) for all individuals (x, s), (x, t) of the domain"
DECLARED = "decision(p) = decision(q) for all individuals p, q of the domain that are versions of one person"
LIMITS = {"certificate.json": 2**24, "domain.json": 2**22, "model.onnx": 2**28}  # bytes
MOST_FIELDS = 200_000  # of a model file; one block of weights is one field
MOST_VALUES = 100_000  # of the sensitive features together, where they must be listed
MOST_RULES, MOST_ELEMENTS = 100, 10_000  # for twins, and of the group that they generate
FLOAT, INT64, STRING, BOOL, DOUBLE = 1, 7, 8, 9, 11  # element types of ONNX
ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Gelu": "gelu"}
STEPS = {"Sub": sub, "Add": add, "Mul": mul, "Div": truediv}
MALFORMED = (ArithmeticError, KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)


class Rejected(Exception):
    """The bundle does not prove what it claims, or cannot be understood."""


def need(condition: object, reason: str) -> None:
    if not condition:
        raise Rejected(reason)


# --- files: bounded, read into memory, nothing is ever written or executed ---


def read_bundle(path: str | Path) -> dict[str, bytes]:
    """The three files of a bundle, a folder or a .zip, by name."""
    place = Path(path)
    try:
        if place.is_dir():
            return {name: _read_file(place / name, limit) for name, limit in LIMITS.items()}
        return _read_zip(place, _read_file(place, sum(LIMITS.values())))
    except OSError as error:
        raise Rejected(f"the bundle cannot be read ({error.strerror})") from None


def _read_zip(place: Path, content: bytes) -> dict[str, bytes]:
    """The files of a .zip: one after the other, then a directory that says the same of each, and nothing else.

    Some programs go by the directory, others by the headers: where these differ, one would serve what the other
    did not check.
    """
    need(content[-22:-18] == b"PK\5\6", f"'{place.name}' is neither a folder nor a complete .zip")
    found, directory, at = dict[str, bytes](), list[tuple[bytes, bytes]](), 0
    while content[at : at + 4] == b"PK\3\4" and at + 30 < len(content):
        _, flags, method, _, crc, packed, size, length, extra = struct.unpack_from("<3H4I2H", content, at + 4)
        start = at + 30 + length
        name, end = content[at + 30 : start].decode(errors="replace"), start + packed
        need(name in (*LIMITS, "report.html") and name not in found, f"unexpected file {name!r} in the .zip")
        need(method in (0, 8) and not flags and not extra, f"{name!r} is not plainly zipped")
        need(size <= LIMITS.get(name, 2**26), f"{name!r} is too large")
        found[name] = _unpacked(content[start:end], method, size)
        need(len(found[name]) == size and zlib.crc32(found[name]) == crc, f"{name!r} is damaged in the .zip")
        directory.append((content[at + 4 : at + 30] + bytes(6), struct.pack("<I", at) + name.encode()))
        at = end
    begin = at
    for facts, where in directory:  # between the two stands who may do what with the file, and whether it is one
        plain = stat.S_IFMT(int.from_bytes(content[at + 40 : at + 42], "little")) in (0, stat.S_IFREG)
        same = content[at + 6 : at + 38] == facts and content[at + 42 : at + 42 + len(where)] == where
        mark = content[at : at + 4] == b"PK\1\2" and content[at + 38 : at + 40] == b"\0\0"
        need(same and plain and mark, f"the directory of '{place.name}' says something else than its files")
        at += 42 + len(where)
    end_of = struct.pack("<4H2IH", 0, 0, len(found), len(found), at - begin, begin, 0)
    need(content[at:] == b"PK\5\6" + end_of, f"'{place.name}' holds more than its files, or less")
    missing = set(LIMITS) - set(found)
    need(not missing, f"the .zip lacks {', '.join(sorted(missing))}")
    return {name: found[name] for name in LIMITS}


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
    1: ("name", "text"), 3: ("i", "int"), 8: ("ints", "int*"), 9: ("strings", "bytes*"), 20: ("type", "int"),
}  # fmt: skip
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


def parse_message(data: memoryview, known: dict[int, Any], budget: Iterator[int]) -> dict[str, Any]:
    """A message as a dictionary. Repeated fields are lists, absent ones are missing."""
    found: dict[str, Any] = {name: [] for name, kind, *_ in known.values() if kind.endswith("*")}
    at = 0
    while at < len(data):
        next(budget)
        key, at = _varint(data, at)
        need(key >> 3 in known, f"the model file holds a field that is not understood ({key >> 3})")
        name, kind, *inner = known[key >> 3]
        value: Any
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


def _budget() -> Iterator[int]:
    yield from range(MOST_FIELDS)
    raise Rejected(f"the model file has more than {MOST_FIELDS:,} fields")


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Rejected("the model file holds a text that is not UTF-8") from None


def _attribute(item: dict[str, Any]) -> tuple[str, Any]:
    kind = {2: "i", 7: "ints", 8: "strings"}.get(item.get("type", 0), "")
    need(kind and sum(bool(item.get(k)) for k in ("i", "ints", "strings") if k != kind) == 0, "an attribute is odd")
    value = item.get(kind, 0)
    return item.get("name", ""), [_text(bytes(text)) for text in value] if kind == "strings" else value


class Constant(NamedTuple):
    type: int
    dims: tuple[int, ...]
    values: Sequence[Any]


ONE_AXIS = Constant(INT64, (1,), array("q", [1]))


def _constant(tensor: dict[str, Any]) -> tuple[str, Constant]:
    name, kind, dims = tensor.get("name", ""), tensor.get("type"), tuple(tensor["dims"])
    need(all(0 <= d < 2**32 for d in dims) and len(dims) <= 2, f"constant '{name}' has an odd shape")
    if kind == STRING:
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
    return name, Constant(kind or 0, dims, values)


# --- people: who exists, as domain.json says ---

Box = dict[str, tuple[Any, ...]]  # (low, high) of a number, the possible levels of anything else


class People:
    """All individuals of the domain."""

    def __init__(self, data: dict[str, Any]) -> None:
        need(data["format"] == "bornfair-domain/1", "domain.json has another format")
        known = {"format", "features", "sensitive", "combinations", "twins", "label"}
        need(set(data) <= known, "domain.json has other fields")
        self.features: dict[str, dict[str, Any]] = {feature["name"]: feature for feature in data["features"]}
        need(len(self.features) == len(data["features"]), "domain.json names a feature twice")
        self.listed: dict[str, set[Any]] = {}
        for name, feature in self.features.items():
            kind, known = feature["kind"], {"name", "kind", "low", "high", "grid", "categories"}
            need(set(feature) <= known and kind in ("real", "integer", "categorical", "boolean"), f"'{name}' is odd")
            if kind in ("real", "integer"):
                low, high = feature["low"], feature["high"]
                need(-(2**1000) < low <= high < 2**1000, f"'{name}' has no range")
                whole = type(low) is type(high) is int and low >= -(2**53) and high <= 2**53
                need(whole or kind == "real", f"the ends of '{name}' are not whole numbers within 2^53")
                need(kind == "integer" or 2 <= feature["grid"] <= MOST_VALUES, f"the grid of '{name}' is odd")
                need(
                    low == high or kind == "integer" or (high - low) / (feature["grid"] - 1) > 0,
                    f"'{name}' is too narrow",
                )
            elif kind == "categorical":
                need(
                    len(set(feature["categories"])) == len(feature["categories"]) > 0, f"the values of '{name}' are odd"
                )
                self.listed[name] = {(type(level), level) for level in feature["categories"]}
        self.sensitive: list[str] = data["sensitive"]
        need(len(set(self.sensitive)) == len(self.sensitive), "a sensitive feature is named twice")
        need(set(self.sensitive) <= set(self.features), "a sensitive feature is not in the domain")
        self.combinations: list[list[Any]] | None = data["combinations"]
        for row in self.combinations or ():
            need(all(self.has(n, v) for n, v in zip(self.sensitive, row, strict=True)), f"combination {row!r} is odd")
        self.classes: list[Any] | None = data["label"]["classes"] if data["label"] else None
        named = [str(name) for name in ((0, 1) if self.classes is None else self.classes)]
        need(len(set(named)) == len(named) > 1, "the classes must be two or more, with different names")
        self.rules: list[Any] = data.get("twins", [])
        need(not self.rules or self.sensitive, "rules for twins are declared, but no feature is sensitive")
        need(len(self.rules) <= MOST_RULES, f"there are more than {MOST_RULES} rules")
        made = [dict(self._move(move) for move in rule) for rule in self.rules]
        twice = any(len(moves) != len(rule) or not rule for moves, rule in zip(made, self.rules, strict=True))
        need(not twice, "a rule moves a column twice, or none")
        self.moved = [n for n in self.features if n not in self.sensitive and any(rule.get(n) for rule in made)]
        still = {name: tuple(range(2 if self.is_number(name) else len(self.levels(name)))) for name in self.moved}
        self.generators = [tuple(rule.get(name, still[name]) for name in self.moved) for rule in made]

    def _move(self, move: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
        """What a part of a rule does to a feature: where each level goes; (1, 0) where a number x becomes total − x.

        What it does to a sensitive feature is only looked at for sense: any sensitive value may become any other.
        """
        name = move["feature"]
        need(name in self.features, f"a rule moves {name!r}, which is not in the domain")
        feature, sensitive = self.features[name], name in self.sensitive
        if move["kind"] == "mirror":
            total = move["total"]
            fits = set(move) == {"kind", "feature", "total"} and type(total) in (int, float)
            need(fits, f"a rule of '{name}' is odd")
            need(self.is_number(name) and total == feature["low"] + feature["high"], f"'{name}' is mirrored elsewhere")
            return name, (1, 0)
        need(move["kind"] != "carried", f"a rule carries the number '{name}' along, which is not supported")
        need(move["kind"] == "cycles" and set(move) == {"kind", "feature", "cycles"}, f"a rule of '{name}' is odd")
        values = [value for cycle in move["cycles"] for value in cycle]
        need(all(self.has(name, value) for value in values), f"a rule moves a value that '{name}' does not have")
        need(len(set(values)) == len(values) > 0, f"a rule maps a value of '{name}' twice")
        need(all(len(cycle) > 1 for cycle in move["cycles"]), f"a rule of '{name}' moves nothing")
        if self.is_number(name):
            need(sensitive and feature["kind"] == "integer", f"single values of the number '{name}' are moved")
            return name, ()
        place = {level: i for i, level in enumerate(self.levels(name))}
        goes = list(range(len(place)))
        for cycle in move["cycles"]:
            for here, there in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
                goes[place[here]] = place[there]
        return name, tuple(goes)

    @cached_property
    def elements(self) -> list[tuple[tuple[int, ...], ...]]:
        """The group that the rules generate on features that are not sensitive: all products, the identity first."""
        identity = tuple(tuple(range(2 if self.is_number(n) else len(self.levels(n)))) for n in self.moved)
        found, fresh = {identity: None}, [identity]
        while fresh:
            pairs = [(generator, element) for element in fresh for generator in self.generators]
            made = [tuple(tuple(g[i] for i in e) for g, e in zip(*pair, strict=True)) for pair in pairs]
            fresh = [element for element in dict.fromkeys(made) if element not in found]
            found |= dict.fromkeys(fresh)
            few = len(found) <= MOST_ELEMENTS and len(found) * len(self.generators) * sum(map(len, identity)) < 10**8
            need(few, f"the rules relate more than {MOST_ELEMENTS:,} versions of a person")
        return list(found)

    def moved_value(self, name: str, goes: tuple[int, ...], value: Any) -> Any:
        """A value as a twin has it; a mirrored number without any rounding."""
        if self.is_number(name):
            total = self.features[name]["low"] + self.features[name]["high"]
            return Fraction(total) - Fraction(value) if goes == (1, 0) else value
        levels = self.levels(name)
        return levels[goes[levels.index(value)]]

    def images(self, box: Box) -> list[Box]:
        """The box, and where its people's twins are: one box for each element of the group, equal ones once."""
        found = {}
        for element in self.elements if self.moved else [()]:
            moved = dict(box)
            for name, goes in zip(self.moved, element, strict=True):
                values = [self.moved_value(name, goes, value) for value in box[name]]
                if self.is_number(name):
                    moved[name] = tuple(values[::-1] if goes == (1, 0) else values)
                else:
                    moved[name] = tuple(sorted(values, key=list(self.levels(name)).index))
            found[tuple(moved[name] for name in self.moved)] = moved
        return list(found.values())

    def is_number(self, name: str) -> bool:
        return self.features[name]["kind"] in ("real", "integer")

    def levels(self, name: str) -> Sequence[Any]:
        feature = self.features[name]
        if feature["kind"] == "integer":
            return range(feature["low"], feature["high"] + 1)
        if feature["kind"] == "real":
            count = feature["grid"]
            step = (feature["high"] - feature["low"]) / (count - 1)
            return [*(feature["low"] + step * i for i in range(count - 1)), feature["high"]]
        return [False, True] if feature["kind"] == "boolean" else feature["categories"]

    def has(self, name: str, value: Any) -> bool:
        """Whether a raw value exists."""
        feature = self.features[name]
        if not self.is_number(name):
            return (type(value), value) in self.listed.get(name, {(bool, False), (bool, True)})
        kinds = (int,) if feature["kind"] == "integer" else (int, float)
        return type(value) in kinds and feature["low"] <= value <= feature["high"]

    @property
    def sensitive_count(self) -> int:
        rows = self.combinations
        return math.prod(len(self.levels(name)) for name in self.sensitive) if rows is None else len(rows)

    @property
    def version_count(self) -> int:
        return self.sensitive_count * (len(self.elements) if self.moved else 1)

    def versions(self) -> list[dict[str, Any]]:
        """The sensitive values a person may have, one dictionary for each."""
        need(self.sensitive_count <= MOST_VALUES, f"more than {MOST_VALUES:,} sensitive values cannot be listed")
        rows = self.combinations or itertools.product(*(self.levels(name) for name in self.sensitive))
        return [dict(zip(self.sensitive, row, strict=True)) for row in rows]

    def everybody(self) -> Box:
        number, features = self.is_number, self.features
        return {n: (f["low"], f["high"]) if number(n) else tuple(self.levels(n)) for n, f in features.items()}


# --- the graph: node by node, in the order in which bornfair writes them; anything else is rejected ---


class Column(NamedTuple):
    """One input of the network: a function of one feature."""

    feature: str
    table: dict[Any, float] | None  # its value for each level, 0 if not listed; or, for a number,
    steps: tuple[tuple[str, float], ...] = ()  # what is done to it in float64 before it is rounded to float32

    def value(self, raw: Any, exact: bool) -> Any:
        """As executed, step by step; `exact`: as a fraction, without any rounding."""
        number: Any = Fraction if exact else float
        if self.table is not None:
            return number(self.table.get(raw, 0.0))
        value = number(raw)
        for operator, constant in self.steps:
            value = STEPS[operator](value, number(constant))
        return value if exact else round32(value)


class Network(NamedTuple):
    """The decision: one output means class 1 where it is above 0, several mean the first of the largest."""

    columns: tuple[Column, ...]
    layers: tuple[tuple[list[array[float]], array[float]], ...]  # rows of weights, biases
    activation: str
    classes: list[Any]
    metadata: dict[str, str]


def round32(value: float) -> float:
    try:
        need(math.isfinite(value), "an encoded number overflows")
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise Rejected("an encoded number overflows float32") from None


def _type_and_dims(item: dict[str, Any]) -> tuple[int | None, list[Any]]:
    tensor = item.get("type", {}).get("tensor", {})
    return tensor.get("type"), tensor.get("shape", {}).get("dims", [])


class Graph:
    """The nodes of a model file, taken one after the other."""

    def __init__(self, model: dict[str, Any], people: People) -> None:
        graph = model.get("graph") or {"nodes": [], "constants": [], "inputs": [], "outputs": []}
        self.people, self.nodes, self.outputs = people, iter(graph["nodes"]), graph["outputs"]
        self.types = dict(self._declared(item) for item in graph["inputs"])
        self.constants = dict(_constant(tensor) for tensor in graph["constants"])
        made = [name for node in graph["nodes"] for name in node["outputs"]]
        names = [item.get("name", "") for item in (*graph["inputs"], *graph["constants"])] + made
        need(len(set(names)) == len(names) and "" not in names, "the graph defines a name twice")
        need(set(self.types) >= set(people.features) - set(people.sensitive), "the model lacks an input of the domain")
        self._advance()

    def _declared(self, item: dict[str, Any]) -> tuple[str, int]:
        name, (kind, dims) = item.get("name", ""), _type_and_dims(item)
        feature = self.people.features.get(name)
        need(feature is not None, f"the model has an input '{name}' that is not in the domain")
        need(dims == [{"param": "rows"}, {"value": 1}], f"input '{name}' is not [rows, 1]")
        whole = feature and all(type(level) is int for level in feature.get("categories", ()))
        allowed = {"real": {DOUBLE}, "integer": {INT64, DOUBLE}, "boolean": {BOOL}}
        types = allowed.get(feature["kind"], {INT64 if whole else STRING}) if feature else set()
        need(kind in types, f"input '{name}' has the wrong element type")
        return name, kind or 0

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
        return node["outputs"][0], [self.constants[name] for name in free]

    def row(self, operator: str, value: str, width: int) -> tuple[str, Sequence[float]]:
        """A step that combines columns with one constant each."""
        output, (constant,) = self.take(operator, value, None)
        need(constant.type == DOUBLE and constant.dims == (1, width), f"the constant of a {operator} has another shape")
        return output, constant.values

    # --- raw columns to network input ---

    def numbers(self, names: list[str], guards: list[str]) -> str:
        """Raw numbers as float64. Imputing, clipping and refusing leave people of the domain as they are."""
        features, width = [self.people.features[name] for name in names], len(names)
        columns = [n if self.types[n] == DOUBLE else self.take("Cast", n, to=DOUBLE)[0] for n in names]
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
        return value

    def _contains(self, features: list[dict[str, Any]], least: Sequence[float], most: Sequence[float]) -> None:
        for feature, low, high in zip(features, least, most, strict=True):
            need(low <= feature["low"] and feature["high"] <= high, f"the model cuts off values of '{feature['name']}'")

    def category(self, name: str, guards: list[str]) -> tuple[str, list[Column]]:
        """One column for each category, 1 or 0; true/false is one column."""
        levels, value, kind = list(self.people.levels(name)), name, self.types[name]
        if kind == BOOL:
            return self.take("Cast", name, to=FLOAT)[0], [Column(name, {True: 1.0})]
        shown = [str(level) for level in levels] if kind == STRING else levels
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
        return self.squeezed(value), [Column(name, {level: 1.0}) for level in levels]

    def code(self, name: str, guards: list[str]) -> tuple[str, list[Column]]:
        """How a model that reads it sees a sensitive feature."""
        if self.people.is_number(name):
            value, steps = self.numbers([name], guards), []
            while not self.next_is("Cast"):
                operator = str(self.node.get("op"))
                need(operator in ("Sub", "Add", "Mul", "Div"), f"'{name}' is encoded by {operator}")
                value, (constant,) = self.row(operator, value, 1)
                need(constant > 0 or operator in ("Sub", "Add"), f"the code of '{name}' does not grow with it")
                steps.append((operator, constant))
                need(len(steps) <= 8, f"the code of '{name}' takes more steps than any of ours")
            return self.take("Cast", value, to=FLOAT)[0], [Column(name, None, tuple(steps))]
        if self.types[name] == BOOL:
            value, (yes, no) = self.take("Where", name, None, None)
            need(yes.type == no.type == FLOAT and yes.dims == no.dims == (1, 1), f"the codes of '{name}' are odd")
            return value, [Column(name, {False: no.values[0], True: yes.values[0]})]
        return self.looked_up(name, self.category(name, guards)[0])

    def looked_up(self, name: str, hot: str) -> tuple[str, list[Column]]:
        """Each level as a row of numbers: one product is the row times 1, all others are 0, so the row comes out."""
        value, (table,) = self.take("MatMul", hot, None)
        levels = self.people.levels(name)
        need(table.type == FLOAT and table.dims[:1] == (len(levels),) and len(table.dims) == 2, f"codes of '{name}'")
        width = table.dims[1]
        return value, [Column(name, dict(zip(levels, table.values[j::width], strict=True))) for j in range(width)]

    def free(self, name: str, guards: list[str]) -> tuple[str, list[Column]]:
        """How the model sees a category, or true/false: as it is, or by a table in which twins may look alike."""
        if self.types[name] == BOOL and self.next_is("Where"):
            return self.code(name, guards)
        value, columns = self.category(name, guards)
        return self.looked_up(name, value) if self.next_is("MatMul") else (value, columns)

    def squeezed(self, value: str) -> str:
        output, (axes,) = self.take("Squeeze", value, None)
        need(axes == ONE_AXIS, "a Squeeze goes along another axis")
        return output

    # --- all of it ---

    def network(self, metadata: dict[str, str]) -> Network:
        people, guards = self.people, list[str]()
        free = [name for name in people.features if name not in people.sensitive]
        numeric, others = [n for n in free if people.is_number(n)], [n for n in free if not people.is_number(n)]
        blocks, columns = [], []
        if numeric:
            value, centres = self.row("Sub", self.numbers(numeric, guards), len(numeric))
            value, factors = self.row("Mul", value, len(numeric))
            need(min(factors) >= 0, "a number is scaled by a factor below 0")
            blocks.append(self.take("Cast", value, to=FLOAT)[0])
            steps = [(("Sub", c), ("Mul", f)) for c, f in zip(centres, factors, strict=True)]
            columns += [Column(name, None, step) for name, step in zip(numeric, steps, strict=True)]
        for name in [*others, *people.sensitive]:
            if people.sensitive[:1] == [name] and self.next_is("Concat") and self.node["inputs"] == blocks:
                break  # all are there, and no sensitive feature is read
            block, more = (self.code if name in people.sensitive else self.free)(name, guards)
            blocks.append(block)
            columns += more
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
        self._decision(value, width, classes)
        return Network(tuple(columns), tuple(layers), activation, classes, metadata)

    def _decision(self, outputs: str, width: int, classes: list[Any]) -> None:
        if width == 1:
            above, (zero,) = self.take("Greater", outputs, None)
            need((zero.type, zero.dims, zero.values[0]) == (FLOAT, (1,), 0), "the decision is not made at 0")
            index = self.squeezed(self.take("Cast", above, to=INT64)[0])
        else:
            index, _ = self.take("ArgMax", outputs, axis=1, keepdims=0)
        label, (names,) = self.take("Gather", None, index, axis=0)
        shown = [str(c) for c in classes] if names.type == STRING else classes
        need(list(names.values) == shown and names.type != FLOAT, "the classes are not those of the domain")
        need(names.dims == (len(classes),), "the classes have an odd shape")
        if width == 1:
            both, _ = self.take("Concat", self.take("Neg", outputs)[0], outputs, axis=1)
            shares, _ = self.take("Sigmoid", both)
        else:
            shares, _ = self.take("Softmax", outputs, axis=1)
        need(not self.node["outputs"] and next(self.nodes, None) is None, "the graph goes on after the decision")
        given = [(item.get("name"), *_type_and_dims(item)) for item in self.outputs]
        wanted: list[Any] = [(label, names.type, [{"param": "rows"}])]
        wanted += [(shares, FLOAT, [{"param": "rows"}, {"value": len(classes)}])]
        need(given == wanted, "the outputs are not the decision")


def read_model(content: bytes, people: People) -> Network:
    """The network inside a model file, with what its inputs mean."""
    model = parse_message(memoryview(content), MODEL, _budget())
    opsets = sorted((item.get("domain", ""), item.get("version")) for item in model["opsets"])
    need(opsets in ([("", v), ("ai.onnx.ml", 3)] for v in (18, 20)), "the model uses other versions of operators")
    need(model.get("ir_version") == 9, "the model file is of another version")
    entries = {item.get("key", ""): item.get("value", "") for item in model["metadata"]}
    need(len(entries) == len(model["metadata"]), "the model file names its metadata twice")
    network = Graph(model, people).network(entries)
    need(network.activation != "gelu" or ("", 20) in opsets, "gelu is not an operator of this version")
    return network


# --- structural proofs: the first layer cannot tell twins apart ---


def prove_structurally(network: Network, people: People) -> set[str]:
    """The arithmetics in which what differs between twins cannot reach the decision."""
    return _prove_flip(network, people) & _prove_rules(network, people)


def _prove_flip(network: Network, people: People) -> set[str]:
    """The sensitive values cannot reach the decision."""
    read = [j for j, column in enumerate(network.columns) if column.feature in people.sensitive]
    columns, weights = [network.columns[j] for j in read], [[row[j] for j in read] for row in network.layers[0][0]]
    if not any(map(any, weights)):
        # Not read at all, or times 0: adding ±0 leaves every sum the number it was, if the code itself is finite.
        for column in columns:
            for raw in people.everybody()[column.feature]:
                column.value(raw, exact=False)
        return {"real", "float32"}
    codes = [[column.value(version[column.feature], True) for column in columns] for version in people.versions()]
    for neuron, row in enumerate(weights):
        sums = {sum(Fraction(w) * c for w, c in zip(row, code, strict=True)) for code in codes}
        need(len(sums) == 1, f"first-layer neuron {neuron} answers differently to different sensitive values")
    return {"real"}  # weights that cancel do so in exact numbers only


def _prove_rules(network: Network, people: People) -> set[str]:
    """No rule changes what the first layer receives; then no combination of rules does.

    A feature that a rule moves must look the same to the model before and after, bit by bit, but for inputs that all
    first-layer weights multiply by 0 (in float32 and in real numbers), or add the same to every neuron (in real ones).
    Feature by feature is no loss: what one adds cannot make up for another, as a rule is undone by repeating it.
    """
    held, rows = {"real", "float32"}, network.layers[0][0]
    for name, rule in ((name, rule) for rule in people.generators for name in people.moved):
        goes, places = rule[people.moved.index(name)], differing(network, people, name, rule)
        read = [j for j in places if any(row[j] for row in rows)]
        for raw in people.everybody()[name] if people.is_number(name) else ():
            for j in places:
                network.columns[j].value(raw, False)  # rejects what overflows: 0·∞ is not 0
        if not read:
            continue
        held = {"real"}
        need(not people.is_number(name), f"the model tells '{name}' from its mirror image")
        levels, columns = people.levels(name), [(j, network.columns[j]) for j in read]
        for here, there in ((levels[i], levels[to]) for i, to in enumerate(goes) if i != to):
            change = [(j, column.value(there, True) - column.value(here, True)) for j, column in columns]
            for neuron, row in enumerate(rows):
                same = sum(Fraction(row[j]) * step for j, step in change) == 0
                need(same, f"first-layer neuron {neuron} tells {name} {here!r} from {there!r}, which twins may have")
    return held


def differing(network: Network, people: People, name: str, rule: tuple[tuple[int, ...], ...]) -> list[int]:
    """The inputs of a feature that are not the same numbers before and after a rule."""
    goes, found = rule[people.moved.index(name)], []
    for j, column in enumerate(network.columns):
        if column.feature != name or not goes or goes == tuple(range(len(goes))):
            continue
        if column.table is None:  # mirrored: the same only if it is the same for everybody
            if any(operator == "Mul" and factor == 0 for operator, factor in column.steps[-1:]):
                for raw in people.everybody()[name]:
                    column.value(raw, exact=False)  # rejects what overflows on the way: 0·∞ is not 0
                continue
            found.append(j)
        else:
            values = [column.value(level, False) for level in people.levels(name)]
            if any(values[i] != values[to] for i, to in enumerate(goes)):
                found.append(j)
    return found


# --- bounds: between which numbers do the outputs lie, for everybody in a box? ---


class Sums(NamedTuple):
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

    def __init__(self, network: Network, people: People, float32: bool, *, margin: float = 1.0) -> None:
        self.network, self.people, self.float32, self.views = network, people, float32, people.versions()
        self.layers = [(list(map(list, rows)), list(bias)) for rows, bias in network.layers]
        self.sizes = [[list(map(abs, row)) for row in rows] for rows, _ in self.layers]
        self.turned = [list(map(list, zip(*rows, strict=True))) for rows, _ in self.layers]
        self.places: dict[str, list[int]] = {}
        for j, column in enumerate(network.columns):
            self.places.setdefault(column.feature, []).append(j)
        self.hot = {name: on for name in self.places if (on := self._one_hot(name)) is not None}
        self.listed = all(people.features[name]["kind"] != "real" for name in people.sensitive)  # `views` are all
        terms = len(network.columns) + sum(len(bias) for _, bias in self.layers)
        self.unit = 4 * (terms + 64) * 2.0**-53 * margin
        self.known: dict[Any, Any] = {}
        self.differs = {j for name in people.sensitive for j in self.places.get(name, ())}
        for name, rule in ((name, rule) for rule in people.generators for name in people.moved):
            self.differs.update(differing(network, people, name, rule))

    def _one_hot(self, name: str) -> dict[Any, int] | None:
        """Which of the feature's inputs is 1 for each level, if exactly one is and all others are 0."""
        tables = [self.network.columns[j].table or {} for j in self.places[name]]
        on = {level: k for k, table in enumerate(tables) for level in table}
        single = all(list(table.values()) == [1.0] for table in tables)
        return on if single and len(on) == len(tables) == len(self.people.levels(name)) > 1 else None

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
        self.known[name, possible] = list(middle), list(radius), size, reach
        return self.known[name, possible]

    def forward(self, box: Box) -> list[Sums]:
        """Intervals of all sums."""
        shares = [self.share(name, box[name]) for name in self.places]
        parts: list[Any] = [list(map(sum, zip(*(share[i] for share in shares), strict=True))) for i in range(3)]
        middle, radius, size = parts
        reach, count, found = sum(share[3] for share in shares), len(self.network.columns), list[Sums]()
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
            found.append(Sums([m + b - r - e for m, r, b, e in ends], [m + b + r + e for m, r, b, e in ends], error))
        return found

    def _activated(self, sums: Sums) -> tuple[list[float], list[float]]:
        if self.network.activation == "relu":
            return [max(z, 0.0) for z in sums.low], [max(z, 0.0) for z in sums.high]
        need(self.network.activation in ("tanh", "sigmoid"), f"no bounds are known for {self.network.activation}")
        tanh = self.network.activation == "tanh"
        rise = math.tanh if tanh else lambda z: 0.5 + 0.5 * math.tanh(0.5 * z)
        pad = 2.0**-20 if self.float32 else 2.0**-48  # what math.tanh, or a machine's own, may be off by
        return [rise(z) - pad for z in sums.low], [rise(z) + pad for z in sums.high]

    def backward(self, box: Box, sums: list[Sums], row: list[float]) -> tuple[float, list[float]]:
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
        if key not in self.known:
            self.known[key] = self.inputs(name, possible)
        return self.known[key]

    # --- what may be concluded ---

    def is_decided(self, box: Box, best: int, sums: list[Sums] | None = None) -> bool:
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

    def is_decided_all(self, box: Box, best: int, sums: list[Sums] | None = None) -> bool:
        """Whether everybody in the box and all their twins, wherever they are, provably get the class `best`."""
        images = self.people.images(box)
        return self.is_decided(images[0], best, sums) and all(self.is_decided(image, best) for image in images[1:])

    def is_decided_each(self, box: Box, best: int) -> bool:
        """The same, with each sensitive value looked at by itself."""
        if not self.listed or not 0 <= best < len(self.network.classes):
            return False
        number = self.people.is_number
        single = [{n: (v, v) if number(n) else (v,) for n, v in view.items()} for view in self.views]
        return all(self.is_decided(image | view, best) for image in self.people.images(box) for view in single)

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
        if leaf == "exact" and not self.float32 and self.listed:
            free = [name for name in box if name not in self.people.sensitive]
            images = [{name: image[name][0] for name in free} for image in self.people.images(box)]
            classes = {decide_exactly(self.network, person | view) for person in images for view in self.views}
            return all(len(set(box[name])) == 1 for name in free) and len(classes) == 1 and None not in classes
        return leaf == "same" and self.is_same(box)


def _middle(low: float, high: float) -> tuple[float, float]:
    """A point, and a distance that reaches both ends from there."""
    centre = low / 2 + high / 2
    return centre, math.nextafter(max(high - centre, centre - low), math.inf) if low < high else 0.0


def cut(possible: tuple[Any, ...], name: str, where: Any, people: People) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Both parts of what a feature may be: numbers up to the cut and from it on; the named categories, the others."""
    need(name in people.features and name not in people.sensitive, f"a cut along {name!r}")
    if people.is_number(name):
        need(people.has(name, where) and possible[0] <= where < possible[1], f"'{name}' is cut at {where!r}")
        after = where + 1 if people.features[name]["kind"] == "integer" else where
        return (possible[0], where), (after, possible[1])
    named = set(where)
    parts = tuple(v for v in possible if v in named), tuple(v for v in possible if v not in named)
    need(all(parts), f"a cut of '{name}' cuts nothing")
    return parts


def check_tree(tree: list[Any], prover: Prover, say: Callable[[str], None] | None = None) -> int:
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
        need(prover.is_fair(entry, box), f"leaf {leaves} ({str(entry)[:40]}) is not proven: {str(box)[:300]}")
        while trail and trail[-1][2] is None:  # both parts are done
            name, before, _ = trail.pop()
            box[name] = before
        done = not trail
        if trail:
            box[trail[-1][0]], trail[-1][2] = trail[-1][2], None
    still = sum(second is not None for *_, second in trail) + (not done)
    need(done, f"the tree leaves {still} part(s) of the domain open")
    return leaves


# --- twins: two people who disprove fairness ---


def decide_exactly(network: Network, person: dict[str, Any]) -> int | None:
    """The class a person gets when nothing is rounded; None where exact numbers cannot say."""
    if network.activation != "relu":
        return None
    values = [column.value(person[column.feature], True) for column in network.columns]
    for depth, (rows, bias) in enumerate(network.layers):
        values = [max(v, Fraction(0)) for v in values] if depth else values
        used = [(j, v) for j, v in enumerate(values) if v]
        values = [sum((Fraction(row[j]) * v for j, v in used), Fraction(b)) for row, b in zip(rows, bias, strict=True)]
    return int(values[0] > 0) if len(values) == 1 else values.index(max(values))


def decide(network: Network, people: People, person: dict[str, Any], arithmetic: str) -> int | None:
    """The class a person provably gets."""
    if arithmetic == "real" and network.activation == "relu":
        return decide_exactly(network, person)
    prover = Prover(network, people, arithmetic == "float32")
    box = {n: (v, v) if people.is_number(n) else (v,) for n, v in person.items()}
    return next((k for k in range(len(network.classes)) if prover.is_decided(box, k)), None)


def are_versions(people: People, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether some element of the group turns one into the other, whatever their sensitive values."""
    fixed = (name for name in people.features if name not in people.sensitive and name not in people.moved)
    if any(one[name] != other[name] for name in fixed):
        return False
    return any(
        all(people.moved_value(n, goes, one[n]) == other[n] for n, goes in zip(people.moved, element, strict=True))
        for element in (people.elements if people.moved else [()])
    )


def check_twins(network: Network, people: People, twins: Any, decisions: Any, arithmetic: list[str]) -> None:
    one, other = twins
    for twin in twins:
        need(set(twin) == set(people.features), "a twin has other features than the domain")
        for name, value in twin.items():
            need(people.has(name, value), f"a twin's {name} is {value!r}, which is not in the domain")
    need(any(one[name] != other[name] for name in people.features), "the twins are one person")
    need(are_versions(people, one, other), "the twins differ in more than the sensitive features and the rules say")
    if people.combinations is not None:
        need(all([t[n] for n in people.sensitive] in people.combinations for t in twins), "such twins do not exist")
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
) -> str:
    """The one sentence a validator may quote."""
    names = " and ".join(filter(None, [", ".join(sensitive[:-1]), *sensitive[-1:]]))
    who = f"individuals who differ only in {names}"
    if rules:
        who += f", or by the declared rules ({'; '.join(map(told_rule, rules))}),"
    if verdict == "verified":
        how = " and ".join({"real": "exact", "float32": "float32"}[kind] for kind in arithmetic)
        return (
            f"Two {who} always get the same decision, for every individual of the "
            f"domain, in {how} arithmetic ({proof} proof)."
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


def property_of(people: People) -> dict[str, Any]:
    """What is claimed or disproven, as the certificate must state it."""
    stated = {"relation": "flip", "sensitive": people.sensitive, "sensitive_values": people.sensitive_count}
    if people.rules:
        return stated | {"relation": "declared", "versions": people.version_count, "statement": DECLARED}
    return stated | {"statement": STATEMENT}


def check_files(files: dict[str, bytes], say: Callable[[str], None] | None = None) -> dict[str, Any]:
    data = parse_json(files["certificate.json"], "certificate.json")
    need(data.get("format") == FORMAT and set(data) == FIELDS, f"certificate.json is not a {FORMAT}")
    need(data["sha256"] == digest_of(data), "the certificate was changed after it was written")
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in ("model.onnx", "domain.json")}
    for name, digest in digests.items():
        need(data["files"][name] == digest, f"the certificate is about another {name}")
    need(set(data["files"]) == set(digests), "the certificate names other files")
    people = People(parse_json(files["domain.json"], "domain.json"))
    network = read_model(files["model.onnx"], people)
    verdict, proof, arithmetic = data["verdict"], data["proof"], data["arithmetic"]
    need(data["property"] == property_of(people), "the certificate is about another property")
    need(arithmetic in ([], ["real"], ["float32"], ["real", "float32"]), "the arithmetic is not understood")
    need(isinstance(data["reason"], str), "the reason must be a text")
    need((verdict == "undecided") == (not arithmetic), "verdict and arithmetic do not go together")
    need(proof == "bounds" or data["tree"] is None, "there is a tree, but no proof by bounds")
    need(verdict == "falsified" or data["twins"] is data["decisions"] is None, "there are twins, but no falsification")
    if verdict == "verified":
        need(people.sensitive, "no feature is sensitive, so there is nothing to verify")
        if proof == "structural":
            held = prove_structurally(network, people)
            need(held >= set(arithmetic), "this proof holds in real arithmetic only")
            how = f"the sensitive values {'and what rules move ' if people.rules else ''}cannot reach the decision"
        else:
            need(proof == "bounds", f"a proof of the kind {proof!r} is not understood")
            leaves = check_tree(data["tree"], Prover(network, people, "float32" in arithmetic), say)
            how = f"the leaves of the tree ({leaves:,}) cover everybody, and each is fair"
    else:
        need(verdict in ("falsified", "undecided") and proof == "none", f"the verdict {verdict!r} is not understood")
        how = data["reason"]
        if verdict == "falsified":
            check_twins(network, people, data["twins"], data["decisions"], arithmetic)
            rules = " or by the declared rules" if people.rules else ""
            how = f"two people who differ in sensitive features only{rules} get different decisions"
    expected = claim_of(verdict, proof, arithmetic, people.sensitive, data["reason"], people.rules)
    need(data["claim"] == expected, "the claim says something else than what was shown")
    found = {"valid": True, "verdict": verdict, "proof": proof, "reason": how}
    return found | {"arithmetic": arithmetic, "claim": expected}


def printable(text: str) -> str:
    """A text from a file, on one line and without anything that could pass for more."""
    return "".join(c if c.isprintable() else "?" for c in text)


def told(result: dict[str, Any]) -> str:
    """An answer in two lines for a person."""
    if not result["valid"]:
        return f"REJECTED: {printable(result['reason'])}\nDo not rely on this bundle."
    return f"VALID: {printable(result['claim'])}\n{printable(result['reason'])}"


def main() -> int:
    """Status 0: valid and verified. 1: rejected, or valid and falsified. 2: no bundle there. 3: valid, undecided."""
    parser = argparse.ArgumentParser(prog="checker.py", description="Check a bornfair bundle, with Python alone.")
    parser.add_argument("bundle", help="a folder or .zip with model.onnx, domain.json and certificate.json")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if not Path(options.bundle).exists():
        print(f"checker: there is no bundle '{options.bundle}'.", file=sys.stderr)
        return 2
    result = check(options.bundle, lambda text: print(text, file=sys.stderr))
    print(json.dumps(result) if options.json else told(result))
    return {"verified": 0, "falsified": 1}.get(result["verdict"], 3) if result["valid"] else 1


if __name__ == "__main__":
    sys.exit(main())
