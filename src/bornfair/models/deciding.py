"""How a model decides: which output holds the decision, how numbers become a class, and which column feeds which input.

Every importer, every black-box model and every wrapper uses the rules in this module, so that all kinds of model are
judged by the decision that the original model makes. Thresholds are in `bornfair.models.operating`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bornfair.errors import InputError, shown
from bornfair.models.operating import USUAL
from bornfair.people.features import unknown_column

# --- which output of a graph decides ---


# --- how numbers decide ---

Meaning = Literal["probability", "logit", "label"]
Part = Literal["all", "last", "first", "difference"]
STEP = 2.0**-22  # rounding error of a float32 number of size 1
SUM = 1e-3  # tolerance of the sum of probabilities


def usual_threshold(meaning: Meaning | None) -> float:
    """A probability decides for the last class above ½, any other score above 0."""
    return USUAL if meaning == "probability" else 0.0


def compared_part(columns: int, meaning: Meaning | None, *, threshold: bool, place: int = 1) -> Part:
    """Which part of the numbers for two classes is compared with a threshold.

    One number is compared itself. Of two numbers the first largest decides, which compares their difference with 0. A
    threshold for a probability applies to the column of the class at `place`; for other scores, to the difference.
    """
    if columns == 1:
        return "last"
    if not threshold or meaning != "probability":
        return "difference"
    return "last" if place else "first"


@dataclass(frozen=True)
class Rule:
    """How the numbers [rows, columns] of a model become a class.

    Of two classes, the last is decided where `value` exceeds `above`. Of more, the first largest column decides.

    >>> Rule.of(2, 2, "logit").scores(np.array([[2.0, 3.0], [-1.0, -1.0]]))[:, 0].tolist()
    [1.0, 0.0]
    """

    part: Part
    meaning: Meaning | None
    above: float = 0.0

    @staticmethod
    def of(classes: int, columns: int, meaning: Meaning | None, *, threshold: bool = False, place: int = 1) -> Rule:
        """The usual rule; with `threshold`, the one whose `above` is still to be set for the class at `place`."""
        if classes > 2:
            return Rule("all", meaning)
        part = compared_part(columns, meaning, threshold=threshold, place=place)
        return Rule(part, meaning, usual_threshold(meaning) if part == "last" and not threshold else 0.0)

    def value(self, numbers: np.ndarray) -> np.ndarray:
        """What is compared: [rows, 1], or all columns."""
        if self.part == "all":
            return numbers
        if self.part == "difference":  # halved for probabilities, so that it is p − ½
            return (numbers[:, -1:] - numbers[:, :1]) * (0.5 if self.meaning == "probability" else 1.0)
        return numbers[:, -1:] if self.part == "last" else -numbers[:, :1]

    def scores(self, numbers: np.ndarray) -> np.ndarray:
        """Scores that decide for the last of two classes above 0, or for the first largest of more."""
        return self.value(numbers) - self.above

    def limit(self, amount: float, place: int, columns: int) -> float:
        """The value of `above` for a threshold of the class at `place`."""
        if self.part == "first":
            return -amount
        if place:
            return amount
        return 1 - amount if self.meaning == "probability" and columns == 1 else -amount

    @property
    def threshold(self) -> float:
        """The threshold on the number of the last class."""
        return self.above + self._apart

    def probability(self, scores: np.ndarray) -> np.ndarray:
        """The probability of the last of two classes, from scores of probabilities."""
        return np.clip(scores + self.threshold, 0.0, 1.0)

    @property
    def _apart(self) -> float:
        """What `value` lacks of the probability of the last class."""
        if self.part == "first":
            return 1.0
        return 0.5 if self.part == "difference" and self.meaning == "probability" else 0.0


def are_probabilities(numbers: np.ndarray) -> np.ndarray:
    """Which rows of numbers [rows, columns] may be probabilities: between 0 and 1, and with the sum 1 if several."""
    fit = ((numbers >= -STEP) & (numbers <= 1 + STEP)).all(axis=1)
    return np.asarray(fit if numbers.shape[1] == 1 else fit & (np.abs(numbers.sum(axis=1) - 1) < SUM))


# --- which column feeds an input ---

SEPARATORS = "_. "  # exporters replace other characters by one of these


def feeding(inputs: Sequence[str], columns: Sequence[str], origin: str) -> tuple[str, ...]:
    """The column that feeds each named input of a model.

    An exact name wins, then the same text in another Unicode form, then a name that an exporter may have rewritten: in
    another case, or with a separator in place of a character that is no letter or digit. Letters of all scripts count.
    A rewritten name must be the only one that fits the column, and the column the only one that fits the name.

    Raises:
        InputError: an input has no column, or several columns or inputs fit.

    >>> feeding(["hours_per_week", "性別"], ["年齢", "性別", "Hours-per-week"], "the model")
    ('Hours-per-week', '性別')
    """
    fed: dict[str, str] = {name: name for name in set(inputs) & set(columns)}
    fits: dict[str, list[str]] = {}
    for form in (_composed, _rewritten):
        left = [name for name in dict.fromkeys(inputs) if name not in fed]
        by_form = _by_form([column for column in columns if column not in set(fed.values())], form)
        fits = {name: [c for c in by_form.get(form(name), ()) if _may_be(name, c)] for name in left}
        wanted_by = {column: [name for name in left if column in fits[name]] for name in left for column in fits[name]}
        for name, found in fits.items():
            if len(found) == 1 and len(wanted_by[found[0]]) == 1:
                fed[name] = found[0]
            elif found:
                names = found if len(found) > 1 else wanted_by[found[0]]
                what = "columns" if len(found) > 1 else "inputs"
                raise InputError(
                    f"{origin}: input '{name}' has no column of exactly this name, and its name fits the {what} "
                    f"{shown(names)}; rename the columns as the model names its inputs."
                )
    for name in inputs:
        if name not in fed:
            reason = unknown_column(name, columns, "input").replace(
                "is not in the table", "is not among the columns given"
            )
            raise InputError(f"{origin}: {reason}")
    return tuple(fed[name] for name in inputs)


def _by_form(names: Iterable[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(form(name), []).append(name)
    return found


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _rewritten(name: str) -> str:
    """What is left of a name when all characters but letters, marks and digits are replaced."""
    return "".join(c if unicodedata.category(c)[0] in "LMN" else "_" for c in _folded(name))


def _may_be(one: str, other: str) -> bool:
    """Whether one of two names of one form may be the other, rewritten: "<50" is not ">50"."""
    pairs = list(zip(_folded(one), _folded(other), strict=True))
    return all(a == b or a in SEPARATORS or b in SEPARATORS for a, b in pairs) and any(
        unicodedata.category(a)[0] in "LMN" for a, _ in pairs
    )
