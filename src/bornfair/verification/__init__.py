"""Is it fair? See `verdict` for the answers, `structural` and `intervals` for the proofs."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from bornfair.verification.intervals import prove_by_intervals
from bornfair.verification.structural import prove_structurally
from bornfair.verification.verdict import Verdict

if TYPE_CHECKING:
    from bornfair.network import Network
    from bornfair.relation import Relation

__all__ = ["Verdict", "confirm", "prove_by_intervals", "prove_structurally"]


def confirm(network: Network, relation: Relation) -> Verdict:
    """Try the cheap proofs: structure first, then interval bounds. Never falsifies; timed in `seconds`."""
    began = time.perf_counter()
    verdict = prove_structurally(network, relation)
    if "float32" not in verdict.arithmetic:  # nothing yet, or only about real numbers
        bounded = prove_by_intervals(network, relation)
        if len(bounded.arithmetic) > len(verdict.arithmetic):
            verdict = bounded
        elif not verdict:
            reason = f"{verdict.reason}; {bounded.reason}"
            verdict = dataclasses.replace(verdict, engine="structural, intervals", reason=reason)
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)
