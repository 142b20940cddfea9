"""Rows as a model is sent them, its answers, and their meaning: labels, or numbers that decide.

The meaning is inferred once, from a trial; answers of another kind later are errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.models.columns import Columns, Wanted
from bornfair.models.deciding import Meaning, Rule, are_probabilities
from bornfair.models.operating import Asked, Top
from bornfair.models.protocol import Decided
from bornfair.models.reading import Reading
from bornfair.people.features import IntegerFeature, Label, Value
from bornfair.people.levels import places_among

LABEL_BITS = 64  # of labels that are whole numbers


@dataclass(frozen=True, eq=False)
class Said:
    """The answers to so many rows, in their order: labels, numbers [rows, columns], or both."""

    labels: np.ndarray | None = None
    numbers: np.ndarray | None = None
    classes: tuple[Value, ...] | None = None
    """The classes behind the columns of numbers, where the model names them."""

    @property
    def as_labels(self) -> np.ndarray | None:
        """The labels; a single column of numbers where there are none."""
        if self.labels is not None or self.numbers is None or self.numbers.shape[1] > 1:
            return self.labels
        return np.array(self.numbers[:, 0].tolist(), dtype=object)


class Outside:
    """A model that can only be asked: a program, an endpoint, a graph, an object or a function."""

    @property
    def name(self) -> str:
        """What messages call it."""
        raise NotImplementedError

    @property
    def how(self) -> str:
        """How it is asked, for a report."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """Rows of one question at most."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """What identifies it: SHA-256 sums of its files; "" where there is none."""
        return ""

    @property
    def wanted(self) -> Wanted:
        """Which columns it takes."""
        return Wanted(self.name, None, numbers=False)

    @property
    def classes(self) -> tuple[Value, ...] | None:
        """Its classes in order, where it knows them."""
        return None

    @property
    def point(self) -> float | None:
        """Above which of its numbers it decides for the last class, where it says so itself."""
        return None

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        """Its answers; numbers=False: numbers need not be shown where labels decide."""
        raise NotImplementedError


def as_sent(table: pd.DataFrame, columns: Columns) -> pd.DataFrame:
    """The columns that are read, in order; whole numbers as such, also beside gaps: the same person is the same bytes,
    whichever table they came from.
    """
    found = table[list(columns.names)]
    changed: dict[str, Any] = {}
    for name in columns.names:
        column = found[name]
        if isinstance(columns.domain.feature(name), IntegerFeature) and column.dtype.kind == "f":
            there = column.dropna().to_numpy()
            if bool((there == np.round(there)).all()):
                changed[name] = column.astype("Int64")
    return found.assign(**changed) if changed else found


def said(values: Any, rows: int, origin: str) -> Said:
    """Plain answers: one label or number for each row, or one number for each class."""
    named = tuple(values.columns) if isinstance(values, pd.DataFrame) and values.shape[1] > 1 else ()
    if isinstance(values, (pd.DataFrame, pd.Series)):
        values = values.to_numpy()
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{origin} answered rows of unequal length ({error}); it must answer alike for all.") from None
    if found.ndim == 0 or len(found) != rows:
        many = "one value" if found.ndim == 0 else f"{len(found):,} decisions"
        raise InputError(f"{origin} answered {many} for {rows:,} people; it must give one decision each, in order.")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim > 2 or (found.ndim == 2 and (found.dtype.kind not in "iuf" or not found.shape[1])):
        raise InputError(
            f"{origin} answered an array of shape {list(found.shape)} of {found.dtype}; it must give one label, or one "
            "number, or one number for each class, for each person."
        )
    if found.dtype.kind == "f" or found.ndim == 2:
        numbers = found.astype(np.float64).reshape(rows, -1)
        finite(numbers, origin)
        classes = tuple(plain_value(name) for name in named)
        return Said(numbers=numbers, classes=None if classes == tuple(range(len(classes))) else classes)
    return Said(labels=labels_of(found, origin))


def said_together(parts: Sequence[Said], origin: str) -> Said:
    """The answers to several batches; they must be of one kind."""
    if any(part.labels is None for part in parts):
        parts = [in_numbers(part) for part in parts]
    kinds = {(part.labels is None, 0 if part.numbers is None else part.numbers.shape[1]) for part in parts}
    if len(kinds) > 1:
        raise InputError(
            f"{origin} answered some people by labels and others by numbers, or by more of them; it must answer alike "
            "for all (say what its numbers are by --decision, and write them as decimals)."
        )
    labels = [part.labels for part in parts if part.labels is not None]
    numbers = [part.numbers for part in parts if part.numbers is not None]
    return Said(
        np.concatenate(labels) if labels else None, np.concatenate(numbers) if numbers else None, parts[0].classes
    )


def in_numbers(part: Said) -> Said:
    """Whole numbers that were taken for labels, as a batch of probabilities that are all 0 or 1; others as they are."""
    labels = part.labels
    if labels is None or part.numbers is not None or any(isinstance(label, str) for label in labels.tolist()):
        return part
    return Said(numbers=labels.astype(np.float64)[:, None])


def labels_of(found: np.ndarray, origin: str) -> np.ndarray:
    """Labels as plain values; none may be missing."""
    values = [plain(value) for value in found.ravel().tolist()]
    for i, value in enumerate(values):
        if value is None or value != value or not isinstance(value, (bool, int, float, str)):
            raise InputError(f"{origin} answered {value!r} for person {i} of {len(values)}; it must give a label.")
        if isinstance(value, int) and value.bit_length() > LABEL_BITS:
            raise InputError(
                f"{origin} answered a whole number of {value.bit_length():,} bits for person {i} of {len(values)}; "
                f"labels have at most {LABEL_BITS}."
            )
    return np.array(values, dtype=object)


def finite(numbers: np.ndarray, origin: str) -> None:
    bad = ~np.isfinite(numbers).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"{origin} answered {numbers[row].tolist()} for person {row}; numbers must be finite.")


@dataclass(frozen=True)
class Meant:
    """The meaning of a model's answers."""

    origin: str
    classes: tuple[Value, ...]
    numbers: Meaning | None
    """What its numbers are: a probability or a logit; None where it shows none."""
    rule: Rule
    """How its numbers decide; where labels decide, how the numbers would."""
    columns: int = 0
    """So many numbers for each person."""
    by_label: bool = True
    assumed: bool = False
    """Whether `numbers` was inferred from the trial, and not stated by the user."""
    operating: tuple[tuple[str, float], ...] = ()

    def answers(self, given: Said) -> Decided:
        given = given if self.by_label else in_numbers(given)
        scores = self._scores(given)
        if not self.by_label:
            if scores is None:
                raise InputError(f"{self.origin} answered without numbers, which it gave before; it must answer alike.")
            if scores.shape[1] == 1:
                return Decided((scores[:, 0] > 0).astype(np.int64), scores)
            return Decided(np.argmax(scores, axis=1), scores)
        labels = given.as_labels
        if labels is None:
            raise InputError(
                f"{self.origin} answered numbers, and labels before; say what they are by decision='probability' or "
                "'logit' (--decision)."
            )
        decided = places_among(labels, self.classes)
        if (decided < 0).any():
            stray = labels[int(np.argmax(decided < 0))]
            raise InputError(
                f"{self.origin} answered {stray!r}, which is not one of its classes {shown(self.classes)}; name all of "
                "them as the label of a domain, or by the target of the table (--target), or say what its numbers are "
                "(--decision)."
            )
        return Decided(decided, scores)

    def _scores(self, given: Said) -> np.ndarray | None:
        if given.numbers is None or self.numbers is None:
            return None
        columns = given.numbers.shape[1]
        if columns != self.columns:
            raise InputError(
                f"{self.origin} answered {columns} numbers for each person, and {self.columns} before; it must answer "
                "alike for all."
            )
        if self.assumed and self.numbers == "probability" and not (fit := are_probabilities(given.numbers)).all():
            stray = given.numbers[int(np.argmin(fit))].tolist()
            raise InputError(
                f"{self.origin} answered {shown(stray)}, which is no probability, after probabilities in a trial; say "
                "what its numbers are by decision='logit' or 'probability' (--decision)."
            )
        return self.rule.scores(given.numbers)

    def probabilities(self, scores: np.ndarray) -> np.ndarray | None:
        """Of each class, from scores; None where the numbers are none."""
        if self.numbers is None:
            return None
        if self.numbers == "probability":
            if scores.shape[1] > 1:
                return scores
            last = self.rule.probability(scores)
            return np.concatenate([1 - last, last], axis=1)
        from bornfair.models.network.model import probabilities

        return probabilities(scores + self.rule.above)

    def for_class(self, place: int) -> Meant:
        """The same where its numbers decide, by a threshold for the class at this place that is still to be set."""
        rule = Rule.of(len(self.classes), self.columns, self.numbers, threshold=True, place=place)
        return replace(self, rule=rule, by_label=False)


def meaning_of(trial: Said, source: Outside, label: Label | None, asked: Reading) -> Meant:
    """The meaning of the answers to a trial, with the statements of the user."""
    origin = source.name
    asked.only_for(origin, "decision", "threshold", "decision_output")
    labels, numbers = trial.labels, trial.numbers
    single = numbers is not None and numbers.shape[1] == 1
    whole = numbers is not None and single and bool((numbers == np.round(numbers)).all())
    if asked.decision == "label" or (asked.decision is None and labels is None and whole):
        if labels is None and single:
            labels, numbers = trial.as_labels, None
        if labels is None:
            raise InputError(f"{origin} answers numbers, so that decision='label' does not fit; leave it out.")
    by_label = labels is not None and not asked.moves_the_decision
    if numbers is None and not by_label:
        raise InputError(
            f"{origin} answers labels only, which decide themselves; leave --threshold and --decision out."
        )
    kind = _kind(numbers, asked, origin, by_label=by_label)
    classes = _classes(source, trial, label, labels, None if kind is None else numbers, origin)
    columns = 0 if numbers is None else numbers.shape[1]
    if kind is not None and columns != len(classes) and (columns, len(classes)) != (1, 2):
        if not by_label:
            many = "one number" if columns == 1 else f"{columns} numbers"
            raise InputError(f"{origin} answers {many} for {len(classes)} classes {shown(classes)}; give one for each.")
        kind = None
    meant = Meant(
        origin, classes, kind, Rule.of(len(classes), columns, kind), columns, by_label,
        assumed=asked.decision is None and not by_label,
    )  # fmt: skip
    if source.point is None or asked.moves_the_decision or kind is None or len(classes) > 2:
        return meant
    rule = meant.for_class(1).rule
    return replace(meant, rule=replace(rule, above=rule.limit(source.point, 1, columns)))


def at_threshold(meant: Meant, asked: Reading, values: Callable[[Meant], np.ndarray | None]) -> Meant:
    """The same, deciding where it is asked to; `values` gives the scores of the table's people, for "top 12%"."""
    if len(meant.classes) > 2:
        raise InputError(
            f"{meant.origin} tells {len(meant.classes)} classes apart and cannot be read, so no threshold can be set "
            "for it; leave --threshold out."
        )
    point = Asked.of(asked.threshold).for_classes(meant.classes)
    ((place, amount),) = point.by_class(meant.classes).items()
    moved = meant.for_class(place)
    if isinstance(amount, Top):
        scores = values(moved)
        if scores is None:
            raise InputError(f"'{point.text}' is a share of a table's people; give a table, or a number.")
        found = scores[:, 0]
        above = amount.above(found) if place else math.nextafter(-amount.above(-found), -math.inf)
    else:
        if meant.numbers == "probability" and not 0 < amount < 1:
            raise InputError(f"the threshold of a probability must lie between 0 and 1, found {amount!r}.")
        above = moved.rule.limit(amount, place, meant.columns)
    rule = replace(moved.rule, above=above)
    return replace(moved, rule=rule, operating=((str(meant.classes[-1]), float(f"{rule.threshold:.6g}")),))


def _kind(numbers: np.ndarray | None, asked: Reading, origin: str, *, by_label: bool) -> Meaning | None:
    if numbers is None:
        return None
    if asked.decision in ("probability", "logit"):
        return asked.decision
    if bool(are_probabilities(numbers).all()):
        return "probability"
    if by_label:
        return "logit"
    low, high, several = numbers.min(), numbers.max(), numbers.shape[1] > 1
    if several and bool(np.isin(numbers, (0, 1)).all()):
        raise InputError(
            f"{origin} answers {numbers.shape[1]} numbers that are 0 or 1 and do not sum to 1, which may be several "
            "labels; answer one label for each person, or say that they are scores by decision='logit' (--decision)."
        )
    if several and (asked.threshold is None or low < 0 or high > 1):
        return "logit"  # of one number for each class the largest decides, whatever they are
    if several:
        raise InputError(
            f"{origin} answers {numbers.shape[1]} numbers between 0 and 1 that do not sum to 1; say what the threshold "
            "is compared with: decision='probability' (the number of the class) or 'logit' (the difference)."
        )
    raise InputError(
        f"{origin} answers numbers from {low:.6g} to {high:.6g}, which may be scores or labels; say "
        "so by decision='logit' (it decides above 0, or above --threshold) or 'label' (--decision)."
    )


def _classes(
    source: Outside,
    trial: Said,
    label: Label | None,
    labels: np.ndarray | None,
    numbers: np.ndarray | None,
    origin: str,
) -> tuple[Value, ...]:
    if source.classes is not None:
        return tuple(plain_value(value) for value in source.classes)
    if trial.classes is not None:
        return _in_order(tuple(plain_value(value) for value in trial.classes), label, origin)
    if label is not None:
        return label.classes
    if labels is None:
        assert numbers is not None
        return tuple(range(max(numbers.shape[1], 2)))
    seen = {plain_value(value) for value in labels.tolist()}
    columns = 0 if numbers is None else numbers.shape[1]
    if columns > 1 and all(isinstance(value, int) and 0 <= value < columns for value in seen):
        return tuple(range(columns))
    if len(seen) == 1:
        (only,) = seen
        if only in (0, 1):
            return (False, True) if isinstance(only, bool) else (0, 1)
        raise InputError(
            f"{origin} decides {only!r} about all {len(labels)} people of a trial; say which other decisions there "
            "are, by the target of the table (--target) or the label of a domain."
        )
    return tuple(sorted(seen, key=lambda value: (str(type(value)), value)))


def _in_order(known: tuple[Value, ...], label: Label | None, origin: str) -> tuple[Value, ...]:
    """Classes in the order of the model's numbers, written as the label writes them."""
    if label is None or not all(isinstance(name, str) for name in known):
        return known
    written = {str(value): value for value in label.classes}
    if not set(written) <= set(known):
        raise InputError(
            f"{origin} names the classes {shown(known)}, but the label '{label.name}' has {shown(label.classes)}; use "
            "the same names in both."
        )
    return tuple(written.get(str(name), name) for name in known)


def from_mapping(given: Mapping[str, Any], rows: int, origin: str) -> Said:
    """Answers by name: decisions, numbers for the classes, or both."""
    names = ("decisions", "probabilities")
    label = next((given[name] for name in ("decisions", "labels", "predictions") if name in given), None)
    number = next((given[name] for name in ("probabilities", "scores") if name in given), None)
    if label is None and number is None:
        raise InputError(f"{origin} answered an object with {shown(given)}; it must have one of {shown(names)}.")
    first = None if label is None else said(label, rows, origin)
    if number is None:
        assert first is not None
        return first
    try:
        numbers = np.asarray(number, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # the last for whole numbers of hundreds of digits
        raise InputError(f"{origin} answered probabilities that are no numbers; give numbers.") from None
    second = said(numbers, rows, origin)
    if first is None:
        return second
    return Said(labels=first.as_labels, numbers=second.numbers)
