"""Are some people decided as all their twins by a model that can only be asked? Nothing is proven of it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.core.errors import plain_level
from bornfair.models.opaque.model import OpaqueModel, Unsteady
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import NUMERIC, Feature
from bornfair.people.space.among import Limits
from bornfair.people.space.partition import Limit, whole_domain
from bornfair.people.twins.versions import Versions
from bornfair.verification.outside_replay import replay_outside, unsteady_text
from bornfair.verification.replay import falsified

MOST = 20_000  # people drawn
COUNTED = 5_000  # people who are asked about one after the other


def decide_outside_among(model: OpaqueModel, among: Limits, *, timeout: Clock, seed: int = 0) -> Verdict:
    """Falsified with two who were asked about again, or undecided with how many were asked about."""
    model.domain.require_sensitive()
    if model.steadiness.changed:
        return undecided("asking", f"{unsteady_text(model)} ({model.steadiness.text})")
    versions, asked = Versions(model.domain), 0
    try:
        for people in _people(model, versions, among, seed):
            decided = model.ask_versions(people, versions, scores=False).decided
            asked += len(people)
            for row in np.flatnonzero((decided != decided[:, :1]).any(axis=1))[:8]:
                person = {name: plain_level(people[name].iloc[row]) for name in model.domain.free_names}
                other = int(np.argmax(decided[row] != decided[row, 0]))
                twins = replay_outside(model, person, [0, other], versions)
                if twins.unfair_in:
                    reason = f"asked about {asked:,} of these people, and about these two again"
                    return falsified(model, twins, engine="asking", reason=reason, seconds=timeout.spent)
            if timeout.is_up:
                break
    except Unsteady as error:
        return undecided("asking", str(error).rstrip("."))
    reason = (
        f"asked about {asked:,} of these people, each as {versions.size:,} versions, and found no twins decided "
        "differently: that is no proof"
    )
    return Verdict("undecided", "none", "asking", (), reason, seconds=timeout.spent)


def _people(model: OpaqueModel, versions: Versions, among: Limits, seed: int) -> Iterator[pd.DataFrame]:
    """These people, all if they are few, else drawn at random; some at a time."""
    features, random = model.domain.free_features, np.random.default_rng([seed, 23])
    among = {**whole_domain(model.domain).limits, **among}
    count = math.prod(_size(feature, among[feature.name]) for feature in features)
    whole = count <= COUNTED
    together, start, most = model.together(versions.size), 0, int(count) if whole else MOST
    while start < most:
        size = min(together, most - start)
        places = np.arange(start, start + size)
        columns = {}
        for feature in features:
            limit = among[feature.name]
            levels = _size(feature, limit)
            if whole:
                places, at = np.divmod(places, int(levels))
                columns[feature.name] = _values(feature, limit, at / max(levels - 1, 1))
            else:
                columns[feature.name] = _values(feature, limit, random.random(size))
        yield pd.DataFrame(columns, index=range(size)).infer_objects()
        start += size


def _size(feature: Feature, limit: Limit) -> float:
    if None in limit or not isinstance(feature, NUMERIC):
        return len(limit)
    low, high = float(limit[0]), float(limit[1])
    return high - low + 1 if feature.kind == "integer" else 1 if low == high else math.inf


def _values(feature: Feature, limit: Limit, share: np.ndarray) -> np.ndarray:
    """Values so far between the ends."""
    if None in limit or not isinstance(feature, NUMERIC):
        chosen = np.empty(len(limit), object)
        chosen[:] = list(limit)
        return chosen[np.round(share * (len(limit) - 1)).astype(np.int64)]
    numbers = float(limit[0]) + share * (float(limit[1]) - float(limit[0]))
    return np.round(numbers).astype(np.int64) if feature.kind == "integer" else numbers
