"""Errors of bornfair, in the user's words.

Every message names what was found, where, what is allowed and what to do next.
The command line prints the message alone and exits with `exit_code`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class BornfairError(Exception):
    """Base of all errors bornfair raises on purpose."""

    exit_code = 2


class InputError(BornfairError, ValueError):
    """A table, domain, option or file that cannot be used as it is."""


class NoFairStart(BornfairError):
    """No drawn initialisation could be proven fair within the allowed tries."""

    exit_code = 3


class NoGamma(BornfairError, ValueError):
    """No γ makes the expected update of the sensitive parameters vanish."""


class Diverged(BornfairError, ArithmeticError):
    """Training left the finite numbers."""


def shown(values: Iterable[object], most: int = 8) -> str:
    """List values for a message, the first few by name and the rest by count.

    >>> shown(["a", "b"])
    "'a', 'b'"
    >>> shown(range(12), most=3)
    '0, 1, 2 and 9 more'
    """
    listed = list(values)
    text = ", ".join(repr(plain(value)) for value in listed[:most])
    return text if len(listed) <= most else f"{text} and {len(listed) - most} more"


def plain_value(value: object) -> bool | int | float | str:
    """`plain`, for values that must be one of the kinds a table can hold."""
    scalar = plain(value)
    if isinstance(scalar, (bool, int, float, str)):
        return scalar
    raise InputError(f"{scalar!r} is a {type(scalar).__name__}; values must be numbers, texts or true/false.")


def plain_level(value: object) -> Any:
    """`plain_value`, but None where a table has a gap.

    >>> plain_level(float("nan")), plain_level("a")
    (None, 'a')
    """
    scalar = plain(value)
    gap = scalar is None or type(scalar).__name__ in ("NAType", "NaTType") or scalar != scalar
    return None if gap else plain_value(scalar)


def plain(value: object) -> Any:
    """A NumPy scalar as the Python value a person would write."""
    item = getattr(value, "item", None)
    return item() if callable(item) and getattr(value, "ndim", None) == 0 else value
