"""Pipelines of scikit-learn: imputers and encoders before any model decide as the estimator itself does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from bornfair.core.errors import InputError
from bornfair.people.policies import decidable
from bornfair.questions.loading import any_model, load_model

ROWS = 250
FINALS = {
    "logistic": lambda: LogisticRegression(),
    "ridge": lambda: RidgeClassifier(),
    "support vectors": lambda: LinearSVC(),
    "descent, hinge": lambda: SGDClassifier(random_state=0),
    "descent, logistic": lambda: SGDClassifier(loss="log_loss", random_state=0),
    "descent, Huber": lambda: SGDClassifier(loss="modified_huber", random_state=0),
    "discriminant": lambda: LinearDiscriminantAnalysis(),
    "perceptron": lambda: MLPClassifier((4,), max_iter=20, random_state=0),
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "extra trees": lambda: ExtraTreesClassifier(5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
}
KINDS = ("whole", "gaps", "objects", "None", "categories", "whole objects")
NUMBERS, TEXTS = ["age", "income"], ["job", "sex", "race"]


def people(kind: str, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng([seed, 3])
    table = pd.DataFrame({
        "age": random.integers(18, 80, ROWS).astype(float), "income": random.normal(30, 9, ROWS).round(2),
        "job": random.choice(["clerk", "nurse", "smith"], ROWS, p=[0.6, 0.3, 0.1]),
        "sex": random.choice(["f", "m"], ROWS), "race": random.choice(["a", "b", "c"], ROWS),
    })  # fmt: skip
    score = table.age / 40 + table.income / 60 + (table.job == "nurse") + (table.sex == "m") * 0.7
    answers = np.where(score + random.normal(0, 0.5, ROWS) > 2.1, "yes", "no")
    if kind == "whole objects":  # codes, as objects
        table["job"], table["race"] = table.job.map({"clerk": 0, "nurse": 1, "smith": 5}), table.race.map("abc".index)
        return table.astype({"job": object, "race": object}), answers
    if kind != "whole":
        for name in ("age", "job", "race"):
            table.loc[random.random(ROWS) < 0.1, name] = np.nan
    if kind in ("objects", "None"):
        table = table.astype(dict.fromkeys(TEXTS, object))
    if kind == "None":
        table = table.where(table.notna(), None).astype(dict.fromkeys(NUMBERS, float))
    return (table.astype(dict.fromkeys(TEXTS, "category")) if kind == "categories" else table), answers


def fitted(model: Any, table: Any, answers: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table, answers)


def standard(final: Any, encoder: Any = None, fill: Any = None) -> Pipeline:
    encoder = encoder or OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    parts = [
        ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
        ("texts", make_pipeline(fill or SimpleImputer(strategy="most_frequent"), encoder), TEXTS),
    ]
    return Pipeline([("prepare", ColumnTransformer(parts)), ("decide", final)])


def decides_alike(estimator: Any, table: pd.DataFrame, answers: Any, *, all_rows: bool = True) -> Any:
    """The model that was read; it gives the estimator's decisions and probabilities for each row of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load_model(estimator, table=table.assign(answer=answers), target="answer", sensitive=["sex"])
        rows, gaps = decidable(model.domain, table, model.original.fills)
        assert gaps.left_out == 0 or not all_rows
        asked = table.loc[rows.index]
        wanted = estimator.predict(asked)
        assert (model.predict(rows) == wanted).all() and len(set(wanted)) > 1
        if hasattr(estimator, "predict_proba") and "modified_huber" not in repr(estimator):
            assert np.allclose(model.predict_proba(rows), estimator.predict_proba(asked), atol=1e-4)
    return model


@pytest.mark.parametrize("final", FINALS)
def test_the_standard_pipeline_is_read_before_every_model(final: str) -> None:
    table, answers = people("gaps")
    model = decides_alike(fitted(standard(FINALS[final]()), table, answers), table, answers)
    forest = final in ("tree", "forest", "extra trees", "boosting", "histogram")
    assert type(model).__name__ == ("ForestModel" if forest else "FairModel")


@pytest.mark.parametrize("final", ["logistic", "forest"])
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_and_codes_are_read_however_the_table_writes_them(kind: str, final: str) -> None:
    table, answers = people(kind, seed=1)
    constant = (KINDS.index(kind) % 2 == 0) == (final == "forest")
    fill = SimpleImputer(strategy="constant", fill_value=9 if kind == "whole objects" else "none")
    estimator = fitted(standard(FINALS[final](), fill=fill if constant else None), table, answers)
    decides_alike(estimator, table, answers, all_rows=kind != "None")


ENCODERS: dict[str, Any] = {
    "first dropped": lambda: OneHotEncoder(drop="first"),
    "binary dropped": lambda: OneHotEncoder(drop="if_binary", handle_unknown="ignore"),
    "named dropped": lambda: OneHotEncoder(drop=["nurse", "f", "a"]),
    "infrequent": lambda: OneHotEncoder(min_frequency=80, handle_unknown="infrequent_if_exist"),
    "infrequent, first dropped": lambda: OneHotEncoder(min_frequency=80, drop="first"),
    "at most two": lambda: OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"),
    "ordinal": lambda: OrdinalEncoder(),
    "ordinal, unknown": lambda: OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "ordinal, infrequent": lambda: OrdinalEncoder(min_frequency=80),
    "ordinal, gap": lambda: OrdinalEncoder(encoded_missing_value=-2),
}


@pytest.mark.parametrize(("encoder", "final"), zip(ENCODERS, ["logistic", "boosting", "boosting"] * 4, strict=False))
def test_encoders_are_read_with_dropped_infrequent_and_unknown_categories(encoder: str, final: str) -> None:
    table, answers = people("gaps", seed=2)
    estimator = fitted(standard(FINALS[final](), ENCODERS[encoder]()), table, answers)
    model = decides_alike(estimator, table, answers)
    assert model.domain.feature("job").categories == ("clerk", "nurse", "smith")


@pytest.mark.parametrize("kind", ["gaps", "None"])
@pytest.mark.parametrize("encoder", ["infrequent", "ordinal, gap"])
@pytest.mark.parametrize("fill", [None, FunctionTransformer()], ids=["imputed", "as they are"])
def test_a_forest_reads_gaps_that_reach_the_encoder(encoder: str, kind: str, fill: Any) -> None:
    """None goes through an imputer of NaN, as a category of its own."""
    table, answers = people(kind, seed=3)
    estimator = standard(FINALS["forest"](), ENCODERS[encoder](), fill)
    model = decides_alike(fitted(estimator, table, answers), table, answers)
    assert model.domain.feature("job").missing


def test_a_gap_that_depends_on_the_batch_is_refused() -> None:
    """A data frame makes NaN of None, unless a column has nothing else."""
    table, answers = people("None", seed=3)
    estimator = standard(FINALS["forest"](), ENCODERS["ordinal, gap"]()).set_output(transform="pandas")
    with pytest.raises(InputError, match="an encoder knows NaN behind an imputer of NaN"):
        load_model(fitted(estimator, table, answers), table=table, sensitive=["sex"])


@pytest.mark.parametrize("final", ["discriminant", "tree"])
@pytest.mark.parametrize("remainder", ["passthrough", "drop", MinMaxScaler(clip=True)])
def test_remainders_and_data_frames_between_steps_are_read(remainder: Any, final: str) -> None:
    table, answers = people("whole", seed=4)
    pandas = (remainder == "drop") == (final == "tree")
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    first = ColumnTransformer([("texts", encoder, TEXTS), ("age", "passthrough", ["age"])], remainder=remainder)
    estimator = Pipeline([("first", first), ("decide", FINALS[final]())])
    if pandas:  # then a second one may take columns by the names that the first one makes
        second = ColumnTransformer([("age", StandardScaler(), ["age__age"])], remainder="passthrough")
        estimator.steps.insert(1, ("second", second))
        estimator.set_output(transform="pandas")
    model = decides_alike(fitted(estimator, table, answers), table, answers)
    assert ("income" in model.domain.names) == (remainder != "drop")


@pytest.mark.parametrize("final", ["logistic", "tree"])
@pytest.mark.parametrize(
    ("imputer", "message"),
    [
        (SimpleImputer(strategy="median", add_indicator=True), r"\(SimpleImputer\) marks what was missing"),
        (
            SimpleImputer(strategy="median", missing_values=-1),
            r"\(SimpleImputer\) fills in -1 instead of NaN, which is not",
        ),
        (FunctionTransformer(np.log1p), r"\(FunctionTransformer\) applies a function of yours"),
    ],
)
def test_a_step_that_is_not_read_is_named_and_the_model_is_asked_from_outside(
    imputer: Any, message: str, final: str
) -> None:
    table, answers = people("whole")
    estimator = fitted(make_pipeline(imputer, FINALS[final]()), table[NUMBERS], answers)
    with pytest.raises(InputError, match=message):
        load_model(estimator, table=table, sensitive=["age"])
    assert "marks" in message or any_model(estimator, table=table, sensitive=["age"]).unread


def test_an_encoder_that_knows_two_kinds_of_gap_is_refused() -> None:
    table = pd.DataFrame({"job": pd.Series(["a", "b", None, np.nan] * 20, dtype=object), "age": range(80)})
    estimator = make_pipeline(ColumnTransformer([("j", OneHotEncoder(), ["job"]), ("a", "passthrough", ["age"])]))
    estimator.steps.append(("decide", LogisticRegression()))
    fitted(estimator, table, table["age"] > 40)
    with pytest.raises(InputError, match="knows both None and NaN as categories"):
        load_model(estimator, table=table, sensitive=["age"])


@pytest.mark.parametrize("final", ["logistic", "tree"])
def test_whole_numbers_that_a_table_does_not_hold_are_no_categories(final: str) -> None:
    table, answers = people("whole objects")
    encoder = OneHotEncoder(sparse_output=False)  # which refuses what it does not know
    for given in (table, table.astype({"job": int, "race": int})):
        model = decides_alike(fitted(standard(FINALS[final](), encoder), given, answers), given, answers)
        assert model.domain.feature("job").levels() == (0, 1, 5)


@pytest.mark.parametrize("final", ["logistic", "tree"])
def test_rows_of_objects_without_names_are_read(final: str) -> None:
    """An encoder that was fitted on an array of objects does not take an array of numbers."""
    table, answers = people("whole objects")
    rows = table[["age", "job", "race"]].to_numpy(object)
    parts = [("n", StandardScaler(), [0]), ("c", OneHotEncoder(sparse_output=False), [1, 2])]
    estimator = fitted(Pipeline([("p", ColumnTransformer(parts)), ("m", FINALS[final]())]), rows, answers)
    model = load_model(estimator, table=table[["age", "job", "race"]], sensitive=["race"])
    assert (model.predict(table) == estimator.predict(rows)).all()


@pytest.mark.parametrize("response", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("final", ["descent, logistic", "descent, Huber", "discriminant", "logistic"])
def test_a_fixed_threshold_is_read_of_every_linear_model(final: str, response: str) -> None:
    table, answers = people("gaps", seed=5)
    favoured = "no" if "descent" in final and response == "predict_proba" else "yes"
    inner = fitted(standard(FINALS[final]()), table, answers)
    at = 0.35 if response == "predict_proba" else 0.8
    estimator = FixedThresholdClassifier(inner, threshold=at, response_method=response, pos_label=favoured)
    fitted(estimator, table, answers)
    model = load_model(estimator, table=table.assign(a=answers), target="a", sensitive=["sex"])
    rows, _ = decidable(model.domain, table, model.original.fills)
    wanted = estimator.predict(table)
    assert (model.predict(rows) == wanted).all() and 0 < np.mean(wanted == inner.predict(table)) < 1


@pytest.mark.parametrize("final", ["descent, hinge", "descent, logistic", "descent, Huber", "discriminant"])
def test_linear_models_of_three_classes_decide_as_their_predict(final: str) -> None:
    table, answers = people("whole", seed=6)
    answers = np.where(table.income > 35, "rich", answers)
    estimator = fitted(standard(FINALS[final]()), table, answers)
    model = load_model(estimator, table=table.assign(a=answers), target="a", sensitive=["sex"])
    assert (model.predict(table) == estimator.predict(table)).all() and len(model.classes) == 3
