"""Is it fair, whatever it computes? If no path leads from what differs between twins to the decision.

Proven of the graph as executed, at every threshold, with operators, bodies and functions of any kind; what is relied on
is that a node's outputs depend on nothing but what it reads (docs/theory.md, data flow).
"""

from __future__ import annotations

from bornfair.models.graph.model import WiredModel
from bornfair.models.verdict import Verdict, undecided


def decide_by_wires(model: WiredModel) -> Verdict:
    """Verified, or undecided with the path; falsified is not what wires can tell."""
    if not model.domain.sensitive:
        return undecided("data flow", "no feature was named sensitive.")
    reason = model.unclear()
    if reason is not None:
        return undecided("data flow", f"{reason}; wires alone do not tell whether that makes a difference.")
    names = ", ".join([*model.domain.sensitive, *model.domain.twin_group.moved])
    return Verdict("verified", "structural", "data flow", ("executed",), f"no path leads from {names} to the decision")
