"""Of whom in a table is something not known, and what follows from it?

A gap where the domain has one is a value like any other. Elsewhere, a gap in a sensitive column takes nobody away: all
values are tried anyway, only the group is not known. A gap in another feature is filled in as the model itself fills
it; where it does not, nobody can say what it would decide, and these people are left out, counted and told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd

from bornfair.core.errors import InputError, shown
from bornfair.people.domain import Domain
from bornfair.people.features import Value


@dataclass(frozen=True)
class Gaps:
    """How many people of a table have gaps, by column.

    left_out: have one that the model does not fill in. filled: have one that it does. unknown: their sensitive value is
    not known. unanswered: the truth about them is not. asked: have one that the model is given as it is. missing:
    have one that is a value of the domain.
    """

    rows: int = 0
    left_out: int = 0
    undecidable: Mapping[str, int] = field(default_factory=dict)
    filled: Mapping[str, int] = field(default_factory=dict)
    unknown: Mapping[str, int] = field(default_factory=dict)
    unanswered: int = 0
    asked: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    @property
    def sentences(self) -> list[str]:
        """
        >>> Gaps(100, 3, {"income": 3}, {}, {"sex": 1}).sentences[0]
        '3 of 100 people are left out: they have gaps (income 3) that the model does not say how to fill in.'
        """
        told = []
        if self.left_out:
            which = ", ".join(f"{name} {count:,}" for name, count in self.undecidable.items())
            told.append(
                f"{self.left_out:,} of {self.rows:,} people are left out: they have gaps ({which}) that the model does "
                "not say how to fill in."
            )
        for name, count in self.missing.items():
            told.append(f"Of {_people(count)} {name} is missing, which is a value of its own to the model.")
        for name, count in self.filled.items():
            told.append(f"Of {_people(count)} {name} is not known; it is filled in as the model fills it in.")
        for name, count in self.asked.items():
            told.append(f"Of {_people(count)} {name} is not known; the model is asked with the gap as it is.")
        for name, count in self.unknown.items():
            told.append(
                f"Of {_people(count)} {name} is not known: they are judged as every value, and belong to no group."
            )
        if self.unanswered:
            told.append(
                f"Of {_people(self.unanswered)} the true answer is not known; they are left out where it is needed."
            )
        return told


def decidable(
    domain: Domain,
    table: pd.DataFrame,
    fills: Mapping[str, Value],
    *,
    target: str | None = None,
    as_they_are: bool = False,
) -> tuple[pd.DataFrame, Gaps]:
    """The people of a table about whom a model can decide, gaps filled in as it does, and who had gaps.

    as_they_are: it decides about people with gaps, and fills them in itself if it does.

    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="age", low=0, high=99), BooleanFeature(name="s")), sensitive=("s",))
    >>> rows = pd.DataFrame({"age": [30, None, 50], "s": [True, False, None]})
    >>> kept, gaps = decidable(who, rows, {})
    >>> kept["age"].tolist(), gaps.left_out, dict(gaps.unknown)
    ([30.0, 50.0], 1, {'s': 1})
    """
    undecidable, filled, changed, asked, missing = {}, {}, {}, {}, {}
    lost = pd.Series(False, index=table.index)
    for name in domain.free_names:
        if name not in table.columns or not (gap := table[name].isna()).any():
            continue
        if domain.feature(name).missing:
            missing[name] = int(gap.sum())
        elif as_they_are:
            asked[name] = int(gap.sum())
        elif name in fills:
            filled[name] = int(gap.sum())
            changed[name] = table[name].astype(object).where(~gap, fills[name]).infer_objects()
        else:
            undecidable[name] = int(gap.sum())
            lost |= gap
    if len(table) and lost.all():
        raise InputError(
            f"every row of the table has a gap in {shown(undecidable)}, and the model does not say how to fill it in; "
            "fill the gaps, or give rows without."
        )
    kept = table.assign(**changed) if changed else table
    kept = kept[~lost] if undecidable else kept
    unknown = {name: int(kept[name].isna().sum()) for name in domain.sensitive if name in kept.columns}
    missing |= {name: unknown.pop(name) for name in list(unknown) if domain.feature(name).missing and unknown[name]}
    unanswered = 0 if target is None or target not in kept.columns else int(kept[target].isna().sum())
    known = {name: count for name, count in unknown.items() if count}
    return kept, Gaps(len(table), int(lost.sum()), undecidable, filled, known, unanswered, asked, missing)


def complete(table: pd.DataFrame, names: Iterable[str], fills: Mapping[str, Value]) -> pd.DataFrame:
    """The rows that have all these columns, or can be filled in."""
    there = [name for name in names if name in table.columns and table[name].isna().any()]
    filled = {
        name: table[name].astype(object).where(table[name].notna(), fills[name]).infer_objects()
        for name in there if name in fills
    }  # fmt: skip
    kept = table.assign(**filled) if filled else table
    gaps = [name for name in there if name not in fills]
    return kept.dropna(subset=gaps) if gaps else kept


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"
