"""Networks: whether twins with different decisions exist, and how far apart the scores of twins can be.

What a solver proposes is decided, or measured, exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain, plain_level
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores
from bornfair.models.network.model import Model
from bornfair.models.network.structural import confirm_encoded
from bornfair.models.rounding import float_below
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value, unknown_column
from bornfair.people.twins.versions import Versions, require_flip_only
from bornfair.verification.milp.encoding import MOST_VALUES, Copies, reaches, write_copies, write_margin
from bornfair.verification.milp.program import (
    CLOSE,
    Box,
    Claim,
    Cutoff,
    Hunt,
    NoProgram,
    Program,
    ProgramTree,
    ask_highs,
    bound_largest,
    search,
)
from bornfair.verification.replay import exact_input, falsified, replay
from bornfair.verification.twin_question import Person, Sensitive, TwinQuestion, unknown_to_solvers

ENGINE = "milp"
EXHAUSTIVE_WORK = 4_000_000  # products of exact numbers: a few seconds
MOST_ROWS = 20_000  # of a table, looked at; drawn at random where there are more
MET = 1e-6  # relative distance of what is found and what is proven that counts as none
NEAR_ENOUGH = 1e-9  # relative distance to the cutoff at which a box is given up; its bound still counts
STRETCH = 40  # tiny changes are seen through a lens: their cost is multiplied by up to 2^40


def decide_by_milp(model: Model, *, timeout: Timeout = 60.0, seed: int = 0, say: Say | None = None) -> Verdict:
    """Twins with different decisions (replayed), a proof that there are none, or why neither was found in time."""
    clock = clock_of(timeout, say)
    verdict = confirm_encoded(model.network, model.encoding)
    refused = refusal(model)
    if not verdict and refused is not None:
        verdict = undecided(ENGINE, refused)
    elif not verdict:
        verdict = _searched(model, clock, seed, verdict.reason)
    return replace(verdict, seconds=clock.spent)


def _searched(model: Model, clock: Clock, seed: int, doubt: str) -> Verdict:
    hunt = NetworkHunt(model)

    def trees() -> list[MarginTree]:
        return [MarginTree(hunt, write_copies(hunt.question, *asked)) for asked in reaches(hunt.question, clock)]

    def all_pass() -> bool:
        return pass_everybody(model, clock, hunt.consider) and not hunt.unconfirmed

    found = search(hunt, trees, clock, seed, all_pass if exhaustible(model) else None)
    if hunt.twins is not None:
        reason = f"{hunt.by} led to these twins in {clock.spent:.2g} s; they were replayed exactly"
        return falsified(model, hunt.twins, engine=ENGINE, reason=reason)
    note = found.refused or found.claim
    if found.listed:
        return Verdict("verified", "bounds", ENGINE, ("real",), f"everybody was decided exactly; {note}", boxes=1)
    if found.proven:
        reason = f"safe bounds of {found.nodes:,} linear programs leave no margin for twins"
        return Verdict("verified", "bounds", ENGINE, ("real",), reason, boxes=found.nodes)
    return undecided(ENGINE, f"{note}; not confirmed rigorously: {doubt}")


def refusal(model: Model) -> str | None:
    """Why no program is written for a model, if so."""
    require_flip_only(model.encoding, "the milp engine", "use engine='bounds'")
    if not model.network.function.exact:
        return f"a mixed-integer program needs a relu network, found {model.network.activation}; use another engine"
    if model.network.broken_layer is not None:
        return "the network holds NaN or infinity"
    if (unknown := unknown_to_solvers(model)) is not None:
        return unknown
    size = model.domain.sensitive_space.size
    if size > MOST_VALUES:
        return f"there are {size:,} sensitive values, and a program chooses from {MOST_VALUES:,} at most"
    return None


def clock_of(timeout: Timeout, say: Say | None) -> Clock:
    if not isinstance(timeout, Clock) and not timeout > 0:
        raise InputError(f"timeout is {timeout}; give a number of seconds above 0.")
    return Clock.of(timeout, say)


# --- programs ---


class NetworkTree(ProgramTree):
    """A program about two copies of a network. Boxes are cut at a ReLU, or at a whole number."""

    hunt: NetworkHunt

    def __init__(self, hunt: NetworkHunt, copies: Copies, program: Program, cost: np.ndarray, unit: float) -> None:
        super().__init__(hunt, program, cost, unit)
        self.copies, self.name = copies, f"values {copies.pair}"

    def halves(self, lower: np.ndarray, upper: np.ndarray, solution: np.ndarray | None) -> Sequence[Box]:
        free = [phase for phase in self.copies.phases if lower[phase[0]] < upper[phase[0]]]
        if solution is None:
            wrong = [upper[z] - lower[z] for _, z, _ in free]
        else:
            wrong = [solution[a] - max(solution[z], 0.0) for _, z, a in free]
        if wrong and max(wrong) > CLOSE:
            on, z, a = free[int(np.argmax(wrong))]
            off_low, off_high, on_low = lower.copy(), upper.copy(), lower.copy()
            off_high[[on, a]], off_high[z] = 0.0, min(upper[z], 0.0)
            on_low[on], on_low[z] = 1.0, max(lower[z], 0.0)
            return [(off_low, off_high), (on_low, upper)]
        whole = self.program.integer & (lower < upper)
        whole[[on for on, _, _ in self.copies.phases]] = False
        if not whole.any():
            return []
        point = 0.5 * (lower + upper) if solution is None else solution
        apart = np.where(whole, np.abs(point - np.round(point)), 0.0)
        at = int(np.argmax(apart if solution is not None else np.where(whole, upper - lower, 0.0)))
        if solution is not None and apart[at] <= CLOSE:
            return []
        cut = math.floor(min(max(point[at], lower[at]), upper[at] - 0.5))
        low, high = lower.copy(), upper.copy()
        high[at], low[at] = cut, cut + 1.0
        return [(lower, high), (low, upper)]


class MarginTree(NetworkTree):
    """Do two copies decide differently, by how large a margin?"""

    def __init__(self, hunt: NetworkHunt, copies: Copies) -> None:
        margin = write_margin(copies.draft, copies.sums[-1])
        program = copies.draft.program()
        super().__init__(hunt, copies, program, program.cost([(margin, -1.0)]), math.ldexp(1.0, copies.exponent))

    def examine(self, solution: np.ndarray) -> bool:
        return self.hunt.consider(*self.copies.twins(solution))

    def claim(self, seconds: float, seed: int, cutoff: Cutoff = lambda: math.inf) -> Claim:
        found = super().claim(seconds, seed, cutoff)
        if self.hunt.twins is None and self.copies.sums[-1].shape[1] == 1 and found.best <= 1e-6:
            # The best margin is 0: somebody may have f(u, i) > 0 = f(u, j), so f(u, i) alone is maximised.
            first, second = (int(column) for column in self.copies.sums[-1][:, 0])
            upper = self.program.upper.copy()
            upper[second] = min(upper[second], 0.0)
            tied = replace(self.program, upper=upper)
            ask_highs(tied, tied.cost([(first, -1.0)]), seconds / 3, seed, self.examine)
        return found


# --- people ---

Apart = tuple[float, int, int]
"""How far apart scores are, rounded down, and the positions of the largest and the smallest."""


class NetworkHunt(Hunt):
    """Twins with different decisions, or the twins furthest apart."""

    def __init__(self, model: Model, enough: float | None = None) -> None:
        super().__init__()
        self.enough = enough  # whether changes are larger is all that is asked, unless None
        self.model, self.question = model, TwinQuestion.of(model)
        self.unconfirmed = False  # somebody's twins differ exactly, but not to the software of an imported original
        self.low = 0.0
        self.best: tuple[Person, list[Sensitive], int] | None = None
        """The person and the sensitive values of the furthest twins, and the output in which they differ so much."""

    @property
    def wanted(self) -> float:
        """Bounds below this need not be lowered."""
        return max(self.low, self.enough or 0.0)

    @property
    def answered(self) -> bool:
        return self.enough is not None and self.low > self.enough

    def consider(self, person: Person, values: Sequence[Sensitive]) -> bool:
        """Whether somebody's versions are decided differently; they are kept."""
        return self.once(_key(person, values), lambda: self._told_apart(person, values))

    def _told_apart(self, person: Person, values: Sequence[Sensitive]) -> bool:
        decided = exact_decisions(self.model.network, self._inputs(person, values))
        if (decided == decided[0]).all():
            return False
        pair = [values[0], values[int(np.argmax(decided != decided[0]))]]
        found = self.question.replayed([person, person], pair)
        self.twins = found or self.twins
        self.unconfirmed = self.unconfirmed or found is None
        return found is not None

    def measure(self, person: Person, values: Sequence[Sensitive]) -> bool:
        """Keep somebody if no twins found before are further apart. Never says that it is enough."""
        return self.once(_key(person, values), lambda: self._measured(person, values))

    def _measured(self, person: Person, values: Sequence[Sensitive]) -> bool:
        for output, scores in enumerate(exact_scores(self.model.network, self._inputs(person, values)).T):
            low, most, least = self.apart(scores)
            if low > self.low:
                self.low, self.best = low, (dict(person), [values[most], values[least]], output)
        return False

    def apart(self, scores: Sequence[Fraction]) -> Apart:
        most, least = (pick(range(len(scores)), key=scores.__getitem__) for pick in (max, min))
        return float_below(scores[most] - scores[least]), most, least

    def _inputs(self, person: Person, values: Sequence[Sensitive]) -> np.ndarray:
        versions = Versions(self.model.domain).at(values)
        return np.stack([exact_input(self.model.encoding, person, i, versions) for i in range(len(values))])

    def furthest(self) -> list[dict[str, Value]] | None:
        """The furthest twins, if anybody's scores change."""
        if self.best is None:
            return None
        person, pair, _ = self.best
        return [dict(twin) for twin in replay(self.model, person, [0, 1], Versions(self.model.domain).at(pair)).people]


def _key(person: Person, values: Sequence[Sensitive]) -> Any:
    return tuple(person.values()), tuple(values)


# --- everybody ---


def exhaustible(model: Model) -> bool:
    """Whether everybody can be listed and decided exactly in seconds."""
    levels = list(map(len, _seen_levels(model.encoding)))
    if model.encoding.sensitive.spans or not all(levels):
        return False
    people = math.prod(levels)
    return people * len(model.encoding.codes) * model.network.parameters <= EXHAUSTIVE_WORK


def _seen_levels(encoding: Encoding) -> list[Sequence[Value]]:
    """The values of each free feature that the network may tell apart; none where they cannot be listed."""
    found = list[Sequence[Value]]()
    for feature in encoding.domain.free_features:
        if not isinstance(feature, NUMERIC):
            found.append(feature.levels())
            continue
        low, high = encoding.number(feature.name).seen
        found.append((low,) if low == high else range(low, high + 1) if feature.kind == "integer" else ())
    return found


def pass_everybody(model: Model, clock: Clock, stops: Callable[[Person, Sequence[Sensitive]], bool]) -> bool:
    """Whether everybody there is, in all versions, was looked at in time without a stop."""
    names, values = model.domain.free_names, model.domain.sensitive_space.values
    people = (dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*_seen_levels(model.encoding)))
    return not any(clock.left <= 0 or stops(person, values) for person in people)


# --- how far apart can scores be? ---


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
    """The largest possible difference of a score, or of a probability, between twins, in real arithmetic.

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
    try:
        bounds = _bounds_of_changes(hunt, clock, seed)
    except NoProgram as error:
        proven, claimed, reason = math.inf, math.inf, f"no bound: {error}"
    else:
        proven, claimed = (max(part) for part in zip(*bounds, strict=True))
        if proven > hunt.wanted * (1 + MET) and exhaustible(model) and pass_everybody(model, clock, hunt.measure):
            proven = math.nextafter(hunt.low, math.inf)
        proven, claimed = max(proven, hunt.low), max(claimed, hunt.low)
        reason = (
            "time ran out" if clock.left <= 0 else "what is left is lost to the rounding of floating-point programs"
        )
        reason = "found and proven meet" if proven <= hunt.low * (1 + MET) else reason
    if hunt.best is None and proven > 0:
        reason = f"nobody whose scores change was found; {reason}"
    elif hunt.best is None:
        reason = "proven: nobody's scores change"
    output = 0 if hunt.best is None else hunt.best[2]
    return Change(hunt.low, proven, claimed, output, hunt.furthest(), reason, clock.spent, among_rows)


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
