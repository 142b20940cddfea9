"""How endpoints behave badly: `BEHAVIOURS` says for each name what is sent for some rows, piece by piece."""

from __future__ import annotations

import gzip
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

Rows = list[dict[str, Any]]
Bytes = Iterator[bytes]
Behaviour = Callable[[Rows, int], Bytes]
"""What is sent for these rows, piece by piece, in so many'th answer; the connection is closed behind it."""

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
PAUSE = 0.1  # seconds between two bytes of a slow answer
END = threading.Event()


# --- what is answered: JSON for a number of rows ---


def _scores(rows: Rows) -> list[float]:
    return [round(0.01 + 0.98 * ((7 * i) % 10) / 10, 3) for i, _ in enumerate(rows)]


def _labels(rows: Rows) -> list[int]:
    return [int(row.get("group", 0)) % 2 for row in rows]


ANSWERS: dict[str, Callable[[Rows, int], Any]] = {
    "good": lambda rows, _: {"decisions": _labels(rows), "probabilities": _scores(rows)},
    "labels": lambda rows, _: _labels(rows),
    "labels of another kind each time": lambda rows, n: [["a", "b"][n % 2]] * len(rows) if n % 3 else _labels(rows),
    "labels that change": lambda rows, n: [n % 2] * len(rows),
    "numbers, then labels": lambda rows, n: _scores(rows) if n < 2 else _labels(rows),
    "one more": lambda rows, _: [*_labels(rows), 1],
    "one less": lambda rows, _: _labels(rows)[1:],
    "none": lambda rows, _: [],
    "one value": lambda rows, _: 1,
    "null": lambda rows, _: None,
    "nulls": lambda rows, _: [None] * len(rows),
    "text": lambda rows, _: "yes",
    "lists without values": lambda rows, _: [[]] * len(rows),
    "three numbers": lambda rows, _: [[0.2, 0.3, 0.5]] * len(rows),
    "a thousand numbers": lambda rows, _: [[0.001] * 1000] * len(rows),
    "ragged": lambda rows, _: [[0.1] * (i % 3) for i, _ in enumerate(rows)],
    "objects": lambda rows, _: [{"decision": 1}] * len(rows),
    "an empty object": lambda rows, _: {},
    "other names": lambda rows, _: {"\x1b[2J": 1, "a" * 10_000: 2},
    "very many names": lambda rows, _: {f"k{i}": i for i in range(100_000)},
    "decisions without values": lambda rows, _: {"decisions": None},
    "decisions and other numbers": lambda rows, _: {"decisions": _labels(rows), "probabilities": [0.5]},
    "numbers by name": lambda rows, _: {"probabilities": {"yes": 0.5}},
    "numbers as text": lambda rows, _: {"probabilities": [str(one) for one in _scores(rows)]},
    "numbers that are no numbers": lambda rows, _: {"probabilities": ["x"] * len(rows)},
    "huge numbers": lambda rows, _: {"probabilities": [10**400] * len(rows)},
    "huge labels": lambda rows, _: [10**400 + i for i, _ in enumerate(rows)],
    "huge columns": lambda rows, _: [[10**400, 1]] * len(rows),
    "labels beyond 64 bits": lambda rows, _: [2**64 + i % 2 for i, _ in enumerate(rows)],
    "labels below 64 bits": lambda rows, _: [-(2**63) - i % 2 for i, _ in enumerate(rows)],
    "mixed labels": lambda rows, _: [[1, "a", True, 0.5][i % 4] for i, _ in enumerate(rows)],
    "true and false": lambda rows, _: [i % 2 == 0 for i, _ in enumerate(rows)],
    "largest floats": lambda rows, _: [1.7e308 * (-1) ** i for i, _ in enumerate(rows)],
    "smallest floats": lambda rows, _: [5e-324 * (i % 2) for i, _ in enumerate(rows)],
    "the same for all": lambda rows, _: [0.5] * len(rows),
    "control characters": lambda rows, _: [["\x1b[2J\x07", "a\nb\0"][i % 2] for i, _ in enumerate(rows)],
    "writing direction": lambda rows, _: [["\u202eyes", "no\u2066"][i % 2] for i, _ in enumerate(rows)],
    "half of a character": lambda rows, _: [["\ud800", "no"][i % 2] for i, _ in enumerate(rows)],
    "long labels": lambda rows, _: ["x" * 20_000] * len(rows),
    "a label each": lambda rows, _: [f"label {i}" for i, _ in enumerate(rows)],
    "empty labels": lambda rows, _: [["", " "][i % 2] for i, _ in enumerate(rows)],
    "formulas and markup": lambda rows, _: [["=1+1", "[red]<script>"][i % 2] for i, _ in enumerate(rows)],
    "what was sent": lambda rows, _: rows,
    "dates": lambda rows, _: ["2026-01-01"] * len(rows),
}  # fmt: skip

TEXTS: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"<html>\x1b[2J",
    "cut JSON": b'{"decisions": [1, 0',
    "NaN": b"[NaN, NaN, NaN]",
    "infinity": b'{"probabilities": [Infinity, -Infinity, 1e999]}',
    "very deep lists": b"[" * 1_000_000,
    "deep lists": b"[" * 500 + b"]" * 500,
    "deep objects": b'{"a":' * 100_000,
    "a number of many digits": b"[" + b"9" * 1_000_000 + b"]",
    "doubled names": b'{"decisions": [1], "decisions": []}',
    "UTF-16": "[1]".encode("utf-16"),
    "no UTF-8": b'["\xff\xfe"]',
    "zero bytes": b"\0" * 1000,
    "very many empty lists": b"[" + b"[]," * 3_000_000 + b"[]]",
    "very many spaces": b" " * 70_000_000 + b"[]",
    "gzip": gzip.compress(b"[1, 0]"),
}


# --- how it is delivered ---


def _sized(content: bytes) -> Bytes:
    yield OK + b"Content-Length: %d\r\n\r\n" % len(content) + content


def _in_chunks(content: bytes) -> Bytes:
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n"
    for start in range(0, len(content), 1 << 20):
        piece = content[start : start + (1 << 20)]
        yield b"%x\r\n" % len(piece) + piece + b"\r\n"
    yield b"0\r\n\r\n"


def _until_closed(content: bytes) -> Bytes:
    yield OK + b"Connection: close\r\n\r\n" + content


def _slowly(content: bytes) -> Bytes:
    for byte in content:
        yield bytes([byte])
        END.wait(PAUSE)


def _for_ever(piece: bytes, pause: float = 0.0) -> Bytes:
    while not END.wait(pause):
        yield piece


def _silence() -> Bytes:
    END.wait(300)
    yield b""


def _then(*parts: bytes | Bytes) -> Bytes:
    for part in parts:
        yield from [part] if isinstance(part, bytes) else part


BODY = b'{"decisions": [1, 0]}'
DELIVERED: dict[str, Callable[[], Bytes]] = {
    "silence": _silence,
    "a slow status": lambda: _slowly(OK * 20),
    "an endless status": lambda: _for_ever(b"x"),
    "a slow endless status": lambda: _for_ever(b"x", PAUSE),
    "silence in the headers": lambda: _then(OK + b"X-Half: ", _silence()),
    "a slow header": lambda: _then(OK + b"X-Slow: ", _for_ever(b"x", PAUSE)),
    "slow headers": lambda: _then(OK, _for_ever(b"X-Many: 1\r\n", PAUSE)),
    "an endless header": lambda: _then(OK + b"X-Long: ", _for_ever(b"x" * 10_000)),
    "endless headers": lambda: _then(OK, _for_ever(b"X-Many: 1\r\n" * 100)),
    "endless cookies": lambda: _then(OK, _for_ever(b"Set-Cookie: a=" + b"x" * 1000 + b"\r\n")),
    "a header of 10 MB": lambda: _then(OK + b"X-Long: " + b"x" * 10_000_000 + b"\r\n\r\n[]"),
    "odd headers": lambda: _then(OK + b"\xff\xfe: \x1b[2J\r\n: \r\n folded\r\nno colon\r\nContent-Length: 2\r\n\r\n[]"),
    "silence in the body": lambda: _then(OK + b"Content-Length: 100\r\n\r\n[", _silence()),
    "a slow body": lambda: _then(OK + b"Content-Length: 100000\r\n\r\n[", _for_ever(b" ", PAUSE)),
    "an endless body": lambda: _then(OK + b"\r\n", _for_ever(b" " * 100_000)),
    "a slow endless body": lambda: _then(OK + b"\r\n", _for_ever(b" ", PAUSE)),
    "endless chunks": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n", _for_ever(b"5\r\n     \r\n" * 1000)),
    "slow chunks": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n", _for_ever(b"1\r\n \r\n", PAUSE)),
    "endless trailers": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", _for_ever(b"X: y\r\n" * 1000)),
    "slow trailers": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", _for_ever(b"X: y\r\n", PAUSE)),
    "a slow size of a chunk": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n", _for_ever(b"0", PAUSE)),
    "an endless extension of a chunk": lambda: _then(OK + b"Transfer-Encoding: chunked\r\n\r\n2;",
    _for_ever(b"x" * 1000)),
    "continue for ever": lambda: _for_ever(b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "continue for ever, slowly": lambda: _for_ever(b"HTTP/1.1 100 Continue\r\n\r\n", PAUSE),
    "a slow error": lambda: _then(b"HTTP/1.1 500 Oh\r\nContent-Length: 10000\r\n\r\n", _for_ever(b"x", PAUSE)),
    "an endless error": lambda: _then(b"HTTP/1.1 500 Oh\r\n\r\n", _for_ever(b"\x1b[2J" * 1000)),
}  # fmt: skip
LASTING = ("slow", "silence", "continue", "trailers")
LONG = [f"delivery: {name}" for name in DELIVERED if any(word in name for word in LASTING)]
"""They last until the limit of time."""


# --- bytes that are no proper answer ---


def _chunked(text: bytes) -> bytes:
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + text


def _of_length(text: bytes, content: bytes = BODY) -> bytes:
    return OK + b"Content-Length: " + text + b"\r\n\r\n" + content


BROKEN: dict[str, bytes] = {
    "closed at once": b"",
    "closed in the status": b"HTTP/1.",
    "closed in the headers": OK + b"X-Half: ",
    "closed after the headers": OK + b"\r\n",
    "too short": _of_length(b"1000"),
    "too long": _of_length(b"3"),
    "a negative length": _of_length(b"-1"),
    "a huge length": _of_length(b"9" * 30),
    "a length of very many digits": _of_length(b"9" * 6_000),
    "a length in words": _of_length(b"ten"),
    "two lengths": OK + b"Content-Length: 3\r\nContent-Length: 21\r\n\r\n" + BODY,
    "a length and chunks": _of_length(b"3\r\nTransfer-Encoding: chunked", b"15\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk of no size": _chunked(b"zz\r\n[]\r\n"),
    "a chunk of negative size": _chunked(b"-5\r\n[]\r\n0\r\n\r\n"),
    "a chunk of huge size": _chunked(b"ffffffffffffffffff\r\n[]"),
    "a chunk of very many digits": _chunked(b"f" * 70_000 + b"\r\n[]"),
    "a chunk without an end": _chunked(b"15\r\n" + BODY),
    "an unknown transfer": OK + b"Transfer-Encoding: gzip\r\n\r\n" + gzip.compress(BODY),
    "packed": OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(BODY),
    "a bomb": OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b" " * 50_000_000),
    "HTTP/0.9": BODY,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9": b"HTTP/9.9 200 OK\r\n\r\n" + BODY,
    "line ends alone": b"HTTP/1.1 200 OK\nContent-Length: 21\n\n" + BODY,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x7f" * 500,
    "an alert of TLS": b"\x15\x03\x01\x00\x02\x02\x28",
    "SSH": b"SSH-2.0-OpenSSH_9.0\r\n",
    "control characters": b"\x1b[2J\x1b[31mVERIFIED\r\n" * 5,
    "zero bytes": b"\0" * 100_000,
    "a status of no number": b"HTTP/1.1 OK 200\r\n\r\n",
    "a status below": b"HTTP/1.1 99 Low\r\n\r\n",
    "a status above": b"HTTP/1.1 1000 High\r\n\r\n",
    "a status of many digits": b"HTTP/1.1 " + b"2" * 5_000 + b" OK\r\n\r\n",
    "a status without a reason": b"HTTP/1.1 200\r\nContent-Length: 21\r\n\r\n" + BODY,
    "a reason of control characters": b"HTTP/1.1 500 \x1b[2J\x07\r\n\r\n\x1b[2J",
    "cookies": OK + b"Set-Cookie: a=b\r\n" * 90 + b"Content-Length: 21\r\n\r\n" + BODY,
    "three times continue": b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + _of_length(b"21"),
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + _of_length(b"21"),
}  # fmt: skip

STATUSES = (
    102,
    201,
    202,
    204,
    205,
    206,
    299,
    300,
    304,
    400,
    401,
    403,
    404,
    405,
    407,
    408,
    413,
    418,
    451,
    500,
    502,
    504,
    599,
    999,
)
PLACES = (
    "/",
    "http://203.0.113.1/x",
    "http://[::1",
    "file:///etc/passwd",
    "//x",
    "\x1b[2J",
    "javascript:1",
    "http://a:b@c/?key=k3y",
    "x" * 9_000,
    "",
)
PAUSES = (
    "0",
    "0.5",
    "nan",
    "inf",
    "-5",
    "-inf",
    "1e999",
    "1" * 5_000,
    "soon",
    "Wed, 21 Oct 2026 07:28:00 GMT",
    "1, 2",
    "",
)


def _answered(answer: Callable[[Rows, int], Any], deliver: Callable[[bytes], Bytes]) -> Behaviour:
    return lambda rows, n: deliver(json.dumps(answer(rows, n)).encode())


def _status(status: int, *headers: str, body: bytes = b"no") -> bytes:
    lines = [f"HTTP/1.1 {status} X", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def _busy(status: int, pause: str, times: int) -> Behaviour:
    good = _answered(ANSWERS["good"], _sized)
    return lambda rows, n: _then(_status(status, f"Retry-After: {pause}")) if n < times else good(rows, n)


def _behaviours() -> dict[str, Behaviour]:
    found = dict[str, Behaviour]()
    ways = {"": _sized, " in chunks": _in_chunks, " until the end": _until_closed}
    for (name, answer), (way, deliver) in itertools.product(ANSWERS.items(), ways.items()):
        found[f"answer: {name}{way}"] = _answered(answer, deliver)
    for (name, text), (way, deliver) in itertools.product(TEXTS.items(), ways.items()):
        found[f"content: {name}{way}"] = lambda _, __, t=text, d=deliver: d(t)  # type: ignore[misc]
    for name, delivery in DELIVERED.items():
        found[f"delivery: {name}"] = lambda _, __, d=delivery: d()  # type: ignore[misc]
    for name, text in BROKEN.items():
        found[f"transport: {name}"] = lambda _, __, t=text: _then(t)  # type: ignore[misc]
    for name, text in BROKEN.items():  # after a good trial
        good = _answered(ANSWERS["good"], _sized)
        found[f"later: {name}"] = lambda rows, n, t=text, g=good: _then(t) if n > 2 else g(rows, n)  # type: ignore[misc]
    for status in STATUSES:
        found[f"status {status}"] = lambda _, __, s=status: _then(_status(s, body=b"\x1b[2J" * 1000))  # type: ignore[misc]
    for status, (i, place) in itertools.product((301, 302, 307, 308), enumerate(PLACES)):
        found[f"redirect {status} {i}"] = lambda _, __, s=status, p=place: _then(_status(s, f"Location: {p}"))  # type: ignore[misc]
    for status, (i, pause), times in itertools.product((429, 503), enumerate(PAUSES), (1, 10**9)):
        found[f"busy {status} {i} {'once' if times == 1 else 'for ever'}"] = _busy(status, pause, times)
    return found


BEHAVIOURS = _behaviours()
NAMES = tuple(BEHAVIOURS)
