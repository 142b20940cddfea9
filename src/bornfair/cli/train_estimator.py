"""bornfair train --estimator: another estimator than the network, made fair by a wrapper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from bornfair.cli import options
from bornfair.cli.output import written_to
from bornfair.cli.training_result import TRAINED_ON, training_result
from bornfair.core.checks import choice
from bornfair.core.errors import InputError
from bornfair.training.options import RARE_CLASSES, TrainingOptions

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.cli.train import TrainOptions
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


def check_options(asked: TrainOptions, chosen: TrainingOptions) -> None:
    """Refuse options that say how the network is trained."""
    choice("estimator", asked.estimator, ("network", *ESTIMATORS))
    others = [
        one for one in fields(asked) if one.name in ("threshold", "missing", "outside", "checkpoint", "least_count")
    ]
    for record, one in [*((chosen, one) for one in fields(chosen)), *((asked, one) for one in others)]:
        if getattr(record, one.name) != one.default:
            option = one.name.replace("_", "-")
            raise InputError(f"--{option} is for the network; leave it out with --estimator {asked.estimator}.")


def train_estimator(
    asked: TrainOptions, known: Domain, training: pd.DataFrame, test: pd.DataFrame, target: str
) -> dict[str, Any]:
    """Fit, certify, measure, write: the facts that `train` prints."""
    from sklearn.utils import compute_sample_weight

    from bornfair.training.provenance import KEPT_ASIDE
    from bornfair.wrapper import FairWrapper

    wrapper = FairWrapper(
        named_estimator(asked.estimator, asked.seed), known.sensitive, twins=asked.twins or None,
        method=asked.method, encoding="one-hot", unseen=asked.unseen, domain=known,  # type: ignore[arg-type]
    )  # fmt: skip
    X, y = training.drop(columns=target), training[target]
    weights = None if asked.class_weight is None else compute_sample_weight(asked.class_weight, y)
    wrapper.fit(X, y, sample_weight=weights)
    rows, on = (test, KEPT_ASIDE) if len(test) else (training, TRAINED_ON)
    figures = wrapper.record(rows.drop(columns=target), rows[target], on)
    with written_to(asked.out, options.BUNDLE):
        bundle = wrapper.save(asked.out)
    certificate, domain, X = wrapper.certificate_, wrapper.domain_, rows.drop(columns=target)
    return {
        "bundle": str(bundle),
        "estimator": asked.estimator,
        "method": asked.method,
        **training_result(
            certificate, domain, figures, advice=RARE_CLASSES,
            thresholds={} if wrapper.model_ is None else wrapper.model_.thresholds,
            flip_stable=wrapper.empirical_fairness(X, declared=False) if domain.twins else None,
        ),
    }  # fmt: skip
