"""Open boxes of the domain, and the branch-and-bound search over them for all kinds of model.

The measurement of shares and the search for a proof tree use the same open boxes: their order, deadline, bound on
memory and progress, and a state that no interrupt leaves half-way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from bornfair.core.clock import Clock
from bornfair.core.growing import OwnFolder
from bornfair.models.verdict import Verdict, undecided
from bornfair.parallel import ALONE, Workers
from bornfair.people.space.boxes import Boxes

ENGINE = "bounds"
ENOUGH = "enough boxes were bounded"
TIME_IS_UP = "time is up"
INTERRUPTED = "interrupted"
TOO_CLOSE = "what is left is too close to the decision boundary to be told in this arithmetic"
GRACE = 2.0  # seconds beyond the time that a worker may be late by; then its boxes stay undecided
MOVED = 32  # all open boxes are moved when some are replaced, so at least one in so many of them is

Open = TypeVar("Open", bound=Sized)
Tally = TypeVar("Tally")


@dataclass(frozen=True, eq=False)
class Portion:
    """A task: some boxes, how many of their wave came before them, the seconds they may take, and what else the look
    at them should know.
    """

    boxes: Boxes
    before: int = 0
    seconds: float = float("inf")
    note: Any = None


class Seen(NamedTuple):
    """What a look found, and how long it took: by the clock on the wall, and of the processor."""

    found: Any
    seconds: float
    processor: float = 0.0


class Look:
    """What workers do with boxes, side by side: it says all they need to know, and depends on nothing else."""

    def __call__(self, portion: Portion) -> Seen:
        began, used = time.monotonic(), time.thread_time()
        found = self.look(portion)
        return Seen(found, time.monotonic() - began, time.thread_time() - used)

    def look(self, portion: Portion) -> Any:
        """What becomes of these boxes."""
        raise NotImplementedError


class Frontier(Generic[Open, Tally]):
    """Boxes that wait to be decided, and a tally of those that were."""

    def __init__(
        self,
        open_: Open,
        tally: Tally,
        clock: Clock,
        most_open: float = float("inf"),
        shelve: Callable[[], None] | None = None,
        *,
        counted: bool = False,
    ) -> None:
        """`most_open`: beyond so many boxes memory runs short; then `shelve` is called to put some elsewhere.
        `counted`: a number of boxes ends the work. Then the time changes nothing, unless all of it is up.
        """
        self.clock, self.most_open, self.counted = clock, most_open, counted
        self.seconds_each = 0.0  # for one box, in the last batch
        self._shelve = shelve
        # Replaced by one assignment, so that an interrupt finds all of it or nothing.
        self._state: tuple[Open, Tally, tuple[Shelved, ...]] = open_, tally, ()

    @property
    def open(self) -> Open:
        return self._state[0]

    @property
    def tally(self) -> Tally:
        return self._state[1]

    @property
    def shelved(self) -> tuple[Shelved, ...]:
        """Boxes that are open too, and wait in files."""
        return self._state[2]

    @property
    def count(self) -> int:
        """How many boxes are open, wherever they wait."""
        return len(self.open) + sum(one.count for one in self.shelved)

    def become(self, open_: Open, tally: Tally) -> None:
        self._state = open_, tally, self.shelved

    @cached_property
    def _shelf(self) -> Shelf:
        return Shelf()

    def shelve_half(self: Frontier[Boxes, Tally], by: str, note: Callable[[Boxes], Any] = lambda boxes: None) -> None:
        """Put the half with least of the fact `by` into a file, with a note about them; where there is no room for it
        they stay, and the newest come first.
        """
        order = np.argsort(self.open.facts[by], kind="stable")
        light, heavy = np.split(order, [len(order) // 2])
        boxes = self.open[light]
        told = note(boxes)
        with contextlib.suppress(OSError):
            shelved = self._shelf.put(boxes, by, told)
            self._state = self.open[heavy], self.tally, (*self.shelved, shelved)

    def _take_back(self: Frontier[Boxes, Tally]) -> None:
        """Read those again that come first by now, where there is room."""
        best = max(self.shelved, key=lambda one: one.top)
        joined = Boxes.joined(self.open, best.read()) if len(self.open) else best.read()
        self._state = joined, self.tally, tuple(one for one in self.shelved if one is not best)
        best.file.unlink(missing_ok=True)

    @property
    def is_full(self) -> bool:
        return len(self.open) > self.most_open

    def work(
        self,
        step: Callable[[], str | None],
        progress: Callable[[], str],
        reserve: Callable[[], float] = lambda: 0.0,
    ) -> str | None:
        """Take steps until one says why to stop, or time is up but for a reserve; None when no box is open."""
        while self.count:
            if self.shelved and len(self.open) <= self.most_open / 4:
                self._take_back()  # type: ignore[misc]
            elif self.is_full and self._shelve is not None:
                self._shelve()
            if self.clock.left <= reserve():
                return TIME_IS_UP
            self.clock.report(progress)
            reason = step()
            if reason is not None:
                return reason
        return None

    def wave(self: Frontier[Boxes, Tally], by: str, least: int, most: int = sys.maxsize) -> np.ndarray:
        """Which boxes come next: those with most of the fact `by`; the newest, depth-first, where memory is short."""
        count = len(self.open)
        size = min(max(least, count // MOVED), most, count)
        if size == count or self.is_full:
            return np.arange(count - size, count)
        return np.argpartition(self.open.facts[by], count - size)[count - size :]

    def replace(
        self: Frontier[Boxes, Tally],
        rows: np.ndarray,
        batch: int,
        decide: Callable[[Tally, Any], tuple[Tally, Boxes]],
        reserve: Callable[[], float] = lambda: 0.0,
        look: Callable[[Portion], Seen] | None = None,
        workers: Workers = ALONE,
        note: Any = None,
    ) -> None:
        """Put in the place of these boxes what is open of them after `decide`, batch by batch as far as time allows.

        `decide` is given the batches in order, or what a `look` at each of them found, which workers may take side by
        side. Batches are smaller where a whole one would take longer than there is time. Boxes that do not come back
        stay as they are.
        """
        under_way, held = deque[np.ndarray](), 0.0 if self.counted else reserve()

        def time_left() -> float:
            return self.clock.deadline - self.clock.now() - held

        def batches() -> Iterator[Portion]:
            start = 0
            while start < len(rows):
                left = time_left()
                if start and left <= 0:
                    return
                count = batch
                if not self.counted and self.seconds_each > 0 and batch * self.seconds_each > left:
                    count = max(int(left / self.seconds_each), 1)
                under_way.append(rows[start : start + count])
                yield Portion(self.open[rows[start : start + count]], start, max(left, 0.0), note)
                start += count

        def decided(portion: Portion) -> Seen:
            return Seen(portion.boxes, self.clock.now())

        rest, tally, fresh = np.ones(len(self.open), bool), self.tally, []
        for found, seconds, _ in workers.ordered(look or decided, batches(), lambda: max(time_left(), 0.0) + GRACE):
            some = under_way.popleft()
            tally, left = decide(tally, found)
            self.seconds_each = (seconds if look is not None else self.clock.now() - seconds) / len(some)
            rest[some] = False
            fresh.append(left)
        self.become(Boxes.joined(self.open[rest], *fresh), tally)


# --- boxes that wait in files ---


@dataclass(frozen=True, eq=False)
class Shelved:
    """Boxes in a file: how many, the most of the fact by which they are taken, the sums of all facts, and what else
    somebody wants to know of them without reading it.
    """

    file: Path
    count: int
    top: float
    sums: dict[str, float]
    note: Any = None

    def read(self) -> Boxes:
        from safetensors.numpy import load_file

        found = load_file(self.file)
        return Boxes(found.pop("/low"), found.pop("/high"), found)


class Shelf:
    """A folder of boxes, which only their owner may read. TMPDIR says where it is."""

    def __init__(self) -> None:
        self._own = OwnFolder.temporary()
        self.folder = self._own.path
        self._written = 0

    def put(self, boxes: Boxes, by: str, note: Any = None) -> Shelved:
        """Write them down. Raises OSError where there is no room either."""
        from safetensors.numpy import save_file

        self._written += 1
        file = self.folder / f"{self._written}.safetensors"
        arrays = {"/low": boxes.low, "/high": boxes.high, **boxes.facts}
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, file)
        sums = {name: float(np.nansum(fact)) for name, fact in boxes.facts.items() if fact.ndim == 1}
        return Shelved(file, len(boxes), float(boxes.facts[by].max()), sums, note)


# --- the search ---


@dataclass(frozen=True)
class BoxTally:
    """The boxes that were judged, and what shares of the domain are decided and too close to call."""

    boxes: int = 0
    decided: float = 0.0
    stuck: float = 0.0
    any_stuck: bool = False  # whose share may be too small for a float
    real_only: bool = False  # float32 could not be shown somewhere
    rounds: int = 0

    def plus(self, boxes: int, decided: float, stuck: np.ndarray, *, real_only: bool = False) -> BoxTally:
        """With more boxes; `stuck` are the shares of those that are too close to call."""
        return BoxTally(
            self.boxes + boxes, self.decided + decided, self.stuck + float(stuck.sum()),
            self.any_stuck or bool(len(stuck)), self.real_only or real_only, self.rounds,
        )  # fmt: skip


Waiting = Frontier[Boxes, BoxTally]


class Falsified(Exception):
    """Twins who are decided differently end the search. `boxes`: how many led to them, if not those of all rounds."""

    def __init__(self, verdict: Verdict, boxes: int | None = None) -> None:
        self.verdict, self.boxes = verdict, boxes


class Space:
    """What a kind of model provides to be searched: how boxes are judged and cut."""

    batch: int
    """Boxes that are judged together."""
    look: Look | None
    """What workers do with a batch. Without it, `take` is given the boxes themselves."""
    partitions = False
    """Whether the verdict counts boxes as partitions, too."""

    def begin(self, waiting: Waiting) -> None:
        """Judge the whole, where that is done before the first round."""

    def choose(self, waiting: Waiting, most: float) -> tuple[np.ndarray, Any]:
        """The next boxes, about `most` of them at most, and what a look at them should know."""
        raise NotImplementedError

    def take(self, tally: BoxTally, found: Any) -> tuple[BoxTally, Boxes]:
        """The tally after a batch, and the boxes that are still open. Raises Falsified."""
        raise NotImplementedError

    def end(self, waiting: Waiting) -> None:
        """Keep what a later search needs."""

    def progress(self, waiting: Waiting) -> str:
        raise NotImplementedError

    def verified(self, tally: BoxTally) -> Verdict:
        raise NotImplementedError

    def left(self, why: str, waiting: Waiting) -> str:
        """Why the search is undecided, and how far it got."""
        raise NotImplementedError


def search_boxes(space: Space, waiting: Waiting, stop_after: float, workers: Workers = ALONE) -> Verdict:
    """Verified when every box is decided, falsified with twins, undecided when time or boxes (`stop_after`) run out."""

    def step() -> str | None:
        if waiting.tally.boxes >= stop_after:
            return ENOUGH
        rows, note = space.choose(waiting, stop_after - waiting.tally.boxes)
        waiting.replace(rows, space.batch, space.take, look=space.look, workers=workers, note=note)
        waiting.become(waiting.open, dataclasses.replace(waiting.tally, rounds=waiting.tally.rounds + 1))
        return None

    def counted(verdict: Verdict, boxes: int) -> Verdict:
        parts = boxes if space.partitions else 1
        return dataclasses.replace(verdict, boxes=boxes, partitions=parts, seconds=waiting.clock.spent)

    try:
        space.begin(waiting)
        stopped = waiting.work(step, lambda: space.progress(waiting))
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    except Falsified as found:
        return counted(found.verdict, found.boxes or max(waiting.tally.boxes, 1))
    space.end(waiting)
    tally = waiting.tally
    if not waiting.count and not tally.any_stuck:
        return counted(space.verified(tally), tally.boxes)
    why = stopped if waiting.count and stopped else TOO_CLOSE
    return counted(undecided(ENGINE, space.left(why, waiting)), tally.boxes)
