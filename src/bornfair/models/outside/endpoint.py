"""What does a service decide? It is sent rows as JSON by HTTP, and answers with a decision for each.

Only the address that was named is asked: no other host, no redirect. So many requests a second at most, each within its
time.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import pandas as pd

from bornfair.checks import number, whole
from bornfair.errors import InputError
from bornfair.models.importers.columns import Columns, Wanted
from bornfair.models.outside.said import Said, from_mapping, said
from bornfair.models.outside.sent import as_records
from bornfair.redacted import masked, secrets_of_url, url_shown

MOST_BYTES = 64 << 20  # of an answer
BUSY = (429, 503)
TRIES = 3  # of a request that a busy service turns away
LONGEST_WAIT = 10.0  # seconds, whatever it asks for
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Endpoint:
    """A service that decides: `{"rows": [{"age": 30, …}, …]}` by POST, answered by `{"decisions": [...]}`,
    `{"probabilities": [...]}` (of the last class, or one for each class), both, or a plain list.

    Args:
        url: an address of http or https.
        seconds: for each request.
        rate: requests per second, at most.
        rows: people in one request, at most.
        headers: to be sent along, such as an authorisation.

    >>> Endpoint("https://scores.example/decide", rate=2).name
    'the endpoint scores.example'
    """

    url: str = field(repr=False)
    seconds: float = 60.0
    rate: float = 10.0
    rows: int = 1_000
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    _last: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    classes, point = None, None  # it does not say

    def __post_init__(self) -> None:
        for name in ("seconds", "rate"):
            number(name, getattr(self, name), 0.0, float("inf"), open_low=True)
        whole("rows", self.rows, 1)
        try:
            found = urllib.parse.urlsplit(self.url)
            host = found.hostname
            _ = found.port
        except ValueError:
            raise InputError(
                f"the address '{url_shown(self.url)}' is not understood; write https://HOST/PATH."
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
    def digest(self) -> str:
        return ""

    @property
    def most(self) -> int:
        return self.rows

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.name, None, numbers=False)

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
            try:
                found = self._sent(content)
                break
            except urllib.error.HTTPError as error:
                with error:
                    if error.code in BUSY and left:
                        time.sleep(_pause(error.headers.get("Retry-After")))
                        continue
                    raise InputError(self._refusal(error)) from None
            except TimeoutError:
                raise InputError(
                    f"{self.name} took more than {self.seconds:g} s for {people:,} people; give it more time "
                    "(--timeout), or make it quicker."
                ) from None
            except urllib.error.URLError as error:
                reason = error.reason
                if isinstance(reason, TimeoutError):
                    raise InputError(f"{self.name} did not answer within {self.seconds:g} s.") from None
                kind = "its certificate is not accepted: " if isinstance(reason, ssl.SSLError) else ""
                raise InputError(f"{self.name} cannot be reached: {kind}{reason}.") from None
            except (HTTPException, OSError) as error:
                raise InputError(f"{self.name} broke off: {error or type(error).__name__}.") from None
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            raise InputError(f"{self.name} answered {found[:60]!r}, which is not JSON.") from None

    def _sent(self, content: bytes) -> bytes:
        until = time.monotonic() + self.seconds
        request = urllib.request.Request(
            self.url, content, {"Content-Type": "application/json", "Accept": "application/json", **self.headers}
        )
        handlers: list[Any] = [_NoRedirect()]
        if urllib.parse.urlsplit(self.url).hostname in LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        with urllib.request.build_opener(*handlers).open(request, timeout=self.seconds) as response:
            found = bytearray()
            while some := response.read1(1 << 16):
                found += some
                if len(found) > MOST_BYTES:
                    raise InputError(f"{self.name} answered more than {MOST_BYTES:,} bytes; it must answer decisions.")
                if time.monotonic() > until:  # the limit of a socket is for each piece
                    raise TimeoutError
        return bytes(found)

    def _refusal(self, error: urllib.error.HTTPError) -> str:
        if 300 <= error.code < 400:
            other = url_shown(error.headers.get("Location", "elsewhere"))
            return (
                f"{self.name} sends us on to '{other}', and only the address that "
                "was named is asked; name that one if it is meant."
            )
        told = error.read(300).decode(errors="replace").strip()
        return f"{self.name} refused with status {error.code}{f': {told}' if told else ''}."

    def _wait_for_turn(self) -> None:
        if self._last:
            time.sleep(max(self._last.pop() + 1 / self.rate - time.monotonic(), 0.0))
        self._last.append(time.monotonic())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _pause(asked: str | None) -> float:
    try:
        return min(max(float(asked or 1.0), 0.0), LONGEST_WAIT)
    except ValueError:
        return 1.0
