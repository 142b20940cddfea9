"""Tables from pandas, polars, arrays, CSV or Parquet, always as a pandas data frame."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from bornfair.core import limits
from bornfair.core.errors import InputError, shown
from bornfair.people.features import unknown_column
from bornfair.people.numbers import as_numbers
from bornfair.people.reading import AS_SHOWN, TableReading


def as_pandas(table: Any) -> pd.DataFrame:
    """A pandas table from any data frame narwhals knows, a lazy one included; its columns have names or numbers."""
    if not isinstance(table, pd.DataFrame):
        import narwhals as nw

        try:
            found = nw.from_native(table)
            native = found.collect() if isinstance(found, nw.LazyFrame) else found
        except TypeError as error:
            raise InputError(
                f"a table must be a pandas or polars data frame, found {type(table).__name__}; "
                "turn it into one, with a name for each column."
            ) from error
        table = _to_pandas(native)
    named = [isinstance(name, str) for name in table.columns]
    if any(named) and not all(named):
        name, number = table.columns[named.index(True)], table.columns[named.index(False)]
        raise InputError(
            f"the table has columns named by a text ({name!r}) and by a {type(number).__name__} ({number!r}); give "
            "every column a text as its name (table.columns = table.columns.astype(str))."
        )
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"the table has two columns named {shown(twice.unique())}; rename one.")
    for name in table.columns:
        if pd.api.types.is_object_dtype(table[name].dtype):
            _check_cells(table[name])
    return table


def _check_cells(column: pd.Series) -> None:
    """Refuse cells that are no single values, and whole numbers that no number format holds."""
    if pd.api.types.infer_dtype(column) in ("string", "boolean", "floating", "empty"):
        return
    for row, value in column.items():
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise InputError(
                f"column '{column.name}' holds a {type(value).__name__} in row {row!r}; cells must be numbers, texts "
                "or true/false: remove the column, or make columns of its parts."
            )
        if isinstance(value, int) and abs(value) >= 2**1023:
            raise InputError(
                f"column '{column.name}' holds a number of {value.bit_length():,} bits in row {row!r}; "
                "numbers must be at most 3.4e38 in size: correct it, or leave the row out."
            )


def read_table(path: str | Path, reading: TableReading = AS_SHOWN) -> pd.DataFrame:
    """Read a CSV or Parquet file. `?` and empty cells stay what they are: a text, and missing."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file '{source}'; give the path of a CSV or Parquet table.")
    with told_of_reading(source, reading):
        size = size_of(source, reading)
        check_columns(source, size.columns)
        if size.is_above(limits.WHOLE_CELLS, limits.WHOLE_BYTES):
            raise InputError(
                f"'{source}' has {size.in_words}; at most {limits.WHOLE_CELLS:,} cells and {limits.WHOLE_BYTES:,} "
                "bytes are read as a whole. Read it in batches (--stream), where the command does, or give fewer rows."
            )
        table = pd.read_parquet(source) if _is_parquet(source) else CsvFile(source, reading).whole()
    if not len(table):
        raise InputError(f"'{source}' has no rows; a table needs a header and at least one row.")
    return with_numbers(as_pandas(table), reading)


@dataclass(frozen=True)
class Size:
    """How large a table is once it is decoded. Of a CSV file that is above the limits, only a part is counted."""

    rows: int
    columns: int
    bytes: int
    counted: bool = True

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    def is_above(self, cells: int, size: int, rows: int | None = None) -> bool:
        return not self.counted or self.cells > cells or self.bytes > size or (rows is not None and self.rows > rows)

    @property
    def in_words(self) -> str:
        least = "" if self.counted else "at least "
        return f"{least}{self.rows:,} rows and {self.columns:,} columns ({least}{self.bytes:,} bytes)"


def size_of(source: Path, reading: TableReading = AS_SHOWN) -> Size:
    """The size of a table: of Parquet as its metadata says, of CSV by counting lines until they are too many."""
    if _is_parquet(source):
        import pyarrow.parquet as pq

        with pq.ParquetFile(source) as opened:
            metadata, names = opened.metadata, text_columns(opened)
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
        if names and size <= limits.STREAMED_BYTES:
            with pq.ParquetFile(source, read_dictionary=names) as opened:
                longest = [longest_texts(opened, names, group) for group in range(len(groups))]
                if sum(one.num_rows * most for one, most in zip(groups, longest, strict=True)) > limits.STREAMED_BYTES:
                    size = max(size, _text_bytes(opened, names))
        return Size(metadata.num_rows, metadata.num_columns, size)
    header = CsvFile(source, reading).header(errors="replace")
    columns = _outside_quotes(header).count(reading.delimiter or _separator(header)) + 1
    rows, size = -1, 0  # the header is no row
    with _unpacked(source) as stream:
        while some := stream.read(1 << 20):
            rows += max(some.count(b"\n"), some.count(b"\r"))
            size += len(some)
            if size > limits.WHOLE_BYTES or rows * columns > limits.WHOLE_CELLS:
                return Size(rows, columns, size, counted=False)
    return Size(max(rows, 0), columns, size)


def text_columns(opened: Any) -> list[str]:
    """The columns of a Parquet file that hold texts, which may be kept once and repeated in every row."""
    import pyarrow as pa

    kinds = (pa.types.is_string, pa.types.is_large_string)
    return [field.name for field in opened.schema_arrow if any(kind(field.type) for kind in kinds)]


def longest_texts(opened: Any, names: list[str], group: int) -> int:
    """Bytes that the texts of one row take at most, of a row group opened with `read_dictionary=names`."""
    import pyarrow.compute as pc

    batch = next(opened.iter_batches(batch_size=1, row_groups=[group], columns=names, use_threads=False), None)
    columns = [] if batch is None else batch.columns
    return sum(pc.max(pc.binary_length(column.dictionary)).as_py() or 0 for column in columns)


def _text_bytes(opened: Any, names: list[str]) -> int:
    """Bytes of all texts, counted without writing them out; no more than from where on they are too many."""
    import pyarrow.compute as pc

    size = 0
    for batch in opened.iter_batches(batch_size=1 << 16, columns=names, use_threads=False):
        for column in batch.columns:
            lengths = pc.binary_length(column.dictionary).cast("int64")
            size += pc.sum(lengths.take(column.indices)).as_py() or 0
        if size > limits.WHOLE_BYTES:
            break
    return size


def check_columns(source: str | Path, columns: int) -> None:
    if columns > limits.TABLE_COLUMNS:
        raise InputError(
            f"'{source}' has {columns:,} columns; at most {limits.TABLE_COLUMNS:,} are read: leave columns out of it."
        )


def _is_parquet(source: Path) -> bool:
    return source.suffix.lower() in (".parquet", ".pq")


class ShortLines(io.RawIOBase):
    """The bytes of a CSV file. A line that is too long, or a batch of too many bytes, is refused before a parser holds
    all of it.
    """

    def __init__(self, stream: IO[bytes], source: str | Path) -> None:
        self._stream, self._source, self._line, self._batch = stream, source, 0, 0

    def start_batch(self) -> None:
        self._batch = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        some = self._stream.read(len(buffer))
        end = max(some.rfind(b"\n"), some.rfind(b"\r"))
        self._line = self._line + len(some) if end < 0 else len(some) - end - 1
        if self._line > limits.LINE_BYTES:
            raise InputError(
                f"'{self._source}' has a line of more than {limits.LINE_BYTES:,} bytes; a table has one row on each "
                "line: is it a CSV file?"
            )
        self._batch += len(some)
        if self._batch > limits.WHOLE_BYTES:
            raise InputError(
                f"'{self._source}' has rows of more than {limits.WHOLE_BYTES:,} bytes in one batch; leave out the "
                "columns of long texts."
            )
        buffer[: len(some)] = some
        return len(some)

    def close(self) -> None:
        self._stream.close()
        super().close()


@contextlib.contextmanager
def told_of_reading(source: str | Path, reading: TableReading) -> Iterator[None]:
    """What goes wrong while a file is read, in a sentence."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"reading '{source}' needs pyarrow: pip install 'bornfair[parquet]'.") from error
    except (MemoryError, InputError):
        raise
    except UnicodeError as error:
        raise InputError(_not_decoded(source, reading, error)) from error
    except Exception as error:  # readers of tables fail in many ways on files that are none
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"cannot read '{source}' as a table ({reason}); {_advice(reason)}") from error


def with_numbers(table: pd.DataFrame, reading: TableReading) -> pd.DataFrame:
    """The table, with the texts of columns that are to be numeric turned into numbers."""
    changed = {}
    for name in reading.numeric or ():
        if name not in table.columns:
            raise InputError(unknown_column(name, [str(column) for column in table.columns]))
        changed[name] = as_numbers(name, table[name], reading.decimal)  # type: ignore[arg-type]
    return table.assign(**changed) if changed else table


class CsvFile:
    """A CSV file as pandas is to read it, from what is said of it and from its first bytes."""

    def __init__(
        self, source: str | Path, reading: TableReading, unpacked: Callable[[], IO[bytes]] | None = None
    ) -> None:
        self.source, self.reading = source, reading
        self._unpacked = unpacked or (lambda: _unpacked(Path(source)))

    @cached_property
    def encoding(self) -> str:
        """As said; else the one that the file itself names by a byte order mark, UTF-8 otherwise."""
        if self.reading.encoding is not None:
            return self.reading.encoding
        with self._unpacked() as stream:
            start = stream.read(4_096)
        if start[:4] == b"PK\x03\x04" or start[:8] == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
            raise InputError(
                f"cannot read '{self.source}' as a table: it is a spreadsheet or an archive; save it as CSV."
            )
        for mark, encoding in _MARKS.items():
            if start.startswith(mark):
                return encoding
        if b"\0" in start:
            raise InputError(
                f"cannot read '{self.source}' as a table: it holds zero bytes, as UTF-16 text does; name the encoding, "
                "as --encoding utf-16-le, if it is text."
            )
        return "utf-8"

    @cached_property
    def separator(self) -> str:
        return self.reading.delimiter or _separator(self.header())

    def header(self, errors: str = "strict") -> str:
        with self._unpacked() as stream, io.TextIOWrapper(stream, encoding=self.encoding, errors=errors) as text:
            return text.readline(limits.LINE_BYTES)

    def open(self) -> io.BufferedReader:
        self.separator  # noqa: B018 - looked up first: some stores have one position for all who read a file
        return io.BufferedReader(ShortLines(self._unpacked(), self.source), 1 << 18)

    def read(self, stream: IO[bytes], **more: Any) -> Any:
        return pd.read_csv(
            stream, sep=self.separator, encoding=self.encoding, decimal=self.reading.decimal or ".",
            keep_default_na=False, na_values=[""], **more,
        )  # fmt: skip

    def whole(self) -> pd.DataFrame:
        with self.open() as stream:
            table = self.checked(self.read(stream))
        separator = self.separator
        if table.shape[1] == 1 and (other := _separator(self.header(), besides=separator)) != separator:
            raise InputError(
                f"'{self.source}' has a single column when read with the delimiter {_named(separator)}, and its header "
                f"holds {_named(other)}; try --delimiter {_named(other)}."
            )
        return table

    def checked(self, table: pd.DataFrame) -> pd.DataFrame:
        """Rows as read, with large numbers; rows that are longer than the header are refused."""
        if not isinstance(table.index, pd.RangeIndex):
            # pandas would take the first cells for names of the rows, and every cell for its neighbour's
            raise InputError(
                f"the rows of '{self.source}' have more cells than its header has names, read with the delimiter "
                f"{_named(self.separator)}; if numbers are written with commas, separate cells by another sign "
                "(--delimiter ';'), and give every column a name."
            )
        return with_large_numbers(table, self.reading.decimal or ".")


_MOST_DIGITS = 4_300  # that Python turns into a whole number


def with_large_numbers(table: pd.DataFrame, decimal: str) -> pd.DataFrame:
    """The table, with columns of numbers that pandas left as texts because one of them was too large for it.

    When it does so depends on its version, and such texts would be taken for categories.

    >>> with_large_numbers(pd.DataFrame({"a": ["1", str(2**65)], "b": ["1", "x"]}), ".").to_dict("list")
    {'a': [1, 36893488147419103232], 'b': ['1', 'x']}
    """
    sign = re.escape(decimal)
    number = re.compile(rf"\s*[+-]?(?:\d+{sign}?\d*|{sign}\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)
    for name in table.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]]:
        first = next((cell for cell in table[name] if isinstance(cell, str) and cell), "")
        if not number.fullmatch(first):  # which spares most columns the rest
            continue
        cells = table[name].tolist()
        texts = {cell for cell in cells if cell != "" and not pd.isna(cell)}
        if not all(isinstance(text, str) and number.fullmatch(text) for text in texts):
            continue
        whole = all(text.strip().lstrip("+-").isdecimal() and len(text) <= _MOST_DIGITS for text in texts)
        values = {text: int(text) if whole else float(text.replace(decimal, ".")) for text in texts}
        if max(map(abs, values.values())) > (2**63 - 1 if whole else np.finfo(np.float64).max):
            kept = [values.get(cell, np.nan) for cell in cells]
            table[name] = pd.Series(kept, index=table.index, dtype=object if whole else np.float64)
    return table


_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32"} | {
    b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"
}  # fmt: skip


def _unpacked(source: Path) -> IO[bytes]:
    """The bytes of a file, as pandas would unpack it."""
    ending = source.suffix.lower()
    if ending == ".zip":
        import zipfile

        archive = zipfile.ZipFile(source)
        return archive.open(archive.namelist()[0])
    if ending in (".gz", ".bz2", ".xz"):
        import importlib

        module = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}[ending]
        return importlib.import_module(module).open(source, "rb")
    return source.open("rb")


def _separator(header: str, besides: str | None = None) -> str:
    """The separator of a CSV file, from its header line: comma unless another one is clearly meant."""
    bare = _outside_quotes(header)
    counts = {separator: bare.count(separator) for separator in ",;\t|" if separator != besides}
    usual = besides or ","
    best = max(counts, key=lambda separator: counts[separator])
    return best if counts[best] > counts.get(usual, 0) else usual


def _outside_quotes(header: str) -> str:
    """A header without quoted names, which may hold any sign."""
    return re.sub(r'"[^"]*"', "", header)


def _named(separator: str) -> str:
    return "tab" if separator == "\t" else f"'{separator}'"


def _not_decoded(source: str | Path, reading: TableReading, error: UnicodeError) -> str:
    said = reading.encoding or "UTF-8"
    where = f" at byte {error.start:,}" if isinstance(error, UnicodeDecodeError) else ""
    other = "latin-1 or cp1252" if reading.encoding is None else "utf-8, latin-1 or cp1252"
    return f"cannot read '{source}' as a table: it is not {said} text{where}; name its encoding, as --encoding {other}."


def _advice(reason: str) -> str:
    """What may help, by what pandas says of a file."""
    if "Expected" in reason and "saw" in reason:
        return "is another sign between the cells (--delimiter ';'), or a cell with that sign without quotes?"
    if "EOF inside string" in reason:
        return "a quote is opened and never closed there."
    return "is it a complete CSV or Parquet file?"


def _to_pandas(native: Any) -> pd.DataFrame:
    # Column by column through Python objects where a type has no NumPy form: needs no pyarrow.
    columns = {}
    for name in native.columns:
        series = native.get_column(name)
        numeric = series.dtype.is_numeric() and not series.is_null().any()
        columns[name] = series.to_numpy() if numeric else series.to_list()
    return pd.DataFrame(columns)
