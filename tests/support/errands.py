"""Work for workers, some of it fatal to them."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from bornfair.parallel import task


def slowly(number: int) -> int:
    """Its square, a moment later for small ones: the last may be done first."""
    time.sleep(0.02 * max(3 - number, 0))
    return number**2


def failing(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def home(_: int) -> str:
    """Who does it."""
    return task.HOME


@dataclass(frozen=True)
class Fatal:
    """Squares numbers; whoever takes the number 2 dies of it, so many times in all. `at_home` nobody does."""

    scars: Path
    times: int
    at_home: str

    def __call__(self, number: int) -> int:
        if number == 2 and self.at_home != task.HOME and len(list(self.scars.iterdir())) < self.times:
            (self.scars / f"{time.monotonic_ns()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number**2
