"""What does an object of this process decide? Anything with `predict`, or a function of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value
from bornfair.importers.scikit_pipeline import Opened
from bornfair.models.columns import Columns, Wanted
from bornfair.models.graph.model import WiredModel
from bornfair.models.opaque.said import Said, finite, labels_of, said
from bornfair.people.features import Value

TOGETHER = 8_192
NOT_ROWS = ("torch", "tensorflow", "keras", "jax")  # callables that take tensors


def can_be_asked(source: Any) -> bool:
    """Whether an object decides about rows."""
    family = {cls.__module__.split(".")[0] for cls in type(source).__mro__}
    if family & set(NOT_ROWS) or isinstance(source, type):
        return False
    return callable(getattr(source, "predict", None)) or callable(source)


def object_outside(source: Any) -> PredictingObject | Function:
    return PredictingObject(source) if callable(getattr(source, "predict", None)) else Function(source)


@dataclass(frozen=True, eq=False)
class Function:
    """A function from a data frame to labels, probabilities of the last class, or one number for each class."""

    function: Callable[[pd.DataFrame], Any]

    most, digest, classes, point = TOGETHER, "", None, None

    @property
    def name(self) -> str:
        own = getattr(self.function, "__name__", type(self.function).__name__)
        return "the function" if own == "<lambda>" else f"the function {own}"

    @property
    def how(self) -> str:
        return f"{self.name}, called in this process"

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.name, None, numbers=False)

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        found = _answer(self.function, table[list(columns.names)].copy(), self.name)
        return said(found, len(table), self.name)


@dataclass(frozen=True, eq=False)
class PredictingObject:
    """A fitted classifier or pipeline, by its `predict`; what it shows beside is its score."""

    model: Any

    most, digest = TOGETHER, ""

    @cached_property
    def _opened(self) -> Opened | None:
        family = {cls.__module__.split(".")[0] for cls in type(self.model).__mro__}
        return Opened.of(self.model) if "sklearn" in family else None

    @cached_property
    def _shows(self) -> str:
        return next((name for name in ("predict_proba", "decision_function") if hasattr(self.model, name)), "")

    @property
    def name(self) -> str:
        return f"the {type(self.model).__name__}"

    @property
    def how(self) -> str:
        package = type(self.model).__module__.split(".")[0]
        package = {"sklearn": "scikit-learn"}.get(package, package)
        try:
            version = f" of {package} {metadata.version(package)}"
        except metadata.PackageNotFoundError:
            version = ""
        shows = f" and {self._shows}" if self._shows else ""
        return f"{self.name}{version}, by its predict{shows}, in this process"

    @property
    def wanted(self) -> Wanted:
        if self._opened is not None:
            return self._opened.wanted
        names = getattr(self.model, "feature_names_in_", None)
        return Wanted(self.name, None if names is None else tuple(map(str, names)), numbers=False)

    @property
    def classes(self) -> tuple[Value, ...] | None:
        found = getattr(self.model, "classes_", getattr(self.model, "classes", None))
        return None if found is None or callable(found) else tuple(plain_value(value) for value in found)

    @property
    def point(self) -> float | None:
        if isinstance(self.model, WiredModel):
            at = self.model.operating
            return None if at is None or len(at.above) > 1 else at.above[0] if at.place else 1 - at.above[0]
        opened = self._opened
        if opened is None or opened.point is None or not opened.point.for_last:
            return None
        return opened.point.threshold

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        opened = self._opened
        rows = table[list(columns.names)].copy() if opened is None else opened.given(table, columns.names)
        found = _answer(self.model.predict, rows, self.name)
        if self.classes is None:
            return said(found, len(table), self.name)
        labels = np.asarray(found)
        if labels.ndim == 2 and labels.shape[1] == 1:  # as CatBoost answers of more than two classes
            labels = labels[:, 0]
        if labels.ndim != 1 or len(labels) != len(table):
            raise InputError(
                f"{self.name} answered an array of shape {list(labels.shape)} for {len(table):,} people; it must give "
                "one decision each."
            )
        shown = self._numbers(rows, len(table)) if numbers else None
        return Said(labels_of(labels, self.name), shown, self.classes)

    def _numbers(self, rows: Any, count: int) -> np.ndarray | None:
        """Its scores, where it shows them as others do."""
        if not self._shows:
            return None
        found = np.asarray(_answer(getattr(self.model, self._shows), rows, self.name))
        if len(found) != count or found.ndim not in (1, 2) or found.dtype.kind not in "fiu":
            return None
        shown = found.astype(np.float64).reshape(count, -1)
        classes = self.classes
        if classes is None or shown.shape[1] not in (len(classes), 1 if len(classes) == 2 else len(classes)):
            return None
        finite(shown, self.name)
        return shown


def _answer(asked: Callable[[Any], Any], rows: Any, name: str) -> Any:
    try:
        return asked(rows)
    except InputError:
        raise
    except Exception as error:  # whatever somebody's code throws
        first = next(iter(str(error).splitlines()), "").rstrip(".")[:300]
        raise InputError(
            f"{name} could not decide about {len(rows):,} people of the domain: {type(error).__name__}"
            f"{f': {first}' if first else ''}."
        ) from error
