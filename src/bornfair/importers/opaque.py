"""Readers of models that can only be run: any object, function, graph, program or endpoint as an `OpaqueModel`."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value
from bornfair.importers.onnx_file import RUNTIME, TOGETHER, GraphRun, OnnxFile, read_onnx
from bornfair.importers.registry import is_graph, libraries_of
from bornfair.importers.scikit_pipeline import Opened
from bornfair.importers.source import rows_within
from bornfair.models.columns import Columns, Wanted, Who, columns_for, with_classes
from bornfair.models.deciding import served
from bornfair.models.graph.model import WiredModel
from bornfair.models.opaque.command import Command
from bornfair.models.opaque.endpoint import Endpoint
from bornfair.models.opaque.model import OpaqueModel, Pace, Steadiness, joined
from bornfair.models.opaque.said import (
    Meant,
    Outside,
    Said,
    at_threshold,
    finite,
    labels_of,
    meaning_of,
    said,
    said_together,
)
from bornfair.models.protocol import Decided
from bornfair.models.reading import Reading
from bornfair.people.features import Value
from bornfair.people.tables import as_pandas
from bornfair.people.twins.versions import Versions

FIRST = 16  # people who are asked about first; then four times as many, while there is time
TRIAL = 256  # people who are asked about twice
TRIAL_SECONDS = 3.0  # for those, about
OTHERWISE = 97  # rows together, when they are asked about again
NOT_ROWS = ("torch", "tensorflow", "keras", "jax")  # callables that take tensors


def is_run(source: Any) -> bool:
    """Whether this can be run only."""
    return isinstance(source, (Command, Endpoint, OpaqueModel))


def outside_of(source: Any, asked: Reading | None = None) -> Outside | None:
    """How this can be asked from outside; None if it cannot."""
    if isinstance(source, OpaqueModel):
        return source.source
    if isinstance(source, (Command, Endpoint)):
        return source
    if isinstance(source, (str, Path)):
        if not is_graph(source) or not Path(source).is_file():
            return None
        return OpaqueGraph(Path(source), asked or Reading())
    if isinstance(source, type) or not set(NOT_ROWS).isdisjoint(libraries_of(source)):
        return None
    if callable(getattr(source, "predict", None)):
        return PredictingObject(source)
    return Function(source) if callable(source) else None


def opaque_model(source: Any, who: Who, asked: Reading, *, unread: str = "") -> OpaqueModel:
    """The model, for the people who are asked about: tried out, and asked twice about some of them.

    unread: why it is not read.
    """
    outside = outside_of(source, asked)
    if outside is None:
        raise InputError(
            f"{source if isinstance(source, (str, Path)) else type(source).__name__} cannot be run from outside; give "
            "an object with predict, a function of rows, an .onnx file, a Command or an Endpoint."
        )
    if asked.decision_output is not None and not is_graph(source):
        asked.only_for(outside.name, "decision", "threshold", "normalise")
    table = None if who.table is None else as_pandas(who.table)
    if who.domain is None and table is None:
        own = getattr(source, "domain", None)
        who = dataclasses.replace(who, domain=own) if own is not None else who
    if who.domain is None and table is None and not outside.wanted.categories:
        raise InputError(
            f"{outside.name} does not say who exists: give a table to read that off, or a domain (--data, --domain)."
        )
    columns = columns_for(outside.wanted, dataclasses.replace(who, table=table))
    pace = Pace(outside.most)
    people = _trial_people(columns, table)
    parts: list[Said] = []
    began, start, size = time.monotonic(), 0, FIRST
    while start < len(people) and (not parts or time.monotonic() - began < TRIAL_SECONDS):
        some, now = people.iloc[start : start + size], time.monotonic()
        parts.append(outside.ask(some, columns, numbers=True))
        pace.measured(len(some), time.monotonic() - now)
        start, size = start + size, 4 * size
    trial, people = said_together(parts, outside.name), people.iloc[:start]
    meant = meaning_of(trial, outside, columns.domain.label, asked)
    domain = with_classes(columns.domain, meant.classes, len(meant.classes), who.target, outside.name)
    columns = Columns(domain, columns.names)
    wires = getattr(outside, "wires", None)
    model = OpaqueModel(outside, columns, meant, unread, pace=pace, note=asked.note, wires=wires)
    if asked.threshold is not None:

        def values(moved: Meant) -> np.ndarray | None:
            if table is None:
                return None
            return dataclasses.replace(model, meant=moved).ask(table.dropna(subset=list(columns.names))).scores

        note = asked.for_classes(meant.classes).note
        model = dataclasses.replace(model, meant=at_threshold(meant, asked, values), note=note)
    steadiness = _asked_again(model, people, model.meant.answers(trial))
    return dataclasses.replace(model, steadiness=steadiness, takes_gaps=_takes_gaps(model, table))


def _trial_people(columns: Columns, table: pd.DataFrame | None) -> pd.DataFrame:
    """People of the domain, and of the table where it has them."""
    drawn, rows = columns.domain.sample(TRIAL, seed=0), rows_within(columns.domain, table, TRIAL // 2)
    if rows is None:
        return drawn
    both = pd.concat([drawn.iloc[: TRIAL - len(rows)], rows], ignore_index=True)
    return both.sample(len(both), random_state=1).reset_index(drop=True)


def _asked_again(model: OpaqueModel, people: pd.DataFrame, before: Decided) -> Steadiness:
    """The same people in another order and in other batches."""
    turned = people.iloc[::-1]
    some = (turned.iloc[start : start + OTHERWISE] for start in range(0, len(people), OTHERWISE))
    again = joined([model.meant.answers(model.source.ask(rows, model.columns, numbers=True)) for rows in some])
    moved = 0.0
    if again.scores is not None and before.scores is not None:
        moved = float(np.abs(again.scores[::-1] - before.scores).max(initial=0.0))
    return Steadiness(len(people), int((again.classes[::-1] != before.classes).sum()), moved)


def _takes_gaps(model: OpaqueModel, table: pd.DataFrame | None) -> bool:
    """Whether it decides about rows of the table that have gaps."""
    if table is None:
        return False
    read = [name for name in model.domain.free_names if name in table.columns]
    gappy = table[table[read].isna().any(axis=1)].iloc[:FIRST]
    if not len(gappy):
        return False
    versions = Versions(model.domain)
    try:
        model.ask(versions.table(gappy, 0), scores=True)
    except InputError:
        return False
    return True


# --- graphs and objects of this process ---


@dataclass(frozen=True, eq=False)
class OpaqueGraph(Outside):
    """An .onnx file that is run as it is."""

    path: Path
    asked: Reading = field(default_factory=Reading)

    most = TOGETHER

    @cached_property
    def file(self) -> OnnxFile:
        return read_onnx(self.path)

    @property
    def name(self) -> str:
        return self.file.origin

    @property
    def how(self) -> str:
        return f"the graph {self.path.name}, run by {RUNTIME} in a process of its own"

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.file.content).hexdigest()

    @property
    def wanted(self) -> Wanted:
        return self.file.wanted

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        return self._said(self._run.outputs([(name, table[name]) for name in columns.names]), len(table))

    @cached_property
    def _run(self) -> GraphRun:  # weights that lie beside the file were read into the model
        return GraphRun(self.file, self.file.model.SerializeToString())

    @cached_property
    def _shown(self) -> tuple[str | None, str | None]:
        """The label that decides, and the scores."""
        return served(self.file.outputs, self.asked)

    def _said(self, outputs: dict[str, np.ndarray], rows: int) -> Said:
        label, scores = self._shown
        numbers: np.ndarray | None = None
        classes: tuple[Value, ...] | None = None
        found = None if scores is None else outputs[scores]
        if found is not None and len(found) == rows and found.shape[1]:
            if found.dtype.kind == "O" and found.shape[1] == 1 and isinstance(found[0, 0], dict):
                numbers, classes = _of_maps(found[:, 0], self.name)
            elif found.dtype.kind == "f":
                numbers = found.astype(np.float64)
        labels = None if label is None else self._labels(label, outputs[label], rows)
        if labels is None and numbers is None:
            raise InputError(
                f"{self.name}: output '{scores}' is not a number or a map of numbers for each of {rows:,} people."
            )
        if numbers is not None:
            finite(numbers, self.name)
        named = labels is None or (classes is not None and all(value in classes for value in labels.tolist()))
        return Said(labels, numbers, classes if named else None)  # else maps write their keys in another way

    def _labels(self, name: str, found: np.ndarray, rows: int) -> np.ndarray:
        if len(found) != rows or found.shape[1] != 1:
            raise InputError(
                f"{self.name}: output '{name}' has the shape {list(found.shape)} for {rows:,} people; a label for each "
                "is needed. Name the output that decides (--decision-output)."
            )
        labels = labels_of(found, self.name)
        whole = found.dtype.kind == "f" and bool((found == np.round(found)).all())
        return np.array([int(value) for value in labels], object) if whole else labels


def _of_maps(found: Any, origin: str) -> tuple[np.ndarray, tuple[Value, ...]]:
    """Maps from classes to numbers; the keys of whole numbers came as texts."""
    names = list(found[0])
    if any(list(one) != names for one in found):
        raise InputError(f"{origin} maps other classes for some people than for others.")
    numbers = np.array([[float(one[name]) for name in names] for one in found])
    return numbers, tuple(int(name) if name.lstrip("-").isdigit() else name for name in names)


@dataclass(frozen=True, eq=False)
class Function(Outside):
    """A function from a data frame to labels, probabilities of the last class, or one number for each class."""

    function: Callable[[pd.DataFrame], Any]

    most = TOGETHER

    @property
    def name(self) -> str:
        own = getattr(self.function, "__name__", type(self.function).__name__)
        return "the function" if own == "<lambda>" else f"the function {own}"

    @property
    def how(self) -> str:
        return f"{self.name}, called in this process"

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        found = _answer(self.function, table[list(columns.names)].copy(), self.name)
        return said(found, len(table), self.name)


@dataclass(frozen=True, eq=False)
class PredictingObject(Outside):
    """A fitted classifier or pipeline, by its `predict`; what it shows beside is its score."""

    model: Any

    most = TOGETHER

    @cached_property
    def _opened(self) -> Opened | None:
        return Opened.of(self.model) if "sklearn" in libraries_of(self.model) else None

    @property
    def wires(self) -> WiredModel | None:
        """The graph of which the wires were read."""
        return self.model if isinstance(self.model, WiredModel) else None

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
        if self.wires is not None:
            at = self.wires.operating
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
