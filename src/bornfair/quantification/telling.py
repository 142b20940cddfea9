"""What would undo an unequal treatment, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def undo_text(record: Mapping[str, Any]) -> str:
    """One sentence for a record of `most_affected`.

    >>> undo_text({"undo": {"changes": {"hours": [40, 43]}, "decision": "yes"}})
    'with hours 43 instead of 40, all versions get yes'
    >>> undo_text({"undo": None})
    'no change of one or two other features was found that undoes it'
    """
    undo = record["undo"]
    if undo is None:
        return "no change of one or two other features was found that undoes it"
    changes = " and ".join(
        f"{name} {_number(new)} instead of {_number(old)}" for name, (old, new) in undo["changes"].items()
    )
    return f"with {changes}, all versions get {undo['decision']}"


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
