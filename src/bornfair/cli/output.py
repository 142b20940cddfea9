"""What commands print: results on stdout (one JSON document with --json), progress and warnings on stderr.

Names of columns, categories, classes and files come from others. Nothing else in the command line prints, so that what
would steer a terminal (clear it, colour it, turn the direction of writing, begin a new line) is shown, never obeyed.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from bornfair.report.code_hosts import Examined
    from bornfair.training.epochs import Epoch


STATUS = {"verified": 0, "falsified": 1, "undecided": 3}
"""With which status a command ends that was asked whether a model is fair."""
LARGEST_SEED = 2**32 - 1  # of all generators in use


@contextlib.contextmanager
def written_to(path: Path, usual: Path) -> Iterator[None]:
    """Inside, a result is written to `path`. What stood there is never lost without a word: under the usual name, which
    nobody chose, it is kept beside; under a chosen name it is replaced, and that is said.
    """
    from bornfair.core.files import earlier_kept

    note = lambda text: say(f"bornfair: note: {text}")  # noqa: E731
    if path == usual:
        with earlier_kept(path, note):
            yield
        return
    there = path.is_file() or (path.is_dir() and any(path.iterdir()))
    yield
    if there:
        note(f"the earlier '{path}' was replaced.")


def printable(text: str) -> str:
    r"""Text in which characters that are not for printing (controls, line breaks, bidirectional marks, lone halves of
    pairs) are written out.

    >>> print(printable("\x1b[2J γ [bold] \u202e\n"))
    \x1b[2J γ [bold] \u202e\n
    """
    text = text.replace("\u00a0", " ")  # which keeps a number and its sign on one line; a terminal needs no such help
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def tell(*lines: str) -> None:
    """Print results on stdout, each on one line."""
    for line in lines:
        print(printable(line))


def print_text(text: str) -> None:
    """Print as it is a text of several lines that the caller has made fit to print."""
    sys.stdout.write(text)


def say(text: str) -> None:
    """Print progress, a warning or an error on stderr, on one line."""
    print(printable(text), file=sys.stderr, flush=True)


@contextlib.contextmanager
def only_documents() -> Iterator[None]:
    """Inside, stdout is for JSON documents; text that libraries print goes to stderr."""
    token = _documents.set(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _documents.reset(token)


_documents: ContextVar[Any] = ContextVar("documents", default=None)


def print_json(document: dict[str, Any]) -> None:
    text = json.dumps(document).replace("\x7f", "\\u007f")
    print(text, file=_documents.get() or sys.stdout)  # ASCII; of what steers a terminal, DEL alone is left in it


def print_table(
    title: str,
    headers: Sequence[str | tuple[str, ...]],
    rows: Sequence[Sequence[str]],
    *,
    numbers_from: int = 1,
) -> None:
    """A table for a person; columns from `numbers_from` on are aligned right and never broken.

    A header of several lines is a tuple of them.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    heads = [[*map(printable, (header,) if isinstance(header, str) else header)] for header in headers]
    cells = [[printable(cell) for cell in row] for row in rows]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, lines in enumerate(heads):  # as Text: a category may look like markup
        number = i >= numbers_from
        table.add_column(Text("\n".join(lines)), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    # Numbers are never cut off: a table wider than the screen, or than is usual in a file, is as wide as it is.
    usual = Console()
    needed = Measurement.get(usual, usual.options.update(max_width=10_000), table).maximum
    texts_fit = 120 if not sys.stdout.isatty() else usual.width
    numbers = sum(max(map(len, (*heads[i], *(row[i] for row in cells)))) + 3 for i in range(numbers_from, len(heads)))
    console = Console(width=max(usual.width, min(needed, max(texts_fit, numbers + 40))))
    if title:
        console.print(Text(printable(title), style="bold"))
    console.print(table)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"


def quality_rows(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Accuracy, balanced accuracy and the share of the largest class, as lines of a table."""
    names = {
        "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "majority_share": "share of the largest class"
    }  # fmt: skip
    return [(text, percent(figures.get(name))) for name, text in names.items()]


def print_twins(
    title: str, twins: Sequence[dict[str, Any]], decisions: Sequence[Any] = (), *, decided: str = "decision"
) -> None:
    """People side by side, what differs first."""
    differing = [name for name in twins[0] if len({str(person[name]) for person in twins}) > 1]
    order = differing + [name for name in twins[0] if name not in differing]
    cells = [(("▶ " if n in differing else "  ") + n, *(str(person[n]) for person in twins)) for n in order]
    if decisions:
        cells.append((f"▶ {decided}", *(str(decision) for decision in decisions)))
    headers = ["", "one", "the other"] if len(twins) == 2 else ["", *(f"person {i + 1}" for i in range(len(twins)))]
    print_table(title, headers, cells, numbers_from=99)


@contextlib.contextmanager
def training_progress(label: str, *, quiet: bool) -> Iterator[Callable[[Epoch], None]]:
    """A progress bar with the time left at most (early stopping may end sooner), on stderr."""
    if quiet:
        yield lambda epoch: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"),
        TimeElapsedColumn(), TextColumn("at most"), TimeRemainingColumn(), TextColumn("left{task.fields[loss]}"),
    )  # fmt: skip
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    trees = bar.add_task(label, total=None, what="times trees were grown", loss="", visible=False)
    task = bar.add_task(label, total=None, what="epochs", loss="", visible=False)

    def advance(epoch: Epoch) -> None:
        bar.start()  # not before: what is refused leaves one sentence, and no line of a bar
        if bar.tasks[task].completed == 0:
            bar.reset(task)  # time counts from here
            bar.update(trees, visible=False)
        loss = f", loss {epoch.record.loss:.4f}"
        bar.update(task, total=epoch.epochs, completed=epoch.record.epoch, loss=loss, visible=True)

    def grown(done: int, total: int) -> None:
        bar.start()
        bar.update(trees, total=total, completed=done, visible=True)

    from bornfair.training.embedding import trees_told

    try:
        with trees_told(grown):
            yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


class RowPace:
    """Tells now and then, on stderr, how many rows of a long table are done, how fast, and how long the rest takes."""

    EVERY = 10.0  # seconds

    def __init__(self, label: str, total: int | None, *, quiet: bool, start: int = 0) -> None:
        self.label, self.total, self.quiet, self.rows, self.start = label, total, quiet, start, start
        self.began = self.spoken = time.monotonic()

    def __call__(self, more: int) -> None:
        self.reached(self.rows + more)

    def reached(self, rows: int, also: str = "") -> None:
        self.rows, now = rows, time.monotonic()
        if self.quiet or now - self.spoken < self.EVERY:
            return
        self.spoken, speed = now, (rows - self.start) / (now - self.began)
        of = left = ""
        if self.total:
            of, left = f" of {self.total:,}", f", {(self.total - rows) / max(speed, 1e-9):,.0f} s left"
        say(f"bornfair: {self.label}: {rows:,}{of} rows, {speed:,.0f} rows/s{left}{also}")


@contextlib.contextmanager
def unfairness_warned() -> Iterator[None]:
    """Warnings about the guarantee are shown each time, not only the first. Those about the table were said before;
    those about the quality are said after the figures.
    """
    from bornfair.training.fitting import FairnessWarning, QualityWarning, TableWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        warnings.simplefilter("ignore", QualityWarning)
        warnings.simplefilter("always", FairnessWarning)
        yield


def write_for_code_hosts(command: str, examined: list[Examined], sarif: Path | None, junit: Path | None) -> list[str]:
    """Write the files that are asked for; their names."""
    from bornfair.core.files import write_atomically
    from bornfair.report.code_hosts import to_junit, to_sarif

    written = []
    for path, write in ((sarif, to_sarif), (junit, to_junit)):
        if path is not None:
            written.append(str(write_atomically(path, write(command, examined))))
    return written
