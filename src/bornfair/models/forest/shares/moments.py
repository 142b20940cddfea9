"""Spread of the scores of the people of a box: means, variances and effects of features, of sums of trees.

Bounds on each tree add up to far more than anybody's score differs from another's: of 130 trees, nobody has the worst
leaf in all. Over a box with independent features, though, mean and variance of a forest are sums over (pairs of)
leaves: leaf i holds the share p_i = Π_f p_f(i), two leaves share Π_f p_f(i ∩ j). The panel
(`bornfair.models.forest.shares.panel`) derives shares of the box from them.

In the product, p_f(i ∩ j) / (p_f(i) p_f(j)) is 1 where one of the two leaves does not restrict feature f, so that only
few pairs have to be looked at. One leaf of each tree is what the others leave, and leaves of several trees that hold
the same people are one term. Of a few features (the axes) every cell is a box of its own: the pairs over all others are
computed once, and one matrix product gives the variances of all these boxes.

For one version of a person, each tree is a tree over the free features alone (`Functions`): its splits on sensitive
features are settled, and a declared move says where the splits of a moved feature send people. For several versions
together, the smallest (or the largest) value that any of them gets from each tree is again a tree over the free
features, hardly larger than the tree itself; the sum of these bounds the scores of all of them from below (from above).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.shares.weights import CellWeights

ROUNDING = 2.0**-44  # relative to the sizes of all terms: far more than the roundings of their making and adding up
TOGETHER = 256  # rows of a table of pairs
NOTHING, ALL = 2.0**-46, 1 - 2.0**-40  # shares that are taken for none, and for all, of a feature's cells in a box


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves of trees over free features: what each adds, its tree, and which cells of each feature it allows."""

    value: np.ndarray  # [leaves]
    tree: np.ndarray  # [leaves]
    allowed: list[np.ndarray]  # for each free feature, bool [leaves, cells]

    @property
    def count(self) -> int:
        return len(self.value)


Items = list[tuple[int, dict[int, np.ndarray], int]]
"""Alternatives: a node, the sensitive cells that reach it, and the element of the declared group."""


class Functions:
    """Makes leaves of a forest's trees for sets of versions."""

    def __init__(self, judge: Judge) -> None:
        if judge.bits.outputs != 1:
            raise InputError("functions of versions are made of forests with one margin.")
        cells, forest = judge.cells, judge.model.forest
        self.judge, self.cells, self.forest = judge, cells, forest
        values = judge.bits.margins.leaves[:, 0]
        low, high = np.zeros(forest.nodes), np.zeros(forest.nodes)  # the least and the largest value below each node
        for node in range(forest.nodes - 1, -1, -1):
            if forest.leaf[node] >= 0:
                low[node] = high[node] = values[forest.leaf[node]]
            else:
                one, other = forest.left[node], forest.right[node]
                low[node], high[node] = min(low[one], low[other]), max(high[one], high[other])
        self.ends = {True: (low, high), False: (-high, -low)}  # what is largest is least of the negative values
        self.acting = np.unique(judge.bits.tree[: judge.bits.acting])
        self.known: dict[tuple[tuple[int, ...], bool], Leaves] = {}

    @staticmethod
    def about(judge: Judge) -> Functions:
        """Those of a judge, made once: leaves do not depend on whom a measurement weighs how much."""
        if judge not in KNOWN:
            KNOWN[judge] = Functions(judge)
        return KNOWN[judge]

    @cached_property
    def common(self) -> Leaves:
        """Of the trees that tell no versions apart."""
        return self._leaves(np.setdiff1d(self.judge.bits.tree, self.acting), [0], lower=True)

    def of(self, versions: Sequence[int], *, lower: bool = True) -> Leaves:
        """Of the other trees: what these versions get at least, or at most."""
        key = (tuple(versions), lower)
        if key not in self.known:
            self.known[key] = self._leaves(self.acting, versions, lower=lower)
        return self.known[key]

    def _leaves(self, trees: np.ndarray, versions: Sequence[int], *, lower: bool) -> Leaves:
        value, tree, rows = list[float](), list[int](), list[dict[int, np.ndarray]]()
        starts = self._starts(versions)
        for t in trees.tolist():
            root = int(self.forest.roots[t])
            for number, path in self._grown([(root, allowed, h) for allowed, h in starts], lower):
                value.append(number)
                tree.append(t)
                rows.append(path)
        allowed = []
        for position in self.cells.free:
            part = np.ones((len(rows), self.cells.features[position].count), bool)
            for i, path in enumerate(rows):
                if position in path:
                    part[i] = path[position]
            allowed.append(part)
        return Leaves(np.array(value), np.array(tree, np.int64), allowed)

    def _starts(self, versions: Sequence[int]) -> list[tuple[dict[int, np.ndarray], int]]:
        """The sensitive cells of versions: one entry for each that differs, joined where they make up a range."""
        twins, cells, found = self.cells.twins, self.cells, []
        by_move: dict[int, list[int]] = {}
        for version in versions:
            h, s = divmod(int(version), len(twins.values))
            by_move.setdefault(h, []).append(s)
        for h, rows in by_move.items():
            # Any set of values of a single sensitive feature is a set of cells.
            for some in [rows] if len(cells.sensitive) == 1 else [[s] for s in rows]:
                entry = {position: np.zeros(cells.features[position].count, bool) for position in cells.sensitive}
                for position, mask in zip(cells.sensitive, twins.values[some].T, strict=True):
                    entry[position][mask] = True
                found.append((entry, h))
        return found

    def _grown(self, items: Items, lower: bool) -> Iterator[tuple[float, dict[int, np.ndarray]]]:
        """The leaves, each with the cells that its path leaves of the features it reads."""
        waiting: list[tuple[Items, dict[int, np.ndarray]]] = [(items, {})]
        while waiting:
            some, path = waiting.pop()
            kept = self._settled(some, path, lower)
            inner = next((item for item in kept if self.forest.leaf[item[0]] < 0), None)
            if inner is None:
                least = min(self.ends[lower][0][node] for node, _, _ in kept)
                yield (least if lower else -least), path
                continue
            position, row = self._row(inner[0], inner[2])
            own = path.get(position, np.True_)
            waiting += [(kept, {**path, position: own & ~row}), (kept, {**path, position: own & row})]

    def _row(self, node: int, h: int) -> tuple[int, np.ndarray]:
        """Which cells go left at a split of a free feature, for people moved by an element."""
        position, row = self.cells.sides[node]
        twins = self.cells.twins
        return position, row[twins.maps[position][twins.ways[h, position]]] if position in twins.maps else row

    def _settled(self, items: Items, path: dict[int, np.ndarray], lower: bool) -> Items:
        """The alternatives, each followed as far as nobody on this path parts; those that never count are left out."""
        forest, found, waiting = self.forest, dict[Any, Any](), list(items)
        while waiting:
            node, sensitive, h = waiting.pop()
            if forest.leaf[node] >= 0:
                found[node] = (node, {}, 0)
                continue
            position, row = self.cells.sides[node]
            if position in sensitive:
                there = sensitive[position]
                for mask, child in ((there & row, forest.left[node]), (there & ~row, forest.right[node])):
                    if mask.any():
                        waiting.append((int(child), {**sensitive, position: mask}, h))
                continue
            row, own = self._row(node, h)[1], path.get(position, np.True_)
            left, right = (own & row).any(), (own & ~row).any()
            if left and right:
                key = (node, h, *((p, mask.tobytes()) for p, mask in sorted(sensitive.items())))
                found[key] = (node, sensitive, h)
            else:
                waiting.append((int(forest.left[node] if left else forest.right[node]), sensitive, h))
        kept = list(found.values())
        if len(kept) == 1:
            return kept
        least, most = self.ends[lower]
        best = min(most[node] for node, _, _ in kept)
        first = next(item for item in kept if most[item[0]] == best)
        return [item for item in kept if least[item[0]] < best or item is first]


KNOWN: WeakKeyDictionary[Judge, Functions] = WeakKeyDictionary()


# --- moments ---


class Effect(NamedTuple):
    """The effect of one feature by itself: the masses of its cells [cells], and the mean of a function in each of them,
    beside its mean [..., cells].
    """

    feature: int
    mass: np.ndarray
    mean: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return np.asarray(self.mean**2 @ self.mass)


class Moments(NamedTuple):
    """Of several functions over parts of a box: the parts' shares [parts], means [functions, parts], covariances
    [functions, functions, parts], and each function's effects of features that are no axes [parts, cells]; and how far
    rounding may have moved means, and covariances.
    """

    share: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    effects: tuple[tuple[Effect, ...], ...]
    mean_error: float
    error: float

    @property
    def residual(self) -> np.ndarray:
        """The covariances of what is no sum of effects of single features."""
        rest = self.covariance.copy()
        by_feature = [{effect.feature: effect for effect in own} for own in self.effects]
        for k, one in enumerate(by_feature):
            for j, other in enumerate(by_feature[: k + 1]):
                for f in one.keys() & other.keys():
                    part = np.einsum("ac,ac,c->a", one[f].mean, other[f].mean, one[f].mass)
                    rest[k, j] -= part
                    if j < k:
                        rest[j, k] -= part
        return rest


@dataclass(frozen=True, eq=False)
class Terms:
    """Functions over a box as sums: constant of each group, and terms that are 1 for the people of a leaf, else 0."""

    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray  # of the table: a leaf with these people
    parts: np.ndarray  # [free features, terms]: which share of each feature's cells it allows
    value: np.ndarray  # [terms]
    group: np.ndarray  # [terms], rising
    constant: np.ndarray  # [groups]
    size: float  # of all values together

    @cached_property
    def reach(self) -> np.ndarray:
        return self.parts.prod(axis=0)


class LeafTable:
    """Leaves of common trees (group 0) and of the functions (groups 1, 2, …) over one distribution."""

    def __init__(self, common: Leaves, functions: Sequence[Leaves], constant: float, weights: CellWeights) -> None:
        groups = [common, *functions]
        self.constant, self.functions = constant, len(functions)
        self.value = np.concatenate([part.value for part in groups])
        self.group = np.repeat(np.arange(len(groups)), [part.count for part in groups])
        trees = np.concatenate([part.tree + (i << 32) for i, part in enumerate(groups)])
        self.rows = [np.flatnonzero(self.group == i) for i in range(len(groups))]
        self.joint = common.count > sum(part.count for part in functions)
        """Whether functions have so much in common that it pays to know how they vary together."""
        self.tree = np.unique(trees, return_inverse=True)[1].ravel()
        self.trees = int(self.tree.max(initial=-1)) + 1
        self.allowed = [np.concatenate([part.allowed[i] for part in groups]) for i in range(len(weights.upto))]
        self.mass = [np.diff(upto) / upto[-1] for upto in weights.upto]
        self.upto = [
            np.concatenate([np.zeros((len(self.value), 1)), np.cumsum(allowed * mass, axis=1)], axis=1)
            for allowed, mass in zip(self.allowed, self.mass, strict=True)
        ]
        self.read = [i for i, allowed in enumerate(self.allowed) if not allowed.all()]

    def masses(self, low: np.ndarray, high: np.ndarray, feature: int) -> np.ndarray:
        """Of the cells of a feature in a box, 1 together."""
        part = self.mass[feature][low[feature] : high[feature] + 1]
        return part / part.sum()

    def terms(
        self, low: np.ndarray, high: np.ndarray, functions: Sequence[int] | None = None, *, joined: bool = True
    ) -> Terms:
        """The functions (or some of them) over a box of cells that has some mass; `joined` where terms of the same
        people are one.
        """
        chosen = range(self.functions) if functions is None else functions
        rows = np.concatenate([self.rows[group] for group in (0, *(k + 1 for k in chosen))])
        parts = np.ones((len(self.upto), len(rows)))
        shares = {f: float(self.mass[f][low[f] : high[f] + 1].sum()) for f in self.read}
        for f in sorted(self.read, key=shares.__getitem__):  # narrow ones first: they leave fewest leaves
            whole = shares[f]
            part = (self.upto[f][rows, high[f] + 1] - self.upto[f][rows, low[f]]) / whole
            part[part < NOTHING] = 0.0
            part[part > ALL] = 1.0
            parts[f, : len(rows)] = part
            if not part.all():
                rows, parts = rows[part > 0], parts[:, : len(rows)][:, part > 0]
        number = np.zeros(self.functions + 1, np.int64)
        number[[k + 1 for k in chosen]] = np.arange(1, len(chosen) + 1)
        value, group, tree = self.value[rows], number[self.group[rows]], self.tree[rows]
        size = float(np.abs(value).sum()) + abs(self.constant)
        # One leaf of each tree stands for all of its people: the one that takes most to say.
        order = np.lexsort((-(parts < 1).sum(axis=0), tree))
        last = order[np.diff(tree[order], prepend=-1) != 0]
        base = np.zeros(self.trees)
        base[tree[last]] = value[last]
        constant = np.bincount(group[last], value[last], minlength=len(chosen) + 1)
        kept = np.setdiff1d(np.arange(len(rows)), last)
        rows, parts, group = rows[kept], parts[:, kept], group[kept]
        value = value[kept] - base[tree[kept]]
        if not joined:
            return Terms(low, high, rows, parts, value, group, constant, size)
        # Terms of one group that hold the same people become one.
        keys = [group.astype(">u4").view(np.uint8).reshape(len(rows), 4)]
        for f in self.read:
            if high[f] > low[f]:
                keys.append(np.packbits(self.allowed[f][rows, low[f] : high[f] + 1], axis=1))
        key = np.ascontiguousarray(np.concatenate(keys, axis=1))
        people = key.view(np.dtype((np.void, key.shape[1]))).ravel()
        _, first, which = np.unique(people, return_index=True, return_inverse=True)
        value = np.bincount(which.ravel(), value, minlength=len(first)).astype(np.float64)  # whole where none is left
        return Terms(low, high, rows[first], parts[:, first], value, group[first], constant, size)

    def means(self, terms: Terms) -> np.ndarray:
        """Of each function over the box."""
        mean = terms.constant + np.bincount(terms.group, terms.value * terms.reach, minlength=len(terms.constant))
        return self.constant + mean[0] + mean[1:]

    def effects(self, terms: Terms) -> tuple[Effect, ...]:
        """Of each feature that matters in the box, on the average of the functions."""
        scale = np.where(terms.group == 0, 1.0, 1.0 / max(len(terms.constant) - 1, 1))
        return self._effects(terms, slice(0, len(terms.rows)), (scale * terms.value * terms.reach)[:, None], ())

    def _effects(self, terms: Terms, some: slice, columns: np.ndarray, axes: Sequence[int]) -> tuple[Effect, ...]:
        """Of sums of some terms, weighted by columns [terms, parts]."""
        found, rows = [], terms.rows[some]
        for f in self.read:
            mine = np.flatnonzero(terms.parts[f][some] < 1)
            if f in axes or not len(mine) or terms.high[f] == terms.low[f]:
                continue
            cells = slice(terms.low[f], terms.high[f] + 1)
            mass = self.masses(terms.low, terms.high, f)
            inside = self.allowed[f][rows[mine], cells] / terms.parts[f][some][mine][:, None]
            means = columns[mine].T @ inside
            found.append(Effect(f, mass, means - (means @ mass)[:, None]))
        return tuple(found)

    def moments(self, terms: Terms, axes: Sequence[int] = ()) -> Moments:
        """Each function's moments in all cells of the axes (features) in the box."""
        weight = terms.value.copy()
        for f in self.read:
            if f not in axes:
                weight *= terms.parts[f]
        share, columns = np.ones(1), weight[:, None]
        for f in axes:
            share = (share[:, None] * self.masses(terms.low, terms.high, f)).ravel()
            inside = self.allowed[f][terms.rows, terms.low[f] : terms.high[f] + 1]
            columns = (columns[:, :, None] * inside[:, None, :]).reshape(len(terms.rows), len(share))
        ends = np.searchsorted(terms.group, np.arange(len(terms.constant) + 1))
        groups = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        sums = np.stack([columns[group].sum(axis=0) for group in groups])  # [groups, parts]
        square = self._squares(terms, groups, columns, axes) - sums[:, None] * sums[None]
        covariance = square[:1, :1] + square[:1, 1:] + square[1:, :1] + square[1:, 1:]
        mean = self.constant + (terms.constant[:, None] + sums)[:1] + (terms.constant[:, None] + sums)[1:]
        common, *own = (self._effects(terms, group, columns[group], axes) for group in groups)
        effects = tuple(_together(common, part) for part in own)
        return Moments(share, mean, covariance, effects, ROUNDING * terms.size, ROUNDING * terms.size**2)

    def _squares(self, terms: Terms, groups: Sequence[slice], columns: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        """Σ_ij u_i u_j P(i ∩ j) / (P(i) P(j)) over the terms of two groups, for each column u: [groups, groups,
        parts]. Of two functions, only if they have much in common; else as if they did not vary together.
        """
        found = np.zeros((len(groups), len(groups), columns.shape[1]))
        if self.joint:
            pairs = self._pairs(terms, slice(0, len(terms.rows)), slice(0, len(terms.rows)), axes)
        for h, second in enumerate(groups):
            for g, first in enumerate(groups[: h + 1]):
                if self.joint:
                    block = pairs[first, second]
                elif g in (0, h):
                    block = self._pairs(terms, first, second, axes)
                else:
                    found[g, h] = found[h, g] = columns[first].sum(axis=0) * columns[second].sum(axis=0)
                    continue
                found[g, h] = found[h, g] = np.einsum("ia,ia->a", columns[first], block @ columns[second])
        return found

    def _pairs(self, terms: Terms, one: slice, other: slice, axes: Sequence[int]) -> np.ndarray:
        """P(i ∩ j) / (P(i) P(j)) over the features that are no axes; some rows at a time, which stay in the cache."""
        pairs, parts = np.ones((one.stop - one.start, other.stop - other.start)), []
        for f in self.read:
            rows, lines = (np.flatnonzero(terms.parts[f][some] < 1) for some in (one, other))
            if f in axes or not len(rows) or not len(lines):
                continue
            cells = slice(terms.low[f], terms.high[f] + 1)
            first, second = (
                self.allowed[f][terms.rows[some][mine], cells] / terms.parts[f][some][mine][:, None]
                for some, mine in ((one, rows), (other, lines))
            )
            parts.append((rows, lines, first * self.masses(terms.low, terms.high, f), np.ascontiguousarray(second.T)))
        for begin in range(0, len(pairs), TOGETHER):
            block = pairs[begin : begin + TOGETHER]
            for rows, lines, left, right in parts:
                some = slice(*np.searchsorted(rows, [begin, begin + TOGETHER]))
                if some.start < some.stop:
                    block[np.ix_(rows[some] - begin, lines)] *= left[some] @ right
        return pairs


def _together(first: tuple[Effect, ...], second: tuple[Effect, ...]) -> tuple[Effect, ...]:
    """Effects of the sum of two functions."""
    found = {effect.feature: effect for effect in first}
    for effect in second:
        if effect.feature in found:
            effect = effect._replace(mean=effect.mean + found[effect.feature].mean)
        found[effect.feature] = effect
    return tuple(found.values())
