"""Which γ preserves fairness? The randomised response P(ŝ=ω | s) = e^{γ·1[ω=s]} / (e^γ + |S| − 1) must make
Σ_ω ∂z/∂θ|_ω · P(ω | s) = 0 for the parameters θ of fair neurons with unfair inputs (paper §3.3, Theorem 3.4).

There is at most one answer. Write g(ω) for the derivative, G for its sum, p = P(s | s) and q = P(ω≠s | s). The
equation of s is (p − q)·g(s) + q·G = 0. If p ≠ q then g is the same for every s, and such parameters put no demand
on γ (Lemma 3.3). So p = q = 1/|S|, that is γ = 0, and then G = 0: solving means checking G = 0. A solution preserves
fairness in expectation and to first order; with sensitive weights that start at exactly 0 it does so exactly.
This is about responses that randomise a row's own value.

Population reading (Algorithm 1 as printed; docs/theory.md §4), where a row meets everybody's randomised value: the mean
released code must vanish, Σ_ω r(ω)·c(ω) = (p − q)·c̄ + q·Σc = 0, with c̄ the mean code of the people. As p = e^γ·q this
is (e^γ − 1)·c̄ + Σc = 0: a code with Σc = 0 needs γ = 0 or c̄ = 0. A code centred at its own release satisfies it for
every γ, which is how bornfair trains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from bornfair.core.checks import number, whole
from bornfair.core.errors import InputError, NoGamma
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import RealFeature, Value, listed_names, unknown_column
from bornfair.people.tables import as_pandas, read_table
from bornfair.training.response import draws_needed, drift_probability, response_variance

CENTRED = "centred codes (for two values −1 and +1, for k values k·e_i − 1)"
EQUATION = "p·c(s) + (1 − p)/(k − 1)·Σ_{ω≠s} c(ω) = 0 for every s, so Σ c = 0 and p = 1/k"
NOT_FAIRNESS = (
    "this is about one number and one step: noise adds up over steps, and no tolerance above 0 is fairness; "
    "the expected response, which is the default, draws nothing and has no noise"
)
POPULATION_EQUATION = "(p − q)·c̄ + q·Σ c = 0, with c̄ the mean code of the people, p = e^γ·q"
POPULATION_NOTE = "codes centred at their mean release solve it for every γ, which is how response='population' trains"
MOST_TERMS = 6  # of a sum that are written out


@dataclass(frozen=True)
class GammaSolution:
    """γ and what it rests on."""

    gamma: float
    p: float  # P(ŝ = s | s)
    equations: int
    note: str


# --- the closed form at the first layer ---


def solve_first_layer(codes: np.ndarray) -> GammaSolution:
    """γ for a first layer z = W x + V c(s) + b with V = 0, in exact arithmetic. Codes are [|S|, columns].

    There ∂z/∂V = c(s), and the equations p·c(s) + (1−p)/(k−1)·Σ_{ω≠s} c(ω) = 0 for all s sum up to Σ c = 0: a
    solution exists if and only if the codes are centred, and it is p = 1/k, γ = 0. A column with one code for all
    values (zero or not) says nothing about s and puts no demand on γ; when every column is like that, every γ solves,
    and 0 is returned.

    "No γ" means that the theorem gives no guarantee for this coding, not that training must go wrong: one-hot codes
    with γ = 0 move all columns of V by the same amount, which is fair although no expected update is zero.

    >>> solve_first_layer(np.array([[-1], [1]])).gamma
    0.0
    """
    table = checked_codes(codes)
    return _solved(_listed_columns(table), len(table))


def solve_domain(domain: Domain) -> GammaSolution:
    """γ for the codes of a domain's sensitive values, however many combinations of them there are."""
    return _solved(code_columns(domain), domain.sensitive_space.size)


def _solved(columns: Sequence[CodeColumn], size: int) -> GammaSolution:
    informative = [column for column in columns if len(set(column.codes)) > 1]
    for column in informative:
        if column.total != 0:
            number = str(column.total) if column.total.denominator == 1 else repr(float(column.total))
            raise NoGamma(f"no γ solves this coding: the codes of {column.name} sum to {number}, not 0; use {CENTRED}.")
    note = "the codes are centred" if informative else "every γ solves: nothing depends on s"
    return GammaSolution(0.0, 1 / size, len(informative) * size, note)


def checked_codes(codes: np.ndarray) -> np.ndarray:
    table = np.asarray(codes)
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise InputError(
            f"codes must be numbers [values of S, columns], found shape {table.shape} of {table.dtype}; "
            "write one row per sensitive value."
        )
    if len(table) < 2:
        raise InputError(f"codes must have a row for each of two or more sensitive values, found {len(table)}.")
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise InputError(f"the code of value {row}, column {column} is {table[row, column]}; codes must be finite.")
    return table


# --- the codes of people ---


@dataclass(frozen=True)
class CodeColumn:
    """One input of the network that carries a sensitive feature."""

    name: str
    values: tuple[Value, ...]
    codes: tuple[float, ...]  # what the network sees for each of them
    times: tuple[int, ...]  # how many sensitive values (combinations) have it

    @property
    def total(self) -> Fraction:
        """Σ c over all sensitive values, without rounding."""
        return sum((Fraction(c) * n for c, n in zip(self.codes, self.times, strict=True)), Fraction(0))

    @property
    def sum_text(self) -> str:
        """The sum written out, its middle left out where it is long.

        >>> CodeColumn("race=a", ("a", "b", "c"), (1.0, -0.5, -0.5), (1, 1, 1)).sum_text
        '1 − 0.5 − 0.5 = 0'
        """
        texts = [f"{'' if n == 1 else f'{n}·'}{abs(c):.12g}" for c, n in zip(self.codes, self.times, strict=True)]
        signed = [f"{'−' if code < 0 else '+'} {text}" for code, text in zip(self.codes, texts, strict=True)]
        signed[0] = f"{'−' if self.codes[0] < 0 else ''}{texts[0]}"
        half = MOST_TERMS // 2
        written = signed if len(signed) <= MOST_TERMS else [*signed[:half], "…", *signed[-half:]]
        return f"{' '.join(written)} = {float(self.total):.12g}"


def code_columns(domain: Domain) -> tuple[CodeColumn, ...]:
    """The inputs that carry the sensitive features. Over a full product of values each feature's own codes carry the
    whole equation, each of its values as often as any other; observed combinations are counted.
    """
    space, found = domain.sensitive_space, list[CodeColumn]()
    for j, coded in enumerate(space.features):
        levels, table = tuple(coded.feature.levels()), np.ldexp(coded.codes.astype(np.float64), -coded.exponent)
        times = np.ones(len(levels), np.int64)
        if space.combinations is not None:
            times = np.bincount(space.level_indices[:, j], minlength=len(levels))
        kept = np.flatnonzero(times)
        for i in range(table.shape[1]):
            name = coded.feature.name if table.shape[1] == 1 else f"{coded.feature.name}={levels[i]}"
            values = tuple(levels[k] for k in kept)
            found.append(CodeColumn(name, values, tuple(table[kept, i].tolist()), tuple(times[kept].tolist())))
    return tuple(found)


def _listed_columns(codes: np.ndarray) -> tuple[CodeColumn, ...]:
    values, once = tuple(range(len(codes))), (1,) * len(codes)
    return tuple(CodeColumn(f"column {i}", values, tuple(column), once) for i, column in enumerate(codes.T.tolist()))


# --- the population reading ---


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
    equation: str = POPULATION_EQUATION
    note: str = POPULATION_NOTE


def solve_population(columns: Sequence[CodeColumn], counts: Sequence[Sequence[float]]) -> PopulationGamma:
    """Solve for columns of codes, given how many people (or which share of them) have each value of each column.

    Exact: a mean of 0 is 0. A column with one code for all values puts no demand on γ, as in `gamma`.

    >>> sex = CodeColumn("sex", ("f", "m"), (-1.0, 1.0), (1, 1))
    >>> solve_population([sex], [[1, 3]]).reason
    'the codes sum to 0 and the mean code of the people is not 0: only γ = 0 solves'
    """
    told, demands = [], set()  # the mean and the sum of every column that says something about s
    for column, numbers in zip(columns, counts, strict=True):
        weights = [Fraction(number) for number in numbers]
        mean = sum((Fraction(c) * n for c, n in zip(column.codes, weights, strict=True)), Fraction(0)) / sum(weights)
        told.append(MeanCode(column.name, float(mean)))
        if len(set(column.codes)) > 1:
            demands.add((mean, column.total))
    open_demands = demands - {(0, 0)}
    odds = {1 - total / mean if mean else None for mean, total in open_demands}  # e^γ
    (only,) = odds if len(odds) == 1 else (None,)
    gamma: float | None = 0.0
    if not demands:
        reason = "every γ solves: nothing depends on s"
    elif not open_demands:
        reason = "the codes sum to 0 and the mean code of the people is 0: every γ solves"
    elif all(total == 0 for _, total in open_demands):
        reason = "the codes sum to 0 and the mean code of the people is not 0: only γ = 0 solves"
    elif only is None or only <= 0:
        gamma, reason = None, "no γ solves for these codes as they are: (e^γ − 1)·c̄ + Σ c = 0 has no solution"
    else:
        gamma, reason = (
            math.log(only),
            ("the codes do not sum to 0, and this γ alone makes up for it in this population"),
        )
    return PopulationGamma(gamma, reason, tuple(told))


def solve_table(columns: Sequence[CodeColumn], table: pd.DataFrame, domain: Domain) -> PopulationGamma | None:
    """Solve for the people of a table who have all sensitive values; None if nobody has."""
    known = table[list(domain.sensitive)].dropna()
    if not len(known):
        return None
    sensitive_alone = Domain(
        features=domain.sensitive_features, sensitive=domain.sensitive, combinations=domain.combinations
    )  # fmt: skip
    levels = Encoding.fit(sensitive_alone, known).encode(known).sensitive_levels
    assert levels is not None
    people: list[dict[Value, int]] = []
    for j, coded in enumerate(domain.sensitive_space.features):
        counted = np.bincount(levels[:, j], minlength=len(coded.codes)).tolist()
        people += [dict(zip(coded.feature.levels(), counted, strict=True))] * coded.codes.shape[1]
    counts = [[those[value] for value in column.values] for column, those in zip(columns, people, strict=True)]
    return solve_population(columns, counts)


# --- the whole answer ---


class Noise(NamedTuple):
    """How far the mean code of random responses may be from its expectation, 0 (Chebyshev: `drift`)."""

    column: str
    variance: float  # of one draw
    chance: float  # at most this, that the mean of `draws` is off by more than the tolerance
    draws_needed: int  # so that it stays within the tolerance with the confidence


@dataclass(frozen=True)
class GammaReport:
    """Which γ preserves fairness for some codes, why, and what a sampled response costs. γ is None if none does."""

    gamma: float | None
    reason: str
    probability: float | None  # p, of every answer
    values: int  # k = |S|
    columns: tuple[CodeColumn, ...]
    draws: int
    tolerance: float
    confidence: float
    noise: tuple[Noise, ...]
    notes: tuple[str, ...]
    population: PopulationGamma | None = None  # the population reading, where it is known who the people are

    def to_json(self) -> dict[str, Any]:
        columns = [{**asdict(column), "sum": float(column.total)} for column in self.columns]
        noise = [one._asdict() for one in self.noise]
        return {**asdict(self), "equation": EQUATION, "columns": columns, "noise": noise, "notes": list(self.notes)}


def gamma_report(
    people: Any,
    *,
    sensitive_features: Sequence[str] | None = None,
    target: str | None = None,
    combinations: Literal["all", "observed"] | None = None,
    shares: Sequence[float] | None = None,
    draws: int = 1,
    tolerance: float = 0.1,
    confidence: float = 0.95,
) -> GammaReport:
    """Which γ preserves fairness for these people's codes, why, how noisy a sampled response is.

    γ is asked for responses that randomise a row's own value, and beside it for the population reading.

    Args:
        people: a table (or its path), a `Domain` (or the path of its .json), or codes: a list of one number, or one
            list of numbers, for each sensitive value.
        sensitive_features: the sensitive columns, if not as the domain says.
        target: a column of the table that is no feature.
        combinations: which sensitive combinations of a table exist: 'all' or the 'observed' ones.
        shares: with codes, which share of the people (or how many) has each value; a table says so itself.
        draws: random responses whose mean is looked at.
        tolerance: how far that mean may be off; codes lie between −1 and 1.
        confidence: with which probability it shall stay within the tolerance.

    Returns:
        γ or None, the equation with its terms, the noise of each code, and the answer of the population reading
        where the people are known.

    Raises:
        InputError: for what cannot be read, and where nothing is sensitive.

    >>> report = gamma_report([-1, 1], tolerance=0.5)
    >>> report.gamma, report.columns[0].sum_text, report.noise[0].draws_needed
    (0.0, '−1 + 1 = 0', 80)
    >>> gamma_report([0, 1]).gamma is None
    True
    >>> gamma_report([-1, 1], shares=[0.75, 0.25]).population.means[0].mean
    -0.5
    """
    whole("draws", draws, 1)
    number("tolerance", tolerance, 0.0, float("inf"), open_low=True)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, found {confidence!r}; 0.95 is usual.")
    notes: tuple[str, ...] = ()
    population: PopulationGamma | None = None
    if isinstance(people, (list, tuple, np.ndarray)):
        if sensitive_features or target is not None:
            raise InputError("codes have no named columns; leave out the sensitive features and the target.")
        columns, size = _of_codes(people)
        if shares is not None:
            population = solve_population(columns, [_checked_shares(shares, size)] * len(columns))
    else:
        if shares is not None:
            raise InputError("shares belong to codes; leave them out, a table of people says them itself.")
        people = _read(people)
        domain = _domain_of(people, sensitive_features, target, combinations)
        columns, size = code_columns(domain), domain.sensitive_space.size
        if not isinstance(people, Domain):
            population = solve_table(columns, as_pandas(people), domain)
        notes = tuple(_note(feature) for feature in domain.sensitive_features if isinstance(feature, RealFeature))
    asked = columns, draws, tolerance, confidence
    try:
        solution = _solved(columns, size)
    except NoGamma as error:
        return GammaReport(None, str(error).rstrip("."), None, size, *asked, (), notes, population)
    noise = tuple(_noise(column, draws, tolerance, confidence) for column in columns)
    notes = (*notes, NOT_FAIRNESS)
    return GammaReport(solution.gamma, solution.note, solution.p, size, *asked, noise, notes, population)


def _of_codes(codes: Sequence[Any] | np.ndarray) -> tuple[tuple[CodeColumn, ...], int]:
    try:
        table = np.asarray(codes)
    except ValueError:
        raise InputError("codes must have as many numbers for each sensitive value as for every other.") from None
    table = checked_codes(table[:, None] if table.ndim == 1 else table)
    return _listed_columns(table), len(table)


def _checked_shares(shares: Sequence[float], size: int) -> Sequence[float]:
    good = [isinstance(share, (int, float, np.number)) and np.isfinite(share) and share >= 0 for share in shares]
    if len(good) != size or not all(good) or not any(shares):
        raise InputError(
            f"shares must be one number of at least 0 for each of the {size} sensitive values, not all 0, "
            f"found {list(shares)}."
        )
    return [float(share) for share in shares]


def _read(people: Any) -> Any:
    """A domain or a table, where a path of one is given."""
    if not isinstance(people, (str, Path)):
        return people
    if Path(people).suffix.lower() == ".json":
        return Domain.load(people)
    return read_table(people)


def _features(table: Any, target: str | None) -> pd.DataFrame:
    """The table without the column that is no feature: answers, or gaps among them, do not matter here."""
    rows = as_pandas(table)
    if target is None:
        return rows
    if target not in rows.columns:
        raise InputError(unknown_column(target, [str(name) for name in rows.columns], "target"))
    return rows.drop(columns=target)


def _domain_of(people: Any, sensitive: Sequence[str] | None, target: str | None, combinations: Any) -> Domain:
    if not isinstance(people, Domain):
        rows = _features(people, target)
        people = Domain.infer(rows, sensitive=sensitive or (), combinations=combinations, gaps=False)
    elif sensitive and listed_names(sensitive) != people.sensitive:
        people = people.with_sensitive(sensitive)
    people.require_sensitive()
    return people


def _noise(column: CodeColumn, draws: int, tolerance: float, confidence: float) -> Noise:
    every = np.repeat(column.codes, column.times)[:, None]
    variance = float(response_variance(every, 0.0, 0)[0])
    chance = drift_probability(variance, draws, tolerance)
    rest = float(1 - Decimal(str(confidence)))  # of 0.9 it is 0.1, and not a little less
    return Noise(column.name, variance, chance, draws_needed(variance, tolerance, rest))


def _note(feature: RealFeature) -> str:
    return (
        f"every real value of {feature.name} from {feature.low:g} to {feature.high:g} counts: the response is drawn "
        f"from a grid of {feature.grid}, and weights of exactly 0 ignore the values between as well"
    )
