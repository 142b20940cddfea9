"""bornfair predict of a table that is read in batches: written as it goes, and gone on with after an interruption."""

from __future__ import annotations

import contextlib
import hashlib
import json as json_format
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bornfair.cli.output import Pace, print_json, print_text, say, tell
from bornfair.cli.predictions import csv_text, known_by, no_formula, say_unseen, unseen_counts
from bornfair.errors import InputError
from bornfair.files import write_atomically
from bornfair.models.model import Model
from bornfair.models.network import decisions
from bornfair.models.operating import Asked
from bornfair.people.reading import Reading
from bornfair.people.sources import Batch, Source
from bornfair.proof.bundle import load_bundle


def predict_streamed(
    bundle: Path,
    table: str,
    out: Path | None,
    raw: bool,
    threshold: list[str] | None,
    identifiers: list[str],
    reading: Reading,
    *,
    json: bool,
) -> None:
    """Predict batch by batch."""
    if json and out is None:
        raise InputError("--json of a table that is read in batches needs --out FILE for the predictions.")
    model, source = load_bundle(bundle), Source.at(table, reading)
    point = Asked.of(threshold).for_classes(model.classes.tolist()) if threshold else None
    if point is not None:
        if point.needs_people:
            raise InputError(
                "--threshold top …% needs all rows at once; of a table that is read in batches, name the probability."
            )
        model = model.at(point)
        say(f"bornfair: the threshold is {point.text}.")
    names = [name for name in model.domain.names if name in source.columns]
    source.check_columns([*model.domain.free_names, *identifiers])
    columns = list(dict.fromkeys([*names, *identifiers]))
    written = (lambda text: text) if raw else no_formula
    classes = model.classes.tolist()
    mark = hashlib.sha256(
        repr((_digest(bundle), source.fingerprint(), threshold, identifiers, raw)).encode()
    ).hexdigest()
    keeper = None if out is None else Keeper(out, mark)
    pace = Pace("predicting", source.rows, quiet=json, start=0 if keeper is None else keeper.rows)
    done = (0, 0) if keeper is None else keeper.done
    if keeper is not None and keeper.rows:
        say(f"bornfair: going on after {keeper.rows:,} rows that are written already.")
    rows, counts, unseen = 0 if keeper is None else keeper.rows, Counter[Any](), Counter[str]()
    with contextlib.nullcontext() if keeper is None else contextlib.closing(keeper.stream):
        for place, batch in _batches(source, columns, done):
            people = batch.table
            scores = model.scores(people)
            decided = model.classes[decisions(scores)].tolist()
            shares = model.probabilities(scores) if isinstance(model, Model) else model.predict_proba(people)
            text = csv_text(known_by(people, identifiers), decided, shares, classes, written, header=rows == 0)
            rows += len(people)
            counts.update(decided)
            unseen.update(unseen_counts(model.domain, people))
            if keeper is None:
                print_text(text)
            else:
                keeper.add(text, place, rows)
            pace(len(people))
    if not rows:
        raise InputError(f"'{table}' has no rows; a table needs a header and at least one row.")
    if keeper is not None:
        keeper.finish()
    say_unseen(unseen, rows)
    changed = [name for name in classes if isinstance(name, str) and written(name) != name and counts[name]]
    if changed:
        say(
            f"bornfair: a class looks like a formula of a spreadsheet ({', '.join(changed)}) and is written behind an "
            "apostrophe; --raw writes it as it is."
        )
    if json:
        print_json({
            "bundle": str(bundle), "rows": rows, "classes": classes, "out": str(out),
            "threshold": None if point is None else point.text, "thresholds": model.thresholds,
        })  # fmt: skip
    elif out is not None:
        tell(f"{rows:,} rows written to {out}")


def _batches(source: Source, columns: list[str], done: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Batch]]:
    """What is left of the table: (part, rows of it that are done with the batch), and the batch."""
    first, passed = done
    for number, part in enumerate(source.parts):
        if number < first:
            continue
        reached = 0
        for batch in source.batches(columns, [part]):
            reached += len(batch.table)
            if number > first or reached > passed:
                yield (number, reached), batch


class Keeper:
    """A file that grows: what is written so far stands beside its place, with a note of how far it reaches.

    Rows are on the disk before the note says so; rows that were written after the last note are written again.
    """

    def __init__(self, out: Path, mark: str) -> None:
        self.out, self.mark = out, mark
        self.part, self.note = out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.progress")
        self.done, self.rows, size = (0, 0), 0, 0
        try:
            facts = json_format.loads(self.note.read_text(encoding="utf-8"))
            if facts["mark"] == mark and self.part.stat().st_size >= facts["bytes"]:
                self.done, self.rows, size = (facts["part"], facts["reached"]), facts["rows"], facts["bytes"]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing was begun, or of something else
        try:
            self.stream = self.part.open("r+b" if size else "wb")
            self.stream.truncate(size)
            self.stream.seek(size)
        except OSError as error:
            raise InputError(
                f"cannot write '{self.part}': {error.strerror or error}; name a place that can be written."
            ) from error

    def add(self, text: str, place: tuple[int, int], rows: int) -> None:
        self.stream.write(text.encode("utf-8", "backslashreplace"))
        self.stream.flush()
        os.fsync(self.stream.fileno())
        facts = {
            "mark": self.mark, "part": place[0], "reached": place[1], "rows": rows, "bytes": self.stream.tell(),
        }  # fmt: skip
        write_atomically(self.note, json_format.dumps(facts))

    def finish(self) -> None:
        """Put the file, which is closed by now, in its place."""
        self.part.replace(self.out)
        self.note.unlink(missing_ok=True)


def _digest(bundle: Path) -> str:
    """Changes with the model."""
    file = bundle / "model.onnx" if bundle.is_dir() else bundle
    return hashlib.sha256(file.read_bytes()).hexdigest()
