"""Boosted trees have a word in what is learnt: they read no sensitive value, and judge only whom they do not know."""

import numpy as np
import pandas as pd
import pytest

from bornfair import FairClassifier
from bornfair.core.errors import InputError
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.training import embedding
from bornfair.training.embedding import Teacher, TreeInputs, boosted_cuts, piecewise
from bornfair.training.loops import classification_loss, taught_loss

ROWS = 600
SMALL = {"hidden": (6,), "epochs": 3, "embedding": "boosted", "bins": 8, "taught": 0.5}


@pytest.fixture(scope="module")
def people():
    """What is decided hangs on two numbers together: each of them alone tells nothing."""
    random = np.random.default_rng(5)
    table = pd.DataFrame({
        "job": random.choice(["clerk", "driver", "nurse", "cook"], ROWS), "sex": random.choice(["f", "m"], ROWS),
        "height": random.uniform(-1, 1, ROWS).round(4), "town": random.choice(["A", "B", "C"], ROWS),
        "weight": random.uniform(-1, 1, ROWS).round(4),
    })  # fmt: skip
    return table.assign(grant=((table["height"] > 0.2) ^ (table["weight"] > -0.3)).astype(int))


@pytest.fixture(scope="module")
def encoded(people):
    X = people.drop(columns="grant")
    encoding = Encoding.fit(Domain.infer(X, sensitive=["sex"]), X, merge_twins=True, hold_tails=True)
    return encoding, encoding.encode(X, sensitive=False).free, people["grant"].to_numpy()


def test_trees_read_a_category_as_one_column_and_no_sensitive_one(people, encoded):
    encoding, free, _ = encoded
    reading, places = TreeInputs.of(encoding), encoding.free_columns()
    seen = reading.columns(free)
    assert [places["job"], places["town"]] == list(reading.categories) and seen.shape == (ROWS, 4)
    for i, name in enumerate(("job", "town")):  # one number for each value, another for another
        pairs = set(zip(people[name], seen[:, i].tolist(), strict=True))
        assert len(pairs) == people[name].nunique() == len({code for _, code in pairs})
    assert np.array_equal(seen[:, 2:], free[:, [places["height"].start, places["weight"].start]])


def test_numbers_are_cut_where_they_matter_together(people, encoded):
    encoding, free, classes = encoded
    places = encoding.free_columns()
    found = boosted_cuts(encoding, free, classes, None, most=6, seed=0)
    knots = piecewise(encoding, free, classes, bins=7, kind="boosted").knots
    height, weight = places["height"].start, places["weight"].start
    for name, column, cut in (("height", height, 0.2), ("weight", weight, -0.3)):
        own = free[:, column]
        raw = np.interp(found[column], np.sort(own), np.sort(people[name]))
        assert min(abs(raw - cut)) < 0.05 and len(found[column]) <= 6
        assert np.isin(np.float32(found[column]), knots[column]).all() and len(knots[column]) <= 8
        assert knots[column][0] == own.min() and knots[column][-1] == own.max()
    assert knots[places["job"].start] is None
    by_job = boosted_cuts(encoding, free, (people["job"] == "nurse").to_numpy().astype(int), None, most=3, seed=0)
    assert all(0.0 not in cuts and np.isfinite(cuts).all() for cuts in by_job.values()), "a category has no cuts"
    # each of them alone shows a tree nothing of it
    alone = piecewise(encoding, free, classes, bins=3, kind="tree").knots[height]
    assert min(abs(np.interp(alone, np.sort(free[:, height]), np.sort(people["height"])) - 0.2)) > 0.05


def test_nobody_is_judged_by_trees_that_know_them(encoded):
    encoding, free, _ = encoded
    guesses = np.random.default_rng(1).integers(0, 2, ROWS)  # nothing tells them, so only who knows them is right
    rows = np.arange(ROWS)
    targets = Teacher(encoding, free, guesses, None, 1.0, 0).taught(rows)
    assert abs(np.corrcoef(targets[:, 0], guesses)[0, 1]) < 0.2
    reading = TreeInputs.of(encoding)
    known = embedding._grown(reading, reading.columns(free), guesses, None, 0)
    told = known.predict_proba(reading.columns(free))[:, 1]
    assert np.corrcoef(told, guesses)[0, 1] > 0.4, "trees that know them would have told"


def test_members_learn_nothing_from_the_rows_that_tell_them_when_to_stop(encoded):
    encoding, free, classes = encoded
    aside = [np.arange(part, ROWS, 4) for part in range(4)]
    targets = Teacher(encoding, free, classes, None, 1.0, 0).taught_apart(aside)
    own = classes[:, None].astype(np.float32)
    for part, rows in enumerate(aside):
        turned = classes.copy()
        turned[rows] = 1 - turned[rows]
        others = np.delete(np.arange(ROWS), rows)
        again = Teacher(encoding, free, turned, None, 1.0, 0).taught_apart(aside)
        assert np.array_equal(again[part, others], targets[part, others]), "whatever the rows kept aside say"
        assert not np.array_equal(again[part - 1, others], targets[part - 1, others])
        assert np.array_equal(targets[part, rows], own[rows])
        assert ((targets[part, others, 0] > 0.5) == classes[others]).mean() > 0.9
    guesses = np.random.default_rng(1).integers(0, 2, ROWS)
    told = Teacher(encoding, free, guesses, None, 1.0, 0).taught_apart(aside)
    assert abs(np.corrcoef(told[0, aside[1], 0], guesses[aside[1]])[0, 1]) < 0.3
    few = Teacher(encoding, free, classes, None, 1.0, 0).taught_apart(aside[:2])
    assert few.shape == (2, ROWS, 1)


def test_each_member_learns_what_is_told_to_it_and_one_hears_how_far_it_is(people):
    X, y = people.drop(columns="grant"), people["grant"]
    rotating, heard = SMALL | {"members": 3, "rotate": True, "validation_fraction": 0.25}, []
    with embedding.trees_told(lambda done, total: heard.append((done, total))):
        one = FairClassifier(["sex"], **rotating).fit(X, y)
    assert heard == [(done, 6) for done in range(1, 7)], "each pair of four parts"
    other = FairClassifier(["sex"], **rotating).fit(X, y)
    assert len(heard) == 6, "whoever does not ask hears nothing"
    assert bytes_of(one) == bytes_of(other) and one.certificate_.verdict.proof == "structural"
    assert bytes_of(one) != bytes_of(FairClassifier(["sex"], **rotating | {"taught": 0.0}).fit(X, y))


def test_who_goes_on_with_one_network_is_taught_for_one(people):
    X, y = people.drop(columns="grant"), people["grant"]
    apart = {"rotate": True, "validation_fraction": 0.25}
    one, other = (
        FairClassifier(["sex"], **SMALL, warm_start=True).fit(X, y).set_params(members=members, **apart).fit(X, y)
        for members in (1, 3)  # the network that is there goes on, however many were asked for later
    )
    assert bytes_of(one) == bytes_of(other)


def test_rows_kept_aside_and_rare_classes_keep_their_class(people, encoded):
    _, free, _ = encoded
    classes = np.where(people["height"] > 0.2, 2, 0)
    classes[:10] = 1  # too few to learn of
    X = people.drop(columns="grant")
    domain = Domain.infer(X.assign(y=classes), sensitive=["sex"], target="y")
    encoding = Encoding.fit(domain, X, merge_twins=True, hold_tails=True)
    rows = np.arange(500)
    targets = Teacher(encoding, free, classes, None, 0.5, 0).taught(rows)
    own = (classes[:, None] == np.arange(3)).astype(np.float32)
    assert np.array_equal(targets[500:], own[500:]) and np.array_equal(targets[:10], own[:10])
    np.testing.assert_allclose(targets.sum(axis=1), 1, atol=1e-6)
    assert (targets[10:500].argmax(axis=1) == classes[10:500]).mean() > 0.95
    assert 0.5 < targets[10:500].max(axis=1).mean() < 1, "half of it is the trees' word"
    assert not targets[10:500, 1].any()
    few = Teacher(encoding, free, classes, None, 0.5, 0).taught(rows[:15])
    assert np.array_equal(few, own), "where there are too few rows for trees, nothing changes"
    assert boosted_cuts(encoding, free[:15], classes[:15], None, most=4, seed=0) is None


def test_rows_of_no_weight_teach_nothing(encoded):
    encoding, free, classes = encoded
    rows, counted = np.arange(ROWS), np.arange(ROWS) % 2 == 0
    turned = np.where(counted, classes, 1 - classes)  # the others say the opposite
    targets = Teacher(encoding, free, turned, counted.astype(float), 1.0, 0).taught(rows)
    assert ((targets[:, 0] > 0.5) == classes).mean() > 0.9


def test_the_loss_of_a_class_is_that_of_being_sure_of_it():
    scores = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    classes = np.arange(20) % 3
    sure = (classes[:, None] == np.arange(3)).astype(np.float32)
    np.testing.assert_allclose(taught_loss(scores, sure), classification_loss(scores, classes), rtol=1e-5)
    one, two = scores[:, :1], classes % 2
    np.testing.assert_allclose(
        taught_loss(one, two[:, None].astype(np.float32)), classification_loss(one, two), rtol=1e-5
    )
    even = taught_loss(one, np.full((20, 1), 0.5, np.float32))
    np.testing.assert_allclose(even, np.log1p(np.exp(one[:, 0])) - one[:, 0] / 2, rtol=1e-4)


def bytes_of(classifier):
    return b"".join(array.tobytes() for array in classifier.model_.network.tensors().values())


@pytest.fixture(scope="module")
def fitted(people):
    return FairClassifier(["sex"], **SMALL).fit(people.drop(columns="grant"), people["grant"])


def test_what_is_learnt_does_not_hang_on_the_sensitive_value(people, fitted):
    turned = people.assign(sex=np.where(people["sex"] == "f", "m", "f"))
    other = FairClassifier(["sex"], **SMALL).fit(turned.drop(columns="grant"), turned["grant"])
    assert bytes_of(other) == bytes_of(fitted)
    assert fitted.certificate_.verdict.proof == "structural" and fitted.certificate_.training["taught"] == 0.5


def test_it_changes_what_is_learnt_with_every_response(people, fitted):
    X, y = people.drop(columns="grant"), people["grant"]
    untaught = FairClassifier(["sex"], **SMALL | {"taught": 0.0}).fit(X, y)
    assert bytes_of(untaught) != bytes_of(fitted) and "taught" not in untaught.certificate_.training
    sampled = {"response": "population", "gamma": 0.3, "hidden": (4,), "epochs": 1}
    assert bytes_of(FairClassifier(["sex"], **sampled, taught=0.9).fit(X, y)) != bytes_of(
        FairClassifier(["sex"], **sampled).fit(X, y)
    )


def test_an_interrupted_training_is_not_taken_up_with_another_word(people, tmp_path):
    X, y = people.drop(columns="grant"), people["grant"]
    path = tmp_path / "on_the_way"
    FairClassifier(["sex"], **SMALL, checkpoint=path).fit(X, y)
    with pytest.raises(InputError, match="other data or other settings"):
        FairClassifier(["sex"], **SMALL | {"taught": 0.25}, checkpoint=path).fit(X, y)


@pytest.mark.parametrize("share", [-0.1, 1.5, "much"])
def test_a_share_that_is_none_is_refused(people, share):
    with pytest.raises(InputError, match="taught must be a number of at least 0 and at most 1"):
        FairClassifier(["sex"], **SMALL | {"taught": share}).fit(people.drop(columns="grant"), people["grant"])
