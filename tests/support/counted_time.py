"""Time that is counted: each reading of a clock adds the same number of seconds, however busy the machine is."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bornfair.core import clock
from bornfair.importers import opaque as opening
from bornfair.models.opaque import model as opaque


class CountedTime:
    """Stands in for the module `time` in the modules that measure how long work takes."""

    def __init__(self, tick: float) -> None:
        self.tick, self.readings = tick, 0

    def monotonic(self) -> float:
        self.readings += 1
        return self.readings * self.tick

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def count_time(monkeypatch: pytest.MonkeyPatch, tick: float) -> CountedTime:
    """Let every clock advance by `tick` seconds at each reading."""
    found = CountedTime(tick)
    for module in (clock, opaque, opening):
        monkeypatch.setattr(module, "time", found)
    return found
