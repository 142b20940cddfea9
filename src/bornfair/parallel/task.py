"""The part of a piece of work that runs on a worker, and libraries in forked processes.

The work comes once, as bytes with a name, and is kept; after that only items come. An error of the work itself comes
back as a value: what a worker raises beside that is the worker's own death.
"""

from __future__ import annotations

import functools
import os
import pickle
import secrets
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bornfair.core.errors import InputError

KEPT = 4  # works, on each worker
HOME = secrets.token_hex(16)
"""The name of this process: a process that finds another name in a task is a worker."""

_kept: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()
_settled = False


@dataclass(frozen=True)
class Failed:
    """What the work raised."""

    error: BaseException


def run(home: str, name: str, place: bytes | str, item: Any) -> Any:
    """Do the work of this name on one item; `place` is the work itself, or the file that holds it."""
    try:
        if home != HOME:
            settle()
        return _work(name, place)(item)
    except Exception as error:  # noqa: BLE001  # whoever asked raises it again
        return Failed(_portable(error))


def _work(name: str, place: bytes | str) -> Callable[[Any], Any]:
    if name not in _kept:
        payload = Path(place).read_bytes() if isinstance(place, str) else place
        _kept[name] = pickle.loads(payload)  # from the process that asks, over the engine's own connection
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(name)
    return _kept[name]


def settle() -> None:
    """One core for each worker: sums are then taken in the same order by all, and workers do not compete."""
    global _settled
    if not _settled:
        keep_freed_memory()
        from threadpoolctl import threadpool_limits

        threadpool_limits(1, "blas")
        _settled = True


def keep_freed_memory() -> None:
    """Have the C library keep what NumPy's temporary arrays free, instead of asking the system for pages each time.

    glibc raises that threshold to the size of the largest block freed, up to 32 MB. Elsewhere this does nothing.
    """
    block = np.empty(31 << 20, np.uint8)
    del block


def versions(_: Any = None) -> dict[str, str]:
    """The versions on a worker: results of other versions may differ in their last bits."""
    from bornfair import __version__

    return {"bornfair": __version__, "numpy": np.__version__}


def _portable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  # whatever pickle finds fault with
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


# --- processes that were forked ---
#
# A forked process does not have the threads of its parent, for which JAX and OpenMP would wait forever.

_state = {"forked": False, "jax": False}


def _after_fork() -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    _state["forked"] = True
    _state["jax"] = _state["jax"] or bool(getattr(bridge, "_backends", bridge))  # its threads start with a backend
    _one_thread.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def jax_hangs() -> bool:
    """Whether JAX was used before this process was forked."""
    return _state["jax"]


def require_jax() -> None:
    """Raise InputError where training would wait forever."""
    openmp_after_fork()
    if jax_hangs():
        raise InputError(
            "JAX does not work in a process that was forked after JAX was used, so training would hang here; start the "
            "process with multiprocessing.get_context('spawn'), or train before it is forked. Prediction works."
        )


def openmp_after_fork() -> None:
    """Let libraries that use OpenMP compute in one thread, if this process was forked."""
    if _state["forked"]:
        _one_thread()


@functools.cache
def _one_thread() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, "openmp")
