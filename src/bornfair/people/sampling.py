"""Which people of a table that no memory holds are looked at one by one? A random sample, and it is said of how many.

The sample is drawn by the addresses of rows. Where there is not the time to read the whole table, parts of it are read
in random order, and the sample is of those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair.core.errors import InputError
from bornfair.core.redacted import url_shown
from bornfair.people.domain import Domain
from bornfair.people.sources import Source
from bornfair.people.survey import RowSample, sample_size, surveyed


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
        of = f"the {self.read:,} that there are" if self.read == self.total else self._read_in_time
        return f"{len(self.sample):,} random rows of {of}"

    @property
    def _read_in_time(self) -> str:
        return f"{self.read:,} that were read in the time" + (f", of {self.total:,} in all" if self.total else "")

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
