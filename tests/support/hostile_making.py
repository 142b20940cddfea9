"""How a good file becomes a bad one: bytes cut, flipped and spliced, and nasty values where its format has values."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
from pathlib import Path
from typing import Any

Chance = random.Random
NASTY: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**53 + 1, 2**63, -(2**63), 2**70, 10**400, 0.5, -0.0, 1e-320, 1e308,
    -1e308, float("nan"), float("inf"), "", " ", "x", "0", "-1", "nan", "None", "sex", "s" * 5000, "\x1b[2J", "\u202e",
    "a\nb", "\0", "\ud800", "=1+1", "[red]", "{}", "%s", "../x", "verified", "relu", "integer", "real", "categorical",
    [], {}, [[]], [0], ["a", "a"], {"a": 1}, [None],
]  # fmt: skip
CELLS = [cell for cell in NASTY if not isinstance(cell, (list, dict)) and cell != "\ud800"]


def bad_bytes(content: bytes, chance: Chance, other: bytes) -> bytes:
    """Cut, flipped, overwritten, doubled, spliced."""
    data = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 5, 40])):
        place = chance.randrange(len(data) + 1)
        end = min(len(data), place + chance.choice([1, 1, 2, 4, 16, 200]))
        way = chance.randrange(9)
        if way == 0:
            del data[place : len(data) if chance.random() < 0.3 else end]
        elif way == 1 and data:
            data[place - 1] ^= 1 << chance.randrange(8)
        elif way == 2:
            data[place:end] = chance.randbytes(end - place)
        elif way == 3:
            data[place:place] = data[place:end] * chance.choice([1, 2, 50])
        elif way == 4:
            start = chance.randrange(len(other) + 1)
            data[place:end] = other[start : start + 200]
        elif way == 5:
            data[place:end] = chance.choice([b"\0", b"\xff", b"\x7f", b"\x80"]) * (end - place)
        elif way == 6:
            data[place:end] = chance.choice([b"-", b"1e999", b"nan", b"\n", b",", b'"', b"{", b"[" * 3000])
        elif way == 7 and chance.random() < 0.2:
            return b""
        elif data:
            data[place - 1] = (data[place - 1] + chance.choice([1, 255])) % 256
    return bytes(data)


def bad_json(value: Any, chance: Chance) -> Any:
    """One value, key or element of a document replaced, doubled or gone."""
    found: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            found.append((node, key))
            walk(node[key])

    walk(value)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if not found:
            return chance.choice(NASTY)
        holder, key = chance.choice(found)
        try:
            old = holder[key]
            way = chance.randrange(6)
            if way == 0:
                del holder[key]
            elif way == 1 and isinstance(old, list):
                holder[key] = old * chance.choice([2, 100])
            elif way == 2 and isinstance(old, (int, float)) and not isinstance(old, bool):
                holder[key] = chance.choice([-old, old + 1, old * 1e30, old / 3, str(old), [old]])
            elif way == 3 and isinstance(holder, dict):
                holder[str(chance.choice(NASTY))] = old
            elif way == 4:
                for _ in range(chance.choice([3, 2000])):
                    old = [old]
                holder[key] = old
            else:
                holder[key] = chance.choice(NASTY)
        except (KeyError, IndexError, OverflowError):
            continue  # it went with what was changed before
    return value


def bad_json_text(text: bytes, chance: Chance) -> bytes:
    try:
        return json.dumps(bad_json(json.loads(text), chance)).encode()
    except (RecursionError, ValueError):
        return text[: len(text) // 2]


def bad_lines(content: bytes, chance: Chance) -> bytes:
    """Lines of LightGBM's text with other numbers, fewer or more of them, or gone."""
    lines = content.decode().split("\n")
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        at = chance.randrange(len(lines))
        name, equals, values = lines[at].partition("=")
        words, way = values.split(" "), chance.randrange(6)
        if not equals or way == 0:
            lines[at : at + 1] = chance.choice([[], [lines[at]] * 2, [str(chance.choice(NASTY)).replace("\n", " ")]])
            continue
        place = chance.randrange(len(words))
        if way == 1:
            del words[place]
        elif way == 2:
            words *= chance.choice([2, 1000])
        elif way == 3:
            name = chance.choice(lines).partition("=")[0]
        else:
            words[place] = chance.choice(
                ["-1", "0", "1", "7", "-9", "nan", "inf", "1e999", "99999999999999999999", "x", ""]
            )
        lines[at] = f"{name}={' '.join(words)}"
    return "\n".join(lines).encode(errors="replace")


def bad_graph(content: bytes, chance: Chance) -> bytes:
    """A field of an ONNX graph changed."""
    import onnx

    model = onnx.load_from_string(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        message: Any = model
        for _ in range(30):  # down to some field
            fields = [f for f, _ in message.ListFields()]
            if not fields:
                break
            chosen = chance.choice(fields)
            value = getattr(message, chosen.name)
            several = not isinstance(value, (str, bytes, int, float)) and not hasattr(value, "ListFields")
            if several and chance.random() < 0.1:
                _shaken(value, chance)
                break
            if several and len(value) and hasattr(value[0], "ListFields"):
                message = chance.choice(list(value))
            elif hasattr(value, "ListFields"):
                message = value
            else:
                _replaced(message, chosen.name, value, several, chance)
                break
    return model.SerializeToString()


def _shaken(values: Any, chance: Chance) -> None:
    if not len(values):
        return
    if chance.random() < 0.5:
        del values[chance.randrange(len(values))]
    elif hasattr(values[0], "ListFields"):
        values.add().CopyFrom(chance.choice(list(values)))
    else:
        values.append(values[0])


def _replaced(message: Any, name: str, value: Any, several: bool, chance: Chance) -> None:
    one = value[0] if several and len(value) else value
    kinds: list[tuple[Any, list[Any]]] = [
        (bytes, [b"", b"\0" * 3, b"\xff" * 64, chance.randbytes(32), b"x" * 5000]),
        (str, ["", "x", "Relu", "Gemm", "MatMul", "If", "Loop", "Cast", "Tanh", "\x1b[2J", "weight 0", "y"]),
        (float, [float("nan"), float("inf"), 0.0, -1.0, 1e38, 1e-45]),
        (int, [0, -1, 1, 2, 3, 7, 8, 2**31 - 1, 2**40, -(2**62), 100]),
    ]
    for kind, choices in kinds:
        if isinstance(one, kind):
            try:
                if several:
                    value[chance.randrange(len(value))] = chance.choice(choices)
                else:
                    setattr(message, name, chance.choice(choices))
            except (ValueError, TypeError):  # an enumeration or a shorter number
                continue
            return


def bad_csv(content: bytes, chance: Chance) -> bytes:
    lines = content.decode().split("\n")
    for _ in range(chance.choice([1, 1, 3, 30])):
        row = chance.choice([0, chance.randrange(len(lines)), chance.randrange(len(lines))])
        cells = lines[row].split(",")
        cell = str(chance.choice(CELLS))
        if chance.random() < 0.2:
            column = chance.randrange(len(cells))
            for i, line in enumerate(lines[1:], 1):  # a whole column
                parts = line.split(",")
                if column < len(parts):
                    parts[column] = cell
                    lines[i] = ",".join(parts)
            continue
        cells[chance.randrange(len(cells))] = cell
        lines[row] = ",".join(cells * chance.choice([1, 1, 1, 2]))
    return "\n".join(lines).encode()


def bad_parquet(content: bytes, chance: Chance) -> bytes:
    import pandas as pd

    table = pd.read_parquet(io.BytesIO(content))
    name = chance.choice(list(table.columns))
    column: list[Any] = chance.choice([
        [chance.choice(CELLS)] * len(table), [[1, 2]] * len(table), [{"a": 1}] * len(table), [b"\xff"] * len(table),
        list(pd.date_range("2020", periods=len(table))), [2**60 + i for i in range(len(table))], [1e300] * len(table),
        [None] * len(table), [float(i) for i in range(len(table))], list(pd.to_timedelta(range(len(table)), "s")),
    ])  # fmt: skip
    made = io.BytesIO()
    try:
        table.assign(**{name: column}).to_parquet(made)
    except (ValueError, TypeError, OverflowError, UnicodeError):
        return content[: chance.randrange(len(content))]
    except Exception as error:
        if type(error).__module__.startswith("pyarrow"):
            return content[: chance.randrange(len(content))]
        raise
    return made.getvalue()


def bad_numbers(content: bytes, chance: Chance) -> bytes:
    """A text of numbers (.nnet) in which some are others."""
    cells = content.decode().split(",")
    for _ in range(chance.choice([1, 1, 4])):
        cells[chance.randrange(len(cells))] = str(chance.choice(CELLS))
    return ",".join(cells).encode("utf-8", "replace")


def bad_tensors(content: bytes, chance: Chance) -> bytes:
    """A safetensors file in which the header, or the facts in it, are others."""
    import numpy as np
    from safetensors.numpy import load, save

    if chance.random() < 0.5:
        size = int.from_bytes(content[:8], "little")
        header = bad_json_text(content[8 : 8 + size], chance)
        return len(header).to_bytes(8, "little") + header + content[8 + size :]
    tensors = load(content)
    if chance.random() < 0.5:
        tensors["facts"] = np.frombuffer(bad_json_text(tensors["facts"].tobytes(), chance) or b" ", np.uint8)
    else:
        name = chance.choice([key for key in tensors if key != "facts"])
        array = tensors.pop(name)
        flat = array.reshape(-1)
        shape = chance.choice([flat[:-1], array.astype("float64"), array[None], flat[:0], array * 0 - 1])
        tensors[chance.choice([name, name, "x"])] = shape
    return save({name: np.array(array, order="C") for name, array in tensors.items()})


def bad_h5(content: bytes, chance: Chance) -> bytes:
    """A Keras file with another description of its layers."""
    import h5py

    made = io.BytesIO(content)
    with h5py.File(made, "r+") as file:
        text = file.attrs["model_config"]
        changed = bad_json_text(text.encode() if isinstance(text, str) else bytes(text), chance)
        file.attrs["model_config"] = changed.decode().replace("\0", "")
    return made.getvalue()


def bad_bundle(folder: Path, chance: Chance) -> None:
    """A bundle with one bad file, most often sealed anew, so that its digests fit."""
    name = chance.choice(["model.onnx", "domain.json", "certificate.json"])
    file = folder / name
    content = file.read_bytes()
    if chance.random() < 0.2:
        content = bad_bytes(content, chance, content[::-1])
    else:
        content = bad_graph(content, chance) if name == "model.onnx" else bad_json_text(content, chance)
    file.write_bytes(content)
    if chance.random() < 0.05:
        file.unlink()
        if chance.random() < 0.5:
            file.mkdir()
        return
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        facts = json.loads((folder / "certificate.json").read_bytes())
        for part in ("model.onnx", "domain.json"):
            facts["files"][part] = hashlib.sha256((folder / part).read_bytes()).hexdigest()
        if chance.random() < 0.9:
            (folder / "certificate.json").write_text(json.dumps(facts))


def bad_rule(chance: Chance) -> str:
    words = ["sex", "race", "job", "age", "a", "b", "nurse", "smith", "female", "male", ":", "<->", "->", ",", ";"]
    words += ["-x+10", "'", '"', " ", "-x", "1e999", "-x+1e400", "by", "\x1b[2J", "\n", "", "x", "True", "3*x+1"]
    if chance.random() < 0.5:
        return "".join(chance.choice(words) for _ in range(chance.randrange(12)))
    good = "sex: female<->male, job: nurse<->smith; age: -x+97"
    return bad_bytes(good.encode(), chance, good.encode()).decode("utf-8", "ignore").replace("\0", "")[:3000]
