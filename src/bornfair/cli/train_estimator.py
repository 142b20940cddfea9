"""bornfair train --estimator: another estimator than the network, made fair by a wrapper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bornfair.cli import options
from bornfair.cli.output import written_to
from bornfair.cli.training_result import TRAINED_ON, training_result
from bornfair.core.checks import choice
from bornfair.core.errors import InputError
from bornfair.training.options import RARE_CLASSES, TrainingOptions

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.people.domain import Domain

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


def check_options(estimator: str, chosen: TrainingOptions, others: dict[str, tuple[Any, Any]]) -> None:
    """Refuse options that say how the network is trained; `others` holds each with what it is when left out."""
    choice("estimator", estimator, ("network", *ESTIMATORS))
    given = {one.name: (getattr(chosen, one.name), one.default) for one in fields(chosen)} | others
    for name, (value, default) in given.items():
        if value != default:
            option = name.replace("_", "-")
            raise InputError(f"--{option} is for the network; leave it out with --estimator {estimator}.")


def train_estimator(
    estimator: str,
    method: str,
    known: Domain,
    twins: list[str] | None,
    unseen: str,
    class_weight: str | None,
    training: pd.DataFrame,
    test: pd.DataFrame,
    target: str,
    seed: int,
    out: Path,
) -> dict[str, Any]:
    """Fit, certify, measure, write: the facts that `train` prints."""
    from sklearn.utils import compute_sample_weight

    from bornfair.training.provenance import KEPT_ASIDE
    from bornfair.wrapper import FairWrapper

    wrapper = FairWrapper(
        named_estimator(estimator, seed), known.sensitive, twins=twins or None, method=method, encoding="one-hot",  # type: ignore[arg-type]
        unseen=unseen, domain=known,  # type: ignore[arg-type]
    )  # fmt: skip
    X, y = training.drop(columns=target), training[target]
    weights = None if class_weight is None else compute_sample_weight(class_weight, y)
    wrapper.fit(X, y, sample_weight=weights)
    rows, on = (test, KEPT_ASIDE) if len(test) else (training, TRAINED_ON)
    figures = wrapper.record(rows.drop(columns=target), rows[target], on)
    with written_to(out, options.BUNDLE):
        bundle = wrapper.save(out)
    certificate, domain, X = wrapper.certificate_, wrapper.domain_, rows.drop(columns=target)
    return {
        "bundle": str(bundle),
        "estimator": estimator,
        "method": method,
        **training_result(
            certificate, domain, figures, advice=RARE_CLASSES,
            thresholds={} if wrapper.model_ is None else wrapper.model_.thresholds,
            flip_stable=wrapper.empirical_fairness(X, declared=False) if domain.twins else None,
        ),
    }  # fmt: skip
