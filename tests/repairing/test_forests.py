"""Repaired forests: the mean over the sensitive values, in the original's own format, that its library reads alike."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from bornfair import load, repair
from bornfair.core.errors import InputError
from bornfair.people.features import RealFeature
from bornfair.proof import checker
from bornfair.proof.certificate import as_checked
from bornfair.questions.repairing import RepairedForest
from bornfair.questions.repairing.means import mean_forest
from bornfair.questions.repairing.restriction import all_values, merges_of, values_of
from bundle_cases import AGE, HOURS, JOB, OWNER, grown
from random_forests import random_forest_model

xgboost = pytest.importorskip("xgboost")
lightgbm = pytest.importorskip("lightgbm")


# --- the mean ---


def scores_as(model, people, values):
    return model.raw_scores(people.assign(**values))


def test_the_mean_is_the_mean_of_the_original_over_the_sensitive_values():
    rng, replaced, copies = np.random.default_rng(1), 0, 0
    for _ in range(60):
        model = random_forest_model(rng, twins=False)
        table = model.domain.sample(30, seed=2)
        for over in (all_values(model), values_of(model, table)):
            assert over.weights.sum() == pytest.approx(1)
            mean = mean_forest(model, over)
            fair = dataclasses.replace(model, forest=mean.forest)
            assert fair.ignores_sensitive
            names = list(model.domain.sensitive)
            wanted = sum(
                weight * scores_as(model, table, dict(zip(names, row, strict=True)))
                for weight, row in zip(over.weights, over.people.itertuples(index=False), strict=True)
            )
            assert np.abs(fair.raw_scores(table) - wanted).max() < 1e-5
            replaced += len(mean.replaced)
            copies += mean.forest.trees - model.forest.trees
            assert mean.origin[: model.forest.trees] == tuple(range(model.forest.trees))
            assert len(mean.forest.values) <= 8 * len(model.forest.values)
    assert replaced > 80 and copies > 1


def test_trees_that_do_not_read_it_stay_as_they_are():
    trees = [("age", 30, -1.0, 1.0), ("owner", 0.5, ("hours", 3, 0.1, 0.2), ("hours", 3, 0.3, 0.2)), 0.5]
    model = grown((AGE, HOURS, OWNER), ("owner",), trees)
    mean = mean_forest(model, all_values(model))
    assert mean.replaced == (1,) and mean.origin == (0, 1, 2)
    assert mean.forest.values.ravel().tolist() == [-1.0, 1.0, 0.2, 0.5]  # ½(0.1 + 0.3) is 0.2, as on the other side
    assert mean.forest.column[mean.forest.roots].tolist() == [0, -1, -1]


def test_restrictions_that_are_equal_are_one_and_others_are_added_up_only_if_that_is_smaller():
    same = ("hours", 6, 0.25, ("age", 40, 1.0, -1.0))
    model = grown((AGE, HOURS, OWNER), ("owner",), [("owner", 0.5, same, same)])
    mean = mean_forest(model, all_values(model))
    assert mean.forest.trees == 1 and mean.forest.values.ravel().tolist() == [0.25, 1.0, -1.0]
    # Two trees with nothing in common: their product would be larger than both of them.
    wide = tuple(RealFeature(name=name, low=0.0, high=1.0) for name in "abcdef")
    left, right = ((x, 0.5, (y, 0.5, 1.0, 2.0), (z, 0.5, 3.0, 4.0)) for x, y, z in (("a", "b", "c"), ("d", "e", "f")))
    model = grown((*wide, OWNER), ("owner",), [("owner", 0.5, left, right)])
    apart = mean_forest(model, all_values(model))
    assert apart.origin == (0, 0) and sorted(apart.forest.values.ravel()) == [0.5, 0.5, 1.0, 1.0, 1.5, 1.5, 2.0, 2.0]
    together = mean_forest(model, all_values(model), copies=False)
    assert together.origin == (0,) and len(together.forest.values) == 16
    people = model.domain.sample(100, seed=1)
    assert np.allclose(*(dataclasses.replace(model, forest=m.forest).raw_scores(people) for m in (apart, together)))


def test_a_real_number_counts_by_the_length_of_its_cells():
    real = RealFeature(name="x", low=0.0, high=10.0)
    model = grown((real, HOURS), ("x",), [("x", 1.0, 1.0, ("x", 4.0, 2.0, ("hours", 3, 4.0, 8.0)))])
    over = all_values(model)
    assert over.people["x"].tolist() == [1.0, 4.0, 10.0] and np.allclose(over.weights, [0.1, 0.3, 0.6])
    mean = mean_forest(model, over)
    assert np.allclose(mean.forest.values.ravel(), [0.1 + 0.6 + 2.4, 0.1 + 0.6 + 4.8])


def test_declared_twins_are_merged_in_front_and_proven():
    trees = [
        ("job", {"clerk"}, 1.0, ("hours", 6, 0.0, 0.5)), ("job", {"smith"}, -1.0, 0.25),
        ("owner", 0.5, ("job", {"nurse", "smith"}, 0.5, 0.0), 0.125),
    ]  # fmt: skip
    model = grown((HOURS, JOB, OWNER), ("owner",), trees)
    model = model.about(model.domain.with_twins("job: clerk<->nurse"))
    assert list(merges_of(model)) == [1]
    mean = mean_forest(model, all_values(model))
    fair = dataclasses.replace(model, forest=mean.forest)
    assert mean.replaced == (0, 2) and mean.merges
    network, people = as_checked(fair)
    assert checker.prove_trees(network, people) == {"real", "float64"}
    rows = pd.DataFrame(list(itertools.product([2, 9], ["clerk", "nurse", "smith"])), columns=["hours", "job"])
    twins = rows.assign(job=rows["job"].map({"clerk": "nurse", "nurse": "clerk", "smith": "smith"}))
    versions = [r.assign(owner=owner) for r, owner in itertools.product((rows, twins), (False, True))]
    wanted = np.mean([model.raw_scores(version) for version in versions], axis=0)
    assert all(np.array_equal(fair.raw_scores(version), fair.raw_scores(rows)) for version in (rows, twins))
    assert np.allclose(fair.raw_scores(rows), wanted)


def test_a_mirrored_number_cannot_be_merged():
    model = grown((HOURS, OWNER), ("owner",), [("hours", 3, 1.0, -1.0)])
    model = model.about(model.domain.with_twins("hours: -x+13"))
    with pytest.raises(InputError, match="mirrors the number 'hours'"):
        mean_forest(model, all_values(model))


# --- files ---


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    count = 400
    table = pd.DataFrame({
        "age": rng.integers(18, 80, count), "income": rng.normal(30, 12, count).round(2),
        "group": rng.integers(0, 3, count), "sex": rng.integers(0, 2, count),
    })  # fmt: skip
    score = table["age"] / 20 + table["income"] / 15 + table["sex"] + (table["group"] == 1) + rng.normal(0, 0.7, count)
    return table.assign(y=(score > score.median()).astype(int), lane=pd.qcut(score, 3, labels=False))


FEATURES = ["age", "income", "group", "sex"]
BOOSTERS = {
    "plain": {},
    "forest": {"num_parallel_tree": 3, "subsample": 0.7, "seed": 1},
    "dart": {"booster": "dart", "rate_drop": 0.5, "seed": 1},
    "base": {"base_score": 0.7},
    "logitraw": {"objective": "binary:logitraw"},
    "classes": {"objective": "multi:softprob", "num_class": 3},
    "categories": {},
    "gaps": {},
}


def boosted(kind, people, path):
    """A model of XGBoost in a file, and the table it is asked about."""
    rows = people[FEATURES].astype(float)
    types = ["c" if kind == "categories" and name in ("group", "sex") else "q" for name in FEATURES]
    if kind == "gaps":
        rows = rows.mask(np.random.default_rng(3).random(rows.shape) < 0.15)
    target = "lane" if kind == "classes" else "y"
    data = xgboost.DMatrix(rows, people[target], feature_types=types, enable_categorical=True)
    options = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.4, "max_cat_to_onehot": 1} | BOOSTERS[kind]
    xgboost.train(options, data, 12).save_model(path)
    return people.drop(columns="y" if target == "lane" else "lane"), target, types


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize("kind", BOOSTERS)
def test_xgboost_reads_what_is_written_and_gives_the_same_scores(kind, suffix, people, tmp_path):
    if suffix == ".ubj" and kind not in ("plain", "categories", "classes"):
        pytest.skip("the same document")
    path = tmp_path / f"model{suffix}"
    table, target, types = boosted(kind, people, path)
    found = repair(path, table, target=target, sensitive_features=["sex"], method="drop")
    assert isinstance(found, RepairedForest) and found.verdict == "verified" and found.replaced > 0
    assert (".ubj file is written as .json" in found.note) == (suffix == ".ubj")
    stock = xgboost.Booster(model_file=bytearray(found.model.native.content))
    data = xgboost.DMatrix(table[FEATURES].astype(float), feature_types=types, enable_categorical=True)
    margins = stock.predict(data, output_margin=True).reshape(len(table), -1)
    assert np.array_equal(margins, found.model.raw_scores(table).astype(np.float32))
    others = table.assign(sex=1 - table["sex"])[FEATURES].astype(float)
    other = xgboost.DMatrix(others, feature_types=types, enable_categorical=True)
    assert np.array_equal(stock.predict(other, output_margin=True).reshape(len(table), -1), margins)
    if suffix == ".json" and kind != "dart":
        old, new = path.read_text(), found.model.native.content.decode()
        trees = [part.split('"tree_param"')[0] for part in old.split('{"base_weights"')[1:]]
        assert sum(tree in new for tree in trees) == len(trees) - found.replaced  # letter for letter


def test_early_stopped_trees_are_left_out(people, tmp_path):
    rows, path = people[FEATURES].astype(float), tmp_path / "model.json"
    model = xgboost.XGBClassifier(n_estimators=60, max_depth=4, learning_rate=0.9, early_stopping_rounds=3)
    model.fit(rows[:200], people["y"][:200], eval_set=[(rows[200:], people["y"][200:])], verbose=False)
    model.save_model(path)
    used = model.best_iteration + 1
    assert used < model.get_booster().num_boosted_rounds()
    for given in (path, model):
        found = repair(given, people.drop(columns="lane"), target="y", sensitive_features=["sex"])
        assert found.sizes["before"]["trees"] == used
        stock = xgboost.XGBClassifier()
        stock.load_model(bytearray(found.model.native.content))
        shown = stock.predict_proba(rows)[:, 1]
        assert np.allclose(shown, found.model.predict_proba(people)[:, 1], atol=1e-6)


LIGHT = {
    "plain": {"objective": "binary"},
    "classes": {"objective": "multiclass", "num_class": 3},
    "mean": {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6},
    "mean of one tree": {
        "objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "num_iterations": 1,
    },
    "categories": {"objective": "binary"},
    "gaps": {"objective": "binary"},
}  # fmt: skip


@pytest.mark.parametrize("kind", LIGHT)
def test_lightgbm_reads_what_is_written_and_gives_the_same_scores(kind, people, tmp_path):
    rows, path = people[FEATURES].astype(float), tmp_path / "model.txt"
    if kind == "gaps":
        rows = rows.mask(np.random.default_rng(3).random(rows.shape) < 0.15)
    target = "lane" if kind == "classes" else "y"
    chosen = ["group", "sex"] if kind == "categories" else "auto"
    options = {"num_leaves": 7, "min_data_in_leaf": 5, "verbose": -1, "min_data_per_group": 5, "cat_smooth": 1}
    data = lightgbm.Dataset(rows, people[target], categorical_feature=chosen)
    lightgbm.train({"num_iterations": 10} | options | LIGHT[kind], data).save_model(path)
    table = people.drop(columns="y" if target == "lane" else "lane")
    found = repair(path, table, target=target, sensitive_features=["sex"])
    assert found.verdict == "verified" and found.replaced > 0
    stock = lightgbm.Booster(model_str=found.model.native.content.decode())
    scores = stock.predict(table[FEATURES].astype(float), raw_score=True).reshape(len(table), -1)
    scores = scores / found.model.forest.summation.divisor
    assert np.allclose(scores, found.model.raw_scores(table), rtol=0, atol=1e-12)
    sizes = next(line for line in found.model.native.content.decode().split("\n") if line.startswith("tree_sizes="))
    blocks = found.model.native.content.decode().split("\nTree=")
    assert len(sizes[11:].split()) == len(blocks) - 1 == found.model.forest.trees
    old, new = (content.split("\nTree=")[1:] for content in (path.read_text(), found.model.native.content.decode()))
    kept = sum(one.strip() == two.strip() for one, two in zip(old[:-1], new[: len(old) - 1], strict=True))
    assert kept >= len(old) - 1 - found.replaced


# --- all of it ---


def test_a_repair_tells_who_is_decided_differently_and_its_bundle_is_checked(people, tmp_path):
    path, table = tmp_path / "model.json", people.drop(columns="lane")
    boosted("plain", people, path)
    found = repair(path, table, target="y", sensitive_features=["sex"], seed=1)
    facts = found.to_json()
    assert facts["verdict"] == "verified" and facts["proof"] == "structural" and facts["fairness_before"] < 1
    assert facts["rows_measured"] == 80 and sum(group["rows"] for group in facts["changes"]["groups"]) == 80
    assert facts["averaged"] == "the 2 values of sex, each counting the same"
    assert facts["sizes"]["after"]["leaves"] < 2 * facts["sizes"]["before"]["leaves"] and facts["shift"] != [0.0]
    before, after = (model.predict_proba(table)[:, 1].mean() for model in (found.original, found.model))
    assert abs(before - after) < 0.03
    still = repair(path, table, target="y", sensitive_features=["sex"], seed=1, fine_tune=False)
    assert still.shift == (0.0,) and still.accuracy_after == still.accuracy_averaged
    place = found.model.save(tmp_path / "bundle")
    assert sorted(file.name for file in place.iterdir()) == [
        "certificate.json", "domain.json", "model.json", "model.onnx", "report.html",
    ]  # fmt: skip
    answer = checker.check(place)
    assert answer["valid"] and answer["verdict"] == "verified" and "model.json" in answer["reason"]
    again = load(place)
    assert (again.predict(table) == found.model.predict(table)).all()
    assert again.native.content == (place / "model.json").read_bytes() == found.model.native.content
    repeated = repair(path, table, target="y", sensitive_features=["sex"], seed=1).model.save(tmp_path / "again")
    assert all((repeated / file.name).read_bytes() == file.read_bytes() for file in place.iterdir())


def test_declared_twins_are_repaired_in_a_bundle_without_a_native_file(people, tmp_path):
    table = people.drop(columns="lane").assign(group=people["group"].map({0: "wife", 1: "husband", 2: "other"}))
    rows = table[FEATURES].assign(group=table["group"].astype("category"), sex=table["sex"].astype(float))
    path = tmp_path / "model.json"
    data = xgboost.DMatrix(rows, table["y"], enable_categorical=True)
    xgboost.train({"objective": "binary:logistic", "max_depth": 3, "max_cat_to_onehot": 1}, data, 8).save_model(path)
    found = repair(path, table, target="y", sensitive_features=["sex"], twins="group: husband<->wife")
    assert found.verdict == "verified" and "merged in front of the trees" in found.note
    place = found.model.save(tmp_path / "bundle.zip")
    assert checker.check(place)["valid"] and load(place).native is None
    wives, husbands = (found.model.raw_scores(table.assign(group=name)) for name in ("wife", "husband"))
    assert np.array_equal(wives, husbands)


def test_a_forest_of_scikit_learn_is_repaired_as_onnx(people):
    table = people.drop(columns="lane")
    model = RandomForestClassifier(n_estimators=8, max_depth=4, random_state=0).fit(table[FEATURES], table["y"])
    found = repair(model, table, target="y", sensitive_features=["sex"], method="drop")
    assert found.verdict == "verified" and found.model.native is None and found.replaced > 0
    assert set(found.sizes["after"]) == {"trees", "leaves", "depth"}


def test_what_a_forest_is_not_repaired_by_is_said(people, tmp_path):
    path = tmp_path / "model.json"
    table, target, _ = boosted("plain", people, path)
    with pytest.raises(InputError, match=r"'plain' .* or 'drop'"):
        repair(path, table, target=target, sensitive_features=["sex"], method="least_squares")
