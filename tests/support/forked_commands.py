"""Runs commands of bornfair in forks of a process that has imported everything, and measures what each of them uses.

A fork costs some hundredths of a second instead of the seconds that the imports take. JAX is imported, but starts no
threads before a fork uses it. `broken_rules` compares a run with the contract of the command line.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import json
import os
import pkgutil
import re
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bornfair import limits

MOST_MEMORY = 2 << 30  # resident bytes of a command; its children have the limits of `bornfair.limits`
ADDRESS_SPACE = 8 << 30  # of a command: a defect must not use up the machine
STARTING = 4.0  # processor seconds for imports and compilation, besides the limit of time
WITHOUT_LIMIT = 60.0  # processor seconds of a command that has no limit of time
PATIENCE = 8.0  # wall seconds for each processor second: the machine may be busy
NOTES = ("bornfair: warning: ", "bornfair: note: ")
PROGRESS = re.compile(r" [\d,]+ rows/s")
GRACE = 5.0  # seconds that child processes may take to notice that their parent has ended
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans become children of this process, which then measures them


@dataclass(frozen=True)
class Ended:
    """What came of a command. `status` is negative for a signal, and None if it had to be ended."""

    status: int | None
    out: str
    err: str
    seconds: float
    processor: float
    """Seconds of the processor, of the command and of its children."""
    memory: int
    """Largest resident bytes of the command."""
    children: int
    """The same of its largest child process."""
    orphans: bool
    """A child process was still running when the command had ended."""


@functools.cache
def import_everything() -> None:
    """Import all of bornfair and the libraries that it uses inside functions; adopt the orphans of commands."""
    import bornfair

    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)

    for name in ("pyarrow.parquet", "pyarrow.csv", "pyarrow.dataset", "onnxruntime", "h5py", "rich.table", "optax"):
        importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(bornfair.__path__, "bornfair."):
            if not module.name.startswith(("bornfair.experiments", "bornfair.baselines", "bornfair.__main__")):
                importlib.import_module(module.name)


def most_seconds(words: list[str]) -> float:
    """Processor seconds that a command may use: twice its limit of time, and what reading is given at least."""
    if "--timeout" not in words:
        return WITHOUT_LIMIT
    timeout = float(words[words.index("--timeout") + 1])
    return limits.BEYOND * max(timeout, limits.LEAST_SECONDS) + STARTING


def run_command(words: list[str], folder: Path, *, patience: float = PATIENCE) -> Ended:
    """Run one command in a fork of this process, in this folder."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        told, tell = os.pipe()
        began = time.monotonic()
        child = os.fork()
        if not child:
            os.close(told)
            _run_here(words, folder, out.fileno(), err.fileno(), tell)
        os.close(tell)
        late = _waited(child, began + patience * most_seconds(words))
        _, status, usage = os.wait4(child, 0)
        seconds = time.monotonic() - began
        orphans, usages = _orphans(child)
        own, children = _memory_told(told)
        out.seek(0)
        err.seek(0)
        return Ended(
            None if late else os.waitstatus_to_exitcode(status), _text(out.read()), _text(err.read()), seconds,
            sum(one.ru_utime + one.ru_stime for one in (usage, *usages)), own or usage.ru_maxrss * 1024,
            max([children, *(one.ru_maxrss * 1024 for one in usages)]), orphans,
        )  # fmt: skip


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _memory_told(pipe: int) -> tuple[int, int]:
    with os.fdopen(pipe, "rb") as file:
        words = file.read().split()
    return (int(words[0]), int(words[1])) if len(words) == 2 else (0, 0)


def _run_here(words: list[str], folder: Path, out: int, err: int, tell: int) -> None:
    """Become the command, and end."""
    status = 70
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        os.chdir(folder)
        from bornfair.cli import finished, run

        status = finished(run(words))
        atexit._run_exitfuncs()
        usage = [resource.getrusage(who).ru_maxrss * 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        os.write(tell, b"%d %d" % tuple(usage))
    except BaseException as error:  # noqa: BLE001 - a finding, whatever it is
        os.write(2, f"Traceback: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def _waited(child: int, end: float) -> bool:
    """Wait for the end of a child process; True if it had to be killed."""
    handle = os.pidfd_open(child)
    try:
        if select.select([handle], [], [], max(end - time.monotonic(), 0.0))[0]:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return True
    finally:
        os.close(handle)


def _orphans(group: int) -> tuple[bool, list[resource.struct_rusage]]:
    """Wait for the child processes that a command has left, and kill them after a while.

    True if they had to be killed, and what they have used.
    """
    end, killed, usages = time.monotonic() + GRACE, False, list[resource.struct_rusage]()
    while True:
        try:
            found, _, usage = os.wait4(-group, os.WNOHANG)
        except ChildProcessError:
            return killed, usages
        if found:
            usages.append(usage)
        elif time.monotonic() > end:
            killed = True
            os.killpg(group, signal.SIGKILL)
        else:
            time.sleep(0.002)


def broken_rules(ended: Ended, words: list[str]) -> Iterator[str]:
    """What a run has done against the contract of the command line, and against the limits on its resources."""
    shown = ended.err[-700:]
    if ended.status is None:
        yield f"no answer within {ended.seconds:.0f} s, {ended.processor:.0f} s of the processor"
        return
    if ended.status not in (0, 1, 2, 3):
        yield f"status {ended.status}: {shown}"
    if "Traceback" in ended.err:
        yield f"traceback: {shown}"
    lines = ended.err.splitlines()
    said = [line for line in lines if line.startswith("bornfair: ") and not line.startswith(NOTES)]
    errors = [line for line in said if not PROGRESS.search(line)]
    if ended.status == 2 and (len(errors) != 1 or lines[-1:] != errors or len(errors[0]) > 2500 or ended.out):
        yield f"not one sentence: {errors} {lines[-3:]} {ended.out[:200]}"
    if "--json" in words and ended.status != 2 and (wrong := _no_document(ended.out)):
        yield f"not one JSON document ({wrong}): {ended.out[:200]!r}"
    if unfit := {c for c in ended.out + ended.err if not c.isprintable() and c != "\n"}:
        yield f"control characters: {unfit}"
    if ended.processor > most_seconds(words):
        yield f"{ended.processor:.1f} s of the processor, more than {most_seconds(words):.0f}"
    if ended.memory > MOST_MEMORY:
        yield f"{ended.memory / 2**30:.2f} GiB, more than {MOST_MEMORY / 2**30:.0f}"
    if ended.children > limits.CHILD_BYTES:
        yield f"{ended.children / 2**30:.2f} GiB of a child process, more than {limits.CHILD_BYTES / 2**30:.0f}"
    if ended.orphans:
        yield "a child process was left running"


def _no_document(text: str) -> str:
    try:
        json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return str(error)
    return ""


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
