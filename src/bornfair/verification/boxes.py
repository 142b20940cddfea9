"""Which part of the free space is it? Boxes to be bounded, measured and cut in two until nothing is left to decide.

A box is kept as two rows of places: whole numbers 0, 1, … on a lattice column (u = low + step·place), u itself on a
real one, and in a one-hot group 1 in `high` for each category still allowed. Lattice boxes end on lattice points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bornfair.twins.relation import FreeSpace


@dataclass(frozen=True, eq=False)
class Boxes:
    """Many boxes: arrays low, high [boxes, columns] of places, and their numbers where cuts are recorded."""

    low: np.ndarray
    high: np.ndarray
    number: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, which: np.ndarray) -> Boxes:
        return Boxes(self.low[which], self.high[which], None if self.number is None else self.number[which])

    @staticmethod
    def joined(*parts: Boxes) -> Boxes:
        numbers = [p.number for p in parts if p.number is not None]
        low, high = (np.concatenate([getattr(p, end) for p in parts]) for end in ("low", "high"))
        return Boxes(low, high, np.concatenate(numbers) if len(numbers) == len(parts) else None)


@dataclass(frozen=True, eq=False)
class Places:
    """The free space in places."""

    free: FreeSpace

    @cached_property
    def grouped(self) -> np.ndarray:
        """Which columns belong to a one-hot group."""
        inside = np.zeros(self.free.width, bool)
        for group in self.free.groups:
            inside[group] = True
        return inside

    @cached_property
    def lattice(self) -> np.ndarray:
        return (self.free.step > 0) & ~self.grouped

    @cached_property
    def real(self) -> np.ndarray:
        return ~(self.lattice | self.grouped)

    @cached_property
    def root(self) -> Boxes:
        """Everybody, as one box."""
        free = self.free
        steps = np.where(self.lattice, free.step, 1.0)
        last = np.round((free.high - free.low) / steps)
        low = np.where(self.real, free.low, 0.0)
        high = np.where(self.lattice, last, free.high)
        return Boxes(low[None], high[None])

    def values(self, places: np.ndarray) -> np.ndarray:
        """Free vectors u from rows of places."""
        return np.where(self.lattice, self.free.low + self.free.step * places, places)

    def bounds(self, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
        """The boxes as rows low, high of u."""
        return self.values(boxes.low), self.values(boxes.high)

    # --- measuring ---

    def log_size(self, boxes: Boxes) -> np.ndarray:
        """log of (number of lattice points and categories × share of the real ranges): sums, so nothing overflows."""
        width = boxes.high - boxes.low
        with np.errstate(divide="ignore", invalid="ignore"):
            total = np.log(width[:, self.lattice] + 1).sum(axis=1)
            range_ = (self.root.high - self.root.low)[:, self.real]
            total += np.where(range_ > 0, np.log(width[:, self.real] / range_), 0.0).sum(axis=1)
            for group in self.free.groups:
                total += np.log(boxes.high[:, group].sum(axis=1))
        return total

    def share(self, boxes: Boxes) -> np.ndarray:
        """Which share of everybody is in each box."""
        return np.exp(self.log_size(boxes) - self.log_size(self.root))

    def count(self, boxes: Boxes) -> np.ndarray:
        """How many people are in each box; infinite where a real feature may vary."""
        width = boxes.high - boxes.low
        with np.errstate(over="ignore"):
            total = np.prod(width[:, self.lattice] + 1, axis=1)
        for group in self.free.groups:
            total *= boxes.high[:, group].sum(axis=1)
        return np.where((width[:, self.real] > 0).any(axis=1), np.inf, total)

    # --- looking inside ---

    def everybody(self, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
        """Places of all people in boxes of finite count, and the index of the box each comes from."""
        rows, owners = [], []
        starts = {group.start: group for group in self.free.groups}
        for index, (low, high) in enumerate(zip(boxes.low, boxes.high, strict=True)):
            choices: list[list[tuple[float, ...]]] = []
            column = 0
            while column < self.free.width:
                group = starts.get(column)
                if group is None:
                    levels = (
                        np.arange(low[column], high[column] + 1) if self.lattice[column] else low[column : column + 1]
                    )
                    choices.append([(level,) for level in levels])
                    column += 1
                else:
                    one_hot = np.eye(group.stop - group.start)
                    choices.append([tuple(one_hot[k]) for k in np.flatnonzero(high[group])])
                    column = group.stop
            found = [list(itertools.chain(*parts)) for parts in itertools.product(*choices)]
            rows += found
            owners += [index] * len(found)
        return np.array(rows, np.float64).reshape(len(rows), self.free.width), np.array(owners, np.int64)

    def draw(self, boxes: Boxes, rng: np.random.Generator) -> np.ndarray:
        """Places of one person of each box, at random."""
        chance = rng.random(boxes.low.shape)
        width = boxes.high - boxes.low
        inside = np.where(self.lattice, np.minimum(boxes.low + np.floor(chance * (width + 1)), boxes.high), boxes.low)
        inside = np.where(self.real, boxes.low + chance * width, inside)
        return self._with_category(inside, boxes, chance)

    def corner(self, boxes: Boxes, slope: np.ndarray) -> np.ndarray:
        """Places of the person of each box for whom slope·u is largest."""
        return self._with_category(np.where(slope > 0, boxes.high, boxes.low), boxes, slope)

    def _with_category(self, places: np.ndarray, boxes: Boxes, liking: np.ndarray) -> np.ndarray:
        for group in self.free.groups:
            best = np.where(boxes.high[:, group] > 0, liking[:, group], -np.inf).argmax(axis=1)
            places[:, group] = np.eye(group.stop - group.start)[best]
        return places

    def between(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Half way from one to the other, with the categories of the first."""
        middle = one / 2 + other / 2
        return np.where(self.lattice, np.floor(middle), np.where(self.real, middle, one))

    # --- cutting ---

    def cut(self, boxes: Boxes, weight: np.ndarray, slope: np.ndarray) -> tuple[Boxes, Boxes, np.ndarray]:
        """Both halves of each box, cut where the outputs depend most on it, and which boxes could be cut at all.

        weight, slope [boxes, columns]: change of the outputs per unit of u, without and with sign. A group is cut into
        the categories of smaller and those of larger slope.
        """
        width = boxes.high - boxes.low
        middle = np.where(self.lattice, np.floor(boxes.low / 2 + boxes.high / 2), boxes.low / 2 + boxes.high / 2)
        possible = np.where(self.lattice, width > 0, (middle > boxes.low) & (middle < boxes.high)) & ~self.grouped
        merit = np.where(possible, np.nan_to_num(weight) * width * np.where(self.lattice, self.free.step, 1.0), -1.0)
        whole = np.maximum(self.root.high - self.root.low, 1e-300)
        spread = np.where(possible, width / whole, -1.0)  # for boxes of which the bounds know nothing
        for group in self.free.groups:
            allowed = boxes.high[:, group] > 0
            several = allowed.sum(axis=1) > 1
            top = np.where(allowed, slope[:, group], -np.inf).max(axis=1)
            bottom = np.where(allowed, slope[:, group], np.inf).min(axis=1)
            merit[:, group.start] = np.where(several, np.nan_to_num(top - bottom), -1.0)
            spread[:, group.start] = np.where(several, allowed.mean(axis=1), -1.0)
        known = merit.max(axis=1, initial=-1.0) > 0
        column = (
            np.where(known[:, None], merit, spread).argmax(axis=1) if self.free.width else np.zeros(len(boxes), int)
        )
        kept = np.zeros(boxes.high.shape, bool)
        for group in self.free.groups:
            for row in np.flatnonzero(column == group.start):
                members = group.start + np.flatnonzero(boxes.high[row, group])
                members = members[np.argsort(slope[row, members], kind="stable")]
                kept[row, members[: len(members) // 2]] = True
        return self.halves(boxes, column, kept)

    def halves(self, boxes: Boxes, column: np.ndarray, kept: np.ndarray) -> tuple[Boxes, Boxes, np.ndarray]:
        """Both halves of each box that can be cut so, and which those are: at the middle of a column, or into the
        categories `kept` and the others of the group that the column belongs to. Whatever is asked, no half is empty
        and both together are the whole box.
        """
        first, second = Boxes(boxes.low.copy(), boxes.high.copy()), Boxes(boxes.low.copy(), boxes.high.copy())
        rows = np.arange(len(boxes))
        possible = np.zeros(len(boxes), bool)
        if self.free.width:
            single = rows[~self.grouped[column]]
            at = column[single]
            low, high = boxes.low[single, at], boxes.high[single, at]
            middle = np.where(self.lattice[at], np.floor(low / 2 + high / 2), low / 2 + high / 2)
            first.high[single, at] = middle
            second.low[single, at] = middle + self.lattice[at]
            possible[single] = np.where(self.lattice[at], low < high, (low < middle) & (middle < high))
        for group in self.free.groups:
            inside = rows[(group.start <= column) & (column < group.stop)]
            allowed, one = boxes.high[inside, group] > 0, kept[inside, group]
            first.high[inside, group], second.high[inside, group] = allowed & one, allowed & ~one
            possible[inside] = (allowed & one).any(axis=1) & (allowed & ~one).any(axis=1)
        return first[possible], second[possible], possible
