"""Is it fair? The one question, put to the engines in the order in which they are likely to answer.

Structure first (a proof at once), then an attack (most unfair models give way in seconds), then branch and bound.
Every answer is one `Verdict`; twins in it were replayed on the model before anybody sees them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

import numpy as np

from bornfair.checks import choice, number
from bornfair.domain import Domain
from bornfair.errors import InputError, plain_value
from bornfair.interop.load import load_model
from bornfair.interop.reading import ReadingOptions
from bornfair.model import FairModel
from bornfair.verification.encoded import confirm_encoded
from bornfair.verification.verdict import Verdict

MOST_VERSIONS = 64  # of each person, asked of an imported model's original
MOST_REPLAYS = 16

Engine = Literal["auto", "bounds", "smt", "milp"]
Say = Callable[[str], None]


def verify(
    model: Any,
    domain: Domain | str | Path | None = None,
    *,
    sensitive_features: Sequence[str | int] | None = None,
    twins: str | Sequence[str] | None = None,
    engine: Engine = "auto",
    timeout: float = 60.0,
    table: Any = None,
    target: str | None = None,
    partitions: int | None = None,
    soft_timeout: float = 100.0,
    where: dict[str, Any] | None = None,
    relax: dict[str, float] | None = None,
    seed: int = 0,
    resume: str | Path | None = None,
    say: Say | None = None,
    **reading: Unpack[ReadingOptions],
) -> Verdict:
    """Whether two individuals who differ only in the sensitive features, or by declared rules, always get the same
    decision.

    model: whatever can be read: a bundle, an .onnx, .h5 or .nnet file, a scikit-learn classifier or pipeline, a
    torch.nn.Sequential, a FairClassifier or FairModel. domain: who could exist, if not as the model says. twins: who
    else counts as a twin, as "sex: Male<->Female, relationship: Husband<->Wife", if not as the domain says. engine:
    'auto', or one of them for a second opinion. table: real rows (`target`: the column that is no feature), to show
    twins close to a real person, and to read off who exists if nothing else says. partitions, soft_timeout (seconds
    for each partition), where (a sub-population) and relax (how much other numbers of twins may differ): for 'smt'.
    resume: a file from which an interrupted search goes on. decision, threshold, normalise: how to read a file that
    does not say so itself (`bornfair.interop.reading`).
    """
    choice("engine", engine, get_args(Engine))
    number("timeout", timeout, 0.0, float("inf"), open_low=True)
    if (where or relax) and engine not in ("auto", "smt"):
        raise InputError(f"where and relax are questions for the smt engine, found engine={engine!r}; leave it out.")
    asked = load_model(
        model, domain=domain, sensitive=sensitive_features, table=table, target=target, twins=twins, **reading
    )
    began = time.perf_counter()
    if engine == "smt" or where or relax:
        verdict = _by_smt(asked, timeout, partitions, soft_timeout, where, relax, seed, say)
    elif engine == "milp":
        from bornfair.verification.milp import decide_by_milp

        verdict = decide_by_milp(asked, timeout=timeout, seed=seed, say=say)
    elif engine == "bounds":
        verdict = _by_bounds(asked, timeout, seed, resume, say)
    else:
        verdict = _in_order(asked, timeout, table, seed, resume, say)
    if verdict and not asked.covers_execution:
        verdict = _as_read(asked, verdict)
    if asked.note:
        verdict = dataclasses.replace(verdict, reason=f"{verdict.reason}; {asked.note}")
    return dataclasses.replace(verdict, seconds=time.perf_counter() - began)


def _as_read(model: FairModel, verdict: Verdict) -> Verdict:
    """What a proof about the network says of the model it was read from: nothing about its rounding, saturation and
    ties. Its original is asked about people for whom those may matter.
    """
    from bornfair.verification.replay import falsified, replay

    original, versions = model.original, model.domain.versions
    assert original is not None and original.likely_wrong is not None
    people = original.likely_wrong[~model.domain.outside(original.likely_wrong)]
    decided = np.stack([original.decide(versions.table(people, i)) for i in range(min(versions.size, MOST_VERSIONS))])
    for row in np.flatnonzero((decided != decided[0]).any(axis=0))[:MOST_REPLAYS]:
        other = int(np.argmax(decided[:, row] != decided[0, row]))
        person = {name: plain_value(people[name].iloc[row]) for name in model.domain.free_names}
        twins = replay(model, person, (0, other))
        if twins.unfair_in:
            reason = f"the network as read is fair ({verdict.reason}), but {original.runtime} tells these twins apart"
            return falsified(model, twins, engine="original", reason=reason)
    reason = f"proven of the network as read, in real arithmetic: {verdict.reason}"
    return dataclasses.replace(verdict, arithmetic=("real",), reason=reason, as_read=True)


def _in_order(
    model: FairModel, timeout: float, table: Any, seed: int, resume: str | Path | None, say: Say | None
) -> Verdict:
    began = time.perf_counter()
    verdict = confirm_encoded(model.network, model.encoding)
    if verdict.verdict == "verified":
        return verdict
    # Short turns first: most unfair models give way to a glance, most small domains to a moment's search.
    for attack_seconds, search_seconds in ((0.5, 2.0), (min(10.0, timeout / 3), timeout)):
        for seconds, attacking in ((attack_seconds, True), (search_seconds, False)):
            left = timeout - (time.perf_counter() - began)
            if left <= 0:
                return dataclasses.replace(verdict, reason=f"{verdict.reason}; the time of {timeout:g} s is up")
            turn = min(seconds, left)
            if attacking:
                found = attack(model, seconds=turn, table=table, seed=seed, say=say)
            else:
                found = verdict = _by_bounds(model, turn, seed, resume, say)
            if found is not None and (found.verdict != "undecided" or found.reason.startswith("interrupted")):
                return found
    return verdict


def attack(
    model: FairModel, *, seconds: float, table: Any = None, seed: int = 0, say: Say | None = None
) -> Verdict | None:
    """Falsified, with twins, if some are found in time; None otherwise."""
    from bornfair.verification.attack import find_twins
    from bornfair.verification.replay import falsified

    found = find_twins(model, table=table, seconds=seconds, seed=seed, say=say)
    if found.found is None:
        return None
    reason = f"{found.how}; {found.tried:,} people tried"
    return falsified(model, found.found, engine="attack", reason=reason, seconds=found.seconds)


def _by_bounds(model: FairModel, timeout: float, seed: int, resume: str | Path | None, say: Say | None) -> Verdict:
    from bornfair.verification.search import search

    return search(model, timeout=timeout, seed=seed, resume=resume, say=say)


def _by_smt(
    model: FairModel,
    timeout: float,
    partitions: int | None,
    soft_timeout: float,
    where: dict[str, Any] | None,
    relax: dict[str, float] | None,
    seed: int,
    say: Say | None,
) -> Verdict:
    from bornfair.verification.smt import decide_by_smt

    return decide_by_smt(
        model, partitions=partitions, soft_timeout=min(soft_timeout, timeout), hard_timeout=timeout,
        where=where, relax=relax, seed=seed, say=say,
    )  # fmt: skip
