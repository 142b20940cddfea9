"""Records of measurements: shares, estimates, intervals, groups and affected people. They refuse impossible numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.verdict import Arithmetic
from bornfair.people.features import Level

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.99
SURE = 1 - 1e-6

Over = Literal["uniform", "data"]
"""How people are weighted: all alike, or each feature as often as in a table. A table itself may be counted, too: then
the name of its file is said."""


Share = float  # from 0 to 1


class Checked:
    """A record that refuses a field declared as `Share` with any other number in it."""

    def __post_init__(self) -> None:
        for declared in dataclasses.fields(self):  # type: ignore[arg-type]
            if declared.type not in ("Share", "Share | None"):
                continue
            value = getattr(self, declared.name)
            if declared.type == "Share | None" and (value is None or value != value):
                object.__setattr__(self, declared.name, None)  # NaN, the rate of nobody, is the same as missing
            elif not (isinstance(value, Real) and 0 <= float(value) <= 1):
                kind = type(self).__name__.lower()
                raise InputError(f"{declared.name} of {kind}: found {value!r}; give a share from 0 to 1.")


@dataclass(frozen=True)
class Estimate(Checked):
    """The share of unfair people in a sample, and a range that holds the true share with the given confidence.

    Never a proof. Where a sensitive feature is real-valued, `unfair` counts people for whom two values were found that
    are decided differently, and `high` all who are not proven to be treated alike for every value.
    """

    unfair: Share
    low: Share
    high: Share
    samples: int | None = None
    confidence: Share = CONFIDENCE

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.unfair <= self.high:
            raise InputError(
                f"an estimate lies in its interval, found {self.unfair} outside {self.low} to {self.high}; "
                "give low ≤ unfair ≤ high."
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "unfair": self.unfair, "low": self.low, "high": self.high, "confidence": self.confidence,
            "samples": self.samples, "kind": "estimate",
        }  # fmt: skip


NOTHING_SEEN = Estimate(0.0, 0.0, 1.0, 0)


@dataclass(frozen=True)
class Confident(Checked):
    """Between which shares of everybody those lie who are treated unfairly: proven where boxes are decided, sampled
    where they are not, and true with this confidence whenever it was stopped.

    `samples` people were drawn from what no proof decides; 0 where the ends are proven.
    """

    low: Share
    high: Share
    confidence: Share = SURE
    samples: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low <= self.high:
            raise InputError(f"an interval goes from low to high, found {self.low} to {self.high}; give low ≤ high.")

    def to_json(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, "confidence": self.confidence, "samples": self.samples}


@dataclass(frozen=True)
class Condition:
    """What a rule asks of one feature: a range (ends included, None: unbounded) or a set of values."""

    feature: str
    low: float | None = None
    high: float | None = None
    values: tuple[Level, ...] | None = None

    @property
    def text(self) -> str:
        if self.values is not None:
            told = ["missing" if value is None else str(value) for value in self.values]
            if len(told) == 1:
                return f"{self.feature} is missing" if self.values[0] is None else f"{self.feature} = {told[0]}"
            return f"{self.feature} in {{{', '.join(told)}}}"
        if self.low is None:
            return f"{self.feature} ≤ {self.high:g}"
        if self.high is None:
            return f"{self.feature} ≥ {self.low:g}"
        if self.low == self.high:
            return f"{self.feature} = {self.low:g}"
        return f"{self.feature} from {self.low:g} to {self.high:g}"

    def holds(self, column: pd.Series) -> np.ndarray:
        if self.values is not None:
            known = [value for value in self.values if value is not None]
            return column.isin(known).to_numpy() | (column.isna().to_numpy() & (None in self.values))
        numbers = column.to_numpy(np.float64)
        low = -np.inf if self.low is None else self.low
        high = np.inf if self.high is None else self.high
        return (numbers >= low) & (numbers <= high)


def fulfilled(conditions: tuple[Condition, ...], table: pd.DataFrame) -> np.ndarray:
    """Which rows of a table meet all conditions."""
    found = np.ones(len(table), bool)
    for condition in conditions:
        found &= condition.holds(table[condition.feature])
    return found


@dataclass(frozen=True)
class Group(Checked):
    """People who share a rule. All numbers are estimates from a fresh sample.

    share: of everybody; inside: how many of the group are treated unfairly; contains: of all unfair people.
    """

    text: str
    share: Share
    inside: Estimate | None = None
    contains: Share | None = None
    conditions: tuple[Condition, ...] = ()

    def holds(self, table: pd.DataFrame) -> np.ndarray:
        """Which rows of a table belong to the group."""
        return fulfilled(self.conditions, table)

    def to_json(self) -> dict[str, Any]:
        inside = (self.inside or NOTHING_SEEN).to_json()
        return {
            "text": self.text, "conditions": [asdict(condition) for condition in self.conditions], "share": self.share,
            **{name: inside[name] for name in ("unfair", "low", "high")}, "contains": self.contains,
            **{name: inside[name] for name in ("samples", "confidence", "kind")},
        }  # fmt: skip


@dataclass(frozen=True)
class Affected:
    """One row of a table whose decision hangs on the sensitive values, and the twin who is decided otherwise.

    `undo` names the smallest change of other features found after which all versions get one decision; a report that
    was read back knows it as a sentence only.
    """

    row: Any
    person: Mapping[str, Any]
    twin: Mapping[str, Any]
    decisions: tuple[Any, ...] = ()
    scores: tuple[list[float], ...] = ()
    gap: float | None = None
    undo: Mapping[str, Any] | str | None = None

    @property
    def undo_text(self) -> str:
        """What would undo it, in one sentence.

        >>> Affected(3, {"hours": 40}, {"hours": 40}).undo_text
        'no change of one or two other features was found that undoes it'
        >>> change = {"changes": {"hours": [40, 43]}, "decision": "yes"}
        >>> Affected(3, {"hours": 40}, {"hours": 40}, undo=change).undo_text
        'with hours 43 instead of 40, all versions get yes'
        """
        if self.undo is None:
            return "no change of one or two other features was found that undoes it"
        if isinstance(self.undo, str):
            return self.undo

        def text(value: Any) -> str:
            return f"{value:.6g}" if isinstance(value, float) else str(value)

        changes = [f"{name} {text(new)} instead of {text(old)}" for name, (old, new) in self.undo["changes"].items()]
        return f"with {' and '.join(changes)}, all versions get {self.undo['decision']}"

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "undo_text": self.undo_text}


@dataclass(frozen=True)
class People:
    """The rows of a table: how many have a twin who is decided otherwise, and whom it affects most.

    values: with how many sensitive values each row was looked at, where these are not all there are.
    source: what the table is called, if it has a name. left_out: people besides, whom gaps keep from being decided.
    drawn_from: how many rows the table has, where time allowed only to look at some of them, drawn at random.
    """

    rows: int
    unfair: int
    most_affected: tuple[Affected, ...] = ()
    values: int | None = None
    source: str = ""
    left_out: int = 0
    drawn_from: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.unfair <= self.rows:
            raise InputError(f"unfair rows: {self.unfair} of {self.rows}; give a count from 0 to the number of rows.")

    @property
    def share(self) -> float:
        return self.unfair / self.rows if self.rows else 0.0

    @property
    def note(self) -> str:
        """Which rows of the table these are, if not all.

        >>> People(40_000, 12, drawn_from=1_000_000).note
        'time allowed to judge 40,000 of the 1,000,000 rows, drawn at random'
        """
        if self.drawn_from is None:
            return ""
        return f"time allowed to judge {self.rows:,} of the {self.drawn_from:,} rows, drawn at random"

    def to_json(self) -> dict[str, Any]:
        found = {
            "rows": self.rows, "unfair": self.unfair, "most_affected": [one.to_json() for one in self.most_affected],
            "left_out": self.left_out,
        }  # fmt: skip
        return found if self.drawn_from is None else {**found, "drawn_from": self.drawn_from}


@dataclass(frozen=True)
class ThresholdCurve(Checked):
    """How many of `rows` people have a twin who is decided otherwise, at thresholds of the probability of the class
    `decided`.
    """

    decided: str
    rows: int
    thresholds: tuple[float, ...]
    affected: tuple[int, ...]
    """How many have a twin who is decided otherwise, at each threshold."""
    own: Share
    """Where the model decides."""
    own_affected: int
    worst: Share
    """The threshold at which most are affected."""
    worst_affected: int
    largest_change: Share
    """By how much a person's probability changes at most between their versions, among these people."""


@dataclass(frozen=True)
class Moment:
    """How far a measurement was: after so many seconds and boxes, about this share was undecided; of the last one, it
    is what was left in the end.
    """

    seconds: float
    boxes: int
    undecided: float


@dataclass(frozen=True)
class Shares(Checked):
    """Shares of the domain. `certified` and `falsified` are proven lower bounds; `undecided` is what is left of 1.

    People are free vectors: everything but the sensitive values. `estimate` is None where no sample was drawn.
    `counts`, when everybody counts once and every box was decided as a whole, are the numbers behind the shares.
    `where` names the sub-population that is spoken of, if it is one. `confident` is the interval of the unfair share
    that proofs and a sample of what is undecided give together. `groups` (estimates) tell where in the domain the
    unfairness sits, `people` whom of a table it affects. `history` tells how the undecided share fell.
    """

    certified: Share
    falsified: Share
    estimate: Estimate | None = None
    boxes: int | None = 0
    seconds: float | None = 0.0
    reason: str = ""
    arithmetic: tuple[Arithmetic, ...] = ()
    interrupted: bool = False
    counts: Mapping[str, int] | None = None
    over: Over | str = "uniform"
    groups: tuple[Group, ...] = ()
    people: People | None = None
    confident: Confident | None = None
    where: Mapping[str, Any] | None = None
    history: tuple[Moment, ...] = ()
    asked: int | None = None
    """Of a model that is only asked, of which nothing is proven: about so many people."""
    notes: tuple[str, ...] = ()
    """What is to be known of the people who are counted: columns of the table that are one feature."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.certified + self.falsified > 1 + 1e-9:
            total = self.certified + self.falsified
            raise InputError(f"certified and falsified shares sum to 1 at most, found {total!r}.")

    @property
    def undecided(self) -> float:
        return max(1.0 - self.certified - self.falsified, 0.0)

    @property
    def proven_interval(self) -> Confident:
        """What proofs alone say of the unfair share."""
        return Confident(self.falsified, max(1.0 - self.certified, self.falsified))

    def to_json(self) -> dict[str, Any]:
        shares = {"certified": self.certified, "falsified": self.falsified, "undecided": self.undecided}
        found = {
            **shares, **{name: value for name, value in vars(self).items() if name not in shares},
            "estimate": (self.estimate or NOTHING_SEEN).to_json(),
            "confident": (self.confident or self.proven_interval).to_json(), "arithmetic": list(self.arithmetic),
            "groups": [group.to_json() for group in self.groups], "notes": list(self.notes),
        }  # fmt: skip
        people, _ = found.pop("people"), found.pop("history")
        if self.asked is None:
            del found["asked"]
        return found if people is None else {**found, "people": people.to_json()}
