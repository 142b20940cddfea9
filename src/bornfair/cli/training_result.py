"""Facts of a training for people and programs, whatever was trained: a network, a streamed network or a wrapper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bornfair.cli.output import percent, print_table, quality_rows, say, tell
from bornfair.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bornfair.people.domain import Domain
    from bornfair.proof.certificate import Certificate

TRAINED_ON = "all rows of the training table"


def check_not_dropped(target: str, sensitive: list[str], drop: list[str]) -> None:
    if used := {target, *sensitive} & set(drop):
        raise InputError(
            f"--drop {' and '.join(sorted(used))}: this column is the target or sensitive, so it is needed."
        )


def check_unlabelled(unlabelled: str) -> None:
    if unlabelled not in ("error", "drop"):
        raise InputError(f"--unlabelled must be error or drop, found {unlabelled!r}.")


def check_test_fraction(fraction: float) -> None:
    if not 0 <= fraction < 1:
        raise InputError(f"--test-fraction must be at least 0 and below 1, found {fraction}.")


def training_result(
    certificate: Certificate,
    domain: Domain,
    figures: Mapping[str, Any],
    *,
    thresholds: Mapping[str, float],
    advice: str,
    gamma: float | None = None,
    epochs: int | None = None,
    flip_stable: float | None = None,
) -> dict[str, Any]:
    """The JSON document of `bornfair train`, without the place of the bundle.

    figures: what was measured, on which rows. flip_stable: share of rows with one decision for all sensitive values,
    if declared twins make it another one than that of the figures.
    """
    from bornfair.models.metrics import QUALITY
    from bornfair.people.rules import rule_text
    from bornfair.people.twins.versions import Versions
    from bornfair.training.provenance import quality_warnings

    return {
        **{name: figures.get(name) for name in QUALITY},
        "empirical_fairness": figures.get("empirical_fairness"),
        "verdict": certificate.verdict.answer,
        "proof": certificate.verdict.proof,
        "gamma": gamma,
        "epochs": epochs,
        "auc": figures.get("auc"),
        "claim": certificate.claim,
        "arithmetic": list(certificate.verdict.arithmetic),
        "local_privacy": certificate.response.get("local_privacy"),
        "sensitive": list(domain.sensitive),
        "sensitive_values": certificate.sensitive_values,
        "versions": Versions(domain).size if domain.sensitive else 1,
        "flip_stable": flip_stable if domain.twins else figures.get("empirical_fairness"),
        "twins": [rule_text(rule) for rule in domain.twins],
        "rows_measured": figures.get("rows", 0),
        "threshold": certificate.training.get("threshold"),
        "thresholds": thresholds,
        "measured_on": figures.get("on", "nothing"),
        "measured": certificate.training.get("measured", []),
        "warnings": quality_warnings(certificate, advice),
    }


def print_training(result: Mapping[str, Any]) -> None:
    """The facts as a table; those that a kind of training does not have are left out."""
    wrapped = "estimator" in result
    others = [
        (f"accuracy on {one['rows']:,} {one['on']}", percent(one["accuracy"]))
        for one in result["measured"] if one["on"] != result["measured_on"]
    ]  # fmt: skip
    alike = "same decision for every "
    agreed = [(f"{alike}twin", percent(result["empirical_fairness"]))]
    if not wrapped:
        agreed = [(f"{alike}sensitive value", percent(result["flip_stable"]))]
        if result["twins"]:
            agreed.append((f"{alike}declared twin", percent(result["empirical_fairness"])))
    proof = result["proof"] + (f" ({', '.join(result['arithmetic'])})" if result["arithmetic"] else "")
    way = {"merge": "merged", "average": "averaged"}
    rows = [
        *([("estimator", f"{result['estimator']}, {way[result['method']]}")] if wrapped else []),
        *quality_rows(result),
        *others,
        ("AUC", "–" if result["auc"] is None else f"{result['auc']:.4f}"),
        *agreed,
        *([("threshold", result["threshold"])] if result["threshold"] else []),
        *(("decides", f"{name} above {share:g}") for name, share in result["thresholds"].items()),
        ("verdict over the whole domain", result["verdict"]),
        ("proof", proof),
        *([] if result["gamma"] is None else [("γ", f"{result['gamma']:g}")]),
        *([("privacy of the sensitive value", result["local_privacy"])] if result["local_privacy"] else []),
        *([] if result["epochs"] is None else [("epochs", str(result["epochs"]))]),
        ("seconds", f"{result['seconds']:.1f}"),
        ("bundle", result["bundle"]),
    ]
    kept_aside = result["measured_on"] != TRAINED_ON
    where = "rows kept aside" if kept_aside else "training rows: it is likely to be worse on others"
    the = "" if kept_aside else "the "
    print_table(f"Measured on {the}{result['rows_measured']:,} {where}", ["", "result"], rows, numbers_from=2)
    tell(result["claim"])
    for text in result["warnings"]:
        say(f"bornfair: warning: {text}")
