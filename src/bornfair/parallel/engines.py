"""Engines that run workers: processes of this machine (loky, which joblib brings), a Ray or a Dask cluster.

Each engine can do three things: keep a work where its workers find it, take a task and give a `Future`, and end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Protocol

from bornfair.core.errors import InputError
from bornfair.core.growing import OwnFolder
from bornfair.parallel import task

IN_TASKS = 2**16  # bytes of a work that is sent with every task; a larger one is kept in one place
CONNECTING = 20.0  # seconds to reach a cluster in, and again for its first answer
ENDING = 5.0  # seconds to take leave of a cluster
IDLE = 60.0  # seconds after which a process without work ends
POLLED = 0.5  # seconds between two looks at the parent


class Engine(Protocol):
    """Who takes tasks."""

    jobs: int

    def keep(self, name: str, payload: bytes) -> Any:
        """Put a work where all workers find it."""

    def submit(self, name: str, place: Any, item: Any) -> Future[Any]:
        """Have the work done on an item."""

    def close(self) -> None:
        """End what was started."""


class Processes:
    """So many processes of this machine."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self._folder = jobs, OwnFolder.temporary()
        self._executor: Any = None

    def keep(self, name: str, payload: bytes) -> bytes | str:
        if len(payload) <= IN_TASKS:
            return payload
        file = self._folder.path / name
        file.write_bytes(payload)
        return str(file)

    def submit(self, name: str, place: Any, item: Any) -> Future[Any]:
        from joblib.externals.loky import get_reusable_executor
        from joblib.externals.loky.process_executor import BrokenProcessPool, ShutdownExecutorError

        for _ in range(2):
            if self._executor is None:  # the processes that are there, unless some have died
                self._executor = get_reusable_executor(
                    self.jobs, timeout=IDLE, initializer=_begin, initargs=(os.getpid(),)
                )
            try:
                return self._executor.submit(task.run, task.HOME, name, place, item)
            except (BrokenProcessPool, ShutdownExecutorError):
                self._executor = None
        raise RuntimeError("the processes of this machine die as soon as they are started")

    def close(self) -> None:
        self._folder.close()


def _begin(parent: int) -> None:
    """Prepare a worker. Ctrl-C is for the process that waits for the answer: the terminal sends it to workers too."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is killed, which nobody could tell it."""
    while os.getppid() == parent:
        time.sleep(POLLED)
    os._exit(1)


class Ray:
    """A Ray cluster: `auto`, the one this machine belongs to, or ray://HOST:PORT."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        with _needed("ray", address):
            import ray
        self._ray, self._mine = ray, not ray.is_initialized()
        if self._mine:
            with _needed("ray", address), _reached(address, "start it with `ray start --head`"):
                ray.init(address, log_to_driver=False, logging_level="ERROR", configure_logging=False)
        self._run = ray.remote(num_cpus=1, max_retries=3)(task.run)
        self.jobs = jobs or max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def keep(self, name: str, payload: bytes) -> Any:
        return self._ray.put(payload)

    def submit(self, name: str, place: Any, item: Any) -> Future[Any]:
        return self._run.remote(task.HOME, name, place, item).future()

    def close(self) -> None:
        if self._mine:
            with contextlib.suppress(Exception):  # of a cluster that has died
                self._ray.shutdown()


class Dask:
    """A Dask cluster, by the address of its scheduler."""

    def __init__(self, address: str, jobs: int | None = None) -> None:
        with _needed("dask", address):
            from distributed import Client
        with _reached(address, "start it with `dask scheduler`, and `dask worker` on every machine"):
            self._client = Client(address, timeout=CONNECTING, set_as_default=False)
        logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)  # a lost connection is no error: see `workers`
        logging.getLogger("tornado").setLevel(logging.CRITICAL + 1)
        self._executor = self._client.get_executor(pure=False)
        self.jobs = jobs or sum(self._client.ncores().values()) or 1

    def keep(self, name: str, payload: bytes) -> Any:
        if len(payload) <= IN_TASKS:
            return payload
        return self._client.scatter(payload, broadcast=True, hash=False)  # to all: one that dies takes no copy away

    def submit(self, name: str, place: Any, item: Any) -> Future[Any]:
        return self._executor.submit(task.run, task.HOME, name, place, item)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a scheduler that has died
            self._client.close(timeout=ENDING)


@contextlib.contextmanager
def _needed(extra: str, address: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a cluster at '{address}' needs {extra.capitalize()}, which is not installed here ({error}); run: "
            f"pip install 'bornfair[{extra}]', here and on the cluster."
        ) from error


@contextlib.contextmanager
def _reached(address: str, how: str) -> Iterator[None]:
    host, _, port = address.partition("://")[2].rpartition(":")
    if "://" in address and not (host and port.isdigit()):
        raise InputError(
            f"cluster={address!r} names no host and port; write it as {address.partition('://')[0]}://HOST:PORT."
        )
    try:
        if host:  # whose own clients would try for half a minute
            socket.create_connection((host.strip("[]"), int(port)), CONNECTING / 4).close()
        yield
    except (OSError, ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"the cluster '{address}' cannot be reached ({said}); {how}, or check the address.") from error


def engine_of(cluster: str, jobs: int | None) -> Engine:
    """The cluster that an address names, once its workers have shown that they can run this."""
    found: Engine
    if cluster == "auto" or cluster.startswith("ray://"):
        found = Ray(cluster, jobs)
    elif cluster.startswith(("tcp://", "tls://")):
        found = Dask(cluster, jobs)
    else:
        raise InputError(
            f"cluster={cluster!r} is not known; write 'auto' or 'ray://HOST:PORT' for Ray, 'tcp://HOST:PORT' for Dask."
        )
    try:
        _greeted(found, cluster)
    except BaseException:
        found.close()
        raise
    return found


def _greeted(engine: Engine, cluster: str) -> None:
    """Refuse workers that cannot run this, or run another version of it."""
    name = "versions"
    try:
        found = engine.submit(name, engine.keep(name, pickle.dumps(task.versions)), None).result(CONNECTING)
    except TimeoutError as error:
        raise InputError(f"no worker of the cluster '{cluster}' answers; start some, or check `--cluster`.") from error
    except Exception as error:  # the engine's own words for a worker that cannot import us
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise InputError(
            f"the workers of '{cluster}' cannot run bornfair ({said}); install the same version of it there."
        ) from error
    if isinstance(found, task.Failed):
        raise InputError(f"the workers of '{cluster}' cannot run bornfair ({found.error}).")
    if found != task.versions():
        theirs, ours = (", ".join(f"{k} {v}" for k, v in side.items()) for side in (found, task.versions()))
        raise InputError(f"the workers of '{cluster}' run {theirs}, and this is {ours}; install the same there.")
