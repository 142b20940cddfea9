"""How far apart can the scores of twins be? Attained by twins, and bounded safely."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain, plain_level
from bornfair.models.network.model import Model
from bornfair.people.features import Value, unknown_column
from bornfair.people.twins.versions import Versions
from bornfair.verification.milp.encoding import Copies, reaches, write_copies
from bornfair.verification.milp.network import (
    NetworkHunt,
    NetworkTree,
    clock_of,
    exhaustible,
    pass_everybody,
    refusal,
)
from bornfair.verification.milp.program import NoProgram, Program
from bornfair.verification.milp.search import bound_largest

MOST_ROWS = 20_000  # of a table, looked at; drawn at random where there are more
MET = 1e-6  # relative distance of what is found and what is proven that counts as none
NEAR_ENOUGH = 1e-9  # relative distance to the cutoff at which a box is given up; its bound still counts
STRETCH = 40  # tiny changes are seen through a lens: their cost is multiplied by up to 2^40


@dataclass(frozen=True)
class RowChange:
    """The row of a table whose score differs most from a twin's, among the `rows` of it that were looked at."""

    row: Any
    low: float
    twins: list[dict[str, Value]]
    rows: int
    drawn_from: int


@dataclass(frozen=True)
class Change:
    """The largest possible difference |f(u, i) − f(u, j)| of a score between twins, in real arithmetic.

    low:         attained by `twins` (their exact scores were compared, and the difference rounded down).
    high:        proven: nobody's twins differ by more.
    solver_high: what HiGHS claims in place of `high`: a floating-point answer, not a proof.
    output:      which class's score changes that much (0 where there is one output).
    among_rows:  the same among real people, if a table was given and one of them has a twin with another score.
    """

    low: float
    high: float
    solver_high: float
    output: int
    twins: list[dict[str, Value]] | None
    reason: str
    seconds: float = 0.0
    among_rows: RowChange | None = None

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        if self.among_rows is None:
            del found["among_rows"]
        return found


def largest_change(
    model: Model,
    *,
    timeout: Timeout = 60.0,
    seed: int = 0,
    enough: float | None = None,
    say: Say | None = None,
    table: pd.DataFrame | None = None,
) -> Change:
    """How far apart the scores (logits) of twins can be: attained, proven, claimed. Ends early when the two meet, or
    are on one side of what is `enough`.

    table: real people; the one whose score changes most is shown beside.
    """
    clock, refused = clock_of(timeout, say), refusal(model)
    if refused is not None:
        raise InputError(f"the largest change cannot be computed: {refused}.")
    if model.ignores_sensitive:
        return Change(0.0, 0.0, 0.0, 0, None, "twins have the same scores: the sensitive weights are 0", clock.spent)
    hunt = NetworkHunt(model, enough)
    among_rows = None if table is None else _among_rows(hunt, table, seed)
    _measure_furthest(hunt, model.domain.sample(256, seed=seed))  # a start: random people
    return replace(_largest_change(hunt, clock, seed), among_rows=among_rows)


def _largest_change(hunt: NetworkHunt, clock: Clock, seed: int) -> Change:
    try:
        bounds = _bounds_of_changes(hunt, clock, seed)
    except NoProgram as error:
        return _change(hunt, math.inf, math.inf, f"no bound: {error}", clock)
    proven, claimed = (max(part) for part in zip(*bounds, strict=True))
    if proven > hunt.wanted * (1 + MET) and exhaustible(hunt.model) and pass_everybody(hunt.model, clock, hunt.measure):
        proven = math.nextafter(hunt.low, math.inf)
    proven, claimed = max(proven, hunt.low), max(claimed, hunt.low)
    why = "time ran out" if clock.left <= 0 else "what is left is lost to the rounding of floating-point programs"
    return _change(hunt, proven, claimed, "found and proven meet" if proven <= hunt.low * (1 + MET) else why, clock)


def _change(hunt: NetworkHunt, high: float, solver: float, reason: str, clock: Clock) -> Change:
    if hunt.best is None:
        found = f"nobody whose scores change was found; {reason}" if high > 0 else "proven: nobody's scores change"
        return Change(0.0, high, solver, 0, None, found, clock.spent)
    return Change(hunt.low, high, solver, hunt.best[2], hunt.furthest(), reason, clock.spent)


# --- bounds ---


def _bounds_of_changes(hunt: NetworkHunt, clock: Clock, seed: int) -> list[tuple[float, float]]:
    """Upper bounds of the change for every pair of values and every output: proven, and as HiGHS claims."""
    trees = list[ChangeTree]()
    for pair, reach in reaches(hunt.question, clock):
        copies = write_copies(hunt.question, pair, reach)
        program, most = copies.draft.program(), np.maximum(reach[-1].gap_high, 0.0).tolist()
        trees += [ChangeTree(hunt, copies, program, *output) for output in enumerate(most)]
    trees.sort(key=lambda tree: -tree.most)
    bounds = [(tree.most,) * 2 for tree in trees]
    for _ in range(2):  # the second round has what time the first has left over
        unmet = [i for i in range(len(trees)) if bounds[i][0] > hunt.wanted * (1 + MET)]
        for i, seconds in clock.shared(unmet):
            if bounds[i][0] > hunt.wanted and seconds > 0 and not hunt.answered:
                proven, claimed = bound_largest(trees[i], clock, seconds, seed)
                proven = math.nextafter(proven, math.inf)  # scaling rounds nothing but subnormal numbers
                bounds[i] = min(bounds[i][0], proven), min(bounds[i][1], claimed)
    return bounds


class ChangeTree(NetworkTree):
    """How far apart can an output of two copies be? `most` is known from bounds alone."""

    near = NEAR_ENOUGH

    def __init__(self, hunt: NetworkHunt, copies: Copies, program: Program, output: int, most: float) -> None:
        stretch = max(0, min(STRETCH, copies.exponent - math.frexp(most)[1] + 4))
        first, second = (int(column) for column in copies.sums[-1][:, output])
        cost = program.cost([(first, math.ldexp(-1.0, stretch)), (second, math.ldexp(1.0, stretch))])
        super().__init__(hunt, copies, program, cost, math.ldexp(1.0, copies.exponent - stretch))
        self.most, self.name = most, f"{self.name}, output {output}"

    def examine(self, solution: np.ndarray) -> bool:
        return self.hunt.measure(*self.copies.twins(solution))

    def cutoff(self) -> float:
        return -self.hunt.wanted / self.unit


# --- people ---


def _among_rows(hunt: NetworkHunt, table: pd.DataFrame, seed: int) -> RowChange | None:
    """The person of a table whose score changes most: found in floating point, measured exactly."""
    domain, count = hunt.model.domain, len(table)
    names = list(domain.free_names)
    for name in names:
        if name not in table.columns:
            raise InputError(unknown_column(name, [str(column) for column in table.columns]))
    chosen = np.arange(count)
    if count > MOST_ROWS:
        chosen = np.sort(np.random.default_rng([seed, 8]).permutation(count)[:MOST_ROWS])
    people = table.iloc[chosen]
    people = people[~domain.outside(people[names])]
    row, twins = _measure_furthest(hunt, people) if len(people) else None, hunt.furthest()
    if row is None or twins is None:
        return None
    return RowChange(plain(people.index[row]), hunt.low, twins, len(people), count)


def _measure_furthest(hunt: NetworkHunt, people: pd.DataFrame) -> int | None:
    """Measure those whose scores seem to change most; the position of the one who is the best so far, if any."""
    model, found = hunt.model, None
    free = model.encoding.encode(people, sensitive=False).free
    with np.errstate(all="ignore"):  # only a guess: overflow does no harm
        high, low = (np.full((len(people), model.network.outputs), end) for end in (-np.inf, np.inf))
        high_at, low_at = np.zeros((2, *high.shape), np.int64)
        for i, code in enumerate(model.encoding.codes):
            inputs = np.concatenate([free, np.broadcast_to(code, (len(free), len(code)))], axis=1)
            scores = model.network.estimated(inputs.astype(np.float64))
            high_at, low_at = np.where(scores > high, i, high_at), np.where(scores < low, i, low_at)
            high, low = np.maximum(high, scores), np.minimum(low, scores)
        gaps = np.nan_to_num(high - low)  # [people, outputs]
    values = Versions(model.domain).values
    for row in np.argsort(-gaps.max(axis=1))[:4].tolist():
        output = int(np.argmax(gaps[row]))
        person = {name: plain_level(people[name].iloc[row]) for name in model.domain.free_names}
        before = hunt.low
        hunt.measure(person, [values[int(high_at[row, output])], values[int(low_at[row, output])]])
        found = row if hunt.low > before else found
    return found
