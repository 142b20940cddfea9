"""Predictions for the rows of a table, at once or in batches: how they are written, and what is said beside them.

Each batch is written at once, and a later run of the same command continues after it.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair import __version__
from bornfair.cli import options
from bornfair.cli.output import RowPace, print_json, print_text, printable, quality_rows, say, tell
from bornfair.core.errors import InputError, plain
from bornfair.core.files import check_file, write_atomically
from bornfair.core.growing import GrowingFile
from bornfair.models.metrics import quality, quality_warning
from bornfair.models.network.network import decisions
from bornfair.models.operating import Asked
from bornfair.people import sources
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC, unknown_column
from bornfair.people.levels import places_among, unseen_count, with_categories
from bornfair.people.reading import TableReading
from bornfair.people.sources import Batch, Source, is_streamed
from bornfair.proof.bundle import AnyBundle, load_bundle

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
FOR_ARROW = 1_000  # rows for which pyarrow is worth loading
PLAIN_FROM = 1e-4  # below, Python writes an exponent
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Predictions:
    """What is predicted for which table, and where it is written."""

    bundle: Path
    table: str
    reading: TableReading
    out: Path | None
    raw: bool
    threshold: list[str] | None
    identifiers: list[str]
    json: bool

    def write(self, stream: bool | None) -> None:
        if is_streamed(self.table, stream, self.reading):
            self._in_batches()
        else:
            self._at_once()

    def _written(self, text: str) -> str:
        return text if self.raw else no_formula(text)

    def _at_threshold(self, model: AnyBundle, people: pd.DataFrame | None = None) -> tuple[AnyBundle, Asked | None]:
        if not self.threshold:
            return model, None
        point = Asked.of(self.threshold).for_classes(model.classes.tolist())
        if people is None and point.needs_people:
            raise InputError(
                "--threshold top …% needs all rows at once; of a table that is read in batches, name the probability."
            )
        model = model.at(point, people)
        say(f"bornfair: the threshold is {point.text}.")
        return model, point

    def _at_once(self) -> None:
        if self.out is not None:
            check_file(self.out)
        model, people = load_bundle(self.bundle), options.rows_of(self.table, self.reading)
        assert people is not None
        known = known_by(people, self.identifiers)
        model, point = self._at_threshold(model, people)
        scores = model.scores(people)
        say_unseen(unseen_counts(model.domain, people), len(people))
        classes, (positions, shares) = model.classes.tolist(), decided_by(model, people, scores)
        decided = model.classes[positions].tolist()
        figures = quality_of(model, people, decided)
        given = known, positions, shares, classes
        if self.out is not None:
            write_atomically(self.out, csv_text(*given, self._written))
        if self.json:
            print_json({
                "bundle": str(self.bundle), "rows": len(decided), "classes": classes,
                **({"ids": known} if known else {}),
                "threshold": None if point is None else point.text, "thresholds": model.thresholds,
                **({} if figures is None else {"quality": figures}),
                "predictions": decided, "probabilities": shares.tolist(),
                "out": None if self.out is None else str(self.out),
            })  # fmt: skip
        elif self.out is not None:
            tell(f"{len(decided):,} rows written to {self.out}")
        elif self.raw and not sys.stdout.isatty():
            print_text(csv_text(*given, self._written))
        else:
            print_text(csv_text(*given, lambda text: printable(self._written(text))))
        say_quality(figures)
        if self.json and self.out is None:
            return
        if changed := self._changed(classes):
            count = sum(decided.count(name) for name in changed)
            say(
                f"bornfair: in {count:,} rows the class looks like a formula of a spreadsheet ({', '.join(changed)}) "
                "and is written behind an apostrophe; --raw writes it as it is."
            )
        if cells := self._changed(itertools.chain(*known.values())):
            say(
                f"bornfair: {len(cells):,} identifiers look like formulas of a spreadsheet (such as {cells[0]}) and "
                "are written behind an apostrophe; --raw writes them as they are."
            )

    def _changed(self, values: Iterable[Any]) -> list[str]:
        return [value for value in values if isinstance(value, str) and self._written(value) != value]

    def _in_batches(self) -> None:
        if self.json and self.out is None:
            raise InputError("--json of a table that is read in batches needs --out FILE for the predictions.")
        model, source = load_bundle(self.bundle), Source.at(self.table, self.reading)
        stamp, out, identifiers = source.fingerprint(), self.out, self.identifiers
        model, point = self._at_threshold(model)
        names = [name for name in model.domain.names if name in source.columns]
        source.check_columns([*model.domain.free_names, *identifiers])
        columns = list(dict.fromkeys([*names, *identifiers]))
        classes = model.classes.tolist()
        assert model.certificate is not None
        batching = sources.CELLS, sources.MOST_ROWS, sources.LEAST_ROWS
        asked = (
            __version__,
            sorted(model.certificate.files.items()),
            stamp,
            batching,
            self.threshold,
            identifiers,
            self.raw,
        )
        mark = hashlib.sha256(repr(asked).encode()).hexdigest()
        with contextlib.nullcontext() if out is None else GrowingFile(out, mark, Reached()) as file:
            done = Reached() if file is None else file.state
            if done.rows:
                say(f"bornfair: continuing after the {done.rows:,} rows of an interrupted run.")
            pace = RowPace("predicting", source.rows, quiet=self.json, start=done.rows)
            for (part, inside), people, scores in _scored(
                _batches(source, columns, (done.part, done.inside)), model.scores
            ):
                positions, shares = decided_by(model, people, scores)
                known = known_by(people, identifiers)
                text = csv_text(known, positions, shares, classes, self._written, header=done.rows == 0)
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
                raise InputError(f"'{self.table}' has no rows; a table needs a header and at least one row.")
            if file is not None:
                file.finish()
        say_unseen(done.unseen, done.rows)
        changed = self._changed(name for name, count in zip(classes, done.decided, strict=True) if count)
        if changed:
            say(
                f"bornfair: a class looks like a formula of a spreadsheet ({', '.join(changed)}) and is written behind "
                "an apostrophe; --raw writes it as it is."
            )
        if self.json:
            print_json({
                "bundle": str(self.bundle), "rows": done.rows, "classes": classes, "out": str(out),
                "threshold": None if point is None else point.text, "thresholds": model.thresholds,
            })  # fmt: skip
        elif out is not None:
            tell(f"{done.rows:,} rows written to {out}")


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


def decided_by(model: AnyBundle, people: pd.DataFrame, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the decided classes, and the probability of every class."""
    shares = model.probabilities(scores)
    return decisions(scores), model.predict_proba(people) if shares is None else shares


def unseen_counts(domain: Domain, people: pd.DataFrame) -> dict[str, int]:
    """In which columns, and how often, there are categories that the model does not know."""
    return {
        feature.name: unseen_count(feature, people[feature.name])
        for feature in domain.free_features
        if not isinstance(feature, NUMERIC)
    }


def say_unseen(counts: dict[str, int], rows: int) -> None:
    found = [f"'{name}' in {count:,} of {rows:,} rows" for name, count in counts.items() if count]
    if found:
        say(f"bornfair: note: categories that training has not seen count as none of those it has: {', '.join(found)}.")


def quality_of(model: Any, people: pd.DataFrame, decided: list[Any]) -> dict[str, Any] | None:
    """How good the decisions are on the rows whose label the table holds; None if it holds none that are classes."""
    label = model.domain.label
    if label is None or label.name not in people.columns:
        return None
    places = places_among(people[label.name].astype(object).to_numpy(), list(label.classes))
    known = [place for place, at in enumerate(places) if at >= 0]
    if not known:
        return None
    truth = [label.classes[places[place]] for place in known]
    return {"rows": len(known), **quality(truth, [decided[place] for place in known])}


def say_quality(figures: dict[str, Any] | None) -> None:
    if figures is None:
        return
    told = ", ".join(f"{name} {value}" for name, value in quality_rows(figures))
    say(f"bornfair: note: on the {figures['rows']:,} rows with a label: {told}.")
    if text := quality_warning(figures):
        say(f"bornfair: warning: {text}")


def known_by(people: pd.DataFrame, names: list[str]) -> dict[str, list[Any]]:
    """The columns that rows are known by."""
    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in people.columns:
            raise InputError(unknown_column(name, [str(column) for column in people.columns]))
        column = people[name]
        missing = column.isna().to_numpy()
        found[name] = [None if gone else _cell(plain(value)) for value, gone in zip(column, missing, strict=True)]
    return found


def _cell(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str)) else str(value)


def no_formula(text: str) -> str:
    """A text that no spreadsheet runs.

    >>> no_formula("=1+1"), no_formula("@sum"), no_formula("-1.5"), no_formula("a=b")
    ("'=1+1", "'@sum", '-1.5', 'a=b')
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def csv_text(
    known: dict[str, list[Any]],
    positions: np.ndarray,
    shares: np.ndarray,
    classes: list[Any],
    written: Callable[[str], str],
    *,
    header: bool = True,
) -> str:
    """The predictions as a CSV file, or as more rows of one; `positions` are those of the decided classes."""

    texts = itertools.chain(classes, known, *known.values())
    broken = any("\r" in str(text) for text in texts)  # the csv module would leave it bare, and begin a new row
    quoting: Any = csv.QUOTE_NONNUMERIC if broken else csv.QUOTE_MINIMAL
    text = io.StringIO()
    writer = csv.writer(text, quoting=quoting, lineterminator="\n")
    if header:
        names = [*known, "prediction", *(f"probability_{name}" for name in classes)]
        writer.writerow([written(name) for name in names])
    if not broken and (rows := _rows_by_arrow(known, positions, shares, classes, written)) is not None:
        return text.getvalue() + rows
    columns = [*known.values(), [classes[position] for position in positions]]
    writer.writerows(zip(*(_cells(column, written, str) for column in columns), *_numbers(shares), strict=True))
    return text.getvalue()


def _cells(column: list[Any], written: Callable[[str], str], quoted: Callable[[str], str]) -> list[Any]:
    texts = {cell: quoted(written(cell)) for cell in set(column) if isinstance(cell, str)}
    return [texts.get(cell, cell) for cell in column] if texts else column


def _numbers(shares: np.ndarray) -> list[list[float]]:
    """The columns, each number in as few digits as tell it apart in its own precision."""
    if shares.dtype == "float64":
        return shares.T.tolist()
    return [[float(text) for text in column.astype(str)] for column in shares.T]


def _rows_by_arrow(
    known: dict[str, list[Any]],
    positions: np.ndarray,
    shares: np.ndarray,
    classes: list[Any],
    written: Callable[[str], str],
) -> str | None:
    """The rows as the csv module writes them, several times as fast; None without pyarrow, or of few rows."""
    if len(shares) < FOR_ARROW or shares.dtype != "float64":
        return None
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
    except ImportError:
        return None

    def texts(column: list[Any]) -> Any:
        cells = _cells(column, written, _quoted)
        if set(map(type, cells)) != {str}:
            cells = ["" if cell is None else str(cell) for cell in cells]
        return pa.array(cells, pa.string())

    columns = [*map(texts, known.values()), texts(classes).take(pa.array(positions))]
    for share in shares.T:
        text = pc.cast(pa.array(share), pa.string())
        other = ~((share >= PLAIN_FROM) & (share < 1))  # written otherwise by Python
        if other.any():
            text = pc.replace_with_mask(text, pa.array(other), pa.array(list(map(repr, share[other].tolist()))))
        columns.append(text)
    parts = itertools.chain.from_iterable((column, ",") for column in columns)
    lines = pc.binary_join_element_wise(*list(parts)[:-1], "\n", "")
    _, ends, content = lines.buffers()
    size = int(memoryview(ends).cast("i")[len(lines)])
    return str(memoryview(content)[:size], "utf-8")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\n') else text
