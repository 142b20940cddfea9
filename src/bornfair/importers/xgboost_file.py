"""XGBoost models, read from their JSON or UBJSON documents without the library.

Numbers are float32: a row goes left where x < threshold, a category of a split's set goes right, what is missing goes
the default way. Leaves are added to the base margin one tree after the other, in float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.document import Page
from bornfair.models.forest.columns import SplitColumn, Step
from bornfair.models.forest.forest import Cut, Forest, Summation
from bornfair.models.forest.links import SOFTMAX_SLACK, cut_of, sigmoid_in_float32
from bornfair.models.forest.planting import Planting
from bornfair.people.features import Value

BINARY = ("binary:logistic", "binary:logitraw", "reg:logistic", "binary:hinge")
SEVERAL = ("multi:softprob", "multi:softmax")
NUMBER: tuple[Step, ...] = (("float32", 0.0),)
CATEGORY: tuple[Step, ...] = (("float32", 0.0), ("floor", 0.0))


@dataclass(frozen=True, eq=False)
class XgboostModel:
    """What was read: the forest, and what its document says besides."""

    forest: Forest
    objective: str
    named: bool  # whether the inputs' names are the file's, or f0, f1, … for want of any
    trees_used: int  # of the trees in the document
    trees: int
    dropped: bool  # whether trees were dropped out (DART), by a version that predicts in two ways


def xgboost_model(document: dict[str, Any], origin: str, *, best: bool, in_place: bool = False) -> XgboostModel:
    """The forest of a document; `best`: without the trees after the best iteration of early stopping; `in_place`: as
    XGBClassifier predicts, and not a Booster from a DMatrix, which makes a difference to trees that were dropped out.
    """
    page = Page(document, origin)
    learner = page.inside("learner")
    objective = learner.inside("objective").text("name")
    if objective not in (*BINARY, *SEVERAL):
        raise InputError(
            f"{origin} was trained for {objective[:40]!r}, which decides nothing; {shown((*BINARY, *SEVERAL))} can be "
            "read."
        )
    booster = learner.inside("gradient_booster")
    kind = booster.text("name")
    if kind not in ("gbtree", "dart"):
        raise InputError(f"{origin} is a {kind[:40]!r} of XGBoost; trees ('gbtree', 'dart') can be read.")
    model = (booster.inside("gbtree") if kind == "dart" else booster).inside("model")
    parameters = learner.inside("learner_model_param")
    classes, features = parameters.whole("num_class", 0), parameters.whole("num_feature")
    if parameters.whole("num_target", 1) > 1 and classes <= 1:
        raise InputError(f"{origin} decides several labels at once, which is not supported; train one for each.")
    if (objective in SEVERAL) != (classes > 1) or classes > 10_000:
        raise InputError(f"{origin}: num_class is {classes}, which does not fit the objective {objective[:40]!r}.")
    names, types = _names(learner, features, origin)
    trees = model.listed("trees")
    info = model.numbers("tree_info", np.int64, len(trees))
    if model.inside("gbtree_model_param").whole("num_trees") != len(trees):
        raise InputError(f"{origin} has {len(trees)} trees, but says it has another number; is the file broken?")
    weighing = booster if kind == "dart" else model  # newer files keep the weights of dropped trees beside the trees
    weighted = kind == "dart" or bool(weighing.listed("weight_drop"))
    weights = weighing.numbers("weight_drop", np.float32, len(trees)) if weighted else np.ones(len(trees), np.float32)
    outputs = max(classes, 1)
    if ((info < 0) | (info >= outputs)).any():
        raise InputError(f"{origin}: a tree belongs to class {int(info.max())} of {outputs}; is the file broken?")
    base = _base(parameters, objective, outputs, origin)
    used = _used(learner, model, len(trees), outputs, origin) if best else len(trees)
    planting, columns = (
        Planting(origin, outputs),
        [
            SplitColumn(i, CATEGORY if kind == "c" else NUMBER, table)
            for i, (kind, table) in enumerate(zip(types, _tables(model, features, origin), strict=True))
        ],
    )
    for number in range(used):
        tree = Page(trees[number], f"{origin}: tree {number}")
        scaled = (weights[number], base if in_place and kind == "dart" else (0.0,) * outputs) if weighted else None
        _plant(planting, tree, int(info[number]), outputs, features, scaled)
    # Of dropped trees, older versions add and take away the base score again on the way, differently in each way to
    # predict: values are those of one of them, and what the others add up is not just these.
    how = Summation("float32", base, plain=kind != "dart")
    forest = planting.forest(names, columns, how, _cut(objective, outputs))
    return XgboostModel(forest, objective, bool(learner.listed("feature_names")), used, len(trees), kind == "dart")


# --- trees ---


def _plant(planting: Planting, tree: Page, output: int, outputs: int, features: int, scaled: Any) -> None:
    left = tree.numbers("left_children", np.int64)
    count = len(left)
    parameters = tree.inside("tree_param")
    if parameters.whole("num_nodes") != count:
        raise planting.wrong(f"it says {parameters.whole('num_nodes')} nodes, but has {count}")
    right = tree.numbers("right_children", np.int64, count)
    column = tree.numbers("split_indices", np.int64, count)
    condition = tree.numbers("split_conditions", np.float32, count)
    default = tree.numbers("default_left", np.int64, count).astype(bool)
    inner = left >= 0
    if (right[inner] < 0).any():
        raise planting.wrong(f"a node has the child {int(right[inner].min())}, which is not there")
    if ((column < 0) | (column >= features))[inner].any():
        raise planting.wrong(f"a split reads a feature that is not among the {features}")
    size = parameters.whole("size_leaf_vector", 1)
    if size > 1:
        values = _vectors(planting, tree, left, right, size, outputs)
    else:
        values = np.zeros((count, outputs), np.float32)
        values[:, output] = condition
    if scaled is not None:  # of a dropped tree: (base ⊕ leaf ⊖ base) ⊗ weight, or without the base
        weight, base = scaled
        start = np.asarray(base, np.float32)
        values = ((start + values) - start) * np.float32(weight)
    members = np.full(count, -1)
    if "categories_nodes" in tree.fields:
        _categories(planting, tree, members)
    chosen = members >= 0
    with np.errstate(over="ignore"):
        threshold = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)  # x < t, as x ≤ the number before
    threshold = np.where(np.isnan(condition), np.nan, threshold)
    planting.add(
        column, np.where(chosen, 0.0, threshold), np.where(chosen & inner, right, left),
        np.where(chosen & inner, left, right), default ^ chosen, np.where(inner[:, None], 0.0, values), members,
    )  # fmt: skip


def _vectors(
    planting: Planting, tree: Page, left: np.ndarray, right: np.ndarray, size: int, outputs: int
) -> np.ndarray:
    """A leaf of a tree for all classes: in a list of leaves, to which the right child points, or one for each node."""
    if size != outputs:
        raise planting.wrong(f"its leaves have {size} values for {outputs} classes")
    if "leaf_weights" not in tree.fields:
        return tree.numbers("base_weights", np.float32, len(left) * size).reshape(len(left), size)
    weights = tree.numbers("leaf_weights", np.float32)
    place = np.where(left < 0, right, 0)
    if len(weights) % size or (place < 0).any() or (place >= len(weights) // size).any():
        raise planting.wrong("a leaf points to values that are not there")
    return weights.reshape(-1, size)[place]


def _categories(planting: Planting, tree: Page, members: np.ndarray) -> None:
    nodes = tree.numbers("categories_nodes", np.int64)
    starts = tree.numbers("categories_segments", np.int64, len(nodes))
    sizes = tree.numbers("categories_sizes", np.int64, len(nodes))
    categories = tree.numbers("categories", np.int64)
    wrong = (nodes < 0) | (nodes >= len(members)) | (starts < 0) | (sizes < 0) | (starts + sizes > len(categories))
    if wrong.any() or (categories < 0).any():
        raise planting.wrong("its category sets point outside of it")
    split = tree.numbers("split_type", np.int64, len(members)) if "split_type" in tree.fields else None
    if split is not None and not np.array_equal(np.flatnonzero(split), np.unique(nodes)):
        raise planting.wrong("its nodes and its category sets disagree about which splits are by category")
    for node, start, size in zip(nodes, starts, sizes, strict=True):
        members[node] = len(planting.sets)
        planting.sets.append(categories[start : start + size].astype(np.float64))


# --- what stands beside the trees ---


def _names(learner: Page, features: int, origin: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not 0 < features <= 1_000_000:
        raise InputError(f"{origin} says it takes {features} features, which cannot be read.")
    names, types = learner.listed("feature_names"), learner.listed("feature_types")
    for what, found in (("names", names), ("types", types)):
        if found and (len(found) != features or not all(isinstance(name, str) for name in found)):
            raise InputError(f"{origin} takes {features} features, but has {len(found)} {what} of them.")
    if len(set(names)) != len(names):
        raise InputError(f"{origin} has two features of one name.")
    return tuple(names) or tuple(f"f{i}" for i in range(features)), tuple(types) or ("",) * features


def _tables(model: Page, features: int, origin: str) -> list[tuple[tuple[Value, float], ...] | None]:
    """The categories that newer files name, each with its code; None of a feature that has none."""
    tables: list[tuple[tuple[Value, float], ...] | None] = [None] * features
    stored = model.fields.get("cats")
    encodings = stored.get("enc") if isinstance(stored, dict) else None
    if not isinstance(encodings, list) or len(encodings) != features:
        return tables
    for i, found in enumerate(encodings):
        page = Page(found, f"{origin}: the categories of feature {i}")
        values = page.numbers("values", np.float64)
        if not len(values):
            continue
        if "offsets" in page.fields:
            offsets, letters = page.numbers("offsets", np.int64), values.astype(np.int64)
            if (letters < -128).any() or (letters > 255).any() or (np.diff(offsets) < 0).any():
                raise page.wrong("offsets")
            text = bytes((letters & 255).tolist())
            parts = [text[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
            known: list[Value] = [part.decode(errors="replace") for part in parts]
        else:
            known = [int(v) if v == round(v) else float(v) for v in values.tolist()]
        if len(set(known)) != len(known):
            raise page.wrong("values")
        tables[i] = tuple((value, float(code)) for code, value in enumerate(known))
    return tables


def _used(learner: Page, model: Page, trees: int, outputs: int, origin: str) -> int:
    """How many trees decide: after early stopping, those up to the best iteration."""
    attributes = learner.fields.get("attributes")
    best = attributes.get("best_iteration") if isinstance(attributes, dict) else None
    if best is None:
        return trees
    iteration = Page({"best_iteration": best}, origin).whole("best_iteration")
    ends = model.numbers("iteration_indptr", np.int64) if "iteration_indptr" in model.fields else None
    if ends is None:
        each = max(model.inside("gbtree_model_param").whole("num_parallel_tree", 1), 1) * outputs
        ends = np.arange(0, trees + 1, each)
    if not 0 <= iteration < len(ends) - 1 or not 0 < ends[iteration + 1] <= trees:
        raise InputError(f"{origin}: the best iteration {iteration} is not among its {max(len(ends) - 1, 0)}.")
    return int(ends[iteration + 1])


def _base(parameters: Page, objective: str, outputs: int, origin: str) -> tuple[float, ...]:
    """The base score as margins: newer files list one for each output; of two classes, it is a probability."""
    given = parameters.fields.get("base_score")
    texts = given.strip().strip("[]").split(",") if isinstance(given, str) else [str(given)]
    try:
        found = np.array([float(text) for text in texts]).astype(np.float32)
    except ValueError:
        raise InputError(f"{origin}: the base_score {given!r} is not a number.") from None
    if not np.isfinite(found).all() or len(found) not in (1, outputs):
        raise InputError(f"{origin}: the base_score {given!r} is no finite number for each of {outputs} outputs.")
    if objective in ("binary:logistic", "reg:logistic"):  # the others' is a margin already
        if not 0 < found[0] < 1:
            raise InputError(f"{origin}: the base_score {given!r} is no probability between 0 and 1.")
        odds = np.float32(1) / found[0] - np.float32(1)
        found = np.array([-math.log(float(odds))]).astype(np.float32)
    return tuple((np.zeros(outputs, np.float32) + found).astype(np.float64).tolist())


def _cut(objective: str, outputs: int) -> Cut:
    if outputs > 1:
        return Cut(link="softmax", slack=0.0 if objective == "multi:softmax" else SOFTMAX_SLACK["float32"])
    if objective in ("binary:logitraw", "binary:hinge"):
        return Cut(link="sigmoid" if objective == "binary:logitraw" else "none")
    at, slack = cut_of(sigmoid_in_float32, 0.5, "float32")
    return Cut(at, slack)
