"""The best cut of a box of cells: where trees whose values spread most inside it split first.

Each unit is followed from its root as far as everybody in the box goes one way; the split at which they part votes for
itself with the unit's spread. The feature with most votes is cut, at the split with most votes in it.
"""

from __future__ import annotations

import numpy as np

from bornfair.models.forest.bounds.judge import Bounds, Judge
from bornfair.people.space.boxes import Boxes


class Branching:
    """The splits of free features, each once, and where every node's cells begin to part."""

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
