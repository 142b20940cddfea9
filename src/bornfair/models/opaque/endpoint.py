"""Services that decide: they are sent rows as JSON by HTTP and answer with a decision for each row.

Only the address that was named is asked: no other host, no redirect. So many requests a second at most, each within its
time.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

import pandas as pd

from bornfair.core import limits
from bornfair.core.checks import number, whole
from bornfair.core.errors import InputError
from bornfair.core.limits import Deadline
from bornfair.core.redacted import masked, secrets_of_url, url_shown
from bornfair.models.columns import Columns
from bornfair.models.opaque.said import Outside, Said, as_sent, from_mapping, said

BUSY = (429, 503)
TRIES = 3  # of a request that a busy service turns away
ERROR_BYTES = 300  # of an answer that refuses
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class _Answered:
    """An answer: its status if it is an error, headers and content."""

    status: int | None
    headers: Message
    content: bytes


@dataclass(frozen=True)
class Endpoint(Outside):
    """A service that decides: `{"rows": [{"age": 30, …}, …]}` by POST, answered by `{"decisions": [...]}`,
    `{"probabilities": [...]}` (of the last class, or one for each class), both, or a plain list.

    Args:
        url: an address of http or https.
        seconds: for each request, from the connection to the last byte of the answer.
        rate: requests per second, at most.
        rows: people in one request, at most.
        headers: to be sent along, such as an authorisation.

    >>> Endpoint("https://scores.example/decide", rate=2).name
    'the endpoint scores.example'
    """

    url: str = field(repr=False)
    seconds: float = limits.REQUEST_SECONDS
    rate: float = 10.0
    rows: int = 1_000
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _last: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("seconds", "rate"):
            number(name, getattr(self, name), 0.0, float("inf"), open_low=True)
        whole("rows", self.rows, 1)
        try:
            found = urllib.parse.urlsplit(self.url)
            host = found.hostname
            _ = found.port, (host or "").encode("idna"), (found.path + found.query).encode("ascii")
        except ValueError:  # among them UnicodeError
            raise InputError(
                f"the address '{url_shown(self.url)}' is not understood; write https://HOST/PATH, with letters beyond "
                "ASCII as %XX."
            ) from None
        if found.scheme not in ("http", "https") or not host:
            raise InputError(
                f"the address '{url_shown(self.url)}' is not one of http or https; write https://HOST/PATH."
            )
        if found.username is not None or found.password is not None:
            raise InputError("the address holds a user name or a password, which would stand in reports; send headers.")

    @property
    def name(self) -> str:
        return f"the endpoint {urllib.parse.urlsplit(self.url).netloc}"

    @property
    def how(self) -> str:
        return (
            f"the endpoint {url_shown(self.url)}, which is sent rows as JSON; what answers there can change at any time"
        )

    @property
    def most(self) -> int:
        return self.rows

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        content = json.dumps({"rows": as_records(table, columns)}).encode()
        try:
            answer = self._answer(content, len(table))
        except InputError as error:  # a service may repeat what it was sent
            raise InputError(masked(str(error), [*secrets_of_url(self.url), *self.headers.values()])) from None
        if isinstance(answer, dict):
            return from_mapping(answer, len(table), self.name)
        if not isinstance(answer, list):
            raise InputError(
                f"{self.name} answered a {type(answer).__name__}; it must be a list, or an object with one."
            )
        return said(answer, len(table), self.name)

    def _answer(self, content: bytes, people: int) -> Any:
        for left in reversed(range(TRIES)):
            self._wait_for_turn()
            deadline = Deadline.within(self.seconds)
            try:
                found = self._sent(content, deadline)
            except TimeoutError:
                raise InputError(
                    f"{self.name} took more than {deadline.seconds:.3g} s for {people:,} people; give it more time "
                    "(--timeout), or make it quicker."
                ) from None
            except urllib.error.URLError as error:
                reason = error.reason
                if isinstance(reason, TimeoutError):
                    raise InputError(f"{self.name} did not answer within {deadline.seconds:.3g} s.") from None
                kind = "its certificate is not accepted: " if isinstance(reason, ssl.SSLError) else ""
                raise InputError(f"{self.name} cannot be reached: {kind}{reason}.") from None
            except (HTTPException, OSError) as error:
                raise InputError(f"{self.name} broke off: {error or type(error).__name__}.") from None
            if found.status not in BUSY or not left:
                break
            time.sleep(min(_pause(found.headers.get("Retry-After")), limits.time_left()))
        if found.status is not None:
            raise InputError(self._refusal(found))
        if len(found.content) > limits.ANSWER_BYTES:
            raise InputError(f"{self.name} answered more than {limits.ANSWER_BYTES:,} bytes; it must answer decisions.")
        try:
            return json.loads(found.content)
        except (ValueError, RecursionError):
            raise InputError(f"{self.name} answered {bytes(found.content[:60])!r}, which is not JSON.") from None

    def _sent(self, content: bytes, deadline: Deadline) -> _Answered:
        """The answer to one request. TimeoutError after the deadline, whatever the service does in between."""
        request = urllib.request.Request(
            self.url, content, {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        )
        sockets: list[socket.socket] = []
        handlers: list[Any] = [_NoRedirect(), *_remembering(sockets)]
        if urllib.parse.urlsplit(self.url).hostname in LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        opener = urllib.request.build_opener(*handlers)
        outcome: list[_Answered | Exception] = []

        def exchange() -> None:
            try:
                outcome.append(_answered(opener, request, deadline))
            except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
                outcome.append(error)

        # A timeout of a socket limits each piece that arrives, and none limits the search for a host: so the whole
        # exchange is waited for, and what it has opened is shut down.
        thread = threading.Thread(target=exchange, daemon=True)
        thread.start()
        in_time = False
        try:
            thread.join(deadline.left)
            in_time = bool(outcome)  # what is read after the shutdown is cut off
        finally:
            if not in_time:
                for one in sockets:
                    with contextlib.suppress(OSError):
                        socket.socket.shutdown(one, socket.SHUT_RDWR)
        if not in_time:
            raise TimeoutError
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def _refusal(self, found: _Answered) -> str:
        assert found.status is not None
        if 300 <= found.status < 400:
            other = url_shown(found.headers.get("Location", "elsewhere"))
            return (
                f"{self.name} redirects to '{other}', and only the address that "
                "was named is asked; name that one if it is meant."
            )
        told = found.content[:ERROR_BYTES].decode(errors="replace").strip()
        return f"{self.name} refused with status {found.status}{f': {told}' if told else ''}."

    def _wait_for_turn(self) -> None:
        wait = max(self._last.pop() + 1 / self.rate - time.monotonic(), 0.0) if self._last else 0.0
        if wait > limits.time_left():
            raise InputError(
                f"{self.name} may be asked again in {wait:,.0f} s, after the time limit; allow more "
                f"requests per second than {self.rate:g} (--rate), or give more time (--timeout)."
            )
        if wait:
            time.sleep(wait)
        self._last.append(time.monotonic())


def as_records(table: pd.DataFrame, columns: Columns) -> list[dict[Hashable, Any]]:
    """An object for each row; gaps are null."""
    sent = as_sent(table, columns).astype(object)
    return sent.where(sent.notna(), None).to_dict("records")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def http_error_302(self, *_: Any, **__: Any) -> None:
        return None  # an error like any other; the address that is named may be none

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _remembering(sockets: list[socket.socket]) -> list[Any]:
    """Handlers for http and https that note every socket that they open."""

    class Noted:
        def connect(self: Any) -> None:
            create = self._create_connection

            def created(*given: Any, **named: Any) -> Any:
                sockets.append(create(*given, **named))
                return sockets[-1]

            self._create_connection = created
            super().connect()  # type: ignore[misc]
            sockets.append(self.sock)  # https wraps the socket in another one

    class Plain(Noted, HTTPConnection): ...

    class Secure(Noted, HTTPSConnection): ...

    class PlainHandler(urllib.request.HTTPHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(Plain, request)

    class SecureHandler(urllib.request.HTTPSHandler):
        def https_open(self, request: Any) -> Any:
            return self.do_open(Secure, request)

    return [PlainHandler(), SecureHandler()]


def _answered(opener: Any, request: Any, deadline: Deadline) -> _Answered:
    most = limits.ANSWER_BYTES
    try:
        with opener.open(request, timeout=deadline.seconds) as response:
            found = bytearray()
            while len(found) <= most and (some := response.read1(1 << 16)):
                found += some
            return _Answered(None, response.headers, bytes(found))
    except urllib.error.HTTPError as error:
        with error, contextlib.suppress(OSError, HTTPException):
            return _Answered(error.code, error.headers, error.read(ERROR_BYTES))
        return _Answered(error.code, error.headers, b"")


def _pause(asked: str | None) -> float:
    """Seconds to wait before the next try, as a busy service asks for them; 1 if it does so in no number.

    >>> [_pause(text) for text in ("0.5", "3600", "nan", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", None)]
    [0.5, 10.0, 1.0, 1.0, 1.0, 1.0]
    """
    try:
        seconds = float(asked or 1.0)
    except ValueError:
        return 1.0
    return min(seconds, limits.PAUSE_SECONDS) if seconds >= 0 else 1.0
