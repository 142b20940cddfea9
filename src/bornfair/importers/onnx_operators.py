"""Standard ONNX operators on affine forms: one function for each, in one table.

Constants are computed as they are; entries that depend on one category are computed category by category.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
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
    clipped,
    leaky_relu,
    relu,
    times_matrix,
)
from bornfair.importers.onnx_node import (
    MOVING,
    Node,
    aligned,
    beside,
    by_value,
    checked_axis,
    level_by_level,
    moved,
    not_people,
)

Handler = Callable[[Node], Any]


# --- entry by entry ---


def pointwise(
    count: int,
    numbers: Callable[..., Any],
    forms: Callable[..., Value] | None = None,
    *,
    refusal: str = "is a function that our networks do not have; use ReLU, tanh or sigmoid layers",
    listed: bool = False,
) -> Handler:
    """An operator of `count` tensors, by what it does to numbers: of constants, and level by level of categories.

    Of computed values `forms` says what it is (it gets the node and forms of one tail); without it, it is refused.
    `listed`: numbers of the input are taken level by level, too, so the domain must list them.
    """

    def handler(node: Node) -> Value:
        values = [node.given(i) for i in range(count)]
        with np.errstate(all="ignore"):
            constants = [value for value in values if isinstance(value, np.ndarray)]
            if len(constants) == count:
                affordable(math.prod(np.broadcast_shapes(*(value.shape for value in constants))))
                return np.asarray(numbers(*constants))
            if listed:
                values = [value if isinstance(value, np.ndarray) else node.tape.cells(value) for value in values]
            made = level_by_level(numbers, values)
        if made is not None:
            return made
        if forms is None:
            raise CannotRead(refusal)
        return forms(node, *aligned(node, values))

    return handler


def several(pair: Handler) -> Handler:
    """An operator of any number of tensors (Sum, Max, Min), two at a time."""

    def handler(node: Node) -> Value:
        value = node.given(0)
        for i in range(1, len(node.inputs)):
            value = pair(replace(node, inputs=(value, node.given(i))))
        return value

    return handler


def _divided(one: Any, other: Any) -> np.ndarray:
    whole = all(np.asarray(value).dtype.kind in "iu" for value in (one, other))
    if whole and not np.all(other):
        raise CannotRead("divides by 0")
    made = np.asarray(one) / np.asarray(other)
    return np.trunc(made).astype(np.asarray(one).dtype) if whole else made


def _product(node: Node, one: Forms, other: Forms) -> Forms:
    if one.parts and other.parts:
        raise CannotRead("combines two computed values by other means than a sum, which is not supported")
    return other.scaled(one.constant) if other.parts else one.scaled(other.constant)


def _quotient(node: Node, one: Forms, other: Forms) -> Forms:
    if other.parts:
        if one.parts:
            return _product(node, one, other)
        raise CannotRead("divides by a computed value, which is not supported")
    if not other.constant.all():
        raise CannotRead("divides by 0")
    return one.scaled(1.0 / other.constant)


def _extreme(*, larger: bool) -> Callable[[Node, Forms, Forms], Forms]:
    def forms(node: Node, one: Forms, other: Forms) -> Forms:
        if one.parts and other.parts:
            if larger:
                return one.plus(relu(other.minus(one), node.name))
            return one.minus(relu(one.minus(other), node.name))
        value, bound = (one, other.constant) if one.parts else (other, one.constant)
        return clipped(value, bound if larger else -np.inf, np.inf if larger else bound, node.name)

    return forms


def power(node: Node) -> Value:
    def forms(_: Node, one: Forms, other: Forms) -> Forms:
        if other.parts or not (other.constant == 1).all():
            raise CannotRead("raises a computed value to a power, which is not supported")
        return one

    node.needed(1)
    return pointwise(2, np.power, forms)(node)


add = pointwise(2, np.add, lambda node, one, other: one.plus(other))
multiply = pointwise(2, np.multiply, _product)


def _clip(node: Node) -> Value:
    value, low, high = node.given(0), node.constant(1, "min"), node.constant(2, "max")
    if not isinstance(value, Forms):
        return by_value(value, lambda numbers: np.clip(numbers, low, high))
    return clipped(value, -np.inf if low is None else low, np.inf if high is None else high, node.name)


def is_nan(node: Node) -> Value:
    value = node.given(0)
    if isinstance(value, np.ndarray):
        return np.asarray(value != value)
    return np.zeros(value.shape, bool)  # people of a domain have all their values


def where(node: Node) -> Value:
    values = [node.given(i) for i in range(3)]
    condition = values[0]
    if isinstance(condition, np.ndarray) and (condition.all() or not condition.any()):
        chosen, other = (values[1], values[2]) if condition.all() else (values[2], values[1])
        if not isinstance(chosen, np.ndarray):
            return chosen
        if not isinstance(other, np.ndarray):  # of the people's shape, as the graph says
            nothing = multiply(replace(node, inputs=(other, np.zeros(1))))
            return add(replace(node, inputs=(nothing, chosen)))
    refusal = "chooses between computed values by a condition, which is not supported"
    return pointwise(3, np.where, refusal=refusal)(node)


# --- sums ---


def matmul(node: Node) -> Value:
    one, other = node.given(0), node.given(1)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        affordable(one.size * (other.shape[-1] if other.ndim > 1 else 1))
        return np.matmul(one, other)
    if not isinstance(other, np.ndarray):
        raise CannotRead("multiplies by a computed matrix; the right factor must be a constant")
    if other.ndim == 1:
        return moved(times_matrix(node.forms(0), other.astype(np.float64)[:, None]), lambda entries: entries[..., 0])
    return times_matrix(node.forms(0), other.astype(np.float64))


def gemm(node: Node) -> Value:
    if node.attributes.get("transA", 0):
        raise CannotRead("transposes the people (transA); each must be decided alone")
    weight = node.needed(1).astype(np.float64)
    weight = weight.T if node.attributes.get("transB", 0) else weight
    made = times_matrix(node.forms(0), weight * float(node.attributes.get("alpha", 1.0)))
    bias, beta = node.optional(2), float(node.attributes.get("beta", 1.0))
    if bias is None:
        return made
    if isinstance(bias, np.ndarray):
        return made.plus(np.broadcast_to(beside(made, bias) * beta, made.tail).ravel())
    one, other = aligned(node, [made, bias])
    return one.plus(other.scaled(beta))


def batch_normalization(node: Node) -> Value:
    value = node.forms(0)
    if node.attributes.get("training_mode", 0):
        raise CannotRead("normalises by the batch; export the model for inference (in PyTorch: model.eval())")
    scale, bias, mean, variance = (node.needed(i).astype(np.float64).ravel() for i in range(1, 5))
    if len(value.tail) != 1 or any(len(v) != value.size for v in (scale, bias, mean, variance)):
        raise CannotRead(f"normalises {value.tail} by {len(scale)} numbers")
    spread = variance + float(node.attributes.get("epsilon", 1e-5))
    if not (spread > 0).all():
        raise CannotRead("normalises by a variance that is not positive")
    factor = scale / np.sqrt(spread)
    return value.scaled(factor).plus(bias - mean * factor)


def reduce(mean: bool) -> Handler:
    def handler(node: Node) -> Value:
        value, axes = node.given(0), node.constant(1, "axes")
        if isinstance(value, np.ndarray) or axes is None or axes.size != 1:
            raise CannotRead("sums over anything but one axis of a person's values, which is not supported")
        axis = checked_axis(int(axes.ravel()[0]), value.ndim)
        not_people(value, axis)
        last = moved(value, lambda entries: np.moveaxis(entries, axis, -1))
        count = value.tail[axis - 1]
        made = times_matrix(node.tape.forms(last), np.full((count, 1), 1.0 / count if mean else 1.0))
        if node.attributes.get("keepdims", 1):
            return moved(made, lambda entries: np.moveaxis(entries, -1, axis))
        return moved(made, lambda entries: entries[..., 0])

    return handler


# --- activations ---


def _elementwise(forms: Callable[[Node, Forms], Forms]) -> Handler:
    def handler(node: Node) -> Value:
        value = node.given(0)
        made = forms(node, node.tape.forms(value))
        return made.constant.reshape(value.shape).astype(value.dtype) if isinstance(value, np.ndarray) else made

    return handler


def _hard_sigmoid(node: Node, value: Forms) -> Forms:
    alpha, beta = float(node.attributes.get("alpha", 0.2)), float(node.attributes.get("beta", 0.5))
    return clipped(value.scaled(alpha).plus(beta), 0.0, 1.0, node.name)


def _gelu(node: Node, value: Forms) -> Forms:
    if node.attributes.get("approximate", "none") != "none":
        raise CannotRead("approximates GELU by tanh; use the exact one")
    return activation("gelu", value, node.name)


def _rowwise(kind: str) -> Handler:
    def handler(node: Node) -> Value:
        value = node.forms(0)
        if node.axis(value.ndim, 1 if node.version < 13 else -1) != 1:
            raise CannotRead("takes a softmax along another axis than the classes")
        return activation(kind, value, node.name)

    return handler


# --- the decision ---


def argmax(node: Node) -> Value:
    scores = node.forms(0)
    if node.axis(scores.ndim, 0) != 1 or len(scores.tail) != 1 or node.attributes.get("select_last_index", 0):
        raise CannotRead("chooses the largest along another axis than the classes, or the last of equal ones")
    if scores.size < 2:
        raise CannotRead("chooses the largest of one score: everybody gets the same decision")
    chosen = Cell(Decision(scores, node.name), np.arange(scores.size))
    return AffineCells((1,) if node.attributes.get("keepdims", 1) else (), (chosen,))


def _comparison(numbers: Callable[..., np.ndarray], *, less: bool, ties: bool) -> Handler:
    def decides(node: Node, one: Forms, other: Forms) -> AffineCells:
        people = one if one.parts else other
        if _raw_numbers(people, node):
            node.tape.cells(people)  # a column compared as it stands: its values must be listed
        score = one.minus(other)
        if score.size != 1:
            raise CannotRead(f"compares {score.size} computed values; one decision is read")
        decision = Decision(score.scaled(-1.0) if less else score, node.name, ties)
        return AffineCells(score.tail, (Cell(decision, np.array([False, True])),))

    return pointwise(2, numbers, decides)


def _raw_numbers(value: Forms, node: Node) -> bool:
    matrix = value.parts.get(node.tape.input)
    if matrix is None or len(value.parts) > 1 or value.constant.any():
        return False
    return bool(((matrix != 0).sum(axis=1) == 1).all() and (matrix.sum(axis=1) == 1.0).all())


def one_hot(node: Node) -> AffineCells:
    index, depth, values = node.given(0), int(node.needed(1).ravel()[0]), node.needed(2).ravel()
    if isinstance(index, np.ndarray):
        raise CannotRead("one-hot encodes a constant, which is not supported")
    if node.axis(index.ndim + 1, -1) != index.ndim or len(values) != 2 or depth < 1:
        raise CannotRead("one-hot encodes along another axis than the last")
    cells = node.tape.cells(index).cells
    affordable(len(cells) * depth)
    made = []
    for cell in cells:
        place = cell.values.astype(np.int64)
        made += cell.one_hot(np.where(place < 0, place + depth, place), depth, values)
    return AffineCells((*index.tail, depth), tuple(made))


SEVERAL = "combines conditions on several features, which is not supported"
STANDARD: dict[str, Handler] = {
    **MOVING,
    "Add": add, "Sub": pointwise(2, np.subtract, lambda node, one, other: one.minus(other)), "Mul": multiply,
    "Div": pointwise(2, _divided, _quotient), "Sum": several(add), "Pow": power, "MatMul": matmul, "Gemm": gemm,
    "Max": several(pointwise(2, np.maximum, _extreme(larger=True))),
    "Min": several(pointwise(2, np.minimum, _extreme(larger=False))),
    "BatchNormalization": batch_normalization, "ReduceSum": reduce(False), "ReduceMean": reduce(True),
    "Neg": _elementwise(lambda node, v: v.scaled(-1.0)),
    "Relu": _elementwise(lambda node, v: relu(v, node.name)),
    "LeakyRelu": _elementwise(lambda node, v: leaky_relu(v, float(node.attributes.get("alpha", 0.01)), node.name)),
    "PRelu": _elementwise(
        lambda node, v: leaky_relu(v, np.broadcast_to(beside(v, node.needed(1)), v.tail).ravel(), node.name)
    ),
    "Tanh": _elementwise(lambda node, v: activation("tanh", v, node.name)),
    "Sigmoid": _elementwise(lambda node, v: activation("sigmoid", v, node.name)),
    "HardSigmoid": _elementwise(_hard_sigmoid),
    "Gelu": _elementwise(_gelu),
    "Abs": _elementwise(lambda node, v: relu(v, node.name).plus(relu(v.scaled(-1.0), node.name))),
    "Clip": _clip, "Softmax": _rowwise("softmax"), "LogSoftmax": _rowwise("log_softmax"),
    "Sqrt": pointwise(1, np.sqrt), "Exp": pointwise(1, np.exp), "Log": pointwise(1, np.log),
    "Reciprocal": pointwise(1, lambda v: 1.0 / v), "Floor": pointwise(1, np.floor), "IsNaN": is_nan,
    "Not": pointwise(1, np.logical_not, refusal=SEVERAL, listed=True),
    "And": pointwise(2, np.logical_and, refusal=SEVERAL, listed=True),
    "Or": pointwise(2, np.logical_or, refusal=SEVERAL, listed=True),
    "Equal": pointwise(2, np.equal, refusal=SEVERAL, listed=True), "Where": where,
    "Greater": _comparison(np.greater, less=False, ties=False), "Less": _comparison(np.less, less=True, ties=False),
    "GreaterOrEqual": _comparison(np.greater_equal, less=False, ties=True),
    "LessOrEqual": _comparison(np.less_equal, less=True, ties=True),
    "ArgMax": argmax, "OneHot": one_hot,
}  # fmt: skip
