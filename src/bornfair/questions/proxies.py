"""Which other features give the sensitive value away, and does the model's score?

Each feature alone, all together, and the scores of one or two models try to tell the sensitive value of rows they were
not fitted on (cross-validation). Categories that go with one sensitive value only are named, and pairs of them are put
up as questions: should they count as twins?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, plain
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, Feature, Value, known_levels, unknown_column
from bornfair.people.policies import decidable
from bornfair.people.tables import as_pandas
from bornfair.questions.loading import any_model
from bornfair.questions.proxy_pairs import Fact, Sensitive, Suggestion, facts_about, suggested_swaps

FOLDS = 4
BINS = 32  # a number alone is read in so many bins of equal content
MOST_ROWS = 20_000  # for all features together, which takes seconds; single features are read in all rows
ASKING = 0.3  # share of the time for the scores of a model that is only asked
CERTAIN = 4.0  # standard errors above chance from which on we say that a feature tells something


@dataclass(frozen=True)
class Tell:
    """How well something tells the sensitive value of rows it was not fitted on."""

    name: str
    balanced_accuracy: float
    """Mean share of each value's people who are recognised; chance is `chance`."""
    auc: float
    """Area under the ROC curve; chance is 0.5. More than two values: each against the rest, mean."""
    chance: float
    tells: bool
    """Whether the area is above chance by more than can be luck."""


@dataclass(frozen=True)
class SensitiveTells:
    """What tells one sensitive feature. Of a number it is asked whether it is above the middle."""

    sensitive: str
    values: tuple[str, ...]
    rows: int
    together: Tell
    features: tuple[Tell, ...]
    """Each feature alone, the most telling first."""
    score: Tell | None
    score_after: Tell | None
    facts: tuple[Fact, ...]
    suggestions: tuple[Suggestion, ...]
    left_out: dict[str, int] = field(default_factory=dict)
    """Values with too few rows to be told, each with its number of rows: these rows are left out."""

    @property
    def left_out_text(self) -> str:
        """The values that are left out, in words; empty if there are none."""
        if not self.left_out:
            return ""
        values = ", ".join(
            f"{name} ({count} {'row' if count == 1 else 'rows'})" for name, count in self.left_out.items()
        )
        return f"left out, as fewer than {FOLDS} rows have this value: {values}"


@dataclass(frozen=True)
class Proxies:
    """The report, one part for each sensitive feature."""

    about: tuple[SensitiveTells, ...]
    seed: int

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        return tuple(suggestion for part in self.about for suggestion in part.suggestions)

    def to_json(self) -> dict[str, Any]:
        return {
            "sensitive": [asdict(part) for part in self.about],
            "suggestions": [suggestion.to_json() for suggestion in self.suggestions],
            "seed": self.seed,
        }


def proxy_report(
    table: Any,
    domain: Domain | None = None,
    *,
    sensitive_features: Sequence[str] = (),
    target: str | None = None,
    model: Any = None,
    after: Any = None,
    seed: int = 0,
    timeout: Timeout = math.inf,
) -> Proxies:
    """What gives the sensitive features away, on the rows of a table.

    Args:
        table: real people.
        domain: who could exist, and what is sensitive; read off the table if it is left out.
        sensitive_features, target: for the domain that is read off.
        model, after: a model (and another to compare, say its repaired form) whose score is asked too.
        seed: the same seed splits the rows in the same way.
        timeout: seconds; half a report is none.

    Returns:
        For each sensitive feature how well every other one tells it, and swaps that might count as twins.

    Raises:
        InputError: if no feature is sensitive, or fewer than two values of one have enough rows.
        TimeIsUp: if it takes longer than it may.

    >>> from bornfair import datasets
    >>> people = datasets.load("census").table.head(3000)
    >>> found = proxy_report(people, sensitive_features=["sex"], target="income")
    >>> found.suggestions[0].rule_text
    'sex: Female<->Male, relationship: Wife<->Husband'
    """
    people, clock = as_pandas(table), Clock.of(timeout)
    if domain is None:
        domain = _inferred(people, sensitive_features, target)
    if not domain.sensitive:
        raise InputError("no feature is sensitive, so there is nothing to give away; name sensitive features.")
    for name in domain.names:
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
    scores = [None if one is None else _scores(one, people, domain, target, clock) for one in (model, after)]
    parts = tuple(_about(feature, people, domain, scores, seed, clock) for feature in domain.sensitive_features)
    return Proxies(parts, seed)


def _about(
    feature: Feature, people: pd.DataFrame, domain: Domain, scores: list[np.ndarray | None], seed: int, clock: Clock
) -> SensitiveTells:
    known = people[feature.name].notna().to_numpy(copy=True)
    free = domain.free_features
    sensitive, frequent, left_out = _sensitive(feature, people[feature.name][known])
    known[known] = frequent
    rows = people[known]
    values, folds = sensitive.values, spread_folds(sensitive.values, seed)
    columns = {f.name: _codes(f, rows[f.name]) for f in free}
    single = []
    for name, codes in columns.items():
        clock.check()
        single.append(alone(name, codes, values, folds))
    before, after = (
        None if one is None else _score_tell(name, one[known], values, seed, clock)
        for name, one in zip(("the score", "the other score"), scores, strict=True)
    )
    return SensitiveTells(
        sensitive=feature.name,
        values=sensitive.names,
        rows=len(rows),
        together=_together(rows, free, values, seed, clock),
        features=tuple(sorted(single, key=lambda tell: (-tell.auc, tell.name))),
        score=before,
        score_after=after,
        facts=facts_about(sensitive, columns, free),
        suggestions=suggested_swaps(sensitive, columns, free),
        left_out=left_out,
    )


def _inferred(people: pd.DataFrame, sensitive: Sequence[str], target: str | None) -> Domain:
    """The target is no feature, and what it holds does not matter here."""
    if target is not None and target not in people.columns:
        raise InputError(unknown_column(target, [str(column) for column in people.columns], "target"))
    if target is not None and target in sensitive:
        raise InputError(f"'{target}' cannot be both the target and a sensitive feature.")
    rows = people if target is None else people.drop(columns=target)
    return Domain.infer(rows, sensitive=sensitive, combinations=None, gaps=False)


def _scores(model: Any, people: pd.DataFrame, domain: Domain, target: str | None, clock: Clock) -> np.ndarray:
    """A model's outputs for each row, NaN where a gap or the time keeps it from deciding."""
    if target is None and domain.label is not None:
        target = domain.label.name
    read = model
    if getattr(model, "kind", "") != "opaque":
        read = any_model(model, table=people, sensitive=domain.sensitive, target=target, as_it_is=True)
    kept, _ = decidable(read.domain, people.reset_index(drop=True), read.fills, as_they_are=read.takes_gaps)
    if not read.ignores_sensitive:
        kept = kept[kept[[name for name in read.domain.sensitive if name in kept]].notna().all(axis=1)]
    if not read.is_read and clock.timeout < math.inf:
        kept = kept.iloc[: max(int(ASKING * clock.left / max(read.seconds_each, 1e-9)), 1)]
    scores = read.scores(kept)
    found = np.full((len(people), scores.shape[1]), np.nan)
    found[kept.index] = scores
    return found


def _sensitive(feature: Feature, column: pd.Series) -> tuple[Sensitive, np.ndarray, dict[str, int]]:
    """The sensitive value of each row with a frequent one, which rows these are, and the rare values with their rows.

    A number with many values is split in the middle.
    """
    levels: tuple[Value, ...] | None
    names: tuple[str, ...]
    if isinstance(feature, NUMERIC) and column.nunique() > 2:
        numbers = column.to_numpy(np.float64)
        middle = float(np.median(numbers))
        names, levels, values = (f"{middle:g} or less", f"above {middle:g}"), None, (numbers > middle).astype(np.int64)
    else:
        levels = tuple(level for level in feature.levels() if (column == level).any())
        values = pd.Index(levels).get_indexer(pd.Index(column))
        names = tuple(str(plain(level)) for level in levels)
        if (values < 0).any():
            stray = plain(column.iloc[int(np.argmax(values < 0))])
            raise InputError(f"column '{feature.name}' holds {stray!r}, which is not a value of the domain; add it.")
    counts = np.bincount(values, minlength=len(names))
    frequent = np.flatnonzero(counts >= FOLDS)
    if len(frequent) < 2:
        rows = ", ".join(f"{name} ({count} rows)" for name, count in zip(names, counts, strict=True))
        raise InputError(
            f"sensitive feature '{feature.name}' needs two or more values of at least {FOLDS} rows each, found {rows}."
        )
    rare = {name: int(count) for name, count in zip(names, counts, strict=True) if count < FOLDS}
    kept = np.isin(values, frequent)
    some = Sensitive(
        feature, tuple(names[i] for i in frequent), None if levels is None else tuple(levels[i] for i in frequent),
        np.searchsorted(frequent, values[kept]),
    )  # fmt: skip
    return some, kept, rare


def spread_folds(values: np.ndarray, seed: int) -> np.ndarray:
    """To which of the parts each row belongs; every sensitive value is spread over all of them."""
    generator = np.random.default_rng([seed, 3])
    folds = np.zeros(len(values), np.int64)
    for value in np.unique(values):
        members = generator.permutation(np.flatnonzero(values == value))
        folds[members] = np.arange(len(members)) % FOLDS
    return folds


def _codes(feature: Feature, column: pd.Series) -> np.ndarray:
    """A feature's values as positions: categories as they are, numbers by bins of equal content, missing ones last."""
    if isinstance(feature, NUMERIC):
        numbers = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
        return binned(numbers)
    codes = pd.Index(list(known_levels(feature))).get_indexer(pd.Index(column.astype(object)))
    return np.where(codes < 0, len(known_levels(feature)), codes)


def binned(numbers: np.ndarray) -> np.ndarray:
    present = np.unique(numbers[np.isfinite(numbers)])
    if len(present) > BINS:
        present = np.unique(np.quantile(numbers[np.isfinite(numbers)], np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.where(np.isfinite(numbers), np.searchsorted(present, numbers, side="left"), len(present) + 1)


def alone(name: str, codes: np.ndarray, values: np.ndarray, folds: np.ndarray) -> Tell:
    """What the position alone tells: in each fold the shares of the sensitive values among the others' positions."""
    kinds, size = int(values.max()) + 1, int(codes.max()) + 1
    counts = np.zeros((FOLDS, size, kinds))
    np.add.at(counts, (folds, codes, values), 1)
    others = counts.sum(axis=0) - counts
    prior = others.sum(axis=1, keepdims=True) / others.sum(axis=(1, 2), keepdims=True)
    shares = (others + prior) / (others + prior).sum(axis=2, keepdims=True)  # a position nobody had tells the prior
    return _tell(name, shares[folds, codes], values)


def _score_tell(name: str, scores: np.ndarray, values: np.ndarray, seed: int, clock: Clock) -> Tell | None:
    """What a model's outputs tell, of those it decides about; None where these are too few to say."""
    decided = np.isfinite(scores).all(axis=1)
    decided &= np.isin(values, np.flatnonzero(np.bincount(values[decided]) >= FOLDS))
    frequent, values = np.unique(values[decided], return_inverse=True)
    if len(frequent) < 2:
        return None
    scores = scores[decided].astype(np.float64)
    if scores.shape[1] == 1:
        return alone(name, binned(scores[:, 0]), values, spread_folds(values, seed))
    return _boosted(name, scores, [], values, seed, clock)


def _together(rows: pd.DataFrame, free: tuple[Feature, ...], values: np.ndarray, seed: int, clock: Clock) -> Tell:
    """What all free features together tell."""
    columns, categorical = [], []
    for i, feature in enumerate(free):
        if isinstance(feature, NUMERIC):
            columns.append(pd.to_numeric(rows[feature.name], errors="coerce").to_numpy(np.float64))
        else:
            codes = _codes(feature, rows[feature.name])
            few = len(feature.levels()) < 250  # what the booster takes as categories; more are read as numbers
            categorical += [i] if few else []
            columns.append(codes.astype(np.float64))
    inputs = np.stack(columns, axis=1) if columns else np.zeros((len(rows), 1))
    return _boosted("all features together", inputs, categorical, values, seed, clock)


def _boosted(
    name: str, inputs: np.ndarray, categorical: list[int], values: np.ndarray, seed: int, clock: Clock
) -> Tell:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    if len(inputs) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng([seed, 4]).permutation(len(inputs))[:MOST_ROWS])
        if np.bincount(values[chosen], minlength=int(values.max()) + 1).min() >= FOLDS:
            inputs, values = inputs[chosen], values[chosen]
    folds = spread_folds(values, seed)
    shares = np.zeros((len(values), int(values.max()) + 1))
    booster = HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.2, categorical_features=categorical or None, early_stopping=False,
        random_state=seed,
    )  # fmt: skip
    with threadpool_limits(1):  # small tables are done sooner than threads agree on who does what
        for fold in range(FOLDS):
            clock.check()
            fitted = booster.fit(inputs[folds != fold], values[folds != fold])
            shares[folds == fold] = fitted.predict_proba(inputs[folds == fold])
    return _tell(name, shares, values)


def _tell(name: str, shares: np.ndarray, values: np.ndarray) -> Tell:
    """Recognition of each value where all count the same, however rare they are."""
    kinds = shares.shape[1]
    counts = np.bincount(values, minlength=kinds)
    guess = np.argmax(shares / (counts / counts.sum()), axis=1)
    recognised = float(np.mean([np.mean(guess[values == kind] == kind) for kind in range(kinds)]))
    areas = [area_under_curve(values == kind, shares[:, kind]) for kind in range(1 if kinds == 2 else 0, kinds)]
    rest = counts.sum() - counts
    luck = float(np.mean(np.sqrt((counts.sum() + 1) / (12.0 * counts * rest))))
    area = float(np.mean(areas))
    return Tell(name, recognised, area, 1 / kinds, bool(area - 0.5 > CERTAIN * luck))


def area_under_curve(positive: np.ndarray, scores: np.ndarray) -> float:
    """The area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

    A table has thousands of columns, and scikit-learn's checks of its arguments take longer than the count.

    >>> area_under_curve(np.array([True, False, True, False]), np.array([0.9, 0.1, 0.4, 0.4]))
    0.875
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ones = np.bincount(places[positive], minlength=len(counts))
    zeros = counts - ones
    below = np.cumsum(zeros) - zeros
    return float((ones * (2 * below + zeros)).sum() / (2 * ones.sum() * zeros.sum()))
