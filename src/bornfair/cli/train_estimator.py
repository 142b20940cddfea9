"""bornfair train --estimator: another estimator than the network, made fair by a wrapper."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bornfair.cli.options import BUNDLE
from bornfair.cli.output import print_table, quality_rows, say, tell, written_to
from bornfair.core.checks import choice
from bornfair.core.errors import InputError
from bornfair.training.estimators import ESTIMATORS, named_estimator
from bornfair.training.options import RARE_CLASSES, TrainingOptions

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.people.domain import Domain


def check_options(estimator: str, options: TrainingOptions, others: dict[str, tuple[Any, Any]]) -> None:
    """Refuse options that say how the network is trained; `others` holds each with what it is when left out."""
    choice("estimator", estimator, ("network", *ESTIMATORS))
    given = {one.name: (getattr(options, one.name), one.default) for one in fields(options)} | others
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

    from bornfair.models.metrics import QUALITY
    from bornfair.people.rule_syntax import rule_text
    from bornfair.training.provenance import KEPT_ASIDE, quality_warnings
    from bornfair.wrapper import FairWrapper

    wrapper = FairWrapper(
        named_estimator(estimator, seed), known.sensitive, twins=twins or None, method=method, encoding="one-hot",  # type: ignore[arg-type]
        unseen=unseen, domain=known,  # type: ignore[arg-type]
    )  # fmt: skip
    X, y = training.drop(columns=target), training[target]
    weights = None if class_weight is None else compute_sample_weight(class_weight, y)
    wrapper.fit(X, y, sample_weight=weights)
    rows, on = (test, KEPT_ASIDE) if len(test) else (training, "all rows of the training table")
    figures = wrapper.record(rows.drop(columns=target), rows[target], on)
    with written_to(out, BUNDLE):
        bundle = wrapper.save(out)
    certificate = wrapper.certificate_
    return {
        "bundle": str(bundle),
        "estimator": estimator,
        "method": method,
        **{name: figures[name] for name in QUALITY},
        "empirical_fairness": figures["empirical_fairness"],
        "verdict": certificate.verdict.verdict,
        "proof": certificate.verdict.proof,
        "gamma": None,
        "epochs": None,
        "auc": figures["auc"],
        "claim": certificate.claim,
        "arithmetic": list(certificate.verdict.arithmetic),
        "sensitive": list(wrapper.domain_.sensitive),
        "twins": [rule_text(rule) for rule in wrapper.domain_.twins],
        "rows_measured": len(rows),
        "measured_on": on,
        "warnings": quality_warnings(certificate, RARE_CLASSES),
    }


def print_estimator(result: dict[str, Any]) -> None:
    """The facts, for people."""
    percent = lambda share: "–" if share is None else f"{100 * share:.2f} %"  # noqa: E731
    rows = [
        ("estimator", f"{result['estimator']}, {'merged' if result['method'] == 'merge' else 'averaged'}"),
        *quality_rows(result),
        ("AUC", "–" if result["auc"] is None else f"{result['auc']:.4f}"),
        ("same decision for every twin", percent(result["empirical_fairness"])),
        ("verdict over the whole domain", result["verdict"]),
        ("proof", f"{result['proof']} ({', '.join(result['arithmetic'])})"),
        ("seconds", f"{result['seconds']:.1f}"),
        ("bundle", result["bundle"]),
    ]
    print_table(
        f"Measured on {result['rows_measured']:,} {result['measured_on']}", ["", "result"], rows, numbers_from=2
    )
    tell(result["claim"])
    for text in result["warnings"]:
        say(f"bornfair: warning: {text}")
