"""Is it fair for a reason that shows at once? Structure first, then interval bounds: the cheap proofs."""

from __future__ import annotations

import dataclasses
import time

from bornfair.errors import InputError
from bornfair.models.network import Network
from bornfair.people.encoding import Encoding
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.twins.relation import Relation, twin_relation
from bornfair.verification.intervals import prove_by_intervals
from bornfair.verification.structural import prove_structurally, prove_zero_weights, undecided
from bornfair.verification.verdict import Verdict


def confirm_encoded(network: Network, encoding: Encoding) -> Verdict:
    """Whether twins of this domain always get the same decision. Zero sensitive weights need no list of the twins,
    where the network is shown only what declared twins have in common.
    """
    began = time.perf_counter()
    verdict = prove_zero_weights(network, encoding.free_width)
    group, size = encoding.domain.twin_group, encoding.domain.sensitive_space.size
    if encoding.merges_twins and verdict:
        if named := " and ".join(group.moved):
            reason = f"{verdict.reason}, and {named} of declared twins look the same to the network"
            verdict = dataclasses.replace(verdict, reason=reason)
    elif (size := size * (1 if encoding.merges_twins else group.size)) <= ENUMERATION_LIMIT:
        try:
            return confirm(network, twin_relation(encoding))
        except InputError as error:  # the views cannot be written down exactly
            verdict = undecided("structural", str(error).rstrip("."))
    else:
        what = "sensitive values" if encoding.merges_twins else "versions of a person"
        verdict = undecided("structural", f"{verdict.reason} and the {size:,} {what} are too many to list")
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)


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
