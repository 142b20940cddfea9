"""Forests in files, and in the objects of the libraries that write them: opened, read, and given their judge.

A file is read without its library. Where the library is installed, it runs the file in a process of its own, as the
judge of what was read; an object is its own judge.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError, plain_value, shown
from bornfair.importers.catboost_file import NO_HASH, CatboostModel, catboost_model
from bornfair.importers.document import parsed, read_bytes, read_document
from bornfair.importers.forest_source import ForestSource, Judge, Ran
from bornfair.importers.lightgbm_file import lightgbm_model
from bornfair.importers.xgboost_file import SEVERAL, XgboostModel, xgboost_model
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import Native
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.people.domain import Domain
from bornfair.people.features import Value, known_levels

DISTRIBUTIONS = {"xgboost": ("xgboost", "xgboost-cpu"), "lightgbm": ("lightgbm",), "catboost": ("catboost",)}


def runtime(library: str) -> str | None:
    """Its name and version; None where it is not installed."""
    if importlib.util.find_spec(library) is None:
        return None
    for name in DISTRIBUTIONS.get(library, (library,)):
        try:
            return f"{library} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return library


def foreign_judge(
    library: str, how: dict[str, Any], content: bytes, feed: Callable[[list[Any]], dict[str, np.ndarray]],
    made: Callable[[dict[str, np.ndarray]], Ran], origin: str,
) -> Judge | None:  # fmt: skip
    """The library on the file itself, in a process of its own; None where it is not installed."""
    name = runtime(library)
    if name is None:
        return None
    model = ForeignGraph(json.dumps(how).encode() + b"\n" + content, library)

    def run(raw: list[Any]) -> Ran:
        try:
            return made(model.run(feed(raw)))
        except CannotRun as error:
            raise InputError(f"{origin} cannot be run by {name}: {error}.") from error

    return Judge(name, run)


def encoded_rows(forest: Forest) -> Callable[[list[Any]], dict[str, np.ndarray]]:
    """What the library is given: numbers as they are, categories as their codes."""
    first = {column.source: column for column in reversed(forest.columns)}

    def feed(raw: list[Any]) -> dict[str, np.ndarray]:
        rows = np.empty((len(raw[0]), len(raw)))
        for i, values in enumerate(raw):
            column = first.get(i)
            if column is not None and column.table is not None:
                rows[:, i] = columns_of([values], [_only_table(column)], len(rows))[0]
            else:
                rows[:, i] = values
        return {"rows": rows}

    return feed


def _only_table(column: Any) -> Any:
    return type(column)(0, (), column.table, column.other, column.missing)


# --- XGBoost ---


def xgboost_file(path: Path, document: dict[str, Any]) -> ForestSource:
    """A .json or .ubj file that XGBoost wrote."""
    origin = f"'{path}'"
    found = xgboost_model(document, origin, best=True)
    how = {"types": _types(document), "iterations": _iterations(found, document)}
    content = read_bytes(path)
    judge = foreign_judge(
        "xgboost", how, content, encoded_rows(found.forest), lambda ran: _xgboost_ran(found, ran), origin
    )
    native = Native(".ubj" if path.suffix.lower() == ".ubj" else ".json", content)
    notes = _xgboost_notes(found, in_place=False)
    return ForestSource(origin, found.forest, found.named, judge, notes=notes, native=native)


def xgboost_object(model: Any) -> ForestSource:
    """A Booster, or an XGBClassifier, from the document that it writes itself."""
    name = type(model).__name__
    estimator = hasattr(model, "get_booster")
    origin = f"the {name}"
    try:
        booster = model.get_booster() if estimator else model
        content = bytes(booster.save_raw("json"))
    except Exception as error:
        raise InputError(f"{origin} is not fitted, or not a model of XGBoost ({error}).") from error
    missing = getattr(model, "missing", None)
    if missing is not None and not np.isnan(missing):
        raise InputError(f"{origin} takes {missing!r} for missing, which is not supported; use NaN.")
    document = parsed(content, origin)
    found = xgboost_model(document, origin, best=estimator, in_place=estimator)
    classes = tuple(plain_value(value) for value in model.classes_) if hasattr(model, "classes_") else None
    feed = encoded_rows(found.forest)

    def run(raw: list[Any]) -> Ran:
        import xgboost

        rows = feed(raw)["rows"]
        options = {"iteration_range": (0, _iterations(found, document)), "validate_features": False}
        if estimator and found.dropped:  # its own way to predict, where that makes a difference
            kinds = {"scores": "margin", "shown": "value"}
            ran = {name: booster.inplace_predict(rows, predict_type=kind, **options) for name, kind in kinds.items()}
            return _xgboost_ran(found, ran)
        matrix = xgboost.DMatrix(rows, feature_types=_types(document), enable_categorical=True)
        shown = {
            "scores": booster.predict(matrix, output_margin=True, **options),
            "shown": booster.predict(matrix, **options),
        }
        return _xgboost_ran(found, shown)

    judge = Judge(runtime("xgboost") or "xgboost", run)
    notes, native = _xgboost_notes(found, estimator), Native(".json", content)
    return ForestSource(origin, found.forest, found.named, judge, classes, notes, native=native)


def _types(document: dict[str, Any]) -> list[str] | None:
    return document["learner"].get("feature_types") or None


def _iterations(found: XgboostModel, document: dict[str, Any]) -> int:
    """For the library: 0 stands for all."""
    return 0 if found.trees_used == found.trees else int(document["learner"]["attributes"]["best_iteration"]) + 1


def _xgboost_notes(found: XgboostModel, in_place: bool) -> tuple[str, ...]:
    notes = []
    if found.trees_used < found.trees:
        notes.append(f"{found.trees_used} of its {found.trees} trees decide: those up to the best iteration")
    if found.objective == "binary:logitraw":
        notes.append("its scores decide above 0")
    if found.dropped:
        notes.append(f"dropped trees are weighted as {'XGBClassifier' if in_place else 'Booster'}.predict does it")
    return tuple(notes)


def _xgboost_ran(found: XgboostModel, ran: dict[str, np.ndarray]) -> Ran:
    scores, shown = ran["scores"].reshape(len(ran["scores"]), -1), ran["shown"]
    if found.objective in SEVERAL:
        labels = shown if shown.ndim == 1 else shown.argmax(axis=1)
        return Ran(scores, None if shown.ndim == 1 else shown, labels.astype(np.int64))
    if found.objective == "binary:logitraw":
        return Ran(scores)
    if found.objective == "binary:hinge":
        return Ran(scores, None, (shown > 0.5).astype(np.int64))
    return Ran(scores, np.stack([1 - shown, shown], axis=1), (shown > 0.5).astype(np.int64))


# --- LightGBM ---


def lightgbm_file(path: Path) -> ForestSource:
    """A .txt file that LightGBM wrote."""
    content, origin = read_bytes(path), f"'{path}'"
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{origin} is no text, so no model of LightGBM ({error}).") from error
    found = lightgbm_model(text, origin)
    judge = foreign_judge(
        "lightgbm", {}, content, encoded_rows(found.forest), lambda ran: _lightgbm_ran(found.forest, ran), origin
    )
    return ForestSource(origin, found.forest, found.named, judge, native=Native(".txt", content))


def lightgbm_object(model: Any) -> ForestSource:
    """A Booster, or an LGBMClassifier, from the text that it writes itself."""
    origin = f"the {type(model).__name__}"
    try:
        booster = model.booster_ if hasattr(model, "get_params") else model
        text = booster.model_to_string()
    except Exception as error:
        raise InputError(f"{origin} is not fitted, or not a model of LightGBM ({error}).") from error
    found = lightgbm_model(text, origin)
    classes = tuple(plain_value(value) for value in model.classes_) if hasattr(model, "classes_") else None
    feed = encoded_rows(found.forest)

    def run(raw: list[Any]) -> Ran:
        rows = feed(raw)["rows"]
        scores, shown = (booster.predict(rows, raw_score=raw, validate_features=False) for raw in (True, False))
        return _lightgbm_ran(found.forest, {"scores": scores, "shown": shown})

    judge, native = Judge(runtime("lightgbm") or "lightgbm", run), Native(".txt", text.encode())
    return ForestSource(origin, found.forest, found.named, judge, classes, native=native)


def _lightgbm_ran(forest: Forest, ran: dict[str, np.ndarray]) -> Ran:
    scores, shown = np.asarray(ran["scores"]), np.asarray(ran["shown"])
    scores = scores / forest.summation.divisor  # a random forest shows the sum, and decides by the mean
    if shown.ndim == 1:
        return Ran(scores[:, None], np.stack([1 - shown, shown], axis=1), (shown > 0.5).astype(np.int64))
    return Ran(scores, shown, shown.argmax(axis=1))


# --- CatBoost ---

Rows = dict[str, np.ndarray]


def catboost_file(path: Path, document: dict[str, Any]) -> ForestSource:
    """A .json file that CatBoost wrote."""
    origin = f"'{path}'"
    found = catboost_model(document, origin)
    name, model = runtime("catboost"), None
    if name is not None:
        how = {"texts": list(found.categorical)}
        model = ForeignGraph(json.dumps(how).encode() + b"\n" + read_bytes(path), "catboost")

    def run(rows: Rows) -> Rows:
        if model is None:
            raise InputError(
                f"{origin} asks about hashes of categories, which only CatBoost knows: install catboost to read it, or "
                "train with categories as numbers."
            )
        try:
            return model.run(rows)
        except CannotRun as error:
            raise InputError(f"{origin} cannot be run by {name}: {error}.") from error

    return _catboost_source(origin, found, run, name)


def catboost_object(model: Any) -> ForestSource:
    """A CatBoostClassifier, from the document that it writes itself."""
    import catboost

    origin = f"the {type(model).__name__}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")
        except Exception as error:
            raise InputError(f"{origin} is not fitted, or cannot be written as JSON ({error}).") from error
        found = catboost_model(read_document(path), origin)

    def run(rows: Rows) -> Rows:
        texts = list(found.categorical)
        table = rows["rows"].astype(object)
        for place in texts:
            table[:, place] = rows[f"text {place}"]
        pool = catboost.Pool(table, cat_features=texts)
        if "which leaves" in rows:
            return {"leaves": np.asarray(model.calc_leaf_indexes(pool))}
        kinds = {"scores": "RawFormulaVal", "shown": "Probability", "decided": "Class"}
        return {name: np.asarray(model._predict(pool, kind, 0, 0, -1, None, "predict")) for name, kind in kinds.items()}

    return _catboost_source(origin, found, run, runtime("catboost"))


def _catboost_source(origin: str, found: CatboostModel, run: Callable[[Rows], Rows], name: str | None) -> ForestSource:
    def feed(raw: list[Any]) -> Rows:
        given: Rows = {"rows": np.zeros((len(raw[0]), len(raw)))}
        for i, values in enumerate(raw):
            if i in found.categorical:
                given[f"text {i}"] = np.array([_category_text(value) for value in values], dtype=object)
            else:
                given["rows"][:, i] = values
        return given

    def judged(raw: list[Any]) -> Ran:
        ran = run(feed(raw))
        scores = ran["scores"].reshape(len(raw[0]), -1)
        order = {str(value): i for i, value in enumerate(found.classes or range(max(scores.shape[1], 2)))}
        labels = [order.get(str(value), -1) for value in ran["decided"].ravel().tolist()]
        return Ran(scores, ran["shown"], np.array(labels, np.int64))

    def over(domain: Domain, names: tuple[str, ...]) -> Forest:
        tables = {}
        for source in found.categorical:
            levels = known_levels(domain.feature(names[source]))
            if domain.feature(names[source]).kind == "real":
                raise InputError(f"{origin} takes '{names[source]}' for a category; list its values in the domain.")
            probes = [np.full(len(levels), 0.0) for _ in names]
            rows: list[Any] = [np.array(levels, object) if i == source else probe for i, probe in enumerate(probes)]
            tables[source] = _hashes(found, source, levels, run, feed(rows))
        return found.with_categories(tables)

    judge = None if name is None else Judge(name, judged)
    return ForestSource(
        origin, found.forest, found.named, judge, found.classes, over=over if found.categorical else None
    )


def _hashes(
    found: CatboostModel, source: int, levels: Sequence[Value], run: Callable[[Rows], Rows], rows: Rows
) -> list[tuple[Value, float]]:
    """Which categories have which of the hashes that splits ask about: told by the leaves they lead to."""
    if source not in found.bits:
        return [(level, NO_HASH) for level in levels]
    leaves = run(rows | {"which leaves": np.ones(1)})["leaves"]
    codes = np.full(len(levels), NO_HASH)
    for tree, bit, value in found.bits[source]:
        codes[((leaves[:, tree] >> bit) & 1) > 0] = value
    return list(zip(levels, codes.tolist(), strict=True))


def _category_text(value: Any) -> str:
    """As CatBoost reads it; like CatBoost, it takes no gap, which users write as a category of its own."""
    if pd.isna(value):
        raise InputError("CatBoost takes no missing category; write it as a category of its own, such as 'missing'.")
    if isinstance(value, float) and value == round(value):
        return str(int(value))
    return str(value)


# --- which it is ---


def forest_file(path: Path) -> ForestSource:
    """A file that XGBoost, LightGBM or CatBoost wrote."""
    if path.suffix.lower() == ".txt":
        return lightgbm_file(path)
    document = read_document(path)
    if "learner" in document:
        return xgboost_file(path, document)
    if "oblivious_trees" in document or "features_info" in document:
        return catboost_file(path, document)
    raise InputError(
        f"'{path}' is not the JSON of a model of XGBoost or CatBoost; save_model writes one (of CatBoost with "
        "format='json')."
    )


def forest_object(model: Any) -> ForestSource:
    """A model of one of these libraries."""
    for cls in type(model).__mro__:
        family = cls.__module__.split(".")[0]
        if family in FAMILIES:
            return FAMILIES[family](model)
    raise InputError(f"a forest must be a model of {shown(FAMILIES)}, found {type(model).__name__}.")


FAMILIES: dict[str, Callable[[Any], ForestSource]] = {
    "xgboost": xgboost_object,
    "lightgbm": lightgbm_object,
    "catboost": catboost_object,
}
