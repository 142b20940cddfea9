"""How many rows of a table are proven to be treated fairly, and how many not? Every row is judged by itself.

The rows are the population: nothing is said of anybody else, and nothing is sampled. What is proven of a row holds in
the arithmetics named, for every value of the sensitive features and for all declared twins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError
from bornfair.models.network.bounds.exact import agree, executes_exactly
from bornfair.models.network.bounds.views import not_finite
from bornfair.models.network.confirm import confirm_encoded
from bornfair.models.network.model import Model
from bornfair.models.network.shares.forms import Bounder
from bornfair.models.network.structural import prove_structurally
from bornfair.models.verdict import Arithmetic
from bornfair.people.space.partition import Where
from bornfair.people.space.subpopulation import limits_of, rows_within
from bornfair.people.space.variables import variables
from bornfair.people.tables import as_pandas
from bornfair.people.twins.relation import band_relation, twin_relation
from bornfair.people.twins.versions import Versions
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.measure import proven_arithmetic
from bornfair.quantification.people import person_of_row
from bornfair.quantification.records import Estimate, Shares
from bornfair.quantification.tally import rounded_down
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP, TOO_CLOSE
from bornfair.verification.replay import exact_input

NUMBERS = 2**20  # per array


def shares_of_rows(
    model: Model,
    table: Any,
    *,
    where: Where | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    timeout: Timeout = 60.0,
) -> Shares:
    """Which share of the rows of a table is proven to be treated fairly, proven not to be, or neither.

    >>> from bornfair.models.network.network import Layer, Network
    >>> from bornfair.people.domain import Domain
    >>> from bornfair.people.encoding import Encoding
    >>> from bornfair.people.scales import Scale
    >>> from bornfair.people.features import BooleanFeature, IntegerFeature
    >>> who = Domain(features=(IntegerFeature(name="x", low=0, high=9), BooleanFeature(name="s")), sensitive=("s",))
    >>> network = Network((Layer(np.array([[1.0, 0.5]]), np.array([-4.25])),))  # s decides where x = 4
    >>> found = shares_of_rows(
    ...     Model(network, Encoding(who, {"x": Scale(centre=0.0, exponent=0)})), pd.DataFrame({"x": [1, 4, 4, 9]})
    ... )
    >>> found.counts
    {'certified': 2, 'falsified': 2, 'undecided': 0}
    """
    clock, frame = Clock.of(timeout), as_pandas(table)
    wanted = proven_arithmetic(model, arithmetic)
    if where:
        frame = frame[rows_within(model.domain, frame, limits_of(model.domain, where))]
    if not len(frame):
        raise InputError("nobody is left to be counted; give a table with rows that belong to the sub-population.")
    fair, unfair, reason = _judged(model, frame, wanted, clock)
    return shares_of_judged(fair, unfair, reason, wanted, where, clock, reason == INTERRUPTED)


def shares_of_judged(
    fair: np.ndarray, unfair: np.ndarray, reason: str, wanted: tuple[Arithmetic, ...], where: Where | None,
    clock: Clock, interrupted: bool,
) -> Shares:  # fmt: skip
    """The shares of rows that were judged."""
    counts = int(fair.sum()), int(unfair.sum()), len(fair)
    return shares_of_counts(*counts, reason, wanted, where, clock, interrupted)


def shares_of_counts(
    certified: int, falsified: int, rows: int, reason: str, wanted: tuple[Arithmetic, ...], where: Where | None,
    clock: Clock, interrupted: bool,
) -> Shares:  # fmt: skip
    """The shares of so many rows, of which so many were proven fair and unfair."""
    shares = rounded_down(certified, rows), rounded_down(falsified, rows)
    guess = Estimate(falsified / rows, min(shares[1], falsified / rows), max(1 - shares[0], falsified / rows), rows)
    found = Shares(
        *shares, guess, rows, clock.spent, reason, wanted, interrupted,
        {"certified": certified, "falsified": falsified, "undecided": rows - certified - falsified},
    )  # fmt: skip
    return dataclasses.replace(found, confident=found.proven_interval, where=where)


def _judged(
    model: Model, frame: pd.DataFrame, wanted: tuple[Arithmetic, ...], clock: Clock
) -> tuple[np.ndarray, np.ndarray, str]:
    """Which rows are fair, which are not, and why it ended."""
    count = len(frame)
    fair, unfair = np.zeros((2, count), bool)
    try:
        relation = band_relation(model.encoding)
    except InputError:  # the twins cannot be listed; a proof from the structure needs no list
        proof = confirm_encoded(model.network, model.encoding)
        if not set(wanted) <= set(proof.arithmetic):
            raise
        return ~fair, unfair, proof.reason
    if (flaw := not_finite(model.network, relation)) is not None:
        return fair, unfair, flaw
    structural = prove_structurally(model.network, twin_relation(model.encoding))
    if len(relation.views) == 1 or set(wanted) <= set(structural.arithmetic):
        return ~fair, unfair, structural.reason if structural else "nobody has a twin"
    owner = Bounder(
        model.network, relation, variables(model.encoding, relation.free), "float32" if "float32" in wanted else "real"
    )
    crowd, reason = Crowd(owner), ""
    together = int(np.clip(NUMBERS // max(model.encoding.free_width, max(model.network.widths)), 64, 2**16))
    try:
        for start in range(0, count, together):
            if start and clock.is_up:
                return fair, unfair, TIME_IS_UP
            some = slice(start, start + together)
            fair[some], unfair[some] = crowd.judge(model.encoding.free_vectors(frame.iloc[some]))
        for row in np.flatnonzero(~(fair | unfair)) if not owner.has_bands else ():
            if clock.is_up:
                return fair, unfair, TIME_IS_UP
            fair[row], unfair[row] = _exactly(model, owner, frame, int(row))
    except KeyboardInterrupt:
        reason = INTERRUPTED
    decided = "every row is decided" if (fair | unfair).all() else TOO_CLOSE
    return fair, unfair, reason or decided


def _exactly(model: Model, owner: Bounder, frame: pd.DataFrame, row: int) -> tuple[bool, bool]:
    """Fair, unfair or neither: in real arithmetic, and in float32 too if it makes no error here or is not asked for."""
    person = person_of_row(model.domain, frame, row)
    if person is None or not owner.network.function.exact:
        return False, False
    versions = Versions(model.domain)
    twins = [version for version in owner.relation.versions if versions.within(person, version)]
    inputs = np.stack([exact_input(model.encoding, person, version, versions) for version in twins])
    if owner.arithmetic == "float32" and not executes_exactly(owner.network, inputs):
        return False, False
    same = agree(owner.network, inputs)
    return same, not same
