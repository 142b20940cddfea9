"""How many rows of a table does a forest provably treat fairly, and how many not? Every row is judged by itself.

A row is somebody in one cell of every free feature, so that nothing but the sum of leaves has to be bounded. Ranges of
numbers are those of the domain, and of the table where it goes beyond: trees decide about any number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError, shown
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.people.domain import Domain
from bornfair.people.features import NUMERIC
from bornfair.people.space.partition import Where
from bornfair.people.space.subpopulation import limits_of, rows_within
from bornfair.people.tables import as_pandas
from bornfair.quantification.forest_sample import together
from bornfair.quantification.population import shares_of_judged
from bornfair.quantification.records import Shares
from bornfair.verification.forest_decide import prove_forest
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP, TOO_CLOSE


def shares_of_forest_rows(
    model: ForestModel, table: Any, *, where: Where | None = None, timeout: Timeout = 60.0
) -> Shares:
    """As `bornfair.quantification.population.shares_of_rows`, for a forest."""
    clock, frame = Clock.of(timeout), as_pandas(table)
    model.domain.require_sensitive()
    if where:
        frame = frame[rows_within(model.domain, frame, limits_of(model.domain, where))]
    if not len(frame):
        raise InputError("nobody is left to be counted; give a table with rows that belong to the sub-population.")
    judge = Judge.of(model.about(_widened(model.domain, frame)))
    points = judge.cells.place(frame)
    _require_known(judge, frame, points)
    fair, unfair = np.zeros((2, len(frame)), bool)
    proof, reason = prove_forest(judge), ""
    if proof:
        fair[:], reason = True, proof.reason
    try:
        for start in range(0, 0 if proof else len(points), together(judge)):
            if start and clock.is_up:
                reason = TIME_IS_UP
                break
            some = slice(start, start + together(judge))
            unfair[some], unknown = judge.treated(points[some])
            fair[some] = ~unfair[some] & ~unknown
    except KeyboardInterrupt:
        reason = INTERRUPTED
    reason = reason or ("every row is decided" if (fair | unfair).all() else TOO_CLOSE)
    note = f"; {model.note}" if model.note else ""
    as_read = "" if judge.model.covers_execution else "of the forest as read, in real arithmetic: "
    return shares_of_judged(
        fair, unfair, f"{as_read}{reason}{note}", judge.arithmetic, where, clock, reason == INTERRUPTED
    )


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
