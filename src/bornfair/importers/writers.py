"""Files for LightGBM and XGBoost with some of a model's trees exchanged.

Trees that stay are copied letter for letter. The others are written with their splits and leaves, and without training
statistics: gains are 0, and covers count leaves. Additional trees come last; in XGBoost they form one round. The
weights of dropped trees (DART) are multiplied into the leaves, and trees after the best iteration are left out: all
trees of the written model decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bornfair.core.errors import InputError
from bornfair.importers.document import read_ubjson
from bornfair.importers.lightgbm_file import CATEGORICAL, DEFAULT_LEFT, STEPS
from bornfair.models.forest.forest import Forest
from bornfair.models.forest.model import Native


class PlantedTree:
    """The nodes of one tree of a forest, numbered from 0 at its root."""

    def __init__(self, forest: Forest, tree: int) -> None:
        end = forest.roots[tree + 1] if tree + 1 < forest.trees else forest.nodes
        nodes = np.arange(forest.roots[tree], end)
        inner = forest.column[nodes] >= 0
        source = np.array([column.source for column in forest.columns])
        self.forest, self.nodes, self.inner = forest, nodes, inner
        self.left, self.right = (np.where(inner, side[nodes] - nodes[0], -1) for side in (forest.left, forest.right))
        self.sources = np.where(inner, source[np.maximum(forest.column[nodes], 0)], 0)  # inputs of splits, 0 at leaves
        self.values = np.zeros((len(nodes), forest.outputs))  # 0 at splits
        self.values[~inner] = forest.values[forest.leaf[nodes[~inner]]]
        used = np.flatnonzero((self.values != 0).any(axis=0))
        self.output = int(used[0]) if len(used) else 0  # the output that the leaves add to; 0 if there is none
        self.covers = np.ones(len(nodes), np.int64)  # number of leaves below each node, itself included
        for node in reversed(range(len(nodes))):  # children come after their parents
            if inner[node]:
                self.covers[node] = self.covers[self.left[node]] + self.covers[self.right[node]]


# --- LightGBM ---

MARK = "\nTree="
END = "end of trees"


def lightgbm_text(native: Native, forest: Forest, origin: Sequence[int], replaced: Sequence[int]) -> bytes:
    """The text of a forest whose trees come from those of the native file (`Mean.origin`, `Mean.replaced`)."""
    head, *parts = native.content.decode().split(MARK)
    parts[-1], end, rest = parts[-1].partition(END)
    used, changed = len(parts), set(replaced)
    blocks = []
    for place in range(len(origin)):
        if place < used and place not in changed:
            blocks.append(f"Tree={parts[place]}" + "\n" * (place < used - 1))
        else:
            blocks.append(_lightgbm_tree(PlantedTree(forest, place), place))
    sizes = " ".join(str(len(block.encode())) for block in blocks)
    lines = [f"tree_sizes={sizes}" if line.startswith("tree_sizes=") else line for line in head.split("\n")]
    return ("\n".join(lines) + "\n" + "".join(blocks) + end + rest).encode()


def takes_mean(native: Native | None) -> bool:
    """Whether LightGBM divides the sum of trees by their number (boosting "rf"), so that no tree may be added."""
    if native is None or native.suffix != ".txt":
        return False
    head = native.content.decode().partition(MARK)[0]
    return "average_output" in (line.strip() for line in head.splitlines())


def _lightgbm_tree(planted: PlantedTree, place: int) -> str:
    forest, inner = planted.forest, planted.inner
    splits = np.flatnonzero(inner)
    number = np.zeros(len(inner), np.int64)  # of splits from 0 upwards, of leaves from −1 downwards
    number[splits] = np.arange(len(splits))
    number[~inner] = -1 - np.arange(len(inner) - len(splits))
    nodes = planted.nodes[splits]
    chosen = forest.members[nodes] >= 0
    ways = {steps: way for way, steps in STEPS.items()}
    missing = np.array([ways[forest.columns[column].steps] for column in forest.column[nodes]], np.int64)
    kinds = np.where(
        chosen, CATEGORICAL, (np.maximum(missing, 0) << 2) | np.where(forest.missing_left[nodes], DEFAULT_LEFT, 0)
    )
    words = [_words(forest.sets[forest.members[node]]) for node in nodes[chosen]]
    threshold: list[Any] = forest.threshold[nodes].tolist()
    for count, at in enumerate(np.flatnonzero(chosen)):
        threshold[at] = count
    values, covers = planted.values[:, planted.output], planted.covers
    leaves = np.flatnonzero(~inner)
    alone = not len(splits)
    lines: dict[str, Iterable[Any]] = {
        "num_leaves": [len(leaves)],
        "num_cat": [len(words)],
        "split_feature": planted.sources[splits],
        "split_gain": [0] * len(splits),
        "threshold": threshold,
        "decision_type": kinds,
        "left_child": number[planted.left[splits]],
        "right_child": number[planted.right[splits]],
        "leaf_value": values[leaves].tolist(),
        "leaf_weight": [] if alone else [1] * len(leaves),
        "leaf_count": [] if alone else [1] * len(leaves),
        "internal_value": [0] * len(splits),
        "internal_weight": covers[splits],
        "internal_count": covers[splits],
    }
    if words:
        bounds = np.cumsum([0, *map(len, words)])
        lines |= {"cat_boundaries": bounds, "cat_threshold": [word for several in words for word in several]}
    lines |= {"is_linear": [0], "shrinkage": [1]}
    written = "\n".join(f"{name}={' '.join(map(_number, items))}" for name, items in lines.items())
    return f"Tree={place}\n{written}\n\n\n"


def _words(members: np.ndarray) -> list[int]:
    """Categories as bits of words of 32."""
    found = [0] * (int(members.max(initial=0)) // 32 + 1)
    for member in members.astype(np.int64).tolist():
        found[member // 32] |= 1 << (member % 32)
    return found


def _number(value: Any) -> str:
    return repr(float(value)) if isinstance(value, float) else str(int(value))


# --- XGBoost ---

NO_PARENT = 2_147_483_647
BEST = ("best_iteration", "best_score", "best_ntree_limit")


class _Literal(str):
    """A number just as it stood in the document."""


def xgboost_json(
    native: Native, forest: Forest, origin: Sequence[int], replaced: Sequence[int], *, rebased: bool
) -> bytes:
    """The document of a forest whose trees come from those of the native file.

    origin, replaced: as in `bornfair.questions.repairing.means.Mean`.
    rebased: whether it has another base (`held_base`).
    """
    document = _document(native)
    learner = document["learner"]
    booster = learner["gradient_booster"]
    scaled = booster["name"] == "dart"
    if scaled:
        booster = booster["gbtree"] | {"name": "gbtree"}
        learner["gradient_booster"] = booster
    model = booster["model"]
    if "weight_drop" in model:  # where newer versions keep the weights of dropped trees
        scaled = scaled or len(model["weight_drop"]) > 0
        model["weight_drop"] = []
    trees, info = model["trees"], [int(output) for output in model["tree_info"]]
    if any(int(tree["tree_param"].get("size_leaf_vector", 1)) > 1 for tree in trees):
        raise InputError(
            "the leaves of this XGBoost model hold a value for each class (multi_output_tree), which cannot be written "
            "in its own format; its bundle holds it as ONNX."
        )
    used = max(origin) + 1
    changed = set(range(used)) if scaled else set(replaced)
    made = []
    for place, old in enumerate(origin):
        if place < used and place not in changed:
            made.append(trees[place])
            continue
        made.append(
            _xgboost_tree(PlantedTree(forest, place), place, trees[max(old, 0)], info[old] if old >= 0 else None)
        )
    outputs = [info[old] if old >= 0 else place % forest.outputs for place, old in enumerate(origin)]
    each = max(int(model["gbtree_model_param"].get("num_parallel_tree", 1)), 1) * forest.outputs
    ends = [int(end) for end in model.get("iteration_indptr", range(0, used + 1, each)) if int(end) <= used]
    model |= {"trees": made, "tree_info": outputs}
    if "iteration_indptr" in model or len(origin) > used:
        model["iteration_indptr"] = ends + [len(origin)] * (len(origin) > used)
    model["gbtree_model_param"]["num_trees"] = str(len(origin))
    attributes = learner.get("attributes")
    if isinstance(attributes, dict):
        learner["attributes"] = {name: value for name, value in attributes.items() if name not in BEST}
    if rebased:
        _set_base(learner, forest.summation.base)
    return _written(document).encode()


def held_base(native: Native, base: Sequence[float]) -> tuple[float, ...]:
    """The base margins nearest to these that the document can hold, as the library reads them."""
    if not _is_probability(_document(native)["learner"]):
        return tuple(float(np.float32(margin)) for margin in base)
    odds = np.float32(1) / _share(base[0]) - np.float32(1)
    return (float(np.float32(-np.log(np.float64(odds)))),)


def _document(native: Native) -> dict[str, Any]:
    if native.suffix == ".ubj":
        return read_ubjson(native.content, "the model")
    return json.loads(native.content, parse_float=_Literal, parse_int=_Literal, parse_constant=_Literal)


def _xgboost_tree(planted: PlantedTree, place: int, like: dict[str, Any], output: int | None) -> dict[str, Any]:
    forest, count = planted.forest, len(planted.nodes)
    chosen = forest.members[planted.nodes] >= 0
    left, right = planted.left, planted.right
    left, right = np.where(chosen, right, left), np.where(chosen, left, right)  # of a set, the members go right
    order = _siblings_together(left, right)
    place_of = np.zeros(count + 1, np.int64)
    place_of[order] = np.arange(count)
    place_of[-1] = -1
    left, right = place_of[left[order]], place_of[right[order]]
    nodes, inner, chosen = planted.nodes[order], planted.inner[order], chosen[order]
    parents = np.full(count, NO_PARENT)
    parents[left[inner]] = parents[right[inner]] = np.flatnonzero(inner)
    values = planted.values[order]
    leaf = values[:, planted.output if output is None else output].astype(np.float32)
    threshold = forest.threshold[nodes].astype(np.float32)
    with np.errstate(over="ignore"):
        condition = np.nextafter(threshold, np.float32(np.inf))  # x ≤ t, as x < the number after it
    condition = np.where(chosen, np.float32(0), np.where(inner, condition, leaf)).astype(np.float32)
    sets = [forest.sets[forest.members[node]].astype(np.int64) for node in nodes[chosen]]
    sizes = np.array([len(members) for members in sets], np.int64)
    found: dict[str, Any] = {
        "base_weights": np.where(inner, np.float32(0), leaf).astype(np.float32),
        "categories": np.concatenate([np.zeros(0, np.int64), *sets]),
        "categories_nodes": np.flatnonzero(chosen),
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
        "default_left": (forest.missing_left[nodes] ^ chosen).astype(np.int64) * inner,
        "id": place,
        "left_children": left,
        "loss_changes": np.zeros(count, np.float32),
        "parents": parents,
        "right_children": right,
        "split_conditions": condition,
        "split_indices": planted.sources[order],
        "split_type": chosen.astype(np.int64),
        "sum_hessian": planted.covers[order].astype(np.float32),
        "tree_param": like["tree_param"] | {"num_nodes": str(count), "num_deleted": "0"},
    }
    return {name: found[name] for name in like if name in found} | found


def _siblings_together(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The nodes in an order in which a right child stands just behind its left one, where the library looks for it."""
    found, at = [0], 0
    while at < len(found):
        if left[found[at]] >= 0:
            found += [int(left[found[at]]), int(right[found[at]])]
        at += 1
    return np.array(found)


# --- the base score ---


def _is_probability(learner: dict[str, Any]) -> bool:
    return learner["objective"]["name"] in ("binary:logistic", "reg:logistic")


def _share(margin: float) -> np.float32:
    return np.float32(1 / (1 + np.exp(-np.float64(margin))))


def _set_base(learner: dict[str, Any], base: Sequence[float]) -> None:
    """In the form that the base score had: newer files list one for each output."""
    new = [_share(base[0])] if _is_probability(learner) else [np.float32(margin) for margin in base]
    parameters = learner["learner_model_param"]
    listed = ",".join(str(number) for number in new)
    bracketed = str(parameters["base_score"]).startswith("[") or len(new) > 1
    parameters["base_score"] = f"[{listed}]" if bracketed else listed


# --- text ---


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{_written(name)}:{_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, np.ndarray):
        whole = value.dtype.kind in "biu"
        numbers = value.astype(np.int64) if whole else value.astype(np.float32)
        return "[" + ",".join(map(str, numbers.tolist() if whole else numbers)) + "]"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(np.float32(value)) if isinstance(value, float) else json.dumps(value)
