"""Forests as ONNX graphs: raw columns in, label and probabilities out, like a network's.

Numbers are given as double (NaN where one is missing), true/false as bool, categories as string (int64 if all of them
are whole numbers; the empty text is a missing one). A category, and a whole number of which a split picks some out of
their order, becomes a row of a table, with a column for each set of levels that splits ask about. All columns go side
by side into one TreeEnsemble of ai.onnx.ml 5, in float64: comparisons are exact, sums are of float64, whatever the
original added in. `bornfair.proof.checker` reads the graph back.

Some versions of onnxruntime misread a set of members in a split, a tree of one leaf, and a split whose one side is a
leaf with the number of the split on its other side. None of these is written, nor accepted by the checker.

    score = (Σ leaves + base) / divisor · scale + base          what is 1 or 0 is left out
    decision: score > at; of several outputs, the first largest of score − offset
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.graph_draft import BOOL, DOUBLE, FLOAT, STRING, GraphDraft, as_text, input_type
from bornfair.people.features import NUMERIC, Feature, known_levels

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

OPSET, TREES_OPSET, IR = 21, 5, 10
METADATA = "bornfair.forest"
MOST_LISTED = 1_000  # whole numbers that are looked up one by one
MOST_ENTRIES = 2**20  # levels times sets of one category
LEQ = 0  # the mode of a split: left goes who is at most the threshold

Ways = tuple[bool, ...]  # whether a split sends each level left, then who has none, then any other value


def forest_bytes(model: ForestModel, *, sensitive: bool = True) -> bytes:
    """The model as an ONNX file. Without `sensitive` columns only if no split reads them."""
    if not sensitive and not model.ignores_sensitive:
        raise InputError(
            f"splits of this forest read {shown(model.domain.sensitive)}, so it cannot be exported without; repair it, "
            "or export it with its sensitive columns."
        )
    if not sensitive and not model.domain.free_features:
        raise InputError("every feature of this model is sensitive; without them there is nothing to decide from.")
    return _Graph(model, sensitive).build()


class _Graph(GraphDraft):
    def __init__(self, model: ForestModel, sensitive: bool) -> None:
        super().__init__(model.domain, sensitive)
        self.model, self.served = model, _Served(model)

    def build(self) -> bytes:
        raw = self.node("Concat", [self._columns(columns) for columns in self.served.columns], "raw", axis=1)
        scores = self._scores(self._trees(raw))
        label, shares = self._label(scores), self._probabilities(scores)
        listed = {columns.feature.name for columns in self.served.columns if columns.sets is not None}
        classes = self.model.forest.classes
        graph = self.graph(label, shares, classes, lambda feature: input_type(feature, whole=feature.name in listed))
        versions = {"": OPSET, "ai.onnx.ml": TREES_OPSET}
        return self.finished(graph, versions, IR, {METADATA: {"operating": dict(self.model.operating)}})

    def _columns(self, columns: ServedColumns) -> str:
        """A raw column as double, or the columns of its sets."""
        feature = columns.feature
        kind = input_type(feature, whole=columns.sets is not None)
        if kind == DOUBLE:
            return feature.name
        if kind == BOOL:
            return self.node("Cast", [feature.name], f"number {feature.name}", to=DOUBLE)
        levels = list(known_levels(feature))
        if feature.missing and "" in levels:
            raise InputError(
                f"'{feature.name}' has the empty text for a category and may be missing, which a served model is told "
                "by an empty text; rename that category."
            )
        places, known = list(range(len(levels))), dict[str, Any](keys_int64s=levels)
        if kind == STRING:
            texts = as_text(levels, feature.name)
            known = {"keys_strings": texts + [""] * ("" not in texts)}  # an empty text is how a string says "missing"
            places += [len(levels)] * ("" not in texts)
        place = self.node(
            "LabelEncoder", [feature.name], f"position {feature.name}", domain="ai.onnx.ml",
            values_int64s=places, default_int64=len(levels) + 1, **known,
        )  # fmt: skip
        table = self.constant(columns.table, f"sets of {feature.name}")
        found = self.node("Gather", [table, place], f"asked {feature.name}", axis=0)
        return self.node("Squeeze", [found, self.axis()], f"columns of {feature.name}")

    # --- trees ---

    def _trees(self, raw: str) -> str:
        """Splits and leaves, each numbered for itself; a tree of a single leaf is a split with that leaf on both sides.

        A leaf adds to one output: a tree whose leaves have values for several stands there once for each.
        """
        served, forest = self.served, self.model.forest
        wide = np.zeros((forest.trees, forest.outputs), bool)
        np.logical_or.at(wide, forest.tree_of_leaf, forest.values != 0)
        wide[~wide.any(axis=1), 0] = True
        ends = np.append(forest.roots[1:], forest.nodes)
        roots, targets, weights = list[int](), list[int](), list[float]()
        splits = list[tuple[int, float, int, tuple[int, bool], tuple[int, bool]]]()
        for tree, output in np.argwhere(wide).tolist():
            nodes, start, first = range(forest.roots[tree], ends[tree]), len(splits), len(weights)
            inner = [node for node in nodes if forest.column[node] >= 0]
            leaves = [node for node in nodes if forest.column[node] < 0]
            roots.append(start)
            if not inner:
                splits.append((0, 0.0, 0, (first, True), (first + 1, True)))
                leaves *= 2
            else:
                split = {node: start + i for i, node in enumerate(inner)}
                leaf = _apart(served, inner, leaves, split, first)
                leaves.sort(key=leaf.__getitem__)
                for node in inner:
                    yes, no = (
                        (leaf[child], True) if child in leaf else (split[child], False)
                        for child in (int(served.left[node]), int(served.right[node]))
                    )
                    asked = int(served.column[node]), float(served.threshold[node]), int(served.missing[node])
                    splits.append((*asked, yes, no))
            weights += forest.values[forest.leaf[leaves], output].tolist()
            targets += [output] * len(leaves)
        column, threshold, missing, yes_sides, no_sides = zip(*splits, strict=True)
        attributes: dict[str, Any] = {
            "aggregate_function": 1,
            "leaf_targetids": targets,
            "leaf_weights": self.numpy_helper.from_array(np.array(weights, np.float64)),
            "n_targets": forest.outputs,
            "nodes_falseleafs": [int(leaf) for _, leaf in no_sides],
            "nodes_falsenodeids": [place for place, _ in no_sides],
            "nodes_featureids": column,
            "nodes_missing_value_tracks_true": missing,
            "nodes_modes": self.numpy_helper.from_array(np.full(len(splits), LEQ, np.uint8)),
            "nodes_splits": self.numpy_helper.from_array(np.array(threshold, np.float64)),
            "nodes_trueleafs": [int(leaf) for _, leaf in yes_sides],
            "nodes_truenodeids": [place for place, _ in yes_sides],
            "post_transform": 0,
            "tree_roots": roots,
        }
        return self.node("TreeEnsemble", [raw], "trees", domain="ai.onnx.ml", **attributes)

    # --- from sums to decisions ---

    def _scores(self, sums: str) -> str:
        how, score = self.model.forest.summation, sums
        base = [float(number) for number in how.base]
        if how.base_first and any(base):
            score = self.node("Add", [score, self.row(base, "base")], "based")
        if how.divisor != 1:
            score = self.node("Div", [score, self.row([how.divisor], "divisor")], "divided")
        if how.scale != 1:
            score = self.node("Mul", [score, self.row([how.scale], "scale")], "scaled")
        if not how.base_first and any(base):
            score = self.node("Add", [score, self.row(base, "base")], "based")
        return score

    def _label(self, scores: str) -> str:
        cut, outputs = self.model.forest.cut, self.model.forest.outputs
        limit = self.row([cut.at], "where it decides") if outputs == 1 else ""
        if outputs > 1 and cut.offsets:
            scores = self.node("Sub", [scores, self.row(list(cut.offsets), "where it decides")], "compared")
        return self.label(self.index(scores, outputs, limit))

    def _probabilities(self, scores: str) -> str:
        forest, shown_as = self.model.forest, scores
        if forest.cut.link == "probability":
            if forest.outputs == 1:
                rest = self.node("Sub", [self.row([1.0], "one"), scores], "against")
                shown_as = self.node("Concat", [rest, scores], "both", axis=1)
            return self.node("Cast", [shown_as], "probabilities", to=FLOAT)
        if forest.outputs == 1 and forest.cut.slope != 1:
            shown_as = self.node("Mul", [shown_as, self.row([forest.cut.slope], "slope")], "steep")
        logits = self.node("Cast", [shown_as], "logits", to=FLOAT)
        return self.probabilities(logits, forest.outputs)


def _apart(served: _Served, inner: list[int], leaves: list[int], split: dict[int, int], first: int) -> dict[int, int]:
    """Numbers for the leaves of a tree, none of them that of the split on the other side of its parent.

    A leaf rules out one of as many rotations as there are leaves, and fewer leaves than that have a split beside them.
    """
    taken = {}
    for node in inner:
        one, other = int(served.left[node]), int(served.right[node])
        for child, sibling in ((one, other), (other, one)):
            if sibling in split and child not in split:
                taken[child] = split[sibling]
    count = len(leaves)
    ruled_out = {(taken[leaf] - first - i) % count for i, leaf in enumerate(leaves) if leaf in taken}
    turn = next(k for k in range(count) if k not in ruled_out)
    return {leaf: first + (i + turn) % count for i, leaf in enumerate(leaves)}


# --- splits in raw values ---


@dataclass(frozen=True, eq=False)
class ServedColumns:
    """The columns that a feature has in the graph: itself, or one for each set of levels that splits ask about."""

    feature: Feature
    sets: tuple[Ways, ...] | None

    @property
    def table(self) -> np.ndarray:
        """For each level, a missing value and any other: 0 where a set holds it, else 1, so that x ≤ ½ is "in it"."""
        assert self.sets is not None
        return 1.0 - np.array(self.sets, np.float64).T


class _Served:
    """Splits of a forest over raw columns, without any encoding: left goes who is at most the threshold.

    A split of a column (a number made of a raw value) becomes one of the raw value: x ≤ c for a number, with c found
    without error (`SplitColumn.last_below`), and a set of levels for a category, each level looked up. Nodes are those
    of the forest; `column` counts over all columns.
    """

    def __init__(self, model: ForestModel) -> None:
        self.forest, read = model.forest, model.features_read
        # Somebody must say how many rows there are, also where nothing is read.
        spare = [f.name for f in (*model.domain.free_features, *model.domain.sensitive_features)][:1]
        names = [name for name in model.domain.names if name in read] or spare
        self.column, self.threshold = np.full(model.forest.nodes, -1), np.zeros(model.forest.nodes)
        self.left, self.right = model.forest.left.copy(), model.forest.right.copy()
        self.missing = model.forest.missing_left.copy()
        self.columns, start = list[ServedColumns](), 0
        for name in names:
            feature = model.domain.feature(name)
            nodes = [
                (column, np.flatnonzero(self.forest.column == place))
                for place, column in enumerate(self.forest.columns)
                if model.reads[column.source] == name
            ]
            nodes = [(column, several) for column, several in nodes if len(several)]
            sets = None
            if feature.kind == "boolean":
                self._true_or_false(nodes, start)
            elif not isinstance(feature, NUMERIC) or any(self._is_listed(*each) for each in nodes):
                sets = self._sets(feature, nodes, start)
            else:
                self._number(nodes, start)
            self.columns.append(ServedColumns(feature, sets))
            start += 1 if sets is None else len(sets)

    def _is_listed(self, column: SplitColumn, nodes: np.ndarray) -> bool:
        """Whether splits pick numbers out of their order."""
        return column.table is not None or bool(column.breaks) or bool((self.forest.members[nodes] >= 0).any())

    def _number(self, nodes: Sequence[tuple[SplitColumn, np.ndarray]], place: int) -> None:
        for column, several in nodes:
            self.column[several] = place
            self.threshold[several] = column.last_below(self.forest.threshold[several])
            nothing = float(column.values(np.array([np.nan]))[0])
            if not np.isnan(nothing):
                self.missing[several] = self.forest.goes_left(several, np.array([nothing]))[:, 0]
            if column.falls:
                self._turn(several)
                self.missing[several] = ~self.missing[several]

    def _true_or_false(self, nodes: Sequence[tuple[SplitColumn, np.ndarray]], place: int) -> None:
        """0 or 1: one way for both is beyond both."""
        for column, several in nodes:
            goes = self.forest.goes_left(several, column.values(np.array([False, True], dtype=object)))
            self.column[several] = place
            self.threshold[several] = np.where(goes[:, 0] == goes[:, 1], 2.0, 0.5)
            self.missing[several] = False
            self._turn(several[~goes[:, 0]])

    def _sets(self, feature: Feature, nodes: Sequence[tuple[SplitColumn, np.ndarray]], start: int) -> tuple[Ways, ...]:
        many = isinstance(feature, NUMERIC) and (feature.kind != "integer" or len(feature.levels()) > MOST_LISTED)
        if many or (isinstance(feature, NUMERIC) and feature.missing):
            raise InputError(
                f"a split of '{feature.name}' picks single numbers out, or takes zero for missing, which a bundle can "
                f"only hold of at most {MOST_LISTED:,} whole numbers that are never missing; list its values in the "
                "domain as categories."
            )
        levels, found = np.array(list(known_levels(feature)), dtype=object), dict[Ways, int]()
        for column, several in nodes:
            absent = column.values(np.array([None], dtype=object))
            other = absent
            if column.table is not None and column.other is not None:
                other = SplitColumn(0, column.steps).values(np.array([column.other]))
            for node, ways in zip(
                several.tolist(),
                self.forest.goes_left(several, np.concatenate([column.values(levels), absent, other])),
                strict=True,
            ):
                place = found.setdefault(tuple(ways.tolist()), len(found))
                self.column[node], self.threshold[node], self.missing[node] = start + place, 0.5, False
        if len(found) * len(levels) > MOST_ENTRIES:
            raise InputError(
                f"splits of '{feature.name}' ask about {len(found):,} sets of {len(levels):,} levels, more than a "
                "bundle can hold; merge rare categories."
            )
        return tuple(found) or ((False,) * (len(levels) + 2),)  # nothing is read, but it says how many rows there are

    def _turn(self, nodes: np.ndarray) -> None:
        self.left[nodes], self.right[nodes] = self.forest.right[nodes], self.forest.left[nodes]
