"""Decision of the one question, whether twins always get the same decision, by the engines of each kind in order.

Structure first (a proof at once), then an attack (most unfair models give way in seconds), then branch and bound.
Every answer is one `Verdict`; twins in it were replayed on the model before anybody sees them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from bornfair.core.checks import choice, installed, number
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain_level
from bornfair.models.protocol import Decider
from bornfair.models.verdict import Verdict
from bornfair.parallel import ALONE, Jobs
from bornfair.people.space.subpopulation import Limits, Part, Where, named_limits, question_scope
from bornfair.people.twins.versions import Versions
from bornfair.verification.replay import falsified, replay

if TYPE_CHECKING:
    from bornfair.models.forest.bounds.judge import Judge
    from bornfair.models.forest.model import ForestModel
    from bornfair.models.network.model import Model
    from bornfair.models.opaque.model import OpaqueModel

MOST_VERSIONS = 64  # of each person, asked of an imported model's original
MOST_REPLAYS = 16
LOOKS = 1_000_000  # of an attack, where a number of boxes ends the search that follows it
# Seconds of the first turns at a forest; then a third of the time, and all that is left.
ATTACKING, SEARCHING = 0.5, 3.0
FEW = 20_000  # points of a forest's grid, which a search looks through sooner than an attack

Engine = Literal["auto", "bounds", "smt", "milp"]
Output = Literal["decision", "score", "probability"]


@dataclass(frozen=True)
class Effort:
    """How an answer is looked for; the fields are the arguments of `decide`."""

    clock: Clock
    engine: Engine = "auto"
    table: Any = None
    partitions: int | None = None
    soft_timeout: float = 100.0
    where: dict[str, Any] | None = None
    relax: dict[str, float] | None = None
    among: Limits | None = None
    seed: int = 0
    resume: str | Path | None = None
    most_boxes: int | None = None
    jobs: Jobs = None


def decide(
    model: Decider,
    *,
    engine: Engine = "auto",
    timeout: Timeout = 60.0,
    table: Any = None,
    partitions: int | None = None,
    soft_timeout: float = 100.0,
    where: dict[str, Any] | None = None,
    relax: dict[str, float] | None = None,
    among: Where | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    most_boxes: int | None = None,
    jobs: Jobs = None,
    say: Say | None = None,
) -> Verdict:
    """Whether twins always get the same decision from this model.

    engine: 'auto', or one of them for a second opinion. table: real rows, to show twins close to a real person.
    partitions, soft_timeout (seconds for each partition), where (a sub-population) and relax (how much other numbers of
    twins may differ): for 'smt'. among: only these people are compared with all their twins, whoever those are, as
    {"age": (30, 40), "job": ["nurse"]}, ends included; (None,) where a number is missing. resume: a file from
    which an interrupted search goes on. most_boxes: after how many boxes a search stops; the time changes nothing then,
    unless all of it is up. jobs: who looks at boxes.
    """
    if among is None:
        check_question(engine, timeout, where, relax)
    clock = Clock.of(timeout, say)
    limits = None if among is None else named_limits(model.domain, among)
    effort = Effort(
        clock, engine, table, partitions, soft_timeout, where, relax, limits, seed, resume, most_boxes, jobs
    )  # fmt: skip
    engines = ENGINES.get(model.kind)
    verdict = model.structure() if engines is None else engines(model, effort)
    return dataclasses.replace(verdict, seconds=clock.spent)


def check_question(engine: str, timeout: Timeout, where: Any = None, relax: Any = None) -> None:
    """Refuse what cannot be asked, before any model is read."""
    choice("engine", engine, get_args(Engine))
    if not isinstance(timeout, Clock):  # a clock that is running was checked when it was started, and may be up
        number("timeout", timeout, 0.0, float("inf"), open_low=True)
    if (where or relax) and engine not in ("auto", "smt"):
        raise InputError(f"where and relax are questions for the smt engine, found engine={engine!r}; leave it out.")


def check_output(output: str, tolerance: float) -> None:
    """The same for a question about scores (`bornfair.verification.score`)."""
    choice("output", output, get_args(Output))
    number("tolerance", tolerance, 0.0, math.inf)
    if output == "decision" and tolerance:
        raise InputError("a decision has no tolerance; ask about a score: output='score' or 'probability' (--output).")


# --- networks ---


def _of_network(model: Model, effort: Effort) -> Verdict:
    clock, among = effort.clock, effort.among
    if among is not None:
        verdict = model.structure()
        if verdict.answer != "verified" or "float32" not in verdict.arithmetic:
            verdict = _by_bounds(model, clock, effort)
    elif effort.engine == "smt" or effort.where or effort.relax:
        what = "where or relax for a network" if effort.where or effort.relax else "engine='smt'"
        smt = installed("bornfair_bench.smt.engine", what)
        verdict = smt.decide_by_smt(
            model, partitions=effort.partitions, soft_timeout=min(effort.soft_timeout, clock.timeout),
            hard_timeout=clock, where=effort.where, relax=effort.relax, seed=effort.seed,
        )  # fmt: skip
    elif effort.engine == "milp":
        from bornfair.verification.milp.network import decide_by_milp

        verdict = decide_by_milp(model, timeout=clock, seed=effort.seed)
    elif effort.engine == "bounds":
        verdict = _by_bounds(model, clock, effort)
    else:
        verdict = _in_order(model, effort)
    if verdict and not model.covers_execution:
        verdict = _as_read(model, verdict, None if among is None else Part(among))
    return dataclasses.replace(verdict, reason=f"{verdict.reason}; {model.note}") if model.note else verdict


def _in_order(model: Model, effort: Effort) -> Verdict:
    verdict, clock = model.structure(), effort.clock
    if verdict:
        return verdict
    from bornfair.verification.attack import find_twins

    def attack(seconds: Clock, most: float = math.inf) -> Verdict | None:
        found = find_twins(model, table=effort.table, seconds=seconds, seed=effort.seed, most=most)
        return found.verdict(model)

    if effort.most_boxes is not None:  # numbers of looks and boxes end it, not the time
        found = attack(clock, LOOKS)
        return _by_bounds(model, clock, effort) if found is None else found
    alone = dataclasses.replace(effort, jobs=ALONE)  # before others have begun
    # Short turns first: most unfair models give way to a glance, most small domains to a moment's search.
    return _by_turns(verdict, clock, (
        lambda: attack(clock.part(most=0.5)),
        lambda: _by_bounds(model, clock.part(most=2.0), alone),
        lambda: attack(clock.part(most=min(10.0, clock.timeout / 3))),
        lambda: _by_bounds(model, clock.part(most=clock.timeout), effort),
    ))  # fmt: skip


def _by_bounds(model: Model, clock: Clock, effort: Effort) -> Verdict:
    from bornfair.verification.search import search

    return search(
        model, timeout=clock, seed=effort.seed, resume=effort.resume, stop_after=effort.most_boxes, jobs=effort.jobs,
        among=effort.among,
    )  # fmt: skip


def _as_read(model: Model, verdict: Verdict, among: Part | None = None) -> Verdict:
    """What a proof about the network says of the model it was read from: nothing about its rounding, saturation and
    ties. Its original is asked about people for whom those may matter.
    """
    original, versions = model.original, Versions(model.domain)
    assert original is not None and original.likely_wrong is not None
    people = original.likely_wrong[~model.domain.outside(original.likely_wrong)]
    if among is not None and among.limits:
        rows = zip(*(people[name] for name in among.limits), strict=True)
        held = [among.holds(dict(zip(among.limits, row, strict=True)), model.domain) for row in rows]
        people = people[np.array(held, bool)]
    tables = (versions.table(people, i) for i in range(min(versions.size, MOST_VERSIONS)))
    decided = original.decide_versions(tables).T
    for row in np.flatnonzero((decided != decided[0]).any(axis=0))[:MOST_REPLAYS]:
        other = int(np.argmax(decided[:, row] != decided[0, row]))
        person = {name: plain_level(people[name].iloc[row]) for name in model.domain.free_names}
        twins = replay(model, person, (0, other))
        if twins.unfair_in:
            reason = f"the network as read is fair ({verdict.reason}), but {original.runtime} tells these twins apart"
            return falsified(model, twins, engine="original", reason=reason)
    reason = f"proven of the network as read, in real arithmetic: {verdict.reason}"
    return dataclasses.replace(verdict, arithmetic=("real",), reason=reason, as_read=True)


# --- forests ---


def _of_forest(model: ForestModel, effort: Effort) -> Verdict:
    """What is verified holds in real arithmetic and in the one in which the forest adds up, where that is known."""
    from bornfair.models.forest.bounds.judge import Judge
    from bornfair.verification.cells import search_forest

    model.domain.require_sensitive()
    if effort.engine == "smt" or effort.relax:
        raise InputError(
            "the smt engine and relax are for networks; ask a forest with engine 'auto', 'bounds' or 'milp'."
        )
    if effort.resume is not None:
        raise InputError("resume is for networks; a search over a forest's cells starts anew, so leave it out.")
    judge = Judge.of(model, effort.where if effort.among is None else effort.among)
    verdict = judge.structure()
    if not verdict:
        if effort.among is not None:
            verdict = search_forest(judge, timeout=effort.clock)
        elif effort.engine == "milp":
            from bornfair.verification.milp.forest import decide_forest_by_milp

            verdict = decide_forest_by_milp(judge, effort.clock, effort.seed)
        else:
            verdict = _forest_in_order(judge, verdict, effort)
    scope = question_scope(effort.where, None)
    if scope:
        verdict = dataclasses.replace(verdict, reason=f"({scope}) {verdict.reason}")
    if verdict and verdict.arithmetic == ("real",):
        reason = f"proven of the forest as read, in real arithmetic: {verdict.reason}"
        verdict = dataclasses.replace(verdict, reason=reason, as_read=True)
    notes = [model.note] if model.note else []
    if verdict.answer == "falsified" and model.original is None:
        notes.append("the twins were replayed by bornfair's own evaluation of the forest")
    return dataclasses.replace(verdict, reason="; ".join([verdict.reason, *notes]))


def _forest_in_order(judge: Judge, proof: Verdict, effort: Effort) -> Verdict:
    from bornfair.verification.cells import find_forest_twins, search_forest

    clock, attacking = effort.clock, effort.engine == "auto"

    def turn(first: float, second: float) -> Verdict | None:
        if attacking:
            found = find_forest_twins(judge, table=effort.table, seconds=clock.part(most=first), seed=effort.seed)
            if found:
                return found.verdict(judge.model)
        return search_forest(judge, timeout=clock.part(most=second if attacking else clock.timeout))

    few = float(np.prod(judge.sizes.astype(np.float64))) <= FEW
    turns = (lambda: turn(0.0 if few else ATTACKING, SEARCHING), lambda: turn(clock.timeout / 3, clock.timeout))
    return _by_turns(proof, clock, turns)


# --- models that are run, and graphs of which the wires are read ---


def _of_opaque(model: OpaqueModel, effort: Effort) -> Verdict:
    from bornfair.verification.asking import decide_by_asking

    verdict = model.structure()
    if verdict:
        return verdict
    if effort.engine != "auto" or effort.where or effort.relax or effort.resume is not None:
        model.domain.require_sensitive()
        raise InputError(
            f"{model.source.name} is run and not read, so that engine, where, relax and resume do not fit; leave them "
            "out."
        )
    return decide_by_asking(model, timeout=effort.clock, table=effort.table, among=effort.among, seed=effort.seed)


ENGINES: dict[str, Callable[..., Verdict]] = {"network": _of_network, "forest": _of_forest, "opaque": _of_opaque}
"""By kind, from a model and an `Effort`. Of kinds that are not named, structure alone is examined."""


def _by_turns(verdict: Verdict, clock: Clock, turns: Iterable[Callable[[], Verdict | None]]) -> Verdict:
    """The first answer of several engines, one after the other, or the last reason why there is none."""
    for turn in turns:
        if clock.is_up:
            return dataclasses.replace(verdict, reason=f"{verdict.reason}; the time of {clock.timeout:g} s is up")
        found = turn()
        verdict = verdict if found is None else found
        if found is not None and (found.answer != "undecided" or found.reason.startswith("interrupted")):
            return found
    return verdict
