"""Which γ preserves fairness when a row meets everybody's randomised value? (Algorithm 1 as printed; docs/theory.md §4)

The mean released code must vanish: Σ_ω r(ω)·c(ω) = (p − q)·c̄ + q·Σc = 0, with c̄ the mean code of the people and p, q
the probabilities of keeping a value and of each other one. As p = e^γ·q this is (e^γ − 1)·c̄ + Σc = 0: a code with
Σc = 0 needs γ = 0 or c̄ = 0. A code centred at its own release satisfies it for every γ, which is how bornfair trains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import Value

if TYPE_CHECKING:
    import pandas as pd

    from bornfair.training.gamma import CodeColumn

EQUATION = "(p − q)·c̄ + q·Σ c = 0, with c̄ the mean code of the people, p = e^γ·q"
CENTRED = "codes centred at their mean release solve it for every γ, which is how response='population' trains"


@dataclass(frozen=True)
class MeanCode:
    """c̄ of one input of the network."""

    column: str
    mean: float


@dataclass(frozen=True)
class PopulationGamma:
    """The γ that solves the equation for codes as they are, None if none does, and why."""

    gamma: float | None
    reason: str
    means: tuple[MeanCode, ...]
    equation: str = EQUATION
    note: str = CENTRED


def solve_population(columns: Sequence[CodeColumn], counts: Sequence[Sequence[float]]) -> PopulationGamma:
    """Solve for columns of codes, given how many people (or which share of them) have each value of each column.

    Exact: a mean of 0 is 0. A column with one code for all values puts no demand on γ, as in `gamma`.

    >>> from bornfair.training.gamma import CodeColumn
    >>> sex = CodeColumn("sex", ("f", "m"), (-1.0, 1.0), (1, 1))
    >>> solve_population([sex], [[1, 3]]).reason
    'the codes sum to 0 and the mean code of the people is not 0: only γ = 0 solves'
    """
    means = [_mean(column.codes, number) for column, number in zip(columns, counts, strict=True)]
    told = tuple(MeanCode(column.name, float(mean)) for column, mean in zip(columns, means, strict=True))
    demands = {
        (mean, column.total) for column, mean in zip(columns, means, strict=True) if len(set(column.codes)) > 1
    }  # fmt: skip
    return PopulationGamma(*_solved(demands), told)


def solve_table(columns: Sequence[CodeColumn], table: pd.DataFrame, domain: Domain) -> PopulationGamma | None:
    """Solve for the people of a table who have all sensitive values; None if nobody has."""
    known = table[list(domain.sensitive)].dropna()
    return solve_population(columns, _people_with_each_value(columns, known, domain)) if len(known) else None


def _people_with_each_value(columns: Sequence[CodeColumn], known: pd.DataFrame, domain: Domain) -> list[list[int]]:
    """How many people have each value of each of the domain's columns."""
    sensitive_alone = Domain(
        features=domain.sensitive_features, sensitive=domain.sensitive, combinations=domain.combinations
    )  # fmt: skip
    levels = Encoding.fit(sensitive_alone, known).encode(known).sensitive_levels
    assert levels is not None
    people: list[dict[Value, int]] = []
    for j, coded in enumerate(domain.sensitive_space.features):
        counted = np.bincount(levels[:, j], minlength=len(coded.codes)).tolist()
        people += [dict(zip(coded.feature.levels(), counted, strict=True))] * coded.codes.shape[1]
    return [[those[value] for value in column.values] for column, those in zip(columns, people, strict=True)]


def _mean(codes: Sequence[float], counts: Sequence[float]) -> Fraction:
    weights = [Fraction(count) for count in counts]
    return sum((Fraction(c) * n for c, n in zip(codes, weights, strict=True)), Fraction(0)) / sum(weights)


def _solved(demands: set[tuple[Fraction, Fraction]]) -> tuple[float | None, str]:
    """γ and why, from the mean and the sum of every column that says something about s."""
    if not demands:
        return 0.0, "every γ solves: nothing depends on s"
    demands = {(mean, total) for mean, total in demands if (mean, total) != (0, 0)}
    if not demands:
        return 0.0, "the codes sum to 0 and the mean code of the people is 0: every γ solves"
    if all(total == 0 for _, total in demands):
        return 0.0, "the codes sum to 0 and the mean code of the people is not 0: only γ = 0 solves"
    odds = {1 - total / mean if mean else None for mean, total in demands}  # e^γ
    (only,) = odds if len(odds) == 1 else (None,)
    if only is None or only <= 0:
        return None, "no γ solves for these codes as they are: (e^γ − 1)·c̄ + Σ c = 0 has no solution"
    return math.log(only), "the codes do not sum to 0, and this γ alone makes up for it in this population"
