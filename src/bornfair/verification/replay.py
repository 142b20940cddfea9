"""Do these two people really get different decisions? Nobody sees twins that were not replayed here.

A person is replayed from raw values, twice: by what ships, in float32, and in real arithmetic without any rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import plain_level
from bornfair.models.network.bounds.exact import exact_decisions
from bornfair.models.network.model import Model
from bornfair.models.opaque.model import AnyModel
from bornfair.models.shipped import shipped
from bornfair.models.verdict import Arithmetic, Verdict
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value
from bornfair.people.twins.relation import sensitive_values
from bornfair.people.twins.versions import Versions


@dataclass(frozen=True)
class Replay:
    """Twins and what became of them."""

    people: tuple[dict[str, Value], ...]
    decisions: dict[Arithmetic, tuple[int, ...]]
    """Class indices of each twin, in each arithmetic that could be replayed."""
    versions: tuple[int, ...] = ()
    """Which version of the person each of them is."""

    @property
    def unfair_in(self) -> tuple[Arithmetic, ...]:
        """The arithmetics in which the twins are decided differently."""
        return tuple(name for name, decided in self.decisions.items() if len(set(decided)) > 1)


def replay(
    model: Model, person: Mapping[str, Value], values: Sequence[int], versions: Versions | None = None
) -> Replay:
    """Decide a person (what all versions share, see `bornfair.people.twins.versions`) as each of the given versions.

    `versions` says which sensitive values these are, if not those of S. Versions who are nobody of the domain (a
    mirrored number that falls outside, or between floats) are left out.
    """
    versions = versions or Versions(model.domain)
    person = versions.settled(person)
    there = [(person, int(value)) for value in values if versions.exists(person, value)]
    return replay_people(model, there, versions)


def replay_people(model: Model, people: Sequence[tuple[Mapping[str, Value], int]], versions: Versions) -> Replay:
    """Decide people, each as one version of themselves.

    "float32" is the word of what ships: onnxruntime on the model's own graph. Of a model that was imported it is what
    its original answers, run by its own software; real arithmetic then counts only where it agrees with that.
    """
    if not people:
        return Replay((), {})
    ordered = tuple(versions.of(person, version) for person, version in people)
    found: dict[Arithmetic, tuple[int, ...]] = {}
    if model.original is None:
        found["float32"] = shipped(model).decide(ordered)
    else:
        table = pd.DataFrame(list(ordered), columns=list(model.domain.names))
        found["float32"] = tuple(int(d) for d in model.original.decide(table))
    if model.network.function.exact:
        exact = np.stack([exact_input(model.encoding, person, version, versions) for person, version in people])
        decided = tuple(int(d) for d in exact_decisions(model.network, exact))
        if model.original is None or decided == found["float32"]:
            found["real"] = decided
    return Replay(ordered, found, tuple(version for _, version in people))


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


def falsified(model: AnyModel, found: Replay, *, engine: str, reason: str, **facts: Any) -> Verdict:
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
