"""What commands print: results on stdout (one JSON document with --json), progress and warnings on stderr."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bornfair.training import Epoch


STATUS = {"verified": 0, "falsified": 1, "undecided": 3}
"""With which status a command ends that was asked whether a model is fair."""


def print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document, ensure_ascii=False))


def print_table(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int = 1) -> None:
    """A table for a person; columns from `numbers_from` on are aligned right and never broken."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, header in enumerate(headers):
        number = i >= numbers_from
        table.add_column(header, justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as it is: a category may look like markup
    # Numbers are never cut off: a table wider than the screen, or than is usual in a file, is as wide as it is.
    usual = Console()
    needed = Measurement.get(usual, usual.options.update(max_width=10_000), table).maximum
    texts_fit = 120 if not sys.stdout.isatty() else usual.width
    numbers = sum(max(len(row[i]) for row in (headers, *rows)) + 3 for i in range(numbers_from, len(headers)))
    console = Console(width=max(usual.width, min(needed, max(texts_fit, numbers + 40))))
    console.print(Text(title, style="bold"))
    console.print(table)


def print_twins(title: str, twins: Sequence[dict[str, Any]], decisions: Sequence[Any] = ()) -> None:
    """People side by side, what differs first."""
    differing = [name for name in twins[0] if len({str(person[name]) for person in twins}) > 1]
    order = differing + [name for name in twins[0] if name not in differing]
    cells = [(("▶ " if n in differing else "  ") + n, *(str(person[n]) for person in twins)) for n in order]
    if decisions:
        cells.append(("▶ decision", *(str(decision) for decision in decisions)))
    headers = ["", "one", "the other"] if len(twins) == 2 else ["", *(f"person {i + 1}" for i in range(len(twins)))]
    print_table(title, headers, cells, numbers_from=99)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("epochs"),
        TimeElapsedColumn(), TextColumn("at most"), TimeRemainingColumn(), TextColumn("left, loss {task.fields[loss]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, loss="–")

        def advance(epoch: Epoch) -> None:
            bar.update(task, total=epoch.epochs, completed=epoch.record.epoch, loss=f"{epoch.record.loss:.4f}")

        yield advance


@contextlib.contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Warnings about the guarantee reach a person as plain sentences."""
    from bornfair.fitting import FairnessWarning

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        say(f"bornfair: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", FairnessWarning)
        warnings.showwarning = show
        yield
