"""Bounds on the scores of everybody in a box of cells, by the leaves that can be reached: a bit for each leaf.

The leaves of a tree that somebody in a box of cells reaches are those that each feature by itself allows. For every
cell of a feature one word of bits says which leaves it allows; a range of cells allows what one of them does; features
are joined by AND. Bits stand in the order of the leaves' values, so that the lowest and the highest bit that is left
are a tree's bounds. Sums of these bound the scores of everybody in the box: as real numbers, and within `doubt` as
the forest's own arithmetic adds them up.

A unit is what one tree adds to one score. Of two classes there is one score, that of the last against the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bornfair.core.errors import InputError
from bornfair.models.forest.bounds.cells import Cells
from bornfair.models.forest.forest import Forest

WORD = 64
TOGETHER = 1 << 17  # words of bits that are worked on at once: they should stay in the cache
MOST_MEMORY = 3 << 30  # bytes of all tables
NOBODY = np.uint64(0)
ONE = np.uint64(1)


@dataclass(frozen=True, eq=False)
class Margins:
    """The sums to bound: for each output a constant and a number for each leaf, as real numbers up to `doubt`."""

    constant: np.ndarray  # [outputs]
    leaves: np.ndarray  # [leaves, outputs]
    doubt: np.ndarray  # [outputs]: how far the executed margin may lie from the sum that is computed here
    slack: float  # how near to a tie the original may decide otherwise

    @staticmethod
    def of(forest: Forest) -> Margins:
        """One margin that decides the last of two classes above 0, or one for each of more."""
        how, cut = forest.summation, forest.cut
        share = how.scale / how.divisor
        leaves = forest.values * share
        base = np.asarray(how.base) * (share if how.base_first else 1.0)
        offsets = np.full(forest.outputs, cut.at) if forest.outputs == 1 else np.asarray(cut.offsets or 0.0)
        constant = base - offsets
        error = forest.sum_error()
        size = forest.magnitudes * abs(share) + np.abs(base) + np.abs(offsets)
        if forest.outputs == 2:
            leaves, constant = leaves[:, 1:] - leaves[:, :1], constant[1:] - constant[:1]
            error, size = error.sum(keepdims=True), size.sum(keepdims=True)
        own = size * (forest.trees + 16) * 2.0**-52  # what this module's float64 rounds
        return Margins(constant, leaves, (error + own) * (1 + 2.0**-20), cut.slack)

    def surely(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The class [...] of all whose margins lie from low to high [..., outputs]; −1 where that is not sure."""
        if low.shape[-1] == 1:
            away = self.doubt[0] + self.slack
            return np.where(low[..., 0] > away, 1, np.where(high[..., 0] < -away, 0, -1))
        best = np.argmax(low - self.doubt, axis=-1)
        worst = np.take_along_axis(low - self.doubt, best[..., None], axis=-1)[..., 0]
        others = high + self.doubt
        np.put_along_axis(others, best[..., None], -np.inf, axis=-1)
        return np.where(worst > others.max(axis=-1) + self.slack, best, -1)


class LeafBits:
    """The tables of bits of a forest over its cells."""

    def __init__(self, cells: Cells) -> None:
        self.cells, forest = cells, cells.model.forest
        self.margins = Margins.of(forest)
        outputs = self.margins.leaves.shape[1]
        self._lay_out(forest, outputs)
        count = sum(part.count for part in cells.features)
        needed = 3 * 8 * count * len(self._rising)
        if needed > MOST_MEMORY:
            raise InputError(
                f"the forest has {len(forest.values):,} leaves and {count:,} cells between its thresholds, too "
                f"many for bounds ({needed / 2**30:.0f} GiB); ask a smaller forest, or for samples and a table only."
            )
        everywhere = {position: self._allowed(position) for position in cells.routes}
        root = np.bitwise_and.reduce(
            [self._valid, *(np.bitwise_or.reduce(table, axis=0) for table in everywhere.values())], axis=0
        )
        low, high = self._word_ends(root)
        low, high = np.minimum.reduceat(low, self.starts), np.maximum.reduceat(high, self.starts)
        settled = low == high
        self.constant = self.margins.constant.copy()
        np.add.at(self.constant, self.output[settled], low[settled])
        acting = np.isin(np.arange(len(self.output)), self._acting(everywhere, root))
        self._keep(np.lexsort((self.output, ~acting, settled))[: int((~settled).sum())], everywhere, root)
        self.acting = int((acting & ~settled).sum())
        """How many units, the first ones, read what twins do not share."""
        self._tabulate(everywhere)

    @property
    def outputs(self) -> int:
        return len(self.constant)

    @property
    def units(self) -> int:
        return len(self.output)

    @property
    def words(self) -> int:
        return len(self.root)

    @cached_property
    def acting_words(self) -> int:
        return int(self.starts[self.acting]) if self.acting < self.units else self.words

    def values(self, words: slice) -> np.ndarray:
        """The number of each bit's leaf; NaN for bits without a leaf."""
        return np.where(np.isfinite(self._rising[words, :WORD]), self._rising[words, :WORD], np.nan).ravel()

    # --- bounding ---

    def shared(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Masks [boxes, words] from what all versions have in common: boxes of cells [boxes, free features], ends
        included.
        """
        masks = np.repeat(self.root[None], len(low), axis=0)
        for i, position in enumerate(self.cells.free):
            if position in self.tables and position not in self.cells.twins.maps:
                masks &= self.tables[position][0].reach(low[:, i], high[:, i])
        return masks

    def of_versions(self, masks: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The acting words of every version: [boxes, versions, words]."""
        twins, count = self.cells.twins, self.acting_words
        parts = []
        for way in twins.ways:
            mine = masks[:, :count]
            for position in twins.maps:
                if position in self.tables:
                    i = self.cells.free.index(position)
                    mine = mine & self.tables[position][way[position]].reach(low[:, i], high[:, i])[:, :count]
            parts.append(mine[:, None] & self.sensitive[None, :, :count])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def ends(self, masks: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest sums [..., outputs] of the units whose words these are, from word `first` on."""
        low, high = self.unit_ends(masks, first)
        if self.outputs == 1:
            return low.sum(axis=-1, keepdims=True), high.sum(axis=-1, keepdims=True)
        unit = int(np.searchsorted(self.starts, first))
        parts = [self.output[unit : unit + low.shape[-1]] == k for k in range(self.outputs)]
        least, most = (np.stack([ends[..., part].sum(axis=-1) for part in parts], axis=-1) for ends in (low, high))
        return least, most

    def unit_ends(self, masks: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest value of each unit [..., units] whose words begin at word `first`."""
        low, high = self._word_ends(masks, first)
        if not self._single:
            starts = self.starts[(self.starts >= first) & (self.starts < first + masks.shape[-1])] - first
            low, high = np.minimum.reduceat(low, starts, axis=-1), np.maximum.reduceat(high, starts, axis=-1)
        return low, high

    def _word_ends(self, masks: np.ndarray, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        place = (np.arange(first, first + masks.shape[-1]) * (WORD + 1)).astype(np.int32)
        lowest = np.bitwise_count((masks & (~masks + ONE)) - ONE)  # 64 where no bit is set
        top = (masks & ~(masks >> ONE)).astype(np.float64).view(np.int64) >> 52  # no carry: a 0 follows the first 1
        highest = np.where(masks == NOBODY, WORD, top - 1023)
        return self._rising.ravel()[place + lowest], self._falling.ravel()[place + highest]

    # --- making the tables ---

    def _lay_out(self, forest: Forest, outputs: int) -> None:
        """Units, their words, and the bits of each node's leaves."""
        leaves, tree_of_leaf, trees = self.margins.leaves, forest.tree_of_leaf, forest.trees
        ends = np.searchsorted(tree_of_leaf, np.arange(trees + 1))
        widths = np.tile(-(-np.diff(ends) // WORD), outputs)
        self.tree, self.output = np.tile(np.arange(trees), outputs), np.repeat(np.arange(outputs), trees)
        self.starts = np.cumsum(widths) - widths
        values = np.full(widths.sum() * WORD, np.nan)
        self._place, self._forest = np.zeros((outputs, len(leaves)), np.int64), forest
        bit = np.arange(len(leaves)) - ends[tree_of_leaf]  # of each tree's leaves, by rising values
        for k in range(outputs):
            order = np.lexsort((leaves[:, k], tree_of_leaf))
            self._place[k, order] = bit
            values[self.starts[k * trees + tree_of_leaf] * WORD + bit] = leaves[order, k]
        values = values.reshape(-1, WORD)
        self._single = len(values) == len(self.tree)
        blank = np.isnan(values)
        self._valid = np.packbits(~blank, axis=1, bitorder="little").view(np.uint64)[:, 0]
        # The last column is that of a word without a bit.
        self._rising, self._falling = (
            np.pad(np.where(blank, end, values), ((0, 0), (0, 1)), constant_values=end) for end in (np.inf, -np.inf)
        )

    @cached_property
    def _below(self) -> list[list[int]]:
        """For each output and node, the bits of the leaves below it, as one whole number per tree."""
        forest, found = self._forest, []
        for place in self._place:
            bits = [0] * forest.nodes
            for node in range(forest.nodes - 1, -1, -1):
                if forest.leaf[node] >= 0:
                    bits[node] = 1 << int(place[forest.leaf[node]])
                else:
                    bits[node] = bits[forest.left[node]] | bits[forest.right[node]]
            found.append(bits)
        return found

    def _allowed(self, position: int) -> np.ndarray:
        """Which leaves each cell of a feature allows [cells, words]."""
        forest, (nodes, left) = self._forest, self.cells.routes[position]
        word, row, not_right, not_left = list[int](), list[int](), list[int](), list[int]()
        whole = (1 << WORD) - 1
        for k, below in enumerate(self._below):
            for i, node in enumerate(nodes.tolist()):
                unit = k * forest.trees + int(forest.tree_of_node[node])
                one, other = below[forest.left[node]], below[forest.right[node]]
                begin, both = int(self.starts[unit]), one | other
                while both:
                    if both & whole:
                        word.append(begin)
                        row.append(i)
                        not_right.append(~other & whole)
                        not_left.append(~one & whole)
                    both, one, other, begin = both >> WORD, one >> WORD, other >> WORD, begin + 1
        at = np.array(word)
        order = np.argsort(at, kind="stable")
        at, rows = at[order], np.array(row)[order]
        keep_left, keep_right = (np.array(part, np.uint64)[order] for part in (not_right, not_left))
        starts = np.flatnonzero(np.diff(at, prepend=-1))
        table = np.repeat(self._valid[None], left.shape[1], axis=0)
        step = max(TOGETHER // len(at), 1)
        for begin in range(0, left.shape[1], step):
            some = left[rows, begin : begin + step]
            bits = np.where(some, keep_left[:, None], keep_right[:, None])
            table[begin : begin + step, at[starts]] &= np.bitwise_and.reduceat(bits, starts, axis=0).T
        return table

    def _acting(self, tables: dict[int, np.ndarray], root: np.ndarray) -> np.ndarray:
        """The units that tell versions apart, wherever in the domain."""
        twins = self.cells.twins
        unlike = np.zeros(len(root), bool)
        for j, position in enumerate(self.cells.sensitive):
            if position in tables:
                rows = tables[position][np.unique(twins.values[:, j])] & root
                unlike |= (rows != rows[:1]).any(axis=0)
        for position, maps in twins.maps.items():
            if position in tables:
                rows = tables[position] & root
                unlike |= np.any([(rows[way] != rows).any(axis=0) for way in maps], axis=0)
        unit_of_word = np.searchsorted(self.starts, np.arange(len(root)), side="right") - 1
        return np.unique(unit_of_word[unlike])

    def _keep(self, units: np.ndarray, tables: dict[int, np.ndarray], root: np.ndarray) -> None:
        """Only these units, in this order."""
        widths = np.diff(np.append(self.starts, len(root)))
        ranges = [np.arange(self.starts[u], self.starts[u] + widths[u]) for u in units]
        words = np.concatenate([np.zeros(0, np.int64), *ranges]).astype(np.int64)
        self.root, self._rising, self._falling = root[words], self._rising[words], self._falling[words]
        self.tree, self.output = self.tree[units], self.output[units]
        self.starts = np.concatenate([[0], np.cumsum(widths[units])])[:-1].astype(np.int64)
        self._single = len(words) == len(units)
        for position in tables:
            tables[position] = tables[position][:, words] & self.root

    def _tabulate(self, allowed: dict[int, np.ndarray]) -> None:
        twins = self.cells.twins
        self.sensitive = np.repeat(self.root[None], len(twins.values), axis=0)
        for j, position in enumerate(self.cells.sensitive):
            if position in allowed:
                self.sensitive &= allowed[position][twins.values[:, j]]
        self.tables: dict[int, list[Reach]] = {}
        for position in self.cells.free:
            if position in allowed:
                maps = twins.maps.get(position, np.arange(len(allowed[position]))[None])
                self.tables[position] = [Reach.of(allowed[position][way]) for way in maps]


@dataclass(frozen=True, eq=False)
class Reach:
    """Which leaves a range of cells allows: by what its ends allow, or, where leaves allow cells that are not
    neighbours, by two overlapping ranges of 2^k cells.
    """

    one: np.ndarray  # [cells, words]
    upto: np.ndarray | None
    above: np.ndarray | None
    powers: tuple[np.ndarray, ...] = ()

    @staticmethod
    def of(one: np.ndarray) -> Reach:
        upto = np.bitwise_or.accumulate(one, axis=0)
        above = np.bitwise_or.accumulate(one[::-1], axis=0)[::-1]
        if np.array_equal(upto & above, one):
            return Reach(one, upto, np.ascontiguousarray(above))
        powers = [one]
        while 2 ** len(powers) <= len(one):
            last, step = powers[-1], 2 ** (len(powers) - 1)
            powers.append(last[:-step] | last[step:])
        return Reach(one, None, None, tuple(powers))

    def reach(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """[boxes, words] of ranges of cells, ends included."""
        if self.upto is not None and self.above is not None:
            return self.upto[high] & self.above[low]
        found = np.empty((len(low), self.one.shape[1]), np.uint64)
        power = np.frexp((high - low + 1).astype(np.float64))[1] - 1
        for k in np.unique(power):
            rows = np.flatnonzero(power == k)
            table = self.powers[k]
            found[rows] = table[low[rows]] | table[high[rows] - 2**k + 1]
        return found
