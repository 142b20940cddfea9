"""How does training on a table scale that no memory holds? Rows per second and memory from 10⁵ to 10⁸ rows of Parquet
files, read in batches, beside the same training in memory.

Every length is measured in a process of its own: a peak of memory belongs to the whole process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.checks import whole
from bornfair.core.clock import Say
from bornfair.core.errors import InputError
from bornfair.models.network.model import Model
from bornfair.people.domain import Domain
from bornfair.people.levels import class_positions
from bornfair.people.sources import MOST_ROWS, Source
from bornfair.proof.bundle import save_bundle
from bornfair.training.cache import TRAINING
from bornfair.training.fitting import Recipe, fit_table
from bornfair.training.options import TrainingOptions
from bornfair.training.streamed_fit import fit_streamed, survey_table
from bornfair_bench.experiments import timing
from bornfair_bench.experiments.printout import Columns, Printout, Table, lines
from bornfair_bench.experiments.runs import silent
from bornfair_bench.experiments.scaling import peak_memory
from bornfair_bench.experiments.timing import Measured

FILES = 50
IN_MEMORY_UP_TO = 10**7
MOST_MEMORY = 2 * 10**9
WHOLE, REAL = 11, 4
CATEGORIES = {"region": 12, "sector": 20, "housing": 4}
TARGET, SENSITIVE = "granted", "sex"


@dataclass(frozen=True)
class Length(Measured):
    """One length of table, measured."""

    derived = (
        "rows_per_second", "rows_per_processor_second", "in_memory_rows_per_processor_second", "predict_per_read"
    )  # fmt: skip

    rows: int
    table_bytes: int
    cache_bytes: int
    survey_seconds: float
    encoding_seconds: float
    epoch_rows: int
    epoch_seconds: float
    """Of the second epoch, or of the first where there is one only: compiling takes seconds."""
    processor_seconds: float
    """Of the same epoch: what others do on this machine counts less in it."""
    memory: int
    """Peak bytes of the whole process."""
    reading_processor_seconds: float
    """To read the columns of the domain by pyarrow, in batches, and nothing else."""
    predict_processor_seconds: float
    """Of the command `bornfair predict` on the same table, its start included."""
    in_memory_processor_seconds: float | None
    """The same epoch with the table in memory, in a process of its own; None: not measured."""
    in_memory: int | None

    @property
    def rows_per_second(self) -> float:
        return self.epoch_rows / self.epoch_seconds

    @property
    def rows_per_processor_second(self) -> float:
        return self.epoch_rows / self.processor_seconds

    @property
    def predict_per_read(self) -> float | None:
        return (
            self.predict_processor_seconds / self.reading_processor_seconds if self.reading_processor_seconds else None
        )

    @property
    def in_memory_rows_per_processor_second(self) -> float | None:
        seconds = self.in_memory_processor_seconds
        return None if seconds is None else self.epoch_rows / seconds


COLUMNS: Columns = (
    ("rows", lambda one: f"{one.rows:,}"),
    ("table MB", lambda one: f"{one.table_bytes / 1e6:,.0f}"),
    ("cache MB", lambda one: f"{one.cache_bytes / 1e6:,.0f}"),
    ("look s", lambda one: f"{one.survey_seconds:.1f}"),
    ("encode s", lambda one: f"{one.encoding_seconds:.1f}"),
    ("epoch s", lambda one: f"{one.epoch_seconds:.1f}"),
    ("rows/s", lambda one: f"{one.rows_per_second:,.0f}"),
    ("rows/processor s", lambda one: f"{one.rows_per_processor_second:,.0f}"),
    ("read processor s", lambda one: f"{one.reading_processor_seconds:.2f}"),
    ("predict processor s", lambda one: f"{one.predict_processor_seconds:.2f}"),
    ("in memory", lambda one: _or_none(one.in_memory_rows_per_processor_second, "{:,.0f}")),
    ("peak MB", lambda one: f"{one.memory / 1e6:,.0f}"),
    ("in memory MB", lambda one: _or_none(one.in_memory and one.in_memory / 1e6, "{:,.0f}")),
    ("below 2 GB", lambda one: timing.yes_or_no(one.memory <= MOST_MEMORY)),
)


def _or_none(number: float | None, form: str) -> str:
    return "–" if number is None else form.format(number)


def report(
    *, rows: Sequence[str] | None = None, table: Path | None = None, hidden: str | None = None, say: Say = silent
) -> Printout:
    """Measure each length, on a table that is made for it and removed afterwards, or on one that is there."""
    lengths = [whole_number(text) for text in rows or ("1e5", "1e6", "1e7", "1e8")]
    if table is not None and len(lengths) != 1:
        raise InputError("--table is of one length; name it with one --rows.")
    found = []
    for count in lengths:
        with tempfile.TemporaryDirectory() as folder:
            place = table or Path(folder) / "table"
            if not place.exists():
                say(f"{count:,} rows: making the table")
                make_table(place, count)
            settings = {"measure": "streamed", "folder": str(place), "cache": folder, "hidden": hidden or "paper"}
            say(f"{count:,} rows: read in batches")
            facts = timing.in_own_process("bornfair_bench.experiments.rows", settings, say)
            if count <= IN_MEMORY_UP_TO:
                say(f"{count:,} rows: in memory")
                beside = timing.in_own_process("bornfair_bench.experiments.rows", settings | {"measure": "whole"}, say)
                facts |= {name: beside[name] for name in ("in_memory_processor_seconds", "in_memory")}
            found.append(Length.from_json(facts))
    title = (
        f"Fair epochs on Parquet tables of {FILES} files and {WHOLE + REAL + len(CATEGORIES) + 2} columns, network "
        f"{hidden or 'paper'}, one core"
    )
    return Printout({"rows": [one.to_json() for one in found]}, [Table(title, lines(COLUMNS, found))])


def whole_number(text: str) -> int:
    """
    >>> whole_number("1e5"), whole_number("1000")
    (100000, 1000)
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    if not number.is_integer() or number < 1000:
        raise InputError(f"--rows must be a whole number from 1000 on, found {text!r}.")
    whole("rows", int(number), 1000)
    return int(number)


def make_table(folder: Path, rows: int, *, files: int = FILES, seed: int = 0) -> None:
    """People who do not exist, in Parquet files: whole numbers, reals, categories, a sensitive one and an answer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number in range(files):
        count = rows * (number + 1) // files - rows * number // files
        table = pa.Table.from_pandas(synthetic_people(count, [seed, number]), preserve_index=False)
        pq.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=2**19)


def synthetic_people(rows: int, seed: Sequence[int]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns: dict[str, object] = {f"n{i}": rng.integers(0, 100, rows, dtype=np.int8) for i in range(WHOLE)}
    columns |= {f"x{i}": rng.normal(size=rows).astype(np.float32) for i in range(REAL)}
    for name, levels in CATEGORIES.items():
        labels = [f"{name} {level}" for level in range(levels)]
        columns[name] = _drawn(labels, rows, rng)
    columns[SENSITIVE] = _drawn(["female", "male"], rows, rng)
    table = pd.DataFrame(columns, copy=False)
    merit = (table["n0"] - 50.0) / 30 + table["x0"] * np.where(table["region"].cat.codes < 6, 1, -1)
    table[TARGET] = (merit + rng.normal(size=rows) > 0).astype(np.int8)
    return table


def _drawn(levels: list[str], rows: int, rng: np.random.Generator) -> Any:
    codes = rng.integers(0, len(levels), rows, dtype=np.int8)
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(levels))


# --- the measuring process ---


def _recipe(hidden: str, rows: int) -> Recipe:
    epochs = 2 if rows <= 10**7 else 1
    return Recipe.of(TrainingOptions(hidden=hidden, epochs=epochs, validation_fraction=0.0), 0)


def measure_streamed(folder: str, cache: str, hidden: str) -> Length:
    source = Source.at(folder)
    watch = timing.Stopwatch()
    watch()
    table = survey_table(source, TARGET, [SENSITIVE])
    domain = Domain.infer(
        table.survey.representative(sensitive=[SENSITIVE], without=[TARGET]), sensitive=[SENSITIVE]
    ).replaced(label=table.label)
    watch()
    encoded, epochs = timing.Stopwatch(), timing.Stopwatch()
    place = Path(cache) / "rows"
    fitted, _ = fit_streamed(
        table, domain, _recipe(hidden, table.survey.rows), folder=place, told_of_rows=encoded, callbacks=(epochs,)
    )
    epochs.readings.insert(0, encoded.readings[-1])
    return Length(
        rows=table.survey.rows,
        table_bytes=sum(Path(name).stat().st_size for name in source.files),
        cache_bytes=(place / f"{TRAINING}.rows").stat().st_size,
        survey_seconds=watch.laps()[0][0],
        encoding_seconds=encoded.readings[-1][0] - watch.readings[-1][0],
        epoch_rows=table.survey.rows,
        epoch_seconds=fitted.training.history[-1].seconds,
        processor_seconds=epochs.laps()[-1][1],
        memory=peak_memory(),
        reading_processor_seconds=min(timing.timed(lambda: _read(source, domain.names))[1] for _ in range(2)),
        predict_processor_seconds=_predicted(fitted.model, folder, Path(cache)),
        in_memory_processor_seconds=None,
        in_memory=None,
    )


def _read(source: Source, columns: Sequence[str]) -> None:
    import pyarrow.parquet as pq

    for name in source.files:
        for _ in pq.ParquetFile(name).iter_batches(batch_size=MOST_ROWS, columns=list(columns), use_threads=False):
            pass


def _predicted(model: Model, table: str, folder: Path) -> float:
    """Processor seconds of `bornfair predict`."""
    import resource

    words = ["predict", str(save_bundle(model, folder / "bundle")), table, "--out", str(folder / "decisions.csv")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from bornfair.cli import main; main()", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_whole(folder: str, cache: str, hidden: str) -> Length:
    people = pd.read_parquet(folder)
    domain = Domain.infer(people, target=TARGET, sensitive=[SENSITIVE])
    assert domain.label is not None
    classes = class_positions(people[TARGET], domain.label.classes)
    watch, rows = timing.Stopwatch(), len(people)
    fit_table(people, classes, domain, _recipe(hidden, rows), callbacks=(watch,))
    seconds, processor = watch.laps()[-1]
    return Length(rows, 0, 0, 0.0, 0.0, rows, seconds, processor, peak_memory(), 0.0, 0.0, processor, peak_memory())


if __name__ == "__main__":
    timing.serve({"streamed": measure_streamed, "whole": measure_whole}, sys.argv[1:])
