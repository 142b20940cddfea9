"""The question "is it fair?" asked of a network together with the encoding of its domain."""

from __future__ import annotations

import dataclasses
import time

from bornfair.encoding import Encoding
from bornfair.network import Network
from bornfair.relation import flip_relation
from bornfair.sensitive import ENUMERATION_LIMIT
from bornfair.verification import confirm
from bornfair.verification.structural import prove_zero_weights, undecided
from bornfair.verification.verdict import Verdict


def confirm_encoded(network: Network, encoding: Encoding) -> Verdict:
    """Whether twins of this domain always get the same decision. Zero sensitive weights need no list of the twins."""
    began = time.perf_counter()
    verdict = prove_zero_weights(network, encoding.free_width)
    size = encoding.domain.sensitive_space.size
    if not verdict and size <= ENUMERATION_LIMIT:
        return confirm(network, flip_relation(encoding))
    if not verdict:
        verdict = undecided("structural", f"{verdict.reason} and the {size:,} sensitive values are too many to list")
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)
