"""ONNX graphs around a tree operator: their columns, their forest, and the outputs that show the decision.

Before the trees, columns are picked, cast, scaled, filled in and encoded; behind them stands a label, or a link and a
comparison. Whatever else stands there is refused by name.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bornfair.core.errors import InputError, shown
from bornfair.importers.affine import CannotRead
from bornfair.importers.onnx_file import RUNTIME, GraphInput, GraphRun, OnnxFile, array_of, attribute_of
from bornfair.importers.onnx_trees import OnnxTrees, classifier, ensemble, regressor
from bornfair.importers.tree_source import ForestJudge, ForestSource, Ran, composed, then
from bornfair.models.deciding import CARRIERS, FLOATS, Kind, Output, deciding
from bornfair.models.forest.columns import SplitColumn
from bornfair.models.forest.forest import Cut, Forest, Precision
from bornfair.models.forest.links import SOFTMAX_SLACK, cut_of, sigmoid_in_float32, sigmoid_in_float64
from bornfair.models.reading import Reading

OPERATORS: dict[str, Callable[[dict[str, Any], str, int, Precision], OnnxTrees]] = {
    "TreeEnsembleClassifier": classifier,
    "TreeEnsembleRegressor": regressor,
    "TreeEnsemble": ensemble,
}
MOST_COLUMNS = 100_000
PRECISIONS = {1: "float32", 11: "float64"}  # of ONNX's numbers for types
BROKEN = (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError)

Columns = list[SplitColumn]


def has_trees(file: OnnxFile) -> bool:
    return any(node.op_type in OPERATORS for node in file.graph.node)


@dataclass(frozen=True, eq=False)
class _End:
    """Where the graph shows what the trees give: the label, if it decides, and the scores."""

    label: str | None
    shown: str | None
    link: str | None = None  # put on by a node of its own


def onnx_forest(file: OnnxFile, asked: Reading) -> ForestSource:
    """The forest of a graph that holds one tree operator."""
    found = [node for node in file.graph.node if node.op_type in OPERATORS]
    if len(found) != 1:
        raise InputError(f"{file.origin} has {len(found)} tree operators; a model with one can be read.")
    (node,) = found
    label = f"{file.origin}: node {(node.name or node.op_type)[:40]!r} ({node.op_type})"
    if not node.input:
        raise InputError(f"{label} reads nothing; is the file broken?")
    names, raw = _inputs(file)
    values = _columns(file, node, raw)
    given = values.get(node.input[0])
    if not isinstance(given, list):
        raise InputError(f"{label} reads {node.input[0][:40]!r}, which is not a row of columns.")
    trees = _trees(file, node, label, given)
    end = _end(file, node, trees, asked)
    forest = dataclasses.replace(
        trees.forest, names=names, columns=composed(trees.forest.columns, given, label), cut=_cut(trees, end, asked)
    )
    judge = ForestJudge(RUNTIME, _Run(file, node, trees, end, forest).run)
    named = file.only_input is None
    return ForestSource(file.origin, forest, named, judge, trees.classes, categories=dict(file.wanted.categories))


def _trees(file: OnnxFile, node: Any, label: str, given: Columns) -> OnnxTrees:
    try:
        attributes = {attribute.name: attribute_of(attribute, file.path) for attribute in node.attribute}
        return OPERATORS[node.op_type](attributes, label, len(given), _precision(given))
    except CannotRead as error:
        raise InputError(f"{label} {error}.") from error
    except BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{label} does not hold what its operator needs ({error}); is the file broken?") from error


def _precision(columns: Columns) -> Precision:
    """In which trees compare and add: double where all that they are given is double."""
    casts = [
        next((name for name, _ in reversed(c.steps) if name in ("float32", "float64")), "float32") for c in columns
    ]
    return "float64" if casts and set(casts) == {"float64"} else "float32"


def _cut(trees: OnnxTrees, end: _End, asked: Reading) -> Cut:
    """Where it decides: a label by the scores; otherwise above ½ of a probability, 0 of a logit."""
    own, precision = trees.forest.cut, trees.forest.summation.precision
    link = end.link or trees.link
    if trees.kind == "classifier":
        return own
    if trees.forest.outputs > 1:
        return Cut(
            link="softmax" if link == "softmax" else "none", slack=SOFTMAX_SLACK[precision] if link != "none" else 0.0
        )
    if link == "sigmoid":
        show = sigmoid_in_float32 if precision == "float32" else sigmoid_in_float64()
        at, slack = cut_of(show, 0.5, precision)
        return Cut(at, slack)
    if asked.decision is None:
        raise InputError(
            "its trees give one number, and it cannot be told where that decides; say whether it "
            "is a probability or a logit: decision='probability' or 'logit' (--decision)."
        )
    return Cut(0.5, link="probability") if asked.decision == "probability" else Cut()


# --- before the trees ---


def _inputs(file: OnnxFile) -> tuple[tuple[str, ...], dict[str, Columns]]:
    def column(source: int, given: GraphInput) -> SplitColumn:
        return SplitColumn(source, ((given.dtype.name, 0.0),) if given.dtype.name in ("float32", "float64") else ())

    only = file.only_input
    if only is None:
        names = tuple(one.name for one in file.inputs)
        return names, {one.name: [column(i, one)] for i, one in enumerate(file.inputs)}
    if only.width is None:
        raise InputError(f"{file.origin}: input '{only.name}' does not say how many columns it takes.")
    if not 0 < only.width <= MOST_COLUMNS:
        raise InputError(
            f"{file.origin}: input '{only.name}' takes {only.width:,} columns; from 1 to {MOST_COLUMNS:,} can be read."
        )
    return tuple(f"x{i}" for i in range(only.width)), {only.name: [column(i, only) for i in range(only.width)]}


def _columns(file: OnnxFile, trees: Any, raw: dict[str, Columns]) -> dict[str, Any]:
    """Everything that is computed on the way to the trees."""
    values: dict[str, Any] = {tensor.name: array_of(tensor, file.path) for tensor in file.graph.initializer}
    values |= raw
    needed = file.behind([trees.input[0]])
    for number, node in enumerate(file.graph.node):
        if not needed.intersection(node.output) or node is trees:
            continue
        label = f"{file.origin}: node '{node.name or number}' ({node.op_type})"
        missing = [name for name in node.input if name and name not in values]
        if missing:
            raise InputError(f"{label} reads '{missing[0]}', which nothing before it gives; is the file broken?")
        if node.op_type not in BEFORE:
            raise InputError(
                f"{label} is not supported before trees; {shown(BEFORE, most=30)} can be read. Apply others to the "
                "table before."
            )
        try:
            attributes = {attribute.name: attribute_of(attribute, file.path) for attribute in node.attribute}
            made = BEFORE[node.op_type]([values[name] for name in node.input if name], attributes)
        except CannotRead as error:
            raise InputError(f"{label} {error}.") from error
        except BROKEN as error:
            raise InputError(f"{label} does not fit what it is given ({error}); is the file broken?") from error
        values |= dict.fromkeys(node.output, made)
    return values


def _cast(given: list[Any], attributes: dict[str, Any]) -> Any:
    if not isinstance(given[0], list):
        return given[0]
    kind = attributes["to"]
    if kind in PRECISIONS:
        return [then(column, (PRECISIONS[kind], 0.0)) for column in given[0]]
    if kind in (6, 7, 8):  # whole numbers, texts: what is looked up
        return given[0]
    raise CannotRead(f"casts to type {kind}, which is not supported")


def _concat(given: list[Any], attributes: dict[str, Any]) -> Any:
    if not all(isinstance(part, list) for part in given):
        raise CannotRead("joins constants to columns, which is not supported")
    return [column for part in given for column in part]


def _picked(given: list[Any], attributes: dict[str, Any]) -> Any:
    places = np.asarray(given[1]).astype(np.int64).ravel()
    if not isinstance(given[0], list) or attributes.get("axis", 1) not in (1, -1):
        raise CannotRead("picks something else than columns, which is not supported")
    return [given[0][int(place)] for place in places]


def _scaled(given: list[Any], attributes: dict[str, Any]) -> Any:
    columns = given[0]
    offset, scale = (
        np.broadcast_to(np.asarray(attributes.get(name, default), np.float64).ravel(), (len(columns),))
        for name, default in (("offset", [0.0]), ("scale", [1.0]))
    )
    return [
        then(column, ("float32", 0.0), ("minus", float(o)), ("times", float(s)))
        for column, o, s in zip(columns, offset, scale, strict=True)
    ]


def _imputed(given: list[Any], attributes: dict[str, Any]) -> Any:
    replaced = attributes.get("replaced_value_float", 0.0)
    if not math.isnan(replaced) or "imputed_value_floats" not in attributes:
        raise CannotRead("fills in something else than NaN, which is not supported")
    filled = np.broadcast_to(np.asarray(attributes["imputed_value_floats"], np.float64), (len(given[0]),))
    return [then(column, ("missing is", float(v))) for column, v in zip(given[0], filled, strict=True)]


def _arithmetic(name: str) -> Callable[[list[Any], dict[str, Any]], Any]:
    def made(given: list[Any], attributes: dict[str, Any]) -> Any:
        if not isinstance(given[0], list) or isinstance(given[1], list):
            raise CannotRead("computes with other columns, which is not supported before trees")
        numbers = np.broadcast_to(np.asarray(given[1], np.float64).ravel(), (len(given[0]),))
        return [then(column, (name, float(number))) for column, number in zip(given[0], numbers, strict=True)]

    return made


def _one_hot(given: list[Any], attributes: dict[str, Any]) -> Any:
    known = list(attributes.get("cats_strings") or attributes.get("cats_int64s") or [])
    other = 0.0 if attributes.get("zeros", 1) else None
    made = []
    for column in given[0]:
        for category in known:
            table = tuple((v, 1.0 if v == category else 0.0) for v in known)
            made.append(_table(column, table, other))
    return made


def _label_encoded(given: list[Any], attributes: dict[str, Any]) -> Any:
    keys = next((list(attributes[k]) for k in ("keys_strings", "keys_int64s", "keys_floats") if k in attributes), None)
    numbers = next((list(attributes[k]) for k in ("values_floats", "values_int64s") if k in attributes), None)
    if "keys_tensor" in attributes and "values_tensor" in attributes:
        keys, numbers = attributes["keys_tensor"].tolist(), attributes["values_tensor"].tolist()
    if keys is None or numbers is None or len(keys) != len(numbers):
        raise CannotRead("maps categories to something else than numbers, which is not supported")
    default = attributes.get(
        "default_float", attributes.get("default_int64", -0.0 if "values_floats" in attributes else -1)
    )
    default = np.asarray(attributes.get("default_tensor", default)).ravel()[0]
    table = tuple((k, float(v)) for k, v in zip(keys, numbers, strict=True) if k == k)
    return [_table(column, table, float(default)) for column in given[0]]


def _table(column: SplitColumn, table: tuple[tuple[Any, float], ...], other: float | None) -> SplitColumn:
    if column.table is not None or any(name not in ("float32", "float64") for name, _ in column.steps):
        raise CannotRead("encodes a column that was computed before, which is not supported")
    gaps = math.nan if other is None else other
    return SplitColumn(column.source, (), table, other, gaps)


BEFORE: dict[str, Callable[[list[Any], dict[str, Any]], Any]] = {
    "Constant": lambda given, attributes: np.asarray(next(iter(attributes.values()))),
    **dict.fromkeys(("Identity", "Reshape", "Flatten"), lambda given, attributes: given[0]), "Cast": _cast,
    "Concat": _concat, "FeatureVectorizer": _concat, "ArrayFeatureExtractor": _picked, "Gather": _picked,
    "Scaler": _scaled, "Imputer": _imputed, "Sub": _arithmetic("minus"), "Add": _arithmetic("plus"),
    "Mul": _arithmetic("times"), "Div": _arithmetic("over"), "OneHotEncoder": _one_hot, "LabelEncoder": _label_encoded,
}  # fmt: skip


# --- behind the trees ---


def _end(file: OnnxFile, trees: Any, read: OnnxTrees, asked: Reading) -> _End:
    """The output that decides, by the rule of `deciding`, among those that show what the trees give."""
    labels, links = _behind(file, trees, read)
    outputs = []
    for found in file.outputs.candidates:
        known: Kind | None = "label" if found.name in labels else "scores" if found.name in links else None
        reason = InputError(
            f"{file.origin}: output '{found.name}' is computed from its trees in a way that is not supported; a label, "
            "scores, or a sigmoid or softmax of them can be read."
        )
        outputs.append(Output(found.name, known or found.kind, None, None if known else reason))

    def same(one: Output, other: Output) -> bool:
        if one.why is not None or other.why is not None:
            return False
        ranked = read.forest.outputs > 1 and not asked.moves_the_decision
        return one.kind == "label" or ranked or links[one.name] == links[other.name]

    decides = deciding(outputs, file.outputs, asked, same=same, beside=lambda label, beside: beside.why is None)
    if decides.kind == "scores":
        return _End(None, decides.name, links[decides.name])
    shown_output = next((output.name for output in outputs if output.name in links), None)
    return _End(decides.name, shown_output, None if shown_output is None else links[shown_output])


def _behind(file: OnnxFile, trees: Any, read: OnnxTrees) -> tuple[set[str], dict[str, str | None]]:
    """The values that hold the trees' label, and those that hold their scores, each with the link that was applied."""
    classifies = read.kind == "classifier"
    labels = {trees.output[0]} if classifies else set[str]()
    links: dict[str, str | None] = dict.fromkeys(trees.output[1:2] if classifies else trees.output[:1])
    for node in file.graph.node:
        if node is trees or not node.input:
            continue
        source = node.input[0]
        settings = {attribute.name: attribute.s.decode(errors="replace") or attribute.i for attribute in node.attribute}
        if source in labels and (node.op_type in CARRIERS or node.op_type == "Cast"):
            labels.update(node.output)
        if source not in links:
            continue
        bare = not classifies and read.link == "none" and links[source] is None
        rows = settings.get("axis", -1) in (1, -1)
        casts = node.op_type == "Cast" and settings.get("to") in FLOATS
        normed = node.op_type == "Normalizer" and classifies and settings.get("norm") == "L1"
        if node.op_type in CARRIERS or casts or normed:
            links |= dict.fromkeys(node.output, links[source])
        elif bare and (node.op_type == "Sigmoid" or (node.op_type == "Softmax" and rows)):
            links |= dict.fromkeys(node.output, node.op_type.lower())
        elif node.op_type == "ArgMax" and not classifies and read.forest.outputs > 1 and rows:
            labels.update(() if "axis" not in settings or settings.get("select_last_index", 0) else node.output)
    return labels, links


# --- the original ---


@dataclass(frozen=True, eq=False)
class _Run:
    """The graph as onnxruntime runs it, and once more with the trees' own scores as an output."""

    file: OnnxFile
    node: Any
    trees: OnnxTrees
    end: _End
    forest: Forest

    def run(self, raw: list[Any]) -> Ran:
        columns = list(zip(self.forest.names, raw, strict=True))
        scores = self._scores.outputs(columns)[self._shown]
        if self.forest.outputs == 1:
            scores = scores[:, -1:]
        decided, label = None, self.end.label
        if label is not None:
            found = self._labels.outputs(columns)[label].ravel().tolist()
            order = {value: i for i, value in enumerate(self.trees.classes or range(self.forest.classes))}
            decided = np.array([order.get(value, -1) for value in found], np.int64)
            if len(decided) != len(raw[0]):
                raise InputError(f"{self.file.origin} gives {len(decided)} labels for {len(raw[0])} people.")
        return Ran(scores, None, decided, rounded=scores.dtype == np.float32)

    @cached_property
    def _labels(self) -> GraphRun:
        return GraphRun(self.file, self.file.pruned([str(self.end.label)]))

    @cached_property
    def _scores(self) -> GraphRun:
        """The same model with nothing made of the scores."""
        from onnx import AttributeProto, ModelProto

        model = ModelProto()
        model.CopyFrom(self.file.model)
        for node in model.graph.node:
            if node.op_type in OPERATORS:
                for attribute in node.attribute:
                    if attribute.name == "post_transform" and attribute.type == AttributeProto.STRING:
                        attribute.s = b"NONE"
                    elif attribute.name == "post_transform":
                        attribute.i = 0
        return GraphRun(self.file, dataclasses.replace(self.file, model=model).pruned([self._shown]))

    @property
    def _shown(self) -> str:
        return self.node.output[1 if self.trees.kind == "classifier" else 0]
