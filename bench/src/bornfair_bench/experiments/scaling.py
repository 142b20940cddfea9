"""How does training scale? Rows per second and memory from 10⁵ to 10⁷ rows, and a network of 2048 neurons a layer.

Every size is measured in a process of its own: a peak of memory belongs to the whole process.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from bornfair.core.checks import whole
from bornfair.core.clock import Say
from bornfair.models.network.network import hidden_widths
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, Feature, IntegerFeature
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan, Training
from bornfair.training.fitting import training_data
from bornfair.training.response import Response
from bornfair.training.start import Exact, draw
from bornfair_bench.experiments import timing
from bornfair_bench.experiments.preservation import Census
from bornfair_bench.experiments.printout import Columns, Lines, Printout, Table, lines
from bornfair_bench.experiments.runs import silent
from bornfair_bench.experiments.speed import PAPER
from bornfair_bench.experiments.timing import Epochs, Measured, Stopwatch

PROGRAM = "bornfair_bench.experiments.scaling"  # measured in a process of its own
WIDTH = 20  # columns of a synthetic table
LONG_BATCH = 512
MOST_SPREAD = 1.5  # of rows per second between the sizes: the cost is linear
MOST_MEMORY = 2.0  # times the encoded table
COUNTED_FROM = 50 * 10**6  # bytes of encoded table: below, what compiling takes (some 20 MB) outweighs the table
LARGE_LIMIT = 4 * 10**9


@dataclass(frozen=True)
class Size(Epochs):
    """One length of table, measured."""

    derived = ("rows_per_second", "rows_per_processor_second", "memory_ratio")

    rows: int
    columns: int
    raw_bytes: int
    encoded_bytes: int
    encoding_seconds: float
    first: float
    seconds: tuple[float, ...]
    processor: tuple[float, ...]
    memory: int
    """Bytes at the peak, beyond what the process had taken after training on a tiny table: raw table included."""

    @property
    def rows_per_second(self) -> float:
        return self.rows / statistics.median(self.seconds)

    @property
    def rows_per_processor_second(self) -> float:
        return self.rows / statistics.median(self.processor)

    @property
    def memory_ratio(self) -> float:
        return self.memory / self.encoded_bytes


@dataclass(frozen=True)
class ScalingReport(Measured):
    """Fair training of the paper's network on tables of several lengths."""

    derived = ("spread", "processor_spread", "memory_ratio")

    hidden: tuple[int, ...]
    batch_size: int
    core: int | None
    sizes: tuple[Size, ...]

    @property
    def spread(self) -> float:
        """The most rows per second over the fewest."""
        return _most_over_fewest([size.rows_per_second for size in self.sizes])

    @property
    def processor_spread(self) -> float:
        """The same by processor time: where it is much smaller, somebody else was using the core."""
        return _most_over_fewest([size.rows_per_processor_second for size in self.sizes])

    @property
    def memory_ratio(self) -> float | None:
        """The worst of the tables that are long enough to count."""
        return max((size.memory_ratio for size in self.sizes if size.encoded_bytes >= COUNTED_FROM), default=None)

    # --- for printing ---

    def title(self) -> str:
        columns = ", ".join(sorted({str(size.columns) for size in self.sizes}))
        place = f"core {self.core} alone" if self.core is not None else "process not pinned"
        return (
            f"Fair epochs on synthetic tables of {columns} encoded float32 columns and one sensitive, network "
            f"{list(self.hidden)}, batch {self.batch_size}, {place}"
        )

    def table(self) -> Lines:
        """A line for each size, headers first."""
        return lines(COLUMNS, self.sizes)

    def claim_table(self) -> Lines:
        memory = self.memory_ratio
        return [
            ("claim", "measured", "target", "met"),
            ("linear cost: most rows/s over fewest", f"{self.spread:.2f}", f"≤ {MOST_SPREAD:g}",
             timing.yes_or_no(self.spread <= MOST_SPREAD)),
            ("  the same by processor time", f"{self.processor_spread:.2f}", "–", "–"),
            (f"peak memory over encoded table, from {COUNTED_FROM / 1e6:.0f} MB on",
             "–" if memory is None else f"{memory:.2f}", f"≤ {MOST_MEMORY:g}",
             timing.yes_or_no(None if memory is None else memory <= MOST_MEMORY)),
        ]  # fmt: skip


COLUMNS: Columns = (
    ("rows", lambda size: f"{size.rows:,}"),
    ("rows/s (median)", lambda size: f"{size.rows_per_second:,.0f}"),
    ("rows/processor s", lambda size: f"{size.rows_per_processor_second:,.0f}"),
    ("epochs", lambda size: str(len(size.seconds))),
    ("first s", lambda size: f"{size.first:.2f}"),
    ("encode s", lambda size: f"{size.encoding_seconds:.2f}"),
    ("encoded MB", lambda size: f"{size.encoded_bytes / 1e6:,.0f}"),
    ("peak MB", lambda size: f"{size.memory / 1e6:,.0f}"),
    ("× encoded", lambda size: f"{size.memory_ratio:.2f}"),
)


def _most_over_fewest(speeds: Sequence[float]) -> float:
    return max(speeds) / min(speeds)


@dataclass(frozen=True)
class LargeReport(Measured):
    """A large network on the census."""

    derived = ("seconds_per_step", "met")

    hidden: tuple[int, ...]
    parameters: int
    rows: int
    batch_size: int
    steps: int
    """Timed ones; as many went before, compilation among them."""
    seconds: float
    first: float
    memory: int
    """Peak bytes of the whole process."""
    cores: int

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / self.steps

    @property
    def met(self) -> bool:
        return self.memory <= LARGE_LIMIT

    # --- for printing ---

    def title(self) -> str:
        return (
            f"Network {list(self.hidden)} on census, {self.rows:,} rows in batches of {self.batch_size}, fair, "
            f"{self.cores} core{'s' if self.cores > 1 else ''}"
        )

    def table(self) -> Lines:
        return [
            ("parameters", "timed steps", "s/step", "first epoch s", "peak memory", "target", "met"),
            (f"{self.parameters:,}", str(self.steps), f"{self.seconds_per_step:.4f}", f"{self.first:.2f}",
             f"{self.memory / 1e9:.2f} GB", f"≤ {LARGE_LIMIT / 1e9:g} GB", timing.yes_or_no(self.met)),
        ]  # fmt: skip


def run_scaling(
    rows: Sequence[int] = (10**5, 10**6, 10**7),
    *,
    columns: int = WIDTH,
    epochs: int | None = None,
    say: Say = silent,
) -> ScalingReport:
    """Measure each length of table in a fresh process on one core; more epochs are timed where they are short."""
    whole("columns", columns, 2)
    for count in rows:
        whole("rows", count, 2)
    parts = []
    for count in rows:
        timed = epochs or int(np.clip(5 * 10**6 // count, 3, 30))
        say(f"{count:,} rows, {timed} epochs")
        settings = {"measure": "size", "rows": count, "columns": columns, "epochs": timed}
        parts.append(ScalingReport.from_json(timing.in_own_process(PROGRAM, settings, say)))
    return replace(parts[0], sizes=tuple(size for part in parts for size in part.sizes))


def run_large(*, hidden: str | Sequence[int] = "large", steps: int = 100, say: Say = silent) -> LargeReport:
    """Train a large network on census for twice `steps` steps, in a fresh process on all cores it is given."""
    whole("steps", steps, 1)
    say(f"{list(hidden_widths(hidden))} on census, {steps} steps to warm up and {steps} timed")
    settings = {"measure": "large", "hidden": list(hidden_widths(hidden)), "steps": steps}
    return LargeReport.from_json(timing.in_own_process(PROGRAM, settings, say, one_thread=False))


def report(*, say: Say) -> Printout:
    sizes, large = run_scaling(say=say), run_large(say=say)
    tables = [
        Table(sizes.title(), sizes.table()), Table("Claims", sizes.claim_table()), Table(large.title(), large.table()),
    ]  # fmt: skip
    return Printout({"scaling": sizes.to_json(), "large": large.to_json()}, tables)


# --- the measuring process ---


def measure_size(rows: int, columns: int, epochs: int) -> ScalingReport:
    """Encode and train one synthetic table in this process."""
    _encoded_and_trained(synthetic_people(1000, columns), epochs=1, watch=Stopwatch())
    before = peak_memory()
    table = synthetic_people(rows, columns)
    watch = Stopwatch()
    data, training, encoding_seconds = _encoded_and_trained(table, epochs=1 + epochs, watch=watch)
    seconds, processor = zip(*watch.laps(), strict=True)
    size = Size(
        rows=rows,
        columns=data.free.shape[1],
        raw_bytes=int(table.memory_usage(index=False).sum()),
        encoded_bytes=data.free.nbytes,
        encoding_seconds=encoding_seconds,
        first=training.history[0].seconds,
        seconds=seconds,
        processor=processor,
        memory=peak_memory() - before,
    )
    return ScalingReport(hidden_widths("paper"), LONG_BATCH, timing.only_core(), (size,))


def synthetic_people(rows: int, columns: int) -> pd.DataFrame:
    """Whole numbers from 0 to 99, a byte each as a careful caller keeps them, and one sensitive boolean."""
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.integers(0, 100, rows, dtype=np.int8) for i in range(columns)}
    return pd.DataFrame(table | {"group": rng.integers(0, 2, rows, dtype=np.int8).view(bool)}, copy=False)


def _encoded_and_trained(table: pd.DataFrame, *, epochs: int, watch: Stopwatch) -> tuple[TrainingData, Training, float]:
    began = time.perf_counter()
    *free, group = table.columns
    numbers: list[Feature] = [IntegerFeature(name=name, low=0, high=99) for name in free]
    encoding = Encoding.fit(Domain(features=(*numbers, BooleanFeature(name=group)), sensitive=(group,)), table)
    network = draw(Exact(), free_width=encoding.free_width, sensitive_width=1, hidden="paper", outputs=1, seed=0)
    classes = (table["x0"].to_numpy() > table["x1"].to_numpy()).view(np.int8)
    data = training_data(table, classes, encoding, Response(), None, unread=True)
    encoding_seconds = time.perf_counter() - began
    plan = Plan(epochs=epochs, batch_size=LONG_BATCH)
    return data, train(network, data, Response(), plan, callbacks=(watch,)), encoding_seconds


def measure_large(hidden: Sequence[int], steps: int) -> LargeReport:
    """Train two epochs of `steps` steps in this process, the second one timed."""
    data = Census.prepare(0, PAPER.batch_size * steps).training
    network = draw(Exact(), free_width=data.free.shape[1], sensitive_width=1, hidden=hidden, outputs=1, seed=0)
    plan = Plan(epochs=2, batch_size=PAPER.batch_size)
    training = train(network, TrainingData(data.free, data.classes), Response(), plan)
    return LargeReport(
        hidden=tuple(hidden),
        parameters=network.parameters,
        rows=len(data.free),
        batch_size=PAPER.batch_size,
        steps=-(-len(data.free) // PAPER.batch_size),
        seconds=training.history[1].seconds,
        first=training.history[0].seconds,
        memory=peak_memory(),
        cores=len(timing.cores()) or os.cpu_count() or 1,
    )


def peak_memory(status: str | Path = "/proc/self/status") -> int:
    """The most bytes of memory this process has held at once.

    Linux keeps it as VmHWM. Its `ru_maxrss` will not do: a program inherits the peak of the one that started it.
    """
    if Path(status).exists():
        for line in Path(status).read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    timing.serve({"size": measure_size, "large": measure_large}, sys.argv[1:])
