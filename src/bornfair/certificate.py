"""What was proven, of which network, over which domain, in which arithmetic, and how the network came about."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

from bornfair import __version__
from bornfair.domain import Domain
from bornfair.initialise import FairStart
from bornfair.network import Network
from bornfair.response import Response, privacy
from bornfair.training import Plan, Training
from bornfair.verification import Verdict

FORMAT = "bornfair-certificate/1"


@dataclass(frozen=True)
class Certificate:
    """The facts of one trained model. `claim` says in words what may be relied on, and nothing more."""

    claim: str
    verdict: Verdict
    sensitive: tuple[str, ...]
    sensitive_values: int
    weights_sha256: str
    domain_sha256: str
    start: dict[str, Any]
    response: dict[str, Any]
    training: dict[str, Any]
    versions: dict[str, str]
    format: str = FORMAT

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def certify(
    network: Network,
    domain: Domain,
    verdict: Verdict,
    *,
    start: FairStart | None,
    response: Response,
    plan: Plan,
    training: Training,
) -> Certificate:
    return Certificate(
        claim=claim_of(verdict, domain, response),
        verdict=verdict,
        sensitive=domain.sensitive,
        sensitive_values=domain.sensitive_space.size,
        weights_sha256=weights_digest(network),
        domain_sha256=hashlib.sha256(domain.model_dump_json().encode()).hexdigest(),
        start={} if start is None else {"attempts": [asdict(attempt) for attempt in start.attempts]},
        response=asdict(response) | {"local_privacy": privacy_of(response, training)},
        training={
            "plan": asdict(plan),
            "epochs_run": len(training.history),
            "best_epoch": training.best_epoch,
            "sensitive_weights_untouched": training.collapsed,
            "history": [asdict(record) for record in training.history],
        },
        versions={
            "bornfair": __version__,
            "jax": metadata.version("jax"),
            "numpy": metadata.version("numpy"),
            "python": platform.python_version(),
        },
    )


def claim_of(verdict: Verdict, domain: Domain, response: Response) -> str:
    """One sentence a validator may quote."""
    names = " and ".join(filter(None, [", ".join(domain.sensitive[:-1]), *domain.sensitive[-1:]]))
    if not names:
        return "Nothing about fairness is claimed: no feature was named sensitive."
    if verdict.verdict == "verified":
        how = " and ".join({"real": "exact", "float32": "float32"}[a] for a in verdict.arithmetic)
        return (
            f"Two individuals who differ only in {names} always get the same decision, for every individual of the "
            f"domain, in {how} arithmetic ({verdict.proof} proof)."
        )
    if verdict.verdict == "falsified":
        return f"The model is not fair: two individuals who differ only in {names} get different decisions."
    if not response.preserves_fairness:
        kind = {
            "none": "the network was trained on the true values",
            "sampled": "sampled response keeps fairness in expectation only",
            "expected": f"γ = {response.gamma:g} lets the true value through",
        }[response.mode]
        return f"Nothing about fairness is certified: {kind}."
    return f"Nothing about fairness is certified: {verdict.reason}"


def privacy_of(response: Response, training: Training) -> str:
    """What the response does for the privacy of the sensitive value, in words."""
    if response.mode == "none":
        return "none: training saw the true values"
    if training.collapsed:
        return "complete: training never read the sensitive values"
    if response.mode == "expected":
        if response.gamma == 0:
            return "complete: every value of S counts the same, whatever the true one"
        return "none: the exact expectation is a function of the true values"
    draws = response.draws * len(training.history)
    return (
        f"local differential privacy with ε = {privacy(response.gamma):g} for each draw, "
        f"ε = {privacy(response.gamma, draws):g} for all {draws} draws of a row"
    )


def weights_digest(network: Network) -> str:
    digest = hashlib.sha256(network.activation.encode())
    for name, array in sorted(network.tensors().items()):
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
