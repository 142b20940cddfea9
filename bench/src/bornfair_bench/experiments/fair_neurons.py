"""Which neurons of a start are fair although their inputs are not, and does a γ solve for them? (docs/theory.md §4)

The set L of the paper's Theorem 3.4 for its network and several starts, found on 256 rows of a dataset: fair for all
of these with every sensitive value, and proven fair where the weights alone show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bornfair import datasets
from bornfair.core.checks import whole
from bornfair.core.clock import Say
from bornfair.core.errors import NoGamma
from bornfair.people.encoding import Encoding
from bornfair.training.start import draw, parse_start
from bornfair_bench.experiments.methods import Split
from bornfair_bench.experiments.printout import Columns, Printout, of_rows
from bornfair_bench.experiments.runs import known, silent
from bornfair_bench.gamma_network import fair_neurons, solve_network

NAMES = ("census", "credit", "compas")
STARTS = (
    "near_zero", "near_zero:layers=all", "bernoulli", "bernoulli:layers=all", "shared_scalar", "exact",
)  # fmt: skip


@dataclass(frozen=True)
class Members:
    """The set L of one start."""

    dataset: str
    sensitive: str
    start: str
    seed: int
    layers: dict[int, int]
    """How many of its neurons are in each layer, counted from 1."""
    proven: int
    gamma: float | None
    reason: str

    @property
    def size(self) -> int:
        return sum(self.layers.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"size": self.size}


COLUMNS: Columns = (
    ("dataset", lambda row: f"{row.dataset} ({row.sensitive})"),
    ("start", lambda row: row.start),
    ("seed", lambda row: str(row.seed)),
    ("neurons of L", lambda row: str(row.size)),
    ("in layers", lambda row: ", ".join(f"{layer}: {count}" for layer, count in row.layers.items()) or "–"),
    ("proven fair", lambda row: str(row.proven)),
    ("γ", lambda row: "none" if row.gamma is None else f"{row.gamma:g}"),
)


def report(*, say: Say, **choices: Any) -> Printout:
    title = "The set L of Theorem 3.4: fair neurons with unfair inputs, network [64, 32, 16, 8, 4]"
    return of_rows(title, COLUMNS, run(say=say, **choices), numbers_from=2)


def run(
    *, names: Sequence[str] | None = None, starts: Sequence[str] | None = None, seeds: int = 2, say: Say = silent
) -> list[Members]:
    """Each start on each dataset for each seed."""
    whole("seeds", seeds, 1)
    found = []
    for name in known(names, NAMES, "dataset"):
        for seed in range(seeds):
            say(f"{name}, seed {seed}")
            sensitive = datasets.entry(name).sensitive[0]
            split = Split.of(name, [sensitive], seed)
            encoding = Encoding.fit(split.domain, split.X)
            free = encoding.encode(split.X, sensitive=False).free
            for start in starts or STARTS:
                network = draw(
                    parse_start(start), free_width=encoding.free_width, sensitive_width=encoding.sensitive_width,
                    hidden="paper", outputs=split.domain.outputs, seed=seed,
                )  # fmt: skip
                members = fair_neurons(network, encoding.codes, free)
                try:
                    solution = solve_network(network, encoding.codes, free)
                    gamma, reason = solution.gamma, solution.note
                except NoGamma as error:
                    gamma, reason = None, str(error)
                layers = dict(sorted(Counter(neuron.layer for neuron in members).items()))
                proven = sum(neuron.proven for neuron in members)
                found.append(Members(name, sensitive, start, seed, layers, proven, gamma, reason))
    return found
