"""bornfair predict of a table that is read in batches: each batch is written at once, and a later run continues."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair import __version__
from bornfair.cli.output import RowPace, print_json, print_text, say, tell
from bornfair.cli.predictions import csv_text, known_by, no_formula, say_unseen, unseen_counts
from bornfair.core.errors import InputError
from bornfair.core.growing import GrowingFile
from bornfair.models.network.network import decisions
from bornfair.models.operating import Asked
from bornfair.people import sources
from bornfair.people.levels import with_categories
from bornfair.people.reading import TableReading
from bornfair.people.sources import Batch, Source
from bornfair.proof.bundle import load_bundle


@dataclass(frozen=True)
class Reached:
    """How far the predictions reach, and what was counted in them."""

    part: int = 0
    """A part of the table …"""
    inside: int = 0
    """… and how many rows of it are done."""
    rows: int = 0
    decided: list[int] = field(default_factory=list)
    """Rows of each class."""
    unseen: dict[str, int] = field(default_factory=dict)
    """Of each column the rows with a category that training has not seen."""

    def after(self, part: int, inside: int, decided: np.ndarray, unseen: dict[str, int], classes: int) -> Reached:
        counts = np.bincount(decided, minlength=classes) + np.array(self.decided or [0] * classes)
        strange = {name: count + self.unseen.get(name, 0) for name, count in unseen.items()}
        return Reached(part, inside, self.rows + len(decided), counts.tolist(), strange)


def predict_streamed(
    bundle: Path,
    table: str,
    out: Path | None,
    raw: bool,
    threshold: list[str] | None,
    identifiers: list[str],
    reading: TableReading,
    *,
    json: bool,
) -> None:
    """Predict batch by batch."""
    if json and out is None:
        raise InputError("--json of a table that is read in batches needs --out FILE for the predictions.")
    model, source = load_bundle(bundle), Source.at(table, reading)
    stamp = source.fingerprint()
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
    assert model.certificate is not None
    batching = sources.CELLS, sources.MOST_ROWS, sources.LEAST_ROWS
    asked = __version__, sorted(model.certificate.files.items()), stamp, batching, threshold, identifiers, raw
    mark = hashlib.sha256(repr(asked).encode()).hexdigest()
    with contextlib.nullcontext() if out is None else GrowingFile(out, mark, Reached()) as file:
        done = Reached() if file is None else file.state
        if done.rows:
            say(f"bornfair: continuing after the {done.rows:,} rows of an interrupted run.")
        pace = RowPace("predicting", source.rows, quiet=json, start=done.rows)
        for (part, inside), people, scores in _scored(
            _batches(source, columns, (done.part, done.inside)), model.scores
        ):
            positions = decisions(scores)
            shares = model.probabilities(scores)
            shares = model.predict_proba(people) if shares is None else shares
            text = csv_text(known_by(people, identifiers), positions, shares, classes, written, header=done.rows == 0)
            done = done.after(part, inside, positions, unseen_counts(model.domain, people), len(classes))
            if file is None:
                print_text(text)
            else:
                file.add(text.encode("utf-8", "backslashreplace"), done)
            pace(len(people))
        try:
            source.check_unchanged(stamp)
        except InputError:
            if file is not None:
                file.discard()
            raise
        if not done.rows:
            raise InputError(f"'{table}' has no rows; a table needs a header and at least one row.")
        if file is not None:
            file.finish()
    say_unseen(done.unseen, done.rows)
    changed = [
        name for name, count in zip(classes, done.decided, strict=True)
        if isinstance(name, str) and written(name) != name and count
    ]  # fmt: skip
    if changed:
        say(
            f"bornfair: a class looks like a formula of a spreadsheet ({', '.join(changed)}) and is written behind an "
            "apostrophe; --raw writes it as it is."
        )
    if json:
        print_json({
            "bundle": str(bundle), "rows": done.rows, "classes": classes, "out": str(out),
            "threshold": None if point is None else point.text, "thresholds": model.thresholds,
        })  # fmt: skip
    elif out is not None:
        tell(f"{done.rows:,} rows written to {out}")


def _scored(
    batches: Iterator[tuple[tuple[int, int], Batch]], scores: Callable[[pd.DataFrame], np.ndarray]
) -> Iterator[tuple[tuple[int, int], pd.DataFrame, np.ndarray]]:
    """Each batch with its scores, which are computed while the batch before is written."""
    with ThreadPoolExecutor(1) as pool:
        waiting: tuple[tuple[int, int], pd.DataFrame, Future[np.ndarray]] | None = None
        for place, batch in batches:
            people = with_categories(batch.table)
            under_way = place, people, pool.submit(scores, people)
            if waiting is not None:
                yield *waiting[:2], waiting[2].result()
            waiting = under_way
        if waiting is not None:
            yield *waiting[:2], waiting[2].result()


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
