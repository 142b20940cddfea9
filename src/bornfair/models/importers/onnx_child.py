"""The process in which other people's graphs run: within limits of memory and time, and without bornfair.

It is started by `onnx_worker` as a script, reads one message after the other from standard input and answers on
standard output. It imports numpy and onnxruntime only, so it starts in a fraction of a second; it ends with whoever
started it. A message is 8 bytes of length, a letter, and what it carries.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from typing import Any, BinaryIO

import numpy as np

LOAD, RUN, ANSWER, ERROR = b"L", b"R", b"A", b"E"
TEXT = "text"


def send(stream: BinaryIO, kind: bytes, content: bytes) -> None:
    stream.write(struct.pack("<Q", len(content) + 1) + kind + content)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The next message; EOFError if whoever sends it is gone."""
    (length,) = struct.unpack("<Q", _exactly(stream, 8))
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


def _serve(requests: BinaryIO, answers: BinaryIO, seconds: int) -> None:
    session: Any = None
    while True:
        kind, content = receive(requests)
        _limit_time(seconds)
        try:
            if kind == LOAD:
                session = None  # the memory of the graph before
                session = session_of(content)
                answer = b""
            else:
                found = session.run(None, unpacked(content))
                names = [output.name for output in session.get_outputs()]
                answer = packed({name: np.asarray(values) for name, values in zip(names, found, strict=True)})
        except Exception as error:  # noqa: BLE001 - whatever onnxruntime throws is told to whoever asked
            send(answers, ERROR, (str(error) or type(error).__name__).encode(errors="replace"))
        else:
            send(answers, ANSWER, answer)


def session_of(content: bytes) -> Any:
    """onnxruntime as it comes, in one thread: how many there are changes no sum."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system: the limits of time stay
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _limit_time(seconds: int) -> None:
    """So many more seconds of the processor, for this message."""
    try:
        import resource
    except ImportError:
        return
    spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + seconds + 1, most))


def _end_with_parent() -> None:
    """A run that nobody waits for any more is not worth finishing."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import onnxruntime  # noqa: F401  # before memory is limited: a library that is cut short says nothing useful

    _limit_memory(int(sys.argv[1]))
    try:
        _serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[2]))
    except (EOFError, BrokenPipeError):
        os._exit(0)
