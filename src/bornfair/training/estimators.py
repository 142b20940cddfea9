"""Which estimators can be named at the shell? Other people's, with settings that give the same bytes for the same seed.

Their libraries are imported when they are asked for; that one is missing is said in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bornfair.core.checks import choice
from bornfair.core.errors import InputError

SMALLEST_LEAF = 5  # people in a leaf of a random forest; else it is as large as the table


def _xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=seed, n_jobs=1)


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbose=-1, deterministic=True, force_row_wise=True)


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(min_samples_leaf=SMALLEST_LEAF, random_state=seed)


def _logistic(seed: int) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    inner = LogisticRegression(max_iter=1000, random_state=seed)
    return Pipeline([("fill", SimpleImputer(strategy="median")), ("scale", StandardScaler()), ("estimator", inner)])


ESTIMATORS: dict[str, Callable[[int], Any]] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "hist-gradient-boosting": _boosting,
    "random-forest": _forest,
    "logistic": _logistic,
}


def named_estimator(name: str, seed: int = 0) -> Any:
    """The estimator of a name, not fitted yet; it takes a table of numbers.

    >>> type(named_estimator("random-forest")).__name__
    'RandomForestClassifier'
    """
    choice("estimator", name, tuple(ESTIMATORS))
    try:
        return ESTIMATORS[name](seed)
    except ImportError:
        package = {"xgboost": "xgboost", "lightgbm": "lightgbm"}.get(name, "scikit-learn")
        raise InputError(f"estimator '{name}' needs {package}, which is not installed: pip install {package}") from None
