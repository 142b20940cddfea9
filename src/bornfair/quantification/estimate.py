"""About how many people are treated unfairly? A random sample with a confidence interval, which is exact unless time
cuts the sample short (docs/theory.md §9): never a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.network.lens import lead_ranges
from bornfair.models.network.model import Model
from bornfair.models.network.network import decisions
from bornfair.models.network.shares.forms import Bounder
from bornfair.people.space.partition import Where
from bornfair.people.space.variables import Marginal, variables
from bornfair.people.twins.relation import grid_relation
from bornfair.quantification.confident import NOBODY, FirstSample, clopper_pearson
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.records import Estimate

CHUNK = 2**22  # numbers per array
KEPT = 64  # unfair people who are remembered


@dataclass(frozen=True, eq=False)
class Sample:
    """What a sample showed: how many were unfair of how many, some of them (places; the clearest first), and a guess
    how much each column raises the first lead.
    """

    count: int
    found: int
    open: int  # neither found unfair nor known to be fair
    unfair: np.ndarray
    order: np.ndarray
    first: FirstSample = NOBODY  # who is unfair in every arithmetic that is asked about
    interrupted: bool = False  # there would have been more


def estimated(sample: Sample, certified: float = 0.0, falsified: float = 0.0) -> Estimate:
    """What a sample says of everybody; what is proven beside it narrows the range where the sample left people open."""
    low, _ = clopper_pearson(sample.found, sample.count)
    _, high = clopper_pearson(sample.found + sample.open, sample.count)
    if sample.open:
        low, high = max(low, falsified), min(high, 1.0 - certified)
    return Estimate(min(max(sample.found / sample.count, low), high), low, high, sample.count)


def people_at_random(
    owner: Bounder, count: int, *, seed: Sequence[int], clock: Clock
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """People drawn from the distribution, some at a time: their places, their free vectors, and the outputs of all
    their views in float64. Fewer if time runs short.
    """
    rng, variables = np.random.default_rng(seed), owner.variables
    step = max(CHUNK // (max(owner.network.widths) * len(owner.relation.views)), 64)
    step = step // 16 + 1 if owner.has_bands else step  # bounds take longer than scores
    seen = 0
    while seen < count and (not seen or not clock.is_up):
        people = variables.draw(min(step, count - seen), rng)
        seen += len(people)
        free = variables.places.values(people)
        yield people, free, owner.plain.scores(free)


def draw(owner: Bounder, crowd: Crowd, count: int, *, seed: int, clock: Clock) -> Sample:
    """Draw people, and decide them and their twins. An interrupt ends it with those who were drawn until then."""
    width, interrupted = owner.variables.free.width, False
    # Replaced by one assignment, so that an interrupt finds all of it or nothing.
    counts, first = np.zeros(3, np.int64), FirstSample.of(count)
    _, _, kept, gaps, moments = state = counts, first, np.zeros((0, width)), np.zeros(0), np.zeros((2, width))
    try:
        for people, free, values in people_at_random(owner, count, seed=[seed, 271828], clock=clock):
            counts, first, kept, gaps, moments = state
            unfair, known = disagree(values), crowd.judge(free)
            open_ = ~unfair & ~known[0] if owner.has_bands else np.zeros(0, bool)
            new = [len(people), unfair.sum(), open_.sum()]
            first = first.after(known[1], ~(known[0] | known[1]))
            gap = lead_ranges(values[unfair]).gap if unfair.any() else np.zeros(0)
            kept, gaps = np.concatenate([kept, people[unfair]]), np.concatenate([gaps, gap])
            best = np.argsort(-gaps, kind="stable")[:KEPT]
            lead = values[:, 0, 0] if owner.network.outputs == 1 else values[:, 0, 1] - values[:, 0, 0]
            more = np.stack([np.nan_to_num(lead) @ people, people.sum(axis=0)])
            state = counts + np.array(new, np.int64), first, kept[best], gaps[best], moments + more
    except KeyboardInterrupt:
        interrupted = True
        if not state[0][0]:
            raise
    counts, first, kept, _, moments = state
    seen, found, open_count = (int(part) for part in counts)
    # The mean lead of those who are 1 in a column, for one-hot columns.
    order = moments[0] / np.maximum(moments[1], 1e-9)
    return Sample(seen, found, open_count, kept, order, first, interrupted)


def disagree(values: np.ndarray) -> np.ndarray:
    """Whose views get different decisions [people], from outputs [people, views, outputs]."""
    decided = decisions(values)
    return (decided != decided[:, :1]).any(axis=1)


def network_draw(
    model: Model, marginals: Mapping[str, Marginal] | None, where: Where | None
) -> Callable[[int, list[int], Clock], tuple[pd.DataFrame, np.ndarray]]:
    """A function that draws people: raw free values, and whose twins are decided differently."""
    relation = grid_relation(model.encoding)
    owner = Bounder(model.network, relation, variables(model.encoding, relation.free, marginals, where))

    def draw(count: int, seed: list[int], clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        parts = [(free, disagree(values)) for _, free, values in people_at_random(owner, count, seed=seed, clock=clock)]
        free, unfair = (np.concatenate(part) for part in zip(*parts, strict=True))
        return model.encoding.decode(free), unfair

    return draw
