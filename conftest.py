"""How all tests run, and a few people."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import jax
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from counted_time import CountedTime, count_time
from samples import make_people

ROOT = Path(__file__).parent
SUITES = (ROOT / "tests", ROOT / "bench" / "tests")

# A shell ignores Ctrl-C for what it runs in the background, and every child process inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests compile the same programs many times. Each worker has its own folder, which no other process writes to:
# JAX does not write entries atomically.
jax.config.update("jax_compilation_cache_dir", str(ROOT / ".jax-cache" / os.environ.get("PYTEST_XDIST_WORKER", "main")))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)

settings.register_profile(
    "bornfair",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("bornfair")


# Modules of both suites that take longer than some seconds, by room: `make check` leaves them to `make test`.
SLOW = {
    ".": "estimator examples files gamma_network hostile_endpoints hostile_files nightly proofs sklearn torture",
    "auditing": "audit many",
    "baselines": "base lcifr milp udif",
    "cli": "commands first_week printing streaming",
    "explaining": "neighbourhoods",
    "experiments": "accuracy preservation repair_anchors runs speed",
    "models": "network onnx_graph shipped",
    "models/importers": "heads hostile import_fuzz keras onnx scikit",
    "parallel": "clusters",
    "people": "schemas",
    "proof": "checker_domain checker_hostile checker_proofs checker_tampering vnnlib",
    "proxies": "tells",
    "quantification": "measure people",
    "repairing": "projection repair",
    "report": "browser document",
    "smt": "smt",
    "training": "algorithm hosts response start streaming",
    "twins": "fairness real_sensitive",
    "verification": "attack engines_agree intervals linear milp nasty_models search structural structures tolerance",
}

# Rooms whose tests stop work after some seconds; these seconds are counted in readings of the clock.
COUNTED = {"explaining", "quantification", "smt", "verification"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out the modules that take long")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    suite = next((suite for suite in SUITES if collection_path.is_relative_to(suite)), None)
    if suite is None or not config.getoption("--quick"):
        return None
    room, name = collection_path.parent.relative_to(suite), collection_path.stem.removeprefix("test_")
    return name in SLOW.get(str(room), "").split() or None


@pytest.fixture
def people() -> pd.DataFrame:
    """A few people with every kind of feature and a target that depends on some of them."""
    return make_people(240, seed=7)


@pytest.fixture
def counted_time(monkeypatch: pytest.MonkeyPatch) -> CountedTime:
    """Seconds pass by readings of the clock, not by how busy the machine is."""
    return count_time(monkeypatch, tick=0.002)


@pytest.fixture(autouse=True)
def _count_time_where_engines_are_tested(request: pytest.FixtureRequest) -> None:
    if request.path.parent.parent in SUITES and request.path.parent.name in COUNTED:
        request.getfixturevalue("counted_time")
