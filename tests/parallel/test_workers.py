"""Work that is shared comes back in order, whole and once, whoever dies of it."""

from __future__ import annotations

import sys

import joblib
import pytest

import errands
from bornfair.core import growing
from bornfair.core.errors import InputError
from bornfair.parallel import ALONE, Workers, engines, task


@pytest.fixture(scope="module")
def two():
    with Workers.of(2) as workers:
        yield workers


def test_results_come_in_order_and_others_do_the_work(two):
    assert list(two.ordered(errands.slowly, range(6))) == [0, 1, 4, 9, 16, 25]
    assert dict(two.finished(errands.slowly, range(6))) == {i: i**2 for i in range(6)}
    assert task.HOME not in two.ordered(errands.home, range(4))
    assert set(ALONE.ordered(errands.home, range(2))) == {task.HOME}


def test_items_are_taken_when_somebody_is_about_to_be_free(two):
    taken = []

    def numbers():
        for number in range(50):
            taken.append(number)
            yield number

    found = two.ordered(abs, numbers())
    assert [next(found), next(found)] == [0, 1]
    assert len(taken) <= 6
    found.close()


def test_an_error_of_one_is_raised_in_its_place(two):
    found = two.ordered(errands.failing, range(6))
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(found)
    assert not two.died


@pytest.mark.parametrize("times", [1, 99])
def test_a_worker_that_dies_costs_time_and_nothing_else(times, tmp_path, two):
    """Done again by another; or here, if whoever takes it dies."""
    two.died = 0
    assert list(two.ordered(errands.Fatal(tmp_path, times, task.HOME), range(6))) == [i**2 for i in range(6)]
    assert two.died >= min(times, 3)


def test_who_is_too_late_is_not_waited_for(two):
    """And nobody is given in their place."""
    found = list(two.ordered(errands.slowly, [-40, 5], lambda: 0.05))
    assert found == []
    assert list(two.ordered(abs, [1])) == [1]


def test_a_large_work_is_kept_in_a_file_that_goes_when_the_workers_do():
    big = bytes(2 * engines.IN_TASKS).count  # a method of all these bytes
    with Workers.of(2) as workers:
        assert list(workers.ordered(big, [b"\0", b"1"])) == [2 * engines.IN_TASKS, 0]
        folder = workers.engine._folder.path
        assert len([one for one in folder.iterdir() if one.name != growing.LOCK]) == 1
    assert not folder.exists()


def test_what_cannot_be_sent_is_done_here(two):
    assert list(two.ordered(lambda number: (number, task.HOME), [7])) == [(7, task.HOME)]


def test_the_backend_that_joblib_is_configured_with_is_used(tmp_path):
    assert Workers.of() is ALONE
    with joblib.parallel_config("threading", n_jobs=3):
        workers = Workers.of()
        assert workers.jobs == 3 and list(workers.ordered(errands.slowly, range(20))) == [i**2 for i in range(20)]
        with pytest.raises(ValueError, match="three"):
            list(workers.ordered(errands.failing, range(6)))
        assert Workers.of(1) is ALONE, "who names a number gets it"
    with joblib.parallel_config("loky", n_jobs=2):
        workers = Workers.of()
        assert list(workers.ordered(errands.Fatal(tmp_path, 1, task.HOME), range(4))) == [0, 1, 4, 9]
        assert workers.died


@pytest.mark.parametrize(("extra", "address"), [("ray", "auto"), ("ray", "ray://nowhere:1"), ("dask", "tcp://x:1")])
def test_without_the_extra_a_cluster_says_what_to_install(extra, address, monkeypatch):
    monkeypatch.setitem(sys.modules, {"ray": "ray", "dask": "distributed"}[extra], None)
    with pytest.raises(InputError, match=rf"a cluster at '{address}' needs .*pip install 'bornfair\[{extra}\]'"):
        Workers.of(cluster=address)


def test_what_is_no_cluster_and_no_number_is_refused():
    with pytest.raises(InputError, match="cluster='spark://x' is not known; write 'auto' or 'ray://HOST:PORT'"):
        Workers.of(cluster="spark://x")
    for wrong in (0, 1.5, True):
        with pytest.raises(InputError, match="jobs is a whole number from 1 on"):
            Workers.of(wrong)
