"""Is a forest fair? Structure first, then an attack over cells, then branch and bound over the same cells.

Every answer is one `Verdict`, as for networks. What is verified holds in real arithmetic and in the one in which the
forest adds up; twins were replayed by its original where that is there, else by our own evaluation.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bornfair.core.clock import Clock
from bornfair.core.errors import InputError, shown
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.models.verdict import Verdict, undecided
from bornfair.people.space.among import Limits
from bornfair.people.space.partition import question_scope
from bornfair.verification.forest_attack import find_forest_twins
from bornfair.verification.forest_search import search_forest
from bornfair.verification.replay import falsified

ATTACKING, SEARCHING = 0.5, 3.0  # seconds of the first turns; then a third of the time, and all that is left
FEW = 20_000  # points of the grid, which a search looks through sooner than an attack


def decide_forest(
    model: ForestModel,
    *,
    engine: str = "auto",
    timeout: Clock,
    table: Any = None,
    where: Any = None,
    relax: Any = None,
    seed: int = 0,
    resume: Any = None,
) -> Verdict:
    """Whether twins always get the same decision from this forest; the arguments are those of `decide`."""
    model.domain.require_sensitive()
    if engine == "smt" or relax:
        raise InputError(
            "the smt engine and relax are for networks; ask a forest with engine 'auto', 'bounds' or 'milp'."
        )
    if resume is not None:
        raise InputError("resume is for networks; a search over a forest's cells starts anew, so leave it out.")
    if engine == "milp":
        verdict = _by_milp(model, timeout, seed)
    else:
        verdict = _in_order(model, timeout, table, where, seed, attacking=engine == "auto")
    scope = question_scope(where, None)
    if scope:
        verdict = dataclasses.replace(verdict, reason=f"({scope}) {verdict.reason}")
    return _told(model, verdict, timeout)


def decide_forest_among(model: ForestModel, among: Limits, *, timeout: Clock) -> Verdict:
    """As `bornfair.verification.decide.decide_among`, for a forest."""
    model.domain.require_sensitive()
    judge = Judge.of(model, among)
    return _told(model, prove_forest(judge) or search_forest(judge, timeout=timeout), timeout)


def _told(model: ForestModel, verdict: Verdict, clock: Clock) -> Verdict:
    """The verdict with how the model was read, and who replayed the twins."""
    if verdict and verdict.arithmetic == ("real",):
        reason = f"proven of the forest as read, in real arithmetic: {verdict.reason}"
        verdict = dataclasses.replace(verdict, reason=reason, as_read=True)
    notes = [model.note] if model.note else []
    if verdict.verdict == "falsified" and model.original is None:
        notes.append("the twins were replayed by bornfair's own evaluation of the forest")
    reason = "; ".join([verdict.reason, *notes])
    return dataclasses.replace(verdict, reason=reason, seconds=clock.spent)


def prove_forest(judge: Judge) -> Verdict:
    """Verified if no split that anybody of the domain meets tells twins apart."""
    if judge.bits.acting:
        count = judge.bits.acting
        return undecided("structural", f"{count:,} of {judge.bits.units:,} trees tell twins apart")
    domain = judge.cells.domain
    names = [*domain.sensitive, *domain.twin_group.moved]
    reads = set(names) & judge.model.features_read
    if reads:
        reason = f"splits of {shown(sorted(reads))} send twins the same way, or to equal leaves"
    else:
        reason = f"no split that anybody of the domain meets reads {shown(names)}"
    return Verdict("verified", "structural", "structural", judge.arithmetic, reason)


def _by_milp(model: ForestModel, clock: Clock, seed: int) -> Verdict:
    from bornfair.verification.milp.forest import decide_forest_by_milp

    judge = Judge.of(model)
    return prove_forest(judge) or decide_forest_by_milp(judge, clock, seed)


def _in_order(model: ForestModel, clock: Clock, table: Any, where: Any, seed: int, *, attacking: bool) -> Verdict:
    judge = Judge.of(model, where)
    verdict = prove_forest(judge)
    if verdict:
        return verdict
    few = float(np.prod(judge.sizes.astype(np.float64))) <= FEW
    for first, second in ((0.0 if few else ATTACKING, SEARCHING), (clock.timeout / 3, clock.timeout)):
        if clock.is_up:
            return dataclasses.replace(verdict, reason=f"{verdict.reason}; the time of {clock.timeout:g} s is up")
        if attacking:
            found = find_forest_twins(judge, table=table, seconds=clock.part(most=first), seed=seed)
            if found.found is not None:
                reason = f"{found.how}; {found.tried:,} people tried"
                return falsified(model, found.found, engine="attack", reason=reason)
        verdict = search_forest(judge, timeout=clock.part(most=second if attacking else clock.timeout))
        if verdict.verdict != "undecided" or verdict.reason.startswith("interrupted"):
            return verdict
    return verdict
