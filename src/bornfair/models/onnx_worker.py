"""Runs foreign models in a process of their own, within limits; the process is kept for the next model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any

import numpy as np

from bornfair.core import limits
from bornfair.core.limits import CHILD_BYTES, Deadline
from bornfair.models import onnx_child
from bornfair.models.onnx_child import ANSWER, LOAD, RUN, TooLong, packed, receive, send, unpacked


class CannotRun(Exception):
    """Why a graph gave no answer, as the end of a sentence."""


class ForeignGraph:
    """A graph that is run in a process of its own, which all such graphs share one after the other.

    `library` reads and runs it: onnxruntime, or one that `onnx_child` knows.
    """

    def __init__(self, content: bytes, library: str = "onnxruntime") -> None:
        self._content, self._library = content, library

    def run(self, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All its outputs by name. Raises CannotRun."""
        with _lock:
            worker = _running.get(self._library)
            if worker is None or not worker.stop.alive:
                worker = _running[self._library] = _Worker(self._library)
            if worker.graph is not self._content:
                worker.graph = None
                worker.ask(LOAD, self._content)
                worker.graph = self._content
            return unpacked(worker.ask(RUN, packed(feed)))


class _Worker:
    def __init__(self, library: str) -> None:
        self.graph: bytes | None = None
        self.process: Any = subprocess.Popen(
            # -P: this script's own folder must not be searched for modules
            [
                sys.executable, "-P", onnx_child.__file__,
                limits.__file__, str(CHILD_BYTES), str(limits.CHILD_SECONDS), library,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        self.stop = weakref.finalize(self, _stop, self.process)
        # The library's own start is not limited by the question: it takes as long for every model.
        self._exchange(b"", b"", limits.CHILD_SECONDS)

    def ask(self, kind: bytes, content: bytes) -> bytes:
        answered, found = self._exchange(kind, content, Deadline.within(limits.CHILD_SECONDS).seconds)
        if answered != ANSWER:
            text = found.decode(errors="replace")
            if any(word in text for word in ("bad_alloc", "bad allocation", "Failed to allocate")):
                raise CannotRun(f"it needs more than {CHILD_BYTES / 2**30:g} GB")
            raise CannotRun(next(iter(text.splitlines()), "")[:300].rstrip("."))
        return found

    def _exchange(self, kind: bytes, content: bytes, seconds: float) -> tuple[bytes, bytes]:
        """Send a message (unless it is empty) and wait for the next answer."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            if kind:
                send(self.process.stdin, kind, content)
            return receive(self.process.stdout, most=limits.GRAPH_ANSWER_BYTES)
        except TooLong as error:
            self.stop()
            raise CannotRun(f"its outputs take {error} bytes, more than {limits.GRAPH_ANSWER_BYTES:,}") from None
        except (EOFError, OSError):
            self.stop()
            if late.is_set() or self.process.returncode == -getattr(signal, "SIGXCPU", 0):
                limit = f"{seconds:g} s" if seconds >= limits.CHILD_SECONDS else "the time that is left (--timeout)"
                raise CannotRun(f"it takes more than {limit}") from None
            raise CannotRun(f"it crashed, or needs more than {CHILD_BYTES / 2**30:g} GB") from None
        except BaseException:  # an interrupt: what is under way has no reader any more
            self.stop()
            raise
        finally:
            timer.cancel()


def _stop(process: Any) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        try:
            pipe.close()
        except OSError:  # what was still to be sent has no reader
            continue


_lock = threading.Lock()
_running: dict[str, _Worker] = {}
"""By library."""
_inherited: list[_Worker] = []
"""Of the process that forked this one. They are kept, because closing a pipe would send what its buffer holds."""


def _forget_parents_workers() -> None:
    """A forked process starts its own workers; it neither waits for the lock of its parent nor ends its workers."""
    global _lock
    _lock = threading.Lock()
    for worker in _running.values():
        worker.stop.detach()
    _inherited.extend(_running.values())
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents_workers)
