"""How all tests run, and a few people."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from samples import make_people

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
