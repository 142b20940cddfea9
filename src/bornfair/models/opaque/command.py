"""Programs that decide: a table on standard input, a decision for each row on standard output.

The program is started for each batch, without a shell, and ended at its limit of time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.checks import number
from bornfair.core.errors import InputError
from bornfair.core.limits import Deadline
from bornfair.core.redacted import command_shown, masked
from bornfair.models.columns import Columns
from bornfair.models.opaque.said import Outside, Said, as_sent, finite

TOGETHER = 65_536  # rows: a program takes long to start
LONGEST = 4_096  # bytes of one decision
LONGEST_NAME = 50  # letters of the command in a message
KEPT = 2_000  # last bytes of what it says on standard error
HEADERS = {"decision", "label", "prediction", "probability", "score"}


@dataclass(frozen=True)
class Command(Outside):
    """A program that decides: CSV on its standard input (a header, a line for each person), and on its standard output
    a line for each person, in order: a decision, a probability of the last class, or one number for each class, with
    commas between. A first line of names (`decision`, `probability`, or `decision,probability`) says which.

    Args:
        text: the program and its arguments, as in a shell; but no shell reads it.
        seconds: after which it is ended, for each batch.

    >>> import sys
    >>> import pandas as pd
    >>> from bornfair import verify
    >>> people = pd.DataFrame({"age": [20, 30, 40, 50], "woman": [0, 1, 0, 1]})
    >>> program = "import csv, sys; [print(row['woman']) for row in csv.DictReader(sys.stdin)]"
    >>> verdict = verify(Command(f'{sys.executable} -c "{program}"'), people, sensitive_features=["woman"], timeout=10)
    >>> verdict.answer, verdict.decisions
    ('falsified', [0, 1])
    """

    text: str = field(repr=False)
    seconds: float = limits.REQUEST_SECONDS

    def __post_init__(self) -> None:
        number("seconds", self.seconds, 0.0, float("inf"), open_low=True)
        if not self._words:
            raise InputError("the command is empty; name a program that reads CSV and writes decisions.")

    @property
    def _words(self) -> list[str]:
        try:
            return shlex.split(self.text)
        except ValueError as error:
            raise InputError(f"the command is not understood: {error}; write it as in a shell.") from None

    @property
    def name(self) -> str:
        words = command_shown(self._words)
        return f"the command '{words if len(words) <= LONGEST_NAME else words[: LONGEST_NAME - 1] + '…'}'"

    @property
    def how(self) -> str:
        return f"the command '{command_shown(self._words)}', which reads CSV and writes decisions"

    @property
    def digest(self) -> str:
        """Of the files that it names."""
        found = []
        for word in self._words[1:]:
            path = Path(word)
            with contextlib.suppress(OSError):
                if path.is_file():
                    with path.open("rb") as stream:
                        found.append(f"{path.name} {hashlib.file_digest(stream, 'sha256').hexdigest()}")
        return ", ".join(found)

    @property
    def most(self) -> int:
        return TOGETHER

    def ask(self, table: pd.DataFrame, columns: Columns, *, numbers: bool) -> Said:
        content = as_csv(table, columns)
        try:
            written = _exchanged(self._words, content, len(table), self.seconds, self.name)
        except InputError as error:  # a program may repeat its arguments
            raise InputError(masked(str(error), self._words[1:])) from None
        return lines_read(written, len(table), self.name)


def as_csv(table: pd.DataFrame, columns: Columns) -> bytes:
    """A header and a line for each row; gaps are empty.

    >>> from bornfair.people.domain import Domain
    >>> people = pd.DataFrame({"age": [30.0, None], "sex": ["f", "m"]})
    >>> as_csv(people, Columns(Domain.infer(people), ("age", "sex")))
    b'age,sex\\n30,f\\n,m\\n'
    """
    return as_sent(table, columns).to_csv(index=False, lineterminator="\n").encode()


def lines_read(written: bytes, rows: int, origin: str) -> Said:
    """
    >>> lines_read(b"decision,probability\\nyes,0.75\\nno,0.25\\n", 2, "it").numbers.tolist()
    [[0.75], [0.25]]
    """
    try:
        text = written.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{origin} wrote what is not UTF-8 ({error.reason}); it must write text.") from None
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    head: list[str] = []
    names = [part.strip().lower() for part in lines[0].split(",")] if lines else []
    if len(lines) == rows + 1 and names and set(names) <= HEADERS:
        head, lines = names, lines[1:]
    if len(lines) != rows:
        raise InputError(
            f"{origin} wrote {len(lines):,} lines for {rows:,} people; it must write one decision for each, in order."
        )
    cells = [[part.strip() for part in line.split(",")] for line in lines]
    width = len(cells[0]) if cells else 1
    for i, row in enumerate(cells):
        if len(row) != width or "" in row:
            raise InputError(f"{origin} wrote {lines[i][:80]!r} for person {i}; it must write alike for all.")
    if head and len(head) != width:
        raise InputError(f"{origin} names {len(head)} columns and writes {width}; they must agree.")
    labelled = [i for i, name in enumerate(head) if name in ("decision", "label", "prediction")]
    if labelled:
        labels = np.array([row[labelled[0]] for row in cells], dtype=object)
        others = [i for i in range(width) if i not in labelled]
        shown = _numbers([[row[i] for i in others] for row in cells]) if others else None
        if shown is not None:
            finite(shown, origin)
        return Said(_plain(labels), shown)
    found = _numbers(cells)
    if found is None or (not head and width == 1 and not any("." in row[0] or "e" in row[0].lower() for row in cells)):
        if width > 1:
            raise InputError(f"{origin} wrote {lines[0][:80]!r}; of several columns all must be numbers, or be named.")
        return Said(labels=_plain(np.array([row[0] for row in cells], dtype=object)))
    finite(found, origin)
    return Said(numbers=found)


def _plain(labels: np.ndarray) -> np.ndarray:
    """Whole numbers as such, if all labels are written so."""
    texts = labels.tolist()
    whole = all(text.lstrip("-").isdigit() and text.isascii() and str(int(text)) == text for text in texts)
    return np.array([int(text) for text in texts], dtype=object) if whole else labels


def _numbers(cells: list[list[str]]) -> np.ndarray | None:
    try:
        return np.array(cells, dtype=np.float64)
    except ValueError:
        return None


def _exchanged(words: list[str], content: bytes, people: int, seconds: float, origin: str) -> bytes:
    """The output of the program for this input; it is ended if it takes too long or writes too much."""
    most, deadline = LONGEST * (people + 16), Deadline.within(seconds)
    try:
        process: Any = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise InputError(f"{origin} cannot be started: {error.strerror or error}.") from None
    written, complaint = bytearray(), bytearray()
    reading = threading.Thread(target=_gather, args=(process.stdout, written, most), daemon=True)
    others = [
        threading.Thread(target=_feed, args=(process.stdin, content), daemon=True),
        threading.Thread(target=_drain, args=(process.stderr, complaint), daemon=True),
    ]
    late = False
    try:
        for thread in (reading, *others):
            thread.start()
        reading.join(deadline.left)
        late = reading.is_alive()
        if not late and len(written) <= most:
            process.wait(max(deadline.left, 0.1))
    except subprocess.TimeoutExpired:
        late = True
    finally:  # also where somebody interrupts
        if process.poll() is None:
            _kill(process)
            process.wait()
        for thread in (reading, *others):
            thread.join(1.0)  # one that something else keeps open is left alone
    if late:
        raise InputError(
            f"{origin} took more than {deadline.seconds:.3g} s for {people:,} people and was ended; give it more time "
            "(--timeout), or make it quicker."
        )
    if len(written) > most:
        raise InputError(f"{origin} wrote more than {most:,} bytes; it must write one decision for each person.")
    if process.returncode:
        said_ = complaint.decode(errors="replace").strip().splitlines()
        last = f": {said_[-1][:300]}" if said_ else ""
        raise InputError(f"{origin} ended with status {process.returncode}{last}.")
    return bytes(written)


def _gather(stream: IO[bytes], found: bytearray, most: int) -> None:
    with stream, contextlib.suppress(OSError, ValueError):
        while len(found) <= most and (some := stream.read1(65_536)):  # type: ignore[attr-defined]
            found += some


def _feed(stream: IO[bytes], content: bytes) -> None:
    with contextlib.suppress(OSError):  # it need not read all of it: what it answers is judged
        stream.write(content)
    with contextlib.suppress(OSError):
        stream.close()


def _drain(stream: IO[bytes], last: bytearray) -> None:
    with stream, contextlib.suppress(OSError, ValueError):
        while some := stream.read1(65_536):  # type: ignore[attr-defined]
            last += some
            del last[:-KEPT]


def _kill(process: Any) -> None:
    """The program and what it started."""
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
