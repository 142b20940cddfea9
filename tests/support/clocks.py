"""Clocks that say what a test wants: by one of them nothing takes any time, by the other everything does."""

from __future__ import annotations

import itertools

from bornfair.core.clock import Clock

SECONDS = 1e6


def fast_clock() -> Clock:
    return Clock(SECONDS, now=lambda: 0.0)


def slow_clock() -> Clock:
    """Half of the time is over after ten looks at it; the rest is never over."""
    looks = itertools.count()
    return Clock(SECONDS, now=lambda: SECONDS * min(next(looks), 10) / 20)


def ticking(seconds: float, each: float = 0.05) -> Clock:
    """A clock on which every look takes a while."""
    moments = itertools.count()
    return Clock(seconds, now=lambda: each * next(moments))
