"""How much time is left for drawing: as much as it takes, as it was measured when boxes were many."""

from __future__ import annotations

import types

import numpy as np
import pytest

import bornfair.quantification.measuring as measuring
from bornfair.core.clock import Clock
from bornfair.people.space.boxes import Boxes
from bornfair.quantification.confident import FirstSample, Sample
from bornfair.quantification.measuring import Allowance, Remainder, Tally
from bornfair.quantification.records import SURE

BATCH, TOTAL = 1000, 2.0**40


class Crowd:
    """Draws in a time of its own: so long for a person, and so long to get ready."""

    def __init__(self):
        self.time, self.each, self.ready = 0.0, 1e-6, 0.0
        self.batch, self.space = BATCH, types.SimpleNamespace(total=TOTAL, count=3)
        self.asked = []

    def drawn_from(self, boxes):
        self.time += self.ready

        def draw(count, rng):
            self.asked.append(count)
            self.time += count * self.each
            return int(rng.binomial(count, 0.0125)), 0

        return draw


def made(timeout=60.0, most=10**8):
    crowd = Crowd()
    first = FirstSample.of(200_000).after(np.arange(200_000) < 500, np.zeros(200_000, bool))
    sample = Sample(200_000, 500, 0, np.zeros((0, 1)), np.zeros(1), first)
    workers = types.SimpleNamespace(jobs=1, ordered=lambda work, items, patience: map(work, items))
    allowance = Allowance(Clock(timeout), 0.0, 1, float("inf"), most, SURE, 0)
    found = Remainder(crowd, crowd.space, sample, allowance, workers)
    boxes = Boxes(np.zeros((4, 1)), np.ones((4, 1))).knowing(mass=np.full(4, 0.05 * TOTAL))
    return crowd, found, boxes, Clock(timeout, now=lambda: crowd.time)


def test_time_is_left_as_it_is_needed_when_boxes_are_many():
    crowd, found, boxes, clock = made()
    found.measure_pace(boxes, clock)
    early = found.time_needed(Tally(), boxes, clock)
    assert 0.5 < early < 3.0
    crowd.each, crowd.ready = 4e-6, 0.5  # more boxes: nothing is in the caches, and there is more to prepare
    assert found.time_needed(Tally(), boxes, clock) == pytest.approx(early)  # nobody looks again each time
    crowd.time = 0.4 * clock.timeout
    late = found.time_needed(Tally(), boxes, clock)
    assert late > 3.9 * early + 0.5
    asked = len(crowd.asked)
    assert found.time_needed(Tally(), boxes, clock) == pytest.approx(late) and len(crowd.asked) == asked
    # As much as was left is enough for a narrow interval.
    crowd.time = clock.timeout - late
    found.draw(Tally(certified=0.8 * TOTAL), boxes, clock)
    assert found.looks.width <= 1.1 * measuring.NARROW
    assert clock.left >= 0
    assert found.time_needed(Tally(), boxes, clock) == 0.0


def test_no_more_time_is_left_than_a_third_and_no_more_are_drawn_than_asked_for():
    crowd, found, boxes, clock = made(timeout=1.0)
    crowd.each = 1e-3
    found.measure_pace(boxes, clock)
    assert found.time_needed(Tally(), boxes, clock) == pytest.approx(1 / 3)
    crowd, found, boxes, clock = made(most=20)
    found.measure_pace(boxes, clock)
    found.draw(Tally(), boxes, clock)
    assert max(crowd.asked) <= 20
