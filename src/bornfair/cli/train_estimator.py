"""bornfair train --estimator: another estimator than the network, made fair by a wrapper."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bornfair.cli import options
from bornfair.cli.output import written_to
from bornfair.cli.training_result import TRAINED_ON, training_result
from bornfair.core.checks import choice
from bornfair.core.errors import InputError
from bornfair.training.estimators import ESTIMATORS, named_estimator
from bornfair.training.options import RARE_CLASSES, TrainingOptions

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.people.domain import Domain


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
