"""Limits on bytes of input, memory of child processes and seconds, and one deadline for every wait.

Only the standard library is imported here: a child process runs this file by its path and calls `limit_this_process`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import monotonic
from typing import Any, ParamSpec, Protocol, TypeVar

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

# --- bytes of files, and of what they hold ---

MODEL_BYTES = 1_000_000_000  # of an .onnx file, and of the file of its weights
DOCUMENT_BYTES = 1 << 29  # of a JSON, UBJSON or text file of a forest
DOMAIN_BYTES = 1 << 26  # of a domain file
PERSON_BYTES = 1 << 20  # of a JSON file with one person
KERAS_BYTES = 1 << 28  # of an .h5 file, of each file in a .keras archive, and of all arrays as float64
KERAS_ARRAYS = 2_000
KERAS_TEXT = 1 << 24  # bytes of the configuration of a Keras model
ANSWER_BYTES = 16 << 20  # of an answer of an endpoint; JSON takes up to 50 times as much memory
GRAPH_ANSWER_BYTES = 1 << 30  # of all outputs of a foreign model for one batch of people

# --- tables ---

STREAMED_ROWS = 1_000_000  # a table with more rows is read in batches
STREAMED_CELLS = 10_000_000  # rows times columns; a table with more is read in batches
STREAMED_BYTES = 200_000_000  # of an unpacked CSV file, or of the decoded columns of a Parquet file
WHOLE_CELLS = 25_000_000  # of a table that is read as a whole
WHOLE_BYTES = 500_000_000  # the same, as STREAMED_BYTES counts them
TABLE_COLUMNS = 10_000
LINE_BYTES = 16 << 20  # of a line of a CSV file

# --- child processes and seconds ---

CHILD_BYTES = 4 << 30  # address space of a process that runs somebody else's model
READER_BYTES = 3 << 30  # the same, of a process that reads somebody else's arrays
CHILD_SECONDS = 60.0  # for reading a model, and for each batch of people
READER_SECONDS = 60.0  # for reading the arrays of a file
REQUEST_SECONDS = 60.0  # for an answer of a program or an endpoint
PAUSE_SECONDS = 10.0  # longest pause that a busy endpoint may ask for
LEAST_SECONDS = 5.0  # for reading a model, however short the time limit of the question is
BEYOND = 2.0  # times the time limit of a question: no wait of it ends later
LEAST_WAIT = 1.0  # for one answer of a child process: a sound model needs less, also on a busy machine


class Remaining(Protocol):
    """A countdown of seconds: a `Deadline`, or the clock of a question."""

    @property
    def left(self) -> float: ...


class Deadline:
    """The end of a wait. All parts of a wait share one, so that their sum is limited.

    >>> seconds = iter([0.0, 1.0, 4.0, 6.0])
    >>> deadline = Deadline(5.0, now=lambda: next(seconds))
    >>> deadline.left, deadline.left, deadline.is_up
    (4.0, 1.0, True)
    """

    def __init__(self, seconds: float = math.inf, *, now: Callable[[], float] | None = None) -> None:
        self.now, self.seconds = now or monotonic, seconds
        self.end = self.now() + seconds

    @staticmethod
    def within(seconds: float, *, least: float = LEAST_WAIT) -> Deadline:
        """A deadline after so many seconds, or that of the current question (`until`) if it is earlier.

        It leaves at least `least` seconds, so that a question whose time is up can still be answered.
        """
        return Deadline(min(seconds, max(time_left(), least)))

    @property
    def left(self) -> float:
        """Seconds until the end, at least 0."""
        return max(self.end - self.now(), 0.0)

    @property
    def is_up(self) -> bool:
        return self.left <= 0


_current: ContextVar[Remaining | None] = ContextVar("deadline of the current question", default=None)


def time_left() -> float:
    """Seconds that the current question leaves for a wait; infinite if none limits it."""
    current = _current.get()
    return math.inf if current is None else current.left


@contextlib.contextmanager
def until(clock: Remaining, *, least: float = LEAST_SECONDS) -> Iterator[None]:
    """Limit every wait in the block by this clock, but leave all of them together `least` seconds from now on.

    An outer block that ends earlier limits the inner one.
    """
    ending = Deadline(min(max(clock.left, least), time_left()))
    before = _current.set(ending)
    try:
        yield
    finally:
        _current.reset(before)


def ends_in_time(function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Limit every wait in a function by its keyword argument `timeout`, seconds or a running clock.

    The waits end at `BEYOND` times the limit: a counterexample that is found at the end is still replayed.
    """
    usual = inspect.signature(function).parameters["timeout"].default

    @functools.wraps(function)
    def limited(*given: Parameters.args, **named: Parameters.kwargs) -> Answer:
        timeout: Any = named.get("timeout", usual)
        left = getattr(timeout, "left", timeout)
        usable = isinstance(left, (int, float)) and not isinstance(left, bool) and left > 0  # else the function refuses
        with until(Deadline(BEYOND * left if usable else math.inf)):
            return function(*given, **named)

    return limited


def limit_this_process(memory: int, seconds: float | None = None) -> None:
    """Limit the address space of this process, and the processor seconds that it may use from now on.

    Systems without POSIX resource limits do neither; their children are limited by the parent's deadline alone.
    """
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    if seconds is not None and seconds < math.inf:
        spent = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(spent + seconds) + 1, most))
