"""Inputs of one ONNX operator, and how values are moved, joined and computed level by level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.importers.affine import (
    AffineCells,
    CannotRead,
    Cell,
    Forms,
    PeopleTensor,
    Tape,
    Value,
    affordable,
    concatenated,
    joined_index,
)
from bornfair.people.features import NUMERIC

UNKNOWN_ROWS = 1_000_003  # stands for the number of people in a shape; a prime no layer has as its width


@dataclass(frozen=True, eq=False)
class Zipped:
    """Scores handed out as a map from class to score."""

    scores: Forms
    labels: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Node:
    """One node of a graph with the values of its inputs."""

    operator: str
    name: str
    inputs: tuple[Value | None, ...]
    attributes: dict[str, Any]
    outputs: int
    version: int  # of the operator set
    tape: Tape
    rows: int  # of every tensor of people: a fixed number, or UNKNOWN_ROWS

    def given(self, position: int) -> Value:
        value = self.optional(position)
        if value is None:
            raise CannotRead(f"lacks its input {position}")
        return value

    def optional(self, position: int) -> Value | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def forms(self, position: int = 0) -> Forms:
        value = self.given(position)
        if isinstance(value, np.ndarray):
            raise CannotRead("has a constant where people are expected")
        return self.tape.forms(value)

    def constant(self, position: int, attribute: str = "") -> np.ndarray | None:
        """An input that must be a constant, or the attribute that stood for it in older operator sets."""
        value = self.optional(position)
        if value is None:
            found = self.attributes.get(attribute)
            return None if found is None else np.asarray(found)
        if not isinstance(value, np.ndarray):
            raise CannotRead(f"takes its input {position} from the person, where only a constant is supported")
        return value

    def needed(self, position: int, attribute: str = "") -> np.ndarray:
        found = self.constant(position, attribute)
        if found is None:
            raise CannotRead(f"lacks its input {position}")
        return found

    def axis(self, rank: int, default: int | None = None) -> int:
        axis = self.attributes.get("axis", default)
        if axis is None:
            raise CannotRead("does not say along which axis it works")
        return checked_axis(int(axis), rank)


def listed(attributes: dict[str, Any], *names: str) -> list[Any]:
    """The first of these attributes that is there, as a list."""
    for name in names:
        found = attributes.get(name)
        if found is not None and len(found):
            return found.ravel().tolist() if isinstance(found, np.ndarray) else list(found)
    return []


def checked_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise CannotRead(f"names axis {axis} of a tensor with {rank} axes")
    return axis % rank


def not_people(value: Value, *axes: int) -> None:
    if 0 in axes and isinstance(value, PeopleTensor):
        raise CannotRead("works along the first axis, across people; each must be decided alone")


def moved(value: Value, function: Callable[[np.ndarray], np.ndarray]) -> Value:
    """Entries put elsewhere, by what `function` does to an array; people stay in the first axis."""
    if isinstance(value, np.ndarray):
        return function(value)
    index = function(np.arange(value.size).reshape(value.shape))
    if index.ndim < 1 or index.shape[0] != 1:
        raise CannotRead("mixes people with one another; each must be decided alone")
    return value.picked(index[0])


def by_value(value: np.ndarray | AffineCells, function: Callable[[np.ndarray], Any]) -> np.ndarray | AffineCells:
    """A function of each constant, or of each value that an entry can have."""
    return value.mapped(function) if isinstance(value, AffineCells) else np.asarray(function(value))


def beside(value: Forms | AffineCells, constant: np.ndarray) -> np.ndarray:
    """A constant that is combined with people, without their axis."""
    shape = constant.shape
    while len(shape) > len(value.tail) and shape[0] == 1:
        shape = shape[1:]
    if len(shape) > len(value.tail):
        raise CannotRead(f"combines [people, {value.tail}] with a constant of shape {constant.shape}")
    return constant.reshape(shape)


def broadcast(value: Forms | AffineCells, tail: tuple[int, ...]) -> Forms | AffineCells:
    if value.tail == tail:
        return value
    if len(value.tail) != len(tail):
        raise CannotRead(f"combines tensors of people with {len(value.tail)} and {len(tail)} further axes")
    return value.picked(np.broadcast_to(np.arange(value.size).reshape(value.tail), tail))


def aligned(node: Node, values: Sequence[Value]) -> list[Forms]:
    """People and constants as forms of the same tail."""
    tail, fitted = _fitted(values)
    return [
        Forms(tail, {}, value.astype(np.float64).ravel()) if isinstance(value, np.ndarray) else node.tape.forms(value)
        for value in fitted
    ]


def level_by_level(function: Callable[..., np.ndarray], values: Sequence[Value]) -> AffineCells | None:
    """A function of constants and of entries that all depend on the same feature; None if it is not so."""
    if any(isinstance(value, Forms) for value in values):
        return None
    tail, fitted = _fitted(values)
    parts = [value.cells if isinstance(value, AffineCells) else value.ravel() for value in fitted]  # type: ignore[union-attr]
    made = []
    for entries in zip(*parts, strict=True):
        sources = {id(entry.source): entry.source for entry in entries if isinstance(entry, Cell)}
        if len(sources) > 1:
            return None
        arguments = [entry.values if isinstance(entry, Cell) else entry for entry in entries]
        (source,) = sources.values()
        made.append(Cell(source, np.asarray(function(*arguments))))
    return AffineCells(tail, tuple(made))


def _fitted(values: Sequence[Value]) -> tuple[tuple[int, ...], list[Value]]:
    """The tail that people and constants have together, and each of them broadcast to it."""
    first = next(value for value in values if not isinstance(value, np.ndarray))
    bare = [beside(first, value) if isinstance(value, np.ndarray) else value for value in values]
    tail = first.tail
    for value in bare:
        if isinstance(value, PeopleTensor) and len(value.tail) != len(tail):
            raise CannotRead(f"combines [people, {first.tail}] with [people, {value.tail}], across people")
        shape = value.shape if isinstance(value, np.ndarray) else value.tail
        try:
            tail = np.broadcast_shapes(tail, shape)
        except ValueError:
            raise CannotRead(f"combines tensors of the shapes {tail} and {shape}, which do not fit") from None
    affordable(math.prod(tail))
    return tail, [np.broadcast_to(v, tail) if isinstance(v, np.ndarray) else broadcast(v, tail) for v in bare]


def identity(node: Node) -> Value:
    return node.given(0)


def dropout(node: Node) -> Value:
    training = node.constant(2)
    if training is not None and training.any():
        raise CannotRead("drops values out at random; export the model for inference (in PyTorch: model.eval())")
    return node.given(0)


def reshape(node: Node) -> Value:
    value, target = node.given(0), [int(n) for n in node.needed(1, "shape").ravel()]
    if isinstance(value, np.ndarray):
        wanted = [value.shape[i] if n == 0 and i < value.ndim else n for i, n in enumerate(target)]
        return value.reshape(wanted)
    if not target or target[0] not in (0, -1, node.rows) or (node.attributes.get("allowzero", 0) and 0 in target):
        raise CannotRead(f"reshapes people to {target}; the first axis must stay the people")
    tail = [value.tail[i] if n == 0 and i < len(value.tail) else n for i, n in enumerate(target[1:])]
    if tail.count(-1) == 1 and target[0] != -1:
        rest = math.prod(n for n in tail if n != -1)
        tail[tail.index(-1)] = value.size // rest if rest else 0
    if any(n < 0 for n in tail) or math.prod(tail) != value.size:
        raise CannotRead(f"reshapes [people, {value.tail}] to {target}, which mixes people with one another")
    return moved(value, lambda index: index.reshape(1, *tail))


def flatten(node: Node) -> Value:
    value = node.given(0)
    axis = int(node.attributes.get("axis", 1))
    if isinstance(value, np.ndarray):
        return value.reshape(math.prod(value.shape[:axis]), -1)
    if axis % value.ndim != 1 and value.ndim > 1:
        raise CannotRead(f"flattens at axis {axis}; people must stay in the first axis")
    return moved(value, lambda index: index.reshape(1, -1))


def squeeze(node: Node) -> Value:
    value, axes = node.given(0), node.constant(1, "axes")
    if axes is None:
        first = 0 if isinstance(value, np.ndarray) else 1  # behind the people
        axes = np.array([i for i, n in enumerate(value.shape) if n == 1 and i >= first], np.int64)
    found = _not_of_people(axes, value, value.ndim)
    return moved(value, lambda index: np.squeeze(index, axis=found))


def unsqueeze(node: Node) -> Value:
    value, axes = node.given(0), node.needed(1, "axes").ravel()
    found = _not_of_people(axes, value, value.ndim + len(axes))
    return moved(value, lambda index: np.expand_dims(index, found))


def _not_of_people(axes: np.ndarray, value: Value, rank: int) -> tuple[int, ...]:
    found = tuple(checked_axis(int(axis), rank) for axis in axes.ravel())
    not_people(value, *found)
    return found


def transpose(node: Node) -> Value:
    value = node.given(0)
    order = [int(axis) for axis in node.attributes.get("perm", range(value.ndim)[::-1])]
    if sorted(order) != list(range(value.ndim)):
        raise CannotRead(f"permutes axes as {order}, but there are {value.ndim}")
    if not isinstance(value, np.ndarray) and order[0] != 0:
        raise CannotRead("transposes people away from the first axis; only constants may be transposed so")
    return moved(value, lambda index: np.transpose(index, order))


def gather(node: Node) -> Value:
    value, index = node.given(0), node.given(1)
    axis = node.axis(value.ndim, 0)
    if not isinstance(index, np.ndarray):
        return _looked_up(node, value, index, axis)
    not_people(value, axis)
    return moved(value, lambda entries: np.take(entries, _inside(index, value.shape[axis]), axis=axis))


def _looked_up(node: Node, value: Value, index: Forms | AffineCells, axis: int) -> AffineCells:
    """Rows of a constant chosen by a category (an embedding), or class names chosen by the decision."""
    if not isinstance(value, np.ndarray) or axis != 0:
        raise CannotRead("chooses columns by a value of the person, which is not supported")
    rest = value.shape[1:]
    made = []
    for cell in node.tape.cells(index).cells:
        rows = value[_inside(cell.values, len(value))].reshape(len(cell.values), -1)
        made += [Cell(cell.source, rows[:, j]) for j in range(rows.shape[1])]
    return AffineCells((*index.tail, *rest), tuple(made))


def _inside(index: np.ndarray, length: int) -> np.ndarray:
    positions = np.asarray(index).astype(np.int64)
    if ((positions < -length) | (positions >= length)).any():
        raise CannotRead(f"looks up position {int(positions.ravel()[0])} of {length}")
    return positions % max(length, 1)


def slice_(node: Node) -> Value:
    value = node.given(0)
    starts, ends = node.needed(1, "starts").ravel(), node.needed(2, "ends").ravel()
    axes, steps = node.constant(3, "axes"), node.constant(4, "steps")
    which = range(len(starts)) if axes is None else [checked_axis(int(a), value.ndim) for a in axes.ravel()]
    cut = [slice(None)] * value.ndim
    for i, axis in enumerate(which):
        step = 1 if steps is None else int(steps.ravel()[i])
        if axis == 0 and not isinstance(value, np.ndarray) and (starts[i] != 0 or ends[i] < node.rows or step != 1):
            not_people(value, 0)
        end = int(ends[i])
        cut[axis] = slice(int(starts[i]), None if step < 0 and end < -(2**31) else end, step)
    return moved(value, lambda entries: entries[tuple(cut)])


def split(node: Node) -> tuple[Value, ...]:
    value = node.given(0)
    axis = node.axis(value.ndim, 0)
    not_people(value, axis)
    length = value.shape[axis]
    sizes = node.constant(1, "split")
    if sizes is None:
        each = -(-length // node.outputs)
        sizes = np.array([min(each, max(length - each * i, 0)) for i in range(node.outputs)])
    ends = np.cumsum(sizes.ravel().astype(np.int64))
    if len(ends) != node.outputs or ends[-1] != length or (sizes < 0).any():
        raise CannotRead(f"splits {length} columns into {sizes.tolist()}")
    return tuple(
        moved(value, lambda entries, i=i: np.split(entries, ends[:-1], axis=axis)[i])  # type: ignore[misc]
        for i in range(node.outputs)
    )


def concat(node: Node) -> Value:
    values = [node.given(i) for i in range(len(node.inputs))]
    people = [value for value in values if not isinstance(value, np.ndarray)]
    axis = node.axis(values[0].ndim)
    if not people:
        affordable(sum(value.size for value in values))
        return np.concatenate(values, axis=axis)  # type: ignore[arg-type]
    not_people(people[0], axis)
    whole: list[Forms | AffineCells] = []
    for value in values:
        if not isinstance(value, np.ndarray):
            whole.append(value)
        elif value.ndim == people[0].ndim and value.shape[0] == 1:
            whole.append(node.tape.forms(value[0]))
        else:
            raise CannotRead(f"joins people with a constant of shape {value.shape}")
    if len({len(value.tail) for value in whole}) != 1:
        raise CannotRead("joins tensors with different numbers of axes")
    cells = [value for value in whole if isinstance(value, AffineCells)]
    if len(cells) == len(whole):
        index = joined_index([value.tail for value in cells], axis - 1)
        every = tuple(cell for value in cells for cell in value.cells)
        return AffineCells((len(every),), every).picked(index)
    return concatenated([node.tape.forms(value) for value in whole], axis - 1)


def expand(node: Node) -> Value:
    value, shape = node.given(0), tuple(int(n) for n in node.needed(1).ravel())
    if isinstance(value, np.ndarray):
        wanted = np.broadcast_shapes(value.shape, tuple(1 if n == node.rows else n for n in shape))
        affordable(math.prod(wanted))
        return np.broadcast_to(value, wanted)
    if len(shape) != value.ndim or shape[0] not in (1, node.rows):
        raise CannotRead(f"expands people to {shape}")
    tail = np.broadcast_shapes(value.tail, shape[1:])
    affordable(math.prod(tail))
    return broadcast(value, tail)


def shape_of(node: Node) -> np.ndarray:
    value = node.given(0)
    shape = value.shape if isinstance(value, np.ndarray) else (node.rows, *value.tail)
    return np.array(shape[node.attributes.get("start", 0) : node.attributes.get("end")], np.int64)


def constant(node: Node) -> np.ndarray:
    for name in ("value", "value_float", "value_int", "value_floats", "value_ints", "value_string", "value_strings"):
        if name in node.attributes:
            found = node.attributes[name]
            return found if isinstance(found, np.ndarray) else np.asarray(found)
    raise CannotRead("holds a constant of a kind that is not supported")


def constant_of_shape(node: Node) -> np.ndarray:
    shape = [1 if n == node.rows else int(n) for n in node.needed(0).ravel()]
    affordable(math.prod(shape))
    return np.full(shape, node.attributes.get("value", np.zeros(1, np.float32)).ravel()[0])


def cast(node: Node) -> Value:
    from onnx import helper

    value, target = node.given(0), helper.tensor_dtype_to_np_dtype(int(node.attributes["to"]))
    text = target == np.dtype(object) or target.kind in "OUS"
    if not text and target.kind not in "biuf":
        raise CannotRead(f"casts to {target}, which is not supported; export the model in float32")
    if isinstance(value, np.ndarray) and not text:
        return value.astype(target)
    if not isinstance(value, Forms):
        return by_value(value, as_text if text else lambda levels: _as_number(levels, target))
    if text or target.kind == "b":
        return node.tape.cells(value)
    if target.itemsize < 4 and target.kind == "f":
        raise CannotRead(f"rounds to {target}; export the model in float32")
    if target.kind in "iu" and not _whole(value, node):
        raise CannotRead("cuts numbers off to whole ones, which is not supported")
    return value


def as_text(levels: np.ndarray) -> np.ndarray:
    if levels.dtype.kind == "f" and (levels == np.round(levels)).all():
        levels = levels.astype(np.int64)
    return np.array([str(level) for level in levels.ravel().tolist()], object).reshape(levels.shape)


def _as_number(levels: np.ndarray, target: np.dtype) -> np.ndarray:
    try:
        return levels.astype(np.float64).astype(target) if levels.dtype.kind in "OUS" else levels.astype(target)
    except ValueError:
        raise CannotRead(f"reads the text {levels[0]!r} as a number") from None


def _whole(value: Forms, node: Node) -> bool:
    """Whether every entry is a whole number for everybody: whole multiples of whole numbers."""
    if any(block is not node.tape.input for block in value.parts) or (value.constant % 1).any():
        return False
    for matrix in value.parts.values():
        for feature in node.tape.features:
            share = matrix[:, node.tape.columns[feature.name]]
            if (share % 1).any() or (isinstance(feature, NUMERIC) and feature.kind != "integer" and share.any()):
                return False
    return True


MOVING: dict[str, Any] = {
    "Identity": identity, "Dropout": dropout, "Reshape": reshape, "Flatten": flatten, "Squeeze": squeeze,
    "Unsqueeze": unsqueeze, "Transpose": transpose, "Gather": gather, "Slice": slice_, "Split": split,
    "Concat": concat, "Expand": expand, "Shape": shape_of, "Constant": constant, "ConstantOfShape": constant_of_shape,
    "Cast": cast, "CastLike": identity,
}  # fmt: skip
