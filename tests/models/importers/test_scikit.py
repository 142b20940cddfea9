"""scikit-learn's classifiers and pipelines: read as they are in memory, and from the ONNX files skl2onnx writes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from skl2onnx import convert_sklearn, to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from bornfair import verify
from bornfair.core.errors import InputError
from bornfair.importers import source as source_module
from bornfair.people.domain import Domain
from bornfair.people.twins.versions import Versions
from bornfair.questions.loading import load_model
from interop_models import disagreements
from samples import make_people

pytestmark = pytest.mark.slow

TABLE = make_people(200, seed=3)
PEOPLE = TABLE.drop(columns=["grant", "owner"])
NUMBERS = PEOPLE[["age", "income"]]
GRANT, RACE = TABLE["grant"], TABLE["race"]


def perceptron(activation: str = "relu") -> MLPClassifier:
    return MLPClassifier((4, 3), activation=activation, max_iter=30, learning_rate_init=0.05, random_state=1)


def fitted(model: Any, table: Any, answers: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(table, answers)


def exported(model: Any, path: Path, *, pipeline: bool = False, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if pipeline:
            kinds = [("age", Int64TensorType([None, 1])), ("income", FloatTensorType([None, 1]))]
            kinds += [(name, StringTensorType([None, 1])) for name in ("job", "sex", "race")]
            made = convert_sklearn(model, initial_types=kinds, options=options or None)
        else:
            made = to_onnx(model, NUMBERS[:1].to_numpy(np.float32), options=options or None)
    path.write_bytes(made.SerializeToString())
    return path


def encoders(**options: Any) -> ColumnTransformer:
    parts = [
        ("numbers", StandardScaler(), ["age", "income"]),
        ("categories", OneHotEncoder(**options), ["job", "sex", "race"]),
    ]
    return ColumnTransformer(parts)


# --- as they are in memory ---


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_a_perceptron_decides_as_scikit_learn_does(activation: str) -> None:
    estimator = fitted(make_pipeline(StandardScaler(), perceptron(activation)), NUMBERS, GRANT)
    model = load_model(estimator, table=TABLE, target="grant", sensitive=["age"])
    assert disagreements(model) == 0
    assert model.domain.names == ("age", "income")  # of what the model does not read only the sensitive columns count
    assert model.classes.tolist() == ["no", "yes"]
    assert model.domain.label is not None
    assert model.domain.label.name == "grant"
    rows = model.domain.sample(100, seed=0)
    assert np.allclose(model.predict_proba(rows), estimator.predict_proba(rows), atol=1e-5)


@pytest.mark.parametrize(
    "estimator", [LogisticRegression(), perceptron(), LinearSVC(), RidgeClassifier(), Perceptron()]
)
@pytest.mark.parametrize("answers", [GRANT, RACE], ids=["two classes", "three classes"])
def test_two_and_three_classes_are_decided_as_by_scikit_learn(estimator: Any, answers: pd.Series) -> None:
    pipeline = fitted(make_pipeline(RobustScaler(), estimator), NUMBERS, answers)
    model = load_model(pipeline, table=TABLE, sensitive=["age"])
    assert disagreements(model) == 0
    assert model.classes.tolist() == sorted(set(answers))


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_a_pipeline_with_categories_decides_as_scikit_learn_does(drop: str | None) -> None:
    estimator = fitted(Pipeline([("p", encoders(drop=drop)), ("m", perceptron())]), PEOPLE, GRANT)
    model = load_model(estimator, table=TABLE, target="grant", sensitive=["sex", "race"])
    assert disagreements(model) == 0
    assert model.domain.feature("job").levels() == ("clerk", "nurse", "smith")


def test_every_transformer_is_read(tmp_path: Path) -> None:
    parts = [
        ("clipped", make_pipeline(SimpleImputer(), MinMaxScaler(clip=True)), [0]),
        ("scaled", MinMaxScaler(), slice(1, 2)),
        ("turned", make_pipeline(StandardScaler(), PCA(2), SelectKBest(k=1)), ["age", "income"]),
        ("ordered", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["job"]),
        ("kept", "passthrough", ["owner"]),
        ("gone", "drop", ["race"]),
        ("hot", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["sex"]),
    ]
    table = TABLE.drop(columns="grant")
    search = GridSearchCV(
        Pipeline([("p", ColumnTransformer(parts)), ("m", LogisticRegression())]), {"m__C": [1.0]}, cv=2
    )
    estimator = fitted(search, table, GRANT)
    model = load_model(estimator, table=TABLE, target="grant", sensitive=["job", "owner"])
    assert disagreements(model) == 0
    assert "race" not in model.domain.names


def test_versions_of_people_are_decided_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = fitted(Pipeline([("p", encoders()), ("m", perceptron())]), PEOPLE, GRANT)
    model = load_model(estimator, table=TABLE, target="grant", sensitive=["sex", "race"])
    versions, asked, ask = Versions(model.domain), [], model.original.decide
    tables = [versions.table(PEOPLE[:50], i) for i in range(versions.size)]
    apart = np.stack([ask(table) for table in tables], axis=1)
    model.original.decide = lambda table: asked.append(len(table)) or ask(table)
    assert np.array_equal(model.original.decide_versions(iter(tables)), apart) and asked == [50 * versions.size]
    monkeypatch.setattr(source_module, "TOGETHER", 120)
    assert np.array_equal(model.original.decide_versions(tables), apart) and set(asked[1:]) == {100}
    assert model.original.decide_versions([table[:0] for table in tables]).shape == (0, versions.size)


def test_an_imputer_gets_numbers_of_the_kind_it_was_fitted_with() -> None:
    fill = SimpleImputer(strategy="constant", fill_value=-1)
    estimator = fitted(make_pipeline(fill, StandardScaler(), LogisticRegression()), NUMBERS.astype(float), GRANT)
    model = load_model(estimator, table=TABLE, sensitive=["age"])
    whole = pd.DataFrame([dict.fromkeys(NUMBERS.columns, 1)])  # as people with whole numbers are replayed
    assert model.original.decide(whole).tolist() == (estimator.predict(whole.astype(float)) == "yes").tolist()


def test_a_whole_number_that_is_looked_up_becomes_a_category() -> None:
    numbered = PEOPLE.assign(job=PEOPLE["job"].map({"clerk": 0, "nurse": 1, "smith": 2}))[["age", "income", "job"]]
    parts = [("n", StandardScaler(), ["age", "income"]), ("c", OneHotEncoder(), ["job"])]
    estimator = fitted(Pipeline([("p", ColumnTransformer(parts)), ("m", LogisticRegression())]), numbered, GRANT)
    for given in ({"table": numbered}, {"domain": Domain.infer(numbered)}):
        model = load_model(estimator, sensitive=["job"], **given)
        assert model.domain.feature("job").levels() == (0, 1, 2)
        assert disagreements(model) == 0


def test_any_feature_of_an_imported_model_may_be_asked_about() -> None:
    pipeline = Pipeline([("p", encoders()), ("m", LogisticRegression())])
    estimator = fitted(pipeline, PEOPLE, GRANT)
    coefficients = estimator.named_steps["m"].coef_
    coefficients[:, -3:] = 0.25  # the same for every race: then race does not matter
    race = load_model(estimator, table=TABLE, target="grant", sensitive=["race"])
    sex = load_model(estimator, table=TABLE, target="grant", sensitive=["sex"])
    assert race.ignores_sensitive
    assert not sex.ignores_sensitive
    assert disagreements(race) == disagreements(sex) == 0
    assert verify(race).answer == "verified"
    assert verify(sex).answer == "falsified"


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KNeighborsClassifier(2), r"step 'KNeighborsClassifier' .* is not supported; MLPClassifier"),
        (
            make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()),
            r"\(FunctionTransformer\) applies a function",
        ),
        (make_pipeline(MinMaxScaler(clip=True), perceptron("tanh")), "mixes tanh .* with relu"),
    ],
)
def test_what_cannot_be_read_of_a_pipeline_is_named(estimator: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(fitted(estimator, NUMBERS, GRANT), table=TABLE, sensitive=["age"])


def test_an_estimator_that_is_not_fitted_says_so() -> None:
    with pytest.raises(InputError, match="not fitted"):
        load_model(MLPClassifier(), table=TABLE, sensitive=["age"])


def test_ranges_of_numbers_must_be_given() -> None:
    estimator = fitted(Pipeline([("p", encoders()), ("m", LogisticRegression())]), PEOPLE, GRANT)
    with pytest.raises(InputError, match=r"give a domain with the ranges of 'age', 'income', or a table"):
        load_model(estimator, sensitive=["sex"])


# --- as skl2onnx writes them ---


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
@pytest.mark.parametrize("zipmap", [True, False])
def test_an_exported_perceptron_decides_as_its_file(activation: str, zipmap: bool, tmp_path: Path) -> None:
    estimator = fitted(make_pipeline(StandardScaler(), perceptron(activation)), NUMBERS.to_numpy(np.float32), GRANT)
    path = exported(estimator, tmp_path / "m.onnx", zipmap=zipmap)
    model = load_model(path, table=TABLE[["age", "income", "grant"]], target="grant", sensitive=["age"])
    assert disagreements(model) == 0
    assert model.network.widths == (2, 4, 3, 1)
    assert model.classes.tolist() == ["no", "yes"]
    assert model.original is not None
    assert model.original.largest_difference is not None
    assert model.original.largest_difference < 1e-4
    rows = model.domain.sample(2_000, seed=0)
    agree = model.predict(rows) == estimator.predict(rows.to_numpy(np.float32))
    assert agree.mean() > 0.999  # and as the estimator it came from


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"zipmap": "columns"}, {"raw_scores": True, "zipmap": False}], ids=str)
def test_an_exported_logistic_regression_decides_as_its_file(
    classes: int, options: dict[str, Any], tmp_path: Path
) -> None:
    answers = (GRANT == "yes").astype(int) if classes == 2 else RACE
    estimator = fitted(LogisticRegression(), NUMBERS.to_numpy(np.float32), answers)
    path = exported(estimator, tmp_path / "m.onnx", **options)
    model = load_model(path, table=NUMBERS, sensitive=["age"])
    assert disagreements(model) == 0
    assert model.classes.tolist() == sorted(set(answers))


@pytest.mark.parametrize("final", [perceptron(), perceptron("tanh"), LogisticRegression()], ids=str)
def test_an_exported_pipeline_with_text_categories_decides_as_its_file(final: Any, tmp_path: Path) -> None:
    estimator = fitted(Pipeline([("p", encoders(handle_unknown="ignore")), ("m", final)]), PEOPLE, GRANT)
    path = exported(estimator, tmp_path / "m.onnx", pipeline=True)
    model = load_model(path, table=TABLE, target="grant", sensitive=["sex", "race"])
    assert disagreements(model) == 0
    assert model.domain.names == ("age", "income", "job", "sex", "race")
    assert model.classes.tolist() == ["no", "yes"]


def test_ordinal_codes_dropped_columns_and_imputers_survive_the_export(tmp_path: Path) -> None:
    parts = [
        ("numbers", make_pipeline(SimpleImputer(), MinMaxScaler()), ["income"]),
        ("age", "passthrough", ["age"]),
        ("hot", OneHotEncoder(drop="if_binary"), ["job", "sex"]),
        ("ordered", OrdinalEncoder(), ["race"]),
    ]
    estimator = fitted(Pipeline([("p", ColumnTransformer(parts)), ("m", LogisticRegression())]), PEOPLE, GRANT)
    path = exported(estimator, tmp_path / "m.onnx", pipeline=True, zipmap=False)
    who = Domain.infer(PEOPLE, sensitive=["race"])
    model = load_model(path, domain=who)
    assert disagreements(model) == 0
    assert model.domain.sensitive == ("race",)
    assert load_model(path, domain=who, sensitive=["sex"]).domain.sensitive == ("sex",)


def test_one_tensor_whose_columns_are_partly_categories_is_taken_apart(tmp_path: Path) -> None:
    coded = NUMBERS.assign(job=PEOPLE["job"].map({"clerk": 0, "nurse": 1, "smith": 2}))
    rows = coded.to_numpy(np.float32)
    parts = [("n", StandardScaler(), [0, 1]), ("c", OneHotEncoder(categories=[[0, 1, 2]]), [2])]
    estimator = fitted(Pipeline([("p", ColumnTransformer(parts)), ("m", perceptron())]), rows, GRANT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = to_onnx(estimator, rows[:1]).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(content)
    model = load_model(tmp_path / "m.onnx", table=coded, sensitive=["job"])
    assert model.domain.feature("job").levels() == (0, 1, 2)
    assert disagreements(model) == 0


def test_declared_twins_of_an_imported_model_are_confirmed_by_the_original() -> None:
    """A model that reads only the job: a change of sex alone decides nothing, but clerk ↔ nurse does."""
    estimator = fitted(Pipeline([("p", encoders()), ("m", LogisticRegression())]), PEOPLE, GRANT)
    weights = estimator.named_steps["m"].coef_
    weights[:] = 0.0
    weights[0, 2:5] = [3.0, -3.0, 0.0]  # clerk, nurse, smith
    estimator.named_steps["m"].intercept_[:] = 1.0
    alone = load_model(estimator, table=TABLE, target="grant", sensitive=["sex"])
    both = load_model(alone, twins="sex: female<->male, job: clerk<->nurse")
    assert verify(alone).answer == "verified"
    found = verify(both)
    assert found.answer == "falsified"
    assert found.twins is not None
    assert both.original is not None
    one, other = both.original.decide(pd.DataFrame(found.twins))
    assert one != other


@pytest.mark.parametrize("exports", [False, True])
def test_standardised_codes_are_lists_of_values_and_the_model_reads_the_number(tmp_path: Path, exports: bool) -> None:
    codes = TABLE[["sex", "job"]].apply(lambda column: pd.factorize(column)[0].astype(float)).assign(age=TABLE["age"])
    table = (codes - codes.mean()) / codes.std()
    estimator: Any = fitted(perceptron(), table, GRANT)
    if exports:
        estimator = tmp_path / "model.onnx"
        exporting = fitted(perceptron(), table, GRANT)
        estimator.write_bytes(
            to_onnx(exporting, table.to_numpy(np.float32), options={"zipmap": False}).SerializeToString()
        )
    model = load_model(estimator, table=table, sensitive=["sex"])
    for name in ("sex", "job"):
        assert model.domain.feature(name).levels() == tuple(sorted(table[name].unique()))
    assert model.domain.feature("age").kind == "real"
    verdict = verify(estimator, table, sensitive_features=["sex"], timeout=10)
    assert verdict.answer == "falsified"
    assert {twin["sex"] for twin in verdict.twins} == set(table["sex"])
    assert {twin["job"] for twin in verdict.twins} <= set(table["job"])
