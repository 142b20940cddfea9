"""Shares of forests beside everybody who could exist, counted one by one."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tests.support.random_forests import everybody, random_forest_model, some_limits, within

from bornfair.core.errors import InputError
from bornfair.models.forest.bounds.cells import restricted
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.shares.moments import Functions, LeafTable
from bornfair.models.forest.shares.weights import CellWeights
from bornfair.parallel import Workers
from bornfair.quantification import cells
from bornfair.quantification.cells import _points, shares_of_forest
from bornfair.quantification.population import shares_of_rows
from bornfair.verification.decide import decide
from clocks import fast_clock, slow_clock

CLOSE = 1e-9


def test_the_shares_of_small_domains_are_found_to_the_end():
    for seed in range(60):
        model = random_forest_model(np.random.default_rng(seed))
        truth, found = everybody(model), shares_of_forest(model, timeout=20.0, samples=64)
        assert found.undecided <= CLOSE, seed
        assert abs(found.falsified - truth.share) <= CLOSE, seed
        if found.counts is not None:
            assert found.counts["falsified"] == round(truth.share * sum(found.counts.values())), seed


def test_a_number_of_boxes_gives_the_same_shares_whatever_the_clock_says(monkeypatch):
    monkeypatch.setattr(cells, "WORDS", 64)
    monkeypatch.setattr(cells, "FEW", 1)
    seen = set()
    for seed in range(8):
        model = random_forest_model(np.random.default_rng(seed))
        fast, slow = (
            replace(shares_of_forest(model, timeout=clock, most_boxes=9, samples=300), seconds=0.0)
            for clock in (fast_clock(), slow_clock())
        )
        assert fast == slow, seed
        seen.add(fast.reason)
    assert "enough boxes were bounded" in seen


def test_sub_populations_and_rows_are_counted_as_by_looking_at_each_of_them():
    seen = set()
    for seed in range(70):
        rng = np.random.default_rng([seed, 3])
        model = random_forest_model(rng)
        truth, limits = everybody(model), some_limits(rng, model)
        inside = within(model, truth.people, limits)
        mass = truth.weights[inside].sum()
        verdict = decide(model, timeout=20.0, where=limits)
        assert verdict.answer == ("falsified" if truth.unfair[inside].any() else "verified"), (seed, limits, verdict)
        if verdict.twins and not model.domain.twins:
            assert within(model, pd.DataFrame(verdict.twins), limits).all(), (seed, limits, verdict)
        seen.add((verdict.answer, bool(truth.unfair.any())))
        if mass > 1e-12:
            found = shares_of_forest(model, timeout=20.0, samples=64, where=limits)
            assert found.undecided <= CLOSE and found.where == (limits or None)
            assert abs(found.falsified - truth.weights[inside & truth.unfair].sum() / mass) <= CLOSE, (seed, limits)
        if any(model.domain.feature(name).kind == "real" for name in model.domain.twin_group.moved):
            continue  # a mirrored number that is no float is rounded where everybody is looked at, and is not here
        found = shares_of_rows(model, truth.people, where=None if mass <= 1e-12 else limits)
        rows = np.ones(len(inside), bool) if mass <= 1e-12 else inside
        counts = {"certified": int((rows & ~truth.unfair).sum()), "falsified": int((rows & truth.unfair).sum())}
        assert found.counts == counts | {"undecided": 0}, (seed, limits)
    assert ("verified", True) in seen and ("falsified", True) in seen  # of the whole domain, the verdict is another


def test_rows_beyond_the_domain_are_counted_and_strangers_named():
    model = random_forest_model(np.random.default_rng(5), twins=False)
    truth = everybody(model)
    numbers = [f.name for f in model.domain.free_features if f.kind in ("integer", "real")]
    words = [f.name for f in model.domain.free_features if f.kind == "categorical"]
    assert numbers and words
    beyond = truth.people.assign(**{numbers[0]: 10**6})
    assert sum(shares_of_rows(model, beyond).counts.values()) == len(beyond)
    with pytest.raises(InputError, match=f"row 0 of the table has {words[0]}='pink', and the domain knows"):
        shares_of_rows(model, truth.people.assign(**{words[0]: "pink"}))
    with pytest.raises(InputError, match="which is sensitive: everybody is looked at"):
        decide(model, where={model.domain.sensitive[0]: (0, 1)})


def test_no_share_is_contradicted_wherever_it_is_stopped(monkeypatch):
    """Boxes are credited by means and variances, not looked at one by one; stopped after any number of boxes."""
    monkeypatch.setattr(cells, "FEW", 0)
    proven, credited, drawn = 0.0, 0, 0
    for seed in range(80):
        rng = np.random.default_rng([seed, 1])
        model = random_forest_model(rng)
        truth = everybody(model).share
        for boxes in (1, int(rng.integers(2, 12))):
            found = shares_of_forest(model, timeout=20.0, samples=64, most_boxes=boxes)
            assert found.falsified <= truth + CLOSE, (seed, boxes, found, truth)
            assert found.certified <= 1 - truth + CLOSE, (seed, boxes, found, truth)
            assert found.confident.low - CLOSE <= truth <= found.confident.high + CLOSE, (seed, boxes, found, truth)
            assert found.falsified <= found.confident.low and found.confident.high <= 1 - found.certified
            drawn += found.confident.samples
            proven += found.certified + found.falsified
            credited += found.counts is None
    assert proven > 40 and credited > 20 and drawn > 30_000


def test_how_many_work_side_by_side_changes_nothing_but_the_time(monkeypatch):
    monkeypatch.setattr(cells, "FEW", 0)
    monkeypatch.setattr(cells, "TASK", 1)
    with Workers.of(2) as workers:
        for seed in (16, 35, 39):
            original = SimpleNamespace(fills={}, run=lambda rows: rows)  # which cannot be sent to anybody
            model = replace(random_forest_model(np.random.default_rng([seed, 1])), original=original)
            found = [
                shares_of_forest(model, timeout=600.0, samples=64, most_samples=500, most_boxes=40, jobs=jobs).to_json()
                for jobs in (1, workers)
            ]
            one, two = ({name: value for name, value in each.items() if name != "seconds"} for each in found)
            assert one == two
            assert one["boxes"] > 10
        assert {type(work).__name__ for work, *_ in workers._kept.values()} >= {"ForestHalving"}


@pytest.mark.parametrize("bands", [1, 2])
def test_many_versions_are_taken_together_in_bands(monkeypatch, bands):
    from bornfair.models.forest.shares import panel as forest_panel

    monkeypatch.setattr(cells, "FEW", 0)
    monkeypatch.setattr(forest_panel, "FEW_VERSIONS", 1)
    monkeypatch.setattr(forest_panel, "BANDS", bands)
    proven = 0.0
    for seed in range(40):
        rng = np.random.default_rng([seed, 2])
        model = random_forest_model(rng)
        truth = everybody(model).share
        found = shares_of_forest(model, timeout=20.0, samples=64, most_boxes=int(rng.integers(1, 10)))
        assert found.falsified <= truth + CLOSE and found.certified <= 1 - truth + CLOSE, (seed, found, truth)
        proven += found.certified + found.falsified
    assert proven > 8


def test_means_covariances_and_effects_are_those_of_everybody():
    looked_at = 0
    for seed in range(70):
        rng = np.random.default_rng([seed, 3])
        judge = Judge(restricted(random_forest_model(rng)))
        if judge.bits.outputs != 1 or judge.versions > 8 or not len(judge.sizes):
            continue
        weights, functions = CellWeights.of(judge.cells), Functions(judge)
        each = [functions.of([version]) for version in range(judge.versions)]
        table = LeafTable(functions.common, each, float(judge.bits.constant[0]), weights)
        table.joint = True
        low = rng.integers(judge.sizes)
        high = rng.integers(low, judge.sizes)
        points = _points(low, high)
        mass = weights.mass(points, points)
        if not mass.sum() > 0:
            continue
        looked_at += 1
        axes = [f for f in table.read if rng.random() < 0.4]
        found = table.moments(table.terms(low, high), axes)
        margins = judge.bounds(points, points).low[..., 0]  # [people, versions]
        place = np.zeros(len(points), np.int64)
        for f in axes:
            place = place * (high[f] - low[f] + 1) + points[:, f] - low[f]
        for part in range(len(found.share)):
            who = place == part
            share = mass[who].sum()
            assert share / mass.sum() == pytest.approx(found.share[part], abs=1e-12)
            if not share > 0:
                continue
            mean = mass[who] @ margins[who] / share
            apart = margins[who] - mean
            assert found.mean[:, part] == pytest.approx(mean, abs=1e-9)
            assert found.covariance[..., part] == pytest.approx((apart.T * mass[who]) @ apart / share, abs=1e-9)
            for k, effects in enumerate(found.effects):
                for feature, _, means in effects:
                    for cell in range(means.shape[1]):
                        some = who & (points[:, feature] == low[feature] + cell)
                        if mass[some].sum() > 0:
                            alone = mass[some] @ margins[some, k] / mass[some].sum() - mean[k]
                            assert means[part, cell] == pytest.approx(alone, abs=1e-9)
    assert looked_at > 40
