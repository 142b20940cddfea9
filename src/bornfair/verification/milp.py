"""Is there a pair of twins with different decisions, and how far apart can their scores be? A second opinion by HiGHS.

A mixed-integer program (Benussi et al., IJCAI 2022) finds people; its own word is floating point and proves nothing.
What counts was replayed exactly (twins) or bounded safely (`milp_bounds`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain, plain_level
from bornfair.models.network.bounds.exact import exact_decisions, exact_scores
from bornfair.models.network.confirm import confirm_encoded
from bornfair.models.network.model import Model
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.encoding import Encoding
from bornfair.people.features import NUMERIC, Value, unknown_column
from bornfair.people.twins.versions import Versions, require_flip_only
from bornfair.verification.milp_bounds import Judge, ask_highs, branch, tightened
from bornfair.verification.milp_encoding import NoProgram, Pair, Program, reach_of, sums_of, write_program
from bornfair.verification.neuron_bounds import float_below
from bornfair.verification.replay import Replay, exact_input, falsified, replay
from bornfair.verification.twin_question import Person, Sensitive, TwinQuestion, unknown_to_solvers

ENGINE = "milp"

PAIRS = 6  # ordered pairs of S that get a program each; above, 0/1 columns choose the values
MOST_VALUES = 2_000  # of S that one program can choose from
EXHAUSTIVE_WORK = 4_000_000  # products of exact numbers: a few seconds
TIGHTENED = 80  # neurons up to which linear programs tighten the bounds of each
MOST_ROWS = 20_000  # of a table, looked at; drawn at random where there are more
MET = 1e-6  # relative distance of what is found and what is proven that counts as none
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


def decide_by_milp(model: Model, *, timeout: Timeout = 60.0, seed: int = 0, say: Say | None = None) -> Verdict:
    """Twins with different decisions (replayed), a proof that there are none, or why neither was found in time."""
    clock = _clock(timeout, say)
    verdict = confirm_encoded(model.network, model.encoding)
    refused = _refusal(model)
    if not verdict and refused is not None:
        verdict = undecided(ENGINE, refused)
    elif not verdict:
        hunt = _Hunt(model)
        verdict = _search(model, clock, seed, hunt, verdict.reason)
        if hunt.twins is not None:
            reason = f"{hunt.by} led to these twins in {clock.spent:.2g} s; they were replayed exactly"
            verdict = falsified(model, hunt.twins, engine=ENGINE, reason=reason)
    return replace(verdict, seconds=clock.spent)


def _search(model: Model, clock: Clock, seed: int, hunt: _Hunt, doubt: str) -> Verdict:
    """What to say if the hunt ends without twins."""
    try:
        questions = _programs(hunt.question, clock)
        # A short try first: small trees are faster than HiGHS' machinery, and what they end with is proven.
        unproven, nodes = _without_proof(clock, 0.15, hunt, questions)
        note = _claim_of_none(clock, seed, hunt, unproven) if unproven and hunt.twins is None else ""
    except NoProgram as error:
        unproven, nodes, note = [], 0, f"no program could be written: {error}"
    if hunt.twins is None and _exhaustible(model) and (unproven or not nodes):
        hunt.by = "a list of everybody"
        if _all_pass(model, clock, hunt.consider) and not hunt.unconfirmed:
            return _verified(f"everybody was decided exactly; {note}")
    elif hunt.twins is None and unproven:
        unproven, more = _without_proof(clock, 1.0, hunt, unproven)
        nodes += more
    if nodes and not unproven:
        return _verified(f"safe bounds of {nodes:,} linear programs leave no margin for twins", boxes=nodes)
    return undecided(ENGINE, f"{note}; not confirmed rigorously: {doubt}")


def _verified(reason: str, boxes: int = 1) -> Verdict:
    return Verdict("verified", "bounds", ENGINE, ("real",), reason, boxes=boxes)


def _without_proof(clock: Clock, share: float, hunt: _Hunt, questions: list[_Programs]) -> tuple[list[_Programs], int]:
    """The questions for which safe bounds still allow twins after that share of the time, and how many it took."""
    rest, nodes, hunt.by = [], 0, "branch and bound"
    for question, seconds in clock.shared(questions, share):
        program = question.margin
        judge, cost = hunt.judge(program, hunt.consider), _cost_of_margin(program)
        tree = branch(program, cost, seconds, judge, lambda: 0.0, all_or_nothing=True).of_everybody()
        clock.say(
            f"values {program.pair}: margin at most {-tree.bound * _unit(program):.4g} by {tree.nodes} safe bounds"
        )
        nodes += tree.nodes
        if not tree.bound > 0:
            rest.append(question)
        if hunt.twins is not None:
            break
    return rest, nodes


def _claim_of_none(clock: Clock, seed: int, hunt: _Hunt, questions: list[_Programs]) -> str:
    """Ask HiGHS about each pair of sensitive values, until the hunt has twins. Else: its claim, in words."""
    found, allowed, ended, hunt.by = -math.inf, -math.inf, True, "HiGHS"
    for question, seconds in clock.shared(questions):
        program = question.margin
        judge = hunt.judge(program, hunt.consider)
        claim = ask_highs(program, _cost_of_margin(program), 0.6 * seconds, seed, judge)
        if hunt.twins is None and program.sums[-1].shape[1] == 1 and claim.best <= 1e-6:
            # The best margin is 0: somebody may have f(u, i) > 0 = f(u, j), so f(u, i) alone is maximised.
            ask_highs(*_tie(program), 0.2 * seconds, seed, judge)
        if hunt.twins is not None:
            return ""
        best, bound = -claim.best * _unit(program), -claim.bound * _unit(program)
        clock.say(f"values {program.pair}: HiGHS' best margin {best:.4g}, bound {bound:.4g}")
        found, allowed, ended = max(found, best), max(allowed, bound), ended and claim.ended
    word = f"best margin {found:.3g}" if ended else f"best margin {found:.3g} when time ran out, at most {allowed:.3g}"
    if found > 0:
        return f"HiGHS claims twins ({word}, a floating-point answer), but replayed they are decided alike"
    return f"HiGHS found no twins ({word}, a floating-point answer)"


def _unit(program: Program) -> float:
    """What 1 means in the columns of the outputs."""
    return math.ldexp(1.0, int(program.exponents[-1][0]))


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
    clock, refused = _clock(timeout, say), _refusal(model)
    if refused is not None:
        raise InputError(f"the largest change cannot be computed: {refused}.")
    if model.ignores_sensitive:
        return Change(0.0, 0.0, 0.0, 0, None, "twins have the same scores: the sensitive weights are 0", clock.spent)
    hunt = _Hunt(model, enough)
    among_rows = None if table is None else hunt.among_rows(table, seed)
    hunt.sample(seed)
    return replace(_largest_change(model, clock, seed, hunt), among_rows=among_rows)


def _largest_change(model: Model, clock: Clock, seed: int, hunt: _Hunt) -> Change:
    try:
        bounds = _bounds_of_changes(clock, seed, hunt)
    except NoProgram as error:
        return hunt.change(math.inf, math.inf, f"no bound: {error}", clock)
    proven, claimed = (max(part) for part in zip(*bounds, strict=True))
    if proven > hunt.wanted * (1 + MET) and _exhaustible(model) and _all_pass(model, clock, hunt.measure):
        proven = math.nextafter(hunt.low, math.inf)
    proven, claimed = max(proven, hunt.low), max(claimed, hunt.low)
    why = "time ran out" if clock.left <= 0 else "what is left is lost to the rounding of floating-point programs"
    return hunt.change(proven, claimed, "found and proven meet" if proven <= hunt.low * (1 + MET) else why, clock)


def _bounds_of_changes(clock: Clock, seed: int, hunt: _Hunt) -> list[tuple[float, float]]:
    """Upper bounds of the change for every pair of values and every output: proven, and as HiGHS claims."""
    outputs = range(hunt.model.network.outputs)
    tasks = [(question, output) for question in _programs(hunt.question, clock) for output in outputs]
    tasks.sort(key=lambda task: -task[0].most(task[1]))
    bounds = [(question.most(output),) * 2 for question, output in tasks]
    for _ in range(2):  # the second round has what time the first has left over
        unmet = [i for i in range(len(tasks)) if bounds[i][0] > hunt.wanted * (1 + MET)]
        for i, seconds in clock.shared(unmet):
            found = _bound_change(*tasks[i], clock, seconds, seed, hunt)
            bounds[i] = min(bounds[i][0], found[0]), min(bounds[i][1], found[1])
    return bounds


def _bound_change(
    question: _Programs, output: int, clock: Clock, seconds: float, seed: int, hunt: _Hunt
) -> tuple[float, float]:
    """Upper bounds of f_a − f_b for one output: proven, and as HiGHS claims. What is found goes to the hunt."""
    deadline, most = clock.spent + seconds, question.most(output)
    if most <= hunt.wanted or seconds <= 0 or hunt.answered:
        return most, most
    program = question.plain
    exponent = int(program.exponents[-1][output])
    stretch = max(0, min(STRETCH, exponent - math.frexp(most)[1] + 4))
    unit = math.ldexp(1.0, exponent - stretch)
    cost = np.zeros(len(program.lower))
    cost[program.sums[-1][:, output]] = math.ldexp(-1.0, stretch), math.ldexp(1.0, stretch)
    judge = hunt.judge(program, hunt.measure)

    def reached() -> float:
        return -hunt.wanted / unit

    claim = ask_highs(program, cost, 0.5 * seconds, seed, judge, reached)
    where = f"values {program.pair}, output {output}"
    clock.say(f"{where}: found {hunt.low:.6g}, HiGHS' bound {-claim.bound * unit:.6g}")
    tree = branch(program, cost, deadline - clock.spent, judge, reached, all_or_nothing=False).of_everybody()
    proven = math.nextafter(-tree.bound * unit, math.inf)  # scaling rounds nothing but subnormal numbers
    clock.say(f"{where}: found {hunt.low:.6g}, proven {min(most, proven):.6g} by {tree.nodes} safe bounds")
    return min(most, proven), min(most, -claim.bound * unit)


def _refusal(model: Model) -> str | None:
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


# --- what is asked ---


@dataclass(frozen=True, eq=False)
class _Programs:
    """The programs about two copies that take some sensitive values: with a margin between decisions, and without."""

    margin: Program
    plain: Program
    gap_high: np.ndarray

    def most(self, output: int) -> float:
        """No twins' scores differ by more, by bounds alone."""
        return max(float(self.gap_high[output]), 0.0)


def _programs(question: TwinQuestion, clock: Clock) -> list[_Programs]:
    """Together they cover all ordered pairs of sensitive values."""
    pairs, sums, network = pairs_of_values(question), sums_of(question), question.model.network
    found = []
    for pair in pairs:
        reach = reach_of(question, sums, pair)
        if sum(network.widths[1:]) <= TIGHTENED:
            reach = tightened(question, pair, reach, min(0.15 * clock.timeout / len(pairs), clock.left))
        margin, plain = (
            write_program(question, pair, reach, layers=len(network.layers), margin=with_margin)
            for with_margin in (True, False)
        )
        found.append(_Programs(margin, plain, reach[-1].gap_high))
    return found


def pairs_of_values(question: TwinQuestion) -> list[Pair]:
    """All ordered pairs of the sensitive values of twins: one by one if they are few."""
    values = range(len(question.views))
    if len(values) * (len(values) - 1) > PAIRS:
        return [(tuple(values), tuple(values))]
    return [((i,), (j,)) for i, j in question.pairs()]


def _cost_of_margin(program: Program) -> np.ndarray:
    cost = np.zeros(len(program.lower))
    cost[program.margin] = -1.0
    return cost


def _tie(program: Program) -> tuple[Program, np.ndarray]:
    """The first copy's score as large as can be while the second's is at most 0."""
    first, second = (int(column) for column in program.sums[-1][:, 0])
    upper, cost = program.upper.copy(), np.zeros(len(program.lower))
    upper[second], cost[first] = min(upper[second], 0.0), -1.0
    return replace(program, upper=upper), cost


def _clock(timeout: Timeout, say: Say | None) -> Clock:
    if not isinstance(timeout, Clock) and not timeout > 0:
        raise InputError(f"timeout is {timeout}; give a number of seconds above 0.")
    return Clock.of(timeout, say)


# --- people ---


class _Hunt:
    """The best twins so far. Everybody a solver proposes is judged here, in exact arithmetic."""

    def __init__(self, model: Model, enough: float | None = None) -> None:
        self.enough = enough  # whether changes are larger is all that is asked, unless None
        self.model, self.question = model, TwinQuestion.of(model)
        self.twins: Replay | None = None
        self.unconfirmed = False  # somebody's twins differ exactly, but not to the software of an imported original
        self.by = ""  # who is hunting, for the report
        self.low = 0.0
        self.best: tuple[Person, list[Sensitive], int] | None = None
        self.seen: set[tuple[tuple[Value, ...], tuple[Sensitive, ...]]] = set()

    @property
    def wanted(self) -> float:
        """Bounds below this need not be lowered."""
        return max(self.low, self.enough or 0.0)

    @property
    def answered(self) -> bool:
        return self.enough is not None and self.low > self.enough

    def judge(self, program: Program, keep: Callable[[Person, Sequence[Sensitive]], bool]) -> Judge:
        """Whoever a solution stands for is looked at: `consider` or `measure`."""
        return lambda solution: keep(*program.twins(solution))

    def consider(self, person: Person, values: Sequence[Sensitive]) -> bool:
        """Whether somebody's versions are decided differently; they are kept."""
        if not self._is_new(person, values):
            return False
        decided = exact_decisions(self.model.network, self._inputs(person, values))
        if (decided == decided[0]).all():
            return False
        pair = [values[0], values[int(np.argmax(decided != decided[0]))]]
        found = self.question.replayed([person, person], pair)
        self.twins = found or self.twins
        self.unconfirmed = self.unconfirmed or found is None
        return found is not None

    def _inputs(self, person: Person, values: Sequence[Sensitive]) -> np.ndarray:
        versions = Versions(self.model.domain).at(values)
        return np.stack([exact_input(self.model.encoding, person, i, versions) for i in range(len(values))])

    def measure(self, person: Person, values: Sequence[Sensitive]) -> bool:
        """Keeps somebody if no twins found before are further apart. Never says that it is enough."""
        if not self._is_new(person, values):
            return False
        for output, scores in enumerate(exact_scores(self.model.network, self._inputs(person, values)).T):
            most, least = (pick(range(len(scores)), key=scores.__getitem__) for pick in (max, min))
            low = float_below(scores[most] - scores[least])
            if low > self.low:
                self.low, self.best = low, (dict(person), [values[most], values[least]], output)
        return False

    def _is_new(self, person: Person, values: Sequence[Sensitive]) -> bool:
        key = (tuple(person.values()), tuple(values))
        known = key in self.seen
        self.seen.add(key)
        return not known

    def sample(self, seed: int, count: int = 256) -> None:
        """A start for largest changes: random people, the furthest of them measured exactly."""
        self._measure_furthest(self.model.domain.sample(count, seed=seed))

    def among_rows(self, table: pd.DataFrame, seed: int) -> RowChange | None:
        """The person of a table whose score changes most: found in floating point, measured exactly."""
        names, count = list(self.model.domain.free_names), len(table)
        for name in names:
            if name not in table.columns:
                raise InputError(unknown_column(name, [str(column) for column in table.columns]))
        chosen = np.arange(count)
        if count > MOST_ROWS:
            chosen = np.sort(np.random.default_rng([seed, 8]).permutation(count)[:MOST_ROWS])
        people = table.iloc[chosen]
        people = people[~self.model.domain.outside(people[names])]
        row = self._measure_furthest(people) if len(people) else None
        if row is None or self.best is None:
            return None
        return RowChange(plain(people.index[row]), self.low, self._twins(), len(people), count)

    def _measure_furthest(self, people: pd.DataFrame) -> int | None:
        """Measure those whose scores seem to change most; the position of the one who is the best so far, if any."""
        model, found = self.model, None
        free = model.encoding.encode(people, sensitive=False).free
        with np.errstate(all="ignore"):  # only a guess: overflow does no harm
            high, low = (np.full((len(people), model.network.outputs), end) for end in (-np.inf, np.inf))
            high_at, low_at = np.zeros((2, *high.shape), np.int64)
            for i, code in enumerate(model.encoding.codes):
                scores = _rough_scores(model, free, code)
                high_at, low_at = np.where(scores > high, i, high_at), np.where(scores < low, i, low_at)
                high, low = np.maximum(high, scores), np.minimum(low, scores)
            gaps = np.nan_to_num(high - low)  # [people, outputs]
        values = Versions(model.domain).values
        for row in np.argsort(-gaps.max(axis=1))[:4].tolist():
            output = int(np.argmax(gaps[row]))
            person = {name: plain_level(people[name].iloc[row]) for name in model.domain.free_names}
            before = self.low
            self.measure(person, [values[int(high_at[row, output])], values[int(low_at[row, output])]])
            found = row if self.low > before else found
        return found

    def _twins(self) -> list[dict[str, Value]]:
        assert self.best is not None
        person, pair, _ = self.best
        return [dict(twin) for twin in replay(self.model, person, [0, 1], Versions(self.model.domain).at(pair)).people]

    def change(self, high: float, solver: float, reason: str, clock: Clock) -> Change:
        if self.best is None:
            found = f"nobody whose scores change was found; {reason}" if high > 0 else "proven: nobody's scores change"
            return Change(0.0, high, solver, 0, None, found, clock.spent)
        return Change(self.low, high, solver, self.best[2], self._twins(), reason, clock.spent)


def _rough_scores(model: Model, free: np.ndarray, code: np.ndarray) -> np.ndarray:
    values = np.concatenate([free, np.broadcast_to(code, (len(free), len(code)))], axis=1).astype(np.float64)
    return model.network.estimated(values)


def _exhaustible(model: Model) -> bool:
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


def _all_pass(model: Model, clock: Clock, stops: Callable[[Person, Sequence[Sensitive]], bool]) -> bool:
    """Whether everybody there is, in all versions, was looked at in time without a stop."""
    names, values = model.domain.free_names, model.domain.sensitive_space.values
    people = (dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*_seen_levels(model.encoding)))
    return not any(clock.left <= 0 or stops(person, values) for person in people)
