"""The page in every bundle: it repeats certificate.json and domain.json in words and says how to check them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from bornfair.core.errors import InputError
from bornfair.models.verdict import Verdict
from bornfair.people.domain import Domain
from bornfair.report.facts import OPERATING_POINT, CertificateFacts, Document, DomainFacts, HistoryPoint, Metrics
from bornfair.report.formatting import count, number, percent, value_text
from bornfair.report.report import to_html

RESPONSES = {
    "expected": "Every row counted as each sensitive value, weighted by its probability (expected response, {gamma}).",
    "sampled": "Sensitive values were drawn at random (sampled response, {gamma}, {draws} for each row and step).",
    "population": "Every row counted as each sensitive value, weighted by how often the population releases it "
    "(population response, {gamma}).",
    "population_sampled": "Each row met the randomised sensitive values of people drawn at random (sampled population "
    "response, {gamma}, {draws} for each row and step).",
    "none": "The true sensitive values were used: plain training, without a promise of fairness.",
}


def render(certificate: dict[str, Any], domain: Domain, *, title: str | None = None) -> str:
    """A certificate (as JSON) and its domain as one HTML page; the same input gives the same bytes."""
    return to_html(certificate_document(certificate, domain, title=title)).encode("utf-8", "backslashreplace").decode()


def certificate_document(certificate: dict[str, Any], domain: Domain, *, title: str | None = None) -> Document:
    """What a certificate (as JSON) says, as a document to which measurements can be added."""
    search, asked, tree = certificate["search"], certificate["property"], certificate["tree"]
    verdict = Verdict(
        certificate["verdict"], certificate["proof"], search.get("engine", "unknown"), tuple(certificate["arithmetic"]),
        certificate["reason"], twins=certificate["twins"], decisions=certificate["decisions"],
        partitions=search.get("partitions", 1), boxes=search.get("boxes", 1),
    )  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in certificate["versions"].items())
    facts = CertificateFacts(
        claim=certificate["claim"],
        verdict=certificate["verdict"],
        format=certificate["format"],
        statement=asked["statement"],
        files=certificate["files"],
        sha256=certificate["sha256"],
        # A binary tree listed node by node has one leaf more than it has cuts, whatever its leaves look like.
        leaves=(len(tree) + 1) // 2 if tree else None,
        facts={"Made with": versions} if versions else {},
    )
    return Document(
        verdict=verdict,
        title=title or "",
        domain=DomainFacts.of(domain),
        history=tuple(_history(certificate["training"], proven=verdict.proof == "structural")),
        making=dict(_making(certificate)),
        measured=tuple(_measured(certificate["training"])),
        certificate=facts,
    )


def _history(training: dict[str, Any], *, proven: bool) -> list[HistoryPoint]:
    """What was recorded after each epoch. Weights that no step touched were fair all the time, not just at the end."""
    always = proven and training.get("sensitive_weights_untouched") and not training.get("projected")
    return [
        HistoryPoint(record["epoch"], record.get("validation_accuracy"), 1.0 if always else None, record.get("loss"))
        for record in training.get("history", [])
    ]


PLAIN = (bool, int, float, str)  # what a class may be


def _measured(training: dict[str, Any]) -> Iterator[Metrics]:
    """What was measured on which rows, the most telling ones first; whatever else a file says there is left out."""
    kinds = {"on": str, "rows": int} | dict.fromkeys(
        ("accuracy", "balanced_accuracy", "majority_share", "auc", "brier", "empirical_fairness"), float
    )
    given = training.get("measured")
    for one in reversed(given if isinstance(given, list) else []):
        if isinstance(one, dict):
            facts = {name: one[name] for name, kind in kinds.items() if type(one.get(name)) is kind}
            never, always = one.get("never_predicted"), one.get("always_predicted")
            if isinstance(never, list) and all(isinstance(name, PLAIN) for name in never):
                facts["never_predicted"] = tuple(never)
            if isinstance(always, PLAIN):
                facts["always_predicted"] = always
            with contextlib.suppress(InputError):
                yield Metrics(**facts)


def _making(certificate: dict[str, Any]) -> Iterator[tuple[str, str]]:
    start, response, training = certificate["start"], certificate["response"], certificate["training"]
    thresholds = training.get("thresholds")
    if isinstance(thresholds, dict) and thresholds:
        decides = ", ".join(f"{name} above {value_text(share)}" for name, share in thresholds.items())
        yield OPERATING_POINT, f"It decides {decides}, not at ½."
    if start or "epochs_run" in training:
        told = "The network training began with was not proven fair."
        if attempts := start.get("attempts", []):
            proof, drawn = attempts[-1].get("proof", "unknown"), count(len(attempts), "network")
            told = f"Proven fair before training began ({proof} proof; {drawn} drawn)."
        yield "Start", told
    if response:
        told = str(mode := response.get("mode"))
        if mode in RESPONSES:
            gamma, draws = response.get("gamma", 0.0), response.get("draws", 1)
            told = RESPONSES[mode].format(gamma=f"γ = {gamma:g}", draws=count(draws, "draw"))
        yield "Sensitive values in training", told
    if "local_privacy" in response:
        yield "Privacy of the sensitive values", response["local_privacy"]
    if training:
        yield from _training(training)


def _training(training: dict[str, Any]) -> Iterator[tuple[str, str]]:
    plan, best = training.get("plan", {}), training.get("best_epoch")
    kept = "" if best is None else f", the network after epoch {value_text(best)} was kept"
    if "epochs_run" in training:
        yield "Training", f"{count(training['epochs_run'], 'epoch')} run{kept}."
    known = ("optimiser", "learning_rate", "schedule", "batch_size", "seed")
    if settings := [f"{name.replace('_', ' ')} {value_text(plan[name])}" for name in known if name in plan]:
        yield "Settings", ", ".join(settings)
    if isinstance(line := training.get("calibrated"), dict):
        rows = count(line.get("rows", 0), "row")
        fitted = f"Calibrated by a rising line through the scores, fitted on {rows} kept for early stopping."
        yield "Probabilities", fitted
    record: dict[str, Any] = next((one for one in training.get("history", []) if one.get("epoch") == best), {})
    if record.get("validation_accuracy") is not None and "measured" not in training:
        yield "Accuracy on validation rows, which said when to stop", percent(record["validation_accuracy"])
    elif record.get("loss") is not None:
        yield "Loss", number(record["loss"])
    if "sensitive_weights_untouched" in training:
        untouched = training["sensitive_weights_untouched"]
        what = "were not touched by training." if untouched else "were trained like all others."
        yield "Sensitive weights", f"The weights that read the sensitive values {what}"
