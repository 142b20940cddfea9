"""Libraries that can compute in a forked process, which does not have the threads of its parent.

JAX and OpenMP wait for these threads forever.
"""

from __future__ import annotations

import functools
import os
import sys

from bornfair.core.errors import InputError

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
