"""Tabular classifiers that are born fair and stay fair, with a proof a sceptic can check."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Else onnxruntime (from 1.29) sends facts about models and the machine to its maker and leaves a file in TMPDIR.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Every public name and where it lives. Loaded on first use, so that `import bornfair` and `bornfair --help` do not wait
# for JAX and scikit-learn.
_HOMES = {
    "Command": "models.opaque.command.Command",
    "Domain": "people.domain.Domain",
    "Endpoint": "models.opaque.endpoint.Endpoint",
    "FairClassifier": "estimator.FairClassifier",
    "FairForest": "proof.bundle.FairForest",
    "FairGraph": "proof.bundle.FairGraph",
    "FairModel": "proof.bundle.FairModel",
    "FairWrapper": "wrapper.FairWrapper",
    "FairnessWarning": "training.fitting.FairnessWarning",
    "Question": "questions.Question",
    "Report": "report.report.Report",
    "Verdict": "models.verdict.Verdict",
    "audit": "questions.auditing.audit",
    "drift": "questions.drift.drift",
    "explain": "questions.explaining.explain",
    "gamma_report": "training.gamma.gamma_report",
    "inspect": "questions.inspection.inspect",
    "load": "proof.bundle.load_bundle",
    "proxy_report": "questions.proxies.proxy_report",
    "quantify": "questions.quantify",
    "repair": "questions.repairing.repair",
    "verify": "questions.verify",
}

if TYPE_CHECKING:
    from bornfair import datasets as datasets
    from bornfair.estimator import FairClassifier as FairClassifier
    from bornfair.models.opaque.command import Command as Command
    from bornfair.models.opaque.endpoint import Endpoint as Endpoint
    from bornfair.models.verdict import Verdict as Verdict
    from bornfair.people.domain import Domain as Domain
    from bornfair.proof.bundle import FairForest as FairForest
    from bornfair.proof.bundle import FairGraph as FairGraph
    from bornfair.proof.bundle import FairModel as FairModel
    from bornfair.proof.bundle import load_bundle as load  # noqa: F401
    from bornfair.questions import Question as Question
    from bornfair.questions import quantify as quantify
    from bornfair.questions import verify as verify
    from bornfair.questions.auditing import audit as audit
    from bornfair.questions.drift import drift as drift
    from bornfair.questions.explaining import explain as explain
    from bornfair.questions.inspection import inspect as inspect
    from bornfair.questions.proxies import proxy_report as proxy_report
    from bornfair.questions.repairing import repair as repair
    from bornfair.report.report import Report as Report
    from bornfair.training.fitting import FairnessWarning as FairnessWarning
    from bornfair.training.gamma import gamma_report as gamma_report
    from bornfair.wrapper import FairWrapper as FairWrapper

__all__ = ["__version__", "datasets", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return importlib.import_module("bornfair.datasets")
    if name in _HOMES:
        module, _, attribute = _HOMES[name].rpartition(".")
        return getattr(importlib.import_module(f"bornfair.{module}"), attribute)
    raise AttributeError(f"module 'bornfair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
