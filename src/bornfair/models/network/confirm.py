"""Is it fair for a reason that shows at once? Structure first, then interval bounds: the cheap proofs."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.network.bounds.intervals import prove_by_intervals
from bornfair.models.network.network import Network
from bornfair.models.network.structural import prove_structurally, prove_zero_weights
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.columns import GapColumns, NumberColumn
from bornfair.people.encoding import Encoding
from bornfair.people.sensitive import ENUMERATION_LIMIT
from bornfair.people.twins.relation import Relation, twin_relation


def confirm_encoded(network: Network, encoding: Encoding) -> Verdict:
    """Whether twins of this domain always get the same decision. Codes that cannot reach it need no list of the twins,
    where the network is shown only what declared twins have in common.
    """
    began = time.perf_counter()
    verdict = prove_zero_weights(network, encoding.free_width, input_sizes(encoding))
    group = encoding.domain.twin_group
    listed = encoding.domain.sensitive_space.size * (1 if encoding.merges_twins else group.size)
    if encoding.merges_twins and verdict and ("float32" in verdict.arithmetic or listed > ENUMERATION_LIMIT):
        if named := " and ".join(group.moved):
            reason = f"{verdict.reason}, and {named} of declared twins look the same to the network"
            verdict = dataclasses.replace(verdict, reason=reason)
    elif listed <= ENUMERATION_LIMIT:
        try:
            return confirm(network, twin_relation(encoding))
        except InputError as error:  # the views cannot be written down exactly
            verdict = undecided("structural", str(error).rstrip("."))
    else:
        what = "sensitive values" if encoding.merges_twins else "versions of a person"
        verdict = undecided("structural", f"{verdict.reason} and the {listed:,} {what} are too many to list")
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


def input_sizes(encoding: Encoding) -> np.ndarray:
    """How large each input may become for people of the domain, whatever was rounded."""
    parts = [np.zeros(0)]
    for column in encoding.columns.values():
        if isinstance(column, GapColumns):
            parts.append(np.array([np.abs([*column.number.ends, column.shown]).max(), 1.0]))
        elif isinstance(column, NumberColumn):
            parts.append(np.abs(column.ends).max(keepdims=True))
        else:
            parts.append(np.abs(column.table).max(axis=0))
    return np.concatenate(parts) * (1 + 2.0**-20)
