"""What does a file not say about itself? Where it decides, and whether its inputs are normalised: that is asked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

from bornfair.checks import choice
from bornfair.errors import InputError

Meaning = Literal["probability", "logit", "label"]
Answer = Literal["yes", "no"]


class ReadingOptions(TypedDict, total=False):
    """Keyword arguments of every function that reads models.

    decision: what the model's output is, if its graph does not show it: a "probability" (decides above ½), a "logit"
    (decides above 0), or a "label" (decides itself). threshold: above which number of it the last class is decided.
    normalise: "yes" or "no", whether the means and ranges of a .nnet file are applied to its inputs.
    """

    decision: Meaning | None
    threshold: float | None
    normalise: Answer | None


@dataclass(frozen=True)
class Reading:
    """The answers, checked."""

    decision: Meaning | None = None
    threshold: float | None = None
    normalise: Answer | None = None

    def __post_init__(self) -> None:
        if self.decision is not None:
            choice("decision", self.decision, get_args(Meaning))
        if self.normalise is not None:
            choice("normalise", self.normalise, get_args(Answer))
        if self.threshold is None:
            return
        if isinstance(self.threshold, bool) or not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, found {self.threshold!r}.")
        if self.decision == "label":
            raise InputError("a label decides itself; leave threshold (--threshold) out.")
        if self.decision == "probability" and not 0 < self.threshold < 1:
            raise InputError(f"the threshold of a probability must lie between 0 and 1, found {self.threshold!r}.")

    @property
    def moves_the_decision(self) -> bool:
        """Whether something else than the model itself says where it decides."""
        return self.threshold is not None or self.decision in ("probability", "logit")

    @property
    def note(self) -> str:
        """The answers in words."""
        given = ((name, getattr(self, name)) for name in ("decision", "threshold", "normalise"))
        said = ", ".join(f"{name} {value}" for name, value in given if value is not None)
        return f"read as asked: {said}" if said else ""

    def only_for(self, what: str, *allowed: str) -> None:
        """Refuse answers to questions that this kind of model leaves no room for."""
        for name in ("decision", "threshold", "normalise"):
            if name not in allowed and getattr(self, name) is not None:
                raise InputError(f"{what} says itself how it is read; leave {name} (--{name}) out.")
