"""Who trains together? Several processes, on one machine or on many, joined by JAX's own distribution.

Every process reads its own part of the table, and gradients are averaged over all devices. What is said once (a
checkpoint, a bundle, a report) is said by the first process.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bornfair.core.errors import InputError

ADDRESS = re.compile(r"[^\s:]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
PATIENCE = 300  # seconds to wait for all processes
MISSED = 10  # seconds without a sign of life, after which a process is given up


@dataclass(frozen=True)
class Hosts:
    """This process among those that train together; by default it is alone."""

    process: int = 0
    processes: int = 1

    @property
    def is_first(self) -> bool:
        return self.process == 0

    def gathered(self, content: bytes) -> list[bytes]:
        """What each process has to say, in their order; all processes must ask at the same time."""
        if self.processes == 1:
            return [content]
        from jax.experimental.multihost_utils import process_allgather

        sizes = process_allgather(np.array([len(content)], np.int32)).reshape(-1)
        padded = np.zeros(int(sizes.max()), np.uint8)
        padded[: len(content)] = np.frombuffer(content, np.uint8)
        everything = np.asarray(process_allgather(padded)).reshape(self.processes, -1)
        return [everything[i, : int(size)].tobytes() for i, size in enumerate(sizes)]

    def from_first(self, content: bytes) -> bytes:
        """What the first process has to say."""
        return self.gathered(content if self.is_first else b"")[0]


ALONE = Hosts()


def joined(text: str) -> Hosts:
    """Join the processes that `--hosts` names: COORDINATOR:PORT,PROCESSES,PROCESS (counted from 0), or auto where the
    scheduler tells (SLURM, Open MPI, Kubernetes, TPU pods), as JAX finds it out.

    >>> joined("here,2")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    bornfair.core.errors.InputError: --hosts must be auto, or ADDRESS:PORT,PROCESSES,PROCESS as in ...
    """
    arguments: dict[str, object] = {}
    if text != "auto":
        address, *counts = text.split(",")
        if not (ADDRESS.fullmatch(address) and len(counts) == 2 and all(count.strip().isdigit() for count in counts)):
            raise InputError(
                "--hosts must be auto, or ADDRESS:PORT,PROCESSES,PROCESS as in 10.0.0.1:3456,4,0 for the first of four "
                f"processes, found {text!r}."
            )
        processes, process = map(int, counts)
        if not 0 <= process < processes:
            raise InputError(
                f"--hosts {text!r}: the process is counted from 0 to {processes - 1}, found {process}; of several "
                "processes each has a number of its own."
            )
        arguments = {"coordinator_address": address, "num_processes": processes, "process_id": process}
    import jax

    if not os.environ.get("JAX_PLATFORMS") or "cpu" in os.environ["JAX_PLATFORMS"]:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        with _aside():
            if "heartbeat_timeout_seconds" in inspect.signature(jax.distributed.initialize).parameters:
                arguments |= {"heartbeat_timeout_seconds": MISSED, "shutdown_timeout_seconds": MISSED}
            jax.distributed.initialize(**arguments, initialization_timeout=PATIENCE)  # type: ignore[arg-type]
            together = Hosts(jax.process_index(), jax.process_count())
            together.gathered(b"here")
    except Exception as error:  # JAX names what is missing in many ways
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"--hosts {text}: the processes could not join ({reason}); start all of them with the same coordinator."
        ) from error
    return together


@contextlib.contextmanager
def _aside() -> Iterator[None]:
    """What the libraries below write to stdout while they connect goes to stderr: stdout is for answers."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
