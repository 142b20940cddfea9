"""Shares of everybody in the domain, or of the rows of a table, each judged by itself.

Rows are then the population: nothing is said of anybody else, and nothing is sampled. Proofs about a row hold in the
arithmetics named, for every value of the sensitive features and for all declared twins.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bornfair.core.checks import later
from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.metrics import same_for_all
from bornfair.models.protocol import Bounded, Countable
from bornfair.models.verdict import Arithmetic
from bornfair.parallel import Jobs
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.people.sources import Batch
from bornfair.people.space.subpopulation import Where, limits_of, rows_within
from bornfair.people.space.variables import Marginal, variables
from bornfair.people.tables import as_pandas
from bornfair.people.twins.relation import free_space
from bornfair.people.twins.versions import Versions, person_of_row
from bornfair.quantification.measuring import rounded_down
from bornfair.quantification.records import Estimate, Shares
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP, TOO_CLOSE
from bornfair.verification.replay import exact_input

if TYPE_CHECKING:
    from bornfair.models.forest.bounds.judge import Judge
    from bornfair.models.forest.model import ForestModel
    from bornfair.models.network.model import Model

NUMBERS = 2**20  # per array
Sides = tuple[np.ndarray, np.ndarray]
"""Which rows are proven to be treated fairly, and which are proven not to be."""


# --- everybody in the domain ---


_MEASURES: Mapping[str, Callable[..., Shares]] = {
    "network": later("quantification.measure.shares_of"),
    "forest": later("quantification.cells.shares_of_forest"),
}
_ANY_MEASURE: Callable[..., Shares] = later("quantification.asking.shares_by_asking")


def domain_shares(
    model: Countable,
    *,
    timeout: Timeout = 60.0,
    precision: float = 0.0,
    marginals: Mapping[str, Marginal] | None = None,
    where: Where | None = None,
    most_boxes: int | None = None,
    jobs: Jobs = None,
    seed: int = 0,
) -> Shares:
    """Certified, falsified and undecided share of the domain; see `bornfair.quantification.measure.shares_of`.

    With `marginals` people are weighted, and products of weights are no numbers of people: `counts` is None.
    """
    boxes = {"most_boxes": most_boxes, "jobs": jobs} if isinstance(model, Bounded) else {}
    found = _MEASURES.get(model.kind, _ANY_MEASURE)(
        model, timeout=timeout, precision=precision, marginals=marginals, where=where, seed=seed, **boxes
    )
    return found if marginals is None else dataclasses.replace(found, counts=None)


# --- the rows of a table ---


def shares_of_rows(
    model: Countable,
    table: object,
    *,
    where: Where | None = None,
    arithmetic: Sequence[Arithmetic] = ("real", "float32"),
    timeout: Timeout = 60.0,
    seed: int = 0,
) -> Shares:
    """Which share of the rows of a table is proven to be treated fairly, proven not to be, or neither.

    arithmetic: of a network; of a forest, that in which it adds up. seed: in which order a model that is only run is
    asked about the rows.

    >>> from bornfair.models.network.model import Model
    >>> from bornfair.models.network.network import Layer, Network
    >>> from bornfair.people.domain import Domain
    >>> from bornfair.people.encoding import Encoding
    >>> from bornfair.people.columns import Scale
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
    if where:
        frame = frame[rows_within(model.domain, frame, limits_of(model.domain, where))]
    if not len(frame):
        raise InputError("nobody is left to be counted; give a table with rows that belong to the sub-population.")
    if not model.is_read:
        asked = later("quantification.asking.shares_of_rows_by_asking")
        return asked(model, frame, where=where, timeout=clock, seed=seed)
    judging = _JUDGING.get(model.kind, _by_deciding)(model, frame, arithmetic)
    fair, unfair, reason = _judged(judging, len(frame), clock)
    told, interrupted = f"{judging.before}{reason}{judging.after}", reason == INTERRUPTED
    counts = int(fair.sum()), int(unfair.sum()), len(fair)
    return shares_of_counts(*counts, told, judging.arithmetic, where, clock, interrupted)


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


def shares_of_batches(
    model: Countable,
    batches: Iterable[Batch],
    total: int | None,
    ready: Callable[[pd.DataFrame], pd.DataFrame],
    *,
    where: Where | None = None,
    timeout: Timeout = 60.0,
    seed: int = 0,
) -> Shares:
    """The shares of all rows of a table that no memory holds, from those of its batches; rows that there was no time
    for are undecided.

    total: how many rows there are, if that is known; what is left of them is undecided. ready: the rows of a batch
    that can be decided about.
    """
    if not model.is_read:
        raise InputError(
            "a model that is only asked is not asked about every row of a table that is read in batches; count a "
            "sample of it that fits in memory."
        )
    clock, reason = Clock.of(timeout), ""
    arithmetic: tuple[Arithmetic, ...] = ()
    certified = falsified = judged = read = 0
    interrupted = False
    reasons: dict[str, None] = {}
    try:
        for batch in batches:
            if judged and clock.is_up:
                reason = TIME_IS_UP
                break
            read += len(batch.table)
            try:
                found = shares_of_rows(model, ready(batch.table), where=where, timeout=clock, seed=seed)
            except InputError as error:
                if "nobody is left to be counted" not in str(error):
                    raise
                continue  # nobody of this batch belongs to the sub-population
            counts = found.counts or {}
            certified, falsified = certified + counts["certified"], falsified + counts["falsified"]
            judged, arithmetic = judged + sum(counts.values()), found.arithmetic
            reasons[found.reason] = None
            so_far = (
                f"{read:,}{f' of {total:,}' if total else ''} rows read, {read / max(clock.spent, 1e-9):,.0f} rows/s"
            )
            clock.say(f"{so_far}, {falsified:,} unfair", every=10.0)
    except KeyboardInterrupt:
        reason, interrupted = INTERRUPTED, True
    if not judged:
        raise InputError("nobody is left to be counted; give a table with rows that belong to the sub-population.")
    left = total is not None and read < total
    rows = judged + (total - read if left and total is not None else 0)
    if reason:
        reason = f"{reason}: {read:,}{f' of {total:,}' if total else ''} rows were read"
    return shares_of_counts(
        certified, falsified, rows, reason or "; ".join(reasons), arithmetic, where, clock, interrupted
    )


# --- how rows are judged ---


@dataclass(frozen=True, eq=False)
class _Judging:
    """How rows are judged."""

    arithmetic: tuple[Arithmetic, ...]
    together: int
    some: Callable[[slice], Sides] | None
    one: Callable[[int], tuple[bool, bool]] | None = None
    """Of a row that is left open, more closely."""
    known: str = ""
    """Why nobody need be judged; then all are fair, unless `flaw`."""
    flaw: bool = False
    before: str = ""
    after: str = ""
    """What is told around the reason."""


def _judged(judging: _Judging, count: int, clock: Clock) -> tuple[np.ndarray, np.ndarray, str]:
    """Which rows are fair, which are not, and why it ended."""
    fair, unfair = np.zeros((2, count), bool)
    if judging.known or judging.some is None:
        return fair | (not judging.flaw), unfair, judging.known
    try:
        for start in range(0, count, judging.together):
            if start and clock.is_up:
                return fair, unfair, TIME_IS_UP
            some = slice(start, start + judging.together)
            fair[some], unfair[some] = judging.some(some)
        one = judging.one
        for row in np.flatnonzero(~(fair | unfair)):
            if one is None:
                break
            if clock.is_up:
                return fair, unfair, TIME_IS_UP
            fair[row], unfair[row] = one(int(row))
    except KeyboardInterrupt:
        return fair, unfair, INTERRUPTED
    return fair, unfair, "every row is decided" if (fair | unfair).all() else TOO_CLOSE


def _by_deciding(model: Countable, frame: pd.DataFrame, _: Sequence[Arithmetic]) -> _Judging:
    """Of any other kind: each row is decided as all versions."""
    versions, complete = Versions(model.domain), not model.some_values_only

    def some(rows: slice) -> Sides:
        same = same_for_all(model.decide(frame.iloc[rows], versions, scores=False).classes.T)
        return same & complete, ~same

    return _Judging(("executed",), model.together(versions.size), some)


def _by_network(model: Model, frame: pd.DataFrame, arithmetic: Sequence[Arithmetic]) -> _Judging:
    from bornfair.quantification.crowds import Crowd, treated_exactly
    from bornfair.quantification.measure import examined
    from bornfair.verification.search import proven_arithmetic

    wanted = proven_arithmetic(model, arithmetic)
    owner, proof, flaw = examined(model, wanted, variables(model.encoding, free_space(model.encoding)))
    if owner is None or proof or flaw:
        return _Judging(wanted, len(frame), None, known=proof or flaw, flaw=bool(flaw))
    crowd = Crowd(owner)
    size = int(np.clip(NUMBERS // max(model.encoding.free_width, max(model.network.widths)), 64, 2**16))

    versions = Versions(model.domain)

    def some(rows: slice) -> Sides:
        return crowd.judge(model.encoding.free_vectors(frame.iloc[rows]))

    def one(row: int) -> tuple[bool, bool]:
        person = person_of_row(model.domain, frame, row)
        if person is None:
            return False, False
        twins = [version for version in owner.relation.versions if versions.within(person, version)]
        return treated_exactly(
            owner, np.stack([exact_input(model.encoding, person, version, versions) for version in twins])
        )

    return _Judging(wanted, size, some, one if owner.network.function.exact and not owner.has_bands else None)


def _by_forest(model: ForestModel, frame: pd.DataFrame, arithmetic: Sequence[Arithmetic]) -> _Judging:
    """A row is somebody in one cell of every free feature, so that nothing but the sum of leaves has to be bounded.
    Ranges of numbers are those of the domain, and of the table where it goes beyond: trees decide about any number.
    """
    from bornfair.models.forest.bounds.judge import Judge
    from bornfair.quantification.cells import together

    model.domain.require_sensitive()
    judge = Judge.of(model.about(_widened(model.domain, frame)))
    points = judge.cells.place(frame)
    _require_known(judge, frame, points)

    def some(rows: slice) -> Sides:
        unfair, unknown = judge.treated(points[rows])
        return ~unfair & ~unknown, unfair

    as_read = "" if judge.model.covers_execution else "of the forest as read, in real arithmetic: "
    note = f"; {model.note}" if model.note else ""
    proof = judge.structure()
    return _Judging(
        judge.arithmetic, together(judge), some, known=proof.reason if proof else "", before=as_read, after=note
    )  # fmt: skip


def _widened(domain: Domain, frame: pd.DataFrame) -> Domain:
    """The domain with ranges that hold the numbers of all rows; a rule that mirrors a range leaves it as it is."""
    features, held = [], {*domain.sensitive, *domain.twin_group.moved}
    for feature in domain.features:
        given = feature.model_dump()
        if isinstance(feature, NUMERIC) and feature.name not in held and feature.name in frame.columns:
            try:
                numbers = frame[feature.name].to_numpy(np.float64)
            except (TypeError, ValueError) as error:
                raise InputError(f"column '{feature.name}' of the table holds no numbers ({error}).") from None
            least, most = float(np.nanmin(numbers)), float(np.nanmax(numbers))
            if not np.isfinite([least, most]).all():
                raise InputError(f"column '{feature.name}' of the table holds an infinite number; leave such rows out.")
            kind = int if feature.kind == "integer" else float
            given |= {"low": min(feature.low, kind(least)), "high": max(feature.high, kind(most))}
        features.append(given)
    return domain.replaced(features=features)


def _require_known(judge: Judge, frame: pd.DataFrame, points: np.ndarray) -> None:
    for name, column in zip(judge.cells.domain.free_names, points.T, strict=True):
        if (column < 0).any():
            row = int(np.argmax(column < 0))
            allowed = judge.cells.domain.feature(name)
            values = "whole numbers" if isinstance(allowed, NUMERIC) else shown(allowed.levels())
            raise InputError(
                f"row {frame.index[row]} of the table has {name}={frame[name].iloc[row]!r}, and the domain knows "
                f"{values}; leave such rows out, or give a domain that lists it."
            )


_JUDGING: Mapping[str, Callable[..., _Judging]] = {"network": _by_network, "forest": _by_forest}
