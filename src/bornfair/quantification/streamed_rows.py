"""How many rows of a table that no memory holds are proven to be treated fairly? Batch after batch is judged and
counted; rows that there was no time for are undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from bornfair.core.clock import Clock, Timeout
from bornfair.core.errors import InputError
from bornfair.models.protocol import Countable
from bornfair.models.verdict import Arithmetic
from bornfair.people.sources import Batch
from bornfair.people.space.partition import Where
from bornfair.quantification.population import shares_of_counts, shares_of_rows
from bornfair.quantification.records import Shares
from bornfair.verification.frontier import INTERRUPTED, TIME_IS_UP


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
    """The shares of all rows, from those of the batches.

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
