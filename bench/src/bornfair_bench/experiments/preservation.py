"""Which training keeps a fair network fair? The tables of docs/theory.md §4, §5 and §6, measured anew on census.

Each row is a start of the first layer and a response (paper Algorithm 1). The last columns count twins who are decided
differently among people who could exist, found by `boundary_attacks`: a stable test set is not yet a fair network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.checks import choice, number, whole
from bornfair.core.clock import Say
from bornfair.models.metrics import accuracy, same_for_all
from bornfair.models.network.model import Model, scores_under_every_code
from bornfair.models.network.network import Network, decisions
from bornfair.people.encoding import Encoding
from bornfair.training.algorithm import TrainingData, train
from bornfair.training.epochs import Plan
from bornfair.training.response import Response
from bornfair.training.start import Bernoulli, Exact, NearZero, Plain, SharedScalar, Start, draw
from bornfair.verification.decide import decide
from bornfair_bench.experiments.boundary_attacks import Twins, attack_integers, attack_reals
from bornfair_bench.experiments.methods import Split
from bornfair_bench.experiments.printout import Columns, Printout, of_rows
from bornfair_bench.experiments.runs import silent

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
    "shared_scalar/expected": Row(SharedScalar(), Response("expected"), "one number, 1e-10"),
    "shared_uniform/expected": Row(SharedScalar(draw="uniform"), Response("expected"), "one number, drawn"),
    "exact/sampled_16": Row(Exact(), Response("sampled", draws=16), "exactly 0"),
    "exact/sampled_64": Row(Exact(), Response("sampled", draws=64), "exactly 0"),
    "exact/expected_gamma_1": Row(Exact(), Response("expected", 1.0), "exactly 0"),
    "exact/population_gamma_1": Row(Exact(), Response("population", 1.0), "exactly 0"),
    "exact/population_sampled_gamma_1": Row(Exact(), Response("population_sampled", 1.0), "exactly 0"),
}
"""All rows by name; with γ = 0 and one draw where the name says nothing else."""

TABLES: dict[str, tuple[str, ...]] = {
    "starts": (
        "plain/none", "plain/expected", "near_zero/expected", "bernoulli/expected", "near_zero/sampled",
        "exact/sampled", "exact/expected",
    ),
    "authors": ("shared_scalar/expected", "shared_uniform/expected"),
    "draws": ("exact/sampled", "exact/sampled_16", "exact/sampled_64", "exact/expected"),
    "population": ("exact/expected_gamma_1", "exact/population_gamma_1", "exact/population_sampled_gamma_1"),
}  # fmt: skip
"""The tables of docs/theory.md: starts and authors in §5, draws in §6, population in §4."""

SEED: Columns = (("seed", lambda row: str(row.seed)),)
VERIFIER: Columns = (("verifier", lambda row: row.verdict),)
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
    verdict: str | None
    """What the verifier says of the trained network, in float32 over the whole domain; None if it was not asked."""
    training_seconds: float = field(compare=False)
    seconds: float = field(compare=False)

    @property
    def twins(self) -> tuple[Twins, ...]:
        return tuple(pair for pair in (self.real_twins, self.integer_twins) if pair is not None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def report(*, say: Say, **choices: Any) -> Printout:
    outcomes = run(say=say, **choices)
    several = len({o.seed for o in outcomes}) > 1
    asked = any(o.verdict is not None for o in outcomes)
    columns = (*(SEED if several else ()), *COLUMNS[:-1], *(VERIFIER if asked else ()), *COLUMNS[-1:])
    told = [(o, o.integer_twins) for o in outcomes if o.integer_twins is not None]
    sentences = [line for o, twins in told for line in ("", f"{o.start}, {o.response}: {twins}")]
    title = "Census, sensitive: sex. Twins with different decisions found"
    return of_rows(title, columns, outcomes, numbers_from=3 if several else 2, sentences=sentences)


def run(
    *,
    table: str = "starts",
    seed: int = 0,
    seeds: int = 1,
    epochs: int = 100,
    people: int = 300,
    crossings: int = 250,
    verify: float = 0.0,
    rows: Sequence[str] | None = None,
    say: Say = silent,
) -> list[Attacked]:
    """Train and attack each row (of a table, or those named) for each seed from `seed` on. Everything but the times
    follows from the seed. `verify`: seconds for the verifier, beside the attacks.
    """
    choice("table", table, TABLES)
    names = list(rows or TABLES[table])
    for name in names:
        choice("row", name, ROWS)
    whole("seed", seed, 0)
    whole("seeds", seeds, 1)
    outcomes: list[Attacked] = []
    for one in range(seed, seed + seeds):
        census = Census.prepare(one)
        for name in names:
            say(f"{name}, seed {one} ({len(outcomes) + 1} of {len(names) * seeds})")
            plan = Plan(epochs=epochs, batch_size=64, optimiser="sgd", learning_rate=0.01, seed=one)
            outcomes.append(measure(name, census, plan, people=people, crossings=crossings, verify=verify))
    return sorted(outcomes, key=lambda outcome: names.index(outcome.name))


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
    verify: float = 0.0,
    hidden: str | Sequence[int] = "paper",
) -> Attacked:
    """Train one row and measure all its columns."""
    whole("people", people, 0)
    number("verify", verify, 0.0, math.inf)
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
        response=_told(ROWS[name].response),
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
        verdict=decide(Model(network, encoding), timeout=verify, seed=plan.seed).answer if verify else None,
        training_seconds=trained - began,
        seconds=time.perf_counter() - began,
    )


def _told(response: Response) -> str:
    """The response in a cell of the table.

    >>> _told(Response("sampled", draws=16)), _told(Response("population", 1.0))
    ('sampled, 16 draws', 'population, γ = 1')
    """
    draws = f", {response.draws} draws" if response.draws > 1 else ""
    return response.mode.replace("_", ", ") + (f", γ = {response.gamma:g}" if response.gamma else "") + draws


def _classes(income: pd.Series) -> np.ndarray:
    return (income == ">50K").to_numpy().astype(np.int64)
