"""Quality and fairness of decisions about the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import plain_value, shown
from bornfair.people.domain import Domain
from bornfair.people.twins.versions import Versions


def accuracy(truth: Any, decided: Any) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(truth, decided))


def balanced_accuracy(truth: Any, decided: Any) -> float:
    """The mean of each class's recall: chance level is 1/K however rare a class is."""
    from sklearn.metrics import recall_score

    return float(recall_score(truth, decided, average="macro", zero_division=0.0))


QUALITY = ("accuracy", "balanced_accuracy", "majority_share", "never_predicted", "always_predicted")
"""What `quality` says, by name."""


def quality(truth: Any, decided: Any) -> dict[str, Any]:
    """How good decisions are, with what is needed to judge an accuracy: for every kind of model and every output.

    majority_share: the accuracy of deciding everybody as the most frequent class. never_predicted: the classes that
    some rows have and no row is decided as. always_predicted: the one class that all rows are decided as, if other
    classes occur.

    >>> quality(["no", "no", "no", "yes"], ["no", "no", "no", "no"])["balanced_accuracy"]
    0.5
    """
    truth, decided = np.asarray(truth), np.asarray(decided)
    present, counts = np.unique(truth, return_counts=True)
    given = np.unique(decided)
    never = present[~np.isin(present, given)]
    always = len(given) == 1 and len(present) > 1
    return {
        "accuracy": accuracy(truth, decided),
        "balanced_accuracy": balanced_accuracy(truth, decided),
        "majority_share": float(counts.max() / counts.sum()),
        "never_predicted": [plain_value(one) for one in never],
        "always_predicted": plain_value(given[0]) if always else None,
    }


def quality_warning(figures: Mapping[str, Any]) -> str:
    """What is wrong with a model that never decides some class, as sentences; empty if it decides each.

    >>> quality_warning(quality(["no", "no", "no", "yes"], ["no", "no", "no", "no"]))
    "The model is constant: it predicts 'no' for every row. Balanced accuracy 50 %, share of the largest class 75 %."
    """
    never, always = figures.get("never_predicted"), figures.get("always_predicted")
    percent = lambda name: f"{100 * figures[name]:.4g} %"  # noqa: E731
    if always is not None:
        found = f"The model is constant: it predicts {always!r} for every row."
    elif never:
        have = "it" if len(never) == 1 else "them"
        found = f"The model never predicts {shown(never, most=6)}, although rows have {have}."
    else:
        return ""
    told = [("Balanced accuracy", "balanced_accuracy"), ("share of the largest class", "majority_share")]
    known = ", ".join(f"{text} {percent(name)}" for text, name in told if figures.get(name) is not None)
    return f"{found} {known}." if known else found


def auc(truth: Any, probabilities: np.ndarray, classes: np.ndarray) -> float | None:
    """Area under the ROC curve (K classes: one against the rest, mean). None when a class is absent from `truth`."""
    from sklearn.metrics import roc_auc_score

    if len(np.unique(np.asarray(truth))) < len(classes):
        return None
    if len(classes) == 2:
        return float(roc_auc_score(np.asarray(truth) == classes[1], probabilities[:, 1]))
    return float(roc_auc_score(truth, probabilities, multi_class="ovr", labels=classes))


def brier(truth: Any, probabilities: np.ndarray, classes: np.ndarray) -> float:
    """How far the probabilities are from what happened, squared: half the sum over the classes, so that 0 is perfect,
    1 is always sure and always wrong, and of two classes it is (p − y)².

    >>> brier(["no", "yes"], np.array([[1.0, 0.0], [0.5, 0.5]]), np.array(["no", "yes"]))
    0.125
    """
    happened = np.asarray(truth)[:, None] == np.asarray(classes)[None, :]
    return float(np.mean(np.sum((np.asarray(probabilities) - happened) ** 2, axis=1)) / 2)


def same_for_all(decided: Iterable[Any]) -> np.ndarray:
    """For each person: do all versions get the same decision? (bool [people])

    decided: the decisions of everybody, once for each version.

    >>> same_for_all([["no", "yes"], ["no", "no"]]).tolist()
    [True, False]
    """
    versions = map(np.asarray, decided)
    first = next(versions)
    same = np.ones(len(first), dtype=bool)
    for other in versions:  # one after the other: there may be too many to hold them all
        same &= other == first
    return same


def survives_every_change(
    decide: Callable[[pd.DataFrame], np.ndarray], table: pd.DataFrame, domain: Domain, *, declared: bool = True
) -> np.ndarray:
    """For each row: is its decision the same for every version of the person? (a boolean array)

    It speaks of these rows only: all of them are no proof.
    declared=False: for every value of S only, the declared rules left aside ("flip-stable").
    """
    domain.require_sensitive()
    versions = Versions(domain)
    count = versions.size if declared else domain.sensitive_space.size
    return same_for_all(decide(versions.table(table, version)) for version in range(count))
