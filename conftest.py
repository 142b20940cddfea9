"""How all tests run, and a few people."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from counted_time import CountedTime, count_time
from samples import make_people

# Tests compile the same programs many times, in these processes and in commands that they start. JAX does not write
# entries atomically: it warns of half an entry and compiles the program again, and these warnings are dropped.
os.environ |= {
    "JAX_COMPILATION_CACHE_DIR": str(Path(__file__).parent / ".jax-cache"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "PYTHONWARNINGS": "ignore:Error reading persistent compilation cache entry:UserWarning",
}

# Compiling takes longer than running in most tests, so that programs are not optimised unless XLA_FLAGS says more.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# A shell ignores Ctrl-C for what it runs in the background, and every child process inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
