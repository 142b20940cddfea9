"""Which training keeps a fair network fair? The table of docs/theory.md §3, measured anew on census.

Each row is a start of the first layer and a response (paper Algorithm 1). The last columns count twins who are decided
differently among people who could exist, found by `boundary_attacks`: a stable test set is not yet a fair network.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bornfair.checks import choice, whole
from bornfair.experiments.boundary_attacks import Twins, attack_integers, attack_reals
from bornfair.experiments.methods import Split
from bornfair.experiments.printout import Columns, Printout, of_rows
from bornfair.experiments.runs import Say, silent
from bornfair.models.metrics import accuracy, same_for_all
from bornfair.models.model import scores_under_every_code
from bornfair.models.network import Network, decisions
from bornfair.people.encoding import Encoding
from bornfair.training.algorithm import Plan, TrainingData, train
from bornfair.training.response import Response
from bornfair.training.start import Bernoulli, Exact, NearZero, Plain, Start, draw

SWEPT = "capital-gain"  # the column of which the integer attack tries every whole number


@dataclass(frozen=True)
class Row:
    """A start of the first layer, the response it is trained with, and how the table calls the start."""

    start: Start
    response: Response
    label: str


ROWS: dict[str, Row] = {
    "plain/none": Row(Plain(), Response("none"), "plain"),
    "plain/expected": Row(Plain(), Response("expected"), "plain"),
    "near_zero/expected": Row(NearZero(1e-10), Response("expected"), "near zero, ±1e-10"),
    "bernoulli/expected": Row(Bernoulli(-10.0), Response("expected"), "near zero, ±e^-10"),
    "near_zero/sampled": Row(NearZero(1e-10), Response("sampled"), "near zero, ±1e-10"),
    "exact/sampled": Row(Exact(), Response("sampled"), "exactly 0"),
    "exact/expected": Row(Exact(), Response("expected"), "exactly 0"),
}
"""The rows of the table by name; all of them with γ = 0."""

COLUMNS: Columns = (
    ("first-layer start", lambda row: row.start),
    ("response", lambda row: row.response),
    ("accuracy %", lambda row: f"{100 * row.accuracy:.2f}"),
    ("stable %", lambda row: f"{100 * row.flip_stable:.2f}"),
    ("max change", lambda row: f"{row.max_logit_change:.1e}" if row.max_logit_change else "0"),
    ("real", lambda row: f"{row.real_unfair}/{row.real_tried}"),
    ("integer", lambda row: f"{row.integer_unfair}/{row.integer_tried}"),
    ("s", lambda row: f"{row.seconds:.0f}"),
)


@dataclass(frozen=True)
class Attacked:
    """One row of the table, measured. Times are left out when outcomes are compared."""

    name: str
    start: str
    response: str
    seed: int
    epochs: int
    accuracy: float
    flip_stable: float
    """Share of test people whose decision survives changing the sensitive value."""
    max_logit_change: float
    """The most such a change moves a test person's logit, in float32 as shipped."""
    max_sensitive_weight: float
    """The largest |V|, the first-layer weights that read the sensitive codes."""
    real_unfair: int
    """Crossings at which exact arithmetic confirms twins decided differently."""
    real_suspected: int
    """Crossings at which float64 finds them; all of these are put to exact arithmetic."""
    real_tried: int
    integer_unfair: int
    integer_tried: int
    real_twins: Twins | None
    """The first twins confirmed, to look at."""
    integer_twins: Twins | None
    training_seconds: float = field(compare=False)
    seconds: float = field(compare=False)

    @property
    def twins(self) -> tuple[Twins, ...]:
        return tuple(pair for pair in (self.real_twins, self.integer_twins) if pair is not None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(*, say: Say, **choices: Any) -> Printout:
    outcomes = run(say=say, **choices)
    told = [(o, o.integer_twins) for o in outcomes if o.integer_twins is not None]
    sentences = [line for o, twins in told for line in ("", f"{o.start}, {o.response}: {twins}")]
    title = "Census, sensitive: sex. Twins with different decisions found"
    return of_rows(title, COLUMNS, outcomes, numbers_from=2, sentences=sentences)


def run(
    *,
    seed: int = 0,
    epochs: int = 100,
    people: int = 300,
    crossings: int = 250,
    rows: Sequence[str] | None = None,
    say: Say = silent,
) -> list[Attacked]:
    """Train and attack each row (all, or those named). Everything but the times follows from the seed."""
    names = list(ROWS) if rows is None else list(rows)
    for name in names:
        choice("row", name, ROWS)
    census = Census.prepare(seed)
    outcomes = []
    for i, name in enumerate(names):
        say(f"{name} ({i + 1} of {len(names)})")
        plan = Plan(epochs=epochs, batch_size=64, optimiser="sgd", learning_rate=0.01, seed=seed)
        outcomes.append(measure(name, census, plan, people=people, crossings=crossings))
    return outcomes


@dataclass(frozen=True, eq=False)
class Census:
    """The census made ready: sex is sensitive, the domain is that of the whole table."""

    encoding: Encoding
    training: TrainingData
    test: pd.DataFrame
    truth: np.ndarray

    @staticmethod
    def prepare(seed: int, training_rows: int | None = None) -> Census:
        """Split and encode; with `training_rows` the network gets to see only so many rows."""
        whole("seed", seed, 0)
        split = Split.of("census", ["sex"], seed)
        encoding = Encoding.fit(split.domain, split.X)
        encoded = encoding.encode(split.X.iloc[:training_rows])
        data = TrainingData(
            encoded.free,
            _classes(split.y.iloc[:training_rows]),
            sensitive=encoded.sensitive,
            true_index=encoding.sensitive_index(encoded),
            codes=split.domain.sensitive_space.codes,
        )
        return Census(encoding, data, split.people, _classes(split.truth))


def train_row(name: str, census: Census, plan: Plan, *, hidden: str | Sequence[int] = "paper") -> Network:
    """The trained network of a row. Its start is not confirmed to be fair: `plain` is not, and that is the point."""
    row, encoding = ROWS[name], census.encoding
    start = draw(
        row.start,
        free_width=encoding.free_width,
        sensitive_width=encoding.sensitive_width,
        hidden=hidden,
        outputs=1,
        seed=plan.seed,
    )
    return train(start, census.training, row.response, plan).network


def measure(
    name: str,
    census: Census,
    plan: Plan,
    *,
    people: int = 300,
    crossings: int = 250,
    hidden: str | Sequence[int] = "paper",
) -> Attacked:
    """Train one row and measure all its columns."""
    whole("people", people, 0)
    whole("crossings", crossings, 0)
    began = time.perf_counter()
    network, encoding, test = train_row(name, census, plan, hidden=hidden), census.encoding, census.test
    trained = time.perf_counter()
    encoded = encoding.encode(test)
    scores = scores_under_every_code(network, encoded.free, encoding.codes)
    decided, own = decisions(scores), encoding.sensitive_index(encoded)
    reals = attack_reals(network, encoding, test, most=crossings, seed=plan.seed)
    chosen = np.random.default_rng([plan.seed, 32]).permutation(len(test))[:people]
    integers = attack_integers(network, encoding, test.iloc[chosen], column=SWEPT)
    return Attacked(
        name=name,
        start=ROWS[name].label,
        response=ROWS[name].response.mode,
        seed=plan.seed,
        epochs=plan.epochs,
        accuracy=accuracy(census.truth, decided[own, np.arange(len(test))]),
        flip_stable=float(np.mean(same_for_all(decided))),
        max_logit_change=float(np.max(np.ptp(scores, axis=0))),
        max_sensitive_weight=float(np.abs(network.sensitive_weights(encoding.free_width)).max()),
        real_unfair=reals.unfair,
        real_suspected=reals.suspected,
        real_tried=reals.tried,
        integer_unfair=integers.unfair,
        integer_tried=integers.tried,
        real_twins=next(iter(reals.twins), None),
        integer_twins=next(iter(integers.twins), None),
        training_seconds=trained - began,
        seconds=time.perf_counter() - began,
    )


def _classes(income: pd.Series) -> np.ndarray:
    return (income == ">50K").to_numpy().astype(np.int64)
