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


@pytest.fixture
def people() -> pd.DataFrame:
    """A few people with every kind of feature and a target that depends on some of them."""
    return make_people(240, seed=7)


@pytest.fixture
def counted_time(monkeypatch: pytest.MonkeyPatch) -> CountedTime:
    """Seconds pass by readings of the clock, not by how busy the machine is."""
    return count_time(monkeypatch, tick=0.002)
