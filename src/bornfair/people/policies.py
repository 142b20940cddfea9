"""Values that do not fit the domain: gaps, unseen categories, numbers out of range.

A gap where the domain has one is a value like any other. Elsewhere, a gap in a sensitive column excludes nobody: all
values are tried anyway, only the group is not known. A gap in another feature is filled in as the model itself fills
it; where the model has no rule for it, the person is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from bornfair.core.checks import choice
from bornfair.core.errors import InputError, plain, shown
from bornfair.people.domain import Domain
from bornfair.people.features import Feature, NumericFeature, Value
from bornfair.people.levels import level_positions

MissingPolicy = Literal["error", "impute"]
GapsInTraining = Literal["learn", "impute", "error"]
"""What a training table's gaps are: a value of their own, filled in, or refused."""
UnseenPolicy = Literal["error", "ignore"]
OutsidePolicy = Literal["allow", "clip", "error"]


class Policies(BaseModel):
    """What to do with rows that do not fit. These defaults never guess; trained models ignore what is unseen.

    missing: a gap in a feature that is never missing in the domain: 'error', or 'impute' the training table's median
             (numbers) or most frequent value.
    unseen:  a category that is not in the domain: 'error', or 'ignore' (none of the categories is on; a structural
             proof covers it too). Of sensitive features, and of what is neither true nor false, always an error.
    outside: a number outside its range: 'allow' it (a structural proof covers it too), 'clip' it, or 'error'.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    missing: MissingPolicy = "error"
    unseen: UnseenPolicy = "error"
    outside: OutsidePolicy = "allow"

    @staticmethod
    def in_training(missing: str, unseen: str, outside: str) -> Policies:
        """What a training asks for: gaps that it learns are values of the domain, so that all others are errors."""
        choice("missing", missing, get_args(GapsInTraining))
        choice("unseen", unseen, get_args(UnseenPolicy))
        choice("outside", outside, get_args(OutsidePolicy))
        filled = "impute" if missing == "impute" else "error"
        return Policies.model_validate({"missing": filled, "unseen": unseen, "outside": outside})

    def filled(self, feature: Feature, column: pd.Series, fill: Mapping[str, Value]) -> pd.Series:
        """A column without the gaps that its feature never has."""
        missing = column.isna().to_numpy()
        if feature.missing or not missing.any():
            return column
        if self.missing == "error":
            row = column.index[int(np.argmax(missing))]
            raise InputError(
                f"column '{feature.name}' has a missing value (NaN) in row {plain(row)!r} and {int(missing.sum()) - 1} "
                "other rows; fill or drop them, because it was never missing before, or train on rows with such gaps, "
                "or with missing='impute' (--missing impute)."
            )
        filled = column.astype(object)
        filled[missing] = fill[feature.name]
        return filled

    def positions(self, feature: Feature, column: pd.Series, *, sensitive: bool = False) -> np.ndarray:
        """The position of each value among the feature's levels; -1 of one that is unseen and ignored."""
        position = level_positions(feature, column)
        refused = self.unseen == "error" or feature.kind == "boolean" or sensitive
        if refused and (position < 0).any():
            bad = int(np.argmax(position < 0))
            raise InputError(
                f"column '{feature.name}' holds {plain(column.iloc[bad])!r} in row {plain(column.index[bad])!r}, which "
                f"is not one of {shown(feature.levels())}; correct it"
                + ("." if feature.kind == "boolean" else ", or add it to the domain and train again, or (for a "
                   "feature that is not sensitive) set unseen='ignore'.")
            )  # fmt: skip
        return position

    def inside(self, feature: NumericFeature, column: pd.Series) -> np.ndarray:
        """The numbers of a column, within their range if they have to be."""
        numbers = numbers_of(feature, column)
        if self.outside == "allow":
            return numbers
        if self.outside == "clip":
            return np.clip(numbers, feature.low, feature.high)
        bad = (numbers < feature.low) | (numbers > feature.high)
        if bad.any():
            raise InputError(
                f"column '{feature.name}' holds {numbers[int(np.argmax(bad))]:g}, outside the domain's range "
                f"[{feature.low:g}, {feature.high:g}]; widen the domain, or set outside='clip' or 'allow'."
            )
        return numbers


def numbers_of(feature: Feature, column: pd.Series) -> np.ndarray:
    """Numbers in float64, each of which a served model can be given."""
    try:
        numbers = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        numeric = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
        bad = int(np.argmax(np.isnan(numeric)))
        raise InputError(
            f"column '{feature.name}' holds {plain(column.iloc[bad])!r} in row {plain(column.index[bad])!r}; "
            "a number is needed (--decimal and --numeric read numbers that are written otherwise)."
        ) from None
    fit = np.abs(numbers) <= np.finfo(np.float32).max
    if not fit.all():
        bad = int(np.argmin(fit))
        raise InputError(
            f"column '{feature.name}' holds {numbers[bad]} in row {plain(column.index[bad])!r}; numbers must be "
            "finite and at most 3.4e38 in size: correct it, or leave the row out."
        )
    return numbers


# --- gaps in a table that a model is asked about ---


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
        for counts, what in (
            (self.missing, "missing, which is a value of its own to the model."),
            (self.filled, "not known; it is filled in as the model fills it in."),
            (self.asked, "not known; the model is asked with the gap as it is."),
            (self.unknown, "not known: they are judged as every value, and belong to no group."),
        ):
            told += [f"Of {_people(count)} {name} is {what}" for name, count in counts.items()]
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
            changed[name] = _filled(table[name], fills[name])
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
    filled = {name: _filled(table[name], fills[name]) for name in there if name in fills}
    kept = table.assign(**filled) if filled else table
    gaps = [name for name in there if name not in fills]
    return kept.dropna(subset=gaps) if gaps else kept


def _filled(column: pd.Series, value: Value) -> pd.Series:
    return column.astype(object).where(column.notna(), value).infer_objects()


def _people(count: int) -> str:
    return "1 person" if count == 1 else f"{count:,} people"
