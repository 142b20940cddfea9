"""Operators of ai.onnx.ml: encoders, scalers and linear models, as exporters of scikit-learn use them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bornfair.importers.affine import (
    AffineCells,
    CannotRead,
    Cell,
    Decision,
    Forms,
    Value,
    activation,
    affordable,
    concatenated,
    times_matrix,
)
from bornfair.importers.head import opposite_sigmoids
from bornfair.importers.onnx_node import Node, Zipped, by_value, listed, moved
from bornfair.importers.onnx_operators import Handler


def scaler(node: Node) -> Value:
    value = node.forms(0)
    offset = np.atleast_1d(node.attributes.get("offset", 0.0)).astype(np.float64)
    scale = np.atleast_1d(node.attributes.get("scale", 1.0)).astype(np.float64)
    if len(value.tail) != 1 or any(len(v) not in (1, value.size) for v in (offset, scale)):
        raise CannotRead(f"scales {value.size} columns by {len(scale)} numbers")
    return value.plus(-offset).scaled(scale)


def one_hot_encoder(node: Node) -> AffineCells:
    value = node.given(0)
    if isinstance(value, np.ndarray):
        raise CannotRead("one-hot encodes a constant, which is not supported")
    known = listed(node.attributes, "cats_strings", "cats_int64s")
    if not known or len(set(known)) != len(known):
        raise CannotRead("knows no categories, or lists one twice")
    cells = node.tape.cells(value).cells
    affordable(len(cells) * len(known) * max(len(cell.values) for cell in cells))
    made = []
    for cell in cells:
        known_as = cell if isinstance(known[0], str) else Cell(cell.source, cell.values.astype(np.int64))
        places = known_as.places(known, strict=not node.attributes.get("zeros", 1))
        made += cell.one_hot(places, len(known), np.array([0, 1], np.float32))
    return AffineCells((*value.tail, len(known)), tuple(made))


def label_encoder(node: Node) -> Value:
    keys = listed(node.attributes, "keys_strings", "keys_int64s", "keys_floats", "keys_tensor")
    values = listed(node.attributes, "values_strings", "values_int64s", "values_floats", "values_tensor")
    if not keys and "classes_strings" in node.attributes:  # the first version: names and positions
        names = list(node.attributes["classes_strings"])
        keys, values = _from_what_is_given(node, names, list(range(len(names))))
    return _mapped(node, keys, values)


def category_mapper(node: Node) -> Value:
    names, numbers = node.attributes.get("cats_strings", []), node.attributes.get("cats_int64s", [])
    return _mapped(node, *_from_what_is_given(node, names, numbers))


def _from_what_is_given(node: Node, names: list[Any], numbers: list[Any]) -> tuple[list[Any], list[Any]]:
    """Keys and values: numbers become names, or names numbers."""
    value = node.given(0)
    levels = value.cells[0].values if isinstance(value, AffineCells) else value
    numeric = isinstance(levels, Forms) or levels.dtype.kind in "iuf"
    return (numbers, names) if numeric else (names, numbers)


def _mapped(node: Node, keys: list[Any], values: list[Any]) -> Value:
    if len(set(keys)) != len(keys) or len(keys) != len(values):
        raise CannotRead("lists a key twice, or more keys than values")
    value, table, given = node.given(0), dict(zip(keys, values, strict=True)), node.attributes
    if given.get("default_tensor") is not None:
        default = np.asarray(given["default_tensor"]).ravel().tolist()[0]
    elif values and isinstance(values[0], str):
        default = given.get("default_string", "_Unused")
    else:
        default = given.get("default_float", -0.0) if "values_floats" in given else given.get("default_int64", -1)

    def looked_up(keys: np.ndarray) -> np.ndarray:
        return _column([table.get(key, default) for key in keys.ravel().tolist()]).reshape(keys.shape)

    return by_value(value if isinstance(value, np.ndarray) else node.tape.cells(value), looked_up)


def _column(values: list[Any]) -> np.ndarray:
    return np.array(values, object) if any(isinstance(value, str) for value in values) else np.array(values)


def imputer(node: Node) -> Value:
    """Fills in what is missing. People of a domain have all their values, so only a stand-in for missing matters."""
    value = node.given(0)
    whole = "imputed_value_int64s" in node.attributes
    missing = node.attributes.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    if not whole and np.isnan(missing):
        return value
    fill = np.atleast_1d(node.attributes.get("imputed_value_int64s" if whole else "imputed_value_floats", []))
    if isinstance(value, np.ndarray) or len(fill) not in (1, value.size):
        raise CannotRead("fills in values in a way that is not supported")
    fills = np.broadcast_to(fill, (value.size,))
    cells = node.tape.cells(value).cells
    made = (Cell(c.source, np.where(c.values == missing, fills[i], c.values)) for i, c in enumerate(cells))
    return AffineCells(value.tail, tuple(made))


def array_feature_extractor(node: Node) -> Value:
    value, index = node.given(0), node.given(1)
    if isinstance(index, np.ndarray):
        positions = index.ravel().astype(np.int64)
        length = (value.shape if isinstance(value, np.ndarray) else value.tail)[-1]
        if ((positions < 0) | (positions >= length)).any():
            raise CannotRead(f"takes a column beyond the {length} there are")
        return moved(value, lambda entries: np.take(entries, positions, axis=-1))
    if not isinstance(value, np.ndarray) or value.ndim > 2 or value.size != value.shape[-1] or index.size != 1:
        raise CannotRead("chooses columns by a value of the person, which is not supported")
    names = value.ravel()
    chosen = node.tape.cells(index).cells[0]
    positions = chosen.values.astype(np.int64)
    if ((positions < 0) | (positions >= len(names))).any():
        raise CannotRead(f"names a class beyond the {len(names)} there are")
    # The operator gives [1, people]; what follows reshapes that to [people].
    return AffineCells((), (Cell(chosen.source, names[positions]),))


def normalizer(node: Node) -> Value:
    """Probabilities that sum to 1 stay what they are; anything else is not affine."""
    value = node.forms(0)
    total = times_matrix(value, np.ones((value.tail[-1], 1)))
    if node.attributes.get("norm", "MAX") == "L1" and len(value.tail) == 1:
        blocks = list(value.parts)
        sums_to_one = not total.parts and bool((total.constant == 1.0).all())
        if len(blocks) == 1 and blocks[0].kind == "softmax" and not value.constant.any():
            sums_to_one |= bool(np.all(total.parts.get(blocks[0], np.zeros(1)) == 1.0))
        if sums_to_one or opposite_sigmoids(value):
            return value
    raise CannotRead("divides a person's values by their sum or size, which is not supported")


def zipmap(node: Node) -> Zipped:
    return Zipped(node.forms(0), tuple(listed(node.attributes, "classlabels_strings", "classlabels_int64s")))


def feature_vectorizer(node: Node) -> Value:
    return concatenated([node.forms(i) for i in range(len(node.inputs))], 0)


def binarizer(node: Node) -> Value:
    value = node.given(0)
    threshold = float(node.attributes.get("threshold", 0.0))
    if isinstance(value, AffineCells):
        return value.mapped(lambda levels: (levels > threshold).astype(np.float32))
    score = node.forms(0)
    if score.size != 1:
        raise CannotRead(f"compares {score.size} values; one decision is read")
    decision = Decision(score.plus(-threshold), node.name)
    return AffineCells(score.tail, (Cell(decision, np.array([0.0, 1.0])),))


def linear_classifier(node: Node) -> tuple[Value | Exception, ...]:
    value, labels = node.forms(0), listed(node.attributes, "classlabels_strings", "classlabels_ints")
    scores = _linear(node, value, len(node.attributes.get("coefficients", [])) // max(value.size, 1))
    if not labels:
        labels = list(range(max(scores.size, 2)))
    if scores.size not in (len(labels), 1) or len(labels) < 2:
        raise CannotRead(f"has {scores.size} rows of coefficients for {len(labels)} classes")
    label = AffineCells((), (Cell(Decision(scores, node.name), _column(labels)),))
    return label, _transformed(node, scores)


def linear_regressor(node: Node) -> Value | Exception:
    return _transformed(node, _linear(node, node.forms(0), int(node.attributes.get("targets", 1))))


def _linear(node: Node, value: Forms, outputs: int) -> Forms:
    weights = np.asarray(node.attributes.get("coefficients", []), np.float64)
    if len(value.tail) != 1 or outputs < 1 or weights.size != outputs * value.size:
        raise CannotRead(f"has {weights.size} coefficients for {value.size} columns")
    bias = np.asarray(node.attributes.get("intercepts", np.zeros(outputs)), np.float64)
    if bias.shape != (outputs,):
        raise CannotRead(f"has {bias.size} intercepts for {outputs} outputs")
    return times_matrix(value, weights.reshape(outputs, value.size).T).plus(bias)


def _transformed(node: Node, scores: Forms) -> Value | Exception:
    kind = node.attributes.get("post_transform", "NONE")
    if scores.size == 1 and node.operator == "LinearClassifier":  # how two scores are made of one is left to runtimes
        return CannotRead("shows one score as two")
    if kind == "NONE":
        return scores
    if kind in ("LOGISTIC", "SOFTMAX"):
        return activation("sigmoid" if kind == "LOGISTIC" else "softmax", scores, node.name)
    return CannotRead(f"shows its scores by {kind}, which is not supported")


MACHINE_LEARNING: dict[str, Handler] = {
    "Scaler": scaler, "OneHotEncoder": one_hot_encoder, "LabelEncoder": label_encoder,
    "CategoryMapper": category_mapper, "Imputer": imputer, "ArrayFeatureExtractor": array_feature_extractor,
    "Normalizer": normalizer, "ZipMap": zipmap, "FeatureVectorizer": feature_vectorizer, "Binarizer": binarizer,
    "LinearClassifier": linear_classifier, "LinearRegressor": linear_regressor,
}  # fmt: skip
