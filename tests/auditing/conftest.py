"""Tests of limits in seconds: these seconds are counted in readings of the clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from counted_time import count_time


@pytest.fixture(scope="module", autouse=True)
def _time_is_counted() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        count_time(patch, tick=0.02)
        yield
