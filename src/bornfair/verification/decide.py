"""Is it fair? The one question, put to the engines in the order in which they are likely to answer.

Structure first (a proof at once), then an attack (most unfair models give way in seconds), then branch and bound.
Every answer is one `Verdict`; twins in it were replayed on the model before anybody sees them.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from bornfair.core.checks import choice, installed, number
from bornfair.core.clock import Clock, Say, Timeout
from bornfair.core.errors import InputError, plain_level
from bornfair.models.forest.model import ForestModel
from bornfair.models.graph.model import WiredModel
from bornfair.models.network.confirm import confirm_encoded
from bornfair.models.network.model import Model
from bornfair.models.opaque.model import AnyModel, OpaqueModel, wires_of
from bornfair.models.verdict import Verdict
from bornfair.parallel import ALONE, Jobs
from bornfair.people.space.partition import Part, Where, named_limits
from bornfair.people.twins.versions import Versions

MOST_VERSIONS = 64  # of each person, asked of an imported model's original
MOST_REPLAYS = 16
LOOKS = 1_000_000  # of an attack, where a number of boxes ends the search that follows it

Engine = Literal["auto", "bounds", "smt", "milp"]


def decide(
    model: AnyModel | WiredModel,
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
    twins may differ): for 'smt'. among: only these people are asked about, see `decide_among`. resume: a file from
    which an interrupted search goes on. most_boxes: after how many boxes a search stops; the time changes nothing then,
    unless all of it is up. jobs: who looks at boxes.
    """
    if among is not None:
        return decide_among(model, among, timeout=Clock.of(timeout, say), seed=seed)
    check_question(engine, timeout, where, relax)
    clock = Clock.of(timeout, say)
    wires = wires_of(model) if isinstance(model, OpaqueModel) else model if isinstance(model, WiredModel) else None
    if wires is not None:
        from bornfair.verification.data_flow import decide_by_wires

        verdict = decide_by_wires(wires)
        if verdict or isinstance(model, WiredModel):
            return dataclasses.replace(verdict, seconds=clock.spent)
    assert not isinstance(model, WiredModel)
    if isinstance(model, ForestModel):
        from bornfair.verification.forest_decide import decide_forest

        return decide_forest(
            model, engine=engine, timeout=clock, table=table, where=where, relax=relax, seed=seed, resume=resume
        )
    if isinstance(model, OpaqueModel):
        from bornfair.verification.outside_search import decide_outside

        return decide_outside(
            model, engine=engine, timeout=clock, table=table, where=where, relax=relax, seed=seed, resume=resume
        )
    if engine == "smt" or where or relax:
        verdict = _by_smt(model, clock, partitions, soft_timeout, where, relax, seed)
    elif engine == "milp":
        from bornfair.verification.milp import decide_by_milp

        verdict = decide_by_milp(model, timeout=clock, seed=seed)
    elif engine == "bounds":
        verdict = _by_bounds(model, clock, seed, resume, most_boxes, jobs)
    else:
        verdict = _in_order(model, clock, table, seed, resume, most_boxes, jobs)
    if verdict and not model.covers_execution:
        verdict = _as_read(model, verdict)
    if model.note:
        verdict = dataclasses.replace(verdict, reason=f"{verdict.reason}; {model.note}")
    return dataclasses.replace(verdict, seconds=clock.spent)


def decide_among(model: AnyModel | WiredModel, among: Where, *, timeout: Timeout = 60.0, seed: int = 0) -> Verdict:
    """Whether some people are always decided as all their twins, whoever those are.

    among: who is asked about, as {"age": (30, 40), "job": ["nurse"]}, ends included; (None,) where a number is missing.
    """
    clock, limits = Clock.of(timeout), named_limits(model.domain, among)
    if isinstance(model, ForestModel):
        from bornfair.verification.forest_decide import decide_forest_among

        return decide_forest_among(model, limits, timeout=clock)
    if isinstance(model, OpaqueModel):
        from bornfair.verification.outside_among import decide_outside_among

        return decide_outside_among(model, limits, timeout=clock, seed=seed)
    if not isinstance(model, Model):  # what the wires of a graph tell, they tell of everybody
        return decide(model, timeout=clock, seed=seed)
    verdict = confirm_encoded(model.network, model.encoding)
    if verdict.verdict != "verified" or "float32" not in verdict.arithmetic:
        from bornfair.verification.search import search

        verdict = search(model, timeout=clock, seed=seed, among=limits)
    if verdict and not model.covers_execution:
        verdict = _as_read(model, verdict, Part(limits))
    if model.note:
        verdict = dataclasses.replace(verdict, reason=f"{verdict.reason}; {model.note}")
    return dataclasses.replace(verdict, seconds=clock.spent)


def check_question(engine: str, timeout: Timeout, where: Any = None, relax: Any = None) -> None:
    """Refuse what cannot be asked, before any model is read."""
    choice("engine", engine, get_args(Engine))
    if not isinstance(timeout, Clock):  # a clock that is running was checked when it was started, and may be up
        number("timeout", timeout, 0.0, float("inf"), open_low=True)
    if (where or relax) and engine not in ("auto", "smt"):
        raise InputError(f"where and relax are questions for the smt engine, found engine={engine!r}; leave it out.")


def _as_read(model: Model, verdict: Verdict, among: Part | None = None) -> Verdict:
    """What a proof about the network says of the model it was read from: nothing about its rounding, saturation and
    ties. Its original is asked about people for whom those may matter.
    """
    from bornfair.verification.replay import falsified, replay

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


def _in_order(
    model: Model, clock: Clock, table: Any, seed: int, resume: str | Path | None, most_boxes: int | None, jobs: Jobs
) -> Verdict:
    verdict = confirm_encoded(model.network, model.encoding)
    if verdict.verdict == "verified":
        return verdict
    if most_boxes is not None:  # numbers of looks and boxes end it, not the time
        found = attack(model, seconds=clock, table=table, seed=seed, most=LOOKS)
        return _by_bounds(model, clock, seed, resume, most_boxes, jobs) if found is None else found
    # Short turns first: most unfair models give way to a glance, most small domains to a moment's search.
    for attack_seconds, search_seconds, who in (
        (0.5, 2.0, ALONE),  # before others have begun
        (min(10.0, clock.timeout / 3), clock.timeout, jobs),
    ):
        for seconds, attacking in ((attack_seconds, True), (search_seconds, False)):
            if clock.is_up:
                return dataclasses.replace(verdict, reason=f"{verdict.reason}; the time of {clock.timeout:g} s is up")
            turn = clock.part(most=seconds)
            if attacking:
                found = attack(model, seconds=turn, table=table, seed=seed)
            else:
                found = verdict = _by_bounds(model, turn, seed, resume, most_boxes, who)
            if found is not None and (found.verdict != "undecided" or found.reason.startswith("interrupted")):
                return found
    return verdict


def attack(
    model: Model, *, seconds: Timeout, table: Any = None, seed: int = 0, most: float = math.inf, say: Say | None = None
) -> Verdict | None:
    """Falsified, with twins, if some are found in time and after `most` looks; None otherwise."""
    from bornfair.verification.attack import find_twins
    from bornfair.verification.replay import falsified

    found = find_twins(model, table=table, seconds=seconds, seed=seed, most=most, say=say)
    if found.found is None:
        return None
    reason = f"{found.how}; {found.tried:,} people tried"
    return falsified(model, found.found, engine="attack", reason=reason, seconds=found.seconds)


def _by_bounds(
    model: Model, clock: Clock, seed: int, resume: str | Path | None, most_boxes: int | None, jobs: Jobs
) -> Verdict:
    from bornfair.verification.search import search

    return search(model, timeout=clock, seed=seed, resume=resume, stop_after=most_boxes, jobs=jobs)


def _by_smt(
    model: Model,
    clock: Clock,
    partitions: int | None,
    soft_timeout: float,
    where: dict[str, Any] | None,
    relax: dict[str, float] | None,
    seed: int,
) -> Verdict:
    what = "where or relax for a network" if where or relax else "engine='smt'"
    engine = installed("bornfair_bench.smt.engine", what)
    return engine.decide_by_smt(
        model, partitions=partitions, soft_timeout=min(soft_timeout, clock.timeout), hard_timeout=clock,
        where=where, relax=relax, seed=seed,
    )  # fmt: skip
