"""Which class does each row have? The one reader of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bornfair.errors import InputError, plain, shown


def class_positions(column: pd.Series, classes: Sequence[object]) -> np.ndarray:
    """The labels of a table as positions in a model's classes.

    A label that is no class is read as text: a table that came by CSV may say 1 where the model says "1".

    >>> class_positions(pd.Series(["yes", "no"], name="grant"), ["no", "yes"]).tolist()
    [1, 0]
    """
    if column.isna().any():
        raise InputError(
            f"target '{column.name}' is missing in {int(column.isna().sum())} of {len(column)} rows; remove those rows."
        )
    known = [plain(label) for label in classes]
    positions = pd.Index(known, dtype=object).get_indexer_for(pd.Index(column.astype(object), dtype=object))
    if (positions < 0).any():
        texts = {str(label): i for i, label in enumerate(known)}
        positions = np.array([texts.get(str(plain(value)), -1) for value in column], dtype=np.int64)
    if (positions < 0).any():
        found = plain(column.iloc[int(np.argmax(positions < 0))])
        raise InputError(
            f"target '{column.name}' holds {found!r}, which is not one of the model's classes {shown(known)}; "
            "write the labels as the model's classes (of two, the last is the positive one)."
        )
    return positions
