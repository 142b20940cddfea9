"""How accurate is a proven network beside boosted trees? All contenders at their defaults, on the same splits.

Everybody is trained without the sensitive columns (ours learns the same with them). Trees get categories as such where
their library knows them, the others one-hot columns and standardised numbers. Seconds are processor time on one core.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair import datasets
from bornfair.core.clock import Say
from bornfair.core.errors import InputError, shown
from bornfair_bench.experiments.printout import Lines, Outcome, Printout, Sample, Table, groups
from bornfair_bench.experiments.real_tables import CHOOSE, REPORT, TABLES, real_table
from bornfair_bench.experiments.runs import silent

BUILT_IN = {"census": "sex", "credit": "sex", "bank": "age", "compas": "race", "law": "race"}
"""The embedded datasets, and what is sensitive there."""
MOST_ROWS = 50_000  # of a table, drawn by the seed of its split

Fit = Callable[[pd.DataFrame, np.ndarray, int], Any]


def _categories(X: pd.DataFrame) -> list[str]:
    return [name for name in map(str, X.columns) if not pd.api.types.is_numeric_dtype(X[name]) or X[name].dtype == bool]


def _xgboost(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(enable_categorical=True, n_jobs=1, random_state=seed).fit(X, y)


def _lightgbm(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=seed, verbose=-1).fit(X, y)


def _catboost(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from catboost import CatBoostClassifier

    learner = CatBoostClassifier(
        thread_count=1, random_seed=seed, verbose=False, allow_writing_files=False, cat_features=_as_listed(X)
    )
    return learner.fit(X, y)


def _as_listed(X: pd.DataFrame) -> list[str]:
    return [name for name in map(str, X.columns) if isinstance(X[name].dtype, pd.CategoricalDtype)]


def _histogram(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    few = [name for name in _as_listed(X) if X[name].nunique() > 255]  # more than it takes as categories
    X = X.assign(**{name: X[name].cat.codes for name in few})
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed).fit(X, y)


def _behind_one_hot(learner: Any, X: pd.DataFrame, y: np.ndarray) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    listed = _as_listed(X)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), listed), remainder=StandardScaler()
    )
    return make_pipeline(columns, learner).fit(X, y)


def _perceptron(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return _behind_one_hot(MLPClassifier(random_state=seed, early_stopping=True), X, y)


def _logistic(X: pd.DataFrame, y: np.ndarray, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return _behind_one_hot(LogisticRegression(max_iter=1000), X, y)


CONTENDERS: dict[str, Fit | None] = {
    "default": None,
    "accurate": None,
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "histogram boosting": _histogram,
    "perceptron": _perceptron,
    "logistic": _logistic,
}
"""Ours by their presets (None), and what trains the others."""


def loaded(name: str) -> tuple[pd.DataFrame, str, tuple[str, ...]]:
    """A table, its target and its sensitive columns."""
    if name in BUILT_IN:
        data = datasets.load(name)
        return data.table, data.target, (BUILT_IN[name],)
    table = real_table(name)
    return table.load(), table.target, table.sensitive


def run(
    names: Sequence[str], *, seeds: int = 5, contenders: Sequence[str] = tuple(CONTENDERS), say: Say = silent
) -> list[Outcome]:
    """Every contender on every split of every table."""
    for name in contenders:
        if name not in CONTENDERS:
            raise InputError(f"contender {name!r} is not known; use {shown(CONTENDERS)}.")
    known = (*BUILT_IN, *(table.name for table in TABLES))
    for name in names:
        if name not in known:
            raise InputError(f"table {name!r} is not known; use {shown(known)}.")
    outcomes = []
    for name in names:
        table, target, sensitive = loaded(name)
        for seed in range(seeds):
            rows = table.sample(min(len(table), MOST_ROWS), random_state=seed) if len(table) > MOST_ROWS else table
            training, test = datasets.split_rows(rows, seed=seed, test_fraction=0.2)
            for contender in contenders:
                say(f"{name}, split {seed + 1} of {seeds}: {contender}")
                began = time.process_time()
                outcome = _measured(contender, rows, training, test, target, sensitive, seed)
                outcomes.append({"table": name, "seed": seed, "contender": contender, "rows": len(rows)} | outcome | {
                    "seconds": outcome.pop("ended") - began
                })  # fmt: skip
    return [{key: value for key, value in outcome.items() if key != "ended"} for outcome in outcomes]


def _measured(
    contender: str,
    rows: pd.DataFrame,
    training: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    sensitive: tuple[str, ...],
    seed: int,
) -> Outcome:
    from bornfair.estimator import FairClassifier
    from bornfair.people.domain import Domain

    fit = CONTENDERS[contender]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if fit is None:
            domain = Domain.infer(rows.drop(columns=target), sensitive=sensitive)
            ours = FairClassifier(sensitive, preset=contender, domain=domain, random_state=seed)
            ours.fit(training.drop(columns=target), training[target])
            ended = time.process_time()
            right = ours.predict(test.drop(columns=target)) == test[target].to_numpy()
            proof = "verified" if sensitive and ours.verify() else "nothing to prove"
            return {"accuracy": float(np.mean(right)), "verdict": proof, "ended": ended}
        kinds = {n: pd.CategoricalDtype(sorted(rows[n].astype(str).unique())) for n in _categories(rows) if n != target}
        X, people = (
            part.drop(columns=[target, *sensitive]).astype({n: str for n in kinds if n not in sensitive})
            .astype({n: kind for n, kind in kinds.items() if n not in sensitive})
            for part in (training, test)
        )  # fmt: skip
        classes = np.unique(rows[target].astype(str))
        y, truth = (np.searchsorted(classes, part[target].astype(str)) for part in (training, test))
        learner = fit(X, y, seed)
        ended = time.process_time()
        if contender == "histogram boosting":
            people = people.assign(**{n: people[n].cat.codes for n in _as_listed(X) if X[n].nunique() > 255})
        decided = np.asarray(learner.predict(people)).reshape(-1)
        return {"accuracy": float(np.mean(decided == truth)), "verdict": "not claimed", "ended": ended}


def table_of(outcomes: Sequence[Outcome]) -> Lines:
    """A line for each table: mean accuracy and deviation; then the means over all tables, mean ranks, and seconds."""
    contenders = list(dict.fromkeys(o["contender"] for o in outcomes))
    names = list(dict.fromkeys(o["table"] for o in outcomes))
    found = {
        (name, contender): Sample.of(group, "accuracy")
        for name in names for contender in contenders
        for group in groups(outcomes, table=[name], contender=[contender])
    }  # fmt: skip
    rows = {o["table"]: o["rows"] for o in outcomes}
    cells: Lines = [("table", "rows", *contenders)]
    for name in names:
        own = [found[name, contender] for contender in contenders]
        cells.append((name, f"{rows[name]:,}", *(f"{s.mean:.2f} ± {s.deviation:.2f}" for s in own)))
    means = [statistics.mean(found[name, contender].mean for name in names) for contender in contenders]
    cells.append(("mean", "", *(f"{mean:.2f}" for mean in means)))
    ranks = [
        statistics.mean(
            1 + sum(found[name, other].mean > found[name, contender].mean for other in contenders) for name in names
        )
        for contender in contenders
    ]
    cells.append(("mean rank", "", *(f"{rank:.2f}" for rank in ranks)))
    seconds = [statistics.mean(o["seconds"] for o in outcomes if o["contender"] == c) for c in contenders]
    cells.append(("seconds", "", *(f"{value:.1f}" for value in seconds)))
    return cells


def report(*, names: Sequence[str] | None, contenders: Sequence[str] | None, seeds: int, say: Say) -> Printout:
    chosen = list(names or (*BUILT_IN, *REPORT))
    outcomes = run(chosen, seeds=seeds, contenders=list(contenders or CONTENDERS), say=say)
    ours = [o for o in outcomes if CONTENDERS[o["contender"]] is None and o["verdict"] != "nothing to prove"]
    verified = sum(o["verdict"] == "verified" for o in ours)
    sentences = [
        f"Proven fair: {verified} of {len(ours)} trainings of ours that have a sensitive column.",
        f"The recipe was chosen on {', '.join(CHOOSE)}; tables not among these were only measured.",
    ]
    title = f"Accuracy in %, mean and deviation of {seeds} splits, 20 % kept aside; seconds of one core to train"
    return Printout({"seeds": seeds, "runs": outcomes}, [Table(title, table_of(outcomes))], sentences)
