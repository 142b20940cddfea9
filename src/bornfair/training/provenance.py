"""What follows a training: the calibration of its scores, and its record in the certificate, which is not proven."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.models.metrics import quality, quality_warning
from bornfair.models.network.model import Model, log_probabilities
from bornfair.models.network.network import Layer, Network, decisions
from bornfair.models.operating import Asked, Threshold
from bornfair.models.verdict import Verdict
from bornfair.proof.certificate import Certificate, certificate_of
from bornfair.training.algorithm import TrainingData
from bornfair.training.embedding import Embedding
from bornfair.training.epochs import Plan, Training, shared_split
from bornfair.training.response import Response, privacy
from bornfair.training.start import FairStart

TRAINING_ROWS = "training rows"
VALIDATION_ROWS = "validation rows, which said when to stop"
VALIDATION_ONLY = "validation rows"
KEPT_ASIDE = "rows kept aside"
TREE_SECONDS = 10.0  # for a proof tree right after training; `certified` takes as long as it is given


def certify(
    model: Model,
    verdict: Verdict,
    *,
    start: FairStart | None,
    response: Response,
    plan: Plan,
    training: Training,
    projected: bool = False,
    threshold: Threshold | Asked | None = None,
    measured: Sequence[dict[str, Any]] = (),
    embedding: Embedding | None = None,
    calibrated: Calibration | None = None,
    taught: float = 0.0,
) -> Certificate:
    """The certificate of a model that was just trained, and perhaps projected onto the fair ones afterwards."""
    if not verdict and model.domain.sensitive:
        verdict = replace(verdict, reason=f"{_why_not(response)}{verdict.reason}")
    bare = certificate_of(model, verdict, seconds=TREE_SECONDS)
    private = privacy_of(response, training, sensitive=bool(model.domain.sensitive))
    return replace(
        bare,
        start=_as_json({} if start is None else {"attempts": [_timeless(asdict(a)) for a in start.attempts]}),
        response=_as_json(asdict(response) | {"local_privacy": private}),
        training=_as_json({
            "plan": plan.record(),
            "epochs_run": len(training.history),
            "best_epoch": training.best_epoch,
            "sensitive_weights_untouched": training.collapsed,
            "history": [_timeless(asdict(record)) for record in training.history],
            **({} if embedding is None else {"embedding": {"bins": embedding.bins, "columns": embedding.width}}),
            **({"taught": taught} if taught else {}),
            **({"projected": True} if projected else {}),
            **({} if calibrated is None else {"calibrated": asdict(calibrated)}),
            **({} if threshold is None else {"threshold": Asked.of(threshold).text, "thresholds": model.thresholds}),
            **({"measured": list(measured)} if measured else {}),
        }),
    )  # fmt: skip


def operating_facts(model: Any) -> dict[str, Any]:
    """What a certificate records of the thresholds of a model; nothing where the largest probability decides."""
    return {"thresholds": model.thresholds} if model.thresholds else {}


def measured_in_training(
    model: Model, people: TrainingData | pd.DataFrame, classes: np.ndarray, plan: Plan
) -> list[dict[str, Any]]:
    """How good the model is on the rows it learnt from, and on those used for early stopping."""
    scores = people.scores(model.network) if isinstance(people, TrainingData) else model.scores(people)
    truth, decided = model.classes[classes], model.classes[decisions(scores)]
    parts = zip(
        (TRAINING_ROWS, VALIDATION_ROWS if plan.patience else VALIDATION_ONLY), shared_split(classes, plan), strict=True
    )
    return [{"on": name, "rows": len(rows), **quality(truth[rows], decided[rows])} for name, rows in parts if len(rows)]


def with_measured(certificate: Certificate, figures: dict[str, Any]) -> Certificate:
    """The certificate with what was measured on other rows beside what training measured."""
    others = [one for one in certificate.training.get("measured", []) if one["on"] != figures["on"]]
    training = certificate.training | {"measured": [*others, _as_json(figures)]}
    return replace(certificate, training=training)


def quality_warnings(certificate: Certificate, advice: str = "") -> list[str]:
    """At most one warning that the model never decides some class, by the rows measured last where it shows."""
    for one in reversed(certificate.training.get("measured", [])):
        if text := quality_warning(one):
            return [f"{text} Measured on {one['rows']:,} {one['on']}. {advice}".strip()]
    return []


def privacy_of(response: Response, training: Training, *, sensitive: bool = True) -> str:
    """What the response does for the privacy of the sensitive value, in words."""
    if not sensitive:
        return "not applicable: no feature was named as sensitive"
    if response.mode == "none":
        return "none: training saw the true values"
    if training.collapsed:
        return "complete: training never read the sensitive values"
    if not training.history:
        return "complete: no step was made"
    if not response.reads_values:
        return "complete: every value of S counts the same, whatever the true one"
    if response.mode == "expected":
        return "none: the exact expectation is a function of the true values"
    return _privacy_of_values(response, training)


def _privacy_of_values(response: Response, training: Training) -> str:
    # Early stopping judges held-out rows with their true values, whatever was randomised in the steps.
    judged = any(record.validation_loss is not None for record in training.history)
    held_out = "rows held out for validation were judged with their true values"
    if response.mode == "population_sampled" and response.gamma == 0:
        if judged:
            return f"no differential privacy: {held_out}"
        return "complete: every value of S was drawn equally often, whatever the true ones"
    also = f"; {held_out}" if judged else ""
    if response.of_population:
        # The release distribution and the centre of the codes come from the exact shares, without noise: drawing from
        # that distribution adds none.
        return (
            "no differential privacy: training knew the exact share of each sensitive value among all rows; "
            f"whose value is whose it did not read{also}"
        )
    draws = response.draws * len(training.history)
    return (
        f"local differential privacy of the training steps with ε = {privacy(response.gamma):g} for each draw, "
        f"ε = {privacy(response.gamma, draws):g} for all {draws} draws of a row; figures measured on rows use the true "
        f"values{also}"
    )


def _why_not(response: Response) -> str:
    """Why training promises nothing, as the start of a sentence."""
    if response.preserves_fairness:
        return ""
    return {
        "none": "the network was trained on the true values; ",
        "sampled": "sampled response keeps fairness in expectation only; ",
        "population_sampled": "sampled response keeps fairness in expectation only; ",
        "expected": f"γ = {response.gamma:g} lets the true value through; ",
    }[response.mode]


def _timeless(record: dict[str, Any]) -> dict[str, Any]:
    """Without wall-clock times: the same seed gives the same bytes."""
    return {name: value for name, value in record.items() if name != "seconds"}


def _as_json(facts: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(facts))


# --- calibration ---
#
# logit = slope·score + shift with slope > 0; of more than two classes one slope for all and a shift for each. Both are
# multiplied into the last layer, so the network is as plain as before: twins whose scores are equal stay equal, and the
# proof, the graph and the checker see nothing new. Thresholds apply to the calibrated probabilities.

DOUBT = 1.0  # in rows: how much speaks for leaving the scores alone, so that a handful of rows cannot say "certain"
STEEPEST = 5.0  # the largest logarithm of a slope, either way


@dataclass(frozen=True)
class Calibration:
    """The line: what scores are multiplied by, and what is then added to each output."""

    slope: float
    shifts: tuple[float, ...]
    rows: int
    """On how many rows it was fitted."""

    def of(self, network: Network) -> Network:
        """The network with the line in its last layer.

        >>> one = Network((Layer([[1.0]], [0.5]),), "relu")
        >>> Calibration(2.0, (0.25,), 100).of(one).scores(np.float32([[1]])).tolist()
        [[3.25]]
        """
        last = network.layers[-1]
        weight = self.slope * last.weight.astype(np.float64)
        bias = self.slope * last.bias.astype(np.float64) + np.array(self.shifts)
        return replace(network, layers=(*network.layers[:-1], Layer(weight, bias)))


def calibration(scores: np.ndarray, classes: np.ndarray, weights: np.ndarray | None = None) -> Calibration:
    """The likeliest line for these outputs [rows, outputs] and classes, a little pulled towards leaving them alone.

    >>> rng = np.random.default_rng(0)
    >>> true = rng.normal(size=20_000)
    >>> classes = (rng.random(20_000) < 1 / (1 + np.exp(-true))).astype(int)
    >>> round(calibration(3 * true[:, None], classes).slope, 1)  # three times too sure
    0.3
    """
    from scipy.optimize import minimize

    if not len(scores):
        raise InputError(
            "calibrate=True needs rows that training keeps aside, and none were; set validation_fraction to 0.1, for "
            "instance, and give it a whole table."
        )
    wide = np.asarray(scores, np.float64)
    counted = np.ones(len(wide)) if weights is None else np.asarray(weights, np.float64)
    if not counted.sum() > 0:
        counted = np.ones(len(wide))
    counted = counted * (len(wide) / counted.sum())
    outputs = wide.shape[1]
    truth = np.eye(max(outputs, 2))[classes][:, -outputs:]  # of one output, whether it is the last class

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        slope, shifts = np.exp(line[0]), line[1:]
        logs = log_probabilities(slope * wide + shifts)
        own = np.take_along_axis(logs, np.asarray(classes)[:, None], axis=1)[:, 0]
        wrong = (np.exp(logs[:, -outputs:]) - truth) * counted[:, None]
        slopes = DOUBT * line + np.concatenate([[slope * np.sum(wrong * wide)], wrong.sum(axis=0)])
        return (DOUBT * line @ line / 2 - counted @ own) / len(wide), slopes / len(wide)

    bounds = [(-STEEPEST, STEEPEST)] + [(None, None)] * outputs
    found = minimize(loss, np.zeros(1 + outputs), jac=True, method="L-BFGS-B", bounds=bounds).x
    return Calibration(float(np.exp(found[0])), tuple(found[1:].tolist()), len(wide))
