"""Options checked where they come in: one sentence with the name, the value and what is allowed."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
from collections.abc import Callable, Iterable
from numbers import Integral, Real
from typing import Any

from bornfair.core.errors import InputError, shown


def whole(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, found {value!r}.")


def number(name: str, value: object, low: float, high: float, *, open_low: bool = False) -> None:
    good = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not (low <= value <= high) or (open_low and value == low):  # type: ignore[operator]
        upper = "" if high == math.inf else f" and at most {high:g}"
        raise InputError(
            f"{name} must be a number {'above' if open_low else 'of at least'} {low:g}{upper}, found {value!r}."
        )


def keywords(function: Callable[..., Any], given: Iterable[str], options: type) -> None:
    """Refuse keyword arguments that neither a function nor its `options` (a TypedDict) know."""
    allowed = tuple(options.__annotations__)
    named = inspect.signature(function).parameters.values()
    known = [one.name for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD] + list(allowed)
    for name in given:
        if name not in allowed:
            close = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean '{close[0]}'? " if close else ""
            raise InputError(f"{function.__name__} has no option '{name}'; {hint}it knows {shown(known, most=40)}.")


def choice(name: str, value: object, allowed: Iterable[str]) -> None:
    if value not in tuple(allowed):
        raise InputError(f"{name}={value!r} is not known; use one of {shown(allowed)}.")


def later(home: str) -> Callable[..., Any]:
    """The function of this name in a module of bornfair, which its first call imports: for tables of functions, of
    which each run needs few.

    >>> later("core.errors.shown")(["age", "sex"])
    "'age', 'sex'"
    """
    module, _, name = home.rpartition(".")
    return lambda *given, **named: getattr(importlib.import_module(f"bornfair.{module}"), name)(*given, **named)


def installed(module: str, what: str) -> Any:
    """The imported module. If its package is not installed, say that `what` needs it.

    bornfair-bench, a distribution of its own, is imported in this function only.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        name = package.replace("_", "-")
        raise InputError(f"{what} needs {name}, which is not installed; pip install {name}.") from error
