"""Verdicts on forests beside everybody who could exist, looked at one by one."""

from collections import Counter

import numpy as np
import pandas as pd
from tests.support.random_forests import everybody, random_forest_model

from bornfair.verification.clock import Clock
from bornfair.verification.decide import decide


def test_no_verdict_is_wrong():
    """Of random forests with ties, sets of categories, several classes and declared twins."""
    seen = Counter()
    for seed in range(100):
        model = random_forest_model(np.random.default_rng(seed))
        unfair = everybody(model).unfair.any()
        for engine in ("auto", "bounds", "milp")[: 2 + (seed % 4 == 0)]:
            verdict = decide(model, engine=engine, timeout=Clock(20.0))
            seen[engine, verdict.verdict, verdict.proof] += 1
            assert verdict.verdict == ("falsified" if unfair else "verified"), (seed, engine, verdict)
            if unfair:
                one, other = (model.predict(row_of(model, twin)) for twin in verdict.twins)
                assert one != other and [one, other] == verdict.decisions, (seed, verdict)
    assert len(seen) >= 8, seen  # every engine had something to say


def row_of(model, person):
    return pd.DataFrame([person], columns=list(model.domain.names))
