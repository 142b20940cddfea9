"""Which categories go with one sensitive value only, and which two of them mirror each other?

A pair such as Husband and Wife, each found with one sex only and alike in the other columns, is put up as a question:
should people who differ in both be twins? Nothing is applied by itself.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import plain
from bornfair.people.features import NUMERIC, Cycles, Feature, Value
from bornfair.people.rules import rule_text

FEWEST = 20  # rows with a category before anything is said about it
ALMOST = 0.99  # share with one sensitive value that is worth a sentence
EXCLUSIVE = 0.95  # share that makes a category a candidate for a swap
COMMON = 0.02  # share of the sensitive value's people who have it, for a swap to matter
UNLIKELY = 1e-6  # how improbable that share must be for a category independent of the sensitive value
ALIKE = 0.35  # mean difference (0 to 1) in the other columns up to which two categories may mirror each other
NAME_COUNTS = 0.1  # by how much alike names ("mr", "mrs") shorten that difference when partners are chosen


@dataclass(frozen=True, eq=False)
class Sensitive:
    """One sensitive feature of the rows of a table."""

    feature: Feature
    names: tuple[str, ...]
    """The values that occur, in words."""
    levels: tuple[Value, ...] | None
    """The values themselves; None where a number was split in the middle."""
    values: np.ndarray  # int [rows]: positions in `names`

    @property
    def shares(self) -> np.ndarray:
        return np.bincount(self.values, minlength=len(self.names)) / len(self.values)


@dataclass(frozen=True)
class Fact:
    """A category that occurs with one sensitive value only, or almost."""

    feature: str
    category: Value
    sensitive_value: str
    rows: int
    with_it: int
    text: str


@dataclass(frozen=True)
class Suggestion:
    """A rule for twins, in the syntax of `--twins`, put up as a question."""

    feature: str
    rule_text: str
    question: str
    why: str
    strength: float
    """From 0 to 1: how exclusive both categories are, times how alike their people are otherwise."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class _Marked:
    """A category that goes with one sensitive value: (almost) no others have it."""

    position: int
    level: Value
    kind: int
    rows: int
    with_it: int

    @property
    def share(self) -> float:
        return self.with_it / self.rows


def facts_about(sensitive: Sensitive, columns: dict[str, np.ndarray], free: Sequence[Feature]) -> tuple[Fact, ...]:
    """Categories that give the sensitive value away, those of most people first.

    `columns` holds each free feature's values as positions among its levels.
    """
    found = []
    for feature in free:
        for mark in _marked(sensitive, feature, columns[feature.name], ALMOST):
            text = f"{feature.name} {plain(mark.level)} {_occurs(sensitive, mark)}"
            name = sensitive.names[mark.kind]
            found.append(Fact(feature.name, mark.level, name, mark.rows, mark.with_it, text))
    return tuple(sorted(found, key=lambda fact: (-fact.rows, fact.text)))


def suggested_swaps(
    sensitive: Sensitive, columns: dict[str, np.ndarray], free: Sequence[Feature]
) -> tuple[Suggestion, ...]:
    """Pairs of categories of one feature that mirror each other, the strongest first."""
    if sensitive.levels is None:
        return ()  # only "above the middle" was asked: there are no two values to swap
    found = []
    for feature in free:
        people = np.bincount(sensitive.values, minlength=len(sensitive.names))
        marked = [
            mark
            for mark in _marked(sensitive, feature, columns[feature.name], EXCLUSIVE)
            if mark.with_it >= COMMON * people[mark.kind]
        ]
        for one, other in itertools.combinations(range(len(sensitive.names)), 2):
            sides = [[mark for mark in marked if mark.kind == kind] for kind in (one, other)]
            found += _matched(sensitive, feature, sides, columns)
    return tuple(sorted(found, key=lambda suggestion: (-suggestion.strength, suggestion.rule_text)))


def _marked(sensitive: Sensitive, feature: Feature, column: np.ndarray, least: float) -> list[_Marked]:
    from scipy.stats import binom

    if isinstance(feature, NUMERIC):
        return []
    base, found = sensitive.shares, []
    for position, level in enumerate(feature.levels()):
        held = np.bincount(sensitive.values[column == position], minlength=len(base))
        rows, kind = int(held.sum()), int(held.argmax())
        if rows < FEWEST or held[kind] < least * rows:
            continue
        if binom.sf(held[kind] - 1, rows, base[kind]) < UNLIKELY:
            found.append(_Marked(position, level, kind, rows, int(held[kind])))
    return found


def _matched(
    sensitive: Sensitive, feature: Feature, sides: list[list[_Marked]], columns: dict[str, np.ndarray]
) -> list[Suggestion]:
    """The best partners, one for each category, if they are alike enough."""
    from scipy.optimize import linear_sum_assignment

    if not all(sides):
        return []
    own = columns[feature.name]
    others = {name: column for name, column in columns.items() if name != feature.name}
    apart = np.array([[_difference(own == a.position, own == b.position, others) for b in sides[1]] for a in sides[0]])
    named = np.array(
        [[difflib.SequenceMatcher(None, str(a.level), str(b.level)).ratio() for b in sides[1]] for a in sides[0]]
    )
    pairs = zip(*linear_sum_assignment(apart - NAME_COUNTS * named), strict=True)
    return [
        _suggestion(sensitive, feature, sides[0][i], sides[1][j], float(apart[i, j]))
        for i, j in pairs
        if apart[i, j] <= ALIKE
    ]


def _difference(one: np.ndarray, other: np.ndarray, columns: dict[str, np.ndarray]) -> float:
    """How much two groups differ in the other columns: the mean, over columns, of the share of people who would have to
    change their value for both groups to look the same, less what chance alone makes of groups of this size.
    """
    found = []
    for column in columns.values():
        size = int(column.max()) + 1
        p, q = (np.bincount(column[who], minlength=size) / who.sum() for who in (one, other))
        both = np.bincount(column[one | other], minlength=size) / (one | other).sum()
        luck = np.sqrt(2 / np.pi * both * (1 - both) * (1 / one.sum() + 1 / other.sum())).sum() / 2
        found.append(max(np.abs(p - q).sum() / 2 - luck, 0.0))
    return float(np.mean(found)) if found else 0.0


def _suggestion(sensitive: Sensitive, feature: Feature, a: _Marked, b: _Marked, apart: float) -> Suggestion:
    assert sensitive.levels is not None
    swapped = (sensitive.levels[a.kind], sensitive.levels[b.kind])
    moves = (
        Cycles(feature=sensitive.feature.name, cycles=(swapped,)),
        Cycles(feature=feature.name, cycles=((a.level, b.level),)),
    )
    one, other = plain(a.level), plain(b.level)
    return Suggestion(
        feature=feature.name,
        rule_text=rule_text(moves),
        question=f"When {sensitive.feature.name} changes, should {feature.name} {one} become {other} and back?",
        why=(
            f"{one} {_occurs(sensitive, a)}, {other} {_occurs(sensitive, b)}; in the other columns people with either "
            f"are {1 - apart:.0%} alike"
        ),
        strength=round(min(a.share, b.share) * (1 - apart), 3),
    )


def _occurs(sensitive: Sensitive, mark: _Marked) -> str:
    word = "only" if mark.with_it == mark.rows else "almost only"
    name = f"{sensitive.feature.name} {sensitive.names[mark.kind]}"
    return f"occurs with {name} {word} ({mark.with_it:,} of {mark.rows:,} rows)"
