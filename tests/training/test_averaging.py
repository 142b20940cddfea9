"""Running means of weights and rows that rotate among members: exactly what they say, resumable, and as fair."""

import dataclasses

import numpy as np
import pytest

from bornfair import FairClassifier
from bornfair.core.errors import InputError
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan, shared_split, split
from bornfair.training.fitting import Recipe
from bornfair.training.response import Response
from bornfair.training.start import Exact, draw_members
from samples import make_people

ROWS = 90
EXPECTED = Response("expected")


def table(seed=0):
    random = np.random.default_rng(seed)
    free = random.normal(size=(ROWS, 3)).astype(np.float32)
    return TrainingData(
        free, (free[:, 0] + random.normal(size=ROWS) > 0.8).astype(int), codes=np.eye(2, dtype=np.float32)
    )


def starts(members=1):
    return draw_members(Exact(), members, free_width=3, sensitive_width=2, hidden=(4,), outputs=1, seed=3)


def test_what_is_kept_is_the_running_mean_of_the_weights():
    """One step an epoch, so that shorter runs show every step."""
    plan = Plan(epochs=4, batch_size=ROWS, learning_rate=0.3, averaging=0.3)
    mean = [layer.weight.astype(np.float64) for layer in starts()[0].layers]
    for step in range(plan.epochs):
        last = train(starts(), table(), EXPECTED, dataclasses.replace(plan, epochs=step + 1, averaging=0.0)).network
        kept = min(0.3, (1 + step) / (10 + step))
        mean = [kept * own + (1 - kept) * layer.weight for own, layer in zip(mean, last.layers, strict=True)]
    found = train(starts(), table(), EXPECTED, plan)
    for own, layer in zip(mean, found.network.layers, strict=True):
        np.testing.assert_allclose(layer.weight, own, atol=1e-6)
        assert not np.allclose(layer.weight, last.layers[0].weight if own.shape[1] == 5 else 0, atol=1e-4)
    assert found.network.ignores_sensitive(3) and not found.network.layers[0].weight[:, 3:].any()
    with pytest.raises(InputError, match="averaging must be a number"):
        Plan(averaging=1.0)


def test_every_row_is_kept_aside_by_one_member_of_each_round_and_learnt_from_by_the_others():
    classes = np.random.default_rng(1).permutation(np.array([0] * 70 + [1] * 20))
    plan = Plan(members=8, rotate=True, validation_fraction=0.25, patience=3, seed=5)
    parts = [split(classes, plan, member) for member in range(8)]
    for learnt, aside in parts:
        assert sorted([*learnt, *aside]) == list(range(90))
        assert abs(len(aside) - 22.5) < 1 and abs(classes[aside].sum() - 5) <= 1, "drawn within each class"
    assert sorted(np.concatenate([aside for _, aside in parts[:4]])) == list(range(90))
    assert parts[5][1].tolist() == parts[1][1].tolist()
    learnt, aside = shared_split(classes, plan)
    assert len(learnt) == 90 and not len(aside)
    alone = dataclasses.replace(plan, members=1)
    assert not alone.rotates and len(shared_split(classes, alone)[1]) > 0
    assert not len(split(classes[:7], plan)[1]), "too few rows to spare any"
    assert (
        Recipe(preset="accurate").plan(500).rotates and not Recipe(preset="accurate", calibrate=True).plan(500).rotates
    )


def test_members_are_judged_on_the_rows_they_kept_aside():
    plan = Plan(epochs=1, batch_size=32, members=3, rotate=True, validation_fraction=1 / 3, patience=2, seed=2)
    found = train(starts(3), table(), EXPECTED, plan)
    data, losses = table(), []
    for member, network in enumerate(found.members):
        _, aside = split(data.classes, plan, member)
        score, truth = data.scores(network, aside)[:, 0].astype(np.float64), data.classes[aside]
        losses.append(np.mean(np.logaddexp(0, score) - score * truth))
    assert found.history[0].validation_loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_run_goes_on_from_its_checkpoint_with_the_same_bytes(tmp_path):
    plan = Plan(
        epochs=5,
        batch_size=32,
        members=3,
        rotate=True,
        validation_fraction=1 / 3,
        patience=5,
        averaging=0.9,
        dropout=0.1,
    )
    whole = train(starts(3), table(), EXPECTED, plan)

    def killed(seen):
        if seen.record.epoch == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(starts(3), table(), EXPECTED, plan, checkpoint_path=path, callbacks=(killed,))
    resumed = train(starts(3), table(), EXPECTED, plan, checkpoint_path=path, resume=True)
    assert len(resumed.history) == 5
    both = zip(whole.network.layers, resumed.network.layers, strict=True)
    assert all(a.weight.tobytes() == b.weight.tobytes() for a, b in both)


def test_the_accurate_preset_is_proven_and_the_same_every_time():
    people = make_people(160, seed=1)
    X, y = people.drop(columns="grant"), people["grant"]
    own = [  # with few bins, to be quick
        FairClassifier(["sex"], preset="accurate", epochs=1, members=2, bins=4).fit(X, y) for _ in range(2)
    ]
    first, second = (clf.model_.network for clf in own)
    assert all(a.weight.tobytes() == b.weight.tobytes() for a, b in zip(first.layers, second.layers, strict=True))
    assert own[0].certificate_.verdict.proof == "structural"
    assert [one["rows"] for one in own[0].certificate_.training["measured"]] == [160], "all rows are learnt from"
    assert own[0].certificate_.training["plan"]["rotate"] is True
