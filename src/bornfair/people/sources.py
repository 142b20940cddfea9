"""Tables that do not fit into memory, as batches of rows from files, folders, globs and object stores.

A row is known by its address, the number of its file (in the order of names) and its place in the file. What is decided
by an address, such as which rows are kept for validation, does not depend on the batches or on the process that reads.
"""

from __future__ import annotations

import glob
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError, shown
from bornfair.people.features import unknown_column
from bornfair.people.reading import AS_SHOWN, TableReading
from bornfair.people.tables import (
    CsvFile,
    as_pandas,
    check_columns,
    longest_texts,
    size_of,
    text_columns,
    told_of_reading,
    with_numbers,
)

CELLS = 2**21  # of a batch
MOST_ROWS, LEAST_ROWS = 2**17, 2**10
PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".csv.bz2", ".csv.xz", ".tsv.gz")
WILD = frozenset("*?[")
_LOOKED_AT = 1 << 20  # bytes of a CSV file, to see how long its lines are
_FILE_BITS = 40  # rows of one file: below a million million


@dataclass(frozen=True)
class Batch:
    """Some rows that follow each other in one file."""

    file: int
    first: int
    table: pd.DataFrame

    @property
    def addresses(self) -> np.ndarray:
        """uint64 [rows]: which row of which file each is."""
        return np.arange(len(self.table), dtype=np.uint64) + np.uint64((self.file << _FILE_BITS) + self.first)


@dataclass(frozen=True)
class SourcePart:
    """What one process reads at a stretch: a file, or of Parquet a row group."""

    file: int
    group: int | None = None
    first: int = 0
    rows: int | None = None


def is_streamed(location: str | Path | None, stream: bool | None = None, reading: TableReading = AS_SHOWN) -> bool:
    """Whether a table is read in batches: as asked for, or what is no single file, is far away, or is large once it is
    decoded (rows, cells or bytes, see `bornfair.core.limits`).

    >>> is_streamed("people/*.parquet"), is_streamed("s3://bucket/people.csv"), is_streamed("people.csv")
    (True, True, False)
    """
    if location is None or stream is not None:
        return bool(stream)
    text, path = str(location), Path(location)
    if path.is_file():
        try:
            size = size_of(path, reading)
        except Exception:  # noqa: BLE001 - a file that cannot be read is refused where it is read, in a sentence
            return False
        return size.is_above(limits.STREAMED_CELLS, limits.STREAMED_BYTES, limits.STREAMED_ROWS)
    return _is_remote(text) or path.is_dir() or bool(WILD & set(text))


class Source:
    """The files behind a location, and how to read them in batches.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for year, ages in (("1", "20\\n30"), ("2", "40")):
    ...         _ = Path(folder, f"{year}.csv").write_text(f"age\\n{ages}\\n")
    ...     people = Source.at(folder)
    ...     [(batch.file, batch.table["age"].tolist()) for batch in people.batches()]
    [(0, [20, 30]), (1, [40])]
    """

    def __init__(self, location: str, files: Sequence[str], reading: TableReading, filesystem: Any = None) -> None:
        self.location, self.files, self.reading, self._filesystem = location, tuple(files), reading, filesystem
        kinds = {_kind(name) for name in self.files}
        if len(kinds) != 1:
            raise InputError(
                f"'{location}' holds both CSV and Parquet files; name those of one kind, as with *.parquet."
            )
        self.parquet = kinds == {"parquet"}

    @staticmethod
    def at(location: str | Path, reading: TableReading = AS_SHOWN) -> Source:
        """The table at a path of a file or folder, a glob, or an address such as s3://bucket/people/*.parquet.

        Files of a folder are taken in the order of their names, folders in it included; names that begin with a point
        or an underscore are passed over.
        """
        text = str(location)
        if _is_remote(text):
            filesystem, files = _remote_files(text)
            return Source(text, _usable(text, files), reading, filesystem)
        path = Path(text)
        if path.is_file():
            return Source(text, [text], reading)
        if path.is_dir():
            found = [str(one) for one in path.rglob("*") if one.is_file() and _is_shown(one.relative_to(path).parts)]
        elif WILD & set(text):
            found = [one for one in glob.glob(text, recursive=True) if Path(one).is_file()]  # noqa: PTH207 - from a root
        else:
            raise InputError(f"there is no file or folder '{text}'; give a CSV or Parquet table, a folder or a glob.")
        return Source(text, _usable(text, found), reading)

    # --- what there is ---

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of the first file; all others must have them too."""
        with told_of_reading(self.files[0], self.reading):
            if self.parquet:
                names = tuple(map(str, self._parquet_file(0).schema_arrow.names))
                check_columns(self.files[0], len(names))
                return names
            file = self._csv(0)
            with file.open() as stream:
                head = file.checked(file.read(stream, nrows=1))
        check_columns(self.files[0], head.shape[1])
        names = tuple(map(str, as_pandas(head).columns))
        if len(names) == 1 and "," in names[0]:
            raise InputError(f"'{self.files[0]}' has the single column {names[0]!r}; name the sign with --delimiter.")
        return names

    @cached_property
    def declared(self) -> frozenset[str]:
        """Columns that the files themselves call categories."""
        if not self.parquet:
            return frozenset()
        import pyarrow as pa

        schema = self._parquet_file(0).schema_arrow
        return frozenset(field.name for field in schema if pa.types.is_dictionary(field.type))

    @cached_property
    def parts(self) -> tuple[SourcePart, ...]:
        if not self.parquet:
            return tuple(SourcePart(number) for number in range(len(self.files)))
        found = []
        for number, name in enumerate(self.files):
            with told_of_reading(name, self.reading):
                metadata, first = self._parquet_file(number).metadata, 0
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                found.append(SourcePart(number, group, first, rows))
                first += rows
        return tuple(found)

    @property
    def rows(self) -> int | None:
        """How many rows there are, where the files say so."""
        counts = [part.rows for part in self.parts]
        return sum(count for count in counts if count is not None) if None not in counts else None

    def fingerprint(self) -> str:
        """Changes when a file is added, removed or written anew."""
        digest = hashlib.sha256(json.dumps(asdict(self.reading), default=list).encode())
        for number, name in enumerate(self.files):
            digest.update(json.dumps([name, self._stamp(number)], default=str).encode())
        return digest.hexdigest()

    def check_unchanged(self, stamp: str) -> None:
        """Refuse what was read, unless the files are still those of an earlier fingerprint."""
        try:
            if self._filesystem is not None:
                self._filesystem.invalidate_cache()
            same = Source.at(self.location, self.reading).fingerprint() == stamp
        except (InputError, OSError):  # some are gone
            same = False
        if not same:
            raise InputError(
                f"'{self.location}' changed while it was read, so nothing is written; run the command again when no "
                "program writes to the table."
            )

    def check_columns(self, wanted: Iterable[str], role: str = "column") -> None:
        for name in wanted:
            if name not in self.columns:
                raise InputError(unknown_column(name, list(self.columns), role))

    # --- reading ---

    def batches(
        self, columns: Sequence[str] | None = None, parts: Sequence[SourcePart] | None = None
    ) -> Iterator[Batch]:
        """The rows of some columns, in order; `parts` are those of one process among several."""
        wanted = list(self.columns if columns is None else columns)
        self.check_columns(wanted)
        for part in self.parts if parts is None else parts:
            first, pieces = part.first, iter(self._pieces(part, wanted))
            while True:
                with told_of_reading(self.files[part.file], self.reading):
                    table = next(pieces, None)
                if table is None:
                    break
                if len(table):
                    yield Batch(part.file, first, table)
                    first += len(table)

    def _pieces(self, part: SourcePart, wanted: list[str]) -> Iterator[pd.DataFrame]:
        rows = int(np.clip(CELLS // max(len(wanted), 1), LEAST_ROWS, MOST_ROWS))
        if self.parquet:
            opened = self._parquet_file(part.file)
            self._check_file(part.file, opened.schema_arrow.names, wanted)
            groups = None if part.group is None else [part.group]
            texts = [name for name in text_columns(opened) if name in wanted]
            if texts and part.group is not None:
                opened = self._parquet_file(part.file, texts)
                longest = longest_texts(opened, texts, part.group)
                rows = int(np.clip(limits.WHOLE_BYTES // 2 // max(longest, 1), 1, rows))
            for batch in opened.iter_batches(batch_size=rows, row_groups=groups, columns=wanted, use_threads=False):
                yield self._checked(_with_categories(batch, texts).to_pandas()[wanted])
            return
        file = self._csv(part.file)
        with file.open() as stream:
            start = stream.read(_LOOKED_AT)
        longest = limits.WHOLE_BYTES // 2 * max(start.count(b"\n"), 1) // max(len(start), 1)
        rows = int(np.clip(longest, 1, rows))
        with file.open() as stream, file.read(stream, chunksize=rows, low_memory=False) as tables:
            for read in tables:
                stream.raw.start_batch()  # type: ignore[attr-defined]
                table = file.checked(read)
                self._check_file(part.file, list(map(str, table.columns)), wanted)
                yield self._checked(table[wanted].reset_index(drop=True))

    def _checked(self, table: pd.DataFrame) -> pd.DataFrame:
        told = [name for name in self.reading.numeric or () if name in table.columns]
        texts = [name for name in told if not pd.api.types.is_numeric_dtype(table[name])]
        if texts and self.reading.decimal is None:
            raise InputError(
                f"--numeric {texts[0]}: it is written as texts, and of a table that is read in batches the decimal "
                "sign must be said: --decimal . or --decimal ,"
            )
        return with_numbers(as_pandas(table), TableReading(decimal=self.reading.decimal, numeric=told or None))

    def _check_file(self, number: int, names: Sequence[str], wanted: Sequence[str]) -> None:
        absent = [name for name in wanted if name not in names]
        if absent:
            raise InputError(
                f"'{self.files[number]}' has no column {shown(absent)}, which '{self.files[0]}' has; all files of a "
                "table must have the same columns."
            )

    def _csv(self, number: int) -> CsvFile:
        name, filesystem = self.files[number], self._filesystem
        if filesystem is None:
            return CsvFile(name, self.reading)
        return CsvFile(name, self.reading, lambda: filesystem.open(name, "rb", compression="infer"))

    def _parquet_file(self, number: int, texts: list[str] | None = None) -> Any:
        with told_of_reading(self.files[number], self.reading):
            import pyarrow.parquet as pq

            name = self.files[number]
            place = name if self._filesystem is None else self._filesystem.open(name, "rb")
            return pq.ParquetFile(place, read_dictionary=texts)

    def _stamp(self, number: int) -> list[Any]:
        """What changes when a file is written anew."""
        if self._filesystem is None:
            found = Path(self.files[number]).stat()
            return [found.st_size, found.st_mtime_ns, found.st_ino]
        facts = self._filesystem.info(self.files[number])
        return [facts.get(key) for key in ("size", "ETag", "etag", "mtime", "LastModified", "created", "md5Hash")]


def draws(addresses: np.ndarray, seed: int, what: int) -> np.ndarray:
    """A random uint64 for each row, by its address and the seed alone; `what` tells one use of it from another.

    >>> draws(np.arange(2, dtype=np.uint64), 0, 1).tolist() == draws(np.arange(3, dtype=np.uint64), 0, 1)[:2].tolist()
    True
    """
    start = int.from_bytes(hashlib.sha256(f"{seed}/{what}".encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        word = addresses * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def shared_out(parts: Sequence[SourcePart], process: int, processes: int) -> tuple[SourcePart, ...]:
    """The parts that one of several processes reads; every part has one reader."""
    if len(parts) < processes:
        raise InputError(
            f"{processes} processes share a table of {len(parts)} part{'s' if len(parts) > 1 else ''} (files, of "
            "Parquet row groups); write it in at least as many files, or use fewer processes."
        )
    return tuple(parts[process::processes])


def _with_categories(batch: Any, texts: list[str]) -> Any:
    """Texts as positions in a list of them: a hundred times less to make than a Python text for each row."""
    import pyarrow as pa

    columns = [
        _in_order(column) if name in texts else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _in_order(column: Any) -> Any:
    """Positions in a list of the texts of these rows, in the order in which they first occur. The list of a Parquet
    file has those of other rows too.
    """
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return column.dictionary_encode()
    if len(column.dictionary) > len(column):
        return column.dictionary_decode().dictionary_encode()
    size, places = len(column.dictionary), column.indices.fill_null(len(column.dictionary)).to_numpy()
    first = np.full(size + 1, len(column))
    first[places[::-1]] = np.arange(len(column))[::-1]  # of equal places the last assignment counts
    order = np.argsort(first[:size], kind="stable")[: np.count_nonzero(first[:size] < len(column))]
    moved = np.zeros(size + 1, np.int32)
    moved[order] = np.arange(len(order))
    indices = pa.array(moved[places], mask=places == size if column.null_count else None)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(order)))


# --- finding files ---


def _is_remote(text: str) -> bool:
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme.isalnum()


def _remote_files(location: str) -> tuple[Any, list[str]]:
    try:
        import fsspec.core
    except ImportError as error:
        raise InputError(f"reading '{location}' needs fsspec: pip install 'bornfair[remote]'.") from error
    try:
        filesystem, path = fsspec.core.url_to_fs(location)
        if WILD & set(path):
            return filesystem, sorted(filesystem.glob(path))
        if filesystem.isdir(path):
            inside = [(one, one.removeprefix(path).split("/")) for one in filesystem.find(path)]
            return filesystem, [one for one, names in inside if _is_shown(names)]
        if not filesystem.exists(path):
            raise FileNotFoundError("nothing is there")
        return filesystem, [path]
    except Exception as error:  # stores fail in as many ways as there are stores
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        advice = "install it" if isinstance(error, ImportError) else "check the address and the credentials"
        raise InputError(f"cannot read '{location}' ({reason}); {advice}.") from error


def _is_shown(names: Iterable[str]) -> bool:
    return not any(name.startswith((".", "_")) for name in names if name)


def _usable(location: str, found: Iterable[str]) -> list[str]:
    tables = sorted(name for name in found if _kind(name) is not None)
    if not tables:
        raise InputError(f"there is no CSV or Parquet file at '{location}'; files must end in .csv or .parquet.")
    return tables


def _kind(name: str) -> str | None:
    """Parquet, CSV, or neither; a single file that ends otherwise is read as CSV, as it is without streaming."""
    ending = name.lower()
    return "parquet" if ending.endswith(PARQUET) else "csv" if ending.endswith(CSV) else None
