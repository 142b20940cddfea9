"""Do these two people really get different decisions? Nobody sees twins that were not replayed here.

A person is replayed from raw values, twice: in float32 as shipped, and in real arithmetic without any rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from bornfair.domain import NUMERIC, Value
from bornfair.encoding import Encoding
from bornfair.errors import plain
from bornfair.merging import share
from bornfair.model import FairModel
from bornfair.network import decisions
from bornfair.relation import sensitive_values
from bornfair.verification.exact import exact_decisions
from bornfair.verification.verdict import Arithmetic, Verdict
from bornfair.versions import Versions


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
    model: FairModel, person: Mapping[str, Value], values: Sequence[int], versions: Versions | None = None
) -> Replay:
    """Decide a person (what all versions share, see `bornfair.versions`) as each of the given versions.

    `versions` says which sensitive values these are, if not those of S.

    Of a model that was imported, "float32" is what its original answers, run by its own software; real arithmetic
    counts where it agrees. Versions who are nobody of the domain (a mirrored number that falls outside, or between
    floats) are left out.
    """
    encoding, versions = model.encoding, versions or model.domain.versions
    person = versions.settled(person)
    values = [int(value) for value in values if versions.exists(person, value)]
    if not values:
        return Replay((), {})
    ordered = tuple(versions.of(person, value) for value in values)
    table = pd.DataFrame(list(ordered), columns=list(model.domain.names))
    encoded = encoding.encode(table, sensitive=False)
    codes = encoding.codes_of([versions.values[versions.parts(value)[1]] for value in values])
    inputs = np.concatenate([encoded.free, codes], axis=1)
    found: dict[Arithmetic, tuple[int, ...]] = {
        "float32": tuple(int(d) for d in decisions(model.network.scores(inputs)))
    }
    if model.network.activation == "relu":
        exact = np.stack([exact_input(encoding, person, value, versions) for value in values])
        found["real"] = tuple(int(d) for d in exact_decisions(model.network, exact))
    if model.original is not None:
        # Somebody else's model: what its own software says is what counts.
        theirs = tuple(int(d) for d in model.original.decide(table))
        found = {name: decided for name, decided in found.items() if name == "real" and decided == theirs}
        found["float32"] = theirs
    return Replay(ordered, found, tuple(values))


def person_of(model: FairModel, free: np.ndarray) -> dict[str, Value]:
    """What all versions share of the person behind a vector u of the relation: decoding rounds to whole numbers, and
    may not leave the range of a real feature.
    """
    shared = free[: model.encoding.free_width]
    if not len(shared):
        return {}
    row = {str(name): plain(value) for name, value in model.encoding.decode(shared[None]).iloc[0].items()}
    for feature in model.domain.free_features:
        if isinstance(feature, NUMERIC):
            held = min(max(row[feature.name], feature.low), feature.high)
            row[feature.name] = int(held) if feature.kind == "integer" else float(held)
    return row


def versions_at(model: FairModel, free: np.ndarray) -> Versions:
    """The versions that the views of `twin_relation` show of one vector u, in their order."""
    if not model.encoding.spans:
        return model.domain.versions
    return model.domain.versions.at(sensitive_values(model.encoding, free))


def exact_input(
    encoding: Encoding, person: Mapping[str, Value], value: int, versions: Versions | None = None
) -> np.ndarray:
    """The network input of a version of a person as Fractions: what the raw values say, before `encode` rounds."""
    free = np.full(encoding.free_width, Fraction(0), dtype=object)
    columns, version = encoding.free_columns(), (versions or encoding.domain.versions).of(person, value)
    for feature in encoding.domain.free_features:
        place, raw = columns[feature.name], version[feature.name]
        if feature.name in encoding.merged and feature.kind != "categorical":
            free[place.start] = Fraction(1, 2) if feature.kind == "boolean" else Fraction(0)
        elif isinstance(feature, NUMERIC):
            scale = encoding.scales[feature.name]
            free[place.start] = (Fraction(raw) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent
        else:
            level = feature.levels().index(raw)
            group = next((g for g in encoding.merged.get(feature.name, ()) if level in g), (level,))
            for member in group if feature.kind == "categorical" else ():
                free[place.start + member] = Fraction(float(share(group)))
            if feature.kind == "boolean":
                free[place.start] = Fraction(level)
    code = encoding.exact_code([version[name] for name in encoding.domain.sensitive])
    return np.concatenate([free, np.array(code, dtype=object)])


def falsified(model: FairModel, found: Replay, *, engine: str, reason: str, **facts: Any) -> Verdict:
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
