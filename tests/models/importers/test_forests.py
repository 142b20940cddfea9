"""Forests of every source: read exactly, so that scores are the original's bit for bit, ties and gaps included."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from packaging.version import Version
from threadpoolctl import threadpool_limits

from bornfair.core.errors import InputError
from bornfair.importers import boosting as boosting_module
from bornfair.importers.tree_source import Ran, _nearness, imported_forest, people_at_thresholds
from bornfair.models.columns import Who
from bornfair.models.forest.model import ForestModel
from bornfair.models.reading import Reading
from bornfair.questions import Question
from bornfair.questions.loading import load_model

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
ROWS = 500
TEXTS = pd.DataFrame({
    "wage": RNG.normal(size=ROWS).round(1), "age": RNG.integers(-2, 6, ROWS),
    "job": RNG.choice(list("uvwxyz"), ROWS), "sex": RNG.choice(["f", "m"], ROWS),
})  # fmt: skip
NUMBERS = TEXTS.assign(job=TEXTS.job.map("uvwxyz".index), sex=(TEXTS.sex == "f").astype(int))
GAPS = NUMBERS.assign(wage=NUMBERS.wage.where(RNG.random(ROWS) > 0.1))
CATEGORIES = TEXTS.assign(job=TEXTS.job.where(RNG.random(ROWS) > 0.1)).astype({"job": "category", "sex": "category"})
SCORE = TEXTS.age + 2 * (TEXTS.job == "x") + (TEXTS.sex == "m") * 0.7 + RNG.normal(size=ROWS)
TWO = (SCORE > 2).astype(int)
THREE = SCORE.clip(0, 2.9).astype(int)
NAMES = pd.Series(["low", "mid", "top"])[THREE].to_numpy()


def xgb(**options: Any) -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBClassifier(n_estimators=12, max_depth=4, n_jobs=1, **options)


def lgb(**options: Any) -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    usual = {"n_estimators": 12, "verbosity": -1, "min_child_samples": 5, "min_data_per_group": 1, "cat_smooth": 1}
    return lightgbm.LGBMClassifier(**usual, n_jobs=1, **options)


def cat(**options: Any) -> Any:
    catboost = pytest.importorskip("catboost")
    return catboost.CatBoostClassifier(
        iterations=12, depth=4, verbose=0, allow_writing_files=False, thread_count=1, **options
    )


def sk(name: str, **options: Any) -> Any:
    from sklearn import ensemble, tree

    return getattr(ensemble if hasattr(ensemble, name) else tree, name)(random_state=0, **options)


def piped(final: Any, sparse: bool = False) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

    parts = make_column_transformer(
        (StandardScaler(), ["wage"]), (MinMaxScaler(clip=True), ["age"]),
        (OneHotEncoder(handle_unknown="ignore"), ["job"]), (OrdinalEncoder(), ["sex"]),
        sparse_threshold=1.0 if sparse else 0.0,
    )  # fmt: skip
    return make_pipeline(parts, final)


def imputed(final: Any) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import RobustScaler

    return make_pipeline(SimpleImputer(), RobustScaler(), final)


Fit = tuple[Callable[[], Any], pd.DataFrame, Any]
SOURCES: dict[str, Fit] = {
    "xgboost": (lambda: xgb(), GAPS, TWO),
    "xgboost, exact": (lambda: xgb(tree_method="exact", base_score=0.3), GAPS, TWO),
    "xgboost, categories": (lambda: xgb(enable_categorical=True, max_cat_to_onehot=2), CATEGORIES, TWO),
    "xgboost, one-hot categories": (lambda: xgb(enable_categorical=True, max_cat_to_onehot=9), CATEGORIES, TWO),
    "xgboost, classes": (lambda: xgb(), GAPS, THREE),
    "xgboost, classes at once": (lambda: xgb(multi_strategy="multi_output_tree"), NUMBERS, THREE),
    "xgboost, labels": (lambda: xgb(objective="multi:softmax"), NUMBERS, THREE),
    "xgboost, dart": (lambda: xgb(booster="dart", rate_drop=0.4), GAPS, TWO),
    "xgboost, dart, classes": (lambda: xgb(booster="dart", rate_drop=0.4), NUMBERS, THREE),
    "xgboost, hinge": (lambda: xgb(objective="binary:hinge"), NUMBERS, TWO),
    "lightgbm": (lambda: lgb(), GAPS, TWO),
    "lightgbm, categories": (lambda: lgb(max_cat_to_onehot=1), CATEGORIES, TWO),
    "lightgbm, zero is missing": (lambda: lgb(zero_as_missing=True), GAPS, TWO),
    "lightgbm, nothing is missing": (lambda: lgb(use_missing=False), GAPS, TWO),
    "lightgbm, classes": (lambda: lgb(), CATEGORIES, NAMES),
    "lightgbm, one against all": (lambda: lgb(objective="multiclassova"), GAPS, NAMES),
    "lightgbm, sigmoid": (lambda: lgb(sigmoid=2.5), NUMBERS, TWO),
    "lightgbm, dart": (lambda: lgb(boosting_type="dart"), NUMBERS, TWO),
    "lightgbm, random forest": (lambda: lgb(boosting_type="rf", subsample=0.6, subsample_freq=1), GAPS, TWO),
    "catboost": (lambda: cat(), GAPS, TWO),
    "catboost, missing above": (lambda: cat(nan_mode="Max"), GAPS, TWO),
    "catboost, categories": (lambda: cat(one_hot_max_size=20, cat_features=["job", "sex"]), TEXTS, TWO),
    "catboost, classes": (lambda: cat(one_hot_max_size=20, cat_features=["job", "sex"]), TEXTS, NAMES),
    "catboost, branching": (lambda: cat(grow_policy="Lossguide"), GAPS, TWO),
    "tree": (lambda: sk("DecisionTreeClassifier", max_depth=6), GAPS, TWO),
    "tree, classes": (lambda: sk("DecisionTreeClassifier", max_depth=6), NUMBERS, NAMES),
    "random forest": (lambda: sk("RandomForestClassifier", n_estimators=12), GAPS, TWO),
    "random forest, classes": (lambda: sk("RandomForestClassifier", n_estimators=12), GAPS, NAMES),
    "extra trees": (lambda: sk("ExtraTreesClassifier", n_estimators=12), GAPS, TWO),
    "boosting": (lambda: sk("GradientBoostingClassifier", n_estimators=12), NUMBERS, TWO),
    "boosting, classes": (lambda: sk("GradientBoostingClassifier", n_estimators=12), NUMBERS, NAMES),
    "histogram": (lambda: sk("HistGradientBoostingClassifier", max_iter=12), GAPS, TWO),
    "histogram, categories": (
        lambda: sk("HistGradientBoostingClassifier", max_iter=12, categorical_features="from_dtype"), CATEGORIES, NAMES,
    ),
    "pipeline, random forest": (lambda: piped(sk("RandomForestClassifier", n_estimators=12)), TEXTS, TWO),
    "pipeline, xgboost": (lambda: piped(xgb()), TEXTS, TWO),
    "pipeline, lightgbm": (lambda: piped(lgb()), TEXTS, TWO),
    "sparse pipeline, random forest": (
        lambda: piped(sk("RandomForestClassifier", n_estimators=12), sparse=True), TEXTS, TWO,
    ),
    "sparse pipeline, xgboost": (lambda: piped(xgb(), sparse=True), TEXTS, TWO),
    "sparse pipeline, lightgbm": (lambda: piped(lgb(), sparse=True), TEXTS, TWO),
    "pipeline, imputed": (lambda: imputed(sk("GradientBoostingClassifier", n_estimators=12)), GAPS, TWO),
}  # fmt: skip


def fitted(name: str) -> tuple[Any, pd.DataFrame]:
    made, people, answers = SOURCES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return made().fit(people, answers), people


def read(model: Any, people: pd.DataFrame, **asking: Any) -> ForestModel:
    plain = people.astype({n: object for n in people.columns if people[n].dtype == "category"})
    found = load_model(model, table=plain, sensitive=["sex"], **asking)
    assert isinstance(found, ForestModel)
    return found


def everybody(model: ForestModel, people: pd.DataFrame, count: int) -> pd.DataFrame:
    """Random people, people at thresholds, and with gaps where the table has some."""
    half = count // 2
    rows = pd.concat([model.domain.sample(half, seed=5), people_at_thresholds(model, half, seed=6)], ignore_index=True)
    gaps = np.random.default_rng(3).random(len(rows)) < 0.1
    return rows.assign(**{n: rows[n].where(~gaps) for n in rows if people[n].isna().any()})


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine take seconds; they change no sum."""
    import sklearn.ensemble  # noqa: F401  # limits are put on what is loaded

    with threadpool_limits(1):
        yield


DROPPED = ("xgboost, dart", "xgboost, dart, classes") if Version(version("xgboost-cpu")) < Version("3.3") else ()


@pytest.mark.parametrize("name", SOURCES)
def test_scores_are_those_of_the_original_bit_for_bit(name):
    original, people = fitted(name)
    model = read(original, people)
    rows = everybody(model, people, 3_000)
    assert model.original is not None
    assert model.original.largest_difference == 0 and model.forest.summation.in_order
    assert model.covers_execution != (name.startswith("catboost") or name in DROPPED)
    ours, theirs = model.raw_scores(rows), model.original.scores(rows)
    assert theirs is not None and np.array_equal(ours, theirs)
    clear = _nearness(model.forest, ours) > model.forest.cut.slack
    assert np.array_equal(model.forest.decide(ours)[clear], model.original.decide(rows)[clear])
    assert clear.mean() > 0.9
    given = rows.astype(people.dtypes.to_dict(), errors="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = np.asarray(original.predict(given[list(people.columns)])).ravel()
        shown = original.predict_proba(given[list(people.columns)]) if "hinge" not in name else None
    assert (asked.astype(str) == model.predict(rows).astype(str))[clear].all()
    if model.forest.cut.link != "none":
        assert np.allclose(model.predict_proba(rows), shown, rtol=0, atol=1e-5)


TIED = {
    "xgboost": lambda: xgb(base_score=0.5), "lightgbm": lambda: lgb(boost_from_average=False),
    "catboost": lambda: cat(), "tree": lambda: sk("DecisionTreeClassifier"),
    "random forest": lambda: sk("RandomForestClassifier", n_estimators=4, bootstrap=False),
    "boosting": lambda: sk("GradientBoostingClassifier", n_estimators=2, init="zero"),
    "histogram": lambda: sk("HistGradientBoostingClassifier", max_iter=2, min_samples_leaf=1),
}  # fmt: skip


@pytest.mark.parametrize("name", TIED)
def test_a_tie_is_decided_as_the_original_decides_it(name):
    people = pd.DataFrame({"wage": [0.0, 0.0, 1.0, 1.0] * 10, "sex": [0, 0, 1, 1] * 10})
    original = TIED[name]().fit(people, np.array([0, 1, 0, 1] * 10))
    model = read(original, people)
    assert not model.forest.margins(model.raw_scores(people)).ravel()[0] > 1e-300
    assert (model.predict(people) == original.predict(people)).all()
    assert set(original.predict(people)) == ({1} if name == "boosting" else {0})


def test_a_margin_that_a_sigmoid_in_float32_does_not_see_decides_nothing():
    original = xgb(learning_rate=3e-9, base_score=0.5).fit(NUMBERS, TWO)
    model = read(original, NUMBERS)
    margins = model.raw_scores(NUMBERS)[:, 0]
    clear = np.abs(margins - model.forest.cut.at) > 1e-8  # the slack itself is larger, to be safe
    assert ((margins > 0) & (original.predict(NUMBERS) == 0) & clear).any()
    assert np.array_equal(model.predict(NUMBERS)[clear], original.predict(NUMBERS)[clear])


WRITTEN: dict[str, tuple[str, Callable[[Any, Path], Any]]] = {
    "xgboost, categories": ("m.json", lambda m, p: m.save_model(p)),
    "xgboost, classes": ("m.ubj", lambda m, p: m.save_model(p)),
    "xgboost, dart": ("m.ubj", lambda m, p: m.save_model(p)),
    "lightgbm, categories": ("m.txt", lambda m, p: m.booster_.save_model(p)),
    "lightgbm, zero is missing": ("m.txt", lambda m, p: m.booster_.save_model(p)),
    "lightgbm, random forest": ("m.txt", lambda m, p: m.booster_.save_model(p)),
    "catboost, classes": ("m.json", lambda m, p: m.save_model(p, format="json")),
    "catboost, missing above": ("m.json", lambda m, p: m.save_model(p, format="json")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_is_the_model_that_wrote_it(name, tmp_path, monkeypatch):
    original, people = fitted(name)
    file, write = WRITTEN[name]
    path = tmp_path / file
    write(original, str(path))
    model, object_ = read(str(path), people), read(original, people)
    assert model.original is not None and model.original.people_compared > 3_500
    rows = everybody(model, people, 1_000)
    if "dart" not in name:  # XGBClassifier and Booster weigh dropped trees differently, in the last bit
        assert np.array_equal(model.raw_scores(rows), object_.raw_scores(rows))
    if "catboost" not in name:  # which rounds numbers differently when it reads its own JSON
        assert model.original.largest_difference == 0
    if "catboost, classes" not in name:  # hashes of categories need the library
        monkeypatch.setattr(boosting_module, "runtime", lambda library: None)
        alone = read(str(path), people)
        assert alone.original is None and "not installed" in alone.note
        assert np.array_equal(alone.raw_scores(rows), model.raw_scores(rows))


def test_the_best_iteration_ends_the_forest(tmp_path):
    model = xgb(early_stopping_rounds=2, learning_rate=1.5)
    model.fit(NUMBERS[:250], TWO[:250], eval_set=[(NUMBERS[250:], TWO[250:])], verbose=False)
    assert model.best_iteration + 1 < len(model.get_booster().get_dump())
    model.save_model(tmp_path / "m.json")
    for source in (model, str(tmp_path / "m.json")):
        found = read(source, NUMBERS)
        assert found.forest.trees == model.best_iteration + 1 and "best iteration" in found.note
        assert np.array_equal(found.raw_scores(NUMBERS)[:, 0], model.predict(NUMBERS, output_margin=True))
    booster = read(model.get_booster(), NUMBERS)
    assert booster.forest.trees == len(model.get_booster().get_dump())


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "catboost", "random forest", "boosting", "histogram"])
def test_a_threshold_moves_the_decision(name):
    original, people = fitted(name)
    for threshold in (0.3, 0.05):
        model = read(original, people, threshold=threshold)
        rows = everybody(model, people, 2_000)
        shown = np.asarray(original.predict_proba(rows[list(people.columns)]))[:, 1].astype(np.float64)
        clear = np.abs(shown - threshold) > 1e-6
        assert np.array_equal(model.predict(rows)[clear], (shown > threshold)[clear].astype(int))
        assert model.thresholds == {"1": threshold} and f"threshold {threshold}" in model.note
    top = read(original, people.dropna(), threshold="top 40%")
    assert 0 < (top.predict(people.dropna()) == 1).mean() <= 0.4


def test_a_fixed_threshold_and_thresholds_of_classes():
    from sklearn.model_selection import FixedThresholdClassifier

    for end in (sk("RandomForestClassifier", n_estimators=4, max_depth=3), sk("GradientBoostingClassifier")):
        fixed = FixedThresholdClassifier(end, threshold=0.25).fit(NUMBERS, TWO)
        model = read(fixed, NUMBERS)
        rows = everybody(model, NUMBERS, 2_000)
        assert np.array_equal(model.predict(rows), fixed.predict(rows))
    original, people = fitted("lightgbm, classes")
    moved = read(original, people, threshold="top=0.1")
    shown = original.predict_proba(people)
    assert np.array_equal(moved.predict(TEXTS), moved.classes[np.argmax(shown / [0.5, 0.5, 0.1], axis=1)])
    with pytest.raises(InputError, match="does not end in a softmax"):
        read(fitted("random forest, classes")[0], GAPS, threshold="top=0.1")


def test_a_question_about_a_table():
    original, people = fitted("random forest")
    asked = Question.of(original, people.assign(paid=TWO), target="paid", sensitive_features=["sex"])
    model = asked.model
    assert isinstance(model, ForestModel) and asked.answers is not None
    rows = asked.people
    assert rows is not None
    flipped = [original.predict(rows.assign(sex=value)) for value in (0, 1)]
    assert model.empirical_fairness(rows) == np.mean(flipped[0] == flipped[1]) < 1
    versions = model.scores_of_versions(rows)
    assert np.array_equal(versions[:, :, 0] > 0, np.array(flipped) == 1)
    assert np.allclose(model.predict_proba(rows), original.predict_proba(rows), rtol=0, atol=1e-15)
    assert model.features_read == set(model.reads) and not model.ignores_sensitive


def test_what_cannot_be_read_is_refused_by_name(tmp_path):
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    refused = {
        "splits by 'OnlineCtr', statistics of categories": (cat(cat_features=["job", "sex"]), TEXTS),
        "linear models in its leaves": (lgb(linear_tree=True), NUMBERS),
        "trained for 'reg:squarederror', which decides nothing": (xgboost.XGBRegressor(n_estimators=2), NUMBERS),
        "trained for 'regression'": (lightgbm.LGBMRegressor(n_estimators=2, verbosity=-1), NUMBERS),
        "is a 'gblinear' of XGBoost": (xgb(booster="gblinear"), NUMBERS),
    }  # fmt: skip
    for message, (model, people) in refused.items():
        model.fit(people, TWO)
        with pytest.raises(InputError, match=message):
            load_model(model, table=people, sensitive=[people.columns[0]])
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    mixed = make_pipeline(PCA(2), sk("DecisionTreeClassifier")).fit(NUMBERS, TWO)
    with pytest.raises(InputError, match=r"step 'pca' \(PCA\) is not supported before a forest"):
        read(mixed, NUMBERS)
    with pytest.raises(InputError, match="takes numbers, but 'job' has the categories"):
        read(fitted("xgboost")[0], TEXTS)
    path = tmp_path / "other.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="not the JSON of a model of XGBoost or CatBoost"):
        read(str(path), NUMBERS)


def test_what_differs_from_the_original_is_refused():
    original, people = fitted("boosting")
    source = __import__("bornfair.importers.scikit_forest", fromlist=["x"]).scikit_forest(original)
    wrong = dataclasses.replace(
        source.forest, threshold=np.where(source.forest.column >= 0, source.forest.threshold + 1, 0)
    )

    with pytest.raises(InputError, match=r"is not the model: it .* \(scikit-learn .* is the judge\)"):
        imported_forest(dataclasses.replace(source, forest=wrong), Who(None, ["sex"], people), Reading())
    assert source.judge is not None

    def contradicting(raw: list[Any]) -> Ran:
        found = source.judge.run(raw)
        return dataclasses.replace(found, decided=1 - found.decided)

    other = dataclasses.replace(source, judge=dataclasses.replace(source.judge, run=contradicting))
    with pytest.raises(InputError, match="it decides otherwise for"):
        imported_forest(other, Who(None, ["sex"], people), Reading())


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "lightgbm, nothing is missing", "catboost", "histogram"])
def test_people_with_gaps_are_judged_and_counted_as_the_original_decides(name):
    from itertools import product

    from bornfair.quantification.cells import shares_of_forest
    from bornfair.verification.decide import decide

    gone = np.random.default_rng(8).random((2, ROWS)) < 0.2
    people = NUMBERS[["age", "job", "sex"]].assign(age=NUMBERS.age.mask(gone[0]), job=NUMBERS.job.mask(gone[1]))
    original = SOURCES[name][0]().fit(people, TWO)
    model = read(original, people)
    assert model.domain.gappy == ("age", "job")
    levels = [[*range(-2, 6), np.nan], [*range(6), np.nan]]
    everyone = pd.DataFrame(list(product(*levels)), columns=["age", "job"])
    one, other = (original.predict(everyone.assign(sex=sex)) for sex in (0, 1))
    unfair = np.asarray(one).ravel() != np.asarray(other).ravel()
    verdict, found = decide(model, timeout=10.0), shares_of_forest(model, timeout=10.0, samples=64)
    assert verdict.answer == ("falsified" if unfair.any() else "verified")
    assert found.counts == {"certified": int((~unfair).sum()), "falsified": int(unfair.sum()), "undecided": 0}
    seen = shares_of_forest(model, timeout=10.0, samples=64, marginals={"age": {None: 1.0}, "job": {0: 1.0, None: 1.0}})
    assert seen.falsified == unfair[everyone.age.isna() & (everyone.job.isna() | (everyone.job == 0))].mean()


def test_who_refuses_gaps_is_asked_about_people_without():
    original = sk("GradientBoostingClassifier", n_estimators=3).fit(NUMBERS, TWO)
    model = read(original, GAPS)
    assert model.domain.gappy == ()
    with pytest.raises(InputError, match=r"'wage' may be missing in the domain, but .* refuses missing values there"):
        load_model(original, domain=model.domain.edit("wage", missing=True))


@pytest.mark.parametrize("written", [False, True], ids=["object", "file"])
def test_catboost_is_read_over_a_table_with_missing_categories(tmp_path, written):
    """CatBoost itself refuses them, so that nobody has one in the domain, and rows with one are left out."""
    original = cat(one_hot_max_size=20, cat_features=["job", "sex"])
    original.fit(TEXTS, TWO)
    source = original
    if written:
        source = str(tmp_path / "m.json")
        original.save_model(source, format="json")
    gappy = TEXTS.assign(job=TEXTS.job.where(RNG.random(ROWS) > 0.1), wage=TEXTS.wage.where(RNG.random(ROWS) > 0.1))
    model = load_model(source, table=gappy, sensitive=["sex"])
    assert not model.domain.feature("job").missing and model.domain.feature("wage").missing
    whole = gappy[gappy.job.notna()]
    assert (model.predict(whole).astype(int) == original.predict(whole)).all()
    domain = model.domain.replaced(
        features=[f.model_dump() | ({"missing": True} if f.name == "job" else {}) for f in model.domain.features]
    )
    with pytest.raises(InputError, match=r"'job' may be missing in the domain, but .* refuses missing values there"):
        load_model(source, domain=domain)
