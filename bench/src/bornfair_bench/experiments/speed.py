"""What does an epoch cost? Ours, plain and fair, beside PyTorch's and scikit-learn's, on the paper's network or with
all that the default preset adds: bins, dropout, weight decay and a running mean of the weights.

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

from bornfair.core.checks import choice, whole
from bornfair.core.clock import Say
from bornfair.models.network.network import hidden_widths
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.embedding import Embedding
from bornfair.training.epochs import Plan
from bornfair.training.fitting import Recipe
from bornfair.training.response import Response
from bornfair.training.start import Exact, Plain, Start, draw
from bornfair_bench.experiments import timing
from bornfair_bench.experiments.preservation import Census
from bornfair_bench.experiments.printout import Columns, Lines, Printout, Table, lines
from bornfair_bench.experiments.runs import silent, versions
from bornfair_bench.experiments.timing import Epochs, Lap, Measured, Stopwatch, timed

PAPER = Plan(epochs=1, batch_size=64, optimiser="sgd", learning_rate=0.01)
OURS = ("plain", "fair", "bare")
OUR_TURNS = 8  # in each round: ours are short, and their ratio is to be known to a hundredth
MISSING = "not installed: pip install 'bornfair-bench[torch]'"

LABELS = {
    "plain": "bornfair, plain (ERM, with sex)",
    "fair": "bornfair, fair (exact start, expected response)",
    "bare": "bornfair, fair, without bins, dropout and averaging",
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

TARGETS = {
    "paper": (
        Target("fair", "plain", most=1.02),
        Target("dataloader", "fair", least=10),
        Target("sliced", "fair"),
        Target("sklearn", "fair", least=4),
    ),
    "default": (
        Target("fair", "plain", most=1.02),
        Target("fair", "bare", most=2),
        Target("dataloader", "fair", least=5),
        Target("sliced", "fair"),
        Target("sklearn", "fair"),
    ),
}
"""By the preset that is measured."""


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
    preset: str = "paper"
    optimiser: str = "sgd"

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
            for target in TARGETS[self.preset]
        ]

    # --- for printing ---

    def title(self) -> str:
        place = f"core {self.core} alone" if self.core is not None else "one thread asked for, process not pinned"
        return (
            f"One epoch of {self.rows:,} rows × {self.columns} columns, network {list(self.hidden)}, batch "
            f"{self.batch_size}, {self.optimiser} {self.learning_rate:g}; {self.repeats} rounds, {place}; "
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


def run_epochs(*, repeats: int = 7, rows: int | None = None, preset: str = "paper", say: Say = silent) -> SpeedReport:
    """Measure in a fresh process; `rows` trains on the first so many rows of the census only."""
    whole("repeats", repeats, 1)
    choice("preset", preset, TARGETS)
    if rows is not None:
        whole("rows", rows, 2)
    settings = {"repeats": repeats, "rows": rows, "preset": preset}
    return SpeedReport.from_json(timing.in_own_process("bornfair_bench.experiments.speed", settings, say))


def report(*, repeats: int, preset: str, say: Say) -> Printout:
    found = run_epochs(repeats=repeats, preset=preset, say=say)
    tables = [Table(found.title(), found.table()), Table("Ratios of medians", found.ratio_table())]
    return Printout(found.to_json(), tables)


# --- the measuring process ---


Turn = Callable[[], Lap]
"""Trains further and says what one epoch took, set-up excluded."""


@dataclass(frozen=True)
class Work:
    """What an epoch is of: people, the layers that see them, and the steps that are made."""

    data: TrainingData
    hidden: tuple[int, ...]
    plan: Plan
    embedding: Embedding | None = None

    @staticmethod
    def of(preset: str, rows: int | None) -> Work:
        census = Census.prepare(0, rows)
        data = census.training
        if preset == "paper":
            return Work(data, hidden_widths("paper"), PAPER)
        recipe = Recipe(preset=preset)
        embedding = recipe.embedding_of(census.encoding, data.free, data.classes, None)
        chosen = recipe.plan(len(data.free))
        plan = replace(chosen, validation_fraction=0.0, patience=None, schedule="constant", epochs=1)
        return Work(data, hidden_widths(recipe.hidden), plan, embedding)

    @property
    def bare(self) -> Work:
        """The same layers and steps with nothing added."""
        return replace(self, embedding=None, plan=replace(self.plan, dropout=0.0, averaging=0.0))

    @property
    def inputs(self) -> np.ndarray:
        """What others are given: the columns as the network sees them, and the sensitive code."""
        free = self.data.free if self.embedding is None else self.embedding.columns(self.data.free)
        assert self.data.sensitive is not None
        return np.concatenate([free, self.data.sensitive], axis=1)


def measure_epochs(repeats: int, rows: int | None, preset: str) -> SpeedReport:
    """Let all contenders that are installed take turns, in this process."""
    work = Work.of(preset, rows)
    unread = replace(work, data=TrainingData(work.data.free, work.data.classes))
    turns: dict[str, tuple[float, Turn]] = {
        "plain": _ours(Plain(), Response("none"), work),
        "fair": _ours(Exact(), Response("expected"), unread),
        "sklearn": _scikit_learn(work),
    }
    if preset != "paper":
        turns["bare"] = _ours(Exact(), Response("expected"), unread.bare)
    try:
        turns |= {"dataloader": _pytorch(work, loader=True), "sliced": _pytorch(work, loader=False)}
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
    ours = [name for name in OURS if name in turns]
    others = [name for name in LABELS if name in turns and name not in OURS]
    laps: dict[str, list[Lap]] = {name: [] for name in turns}
    for repeat in range(repeats):
        print(f"round {repeat + 1} of {repeats}", flush=True)
        order = ours * OUR_TURNS + others
        # Every other round backwards, so that nobody always runs in the wake of the same neighbour.
        for name in order if repeat % 2 == 0 else order[::-1]:
            laps[name].append(turns[name][1]())
    return SpeedReport(
        rows=len(work.data.free),
        columns=work.inputs.shape[1],
        hidden=work.hidden,
        batch_size=work.plan.batch_size,
        learning_rate=work.plan.learning_rate,
        repeats=repeats,
        core=timing.only_core(),
        versions=versions("jax", "torch", "scikit-learn"),
        contenders=tuple(
            Contender(name, tuple(wall for wall, _ in laps[name]), tuple(own for _, own in laps[name]), turns[name][0])
            if name in turns
            else Contender(name, problem=MISSING)
            for name in LABELS
            if name in turns or name not in OURS
        ),
        preset=preset,
        optimiser=work.plan.optimiser,
    )


def _ours(start: Start, response: Response, work: Work) -> tuple[float, Turn]:
    """The seconds of the warm-up epoch, and the turns that follow; so for all contenders."""
    data, plan, embedding = work.data, work.plan, work.embedding
    free_width = data.free.shape[1] if embedding is None else embedding.width
    network = draw(start, free_width=free_width, sensitive_width=1, hidden=work.hidden, outputs=1, seed=0)
    warm_up = train(network, data, response, plan, embedding=embedding)
    (network,) = warm_up.members

    def turn() -> Lap:
        nonlocal network, plan
        plan, watch = replace(plan, epochs=2, seed=plan.seed + 1), Stopwatch()
        (network,) = train(network, data, response, plan, callbacks=(watch,), embedding=embedding).members
        return watch.laps()[0]  # the second epoch: the first one's clock would have to start within `train`

    return warm_up.history[0].seconds, turn


def _pytorch(work: Work, *, loader: bool) -> tuple[float, Turn]:
    """The loop of PyTorch's tutorials; or, to be fair to it, one that slices the tensors itself."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    plan = work.plan
    inputs = torch.from_numpy(work.inputs)
    targets = torch.from_numpy(work.data.classes.astype(np.float32))
    widths = (inputs.shape[1], *work.hidden)
    layers: list[Any] = []
    for i, width in enumerate(widths[1:]):
        layers += [torch.nn.Linear(widths[i], width), torch.nn.ReLU()]
        layers += [torch.nn.Dropout(plan.dropout)] if plan.dropout else []
    model = torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], 1))
    optimiser: Any = torch.optim.SGD(model.parameters(), lr=plan.learning_rate)
    if plan.optimiser == "adamw":
        optimiser = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay)
    averaged: Any = None
    if plan.averaging:
        kept = torch.optim.swa_utils.get_ema_multi_avg_fn(plan.averaging)
        averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=kept)
    loss_of = torch.nn.BCEWithLogitsLoss()
    table = torch.utils.data.TensorDataset(inputs, targets)
    batches = torch.utils.data.DataLoader(table, batch_size=plan.batch_size, shuffle=True)

    def sliced() -> Iterator[tuple[Any, Any]]:
        for rows in torch.randperm(len(inputs)).split(plan.batch_size):
            yield inputs[rows], targets[rows]

    def epoch() -> None:
        for some_inputs, some_targets in batches if loader else sliced():
            optimiser.zero_grad()
            loss_of(model(some_inputs)[:, 0], some_targets).backward()
            optimiser.step()
            if averaged is not None:
                averaged.update_parameters(model)

    return timed(epoch)[0], lambda: timed(epoch)


def _scikit_learn(work: Work) -> tuple[float, Turn]:
    """It knows neither dropout nor running means."""
    from sklearn.neural_network import MLPClassifier

    # In float32, which is the faster of the two it knows.
    inputs, classes = work.inputs, work.data.classes
    model = MLPClassifier(
        work.hidden, solver="sgd" if work.plan.optimiser == "sgd" else "adam", alpha=0.0,
        batch_size=min(work.plan.batch_size, len(inputs)), learning_rate_init=work.plan.learning_rate,
        momentum=0.0, nesterovs_momentum=False, random_state=0,
    )  # fmt: skip
    first = timed(lambda: model.partial_fit(inputs, classes, classes=[0, 1]))[0]  # it also draws the weights
    # One call is one epoch, with a check of the table before it.
    return first, lambda: timed(lambda: model.partial_fit(inputs, classes))


if __name__ == "__main__":
    timing.serve({"epochs": measure_epochs}, sys.argv[1:])
