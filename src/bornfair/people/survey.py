"""Facts and a random sample of a table that does not fit into memory, from one pass over its batches.

The number of rows and gaps, the ranges of numbers and whether they are whole, the categories, the classes and how often
each occurs are exact; passes over parts of the table can be merged. Medians, spreads and all else that needs many rows
at once come from a random sample, drawn by the addresses of rows: it does not depend on which process reads what. A
short table is its own sample.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

from bornfair.core.errors import InputError, plain
from bornfair.core.redacted import url_shown
from bornfair.people.domain import Domain
from bornfair.people.features import Value
from bornfair.people.inference import FEW, MOST_CATEGORIES, OFTEN
from bornfair.people.sources import Batch, Source, draws

SAMPLE_CELLS = 4_000_000  # rows times columns of the sample
SAMPLE_ROWS = (20_000, 200_000)  # at least, at most …
MOST_SAMPLE_CELLS = 40_000_000  # … but never more cells
SPARE = 0.98  # of the sample that may be kept, so many are expected: chance never draws more than there is room for
FOR_SAMPLE = 1  # use of the draws
LARGEST = float(np.finfo(np.float32).max)

Told = Callable[[int], None]
"""Is told how many more rows were read."""


@dataclass
class SeenColumn:
    """What was seen of one column."""

    name: str
    rows: int = 0
    gaps: int = 0
    low: float = np.inf
    high: float = -np.inf
    whole: bool = True
    rising: bool = True
    """Whether each number is larger than the one before, as of running numbers."""
    numbers: bool = False
    texts: bool = False
    truths: bool = False
    values: dict[Value, int] | None = field(default_factory=dict)
    """How often each value occurs; None: they are too many, or numbers that nobody lists."""
    _last: float = -np.inf

    def add(self, column: pd.Series, *, listed: bool, where: str) -> None:
        """More rows. listed: whether the different numbers are of interest."""
        present = column.dropna()
        self.rows += len(column)
        self.gaps += len(column) - len(present)
        if not len(present):
            return
        if pd.api.types.is_bool_dtype(present.dtype):
            self.truths = True
        elif pd.api.types.is_numeric_dtype(present.dtype):
            self._add_numbers(present.to_numpy(np.float64), where)
            if not listed:
                self.values = None
        elif pd.api.types.is_datetime64_any_dtype(present.dtype):
            raise InputError(
                f"column '{self.name}' holds dates; turn them into numbers (a year, an age) first, or drop it."
            )
        else:
            self._note_kinds(present, where)
        if self.values is not None:
            counts = present.value_counts()
            for value, count in counts[counts > 0].items():
                known: Any = plain(value)
                self.values[known] = self.values.get(known, 0) + int(count)
            if len(self.values) > MOST_CATEGORIES:
                self.values = None

    def _add_numbers(self, numbers: np.ndarray, where: str) -> None:
        low, high = float(numbers.min()), float(numbers.max())
        if not (low >= -LARGEST and high <= LARGEST):
            bad = int(np.argmax(~(np.abs(numbers) <= LARGEST)))
            raise InputError(
                f"column '{self.name}' holds {numbers[bad]} in {where}; numbers must be finite and at most 3.4e38 in "
                "size: correct it, or leave the row out."
            )
        self.numbers, self.low, self.high = True, min(self.low, low), max(self.high, high)
        self.whole = self.whole and bool((numbers == np.round(numbers)).all())
        self.rising = self.rising and numbers[0] > self._last and bool((np.diff(numbers) > 0).all())
        self._last = float(numbers[-1])

    def _note_kinds(self, present: pd.Series, where: str) -> None:
        """Texts, or true/false and numbers that stand beside gaps or texts in a column of objects."""
        values = present.cat.categories if isinstance(present.dtype, pd.CategoricalDtype) else present.unique()
        for value in map(plain, values):
            if isinstance(value, bool):
                self.truths = True
            elif isinstance(value, str):
                self.texts = True
            elif isinstance(value, (int, float)):
                self._add_numbers(np.array([value], np.float64), where)
            else:
                raise InputError(
                    f"column '{self.name}' holds {value!r} of type {type(value).__name__} in {where}; values must be "
                    "numbers, texts or true/false."
                )

    def merged(self, other: SeenColumn) -> SeenColumn:
        """What both have seen, of different rows."""
        values: dict[Value, int] | None = None
        if self.values is not None and other.values is not None:
            both = (self.values, other.values)
            values = {value: sum(one.get(value, 0) for one in both) for value in {**self.values, **other.values}}
            values = values if len(values) <= MOST_CATEGORIES else None
        return SeenColumn(
            self.name, self.rows + other.rows, self.gaps + other.gaps, min(self.low, other.low),
            max(self.high, other.high), self.whole and other.whole, self.rising and other.rising,
            self.numbers or other.numbers, self.texts or other.texts, self.truths or other.truths, values,
        )  # fmt: skip

    # --- as few rows that say the same ---

    def told(self, *, categorical: bool) -> list[Any]:
        """Values from which the same is inferred as from the column itself."""
        if not self.numbers and not self.texts and not self.truths:
            raise InputError(f"column '{self.name}' has no values at all; drop it (--drop) or fill it.")
        if self.texts and (self.numbers or self.truths):
            raise InputError(
                f"column '{self.name}' holds texts in some rows and numbers or true/false in others; read it with "
                f"--numeric {self.name}, leave it out with --drop {self.name}, or write it as one kind (Parquet keeps "
                "kinds)."
            )
        if self.values is None and (self.texts or categorical):
            raise InputError(
                f"column '{self.name}' has more than {MOST_CATEGORIES:,} different values, more than a category may "
                f"have; drop it (--drop {self.name}), or group its values."
            )
        if self.values is not None and (not self.numbers or len(self.values) <= FEW or categorical):
            # A list of few numbers is told by how often they occur.
            often = OFTEN if self.rows - self.gaps >= OFTEN * len(self.values) and len(self.values) <= FEW else 1
            return list(self.values) * often
        return [self.low, self.high] if self.whole else [self.low, self.high, (self.low + self.high) / 2 + 0.1]


class RowSample:
    """The rows with the smallest draws, of all that were shown."""

    def __init__(self, seed: int, size: int, declared: Collection[str] = ()) -> None:
        self.seed, self.size, self.declared = seed, size, declared
        self._tables: list[pd.DataFrame] = []
        self._drawn = np.zeros(0, np.uint64)
        self._addresses = np.zeros(0, np.uint64)
        self._limit = np.uint64(2**64 - 1)

    def add(self, table: pd.DataFrame, addresses: np.ndarray) -> None:
        drawn = draws(addresses, self.seed, FOR_SAMPLE)
        rows = np.flatnonzero(drawn <= self._limit)
        self._tables.append(_plain_columns(table.iloc[rows], self.declared))
        self._drawn = np.concatenate([self._drawn, drawn[rows]])
        self._addresses = np.concatenate([self._addresses, addresses[rows]])
        if len(self._drawn) > 2 * self.size:
            self._limit = np.partition(self._drawn, self.size)[self.size]
            self._keep(np.flatnonzero(self._drawn < self._limit))

    def _keep(self, rows: np.ndarray) -> None:
        table = pd.concat(self._tables, ignore_index=True)
        self._tables, self._drawn, self._addresses = [table.iloc[rows]], self._drawn[rows], self._addresses[rows]

    def among(self, rows: int) -> tuple[pd.DataFrame, np.ndarray]:
        """The sample of a table of so many rows, in order, and the addresses: all rows where there is room for them."""
        if rows > SPARE * self.size:
            self._keep(np.flatnonzero(self._drawn <= np.uint64(int(SPARE * self.size / rows * 2**64))))
        if not self._tables:
            return pd.DataFrame(), self._addresses
        order = np.argsort(self._addresses, kind="stable")
        table = pd.concat(self._tables, ignore_index=True).iloc[order].reset_index(drop=True)
        return table, self._addresses[order]


@dataclass(frozen=True)
class Survey:
    """What one pass has found out about a table, or about a part of it."""

    rows: int
    columns: dict[str, SeenColumn]
    sample: pd.DataFrame
    addresses: np.ndarray
    """Which rows the sample is."""
    seed: int
    size: int
    """How many rows the sample may have."""
    together: tuple[tuple[Any, ...], ...] | None = None
    """The combinations of the sensitive columns that occur, where they were asked for."""

    @property
    def complete(self) -> bool:
        """Whether the sample is the table."""
        return len(self.sample) == self.rows

    def counts(self, target: str) -> dict[Value, int]:
        """How often each value of a listed column occurs."""
        values = self.columns[target].values
        if values is None:
            raise InputError(
                f"target '{target}' has more than {MOST_CATEGORIES:,} different values; a class label has few. Is it a "
                "number?"
            )
        return values

    def representative(
        self, *, categorical: Iterable[str] = (), sensitive: Sequence[str] = (), without: Sequence[str] = ()
    ) -> pd.DataFrame:
        """A short table from which the same domain is inferred as from the whole one: all categories, both ends of
        every number, a gap where there are gaps.
        """
        if self.complete:
            return self.sample.drop(columns=list(without))
        told = {
            name: seen.told(categorical=name in categorical or (name in sensitive and not seen.numbers))
            + [None] * (seen.gaps > 0)
            for name, seen in self.columns.items() if name not in without
        }  # fmt: skip
        if self.together is not None and sensitive:
            told |= {name: [row[j] for row in self.together] for j, name in enumerate(sensitive)}
        length = max(map(len, told.values()))
        columns = {name: list(itertools.islice(itertools.cycle(values), length)) for name, values in told.items()}
        return pd.DataFrame({name: pd.Series(cells, dtype=object).infer_objects() for name, cells in columns.items()})

    def running_numbers(self) -> list[str]:
        """Columns whose whole numbers rise from row to row, as counters do."""
        return [
            name for name, seen in self.columns.items()
            if seen.numbers and seen.whole and seen.rising and seen.rows - seen.gaps > 35
        ]  # fmt: skip


def surveyed(
    batches: Iterable[Batch],
    source: Source,
    columns: Sequence[str],
    *,
    listed: Sequence[str] = (),
    together: Sequence[str] = (),
    seed: int = 0,
    told: Told | None = None,
) -> Survey:
    """One pass over some batches of some columns.

    listed: columns of which the different values are of interest also where they are numbers. together: columns of
    which the combinations that occur are.
    """
    found = {name: SeenColumn(name) for name in columns}
    sample, rows = RowSample(seed, sample_size(len(columns)), source.declared), 0
    combinations: dict[tuple[Any, ...], None] = {}
    for batch in batches:
        rows += len(batch.table)
        where = f"a row from {batch.first:,} on of '{source.files[batch.file]}'"
        for name, seen in found.items():
            seen.add(batch.table[name], listed=name in listed, where=where)
        sample.add(batch.table, batch.addresses)
        if together:
            distinct = batch.table[list(together)].drop_duplicates().astype(object)
            combinations |= dict.fromkeys(
                tuple(None if pd.isna(value) else plain(value) for value in row) for row in distinct.to_numpy()
            )
        if told is not None:
            told(len(batch.table))
    kept = sample.among(rows)
    return Survey(rows, found, *kept, seed, sample.size, tuple(combinations) if together else None)


def merged(parts: Sequence[Survey]) -> Survey:
    """What is known of all parts of a table together: the same as of one pass over all of it."""
    columns = dict(parts[0].columns)
    for part in parts[1:]:
        columns = {name: seen.merged(part.columns[name]) for name, seen in columns.items()}
    rows, first = sum(part.rows for part in parts), parts[0]
    together = None
    if first.together is not None:
        together = tuple(dict.fromkeys(row for part in parts for row in part.together or ()))
    sample = RowSample(first.seed, first.size)
    for part in parts:
        if part.rows:
            sample.add(part.sample, part.addresses)
    return Survey(rows, columns, *sample.among(rows), first.seed, first.size, together)


def sample_size(columns: int) -> int:
    """How many rows of so many columns are kept."""
    columns = max(columns, 1)
    return min(int(np.clip(SAMPLE_CELLS // columns, *SAMPLE_ROWS)), MOST_SAMPLE_CELLS // columns)


def _plain_columns(table: pd.DataFrame, declared: Collection[str]) -> pd.DataFrame:
    """Texts as texts again: only what the file itself calls a category is one. Few rows are left to do this for."""
    coded = [name for name in table.columns if isinstance(table[name].dtype, pd.CategoricalDtype)]
    return table.assign(**{name: table[name].astype(object) for name in coded if name not in declared})


# --- as a file ---

FACTS = "facts"


def to_bytes(survey: Survey) -> bytes:
    """
    >>> from bornfair.people.survey import SeenColumn
    >>> people = pd.DataFrame({"age": [20, 30], "sex": ["f", None]})
    >>> one = Survey(2, {"age": SeenColumn("age", 2)}, people, np.arange(2, dtype=np.uint64), seed=0, size=9)
    >>> from_bytes(to_bytes(one)).sample["sex"].tolist()
    ['f', None]
    """
    tensors = {"addresses": survey.addresses.view(np.int64)}
    texts: dict[str, Any] = {}
    for number, name in enumerate(survey.sample.columns):
        column = survey.sample[name]
        if column.dtype == bool or (isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf"):
            tensors[f"column.{number}"] = np.ascontiguousarray(column.to_numpy())
            continue
        declared = isinstance(column.dtype, pd.CategoricalDtype)
        codes, levels = (
            (column.cat.codes.to_numpy(), column.cat.categories) if declared
            else pd.factorize(column.astype(object))
        )  # fmt: skip
        tensors[f"column.{number}"] = np.ascontiguousarray(codes, np.int32)
        texts[str(number)] = {"levels": [plain(level) for level in levels], "declared": declared}
    facts = {
        "rows": survey.rows, "seed": survey.seed, "size": survey.size, "texts": texts,
        "names": [str(name) for name in survey.sample.columns],
        "together": None if survey.together is None else [list(row) for row in survey.together],
        "columns": [
            vars(seen) | {"values": None if seen.values is None else [list(pair) for pair in seen.values.items()]}
            for seen in survey.columns.values()
        ],
    }  # fmt: skip
    return tensor_bytes(tensors | {FACTS: np.frombuffer(json.dumps(facts).encode(), np.uint8)})


def from_bytes(content: bytes) -> Survey:
    tensors = read_tensors(content)
    facts = json.loads(tensors[FACTS].tobytes())
    columns: dict[str, Any] = {}
    for number, name in enumerate(facts["names"]):
        stored = tensors[f"column.{number}"]
        if str(number) not in facts["texts"]:
            columns[name] = stored
            continue
        levels, declared = facts["texts"][str(number)]["levels"], facts["texts"][str(number)]["declared"]
        if declared:
            columns[name] = pd.Categorical.from_codes(stored, categories=levels)
        else:
            columns[name] = pd.Series(np.array([*levels, None], object)[stored], dtype=object)
    together = None if facts["together"] is None else tuple(tuple(row) for row in facts["together"])
    for one in facts["columns"]:
        one["values"] = None if one["values"] is None else dict(map(tuple, one["values"]))
    seen = {one["name"]: SeenColumn(**one) for one in facts["columns"]}
    addresses = tensors["addresses"].view(np.uint64)
    return Survey(facts["rows"], seen, pd.DataFrame(columns), addresses, facts["seed"], facts["size"], together)


# --- random rows of a table ---


@dataclass(frozen=True, eq=False)
class TableSample:
    """Random rows of a table."""

    sample: pd.DataFrame
    read: int
    total: int | None
    location: str
    files: int
    fingerprint: str

    @property
    def told(self) -> str:
        """What the rows are."""
        if len(self.sample) == self.read == self.total:
            return f"all {self.read:,} rows"
        of = f"the {self.read:,} that there are"
        if self.read != self.total:
            of = f"{self.read:,} that were read in the time" + (f", of {self.total:,} in all" if self.total else "")
        return f"{len(self.sample):,} random rows of {of}"

    @property
    def told_at_length(self) -> str:
        """The same for a report: which files, by their names, sizes and times."""
        files = f"{self.files:,} file{'s' if self.files > 1 else ''}"
        place = url_shown(self.location) if "://" in self.location else self.location
        return f"{place} ({files}), {self.told}; SHA-256 {self.fingerprint} of the files' names, sizes and times"


def looked_at(
    source: Source, *, drop: Sequence[str] = (), seed: int = 0, is_up: Callable[[], bool] | None = None
) -> TableSample:
    """Random rows of a table, read in random order until the time is up, if it ever is."""
    source.check_columns(drop)
    columns = [name for name in source.columns if name not in drop]
    sample, read, whole = RowSample(seed, sample_size(len(columns)), source.declared), 0, True
    order = np.random.default_rng([seed, 7]).permutation(len(source.parts)) if is_up else range(len(source.parts))
    for batch in source.batches(columns, [source.parts[int(number)] for number in order]):
        if is_up is not None and read and is_up():
            whole = False
            break
        sample.add(batch.table, batch.addresses)
        read += len(batch.table)
    if not read:
        raise InputError(f"'{source.location}' has no rows; a table needs a header and at least one row.")
    total = read if whole else source.rows
    rows = sample.among(read)[0].infer_objects()
    return TableSample(rows, read, total, source.location, len(source.files), source.fingerprint())


def domain_of(
    source: Source, *, target: str | None, sensitive: Sequence[str], drop: Sequence[str] = (), seed: int = 0,
    check: Callable[[int], None] | None = None,
) -> Domain:  # fmt: skip
    """Everybody in a table, from one pass over all of it: the domain that is inferred from a table in memory."""
    columns = [name for name in source.columns if name not in drop]
    listed = [*sensitive, *([target] if target is not None else [])]
    source.check_columns(listed)
    found = surveyed(source.batches(columns), source, columns, listed=listed, seed=seed, told=check)
    return Domain.infer(found.representative(sensitive=sensitive), target=target, sensitive=sensitive)
