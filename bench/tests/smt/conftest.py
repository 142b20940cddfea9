"""Tests of limits in seconds: these seconds are counted in readings of the clock."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _time_is_counted(counted_time: object) -> None:
    pass
