"""Forests as plain arrays, whichever library wrote them: boosted trees and random forests, as the original computes.

**Routing is exact.** `columns` makes of raw inputs the numbers that splits read (`bornfair.models.forest.columns`). A
node of `column` ≥ 0 sends a person left if that number is missing (NaN) and `missing_left`; if it is not missing, and
`members` < 0, where number ≤ threshold, and with `members` ≥ 0 where the number is one of `sets[members]`; else right.
Readers turn every other comparison into these: x < t in float32 is x ≤ the float32 before t. Thresholds are
float64 and may be infinite (a split between missing and not missing); comparing never rounds.

**Nodes** of all trees stand in one set of arrays, tree after tree from `roots`, a child always behind its parent, each
child of one parent. `leaf` is the row of `values` of a leaf, −1 elsewhere; leaves are numbered in the order of nodes.

**Only the sum rounds.** With v_t the leaf's row in tree t, in the arithmetic and the order of `Summation`:

    total = base (if base_first, else 0) ⊕ v_1 ⊕ v_2 ⊕ …        one after the other, each output by itself
    score = total ⊘ divisor ⊗ scale ⊕ base (if not base_first)   what is 1 or 0 is not computed

`values` are what is added, in that precision: learning rates and the weights of dropped trees (DART) are in them. The
real number that the score stands for is the same with nothing rounded; `Forest.sum_error` bounds the difference, for
any order of summation, so that it also speaks of originals that add in another (`Summation.in_order` is False).

**Decision** (`Cut`). One output: the last of two classes is decided where score > `at` (as float64 compares them).
Two or more outputs: the first largest of score − offset. `slack` says how near to a tie (score to `at`, or the two
largest to each other) the original may decide otherwise, because it rounds what it makes of scores (a sigmoid in
float32, say) before it compares; 0 where it compares the scores themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.columns import SplitColumn, columns_of
from bornfair.models.network.network import decisions
from bornfair.models.rounding import OWN_UNIT

Link = Literal["sigmoid", "softmax", "probability", "none"]
Precision = Literal["float32", "float64"]

MOST_NODES = 20_000_000
MOST_TREES = 1_000_000
MOST_OUTPUTS = 10_000
MOST_VALUES = 100_000_000  # leaves times outputs
MOST_DEPTH = 2_000
TOGETHER = 1 << 16  # pairs of a person and a tree that are routed at once
UNITS = {"float32": 2.0**-24, "float64": 2.0**-53}


@dataclass(frozen=True)
class Summation:
    """How the original adds leaves up; `in_order` where it is known to do it bit for bit as we do, of one person as of
    many; `plain` where it is known to do nothing else than add these values up, in whatever order.
    """

    precision: Precision
    base: tuple[float, ...]
    base_first: bool = True
    divisor: float = 1.0
    scale: float = 1.0
    in_order: bool = True
    plain: bool = True


@dataclass(frozen=True)
class Cut:
    """Where the forest decides, and how its scores are shown: probability = link(slope · score)."""

    at: float = 0.0
    slack: float = 0.0
    link: Link = "sigmoid"
    slope: float = 1.0
    offsets: tuple[float, ...] = ()
    """Of two or more outputs: what is taken from each before they are compared; () for nothing."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the columns of raw inputs, how their leaves are summed, and where the sum decides.

    >>> stump = Forest(("age",), (SplitColumn(0),), roots=[0], column=[0, -1, -1], threshold=[30.0, 0.0, 0.0],
    ...     members=[-1, -1, -1], left=[1, -1, -1], right=[2, -1, -1], missing_left=[True, False, False],
    ...     values=[[-1.0], [2.0]], summation=Summation("float32", (0.5,)), cut=Cut())
    >>> stump.scores([[25, 30, 31, None]]).ravel().tolist()
    [-0.5, -0.5, 2.5, -0.5]
    >>> stump.decide(stump.scores([[25, 31]])).tolist()
    [0, 1]
    """

    names: tuple[str, ...]
    columns: tuple[SplitColumn, ...]
    roots: np.ndarray  # int64 [trees]
    column: np.ndarray  # int32 [nodes], −1 for a leaf
    threshold: np.ndarray  # float64 [nodes]
    members: np.ndarray  # int32 [nodes]: position in `sets`, −1 for a comparison with the threshold
    left: np.ndarray  # int32 [nodes], −1 for a leaf
    right: np.ndarray
    missing_left: np.ndarray  # bool [nodes]
    values: np.ndarray  # float64 [leaves, outputs]
    summation: Summation
    cut: Cut
    sets: tuple[np.ndarray, ...] = ()  # each float64, sorted

    def __post_init__(self) -> None:
        kinds = {
            "roots": np.int64, "column": np.int32, "threshold": np.float64, "members": np.int32, "left": np.int32,
            "right": np.int32, "missing_left": np.bool_, "values": np.float64,
        }  # fmt: skip
        for name, kind in kinds.items():
            object.__setattr__(self, name, _frozen(getattr(self, name), kind))
        object.__setattr__(self, "sets", tuple(_frozen(np.unique(numbers), np.float64) for numbers in self.sets))
        _check_sizes(self)
        _check_structure(self)
        _check_numbers(self)

    # --- sizes ---

    @property
    def trees(self) -> int:
        return len(self.roots)

    @property
    def nodes(self) -> int:
        return len(self.column)

    @property
    def outputs(self) -> int:
        return self.values.shape[1]

    @property
    def classes(self) -> int:
        return max(self.outputs, 2)

    @cached_property
    def leaf(self) -> np.ndarray:
        """The row of `values` of each node, −1 where it is no leaf."""
        is_leaf = self.column < 0
        return np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int32)

    @cached_property
    def tree_of_node(self) -> np.ndarray:
        return (np.searchsorted(self.roots, np.arange(self.nodes), side="right") - 1).astype(np.int32)

    @cached_property
    def tree_of_leaf(self) -> np.ndarray:
        return self.tree_of_node[self.column < 0]

    @cached_property
    def depth(self) -> int:
        """Of the deepest leaf; a root that is a leaf has 0."""
        at, depth = self.roots[self.column[self.roots] >= 0], 0
        while len(at):
            depth += 1
            below = np.concatenate([self.left[at], self.right[at]])
            at = below[self.column[below] >= 0]
        return depth

    @property
    def reads(self) -> frozenset[str]:
        """The raw inputs that some split reads."""
        used = np.unique(self.column[self.column >= 0])
        return frozenset(self.names[self.columns[i].source] for i in used)

    # --- running it ---

    def scores(self, raw: Sequence[Any]) -> np.ndarray:
        """The scores [rows, outputs] of people given as one array for each of `names`: float64, which holds float32
        exactly. NaN and None are missing.
        """
        if len(raw) != len(self.names):
            raise InputError(f"the forest takes {len(self.names)} columns, found {len(raw)}.")
        rows = max((len(values) for values in raw), default=0)
        return self.scores_of_columns(columns_of(raw, self.columns, rows))

    def scores_of_columns(self, columns: np.ndarray) -> np.ndarray:
        """The same from what splits read, [columns, rows]."""
        how = self.summation
        kind = np.dtype(how.precision).type
        start = np.asarray(how.base if how.base_first else np.zeros(self.outputs), kind)
        total = np.tile(start, (columns.shape[1], 1))
        values = self.values.astype(kind)
        for rows, trees, leaves in self._routed(columns):
            for position in range(trees.stop - trees.start):  # in order, each in its own addition
                total[rows] += values[leaves[position]]
        if how.divisor != 1:
            total /= kind(how.divisor)
        if how.scale != 1:
            total *= kind(how.scale)
        if not how.base_first and any(how.base):
            total += np.asarray(how.base, kind)
        return total.astype(np.float64)

    def leaves(self, columns: np.ndarray) -> np.ndarray:
        """Which leaf each tree gives people with these columns [columns, rows]: [trees, rows]."""
        found = np.empty((self.trees, columns.shape[1]), np.int32)
        for rows, trees, leaves in self._routed(columns):
            found[trees, rows] = leaves
        return found

    def margins(self, scores: np.ndarray) -> np.ndarray:
        """Scores as everything else compares them: [rows, 1] with the last of two classes above 0, or one for each of
        more classes, of which the first largest is decided. Signs are exact.
        """
        wide = np.asarray(scores, np.float64)
        if self.outputs == 1:
            return wide - self.cut.at
        apart = wide - np.asarray(self.cut.offsets or 0.0)
        return apart[..., 1:] - apart[..., :1] if self.outputs == 2 else apart

    def decide(self, scores: np.ndarray) -> np.ndarray:
        """Class indices from scores [rows, outputs]."""
        return decisions(self.margins(scores))

    def goes_left(self, nodes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Whether inner nodes send people with these numbers in their columns left: [nodes, numbers]."""
        left = numbers[None] <= self.threshold[nodes][:, None]
        for row, chosen in zip(left, self.members[nodes], strict=True):
            if chosen >= 0:
                row[:] = np.isin(numbers, self.sets[chosen])
        return np.where(np.isnan(numbers)[None], self.missing_left[nodes][:, None], left)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Class probabilities [rows, classes], in float64: to show, not to decide."""
        wide = np.asarray(scores, np.float64)
        if self.cut.link == "probability":
            return wide if self.outputs > 1 else np.concatenate([1 - wide, wide], axis=1)
        if self.outputs == 1:
            wide = np.concatenate([np.zeros_like(wide), self.cut.slope * wide], axis=1)
        grown = np.exp(wide - wide.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)

    # --- what rounding does ---

    @cached_property
    def magnitudes(self) -> np.ndarray:
        """For each output, at least the largest Σ_t |v_t| that anybody's leaves can have, without the base."""
        largest = np.zeros((self.trees, self.outputs))
        np.maximum.at(largest, self.tree_of_leaf, np.abs(self.values))
        return largest.sum(axis=0) * (1 + 4 * self.trees * OWN_UNIT)

    def sum_error(self, magnitudes: np.ndarray | None = None) -> np.ndarray:
        """For each output, how far a score may be from what it is without rounding, in any order of summation.

        magnitudes: at least Σ_t |v_t| of the people in question, without the base ([..., outputs]); of everybody, if
        not given.
        """
        how, base = self.summation, np.abs(np.asarray(self.summation.base))
        unit, count = UNITS[how.precision], self.trees + 4
        if count * unit >= 0.25:
            return np.full(self.outputs, math.inf)
        gamma = count * unit / (1 - count * unit)
        summed = self.magnitudes if magnitudes is None else np.asarray(magnitudes, np.float64)
        whole = (summed + base * how.base_first) * (abs(how.scale) / how.divisor) + base * (not how.base_first)
        least = float(np.finfo(how.precision).smallest_subnormal) * 4
        return whole * gamma * (1 + 2.0**-40) + least * (1 + abs(how.scale))

    # --- private ---

    def _routed(self, columns: np.ndarray) -> Any:
        """Blocks (slice of rows, slice of trees, leaves [trees, rows]), for each person the trees in order."""
        count, member = columns.shape[1], self._membership(columns)
        width = min(max(count, 1), TOGETHER)
        together = max(1, TOGETHER // width)
        for begin in range(0, count, width):
            rows = slice(begin, min(begin + width, count))
            for first in range(0, self.trees, together):
                trees = slice(first, min(first + together, self.trees))
                yield rows, trees, self._route(columns[:, rows], member[:, rows], self.roots[trees])

    def _route(self, columns: np.ndarray, member: np.ndarray, roots: np.ndarray) -> np.ndarray:
        people = columns.shape[1]
        at = np.repeat(roots, people)
        flat, codes = np.ascontiguousarray(columns).ravel(), np.ascontiguousarray(member).ravel()
        row = np.tile(np.arange(people), len(roots))
        moving = np.flatnonzero(self.column[at] >= 0)
        while len(moving):
            here = at[moving]
            place = self.column[here].astype(np.int64) * people + row[moving]
            number = flat[place]
            goes = number <= self.threshold[here]
            if self.sets:
                chosen = self.members[here]
                some = np.flatnonzero(chosen >= 0)
                goes[some] = self._table[chosen[some], codes[place[some]]]
            goes = np.where(np.isnan(number), self.missing_left[here], goes)
            there = np.where(goes, self.left[here], self.right[here])
            at[moving] = there
            moving = moving[self.column[there] >= 0]
        return self.leaf[at].reshape(len(roots), people)

    @cached_property
    def _universe(self) -> np.ndarray:
        return np.unique(np.concatenate([np.zeros(1), *self.sets]))  # never empty: a set may be

    @cached_property
    def _table(self) -> np.ndarray:
        """Whether each number of the universe is in each set; the last column is of all other numbers."""
        table = np.zeros((len(self.sets), len(self._universe) + 1), bool)
        for row, numbers in zip(table, self.sets, strict=True):
            row[np.searchsorted(self._universe, numbers)] = True
        return table

    def _membership(self, columns: np.ndarray) -> np.ndarray:
        """The position of each number in the universe of all sets; behind its end if it is not there."""
        if not self.sets:
            return np.zeros((0, columns.shape[1]), np.int64)
        place = np.searchsorted(self._universe, columns)
        near = np.minimum(place, len(self._universe) - 1)
        return np.where(self._universe[near] == columns, near, len(self._universe))


# --- what a forest must be ---


def _check_sizes(forest: Forest) -> None:
    sizes = {len(getattr(forest, name)) for name in ("column", "threshold", "members", "left", "right", "missing_left")}
    if len(sizes) != 1 or forest.column.ndim != 1 or forest.values.ndim != 2:
        raise InputError(f"the arrays of a forest's nodes have different lengths: {sorted(sizes)}.")
    leaves, outputs = forest.values.shape
    limits = (
        ("trees", forest.trees, MOST_TREES), ("nodes", forest.nodes, MOST_NODES), ("outputs", outputs, MOST_OUTPUTS),
        ("leaf values", leaves * outputs, MOST_VALUES),
        ("members of categories times sets", len(forest.sets) * len(forest._universe), MOST_VALUES),
    )  # fmt: skip
    for what, count, most in limits:
        if count > most:
            raise InputError(f"the forest has {count:,} {what}; at most {most:,} can be read.")
    if not forest.trees or not outputs:
        raise InputError("the forest has no trees; train it, then read it.")
    if len(forest.summation.base) != outputs:
        raise InputError(f"the forest has {outputs} outputs, but {len(forest.summation.base)} base scores.")
    if int((forest.column < 0).sum()) != leaves:
        raise InputError(f"the forest has {int((forest.column < 0).sum())} leaves, but {leaves} rows of leaf values.")


def _check_structure(forest: Forest) -> None:
    nodes, roots = forest.nodes, forest.roots
    if roots[0] != 0 or (np.diff(roots) <= 0).any() or roots[-1] >= nodes:
        raise InputError("the trees of a forest must stand one after the other.")
    for what, found, known in (
        ("column", forest.column, forest.columns),
        ("category set", forest.members, forest.sets),
    ):
        if (found >= len(known)).any():
            raise InputError(f"a split reads {what} {int(found.max())}, but there are {len(known)}.")
    if any(not 0 <= column.source < len(forest.names) for column in forest.columns):
        raise InputError(f"a column is made of an input that is not there; there are {len(forest.names)}.")
    inner = np.flatnonzero(forest.column >= 0)
    parents, children = np.tile(inner, 2), np.concatenate([forest.left[inner], forest.right[inner]])
    wrong = (children <= parents) | (children >= np.append(roots[1:], nodes)[forest.tree_of_node[parents]])
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"node {int(parents[at])} of the forest has the child {int(children[at])}, which is no child.")
    if (np.bincount(children, minlength=nodes) != ~np.isin(np.arange(nodes), roots)).any():
        raise InputError("a node of the forest has no parent, or two; the trees are broken.")
    if forest.depth > MOST_DEPTH:
        raise InputError(f"a tree is deeper than {MOST_DEPTH:,}; at most that can be read.")


def _check_numbers(forest: Forest) -> None:
    if np.isnan(forest.threshold).any():
        raise InputError(f"the threshold of node {int(np.argmax(np.isnan(forest.threshold)))} is not a number.")
    how, cut = forest.summation, forest.cut
    if not np.isfinite(forest.values).all():
        at = int(np.argmin(np.isfinite(forest.values).all(axis=1)))
        raise InputError(f"leaf {at} of the forest has a value that is not finite.")
    numbers = (*how.base, how.divisor, how.scale, cut.at, cut.slack, cut.slope, *cut.offsets)
    if not all(map(math.isfinite, numbers)) or how.divisor <= 0:
        raise InputError("the base score, the divisor or the threshold of the forest is not a finite number.")
    most = float(np.finfo(how.precision).max) / 8
    if not (forest.magnitudes + np.abs(how.base) <= most).all():
        raise InputError(f"the leaves of the forest sum up to more than {how.precision} can hold.")
    if how.precision == "float32":
        for what, given in (("leaf value", forest.values), ("base score", np.array(how.base))):
            if (given != given.astype(np.float32)).any():
                raise InputError(f"a {what} of the forest is no float32, in which it is summed.")


def _frozen(array: Any, kind: Any) -> np.ndarray:
    fixed = np.array(array, dtype=kind)
    fixed.flags.writeable = False
    return fixed
