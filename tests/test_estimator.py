"""FairClassifier as people use it."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bornfair import Domain, FairClassifier, FairnessWarning, load
from bornfair.core.errors import InputError, NoFairStart
from bornfair.models.network.network import decisions
from bornfair.proof import checker
from samples import make_people

pytestmark = pytest.mark.slow

QUICK = {"epochs": 6, "hidden": (16,), "learning_rate": 0.01}


@pytest.fixture(scope="module")
def table():
    return make_people(240, seed=7)


@pytest.fixture(scope="module")
def fitted(table):
    return FairClassifier(["sex", "race"], **QUICK).fit(table.drop(columns="grant"), table["grant"])


def bytes_of(classifier):
    return b"".join(array.tobytes() for array in classifier.model_.network.tensors().values())


@pytest.mark.parametrize("sensitive", [["sex"], ["age"], ["sex", "race"], ["sex", "race", "age", "owner"]])
@pytest.mark.parametrize("target", ["grant", "job"])
def test_every_twin_gets_the_same_decision(table, sensitive, target):
    X, y = table.drop(columns=target), table[target]
    clf = FairClassifier(sensitive, **QUICK).fit(X, y)
    assert clf.certificate_.verdict.answer == "verified" and clf.certificate_.verdict.proof == "structural"
    assert clf.gamma_ == 0.0
    anybody = clf.domain_.sample(300, seed=1)
    versions = clf.model_.scores_of_versions(anybody)
    assert all(v.tobytes() == versions[0].tobytes() for v in versions)
    assert clf.empirical_fairness(X) == 1.0


def test_plain_training_on_the_same_table_is_not_fair(table):
    X, y = table.drop(columns="grant"), table["grant"]
    clf = FairClassifier(["sex"], response="none", epochs=40, hidden=(16,), learning_rate=0.02).fit(X, y)
    assert clf.empirical_fairness(X) < 0.9
    assert clf.certificate_.verdict.answer != "verified"
    assert clf.certificate_.claim.startswith("Nothing about fairness is certified: the network was trained on the true")
    verdict = clf.verify(timeout=20)
    assert verdict.answer == "falsified"
    first, second = verdict.twins
    assert {name for name in first if first[name] != second[name]} == {"sex"} and len(set(verdict.decisions)) == 2


def test_predicts_without_the_sensitive_columns(table, fitted):
    X = table.drop(columns="grant")
    bare = X.drop(columns=["sex", "race"])
    assert (fitted.predict(bare) == fitted.predict(X)).all()
    assert fitted.predict_proba(bare).tobytes() == fitted.predict_proba(X).tobytes()
    shuffled = bare[bare.columns[::-1]]
    assert (fitted.predict(shuffled) == fitted.predict(bare)).all()


def test_an_unfair_model_asks_for_the_sensitive_columns(table):
    X, y = table.drop(columns="grant"), table["grant"]
    clf = FairClassifier(["sex"], response="none", **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="sex"):
        clf.predict(X.drop(columns="sex"))
    with pytest.raises(InputError, match="no sensitive column 'sex', but this model reads it; give the column"):
        clf.model_.predict(X.drop(columns="sex"))


def test_feature_names_and_classes_are_kept(table, fitted):
    assert list(fitted.feature_names_in_) == [c for c in table.columns if c != "grant"]
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.domain_.label.name == "grant"


def test_pandas_and_polars_give_the_same_bytes(table):
    X, y = table.drop(columns="grant"), table["grant"]
    ours = FairClassifier(["sex"], **QUICK).fit(X, y)
    theirs = FairClassifier(["sex"], **QUICK).fit(pl.from_pandas(X), pl.from_pandas(y))
    assert bytes_of(ours) == bytes_of(theirs)
    assert (theirs.predict(pl.from_pandas(X)) == ours.predict(X)).all()


def test_same_seed_same_bytes(table):
    X, y = table.drop(columns="grant"), table["grant"]
    first, second, other = (FairClassifier(["sex"], random_state=s, **QUICK).fit(X, y) for s in (1, 1, 2))
    assert bytes_of(first) == bytes_of(second) != bytes_of(other)


def test_works_in_pipelines_searches_and_cross_validation(table):
    X, y = table.drop(columns="grant"), table["grant"]
    steps = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        remainder="passthrough",
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(steps, FairClassifier(["sex"], **QUICK))
    search = GridSearchCV(pipeline, {"fairclassifier__hidden": [(4,), (16,)]}, cv=2).fit(X, y)
    best = search.best_estimator_[-1]
    assert best.certificate_.verdict.answer == "verified"
    scores = cross_val_score(clone(best), X, y, cv=2)
    assert scores.shape == (2,) and scores.min() > 0.3


def test_partial_fit_keeps_fairness_and_learns(table):
    X, y = table.drop(columns="grant"), table["grant"]
    domain = Domain.infer(X, sensitive=["sex"])
    clf = FairClassifier(["sex"], domain=domain, hidden=(16,), learning_rate=0.01, batch_size=16)
    losses = []
    for _ in range(8):
        for part in np.array_split(np.arange(len(X)), 3):
            clf.partial_fit(X.iloc[part], y.iloc[part], classes=["no", "yes"])
            assert not clf.model_.network.sensitive_weights(clf.model_.encoding.free_width).any()
        losses.append(clf.history_[-1].loss)
    assert losses[-1] < losses[0]
    assert clf.verify().answer == "verified"


def test_partial_fit_needs_the_classes_first(table):
    X, y = table.drop(columns="grant"), table["grant"]
    with pytest.raises(InputError, match="must be passed classes"):
        FairClassifier(["sex"]).partial_fit(X, y)
    clf = FairClassifier(["sex"], **QUICK).partial_fit(X, y, classes=["no", "yes"])
    with pytest.raises(InputError, match="first called with classes 'no', 'yes'; they cannot change"):
        clf.partial_fit(X, y, classes=["no", "yes", "maybe"])


def test_warm_start_goes_on_and_keeps_fairness(table):
    X, y = table.drop(columns="grant"), table["grant"]
    clf = FairClassifier(["sex"], warm_start=True, validation_fraction=0.0, **QUICK).fit(X, y)
    before = clf.history_[0].loss
    seen = []
    clf.set_params(callbacks=(seen.append,)).fit(X, y)
    assert len(seen) == len(clf.history_), "callbacks see a warm start too"
    assert clf.history_[0].loss < before
    assert clf.verify().answer == "verified"


def test_class_and_sample_weights_shift_decisions(table):
    X, y = table.drop(columns="grant"), table["grant"]
    longer = QUICK | {"epochs": 20}
    heavy = FairClassifier(["sex"], class_weight={"no": 1, "yes": 50}, **longer).fit(X, y)
    light = FairClassifier(["sex"], **longer).fit(X, y, sample_weight=np.where(y == "yes", 0.02, 1.0))
    assert np.mean(heavy.predict(X) == "yes") > 0.9 > 0.1 > np.mean(light.predict(X) == "yes")


@pytest.mark.parametrize("init", ["bernoulli", "near_zero:scale=1e-8", "constant", "exact"])
def test_every_fair_start_is_confirmed_before_training(table, init):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        clf = FairClassifier(["sex"], init=init, **QUICK).fit(table.drop(columns="grant"), table["grant"])
    assert clf.start_.attempts[-1].verdict == "verified"
    assert clf.certificate_.start["attempts"][-1]["verdict"] == "verified"


def test_a_start_that_is_not_fair_is_refused(table):
    X, y = table.drop(columns="grant"), table["grant"]
    unfair = FairClassifier(["sex"], response="none", epochs=40, hidden=(16,), learning_rate=0.02).fit(X, y)
    with pytest.raises(NoFairStart, match="init='exact', which is fair by construction"):
        FairClassifier(["sex"], init=unfair.model_, **QUICK).fit(X, y)


def test_going_on_from_a_verified_model(table, fitted):
    X, y = table.drop(columns="grant"), table["grant"]
    clf = FairClassifier(["sex", "race"], init=fitted.model_, **QUICK).fit(X, y)
    assert clf.start_.verdict.proof == "structural" and clf.verify().answer == "verified"
    assert clf.history_[0].loss < fitted.history_[0].loss


def test_sampled_response_and_large_gamma_say_that_nothing_is_certified(table):
    X, y = table.drop(columns="grant"), table["grant"]
    with pytest.warns(FairnessWarning, match="sampled response keeps fairness in expectation only"):
        sampled = FairClassifier(["sex"], response="sampled", draws=2, **QUICK).fit(X, y)
    assert sampled.certificate_.verdict.answer == "undecided"
    assert "ε = 0 for each draw" in sampled.certificate_.response["local_privacy"]
    with pytest.warns(FairnessWarning) as caught:
        private = FairClassifier(["sex"], response="sampled", gamma=1.5, draws=2, **QUICK).fit(X, y)
    assert any("no fairness is certified (γ = 0 preserves it)" in str(w.message) for w in caught)
    draws = 2 * len(private.history_)
    expected = f"ε = 1.5 for each draw, ε = {1.5 * draws:g} for all {draws} draws"
    assert expected in private.certificate_.response["local_privacy"]
    with pytest.warns(FairnessWarning):
        exact = FairClassifier(["sex"], gamma=1.5, **QUICK).fit(X, y)
    assert exact.certificate_.response["local_privacy"].startswith("none: the exact expectation")


def test_the_papers_preset_starts_as_the_paper_prints_and_says_that_it_hardly_learns(table):
    X, y = table.drop(columns="grant"), table["grant"]
    with pytest.warns(UserWarning, match=r"the start has ±4.5e-05 in every layer.*may learn nothing; init='exact'"):
        clf = FairClassifier(["sex"], preset="paper", epochs=5).fit(X, y)
    assert len(set(clf.predict(X))) == 1 and clf.certificate_.verdict.proof == "bounds"
    with pytest.warns(UserWarning, match="The model is constant") as caught:
        fair = FairClassifier(["sex"], preset="paper", init="exact", epochs=5).fit(X, y)
    assert len(caught) == 1 and "preset 'default', or init 'exact' with learning rate 0.1" in str(caught[0].message)
    assert fair.certificate_.verdict.proof == "structural"


def test_a_saved_model_is_the_same_model(table, fitted, tmp_path):
    X = table.drop(columns="grant")
    path = fitted.save(tmp_path / "bundle")
    again = load(path)
    assert again.scores(X).tobytes() == fitted.model_.scores(X).tobytes()
    assert (again.predict(X) == fitted.predict(X)).all()
    assert again.certificate == fitted.certificate_
    assert again.verify().answer == "verified"
    assert sorted(p.name for p in path.iterdir()) == [
        "certificate.json",
        "domain.json",
        "model.onnx",
        "report.html",
    ]
    assert fitted.save(path) == path, "saving again replaces the bundle"


def test_checkpointed_fits_go_on(table, tmp_path):
    X, y = table.drop(columns="grant"), table["grant"]
    options = {"epochs": 8, "hidden": (16,), "validation_fraction": 0.0}
    whole = FairClassifier(["sex"], **options).fit(X, y)

    def stop(epoch):
        if epoch.record.epoch == 5:
            raise KeyboardInterrupt

    path = tmp_path / "fit.safetensors"
    with pytest.raises(KeyboardInterrupt):
        FairClassifier(["sex"], checkpoint=path, callbacks=(stop,), **options).fit(X, y)
    seen = []
    resumed = FairClassifier(["sex"], checkpoint=path, callbacks=(lambda e: seen.append(1),), **options).fit(X, y)
    assert bytes_of(resumed) == bytes_of(whole) and len(seen) == 4


def test_decisions_agree_with_probabilities_and_scores(table, fitted):
    X = table.drop(columns="grant")
    probabilities = fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (fitted.predict(X) == np.where(fitted.decision_function(X) > 0, "yes", "no")).all()
    assert (fitted.predict(X) == fitted.classes_[np.argmax(probabilities, axis=1)]).all()
    assert (decisions(fitted.model_.scores(X)) == np.argmax(probabilities, axis=1)).all()


def test_missing_values_can_be_imputed_on_request(table):
    gaps = table.assign(job=table["job"].where(table["age"] > 25), income=table["income"].where(table["age"] < 70))
    X, y = gaps.drop(columns="grant"), gaps["grant"]
    with pytest.raises(InputError, match="has a missing value"):
        FairClassifier(["sex"], missing="error", **QUICK).fit(X, y)
    clf = FairClassifier(["sex"], missing="impute", **QUICK).fit(X, y)
    assert clf.predict(X).shape == (len(X),) and clf.verify().answer == "verified"
    assert clf.domain_.gappy == () and clf.n_features_in_ == X.shape[1]


def test_missing_values_are_learnt_as_values_of_their_own():
    # Whether x is there is all that counts.
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=400), "sex": rng.choice(["f", "m"], 400)})
    gone = rng.random(400) < 0.5
    X.loc[gone, "x"] = np.nan
    clf = FairClassifier(["sex"], hidden=[4], epochs=60, random_state=0).fit(X, gone.astype(int))
    assert (clf.predict(X) == gone).mean() > 0.85 and clf.certificate_.verdict.proof == "structural"
    assert clf.domain_.gappy == ("x",) and clf.model_.encoding.column_names()[:2] == ["x", "x is missing"]
    array = FairClassifier(hidden=[4], epochs=1).fit(X[["x"]].to_numpy(), gone)
    assert array.domain_.gappy == ("x0",)
    with pytest.raises(InputError, match="sensitive column 'x' is a number with gaps in"):
        FairClassifier(["x"], hidden=[4], epochs=1).fit(X, gone)


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"sensitive_features": ["sexx"]}, {}, "sensitive feature 'sexx' is not in the table; did you mean 'sex'"),
        ({"sensitive_features": [99]}, {}, "sensitive feature 99 is out of range; there are 6 columns, from 0"),
        ({"preset": "best"}, {}, "preset='best' is not known; use one of 'default', 'paper'"),
        ({"epochs": -1}, {}, "epochs must be a whole number of at least 0, found -1"),
        ({"gamma": float("inf")}, {}, "gamma must be a finite number, found inf"),
        ({"init": "magic"}, {}, "start 'magic' is not known; use one of 'exact', 'plain', 'bernoulli'"),
        ({"combinations": "some"}, {}, "combinations must be 'all' or 'observed', found 'some'"),
        ({}, {"sex": "male"}, "sensitive feature 'sex' has the single value 'male': twins need at least two"),
        ({}, {"income": np.inf}, "column 'income' holds inf in row 0; numbers must be finite"),
    ],
)
def test_bad_choices_are_explained(table, options, change, message):
    X = table.drop(columns="grant").assign(**change)
    with pytest.raises(InputError, match=message):
        FairClassifier(**({"sensitive_features": ["sex"]} | QUICK | options)).fit(X, table["grant"])


def test_one_class_is_explained(table):
    with pytest.raises(
        InputError, match="the target has one class only, 'yes', in all 240 rows; a classifier needs at least two"
    ):
        FairClassifier(["sex"]).fit(table.drop(columns="grant"), pd.Series(["yes"] * len(table)))


def test_unseen_category_at_prediction_is_explained_if_asked_for(table):
    X = table.drop(columns="grant")
    strict = FairClassifier(["sex"], unseen="error", **QUICK).fit(X, table["grant"])
    with pytest.raises(
        InputError, match="column 'job' holds 'pilot' in row 0, which is not one of 'clerk', 'nurse', 'smith'"
    ):
        strict.predict(X.assign(job="pilot"))


def test_a_category_that_occurs_once_breaks_neither_a_split_nor_a_search(table):
    X = table.drop(columns="grant").assign(job=["pilot", *table["job"][1:]])
    X["race"] = ["once", *X["race"][1:]]  # sensitive, and not read
    later = FairClassifier(["race"], **QUICK).fit(X[1:], table["grant"][1:])
    assert later.predict(X).shape == (len(X),)
    assert later.certificate_.verdict.proof == "structural"
    scores = cross_val_score(FairClassifier(["race"], **QUICK), X, table["grant"], cv=2, error_score="raise")
    assert np.isfinite(scores).all()


def test_a_training_row_with_a_category_that_the_domain_does_not_know_is_said(table):
    X = table.drop(columns="grant")
    domain = Domain.infer(X, sensitive=["sex"])
    with pytest.warns(UserWarning, match="column 'job' holds 'pilot', and 3 rows in all hold values that are not in"):
        FairClassifier(["sex"], domain=domain, **QUICK).fit(
            X.assign(job=["pilot"] * 3 + list(X["job"][3:])), table["grant"]
        )


# --- constants, sentinels, standardised codes ---


def clean_people(count, seed):
    random = np.random.default_rng(seed)
    X = pd.DataFrame({"income": random.normal(50, 12, count), "debt": random.normal(20, 6, count)})
    X["sex"] = random.integers(0, 2, count)
    return X, (X["income"] - X["debt"] + random.normal(0, 6, count) > 30).astype(int)


@pytest.fixture(scope="module")
def honest():
    """A table of 2,000, and the accuracy on rows kept aside."""
    X, y = clean_people(2500, seed=2)
    return X, y, accuracy_kept_aside(X, y)


def accuracy_kept_aside(X, y):
    clf = FairClassifier(["sex"], epochs=30, hidden=(8,)).fit(X[:2000], y[:2000])
    assert clf.certificate_.verdict.answer == "verified"
    return float((clf.predict(X[2000:]) == y[2000:]).mean())


def test_a_constant_column_costs_nothing_and_is_said(honest):
    X, y, clean = honest
    with pytest.warns(UserWarning, match="column 'rate' has the one value 0.19 and is left out"):
        assert accuracy_kept_aside(X.assign(rate=0.19), y) > clean - 0.005


@pytest.mark.parametrize("value", [99999, -1e12])
def test_ten_sentinels_in_two_thousand_rows_cost_nothing_and_are_said(honest, value):
    X, y, clean = honest
    dirty = X.assign(income=[value] * 10 + list(X["income"][10:]))
    with pytest.warns(UserWarning, match="column 'income' holds .* 10 times, far from the others"):
        assert accuracy_kept_aside(dirty, y) > clean - 0.005


def test_the_first_of_many_batches_does_not_say_what_lies_far_out(table):
    X, y = table.drop(columns="grant"), table["grant"]
    first = X.assign(age=30)
    clf = FairClassifier(["sex"], **QUICK).partial_fit(first, y, classes=["no", "yes"])
    assert all(not scale.holding for scale in clf.model_.encoding.scales.values())


def test_a_bundle_keeps_where_numbers_are_held(tmp_path, honest):
    X, y, _ = honest
    dirty = X.assign(income=[99999] * 10 + list(X["income"][10:]), rate=0.19)
    with pytest.warns(UserWarning):
        clf = FairClassifier(["sex"], epochs=2, hidden=(4,)).fit(dirty, y)
    back = load(clf.save(tmp_path / "bundle"))
    assert back.encoding == clf.model_.encoding and back.encoding.scales["income"].holding
    far = dirty.assign(rate=1e6, income=1e7)
    assert (back.decision_function(far) == clf.decision_function(far)).all()
    assert (back.decision_function(far.assign(rate=0.19)) == clf.decision_function(far)).all()
    verdict = checker.check(tmp_path / "bundle")
    assert verdict["valid"] and verdict["proof"] == "structural"
    assert clf.model_.certified().certificate.verdict.answer == "verified"


def test_a_standardised_sex_is_a_category_of_two_values(table):
    sex = (table["sex"] == table["sex"][0]).astype(float)
    X = table.drop(columns=["grant", "sex"]).assign(sex=(sex - sex.mean()) / sex.std())
    clf = FairClassifier(["sex"], **QUICK).fit(X, table["grant"])
    assert clf.domain_.feature("sex").levels() == tuple(sorted(X["sex"].unique()))
    assert clf.domain_.feature("income").kind == "real"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["yes", None, "no", "yes"], "the target is missing .NaN. in 1 of 4 rows, the first at position 1"),
        ([1.0, 0.0, float("nan"), 1.0], "the target is missing .NaN. in 1 of 4 rows, the first at position 2"),
        ([0.5, 1.5, 0.5, 1.5], "the target cannot be classes .Unknown label type"),
        ([b"a", b"b", b"a", b"b"], "the target cannot be classes"),
        ([1, "a", 1, "a"], "the target cannot be classes .*; give whole numbers, texts or true/false, not a mixture"),
    ],
)
def test_labels_that_are_no_classes_are_explained(labels, message):
    table = pd.DataFrame({"x": [1, 2, 3, 4], "sex": ["a", "b", "a", "b"]})
    with pytest.raises(InputError, match=message):
        FairClassifier(["sex"], epochs=1, hidden=(2,)).fit(table, pd.Series(labels))


def test_one_sensitive_feature_needs_no_list(people):
    X, y = people.drop(columns="grant"), people["grant"]
    one, several = (FairClassifier(names, hidden=[4], epochs=1).fit(X, y) for names in ("race", ["race"]))
    assert one.domain_ == several.domain_ and one.domain_.sensitive == ("race",)
