"""Do these two people really get different decisions from the forest? By its original where there is one, else by our
own evaluation, which adds up as the original does; and in real arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from bornfair.models.forest.bounds.judge import exact_class
from bornfair.models.forest.columns import columns_of
from bornfair.models.forest.model import ForestModel
from bornfair.models.verdict import Arithmetic
from bornfair.people.features import Value
from bornfair.people.twins.versions import Versions
from bornfair.verification.replay import Replay


def replay_forest(
    model: ForestModel, person: Mapping[str, Value], values: Sequence[int], versions: Versions | None = None
) -> Replay:
    """Decide a person (what all versions share) as each of the given versions; those who are nobody are left out.

    What the original decides is as executed; real arithmetic counts only where it agrees with that.
    """
    versions = versions or Versions(model.domain)
    person = versions.settled(person)
    there = [int(value) for value in values if versions.exists(person, value)]
    return replay_forest_people(model, [versions.of(person, version) for version in there], there)


def replay_forest_people(
    model: ForestModel, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()
) -> Replay:
    """Decide people given by all their raw values."""
    if not people:
        return Replay((), {})
    table = pd.DataFrame(list(people), columns=list(model.domain.names))
    forest = model.forest
    columns = columns_of([table[name].to_numpy() for name in model.reads], forest.columns, len(table))
    if model.original is None:
        decided = forest.decide(forest.scores_of_columns(columns))
    else:
        decided = model.original.decide(table)
    executed = tuple(int(d) for d in decided)
    leaves, rows = forest.leaves(columns), np.arange(forest.trees)
    real = tuple(exact_class(forest, forest.values[leaves[rows, i]]) for i in range(len(people)))
    found: dict[Arithmetic, tuple[int, ...]] = {forest.summation.precision: executed}
    if real == executed:
        found["real"] = real
    return Replay(tuple(dict(person) for person in people), found, tuple(versions))
