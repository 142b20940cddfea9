"""How does an interrupted search go on? From the cuts it made, and from nothing else.

The file says where the whole was cut; the boxes are cut anew along it, so they cover everybody whatever the file holds.
What was decided is not in it: each box is decided again, once. That saves the boxes which were bounded in vain and cut.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from bornfair.core import checkpoint
from bornfair.core.errors import InputError
from bornfair.people.space.boxes import Boxes, Places

NAMES = ("parents", "columns", "kept")
MOST_CUTS = 4_000_000  # kept in memory and in the file; later cuts are made anew


class Cuts:
    """A record of cuts. The whole is box 0; cut k makes the boxes 2k + 1 and 2k + 2 of box `parents[k]`.

    With a `file` they are kept there, bound to the question by its digest, and taken from there if it exists.
    """

    def __init__(self, places: Places, file: Path | None = None, digest: str = "") -> None:
        self.places, self.file, self.digest, self.count = places, file, digest, 0
        self._saved = time.monotonic()
        width = places.free.width
        # By cut: the box that is cut, the column, and of a one-hot group the categories that the first half keeps.
        self._parts = [(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, (width + 7) // 8), np.uint8))]
        if file is not None and file.exists():
            self._load(file)

    def record(self, boxes: Boxes, first: Boxes, second: Boxes) -> tuple[Boxes, Boxes]:
        """The halves of boxes with numbers of their own, by which they are known when they are cut in turn."""
        number = boxes.facts["number"]
        known = np.flatnonzero(number >= 0)[: max(0, MOST_CUTS - self.count)]
        if len(known):
            column = (boxes.high[known] != first.high[known]).argmax(axis=1).astype(np.int32)
            self._parts.append((number[known], column, np.packbits(first.high[known] > 0, axis=1)))
        numbers = np.full((2, len(boxes)), -1, np.int64)
        numbers[:, known] = _halves_of(self.count + np.arange(len(known)))
        self.count += len(known)
        return first.knowing(number=numbers[0]), second.knowing(number=numbers[1])

    def leaves(self, most: int) -> Boxes:
        """The whole, cut as recorded; into no more than about `most` boxes. A cut that cannot be made is left out."""
        parents, columns, kept = self._arrays()
        cut_of = np.full(2 * self.count + 1, -1)
        cut_of[parents] = np.arange(self.count)
        boxes = self.places.root.knowing(number=np.zeros(1, np.int64))
        done: list[Boxes] = []
        while len(boxes) and sum(len(part) for part in done) + len(boxes) <= most:
            cut = cut_of[boxes.facts["number"]]
            done.append(boxes[cut < 0])
            boxes, cut = boxes[cut >= 0], cut[cut >= 0]
            chosen = np.unpackbits(kept[cut], axis=1, count=self.places.free.width) > 0
            first, second, possible = self.places.halves(boxes, columns[cut], chosen)
            done.append(boxes[~possible])
            one, other = _halves_of(cut[possible])
            boxes = Boxes.joined(first.knowing(number=one), second.knowing(number=other))
        return Boxes.joined(*done, boxes)

    def save(self, *, every: float = 0.0) -> None:
        """Write the file, if so many seconds have passed since the last time."""
        now = time.monotonic()
        if self.file is not None and now - self._saved >= every:
            self._saved = now
            tensors = dict(zip(NAMES, self._arrays(), strict=True))
            checkpoint.save(self.file, checkpoint.Saved(tensors, {}), expected=self.digest)

    def discard(self) -> None:
        """There is nothing left to go on with."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def _load(self, file: Path) -> None:
        found = checkpoint.load(file, expected=self.digest).tensors
        arrays = tuple(found[name] for name in NAMES if name in found)
        if not _fits(arrays, self._arrays(), self.places.free.width):
            raise InputError(f"'{file}' is not a search that can be resumed; delete it to start from the beginning.")
        parents, columns, kept = arrays
        self.count = len(parents)
        self._parts.append((parents, columns, kept))

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parents, columns, kept = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return parents, columns, kept


def _halves_of(cut: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 2 * cut + 1, 2 * cut + 2


def _fits(found: tuple[np.ndarray, ...], blank: tuple[np.ndarray, ...], width: int) -> bool:
    """Whether arrays from a file can be cuts; whether they are sensible ones does not matter."""
    if len(found) < len(blank):
        return False
    alike = all(f.dtype == b.dtype and f.shape[1:] == b.shape[1:] for f, b in zip(found, blank, strict=True))
    if not alike or len({len(array) for array in found}) > 1:
        return False
    parents, columns, _ = found
    inside = (parents >= 0) & (parents <= 2 * len(parents)) & (columns >= 0) & (columns < width)
    return bool(inside.all())
