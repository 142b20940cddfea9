"""A bank's table with the defects that tables of companies have."""

import numpy as np
import pandas as pd

FIRST = ["Ada", "Bob", "Cem", "Dora", "Eli", "Finn", "Gus", "Hana"]
LAST = ["Abelmann", "Brownlow", "Cruzeiro", "Dietzel", "Engström", "Foxworth", "Gilleard"]


def customers(count: int = 300, seed: int = 1) -> pd.DataFrame:
    """A bank's table, with all that is wrong with tables but gaps where nobody can help."""
    random = np.random.default_rng(seed)
    sex = random.choice(["female", "male"], count)
    income = np.round(np.exp(random.normal(10.0, 0.5, count)), 2)
    default = (random.random(count) < 1 / (1 + np.exp((income - 20_000) / 8_000))).astype(int)
    table = pd.DataFrame(
        {
            "customer_no": np.arange(70_000, 70_000 + count),
            "full_name": [f"{random.choice(FIRST)} {random.choice(LAST)}" for _ in range(count)],
            "street": [f"{random.choice(LAST)} Road {random.integers(1, 200)}" for _ in range(count)],
            "email": [f"{random.choice(FIRST).lower()}{i}@example.org" for i in range(count)],
            "phone": [f"+49 170 {random.integers(10**6, 10**7)}" for _ in range(count)],
            "opened": pd.to_datetime("2015-01-01") + pd.to_timedelta(random.integers(0, 2000, count), "D"),
            "rate": 0.19,
            "age": random.integers(18, 80, count).astype(float),
            "income": income,
            "limit": random.integers(1, 50, count) * 100,
            "sector": random.integers(1, 8, count),
            "sex_std": np.where(sex == "female", -1.106531, 0.903725),
            "region": random.choice(["north", "south", "east"], count),
            "recovered": np.where(default == 1, np.round(random.uniform(10, 100, count), 2), 0.0),
            "sex": sex,
            "race": random.choice(["a", "b", "c"], count),
            "default": default,
        }
    )
    table["opened"] = table["opened"].dt.strftime("%Y-%m-%d")
    table.loc[random.choice(count, 8, replace=False), "limit"] = 99_999
    table.loc[random.choice(count, 12, replace=False), "age"] = np.nan
    return table
