"""Values of a foreign model as functions of a person: affine forms over the values computed before.

A tensor [people, …] is either `Forms` (each entry an affine form over the columns of the input and over the outputs of
activations) or `AffineCells` (each entry a function of one feature with finitely many values, listed one by one).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bornfair.core.errors import plain, shown
from bornfair.models.network.activations import ACTIVATIONS
from bornfair.people.features import NUMERIC, Feature

MOST_ENTRIES = 40_000_000  # of one matrix of coefficients: 320 MB
MOST_WORK = 4_000_000_000  # entries made for one model: minutes, not hours
LINKS = ("softmax", "log_softmax")  # functions of a whole row: understood only where the model ends


class CannotRead(Exception):
    """Something in a model that has no place in our networks; whoever walks the model adds where it stands."""


class NeedsLevels(Exception):
    """The model looks a number up in a list, so the domain must list its values."""

    def __init__(self, feature: str) -> None:
        super().__init__(feature)
        self.feature = feature


@dataclass(frozen=True, eq=False)
class ValueBlock:
    """Values computed together: the input's columns, or one activation's outputs."""

    kind: str
    width: int
    name: str
    before: Forms | None = None  # what the activation is applied to

    level: int = field(init=False, default=0)  # 0 for the input; an activation is one above what it reads

    def __post_init__(self) -> None:
        parts = self.before.parts if self.before is not None else {}
        object.__setattr__(self, "level", 1 + max((block.level for block in parts), default=-1))


@dataclass(frozen=True, eq=False)
class PeopleTensor:
    """A tensor [people, *tail]; like an array it has a size, and a shape in which one person stands for all."""

    tail: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.tail)

    @property
    def shape(self) -> tuple[int, ...]:
        return (1, *self.tail)

    @property
    def ndim(self) -> int:
        return 1 + len(self.tail)


@dataclass(frozen=True, eq=False)
class Forms(PeopleTensor):
    """A tensor whose entries are affine forms: entry i is Σ parts[block][i]·block + constant[i]."""

    parts: dict[ValueBlock, np.ndarray]  # float64 [entries, width of the block]
    constant: np.ndarray  # float64 [entries]

    @property
    def width(self) -> int:
        """How many numbers an entry is made of."""
        return 1 + sum(block.width for block in self.parts)

    @property
    def flat(self) -> Forms:
        return Forms((self.size,), self.parts, self.constant)

    def picked(self, index: np.ndarray) -> Forms:
        """Entries moved: `index` has the shape of the new tail and says where each entry was."""
        flat = index.ravel()
        affordable(flat.size * self.width)
        parts = {block: matrix[flat] for block, matrix in self.parts.items()}
        return Forms(index.shape, _kept(parts), self.constant[flat])

    def entry(self, position: int) -> Forms:
        """One entry by itself."""
        return self.picked(np.array([position]))

    def scaled(self, factor: np.ndarray | float) -> Forms:
        """Times one number, or each entry times its own."""
        factors = self._each(factor)
        parts = {block: matrix * factors[:, None] for block, matrix in self.parts.items()}
        return Forms(self.tail, _kept(parts), self.constant * factors)

    def plus(self, other: Forms | np.ndarray | float) -> Forms:
        """Entry by entry, of the same tail; or plus one number, or one for each entry."""
        if not isinstance(other, Forms):
            return Forms(self.tail, self.parts, self.constant + self._each(other))
        parts = dict(self.parts)
        for block, matrix in other.parts.items():
            parts[block] = parts[block] + matrix if block in parts else matrix
        return Forms(self.tail, _kept(parts), self.constant + other.constant)

    def minus(self, other: Forms) -> Forms:
        return self.plus(other.scaled(-1.0))

    def _each(self, numbers: np.ndarray | float) -> np.ndarray:
        return np.broadcast_to(np.asarray(numbers, np.float64), (self.size,))

    def finite(self) -> bool:
        return bool(np.isfinite(self.constant).all()) and all(np.isfinite(m).all() for m in self.parts.values())


@dataclass(frozen=True, eq=False)
class Decision:
    """A class chosen from scores: the place in the model where the decision is made."""

    scores: Forms  # one (positive if above 0, or at least 0) or one for each class (the first largest wins)
    name: str
    tie_is_positive: bool = False


@dataclass(frozen=True, eq=False)
class Cell:
    """One entry that depends on one feature (or on the decision) only: its value for each level."""

    source: Feature | Decision
    values: np.ndarray  # [levels], of any type

    def places(self, known: Sequence[Any], *, strict: bool) -> np.ndarray:
        """The position of each level among known categories; −1 for none, which is refused if `strict`."""
        order = {plain(category): i for i, category in enumerate(known)}
        found = np.array([order.get(plain(level), -1) for level in self.values], dtype=np.int64)
        if strict and (found < 0).any():
            raise CannotRead(
                f"does not know the category {plain(self.values[int(np.argmin(found))])!r} of '{self.source.name}', "
                f"only {shown(known)}; take it out of the domain, or train with it"
            )
        return found

    def one_hot(self, places: np.ndarray, count: int, off_on: np.ndarray) -> list[Cell]:
        """One entry for each of `count` positions, which says whether the level is there."""
        return [Cell(self.source, np.where(places == i, off_on[1], off_on[0])) for i in range(count)]


@dataclass(frozen=True, eq=False)
class AffineCells(PeopleTensor):
    """A tensor of such entries."""

    cells: tuple[Cell, ...]

    def picked(self, index: np.ndarray) -> AffineCells:
        affordable(100 * index.size)  # each is an object of its own
        return AffineCells(index.shape, tuple(self.cells[i] for i in index.ravel()))

    def mapped(self, function: Callable[[np.ndarray], Any]) -> AffineCells:
        return AffineCells(
            self.tail, tuple(Cell(cell.source, np.asarray(function(cell.values))) for cell in self.cells)
        )


Value = Forms | AffineCells | np.ndarray


class Tape:
    """The input of one model: where each feature's columns are. What was computed is kept by the forms themselves."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        self.columns: dict[str, slice] = {}
        start = 0
        for feature in self.features:
            width = 1 if isinstance(feature, NUMERIC) else len(feature.levels())
            self.columns[feature.name] = slice(start, start + width)
            start += width
        self.input = ValueBlock("input", start, "input")

    def column(self, feature: Feature, given: Callable[[np.ndarray], np.ndarray]) -> Forms | AffineCells:
        """A feature [people, 1]: a raw number as it stands, or its categories in the type that the model is given."""
        if not isinstance(feature, NUMERIC):
            return AffineCells((1,), (Cell(feature, given(np.array(feature.levels(), dtype=object))),))
        row = np.zeros((1, self.input.width))
        row[0, self.columns[feature.name].start] = 1.0
        return Forms((1,), {self.input: row}, np.zeros(1))

    def forms(self, value: Value) -> Forms:
        """A tensor as affine forms, whichever way it is held."""
        if isinstance(value, Forms):
            return value
        if isinstance(value, np.ndarray):
            numbers = np.asarray(value, np.float64)
            return Forms(numbers.shape, {}, numbers.ravel())
        affordable(value.size * self.input.width)
        matrix, constant = np.zeros((value.size, self.input.width)), np.zeros(value.size)
        for i, cell in enumerate(value.cells):
            if isinstance(cell.source, Decision):
                raise CannotRead("computes on with the decision, which is not supported; end the model there")
            if cell.values.dtype.kind not in "biuf":
                raise CannotRead(
                    f"takes numbers where the domain's '{cell.source.name}' holds {cell.values.ravel()[0]!r}; make "
                    "the encoding part of the model (a pipeline), or give the table with the encoded numbers"
                )
            numbers = cell.values.astype(np.float64)
            if (numbers == numbers[0]).all():  # does not depend on the feature at all: then no weight may say so
                constant[i] = numbers[0]
            else:
                matrix[i, self.columns[cell.source.name]] = numbers
        return Forms(value.tail, _kept({self.input: matrix}), constant)

    def cells(self, value: Value) -> AffineCells:
        """A tensor as functions of one feature each; a number that is looked up needs its values listed."""
        if isinstance(value, AffineCells):
            return value
        assert isinstance(value, Forms)
        if set(value.parts) != {self.input}:
            raise CannotRead("looks up a computed value in a list, which is not supported")
        return AffineCells(
            value.tail, tuple(self._cell(*entry) for entry in zip(value.parts[self.input], value.constant, strict=True))
        )

    def _cell(self, row: np.ndarray, constant: float) -> Cell:
        """An entry that depends on the categories of one feature, as values of its own; see `cells`."""
        columns = np.flatnonzero(row)
        for feature in self.features:
            place = self.columns[feature.name]
            if len(columns) and place.start <= columns[0] and columns[-1] < place.stop:
                if isinstance(feature, NUMERIC):
                    raise NeedsLevels(feature.name)
                return Cell(feature, row[place] + constant)
        raise CannotRead("looks up a sum of several features in a list, which is not supported")


# --- operations on forms ---


def affordable(entries: int) -> None:
    if entries > MOST_ENTRIES:
        raise CannotRead(f"makes {entries:,} numbers, more than the {MOST_ENTRIES:,} that are read")


def concatenated(values: Sequence[Forms], axis: int) -> Forms:
    """Joined along an axis of the tail (0 is the first axis behind the people)."""
    widths = {block: block.width for value in values for block in value.parts}
    total = sum(value.size for value in values)
    affordable(total * (1 + sum(widths.values())))
    parts = {
        block: np.concatenate([v.parts.get(block, np.zeros((v.size, width))) for v in values])
        for block, width in widths.items()
    }
    together = Forms((total,), parts, np.concatenate([value.constant for value in values]))
    return together.picked(joined_index([value.tail for value in values], axis))


def joined_index(tails: Sequence[tuple[int, ...]], axis: int) -> np.ndarray:
    """Where each entry of a concatenation comes from, if all entries are numbered tensor by tensor."""
    starts = np.cumsum([0, *(math.prod(tail) for tail in tails)])
    indices = [np.arange(math.prod(t)).reshape(t) + s for t, s in zip(tails, starts, strict=False)]
    return np.concatenate(indices, axis=axis)


def times_matrix(value: Forms, matrix: np.ndarray) -> Forms:
    """[people, …, n] × [n, m]."""
    if matrix.ndim != 2 or not value.tail or value.tail[-1] != matrix.shape[0]:
        raise CannotRead(f"multiplies rows of {value.tail} numbers with a matrix of shape {matrix.shape}")
    before, after = matrix.shape
    lead = value.size // before if before else 0
    affordable(lead * after * value.width)
    parts = {
        block: np.einsum("lnw,nm->lmw", m.reshape(lead, before, -1), matrix, optimize=True).reshape(lead * after, -1)
        for block, m in value.parts.items()
    }
    constant = (value.constant.reshape(lead, before) @ matrix).ravel()
    return Forms((*value.tail[:-1], after), _kept(parts), constant)


def layer(value: Forms, weight: np.ndarray, bias: np.ndarray) -> Forms:
    """x W + b, as scikit-learn and Keras keep W: [inputs, outputs]."""
    made = times_matrix(value, np.asarray(weight, np.float64))
    if np.shape(bias) != (made.size,):
        raise CannotRead(f"has {made.size} outputs and biases of shape {np.shape(bias)}")
    made = made.plus(np.asarray(bias, np.float64))
    if not made.finite():
        raise CannotRead("has a weight that is NaN or infinite; the model is broken, train it again")
    return made


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    less = rows - rows.max(axis=1, keepdims=True)
    return less - np.log(np.exp(less).sum(axis=1, keepdims=True))


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{name: functools.partial(function.value, np) for name, function in ACTIVATIONS.items()},
    "sigmoid": lambda z: np.exp(-np.logaddexp(0.0, -z)),  # exact to the last bits for very negative logits too
    "softmax": lambda z: np.exp(_log_softmax(z)),
    "log_softmax": _log_softmax,
}


def activation(kind: str, value: Forms, name: str) -> Forms:
    """New values: a nonlinear function of each entry, or (softmax) of each row."""
    if not value.finite():
        raise CannotRead("reads a weight that is NaN or infinite; the model is broken, train it again")
    if not value.parts and kind not in LINKS:
        return Forms(value.tail, {}, FUNCTIONS[kind](value.constant))
    if kind in LINKS and len(value.tail) != 1:
        raise CannotRead(f"takes a softmax over {value.tail}; it is read over [people, classes] only")
    affordable(value.size * value.size)
    block = ValueBlock(kind, value.size, name, value)
    return Forms(value.tail, {block: np.eye(value.size)}, np.zeros(value.size))


def relu(value: Forms, name: str) -> Forms:
    return activation("relu", value, name)


def leaky_relu(value: Forms, slope: np.ndarray | float, name: str) -> Forms:
    """relu(z) − slope · relu(−z), which is z·slope below 0."""
    return relu(value, name).minus(relu(value.scaled(-1.0), name).scaled(slope))


def clipped(value: Forms, low: np.ndarray | float, high: np.ndarray | float, name: str) -> Forms:
    """low + relu(z − low) − relu(z − high), either of which may be infinite."""
    lows = np.broadcast_to(np.asarray(low, np.float64), (value.size,))
    highs = np.broadcast_to(np.asarray(high, np.float64), (value.size,))
    if (lows > highs).any() or np.isnan(lows).any() or np.isnan(highs).any():
        raise CannotRead(f"clips between {lows.min():g} and {highs.max():g}, the lower bound above the upper one")
    above, below = (lows == -np.inf).all(), (highs == np.inf).all()
    if not (above or np.isfinite(lows).all()) or not (below or np.isfinite(highs).all()):
        raise CannotRead("clips some entries and not others, which is not supported")
    if above and below:
        return value
    if above:  # min(z, high) = high − relu(high − z)
        return relu(value.scaled(-1.0).plus(highs), name).scaled(-1.0).plus(highs)
    made = relu(value.plus(-lows), name).plus(lows)
    return made if below else made.minus(relu(value.plus(-highs), name))


def _kept(parts: dict[ValueBlock, np.ndarray]) -> dict[ValueBlock, np.ndarray]:
    """Only what the forms depend on: a block that every entry ignores is not part of them."""
    return {block: matrix for block, matrix in parts.items() if matrix.any()}
