"""A headless Chromium for tests, driven by the DevTools protocol over a pipe; the standard library is enough."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-extensions", "--disable-default-apps", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe",
)  # fmt: skip

# Chromium reads commands from descriptor 3 and answers on 4; copies first, for these numbers may be in use.
LAUNCH = """
import os, sys
reading, writing = map(os.dup, map(int, sys.argv[1:3]))
os.dup2(reading, 3), os.dup2(writing, 4)
os.set_inheritable(3, True), os.set_inheritable(4, True)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str | None:
    """Where Chromium is, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page in one browser. `events` holds all that Chromium reported since the last `open`."""

    def __init__(self, process: subprocess.Popen[bytes], to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._pending, self._number = b"", 0
        self.events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for area in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{area}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command to the page."""
        return self._ask(method, parameters, self._session)

    def open(self, path: Path, *, width: int = 1200, scheme: str = "light", media: str = "") -> None:
        self.look(width=width, scheme=scheme, media=media)
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self._wait_for("Page.loadEventFired")

    def look(self, *, width: int, scheme: str = "light", media: str = "", height: int = 900) -> None:
        """How wide, in which colours; `media` may pretend to be paper ("print")."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def value(self, expression: str) -> Any:
        """What an expression is worth on the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, of scripts and of loading."""
        self.value("1")  # everything reported before this answer has arrived
        found = []
        for event in self.events:
            given = event.get("params", {})
            if event["method"] == "Log.entryAdded":
                found.append(given["entry"]["text"])
            if event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Network.loadingFailed"):
                found.append(json.dumps(given))
        return found

    def requests(self) -> list[str]:
        """Every address the page asked for."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def screenshot(self, path: Path) -> Path:
        picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(picture["data"]))
        return path

    def pdf(self) -> bytes:
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)["data"])

    def _ask(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _wait_for(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self.events.append(self._next())

    def _next(self, patience: float = 60.0) -> dict[str, Any]:
        """The next message: JSON up to a zero byte."""
        until = time.monotonic() + patience
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._back], [], [], max(until - time.monotonic(), 0))
            received = os.read(self._back, 1 << 20) if ready else b""
            if not received:
                raise AssertionError(f"the browser went silent (status {self._process.poll()})")
            self._pending += received
        message, _, self._pending = self._pending.partition(b"\0")
        return json.loads(message)


@contextlib.contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """Start a browser with a profile of its own, and leave nothing of it behind."""
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-IS", "-c", LAUNCH, str(to_read), str(back_write), program, *FLAGS,
             f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(to_read, back_write),
            start_new_session=True,
        )  # fmt: skip
        os.close(to_read)
        os.close(back_write)
        try:
            yield Browser(process, to_write, back_read)
        finally:
            os.close(to_write)
            os.close(back_read)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
