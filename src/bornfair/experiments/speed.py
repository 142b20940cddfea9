"""What does an epoch cost? Ours, plain and fair, beside PyTorch's and scikit-learn's, on the paper's network.

The contenders take turns in a process of their own that is pinned to one core, so that a busy moment of the machine
meets all of them alike. Only ratios of wall-clock medians are claimed: seconds belong to the machine. Processor time
stands beside them: where the two disagree, the core was lent to somebody else and the run is worth repeating.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any, Literal, get_args

import numpy as np

from bornfair import datasets
from bornfair.checks import whole
from bornfair.errors import BornfairError
from bornfair.models.network import hidden_widths
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.training.algorithm import Plan, TrainingData, train
from bornfair.training.response import Response
from bornfair.training.start import Exact, Plain, Start, draw

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


class Stopwatch:
    """Reads both clocks, the wall's and the processor's, whenever it is called.

    As a callback of `train` it is called after every epoch: its laps are the epochs from the second one on.
    """

    def __init__(self) -> None:
        self.readings: list[tuple[float, float]] = []

    def __call__(self, _: object = None) -> None:
        self.readings.append((time.perf_counter(), time.process_time()))

    def laps(self) -> list[tuple[float, float]]:
        return [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(self.readings)]


@dataclass(frozen=True)
class Contender:
    """The epochs of one contender, in the order they were run; or why there are none."""

    name: str
    seconds: tuple[float, ...] = ()
    processor: tuple[float, ...] = ()
    """Processor time of the same epochs, in seconds."""
    first: float | None = None
    """Seconds of the warm-up epoch, compilation included; not among `seconds`."""
    problem: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def fastest(self) -> float | None:
        return min(self.seconds, default=None)

    @property
    def processor_median(self) -> float | None:
        return statistics.median(self.processor) if self.processor else None

    @property
    def compilation(self) -> float | None:
        """What the warm-up epoch took beyond a median one."""
        return None if self.first is None or self.median is None else max(self.first - self.median, 0.0)


@dataclass(frozen=True)
class SpeedReport:
    """Seconds per epoch, side by side."""

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

    def to_json(self) -> dict[str, Any]:
        """All that was measured, with the medians and ratios that follow from it."""
        document = asdict(self)
        for contender, entry in zip(self.contenders, document["contenders"], strict=True):
            entry["label"] = LABELS[contender.name]
            entry |= {name: getattr(contender, name) for name in (*get_args(By), "compilation")}
        document["ratios"] = [
            {
                "ratio": str(target),
                **{by: self.ratio(target, by) for by in get_args(By)},
                "target": target.bound,
                "met": target.met(self.ratio(target)),
            }
            for target in TARGETS
        ]
        return document

    @staticmethod
    def from_json(document: dict[str, Any]) -> SpeedReport:
        known = {name: document[name] for name in SpeedReport.__dataclass_fields__}
        contenders = tuple(
            Contender(
                entry["name"], tuple(entry["seconds"]), tuple(entry["processor"]), entry["first"], entry["problem"]
            )
            for entry in document["contenders"]
        )
        return SpeedReport(**(known | {"hidden": tuple(document["hidden"]), "contenders": contenders}))

    # --- for printing ---

    def title(self) -> str:
        place = f"core {self.core} alone" if self.core is not None else "one thread asked for, process not pinned"
        return (
            f"One epoch of {self.rows:,} rows × {self.columns} columns, network {list(self.hidden)}, batch "
            f"{self.batch_size}, SGD {self.learning_rate:g}; {self.repeats} rounds, {place}; "
            f"{', '.join(f'{name} {version}' for name, version in self.versions.items())}"
        )

    def table(self) -> list[tuple[str, ...]]:
        """A line for each contender, headers first."""
        lines: list[tuple[str, ...]] = [
            ("contender", "median s", "fastest s", "processor s (median)", "epochs", "compile s")
        ]
        for contender in self.contenders:
            label = LABELS[contender.name]
            if contender.problem is not None:
                lines.append((f"{label}: {contender.problem}", "–", "–", "–", "0", "–"))
                continue
            lines.append((
                label, f"{contender.median:.4f}", f"{contender.fastest:.4f}", f"{contender.processor_median:.4f}",
                str(len(contender.seconds)), f"{contender.compilation:.2f}" if contender.name in OURS else "–",
            ))  # fmt: skip
        return lines

    def ratio_table(self) -> list[tuple[str, ...]]:
        """A line for each ratio, headers first."""
        lines: list[tuple[str, ...]] = [("ratio", "wall clock", "processor time", "fastest epochs", "target", "met")]
        for target in TARGETS:
            ratios = [self.ratio(target, by) for by in get_args(By)]
            shown = ["–" if ratio is None else f"{ratio:.3f}" for ratio in ratios]
            lines.append((str(target), *shown, target.bound, verdict(target.met(ratios[0]))))
        return lines


def run_epochs(*, repeats: int = 7, rows: int | None = None, say: Callable[[str], None] | None = None) -> SpeedReport:
    """Measure in a fresh process; `rows` trains on the first so many rows of the census only."""
    whole("repeats", repeats, 1)
    if rows is not None:
        whole("rows", rows, 2)
    settings = {"repeats": repeats, "rows": rows}
    return SpeedReport.from_json(in_own_process("bornfair.experiments.speed", settings, say))


# --- the measuring process ---


Turn = Callable[[], tuple[float, float]]
"""Trains further and says what one epoch took, set-up excluded: seconds, and seconds of the processor."""


def measure_epochs(repeats: int, rows: int | None) -> SpeedReport:
    """Let all contenders that are installed take turns, in this process."""
    data = census_rows(rows)
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
    laps: dict[str, list[tuple[float, float]]] = {name: [] for name in turns}
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
        core=only_core(),
        versions=_versions(),
        contenders=tuple(
            _contender(name, turns[name][0], laps[name]) if name in turns else Contender(name, problem=MISSING)
            for name in LABELS
        ),
    )


def _contender(name: str, first: float, laps: list[tuple[float, float]]) -> Contender:
    return Contender(name, tuple(lap[0] for lap in laps), tuple(lap[1] for lap in laps), first)


def census_rows(rows: int | None = None) -> TrainingData:
    """The training rows of the census (or the first so many), with sex in its own column."""
    dataset = datasets.load("census")
    training, _ = datasets.split(dataset, seed=0)
    encoding = Encoding.fit(Domain.infer(dataset.table, target=dataset.target, sensitive=["sex"]), training)
    seen = training.iloc[:rows]
    encoded = encoding.encode(seen)
    classes = (seen[dataset.target] == ">50K").to_numpy().astype(np.int64)
    return TrainingData(encoded.free, classes, sensitive=encoded.sensitive)


def _ours(start: Start, response: Response, data: TrainingData) -> tuple[float, Turn]:
    """The seconds of the warm-up epoch, and the turns that follow; so for all contenders."""
    network = draw(start, free_width=data.free.shape[1], sensitive_width=1, hidden="paper", outputs=1, seed=0)
    plan = Plan(epochs=1, batch_size=BATCH_SIZE, optimiser="sgd", learning_rate=LEARNING_RATE)
    warm_up = train(network, data, response, plan)
    network = warm_up.network

    def turn() -> tuple[float, float]:
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

    def step(some_inputs: Any, some_targets: Any) -> None:
        optimiser.zero_grad()
        loss_of(model(some_inputs)[:, 0], some_targets).backward()
        optimiser.step()

    def epoch() -> None:
        if loader:
            for some_inputs, some_targets in batches:
                step(some_inputs, some_targets)
        else:
            order = torch.randperm(len(inputs))
            for begin in range(0, len(order), BATCH_SIZE):
                rows = order[begin : begin + BATCH_SIZE]
                step(inputs[rows], targets[rows])

    return _timed(epoch)[0], lambda: _timed(epoch)


def _scikit_learn(data: TrainingData) -> tuple[float, Turn]:
    from sklearn.neural_network import MLPClassifier

    # In float32, which is the faster of the two it knows.
    inputs, classes = _inputs(data), data.classes
    model = MLPClassifier(
        hidden_widths("paper"), solver="sgd", alpha=0.0, batch_size=min(BATCH_SIZE, len(inputs)),
        learning_rate_init=LEARNING_RATE, momentum=0.0, nesterovs_momentum=False, random_state=0,
    )  # fmt: skip
    first = _timed(lambda: model.partial_fit(inputs, classes, classes=[0, 1]))[0]  # it also draws the weights
    # One call is one epoch, with a check of the table before it.
    return first, lambda: _timed(lambda: model.partial_fit(inputs, classes))


def _inputs(data: TrainingData) -> np.ndarray:
    assert data.sensitive is not None
    return np.concatenate([data.free, data.sensitive], axis=1)


def _timed(epoch: Callable[[], object]) -> tuple[float, float]:
    watch = Stopwatch()
    watch()
    epoch()
    watch()
    return watch.laps()[0]


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("jax", "torch", "scikit-learn"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


# --- processes ---


def in_own_process(
    module: str, settings: dict[str, Any], say: Callable[[str], None] | None = None, *, one_thread: bool = True
) -> dict[str, Any]:
    """Run `module` as a program: settings in, progress to `say`, the JSON document it prints last comes back."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}  # the contenders are compared on the same processor
    if one_thread:
        # Read when the libraries are loaded, before the process can pin itself.
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", module, json.dumps(settings | {"one_thread": one_thread})]
    result = None
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8") as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                result = json.loads(line)
            elif say is not None:
                say(line.rstrip())
        status = process.wait()
        errors.seek(0)
        complaint = errors.read().strip()
    if status or result is None:
        reason = complaint.splitlines()[-1] if complaint else "without saying why"
        raise BornfairError(
            f"the measuring process ended with status {status}: {reason}; to see all of it run "
            f"{' '.join(command[:3])} '{command[3]}'"
        )
    return result


def serve(measurements: dict[str, Callable[..., Any]], arguments: Sequence[str]) -> None:
    """The other end of `in_own_process`."""
    settings = json.loads(arguments[0])
    if settings.pop("one_thread"):
        pin_to_one_core()
    report = measurements[settings.pop("measure", "epochs")](**settings)
    print(json.dumps(report.to_json()), flush=True)


def pin_to_one_core() -> None:
    """Let this process use one core; before XLA does any work, for then it counts the cores it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the last: interrupts tend to go to the first


def only_core() -> int | None:
    """The core this process is pinned to, if it is."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    return next(iter(cores)) if len(cores) == 1 else None


def verdict(met: bool | None) -> str:
    return "–" if met is None else "yes" if met else "NO"


if __name__ == "__main__":
    serve({"epochs": measure_epochs}, sys.argv[1:])
