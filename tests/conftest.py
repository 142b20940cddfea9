"""What several tests share: small tables of people and small networks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

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


def make_people(count: int, *, seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": random.integers(18, 80, count),
            "income": random.normal(30.0, 12.0, count).round(3),
            "job": random.choice(["clerk", "nurse", "smith"], count),
            "owner": random.random(count) < 0.4,
            "sex": random.choice(["female", "male"], count),
            "race": random.choice(["a", "b", "c"], count),
        }
    )
    signal = (
        table["income"] / 12 + 2 * (table["sex"] == "male") + (table["job"] == "nurse") + random.normal(0, 1, count)
    )
    table["grant"] = np.where(signal > signal.median(), "yes", "no")
    return table
