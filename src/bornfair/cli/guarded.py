"""Commands that use Ray or several hosts run in a child process: their libraries may end a process at any moment.

The child reports its status through a pipe. Without a report there is no result, whatever the status of the child is.
Only results go to stdout; text that libraries write to the descriptors 1 and 2 is dropped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

ENDING = {0: 30.0}  # seconds for the end of the interpreter after a result; libraries say goodbye to their peers
ENDING_AFTER_ERROR = 1.0
LOOKS = 0.5  # seconds between two looks whether the parent process is alive
NO_RESULT = (
    "a library ended the process before there was a result; a cluster or another process of --hosts has probably "
    "stopped. Start it again, then repeat the command."
)
CHILD = "from bornfair.cli import main_of_child; main_of_child()"


def needs_guard(arguments: list[str]) -> bool:
    return any(one.split("=")[0] in ("--cluster", "--hosts") for one in arguments)


def run_guarded(arguments: list[str]) -> int | None:
    """The status that the command reports; None if its process ended without one."""
    told, tell = os.pipe()
    out, err = os.dup(1), os.dup(2)
    passed = (tell, out, err)
    environment = os.environ | {"BORNFAIR_GUARD": ",".join(map(str, passed))}
    with contextlib.ExitStack() as stack:
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *arguments], env=environment, pass_fds=passed,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for descriptor in passed:
            os.close(descriptor)
        stack.callback(os.close, told)
        stack.callback(process.kill)
        stack.enter_context(_signals_left_to(process))
        report = os.read(told, 16)  # empty when the child has ended
        status = int(report) if report else None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING.get(-1 if status is None else status, ENDING_AFTER_ERROR))
    process.wait()
    return status


@contextlib.contextmanager
def _signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The terminal sends Ctrl-C to the child too; SIGTERM, which is sent to this process alone, is passed on."""
    before = (
        signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number)),
    )
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


def answer_as_child(command: Callable[[], int]) -> None:
    """Run the command, report its status, and end."""
    report, out, err = map(int, os.environ.pop("BORNFAIR_GUARD").split(","))
    sys.stdout = os.fdopen(out, "w", encoding=sys.stdout.encoding, errors="backslashreplace")
    sys.stderr = os.fdopen(err, "w", encoding=sys.stderr.encoding, errors="backslashreplace")
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    status = command()
    os.write(report, str(status).encode())
    sys.exit(status)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOKS)
    os._exit(1)
