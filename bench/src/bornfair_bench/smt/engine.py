"""The smt engine (after Fairify): z3 searches for twins with different decisions, part by part, in exact arithmetic.

Per part: sound bounds first, which settle it or prune neurons; then "one person, two sensitive values, two decisions"
as linear arithmetic over the rationals. Twins it reports are replayed; that there are none is its word, not a proof.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import z3

from bornfair.core.clock import Clock, Say, TimeIsUp, Timeout
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.backward import not_finite
from bornfair.models.network.model import Model
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.features import NUMERIC
from bornfair.people.space.subpopulation import Part, Relax, Where, question_scope
from bornfair.people.twins.relation import flip_relation
from bornfair.people.twins.versions import require_flip_only
from bornfair.verification.replay import Replay, falsified
from bornfair.verification.twin_question import NeuronBounds, TwinQuestion, unknown_to_solvers
from bornfair_bench.smt.parts import importance_of_features, partition_domain
from bornfair_bench.smt.question import targeted_question, with_twins
from bornfair_bench.smt.terms import NetworkTerms, Pruning, Term, Version, prunings, raw_layers

ENGINE = "smt"
Answer = Literal["sat", "unsat", "unknown", "unconfirmed"]

DEFAULT_PARTITIONS = 500
GRID_BITS = 30  # of a real number in twins that a float must hold, when z3's own are too fine
SPOKEN_EVERY = 5.0  # seconds between two lines about the progress


@dataclass
class Tally:
    """What became of the partitions, as Fairify's tables count them."""

    total: int
    sat: int = 0
    unsat: int = 0
    bounds: int = 0
    """Partitions (not counted as unsat) that bounds alone settled: one class for everybody in them."""
    unknown: int = 0
    unconfirmed: int = 0
    """Partitions for which z3 named twins that did not differ when replayed."""
    neurons_pruned: float = 0.0
    """Mean share of neurons that needed no case split, over the partitions z3 was asked about."""
    seconds: float = 0.0
    twins: Replay | None = None

    @property
    def asked(self) -> int:
        return self.sat + self.unsat + self.unknown + self.unconfirmed

    @property
    def attempted(self) -> int:
        return self.asked + self.bounds

    @property
    def open(self) -> int:
        return self.total - self.sat - self.unsat - self.bounds

    def __str__(self) -> str:
        return (
            f"of {self.total:,} partitions {self.attempted:,} were attempted: {self.sat:,} have twins (SAT), "
            f"{self.unsat:,} have none (UNSAT), {self.bounds:,} have none by bounds alone, "
            f"{self.unknown + self.unconfirmed:,} unknown; {self.neurons_pruned:.0%} of neurons pruned"
        )


def decide_by_smt(
    model: Model,
    *,
    partitions: int | None = None,
    soft_timeout: float = 100.0,
    hard_timeout: Timeout = 1800.0,
    seed: int = 0,
    where: Where | None = None,
    relax: Relax | None = None,
    every: bool = False,
    say: Say | None = None,
) -> Verdict:
    """Whether twins are ever decided differently: in all partitions none (verified), in one of them (falsified).

    partitions:   how many are wished for; the domain is cut into about as many.
    soft_timeout: seconds z3 gets for one partition; hard_timeout: seconds for all.
    where:        only this sub-population: {"age": (30, 40), "job": ["nurse"]}. Both twins belong to it.
    relax:        numbers that may differ between twins as well, by at most so much: {"age": 2}. A twin who leaves the
                  sub-population so, or the domain, is not looked at.
    every:        go on after the first twins, to count the partitions that have some.
    """
    counted = tally_by_smt(
        model, partitions=partitions, soft_timeout=soft_timeout, hard_timeout=hard_timeout, seed=seed, where=where,
        relax=relax, every=every, say=say,
    )  # fmt: skip
    if isinstance(counted, Verdict):
        return counted
    about = f"({scope}) " if (scope := question_scope(where, relax)) else ""
    facts: dict[str, Any] = {"partitions": counted.attempted, "seconds": counted.seconds}
    if counted.twins is not None:
        return falsified(model, counted.twins, engine=ENGINE, reason=f"{about}z3 named twins; {counted}", **facts)
    if not counted.open:
        if not counted.asked:
            reason = f"{about}one class is decided within each of {counted.total:,} partitions"
            return Verdict("verified", "bounds", ENGINE, ("real",), reason, **facts)
        reason = f"{about}z3 found every partition unsatisfiable; its word, no checkable proof: {counted}"
        return Verdict("verified", "none", ENGINE, ("real",), reason, **facts)
    hard = Clock.of(hard_timeout).timeout
    why = {
        f"z3 gave up within the soft timeout of {soft_timeout:g} s": counted.unknown,
        "twins named by z3 were not confirmed by replay": counted.unconfirmed,
        f"not reached within the hard timeout of {hard:g} s": counted.total - counted.attempted,
    }
    listed = ", ".join(f"{number:,} {reason}" for reason, number in why.items() if number)
    reason = f"{about}{counted.open:,} of {counted.total:,} partitions are open ({listed}); {counted}"
    return Verdict("undecided", "none", ENGINE, (), reason, **facts)


def tally_by_smt(
    model: Model,
    *,
    partitions: int | None = None,
    soft_timeout: float = 100.0,
    hard_timeout: Timeout = 1800.0,
    seed: int = 0,
    where: Where | None = None,
    relax: Relax | None = None,
    every: bool = True,
    say: Say | None = None,
) -> Tally | Verdict:
    """The counts behind `decide_by_smt`; an undecided verdict for networks that z3 cannot be asked about."""
    clock = Clock.of(hard_timeout, say)
    options = {"partitions": partitions, "soft_timeout": soft_timeout, "hard_timeout": clock.timeout}
    for name, value in options.items():
        if value is not None and not value > 0:
            raise InputError(f"{name}={value} must be above 0.")
    require_flip_only(model.encoding, "the smt engine", "use engine='bounds'")
    model.classes  # noqa: B018  # refuses a domain without a label now, not when twins are to be reported
    if (unknown := unknown_to_solvers(model)) is not None:
        return undecided(ENGINE, unknown)
    question = targeted_question(model, where, relax)
    if not model.network.function.exact:
        return undecided(ENGINE, f"z3 is asked about relu networks only; {model.network.activation} is not linear")
    if (flaw := not_finite(question.model.network, flip_relation(question.model.encoding))) is not None:
        return undecided(ENGINE, flaw)
    parts = partition_domain(
        question.model.domain,
        count=partitions or DEFAULT_PARTITIONS,
        seed=seed,
        everybody=question.everybody,
        importance=importance_of_features(question.model),
    )
    solver, bounds = _Solver(question, seed), NeuronBounds(question.model, question.views)
    tally, pruned = Tally(len(parts)), 0.0
    for part, pruning in prunings(bounds, parts, functools.partial(with_twins, question)):
        if clock.left <= 0 or (tally.sat and not every):
            break
        if pruning.one_class:
            tally.bounds += 1
        else:
            pruned += pruning.share
            answer, twins = solver.ask(part, pruning, clock.part(most=soft_timeout))
            setattr(tally, answer, getattr(tally, answer) + 1)
            tally.twins = tally.twins or twins
            tally.neurons_pruned = pruned / tally.asked
        clock.say(str(tally), every=SPOKEN_EVERY, digits=0)
    tally.seconds = clock.spent
    return tally


# --- asking z3 ---

Pair = tuple[int | None, int | None]
"""Which sensitive value each twin has; None: to be found."""


class _Solver:
    """The network's inputs as z3 variables, and what is asked about them.

    Inputs are the raw values of the free features (of a category: 0 or 1 for each level), then 0 or 1 for each
    sensitive value. All scales and codes are in the first layer's weights.
    """

    def __init__(self, question: TwinQuestion, seed: int) -> None:
        self.question, self.seed = question, seed
        self.domain, self.columns = question.model.domain, question.model.encoding.free_columns()
        self.free_width, self.values = question.model.encoding.free_width, range(len(question.views))
        self.raw = [self._variables(twin) for twin in (0, 1)]
        inputs = [[z3.ToReal(v) if v.is_int() else v for v in row] for row in self.raw]
        self.terms = NetworkTerms(*raw_layers(question.model, question.views), inputs)

    def _variables(self, twin: int) -> list[Term]:
        found = []
        for name, inputs in self.question.inputs.items():
            whose = f" of twin {twin}" if name in self.question.own else ""  # what twins share is one variable
            kinds = [z3.Int if one.whole else z3.Real for one in inputs]
            found += [kind(f"{name} {i}{whose}") for i, kind in enumerate(kinds)]
        return found + [z3.Int(f"value {k} of twin {twin}") for k in self.values]

    def ask(self, part: Part, pruning: Pruning, clock: Clock) -> tuple[Answer, Replay | None]:
        """Whether somebody of the part has a twin who is decided differently."""
        self.terms.clock = clock
        try:
            return self._asked(part, pruning, clock)
        except TimeIsUp:  # while the question was being written
            return "unknown", None

    def _asked(self, part: Part, pruning: Pruning, clock: Clock) -> tuple[Answer, Replay | None]:
        pairs: list[Pair] = [(None, None)]
        if len(self.values) <= 2:
            # Unless each has own numbers the two share all else, and their order does not matter.
            pairs = [(i, j) for i, j in self.question.pairs() if self.question.own or i < j]
        asked = [(question, pair) for pair in pairs for question in self._questions(part, pruning, pair)]
        worst: Answer = "unsat"
        for (question, pair), limit in clock.shared(asked):
            answer, twins = self._solve(question, part, pair, clock.part(most=limit))
            if answer == "sat":
                return answer, twins
            worst = answer if answer != "unsat" else worst
        return worst, None

    def _solve(self, question: list[Term], part: Part, pair: Pair, clock: Clock) -> tuple[Answer, Replay | None]:
        answer, model = self._check(question, clock)
        if answer != "sat":
            return answer, None
        twins = self._replayed(model, part, pair)
        if twins is None and (grid := self._representable()):
            answer, model = self._check(question + grid, clock)
            twins = self._replayed(model, part, pair) if answer == "sat" else None
        return ("sat", twins) if twins is not None else ("unconfirmed", None)

    def _check(self, question: list[Term], clock: Clock) -> tuple[Answer, Term]:
        if clock.left <= 0:
            return "unknown", None
        solver = z3.Solver()
        solver.set("timeout", max(1, int(clock.left * 1000)))
        solver.set("random_seed", self.seed)
        solver.add(*question)
        answer = str(solver.check())
        return ("sat", solver.model()) if answer == "sat" else ("unsat" if answer == "unsat" else "unknown", None)

    # --- the question ---

    def _questions(self, part: Part, pruning: Pruning, pair: Pair) -> list[list[Term]]:
        """One for each way two decisions can differ: z3 is faster on them one by one."""
        settled = self.question.settled(part)
        versions: list[Version] = []
        for twin, chosen in enumerate(pair):
            marks = [None if chosen is None else int(k == chosen) for k in self.values]
            known = [*settled, *marks]
            free, ones = ([j for j, value in enumerate(known) if value == kind] for kind in (None, 1))
            seen = slice(None) if chosen is None else [chosen]
            versions.append(self.terms.version(twin, free, ones, pruning, seen, versions[0] if versions else None))
        first, second = (version.sums[-1] for version in versions)
        ways = self._ways_to_differ(first, second)
        if all(a.eq(b) for a, b in zip(first, second, strict=True)):
            return [[z3.Or(*ways)]]  # the same terms twice: z3 can answer without being told what they stand for
        definitions = [term for version in versions for term in self.terms.definitions(version)]
        common = [*self._people(part, settled), *self._values(pair), *self._apart(), *definitions]
        return [[*common, way] for way in ways]

    def _people(self, part: Part, settled: list[int | None]) -> list[Term]:
        """Who is in the part, and how far a twin may be from them."""
        asserted: list[Term] = []
        for feature in self.domain.free_features:
            name, place = feature.name, self.columns[feature.name]
            first, second = (row[place] for row in self.raw)
            if isinstance(feature, NUMERIC):
                asserted += self._between(first[0], part.limits[name])
                if name in self.question.own:
                    most = self.terms.number(self.question.own[name])
                    asserted += self._between(second[0], self.question.everybody.limits[name])
                    asserted += [first[0] - second[0] <= most, second[0] - first[0] <= most]
            elif feature.kind == "boolean":
                asserted += self._between(first[0], (0, 1))
            else:
                asserted += self._one_of([v for v, value in zip(first, settled[place], strict=True) if value is None])
        return asserted

    def _values(self, pair: Pair) -> list[Term]:
        """Which sensitive values twins have, where z3 is to find them."""
        if pair != (None, None):
            return []
        first, second = (row[self.free_width :] for row in self.raw)
        # People of one sensitive value are no twins; they could differ in a relaxed number.
        alike = not self.question.own or self.question.spans
        apart = [] if alike else [a + b <= 1 for a, b in zip(first, second, strict=True)]
        return [*self._one_of(first), *self._one_of(second), *apart]

    def _apart(self) -> list[Term]:
        """Twins who may differ in relaxed numbers too have different sensitive values, be it by ever so little."""
        if not (self.question.relaxed and self.question.spans):
            return []
        first, second = self.raw
        places = [self.columns[name].start for name in self.question.spans]
        places += range(self.free_width, len(first))
        return [z3.Or(*(first[place] != second[place] for place in places))]

    def _ways_to_differ(self, first: list[Term], second: list[Term]) -> list[Term]:
        """The first twin gets a class, the second does not."""

        def wins(k: int, scores: list[Term]) -> Term:
            if len(scores) == 1:
                return scores[0] > 0 if k else scores[0] <= 0
            return z3.And(*(scores[k] > s if j < k else scores[k] >= s for j, s in enumerate(scores) if j != k))

        classes = range(max(2, len(first)))
        return [z3.And(wins(k, first), z3.Not(wins(k, second))) for k in classes]

    def _between(self, variable: Term, limit: tuple[Any, ...]) -> list[Term]:
        low, high = (z3.IntVal(int(end)) if variable.is_int() else self.terms.number(end) for end in limit)
        return [variable >= low, variable <= high]

    def _one_of(self, choices: list[Term]) -> list[Term]:
        bounded = [term for choice in choices for term in self._between(choice, (0, 1))]
        return [*bounded, z3.Sum(choices) == 1] if choices else []

    def _representable(self) -> list[Term]:
        """Real features on a grid of numbers that floats can hold: what z3 finds there survives the rounding."""
        found = []
        for feature in self.domain.free_features:
            if feature.kind == "real":
                exponent = math.frexp(max(abs(feature.low), abs(feature.high), 2.0**-900))[1] - GRID_BITS
                for twin, row in enumerate(self.raw):
                    whole = z3.Int(f"{feature.name} on the grid of twin {twin}")
                    step = self.terms.number(Fraction(2) ** exponent)
                    found.append(row[self.columns[feature.name].start] == step * z3.ToReal(whole))
        return found

    # --- the answer ---

    def _replayed(self, found: Term, part: Part, pair: Pair) -> Replay | None:
        """The twins z3 found; None unless they get different decisions in some arithmetic."""

        def numbers(row: list[Term]) -> list[Fraction]:
            exact = (found.eval(variable, model_completion=True) for variable in row)
            return [Fraction(value.as_long() if value.is_int() else value.as_fraction()) for value in exact]

        rows, views = [], []
        for row, chosen in zip(map(numbers, self.raw), pair, strict=True):
            free, marks = row[: self.free_width], row[self.free_width :]
            rows.append(free)
            views.append(self.question.views[marks.index(max(marks)) if chosen is None else chosen])
        return self.question.replayed(*self.question.twins(rows, views, part))
