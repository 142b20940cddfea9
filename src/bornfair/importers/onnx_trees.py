"""Tree operators of ONNX: `TreeEnsembleClassifier`, `TreeEnsembleRegressor` and `TreeEnsemble`.

Their nodes are planted as they stand; every mode of comparing becomes number ≤ threshold or number in a set. Leaves are
added one tree after the other in the precision of what the operator is given, the base values last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import MOST_OUTPUTS, Cut, Forest, Link, Precision, Summation
from bornfair.models.forest.planting import Planting
from bornfair.people.features import Value

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
LINKS: dict[str, Link] = {"NONE": "none", "LOGISTIC": "sigmoid", "SOFTMAX": "softmax"}
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")  # as TreeEnsemble numbers them
Kind = Literal["classifier", "regressor"]


@dataclass(frozen=True, eq=False)
class OnnxTrees:
    """A node's forest over the columns that it is given."""

    forest: Forest
    kind: Kind
    classes: tuple[Value, ...] | None
    link: Link


class _Given:
    """The attributes of a node."""

    def __init__(self, attributes: Mapping[str, Any], origin: str) -> None:
        self.attributes, self.origin = attributes, origin

    def numbers(self, *names: str, kind: Any, count: int | None = None) -> np.ndarray:
        """The first of these that is there."""
        for name in names:
            if name in self.attributes and np.size(self.attributes[name]):
                try:
                    found = np.asarray(self.attributes[name]).ravel().astype(kind)
                except (ValueError, TypeError, OverflowError):
                    break
                if count is not None and len(found) != count:
                    raise InputError(f"{self.origin}: '{name}' has {len(found)} entries, not {count}.")
                return found
        if count is None or count == 0:
            return np.zeros(0, kind)
        raise InputError(f"{self.origin}: '{names[0]}' is missing, or holds no numbers; is the file broken?")


def classifier(attributes: Mapping[str, Any], origin: str, width: int, precision: Precision) -> OnnxTrees:
    given = _Given(attributes, origin)
    texts = attributes.get("classlabels_strings") or []
    classes = tuple(texts) or tuple(int(v) for v in given.numbers("classlabels_int64s", "classlabels_ints", kind=int))
    if len(classes) < 2 or len(set(classes)) != len(classes):
        raise InputError(f"{origin} has {len(set(classes))} classes; two or more can be read.")
    ids = given.numbers("class_ids", kind=np.int64)
    binary = len(classes) == 2 and len(np.unique(ids)) == 1
    if len(classes) == 2 and not binary:  # onnxruntime then decides by the sign of the second score
        raise InputError(f"{origin} gives two classes a score each, which is not supported; use one score.")
    weights = given.numbers("class_weights_as_tensor", "class_weights", kind=np.float64, count=len(ids))
    base = given.numbers("base_values_as_tensor", "base_values", kind=np.float64)
    if binary:
        ids, base = np.zeros_like(ids), base[-1:]
    forest = _planted(given, origin, width, 1 if binary else len(classes), "class", ids, weights, base, 1.0, precision)
    link = _link(str(attributes.get("post_transform", "NONE")), origin)
    positive = bool((weights >= 0).all()) and binary  # then one score is a share, and decides above ½
    link = "probability" if positive and link == "none" else link
    cut = Cut(0.5 if positive else 0.0, link=link)
    return OnnxTrees(replace(forest, cut=cut), "classifier", classes, link)


def regressor(attributes: Mapping[str, Any], origin: str, width: int, precision: Precision) -> OnnxTrees:
    given = _Given(attributes, origin)
    targets = int(attributes.get("n_targets", 1))
    ids = given.numbers("target_ids", kind=np.int64)
    weights = given.numbers("target_weights_as_tensor", "target_weights", kind=np.float64, count=len(ids))
    base = given.numbers("base_values_as_tensor", "base_values", kind=np.float64)
    how = str(attributes.get("aggregate_function", "SUM"))
    if how not in ("SUM", "AVERAGE"):
        raise InputError(f"{origin} joins its trees by {how}, which is not supported; SUM and AVERAGE can be read.")
    divisor = float(len(np.unique(given.numbers("nodes_treeids", kind=np.int64)))) if how == "AVERAGE" else 1.0
    forest = _planted(given, origin, width, targets, "target", ids, weights, base, divisor, precision)
    link = _link(str(attributes.get("post_transform", "NONE")), origin)
    return OnnxTrees(replace(forest, cut=Cut(link=link)), "regressor", None, link)


def ensemble(attributes: Mapping[str, Any], origin: str, width: int, precision: Precision) -> OnnxTrees:
    """`TreeEnsemble` (ai.onnx.ml 5), as the attributes of a regressor: leaves become nodes behind the splits."""
    given = _Given(attributes, origin)
    splits = np.asarray(attributes.get("nodes_splits", np.zeros(0)))
    count = len(splits)
    modes = given.numbers("nodes_modes", kind=np.int64, count=count)
    if ((modes < 0) | (modes > 6)).any():
        raise InputError(f"{origin}: 'nodes_modes' holds an unknown mode; is the file broken?")
    targets = given.numbers("leaf_targetids", kind=np.int64)
    weights = np.asarray(attributes.get("leaf_weights", np.zeros(0)))
    leaves, roots = len(targets), given.numbers("tree_roots", kind=np.int64)
    children = {}
    for side in ("true", "false"):
        ids = given.numbers(f"nodes_{side}nodeids", kind=np.int64, count=count)
        ends = given.numbers(f"nodes_{side}leafs", kind=np.int64, count=count)
        most = np.where(ends > 0, leaves, count)
        if ((ids < 0) | (ids >= most)).any():
            raise InputError(f"{origin}: a split has a child that is not there; is the file broken?")
        children[side] = np.where(ends > 0, count + ids, ids)
    tree = _tree_numbers(roots, children["true"], children["false"], count, leaves, origin)
    used = np.flatnonzero(tree >= 0)
    tracks = given.numbers("nodes_missing_value_tracks_true", kind=np.int64)
    padded, feature = np.zeros(leaves, np.int64), given.numbers("nodes_featureids", kind=np.int64, count=count)
    joined, shaped = int(attributes.get("aggregate_function", 1)), int(attributes.get("post_transform", 0))
    made: dict[str, Any] = {
        "nodes_treeids": tree[used],
        "nodes_nodeids": used,
        "nodes_modes": [MODES[m] for m in [*modes.tolist(), *[7] * leaves]],
        "nodes_values_as_tensor": np.concatenate([splits, np.zeros(leaves, splits.dtype)])[used],
        "nodes_featureids": np.concatenate([feature, padded])[used],
        "nodes_truenodeids": np.concatenate([children["true"], padded])[used],
        "nodes_falsenodeids": np.concatenate([children["false"], padded])[used],
        "nodes_missing_value_tracks_true": (
            np.concatenate([tracks, padded])[used] if len(tracks) == count else np.zeros(0, np.int64)
        ),
        "target_treeids": tree[count:][tree[count:] >= 0],
        "target_nodeids": np.arange(count, count + leaves)[tree[count:] >= 0],
        "target_ids": targets[tree[count:] >= 0],
        "target_weights_as_tensor": weights[tree[count:] >= 0] if len(weights) == leaves else np.zeros(0),
        "n_targets": attributes.get("n_targets", 1),
        "aggregate_function": {0: "AVERAGE", 1: "SUM"}.get(joined, "MIN or MAX"),
        "post_transform": dict(enumerate(TRANSFORMS)).get(shaped, "something unknown"),
    }
    made["nodes_modes"] = [made["nodes_modes"][i] for i in used]
    return regressor(made, origin, width, precision)


def _tree_numbers(
    roots: np.ndarray, yes: np.ndarray, no: np.ndarray, count: int, leaves: int, origin: str
) -> np.ndarray:
    """The tree of each node, −1 where none reaches it."""
    if not len(roots) or ((roots < 0) | (roots >= count)).any():
        raise InputError(f"{origin}: a tree begins at a node that is not there; is the file broken?")
    tree = np.full(count + leaves, -1)
    at, mine = roots, np.arange(len(roots))
    while len(at):
        if (tree[at] >= 0).any() or len(np.unique(at)) < len(at):
            raise InputError(f"{origin}: a node is reached in two ways, so that it is no tree; is the file broken?")
        tree[at] = mine
        inner = at < count
        at, mine = (
            np.concatenate([yes[at[inner]], no[at[inner]]]),
            np.concatenate([mine[inner], mine[inner]]),
        )
    return tree


def _link(name: str, origin: str) -> Link:
    if name not in LINKS:
        raise InputError(f"{origin} ends in {name}, which is not supported; {', '.join(LINKS)} can be read.")
    return LINKS[name]


def _planted(
    given: _Given, origin: str, width: int, outputs: int, what: str, ids: np.ndarray, weights: np.ndarray,
    base: np.ndarray, divisor: float, precision: Precision,
) -> Forest:  # fmt: skip
    """The nodes, found by the numbers of tree and node; leaves may have several values."""
    trees = given.numbers("nodes_treeids", kind=np.int64)
    count = len(trees)
    if not count or not 0 < outputs <= MOST_OUTPUTS:
        raise InputError(f"{origin} has {count} nodes and {outputs} outputs, which cannot be read.")
    nodes = given.numbers("nodes_nodeids", kind=np.int64, count=count)
    order = {tree: i for i, tree in enumerate(dict.fromkeys(trees.tolist()))}
    rank = np.array([order[tree] for tree in trees.tolist()])
    by_name = np.lexsort((nodes, rank))
    keys = rank[by_name] * (1 << 40) + nodes[by_name]
    if (nodes < 0).any() or (nodes >= 1 << 40).any() or (np.diff(keys) == 0).any():
        raise InputError(f"{origin}: two nodes have one number, or a number is below 0; is the file broken?")
    modes = [str(mode) for mode in given.attributes.get("nodes_modes", [])]
    if len(modes) != count or not set(modes) <= set(MODES):
        raise InputError(f"{origin}: 'nodes_modes' has {len(modes)} entries for {count} nodes, or unknown ones.")
    mode = np.array([MODES.index(m) for m in modes])
    leaf = mode == MODES.index("LEAF")
    tracks = given.numbers("nodes_missing_value_tracks_true", kind=np.int64)
    tracks = tracks.astype(bool) if len(tracks) == count else np.zeros(count, bool)
    threshold = given.numbers("nodes_values_as_tensor", "nodes_values", kind=np.float64, count=count)
    feature = given.numbers("nodes_featureids", kind=np.int64, count=count)
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        wanted = rank * (1 << 40) + given.numbers(name, kind=np.int64, count=count)
        place = np.minimum(np.searchsorted(keys, wanted), count - 1)
        if (keys[place] != wanted)[~leaf].any():
            raise InputError(f"{origin}: a split has a child that is not there; is the file broken?")
        children.append(by_name[place])
    owners = given.numbers(f"{what}_treeids", kind=np.int64, count=len(ids))
    holders = given.numbers(f"{what}_nodeids", kind=np.int64, count=len(ids))
    wanted = np.array([order.get(tree, -1) for tree in owners.tolist()]) * (1 << 40) + holders
    place = np.minimum(np.searchsorted(keys, wanted), count - 1)
    if len(ids) and ((keys[place] != wanted).any() or (ids < 0).any() or (ids >= outputs).any()):
        raise InputError(f"{origin}: a leaf's value belongs to no leaf or class; is the file broken?")
    values = np.zeros((count, outputs))
    values[by_name[place], ids] = weights.astype(precision)
    if (mode == MODES.index("BRANCH_MEMBER")).any():
        raise InputError(f"{origin} splits by BRANCH_MEMBER, which is not supported.")
    planting, kind = Planting(origin, outputs), np.dtype(precision).type
    # Every mode becomes number ≤ threshold or number in a set; of some, the children change places.
    with np.errstate(over="ignore"):
        before = np.nextafter(threshold.astype(kind), kind(-np.inf)).astype(np.float64)
    chosen, turned = np.isin(mode, (4, 5)), np.isin(mode, (2, 3, 5))
    members = np.full(count, -1)
    numbers, places = np.unique(threshold[chosen], return_inverse=True)
    members[chosen] = places
    planting.sets.extend(np.array([number]) for number in numbers)
    threshold = np.where(chosen, 0.0, np.where(np.isin(mode, (1, 2)), before, threshold))
    left, right = np.where(turned, children[::-1], children)
    missing_left = (tracks | (mode == 5)) ^ turned  # NaN is in no relation but ≠: it goes the false way unless tracked
    for tree in range(len(order)):
        mine = np.flatnonzero(rank == tree)
        inner = mine[~leaf[mine]]
        if ((feature[inner] < 0) | (feature[inner] >= width)).any():
            raise InputError(f"{origin}: a split reads a column that is not among the {width}; is the file broken?")
        if mine[0] in np.concatenate([left[inner], right[inner]]):  # the root is the node that is listed first
            raise planting.wrong("its first node is the child of another, so that it has no root")
        new = dict(zip(mine.tolist(), range(len(mine)), strict=True))
        yes, no = (np.array([-1 if leaf[i] else new[int(side[i])] for i in mine]) for side in (left, right))
        planting.add(
            np.where(leaf[mine], -1, feature[mine]), threshold[mine], yes, no, missing_left[mine], values[mine],
            members[mine],
        )  # fmt: skip
    columns = [SplitColumn(i, ((precision, 0.0),)) for i in range(width)]
    start = np.zeros(outputs)
    start[: min(len(base), outputs)] = base[:outputs]
    how = Summation(
        precision, tuple(start.astype(kind).astype(np.float64).tolist()), base_first=False, divisor=divisor,
        in_order=len(order) == 1,  # onnxruntime shares out the trees of a person who is asked about alone
    )  # fmt: skip
    return planting.forest([f"column {i}" for i in range(width)], columns, how, Cut())
