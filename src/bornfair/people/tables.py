"""How a table comes in: pandas, polars, arrays, CSV or Parquet, always handed on as pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.errors import InputError, shown


def as_pandas(table: Any) -> pd.DataFrame:
    """A pandas table with string column names, from any data frame narwhals knows."""
    if not isinstance(table, pd.DataFrame):
        import narwhals as nw

        try:
            native = nw.from_native(table, eager_only=True)
        except TypeError as error:
            raise InputError(
                f"a table must be a pandas or polars data frame, found {type(table).__name__}; "
                "turn it into one, with a name for each column."
            ) from error
        table = _to_pandas(native)
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
                "numbers must be at most 3.4e38 in size."
            )


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a CSV or Parquet file. `?` and empty cells stay what they are: a text, and missing."""
    source = Path(path)
    if not source.is_file():
        raise InputError(f"there is no file '{source}'; give the path of a CSV or Parquet table.")
    try:
        if source.suffix.lower() in (".parquet", ".pq"):
            table = pd.read_parquet(source)
        else:
            table = pd.read_csv(source, sep=_separator(source), keep_default_na=False, na_values=[""])
    except ImportError as error:
        raise InputError(f"reading '{source}' needs pyarrow: pip install 'bornfair[parquet]'.") from error
    except MemoryError:
        raise
    except Exception as error:  # readers of tables fail in many ways on files that are none
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"cannot read '{source}' as a table ({reason}); is it a complete CSV or Parquet file?"
        ) from error
    if not len(table):
        raise InputError(f"'{source}' has no rows; a table needs a header and at least one row.")
    return as_pandas(table)


def _separator(source: Path) -> str:
    """The separator of a CSV file, from its header line: comma unless another one is clearly meant."""
    import gzip

    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rt", encoding="utf-8") as stream:
        header = stream.readline(1_000_000)
    counts = {separator: header.count(separator) for separator in ",;\t"}
    best = max(counts, key=lambda separator: counts[separator])
    return best if counts[best] > counts[","] else ","


def _to_pandas(native: Any) -> pd.DataFrame:
    # Column by column through Python objects where a type has no NumPy form: needs no pyarrow.
    columns = {}
    for name in native.columns:
        series = native.get_column(name)
        numeric = series.dtype.is_numeric() and not series.is_null().any()
        columns[name] = series.to_numpy() if numeric else series.to_list()
    return pd.DataFrame(columns)
