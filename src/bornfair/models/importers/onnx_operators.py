"""What do the standard ONNX operators do to affine forms? One function for each, in one table.

Constants are computed as they are; entries that depend on one category are computed category by category.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bornfair.models.importers.affine import (
    CannotRead,
    Cell,
    Cells,
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
from bornfair.models.importers.onnx_moving import MOVING
from bornfair.models.importers.onnx_node import (
    Node,
    against,
    both,
    broadcast,
    checked_axis,
    level_by_level,
    moved,
    not_people,
    rank,
)

Handler = Callable[[Node], Any]


# --- arithmetic ---


def _binary(
    numbers: Callable[..., np.ndarray], forms: Callable[[Node, Forms, Forms], Forms], linear: Callable[..., Forms]
) -> Handler:
    """An operator of two tensors, each of which may be constant. `linear` gets (node, forms, numbers, swapped)."""

    def handler(node: Node) -> Value:
        one, other = node.given(0), node.given(1)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            affordable(math.prod(np.broadcast_shapes(one.shape, other.shape)))
            return numbers(one, other)
        by_level = level_by_level(numbers, [one, other])
        if by_level is not None:
            return by_level
        if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
            fixed, people = (one, other) if isinstance(one, np.ndarray) else (other, one)
            assert isinstance(fixed, np.ndarray) and not isinstance(people, np.ndarray)
            tail, fixed = against(people, fixed)
            wide = node.tape.forms(broadcast(people, tail))
            flat = np.broadcast_to(fixed.astype(np.float64), tail).ravel()
            return linear(node, wide, flat, isinstance(one, np.ndarray))
        return forms(node, *both(node, one, other))

    return handler


def _divide(one: Any, other: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        if np.asarray(one).dtype.kind in "iu" and np.asarray(other).dtype.kind in "iu":
            if not np.all(other):
                raise CannotRead("divides by 0")
            return np.trunc(np.asarray(one) / np.asarray(other)).astype(np.asarray(one).dtype)
        return np.asarray(one) / np.asarray(other)


def _quotient(node: Node, value: Forms, numbers: np.ndarray, swapped: bool) -> Forms:
    if swapped:
        raise CannotRead("divides by a computed value, which is not supported")
    if not numbers.all():
        raise CannotRead("divides by 0")
    return value.scaled(1.0 / numbers)


def _no_product(node: Node, one: Forms, other: Forms) -> Forms:
    if not one.parts:
        return other.scaled(one.constant)
    if not other.parts:
        return one.scaled(other.constant)
    raise CannotRead("combines two computed values by other means than a sum, which is not supported")


def _larger(node: Node, one: Forms, other: Forms) -> Forms:
    return one.plus(relu(other.minus(one), node.name))


def _smaller(node: Node, one: Forms, other: Forms) -> Forms:
    return one.minus(relu(one.minus(other), node.name))


def several(pair: Handler) -> Handler:
    """An operator of any number of tensors (Sum, Max, Min), two at a time."""

    def handler(node: Node) -> Value:
        value = node.given(0)
        for i in range(1, len(node.inputs)):
            given = (value, node.given(i))
            value = pair(Node(node.operator, node.name, given, {}, 1, node.version, node.tape, node.rows))
        return value

    return handler


def _signed(value: Forms, sign: float) -> Forms:
    return value.scaled(np.full(value.size, sign))


add = _binary(np.add, lambda node, a, b: a.plus(b), lambda node, a, n, swapped: a.plus(n))
subtract = _binary(
    np.subtract,
    lambda node, a, b: a.minus(b),
    lambda node, a, n, swapped: _signed(a, -1.0).plus(n) if swapped else a.plus(-n),
)
multiply = _binary(np.multiply, _no_product, lambda node, a, n, swapped: a.scaled(n))
divide = _binary(_divide, _no_product, _quotient)
maximum = _binary(np.maximum, _larger, lambda node, a, n, swapped: clipped(a, n, np.inf, node.name))
minimum = _binary(np.minimum, _smaller, lambda node, a, n, swapped: clipped(a, -np.inf, n, node.name))


def power(node: Node) -> Value:
    exponent = node.needed(1)
    value = node.given(0)
    if isinstance(value, np.ndarray):
        return np.power(value, exponent)
    if isinstance(value, Forms) and (exponent == 1).all():
        return value
    made = level_by_level(np.power, [value, exponent])
    if made is None:
        raise CannotRead("raises a computed value to a power, which is not supported")
    return made


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
        return made.plus(np.broadcast_to(against(made, bias)[1] * beta, made.tail).astype(np.float64).ravel())
    one, other = both(node, made, bias)
    return one.plus(_signed(other, beta))


def batch_normalization(node: Node) -> Value:
    value = node.forms(0)
    if node.attributes.get("training_mode", 0):
        raise CannotRead("normalises by the batch; export the model for inference (in PyTorch: model.eval())")
    scale, bias, mean, variance = (node.needed(i).astype(np.float64).ravel() for i in range(1, 5))
    if len(value.tail) != 1 or any(len(v) != value.size for v in (scale, bias, mean, variance)):
        raise CannotRead(f"normalises {value.tail} by {len(scale)} numbers")
    return normalised(value, scale, bias, mean, variance, float(node.attributes.get("epsilon", 1e-5)))


def normalised(
    value: Forms, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float
) -> Forms:
    """Batch normalisation as it is at inference: affine."""
    if not (variance + epsilon > 0).all():
        raise CannotRead("normalises by a variance that is not positive")
    factor = scale / np.sqrt(variance + epsilon)
    return value.scaled(factor).plus(bias - mean * factor)


def reduce(mean: bool) -> Handler:
    def handler(node: Node) -> Value:
        value, axes = node.given(0), node.constant(1, "axes")
        if isinstance(value, np.ndarray) or axes is None or axes.size != 1:
            raise CannotRead("sums over anything but one axis of a person's values, which is not supported")
        axis = checked_axis(int(axes.ravel()[0]), rank(value))
        not_people(axis, value)
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


def _constant_only(numbers: Callable[[np.ndarray], np.ndarray]) -> Handler:
    """A function that is read of constants and of categories only."""

    def handler(node: Node) -> Value:
        value = node.given(0)
        with np.errstate(all="ignore"):
            if isinstance(value, np.ndarray):
                return numbers(value)
            if isinstance(value, Cells):
                return value.mapped(numbers)
        raise CannotRead("is a function that our networks do not have; use ReLU, tanh or sigmoid layers")

    return handler


def _clip(node: Node) -> Value:
    value, low, high = node.given(0), node.constant(1, "min"), node.constant(2, "max")
    if isinstance(value, Forms):
        bounds = (
            -np.inf if low is None else low.astype(np.float64),
            np.inf if high is None else high.astype(np.float64),
        )
        return clipped(value, *bounds, node.name)
    return np.clip(value, low, high) if isinstance(value, np.ndarray) else value.mapped(lambda v: np.clip(v, low, high))


def _prelu(node: Node, value: Forms) -> Forms:
    slope = against(value, node.needed(1))[1]
    return leaky_relu(value, np.broadcast_to(slope.astype(np.float64), value.tail).ravel(), node.name)


def _hard_sigmoid(node: Node, value: Forms) -> Forms:
    alpha, beta = float(node.attributes.get("alpha", 0.2)), float(node.attributes.get("beta", 0.5))
    return clipped(_signed(value, alpha).plus(np.full(value.size, beta)), 0.0, 1.0, node.name)


def _gelu(node: Node, value: Forms) -> Forms:
    if node.attributes.get("approximate", "none") != "none":
        raise CannotRead("approximates GELU by tanh; use the exact one")
    return activation("gelu", value, node.name)


def _rowwise(kind: str) -> Handler:
    def handler(node: Node) -> Value:
        value = node.forms(0)
        if node.axis(rank(value), 1 if node.version < 13 else -1) != 1:
            raise CannotRead("takes a softmax along another axis than the classes")
        return activation(kind, value, node.name)

    return handler


def _abs(node: Node, value: Forms) -> Forms:
    return relu(value, node.name).plus(relu(_signed(value, -1.0), node.name))


# --- the decision ---


def argmax(node: Node) -> Value:
    scores = node.forms(0)
    if node.axis(rank(scores), 0) != 1 or len(scores.tail) != 1 or node.attributes.get("select_last_index", 0):
        raise CannotRead("chooses the largest along another axis than the classes, or the last of equal ones")
    if scores.size < 2:
        raise CannotRead("chooses the largest of one score: everybody gets the same decision")
    chosen = Cell(Decision(scores, node.name), np.arange(scores.size))
    return Cells((1,) if node.attributes.get("keepdims", 1) else (), (chosen,))


def _comparison(numbers: Callable[..., np.ndarray], *, less: bool, ties: bool) -> Handler:
    def decides(node: Node, score: Forms) -> Cells:
        if score.size != 1:
            raise CannotRead(f"compares {score.size} computed values; one decision is read")
        decision = Decision(_signed(score, -1.0) if less else score, node.name, ties)
        return Cells(score.tail, (Cell(decision, np.array([False, True])),))

    def handler(node: Node) -> Value:
        one, other = node.given(0), node.given(1)
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            return numbers(one, other)
        by_level = level_by_level(numbers, [one, other])
        if by_level is not None:
            return by_level
        people = other if isinstance(one, np.ndarray) else one
        if isinstance(people, Forms) and _raw_numbers(people, node):
            node.tape.cells(people)  # a column compared as it stands: its values must be listed
        difference = subtract(node)
        assert isinstance(difference, Forms)
        return decides(node, difference)

    return handler


def _raw_numbers(value: Forms, node: Node) -> bool:
    matrix = value.parts.get(node.tape.input)
    if matrix is None or len(value.parts) > 1 or value.constant.any():
        return False
    return bool(((matrix != 0).sum(axis=1) == 1).all() and (matrix.sum(axis=1) == 1.0).all())


def is_nan(node: Node) -> Value:
    value = node.given(0)
    if isinstance(value, np.ndarray):
        return np.asarray(value != value)
    return np.zeros((1, *value.tail), bool)  # people of a domain have all their values


def where(node: Node) -> Value:
    values = [node.given(i) for i in range(3)]
    condition = values[0]
    constants = [value for value in values if isinstance(value, np.ndarray)]
    if len(constants) == 3:
        return np.where(constants[0], constants[1], constants[2])
    if isinstance(condition, np.ndarray) and (condition.all() or not condition.any()):
        chosen, other = (values[1], values[2]) if condition.all() else (values[2], values[1])
        zero = Node("Mul", node.name, (other, np.zeros(1)), {}, 1, node.version, node.tape, node.rows)
        if isinstance(chosen, np.ndarray):  # of the people's shape, as the graph says
            return add(Node("Add", node.name, (multiply(zero), chosen), {}, 1, node.version, node.tape, node.rows))
        return chosen
    made = level_by_level(np.where, values)
    if made is None:
        raise CannotRead("chooses between computed values by a condition, which is not supported")
    return made


def _by_level(numbers: Callable[..., np.ndarray]) -> Handler:
    """Logic and equality: of constants and categories."""

    def handler(node: Node) -> Value:
        values = [node.given(i) for i in range(len(node.inputs))]
        if all(isinstance(value, np.ndarray) for value in values):
            return numbers(*values)
        people = [v if isinstance(v, np.ndarray) else node.tape.cells(v) for v in values]
        made = level_by_level(numbers, people)
        if made is None:
            raise CannotRead("combines conditions on several features, which is not supported")
        return made

    return handler


def one_hot(node: Node) -> Cells:
    index, depth, values = node.given(0), int(node.needed(1).ravel()[0]), node.needed(2).ravel()
    if isinstance(index, np.ndarray):
        raise CannotRead("one-hot encodes a constant, which is not supported")
    if node.axis(rank(index) + 1, -1) != rank(index) or len(values) != 2 or depth < 1:
        raise CannotRead("one-hot encodes along another axis than the last")
    cells = node.tape.cells(index).cells
    affordable(len(cells) * depth)
    made = []
    for cell in cells:
        place = cell.values.astype(np.int64)
        place = np.where(place < 0, place + depth, place)
        made += [Cell(cell.source, np.where(place == j, values[1], values[0])) for j in range(depth)]
    return Cells((*index.tail, depth), tuple(made))


STANDARD: dict[str, Handler] = {
    **MOVING,
    "Add": add, "Sub": subtract, "Mul": multiply, "Div": divide, "Sum": several(add), "Max": several(maximum),
    "Min": several(minimum), "Pow": power, "MatMul": matmul, "Gemm": gemm, "BatchNormalization": batch_normalization,
    "ReduceSum": reduce(False), "ReduceMean": reduce(True),
    "Neg": _elementwise(lambda node, v: _signed(v, -1.0)),
    "Relu": _elementwise(lambda node, v: relu(v, node.name)),
    "LeakyRelu": _elementwise(lambda node, v: leaky_relu(v, float(node.attributes.get("alpha", 0.01)), node.name)),
    "PRelu": _elementwise(_prelu),
    "Tanh": _elementwise(lambda node, v: activation("tanh", v, node.name)),
    "Sigmoid": _elementwise(lambda node, v: activation("sigmoid", v, node.name)),
    "HardSigmoid": _elementwise(_hard_sigmoid),
    "Gelu": _elementwise(_gelu),
    "Abs": _elementwise(_abs),
    "Clip": _clip, "Softmax": _rowwise("softmax"), "LogSoftmax": _rowwise("log_softmax"),
    "Sqrt": _constant_only(np.sqrt), "Exp": _constant_only(np.exp), "Log": _constant_only(np.log),
    "Reciprocal": _constant_only(lambda v: 1.0 / v), "Floor": _constant_only(np.floor), "IsNaN": is_nan,
    "Not": _by_level(np.logical_not), "And": _by_level(np.logical_and), "Or": _by_level(np.logical_or),
    "Equal": _by_level(np.equal), "Where": where,
    "Greater": _comparison(np.greater, less=False, ties=False), "Less": _comparison(np.less, less=True, ties=False),
    "GreaterOrEqual": _comparison(np.greater_equal, less=False, ties=True),
    "LessOrEqual": _comparison(np.less_equal, less=True, ties=True),
    "ArgMax": argmax, "OneHot": one_hot,
}  # fmt: skip
