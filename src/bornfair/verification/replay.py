"""Replay of counterexamples from raw values, by what is executed and, for networks and forests, in real arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import plain_level
from bornfair.models.protocol import Countable, Decider, Replay
from bornfair.models.verdict import Verdict
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value
from bornfair.people.twins.relation import sensitive_values
from bornfair.people.twins.versions import Versions

if TYPE_CHECKING:
    from bornfair.models.network.model import Model


def replay(
    model: Countable, person: Mapping[str, Value], values: Sequence[int], versions: Versions | None = None
) -> Replay:
    """Decide a person (what all versions share, see `bornfair.people.twins.versions`) as each of the given versions.

    `versions` says which sensitive values these are, if not those of S. Versions who are nobody of the domain (a
    mirrored number that falls outside, or between floats) are left out.
    """
    versions = versions or Versions(model.domain)
    person = versions.settled(person)
    there = [int(value) for value in values if versions.exists(person, value)]
    return model.replay([versions.of(person, version) for version in there], there)


def person_of(model: Model, free: np.ndarray) -> dict[str, Value]:
    """What all versions share of the person behind a vector u of the relation: decoding rounds to whole numbers, and
    may not leave the range of a real feature.
    """
    shared = free[: model.encoding.free_width]
    if not len(shared):
        return {}
    row = {str(name): plain_level(column.iloc[0]) for name, column in model.encoding.decode(shared[None]).items()}
    for feature in model.domain.free_features:
        if isinstance(feature, NUMERIC) and row[feature.name] is not None:
            held = min(max(row[feature.name], feature.low), feature.high)
            row[feature.name] = int(held) if feature.kind == "integer" else float(held)
    return row


def versions_at(model: Model, free: np.ndarray) -> Versions:
    """The versions that the views of `twin_relation` show of one vector u, in their order."""
    if not model.encoding.sensitive.spans:
        return Versions(model.domain)
    return Versions(model.domain).at(sensitive_values(model.encoding, free))


def exact_input(
    encoding: Encoding, person: Mapping[str, Value], value: int, versions: Versions | None = None
) -> np.ndarray:
    """The network input of a version of a person as Fractions: what the raw values say, before `encode` rounds."""
    return encoding.exact((versions or Versions(encoding.domain)).of(person, value))


def falsified(model: Decider, found: Replay, *, engine: str, reason: str, **facts: Any) -> Verdict:
    """The verdict that replayed twins carry. Only twins that differ in some arithmetic may get here."""
    if not found.unfair_in:
        raise AssertionError("twins that get the same decision were reported as a counterexample")
    first = found.unfair_in[0]
    label = model.domain.label
    decided = [index if label is None else label.classes[index] for index in found.decisions[first]]
    return Verdict(
        "falsified", "none", engine, found.unfair_in, reason,
        twins=[dict(person) for person in found.people], decisions=decided, **facts,
    )  # fmt: skip
