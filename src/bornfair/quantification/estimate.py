"""About how many people are treated unfairly? A random sample with an exact confidence interval: never a proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bornfair.models.network import decisions
from bornfair.quantification.confident import clopper_pearson
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.forms import Bounder
from bornfair.quantification.records import Estimate
from bornfair.verification.clock import Clock
from bornfair.verification.lens import lead_ranges

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
    surely_unfair: int = 0  # in every arithmetic that is asked about
    close: int = 0  # too close to call


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
    """Draw people, and decide them and their twins."""
    width = owner.variables.free.width
    seen = found = open_ = surely = close = 0
    kept, gaps, moments = np.zeros((0, width)), np.zeros(0), np.zeros((2, width))
    for people, free, values in people_at_random(owner, count, seed=[seed, 271828], clock=clock):
        unfair, known = disagree(values), crowd.judge(free)
        surely, close = surely + int(known[1].sum()), close + int((~(known[0] | known[1])).sum())
        if owner.has_bands:
            open_ += int((~unfair & ~known[0]).sum())
        gap = lead_ranges(values[unfair]).gap if unfair.any() else np.zeros(0)
        kept, gaps = np.concatenate([kept, people[unfair]]), np.concatenate([gaps, gap])
        best = np.argsort(-gaps, kind="stable")[:KEPT]
        kept, gaps = kept[best], gaps[best]
        lead = values[:, 0, 0] if owner.network.outputs == 1 else values[:, 0, 1] - values[:, 0, 0]
        moments += np.stack([np.nan_to_num(lead) @ people, people.sum(axis=0)])
        seen += len(people)
        found += int(unfair.sum())
    # The mean lead of those who are 1 in a column, for one-hot columns.
    order = moments[0] / np.maximum(moments[1], 1e-9)
    return Sample(seen, found, open_, kept, order, surely, close)


def disagree(values: np.ndarray) -> np.ndarray:
    """Whose views get different decisions [people], from outputs [people, views, outputs]."""
    decided = decisions(values)
    return (decided != decided[:, :1]).any(axis=1)
