"""Decisions of a forest about boxes of cells and about single cells: sure answers only, in every arithmetic named.

Sure answers hold in real numbers and in the forest's own arithmetic: bounds allow for every rounding of the sum
(`Margins.doubt`). People whom bounds leave open are summed up in both ways, bit for bit and without any rounding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from bornfair.core.errors import shown
from bornfair.models.forest.bounds.bits import TOGETHER, LeafBits
from bornfair.models.forest.bounds.cells import Cells
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.verdict import Arithmetic, Verdict, undecided
from bornfair.people.space.subpopulation import Where

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

Kept = tuple[Any, ...]
BANDS = 8  # of many versions
MOST_CLOSE = 100_000  # sums that are looked at without rounding in one call; beyond, too close to call


@dataclass(frozen=True, eq=False)
class Bounds:
    """What bounds say of boxes: the class that everybody surely gets as each version [boxes, versions], −1 where that
    is not sure; the ends of the margins [boxes, versions, outputs]; and where no version can differ from another.
    """

    sure: np.ndarray
    low: np.ndarray
    high: np.ndarray
    alike: np.ndarray

    @property
    def fair(self) -> np.ndarray:
        return self.alike | told_alike(self.sure)

    @property
    def unfair(self) -> np.ndarray:
        return told_apart(self.sure)

    def __getitem__(self, which: np.ndarray) -> Bounds:
        return Bounds(self.sure[which], self.low[which], self.high[which], self.alike[which])


def told_apart(decided: np.ndarray) -> np.ndarray:
    """Whose versions [people, versions] surely get different classes."""
    first = decided.max(axis=1)
    return ((decided >= 0) & (decided != first[:, None])).any(axis=1)


def told_alike(decided: np.ndarray) -> np.ndarray:
    """Whose versions [people, versions] surely get the same class."""
    return (decided >= 0).all(axis=1) & (decided == decided[:, :1]).all(axis=1)


class Judge:
    """Decides about boxes of cells, and about single cells, of the free features."""

    def __init__(self, model: ForestModel, where: Where | None = None) -> None:
        self.model, self.where, self.cells = model, where, Cells.of(model, where)
        self.bits = LeafBits(self.cells)

    @staticmethod
    def of(model: ForestModel, where: Where | None = None) -> Judge:
        """The judge of what the domain leaves of a forest. Without `where` it is made once for each model: that takes
        seconds for large ones, and an audit needs it half a dozen times.
        """
        if where:
            return Judge(restricted(model), where)
        if model not in JUDGES:
            JUDGES[model] = Judge(restricted(model))
        return JUDGES[model]

    @cached_property
    def sendable(self) -> Judge:
        """The same without the original, which cannot be sent to another process, and is not asked there."""
        return Judge(replace(self.model, original=None), self.where)

    @cached_property
    def sizes(self) -> np.ndarray:
        """How many cells each free feature has."""
        return np.array([self.cells.features[i].count for i in self.cells.free], np.int64)

    @property
    def versions(self) -> int:
        return self.cells.twins.size

    @property
    def arithmetic(self) -> tuple[Arithmetic, ...]:
        """In which arithmetics sure answers hold; as executed only where that is known."""
        if not self.model.covers_execution:
            return ("real",)
        return ("real", self.model.forest.summation.precision)

    def structure(self) -> Verdict:
        """Verified if no split that anybody of the domain meets tells twins apart."""
        if self.bits.acting:
            return undecided("structural", f"{self.bits.acting:,} of {self.bits.units:,} trees tell twins apart")
        domain = self.cells.domain
        names = [*domain.sensitive, *domain.twin_group.moved]
        reads = set(names) & self.model.features_read
        if reads:
            reason = f"splits of {shown(sorted(reads))} send twins the same way, or to equal leaves"
        else:
            reason = f"no split that anybody of the domain meets reads {shown(names)}"
        return Verdict("verified", "structural", "structural", self.arithmetic, reason)

    @property
    def words(self) -> int:
        """Words of bits that are read for each box."""
        return self.bits.words + self.versions * max(self.bits.acting_words, 1)

    @property
    def together(self) -> int:
        """How many boxes are looked at at once."""
        return max(TOGETHER // self.words, 1)

    # --- boxes ---

    def bounds(self, low: np.ndarray, high: np.ndarray, masks: np.ndarray | None = None) -> Bounds:
        """Boxes of cells [boxes, free features], ends included; `masks` are their shared ones where these are known."""
        bits = self.bits
        parts = []
        for begin in range(0, len(low), self.together):
            rows = slice(begin, begin + self.together)
            some = bits.shared(low[rows], high[rows]) if masks is None else masks[rows]
            parts.append(self._bounds(some, low[rows], high[rows]))
        if not parts:
            none = np.zeros((0, self.versions, bits.outputs))
            return Bounds(np.zeros((0, self.versions), np.int64), none, none, np.zeros(0, bool))
        return Bounds(*(np.concatenate([getattr(part, name) for part in parts]) for name in Bounds.__annotations__))

    def _bounds(self, masks: np.ndarray, low: np.ndarray, high: np.ndarray) -> Bounds:
        bits = self.bits
        own = bits.of_versions(masks, low, high)
        least, most = bits.ends(own)
        if bits.acting < bits.units:
            shared = bits.ends(masks[:, bits.acting_words :], bits.acting_words)
            least, most = least + shared[0][:, None], most + shared[1][:, None]
        least, most = least + bits.constant, most + bits.constant
        # Leaves that one version allows another allows, too: then each person gets the same leaf in both.
        alike = (own == own[:, :1]).all(axis=(1, 2))
        moved = [i for i, position in enumerate(self.cells.free) if position in self.cells.twins.maps]
        if moved:  # of moved features that holds for single cells only
            alike &= (low[:, moved] == high[:, moved]).all(axis=1)
        return Bounds(bits.margins.surely(least, most), least, most, alike)

    # --- single cells ---

    def decided(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The class of each version of people given by their cells [people, free features], −1 where it is too close
        to call; and their margins [people, versions, outputs], close to a rounding.
        """
        found = self.bounds(points, points)
        sure = found.sure.copy()
        close = np.argwhere(sure < 0)
        if 0 < len(close) <= MOST_CLOSE:
            sure[close[:, 0], close[:, 1]] = self._closely(points[close[:, 0]], close[:, 1])
        return sure, found.low

    def treated(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which people, given by their cells, have versions that are decided differently, and who is too close to call.

        Of many versions, bands of them are bounded together first, and some looked at that are far apart: that tells
        about most people.
        """
        bits = self.bits
        if self.versions <= 2 * BANDS or len(self.cells.twins.ways) > 1 or bits.outputs > 1:
            decided, _ = self.decided(points)
            unfair = told_apart(decided)
            return unfair, ~unfair & (decided < 0).any(axis=1)
        unfair, unknown = np.zeros(len(points), bool), np.zeros(len(points), bool)
        step = max(TOGETHER // (bits.words + len(self._bands) * max(bits.acting_words, 1)), 1)
        for begin in range(0, len(points), step):
            some = points[begin : begin + step]
            masks = bits.shared(some, some)
            least, most = bits.ends(masks[:, None, : bits.acting_words] & self._bands[:, : bits.acting_words])
            shared = bits.ends(masks[:, bits.acting_words :], bits.acting_words)[0][:, None] + bits.constant
            sure = bits.margins.surely(least + shared, most + shared)  # [people, bands]
            unfair[begin : begin + step] = told_apart(sure)
            open_ = np.flatnonzero(~told_apart(sure) & ~told_alike(sure))
            if len(open_):
                decided, _ = self.decided(some[open_])
                unfair[begin + open_] = told_apart(decided)
                unknown[begin + open_] = ~told_apart(decided) & (decided < 0).any(axis=1)
        return unfair, unknown

    @cached_property
    def _bands(self) -> np.ndarray:
        """What bands of neighbouring versions allow, and single versions between them [bands, words]."""
        rows = self.bits.sensitive
        bands = [np.bitwise_or.reduce(rows[band], axis=0) for band in np.array_split(np.arange(len(rows)), BANDS)]
        return np.stack([*bands, *rows[np.linspace(0, len(rows) - 1, BANDS).astype(np.int64)]])

    def _closely(self, points: np.ndarray, versions: np.ndarray) -> np.ndarray:
        """The class of each person as one version, where all arithmetics agree; −1 elsewhere."""
        columns = self._columns(points, versions)
        forest = self.model.forest
        scores, leaves = forest.scores_of_columns(columns), forest.leaves(columns)
        executed = forest.decide(scores)
        rows = np.arange(forest.trees)
        largest = np.abs(forest.values[leaves]).sum(axis=0) * (1 + 2.0**-40)  # [people, outputs]
        doubt = 0.0 if forest.summation.in_order else 2 * forest.sum_error(largest).max(axis=1)
        margins = forest.margins(scores)
        if margins.shape[1] == 1:
            gap = np.abs(margins[:, 0])
        else:
            ranked = np.sort(margins, axis=1)
            gap = ranked[:, -1] - ranked[:, -2]
        near = forest.cut.slack + (0.0 if isinstance(doubt, float) else 2 * doubt)
        sure = (gap > near) | (near == 0)
        found = np.full(len(points), -1)
        for i in np.flatnonzero(sure):
            if exact_class(forest, forest.values[leaves[rows, i]]) == executed[i]:
                found[i] = executed[i]
        return found

    def _columns(self, points: np.ndarray, versions: np.ndarray) -> np.ndarray:
        """What the splits read of people, each as one version, [columns, people]."""
        cells, forest = self.cells, self.model.forest
        twins = cells.twins
        h, s = np.divmod(versions, len(twins.values))
        raw = {}
        for i, position in enumerate(cells.free):
            at = points[:, i]
            if position in twins.maps:
                at = twins.maps[position][twins.ways[h, position], at]
            raw[cells.domain.names[position]] = cells.features[position].samples[at]
        for j, position in enumerate(cells.sensitive):
            raw[cells.domain.names[position]] = cells.features[position].samples[twins.values[s, j]]
        return columns_of([raw[name] for name in self.model.reads], forest.columns, len(points))


def exact_class(forest: Forest, leaves: np.ndarray) -> int:
    """The class that a person's leaves [trees, outputs] decide in real arithmetic."""
    how, cut = forest.summation, forest.cut
    if forest.outputs == 1 and how.divisor == how.scale == 1:
        return int(math.fsum([*leaves[:, 0].tolist(), how.base[0], -cut.at]) > 0)  # rounded once: its sign is right
    scores = []
    for k in range(forest.outputs):
        base = Fraction(how.base[k])
        total = sum(map(Fraction, leaves[:, k].tolist()), base if how.base_first else Fraction(0))
        total = total * Fraction(how.scale) / Fraction(how.divisor) + (0 if how.base_first else base)
        scores.append(total - (Fraction(cut.offsets[k]) if cut.offsets else 0))
    if forest.outputs == 1:
        return int(scores[0] > Fraction(cut.at))
    return scores.index(max(scores))


# --- what the domain leaves of a forest ---


def restricted(model: ForestModel) -> ForestModel:
    """The model with the forest that its domain leaves: without splits that everybody passes one way, and without
    splits whose two sides are equal. Each tree still adds the same number to everybody's score.
    """
    keeper = _Keeper(model.forest, Cells.of(model).sides)
    return replace(model, forest=keeper.forest_of([keeper.tree(int(root)) for root in model.forest.roots]))


class _Keeper:
    """Numbers subtrees; equal ones get the same number (`known`), so that equal sides are recognised at once."""

    def __init__(self, forest: Forest, sides: Mapping[int, tuple[int, np.ndarray]]) -> None:
        self.forest, self.sides = forest, sides
        self.known: dict[Kept, int] = {}
        self.trees: list[Kept] = []  # (row of values,) of a leaf, else (node, left, right) with subtrees by number

    def _number(self, key: Kept, kept: Kept) -> int:
        if key not in self.known:
            self.known[key] = len(self.trees)
            self.trees.append(kept)
        return self.known[key]

    def tree(self, root: int) -> int:
        """The number of what is left of a subtree; without recursion, as trees may be deep."""
        forest, done = self.forest, list[int]()
        waiting: list[tuple[int, dict[int, np.ndarray], bool]] = [(root, {}, False)]
        while waiting:
            node, allowed, is_done = waiting.pop()
            if is_done:
                right, left = done.pop(), done.pop()
                asks = tuple(part[node].item() for part in (forest.column, forest.threshold, forest.members))
                key = (*asks, forest.missing_left[node].item(), left, right)
                done.append(left if left == right else self._number(key, (node, left, right)))
                continue
            if forest.leaf[node] >= 0:
                row = int(forest.leaf[node])
                done.append(self._number(("leaf", forest.values[row].tobytes()), (row,)))
                continue
            position, left_cells = self.sides[node]
            own = allowed.get(position)
            one = left_cells if own is None else own & left_cells
            other = ~left_cells if own is None else own & ~left_cells
            sides = [(one, int(forest.left[node])), (other, int(forest.right[node]))]
            sides = [(some, child) for some, child in sides if some.any()]
            if len(sides) == 2:
                waiting.append((node, allowed, True))
            for some, child in reversed(sides):
                waiting.append((child, {**allowed, position: some}, False))
        return done[0]

    def forest_of(self, roots: list[int]) -> Forest:
        """The trees written out again, each parent before its children."""
        forest = self.forest
        starts, source, left, right, rows = list[int](), list[int](), list[int](), list[int](), list[int]()
        for root in roots:
            starts.append(len(source))
            waiting = [(root, -1, False)]
            while waiting:
                number, parent, is_right = waiting.pop()
                here, kept = len(source), self.trees[number]
                if parent >= 0:
                    (right if is_right else left)[parent] = here
                left.append(-1)
                right.append(-1)
                if len(kept) == 1:
                    source.append(-1)
                    rows.append(kept[0])
                    continue
                source.append(kept[0])
                waiting += [(kept[2], here, True), (kept[1], here, False)]
        at = np.array(source)
        inner = at >= 0

        def of(array: np.ndarray, leaf: Any) -> np.ndarray:
            return np.where(inner, array[at], leaf)

        return replace(
            forest, roots=np.array(starts), column=of(forest.column, -1), threshold=of(forest.threshold, 0.0),
            members=of(forest.members, -1), left=np.array(left), right=np.array(right),
            missing_left=of(forest.missing_left, False), values=forest.values[rows],
        )  # fmt: skip


JUDGES: WeakKeyDictionary[ForestModel, Judge] = WeakKeyDictionary()
