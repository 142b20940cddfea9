"""How is a time measured so that it can be compared? By two clocks, in a process of its own that is pinned to one core.

The measuring process prints its report as JSON, the one that started it reads it back: `Measured` does both.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Self

from pydantic import TypeAdapter

from bornfair.core.clock import Say
from bornfair.core.errors import BornfairError
from bornfair_bench.experiments.runs import silent

Lap = tuple[float, float]
"""Seconds by the wall's clock, and of the processor."""


class Stopwatch:
    """Reads both clocks, the wall's and the processor's, whenever it is called.

    As a callback of `train` it is called after every epoch: its laps are the epochs from the second one on.
    """

    def __init__(self) -> None:
        self.readings: list[Lap] = []

    def __call__(self, _: object = None) -> None:
        self.readings.append((time.perf_counter(), time.process_time()))

    def laps(self) -> list[Lap]:
        return [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(self.readings)]


def timed(work: Callable[[], object]) -> Lap:
    watch = Stopwatch()
    watch()
    work()
    watch()
    return watch.laps()[0]


class Measured:
    """A dataclass that is written as JSON with what follows from it (`derived`), and read back from that."""

    derived: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]  # every subclass is a dataclass
        return {name: _plain(getattr(self, name)) for name in (*names, *self.derived)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        return TypeAdapter(cls).validate_python(document)


class Epochs(Measured):
    """Epochs that were timed one after the other; a dataclass with these fields and more."""

    seconds: tuple[float, ...]
    processor: tuple[float, ...]
    """Processor time of the same epochs, in seconds."""
    first: float | None
    """Seconds of the epoch before them, compilation included; not among `seconds`."""

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def processor_median(self) -> float | None:
        return statistics.median(self.processor) if self.processor else None

    @property
    def fastest(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def compilation(self) -> float | None:
        """What the first epoch took beyond a median one."""
        return None if self.first is None or self.median is None else max(self.first - self.median, 0.0)


def _plain(value: Any) -> Any:
    if isinstance(value, Measured):
        return value.to_json()
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def yes_or_no(met: bool | None) -> str:
    return "–" if met is None else "yes" if met else "NO"


# --- processes ---


def in_own_process(
    module: str, settings: dict[str, Any], say: Say = silent, *, one_thread: bool = True
) -> dict[str, Any]:
    """Run `module` as a program: settings in, progress to `say`, the JSON document it prints last comes back."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}  # the contenders are compared on the same processor
    if one_thread:
        # Read when the libraries are loaded, before the process can pin itself.
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", module, json.dumps(settings | {"one_thread": one_thread})]
    result = None
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8") as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                result = json.loads(line)
            else:
                say(line.rstrip())
        status = process.wait()
        errors.seek(0)
        complaint = errors.read().strip()
    if status or result is None:
        reason = complaint.splitlines()[-1] if complaint else "without saying why"
        raise BornfairError(
            f"the measuring process ended with status {status}: {reason}; to see all of it run "
            f"{' '.join(command[:3])} '{command[3]}'"
        )
    return result


def serve(measurements: dict[str, Callable[..., Measured]], arguments: Sequence[str]) -> None:
    """The other end of `in_own_process`."""
    settings = json.loads(arguments[0])
    if settings.pop("one_thread"):
        pin_to_one_core()
    report = measurements[settings.pop("measure", "epochs")](**settings)
    print(json.dumps(report.to_json()), flush=True)


def pin_to_one_core() -> None:
    """Let this process use one core; before XLA does any work, for then it counts the cores it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the last: interrupts tend to go to the first


def cores() -> set[int]:
    """Those this process may use, where the system tells."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def only_core() -> int | None:
    """The core this process is pinned to, if it is."""
    return next(iter(cores())) if len(cores()) == 1 else None
