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
from bornfair.model import FairModel
from bornfair.network import decisions
from bornfair.verification.exact import exact_decisions, fractions
from bornfair.verification.verdict import Arithmetic, Verdict


@dataclass(frozen=True)
class Replay:
    """Twins and what became of them."""

    people: tuple[dict[str, Value], ...]
    decisions: dict[Arithmetic, tuple[int, ...]]
    """Class indices of each twin, in each arithmetic that could be replayed."""

    @property
    def unfair_in(self) -> tuple[Arithmetic, ...]:
        """The arithmetics in which the twins are decided differently."""
        return tuple(name for name, decided in self.decisions.items() if len(set(decided)) > 1)


def replay(model: FairModel, person: Mapping[str, Value], values: Sequence[int]) -> Replay:
    """Decide a person (raw values of the free features) as each of the given positions in S."""
    encoding = model.encoding
    names = model.domain.sensitive
    shared = {name: person[name] for name in model.domain.free_names}
    twins = [
        {**shared, **dict(zip(names, model.domain.sensitive_space.values[int(value)], strict=True))} for value in values
    ]
    ordered = tuple({name: twin[name] for name in model.domain.names} for twin in twins)
    table = pd.DataFrame(list(ordered))
    encoded = encoding.encode(table, sensitive=False)
    inputs = np.concatenate([encoded.free, encoding.codes[list(values)]], axis=1)
    found: dict[Arithmetic, tuple[int, ...]] = {
        "float32": tuple(int(d) for d in decisions(model.network.scores(inputs)))
    }
    if model.network.activation == "relu":
        exact = np.stack([exact_input(encoding, shared, int(value)) for value in values])
        found["real"] = tuple(int(d) for d in exact_decisions(model.network, exact))
    return Replay(ordered, found)


def exact_input(encoding: Encoding, person: Mapping[str, Value], value: int) -> np.ndarray:
    """The network input of a person as Fractions: what the raw values say, before `encode` rounds."""
    free = np.full(encoding.free_width, Fraction(0), dtype=object)
    columns = encoding.free_columns()
    for feature in encoding.domain.free_features:
        place, raw = columns[feature.name], person[feature.name]
        if isinstance(feature, NUMERIC):
            scale = encoding.scales[feature.name]
            free[place.start] = (Fraction(raw) - Fraction(scale.centre)) / Fraction(2) ** scale.exponent
        else:
            position = feature.levels().index(raw)
            free[place.start + (position if feature.kind == "categorical" else 0)] = Fraction(
                1 if feature.kind == "categorical" else position
            )
    return np.concatenate([free, fractions(encoding.codes[value].astype(np.float64))])


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
