"""What does an epoch cost? Ours, plain and fair, beside PyTorch's and scikit-learn's, on the paper's network.

The contenders take turns in a process of their own that is pinned to one core, so that a busy moment of the machine
meets all of them alike. Only ratios of wall-clock medians are claimed: seconds belong to the machine. Processor time
stands beside them: where the two disagree, the core was lent to somebody else and the run is worth repeating.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from bornfair.checks import whole
from bornfair.experiments import timing
from bornfair.experiments.preservation import Census
from bornfair.experiments.printout import Columns, Lines, Printout, Table, lines
from bornfair.experiments.runs import silent, versions
from bornfair.experiments.timing import Epochs, Lap, Measured, Stopwatch, timed
from bornfair.models.network import hidden_widths
from bornfair.training.algorithm import Plan, TrainingData, train
from bornfair.training.response import Response
from bornfair.training.start import Exact, Plain, Start, draw
from bornfair.verification.clock import Say

BATCH_SIZE = 64
LEARNING_RATE = 0.01
OURS = ("plain", "fair")
OUR_TURNS = 8  # in each round: ours are short, and their ratio is to be known to a hundredth
MISSING = "not installed: pip install 'bornfair[bench]'"

LABELS = {
    "plain": "bornfair, plain (ERM, with sex)",
    "fair": "bornfair, fair (exact start, expected response)",
    "dataloader": "PyTorch, DataLoader",
    "sliced": "PyTorch, sliced tensors",
    "sklearn": "scikit-learn MLPClassifier",
}
"""The contenders by name, in the order of their turns."""


@dataclass(frozen=True)
class Target:
    """A ratio of two contenders' seconds, and what it has to keep to."""

    over: str
    under: str
    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        return f"{self.over} / {self.under}"

    @property
    def bound(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}" if self.most is not None else "–"

    def met(self, ratio: float | None) -> bool | None:
        """None where there is nothing to compare."""
        if ratio is None or (self.least is None and self.most is None):
            return None
        return (self.least is None or ratio >= self.least) and (self.most is None or ratio <= self.most)


By = Literal["median", "processor_median", "fastest"]

TARGETS = (
    Target("fair", "plain", most=1.02),
    Target("dataloader", "fair", least=10),
    Target("sliced", "fair"),
    Target("sklearn", "fair", least=4),
)


@dataclass(frozen=True)
class Contender(Epochs):
    """The epochs of one contender, in the order they were run; or why there are none."""

    derived = ("label", *get_args(By), "compilation")

    name: str
    seconds: tuple[float, ...] = ()
    processor: tuple[float, ...] = ()
    first: float | None = None
    problem: str | None = None

    @property
    def label(self) -> str:
        return LABELS[self.name]


@dataclass(frozen=True)
class SpeedReport(Measured):
    """Seconds per epoch, side by side."""

    derived = ("ratios",)

    rows: int
    columns: int
    """Encoded columns, the sensitive one included; fair training reads one less."""
    hidden: tuple[int, ...]
    batch_size: int
    learning_rate: float
    repeats: int
    core: int | None
    """The one core all of it ran on; None where the system cannot pin a process."""
    versions: dict[str, str]
    contenders: tuple[Contender, ...]

    def __getitem__(self, name: str) -> Contender:
        return next(contender for contender in self.contenders if contender.name == name)

    def ratio(self, target: Target, by: By = "median") -> float | None:
        """Of the medians over all rounds, or of the fastest epochs; None where a contender is missing."""
        over, under = getattr(self[target.over], by), getattr(self[target.under], by)
        return None if over is None or under is None else over / under

    @property
    def ratios(self) -> list[dict[str, Any]]:
        return [
            {
                "ratio": str(target),
                **{by: self.ratio(target, by) for by in get_args(By)},
                "target": target.bound,
                "met": target.met(self.ratio(target)),
            }
            for target in TARGETS
        ]

    # --- for printing ---

    def title(self) -> str:
        place = f"core {self.core} alone" if self.core is not None else "one thread asked for, process not pinned"
        return (
            f"One epoch of {self.rows:,} rows × {self.columns} columns, network {list(self.hidden)}, batch "
            f"{self.batch_size}, SGD {self.learning_rate:g}; {self.repeats} rounds, {place}; "
            f"{', '.join(f'{name} {version}' for name, version in self.versions.items())}"
        )

    def table(self) -> Lines:
        """A line for each contender, headers first."""
        return lines(COLUMNS, self.contenders)

    def ratio_table(self) -> Lines:
        """A line for each ratio, headers first."""
        return lines(RATIO_COLUMNS, self.ratios)


COLUMNS: Columns = (
    ("contender", lambda c: c.label if c.problem is None else f"{c.label}: {c.problem}"),
    ("median s", lambda c: _number(c.median, 4)),
    ("fastest s", lambda c: _number(c.fastest, 4)),
    ("processor s (median)", lambda c: _number(c.processor_median, 4)),
    ("epochs", lambda c: str(len(c.seconds))),
    ("compile s", lambda c: _number(c.compilation if c.name in OURS else None, 2)),
)
RATIO_COLUMNS: Columns = (
    ("ratio", lambda entry: entry["ratio"]),
    ("wall clock", lambda entry: _number(entry["median"], 3)),
    ("processor time", lambda entry: _number(entry["processor_median"], 3)),
    ("fastest epochs", lambda entry: _number(entry["fastest"], 3)),
    ("target", lambda entry: entry["target"]),
    ("met", lambda entry: timing.yes_or_no(entry["met"])),
)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def run_epochs(*, repeats: int = 7, rows: int | None = None, say: Say = silent) -> SpeedReport:
    """Measure in a fresh process; `rows` trains on the first so many rows of the census only."""
    whole("repeats", repeats, 1)
    if rows is not None:
        whole("rows", rows, 2)
    settings = {"repeats": repeats, "rows": rows}
    return SpeedReport.from_json(timing.in_own_process("bornfair.experiments.speed", settings, say))


def report(*, repeats: int, say: Say) -> Printout:
    found = run_epochs(repeats=repeats, say=say)
    tables = [Table(found.title(), found.table()), Table("Ratios of medians", found.ratio_table())]
    return Printout(found.to_json(), tables)


# --- the measuring process ---


Turn = Callable[[], Lap]
"""Trains further and says what one epoch took, set-up excluded."""


def measure_epochs(repeats: int, rows: int | None) -> SpeedReport:
    """Let all contenders that are installed take turns, in this process."""
    data = Census.prepare(0, rows).training
    turns: dict[str, tuple[float, Turn]] = {
        "plain": _ours(Plain(), Response("none"), data),
        "fair": _ours(Exact(), Response("expected"), TrainingData(data.free, data.classes)),
        "sklearn": _scikit_learn(data),
    }
    try:
        turns |= {"dataloader": _pytorch(data, loader=True), "sliced": _pytorch(data, loader=False)}
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
    others = [name for name in LABELS if name in turns and name not in OURS]
    laps: dict[str, list[Lap]] = {name: [] for name in turns}
    for repeat in range(repeats):
        print(f"round {repeat + 1} of {repeats}", flush=True)
        order = list(OURS) * OUR_TURNS + others
        # Every other round backwards, so that nobody always runs in the wake of the same neighbour.
        for name in order if repeat % 2 == 0 else order[::-1]:
            laps[name].append(turns[name][1]())
    return SpeedReport(
        rows=len(data.free),
        columns=_inputs(data).shape[1],
        hidden=hidden_widths("paper"),
        batch_size=BATCH_SIZE,
        learning_rate=LEARNING_RATE,
        repeats=repeats,
        core=timing.only_core(),
        versions=versions("jax", "torch", "scikit-learn"),
        contenders=tuple(
            Contender(name, tuple(wall for wall, _ in laps[name]), tuple(own for _, own in laps[name]), turns[name][0])
            if name in turns
            else Contender(name, problem=MISSING)
            for name in LABELS
        ),
    )


def _ours(start: Start, response: Response, data: TrainingData) -> tuple[float, Turn]:
    """The seconds of the warm-up epoch, and the turns that follow; so for all contenders."""
    network = draw(start, free_width=data.free.shape[1], sensitive_width=1, hidden="paper", outputs=1, seed=0)
    plan = Plan(epochs=1, batch_size=BATCH_SIZE, optimiser="sgd", learning_rate=LEARNING_RATE)
    warm_up = train(network, data, response, plan)
    network = warm_up.network

    def turn() -> Lap:
        nonlocal network, plan
        plan, watch = replace(plan, epochs=2, seed=plan.seed + 1), Stopwatch()
        network = train(network, data, response, plan, callbacks=(watch,)).network
        return watch.laps()[0]  # the second epoch: the first one's clock would have to start within `train`

    return warm_up.history[0].seconds, turn


def _pytorch(data: TrainingData, *, loader: bool) -> tuple[float, Turn]:
    """The loop of PyTorch's tutorials; or, to be fair to it, one that slices the tensors itself."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.from_numpy(_inputs(data))
    targets = torch.from_numpy(data.classes.astype(np.float32))
    widths = (inputs.shape[1], *hidden_widths("paper"))
    layers: list[Any] = []
    for i, width in enumerate(widths[1:]):
        layers += [torch.nn.Linear(widths[i], width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1))
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    loss_of = torch.nn.BCEWithLogitsLoss()
    table = torch.utils.data.TensorDataset(inputs, targets)
    batches = torch.utils.data.DataLoader(table, batch_size=BATCH_SIZE, shuffle=True)

    def sliced() -> Iterator[tuple[Any, Any]]:
        for rows in torch.randperm(len(inputs)).split(BATCH_SIZE):
            yield inputs[rows], targets[rows]

    def epoch() -> None:
        for some_inputs, some_targets in batches if loader else sliced():
            optimiser.zero_grad()
            loss_of(model(some_inputs)[:, 0], some_targets).backward()
            optimiser.step()

    return timed(epoch)[0], lambda: timed(epoch)


def _scikit_learn(data: TrainingData) -> tuple[float, Turn]:
    from sklearn.neural_network import MLPClassifier

    # In float32, which is the faster of the two it knows.
    inputs, classes = _inputs(data), data.classes
    model = MLPClassifier(
        hidden_widths("paper"), solver="sgd", alpha=0.0, batch_size=min(BATCH_SIZE, len(inputs)),
        learning_rate_init=LEARNING_RATE, momentum=0.0, nesterovs_momentum=False, random_state=0,
    )  # fmt: skip
    first = timed(lambda: model.partial_fit(inputs, classes, classes=[0, 1]))[0]  # it also draws the weights
    # One call is one epoch, with a check of the table before it.
    return first, lambda: timed(lambda: model.partial_fit(inputs, classes))


def _inputs(data: TrainingData) -> np.ndarray:
    assert data.sensitive is not None
    return np.concatenate([data.free, data.sensitive], axis=1)


if __name__ == "__main__":
    timing.serve({"epochs": measure_epochs}, sys.argv[1:])
