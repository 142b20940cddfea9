"""What every classifier of tables shares: a scikit-learn classifier that reads tables and decides with its `model_`.

How a table, its labels and its sensitive columns are read and checked, before and after training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from bornfair.core.checks import whole
from bornfair.core.errors import InputError, plain, plain_value, shown
from bornfair.models.network.network import decisions
from bornfair.people.column_kinds import refusal, refused
from bornfair.people.domain import Domain
from bornfair.people.dummies import with_sensitive
from bornfair.people.features import Label, listed_names, unknown_column
from bornfair.people.inference import without_rare
from bornfair.people.tables import as_pandas
from bornfair.proof.bundle import FairModel

if TYPE_CHECKING:
    from bornfair.models.verdict import Verdict


class TableClassifier(ClassifierMixin, BaseEstimator):
    """A subclass stores its options, and in `fit` sets `classes_`, `model_` and `domain_`."""

    sensitive_features: str | int | Sequence[str | int]
    domain: Domain | None
    random_state: Any
    missing: Any = "error"
    combinations: Any = None
    least_count: int = 1
    unseen: Any = "error"
    twins: Any = None
    model_: FairModel
    domain_: Domain
    classes_: np.ndarray

    # --- using ---

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row. A fair model needs no sensitive columns."""
        decided = decisions(self._scores(X))
        return self.classes_[decided]

    def predict_proba(self, X: Any) -> np.ndarray:
        scores = self._scores(X)  # says so first if nothing was fitted
        return self.model_.probabilities(scores)

    def decision_function(self, X: Any) -> np.ndarray:
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def empirical_fairness(self, X: Any, *, declared: bool = True) -> float:
        """Share of the rows whose decision is the same for every version of the person (declared=False: for every
        sensitive value only).
        """
        check_is_fitted(self)
        return self.model_.empirical_fairness(self._frame(X, reset=False), declared=declared)

    def verify(self, *, timeout: float = 60.0, seed: int = 0) -> Verdict:
        """Ask the verifier, from the weights alone, whether twins always get the same decision."""
        check_is_fitted(self)
        return self.model_.verify(timeout=timeout, seed=seed)

    def save(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write a bundle (a folder, or a .zip) that `bornfair.load` reads and `bornfair check` examines.

        sensitive=False: its model.onnx takes no sensitive columns (only if the model ignores them).
        """
        check_is_fitted(self)
        return self.model_.save(path, sensitive=sensitive)

    def export_onnx(self, path: str | Path, *, sensitive: bool = True) -> Path:
        """Write model.onnx alone, to be served by onnxruntime."""
        check_is_fitted(self)
        return self.model_.export_onnx(path, sensitive=sensitive)

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.model_.scores(self._frame(X, reset=False))

    # --- checking input ---

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[pd.DataFrame, np.ndarray]:
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        frame = self._frame(X, reset=reset)
        labels = column_or_1d(y, warn=True)
        if len(labels) != len(frame):
            raise InputError(f"X has {len(frame)} rows but y has {len(labels)}; they must be the same people.")
        if pd.isna(labels).any():
            first, count = int(np.argmax(pd.isna(labels))), int(pd.isna(labels).sum())
            raise InputError(
                f"the target is missing (NaN) in {count} of {len(labels)} rows, the first at position {first}; "
                "remove those rows."
            )
        try:
            if labels.dtype.kind == "f":
                assert_all_finite(labels, input_name="y")
            check_classification_targets(labels)
            np.unique(labels)
        except (TypeError, ValueError) as error:  # fractions, infinity, bytes, texts beside numbers
            raise InputError(
                f"the target cannot be classes ({str(error).split('. ')[0]}); give whole numbers, texts or true/false, "
                "not a mixture."
            ) from error
        return frame, labels

    def _frame(self, X: Any, *, reset: bool) -> pd.DataFrame:
        if hasattr(X, "collect_schema"):  # a lazy table
            X = as_pandas(X)
        if hasattr(X, "columns") and hasattr(X, "shape"):
            frame = as_pandas(X)
            if not any(isinstance(name, str) for name in frame.columns):  # numbered columns: as good as an array
                validate_data(self, frame, reset=reset, skip_check_array=True)
                return frame.set_axis([f"x{i}" for i in range(frame.shape[1])], axis=1)
            sensitive = () if reset else self.domain_.sensitive
            if sensitive and self._needs_no_sensitive and not any(name in frame.columns for name in sensitive):
                wanted = [name for name in self.domain_.names if name not in sensitive]
                self._check_columns(frame, wanted)
                return frame
            validate_data(self, frame, reset=reset, skip_check_array=True)
            if not len(frame):
                raise InputError(
                    "found 0 rows (0 sample(s)); a table needs at least one row, a minimum of 1 is required."
                )
            return frame
        finite = True if self.missing == "error" else "allow-nan"
        array = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=finite)
        return pd.DataFrame(array, columns=[f"x{i}" for i in range(array.shape[1])]).infer_objects()

    @property
    def _needs_no_sensitive(self) -> bool:
        """Whether a table without the sensitive columns can be decided about."""
        return self.model_.ignores_sensitive

    @staticmethod
    def _check_columns(frame: pd.DataFrame, wanted: list[str]) -> None:
        for name in wanted:
            if name not in frame.columns:
                raise InputError(unknown_column(name, list(frame.columns)))

    def _classes(self, labels: np.ndarray) -> np.ndarray:
        classes = np.unique(labels)
        if len(classes) < 2:
            raise InputError(
                f"the target has one class only, {shown(classes)}, in all {len(labels)} rows; "
                "a classifier needs at least two."
            )
        return classes

    def _class_indices(self, labels: np.ndarray) -> np.ndarray:
        index = np.searchsorted(self.classes_, labels)
        index = np.minimum(index, len(self.classes_) - 1)
        unknown = self.classes_[index] != labels
        if unknown.any():
            raise InputError(
                f"the target holds {plain(labels[int(np.argmax(unknown))])!r}, which is not one of the classes "
                f"{shown(self.classes_)}."
            )
        return index

    def _domain(self, frame: pd.DataFrame, y: Any) -> Domain:
        names = tuple(self._sensitive_name(feature, frame) for feature in listed_names(self.sensitive_features))
        domain = self.domain
        if domain is None:
            self._refuse_texts(frame, names)
            gaps = self.missing == "learn"
            domain = Domain.infer(frame, sensitive=names, combinations=self.combinations, gaps=gaps)
            domain = without_rare(domain, frame, self.least_count, unseen=self.unseen)
        elif self.least_count != 1:
            raise InputError("least_count leaves out rare categories of a table, and domain lists them; give one.")
        elif names:
            domain = with_sensitive(domain, names, frame, self.combinations, detect=False)
        name = str(getattr(y, "name", None) or "target")
        while name in domain.names:
            name += "_"
        label = Label(name=name, classes=tuple(plain_value(c) for c in self.classes_))
        domain = domain.replaced(label=label)
        return domain if self.twins is None else domain.with_twins(self.twins)

    def _refuse_texts(self, frame: pd.DataFrame, sensitive: Sequence[str]) -> None:
        """Names, free text and the like: not in arrays, nor where somebody has said that they are categories."""
        if hasattr(self, "feature_names_in_") and (stray := refused(frame, told=sensitive, numbers=False)):
            raise InputError(refusal(stray, in_python=True))

    def _sensitive_name(self, feature: str | int, frame: pd.DataFrame) -> str:
        if isinstance(feature, (int, np.integer)) and not isinstance(feature, bool):
            if not 0 <= feature < frame.shape[1]:
                raise InputError(
                    f"sensitive feature {feature} is out of range; there are {frame.shape[1]} columns, from 0."
                )
            return str(frame.columns[feature])
        if feature not in frame.columns:
            raise InputError(unknown_column(feature, list(frame.columns), "sensitive feature"))
        return str(feature)

    def _seed(self) -> int:
        state = self.random_state
        seed = int(state) if isinstance(state, (int, np.integer)) else int(check_random_state(state).randint(2**31))
        whole("random_state", seed, 0)
        return seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.non_deterministic = False
        return tags
