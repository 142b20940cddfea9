"""No exit status without a result: closed streams, libraries that end the process, and clusters that die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bornfair.cli
from bornfair.models.network.network import Layer, Network
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import IntegerFeature, Label
from bornfair.proof.bundle import FairModel

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors and signals of POSIX")

RAY = """
import os, sys
class Ref:
    def future(self):
        END
def init(*given, **named): pass
def is_initialized(): return False
def cluster_resources(): return {"CPU": 2}
def put(value): return value
def shutdown(): pass
def remote(**named): return lambda work: type("Remote", (), {"remote": staticmethod(lambda *given: Ref())})
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that ignores the sensitive value."""
    features = (IntegerFeature(name="age", low=0, high=3), IntegerFeature(name="sex", low=0, high=1))
    domain = Domain(features=features, sensitive=("sex",), label=Label(name="y", classes=("no", "yes")))
    network = Network((Layer(np.array([[1.0, 0.0]]), np.array([-1.0])),))
    path = tmp_path_factory.mktemp("guarded") / "bundle"
    FairModel(network, Encoding.of_raw_numbers(domain)).certified().save(path)
    return path


def ran(*arguments: object, closed: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from bornfair.cli import main; main()", *map(str, arguments)]
    if closed:
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=120)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_leave_the_status_of_the_verdict(bundle, closed):
    found = ran("verify", bundle, closed=closed)
    assert found.returncode == 0 and "Traceback" not in found.stderr
    assert ("VERIFIED" in found.stdout) == (">&-" not in closed.replace("2>&-", ""))


@pytest.mark.parametrize("closed", [">&-", "2>&-", "2>/dev/full"])
def test_closed_streams_leave_the_status_of_an_error(tmp_path, closed):
    found = ran("verify", tmp_path / "none", closed=closed)
    assert found.returncode == 2 and "Traceback" not in found.stderr and found.stdout == ""


@pytest.mark.parametrize(
    ("end", "status", "sentence"),
    [
        ("os.write(1, b'\\33[36m(pid=1) lost\\n'); os.write(2, b'stack trace'); os._exit(1)", 2, "before there was a"),
        ("os.kill(os.getpid(), 6)", 2, "before there was a result"),
        ("print('noise'); sys.exit(1)", 4, "a library ended the process with status 1"),
    ],
)
def test_a_cluster_that_ends_the_process_gives_no_verdict(bundle, tmp_path, end, status, sentence):
    (tmp_path / "ray.py").write_text(RAY.replace("END", end))
    places = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    found = ran("quantify", bundle, "--cluster", "auto", "--json", PYTHONPATH=places)
    assert found.returncode == status, found
    assert found.stdout == "" and sentence in found.stderr and "stack trace" not in found.stderr
    assert len(found.stderr.replace("noise\n", "").strip().splitlines()) == 1


def test_a_command_in_a_child_process_answers_as_usual(bundle):
    found = ran("verify", bundle, "--cluster=", "--json")
    assert found.returncode == 2 and found.stdout == "" and "cluster" in found.stderr
    assert json.loads(ran("verify", bundle, "--json").stdout)["verdict"] == "verified"


def test_a_library_that_raises_system_exit_gives_no_verdict(monkeypatch, capsys):
    def ends(arguments):
        raise SystemExit(1)

    monkeypatch.setattr(bornfair.cli, "_answered", ends)
    assert bornfair.cli.run([]) == 4 and "status 1" in capsys.readouterr().err


def test_a_lost_peer_is_one_sentence(monkeypatch, capsys):
    def loses(arguments):
        raise RuntimeError("FAILED_PRECONDITION: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:1")

    monkeypatch.setattr(bornfair.cli, "_answered", loses)
    assert bornfair.cli.run([]) == 2 and "another process of --hosts" in capsys.readouterr().err
