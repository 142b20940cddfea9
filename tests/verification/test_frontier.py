"""The frontier takes the heaviest boxes first, keeps time and memory, and no interrupt leaves it half-way."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

from bornfair.core.clock import Clock
from bornfair.people.space.boxes import Boxes
from bornfair.verification.frontier import TIME_IS_UP, Frontier


def line(*weights):
    """Boxes [k, k] on a line with these weights."""
    places = np.arange(len(weights), dtype=float)[:, None]
    return Boxes(places, places, {"weight": np.array(weights, float)})


def frontier(*weights, timeout=1e9, most_open=float("inf")):
    return Frontier(line(*weights), 0, Clock(timeout), most_open)


def test_the_heaviest_boxes_come_first_and_the_newest_where_memory_is_short():
    weights = 3.0, 9.0, 1.0, 7.0, 5.0
    assert set(frontier(*weights).wave("weight", 2)) == {1, 3}
    assert set(frontier(*weights).wave("weight", 4, most=1)) == {1}
    assert set(frontier(*weights, most_open=4).wave("weight", 2)) == {3, 4}
    assert len(frontier(*range(3200)).wave("weight", 1)) == 100  # as all are moved, one alone would not pay
    assert list(frontier(*weights).wave("weight", 99)) == [0, 1, 2, 3, 4]


def test_boxes_are_replaced_by_what_is_open_of_them():
    open_ = frontier(1, 2, 3, 4)
    open_.replace(
        np.array([3, 0]), 1, lambda tally, boxes: (tally + 1, boxes.knowing(weight=boxes.facts["weight"] * 10))
    )
    assert open_.open.facts["weight"].tolist() == [2, 3, 40, 10]
    assert open_.open.low[:, 0].tolist() == [1, 2, 3, 0]
    assert open_.tally == 2


def test_an_interrupt_leaves_boxes_and_tally_as_they_were():
    open_, calls = frontier(1, 2, 3, 4), itertools.count()

    def decide(tally, boxes):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return tally + len(boxes), boxes[np.arange(0)]

    with pytest.raises(KeyboardInterrupt):
        open_.replace(np.arange(4), 1, decide)
    assert (len(open_.open), open_.tally) == (4, 0)


def test_the_first_batch_is_decided_though_time_is_up_and_no_other():
    late = frontier(1, 2, 3, 4, timeout=0.0)
    late.replace(np.arange(4), 2, lambda tally, boxes: (tally + len(boxes), boxes[np.arange(0)]))
    assert (len(late.open), late.tally) == (2, 2)


def test_work_ends_with_a_reason_with_the_time_or_with_the_last_box():
    def step():
        open_.become(open_.open[np.arange(1, len(open_.open))], open_.tally + 1)
        return "enough" if open_.tally == 2 else None

    open_ = frontier(1, 2, 3)
    assert (open_.work(step, str), open_.tally) == ("enough", 2)
    assert (open_.work(step, str), open_.tally) == (None, 3)
    open_ = frontier(1, timeout=0.0)
    assert (open_.work(step, str), open_.tally) == (TIME_IS_UP, 0)
    open_ = frontier(1, timeout=100.0)
    assert open_.work(step, str, lambda: 200.0) == TIME_IS_UP  # so much is reserved for what comes after


def test_progress_comes_once_a_second_with_the_time_left(monkeypatch):
    said, now = [], iter([0.0, 0.5, 1.0, 1.9, 2.0, 2.1, 9.0])
    monkeypatch.setattr("bornfair.core.clock.time.monotonic", lambda: next(now))
    clock = Clock(8.0, said.append)
    for _ in range(4):
        clock.report(lambda: "half done")
    clock.report(lambda: "stopped", at_once=True)
    clock.report(lambda: "late")
    assert said == [
        "half done, at most 7 s left",
        "half done, at most 6 s left",
        "stopped, at most 6 s left",
        "late, at most 0 s left",
    ]


def worked_off(weights, most_open):
    """A frontier of which the two heaviest are done in each step, what it held then, and where others waited."""
    seen = []
    open_ = Frontier(line(*weights), 0, Clock(1e9), most_open, lambda: open_.shelve_half("weight"))

    def step():
        seen.append(sorted(open_.open.facts["weight"].tolist(), reverse=True))
        assert open_.count == len(seen[-1]) + sum(one.count for one in open_.shelved)
        open_.become(open_.open[np.argsort(open_.open.facts["weight"])[:-2]], open_.tally + 2)

    assert open_.work(step, str) is None and open_.tally == len(weights) and open_.count == 0
    folder = open_._shelf.folder
    assert folder.stat().st_mode & 0o077 == 0 and not list(folder.glob("*.safetensors"))
    return seen, folder


def test_boxes_for_which_there_is_no_room_wait_in_a_file_and_come_back():
    seen, folder = worked_off(np.random.default_rng(0).permutation(16), 8)
    assert seen[0] == [15, 14, 13, 12, 11, 10, 9, 8], "the light half waits"
    assert max(map(len, seen)) <= 10
    assert [done for some in seen for done in some[:2]] == [*range(15, -1, -1)], "nobody is lost, nobody comes twice"
    gc.collect()
    assert not folder.exists()


def test_what_waits_is_known_without_reading_it_and_stays_where_there_is_no_disk(monkeypatch):
    open_ = Frontier(line(3, 9, 1, 7), 0, Clock(1e9), 2, lambda: None)
    open_.shelve_half("weight", lambda boxes: len(boxes))
    (waiting,) = open_.shelved
    assert (waiting.count, waiting.top, waiting.sums, waiting.note) == (2, 3.0, {"weight": 4.0}, 2)
    assert open_.open.facts["weight"].tolist() == [7, 9]
    assert waiting.read().low[:, 0].tolist() == [2, 0]

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    open_.shelve_half("weight")
    assert open_.open.facts["weight"].tolist() == [7, 9] and open_.count == 4
