"""CatBoost models, read from their JSON export without the library.

Numbers are float32; a split asks whether x > border, or whether a category's hash is a given one. A symmetric tree asks
one question on each level, and the answers are the bits of the leaf's number. Leaves are added one tree after the
other in float64, then scaled and shifted. Statistics of categories (CTR) are refused by name. Hashes of categories are
the library's own: which category has which is asked of it (`CatboostModel.with_categories`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.document import Page
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Cut, Forest, Summation
from bornfair.models.forest.links import SOFTMAX_SLACK, cut_of, sigmoid_in_float64
from bornfair.models.forest.planting import Planting
from bornfair.people.features import Value

LOSSES = ("Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll")
MOST_LEVELS = 16  # of a symmetric tree
NO_HASH = 2.0**40  # no category's: those are below 2^32


@dataclass(frozen=True, eq=False)
class CatboostModel:
    """What was read."""

    forest: Forest
    named: bool
    classes: tuple[Value, ...] | None
    categorical: tuple[int, ...]  # inputs that are categories
    bits: Mapping[int, Sequence[tuple[int, int, float]]]
    """Of such inputs: in which tree, at which bit of the leaf's number it is asked about which hash."""

    def with_categories(self, tables: Mapping[int, Sequence[tuple[Value, float]]]) -> Forest:
        """The forest with the hashes of categories, by input."""
        columns = [
            replace(column, table=tuple(tables[column.source])) if column.source in tables else column
            for column in self.forest.columns
        ]
        return replace(self.forest, columns=tuple(columns))


def catboost_model(document: dict[str, Any], origin: str) -> CatboostModel:
    """The forest of a document."""
    page = Page(document, origin)
    info = page.inside("model_info")
    loss = info.inside("params").inside("loss_function").text("type")
    if loss not in LOSSES:
        raise InputError(f"{origin} was trained for {loss[:40]!r}, which decides nothing; {shown(LOSSES)} can be read.")
    features = page.inside("features_info")
    for kind in ("text_features", "embedding_features"):
        if features.listed(kind):
            raise InputError(f"{origin} reads {kind.replace('_', ' ')}, which is not supported.")
    names, columns, numbers, categories = _inputs(features, origin)
    given = page.listed("scale_and_bias")
    if len(given) != 2:
        raise page.wrong("scale_and_bias")
    shift = given[1] if isinstance(given[1], list) else [given[1]]
    scale, *bias = Page({"scale_and_bias": [given[0], *shift]}, origin).numbers("scale_and_bias", np.float64).tolist()
    if not np.isfinite([scale, *bias]).all() or not bias:
        raise page.wrong("scale_and_bias")
    several = loss.startswith("Multi")
    outputs = len(bias)
    if (outputs > 1) != several:
        raise InputError(f"{origin}: {outputs} outputs do not fit its loss {loss[:40]!r}; is the file broken?")
    growing = _Growing(Planting(origin, outputs), numbers, categories)
    for tree in page.listed("oblivious_trees"):
        growing.symmetric(Page(tree, origin))
    for tree in page.listed("trees"):
        growing.branching(Page(tree, origin))
    # Its sums differ by a last place between its own ways to run a model, which are not documented.
    how = Summation("float64", tuple(bias), base_first=False, scale=scale, plain=False)
    forest = growing.planting.forest(names, columns, how, Cut())
    forest = replace(forest, cut=_cut(forest, loss, info, origin))
    named = not all(name == f"{i}" for i, name in enumerate(names))
    categorical = tuple(one.source for one in categories.values())
    parameters = info.fields.get("class_params")
    classes = parameters.get("class_names") if isinstance(parameters, dict) else None
    named_twice = isinstance(classes, list) and len(set(map(str, classes))) < len(classes)
    if not isinstance(classes, list) or len(classes) != max(outputs, 2) or named_twice:
        classes = []
    known = all(isinstance(name, (bool, int, float, str)) for name in classes)
    return CatboostModel(forest, named, tuple(classes) if classes and known else None, categorical, growing.bits)


class _Input(NamedTuple):
    source: int
    column: int
    missing_left: bool = True


def _inputs(features: Page, origin: str) -> tuple[list[str], list[SplitColumn], dict[int, _Input], dict[int, _Input]]:
    """Names by position, and what numbers and categories are by their own numbering."""
    named: dict[int, str] = {}
    columns: list[SplitColumn] = []
    found: list[dict[int, _Input]] = [{}, {}]
    for kind, inputs in zip(("float_features", "categorical_features"), found, strict=True):
        for given in features.listed(kind):
            one = Page(given, origin)
            place, own = one.whole("flat_feature_index"), one.whole("feature_index")
            if not 0 <= place < 1_000_000 or place in named or own in inputs:
                raise one.wrong("flat_feature_index")
            named[place] = str(one.fields.get("feature_id") or place)
            treatment = one.fields.get("nan_value_treatment", "AsIs")
            inputs[own] = _Input(place, len(columns), treatment != "AsTrue")
            columns.append(SplitColumn(place) if kind == "float_features" else SplitColumn(place, ()))
    if sorted(named) != list(range(len(named))) or len(set(named.values())) != len(named):
        raise InputError(f"{origin}: its features are not numbered one after the other, or two have one name.")
    return [named[i] for i in range(len(named))], columns, found[0], found[1]


class _Growing:
    """Trees from their questions."""

    def __init__(self, planting: Planting, numbers: dict[int, _Input], categories: dict[int, _Input]) -> None:
        self.planting, self.numbers, self.categories = planting, numbers, categories
        self.bits: dict[int, list[tuple[int, int, float]]] = {}
        self.trees = 0

    def split(self, given: Page, bit: int = -1) -> tuple[int, float, int, bool]:
        """A question: column, threshold, set of hashes (−1 for a number), whether missing goes left."""
        kind = given.text("split_type")
        if kind == "FloatFeature":
            one = self.numbers.get(given.whole("float_feature_index"))
            if one is None:
                raise given.wrong("float_feature_index")
            (border,) = Page({"border": [given.fields.get("border")]}, given.origin).numbers("border", np.float32)
            if not math.isfinite(border):
                raise given.wrong("border")
            return one.column, float(border), -1, one.missing_left
        if kind == "OneHotFeature":
            one = self.categories.get(given.whole("cat_feature_index"))
            if one is None:
                raise given.wrong("cat_feature_index")
            value = float(given.whole("value") % 2**32)
            if bit < 0:
                raise InputError(
                    f"{given.origin} asks about categories in trees that are not symmetric; not supported."
                )
            self.bits.setdefault(one.source, []).append((self.trees, bit, value))
            self.planting.sets.append(np.array([value]))
            return one.column, 0.0, len(self.planting.sets) - 1, False
        raise InputError(
            f"{given.origin} splits by {kind[:40]!r}, statistics of categories, which is not supported; train with a "
            "larger one_hot_max_size, or give categories as numbers."
        )

    def symmetric(self, tree: Page) -> None:
        questions = tree.listed("splits")
        depth, outputs = len(questions), self.planting.outputs
        if depth > MOST_LEVELS:
            raise self.planting.wrong(f"it has {depth} levels, and at most {MOST_LEVELS} can be read")
        values = tree.numbers("leaf_values", np.float64, outputs << depth).reshape(-1, outputs)
        asked = [self.split(Page(question, tree.origin), bit) for bit, question in enumerate(questions)]
        self.trees += 1
        if not depth:
            self.planting.add([0], [0.0], [-1], [-1], [False], values)
            return
        inner, leaves = (1 << depth) - 1, np.arange(1 << depth)  # a heap: the children of node i are 2i + 1 and 2i + 2
        level = np.floor(np.log2(np.arange(inner) + 1)).astype(np.int64)
        bits = sum((((leaves >> (depth - 1 - k)) & 1) << k for k in range(depth)), np.zeros(1 << depth, np.int64))
        column, threshold, members, missing = (np.array([a[i] for a in asked])[level] for i in range(4))
        no, yes, chosen = 2 * np.arange(inner) + 1, 2 * np.arange(inner) + 2, members >= 0
        ends = np.full(1 << depth, -1)
        self.planting.add(
            np.concatenate([column, ends]), np.concatenate([threshold, np.zeros(1 << depth)]),
            np.concatenate([np.where(chosen, yes, no), ends]), np.concatenate([np.where(chosen, no, yes), ends]),
            np.concatenate([missing.astype(bool), ends > 0]),
            np.concatenate([np.zeros((inner, outputs)), values[bits]]), np.concatenate([members, ends]),
        )  # fmt: skip

    def branching(self, tree: Page) -> None:
        columns, thresholds, missing, values = list[int](), list[float](), list[bool](), list[np.ndarray]()
        children = list[list[int]]()  # left, right
        waiting = [(tree, -1, 0)]
        self.trees += 1
        while waiting:
            page, parent, side = waiting.pop()
            here = len(columns)
            if parent >= 0:
                children[parent][side] = here
            column, threshold, to_left, value = -1, 0.0, False, np.zeros(self.planting.outputs)
            if "split" in page.fields:
                column, threshold, _, to_left = self.split(page.inside("split"))
                waiting += [(page.inside("right"), here, 1), (page.inside("left"), here, 0)]
            else:
                given = page.fields.get("value")
                single = Page({"value": given if isinstance(given, list) else [given]}, page.origin)
                value = single.numbers("value", np.float64, self.planting.outputs)
            columns.append(column)
            thresholds.append(threshold)
            missing.append(to_left)
            values.append(value)
            children.append([-1, -1])
        left, right = np.array(children).T
        self.planting.add(np.array(columns), np.array(thresholds), left, right, np.array(missing), np.stack(values))


def _cut(forest: Forest, loss: str, info: Page, origin: str) -> Cut:
    if loss.startswith("Multi"):  # it decides by the scores themselves
        return Cut(link="softmax" if loss == "MultiClass" else "none", slack=SOFTMAX_SLACK["float64"])
    given = info.fields.get("binclass_probability_threshold")
    if given is None:
        return Cut()
    try:
        share = float(given)
    except (TypeError, ValueError):
        share = math.nan
    if not 0 < share < 1:
        raise InputError(f"{origin}: its threshold {given!r} is no probability.")
    at, slack = cut_of(sigmoid_in_float64(), share, "float64")
    return Cut(at, slack)
