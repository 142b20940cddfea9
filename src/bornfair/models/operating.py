"""Operating points: the probability above which a class is decided, or the top percent of a table.

Of two classes the one a threshold is for is decided where its probability exceeds the threshold; of more, the class
whose probability is the largest multiple of its threshold. A threshold without a class is for the positive class of a
pair such as 0 and 1 (`POSITIVE`), else for the one class with fewer than `RARE` of the target's rows, else refused.

A threshold is a shift of the scores, so that a model at any point is again one that decides by score > 0, or by the
first largest score: proofs and counts need not know of it. What the scores were shifted by is kept beside them
(`Model.offsets`), to show probabilities.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.people.features import Value

Threshold = float | str | Sequence[str] | Mapping[Value, float | str]
"""What may be asked: 0.05, "top 12%", "approve=0.3", several of these for several classes, or a mapping."""

USUAL = 0.5
LEAST = 1e-12  # thresholds closer to 0 or 1 decide alike for everybody
ROUNDING = 1e-6  # of means of probabilities that are added up in float32 or float64
TOP = re.compile(r"top\s*(\d+(?:\.\d*)?|\.\d+)\s*%", re.IGNORECASE)
HOW = "write 0.05, 'top 12%', or CLASS=0.3"
RARE = 0.2  # a class with a smaller share of the target's rows is the one that a threshold is for
POSITIVE = {
    "1": ("0", "-1"), "true": ("false",), "yes": ("no",), "y": ("n",), "t": ("f",), "positive": ("negative",),
    "pos": ("neg",),
}  # fmt: skip
"""Names of the positive class of two, with the other names that go with them."""


@dataclass(frozen=True)
class Top:
    """The so many of a hundred whose probability is largest."""

    percent: float

    def above(self, scores: np.ndarray) -> float:
        """A number that at most so many of the scores exceed: between the last of them and the next below."""
        ordered = np.sort(np.asarray(scores, np.float64))[::-1]
        if not np.isfinite(ordered).all() or not len(ordered):
            raise InputError(f"'top {self.percent:g}%' needs a table of people with finite scores; give one.")
        count = math.floor(self.percent / 100 * len(ordered) + 1e-9)
        if not 0 < count < len(ordered):
            raise InputError(
                f"'top {self.percent:g}%' of {len(ordered):,} rows is {'nobody' if count == 0 else 'everybody'}; "
                "give a larger table, or a number as the threshold."
            )
        below = ordered[count]
        higher = ordered[ordered > below]
        if not len(higher):
            raise InputError(
                f"the {int(np.sum(ordered == below)):,} rows with the highest score have the same one, so 'top "
                f"{self.percent:g}%' cannot tell them apart; give a number as the threshold."
            )
        middle = float((higher[-1] + below) / 2)
        return middle if below <= middle < higher[-1] else float(below)


@dataclass(frozen=True)
class Asked:
    """Which threshold is asked for which class; None: for the positive or the rare one of two."""

    parts: tuple[tuple[Value | None, float | Top], ...]
    logit: bool = False
    """Whether numbers are scores, and not probabilities."""
    rare: Value | None = None
    """The one rare class of the target's two, if it was looked at."""

    @staticmethod
    def of(threshold: Any) -> Asked:
        """Read what may be asked (`Threshold`)."""
        if isinstance(threshold, Asked):
            return threshold
        if isinstance(threshold, Mapping):
            return Asked(tuple((plain(name), _amount(given, given)) for name, given in threshold.items()))
        several = [threshold] if isinstance(threshold, (str, int, float, np.number)) else list(threshold)
        if not several:
            raise InputError(f"no threshold is given; {HOW}, or leave it out.")
        return Asked(tuple(_part(given) for given in several))

    @property
    def number(self) -> float | None:
        """The one number that is asked for, if it is one."""
        if len(self.parts) == 1 and self.parts[0][0] is None and not isinstance(self.parts[0][1], Top):
            return self.parts[0][1]
        return None

    @property
    def needs_people(self) -> bool:
        return any(isinstance(amount, Top) for _, amount in self.parts)

    @property
    def text(self) -> str:
        """As a person would write it."""
        amounts = ((name, f"top {a.percent:g}%" if isinstance(a, Top) else f"{a:g}") for name, a in self.parts)
        return ", ".join(amount if name is None else f"{name}={amount}" for name, amount in amounts)

    def among(self, answers: Any) -> Asked:
        """The same, with the target's rare class in mind.

        >>> Asked.of("top 5%").among(["ok"] * 9 + ["fraud"]).for_classes(["fraud", "ok"]).text
        'fraud=top 5%'
        """
        counts = pd.Series(answers, dtype=object).dropna().value_counts()
        rare = len(counts) == 2 and counts.iloc[-1] < RARE * counts.sum()
        return replace(self, rare=plain_value(counts.index[-1]) if rare else None)

    def for_classes(self, classes: Sequence[Value]) -> Asked:
        """The same, with every class named."""
        if len(classes) != 2 or all(name is not None for name, _ in self.parts):
            return self
        place = positive_place(classes)
        if place is None and self.rare is not None:
            place = next((i for i, name in enumerate(classes) if str(name) == str(self.rare)), None)
        if place is None:
            spelled = " or ".join(repr(replace(self, parts=((name, self.parts[0][1]),)).text) for name in classes)
            raise InputError(
                f"the threshold {self.text} names no class, and of {shown(classes)} neither is known to be the "
                f"positive or the rare one; write {spelled}."
            )
        return replace(self, parts=tuple((classes[place] if name is None else name, a) for name, a in self.parts))

    def by_class(self, classes: Sequence[Value]) -> dict[int, float | Top]:
        """The same by the positions of the classes."""
        found: dict[int, float | Top] = {}
        texts = [str(name) for name in classes]
        for name, amount in self.for_classes(classes).parts:
            if name is None and len(classes) > 2:
                raise InputError(
                    f"there are {len(classes)} classes, so a threshold must name one, as {texts[-1]}=0.3; they are "
                    f"{shown(classes)}."
                )
            if name is not None and name not in classes and str(name) not in texts:
                raise InputError(
                    f"the threshold is for the class {name!r}, which is not one of {shown(classes)}; name one of these."
                )
            assert name is not None
            place = list(classes).index(name) if name in classes else texts.index(str(name))
            if place in found:
                raise InputError(f"the class {texts[place]!r} is given two thresholds; give one.")
            if isinstance(amount, Top) and len(classes) > 2:
                raise InputError(
                    f"'top {amount.percent:g}%' is for two classes, found {shown(classes)}; name a number for each."
                )
            found[place] = amount
        if len(classes) == 2 and len(found) == 2:
            raise InputError(
                f"of two classes, one threshold says it all; name one of {shown(classes)}, found {self.text}."
            )
        return found

    def offsets(self, classes: Sequence[Value], scores: np.ndarray | None) -> tuple[float, ...]:
        """What is to be subtracted from the scores (logits) of a model; `scores` [rows, outputs] are those of a table,
        if there is one.
        """
        asked = self.by_class(classes)
        if len(classes) > 2:
            return tuple(
                0.0 if place not in asked else math.log(_share(asked[place]) / USUAL) for place in range(len(classes))
            )
        ((place, amount),) = asked.items()
        sign = 1.0 if place == 1 else -1.0
        if isinstance(amount, Top):
            if scores is None:
                raise InputError(f"'{self.text}' is a share of a table's people; give a table, or a number.")
            if sign < 0:  # the first class is decided at and below the number, not above it
                return (math.nextafter(-amount.above(-scores[:, 0].astype(np.float64)), -math.inf),)
            return (amount.above(scores[:, 0]),)
        return (sign * (amount if self.logit else logit(_share(amount))),)


def positive_place(classes: Sequence[Value]) -> int | None:
    """The position of the positive one of two classes, if their names are such a pair.

    >>> positive_place([False, True]), positive_place(["yes", "no"]), positive_place(["fraud", "ok"])
    (1, 0, None)
    """
    words = [f"{name:g}" if isinstance(name, float) else str(name).strip().lower() for name in classes]
    found = [i for i, word in enumerate(words) if words[1 - i] in POSITIVE.get(word, ())] if len(words) == 2 else []
    return found[0] if found else None


@dataclass(frozen=True)
class Operating:
    """The decision rule on class probabilities, as it is carried into a graph.

    Two classes: class `place` is decided where its probability exceeds `above[0]` (with `ties`: reaches it), else the
    other class. More classes: the class whose probability is the largest multiple of its number in `above`.

    >>> Operating((0.15,)).decide(np.array([[0.9, 0.1], [0.8, 0.2]])).tolist()
    [0, 1]
    """

    above: tuple[float, ...]
    place: int = 1
    ties: bool = False

    @staticmethod
    def of(asked: Asked, classes: Sequence[Value], *, logits: bool = False) -> Operating:
        """The rule that is asked for: probabilities, or logits of the last of two classes."""
        by_class = asked.by_class(classes)
        if any(isinstance(amount, Top) for amount in by_class.values()):
            raise InputError(f"'{asked.text}' is not supported here; give a number as the threshold.")
        if len(classes) > 2:
            return Operating(tuple(_share(by_class.get(place, USUAL)) for place in range(len(classes))))
        ((place, amount),) = by_class.items()
        assert not isinstance(amount, Top)
        share = 1.0 / (1.0 + math.exp(-amount)) if logits else amount
        return Operating((_share(share),), place, ties=place == 0)

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> Operating | None:
        """The rule that a graph's metadata states; None where the largest probability decides."""
        above, place = told.get("above"), told.get("class", 1)
        numbers: list[Any] = above if isinstance(above, list) else [above]
        if not numbers or any(not isinstance(number, float) or not number > 0 for number in numbers):
            return None
        return Operating(tuple(numbers), 0 if place == 0 else 1, bool(told.get("from", False)))

    def to_json(self) -> dict[str, Any]:
        one = {"above": self.above[0], "class": self.place, "from": self.ties}
        return one if len(self.above) == 1 else {"above": list(self.above)}

    def decide(self, shares: np.ndarray) -> np.ndarray:
        """Class indices from probabilities [rows, classes]."""
        if len(self.above) > 1:
            return np.argmax(shares / np.array(self.above), axis=1)
        share = shares[:, self.place]
        reached = share >= self.above[0] if self.ties else share > self.above[0]
        return np.where(reached, self.place, 1 - self.place)

    def leads(self, shares: np.ndarray) -> np.ndarray:
        """Probabilities [rows, classes], moved so that the largest is decided."""
        if len(self.above) > 1:
            return shares / np.array(self.above) * USUAL
        at = np.array([self.above[0], 1 - self.above[0]])
        return shares - (at[::-1] if self.place else at)

    def in_float32(self) -> Operating:
        """The rule for probabilities that are rounded to float32: a tie stays a tie."""
        return replace(self, above=tuple(float(np.float32(number)) for number in self.above))

    def of_means(self) -> Operating:
        """The rule for means of probabilities: one that rounding puts beside the threshold is at the threshold."""
        if len(self.above) > 1:
            return self
        return replace(self, above=(self.above[0] + (-ROUNDING if self.ties else ROUNDING),))

    def thresholds(self, classes: Sequence[Value]) -> dict[str, float]:
        """The thresholds by class, those that are not ½."""
        if len(self.above) == 1:
            return {str(classes[self.place]): float(f"{self.above[0]:.6g}")}
        pairs = zip(classes, self.above, strict=True)
        return {str(name): float(f"{number:.6g}") for name, number in pairs if number != USUAL}


def point_of_means(at: Operating | None, classes: int) -> Operating | None:
    """Where means of probabilities decide, for a model that decides there itself; None: the largest."""
    if at is None:
        return Operating((USUAL,)).of_means() if classes == 2 else None
    return at.of_means()


def agreeing(shares: np.ndarray, decided: np.ndarray, at: Operating | None) -> np.ndarray:
    """Scores [rows, classes] of which the first largest is the class that was decided."""
    scores = shares.astype(np.float64) if at is None else at.leads(shares.astype(np.float64))
    apart = np.flatnonzero(np.argmax(scores, axis=1) != decided)
    scores[apart, decided[apart]] = np.nextafter(scores[apart].max(axis=1), np.inf)
    return scores


def logit(share: float) -> float:
    """The score whose probability is this one; 0 for a half."""
    return 0.0 if share == USUAL else math.log(share) - math.log1p(-share)


def _part(given: Any) -> tuple[Value | None, float | Top]:
    if isinstance(given, str) and "=" in given:
        name, _, rest = given.rpartition("=")
        return name.strip(), _amount(rest, given)
    return None, _amount(given, given)


def _amount(text: Any, whole: Any) -> float | Top:
    if isinstance(text, Top):
        return text
    if isinstance(text, str):
        found = TOP.fullmatch(text.strip())
        if found:
            percent = float(found[1])
            if not 0 < percent < 100:
                raise InputError(f"the threshold {whole!r}: a share must lie between 0 and 100 %.")
            return Top(percent)
    try:
        number = float(text)
    except (TypeError, ValueError):
        raise InputError(f"the threshold {whole!r} is not understood; {HOW}.") from None
    if isinstance(text, bool) or not math.isfinite(number):
        raise InputError(f"the threshold must be a finite number, found {whole!r}; {HOW}.")
    return number


def _share(amount: float | Top) -> float:
    assert not isinstance(amount, Top)
    if not LEAST <= amount <= 1 - LEAST:
        raise InputError(f"the threshold of a probability must lie between 0 and 1, found {amount!r}.")
    return amount
