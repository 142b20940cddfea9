"""How many of those whom no proof decides are treated unfairly? People are drawn from the boxes that are left open.

How many are needed for a narrow interval is foreseen from a first sample, so that neither boxes nor samples get time
that the other would use better.
"""

from __future__ import annotations

import numpy as np

from bornfair.core.clock import Clock
from bornfair.parallel import Workers
from bornfair.people.space.boxes import Boxes
from bornfair.people.space.variables import Variables
from bornfair.quantification.confident import NARROW, Draw, Looks, Parts, needed_samples, take_looks
from bornfair.quantification.crowds import Crowd
from bornfair.quantification.estimate import Sample
from bornfair.quantification.tally import Tally, rounded_down

CONFIDING = 1 / 3  # share of the time in which people of open boxes are drawn
PACED = 1 / 3  # of the time, after which it is measured again how long that takes: by then boxes are many
SLOWER = 1.3  # times as long it may take where boxes are more than when it was measured,
MORE = 3.0  # and to get ready for them, which takes as long as they are many
BATCHES = 2  # more than needed: one tells how long it takes, and the last one is not over when time is
PLANNED = 0.9  # of the time that is left for it: the look that is planned must not come too late


class Remainder:
    """What is left open by a measurement, with the looks that were taken at people drawn from it."""

    def __init__(
        self, crowd: Crowd, sample: Sample, looks: Looks, most_samples: int, workers: Workers, seed: int,
        *, counted: bool = False,
    ) -> None:  # fmt: skip
        """`counted`: how many people are drawn does not depend on the time, unless all of it is up."""
        self.counted = counted
        self.crowd, self.sample, self.looks, self.most_samples = crowd, sample, looks, most_samples
        self.workers, self.seed, self.is_drawn = workers, seed, False
        self.each, self.ready, self.paced_at = 0.0, 0.0, -np.inf
        """Seconds for a person and to get ready, as far as is known, and since when."""
        looks.look_first(sample.first)

    @property
    def _variables(self) -> Variables:
        return self.crowd.variables

    def measure_pace(self, boxes: Boxes, clock: Clock) -> Draw:
        """Find out how long it takes to draw and judge people of boxes; nobody looks at those who are drawn for it."""
        count, began = max(min(self.crowd.batch, self.most_samples), 1), clock.now()
        draw, ready = self.crowd.drawn_from(boxes), clock.now()
        draw(count, np.random.default_rng(self.seed))
        self.each = max(clock.now() - ready, 0.0) / count / self.workers.jobs
        self.ready, self.paced_at = max(ready - began, 0.0), clock.spent
        return draw

    def time_needed(self, tally: Tally, boxes: Boxes, clock: Clock) -> float:
        """Seconds that the clock should leave for drawing from these open boxes."""
        if self.is_drawn or self.looks.width <= NARROW:
            return 0.0
        if self.paced_at < PACED * clock.timeout <= clock.spent and len(boxes):
            self.measure_pace(boxes, clock)
        people = self._needed(tally, boxes) + BATCHES * self.crowd.batch
        return min(SLOWER * people * self.each + MORE * self.ready, CONFIDING * clock.timeout)

    def draw(self, tally: Tally, boxes: Boxes, clock: Clock) -> None:
        """Draw people of the open boxes, and look how many of them are unfair."""
        self.is_drawn = True
        if not len(boxes) or self.looks.width <= NARROW or clock.is_up:
            return
        draw = self.measure_pace(boxes, clock)
        affordable = PLANNED * clock.left / self.each if self.each > 0 and not self.counted else np.inf
        take_looks(
            self.looks, draw, self._parts(tally, boxes),
            min(self._needed(tally, boxes), affordable), clock, self.seed,
            most=self.most_samples, together=self.crowd.batch, workers=self.workers,
        )  # fmt: skip

    def _needed(self, tally: Tally, boxes: Boxes) -> float:
        """How many people of open boxes to draw for a narrow interval, if the sample is right."""
        total = self._variables.total
        open_ = float(boxes.facts["mass"].sum()) / total
        unfair = (self.sample.found + 1) / self.sample.count - tally.falsified / total
        return min(needed_samples(max(unfair, 0.0), open_, self.looks), self.most_samples)

    def _parts(self, tally: Tally, boxes: Boxes) -> Parts:
        """What is known of everybody but for the open boxes, which are drawn from; what is proven of parts of these is
        left aside.
        """
        open_, total = float(boxes.facts["mass"].sum()), self._variables.total
        rounded = 2.0**-51 * (tally.boxes + len(boxes) + 1000)
        unfair, fair, drawn = (
            rounded_down(part * (1 - rounded), total) for part in (tally.falsified, tally.certified, open_)
        )
        return Parts(unfair, fair, drawn, 8 * rounded * (self._variables.count + 1))
