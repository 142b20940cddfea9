"""What users say about a model file that the file does not: where it decides, whether its inputs are normalised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, get_args

from bornfair.core.checks import choice
from bornfair.core.errors import InputError
from bornfair.models.deciding import Meaning
from bornfair.models.operating import Asked, Threshold, Top
from bornfair.people.features import Value

Answer = Literal["yes", "no"]


class ReadingOptions(TypedDict, total=False):
    """Keyword arguments of every function that reads models.

    decision: what the model's output is, if its graph does not show it: a "probability" (decides above ½), a "logit"
    (decides above 0), or a "label" (decides itself). threshold: above which number of it a class is decided, as
    "approve=0.3" or "approve=top 12%" of the people of the table; without a class, it is for the positive or the rare
    one (`bornfair.models.operating`).
    normalise: "yes" or "no", whether the means and ranges of a .nnet file are applied to its inputs.
    decision_output: the name of the output that decides, if an .onnx file has several that may.
    """

    decision: Meaning | None
    threshold: Threshold | None
    normalise: Answer | None
    decision_output: str | None


@dataclass(frozen=True)
class Reading:
    """The answers, checked."""

    decision: Meaning | None = None
    threshold: float | tuple[float, ...] | Asked | None = None
    """One number, or one for each of more than two classes; as it was asked until the model's classes are known."""
    normalise: Answer | None = None
    decision_output: str | None = None
    resolved: str = ""
    """How the threshold was asked for, where that was not the number."""
    by_scores: bool = False
    """Whether scores decide, at a threshold that is still to be found."""

    @staticmethod
    def of(options: ReadingOptions, answers: Any = None) -> Reading:
        """The options, checked. answers: the target of the table, in which one class may be rare."""
        threshold = options.get("threshold")
        asked = None if threshold is None else Asked.of(threshold)
        if asked is not None and answers is not None:
            asked = asked.among(answers)
        if asked is None or (asked.number is not None and asked.rare is None):
            return Reading(**(options | {"threshold": None if asked is None else asked.number}))  # type: ignore[arg-type]
        return Reading(**(options | {"threshold": asked}))  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.decision is not None:
            choice("decision", self.decision, get_args(Meaning))
        if self.normalise is not None:
            choice("normalise", self.normalise, get_args(Answer))
        if self.threshold is None:
            return
        if isinstance(self.threshold, float) and not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, found {self.threshold!r}.")
        if self.decision == "label":
            raise InputError("a label decides itself; leave threshold (--threshold) out.")
        if self.decision == "probability" and isinstance(self.threshold, float) and not 0 < self.threshold < 1:
            raise InputError(f"the threshold of a probability must lie between 0 and 1, found {self.threshold!r}.")

    @property
    def moves_the_decision(self) -> bool:
        """Whether something else than the model itself says where it decides."""
        return self.by_scores or self.threshold is not None or self.decision in ("probability", "logit")

    def for_classes(self, classes: Sequence[Value]) -> Reading:
        """The same, with the class that a threshold is for; one number stays a number if it is the last of two's."""
        if self.threshold is None or isinstance(self.threshold, tuple) or len(classes) != 2:
            return self
        point = Asked.of(self.threshold).for_classes(classes)
        (name, amount), *others = point.parts
        if others or isinstance(amount, Top) or str(name) != str(classes[-1]):
            return replace(self, threshold=point)
        return replace(self, threshold=amount, resolved=f"for {name}")

    def point(self, classes: Sequence[Value]) -> Asked:
        """The threshold that is asked for, with its class; after `for_classes` a number is for the last of two."""
        if isinstance(self.threshold, float) and self.resolved:
            return Asked(((classes[-1], self.threshold),))
        return Asked.of(self.threshold).for_classes(classes)

    @property
    def note(self) -> str:
        """The answers in words."""
        threshold = self.threshold.text if isinstance(self.threshold, Asked) else self.threshold
        threshold = (
            f"{threshold if self.resolved.startswith('for ') else f'{threshold:.6g}'} ({self.resolved})"
            if self.resolved and isinstance(threshold, float)
            else threshold
        )
        given = (
            ("decision", self.decision),
            ("threshold", threshold),
            ("normalise", self.normalise),
            ("decision output", self.decision_output),
        )
        said = ", ".join(f"{name} {value}" for name, value in given if value is not None)
        return f"read as asked: {said}" if said else ""

    def only_for(self, what: str, *allowed: str) -> None:
        """Refuse answers to questions that this kind of model leaves no room for."""
        if "decision_output" not in allowed and self.decision_output is not None:
            raise InputError(
                f"{what} has no outputs to choose from; leave decision_output (--decision-output) out. It is for .onnx "
                "files of other exporters."
            )
        for name in ("decision", "threshold", "normalise"):
            if name not in allowed and getattr(self, name) is not None:
                raise InputError(f"{what} says itself how it is read; leave {name} (--{name}) out.")
