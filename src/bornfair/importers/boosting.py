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
from bornfair.importers.lightgbm_file import lightgbm_model
from bornfair.importers.registry import libraries_of
from bornfair.importers.tree_source import ForestJudge, ForestSource, Ran
from bornfair.importers.xgboost_file import SEVERAL, XgboostModel, xgboost_model
from bornfair.models.forest.columns import SplitColumn, columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import Native
from bornfair.models.onnx_child import run_catboost, run_lightgbm, run_xgboost
from bornfair.models.onnx_worker import CannotRun, ForeignGraph
from bornfair.people.domain import Domain
from bornfair.people.features import Value, known_levels

Rows = dict[str, np.ndarray]
Run = Callable[[Rows], Rows]
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


def _foreign(library: str, how: dict[str, Any], content: bytes, origin: str) -> Run | None:
    """The library on the file itself, in a process of its own; None where it is not installed."""
    name = runtime(library)
    if name is None:
        return None
    model = ForeignGraph(json.dumps(how).encode() + b"\n" + content, library)

    def run(feed: Rows) -> Rows:
        try:
            return model.run(feed)
        except CannotRun as error:
            raise InputError(f"{origin} cannot be run by {name}: {error}.") from error

    return run


def _judge(library: str, run: Run | None, forest: Forest, made: Callable[[Rows], Ran]) -> ForestJudge | None:
    """`run` on what the library is given; `made` says what its answers mean."""
    feed = _encoded_rows(forest)
    return None if run is None else ForestJudge(runtime(library) or library, lambda raw: made(run(feed(raw))))


def _encoded_rows(forest: Forest) -> Callable[[list[Any]], Rows]:
    """What the library is given: numbers as they are, categories as their codes."""
    first = {column.source: column for column in reversed(forest.columns)}

    def feed(raw: list[Any]) -> Rows:
        rows = np.empty((len(raw[0]), len(raw)))
        for i, values in enumerate(raw):
            column = first.get(i)
            if column is not None and column.table is not None:
                bare = SplitColumn(0, (), column.table, column.other, column.missing)
                rows[:, i] = columns_of([values], [bare], len(rows))[0]
            else:
                rows[:, i] = values
        return {"rows": rows}

    return feed


def _written(write: Callable[[], Any], origin: str, otherwise: str) -> Any:
    """What a fitted model of a library writes of itself."""
    try:
        return write()
    except Exception as error:
        raise InputError(f"{origin} is not fitted, or {otherwise} ({error}).") from error


def _classes_of(model: Any) -> tuple[Value, ...] | None:
    return tuple(plain_value(value) for value in model.classes_) if hasattr(model, "classes_") else None


# --- XGBoost ---


def xgboost_object(model: Any) -> ForestSource:
    """A Booster, or an XGBClassifier, from the document that it writes itself."""
    origin = f"the {type(model).__name__}"
    get = getattr(model, "get_booster", lambda: model)
    content = _written(lambda: bytes(get().save_raw("json")), origin, "not a model of XGBoost")
    missing = getattr(model, "missing", None)
    if missing is not None and not np.isnan(missing):
        raise InputError(f"{origin} takes {missing!r} for missing, which is not supported; use NaN.")
    return _xgboost_source(origin, parsed(content, origin), Native(".json", content), model, get())


def _xgboost_source(
    origin: str, document: dict[str, Any], native: Native, model: Any = None, booster: Any = None
) -> ForestSource:
    """The forest of a document, with the library as its judge: on the file itself, or the object that wrote it."""
    in_place = booster is not model  # as an estimator predicts
    found = xgboost_model(document, origin, best=model is None or in_place, in_place=in_place)
    best = found.trees_used < found.trees  # for the library, 0 iterations stands for all
    iterations = int(document["learner"]["attributes"]["best_iteration"]) + 1 if best else 0
    how = {"types": document["learner"].get("feature_types") or None, "iterations": iterations}
    run = _foreign("xgboost", how, native.content, origin) if model is None else run_xgboost(booster, how)

    def in_its_own_way(rows: Rows) -> Rows:
        options = {"iteration_range": (0, iterations), "validate_features": False}
        kinds = {"scores": "margin", "shown": "value"}
        return {name: booster.inplace_predict(rows["rows"], predict_type=k, **options) for name, k in kinds.items()}

    run = in_its_own_way if in_place and found.dropped else run  # where that makes a difference
    judge = _judge("xgboost", run, found.forest, lambda ran: _xgboost_ran(found, ran))
    predicts = f"{'XGBClassifier' if in_place else 'Booster'}.predict"
    notes = (
        f"{found.trees_used} of its {found.trees} trees decide: those up to the best iteration" if best else "",
        "its scores decide above 0" if found.objective == "binary:logitraw" else "",
        f"dropped trees are weighted as {predicts} does it" if found.dropped else "",
    )
    return ForestSource(origin, found.forest, found.named, judge, _classes_of(model), notes, native=native)


def _xgboost_ran(found: XgboostModel, ran: Rows) -> Ran:
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


def lightgbm_object(model: Any) -> ForestSource:
    """A Booster, or an LGBMClassifier, from the text that it writes itself."""
    origin = f"the {type(model).__name__}"

    def written() -> tuple[Any, str]:
        booster = model.booster_ if hasattr(model, "get_params") else model
        return booster, booster.model_to_string()

    booster, text = _written(written, origin, "not a model of LightGBM")
    return _lightgbm_source(origin, text, run_lightgbm(booster), _classes_of(model))


def _lightgbm_source(origin: str, text: str, run: Run | None, classes: tuple[Value, ...] | None = None) -> ForestSource:
    forest, named = lightgbm_model(text, origin)

    def made(ran: Rows) -> Ran:
        shown = np.asarray(ran["shown"])
        scores = np.asarray(ran["scores"]) / forest.summation.divisor  # a random forest shows the sum, not the mean
        if shown.ndim == 1:
            return Ran(scores[:, None], np.stack([1 - shown, shown], axis=1), (shown > 0.5).astype(np.int64))
        return Ran(scores, shown, shown.argmax(axis=1))

    judge = _judge("lightgbm", run, forest, made)
    return ForestSource(origin, forest, named, judge, classes, native=Native(".txt", text.encode()))


# --- CatBoost ---


def catboost_object(model: Any) -> ForestSource:
    """A CatBoostClassifier, from the document that it writes itself."""
    origin = f"the {type(model).__name__}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        _written(lambda: model.save_model(str(path), format="json"), origin, "cannot be written as JSON")
        found = catboost_model(read_document(path), origin)
    return _catboost_source(origin, found, run_catboost(model, {"texts": list(found.categorical)}))


def _catboost_source(origin: str, found: CatboostModel, run: Run | None) -> ForestSource:
    def feed(raw: list[Any]) -> Rows:
        given: Rows = {"rows": np.zeros((len(raw[0]), len(raw)))}
        for i, values in enumerate(raw):
            if i in found.categorical:
                given[f"text {i}"] = np.array([_category_text(value) for value in values], dtype=object)
            else:
                given["rows"][:, i] = values
        return given

    def made(ran: Rows) -> Ran:
        scores = ran["scores"].reshape(len(ran["decided"]), -1)
        order = {str(value): i for i, value in enumerate(found.classes or range(max(scores.shape[1], 2)))}
        labels = [order.get(str(value), -1) for value in ran["decided"].ravel().tolist()]
        return Ran(scores, ran["shown"], np.array(labels, np.int64))

    def over(domain: Domain, names: tuple[str, ...]) -> Forest:
        if run is None and found.bits:
            raise InputError(
                f"{origin} asks about hashes of categories, which only CatBoost knows: install catboost to read it, or "
                "train with categories as numbers."
            )
        tables = {}
        for source in found.categorical:
            levels = known_levels(domain.feature(names[source]))
            if domain.feature(names[source]).kind == "real":
                raise InputError(f"{origin} takes '{names[source]}' for a category; list its values in the domain.")
            probes = [np.full(len(levels), 0.0) for _ in names]
            rows: list[Any] = [np.array(levels, object) if i == source else probe for i, probe in enumerate(probes)]
            tables[source] = _hashes(found, source, levels, run, feed(rows))
        return found.with_categories(tables)

    judge = None if run is None else ForestJudge(runtime("catboost") or "catboost", lambda raw: made(run(feed(raw))))
    return ForestSource(
        origin, found.forest, found.named, judge, found.classes, over=over if found.categorical else None
    )


def _hashes(
    found: CatboostModel, source: int, levels: Sequence[Value], run: Run | None, rows: Rows
) -> list[tuple[Value, float]]:
    """Which categories have which of the hashes that splits ask about: told by the leaves they lead to."""
    if source not in found.bits or run is None:
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


def forest_file(source: str | Path) -> ForestSource:
    """A file that XGBoost (.json, .ubj), LightGBM (.txt) or CatBoost (.json) wrote."""
    path = Path(source)
    origin = f"'{path}'"
    if path.suffix.lower() == ".txt":
        content = read_bytes(path)
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{origin} is no text, so no model of LightGBM ({error}).") from error
        return _lightgbm_source(origin, text, _foreign("lightgbm", {}, content, origin))
    document = read_document(path)
    if "learner" in document:
        native = Native(".ubj" if path.suffix.lower() == ".ubj" else ".json", read_bytes(path))
        return _xgboost_source(origin, document, native)
    if "oblivious_trees" in document or "features_info" in document:
        found = catboost_model(document, origin)
        run = _foreign("catboost", {"texts": list(found.categorical)}, read_bytes(path), origin)
        return _catboost_source(origin, found, run)
    raise InputError(
        f"{origin} is not the JSON of a model of XGBoost or CatBoost; save_model writes one (of CatBoost with "
        "format='json')."
    )


def forest_object(model: Any) -> ForestSource:
    """A model of one of these libraries."""
    family = family_of(model)
    if family is None:
        raise InputError(f"a forest must be a model of {shown(FAMILIES)}, found {type(model).__name__}.")
    return FAMILIES[family](model)


def family_of(model: Any) -> str | None:
    """Which of these libraries an object comes from."""
    return next((library for library in libraries_of(model) if library in FAMILIES), None)


FAMILIES: dict[str, Callable[[Any], ForestSource]] = {
    "xgboost": xgboost_object,
    "lightgbm": lightgbm_object,
    "catboost": catboost_object,
}
