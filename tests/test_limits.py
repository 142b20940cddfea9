"""One deadline for all waits of a question, and limits that hold in a child process."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bornfair.core import limits
from bornfair.core.clock import Clock
from bornfair.core.limits import Deadline, ends_in_time, time_left, until


class Time:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(limits, "monotonic", lambda: self.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def test_the_waits_of_a_question_share_its_deadline(time: Time) -> None:
    assert time_left() == math.inf and Deadline.within(60.0).seconds == 60.0
    with until(Clock(20.0, now=lambda: time.now)):
        time.now += 15.0
        assert Deadline.within(60.0).seconds == 5.0 and Deadline.within(2.0).seconds == 2.0
        time.now += 15.0
        assert time_left() == 0.0 and Deadline.within(60.0).seconds == limits.LEAST_WAIT
    assert time_left() == math.inf


def test_an_inner_limit_does_not_outlive_the_outer_one(time: Time) -> None:
    with until(Deadline(8.0)):
        with until(Deadline(60.0)):
            assert time_left() == 8.0
        with until(Deadline(6.0)):
            assert time_left() == 6.0
        assert time_left() == 8.0
    with until(Deadline(0.1)):
        assert time_left() == limits.LEAST_SECONDS


def test_a_function_ends_by_twice_its_time_limit(time: Time) -> None:
    @ends_in_time
    def question(*, timeout: float | Clock = 60.0) -> float:
        return time_left()

    assert question() == 120.0
    assert question(timeout=10.0) == 20.0
    clock = Clock(10.0, now=lambda: time.now)
    time.now += 4.0
    assert question(timeout=clock) == 12.0
    assert question(timeout=math.nan) == question(timeout=-1.0) == math.inf  # the function itself refuses these


LIMITED = """
import json, runpy, sys
runpy.run_path(sys.argv[1])["limit_this_process"](int(sys.argv[2]), 60.0)
try:
    bytearray(int(sys.argv[3]))
except MemoryError:
    sys.exit(7)
import resource
print(json.dumps(resource.getrlimit(resource.RLIMIT_CPU)[0]))
"""


@pytest.mark.parametrize(("wanted", "status"), [(1 << 20, 0), (1 << 29, 7)])
def test_a_child_gets_no_more_memory_than_its_limit(wanted: int, status: int) -> None:
    command = [sys.executable, "-I", "-c", LIMITED, limits.__file__, str(1 << 28), str(wanted)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == status, done.stderr
    if status == 0:
        assert 60 < json.loads(done.stdout) < 70


def test_the_limits_need_the_standard_library_only() -> None:
    command = [sys.executable, "-I", "-S", str(Path(limits.__file__))]
    assert subprocess.run(command, check=False).returncode == 0
