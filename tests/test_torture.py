"""Commands that are killed, raced and starved leave whole files, nothing that others can read, and no process."""

import os
from pathlib import Path

import pytest

import torture

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (hasattr(os, "fork") and Path("/proc/self/stat").exists()), reason="the test forks, and reads /proc"
    ),
]
ROUNDS = 8
BROKEN = {
    "nothing is cleared away": ("export", 5, "from bornfair.core import files; files._clear = lambda target: None"),
    "nothing is locked": (
        "predict in batches",
        3,
        "from bornfair.core.growing import Lock; Lock._lock = lambda *_: None",
    ),
}


def test_disturbed_commands_leave_nothing_behind_and_go_on_to_the_same_bytes():
    found = torture.run(ROUNDS, 1, torture.CHEAP)
    assert found.wrong == [] and found.cases == ROUNDS


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(what):
    command, seed, prelude = BROKEN[what]
    assert torture.run(5, seed, (command,), prelude).wrong
