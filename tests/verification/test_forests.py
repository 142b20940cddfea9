"""Verdicts on forests beside everybody who could exist, looked at one by one."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
from tests.support.random_forests import everybody, random_forest_model

from bornfair.core.clock import Clock
from bornfair.models.forest.bounds.cells import restricted
from bornfair.models.forest.influence import influences
from bornfair.people.twins.versions import Versions
from bornfair.quantification.cells import shares_of_forest
from bornfair.verification.decide import decide


def test_no_verdict_is_wrong():
    """Of random forests with ties, sets of categories, several classes and declared twins."""
    seen = Counter()
    for seed in range(100):
        model = random_forest_model(np.random.default_rng(seed))
        unfair = everybody(model).unfair.any()
        for engine in ("auto", "bounds", "milp")[: 2 + (seed % 4 == 0)]:
            verdict = decide(model, engine=engine, timeout=Clock(20.0))
            seen[engine, verdict.answer, verdict.proof] += 1
            assert verdict.answer == ("falsified" if unfair else "verified"), (seed, engine, verdict)
            if unfair:
                one, other = (model.predict(row_of(model, twin)) for twin in verdict.twins)
                assert one != other and [one, other] == verdict.decisions, (seed, verdict)
    assert len(seen) >= 8, seen  # every engine had something to say


def test_an_original_that_may_add_otherwise_is_proven_of_in_real_arithmetic_only():
    seen = Counter()
    for seed in range(24):
        model = random_forest_model(np.random.default_rng(seed))
        other = replace(model, forest=replace(model.forest, summation=replace(model.forest.summation, plain=False)))
        verdict, shares = decide(other, timeout=20.0), shares_of_forest(other, samples=16, most_samples=0, most_boxes=4)
        reads = bool({*model.domain.sensitive, *model.domain.twin_group.moved} & restricted(model).features_read)
        executed = (model.forest.summation.precision,) * (not reads)
        assert shares.arithmetic == ("real", *executed) and shares.reason.startswith("of the forest as read") == reads
        if verdict:
            assert verdict.arithmetic == ("real", *executed) and verdict.as_read == reads
            seen[verdict.proof, reads] += 1
    assert len(seen) == 2, seen


def test_what_a_feature_changes_is_between_the_true_change_and_what_all_trees_change():
    """Of one score: adding up changes of several classes would give more than any score can change."""
    seen = Counter()
    for seed in range(120):
        model = random_forest_model(np.random.default_rng(seed), twins=False, gaps=False)
        if len(model.domain.sensitive) > 1 or model.domain.sensitive_features[0].kind == "real":
            continue
        people, versions = everybody(model).people, Versions(model.domain)
        scores = np.stack([model.raw_scores(versions.table(people, v)) for v in range(versions.size)])
        if scores.shape[-1] == 2:  # of two classes the difference decides
            scores = scores[..., 1:] - scores[..., :1]
        change = (scores.max(axis=0) - scores.min(axis=0)).max()
        found = influences(model)
        assert found or change == 0, seed
        for one in found:
            assert change <= one.largest_change + 1e-6 <= one.spread + 2e-6, (seed, change, one)
            seen[scores.shape[-1]] += 1
    assert seen[1] > 20 and seen[3] > 4, seen


def row_of(model, person):
    return pd.DataFrame([person], columns=list(model.domain.names))
