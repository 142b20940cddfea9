"""How does an interrupted search go on? From the cuts it made, and from nothing else.

The file says where the whole was cut; the boxes are cut anew along it, so they cover everybody whatever the file holds.
What was decided is not in it: each box is decided again, once. That saves the boxes which were bounded in vain and cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bornfair import checkpoint
from bornfair.errors import InputError
from bornfair.verification.boxes import Boxes, Places

NAMES = ("parents", "columns", "kept")
MOST_CUTS = 4_000_000  # kept in memory and in the file; later cuts are made anew


class Cuts:
    """A record of cuts. The whole is box 0; cut k makes the boxes 2k + 1 and 2k + 2 of box `parents[k]`."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.count = 0
        width = places.free.width
        # By cut: the box that is cut, the column, and of a one-hot group the categories that the first half keeps.
        self._parts = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, (width + 7) // 8), np.uint8))]

    def record(self, boxes: Boxes, first: Boxes, second: Boxes) -> tuple[Boxes, Boxes]:
        """The halves of boxes with numbers of their own, by which they are known when they are cut in turn."""
        assert boxes.number is not None
        known = np.flatnonzero(boxes.number >= 0)[: max(0, MOST_CUTS - self.count)]
        if len(known):
            column = (boxes.high[known] != first.high[known]).argmax(axis=1).astype(np.int32)
            self._parts.append((boxes.number[known], column, np.packbits(first.high[known] > 0, axis=1)))
        numbers = np.full((2, len(boxes)), -1, np.int64)
        numbers[:, known] = _halves_of(self.count + np.arange(len(known)))
        self.count += len(known)
        return Boxes(first.low, first.high, numbers[0]), Boxes(second.low, second.high, numbers[1])

    def leaves(self, most: int) -> Boxes:
        """The whole, cut as recorded; into no more than about `most` boxes. A cut that cannot be made is left out."""
        parents, columns, kept = self._arrays()
        cut_of = np.full(2 * self.count + 1, -1)
        cut_of[parents] = np.arange(self.count)
        root = self.places.root
        boxes = Boxes(root.low, root.high, np.zeros(1, np.int64))
        done: list[Boxes] = []
        while len(boxes) and sum(len(part) for part in done) + len(boxes) <= most:
            assert boxes.number is not None
            cut = cut_of[boxes.number]
            done.append(boxes[cut < 0])
            boxes, cut = boxes[cut >= 0], cut[cut >= 0]
            chosen = np.unpackbits(kept[cut], axis=1, count=self.places.free.width) > 0
            first, second, possible = self.places.halves(boxes, columns[cut], chosen)
            done.append(boxes[~possible])
            one, other = _halves_of(cut[possible])
            boxes = Boxes.joined(Boxes(first.low, first.high, one), Boxes(second.low, second.high, other))
        return Boxes.joined(*done, boxes)

    def save(self, file: Path, digest: str) -> None:
        """Keep the cuts in a file, bound to the question by its digest."""
        checkpoint.save(file, checkpoint.Saved(dict(zip(NAMES, self._arrays(), strict=True)), {}), expected=digest)

    @staticmethod
    def load(file: Path, digest: str, places: Places) -> Cuts:
        found, cuts = checkpoint.load(file, expected=digest).tensors, Cuts(places)
        parents, columns, kept = (found.get(name) for name in NAMES)
        if (
            parents is None
            or columns is None
            or kept is None
            or not _fits((parents, columns, kept), cuts._arrays(), places.free.width)
        ):
            raise InputError(f"'{file}' is not a search that can be resumed; delete it to start from the beginning.")
        cuts.count = len(parents)
        cuts._parts.append((parents, columns, kept))
        return cuts

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parents, columns, kept = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return parents, columns, kept


@dataclass(frozen=True, eq=False)
class State:
    """Where a search stands. Shares are of the whole domain."""

    open: Boxes
    share: np.ndarray  # of each open box
    cuts: Cuts  # which grow as the search goes on
    decided: float = 0.0
    stuck: float = 0.0  # boxes that can neither be decided nor cut
    boxes: int = 0  # bounded so far
    rounds: int = 0
    seconds: float = 0.0
    real_only: bool = False  # float32 could not be shown somewhere


def _halves_of(cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * cut + 1, 2 * cut + 2


def _fits(found: tuple[np.ndarray, ...], blank: tuple[np.ndarray, ...], width: int) -> bool:
    """Whether arrays from a file can be cuts; whether they are sensible ones does not matter."""
    alike = all(f.dtype == b.dtype and f.shape[1:] == b.shape[1:] for f, b in zip(found, blank, strict=True))
    if not alike or len({len(array) for array in found}) > 1:
        return False
    parents, columns, _ = found
    inside = (parents >= 0) & (parents <= 2 * len(parents)) & (columns >= 0) & (columns < width)
    return bool(inside.all())
