"""Boxes of the free space: parts that are bounded, measured and cut in two until all are decided.

A box is kept as two rows of places: whole numbers 0, 1, … on a lattice column (u = low + step·place), u itself on a
real one, and in a one-hot group 1 in `high` for each category still allowed. Lattice boxes end on lattice points.

A number that is missing has a place too, but u does not depend on it: u is what a gap is shown as. A box is cut into
people who have the number and people who do not before it is cut at the number.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bornfair.people.twins.relation import FreeSpace


@dataclass(frozen=True, eq=False)
class Boxes:
    """Many boxes: arrays low, high [boxes, columns] of places, and facts about each of them [boxes] by name."""

    low: np.ndarray
    high: np.ndarray
    facts: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, which: np.ndarray) -> Boxes:
        return Boxes(self.low[which], self.high[which], {name: fact[which] for name, fact in self.facts.items()})

    def knowing(self, **facts: np.ndarray) -> Boxes:
        """The same boxes with more facts about them."""
        return Boxes(self.low, self.high, {**self.facts, **facts})

    @staticmethod
    def joined(*parts: Boxes) -> Boxes:
        """All boxes, with the facts that are known of all of them."""
        common = [name for name in parts[0].facts if all(name in part.facts for part in parts)]
        low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high"))
        return Boxes(low, high, {name: np.concatenate([part.facts[name] for part in parts]) for name in common})


@dataclass(frozen=True, eq=False)
class Places:
    """The free space in places, or the part of it that is asked about."""

    free: FreeSpace
    part: Boxes | None = None
    """Whom the question is about, as one box, if not everybody."""

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
    def gap_columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the numbers that may be missing: their columns, those that say so, and what gaps are shown as."""
        gaps = self.free.gaps
        numbers, missing = (np.array([getattr(g, name) for g in gaps], np.int64) for name in ("number", "missing"))
        return numbers, missing, np.array([gap.shown for gap in gaps])

    def unsettled(self, boxes: Boxes) -> np.ndarray:
        """Which boxes hold both people who have a number and people of whom it is missing."""
        missing = self.gap_columns[1]
        return np.asarray((boxes.low[:, missing] < boxes.high[:, missing]).any(axis=1))

    @cached_property
    def root(self) -> Boxes:
        """Everybody who is asked about, as one box."""
        if self.part is not None:
            return self.part
        free = self.free
        steps = np.where(self.lattice, free.step, 1.0)
        last = np.round((free.high - free.low) / steps)
        low = np.where(self.real, free.low, 0.0)
        high = np.where(self.lattice, last, free.high)
        return Boxes(low[None], high[None])

    def values(self, places: np.ndarray) -> np.ndarray:
        """Free vectors u from rows of places."""
        found = self._plain(places)
        if self.free.gaps:
            numbers, missing, shown = self.gap_columns
            found[:, numbers] = np.where(places[:, missing] > 0, shown, found[:, numbers])
        return found

    def bounds(self, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
        """The boxes as rows low, high of u."""
        low, high = self._plain(boxes.low), self._plain(boxes.high)
        if self.free.gaps:
            numbers, missing, shown = self.gap_columns
            there, gone = boxes.low[:, missing] == 0, boxes.high[:, missing] > 0
            ends = low[:, numbers], high[:, numbers]
            low[:, numbers] = np.where(gone, np.where(there, np.minimum(ends[0], shown), shown), ends[0])
            high[:, numbers] = np.where(gone, np.where(there, np.maximum(ends[1], shown), shown), ends[1])
        return low, high

    def _plain(self, places: np.ndarray) -> np.ndarray:
        """Free vectors of people of whom nothing is missing."""
        return np.where(self.lattice, self.free.low + self.free.step * places, places)

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
            for gap in self.free.gaps:  # in place of the number times both ways of its gap: the number or the gap
                lattice, range_ = self.lattice[gap.number], self.root.high[0, gap.number] - self.root.low[0, gap.number]
                number = width[:, gap.number] + 1 if lattice else width[:, gap.number] / range_ if range_ > 0 else 1.0
                both = number * (boxes.low[:, gap.missing] == 0) + gap.weight * (boxes.high[:, gap.missing] > 0)
                total += np.log(both) - np.log(number) - np.log(width[:, gap.missing] + 1)
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
        varies = width > 0
        for gap in self.free.gaps:
            there, gone = boxes.low[:, gap.missing] == 0, boxes.high[:, gap.missing] > 0
            number = width[:, gap.number] + 1 if self.lattice[gap.number] else 1.0
            total = total / (number * (width[:, gap.missing] + 1)) * (number * there + gone)
            varies[:, gap.number] &= there
        return np.where(varies[:, self.real].any(axis=1), np.inf, total)

    # --- looking inside ---

    def everybody(self, boxes: Boxes) -> tuple[np.ndarray, np.ndarray]:
        """Places of all people in boxes of finite count, and the index of the box each comes from."""
        rows, owners = [], []
        starts = {group.start: group for group in self.free.groups}
        missing = {gap.number: gap.missing for gap in self.free.gaps}
        for index, (low, high) in enumerate(zip(boxes.low, boxes.high, strict=True)):
            choices: list[list[tuple[float, ...]]] = []
            column = 0
            while column < self.free.width:
                group = starts.get(column)
                if group is None:
                    seen = column not in missing or low[missing[column]] == 0
                    several = self.lattice[column] and seen
                    levels = np.arange(low[column], high[column] + 1) if several else low[column : column + 1]
                    choices.append([(level,) for level in levels])
                    column += 1
                else:
                    one_hot = np.eye(group.stop - group.start)
                    choices.append([tuple(one_hot[k]) for k in np.flatnonzero(high[group])])
                    column = group.stop
            found = [list(itertools.chain(*parts)) for parts in itertools.product(*choices)]
            for gap in self.free.gaps:  # of whom it is missing, one is enough
                found = [row for row in found if not row[gap.missing] or row[gap.number] == low[gap.number]]
            rows += found
            owners += [index] * len(found)
        return np.array(rows, np.float64).reshape(len(rows), self.free.width), np.array(owners, np.int64)

    def holding(self, boxes: Boxes, people: np.ndarray) -> np.ndarray:
        """Which boxes hold one of these people (places)."""
        found = np.zeros(len(boxes), bool)
        for person in people:
            within = (boxes.low <= person) & (person <= boxes.high)
            for gap in self.free.gaps:
                within[:, gap.number] |= person[gap.missing] > 0
            found |= np.where(self.grouped, boxes.high >= person, within).all(axis=1)
        return found

    def draw(self, boxes: Boxes, rng: np.random.Generator) -> np.ndarray:
        """Places of one person of each box, at random."""
        return self.at(boxes, rng.random(boxes.low.shape))

    def at(self, boxes: Boxes, chance: np.ndarray) -> np.ndarray:
        """Places of one person of each box, from numbers in [0, 1) for each column."""
        inside = boxes.high - boxes.low
        inside += self.lattice
        inside *= chance
        if not self.real.any():
            np.floor(inside, out=inside)
        else:
            inside[:, self.lattice] = np.floor(inside[:, self.lattice])
        inside += boxes.low
        np.minimum(inside, boxes.high, out=inside)
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

    def cuttable(self, boxes: Boxes) -> np.ndarray:
        """Which columns a box can be cut at [boxes, columns]; of a one-hot group it is the first."""
        middle = boxes.low / 2 + boxes.high / 2
        inside = (boxes.low < middle) & (middle < boxes.high)
        possible = np.where(self.lattice, boxes.low < boxes.high, inside) & ~self.grouped
        for group in self.free.groups:
            possible[:, group.start] = boxes.high[:, group].sum(axis=1) > 1
        for gap in self.free.gaps:  # where it is missing there is nothing to cut; where it may be, that is cut first
            possible[:, gap.number] &= boxes.high[:, gap.missing] == 0
        return possible

    def cut(self, boxes: Boxes, weight: np.ndarray, slope: np.ndarray) -> tuple[Boxes, Boxes, np.ndarray]:
        """Both halves of each box, cut where the outputs depend most on it, and which boxes could be cut at all.

        weight, slope [boxes, columns]: change of the outputs per unit of u, without and with sign. A group is cut into
        the categories of smaller and those of larger slope.
        """
        width, whole = boxes.high - boxes.low, np.maximum(self.root.high - self.root.low, 1e-300)
        merit = np.nan_to_num(weight) * width * np.where(self.lattice, self.free.step, 1.0)
        spread = width / whole  # for boxes of which the bounds know nothing
        for group in self.free.groups:
            allowed = boxes.high[:, group] > 0
            top = np.where(allowed, slope[:, group], -np.inf).max(axis=1)
            bottom = np.where(allowed, slope[:, group], np.inf).min(axis=1)
            merit[:, group.start] = np.nan_to_num(top - bottom)
            spread[:, group.start] = allowed.mean(axis=1)
        for gap in self.free.gaps:  # what a cut at a number is worth, its gap is worth too: that is cut first
            merit[:, gap.missing] = np.maximum(merit[:, gap.missing], merit[:, gap.number])
        possible = self.cuttable(boxes)
        merit, spread = np.where(possible, merit, -1.0), np.where(possible, spread, -1.0)
        known = merit.max(axis=1, initial=-1.0) > 0
        column = (
            np.where(known[:, None], merit, spread).argmax(axis=1) if self.free.width else np.zeros(len(boxes), int)
        )
        return self.halves(boxes, column, self.lower_half(boxes, column, slope))

    def lower_half(self, boxes: Boxes, column: np.ndarray, liking: np.ndarray) -> np.ndarray:
        """Of the groups that begin at these columns, the half of the allowed categories that is liked least [boxes,
        columns]: where like goes with like, bounds gain most.
        """
        kept = np.zeros(boxes.high.shape, bool)
        for group in self.free.groups:
            for row in np.flatnonzero(column == group.start):
                members = group.start + np.flatnonzero(boxes.high[row, group])
                members = members[np.argsort(liking[row, members], kind="stable")]
                kept[row, members[: len(members) // 2]] = True
        return kept

    def middle(self, column: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Where to cut a column: the last place of the lower half on a lattice, the end of both halves otherwise."""
        middle = low / 2 + high / 2
        return np.where(self.lattice[column], np.floor(middle), middle)

    def halves(
        self, boxes: Boxes, column: np.ndarray, kept: np.ndarray, at: np.ndarray | None = None
    ) -> tuple[Boxes, Boxes, np.ndarray]:
        """Both halves of each box that can be cut so, and which those are: at the middle of a column (or `at` a place
        inside), or into the categories `kept` and the others of the group that the column belongs to. Whatever is
        asked, no half is empty and both together are the whole box.
        """
        first, second = Boxes(boxes.low.copy(), boxes.high.copy()), Boxes(boxes.low.copy(), boxes.high.copy())
        rows = np.arange(len(boxes))
        possible = np.zeros(len(boxes), bool)
        if self.free.width:
            single = rows[~self.grouped[column]]
            where = column[single]
            low, high, lattice = boxes.low[single, where], boxes.high[single, where], self.lattice[where]
            place = self.middle(where, low, high) if at is None else at[single]
            first.high[single, where] = place
            second.low[single, where] = place + lattice
            possible[single] = np.where(lattice, (low <= place) & (place < high), (low < place) & (place < high))
        for group in self.free.groups:
            inside = rows[(group.start <= column) & (column < group.stop)]
            allowed, one = boxes.high[inside, group] > 0, kept[inside, group]
            first.high[inside, group], second.high[inside, group] = allowed & one, allowed & ~one
            possible[inside] = (allowed & one).any(axis=1) & (allowed & ~one).any(axis=1)
        return first[possible], second[possible], possible
