"""Small forests of every source, asked in every way, beside everybody who could exist, looked at one by one.

Every second case is a record made at random (`random_forests`: ties, sets of categories, several classes, declared
twins); the others were trained by XGBoost, LightGBM, CatBoost or scikit-learn, or went through ONNX, and are looked at
by what their own library decides.

make nightly ONLY="small forests" COUNT=4000
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.forest.model import ForestModel
from bornfair.people.domain import Domain
from bornfair.people.features import BooleanFeature, CategoricalFeature, IntegerFeature, Label
from bornfair.quantification.cells import shares_of_forest
from bornfair.quantification.population import shares_of_rows
from bornfair.questions.loading import load_model
from bornfair.verification.decide import decide
from fuzzing import Summary
from random_forests import everybody, random_forest_model, some_limits, within

CLOSE = 1e-9
ENGINES = ("auto", "bounds", "milp")


def run(count: int, seed: int) -> Summary:
    summary = Summary(count)
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            name, problem = _of_a_record(rng) if i % 2 else _of_a_library(rng)
        summary.outcomes[name] += 1
        if problem:
            summary.wrong.append(f"case {seed} {i} ({name}): {problem}")
    return summary


def _of_a_record(rng: np.random.Generator) -> tuple[str, str | None]:
    model = random_forest_model(rng)
    truth, limits = everybody(model), some_limits(rng, model)
    if any(model.domain.feature(name).kind == "real" for name in model.domain.twin_group.moved):
        limits = {}  # at the very end of a range, a mirrored number may be no float, and is rounded by who looks at it
    inside = within(model, truth.people, limits)
    return "a record", _asked(model, truth.weights, truth.unfair, rng) or _wrong(
        decide(model, timeout=Clock(20.0), where=limits), bool(truth.unfair[inside].any()), "where"
    )


def _asked(model: ForestModel, weights: np.ndarray, unfair: np.ndarray, rng: np.random.Generator) -> str | None:
    """What is wrong with the answers, if these are the people."""
    engine = str(rng.choice(ENGINES))
    found = shares_of_forest(model, timeout=20.0, samples=64, most_samples=64, most_boxes=int(rng.integers(1, 64)))
    share = float(weights[unfair].sum())
    if found.falsified > share + CLOSE or found.certified > 1 - share + CLOSE:
        return f"{share} are unfair, but {found.certified} are said to be fair, and {found.falsified} not"
    return _wrong(decide(model, engine=engine, timeout=Clock(20.0)), bool(unfair.any()), engine)  # type: ignore[arg-type]


def _wrong(verdict: Any, unfair: bool, how: str) -> str | None:
    if verdict.answer in ("undecided", "falsified" if unfair else "verified"):
        return None
    return f"{how} says {verdict.answer}: {verdict.reason}; twins {verdict.twins}"


# --- trained ones ---


def _xgboost(rng: np.random.Generator) -> Any:
    import xgboost

    return xgboost.XGBClassifier(
        n_estimators=int(rng.integers(1, 6)), max_depth=3, booster=str(rng.choice(["gbtree", "gbtree", "dart"])),
        rate_drop=0.3, n_jobs=1, learning_rate=0.5, enable_categorical=True,
    )  # fmt: skip


def _lightgbm(rng: np.random.Generator) -> Any:
    import lightgbm

    kind = str(rng.choice(["gbdt", "gbdt", "dart"]))
    return lightgbm.LGBMClassifier(
        n_estimators=int(rng.integers(1, 6)),
        num_leaves=6,
        min_child_samples=3,
        boosting_type=kind,
        verbose=-1,
        n_jobs=1,
    )


def _catboost(rng: np.random.Generator) -> Any:
    import catboost

    return catboost.CatBoostClassifier(
        iterations=int(rng.integers(1, 6)), depth=3, verbose=False, allow_writing_files=False, thread_count=1,
        grow_policy=str(rng.choice(["SymmetricTree", "Lossguide"])),
    )  # fmt: skip


def _scikit(name: str, **options: Any) -> Callable[[np.random.Generator], Any]:
    def made(rng: np.random.Generator) -> Any:
        from sklearn import ensemble, tree

        family = tree if name.startswith("DecisionTree") else ensemble
        return getattr(family, name)(random_state=int(rng.integers(1000)), **options)

    return made


SOURCES: dict[str, Callable[[np.random.Generator], Any]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "tree": _scikit("DecisionTreeClassifier", max_depth=4),
    "random forest": _scikit("RandomForestClassifier", n_estimators=5, max_depth=3),
    "extra trees": _scikit("ExtraTreesClassifier", n_estimators=4, max_depth=3),
    "boosting": _scikit("GradientBoostingClassifier", n_estimators=4),
    "histogram": _scikit("HistGradientBoostingClassifier", max_iter=4, min_samples_leaf=3),
    "onnx": _scikit("RandomForestClassifier", n_estimators=5, max_depth=3),
}


def _of_a_library(rng: np.random.Generator) -> tuple[str, str | None]:
    name = str(rng.choice(list(SOURCES)))
    classes = 3 if rng.random() < 0.3 else 2
    features = (
        IntegerFeature(name="age", low=0, high=int(rng.integers(2, 6))),
        CategoricalFeature(name="land", categories=(0, 1, 2)),
        IntegerFeature(name="hours", low=-1, high=2),
        BooleanFeature(name="sex"),
    )
    values = [list(feature.levels()) for feature in features]
    names = [feature.name for feature in features]
    grid = pd.DataFrame(list(itertools.product(*values)), columns=names).astype({"sex": int, "land": int})
    rows = grid.sample(60, replace=True, random_state=int(rng.integers(10**6)))
    noise = rng.normal(0, 0.8, len(rows))
    score = rows["age"] / 2 + rows["hours"] * (rows["land"] == 1) + rng.choice([0.0, 0.3, 1.0]) * rows["sex"] + noise
    answers = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    fitted = SOURCES[name](rng).fit(rows, answers)
    domain = Domain(features=features, sensitive=("sex",), label=Label(name="y", classes=tuple(range(classes))))
    model = _through_onnx(fitted, domain) if name == "onnx" else load_model(fitted, domain=domain)
    if not isinstance(model, ForestModel):
        return name, "it was not read as a forest"
    decided = np.asarray(fitted.predict(grid)).ravel().astype(int).reshape(-1, 2)
    unfair = decided[:, 0] != decided[:, 1]
    free = grid.iloc[::2].drop(columns="sex").reset_index(drop=True)
    told = shares_of_rows(model, free).counts
    assert told is not None
    if told["falsified"] > unfair.sum() or told["certified"] > (~unfair).sum():
        return name, f"{unfair.sum()} of {len(unfair)} rows are unfair, but it counts {told}"
    return name, _asked(model, np.full(len(unfair), 1 / len(unfair)), unfair, rng)


def _through_onnx(fitted: Any, domain: Domain) -> Any:
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    graph = convert_sklearn(fitted, initial_types=[("x", FloatTensorType([None, 4]))], options={"zipmap": False})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(graph.SerializeToString())
        return load_model(path, domain=domain, sensitive=["sex"])
