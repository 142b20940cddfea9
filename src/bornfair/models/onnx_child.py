"""The process in which foreign models run: within limits of memory and time, and without bornfair.

It is started by `onnx_worker` as a script for one library, reads one message after the other from standard input and
answers on standard output. It imports numpy and that library only, so it starts quickly; it ends with whoever started
it. A message is 8 bytes of length, a letter, and what it carries. A forest is loaded from a line of JSON (how to run
it) and its file; it is run on "rows" [people, inputs] of numbers, and answers with "scores" and with what it "shows".
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

LOAD, RUN, ANSWER, ERROR = b"L", b"R", b"A", b"E"
TEXT = "text"


def send(stream: BinaryIO, kind: bytes, content: bytes) -> None:
    stream.write(struct.pack("<Q", len(content) + 1) + kind + content)
    stream.flush()


class TooLong(Exception):
    """A message has more bytes than the receiver takes."""


def receive(stream: BinaryIO, most: int | None = None) -> tuple[bytes, bytes]:
    """The next message; EOFError if whoever sends it is gone."""
    (length,) = struct.unpack("<Q", _exactly(stream, 8))
    if most is not None and length > most:
        raise TooLong(f"{length:,}")
    message = _exactly(stream, length)
    return message[:1], message[1:]


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Arrays by name: a line of JSON that describes them, then their bytes. Texts are JSON; nothing is pickled."""
    described, bodies = [], []
    for name, array in arrays.items():
        text = array.dtype.kind in "OUS"
        body = json.dumps(array.ravel().tolist()).encode() if text else np.ascontiguousarray(array).tobytes()
        described.append([name, TEXT if text else array.dtype.str, list(array.shape), len(body)])
        bodies.append(body)
    return b"\n".join([json.dumps(described).encode(), b"".join(bodies)])


def unpacked(content: bytes) -> dict[str, np.ndarray]:
    head, _, rest = content.partition(b"\n")
    arrays, start = {}, 0
    for name, kind, shape, size in json.loads(head):
        body = rest[start : start + size]
        start += size
        flat = np.array(json.loads(body), dtype=object) if kind == TEXT else np.frombuffer(body, np.dtype(kind))
        arrays[name] = flat.reshape(shape)
    return arrays


def _exactly(stream: BinaryIO, count: int) -> bytes:
    found = stream.read(count)
    if len(found) < count:
        raise EOFError
    return found


# --- what runs in the child only ---


Run = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def _serve(requests: BinaryIO, answers: BinaryIO, limit: Callable[[], None], library: str) -> None:
    run: Run | None = None
    limit()
    send(answers, ANSWER, b"")  # it has started
    while True:
        kind, content = receive(requests)
        limit()
        try:
            if kind == LOAD:
                run = None  # the memory of the model before
                run = LIBRARIES[library](content)
                answer = b""
            else:
                assert run is not None
                answer = packed(run(unpacked(content)))
        except Exception as error:  # noqa: BLE001 - whatever the library throws is told to whoever asked
            send(answers, ERROR, (str(error) or type(error).__name__).encode(errors="replace"))
        else:
            send(answers, ANSWER, answer)


def session_of(content: bytes) -> Any:
    """onnxruntime as it comes, in one thread: how many there are changes no sum."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _graph(content: bytes) -> Run:
    session = session_of(content)
    names = [output.name for output in session.get_outputs()]

    def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = session.run(None, feed)
        return {name: np.asarray(values) for name, values in zip(names, found, strict=True)}

    return run


def _xgboost(content: bytes) -> Run:
    import xgboost

    how, file = _split(content)
    booster = xgboost.Booster()
    booster.load_model(bytearray(file))
    booster.set_param({"nthread": 1})
    return run_xgboost(booster, how)


def run_xgboost(booster: Any, how: dict[str, Any]) -> Run:
    import xgboost

    def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows = xgboost.DMatrix(
            feed["rows"], missing=np.nan, feature_types=how["types"], enable_categorical=True, nthread=1
        )
        options = {"iteration_range": (0, how["iterations"]), "validate_features": False}
        return {
            "scores": booster.predict(rows, output_margin=True, **options),
            "shown": booster.predict(rows, **options),
        }

    return run


def _lightgbm(content: bytes) -> Run:
    import lightgbm

    _, file = _split(content)
    return run_lightgbm(lightgbm.Booster(model_str=file.decode(), params={"verbosity": -1}))


def run_lightgbm(booster: Any) -> Run:
    def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        scores, shown = (booster.predict(feed["rows"], raw_score=raw, num_threads=1) for raw in (True, False))
        return {"scores": np.asarray(scores), "shown": np.asarray(shown)}

    return run


def _catboost(content: bytes) -> Run:
    import catboost

    how, file = _split(content)
    model = catboost.CatBoost()
    with tempfile.NamedTemporaryFile(suffix=".json") as stored:
        stored.write(file)
        stored.flush()
        model.load_model(stored.name, format="json")
    return run_catboost(model, how)


def run_catboost(model: Any, how: dict[str, Any]) -> Run:
    import catboost

    def run(feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        rows: Any = feed["rows"]
        if how["texts"]:
            rows = rows.astype(object)
            for place in how["texts"]:
                rows[:, place] = feed[f"text {place}"]
        pool = catboost.Pool(rows, cat_features=how["texts"])
        if "which leaves" in feed:
            return {"leaves": np.asarray(model.calc_leaf_indexes(pool, thread_count=1)).astype(np.int64)}
        kinds = {"scores": "RawFormulaVal", "shown": "Probability", "decided": "Class"}
        return {
            name: np.asarray(model.predict(pool, prediction_type=kind, thread_count=1)) for name, kind in kinds.items()
        }

    return run


def _split(content: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, file = content.partition(b"\n")
    return json.loads(head), file


LIBRARIES: dict[str, Callable[[bytes], Run]] = {
    "onnxruntime": _graph,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
}


def _end_with_parent() -> None:
    """A run that nobody waits for any more is not worth finishing."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    path, memory, seconds, library = sys.argv[1:]
    importlib.import_module(library)  # before memory is limited: a library that is cut short says nothing useful
    limit_this_process = runpy.run_path(path)["limit_this_process"]
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        _serve(sys.stdin.buffer, answers, lambda: limit_this_process(int(memory), float(seconds)), library)
    except (EOFError, BrokenPipeError):
        os._exit(0)
