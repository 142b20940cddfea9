"""Work spread over workers so that the answer is the same for any number of them.

A task is a work (a callable record that says all it needs) and an item. Results come in the order of the items, each
once. A task whose worker dies is done again; if that happens too often, it is done here.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import math
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from bornfair.core.errors import InputError
from bornfair.parallel import task
from bornfair.parallel.engines import Engine, Processes, engine_of

Item = TypeVar("Item")
Found = TypeVar("Found")

AHEAD = 2  # tasks for each worker that are under way or wait with it, so that it need not wait for us
TRIES = 3  # of a task whose workers die; then it is done here
ROUNDS = 4  # tasks for each worker that are handed to joblib together


class Workers:
    """So many pieces of work side by side: how many changes nothing but the time.

    >>> with Workers.of(2) as workers:
    ...     list(workers.ordered(abs, range(-2, 3)))
    [2, 1, 0, 1, 2]
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self.engine, self.jobs = engine, 1 if engine is None else engine.jobs
        self.is_elsewhere = engine is not None and not isinstance(engine, Processes)
        """Whether what is sent to them may leave this machine."""
        self.died = 0
        """How many tasks were done again because their worker had died."""
        self._kept: dict[int, tuple[Any, str, Any]] = {}

    @staticmethod
    def of(jobs: Jobs = None, cluster: str | None = None) -> Workers:
        """Those that are there already; or so many processes of this machine; or a cluster, or as many of its workers:
        'auto' or 'ray://HOST:PORT' (Ray), 'tcp://HOST:PORT' (Dask). With neither, what `joblib.parallel_config` says
        around the call, which is one process unless somebody says more.

        Raises:
            InputError: if the number is none, the cluster cannot be reached, or what it needs is not installed.
        """
        if isinstance(jobs, Workers):
            return jobs
        if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
            raise InputError(f"jobs is a whole number from 1 on, found {jobs!r}.")
        if cluster is not None:
            return Workers(engine_of(cluster, jobs))
        if jobs is None:
            return _configured()
        return Workers(Processes(jobs)) if jobs > 1 else ALONE

    @staticmethod
    @contextlib.contextmanager
    def lent(jobs: Jobs = None) -> Iterator[Workers]:
        """The same for a while: who was there before stays, others go home."""
        found = Workers.of(jobs)
        try:
            yield found
        finally:
            if found is not jobs:
                found.close()

    def ordered(
        self, work: Callable[[Item], Found], items: Iterable[Item], patience: Callable[[], float] = lambda: math.inf
    ) -> Iterator[Found]:
        """The results, one after the other. An item is taken only when a worker is about to be free for it, so that
        the iterable may look at the clock. When no result comes within the seconds that `patience` allows, it
        ends: what is not back by then is left out.
        """
        return (found for _, found in self._results(work, items, patience, in_order=True))

    def finished(self, work: Callable[[Item], Found], items: Iterable[Item]) -> Iterator[tuple[int, Found]]:
        """The results as they come, each with the place of its item."""
        return self._results(work, items, lambda: math.inf, in_order=False)

    def close(self) -> None:
        """End what was started for this."""
        if self.engine is not None:
            self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _results(
        self, work: Callable[[Item], Found], items: Iterable[Item], patience: Callable[[], float], *, in_order: bool
    ) -> Iterator[tuple[int, Found]]:
        name = self._name(work) if self.engine is not None else None
        numbered = enumerate(items)
        if name is None:
            yield from ((i, work(item)) for i, item in numbered)
            return
        under_way: dict[int, _Sent] = {}
        try:
            while True:
                for i, item in itertools.islice(numbered, AHEAD * self.jobs - len(under_way)):
                    under_way[i] = _Sent(item, self._submit(work, item))
                if not under_way:
                    return
                first = next(iter(under_way))
                awaited = [under_way[first].future] if in_order else [one.future for one in under_way.values()]
                seconds = patience()
                if not wait(awaited, None if math.isinf(seconds) else max(seconds, 0.0), FIRST_COMPLETED).done:
                    return
                i = first if in_order else next(i for i, one in under_way.items() if one.future.done())
                if _died(under_way[i].future):
                    self._send_again(work, under_way)
                    continue
                found = under_way.pop(i).future.result()
                if isinstance(found, task.Failed):
                    raise found.error
                yield i, found
        finally:
            for one in under_way.values():
                one.future.cancel()

    def _send_again(self, work: Callable[[Any], Any], under_way: dict[int, _Sent]) -> None:
        """Give tasks of workers that died to others, or do them here."""
        for one in under_way.values():
            if one.future.done() and _died(one.future):
                self.died += 1
                one.tries += 1
                one.future = self._submit(work, one.item) if one.tries < TRIES else _done(work, one.item)

    def _submit(self, work: Callable[[Any], Any], item: Any) -> Future[Any]:
        assert self.engine is not None
        _, name, place = self._kept[id(work)]
        try:
            return self.engine.submit(name, place, item)
        except Exception as error:  # noqa: BLE001  # whatever the engine says when it is gone
            lost: Future[Any] = Future()
            lost.set_exception(error)
            return lost

    def _name(self, work: Callable[[Any], Any]) -> str | None:
        """By which name the workers know this work; None if it cannot be sent, and is done here."""
        assert self.engine is not None
        if id(work) not in self._kept:
            sent = _portable(work)
            if sent is None:
                return None
            while len(self._kept) >= task.KEPT:
                del self._kept[next(iter(self._kept))]
            # Kept with the work, so that its id is its own.
            self._kept[id(work)] = (work, sent[0], self.engine.keep(*sent))
        return self._kept[id(work)][1]


def _portable(work: Callable[[Any], Any]) -> tuple[str, bytes] | None:
    """The name and the bytes of a work; None if it cannot be sent, and is done here."""
    try:
        payload = pickle.dumps(work, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return hashlib.sha256(payload).hexdigest(), payload


@dataclass
class _Sent:
    """A task that is under way."""

    item: Any
    future: Future[Any]
    tries: int = 0


def _died(future: Future[Any]) -> bool:
    return future.cancelled() or future.exception() is not None


def _done(work: Callable[[Any], Any], item: Any) -> Future[Any]:
    """The same, done here."""
    future: Future[Any] = Future()
    try:
        future.set_result(work(item))
    except Exception as error:  # noqa: BLE001  # raised in its place
        future.set_result(task.Failed(error))
    return future


class _Configured(Workers):
    """The backend of `joblib.parallel_config`, whichever it is: tasks are handed to it in rounds."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs, self.is_elsewhere = jobs, True  # a backend may send work anywhere

    def _results(
        self, work: Callable[[Item], Found], items: Iterable[Item], patience: Callable[[], float], *, in_order: bool
    ) -> Iterator[tuple[int, Found]]:
        from joblib import Parallel, delayed

        numbered, sent = enumerate(items), _portable(work)
        if sent is None:
            yield from ((i, work(item)) for i, item in numbered)
            return
        while some := list(itertools.islice(numbered, ROUNDS * self.jobs)):
            tasks = [delayed(task.run)(task.HOME, *sent, item) for _, item in some]
            found: list[Any] = []
            for _ in range(TRIES):
                with contextlib.suppress(Exception):  # of the backend: the work's own come back as values
                    found = Parallel(batch_size=1)(tasks)
                    break
                self.died += len(some)
            for (i, item), one in itertools.zip_longest(some, found, fillvalue=_NOWHERE):
                value = _done(work, item).result() if one is _NOWHERE else one
                if isinstance(value, task.Failed):
                    raise value.error
                yield i, value


_NOWHERE: Any = object()


def _configured() -> Workers:
    """The workers that `joblib.parallel_config` around the call asks for."""
    if "joblib" not in sys.modules:  # so nobody has said anything
        return ALONE
    from joblib import effective_n_jobs

    jobs = effective_n_jobs(None)
    return ALONE if jobs == 1 else _Configured(jobs)


ALONE = Workers()

Jobs = int | Workers | None
"""How many processes of this machine; or workers that are there already; or None, as `joblib.parallel_config` says."""
