"""Do these two people really get different decisions from a model that can only be asked? They are asked about again:
together, the other way round, and each alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from bornfair.models.opaque.model import OpaqueModel, Unsteady
from bornfair.people.features import Value
from bornfair.people.twins.versions import Versions
from bornfair.verification.replay import Replay


def replay_outside(
    model: OpaqueModel, person: Mapping[str, Value], values: Sequence[int], versions: Versions | None = None
) -> Replay:
    """Decide a person (what all versions share) as each of the given versions; those who are nobody are left out.

    Raises Unsteady if somebody is decided in two ways.
    """
    versions = versions or Versions(model.domain)
    person = versions.settled(person)
    there = [int(value) for value in values if versions.exists(person, value)]
    return replay_outside_people(model, [versions.of(person, version) for version in there], there)


def replay_outside_people(
    model: OpaqueModel, people: Sequence[Mapping[str, Value]], versions: Sequence[int] = ()
) -> Replay:
    """Decide people given by all their raw values."""
    if not people:
        return Replay((), {})
    table = pd.DataFrame(list(people), columns=list(model.domain.names))
    together = model.ask(table, scores=False).decided.tolist()
    turned = model.ask(table.iloc[::-1], scores=False).decided.tolist()[::-1]
    alone = [int(model.ask(table.iloc[[i]], scores=False).decided[0]) for i in range(len(table))]
    if not turned == alone == together:
        raise Unsteady(unsteady_text(model))
    decided = tuple(int(place) for place in together)
    return Replay(tuple(dict(person) for person in people), {"executed": decided}, tuple(versions))


def unsteady_text(model: OpaqueModel) -> str:
    """Why nothing can be told of a model that changes its mind."""
    return (
        f"{model.source.name} decided the same person in two ways when asked again (in another order, or alone), so "
        "that what sensitive values change cannot be told from noise; fix its seed, or ask a model that decides the "
        "same each time."
    )
