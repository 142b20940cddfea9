"""Are the starts provably fair, and how long does it take to know? The paper's Table 1 beside ours, for every engine.

The start is the paper's network [64, 32, 16, 8, 4], not trained; its accuracy is that of a constant decision.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bornfair import datasets
from bornfair.core.clock import Say
from bornfair.models.metrics import accuracy
from bornfair.models.verdict import Verdict
from bornfair.people.encoding import Encoding
from bornfair.proof.bundle import FairModel
from bornfair.questions import verify
from bornfair.training.start import draw, parse_start
from bornfair.verification.decide import Engine
from bornfair_bench.experiments.methods import Split
from bornfair_bench.experiments.printout import Columns, Printout, of_rows
from bornfair_bench.experiments.runs import known, silent


class Published(NamedTuple):
    """A row of the paper's Table 1: Fairify on its own start, always "provably fair"."""

    partitions: int
    minutes: float
    accuracy: float


PAPER = {
    "census": Published(16_000, 38.1, 75.4),
    "bank": Published(510, 4.2, 71.0),
    "credit": Published(201, 2.3, 75.55),
    "compas": Published(14_000, 12.0, 55.6),
    "health": Published(6_400, 14.9, 68.0),
    "law": Published(13_394, 14.5, 73.7),
}
STARTS = ("near_zero", "bernoulli", "exact")
ENGINES: tuple[Engine, ...] = ("auto", "bounds", "milp", "smt")


@dataclass(frozen=True)
class Judged:
    """One start, judged by one engine."""

    dataset: str
    start: str
    engine: str
    verdict: Verdict
    accuracy: float

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"paper": self.paper._asdict()}

    @property
    def paper(self) -> Published:
        return PAPER[self.dataset]


COLUMNS: Columns = (
    ("dataset", lambda row: row.dataset),
    ("start", lambda row: row.start),
    ("engine", lambda row: row.engine if row.engine != "auto" else f"auto ({row.verdict.engine})"),
    ("result", lambda row: row.verdict.answer),
    ("parts", lambda row: f"{row.verdict.partitions:,}"),
    ("seconds", lambda row: f"{row.verdict.seconds:.3f}"),
    ("accuracy %", lambda row: f"{100 * row.accuracy:.1f}"),
    ("paper: parts", lambda row: f"{row.paper.partitions:,}"),
    ("minutes", lambda row: f"{row.paper.minutes:g}"),
    ("accuracy %", lambda row: f"{row.paper.accuracy:g}"),
)


def run(
    *,
    names: Sequence[str] | None = None,
    starts: Sequence[str] | None = None,
    engines: Sequence[Engine] | None = None,
    partitions: int | None = None,
    timeout: float = 1800.0,
    seed: int = 0,
    say: Say = silent,
) -> list[Judged]:
    """Judge a start of each kind on each dataset by each engine: the median of three rounds after one to warm up."""
    rows = []
    for name in known(names, list(PAPER), "dataset"):
        if datasets.where(name) is None and not names:
            say(f"{name} is not here and is left out; see: bornfair datasets list")
            continue
        split = Split.of(name, datasets.entry(name).sensitive[:1], seed)
        encoding = Encoding.fit(split.domain, split.X)
        for kind in starts or STARTS:
            network = draw(
                parse_start(kind), free_width=encoding.free_width, sensitive_width=encoding.sensitive_width,
                hidden="paper", outputs=split.domain.outputs, seed=seed,
            )  # fmt: skip
            model = FairModel(network, encoding)
            right = accuracy(split.truth, model.predict(split.people))
            for engine in engines or ENGINES:
                say(f"{name}, {kind}, {engine}")
                cut = partitions or PAPER[name].partitions
                rounds = 1 if engine == "smt" else 4
                asked = [
                    verify(model, engine=engine, timeout=timeout, partitions=cut, seed=seed, say=say)
                    for _ in range(rounds)
                ]
                # The first round compiles, which the paper's times do not hold either; milliseconds need more than one.
                verdict = sorted(asked[1:] or asked, key=lambda found: found.seconds)[len(asked[1:]) // 2]
                rows.append(Judged(name, kind, engine, verdict, right))
    return rows


def report(*, say: Say, **choices: Any) -> Printout:
    rows = run(say=say, **choices)
    return of_rows("Starts of the paper's network", COLUMNS, rows, numbers_from=4, sentences=ratios(rows))


def ratios(rows: Sequence[Judged]) -> list[str]:
    """How many times longer the smt engine took than the quickest other one, for each start both verified."""
    told = []
    for smt in (row for row in rows if row.engine == "smt"):
        others = [
            row.verdict.seconds
            for row in rows
            if (row.dataset, row.start) == (smt.dataset, smt.start) and row.engine != "smt" and row.verdict
        ]
        if smt.verdict and others:
            times = smt.verdict.seconds / min(others)
            told.append(
                f"{smt.dataset}, {smt.start}: smt took {times:,.0f} times as long as the quickest other engine."
            )
    return told
