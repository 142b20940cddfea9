"""How is a forest shipped? As one ONNX graph: raw columns in, label and probabilities out, like a network's.

Numbers are given as double (NaN where one is missing), true/false as bool, categories as string (int64 if all of them
are whole numbers; the empty text is a missing one). A category becomes a row of a table, with a column for each set of
levels that splits ask about. All columns go side by side into one TreeEnsemble of ai.onnx.ml 5, in float64: comparisons
are exact, sums are of float64, whatever the original added in. `bornfair.proof.checker` reads the graph back.

Some versions of onnxruntime misread a set of members in a split, a tree of one leaf, and a split whose one side is a
leaf with the number of the split on its other side. None of these is written, nor accepted by the checker.

    score = (Σ leaves + base) / divisor · scale + base          what is 1 or 0 is left out
    decision: score > at; of several outputs, the first largest of score − offset
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.models.forest.served import ServedColumns, ServedForest
from bornfair.models.graph_draft import GraphDraft
from bornfair.models.network.onnx_graph import BOOL, DOUBLE, FLOAT, INT64, STRING, as_text, served_classes
from bornfair.people.features import NUMERIC, Feature, known_levels

if TYPE_CHECKING:
    import onnx

    from bornfair.models.forest.model import ForestModel

OPSET, TREES_OPSET, IR = 21, 5, 10
METADATA = "bornfair.forest"
LEQ = 0  # the mode of a split: left goes who is at most the threshold


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


def _input_type(feature: Feature, listed: bool) -> int:
    """The ONNX element type of a raw column; whole numbers may be listed like categories."""
    if feature.kind == "boolean":
        return BOOL
    if isinstance(feature, NUMERIC):
        return INT64 if listed else DOUBLE
    return INT64 if all(type(c) is int for c in feature.categories) and not feature.missing else STRING


class _Graph(GraphDraft):
    def __init__(self, model: ForestModel, sensitive: bool) -> None:
        super().__init__(model.domain, sensitive)
        self.model, self.served = model, ServedForest.of(model)

    def build(self) -> bytes:
        declare = self.helper.make_tensor_value_info
        raw = self.node("Concat", [self._columns(columns) for columns in self.served.columns], "raw", axis=1)
        scores = self._scores(self._trees(raw))
        classes = self.helper.np_dtype_to_tensor_dtype(served_classes(self.domain).dtype)
        outputs = [
            declare(self._label(scores), classes, ["rows"]),
            declare(self._probabilities(scores), FLOAT, ["rows", self.model.forest.classes]),
        ]
        listed = {columns.feature.name for columns in self.served.columns if columns.sets is not None}
        inputs = [declare(f.name, _input_type(f, f.name in listed), ["rows", 1]) for f in self.declared]
        graph = self.helper.make_graph(self.nodes, "bornfair", inputs, outputs, self.constants)
        versions = {"": OPSET, "ai.onnx.ml": TREES_OPSET}
        return self.finished(graph, versions, IR, {METADATA: {"operating": dict(self.model.operating)}})

    def _columns(self, columns: ServedColumns) -> str:
        """A raw column as double, or the columns of its sets."""
        feature = columns.feature
        kind = _input_type(feature, columns.sets is not None)
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
        forest, made = self.served.forest, _Lists()
        wide = np.zeros((forest.trees, forest.outputs), bool)
        np.logical_or.at(wide, forest.tree_of_leaf, forest.values != 0)
        wide[~wide.any(axis=1), 0] = True
        ends = np.append(forest.roots[1:], forest.nodes)
        for tree in range(forest.trees):
            for output in np.flatnonzero(wide[tree]).tolist():
                made.add(self.served, range(forest.roots[tree], ends[tree]), output)
        attributes: dict[str, Any] = {
            "aggregate_function": 1,
            "leaf_targetids": made.targets,
            "leaf_weights": self._tensor(made.weights),
            "n_targets": forest.outputs,
            "nodes_falseleafs": [int(leaf) for _, leaf in made.no],
            "nodes_falsenodeids": [place for place, _ in made.no],
            "nodes_featureids": made.columns,
            "nodes_missing_value_tracks_true": made.missing,
            "nodes_modes": self.numpy_helper.from_array(np.full(len(made.columns), LEQ, np.uint8)),
            "nodes_splits": self._tensor(made.splits),
            "nodes_trueleafs": [int(leaf) for _, leaf in made.yes],
            "nodes_truenodeids": [place for place, _ in made.yes],
            "post_transform": 0,
            "tree_roots": made.roots,
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
        cut = self.model.forest.cut
        if self.model.forest.outputs == 1:
            yes = self.node("Greater", [scores, self.row([cut.at], "where it decides")], "yes")
            whole = self.node("Cast", [yes], "yes 0/1", to=INT64)
            index = self.node("Squeeze", [whole, self.axis()], "class")
        else:
            if cut.offsets:
                scores = self.node("Sub", [scores, self.row(list(cut.offsets), "where it decides")], "compared")
            index = self.node("ArgMax", [scores], "class", axis=1, keepdims=0)
        return self.node("Gather", [self.constant(served_classes(self.domain), "classes"), index], "label", axis=0)

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

    def _tensor(self, numbers: list[float]) -> onnx.TensorProto:
        return self.numpy_helper.from_array(np.array(numbers, np.float64))


@dataclass(eq=False)
class _Lists:
    """The lists of a TreeEnsemble; a side is the number of a split or of a leaf, and whether it is a leaf."""

    roots: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)
    splits: list[float] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    yes: list[tuple[int, bool]] = field(default_factory=list)
    no: list[tuple[int, bool]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)

    def add(self, served: ServedForest, nodes: range, output: int) -> None:
        forest, start, first = served.forest, len(self.columns), len(self.weights)
        inner = [node for node in nodes if forest.column[node] >= 0]
        leaves = [node for node in nodes if forest.column[node] < 0]
        self.roots.append(start)
        if not inner:
            weight = float(forest.values[forest.leaf[leaves[0]], output])
            self._leaves([weight, weight], output)
            self._split(0, 0.0, 0, (first, True), (first + 1, True))
            return
        split = {node: start + i for i, node in enumerate(inner)}
        leaf = _apart(served, inner, leaves, split, first)
        for node in sorted(leaves, key=leaf.__getitem__):
            self._leaves([float(forest.values[forest.leaf[node], output])], output)
        for node in inner:
            sides = [
                (leaf[child], True) if child in leaf else (split[child], False)
                for child in (int(served.left[node]), int(served.right[node]))
            ]
            self._split(
                int(served.column[node]), float(served.threshold[node]), int(served.missing_left[node]), *sides
            )  # fmt: skip

    def _leaves(self, weights: list[float], output: int) -> None:
        self.weights += weights
        self.targets += [output] * len(weights)

    def _split(self, column: int, split: float, missing: int, yes: tuple[int, bool], no: tuple[int, bool]) -> None:
        self.columns.append(column)
        self.splits.append(split)
        self.missing.append(missing)
        self.yes.append(yes)
        self.no.append(no)


def _apart(
    served: ServedForest, inner: list[int], leaves: list[int], split: dict[int, int], first: int
) -> dict[int, int]:
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
