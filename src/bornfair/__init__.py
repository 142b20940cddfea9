"""Tabular classifiers that are born fair and stay fair, with a proof a sceptic can check."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bornfair import datasets
    from bornfair.auditing import audit
    from bornfair.bundle import load_bundle as load
    from bornfair.domain import Domain
    from bornfair.estimator import FairClassifier
    from bornfair.fitting import FairnessWarning
    from bornfair.model import FairModel
    from bornfair.proxies import proxy_report
    from bornfair.quantification.ask import quantify
    from bornfair.repairing import repair
    from bornfair.report import Report
    from bornfair.verification import Verdict
    from bornfair.verification.ask import verify

# Loaded on first use, so that `import bornfair` and `bornfair --help` do not wait for JAX and scikit-learn.
_HOMES = {
    "Domain": ("bornfair.domain", "Domain"),
    "FairClassifier": ("bornfair.estimator", "FairClassifier"),
    "FairModel": ("bornfair.model", "FairModel"),
    "FairnessWarning": ("bornfair.fitting", "FairnessWarning"),
    "Report": ("bornfair.report", "Report"),
    "Verdict": ("bornfair.verification", "Verdict"),
    "audit": ("bornfair.auditing", "audit"),
    "load": ("bornfair.bundle", "load_bundle"),
    "proxy_report": ("bornfair.proxies", "proxy_report"),
    "quantify": ("bornfair.quantification.ask", "quantify"),
    "repair": ("bornfair.repairing", "repair"),
    "verify": ("bornfair.verification.ask", "verify"),
}

__all__ = [
    "Domain",
    "FairClassifier",
    "FairModel",
    "FairnessWarning",
    "Report",
    "Verdict",
    "__version__",
    "audit",
    "datasets",
    "load",
    "proxy_report",
    "quantify",
    "repair",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return importlib.import_module("bornfair.datasets")
    if name in _HOMES:
        module, attribute = _HOMES[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module 'bornfair' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
