"""Two JAX processes here: fair after every epoch, as accurate as one, killed and resumed to the same bytes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import host_process
from bornfair.training import streaming
from samples import make_people

pytestmark = pytest.mark.slow

ROWS = 800


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started(folder: Path, *more: str) -> list[subprocess.Popen]:
    port = free_port()
    quick = "--xla_backend_optimization_level=0"  # little is computed, and compiling takes most of the time
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "XLA_FLAGS": quick}
    return [
        subprocess.Popen(
            [sys.executable, host_process.__file__, f"127.0.0.1:{port},2,{number}", str(folder / "people"),
             str(folder), *more],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(2)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What two processes printed that were killed in the middle and started again, and what one process gives."""
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "people").mkdir()
    people = make_people(ROWS, seed=4)
    for number in range(3):  # three files for two processes: their shares differ
        people.iloc[number::3].to_parquet(folder / "people" / f"{number}.parquet")
    first = started(folder, "linger")
    deadline = time.monotonic() + 120
    while not (folder / "saved").exists() and time.monotonic() < deadline:
        assert all(process.poll() is None for process in first), first[0].communicate()[1]
        time.sleep(0.05)
    for process in first:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert (folder / "saved").exists()
    second = started(folder)
    told = [process.communicate(timeout=240) for process in second]
    assert [process.returncode for process in second] == [0, 0], told[0][1][-2000:] + told[1][1][-2000:]
    printed = [json.loads(out.splitlines()[-1]) for out, _ in told]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("WINDOW", "BLOCK", "SAVED_EVERY"):
            patch.setattr(streaming, name, getattr(streaming, name))
        one = host_process.alone(str(folder / "people"), folder)
    return printed, one


def test_killed_and_resumed_two_processes_end_with_the_bytes_of_a_run_that_nothing_interrupts(runs):
    printed, _ = runs
    for result in printed:
        assert result["together"]["resumed"] and not result["again"]["resumed"]
        assert result["together"]["network"] == result["again"]["network"] == printed[0]["again"]["network"]
        assert result["together"]["losses"] == result["again"]["losses"]


def test_every_sensitive_weight_is_zero_after_every_epoch_on_every_host(runs):
    for result in runs[0]:
        assert result["again"]["sensitive"] == [0.0] * host_process.EPOCHS
        assert result["again"]["verdict"] == "structural"


def test_every_partial_gradient_of_the_sensitive_weights_is_exactly_zero(runs):
    for result in runs[0]:
        first, learnt, second, others = result["gradient"]
        assert first == second == 0.0 and learnt > 0 and others > 0 and learnt != others


def test_two_processes_see_the_table_that_one_sees_and_learn_as_well(runs):
    printed, one = runs
    both = printed[0]["again"]
    assert both["domain"] == one["domain"] and both["share"] == one["share"] == ROWS
    assert both["rows"] == one["rows"]  # the same rows are kept aside
    assert both["network"] != one["network"]  # other batches
    assert abs(both["accuracy"] - one["accuracy"]) < 0.06 and one["accuracy"] > 0.6
    assert printed[1]["again"]["accuracy"] == both["accuracy"]
