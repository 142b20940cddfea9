"""Reference queries of the Python interface: `from bornfair import …`, and nothing below it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bornfair
from inputs import numbers, people, wide
from running import Query

NUMBERED: dict[str, Any] = {"target": "loan", "sensitive_features": ["woman"], "timeout": 600.0}


def _split(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    *names, target = table.columns
    return table[names], table[target]


# --- networks ---


@cache
def _classifier() -> Any:
    X, y = _split(people())
    return bornfair.FairClassifier(["sex", "race"], epochs=3, hidden=[12, 6]).fit(X, y)


def _fitted() -> dict[str, Any]:
    X, y = _split(people())
    clf = _classifier()
    clf.save("classifier")
    return {
        "shares": clf.predict_proba(X)[:20], "classes": clf.predict(X)[:20], "score": clf.score(X, y),
        "scores": clf.decision_function(X)[:20], "fairness": clf.empirical_fairness(X),
        "certificate": clf.certificate_, "gamma": clf.gamma_, "verdict": clf.verify(timeout=600.0),
    }  # fmt: skip


def _loaded() -> dict[str, Any]:
    X, _ = _split(people())
    model = bornfair.load("classifier")
    return {
        "verdict": bornfair.verify(model, timeout=600.0),
        "same": bool((model.predict(X) == _classifier().predict(X)).all()),
        "drift": bornfair.drift(model, people(60, seed=8).assign(age=70)),
    }  # fmt: skip


def _warm() -> dict[str, Any]:
    X, y = _split(people())
    clf = bornfair.FairClassifier(["sex"], epochs=2, hidden=[8], warm_start=True).fit(X, y)
    first = clf.predict_proba(X)[:5]
    clf.fit(X, y)
    clf.save("warm")
    more = bornfair.FairClassifier(["sex"], epochs=1, hidden=[8]).partial_fit(X[:100], y[:100], classes=["no", "yes"])
    more.partial_fit(X[100:], y[100:]).save("partial")
    return {"first": first, "second": clf.predict_proba(X)[:5], "partial": more.predict_proba(X)[:5]}


def _at_threshold() -> dict[str, Any]:
    X, y = _split(people())
    clf = bornfair.FairClassifier(["sex"], epochs=2, hidden=[8], threshold="top 12%", missing="impute").fit(X, y)
    return {"decided": int((clf.predict(X) == "yes").sum()), "thresholds": clf.model_.thresholds}


CLASSIFIERS = [
    Query("FairClassifier", _fitted, keeps=("classifier",)),
    Query("load, verify, drift", _loaded),
    Query("warm start", _warm, keeps=("warm", "partial")),
    Query("threshold", _at_threshold),
    Query("gamma_report", lambda: bornfair.gamma_report(people()[["sex", "race"]], sensitive_features=["sex"])),
    Query("proxy_report", lambda: bornfair.proxy_report(people(), sensitive_features=["race"], target="grant")),
    Query("inspect", lambda: bornfair.inspect(people(), target="grant", sensitive_features=["sex"])),
    Query("Domain", lambda: bornfair.Domain.infer(people(), sensitive=["sex"]).text(), everywhere=True),
]

# --- wrappers and graphs ---


def _wrapped(estimator: Any, method: str, folder: str) -> Any:
    def ask() -> dict[str, Any]:
        X, y = _split(people())
        clf = bornfair.FairWrapper(estimator(), sensitive_features=["sex"], method=method).fit(X, y)
        clf.save(folder)
        return {
            "shares": clf.predict_proba(X)[:10], "fairness": clf.empirical_fairness(X), "score": clf.score(X, y),
            "certificate": clf.certificate_, "kind": type(clf.model_).__name__, "verdict": clf.verify(timeout=600.0),
            "by race": bornfair.verify(bornfair.load(folder), sensitive_features=["race"], timeout=600.0),
        }  # fmt: skip

    return ask


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def _bayes() -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


def _ensemble() -> Any:
    from sklearn.ensemble import RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression

    forest = RandomForestClassifier(n_estimators=4, max_depth=3, random_state=0)
    return VotingClassifier([("line", LogisticRegression()), ("trees", forest)], voting="soft", flatten_transform=False)


def _network() -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier((6,), max_iter=30, random_state=0, solver="lbfgs"))


def _of_pipeline() -> dict[str, Any]:
    X, y = _split(numbers())
    model = _network().fit(X, y)
    asked = {**NUMBERED, "table": numbers()}
    report = bornfair.audit(model, numbers(), **NUMBERED)
    return {
        "verdict": bornfair.verify(model, **asked), "shares": bornfair.quantify(model, **asked, most_boxes=100),
        "one": bornfair.explain(model, 0, **asked), "audit": report,
        "repaired": bornfair.repair(
            model, numbers(), target="loan", sensitive_features=["woman"], epochs=2, method="auto"
        ),
    }  # fmt: skip


WRAPPERS = [
    Query("merged line", _wrapped(_linear, "merge", "line"), keeps=("line",)),
    Query("averaged Bayes", _wrapped(_bayes, "average", "bayes"), keeps=("bayes",)),
    Query("merged ensemble", _wrapped(_ensemble, "merge", "merged"), keeps=("merged",)),
    Query("averaged ensemble", _wrapped(_ensemble, "average", "averaged"), keeps=("averaged",)),
    Query("pipeline with a network", _of_pipeline),
]

# --- forests ---


def _of_forest(made: Any) -> Any:
    def ask() -> dict[str, Any]:
        X, y = _split(numbers())
        model = made()
        model.fit(X, y)
        asked = {**NUMBERED, "table": numbers()}
        return {
            "verdict": bornfair.verify(model, **asked), "shares": bornfair.quantify(model, **asked, most_boxes=40),
            "one": bornfair.explain(model, 0, **asked),
        }  # fmt: skip

    return ask


def _xgboost(**options: int) -> Any:
    import xgboost

    return xgboost.XGBClassifier(**{"n_estimators": 8, "max_depth": 3, **options}, learning_rate=0.4, n_jobs=1)


def _lightgbm(**options: int) -> Any:
    import lightgbm

    chosen = {"n_estimators": 6, "num_leaves": 7, "min_child_samples": 5, **options}
    return lightgbm.LGBMClassifier(**chosen, verbose=-1, n_jobs=1)


def _catboost() -> Any:
    import catboost

    return catboost.CatBoostClassifier(iterations=5, depth=3, verbose=False, allow_writing_files=False, thread_count=1)


def _random_forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=6, max_depth=4, random_state=0)


def _boosting() -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=6, random_state=0)


def _files() -> None:
    """Forests as files of their libraries."""
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    X, y = _split(numbers())
    _xgboost().fit(X, y).get_booster().save_model("x.json")
    _lightgbm().fit(X, y).booster_.save_model("l.txt")
    _xgboost(n_estimators=30, max_depth=4).fit(*_split(wide())).get_booster().save_model("wx.json")
    _lightgbm(n_estimators=20, num_leaves=8).fit(*_split(wide())).booster_.save_model("wl.txt")
    graph = convert_sklearn(
        _random_forest().fit(X.to_numpy(np.float32), y), name="trees",
        initial_types=[("x", FloatTensorType([None, 4]))], options={"zipmap": False},
        target_opset={"": 17, "ai.onnx.ml": 3},
    )  # fmt: skip
    Path("r.onnx").write_bytes(graph.SerializeToString(deterministic=True))


FORESTS = [
    Query("forests as files", _files, keeps=("x.json", "l.txt", "r.onnx", "wx.json", "wl.txt")),
    *(
        Query(f"verify, quantify, explain {name}", _of_forest(made))
        for name, made in {
            "xgboost": _xgboost,
            "lightgbm": _lightgbm,
            "catboost": _catboost,
            "random forest": _random_forest,
            "gradient boosting": _boosting,
        }.items()
    ),
]

# --- what can only be asked ---


def _rule(table: pd.DataFrame) -> np.ndarray:
    return (table["age"] + 2 * table["level"] - 3 * table["woman"] >= 35).to_numpy(int)


class _Object:
    classes_ = np.array([0, 1])

    def predict(self, table: pd.DataFrame) -> np.ndarray:
        return _rule(table)

    def predict_proba(self, table: pd.DataFrame) -> np.ndarray:
        share = 1 / (1 + np.exp2(35 - (table["age"] + 2 * table["level"] - 3 * table["woman"]).to_numpy(float)))
        return np.column_stack([1 - share, share])


def _asked(model: Any) -> Any:
    def ask() -> dict[str, Any]:
        asked = {**NUMBERED, "table": numbers()}
        return {
            "verdict": bornfair.verify(model, **asked), "shares": bornfair.quantify(model, **asked),
            "one": bornfair.explain(model, 0, **asked), "audit": bornfair.audit(model, over="uniform", **asked),
        }  # fmt: skip

    return ask


FUNCTIONS = [
    Query("verify, quantify, explain a function", _asked(_rule), everywhere=True),
    Query("verify, quantify, explain an object", _asked(_Object()), everywhere=True),
]
