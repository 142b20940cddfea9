"""What do more workers gain? Boxes per second of a measurement that one process makes, and that several share.

Both bound the same boxes and give the same answer. On a machine that others use, seconds tell little: the best of
several rounds counts, and beside it stands what processor seconds foresee for cores that nobody else uses.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from bornfair.core.clock import Say
from bornfair.models.network.model import Model
from bornfair.models.network.network import Layer, Network
from bornfair.parallel import ALONE, Workers
from bornfair.people.columns import Scale
from bornfair.people.domain import Domain
from bornfair.people.encoding import Encoding
from bornfair.people.features import BooleanFeature, IntegerFeature
from bornfair.quantification.measure import shares_of
from bornfair_bench.experiments.printout import Columns, Printout, Table, lines
from bornfair_bench.experiments.runs import silent

WANTED = 0.8  # of the boxes per second that as many workers could bound if nothing were lost
HIDDEN = (64, 32, 16, 8, 4)
FREE = 12
LEVELS = 100


@dataclass(frozen=True)
class Shared:
    """One measurement, by so many workers."""

    workers: int
    boxes: int
    seconds: float
    tasks: int
    of_workers: float
    """Processor seconds of the tasks that workers did."""
    own: float
    """Processor seconds of the process that asked."""
    longest: float
    """Processor seconds from beginning to end if nobody else used the cores: of each round of tasks those of the worker
    who ends last, and between rounds those of the process that asks.
    """
    undecided: float

    @property
    def boxes_per_second(self) -> float:
        return self.boxes / self.seconds

    @property
    def processor(self) -> float:
        """Of all of them; of one who works alone, tasks are its own."""
        return self.own + (self.of_workers if self.workers > 1 else 0.0)


COLUMNS: Columns = (
    ("workers", lambda one: str(one.workers)),
    ("boxes", lambda one: f"{one.boxes:,}"),
    ("seconds", lambda one: f"{one.seconds:.2f}"),
    ("boxes/s", lambda one: f"{one.boxes_per_second:,.0f}"),
    ("tasks", lambda one: f"{one.tasks:,}"),
    ("processor s, workers", lambda one: f"{one.of_workers:.2f}"),
    ("processor s, own", lambda one: f"{one.own:.2f}"),
    ("foreseen s", lambda one: f"{one.longest:.2f}"),
)


class _Counted:
    """Workers of whom it is counted what they do."""

    def __init__(self, workers: Workers) -> None:
        self.workers, self.tasks, self.seconds, self.longest = workers, 0, 0.0, 0.0
        self._ordered, workers.ordered = workers.ordered, self._count  # type: ignore[assignment, method-assign]

    def _count(self, *asked: Any) -> Any:
        busy = [0.0] * self.workers.jobs
        for found in self._ordered(*asked):
            spent = getattr(found, "processor", 0.0)
            self.tasks, self.seconds = self.tasks + 1, self.seconds + spent
            busy[busy.index(min(busy))] += spent  # whoever is free first takes the next
            yield found
        self.longest += max(busy)

    def close(self) -> None:
        del self.workers.ordered


def run(
    *, jobs: int = 2, cluster: str | None = None, boxes: int = 40_000, rounds: int = 3, seed: int = 0,
    say: Say = silent,
) -> tuple[Shared, Shared]:  # fmt: skip
    """The best round of one process, and of so many workers, who take turns."""
    model = synthetic(seed)
    best: dict[int, Shared] = {}
    with Workers.of(None if cluster else jobs, cluster) as workers:
        _measured(model, workers, 500, seed)  # everybody is there, and knows the work
        for turn in range(rounds):
            for who in (Workers(), workers):
                found = _measured(model, who, boxes, seed)
                say(f"round {turn + 1} of {rounds}: {found.workers} bound {found.boxes_per_second:,.0f} boxes/s")
                if found.workers not in best or found.seconds < best[found.workers].seconds:
                    best[found.workers] = found
        return best[ALONE.jobs], best[workers.jobs]


def _measured(model: Model, workers: Workers, boxes: int, seed: int) -> Shared:
    counted = _Counted(workers)
    began, own = time.perf_counter(), time.process_time()
    found = shares_of(model, timeout=36_000.0, most_boxes=boxes, samples=1000, most_samples=0, jobs=workers, seed=seed)
    spent, own = time.perf_counter() - began, time.process_time() - own
    counted.close()
    longest = own if workers.jobs == 1 else own + counted.longest
    return Shared(workers.jobs, found.boxes or 0, spent, counted.tasks, counted.seconds, own, longest, found.undecided)


def synthetic(seed: int = 0) -> Model:
    """The paper's network with random weights, over whole numbers and one sensitive boolean."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(FREE)]
    numbers = tuple(IntegerFeature(name=name, low=0, high=LEVELS - 1) for name in names)
    people = Domain(features=(*numbers, BooleanFeature(name="group")), sensitive=("group",))
    widths = (FREE + 1, *HIDDEN, 1)
    layers = tuple(
        Layer(rng.normal(size=(after, before)) * np.sqrt(2 / before), 0.1 * rng.normal(size=after))
        for before, after in itertools.pairwise(widths)
    )
    return Model(Network(layers), Encoding(people, {name: Scale(centre=LEVELS / 2, exponent=6) for name in names}))


def report(*, say: Say, **choices: Any) -> Printout:
    alone, shared = run(say=say, **choices)
    gained = shared.boxes_per_second / alone.boxes_per_second
    efficiency, costs = gained / shared.workers, shared.processor / alone.processor
    foreseen = alone.longest / shared.longest / shared.workers
    sentences = [
        f"Efficiency: {shared.workers} workers bound {gained:.2f} times as many boxes per second as one process, "
        f"{efficiency:.2f} of all they could ({WANTED:g} is wanted). Processor seconds of all of them together: "
        f"{costs:.2f} times those of one; on cores that nobody else uses they foresee an efficiency of {foreseen:.2f}.",
        f"Both leave the same undecided: {'yes' if alone.undecided == shared.undecided else 'NO'}.",
    ]
    facts = {
        "alone": vars(alone),
        "shared": vars(shared),
        "efficiency": efficiency,
        "foreseen": foreseen,
        "processor_ratio": costs,
    }
    title = f"Boxes of the network {list(HIDDEN)} over {FREE} numbers, quantified"
    return Printout(facts, [Table(title, lines(COLUMNS, (alone, shared)), 0)], sentences)
