"""Which part of the free space is it? Boxes to be bounded, measured and cut in two until nothing is left to decide.

A box is kept as two rows of places: whole numbers 0, 1, … on a lattice column (u = low + step·place), u itself on a
real one, and in a one-hot group 1 in `high` for each category still allowed. Lattice boxes end on lattice points.
"""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bornfair.errors import InputError
from bornfair.files import write_atomically
from bornfair.relation import FreeSpace

FORMAT = "bornfair-search/1"


@dataclass(frozen=True, eq=False)
class Boxes:
    """Many boxes: arrays low, high [boxes, columns] of places."""

    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.low)

    def __getitem__(self, which: np.ndarray) -> Boxes:
        return Boxes(self.low[which], self.high[which])

    @staticmethod
    def joined(*parts: Boxes) -> Boxes:
        return Boxes(np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts]))


@dataclass(frozen=True, eq=False)
class State:
    """Where a search stands. Shares are of the whole domain."""

    open: Boxes
    share: np.ndarray  # of each open box
    decided: float = 0.0
    stuck: float = 0.0  # boxes that can neither be decided nor cut
    boxes: int = 0  # bounded so far
    rounds: int = 0
    seconds: float = 0.0
    real_only: bool = False  # float32 could not be shown somewhere

    def save(self, file: Path, digest: str) -> None:
        """Keep the open boxes in a file, bound to the question by its digest."""
        numbers = [self.decided, self.stuck, self.boxes, self.rounds, self.seconds, self.real_only]
        content = io.BytesIO()
        np.savez(
            content, format=FORMAT, digest=digest, low=self.open.low, high=self.open.high, share=self.share,
            numbers=np.array(numbers, np.float64),
        )  # fmt: skip
        write_atomically(file, content.getvalue())

    @staticmethod
    def load(file: Path, digest: str) -> State:
        try:
            with np.load(file, allow_pickle=False) as held:
                kept = {name: held[name] for name in ("format", "digest", "low", "high", "share", "numbers")}
            decided, stuck, boxes, rounds, seconds, real_only = (float(n) for n in kept["numbers"])
        except Exception as error:  # np.load fails in many ways on files that are not its own
            raise InputError(f"'{file}' is not a search that can be resumed ({error}); name another file.") from error
        if str(kept["format"]) != FORMAT or str(kept["digest"]) != digest:
            raise InputError(
                f"'{file}' belongs to a search about another network, domain or arithmetic; name another file."
            )
        found = Boxes(kept["low"], kept["high"])
        return State(found, kept["share"], decided, stuck, int(boxes), int(rounds), seconds, bool(real_only))


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
        cuttable = np.asarray((spread > 0).any(axis=1))
        first, second = Boxes(boxes.low.copy(), boxes.high.copy()), Boxes(boxes.low.copy(), boxes.high.copy())
        rows = np.arange(len(boxes))
        if self.free.width:
            single = rows[~self.grouped[column]]
            at = column[single]
            first.high[single, at] = middle[single, at]
            second.low[single, at] = middle[single, at] + self.lattice[at]
        for group in self.free.groups:
            for row in rows[cuttable & (column == group.start)]:
                members = group.start + np.flatnonzero(boxes.high[row, group])
                members = members[np.argsort(slope[row, members], kind="stable")]
                half = len(members) // 2
                first.high[row, members[half:]] = 0
                second.high[row, members[:half]] = 0
        return first[cuttable], second[cuttable], cuttable
