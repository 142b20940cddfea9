"""Inputs of one ONNX operator, and how values are moved, joined and computed level by level."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.importers.affine import AffineCells, CannotRead, Cell, Forms, PeopleTensor, Tape, Value, affordable

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
