"""Who does several pieces of work at once? Threads: what is slow here is compiled, and lets others go on meanwhile."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from bornfair.errors import InputError

Item = TypeVar("Item")
Found = TypeVar("Found")


class Workers:
    """So many pieces of work side by side, whose results come in the order of the work: how many there are changes
    nothing but the time.

    >>> Workers(3).ordered(lambda number: number**2, range(5)).__next__()
    0
    >>> list(Workers(3).ordered(lambda number: number**2, range(5)))
    [0, 1, 4, 9, 16]
    """

    def __init__(self, jobs: int = 1) -> None:
        if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
            raise InputError(f"jobs is a whole number from 1 on, found {jobs!r}.")
        self.jobs = jobs

    def ordered(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[Found]:
        """The results, one after the other. An item is taken only when somebody is free for it, so that whoever makes
        them may look at the clock. Whoever is interrupted does not wait for what is under way.
        """
        if self.jobs == 1:
            yield from map(work, items)
            return
        pool, under_way = ThreadPoolExecutor(self.jobs), deque[Future[Found]]()
        try:
            for item in items:
                under_way.append(pool.submit(work, item))
                if len(under_way) >= self.jobs:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            with contextlib.suppress(KeyboardInterrupt):
                pool.shutdown(wait=False, cancel_futures=True)


ALONE = Workers()
