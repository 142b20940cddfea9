"""LightGBM models, read from their own text without the library.

Numbers are float64: a row goes left where x ≤ threshold, or where its category is in the split's set. What is missing
depends on the split: NaN, NaN and zero, or nothing (NaN is then 0). Leaves are added one tree after the other, in
float64; what is nearer to zero than 1e-35 is taken for zero.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.columns import ZERO, SplitColumn, Step
from bornfair.models.forest.forest import MOST_OUTPUTS, Cut, Forest, Summation
from bornfair.models.forest.links import SOFTMAX_SLACK, cut_of, sigmoid_in_float64
from bornfair.models.forest.planting import Planting
from bornfair.people.features import Value

OBJECTIVES = ("binary", "cross_entropy", "multiclass", "multiclassova")
CATEGORICAL, DEFAULT_LEFT = 1, 2  # bits of a split's decision type; the two above say what is missing
NONE, ZERO_TOO, NAN = range(3)
STEPS: dict[int, tuple[Step, ...]] = {
    NONE: (("tiny to zero", ZERO), ("missing is", 0.0)),
    ZERO_TOO: (("zero is missing", ZERO),),
    NAN: (("tiny to zero", ZERO),),
    -1: (("tiny to zero", ZERO), ("towards zero", 0.0)),  # a category's code
}


@dataclass(eq=False)
class _Columns:
    """A column for each feature and way of missing that some split has."""

    tables: list[tuple[tuple[Value, float], ...] | None]
    made: list[SplitColumn] = field(default_factory=list)
    places: dict[tuple[int, int], int] = field(default_factory=dict)

    def place(self, feature: int, missing: int) -> int:
        key = feature, missing
        if key not in self.places:
            self.places[key] = len(self.made)
            self.made.append(SplitColumn(feature, STEPS[missing], self.tables[feature], other=math.nan))
        return self.places[key]


def lightgbm_model(text: str, origin: str) -> tuple[Forest, bool]:
    """The forest of a model's text, and whether the text names its features."""
    head, *parts = text.split("\nTree=")
    if not head.lstrip().startswith("tree"):
        raise InputError(f"{origin} is not the text of a LightGBM model: it does not begin with 'tree'.")
    page = _Page(head.splitlines(), origin)
    last, _, rest = parts[-1].partition("end of trees") if parts else ("", "", "")
    if not parts or "end of trees" not in parts[-1]:
        raise InputError(f"{origin} ends before its trees do; is it truncated?")
    parts[-1] = last
    objective = page.fields.get("objective", "").split()
    name = objective[0] if objective else "none"
    if name not in OBJECTIVES:
        raise InputError(
            f"{origin} was trained for {name[:40]!r}, which decides nothing that it says; {shown(OBJECTIVES)} can be "
            "read."
        )
    each, features = page.whole("num_tree_per_iteration"), page.whole("max_feature_idx") + 1
    if each != page.whole("num_class") or not 0 < each <= MOST_OUTPUTS or (each > 1) != name.startswith("multiclass"):
        raise InputError(f"{origin}: {each} trees of an iteration do not fit the objective {name[:40]!r}.")
    sizes = page.fields.get("tree_sizes", "").split()
    if len(sizes) != len(parts) or len(parts) % each:
        raise InputError(f"{origin} has {len(parts)} trees, but says {len(sizes)}; is it truncated?")
    names = tuple(page.fields.get("feature_names", "").split())
    if len(names) != features or not 0 < features <= 1_000_000 or len(set(names)) != features:
        raise InputError(f"{origin} takes {features} features, but names {len(set(names))} different ones.")
    columns, planting = _Columns(_tables(page, rest, features)), Planting(origin, each)
    for feature, table in enumerate(columns.tables):
        if table is not None:  # also where no split reads it: what it is given are codes
            columns.place(feature, -1)
    for number, part in enumerate(parts):
        _plant(planting, _Page(part.splitlines()[1:], f"{origin}: tree {number}"), number % each, features, columns)
    divisor = float(len(parts) // each) if "average_output" in page.bare else 1.0
    how = Summation("float64", (0.0,) * each, divisor=divisor)
    forest = planting.forest(names, columns.made, how, Cut())
    forest = replace(forest, cut=_cut(forest, name, objective[1:], origin))
    return forest, any(name != f"Column_{i}" for i, name in enumerate(names))


def _cut(forest: Forest, objective: str, options: Sequence[str], origin: str) -> Cut:
    if objective == "multiclass":
        return Cut(link="softmax", slack=SOFTMAX_SLACK["float64"])
    pairs = (option.partition(":") for option in options)
    given = next((value for key, _, value in pairs if key == "sigmoid"), "1")
    try:
        slope = float(given) if objective != "cross_entropy" else 1.0
    except ValueError:
        slope = math.nan
    if not 0 < slope < 1e6:
        raise InputError(f"{origin}: the sigmoid {given!r} of its objective is no number above 0.")
    if objective == "multiclassova":  # sigmoids of large scores are equal sooner than the scores
        largest = float(forest.magnitudes.max()) / forest.summation.divisor * slope
        slack = 2.0**-49 * math.exp(min(largest, 500.0)) / slope
        return Cut(link="none", slack=slack, slope=slope)
    at, slack = cut_of(sigmoid_in_float64(slope), 0.5, "float64")
    return Cut(at, slack, slope=slope)


# --- trees ---


def _plant(planting: Planting, tree: _Page, output: int, features: int, columns: _Columns) -> None:
    leaves = tree.whole("num_leaves")
    if tree.fields.get("is_linear", "0").strip() not in ("0", ""):
        raise InputError(f"{tree.origin} has linear models in its leaves (linear_tree), which is not supported.")
    if not 0 < leaves <= 1 << 24:
        raise planting.wrong(f"it says it has {leaves} leaves")
    values = np.zeros((2 * leaves - 1, planting.outputs))
    values[leaves - 1 :, output] = tree.numbers("leaf_value", np.float64, leaves)
    splits = leaves - 1
    if not splits:
        planting.add([0], [0.0], [-1], [-1], [False], values)
        return
    feature = tree.numbers("split_feature", np.int64, splits)
    threshold = tree.numbers("threshold", np.float64, splits)
    kinds = tree.numbers("decision_type", np.int64, splits)
    children = np.stack([tree.numbers(f"{side}_child", np.int64, splits) for side in ("left", "right")])
    if ((children >= splits) | (children < -splits - 1)).any():
        raise planting.wrong("a split has a child that is not there")
    # Leaves are numbered from −1 downwards; here they come after the splits.
    left, right = np.where(children >= 0, children, splits - 1 - children)
    if ((feature < 0) | (feature >= features)).any():
        raise planting.wrong(f"a split reads a feature that is not among the {features}")
    chosen, missing = (kinds & CATEGORICAL) > 0, (kinds >> 2) & 3
    if ((kinds < 0) | (kinds > 15) | (missing == 3)).any():
        raise planting.wrong("a split is of an unknown kind")
    members = np.full(splits, -1)
    if chosen.any():
        members[chosen] = _sets(planting, tree, threshold[chosen])
    ways = np.where(chosen, -1, missing)
    column = np.array([columns.place(int(f), int(m)) for f, m in zip(feature, ways, strict=True)])
    ends, none = np.full(leaves, -1), np.zeros(leaves)
    planting.add(
        np.concatenate([column, ends]),
        np.concatenate([np.where(chosen, 0.0, threshold), none]),
        np.concatenate([left, ends]),
        np.concatenate([right, ends]),
        np.concatenate([((kinds & DEFAULT_LEFT) > 0) & ~chosen, none > 0]),  # a missing category goes right
        values,
        np.concatenate([members, ends]),
    )


def _sets(planting: Planting, tree: _Page, which: np.ndarray) -> np.ndarray:
    """The categories of each split, from the bits of words of 32."""
    count = tree.whole("num_cat")
    if count < 1:
        raise planting.wrong("a split names a set of categories that is not there")
    bounds = tree.numbers("cat_boundaries", np.int64, count + 1)
    words = tree.numbers("cat_threshold", np.int64)
    wrong = bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > len(words)
    places = which.astype(np.int64)
    if wrong or (places != which).any() or (places < 0).any() or (places >= count).any():
        raise planting.wrong("a split names a set of categories that is not there")
    if ((words < 0) | (words >= 1 << 32)).any():
        raise planting.wrong("its sets of categories are not words of 32 bits")
    start = len(planting.sets)
    for place in range(count):
        bits = (words[bounds[place] : bounds[place + 1], None] >> np.arange(32)) & 1
        planting.sets.append(np.flatnonzero(bits.ravel()).astype(np.float64))
    return start + places


# --- what stands beside the trees ---


def _tables(page: _Page, rest: str, features: int) -> list[tuple[tuple[Value, float], ...] | None]:
    """The codes of categories, where the model was trained on a data frame that had them."""
    tables: list[Any] = [None] * features
    line = next((line for line in reversed(rest.splitlines()) if line.startswith("pandas_categorical:")), "")
    try:
        lists = json.loads(line.partition(":")[2] or "null")
    except (ValueError, RecursionError):
        raise InputError(f"{page.origin}: its list of categories (pandas_categorical) cannot be read.") from None
    if not lists:
        return tables
    fits = isinstance(lists, list) and all(
        isinstance(part, list) and all(isinstance(value, (bool, int, float, str)) for value in part) for part in lists
    )
    if not fits:
        raise InputError(f"{page.origin}: its list of categories (pandas_categorical) cannot be read.")
    infos = page.fields.get("feature_infos", "").split()
    told = next((line for line in rest.splitlines() if line.startswith("[categorical_feature:")), "")
    listed = [int(word) for word in told[21:].strip(" ]").split(",") if word.strip().isdigit()]
    if len(listed) != len(lists):
        listed = [i for i, info in enumerate(infos) if not info.startswith("[") and info != "none"]
    if len(listed) != len(lists) or any(i >= features for i in listed):
        raise InputError(
            f"{page.origin} lists the categories of {len(lists)} columns, but {len(listed)} of its features have any."
        )
    for i, categories in zip(listed, lists, strict=True):
        tables[i] = tuple((value, float(code)) for code, value in enumerate(categories))
    return tables


class _Page:
    """Lines name=value, and lines of a name alone."""

    def __init__(self, lines: Iterable[str], origin: str) -> None:
        self.origin = origin
        self.fields: dict[str, str] = {}
        self.bare: set[str] = set()
        for line in lines:
            name, sign, value = line.partition("=")
            if sign:
                self.fields.setdefault(name.strip(), value)
            elif name.strip():
                self.bare.add(name.strip())

    def whole(self, name: str) -> int:
        text = self.fields.get(name, "").strip()
        if not text.lstrip("-").isdigit() or len(text) > 12:
            raise InputError(f"{self.origin}: '{name}' is {text[:40]!r}, not a whole number; is the file broken?")
        return int(text)

    def numbers(self, name: str, kind: Any, count: int | None = None) -> np.ndarray:
        words = self.fields.get(name, "").split()
        if count is not None and len(words) != count:
            raise InputError(f"{self.origin}: '{name}' has {len(words)} entries, not {count}; is the file broken?")
        try:
            return np.array([float(w) for w in words] if kind == np.float64 else [int(w) for w in words], dtype=kind)
        except (ValueError, OverflowError):
            raise InputError(f"{self.origin}: '{name}' holds what is no number; is the file broken?") from None
