"""Decisions of a forest about boxes of cells and about single cells: sure answers only, in every arithmetic named.

Sure answers hold in real numbers and in the forest's own arithmetic: bounds allow for every rounding of the sum
(`Margins.doubt`). People whom bounds leave open are summed up in both ways, bit for bit and without any rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from bornfair.core.errors import shown
from bornfair.models.forest.bounds.bits import TOGETHER, LeafBits
from bornfair.models.forest.bounds.cells import Cells, restricted
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.forest import Forest
from bornfair.models.verdict import Arithmetic, Verdict, undecided
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.subpopulation import Where

if TYPE_CHECKING:
    from bornfair.models.forest.model import ForestModel

BANDS = 8  # of many versions
MOST_CLOSE = 100_000  # sums that are looked at without rounding in one call; beyond, too close to call


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds of boxes: the class that everybody surely gets as each version [boxes, versions], −1 where that
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
        for begin in range(0, max(len(low), 1), self.together):
            rows = slice(begin, begin + self.together)
            some = bits.shared(low[rows], high[rows]) if masks is None else masks[rows]
            parts.append(self._bounds(some, low[rows], high[rows]))
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
        """Leaves that bands of neighbouring versions allow, and single versions between them [bands, words]."""
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
        """The columns of people, each as one version: [columns, people]."""
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


# --- where to cut a box ---


class Branching:
    """The best cut of a box of cells: where trees whose values spread most inside it split first.

    Each unit is followed from its root as far as everybody in the box goes one way; the split at which they part votes
    for itself with the unit's spread. The feature with most votes is cut, at the split with most votes in it.
    """

    def __init__(self, judge: Judge) -> None:
        cells, forest = judge.cells, judge.model.forest
        self.judge, self.forest = judge, forest
        self.split_of = np.full(forest.nodes, -1)
        feature, before, change, offset = list[int](), list[np.ndarray](), list[np.ndarray](), list[int]()
        known: dict[tuple[int, bytes], int] = {}
        total = 0
        for node, (position, row) in cells.sides.items():
            key = (position, row.tobytes())
            if key not in known:
                known[key] = len(feature)
                feature.append(position)
                offset.append(total)
                before.append(np.concatenate([[0], np.cumsum(row)]))
                turns = np.append(np.where(row[1:] != row[:-1], np.arange(len(row) - 1), len(row)), len(row))
                change.append(np.append(np.minimum.accumulate(turns[::-1])[::-1], len(row)))
                total += len(row) + 1
            self.split_of[node] = known[key]
        self.feature = np.array(feature, np.int64)
        self.offset = np.array(offset, np.int64)
        self.before = np.concatenate([*before, np.zeros(1, np.int64)]).astype(np.int32)
        self.change = np.concatenate([*change, np.zeros(1, np.int64)]).astype(np.int32)
        self.place = np.full(len(cells.features), -1)
        self.place[list(cells.free)] = np.arange(len(cells.free))
        self.roots = forest.roots[judge.bits.tree]

    def _everywhere(self, free: np.ndarray, version: np.ndarray) -> np.ndarray:
        """The cells of all features of the domain, from those of the free ones and one version [boxes]."""
        cells = self.judge.cells
        whole = np.zeros((len(free), len(cells.features)), np.int32)
        whole[:, list(cells.free)] = free
        whole[:, list(cells.sensitive)] = cells.twins.values[version % len(cells.twins.values)]
        return whole

    def parting(self, low: np.ndarray, high: np.ndarray, version: np.ndarray, units: slice) -> np.ndarray:
        """The split [boxes, units] at which people of each box first part in each unit; −1 where they do not."""
        forest = self.forest
        first, last = (self._everywhere(end, version).ravel() for end in (low, high))
        roots, boxes, width = self.roots[units], len(low), len(self.judge.cells.features)
        node = np.tile(roots, boxes)
        row = np.repeat(np.arange(boxes) * width, len(roots))
        moving = np.flatnonzero(self.split_of[node] >= 0)
        found = np.full(len(node), -1)
        while len(moving):
            at = node[moving]
            split = self.split_of[at]
            cell = row[moving] + self.feature[split]
            begin, end = first[cell], last[cell]
            base = self.offset[split]
            left = self.before[base + end + 1] - self.before[base + begin]
            whole = left == end - begin + 1
            parts = ~whole & (left > 0)
            found[moving[parts]] = split[parts]
            go = ~parts
            moving, at = moving[go], at[go]
            node[moving] = np.where(whole[go], forest.left[at], forest.right[at])
            moving = moving[self.split_of[node[moving]] >= 0]
        return found.reshape(boxes, len(roots))

    def chosen(
        self, low: np.ndarray, high: np.ndarray, versions: tuple[np.ndarray, np.ndarray], spreads: list[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The free feature [boxes] to cut, −1 where there is none, and the last cell of the lower part.

        versions: two of each box's versions, for the acting units; spreads [boxes, units] of the acting units as
        each of these, and of the others.
        """
        acting = self.judge.bits.acting
        asked = ((versions[0], slice(0, acting)), (versions[1], slice(0, acting)), (versions[0], slice(acting, None)))
        boxes, splits = len(low), len(self.feature)
        split = np.concatenate([self.parting(low, high, *one) for one in asked], axis=1)
        weight = np.where(split >= 0, np.maximum(np.concatenate(spreads, axis=1), 1e-30), 0.0)
        key = np.arange(boxes)[:, None] * splits + np.maximum(split, 0)
        votes = np.bincount(key.ravel(), weight.ravel(), minlength=boxes * splits).reshape(boxes, splits)
        by_feature = np.zeros((boxes, len(self.place)))
        for position in np.unique(self.feature):
            by_feature[:, position] = votes[:, self.feature == position].sum(axis=1)
        best = np.argmax(by_feature, axis=1)
        some = by_feature[np.arange(boxes), best] > 0
        votes = np.where(self.feature[None] == best[:, None], votes, -1.0)
        chosen = np.argmax(votes, axis=1)
        place = np.where(some, self.place[best], -1)
        cut = self.change[self.offset[chosen] + low[np.arange(boxes), np.maximum(place, 0)]]
        return place, cut

    def cuts(
        self, low: np.ndarray, high: np.ndarray, masks: np.ndarray, found: Bounds
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where to cut open boxes of more than one cell: the free feature, and the last cell of its lower part."""
        bits, boxes = self.judge.bits, len(low)
        if not boxes:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = np.arange(boxes)
        lead = found.low[..., 0] if bits.outputs == 1 else found.low.max(axis=2)
        ends = found.high[..., 0] if bits.outputs == 1 else found.high.max(axis=2)
        versions = lead.argmin(axis=1), ends.argmax(axis=1)
        own, spreads = bits.of_versions(masks, low, high), []
        for version in versions:
            least, most = bits.unit_ends(own[rows, version])
            spreads.append(most - least)
        least, most = bits.unit_ends(masks[:, bits.acting_words :], bits.acting_words)
        feature, cut = self.chosen(low, high, versions, [*spreads, most - least])
        widest = np.argmax(high - low, axis=1)  # where these versions do not part, others may
        middle = (low[rows, widest] + high[rows, widest]) // 2
        return np.where(feature < 0, widest, feature), np.where(feature < 0, middle, cut)


def halves(boxes: Boxes) -> Boxes:
    """The halves of boxes that know where to be cut."""
    feature, cut = boxes.facts["feature"], boxes.facts["cut"]
    rows = np.arange(len(boxes))
    below, above = boxes.high.copy(), boxes.low.copy()
    below[rows, feature], above[rows, feature] = cut, cut + 1
    return Boxes(np.concatenate([boxes.low, above]), np.concatenate([below, boxes.high]))


JUDGES: WeakKeyDictionary[ForestModel, Judge] = WeakKeyDictionary()
