"""One answer for all engines: verified, falsified with twins, or undecided with the reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Answer = Literal["verified", "falsified", "undecided"]
Proof = Literal["structural", "bounds", "none"]
Shown = Literal["", "real", "synthetic", "hidden"]
Arithmetic = Literal["real", "float32", "float64", "executed"]


@dataclass(frozen=True)
class Verdict:
    """What was found out, how, and about which arithmetic (`real`: exact numbers; `float32`, or of some
    forests `float64`: as executed; `executed`: of a graph with anything inside, in the formats it has, or as a model
    that is not read was seen to decide).

    >>> bool(Verdict("undecided", "none", "bounds", (), "the time is up"))
    False
    """

    answer: Answer
    proof: Proof
    engine: str
    arithmetic: tuple[Arithmetic, ...]
    reason: str
    twins: list[dict[str, Any]] | None = None
    decisions: list[Any] | None = None
    partitions: int = 1
    boxes: int = 1
    seconds: float = 0.0
    as_read: bool = False
    """Whether it speaks of the network or forest as read from somebody's model, and not of how that is executed."""
    notes: tuple[str, ...] = ()
    """What is to be known of the people who are asked about: columns of the table that are one feature."""

    shown: Shown = ""
    """Who the twins are: `real` if they agree with a row of the table in all that twins share, `synthetic` if they do
    not, `hidden` if there are some and nobody is shown; empty where there are none, or no table to compare with."""

    def __bool__(self) -> bool:
        """True only for "verified", so that `if verify(...)` never mistakes undecided for fair."""
        return self.answer == "verified"

    @property
    def covers(self) -> Literal["score", "decision"]:
        """A structural proof is about the scores themselves, and so about the decision at every threshold."""
        return "score" if self.answer == "verified" and self.proof == "structural" else "decision"

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {"verdict": found.pop("answer"), **found, "covers": self.covers}


SHOWN = {
    "real": "The two people shown are real: they agree with a row of the table in everything that twins share.",
    "synthetic": "The two people shown are synthetic: they agree with no row of the table.",
    "hidden": "Two people who show it were found. They are not shown, because they may be rows of the table.",
}
"""What a reader must know of the people in an output."""


def undecided(engine: str, reason: str) -> Verdict:
    return Verdict("undecided", "none", engine, (), reason)
