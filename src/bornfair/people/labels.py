"""Which class does each row have? The one reader of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain, shown

FAVOURABLE = (
    ">50k", ">50k.", "accept", "accepted", "admit", "admitted", "approve", "approved", "creditworthy", "eligible",
    "fully paid", "good", "grant", "granted", "hire", "hired", "invite", "invited", "low risk", "no default", "paid",
    "paid off", "pass", "passed", "positive", "promoted", "selected", "success", "true", "y", "yes",
)  # fmt: skip
UNFAVOURABLE = (
    "<=50k", "<=50k.", "bad", "bankrupt", "charged off", "decline", "declined", "default", "defaulted", "denied",
    "deny", "fail", "failed", "false", "fraud", "high risk", "n", "negative", "no", "refused", "reject", "rejected",
)  # fmt: skip
HARMS = ("arrest", "bad", "bankrupt", "charge", "default", "delinq", "denied", "fraud", "recid", "reject", "violation")
"""Parts of a target's name by which saying yes is bad for whom it is said of."""


def favourable_class(name: str, classes: Sequence[object], asked: object = None) -> tuple[int, bool]:
    """The position of the class that people hope for, and whether it was inferred from names.

    Without a telling name it is the last class.

    >>> favourable_class("risk", ["bad", "good"]), favourable_class("grade", ["a", "b", "c"], "a")
    ((1, True), (0, False))
    >>> favourable_class("default_next_month", [0, 1])
    (0, True)
    """
    known = [plain(label) for label in classes]
    texts = [str(label) for label in known]
    if asked is not None:
        if plain(asked) in known:
            return known.index(plain(asked)), False
        if str(plain(asked)) in texts:
            return texts.index(str(plain(asked))), False
        raise InputError(
            f"the favourable decision {str(plain(asked))!r} is not one of the model's classes {shown(known)}; "
            "name one of them."
        )
    words = [text.strip().lower() for text in texts]
    if len(words) == 2 and any(harm in name.lower() for harm in HARMS):
        said = [i for i, word in enumerate(words) if word in ("1", "1.0", "yes", "y", "true")]
        if len(said) == 1:
            return 1 - said[0], True
    good = [i for i, word in enumerate(words) if word in FAVOURABLE]
    bad = [i for i, word in enumerate(words) if word in UNFAVOURABLE]
    if len(good) == 1:
        return good[0], True
    if len(words) == 2 and len(bad) == 1:
        return 1 - bad[0], True
    return len(words) - 1, True


def answered(column: pd.Series) -> pd.Series:
    """The labels that are there. Whole numbers beside gaps came as decimals, and are whole numbers again.

    >>> answered(pd.Series([1.0, None, 0.0])).tolist()
    [1, 0]
    """
    there = column.dropna()
    whole = len(there) < len(column) and there.dtype.kind == "f" and bool((there % 1 == 0).all())
    return there.astype(np.int64) if whole else there


def class_positions(column: pd.Series, classes: Sequence[object], *, gaps: bool = False) -> np.ndarray:
    """The labels of a table as positions in a model's classes; where there may be gaps, these are −1.

    A label that is no class is read as text: a table that came by CSV may say 1 where the model says "1", and 1.0 where
    it says 1 because another row of the column is empty.

    >>> class_positions(pd.Series(["yes", "no"], name="grant"), ["no", "yes"]).tolist()
    [1, 0]
    """
    if column.isna().any():
        if gaps:
            found = np.full(len(column), -1, np.int64)
            there = column.notna().to_numpy()
            found[there] = class_positions(column[there], classes)
            return found
        raise InputError(
            f"target '{column.name}' is missing in {int(column.isna().sum())} of {len(column)} rows; remove those rows."
        )
    known = [plain(label) for label in classes]
    positions = places_among(column.astype(object).to_numpy(), known)
    if (positions < 0).any():
        found = plain(column.iloc[int(np.argmax(positions < 0))])
        raise InputError(
            f"target '{column.name}' holds {found!r}, which is not one of the model's classes {shown(known)}; "
            "write the labels as the model's classes (of two, the last is the positive one)."
        )
    return positions


def places_among(values: np.ndarray, known: Sequence[object]) -> np.ndarray:
    """The position of each label among the known ones, −1 where it is none of them; as a text, if not as it is.

    >>> places_among(np.array(["1", 0, 1.0, "x"], dtype=object), [0, 1]).tolist()
    [1, 0, 1, -1]
    """
    found = pd.Index(list(known), dtype=object).get_indexer_for(pd.Index(values, dtype=object))
    if (found < 0).any():
        texts = {str(label): i for i, label in enumerate(known)}
        read = (texts.get(str(plain(value)), texts.get(_text(value), -1)) for value in values)
        found = np.fromiter(read, np.int64, len(values))
    return np.asarray(found, np.int64)


def _text(value: object) -> str:
    """A label as a text; a whole number without its decimals."""
    found = plain(value)
    return str(int(found)) if isinstance(found, float) and found.is_integer() else str(found)
