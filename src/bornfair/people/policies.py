"""What becomes of a value that does not fit the domain: a gap, an unseen category, a number out of range?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from bornfair.core.checks import choice
from bornfair.core.errors import InputError, plain, shown
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
