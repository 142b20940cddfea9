"""About how many people does a forest treat unfairly? A random sample: never a proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bornfair.core.clock import Clock
from bornfair.models.forest.bounds.judge import Judge
from bornfair.models.forest.model import ForestModel
from bornfair.models.forest.shares.weights import CellWeights
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.partition import Where
from bornfair.people.space.variables import Marginal
from bornfair.quantification.confident import NOBODY, Draw, FirstSample

WORDS = 1 << 22  # of bits that are looked at between two looks at the clock


@dataclass(frozen=True, eq=False)
class ForestSample:
    """How many people were found unfair, of how many, and how many were too close to call."""

    first: FirstSample = NOBODY
    seconds: float = 0.0

    @property
    def count(self) -> int:
        return self.first.count

    @property
    def unfair(self) -> int:
        return self.first.unfair

    @property
    def unknown(self) -> int:
        return self.first.unknown


def together(judge: Judge) -> int:
    words = judge.bits.words + judge.versions * max(judge.bits.acting_words, 1)
    return int(np.clip(WORDS // words, 16, 1 << 14))


def sampled(judge: Judge, weights: CellWeights, count: int, *, seed: Sequence[int], clock: Clock) -> ForestSample:
    """People of the whole distribution; fewer if time runs short."""
    rng, step, began = np.random.default_rng(seed), together(judge), clock.now()
    first = FirstSample.of(count)
    while first.count < count and (not first.count or not clock.is_up):
        first = first.after(*judge.treated(weights.draw(min(step, count - first.count), rng)))
    return ForestSample(first, clock.now() - began)


def drawn_from(judge: Judge, weights: CellWeights, boxes: Boxes) -> Draw:
    """A function that draws people of these boxes, each box by its mass: how many are unfair, how many too close."""
    upto = np.cumsum(boxes.facts["mass"])

    def draw(count: int, rng: np.random.Generator) -> tuple[int, int]:
        box = np.minimum(np.searchsorted(upto, rng.random(count) * upto[-1], side="right"), len(upto) - 1)
        unfair, unknown = judge.treated(weights.cells_in(boxes.low[box], boxes.high[box], rng))
        return int(unfair.sum()), int(unknown.sum())

    return draw


def forest_draw(
    model: ForestModel, marginals: Mapping[str, Marginal] | None, where: Where | None = None
) -> Callable[[int, list[int], Clock], tuple[pd.DataFrame, np.ndarray]]:
    """A function that draws people: raw free values, and whose twins are decided differently."""
    judge = Judge.of(model, where)
    weights, step = CellWeights.of(judge.cells, marginals), together(judge)

    def draw(count: int, seed: list[int], clock: Clock) -> tuple[pd.DataFrame, np.ndarray]:
        rng, parts, marks = np.random.default_rng(seed), list[pd.DataFrame](), list[np.ndarray]()
        seen = 0
        while seen < count and (not seen or not clock.is_up):
            points = weights.draw(min(step, count - seen), rng)
            parts.append(pd.DataFrame(weights.raw(points, rng), index=range(len(points))))
            marks.append(judge.treated(points)[0])
            seen += len(points)
        return pd.concat(parts, ignore_index=True), np.concatenate(marks)

    return draw
