"""How much of the domain is treated fairly, whatever decides: a network, a forest, or a model that is only asked?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bornfair.core.clock import Timeout
from bornfair.models.forest.model import ForestModel
from bornfair.models.opaque.model import AnyModel, OpaqueModel
from bornfair.parallel import Jobs
from bornfair.people.space.partition import Where
from bornfair.people.space.variables import Marginal
from bornfair.quantification.measure import shares_of
from bornfair.quantification.population import shares_of_rows
from bornfair.quantification.records import Shares


def row_shares(
    model: AnyModel, table: Any, *, where: Where | None = None, timeout: Timeout = 60.0, seed: int = 0
) -> Shares:
    """The same shares of the rows of a table; see `bornfair.quantification.population.shares_of_rows`."""
    if isinstance(model, ForestModel):
        from bornfair.quantification.forest_rows import shares_of_forest_rows

        return shares_of_forest_rows(model, table, where=where, timeout=timeout)
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_measure import rows_outside_measured

        return rows_outside_measured(model, table, where=where, timeout=timeout, seed=seed)
    return shares_of_rows(model, table, where=where, timeout=timeout)


def domain_shares(
    model: AnyModel,
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
    options: dict[str, Any] = {
        "timeout": timeout,
        "precision": precision,
        "marginals": marginals,
        "where": where,
        "seed": seed,
    }
    if isinstance(model, OpaqueModel):
        from bornfair.quantification.outside_measure import shares_outside

        found = shares_outside(model, **options)
    elif isinstance(model, ForestModel):
        from bornfair.quantification.forest_measure import shares_of_forest

        found = shares_of_forest(model, **options, most_boxes=most_boxes, jobs=jobs)
    else:
        found = shares_of(model, **options, most_boxes=most_boxes, jobs=jobs)
    return found if marginals is None else replace(found, counts=None)
